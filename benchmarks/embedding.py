"""Compare constraint embedding with cut loops, approximate models and free rotors (constraint_embedding, section VI).

    python benchmarks/embedding.py [GROUP ...] [--models FOLDER] [--batch N] [--rounds N] [--again] [--out FOLDER]

Groups are chains of geared rotors, belts and linkages of growing length (Fig. 8), two chains tied at growing distance
from the base (Fig. 10), linkages, geared robots and the same with their feet held (Fig. 12), operations, and torques of
legs whose rotors are neglected (Fig. 13). Robots are built by `geared_robots.py` and `tello.py`; `--models` names a
folder with the URDF+ files `mini_cheetah` and `mit_humanoid`, and `..._approximate` of both, which are measured too.

Measures CPU time on one core per evaluation in a batch, with all forms and sizes of a group in turns; CPU seconds to
compile without a cache; errors relative to dense algebra in double precision. Writes `embedding.json`, which keeps
earlier numbers unless `--again` is given, `embedding.md`, and plots.
"""

import argparse
import functools
import os
from collections.abc import Callable
from pathlib import Path

import embedding_report as report
import geared_robots as geared
import jax
import jax.numpy as jnp
import numpy as np
import tello
from embedding_cases import TURNS, Robot, counts, programs
from measure import together
from results import Results, parser
from tqdm import tqdm

import jaxdyn as jd
from jaxdyn.commands.bench import one_core

BOTH = ("float32", "float64")
GROWING = ("rotor", "belt", "four_bar")
CUT = ("LCABA", "ProxLTL")
#: depths of a single branch, and numbers of branches with four mechanisms each
DEPTHS, BRANCHES = (2, 4, 8, 16), (1, 2, 4)
#: by depth of both chains, the links that are tied
TIED = {5: (1, 2, 3, 4, 5), 10: (1, 2, 4, 6, 8), 20: (1, 3, 6, 10, 15)}
FILES = ("mini_cheetah", "mit_humanoid")
BUILT: dict[str, Callable] = {"quadruped": geared.quadruped, "humanoid": geared.humanoid, "tello": tello.legs}


def unit(kind: str, depth: int, branches: int) -> Robot:
    return Robot(geared.units(kind, depth, branches, base=True))


def grown(kind: str) -> dict[str, tuple]:
    """Return the cases of a group by name: a robot's builder, forms and precisions."""
    cases = {}
    for depth, branches in [*((n, 1) for n in DEPTHS), *((4, n) for n in BRANCHES if n > 1)]:
        forms = ("embedded", *CUT) if depth * branches <= 8 else ("embedded",)
        cases[f"{depth} x {branches}"] = functools.partial(unit, kind, depth, branches), forms, BOTH
    return cases


def tied(depth: int, rod: bool) -> dict[str, tuple]:
    make = lambda k: Robot(geared.two_chains(depth, k, rod))  # noqa: E731
    return {str(k): (functools.partial(make, k), ("embedded", *CUT), BOTH[:1]) for k in TIED[depth]}


def linkages() -> dict[str, tuple]:
    make = lambda kind, n: Robot(geared.units(kind, n))  # noqa: E731
    sizes = {"four_bar": 10, "six_bar": 5}
    return {f"{n} x {k}": (functools.partial(make, k, n), ("embedded", *CUT), BOTH) for k, n in sizes.items()}


def robot(name: str, folder: Path | None = None) -> Robot:
    """Return a geared robot together with its approximate model without rotors."""
    if folder:
        whole, without = (jd.load(folder / f"{name}{end}.urdf") for end in ("", "_approximate"))
        return Robot(whole, (), without)
    return Robot(BUILT[name](), (), BUILT[name]("armature"))


def names(folder: Path | None) -> dict[str, Path | None]:
    return dict.fromkeys(BUILT) | (dict.fromkeys(FILES, folder) if folder else {})


def robots(folder: Path | None) -> dict[str, tuple]:
    forms = ("embedded", "bodies", "free", "approximate", *CUT)
    return {n: (functools.partial(robot, n, where), forms, BOTH) for n, where in names(folder).items()}


