"""`jaxdyn info` describes a model, `jaxdyn check` looks for problems in it."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from ..constrained.dense import Dense
from ..constrained.forward_dynamics import Result, forward_dynamics
from ..constrained.lcaba import ABA, LCABA
from ..contact import Auto
from ..contact.limbs import groups_of, rows_of
from ..contact.places import bearing
from ..dynamics.constraint_terms import constraint_jacobian, constraint_residual, constraint_slices
from ..dynamics.energy import center_of_mass
from ..dynamics.inverse import inverse_dynamics, mass_matrix
from ..engine import kernels
from ..engine.facts import facts
from ..kinematics.assemble import assemble
from ..kinematics.embed import chosen_of, embed
from ..kinematics.manifold import integrate
from ..model.actuators import Actuators
from ..model.model import Model
from ..model.state import State
from ..simulate.step import step
from ..spatial.instances import counted
from .terminal import tell

#: singular values up to the first share of the largest count as zero; from there up to the second they are doubtful
ZERO, DOUBTFUL = 1e-9, 1e-3
#: loops that are open by less, in metres or radians, count as closed, given the digits that files print
CLOSED = 1e-6
#: relative difference of accelerations at which two solvers disagree
AGREE = 1e-6
STATES = 4
#: most pairs of shapes that are listed
MOST = 40


def _span(s: slice) -> str:
    return str(s.start) if s.stop - s.start == 1 else f"{s.start}:{s.stop}"


def _numbers(x) -> str:
    x = np.unique(np.asarray(x))
    return " ".join(f"{v:.4g}" for v in x[:3])


def _table(rows: list[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  " + "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows)


def describe(model: Model) -> str:
    """Return a description of a model, as text."""
    topology, joints = model.topology, model.joints
    out = [
        f"{model.name}: {counted(model.nb, 'moving body', 'moving bodies')}, nq {model.nq}, nv {model.nv}, "
        f"{counted(len(model.constraints), 'constraint')}, {counted(model.nu, 'actuator')}",
        f"mass {float(model.bodies.mass.sum()):.6g} kg, gravity {np.asarray(model.gravity).tolist()} m/s²",
        "",
        "joints",
    ]
    rows = [("joint", "type", "body", "on", "mass", "q", "v", "limits", "damping", "spring", "armature")]
    for b, name in enumerate(topology.joint_names):
        v, parent = topology.v_slice(b), topology.parents[b]
        lower, upper = np.asarray(joints.lower[v]), np.asarray(joints.upper[v])
        limited = np.isfinite(lower).any() or np.isfinite(upper).any()
        rows.append(
            (
                name,
                topology.kinds[b].name,
                topology.body_names[b],
                "world" if parent < 0 else topology.body_names[parent],
                f"{float(model.bodies.mass[b]):.4g}",
                _span(topology.q_slice(b)),
                _span(v),
                f"[{_numbers(lower)}, {_numbers(upper)}]" if limited else "",
                *(_numbers(x[v]) if np.any(x[v]) else "" for x in (joints.damping, joints.stiffness, joints.armature)),
            )
        )
    out.append(_table(rows))
    if model.constraints:
        rows = [("constraint", "type", "rows", "between")]
        slices = constraint_slices(model)
        for (name, rows_of), c in zip(slices.items(), model.constraints, strict=True):
            bodies = [topology.body_names[b] for b in c.layout(topology).bodies]
            between = ", ".join(bodies) if len(bodies) > 1 else f"{bodies[0]}, world"
            rows.append((str(name), type(c).__name__, _span(rows_of), between))
        out += ["", "constraints", _table(rows)]
    if model.nu:
        rows = [("actuator", "drives", "gear", "force", "within")]
        B = np.asarray(model.actuation)
        for k, name in enumerate(topology.actuator_names):
            driven = [j for j in topology.joint_names if B[model.v_slice(j), k].any()]
            rows.append((name, ", ".join(driven), _numbers(B[B[:, k] != 0, k]), *_law(model.actuators, k)))
        out += ["", "actuators", _table(rows)]
    out += _shapes(model)
    if model.frame_names:
        out += ["", "frames: " + ", ".join(model.frame_names)]
    return "\n".join(out)


def _law(actuators: Actuators, k: int) -> tuple[str, str]:
    """Return the law of an actuator's force, and its bounds."""
    one = {what: float(x[k]) for what, x in vars(actuators).items()}
    terms = [f"{one['gain']:.4g} u" if one["gain"] != 1 else "u"]
    terms += [f"{one['offset']:+.4g}"] if one["offset"] else []
    terms += [f"- {one[what]:.4g} {x}" for what, x in (("stiffness", "l"), ("damping", "l'")) if one[what]]
    ranges = (("f", "lower", "upper"), ("u", "lower_command", "upper_command"))
    bounds = [f"{x} [{one[a]:.4g}, {one[b]:.4g}]" for x, a, b in ranges if np.isfinite([one[a], one[b]]).any()]
    return " ".join(terms), ", ".join(bounds)


