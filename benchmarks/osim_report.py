"""Write the page and the plots of `osim_operations.py`."""

from collections.abc import Callable

import numpy as np
from osim_parts import METHODS, PARTS

WITHOUT = "LTL without J"
HEADS = [*METHODS, WITHOUT]
ABOUT = """Arithmetic operations of a state, after popov_vereshchagin, Fig. 2. Kernels are counted as the straight
scalar programs that are compiled: zeros, ones and minus ones of a model are folded, equal operations shared; a
multiply-add is two, a sine one operation. Numbers made of parameters alone are not counted. What is left to dense
matrices is counted by formula: Cholesky factors, one half of Yᵀ Y of `LTL` where Y is not zero, and what `PVFast` does
instead of a factor of the dense matrix. *Called* is what the kernels take if steps are called, which share nothing with
each other: long programs run so."""


def totals(row: dict) -> dict[str, int]:
    """Return the operations of the matrix and its factor by method."""
    found = {m: sum(p.values()) for m, p in row["parts"].items()}
    return found | {WITHOUT: found["LTL"] - row["parts"]["LTL"]["J"]}


def bold(values: dict[str, int]) -> list[str]:
    """Return table cells with the least value in bold; `WITHOUT` is not a separate method."""
    least = min(v for k, v in values.items() if k != WITHOUT)
    return [f"**{v:,}**" if v == least else f"{v:,}" for v in values.values()]


def table(heads: list[str], rows: list[list[str]]) -> list[str]:
    return ["| " + " | ".join(line) + " |" for line in (heads, ["---"] * len(heads), *rows)]


def robots(rows: dict) -> list[str]:
    out = ["## Totals", "", "With the factor that a solve needs; the least of a row is bold.", ""]
    out += table(
        ["robot", "nv", "rows", *HEADS],
        [[name, str(row["nv"]), str(row["rows"]), *bold(totals(row))] for name, row in rows.items()],
    )
    out += ["", "## Parts", "", "![parts](osim_operations_robots.png)", ""]
    lines = []
    for name, row in rows.items():
        for method, parts in row["parts"].items():
            cells = [f"{parts[p]:,}" if p in parts else "" for p in PARTS]
            lines.append([name, method, *cells, f"{row['called'][method]:,}"])
    return out + table(["robot", "method", *PARTS, "kernels, called"], lines)


def stem(rows: dict) -> list[str]:
    out = ["## Long stems", "", "Operations of the matrix with a stem of three links, and of every link more; from how"]
    out += ["many links on `EFPA` takes fewer than `PV`.", "", "![long stems](osim_operations_stem.png)", ""]
    lines = []
    for row in rows.values():
        numbers = [f"{row[m][k]:,}" for k in ("first", "link") for m in ("PV", "EFPA")]
        joints = "turned" if row["turned"] else "parallel"
        lines.append([str(row["branches"]), str(row["links"]), joints, *numbers, str(row["crossover"] or "never")])
    heads = ["branches an end", "links of one", "joints", "PV: 3", "EFPA: 3", "PV: link", "EFPA: link", "from"]
    return out + table(heads, lines)


def written(found: dict, told: Callable[[str], str]) -> str:
    """Return the results as Markdown; `told` gives the origin of a section."""
    out = ["# Operations of the Delassus matrix", "", "Made by `benchmarks/osim_operations.py`.", "", ABOUT]
    for section, page in (("robots", robots), ("stem", stem)):
        if section in found:
            out += ["", *page(found[section]), "", told(section)]
    return "\n".join(out) + "\n"


def draw_robots(pyplot, rows: dict):
    """Plot one panel per robot, with bars of all methods grouped by the limbs held."""
    kinds = list(dict.fromkeys(name.split("_")[0] for name in rows))
    figure, axes = pyplot.subplots(1, len(kinds), figsize=(4.6 * len(kinds), 4.4), squeeze=False, layout="tight")
    for axis, kind in zip(axes[0], kinds, strict=True):
        names = [name for name in rows if name.split("_")[0] == kind]
        labels = [(name, m) for name in names for m in METHODS]
        at = [k + k // len(METHODS) for k in range(len(labels))]
        base = np.zeros(len(labels))
        for n, part in enumerate(PARTS):
            heights = np.array([rows[name]["parts"][m].get(part, 0) for name, m in labels])
            axis.bar(at, heights / 1000, bottom=base / 1000, label=part, color=f"C{n}")
            base += heights
        axis.set_xticks(at, [m for _, m in labels], rotation=90, fontsize="small")
        axis.set(title=", ".join(f"{rows[name]['rows']}" for name in names) + f" rows on {kind}")
    axes[0][0].set_ylabel("thousands of operations")
    axes[0][-1].legend(fontsize="small", loc="upper left")
    return figure


def draw_stem(pyplot, rows: dict, at: Callable):
    """Plot the operations of `PV` relative to those of `EFPA`."""
    panels = list(dict.fromkeys((row["links"], row["turned"]) for row in rows.values()))
    figure, axes = pyplot.subplots(1, len(panels), figsize=(4.2 * len(panels), 4), squeeze=False, layout="tight")
    sizes = np.unique(np.geomspace(2, 200, 60).round())
    for axis, (links, turned) in zip(axes[0], panels, strict=True):
        for row in rows.values():
            if (row["links"], row["turned"]) == (links, turned):
                ratio = [at(row["PV"], n) / at(row["EFPA"], n) for n in sizes]
                axis.semilogx(sizes, ratio, label=f"{row['branches']} branches")
        axis.axhline(1, color="black", linewidth=0.8)
        axis.set(xlabel="links of the stem", title=f"branches of {links}, joints {'turned' if turned else 'parallel'}")
        axis.legend(fontsize="small")
    axes[0][0].set_ylabel("PV in units of EFPA")
    return figure
