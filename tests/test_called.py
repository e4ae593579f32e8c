"""Steps that are called over tables give the bits of steps that are copied into one straight program."""

import dataclasses
import functools
import os
import unittest.mock
from contextlib import contextmanager

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scalar_help import needs_kernels

from jaxdyn.engine import called, host, inline, kept, kernels
from jaxdyn.engine.called import Kind
from jaxdyn.engine.intervals import Intervals
from jaxdyn.engine.lanes import PARAMETERS, laned
from jaxdyn.engine.ops import Type
from jaxdyn.engine.steps import Ref, Row, Step, Table
from jaxdyn.engine.sweeps import swept
from jaxdyn.engine.templates import sine_and_cosine

pytestmark = needs_kernels
PARENTS = (-1, 0, 1, 1, 0, 4, 5, 6, 7)
N = len(PARENTS)


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Parameters:
    """Numbers that lanes share; zeros and ones among them are known."""

    scale: jax.Array
    turn: jax.Array


setattr(Parameters, PARAMETERS, True)


class Choice:
    """Static data that names a compiler."""

    compiler = "kernel"

    def __hash__(self):
        return 0

    def __eq__(self, other):
        return isinstance(other, Choice)


@contextmanager
def steps(mode: str):
    before = os.environ.get("JAXDYN_STEPS")
    os.environ["JAXDYN_STEPS"] = mode
    try:
        yield
    finally:
        os.environ.pop("JAXDYN_STEPS") if before is None else os.environ.update(JAXDYN_STEPS=before)


def _down(p: Parameters, x, parent):
    """Uniform parts (the product of parameters), a function with a detour, the same number read twice."""
    turn = p.turn * p.scale * p.scale + p.scale
    y = jnp.sin(x * 30) * turn[0] - p.turn[1] * x[::-1]
    if parent is not None:
        y = y + parent * turn[1] - x * parent[::-1]
    return y, (-y[::-1] * x, jnp.stack([x[0] * y[1], jnp.zeros_like(x[0])]), p.scale * turn)


def _up(y, pair, below):
    z, w, u = pair
    total = below + y * z - z * w + u
    return jnp.where(total > 1, 1 / (1 + total * total), total), (total * y).sum(0), (total > 0.5)[0]


def _table() -> Table:
    rows = []
    for b, p in enumerate(PARENTS):
        above = None if p < 0 else Ref("y", p)
        rows.append(Row(Step(_down), (Ref("p", b), Ref("x", b), above), (Ref("y", b), Ref("pair", b))))
    for b in reversed(range(N)):
        to = PARENTS[b] if PARENTS[b] >= 0 else N
        reads = (Ref("y", b), Ref("pair", b), Ref("f", b))
        rows.append(Row(Step(_up), reads, (Ref("f", to), Ref("e", b), Ref("flag", b))))
    return Table(rows, {"y": N, "pair": N, "f": N + 1, "e": N, "flag": N})


TABLE = _table()


def plain(choice, p, x, f):
    out = swept(TABLE, {"p": p, "x": x, "f": f})
    return out["e"], out["f"][N], out["flag"], out["f"][:2] - out["e"][:2, None] * x[:2], x[3] * 2


def partly(choice, p, x, f):
    """Most results are read by nobody."""
    out = swept(TABLE, {"p": p, "x": x, "f": f})
    return out["e"][3], out["y"][N - 1]


def twice(choice, p, x, f):
    """One sweep reads what another one gives, with other operations between them."""
    one = swept(TABLE, {"p": p, "x": x, "f": f})
    two = swept(TABLE, {"p": p, "x": jnp.tanh(one["y"]) * 0.1 + x, "f": one["f"]})
    return two["e"], two["f"][N] * one["e"].sum(0), one["flag"] == two["flag"]


def in_loop(choice, p, x, f):
    """A sweep in the body of a loop whose lanes end apart. Two of its operands never change, one of them is the same
    for all lanes, and one comes from outside."""

    def more(at):
        return (at[0] < at[1]).any()

    def body(at):
        k, last, y, same, turn = at
        out = swept(TABLE, {"p": Parameters(p.scale, turn), "x": y, "f": f})
        new = y * 0.9 + 0.1 * jnp.tanh(out["y"]) + same[0] * out["e"][:, None] * 1e-3
        go = k < last
        return k + 1, last, jnp.where(go, new, y), same, turn + 0 * turn

    last = jnp.floor(jnp.abs(x[0, 0]) * 5).astype(jnp.int32)
    return jax.lax.while_loop(more, body, (jnp.zeros_like(last), last, x, f[:1] * 0 + 2, p.turn))[2]


