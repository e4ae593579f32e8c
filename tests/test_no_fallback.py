"""Nothing that is shipped is left to XLA: every function, solver and derivative has a scalar program."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from catalogue import CATALOGUE
from jax.extend import core as jex
from solvers import SOLVERS

import jaxdyn as jd
from jaxdyn.engine import kernels
from jaxdyn.engine.core import Core
from jaxdyn.engine.ops import TooLarge, Unsupported

#: every kind of joint; every kind of constraint, between bodies and with the world
ROBOTS = ("joints_floating", "joints_grounded", pytest.param("everything", marks=pytest.mark.slow), "four_bar_point")
BATCH = 3


def _inside(value):
    """Jaxprs in a parameter of an equation."""
    if isinstance(value, jex.ClosedJaxpr):
        yield value.jaxpr
    elif isinstance(value, jex.Jaxpr):
        yield value
    elif isinstance(value, tuple | list):
        for x in value:
            yield from _inside(x)


def cores(jaxpr):
    """What `kernels.program_of` is asked of every core that a jaxpr binds."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "jaxdyn":
            core, avals = eqn.params["core"], [v.aval for v in eqn.invars]
            shared = tuple(k is not None and a.shape[-1] == 1 for k, a in zip(core.known, avals, strict=True))
            yield core, eqn.params["used"], tuple((a.shape[:-1], a.dtype) for a in avals), shared
        else:
            for value in eqn.params.values():
                for inner in _inside(value):
                    yield from cores(inner)


def left_to_xla(f, *args) -> list[str]:
    """Which cores of f, mapped over all operands, have no program, or tell wrong shapes, and why."""
    found = list(cores(jax.make_jaxpr(jax.vmap(f))(*args).jaxpr))
    reasons = [] if found else ["nothing of it is a core"]
    for asked in dict.fromkeys(found):
        core, used, avals, _ = asked
        if core.shapes(used, avals) != Core.shapes(core, used, avals):
            reasons.append(f"{kernels.name_of(core)}: returns other shapes than it tells")
        try:
            kernels.program_of(*asked)
        except (Unsupported, TooLarge) as reason:
            reasons.append(f"{kernels.name_of(core)}: {reason}")
    return reasons


def operands(model):
    """q, v, tau of a few lanes: nothing is computed."""
    wide = lambda x: jnp.broadcast_to(x, (BATCH, *x.shape))  # noqa: E731
    return wide(model.neutral()), jnp.ones((BATCH, model.nv)), jnp.ones((BATCH, model.nv))


def functions(m: jd.Model) -> dict:
    """Public functions of q, v and tau by name."""
    S, body = jd.State, m.body_names[-1]
    found = {
        "integrate": lambda q, v, t: jd.integrate(m, q, v, 0.1),
        "difference": lambda q, v, t: jd.difference(m, q, q),
        "forward_kinematics": lambda q, v, t: jd.forward_kinematics(m, q),
        "frame_pose": lambda q, v, t: jd.frame_pose(m, q, body),
        "frame_velocity": lambda q, v, t: jd.frame_velocity(m, S(q, v), body),
        "frame_acceleration": lambda q, v, t: jd.frame_acceleration(m, S(q, v), t, body),
        "jacobian": lambda q, v, t: jd.jacobian(m, q, body),
        "mass_matrix": lambda q, v, t: jd.mass_matrix(m, q),
        "bias_forces": lambda q, v, t: jd.bias_forces(m, S(q, v)),
        "gravity_forces": lambda q, v, t: jd.gravity_forces(m, q),
        "passive_forces": lambda q, v, t: jd.passive_forces(m, S(q, v)),
        "inverse_dynamics": lambda q, v, t: jd.inverse_dynamics(m, S(q, v), t),
        "center_of_mass": lambda q, v, t: jd.center_of_mass(m, q),
        "centroidal_momentum": lambda q, v, t: jd.centroidal_momentum(m, S(q, v)),
        "kinetic_energy": lambda q, v, t: jd.kinetic_energy(m, S(q, v)),
        "potential_energy": lambda q, v, t: jd.potential_energy(m, q),
        "forward_dynamics": lambda q, v, t: jd.forward_dynamics(m, S(q, v), t),
        "step": lambda q, v, t: jd.step(m, S(q, v), t, 1e-3),
        "rk4": lambda q, v, t: jd.step(m, S(q, v), t, 1e-3, integrator=jd.integrators.RK4()),
        "implicit_midpoint": lambda q, v, t: jd.step(m, S(q, v), t, 1e-3, integrator=jd.integrators.ImplicitMidpoint()),
    }
    if m.constraints:
        found |= {
            "constraint_jacobian": lambda q, v, t: jd.constraint_jacobian(m, q),
            "constraint_bias": lambda q, v, t: jd.constraint_bias(m, S(q, v)),
            "constraint_residual": lambda q, v, t: jd.constraint_residual(m, q),
            "assemble": lambda q, v, t: jd.assemble(m, q),
            "impulse": lambda q, v, t: jd.impulse(m, S(q, v)),
        }
    return found


