"""Checks of the arguments of public functions. They look at types, shapes and dtypes, before anything is traced."""

import dataclasses
import functools
import weakref
from collections.abc import Sequence
from typing import Any, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..spatial.instances import check_instance, described
from ..spatial.numbers import floats, is_half
from ..spatial.transform import Transform
from .collision import PairValues
from .constraints import Baumgarte, Constraint
from .model import Model
from .state import State

#: models whose shapes are right, by id: they do not change, and checking them takes as long as a short call
_SOUND: weakref.WeakValueDictionary[int, Model] = weakref.WeakValueDictionary()


def check_model(call: str, model: Any, name: str = "model") -> Model:
    check_instance(f"`{call}`", name, model, Model, " Use `load(...)` or `ModelSpec`.")
    if _SOUND.get(id(model)) is not model:
        _check_shapes(call, model)
        _SOUND[id(model)] = model
    _check_precision(call, model)
    if model.nb == 0 and call != "frame_pose":
        raise ValueError(f"`{call}`: no joint of {model.name!r} moves; load it with `floating=True`, or add a joint.")
    return model


def _check_shapes(call: str, model: Model) -> None:
    """Raise `ValueError` for arrays of another shape than the robot's, as after `equinox.tree_at`."""
    nb, n, nq = model.nb, model.topology.nv, model.nq
    bodies, joints, place = model.bodies, model.joints, model.bodies.placement
    nf, shapes, ns = len(model.topology.frame_names), model.collision, len(model.collision.shapes)
    known: list[tuple[str, Any, tuple[int, ...]]] = [
        ("gravity", model.gravity, (3,)),
        ("bodies.mass", bodies.mass, (nb,)),
        ("bodies.center_of_mass", bodies.center_of_mass, (nb, 3)),
        ("bodies.rotational", bodies.rotational, (nb, 3, 3)),
        ("bodies.placement.rotation", place.rotation, (nb, 3, 3)),
        ("bodies.placement.translation", place.translation, (nb, 3)),
        ("joints.axis", joints.axis, (nb, 3)),
        ("joints.axis2", joints.axis2, (nb, 3)),
        ("joints.pitch", joints.pitch, (nb,)),
        ("joints.armature", joints.armature, (n,)),
        ("joints.damping", joints.damping, (n,)),
        ("joints.stiffness", joints.stiffness, (n,)),
        ("joints.rest", joints.rest, (nq,)),
        ("joints.lower", joints.lower, (n,)),
        ("joints.upper", joints.upper, (n,)),
        ("joints.effort", joints.effort, (n,)),
        ("joints.friction", joints.friction, (n,)),
        *((f"joints.own.{k}", x, (nb, *np.shape(x)[1:])) for k, x in joints.own.items()),
        ("frames.rotation", model.frames.rotation, (nf, 3, 3)),
        ("frames.translation", model.frames.translation, (nf, 3)),
        ("actuation", model.actuation, (n if np.shape(model.actuation)[:1] == (n,) else model.nv, model.nu)),
        *((f"actuators.{what}", x, (model.nu,)) for what, x in vars(model.actuators).items()),
    ]
    if model.keyframes is not None:
        sizes = {"q": nq, "v": n, "command": model.nu}
        count = len(model.keyframes.names)
        known += [(f"keyframes.{what}", getattr(model.keyframes, what), (count, m)) for what, m in sizes.items()]
    if model.home is not None:
        known.append(("home", model.home, (nq,)))
    if ns:
        known += [
            ("collision.size", shapes.size, (ns, 3)),
            ("collision.placement.rotation", shapes.placement.rotation, (ns, 3, 3)),
            ("collision.placement.translation", shapes.placement.translation, (ns, 3)),
            *((f"collision.{what}", getattr(shapes, what), (ns,)) for what in PairValues._fields),
        ]
    for path, x, shape in known:
        _check_shape(call, f"model.{path}", x, shape)
    for k, c in enumerate(model.constraints):
        _check_rows(call, f"model.constraints.{k}", c, c.layout(model.topology).rows)


