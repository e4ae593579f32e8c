"""Write the page of `gpu.py`."""

from collections.abc import Callable

ABOUT = """Millions of evaluations a second on one GPU, by size of the batch; of simulations, of steps. Programs as one
kernel, and through XLA where that was measured. Inputs and outputs are in the GPU's memory in the order of users'
arrays. *Compile* is the time from the call to the result, without stored code; GPUs' own assembler is part of it.
*Differing* counts numbers of 256 results that have not the bits of the CPU's kernel."""


def cells(found: dict, sizes: list[str]) -> list[str]:
    """Return compile time and rates of a compiler, empty where nothing was measured."""
    if "failed" in found:
        return ["failed", *[""] * len(sizes)]
    return [str(found.get("compile_seconds", "")), *(str(found.get("millions", {}).get(n, "")) for n in sizes)]


def page(found: dict, told: Callable[[str], str]) -> str:
    """Return the page, for the results by program and the origin of each."""
    sizes = sorted({n for row in found.values() for x in row.values() for n in x.get("millions", {})}, key=int)
    heads = ["program", "differing"]
    heads += [f"{how}: {what}" for how in ("kernel", "XLA") for what in ("compile, s", *(f"{int(n):,}" for n in sizes))]
    lines = [f"| {' | '.join(x)} |" for x in (heads, ["---"] * len(heads))]
    for name, row in found.items():
        kernel, xla = (row.get(how, {}) for how in ("kernel", "xla"))
        line = [name, str(kernel.get("differing", "")), *cells(kernel, sizes), *cells(xla, sizes)]
        lines.append(f"| {' | '.join(line)} |")
    origins = sorted({told(name) for name in found})
    return "\n".join(["# On a GPU", "", ABOUT, "", *origins, "", *lines, ""])
