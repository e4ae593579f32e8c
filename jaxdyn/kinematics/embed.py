"""`embed` turns loops and gears into joints; `expand` and `reduce` convert states between embedded and cut models.

A cut model is a tree whose loops are closed by constraints.
"""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..engine.kept import programs
from ..engine.lanes import laned
from ..engine.once import once
from ..model.checks import check_model, check_state, check_vector, commands_hint, common_dtype
from ..model.commands import Commands
from ..model.joints import RevoluteKind
from ..model.model import Model
from ..model.state import State
from ..spatial.instances import check_instance, check_names
from ..spatial.numbers import floats
from ..tree.topology import WORLD, Cluster, Topology, unknown
from . import ratios
from .assemble import assemble, residual, searched, slope
from .clusters import ENOUGH, dependent, joints_of, merged, outputs, regularity
from .embedding import Embedded
from .manifold import closed, moving, separated

#: steps from the home configuration to a random one
WALK = 20
#: m or rad by which loops may be open in single and double precision
CLOSED = {4: 1e-5, 8: 1e-11}
#: number of configurations at which independent velocities are chosen: the closed one, and others around it
SAMPLES = 8
#: most bodies of a "local" cluster: beyond 20 a loop costs more embedded than cut, and from 12 on it takes several
#: times as long to compile (docs/benchmarks/embedding.md)
LARGEST = 12


def unembedded(model: Model) -> Model:
    """Return the model with its loops cut again."""
    if not model.embedded:
        return model
    topology, actuation = dataclasses.replace(model.topology, clusters=(), closes=None), model.actuation
    if len(actuation) < topology.nv:
        whole = jnp.zeros((topology.nv, model.nu), actuation.dtype)
        actuation = whole.at[jnp.asarray(model.topology.independent)].set(actuation)
    constraints = *model.embedded, *model.constraints
    return dataclasses.replace(
        model, topology=topology, constraints=constraints, embedded=(), actuation=actuation, home=None
    )


def embed(model: Model, loops: str | Sequence[str] = "all", *, independent: Sequence[str] | None = None) -> Model:
    """Return the model with loops and gears embedded (constraint embedding).

    The joints of each loop become one wider joint with independent velocities. Its constraints hold exactly, without
    multipliers. q remains the configuration of the tree, (nq,) of all joints, so that the branch of a loop is part of
    the state; v, accelerations and forces are those of the independent joints, (nv,). Constraints that are not embedded
    stay in `model.constraints`.

    **Arguments:**

    - `loops`: "all" for all constraints of the model; "local" for those that tie few joints and do not tie them to the
      world; or names of constraints.
    - `independent`: names of joints to keep independent. The others are chosen: joints with actuators first, then those
      that the robot's file does not call dependent (`independent="false"`, `<mimic>`), then those that leave the
      constraints well conditioned around `neutral`, then those declared first.

    **Raises** `ValueError` for unknown names, for constraints that cannot be closed, leave no freedom or restrain
    nothing, for a choice that does not determine the other joints, for constraints with a nonzero `target`, and inside
    of `jit`, `vmap` and `grad`.
    """
    check_model("embed", model)
    _check_known(jax.tree.leaves(model))
    cut = unembedded(model)
    chosen = chosen_of(cut, loops, len(model.embedded))
    if not chosen:
        return model
    taken = tuple(cut.constraints[k] for k in chosen)
    for k, c in zip(chosen, taken, strict=True):
        if np.any(np.asarray(c.target) != 0):
            raise ValueError(f"`embed`: constraint {c.name or k!r} has a `target`; only rows at rest can be embedded.")
    independent = None if independent is None else check_names("`embed`", "independent", independent)
    free = _free_joints(cut.topology, independent)
    samples = _samples(cut, taken)
    slopes = _slopes(cut, taken, samples)
    topology = cut.topology
    parts = merged([joints_of(topology, c) for c in taken])
    blocks = [_block(cut, taken, *part, slopes) for part in parts]
    home = _home(blocks)
    clusters = tuple(_cluster(cut, taken, *part, block, free) for part, block in zip(parts, blocks, strict=True))
    known = {j for c in clusters for j in (topology.joint_names[b] for b in c.bodies)}
    if stray := [j for j in independent or () if j not in known]:
        raise ValueError(f"`embed`: `independent`: joint {stray[0]!r} is in none of the embedded loops.")
    topology = dataclasses.replace(topology, clusters=clusters, closes=_close)
    actuation = cut.actuation
    at = np.asarray(topology.independent)
    driven = np.any(np.asarray(actuation) != 0, axis=1) if actuation.size else np.zeros(topology.nv, bool)
    if not driven[[v for c in clusters for v in c.dependent]].any():
        actuation = actuation[at]
    return dataclasses.replace(
        cut,
        topology=topology,
        constraints=tuple(c for k, c in enumerate(cut.constraints) if k not in chosen),
        embedded=taken,
        actuation=actuation,
        home=jnp.asarray(samples[home], model.gravity.dtype),
    )


