"""Wrong calls by the thousand: a call of the public surface with one argument replaced by something hostile.

    python tests/hostile.py [--calls N] [--seed N]

Either an error is raised that names the call, or the argument was right after all: its numbers are those of the valid
call in another guise, or the result says that they are not finite. Prints how often which happened, and what was
neither.
"""

import argparse
import collections
import datetime
import decimal
import fractions
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jaxdyn as jd

C, J, S = jd.constraints, jd.joints, jd.solvers


def robot() -> jd.Model:
    spec = jd.ModelSpec("hostile")
    spec.add_body("base", "world", J.Free(), inertia=jd.Inertia.box(1.0, (1.0, 2.0, 3.0)))
    place = jd.Transform(np.eye(3), (0.0, 0.0, 0.5))
    spec.add_body(
        "arm", "base", J.Revolute(axis=(0, 1, 0)), placement=place, inertia=jd.Inertia(1.0, (0.1, 0.2, 0.3), np.eye(3))
    )
    spec.add_constraint(C.Point("arm", name="pin"))
    spec.add_frame("tool", "arm")
    spec.add_actuator("arm")
    return spec.build()


MODEL = robot()
Q, V = np.asarray(MODEL.neutral()), np.linspace(0.1, 0.7, MODEL.nv)
STATE = jd.State(Q, V)
PLACE = jd.Transform(np.eye(3), (0.1, 0.2, 0.3))
POINT = C.Point("arm", placement_a=PLACE)
OPERATOR = jd.delassus(MODEL, Q, (POINT,), method=jd.osim.Dense())
HELD = {"constraints": (POINT,)}


class Argument(NamedTuple):
    """A valid value, and whether it is one of numbers, of which all that are not finite are refused if `strict`."""

    value: Any
    numbers: bool = True
    strict: bool = True


def _thing(value) -> Argument:
    return Argument(value, False)


def _loose(value) -> Argument:
    return Argument(value, True, False)


def _add_body(**options):
    spec = jd.ModelSpec("s")
    joint = J.Revolute(**{k[6:]: options.pop(k) for k in list(options) if k[:6] == "joint_"})
    joint = options.pop("joint", joint)
    spec.add_body("b", "world", joint, **({"inertia": jd.Inertia(1.0)} | options))
    return spec.build()


def _used(kind: type) -> Callable:
    return lambda **options: jd.constraint_jacobian(MODEL, Q, (kind(**options),))


def _replace(path: str) -> tuple[Callable, dict]:
    return (lambda value: MODEL.replace({path: value})), {"value": Argument(np.asarray(MODEL.at(path)))}


MODELS, STATES, NAMES = _thing(MODEL), _thing(STATE), _thing("arm")
WRENCHES = _loose(np.zeros((2, 6)))
AT_Q = {"model": MODELS, "q": _loose(Q)}
AT_STATE = {"model": MODELS, "state": STATES}
ROWS = {"constraints": _thing((POINT,))}
PAIR = {
    "body_a": NAMES,
    "body_b": _thing("world"),
    "placement_a": _thing(jd.Transform.identity()),
    "stabilization": _thing(C.Baumgarte()),
}
SOLVE = AT_STATE | ROWS | {"tau": _loose(np.zeros(MODEL.nv)), "solver": _thing(S.LCABA())}

