"""Shapes that collide: as data of models, and as files tell of them."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdyn as jd
from jaxdyn.model.hulls import MOST
from jaxdyn.tree.topology import WORLD

LUMP = jd.Inertia(1.0, (0, 0, 0), np.eye(3))
CUBE = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], float)
FACES = [(0, 1, 3), (0, 3, 2), (4, 6, 7), (4, 7, 5), (0, 4, 5), (0, 5, 1), (2, 3, 7), (2, 7, 6), (0, 2, 6), (0, 6, 4)]


def chain(n: int = 3) -> jd.ModelSpec:
    """A floating base `b0` with a chain of bodies, each with a ball of its name, and a free block beside it."""
    spec = jd.ModelSpec("chain")
    for k in range(n):
        joint = jd.joints.Revolute(axis=(0, 1, 0)) if k else jd.joints.Free()
        spec.add_body(f"b{k}", f"b{k - 1}" if k else "world", joint, inertia=LUMP)
        spec.add_shape(f"b{k}", jd.shapes.Sphere(0.1))
    spec.add_body("block", "world", jd.joints.Free(), inertia=LUMP)
    spec.add_shape("block", jd.shapes.Box((1, 2, 3)))
    return spec


def pairs(model) -> set:
    names = model.collision.names
    return {tuple(names[k] for k in pair) for pair in model.collision.pairs}


def test_numbers_are_those_of_the_engine():
    s = jd.shapes
    grid = np.arange(6.0).reshape(2, 3)
    spec = jd.ModelSpec()
    shapes = s.Sphere(2), s.Capsule(1, 4), s.Cylinder(1, 4), s.Box((2, 4, 6)), s.Ellipsoid((1, 2, 3)), s.Plane()
    for k, shape in enumerate((*shapes, s.Mesh(CUBE), s.HeightField(grid, (2, 4)))):
        spec.add_shape("world", shape, name=f"s{k}", placement=jd.Transform(np.eye(3), (0, 0, k)))
    with pytest.warns(jd.ModelWarning, match="no joint moves"):
        found = spec.build().collision
    assert [x.kind for x in found.shapes] == "sphere capsule cylinder box ellipsoid plane mesh heights".split()
    sizes = [[2, 0, 0], [1, 2, 0], [1, 2, 0], [1, 2, 3], [1, 2, 3], [0, 0, 0], [0, 0, 0], [1, 2, 0]]
    np.testing.assert_allclose(found.size, sizes)
    np.testing.assert_allclose(found.placement.translation[:, 2], range(8))
    assert [x.data for x in found.shapes] == [-1] * 6 + [0, 0]
    assert sorted(map(tuple, np.asarray(found.vertices[0]))) == sorted(map(tuple, CUBE))
    np.testing.assert_allclose(found.grids[0], grid)
    assert found.pairs == ()


def test_a_model_without_shapes_has_no_array_more():
    spec = jd.ModelSpec()
    spec.add_body("a", "world", jd.joints.Free(), inertia=LUMP)
    bare = spec.build()
    assert not jax.tree.leaves(bare.collision) and not bare.collision.pairs
    with pytest.raises(ValueError, match="no shapes"):
        bare.collision.of_pairs()


def test_which_pairs_collide():
    """Bodies of separate trees and the world always, those of one tree if asked for, neighbours never."""
    spec = chain()
    spec.add_ground()
    ground = {(n, "ground") for n in ("b0", "b1", "b2", "block")}
    apart = {(f"b{k}", "block") for k in range(3)}
    model = spec.build()
    assert pairs(model) == ground | apart and model.collision.scene.off == 1
    spec.self_collisions = True
    model = spec.build()
    assert pairs(model) == ground | apart | {("b0", "b2")} and model.collision.scene.off == 0
    spec.exclude("block", "b1").exclude("b0", "b2").add_pair("b0", "b1", friction=0.3)
    model = spec.build()
    assert pairs(model) == ground | apart - {("b1", "block")} | {("b0", "b1")}
    friction = dict(zip(model.collision.pairs, model.collision.of_pairs().friction.tolist(), strict=True))
    assert friction.pop((0, 1)) == pytest.approx(0.3) and set(friction.values()) == {1.0}


def test_too_many_pairs_are_told(monkeypatch):
    monkeypatch.setattr("jaxdyn.model.pairing.MOST", 3)
    spec = chain()
    assert len(spec.build().collision.pairs) == 3
    spec.add_ground()
    spec.add_pair("b0", "ground")
    with pytest.warns(jd.ModelWarning, match="6 pairs of shapes could collide.*`Model.with_pairs`"):
        assert pairs(spec.build()) == {("b0", "ground")}


def test_masks_decide():
    spec = chain(1)
    for k, (a, b) in enumerate([(0, 0), (2, 0), (0, 2), (1, 0), (0, 1)]):
        spec.add_shape("world", jd.shapes.Sphere(1), name=f"w{k}", collides=a, collides_with=b)
    assert {n for _, n in pairs(spec.build())} - {"block"} == {"w3", "w4"}


def test_joints_that_are_constraints_and_massless_bodies_make_neighbours():
    spec = chain(2)
    spec.add_body("between", "b1", jd.joints.Revolute(axis=(1, 0, 0)))
    spec.add_body("last", "between", jd.joints.Revolute(axis=(0, 1, 0)), inertia=LUMP)
    spec.add_shape("last", jd.shapes.Sphere(0.1))
    spec.self_collisions = True
    assert ("b1", "last") not in pairs(spec.build())
    assert {("b0", "block"), ("b0", "last")} <= pairs(spec.build())
    spec.add_constraint(jd.constraints.Hinge("b0", "block"))
    assert ("b0", "block") not in pairs(spec.build())


def test_shapes_follow_bodies_on_fixed_joints_and_frames():
    spec = chain(2)
    turn = jd.Transform.from_quaternion((1, 0, 0, 1), (0, 0, 1))
    spec.add_body("foot", "b1", jd.joints.Fixed(), placement=turn, inertia=LUMP)
    spec.add_frame("toe", "foot", jd.Transform(np.eye(3), (1, 0, 0)))
    spec.add_shape("toe", jd.shapes.Sphere(0.1), placement=jd.Transform(np.eye(3), (0.5, 0, 0)))
    model = spec.build()
    (k,) = [k for k, s in enumerate(model.collision.shapes) if s.name == "toe"]
    assert model.collision.shapes[k].body == model.body_names.index("b1")
    here = jd.frame_pose(model, model.neutral(), "toe").apply((0.5, 0, 0))
    body = jd.frame_pose(model, model.neutral(), "b1")
    np.testing.assert_allclose(body.apply(model.collision.placement.translation[k]), here, atol=1e-6)


def test_values_of_pairs():
    """The larger friction, unless one has the priority; compliances in series; and their derivatives."""
    spec = jd.ModelSpec()
    spec.add_body("a", "world", jd.joints.Free(), inertia=LUMP)
    options = {"friction": 0.4, "torsion": 0.1, "stiffness": 300.0, "damping": 6.0, "restitution": 0.1}
    spec.add_shape("a", jd.shapes.Sphere(1), **options)
    spec.add_shape("world", jd.shapes.Sphere(1), name="w0", friction=0.9, restitution=0.5)
    spec.add_shape("world", jd.shapes.Sphere(1), name="w1", friction=0.2, stiffness=600.0, damping=3.0)
    spec.add_shape("world", jd.shapes.Sphere(1), name="w2", friction=0.2, priority=1, stiffness=100.0)
    model = spec.build()
    found = model.collision.of_pairs()
    expected = {
        "friction": [0.9, 0.4, 0.2],
        "torsion": [0.1, 0.1, 0.0],
        "restitution": [0.5, 0.1, 0.1],
        "stiffness": [300, 200, 75],
        "damping": [6, 2, 0],
    }
    for name, values in expected.items():
        np.testing.assert_allclose(getattr(found, name), values, rtol=1e-6, err_msg=name)

    def total(x):
        return model.replace({"collision.stiffness": x}).collision.of_pairs().stiffness.sum()

    slope = jax.grad(total)(model.collision.stiffness)
    assert jnp.isfinite(slope).all() and slope[0] == pytest.approx(1 + (2 / 3) ** 2 + (1 / 4) ** 2, rel=1e-5)


def test_friction_that_is_not_given_is_that_of_the_other_shape():
    """Or one; after all have been replaced, that of a pair is the larger one."""
    spec = jd.ModelSpec("sleds").add_ground(friction=0.2)
    for name, friction in (("given", 0.1), ("first", None), ("second", None)):
        spec.add_body(name, "world", jd.joints.Free(), inertia=jd.Inertia(1.0, (0, 0, 0), np.eye(3)))
        spec.add_shape(name, jd.shapes.Sphere(0.1), friction=friction)
    model = spec.build()
    names = model.collision.names
    friction_of = lambda m: {  # noqa: E731
        frozenset((names[i], names[j])): float(x)
        for (i, j), x in zip(m.collision.pairs, m.collision.of_pairs().friction, strict=True)
    }
    found = friction_of(model)
    wanted = {("first", "ground"): 0.2, ("second", "ground"): 0.2, ("given", "ground"): 0.2}
    wanted |= {("given", "first"): 0.1, ("given", "second"): 0.1, ("first", "second"): 1.0}
    assert found == pytest.approx({frozenset(k): x for k, x in wanted.items()}, rel=1e-6)
    for less in (np.full(4, 0.05), jnp.full(4, 0.05)):
        changed = model.replace({"collision.friction": less})
        assert list(friction_of(changed).values()) == pytest.approx([0.05] * 6, rel=1e-6)
    batch = jax.vmap(lambda x: model.replace({"collision.friction": x}).collision.of_pairs().friction)(np.eye(4))
    assert batch.max(1).tolist() == [1, 1, 1, 1]
    text = '<robot name="r"><link name="l"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" '
    text += 'iyz="0"/></inertial><collision><geometry><sphere radius="0.1"/></geometry></collision></link></robot>'
    for ground, wanted in ((True, 1.0), (0.3, 0.3)):
        loaded = jd.load(text, floating=True, ground=ground).collision.of_pairs().friction
        np.testing.assert_allclose(loaded, [wanted], rtol=1e-6)


def test_models_are_mapped_cast_and_replaced():
    model = chain().build()
    models = jax.vmap(lambda f: model.replace({"collision.friction": f}))(jnp.ones((2, 4)) * jnp.array([[0.5], [2.0]]))
    found = jax.vmap(lambda m: m.collision.of_pairs().friction)(models)
    np.testing.assert_allclose(found, [[0.5] * 3, [2.0] * 3])
    half = jax.tree.map(lambda x: x.astype("float16"), model)
    assert half.collision.size.dtype == half.collision.of_pairs().stiffness.dtype == jnp.float16
    with pytest.raises(ValueError, match=r"`collision.restitution` is above 1"):
        model.replace({"collision.restitution": np.full(4, 1.5)})
    with pytest.raises(ValueError, match=r"`collision.size` is negative"):
        model.replace({"collision.size": -np.ones((4, 3))})


def test_pairs_by_name():
    spec = chain()
    spec.add_ground()
    model = spec.build().with_pairs([("ground", "b2"), ("b0", "b1")])
    assert model.collision.pairs == ((2, 4), (0, 1))
    assert model.collision.shapes[4].body == WORLD
    for wrong, words in {
        (("b0", "blok"),): "no shape 'blok'.*Did you mean 'block'",
        (("b0", "b0"),): "do not move against each other",
        (("b0", "b1"), ("b1", "b0")): "is there twice",
    }.items():
        with pytest.raises(ValueError, match=words):
            model.with_pairs(wrong)
    for wrong in ("b0", [("b0",)], [3]):
        with pytest.raises(TypeError, match="`Model.with_pairs`: `pairs`"):
            model.with_pairs(wrong)


def test_embedding_keeps_shapes():
    spec = jd.load_spec("four_bar", ground=True)
    spec.add_shape("coupler", jd.shapes.Sphere(0.1))
    model = spec.build()
    closed = jd.embed(model)
    assert closed.collision.scene == model.collision.scene and pairs(closed) == {("coupler", "ground")}


def test_info_lists_shapes_and_pairs():
    from jaxdyn.commands.info import describe

    spec = chain()
    spec.add_shape("block", jd.shapes.Ellipsoid((1, 2, 3)), name="egg")
    spec.add_ground(0.6)
    spec.left_out.append("helmet")
    words = " ".join(describe(spec.build()).split())
    for told in (
        "b0 sphere b0 1",
        "ground plane world 0.6",
        "block, ground 0.6 4",
        "pairs whose kinds cannot collide: b0, egg; b1, egg; b2, egg",
        "contact points in all: 11; `jd.contact.Auto()` has slots for 11 at a time, 33 rows",
        "pairs left out: 1",
        'shapes not read (`load(collision="all")`): helmet',
    ):
        assert told in words, told


WRONG = {
    "radius": (lambda: jd.shapes.Sphere(0.0), "`Sphere`: `radius` is not positive"),
    "a number that is none": (lambda: jd.shapes.Capsule(float("nan"), 1), "`Capsule`: `radius` is not finite"),
    "endless": (lambda: jd.shapes.Box((1, 1, np.inf)), "`Box`: `size` is not finite"),
    "too large": (lambda: jd.shapes.Box((1, 1, 1e300)), "beyond the range of float32"),
    "one length": (lambda: jd.shapes.Box(1.0), r"`Box`: `size` has shape \(\), not \(3,\)"),
    "vertices": (lambda: jd.shapes.Mesh(np.zeros((3, 2))), r"`vertices` has shape \(3, 2\)"),
    "faces": (lambda: jd.shapes.Mesh(CUBE, [(0, 1, 8)]), "`faces` names vertices from 0 to 8 of 8"),
    "a line of heights": (lambda: jd.shapes.HeightField(np.zeros((1, 3)), (1, 1)), "two or more each"),
    "friction": (lambda: chain().add_shape("b0", jd.shapes.Sphere(1), friction=-1), "`friction` is negative"),
    "restitution": (lambda: chain().add_shape("b0", jd.shapes.Sphere(1), restitution=2), "above 1"),
    "damping alone": (lambda: chain().add_shape("b0", jd.shapes.Sphere(1), damping=2), "give `stiffness` too"),
    "stiffness": (lambda: chain().add_shape("b0", jd.shapes.Sphere(1), stiffness=0), "`stiffness` is not positive"),
    "a mask": (lambda: chain().add_shape("b0", jd.shapes.Sphere(1), collides=-1), "not a bit mask"),
    "a body": (lambda: chain().add_shape("b9", jd.shapes.Sphere(1)), "no body or frame 'b9'"),
    "a name": (lambda: chain().add_shape("b0", jd.shapes.Sphere(1), name="b1"), "already taken by a shape"),
    "a moving plane": (lambda: chain().add_shape("b0", jd.shapes.Plane()).build(), "stands on the world"),
    "a pair": (lambda: chain().add_pair("b0", "bb"), "no shape 'bb'"),
    "one body": (lambda: chain().add_pair("b0", "b0"), "does not move against itself"),
    "two of one body": (
        lambda: chain().add_shape("b0", jd.shapes.Sphere(1)).add_pair("b0", "b0_1").build(),
        "do not move against each other",
    ),
    "an exclude": (lambda: chain().exclude("b0", "bb"), "no body or frame 'bb'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_shapes_are_refused(case):
    call, words = WRONG[case]
    with pytest.raises(ValueError, match=words):
        call()


def test_hulls():
    """Inner points go, flat and straight meshes stay what they are, many vertices become fewer, and are told."""
    rng = np.random.default_rng(0)
    inner = np.concatenate([CUBE, rng.uniform(0.1, 0.9, (50, 3))])
    assert sorted(map(tuple, jd.shapes.Mesh(inner).vertices)) == sorted(map(tuple, CUBE))
    flat = np.concatenate([CUBE[:, :2], rng.uniform(0.1, 0.9, (50, 2))]) @ rng.standard_normal((2, 3))
    assert len(jd.shapes.Mesh(flat).vertices) == 4
    assert len(jd.shapes.Mesh(np.outer(np.arange(5.0), (1, 2, 3))).vertices) == 2
    assert len(jd.shapes.Mesh(np.ones((5, 3))).vertices) == 1
    ball = rng.standard_normal((2000, 3))
    ball /= np.linalg.norm(ball, axis=1)[:, None]
    mesh = jd.shapes.Mesh(ball)
    assert len(mesh.vertices) == MOST
    directions = rng.standard_normal((500, 3))
    lost = (ball @ directions.T).max(0) - (mesh.vertices @ directions.T).max(0)
    assert 0 <= (lost / np.linalg.norm(directions, axis=1)).max() < 0.1
    with pytest.warns(jd.ModelWarning, match=r"64 of its hull's 2000 vertices are kept.* 0.\d+ m"):
        chain().add_shape("b0", mesh)


def test_a_mesh_that_is_not_convex_is_told():
    notch = CUBE.copy()
    notch[7] = 0.4
    with pytest.warns(jd.ModelWarning, match="not convex, its hull is up to 0.4 m away"):
        chain().add_shape("b0", jd.shapes.Mesh(notch, FACES))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chain().add_shape("b0", jd.shapes.Mesh(CUBE, FACES))


def test_kinds_that_cannot_collide_are_told():
    """A cylinder falls through a box: a step says so, and who asks for the pair by name."""
    spec = jd.ModelSpec("cup on a tray")
    for name, shape in (("tray", jd.shapes.Box((1.0, 1.0, 0.1))), ("cup", jd.shapes.Cylinder(0.04, 0.06))):
        spec.add_body(name, "world", jd.joints.Free(), inertia=jd.Inertia.box(1.0, (1, 1, 1)))
        spec.add_shape(name, shape)
    model = spec.add_ground().build()
    state, law, told = jd.State(model.neutral(), jnp.zeros(12)), jd.contact.PGS(), r": 'tray' \(box\) and 'cup' \(cyl"
    with pytest.warns(jd.ModelWarning, match="`step`.*" + told):
        jax.eval_shape(lambda s: jd.step(model, s, jnp.zeros(12), 1e-3, contacts=law), state)
    with pytest.warns(jd.ModelWarning, match="with_pairs.*" + told):
        model.with_pairs([("cup", "tray")])
    with pytest.warns(jd.ModelWarning, match="build.*" + told):
        spec.add_pair("cup", "tray").build()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        apart = model.with_pairs([("cup", "ground"), ("tray", "ground")])
        jax.eval_shape(lambda s: jd.step(apart, s, jnp.zeros(12), 1e-3, contacts=law), state)
