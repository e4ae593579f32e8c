"""The benchmarks' robots and scripts, and that `Auto` chooses well by what they have measured."""

import functools
import json
import re
import subprocess
import sys
from pathlib import Path

import convergence
import delassus
import delassus_programs
import delassus_report
import embedding
import embedding_cases
import embedding_report
import geared_robots
import jax
import jax.numpy as jnp
import kernel_bench
import measure
import numpy as np
import operations
import origins
import osim_operations
import osim_report
import passes
import pytest
import scaling
import systems
import tables
import topologies
from kernel_worker import Worker
from results import Results
from scaling import exponent

import jaxdyn as jd
from jaxdyn.constrained.unified import mixture

FOLDER = Path(__file__).parents[1] / "docs" / "benchmarks"


@pytest.mark.parametrize("name", ["ur5", "go1_4", "atlas_2", "icub_1", "hand_cube", "two_hands_cube"])
def test_constraints_hold_where_systems_stand(name):
    model, q = systems.system(name)
    rows = jd.constraint_residual(model, q, model.constraints)
    assert len(rows) and np.abs(rows).max() < 1e-12
    assert all(c.stabilization is None or not c.stabilization.stiffness for c in model.constraints)


def test_scaling_counts_and_resumes(tmp_path, monkeypatch, capsys):
    build, sizes, _, about = scaling.FAMILIES["ladder"]
    monkeypatch.setitem(scaling.FAMILIES, "ladder", (build, sizes, ("PVSoft", "PVEarly"), about))
    monkeypatch.setattr(sys, "argv", ["scaling.py", "ladder", "--largest", "2", "--timed", "0", "--out", str(tmp_path)])
    scaling.main()
    found = json.loads((tmp_path / "scaling.json").read_text())["ladder"]
    assert list(found) == ["PVSoft", "PVEarly"]
    assert all(rows["2"]["operations"] > rows["1"]["operations"] > 0 for rows in found.values())
    assert (tmp_path / "scaling_ladder.png").stat().st_size > 1000
    monkeypatch.setattr(scaling, "measure", None)
    scaling.main()
    assert "PVEarly" in capsys.readouterr().out


def test_passes(tmp_path, monkeypatch):
    monkeypatch.setitem(passes.CHAINS, "12", 2)
    monkeypatch.setattr(sys, "argv", ["passes.py", "12", "--states", "4", "256", "--out", str(tmp_path)])
    passes.main()
    found = json.loads((tmp_path / "passes.json").read_text())["12"]
    assert 0 < found["4"] < found["256"]
    assert (tmp_path / "passes_a_joint.png").stat().st_size > 1000


def test_unknown_names_are_told(monkeypatch, capsys):
    for script, text in ((scaling, "no family nowhere"), (tables, "no table nowhere")):
        monkeypatch.setattr(sys, "argv", ["x", "nowhere"])
        with pytest.raises(SystemExit):
            script.main()
        assert text in capsys.readouterr().err


def test_dense_rows_cost_more_and_find_the_same():
    """Two arms whose rows nothing couples."""
    robot = topologies.Robot("arms", 0)
    for arm in "ab":
        robot.tie(jd.constraints.Weld, robot.chain("world", 7, arm)[-1])
    model = robot.build()
    q, v, tau = (x[0] for x in measure.states(model, model.neutral(), 1))
    solve = lambda solver, *x: jd.forward_dynamics(model, jd.State(*x[:2]), x[2], solver=solver).acceleration  # noqa: E731
    solvers = jd.solvers.ProxLTL(max_steps=1), tables.DenseRows(max_steps=1)
    apart, dense = (operations.operations(functools.partial(solve, s), q, v, tau) for s in solvers)
    assert apart < dense
    apart, dense = (solve(s, q, v, tau) for s in solvers)
    np.testing.assert_allclose(apart, dense, rtol=1e-9, atol=1e-9)


TABLES = json.loads((FOLDER / "tables.json").read_text())
MEASURED = TABLES["choice"]
ROBOTS = [*tables.REAL, *topologies.MADE]


