"""What the catalogue's robots are made of: entries, inertias, placements, and ties that close at a chosen pose."""

import dataclasses
from collections.abc import Callable
from functools import cached_property

import numpy as np
import oracle
from oracle_joints import turn

import jaxdyn as jd


@dataclasses.dataclass
class Entry:
    """A robot of the catalogue.

    `loops`: some rows act on several moving bodies. `redundant`: the rows' rank is less than their number, equally in
    every state that `sample` makes. `floating`: a root hangs on a `Free` joint. `singular`: J has less rank than at
    configurations nearby. `thin`: some inertia is tiny, which makes for bad conditioning. `spread`: how far samples
    start from `guess`, a configuration near which the loops close. `state`: a function of a NumPy generator that
    gives (q, v) where Newton's method cannot.
    """

    name: str
    fill: Callable[[jd.ModelSpec], "Pose | None"]
    loops: bool = False
    redundant: bool = False
    floating: bool = False
    singular: bool = False
    thin: bool = False
    spread: float = 0.3
    state: Callable | None = None

    @cached_property
    def _built(self):
        spec = jd.ModelSpec(self.name, gravity=(0.3, -0.2, -9.7))  # no axis of symmetry
        pose = self.fill(spec)
        model = spec.build()
        return model, np.asarray(model.neutral()) if pose is None else pose.q

    def build(self) -> jd.Model:
        """The model, built once."""
        return self._built[0]

    @property
    def guess(self) -> np.ndarray:
        return self._built[1]

    @property
    def constrained(self) -> bool:
        return bool(self.build().constraints)


CATALOGUE: dict[str, Entry] = {}


def robot(**about):
    """Enter a builder into the catalogue under its own name: it fills a `ModelSpec` and returns the `Pose` at which
    its loops close (None: neutral)."""

    def enter(fill):
        CATALOGUE[fill.__name__] = Entry(fill.__name__, fill, **about)
        return fill

    return enter


def at(x=0.0, y=0.0, z=0.0, axis=(0, 0, 1), angle=0.0) -> jd.Transform:
    """A placement: an offset and a turn about an axis."""
    axis = np.asarray(axis, float)
    return jd.Transform(turn(axis / np.linalg.norm(axis), angle), np.array([x, y, z]))


def towards(x, y, z, direction) -> jd.Transform:
    """A placement whose z axis points along `direction`."""
    u = np.asarray(direction, float) / np.linalg.norm(direction)
    axis = np.cross([0, 0, 1], u)
    return at(x, y, z, axis, float(np.arctan2(np.linalg.norm(axis), u[2])))


def bar(mass, end, radius=0.04) -> jd.Inertia:
    """A round bar from the body's origin to `end`."""
    e = np.asarray(end, float)
    u = e / np.linalg.norm(e)
    spin, sway = mass * radius**2 / 2, mass * (e @ e / 12 + radius**2 / 4)
    return jd.Inertia(mass, e / 2, sway * np.eye(3) + (spin - sway) * np.outer(u, u))


def lump(mass, center=(0.0, 0.0, 0.0), size=(0.2, 0.3, 0.15)) -> jd.Inertia:
    """A box that is not aligned with the body's axes."""
    moments = mass / 12 * (np.dot(size, size) - np.square(size))
    R = turn(np.array([1.0, 2.0, 2.0]) / 3, 0.7)
    return jd.Inertia(mass, center, R @ np.diag(moments) @ R.T)


class Pose:
    """The bodies of a spec in one configuration, `q`: neutral but for the joints given by name."""

    def __init__(self, spec: jd.ModelSpec, **values):
        self.spec, model = spec, spec.build()
        self.q = np.array(model.neutral())
        for joint, value in values.items():
            self.q[model.q_slice(joint)] = value
        self.robot = oracle.read(model)
        self.frames = oracle.body_frames(self.robot, self.q)

    def seen_from(self, body, R, p) -> jd.Transform:
        """A world pose in the frame of a body, of a named frame or of the world."""
        base = oracle.attached(self.robot, self.frames, body)
        return jd.Transform(base.R.T @ R, base.R.T @ (p - base.p))

    def tie(self, kind, a, b="world", point=(0.0, 0.0, 0.0), swing=None, **options) -> "Pose":
        """Add a constraint that holds here: a's frame is at `point` of a, along a's axes; b's frame is the same in
        space, but turned back by `swing`, an (axis, angle) in those axes, which is then a's turn seen from b."""
        host = oracle.attached(self.robot, self.frames, a)
        point = np.asarray(point, float)
        back = np.eye(3) if swing is None else turn(np.asarray(swing[0], float), -swing[1])
        there = self.seen_from(b, host.R @ back, host.p + host.R @ point)
        self.spec.add_constraint(kind(a, b, placement_a=at(*point), placement_b=there, **options))
        return self

    def strut(self, a, point_a, b, point_b, **options) -> "Pose":
        """Add a `Distance` between two points, as long as it is here."""
        ends = [oracle.attached(self.robot, self.frames, n) for n in (a, b)]
        (pa, pb) = (f.p + f.R @ np.asarray(x, float) for f, x in zip(ends, (point_a, point_b), strict=True))
        places = {"placement_a": at(*point_a), "placement_b": at(*point_b)}
        self.spec.add_constraint(
            jd.constraints.Distance(a, b, length=float(np.linalg.norm(pa - pb)), **places, **options)
        )
        return self
