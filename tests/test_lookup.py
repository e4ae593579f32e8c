"""Numbers of tables at computed places: kernels beside NumPy, and derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scalar_help import kernel, lanes, needs_kernels

from jaxdyn.engine.lanes import laned
from jaxdyn.engine.ops import Unsupported
from jaxdyn.spatial.lookup import lookup

ROWS, COLUMNS, LANES = 30, 50, 37


def twice(table, place):
    """A number of the table at a place, and the one at a place that depends on it."""
    found = lookup(table, place)
    return found, lookup(table, (100 * found).astype(jnp.int32)) * found


def expected(table, place):
    flat = table.reshape(-1)
    found = flat[np.clip(place, 0, flat.size - 1)]
    return found, flat[np.clip((100 * found).astype(int), 0, flat.size - 1)] * found


def tables_and_places(dtype=np.float64):
    rng = np.random.default_rng(0)
    tables = 10 * rng.random((LANES, ROWS, COLUMNS)).astype(dtype)
    tables[:, ::3] = 0
    places = rng.integers(-100, ROWS * COLUMNS + 100, (LANES, 4)).astype(np.int32)
    places[0] = np.iinfo(np.int32).min, np.iinfo(np.int32).max, 0, ROWS * COLUMNS - 1
    return tables, places


@needs_kernels
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_kernels_read_computed_rows(dtype):
    tables, places = tables_and_places(dtype)
    for found, true in zip(
        kernel(twice, tables, places), zip(*map(expected, tables, places), strict=True), strict=True
    ):
        np.testing.assert_array_equal(found, np.array(true))
    for found, true in zip(lanes(twice, tables, places), kernel(twice, tables, places), strict=True):
        np.testing.assert_array_equal(found, true)


@needs_kernels
def test_a_table_that_is_no_operand_is_left_to_xla():
    tables, places = tables_and_places()
    with pytest.raises(Unsupported, match="no operand"):
        kernel(lambda table, place: lookup(2 * table, place), tables, places)


@pytest.mark.parametrize("shared", [False, True])
def test_derivatives(shared):
    """In the table they are exact and linear; in its transpose, places that are read twice count twice."""
    tables, places = tables_and_places()
    f = jax.vmap(laned(lookup), in_axes=(None if shared else 0, 0))
    at = lambda table: f(table, places)  # noqa: E731
    table = tables[0] if shared else tables
    moved = np.random.default_rng(1).normal(size=table.shape)
    weights = np.random.default_rng(2).normal(size=places.shape)
    out, rate = jax.jit(lambda t, m: jax.jvp(at, (t,), (m,)))(table, moved)
    np.testing.assert_array_equal(rate, at(moved))
    pulled = jax.jit(lambda t, w: jax.vjp(at, t)[1](w)[0])(table, weights)
    np.testing.assert_allclose((pulled * moved).sum(), (weights * rate).sum(), rtol=1e-12)
    again = jax.jit(lambda w, c: jax.vjp(lambda w: jax.vjp(at, table)[1](w)[0], w)[1](c)[0])(weights, moved)
    np.testing.assert_array_equal(again, rate)
