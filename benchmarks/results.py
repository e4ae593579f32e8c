"""Command-line names and result files shared by the scripts; results are saved as soon as they are measured."""

import argparse
import json
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from origins import Origins, origin

from jaxdyn.commands.output import complete, save_plot

OUT = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"


def parser(about: str, kind: str, names: Collection[str]) -> argparse.ArgumentParser:
    """Return a parser for names of a `kind`, all by default, and the output folder."""

    def known(name: str) -> str:
        if name not in names:
            raise argparse.ArgumentTypeError(f"no {kind} {name}; there are {', '.join(names)}")
        return name

    made = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("names", nargs="*", type=known, metavar=kind.upper(), help=f"of {', '.join(names)}; default: all")
    made.add_argument("--out", type=Path, default=OUT, help="folder of the results")
    return made


class Results:
    """Measurements in ``NAME.json``; those of earlier runs stay until they are replaced. Its `meta` records which run
    each of them comes from."""

    def __init__(self, folder: Path, name: str):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.name = folder, name
        file = folder / f"{name}.json"
        self.found: dict = json.loads(file.read_text()) if file.exists() else {}
        self.origins = Origins(self.found.pop("meta", None))

    def write(self, suffix: str, text: str) -> None:
        with complete(self.folder / f"{self.name}{suffix}") as path:
            path.write_text(text)

    def keep(self, section: str, rows: Iterable[str] = ("",)) -> None:
        """Write everything, and record that `rows` of the section, by default the whole section, were measured now."""
        self.origins.note(section, rows, origin())
        self.write(".json", json.dumps({"meta": self.origins.meta()} | self.found, indent=1) + "\n")

    def extend(self, section: str, old: dict, more: dict) -> None:
        """Save the section with its `old` rows and with `more` rows that were measured now."""
        before = self.origins.of.pop(section, {})
        # a section that was measured as a whole has one origin for all rows
        self.origins.of[section] = {row: before[k] for row in old for k in (row, "") if row not in more and k in before}
        self.found[section] = old | more
        self.keep(section, more)

    def plot(self, figure: str, draw: Callable) -> None:
        """Save ``NAME_FIGURE.png``; `draw` receives matplotlib's `pyplot` and returns the figure."""
        save_plot(self.folder / f"{self.name}_{figure}.png", draw)
