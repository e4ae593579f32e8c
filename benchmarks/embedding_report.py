"""Write the page and the plots of `embedding.py`."""

import functools
from collections.abc import Callable

import numpy as np

UNITS = ("rotor", "belt", "four_bar")
TIED = ("gear", "rod")
LEGS = ("torques", "differential_torques")
FORMS = {
    "embedded": "embedded",
    "bodies": "embedded, rotors as bodies",
    "PV": "embedded, PV",
    "approximate": "without rotors",
    "free": "rotors free",
    "LCABA": "cut, LCABA",
    "ProxLTL": "cut, ProxLTL",
}
ABOUT = """Constraint embedding beside loops that are cut, after constraint_embedding, section VI. CPU time of an
evaluation of a batch of 512 on one core; times of a group were taken in turns, and only ratios within one mean
something. Cut loops are solved to full accuracy, which takes as many steps as the column *steps* tells. Errors are
those of independent accelerations, relative to the largest one of a state, median and largest of 16, beside dense
algebra in double precision. Compile times are without a cache."""


def table(heads: list[str], rows: list[list[str]]) -> list[str]:
    return ["| " + " | ".join(line) + " |" for line in (heads, ["---"] * len(heads), *rows)]


def exponent(sizes, values) -> float:
    """Return the slope of a line fitted to the logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def points(rows: dict, form: str, dtype: str, key: str = "microseconds", branches: bool = False):
    """Return numbers of mechanisms and values of a group of growing depth, or with more branches of four."""
    found = []
    for name, row in rows.items():
        depth, count = map(int, name.split(" x "))
        if form in row.get(dtype, {}) and (depth == 4 if branches else count == 1):
            found.append((depth * count, row[dtype][form][key]))
    return tuple(zip(*sorted(found), strict=True)) if found else ((), ())


def ratio(row: dict, dtype: str, form: str, other: str = "embedded") -> float:
    return row[dtype][form]["microseconds"] / row[dtype][other]["microseconds"]


def operation_growth(found: dict, kind: str, branches: bool) -> list[str]:
    """Return the growth exponents of operations, straight and with called steps, with depth or branches of four; empty
    strings if they were not counted."""
    rows = {name: {"": {"": row}} for name, row in found.get("growth", {}).get(kind, {}).items()}
    pairs = [points(rows, "", "", key, branches) for key in ("operations", "called")]
    return [f"{exponent(*pair):.2f}" if pair[0] else "" for pair in pairs]


def growth(found: dict) -> list[str]:
    about = """Chains from a floating base (Fig. 8). Exponents of time, compile time, operations, and of operations if
