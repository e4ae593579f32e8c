"""`Tree`: the names and frames of a compiled MuJoCo model, translated to jaxdyn's."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from .pose import Pose, from_quaternion

#: MuJoCo's types of joints
FREE, BALL, SLIDE, HINGE = range(4)
#: their numbers of coordinates and of velocities
SIZES = (7, 6), (4, 3), (1, 1), (1, 1)


def field(m: Any, what: str, count: int) -> np.ndarray:
    """Return an array of a compiled model, zeros for one that the installed MuJoCo does not have."""
    return np.asarray(getattr(m, what, np.zeros(count)))


def is_off(m: Any, *flags: str) -> bool:
    """Return True if <flag> disables one of these. A flag that the installed MuJoCo does not know disables nothing."""
    import mujoco

    bits = (getattr(mujoco.mjtDisableBit, f"mjDSBL_{flag}", None) for flag in flags)
    return any(bit is not None and m.opt.disableflags & int(bit) for bit in bits)


def is_on(m: Any, flag: str) -> bool:
    """Return True if <flag> enables this. A flag that the installed MuJoCo does not know enables nothing."""
    import mujoco

    bit = getattr(mujoco.mjtEnableBit, f"mjENBL_{flag}", None)
    return bit is not None and bool(m.opt.enableflags & int(bit))


@dataclass
class Tree:
    """A compiled MuJoCo model `m` with names and frames for jaxdyn.

    **Fields:** `bodies` and `joint_names` by MuJoCo's index; `offsets`, MuJoCo's body frames in jaxdyn's; `armature`
    and `damping` (nv,) that actuators add to joints.
    """

    m: Any
    bodies: list[str]
    joint_names: list[str]
    offsets: list[Pose]
    armature: np.ndarray
    damping: np.ndarray
    #: largest force of actuators, per velocity
    effort: np.ndarray
    #: indices of joints by name
    index: dict[str, int]
    #: names of bodies in the file and of those that are named here
    taken: set[str]

    @staticmethod
    def of(m: Any) -> "Tree":
        bodies, joints = ["world"], []
        taken = {m.body(b).name for b in range(m.nbody)}
        for b in range(1, m.nbody):
            name = m.body(b).name or f"body{b}"
            while not m.body(b).name and name in taken:
                name += "_"
            taken.add(name)
            bodies.append(name)
        named = {m.joint(j).name for j in range(m.njnt)}
        for j in range(m.njnt):
            name = m.joint(j).name
            if not name:
                body = bodies[int(m.jnt_bodyid[j])]
                several = int(m.body_jntnum[m.jnt_bodyid[j]]) > 1
                name = "root_joint" if int(m.jnt_type[j]) == FREE else f"{body}_joint{j if several else ''}"
                while name in named:
                    name = f"{body}_{name}"
            named.add(name)
            joints.append(name)
        tree = Tree(
            m,
            bodies,
            joints,
            [Pose() for _ in bodies],
            np.zeros(m.nv),
            np.zeros(m.nv),
            np.full(m.nv, np.inf),
            {},
            taken,
        )
        tree.index = {name: j for j, name in enumerate(joints)}
        for k in range(tree.actuators):
            if tree.turns_joint(k):
                v, square = int(m.jnt_dofadr[m.actuator_trnid[k][0]]), float(tree.gear(k)[0]) ** 2
                tree.armature[v] += square * tree.motor("armature", k)
                tree.damping[v] += square * tree.motor("damping", k)
        return tree

    @property
    def actuators(self) -> int:
        """Return the number of actuators; before MuJoCo 4 each had one control."""
        return int(getattr(self.m, "nactuator", self.m.nu))

    def motor(self, what: str, k: int) -> float:
        """Return an actuator's own armature or damping, which MuJoCo has had since version 4."""
        return float(getattr(self.m, f"actuator_{what}", np.zeros(self.actuators))[k])

    def gear(self, k: int) -> np.ndarray:
        """Return the gear (6,) of an actuator's first force. Since version 4 an actuator may have several forces, each
        with a gear."""
        return np.array(self.m.actuator_gear[self._first("out", k)])

    def control(self, k: int) -> int:
        """Return the index of an actuator's first control. Since version 4 an actuator may have several."""
        return self._first("ctrl", k)

    def _first(self, what: str, k: int) -> int:
        addresses = getattr(self.m, f"actuator_{what}adr", None)
        return k if addresses is None else int(addresses[k])

    def turns_joint(self, k: int) -> bool:
        """Return True if an actuator acts on a hinge or slide."""
        return int(self.m.actuator_trntype[k]) in (0, 1) and int(self.m.jnt_type[self.m.actuator_trnid[k][0]]) in (
            SLIDE,
            HINGE,
        )

    def joints(self, body: int) -> list[int]:
        """Return the joints of a body."""
        first = int(self.m.body_jntadr[body])
        return list(range(first, first + int(self.m.body_jntnum[body])))

    def new_link(self, body: int, joint: int) -> str:
        """Return the name of the massless body that follows a joint in a chain, which is taken from then on."""
        name = f"{self.bodies[body]}_{self.joint_names[joint]}"
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name

    def site(self, k: int) -> Pose:
        """Return the pose of a site in MuJoCo's body frame."""
        return Pose(from_quaternion(self.m.site_quat[k]), np.array(self.m.site_pos[k]))

    def name(self, kind: str, k: int) -> str:
        """Return the name of an object of a kind such as ``"TENDON"``, or a free one with its number if it has none."""
        import mujoco

        form = getattr(mujoco.mjtObj, f"mjOBJ_{kind}")
        name = mujoco.mj_id2name(self.m, form, k)
        if not name:
            name = f"{kind.lower()}{k}"
            while mujoco.mj_name2id(self.m, form, name) >= 0:
                name += "_"
        return name
