"""The command line: what each command says, its exit codes, its files, and errors without tracebacks."""

import functools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import jaxdyn as jd
from jaxdyn.commands import bench, demo, output, peers, rollouts, touching
from jaxdyn.commands.cli import main, parser
from jaxdyn.commands.terminal import plain

ROOT = Path(__file__).resolve().parents[1]
COMMANDS = ("info", "check", "simulate", "bench", "demo")
FOUR_BAR = str(ROOT / "jaxdyn" / "robots" / "four_bar.urdf")


@pytest.fixture(autouse=True)
def plain_promotion(monkeypatch, tmp_path):
    """Commands run under jax's own settings, in a folder of their own."""
    settings = {"jax_numpy_dtype_promotion": "standard", "jax_numpy_rank_promotion": "allow"}
    before = {name: getattr(jax.config, name) for name in settings}
    for name, value in settings.items():
        jax.config.update(name, value)
    monkeypatch.chdir(tmp_path)
    yield
    for name, value in before.items():
        jax.config.update(name, value)


def usage(argv, capsys) -> str:
    """What argparse says about wrong use."""
    with pytest.raises(SystemExit) as stop:
        main(argv)
    assert stop.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples_that_parse(command, capsys):
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    lines = re.findall(r"^  jaxdyn (.+)$", text, re.MULTILINE)
    assert lines
    for line in lines:
        assert parser().parse_args(line.split()).command == command


