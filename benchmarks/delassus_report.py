"""Write the page and the plots of `delassus.py`."""

import scenes
from delassus_programs import FIRST, TIMES
from scaling import exponent

#: Table I of matrix_free_delassus, by scene, of MatrixFree and of LTL: microseconds of a product and a solve from a
#: configuration on, a product and a solve again, a solve with new damping, and kB of the damped inverse
PUBLISHED = {
    "quadruped_standing": ((1.55, 1.64, 0.369, 0.389, 1.112, 29), (3.11, 3.65, 0.027, 0.135, 0.402, 32)),
    "quadruped_standing_friction": ((1.61, 1.63, 0.399, 0.421, 1.171, 32), (4.64, 5.95, 0.052, 0.305, 1.3, 43)),
    "quadruped_fallen": ((1.74, 2.42, 0.515, 0.591, 1.911, 42), (5.89, 7.63, 0.083, 0.371, 1.671, 56)),
    "quadruped_fallen_friction": ((1.77, 2.44, 0.567, 0.62, 1.88, 49), (8.1, 12, 0.147, 0.601, 3.791, 81)),
    "cassie": ((2.94, 4.26, 0.77, 0.854, 3.444, 69), (9.27, 10.4, 0.052, 0.3, 1.34, 88)),
    "cassie_friction": ((3.07, 4.51, 0.805, 0.894, 3.604, 72), (16, 21.72, 0.2, 0.718, 5.798, 143)),
    "humanoid_standing": ((3.66, 3.58, 0.919, 0.906, 2.426, 110), (9.37, 10.6, 0.051, 0.297, 1.327, 235)),
    "humanoid_standing_friction": ((3.96, 3.83, 1.01, 1, 2.7, 117), (18.53, 25, 0.226, 0.796, 6.486, 334)),
    "humanoid_fallen": ((4.27, 6.22, 1.43, 1.46, 5.1, 62), (25.98, 37.88, 0.379, 1.08, 11.48, 80)),
    "humanoid_fallen_friction": ((4.41, 7.33, 1.45, 1.62, 6.06, 65), (42.09, 70.4, 0.89, 1.8, 29, 127)),
    "stack_30": ((9.47, 31.38, 5.22, 7.58, 30.58, 269), (1214, 2482, 9.51, 14.1, 1257.1, 1850)),
    "pyramid_4": ((14.88, 65.2, 10.7, 15.5, 64.7, 826), (5925, 23092, 94.9, 87.4, 16822.4, 15530)),
    "pyramid_with_robots": ((20.34, 37.12, 6.84, 8.72, 32.02, 730), (1511, 2430, 7.36, 12.6, 906.6, 5630)),
}
COMPARED = (*(t for t in TIMES if t != "both"), "kB")

ABOUT = """Microseconds of CPU time on one core an evaluation: a product, a damped solve and both with one operator from
a configuration on, and the same again with another vector or damping. kB kept are what an operator keeps for a state,
kB taken what its making, a product and a solve take beside while they run: buffers of XLA's program, and of a kernel
for a single state. The time to compile is that of all six programs; the error the largest of their results, relative to
dense algebra in double precision. A batch of 1 is evaluations one after the other in one program."""

PAPER = """Microseconds here, and in brackets those of Table I of the paper on matrix-free operations, in C++ on another
machine: compare what is divided by what, not single numbers. The paper's kB are those of the state of the damped
inverse; ours are kB kept and taken. The last humanoid has 25 contacts there, 24 here; the paper's solve is a single one
without refinement."""


def split(key: str) -> tuple[str, str, int]:
    """Return scene, precision and batch of a key."""
    name, dtype, batch = key.split()
    return name, dtype, int(batch)


def number(x: float) -> str:
    return f"{x:.2f}" if x < 10 else f"{x:.0f}" if x >= 100 else f"{x:.1f}"


def taken(row: dict) -> int:
    """Return the bytes per state needed by a program that starts from the configuration, while it runs."""
    return max(row["temporary_bytes"][t] + row["kernel_bytes"][t] for t in FIRST)


def cells(row: dict) -> list[str]:
    error = max(row["difference"].values())
    compile_seconds = f"{sum(row['compile_seconds'].values()):.0f}"
    bytes_ = (number(x / 1000) for x in (row["stored_bytes"], taken(row)))
    return [*(number(row["microseconds"][t]) for t in TIMES), *bytes_, compile_seconds, f"{error:.0e}"]


