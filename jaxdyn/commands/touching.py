"""Parts of `jaxdyn simulate --contacts`: a start above the ground, and the report on contacts."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..contact import ADMM, PGS, Auto, Newton, detect
from ..contact.places import names_of, owners
from ..contact.solution import Contacts
from ..model.joints import FreeKind
from ..model.model import Model
from ..spatial.instances import counted
from ..tree.topology import WORLD

LAWS = {"auto": Auto, "newton": Newton, "admm": ADMM, "pgs": PGS}
#: most places whose forces a picture shows
NAMED = 8
#: most names of shapes in a message
MANY = 40


class Touches(NamedTuple):
    """The contacts of a piece of a rollout, where a place is a point at which a pair of shapes may touch: `force`
    (samples, places, 3), N, the mean since the previous sample, along the normal and two tangents; `gap` (samples,
    places), m, at the start of the step that ends in the sample, infinite for places without a slot; `deepest`, the
    least gap of all steps; `off`, m/s, the largest residual of the contact law."""

    force: Array
    gap: Array
    deepest: Array
    off: Array


def touches(found: Contacts, every: int, dt: float) -> Touches:
    """Return a summary of the contacts of some steps, with a sample every `every` steps."""
    steps, places = len(found.gaps), len(found.pairs)
    at = jnp.arange(steps)[:, None], found.which
    whole = jnp.zeros((steps, places, 3), found.gaps.dtype).at[at].set(found.impulses)
    force = whole.reshape(steps // every, every, places, 3).mean(1) / dt
    gap = jnp.full((steps, places), jnp.inf, found.gaps.dtype).at[at].set(found.gaps)
    return Touches(force, gap[every - 1 :: every], found.gaps.min(initial=jnp.inf), found.residual.max())


def touching(model: Model, patterns: Sequence[str]) -> Model:
    """Return the model with only the pairs of which one shape's name matches a pattern.

    **Raises** `ValueError` for a pattern that no pair matches.
    """
    names, found = model.collision.names, []
    for pattern in patterns:
        hit = {k for k, name in enumerate(names) if fnmatchcase(name, pattern)}
        pairs = [p for p in model.collision.pairs if hit & set(p)]
        if not pairs:
            known = ", ".join(names[:MANY]) + (", ..." if len(names) > MANY else "")
            raise ValueError(f"--touch {pattern!r}: no pair that collides has a shape of that name; there are {known}.")
        found += [p for p in pairs if p not in found]
    return model.with_pairs([(names[i], names[j]) for i, j in found])


def lifted(model: Model, q: Array) -> tuple[Array, float]:
    """Return q with floating bases lifted by the deepest overlap of a shape with the world, and the height in
    metres."""
    topology = model.topology
    shapes = model.collision.shapes
    low = [WORLD in (shapes[i].body, shapes[j].body) for i, j in owners(model)]
    deep = float(jnp.where(jnp.array(low), detect(model, q).gaps, 0).min()) if any(low) else 0.0
    roots = np.flatnonzero(np.equal(topology.parents, WORLD))
    bases = [int(b) for b in roots if isinstance(topology.kinds[b], FreeKind)]
    if deep >= 0 or not bases:
        return q, 0.0
    for b in bases:
        up = model.bodies.placement.rotation[b].T @ jnp.array([0.0, 0.0, -deep], q.dtype)
        at = topology.q_slice(b).start
        q = q.at[at : at + 3].add(up)
    return q, -deep


def told(model: Model, force: np.ndarray, deepest: float, off: float, lost: int, steps: int) -> list[str]:
    """Return lines of text about the contacts of all rollouts; `lost` of the `steps` did not meet the contact law."""
    pairs = names_of(model)
    load = force[..., 0].mean((0, 1))
    loads: dict[str, float] = {}
    for pair, newton in zip(pairs, load, strict=True):
        loads[" on ".join(pair)] = loads.get(" on ".join(pair), 0.0) + float(newton)
    most = sorted((x for x in loads.items() if x[1] > 0), key=lambda x: -x[1])[:4]
    carried = ", ".join(f"{name} {newton:.4g} N" for name, newton in most) or "nothing touched"
    least = f"shapes overlap by {-deepest:.2g} m at most" if deepest < 0 else f"the least gap is {deepest:.2g} m"
    places = counted(len(pairs), "place")
    lines = [f"{places} where shapes may touch; mean normal forces: {carried}", *([least] if pairs else [])]
    lines.append(f"the law of contact is met to {off:.2g} m/s, and missed in {lost} of {steps} steps")
    return lines


def draw(model: Model, axes, t: np.ndarray, force: np.ndarray) -> None:
    """Draw the normal components of the forces (samples, places, 3) of a rollout, which are means between the times
    (samples + 1,)."""
    busy = np.argsort(-force[..., 0].mean(0), kind="stable")
    pairs = names_of(model)
    for k in sorted(busy[:NAMED]):
        count = [j for j, pair in enumerate(pairs) if pair == pairs[k]]
        name = ", ".join(pairs[k]) + (f" {count.index(k) + 1}" if len(count) > 1 else "")
        axes.plot(t, np.append(force[:1, k, 0], force[:, k, 0]), label=name, linewidth=1, drawstyle="steps-pre")
    if len(busy):
        axes.legend(fontsize=7, ncols=2)
    more = f" (the {NAMED} largest of {len(pairs)})" if len(pairs) > NAMED else ""
    axes.set(ylabel=f"normal forces (N){more}")
