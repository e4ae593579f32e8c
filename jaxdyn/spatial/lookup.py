"""Numbers of a table at computed places. Only this operation of a kernel reads memory at an address that depends on
values; the table must be an operand of the program.

Its transpose, `spread`, writes to computed places, for derivatives backwards with respect to the table. Kernels cannot:
they write to all places of a short table, and XLA compiles programs with long ones.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, mlir

lookup_p, spread_p = Primitive("jaxdyn_lookup"), Primitive("jaxdyn_spread")


def lookup(table: jax.Array, index: jax.Array) -> jax.Array:
    """Return the numbers (n, ...) of a table (rows, columns, ...) at `index` (n, ...), 32-bit integers that count along
    its rows. Beyond the ends they are the first or the last number. Lanes are all axes of `index` but the first; those
    of the table have as many, and they broadcast."""
    return lookup_p.bind(table, index)


def _shape(table, index) -> tuple[int, ...]:
    rank = len(index) - 1
    return index[0], *np.broadcast_shapes(index[1:], table[len(table) - rank :])


def _read(table, index):
    rank = index.ndim - 1
    lanes = table.shape[table.ndim - rank :]
    flat = table.reshape(-1, *lanes)
    index = jnp.clip(index, 0, len(flat) - 1)
    if all(n == 1 for n in lanes):
        return flat.reshape(-1)[index]
    shape = _shape(flat.shape, index.shape)
    flat = jnp.broadcast_to(flat, (len(flat), *shape[1:]))
    return jnp.take_along_axis(flat, jnp.broadcast_to(index, shape), 0)


def _write(values, index, *, shape: tuple[int, ...]):
    """Return zeros of this shape to which the values (n, ...) are added at `index`."""
    rank = values.ndim - 1
    index = jnp.broadcast_to(index, values.shape)
    lanes = np.meshgrid(*map(np.arange, values.shape[1:]), indexing="ij")
    size = int(np.prod(shape[: len(shape) - rank]))
    full = jnp.zeros((size, *values.shape[1:]), values.dtype).at[jnp.clip(index, 0, size - 1), *lanes].add(values)
    alone = tuple(k + 1 for k, n in enumerate(shape[len(shape) - rank :]) if n == 1)
    return full.sum(alone, keepdims=True).reshape(shape)


@lookup_p.def_abstract_eval
def _looked_up(table, index):
    return table.update(shape=_shape(table.shape, index.shape), weak_type=False)


@spread_p.def_abstract_eval
def _spread(values, index, *, shape):
    return values.update(shape=shape)


for _primitive, _rule in ((lookup_p, _read), (spread_p, _write)):
    _primitive.def_impl(jax.jit(_rule, static_argnames=("shape",) if _primitive is spread_p else ()))
    mlir.register_lowering(_primitive, mlir.lower_fun(_rule, multiple_results=False))


def _jvp(primitive):
    """Return the rule of a primitive that is linear in its first operand."""

    def rule(primals, tangents, **params):
        out = primitive.bind(*primals, **params)
        moved = tangents[0]
        if type(moved) is ad.Zero:
            return out, ad.Zero(jax.typeof(out).to_tangent_aval())
        return out, primitive.bind(moved, primals[1], **params)

    return rule


def _lookup_back(cotangent, table, index):
    found = (
        ad.Zero(table.aval) if type(cotangent) is ad.Zero else spread_p.bind(cotangent, index, shape=table.aval.shape)
    )
    return [found, None]


def _spread_back(cotangent, values, index, *, shape):
    return [ad.Zero(values.aval) if type(cotangent) is ad.Zero else lookup_p.bind(cotangent, index), None]


ad.primitive_jvps[lookup_p] = _jvp(lookup_p)
ad.primitive_jvps[spread_p] = _jvp(spread_p)
ad.primitive_transposes[lookup_p] = _lookup_back
ad.primitive_transposes[spread_p] = _spread_back
