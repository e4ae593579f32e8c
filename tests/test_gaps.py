"""Gaps, points and normals of shapes: against MuJoCo and Coal, their rates, derivatives, and where they are placed."""

import functools

import jax
import mujoco
import numpy as np
import pytest
import scipy.spatial.transform

from jaxdyn.constrained.apart import apart
from jaxdyn.geometry.touch import PAIRS, Placed, Touch, slots, touches
from jaxdyn.spatial.quarters import in_quarters

BODIES = ("sphere", "capsule", "box")
GROUND = (*BODIES, "cylinder", "ellipsoid", "mesh")
BETWEEN = [pair for pair in PAIRS if set(pair) <= set(BODIES)]
MUJOCO = {"sphere": 2, "capsule": 3, "ellipsoid": 4, "cylinder": 5, "box": 6, "plane": 0}
COUNT = 500


def turns(rng, count):
    """Rotations (3, 3, count)."""
    w, x, y, z = (q := rng.normal(size=(4, count))) / np.linalg.norm(q, axis=0)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def placed(pair, count=COUNT, seed=0):
    """Random shapes of which a third overlap."""
    rng = np.random.default_rng(seed)
    both = []
    for kind, reach in zip(pair, (0.7, 0.2), strict=True):
        size = rng.uniform(0.05, 0.4, (3, count))
        if kind == "mesh":
            size = rng.normal(size=(12, 3, count)) * 0.2
        if kind == "heights":
            size = rng.normal(size=(4, 5, count)) * 0.1, np.array([1.0, 1.2])[:, None] * np.ones((2, count))
        both.append(Placed(turns(rng, count), rng.uniform(-reach, reach, (3, count)), size))
    return both


@functools.cache
def compiled(pair):
    return jax.jit(lambda a, b: touches(*pair, a, b))


@functools.cache
def derivatives(pair):
    """The function from shapes, rates of poses and weights of results to slots, their rates, and pulled weights."""

    def every(a, b, rates, weights):
        at = lambda R, p, Q, s: touches(*pair, a._replace(R=R, p=p), b._replace(R=Q, p=s))  # noqa: E731
        poses = a.R, a.p, b.R, b.p
        here, rate = jax.jvp(at, poses, rates)
        return here, rate, jax.vjp(at, *poses)[1](weights)

    # in one kernel, as contact is computed; XLA compiles derivatives of boxes for half a minute
    return jax.jit(functools.partial(apart, every, (), compiler="auto"))


def wide(shape):
    """The same shape in COUNT lanes, as all calls share compiled programs."""

    def lanes(x, k):
        x = x[..., None] if np.ndim(x) == k else x
        return np.concatenate([x, np.repeat(x[..., -1:], COUNT - x.shape[-1], -1)], -1)

    components = (2, 1) if isinstance(shape.size, tuple) else max(np.ndim(shape.size) - np.ndim(shape.p) + 1, 1)
    return Placed(lanes(shape.R, 2), lanes(shape.p, 1), jax.tree.map(lanes, shape.size, components))


def found(pair, a, b):
    """Gaps (slots, lanes), points and normals (slots, 3, lanes)."""
    results = [np.stack(x) for x in zip(*compiled(pair)(wide(a), wide(b)), strict=True)]
    lanes = 0 if a.p.ndim == 1 else slice(a.p.shape[-1])
    return [x[..., lanes] for x in results]


def at(x, p=(0.0, 0.0, 0.0), R=None):
    """A shape of one lane."""
    return Placed(np.eye(3) if R is None else np.asarray(R), np.asarray(p, float), np.asarray(x, float))


def turn(axis, angle):
    c, s = np.cos(angle), np.sin(angle)
    R = np.eye(3)
    i, j = (axis + 1) % 3, (axis + 2) % 3
    R[i, i], R[i, j], R[j, i], R[j, j] = c, -s, s, c
    return R


def mujoco_distances(pair, a, b):
    text = "".join(
        f"<body><geom type='{k}' size='1 1 1'/></body>" if k != "plane" else "<geom type='plane' size='1 1 1'/>"
        for k in pair
    )
    model = mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{text}</worldbody></mujoco>")
    ids = [int(np.flatnonzero(model.geom_type == MUJOCO[k])[n]) for k, n in zip(pair, _nth(pair), strict=True)]
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    segment, distances = np.zeros(6), []
    for k in range(a.p.shape[-1]):
        for place, g, kind in zip((a, b), ids, pair, strict=True):
            data.geom_xpos[g], data.geom_xmat[g] = place.p[:, k], place.R[..., k].ravel()
            if kind != "plane":
                model.geom_size[g] = place.size[:, k]
        model.geom_rbound[:] = 10
        distances.append(mujoco.mj_geomDistance(model, data, *ids, 100.0, segment))
    return np.array(distances)


