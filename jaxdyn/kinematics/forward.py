"""The sweep from the roots to the leaves: poses, velocities and accelerations of all bodies.

Twists are in body axes at the body's origin, accelerations are their component-wise derivatives (spatial
accelerations). With i a body and p its parent (Featherstone, Rigid Body Dynamics Algorithms, table 5.1):

| symbol | name here | recursion |
| --- | --- | --- |
| ᵖE_i, ᵖr_i | ``E, r`` | pose of i in p |
| R_i, p_i | ``R, p`` | R_p E, p_p + R_p r |
| ω_i, v_i | ``w, l`` | Eᵀω_p + ω_J, Eᵀ(v_p + ω_p × r) + v_J, with (ω_J, v_J) = S q̇ |
| c_i | ``cw, cl`` | (ω, v)_i × (ω_J, v_J) + Ṡ q̇ |
| α_i, a_i | ``aw, al`` | the same recursion of accelerations plus S q̈ + c |
| g_i | ``g`` | gravity in body axes: Eᵀ g_p |
"""

import functools
from collections.abc import Sequence

import jax.numpy as jnp
from jaxtyping import Array

from ..engine.kernel import kernel
from ..model.links import Link, combine, links, split_q, split_v
from ..model.model import Model
from ..spatial.small import cross, mm, mtv, mv
from ..tree.columns import from_parent
from ..tree.field import Field
from ..tree.plan import levels
from ..tree.sweep import down


@functools.cache
def _place(kind):
    return kernel(kind.place)


@functools.cache
def joint_motion(kind):
    """(angular, linear) of S x, None where it is zero by structure."""
    return kernel(lambda par, q, x: combine(kind.columns(par, q), x))


@functools.cache
def _bias(kind):
    """c_i of a joint kind, and its own velocity (ω_J, v_J)."""

    def bias(par, q, v, w, l):
        wj, lj = combine(kind.columns(par, q), v)
        cw = None if wj is None else cross(w, wj)
        cl = None if wj is None else cross(l, wj)
        if lj is not None:
            cl = cross(w, lj) if cl is None else cl + cross(w, lj)
        own = kind.bias(par, q, v)
        if own is not None:
            cw = cw if own[0] is None else (own[0] if cw is None else cw + own[0])
            cl = cl if own[1] is None else (own[1] if cl is None else cl + own[1])
        zero = jnp.zeros_like(w)
        return zero if cw is None else cw, zero if cl is None else cl

    return kernel(bias)


@kernel
def _turn(Rp, E):
    return mm(Rp, E)


@kernel
def _shift(pp, Rp, r):
    return pp + mv(Rp, r)


@kernel
def _gravity(E, g):
    return mtv(E, g)


def plus(x, y):
    """Sum of (angular, linear) pairs with None for zero."""
    return tuple(a if b is None else (b if a is None else a + b) for a, b in zip(x, y, strict=True))


def sweep(
    model: Model, q: Array, v: Array | None = None, a: Array | None = None, *, biased: bool = False
) -> tuple[dict[str, Field], list[Link], list[Array]]:
    """All the fields of the table (those of v and a when given), with the groups' constants and coordinates.

    Accelerations hold the velocity products when v is given; with `biased` they are there without a, too.
    """
    groups = levels(model.topology)
    constants = links(model, groups)
    coordinates = split_q(model.topology, q, groups)
    none = [None] * len(groups)
    rates = none if v is None else split_v(model.topology, v, groups)
    accelerations = none if a is None else split_v(model.topology, a, groups)
    gravity = model.gravity[:, None]

    def step(group, parent, link, x, rate, acceleration):
        E, r = _place(group.kind)(link.prepared, x)
        if r.shape[-1] < x.shape[-1]:
            r = jnp.broadcast_to(r, (*r.shape[:-1], x.shape[-1]))
        if E.shape[-1] < x.shape[-1]:
            E = jnp.broadcast_to(E, (*E.shape[:-1], x.shape[-1]))
        out = {"E": E, "r": r}
        top = parent is None
        out["R"] = E if top else _turn(parent["R"], E)
        out["p"] = r if top else _shift(parent["p"], parent["R"], r)
        out["g"] = _gravity(E, gravity if top else parent["g"])
        if rate is not None:
            own = joint_motion(group.kind)(link.par, x, rate)
            w, l = out["w"], out["l"] = _dense(
                plus((None, None) if top else from_parent(E, r, *_pair(parent, "w", "l")), own), r
            )
            out["cw"], out["cl"] = _bias(group.kind)(link.par, x, rate, w, l)
        if acceleration is not None or biased:
            own = (None, None) if acceleration is None else joint_motion(group.kind)(link.par, x, acceleration)
            if rate is not None:
                own = plus(own, (out["cw"], out["cl"]))
            moved = (None, None) if top else from_parent(E, r, *_pair(parent, "aw", "al"))
            out["aw"], out["al"] = _dense(plus(moved, own), r)
        return out, None

    fields, _ = down(groups, step, constants, coordinates, rates, accelerations)
    return fields, constants, coordinates


def _pair(parent, first: str, second: str):
    return parent[first], parent[second]


def _dense(pair: Sequence, like: Array) -> tuple:
    return tuple(jnp.zeros_like(like) if x is None else x for x in pair)