def chosen(choice, p, x, f):
    """Sweeps in branches."""

    def one(x):
        return swept(TABLE, {"p": p, "x": x, "f": f})["e"]

    def other(x):
        return swept(TABLE, {"p": p, "x": -x, "f": f * 2})["e"] + one(x * 2)

    return jax.lax.cond((x[0, 0] > 0).all(), one, other, x)


def shared_in_a_branch(choice, p, x, f):
    """A branch with a sweep repeats what only reads numbers that all lanes share."""
    grid = jnp.concatenate([jnp.maximum(k * p.turn[:, :1], p.scale[:, 0]) for k in range(1, 6)])

    def one(x):
        much = 1 + grid * grid

        def body(at):
            k, y = at
            out = swept(TABLE, {"p": p, "x": y, "f": f})["e"]
            return k + 1, jnp.tanh(y + (much * out).sum(0)[:, None])

        y = swept(TABLE, {"p": p, "x": x, "f": f})["y"]
        return jax.lax.while_loop(lambda at: (at[0] < 3).any(), body, (jnp.zeros_like(x[0, 0]), y))[1]

    return jax.lax.cond((x[0, 0] > 0).any(), one, lambda x: x, x)


def gradient(choice, p, x, f):
    def total(p, x, f):
        out = swept(TABLE, {"p": p, "x": x, "f": f})
        return (out["e"] ** 2).sum() + (out["f"][N] * out["y"][0]).sum()

    return jax.grad(total, (1, 2))(p, x, f)


FUNCTIONS = (plain, partly, twice, in_loop, chosen, shared_in_a_branch, gradient)


def values(batch: int, dtype, wide: bool = False):
    rng = np.random.default_rng(0)
    number = lambda *shape: jnp.asarray(rng.normal(size=shape), dtype)  # noqa: E731
    scale, turn = np.asarray(number(N, 2)).copy(), np.asarray(number(N, 2)).copy()
    scale[::2], turn[1::3, 0], turn[:, 1] = 1, 0, -1
    p = Parameters(jnp.asarray(scale, dtype), jnp.asarray(turn, dtype))
    if wide:
        p = jax.tree.map(lambda x: x[None] + number(batch, *x.shape), p)
    return p, number(batch, N, 2), number(batch, N + 1, 2)


def both(fn, args, axes) -> list[list[np.ndarray]]:
    found = []
    for mode in ("straight", "called"):
        with steps(mode):
            f = jax.vmap(laned(fn, Choice()), axes)
            known = (None, 0, 0) == axes
            f = jax.jit(functools.partial(f, args[0])) if known else jax.jit(f)
            with kernels.watching() as seen:
                found.append([np.asarray(x) for x in jax.tree.leaves(f(*args[known:]))])
            assert seen
    return found


