"""One step with contact against `contact_oracle`: dense algebra and a slow solver that share no code with jaxdyn."""

import functools
import math
from typing import NamedTuple

import contact_oracle
import contact_scenes as scenes
import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest

import jaxdyn as jd
from jaxdyn.contact.problem import begun, touching
from jaxdyn.engine.lanes import laned

#: enough sweeps for lanes that settle at all
LAW = jd.contact.PGS(sweeps=5000)
LANES, DT = 16, 5e-3


def _matrix(law, model, constraints, q, v, tau, dt):
    return touching(begun(law, model, constraints, q, v, tau, None, dt), law).G


@jax.jit
def program(model, q, v, tau):
    """G, and one step."""

    def one(q, v, tau):
        G = laned(_matrix, LAW)(model, model.constraints, q, v, tau, jnp.asarray(DT, q.dtype))
        return G, jd.simulate(model, jd.State(q, v), tau[None], DT, contacts=LAW)

    return jax.vmap(one)(q, v, tau)


def lying(made):
    """The scene of two links, flat on the ground."""
    return made[0], np.array([*scenes.pose(z=0.055, tilt=math.pi / 2), 0.02])


SCENES = {
    "balls": lambda: scenes.balls(3, friction=0.4),
    "box": lambda: scenes.box(slope=0.2),
    "two_links": lambda: lying(scenes.two_links()),
    "two_links_bounce": lambda: lying(scenes.two_links(restitution=0.7)),
    "quadruped": scenes.quadruped,
    "quadruped_slippery": lambda: scenes.quadruped(friction=0.1),
    "quadruped_soft": lambda: scenes.quadruped(stiffness=1e4, damping=50.0),
    "booted": scenes.booted,
    "looped": scenes.looped,
    "looped_soft": lambda: scenes.looped(stiffness=1e4, friction=0.1),
    "strider": scenes.strider,
}
#: but for boots, on whose five points a foot sweeps do not settle to the last digit
NAMES = [pytest.param(n, marks=pytest.mark.slow) if n == "strider" else n for n in SCENES if n != "booted"]
EACH = pytest.mark.parametrize("name", NAMES)


class Case(NamedTuple):
    """A model, its states, what jaxdyn and what the oracle finds."""

    model: jd.Model
    q: np.ndarray
    v: np.ndarray
    G: np.ndarray
    found: jd.Trajectory
    wanted: list


def states(model, q, lanes=LANES, seed=0):
    """Configurations around q and velocities, which close loops."""
    rng, out = np.random.default_rng(seed), []
    for _ in range(lanes):
        moved = np.asarray(jd.integrate(model, q, 0.05 * rng.normal(size=model.nv), 1.0))
        v = 0.5 * rng.normal(size=model.nv)
        if model.constraints:
            moved = np.asarray(jd.assemble(model, moved))
            K = oracle.constraint_jacobian(model, moved)
            v = v - np.linalg.pinv(K, rcond=1e-9) @ K @ v
        out.append((moved, v, rng.normal(size=model.nv)))
    return tuple(map(np.array, zip(*out, strict=True)))


@functools.cache
def case(name) -> Case:
    model, q = SCENES[name]()
    q, v, tau = states(model, q)
    G, found = program(model, q, v, tau)
    wanted = [contact_oracle.step(model, *x, DT, LAW) for x in zip(q, v, tau, strict=True)]
    return Case(model, q, v, np.asarray(G), found, wanted)


def slots(made: Case, k: int) -> list[int]:
    """For every slot of jaxdyn the place of the oracle's contact, by their gaps."""
    left, out = dict(enumerate(c.gap for c in made.wanted[k].contacts)), []
    for gap in np.asarray(made.found.contacts.gaps[k, 0]):
        out.append(min(left, key=lambda i: abs(left[i] - gap)))
        del left[out[-1]]
    assert not left
    return out


def rows(places):
    return np.array([3 * p + i for p in places for i in range(3)], int)


@pytest.mark.parametrize("name", [*NAMES, "booted"])
def test_gaps_and_matrix(name):
    made = case(name)
    for k, wanted in enumerate(made.wanted):
        at = slots(made, k)
        gaps = np.array([wanted.contacts[p].gap for p in at])
        np.testing.assert_allclose(made.found.contacts.gaps[k, 0], gaps, rtol=0, atol=1e-14)
        block = wanted.G[np.ix_(rows(at), rows(at))]
        assert np.abs(made.G[k] - block).max() <= 1e-13 * np.abs(block).max()


@EACH
def test_forces_obey_the_law(name):
    """With the oracle's numbers; and forces move the robot as the oracle's dynamics say."""
    made, known = case(name), 0
    for k, wanted in enumerate(made.wanted):
        at = slots(made, k)
        lam = np.zeros(len(wanted.g))
        lam[rows(at)] = np.asarray(made.found.contacts.impulses[k, 0]).ravel()
        size = np.abs(wanted.g).max()
        left = contact_oracle.left_of(wanted.G, wanted.g, wanted.friction, lam)
        told = float(made.found.contacts.residual[k, 0])
        assert left <= 10 * told + 1e-12 * size
        known += left <= 1e-10 * size
        after = contact_oracle.after(made.model, made.q[k], made.v[k], DT, wanted, lam)
        np.testing.assert_allclose(made.found.v[k, 1], after[1], rtol=0, atol=1e-11 * max(1, np.abs(after[1]).max()))
        turn = DT * np.abs(after[1]).max()  # a step's way is straight up to the fourth order in the angle
        np.testing.assert_allclose(made.found.q[k, 1], after[0], rtol=0, atol=1e-12 + turn**5 / 100)
    assert known >= 0.9 * LANES, known


@EACH
def test_motion_is_that_of_the_oracle_where_it_is_unique(name):
    """Of redundant contacts forces are not unique; where some slide and the normal forces are not, motion is not."""
    made, compared = case(name), 0
    for k, wanted in enumerate(made.wanted):
        push = np.flatnonzero(modes(wanted) != "breaks")
        known = wanted.left <= 1e-12 * np.abs(wanted.g).max()
        sticks = (modes(wanted)[push] == "sticks").all()
        if not len(push) or not known or not (sticks or unique(wanted.G, 3 * push)):
            continue
        compared += 1
        scale = max(1, np.abs(wanted.v).max())
        np.testing.assert_allclose(made.found.v[k, 1], wanted.v, rtol=0, atol=1e-10 * scale)
        if unique(wanted.G, rows(push)):
            found = made.found.contacts.impulses[k, 0]
            np.testing.assert_allclose(found, wanted.impulses[slots(made, k)], rtol=0, atol=1e-10)
    assert compared >= 3, compared


def modes(wanted) -> np.ndarray:
    """What the oracle's contacts do."""
    n, t = wanted.impulses[:, 0], np.linalg.norm(wanted.impulses[:, 1:], axis=1)
    return np.where(n <= 1e-12, "breaks", np.where(t < 0.999 * wanted.friction * n, "sticks", "slides"))


def unique(G, at) -> bool:
    return np.linalg.cond(G[np.ix_(at, at)]) < 1e8


def test_every_mode_is_among_them():
    """Contacts that break, stick and slide, with loops and without."""
    for names in (["looped", "looped_soft"], ["balls", "two_links", "quadruped", "quadruped_slippery"]):
        seen = {mode for name in names for wanted in case(name).wanted for mode in modes(wanted)}
        assert seen == {"breaks", "sticks", "slides"}, names