def time_of(name: str, solver: str) -> float:
    """Of what it picks now, as it was measured; Digit is not at hand."""
    row = MEASURED[name]
    picked = row[solver].get("same as", solver) if "digit" in name else tables.same_as(name, solver)
    return row[picked]["microseconds"]


@pytest.mark.parametrize("name", ROBOTS)
def test_choices_are_near_the_best(name):
    """`Auto` within 15% of the fastest of those that it knows, on the random robots, which the weights were not fitted
    to, too, and within 25% of `ProxLTLSoft` on small ones; `Unified` within 10% of the better of the two that it is
    made of."""
    row = {solver: found["microseconds"] for solver, found in MEASURED[name].items()}
    unknown = row.pop("ProxLTLSoft", np.inf)
    assert time_of(name, "Auto") <= min(1.15 * min(row.values()), 1.25 * unknown), (row, unknown)
    assert time_of(name, "Unified") <= 1.1 * min(row["LCABA"], row["ProxBBO"]), row


def test_ties_are_cheap_where_rows_are_many():
    """LCABA on two Digits with a cube: against `ProxLTL` in time, and against the paper's, with its dense rows, in
    operations, too. Operations of large dense fronts take less time than others."""
    row = TABLES["lcaba"]["two_digits_cube"]
    assert row["DenseRows"]["operations"] >= 6 * row["LCABA"]["operations"]
    for solver in ("ProxLTL", "DenseRows"):
        assert row[solver]["microseconds"] >= 5 * row["LCABA"]["microseconds"], solver


def test_early_elimination_is_cheaper_on_large_robots():
    """In operations on all humanoids, in time too with four limbs held (popov_vereshchagin, Table II)."""
    for name in [f"{robot}_{n}" for robot in ("atlas", "talos") for n in (1, 2, 3, 4)]:
        row = TABLES["pv"][name]
        for key in ("operations", "microseconds") if name.endswith("4") else ("operations",):
            assert row["PVEarly"][key] < min(row[s][key] for s in ("PV", "LTL")), (name, key)


LINEAR = {
    "chain": ("PV", "PVEarly", "PVSoft", "ConstrainedABA"),
    "tree": ("PV", "PVEarly", "PVSoft", "ConstrainedABA"),
    "cycle": ("LCABA", "ProxBBO"),
    "loop_chain": ("LCABA", "ProxBBO"),
}


@pytest.mark.parametrize(("family", "solver"), [(f, s) for f, solvers in LINEAR.items() for s in solvers])
def test_counts_grow_linearly(family, solver):
    rows = json.loads((FOLDER / "scaling.json").read_text())[family][solver]
    assert scaling.exponent(*scaling.points(rows, "operations")) <= 1.15


CELL = re.compile(r"\| \[`(\w+)\(\)`\]\(\S+\) \|[^|]*\|[^|]*\|([^|]*)\|([^|]*)\|([^|]*)\|")
#: the same program where everything is held to the ground
ALSO = {"ConstrainedABA": "LCABA", "ProxPV": "ProxBBO"}


def test_the_choosing_table_holds_what_was_measured():
    """Columns Talos, Digit and nested of docs/solvers.md: times relative to `LCABA` from one row of a table."""
    found = CELL.findall((FOLDER.parent / "solvers.md").read_text())
    assert len(found) == 15
    for solver, *cells in found:
        for robot, cell in zip(("talos_4", "digit", "nested_4"), cells, strict=True):
            measured = ALSO.get(solver, solver) if robot == "talos_4" else solver
            rows = [TABLES[t][robot] for t in ("choice", "pv", "lcaba") if measured in TABLES[t].get(robot, ())]
            told = f"{rows[0][measured]['microseconds'] / rows[0]['LCABA']['microseconds']:.1f}" if rows else ""
            assert cell.strip() == told, (solver, robot)


