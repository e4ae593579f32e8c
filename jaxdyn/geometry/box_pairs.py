"""The contact points of two boxes: up to four where faces meet, or one where two edges cross."""

import jax.numpy as jnp
from jax import Array

from ..spatial.small import dot, mtm, mtv, mv
from .overlap import Corner, common, facing, largest, rolled
from .placed import Placed, Touch, sign
from .separation import Boxes, between_edges, chosen, edges, faces

#: if the normal of two touching edges is this near to a face's normal (cosine), corners over the face may touch too
ALIKE = 0.9999


def box(a: Placed, b: Placed) -> list[Touch]:
    """Return four places: corners of the polygon that two faces share, or one point between two edges.

    The least gap is the greatest separation along the fifteen axes: at most the distance, equal to it where the boxes
    touch, and minus the least translation that parts them where they overlap. Where two edges that are apart are
    parallel, or nearest to each other at an end of one, it is their distance. The first place has the least gap, to
    1e-5 of the boxes' size (1e-4 in single precision; of boxes that are apart 4e-3), and its rate is the one along the
    normal. The gaps of the other places are heights of further corners over the same face. Their rates are those along
    the normal as far as both faces are parallel, which they are if several corners bear load. If there are fewer places
    than slots, the gaps of the rest are larger by the size of both boxes.
    """
    boxes = Boxes(mtm(a.R, b.R), mtv(a.R, b.p - a.p), a.size, b.size)
    turned = boxes.exchanged()
    of_a, of_b = faces(boxes), faces(turned)
    tie = boxes.tie()
    best_a, best_b = jnp.max(of_a, 0), jnp.max(of_b, 0)
    on_b = best_b > best_a + tie
    which = largest(chosen(on_b, of_b, of_a))
    upright, R = _upright(chosen(on_b, turned, boxes), chosen(on_b, b.R, a.R), which)
    normal, face_gap = R[:, 2], jnp.where(on_b, best_b, best_a)

    pair = edges(boxes)
    gap, point, across = between_edges(boxes, pair)
    edge = Touch(gap, a.p + mv(a.R, point), mv(a.R, across))
    crossed = pair.score > face_gap + tie
    alike = abs(dot(edge.normal, normal)) > ALIKE

    towards_a = jnp.where(on_b[None], normal, -normal)
    origin = chosen(on_b, b.p, a.p)
    places, beside = _over_face(upright, face_gap, tie, mtv(R, edge.point - origin), crossed)
    touches = []
    for corner in places:
        middle = jnp.stack([corner.x, corner.y, upright.first[2] + 0.5 * corner.z])
        touches.append(Touch(corner.z, origin + mv(R, middle), towards_a))
    gap, point, away = _from_face(places[0], upright.first, beside)
    nearest = Touch(gap, origin + mv(R, point), mv(R, away) * jnp.where(on_b, 1, -1)[None])
    touches[0] = chosen(beside, nearest, touches[0])
    none = edge._replace(gap=edge.gap + boxes.scale())
    return [chosen(crossed, edge, touches[0]), *(chosen(crossed & ~alike, none, t) for t in touches[1:])]


def _upright(boxes: Boxes, R: Array, which) -> tuple[Boxes, Array]:
    """Return boxes seen from axes whose z is the normal of the first one's face towards the second, and these axes in
    the world (3, 3, ...)."""
    axes, offset, size = rolled(boxes.axes, *which), rolled(boxes.offset, *which), rolled(boxes.first, *which)
    columns = rolled(jnp.swapaxes(R, 0, 1), *which)
    up = sign(offset[2])
    turn = lambda x: jnp.stack([x[0], x[1], x[2] * (up if x.ndim == up.ndim + 1 else up[None])])  # noqa: E731
    return Boxes(turn(axes), turn(offset), size, boxes.second), jnp.swapaxes(turn(columns), 0, 1)


def _over_face(boxes: Boxes, face_gap: Array, tie: Array, mark: Array, marked: Array) -> tuple[list[Corner], Array]:
    """Return four corners over the first box's face, and whether the first is the nearest point, beside that face.

    If the lowest corner of the other face is not over it, which happens only if the boxes are apart, that corner is the
    first, because the gap must not exceed the distance. Along edges that lie flat it is the nearest point. If both
    faces are parallel, its distance is that of the boxes.
    """
    face = facing(boxes)
    found = common(boxes, face, mark, marked)
    first, *others = found.corners
    exists, *exist = found.exist
    nearest = first.z
    for other in others:
        nearest = jnp.minimum(nearest, other.z)
    beyond = ~exists | (nearest > face_gap + 2 * tie)
    first = chosen(beyond, face.lowest_near(boxes.first), first)
    none = first._replace(z=first.z + boxes.scale())
    corners = [first, *(chosen(e, c, none) for e, c in zip(exist, others, strict=True))]
    return corners, beyond & face.lies(tie) & (first.z > tie)


def _from_face(corner: Corner, base: Array, beside: Array) -> Touch:
    """Return the distance of a corner that is `beside` the base, from the nearest point on it, the point in the middle,
    and the direction from the base to the corner."""
    x, y, z = corner
    away = jnp.stack([x - jnp.clip(x, -base[0], base[0]), y - jnp.clip(y, -base[1], base[1]), z])
    length = jnp.sqrt(jnp.where(beside, dot(away, away), 1))
    return Touch(length, jnp.stack([x, y, base[2] + z]) - 0.5 * away, away / length[None])
