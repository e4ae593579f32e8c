"""Shapes in annotations: every public function's result, and every field, is what it says on a real robot."""

import collections.abc
import dataclasses
import inspect
import re
import types
import typing
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float, jaxtyped

import jaxdyn as jd
import jaxdyn.interop

#: a floating robot whose nq, nv, nb, nu and m differ, and a number of time steps that is none of them
MODEL = jd.load("four_bar", floating=True)
STEPS = 2
Q = MODEL.neutral()
STATE = jd.State(Q, np.linspace(-0.3, 0.5, MODEL.nv))
TAU = np.linspace(-1.0, 1.0, MODEL.nv)
LUMP = jd.Inertia(2.0, (0.1, 0.2, 0.3), np.diag([0.5, 0.6, 0.7]))
SIZES = {"nq": MODEL.nq, "nv": MODEL.nv, "nb": MODEL.nb, "nu": MODEL.nu, "m": 3, "T": STEPS}
CLOSED = jd.embed(MODEL)
AT_REST = jd.State(CLOSED.neutral(), np.zeros(CLOSED.nv))

#: a call of every public function that returns arrays
CALLS = {
    "actuator_forces": lambda: jd.actuator_forces(MODEL, STATE, np.zeros(MODEL.nu)),
    "anchored": lambda: jd.anchored(MODEL, Q, jd.constraints.Weld("rocker")),
    "assemble": lambda: jd.assemble(MODEL, Q),
    "bias_forces": lambda: jd.bias_forces(MODEL, STATE),
    "center_of_mass": lambda: jd.center_of_mass(MODEL, Q),
    "centroidal_momentum": lambda: jd.centroidal_momentum(MODEL, STATE),
    "cold_start": lambda: jd.cold_start(MODEL),
    "constraint_bias": lambda: jd.constraint_bias(MODEL, STATE),
    "constraint_jacobian": lambda: jd.constraint_jacobian(MODEL, Q),
    "constraint_residual": lambda: jd.constraint_residual(MODEL, Q),
    "delassus": lambda: jd.delassus(MODEL, Q),
    "difference": lambda: jd.difference(MODEL, Q, Q),
    "expand": lambda: jd.expand(MODEL, STATE),
    "forward_dynamics": lambda: jd.forward_dynamics(MODEL, STATE, TAU),
    "forward_kinematics": lambda: jd.forward_kinematics(MODEL, Q),
    "frame_acceleration": lambda: jd.frame_acceleration(MODEL, STATE, TAU, "rocker"),
    "frame_pose": lambda: jd.frame_pose(MODEL, Q, "rocker"),
    "frame_velocity": lambda: jd.frame_velocity(MODEL, STATE, "rocker"),
    "gravity_forces": lambda: jd.gravity_forces(MODEL, Q),
    "impulse": lambda: jd.impulse(MODEL, STATE),
    "inertia_from_log_cholesky": lambda: jd.inertia_from_log_cholesky(np.zeros(10)),
    "integrate": lambda: jd.integrate(MODEL, Q, TAU),
    "inverse_dynamics": lambda: jd.inverse_dynamics(MODEL, STATE, TAU),
    "jacobian": lambda: jd.jacobian(MODEL, Q, "rocker"),
    "kinetic_energy": lambda: jd.kinetic_energy(MODEL, STATE),
    "load": lambda: MODEL,
    "log_cholesky_from_inertia": lambda: jd.log_cholesky_from_inertia(LUMP),
    "loop_forces": lambda: jd.loop_forces(CLOSED, AT_REST, AT_REST.v, AT_REST.v),
    "mass_matrix": lambda: jd.mass_matrix(MODEL, Q),
    "passive_forces": lambda: jd.passive_forces(MODEL, STATE),
    "potential_energy": lambda: jd.potential_energy(MODEL, Q),
    "reduce": lambda: jd.reduce(MODEL, STATE),
    "simulate": lambda: jd.simulate(MODEL, STATE, np.zeros((STEPS, MODEL.nv)), 1e-3),
    "step": lambda: jd.step(MODEL, STATE, TAU, 1e-3),
}
#: those whose results are no arrays, or whatever the caller's function makes
OTHERS = {"constraint_slices", "embed", "load_spec", "result_counts", "tangent"}
FUNCTIONS = sorted(n for n in jd.__all__ if inspect.isfunction(getattr(jd, n)))


def test_every_function_is_checked():
    assert set(CALLS) | OTHERS == set(FUNCTIONS)


def array_fields(kind: type) -> dict[str, typing.Any]:
    """The annotations of a dataclass's fields that are not static."""
    hints = typing.get_type_hints(kind)
    return {f.name: hints[f.name] for f in dataclasses.fields(kind) if not f.metadata.get("static")}


def misfits(what: str, value, hint) -> list[str]:
    """The places where a value is not what its annotation says; within `jaxtyped`, so that dimensions are shared."""
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        kinds = [h for h in typing.get_args(hint) if h is not type(None)]
        if value is None or len(kinds) > 1:
            return []
        (hint,) = kinds
    if dataclasses.is_dataclass(value) and dataclasses.is_dataclass(hint):
        if not isinstance(value, hint):
            return [f"{what} is a {type(value).__name__}, not a {hint.__name__}"]
        if type(value) in (jd.Transform, jd.Inertia):  # a stack of them has dimensions of its own
            with jaxtyped("context"):
                return fields_misfit(what, value)
        return fields_misfit(what, value)
    if hasattr(hint, "dim_str"):
        shape = f"{value.dtype}{value.shape}" if isinstance(value, jax.Array) else repr(value)
        return [] if isinstance(value, hint) else [f"{what} is {shape}, not {hint}"]
    return [f"{what} is annotated {hint}"] if isinstance(value, jax.Array) else []


