"""Step the robots of `contact_robots.py` in MuJoCo, by its C code and by MJX."""

from collections.abc import Callable
from importlib.metadata import version
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from contact_robots import DT, Batch, Standing
from measure import compiled, together

import jaxdyn as jd
from jaxdyn.commands.peers import mjcf_of
from jaxdyn.interop import to_mujoco

#: distance within which MuJoCo counts contacts, m: includes all feet
REACH = 0.1


class Setting(NamedTuple):
    """MuJoCo options: cone, largest number of iterations and of line-search steps, and solver; others are defaults."""

    cone: str = "pyramidal"
    iterations: int = 100
    search: int = 50
    solver: str = "Newton"


#: options of the C code
SETTINGS = {
    "pyramidal": Setting(),
    "elliptic": Setting("elliptic"),
    "pyramidal, 4 and 8": Setting(iterations=4, search=8),
    "pyramidal, 1 and 5": Setting(iterations=1, search=5),
}
#: options of MJX
MJX = {
    f"{solver}, {few} and {search}": Setting("pyramidal", few, search, solver)
    for few, search in ((1, 5), (4, 8))
    for solver in ("Newton", "CG")
}


def mujoco_model(robot: Standing, setting: Setting):
    """Return the robot as a MuJoCo model, with spherical feet that collide only with the floor, and loops as `connect`.
    Raise ValueError for features that MJCF cannot express."""
    import mujoco

    spec = mujoco.MjSpec.from_string(mjcf_of(robot.model, bool(robot.model.constraints)))
    spec.option.timestep = DT
    spec.option.iterations, spec.option.ls_iterations = setting.iterations, setting.search
    spec.option.cone = getattr(mujoco.mjtCone, f"mjCONE_{setting.cone.upper()}")
    spec.option.solver = getattr(mujoco.mjtSolver, f"mjSOL_{setting.solver.upper()}")
    ball, plane = mujoco.mjtGeom.mjGEOM_SPHERE, mujoco.mjtGeom.mjGEOM_PLANE
    slide = [robot.friction, 0.005, 0.0001]
    spec.worldbody.add_geom(type=plane, size=[0, 0, 1], contype=1, conaffinity=0, friction=slide)
    shapes, names = robot.model.collision, robot.model.body_names
    for info, at, size in zip(
        shapes.shapes, np.asarray(shapes.placement.translation), np.asarray(shapes.size), strict=True
    ):
        if info.kind == "sphere":
            geom = {"size": [max(float(size[0]), 1e-4), 0, 0], "pos": at, "mass": 0, "friction": slide}
            spec.body(names[info.body]).add_geom(type=ball, contype=0, conaffinity=1, margin=REACH, **geom)
    return spec.compile()


def states_of(robot: Standing, model, near: Batch) -> Batch:
    """Return the states with coordinates in the order of a MuJoCo model."""
    return Batch(*jax.vmap(lambda q, v: to_mujoco(robot.model, model, jd.State(q, v)))(near.q, near.v), near.tau)


def steps_of(model, states: Batch, full: bool):
    """Return a function that copies every state into MuJoCo, and steps it if `full`."""
    import mujoco as mj

    data, rows = mj.MjData(model), list(zip(*map(np.asarray, states), strict=True))

    def run() -> int:
        contacts = 0
        for q, v, tau in rows:
            data.qpos[:], data.qvel[:], data.qfrc_applied[:] = q, v, tau
            data.qacc_warmstart[:] = 0
            if full:
                mj.mj_step(model, data)
                contacts += data.ncon
        return contacts

    return run


def mujoco(robot: Standing, near: Batch, ours: dict[str, Callable], rounds: int) -> dict:
    """Return microseconds of `mj_step` and the mean number of contacts by setting, and microseconds of jaxdyn's
    programs; or the reason why they are missing."""
    try:
        import mujoco as mj

        models = {name: mujoco_model(robot, setting) for name, setting in SETTINGS.items()}
    except ImportError:
        return {"why": "MuJoCo is not installed"}
    except ValueError as error:
        return {"why": str(error).splitlines()[0]}
    runs, n = {}, len(near.q)
    for name, model in models.items():
        states = states_of(robot, model, near)
        runs[name], runs[name, "put"] = (steps_of(model, states, full) for full in (True, False))
    times = dict(zip([*ours, *runs], together([*ours.values(), *runs.values()], n, rounds), strict=True))
    found = {
        name: {"microseconds": round(times[name] - times[name, "put"], 3), "contacts": runs[name]() / n}
        for name in models
    }
    return {"version": mj.__version__, "ours": {dtype: times[dtype] for dtype in ours}, "settings": found}


def mjx_step(robot: Standing, near: Batch, setting: Setting):
    """Return the seconds to compile a batched `mjx.step` in single precision, and the program, which returns positions
    and velocities. Raise ValueError for what MJCF cannot express, NotImplementedError for what MJX does not support."""
    import mujoco as mj
    from mujoco import mjx

    model = mujoco_model(robot, setting)
    model.opt.disableflags |= mj.mjtDisableBit.mjDSBL_EULERDAMP  # costs a separate factor, and nothing is damped
    states = states_of(robot, model, near)
    with jax.enable_x64(False):
        device = mjx.put_model(model)
        blank = mjx.make_data(device)

        def step(q, v, tau):
            after = mjx.step(device, blank.replace(qpos=q, qvel=v, qfrc_applied=tau))
            return after.qpos, after.qvel

        return compiled(step, jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), states))


def mjx(robot: Standing, near: Batch, ours: Callable, rounds: int) -> dict:
    """Return microseconds and seconds to compile of MJX by setting, and microseconds of jaxdyn's program; or the reason
    why they are missing."""
    try:
        made = {name: mjx_step(robot, near, setting) for name, setting in MJX.items()}
    except ImportError:
        return {"why": "mujoco-mjx is not installed"}
    except (ValueError, NotImplementedError) as error:
        return {"why": str(error).splitlines()[0]}
    own, *times = together([ours, *(run for _, run in made.values())], len(near.q), rounds)
    found = {
        name: {"microseconds": us, "compile_seconds": seconds}
        for (name, (seconds, _)), us in zip(made.items(), times, strict=True)
    }
    return {"version": version("mujoco-mjx"), "ours": own, "settings": found}
