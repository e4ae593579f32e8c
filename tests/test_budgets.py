"""Budgets of deterministic numbers, by solver and robot.

Operations of a lane, operations that are compiled, values alive at once, and for XLA's path the operations of the
traced code. They hold on every machine.

What is exceeded means slower programs or starts for everyone.

    JAX_ENABLE_X64=1 PYTHONPATH=benchmarks python tests/test_budgets.py

writes the numbers anew, into `budgets.json`: do so where they fall, or for something worth their growth, and say which
in the changelog.
"""

import json
from pathlib import Path

import contact_scenes as scenes
import jax
import jax.numpy as jnp
import operations
import pytest
from catalogue import CATALOGUE
from compiled import states
from solvers import SOLVERS

import jaxdyn as jd
from jaxdyn.engine import host, kernels
from jaxdyn.engine.facts import counts

FILE = Path(__file__).with_name("budgets.json")
#: numbers may grow by so much, for other versions of JAX
SLACK = 1.02
#: `Dense` has no kernel
CASES = [f"{name} {row.robots[0]}" for name, row in SOLVERS.items() if name not in ("Dense", "Auto")]
MORE = [
    "inverse_dynamics quadruped",
    "mass_matrix quadruped",
    "gradient of ABA quadruped",
    "gradient of LCABA everything",
    "contact pile",
    "gradient of contact pile",
    "explain pile",
]


def program(case: str):
    """A function of (q, v, tau), its arguments, and whether it is a gradient."""
    *words, robot = case.split()
    if robot == "pile":
        return in_contact(words)
    what, model = words[-1], CATALOGUE[robot].build()
    args = [jnp.asarray(x[0]) for x in states(robot)]
    if what in ("inverse_dynamics", "mass_matrix"):
        f = {
            "inverse_dynamics": lambda q, v, tau: jd.inverse_dynamics(model, jd.State(q, v), tau),
            "mass_matrix": lambda q, v, tau: jd.mass_matrix(model, q),
        }[what]
        return f, args

    def accelerate(q, v, tau):
        given = {"constraints": ()} if what == "ABA" else {}
        return jd.forward_dynamics(model, jd.State(q, v), tau, solver=SOLVERS[what].solver, **given).acceleration

    if len(words) == 1:
        return accelerate, args
    return jax.grad(lambda *x: accelerate(*x).sum(), (0, 1, 2)), args


def in_contact(words):
    """The same for a pile of three boxes on the ground, with 72 contact rows."""
    model, law = scenes.heap(3), jd.contact.Newton()

    def step(q, v, tau):
        if words[-1] == "explain":
            return jd.contact.explain(model, jd.State(q, v), tau, dt=1e-3, contacts=law).contacts.impulses
        return jd.step(model, jd.State(q, v), tau, 1e-3, contacts=law).v

    f = step if len(words) == 1 else jax.grad(lambda *x: step(*x).sum(), (0, 1, 2))
    return f, [model.neutral(), jnp.zeros(model.nv), jnp.zeros(model.nv)]


def numbers(case: str) -> dict[str, int]:
    """What is counted of a program."""
    f, args = program(case)
    with pytest.MonkeyPatch.context() as patch, kernels.watching() as seen:
        patch.delenv("JAXDYN_EFFORT", raising=False)  # as users have it
        patch.setattr(kernels, "made", lambda *_: host.Made("nowhere"))  # what is only counted needs no code
        try:
            jax.jit(f).lower(*args)
        finally:
            kernels._kernel.cache_clear()
        found = [counts(*entry) for entry in dict.fromkeys(seen)]
    assert found
    return {
        "operations": sum(x.operations for x in found),
        "compiled": sum(x.compiled for x in found),
        "alive": max(x.alive for x in found),
        "traced": operations.operations(f, *args),
    }


@pytest.mark.parametrize("case", [*CASES, *MORE])
def test_budget(case):
    budget, now = json.loads(FILE.read_text())[case], numbers(case)
    grown = {name: (value, budget[name]) for name, value in now.items() if value > SLACK * budget[name]}
    assert not grown, f"{case}: now and allowed: {grown}"


if __name__ == "__main__":
    assert jax.config.read("jax_enable_x64"), "robots are built in double precision: set JAX_ENABLE_X64=1"
    FILE.write_text(json.dumps({case: numbers(case) for case in [*CASES, *MORE]}, indent=1) + "\n")
