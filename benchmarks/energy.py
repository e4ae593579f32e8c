"""Measure the drift of energy, loops and quaternions over millions of steps of robots without damping or drives.

    python benchmarks/energy.py [RUN ...] [--steps N] [--out FOLDER]

- `INTEGRATOR ROBOT PRECISION`: the largest error of the total energy, relative to the largest kinetic energy, over a
  million steps of a millisecond, and after each tenth, hundredth and thousandth of them.
- `project ROBOT`: ten million steps with ``project=True``: the largest opening of a loop, the largest deviation of a
  quaternion from unit length, and energy as above, for three lanes (batch elements) of which one starts with NaN; and
  whether the other lanes are bitwise the same without it.

Robots are those of `jd.load` and two defined here: a body with three moments of inertia that tumbles freely, and a
double pendulum. They start with closed loops and at rest, `ROBOT@SPEED` with that speed of the fastest joint; the
body and strider move without gravity. Damping is removed; springs stay. Writes `energy.json`.
"""

import time

import jax
import jax.numpy as jnp
import numpy as np
from results import Results, parser
from tqdm import tqdm

import jaxdyn as jd

DT = 1e-3
INTEGRATORS = {
    "Leapfrog": jd.integrators.Leapfrog(),
    "SemiImplicitEuler": jd.integrators.SemiImplicitEuler(),
}


def tumbling() -> tuple[jd.Model, jd.State]:
    spec = jd.ModelSpec("tumbling", gravity=(0, 0, 0))
    inertia = jd.Inertia(1.0, (0.02, 0.01, 0.0), np.diag([0.01, 0.02, 0.025]))
    spec.add_body("body", "world", jd.joints.Free(), inertia=inertia)
    model = spec.build()
    return model, jd.State(model.neutral(), jnp.array([0.1, 0, 0, 0.3, 10.0, 0.2]))


def double_pendulum() -> tuple[jd.Model, jd.State]:
    spec = jd.ModelSpec("double_pendulum")
    for name, parent, down in (("upper", "world", 0.0), ("lower", "upper", -0.5)):
        inertia = jd.Inertia(1.0, (0, 0, -0.25), np.diag([0.02, 0.02, 1e-4]))
        placement = jd.Transform(np.eye(3), np.array([0, 0, down]))
        spec.add_body(name, parent, jd.joints.Revolute(axis=(0, 1, 0)), placement=placement, inertia=inertia)
    return spec.build(), jd.State(jnp.array([1.5, 0.5]), jnp.zeros(2))


def shipped(name: str) -> jd.Model:
    model = jd.load(name)
    return model.replace({"joints.damping": jnp.zeros(model.nv)})


def four_bar(speed: float) -> tuple[jd.Model, jd.State]:
    model = shipped("four_bar")
    q = jd.assemble(model, model.neutral())
    along = jnp.linalg.svd(jd.constraint_jacobian(model, q, model.constraints))[2][-1]
    return model, jd.State(q, speed * along / jnp.abs(along).max())


def strider() -> tuple[jd.Model, jd.State]:
    model = shipped("strider").replace({"gravity": jnp.zeros(3)})  # speeds would grow without bound in free fall
    q = jd.assemble(model, model.neutral())
    v = jnp.asarray(np.random.default_rng(0).normal(size=model.nv))
    return model, jd.State(q, jd.impulse(model, jd.State(q, v)).velocity)


ROBOTS = {
    "four_bar": lambda: four_bar(0.0),
    "four_bar@13": lambda: four_bar(13.0),
    "strider": strider,
    "double_pendulum": double_pendulum,
    "tumbling": tumbling,
}
#: integrator or "project", robot and precision, by name
RUNS = {f"{name} {robot} float64": (name, robot, "float64") for name in INTEGRATORS for robot in ROBOTS}
RUNS |= {
    f"{name} {robot} float32": (name, robot, "float32") for name in INTEGRATORS for robot in ("four_bar", "tumbling")
}
RUNS |= {"project four_bar": ("project", "four_bar", "float64")}


