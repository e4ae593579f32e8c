"""Sweeps over tables: values and derivatives of first and second order beside plain code, on both compilers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdyn.engine.lanes import laned
from jaxdyn.engine.steps import Ref, Row, Step, Table
from jaxdyn.engine.sweeps import swept

PARENTS = (-1, 0, 1, 1, 0, 4)
N = len(PARENTS)


class Choice:
    """Static data that names a compiler, as a model does."""

    def __init__(self, compiler):
        self.compiler = compiler

    def __hash__(self):
        return hash(self.compiler)

    def __eq__(self, other):
        return self.compiler == other.compiler


def _down(x, parent, scale):
    y = jnp.sin(x) * scale[0] + (0 if parent is None else parent * x)
    return y, (x * scale[1], (x * x).sum(0))


def _up(y, below):
    return jnp.tanh(y + below), (y * below).sum(0)


def _table() -> Table:
    rows = []
    for b, p in enumerate(PARENTS):
        above = None if p < 0 else Ref("y", p)
        rows.append(
            Row(Step(_down), (Ref("x", b), above, Ref("p", 2 * b, 2)), (Ref("y", b), (Ref("z", b), Ref("s", 0))))
        )
    for b in reversed(range(N)):
        to = PARENTS[b] if PARENTS[b] >= 0 else N
        rows.append(Row(Step(_up), (Ref("y", b), Ref("f", b)), (Ref("f", to), Ref("e", b))))
    return Table(rows, {"y": N, "z": N, "s": 1, "f": N + 1, "e": N})


TABLE = _table()


def by_table(choice, x, p, f):
    out = swept(TABLE, {"x": x, "p": p, "f": f})
    return out["e"], out["s"], out["f"][N], out["z"]


def plainly(choice, x, p, f):
    y, z, e, s, f = [], [], [None] * N, 0, list(f)
    for b, above in enumerate(PARENTS):
        y.append(jnp.sin(x[b]) * p[2 * b] + (0 if above < 0 else y[above] * x[b]))
        z.append(x[b] * p[2 * b + 1])
        s = s + (x[b] * x[b]).sum(0)
    for b in reversed(range(N)):
        to = PARENTS[b] if PARENTS[b] >= 0 else N
        e[b] = (y[b] * f[b]).sum(0)
        f[to] = f[to] + jnp.tanh(y[b] + f[b])
    return jnp.stack(e), s[None], f[N], jnp.stack(z)


def _values():
    rng = np.random.default_rng(0)
    return rng.normal(size=(N, 3)), rng.normal(size=(2 * N, 3)), rng.normal(size=(N + 1, 3))


def _scalar(fn):
    return lambda *args: sum((x**2).sum() for x in fn(*args))


DERIVATIVES = {
    "value": lambda f: f,
    "forward": lambda f: jax.jacfwd(f, (0, 1, 2)),
    "reverse": lambda f: jax.jacrev(f, (0, 1, 2)),
    "reverse of some": lambda f: jax.jacrev(f, 1),
    "forward over reverse": lambda f: jax.hessian(_scalar(f), (0, 1)),
    "reverse over reverse": lambda f: jax.jacrev(jax.grad(_scalar(f), (0, 1)), (0, 1)),
    "reverse over forward": lambda f: jax.jacrev(jax.jacfwd(_scalar(f), 0), (0, 2)),
}


@pytest.mark.parametrize("compiler", ["kernel", "xla"])
@pytest.mark.parametrize("order", DERIVATIVES)
def test_agrees_with_plain_code(order, compiler):
    args = _values()
    found = jax.jit(DERIVATIVES[order](laned(by_table, Choice(compiler))))(*args)
    wanted = jax.jit(DERIVATIVES[order](laned(plainly, Choice("xla"))))(*args)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("compiler", ["kernel", "xla"])
def test_batches_share_what_is_not_batched(compiler):
    x, p, f = _values()
    many = np.stack([x, 2 * x, 3 * x])
    fn = laned(by_table, Choice(compiler))
    found = jax.jit(jax.vmap(lambda x: jax.grad(_scalar(lambda p: fn(x, p, f)))(p)))(many)
    alone = jax.jit(lambda x: jax.grad(_scalar(lambda p: laned(plainly, Choice("xla"))(x, p, f)))(p))
    for k in range(3):
        wanted = alone(many[k])
        np.testing.assert_allclose(found[k], wanted, rtol=1e-12, atol=1e-12)


def test_every_kind_of_step_is_traced_once():
    x, p, f = _values()
    sweep, _ = TABLE.sweep({"x": x[..., None], "p": p[..., None], "f": f[..., None]})
    assert len(sweep.rows) == 2 * N
    assert len(sweep.kinds) == 3  # a root, a body with a parent, and the way up


def test_what_a_table_writes_keeps_its_shape():
    def wrong(x):
        return x[:2]

    rows = [Row(Step(_down), (Ref("x", 0), None, Ref("p", 0, 2)), (Ref("y", 0), (Ref("z", 0), Ref("s", 0))))]
    rows.append(Row(Step(wrong), (Ref("x", 1),), Ref("y", 1)))
    x, p, _ = _values()
    with pytest.raises(AssertionError, match="'y'"):
        Table(rows, {"y": 2, "z": 2, "s": 1}).sweep({"x": x[..., None], "p": p[..., None]})


@pytest.mark.parametrize("late", [Ref("y", 1), Ref("y", 0, 2)], ids=str)
def test_cells_are_not_written_once_they_are_read(late):
    """In the same row or later; derivatives take what was read from the arrays in the end."""
    step, own = Step(jnp.negative), Row(Step(jnp.negative), (Ref("x", 1),), Ref("y", 1))
    rows = [own, Row(step, (Ref("y", 1),), Ref("z", 0)), Row(step, (Ref("x", 0),), late)]
    with pytest.raises(ValueError, match="row 2 of a table .* cell 1 of `y`"):
        Table(rows, {"y": 2, "z": 1})
    with pytest.raises(ValueError, match="row 0 of a table .* cell 1 of `y`"):
        Table([Row(step, (Ref("y", 1),), late)], {"y": 2})
    Table([own, rows[2]._replace(writes=Ref("y", 0)), rows[1]], {"y": 2, "z": 1})


def _twice(x):
    return x, (2 * x, x * x)


@pytest.mark.parametrize("compiler", ["kernel", "xla"])
def test_a_step_may_write_to_a_cell_twice(compiler):
    rows = [Row(Step(_twice), (Ref("x", k),), (Ref("y", 0), (Ref("z", k), Ref("y", 0)))) for k in range(2)]
    table = Table(rows, {"y": 1, "z": 2})
    x = _values()[0][:2]
    found = laned(_both, Choice(compiler), table)(x)
    np.testing.assert_allclose(found[0][0], (x + x * x).sum(0), rtol=1e-12)
    np.testing.assert_allclose(found[1], 2 * x, rtol=1e-12)


def _both(choice, table, x):
    out = swept(table, {"x": x})
    return out["y"], out["z"]
