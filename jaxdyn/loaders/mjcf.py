"""The loader of MJCF. MuJoCo's own compiler reads the file (the extra ``jaxdyn[mjcf]``).

| in the file | in the model |
| --- | --- |
| `<body>` | a body, its frame at the last joint's anchor; a frame ``<body>_origin`` if MuJoCo's differs |
| several joints in a body | a chain of massless bodies ``<body>_<joint>`` before it |
| `<joint>`, `<freejoint>` | a joint of the same name, with its passive forces; its q is MuJoCo's qpos |
| `<equality>` connect, weld | a `Point`, a `Weld` (a `Point` if its `torquescale` is zero) |
| `<equality>` joint, tendon (fixed) | a `Coupling`; of higher degree a `Transmission` |
| `<actuator>` | an actuator with its law and bounds; `forcerange` and a motor's `ctrlrange` bound the `effort` too |
| `<site>` | a frame |
| `<key>` | a keyframe with its `qpos`, `qvel` and `ctrl` |
| `<geom>` that collides, `<pair>`, `<exclude>` | shapes and pairs, see `jaxdyn.loaders.mjcf_shapes` |

A free joint without a name becomes ``root_joint``. Equalities hold exactly here, and softly in MuJoCo. Sensors are not
read. Anything else that affects the motion gives an error or a warning.
"""

from typing import Any

import numpy as np

from ..model.joints import Fixed, Free, Joint, Prismatic, Revolute, Spherical
from ..model.spec import ModelSpec
from .free_names import free_name
from .mjcf_base import Base, base_of
from .mjcf_checks import Files, check
from .mjcf_forces import add_actuators, keep_force_ranges, note_forces
from .mjcf_keys import add_keyframes
from .mjcf_rows import add_equalities
from .mjcf_shapes import add_shapes
from .mjcf_tree import FREE, HINGE, SIZES, SLIDE, Tree, is_off
from .pose import Mass, Pose, about, from_quaternion
from .shapes import Wanted
from .skeleton import hang
from .xml import Document, Notes, cut, fail, located


def load(
    document: Document, floating: bool | None = None, name: str | None = None, collision: Wanted = "primitives"
) -> ModelSpec:
    """Return the `ModelSpec` of an MJCF file.

    **Raises** `ImportError` without MuJoCo, and `ValueError` with MuJoCo's message for files that its compiler refuses.
    """
    with Notes() as notes:
        m, lost = compiled(document, notes)
        try:
            m.names.decode()
        except UnicodeDecodeError:
            fail(document.root, "MuJoCo reads it as UTF-8, which its names are not; save it in this encoding.")
        gravity = np.zeros(3) if is_off(m, "GRAVITY") else np.array(m.opt.gravity)
        called = name or document.root.get("model") or document.origin.removesuffix(".xml")
        spec = located(document.root, ModelSpec, called, gravity)
        tree = Tree.of(m)
        if m.nflex:
            fail(document.root, f"the flex {tree.name('FLEX', 0)!r} is deformable, which nothing here is.")
        keep_force_ranges(notes, document, m, tree)
        base = base_of(notes, document, m, tree, floating)
        for body in range(1, m.nbody):
            _add(spec, notes, document, m, tree, body, base)
        _name_frames(spec, notes, document, m, tree)
        add_shapes(spec, notes, document, m, tree, collision)
        spec.left_out += lost if collision != "none" else []
        off = [flag for flag in ("EQUALITY", "CONSTRAINT") if is_off(m, flag)]
        if off and m.neq:
            notes.add(document.root, f"equalities that <flag {off[0].lower()}> disables: {{}}.", f"all {m.neq}")
        else:
            add_equalities(spec, notes, document, m, tree)
        if spec.constraints:
            for j in range(m.njnt):
                if m.jnt_type[j] in (HINGE, SLIDE) and m.qpos0[m.jnt_qposadr[j]]:
                    text = "joints with a `ref`: not q = 0 but q = ref is the file's pose, where loops are closed: {}."
                    notes.add(document.root, text, repr(tree.joint_names[j]))
        add_actuators(spec, notes, document, m, tree)
        note_forces(notes, document, m, tree)
        add_keyframes(spec, document, m, tree)
    return spec


