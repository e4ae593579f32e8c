"""Operations that only a branch reads belong to the branch, and give the same bits there."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from catalogue import CATALOGUE
from compiled import states
from jax import lax
from scalar_help import bits, kernel, needs_kernels
from test_scalarise_control import direct

import jaxdyn as jd
from jaxdyn.engine import host, inline, kernels, order
from jaxdyn.engine.lanes import laned
from jaxdyn.engine.live import trim
from jaxdyn.engine.ops import Branches, Loop, Op

pytestmark = needs_kernels

MANY = 200
COUNT = 23


def long(x, op):
    """Many operations that cannot be shared with those of another `op`."""
    for k in range(MANY):
        x = op(x) * 0.9 + 0.1 * k
    return x


def read_there(x, n):
    """Square roots are for the branch alone."""
    y = long(jnp.abs(x[0]), jnp.sqrt)
    return lax.cond(n > 3, lambda: long(y, jnp.abs), lambda: x[1])


def read_twice(x, n):
    """The same, and read after the branch too."""
    y = long(jnp.abs(x[0]), jnp.sqrt)
    return lax.cond(n > 3, lambda: long(y, jnp.abs), lambda: x[1]) + y


def read_in_both(x, n):
    y = long(jnp.abs(x[0]), jnp.sqrt)
    return lax.cond(n > 3, lambda: long(y, jnp.abs), lambda: long(y, jnp.floor))


def read_in_loop(x, n):
    y = long(jnp.abs(x[0]), jnp.sqrt)
    return lax.while_loop(lambda c: c[1] < n, lambda c: (long(y + c[0], jnp.abs), c[1] + 1), (x[1], jnp.int32(0)))[0]


def loop_in_branch(x, n):
    """The loop does not repeat the square roots, but those who do not take the branch are spared them."""
    y = long(jnp.abs(x[0]), jnp.sqrt)

    def branch():
        step = lambda c: (long(y + c[0], jnp.abs), c[1] + 1)  # noqa: E731
        return long(lax.while_loop(lambda c: c[1] < n, step, (x[1], jnp.int32(0)))[0], jnp.floor)

    return lax.cond(n > 3, branch, lambda: x[1])


def branch_in_loop(x, n):
    """Not even a branch in the loop repeats them."""
    y = long(jnp.abs(x[0]), jnp.sqrt)
    branch = lambda c: lax.cond(c[1] % 2 == 0, lambda: long(y + c[0], jnp.abs), lambda: c[0])  # noqa: E731
    return lax.while_loop(lambda c: c[1] < n, lambda c: (branch(c), c[1] + 1), (x[1], jnp.int32(0)))[0]


def nested(x, n):
    y = long(jnp.abs(x[0]), jnp.sqrt)
    inner = lambda: lax.cond(n > 5, lambda: long(y, jnp.floor), lambda: x[2])  # noqa: E731
    return lax.cond(n > 3, lambda: long(x[2], jnp.abs) + inner(), lambda: x[1])


#: function: the owners of the regions around the square roots, from the outside
CASES = {
    read_there: [Branches],
    read_twice: [],
    read_in_both: [],
    read_in_loop: [],
    loop_in_branch: [Branches],
    branch_in_loop: [],
    nested: [Branches, Branches],
}


def operands():
    rng = np.random.default_rng(7)
    return jnp.asarray(rng.normal(size=(COUNT, 3))), jnp.asarray(np.arange(COUNT) * 7 % 11 - 2, jnp.int32)


def programs(f, *args):
    """The programs of a batched function."""
    with kernels.watching() as seen:
        jax.jit(jax.vmap(f)).lower(*args)
    found = []
    for entry in seen:
        found.append(kernels.program_of(*entry))
        trim(found[-1], entry[1])
    return found


def around(program, region):
    found = []
    while region:
        found.append(type(program.regions[region].owner))
        region = program.regions[region].parent
    return found[::-1]


@pytest.fixture
def nothing_sinks(monkeypatch):
    def without(f):
        with monkeypatch.context() as patch:
            for module in (inline, order):
                patch.setattr(module, "sink", lambda s, live: None)
            kernels._kernel.cache_clear()
            patch.setenv("JAXDYN_CACHE_DIR", "")
            patch.setattr(host, "_compiler", lambda: b"another")  # or programs made before would be taken
            found = f()
        kernels._kernel.cache_clear()
        return found

    return without


@pytest.mark.parametrize("f", CASES, ids=lambda f: f.__name__)
def test_operations_go_where_they_are_read(f):
    (program,) = programs(laned(direct(f)), *operands())
    s = order.schedule(program)
    roots = {s.program.region[v] for body in s.body.values() for v in body if isinstance(v, int) and s.op[v] == Op.sqrt}
    assert len(roots) == 1
    assert around(s.program, roots.pop()) == CASES[f]
    placed = [v for body in s.body.values() for v in body if isinstance(v, int)]
    assert len(placed) == len(set(placed))  # each once


@pytest.mark.parametrize("f", CASES, ids=lambda f: f.__name__)
def test_bits_are_the_same(f, nothing_sinks):
    found = kernel(direct(f), *operands())
    assert np.isfinite(found).all()
    np.testing.assert_array_equal(bits(found), bits(nothing_sinks(lambda: kernel(direct(f), *operands()))))


@pytest.mark.parametrize("mode", ["straight", "called"])
@pytest.mark.parametrize("name", ["LCABA", "ProxBBO"])
def test_solvers_give_the_same_bits(name, mode, nothing_sinks, monkeypatch):
    """Of the last steps, which most lanes do not need, more is left to those who do."""
    monkeypatch.setenv("JAXDYN_STEPS", mode)
    model = CATALOGUE["crossing_loops"].build()
    args = [jnp.asarray(x) for x in states("crossing_loops")]
    solver = getattr(jd.solvers, name)()

    def solve(q, v, tau):
        return jd.forward_dynamics(model, jd.State(q, v), tau, solver=solver).acceleration

    def run():
        return jax.jit(jax.vmap(solve))(*args)

    def done_by_all():
        (program,) = programs(solve, *args)
        s = order.schedule(kernels.arranged(program, mode, 2))
        size = lambda st: st.template.size if hasattr(st, "template") else isinstance(st, int)  # noqa: E731
        return sum(map(size, s.body[0]))

    found, many = run(), done_by_all()
    jax.clear_caches()
    other, more = nothing_sinks(run), nothing_sinks(done_by_all)
    np.testing.assert_array_equal(bits(found), bits(other))
    assert many < 0.98 * more


def test_what_all_lanes_share_stays_outside():
    """It is computed once a call, not once a lane."""
    with kernels.watching() as seen:
        jax.jit(jax.vmap(laned(direct(read_there)))).lower(*operands())
    core, used, avals, _ = seen[0]
    s = order.schedule(kernels.program_of(core, used, avals, (True, False)))
    assert sum(s.op[v] == Op.sqrt for v in s.uniform) == MANY


def test_loops_are_left_alone():
    """A loop's own operations stay in it."""
    (program,) = programs(laned(direct(read_in_loop)), *operands())
    s = order.schedule(program)
    assert {type(o) for o in s.program.owners} == {Loop}
    assert s.program.region == program.region
