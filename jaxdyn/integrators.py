"""Integrators of `step` and `simulate`: ``jd.simulate(..., integrator=jd.integrators.RK4())``."""

from .simulate.integrators import RK4, Gauss, ImplicitMidpoint, Integrator, Leapfrog, RungeKutta, SemiImplicitEuler

__all__ = [
    "Gauss",
    "ImplicitMidpoint",
    "Integrator",
    "Leapfrog",
    "RK4",
    "RungeKutta",
    "SemiImplicitEuler",
]
