"""Solvers of the constrained equations of motion: ``jd.forward_dynamics(..., solver=jd.solvers.LCABA())``."""

from .constrained.auto import Auto
from .constrained.base import Solver
from .constrained.dense import Dense
from .constrained.lcaba import ABA, LCABA, ConstrainedABA, PVSoft
from .constrained.ltl import LTL, LTLSoft, ProxLTL, ProxLTLSoft
from .constrained.prox_bbo import PV, ProxBBO, ProxPV
from .constrained.pv_early import PVEarly
from .constrained.unified import Unified

__all__ = [
    "ABA",
    "Auto",
    "ConstrainedABA",
    "Dense",
    "LCABA",
    "LTL",
    "LTLSoft",
    "PV",
    "PVEarly",
    "PVSoft",
    "ProxBBO",
    "ProxLTL",
    "ProxLTLSoft",
    "ProxPV",
    "Solver",
    "Unified",
]