def _shapes(model: Model) -> list[str]:
    """Return the shapes of a model and the pairs that collide, as lines of text."""
    found, names = model.collision, (*model.body_names, "world")
    out: list[str] = []
    if found.shapes:
        rows = [("shape", "kind", "body", "friction", "restitution", "stiffness")]
        for k, shape in enumerate(found.shapes):
            values = (found.friction[k], found.restitution[k], found.stiffness[k])
            soft = ["" if not np.isfinite(x) or (n and not x) else _numbers(x) for n, x in enumerate(values)]
            rows.append((shape.name, shape.kind, names[shape.body], *soft))
        out += ["", "shapes", _table(rows)]
        out += _pairs(model)
        if found.scene.off:
            out.append(f"self-collisions are off (`load(self_collisions=True)`): pairs left out: {found.scene.off}")
    if found.scene.left_out:
        lost = found.scene.left_out
        more = f" and {len(lost) - MOST} more" if len(lost) > MOST else ""
        out += ["", f'shapes not read (`load(collision="all")`): {", ".join(lost[:MOST])}{more}']
    return out


def _pairs(model: Model) -> list[str]:
    """Return the pairs of shapes that collide, with their numbers of contact points, and the pairs whose kinds of
    shapes cannot collide, as lines of text."""
    found = model.collision
    friction = np.asarray(found.of_pairs().friction)
    told = lambda pair: ", ".join(found.names[k] for k in pair)  # noqa: E731
    counts = bearing(model)
    points = [counts.get(pair, 0) for pair in found.pairs]
    rows = [("pairs that collide", "friction", "contact points")]
    rows += [(told(p), _numbers(mu), str(n)) for p, mu, n in zip(found.pairs, friction, points, strict=True) if n]
    idle = [told(p) for p, n in zip(found.pairs, points, strict=True) if not n]
    out = ["", _table(rows[: MOST + 1]) if rows[1:] else "no pair of shapes collides"]
    if len(rows) > MOST + 1:
        out.append(f"  and {len(rows) - MOST - 1} more pairs")
    if idle:
        more = f" and {len(idle) - MOST} more" if len(idle) > MOST else ""
        out.append(f"pairs whose kinds cannot collide: {'; '.join(idle[:MOST])}{more}")
    law = Auto()
    slots = sum(group.slots for group in groups_of(model, law))
    told_of = f"contact points in all: {sum(points)}; `jd.contact.Auto()` has slots for {slots} at a time"
    return [*out, f"{told_of}, {rows_of(model, law)} rows with those of joints"]


