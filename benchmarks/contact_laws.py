"""Measure time and residuals of contact laws by the number of rows, on which the choice of `jd.contact.Auto` is based.

    python benchmarks/contact_laws.py [CASE ...] [--batch N] [--rounds N]

The problems σ = G f + g are extracted once from steps of random states. Every law solves the same problems without warm
start. Measures CPU time on one core, of the law only. Writes `contact_laws.json`, which keeps earlier results that are
not measured again, and `contact_laws.md`.
"""

import warnings
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from contact_report import table
from contact_robots import DT, PUSH, SPEED, Batch, Standing, batch, cassie, go1, lifted, talos
from measure import compiled, together
from results import Results, parser
from systems import described
from tqdm import tqdm

import jaxdyn as jd
from jaxdyn.commands.bench import one_core
from jaxdyn.contact.cones import Cones, Counts, Limited, left_over
from jaxdyn.contact.problem import begun, touching
from jaxdyn.engine.lanes import laned
from jaxdyn.systems.problem import given_accelerations, rows_left_over
from jaxdyn.systems.problem import left_over as forces_left_over

ABOUT = """The problems σ = G f + g of a step of 2 ms, of robots that come down on their feet as in
[Contact](contact.md), of a robot with all shapes of its file, and of boxes on top of each other: every law solves the
same ones, cold. In each cell stand microseconds of CPU time a state on one core, of the law alone, and seconds to
compile; then what is left of the law, relative to the largest speed that calls for forces: the 99th percentile, the
largest, and how many states keep more than 1e-3. `jd.contact.Auto` chooses by this table."""
BOTH = ("float32", "float64")
LAWS = {
    "PGS(20)": jd.contact.PGS(20),
    "PGS(100)": jd.contact.PGS(100),
    "ADMM()": jd.contact.ADMM(),
    "Newton(1e-4)": jd.contact.Newton(1e-4),
    "Newton()": jd.contact.Newton(),
}


class Case(NamedTuple):
    """A robot with its states, and the law that determines its rows."""

    model: jd.Model
    states: Batch
    rows: jd.contact.Law


def feet(robot: Callable[[], Standing], joints: bool) -> Callable[[int], Case]:
    """Return a case of a robot on its feet, with joint limits and dry friction if `joints` is True."""

    def made(n):
        found = robot()
        return Case(found.model, batch(found, n), jd.contact.PGS(limits=joints, dry_friction=joints))

    return made


def whole(slots: int | None, roll: float = 0.0) -> Callable[[int], Case]:
    """Return a case of Go1 with all the shapes of its file, upright or rolled by an angle."""

    def made(n):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", jd.ModelWarning)
            model = jd.load(described("go1_description/urdf/go1.urdf"), floating=True, ground=True)
        q = np.array(go1().q)
        q[3:7] = np.cos(roll / 2), np.sin(roll / 2), 0, 0
        robot = Standing(model, lifted(model, jnp.asarray(q), 0.0), 0.0)
        return Case(model, batch(robot, n), jd.contact.PGS(slots=slots))

    return made


def piled(boxes: int) -> Callable[[int], Case]:
    """Return a case of slowly moving boxes on top of each other."""

    def made(n):
        spec, size = jd.ModelSpec("pile"), 0.2
        for k in range(boxes):
            inertia = jd.Inertia(1.0, (0, 0, 0), size**2 / 6 * np.eye(3))
            spec.add_body(f"box {k}", "world", jd.joints.Free(), inertia=inertia)
            spec.add_shape(f"box {k}", jd.shapes.Box((size,) * 3), friction=0.8)
        spec.add_ground(friction=0.8)
        pairs = [("box 0", "ground"), *((f"box {k}", f"box {k + 1}") for k in range(boxes - 1))]
        model, rng = spec.build().with_pairs(pairs), np.random.default_rng(0)
        q = jnp.concatenate([jnp.asarray([0, 0, (k + 0.5) * size, 1, 0, 0, 0]) for k in range(boxes)])
        d, v, tau = (x * rng.normal(size=(n, model.nv)) for x in (1e-4, 0.1 * SPEED, PUSH))
        around = jax.vmap(lambda d: jd.integrate(model, q, d, 1.0))(jnp.asarray(d))
        return Case(model, Batch(around, jnp.asarray(v), jnp.asarray(tau)), jd.contact.PGS())

    return made


