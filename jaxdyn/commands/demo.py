"""`jaxdyn demo` simulates a batch of rollouts of a biped with closed loops, and differentiates through a rollout.

Both feet are fixed to the world, and the motors follow squats by joint PD control. Each rollout has its own link
masses, target and initial velocity. All arrays are float64.
"""

import dataclasses
import importlib.metadata
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from tqdm import tqdm

from ..constrained.forward_dynamics import Result, forward_dynamics
from ..dynamics.constraint_terms import constraint_jacobian, constraint_residual
from ..kinematics.assemble import assemble
from ..kinematics.frames import anchored
from ..loaders.load import load
from ..model.model import Model
from ..model.pairs import Point, Weld
from ..model.state import State
from ..model.transmission import Coupling
from ..simulate.rollout import simulate
from ..spatial.instances import counted
from .output import check_writable, save_arrays, save_plot
from .rollouts import null_space
from .terminal import tell

CASSIE = "robots/cassie_description/robots/cassie_v2.sdf"
#: seconds per step, and steps in one compiled piece (also the length of the rollout that is differentiated)
DT, CHUNK = 1e-3, 20
#: number of steps between two saved samples
EVERY = 10


@dataclasses.dataclass(frozen=True)
class Biped:
    """A robot of the demo. Names of joints are without ``left`` or ``right``. `pose` is a guess of the stance, `squat`
    the largest change of each motor's target, `gains` its stiffness and damping, `slack` the joints whose springs are
    at rest in the stance."""

    source: str
    load: Callable[[], Model]
    separator: str
    pose: dict[str, float]
    squat: dict[str, float]
    gains: dict[str, tuple[float, float]]
    slack: tuple[str, ...]
    foot: str

    def both(self, names) -> list[str]:
        return [side + self.separator + n for side in ("left", "right") for n in names]


def cassie_path() -> Path | None:
    """Return the path of Cassie in `example-robot-data`, which is not imported; None if it is not installed."""
    try:
        files = importlib.metadata.distribution("example-robot-data").files or ()
    except importlib.metadata.PackageNotFoundError:
        return None
    found = [Path(str(f.locate())) for f in files if f.as_posix().endswith(CASSIE)]
    return next((f for f in found if f.is_file()), None)


def bipeds(path: Path | None) -> Biped:
    """Return the robot of the demo: Cassie from the file `path`, or, if it is None, the robot that jaxdyn ships."""
    if path is None:
        return Biped(
            "strider, which jaxdyn ships (Cassie needs: pip install example-robot-data)",
            lambda: load("strider"),
            "_",
            {},
            {"hip": 0.0, "thigh": 0.25, "shin": -0.5, "crank": 0.2},
            {"hip": (100.0, 4.0), "thigh": (120.0, 4.0), "shin": (150.0, 4.0), "crank": (20.0, 0.4)},
            ("lever",),
            "foot",
        )
    return Biped(
        path.name,
        lambda: load(path),
        "-",
        {
            "pitch-op": 0.5,
            "knee-op": -0.4,
            "shin-tarsus-joint": 0.55,
            "tarsus-crank-joint": -1.6,
            "crank-rod-joint": 1.5,
            "foot-op": -1.6,
        },
        {"roll-op": 0.0, "yaw-op": 0.0, "pitch-op": 0.3, "knee-op": -0.6, "tarsus-crank-joint": 0.3},
        {
            "roll-op": (400.0, 3.0),
            "yaw-op": (200.0, 2.0),
            "pitch-op": (400.0, 3.0),
            "knee-op": (400.0, 3.0),
            "tarsus-crank-joint": (50.0, 0.3),
        },
        ("knee-shin-joint", "tarsus-spring-joint"),
        "foot",
    )


class Plan(NamedTuple):
    """The data that all rollouts share: the model, the constraints, the stance q, and PD gains and the squat as (nv,)
    arrays, which are zero for joints without a motor."""

    model: Model
    constraints: tuple
    q: Array
    stiffness: Array
    damping: Array
    squat: Array


