"""`explain`: the contact forces behind a motion (contact inverse dynamics).

The motion determines the state of each contact: it is open, slides or sticks. So f = f₀ + T x, with

| contact | unknown x |
| --- | --- |
| open | none |
| slides | the normal force; friction is −μ times it, along the sliding velocity |
| sticks | a force in the cone |
| soft | f₀ is the force of its overlap; if it sticks, x is the friction, within μ times that force |

and likewise for twists, dry friction and limits of joints, and for the multipliers of constraints, which are free.
Let A = Tᵀ J_u have the columns of the velocities that no actuator drives (index u), and let b = M a + h − ... − J_uᵀ f₀
be the forces required there. The solution is the least x in these sets that minimises Aᵀ x − b in the metric of M_uu⁻¹:
the minimum of x·(G x / 2 + g) with

    G = A M_uu⁻¹ Aᵀ + ε,   g = −A M_uu⁻¹ b.

This is a convex problem. If x explains all of b, it obeys Coulomb's law, too. But that law may have other solutions:
where a contact that sticks jams, as between two fingers, no force at all obeys it.

Actuators supply the forces that remain at the other velocities.
"""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..dynamics.crba import mass_matrix_at
from ..engine.core import joined, lanes_of, widen
from ..engine.lanes import laned
from ..kinematics.embedding import jacobian_at
from ..kinematics.straight import acceleration_over
from ..model.checks import check_constraints, check_external, check_model, check_state, check_vector, common_dtype
from ..model.constraints import Constraint
from ..model.joints import FreeKind
from ..model.model import Model
from ..model.state import State
from ..spatial.instances import described
from ..spatial.numbers import ArrayLike, check, finite, floats, not_negative, positive
from ..systems.problem import body_accelerations, residual
from ..systems.weights import mobility
from ..tree.complement import complement
from .admm import ADMM
from .checks import check_law
from .cones import Cones, Convex, Counts, Limited, lengths, natural
from .effect import product
from .laws import Law
from .problem import Step, begun
from .slope import At, Slope
from .solution import Contacts, contacts_of

#: ε over the mean of the diagonal of G, or its usual size, in single and double precision: selects the least of equally
#: good forces. The search for them begins with a large ε, which changes by a factor
SMALL, LARGE, FACTOR = {4: 1e-4, 8: 1e-8}, 1e-2, 1e-2
#: m/s; slower contacts rest, in single and double precision
RESTING = {4: 1e-4, 8: 1e-6}
#: accelerations beyond all limits
NEVER = 1e9
#: number of Newton steps that refine a solution
STEPS = 3
#: how the minimum is searched for
SEARCH = ADMM(max_steps=200, sweeps=1)


class Explanation(eqx.Module):
    """The forces that explain a motion. **Fields:** `tau` (nv,), the forces of the actuators; `multipliers` (m,) of the
    constraints; `contacts`, the contact forces as impulses over the step; `residual` (nv,), N or N m, the unexplained
    forces."""

    tau: Float[Array, " nv"]
    multipliers: Float[Array, " m"]
    contacts: Contacts
    residual: Float[Array, " nv"]


class _Modes(eqx.Module):
    """The states of contact rows (m, lanes; a lane is one element of the batch): their `known` forces f₀, and the parts
    of T. `normal` (contacts, lanes) is 1 where a normal force is unknown, `slide` is the force of a row per unit of its
    normal force, and `stick` is 1 where a row has an unknown force of its own. `cones` are those of x; `pinned` are the
    known normal forces of soft contacts."""

    known: Array
    normal: Array
    slide: Array
    stick: Array
    cones: Cones
    pinned: Array

    def forces(self, x: Array) -> Array:
        """Return f₀ + T x."""
        return self.known + self.stick * x + self.slide * self._of(x[: 3 * self.cones.counts.contacts : 3])

    def columns(self, J: Array) -> Array:
        """Return Tᵀ J of rows J (m, n, lanes)."""
        a, n = 3 * self.cones.counts.contacts, self.cones.counts.contacts
        added = self.slide[:, None] * J
        at = jnp.asarray([*np.repeat(np.arange(n), 3), *self.cones.counts.twists], int)
        along = jnp.zeros((n, *J.shape[1:]), J.dtype).at[at].add(added[: len(at)])
        own = self.stick[:, None] * J
        return own.at[:a:3].add(along)

    def _of(self, normals: Array) -> Array:
        """Return for every row the normal force of its contact, zero for rows of joints."""
        counts = self.cones.counts
        twists = normals[jnp.asarray(counts.twists, int)]
        rest = jnp.zeros((len(self.known) - 3 * counts.contacts - len(twists), normals.shape[-1]), normals.dtype)
        return jnp.concatenate([jnp.repeat(normals, 3, axis=0), twists, rest])


