"""Random robots with loops, dependent rows, and masses that differ by many orders of magnitude: what solvers find hard.

`python tests/hard_problems.py --first 100 --robots 50` solves many of them with every solver that takes any rows, and
lists accelerations that are wrong although the result says that they are right, and right ones that it calls wrong.
"""

import argparse
import sys
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import oracle

import jaxdyn as jd

#: wrong beyond this, relative to the largest of 1, the accelerations, and those without constraints
RULE = {"float64": 1e-6, "float32": 1e-3}
JOINTS = ("Revolute", "Revolute", "Prismatic", "Spherical", "Universal", "Free")
LOOPS = ("Point", "Hinge", "Weld", "Distance", "Cylinder")


class Problems(NamedTuple):
    """A robot at one pose, where its loops are closed, with masses (n, nb), velocities and forces (n, nv), and whether
    rows contradict each other."""

    model: jd.Model
    q: np.ndarray
    mass: np.ndarray
    v: np.ndarray
    tau: np.ndarray


def rotation(rng) -> np.ndarray:
    q, _ = np.linalg.qr(rng.standard_normal((3, 3)))
    return q * np.sign(np.linalg.det(q))


def tree(rng, nb: int, planar: bool) -> jd.ModelSpec:
    """Bodies on random joints, in planar robots on parallel hinges; lengths over three orders of magnitude."""
    spec = jd.ModelSpec("hard")
    names = ["world"]
    for b in range(nb):
        parent = names[-1] if rng.random() < 0.6 else names[rng.integers(len(names))]
        kind = "Revolute" if planar else JOINTS[rng.integers(len(JOINTS) if parent == "world" else len(JOINTS) - 1)]
        axis = (0.0, 1.0, 0.0) if planar or rng.random() < 0.3 else tuple(rng.standard_normal(3))
        turned = {"axis": axis} if kind in ("Revolute", "Prismatic") else {}
        size = 10 ** rng.uniform(-1.5, 1.5)
        radii = rng.uniform(0.1, 1, 3) ** 2 * size**2
        turning = rotation(rng)
        moments = turning @ np.diag(radii.sum() - radii) @ turning.T
        inertia = jd.Inertia(1.0, 0.3 * size * rng.standard_normal(3), moments)
        offset = size * rng.standard_normal(3) * ([1, 0, 1] if planar else 1)
        placement = jd.Transform(np.eye(3) if planar else rotation(rng), offset)
        spec.add_body(f"b{b}", parent, getattr(jd.joints, kind)(**turned), placement=placement, inertia=inertia)
        names.append(f"b{b}")
    return spec


def loop(rng, model, q, names, planar: bool):
    """A constraint between two bodies that holds at q."""
    kind = ("Point", "Hinge")[rng.integers(2)] if planar else LOOPS[rng.integers(len(LOOPS))]
    a, b = names[1 + rng.integers(len(names) - 1)], names[rng.integers(len(names))]
    b = "world" if a == b else b
    R, p = oracle.poses(model, q)
    at = lambda n: (np.eye(3), np.zeros(3)) if n == "world" else (R[int(n[1:])], p[int(n[1:])])  # noqa: E731
    (Ra, pa), (Rb, pb) = at(a), at(b)
    arm = 0.3 * rng.standard_normal(3) * ([1, 0, 1] if planar else 1)
    own = jd.Transform(np.eye(3) if planar else rotation(rng), arm)
    turn, where = Ra @ np.asarray(own.rotation), pa + Ra @ np.asarray(own.translation)
    gap = 0.5 * rng.standard_normal(3) if kind == "Distance" else np.zeros(3)
    other = jd.Transform(Rb.T @ turn, Rb.T @ (where + gap - pb))
    more = {"length": float(np.linalg.norm(gap))} if kind == "Distance" else {}
    if kind == "Hinge" and planar:
        more = {"axis": (0.0, 1.0, 0.0)}
    make = getattr(jd.constraints, kind)
    return make(a, b, placement_a=own, placement_b=other, stabilization=None, **more)


def pose(rng, model) -> np.ndarray:
    """Random coordinates, every fourth time at right angles."""
    away = rng.uniform(-2, 2, model.nv)
    if rng.random() < 0.25:
        away = rng.choice([0, np.pi / 2, np.pi], model.nv)
    return np.asarray(jd.integrate(model, np.asarray(model.neutral()), away))