class Lane(NamedTuple):
    """The numbers of one rollout: link masses (nb,), depth of the squat, and the current state."""

    mass: Array
    depth: Array
    state: State


def prepare(biped: Biped) -> Plan:
    """Return the plan of a robot: close its loops with slack springs, fix the feet to the world, and set the gains."""
    model = biped.load()
    guess = np.array(model.neutral())
    for name, x in biped.pose.items():
        for joint in biped.both([name]):
            guess[model.q_slice(joint)] = x
    slack = tuple(Coupling((j,), (1.0,)) for j in biped.both(biped.slack))
    # with the digits of a file, loops close to about 1e-8 m
    q = jax.jit(lambda q: assemble(model, q, constraints=model.constraints + slack, tol=1e-10))(guess)
    # without a yaw joint, two welded feet would be nearly redundant; as points they are not
    hold = Weld if model.name == "cassie" else Point
    feet = tuple(anchored(model, q, hold(f, name=f)) for f in biped.both([biped.foot]))
    gains = np.zeros((3, model.nv))
    for name, (stiffness, damping) in biped.gains.items():
        for joint in biped.both([name]):
            gains[:, model.v_slice(joint).start] = stiffness, damping, biped.squat[name]
    return Plan(model, model.constraints + feet, q, *map(jnp.asarray, gains))


def posture(plan: Plan, q: Array) -> Array:
    """Return the coordinates of joints at the places of their velocities (nv,), zero for joints with quaternions."""
    model = plan.model
    kinds = enumerate(model.topology.kinds)
    return jnp.concatenate(
        [q[model.topology.q_slice(b)] if k.nq == k.nv else jnp.zeros(k.nv, q.dtype) for b, k in kinds]
    )


def rollout(plan: Plan, lane: Lane, start: Array):
    """Return the trajectory of `CHUNK` steps of one rollout from the time `start`."""
    model = plan.model.replace({"bodies.mass": lane.mass})
    home = posture(plan, plan.q)

    def control(state: State, t: Array) -> Array:
        depth = lane.depth * 0.5 * (1 - jnp.cos(2 * jnp.pi * (start + t)))
        error = home + depth * plan.squat - posture(plan, state.q)
        return plan.stiffness * error - plan.damping * state.v

    return simulate(model, lane.state, control, DT, steps=CHUNK, constraints=plan.constraints)


def piece(plan: Plan, lane: Lane, start: Array):
    """Return the lane after `CHUNK` steps, samples (q, v), the widest opening of a loop, and the number of failed
    solves."""
    traj = rollout(plan, lane, start)
    opening = jax.vmap(lambda q: jnp.abs(constraint_residual(plan.model, q, plan.constraints)).max())(traj.q[1:])
    failed = jnp.sum(traj.result != Result.successful)
    samples = traj.q[EVERY::EVERY], traj.v[EVERY::EVERY]
    return lane._replace(state=traj[-1]), samples, opening.max(), failed


def lanes_of(plan: Plan, along: np.ndarray, batch: int, seed: int = 0) -> Lane:
    """Return lanes with random masses within 20%, random squats, and random velocities that keep loops closed."""
    rng = np.random.default_rng(seed)
    model = plan.model
    mass = np.asarray(model.bodies.mass) * rng.uniform(0.8, 1.2, (batch, model.nb))
    v = 0.1 * (along @ rng.standard_normal((along.shape[1], batch))).T
    q = np.broadcast_to(np.asarray(plan.q), (batch, model.nq))
    return Lane(jnp.asarray(mass), jnp.asarray(rng.uniform(0.2, 1.0, batch)), State(q, v))


def weights_of(plan: Plan) -> np.ndarray:
    """Return the weights of the final state (q, v) in the weighted sum that is differentiated."""
    return np.random.default_rng(1).standard_normal(plan.model.nq + plan.model.nv)


