"""Derivatives of forward dynamics: both modes against central differences along the closed loops, against each other
and against unrolled iterations; second order; and that none is NaN where something vanishes."""

import functools

import curves
import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from catalogue import CATALOGUE
from compiled import close, states, wrenches
from curves import GAINS, GEOMETRY, INERTIAS
from solvers import WIDEST

import jaxdyn as jd

STATE = ("q", "v")
FORCES = ("tau", "external")
ROWS = ("constraints",)

#: what may move while the rank of the rows stays what it is
ANYTHING = (STATE, FORCES, INERTIAS, GAINS, GEOMETRY, ROWS, STATE + FORCES + INERTIAS + GAINS + GEOMETRY + ROWS)
INNER = (STATE, FORCES, INERTIAS, GAINS, STATE + FORCES + INERTIAS + GAINS)
PLANE = (*INNER, GEOMETRY, (*STATE, *GEOMETRY))

#: ball, free, universal and screw joints with springs; redundant rows; a singular pose; every family of rows
ROBOTS = {
    "joints_floating": ANYTHING,
    "joints_grounded": (*ANYTHING, ("joints.rest",)),
    "parent_and_child": ANYTHING,
    "geared_arm": ANYTHING,
    "collar": ANYTHING,
    "balanced": ANYTHING,
    "general_of_three": ANYTHING,
    "four_bar_point": PLANE,
    "same_pair": INNER,
    "stretched_arm": INNER,
    # what a difference step changes of other inertias, and of armatures, exceeds those of the rods about their axes
    "thin_rods": ((*STATE, *FORCES, "bodies.mass", "gravity"),),
}
#: all others but those that gather their rows, along a curve that moves everything at once but what would change the
#: rank of their rows
REST = tuple(sorted(set(CATALOGUE) - set(ROBOTS) - set(WIDEST.values())))
BACKWARD = ("parent_and_child", "geared_arm", "four_bar_point", "joints_grounded", "balanced", "same_pair")


def dynamics(args, **options):
    model, q, v, tau, external = args
    found = jd.forward_dynamics(model, jd.State(q, v), tau, external=external, **options)
    return found.acceleration, found.multipliers


@jax.jit
def forward(args, directions):
    """Derivatives along each of a batch of directions."""
    return jax.vmap(lambda d: jax.jvp(dynamics, (args,), (d,))[1])(directions)


@jax.jit
def backward(args, cotangents):
    return jax.vjp(dynamics, args)[1](cotangents)[0]


@functools.cache
def setting(robot):
    """Arguments, directions (stacked), and the reference's derivatives along them."""
    q, v, tau = (x[0] for x in states(robot))
    made = [
        curves.curve(robot, q, v, tau, wrenches(robot)[0], moves, 10 * k, robot == "four_bar_point")
        for k, moves in enumerate(ROBOTS.get(robot, INNER[-1:]))
    ]
    # the tangent of the curve itself is smooth and cheap: a small step does
    directions = [curves.slope(c) for c in made]
    wanted = [curves.slope(lambda s, c=c: curves.reference(c(s))) for c in made]
    start = curves.Point(CATALOGUE[robot].build(), q, v, tau, wrenches(robot)[0])
    start = jax.tree.map(jnp.asarray, start)
    return tuple(start), tuple(jax.tree.map(lambda *x: jnp.stack(x), *directions)), wanted


@pytest.mark.parametrize("robot", [*ROBOTS, *REST])
def test_forward_mode_against_central_differences(robot):
    """Along one curve for each kind of argument, and along one that moves all."""
    args, directions, wanted = setting(robot)
    got = forward(args, directions)
    for k, (acceleration, multipliers) in enumerate(wanted):
        close(got[0][k], acceleration, 1e-6)
        close(got[1][k], multipliers, 1e-6)


