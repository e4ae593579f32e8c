"""Linearised laws and Schur complements in tiles, against dense algebra."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdyn.contact.cones import Cones, Convex, Counts, Limited
from jaxdyn.contact.slope import At, Slope
from jaxdyn.tree import square
from jaxdyn.tree.complement import complement
from jaxdyn.tree.tiles import WIDE

COUNTS = [Counts(4), Counts(3, (0, 2), 5), Counts(1, (0,)), Counts(0, (), 3), Counts(5, (1, 4, 0), 7, False)]
COUNTS.append(Counts(8, (7, 1, 0, 2, 6, 5, 3)))


def linearised(kind, counts: Counts, seed: int = 0):
    """A law at random forces, some within their cones and some beyond, and a positive G."""
    rng = np.random.default_rng(seed)
    draw = lambda *shape: jnp.asarray(rng.normal(size=(*shape, 2)))  # noqa: E731
    m, joints = counts.rows, counts.joints
    limits = Limited(jnp.abs(draw(joints)), -jnp.abs(draw(joints)), jnp.abs(draw(joints)))
    known = {"pinned": jnp.maximum(draw(counts.contacts), 0)} if kind is Convex else {}
    cones = kind(counts, jnp.abs(draw(counts.contacts)), jnp.abs(draw(len(counts.twists))), limits, **known)
    J = rng.normal(size=(m, m, 2))
    f = draw(m).at[: 3 * counts.contacts : 3].add(1.5)
    return At(cones, jnp.full((m, 2), 0.7), f, draw(m)), jnp.asarray(np.einsum("ikl,jkl->ijl", J, J)), draw(m)


@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("kind", [Cones, Convex])
@pytest.mark.parametrize("counts", COUNTS, ids=str)
def test_solves_are_those_of_dense_algebra(counts, kind, across):
    at, G, b = linearised(kind, counts)
    units = jnp.broadcast_to(jnp.eye(counts.rows)[..., None], G.shape)
    A = np.moveaxis(np.asarray(jax.vmap(at.moved, out_axes=1)(units, G)), -1, 0)  # F_f + F_s G, column by column
    A = np.swapaxes(A, 1, 2) if across else A
    wanted = np.linalg.solve(A, np.asarray(b).T[..., None])[..., 0].T
    found = jax.jit(lambda at, G, b: Slope.of(at, G, across).solve(b))(at, G, b)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12 * np.linalg.cond(A).max() * np.abs(wanted).max())


def test_nearest_forces_with_twists():
    """Of a convex problem: admissible, and what is left of z is in the polar cone and perpendicular to them."""
    at, _, _ = linearised(Convex, COUNTS[-1])
    z = at.s + at.f.at[: 3 * len(at.cones.friction) : 3].add(-2.5)
    cones = dataclasses.replace(at.cones, pinned=jnp.zeros((8, 2)))
    y, (a, b), of = np.asarray(cones.nearest(z, jnp.ones(2))), cones.counts.ends, list(cones.counts.twists)
    s, mu, r = y - np.asarray(z), np.asarray(cones.friction), np.asarray(cones.radius)
    size = lambda x: np.hypot(x[1:a:3], x[2:a:3])  # noqa: E731
    assert (size(y) <= mu * y[:a:3] + 1e-14).all() and (np.abs(y[a:b]) <= r * y[:a:3][of] + 1e-14).all()
    bound = mu * size(s)
    bound[of] += r * np.abs(s[a:b])
    assert (s[:a:3] >= bound - 1e-14).all() and np.abs((y * s).sum(0)).max() <= 1e-13
    assert 0.2 < (y[:a:3] > 0).mean() < 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_small_pivots_lose_no_digits(dtype):
    """Of redundant contacts only a small share of the diagonal is left. The residual is one of rounding all the same,
    as if a positive matrix was eliminated number by number. With inverses of tiles it is thirty times larger."""
    rng, n, eps = np.random.default_rng(1), 4, np.finfo(dtype).eps
    J = rng.normal(size=(WIDE * n, 5))
    A = (J @ J.T + 1e4 * eps * np.eye(WIDE * n)).astype(dtype)
    b = (J @ rng.normal(size=5)).astype(dtype)
    tiles = A.reshape(n, WIDE, n, WIDE).swapaxes(1, 2).reshape(n * n, WIDE, WIDE, 1)
    x = square.solve(square.factorise(jnp.asarray(tiles)), jnp.asarray(b).reshape(n, WIDE, 1))
    left = np.abs(A.astype(float) @ np.asarray(x).ravel().astype(float) - b).max()
    assert left <= 5 * eps * np.abs(b).max()


@pytest.mark.parametrize(("n", "m"), [(6, 12), (5, 7), (1, 1), (13, 2)])
def test_complements_are_those_of_dense_algebra(n, m):
    rng = np.random.default_rng(n)
    J, dA = rng.normal(size=(2, n + m, n + m))
    A, dA = J @ J.T + np.eye(n + m), dA + dA.T
    b, db = rng.normal(size=(2, n + m))

    def dense(A, b):
        W = A[n:, :n] @ jnp.linalg.inv(A[:n, :n])
        return A[n:, n:] - W @ A[:n, n:], b[n:] - W @ b[:n]

    def tiled(A, b):
        S, y = complement(A[..., None], b[:, None], n)
        return S[..., 0], y[:, 0]

    wanted, found = (jax.jit(lambda *x, f=f: jax.jvp(f, x[:2], x[2:]))(A, b, dA, db) for f in (dense, tiled))
    for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=1e-12 * max(1, np.abs(y).max()))
