"""`assemble` closes the loops of a configuration by a damped Newton method on the configuration manifold.

The steps are Levenberg-Marquardt steps with the exact derivative of the residual. If rows are redundant, a step has the
least norm in v. Derivatives, along the closed configurations and with respect to the model, come from the implicit
function theorem, as if the search ended at the closed configuration nearest to the guess.
"""

import functools
import warnings
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..engine.kept import programs, tables
from ..engine.lanes import laned
from ..engine.meshes import alike
from ..model.checks import check_constraints, check_model, check_vector, common_dtype, rows_of
from ..model.constraints import Constraint
from ..model.model import Model
from ..model.values import ModelWarning
from ..spatial.numbers import ArrayLike, check, constants, finite, not_negative
from .forward import tree_kinematics
from .manifold import closing, integrated, moving, normalized, separated, settling
from .rows import evaluate

#: the most Newton steps from one start, rejected ones included
STEPS = 200
#: the longest step, in radians or metres: up to there the linearisation is of use
LONGEST = 0.5
#: number of other starts, and the standard deviations of the nearest and the farthest one, in radians or metres
TRIES, SPREAD = 8, (0.02, 1.0)


def residual(model, constraints, q):
    """Return the position errors (m, lanes) of the constraints, with one lane per element of the batch."""
    return evaluate(constraints, tree_kinematics(model, q)).residual


def _moved(model, q, dv):
    return moving(model)(q, dv)


def _size(r):
    return jnp.abs(r).max(initial=0.0)


def _settled(model: Model, q: Array, tol: float) -> Array:
    """Return q with unit quaternions, and embedded loops closed to `tol` by their dependent joints, from far too: by
    Newton's method with steps that are short enough to lessen the opening."""
    topology = model.topology
    if not topology.clusters:
        return settling(model)(q)
    opening = lambda q: laned(residual)(model, model.embedded, q)  # noqa: E731

    def closer(s):
        q, r, share, k = s
        dv = laned(closing)(model, q)
        dv = share * dv / jnp.maximum(1, _size(dv) / LONGEST)
        trial = laned(integrated, topology)(q, dv)
        after = opening(trial)
        better = jnp.sum(after**2) < jnp.sum(r**2)
        share = jnp.where(better, jnp.minimum(2 * share, 1), share / 4)
        return jnp.where(better, trial, q), jnp.where(better, after, r), share, k + 1

    go_on = lambda s: (_size(s[1]) > tol) & (s[3] < STEPS) & (s[2] > 1e-6)  # noqa: E731
    q = laned(normalized, topology)(q)
    begun = q, opening(q), jnp.asarray(1.0, q.dtype), jnp.asarray(0)
    return jax.lax.while_loop(go_on, closer, alike(begun, model))[0]


def slope(model, constraints, q):
    """Return the derivative (m, nv) of the residual along the manifold."""
    at = lambda d: laned(residual)(model, constraints, _moved(model, q, d))  # noqa: E731
    return jax.jacfwd(at)(jnp.zeros(model.nv, q.dtype))


def _cutoff(dtype) -> float:
    """Return the share of the largest singular value below which others count as zero."""
    return 1e-7 if dtype == jnp.float64 else 1e-4


def _weighted_inverse(J, damping):
    """Return Jᵀ (J Jᵀ + damping)⁻¹, which is the pseudo-inverse if the damping is zero."""
    u, s, vt = jnp.linalg.svd(J, full_matrices=False)
    floor = _cutoff(J.dtype) * s.max(initial=0.0)
    keep = s > floor
    safe = jnp.where(keep, s, 1)
    return (vt.T * jnp.where(keep, safe / (safe * safe + damping), 0)[None]) @ u.T


@tables
def _starts(nv: int) -> np.ndarray:
    """Return moves (1 + TRIES, nv) from the guess to the starts. The first is zero, later ones grow."""
    rng = np.random.default_rng(0)
    moves = rng.standard_normal((TRIES, nv)) * np.geomspace(*SPREAD, TRIES)[:, None]
    return np.concatenate([np.zeros((1, nv)), moves])


