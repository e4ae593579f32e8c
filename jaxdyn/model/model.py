"""`Model`: a robot as arrays, with a static `Topology`."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ..engine import kernels
from ..spatial.instances import check_instance, described
from ..spatial.numbers import ArrayLike, floats
from ..spatial.transform import Transform
from ..tree.topology import Topology, unknown
from .acting import widened
from .actuators import Actuators
from .collision import Collision
from .keyframes import Keyframe, Keyframes
from .kind import JointParameters
from .state import State
from .values import check_field, check_limits

#: fields that may change while symmetric rotors remain symmetric
STILL_SYMMETRIC = {
    "bodies.mass",
    *(f"bodies.placement.{x}" for x in ("rotation", "translation")),
    *(f"joints.{x}" for x in "armature damping stiffness rest lower upper effort friction".split()),
}

#: fields that bound others: where they are, the lower bounds and the upper ones
BOUNDS = (
    ("joints", "lower", "upper"),
    ("actuators", "lower", "upper"),
    ("actuators", "lower_command", "upper_command"),
)


class Bodies(eqx.Module):
    """Mass properties and joint placements, one row per body.

    **Fields:** `mass` (nb,) kg; `center_of_mass` (nb, 3) m and `rotational` (nb, 3, 3) kg m² about it, in body
    axes; `placement`, the joint frame in the parent's frame at q = 0.
    """

    mass: Float[Array, " nb"]
    center_of_mass: Float[Array, "nb 3"]
    rotational: Float[Array, "nb 3 3"]
    placement: Transform


class Joints(eqx.Module):
    """Joint parameters.

    **Fields:** `axis`, `axis2` (nb, 3); `pitch` (nb,) m/rad; per velocity of the tree (n,) `armature`, `damping`,
    `stiffness`, `lower`, `upper`, `effort`, `friction`; `rest` (nq,), where the springs are slack; `own`, by name, the
    parameters (nb, ...) that joint classes outside of jaxdyn add, zero for other joints. n is the model's nv, plus the
    dependent velocities of embedded loops.
    """

    axis: Float[Array, "nb 3"]
    axis2: Float[Array, "nb 3"]
    pitch: Float[Array, " nb"]
    armature: Float[Array, " n"]
    damping: Float[Array, " n"]
    stiffness: Float[Array, " n"]
    rest: Float[Array, " nq"]
    lower: Float[Array, " n"]
    upper: Float[Array, " n"]
    effort: Float[Array, " n"]
    friction: Float[Array, " n"]
    own: dict[str, Float[Array, "nb ..."]]

    @property
    def parameters(self) -> JointParameters:
        """The parameters, of all joints, that joint kinds read."""
        return JointParameters(self.axis, self.axis2, self.pitch, self.own)


def _fields(node: Any) -> list[str]:
    """Return the names of the fields of a dataclass, none for anything else."""
    return [f.name for f in dataclasses.fields(node)] if dataclasses.is_dataclass(node) else []


class Model(eqx.Module):
    """A robot. Every float that changes its dynamics is an array leaf; everything else is static.

    **Fields:** `topology`; `bodies`; `joints`; `frames`, the placements (nf) of the named frames in their bodies;
    `gravity` (3,) m/s²; `actuation` (nv, nu), generalised forces per force of an actuator, or (n, nu) at all joints of
    the tree if actuators drive dependent joints of embedded loops; `actuators`, their laws; `constraints`, a tuple;
    `embedded`, the constraints that `embed` has turned into joints, and `home` (nq,), a configuration that satisfies
    them; `collision`, the shapes that collide; `keyframes`, named states, None if there are none.

    `load` and `ModelSpec.build` create models. `jax.vmap` over models works; for instance,
    ``jax.vmap(lambda m: model.replace({"bodies.mass": m}))(masses)`` returns a batch of them.
    """

    bodies: Bodies
    joints: Joints
    frames: Transform
    gravity: Float[Array, "3"]
    actuation: Float[Array, "_ nu"]
    actuators: Actuators
    constraints: tuple
    topology: Topology = eqx.field(static=True)
    embedded: tuple = ()
    home: Float[Array, " nq"] | None = None
    collision: Collision = eqx.field(default_factory=Collision)
    keyframes: Keyframes | None = None

    #: see `engine/lanes.py`
    parameters_of_lanes: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return self.topology.name

    @property
    def nq(self) -> int:
        """Number of coordinates of a configuration."""
        return self.topology.nq

    @property
    def nv(self) -> int:
        """Number of velocities: the degrees of freedom of the tree, before constraints. Dependent velocities of
        embedded constraints do not count."""
        return len(self.topology.independent)

    @property
    def nb(self) -> int:
        """Number of moving bodies."""
        return self.topology.nb

    @property
    def nu(self) -> int:
        """Number of actuators."""
        return len(self.topology.actuator_names)

    @property
    def body_names(self) -> tuple[str, ...]:
        return self.topology.body_names

    @property
    def joint_names(self) -> tuple[str, ...]:
        return self.topology.joint_names

    @property
    def frame_names(self) -> tuple[str, ...]:
        return self.topology.frame_names

    @property
    def tables_of_lanes(self) -> tuple[Array, ...]:
        return self.collision.grids

    @property
    def actuator_names(self) -> tuple[str, ...]:
        return self.topology.actuator_names

    def q_slice(self, joint: str) -> slice:
        """Return the slice of q that holds the joint's configuration. Raise `ValueError` for an unknown joint."""
        return self.topology.q_slice(self._joint("`Model.q_slice`", joint))

    def v_slice(self, joint: str) -> slice:
        """Return the slice of v that holds the joint's velocity. Raise `ValueError` for an unknown joint, and for one
        whose velocity depends on other joints."""
        topology, body = self.topology, self._joint("`Model.v_slice`", joint)
        at = topology.v_slice(body)
        places = [topology.places.get(v) for v in range(at.start, at.stop)]
        if None in places or places != list(range(places[0], places[0] + len(places))):  # type: ignore
            cluster = topology.clusters[topology.cluster_of[body]]
            free = sorted({topology.joint_names[topology.velocity_bodies[v]] for v in cluster.independent})
            raise ValueError(
                f"`Model.v_slice`: the velocity of joint {joint!r} depends on that of {', '.join(map(repr, free))}; "
                "`expand` gives those of all joints."
            )
        return slice(places[0], places[0] + len(places))  # type: ignore

    def _joint(self, call: str, joint: str) -> int:
        check_instance(call, "joint", joint, str)
        try:
            return self.topology.joint(joint)
        except ValueError as error:
            raise ValueError(f"{call}: `joint`: {error}") from None

    @property
    def compiler(self) -> str:
        """The compiler of the robot's programs: "auto", "kernel" or "xla"."""
        return self.topology.compiler

    def with_compiler(self, compiler: Literal["auto", "kernel", "xla"]) -> "Model":
        """Return the same robot with another compiler for its programs.

        "kernel" compiles each program to one function, for CPUs and NVIDIA's GPUs, up to a size that XLA takes over
        from. "xla" leaves all programs to XLA, as `jax.export` needs. "auto" follows the environment variable
        `JAXDYN_COMPILER`; if that is not set, it uses kernels if they can be compiled. See the page "From a jaxpr to
        one kernel".

        **Raises** `ValueError` for another name, and `RuntimeError` for "kernel" if `llvmlite` does not work here.
        """
        check_instance("`Model.with_compiler`", "compiler", compiler, str)
        if compiler not in kernels.CHOICES:
            raise ValueError(
                f"`Model.with_compiler`: `compiler` {compiler!r:.60} is none of {', '.join(kernels.CHOICES)}."
            )
        kernels.choice(compiler)
        return dataclasses.replace(self, topology=dataclasses.replace(self.topology, compiler=compiler))

    def neutral(self) -> Float[Array, " nq"]:
        """Return the configuration (nq,) with all coordinates zero and all quaternions the identity. With embedded
        loops, return the closed configuration that `embed` found from there; where lengths have changed by more than a
        tenth since, use `assemble`."""
        if self.home is not None and self.topology.closes is not None:
            return self.topology.closes(self, self.home, False)
        rows = [k.neutral() for k in self.topology.kinds]
        return jnp.asarray(np.concatenate(rows) if rows else np.zeros(0), self.gravity.dtype)

    def keyframe(self, name: str) -> Keyframe:
        """Return a named state and the command (nu,) of the actuators there: ``model.keyframe("home").state``. Files
        of MuJoCo have such states. Loops may be open there: see `assemble`.

        Raises `ValueError` for an unknown name.
        """
        check_instance("`Model.keyframe`", "name", name, str)
        names = () if self.keyframes is None else self.keyframes.names
        if self.keyframes is None or name not in names:
            raise ValueError(f"`Model.keyframe`: {unknown('keyframe', name, names)}")
        k, rows = names.index(name), self.keyframes
        return Keyframe(State(rows.q[k], rows.v[k][jnp.asarray(self.topology.independent, int)]), rows.command[k])

    def random_state(self, key: PRNGKeyArray) -> State:
        """Return a random state: configurations within the limits (±π and ±1 m where there are none), unit quaternions,
        standard normal velocities. In embedded loops the independent joints move there from the neutral configuration,
        and the others follow, which may exceed their limits. Where that fails, at a dead centre on the way, the nearest
        closed configuration is taken, which may exceed all limits. Other loops stay open: see `assemble`."""
        try:
            kq, kr, kv = jax.random.split(key, 3)
        except TypeError:
            hint = "not a key of `jax.random`, such as `jax.random.key(0)`"
            raise TypeError(f"`Model.random_state`: `key` is {described(key)}, {hint}.") from None
        dtype, topology = self.gravity.dtype, self.topology
        uniform = jax.random.uniform(kq, (topology.nv,), dtype)
        normal = jax.random.normal(kr, (4 * self.nb,), dtype)
        span = np.array([np.pi if u == "a" else 1.0 for k in topology.kinds for u in k.units], dtype)
        lower, upper, span = self.joints.lower, self.joints.upper, jnp.asarray(span)
        # beyond a single limit that leaves nothing of the usual range, as much as half of that range
        low = jnp.where(upper > -span, -span, upper - span)
        high = jnp.where(lower < span, span, lower + span)
        lower, upper = jnp.where(jnp.isfinite(lower), lower, low), jnp.where(jnp.isfinite(upper), upper, high)
        flat = lower + uniform * (upper - lower)
        parts = []
        for b, kind in enumerate(topology.kinds):
            piece = flat[topology.v_slice(b)]
            if kind.quaternion == slice(kind.nq - 4, kind.nq) and kind.nq == kind.nv + 1:
                w = normal[4 * b : 4 * b + 4]
                piece = jnp.concatenate([piece[: kind.nq - 4], w / jnp.linalg.norm(w)])
            elif kind.nq != kind.nv:
                start = jnp.asarray(kind.neutral(), dtype)[:, None]
                with jax.numpy_rank_promotion("allow"):  # as where kinds are used otherwise
                    piece = kind.normalize(kind.integrate(start, piece[:, None]))[:, 0]
            parts.append(piece)
        q = jnp.concatenate(parts) if parts else jnp.zeros(0, dtype)
        if self.home is not None and topology.closes is not None:
            q = topology.closes(self, q, True)
        return State(q, jax.random.normal(kv, (self.nv,), dtype))

    def replace(self, changes: Mapping[str, ArrayLike]) -> "Model":
        """Return a copy with some arrays changed: ``model.replace({"bodies.mass": x, "joints.damping": d})``.

        Keys are dotted field names. A new value has the shape of the old one, with or without leading batch axes; with
        them, use `jax.vmap` over the model, with `in_axes` as on the page "Environments for learning".

        Dry friction, limits and torsion of joints and shapes that had none add rows of contact; if they are traced, to
        all shapes and to all joints but free ones. Torsion has no effect on pairs whose contact dimension, which MJCF
        files give, is below 4.

        **Raises** `ValueError` for an unknown path or a wrong shape, and, unless they are traced, for values that no
        robot has: numbers that are not finite, matrices that are no rotations, axes whose length is not 1, negative
        masses and gains. A negative principal moment of inertia, which some files have, is a `ModelWarning`.
        """
        check_instance("`Model.replace`", "changes", changes, Mapping)
        model = self
        for path, value in changes.items():
            old = self._at("`Model.replace`", path)
            if not eqx.is_array(old):
                raise ValueError(f"`Model.replace`: {path!r} is not an array; name one of its fields.")
            new = floats("`Model.replace`", path, value)
            if new.shape[new.ndim - old.ndim :] != old.shape or new.ndim < old.ndim:
                raise ValueError(f"`Model.replace`: {path!r} has shape {old.shape}; got {new.shape}.")
            check_field("`Model.replace`", path, new, self.topology)
            model = eqx.tree_at(lambda m, p=path: m.at(p), model, new)
            if new is not old:
                # inside of `jit` JAX traces also arrays of NumPy, whose values are known
                known = value if isinstance(value, np.ndarray) else new
                scene = widened(model.collision.scene, self.topology, path, known)
                model = dataclasses.replace(model, collision=dataclasses.replace(model.collision, scene=scene))
        if any(path.split(".")[0] in ("bodies", "joints") and path not in STILL_SYMMETRIC for path in changes):
            model = model.without_rotors()
        for where, lower, upper in BOUNDS:
            if {f"{where}.{lower}", f"{where}.{upper}"} & set(changes):
                of = getattr(model, where)
                check_limits("`Model.replace`", getattr(of, lower), getattr(of, upper))
        return model

    def with_pairs(self, pairs: Iterable[Sequence[str]]) -> "Model":
        """Return the same model in which these pairs of shapes collide, and no others: ``[("foot", "ground")]``.

        **Raises** `ValueError` for unknown names of shapes, for pairs that do not move relative to each other or that
        are repeated, and `TypeError` for anything but a list of pairs of names.
        """
        call = "`Model.with_pairs`"
        if not isinstance(pairs, Iterable) or isinstance(pairs, str) or np.ndim(pairs) == 0 and hasattr(pairs, "ndim"):
            raise TypeError(f"{call}: `pairs` is {described(pairs)}, not a list of pairs of names.")
        return dataclasses.replace(self, collision=self.collision.with_pairs(call, pairs))

    def without_rotors(self) -> "Model":
        """Return the same model without the assumption that embedded rotors are symmetric."""
        topology = self.topology
        if not any(c.rotors for c in topology.clusters):
            return self
        clusters = tuple(dataclasses.replace(c, rotors=()) for c in topology.clusters)
        return dataclasses.replace(self, topology=dataclasses.replace(topology, clusters=clusters))

    def at(self, path: str) -> Any:
        """Return the field with the dotted name `path`, such as ``"bodies.mass"``, ``"constraints.0.length"`` or
        ``"joints.own.radius"``. Raises `ValueError` for a path that leads nowhere."""
        return self._at("`Model.at`", path)

    def _at(self, call: str, path: str) -> Any:
        check_instance(call, "path", path, str)
        node: Any = self
        for part in path.split("."):
            if isinstance(node, tuple) and part.isdigit() and int(part) < len(node):
                node = node[int(part)]
            elif isinstance(node, dict) and part in node:
                node = node[part]
            elif part in _fields(node):
                node = getattr(node, part)
            else:
                fields = list(node) if isinstance(node, dict) else _fields(node)
                fields = fields or [str(k) for k in range(len(node) if isinstance(node, tuple) else 0)]
                inner = [f"{f}.{part}" for f in _fields(node) if part in _fields(getattr(node, f))]
                meant = f"there is no field {part!r}. Did you mean {inner[0]!r}?" if inner else ""
                raise ValueError(f"{call}: `path` {path!r:.60}: {meant or unknown('field', part, fields)}")
        return node

    def __repr__(self) -> str:
        return (
            f"Model({self.name!r}, nb={self.nb}, nq={self.nq}, nv={self.nv}, nu={self.nu}, "
            f"constraints={len(self.constraints)})"
        )
