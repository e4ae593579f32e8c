"""Worker processes of `kernels.py`: one per version (source tree) of the package, controlled by lines of JSON.

Run as a script, it reads requests, JSON objects with the name of a `Server` method under "do", and answers on standard
output.
"""

import json
import os
import resource
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

#: XLA flags for a single thread
SINGLE = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"


class Failed(Exception):
    """A request failed; the message gives the reason."""


class Worker:
    """The parent's side. `tree` contains the package; with `cores` None the worker uses the cores of this process and
    one thread; `cache` is the folder of JAX's cache; a `cold` worker uses no programs cached by other processes."""

    def __init__(
        self,
        tree: Path,
        dtype: str,
        log: Path,
        cores: Sequence[int] | None = None,
        cache: Path | None = None,
        cold: bool = False,
    ):
        env = os.environ | {"PYTHONPATH": str(tree), "JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1"}
        env["JAX_ENABLE_X64"] = str(int(dtype == "float64"))
        env.pop("JAX_COMPILATION_CACHE_DIR", None)
        if cores is None or len(cores) == 1:
            env["XLA_FLAGS"] = f"{SINGLE} {env.get('XLA_FLAGS', '')}"
        if cache is not None:
            env |= {"JAX_COMPILATION_CACHE_DIR": str(cache), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.2"}
        else:
            env["JAX_ENABLE_COMPILATION_CACHE"] = "false"
        if cold:
            env["JAXDYN_CACHE_DIR"] = ""
        self.log = log
        started = [sys.executable, "-u", str(Path(__file__).resolve())]
        pin = None if cores is None else lambda: os.sched_setaffinity(0, set(cores))
        with log.open("wb") as errors:
            self.process: Any = subprocess.Popen(
                started,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=env,
                bufsize=0,
                preexec_fn=pin,
            )
        self.patience, self.dtype = 1800.0, dtype
        found = self("where")
        if not Path(found).is_relative_to(tree.resolve()):
            self.close()
            raise RuntimeError(f"the package of {tree} is wanted, and that of {found} imported")

    def __call__(self, do: str, **given):
        """Return the answer to a request; raise `Failed` if there is none."""
        try:
            self.process.stdin.write(json.dumps({"do": do, **given}).encode() + b"\n")
            if not select.select([self.process.stdout], [], [], self.patience)[0]:
                self.close()
                raise Failed(f"{do} took more than {self.patience:.0f} s")
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = b""
        if not line:
            told = self.log.read_text(errors="replace").strip().splitlines()
            code = self.process.wait()
            raise Failed(f"the process ended with {code}: {told[-1][:300] if told else ''}")
        answer = json.loads(line)
        if "failed" in answer:
            raise Failed(answer["failed"])
        return answer["found"]

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_) -> None:
        self.close()


class Server:
    """The worker's side, which keeps robots and compiled programs."""

    def __init__(self):
        self.robots, self.runs = {}, {}

    def where(self) -> str:
        import jaxdyn

        return str(Path(jaxdyn.__file__).resolve())

    def inputs(self, robot: str, batch: int, file: str) -> None:
        import kernel_programs as programs
        import numpy as np

        np.savez(file, **programs.inputs(robot, batch))

    def _robot(self, robot: str, dtype: str):
        import kernel_programs as programs

        if (robot, dtype) not in self.robots:
            self.robots[robot, dtype] = programs.cast(programs.robot(robot)[0], dtype)
        return self.robots[robot, dtype]

    def _args(self, file: str, dtype: str, batch: int | None):
        import kernel_programs as programs
        import numpy as np

        given = np.load(file)
        args = [given[k] for k in ("q", "v", "tau", "w")]
        if batch is None:
            return programs.cast([x[0] for x in args], dtype)
        return programs.cast([np.resize(x, (batch, x.shape[1])) for x in args], dtype)

    def nv(self, robot: str, dtype: str) -> int:
        return self._robot(robot, dtype).nv

    def prepare(
        self, key: str, robot: str, program: str, dtype: str, file: str, batch: int | None = 512, scan: int = 0
    ) -> float:
        """Compile a program as `key`, and return the CPU seconds until it has run once. If `batch` is None, the program
        takes a single state."""
        import jax
        import kernel_programs as programs

        model, args = self._robot(robot, dtype), self._args(file, dtype, batch)
        jax.block_until_ready(jax.jit(lambda x: x + 1)(args[0]))
        if program == "empty":
            of = lambda q, v, tau, w: tau + w  # noqa: E731
        else:
            of = programs.in_scan(model, program, scan) if scan else programs.program(model, program)
        run = jax.jit(of if batch is None else jax.vmap(of))
        begin = _spent()
        jax.block_until_ready(run(*args))
        self.runs[key] = run, args, (batch or 1) * (scan or 1)
        return round(_spent() - begin, 3)

    def time(self, key: str, repeats: int) -> float:
        """Return the least CPU microseconds per evaluation."""
        import jax

        from jaxdyn.commands.bench import best

        run, args, evaluations = self.runs[key]
        return round(best(lambda: jax.block_until_ready(run(*args)), evaluations, repeats), 5)

    def wall(self, key: str, repeats: int) -> float:
        """Return the least wall-clock microseconds per evaluation."""
        import jax

        run, args, evaluations = self.runs[key]
        least = float("inf")
        for _ in range(3 * repeats):
            begin = time.perf_counter()
            jax.block_until_ready(run(*args))
            least = min(least, time.perf_counter() - begin)
        return round(1e6 * least / evaluations, 5)

    def outputs(self, key: str, file: str) -> None:
        import jax
        import numpy as np

        run, args, _ = self.runs[key]
        np.savez(file, *jax.tree.leaves(run(*args)))


def _spent() -> float:
    """Return the CPU seconds of this process and of its terminated child processes."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    server = Server()
    for line in sys.stdin:
        request = json.loads(line)
        try:
            found = {"found": getattr(server, request.pop("do"))(**request)}
        except Exception as why:  # reported to the parent, which records it
            found = {"failed": f"{type(why).__name__}: {str(why)[:300]}"}
        print(json.dumps(found), file=answers, flush=True)


if __name__ == "__main__":
    main()
