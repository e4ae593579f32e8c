"""Products of small vectors and matrices as one primitive: out_o = Σ ± x_i y_j over a table of terms.

Written out, a product of two 3x3 matrices takes some fifteen operations to trace, and more for each derivative. As a
*form*, a table of terms that is part of the program, it takes one; and the derivatives of a form are forms.
"""

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

bilinear_p = Primitive("jaxdyn_bilinear")

Shape = tuple[int, ...]
#: (entry of the result, of x, of y, sign)
Term = tuple[int, int, int, int]


@dataclasses.dataclass(eq=False)
class Form:
    """The shapes of the components of x, y and the result, and the terms; equal forms are one object."""

    x: Shape
    y: Shape
    out: Shape
    terms: tuple[Term, ...]
    #: the same product by array operations, which XLA compiles better than single numbers
    formula: Callable | None = None

    def __call__(self, x, y):
        """Return the product; axes after the components broadcast."""
        x, y = jnp.asarray(x), jnp.asarray(y)
        if x.ndim - len(self.x) != y.ndim - len(self.y):
            rank = max(x.ndim - len(self.x), y.ndim - len(self.y))
            x, y = _trailing(x, self.x, rank), _trailing(y, self.y, rank)
        return bilinear_p.bind(x, y, form=self)

    @functools.cached_property
    def for_x(self) -> "Form":
        """Return the form from (cotangent, y) to the cotangent of x."""
        return form(self.out, self.y, self.x, tuple((i, o, j, s) for o, i, j, s in self.terms))

    @functools.cached_property
    def for_y(self) -> "Form":
        """Return the form from (x, cotangent) to the cotangent of y."""
        return form(self.x, self.out, self.y, tuple((j, i, o, s) for o, i, j, s in self.terms))

    @functools.cached_property
    def by_entry(self) -> tuple[tuple[tuple[int, int, int], ...], ...]:
        """Return the terms of every entry of the result, positive ones first."""
        found: list[list] = [[] for _ in range(int(np.prod(self.out)))]
        for o, i, j, s in self.terms:
            found[o].append((i, j, s))
        return tuple(tuple(sorted(t, key=lambda t: -t[2])) for t in found)

    def array(self, x, y):
        """Return the product, computed by array operations."""
        with jax.numpy_rank_promotion("allow"):
            return self._array(x, y)

    def _array(self, x, y):
        if self.formula is not None:
            return self.formula(x, y)
        turned = _forms.get((self.y, self.x, self.out, _sorted((o, j, i, s) for o, i, j, s in self.terms)))
        if turned is not None and turned.formula is not None:
            return turned.formula(y, x)
        tail = np.broadcast_shapes(x.shape[len(self.x) :], y.shape[len(self.y) :])
        x, y = x.reshape(-1, *x.shape[len(self.x) :]), y.reshape(-1, *y.shape[len(self.y) :])
        entries = []
        for terms in self.by_entry:
            total = jnp.zeros(tail, x.dtype)
            for k, (i, j, s) in enumerate(terms):
                part = x[i] * y[j]
                total = (part if s > 0 else -part) if k == 0 else total + part if s > 0 else total - part
            entries.append(total)
        return jnp.stack(entries).reshape(*self.out, *tail)


_forms: dict[tuple, Form] = {}


def _sorted(terms) -> tuple[Term, ...]:
    return tuple(sorted(terms))


def form(x: Shape, y: Shape, out: Shape, terms, formula: Callable | None = None) -> Form:
    """Return the form with these terms."""
    key = x, y, out, _sorted(terms)
    found = _forms.get(key)
    return found or _forms.setdefault(key, Form(x, y, out, key[3], formula))


def contraction(letters: str, formula: Callable) -> Form:
    """Return the form of a sum of products over axes of length 3, written as for `einsum`."""
    sides, out = letters.split("->")
    a, b = sides.split(",")
    names = sorted(set(a + b))
    place = lambda part, at: sum(at[c] * 3**k for k, c in enumerate(reversed(part)))  # noqa: E731
    every = (dict(zip(names, index, strict=True)) for index in np.ndindex(*(3,) * len(names)))
    terms = [(place(out, at), place(a, at), place(b, at), 1) for at in every]
    return form((3,) * len(a), (3,) * len(b), (3,) * len(out), terms, formula)


def _trailing(x, components: Shape, rank: int):
    missing = rank - (x.ndim - len(components))
    return x.reshape(*components, *(1,) * missing, *x.shape[len(components) :])


@bilinear_p.def_impl
def _impl(x, y, *, form):
    return jax.jit(form.array)(x, y)


@bilinear_p.def_abstract_eval
def _abstract(x, y, *, form):
    if x.dtype != y.dtype:
        raise TypeError(f"a product of {x.dtype} and {y.dtype}")
    tail = np.broadcast_shapes(x.shape[len(form.x) :], y.shape[len(form.y) :])
    return jax.core.ShapedArray((*form.out, *tail), x.dtype)


mlir.register_lowering(bilinear_p, mlir.lower_fun(lambda x, y, *, form: form.array(x, y), multiple_results=False))


def _summed_to(x, shape: Shape):
    """Return the cotangent of a broadcast operand: the sum over the axes along which it was broadcast."""
    axes = tuple(k for k, (have, want) in enumerate(zip(x.shape, shape, strict=True)) if have != want)
    return x.sum(axes, keepdims=True) if axes else x


ad.defbilinear(
    bilinear_p,
    lambda ct, x, y, *, form: _summed_to(form.for_x(ct, y), x.aval.shape),
    lambda ct, x, y, *, form: _summed_to(form.for_y(x, ct), y.aval.shape),
)


def _batch(args, dims, *, form: Form):
    def moved(x, d, components):
        k = len(components)
        return jnp.expand_dims(x, k) if d is None else jnp.moveaxis(x, d, k)

    x, y = (moved(a, d, c) for a, d, c in zip(args, dims, (form.x, form.y), strict=True))
    return bilinear_p.bind(x, y, form=form), len(form.out)


batching.primitive_batchers[bilinear_p] = _batch
