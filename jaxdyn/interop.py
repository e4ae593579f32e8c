"""Conversion of states between jaxdyn and MuJoCo, Brax or Pinocchio. Joints are matched by name.

| | configuration of a free joint | its velocity | quaternion | order |
| --- | --- | --- | --- | --- |
| jaxdyn | position, quaternion | linear and angular in the body's axes | w x y z | as declared |
| MuJoCo, Brax | the same | linear in the world's axes, angular in the body's | w x y z | as declared |
| Pinocchio | the same | as jaxdyn | x y z w | branches sorted by name |

Pinocchio represents a continuous joint as (cos, sin) and a planar joint's velocity in the body's axes. The functions
take single states, as all of jaxdyn does, and may be traced, vmapped and differentiated; the models are read at trace
time.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .kinematics.embed import expand, reduce
from .model.checks import check_state, check_vector, common_dtype
from .model.model import Model
from .model.state import State
from .spatial.instances import check_instance, counted, described
from .spatial.numbers import ArrayLike
from .spatial.rotation import quaternion_conjugate, quaternion_normalize, rotate
from .tree.topology import unknown

#: of joints: free, ball, slide, hinge
MUJOCO_SIZES = (7, 6), (4, 3), (1, 1), (1, 1)
#: kinds with a quaternion, and what Pinocchio calls them
TURNING, PINOCCHIO_TURNING = ("Free", "Spherical"), ("JointModelFreeFlyer", "JointModelSpherical")


class Span(NamedTuple):
    """The place of a joint in the other engine: its first indices in q and v, and the length of its q."""

    q: int
    v: int
    nq: int


def _joints(model: Model) -> list[tuple[str, str, slice, slice]]:
    """Return (name, kind such as ``"Free"``, slice of q, slice of v) for every joint."""
    t = model.topology
    return [(name, t.kinds[b].name, t.q_slice(b), t.v_slice(b)) for b, name in enumerate(t.joint_names)]


def _order(model: Model, spans: Sequence[Span]) -> np.ndarray:
    """Return, for every velocity of jaxdyn, its index in the other engine."""
    pieces = [np.arange(s.v, s.v + v.stop - v.start) for s, (_, _, _, v) in zip(spans, _joints(model), strict=True)]
    return np.concatenate(pieces)[list(model.topology.independent)] if pieces else np.zeros(0, int)


def _own(model: Model, q: Array, v: Array) -> State:
    """Return the model's state for velocities of all joints of the tree. Loops of the model may be embedded."""
    return reduce(model, State(q, v)) if model.topology.clusters else State(q, v)


def _check_models(call: str, model: Model, other: Any, name: str, kind: str, fields: Sequence[str]) -> None:
    """Raise `TypeError` unless these are a model of jaxdyn and one of the other engine, which need not be installed
    here."""
    check_instance(f"`{call}`", "model", model, Model)
    if isinstance(other, Model) or not all(hasattr(other, x) for x in fields):
        raise TypeError(f"`{call}`: `{name}` is {described(other)}, not a `{kind}`.")


def _check_joint(call: str, name: str, kind: str, at: slice, nv: int, there: str, same: bool) -> None:
    """Raise `ValueError` unless a joint has as many velocities there, and the `same` coordinates."""
    if nv != at.stop - at.start:
        here = counted(at.stop - at.start, "velocity", "velocities")
        raise ValueError(f"`{call}`: joint {name!r} has {here} here ({kind}) and {nv} {there}.")
    if not same:
        raise ValueError(f"`{call}`: joint {name!r} has other coordinates {there} than here ({kind}).")


def _given(
    call: str, names: Sequence[str], sizes: Sequence[int], q: ArrayLike, v: ArrayLike | None
) -> tuple[Array, Array]:
    """Return a configuration and a velocity (None: zero) of the other engine, whose sizes are given."""
    q = check_vector(call, names[0], q, (sizes[0],))
    v = jnp.zeros(sizes[1], q.dtype) if v is None else check_vector(call, names[1], v, (sizes[1],))
    return common_dtype(q, v)


