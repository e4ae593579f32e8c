"""Report the results of `kernels.py`: one line per row while measuring, and tables in Markdown."""

from collections.abc import Callable, Sequence

#: largest allowed fraction of Pinocchio's time, by program and precision
SHARE = {"aba": {"float32": 0.08, "float64": 0.15}, "lcaba_3": {"float32": 0.2, "float64": 0.4}}


def said(met) -> str:
    return {True: "yes", False: "**no**", None: ""}[met]


def us(rounds: Sequence[float] | None) -> str:
    """Return the least time, to three digits."""
    return "" if not rounds else f"{min(rounds):.3g}" if min(rounds) < 100 else f"{min(rounds):.0f}"


def line(key: str, found: dict) -> str:
    """Return the printed line of a row."""
    parts = [key]
    for name, x in found.items():
        if isinstance(x, list):
            parts.append(f"{name} {us(x)} ({' '.join(f'{r:.3g}' for r in x)})")
        elif isinstance(x, dict):
            inner = {k: us(v) if isinstance(v, list) else v for k, v in x.items()}
            parts.append(f"{name} {inner}".replace("'", ""))
        else:
            parts.append(f"{name} {x}")
    return "  ".join(parts)


def _cells(*cells) -> str:
    return "| " + " | ".join(str(c) for c in cells) + " |"


def _head(title: str, about: str, *columns: str) -> list[str]:
    return ["", f"## {title}", "", about, "", _cells(*columns), "|" + " --- |" * len(columns)]


def _failed(row: dict) -> str:
    return "; ".join(f"{name}: {why}" for name, why in row.items() if name.endswith("failed")).replace("|", "/")


def _parts(key: str) -> tuple[str, str, str]:
    """Return robot, program and precision of a key."""
    robot, rest = key.split(" ", 1)
    program, dtype = rest.rsplit(" ", 1)
    return robot, program, dtype


def _table(rows: dict, base: str) -> list[str]:
    out = _head(
        "Time",
        f"µs of CPU time per evaluation, batch 512, one core. *old* is commit {base} through XLA; *difference* the "
        "largest between both results beside the largest number of that result. A gradient holds its forward; "
        "*forwards* is its time beside that of the forward alone (at most 2.6).",
        *("robot", "program", "precision", "old", "new", "ratio", "at most", "met", "forwards", "difference"),
    )
    for key, row in rows.items():
        bar = "XLA's on purpose" if key.split()[1] == "Dense" else row.get("bar", "")
        told = [us(row.get("old")), us(row.get("new")), row.get("ratio", _failed(row)), bar, said(row.get("met"))]
        out.append(_cells(*_parts(key), *told, row.get("forwards", ""), row.get("difference", "")))
    return out


def _batch(rows: dict) -> list[str]:
    columns = ("robot", "program", "precision")
    out = _head(
        "Larger batches",
        "µs of CPU time per evaluation on one core (growth: at most 1.2); below, µs of wall time on one and two cores.",
        *(*columns, "512", "8,192", "65,536", "growth", "met"),
    )
    for key, row in rows.items():
        cpu = [us(row.get("cpu", {}).get(n)) for n in ("512", "8192", "65536")]
        told = said(row["met"]["growth"]) if "met" in row else ""
        out.append(_cells(*_parts(key), *cpu, row.get("growth", _failed(row)), told))
    out += ["", _cells(*columns, "batch", "one core", "two cores", "gain", "at least 1.8"), "|" + " --- |" * 8]
    for key, row in rows.items():
        for n, both in row.get("wall", {}).items():
            gain = row["gain"][n]
            out.append(_cells(*_parts(key), n, us(both["1"]), us(both["2"]), gain, said(gain >= 1.8)))
    return out


def _single(rows: dict) -> list[str]:
    out = _head(
        "One state",
        "µs of CPU time of one core: a jitted call, one of an addition alone, the one above the other (at most 25), "
        "a step in a scan of 1,000, with accelerations alone (at most 15), and as `jd.step`.",
        *("robot", "program", "precision", "call", "empty", "above", "met", "in a scan", "met", "`jd.step`"),
    )
    for key, row in rows.items():
        met = row.get("met", {"call": None, "scan": None})
        call = (us(row.get("call")), us(row.get("empty")), row.get("above empty", _failed(row)), said(met["call"]))
        scan = (us(row.get("scan")), said(met["scan"]), us(row.get("step in a scan")))
        out.append(_cells(*_parts(key), *call, *scan))
    return out


def _compile(rows: dict) -> list[str]:
    out = _head(
        "Compile time",
        "CPU seconds of one core from a first call to its result, without caches (ratio: at most 0.3).",
        *("robot", "program", "precision", "old", "new", "ratio", "met"),
    )
    for key, row in rows.items():
        told = [us(row.get("old")), us(row.get("new")), row.get("ratio", _failed(row)), said(row.get("met"))]
        out.append(_cells(*_parts(key), *told))
    return out


def _pinocchio(rows: dict, table: dict) -> list[str]:
    out = _head(
        "Beside Pinocchio",
        "Its C++ (double precision, compiled for this processor), µs on one core of the same machine, and the new "
        "times from the first table. The robots are the same, states and lengths of the synthetic chain are others.",
        *("robot", "program", "Pinocchio", "precision", "µs", "ratio", "at most", "met"),
    )
    for key, row in rows.items():
        robot, program = key.split()
        for dtype, bar in SHARE[program].items():
            new = table.get(f"{key} {dtype}", {})
            if new.get("new"):
                ratio = min(new["new"]) / row["pinocchio"]
                other = "" if new["nv"] == row["nv"] else f" (nv {row['nv']}, here {new['nv']})"
                first = f"{row['pinocchio']:.3g}{other}"
                out.append(
                    _cells(robot, program, first, dtype, us(new["new"]), f"{ratio:.3f}", bar, said(ratio <= bar))
                )
    return out


def written(found: dict, base: str, told: Callable[[str], str]) -> str:
    """Return all results as Markdown; `told` gives the origin of a section."""
    out = ["# One kernel a program", "", "Made by `benchmarks/kernels.py`.", ""]
    out += ["Least of three rounds, in which old and new took turns; `kernels.json` holds all of them."]
    for section, make in (("table", _table), ("batch", _batch), ("single", _single), ("compile", _compile)):
        if found.get(section):
            out += make(found[section], base) if section == "table" else make(found[section])
            out += ["", told(section)]
    if found.get("pinocchio"):
        out += [*_pinocchio(found["pinocchio"], found.get("table", {})), "", told("pinocchio")]
    return "\n".join(out) + "\n"