def test_help_and_version(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0
    assert jd.__version__ in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    assert all(c in text for c in COMMANDS) and "exit codes" in text and "130" in text and "143" in text


@pytest.mark.parametrize(
    "argv, said",
    [
        ([], "COMMAND"),
        (["dance"], "dance"),
        (["info"], "MODEL"),
        (["simulate", "--ground", "four_bar"], "usage: jaxdyn simulate MODEL [options]"),
        (["simulate", "four_bar", "--batch", "0"], "0 is not a positive number"),
        (["simulate", "four_bar", "--seconds", "soon"], "'soon' is not a number"),
        (["simulate", "four_bar", "--batch", "1.5"], "'1.5' is not a whole number"),
        (["simulate", "four_bar", "--dt", "nan"], "nan is not a positive number"),
        (["simulate", "four_bar", "--integrator", "magic"], "magic"),
        (["simulate", "four_bar", "--contacts", "magic"], "magic"),
        (["simulate", "four_bar", "--ground", "-1"], "-1 is not a number from 0 on"),
        (["info", "four_bar", "--floating", "--fixed"], "not allowed with"),
        (["simulate", "four_bar", "--speed", "inf"], "inf is not a finite number"),
        (["simulate", "four_bar", "--seconds", "1e999"], "1e999 is not a positive number"),
        (["simulate", "four_bar", "--batch", "9" * 400], "is not a positive number"),
        (["simulate", "four_bar", "--batch", "9" * 5000], "(5000 characters)"),
        (["check", "four_bar", "--seed", "-1"], "-1 is not a whole number from 0 to"),
        (["check", "four_bar", "--seed", str(2**64)], "is not a whole number from 0 to"),
    ],
)
def test_wrong_options(argv, said, capsys):
    assert said in usage(argv, capsys)


@pytest.mark.parametrize(
    "argv, said",
    [
        (["info", "nowhere.urdf"], "no file 'nowhere.urdf'"),
        (["check", "nowhere.urdf"], "strider, four_bar"),
        (["simulate", "four_bar"], "--out"),
        (["simulate", "four_bar", "--out", "no/such/folder/t.npz"], "no folder 'no/such/folder'"),
        (["simulate", "four_bar", "--plot", "."], "it is a folder"),
        (["simulate", "four_bar", "--out", "t.csv"], "arrays are written as `.npz`"),
        (["simulate", "four_bar", "--out", "/dev/null"], "no file but a pipe, a device"),
        (["simulate", "four_bar", "--out", "t.npz", "--plot", "./t.npz"], "its name ends with none of"),
        (["simulate", "four_bar", "--out", "t.png", "--plot", "./t.png"], "they are one file"),
        (["simulate", "four_bar", "--out", "t.npz", "--plot", "t"], "its name ends with none of"),
        (["simulate", "four_bar", "--out", "t.npz", "--seconds", "0.1", "--dt", "0.03"], "--seconds 0.09 or 0.12"),
        (["simulate", "four_bar", "--out", "t.npz", "--seconds", "0.1", "--every", "7"], "--every 5 or 10"),
        (["simulate", "four_bar", "--out", "t.npz", "--seconds", "0.1", "--every", "700"], "--every 100."),
        (["simulate", "four_bar", "--out", "t.npz", "--seconds", "1e300"], "1e+303 steps"),
        (["simulate", "four_bar", "--out", "t.npz", "--seconds", "1e308"], "inf steps"),
        (["simulate", "four_bar", "--out", "t.npz", "--seconds", "1e-9"], "1e-06 steps"),
        (["simulate", "four_bar", "--out", "t.npz", "--batch", "9" * 20], "GB"),
        (["demo", "--out", ""], "cannot write ''"),
        (["simulate", "four_bar", "--out", "t.npz", "--plot", ""], "cannot write ''"),
        (["demo", "--out", "no/such/t.npz"], "no folder 'no/such'"),
        (["demo", "--out", "t.png", "--plot", "t.png"], "they are one file"),
        (["demo", "--seconds", "0.15"], "give a multiple of 0.02 s, --seconds 0.14 or 0.16"),
        (["bench", "four_bar", "--out", "no/such/b.json"], "no folder 'no/such'"),
    ],
)
def test_wrong_use(argv, said, capsys, monkeypatch):
    """Told before any work."""
    monkeypatch.setattr(rollouts, "closed", None)
    monkeypatch.setattr(bench, "measure", None)
    monkeypatch.setattr(demo, "bipeds", None)
    assert main(argv) == 2
    got = capsys.readouterr()
    assert said in got.err and got.err.startswith(f"jaxdyn {argv[0]}: ")
    assert "Traceback" not in got.err + got.out


BAD = {
    "broken.urdf": ("<robot name='r'><link name='a'>", "broken.urdf"),
    "cycle.urdf": (
        "<robot name='r'><link name='a'/><link name='b'/>"
        "<joint name='j' type='revolute'><parent link='a'/><child link='b'/><axis xyz='0 0 1'/>"
        "<limit effort='1' velocity='1'/></joint>"
        "<joint name='k' type='revolute'><parent link='b'/><child link='a'/><axis xyz='0 0 1'/>"
        "<limit effort='1' velocity='1'/></joint></robot>",
        "b -> a -> b",
    ),
    "words.txt": ("this is no robot", "words.txt"),
}


@pytest.mark.parametrize("command", ["info", "check"])
@pytest.mark.parametrize("name", BAD)
def test_malformed_files(command, name, tmp_path, capsys):
    text, said = BAD[name]
    (tmp_path / name).write_text(text)
    assert main([command, name]) == 1
    got = capsys.readouterr()
    assert said in got.err + got.out
    assert "Traceback" not in got.err + got.out


def test_info_tells_everything(capsys):
    assert main(["info", "strider"]) == 0
    text = capsys.readouterr().out
    model = jd.load("strider")
    for name in (*model.joint_names, *model.body_names, *model.actuator_names):
        assert re.search(rf"\b{name}\b", text), name
    for constraint in model.constraints:
        assert constraint.name in text
    assert "nv 28" in text and "13 kg" in text


def test_info_reads_files(capsys):
    assert main(["info", FOUR_BAR]) == 0
    text = capsys.readouterr().out
    assert "constraints" in text
    assert re.search(r"forward dynamics +ForwardDynamics +\d+ +\d+ +\d+ +\d+ kB +[\d.]+ s +kernel", text)


INERTIAL = """
  <inertial><mass value="1"/><inertia ixx=".1" iyy=".1" izz=".1" ixy="0" ixz="0" iyz="0"/></inertial>
"""
LOOSE = f"""
<robot name="open">
  <link name="base"/>
  <link name="arm">{INERTIAL}</link>
  <link name="far">{INERTIAL}</link>
  <joint name="one" type="continuous"><parent link="base"/><child link="arm"/><axis xyz="0 1 0"/></joint>
  <joint name="two" type="continuous">
    <parent link="base"/><child link="far"/><origin xyz="9 0 0"/><axis xyz="0 1 0"/>
  </joint>
  <loop name="shut" type="continuous">
    <predecessor link="arm"><origin xyz="1 0 0"/></predecessor>
    <successor link="far"><origin xyz="1 0 0"/></successor>
    <axis xyz="0 1 0"/>
  </loop>
</robot>
"""
GEARED = f"""
<robot name="geared">
  <link name="base"/>
  <link name="arm">{INERTIAL}</link>
  <link name="rotor">{INERTIAL}</link>
  <link name="far">{INERTIAL}</link>
  <link name="wheel">{INERTIAL}</link>
  <joint name="shoulder" type="continuous"><parent link="base"/><child link="arm"/><axis xyz="0 1 0"/></joint>
  <joint name="elbow" type="continuous">
    <parent link="arm"/><child link="far"/><origin xyz="1 0 0"/><axis xyz="0 1 0"/>
  </joint>
  <joint name="motor" type="continuous" independent="false">
    <parent link="arm"/><child link="rotor"/><axis xyz="0 1 0"/>
  </joint>
  <joint name="spin" type="continuous"><parent link="far"/><child link="wheel"/><axis xyz="0 1 0"/></joint>
  <coupling name="gear"><predecessor link="far"/><successor link="rotor"/><ratio value="9"/></coupling>
</robot>
"""


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("four_bar", [r"nv 1 of 3, clusters: 1", r"  \S+ +\w+, \w+, \w+ +\w+ +yes$"]),
        ("geared.urdf", [r"nv 3 of 4, clusters: 1", r"  gear +far, rotor \(rotor\) +elbow +yes$"]),
    ],
)
def test_info_tells_what_embed_would_do(source, lines, tmp_path, capsys):
    (tmp_path / "geared.urdf").write_text(GEARED)
    assert main(["info", source]) == 0
    text = capsys.readouterr().out
    for line in lines:
        assert re.search(line, text, re.MULTILINE), f"{line}\n{text}"


