"""`jaxdyn simulate` runs a batch of rollouts from random velocities, in pieces of one compiled function."""

import os
import time
from collections import Counter
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from ..constrained.result import result_counts
from ..contact.laws import FORMED
from ..contact.limbs import rows_of
from ..contact.places import names_of
from ..dynamics.constraint_terms import constraint_jacobian, constraint_residual
from ..kinematics.assemble import assemble
from ..model.commands import Commands
from ..model.model import Model
from ..model.state import State
from ..simulate.integrators import RK4, Gauss, ImplicitMidpoint, Leapfrog, SemiImplicitEuler
from ..simulate.rollout import simulate
from ..spatial.instances import counted
from .output import save_arrays, save_plot
from .terminal import tell
from .touching import LAWS, Touches, draw, lifted, told, touches

INTEGRATORS = {
    "euler": SemiImplicitEuler,
    "leapfrog": Leapfrog,
    "rk4": RK4,
    "midpoint": ImplicitMidpoint,
    "gauss": Gauss,
}
#: most steps between two updates of the progress bar, unless samples are farther apart
PIECE = 50
#: most steps of a rollout; more indicate a mistake in the options
MOST_STEPS = 1e9
#: m or rad; a loop that is open by more is a problem
OPEN = 1e-2


def null_space(rows: np.ndarray) -> np.ndarray:
    """Return orthonormal columns (nv, k) that span the null space of a constraint Jacobian (m, nv)."""
    if not len(rows):
        return np.eye(rows.shape[1])
    _, s, vt = np.linalg.svd(rows)
    return vt[int((s > 1e-6 * s.max(initial=0.0)).sum()) :].T


def closed(model: Model, q: jax.Array | None = None) -> jax.Array:
    """Return the assembled configuration, from q or the neutral one. Raise `ValueError` if a loop stays open by more
    than a micrometre (single precision: a millimetre)."""
    tol = 1e-7 if model.gravity.dtype == jnp.float64 else 1e-5
    return assemble(model, model.neutral() if q is None else q, tol=tol)


class Steps(NamedTuple):
    """Numbers of steps of a rollout: in all, between two samples, and in a compiled piece, which divides the total."""

    total: int
    every: int
    piece: int


def steps_of(seconds: float, dt: float, every: int, step: str = "--dt") -> Steps:
    """Return the steps of a rollout. Raise `ValueError` if `dt` does not divide `seconds`, or `every` the steps. `step`
    is the name of `dt` in error messages."""
    count = seconds / dt
    if not 0.5 < count < MOST_STEPS:
        raise ValueError(f"--seconds {seconds:g} is {count:.4g} steps of {step} {dt:g}, not 1 to {MOST_STEPS:g}.")
    total = round(count)
    if abs(count - total) > 1e-6 * total:
        low = max(1, int(count))
        raise ValueError(
            f"--seconds {seconds:g} is {count:.6g} steps of {step} {dt:g}: "
            f"give a multiple of {dt:g} s, --seconds {low * dt:.10g} or {(low + 1) * dt:.10g}."
        )
    if total % every:
        divisors = [k for k in range(1, min(total, 10_000) + 1) if total % k == 0]
        near = {max(k for k in divisors if k <= every), min((k for k in divisors if k > every), default=total)}
        raise ValueError(
            f"--every {every} does not divide the {total} steps of --seconds {seconds:g} with --dt {dt:g}: "
            f"give --every {' or '.join(map(str, sorted(near)))}."
        )
    samples, most = total // every, max(1, PIECE // every)
    return Steps(total, every, every * max(k for k in range(1, most + 1) if samples % k == 0))