def _modes(step: Step, s: Array, least: Array) -> _Modes:
    """Return the states of contacts whose rows move at s (m, lanes); an s below `least` counts as rest."""
    counts, cones = step.cones.counts, step.cones
    a, b = counts.ends
    lanes = s.shape[-1]
    soft = step.compliance[:a:3] > 0
    pressed = jnp.where(soft, jnp.maximum(-s[:a:3] / jnp.where(soft, step.compliance[:a:3], 1), 0), 0)
    pressed = widen(pressed, lanes)
    touches = ~soft & (s[:a:3] <= least)
    holds = touches | (soft & (pressed > 0))
    across = jnp.stack([s[1:a:3], s[2:a:3]], 1)
    speed = lengths(across)
    slips = speed > least
    way = jnp.where(slips, cones.friction / jnp.where(slips, speed, 1), 0)[:, None] * -across
    of = jnp.asarray(counts.twists, int)
    turns = jnp.abs(s[a:b]) > least
    torque = jnp.where(turns, -cones.radius * jnp.sign(s[a:b]), 0)
    joints, along = cones.limited, s[b:]
    rubs = jnp.abs(along) > least
    low, high = along <= joints.low + least, along >= joints.high - least
    one = lambda x: x.astype(s.dtype)  # noqa: E731
    whole = lambda n, t: jnp.concatenate([n[:, None], t], 1).reshape(a, lanes)  # noqa: E731
    none = jnp.zeros_like(pressed)
    slide = joined([whole(none, way), torque, jnp.zeros((len(s) - b, lanes), s.dtype)])
    each = lambda n: joined([whole(none, way * n[:, None]), torque * n[of]])  # noqa: E731
    rubbing = widen(jnp.where(rubs, -joints.bound * jnp.sign(along), 0), lanes)
    known = joined([each(pressed), rubbing])
    known = known.at[:a:3].set(pressed)
    tangents = jnp.repeat(one(holds & ~slips)[:, None], 2, axis=1)
    stick = joined([whole(one(touches), tangents), one(holds[of] & ~turns), one(~rubs | low | high)])
    on = joined([jnp.repeat(one(touches), 3, axis=0), one(touches[of]), jnp.ones((len(s) - b, lanes), s.dtype)])
    sets = Cones(
        counts,
        jnp.where(slips, 0, cones.friction),
        jnp.where(turns, 0, cones.radius),
        Limited(jnp.where(rubs, 0, joints.bound), jnp.where(low, 0, -NEVER), jnp.where(high, 0, NEVER)),
    )
    return _Modes(known, one(touches), slide * on, stick, sets, pressed)


def explained(law: Law, free: tuple[int, ...], model, constraints, q, v, a, external, dt, tol):
    """Return τ, ν, contact forces f, gaps, the residual of the law, the unexplained forces, and the places of slots,
    lanes-last."""
    lanes = lanes_of(model, constraints, q, v, a, external, dt)
    q, v, a = widen((q, v, a), lanes)
    step = begun(law, model, constraints, q, v, jnp.zeros_like(v), external, dt)
    problem, first, counts = step.problem, step.first, step.cones.counts
    bodies = body_accelerations(problem, step.start, a)
    r1, r = residual(problem, step.start, a, bodies, jnp.zeros((problem.plan.rows, lanes), a.dtype))
    modes = _modes(step, -r[first:], tol / dt)
    J = widen(jacobian_at(problem.motion, problem.rows), lanes)
    needed = -r1 - (J[first:] * modes.known[:, None]).sum(0)
    at = jnp.asarray(free, int)
    A = jnp.concatenate([J[:first], modes.columns(J[first:])])[:, at]
    M = widen(mass_matrix_at(problem.motion), lanes)[at][:, at]
    x, left = _least(modes, first, A, M, needed[at], mobility(problem))
    nu, f = x[:first], modes.forces(x[first:])
    y = joined([nu, f])
    rest = -r1 - (J * y[:, None]).sum(0)
    driven = jnp.ones((len(rest), 1), rest.dtype).at[at].set(0)
    gaps = problem.rows.residual[first : first + 3 * counts.contacts : 3]
    which = widen(step.slots.which, lanes)
    return driven * rest, nu, f, widen(gaps, lanes), dt * left, (1 - driven) * rest, which


