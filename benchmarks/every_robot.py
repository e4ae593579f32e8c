"""Run every public function on every robot of example-robot-data, eagerly and jitted, in one process.

    python benchmarks/every_robot.py [--only REGEX] [--seconds N]

Prints one line per robot: joints, seconds, programs compiled so far, memory maps and memory of the process. Failures
are printed and counted; the exit code is their number.
"""

import argparse
import re
import sys
import time
import warnings
from importlib.metadata import distribution
from pathlib import Path

import jax
import jax.numpy as jnp

import jaxdyn as jd
from jaxdyn.engine import host


def robots() -> list[Path]:
    """Return the URDF and SDF files of the package."""
    root = Path(str(distribution("example-robot-data").locate_file("cmeel.prefix/share/example-robot-data/robots")))
    return sorted(p for p in root.rglob("*") if p.suffix in (".urdf", ".sdf"))


def functions(model: jd.Model) -> dict:
    """Return the public functions as functions of (q, v, tau), by name."""
    state = jd.State
    frame = model.body_names[-1]
    cut = bool(model.constraints)
    found = {
        "forward_kinematics": lambda q, v, t: jd.forward_kinematics(model, q).translation,
        "frame_pose": lambda q, v, t: jd.frame_pose(model, q, frame).translation,
        "frame_velocity": lambda q, v, t: jd.frame_velocity(model, state(q, v), frame),
        "jacobian": lambda q, v, t: jd.jacobian(model, q, frame),
        "inverse_dynamics": lambda q, v, t: jd.inverse_dynamics(model, state(q, v), t),
        "mass_matrix": lambda q, v, t: jd.mass_matrix(model, q),
        "gravity_forces": lambda q, v, t: jd.gravity_forces(model, q),
        "bias_forces": lambda q, v, t: jd.bias_forces(model, state(q, v)),
        "passive_forces": lambda q, v, t: jd.passive_forces(model, state(q, v)),
        "potential_energy": lambda q, v, t: jd.potential_energy(model, q),
        "kinetic_energy": lambda q, v, t: jd.kinetic_energy(model, state(q, v)),
        "center_of_mass": lambda q, v, t: jd.center_of_mass(model, q),
        "centroidal_momentum": lambda q, v, t: jd.centroidal_momentum(model, state(q, v)),
        "integrate": lambda q, v, t: jd.integrate(model, q, v, 0.1),
        "difference": lambda q, v, t: jd.difference(model, q, q),
        "forward_dynamics": lambda q, v, t: jd.forward_dynamics(model, state(q, v), t),
        "its gradient": lambda q, v, t: jax.grad(
            lambda v: jd.forward_dynamics(model, state(q, v), t).acceleration.sum()
        )(v),
        "step": lambda q, v, t: jd.step(model, state(q, v), t, 1e-3),
        "simulate": lambda q, v, t: jd.simulate(model, state(q, v), jnp.zeros((3, model.nv)), dt=1e-3).q,
    }
    if cut:
        found |= {
            "constraint_jacobian": lambda q, v, t: jd.constraint_jacobian(model, q),
            "constraint_bias": lambda q, v, t: jd.constraint_bias(model, state(q, v)),
            "constraint_residual": lambda q, v, t: jd.constraint_residual(model, q),
            "impulse": lambda q, v, t: jd.impulse(model, state(q, v)),
        }
    return found


def memory() -> tuple[int, float]:
    """Return the number of memory maps and the gigabytes of this process, where Linux reports them."""
    maps = Path("/proc/self/maps")
    if not maps.exists():
        return 0, 0.0
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return maps.read_bytes().count(b"\n"), pages * 4096 / 1e9


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="paths that match")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no robot after so long")
    args = parser.parse_args()
    failures, begun, most = 0, time.perf_counter(), 0.0
    paths = [p for p in robots() if re.search(args.only, str(p))]
    for count, path in enumerate(paths):
        if time.perf_counter() - begun > args.seconds:
            print(f"{len(paths) - count} robots not tried", flush=True)
            break
        start = time.perf_counter()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = jd.load(path)
            q, v = model.neutral(), jnp.zeros(model.nv)
        except Exception as error:
            print(f"{path.name}: not loaded: {str(error)[:120]}", flush=True)
            continue
        for name, f in functions(model).items() if model.nb else ():
            try:
                jax.block_until_ready(f(q, v, v))
                jax.block_until_ready(jax.jit(f)(q, v, v))
            except Exception as error:
                failures += 1
                print(f"{path.name}: {name}: {type(error).__name__}: {str(error)[:200]}", flush=True)
        maps, size = memory()
        most = max(most, size)
        seconds = time.perf_counter() - start
        print(
            f"{path.name}: nv {model.nv}, {seconds:.1f} s, {len(host._made)} kernels, {maps} maps, {size:.2f} GB",
            flush=True,
        )
        jax.clear_caches()
    print(f"{failures} failures, at most {most:.2f} GB")
    return failures


if __name__ == "__main__":
    sys.exit(main())
