"""Write the page of `gpu.py`."""

from origins import machine

ABOUT = """Millions of evaluations a second on one GPU, by size of the batch; of simulations, millions of steps. `PGS`
is without limits and dry friction of joints, `Auto` is with both. Inputs and outputs are in the GPU's memory in the
order of users' arrays. *Compile* is the time from the call to the result, without stored code; the driver's assembler
is part of it. *Differing* counts numbers of 256 results that differ from those of the CPU's kernel."""


def cells(found: dict, sizes: list[str]) -> list[str]:
    """Return compile time and rates of a compiler, empty where nothing was measured."""
    if "failed" in found:
        return ["failed", *[""] * len(sizes)]
    numbers = [found.get("compile_seconds"), *(found.get("millions", {}).get(n) for n in sizes)]
    return ["" if x is None else f"{x:g}" for x in numbers]


def page(found: dict, runs: list[dict]) -> str:
    """Return the page, for the results by program and the runs that they come from."""
    out = ["# Kernels on a GPU", "", "Made by `benchmarks/gpu.py`.", "", ABOUT, ""]
    for where in sorted({machine(run) for run in runs}):
        commits = ", ".join(f"{run['commit']} ({run['date']})" for run in runs if machine(run) == where)
        out += [f"{where}: commits {commits}.", ""]
    for how, title in (("kernel", "Kernels"), ("xla", "XLA")):
        rows = {name: row[how] for name, row in found.items() if how in row}
        sizes = sorted({n for row in rows.values() for n in row.get("millions", {})}, key=int)
        heads = ["", "compile, s", *(f"{int(n):,}" for n in sizes), *(["differing"] if how == "kernel" else [])]
        lines = []
        for name, row in rows.items():
            lines.append([name, *cells(row, sizes), *([str(row["differing"])] if "differing" in row else [])])
        out += [f"## {title}", "", *(f"| {' | '.join(x)} |" for x in (heads, ["---"] * len(heads), *lines)), ""]
    return "\n".join(out)
