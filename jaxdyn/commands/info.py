"""`jaxdyn info`: what a model contains."""

import jax
import jax.numpy as jnp
import numpy as np

from ..constrained.forward_dynamics import forward_dynamics
from ..contact import Auto
from ..contact.limbs import groups_of, rows_of
from ..contact.places import bearing
from ..dynamics.constraint_terms import constraint_slices
from ..dynamics.inverse import inverse_dynamics, mass_matrix
from ..engine import kernels
from ..engine.facts import facts
from ..kinematics.embed import chosen_of, embed
from ..kinematics.manifold import integrate
from ..model.actuators import Actuators
from ..model.model import Model
from ..model.state import State
from ..simulate.step import step
from ..spatial.instances import counted, listed

#: most pairs of shapes that are listed
MOST = 40


def _span(s: slice) -> str:
    return str(s.start) if s.stop - s.start == 1 else f"{s.start}:{s.stop}"


def numbers(x) -> str:
    """Return the different numbers of an array as text, three at most."""
    return " ".join(f"{v:.4g}" for v in np.unique(np.asarray(x))[:3])


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
                f"[{numbers(lower)}, {numbers(upper)}]" if limited else "",
                *(numbers(x[v]) if np.any(x[v]) else "" for x in (joints.damping, joints.stiffness, joints.armature)),
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
            rows.append((name, ", ".join(driven), numbers(B[B[:, k] != 0, k]), *_law(model.actuators, k)))
        out += ["", "actuators", _table(rows)]
    out += _shapes(model)
    if model.keyframes is not None:
        out += ["", "keyframes: " + listed(model.keyframes.names, MOST)]
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
            soft = ["" if not np.isfinite(x) or (n and not x) else numbers(x) for n, x in enumerate(values)]
            rows.append((shape.name, shape.kind, names[shape.body], *soft))
        out += ["", "shapes", _table(rows)]
        out += _pairs(model)
        if found.scene.off:
            out.append(f"self-collisions are off (`load(self_collisions=True)`): pairs left out: {found.scene.off}")
    if found.scene.left_out:
        lost = found.scene.left_out
        out += ["", f'shapes not read (`load(collision="all")`): {listed(lost, MOST)}']
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
    rows += [(told(p), numbers(mu), str(n)) for p, mu, n in zip(found.pairs, friction, points, strict=True) if n]
    idle = [told(p) for p, n in zip(found.pairs, points, strict=True) if not n]
    out = ["", _table(rows[: MOST + 1]) if rows[1:] else "no pair of shapes collides"]
    if len(rows) > MOST + 1:
        out.append(f"  and {len(rows) - MOST - 1} more pairs")
    if idle:
        out.append(f"pairs whose kinds cannot collide: {listed(idle, MOST, between='; ')}")
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