def _check_known(arrays) -> None:
    """Raise `ValueError` if arrays are traced."""
    if any(isinstance(x, jax.core.Tracer) for x in arrays):
        raise ValueError(
            "`embed`: `model` is traced, and which joints are independent depends on its numbers. Embed it outside of "
            "`jit`, `vmap` and `grad`, and change numbers of the embedded model by `replace`."
        )


def chosen_of(model: Model, loops, before: int = 0) -> list[int]:
    """Return the numbers of the constraints of a cut model that the argument `loops` of `embed` selects, and of the
    first `before`, which are embedded already."""
    topology, constraints = model.topology, model.constraints
    names = check_names("`embed`", "loops", loops)
    if loops == "all":
        return list(range(len(constraints)))
    if loops == "local":
        needs = [joints_of(topology, c) for c in constraints]
        local = {
            k
            for bodies, members in merged(needs)
            if len(bodies) <= LARGEST and not (_tied(model, members) and WORLD in outputs(topology, bodies))
            for k in members
        }
        return sorted(local | set(range(before)))
    known = {c.name: k for k, c in enumerate(constraints) if c.name}
    for name in names:
        if name not in known:
            raise ValueError(f"`embed`: `loops`: {unknown('constraint', name, known)}")
    return sorted({known[n] for n in names} | set(range(before)))


def _tied(model: Model, members) -> bool:
    """Return True if one of the constraints is attached to the world."""
    layouts = [model.constraints[k].layout(model.topology) for k in members]
    return any(any(b == WORLD for b, _ in x.attachments) for x in layouts)


def _free_joints(topology: Topology, independent) -> frozenset[int] | None:
    """Return the velocities of the joints named in `independent`. Raise `ValueError` for unknown names."""
    if independent is None:
        return None
    found = set()
    for name in independent:
        try:
            body = topology.joint(name)
        except ValueError as error:
            raise ValueError(f"`embed`: `independent`: {error}") from None
        found |= set(range(topology.v_starts[body], topology.v_starts[body + 1]))
    return frozenset(found)


def _samples(model: Model, constraints) -> list[np.ndarray]:
    """Return closed configurations, first the one nearest to `neutral`. Raise `ValueError` if there is none."""
    try:
        home = assemble(model, model.neutral(), constraints=constraints)
    except ValueError as error:
        raise ValueError(str(error).replace("`assemble`", "`embed`", 1)) from None
    _check_known([home])  # inside of `jit` all results are traced, also those of a model that is not
    found = [np.asarray(home)]
    if not any(c.moving for c in constraints):
        return found
    rng, fine = np.random.default_rng(0), 1e-9 if home.dtype == jnp.float64 else 1e-4
    for k in range(SAMPLES - 1):
        dv = rng.standard_normal(model.nv) * 0.3 * (k + 1) / SAMPLES
        q, left = searched(model, constraints, moving(model)(home, jnp.asarray(dv, home.dtype)))
        if np.abs(left).max() < fine:
            found.append(np.asarray(q))
    return found


@programs
def _sloping(structure):
    """Return `slope`, compiled once for each structure of robot and constraints."""
    return jax.jit(lambda model, constraints, q: slope(model, constraints, q))


def _slopes(model: Model, constraints, samples) -> np.ndarray:
    """Return the derivatives (samples, rows, velocities) of the constraints' errors."""
    at = _sloping(jax.tree.structure((model, constraints)))
    return np.stack([np.asarray(at(model, constraints, q), float) for q in samples])


class _Block(NamedTuple):
    """A cluster's velocities, the K (samples, rows, velocities) of its constraints, and their `regularity`."""

    velocities: list[int]
    K: np.ndarray
    rank: int
    regular: np.ndarray