@pytest.mark.parametrize(("figure", "copies"), [("duplicates", 2), ("soft", 1)])
def test_figures_of_convergence(figure, copies, tmp_path, monkeypatch):
    """Written for a small arm whose tip is welded; the others take as long as their robots."""
    scene = systems.Scene("arm")
    tip = systems._limb(scene.spec, np.random.default_rng(0), "world", "link", 7, 0.2, 3.0)
    arm = scene.build(copies * [(jd.constraints.Weld, tip, "world")])
    monkeypatch.setattr(systems, "system", lambda name: arm)
    monkeypatch.setattr(sys, "argv", ["convergence.py", figure, "--states", "2", "--out", str(tmp_path)])
    convergence.main()
    found = json.loads((tmp_path / "convergence.json").read_text())[figure]
    assert all(0 <= p["least"] <= p["median"] <= p["largest"] for points in found.values() for p in points.values())
    if figure == "duplicates":
        assert found["μ = 1e+06"]["3"]["largest"] < 1e-3 * found["μ = 1e+02"]["1"]["largest"]
    else:
        soft, hard = (found[f"{x}: residual"]["1e+08"]["largest"] for x in ("PVSoft", "PV"))
        assert hard < 1e-3 * soft < 1e-3
    assert (tmp_path / f"convergence_{figure}.png").stat().st_size > 1000


@pytest.mark.parametrize(
    "name", ["convergence", "delassus", "kernels", "osim_operations", "passes", "scaling", "tables"]
)
def test_results_say_where_they_come_from(name):
    """Every section has runs, and the page names their commits and dates."""
    found = json.loads((FOLDER / f"{name}.json").read_text())
    meta = found.pop("meta")
    assert set(meta["of"]) == set(found)
    page = FOLDER / f"{name}.md"
    text = (page if page.exists() else FOLDER / "index.md").read_text()
    for run in meta["runs"]:
        assert run["date"] in text and run.get("commit", run.get("added by")) in text
    if page.exists():
        told = origins.Origins(meta).told
        assert all(told(section) and told(section) in text for section in found)


def test_a_run_notes_its_machine_and_commit(tmp_path, monkeypatch):
    """New rows are of the new run, others stay of theirs, and runs of which nothing is left go."""
    run = origins.origin()
    assert {"processor", "cores", "python", "jax", "jaxlib", "llvmlite", "commit", "date"} == set(run)
    results = Results(tmp_path, "some")
    results.found["a"] = {"x": 1, "y": 2}
    monkeypatch.setattr("results.origin", lambda: run | {"commit": "1111111"})
    results.keep("a", ["x", "y"])
    results = Results(tmp_path, "some")
    assert results.found == {"a": {"x": 1, "y": 2}}
    monkeypatch.setattr("results.origin", lambda: run | {"commit": "2222222"})
    results.keep("a", ["x"])
    meta = json.loads((tmp_path / "some.json").read_text())["meta"]
    assert [meta["runs"][meta["of"]["a"][row]]["commit"] for row in "xy"] == ["2222222", "1111111"]
    told = results.origins.told("a")
    assert told.count("Measured on") == 1 and "2222222" in told and "1111111" in told
    results.keep("a", ["y"])
    assert [r["commit"] for r in json.loads((tmp_path / "some.json").read_text())["meta"]["runs"]] == ["2222222"]


def test_ten_random_robots_are_not_fitted():
    assert len(topologies.UNSEEN) == 10 and set(topologies.UNSEEN) <= set(MEASURED)


def test_a_mixture_is_faster_than_both():
    found = [n for n in ROBOTS if MEASURED[n]["Unified"].get("same as", "Unified") == "Unified"]
    assert any(time_of(n, "Unified") < min(MEASURED[n][s]["microseconds"] for s in ("LCABA", "ProxBBO")) for n in found)


