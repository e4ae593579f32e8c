"""Robots come and go in one process: what stays is their code."""

import gc
import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest

import jaxdyn as jd
from jaxdyn.engine.kept import Kept

ROOT = Path(__file__).resolve().parents[1]

LIVES = """
import json, sys
sys.path.insert(0, "benchmarks")
import jax, numpy as np
import long_life
from jaxdyn.engine import host, kept

rng = np.random.default_rng(3)
found = []
for robots in (range(12), range(12, 32)):
    for k in robots:
        long_life.live(long_life.robot(rng, k))
    kept.forget()
    jax.clear_caches()
    found.append((*long_life.held(), len(host._made)))
print(json.dumps(found))
"""


@pytest.mark.first
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_robots_leave_their_code_alone():
    done = subprocess.run([sys.executable, "-c", LIVES], cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    (memory, maps, programs), (after, more, all_programs) = json.loads(done.stdout)
    count = all_programs - programs
    assert count > 60
    assert (after - memory) / count < 1.0, f"{after - memory:.0f} MB for {count} programs"
    assert (more - maps) / count < 4.0, f"{more - maps} maps for {count} programs"


def test_kept_things_are_bounded_and_shared():
    kept, made = Kept(3), []
    make = lambda k: lambda: made.append(k) or [k]  # noqa: E731
    first = kept.get(0, make(0))
    for k in range(1, 3):
        kept.get(k, make(k))
    assert kept.get(0, make(0)) is first, "what is used stays"
    kept.get(3, make(3))
    assert len(kept) == 3 and kept.get(0, make(0)) is first
    assert made == [0, 1, 2, 3]
    kept.get(1, make(1))
    assert made == [0, 1, 2, 3, 1], "the one that was not used for longest went"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_cache_goes_on_after_a_fork():
    """Forked while another thread looks up a key: its lock would never be released in the child."""
    code = """
import os, signal, threading
from jaxdyn.engine.kept import Kept
inside, forked = threading.Event(), threading.Event()
class Slow:
    def __hash__(self): return 1
    def __eq__(self, other): return inside.set() or forked.wait(30)
kept = Kept(3)
kept.get(Slow(), int)
thread = threading.Thread(target=kept.get, args=(Slow(), int))
thread.start()
inside.wait(30)
pid = os.fork()
if pid == 0:
    signal.alarm(10)
    os._exit(kept.get(2, lambda: 5))
forked.set()
thread.join()
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout == "5\n", done.stderr


def test_caches_of_the_engine_have_bounds():
    import functools

    found = [o for o in gc.get_objects() if isinstance(o, functools._lru_cache_wrapper)]
    own = [o for o in found if (o.__module__ or "").startswith("jaxdyn")]
    boundless = {f"{o.__module__}.{o.__qualname__}" for o in own if o.cache_info().maxsize is None}
    # without arguments, or a few bytes for each program whose code stays
    assert boundless <= {
        "jaxdyn.engine.calls._partitionable",
        "jaxdyn.engine.cuda._unavailable",
        "jaxdyn.engine.cuda.driver",
        "jaxdyn.engine.host._compiler",
        "jaxdyn.engine.ptx.target",
        "jaxdyn.engine.runtime.library",
        "jaxdyn.engine.runtime.version",
    }


def test_equal_robots_share_a_program():
    from jaxdyn.engine import host

    def solve():
        model = jd.load("four_bar")
        jd.forward_dynamics(model, jd.State(model.neutral(), [0.0] * 3), [0.0] * 3).acceleration.block_until_ready()
        return len(host._made)

    assert solve() == solve()


def test_programs_of_policies_go():
    """Outside of `jit` each call with a policy is compiled anew: JAX must not keep what it compiles."""
    model = jd.load("four_bar")
    state = jd.State(model.neutral(), [0.0] * 3)
    client = jax.devices()[0].client

    def alive():
        gc.collect()
        return len(client.live_executables())

    def call(k):
        roll = lambda gain: jd.simulate(model, state, lambda s, t: -gain * k * s.v, 1e-3, steps=2).q.sum()  # noqa: E731
        return jd.simulate(model, state, lambda s, t: -k * s.v, 1e-3, steps=2), jax.grad(roll)(0.5)

    call(1.0)
    before = alive()
    for k in (2.0, 3.0):
        call(k)
    assert alive() == before