def _whole(call: str, model: Model, state: State) -> State:
    """Return the state with the velocities of all joints of the tree."""
    (state,) = common_dtype(check_state(call, model, state))
    return expand(model, state) if model.topology.clusters else state


def _pinocchio_spans(call: str, model: Model, pin_model: Any) -> list[Span]:
    _check_models(call, model, pin_model, "pin_model", "pinocchio.Model", ("names", "joints", "nq", "nv"))
    names, spans = list(pin_model.names), []
    for name, kind, own, at in _joints(model):
        if name not in names:
            raise ValueError(f"`{call}`: in Pinocchio's model " + unknown("joint", name, names[1:]))
        joint = pin_model.joints[names.index(name)]
        # continuous and planar joints have a cosine and a sine in place of an angle
        known = {own.stop - own.start, own.stop - own.start + (kind in ("Revolute", "Planar"))}
        turns = (kind in TURNING) == (joint.shortname() in PINOCCHIO_TURNING)
        _check_joint(call, name, kind, at, joint.nv, f"in Pinocchio ({joint.shortname()})", joint.nq in known and turns)
        spans.append(Span(joint.idx_q, joint.idx_v, joint.nq))
    return spans


def pinocchio_velocity_order(model: Model, pin_model: Any) -> np.ndarray:
    """Return indices `order` (nv,) with ``v = v_pinocchio[order]`` and ``M = M_pinocchio[order][:, order]``.

    A planar joint's velocity is also in other axes: see `from_pinocchio`. Joints that only Pinocchio's model has are
    left out. Raises `ValueError` for joints that Pinocchio's model does not have.
    """
    return _order(model, _pinocchio_spans("pinocchio_velocity_order", model, pin_model))


def from_pinocchio(model: Model, pin_model: Any, q: ArrayLike, v: ArrayLike | None = None) -> State:
    """Return jaxdyn's state for Pinocchio's q and v (None: zero).

    Raises `ValueError` for wrong shapes, and for joints that the other model does not have or that have other
    coordinates there, `TypeError` for other types.
    """
    spans = _pinocchio_spans("from_pinocchio", model, pin_model)
    q, v = _given("from_pinocchio", ("q", "v"), (pin_model.nq, pin_model.nv), q, v)
    qs, vs = [q[:0]], [v[:0]]  # for a model without joints
    for span, (_, kind, _, at) in zip(spans, _joints(model), strict=True):
        x, u = q[span.q : span.q + span.nq], v[span.v : span.v + at.stop - at.start]
        if kind in TURNING:
            x = jnp.concatenate([x[:-4], x[-1:], x[-4:-1]])
        elif kind in ("Revolute", "Planar") and span.nq > at.stop - at.start:
            x = jnp.concatenate([x[:-2], jnp.arctan2(x[-1:], x[-2:-1])])
        if kind == "Planar":
            u = _turned(u, x[2])
        qs.append(x)
        vs.append(u)
    return _own(model, jnp.concatenate(qs), jnp.concatenate(vs))


def to_pinocchio(
    model: Model, pin_model: Any, state: State
) -> tuple[Float[Array, " nq_there"], Float[Array, " nv_there"]]:
    """Return Pinocchio's (q, v) for a state of jaxdyn. Joints that only Pinocchio's model has are zero.

    Raises `ValueError` for wrong shapes, and for joints that the other model does not have or that have other
    coordinates there, `TypeError` for other types.
    """
    spans = _pinocchio_spans("to_pinocchio", model, pin_model)
    state = _whole("to_pinocchio", model, state)
    q, v = jnp.zeros(pin_model.nq, state.q.dtype), jnp.zeros(pin_model.nv, state.v.dtype)
    for span, (_, kind, qs, vs) in zip(spans, _joints(model), strict=True):
        x, u = state.q[qs], state.v[vs]
        if kind == "Planar":
            u = _turned(u, -x[2])
        if kind in TURNING:
            x = jnp.concatenate([x[:-4], x[-3:], x[-4:-3]])
        elif kind in ("Revolute", "Planar") and span.nq > vs.stop - vs.start:
            x = jnp.concatenate([x[:-1], jnp.cos(x[-1:]), jnp.sin(x[-1:])])
        q, v = q.at[span.q : span.q + span.nq].set(x), v.at[span.v : span.v + vs.stop - vs.start].set(u)
    return q, v


