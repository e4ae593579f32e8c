"""What stands beside the code says what is true: the workflow, the citation, the changelog, the commands of
CONTRIBUTING.md."""

import os
import re
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
