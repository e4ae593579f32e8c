"""A step of the default integrator, one program, is what forward dynamics and `integrate` make, as are its
derivatives."""

import functools
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from catalogue_base import at, bar, lump
from compiled import close

import jaxdyn as jd

DT = 2e-2


def satellite():
    spec = jd.ModelSpec("satellite", gravity=(0, 0, -1.0))
    spec.add_body("hull", "world", jd.joints.Free(), inertia=lump(2.0, (0, 0.05, 0)))
    joint = jd.joints.Revolute(axis=(0, 1, 0), stiffness=30.0, damping=0.5, armature=0.1)
    spec.add_body("arm", "hull", joint, placement=at(0.2, 0.1, 0, (1, 1, 0), 0.5), inertia=bar(1.0, (0.3, 0, 0)))
    return spec.build()


def sprung():
    model = jd.load("four_bar")
    return model.replace({"joints.stiffness": jnp.array([3.0, 0.0, 20.0]), "joints.damping": jnp.array([0.1, 0.3, 0])})


def embedded():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", jd.ModelWarning)
        return jd.embed(sprung())


MODELS = {"tree": satellite, "loop": sprung, "embedded": embedded}


@functools.cache
def point(name):
    """What a step takes, and a direction in which all of it moves."""
    model, rng = MODELS[name](), np.random.default_rng(0)
    q, v = (model.neutral(), 0.5 * rng.normal(size=model.nv))
    q = jd.integrate(model, jd.assemble(model, q) if model.constraints else q, 0.1 * v)
    tau, external = rng.normal(size=model.nv), rng.normal(size=(model.nb, 6))
    here = model, q, jnp.asarray(v), jnp.asarray(tau), jnp.asarray(external), jnp.asarray(DT)
    way = jax.tree.map(lambda x: jnp.asarray(0.1 * rng.normal(size=x.shape)), here)
    return here, way


def at_once(model, q, v, tau, external, dt):
    after = jd.step(model, jd.State(q, v), tau, dt, external=external)
    return after.q, after.v


def in_parts(model, q, v, tau, external, dt):
    joints = model.joints
    # gains of the joints of an embedded loop act at all of them
    G = jax.jacfwd(lambda w: jd.expand(model, jd.State(q, w)).v)(v) if model.topology.clusters else jnp.eye(model.nv)
    late = G.T @ (dt * joints.stiffness * (G @ v))
    heavy = model.replace({"joints.armature": joints.armature + dt * joints.damping + dt**2 * joints.stiffness})
    a = jd.forward_dynamics(heavy, jd.State(q, v), tau - late, external=external).acceleration
    q = jd.integrate(model, q, v + dt * a, dt)
    for s in (model.q_slice(name) for name in model.joint_names):
        if s.stop - s.start == 7:
            q = q.at[s.stop - 4 : s.stop].divide(jnp.linalg.norm(q[s.stop - 4 : s.stop]))
    return q, v + dt * a


@pytest.mark.parametrize("name", MODELS)
def test_a_step_is_its_parts(name):
    here, way = point(name)
    along = lambda f: jax.jit(lambda p, d: jax.jvp(lambda *x: jax.jvp(f, x, d), p, d))  # noqa: E731
    found, wanted = along(at_once)(here, way), along(in_parts)(here, way)
    for (one, other), tolerance in zip(zip(found, wanted, strict=True), (1e-9, 1e-7), strict=True):
        for x, y in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
            assert np.abs(np.asarray(y)).max() > 0
            close(x, y, tolerance)


@pytest.mark.parametrize("name", MODELS)
def test_reverse_mode_is_the_transpose(name):
    here, way = point(name)
    pull = jnp.arange(1.0, 1 + here[1].size), -jnp.arange(1.0, 1 + here[2].size)

    @jax.jit
    def both(here, way):
        moved = jax.jvp(at_once, here, way)[1]
        back = jax.vjp(at_once, *here)[1](pull)
        inner = lambda xs, ys: sum(jnp.vdot(x, y) for x, y in zip(*map(jax.tree.leaves, (xs, ys)), strict=True))  # noqa: E731
        return inner(moved, pull), inner(way, back)

    close(*both(here, way), 1e-9)


def test_solvers_are_refused_by_the_name_of_the_call():
    model = jd.load("four_bar")
    state, tau = jd.State(model.neutral(), jnp.zeros(3)), jnp.zeros(3)
    with pytest.raises(ValueError, match="`step`: `ABA` takes no constraints"):
        jd.step(model, state, tau, 1e-3, solver=jd.solvers.ABA())
    for integrator in (jd.integrators.SemiImplicitEuler(), jd.integrators.Leapfrog()):
        with pytest.raises(ValueError, match="`simulate`: `ABA` takes no constraints"):
            jd.simulate(model, state, tau[None], 1e-3, solver=jd.solvers.ABA(), integrator=integrator)


@pytest.mark.parametrize("integrator", [jd.integrators.SemiImplicitEuler(), jd.integrators.Leapfrog()])
def test_derivatives_without_jit(integrator):
    """Also of a part of the state: then other outputs are not computed."""
    (model, q, v, tau, _, dt), (_, dq, dv, *_) = point("loop")
    after = lambda q, v: jd.step(model, jd.State(q, v), tau, dt, integrator=integrator).v  # noqa: E731
    along = lambda q, v: jax.jvp(after, (q, v), (dq, dv))  # noqa: E731
    for got, wanted in zip(along(q, v), jax.jit(along)(q, v), strict=True):
        close(got, wanted, 1e-10)