def test_info_tells_of_loops_that_are_not_local(capsys, monkeypatch):
    from jaxdyn.commands.info import clusters
    from jaxdyn.kinematics import embed

    model = jd.load("four_bar")
    monkeypatch.setattr(embed, "LARGEST", 2)
    assert re.search(r" no$", clusters(model), re.MULTILINE)


def test_info_tells_why_nothing_can_be_embedded(tmp_path, capsys):
    (tmp_path / "open.urdf").write_text(LOOSE)
    assert main(["info", "open.urdf"]) == 0
    assert "not embedded: `embed`: cannot close 'shut'" in capsys.readouterr().out


def test_check_of_a_sound_model(capsys):
    assert main(["check", "four_bar"]) == 0
    text = capsys.readouterr().out
    assert "loops close near q = 0" in text
    assert "3 constraint rows of rank 2" in text and "redundant rows: 1" in text
    assert re.search(r"LCABA and Dense agree to [\d.]+e-1\d", text)
    assert "no problem found" in text


def test_check_counts_rows_where_loops_are_closed(capsys):
    """An opening of a micrometre makes the redundant row of a linkage that can lean an independent one."""
    assert main(["check", "four_bar", "--floating"]) == 0
    text = capsys.readouterr().out
    assert "3 constraint rows of rank 2: 7 motions" in text and "rank changes" not in text


def test_the_largest_seed(tmp_path, capsys):
    assert main(["check", FOUR_BAR, "--seed", str(2**64 - 1)]) == 0
    assert main(["simulate", FOUR_BAR, "--seed", str(2**64 - 1), "--seconds", "0.01", "--out", "t.npz"]) == 0


def test_check_of_a_loop_that_cannot_close(tmp_path, capsys):
    (tmp_path / "open.urdf").write_text(LOOSE)
    assert main(["check", "open.urdf"]) == 1
    text = capsys.readouterr().out
    assert "PROBLEM: loops do not close" in text and "'shut'" in text and "stays open by" in text


def test_check_of_what_does_not_move(tmp_path, capsys):
    (tmp_path / "still.urdf").write_text('<robot name="still"><link name="a"/></robot>')
    assert main(["check", "still.urdf"]) == 0
    text = capsys.readouterr().out
    assert "nothing moves" in text and "no joint moves" in text and "no problem found" in text and "PROBLEM" not in text


