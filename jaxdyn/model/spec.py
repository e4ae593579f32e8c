"""`ModelSpec`: a description of a robot in NumPy, which is checked as it grows. Every loader fills one."""

import dataclasses
import warnings
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..spatial.inertia import Inertia, problem_of
from ..spatial.instances import check_instance
from ..spatial.numbers import check, constants, finite, is_rotation
from ..spatial.transform import Transform
from ..tree.topology import WORLD, Topology, unknown
from .constraints import Constraint, check_names
from .joints import Fixed, Joint
from .model import Bodies, Joints, Model
from .values import checked_joint


class ModelWarning(UserWarning):
    """Warns of something odd in a model; the text says what jaxdyn makes of it."""


@dataclasses.dataclass
class _Body:
    name: str
    parent: str
    joint: Joint
    rotation: np.ndarray
    translation: np.ndarray
    mass: float
    center: np.ndarray
    rotational: np.ndarray


def _placed(call: str, placement: Transform | None) -> tuple[np.ndarray, np.ndarray]:
    """Rotation and translation of a placement, by default none."""
    if placement is None:
        return np.eye(3), np.zeros(3)
    check_instance(call, "placement", placement, Transform)
    r = constants(call, "placement.rotation", placement.rotation, (3, 3), is_rotation)
    u, _, vt = np.linalg.svd(r)  # rounding of single precision or of printed digits
    return u @ vt, constants(call, "placement.translation", placement.translation, (3,), finite)


