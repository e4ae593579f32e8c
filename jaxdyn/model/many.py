"""Constraints on any number of bodies: `CenterOfMass`, `General`."""

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..spatial.instances import check_names
from ..spatial.numbers import ArrayLike, finite, floats
from ..spatial.small import cross, mv
from ..spatial.transform import Transform
from ..tree.topology import WORLD, Topology
from .constraints import Baumgarte, BodyView, Constraint, Layout, Rows, check_function, checked_options


class CenterOfMass(Constraint):
    """Holds the robot's centre of mass at `position` (3,) in the world: three rows, in the world's axes."""

    position: Float[Array, "3"]
    target: Float[Array, "3"]
    stabilization: Baumgarte
    name: str | None = eqx.field(static=True)

    def __init__(
        self,
        position: ArrayLike = (0.0, 0.0, 0.0),
        *,
        name: str | None = None,
        target: ArrayLike | None = None,
        stabilization: Baumgarte | None | str = "default",
    ):
        self.position = floats("`CenterOfMass`", "position", position, (3,), finite)
        self.name, self.target, self.stabilization = checked_options("`CenterOfMass`", name, target, stabilization, 3)

    def layout(self, topology: Topology) -> Layout:
        return Layout((type(self),), 3, tuple(range(topology.nb)))

    def evaluate(self, layout: Layout, attachments, views, robot) -> Rows:
        mass = [robot.mass[b][None] for b in layout.bodies]  # (k = 1, lanes)
        center = [robot.center_of_mass[b][:, None] for b in layout.bodies]
        total = sum(mass)
        K, gamma, place = [], 0, 0
        for m, c, view in zip(mass, center, views, strict=True):
            share = m / total
            lin = share * view.R
            ang = jnp.stack([cross(c, lin[r]) for r in range(3)])
            K.append((ang, lin))
            gamma = gamma + mv(lin, cross(view.w, view.l + cross(view.w, c)))
            place = place + share * (view.p + mv(view.R, c))
        return Rows(K, gamma, place - self.position)


class General(Constraint):
    """Imposes any smooth condition on poses: ``fn(*poses) = 0``, with one `Transform` (in the world) per body: `rows`
    rows.

    `fn` is a JAX function of unbatched poses, which is differentiated twice. Use the same function object in every
    call: it is part of the model's static structure, and must not read traced numbers from outside.

    **Arguments:** `bodies`, names of bodies or frames; `fn`; `rows`, the length of its result.
    """

    bodies: tuple[str, ...] = eqx.field(static=True)
    fn: Callable[..., Array] = eqx.field(static=True)
    rows: int = eqx.field(static=True)
    target: Float[Array, " rows"]
    stabilization: Baumgarte
    name: str | None = eqx.field(static=True)

    def __init__(
        self,
        bodies: Sequence[str],
        fn: Callable[..., Array],
        rows: int,
        *,
        name: str | None = None,
        target: ArrayLike | None = None,
        stabilization: Baumgarte | None | str = "default",
    ):
        self.bodies = check_names("`General`", "bodies", bodies)
        call = f"`General({list(self.bodies)})`"
        pose = Transform(jnp.eye(3), jnp.zeros(3))
        check_function(call, fn, rows, *[pose] * len(self.bodies))
        self.fn, self.rows = fn, int(rows)
        self.name, self.target, self.stabilization = checked_options(call, name, target, stabilization, rows)

    def layout(self, topology: Topology) -> Layout:
        at = tuple(topology.locate(b) for b in self.bodies)
        bodies = tuple(dict.fromkeys(b for b, _ in at if b != WORLD))
        if not bodies:
            raise ValueError(f"none of its bodies {list(self.bodies)} moves.")
        slots = tuple(None if b == WORLD else bodies.index(b) for b, _ in at)
        return Layout((type(self), self.fn, self.rows, slots), self.rows, bodies, at)

    def evaluate(self, layout: Layout, attachments, views, robot) -> Rows:
        slots, n = layout.signature[3], len(views)

        def single(R, p, w, l, Rf, pf):
            """Return J (rows, n, 6), bias and residual of one constraint for one lane."""

            def moved(xi):
                """Return `fn` after each body has moved by its twist xi (n, 6) for one unit of time, to second
                order."""
                poses = []
                for k, s in enumerate(slots):
                    rot, pos = Rf[k], pf[k]
                    if s is not None:
                        a, b = xi[s, :3], xi[s, 3:]
                        turn = jnp.cross(jnp.eye(3, dtype=R.dtype), a)
                        step = jnp.eye(3, dtype=R.dtype) + turn + turn @ turn / 2
                        pos = p[s] + R[s] @ (b + jnp.cross(a, b) / 2 + step @ pos)
                        rot = R[s] @ step @ rot
                    poses.append(Transform(rot, pos))
                return self.fn(*poses)

            zero, twist = jnp.zeros((n, 6), R.dtype), jnp.concatenate([w, l], -1)
            slope = lambda xi: jax.jvp(moved, (xi,), (twist,))[1]  # noqa: E731
            bias = jax.jvp(slope, (zero,), (twist,))[1]
            return jax.jacfwd(moved)(zero), bias, moved(zero)

        # give all arrays the same lanes, then map over constraints and lanes
        tail = jnp.broadcast_shapes(*[x.shape[-2:] for x in jax.tree.leaves((views, attachments))])
        views, attachments = jax.tree.map(lambda x: jnp.broadcast_to(x, x.shape[:-2] + tail), (views, attachments))
        args = [jnp.stack([getattr(v, f) for v in views]) for f in BodyView._fields]
        args += [jnp.stack([a[part] for a in attachments]) for part in (0, 1)]
        J, bias, value = jax.vmap(jax.vmap(single, -1, -1), -1, -1)(*args)
        K = [(J[:, s, :3], J[:, s, 3:]) for s in range(n)]
        return Rows(K, bias, value)
