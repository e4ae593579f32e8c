"""Batches over, and derivatives by, the geometry of constraints: every number of every kind of constraint."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdyn as jd

KINDS = ("Weld", "Hinge", "Slider", "Cylinder", "Point", "PointOnPlane", "Distance")
AXIS = {"Hinge": "axis", "Slider": "axis", "Cylinder": "axis", "PointOnPlane": "normal"}


def chain():
    spec = jd.ModelSpec("chain")
    for k in range(3):
        spec.add_body(
            f"link_{k}",
            f"link_{k - 1}" if k else "world",
            jd.joints.Spherical(),
            placement=jd.Transform(np.eye(3), (0.3, 0.0, 0.1)),
            inertia=jd.Inertia(1.0, (0.1, 0.0, 0.0), np.diag([0.1, 0.2, 0.15])),
        )
    return spec.build()


MODEL = chain()
STATE = jd.State(MODEL.random_state(jax.random.key(0)).q, jnp.linspace(0.1, 0.9, MODEL.nv))


def constraint(kind):
    options = {"length": 0.4} if kind == "Distance" else {}
    if kind in AXIS:
        options[AXIS[kind]] = (0.2, 0.9, -0.4)
    place = jd.Transform.from_quaternion
    return getattr(jd.constraints, kind)(
        "link_2",
        "link_0",
        placement_a=place((1.0, 0.3, -0.2, 0.1), (0.1, 0.2, 0.3)),
        placement_b=place((0.5, -0.1, 0.4, 0.7), (-0.2, 0.1, 0.1)),
        **options,
    )


def turned(placement, x):
    half = 0.5 * x
    turn = jnp.stack([jnp.cos(half), jnp.sin(half), 0 * x, 0 * x])
    return placement @ jd.Transform.from_quaternion(turn, jnp.stack([0.1 * x, x, 0 * x]))


def rows(kind, x, y, z):
    """Residual, Jacobian and bias with side a moved by x, side b by y, and the axis or length by z."""
    held = constraint(kind)
    axis = held.axis + z * jnp.array([0.3, 0.1, 0.2])
    held = eqx.tree_at(
        lambda c: (c.placement_a, c.placement_b, c.axis),
        held,
        (turned(held.placement_a, x), turned(held.placement_b, y), axis / jnp.linalg.norm(axis)),
    )
    if kind == "Distance":
        held = eqx.tree_at(lambda c: c.length, held, held.length + z)
    held = (held,)
    return (
        jd.constraint_residual(MODEL, STATE.q, held),
        jd.constraint_jacobian(MODEL, STATE.q, held),
        jd.constraint_bias(MODEL, STATE, held),
    )


@pytest.mark.parametrize("side", [0, 1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_one_part_varies_in_a_batch(kind, side):
    at = [jnp.asarray(0.2), jnp.asarray(-0.1), jnp.asarray(0.3)]
    xs = jnp.array([-0.3, 0.0, 0.2])
    axes = [None, None, None]
    axes[side] = 0
    many = jax.vmap(lambda *x: rows(kind, *x), axes)(*at[:side], xs, *at[side + 1 :])
    for k, x in enumerate(xs):
        one = rows(kind, *at[:side], x, *at[side + 1 :])
        jax.tree.map(lambda a, b, k=k: np.testing.assert_allclose(a[k], b, rtol=1e-9, atol=1e-9), many, one)


@pytest.mark.parametrize("kind", KINDS)
def test_derivatives_by_geometry(kind):
    at, h = [jnp.asarray(0.2), jnp.asarray(-0.1), jnp.asarray(0.3)], 1e-6
    f = lambda *x: rows(kind, *x)  # noqa: E731
    forward, reverse = (jac(f, argnums=(0, 1, 2))(*at) for jac in (jax.jacfwd, jax.jacrev))
    for side in range(3):
        ahead, behind = (f(*at[:side], at[side] + s, *at[side + 1 :]) for s in (h, -h))
        for a, b, p, m in zip(forward, reverse, ahead, behind, strict=True):
            np.testing.assert_allclose(a[side], b[side], rtol=1e-8, atol=1e-8)
            np.testing.assert_allclose(a[side], (p - m) / (2 * h), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", ["Weld", "Hinge", "Slider", "Cylinder"])
def test_both_sides_vary_in_batches_of_their_own(kind):
    def f(x, y):
        held = constraint(kind)
        held = eqx.tree_at(lambda c: c.placement_a.translation, held, held.placement_a.translation + x)
        held = eqx.tree_at(lambda c: c.placement_b.translation, held, held.placement_b.translation + y)
        return jd.constraint_residual(MODEL, STATE.q, (held,))

    xs, ys = jnp.linspace(0, 0.3, 3), jnp.linspace(-0.2, 0, 2)
    found = jax.vmap(jax.vmap(f, (None, 0)), (0, None))(xs, ys)
    assert found.shape[:2] == (3, 2)
    np.testing.assert_allclose(found[2, 1], f(xs[2], ys[1]), atol=1e-12)


@pytest.mark.parametrize("kind", ["Weld", "Hinge", "Slider", "Cylinder"])
def test_assembly_has_derivatives_by_lengths(kind):
    """The tip is held to a rail of the world: its height depends on the length of the rod."""
    spec = jd.ModelSpec("held")
    spec.add_body("slide", "world", jd.joints.Translation(), inertia=jd.Inertia(1.0))
    spec.add_body("ball", "slide", jd.joints.Spherical(), inertia=jd.Inertia(1.0, (0, 0, 0), np.eye(3)))
    model = spec.build()

    def close(x):
        held = getattr(jd.constraints, kind)("ball", placement_a=jd.Transform(jnp.eye(3), jnp.stack([x, 2 * x, 0 * x])))
        return jd.assemble(model, model.neutral(), constraints=(held,))

    x, h = jnp.asarray(0.3), 1e-6
    expected = (close(x + h) - close(x - h)) / (2 * h)
    assert jnp.abs(expected).max() > 0.5
    np.testing.assert_allclose(jax.jacfwd(close)(x), expected, atol=1e-6)
    np.testing.assert_allclose(jax.jacrev(close)(x), expected, atol=1e-6)
    np.testing.assert_allclose(jax.vmap(close)(jnp.stack([x, 2 * x]))[0], close(x), atol=1e-9)
