"""Joints of an author's own whose coordinates are no vector, or four numbers that are no quaternion."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdyn as jd
from jaxdyn.extend import Column, Joint, Kind, axis_rotation, eye, mtv, outer, skew
from jaxdyn.model.joints import SphericalKind

BALL = SphericalKind()
INERTIA = jd.Inertia(1.0, (0, 0, 0), 0.1 * np.eye(3))


class ScaraKind(Kind):
    """Three translations and a turn: four coordinates, none of them of a quaternion."""

    nq, nv, units = 4, 4, "llla"

    def pose(self, par, q):
        return axis_rotation(par.axis, q[3]), q[:3]

    def columns(self, par, q):
        r = axis_rotation(par.axis, q[3])
        along = [jnp.zeros_like(par.axis).at[k].set(1.0) for k in range(3)]
        return [*(Column(None, mtv(r, e)) for e in along), Column(par.axis, None)]


class CircleKind(Kind):
    """A turn as cosine and sine."""

    nq, nv, units = 2, 1, "a"

    def neutral(self):
        return np.array([1.0, 0.0])

    def normalize(self, q):
        return q / jnp.sqrt((q * q).sum(0, keepdims=True))

    def pose(self, par, q):
        k, kk = skew(par.axis), outer(par.axis, par.axis) - eye(par.axis)
        return eye(par.axis) + q[1] * k + (1 - q[0]) * kk, None

    def columns(self, par, q):
        return [Column(par.axis, None)]

    def integrate(self, q, dv):
        c, s = jnp.cos(dv[0]), jnp.sin(dv[0])
        return jnp.stack([q[0] * c - q[1] * s, q[0] * s + q[1] * c])


class BallFirstKind(Kind):
    """A ball, then a slide along its axis that does not move the body's origin."""

    nq, nv, units, quaternion = 5, 4, "aaal", slice(0, 4)

    def neutral(self):
        return np.array([*BALL.neutral(), 0])

    def normalize(self, q):
        return jnp.concatenate([BALL.normalize(q[:4]), q[4:]])

    def pose(self, par, q):
        return BALL.pose(par, q[:4])

    def columns(self, par, q):
        return [*BALL.columns(par, q[:4]), Column(None, par.axis)]

    def integrate(self, q, dv):
        return jnp.concatenate([BALL.integrate(q[:4], dv[:3]), q[4:] + dv[3:]])

    def difference(self, q0, q1):
        return jnp.concatenate([BALL.difference(q0[:4], q1[:4]), q1[4:] - q0[4:]])


@dataclasses.dataclass(frozen=True, eq=False)
class Scara(Joint):
    kind = ScaraKind()


@dataclasses.dataclass(frozen=True, eq=False)
class Circle(Joint):
    kind = CircleKind()


@dataclasses.dataclass(frozen=True, eq=False)
class BallFirst(Joint):
    kind = BallFirstKind()


def alone(joint) -> jd.Model:
    return jd.ModelSpec("own").add_body("body", "world", joint, inertia=INERTIA).build()


def test_four_coordinates_need_no_unit_length():
    model = alone(Scara())
    found = jd.forward_dynamics(model, jd.State([0.1, 0.2, 0.3, 0.4], np.zeros(4)), np.zeros(4))
    assert found.result == jd.Result.successful
    np.testing.assert_allclose(found.acceleration, [0, 0, -9.81, 0], atol=1e-12)


@pytest.mark.parametrize("joint", [Circle(limits=(0.1, 0.2)), BallFirst(), Scara()])
def test_random_states_are_in_the_configuration_space(joint):
    model = alone(joint)
    q = model.random_state(jax.random.key(3)).q
    assert q.shape == (model.nq,)
    with jax.numpy_rank_promotion("allow"):
        np.testing.assert_allclose(q[:, None], joint.kind.normalize(q[:, None]), atol=1e-12)
    if isinstance(joint, Circle):
        assert 0.1 < np.arctan2(q[1], q[0]) < 0.2