#: what is called, and with what
CALLS: dict[str, tuple[Callable, dict[str, Argument]]] = {
    "forward_dynamics": (
        jd.forward_dynamics,
        SOLVE
        | {"external": _loose(np.zeros((2, 6))), "warm_start": _loose(np.zeros(3)), "adjoint": _thing("implicit")},
    ),
    "State": (lambda q, v: jd.inverse_dynamics(MODEL, jd.State(q, v), V), {"q": _loose(Q), "v": _loose(V)}),
    "inverse_dynamics": (
        jd.inverse_dynamics,
        AT_STATE | {"acceleration": _loose(V), "external": WRENCHES},
    ),
    "mass_matrix": (jd.mass_matrix, AT_Q),
    "bias_forces": (jd.bias_forces, AT_STATE),
    "kinetic_energy": (jd.kinetic_energy, AT_STATE),
    "center_of_mass": (jd.center_of_mass, AT_Q),
    "forward_kinematics": (jd.forward_kinematics, AT_Q),
    "frame_pose": (jd.frame_pose, AT_Q | {"frame": _thing("tool")}),
    "frame_velocity": (jd.frame_velocity, AT_STATE | {"frame": _thing("tool"), "reference": _thing("local")}),
    "jacobian": (jd.jacobian, AT_Q | {"frame": _thing("tool"), "reference": _thing("local")}),
    "constraint_jacobian": (jd.constraint_jacobian, AT_Q | ROWS),
    "constraint_bias": (jd.constraint_bias, AT_STATE | ROWS),
    "constraint_residual": (jd.constraint_residual, AT_Q | ROWS),
    "constraint_slices": (jd.constraint_slices, {"model": MODELS} | ROWS),
    "integrate": (jd.integrate, AT_Q | {"v": _loose(V), "dt": _loose(0.1)}),
    "difference": (jd.difference, {"model": MODELS, "q0": _loose(Q), "q1": _loose(Q)}),
    "impulse": (jd.impulse, AT_STATE | ROWS | {"restitution": _loose(0.5), "momentum": _loose(V)}),
    "step": (jd.step, SOLVE | {"dt": Argument(0.01), "integrator": _thing(jd.integrators.SemiImplicitEuler())}),
    "anchored": (jd.anchored, AT_Q | {"constraint": _thing(POINT)}),
    "Transform": (jd.Transform, {"rotation": Argument(np.eye(3)), "translation": Argument(np.ones(3))}),
    "Transform.from_quaternion": (
        jd.Transform.from_quaternion,
        {"wxyz": Argument(np.array([0.6, 0.8, 0.0, 0.0])), "xyz": Argument(np.ones(3))},
    ),
    "Inertia": (
        jd.Inertia,
        {"mass": Argument(1.0), "center_of_mass": Argument(np.ones(3)), "rotational": Argument(np.eye(3))},
    ),
    "Inertia.box": (jd.Inertia.box, {"mass": Argument(1.0), "size": Argument(np.ones(3))}),
    "Inertia.capsule": (jd.Inertia.capsule, {n: Argument(1.0) for n in ("mass", "radius", "length")}),
    "inertia_from_log_cholesky": (jd.inertia_from_log_cholesky, {"theta": Argument(np.zeros(10))}),
    "log_cholesky_from_inertia": (jd.log_cholesky_from_inertia, {"inertia": _thing(jd.Inertia.box(1.0, (1, 1, 1)))}),
    "Baumgarte": (C.Baumgarte, {"stiffness": Argument(25.0), "damping": Argument(3.0)}),
    "Point": (C.Point, PAIR | {"target": Argument(np.zeros(3)), "name": _thing("x")}),
    "Weld": (C.Weld, PAIR | {"target": Argument(np.zeros(6))}),
    "Hinge": (C.Hinge, PAIR | {"axis": Argument(np.array([0.0, 0.6, 0.8]))}),
    "PointOnPlane": (C.PointOnPlane, PAIR | {"normal": Argument(np.array([0.0, 0.6, 0.8]))}),
    "Distance": (C.Distance, PAIR | {"length": Argument(0.5)}),
    "Coupling": (
        C.Coupling,
        {"joints": _thing(("arm",)), "coefficients": Argument(np.ones(1)), "offset": Argument(0.1)},
    ),
    "CenterOfMass": (C.CenterOfMass, {"position": Argument(np.zeros(3)), "name": _thing("x")}),
    "ModelSpec": (jd.ModelSpec, {"gravity": Argument(np.ones(3))}),
    "ModelSpec.add_body": (
        _add_body,
        {
            "placement": _thing(jd.Transform.identity()),
            "inertia": _thing(jd.Inertia(1.0)),
            "joint": _thing(J.Revolute()),
        },
    ),
    "ModelSpec.add_body joint": (
        _add_body,
        {f"joint_{k}": Argument(0.5) for k in ("armature", "damping", "stiffness", "friction", "rest")}
        | {"joint_axis": Argument(np.array([0.0, 0.6, 0.8]))},
    ),
    "LCABA": (
        S.LCABA,
        {"mu": _thing(10.0), "tol": _thing(1e-6), "max_steps": _thing(5), "refine": _thing(True)},
    ),
    "PGS": (jd.contact.PGS, {"sweeps": _thing(5), "limits": _thing(True), "smoothing": _thing(0.1)}),
    "Gauss": (jd.integrators.Gauss, {"iterations": _thing(4)}),
    "RungeKutta": (jd.integrators.RungeKutta, {"a": _thing(((), (0.5,))), "b": Argument(np.array([0.0, 1.0]))}),
    "Transform.apply": (PLACE.apply, {"point": _loose(np.ones(3))}),
    "Lock": (_used(C.Lock), {"joint": NAMES, "rows": _thing(1), "position": Argument(np.array([0.1]))}),
    "General": (
        _used(C.General),
        {"bodies": _thing(("arm",)), "fn": _thing(lambda p: p.translation), "rows": _thing(3)},
    ),
    "conjugate_gradient": (
        jd.osim.conjugate_gradient,
        {"operator": _thing(OPERATOR), "b": _loose(np.ones(3)), "tol": _thing(1e-6), "max_steps": _thing(5)},
    ),
    "q_slice": (MODEL.q_slice, {"joint": NAMES}),
} | {
    f"replace {path}": _replace(path)
    for path in (
        "bodies.mass",
        "bodies.rotational",
        "bodies.placement.rotation",
        "joints.axis",
        "joints.damping",
        "gravity",
    )
}

