"""Contact without restitution makes no energy: a thousand random drops of a box and of a body with two links.

The work of contact in a step is what its impulses P add to the kinetic energy: with w the velocities at the end in the
axes of the start, and w₀ those without contact, M (w − w₀) = P and

    W = ½ wᵀ M w − ½ w₀ᵀ M w₀ = λᵀ σ − ½ λᵀ G λ,   σ = J w.

Friction works against σ_t, and normal impulses at a speed σ_n that is the gap's to close within the step, or that at
which an overlap is taken away: W is at most the sum of λ_n times the latter, and never positive where nothing recovers.
"""

import functools

import contact_scenes as scenes
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdyn as jd

DROPS, STEPS, DT = 1000, 400, 2e-3
SCENES = {"box": scenes.box, "two_links": scenes.two_links}
RECOVERY = {0.0: jd.contact.PGS(recovery=0.0), 0.2: jd.contact.PGS()}


@functools.cache
def drops(name, recovery):
    """The model, and trajectories (drops, steps, ...) from random places, turned and thrown at random."""
    model, q = SCENES[name]()
    rng = np.random.default_rng(7)
    start = np.tile(q, (DROPS, 1))
    start[:, :3] = rng.uniform(0.9, 1.1, (DROPS, 3))
    turn = rng.normal(size=(DROPS, 4))
    start[:, 3:7] = turn / np.linalg.norm(turn, axis=1, keepdims=True)
    start[:, 7:] = rng.uniform(-2, 2, (DROPS, model.nq - 7))
    v = rng.normal(size=(DROPS, model.nv)) * ([1.0] * 2 + [2.0] + [3.0] * (model.nv - 3))

    def run(q, v):
        none = jnp.zeros((STEPS, model.nv))
        return jd.simulate(model, jd.State(q, v), none, DT, contacts=RECOVERY[recovery])

    found = jax.jit(jax.vmap(run))(start, v)
    assert np.isfinite(np.asarray(found.v)).all()
    return model, found


def energy(model, q, v):
    return jd.kinetic_energy(model, jd.State(q, v)) + jd.potential_energy(model, q)


def start_axes(q0, q1, v1):
    """The velocities v1 of a robot with a free base in the base's axes at q0."""
    turn = [jd.Transform.from_quaternion(q[3:7], (0, 0, 0)).rotation for q in (q0, q1)]
    return jnp.concatenate([turn[0].T @ (turn[1] @ v1[:3]), v1[3:]])


@functools.cache
def works(name, recovery):
    """By drops and steps: the work of contact, the kinetic energy without it, the whole energy at the start, and what a
    step without contact adds to that."""
    model, found = drops(name, recovery)
    deep = np.asarray(model.collision.placement.translation) * 1.0
    deep[-1, 2] = -1e3
    free = model.replace({"collision.placement.translation": deep})

    def one(q, v, q1, v1):
        alone = jd.step(free, jd.State(q, v), jnp.zeros(model.nv), DT, contacts=RECOVERY[recovery])
        ends = [start_axes(q, x, y) for x, y in ((q1, v1), (alone.q, alone.v))]
        M = jd.mass_matrix(model, q)
        kinetic = [0.5 * w @ M @ w for w in ends]
        whole = [energy(model, *x) for x in ((q, v), (alone.q, alone.v))]
        return kinetic[0] - kinetic[1], kinetic[1], whole[0], whole[1] - whole[0]

    flat = [x.reshape(-1, x.shape[-1]) for x in (found.q[:, :-1], found.v[:, :-1], found.q[:, 1:], found.v[:, 1:])]
    return [np.asarray(x).reshape(DROPS, STEPS) for x in jax.jit(jax.vmap(one))(*flat)]


@pytest.mark.parametrize("name", SCENES)
@pytest.mark.parametrize("recovery", RECOVERY)
def test_contact_does_no_work(name, recovery):
    """But that of taking away overlaps."""
    _, found = drops(name, recovery)
    work, kinetic, *_ = works(name, recovery)
    push, gaps = np.asarray(found.contacts.impulses[..., 0]), np.asarray(found.contacts.gaps)
    assert (push.sum(-1) > 0).any(1).mean() > 0.9 and work.min() < -1
    taken = (push * np.clip(-recovery * gaps / DT, 0, RECOVERY[recovery].recovery_speed)).sum(-1)
    assert (work - taken - 1e-14 * kinetic).max() <= 0


def test_a_box_has_never_more_energy_than_at_the_start():
    *_, whole, _ = works("box", 0.2)
    assert (whole <= whole[:, :1] * (1 + 1e-12)).all()


@pytest.mark.parametrize("name", SCENES)
def test_energy_at_the_end_is_less_than_at_the_start(name):
    """Beyond what steps of the same motion without contact add, as those of links that turn fast do."""
    *_, whole, free = works(name, 0.2)
    added = np.cumsum(np.maximum(free, 0), 1)
    over = whole[:, 1:] - whole[:, :1] - added[:, :-1]
    assert (over <= 1e-12 * whole[:, :1]).all()
    assert (over[:, -1] < 0).all()