def test_the_choice_knows_the_precision():
    """In single precision rows that ride save solves, and need no advantage besides; the model's numbers decide, not
    JAX's."""
    linkages = geared_robots.units("six_bar", 5)
    assert jd.solvers.Auto().pick(linkages.topology, linkages.constraints, np.float32) == jd.solvers.ProxBBO()
    model, _ = systems.system("cycle_8")
    picked = [jd.solvers.Auto().pick(model.topology, model.constraints, d) for d in (None, np.float64, np.float32)]
    assert picked == [jd.solvers.LCABA(), jd.solvers.LCABA(), jd.solvers.ProxBBO()]
    single = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), model)
    rest = jnp.zeros(model.nv, jnp.float32)
    solved = [
        jax.jit(
            lambda s=s: jd.forward_dynamics(single, jd.State(single.neutral(), rest), rest, solver=s).acceleration
        )()
        for s in (jd.solvers.Auto(), jd.solvers.ProxBBO())
    ]
    np.testing.assert_array_equal(*solved)


def test_many_constraints_are_planned_quickly():
    """Beyond `unified.MOST` only all or none of them ride, and few orders are tried."""
    mixture.cache_clear()
    model, q = systems.quadruped("go1", 4)
    feet = [c for c in model.constraints for _ in range(12)]
    picked = jd.solvers.Auto().pick(model.topology, tuple(feet))
    assert mixture.cache_info().misses <= 3
    assert type(picked).__name__ in ("LCABA", "ProxBBO", "ProxLTL")
    assert type(jd.solvers.Auto().pick(model.topology, ())).__name__ == "ABA"


def test_operators_are_measured_and_resumed(tmp_path, monkeypatch):
    """Of a batch of a linkage with a loop and of single states of boxes; that every method is right, and what is there
    is left alone."""
    run = ["--dtypes", "float64", "--rounds", "1", "--steps", "2", "--out", str(tmp_path), "--methods", "MatrixFree"]
    loop = ["four_bar", "--batches", "2", *run, delassus_programs.PLAIN]
    delassus.main(loop)
    delassus.main(["stack_1", "--batches", "1", *run, delassus_programs.PLAIN])
    delassus.main(["stack_2", "--batches", "1", *run])
    rows = json.loads((tmp_path / "delassus.json").read_text())["scenes"]
    assert set(rows) == {"four_bar float64 2", "stack_1 float64 1", "stack_2 float64 1"}
    assert [len(row["methods"]) for row in rows.values()] == [2, 2, 1]
    for row in rows.values():
        for method, found in row["methods"].items():
            # plain algebra gives rows that hold a little damping
            assert max(found["difference"].values()) < (1e-5 if method == delassus_programs.PLAIN else 1e-9)
            assert set(found["microseconds"]) == set(delassus_programs.TIMES)
            assert found["stored_bytes"] > 0 and min(found["microseconds"].values()) > 0
            assert (min(found["kernel_bytes"][t] for t in delassus_programs.FIRST) > 0) and delassus_report.taken(found)
    page = (tmp_path / "delassus.md").read_text()
    assert "## float64, batch 2" in page and "| stack | float64 | 1 | MatrixFree | 12 to 24 |" in page
    assert (tmp_path / "delassus_stack.png").stat().st_size > 1000
    monkeypatch.setattr(delassus, "measured", None)
    delassus.main(loop)


def test_an_older_tree_runs_the_same_programs(tmp_path):
    """Today's names are lent to it, from the robots to the clock."""
    try:
        kernel_bench.unpack(tmp_path / "old")
    except subprocess.CalledProcessError:
        pytest.skip(f"commit {kernel_bench.BASE} is not in this clone")
    file = str(tmp_path / "states.npz")
    with Worker(kernel_bench.ROOT, "float64", tmp_path / "new.log") as worker:
        worker("inputs", robot="loop_chain_8", batch=2, file=file)
    with Worker(tmp_path / "old", "float32", tmp_path / "old.log") as worker:
        worker("prepare", key="main", robot="loop_chain_8", program="empty", dtype="float32", file=file, batch=2)
        assert worker("time", key="main", repeats=1) > 0


def test_what_would_take_too_much_is_left_out(tmp_path):
    run = ["--batches", "1", "2", "--dtypes", "float32", "--rounds", "1", "--steps", "2", "--out", str(tmp_path)]
    delassus.main(["box", "--methods", delassus_programs.PLAIN, "--most", "1e-6", *run])
    rows = json.loads((tmp_path / "delassus.json").read_text())["scenes"]
    assert "left out" not in rows["box float32 1"]["methods"][delassus_programs.PLAIN]
    assert "would take" in rows["box float32 2"]["methods"][delassus_programs.PLAIN]["left out"]
    assert "would take" in (tmp_path / "delassus.md").read_text()


