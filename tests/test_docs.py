"""The README and the documentation: their Python runs, their links lead somewhere, the site builds strictly."""

import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from conftest import FLAGS

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


SCRIPTS = [p for p in PAGES if "```python" in p.read_text()]
ALGORITHMS = [p for p in SCRIPTS if p.parent.name == "algorithms"]


@pytest.mark.parametrize(
    "pages",
    [*([p] for p in SCRIPTS if p not in ALGORITHMS), ALGORITHMS],
    ids=lambda pages: name_of(pages[0]) if pages is not ALGORITHMS else "docs/algorithms",
)
def test_snippets_run(pages, tmp_path):
    """In a process with JAX's own precision, in an empty folder. Pages of algorithms share one, and with it the
    robot."""
    for page in pages:
        (tmp_path / f"{page.stem}.py").write_text(script_of(page.read_text()))
    run = f"import runpy\nfor name in {[p.stem for p in pages]}:\n    runpy.run_path(name + '.py')"
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = {k: v for k, v in os.environ.items() if k not in ("JAX_ENABLE_X64", "JAX_DEBUG_NANS")}
    environment |= {"PYTHONPATH": path, "JAX_PLATFORMS": "cpu", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    environment["XLA_FLAGS"] = f"{environment.get('XLA_FLAGS', '')} {FLAGS}"
    done = subprocess.run(
        [sys.executable, "-c", run], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, f"lines are those of the page\n{done.stderr[-4000:]}"


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

    missing = set()
    for name in set(re.findall(r"\bjd\.(\w+(?:\.\w+)?)", page.read_text())):
        outer, _, inner = name.partition(".")
        found = getattr(jaxdyn, outer, None)
        if found is None or (inner and isinstance(found, ModuleType) and not hasattr(found, inner)):
            missing.add(name)
    assert not missing, f"{name_of(page)}: jaxdyn has no {sorted(missing)}"


CODE = re.compile(r"^Code: .*?(?=^$)", re.M | re.S)


def code_of(text: str) -> list[tuple[Path, str | None]]:
    """The paths of a page's "Code:" lines, and the names in the brackets behind them: a name of the file, or a file of
    the folder."""
    found, path = [], None
    for line in CODE.findall(text):
        for name in re.findall(r"`([^`]+)`", line):
            if "/" in name:
                path = ROOT / name
                found.append((path, None))
            elif name.endswith(".py"):
                found.append((path / name, None))
            else:
                found += [(path, part) for part in name.split(".")]
    return found


@pytest.mark.parametrize("page", [p for p in PAGES if CODE.search(p.read_text())], ids=name_of)
def test_code_is_where_the_page_says(page):
    named = code_of(page.read_text())
    missing = [name_of(path) for path, _ in named if not path.exists()]
    assert not missing, f"{name_of(page)} names {missing}, which do not exist"
    defined = r"^ *(?:(?:def|class) {0}\b|{0} *[:=])"
    wrong = [(name_of(p), n) for p, n in named if n and not re.search(defined.format(n), p.read_text(), re.M)]
    assert not wrong, f"{name_of(page)}: not defined in the file beside it: {wrong}"


@pytest.mark.parametrize("page", [p for p in PAGES if "```sh" in p.read_text()], ids=name_of)
def test_command_lines_parse(page):
    from jaxdyn.commands.cli import parser

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
    for page in ("", "benchmarks/", "benchmarks/tables/", "algorithms/pv/"):
        assert (tmp_path / "site" / page / "index.html").exists(), page


def test_public_names_are_in_the_reference():
    import jaxdyn

    reference = (ROOT / "docs" / "api.md").read_text()
    names = [n for n in jaxdyn.__all__ if not isinstance(getattr(jaxdyn, n), ModuleType)]
    for family in (jaxdyn.joints, jaxdyn.constraints, jaxdyn.solvers, jaxdyn.integrators):
        names += [f"{family.__name__.removeprefix('jaxdyn.')}.{n}" for n in family.__all__]
    missing = [n for n in names if not re.search(rf"^::: jaxdyn\.{n}$", reference, re.M)]
    assert not missing, f"docs/api.md lacks {missing}"
