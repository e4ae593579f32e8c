"""Forward dynamics of one robot in several forms (embedded, loops cut, without rotors), with the error of each."""

import dataclasses
import time
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from lane_operations import lane_operations

import jaxdyn as jd
from jaxdyn.engine import kernels
from jaxdyn.engine.facts import facts
from jaxdyn.solvers import ABA, LCABA, PV, ProxLTL, Solver

#: states whose accelerations are compared with dense algebra
COMPARED = 16
#: batches that a program evaluates one after the other, because a call takes as long as hundreds of small robots
TURNS = 16
#: forms to measure, by name
FORMS = {
    "embedded": "all loops embedded",
    "bodies": "embedded, rotors as bodies and not as gyrostats",
    "PV": "all loops embedded, feet by PV",
    "LCABA": "loops cut",
    "ProxLTL": "loops cut",
    "free": "ABA of the tree, rotors and loops free",
    "approximate": "ABA of a tree without rotors",
}
#: forms in independent coordinates
EMBEDDED = ("embedded", "bodies", "PV")


@dataclasses.dataclass(frozen=True)
class Robot:
    """A robot with its loops cut, additional constraints `held` that are never embedded, its `approximate` model, and
    `pose`, the joint angles around which states are drawn."""

    cut: jd.Model
    held: tuple = ()
    approximate: jd.Model | None = None
    pose: dict[str, float] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        object.__setattr__(self, "embedded", jd.embed(self.cut))

    @property
    def independent(self) -> np.ndarray:
        return np.asarray(self.embedded.topology.independent)

    @property
    def kept(self) -> list[int]:
        """Return the bodies whose joints the approximate model has: those with the same joint names, or else all with
        independent velocities, in the same order."""
        topology, free = self.cut.topology, set(self.independent)
        names = () if self.approximate is None else self.approximate.joint_names
        if set(names) <= set(topology.joint_names):
            return [topology.joint(n) for n in names]
        return [b for b in range(topology.nb) if free.issuperset(range(*topology.v_slice(b).indices(topology.nv)))]

    def sizes(self) -> dict[str, int]:
        rows = sum(c.layout(self.cut.topology).rows for c in (*self.cut.constraints, *self.held))
        clusters = [len(c.bodies) for c in self.embedded.topology.clusters]
        return {
            "bodies": self.cut.nb,
            "nv": self.cut.nv,
            "independent": self.embedded.nv,
            "rows": rows,
            "largest": max(clusters, default=0),
        }


def at_rest(constraints: Sequence) -> tuple:
    """Return the constraints without stabilisation, so that rounded states have the same accelerations."""
    return tuple(dataclasses.replace(c, stabilization=jd.constraints.Baumgarte(0.0, 0.0)) for c in constraints)


def states(robot: Robot, n: int, dtype) -> tuple[np.ndarray, ...]:
    """Return q, independent velocities w, and torques, all (n, ...), in double precision but rounded to `dtype`."""
    rng, model = np.random.default_rng(0), robot.embedded
    away, w, tau = rng.normal(size=(3, n, model.nv))
    start = 0.1 * away
    for joint, angle in robot.pose.items():
        start[:, model.v_slice(joint)] += angle
    home = model.neutral() if model.home is None else model.home
    near = jax.jit(jax.vmap(lambda d: jd.integrate(model, home, d, 1.0)))(jnp.asarray(start))
    return tuple(np.asarray(np.asarray(x, dtype), float) for x in (near, w, tau))


def reference(robot: Robot, q, w, tau) -> np.ndarray:
    """Return the independent accelerations (n, nv) by dense algebra of the robot with all loops cut, in the null space
    of the rows, because the KKT matrix is ill-conditioned."""
    cut, rows = robot.cut, (*at_rest(robot.cut.constraints), *robot.held)

    def parts(q, w, tau):
        v = jd.expand(robot.embedded, jd.State(q, w)).v
        state = jd.State(q, v)
        free = jnp.zeros(cut.nv).at[robot.independent].set(tau)
        force = free - jd.bias_forces(cut, state) + jd.passive_forces(cut, state)
        bias = jd.constraint_bias(cut, state, rows)
        return jd.mass_matrix(cut, q), force, jd.constraint_jacobian(cut, q, rows), bias

    found = []
    for M, force, J, bias in zip(*map(np.asarray, jax.jit(jax.vmap(parts))(q, w, tau)), strict=True):
        long = np.maximum(np.linalg.norm(J, axis=1), 1e-6)
        U, s, Vt = np.linalg.svd(J / long[:, None])
        rank = int((s > 1e-6 * s[0]).sum())
        a = -Vt[:rank].T @ ((U[:, :rank].T @ (bias / long)) / s[:rank])
        N = Vt[rank:].T
        found.append(a + N @ np.linalg.solve(N.T @ M @ N, N.T @ (force - M @ a)))
    return np.stack(found)[:, robot.independent]