class ModelSpec:
    """Collects bodies, constraints, frames and actuators; `build` returns the `Model`.

    ```python
    spec = jd.ModelSpec("pendulum")
    spec.add_body("rod", "world", jd.joints.Revolute(axis=(0, 1, 0)), inertia=jd.Inertia(1.0, (0, 0, -0.5)))
    model = spec.build()
    ```

    **Arguments:** `name`; `gravity` (3,), m/s².
    """

    def __init__(self, name: str = "robot", gravity=(0, 0, -9.81)):
        self.name = str(name)
        self.gravity = constants("`ModelSpec`", "gravity", gravity, (3,), finite)
        self.bodies: dict[str, _Body] = {}
        self.frames: dict[str, tuple[str, np.ndarray, np.ndarray]] = {}
        self.actuators: dict[str, dict[str, np.ndarray]] = {}
        self.constraints: list = []

    def _new_name(self, call: str, name: str) -> None:
        if not isinstance(name, str) or not name:
            raise ValueError(f"{call}: a name is a non-empty string, not {name!r}.")
        if name == "world":
            raise ValueError(f"{call}: the name 'world' is taken by the world.")
        if name in self.bodies or name in self.frames:
            raise ValueError(f"{call}: the name {name!r} is already taken by a body or frame.")

    def add_body(
        self,
        name: str,
        parent: str,
        joint: Joint,
        *,
        placement: Transform | None = None,
        inertia: Inertia | None = None,
    ) -> "ModelSpec":
        """Add a body that a joint connects to `parent` (the name of a body or frame, or ``"world"``).

        **Arguments:** `placement`, the joint frame in the parent's frame at q = 0 (default: the parent's frame);
        `inertia` in the body's frame, which is the joint frame after motion (default: massless).

        **Raises** `ValueError` for a taken name, an unknown parent, wrong shapes, numbers that are not
        finite, negative mass, an inertia that is not symmetric or not positive, a zero axis, or limits in
        the wrong order. A violated triangle inequality is a `ModelWarning`.
        """
        call = f"`ModelSpec.add_body({name!r})`"
        self._new_name(call, name)
        if parent == name:
            raise ValueError(f"{call}: the body is its own parent.")
        if parent != "world" and parent not in self.bodies and parent not in self.frames:
            known = ("world", *self.bodies, *self.frames)
            raise ValueError(f"{call}: `parent`: " + unknown("body or frame", parent, known) + " Add parents first.")
        if isinstance(joint, type) and issubclass(joint, Joint):
            joint = joint()
        check_instance(call, "joint", joint, Joint, " Use one such as `jd.joints.Revolute()`.")
        inertia = Inertia() if inertia is None else inertia
        check_instance(call, "inertia", inertia, Inertia)
        joint = checked_joint(call, joint, name)
        for other in self.bodies.values():
            if other.joint.name == joint.name and not isinstance(joint, Fixed) and not isinstance(other.joint, Fixed):
                raise ValueError(f"{call}: the joint name {joint.name!r} is already taken.")
        rotation, translation = _placed(call, placement)
        if not isinstance(inertia.mass, jax.core.Tracer):
            problem = problem_of(inertia.mass, inertia.center_of_mass, inertia.rotational)
            if problem is not None and problem[1]:
                raise ValueError(f"{call}: body {name!r} {problem[0]}.")
            if problem is not None:
                warnings.warn(f"{call}: body {name!r} {problem[0]}; used as it is.", ModelWarning, stacklevel=2)
        mass = float(constants(call, "inertia.mass", inertia.mass, ()))
        center = constants(call, "inertia.center_of_mass", inertia.center_of_mass, (3,))
        rotational = constants(call, "inertia.rotational", inertia.rotational, (3, 3))
        self.bodies[name] = _Body(
            name, parent, joint, rotation, translation, mass, center, (rotational + rotational.T) / 2
        )
        return self

    def add_frame(self, name: str, body: str, placement: Transform | None = None) -> "ModelSpec":
        """Add a named frame that is fixed in `body` (a body, another frame or ``"world"``)."""
        call = f"`ModelSpec.add_frame({name!r})`"
        self._new_name(call, name)
        if body != "world" and body not in self.bodies and body not in self.frames:
            raise ValueError(f"{call}: " + unknown("body or frame", body, ("world", *self.bodies, *self.frames)))
        self.frames[name] = (body, *_placed(call, placement))
        return self

    def add_constraint(self, constraint) -> "ModelSpec":
        """Add a constraint (`Weld`, `Point`, `Coupling`, ...) that `forward_dynamics` imposes by default."""
        hint = " Use one such as `jd.constraints.Point(...)`."
        check_instance("`ModelSpec.add_constraint`", "constraint", constraint, Constraint, hint)
        self.constraints.append(constraint)
        return self

    def add_actuator(self, joint: str | Mapping[str, Any], name: str | None = None, *, gear: Any = 1.0) -> "ModelSpec":
        """Add an actuator that drives `joint`: a command u gives the generalised force ``gear * u``.

        **Arguments:** `joint`, a joint's name, or a mapping of joints to gears for one that drives several (a
        differential, a tendon); `name` (default: the joint's); `gear`, a scalar (for a joint with one velocity)
        or one number per velocity of the joint.
        """
        gears = dict(joint) if isinstance(joint, Mapping) else {joint: gear}
        name = "+".join(map(str, gears)) if name is None else name
        call = f"`ModelSpec.add_actuator({name!r})`"
        if not gears:
            raise ValueError(f"{call}: it drives no joint.")
        if name in self.actuators:
            raise ValueError(f"{call}: the name is already taken by an actuator.")
        self.actuators[name] = {str(j): constants(call, f"gear of {j!r}", g, None, finite) for j, g in gears.items()}
        return self

    def build(self) -> Model:
        """Return the model. Bodies on `Fixed` joints become part of their parents; frames keep their names.

        **Raises** `ValueError` naming the constraint, frame or actuator whose body or joint does not exist.
        A robot without moving bodies, and moving bodies that carry no mass at all, are a `ModelWarning`.
        """
        call = f"`ModelSpec.build` of {self.name!r}"
        # where each name ends up: (moving body or world, rotation, translation)
        home: dict[str, tuple[str, np.ndarray, np.ndarray]] = {"world": ("world", np.eye(3), np.zeros(3))}
        moving: dict[str, _Body] = {}
        frames: dict[str, tuple[str, np.ndarray, np.ndarray]] = {}

        def place(name: str) -> tuple[str, np.ndarray, np.ndarray]:
            if name not in home:
                body, r, p = self.frames[name]
                host, r0, p0 = place(body)
                home[name] = (host, r0 @ r, p0 + r0 @ p)
            return home[name]

        for body in self.bodies.values():
            host, r0, p0 = place(body.parent)
            r, p = r0 @ body.rotation, p0 + r0 @ body.translation
            if not isinstance(body.joint, Fixed):
                moving[body.name] = dataclasses.replace(body, parent=host, rotation=r, translation=p)
                home[body.name] = (body.name, np.eye(3), np.zeros(3))
                continue
            home[body.name] = frames[body.name] = (host, r, p)
            if host != "world":
                moving[host] = _merged(moving[host], body, r, p)
        for name in self.frames:
            frames[name] = place(name)
        if not moving:
            warnings.warn(f"{call}: no joint moves, so that there are no dynamics.", ModelWarning, stacklevel=2)
        names = list(moving)
        kinds = tuple(b.joint.kind for b in moving.values())
        topology = Topology(
            name=self.name,
            body_names=tuple(names),
            parents=tuple(WORLD if b.parent == "world" else names.index(b.parent) for b in moving.values()),
            joint_names=tuple(str(b.joint.name) for b in moving.values()),
            kinds=kinds,
            frame_names=tuple(frames),
            frame_bodies=tuple(WORLD if b == "world" else names.index(b) for b, _, _ in frames.values()),
            actuator_names=tuple(self.actuators),
        )
        _warn_of_massless(call, topology, moving)
        model = Model(
            bodies=_bodies(moving),
            joints=_joints(moving),
            frames=_transforms([(r, p) for _, r, p in frames.values()]),
            gravity=jnp.asarray(self.gravity, dtype=jnp.result_type(float)),
            actuation=_actuation(call, topology, self.actuators),
            constraints=tuple(self.constraints),
            topology=topology,
        )
        _check_size(call, model)
        _check_constraints(call, self.constraints, topology)
        return model


