"""What a step with contact costs, beside the same robot without, and beside MuJoCo; and how well the laws are met.

    python benchmarks/contact.py [ROBOT ...] [--batch N] [--rounds N]

CPU time on one core of a whole `step` of a batch of random states near the ground, in turns with ABA of the same robot.
Robots are in `contact_robots.py`. MuJoCo's C code steps the same states one after the other, in double precision, on
one thread. Writes `contact.json`, in which what is not asked for is kept, and `contact.md`.
"""

import argparse
import time
from importlib.metadata import PackageNotFoundError, version

import contact_report as report
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from contact_robots import DT, ROBOTS, SETTINGS, Batch, Standing, batch, mujoco_model
from measure import together
from results import Results, parser
from tqdm import tqdm

import jaxdyn as jd
from jaxdyn.commands.bench import one_core
from jaxdyn.contact.cones import left_over
from jaxdyn.interop import to_mujoco

BOTH = ("float32", "float64")
#: joints neither stop nor rub, except where said
ALONE = {"limits": False, "dry_friction": False}
LAWS = {"PGS": jd.contact.PGS(**ALONE), "Auto": jd.contact.Auto(**ALONE), "ADMM": jd.contact.ADMM(**ALONE)}
#: states of the other sizes of a batch
SIZES = (1, 64, 4096)


def programs(model: jd.Model) -> dict:
    """Functions (q, v, tau) by name. "in the air" is for states in which nothing touches."""

    def step(law):
        return lambda q, v, tau: jd.step(model, jd.State(q, v), tau, DT, contacts=law)

    def acceleration(solver, **options):
        return lambda q, v, tau: jd.forward_dynamics(model, jd.State(q, v), tau, solver=solver, **options).acceleration

    found = {"ABA": acceleration(jd.solvers.ABA(), constraints=()), "no contact": step(None)}
    if model.constraints:
        found["LCABA, 3 solves"] = acceleration(jd.solvers.LCABA(max_steps=3, tol=0.0))
    found |= {name: step(law) for name, law in LAWS.items()}
    return found | {"Auto, limits and dry friction": step(jd.contact.Auto()), "PGS, in the air": step(LAWS["PGS"])}


def compiled(run, states: Batch):
    """Seconds of CPU time to trace and compile, and the program of the batch."""
    begin = time.process_time()
    made = jax.jit(jax.vmap(run)).lower(*states).compile()
    return round(time.process_time() - begin, 2), lambda: jax.block_until_ready(made(*states))


def cast(dtype: str, robot: Standing, *batches: Batch):
    return jax.tree.map(lambda x: jnp.asarray(x, dtype), (robot.model, *batches))


def cost(robot: Standing, near: Batch, air: Batch, dtype: str, rounds: int) -> dict:
    """Microseconds and seconds to compile, by program."""
    model, near, air = cast(dtype, robot, near, air)
    made = {name: compiled(f, air if name.endswith("in the air") else near) for name, f in programs(model).items()}
    times = together([run for _, run in made.values()], len(near.q), rounds)
    return {
        name: {"microseconds": us, "compile_seconds": seconds}
        for (name, (seconds, _)), us in zip(made.items(), times, strict=True)
    }


def sizes(robot: Standing, dtype: str, rounds: int) -> dict:
    """Microseconds of ABA and of a step with contact, by size of the batch."""
    found = {}
    for n in SIZES:
        model, near = cast(dtype, robot, batch(robot, n))
        runs = [compiled(f, near)[1] for name, f in programs(model).items() if name in ("ABA", "PGS")]
        found[str(n)] = dict(zip(("ABA", "PGS"), together(runs, n, rounds), strict=True))
    return found


class Measured(jd.contact.Law):
    """A law whose `forces` are what another one leaves over of itself, so that a step tells it."""

    law: jd.contact.Law = eqx.field(static=True, default=LAWS["PGS"])

    def solve(self, G, g, cones, f):
        f = self.law.solve(G, g, cones, f)
        return jnp.broadcast_to(left_over(cones, G, g, f), f.shape)


def residuals(robot: Standing, near: Batch, dtype: str) -> dict:
    """By law, the median, 99th percentile and largest of what is left of it, relative to the largest speed that calls
    for forces; and how many states are told as not converged, and how many would have to be."""
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


def steps_of(model, rows, full: bool):
    """A function that puts every state into MuJoCo, and steps it if `full`."""
    import mujoco as mj

    data = mj.MjData(model)

    def run() -> int:
        contacts = 0
        for q, v, tau in rows:
            data.qpos[:], data.qvel[:], data.qfrc_applied[:] = q, v, tau
            data.qacc_warmstart[:] = 0
            if full:
                mj.mj_step(model, data)
                contacts += data.ncon
        return contacts

    return run


def mujoco(robot: Standing, near: Batch, rounds: int) -> dict:
    """Microseconds of `mj_step` by setting, and the mean number of contacts; or why there is none."""
    try:
        import mujoco as mj
    except ImportError:
        return {"why": "MuJoCo is not installed"}
    found: dict = {"version": mj.__version__}
    for setting in SETTINGS:
        try:
            model = mujoco_model(robot, setting)
        except ValueError as error:
            return {"why": str(error).splitlines()[0]}
        states = jax.vmap(lambda q, v, m=model: to_mujoco(robot.model, m, jd.State(q, v)))(near.q, near.v)
        rows = list(zip(*map(np.asarray, (*states, near.tau)), strict=True))
        step, put = (steps_of(model, rows, full) for full in (True, False))
        whole, around = together([step, put], len(rows), rounds)
        found[setting] = {"microseconds": round(whole - around, 3), "contacts": step() / len(rows)}
    return found


def mjx() -> str:
    """Why there are no numbers of MJX."""
    try:
        return f"mujoco-mjx {version('mujoco-mjx')} is installed, but not measured here"
    except PackageNotFoundError:
        return "not measured: mujoco-mjx is not installed"


def measured(robot: Standing, n: int, rounds: int) -> dict:
    near, air = batch(robot, n), batch(robot, n, height=1.0)
    found = {"nv": robot.model.nv, "slots": len(robot.model.collision.pairs), "batch": n}
    found |= {dtype: cost(robot, near, air, dtype, rounds) for dtype in BOTH}
    found["sizes"] = {dtype: sizes(robot, dtype, rounds) for dtype in BOTH}
    found["residual"] = {dtype: residuals(robot, near, dtype) for dtype in BOTH}
    return found | {"mujoco": mujoco(robot, near, rounds), "mjx": mjx()}


def options_of(arguments=None) -> argparse.Namespace:
    options = parser(__doc__, "robot", tuple(ROBOTS))
    options.add_argument("--batch", type=int, default=512)
    options.add_argument("--rounds", type=int, default=15)
    return options.parse_args(arguments)


def main(arguments=None) -> None:
    options = options_of(arguments)
    jax.config.update("jax_enable_x64", True)
    results = Results(options.out, "contact")
    with one_core():
        for name in tqdm(options.names or ROBOTS):
            results.found[name] = measured(ROBOTS[name](), options.batch, options.rounds)
            results.keep(name)
    results.write(".md", report.page(results.found, results.origins.told))


if __name__ == "__main__":
    main()