def standing(name: str, folder: Path | None, kind: type = jd.constraints.Point) -> Robot:
    """Return a geared robot with bent knees whose feet are held."""
    free = robot(name, folder)
    cut = free.cut
    four = name in ("quadruped", "mini_cheetah")
    ends = [b for b in cut.body_names if b.endswith(("knee", "knee_link") if four else ("ankle", "ankle_link"))]
    place = geared.at(0, 0, -0.19) if four else geared.at(0, 0, -0.04)
    held = tuple(kind(b, placement_a=place, name=f"{b}_held", stabilization=None) for b in ends)
    pose = {}
    for joint in free.embedded.topology.joint_names:
        if "rotor" in joint:
            continue
        if joint.endswith(("knee", "knee_j", "knee_link")):
            pose[joint] = -1.6 if four else 0.8
        elif joint.endswith(("_hip", "to_hip_j", "hip_y", "hipy_link")):
            pose[joint] = 0.8 if four else -0.4
    return Robot(cut, held, None, pose)


def feet(folder: Path | None) -> dict[str, tuple]:
    forms = ("embedded", "PV", *CUT)
    walking = {n: where for n, where in names(folder).items() if n != "tello"}  # tello's legs are fixed to the world
    cases = {n: (functools.partial(standing, n, where), forms, BOTH) for n, where in walking.items()}
    welded = functools.partial(standing, "humanoid", None, jd.constraints.Weld)
    return cases | {"humanoid, welded": (welded, forms, BOTH)}


GROUPS: dict[str, Callable] = {
    **{kind: lambda _, kind=kind: grown(kind) for kind in GROWING},
    **{f"gear_{n}": lambda _, n=n: tied(n, False) for n in TIED},
    **{f"rod_{n}": lambda _, n=n: tied(n, True) for n in TIED},
    "linkages": lambda _: linkages(),
    "robots": robots,
    "feet": feet,
}


def measured(cases: dict[str, tuple], options) -> dict:
    """Return the results of `programs` for all forms by case and precision, and microseconds measured in turns."""
    found, runs, places = {}, [], []
    for name, (make, forms, dtypes) in tqdm(cases.items(), leave=False):
        made = make()
        found[name] = made.sizes()
        for dtype in dtypes:
            found[name][dtype], more = programs(made, forms, options.batch, dtype)
            runs += more
            places += list(found[name][dtype].values())
    for row, us in zip(places, together(runs, options.batch * TURNS, options.rounds), strict=True):
        row["microseconds"] = us
    return found


def counted_robots(folder: Path | None) -> dict[str, Callable]:
    """Return the builders of the robots whose operations are counted."""
    cases = {f"8 x {kind}": functools.partial(unit, kind, 8, 1) for kind in geared.UNITS}
    return cases | {n: functools.partial(robot, n, where) for n, where in names(folder).items()}


def counted(cases: dict[str, Callable]) -> dict:
    """Return operations and code size, embedded and cut."""
    found = {}
    for name, make in tqdm(cases.items(), leave=False):
        made = make()
        found[name] = made.sizes() | {form: counts(made, form) for form in ("embedded", "LCABA")}
    return found


def counted_growth() -> dict:
    """Return operations and code size of embedded chains of growing length, by kind."""
    return {kind: {name: counts(make(), "embedded") for name, (make, *_) in grown(kind).items()} for kind in GROWING}


def swinging(size, pulse, seconds: float, steps: int) -> tuple[np.ndarray, ...]:
    """Return times, and angles, rates and accelerations (steps, joints) of joints that swing with the amplitudes `size`
    at `pulse` cycles per second."""
    t = np.linspace(0, seconds, steps)
    size, pulse = np.array(size), 2 * np.pi * np.array(pulse)
    phase = np.outer(t, pulse)
    return t, size * np.sin(phase), size * pulse * np.cos(phase), -size * pulse**2 * np.sin(phase)


def found_torques(t, joints, torque: dict[str, jax.Array]) -> dict:
    told = {kind: np.asarray(x).T.round(5).tolist() for kind, x in torque.items()}
    return {"time": t.round(4).tolist(), "joints": list(joints), "torque": told}


