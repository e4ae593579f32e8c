"""Conversion of the equalities of a compiled MuJoCo model to constraints."""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..model.pairs import Point, Weld
from ..model.spec import ModelSpec
from ..model.transmission import Coupling, Transmission
from ..spatial.numbers import constants
from .mjcf_tree import Tree
from .pose import Pose, from_quaternion
from .xml import Document, Notes, fail, located

CONNECT, WELD, JOINT, TENDON = range(4)
SITE = 6


def add_equalities(spec: ModelSpec, notes: Notes, document: Document, m: Any, tree: Tree) -> None:
    """Add a constraint for every active equality. Raise `ValueError` for kinds that jaxdyn does not have."""
    root = document.root
    for k in range(m.neq):
        kind, name = int(m.eq_type[k]), tree.name("EQUALITY", k)
        if not m.eq_active0[k]:
            notes.add(root, "equalities that are not active and left out: {}.", repr(name))
            continue
        if kind in (CONNECT, WELD):
            _pair(spec, root, m, tree, k, name)
        elif kind == JOINT:
            _couple(spec, root, m, tree, k, [{tree.joint_names[i]: 1.0} for i in _two(m, k)])
        elif kind == TENDON:
            _couple(spec, root, m, tree, k, [_coefficients(root, m, tree, i, name) for i in _two(m, k)])
        else:
            fail(root, f"the equality {name!r} is of a kind (number {kind}) that has no constraint here; remove it.")


def _pair(spec: ModelSpec, root: Any, m: Any, tree: Tree, k: int, name: str) -> None:
    data, ids = np.array(m.eq_data[k]), (int(m.eq_obj1id[k]), int(m.eq_obj2id[k]))
    if hasattr(m, "eq_objtype") and int(m.eq_objtype[k]) == SITE:
        bodies = [int(m.site_bodyid[i]) for i in ids]
        places = [tree.site(i) for i in ids]
    else:
        bodies = list(ids)
        if int(m.eq_type[k]) == CONNECT:
            places = [Pose(np.eye(3), data[:3]), Pose(np.eye(3), data[3:6])]
        else:
            # MuJoCo stores the anchor in body 2, and the pose of body 2's frame in body 1
            places = [Pose(from_quaternion(data[6:10]), data[3:6]), Pose(np.eye(3), data[:3])]
    a, b = ((tree.offsets[i] @ p).transform() for i, p in zip(bodies, places, strict=True))
    # without its `torquescale`, a weld holds no orientation
    build = Point if int(m.eq_type[k]) == CONNECT or not data[10] else Weld
    ends = (tree.bodies[i] for i in bodies)
    spec.add_constraint(located(root, build, *ends, placement_a=a, placement_b=b, name=name))


def _two(m: Any, k: int) -> list[int]:
    """Return the one or two joints or tendons of an equality."""
    return [int(i) for i in (m.eq_obj1id[k], m.eq_obj2id[k]) if i >= 0]


def _coefficients(root: Any, m: Any, tree: Tree, tendon: int, name: str) -> dict[str, float]:
    """Return the coefficients of a fixed tendon, by joint."""
    start = int(m.tendon_adr[tendon])
    out: dict[str, float] = {}
    for w in range(start, start + int(m.tendon_num[tendon])):
        if int(m.wrap_type[w]) != 1:
            told = tree.name("TENDON", tendon)
            fail(root, f"the equality {name!r} holds the spatial tendon {told!r}, which has no constraint here.")
        joint = tree.joint_names[int(m.wrap_objid[w])]
        out[joint] = out.get(joint, 0.0) + float(m.wrap_prm[w])
    return out


def _couple(spec: ModelSpec, root: Any, m: Any, tree: Tree, k: int, sides: list[dict[str, float]]) -> None:
    """Add the constraint x1 = c0 + c1 x2 + ... + c4 x2⁴, where x1 and x2, the `sides`, are sums of coordinates times
    coefficients, by joint, and zero in the file's pose; x2 is zero if there is one side."""
    c, name = [float(x) for x in m.eq_data[k][:5]], tree.name("EQUALITY", k)
    first, second = sides[0], sides[1] if len(sides) == 2 else {}
    joints = tuple(dict.fromkeys([*first, *second]))
    start = tuple(float(m.qpos0[m.jnt_qposadr[tree.index[j]]]) for j in joints)
    x1, x2 = (tuple(side.get(j, 0.0) for j in joints) for side in (first, second))
    for what, values in (("polycoef", c), ("coef", (*x1, *x2))):
        located(root, constants, f"equality {name!r}", what, values, None)
    if second and any(c[2:]):
        made = located(root, Transmission, joints, Polynomial(x1, x2, start, tuple(c)), 1, name=name)
    else:
        factors = [a - c[1] * b for a, b in zip(x1, x2, strict=True)]
        constant = c[0] + float(np.dot(factors, start))
        made = located(root, Coupling, joints, factors, constant, name=name)
    spec.add_constraint(made)


@dataclasses.dataclass(frozen=True)  # equal polynomials share a compiled program
class Polynomial:
    """The function x1 − Σ c_k x2ᵏ of coordinates of joints, with x1 and x2 the sums of ``q - start`` times `first` and
    `second`."""

    first: tuple[float, ...]
    second: tuple[float, ...]
    start: tuple[float, ...]
    coefficients: tuple[float, ...]

    def __call__(self, q):
        moved = [q[i] - x for i, x in enumerate(self.start)]
        x1, x2 = (sum(c * x for c, x in zip(side, moved, strict=True) if c) for side in (self.first, self.second))
        value = self.coefficients[-1]
        for c in self.coefficients[-2::-1]:
            value = value * x2 + c
        return jnp.stack([x1 - value])
