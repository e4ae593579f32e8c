"""Measure the cost of a step with contact, compared with no contact and with MuJoCo, and the residuals of contact laws.

    python benchmarks/contact.py [ROBOT ...] [--parts steps residual mujoco mjx] [--batch N] [--rounds N]

Measures CPU time on one core of a whole `step` of a batch of random states near the ground, in turns with ABA of the
same robot. Robots are in `contact_robots.py`. MuJoCo's C code steps the same states one after the other, in double
precision, on one thread; MJX steps them as one batch, in single precision. Writes `contact.json`, which keeps earlier
results that are not measured again, and `contact.md`. A `mujoco-mjx` that is older than MuJoCo needs a MuJoCo of its
own version: measure that part in an environment that has both.
"""

import argparse
from collections.abc import Callable, Collection
from typing import NamedTuple

import contact_report as report
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from contact_mujoco import mjx, mujoco
from contact_robots import DT, ROBOTS, Batch, Standing, batch
from measure import compiled, together
from results import Results, parser
from tqdm import tqdm

import jaxdyn as jd
from jaxdyn.commands.bench import one_core
from jaxdyn.contact.cones import left_over

BOTH = ("float32", "float64")
#: no joint limits and no dry friction in joints, unless stated otherwise
ALONE = {"limits": False, "dry_friction": False}
LAWS = {"PGS": jd.contact.PGS(**ALONE), "Auto": jd.contact.Auto(**ALONE), "ADMM": jd.contact.ADMM(**ALONE)}
#: other batch sizes
SIZES = (1, 64, 4096)


def programs(model: jd.Model) -> dict:
    """Return functions (q, v, tau) by name; those named "in the air" are for states without contact."""

    def step(law):
        return lambda q, v, tau: jd.step(model, jd.State(q, v), tau, DT, contacts=law)

    def acceleration(solver, **options):
        return lambda q, v, tau: jd.forward_dynamics(model, jd.State(q, v), tau, solver=solver, **options).acceleration

    def pulled(q, v, tau):
        return jax.grad(lambda *x: step(LAWS["Auto"])(*x).v.sum(), (0, 1, 2))(q, v, tau)

    def told(q, v, tau):
        motion = jd.simulate(model, jd.State(q, v), tau[None], DT, contacts=LAWS["Auto"])
        return motion.v[-1], motion.result

    found = {"ABA": acceleration(jd.solvers.ABA(), constraints=()), "no contact": step(None)}
    if model.constraints:
        found["LCABA, 3 solves"] = acceleration(jd.solvers.LCABA(max_steps=3, tol=0.0))
    found |= {name: step(law) for name, law in LAWS.items()}
    found |= {"Auto, with its result": told, "Auto, gradient by q, v and torques": pulled}
    return found | {"Auto, limits and dry friction": step(jd.contact.Auto()), "PGS, in the air": step(LAWS["PGS"])}


def cast(dtype: str, robot: Standing, *batches: Batch):
    return jax.tree.map(lambda x: jnp.asarray(x, dtype), (robot.model, *batches))


def cost(robot: Standing, near: Batch, air: Batch, dtype: str, rounds: int) -> dict:
    """Return microseconds and seconds to compile, by program."""
    model, near, air = cast(dtype, robot, near, air)
    made = {name: compiled(f, air if name.endswith("in the air") else near) for name, f in programs(model).items()}
    times = together([run for _, run in made.values()], len(near.q), rounds)
    return {
        name: {"microseconds": us, "compile_seconds": seconds}
        for (name, (seconds, _)), us in zip(made.items(), times, strict=True)
    }


def sizes(robot: Standing, dtype: str, rounds: int) -> dict:
    """Return microseconds of ABA and of a step with contact, by batch size."""
    found = {}
    for n in SIZES:
        model, near = cast(dtype, robot, batch(robot, n))
        runs = [compiled(f, near)[1] for name, f in programs(model).items() if name in ("ABA", "PGS")]
        found[str(n)] = dict(zip(("ABA", "PGS"), together(runs, n, rounds), strict=True))
    return found


class Measured(jd.contact.Law):
    """A law whose forces are the residual of another law, so that a step returns this residual."""

    law: jd.contact.Law = eqx.field(static=True, default=LAWS["PGS"])

    def solve(self, G, g, cones, f):
        f = self.law.solve(G, g, cones, f)
        return jnp.broadcast_to(left_over(cones, G, g, f), f.shape)