def check_memory(model: Model, batch: int, steps: Steps, contacts: bool = False) -> None:
    """Raise `ValueError` for a batch whose samples do not fit the computer's memory."""
    places = len(names_of(model)) if contacts else 0
    numbers = batch * (model.nq + model.nv + 4 * places) * (steps.total // steps.every + steps.piece + 2.0)
    size = numbers * model.gravity.dtype.itemsize
    have = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 1e12
    if size > have:
        raise ValueError(
            f"--batch {batch} needs {size / 1e9:.4g} GB for {steps.total // steps.every} samples, more than the "
            f"computer's {have / 1e9:.3g} GB: make --batch or --seconds smaller, or --every larger."
        )


def check_contacts(model: Model, law: str, integrator: str) -> None:
    """Raise `ValueError` for an integrator, a model or a number of rows that contacts do not support."""
    if integrator != "euler":
        raise ValueError(f"--contacts goes with --integrator euler, not with {integrator}.")
    made = LAWS[law]()
    if not (rows := rows_of(model, made)):
        floor = any(shape.kind == "plane" for shape in model.collision.scene.shapes)
        add = "add shapes to its file" if floor else "add a floor by --ground, or shapes to its file"
        raise ValueError(
            f"--contacts: no shapes of {model.name!r} can collide, and no joint has limits or dry friction; {add}."
        )
    if rows > FORMED and not made.without_matrix(rows):
        raise ValueError(
            f"--contacts: {len(names_of(model))} places where shapes may touch, and limits and dry friction of joints, "
            f"make {rows} rows, more than {FORMED}; choose shapes by --touch, the feet: "
            "--touch '*foot*', or another law by --contacts auto."
        )


class Rollouts(NamedTuple):
    """The results of a batch of rollouts: `t` (samples,), `q` and `v` (batch, samples, ...); `opening`, the worst
    opening of a loop; `spent`, the seconds of work; `touches` of all samples but the first, with contacts; `failures`,
    the numbers of steps whose results are no success, by name."""

    t: np.ndarray
    q: np.ndarray
    v: np.ndarray
    opening: float
    spent: float
    touches: Touches | None
    failures: dict[str, int]


def rolled(
    model: Model, start: State, command, dt: float, steps: Steps, integrator: str, project: bool, law, say
) -> Rollouts:
    """Return the rollouts from a batch of states, under a command (nu,), None for no forces of motors."""
    size, every, pieces = steps.piece, steps.every, steps.total // steps.piece

    def piece(state: State):
        none = jnp.zeros((size, model.nv), state.q.dtype)
        controls = none if command is None else Commands(jnp.tile(command, (size, 1)))
        options = {"integrator": INTEGRATORS[integrator](), "project": project, "contacts": law}
        traj = simulate(model, state, controls, dt, **options)
        kept = traj.q[every::every], traj.v[every::every], law and touches(traj.contacts, every, dt)
        opening = jax.vmap(lambda q: jnp.abs(constraint_residual(model, q)).max(initial=0.0))(traj.q[1:])
        return traj[-1], kept, opening.max(), traj.result

    say(f"{model}: {counted(len(start.q), 'rollout')} of {steps.total * dt:g} s, compiling")
    many = jax.jit(jax.vmap(piece)).lower(start).compile()
    state, kept, worst, results, begin = start, [], 0.0, Counter(), time.perf_counter()
    for _ in tqdm(range(pieces), unit="piece", desc="simulating", disable=None):
        state, some, opening, ended = jax.block_until_ready(many(state))
        kept.append(jax.tree.map(np.asarray, some))
        worst = float(np.maximum(worst, opening.max()))  # NaN stays
        results.update(result_counts(ended))
    spent = time.perf_counter() - begin
    q, v, touched = zip(*kept, strict=True)
    q, v = (np.concatenate([np.asarray(a)[:, None], *x], 1) for a, x in ((start.q, q), (start.v, v)))
    found = None
    if law is not None:
        force, gap, deepest, off = zip(*touched, strict=True)
        found = Touches(np.concatenate(force, 1), np.concatenate(gap, 1), np.min(deepest), np.max(off))
    failures = {name: count for name, count in results.most_common() if name != "successful"}
    return Rollouts(dt * every * np.arange(q.shape[1]), q, v, worst, spent, found, failures)


def run(
    model: Model,
    *,
    batch: int,
    seconds: float,
    dt: float,
    speed: float = 0.5,
    seed: int = 0,
    every: int = 10,
    integrator: str = "euler",
    project: bool = False,
    contacts: str | None = None,
    keyframe: str | None = None,
    out: str | None = None,
    plot: str | None = None,
    say=tell,
) -> int:
    """Simulate and save. Return 1 if a solve failed or the motion is not finite, else 0. A `keyframe` is the state to
    start from, whose commands are held.

    **Raises** `ValueError`, before the work, for times that do not divide and for a batch that does not fit the memory.
    """
    steps = steps_of(seconds, dt, every)
    check_memory(model, batch, steps, contacts is not None)
    frame = None if keyframe is None else model.keyframe(keyframe)
    q, up = closed(model, None if frame is None else frame.state.q), 0.0
    along = null_space(np.asarray(constraint_jacobian(model, q)))
    rng = np.random.default_rng(seed)
    v = speed * (along @ rng.standard_normal((along.shape[1], batch))).T
    if frame is not None:
        v = v + np.asarray(frame.state.v)
    if contacts is not None:
        check_contacts(model, contacts, integrator)
        q, up = lifted(model, q)
    if up:
        say(f"{model.name} is lifted by {up:.3g} m, to start above the ground")
    start = State(jnp.broadcast_to(q, (batch, model.nq)), jnp.asarray(v, q.dtype))
    law = None if contacts is None else LAWS[contacts]()
    command = None if frame is None else frame.command
    found = rolled(model, start, command, dt, steps, integrator, project, law, say)
    made = batch * steps.total
    say(f"  {found.spent:.2f} s: {batch / found.spent:.4g} rollouts/s, {1e6 * found.spent / made:.3g} µs a step")
    if model.constraints:
        say(f"  worst loop opening {found.opening:.2g} (m or rad)")
    arrays = {"t": found.t, "q": found.q, "v": found.v}
    missed = found.failures.get("contact_not_converged", 0)  # no failure of a solve
    failures = {name: count for name, count in found.failures.items() if name != "contact_not_converged"}
    if (touched := found.touches) is not None:
        for line in told(model, touched.force, float(touched.deepest), float(touched.off), missed, made):
            say(f"  {line}")
        arrays |= {"force": touched.force, "gap": touched.gap, "pairs": np.array(names_of(model))}
    finite = np.isfinite(found.q).all() and np.isfinite(found.v).all()
    open_ = bool(model.constraints) and not found.opening < OPEN
    if open_ and finite and not failures:
        say(f"  loops open by more than {OPEN:g}; try a smaller --dt" + ("" if project else ", or --project"))
    if failures or not finite:
        also = "" if finite else ", and the motion is not finite"
        say(f"  {_told_of(failures)}{also}; {_advice(failures)}")
    if out:
        save_arrays(out, arrays)
        say(f"  wrote {out}")
    if plot:
        save_plot(plot, partial(_draw, model, found))
        say(f"  wrote {plot}")
    return 0 if finite and not failures and not open_ else 1


def _told_of(failures: dict[str, int]) -> str:
    each = ", ".join(f"{name}: {count}" for name, count in failures.items())
    return counted(sum(failures.values()), "solve") + " failed" + (f" ({each})" if each else "")


def _advice(failures: dict[str, int]) -> str:
    """Return what to do: numbers that are not finite, but have not grown before, are the model's fault."""
    broken = "not_finite" in failures and "diverged" not in failures
    return "look for the cause by `jaxdyn check`" if broken else "try a smaller --dt"


def _draw(model: Model, found: Rollouts, pyplot):
    """Return a figure of the first rollout's joints, the speeds of all rollouts, and the first rollout's contacts."""
    t, q, rows = found.t, found.q, 2 if found.touches is None else 3
    figure, axes = pyplot.subplots(rows, 1, sharex=True, figsize=(8, 3 * rows), layout="constrained")
    upper, lower = axes[:2]
    single = [j for j in model.joint_names if model.q_slice(j).stop - model.q_slice(j).start == 1]
    for joint in single[:12]:
        upper.plot(t, q[0, :, model.q_slice(joint).start], label=joint, linewidth=1)
    if single:
        upper.legend(fontsize=7, ncols=3)
    upper.set(ylabel="q of the first rollout (rad, m)", title=f"{model.name}: {len(q)} rollouts")
    lower.plot(t, np.linalg.norm(found.v, axis=-1).T, color="tab:blue", alpha=max(0.05, 1 / len(q)), linewidth=0.8)
    lower.set(ylabel="‖v‖ of all rollouts")
    if found.touches is not None:
        draw(model, axes[2], t, found.touches.force[0])
    axes[-1].set(xlabel="time (s)")
    return figure