@functools.partial(jax.custom_jvp, nondiff_argnums=(3, 4))
def _closed(model: Model, constraints, q: Array, tol: float, enough: float) -> Array:
    """Return a configuration whose errors are below `tol`, starting from q.

    If the search ends with an error above `enough`, it is repeated from other starts around q. This happens at singular
    poses, from which no motion reduces the error.
    """
    rows, embedded = (*constraints, *model.embedded), rows_of(model, model.embedded)
    error = lambda q: laned(residual)(model, rows, q)  # noqa: E731

    def step(s):
        q, r, damping, k = s
        J = slope(model, rows, q)
        dv = -_weighted_inverse(J, damping) @ r
        dv = dv / jnp.maximum(1, _size(dv) / LONGEST)
        trial = _settled(model, _moved(model, q, dv), tol)
        after = error(trial)
        better = jnp.sum(after**2) < jnp.sum(r**2)
        smaller, larger = damping * 0.1, jnp.maximum(damping * 10, 1e-6)
        damping = jnp.where(better, jnp.where(smaller < 1e-12, 0, smaller), larger)
        return jnp.where(better, trial, q), jnp.where(better, after, r), damping, k + 1

    topology = model.topology
    moves = jnp.asarray(_starts(topology.nv), q.dtype)
    if not constraints:
        moves = moves.at[:, jnp.asarray(topology.independent)].set(0)  # these stay if they can

    def attempt(s):
        found, gap, k = s
        other = _settled(model, laned(integrated, topology)(q, moves[k]), tol)
        left = error(other)
        if constraints:
            # no steps where embedded loops do not close: independent velocities do not move them then
            shut = _size(left[len(left) - embedded :]) <= enough
            go_on = lambda s: shut & (_size(s[1]) > tol) & (s[3] < STEPS) & (s[2] < 1e9)  # noqa: E731
            begun = other, left, jnp.asarray(1e-3, q.dtype), jnp.asarray(0)
            other, left, *_ = jax.lax.while_loop(go_on, step, alike(begun))
        # another start must at least halve the error
        better = (k == 0) | (_size(left) < 0.5 * gap)
        return jnp.where(better, other, found), jnp.where(better, _size(left), gap), k + 1

    again = lambda s: (s[2] == 0) | ((s[1] > enough) & (s[2] <= TRIES))  # noqa: E731
    begun = q, jnp.asarray(jnp.inf, q.dtype), jnp.asarray(0)
    return jax.lax.while_loop(again, attempt, alike(begun, model, constraints))[0]


@_closed.defjvp
def _closed_jvp(tol, enough, primals, tangents):
    model, constraints, q0 = primals
    q = _closed(model, constraints, q0, tol, enough)
    # the tangents of the guess and of the residual, and the nearest motion that keeps the loops closed; embedded loops
    # move with the model too
    wish = jax.jvp(lambda x: separated(model)(q0, x), (q0,), (tangents[2],))[1]
    dv = wish
    if constraints:
        pushed = jax.jvp(lambda m, c: laned(residual)(m, c, settling(m)(q)), (model, constraints), tangents[:2])[1]
        J = slope(model, constraints, q)
        # derivatives are those of a constant rank; singular vectors have none where singular values vanish or are equal
        inverse = jnp.linalg.pinv(J, rtol=_cutoff(J.dtype))
        dv = wish - inverse @ (J @ wish + pushed)
    return q, jax.jvp(lambda m, d: _moved(m, settling(m)(q), d), (model, jnp.zeros_like(dv)), (tangents[0], dv))[1]


def _tolerances(dtype, tol: float | None = None) -> tuple[float, float]:
    fine = 1e-12 if dtype == jnp.float64 else 1e-6
    tol = fine if tol is None else tol
    return tol, max(tol, 1e6 * fine if fine < 1e-9 else 1e3 * fine)


