"""Runs the Python on the pages of the documentation, and writes what it prints under its blocks.

    python tests/pages.py [PAGE ...]

The tests use the same functions to check that what stands there is what is printed.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted(p for p in (ROOT / "docs").rglob("*.md") if "benchmarks" not in p.parts)]
FENCE = re.compile(r"^( *)```(\S*)")
NUMBER = re.compile(r"(?<![\w.])-?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?!\w)")
#: relative, absolute: what the last digits of single precision may differ by
TOLERANCE = 1e-3, 1e-5
#: one digit and an exponent is an order of magnitude: the same within a factor of ten
MAGNITUDE = re.compile(r"-?\de[-+]\d+")

#: runs in a process of its own: every block in the namespace of its page, at its lines, with its output caught
WORKER = """
import contextlib, io, json, sys, types
pages, found = json.loads(sys.argv[1]), {}
for page, blocks in pages.items():
    module = sys.modules["page"] = types.ModuleType("page")
    for line, code in blocks:
        with contextlib.redirect_stdout(io.StringIO()) as caught:
            exec(compile("\\n" * line + code, page, "exec"), vars(module))
        found.setdefault(page, []).append(caught.getvalue())
json.dump(found, open(sys.argv[2], "w"))
"""


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


def blocks(page: Path) -> list[tuple[int, str]]:
    """(first line, code) of each block of Python on a page."""
    text = page.read_text()
    lines = text.splitlines()
    return [(start, "\n".join(lines[start:stop])) for language, start, stop in fences(text) if language == "python"]


def run(pages: list[Path], folder: Path, flags: str = "") -> dict[Path, list[str]]:
    """What each block of each page prints. All run in one process with JAX's own precision, in a folder that
    shows `docs`. Raises `AssertionError` with the error of the page."""
    (folder / "docs").symlink_to(ROOT / "docs")
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = {k: v for k, v in os.environ.items() if k not in ("JAX_ENABLE_X64", "JAX_DEBUG_NANS")}
    environment |= {"PYTHONPATH": path, "JAX_PLATFORMS": "cpu", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    environment["XLA_FLAGS"] = f"{environment.get('XLA_FLAGS', '')} {flags}".strip()
    given = json.dumps({str(p): blocks(p) for p in pages})
    command = [sys.executable, "-c", WORKER, given, str(folder / "printed.json")]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"lines are those of the page\n{done.stderr[-4000:]}"
    return {Path(page): found for page, found in json.loads((folder / "printed.json").read_text()).items()}


def told(page: Path) -> list[str | None]:
    """For each block of Python the text in the block of language `text` right after it; None where there is none."""
    lines, found = page.read_text().splitlines(), fences(page.read_text())
    after = {start: "\n".join(lines[start:stop]) for language, start, stop in found if language == "text"}
    return [after.get(stop + 3) for language, _, stop in found if language == "python"]


def same(told: str, printed: str) -> bool:
    """True if words and whole numbers are the same, whatever the spaces, and all other numbers nearly."""
    words = [re.sub(r"\s", "", NUMBER.sub("#", text)) for text in (told, printed)]
    if words[0] != words[1]:
        return False
    relative, absolute = TOLERANCE
    for a, b in zip(NUMBER.findall(told), NUMBER.findall(printed), strict=True):
        x, y = float(a), float(b)
        if a.lstrip("-").isdigit() and b.lstrip("-").isdigit():
            close = a == b
        elif MAGNITUDE.fullmatch(a) and MAGNITUDE.fullmatch(b):
            close = x * y > 0 and max(x / y, y / x) <= 10
        else:
            close = abs(x - y) <= absolute + relative * abs(y)
        if not close:
            return False
    return True


def write(page: Path, printed: list[str]) -> None:
    """Puts what is printed under each block in the place of what stood there; what is nearly the same stays."""
    lines = page.read_text().splitlines()
    ends = [stop for language, _, stop in fences(page.read_text()) if language == "python"]
    for stop, old, new in reversed(list(zip(ends, told(page), printed, strict=True))):
        if new.strip() and not (old is not None and same(old, new)):
            after = stop + 1 if old is None else stop + 4 + len(old.splitlines())
            lines[stop + 1 : after] = ["", "```text", *new.rstrip().splitlines(), "```"]
    page.write_text("\n".join(lines) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=Path, metavar="PAGE", help="default: all")
    asked = parser.parse_args().pages
    for page in [p.resolve() for p in asked] or PAGES:
        if blocks(page):
            with tempfile.TemporaryDirectory() as folder:
                write(page, run([page], Path(folder))[page])
            print(name_of(page), flush=True)


if __name__ == "__main__":
    main()