def compiled_gradient(plan: Plan, lanes: Lane):
    """Return the compiled gradient of a weighted sum of the final state, with respect to the initial velocity and the
    masses."""
    lane = jax.tree.map(lambda x: x[0], lanes)

    def final(v, mass):
        end = rollout(plan, lane._replace(mass=mass, state=State(lane.state.q, v)), jnp.zeros(()))[-1]
        return jnp.concatenate([end.q, end.v]) @ weights_of(plan)

    return jax.jit(jax.grad(final, (0, 1))).lower(lane.state.v, lane.mass).compile()


def gradient_error(plan: Plan, lanes: Lane, gradient, many, along: np.ndarray) -> tuple[float, float]:
    """Return the largest relative errors of the gradient, for the initial velocity and for the masses, compared with
    central differences of fourth order. The compiled batch computes the differences."""
    model, rng = plan.model, np.random.default_rng(2)
    batch = lanes.depth.shape[0]
    lane = jax.tree.map(lambda x: x[0], lanes)
    by_v, by_mass = gradient(lane.state.v, lane.mass)
    points = np.array([-2.0, -1.0, 1.0, 2.0])
    stencil = np.array([1.0, -8.0, 8.0, -1.0]) / 12
    count = min(6, batch // 8)
    dv = np.zeros((2 * count, model.nv))
    dm = np.zeros((2 * count, model.nb))
    dv[:count] = (along @ rng.standard_normal((along.shape[1], count))).T * 1e-3
    dm[count:] = np.asarray(lane.mass) * rng.standard_normal((count, model.nb)) * 1e-3

    def shift(x, d):
        """Return the lanes of a stencil along each direction; the remaining lanes are copies of the first."""
        moves = (points[None, :, None] * d[:, None]).reshape(-1, d.shape[1])
        return x.at[: len(moves)].add(jnp.asarray(moves))

    same = jax.tree.map(lambda x: jnp.broadcast_to(x[0], x.shape), lanes)
    moved = same._replace(mass=shift(same.mass, dm), state=State(same.state.q, shift(same.state.v, dv)))
    end = many(moved, jnp.zeros(()))[0].state
    values = jnp.concatenate([end.q, end.v], 1)[: 8 * count] @ weights_of(plan)
    differences = np.asarray(values).reshape(2 * count, 4) @ stencil
    exact = dv @ np.asarray(by_v) + dm @ np.asarray(by_mass)
    errors = [
        np.abs(differences[s] - exact[s]).max() / np.abs(differences[s]).max()
        for s in (slice(count), slice(count, None))
    ]
    return errors[0], errors[1]


def draw(plan: Plan, t: np.ndarray, q: np.ndarray, opening: np.ndarray, pyplot):
    """Return a figure of the heights of all bases and the widest opening of a loop over time."""
    figure, (upper, lower) = pyplot.subplots(2, 1, sharex=True, figsize=(8, 6), layout="constrained")
    upper.plot(t, q[:, :, 2].T - q[0, 0, 2], color="tab:blue", alpha=0.15, linewidth=0.8)
    upper.set(ylabel="height of the base (m)", title=f"{plan.model.name}: {q.shape[0]} rollouts, feet held")
    times = DT * CHUNK * np.arange(1, len(opening) + 1)
    lower.semilogy(times, 1e6 * np.maximum(opening, 1e-16), "o-", color="tab:red")
    lower.set(xlabel="time (s)", ylabel="worst loop opening (µm)")
    return figure


def run(
    *,
    batch: int = 256,
    seconds: float = 1.0,
    out: str = "traj.npz",
    plot: str | None = "traj.png",
    shipped: bool = False,
    say=tell,
) -> int:
    """Run the demo and return the exit code: 1 if a loop opened, a solve failed or a gradient is wrong, else 0."""
    check_writable(out)
    if plot:
        check_writable(plot)
    begin = time.perf_counter()
    biped = bipeds(None if shipped else cassie_path())
    say(f"loading {biped.source}")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        plan = prepare(biped)
    for warning in caught:
        say(f"  warning: {warning.message}")
    model = plan.model
    along = null_space(np.asarray(jax.jit(constraint_jacobian)(model, plan.q, plan.constraints)))
    rows = sum(c.layout(model.topology).rows for c in plan.constraints)
    left = float(jnp.abs(jax.jit(constraint_residual)(model, plan.q, plan.constraints)).max())
    say(f"  {model}, feet held by two {type(plan.constraints[-1]).__name__.lower()}s")
    say(f"  {rows} constraint rows of rank {model.nv - along.shape[1]}, {counted(along.shape[1], 'motion')} left")
    say(f"  loops closed to {1e6 * left:.2g} µm")
    lanes = lanes_of(plan, along, batch)
    many = jax.jit(jax.vmap(partial(piece, plan), (0, None)))
    chunks = max(1, round(seconds / (DT * CHUNK)))
    say(f"compiling {batch} rollouts")
    compiled = many.lower(lanes, jnp.zeros(())).compile()
    say(f"  {time.perf_counter() - begin:.1f} s since the start")
    # compilation uses one core: meanwhile the batch simulates on the others
    background = ThreadPoolExecutor(1)
    gradient = background.submit(compiled_gradient, plan, lanes)
    states, samples, openings, failed = lanes, [], [], 0
    spent = 0.0
    for k in tqdm(range(chunks), unit="piece", desc="simulating", disable=None):
        start = time.perf_counter()
        states, sample, opening, bad = jax.block_until_ready(compiled(states, jnp.asarray(k * CHUNK * DT)))
        spent += time.perf_counter() - start
        samples.append(sample)
        openings.append(float(opening.max()))
        failed += int(bad.sum())
    say(
        f"  {batch} rollouts of {chunks * CHUNK * DT:g} s, {chunks * CHUNK} steps each, in {spent:.1f} s: "
        f"{batch / spent:.1f} rollouts/s, {1e6 * spent / (batch * chunks * CHUNK):.1f} µs a step"
    )
    last = jax.jit(jax.vmap(lambda lane: residuals(plan, lane)))(states)
    say(f"  worst loop opening {1e6 * max(openings):.3g} µm, {failed} failed solves")
    say(f"  residuals at the end: dynamics {float(last[0].max()):.2g} N m, constraints {float(last[1].max()):.2g} m/s²")
    q, v = (
        jnp.concatenate([a[:, None], *s], 1)
        for a, s in zip((lanes.state.q, lanes.state.v), zip(*samples, strict=True), strict=True)
    )
    t = DT * EVERY * np.arange(q.shape[1])
    save_arrays(out, {"t": t, "q": q, "v": v, "mass": lanes.mass, "opening": openings})
    if plot:
        save_plot(plot, partial(draw, plan, t, np.asarray(q), np.asarray(openings)))
    say(f"  wrote {out}" + (f" and {plot}" if plot else ""))
    say(f"gradient of a final state after {CHUNK} steps, by {model.nv} initial velocities and {model.nb} masses")
    by_v, by_mass = gradient_error(plan, lanes, gradient.result(), compiled, along)
    background.shutdown()
    say(f"  against central differences: velocity {by_v:.1e}, masses {by_mass:.1e}")
    good = failed == 0 and max(openings) < 1e-4 and max(by_v, by_mass) < 1e-5 and bool(jnp.isfinite(q).all())
    say(f"{'all is well' if good else 'SOMETHING IS OFF'}: {time.perf_counter() - begin:.0f} s in all")
    return 0 if good else 1


def residuals(plan: Plan, lane: Lane) -> tuple[Array, Array]:
    """Return the residuals of the equations of motion and of the constraints, in one evaluation without motor
    torques."""
    model = plan.model.replace({"bodies.mass": lane.mass})
    stats = forward_dynamics(model, lane.state, jnp.zeros(model.nv), constraints=plan.constraints).stats
    return stats.residual_dynamics, stats.residual_constraint