def compiled(document: Document, notes: Notes) -> tuple[Any, list[str]]:
    """Return the `MjModel` of a document, and the names of shapes that were left out because their files are missing.
    Missing textures, and missing meshes on which no inertia depends, are left out."""
    try:
        import mujoco
    except ImportError:
        text = "`load`: MJCF is read by MuJoCo, which is not installed; install it by `pip install 'jaxdyn[mjcf]'`."
        raise ImportError(text) from None

    files = check(document)
    path = None if document.path is None else str(document.path)
    try:
        if path is None:
            return mujoco.MjModel.from_xml_string(document.data.decode()), []
        return mujoco.MjModel.from_xml_path(path), []
    except ValueError as error:
        refusal = error
    if "file" in str(refusal):
        try:
            text = document.data.decode()
            spec = mujoco.MjSpec.from_string(text) if path is None else mujoco.MjSpec.from_file(path)
            lost = _leave_out_missing(spec, document, files, notes)
            return spec.compile(), lost
        except (ValueError, TypeError, AttributeError):  # still refused, or a MuJoCo whose specs cannot be edited
            notes.kinds.clear()
    told = " ".join(str(refusal).split())
    if path is None and "file" in told:
        told += ". Give the path of the file in place of its text: names of other files are relative to it."
    raise ValueError(f"`load`: {document.origin}: MuJoCo refuses the file: {cut(told)}") from refusal


def _leave_out_missing(spec: Any, document: Document, files: Files, notes: Notes) -> list[str]:
    """Delete the assets whose files are missing, and the shapes that use them. Return the names of those shapes that
    would collide."""
    lost, measured = [], files.says("inertiafromgeom")

    def gone(asset: Any) -> bool:
        return bool(asset.file) and not files.places(asset.file)

    def delete(item: Any) -> None:
        item.delete() if hasattr(item, "delete") else spec.delete(item)

    meshes = {x.name for x in spec.meshes if gone(x)}
    fields = {x.name for x in spec.hfields if gone(x)}
    for geom in list(spec.geoms):
        if geom.meshname in meshes or geom.hfieldname in fields:
            body = geom.parent
            if geom.meshname and (measured or not body.explicitinertial) and body.name != "world":
                continue  # the body's inertia comes from the mesh: let the compiler report the file
            if geom.contype or geom.conaffinity:
                lost.append(geom.name or body.name)
            delete(geom)
    used = {g.meshname for g in spec.geoms}
    for asset in [*spec.meshes, *spec.hfields]:
        if asset.name in (meshes | fields) - used:
            notes.add(document.root, "missing files of shapes, which are left out: {}.", repr(asset.file))
            delete(asset)
    if any(gone(x) for x in spec.textures):
        for geom in spec.geoms:
            geom.material = ""
        for site in spec.sites:
            site.material = ""
        for item in [*spec.materials, *spec.textures]:
            delete(item)
        notes.add(document.root, "missing files of {}.", "textures; all are left out")
    return lost


