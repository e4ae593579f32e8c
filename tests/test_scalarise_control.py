"""Loops, branches and calls in scalar programs, and their derivatives: kernels beside XLA; lanes beside each other."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from scalar_help import agree, bits, by_kernels, kernel, needs_kernels

from jaxdyn.engine import cpu, host, kernels, runtime
from jaxdyn.engine.lanes import laned
from jaxdyn.engine.order import schedule

pytestmark = needs_kernels

F = jnp.float64


def long(x):
    """More than what is computed in both cases."""
    for k in range(40):
        x = x * 0.9 + 0.1 * k
    return x


# functions of one state: x, three numbers, and n, an integer


def halve(x, n):
    return lax.while_loop(lambda c: c[1] > 0, lambda c: (c[0] * 0.5 + 1, c[1] - 1), (x, n))


def never(x, n):
    return lax.while_loop(lambda c: c[1] > 1000, lambda c: (c[0] * jnp.nan, c[1] - 1), (x, n))


def swap(x, n):
    return lax.while_loop(lambda c: c[2] < n, lambda c: (c[1], c[0], c[2] + 1), (x, -x, jnp.int32(0)))


def rotate(x, n):
    """Values that change places, one that nobody reads and one that never changes."""
    start = (x[0], x[1], x[2], x * 3, x.sum(), jnp.int32(0))
    step = lambda c: (c[1], c[2], c[0], c[3] * c[0], c[4], c[5] + 1)  # noqa: E731
    a, b, c, _, same, k = lax.while_loop(lambda c: c[5] < n, step, start)
    return {"a": a * same, "b": b, "c": c * c + c, "k": k, "same": same}


def twice(x, n):
    """A loop's results start the next one, and are read after it."""
    y, _ = halve(x, n)
    z, _ = halve(y * y, n - 1)
    return y + z, y - z, y


def nested(x, n):
    def inner(i, c):
        return lax.while_loop(lambda d: d[1] < i, lambda d: (jnp.cos(d[0]) + c.sum(), d[1] + 1), (c, jnp.int32(0)))[0]

    return lax.while_loop(lambda c: c[1] < n, lambda c: (inner(c[1], c[0]), c[1] + 1), (x, jnp.int32(0)))


def loop_in_condition(x, n):
    return lax.while_loop(lambda c: halve(c[0], c[1])[0].sum() < 3, lambda c: (c[0] + 1.5, c[1] + 1), (x, n))


def loop_in_branch(x, n):
    return lax.cond(n > 3, lambda: halve(x, n)[0], lambda: x * 2)


def endless_elsewhere(x, n):
    """A loop that would never end for those who are not in its branch."""
    ends = lambda: lax.while_loop(lambda k: k != 4, lambda k: k + 2, n - n % 2)  # noqa: E731
    return lax.cond((n < 5) & (n >= 0), ends, lambda: n * 10)


def branch_in_loop(x, n):
    step = lambda k, c: lax.cond(k % 2 == n % 2, lambda: long(c), lambda: lax.cond(k > 2, lambda: c + x, lambda: c))  # noqa: E731
    return lax.fori_loop(0, n, step, x)


def branches_in_branches(x, n):
    inner = lambda y: lax.switch(n - 2, [lambda: long(y), lambda: y * 2, lambda: long(-y)])  # noqa: E731
    return lax.cond(x[0] > 0, lambda: inner(x) + inner(2 * x), lambda: (long(x), x)[1] + inner(x * x))


def switched(x, n):
    short = lax.switch(n, [lambda: x, lambda: x * 2, lambda: -x, lambda: x * 0.5])
    return short, lax.switch(n, [lambda: (x, n), lambda: (long(x), n), lambda: (long(-x), n), lambda: (x, n + 1)])


def detour(x, n):
    return lax.cond(n == 2, lambda: (long(x), x[0]), lambda: (x, x[1]))


def known_branch(x, n):
    return (
        lax.cond(True, lambda: x, lambda: -x),
        lax.switch(7, [lambda: x, lambda: x + 1]),
        lax.switch(-7, [lambda: x, lambda: -x]),
    )


def counted(x, n):
    step = lambda k, c: c * 0.5 + k.astype(F)  # noqa: E731
    return [lax.fori_loop(0, m, step, x) for m in (0, 1, 3, 4, 9)], lax.fori_loop(-3, n, step, x)


