"""`jaxdyn check`: what is wrong with a model."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from ..constrained.dense import Dense
from ..constrained.forward_dynamics import Result, forward_dynamics
from ..constrained.lcaba import ABA, LCABA
from ..dynamics.constraint_terms import constraint_jacobian, constraint_residual, constraint_slices
from ..dynamics.energy import center_of_mass
from ..dynamics.inverse import mass_matrix
from ..kinematics.assemble import assemble
from ..kinematics.manifold import integrate
from ..model.model import Model
from ..model.state import State
from ..spatial.instances import counted
from .info import numbers
from .terminal import tell

#: singular values up to the first share of the largest count as zero; from there up to the second they are doubtful
ZERO, DOUBTFUL = 1e-9, 1e-3
#: loops that are open by less, in metres or radians, count as closed, given the digits that files print
CLOSED = 1e-6
#: how far they are closed where they can be
EXACT = 1e-10
#: relative difference of accelerations at which two solvers disagree
AGREE = 1e-6
STATES = 4


class _Findings:
    """Collects the notes, warnings and problems of a check."""

    def __init__(self):
        self.counts = {"warning": 0, "problem": 0}

    def say(self, text: str) -> None:
        tell(text)

    def note(self, text: str) -> None:
        self.say(f"  {text}")

    def warn(self, text: str) -> None:
        self.counts["warning"] += 1
        self.say(f"  warning: {text}")

    def problem(self, text: str) -> None:
        self.counts["problem"] += 1
        self.say(f"  PROBLEM: {text}")


def _rank(s: np.ndarray) -> int:
    return int((s > ZERO * s.max(initial=0.0)).sum())


def _bodies(found: _Findings, model: Model, M: np.ndarray) -> None:
    names, mass = np.array(model.body_names), np.asarray(model.bodies.mass)
    idle = names[(mass == 0) & ~np.asarray(model.bodies.rotational).any((1, 2))]
    if len(idle):
        found.warn(f"without mass: {', '.join(idle)}.")
    eigenvalues = np.linalg.eigvalsh(M)
    if not eigenvalues[0] > 1e-14 * eigenvalues[-1]:
        found.problem("the mass matrix is singular: something that moves has neither inertia nor armature.")
    else:
        found.note(f"mass matrix: positive definite, condition {eigenvalues[-1] / eigenvalues[0]:.1e}")
    if not model.nu:
        found.note("no actuators")


def _close(found: _Findings, model: Model, seed: int):
    """Return a closed configuration, found from the neutral or a random one, None if loops do not close."""
    guesses = [model.neutral()]
    guesses += [model.random_state(jax.random.fold_in(jax.random.key(np.uint64(seed)), k)).q for k in range(8)]
    said = ""
    for k, guess in enumerate(guesses):
        try:
            q = _closed(model, guess)
        except ValueError as error:
            said = said or str(error)
            continue
        left = float(jnp.abs(constraint_residual(model, q)).max(initial=0.0))
        where = "near q = 0" if k == 0 else f"from a random start (number {k}); near q = 0 they stay open"
        if model.constraints:
            found.note(f"loops close {where}, to {left:.1e} (m or rad)")
        return q
    found.problem(f"loops do not close, from q = 0 and from {len(guesses) - 1} random starts: {said}")
    return None


def _closed(model: Model, guess):
    """Return the assembled configuration. Raise `ValueError` if it cannot be closed to what counts as closed. Loops are
    closed further if they can be: rows that are redundant where loops are closed are independent elsewhere."""
    try:
        return assemble(model, guess, tol=EXACT)
    except ValueError:
        return assemble(model, guess, tol=CLOSED)


def _limits(found: _Findings, model: Model, q) -> None:
    out = []
    for joint in model.joint_names:
        qs, vs = model.q_slice(joint), model.v_slice(joint)
        if qs.stop - qs.start == vs.stop - vs.start:
            x, low, high = (np.asarray(a) for a in (q[qs], model.joints.lower[vs], model.joints.upper[vs]))
            if (x < low - 1e-6).any() or (x > high + 1e-6).any():
                out.append(f"{joint} at {numbers(x)} outside [{numbers(low)}, {numbers(high)}]")
    if out:
        found.warn(f"the closed configuration violates limits: {'; '.join(out)}.")


def _rows(found: _Findings, model: Model, poses: list) -> None:
    """Report redundant rows, poses in which rows lose rank, and rows that nearly vanish."""
    jacobian = jax.jit(lambda q: constraint_jacobian(model, q))
    matrices = [np.asarray(jacobian(q)) for q in poses]
    values = [np.linalg.svd(J, compute_uv=False) for J in matrices]
    ranks, m = [_rank(s) for s in values], len(matrices[0])
    rank = max(ranks)
    motions, motors = counted(model.nv - rank, "motion"), counted(model.nu, "actuator")
    text = f"{counted(m, 'constraint row')} of rank {rank}: {motions} left for {motors}"
    found.note(text + (f"; redundant rows: {m - rank}" if rank < m else ""))
    slices = constraint_slices(model)
    for name, s in slices.items():
        own = [_rank(np.linalg.svd(J[s], compute_uv=False)) for J in matrices]
        if max(own) < s.stop - s.start:
            found.note(f"constraint {name!r}: {counted(s.stop - s.start, 'row')} of rank {max(own)}")
    if len(set(ranks)) > 1:
        found.warn(f"rank changes with the pose ({min(ranks)} to {rank}): some pose is singular.")
    for s, J in zip(values[:1], matrices[:1], strict=True):
        faint = [k for k in range(len(s)) if ZERO * s[0] < s[k] < DOUBTFUL * s[0]]
        if faint:
            U = np.linalg.svd(J)[0]
            who = [str(n) for n, rows in slices.items() if np.abs(U[rows][:, faint]).max() > 0.1]
            found.warn(
                f"{len(faint)} combinations of rows are nearly redundant (singular values "
                f"{', '.join(f'{s[k]:.1e}' for k in faint)}) in {', '.join(who)}: the loop is close to a dead centre, "
                "or axes that should be parallel lean and lock it."
            )


def _solvers(found: _Findings, model: Model, states: list[State]) -> None:
    solvers = [LCABA() if model.constraints else ABA(), Dense()]
    batch = jax.tree.map(lambda *x: jnp.stack(x), *states)
    tau = jnp.zeros(model.nv)
    got = []
    for solver in tqdm(solvers, desc="solving", leave=False, disable=None):
        solve = jax.jit(jax.vmap(lambda s, solver=solver: forward_dynamics(model, s, tau, solver=solver)))
        got.append(jax.block_until_ready(solve(batch)))
    first, second = (type(s).__name__ for s in solvers)
    a, b = (np.asarray(g.acceleration) for g in got)
    gap = np.abs(a - b).max(1) / np.maximum(1, np.abs(b).max(1))
    worst = gap.max()
    if not np.isfinite(worst):
        lost = [name for name, x in ((first, a), (second, b)) if not np.isfinite(x).all()]
        found.problem(f"accelerations of {' and '.join(lost)} are not finite.")
    elif worst > AGREE:
        found.problem(
            f"{first} and {second} differ by {worst:.1e} (relative) in {int((gap > AGREE).sum())} of {len(states)} "
            "states: rows that nearly vanish leave it open which motions are free."
        )
    else:
        found.note(f"{first} and {second} agree to {worst:.1e} in {len(states)} states")
    for name, g in zip((first, second), got, strict=True):
        r1, r2 = (float(np.asarray(x).max()) for x in (g.stats.residual_dynamics, g.stats.residual_constraint))
        found.note(f"{name}: residuals {r1:.1e} (dynamics), {r2:.1e} (constraints)")
        bad = np.flatnonzero(np.asarray(g.result != Result.successful))
        if len(bad):
            first_bad = jax.tree.map(lambda x, k=bad[0]: x[k], g.result)
            found.problem(f"{name} fails in {len(bad)} of {len(states)} states: {Result[first_bad]}")


def check(source: str, opened: Callable[[], tuple[Model, list[str]]], *, strict: bool = False, seed: int = 0) -> int:
    """Check a model and print the findings. Return 1 for a problem (with `strict`, also for a warning), else 0."""
    found = _Findings()
    found.say(f"checking {source}")
    try:
        model, told = opened()
    except (ValueError, ImportError) as error:
        found.problem(str(error))
        return 1
    found.note(repr(model))
    for text in told:
        found.warn(text)
    if model.nv:
        _motion(found, model, seed)
    else:
        found.note("nothing moves, so that there is nothing more to check")
    problems, warned = found.counts["problem"], found.counts["warning"]
    found.say("no problem found" if not problems else f"{counted(problems, 'problem')} found")
    if warned:
        found.say(counted(warned, "warning"))
    return 1 if problems or (strict and warned) else 0


def _motion(found: _Findings, model: Model, seed: int) -> None:
    """Check the loops, bodies, rows and solvers of a model that moves."""
    q = _close(found, model, seed)
    M = np.asarray(mass_matrix(model, model.neutral() if q is None else q))
    _bodies(found, model, M)
    if q is not None:
        _limits(found, model, q)
        states = list(_states(model, q, seed))
        if model.constraints:
            _rows(found, model, [s.q for s in states])
        _solvers(found, model, states)
        center = np.asarray(center_of_mass(model, q)).round(4)
        found.note(f"mass {float(model.bodies.mass.sum()):.4g} kg, its centre at {center}")


def _states(model: Model, q, seed: int):
    """Yield the closed configuration at rest, then states near it whose velocities keep loops closed."""
    yield State(q, jnp.zeros(model.nv))
    rng = np.random.default_rng(seed)
    for _ in range(STATES - 1):
        near = integrate(model, q, jnp.asarray(0.1 * rng.standard_normal(model.nv)))
        if model.constraints:
            try:
                near = _closed(model, near)
            except ValueError:
                near = q
        v = jnp.asarray(rng.standard_normal(model.nv))
        if model.constraints:
            J = np.asarray(constraint_jacobian(model, near))
            v = v - np.linalg.pinv(J, rcond=1e-6) @ (J @ v)
        yield State(near, jnp.asarray(v))