def _least(modes: _Modes, first: int, A: Array, M: Array, b: Array, usual: Array) -> tuple[Array, Array]:
    """Return the least x of multipliers and contacts, and the residual of the law.

    Where all rows of A are zero, such as those of a loop in the air whose joints all have actuators, their rounding
    counts for little beside the `usual` size of G."""
    counts = modes.cones.counts
    _, twisted = counts.ends
    m = len(A)
    # rows in the order of cones: multipliers are dry friction without a bound
    order = np.concatenate([np.arange(first, first + twisted), np.arange(first), np.arange(first + twisted, m)])
    every, joints = Counts(counts.contacts, counts.twists, first + counts.joints), modes.cones.limited
    beside = lambda x, rest: joined([jnp.full((first, 1), x, A.dtype), rest])  # noqa: E731
    limited = Limited(beside(jnp.inf, joints.bound), beside(-NEVER, joints.low), beside(NEVER, joints.high))
    cones = Convex(every, modes.cones.friction, modes.cones.radius, limited, pinned=modes.pinned)
    G, g = _reduced(A[order], M, b)
    mean = sum(G[k, k] for k in range(m)) / m
    x, left = _solved(cones, G, g, jnp.where(mean > usual, mean, usual))
    back = np.argsort(order)
    return x[back], left


def _reduced(A: Array, M: Array, b: Array) -> tuple[Array, Array]:
    """Return A M⁻¹ Aᵀ and −A M⁻¹ b: what is left of A when M is eliminated."""
    m, n, lanes = len(A), len(b), A.shape[-1]
    if not n:
        return jnp.zeros((m, m, lanes), A.dtype), jnp.zeros((m, lanes), A.dtype)
    bordered = joined([joined([M, A]), joined([jnp.swapaxes(A, 0, 1), jnp.zeros((m, m, lanes), A.dtype)])], 1)
    S, y = complement(bordered, joined([b, jnp.zeros((m, lanes), A.dtype)]), n)
    return -S, y


def _solved(cones: Convex, G: Array, g: Array, mean: Array) -> tuple[Array, Array]:
    """Return the least admissible x with the least x·(G x / 2 + g), and what is left of its equations, with their
    derivatives. `mean` is the mean of the diagonal of G, or its usual size.

    A small number on the diagonal of G selects one of many solutions. It is reached from larger ones, for which the
    search is short; the last steps remove its effect."""
    H, h, still, mean = jax.lax.stop_gradient((G, g, cones, mean))
    w = widen(1 / mean[None], g.shape[-1]) * jnp.ones_like(g)
    eye = jnp.eye(len(g), dtype=g.dtype)[..., None]
    off = lambda c, x, s: natural(c, w, x, s)  # noqa: E731
    size = lambda x, s: jnp.abs(off(still, x, s) / w).max(0)  # noqa: E731
    slope = lambda x, s, H: Slope.of(At(still, w, x, s), H)  # noqa: E731

    def polished(H, x, shift):
        """Return x after Newton's steps, as far as they come nearer; `shift` is subtracted from s."""

        def better(x):
            s = lambda x: product(H, x) + h - shift  # noqa: E731
            y = x - slope(x, s(x), H).solve(off(still, x, s(x)))
            return jnp.where(size(y, s(y)) < size(x, s(x)), y, x)

        return _repeated(better, x, STEPS)

    def nearer(carried):
        x, small = carried
        G = H + eye * (small * mean)
        return polished(G, SEARCH.solve(G, h, still, polished(G, x, 0)), 0), FACTOR * small

    least = SMALL[g.dtype.itemsize]
    stages = 1 + round(np.log(least / LARGE) / np.log(FACTOR))
    x, _ = _repeated(nearer, (jnp.zeros_like(h), jnp.asarray(LARGE, h.dtype)), stages)
    small = least * mean
    G, H = G + eye * small, H + eye * small
    step = off(cones, x, product(G, x) + g)
    moved = jax.lax.stop_gradient(slope(x, product(H, x) + h, H)).solve(step)
    exact = _repeated(lambda x: polished(H, x, small * x), x, STEPS)
    left = size(exact, product(H, exact) + h - small * exact)
    return exact - moved + jax.lax.stop_gradient(moved), left


