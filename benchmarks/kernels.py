"""Compare programs that run as one kernel each with the old package, which XLA compiled entirely.

    python benchmarks/kernels.py [SECTION ...] [--only REGEX] [--again] [--pinocchio CSV] [--out FOLDER]

- `table`: CPU time per evaluation in a batch of 512 (128 random states, repeated) on one core, of commit 2bcf2b6 and of
  the current package: one process each, in turns.
- `batch`: larger batches on one core, and wall time on one and two cores.
- `single`: one state: a jitted call, and a step in a `jax.lax.scan`.
- `compile`: CPU seconds of one core from a call to its result, without any cache.
- `pinocchio`: reads Pinocchio's times in C++ (double precision, one core) from the CSV file, one line per system and
  algorithm, to compare them with the table. Without a file it reads none.

`--only` selects rows whose names ("go1 aba float32") match. Rows that were measured for the same state of the package
are skipped unless `--again` is given. Both trees are copied first, so that the package may be edited meanwhile.
Programs that XLA compiles for 2bcf2b6 are kept in `--cache`, since compiling one takes up to minutes; `compile` does
not use it. Writes `kernels.json` and `kernels.md`.
"""

import csv
import os
import re
import tempfile
from pathlib import Path

from kernel_bench import BATCH, Bench, difference
from kernel_worker import Failed, Worker
from results import Results, parser

from jaxdyn.commands.bench import one_core

DTYPES = ("float32", "float64")
STEPS = 1000
LOOPS = ("cassie", "cassie_feet", "two_hands_cube", "humanoid_hands_cube", "loop_chain_8")
#: solvers that support loops and redundant rows; Dense has no kernel on purpose
SOLVERS = ("LCABA", "ProxBBO", "Unified", "ProxLTL", "ProxLTLSoft", "LTLSoft", "Auto", "Dense")
PINOCCHIO = {
    "talosfull_4x6d": "talos",
    "cassie_loops": "cassie",
    "cassie_loops_feet": "cassie_feet",
    "allegro2_cube": "two_hands_cube",
    "humanoid_allegro2_cube": "humanoid_hands_cube",
    "loopchain_8x7": "loop_chain_8",
}

#: (robot, program): largest allowed fraction of the old time
TABLE: dict[tuple[str, str], float | None] = {
    **{(r, "aba"): 0.15 for r in ("go1", "talos", "cassie", *LOOPS[2:])},
    **{(r, "lcaba_1"): 0.25 for r in LOOPS},
    **{(r, "lcaba_3"): 0.3 for r in LOOPS},
    **{("cassie_feet", s): None if s == "Dense" else 0.4 for s in SOLVERS},
    **{("talos", p): 0.4 for p in ("rnea", "crba", "kinematics", "energies", "step")},
    **{("cassie", p): 0.4 for p in ("impulse", "step")},
    **{(r, "gradient of aba"): 0.07 for r in ("go1", "talos")},
    ("cassie", "gradient of lcaba_3"): 0.07,
}
FORWARDS = 2.6
BATCHES = (("go1", "aba"), ("talos", "aba"), ("cassie", "lcaba_1"))
SIZES, WALL_SIZES = (512, 8192, 65536), (4096, 8192, 65536)
COMPILED = (("talos", "aba"), ("cassie", "lcaba_1"), ("cassie", "lcaba_3"), ("cassie", "gradient of lcaba_3"))
BARS = {"batch": 1.2, "cores": 1.8, "call": 25.0, "scan": 15.0, "compile": 0.3}


def beside(bench: Bench, workers: dict[str, Worker], robot: str, program: str, dtype: str) -> dict:
    """Return the times of a program in both trees, round by round; for a gradient, also the times of its forward."""
    found: dict = {"bar": TABLE[robot, program]}
    given = {"robot": robot, "dtype": dtype, "file": bench.inputs(robot)}
    ready = []
    for who in ("old", "new"):
        try:
            if who not in workers or workers[who].process.poll() is not None:
                workers[who] = bench.worker(who, dtype)
            workers[who]("prepare", key="main", program=program, **given)
            ready.append((who, who, "main"))
        except Failed as why:
            found[f"{who} failed"] = str(why)
    if program.startswith("gradient of ") and ("new", "new", "main") in ready:
        workers["new"]("prepare", key="forward", program=program.removeprefix("gradient of "), **given)
        ready.append(("forward", "new", "forward"))
    for _ in range(bench.options.rounds):
        for name, who, key in ready:
            found.setdefault(name, []).append(workers[who]("time", key=key, repeats=bench.options.repeats))
    if "old" in found and "new" in found:
        found["ratio"] = round(min(found["new"]) / min(found["old"]), 4)
        found["difference"] = difference(bench.folder, {who: workers[who] for who in ("new", "old")})
        found["met"] = None if found["bar"] is None else found["ratio"] <= found["bar"]
    if "forward" in found:
        found["forwards"] = round(min(found["new"]) / min(found["forward"]), 2)
        found["met"] = found["forwards"] <= FORWARDS and bool(found.get("met"))
    return found | {"nv": workers["new"]("nv", robot=robot, dtype=dtype)} if "new" in found else found


def table(bench: Bench) -> None:
    for robot in dict.fromkeys(r for r, _ in TABLE):
        for dtype in DTYPES:
            programs = [p for r, p in TABLE if r == robot and bench.wanted("table", f"{r} {p} {dtype}")]
            workers: dict[str, Worker] = {}
            try:
                for program in programs:
                    try:
                        found = beside(bench, workers, robot, program, dtype)
                    except Failed as why:
                        found = {"bar": TABLE[robot, program], "failed": str(why)}
                    bench.keep("table", f"{robot} {program} {dtype}", found)
            finally:
                for worker in workers.values():
                    worker.close()