def clusters(model: Model) -> str:
    """Return the result of `embed` as text: the clusters of bodies, their independent joints, and whether
    ``loops="local"`` selects them; or the reason why `embed` fails."""
    try:
        found = embed(model)
        local = {id(model.constraints[k]) for k in chosen_of(model, "local")}
    except ValueError as error:
        return f"not embedded: {error}"
    topology = found.topology
    names = lambda velocities: ", ".join(  # noqa: E731
        dict.fromkeys(topology.joint_names[topology.velocity_bodies[v]] for v in velocities)
    )
    rows = [("constraints", "bodies", "independent joints", "local")]
    places = {id(c): name for name, c in zip(constraint_slices(model), model.constraints, strict=True)}
    for cluster in topology.clusters:
        members = [found.embedded[k] for k in cluster.constraints]
        bodies = ", ".join(topology.body_names[b] + (" (rotor)" if b in cluster.rotors else "") for b in cluster.bodies)
        taken = "yes" if all(id(c) in local for c in members) else "no"
        rows.append((", ".join(str(places[id(c)]) for c in members), bodies, names(cluster.independent), taken))
    return f"embedded (jd.embed): nv {found.nv} of {model.nv}, clusters: {len(topology.clusters)}\n{_table(rows)}"


def programs(model: Model) -> str:
    """Return the costs of the main programs of a robot and their compilers, as text."""
    state = State(model.neutral(), jnp.zeros(model.nv, model.gravity.dtype))
    accelerate = lambda v: forward_dynamics(model, State(state.q, v), v).acceleration  # noqa: E731
    calls = {
        "forward dynamics": accelerate,
        "its gradient": jax.grad(lambda v: accelerate(v).sum()),
        "inverse dynamics": lambda v: inverse_dynamics(model, State(state.q, v), v),
        "mass matrix": lambda v: mass_matrix(model, integrate(model, state.q, v, 1.0)),
        "step": lambda v: step(model, State(state.q, v), v, 1e-3),
    }
    rows = [("program", "core", "operations", "once a call", "live values", "code", "LLVM", "path")]
    for name, f in calls.items():
        with kernels.watching() as seen:
            jax.jit(f).lower(state.v)
        if not seen:
            rows.append((name, "", "", "", "", "", "", "xla"))
        for entry in dict.fromkeys(seen):
            x = facts(*entry)
            count = (str(x.operations), str(x.shared), str(x.alive), f"{x.bytes / 1024:.0f} kB", f"{x.seconds:.2f} s")
            rows.append((name, x.core, *(count if x.path == "kernel" else [""] * 5), x.path))
    return "programs, operations of a lane (0 s: from the cache)\n" + _table(rows)


class _Findings:
    """Collects the notes, warnings and problems of a check."""

    def __init__(self):
        self.counts = {"warning": 0, "problem": 0}

    def say(self, text: str) -> None:
        tell(text)

    def note(self, text: str) -> None:
        self.say(f"  {text}")

    def warn(self, text: str) -> None:
        self.counts["warning"] += 1
        self.say(f"  warning: {text}")

    def problem(self, text: str) -> None:
        self.counts["problem"] += 1
        self.say(f"  PROBLEM: {text}")


def _rank(s: np.ndarray) -> int:
    return int((s > ZERO * s.max(initial=0.0)).sum())


def _bodies(found: _Findings, model: Model, M: np.ndarray) -> None:
    names, mass = np.array(model.body_names), np.asarray(model.bodies.mass)
    idle = names[(mass == 0) & ~np.asarray(model.bodies.rotational).any((1, 2))]
    if len(idle):
        found.warn(f"without mass: {', '.join(idle)}.")
    eigenvalues = np.linalg.eigvalsh(M)
    if not eigenvalues[0] > 1e-14 * eigenvalues[-1]:
        found.problem("the mass matrix is singular: something that moves has neither inertia nor armature.")
    else:
        found.note(f"mass matrix: positive definite, condition {eigenvalues[-1] / eigenvalues[0]:.1e}")
    if not model.nu:
        found.note("no actuators")


