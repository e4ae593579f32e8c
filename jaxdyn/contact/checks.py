"""Checks of the arguments of calls with contact."""

import dataclasses
from typing import Any

from ..constrained.auto import Auto
from ..constrained.base import Solver
from ..constrained.lcaba import LCABA
from ..model.collision import warn_of_idle, warn_of_unread
from ..model.model import Model
from ..spatial.instances import check_instance
from .laws import FORMED, Law
from .limbs import groups_of, rows_of

#: numbers of slots a limb that an error may advise
FEWER = (2, 1)


def check_contacts(call: str, model: Model, law: Any, solver: Solver) -> None:
    """Raise an error unless the law of contact fits the model and the solver."""
    check_law(call, model, law)
    if solver not in (Auto(), LCABA()):
        raise ValueError(
            f"`{call}`: `solver` is {solver}: with `contacts` its rows are solved together with those of contact, and "
            "only the default `Auto()` or a plain `LCABA()` is accepted. Leave `solver` out."
        )


def check_law(call: str, model: Model, law, formed: bool = False) -> None:
    """Raise unless `law` is a law of contact and the model has contact rows, but not too many if G must be `formed`."""
    check_instance(f"`{call}`", "contacts", law, Law, " Use one such as `jd.contact.PGS()`.")
    warn_of_idle(f"`{call}`", model.collision.scene, model.collision.pairs, 5)
    warn_of_unread(f"`{call}`", model.collision.scene, 5)
    rows = rows_of(model, law)
    if rows > FORMED and (formed or not law.without_matrix(rows)):
        law_name, slots = type(law).__name__, sum(group.slots for group in groups_of(model, law))
        by, other = f" by `{law_name}`", "Take `jd.contact.ADMM()`, which takes any number; or choose"
        if formed:
            by, other = "", "Choose"
        fits = next((n for n in FEWER if rows_of(model, dataclasses.replace(law, slots=n)) <= FORMED), None)
        fewer = f"or fewer slots a limb: `jd.contact.{law_name}(slots={fits})`; " if fits else ""
        raise ValueError(
            f"`{call}`: `contacts` would have {rows} rows, and at most {FORMED} are solved together{by}: three "
            f"for each of {slots} slots where shapes may touch, one for every joint with limits or dry friction. "
            f"{other} the pairs that matter, such as the feet: "
            f"`model.with_pairs([('foot', 'ground')])`; {fewer}or "
            f"leave joints out: `jd.contact.{law_name}(limits=False, dry_friction=False)`."
        )
    if not rows:
        unread = model.collision.scene.unread
        advice = "Give it shapes: `jd.load(..., ground=True)`, or `ModelSpec.add_shape` and `add_ground`."
        if unread:
            advice = f'Its shape {unread[0]!r} is a mesh that was not read: `jd.load(..., collision="all")` reads it.'
        raise ValueError(
            f"`{call}`: `contacts` is given, but no shapes of {model.name!r} can collide, and no joint has limits or "
            f"dry friction. {advice}"
        )