def _block(model: Model, constraints, bodies, members, slopes) -> _Block:
    """Return the part of the slopes that belongs to a cluster, with its regularity."""
    topology = model.topology
    velocities = [v for b in bodies for v in range(topology.v_starts[b], topology.v_starts[b + 1])]
    starts = np.cumsum([0, *(c.layout(topology).rows for c in constraints)])
    rows = [r for k in members for r in range(starts[k], starts[k + 1])]
    K = slopes[:, rows][:, :, velocities]
    return _Block(velocities, K, *regularity(K, _least(model)))


def _least(model: Model) -> float:
    """Return the size, relative to the largest entry, up to which entries of K count as zero."""
    return 1e-7 if model.gravity.dtype == jnp.float64 else 1e-4


def _home(blocks) -> int:
    """Return the number of the first sample, counted from `neutral`, that is not near a singular pose of any
    cluster."""
    worst = np.min([block.regular for block in blocks], axis=0)
    return int(np.flatnonzero(worst >= 0.3 * worst.max())[0])


def _cluster(model: Model, constraints, bodies, members, block: _Block, free) -> Cluster:
    """Return a cluster with its independent velocities chosen."""
    topology = model.topology
    velocities, K, rank, regular = block
    driven = np.abs(np.asarray(model.actuation)).sum(1) > 0 if model.nu else np.zeros(topology.nv, bool)
    follows = [topology.velocity_bodies[v] in topology.followers for v in range(topology.nv)]
    kinds = [(False, True), (False, False), (True, True), (True, False)]
    groups = [[j for j, v in enumerate(velocities) if (driven[v], follows[v]) == kind] for kind in kinds]
    if free is not None:
        groups = [[j for j in group if velocities[j] not in free] for group in groups]
    found, worst = dependent(K[regular >= 0.3 * regular.max()], rank, groups, _least(model))
    told = ", ".join(repr(constraints[k].name or k) for k in members[:4])
    if rank == 0:
        raise ValueError(f"`embed`: {told}: no joint moves these constraints. Name others in `loops=`.")
    names = lambda at: ", ".join(sorted({repr(topology.joint_names[topology.velocity_bodies[v]]) for v in at}))  # noqa: E731
    if len(found) < rank or worst < ENOUGH:
        others = [velocities[j] for j in range(len(velocities)) if j not in found]
        raise ValueError(
            f"`embed`: {told}: with joints {names(others)} independent, the other {len(found)} velocities are not "
            f"determined by constraints of rank {rank}"
            + (" everywhere." if len(found) == rank else ".")
            + " Choose other joints with `independent=`."
        )
    if len(found) == len(velocities):
        raise ValueError(f"`embed`: {told}: these constraints leave joints {names(velocities)} no freedom.")
    return Cluster(
        tuple(bodies),
        tuple(members),
        tuple(v for j, v in enumerate(velocities) if j not in found),
        tuple(velocities[j] for j in sorted(found)),
        not any(constraints[k].moving for k in members),
        tuple(b for b in bodies if _symmetric(model, b)),
    )


def _symmetric(model: Model, body: int) -> bool:
    """Return True if a body turns about an axis of symmetry and carries no other body, so that it may be a gyrostat."""
    topology, bodies = model.topology, model.bodies
    parent = topology.parents[body]
    if type(topology.kinds[body]) is not RevoluteKind or body in topology.parents or parent == WORLD:
        return False
    axis, center, inertia = (
        np.asarray(x[body], float) for x in (model.joints.axis, bodies.center_of_mass, bodies.rotational)
    )
    mass, size = float(bodies.mass[body]), np.abs(inertia).max(initial=0.0)
    eps = 32 * float(jnp.finfo(model.gravity.dtype).eps)
    off = np.abs(np.cross(axis, center)).max()
    turned = inertia - axis @ inertia @ axis * np.outer(axis, axis)
    across = np.trace(turned) / 2 * (np.eye(3) - np.outer(axis, axis))
    return bool(
        mass * off**2 <= eps * size and mass * off <= eps * max(mass, 1) and np.abs(turned - across).max() <= eps * size
    )


def _close(model: Model, q: Array, far: bool) -> Array:
    """Return q (nq,) with the clusters' loops closed. `far` is True if they may be far from closed."""
    if not far:
        return laned(closed)(model, q)
    tree = unembedded(model)
    walked = _walked(model, q)
    left = laned(residual)(tree, model.embedded, walked)
    found, _ = searched(tree, model.embedded, q)
    return jnp.where(jnp.abs(left).max() < CLOSED[q.dtype.itemsize], walked, found)