def _add(
    spec: ModelSpec,
    notes: Notes,
    document: Document,
    m: Any,
    tree: Tree,
    body: int,
    base: Base,
) -> None:
    """Add a body and the chain of its joints."""
    root = document.root
    parent = int(m.body_parentid[body])
    pose = tree.offsets[parent] @ Pose(from_quaternion(m.body_quat[body]), np.array(m.body_pos[body]))
    name, holder = tree.bodies[body], tree.bodies[parent]
    own = Mass(float(m.body_mass[body]), np.zeros(3), np.diag(m.body_inertia[body]))
    own = own.seen_from(Pose(from_quaternion(m.body_iquat[body]), np.array(m.body_ipos[body])))
    joints = tree.joints(body)
    if m.body_mocapid[body] >= 0:
        notes.add(root, "mocap bodies, which stand still: {}.", repr(name))
    if body == base.floats:
        called = free_name(notes, root, "joints", "root_joint", tree.joint_names)
        hang(spec, notes, root, root, name, "world", Free(called), mass=own)
        return
    if joints and m.jnt_type[joints[0]] == FREE and body not in base.held:
        hang(spec, notes, root, root, name, "world", _joint(m, tree, joints[0], notes, root), mass=own)
        return
    if not joints or m.jnt_type[joints[0]] == FREE:
        hang(spec, notes, root, root, name, holder, Fixed(f"{name}_fixed"), pose, own)
        return
    anchor = np.zeros(3)
    for k, j in enumerate(joints):
        last = k == len(joints) - 1
        step = np.array(m.jnt_pos[j]) - anchor
        anchor, reference = np.array(m.jnt_pos[j]), float(m.qpos0[m.jnt_qposadr[j]])
        place = pose @ Pose(np.eye(3), step)
        axis = np.array(m.jnt_axis[j])
        if m.jnt_type[j] == HINGE:
            place = place @ Pose(about(axis, -reference))
        elif m.jnt_type[j] == SLIDE:
            place = place @ Pose(np.eye(3), -reference * axis)
        mass = own.seen_from(Pose(np.eye(3), -anchor)) if last else Mass()
        called = name if last else tree.new_link(body, j)
        joint = _joint(m, tree, j, notes, root)
        hang(spec, notes, root, root, called, holder, joint, place, mass)
        pose, holder = Pose(), called
    tree.offsets[body] = Pose(np.eye(3), -anchor)


def _joint(m: Any, tree: Tree, j: int, notes: Notes, root: Any) -> Joint:
    """Return the joint with its spring, damper, friction and limits."""
    kind, name = int(m.jnt_type[j]), tree.joint_names[j]
    nq, nv = SIZES[kind]
    q, v = int(m.jnt_qposadr[j]), int(m.jnt_dofadr[j])
    stiffness = 0.0 if is_off(m, "SPRING") else float(m.jnt_stiffness[j])
    if kind == FREE and stiffness:
        notes.add(root, "springs on free joints, which are not modelled: {}.", repr(name))
        stiffness = 0.0
    options: dict = {
        "armature": np.array(m.dof_armature[v : v + nv]) + tree.armature[v : v + nv],
        "damping": (np.array(m.dof_damping[v : v + nv]) + tree.damping[v : v + nv]) * (not is_off(m, "DAMPER")),
        "friction": np.array(m.dof_frictionloss[v : v + nv]) * (not is_off(m, "FRICTIONLOSS", "CONSTRAINT")),
        "stiffness": stiffness,
    }
    if kind != FREE:
        options["rest"] = np.array(m.qpos_spring[q : q + nq])
    if kind in (HINGE, SLIDE):
        if m.jnt_limited[j] and not is_off(m, "LIMIT", "CONSTRAINT"):
            options["limits"] = tuple(float(x) for x in m.jnt_range[j])
        options["effort"] = tree.effort[v]
        options["axis"] = tuple(m.jnt_axis[j])
    elif m.jnt_limited[j]:
        notes.add(root, "ranges of ball joints, which are not kept: {}.", repr(name))
    return (Free, Spherical, Prismatic, Revolute)[kind](name, **options)


def _name_frames(spec: ModelSpec, notes: Notes, document: Document, m: Any, tree: Tree) -> None:
    """Add frames for the sites, and for bodies whose frame in MuJoCo differs."""
    taken = {*spec.bodies, "world"}

    def add(name: str, body: int, pose: Pose, suffix: str) -> None:
        called = name
        while called in taken:
            called += suffix
        if called != name:
            notes.add(document.root, "frames whose name was taken: {}.", f"{name!r} is now {called!r}")
        taken.add(called)
        located(document.root, spec.add_frame, called, tree.bodies[body], (tree.offsets[body] @ pose).transform())

    for body in range(1, m.nbody):
        if not tree.offsets[body].is_identity():
            add(f"{tree.bodies[body]}_origin", body, Pose(), "_")
    for k in range(m.nsite):
        name = m.site(k).name
        if name:
            add(name, int(m.site_bodyid[k]), tree.site(k), "_site")
