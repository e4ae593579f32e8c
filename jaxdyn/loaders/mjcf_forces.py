"""Actuators of a compiled MuJoCo model, and notes on its forces that jaxdyn does not model."""

from collections import Counter
from typing import Any

import numpy as np

from ..model.spec import ModelSpec
from .mjcf_tree import BALL, FREE, HINGE, SLIDE, Tree, field, is_off
from .pose import Pose, from_quaternion
from .xml import Document, Notes, located

#: what acts on a tendon: MuJoCo's array, and its attribute
TENDONS = {
    "stiffness": "stiffness",
    "stiffnesspoly": "stiffness",
    "damping": "damping",
    "dampingpoly": "damping",
    "frictionloss": "frictionloss",
    "limited": "limited",
    "armature": "armature",
    "actfrclimited": "actuatorfrcrange",
}
JOINT, JOINT_IN_PARENT, SLIDER_CRANK, TENDON, SITE, BODY = range(6)
#: kinds of bias: none, and affine in length and velocity
NONE, AFFINE = range(2)


def add_actuators(spec: ModelSpec, notes: Notes, document: Document, m: Any, tree: Tree) -> None:
    """Add the actuators with their laws and bounds. The gear includes the gain of a motor without bias."""
    joints = {b.joint.name: b.joint for b in spec.bodies.values()}
    for k in range(tree.actuators):
        name = tree.name("ACTUATOR", k)
        disabled = _disabled(m, k)
        if disabled:
            notes.add(document.root, f"actuators that {disabled} disables, left out: {{}}.", repr(name))
            continue
        pulls = _pulls(m, tree, k)
        if not pulls or not all(p in joints and joints[p].kind.nv == len(g) for p, g in pulls.items()):
            notes.add(document.root, "actuators on what has no fixed gear to joints, left out: {}.", repr(name))
            continue
        scale, law = _gain(m, k) or 1.0, _law(m, tree, k, all(len(g) == 1 for g in pulls.values()))
        if law is None:
            text = "actuators with a law that is not modelled, whose commands are forces here: {}."
            notes.add(document.root, text, repr(name))
            law = {}
        if m.actuator_forcelimited[k]:
            law["limits"] = tuple(sorted(m.actuator_forcerange[k] / scale))
        gears = {joint: scale * (gear[0] if len(gear) == 1 else gear) for joint, gear in pulls.items()}
        located(document.root, spec.add_actuator, gears, name, **law)


def _plain(m: Any, k: int) -> bool:
    """Return True if an actuator has no activation and its gain is a constant."""
    return not (m.actuator_gaintype[k] or m.actuator_dyntype[k])


def _gain(m: Any, k: int) -> float:
    """Return the force per control of a motor without a law of its own, zero for other actuators."""
    return float(m.actuator_gainprm[k][0]) if _plain(m, k) and not m.actuator_biastype[k] else 0.0


def _controls(m: Any, tree: Tree, k: int) -> np.ndarray | None:
    """Return the range (2,) of an actuator's controls, None if there is none."""
    at = tree.control(k)
    return np.array(m.actuator_ctrlrange[at]) if m.actuator_ctrllimited[at] and not is_off(m, "CLAMPCTRL") else None


def _law(m: Any, tree: Tree, k: int, single: bool) -> dict[str, Any] | None:
    """Return the law of a motor or of a servo, whose force is affine in control, length and velocity, and the limits of
    its commands. Return None for other laws, negative gains, and, unless all its joints are `single`, lengths, which
    are those of rotation vectors there."""
    bias, controls = int(m.actuator_biastype[k]), _controls(m, tree, k)
    if not _plain(m, k) or bias not in (NONE, AFFINE):
        return None
    offset, stiffness, damping = m.actuator_biasprm[k][:3] * (1, -1, -1) * (bias == AFFINE)
    if stiffness < 0 or damping < 0 or stiffness and not single:
        return None
    gain = 1.0 if _gain(m, k) else m.actuator_gainprm[k][0]  # the gear includes that of a motor
    limits = {} if controls is None else {"command_limits": tuple(controls)}
    return {"gain": gain, "offset": offset, "stiffness": stiffness, "damping": damping} | limits


def _range(m: Any, tree: Tree, k: int) -> tuple[float, float]:
    """Return the range of an actuator's force, infinite if there is none. The controls of others than motors are no
    forces."""
    low, high = -np.inf, np.inf
    gain, controls = _gain(m, k), _controls(m, tree, k)
    if gain and controls is not None:
        low, high = sorted(gain * controls)
    if m.actuator_forcelimited[k]:
        low, high = max(low, m.actuator_forcerange[k][0]), min(high, m.actuator_forcerange[k][1])
    return float(low), float(high)


def _disabled(m: Any, k: int) -> str | None:
    """Return the option that disables an actuator, None if it is enabled."""
    if is_off(m, "ACTUATION"):
        return "<flag actuation>"
    group = int(m.actuator_group[k])
    return "`actuatorgroupdisable`" if 0 <= group < 31 and m.opt.disableactuator >> group & 1 else None


