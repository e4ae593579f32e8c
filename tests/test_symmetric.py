"""Symmetric matrices as six numbers, beside all nine; inertias of bodies that move with their parents."""

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from catalogue import CATALOGUE
from compiled import states
from jax.test_util import check_grads

import jaxdyn as jd
from jaxdyn.spatial import symmetric as sy
from jaxdyn.spatial.small import skew
from jaxdyn.tree import columns as co

DENSE = {
    "times": lambda S, x, r, E: (sy.times(S, x), np.einsum("ijl,jl->il", sy.full(S), x)),
    "mm_symmetric": lambda S, x, r, E: (sy.mm_symmetric(E, S), np.einsum("ijl,jkl->ikl", E, sy.full(S))),
    "turned": lambda S, x, r, E: (sy.full(sy.turned(E, S)), np.einsum("ijl,jkl,mkl->iml", E, sy.full(S), E)),
    "product": lambda S, x, r, E: (sy.full(sy.product(x, 3 * x)), np.einsum("il,jl->ijl", x, 3 * x)),
    "skew_times_symmetric": lambda S, x, r, E: (
        sy.skew_times_symmetric(r, S),
        np.einsum("ijl,jkl->ikl", skew(r), sy.full(S)),
    ),
    "skew_skew": lambda S, x, r, E: (
        sy.full(sy.skew_skew(x, r) + sy.skew_skew(r, x)),
        np.einsum("ijl,jkl->ikl", skew(x), skew(r)) + np.einsum("ijl,jkl->ikl", skew(r), skew(x)),
    ),
    "with_transpose": lambda S, x, r, E: (sy.full(sy.with_transpose(E)), E + np.swapaxes(E, 0, 1)),
    "column": lambda S, x, r, E: (np.stack([sy.column(S, k) for k in range(3)], 1), sy.full(S)),
    "trace": lambda S, x, r, E: (sy.trace(S) - sy.trace(sy.diagonal(x[0])), np.einsum("iil->l", sy.full(S)) - 3 * x[0]),
}


def given():
    rng = np.random.default_rng(5)
    return [jnp.asarray(rng.normal(size=(*shape, 4))) for shape in ((6,), (3,), (3,), (3, 3))]


@pytest.mark.parametrize("name", DENSE)
def test_products(name):
    found, wanted = DENSE[name](*given())
    np.testing.assert_allclose(found, wanted, rtol=1e-13, atol=1e-13)


def test_derivatives_of_products():
    """Both modes agree with differences."""

    @jax.jit
    def f(S, x, r, E):
        parts = sy.turned(E, S), sy.skew_skew(x, r), sy.product(x, r), sy.times(S, x), sy.skew_times_symmetric(r, S)
        return sum(jnp.sin(part).sum() for part in parts)

    check_grads(f, given(), order=2, modes=["fwd", "rev"], atol=1e-6, rtol=1e-6)


def test_rigid_bodies_move_like_any_inertia():
    """Ten numbers and both routes to the parent: as the blocks of a composite body go."""
    S, h, r, E = given()
    turn = jnp.moveaxis(jnp.linalg.qr(jnp.moveaxis(E, -1, 0))[0], 0, -1)
    turn = turn * jnp.linalg.det(jnp.moveaxis(turn, -1, 0))[None, None]
    mass = jnp.abs(h[0]) + 1
    with jax.numpy_rank_promotion("allow"):
        got = co.rigid(*co.rigid_to_parent((turn, r), (mass, h, S)))
    for x, y in zip(got, co.inertia_to_parent((turn, r), co.rigid(mass, h, S)), strict=True):
        np.testing.assert_allclose(x, jnp.broadcast_to(y, x.shape), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("robot", ["everything", "quadruped"])
def test_mass_matrices_are_exactly_symmetric_in_what_bodies_share(robot):
    """And right: free joints give 36 numbers, of which 21 differ."""
    model, q = CATALOGUE[robot].build(), states(robot)[0][0]
    M = np.asarray(jd.mass_matrix(model, q))
    np.testing.assert_allclose(M, oracle.mass_matrix(model, q), rtol=1e-10, atol=1e-10)
    for b in model.topology.floating_bases:
        own = slice(model.topology.v_starts[b], model.topology.v_starts[b] + 6)
        np.testing.assert_array_equal(M[own, own], M[own, own].T)


def test_derivatives_by_rotational_inertias_are_symmetric():
    """Both halves of what is given count, whatever half is computed with."""
    model = CATALOGUE["everything"].build()
    q, v, tau = (x[0] for x in states("everything"))

    def f(rotational):
        own = model.replace({"bodies.rotational": rotational})
        return jnp.sin(jd.mass_matrix(own, q)).sum() + jd.kinetic_energy(own, jd.State(q, v))

    slope = np.asarray(jax.grad(f)(model.bodies.rotational))
    assert np.abs(slope).max() > 1e-3
    np.testing.assert_allclose(slope, np.swapaxes(slope, -1, -2), rtol=1e-12, atol=1e-14)
    way = np.random.default_rng(1).normal(size=slope.shape)
    step = 1e-6 * (way + np.swapaxes(way, -1, -2))
    by = (f(model.bodies.rotational + step) - f(model.bodies.rotational - step)) / 2
    np.testing.assert_allclose((slope * step).sum(), by, rtol=1e-6)


@pytest.mark.parametrize(
    ("made", "half", "width"),
    [
        (lambda m: jd.Inertia.sphere(m, 0.3), 0.3, lambda z: 0.09 - z * z),
        (lambda m: jd.Inertia.cylinder(m, 0.3, 0.8), 0.4, lambda z: 0.09 + 0 * z),
        (lambda m: jd.Inertia.capsule(m, 0.3, 0.8), 0.7, lambda z: 0.09 - np.maximum(abs(z) - 0.4, 0) ** 2),
        (lambda m: jd.Inertia.capsule(m, 0.3, 0.0), 0.3, lambda z: 0.09 - z * z),
    ],
    ids=["sphere", "cylinder", "capsule", "capsule without length"],
)
def test_solids_are_sums_of_discs(made, half, width):
    """`width` is the square of a disc's radius at the height z."""
    edges = np.linspace(-half, half, 40_001)
    z = (edges[1:] + edges[:-1]) / 2
    share = width(z) / width(z).sum()
    across = 2.0 * (share * (width(z) / 4 + z * z)).sum()
    expected = np.diag([across, across, 2.0 * (share * width(z) / 2).sum()])
    np.testing.assert_allclose(made(2.0).rotational, expected, rtol=1e-6, atol=1e-12)
    assert made(2.0).mass == 2.0 and not np.any(made(2.0).center_of_mass)


def test_a_solid_without_size_is_a_point():
    assert not np.any(jd.Inertia.capsule(1.0, 0.0, 0.0).rotational)
    with pytest.raises(ValueError, match=r"`Inertia.capsule`: `length` is negative"):
        jd.Inertia.capsule(1.0, 0.1, -1.0)