def problems(seed: int, n: int = 16) -> Problems:
    """A random robot of 2 to 8 bodies and one to three loops, some of them twice, some robots with a gear; masses over
    `seed % 4` times two orders of magnitude."""
    rng = np.random.default_rng(seed)
    nb, planar = int(rng.integers(2, 9)), seed % 3 == 0
    spec = tree(rng, nb, planar)
    model = spec.build()
    q = pose(rng, model)
    names = ["world", *model.topology.body_names]
    for _ in range(int(rng.integers(1, 4))):
        spec.add_constraint(loop(rng, model, q, names, planar))
        if rng.random() < 0.25:
            spec.add_constraint(spec.constraints[-1])
    single = [j for j, k in zip(model.topology.joint_names, model.topology.kinds, strict=True) if k.nv == 1]
    if len(single) > 1 and rng.random() < 0.4:
        pair = tuple(rng.choice(single, 2, replace=False).tolist())
        spec.add_constraint(jd.constraints.Coupling(pair, (1.0, 3 * rng.standard_normal()), stabilization=None))
    model = spec.build()
    mass = 10 ** rng.uniform(-(seed % 4), seed % 4, (n, nb))
    J = oracle.constraint_jacobian(model, q)
    v, tau = rng.standard_normal((n, model.nv)), rng.standard_normal((n, model.nv))
    v = v - v @ J.T @ np.linalg.pinv(J.T, rcond=1e-9)
    return Problems(model, q, mass, v, tau)


def heavy(model, mass):
    """The robot with other masses, and moments in proportion."""
    return model.replace({"bodies.mass": mass, "bodies.rotational": mass[:, None, None] * model.bodies.rotational})


def cast(tree, dtype):
    """All floating point numbers of a tree, rounded."""
    return jax.tree.map(lambda x: x.astype(dtype) if eqx.is_inexact_array(x) else x, tree)


class Errors(NamedTuple):
    """By problem: the error beside the oracle, what rows contradict each other by, and how far the solution moves with
    the last digit of the input, all by the scale of `RULE`; how far rows are from depending on each other; and whether
    the result is the successful one."""

    off: np.ndarray
    odds: np.ndarray
    moved: np.ndarray
    kept: np.ndarray
    told: np.ndarray


def errors(given: Problems, solver, dtype) -> Errors:
    rounded = cast(given.model, dtype)

    @jax.jit
    @jax.vmap
    def solve(mass, v, tau):
        model = heavy(rounded, mass)
        found = jd.forward_dynamics(model, jd.State(jnp.asarray(given.q, dtype), v), tau, solver=solver)
        return found.acceleration, found.result == jd.Result.successful

    numbers = [np.asarray(x, dtype) for x in (given.mass, given.v, given.tau)]
    found, told = solve(*map(jnp.asarray, numbers))
    model, q = cast(rounded, np.float64), given.q.astype(dtype).astype(float)
    tolerance, eps = 1e-9 if dtype == np.float64 else 1e-5, np.finfo(dtype).eps
    rows = []
    for k, a in enumerate(np.asarray(found, float)):
        mass, v, tau = (x[k].astype(float) for x in numbers)
        wanted = oracle.forward_dynamics(heavy(model, mass), q, v, tau, tolerance=tolerance)
        free = oracle.forward_dynamics(heavy(model, mass), q, v, tau, constraints=())
        scale = max(1.0, np.abs(wanted.acceleration).max(), np.abs(free.acceleration).max())
        last = 1 + eps * np.random.default_rng(k).uniform(-1, 1, mass.shape)
        other = oracle.forward_dynamics(heavy(model, mass * last), q * (1 + eps), v, tau, tolerance=tolerance)
        far = [np.abs(x - wanted.acceleration).max() for x in (a, other.acceleration)]
        kept = wanted.singular_values[: wanted.rank]
        rows.append((far[0] / scale, wanted.conflict / scale, far[1] / scale, kept.min() / kept.max()))
    return Errors(*np.array(rows).T, np.asarray(told))


def judged(found: Errors, dtype) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Which problems are solved and told so, which are wrong though told to be right, and which are right and well
    posed though told to be wrong."""
    rule = RULE[np.dtype(dtype).name]
    right = found.off <= rule
    posed = (found.moved <= 0.1 * rule) & (found.off > 100 * found.moved) & (found.kept > rule)
    return found.told & right, found.told & ~right & posed, ~found.told & right & (found.odds <= rule)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--robots", type=int, default=20)
    asked = parser.parse_args()
    counts = {"problems": 0, "solved": 0, "wrong, not told": 0, "right, called wrong": 0}
    for seed in range(asked.first, asked.first + asked.robots):
        given = problems(seed)
        for dtype in (np.float64, np.float32):
            for name in ("LCABA", "ProxBBO", "Unified", "ProxLTL"):
                found = errors(given, getattr(jd.solvers, name)(), dtype)
                solved, silent, alarm = judged(found, dtype)
                counts["problems"] += len(solved)
                counts["solved"] += int(solved.sum())
                counts["wrong, not told"] += int(silent.sum())
                counts["right, called wrong"] += int(alarm.sum())
                for k in np.flatnonzero(silent | alarm):
                    print(seed, k, np.dtype(dtype).name, name, "not told" if silent[k] else "alarm", found.off[k])
        print(seed, given.model.nb, "bodies", counts, flush=True)
    sys.exit(bool(counts["wrong, not told"]))


if __name__ == "__main__":
    assert jax.config.read("jax_enable_x64"), "the oracle is in double precision: set JAX_ENABLE_X64=1"
    main()