@pytest.mark.parametrize("robot", ROBOTS)
def test_functions(robot):
    model = CATALOGUE[robot].build()
    failed = {n: r for n, f in functions(model).items() if (r := left_to_xla(f, *operands(model)))}
    assert not failed, failed


def number(f):
    """A number of all floats that f gives, as a function of all its operands."""

    def total(args):
        leaves = [x for x in jax.tree.leaves(f(*args)) if jnp.issubdtype(x.dtype, jnp.inexact)]
        return sum((jnp.sin(x).sum() for x in leaves), jnp.zeros(()))

    return total


WITHOUT = {"assemble", "rk4", "implicit_midpoint", "frame_acceleration", "centroidal_momentum"}


@pytest.mark.parametrize("robot", ("four_bar_point", pytest.param("tip_weld", marks=pytest.mark.slow)))
def test_first_derivatives(robot):
    model = CATALOGUE[robot].build()
    args = operands(model)
    failed = {}
    for name, f in functions(model).items():
        if name in WITHOUT:
            continue
        along = lambda *a, f=f: jax.jvp(f, a, a)[1]  # noqa: E731
        back = lambda *a, f=f: jax.grad(number(f))(a)  # noqa: E731
        if reasons := [*left_to_xla(along, *args), *left_to_xla(back, *args)]:
            failed[name] = reasons
    assert not failed, failed


SOLVED = [n for n in SOLVERS if n != "Dense"]


def solved(name):
    """The solver's row, a robot with all that it must be capable of, its operands, and the solve."""
    row = SOLVERS[name]
    model = CATALOGUE[row.widest if row.constraints else "joints_floating"].build()
    solve = lambda s: lambda q, v, t: jd.forward_dynamics(model, jd.State(q, v), t, solver=s)  # noqa: E731
    return row.solver, operands(model), solve


@pytest.mark.parametrize("name", SOLVED)
def test_solvers(name):
    """In their default form; the solver of dense matrices is left to XLA."""
    solver, args, solve = solved(name)
    assert not left_to_xla(solve(solver), *args)


@pytest.mark.slow
@pytest.mark.parametrize("name", SOLVED)
def test_derivatives_of_solvers(name):
    """With a fixed number of steps too."""
    solver, args, solve = solved(name)
    assert not left_to_xla(lambda *a: jax.grad(number(solve(solver)))(a), *args)
    if any(f.name == "max_steps" for f in dataclasses.fields(solver)):
        assert not left_to_xla(solve(dataclasses.replace(solver, max_steps=2)), *args)


def test_precisions_and_batches_of_models():
    """Single precision; models whose numbers differ between lanes."""
    model = CATALOGUE["tip_weld"].build()
    single = jax.tree.map(lambda x: x.astype(np.float32) if x.dtype == np.float64 else x, model)
    args = tuple(x.astype(np.float32) for x in operands(model))
    assert not left_to_xla(lambda q, v, t: jd.forward_dynamics(single, jd.State(q, v), t), *args)
    models = jax.tree.map(lambda x: jnp.broadcast_to(x, (BATCH, *x.shape)), model)
    f = lambda m, q, v, t: jd.forward_dynamics(m, jd.State(q, v), t)  # noqa: E731
    assert not left_to_xla(f, models, *operands(model))
    assert not left_to_xla(
        lambda *a: jax.grad(lambda m: number(f)((m, *a[1:])), allow_int=True)(a[0]), models, *operands(model)
    )
