"""The same mechanism described in another way moves in the same way: bodies renumbered, the world moved, another
root, joints chained instead of joined."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from catalogue import CATALOGUE
from catalogue_base import at, bar, lump
from compiled import close, solve, states
from oracle_joints import turn

import jaxdyn as jd
from jaxdyn.tree.carriers import carried

X, Y, Z = (1, 0, 0), (0, 1, 0), (0, 0, 1)

dynamics = jax.jit(lambda m, s, tau: jd.forward_dynamics(m, s, tau))


def two_arms(order):
    """Two arms on a torso that hold each other, their bodies declared in the given order."""
    spec = jd.ModelSpec("two_arms")
    add = {
        "torso": lambda: spec.add_body("torso", "world", jd.joints.Universal(), inertia=lump(3.0, (0, 0, 0.2))),
        "left": lambda: spec.add_body(
            "left",
            "torso",
            jd.joints.Spherical(damping=0.1),
            placement=at(0, 0.2, 0.4),
            inertia=bar(0.8, (0.4, -0.2, 0.1)),
        ),
        "right": lambda: spec.add_body(
            "right",
            "torso",
            jd.joints.Spherical(stiffness=1.0),
            placement=at(0, -0.2, 0.4),
            inertia=bar(0.7, (0.4, 0.2, 0.1)),
        ),
        "hand": lambda: spec.add_body(
            "hand",
            "left",
            jd.joints.Revolute(axis=(1, 1, 0), armature=0.1),
            placement=at(0.4, -0.2, 0.1),
            inertia=lump(0.3),
        ),
    }
    for body in order:
        add[body]()
    place = at(0.4, 0.2, 0.1)
    spec.add_constraint(jd.constraints.Point("right", "hand", placement_a=place, placement_b=at(0.05), name="grip"))
    return spec.build()


def test_renumbering_bodies():
    first, second = two_arms(("torso", "left", "right", "hand")), two_arms(("torso", "right", "left", "hand"))
    rng = np.random.default_rng(0)
    q = np.asarray(jd.assemble(first, oracle.integrate(first, np.asarray(first.neutral()), rng.normal(size=9), 0.2)))
    v, tau = rng.normal(size=(2, first.nv))
    to_q = np.concatenate([np.arange(first.nq)[first.q_slice(j)] for j in second.joint_names])
    to_v = np.concatenate([np.arange(first.nv)[first.v_slice(j)] for j in second.joint_names])
    one = dynamics(first, jd.State(q, v), tau)
    other = dynamics(second, jd.State(q[to_q], v[to_v]), tau[to_v])
    scale = float(jnp.abs(one.acceleration).max())
    close(other.acceleration, one.acceleration[to_v], 1e-10, scale)
    close(other.multipliers, one.multipliers, 1e-9)


@pytest.mark.parametrize("robot", ["tip_weld", "thin_rods"])
def test_moving_the_world(robot):
    """Roots, attachments to the ground and gravity moved together, by a turn and eighty metres."""
    model = CATALOGUE[robot].build()
    R, p = turn(np.array([2.0, -1.0, 2.0]) / 3, 1.1), np.array([60.0, -50.0, 20.0])
    move = jd.Transform(R, p)
    roots = np.asarray(model.topology.parents) < 0
    old = model.bodies.placement
    rotation = jnp.where(roots[:, None, None], R @ old.rotation, old.rotation)
    translation = jnp.where(roots[:, None], old.translation @ R.T + p[None], old.translation)
    moved = model.replace(
        {
            "bodies.placement.rotation": rotation,
            "bodies.placement.translation": translation,
            "gravity": R @ np.asarray(model.gravity),
        }
    )
    for k, c in enumerate(model.constraints):
        if c.body_b == "world":
            moved = eqx.tree_at(lambda m, k=k: m.constraints[k].placement_b, moved, move @ c.placement_b)
    here, there = solve(jd.solvers.LCABA(), model, *states(robot)), solve(jd.solvers.LCABA(), moved, *states(robot))
    scale = float(jnp.abs(here.acceleration).max())
    close(there.acceleration, here.acceleration, 1e-8, scale)
    close(there.multipliers, here.multipliers, 1e-7)


def test_another_root():
    """A floating pair of bodies, pinned at a tip, whose free joint is at one body or at the other."""
    hull, arm = lump(2.0, (0.1, 0.05, 0)), bar(1.0, (0.4, 0, 0.1))
    place = at(0.3, 0.1, 0.2, (1, 2, 0), 0.7)
    back = place.inverse()
    first = jd.ModelSpec("from_the_hull")
    first.add_body("hull", "world", jd.joints.Free(), inertia=hull)
    first.add_body("arm", "hull", jd.joints.Revolute(axis=(0, 1, 1)), placement=place, inertia=arm)
    second = jd.ModelSpec("from_the_arm")
    second.add_body("arm", "world", jd.joints.Free(), inertia=arm)
    # the hull seen from the joint, which is now its frame
    r = np.asarray(back.rotation)
    center = r @ np.asarray(hull.center_of_mass) + np.asarray(back.translation)
    seen = jd.Inertia(2.0, center, r @ np.asarray(hull.rotational) @ r.T)
    second.add_body("joint", "arm", jd.joints.Revolute(axis=(0, 1, 1)), inertia=seen)
    second.add_frame("hull", "joint", back)
    for spec in (first, second):
        spec.add_constraint(jd.constraints.Point("arm", placement_a=at(0.4, 0, 0.1), name="tip"))
    one, other = first.build(), second.build()
    rng = np.random.default_rng(2)
    q = np.asarray(jd.assemble(one, jd.integrate(one, one.neutral(), rng.normal(size=7), 0.3)))
    v, tau = rng.normal(size=7), np.array([0, 0, 0, 0, 0, 0, 0.7])
    state = jd.State(q, v)
    pose = jd.frame_pose(one, q, "arm")
    q2 = np.concatenate([pose.translation, _quaternion(np.asarray(pose.rotation)), -q[7:]])
    v2 = np.concatenate([jd.frame_velocity(one, state, "arm"), -v[6:]])
    state2 = jd.State(q2, v2)
    for frame in ("hull", "arm"):
        close(jd.frame_pose(other, q2, frame).rotation, jd.frame_pose(one, q, frame).rotation, 1e-12)
        close(jd.frame_velocity(other, state2, frame), jd.frame_velocity(one, state, frame), 1e-12)
    found, found2 = dynamics(one, state, tau), dynamics(other, state2, -tau)
    for frame in ("hull", "arm"):
        a = jd.frame_acceleration(one, state, found.acceleration, frame)
        close(jd.frame_acceleration(other, state2, found2.acceleration, frame), a, 1e-9)
    close(found2.acceleration[6], -found.acceleration[6], 1e-9, max(1.0, float(jnp.abs(found.acceleration).max())))
    close(found2.multipliers, found.multipliers, 1e-8)
    close(jd.kinetic_energy(other, state2), jd.kinetic_energy(one, state), 1e-12)


def _quaternion(R):
    w = np.sqrt(1 + np.trace(R)) / 2
    return np.array([w, *(np.array([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]]) / (4 * w))])


def test_a_joint_of_several_axes_is_a_chain_of_single_ones():
    """Universal against two hinges, cylinder against a slide and a hinge, with a massless link between."""
    for joint, parts in (
        (jd.joints.Universal(axis=X, axis2=Y), (jd.joints.Revolute(axis=X), jd.joints.Revolute(axis=Y))),
        (jd.joints.Cylindrical(axis=Z), (jd.joints.Prismatic(axis=Z), jd.joints.Revolute(axis=Z))),
        (jd.joints.Helical(axis=Z, pitch=0.2), None),
    ):
        whole = jd.ModelSpec("whole")
        whole.add_body("link", "world", joint, inertia=lump(1.0, (0.1, 0.2, 0.3)))
        q, v, tau = np.random.default_rng(0).normal(size=(3, joint.kind.nv))
        a = jd.forward_dynamics(whole.build(), jd.State(q, v), tau).acceleration
        chain = jd.ModelSpec("chain")
        if parts is None:  # a screw: a slide and a hinge that a gear couples
            parts = (jd.joints.Prismatic(axis=Z), jd.joints.Revolute(axis=Z))
            q, v, tau = (np.array([f * x[0], x[0]]) for f, x in ((0.2, q), (0.2, v), (0.0, tau)))
            chain.add_constraint(jd.constraints.Coupling(("first", "link"), (1.0, -0.2)))
        chain.add_body("first", "world", parts[0], inertia=jd.Inertia(1e-9, (0, 0, 0), 1e-9 * np.eye(3)))
        chain.add_body("link", "first", parts[1], inertia=lump(1.0, (0.1, 0.2, 0.3)))
        b = jd.forward_dynamics(chain.build(), jd.State(q, v), tau).acceleration
        close(b[-len(a) :], a, 1e-6)


def moved_far(q):
    """The configurations with a floating base a kilometre away, in single precision."""
    return jnp.asarray(q, jnp.float32).at[..., 0].add(1000.0)


@pytest.mark.parametrize("solver", ["LCABA", "ProxLTL"])
def test_loops_do_not_see_where_the_robot_is(solver):
    """Rows of a loop are evaluated from the body that carries it: not a bit changes far from the origin."""
    model = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), CATALOGUE["five_bar_floating"].build())
    q, v, tau = (jnp.asarray(x, jnp.float32) for x in states("five_bar_floating"))
    here = solve(getattr(jd.solvers, solver)(), model, q, v, tau)
    there = solve(getattr(jd.solvers, solver)(), model, moved_far(q), v, tau)
    np.testing.assert_array_equal(there.acceleration, here.acceleration)
    np.testing.assert_array_equal(there.multipliers, here.multipliers)
    np.testing.assert_array_equal(
        jax.vmap(lambda q: jd.constraint_residual(model, q, model.constraints))(moved_far(q)),
        jax.vmap(lambda q: jd.constraint_residual(model, q, model.constraints))(q),
    )


def test_loops_within_loops_share_a_carrier():
    """However many loops a body belongs to, its pose is composed once."""
    n = 30
    spec = jd.ModelSpec("nested")
    for k in range(n):
        parent = f"b{k - 1}" if k else "world"
        spec.add_body(f"b{k}", parent, jd.joints.Revolute(axis=Y), placement=at(0.1), inertia=lump(1.0))
    for k in range(1, n // 2 - 1):
        spec.add_constraint(jd.constraints.Distance(f"b{k}", f"b{n - 1 - k}", length=1.0))
    model = spec.build()
    layouts = tuple(c.layout(model.topology) for c in model.constraints)
    found = carried(model.topology, layouts)
    names = {1: "rest", 2: "pose"}  # body 1 carries all loops, not only the largest
    assert all(ref.name == names.get(b, "seen") for place in found.places for b, ref in place.items())
    assert len(found.table.rows) == n - 4  # without the first, the carrier, its child, and the last