def scanned(x, n):
    rows = jnp.stack([x, 2 * x, x * x, x - 1, x])
    step = lambda c, r: (jnp.sin(c) + r, (c * r, r[0]))  # noqa: E731
    return {
        "rows": lax.scan(step, x, rows),
        "reverse": lax.scan(step, x, rows, reverse=True),
        "none": lax.scan(step, x, rows[:0]),
        "one": lax.scan(step, x, rows[:1], reverse=True),
        "carry": lax.scan(lambda c, _: (jnp.sin(c) + 1, None), x, length=6)[0],
        "history": lax.scan(lambda c, _: (jnp.sin(c) + 1, c), x, length=5, reverse=True)[1],
        "map": lax.map(lambda r: r * x[0], rows),
        "unread": lax.scan(lambda c, _: (c, c * 2), x, length=3)[1],
        "nested": lax.scan(lambda c, r: lax.scan(lambda d, s: (d * s + r[0], d), c, r), x[0], rows),
        "sum": lax.associative_scan(jnp.add, rows),
    }


def kinds(x, n):
    """Carries of all types, and a condition that is itself one."""

    def step(c):
        go, i, j, u, f, d = c
        return go & (d < 20), i + 1, j * 3, u * 2 + 1, f * np.float32(1.5), d + x[0] ** 2 + 1

    start = (n > 0, n, n.astype(jnp.int64), jnp.uint32(7), x[1].astype(jnp.float32), x[2])
    return lax.while_loop(lambda c: c[0] & (c[1] < 9), step, start)


