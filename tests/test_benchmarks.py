"""The benchmarks' robots and scripts, and that `Auto` chooses well by what they have measured."""

import functools
import json
import sys
from pathlib import Path

import measure
import numpy as np
import operations
import pytest
import scaling
import systems
import tables
import topologies

import jaxdyn as jd
from jaxdyn.tree import cost

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
        robot.tie(jd.Weld, robot.chain("world", 7, arm)[-1])
    model = robot.build()
    q, v, tau = (x[0] for x in measure.states(model, model.neutral(), 1))
    solve = lambda solver, *x: jd.forward_dynamics(model, jd.State(*x[:2]), x[2], solver=solver).acceleration  # noqa: E731
    solvers = jd.ProxLTL(max_steps=1), tables.DenseRows(max_steps=1)
    apart, dense = (operations.operations(functools.partial(solve, s), q, v, tau) for s in solvers)
    assert apart < dense
    apart, dense = (solve(s, q, v, tau) for s in solvers)
    np.testing.assert_allclose(apart, dense, rtol=1e-9, atol=1e-9)


MEASURED = json.loads((FOLDER / "tables.json").read_text())["choice"]


@pytest.mark.parametrize("name", sorted(n for n in MEASURED if n != "digit"))
def test_auto_is_near_the_best(name):
    """Within 15% of the fastest that was measured; on the random robots, which the weights were not fitted to, too."""
    model, _ = systems.system(name)
    row = {s: r["microseconds"] for s, r in MEASURED[name].items() if s not in ("Auto", "Unified")}
    picked = tables.same_as(name, "Auto")
    mine = MEASURED[name][picked]["microseconds"]
    assert mine <= 1.15 * min(row.values()), (picked, row)
    assert model.constraints and type(jd.Auto().pick(model.topology, ())).__name__ == "ABA"


def test_many_constraints_are_planned_quickly():
    """Beyond `unified.MOST` only all or none of them ride; prices are finite and positive."""
    model, q = systems.quadruped("go1", 4)
    feet = [c for c in model.constraints for _ in range(12)]
    picked = jd.Auto().pick(model.topology, tuple(feet))
    assert type(picked).__name__ in ("LCABA", "ProxBBO", "ProxLTL")
    assert cost.nanoseconds({}) == cost.FIXED
