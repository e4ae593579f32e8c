"""Meshes of devices. In `jax.shard_map` each device runs the program on its own part of the arrays; the type of a value
tells the axes of the mesh over which it *varies*, i.e. differs between devices. JAX sums gradients over the other axes.
"""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import jax
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


def varying(*trees) -> frozenset:
    """Return the axes over which arrays vary."""
    found: frozenset = frozenset()
    for x in jax.tree.leaves(trees):
        if isinstance(x, jax.core.Tracer):
            found |= _of(jax.typeof(x))
    return found


def _of(aval) -> frozenset:
    return getattr(getattr(aval, "manual_axis_type", None), "varying", frozenset())


def sharded() -> bool:
    """Return whether this is traced in `jax.shard_map`."""
    return bool(jax.sharding.get_abstract_mesh().manual_axes)


def alike(tree: T, *others) -> T:
    """Return a tree of arrays that vary over all axes over which any of them, or of the others, varies."""
    axes = varying(tree, others)
    if not axes:
        return tree

    def cast(x):
        own = _of(jax.typeof(x))
        return jax.lax.pcast(x, tuple(a for a in axes if a not in own), to="varying") if axes - own else x

    return jax.tree.map(cast, tree)


def made(avals, shape: tuple, dtype) -> jax.core.ShapedArray:
    """Return the type of an array whose last axis is the lanes, computed from arrays of the types `avals`, which vary
    over the same axes of a mesh."""
    like = max((a for a in avals if not a.sharding.mesh.empty), key=lambda a: a.shape[-1], default=None)
    if like is None:
        return jax.core.ShapedArray(shape, dtype)
    spec = PartitionSpec(*[None] * (len(shape) - 1), like.sharding.spec[-1])
    sharding = NamedSharding(like.sharding.mesh, spec)
    return like.update(shape=shape, dtype=dtype, weak_type=False, sharding=sharding)


def plain(ctx):
    """Return the context of a lowering rule with types of arrays that do not know of a mesh: the code of one device is
    the same everywhere."""
    return ctx.replace(avals_in=[jax.core.ShapedArray(a.shape, a.dtype) for a in ctx.avals_in])


def meshless(fn: Callable[P, R]) -> Callable[P, R]:
    """Return a function that forgets the mesh of its caller, so that what it traces serves all callers."""

    @functools.wraps(fn)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if jax.sharding.get_abstract_mesh().empty:
            return fn(*args, **kwargs)
        with jax.sharding.use_abstract_mesh(AbstractMesh((), ())):
            return fn(*args, **kwargs)

    return call