@pytest.mark.parametrize("robot", BACKWARD)
def test_reverse_mode_is_the_transpose_of_forward_mode(robot):
    """Products with random cotangents agree for every direction."""
    args, directions, _ = setting(robot)
    along = forward(args, directions)
    rng = np.random.default_rng(0)
    cotangents = tuple(jnp.asarray(rng.normal(size=x.shape[1:])) for x in along)
    gradient = backward(args, cotangents)
    for k in range(len(along[0])):
        wanted = sum(np.vdot(c, x[k]) for c, x in zip(cotangents, along, strict=True))
        pairs = list(zip(jax.tree.leaves(gradient), jax.tree.leaves(directions), strict=True))
        parts = [float(np.vdot(g, d[k])) for g, d in pairs]
        close(sum(parts), wanted, 1e-10, max(1.0, np.abs(parts).max()))


@pytest.mark.parametrize("robot", ("geared_arm", "same_pair", "four_bar_point"))
def test_derivatives_of_accelerations_alone(robot):
    """Nobody reads the multipliers of minimum norm: neither accelerations nor their derivatives need them."""
    args, directions, wanted = setting(robot)
    push = jnp.cos(jnp.arange(float(args[0].nv)))
    alone = jax.jit(lambda args: dynamics(args)[0])
    close(alone(args), jax.jit(dynamics)(args)[0], 1e-11)
    gradient = jax.jit(lambda args: jax.vjp(alone, args)[1](push)[0])(args)
    slopes = jax.jit(jax.vmap(lambda d: jax.jvp(alone, (args,), (d,))[1]))(directions)
    for k, (acceleration, _) in enumerate(wanted):
        close(slopes[k], acceleration, 1e-6)
        pairs = list(zip(jax.tree.leaves(gradient), jax.tree.leaves(directions), strict=True))
        parts = [float(np.vdot(g, d[k])) for g, d in pairs]
        close(sum(parts), np.vdot(push, slopes[k]), 1e-9, max(1.0, np.abs(parts).max()))


def jump(args):
    model, q, v, p, _ = args
    found = jd.impulse(model, jd.State(q, v + 1.0), p, restitution=0.2)
    return found.velocity, found.impulses


def test_impulses_of_redundant_rows():
    """Whose range moves, against central differences along the closed loop, and backwards as forwards."""
    (model, q, v, p, external), *_ = setting("bowl")
    moved = curves.curve("bowl", *map(np.asarray, (q, v, p, external)), (*STATE, "tau", *INERTIAS), 3, False)
    args, direction = (model, q, v, p, external), curves.slope(moved)
    cotangents = jnp.cos(jnp.arange(6.0)), jnp.sin(jnp.arange(1.0, 3.0))

    @jax.jit
    def both():
        out, forwards = jax.jvp(jump, (args,), (tuple(direction),))
        return out, forwards, jax.vjp(jump, args)[1](cotangents)[0]

    out, forwards, gradient = both()
    dense = lambda p: oracle.impulse(p.model, p.q, p.v + 1.0, p.tau, restitution=0.2)  # noqa: E731
    wanted = curves.slope(lambda s: dense(moved(s)))
    for k, exact in enumerate(dense(moved(0))):
        close(out[k], exact, 1e-9)
        close(forwards[k], wanted[k], 1e-6)
    parts = [float(np.vdot(a, b)) for a, b in zip(jax.tree.leaves(gradient), jax.tree.leaves(direction), strict=True)]
    close(sum(parts), sum(np.vdot(c, x) for c, x in zip(cotangents, forwards, strict=True)), 1e-9)


def rest(robot):
    """At rest in the pose where loops were closed, with rotations and springs at zero."""
    entry = CATALOGUE[robot]
    model = entry.build()
    q = model.joints.rest if robot == "joints_floating" else jnp.asarray(entry.guess)
    return model, q, jnp.zeros(model.nv), jnp.zeros(model.nv), jnp.zeros((model.nb, 6))


@pytest.mark.parametrize("robot", BACKWARD)
def test_nothing_is_nan_at_rest(robot):
    """Zero velocity and force, coinciding frames, the identity rotation: every derivative is a number."""
    args = rest(robot)
    model = args[0]
    if robot == "geared_arm":
        args = (model, jnp.zeros_like(args[1]), *args[2:])
    primal = jax.tree.leaves(dynamics(args))
    assert all(np.isfinite(x).all() for x in primal)
    gradient = backward(args, (jnp.ones(model.nv), jnp.ones(len(primal[1]))))
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(gradient))
    assert any(np.abs(x).max() > 0 for x in jax.tree.leaves(gradient))