def collatz(x, n):
    step = lambda c: (jnp.where(c[0] % 2 == 0, c[0] // 2, 3 * c[0] + 1), c[1] + 1)  # noqa: E731
    return lax.while_loop(lambda c: c[0] > 1, step, (n + 20, jnp.int32(0)))


def newton(x, n):
    """Until nothing changes: NaN ends at once."""
    step = lambda c: (0.5 * (c[0] + jnp.abs(x[0]) / c[0]), c[0])  # noqa: E731
    return lax.while_loop(lambda c: jnp.abs(c[0] - c[1]) > 1e-9 * c[0], step, (1 + jnp.abs(x[0]), jnp.zeros((), F)))[0]


@jax.custom_jvp
def _soft(x):
    return jnp.sqrt(x * x + 1)


_soft.defjvp(lambda primals, tangents: (_soft(primals[0]), tangents[0] * primals[0] / _soft(primals[0])))


@jax.custom_vjp
def _rough(x):
    return jnp.sin(x)


_rough.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (g * x,))


def forward_calls(x, n):
    inner = jax.jit(lambda y: jax.jit(jnp.sin)(y) * _soft(y))
    return inner(x) + inner(2 * x), jax.checkpoint(inner)(x), jnp.linalg.norm(x)


def calls(x, n):
    return *forward_calls(x, n), _rough(x)


WHILES = (halve, never, swap, rotate, twice, nested, loop_in_condition, loop_in_branch, branch_in_loop, kinds, newton)
OTHERS = (branches_in_branches, switched, detour, known_branch, scanned, calls)
ALL = (*WHILES, endless_elsewhere, collatz, counted, *OTHERS)


def direct(f):
    """f of the only lane: its loops and branches stay what they are."""
    return lambda *xs: jax.tree.map(lambda o: o[..., None], f(*(x[..., 0] for x in xs)))


def masked(f):
    """f of all lanes, as `vmap` has it: loops go on until the last is done, branches become choices."""
    return lambda *xs: jax.vmap(f, in_axes=-1, out_axes=-1)(*xs)


def operands(size=23):
    rng = np.random.default_rng(7)
    x = rng.normal(size=(size, 3))
    x[3 % size], x[5 % size] = np.nan, 0
    return jnp.asarray(x), jnp.asarray(np.arange(size) * 7 % 11 - 2, jnp.int32)


@functools.cache
def reference(f):
    """f by XLA, lane by lane."""
    return jax.jit(lambda *xs: lax.map(lambda one: f(*one), xs))(*operands())


def same(got, wanted, rtol=1e-12):
    for (path, g), w in zip(jax.tree.leaves_with_path(got), jax.tree.leaves(wanted), strict=True):
        agree(g, w, rtol, jax.tree_util.keystr(path))


@pytest.mark.parametrize("f", ALL, ids=lambda f: f.__name__)
def test_control(f):
    for form in (direct, masked) if f is not endless_elsewhere else (direct,):
        same(kernel(form(f), *operands()), reference(f))


@pytest.mark.parametrize("longest", (1, 4))
@pytest.mark.parametrize(
    "f", (rotate, nested, loop_in_condition, branch_in_loop, branches_in_branches, kinds, twice, detour)
)
def test_control_in_small_pieces(monkeypatch, f, longest):
    """Values that cross from one piece of code to another, which only large programs have else."""

    def pieces(texts):
        return len(re.findall(r"define .* @piece\d+\(", "\n".join(texts)))

    def made(program, aim, single=False, level=2):
        runtime.provide(aim.vector_bytes, cpu.numbers(program))
        whole = cpu.modules(schedule(program), aim.vector_bytes, not aim.fused)
        monkeypatch.setattr(cpu, "PIECE", longest)
        small = cpu.modules(schedule(program), aim.vector_bytes, not aim.fused)
        assert pieces(small) > pieces(whole)
        found = host.made(program.key() + b"pieces of %d" % longest, lambda: small, cpu.HANDLER, level)
        host.register(found.name, found.address)
        return found

    monkeypatch.setattr(kernels, "made", made)
    same(kernel(direct(f), *operands()), reference(f))


# derivatives

SMOOTH = (scanned, calls, branches_in_branches, switched, detour, known_branch)


def total(f):
    """A number that depends on all floats that f gives."""

    def number(x, n):
        leaves = [o for o in jax.tree.leaves(f(x, n)) if jnp.issubdtype(o.dtype, jnp.floating)]
        return sum((jnp.sin(o.astype(F)).sum() * (k + 1) for k, o in enumerate(leaves)), jnp.zeros((), F))

    return number


def forward(f):
    return lambda x, n: jax.jvp(lambda y: f(y, n), (x,), (x * 0.5 + 1,))[1]


def fixed(x, n):
    """Loops that run a known number of times have reverse derivatives too."""
    step = lambda k, c: jnp.where(k % 2 == 0, jnp.sin(c) * x, lax.cond(n > k, lambda: c * c, lambda: -c))  # noqa: E731
    return lax.fori_loop(0, 5, step, x), lax.fori_loop(0, 2, step, x)


def compared(of, f, rtol=1e-9, forms=(direct,)):
    """`of` f, made of kernels and of XLA."""
    x, n = operands()
    x = jnp.nan_to_num(x) * 0.5  # where a known zero meets NaN, kernels have zero
    for form in forms:
        got = by_kernels(jax.vmap(of(laned(form(f)))), x, n)
        same(got, jax.jit(lambda *xs: lax.map(lambda one: of(f)(*one), xs))(x, n), rtol)


@pytest.mark.parametrize("f", (*SMOOTH, halve, swap, nested, twice, branch_in_loop, counted, newton, fixed))
def test_forward_derivatives(f):
    f = forward_calls if f is calls else f  # a rule for reverse derivatives alone has no forward ones
    compared(forward, total(f) if f in SMOOTH else f, forms=(direct, masked))


@pytest.mark.parametrize("f", (*SMOOTH, fixed))
def test_reverse_derivatives(f):
    compared(jax.grad, total(f), forms=(direct, masked))


HEAVY = [pytest.param(f, marks=pytest.mark.slow) for f in (scanned, branches_in_branches)]


@pytest.mark.parametrize("f", (calls, switched, detour, known_branch, fixed, *HEAVY))
def test_second_derivatives(f):
    compared(lambda g: jax.jacrev(jax.grad(g)), total(f))
    if f is not calls:
        compared(jax.hessian, total(f))


@pytest.mark.parametrize("name", ("gather", "cumulative", "dot", "extremes", "powers"))
def test_derivatives_of_primitives(name):
    put = lambda x: x.at[jnp.array([0, 2, 0])].add(x * x).at[1].multiply(x[0])  # noqa: E731
    f = {
        "gather": lambda x, n: (put(x), lax.dynamic_slice(x * x, (1,), (2,)), jnp.pad(x * x, 2), jnp.roll(x, 1) * x),
        "cumulative": lambda x, n: (jnp.cumsum(x * x), jnp.cumprod(x), lax.cummax(x), lax.cumsum(x * x, reverse=True)),
        "dot": lambda x, n: jnp.einsum("i,j,ij->", x, x, jnp.outer(x, x) + 1) * (x @ x),
        "extremes": lambda x, n: (x.max(), jnp.minimum(x, x[0]), jnp.clip(x, -0.5, 0.5), jnp.abs(x), x.prod()),
        "powers": lambda x, n: (
            (x * x + 1) ** -2,
            x**3,
            jnp.sqrt(x * x + 1),
            jnp.exp(x) / (2 + jnp.cos(x)),
            jnp.arctan2(x, x[0] + 3),
        ),
    }[name]
    compared(forward, f)
    compared(jax.grad, total(f))
    compared(jax.hessian, total(f))


# lanes beside each other


def tangle(x, n):
    y, _ = nested(x, n)
    return {
        "y": y,
        "z": branch_in_loop(y, n),
        "c": collatz(x, n),
        "s": switched(y, n),
        "w": jnp.linalg.norm(x) / (1 + y),
    }


def test_results_depend_on_nothing_but_the_lane():
    """Not on how many there are, where it stands, who stands beside it; bit for bit."""
    f = jax.jit(jax.vmap(laned(direct(tangle))))
    x, n = operands(1000)
    n = n.at[17].set(300)
    every = f(x, n)
    at = lambda k: jax.tree.map(lambda o: o[k], every)  # noqa: E731
    assert bits(f(x, n)) == bits(every)
    for size in (1, 2, 7, 64, 65, 513):
        for first in (0, 16):
            k = np.arange(first, first + size)
            assert bits(f(x[k], n[k])) == bits(at(k)), (size, first)
    mixed = np.random.default_rng(0).permutation(1000)
    assert bits(f(x[mixed], n[mixed])) == bits(at(mixed))
    alone = jax.vmap(lambda k: k * 0 + 11)(np.arange(9))
    assert bits(f(x[alone], n[alone])) == bits(at(np.full(9, 11)))
    ill = x.at[::2].set(jnp.nan)
    assert bits(jax.tree.map(lambda o: o[1::2], f(ill, n))) == bits(at(np.arange(1, 1000, 2)))


def test_maps_within_maps_in_any_order():
    g = laned(direct(tangle))
    x, n = operands(6)[0], operands(5)[1]
    one = jax.jit(jax.vmap(g))
    wanted = one(jnp.repeat(x, 5, 0), jnp.tile(n, 6))
    shaped = jax.tree.map(lambda o: o.reshape(6, 5, *o.shape[1:]), wanted)
    outer = jax.jit(jax.vmap(jax.vmap(g, (None, 0)), (0, None)))(x, n)
    inner = jax.jit(jax.vmap(jax.vmap(g, (0, None)), (None, 0), 1))(x, n)
    assert bits(outer) == bits(shaped) == bits(inner)
    eager = jax.vmap(jax.vmap(g, (None, 0)), (0, None))(x, n)
    assert bits(eager) == bits(shaped)
    scanned = jax.jit(lambda x, n: lax.map(lambda y: jax.vmap(g, (None, 0))(y, n), x))(x, n)
    assert bits(scanned) == bits(shaped)
    single = [jax.jit(g)(x[2], n[k]) for k in range(5)]
    assert bits(jax.tree.map(lambda *o: jnp.stack(o), *single)) == bits(jax.tree.map(lambda o: o[2], shaped))


def test_lanes_that_fill_a_vector_do_not_keep_others_waiting():
    """A loop that never ends for zeros, run with every number of lanes."""
    grow = lambda x: lax.while_loop(lambda c: c[0] < 1, lambda c: (c[0] * 2, c[1] + 1), (x, jnp.int32(0)))  # noqa: E731
    f = jax.jit(jax.vmap(laned(direct(grow))))
    x = jnp.asarray(0.9 * 0.5 ** np.arange(40))
    for size in range(1, 41):
        agree(f(x[:size])[1], np.arange(size, dtype=np.int32) + 1)
