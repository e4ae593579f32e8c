"""What stands beside the code says what is true: the workflow, the citation, the changelog, the commands of
CONTRIBUTING.md."""

import os
import re
import shlex
import subprocess
import sys
import tomllib
from functools import partial
from pathlib import Path

import pytest
import yaml

import jaxdyn

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
read = partial(Path.read_text, encoding="utf-8")


def targets() -> set[str]:
    return set(re.findall(r"^([a-z]+):", read(ROOT / "Makefile"), re.M))


def version_of(text: str) -> tuple[int, ...]:
    """As numbers, without zeros at the end: 0.10 is 0.10.0."""
    numbers = [int(n) for n in text.split(".")]
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


def lowest(package: str) -> str:
    (found,) = (d for d in PROJECT["dependencies"] if re.match(rf"{package}\b", d))
    return found.split(">=")[1]


@pytest.fixture(scope="module")
def jobs() -> dict:
    return yaml.safe_load(read(ROOT / ".github" / "workflows" / "ci.yml"))["jobs"]


def test_pythons_of_the_workflow(jobs):
    """Those that pyproject.toml names, from the lowest on, and one of them for the full run."""
    named = [c.rsplit(" ", 1)[1] for c in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", c)]
    assert PROJECT["requires-python"] == f">={named[0]}"
    assert jobs["quick"]["strategy"]["matrix"]["python"] == named
    (full,) = (s["with"]["python-version"] for s in jobs["full"]["steps"] if "setup-python" in s.get("uses", ""))
    assert full in named


def test_jax_of_the_workflow(jobs):
    """The lowest that pyproject.toml allows, of both packages, and the newest."""
    low, newest = jobs["quick"]["strategy"]["matrix"]["jax"]
    assert newest == "newest"
    assert version_of(low) == version_of(lowest("jax")) == version_of(lowest("jaxlib"))


def test_machines_and_commands_of_the_workflow(jobs):
    systems = jobs["quick"]["strategy"]["matrix"]["os"]
    assert {s.split("-")[0] for s in systems} == {"ubuntu", "macos"}
    runs = {name: [s["run"] for s in job["steps"] if "run" in s] for name, job in jobs.items()}
    assert runs["full"] == [".ci/run"] and runs["quick"][-1] == "make quick"
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    assert set(re.findall(r"^make (\w+)", read(ROOT / ".ci" / "run"), re.M)) == {"lint", "typecheck", "test"}


@pytest.fixture(scope="module")
def citation() -> dict:
    return yaml.safe_load(read(ROOT / "CITATION.cff"))


def test_citation_is_of_this_version(citation):
    assert citation["version"] == jaxdyn.__version__ and citation["license"] == PROJECT["license"]
    assert {"cff-version", "message", "title", "authors"} <= set(citation)


def test_citation_names_the_papers(citation):
    """Each reference is cited by a page, and each solver in its notes has one that cites it."""
    pages = {p.stem: " ".join(read(p).split()) for p in (ROOT / "docs" / "algorithms").glob("*.md")}
    for reference in citation["references"]:
        title = reference["title"]
        assert {"type", "authors", "year"} <= set(reference), title
        citing = {name.replace("_", "") for name, text in pages.items() if f'"{title},' in text or f'"{title}"' in text}
        assert citing, f"no page of docs/algorithms cites {title!r}"
        for solver in reference["notes"].split(", "):
            assert " " in solver or solver.lower() in citing, f"the page of {solver} does not cite {title!r}"


def test_changelog_keeps_its_form():
    """That of keepachangelog.com: versions with dates, newest first, their changes by kind."""
    versions, kinds = [], {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    for line in read(ROOT / "CHANGELOG.md").splitlines():
        if line.startswith("## "):
            assert re.fullmatch(r"## \[(Unreleased|\d+\.\d+\.\d+)\]( - \d{4}-\d\d-\d\d)?", line), line
            versions.append(line.split("]")[0].removeprefix("## ["))
        elif line.startswith("### "):
            assert line.removeprefix("### ") in kinds, line
    assert versions[0] == "Unreleased" or versions[0] == jaxdyn.__version__
    released = [version_of(v) for v in versions if v != "Unreleased"]
    assert released == sorted(released, reverse=True)


def run(*command: str) -> str:
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = os.environ | {"PYTHONPATH": path}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


def check_make(words: list[str]) -> None:
    (target,) = (w for w in words[1:] if "=" not in w)
    assert target in targets(), f"no target {target!r}"
    for variable in (w.split("=")[0] for w in words[1:] if "=" in w):
        assert re.search(rf"^{variable}\b", read(ROOT / "Makefile"), re.M), f"no variable {variable!r}"
    named = re.findall(r"\btests/\w+\.py", run("make", "-n", *words[1:]))
    missing = [name for name in named if not (ROOT / name).exists()]
    assert not missing, f"{shlex.join(words)} names {missing}"


def check_pytest(words: list[str]) -> None:
    if not any(word.startswith("tests/") for word in words):
        words = [*words, "tests/test_solvers.py"]  # one file stands for all
    found = run(sys.executable, "-m", "pytest", *words[3:], "--collect-only", "-q", "-p", "no:cacheprovider")
    assert "::" in found


def check_script(words: list[str]) -> None:
    assert "usage:" in run(sys.executable, words[1], "--help")


def check_pre_commit(words: list[str]) -> None:
    """It brings the ruff of `make lint`; nothing is installed."""
    (ours,) = (d.split("==")[1] for d in PROJECT["optional-dependencies"]["lint"] if d.startswith("ruff=="))
    repos = yaml.safe_load(read(ROOT / ".pre-commit-config.yaml"))["repos"]
    assert [r["rev"] for r in repos if r["repo"].endswith("ruff-pre-commit")] == [f"v{ours}"]


#: how a command that CONTRIBUTING.md names is checked, by how it begins
CHECKS = {
    "make ": check_make,
    ".venv/bin/python -m pytest ": check_pytest,
    ".venv/bin/python ": check_script,
    ".venv/bin/pip install pre-commit": check_pre_commit,
    ".venv/bin/pre-commit ": check_pre_commit,
    ".ci/run": lambda words: run("bash", "-n", ".ci/run"),
}
GUIDE = read(ROOT / "CONTRIBUTING.md")
SPANS = [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", GUIDE)]
COMMANDS = [c for span in SPANS for c in span.split(" && ") if c.startswith(("make ", ".venv/", ".ci/"))]


@pytest.mark.parametrize("command", dict.fromkeys(COMMANDS))
def test_commands_of_the_guide_work(command):
    (first, *_) = [begin for begin in CHECKS if command.startswith(begin)] or [None]
    assert first, f"nothing checks {command!r}: add how to CHECKS"
    CHECKS[first](shlex.split(command))


def test_the_guide_names_what_every_target_is_for():
    """But for those that `make help` explains well enough."""
    assert targets() - {"help", "clean", "demo"} <= {c.split()[1] for c in COMMANDS if c.startswith("make ")}


@pytest.mark.parametrize("name", [s for s in dict.fromkeys(SPANS) if re.fullmatch(r"\S*/\S*|\S+\.(md|py|toml)", s)])
def test_files_of_the_guide_exist(name):
    assert (ROOT / name).exists(), f"CONTRIBUTING.md names {name}"


def test_options_of_the_guide_exist():
    """Markers of pytest that it names, and commands of jaxdyn."""
    from jaxdyn.commands.cli import parser

    markers = tomllib.loads(read(ROOT / "pyproject.toml"))["tool"]["pytest"]["ini_options"]["markers"]
    assert "marker `slow`" in " ".join(GUIDE.split()) and any(m.startswith("slow:") for m in markers)
    for span in SPANS:
        if span.startswith("jaxdyn "):
            parser().parse_args(shlex.split(span)[1:])