def test_simulate_saves_and_plots(tmp_path, capsys):
    argv = ["simulate", "four_bar", "--batch", "3", "--seconds", "0.1", "--speed", "0.3"]
    assert main([*argv, "--out", "t.npz", "--plot", "t.png"]) == 0
    text = capsys.readouterr().out
    assert "rollouts/s" in text and "worst loop opening" in text
    with np.load("t.npz") as data:
        t, q, v = data["t"], data["q"], data["v"]
    assert t.shape == (11,) and q.shape == v.shape == (3, 11, 3)
    np.testing.assert_allclose(t, np.arange(11) * 0.01, atol=1e-12)
    assert q.dtype == np.float64 and np.isfinite(q).all()
    model = jd.load("four_bar")
    for end in q[:, -1]:
        assert float(np.abs(jd.constraint_residual(model, end)).max()) < 1e-4
    assert np.abs(q[0, -1] - q[1, -1]).max() > 1e-6, "all rollouts are the same"
    assert Path("t.png").read_bytes()[:4] == b"\x89PNG"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["t.npz", "t.png"]


LIGHT = """
<robot name="light">
  <link name="base"/>
  <link name="arm"/>
  <joint name="one" type="continuous"><parent link="base"/><child link="arm"/><axis xyz="0 1 0"/></joint>
</robot>
"""
BRICK = """
<robot name="brick">
  <link name="brick">
    <inertial> <mass value="2"/> <inertia ixx="0.01" iyy="0.01" izz="0.01" ixy="0" ixz="0" iyz="0"/> </inertial>
    <collision> <geometry> <box size="0.2 0.2 0.1"/> </geometry> </collision>
  </link>
</robot>
"""


def test_simulate_with_contacts(tmp_path, capsys):
    (tmp_path / "brick.urdf").write_text(BRICK)
    argv = ["simulate", "brick.urdf", "--floating", "--contacts", "--ground", "0.5", "--batch", "3", "--speed", "0.1"]
    assert main([*argv, "--seconds", "0.5", "--out", "t.npz", "--plot", "t.png"]) == 0
    text = capsys.readouterr().out
    assert "brick is lifted by 0.05 m" in text
    assert re.search(r"4 places where shapes may touch; mean normal forces: brick on ground [\d.]+ N", text)
    assert re.search(r"the law of contact is met to \S+ m/s, and missed in 0 of 1500 steps", text)
    with np.load("t.npz") as data:
        q, force, gap, pairs = (data[k] for k in ("q", "force", "gap", "pairs"))
    assert q.shape == (3, 51, 7) and force.shape == (3, 50, 4, 3) and gap.shape == (3, 50, 4)
    assert pairs.tolist() == [["brick", "ground"]] * 4
    np.testing.assert_allclose(force[:, -10:, :, 0].sum(-1), 2 * 9.81, rtol=1e-3)  # it has come to rest
    assert np.abs(gap[:, -10:]).max() < 1e-4 and force[..., 0].min() >= 0
    np.testing.assert_allclose(q[:, -1, 2], 0.05, atol=1e-4)
    one, three = output._pyplot().imread("t.png").shape[0], 3 * 3 * 120
    assert one == three, "the picture has no forces"


def test_simulate_takes_the_shapes_that_are_named(tmp_path, capsys):
    """Where robots are so many that even a few slots each are too many."""
    robots = "".join(
        f'''<body name="{name}" pos="{k} 0 0"><freejoint name="{name}"/>
        <geom name="{name}" type="box" size="0.05 0.05 0.05" conaffinity="0"/></body>'''
        for k, name in enumerate(["brick", *(f"fin {k}" for k in range(18))])
    )
    (tmp_path / "bricks.xml").write_text(f"<mujoco><worldbody>{robots}</worldbody></mujoco>")
    argv = ["simulate", "bricks.xml", "--contacts", "pgs", "--ground", "--seconds", "0.1", "--out", "t.npz"]
    assert main(argv) == 2
    text = capsys.readouterr().err
    assert "76 places where shapes may touch" in text and "--touch" in text
    assert main([*argv, "--project", "--touch", "fin 0", "brick"]) == 0
    with np.load("t.npz") as data:
        assert sorted({a for a, _ in data["pairs"].tolist()}) == ["brick", "fin 0"]


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["arm.urdf", "--seconds", "0.1"], r"100 solves failed \(not_finite: 100\), .*; look for .* `jaxdyn check`"),
        (["four_bar", "--dt", "0.05", "--speed", "10"], "not_finite: .*diverged: .*; try a smaller --dt"),
    ],
)
def test_simulate_says_how_solves_fail(argv, told, tmp_path, capsys):
    (tmp_path / "arm.urdf").write_text(LIGHT)
    assert main(["simulate", *argv, "--out", "t.npz"]) == 1
    text = capsys.readouterr().out
    assert re.search(told, text) and ": 1 rollout of" in text


