"""The page and the plots of `delassus.py`."""

import scenes
from delassus_programs import FIRST, TIMES
from scaling import exponent

ABOUT = """Microseconds of CPU time on one core an evaluation: a product, a damped solve and both with one operator from
a configuration on, and the same again with another vector or damping. kB kept are what an operator keeps for a state,
kB taken what its making, a product and a solve take beside while they run: buffers of XLA's program, and of a kernel
for a single state. The time to compile is that of all six programs; the error the largest of their results, relative to
dense algebra in double precision. A batch of 1 is evaluations one after the other in one program."""


def split(key: str) -> tuple[str, str, int]:
    """Scene, precision, batch."""
    name, dtype, batch = key.split()
    return name, dtype, int(batch)


def number(x: float) -> str:
    return f"{x:.2f}" if x < 10 else f"{x:.0f}" if x >= 100 else f"{x:.1f}"


def taken(row: dict) -> int:
    """Bytes for a state while a program runs that begins with the configuration."""
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
    """method: rows of constraints: what was measured."""
    out: dict[str, dict[int, dict]] = {}
    for key, row in rows.items():
        name, *rest = split(key)
        if name.rsplit("_", 1)[0] == family and rest == [dtype, batch]:
            for method, found in row["methods"].items():
                if "left out" not in found:
                    out.setdefault(method, {})[row["rows"]] = found
    return {method: dict(sorted(sizes.items())) for method, sizes in out.items()}


def growth(rows: dict) -> list[str]:
    """Exponents of the number of rows."""
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


def written(rows: dict, told: str) -> str:
    """As Markdown; `told` says where it comes from."""
    out = ["# Delassus operator", "", "Made by `benchmarks/delassus.py`.", "", told, "", ABOUT]
    slopes = growth(rows)
    if slopes:
        out += ["", "## Growth", "", "Exponents of the number of rows, of the upper half of the sizes.", "", *slopes]
    for dtype, batch in sorted(dict.fromkeys(tuple(split(key)[1:]) for key in rows)):
        out += ["", f"## {dtype}, batch {batch}", "", *table(rows, dtype, batch)]
    return "\n".join(out) + "\n"


def draw(pyplot, family: str, rows: dict):
    """Times by the number of rows: in solid lines a solve from the configuration on, dashed with another damping."""
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
