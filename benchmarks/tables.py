"""Measure the papers' tables, and the solvers from which `Auto` chooses.

    python benchmarks/tables.py [TABLE ...] [--out FOLDER] [--again]

- `lcaba`: hands, humanoids and Digit with a cube (lcaba_proxbbo, Table II), one damped solve.
- `pv`: arms, quadrupeds and humanoids held to the ground (popov_vereshchagin, Table II), one solve.
- `ltl`: the parts of ProxLTL (proximal_ltl, Figs. 4 to 8): mass matrix, Jacobian, factor, operational-space inertia and
  its inverse, the latter from dense matrices too, the whole solve.
- `pinocchio`: LCABA and ProxLTL in both precisions, compared with Pinocchio's `lcaba` and `constraintDynamics` (in
  double precision, called from Python, which takes a microsecond or two), one solve; needs `pip install pin`.
- `choice`: robots and synthetic topologies, three solves; the weights of `jaxdyn.systems.cost` were not fitted to the
  random ones.

Single precision, batched, on one core; `measure.py` makes the measurements. Unavailable robots of `systems.py` are
skipped with a message. Writes `tables.json`, which keeps earlier measurements unless `--again` is given, and
`tables.md`.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import systems
import topologies
from measure import counted, measure, prepare, states, together
from results import Results, parser
from tqdm import tqdm

import jaxdyn as jd
from jaxdyn.commands import peers
from jaxdyn.commands.bench import one_core
from jaxdyn.constrained.unified import riding_of
from jaxdyn.engine.lanes import laned
from jaxdyn.kinematics.rows import plan_of
from jaxdyn.systems.joint_factor import saddle_factor
from jaxdyn.systems.problem import problem_of
from jaxdyn.systems.weights import uniform
from jaxdyn.tree.order import riders_of

LCABA = ("hand_cube", "two_hands_cube", "humanoid_hands_cube", "humanoid_hands_cube_feet", "digit", "digit_cube")
PV = ("iiwa_point", "iiwa_weld", "go1_1", "go1_2", "go1_4", "atlas_1", "atlas_2", "atlas_3", "atlas_4")
PV += ("talos_1", "talos_2", "talos_3", "talos_4")
FEET = (1, 2, 3, 4)
LTL = ("ur5_point", "ur5", *(f"solo_{n}" for n in FEET), "anymal_2", "anymal_4", "icub_2")
LTL += tuple(f"talos_{n}" for n in FEET)

REAL = ("four_bar", "strider", "cassie", "ur5", "go1_4", "atlas_4", "talos_4", "hand_cube", "two_hands_cube", "digit")
REAL += ("two_digits_cube",)
CHOICE = ("LCABA", "ProxBBO", "ProxLTL", "ProxLTLSoft", "Unified", "Auto")


class DenseRows(jd.solvers.ProxLTL):
    """ProxLTL with one dense block of all rows, as in its paper."""

    def system(self, problem, weights):
        return saddle_factor(problem, weights, dense=True)


#: table: robots, solvers, solves
TABLES = {
    "lcaba": ((*LCABA, "two_digits_cube"), ("ABA", "LCABA", "ProxBBO", "ProxLTL", "DenseRows"), 1),
    "pv": (PV, ("PVSoft", "LCABA", "PVEarly", "PV", "LTL", "LTLSoft"), 1),
    "ltl": (LTL, (), 1),
    "pinocchio": (("ur5", "go1_4", "talos_4", "hand_cube", "digit", "two_digits_cube"), (), 1),
    "choice": ((*REAL, *topologies.MADE), CHOICE, 3),
}


def solver_of(name: str, solves: int) -> jd.solvers.Solver:
    kind = DenseRows if name == "DenseRows" else getattr(jd.solvers, name)
    if name == "ABA":
        return kind()
    return kind(max_steps=solves, tol=0.0) if solves > 1 else kind(max_steps=1)


def competes(name: str, solver: str) -> bool:
    """Return whether a solver is worth compiling: `ProxLTLSoft` is not competitive on large robots."""
    return solver != "ProxLTLSoft" or systems.system(name)[0].nv <= 16


def same_as(name: str, solver: str) -> str:
    """Return the solver whose program this one shares: `Auto` runs that of its choice; `Unified` is ProxBBO if all
    constraints ride, LCABA if none."""
    model, _ = systems.system(name)
    if solver == "Auto":
        # the choice for equally many solves, as all of them make here
        solver = type(jd.solvers.Auto().pick(model.topology, model.constraints, jnp.float64)).__name__
    if solver == "Unified":
        riders = riders_of(model.topology, plan_of(model.topology, model.constraints))
        ride = riding_of(model.topology, riders)[1]
        return "ProxBBO" if len(ride) == len(riders) else "Unified" if ride else "LCABA"
    return solver


def _factor(model: jd.Model, q, mu):
    problem = problem_of(model, model.constraints, q)
    return jd.solvers.ProxLTL().system(problem, uniform(problem, mu))


def _factored(model, q, mu):
    factor = _factor(model, q, mu).factor
    return factor.D, factor.l


def _inverse(model, q, mu):
    return _factor(model, q, mu).inverse_inertia()


def _inertia(model, q, mu):
    return _factor(model, q, mu).inertia()


def _dense(q, model):
    """Return J M⁻¹ Jᵀ by a dense factor of M."""
    M, J = jd.mass_matrix(model, q), jd.constraint_jacobian(model, q, model.constraints)
    A = jax.scipy.linalg.solve_triangular(jnp.linalg.cholesky(M), J.T, lower=True)
    return A.T @ A


def parts(name: str, batch: int = 256) -> dict:
    """Return the cost of the parts of ProxLTL; everything from the factor on includes what comes before."""
    model, q = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), systems.system(name))
    qs = states(model, q, batch)[0].astype(jnp.float32)
    mu = jnp.asarray(1e4, jnp.float32)
    works = {
        "mass matrix": lambda q: jd.mass_matrix(model, q),
        "Jacobian": lambda q: jd.constraint_jacobian(model, q, model.constraints),
        "and factor": lambda q: laned(_factored)(model, q, mu),
        "and Λ⁻¹": lambda q: laned(_inverse)(model, q, mu),
        "and Λ": lambda q: laned(_inertia)(model, q, mu),
        "dense Λ⁻¹": lambda q: _dense(q, model),
    }
    compiled = [jax.jit(jax.vmap(f)).lower(qs).compile() for f in works.values()]
    whole, run = prepare(*systems.system(name), solver_of("ProxLTL", 1), batch)
    least = together([*(lambda c=c: jax.block_until_ready(c(qs)) for c in compiled), run], batch)
    found = {
        w: {"operations": counted(f, qs), "microseconds": us} for (w, f), us in zip(works.items(), least, strict=False)
    }
    return found | {"whole solve": whole | {"microseconds": least[-1]}}


def beside(name: str, batch: int = 256) -> dict:
    """Return the cost of one solve of jaxdyn and of Pinocchio, timed in turns."""
    with jax.enable_x64(True):
        model, q = systems.system(name)
        at, v, tau = states(model, q, batch)
        made: dict = {
            f"{s} {precision}": prepare(model, q, solver_of(s, 1), batch, dtype=precision)
            for s in ("LCABA", "ProxLTL")
            for precision in ("float32", "float64")
        }
        for call in ("lcaba", "constraintDynamics"):
            run = peers.pinocchio_run(call, model, jd.State(at, v), tau, True, 1)
            if isinstance(run, str):
                tqdm.write(f"{name}: {call}: {run}")
            else:
                made[f"Pinocchio {call}"] = {}, run
        least = together([run for _, run in made.values()], batch)
    return {who: found | {"microseconds": us} for (who, (found, _)), us in zip(made.items(), least, strict=True)}


#: measurements of a robot other than those of its solvers
OTHERS = {"ltl": parts, "pinocchio": beside}


def written(tables: dict, told: Callable[[str], str]) -> str:
    """Return microseconds (thousands of operations) as Markdown; `told` gives the origin of a table."""
    out = ["# Tables", "", "Made by `benchmarks/tables.py`: µs of CPU time per evaluation (thousands of operations)."]
    for name, (robots, solvers, _) in TABLES.items():
        rows = {robot: tables[name][robot] for robot in robots if tables.get(name, {}).get(robot)}
        columns = [*solvers, *dict.fromkeys(c for row in rows.values() for c in row if c not in solvers)]
        if not rows:
            continue
        out += [
            "",
            f"## {name}",
            "",
            *([told(name), ""] if told(name) else []),
            "| robot | nv | rows | " + " | ".join(columns) + " |",
            "|---" * (3 + len(columns)) + "|",
        ]
        for which, row in rows.items():
            size = max(row.values(), key=lambda x: x.get("rows", 0))
            cells = []
            for c in columns:
                x = row.get(c)
                same = f" as {x['same as']}" if x and "same as" in x else ""
                operations = same or f" ({x['operations'] / 1e3:.0f})" if x and "operations" in x else ""
                cells.append(f"{x['microseconds']:.2f}{operations}" if x else "")
            out.append(f"| {which} | {size['nv']} | {size['rows']} | " + " | ".join(cells) + " |")
    return "\n".join(out) + "\n"


def main() -> None:
    options = parser(__doc__, "table", TABLES)
    options.add_argument("--again", action="store_true", help="measure anew what is there already")
    options = options.parse_args()
    results = Results(options.out, "tables")
    with one_core():
        for table in options.names or TABLES:
            names, solvers, solves = TABLES[table]
            rows = results.found.setdefault(table, {})
            for name in tqdm(names, desc=table):
                if name.startswith(("digit", "two_digits")) and not systems.has_digit():
                    tqdm.write(f"{name} is left out: set JAXDYN_DIGIT, see systems.py")
                    continue
                row, new = rows.setdefault(name, {}), []
                if table in OTHERS and (options.again or not row):
                    rows[name], new = OTHERS[table](name), [name]
                same = {solver: same_as(name, solver) for solver in solvers if competes(name, solver)}
                if options.again or any(solver not in row for solver in same):
                    wanted = dict.fromkeys(same.values())
                    row |= measure({s: (*systems.system(name), solver_of(s, solves)) for s in wanted})
                    row |= {s: row[other] | {"same as": other} for s, other in same.items() if s != other}
                    new = [name]
                jax.clear_caches()
                results.keep(table, new)
                results.write(".md", written(results.found, results.origins.told))


if __name__ == "__main__":
    main()