def test_check_names_the_solvers_that_fail(tmp_path, capsys):
    (tmp_path / "arm.urdf").write_text(LIGHT)
    assert main(["check", "arm.urdf"]) == 1
    assert "accelerations of ABA and Dense are not finite." in capsys.readouterr().out


def test_simulate_tells_loops_that_open(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    argv = ["simulate", "four_bar", "--seconds", "0.3", "--dt", "0.1", "--integrator", "rk4", "--out", "t.npz"]
    assert main(argv) == 1
    told = capsys.readouterr().out
    assert "loops open by more than 0.01; try a smaller --dt, or --project" in told and "wrote t.npz" in told


def test_simulate_pgs_says_what_it_misses(tmp_path, capsys, monkeypatch):
    """One sweep is too few for a brick that lands on a corner: told, and no failure of a solve."""
    (tmp_path / "brick.urdf").write_text(BRICK)
    monkeypatch.setitem(touching.LAWS, "pgs", functools.partial(jd.contact.PGS, sweeps=1))
    argv = ["simulate", "brick.urdf", "--floating", "--contacts", "pgs", "--ground", "--speed", "2"]
    assert main([*argv, "--seconds", "0.5", "--batch", "8", "--out", "t.npz"]) == 0
    assert re.search(r"missed in [1-9]\d* of 4000 steps", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["--touch", "brick"], "--touch: without --contacts nothing touches"),
        (
            ["--contacts", "--ground", "--touch", "*foot*"],
            "no pair that collides has a shape of that name; there are brick, ground",
        ),
        (["--ground"], "--ground: without --contacts nothing touches it"),
        (["--contacts", "--ground", "--integrator", "rk4"], "--contacts goes with --integrator euler, not with rk4"),
        (
            ["--contacts"],
            "no shapes of 'brick' can collide, and no joint has limits or dry friction; add a floor by --ground",
        ),
    ],
)
def test_wrong_use_of_contacts(argv, told, tmp_path, capsys):
    (tmp_path / "brick.urdf").write_text(BRICK)
    assert main(["simulate", "brick.urdf", "--floating", "--out", "t.npz", *argv]) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "t.npz").exists()


def test_a_floor_that_is_there_is_not_asked_for(capsys):
    assert main(["simulate", "four_bar", "--contacts", "--ground", "--out", "t.npz"]) == 2
    assert "no joint has limits or dry friction; add shapes to its file." in capsys.readouterr().err


def test_settings_are_put_back():
    before = jax.config.jax_enable_x64
    main(["info", "four_bar"])
    assert jax.config.jax_enable_x64 == before


def test_files_are_complete_or_absent(tmp_path):
    path = tmp_path / "numbers.npz"
    path.write_text("old")

    class Bad:
        def __array__(self, *args, **kwargs):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        output.save_arrays(path, {"a": np.zeros(3), "b": Bad()})
    assert path.read_text() == "old"
    with pytest.raises(RuntimeError), output.complete(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert path.read_text() == "old"
    output.save_arrays(path, {"a": np.arange(3)})
    np.testing.assert_array_equal(np.load(path)["a"], [0, 1, 2])
    assert [p.name for p in tmp_path.iterdir()] == ["numbers.npz"]
    assert path.stat().st_mode & 0o777 == 0o666 & ~_umask()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_pipes_are_no_files(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="'.*pipe': it is no file but a pipe"):
        output.check_writable(tmp_path / "pipe")


def test_files_keep_their_mode_and_links_stay(tmp_path):
    mine, link, new = tmp_path / "mine.npz", tmp_path / "link.npz", tmp_path / "sub" / "new.npz"
    mine.write_text("old")
    mine.chmod(0o600)
    link.symlink_to("mine.npz")
    output.save_arrays(link, {"a": np.arange(3)})
    assert link.is_symlink() and mine.stat().st_mode & 0o777 == 0o600
    np.testing.assert_array_equal(np.load(mine)["a"], [0, 1, 2])
    new.parent.mkdir()
    (tmp_path / "to").symlink_to(new)  # to a file that is not there yet
    output.save_arrays(tmp_path / "to", {"a": np.arange(2)})
    assert (tmp_path / "to").is_symlink() and new.stat().st_mode & 0o777 == 0o666 & ~_umask()
    long = tmp_path / ("n" * 251 + ".npz")
    output.save_arrays(long, {"a": np.arange(2)})
    assert long.exists()


def test_pieces_make_exactly_the_steps_asked_for():
    for seconds, dt, every in ((1.2, 1e-3, 10), (1.01, 1e-3, 10), (0.997, 1e-3, 1), (2.0, 1e-2, 200), (0.06, 2e-3, 3)):
        steps = rollouts.steps_of(seconds, dt, every)
        assert steps.total == round(seconds / dt)
        assert steps.total % steps.piece == 0 and steps.piece % every == 0
        assert steps.piece <= max(rollouts.PIECE, every)


def run_script(script, folder, seconds):
    """Run Python code in a process of its own, in a folder."""
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    argv = [sys.executable, "-c", script]
    return subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, timeout=seconds)