def test_nothing_is_nan_with_springs_of_balls_at_rest():
    args = rest("joints_floating")
    ones = jax.tree.map(lambda x: jnp.ones_like(x)[None].repeat(len(ANYTHING), 0), args)
    for x in forward(args, ones):
        assert np.isfinite(x).all()


SMALL = "geared_arm"


def scalar(x, adjoint="implicit"):
    """A smooth number of q, v and tau on a small geared arm."""
    model = CATALOGUE[SMALL].build()
    n = model.nv
    external = jnp.asarray(wrenches(SMALL)[0])
    a, lam = dynamics((model, x[:n], x[n : 2 * n], x[2 * n :], external), adjoint=adjoint)
    return jnp.sum(jnp.sin(a * 0.1)) + jnp.sum(lam * lam) * 1e-2


@functools.cache
def small_state():
    return jnp.concatenate([jnp.asarray(x[0]) for x in states(SMALL)])


gradient = jax.jit(jax.grad(scalar))


def test_unrolled_iterations_have_the_same_derivatives():
    unrolled = jax.jit(jax.grad(functools.partial(scalar, adjoint="unrolled")))
    close(unrolled(small_state()), gradient(small_state()), 1e-8)


def test_second_derivatives():
    """Forward over reverse and reverse over reverse, against differences of the gradient."""
    x = small_state()
    hessian = jax.jit(jax.hessian(scalar))(x)
    close(hessian, hessian.T, 1e-9)
    d = jnp.asarray(np.random.default_rng(3).normal(size=x.shape))
    close(hessian @ d, curves.slope(lambda s: gradient(x + s * d), 1e-5), 1e-6)
    twice = jax.jit(jax.grad(lambda x: jnp.vdot(jax.grad(scalar)(x), d)))(x)
    close(twice, hessian @ d, 1e-9)


def test_second_derivatives_of_accelerations_alone():
    """Forward over forward, forward over reverse and reverse over forward, against differences."""
    n = CATALOGUE[SMALL].build().nv
    external = jnp.asarray(wrenches(SMALL)[0])

    def alone(x):
        a, _ = dynamics((CATALOGUE[SMALL].build(), x[:n], x[n : 2 * n], x[2 * n :], external))
        return jnp.sum(jnp.sin(a * 0.1))

    x = small_state()
    d = jnp.asarray(np.random.default_rng(4).normal(size=x.shape))
    along = lambda x: jax.jvp(alone, (x,), (d,))[1]  # noqa: E731
    once = jax.jit(jax.grad(alone))
    wanted = curves.slope(lambda s: once(x + s * d), 1e-5)
    close(jax.jit(lambda x: jax.jvp(jax.grad(alone), (x,), (d,))[1])(x), wanted, 1e-6)
    close(jax.jit(jax.grad(along))(x), wanted, 1e-6)
    close(jax.jit(lambda x: jax.jvp(along, (x,), (d,))[1])(x), np.vdot(wanted, d), 1e-6)


def test_gradients_of_kinematics_and_energies():
    """Gravity is the gradient of the potential energy, momentum M v that of the kinetic one."""
    model = CATALOGUE["joints_grounded"].build()
    q, v, _ = (jnp.asarray(x[0]) for x in states("joints_grounded"))
    springless = model.replace({"joints.stiffness": jnp.zeros(model.nv)})
    slope = jax.jit(lambda m, q: jd.tangent(lambda x: jd.potential_energy(m, x), m, q))
    close(slope(springless, q), jd.gravity_forces(model, q), 1e-10)
    passive = jd.passive_forces(model, jd.State(q, jnp.zeros(model.nv)))
    close(slope(model, q) - slope(springless, q), -passive, 1e-10)
    momentum = jax.jit(jax.grad(lambda v: jd.kinetic_energy(model, jd.State(q, v))))(v)
    close(momentum, jd.mass_matrix(model, q) @ v, 1e-10)