def _repeated(f, x, times: int):
    """Return f(... f(x)); the program has f once, while short loops that are counted may be unrolled."""
    return jax.lax.while_loop(lambda c: c[1] < times, lambda c: (f(c[0]), c[1] + 1), (x, jnp.asarray(0)))[0]


def explain(
    model: Model,
    state: State,
    acceleration: ArrayLike | None = None,
    *,
    dt: ArrayLike,
    contacts: Law,
    after: ArrayLike | None = None,
    constraints: Sequence[Constraint] | None = None,
    external: ArrayLike | None = None,
    actuated: Sequence[str] | None = None,
    tol: float | None = None,
) -> Explanation:
    """Return the forces of contact, constraints and actuators that explain a motion: contact inverse dynamics.

    If many forces do, as for a robot that stands on four feet, the least contact forces are returned. Under the `tau`
    found, `step(..., contacts=contacts)` reproduces the motion.

    **Arguments:**

    - `acceleration` (nv,) over a step of `dt` seconds, as in `forward_dynamics`; or instead `after` (nv,), the velocity
      at the end, as `step` returns it.
    - `contacts`, the law of contact; `constraints` and `external` as in `forward_dynamics`.
    - `actuated`: names of the joints that have actuators. None: all but free joints. In an embedded model these are
      independent joints.
    - `tol`: the speed (m/s) below which contacts rest. None: 1e-6 in double, 1e-4 in single precision, where rounding
      of gaps looks as fast.

    **Returns** an `Explanation`. Its `residual` is not zero if no forces explain the motion: no actuator moves a
    floating base, and contacts only push.

    **Raises** `TypeError` and `ValueError` for wrong types, shapes and names.
    """
    name = "explain"
    model = check_model(name, model)
    state = check_state(name, model, state)
    constraints = check_constraints(name, model, constraints)
    check_law(name, model, contacts, formed=True)
    if (acceleration is None) == (after is None):
        raise ValueError(f"`{name}`: give either `acceleration` or `after`, the velocity at the end of the step.")
    what, motion = ("after", after) if acceleration is None else ("acceleration", acceleration)
    motion = check_vector(name, what, motion, (model.nv,))
    external = check_external(name, model, external)
    dt = floats(f"`{name}`", "dt", dt, ())
    check(f"`{name}`", "dt", dt, finite, positive)
    free = _without_actuators(name, model, actuated)
    given = constraints, motion, external
    model, q, v, constraints, motion, external = common_dtype(model, state.q, state.v, given=given)
    dt = dt.astype(v.dtype)
    a = laned(acceleration_over, model.topology)(v, motion, dt) if acceleration is None else motion
    tol = RESTING[v.dtype.itemsize] if tol is None else tol
    least = floats(f"`{name}`", "tol", tol, (), finite, not_negative).astype(v.dtype)
    found = laned(explained, contacts, free)(model, tuple(constraints), q, v, a, external, dt, least)
    tau, nu, f, gaps, left, rest, which = found
    return Explanation(tau, nu, contacts_of(model, contacts, f, dt, gaps, left, which), rest)


def _without_actuators(call: str, model: Model, actuated: Sequence[str] | None) -> tuple[int, ...]:
    """Return the indices of the velocities that no actuator moves."""
    topology, names = model.topology, model.joint_names
    owners = [topology.velocity_bodies[v] for v in topology.independent]
    if actuated is None:
        return tuple(k for k, b in enumerate(owners) if isinstance(topology.kinds[b], FreeKind))
    if not isinstance(actuated, list | tuple) or not all(isinstance(n, str) for n in actuated):
        raise TypeError(f"`{call}`: `actuated` is {described(actuated)}, not a sequence of names of joints.")
    for n in actuated:
        if n not in names:
            raise ValueError(f"`{call}`: `actuated`: no joint is called {n!r:.60}. There are {', '.join(names)}.")
        b = topology.joint(n)
        if any(v not in topology.places for v in range(topology.nv)[topology.v_slice(b)]):
            free = dict.fromkeys(
                owners[topology.places[v]] for v in topology.clusters[topology.cluster_of[b]].independent
            )
            instead = ", ".join(repr(topology.joint_names[k]) for k in free)
            raise ValueError(
                f"`{call}`: `actuated`: the velocity of joint {n!r} depends on that of {instead}: name these instead. "
                "Forces of a motor on it are forces on these."
            )
    driven = {topology.joint(n) for n in actuated}
    return tuple(k for k, b in enumerate(owners) if b not in driven)