@once
def _walked(model: Model, q: Array) -> Array:
    """Return the configuration (nq,) with the independent joints of q (nq,), on the branch of the home configuration.
    It is open if these joints cannot get there."""
    start = laned(closed)(model, model.home)
    w = separated(model)(start, q) / WALK
    return jax.lax.fori_loop(0, WALK, lambda _, q: moving(model)(q, w), start)


def _spread(model, q, w):
    return ratios.spread(model.topology, Embedded(model, q).ratios().G, w)


def velocities(model: Model, q: Array, w: Array) -> Float[Array, " n"]:
    """Return the velocities (n,) of all joints of the tree for independent velocities w (nv,) at q (nq,)."""
    return laned(_spread)(model, q, w) if model.topology.clusters else w


def _gathered(model, q, tau):
    return ratios.gathered(model.topology, Embedded(model, q).ratios().G, tau)


def independent_forces(model: Model, q: Array, tau: Array) -> Float[Array, " nv"]:
    """Return forces (nv,) at the independent joints. Forces (nv,) are returned as they are; forces (n,) at all joints
    of the tree become Gᵀ τ."""
    return laned(_gathered)(model, q, tau) if tau.shape != (model.nv,) else tau


def gains(model: Model, q: Array, each: Array, w: Array, v: Array | None = None) -> Array:
    """Return what `gained` returns, for arrays with lanes last; without velocities v, only Gᵀ K G w."""
    topology = model.topology
    if not topology.clusters:
        return each * w
    loops = Embedded(model, q)
    found = loops.ratios()
    spread = lambda x: ratios.spread(topology, found.G, x)  # noqa: E731
    curved = None if v is None else loops.bias(found, spread(v))
    moved = spread(w) if curved is None else spread(w) + curved
    return ratios.gathered(topology, found.G, each * moved)


def gained(model: Model, q: Array, each: Array, w: Array, v: Array) -> Float[Array, " nv"]:
    """Return the forces (nv,) that gains K (n,) at all joints of the tree exert for accelerations w (nv,) at velocities
    v (nv,): Gᵀ K (G w + Ġ v)."""
    return laned(gains)(model, q, each, w, v) if model.topology.clusters else each * w


def checked_forces(call: str, model: Model, tau) -> Array:
    """Return generalised forces as floats: (nv,), or, with embedded loops, also (n,) at all joints of the tree. Raise
    `ValueError` for other shapes."""
    if isinstance(tau, Commands):
        raise TypeError(f"`{call}`: `tau` is `Commands`, not forces; `jd.actuator_forces` returns those of commands.")
    n, tau = model.topology.nv, floats(f"`{call}`", "tau", tau)
    if model.topology.clusters and tau.shape == (n,):
        return tau
    if model.topology.clusters and tau.shape != (model.nv,):
        raise ValueError(
            f"`{call}`: `tau` has shape {tau.shape}, neither ({model.nv},), of the independent joints, nor ({n},), of "
            f"all joints.{commands_hint(model, tau.shape)}"
        )
    if tau.shape != (model.nv,) and tau.shape == (model.nu,):
        raise ValueError(f"`{call}`: `tau` has shape {tau.shape}, not ({n},).{commands_hint(model, tau.shape)}")
    return check_vector(call, "tau", tau, (model.nv,))


def expand(embedded: Model, state: State) -> State:
    """Return the state of the cut model: the same q, and the velocities v = G w of all joints.

    **Raises** `ValueError` for wrong shapes.
    """
    check_model("expand", embedded, "embedded")
    state = check_state("expand", embedded, state)
    model, q, w = common_dtype(embedded, state.q, state.v)
    return State(q, velocities(model, q, w))


def reduce(embedded: Model, state: State) -> State:
    """Return the state of the embedded model for a state of the cut model: the same q, and the velocities of the
    independent joints. Loops that are open, or opening, are not closed: see `assemble`.

    **Raises** `ValueError` for wrong shapes.
    """
    check_model("reduce", embedded, "embedded")
    check_instance("`reduce`", "state", state, State, " Use `jd.State(q, v)`.")
    topology = embedded.topology
    q = check_vector("reduce", "state.q", state.q, (embedded.nq,))
    v = check_vector("reduce", "state.v", state.v, (topology.nv,))
    return State(q, v[jnp.asarray(topology.independent)])