steps are called; how much more time cut loops take with eight mechanisms. Beyond some size programs call their steps
and are no longer straight code, which bends the curves of time."""
    out = ["## Number of clusters", "", about]
    out += ["", "![growth](embedding_growth.png)", ""]
    lines = []
    for kind in (k for k in UNITS if k in found):
        rows = found[kind]
        for branches in (False, True):
            for dtype in ("float32", "float64"):
                sizes, us = points(rows, "embedded", dtype, branches=branches)
                compiled = points(rows, "embedded", dtype, "compile_seconds", branches)[1]
                if len(sizes) < 2:
                    continue
                more = [""] * 2 if branches or "8 x 1" not in rows else [
                    f"{ratio(rows['8 x 1'], dtype, form):.1f}" for form in ("LCABA", "ProxLTL")
                ]  # fmt: skip
                cells = [", ".join(map(str, sizes)), f"{us[-1]:.3f}", f"{exponent(sizes, us):.2f}"]
                slopes = [f"{exponent(sizes, compiled):.2f}", *operation_growth(found, kind, branches)]
                what = "branches of 4" if branches else "depth"
                lines.append([kind, what, dtype, *cells, *slopes, *more])
    heads = ["mechanism", "grows in", "precision", "mechanisms", "µs of most", "exponent", "of compile time"]
    heads += ["of operations", "called"]
    return out + table([*heads, "LCABA", "ProxLTL"], lines)


def tied(found: dict) -> list[str]:
    out = ["## Size of loops", "", "Two chains from the world, tied k links out by a gear between the sums of their"]
    out += ["angles, or by a rod (Fig. 10), in single precision.", "", "![size of loops](embedding_size.png)", ""]
    lines = []
    for name in (f"{kind}_{n}" for kind in TIED for n in (5, 10, 20)):
        for k, row in found.get(name, {}).items():
            forms = row["float32"]
            us = [forms[f]["microseconds"] for f in ("embedded", "LCABA", "ProxLTL")]
            cells = [f"**{x:.3f}**" if x == min(us) else f"{x:.3f}" for x in us]
            errors = [f"{forms[f]['error'][1]:.0e}" for f in ("embedded", "LCABA", "ProxLTL")]
            seconds = [f"{forms[f]['compile_seconds']:.1f}" for f in ("embedded", "LCABA", "ProxLTL")]
            kind, depth = name.split("_")
            lines.append([kind, depth, k, str(row["largest"]), *cells, *errors, *seconds])
    heads = ["tied by", "depth", "k", "bodies of the loop", "embedded µs", "LCABA", "ProxLTL"]
    heads += ["largest error: embedded", "LCABA", "ProxLTL", "compile s: embedded", "LCABA", "ProxLTL"]
    return out + table(heads, lines)


def forms(title: str, about: str, rows: dict) -> list[str]:
    """Return a table of all forms of robots."""
    lines = []
    for name, row in rows.items():
        for dtype in ("float32", "float64"):
            for form, told in FORMS.items():
                x = row.get(dtype, {}).get(form)
                if x is None:
                    continue
                errors = [f"{e:.0e}" for e in x["error"]] if "error" in x else ["", ""]
                times = [f"{x['microseconds']:.3f}", f"{ratio(row, dtype, form):.2f}"]
                lines.append(
                    [name, dtype, told, *times, str(x.get("iterations", "")), *errors, f"{x['compile_seconds']:.1f}"]
                )
    heads = ["robot", "precision", "form", "µs", "of embedded", "steps", "error: median", "largest", "compile s"]
    return [f"## {title}", "", about, "", *table(heads, lines)]


def operations(rows: dict) -> list[str]:
    out = ["## Operations and code", "", "Of one solve in double precision, counted as in [the Delassus"]
    out += ["matrix](osim_operations.md): of straight code, and of steps that are called; bytes of machine code.", ""]
    lines = []
    for name, row in rows.items():
        pairs = [(row["embedded"][k], row["LCABA"][k]) for k in ("operations", "called", "code")]
        lines.append([name, *(f"{x:,}" for pair in pairs for x in pair)])
    heads = ["robot", "embedded", "LCABA, cut", "called: embedded", "LCABA, cut", "bytes: embedded", "LCABA, cut"]
    return out + table(heads, lines)


def torques(found: dict) -> list[str]:
    """Return the tables of the measured legs."""
    out = ["## Torques without rotors", "", "Inverse dynamics of a leg with five geared motors, the ankle's on the"]
    out += ["thigh, and of a leg whose motors work in pairs, by differentials (`tello.py`), along sinusoidal motions"]
    out += ["(Fig. 13): root mean square of the error, N m and relative to the largest torque of the joint or motor."]
    for group in (g for g in LEGS if g in found):
        out += ["", f"![torques](embedding_{group}.png)", "", *_torques(found[group])]
    return out


def _torques(found: dict) -> list[str]:
    exact = np.asarray(found["torque"]["embedded"])
    lines = []
    for j, joint in enumerate(found["joints"]):
        most, cells = np.abs(exact[j]).max(), []
        for kind in ("neglected", "armature"):
            off = np.sqrt(np.mean((np.asarray(found["torque"][kind])[j] - exact[j]) ** 2))
            cells += [f"{off:.3g}", f"{off / most:.1%}"]
        lines.append([joint, f"{most:.3g}", *cells])
    heads = ["joint", "largest torque", "rotors neglected", "", "reflected as armature", ""]
    return table(heads, lines)


ROBOTS = "Geared robots: embedded, as models without rotors, and as trees whose rotors are free (Fig. 12)."
FEET = """The same, each foot held at a point, or welded. *embedded*: rotors embedded, feet by `LCABA`,
or by `PV` where it is named."""


def written(found: dict, told: Callable[[str], str]) -> str:
    """Return the results as Markdown; `told` gives the origin of a group."""
    out = ["# Constraint embedding", "", "Made by `benchmarks/embedding.py`.", "", ABOUT]
    sections = [(UNITS, lambda: growth(found)), ([f"{k}_{n}" for k in TIED for n in (5, 10, 20)], lambda: tied(found))]
    sections += [(("linkages",), lambda: forms("Linkages", "Chains from the world.", found["linkages"]))]
    sections += [(("robots",), lambda: forms("Geared robots", ROBOTS, found["robots"]))]
    sections += [(("feet",), lambda: forms("Feet on the ground", FEET, found["feet"]))]
    sections += [(("operations",), lambda: operations(found["operations"]))]
    sections += [(LEGS, lambda: torques(found))]
    for groups, page in sections:
        if any(g in found for g in groups):
            where = dict.fromkeys(told(g) for g in groups if g in found)
            out += ["", *page(), "", " ".join(where)]
    return "\n".join(out).rstrip() + "\n"


def draw_growth(pyplot, found: dict):
    kinds = [k for k in UNITS if k in found]
    figure, axes = pyplot.subplots(1, len(kinds), figsize=(4.2 * len(kinds), 4), squeeze=False, layout="tight")
    for axis, kind in zip(axes[0], kinds, strict=True):
        for n, form in enumerate(("embedded", "LCABA", "ProxLTL")):
            for branches, line in ((False, "o-"), (True, "s:")):
                sizes, us = points(found[kind], form, "float32", branches=branches)
                if sizes:
                    label = f"{FORMS[form]}{', branches' if branches else ''}"
                    axis.loglog(sizes, us, line, color=f"C{n}", label=label)
        axis.set(xlabel=f"mechanisms: {kind}")
        if axis.lines:
            axis.legend(fontsize="small")
    axes[0][0].set_ylabel("µs, float32")
    return figure


def draw_size(pyplot, found: dict):
    panels = [(kind, n) for kind in TIED for n in (5, 10, 20) if f"{kind}_{n}" in found]
    columns = max(1, (len(panels) + 1) // 2)
    figure, axes = pyplot.subplots(2, columns, figsize=(4 * columns, 6.4), squeeze=False, layout="tight")
    for axis, (kind, n) in zip(axes.ravel(), panels, strict=False):
        rows = found[f"{kind}_{n}"]
        sizes = [row["largest"] for row in rows.values()]
        for form in ("embedded", "LCABA", "ProxLTL"):
            axis.semilogy(sizes, [r["float32"][form]["microseconds"] for r in rows.values()], "o-", label=FORMS[form])
        axis.set(xlabel="bodies of the loop", title=f"tied by a {kind}, depth {n}")
    axes[0][0].legend(fontsize="small")
    for axis in axes[:, 0]:
        axis.set_ylabel("µs, float32")
    return figure


def draw_torques(group: str, pyplot, found: dict):
    found = found[group]
    exact, shown = np.asarray(found["torque"]["embedded"]), range(len(found["joints"]))
    figure, axes = pyplot.subplots(1, len(shown), figsize=(3.2 * len(shown), 3.2), squeeze=False, layout="tight")
    for axis, j in zip(axes[0], shown, strict=True):
        for kind in ("neglected", "armature"):
            axis.plot(found["time"], np.asarray(found["torque"][kind])[j] - exact[j], label=f"rotors: {kind}")
        axis.set(xlabel="s", title=found["joints"][j])
    axes[0][0].set_ylabel("error of the torque, N m")
    axes[0][0].legend(fontsize="small")
    return figure


FIGURES: dict[str, Callable] = {"growth": draw_growth, "size": draw_size}
FIGURES |= {group: functools.partial(draw_torques, group) for group in LEGS}
NEEDED = {"growth": UNITS, "size": [f"{k}_{n}" for k in TIED for n in (5, 10, 20)]} | {
    group: (group,) for group in LEGS
}


def drawable(found: dict, figure: str) -> bool:
    return any(group in found for group in NEEDED[figure])