def test_an_end_from_outside_leaves_no_file(tmp_path):
    """SIGTERM in the middle of writing."""
    code = (
        "import os, signal, sys\n"
        "from jaxdyn.commands import cli, output\n"
        "def slow(args):\n"
        "    with output.complete('t.npz') as path:\n"
        "        path.write_text('half')\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "        while True: pass\n"
        "cli._info = slow\n"
        "sys.exit(cli.main(['info', 'four_bar']))\n"
    )
    done = run_script(code, tmp_path, 300)
    assert done.returncode == 143, done.stderr
    assert "terminated" in done.stderr and "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "shell, code, made",
    [
        ("info four_bar | true", 0, False),
        ("--help | true", 0, False),
        ("info nothing 2>&1 | true", 2, False),
        ("simulate four_bar --seconds 0.01 --out t.npz | true", 0, True),
        ("simulate four_bar --seconds 0.01 --out t.npz >&- 2>&-", 0, True),
        ("info four_bar > /dev/full", 1, False),
    ],
)
def test_output_that_nobody_reads(shell, code, made, tmp_path):
    if "full" in shell and not os.path.exists("/dev/full"):
        pytest.skip("no full device here")
    env = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1" if made else ""}
    script = f"set -o pipefail; '{sys.executable}' -m jaxdyn {shell}"
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == code, done.stderr
    assert done.stderr == ("jaxdyn info: [Errno 28] No space left on device\n" if code == 1 else "")
    assert (tmp_path / "t.npz").exists() == made


@pytest.mark.parametrize("name, code", [("SIGINT", 130), ("SIGTERM", 143)])
def test_an_end_from_outside_is_neither_lost_nor_waited_for(name, code, tmp_path):
    """A signal during Python's garbage collection, while another thread works and would crash."""
    script = (
        "import gc, os, signal, sys, threading, time\n"
        "from jaxdyn.commands import cli\n"
        # whoever runs the tests in the background has the shell ignore the first signal
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "def collected(phase, info):\n"
        "    if once: os.kill(os.getpid(), once.pop())\n"
        "    sum(range(10))\n"
        "def busy(args):\n"
        "    threading.Thread(target=lambda: (time.sleep(20), os._exit(7))).start()\n"
        "    gc.callbacks.append(collected)\n"
        "    gc.collect()\n"
        "    time.sleep(60)\n"
        f"once = [signal.{name}]\n"
        "cli._info = busy\n"
        "sys.argv = ['jaxdyn', 'info', 'four_bar']\n"
        "sys.exit(cli.main())\n"
    )
    done = run_script(script, tmp_path, 60)
    assert done.returncode == code, done.stderr
    assert re.fullmatch("jaxdyn info: (interrupted|terminated); no file was left half written.\n", done.stderr)


@pytest.mark.parametrize(
    "setting",
    [{"PYTHONIOENCODING": "ascii"}, {"LANG": "C", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}],
)
def test_terminals_that_know_ascii_alone(setting, tmp_path):
    env = os.environ | {"PYTHONPATH": str(ROOT)} | setting
    argv = [sys.executable, "-m", "jaxdyn", "info", "four_bar"]
    done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr.decode()
    assert b"m/s2" in done.stdout or "m/s²".encode() in done.stdout
    if "PYTHONIOENCODING" in setting:
        assert done.stdout.isascii()


def test_signs_have_a_nearest_spelling():
    assert plain("3 µs, m/s², ‖v‖, é, 中") == "3 us, m/s2, |v|, e, ?"


