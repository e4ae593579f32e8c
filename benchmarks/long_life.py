"""Measure the memory and memory maps per program that a process keeps after hundreds of robots are deleted.

    python benchmarks/long_life.py [--robots N] [--seed N] [--every N]

Robots of random structure, every second one with loops, are built, evaluated and dropped. Each compiles five programs:
forward dynamics jitted and eager, for one state and for a batch, and forward kinematics. Loaded code stays, since XLA
cannot unload it; everything else should be freed. Prints the remaining memory every few robots, and fails if it exceeds
a megabyte or four maps per program.
"""

import argparse
import ctypes
import gc
import os
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import jaxdyn as jd
from jaxdyn.engine import host

#: largest allowed memory and number of maps per program
MEGABYTES, MAPS = 1.0, 4.0
#: robots before the first reading, so that JAX and LLVM have loaded what they load once
WARM = 5

JOINTS = (
    jd.joints.Revolute,
    jd.joints.Prismatic,
    jd.joints.Spherical,
    jd.joints.Universal,
    jd.joints.Cylindrical,
    jd.joints.Planar,
    jd.joints.Helical,
    jd.joints.Free,
)


def robot(rng: np.random.Generator, number: int) -> jd.Model:
    """Return a random robot of 2 to 6 bodies, with a constraint if `number` is odd."""
    spec = jd.ModelSpec(f"robot {number}")
    count = int(rng.integers(2, 7))
    names = [f"body {k}" for k in range(count)]
    for k, name in enumerate(names):
        kind = JOINTS[int(rng.integers(len(JOINTS)))]
        parent = "world" if k == 0 else names[int(rng.integers(k))]
        options = {} if kind in (jd.joints.Free, jd.joints.Spherical) else {"axis": rng.normal(size=3)}
        if kind is jd.joints.Helical:
            options["pitch"] = 0.1
        placement = jd.Transform.from_quaternion(rng.normal(size=4), rng.normal(size=3))
        inertia = jd.Inertia(1.0 + rng.random(), 0.1 * rng.normal(size=3), np.diag(0.1 + 0.05 * rng.random(3)))
        spec.add_body(name, parent, kind(**options), placement=placement, inertia=inertia)
    if number % 2:
        kinds = (jd.constraints.Point, jd.constraints.Weld, jd.constraints.Hinge)
        spec.add_constraint(kinds[int(rng.integers(len(kinds)))](names[-1], "world"))
    return spec.build()


def live(model: jd.Model) -> None:
    """Evaluate the robot; each call compiles a program."""
    q, zero = model.neutral(), jnp.zeros(model.nv)
    state = jd.State(q, zero)
    many = jd.State(jnp.stack([q] * 3), jnp.zeros((3, model.nv)))
    accelerate = lambda m, s: jd.forward_dynamics(m, s, jnp.zeros(model.nv)).acceleration  # noqa: E731
    accelerate(model, state)
    jax.jit(accelerate)(model, state)
    jax.jit(jax.vmap(accelerate, (None, 0)))(model, many)
    jd.forward_kinematics(model, q)
    jax.block_until_ready(jax.jit(lambda m, q: jd.forward_kinematics(m, q).translation)(model, q))


def held() -> tuple[float, int]:
    """Return the megabytes and memory maps of this process, after freeing everything that can be freed."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6, Path("/proc/self/maps").read_bytes().count(b"\n")


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--robots", type=int, default=500)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--every", type=int, default=25, help="robots between two lines of output")
    options = options.parse_args()
    rng = np.random.default_rng(options.seed)
    start = None
    worst = (0.0, 0.0)
    for k in range(WARM + options.robots):
        live(robot(rng, k))
        if k == WARM - 1:
            start = (*held(), len(host._made))
        elif k >= WARM and ((k + 1 - WARM) % options.every == 0 or k + 1 == WARM + options.robots):
            memory, maps = held()
            programs = len(host._made) - start[2]
            worst = (memory - start[0]) / programs, (maps - start[1]) / programs
            print(
                f"{k + 1 - WARM} robots, {programs} programs: {memory:.0f} MB, {maps} maps; a program "
                f"{worst[0]:.2f} MB, {worst[1]:.2f} maps",
                flush=True,
            )
    return int(worst[0] > MEGABYTES or worst[1] > MAPS)


if __name__ == "__main__":
    sys.exit(main())