def torques(seconds: float = 2.0, steps: int = 120) -> dict:
    """Return the torques of a leg's joints along a sinusoidal motion: exact, with its rotors neglected, and with rotors
    only reflected as armature (constraint_embedding, Fig. 13)."""
    t, *motion = swinging([0.3, 0.2, 0.5, 0.8, 0.4], [1.0, 1.5, 2.0, 2.0, 2.5], seconds, steps)
    torque = {}
    for kind, rotors in (("embedded", "geared"), ("neglected", "none"), ("armature", "armature")):
        model = geared.one_leg(rotors)
        model = jd.embed(model) if rotors == "geared" else model
        follow = lambda q, model=model: jd.integrate(model, model.neutral(), q, 1.0)  # noqa: E731
        tau = jax.jit(jax.vmap(lambda q, v, a, m=model, f=follow: jd.inverse_dynamics(m, jd.State(f(q), v), a)))
        torque[kind] = tau(*map(jnp.asarray, motion))
    return found_torques(t, model.joint_names, torque)


def differential_torques(seconds: float = 2.0, steps: int = 120) -> dict:
    """Return the same for the motors of a leg with differentials. Torques of models without rotors act at the links'
    joints and are mapped to the motors."""
    size, pulse = [1.8, 1.5, 1.2, 2.4, 2.0], [1.0, 1.5, 2.0, 2.0, 2.5]
    t, *motion = swinging(size, pulse, seconds, steps)
    sides = ("left",)
    whole = jd.embed(tello.legs(sides=sides))
    others = {kind: tello.legs(rotors, sides) for kind, rotors in (("neglected", "none"), ("armature", "armature"))}
    bodies = [whole.topology.joint(f"left_{name}") for name in tello.LINKS]
    of_q, of_v = (jnp.asarray([x[b] for b in bodies]) for x in (whole.topology.q_starts, whole.topology.v_starts))

    def at(angle, rate, rise):
        q = jd.integrate(whole, whole.neutral(), angle / 20, 1.0)
        for _ in range(19):
            q = jd.integrate(whole, q, angle / 20, 1.0)
        links = lambda s: jd.expand(whole, jd.State(jd.integrate(whole, q, rate, s), rate + s * rise)).v[of_v]  # noqa: E731
        v, a = jax.jvp(links, (0.0,), (1.0,))
        G = tello.ratios(whole, q)
        told = {"embedded": jd.inverse_dynamics(whole, jd.State(q, rate), rise)}
        return told | {k: G.T @ jd.inverse_dynamics(m, jd.State(q[of_q], v), a) for k, m in others.items()}

    return found_torques(t, tello.MOTORS, jax.jit(jax.vmap(at))(*map(jnp.asarray, motion)))


#: results that are not timed, by name
OTHERS: dict[str, Callable] = {
    "growth": counted_growth,
    "torques": torques,
    "differential_torques": differential_torques,
}
#: groups of unrelated robots, in which missing ones are measured separately
APART = ("linkages", "robots", "feet")
NAMES = (*GROUPS, "operations", *OTHERS)


def options_of(arguments=None) -> argparse.Namespace:
    options = parser(__doc__, "group", NAMES)
    options.add_argument("--models", type=Path, metavar="FOLDER", help="with URDF+ files of robots, measured as well")
    options.add_argument("--batch", type=int, default=512)
    options.add_argument("--rounds", type=int, default=10)
    options.add_argument("--again", action="store_true", help="measure anew what is there already")
    return options.parse_args(arguments)


def main(arguments=None) -> None:
    options = options_of(arguments)
    jax.config.update("jax_enable_x64", True)
    results = Results(options.out, "embedding")
    found = results.found
    with one_core():
        for name in tqdm(options.names or NAMES):
            old = {} if options.again else found.get(name, {})
            if name in OTHERS:
                if not old:
                    found[name] = OTHERS[name]()
                    results.keep(name)
            else:
                cases = (GROUPS | {"operations": counted_robots})[name](options.models)
                lacking = {n: case for n, case in cases.items() if n not in old}
                if lacking:
                    new = lacking if name in (*APART, "operations") else cases
                    more = counted(new) if name == "operations" else measured(new, options)
                    results.extend(name, old, more)
            jax.clear_caches()
            results.write(".md", report.written(found, results.origins.told))
    for figure, draw in report.FIGURES.items():
        if report.drawable(found, figure):
            results.plot(figure, functools.partial(draw, found=found))


if __name__ == "__main__":
    os.environ["JAXDYN_CACHE_DIR"] = ""  # compile times must not use the cache
    main()
