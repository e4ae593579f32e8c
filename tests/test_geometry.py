"""Batches over, and derivatives by, the geometry of constraints: every number of every kind of constraint.

All kinds are evaluated by one program, since compiling is what takes the time; a test looks at the rows of its kind.
"""

import functools

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
            jd.joints.Revolute(axis=np.roll((0.2, -0.4, 0.9), k)),
            placement=jd.Transform(np.eye(3), (0.3, 0.0, 0.1)),
            inertia=jd.Inertia(1.0, (0.1, 0.0, 0.0), np.diag([0.1, 0.2, 0.15])),
        )
    return spec.build()


MODEL = chain()
STATE = jd.State(jnp.array([0.4, -0.7, 1.1]), jnp.array([0.1, -0.5, 0.9]))
AT = 0.2, -0.1, 0.3


def constraint(kind):
    options = {"length": 0.4} if kind == "Distance" else {}
    if kind in AXIS:
        options[AXIS[kind]] = (0.2, 0.9, -0.4)
    place = jd.Transform.from_quaternion
    return getattr(jd.constraints, kind)(
        "link_2",
        "link_0",
        name=kind,
        placement_a=place((1.0, 0.3, -0.2, 0.1), (0.1, 0.2, 0.3)),
        placement_b=place((0.5, -0.1, 0.4, 0.7), (-0.2, 0.1, 0.1)),
        **options,
    )


def turned(placement, x):
    half = 0.5 * x
    turn = jnp.stack([jnp.cos(half), jnp.sin(half), 0 * x, 0 * x])
    return placement @ jd.Transform.from_quaternion(turn, jnp.stack([0.1 * x, x, 0 * x]))


def rows(x, y, z):
    """By kind: residual, Jacobian and bias with side a moved by x, side b by y, and the axis or length by z."""
    all_held = []
    for kind in KINDS:
        held = constraint(kind)
        axis = held.axis + z * jnp.array([0.3, 0.1, 0.2])
        held = eqx.tree_at(
            lambda c: (c.placement_a, c.placement_b, c.axis),
            held,
            (turned(held.placement_a, x), turned(held.placement_b, y), axis / jnp.linalg.norm(axis)),
        )
        if kind == "Distance":
            held = eqx.tree_at(lambda c: c.length, held, held.length + z)
        all_held.append(held)
    found = (
        jd.constraint_residual(MODEL, STATE.q, tuple(all_held)),
        jd.constraint_jacobian(MODEL, STATE.q, tuple(all_held)),
        jd.constraint_bias(MODEL, STATE, tuple(all_held)),
    )
    slices = jd.constraint_slices(MODEL, tuple(all_held))
    return {kind: [x[slices[kind]] for x in found] for kind in KINDS}


one = functools.cache(jax.jit(rows))
XS = jnp.array([-0.3, 0.0, 0.2])


def moved(side, x):
    """The numbers at which all is evaluated, with one of them replaced."""
    return *AT[:side], x, *AT[side + 1 :]


@functools.cache
def batches():
    """`rows` of a batch of each number."""

    def all_sides(xs):
        return [jax.vmap(rows, [0 if k == side else None for k in range(3)])(*moved(side, xs)) for side in range(3)]

    return jax.jit(all_sides)(XS)


@functools.cache
def jacobians():
    """The derivatives of `rows` in forward and in reverse mode."""
    return [jax.jit(jac(rows, argnums=(0, 1, 2)))(*AT) for jac in (jax.jacfwd, jax.jacrev)]


@pytest.mark.parametrize("kind", KINDS)
def test_one_part_varies_in_a_batch(kind):
    for side, many in enumerate(batches()):
        for k, x in enumerate(XS.tolist()):
            for a, b in zip(many[kind], one(*moved(side, x))[kind], strict=True):
                np.testing.assert_allclose(a[k], b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_derivatives_by_geometry(kind):
    h = 1e-6
    forward, reverse = (found[kind] for found in jacobians())
    for side in range(3):
        ahead, behind = (one(*moved(side, AT[side] + s))[kind] for s in (h, -h))
        for a, b, p, m in zip(forward, reverse, ahead, behind, strict=True):
            np.testing.assert_allclose(a[side], b[side], rtol=1e-8, atol=1e-8)
            np.testing.assert_allclose(a[side], (p - m) / (2 * h), rtol=1e-6, atol=1e-6)


def test_the_rows_depend_on_what_varies():
    """Or the tests above would compare zeros."""
    forward = jacobians()[0]
    for kind in KINDS:
        size = [sum(float(jnp.abs(x[side]).max()) for x in forward[kind]) for side in range(3)]
        assert min(size[:2]) > 0.1 and (size[2] > 0.1) == (kind in AXIS or kind == "Distance"), kind


HELD = "Weld", "Hinge", "Slider", "Cylinder"


def test_both_sides_vary_in_batches_of_their_own():
    def f(x, y):
        all_held = []
        for kind in HELD:
            held = constraint(kind)
            held = eqx.tree_at(lambda c: c.placement_a.translation, held, held.placement_a.translation + x)
            held = eqx.tree_at(lambda c: c.placement_b.translation, held, held.placement_b.translation + y)
            all_held.append(held)
        return jd.constraint_residual(MODEL, STATE.q, tuple(all_held))

    xs, ys = jnp.linspace(0, 0.3, 3), jnp.linspace(-0.2, 0, 2)
    found = jax.jit(jax.vmap(jax.vmap(f, (None, 0)), (0, None)))(xs, ys)
    assert found.shape[:2] == (3, 2)
    single = jax.jit(f)
    for i, j in np.ndindex(3, 2):
        np.testing.assert_allclose(found[i, j], single(xs[i], ys[j]), atol=1e-12)


def held_balls():
    """A ball on a slide for each kind of constraint."""
    spec = jd.ModelSpec("held")
    for kind in HELD:
        spec.add_body(f"slide {kind}", "world", jd.joints.Translation(), inertia=jd.Inertia(1.0))
        ball = jd.Inertia(1.0, (0, 0, 0), np.eye(3))
        spec.add_body(f"ball {kind}", f"slide {kind}", jd.joints.Spherical(), inertia=ball)
    return spec.build()


def test_assembly_has_derivatives_by_lengths():
    """The tips are held to rails of the world: their heights depend on the lengths of the rods."""
    model = held_balls()

    def close(x):
        tip = jd.Transform(jnp.eye(3), jnp.stack([x, 2 * x, 0 * x]))
        held = tuple(getattr(jd.constraints, kind)(f"ball {kind}", placement_a=tip) for kind in HELD)
        return jd.assemble(model, model.neutral(), constraints=held)

    x, h = 0.3, 1e-6
    near = jax.jit(jax.vmap(close))(jnp.array([x, x + h, x - h, 2 * x]))
    expected = (near[1] - near[2]) / (2 * h)
    for kind in HELD:
        assert jnp.abs(expected[model.q_slice(f"slide {kind}")]).max() > 0.5, kind
    np.testing.assert_allclose(jax.jit(jax.jacfwd(close))(x), expected, atol=1e-6)
    np.testing.assert_allclose(jax.jit(jax.jacrev(close))(x), expected, atol=1e-6)
    np.testing.assert_allclose(near[0], jax.jit(close)(x), atol=1e-9)