def fields_misfit(what: str, value) -> list[str]:
    return [m for n, h in array_fields(type(value)).items() for m in misfits(f"{what}.{n}", getattr(value, n), h)]


@pytest.mark.parametrize("name", CALLS)
def test_results_have_the_shapes_of_their_annotations(name):
    hint = typing.get_type_hints(getattr(jd, name))["return"]
    value = CALLS[name]()
    with jaxtyped("context"):
        for size, n in SIZES.items():
            assert isinstance(jnp.zeros(n), Float[Array, f" {size}"])
        bad = misfits(name, value, hint)
    assert not bad, "\n".join(bad)


def functions() -> dict[str, Callable]:
    """Return all public functions with arguments that may be wrong, by name."""
    spaces = {"jd": jd, "jd.osim": jd.osim, "jd.contact": jd.contact, "jd.interop": jaxdyn.interop}
    found = {f"{space}.{name}": getattr(m, name) for space, m in spaces.items() for name in dir(m)}
    own = {k: f for k, f in found.items() if inspect.isfunction(f) and f.__module__.startswith("jaxdyn")}
    of_interop = {k: f for k, f in own.items() if k.startswith("jd.interop") and f.__module__ != "jaxdyn.interop"}
    adders = {
        f"ModelSpec.{n}": getattr(jd.ModelSpec, n) for n in dir(jd.ModelSpec) if n.startswith(("add_", "exclude"))
    }
    return {k: f for k, f in (own | adders).items() if k not in of_interop and not k.split(".")[-1].startswith("_")}


def test_docstrings_tell_what_is_raised():
    every = functions()
    assert {"jd.step", "jd.delassus", "jd.osim.conjugate_gradient", "jd.contact.explain"} < every.keys()
    silent = [name for name, f in every.items() if not re.search(r"[Rr]aises", inspect.getdoc(f) or "")]
    assert not silent, silent


CONSTRAINTS = {
    "Weld": lambda: jd.constraints.Weld("a"),
    "Hinge": lambda: jd.constraints.Hinge("a"),
    "Slider": lambda: jd.constraints.Slider("a"),
    "Cylinder": lambda: jd.constraints.Cylinder("a"),
    "Point": lambda: jd.constraints.Point("a"),
    "PointOnPlane": lambda: jd.constraints.PointOnPlane("a"),
    "Distance": lambda: jd.constraints.Distance("a", length=1.0),
    "Coupling": lambda: jd.constraints.Coupling(("a", "b"), (1.0, 2.0)),
    "CenterOfMass": lambda: jd.constraints.CenterOfMass(),
    "General": lambda: jd.constraints.General(("a",), lambda p: p.translation, 3),
    "Baumgarte": lambda: jd.constraints.Baumgarte(),
}


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_constraints_have_the_shapes_of_their_annotations(name):
    with jaxtyped("context"):
        bad = fields_misfit(name, CONSTRAINTS[name]())
    assert not bad, "\n".join(bad)


@pytest.mark.parametrize("name", ["mass", "nq"])
def test_the_check_sees_wrong_shapes(name):
    wrong = jd.State(np.zeros(5), np.zeros(9)) if name == "nq" else jd.Solution(jnp.zeros(4), jnp.zeros(3), None, None)
    with jaxtyped("context"):
        for size, n in SIZES.items():
            assert isinstance(jnp.zeros(n), Float[Array, f" {size}"])
        assert misfits("it", wrong, type(wrong))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_arrays_may_be_sequences(name):
    """Annotations say so too: type checkers refuse a list for the `ArrayLike` of jaxtyping."""
    for parameter in inspect.signature(getattr(jd, name)).parameters.values():
        kinds = typing.get_args(parameter.annotation)
        assert np.ndarray not in kinds or collections.abc.Sequence in map(typing.get_origin, kinds), parameter


@pytest.mark.parametrize("name", FUNCTIONS)
def test_docstrings_give_the_shapes_of_array_arguments(name):
    function = getattr(jd, name)
    for parameter in inspect.signature(function).parameters.values():
        if np.ndarray in typing.get_args(parameter.annotation):  # `ArrayLike` is a union with it
            shape = rf"\b{parameter.name}\b[^()]*\([^()]*\)"
            assert re.search(shape, function.__doc__), f"`{name}`: the docstring gives no shape of `{parameter.name}`"


@pytest.mark.parametrize("driven", [None, ["rocker"]])
def test_embedded_models_have_the_shapes_of_their_annotations(driven):
    """With arrays of all joints of the tree, and actuators on joints that depend on others."""
    model = jd.embed(MODEL, independent=driven)
    with jaxtyped("context"):
        bad = fields_misfit("model", model)
    assert not bad, "\n".join(bad)
    assert model.joints.damping.shape == (model.nv + 2,)
