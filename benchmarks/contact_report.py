"""Write the page of `contact.py`."""

from collections.abc import Callable

ABOUT = """A whole step of 2 ms with contact, of robots that come down on their feet at 0.4 m/s: random states and
torques, the lowest foot within 0.2 mm of the ground, the others some millimetres above. CPU time on one core,
microseconds a step; times of a table were taken in turns, and only ratios within a table mean something. Steps start
cold, as `step` does; in `simulate` they start from the forces of the step before. Cassie's loops are closed exactly
in the same pass. Joints neither stop nor rub, except in the line that says so. Only velocities and configurations after
the step are read, except in the line *with its result*, which also reads whether the step succeeded: that takes an
estimate of its error. The line of a gradient is that of the sum of the velocities, the step included."""
RESIDUALS = """What is left of the law (its natural map, largest row), relative to the largest speed at a contact that
calls for forces, over all states, cold. *Flagged* are states whose result is `contact_not_converged`; *above* those
with more than 1e-3 left."""
MUJOCO = """`mj_step` of the same states, one after the other, in double precision on one thread, from a cold start,
with the same balls on a plane; the robot as MJCF without springs and dampers, loops as `connect`. Balls have a margin
of 10 cm, so that contacts are as many as here. By cone, and most iterations and steps of line search: 100 and 50, the
default, where nothing else is said."""
MJX = """A batch of `mjx.step` of the same models and states, compiled by XLA in single precision, in turns with
the step by `PGS` in single precision. Both return positions and velocities. By solver, and most iterations and steps
of line search: 1 and 5, or 4 and 8, are what is used for learning. Cones are pyramids, and `eulerdamp` is off."""


def table(heads: list[str], rows: list[list[str]]) -> list[str]:
    return ["| " + " | ".join(line) + " |" for line in (heads, ["---"] * len(heads), *rows)]


def costs(row: dict) -> list[str]:
    """Return the table of microseconds and multiples of ABA, by program and precision."""
    lines = []
    for name in row["float32"]:
        cells = [name]
        for dtype in ("float32", "float64"):
            us, base = row[dtype][name]["microseconds"], row[dtype]["ABA"]["microseconds"]
            cells += [f"{us:.3f}", f"{us / base:.2f}", f"{row[dtype][name]['compile_seconds']:.1f}"]
        lines.append(cells)
    heads = [x for dtype in ("float32", "float64") for x in (f"µs, {dtype}", "in ABA", "s to compile")]
    return table(["", *heads], lines)


def sizes(row: dict) -> list[str]:
    lines = [
        [f"{n}, {dtype}", f"{us['ABA']:.3f}", f"{us['PGS']:.3f}", f"{us['PGS'] / us['ABA']:.2f}"]
        for dtype, by_size in row["sizes"].items()
        for n, us in by_size.items()
    ]
    return table(["batch", "ABA, µs", "PGS, µs", "in ABA"], lines)


def residuals(found: dict) -> list[str]:
    lines = []
    for dtype, laws in found.items():
        for name, law in laws.items():
            cells = [f"{x:.0e}" for x in law["quantiles"]]
            lines.append([f"{name}, {dtype}", *cells, str(law["flagged"]), str(law["above"])])
    return table(["law", "median", "99 %", "largest", "flagged", "above"], lines)


def mujoco(found: dict) -> list[str]:
    """Return the table of MuJoCo and of jaxdyn's step in single and double precision."""
    if "why" in found:
        return [f"MuJoCo: not measured: {found['why']}."]
    lines = []
    for setting, told in found["settings"].items():
        us = told["microseconds"]
        lines.append(
            [setting, f"{us:.2f}", f"{told['contacts']:.1f}", *(f"{us / x:.1f}" for x in found["ours"].values())]
        )
    heads = [f"MuJoCo {found['version']}", "µs", "contacts", *(f"times PGS, {dtype}" for dtype in found["ours"])]
    return table(heads, lines)


def mjx(found: dict) -> list[str]:
    """Return the table of MJX and of jaxdyn's step, both in single precision."""
    if "why" in found:
        return [f"MJX: not measured: {found['why']}."]
    lines = []
    for setting, told in found["settings"].items():
        us = told["microseconds"]
        lines.append([setting, f"{us:.2f}", f"{us / found['ours']:.1f}", f"{told['compile_seconds']:.0f}"])
    return table([f"MJX {found['version']}", "µs", "times PGS, float32", "s to compile"], lines)


def page(found: dict, told: Callable[..., str]) -> str:
    """Return the results as Markdown; `told` gives the origin of a robot's numbers, or of one row of them. Parts that
    were never measured are omitted."""
    out = ["# Contact", "", "Made by `benchmarks/contact.py`.", "", ABOUT]
    for name, row in found.items():
        out += ["", f"## {name.capitalize()}", "", f"nv {row['nv']}, {row['slots']} slots, a batch of {row['batch']}."]
        if "sizes" in row:
            out += ["", *costs(row), "", *sizes(row), "", told(name, "sizes")]
    parts = (
        ("residual", "How well laws are met", RESIDUALS, residuals),
        ("mujoco", "Beside MuJoCo", MUJOCO, mujoco),
        ("mjx", "Beside MJX", MJX, mjx),
    )
    for part, title, about, lines in parts:
        rows = {name: row[part] for name, row in found.items() if part in row}
        if rows:
            out += ["", f"## {title}", "", about]
        for name, row in rows.items():
            out += ["", f"{name.capitalize()}:", "", *lines(row), "", told(name, part)]
    return "\n".join(out).rstrip() + "\n"