def test_numbers_that_no_machine_can_do_end_in_words(capsys, monkeypatch):
    def fail(args):
        raise OverflowError("cannot convert float infinity to integer")

    monkeypatch.setattr("jaxdyn.commands.cli._info", fail)
    assert main(["info", "four_bar"]) == 1
    assert "Traceback" not in capsys.readouterr().err


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_shipped_robots_are_closed_and_redundant():
    for name, rank in (("four_bar", 2), ("strider", 10)):
        model = jd.load(name)
        q = model.neutral()
        assert float(np.abs(jd.constraint_residual(model, q)).max()) < 1e-12
        J = np.asarray(jax.jit(jd.constraint_jacobian)(model, q))
        assert np.linalg.matrix_rank(J, 1e-9) == rank < len(J)


def test_cassie_is_found_without_pinocchio():
    code = "import sys; from jaxdyn.commands.demo import cassie_path as found; print(found()); "
    code += "print('pinocchio' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    path, imported = done.stdout.split("\n")[:2]
    assert path.endswith("cassie_v2.sdf") and Path(path).is_file()
    assert imported == "False"


def test_demo_on_the_shipped_robot(tmp_path, capsys):
    assert main(["demo", "--shipped", "--batch", "16", "--seconds", "0.1"]) == 0, capsys.readouterr().out
    text = capsys.readouterr().out
    for said in ("rollouts/s", "worst loop opening", "residuals", "central differences", "all is well"):
        assert said in text, said
    with np.load("traj.npz") as data:
        assert data["q"].shape == (16, 11, 31) and data["v"].shape == (16, 11, 28)
    assert Path("traj.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.first
@pytest.mark.slow
def test_demo_on_cassie(tmp_path):
    """As users call it, in a process of its own: rollouts that explode do so within these 400 steps."""
    command = [sys.executable, "-m", "jaxdyn", "demo", "--batch", "16", "--seconds", "0.4"]
    env = {k: v for k, v in os.environ.items() if k != "JAXDYN_EFFORT"} | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    for said in ("loading cassie_v2.sdf", "16 rollouts of 0.4 s, 400 steps", " 0 failed solves", "all is well"):
        assert said in done.stdout, done.stdout
    with np.load(tmp_path / "traj.npz") as data:
        assert data["q"].shape == (16, 41, 35) and np.isfinite(data["q"]).all() and np.isfinite(data["v"]).all()
        # joint PD control follows slow squats: nothing is thrown about
        assert np.abs(data["v"]).max() < 20


def test_demo_falls_back_without_the_package(monkeypatch):
    monkeypatch.setattr(demo.importlib.metadata, "distribution", _missing)
    assert demo.cassie_path() is None
    assert "strider" in demo.bipeds(None).source


def _missing(name):
    raise demo.importlib.metadata.PackageNotFoundError(name)


def test_bench_prints_ratios(tmp_path, capsys):
    before = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    assert main(["bench", "four_bar", "--batch", "64", "--repeats", "1", "--out", "b.json"]) == 0
    text = capsys.readouterr().out
    assert "ABA" in text and "LCABA" in text and "µs" in text
    for peer in peers.installed():
        assert f"jaxdyn float32 / {peer.name} = " in text
    records = json.loads(Path("b.json").read_text())["results"]["four_bar"]
    assert all(r["us"] > 0 for r in records if "us" in r)
    if before:
        assert os.sched_getaffinity(0) == before


@pytest.mark.parametrize("name", ["four_bar", "strider"])
def test_peers_are_the_same_robot(name):
    pin = pytest.importorskip("pinocchio")
    model = jd.load(name)
    robot, _ = peers.pinocchio_model(model)
    states, tau = bench.random_states(model, 2)
    free = model.replace({"joints.damping": np.zeros(model.nv), "joints.stiffness": np.zeros(model.nv)})
    state = jax.tree.map(lambda x: x[1], states)
    ours = jax.jit(lambda s, u: jd.forward_dynamics(free, s, u, constraints=()).acceleration)(state, tau[1])
    from jaxdyn.interop import pinocchio_velocity_order, to_pinocchio

    q, v = (np.asarray(x) for x in to_pinocchio(model, robot, state))
    order = pinocchio_velocity_order(model, robot)
    u = np.zeros(model.nv)
    u[order] = np.asarray(tau[1])
    theirs = pin.aba(robot, robot.createData(), q, v, u)[order]
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-8 * np.abs(theirs).max())