def sizes(bench: Bench, robot: str, program: str, dtype: str) -> dict:
    given = {"robot": robot, "program": program, "dtype": dtype, "file": bench.inputs(robot)}
    found: dict = {"cpu": {}, "wall": {}}
    repeats = bench.options.repeats
    with bench.worker("new", dtype) as one, bench.worker("new", dtype, bench.cores[:2]) as two:
        for n in sorted({*SIZES, *WALL_SIZES}):
            for worker in (one, two):
                worker("prepare", key=str(n), batch=n, **given)
        for _ in range(bench.options.rounds):
            for n in SIZES:
                found["cpu"].setdefault(str(n), []).append(one("time", key=str(n), repeats=repeats))
            for n in WALL_SIZES if len(bench.cores) > 1 else ():
                both = found["wall"].setdefault(str(n), {"1": [], "2": []})
                for cores, worker in (("1", one), ("2", two)):
                    both[cores].append(worker("wall", key=str(n), repeats=repeats))
    cpu = {n: min(us) for n, us in found["cpu"].items()}
    found["growth"] = round(max(cpu.values()) / cpu[str(BATCH)], 3)
    gains = [round(min(both["1"]) / min(both["2"]), 3) for both in found["wall"].values()]
    found["gain"] = dict(zip(found["wall"], gains, strict=True))
    enough = all(g >= BARS["cores"] for g in gains) if gains else None
    return found | {"met": {"growth": found["growth"] <= BARS["batch"], "gain": enough}}


def single(bench: Bench, robot: str, program: str, dtype: str) -> dict:
    """Return the microseconds of a call, of an empty call, and of a step in a scan."""
    given = {"robot": robot, "dtype": dtype, "file": bench.inputs(robot), "batch": None}
    cases = {"call": (program, 0), "empty": ("empty", 0), "scan": (program, STEPS), "step in a scan": ("step", STEPS)}
    found: dict = {}
    with bench.worker("new", dtype) as worker:
        for key, (what, steps) in cases.items():
            worker("prepare", key=key, program=what, scan=steps, **given)
        for _ in range(bench.options.rounds):
            for key in cases:
                found.setdefault(key, []).append(worker("time", key=key, repeats=bench.options.repeats))
    found["above empty"] = round(min(found["call"]) - min(found["empty"]), 2)
    return found | {"met": {"call": found["above empty"] <= BARS["call"], "scan": min(found["scan"]) <= BARS["scan"]}}


def cold(bench: Bench, robot: str, program: str, dtype: str) -> dict:
    """Return the CPU seconds of first calls, each in a separate process: old package once, new one every round."""
    found: dict = {}
    for who in ("old", *["new"] * bench.options.rounds):
        with bench.worker(who, dtype, cold=True) as worker:
            given = {"robot": robot, "program": program, "dtype": dtype, "file": bench.inputs(robot)}
            found.setdefault(who, []).append(worker("prepare", key="main", **given))
    found["ratio"] = round(min(found["new"]) / min(found["old"]), 4)
    return found | {"met": found["ratio"] <= BARS["compile"]}


def each(section: str, cases, measure):
    """Return a section whose cases `measure` measures one after the other."""

    def run(bench: Bench) -> None:
        for robot, program in cases:
            for dtype in DTYPES:
                key = f"{robot} {program} {dtype}"
                if bench.wanted(section, key):
                    try:
                        found = measure(bench, robot, program, dtype)
                    except Failed as why:
                        found = {"failed": str(why)}
                    bench.keep(section, key, found)

    return run


def pinocchio(bench: Bench) -> None:
    if bench.options.pinocchio is None:
        print("pinocchio: no file is given, see --pinocchio")
        return
    with bench.options.pinocchio.open() as file:
        rows = [r for r in csv.DictReader(file) if r["system"] in PINOCCHIO and r["algorithm"] in ("aba", "lcaba_3")]
    for r in rows:
        robot = PINOCCHIO[r["system"]]
        key = f"{robot} {r['algorithm']}"
        if re.search(bench.options.only, key):
            found = {"system": r["system"], "nv": int(r["nv"]), "pinocchio": float(r["median_us"])}
            bench.keep("pinocchio", key, found)


SECTIONS = {
    "table": table,
    "batch": each("batch", BATCHES, sizes),
    "single": each("single", [("talos", "aba")], single),
    "compile": each("compile", COMPILED, cold),
    "pinocchio": pinocchio,
}


def main() -> None:
    options = parser(__doc__, "section", SECTIONS)
    options.add_argument("--only", default="", metavar="REGEX", help="rows whose names match")
    options.add_argument("--again", action="store_true", help="measure anew what is there already")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--repeats", type=int, default=7, help="of each measurement in a round; the least counts")
    options.add_argument("--patience", type=float, default=1800.0, help="seconds after which a program is given up")
    options.add_argument("--pinocchio", type=Path, metavar="CSV", help="with columns system, nv, algorithm, median_us")
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    options.add_argument("--cache", type=Path, default=home / "jaxdyn-benchmarks", help="of XLA's programs")
    options = options.parse_args()
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]
    with tempfile.TemporaryDirectory() as folder, one_core():
        bench = Bench(Path(folder), Results(options.out, "kernels"), options, cores)
        for section in options.names or SECTIONS:
            SECTIONS[section](bench)


if __name__ == "__main__":
    main()