CASES = {
    "Go1, feet": feet(go1, False),
    "Cassie, feet": feet(cassie, False),
    "Talos, feet": feet(talos, False),
    "Go1, feet and joints": feet(go1, True),
    "Cassie, feet and joints": feet(cassie, True),
    "Talos, feet and joints": feet(talos, True),
    "Go1's file, 1 slot a limb": whole(1),
    "Go1's file, 2 slots a limb": whole(2),
    "Go1's file": whole(None),
    "Go1's file, on its side": whole(None, np.pi / 2),
} | {f"{n} boxes": piled(n) for n in (2, 4, 6, 8, 12, 16)}


def _problem(law, model, q, v, tau):
    """Return G, g, friction and bounds of dry friction of a step, with the batch (lanes) as the last axis."""
    step = begun(law, model, model.constraints, q, v, tau, None, jnp.full((1,), DT, q.dtype), recursive=True)
    kept = touching(step, law)
    bodies = given_accelerations(step.problem, step.start)
    none = jnp.zeros((step.problem.plan.rows, q.shape[-1]), q.dtype)
    force = forces_left_over(step.problem, step.start, jnp.zeros_like(v), bodies, none)
    found = []

    def top(b):
        found.append(b)
        return jnp.zeros_like(b), jnp.zeros_like(b)

    kept.corrected(*force, rows_left_over(step.problem, step.start, bodies), top)
    joints = step.cones.limited
    return kept.G, -found[0], step.cones.friction, joints.bound, joints.low, joints.high


class Posed(NamedTuple):
    """The problems of all states: `counts` of rows, and the inputs of the laws, (states, ...)."""

    counts: Counts
    G: jax.Array
    g: jax.Array
    friction: jax.Array
    bound: jax.Array
    low: jax.Array
    high: jax.Array


def posed(case: Case) -> Posed:
    made = laned(_problem, case.rows)
    G, g, friction, *joints = jax.jit(jax.vmap(lambda q, v, tau: tuple(made(case.model, q, v, tau))))(*case.states)
    return Posed(Counts(friction.shape[-1], (), joints[0].shape[-1]), G, g, friction, *joints)


def _solved(law, counts, G, g, friction, *joints):
    """Return the forces of a law and its residual."""
    cones = Cones(counts, friction, jnp.zeros((0, 1), g.dtype), Limited(*joints))
    f = law.solve(G, g, cones, jnp.zeros((len(g), 1), g.dtype))
    return f, left_over(cones, G, g, f)


def measured(problems: Posed, dtype: str, rounds: int) -> dict:
    """Return microseconds, seconds to compile, and the median, 99th percentile and largest residual by law."""
    counts, *arrays = problems
    single = [jnp.asarray(x, dtype) for x in arrays]
    found, runs = {}, []
    for name, law in LAWS.items():
        seconds, run = compiled(laned(_solved, law, counts), single)
        left = np.asarray(run()[1], float)
        quantiles = [float(x) for x in np.quantile(left, (0.5, 0.99, 1.0))]
        found[name] = {"compile_seconds": seconds, "quantiles": quantiles, "above": int((left > 1e-3).sum())}
        runs.append(run)
    for name, us in zip(LAWS, together(runs, len(problems.g), rounds), strict=True):
        found[name]["microseconds"] = us
    return found


def page(found: dict, told: Callable[[str], str]) -> str:
    out = ["# Laws of contact", "", "Made by `benchmarks/contact_laws.py`.", "", ABOUT]
    for dtype in BOTH:
        lines, heads = [], ["", "rows", *LAWS]
        for name, row in sorted(found.items(), key=lambda item: item[1]["rows"]):
            lines.append([name, str(row["rows"]), *(cell(row[dtype][law]) for law in LAWS)])
        out += ["", f"## {dtype}", "", *table(heads, lines)]
    out += ["", *dict.fromkeys(told(name) for name in found)]
    return "\n".join(out) + "\n"


def cell(law: dict) -> str:
    _, most, worst = law["quantiles"]
    return f"{law['microseconds']:.2f} / {law['compile_seconds']:.1f}, {most:.0e}, {worst:.0e}, {law['above']}"


def main(arguments=None) -> None:
    options = parser(__doc__, "case", tuple(CASES))
    options.add_argument("--batch", type=int, default=512)
    options.add_argument("--rounds", type=int, default=5)
    options = options.parse_args(arguments)
    jax.config.update("jax_enable_x64", True)
    results = Results(options.out, "contact_laws")
    with one_core():
        for name in tqdm(options.names or CASES):
            problems = posed(CASES[name](options.batch))
            found = {dtype: measured(problems, dtype, options.rounds) for dtype in BOTH}
            results.found[name] = {"rows": problems.counts.rows, "batch": options.batch} | found
            results.keep(name)
    results.write(".md", page(results.found, results.origins.told))


if __name__ == "__main__":
    main()
