"""Parameters that joints outside of jaxdyn bring with them: arrays of the model like all others."""

import dataclasses
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiled import close

import jaxdyn as jd
from jaxdyn.extend import Column, Joint, JointParameters, Kind, axis_rotation


class GearedKind(Kind):
    """A turn about `axis` by q, while the body slides along three axes by three leads times q."""

    nq, nv, units = 1, 1, "a"

    def pose(self, par, q):
        return axis_rotation(par.axis, q[0]), par.own["leads"] * q[0]

    def columns(self, par, q):
        backwards = axis_rotation(par.axis, -q[0])
        return [Column(par.axis, (backwards * par.own["leads"]).sum(1))]

    def bias(self, par, q, v):
        along = (axis_rotation(par.axis, -q[0]) * par.own["leads"]).sum(1)
        return None, -jnp.cross(par.axis * v[0], along * v[0], axis=0)


@dataclasses.dataclass(frozen=True, eq=False)
class Geared(Joint):
    leads: tuple = (0.0, 0.0, 0.0)
    kind = GearedKind()


@dataclasses.dataclass(frozen=True, eq=False)
class Scalar(Joint):
    leads: float = 0.0
    kind = GearedKind()


def arm(joint: Joint, compiler="auto") -> jd.Model:
    """A screw between two hinges."""
    spec = jd.ModelSpec("arm", gravity=(0.3, -0.2, -9.7))
    inertia = jd.Inertia(1.5, (0.1, 0.2, -0.1), np.diag([0.03, 0.04, 0.05]))
    place = jd.Transform.from_quaternion((0.9, 0.1, -0.3, 0.2), (0.2, 0.1, 0.3))
    spec.add_body("first", "world", jd.joints.Revolute(axis=(0, 1, 0)), inertia=inertia)
    spec.add_body("screw", "first", joint, placement=place, inertia=inertia)
    spec.add_body("last", "screw", jd.joints.Revolute(axis=(1, 0, 0)), placement=place, inertia=inertia)
    return spec.build().with_compiler(compiler)


STATE = [0.3, -0.7, 0.2], [0.5, 1.1, -0.4]
TAU = jnp.array([0.2, -0.3, 0.1])


def accelerations(model, leads):
    changed = model.replace({"joints.own.leads": leads})
    return jd.forward_dynamics(changed, jd.State(*map(jnp.asarray, STATE)), TAU).acceleration


@pytest.mark.parametrize("compiler", ["kernel", "xla"])
def test_along_its_axis_it_is_a_helical_joint(compiler):
    """Numbers, and with kernels derivatives in both modes by the pitch, against the joint of jaxdyn."""
    axis, pitch = np.array([0.6, 0.0, 0.8]), 0.4
    geared, helical = arm(Geared(axis=axis), compiler), arm(jd.joints.Helical(axis=axis, pitch=0.1), compiler)
    assert geared.joints.own["leads"].shape == (3, 3) and helical.joints.own == {}

    def ours(pitch):
        return accelerations(geared, pitch * jnp.asarray(np.outer([0, 1, 0], axis)))

    def theirs(pitch):
        model = helical.replace({"joints.pitch": pitch * jnp.array([0.0, 1.0, 0.0])})
        return jd.forward_dynamics(model, jd.State(*map(jnp.asarray, STATE)), TAU).acceleration

    close(jax.jit(ours)(pitch), jax.jit(theirs)(pitch), 1e-11, 100.0)
    for mode in (jax.jacfwd, jax.jacrev) if compiler == "kernel" else ():
        close(jax.jit(mode(ours))(pitch), jax.jit(mode(theirs))(pitch), 1e-10, 100.0)


def test_its_parameters_are_cast_and_batched_with_the_model():
    model = arm(Geared(leads=(0.1, -0.2, 0.3)))
    close(model.joints.own["leads"], [[0, 0, 0], [0.1, -0.2, 0.3], [0, 0, 0]], 0)
    single = jax.tree.map(lambda x: x.astype(jnp.float32), model)
    found = jax.jit(jd.forward_dynamics)(single, jd.State(*(np.float32(x) for x in STATE)), TAU.astype(jnp.float32))
    assert found.acceleration.dtype == jnp.float32
    leads = jnp.stack([model.joints.own["leads"], 2 * model.joints.own["leads"]])
    batch = jax.jit(jax.vmap(accelerations, (None, 0)))(model, leads)
    lone = jax.jit(accelerations)
    for got, given in zip(batch, leads, strict=True):
        close(got, lone(model, given), 1e-12, 100.0)
    close(found.acceleration, batch[0], 1e-4, 100.0)


