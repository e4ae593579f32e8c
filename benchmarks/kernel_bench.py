"""The two versions (source trees) of the package that `kernels.py` measures, their processes, and its results."""

import dataclasses
import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
from kernel_report import line, written
from kernel_worker import Worker
from results import Results

#: commit of the old package
BASE = "2bcf2b6"
ROOT = Path(__file__).resolve().parents[1]
BATCH = 512
#: number of different states in a batch; they are repeated
STATES = 128


def unpack(folder: Path) -> None:
    """Create a folder with the old package. Raise `CalledProcessError` if the commit is not in the clone."""
    packed = subprocess.run(["git", "-C", str(ROOT), "archive", BASE, "jaxdyn"], check=True, capture_output=True)
    folder.mkdir()
    subprocess.run(["tar", "-x", "-C", str(folder)], input=packed.stdout, check=True)


@dataclasses.dataclass
class Bench:
    """The setup of a benchmark: `folder` contains both trees and the inputs; `cores` are the available ones."""

    folder: Path
    results: Results
    options: object
    cores: list[int]

    def __post_init__(self):
        self.new, self.old, self.count = self.folder / "new", self.folder / "old", 0
        shutil.copytree(ROOT / "jaxdyn", self.new / "jaxdyn", ignore=shutil.ignore_patterns("__pycache__"))
        unpack(self.old)
        files = [p for p in sorted(self.new.rglob("*")) if p.is_file()]
        state = b"".join(f"{p.relative_to(self.new)}\n".encode() + p.read_bytes() for p in files)
        self.state = hashlib.sha256(state).hexdigest()[:12]

    def worker(self, who: str, dtype: str, cores=None, cold: bool = False) -> Worker:
        self.count += 1
        cache = self.options.cache if who == "old" and not cold else None
        log = self.folder / f"{self.count}.log"
        made = Worker(self.new if who == "new" else self.old, dtype, log, cores, cache, cold)
        made.patience = self.options.patience
        return made

    def inputs(self, robot: str) -> str:
        """Return the file of a robot's states, computed in double precision if it does not exist."""
        file = self.folder / f"{robot}.npz"
        if not file.exists():
            with self.worker("new", "float64") as worker:
                worker("inputs", robot=robot, batch=STATES, file=str(file))
        return str(file)

    def wanted(self, section: str, key: str) -> bool:
        there = self.results.found.get(section, {}).get(key, {}).get("state") == self.state
        return bool(re.search(self.options.only, key)) and (self.options.again or not there)

    def keep(self, section: str, key: str, found: dict) -> None:
        load = round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None
        self.results.found.setdefault(section, {})[key] = {"state": self.state, "load": load, **found}
        self.results.keep(section, [key])
        self.results.write(".md", written(self.results.found, BASE, self.results.origins.told))
        print(f"{section}: {line(key, found)}", flush=True)


def difference(folder: Path, workers: dict[str, Worker]) -> float:
    """Return the largest difference of the outputs, each relative to the largest number of that output."""
    loaded = []
    for who, worker in workers.items():
        worker("outputs", key="main", file=str(folder / f"{who}_outputs.npz"))
        loaded.append(np.load(folder / f"{who}_outputs.npz"))
    found = [float(np.abs(x[k] - y[k]).max() / np.abs(y[k]).max()) for x, y in [loaded] for k in x.files]
    return float(f"{max(found):.2g}")