def _turned(u: Array, angle: Array) -> Array:
    """Return a planar velocity in axes that are turned by -angle."""
    c, s = jnp.cos(angle), jnp.sin(angle)
    return jnp.stack([c * u[0] - s * u[1], s * u[0] + c * u[1], u[2]])


def _mujoco_spans(call: str, model: Model, mj_model: Any) -> list[Span]:
    _check_models(call, model, mj_model, "mj_model", "mujoco.MjModel", ("njnt", "joint", "nq", "nv"))
    names = {mj_model.joint(k).name: k for k in range(mj_model.njnt)}
    free = [k for k in range(mj_model.njnt) if int(mj_model.jnt_type[k]) == 0]
    spans = []
    for name, kind, own, at in _joints(model):
        k = names.get(name)
        if k is None and kind == "Free" and len(free) == 1:
            k = free[0]  # MuJoCo's free joints often have no name
        if k is None and len(model.joint_names) == mj_model.njnt and not mj_model.joint(len(spans)).name:
            k = len(spans)  # joints without a name are matched by their order
        if k is None:
            raise ValueError(f"`{call}`: in MuJoCo's model " + unknown("joint", name, names))
        nq, nv = MUJOCO_SIZES[int(mj_model.jnt_type[k])]
        _check_joint(
            call, name, kind, at, nv, "in MuJoCo", nq == own.stop - own.start and (nq > nv) == (kind in TURNING)
        )
        spans.append(Span(int(mj_model.jnt_qposadr[k]), int(mj_model.jnt_dofadr[k]), nq))
    return spans


def mujoco_velocity_order(model: Model, mj_model: Any) -> np.ndarray:
    """Return indices `order` (nv,) with ``v = qvel[order]``, except for the linear velocities of free joints: see
    `from_mujoco`.

    Raises `ValueError` for joints that the other model does not have or that have other coordinates there, `TypeError`
    for other types.
    """
    return _order(model, _mujoco_spans("mujoco_velocity_order", model, mj_model))


def from_mujoco(model: Model, mj_model: Any, qpos: ArrayLike, qvel: ArrayLike | None = None) -> State:
    """Return jaxdyn's state for MuJoCo's (or MJX's) qpos and qvel (None: zero). Quaternions, which may have any length
    there, have unit length here.

    Raises `ValueError` for wrong shapes, and for joints that the other model does not have or that have other
    coordinates there, `TypeError` for other types.
    """
    spans, sizes = _mujoco_spans("from_mujoco", model, mj_model), (int(mj_model.nq), int(mj_model.nv))
    return _from_world(model, spans, *_given("from_mujoco", ("qpos", "qvel"), sizes, qpos, qvel))


def to_mujoco(model: Model, mj_model: Any, state: State) -> tuple[Float[Array, " nq_there"], Float[Array, " nv_there"]]:
    """Return MuJoCo's (qpos, qvel) for a state of jaxdyn.

    Raises `ValueError` for wrong shapes, and for joints that the other model does not have or that have other
    coordinates there, `TypeError` for other types.
    """
    spans = _mujoco_spans("to_mujoco", model, mj_model)
    return _to_world(model, spans, int(mj_model.nq), int(mj_model.nv), _whole("to_mujoco", model, state))