def _merged(host: _Body, body: _Body, r: np.ndarray, p: np.ndarray) -> _Body:
    mass = host.mass + body.mass
    center = p + r @ body.center
    share = body.mass / mass if mass > 0 else 0.5
    d = center - host.center
    rotational = host.rotational + r @ body.rotational @ r.T
    rotational = rotational + host.mass * share * (d @ d * np.eye(3) - np.outer(d, d))
    return dataclasses.replace(host, mass=mass, center=host.center + share * d, rotational=rotational)


def _warn_of_massless(call: str, topology: Topology, moving: dict[str, _Body]) -> None:
    bodies = list(moving.values())
    below = topology.anywhere_below([b.mass > 0 or bool(np.any(b.rotational)) for b in bodies])
    heavy = [bool(np.all(np.asarray(b.joint.armature) > 0)) for b in bodies]
    idle = [b.name for b, ok, armature in zip(bodies, below, heavy, strict=True) if not ok and not armature]
    if idle:
        warnings.warn(
            f"{call}: nothing that hangs on {', '.join(map(repr, idle))} has inertia, so that the mass matrix is "
            "singular unless constraints or armature help.",
            ModelWarning,
            stacklevel=3,
        )


def _check_size(call: str, model: Model) -> None:
    """Sums of what fits a precision may not."""
    paths = [f"bodies.{w}" for w in ("mass", "center_of_mass", "rotational", "placement.translation")]
    paths += [f"joints.{w}" for w in ("pitch", "armature", "damping", "stiffness", "rest", "friction")]
    for path in (*paths, "frames.translation", "gravity", "actuation"):
        check(call, path, model.at(path), finite)


def _check_constraints(call: str, constraints: list[Constraint], topology: Topology) -> None:
    for k, constraint in enumerate(constraints):
        try:
            constraint.layout(topology)
        except ValueError as error:
            raise ValueError(f"{call}: constraint {constraint.name or k!r}: {error}") from None
    check_names(call, constraints)


def _floats(x):
    return jnp.asarray(np.asarray(x, float), dtype=jnp.result_type(float))


def _transforms(pairs) -> Transform:
    r = np.array([r for r, _ in pairs]).reshape(-1, 3, 3)
    return Transform(_floats(r), _floats(np.array([p for _, p in pairs]).reshape(-1, 3)))


def _bodies(moving: dict[str, _Body]) -> Bodies:
    rows = list(moving.values())
    return Bodies(
        mass=_floats([b.mass for b in rows]),
        center_of_mass=_floats(np.array([b.center for b in rows]).reshape(-1, 3)),
        rotational=_floats(np.array([b.rotational for b in rows]).reshape(-1, 3, 3)),
        placement=_transforms([(b.rotation, b.translation) for b in rows]),
    )


def _joints(moving: dict[str, _Body]) -> Joints:
    joints = [b.joint for b in moving.values()]

    def rows(what, shape=(3,)):
        return _floats(np.array([getattr(j, what) for j in joints], float).reshape(-1, *shape))

    def flat(values):
        return _floats(np.concatenate([np.zeros(0), *(np.asarray(x, float) for x in values)]))

    per_velocity = ("armature", "damping", "stiffness", "rest", "effort", "friction")
    return Joints(
        axis=rows("axis"),
        axis2=rows("axis2"),
        pitch=rows("pitch", ()),
        lower=flat([j.limits[0] for j in joints]),
        upper=flat([j.limits[1] for j in joints]),
        **{w: flat([getattr(j, w) for j in joints]) for w in per_velocity},
    )


def _actuation(call: str, topology: Topology, actuators) -> jax.Array:
    out = np.zeros((topology.nv, len(actuators)))
    for k, (name, gears) in enumerate(actuators.items()):
        for joint, gear in gears.items():
            try:
                body = topology.joint(joint)
            except ValueError as error:
                raise ValueError(f"{call}: actuator {name!r}: {error}") from None
            nv = topology.kinds[body].nv
            if gear.shape not in ((), (nv,)) or (gear.shape == () and nv != 1):
                raise ValueError(
                    f"{call}: actuator {name!r}: `gear` has shape {gear.shape}; joint {joint!r} takes ({nv},)."
                )
            out[topology.v_slice(body), k] = gear
    return _floats(out)