def table(rows: dict, dtype: str, batch: int) -> list[str]:
    heads = ["scene", "nv", "rows", "method", *TIMES, "kB kept", "kB taken", "compile, s", "error"]
    out = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    left: dict[str, list[str]] = {}
    for key, row in rows.items():
        name, *rest = split(key)
        if rest == [dtype, batch]:
            for method, found in row["methods"].items():
                if "left out" in found:
                    left.setdefault(name, []).append(f"{method} {found['left out']}")
                    continue
                about = [name, str(row["nv"]), str(row["rows"]), method]
                out.append("| " + " | ".join(about + cells(found)) + " |")
    if left:
        out += ["", "Left out:", "", *(f"- {name}: {', '.join(why)}" for name, why in left.items())]
    return out


def grown(rows: dict, family: str, dtype: str, batch: int) -> dict[str, dict[int, dict]]:
    """Return the measurements by method and number of constraint rows."""
    out: dict[str, dict[int, dict]] = {}
    for key, row in rows.items():
        name, *rest = split(key)
        if name.rsplit("_", 1)[0] == family and rest == [dtype, batch]:
            for method, found in row["methods"].items():
                if "left out" not in found:
                    out.setdefault(method, {})[row["rows"]] = found
    return {method: dict(sorted(sizes.items())) for method, sizes in out.items()}


def growth(rows: dict) -> list[str]:
    """Return the table of growth exponents with the number of rows."""
    heads = ["family", "precision", "batch", "method", "rows", *TIMES, "kept", "taken"]
    out = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    cases = dict.fromkeys(tuple(split(key)[1:]) for key in rows)
    for family in scenes.FAMILIES:
        for dtype, batch in cases:
            for method, sizes in grown(rows, family, dtype, batch).items():
                if len(sizes) > 1:
                    of = lambda f, sizes=sizes: f"{exponent(list(sizes), [f(x) for x in sizes.values()]):.2f}"  # noqa: E731
                    slopes = [of(lambda x, t=t: x["microseconds"][t]) for t in TIMES]
                    about = [family, dtype, str(batch), method, f"{min(sizes)} to {max(sizes)}"]
                    slopes += [of(lambda x: x["stored_bytes"]), of(taken)]
                    out.append("| " + " | ".join([*about, *slopes]) + " |")
    return out if len(out) > 2 else []


def beside(rows: dict) -> list[str]:
    """Return the table of single states in double precision, with the paper's numbers in brackets."""
    heads = ["scene", "rows", "method", *COMPARED]
    out = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for name, published in PUBLISHED.items():
        row = rows.get(f"{name} float64 1", {"methods": {}})
        for method, theirs in zip(("MatrixFree", "LTL"), published, strict=True):
            found = row["methods"].get(method, {"left out": ""})
            if "left out" not in found:
                kilobytes = (found["stored_bytes"] + taken(found)) / 1000
                ours = [*(found["microseconds"][t] for t in COMPARED[:-1]), kilobytes]
                pairs = [f"{number(x)} ({number(y)})" for x, y in zip(ours, theirs, strict=True)]
                out.append("| " + " | ".join([name, str(row["rows"]), method, *pairs]) + " |")
    return out if len(out) > 2 else []


def written(rows: dict, told: str) -> str:
    """Return the results as Markdown; `told` gives their origin."""
    out = ["# Delassus operator", "", "Made by `benchmarks/delassus.py`.", "", told, "", ABOUT]
    published = beside(rows)
    if published:
        out += ["", "## Beside the paper", "", PAPER, "", *published]
    slopes = growth(rows)
    if slopes:
        out += ["", "## Growth", "", "Exponents of the number of rows, of the upper half of the sizes.", "", *slopes]
    for dtype, batch in sorted(dict.fromkeys(tuple(split(key)[1:]) for key in rows)):
        out += ["", f"## {dtype}, batch {batch}", "", *table(rows, dtype, batch)]
    return "\n".join(out) + "\n"


def draw(pyplot, family: str, rows: dict):
    """Plot times by the number of rows: solid lines for a solve from the configuration on, dashed for new damping."""
    cases = sorted({(dtype, n) for _, dtype, n in map(split, rows) if grown(rows, family, dtype, n)})
    figure, axes = pyplot.subplots(1, len(cases), figsize=(4.4 * len(cases), 4), squeeze=False, layout="tight")
    for axis, (dtype, batch) in zip(axes[0], cases, strict=True):
        for k, (method, sizes) in enumerate(grown(rows, family, dtype, batch).items()):
            for time, style in (("solve", "-"), ("solve with new damping", "--")):
                values = [x["microseconds"][time] for x in sizes.values()]
                slope = f" ({exponent(list(sizes), values):.2f})" if len(sizes) > 1 else ""
                label = f"{method}{slope}" if style == "-" else None
                axis.loglog(list(sizes), values, style, marker="o", color=f"C{k}", label=label)
        axis.set(xlabel=f"{family}: rows", title=f"{dtype}, batch {batch}: µs of a damped solve")
        axis.legend(fontsize="small")
    return figure
