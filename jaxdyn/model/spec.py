"""`ModelSpec`: a description of a robot in NumPy that checks each part as it is added. Every loader fills one."""

import dataclasses
import warnings
from collections.abc import Mapping
from typing import Any, Self

import jax.numpy as jnp
import numpy as np

from ..spatial.inertia import Inertia, problem_of
from ..spatial.instances import check_instance
from ..spatial.numbers import ArrayLike, constants, not_negative
from ..spatial.transform import Transform, placed
from ..tree.topology import WORLD, Topology, unknown
from .acting import widened
from .actuation import Actuator, actuation_of, actuator, laws_of
from .arrays import bodies_of, check_sizes, joints_of, transforms
from .constraints import Constraint, check_names
from .described import Body
from .joints import Fixed, Joint, Revolute
from .model import Model
from .named_states import KeyframeSpec, keyframe, keyframes_of
from .scene import SceneSpec
from .transmission import Coupling
from .values import ModelWarning, checked_joint, checked_rotation
from .weightless import weightless


def _parts(call: str, placement: Transform | ArrayLike | None) -> tuple:
    """Return the rotation and translation of a placement, those of the identity for None. Their numbers are not checked
    yet."""
    if placement is None:
        return np.eye(3), np.zeros(3)
    place = placed(call, "placement", placement)
    return place.rotation, place.translation