def _check_shape(call: str, path: str, x: Any, shape: tuple[int | None, ...]) -> None:
    """Raise an error unless x is an array of a shape, in which None stands for any size."""
    found = getattr(x, "shape", None)
    if found is None:
        raise TypeError(f"`{call}`: `{path}` is {described(x)}, not an array. Use `Model.replace`.")
    fits = lambda own: len(own) == len(shape) and all(n in (None, m) for n, m in zip(shape, own, strict=True))  # noqa: E731
    if fits(found):
        return
    of = path.split(".")[0].split("[")[0]
    of = {"model": "models"}.get(of, of)
    hint = f"; map over {of} with `jax.vmap`" if fits(found[len(found) - len(shape) :]) else ". Use `Model.replace`"
    told = str(tuple("any" if n is None else n for n in shape)).replace("'any'", "any")
    raise ValueError(f"`{call}`: `{path}` has shape {found}, not {told}{hint}.")


def _check_rows(call: str, path: str, constraint: Constraint, rows: int) -> None:
    """Raise an error unless the arrays of a constraint with this number of rows have the shapes of a single one."""
    sizes = {"rows": rows, "joints": len(getattr(constraint, "joints", ()))}
    for own, kind in _arrays(type(constraint)):
        x = getattr(constraint, own)
        if x is not None:
            _check_shape(call, f"{path}.{own}", x, tuple(int(n) if n.isdigit() else sizes.get(n) for n in kind))
    for own, x in vars(constraint).items():
        if isinstance(x, Transform):
            _check_shape(call, f"{path}.{own}.rotation", x.rotation, (3, 3))
            _check_shape(call, f"{path}.{own}.translation", x.translation, (3,))
        if isinstance(x, Baumgarte):
            _check_shape(call, f"{path}.{own}.stiffness", x.stiffness, ())
            _check_shape(call, f"{path}.{own}.damping", x.damping, ())


