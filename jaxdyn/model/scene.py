"""`SceneSpec`: the part of a `ModelSpec` that collects shapes and says which of them collide."""

import warnings
from collections.abc import Container, Mapping, Sequence
from typing import Any, Self

import numpy as np

from ..spatial.instances import check_instance, described
from ..spatial.numbers import ArrayLike, at_most_one, constants, not_negative, positive
from ..spatial.transform import Transform, placed
from ..tree.topology import Topology, unknown
from .collision import Collision
from .constraints import Constraint
from .described import Body, Collider
from .pairing import PairSurface, Rules, collision_of
from .shapes import UNBOUNDED, Plane, Shape
from .values import ModelWarning, checked_rotation

#: a bit mask that shares a bit with every other one but zero
ALL = 2**32 - 1


class SceneSpec:
    """Collects shapes, pairs that collide and pairs of bodies that do not."""

    bodies: dict[str, Body]
    frames: dict[str, tuple[str, np.ndarray, np.ndarray]]

    def __init__(self):
        self.shapes: dict[str, Collider] = {}
        #: shapes of a file that were not read, by name
        self.left_out: list[str] = []
        #: those of them that nobody asked to leave out
        self.unread: list[str] = []
        #: True if bodies of one tree collide with each other
        self.self_collisions = False
        self._excluded: set[frozenset[str]] = set()
        self._told: dict[frozenset[str], PairSurface] = {}

    def _check_host(self, call: str, host: str, hint: str = "") -> None:
        """Raise `ValueError` if `host` is neither a body, a frame nor the world, and `TypeError` if it is no string."""
        if not isinstance(host, str):
            raise TypeError(f"{call}{described(host)} is not the name of a body or frame.{hint}")
        if host != "world" and host not in self.bodies and host not in self.frames:
            known = ("world", *self.bodies, *self.frames)
            raise ValueError(call + unknown("body or frame", host, known) + hint)

    def _owner(self, host: str) -> str:
        """Return the body in which a frame is fixed."""
        while host in self.frames:
            host = self.frames[host][0]
        return host

    def add_shape(
        self,
        body: str,
        shape: Shape,
        *,
        name: str | None = None,
        placement: Transform | ArrayLike | None = None,
        friction: Any = None,
        torsion: Any = 0.0,
        restitution: Any = 0.0,
        stiffness: Any = None,
        damping: Any = None,
        collides: int = 1,
        collides_with: int = 1,
        priority: int = 0,
    ) -> Self:
        """Add a shape of `body` (a body, a frame or ``"world"``) that collides.

        Two shapes collide if ``collides`` of one and ``collides_with`` of the other have a bit in common, unless they
        belong to one body, to neighbouring bodies, or (without `self_collisions`) to one tree.

        **Arguments:** `shape`, such as ``jd.shapes.Sphere(0.1)``; `name` (default: the body's, numbered if taken);
        `placement`, the shape's frame in the body's, or its translation (3,) (default: the same); `friction`, a
        coefficient (None: that of the other shape, or 1); `torsion`, m: the torque of friction about the normal is at
        most this times the normal force; `restitution`, 0 to 1, which steps do not use if one of the two shapes has a
        stiffness; `stiffness` N/m and `damping` N s/m of its surface (default: rigid; `impulse` treats all as rigid);
        the two bit masks; `priority`: the friction of a pair is that of the shape with the larger priority, and the
        larger friction if priorities are equal.

        **Raises** `ValueError` for an unknown body, a taken name and numbers out of range. A mesh that its hull does
        not represent exactly is a `ModelWarning`. Planes and height fields on moving bodies are errors in `build`.
        """
        call = f"`ModelSpec.add_shape({body!r})`"
        check_instance(call, "shape", shape, Shape, " Use one such as `jd.shapes.Sphere(0.1)`.")
        if isinstance(name, str) and not name:
            raise ValueError(f"{call}: a name is a non-empty string; leave `name` out for one made from the body's.")
        place = placed(call, "placement", placement)
        surface = Collider(
            "" if name is None else name,
            body,
            shape,
            place.rotation,
            place.translation,
            friction,
            torsion,
            restitution,
            np.inf if stiffness is None else constants(call, "stiffness", stiffness, (), positive),
            np.inf if damping is None and stiffness is None else 0.0 if damping is None else damping,
            collides,
            collides_with,
            priority,
        )
        if damping is not None and stiffness is None:
            raise ValueError(f"{call}: a rigid surface has no damping; give `stiffness` too.")
        return self.collide(surface)

    def collide(self, c: Collider, judged: bool = False) -> Self:
        """Add a shape that is described in NumPy. Arguments and errors are those of `add_shape`. With `judged`, give no
        warnings about the shape: the caller has given them."""
        call = f"`ModelSpec.add_shape({c.body!r})`"
        self._check_host(f"{call}: ", c.body)
        c.name = self._shape_name(call, c)
        c.owner = self._owner(c.body)
        c.rotation = checked_rotation(call, "placement.rotation", c.rotation)
        c.translation = constants(call, "placement.translation", c.translation, (3,))
        for what, rules in (("friction", ()), ("torsion", ()), ("restitution", (at_most_one,))):
            if what == "friction" and c.friction is None:
                continue
            setattr(c, what, float(constants(call, what, getattr(c, what), (), not_negative, *rules)))
        c.stiffness = float(c.stiffness)
        if np.isfinite(c.stiffness):
            c.damping = float(constants(call, "damping", c.damping, (), not_negative))
        for what in ("collides", "collides_with"):
            mask = getattr(c, what)
            if isinstance(mask, bool) or not isinstance(mask, int | np.integer) or not 0 <= mask < 2**32:
                raise ValueError(
                    f"{call}: `{what}` is {mask!r:.40}, not a bit mask: a whole number from 0 to 2**32 - 1."
                )
        if isinstance(c.priority, bool) or not isinstance(c.priority, int | np.integer):
            raise ValueError(f"{call}: `priority` is {c.priority!r:.40}, not a whole number.")
        for text in () if judged else c.shape.told:
            warnings.warn(f"{call}: shape {c.name!r}: {text}.", ModelWarning, stacklevel=3)
        self.shapes[c.name] = c
        return self

    def _shape_name(self, call: str, c: Collider) -> str:
        if not isinstance(c.name, str):
            raise ValueError(f"{call}: a name is a non-empty string, not {described(c.name)}.")
        if c.name in self.shapes:
            raise ValueError(f"{call}: the name {c.name!r} is already taken by a shape.")
        return c.name or self.free_name(c.body)

    def free_name(self, wanted: str, others: Container[str] = ()) -> str:
        """Return a name that neither a shape nor one of the `others` has: this one, with a number appended if it is
        taken."""
        name, k = wanted, 1
        while name in self.shapes or name in self.left_out or name in others:
            name, k = f"{wanted}_{k}", k + 1
        return name

    def add_ground(self, friction: Any = 1.0, height: Any = 0.0, *, name: str = "ground", **options) -> Self:
        """Add a plane of the world at z = `height` that all shapes collide with, whatever their masks. `options` as in
        `add_shape`; with masks of its own, the plane collides by them. Raises the errors of `add_shape`."""
        z = float(constants("`ModelSpec.add_ground`", "height", height, ()))
        masked = "collides" in options or "collides_with" in options
        options = {"collides": ALL, "collides_with": ALL} | options
        self.add_shape("world", Plane(), name=name, placement=(0.0, 0.0, z), friction=friction, **options)
        next(reversed(self.shapes.values())).meets_all = not masked
        return self

    def add_pair(self, shape_a: str, shape_b: str, *, friction: Any = None, torsion: Any = None) -> Self:
        """Let two shapes collide regardless of their masks, even if they belong to one tree. `friction` and `torsion`
        are those of this pair (default: from the two shapes, as in `add_shape`).

        Raises `ValueError` for unknown shapes, the same one twice and negative numbers, `TypeError` for other types.
        """
        call = "`ModelSpec.add_pair`"
        for what, name in (("shape_a", shape_a), ("shape_b", shape_b)):
            check_instance(call, what, name, str)
            if name not in self.shapes:
                raise ValueError(f"{call}: {unknown('shape', name, self.shapes)}")
        if shape_a == shape_b:
            raise ValueError(f"{call}: shape {shape_a!r} does not move against itself.")
        given = {"friction": friction, "torsion": torsion}
        own = [None if x is None else float(constants(call, what, x, (), not_negative)) for what, x in given.items()]
        self._told[frozenset((shape_a, shape_b))] = PairSurface(*own)
        return self

    def exclude(self, body_a: str, body_b: str) -> Self:
        """Let the shapes of two bodies pass through each other. Pairs of `add_pair` still collide.

        Raises `ValueError` for unknown bodies, `TypeError` for other types.
        """
        for what, body in (("body_a", body_a), ("body_b", body_b)):
            self._check_host(f"`ModelSpec.exclude`: `{what}`: ", body)
        self._excluded.add(frozenset((self._owner(body_a), self._owner(body_b))))
        return self

    def _collision(
        self,
        call: str,
        topology: Topology,
        rows: Sequence[Body],
        places: Mapping[str, tuple[str, np.ndarray, np.ndarray]],
        constraints: Sequence[Constraint],
    ) -> Collision:
        """Return the shapes of the model that is built."""
        colliders = list(self.shapes.values())
        for c in colliders:
            if c.shape.kind in UNBOUNDED and places[c.body][0] != "world":
                what = type(c.shape).__name__
                raise ValueError(f"{call}: shape {c.name!r} is a `{what}`, which stands on the world, not on a body.")
        rules = Rules(self._excluded, self._told, self.self_collisions)
        for names in self._told:
            hosts = {places[self.shapes[n].body][0] for n in names}
            if len(hosts) == 1:
                told = " and ".join(map(repr, sorted(names)))
                raise ValueError(f"{call}: the shapes {told} of a pair do not move against each other.")
        return collision_of(call, topology, rows, colliders, places, rules, constraints, self.left_out, self.unread)