@programs
def _search(structure, tol: float, enough: float):
    """Return the compiled search for closed configurations. It is compiled once for each structure of robot and
    constraints."""

    def search(model, constraints, q):
        q = _closed(model, constraints, q, tol, enough)
        return q, laned(residual)(model, (*constraints, *model.embedded), q)

    return jax.jit(search)


def searched(model: Model, constraints, q: Array, tol: float | None = None) -> tuple[Array, Array]:
    """Return the best configuration (nq,) found from q (nq,) that satisfies the constraints, and its errors: (m,),
    then those of embedded loops."""
    search = _search(jax.tree.structure((model, constraints)), *_tolerances(q.dtype, tol))
    return search(model, constraints, q)


def assemble(
    model: Model, q: ArrayLike, *, constraints: Sequence[Constraint] | None = None, tol: float | None = None
) -> Float[Array, " nq"]:
    """Return the configuration (nq,) near q (nq,) that satisfies the constraints (None: the model's own), and embedded
    loops.

    The search may fail from a singular pose. It is then repeated from other starts around the guess, which are the same
    in every call. Derivatives are those of the nearest closed configuration: exact from a closed guess, and along the
    loops to first order in the gap of an open one.

    **Arguments:** `q`, a guess; `tol`, the largest position error, in metres or radians (None: 1e-12 in double, 1e-6 in
    single precision).

    **Raises** `ValueError`, outside of `jit`, if the loops cannot be closed from this guess to a micrometre (single
    precision: a millimetre). The error names the constraints and their errors. A smaller error is a `ModelWarning`.
    Under a transformation the best configuration found is returned: see `constraint_residual`.
    """
    call = "assemble"
    check_model(call, model)
    q = check_vector(call, "q", q, (model.nq,))
    constraints = check_constraints(call, model, constraints)
    check(f"`{call}`", "q", q, finite)
    if not constraints and not model.topology.clusters:
        return q
    model, q, constraints = common_dtype(model, q, given=(constraints,))
    tol = None if tol is None else float(constants(f"`{call}`", "tol", tol, (), not_negative))
    found, left = searched(model, constraints, q, tol)
    if not isinstance(left, jax.core.Tracer):
        fine, (tol, enough) = _tolerances(q.dtype)[0], _tolerances(q.dtype, tol)
        left = np.asarray(left)
        _refuse_open(call, model, (*constraints, *model.embedded), found, left, enough)
        gap = float(np.abs(left).max())
        if gap > max(tol, 1e3 * fine):
            warnings.warn(
                f"`{call}`: the loops close to {gap:.2g} only: redundant rows disagree by that much.",
                ModelWarning,
                stacklevel=2,
            )
    return found


def _refuse_open(call: str, model: Model, constraints, q, left, tol: float) -> None:
    start, open_ones = 0, []
    for k, c in enumerate(constraints):
        layout = c.layout(model.topology)
        error = float(np.abs(left[start : start + layout.rows]).max())
        start += layout.rows
        if not error <= tol:
            names = ", ".join(model.body_names[b] for b in layout.bodies[:4])
            open_ones.append(
                f"{c.name or k!r} ({type(c).__name__} on {names}), which stays open by {error:.2g} m or rad"
            )
    if open_ones:
        s = np.linalg.svd(np.asarray(slope(model, constraints, q), float), compute_uv=False)
        rank = int((s > _cutoff(q.dtype) * s.max(initial=0.0)).sum())
        raise ValueError(
            f"`{call}`: cannot close {'; '.join(open_ones)}, from `q` and from {TRIES} starts around it. At the best "
            f"configuration found, no small motion reduces that (rank {rank} of {len(left)} rows, velocities: "
            f"{model.nv}). Check lengths and placements, or start from another `q`."
        )