def test_wrong_parameters_are_told_by_name():
    model = arm(Geared())
    with pytest.raises(ValueError, match=r"'joints.own.leads' has shape \(3, 3\); got \(3,\)"):
        model.replace({"joints.own.leads": jnp.zeros(3)})
    with pytest.raises(ValueError, match="no field 'lead'.*'leads'"):
        model.replace({"joints.own.lead": jnp.zeros((3, 3))})
    with pytest.raises(ValueError, match="is not an array"):
        model.replace({"joints.own": jnp.zeros((3, 3))})
    with pytest.raises(ValueError, match=r"add_body\('screw'\).*`joint.leads` is not finite"):
        arm(Geared(leads=(0.0, np.nan, 0.0)))
    with pytest.raises((TypeError, ValueError), match=r"add_body\('screw'\).*`joint.leads`"):
        arm(Geared(leads="fine"))
    spec = jd.ModelSpec("two")
    spec.add_body("a", "world", Geared(), inertia=jd.Inertia(1.0))
    spec.add_body("b", "a", Scalar(), inertia=jd.Inertia(1.0))
    with pytest.raises(ValueError, match=r"joint 'b': `leads` has shape \(\), and \(3,\) in another joint"):
        spec.build()


def test_a_point_mass_on_a_screw_is_not_weightless():
    """Its own parameters are known where a singular mass matrix is looked for."""
    for lead, singular in ((0.5, False), (0.0, True)):
        spec = jd.ModelSpec("point")
        joint = Geared(leads=(0.0, 0.0, lead))
        spec.add_body("bead", "world", joint, inertia=jd.Inertia(1.0, (0, 0, 0), np.zeros((3, 3))))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert spec.build().topology.singular == singular
        assert [w.category for w in caught] == [jd.ModelWarning] * singular


@pytest.mark.parametrize(
    ("axis", "first", "second"),
    [
        ((0, 0, 1), (1, 0, 0), (0, 1, 0)),
        ((0, 1, 0), (1, 0, 0), (0, 0, -1)),
        ((0, -1, 0), (1, 0, 0), (0, 0, 1)),
        ((1, 0, 0), (0, 0, -1), (0, 1, 0)),
        ((-1, 0, 0), (0, 0, 1), (0, 1, 0)),
    ],
)
def test_directions_of_a_planar_joint(axis, first, second):
    """As the page on conventions says."""
    ball = jd.Inertia.sphere(1.0, 0.1)
    spec = jd.ModelSpec("plate").add_body("plate", "world", jd.joints.Planar(axis=axis), inertia=ball)
    found = jd.frame_pose(spec.build(), [2.0, 3.0, 0.5], "plate").translation
    np.testing.assert_allclose(found, 2 * np.array(first) + 3 * np.array(second), atol=1e-6)


class BackwardsKind(type(jd.joints.Helical.kind)):
    """A screw that turns the other way: what its base class has for small motions does not hold."""

    def pose(self, par, q):
        return axis_rotation(par.axis, -q[0]), -par.axis * (par.pitch * q[0])


KINDS = [j.kind for j in vars(jd.joints).values() if isinstance(j, type) and issubclass(j, Joint) and j.kind.nv]


@jax.numpy_rank_promotion("allow")
@pytest.mark.parametrize("kind", [*KINDS, GearedKind(), BackwardsKind()], ids=str)
def test_small_changes_of_poses_keep_their_digits(kind):
    """In both precisions `change` is the difference of two poses, to the last digit of that difference."""
    rng = np.random.default_rng(4)
    unit = lambda n: (lambda x: x / np.linalg.norm(x))(rng.normal(size=(n, 1)))  # noqa: E731
    own = {"leads": rng.normal(size=(3, 1))}
    given = JointParameters(unit(3), unit(3), rng.normal(size=1), own), np.eye(3)[..., None], rng.normal(size=(3, 1))
    q = unit(kind.nq) if kind.quaternion else rng.normal(size=(kind.nq, 1))
    q = np.concatenate([10 * unit(3), unit(4)]) if kind.nq == 7 else q

    def both(dv, dtype=jnp.float64):
        par, at, dv = jax.tree.map(lambda x: jnp.asarray(x, dtype), (given, q, dv))
        prepared = kind.prepare(*par)
        start, end = kind.place(prepared, at), kind.place(prepared, kind.integrate(at, dv))
        return kind.change(prepared, at, dv), tuple(y - x for x, y in zip(start, end, strict=True))

    far = rng.normal(size=(kind.nv, 1))
    for found, wanted in zip(*both(far), strict=True):
        close(jnp.broadcast_to(found, wanted.shape), wanted, 1e-13, 10.0)
    if kind in KINDS:
        for single, double in zip(both(1e-6 * far, jnp.float32)[0], both(1e-6 * far)[0], strict=True):
            close(single, double, 1e-5, 1e-6)
