"""`jaxdyn simulate` runs a batch of rollouts from random velocities, in pieces of one compiled function."""

import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from ..constrained.forward_dynamics import Result
from ..dynamics.constraint_terms import constraint_jacobian, constraint_residual
from ..kinematics.assemble import assemble
from ..model.model import Model
from ..model.state import State
from ..simulate.integrators import RK4, Gauss, ImplicitMidpoint, SemiImplicitEuler
from ..simulate.rollout import simulate
from .output import save_arrays, save_plot

INTEGRATORS = {"euler": SemiImplicitEuler, "rk4": RK4, "midpoint": ImplicitMidpoint, "gauss": Gauss}
#: steps between two ticks of the progress bar
PIECE = 50


def null_space(rows: np.ndarray) -> np.ndarray:
    """Return orthonormal columns (nv, k) that span the velocities at which no row moves."""
    if not len(rows):
        return np.eye(rows.shape[1])
    _, s, vt = np.linalg.svd(rows)
    return vt[int((s > 1e-6 * s.max(initial=0.0)).sum()) :].T


def closed(model: Model) -> jax.Array:
    """Return the assembled configuration. Raise `ValueError` if a loop stays open by more than a micrometre."""
    return assemble(model, model.neutral(), tol=1e-7 if model.gravity.dtype == jnp.float64 else 1e-5)


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
    out: str | None = None,
    plot: str | None = None,
    say=print,
) -> int:
    """Simulate and save. Return 1 if a solve failed or the motion is not finite, else 0."""
    total = max(1, round(seconds / dt))
    size = min(PIECE, total)
    size -= size % every if size >= every else 0
    every = min(every, size)
    pieces = -(-total // size)
    q = closed(model)
    along = null_space(np.asarray(constraint_jacobian(model, q)))
    rng = np.random.default_rng(seed)
    v = speed * (along @ rng.standard_normal((along.shape[1], batch))).T
    start = State(jnp.broadcast_to(q, (batch, model.nq)), jnp.asarray(v, q.dtype))

    def piece(state: State):
        torques = jnp.zeros((size, model.nv), q.dtype)
        traj = simulate(model, state, torques, dt, integrator=INTEGRATORS[integrator](), project=project)
        kept = traj.q[every::every], traj.v[every::every]
        opening = jax.vmap(lambda q: jnp.abs(constraint_residual(model, q)).max(initial=0.0))(traj.q[1:])
        return traj[-1], kept, opening.max(), jnp.sum(traj.result != Result.successful)

    say(f"{model}: {batch} rollouts of {pieces * size * dt:g} s, compiling")
    many = jax.jit(jax.vmap(piece)).lower(start).compile()
    state, kept, worst, failed, begin = start, [], 0.0, 0, time.perf_counter()
    for _ in tqdm(range(pieces), unit="piece", desc="simulating", disable=None):
        state, some, opening, bad = jax.block_until_ready(many(state))
        kept.append(jax.tree.map(np.asarray, some))
        worst, failed = max(worst, float(opening.max())), failed + int(bad.sum())
    spent = time.perf_counter() - begin
    q, v = (
        np.concatenate([np.asarray(a)[:, None], *parts], 1)
        for a, parts in zip((start.q, start.v), zip(*kept, strict=True), strict=True)
    )
    t = dt * every * np.arange(q.shape[1])
    say(f"  {spent:.2f} s: {batch / spent:.4g} rollouts/s, {1e6 * spent / (batch * pieces * size):.3g} µs a step")
    if model.constraints:
        say(f"  worst loop opening {worst:.2g} (m or rad)")
    finite = np.isfinite(q).all() and np.isfinite(v).all()
    if failed or not finite:
        say(f"  {failed} solves failed" + ("" if finite else ", and the motion is not finite") + "; try a smaller --dt")
    if out:
        save_arrays(out, {"t": t, "q": q, "v": v})
        say(f"  wrote {out}")
    if plot:
        save_plot(plot, partial(_draw, model, t, q, v))
        say(f"  wrote {plot}")
    return 0 if finite and not failed else 1


def _draw(model: Model, t, q, v, pyplot):
    """Return a figure of the first rollout's joints, and of the speeds of all rollouts."""
    figure, (upper, lower) = pyplot.subplots(2, 1, sharex=True, figsize=(8, 6), layout="constrained")
    single = [j for j in model.joint_names if model.q_slice(j).stop - model.q_slice(j).start == 1]
    for joint in single[:12]:
        upper.plot(t, q[0, :, model.q_slice(joint).start], label=joint, linewidth=1)
    if single:
        upper.legend(fontsize=7, ncols=3)
    upper.set(ylabel="q of the first rollout (rad, m)", title=f"{model.name}: {len(q)} rollouts")
    lower.plot(t, np.linalg.norm(v, axis=-1).T, color="tab:blue", alpha=max(0.05, 1 / len(q)), linewidth=0.8)
    lower.set(xlabel="time (s)", ylabel="‖v‖ of all rollouts")
    return figure
