"""Loops that close although the guess is a singular pose, and what is said of those that do not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from catalogue import CATALOGUE

import jaxdyn as jd
from jaxdyn.kinematics.assemble import _search, _tolerances


def six_bar(reach=1.3):
    """A planar six-bar of Watt's kind, drawn with all rods in a line: no motion lessens the gaps there.

    A crank, a coupler and a rocker `reach` metres away make one loop; two more rods between the coupler and the ground
    the other.
    """
    spec = jd.ModelSpec("six_bar")

    def rod(name, parent, at, length):
        spec.add_body(
            name,
            parent,
            jd.joints.Revolute(axis=(0, 1, 0)),
            placement=jd.Transform(np.eye(3), (at, 0, 0)),
            inertia=jd.Inertia(1.0, (length / 2, 0, 0), 0.02 * np.eye(3)),
        )

    def pin(name, a, at_a, b, at_b):
        place = lambda x: jd.Transform(np.eye(3), (x, 0, 0))  # noqa: E731
        spec.add_constraint(jd.constraints.Point(a, b, placement_a=place(at_a), placement_b=place(at_b), name=name))

    rod("crank", "world", 0.0, 0.5)
    rod("coupler", "crank", 0.5, 1.2)
    rod("rocker", "world", reach, 0.8)
    rod("arm", "coupler", 0.6, 0.7)
    rod("leg", "arm", 0.7, 0.9)
    pin("loop", "coupler", 1.2, "rocker", 0.8)
    pin("dyad", "leg", 0.9, "world", 0.4)
    return spec.build()


@pytest.fixture(scope="module")
def model():
    return six_bar()


def test_the_neutral_pose_is_singular_and_open(model):
    q = model.neutral()
    held = jd.constraint_residual(model, q)
    J = jd.constraint_jacobian(model, q)
    assert jnp.abs(held).max() > 0.1 and jnp.abs(J.T @ held).max() < 1e-12


def test_a_singular_guess_closes(model):
    q = jd.assemble(model, model.neutral())
    np.testing.assert_allclose(jd.constraint_residual(model, q), 0, atol=1e-11)
    np.testing.assert_array_equal(q, jd.assemble(model, model.neutral()))
    jitted = jax.jit(lambda q: jd.assemble(model, q))(model.neutral())
    np.testing.assert_allclose(jd.constraint_residual(model, jitted), 0, atol=1e-11)


def test_a_lane_with_other_starts_leaves_its_mates_alone(model):
    near = jd.assemble(model, model.neutral()) + 0.01
    both = jax.vmap(lambda q: jd.assemble(model, q))(jnp.stack([model.neutral(), near]))
    np.testing.assert_allclose(both[1], jd.assemble(model, near), atol=1e-12)
    np.testing.assert_allclose(jd.constraint_residual(model, both[0]), 0, atol=1e-11)


def test_single_precision(model):
    single = jax.tree.map(lambda x: x.astype(jnp.float32), model)
    q = jd.assemble(single, single.neutral())
    assert q.dtype == jnp.float32
    assert jnp.abs(jd.constraint_residual(single, q)).max() < 1e-5


def test_what_cannot_close_is_told():
    far = six_bar(reach=4.0)
    said = r"`assemble`: cannot close 'loop' .Point on .*stays open by 1.5 m or rad, from `q` and from 8 starts"
    with pytest.raises(ValueError, match=said):
        jd.assemble(far, far.neutral())


def test_a_search_is_compiled_once_a_structure():
    """Robots with other numbers share it, and so do `assemble` and `embed`."""
    model = CATALOGUE["four_bar_point"].build()
    other = model.replace({"bodies.mass": 2 * model.bodies.mass})
    q = model.neutral()
    search = _search(jax.tree.structure((model, model.constraints)), *_tolerances(q.dtype))
    for robot in (model, other):
        jd.assemble(robot, q)
        jd.embed(robot)
    assert search._cache_size() == 1
