"""Robots on height fields: what a step reads, what it costs, and derivatives with respect to the heights."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from contact_scenes import at
from scalar_help import needs_kernels

import jaxdyn as jd
from jaxdyn.engine import facts, kernels
from jaxdyn.engine.lanes import known_of


def scene(fields=1, count=(13, 17), shapes=("box", "sphere", "mesh")) -> jd.Model:
    """Bodies of different shapes over height fields side by side, with upright sides where they meet, and over a plane
    below."""
    rng = np.random.default_rng(1)
    spec = jd.ModelSpec("scene")
    made = {
        "box": lambda: jd.shapes.Box((0.3, 0.2, 0.1)),
        "sphere": lambda: jd.shapes.Sphere(0.1),
        "mesh": lambda: jd.shapes.Mesh(0.1 * np.stack(np.meshgrid(*[[-1, 1]] * 3), -1).reshape(-1, 3)),
    }
    for name in shapes:
        spec.add_body(name, "world", jd.joints.Free(), inertia=jd.Inertia.box(1.0, (0.3, 0.2, 0.1)))
        spec.add_shape(name, made[name](), name=name)
    for k in range(fields):
        heights = rng.uniform(0, 0.1, (count[0] + k, count[1] - k)) + 0.1 * k
        field = jd.shapes.HeightField(heights, (2.0, 3.0))
        spec.add_shape("world", field, name=f"field{k}", placement=at(2.0 * k, z=-0.05 * k))
    spec.add_ground(height=-0.5)
    names = [f"field{k}" for k in range(fields)] + ["ground"]
    return spec.build().with_pairs([(name, field) for name in shapes for field in names])


def on(model, heights) -> jd.Model:
    """The model on other heights."""
    return eqx.tree_at(lambda m: m.collision.grids, model, (heights,))


def places(model, count=64):
    rng = np.random.default_rng(2)
    q = np.array(jax.vmap(lambda k: model.random_state(k).q)(jax.random.split(jax.random.key(0), count)))
    for k in range(len(model.body_names)):
        q[:, 7 * k : 7 * k + 3] = rng.uniform((-1.5, -2, -0.1), (3.5, 2, 0.4), (count, 3))
    return q


@functools.cache
def detected(compiler, fields):
    model = scene(fields).with_compiler(compiler)
    return jax.jit(jax.vmap(lambda q: jd.contact.detect(model, q)))(places(model))


@needs_kernels
def test_kernels_and_xla_agree():
    one, other = detected("kernel", 2), detected("xla", 2)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, atol=1e-13), one, other)


def test_each_field_is_alone():
    """Places over one of two fields are those over it alone."""
    both, single = detected("auto", 2), detected("auto", 1)
    own = [k for k, (_, field) in enumerate(both.pairs) if field != "field1"]
    np.testing.assert_allclose(both.gaps[:, own], single.gaps, atol=1e-14)


@needs_kernels
@pytest.mark.parametrize("steps", ["straight", "called"])
def test_the_number_of_nodes_costs_nothing(steps, monkeypatch):
    monkeypatch.setenv("JAXDYN_STEPS", steps)
    found = []
    for count in ((13, 17), (400, 500)):
        model = scene(count=count).with_compiler("kernel")
        with kernels.watching() as seen:
            jax.jit(jax.vmap(lambda q, m=model: jd.contact.detect(m, q).gaps)).lower(places(model))
        (own,) = seen
        found.append(facts.facts(*own))
    assert found[0].operations == found[1].operations < 3000


def test_a_batch_of_fields():
    """Each lane on ground of its own."""
    model, q = scene(), places(scene(), 5)
    grids = np.random.default_rng(3).uniform(0, 0.1, (5, 13, 17))
    gaps = lambda grid, q: jd.contact.detect(on(model, grid), q).gaps  # noqa: E731
    found = jax.jit(jax.vmap(gaps))(grids, q)
    alone = jax.jit(gaps)
    for k in range(5):
        np.testing.assert_allclose(found[k], alone(grids[k], q[k]), atol=1e-14)


@functools.cache
def fallen(steps):
    """Where a box is that has fallen on rough ground, by its heights."""
    model = scene(shapes=("box",), count=(5, 6))
    start = jd.State(model.neutral().at[2].set(0.2), jnp.zeros(6))

    def end(heights):
        tau = jnp.zeros((steps, 6))
        found = jd.simulate(on(model, heights), start, tau, 5e-3, steps=steps, contacts=jd.contact.Newton())
        return jnp.stack([found.q[-1, 2], found.v[-1, 4]])

    return model.collision.grids[0], end


def test_derivatives_with_respect_to_heights():
    heights, end = fallen(40)
    forward, backward = (jax.jit(f(end))(heights) for f in (jax.jacfwd, jax.jacrev))
    np.testing.assert_allclose(forward, backward, atol=1e-9)
    touched = np.argwhere(abs(forward[0]) > 1e-3)
    assert 2 <= len(touched) <= 9
    fast, step = jax.jit(end), 1e-6
    for row, column in touched:
        moved = [fast(heights.at[row, column].add(s)) for s in (step, -step)]
        slope = (moved[0] - moved[1]) / (2 * step)
        np.testing.assert_allclose(forward[:, row, column], slope, rtol=0, atol=1e-6)


@pytest.mark.parametrize("fields", [1, 2])
def test_a_box_slides_over_the_edge_of_a_field(fields):
    """... onto a plane or the next field at the same height, and nothing but friction brakes it."""
    spec = jd.ModelSpec("slide")
    spec.add_body("box", "world", jd.joints.Free(), inertia=jd.Inertia.box(1.0, (0.3, 0.2, 0.1)))
    spec.add_shape("box", jd.shapes.Box((0.3, 0.2, 0.1)), friction=0.1)
    spec.add_shape("world", jd.shapes.HeightField(np.full((3, 4), 0.5), (2, 2)), name="first", friction=0.1)
    other = jd.shapes.HeightField(np.full((5, 3), 0.5), (2, 2)) if fields == 2 else jd.shapes.Plane()
    placement = at(x=2.0) if fields == 2 else at(z=0.5)
    spec.add_shape("world", other, name="second", placement=placement, friction=0.1)
    model = spec.build().with_pairs([("box", "first"), ("box", "second")])
    q, steps = model.neutral().at[0].set(-0.5).at[2].set(0.55), 400
    start = jd.State(q, jnp.zeros(6).at[0].set(3.0))
    moved = jd.simulate(model, start, jnp.zeros((steps, 6)), 2e-3, steps=steps, contacts=jd.contact.PGS())
    braked = 3.0 - 0.1 * 9.81 * 2e-3 * np.arange(steps + 1)
    assert moved.q[-1, 0] > 1.3
    np.testing.assert_allclose(moved.v[:, 0], braked, atol=1e-6)
    np.testing.assert_allclose(moved.q[:, 2], 0.55, atol=1e-6)


@needs_kernels
@pytest.mark.parametrize("flat", ["no node", "a node", "all"])
def test_forward_derivatives_stay_in_kernels(flat):
    """Whatever is known of the numbers of a field, and however many there are."""
    model = scene(shapes=("box",), count=(50, 60))
    grid = model.collision.grids[0]
    grid = {"no node": grid, "a node": grid.at[3, 3].set(0), "all": 0 * grid}[flat]
    model = on(model, grid).with_compiler("kernel")
    end = lambda v: jd.step(model, jd.State(model.neutral(), v), jnp.zeros(6), 1e-3, contacts=jd.contact.PGS()).v  # noqa: E731
    with kernels.watching() as seen:
        jax.jit(lambda v: jax.jvp(end, (v,), (v,))).lower(jnp.ones(6))
    assert len(seen) > 1 and all(facts.facts(*one).path == "kernel" for one in seen)


def test_other_heights_are_no_other_program():
    """Also where other nodes are zero."""
    model = scene()
    flat = on(model, 0 * model.collision.grids[0])
    assert known_of((model,)) == known_of((flat,))


def test_a_ball_beside_a_field_falls():
    """... past it, and one on the field stays there."""
    spec = jd.ModelSpec("balls")
    for name in ("on", "beside"):
        spec.add_body(name, "world", jd.joints.Free(), inertia=jd.Inertia.sphere(1.0, 0.1))
        spec.add_shape(name, jd.shapes.Sphere(0.1), name=name)
    spec.add_shape("world", jd.shapes.HeightField(np.ones((3, 3)), (1, 1)), name="field")
    model = spec.build().with_pairs([("on", "field"), ("beside", "field")])
    q = model.neutral().at[jnp.array([2, 7, 9])].set(jnp.array([1.1, 0.7, 1.1]))
    tau = jnp.zeros((200, 12))
    found = jd.simulate(model, jd.State(q, jnp.zeros(12)), tau, 5e-3, steps=200, contacts=jd.contact.PGS())
    np.testing.assert_allclose(found.q[-1, 2], 1.1, atol=1e-6)
    fall = 9.81 * 5e-3**2 * 200 * 201 / 2  # with the velocity at the end of each step
    np.testing.assert_allclose(found.q[-1, 9], 1.1 - fall, atol=1e-9)