def _nth(pair):
    """Which geom of its type each is."""
    return (0, 1) if pair[0] == pair[1] else (0, 0)


def coal_distances(pair, a, b):
    coal = pytest.importorskip("coal")
    made = {
        "sphere": lambda s: coal.Sphere(s[0]),
        "capsule": lambda s: coal.Capsule(s[0], 2 * s[1]),
        "cylinder": lambda s: coal.Cylinder(s[0], 2 * s[1]),
        "box": lambda s: coal.Box(*(2 * s)),
        "ellipsoid": lambda s: coal.Ellipsoid(*s),
        "plane": lambda s: coal.Halfspace(np.array([0.0, 0.0, 1.0]), 0.0),
    }
    distances = []
    for k in range(a.p.shape[-1]):
        shapes = [made[kind](x.size[:, k]) for kind, x in zip(pair, (a, b), strict=True)]
        poses = [coal.Transform3s(x.R[..., k], x.p[:, k]) for x in (a, b)]
        found = coal.DistanceResult()
        args = (shapes[0], poses[0], shapes[1], poses[1], coal.DistanceRequest(), found)
        distances.append(coal.distance(*args))
    return np.array(distances)


@pytest.mark.parametrize("reference", [mujoco_distances, coal_distances])
@pytest.mark.parametrize("pair", [*BETWEEN, *((k, "plane") for k in GROUND if k != "mesh")])
def test_the_least_gap_is_the_distance(pair, reference):
    a, b = placed(pair)
    gaps = found(pair, a, b)[0]
    gap = gaps[0] if pair == ("box", "box") else gaps.min(0)
    true = reference(pair, a, b)
    if pair == ("capsule", "box"):  # as deep as this the capsule's axis is in the box
        shallow = true > -a.size[0]
        if reference is mujoco_distances:  # its overlaps of these are off, Coal's are not
            shallow = true > 0
        gap, true = gap[shallow], true[shallow]
    assert (gap <= true + 1e-9).all(), "a gap of more than the distance"
    if pair == ("box", "box"):
        apart = true > 0
        assert (gap[apart] > 0).all() and (gap[apart] > 0.5 * true[apart]).all()
        gap, true = gap[~apart], true[~apart]
    assert len(gap) > 100
    np.testing.assert_allclose(gap, true, atol=1e-9)


def test_gaps_of_boxes_are_the_greatest_separation():
    """... unless two edges that are apart are nearest to each other at an end of one: then they are the distance."""
    a, b = placed(("box", "box"), 200, 1)
    axes = [x.R[:, i] for x in (a, b) for i in range(3)]
    axes += [np.cross(a.R[:, i], b.R[:, j], axis=0) for i in range(3) for j in range(3)]
    best = -np.inf
    for n in axes:
        n = n / np.linalg.norm(n, axis=0)
        reach = sum((abs(np.einsum("ikl,il->kl", x.R, n)) * x.size).sum(0) for x in (a, b))
        best = np.maximum(best, abs(((a.p - b.p) * n).sum(0)) - reach)
    gap = found(("box", "box"), a, b)[0][0]
    more = gap > best + 1e-12
    assert 10 < more.sum() < 40 and (best[more] > 0).all()
    np.testing.assert_allclose(gap[~more], best[~more], atol=1e-12)
    np.testing.assert_allclose(gap[more], mujoco_distances(("box", "box"), a, b)[more], rtol=1e-6)


