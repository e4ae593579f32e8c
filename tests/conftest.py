"""Settings of the tests: double precision, and nothing promotes by chance. Compiled programs are kept between runs."""

import ctypes
import gc
import os
import sys
from importlib.metadata import version
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).resolve().parents[1] / ".jax_cache"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.5")

# LLVM takes a third of the time so, for code of the same bits (`test_kernels.py` compares them)
os.environ.setdefault("JAXDYN_EFFORT", "0")

#: the settings that halve the time to compile, which is what most tests do; commands and the demo run as users run
#: them. XLA ends the process at a flag that it does not know, as versions from 0.11 on do not know this one
OLD = tuple(map(int, version("jaxlib").split(".")[:2])) < (0, 11)
FLAGS = "--xla_cpu_use_fusion_emitters=false" if OLD else ""
before = os.environ.get("XLA_FLAGS", "")
os.environ["XLA_FLAGS"] = f"{before} {FLAGS}".strip()

import jax  # noqa: E402 - after the environment that it reads
import pytest  # noqa: E402

from jaxdyn.engine import kept  # noqa: E402

jax.config.update("jax_disable_most_optimizations", True)
jax.devices()  # reads the flags
os.environ["XLA_FLAGS"] = before

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")


# traces are millions of objects without cycles: looking for some takes a tenth of the time. `small_processes` looks too
gc.set_threshold(1_000_000, 50, 50)


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: real robots and long simulations; they run in CI like all others")
    config.addinivalue_line("markers", "first: takes long in a process of its own, and must not be the last")


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.get_closest_marker("first") is None)


def memory() -> float:
    """Bytes that this process holds, 0 where Linux does not tell."""
    pages = Path("/proc/self/statm")
    return int(pages.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if pages.exists() else 0.0


#: memory after the last time that things were forgotten, at least so much, and the number of tests that are done
LEAST = 2.1e9
_kept, _done = [LEAST], [0]


def pytest_sessionfinish():
    gc.freeze()  # pytest looks for cycles five times before it ends, among all that is kept


@pytest.fixture(autouse=True)
def small_processes():
    """What JAX and the engine keep of functions traced so far is forgotten whenever a process has grown by half a
    gigabyte, or before XLA's programs, some hundred memory maps each, use up the 65,530 that Linux grants a process."""
    yield
    # a test makes some hundred maps at most; to count them after each would take some hundredths of their time
    _done[0] += 1
    maps = Path("/proc/self/maps")
    many = not _done[0] % 16 and maps.exists() and maps.read_bytes().count(b"\n") > 30_000
    if many or memory() > _kept[0] + 0.5e9:
        kept.forget()
        jax.clear_caches()
        gc.collect()
        if sys.platform == "linux":
            ctypes.CDLL(None).malloc_trim(0)
        _kept[0] = max(LEAST, memory())