def _close(found: _Findings, model: Model, seed: int):
    """Return a closed configuration, found from the neutral or a random one, None if loops do not close."""
    guesses = [model.neutral()]
    guesses += [model.random_state(jax.random.fold_in(jax.random.key(np.uint64(seed)), k)).q for k in range(8)]
    said = ""
    for k, guess in enumerate(guesses):
        try:
            q = assemble(model, guess, tol=1e-10)
        except ValueError as error:
            q, said = _nearly(model, guess), said or str(error)
        if q is not None:
            left = float(jnp.abs(constraint_residual(model, q)).max(initial=0.0))
            where = "near q = 0" if k == 0 else f"from a random start (number {k}); near q = 0 they stay open"
            if model.constraints:
                found.note(f"loops close {where}, to {left:.1e} (m or rad)")
            return q
    found.problem(f"loops do not close, from q = 0 and from {len(guesses) - 1} random starts: {said}")
    return None


def _nearly(model: Model, guess):
    try:
        return assemble(model, guess, tol=CLOSED)
    except ValueError:
        return None


def _limits(found: _Findings, model: Model, q) -> None:
    out = []
    for joint in model.joint_names:
        qs, vs = model.q_slice(joint), model.v_slice(joint)
        if qs.stop - qs.start == vs.stop - vs.start:
            x, low, high = (np.asarray(a) for a in (q[qs], model.joints.lower[vs], model.joints.upper[vs]))
            if (x < low - 1e-6).any() or (x > high + 1e-6).any():
                out.append(f"{joint} at {_numbers(x)} outside [{_numbers(low)}, {_numbers(high)}]")
    if out:
        found.warn(f"the closed configuration violates limits: {'; '.join(out)}.")


def _rows(found: _Findings, model: Model, poses: list) -> None:
    """Report redundant rows, poses in which rows lose rank, and rows that nearly vanish."""
    jacobian = jax.jit(lambda q: constraint_jacobian(model, q))
    matrices = [np.asarray(jacobian(q)) for q in poses]
    values = [np.linalg.svd(J, compute_uv=False) for J in matrices]
    ranks, m = [_rank(s) for s in values], len(matrices[0])
    rank = max(ranks)
    motions, motors = counted(model.nv - rank, "motion"), counted(model.nu, "actuator")
    text = f"{counted(m, 'constraint row')} of rank {rank}: {motions} left for {motors}"
    found.note(text + (f"; redundant rows: {m - rank}" if rank < m else ""))
    slices = constraint_slices(model)
    for name, s in slices.items():
        own = [_rank(np.linalg.svd(J[s], compute_uv=False)) for J in matrices]
        if max(own) < s.stop - s.start:
            found.note(f"constraint {name!r}: {counted(s.stop - s.start, 'row')} of rank {max(own)}")
    if len(set(ranks)) > 1:
        found.warn(f"rank changes with the pose ({min(ranks)} to {rank}): some pose is singular.")
    for s, J in zip(values[:1], matrices[:1], strict=True):
        faint = [k for k in range(len(s)) if ZERO * s[0] < s[k] < DOUBTFUL * s[0]]
        if faint:
            U = np.linalg.svd(J)[0]
            who = [str(n) for n, rows in slices.items() if np.abs(U[rows][:, faint]).max() > 0.1]
            found.warn(
                f"{len(faint)} combinations of rows are nearly redundant (singular values "
                f"{', '.join(f'{s[k]:.1e}' for k in faint)}) in {', '.join(who)}: the loop is close to a dead centre, "
                "or axes that should be parallel lean and lock it."
            )