def residuals(robot: Standing, near: Batch, dtype: str) -> dict:
    """Return the median, 99th percentile and largest residual by law, relative to the largest speed that requires
    forces; also the number of states flagged as not converged, and the number with a residual above 1e-3."""
    model, near = cast(dtype, robot, near)
    found = {}
    for name, law in LAWS.items():

        def one(q, v, tau, law=law):
            traj = lambda law: jd.simulate(model, jd.State(q, v), tau[None], DT, contacts=law)  # noqa: E731
            left = traj(Measured(law, **ALONE)).contacts.impulses[0, 0, 0] / DT
            return left, (traj(law).result == jd.Result.contact_not_converged)[0]

        left, flagged = jax.jit(jax.vmap(one))(*near)
        left = np.asarray(left, float)
        found[name] = {
            "quantiles": [float(x) for x in np.quantile(left, (0.5, 0.99, 1.0))],
            "flagged": int(flagged.sum()),
            "above": int((left > 1e-3).sum()),
        }
    return found


def ours(robot: Standing, near: Batch, dtype: str) -> Callable:
    """Return a step with `PGS`, to be timed in turns with other engines."""
    model, near = cast(dtype, robot, near)
    return compiled(programs(model)["PGS"], near)[1]


class Case(NamedTuple):
    """A case to measure: a robot, states near the ground and in the air, and the number of timing rounds."""

    robot: Standing
    near: Batch
    air: Batch
    rounds: int


def steps(case: Case) -> dict:
    robot, near, air, rounds = case
    found = {dtype: cost(robot, near, air, dtype, rounds) for dtype in BOTH}
    return found | {"sizes": {dtype: sizes(robot, dtype, rounds) for dtype in BOTH}}


def left(case: Case) -> dict:
    return {"residual": {dtype: residuals(case.robot, case.near, dtype) for dtype in BOTH}}


def beside_mujoco(case: Case) -> dict:
    own = {dtype: ours(case.robot, case.near, dtype) for dtype in BOTH}
    return {"mujoco": mujoco(case.robot, case.near, own, case.rounds)}


def beside_mjx(case: Case) -> dict:
    return {"mjx": mjx(case.robot, case.near, ours(case.robot, case.near, "float32"), case.rounds)}


#: the parts of a measurement; each can be measured again separately
PARTS = {"steps": steps, "residual": left, "mujoco": beside_mujoco, "mjx": beside_mjx}


def measured(robot: Standing, n: int, rounds: int, parts: Collection[str]) -> dict:
    case = Case(robot, batch(robot, n), batch(robot, n, height=1.0), rounds)
    found = {"nv": robot.model.nv, "slots": len(robot.model.collision.pairs), "batch": n}
    for part in parts:
        found |= PARTS[part](case)
    return found


def options_of(arguments=None) -> argparse.Namespace:
    options = parser(__doc__, "robot", tuple(ROBOTS))
    options.add_argument("--parts", nargs="+", choices=PARTS, default=tuple(PARTS), help="default: all")
    options.add_argument("--batch", type=int, default=512)
    options.add_argument("--rounds", type=int, default=15)
    return options.parse_args(arguments)


def check_batch(name: str, old: dict, options: argparse.Namespace) -> None:
    """Raise an error if parts of a robot would have different batch sizes."""
    if set(options.parts) != set(PARTS) and old.get("batch", options.batch) != options.batch:
        raise SystemExit(
            f"contact.py: --batch is {options.batch}, but the other parts of {name} were measured with {old['batch']}: "
            f"leave --parts out, or use --batch {old['batch']}."
        )


def main(arguments=None) -> None:
    options = options_of(arguments)
    jax.config.update("jax_enable_x64", True)
    results = Results(options.out, "contact")
    with one_core():
        for name in tqdm(options.names or ROBOTS):
            old = results.found.get(name, {})
            check_batch(name, old, options)
            results.extend(name, old, measured(ROBOTS[name](), options.batch, options.rounds, options.parts))
    results.write(".md", report.page(results.found, results.origins.told))


if __name__ == "__main__":
    main()
