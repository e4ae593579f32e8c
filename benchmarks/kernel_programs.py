"""Robots and programs that `kernels.py` measures, built in the same way with the current and the old package.

A program is a function of (q, v, tau, w) of one state, where w is a cotangent of the accelerations.
"""

import dataclasses
import warnings
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import older  # noqa: F401 - before imports that use current names
import systems
import topologies
from measure import acceleration_by, states

import jaxdyn as jd

#: points of Cassie's soles, in the axes of its feet
SOLE = ((-0.052821, 0.092622, 0.0), (0.069746, -0.010224, 0.0))


def talos() -> systems.System:
    """Return Talos with its grippers but without their couplings, which is a tree."""
    model = jd.load(systems.described("talos_data/robots/talos_full_v2.urdf"), floating=True)
    return dataclasses.replace(model, constraints=()), model.neutral()


def cassie_feet() -> systems.System:
    """Return Cassie with each foot held at two points; two of the twelve rows are redundant."""
    model, q = systems.cassie()
    held = []
    for side in ("left", "right"):
        foot = jd.frame_pose(model, q, f"{side}-foot")
        for k, p in enumerate(SOLE):
            here = jd.Transform(np.eye(3), np.array(p))
            name = f"{side}_{k}"
            held.append(
                jd.constraints.Point(
                    f"{side}-foot", placement_a=here, placement_b=foot @ here, name=name, stabilization=None
                )
            )
    return dataclasses.replace(model, constraints=(*model.constraints, *held)), q


def eight_loops() -> systems.System:
    model = topologies.loop_chain(8)
    return model, model.neutral()


ROBOTS: dict[str, Callable[[], systems.System]] = {
    "go1": lambda: systems.quadruped("go1", 0),
    "talos": talos,
    "cassie": systems.cassie,
    "cassie_feet": cassie_feet,
    "two_hands_cube": systems.two_hands_cube,
    "humanoid_hands_cube": lambda: systems.humanoid_hands_cube(True),
    "loop_chain_8": eight_loops,
}


def robot(name: str) -> systems.System:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", jd.ModelWarning)
        return ROBOTS[name]()


def inputs(name: str, batch: int) -> dict[str, np.ndarray]:
    """Return random states around the robot's configuration with loops closed, torques and cotangents."""
    model, q = robot(name)
    q, v, tau = states(model, q, batch)
    if model.constraints:
        q = jax.jit(jax.vmap(lambda x: jd.assemble(model, x)))(q)
    w = np.random.default_rng(1).normal(size=v.shape)
    return {"q": np.asarray(q), "v": np.asarray(v), "tau": np.asarray(tau), "w": w}


def solver(name: str) -> jd.solvers.Solver:
    """Return a solver by name: `lcaba_3` makes exactly three solves; a class name means default options."""
    if name == "aba":
        return jd.solvers.ABA()
    if name.startswith("lcaba_"):
        return jd.solvers.LCABA(max_steps=int(name.removeprefix("lcaba_")), tol=0.0)
    return getattr(jd.solvers, name)()


def _energies(model, q, v):
    return jd.kinetic_energy(model, jd.State(q, v)) + jd.potential_energy(model, q)


def _step(model, q, v, tau):
    after = jd.step(model, jd.State(q, v), tau, 1e-3)
    return after.q, after.v


def _poses(model, q):
    found = jd.forward_kinematics(model, q)
    return found.rotation, found.translation


#: programs other than forward dynamics
OTHERS: dict[str, Callable] = {
    "rnea": lambda m, q, v, tau, w: jd.inverse_dynamics(m, jd.State(q, v), tau),
    "crba": lambda m, q, v, tau, w: jd.mass_matrix(m, q),
    "kinematics": lambda m, q, v, tau, w: _poses(m, q),
    "energies": lambda m, q, v, tau, w: _energies(m, q, v),
    "impulse": lambda m, q, v, tau, w: jd.impulse(m, jd.State(q, v)).velocity,
    "step": lambda m, q, v, tau, w: _step(m, q, v, tau),
}


def program(model: jd.Model, name: str) -> Callable:
    """Return a program by name; `gradient of X` computes the accelerations of X and their pullback to q, v and tau."""
    if name in OTHERS:
        return lambda *x: OTHERS[name](model, *x)
    solve = acceleration_by(solver(name.removeprefix("gradient of ")))
    if not name.startswith("gradient of "):
        return lambda q, v, tau, w: solve(model, q, v, tau)

    def gradient(q, v, tau, w):
        out, pull = jax.vjp(lambda *x: solve(model, *x), q, v, tau)
        return out, pull(w)

    return gradient


def in_scan(model: jd.Model, name: str, steps: int) -> Callable:
    """Return a function that makes `steps` steps of one state in a `jax.lax.scan`: of `jd.step` if `name` is "step", or
    small changes of v by the accelerations of the program."""
    one = program(model, name)

    def run(q, v, tau, w):
        def body(at, _):
            if name == "step":
                return one(*at, tau, w), None
            return (at[0], at[1] + 1e-6 * one(*at, tau, w)), None

        return jax.lax.scan(body, (q, v), length=steps)[0]

    return run


def cast(tree, dtype: str):
    return jax.tree.map(lambda x: jnp.asarray(x, dtype), tree)