def _solvers(found: _Findings, model: Model, states: list[State]) -> None:
    solvers = [LCABA() if model.constraints else ABA(), Dense()]
    batch = jax.tree.map(lambda *x: jnp.stack(x), *states)
    tau = jnp.zeros(model.nv)
    got = []
    for solver in tqdm(solvers, desc="solving", leave=False, disable=None):
        solve = jax.jit(jax.vmap(lambda s, solver=solver: forward_dynamics(model, s, tau, solver=solver)))
        got.append(jax.block_until_ready(solve(batch)))
    first, second = (type(s).__name__ for s in solvers)
    a, b = (np.asarray(g.acceleration) for g in got)
    gap = np.abs(a - b).max(1) / np.maximum(1, np.abs(b).max(1))
    worst = gap.max()
    if not np.isfinite(worst):
        lost = [name for name, x in ((first, a), (second, b)) if not np.isfinite(x).all()]
        found.problem(f"accelerations of {' and '.join(lost)} are not finite.")
    elif worst > AGREE:
        found.problem(
            f"{first} and {second} differ by {worst:.1e} (relative) in {int((gap > AGREE).sum())} of {len(states)} "
            "states: rows that nearly vanish leave it open which motions are free."
        )
    else:
        found.note(f"{first} and {second} agree to {worst:.1e} in {len(states)} states")
    for name, g in zip((first, second), got, strict=True):
        r1, r2 = (float(np.asarray(x).max()) for x in (g.stats.residual_dynamics, g.stats.residual_constraint))
        found.note(f"{name}: residuals {r1:.1e} (dynamics), {r2:.1e} (constraints)")
        bad = np.flatnonzero(np.asarray(g.result != Result.successful))
        if len(bad):
            first_bad = jax.tree.map(lambda x, k=bad[0]: x[k], g.result)
            found.problem(f"{name} fails in {len(bad)} of {len(states)} states: {Result[first_bad]}")


def check(source: str, opened: Callable[[], tuple[Model, list[str]]], *, strict: bool = False, seed: int = 0) -> int:
    """Check a model and print the findings. Return 1 for a problem (with `strict`, also for a warning), else 0."""
    found = _Findings()
    found.say(f"checking {source}")
    try:
        model, told = opened()
    except (ValueError, ImportError) as error:
        found.problem(str(error))
        return 1
    found.note(repr(model))
    for text in told:
        found.warn(text)
    if model.nv:
        _motion(found, model, seed)
    else:
        found.note("nothing moves, so that there is nothing more to check")
    problems, warned = found.counts["problem"], found.counts["warning"]
    found.say("no problem found" if not problems else f"{problems} problem{'s' * (problems > 1)} found")
    if warned:
        found.say(f"{warned} warning{'s' * (warned > 1)}")
    return 1 if problems or (strict and warned) else 0


def _motion(found: _Findings, model: Model, seed: int) -> None:
    """Check the loops, bodies, rows and solvers of a model that moves."""
    q = _close(found, model, seed)
    M = np.asarray(mass_matrix(model, model.neutral() if q is None else q))
    _bodies(found, model, M)
    if q is not None:
        _limits(found, model, q)
        states = list(_states(model, q, seed))
        if model.constraints:
            _rows(found, model, [s.q for s in states])
        _solvers(found, model, states)
        center = np.asarray(center_of_mass(model, q)).round(4)
        found.note(f"mass {float(model.bodies.mass.sum()):.4g} kg, its centre at {center}")


def _states(model: Model, q, seed: int):
    """Yield the closed configuration at rest, then states near it whose velocities keep loops closed."""
    yield State(q, jnp.zeros(model.nv))
    rng = np.random.default_rng(seed)
    for _ in range(STATES - 1):
        near = integrate(model, q, jnp.asarray(0.1 * rng.standard_normal(model.nv)))
        if model.constraints:
            try:
                near = assemble(model, near, tol=CLOSED)
            except ValueError:
                near = q
        v = jnp.asarray(rng.standard_normal(model.nv))
        if model.constraints:
            J = np.asarray(constraint_jacobian(model, near))
            v = v - np.linalg.pinv(J, rcond=1e-6) @ (J @ v)
        yield State(near, jnp.asarray(v))