def off_length(model: jd.Model, q) -> jax.Array:
    """Return the largest deviation of a quaternion from unit length."""
    slices = [model.q_slice(name) for name in model.joint_names]
    ends = [s.stop for s in slices if s.stop - s.start in (4, 7)]
    found = [jnp.abs(jnp.linalg.norm(q[end - 4 : end]) - 1) for end in ends]
    return jnp.max(jnp.stack(found)) if found else jnp.zeros((), q.dtype)


def follower(model: jd.Model, every: int, **options):
    """Return a function from a state to the state `every` steps later and the quantities recorded there."""

    def one(state, _):
        return jd.step(model, state, jnp.zeros(model.nv, state.q.dtype), DT, **options), None

    def few(state):
        state = jax.lax.scan(one, state, length=every)[0]
        kinetic = jd.kinetic_energy(model, state)
        opening = jnp.abs(jd.constraint_residual(model, state.q)).max(initial=0.0)
        total = kinetic + jd.potential_energy(model, state.q)
        return state, jnp.stack([total, kinetic, opening, off_length(model, state.q)])

    return few


def followed(run, state, pieces: int):
    """Return the quantities recorded after each piece, and the last state."""
    seen = []
    for _ in tqdm(range(pieces), leave=False):
        state, now = run(state)
        seen.append(np.asarray(now))
    return np.stack(seen), state


def told(seen: np.ndarray, start: float, seconds: float, steps: int) -> dict:
    total, kinetic, opening, off = seen.T
    error = np.abs(total - start) / np.nanmax(kinetic)
    worst = np.maximum.accumulate(np.where(np.isfinite(error), error, np.inf))
    at = {f"{steps // part}": float(worst[len(worst) // part - 1]) for part in (1000, 100, 10, 1)}
    return {
        "steps": steps,
        "energy error by steps": at,
        "opening": float(opening.max()),
        "quaternions off": float(off.max()),
        "microseconds a step": round(1e6 * seconds / steps, 3),
    }


def energy(model: jd.Model, state: jd.State) -> float:
    return float(jd.kinetic_energy(model, state) + jd.potential_energy(model, state.q))


def kept(name: str, robot: str, precision: str, steps: int) -> dict:
    model, state = jax.tree.map(lambda x: x.astype(precision), ROBOTS[robot]())
    run = jax.jit(follower(model, max(steps // 1000, 1), integrator=INTEGRATORS[name])).lower(state).compile()
    begin = time.process_time()
    seen, _ = followed(run, state, 1000)
    return told(seen, energy(model, state), time.process_time() - begin, steps)


def projected(robot: str, steps: int) -> dict:
    model, state = ROBOTS[robot]()
    options = {"project": True, "integrator": jd.integrators.Leapfrog()}
    few = jax.vmap(follower(model, max(steps // 1000, 1), **options))
    lanes = jax.tree.map(lambda x: jnp.stack([x, x, x]), state)
    run, ends = jax.jit(few).lower(lanes).compile(), []
    for sick in (True, False):
        begin = time.process_time()
        now = jd.State(lanes.q, lanes.v.at[1].set(jnp.nan)) if sick else lanes
        seen, end = followed(run, now, 1000 if sick else 10)
        if sick:
            found = told(seen[:, 0], energy(model, state), (time.process_time() - begin) / 3, steps)
            found["lane with NaN"] = "NaN" if np.isnan(end.q[1]).all() else "not NaN"
            _, end = followed(run, now, 10)
        ends.append(end)
    same = [np.array_equal(x[k], y[k]) for x, y in zip(*map(jax.tree.leaves, ends), strict=True) for k in (0, 2)]
    return found | {"other lanes bitwise the same": all(same)}


def main() -> None:
    options = parser(__doc__, "run", RUNS)
    options.add_argument("--steps", type=int, help="default: 1e6, projected 1e7")
    options = options.parse_args()
    jax.config.update("jax_enable_x64", True)
    results = Results(options.out, "energy")
    for name in tqdm(options.names or RUNS):
        kind, robot, precision = RUNS[name]
        if kind == "project":
            results.found[name] = projected(robot, options.steps or 10_000_000)
        else:
            results.found[name] = kept(kind, robot, precision, options.steps or 1_000_000)
        results.keep(name)


if __name__ == "__main__":
    main()