def test_a_quaternion_is_where_the_kind_says():
    model = alone(BallFirst(rest=(1, 0, 0, 0, 0.2), stiffness=1.0))
    assert model.replace({"joints.rest": model.joints.rest}).joints.rest[-1] == 0.2
    with pytest.raises(ValueError, match="not of unit length"):
        alone(BallFirst(rest=(1, 0.5, 0, 0, 0.2)))
    state = jd.State([1.1, 0, 0, 0, 0], np.zeros(4))
    assert jd.forward_dynamics(model, state, np.zeros(4)).result == jd.Result.non_unit_quaternion


def test_other_spaces_than_vector_spaces_need_methods_of_their_own():
    """Here `difference`, without which a rest would be subtracted."""
    model = alone(Circle())
    with pytest.raises(ValueError, match=r"`CircleKind` has 2 coordinates and 1 velocities: it needs .* `difference`"):
        jd.forward_dynamics(model, jd.State([1.0, 0.0], [0.0]), [0.0])


def test_kinds_say_the_units_of_their_velocities():
    """Without units `random_state` would return no coordinates."""

    class Untold(type(jd.joints.Revolute.kind)):
        units = ""

    class Turn(Joint):
        kind = Untold()

    with pytest.raises(ValueError, match=r"`Untold.units` is ''; give one letter, 'l' or 'a', for each .* \(1\)"):
        alone(Turn())


class CamKind(Kind):
    """A follower on a cam: it turns by the angle, and rises by its square."""

    nq, nv, units = 1, 1, "a"

    def pose(self, par, q):
        return axis_rotation(par.axis, q[0]), par.axis * q[0] ** 2

    def columns(self, par, q):
        return [Column(par.axis, par.axis * 2 * q[0])]

    def bias(self, par, q, v):
        return None, par.axis * 2 * v[0] ** 2


class Cam(Joint):
    kind = CamKind()


@pytest.mark.parametrize("parent", ["world", "base"])
def test_joints_with_one_coordinate_are_coupled(parent):
    """M and h of the uncoupled robot and J, known by hand, give the motion of the coupled one, cut or embedded."""

    def conditions(q):
        return q[:1] - q[1:] ** 2 - q[1:]

    spec = jd.ModelSpec("cam").add_body("base", "world", jd.joints.Spherical(), inertia=INERTIA)
    body = jd.Inertia(0.7, (0.1, 0.2, 0.3), 0.1 * np.eye(3))
    spec.add_body("cam", parent, Cam(axis=(0, 0.6, 0.8)), placement=(0.1, 0.2, 0), inertia=body)
    spec.add_body("slide", "cam", jd.joints.Prismatic(axis=(1, 0, 0)), inertia=body)
    spec.add_constraint(jd.constraints.Transmission(("cam", "slide"), conditions, 1, stabilization=None))
    cut = spec.build()
    q, x = np.array([0.8, 0, 0.6, 0, 0.24, 0.2]), 0.2
    v = np.array([0.3, 0.5, -0.4, 0.7 * (2 * x + 1), 0.7])
    J, gamma = np.array([0, 0, 0, 1, -1 - 2 * x]), -2 * 0.7**2
    state, tau = jd.State(q, v), np.array([0.1, -0.2, 0.3, 0.4, 0.5])
    np.testing.assert_allclose(jd.constraint_jacobian(cut, q, cut.constraints), [J], atol=1e-12)
    M, h = jd.mass_matrix(cut, q), jd.bias_forces(cut, state)
    right = np.concatenate([tau - h, [-gamma]])
    a = np.linalg.solve(np.block([[M, -J[:, None]], [J[None], np.zeros((1, 1))]]), right)[:5]
    np.testing.assert_allclose(jd.forward_dynamics(cut, state, tau).acceleration, a, rtol=1e-9)
    embedded = jd.embed(cut)
    free = np.asarray(embedded.topology.independent)
    found = jd.forward_dynamics(embedded, jd.State(q, v[free]), tau)
    np.testing.assert_allclose(found.acceleration, a[free], rtol=1e-9)
