"""A factorised tree: the tables of `jaxdyn.tree.elimination` applied to inertias, and to right sides."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from ..engine.core import joined
from ..engine.sweeps import swept
from .elimination import CARRIED, Elimination

#: the parts that solves read; the others belong to kept rows
SWEPT = ("U", "V", "R", "Linv", "below", "taken")


class Factor(eqx.Module):
    """The factor of a tree's inertia, with or without ties between its bodies and rows that ride.

    **Fields:** `tables`; `joints`, the fields joint, q and pose; `parts`, the fields of the factor. If rows ride later
    (see `Elimination`), it has to be `ridden` before they have right sides or multipliers."""

    tables: Elimination = eqx.field(static=True)
    joints: dict[str, Any]
    parts: dict[str, Any]

    def solve(self, tau: Array, force, b: Array | None = None) -> tuple[Array, Any, Array | None]:
        """Return accelerations under generalised forces `tau` (nv, lanes) and bias forces (moment, force) on the
        bodies. With riding rows, whose right sides are `b` (m, lanes), also return the multipliers ν of [M Jᵀ; J −R]
        (a, ν) = (τ, b).

        This is the reduced two-sweep form (lcaba_proxbbo, Alg. 2 and 5). Returns the joints' accelerations (nv, lanes),
        those (angular, linear) of the bodies, and ν (m, lanes).
        """
        return self.down(kept_of(self.up(tau, force, b)))

    def up(self, tau: Array, force, b: Array | None = None) -> dict[str, Any]:
        """Return the results of the way up: u of joints and w of rows. With kept rows, ``"b"`` is the residual b − J a
        of their right sides `b` when no multipliers act along them."""
        topology, plan, given = self.tables.topology, self.tables.plan, self.joints | self.parts
        if plan.whole > plan.rows:
            b = jnp.zeros((plan.rows, 1), tau.dtype) if b is None else b
            b = joined([b, *(tau[jnp.asarray(c)] for c in topology.columns if c)])
        if topology.clusters:
            tau = jnp.zeros((topology.nv, tau.shape[-1]), tau.dtype).at[jnp.asarray(topology.independent)].set(tau)
        right = {} if b is None else {"b": b}
        found = swept(self.tables.up, given | {"tau": tau, "force": force} | ({} if self.tables.later else right))
        if self.tables.later and b is not None:
            found |= swept(self.tables.pushed, self.parts | {"u": found["u"], "b": b})
        return found

    def ridden(self) -> "Factor":
        """Return the factor after the rows have ridden, if they ride later."""
        if not self.tables.later:
            return self
        return self._with(swept(self.tables.along, self.joints | self.parts))

    def ridden_after(self, up: dict[str, Any]) -> tuple["Factor", Array]:
        """Return the factor after the rows have ridden, if they do so after a way `up`, and what ``"b"`` of that way
        would have been for right sides of zero."""
        found = swept(self.tables.along_after, self.joints | self.parts | {"u": up["u"]})
        return self._with(found), found["b"]

    def _with(self, found: dict[str, Any]) -> "Factor":
        parts = self.parts | {name: found[name] for name in CARRIED if name in found}
        return Factor(self.tables, self.joints, parts)

    def pulled(self, nu: Array) -> dict[str, Any]:
        """Return what the multipliers `nu` of kept rows give to the way down: themselves, or the forces ``"load"`` on
        the joints (nv, lanes) of rows that ride later."""
        plan = self.tables.plan
        if self.tables.later:
            return swept(self.tables.pulled, {"R": self.parts["R"], "nu": nu})
        if plan.whole > plan.rows:
            nu = jnp.concatenate([nu, jnp.zeros((plan.whole - plan.rows, nu.shape[-1]), nu.dtype)])
        return {"nu": nu}

    def down(self, up: dict[str, Any], nu: Array | None = None) -> tuple[Array, Any, Array | None]:
        """Return what `solve` returns, by the way down from u and w, with multipliers `nu` of kept rows."""
        topology, plan = self.tables.topology, self.tables.plan
        given = self.joints | self.parts | up | ({} if nu is None else self.pulled(nu))
        if self.tables.later:  # without multipliers, rows that ride later exert none
            given.setdefault("load", jnp.zeros((topology.nv, 1), up["u"].dtype))
        found = swept(self.tables.down, given)
        if not topology.clusters:
            return found["x"], found["a"], found.get("nu", nu)
        if plan.whole == plan.rows:
            return found["x"][jnp.asarray(topology.independent)], found["a"], found.get("nu", nu)
        nu = found["nu"]
        x = jnp.zeros((len(topology.independent), nu.shape[-1]), nu.dtype)
        if "x" in found:
            x = found["x"][jnp.asarray(topology.independent)]
        for k, columns in enumerate(topology.columns):
            if not columns:
                continue
            at = self.tables.plan.row("nu", -1 - k)
            x = x.at[jnp.asarray(columns)].set(nu[at.start : at.start + len(columns)])
        return x, found["a"], nu[: plan.rows] if plan.rows else None


def kept_of(up: dict[str, Any]) -> dict[str, Any]:
    """Return the results of the way up that the way down reads: u of joints and w of rows."""
    return {name: up[name] for name in ("u", "w") if name in up}


def factorise(
    tables: Elimination,
    inertia,
    armature: Array,
    joints: dict[str, Any],
    K=None,
    weights: Array | None = None,
    compliance: Array | None = None,
) -> Factor:
    """Return the factor (lcaba_proxbbo, backward sweeps of Alg. 1 and 4) of bodies with `inertia` and joints with
    `armature`. `K` are the coefficients of all rows, `weights` (m, lanes) those of penalised ones. `compliance` (m,
    lanes) is R of riding rows or, for hard rows, what their pivots must exceed."""
    given = joints | {"inertia": inertia, "armature": armature}
    if K is not None:
        more = tables.cells["K"].size - K[0].shape[0]
        given["K"] = tuple(jnp.concatenate([x, jnp.zeros((more, *x.shape[1:]), x.dtype)]) if more else x for x in K)
        given |= {} if weights is None else {"weight": weights, "own": K}
        given |= {} if compliance is None else {"compliance": compliance}
    own = given.pop("K") if tables.later else None
    found = swept(tables.factor, given)
    kept = *SWEPT, *(("L", "K", "H") if tables.keeps else ())
    parts = {name: found[name] for name in kept if name in found}
    return Factor(tables, joints, parts if own is None else parts | {"K": own})