def test_what_is_said_of_the_delassus_operator_is_what_was_measured():
    rows = json.loads((FOLDER / "delassus.json").read_text())["scenes"]

    def both(key):
        """Microseconds of a product and a solve by method, the fastest first."""
        found = {m: x["microseconds"]["both"] for m, x in rows[key]["methods"].items() if "left out" not in x}
        return dict(sorted(found.items(), key=lambda item: item[1]))

    for batch in (1, 16):
        us = both(f"pyramid_4 float64 {batch}")
        assert us["LTL"] > 100 * us["MatrixFree"] and us["LTL"] < 1.5 * us[delassus_programs.PLAIN]
    pyramid = rows["pyramid_4 float64 1"]["methods"]
    peak = {m: x["stored_bytes"] + delassus_report.taken(x) for m, x in pyramid.items()}
    assert peak["MatrixFree"] < 0.1 * min(peak["LTL"], peak["Dense"])
    assert sum(pyramid["MatrixFree"]["compile_seconds"].values()) < 30
    for family in ("stack", "swimmer"):
        sizes = delassus_report.grown(rows, family, "float64", 1)["MatrixFree"]
        for of in (lambda x: x["microseconds"]["both"], lambda x: x["stored_bytes"], delassus_report.taken):
            assert exponent(list(sizes), [of(x) for x in sizes.values()]) < 1.1
    # a batch in single precision, and from forty rows on a single state, too
    batched = [key for key in rows if key.endswith("float32 512")]
    many = [key for key, row in rows.items() if key.endswith("float64 1") and row["rows"] > 40]
    assert len(batched) >= 6 and len(many) >= 6
    assert all(next(iter(both(key))) == "MatrixFree" for key in (*batched, *many))
    for few in ("cassie", "quadruped_standing"):
        assert next(iter(both(f"{few} float64 1"))) == "PV"


def test_operations_of_the_delassus_matrix_are_written(tmp_path, monkeypatch):
    monkeypatch.setattr(osim_operations, "STEMS", {1: (2,)})
    osim_operations.main(["--robots", "iiwa_point", "go1_1", "--out", str(tmp_path)])
    found = json.loads((tmp_path / "osim_operations.json").read_text())
    assert set(found["robots"]) == {"iiwa_point", "go1_1"} and len(found["stem"]) == 2
    page = (tmp_path / "osim_operations.md").read_text()
    assert "| go1_1 | 18 | 3 | **" in page and "| 2 | 1 | parallel |" in page
    assert all((tmp_path / f"osim_operations_{s}.png").stat().st_size > 1000 for s in osim_operations.SECTIONS)


def test_what_is_said_of_the_delassus_matrix_is_what_was_counted():
    found = json.loads((FOLDER / "osim_operations.json").read_text())
    of = {name: osim_report.totals(row) for name, row in found["robots"].items()}
    assert min(of["iiwa_weld"], key=of["iiwa_weld"].__getitem__) == osim_report.WITHOUT
    assert of["iiwa_weld"]["LTL"] < of["iiwa_weld"]["PV"]
    for robot in ("go1", "atlas", "talos"):
        for n in (2, 3, 4):
            row = of[f"{robot}_{n}"]
            assert min(row, key=row.__getitem__) == "PVFast" and row["PV"] < min(row["EFPA"], row["LTL"])
    for n in (3, 4):
        assert of[f"atlas_{n}"]["PV"] < of[f"atlas_{n}"][osim_report.WITHOUT] < of[f"atlas_{n}"]["EFPA"]
    first = {row["branches"]: row["crossover"] for row in found["stem"].values() if row["links"] == 7 and row["turned"]}
    assert first[2] is None and (first[4], first[10]) == (797, 22)