@functools.lru_cache(maxsize=256)
def _arrays(kind: type[Constraint]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the fields of a kind of constraints that are annotated as arrays, each with its sizes as text."""
    found = []
    for field in dataclasses.fields(kind):
        for told in (field.type, *get_args(field.type)):
            sizes = getattr(told, "dim_str", "...").split()
            if all(n.isidentifier() or n.isdigit() for n in sizes):
                found.append((field.name, tuple(sizes)))
    return tuple(found)


def _check_precision(call: str, model: Model) -> None:
    """Raise `TypeError` for a model in half precision, and `ValueError` for one in double precision if
    `jax_enable_x64` has been switched off since."""
    if is_half(model.gravity.dtype):
        raise TypeError(
            f"`{call}`: `model` is {model.gravity.dtype}, which has too few digits; cast it, "
            '`jax.tree.map(lambda x: x.astype("float32"), model)`.'
        )
    late = not isinstance(model.gravity, jax.core.Tracer) and model.gravity.dtype == np.float64
    if late and jnp.result_type(float) != np.float64:
        raise ValueError(
            f"`{call}`: `model` is in double precision, which JAX's setting `jax_enable_x64` forbids now: call "
            '`jax.config.update("jax_enable_x64", True)`, or cast it, '
            '`jax.tree.map(lambda x: x.astype("float32"), model)`.'
        )


def check_vector(call: str, name: str, x: Any, shape: tuple[int, ...], advice: str = "") -> Array:
    """Return `x` as floats of the given shape. Raise `ValueError` for any other shape, with advice on batching or what
    else is given."""
    if isinstance(x, State):
        raise TypeError(f"`{call}`: `{name}` is a `State`; give its `q` or its `v`.")
    x = floats(f"`{call}`", name, x)
    if x.shape != shape:
        hint = " For a batch, use `jax.vmap`." if x.shape[-len(shape) :] == shape else advice
        raise ValueError(f"`{call}`: `{name}` has shape {x.shape}, not {shape}.{hint}")
    return x


def commands_hint(model: Model, shape: tuple[int, ...]) -> str:
    """Return advice if forces (..., nv) have the shape of commands (..., nu)."""
    known = " `step` and `simulate` take commands as `jd.Commands(command)`; `jd.actuator_forces` returns their forces."
    return known if shape[-1:] == (model.nu,) else ""


def check_state(call: str, model: Model, state: Any) -> State:
    check_instance(f"`{call}`", "state", state, State, " Use `jd.State(q, v)`.")
    q = check_vector(call, "state.q", state.q, (model.nq,))
    n = model.topology.nv
    if n != model.nv and jnp.shape(state.v) == (n,):
        text = "It has the velocities of all joints: use `jd.reduce(model, state)`."
        raise ValueError(f"`{call}`: `state.v` has shape ({n},), not ({model.nv},). {text}")
    return State(q, check_vector(call, "state.v", state.v, (model.nv,)))


def check_external(call: str, model: Model, external: Any) -> Array | None:
    """Return the wrenches on the bodies (nb, 6), None for None. Raise `ValueError` for any other shape."""
    return None if external is None else check_vector(call, "external", external, (model.nb, 6))


def at_q(call: str, model: Any, q: Any) -> tuple[Model, Array]:
    """Return the model and a configuration of it, checked and of one type."""
    check_model(call, model)
    return common_dtype(model, check_vector(call, "q", q, (model.nq,)))


def at_state(call: str, model: Any, state: Any) -> tuple[Model, Array, Array]:
    """Return the model, and q and v of a state of it, checked and of one type."""
    check_model(call, model)
    state = check_state(call, model, state)
    return common_dtype(model, state.q, state.v)


def check_frame(call: str, model: Model, frame: Any) -> tuple[int, int | None]:
    """Return the body and the number of a frame, see `Topology.locate`. Raise `ValueError` for unknown names."""
    check_instance(f"`{call}`", "frame", frame, str)
    try:
        return model.topology.locate(frame)
    except ValueError as error:
        raise ValueError(f"`{call}`: `frame`: {error}") from None


def check_constraints(call: str, model: Model, constraints: Any, name: str = "constraints") -> tuple[Constraint, ...]:
    """Return the constraints as a tuple; None stands for those of the model. Raise `TypeError` unless they are a
    sequence of constraints, and `ValueError` for unknown bodies and joints."""
    if constraints is None:
        return model.constraints
    if hasattr(constraints, "layout"):
        raise TypeError(f"`{call}`: `{name}` is a single {type(constraints).__name__}; put it in a tuple.")
    if not isinstance(constraints, Sequence) or isinstance(constraints, str | bytes):
        raise TypeError(f"`{call}`: `{name}` is {type(constraints).__name__}, not a tuple of constraints.")
    for k, c in enumerate(constraints):
        check_instance(f"`{call}`", f"{name}[{k}]", c, Constraint, " Use one such as `jd.constraints.Point(...)`.")
        try:
            rows = c.layout(model.topology).rows
        except ValueError as error:
            raise ValueError(f"`{call}`: constraint {c.name or k!r}: {error}") from None
        _check_rows(call, f"{name}[{k}]", c, rows)
    return tuple(constraints)


def common_dtype(*trees: Any, given: Sequence[Any] = ()):
    """Return the trees, of a model and its state, with all float arrays cast to the widest of their types, and what is
    `given` besides, such as forces and constraints, cast to that type too."""
    dtype = np.result_type(*[x.dtype for x in jax.tree.leaves(trees) if eqx.is_inexact_array(x)])
    cast = lambda x: x.astype(dtype) if eqx.is_inexact_array(x) and x.dtype != dtype else x  # noqa: E731
    return jax.tree.map(cast, (*trees, *given))


def rows_of(model: Model, constraints: Sequence[Constraint]) -> int:
    return sum(c.layout(model.topology).rows for c in constraints)