def nearly_parallel(dtype=float):
    """Boxes that are beside an edge of each other, and nearly parallel, a fifth of them exactly."""
    rng = np.random.default_rng(3)
    a, b = (wide(at(rng.uniform(0.1, 0.3, 3))) for _ in range(2))
    turned = scipy.spatial.transform.Rotation.from_rotvec(
        rng.normal(size=(COUNT, 3)) * 10 ** rng.uniform(-6, -1.5, (COUNT, 1)) * (np.arange(COUNT)[:, None] % 5 > 0)
    )
    away = np.stack([*10 ** rng.uniform(-3, -1, (2, COUNT)), rng.uniform(-0.3, 0.3, COUNT)])
    away[:2] += a.size[:2] + b.size[:2]
    b = b._replace(R=turned.as_matrix().transpose(1, 2, 0), p=away)
    return [jax.tree.map(lambda x: x.astype(dtype), x) for x in (a, b)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_points_of_edges_that_are_apart_are_on_the_boxes(dtype):
    """... not where the lines through nearly parallel edges are nearest to each other, metres away."""
    a, b = nearly_parallel(dtype)
    gaps, points, normals = found(("box", "box"), a, b)
    gap, point, normal = gaps[0], points[0], normals[0]
    of_faces = np.concatenate([a.R, b.R], 1)
    edges = abs(np.einsum("ijl,il->jl", of_faces, normal)).max(0) < 1 - 1e-6
    assert edges.mean() > 0.1
    exact = [x._replace(**{k: np.asarray(getattr(x, k), float) for k in ("R", "p", "size")}) for x in (a, b)]
    true = mujoco_distances(("box", "box"), *exact)
    np.testing.assert_allclose(gap[edges], true[edges], rtol=1e-3, atol=1e-4 if dtype == np.float32 else 1e-15)
    np.testing.assert_allclose(gap[::5], true[::5], rtol=1e-4)
    for x, side in ((a, 1), (b, -1)):
        off = abs(np.einsum("jil,jl->il", x.R, point + side * 0.5 * gap * normal - x.p)) - x.size
        assert max(off[:, edges].max(), off[:, ::5].max()) < 100 * np.finfo(dtype).eps
        # over a face that is not below, a point is beside the face by no more than twice what the boxes are apart
        assert (np.linalg.norm(np.maximum(off, 0), axis=0) < 2 * true + 1e-3).all()


def test_rates_where_edges_are_parallel():
    a, b = nearly_parallel()
    rates, relative = moving(a, b)
    pair = "box", "box"
    here, rate, _ = derivatives(pair)(a, b, rates, random_weights(pair))
    touch, moved = (x[0] for x in (here, rate))
    error = abs(moved.gap - (touch.normal * relative(np.asarray(touch.point))).sum(0))[::5]
    assert error.max() < 1e-11


def test_meshes_stand_on_their_lowest_vertices():
    a, b = placed(("mesh", "plane"))
    gap, point, normal = found(("mesh", "plane"), a, b)
    heights = np.einsum(
        "il,ilv->lv", b.R[:, 2], a.p[:, :, None] - b.p[:, :, None] + np.einsum("ijl,vjl->ilv", a.R, a.size)
    )
    np.testing.assert_allclose(gap.min(0), heights.min(1), atol=1e-14)
    vertices = np.einsum("ijl,vjl->vil", a.R, a.size) + a.p
    for k in range(4):
        lowest = point[k] + 0.5 * gap[k] * normal[k]
        assert (np.linalg.norm(vertices[k::4] - lowest, axis=1).min(0) < 1e-14).all()


@pytest.mark.parametrize("sides", [3, 4, 5, 6, 8, 12, 32])
def test_prisms_stand_on_corners_that_surround_their_axis(sides):
    """... in all orientations of the mesh in its frame, upright or upside down, and with a little noise of the pose."""
    rng = np.random.default_rng(sides)
    for turned in turns(rng, 4).transpose(2, 0, 1):
        angles = 2 * np.pi * (np.arange(sides) + rng.uniform()) / sides
        ring = np.stack([np.cos(angles), np.sin(angles)], 1)
        vertices = np.concatenate([np.c_[ring, np.full(sides, z)] for z in (-0.4, 0.4)]) @ turned.T
        middles = angles + np.pi / sides
        normals = np.r_[np.c_[np.cos(middles), np.sin(middles), 0 * middles], [[0, 0, 1], [0, 0, -1]]] @ turned.T
        ordered = in_quarters(rng.permutation(vertices), normals)
        assert len(ordered) % 4 == 0 and len(np.unique(ordered.round(9), axis=0)) == 2 * sides
        for flip in (0, np.pi):
            R = turn(0, flip + 1e-9 * rng.normal()) @ turn(1, 1e-9 * rng.normal()) @ turned.T
            placed = ordered @ R.T
            lowest = [group[group[:, 2].argmin()] for group in (placed[k::4] for k in range(4))]
            point = np.array([x for x in lowest if x[2] < -0.4 + 1e-6])
            around = np.sort(np.arctan2(point[:, 1], point[:, 0]))
            assert np.diff([*around, around[0] + 2 * np.pi]).max() < np.pi * 1.001
            if sides == 4:
                assert len(np.unique(point.round(6), axis=0)) == 4


def moving(a, b, seed=5):
    """Rates of both poses, and the function from points to relative velocities."""
    rng = np.random.default_rng(seed)
    v, w = rng.normal(size=(2, 2, 3, a.p.shape[-1]))
    turned = [np.stack([np.cross(w[k], x.R[:, j], axis=0) for j in range(3)], 1) for k, x in enumerate((a, b))]
    velocity = lambda k, x: v[k] + np.cross(w[k], x - (a, b)[k].p, axis=0)  # noqa: E731
    return (turned[0], v[0], turned[1], v[1]), lambda x: velocity(0, x) - velocity(1, x)


def random_weights(pair, dtype=float):
    rng = np.random.default_rng(1)
    shapes = (COUNT,), (3, COUNT), (3, COUNT)
    return [Touch(*(rng.normal(size=x).astype(dtype) for x in shapes)) for _ in range(slots(*pair))]


@pytest.mark.parametrize("pair", [pair for pair in PAIRS if pair[1] != "heights"])
def test_rates_of_gaps_are_relative_velocities(pair):
    """... along the normals at the points; derivatives are those of central differences, the same in both modes."""
    a, b = placed(pair, seed=2)
    rates, relative = moving(a, b)
    weights = random_weights(pair)
    here, rate, back = derivatives(pair)(a, b, rates, weights)
    inner = lambda x, y: sum(float((u * v).sum()) for u, v in zip(jax.tree.leaves(x), jax.tree.leaves(y), strict=True))  # noqa: E731
    np.testing.assert_allclose(inner(weights, rate), inner(back, rates), rtol=1e-8)
    step = 1e-6
    shifted = []
    for s in (step, -step):
        move = lambda x, R, p: x._replace(R=x.R + s * R, p=x.p + s * p)  # noqa: B023, E731
        shifted.append(found(pair, move(a, *rates[:2]), move(b, *rates[2:])))
    for k, (touch, moved) in enumerate(zip(here, rate, strict=True)):
        assert all(np.isfinite(x).all() for x in (*touch, *moved))
        np.testing.assert_allclose(np.linalg.norm(touch.normal, axis=0), 1, atol=1e-14)
        error = abs(moved.gap - (touch.normal * relative(np.asarray(touch.point))).sum(0))
        if pair == ("capsule", "box"):
            error = error[touch.gap > -a.size[0] * (1 - 1e-9)]
        if pair != ("box", "box") or k == 0:
            assert error.max() < 1e-11
        for x, up, down in zip(moved, shifted[0], shifted[1], strict=True):
            error = abs((up[k] - down[k]) / (2 * step) - x) / (1 + abs(x))
            # a step across a kink is rare
            assert np.quantile(error, 0.98) < 1e-6


def test_rates_are_exact_where_several_corners_of_boxes_bear():
    """Two boxes whose faces are parallel, turned about their normal and shifted, at velocities without rotation."""
    rng = np.random.default_rng(0)
    pair = "box", "box"
    lay = [at([0.3, 0.2, 0.1], [*rng.uniform(-0.2, 0.2, 2), 0.35], turn(2, x)) for x in rng.uniform(0, 3, COUNT)]
    a = Placed(*(np.stack(x, -1) for x in zip(*lay, strict=True)))
    b = wide(at([0.25, 0.25, 0.25]))
    v = rng.normal(size=(3, COUNT))
    gap, _, normal = found(pair, a, b)
    bearing = gap < 0.1
    assert bearing[0].all() and bearing.mean() > 0.9
    np.testing.assert_allclose(gap[bearing], 0, atol=1e-12)
    np.testing.assert_allclose(normal, np.broadcast_to([[[0], [0], [1]]], normal.shape), atol=1e-12)
    step = 1e-4
    moved = found(pair, a._replace(p=a.p + step * v), b)[0] - gap
    assert (abs(moved - step * v[2])[bearing] < 1e-12).mean() > 0.99, "but where a corner gives way to another"


DEGENERATE = {
    ("sphere", "sphere"): [at([0.1, 0, 0]), at([0.2, 0, 0])],
    ("sphere", "capsule"): [at([0.1, 0, 0]), at([0.2, 0.3, 0])],
    ("sphere", "box"): [at([0.1, 0, 0]), at([0.2, 0.2, 0.2])],
    ("capsule", "capsule"): [at([0.1, 0.3, 0]), at([0.2, 0.3, 0])],
    ("capsule", "box"): [at([0.1, 0.3, 0]), at([0.2, 0.2, 0.2])],
    ("box", "box"): [at([0.2, 0.2, 0.2]), at([0.2, 0.2, 0.2])],
    **{(kind, "plane"): [at([0.1, 0.1, 0.1]), at([0, 0, 0])] for kind in GROUND if kind != "mesh"},
}


@pytest.mark.parametrize("pair", DEGENERATE)
def test_derivatives_are_finite_where_shapes_coincide(pair):
    """Centers at one place, axes parallel, faces flat on faces: derivatives are numbers, in single precision too."""
    a, b = (wide(shape) for shape in DEGENERATE[pair])
    rates, _ = moving(a, b)
    for dtype in (np.float64, np.float32):
        args = jax.tree.map(lambda x: np.asarray(x, dtype), (a, b, rates))  # noqa: B023
        found = jax.tree.leaves(derivatives(pair)(*args, random_weights(pair, dtype)))
        assert all(np.isfinite(x).all() and x.dtype == dtype for x in found)


@pytest.mark.parametrize("pair", [*BETWEEN, *((k, "plane") for k in GROUND)])
def test_single_precision(pair):
    a, b = placed(pair, seed=4)
    exact = found(pair, a, b)[0].min(0)
    small = [Placed(*(np.asarray(x, np.float32) for x in shape)) for shape in (a, b)]
    gap, point, normal = found(pair, *small)
    assert gap.dtype == point.dtype == normal.dtype == np.float32
    # a capsule's axis on the surface of a box is near to it in no direction
    shallow = exact > -0.8 * a.size[0] if pair == ("capsule", "box") else slice(None)
    # boxes: two axes that separate by as much as single precision can tell are the same
    bound = 4e-4 if pair == ("box", "box") else 2e-6
    np.testing.assert_allclose(gap.min(0)[shallow], exact[shallow], atol=bound)


def test_a_box_lies_on_four_corners():
    for angle in (0, 1e-9, -1e-9, 0.1):
        gap, point, _ = found(("box", "plane"), at([0.3, 0.2, 0.1], [1, 2, 0.1], turn(0, angle)), at([0, 0, 0]))
        assert sorted(map(tuple, np.round(point[:, :2], 1))) == [(0.7, 1.8), (0.7, 2.2), (1.3, 1.8), (1.3, 2.2)]
    # a slot stays at its vertex while the box rocks
    left, right = (found(("box", "plane"), at([0.3, 0.2, 0.1], R=turn(0, x)), at([0, 0, 0]))[1] for x in (-1e-6, 1e-6))
    np.testing.assert_allclose(left, right, atol=1e-5)


def test_a_cylinder_stands_on_its_rim_and_lies_on_a_line():
    plane = at([0, 0, 0])
    gap, point, _ = found(("cylinder", "plane"), at([0.2, 0.5, 0], [0, 0, 0.5]), plane)
    np.testing.assert_allclose(gap, 0, atol=1e-15)
    assert sorted(map(tuple, np.round(point[:, :2], 9) + 0.0)) == [(-0.2, 0), (0, -0.2), (0, 0.2), (0.2, 0)]
    for lean in (1e-3, 0.3):
        for around in np.linspace(0, 6, 7):
            R = turn(0, lean) @ turn(2, around)
            gap, point, _ = found(("cylinder", "plane"), at([0.2, 0.5, 0], [0, 0, 0.5], R), plane)
            np.testing.assert_allclose(gap.min(), 0.5 - 0.5 * np.cos(lean) - 0.2 * np.sin(lean), atol=1e-12)
            if lean < 0.01:  # the four surround the axis
                angles = np.sort(np.arctan2(point[:, 1], point[:, 0]))
                assert np.diff([*angles, angles[0] + 2 * np.pi]).max() < np.pi * 0.76
    gap, point, _ = found(("cylinder", "plane"), at([0.2, 0.5, 0], [0, 0, 0.2], turn(0, np.pi / 2)), plane)
    assert sorted(np.round(point[gap < 0.01, 1], 9)) == [-0.5, 0.5]


def test_parallel_capsules_touch_at_both_ends_of_what_they_have_in_common():
    a, b = at([0.1, 0.5, 0], [0.3, 0, 0.9]), at([0.2, 0.3, 0])
    gap, point, normal = found(("capsule", "capsule"), a, b)
    np.testing.assert_allclose(gap, np.hypot(0.3, 0.1) - 0.3)
    a = at([0.1, 0.5, 0], [0.3, 0, 0.1])
    gap, point, normal = found(("capsule", "capsule"), a, b)
    np.testing.assert_allclose(gap, 0, atol=1e-15)
    np.testing.assert_allclose(sorted(point[:, 2]), [-0.3, 0.3], atol=1e-12)
    np.testing.assert_allclose(normal, [[1, 0, 0]] * 2, atol=1e-12)


def test_a_capsule_lies_on_a_box_with_the_ends_of_what_is_over_it():
    lying = turn(1, np.pi / 2)
    for shift, ends in ((0.0, [-0.4, 0.4]), (0.2, [-0.2, 0.5]), (0.6, [0.2, 0.5])):
        gap, point, normal = found(("capsule", "box"), at([0.1, 0.4, 0], [shift, 0, 0.4], lying), at([0.5, 0.2, 0.3]))
        np.testing.assert_allclose(gap, 0, atol=1e-12)
        np.testing.assert_allclose(sorted(point[:, 0]), ends, atol=1e-9)
        np.testing.assert_allclose(normal, [[0, 0, 1]] * 2, atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ends_of_an_axis_in_a_box_are_pushed_out_of_one_face(dtype):
    """... the one for which the deeper end of the part inside is the least deep; so is what pierces the whole box."""
    a, b = placed(("capsule", "box"), seed=6)
    a, b = (Placed(*(np.asarray(x, dtype) for x in shape)) for shape in (a, b))
    gap, point, normal = (x.astype(float) for x in found(("capsule", "box"), a, b))
    p, u = (np.einsum("jil,jl->il", b.R, x) for x in (a.p - b.p, a.R[:, 2]))
    crossed = np.sort([(side * b.size - p) / u for side in (-1, 1)], axis=0)
    part = np.clip([crossed[0].max(0), crossed[1].min(0)], -a.size[1], a.size[1])
    deep = part[1] - part[0] > 1e-3
    ends = p + part[:, None] * u
    depths = np.stack([b.size - side * ends for side in (-1, 1)]).max(1).reshape(6, -1)  # of faces, at the deeper end
    assert deep.sum() > 30
    np.testing.assert_allclose(normal[0][:, deep], normal[1][:, deep], atol=1e-6)
    assert (abs(np.einsum("jil,jl->il", b.R, normal[0])).max(0)[deep] > 1 - 1e-6).all()
    np.testing.assert_allclose(gap.min(0)[deep], -(a.size[0] + depths.min(0))[deep], atol=3e-6)
    # midway between the end, lowered by the radius, and the face
    middles = np.einsum("ijl,kjl->kil", b.R, ends[::-1]) + b.p - 0.5 * (gap + 2 * a.size[0])[:, None] * normal
    np.testing.assert_allclose(point[..., deep], middles[..., deep], atol=3e-6 if dtype == np.float32 else 1e-12)


def test_an_axis_that_pierces_a_plate_leaves_on_the_side_of_its_middle():
    for height in (0.1, 1e-4, -1e-4, -0.1):
        for tilt in (0, 0.3):
            gap, _, normal = found(
                ("capsule", "box"), at([0.02, 0.2, 0], [0, 0, height], turn(0, tilt)), at([0.5, 0.5, 0.025])
            )
            np.testing.assert_allclose(normal, [[0, 0, np.sign(height)]] * 2, atol=1e-12)
            np.testing.assert_allclose(sorted(gap), [-0.07, -0.02], atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("noise", [0, 1e-7, 1e-5])
def test_stacked_boxes_touch_at_the_corners_of_what_they_have_in_common(dtype, noise):
    rng = np.random.default_rng(3)

    def corners(upper, lower, p, R=None, sign=1):
        R = (np.eye(3) if R is None else R) @ turn(0, noise * rng.normal()) @ turn(1, noise * rng.normal())
        p = np.asarray(p) + noise * rng.normal(size=3)
        shapes = [Placed(*(np.asarray(x, dtype) for x in shape)) for shape in (at(upper, p, R), at(lower))]
        gap, point, normal = found(("box", "box"), *shapes[::sign])
        np.testing.assert_allclose(gap, 0, atol=10 * noise + 1e-6)
        np.testing.assert_allclose(normal, [[0, 0, sign]] * 4, atol=10 * noise + 1e-6)
        return sorted(map(tuple, np.round(point[:, :2], 3) + 0.0))

    square = lambda x0, x1, y0, y1: [(x0, y0), (x0, y1), (x1, y0), (x1, y1)]  # noqa: E731
    same = [0.1, 0.1, 0.1]
    for sign in (1, -1):
        assert corners(same, same, [0, 0, 0.2], sign=sign) == square(-0.1, 0.1, -0.1, 0.1)
        assert corners(same, same, [0.05, 0.02, 0.2], sign=sign) == square(-0.05, 0.1, -0.08, 0.1)
        assert corners([0.3, 0.2, 0.1], same, [0.1, 0, 0.2], sign=sign) == square(-0.1, 0.1, -0.1, 0.1)
        assert corners([0.05, 0.02, 0.1], same, [0.07, 0, 0.2], sign=sign) == square(0.02, 0.1, -0.02, 0.02)
        # beams that cross, and a square that stands on its corner seen from above
        assert corners([1, 0.1, 0.1], [0.1, 1, 0.1], [0, 0, 0.2], sign=sign) == square(-0.1, 0.1, -0.1, 0.1)
        turned = corners(same, [0.5, 0.5, 0.1], [0, 0, 0.2], turn(2, np.pi / 4), sign=sign)
        np.testing.assert_allclose(turned, [(-0.141, 0), (0, -0.141), (0, 0.141), (0.141, 0)], atol=1e-3)
        # eight corners: the four stand around the center
        angles = np.sort([np.arctan2(y, x) for x, y in corners(same, same, [0, 0, 0.2], turn(2, 0.7), sign=sign)])
        assert np.diff([*angles, angles[0] + 2 * np.pi]).max() < 2.4


def test_edges_that_cross_touch_at_one_point():
    up, down = turn(0, np.pi / 4), turn(1, np.pi / 4)
    r = 0.1 * np.sqrt(2)
    gap, point, normal = found(
        ("box", "box"), at([0.5, 0.1, 0.1], [0.1, 0, 2 * r - 1e-3], up), at([0.1, 0.5, 0.1], R=down)
    )
    np.testing.assert_allclose(gap[0], -1e-3, atol=1e-12)
    np.testing.assert_allclose(point[0], [0, 0, r - 5e-4], atol=1e-12)
    np.testing.assert_allclose(normal[0], [0, 0, 1], atol=1e-12)
    assert (gap[1:] > 0.5).all()


@pytest.mark.parametrize("kind", GROUND)
def test_a_sloping_height_field_is_a_plane(kind):
    a, b = placed((kind, "plane"), 100)
    x, y = np.meshgrid(np.linspace(-9, 9, 9), np.linspace(-8, 8, 7))
    field = b._replace(size=((0.3 * x + 0.2 * y)[..., None], np.array([[9.0], [8.0]])))
    normal = np.array([-0.3, -0.2, 1]) / np.sqrt(1.13)
    R = np.linalg.qr(np.c_[normal, [1, 0, 0], [0, 1, 0]])[0]
    R = np.c_[R[:, 1], R[:, 2], normal]
    plane = b._replace(R=np.einsum("ijl,jk->ikl", b.R, R))
    for ours, true in zip(found((kind, "heights"), a, field), found((kind, "plane"), a, plane), strict=True):
        np.testing.assert_allclose(ours, true, atol=1e-13)


def test_height_fields_between_their_nodes():
    grid, half = np.array([[0.0, 1.0, 0.0], [2.0, 4.0, 2.0]]), np.array([2.0, 3.0])
    field = Placed(np.eye(3), np.zeros(3), (grid, half))
    below = lambda x, y: 10 - float(_vertical(at([0, 0, 0], [x, y, 10.0]), field))  # noqa: E731
    for x, y, z in ((0, -3, 1), (-2, 3, 2), (2, 3, 2), (0, 3, 4), (0, 0, 2.5), (1, 0, 1.75), (-2, -3, 0)):
        np.testing.assert_allclose(below(x, y), z, atol=1e-12)


def test_a_level_height_field_is_a_box_without_bottom():
    """Beside it there is nothing: the gap of a point below its rim is the largest of those of the top and the four
    sides. Higher up there is only the top, and beside it more than the distance."""
    rng = np.random.default_rng(9)
    b = placed(("sphere", "heights"), seed=9)[1]
    top, half = 0.3, np.array([1.0, 1.2])
    level = b._replace(size=(np.full((4, 5, COUNT), top), b.size[1]))
    local = rng.uniform(-3, 3, (3, COUNT))
    local[2, :50] = top + rng.uniform(-0.009, 0.1, 50)
    point = Placed(b.R, b.p + np.einsum("ijl,jl->il", b.R, local), np.zeros((3, COUNT)))
    beyond = np.stack([abs(local[0]) - half[0], abs(local[1]) - half[1], local[2] - top])
    low, aside = beyond[2] < -0.01, beyond[:2].max(0)
    which = np.where(low, beyond.argmax(0), 2)
    assert np.bincount(which).min() > COUNT / 10
    gap, at_, normal = found(("sphere", "heights"), point, level)
    over = np.where(aside > 0, np.maximum(beyond[2], 0) + aside, beyond[2])
    np.testing.assert_allclose(gap[0], np.where(low, beyond.max(0), over), atol=1e-13)
    sides = np.where(which == 2, 1, np.sign(np.take_along_axis(local, which[None], 0)[0]))
    wanted = np.take_along_axis(b.R, which[None, None], 1)[:, 0] * sides
    np.testing.assert_allclose(normal[0], wanted, atol=1e-13)
    np.testing.assert_allclose(at_[0], point.p - 0.5 * gap[0] * wanted, atol=1e-13)


def test_a_small_box_on_a_wide_one_is_as_exact():
    """In single precision, with a slab of a hundred metres: gaps are right to a fortieth of the small box."""
    rng = np.random.default_rng(0)
    turns = scipy.spatial.transform.Rotation.random(200, rng=0).as_matrix().transpose(1, 2, 0)
    places = np.array([[50.01], [0.0], [0.1]]) + rng.uniform(-0.02, 0.02, (3, 200))
    cubes = Placed(turns, places, np.full((3, 200), 0.02))
    slab = at([50, 50, 0.1])
    slab = slab._replace(R=np.repeat(np.eye(3)[..., None], 200, 2), p=np.zeros((3, 200)), size=np.full((3, 200), 50.0))
    slab.size[2] = 0.1
    both = [jax.tree.map(lambda x, t=t: np.asarray(x, t), (cubes, slab)) for t in (np.float32, np.float64)]
    single, double = (np.asarray(found(("box", "box"), *x)[0], float).min(0) for x in both)
    assert np.abs(single - double).max() < 1e-3  # a slab of 100 m has places to 4e-6 m


def _vertical(a, field):
    """How far the center is above the surface."""
    gap, _, normal = found(("sphere", "heights"), a, field)
    return gap[0] / normal[0, 2]


def test_points_on_a_rough_height_field_have_no_gap():
    """... and their rates there are relative velocities, also where the surface is bent."""
    a, b = placed(("box", "heights"), seed=7)
    local = np.einsum("jil,jl->il", b.R, a.p - b.p)
    inside = np.flatnonzero((abs(local[:2]) < [[0.9], [1.1]]).all(0))
    assert len(inside) > 0.7 * COUNT
    a, b = jax.tree.map(lambda x: x[..., np.resize(inside, COUNT)], (a, b))
    a = a._replace(size=np.zeros((3, COUNT)))
    # above the surface, where no side is nearer to the outside
    a = a._replace(p=a.p + 3 * b.R[:, 2])
    gap, point, _ = found(("box", "heights"), a, b)
    up = b.R[:, 2]
    normal = found(("box", "heights"), a, b)[2][0]
    on = a._replace(p=a.p - up * gap[0] / (up * normal).sum(0))
    np.testing.assert_allclose(found(("box", "heights"), on, b)[0], 0, atol=1e-13)
    pair = "box", "heights"
    rates, relative = moving(on, b)
    here, rate, _ = derivatives(pair)(on, b, rates, random_weights(pair))
    for touch, moved in zip(here, rate, strict=True):
        np.testing.assert_allclose(moved.gap, (touch.normal * relative(np.asarray(touch.point))).sum(0), atol=1e-11)


@pytest.mark.parametrize("pair", [("box", "box"), ("capsule", "box"), ("cylinder", "plane"), ("capsule", "capsule")])
def test_the_least_gap_is_continuous(pair):
    """Along random motions in small steps it changes by no more than points move."""
    rng = np.random.default_rng(8)
    a, b = placed(pair, seed=8)
    step = 1e-5
    w, v = rng.normal(size=(2, 3, COUNT)) * step
    turned = a.R + np.stack([np.cross(w, a.R[:, j], axis=0) for j in range(3)], 1)
    before = found(pair, a, b)[0].min(0)
    after = found(pair, a._replace(R=turned, p=a.p + v), b)[0].min(0)
    reach = np.linalg.norm(v, axis=0) + np.linalg.norm(w, axis=0) * np.linalg.norm(a.size, axis=0) * 1.5
    assert (abs(after - before) <= reach + 1e-7).all()


def test_either_order_of_a_pair_is_the_same():
    a, b = placed(("sphere", "box"), 10)
    one, other = found(("sphere", "box"), a, b), found(("box", "sphere"), b, a)
    for x, y, sign in zip(one, other, (1, 1, -1), strict=True):
        np.testing.assert_array_equal(x, sign * y)


def test_what_cannot_collide_says_so():
    assert [slots("cylinder", "box"), slots("plane", "plane"), slots("plane", "mesh"), slots("heights", "capsule")] == [
        *(0, 0, 4, 2)
    ]
    assert all(slots(k, g) > 0 for k in GROUND for g in ("plane", "heights"))
    with pytest.raises(ValueError, match="`touches`: 'cylinder' and 'box' cannot collide"):
        touches("cylinder", "box", at([1, 1, 1]), at([1, 1, 1]))
    with pytest.raises(ValueError, match="`slots`: 'cone' is no kind of shape; use one of sphere"):
        slots("cone", "box")
    for pair, (count, _) in PAIRS.items():
        assert len(jax.eval_shape(lambda a, b: touches(*pair, a, b), *placed(pair, 2))) == count  # noqa: B023