class ModelSpec(SceneSpec):
    """Collects bodies, shapes, constraints, frames and actuators; `build` returns the `Model`.

    ```python
    spec = jd.ModelSpec("pendulum")
    spec.add_body("rod", "world", jd.joints.Revolute(axis=(0, 1, 0)), inertia=jd.Inertia(1.0, (0, 0, -0.5)))
    model = spec.build()
    ```

    **Arguments:** `name`; `gravity` (3,), m/s².
    """

    def __init__(self, name: str = "robot", gravity=(0, 0, -9.81)):
        check_instance("`ModelSpec`", "name", name, str)
        self.name = name
        self.gravity = constants("`ModelSpec`", "gravity", gravity, (3,))
        self.bodies: dict[str, Body] = {}
        self.frames: dict[str, tuple[str, np.ndarray, np.ndarray]] = {}
        self.actuators: dict[str, Actuator] = {}
        self.keyframes: dict[str, KeyframeSpec] = {}
        self.constraints: list = []
        #: names of joints that follow others (`<mimic>`, `independent="false"`): `embed` solves for them first
        self.followers: set[str] = set()
        self._joint_names: set[str] = set()
        super().__init__()

    def __repr__(self) -> str:
        lists = ("bodies", "frames", "shapes", "constraints", "actuators")
        return f"ModelSpec({self.name!r}, " + ", ".join(f"{x}={len(getattr(self, x))}" for x in lists) + ")"

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
        joint: Joint | type[Joint],
        *,
        placement: Transform | ArrayLike | None = None,
        inertia: Inertia | None = None,
    ) -> Self:
        """Add a body that a joint connects to `parent` (the name of a body or frame, or ``"world"``).

        **Arguments:** `placement`, the joint frame in the parent's frame at q = 0 (default: the parent's frame), a
        `Transform`, or its translation (3,) if the axes are the same; `inertia` in the body's frame, which is the joint
        frame after motion (default: massless).

        **Raises** `ValueError` for a taken name, an unknown parent, wrong shapes, numbers that are not
        finite, negative mass, an inertia that is not symmetric or not positive, a zero axis, or limits in
        the wrong order. A violated triangle inequality is a `ModelWarning`.
        """
        call = f"`ModelSpec.add_body({name!r})`"
        if isinstance(joint, type) and issubclass(joint, Joint):
            joint = joint()
        body = Body(name, parent, joint, *_parts(call, placement))
        if inertia is not None:
            check_instance(call, "inertia", inertia, Inertia)
            body.mass, body.center, body.rotational = inertia.mass, inertia.center_of_mass, inertia.rotational
        return self.add(body)

    def add(self, body: Body, judged: bool = False) -> Self:
        """Add a body that is described in NumPy. Arguments and errors are those of `add_body`. With `judged`, do not
        check the inertia: the caller has done so."""
        name, joint = body.name, body.joint
        call = f"`ModelSpec.add_body({name!r})`"
        self._new_name(call, name)
        if isinstance(body.parent, str) and body.parent == name:
            raise ValueError(f"{call}: the body is its own parent.")
        self._check_host(f"{call}: `parent`: ", body.parent, " Add parents first.")
        check_instance(call, "joint", joint, Joint, " Use one such as `jd.joints.Revolute()`.")
        joint = checked_joint(call, joint, name)
        if joint.name in self._joint_names and not isinstance(joint, Fixed):
            raise ValueError(f"{call}: the joint name {joint.name!r} is already taken.")
        rotation = checked_rotation(call, "placement.rotation", body.rotation)
        translation = constants(call, "placement.translation", body.translation, (3,))
        mass = float(constants(call, "inertia.mass", body.mass, ()))
        center = constants(call, "inertia.center_of_mass", body.center, (3,))
        rotational = constants(call, "inertia.rotational", body.rotational, (3, 3))
        if not judged:
            problem = problem_of(mass, center, rotational)
            if problem is not None and problem[1]:
                raise ValueError(f"{call}: body {name!r} {problem[0]}.")
            if problem is not None:
                warnings.warn(f"{call}: body {name!r} {problem[0]}; used as it is.", ModelWarning, stacklevel=3)
        rotational = (rotational + rotational.T) / 2
        self.bodies[name] = Body(name, body.parent, joint, rotation, translation, mass, center, rotational)
        if not isinstance(joint, Fixed):
            self._joint_names.add(str(joint.name))
        return self

    def add_frame(self, name: str, body: str, placement: Transform | ArrayLike | None = None) -> Self:
        """Add a named frame that is fixed in `body` (a body, another frame or ``"world"``).

        Raises `ValueError` for a taken name and an unknown body, `TypeError` for other types.
        """
        call = f"`ModelSpec.add_frame({name!r})`"
        self._new_name(call, name)
        self._check_host(f"{call}: `body`: ", body)
        rotation, translation = _parts(call, placement)
        rotation = checked_rotation(call, "placement.rotation", rotation)
        self.frames[name] = (body, rotation, constants(call, "placement.translation", translation, (3,)))
        return self

    def add_constraint(self, constraint) -> Self:
        """Add a constraint (`Weld`, `Point`, `Coupling`, ...) that `forward_dynamics` imposes by default.

        Raises `TypeError` for anything else. Bodies and joints that the constraint names are looked up by `build`.
        """
        hint = " Use one such as `jd.constraints.Point(...)`."
        check_instance("`ModelSpec.add_constraint`", "constraint", constraint, Constraint, hint)
        self.constraints.append(constraint)
        return self

    def add_rotor(
        self,
        name: str,
        carrier: str,
        ratios: Mapping[str, Any],
        *,
        inertia: Any,
        axis=(0.0, 0.0, 1.0),
        placement: Transform | ArrayLike | None = None,
    ) -> Self:
        """Add the rotor of a geared motor that is mounted on `carrier`: a body on a revolute joint, and a `Coupling` of
        the same name that sets its angle to ``sum(ratios[j] * q[j])``.

        One ratio describes a gear, several a belt over several joints; two rotors with two ratios each form a
        differential. `embed` merges the rotors of a robot into its joints.

        **Arguments:** `carrier`, a body or frame; `ratios` by joint; `inertia`, either the moment of inertia about the
        axis (kg m²), if the carrier's inertia includes the rotor's mass and other moments, or an `Inertia`; `axis` and
        `placement` of the rotor's joint, as in `add_body`.

        **Raises** `ValueError` as in `add_body`, for unknown joints, and if there are no ratios.
        """
        call = f"`ModelSpec.add_rotor({name!r})`"
        check_instance(call, "ratios", ratios, Mapping, " Give one such as `{'knee': 6.0}`.")
        ratios = {str(j): float(constants(call, f"ratio of {j!r}", r, ())) for j, r in ratios.items()}
        if not ratios:
            raise ValueError(f"{call}: `ratios` is empty: name the joints that the rotor turns with.")
        for j in ratios:
            if j not in self._joint_names:
                raise ValueError(f"{call}: `ratios`: {unknown('joint', j, self._joint_names)}")
        self._new_name(call, name)
        self._check_host(f"{call}: `carrier`: ", carrier)
        joint = checked_joint(call, Revolute(axis=axis), name)
        body = Body(name, carrier, joint, *_parts(call, placement))
        spins = not isinstance(inertia, Inertia)
        if spins:
            moment = float(constants(call, "inertia", inertia, (), not_negative))
            body.rotational = moment * np.outer(joint.axis, joint.axis)
        else:
            body.mass, body.center, body.rotational = inertia.mass, inertia.center_of_mass, inertia.rotational
        self.add(body, judged=spins)
        return self.add_constraint(
            Coupling([str(joint.name), *ratios], [1.0, *(-r for r in ratios.values())], name=name)
        )

    def add_actuator(
        self,
        joint: str | Mapping[str, Any],
        name: str | None = None,
        *,
        gear: Any = 1.0,
        gain: float = 1.0,
        offset: float = 0.0,
        stiffness: float = 0.0,
        damping: float = 0.0,
        limits: Any = None,
        command_limits: Any = None,
    ) -> Self:
        """Add an actuator that drives `joint`. A force f of the actuator gives the generalised force ``gear * f``.

        f is the command u, or ``gain * u + offset - stiffness * length - damping * rate``, where the length is ``gear *
        q`` and the rate ``gear * v``: ``gain=kp, stiffness=kp, damping=kd`` makes a position servo, whose commands are
        positions, ``gain=kd, damping=kd`` a velocity servo. `step` and `simulate` take commands as `jaxdyn.Commands`.

        **Arguments:** `joint`, a joint's name, or a mapping of joints to gears if the actuator drives several (a
        differential, a tendon), without `gear`; `name` (default: the joint's); `gear`, a scalar (for a joint with one
        velocity) or one number per velocity of the joint; `gain`, `offset`, `stiffness` and `damping`, scalars;
        `limits` of the force and `command_limits`, pairs (lower, upper), None for no limits.

        Raises `ValueError` for a taken name, for a `gear` beside a mapping, for negative stiffness or damping, and for
        limits that are no pairs; `TypeError` for other types. Joints are looked up by `build`.
        """
        if not isinstance(joint, Mapping):
            check_instance("`ModelSpec.add_actuator`", "joint", joint, str, " Give a name, or a mapping of names.")
        elif not isinstance(gear, int | float) or gear != 1:
            raise ValueError("`ModelSpec.add_actuator`: `gear` is for one joint; multiply the gears of the mapping.")
        gears = dict(joint) if isinstance(joint, Mapping) else {joint: gear}
        name = "+".join(map(str, gears)) if name is None else name
        check_instance("`ModelSpec.add_actuator`", "name", name, str)
        call = f"`ModelSpec.add_actuator({name!r})`"
        if not gears:
            raise ValueError(f"{call}: it drives no joint.")
        if name in self.actuators:
            raise ValueError(f"{call}: the name is already taken by an actuator.")
        law = {"gain": gain, "offset": offset, "stiffness": stiffness, "damping": damping}
        self.actuators[name] = actuator(call, gears, limits, command_limits, **law)
        return self

    def add_keyframe(
        self,
        name: str,
        q: Mapping[str, Any],
        *,
        v: Mapping[str, Any] | None = None,
        command: Mapping[str, Any] | None = None,
    ) -> Self:
        """Add a named state, such as "home", which `Model.keyframe` returns.

        **Arguments:** `q` and `v`, coordinates and velocities by joint, which is neutral and at rest if it is not
        named; `command` by actuator, zero if it is not named.

        Raises `ValueError` for a taken name and numbers that are not finite, `TypeError` for other types. Joints and
        actuators are looked up by `build`, which also checks that quaternions are of unit length.
        """
        check_instance("`ModelSpec.add_keyframe`", "name", name, str)
        call = f"`ModelSpec.add_keyframe({name!r})`"
        if name in self.keyframes:
            raise ValueError(f"{call}: the name is already taken by a keyframe.")
        self.keyframes[name] = keyframe(call, q=q, v=v or {}, command=command or {})
        return self

    def build(self) -> Model:
        """Return the model. Bodies on `Fixed` joints become part of their parents; frames keep their names.

        **Raises** `ValueError` naming the constraint or actuator whose body or joint does not exist, and for planes and
        height fields on moving bodies. A robot without moving bodies, and bodies whose lack of inertia makes the mass
        matrix singular, are a `ModelWarning`.
        """
        call = f"`ModelSpec.build` of {self.name[:60]!r}"
        moving, frames = self._merged()
        check_sizes(call, "place of frame", list(frames), [p for _, _, p in frames.values()])
        if not moving:
            text = "no joint moves, so that there are no dynamics; `load` with `floating=True` lets a base float."
            warnings.warn(f"{call}: {text}", ModelWarning, stacklevel=2)
        rows = list(moving.values())
        index = {"world": WORLD} | {name: k for k, name in enumerate(moving)}
        topology = Topology(
            name=self.name,
            body_names=tuple(moving),
            parents=tuple(index[b.parent] for b in rows),
            joint_names=tuple(str(b.joint.name) for b in rows),
            kinds=tuple(b.joint.kind for b in rows),
            frame_names=tuple(frames),
            frame_bodies=tuple(index[b] for b, _, _ in frames.values()),
            actuator_names=tuple(self.actuators),
            followers=frozenset(k for k, b in enumerate(rows) if b.joint.name in self.followers),
        )
        joints = joints_of(call, [b.joint for b in rows])
        lacks = list(weightless(topology, rows, joints))
        for text in lacks:
            warnings.warn(f"{call}: {text}", ModelWarning, stacklevel=2)
        topology = dataclasses.replace(topology, singular=bool(lacks))
        model = Model(
            bodies=bodies_of(call, rows),
            joints=joints,
            frames=transforms((r, p) for _, r, p in frames.values()),
            gravity=jnp.asarray(self.gravity, dtype=jnp.result_type(float)),
            actuation=actuation_of(call, topology, self.actuators),
            actuators=laws_of(list(self.actuators.values())),
            constraints=tuple(self.constraints),
            topology=topology,
            keyframes=keyframes_of(call, topology, self.keyframes),
        )
        for k, constraint in enumerate(self.constraints):
            try:
                constraint.layout(topology)
            except ValueError as error:
                raise ValueError(f"{call}: constraint {constraint.name or k!r}: {error}") from None
        check_names(call, self.constraints)
        here = {name: (name, np.eye(3), np.zeros(3)) for name in ("world", *moving)}
        collision = self._collision(call, topology, rows, here | frames, self.constraints)
        scene = collision.scene
        # in NumPy: the arrays of a model that is built inside of `jit` are traced
        lower, upper = ([b.joint.limits[k] for b in rows] for k in range(2))  # type: ignore
        acting = {"joints.friction": [b.joint.friction for b in rows], "joints.lower": lower, "joints.upper": upper}
        for path, parts in acting.items():
            scene = widened(scene, topology, path, np.concatenate([np.zeros(0), *map(np.asarray, parts)]))
        return dataclasses.replace(model, collision=dataclasses.replace(collision, scene=scene))

    def _merged(self) -> tuple[dict[str, Body], dict[str, tuple[str, np.ndarray, np.ndarray]]]:
        """Return the moving bodies, with those on `Fixed` joints merged into them, and the frames.

        A frame is a tuple of the name of a moving body or the world, and the rotation and translation in it.
        """
        # the resolved pose of each name: (moving body or world, rotation, translation)
        home: dict[str, tuple[str, np.ndarray, np.ndarray]] = {"world": ("world", np.eye(3), np.zeros(3))}
        moving: dict[str, Body] = {}
        frames: dict[str, tuple[str, np.ndarray, np.ndarray]] = {}

        def place(name: str) -> tuple[str, np.ndarray, np.ndarray]:
            trail = []
            while name not in home:
                trail.append(name)
                name = self.frames[name][0]
            for here in reversed(trail):
                host, r0, p0 = home[self.frames[here][0]]
                _, r, p = self.frames[here]
                home[here] = (host, r0 @ r, p0 + r0 @ p)
            return home[trail[0] if trail else name]

        for body in self.bodies.values():
            host, r0, p0 = place(body.parent)
            r, p = r0 @ body.rotation, p0 + r0 @ body.translation
            if not isinstance(body.joint, Fixed):
                moving[body.name] = dataclasses.replace(body, parent=host, rotation=r, translation=p)
                home[body.name] = (body.name, np.eye(3), np.zeros(3))
                continue
            home[body.name] = frames[body.name] = (host, r, p)
            if host != "world":
                moving[host] = moving[host].joined(body, r, p)
        for name in self.frames:
            frames[name] = place(name)
        return moving, frames