#: numbers that are those of the valid call
SAME = {
    "list": lambda x: x.tolist(),
    "tuple": lambda x: tuple(x.tolist()) if x.ndim else float(x),
    "jax": jnp.asarray,
    "double": lambda x: x.astype(np.float64),
    "longdouble": lambda x: x.astype(np.longdouble),
    "object": lambda x: x.astype(object),
    "list of jax": lambda x: [jnp.asarray(v) for v in x.ravel()] if x.ndim == 1 else jnp.asarray(x),
}
#: numbers that no robot has, which are refused where `strict`, and never give finite results
NOT_FINITE = {
    "nan": lambda x: x * np.nan,
    "one nan": lambda x: np.where(np.arange(x.size).reshape(x.shape) == x.size - 1, np.nan, x),
    "inf": lambda x: x + np.inf,
    "negative inf": lambda x: x - np.inf,
}
#: what is refused everywhere
NUMBERS = {
    "complex": lambda x: x.astype(complex),
    "complex of jax": lambda x: jnp.asarray(x) + 1j,
    "complex list": lambda x: [complex(v) for v in x.ravel()],
    "text": lambda x: "abc",
    "numbers as text": lambda x: [str(v) for v in x.ravel()] if x.ndim else "0.5",
    "bytes": lambda x: b"abc",
    "short": lambda x: x[:-1] if x.ndim else np.zeros(1),
    "long": lambda x: np.append(x, 0.0) if x.ndim != 0 else np.zeros(3),
    "batch": lambda x: np.stack([x] * 2)[None, None],
    "nothing in it": lambda x: np.zeros(0) if x.shape != (0,) else np.zeros(1),
    "nothings": lambda x: [None] * max(1, x.size),
    "ragged": lambda x: [[1.0, 2.0], [3.0]],
    "dictionary": lambda x: {"a": 1.0},
    "set": lambda x: {1.0},
    "dates": lambda x: np.full(x.shape, np.datetime64(3, "D")),
    "date": lambda x: datetime.date(2020, 1, 1),
    "generator": lambda x: (v for v in range(3)),
    "function": lambda x: np.sin,
    "class": lambda x: jd.State,
    "key": lambda x: jax.random.key(0),
    "state": lambda x: STATE,
    "decimals": lambda x: [decimal.Decimal("0.1")] * max(1, x.size),
    "huge": lambda x: [10**400] * max(1, x.size),
    "masked": lambda x: np.ma.masked_array(x, np.ones(x.shape, bool)),
    "shape": lambda x: jax.ShapeDtypeStruct(x.shape, np.float32),
}
#: instead of names, models and the like
THINGS = {
    "text": "no such name",
    "empty text": "",
    "number": 3.5,
    "negative": -1,
    "nan": float("nan"),
    "bytes": b"x",
    "dictionary": {"a": 1},
    "set": {"a"},
    "array": np.zeros(3),
    "class": jd.State,
    "object": object(),
    "list of texts": ["a", "b"],
    "fraction": fractions.Fraction(1, 3),
    "function": np.sin,
    "transform": jd.Transform.identity(),
    "unicode": "é\u202e",
}
#: what some arguments may be
TAKEN = {
    "body_a": ("text", "empty text", "unicode"),  # looked up where the constraint is used
    "body_b": ("text", "empty text", "unicode"),
    "joints": ("text", "empty text", "unicode", "list of texts"),
    "name": ("text", "empty text", "unicode"),
    "restitution": ("long",),  # one a row
    "mu": ("number", "fraction"),
    "tol": ("number", "fraction"),
    "fn": ("function",),  # its errors are its own
    "smoothing": ("number", "fraction"),
    "point": ("batch",),
    "placement": ("transform", "array"),  # a vector is a translation
    "placement_a": ("transform", "array"),
    "value": ("batch",),  # of models
} | {f"joint_{k}": ("short",) for k in ("armature", "damping", "stiffness", "friction", "rest")}  # one a velocity


