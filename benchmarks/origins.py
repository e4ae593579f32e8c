"""Record the origin of measurements: machine, versions of the compilers, commit and date."""

import datetime
import functools
import os
import platform
import re
import subprocess
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("jax", "jaxlib", "llvmlite")


def output(*command: str) -> str:
    """Return what a command prints, or an empty string if it fails or does not exist."""
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def processor() -> str:
    """Return the name of the processor as reported by the system."""
    info = Path("/proc/cpuinfo")
    names = re.findall(r"model name\s*:\s*(.*)", info.read_text()) if info.exists() else []
    told = names[0] if names else output("sysctl", "-n", "machdep.cpu.brand_string")
    return told or platform.processor() or platform.machine()


@functools.cache
def gpu() -> str:
    """Return the names of NVIDIA's GPUs and of their driver, or an empty string."""
    return output("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader").replace("\n", "; ")


def commit() -> str:
    """Return the short hash of the checkout, with a + if the code differs from it. Outside of git the environment
    variable JAXDYN_COMMIT tells; "unknown" without it."""
    found = output("git", "rev-parse", "--short=7", "HEAD")
    changed = output("git", "status", "--porcelain", "--untracked-files=no", "jaxdyn", "benchmarks")
    return f"{found}{'+' if changed else ''}" if found else os.environ.get("JAXDYN_COMMIT", "unknown")


def origin() -> dict:
    """Return the origin of measurements made now."""
    found = {"processor": processor(), "cores": os.cpu_count(), "python": platform.python_version()}
    if told := gpu():
        found["gpu"] = told
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "none"
    return found | {"commit": commit(), "date": datetime.datetime.now(datetime.UTC).date().isoformat()}


class Origins:
    """The run that each row of each section comes from: ``{"runs": [origin, ...], "of": {section: {row: index}}}``."""

    def __init__(self, meta: dict | None = None):
        meta = meta or {}
        self.runs: list[dict] = meta.get("runs", [])
        self.of: dict[str, dict[str, int]] = meta.get("of", {})

    def note(self, section: str, rows: Iterable[str], run: dict) -> None:
        """Record that the rows come from this run."""
        if run not in self.runs:
            self.runs.append(run)
        self.of.setdefault(section, {}).update(dict.fromkeys(rows, self.runs.index(run)))

    def meta(self) -> dict:
        """Return the record as it is written, without runs that no row refers to."""
        used = sorted({k for rows in self.of.values() for k in rows.values()})
        of = {section: {row: used.index(k) for row, k in rows.items()} for section, rows in self.of.items()}
        return {"runs": [self.runs[k] for k in used], "of": of}

    def told(self, section: str, row: str | None = None) -> str:
        """Return the origin of a section, or of one row, in words: a sentence per machine, the latest commit first."""
        of = self.of.get(section, {})
        known = of.values() if row is None else [of[k] for k in (row, "") if k in of][:1]
        runs = [self.runs[k] for k in dict.fromkeys(known)]
        machines: dict[str, list[str]] = {}
        for run in sorted(runs, key=lambda run: run["date"], reverse=True):
            brought = f"commit {run['commit']}" if "commit" in run else f"added by commit {run['added by']}"
            machines.setdefault(machine(run), []).append(f"{brought}, {run['date']}")
        return " ".join(f"{where}: {'; '.join(when)}." for where, when in machines.items())


def machine(run: dict) -> str:
    """Return the machine in words; of early runs only the commit that added the numbers is known, or also the
    processor."""
    if "processor" not in run:
        return "Measured before machines were noted"
    cores = f" with {run['cores']} cores" if "cores" in run else ""
    cores += f" and {run['gpu']}" if "gpu" in run else ""
    versions = ", ".join(f"{name} {run[name]}" for name in ("python", *PACKAGES) if name in run)
    return f"Measured on {run['processor']}{cores} ({versions})"