def form(robot: Robot, name: str) -> tuple[jd.Model, tuple, Solver]:
    """Return the model, the constraints and the solver of a form."""
    if name in EMBEDDED:
        model = robot.embedded
        if name == "bodies":
            model = model.replace({"bodies.rotational": model.bodies.rotational})
        held = PV() if name == "PV" else LCABA()
        return model, robot.held, held if robot.held else ABA()
    if name == "approximate":
        assert robot.approximate is not None
        return robot.approximate, robot.held, LCABA() if robot.held else ABA()
    if name == "free":
        return robot.cut, (), ABA()
    solver = LCABA() if name == "LCABA" else ProxLTL()
    return robot.cut, (*at_rest(robot.cut.constraints), *robot.held), solver


def arguments(robot: Robot, name: str, q, w, tau) -> list:
    """Return the same motion in the coordinates of a form."""
    if name in EMBEDDED:
        return [q, w, tau]
    expand = jax.jit(jax.vmap(lambda q, w: jd.expand(robot.embedded, jd.State(q, w)).v))
    if name == "approximate":
        topology, kept = robot.cut.topology, robot.kept
        of_q, of_v = (
            np.concatenate([np.arange(x[b], x[b + 1]) for b in kept]) for x in (topology.q_starts, topology.v_starts)
        )
        return [q[:, of_q], np.asarray(expand(q, w))[:, of_v], tau]
    forces = np.zeros((len(q), robot.cut.nv))
    forces[:, robot.independent] = tau
    return [q, np.asarray(expand(q, w)), forces]


def solution(model: jd.Model, rows: tuple, solver: Solver) -> Callable:
    def solve(q, v, tau):
        found = jd.forward_dynamics(model, jd.State(q, v), tau, constraints=rows, solver=solver)
        return found.acceleration, found.stats.iterations

    return solve


def programs(robot: Robot, names: Sequence[str], batch: int, dtype: str) -> tuple[dict, list[Callable]]:
    """Return, by form, seconds to compile, iterations, and median and largest error relative to the largest independent
    acceleration of a state; and the functions that run the forms."""
    q, w, tau = states(robot, batch, dtype)
    exact = reference(robot, *(x[:COMPARED] for x in (q, w, tau)))
    rows, runs = {}, []
    for name in names:
        model, constraints, solver = form(robot, name)
        args = arguments(robot, name, q, w, tau)
        model, constraints = jax.tree.map(lambda x: jnp.asarray(x, dtype), (model, constraints))
        args = [jnp.tile(jnp.asarray(x, dtype), (TURNS, 1, 1)) for x in args]
        solve = jax.vmap(solution(model, constraints, solver))
        begin = time.process_time()
        run = jax.jit(lambda *x, solve=solve: jax.lax.map(lambda y: solve(*y), x)).lower(*args).compile()
        rows[name] = {"compile_seconds": round(time.process_time() - begin, 2)}
        if name not in ("free", "approximate"):
            a, steps = (np.asarray(x[0]) for x in run(*args))
            a = a if model.nv == exact.shape[1] else a[:, robot.independent]
            off = np.abs(a[:COMPARED] - exact).max(1) / np.abs(exact).max(1)
            rows[name] |= {"error": [float(f"{x:.1e}") for x in (np.median(off), off.max())]}
            rows[name]["iterations"] = int(steps.max())
        runs.append(lambda run=run, args=args: jax.block_until_ready(run(*args)))
    return rows, runs


def counts(robot: Robot, name: str) -> dict[str, int]:
    """Return the operations of an evaluation with one solve, and the operations and bytes of its machine code, in
    double precision."""
    model, rows, solver = form(robot, name)
    solver = solver if isinstance(solver, ABA) else dataclasses.replace(solver, max_steps=1, tol=0.0)
    args = [x[0] for x in arguments(robot, name, *states(robot, 1, "float64"))]
    ends = np.cumsum([len(x) for x in args])[:-1]
    solve = lambda x: solution(model, rows, solver)(*jnp.split(x, ends))[0]  # noqa: E731
    x = jnp.asarray(np.concatenate(args))
    with kernels.watching() as seen:
        jax.jit(jax.vmap(solve)).lower(x[None])
    found = [facts(*entry) for entry in dict.fromkeys(seen)]
    assert all(f.path == "kernel" for f in found)
    return {
        "operations": lane_operations(solve, x),
        "called": sum(f.operations for f in found),
        "code": sum(f.bytes for f in found),
    }