def draws(seed: int, count: int) -> Iterator[tuple[str, str, str, str]]:
    """(call, argument, class of the value, its name): so many of them."""
    rng = np.random.default_rng(seed)
    pick = lambda xs: list(xs)[int(rng.integers(len(xs)))]  # noqa: E731
    left = count
    while left:
        call = pick(CALLS)
        name = pick(CALLS[call][1])
        kinds = {"same": SAME, "not finite": NOT_FINITE, "numbers": NUMBERS}
        kind = pick(kinds) if CALLS[call][1][name].numbers else "thing"
        which = pick(kinds.get(kind, THINGS))
        if which not in TAKEN.get(name, ()):
            left -= 1
            yield call, name, kind, which


def numbers_in(result) -> list[np.ndarray]:
    return [
        np.asarray(x, float) for x in jax.tree.leaves(result) if getattr(getattr(x, "dtype", None), "kind", "") == "f"
    ]


_valid: dict[str, list[np.ndarray]] = {}


def judge(call: str, name: str, kind: str, which: str) -> tuple[str, str]:
    """("error" | "right" | "WRONG", what happened)."""
    function, arguments = CALLS[call]
    good = {k: a.value for k, a in arguments.items()}
    if call not in _valid:
        _valid[call] = numbers_in(function(**good))
    value = good[name]
    bad = {"same": SAME, "not finite": NOT_FINITE, "numbers": NUMBERS}
    hostile = THINGS[which] if kind == "thing" else bad[kind][which](np.asarray(value, float))
    try:
        result = function(**(good | {name: hostile}))
    except (ValueError, TypeError) as error:
        if kind == "same":
            return "WRONG", f"refused: {error}"
        text = str(error)
        named = text.startswith("`") or "`" in text.split(":")[0]
        return ("error", text) if named and len(text) < 1000 else ("WRONG", f"unclear {type(error).__name__}: {text}")
    except Exception as error:
        return "WRONG", f"{type(error).__name__}: {error}"
    found = numbers_in(result)
    if kind == "same":
        same = all(np.allclose(a, b, rtol=1e-4, atol=1e-4) for a, b in zip(found, _valid[call], strict=True))
        return ("right", "the same") if same else ("WRONG", "other numbers")
    if kind == "not finite":
        strict = arguments[name].strict
        told = isinstance(result, jd.Solution | jd.osim.Solved) and result.result != jd.Result.successful
        if not strict and (told or not all(np.isfinite(x).all() for x in found)):
            return "right", "not finite"
        return "WRONG", "finite" if not strict else "accepted"
    return "WRONG", f"accepted {hostile!r:.60}"


def run(seed: int, count: int) -> tuple[collections.Counter, list[str]]:
    """How often what happened, and what is wrong."""
    counts: collections.Counter = collections.Counter()
    wrong: dict[tuple, str] = {}
    known: dict[tuple, tuple[str, str]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for drawn in draws(seed, count):
            if drawn not in known:
                known[drawn] = judge(*drawn)
            verdict, what = known[drawn]
            counts[verdict] += 1
            if verdict == "WRONG":
                wrong[drawn] = what
                print(drawn, what[:160], file=sys.stderr, flush=True)
    return counts, [f"{call}({name} = {kind}: {which}): {what}" for (call, name, kind, which), what in wrong.items()]


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--calls", type=int, default=10_000)
    options.add_argument("--seed", type=int, default=0)
    options = options.parse_args()
    counts, wrong = run(options.seed, options.calls)
    print("\n".join(wrong))
    print(dict(counts))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
