"""Parts of scenes with contacts: contacts that are closed at a given configuration, and rows on single joints."""

import dataclasses
import warnings
from collections.abc import Iterable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

import jaxdyn as jd

#: (body a, body b, pose of the contact's frame in the world): its z axis is the normal
Touch = tuple[str, str, jd.Transform]


@dataclasses.dataclass(frozen=True, eq=False)
class ContactScene:
    """Bodies in contact at the configuration `q`.

    `contacts` are rows between two bodies, or a body and the world, that are closed at q; `joints` are rows on single
    joints, one for each velocity; `within` are the enforced constraints, which are the model's own.
    """

    name: str
    model: jd.Model
    q: jax.Array
    contacts: tuple
    joints: tuple = ()

    @property
    def within(self) -> tuple:
        return self.model.constraints

    @property
    def constraints(self) -> tuple:
        """Return the constraints of the operator: contacts, then joints."""
        return self.contacts + self.joints

    @property
    def rows(self) -> int:
        return sum(c.layout(self.model.topology).rows for c in self.constraints)

    def configurations(self, n: int, seed: int = 0, spread: float = 0.02) -> jax.Array:
        """Return `n` configurations (n, nq) around `q`, repeated after the first 32. Loops are closed, as redundant
        rows are redundant only there; contacts are slightly open, which costs the same."""
        moves = np.random.default_rng(seed).normal(size=(min(n, 32), self.model.nv)) * spread
        around = jax.vmap(lambda dv: jd.integrate(self.model, self.q, dv))(jnp.asarray(moves, self.q.dtype))
        if self.within:
            around = jax.vmap(lambda q: jd.assemble(self.model, q, constraints=self.within))(around)
        return jnp.resize(around, (n, self.model.nq))


class Poses:
    """The poses of bodies and frames at a configuration."""

    def __init__(self, model: jd.Model, q):
        self.model, self.q, self.bodies = model, q, jd.forward_kinematics(model, q)

    def __getitem__(self, name: str) -> jd.Transform:
        if name == "world":
            return jd.Transform.identity()
        if name in self.model.body_names:
            return self.bodies[self.model.body_names.index(name)]
        return jd.frame_pose(self.model, self.q, name)

    def point(self, name: str, at=(0.0, 0.0, 0.0)) -> np.ndarray:
        return np.asarray(self[name].apply(np.asarray(at, float)))


def upright(point) -> jd.Transform:
    """Return the frame of a contact with level ground."""
    return jd.Transform(np.eye(3), point)


def contacts(poses: Poses, touches: Iterable[Touch], kind: type = jd.constraints.Point) -> tuple:
    """Return a constraint for each touch, in frames of both bodies that coincide at the configuration of `poses`."""
    made = []
    for k, (a, b, place) in enumerate(touches):
        places = {"placement_a": poses[a].inverse() @ place, "placement_b": poses[b].inverse() @ place}
        made.append(kind(a, b, **places, name=f"contact{k}", stabilization=None))
    return tuple(made)


def joint_rows(model: jd.Model) -> tuple:
    """Return a row for each velocity of each joint except free ones, as for dry friction in joints."""
    made = []
    for joint, kind in zip(model.joint_names, model.topology.kinds, strict=True):
        if not isinstance(kind, type(jd.joints.Free.kind)):
            made.append(jd.constraints.Lock(joint, kind.nv, name=f"rub_{joint}", stabilization=None))
    return tuple(made)


def moved(model: jd.Model, q, seed: int, spread: float) -> jax.Array:
    """Return a configuration near `q`, with the model's own loops closed as far as the given dimensions allow."""
    by = np.random.default_rng(seed).normal(size=model.nv) * spread
    q = jd.integrate(model, jnp.asarray(q), jnp.asarray(by, model.gravity.dtype))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", jd.ModelWarning)
        return jd.assemble(model, q) if model.constraints else q


def posture(model: jd.Model, joints: dict[str, object]) -> np.ndarray:
    """Return the neutral configuration with the values of some joints replaced."""
    q = np.array(model.neutral())
    for joint, value in joints.items():
        q[model.q_slice(joint)] = value
    return q


def landed(model: jd.Model, q, root: str, points: Sequence[tuple[str, tuple]], clearance: float) -> jax.Array:
    """Return `q` with its free root raised or lowered until the lowest of the points is at the height `clearance`."""
    poses = Poses(model, q)
    lowest = min(poses.point(body, at)[2] for body, at in points)
    height = model.q_slice(root).start + 2
    return jnp.asarray(q).at[height].add(clearance - lowest)


def grounded(poses: Poses, points: Sequence[tuple[str, tuple]]) -> list[Touch]:
    """Return contacts with the ground directly below points of links; the links' surfaces are assumed to reach it."""
    return [(body, "world", upright(poses.point(body, at) * [1, 1, 0])) for body, at in points]


def between(poses: Poses, pairs: Sequence[tuple[tuple[str, tuple], tuple[str, tuple]]]) -> list[Touch]:
    """Return contacts half way between points of two links."""
    middle = lambda a, b: upright((poses.point(*a) + poses.point(*b)) / 2)  # noqa: E731
    return [(a[0], b[0], middle(a, b)) for a, b in pairs]