def test_embedded_robots_are_measured_and_resumed(tmp_path, monkeypatch):
    case = functools.partial(embedding.unit, "belt", 1, 1), ("embedded", "LCABA"), embedding.BOTH
    monkeypatch.setattr(embedding, "GROUPS", {"belt": lambda _: {"1 x 1": case}})
    monkeypatch.setattr(embedding_cases, "TURNS", 2)
    arguments = ["belt", "--batch", "2", "--rounds", "1", "--out", str(tmp_path)]
    embedding.main(arguments)
    row = json.loads((tmp_path / "embedding.json").read_text())["belt"]["1 x 1"]
    assert (row["bodies"], row["nv"], row["independent"], row["rows"], row["largest"]) == (5, 10, 8, 2, 4)
    for form in ("embedded", "LCABA"):
        for dtype, most in (("float32", 1e-4), ("float64", 1e-11)):
            assert row[dtype][form]["microseconds"] > 0 and row[dtype][form]["error"][1] < most
    assert (tmp_path / "embedding_growth.png").stat().st_size > 1000
    monkeypatch.setattr(embedding, "measured", None)
    embedding.main(arguments)


@pytest.mark.parametrize("kind", geared_robots.UNITS)
def test_embedded_mechanisms_agree_with_dense_algebra(kind):
    """All forms are the same motion; embedded, it takes fewer operations."""
    robot = embedding_cases.Robot(geared_robots.units(kind, 2, base=kind == "rotor"))
    rows, _ = embedding_cases.programs(robot, ("embedded", "ProxLTL"), 2, "float64")
    assert all(row["error"][1] < 1e-10 for row in rows.values())
    few, many = (embedding_cases.counts(robot, form)["operations"] for form in ("embedded", "LCABA"))
    assert few < many


@pytest.mark.parametrize("kind", ["belt", "four_bar"])
def test_embedded_mechanisms_take_less_called_code(kind, monkeypatch):
    """Called steps share nothing by themselves: what rows and bodies need of a cluster is swept once."""
    monkeypatch.setenv("JAXDYN_STEPS", "called")
    robot = embedding_cases.Robot(geared_robots.units(kind, 3))
    few, many = (embedding_cases.counts(robot, form) for form in ("embedded", "LCABA"))
    assert few["called"] < 0.95 * many["called"]
    assert few["code"] < many["code"]


@pytest.mark.parametrize(("rod", "bodies"), [(False, 4), (True, 5)])
def test_chains_are_tied_where_they_should_be(rod, bodies):
    model = geared_robots.two_chains(3, 2, rod)
    (cluster,) = jd.embed(model).topology.clusters
    assert len(cluster.bodies) == bodies
    assert len(cluster.dependent) == (2 if rod else 1)


def test_torques_are_wrong_without_rotors():
    """And those of the reflected inertia nearer, most of all at the knee, whose motor turns twelve times as fast."""
    found = embedding.torques(steps=8)
    exact, *others = (np.asarray(found["torque"][kind]) for kind in ("embedded", "neglected", "armature"))
    neglected, armature = (np.sqrt(np.mean((x - exact) ** 2, axis=1)) for x in others)
    knee = found["joints"].index("right_knee")
    assert neglected[knee] > 2 * armature[knee] > 0
    assert "right_knee" in "\n".join(embedding_report.torques({"torques": found}))


def test_torques_of_differentials():
    """Neglecting rotors is worse than reflecting them, at every motor."""
    found = embedding.differential_torques(steps=40)
    exact, *others = (np.asarray(found["torque"][kind]) for kind in ("embedded", "neglected", "armature"))
    neglected, armature = (np.sqrt(np.mean((x - exact) ** 2, axis=1)) for x in others)
    assert (neglected > 1.5 * armature).all() and (armature > 0).all()
    assert "knee_rotor_1" in "\n".join(embedding_report.torques({"differential_torques": found}))


def test_rows_that_lack_are_measured_alone(tmp_path):
    kept = Results(tmp_path, "some")
    kept.found["robots"] = {"a": 1}
    kept.keep("robots")
    kept.extend("robots", kept.found["robots"], {"b": 2})
    again = Results(tmp_path, "some")
    assert again.found["robots"] == {"a": 1, "b": 2}
    assert set(again.origins.of["robots"]) == {"a", "b"}