def _brax_spans(call: str, model: Model, system: Any) -> tuple[list[Span], int, int]:
    """Return the place of each joint in Brax, and Brax's number of coordinates and of velocities.

    Brax names links, not joints: the degrees of freedom of a link are those of the joints that end in its body."""
    _check_models(call, model, system, "system", "brax.System", ("link_names", "link_types"))
    t, at, q, v = model.topology, {}, 0, 0
    for link, code in zip(system.link_names, system.link_types, strict=True):
        if link not in t.body_names:
            raise ValueError(f"`{call}`: " + unknown("body", link, t.body_names) + " It is a link in Brax.")
        wanted = 6 if code == "f" else int(code)
        up = t.ancestors(t.body_names.index(link))
        total = list(accumulate(t.kinds[b].nv for b in up))
        if wanted not in total:
            raise ValueError(f"`{call}`: link {link!r} has {wanted} freedoms in Brax, but not here.")
        for b in reversed(up[: total.index(wanted) + 1]):
            if t.kinds[b].nq > t.kinds[b].nv and t.kinds[b].name not in TURNING:
                raise ValueError(f"`{call}`: joint {t.joint_names[b]!r} ({t.kinds[b].name}) is of no kind of Brax.")
            at[b] = Span(q, v, t.kinds[b].nq)
            q, v = q + t.kinds[b].nq, v + t.kinds[b].nv
    missing = [name for b, name in enumerate(t.joint_names) if b not in at]
    if missing:
        raise ValueError(f"`{call}`: Brax's system has no link that joint {missing[0]!r} moves.")
    return [at[b] for b in range(t.nb)], q, v


def from_brax(model: Model, system: Any, q: ArrayLike, qd: ArrayLike | None = None) -> State:
    """Return jaxdyn's state for Brax's q and qd (None: zero).

    Raises `ValueError` for wrong shapes, and for joints that the other model does not have or that have other
    coordinates there, `TypeError` for other types.
    """
    spans, *sizes = _brax_spans("from_brax", model, system)
    return _from_world(model, spans, *_given("from_brax", ("q", "qd"), sizes, q, qd))


def to_brax(model: Model, system: Any, state: State) -> tuple[Float[Array, " nq_there"], Float[Array, " nv_there"]]:
    """Return Brax's (q, qd) for a state of jaxdyn.

    Raises `ValueError` for wrong shapes, and for joints that the other model does not have or that have other
    coordinates there, `TypeError` for other types.
    """
    spans = _brax_spans("to_brax", model, system)
    return _to_world(model, *spans, _whole("to_brax", model, state))


def _from_world(model: Model, spans: Sequence[Span], q: Array, v: Array) -> State:
    qs, vs = [q[:0]], [v[:0]]  # for a model without joints
    for span, (_, kind, _, at) in zip(spans, _joints(model), strict=True):
        x, u = q[span.q : span.q + span.nq], v[span.v : span.v + at.stop - at.start]
        if kind in TURNING:
            x = jnp.concatenate([x[:-4], _unit(x[-4:])])
        qs.append(x)
        vs.append(_linear(kind, u, lambda l, x=x: rotate(quaternion_conjugate(x[3:]), l)))
    return _own(model, jnp.concatenate(qs), jnp.concatenate(vs))


def _unit(a: Array) -> Array:
    """Return a quaternion scaled to unit length. As in MuJoCo, one of length zero is no rotation."""
    return quaternion_normalize(jnp.where(a.any(), a, jnp.eye(4, dtype=a.dtype)[0]))


def _to_world(model: Model, spans: Sequence[Span], nq: int, nv: int, state: State) -> tuple[Array, Array]:
    q, v = jnp.zeros(nq, state.q.dtype), jnp.zeros(nv, state.v.dtype)
    for span, (_, kind, qs, vs) in zip(spans, _joints(model), strict=True):
        x = state.q[qs]
        u = _linear(kind, state.v[vs], lambda l, x=x: rotate(x[3:], l))
        q, v = q.at[span.q : span.q + span.nq].set(x), v.at[span.v : span.v + vs.stop - vs.start].set(u)
    return q, v


def _linear(kind: str, u: Array, turn: Callable[[Array], Array]) -> Array:
    """Return the velocity of a free joint with its linear part turned by `turn`, and of other joints unchanged."""
    return jnp.concatenate([turn(u[:3]), u[3:]]) if kind == "Free" else u
