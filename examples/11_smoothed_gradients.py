"""11 Gradient descent finds contact, or does not.

Four tasks are optimised with exact gradients, with smoothed ones, and with smoothed and then exact ones. If nothing
touches yet, exact gradients are zero, whereas smoothed ones point towards contact. The tasks also show two limits of
smoothing: it does not see around a ball, and it does not reveal where friction gives way.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

import jaxdyn as jd

SMOOTHING = 0.1  # m/s
DT = 5e-3
#: force at which the block starts to slide, N
FRICTION = 2.0


class Task(NamedTuple):
    """A task: the cost as a function of parameters and contact law, the initial parameters, and the step size."""

    cost: Callable
    start: np.ndarray
    rate: float


def hand_and_block():
    """Return a hand and a block on one line; friction acts on the block."""
    spec, lump = jd.ModelSpec("hand and block"), jd.Inertia(1.0, (0, 0, 0), 0.01 * np.eye(3))
    along = (1.0, 0.0, 0.0)
    spec.add_body("hand", "world", jd.joints.Prismatic(axis=along), inertia=lump)
    spec.add_body("block", "world", jd.joints.Prismatic(axis=along, friction=FRICTION), inertia=lump)
    spec.add_shape("hand", jd.shapes.Sphere(0.05))
    spec.add_shape("block", jd.shapes.Box((0.1, 0.1, 0.1)))
    return spec.build()


def billiards():
    """Return two frictionless balls without gravity."""
    spec = jd.ModelSpec("billiards", gravity=(0, 0, 0))
    for name in ("cue", "ball"):
        spec.add_body(name, "world", jd.joints.Translation(), inertia=jd.Inertia(0.2, (0, 0, 0), 1e-4 * np.eye(3)))
        spec.add_shape(name, jd.shapes.Sphere(0.03), friction=0.0)
    return spec.build()


def tasks():
    """Return the tasks by name."""
    pair, balls = hand_and_block(), billiards()

    def pushed(hand, forces, law):
        """Return where the block is after 0.4 s if the hand starts at `hand` (m) and pushes with `forces` in turn."""
        tau = jnp.zeros((80, 2)).at[:, 0].set(jnp.repeat(forces, 80 // len(forces)))
        start = jd.State(jnp.array([hand, 0.0]), jnp.zeros(2))
        return jd.simulate(pair, start, tau, DT, contacts=law).q[-1, 1]

    def push(forces, law):
        """Cost of moving the block by 0.3 m with little effort; the hand starts 0.2 m away."""
        return (pushed(-0.3, forces, law) / 0.3 - 1) ** 2 + 1e-4 * jnp.mean(forces**2)

    def shot(velocity, law):
        """Cost of sending the ball to a pocket that is 0.34 m away, within 0.6 s."""
        start = jd.State(jnp.array([0, 0, 0, 0.5, 0, 0]), jnp.zeros(6).at[:2].set(velocity))
        ball, pocket = jd.simulate(balls, start, jnp.zeros((120, 6)), DT, contacts=law).q[-1, 3:5], (0.8, 0.15)
        return ((ball - jnp.array(pocket)) ** 2).sum() / (0.3**2 + 0.15**2)

    def hold(force, law):
        """Cost of pushing as strongly as possible without moving the block, which the hand touches."""
        return 1 - force[0] / FRICTION + 25 * pushed(-0.1, force, law)

    return {
        "push a block from afar": Task(push, np.zeros(8), 0.5),
        "hit a ball, missed on the right": Task(shot, np.array([1.2, -0.25]), 0.02),
        "hit a ball, missed on the left": Task(shot, np.array([1.2, 0.25]), 0.02),
        "push as friction just holds": Task(hold, np.array([1.0]), 0.03),
    }


@jax.jit(static_argnums=(0, 1, 4))
def descended(cost, law, x, rate, iterations):
    """Return the parameters after `iterations` steps of Adam, their cost, and the norm of the first gradient."""
    optimiser = optax.adam(rate)

    def improve(carried, _):
        x, memory = carried
        slope = jax.grad(cost)(x, law)
        change, memory = optimiser.update(slope, memory)
        return (optax.apply_updates(x, change), memory), jnp.linalg.norm(slope)

    (x, _), slopes = jax.lax.scan(improve, (x, optimiser.init(x)), length=iterations)
    return x, cost(x, law), slopes[0]


def main(iterations=200, verbose=True):
    exact, smoothed = jd.contact.PGS(), jd.contact.PGS(smoothing=SMOOTHING)
    got = {}
    for name, (cost, start, rate) in tasks().items():
        stalled = descended(cost, exact, start, rate, iterations)
        found = descended(cost, smoothed, start, rate, iterations)
        polished = descended(cost, exact, found[0], rate / 3, iterations)
        got[name] = {
            "slopes": (float(stalled[2]), float(found[2])),
            "exact": float(stalled[1]),
            "smoothed": float(found[1]),
            "then exact": float(polished[1]),
        }
    if verbose:
        print(f"{'gradients:':33} first: exact, smoothed    cost: exact  smoothed  then exact")
        for name, x in got.items():
            first, second = x["slopes"]
            costs = f"{x['exact']:9.3f} {x['smoothed']:9.3f} {x['then exact']:11.3f}"
            print(f"{name:33} {first:12.1e}, {second:8.1e}      {costs}")
    return got


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
