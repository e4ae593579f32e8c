"""The README and the documentation: their Python runs, their links lead somewhere, the site builds strictly."""

import os
import re
import subprocess
import sys
from operator import attrgetter
from pathlib import Path
from types import ModuleType

import pages
import pytest
from conftest import FLAGS
from pages import PAGES, ROOT, fences, name_of

LANGUAGES = {"python", "sh", "text", "yaml", "xml"}
SCRIPTS = [p for p in PAGES if pages.blocks(p)]
#: pages that share a process, and with it what is imported and compiled: those that ask for double precision
GROUPS = {"algorithms": [p for p in SCRIPTS if p.parent.name == "algorithms"]}
GROUPS["double precision"] = [p for p in SCRIPTS if p not in GROUPS["algorithms"] and "jax_enable_x64" in p.read_text()]
others = [p for p in SCRIPTS if not any(p in group for group in GROUPS.values())]
GROUPS |= {"others, even": others[::2], "others, odd": others[1::2]}


@pytest.mark.first
@pytest.mark.parametrize("group", GROUPS)
def test_snippets_run(group, tmp_path):
    """And print what stands under them."""
    for page, printed in pages.run(GROUPS[group], tmp_path, FLAGS).items():
        for (line, _), told, found in zip(pages.blocks(page), pages.told(page), printed, strict=True):
            where = f"{name_of(page)}:{line}"
            assert not found.strip() or told is not None, f"{where}: nothing under it says that it prints\n{found}"
            assert not found.strip() or pages.same(told, found), (
                f"{where}: under it stands\n{told}\nbut it prints\n{found}\n(python tests/pages.py writes it anew)"
            )


@pytest.mark.parametrize(
    ("told", "printed", "same"),
    [
        ("[1.0, 2]", "[ 1.0001  ,2]", True),
        ("[1.0, 2]", "[1.1, 2]", False),
        ("[1.0, 2]", "[1.0, 3]", False),
        ("at 1.0e-7", "at -3.2e-07", True),
        ("3e-08 m", "2e-07 m", True),
        ("3e-08 m", "2e-06 m", False),
        ("joint_1 is float32", "joint_2 is float32", False),
        ("mass [1.]", "mass [1. 2.]", False),
    ],
)
def test_outputs_are_compared_by_words_and_numbers(told, printed, same):
    assert pages.same(told, printed) == same


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


PICTURES = ROOT / "docs" / "pictures"


def test_pictures_are_drawn(tmp_path):
    """By the script that is committed: the same names, small files, all of them on some page."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, str(PICTURES / "draw.py"), "--out", str(tmp_path)],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    kept = {p.name for p in PICTURES.glob("*.svg")}
    assert {p.name for p in tmp_path.iterdir()} == kept
    shown = {Path(name).name for page in PAGES for name in re.findall(r"\]\(([^)#\s]+\.svg)\)", page.read_text())}
    assert shown == kept
    for name in kept:
        words = [
            set(re.findall(r"<text[^>]*>([^<]*)<", (folder / name).read_text())) for folder in (PICTURES, tmp_path)
        ]
        assert words[0] == words[1], f"{name} shows other words: run docs/pictures/draw.py"
        assert (PICTURES / name).stat().st_size < 30_000, name


def test_public_names_are_in_the_reference():
    import jaxdyn

    reference = (ROOT / "docs" / "api.md").read_text()
    names = [n for n in jaxdyn.__all__ if not isinstance(getattr(jaxdyn, n), ModuleType)]
    for family in (getattr(jaxdyn, n) for n in jaxdyn.__all__ if isinstance(getattr(jaxdyn, n), ModuleType)):
        names += [f"{family.__name__.removeprefix('jaxdyn.')}.{n}" for n in family.__all__]
    missing = [n for n in names if not re.search(rf"^::: {re.escape(entry(n))}$", reference, re.M)]
    assert not missing, f"docs/api.md lacks {missing}"


def entry(name: str) -> str:
    """The address of a public name in the reference: where a module bears the same name, the site would show that."""
    import jaxdyn

    thing = attrgetter(name)(jaxdyn)
    hidden = f"jaxdyn.{name}" in sys.modules
    return f"{thing.__module__}.{thing.__name__}" if hidden else f"jaxdyn.{name}"
