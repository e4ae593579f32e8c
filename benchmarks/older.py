"""Current names for an older version of the package, so that the same benchmarks run on both."""

import importlib
import sys
from importlib.util import find_spec

import jaxdyn as jd

#: modules that have moved, and families whose names were in the top-level module
MOVED = {
    "jaxdyn.commands": "jaxdyn",
    "jaxdyn.commands.bench": "jaxdyn.bench",
    "jaxdyn.loaders": "jaxdyn.parse",
    "jaxdyn.loaders.load": "jaxdyn.parse.load",
}
FAMILIES = "constraints", "joints", "solvers"

if find_spec("jaxdyn.loaders") is None:
    for now, then in MOVED.items():
        sys.modules[now] = importlib.import_module(then)
    for family in FAMILIES:
        setattr(jd, family, jd)