@pytest.mark.parametrize("fn", FUNCTIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bits_do_not_depend_on_calls(fn, dtype):
    for batch, wide in ((37, False), (1, False), (5, True)):
        args = values(batch, dtype, wide)
        axes = (0, 0, 0) if wide else (None, 0, 0)
        for a, b in zip(*both(fn, args, axes), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("width", ["4", "16", "32", "64"])
def test_bits_do_not_depend_on_the_width_of_vectors(width, monkeypatch):
    wanted = None
    for bytes_ in (width, "32"):
        kept.forget()
        monkeypatch.setenv("JAXDYN_VECTOR_BYTES", bytes_)
        found = [both(fn, values(21, np.float32), (None, 0, 0)) for fn in (plain, twice, in_loop)]
        for one, other in found:
            for a, b in zip(one, other, strict=True):
                np.testing.assert_array_equal(a, b)
        flat = [x for one, _ in found for x in one]
        for a, b in zip(flat, wanted or flat, strict=True):
            np.testing.assert_array_equal(a, b)
        wanted = flat
    kept.forget()


def test_values_are_right():
    jax.clear_caches()
    args = values(9, np.float64)
    (found, _) = both(plain, args, (None, 0, 0))
    choice = Choice()
    choice.compiler = "xla"
    wanted = jax.vmap(laned(plain, choice), (None, 0, 0))(*args)
    for a, b in zip(found, jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def _chain(n: int) -> Table:
    rows = [
        Row(Step(_link), (Ref("x", k), Ref("y", k - 1) if k else None), (Ref("y", k), Ref("e", k))) for k in range(n)
    ]
    rows += [
        Row(Step(_back), (Ref("y", k), Ref("g", k)), (Ref("g", k - 1) if k else Ref("h", 0))) for k in range(n)[::-1]
    ]
    return Table(rows, {"y": n, "e": n, "g": n, "h": 1})


def _link(x, y):
    y = x if y is None else x * y + y[::-1] / (1 + x * x)
    for _ in range(10):
        y = jnp.sqrt(1 + y * y) - x * y[::-1]
    return y, (y * x).sum(0)


def _back(y, g):
    for _ in range(10):
        g = g * y + y[::-1] / (2 + g * g)
    return g


def along(n, choice, x):
    out = swept(_chains(n), {"x": x, "g": x * 0.5})
    return out["h"], out["e"]


_chains = functools.cache(_chain)


def iterated(n, choice, x):
    """A chain in a loop, whose lanes end apart. What stands around the sweep has a part for every link, numbers that
    all links read, sums over links, a permutation of what the loop carries, and values that begin as constants."""

    def body(at):
        k, y, z, one, other = at
        out = swept(_chains(n), {"x": y, "g": z})
        length = jnp.sqrt((out["e"] ** 2).sum(0) + jnp.abs(z).max((0, 1)))
        new = y + out["e"][:, None] / (1 + length) * x
        far = length > 2 * jnp.abs(out["h"]).sum((0, 1))
        return k - 1, jnp.where(far, new, y * 0.5), z - new / (1 + length), other, one

    count = 1 + jnp.floor(jnp.abs(x[0, 0]) * 30)
    return jax.lax.while_loop(lambda at: (at[0] > 0).any(), body, (count, x, jnp.zeros_like(x), x[:3], -x[:3]))[1:]


def _size(fn, n: int) -> int:
    """Bytes of code of a chain."""
    x = np.random.default_rng(0).normal(size=(8, n, 2))
    before = set(host._made)
    jax.jit(jax.vmap(laned(fn, n, Choice()))).lower(x).compile()
    made = [m for k, m in host._made.items() if k not in before]
    return max(m.size for m in made)


@pytest.mark.parametrize(("fn", "addresses"), [(along, 30), (iterated, 30)])
def test_code_does_not_grow_with_a_robot(fn, addresses, monkeypatch):
    monkeypatch.setenv("JAXDYN_CACHE_DIR", "")
    kept.forget()
    small, large = (_size(fn, n) for n in (100, 400))
    # 300 links more are as many addresses more
    assert large - small < 300 * addresses * 4


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bits_of_what_stands_around_steps_do_not_depend_on_calls(dtype):
    kept.forget()
    x = np.random.default_rng(0).uniform(-0.1, 0.1, (37, 80, 2)).astype(dtype)
    found = []
    for mode in ("straight", "called"):
        with steps(mode):
            found.append(jax.jit(jax.vmap(laned(iterated, 80, Choice())))(x))
    for a, b in zip(*found, strict=True):
        assert np.isfinite(a).all()
        np.testing.assert_array_equal(a, b)


def _wave(x):
    """Sine and cosine of a number, of its negative, of one that is made here, and of a sine."""
    return jnp.sin(x[0]) * x[1], jnp.cos(-x[0]) + jnp.sin(x[0] + x[1]) + jnp.cos(jnp.sin(x[0]))


def _slope(x, y):
    return jnp.cos(x[0]) * y + jnp.sin(x[1])


def waves(n, choice, x):
    """Two sweeps that read the same angles."""
    rows = [Row(Step(_wave), (Ref("x", k),), (Ref("s", k), Ref("c", k))) for k in range(n)]
    one = swept(Table(rows, {"s": n, "c": n}), {"x": x})
    more = [Row(Step(_slope), (Ref("x", k), Ref("y", k)), Ref("z", k)) for k in range(n)]
    return one["s"], one["c"], swept(Table(more, {"z": n}), {"x": x, "y": one["c"]})["z"]


@pytest.mark.parametrize("mode", ["straight", "called"])
def test_sines_of_what_steps_read_are_computed_once(mode):
    n = 9
    x = np.random.default_rng(0).uniform(-9, 9, (37, n, 2))
    x[3, 2], x[4, 1, 0] = [1e300, -2e9], np.inf  # the detour for huge angles, and NaN
    kept.forget()
    with steps(mode), kernels.watching() as seen:
        found = jax.jit(jax.vmap(laned(waves, n, Choice())))(x)
    program = kernels.program_of(*seen[0])
    turned = sine_and_cosine(Type.float64, False)
    # of both numbers of a link, and of a sine; that of their sum belongs to the step alone
    assert sum(c.template is turned for c in program.calls) == 3 * n
    a, b = x[..., 0], x[..., 1]
    with np.errstate(invalid="ignore"):
        c = np.cos(a) + np.sin(a + b) + np.cos(np.sin(a))
        for y, z in zip(found, (np.sin(a) * b, c, np.cos(a) * c + np.sin(b)), strict=True):
            np.testing.assert_allclose(y, z, rtol=1e-12, atol=1e-14)


def test_a_list_of_calls_and_a_loop_over_them_are_the_same(monkeypatch):
    monkeypatch.setenv("JAXDYN_CACHE_DIR", "")
    x = np.random.default_rng(0).uniform(-0.1, 0.1, (21, 12, 2))
    found, sizes = [], []
    for most in (0, 1000):
        kept.forget()
        before = set(host._made)
        monkeypatch.setattr(called, "LISTED", most)
        monkeypatch.setattr(host, "_compiler", lambda most=most: str(most).encode())  # another program, another name
        with steps("called"):
            found.append(jax.jit(jax.vmap(laned(iterated, 12, Choice())))(x))
        sizes.append(max(m.size for k, m in host._made.items() if k not in before))
    assert sizes[0] != sizes[1]
    for a, b in zip(*found, strict=True):
        assert np.isfinite(a).all()
        np.testing.assert_array_equal(a, b)


class Nothing:
    size = 0


def test_addresses_that_differ_by_the_same_amount_are_one():
    kind = Kind(3, ((Nothing, "aassu"),))  # pyright: ignore[reportArgumentType]
    kind.rows = [[64, 128, 0, 32, 8], [96, 160, 0, 64, 8], [32, 96, 0, 96, 8]]
    kind.merge()
    assert kind.base == [(0, 0), (0, 64), (None, 0), (1, 0), (None, 8)]
    np.testing.assert_array_equal(kind.words, [[3, 64, 32], [3, 96, 64], [3, 32, 96]])


def test_memory_is_used_again_and_never_twice():
    rng = np.random.default_rng(0)
    space, taken = Intervals(), {}
    most = 0
    for _ in range(2000):
        if taken and rng.random() < 0.5:
            start = list(taken)[rng.integers(len(taken))]
            space.free(start, taken.pop(start))
        else:
            size, align = int(rng.integers(1, 20)) * 4, int(rng.choice([4, 8]))
            at = space.take(size, align)
            assert at % align == 0 and at + size <= space.size
            assert all(at + size <= s or s + n <= at for s, n in taken.items())
            taken[at] = size
        most = max(most, sum(taken.values()))
    assert space.size < 2 * most


@pytest.mark.parametrize(
    ("size", "calls", "sines", "soon", "wanted"),
    [
        (19, 300, 0, False, False),
        (19, 300, 100, False, False),  # sines, which have branches, do not make steps larger
        (60, 300, 0, False, True),
        (19, 600, 0, False, True),
        (19, 300, 0, True, True),
    ],
)
def test_short_programs_of_small_steps_are_straight(size, calls, sines, soon, wanted):
    """Unless code shall be there soon."""
    call = lambda n, owners: unittest.mock.Mock(  # noqa: E731
        template=unittest.mock.Mock(size=n, program=unittest.mock.Mock(owners=owners))
    )
    program = unittest.mock.Mock(calls=[call(size, [])] * calls + [call(200, [object()])] * sines)
    assert inline.called(program, "auto", soon) == wanted


def test_a_wrong_choice_is_an_error():
    with steps("often"), pytest.raises(ValueError, match="JAXDYN_STEPS"):
        jax.jit(jax.vmap(laned(along, 3, Choice()))).lower(np.zeros((2, 3, 2)))
