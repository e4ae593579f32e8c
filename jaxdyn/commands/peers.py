"""Builders of models in other engines, with which `jaxdyn bench` compares jaxdyn."""

import functools
import importlib.util
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..interop import to_mujoco, to_pinocchio
from ..model.model import Model
from ..model.pairs import Point, Weld
from ..model.state import State


class Peer(NamedTuple):
    """Another engine. `prepare(model, states, tau, constrained)` returns a function that evaluates all states once, or
    a text that says why the engine cannot run the model."""

    name: str
    prepare: Callable[[Model, State, Any, bool], Callable[[], object] | str]


def has(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def installed() -> list[Peer]:
    """Return the engines that can be imported."""
    found = [Peer("pin", functools.partial(pinocchio_run, "lcaba"))] if has("pinocchio") else []
    return [*found, Peer("MJX float32", mjx_run)] if has("mujoco.mjx") else found


def missing() -> list[str]:
    """Return texts that say how to install the missing engines."""
    out = [] if has("pinocchio") else ["no Pinocchio here: pip install pin"]
    return out if has("mujoco.mjx") else [*out, "no MJX here: pip install mujoco-mjx"]


def _kinds(model: Model) -> list[str]:
    return [k.name for k in model.topology.kinds]


def pinocchio_model(model: Model):
    """Return the tree as a Pinocchio model with jaxdyn's names, and Pinocchio's joint number of each body. Raise
    `ValueError` for an unsupported joint."""
    import pinocchio as pin

    unaligned = {"Revolute": pin.JointModelRevoluteUnaligned, "Prismatic": pin.JointModelPrismaticUnaligned}
    others = {
        "Free": pin.JointModelFreeFlyer,
        "Spherical": pin.JointModelSpherical,
        "Translation": pin.JointModelTranslation,
    }
    out = pin.Model()
    out.gravity.linear = np.asarray(model.gravity, float)
    bodies, t = jax.tree.map(lambda x: np.asarray(x, float), model.bodies), model.topology
    axes, kinds, ids = np.asarray(model.joints.axis, float), _kinds(model), []
    for b, name in enumerate(t.joint_names):
        kind, parent = kinds[b], t.parents[b]
        if kind in unaligned:
            joint = unaligned[kind](axes[b])
        elif kind in others:
            joint = others[kind]()
        else:
            raise ValueError(f"joint {name!r} ({kind}) is not built for Pinocchio")
        place = pin.SE3(bodies.placement.rotation[b], bodies.placement.translation[b])
        ids.append(out.addJoint(0 if parent < 0 else ids[parent], joint, place, name))
        inertia = pin.Inertia(float(bodies.mass[b]), bodies.center_of_mass[b], bodies.rotational[b])
        out.appendBodyToJoint(ids[b], inertia, pin.SE3.Identity())
    for b, name in enumerate(t.joint_names):
        joint = out.joints[out.getJointId(name)]
        out.armature[joint.idx_v : joint.idx_v + joint.nv] = np.asarray(model.joints.armature[t.v_slice(b)], float)
    return out, ids


def pinocchio_run(call: str, model: Model, states: State, tau, constrained: bool, steps: int = 3):
    """Return a function that calls `aba` for one state after the other, or, with constraints, `call` (`lcaba` or
    `constraintDynamics`) with `steps` proximal iterations. It leaves out joint springs and dampers. Return a text if
    Pinocchio cannot run the model."""
    import pinocchio as pin

    try:
        robot, ids = pinocchio_model(model)
    except ValueError as error:
        return str(error)
    data = robot.createData()
    q, v = (np.asarray(x, float) for x in jax.vmap(lambda s: to_pinocchio(model, robot, s))(states))
    u = np.asarray(tau, float)
    if not constrained:

        def trees():
            for a, b, c in zip(q, v, u, strict=True):
                pin.aba(robot, data, a, b, c)

        return trees
    if not hasattr(pin, call):
        return f"this Pinocchio has no {call}"
    constraints = pin.StdVec_RigidConstraintModel()
    for c in model.constraints:
        if not isinstance(c, Point | Weld):
            return f"{type(c).__name__} is not built for Pinocchio"
        kind = pin.ContactType.CONTACT_3D if isinstance(c, Point) else pin.ContactType.CONTACT_6D
        sides = []
        for name, own in ((c.body_a, c.placement_a), (c.body_b, c.placement_b)):
            body, frame = model.topology.locate(name)
            at = own if frame is None else model.frames[frame] @ own
            place = pin.SE3(np.asarray(at.rotation, float), np.asarray(at.translation, float))
            sides += [0 if body < 0 else ids[body], place]
        constraints.append(pin.RigidConstraintModel(kind, robot, *sides, pin.ReferenceFrame.LOCAL))
    datas = pin.StdVec_RigidConstraintData()
    for c in constraints:
        datas.append(c.createData())
    settings = pin.ProximalSettings(1e-14, 1e-6, steps)
    run = getattr(pin, call)
    try:
        if call == "lcaba":
            pin.computeJointMinimalOrdering(robot, data, constraints)
        else:
            pin.initConstraintDynamics(robot, data, constraints, datas)
        run(robot, data, q[0], v[0], u[0], constraints, datas, settings)
    except Exception as error:  # noqa: BLE001 - any exception of a foreign binding is reported, not fatal
        return f"Pinocchio's {call}: {str(error).strip().splitlines()[0][:80]}"

    def loops():
        for a, b, c in zip(q, v, u, strict=True):
            run(robot, data, a, b, c, constraints, datas, settings)

    return loops


def mjcf_of(model: Model, constrained: bool) -> str:
    """Return the robot as MJCF. Raise `ValueError` for anything that MJCF cannot express."""
    names = {"Revolute": "hinge", "Prismatic": "slide", "Spherical": "ball", "Free": "free"}
    bodies, t = jax.tree.map(lambda x: np.asarray(x, float), model.bodies), model.topology
    axes, kinds = np.asarray(model.joints.axis, float), _kinds(model)
    row = lambda x: " ".join(f"{v:.17g}" for v in np.ravel(x))  # noqa: E731
    inner = {b: "" for b in range(-1, model.nb)}
    for b, joint in reversed(list(enumerate(t.joint_names))):
        kind, parent = kinds[b], t.parents[b]
        if kind not in names or (kind == "Free" and parent >= 0):
            raise ValueError(f"joint {joint!r} ({kind}) is not built for MuJoCo")
        if not bodies.mass[b] > 0:
            raise ValueError(f"body {t.body_names[b]!r} has no mass, which MuJoCo refuses")
        R = bodies.placement.rotation[b]
        vs = t.v_slice(b)
        extra = "" if kind == "Free" else f' armature="{float(model.joints.armature[vs.start]):.17g}"'
        extra += f' axis="{row(axes[b])}"' if names[kind] in ("hinge", "slide") else ""
        I, d = bodies.rotational[b], [(0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2)]  # noqa: E741
        inner[parent] = (
            f'<body name="{t.body_names[b]}" pos="{row(bodies.placement.translation[b])}" '
            f'xyaxes="{row(R[:, :2].T)}"><joint name="{joint}" type="{names[kind]}"{extra}/>'
            f'<inertial pos="{row(bodies.center_of_mass[b])}" mass="{row(bodies.mass[b])}" '
            f'fullinertia="{row([I[i, j] for i, j in d])}"/>{inner[b]}</body>'
        ) + inner[parent]
    ties = ""
    for c in model.constraints if constrained else ():
        if not isinstance(c, Point):
            raise ValueError(f"{type(c).__name__} is not built for MuJoCo")
        body, frame = t.locate(c.body_a)
        other = t.locate(c.body_b)[0]
        if frame is not None:
            raise ValueError("a constraint on a frame is not built for MuJoCo")
        second = "" if other < 0 else f'body2="{t.body_names[other]}" '
        ties += f'<connect body1="{t.body_names[body]}" {second}anchor="{row(c.placement_a.translation)}"/>'
    return (
        '<mujoco><compiler angle="radian" balanceinertia="true"/>'
        f'<option gravity="{row(model.gravity)}" iterations="3"/>'
        f"<worldbody>{inner[-1]}</worldbody><equality>{ties}</equality></mujoco>"
    )


def mjx_run(model: Model, states: State, tau, constrained: bool):
    """Return a batched `mjx.forward` in float32, with MuJoCo's soft constraints and three iterations of its solver, or
    a text if MuJoCo cannot run the model."""
    import mujoco
    from mujoco import mjx

    try:
        robot = mujoco.MjModel.from_xml_string(mjcf_of(model, constrained))
    except ValueError as error:
        return str(error).splitlines()[0]
    single = lambda x: jnp.asarray(x, jnp.float32)  # noqa: E731
    q, v = map(single, jax.vmap(lambda s: to_mujoco(model, robot, s))(states))
    u = single(tau)
    before = jax.config.jax_enable_x64
    try:
        jax.config.update("jax_enable_x64", False)
        device = mjx.put_model(robot)
        blank = mjx.make_data(device)

        def acceleration(q, v, u):
            return mjx.forward(device, blank.replace(qpos=q, qvel=v, qfrc_applied=u)).qacc

        compiled = jax.jit(jax.vmap(acceleration)).lower(q, v, u).compile()
    finally:
        jax.config.update("jax_enable_x64", before)
    return lambda: jax.block_until_ready(compiled(q, v, u))