EMBEDDED = json.loads((FOLDER / "embedding.json").read_text())
#: rows of docs/embedding.md, by group and robot
TOLD = {
    "ten four-bars": ("linkages", "10 x four_bar"),
    "five six-bars": ("linkages", "5 x six_bar"),
    "Mini Cheetah, 12": ("robots", "mini_cheetah"),
    "MIT humanoid, 18": ("robots", "mit_humanoid"),
    "Mini Cheetah, four": ("feet", "mini_cheetah"),
    "MIT humanoid, two": ("feet", "mit_humanoid"),
}


@pytest.mark.parametrize("start", TOLD)
def test_what_is_said_of_embedding_is_what_was_measured(start):
    """The table of docs/embedding.md: microseconds, then times relative to these."""
    (line,) = [x for x in (FOLDER.parent / "embedding.md").read_text().splitlines() if x.startswith(f"| {start}")]
    group, name = TOLD[start]
    row = EMBEDDED[group][name]
    for form, cell in zip(("embedded", "LCABA", "ProxLTL", "free", "approximate"), line.split("|")[2:-1], strict=True):
        times = [
            row[dtype][form]["microseconds"] / (1 if form == "embedded" else row[dtype]["embedded"]["microseconds"])
            for dtype in (("float32", "float64") if cell.strip() else ())
        ]
        assert cell.strip() == ", ".join(f"{x:.2f}" for x in times), (form, cell)


#: lines of the table in docs/kernels.md, and programs of gpu.json
ON_GPU = {
    "Go1, ABA": "go1, ABA",
    "Go1, a step with four contacts, PGS": "go1, step, PGS",
    "the same in `simulate`, 100 steps": "go1, simulation, PGS",
    "Talos, ABA": "talos, ABA",
    "Talos, its gradient": "talos, gradient of ABA",
    "Talos, a step with eight contacts, PGS": "talos, step, PGS",
    "Cassie, LCABA of three solves": "cassie, LCABA, 3 solves",
    "Cassie, its gradient": "cassie, gradient of LCABA, 3 solves",
    "Cassie, a step with loops and four contacts, PGS": "cassie, step, PGS",
    "Go1, a step with contact, limits and dry friction, Auto": "go1, step, Auto",
    "the same in `simulate`, 100 steps in which it collapses": "go1, simulation, Auto",
    "the same with limits and dry friction, Auto": "cassie, step, Auto",
}


def test_what_is_said_of_gpus_is_what_was_measured():
    """No number differs from the CPU's, and the rates are those of the table, to two digits or three."""
    measured = json.loads((FOLDER / "gpu.json").read_text())
    assert not any(row["kernel"]["differing"] for name, row in measured.items() if name != "meta")
    lines = (FOLDER.parent / "kernels.md").read_text().partition("## GPUs")[2].splitlines()
    for start, name in ON_GPU.items():
        (line,) = [x for x in lines if x.startswith(f"| {start} |")]
        for cell, compiler in zip(line.split("|")[2:4], ("kernel", "xla"), strict=True):
            row = measured[f"{name}, float32"].get(compiler)
            assert (cell.strip() == "") == (row is None)
            if row:
                rate, told = row["millions"]["65536"], float(cell.replace(",", ""))
                assert abs(told - rate) <= 0.02 * told, line


@pytest.mark.parametrize("kind", embedding_report.UNITS)
def test_operations_of_embedding_grow_with_the_number_of_clusters(kind):
    for branches in (False, True):
        slopes = embedding_report.operation_growth(EMBEDDED, kind, branches)
        assert all(float(x) <= 1.1 for x in slopes) and len(slopes) == 2, (branches, slopes)


def test_embedding_takes_fewer_operations_than_cutting():
    """Also where steps are called, and in bytes of code."""
    for name, row in EMBEDDED["operations"].items():
        for what in ("operations", "called", "code"):
            assert row["embedded"][what] <= row["LCABA"][what], (name, what)
