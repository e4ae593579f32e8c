"""The README and the documentation: their Python runs, their links lead somewhere, the site builds strictly."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted(p for p in (ROOT / "docs").rglob("*.md") if "benchmarks" not in p.parts)]
FENCE = re.compile(r"^( *)```(\S*)")
LANGUAGES = {"python", "sh", "text", "yaml", "xml"}


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def fences(text: str) -> list[tuple[str, int, int]]:
    """(language, first line, line after the last) of each fenced block, in lines from 0, without the fences."""
    found, opened = [], None
    for number, line in enumerate(text.splitlines()):
        match = FENCE.match(line)
        if match and opened is None:
            opened = (match[2], number + 1)
        elif match:
            found.append((*opened, number))
            opened = None
    assert opened is None, f"a block is not closed: line {opened[1]}"
    return found


def script_of(text: str) -> str:
    """The Python of a page, every line at its number on the page."""
    lines = text.splitlines()
    kept = [""] * len(lines)
    for language, start, stop in fences(text):
        if language == "python":
            kept[start:stop] = lines[start:stop]
    return "\n".join(kept)


@pytest.mark.parametrize("page", [p for p in PAGES if "```python" in p.read_text()], ids=name_of)
def test_snippets_run(page, tmp_path):
    """In a process of its own with JAX's own precision, in a folder with the robots of the documentation."""
    for robot in (ROOT / "docs" / "robots").iterdir():
        shutil.copy(robot, tmp_path)
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    script = tmp_path / f"{page.stem}.py"
    script.write_text(script_of(page.read_text()))
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = {k: v for k, v in os.environ.items() if k not in ("JAX_ENABLE_X64", "JAX_DEBUG_NANS")}
    environment |= {"PYTHONPATH": path, "JAX_PLATFORMS": "cpu", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, f"{name_of(page)} (lines are those of the page)\n{done.stderr[-4000:]}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_blocks_name_their_language(page):
    unknown = [(start, language) for language, start, _ in fences(page.read_text()) if language not in LANGUAGES]
    assert not unknown, f"{name_of(page)}: blocks {unknown}; use one of {sorted(LANGUAGES)}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_to_files(page):
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{name_of(page)} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_names_exist(page):
    """Every `jd.name` on a page is a public name."""
    import jaxdyn

    missing = {n for n in re.findall(r"\bjd\.(\w+)", page.read_text()) if not hasattr(jaxdyn, n)}
    assert not missing, f"{name_of(page)}: jaxdyn has no {sorted(missing)}"


@pytest.mark.parametrize("page", [p for p in PAGES if "```sh" in p.read_text()], ids=name_of)
def test_command_lines_parse(page):
    from jaxdyn.cli import parser

    for language, start, stop in fences(page.read_text()):
        for line in page.read_text().splitlines()[start:stop] if language == "sh" else []:
            words = line.split("#")[0].split()
            if words[:1] == ["jaxdyn"]:
                parser().parse_args(words[1:])
            elif words[:1] == ["make"]:
                assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.M), f"no target {words[1]!r}"


def test_readme_first_screen():
    screen = "\n".join((ROOT / "README.md").read_text().splitlines()[:45])
    for needed in (
        "make demo",
        "make test",
        "```python",
        "Not there yet",
        "contact",
        "joint limits",
        "Coulomb friction",
    ):
        assert needed in screen, f"the README's first screen lacks {needed!r}"
    (code,) = [b for b in fences(screen) if b[0] == "python"]
    lines = [line for line in screen.splitlines()[code[1] : code[2]] if line.strip()]
    assert len(lines) <= 12


def test_site_builds_strictly(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert (tmp_path / "site" / "index.html").exists()


def test_public_names_are_in_the_reference():
    import jaxdyn

    reference = (ROOT / "docs" / "api.md").read_text()
    names = getattr(jaxdyn, "__all__", None) or [n for n in vars(jaxdyn) if not n.startswith("_")]
    folders = {p.name for p in (ROOT / "jaxdyn").iterdir() if p.is_dir()} | {"interop", "cli", "demo"}
    missing = [n for n in names if n not in folders and not re.search(rf"::: jaxdyn\.{n}\b", reference)]
    assert not missing, f"docs/api.md lacks {missing}"