def keep_force_ranges(notes: Notes, document: Document, m: Any, tree: Tree) -> None:
    """Set the efforts of joints: the largest force that their `actuatorfrcrange`, and the `forcerange` of the one
    actuator that drives them, and the `ctrlrange` of a motor, allow. Ranges that are not symmetric, or of several
    joints, are in the laws of actuators alone."""
    pulls = {k: _pulls(m, tree, k) for k in range(tree.actuators) if not _disabled(m, k)}
    drivers = Counter(joint for pull in pulls.values() for joint in pull)
    for k, pull in pulls.items():
        low, high = _range(m, tree, k)
        joint, gear = next(iter(pull.items())) if len(pull) == 1 else ("", np.zeros(0))
        if gear.size == 1 and gear[0] and drivers[joint] == 1 and low == -high:
            tree.effort[m.jnt_dofadr[tree.index[joint]]] = abs(gear[0]) * high
    for j in np.flatnonzero(m.jnt_actfrclimited):
        low, high = m.jnt_actfrcrange[j]
        if low != -high:
            text = "joints whose `actuatorfrcrange` is not symmetric; its larger end is the effort: {}."
            notes.add(document.root, text, repr(tree.joint_names[j]))
        v = m.jnt_dofadr[j]
        tree.effort[v] = min(tree.effort[v], max(abs(low), abs(high)))


def _pulls(m: Any, tree: Tree, k: int) -> dict[str, np.ndarray]:
    """Return, by joint, the generalised force of a unit of actuator force; empty if it changes with the pose."""
    kind, target, gear = int(m.actuator_trntype[k]), int(m.actuator_trnid[k][0]), tree.gear(k)
    if kind in (JOINT, JOINT_IN_PARENT):
        form, name = int(m.jnt_type[target]), tree.joint_names[target]
        if form in (SLIDE, HINGE):
            return {name: gear[:1]}
        if form == BALL and kind == JOINT:
            return {name: gear[:3]}
        # MuJoCo applies the force on a free joint in the world's axes, which turn relative to the body
        return {name: gear} if form == FREE and kind == JOINT and not gear[:3].any() else {}
    if kind == TENDON:
        start, out = int(m.tendon_adr[target]), {}
        for w in range(start, start + int(m.tendon_num[target])):
            if int(m.wrap_type[w]) != 1:
                return {}
            name = tree.joint_names[int(m.wrap_objid[w])]
            out[name] = out.get(name, np.zeros(1)) + gear[0] * m.wrap_prm[w]
        return out
    if kind == SITE and int(m.actuator_trnid[k][1]) < 0:
        return _thrust(m, tree, target, gear)
    return {}


def _thrust(m: Any, tree: Tree, site: int, gear: np.ndarray) -> dict[str, np.ndarray]:
    """Return, by joint, the wrench that a site exerts on its free body, in the body's axes (a propeller); empty if the
    body is not free."""
    body, pose = int(m.site_bodyid[site]), tree.site(site)
    while body and not tree.joints(body):
        pose = Pose(from_quaternion(m.body_quat[body]), np.array(m.body_pos[body])) @ pose
        body = int(m.body_parentid[body])
    if not body or int(m.jnt_type[tree.joints(body)[0]]) != FREE:
        return {}
    force, torque = pose.R @ gear[:3], pose.R @ gear[3:]
    return {tree.joint_names[tree.joints(body)[0]]: np.r_[force, torque + np.cross(pose.p, force)]}


def note_forces(notes: Notes, document: Document, m: Any, tree: Tree) -> None:
    """Note the forces of MuJoCo that jaxdyn does not model."""
    root = document.root
    for t in range(m.ntendon):
        acts = [said for what, said in TENDONS.items() if np.any(field(m, f"tendon_{what}", m.ntendon)[t])]
        if acts:
            told = f"{tree.name('TENDON', t)!r} ({', '.join(dict.fromkeys(acts))})"
            notes.add(root, "tendons whose forces are not modelled: {}.", told)
    straight = {"armature": m.dof_armature}
    if not is_off(m, "FRICTIONLOSS", "CONSTRAINT"):
        straight["friction"] = m.dof_frictionloss
    for j in np.flatnonzero(m.jnt_type == FREE):
        for what, values in straight.items():
            if values[m.jnt_dofadr[j] : m.jnt_dofadr[j] + 3].any():
                # MuJoCo's linear velocity is in the world's axes; here it is in the body's, which turn
                text = "of free joints, which acts along the body's axes here and along the world's there: {}."
                notes.add(root, f"{what} {text}", repr(tree.joint_names[j]))
    for j in range(m.njnt):
        if m.jnt_limited[j] and m.jnt_margin[j] and not is_off(m, "LIMIT", "CONSTRAINT"):
            notes.add(root, "margins of joint limits, which are not kept: {}.", repr(tree.joint_names[j]))
    for what, kind in (("jnt_stiffnesspoly", "JOINT"), ("dof_dampingpoly", "DOF"), ("jnt_springyield", "JOINT")):
        values = field(m, what, 0)
        for i in range(len(values)):
            if np.any(values[i]):
                joint = tree.joint_names[i if kind == "JOINT" else int(m.dof_jntid[i])]
                notes.add(root, "springs and dampers that are not linear, taken as linear: {}.", repr(joint))
    for k in range(tree.actuators):
        name = repr(tree.name("ACTUATOR", k))
        if np.any(field(m, "actuator_dampingpoly", tree.actuators)[k]):
            notes.add(root, "actuators whose damping is not linear, taken as linear: {}.", name)
        if np.any(field(m, "actuator_delay", tree.actuators)[k]):
            notes.add(root, "actuators with a delay, which act at once: {}.", name)
        if (tree.motor("armature", k) or tree.motor("damping", k)) and not tree.turns_joint(k):
            notes.add(root, "armature and damping of actuators that is not modelled: {}.", tree.name("ACTUATOR", k))
    for b in range(1, m.nbody):
        if m.body_gravcomp[b]:
            notes.add(root, "gravity compensation that is not modelled: {}.", repr(tree.bodies[b]))
    if m.opt.density or m.opt.viscosity:
        notes.add(root, "the {} that <option> sets is not modelled.", "fluid")
    for k in range(getattr(m, "nplugin", 0)):
        notes.add(root, "plugins that are not run: {}.", tree.name("PLUGIN", k))
