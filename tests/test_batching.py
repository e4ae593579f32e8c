"""Batches: the same numbers as single calls, in any nesting; lanes that do not touch; one program a robot."""

import functools

import catalogue
import compiled
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from catalogue import CATALOGUE
from compiled import close, states

import jaxdyn as jd
import jaxdyn.extend
from jaxdyn.engine import host

ROBOT = "four_bar_point"

PENDULUM = """<robot name="pendulum">
  <link name="base"/>
  <link name="rod"><inertial><origin xyz="0 0 -0.5"/><mass value="2"/>
    <inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.01"/></inertial></link>
  <joint name="hinge" type="continuous"><parent link="base"/><child link="rod"/><axis xyz="0 1 0"/></joint>
</robot>"""


def single(model, q, v, tau):
    found = jd.forward_dynamics(model, jd.State(q, v), tau)
    return found.acceleration, found.multipliers


batch = compiled.mapped(single)


@functools.cache
def thousand():
    return tuple(jnp.asarray(x) for x in catalogue.sample(CATALOGUE[ROBOT].build(), 7, 1000))


@functools.cache
def thousand_results():
    return batch(CATALOGUE[ROBOT].build(), *thousand())


def test_a_thousand_lanes_equal_a_thousand_calls():
    """A batch that the engine works off in tiles, against one state after the other."""
    model = CATALOGUE[ROBOT].build()
    one_by_one = jax.jit(lambda m, *s: jax.lax.map(lambda x: single(m, *x), s))(model, *thousand())
    for got, wanted in zip(thousand_results(), one_by_one, strict=True):
        scale = np.maximum(1.0, np.abs(wanted).max(1, keepdims=True))
        close(got / scale, wanted / scale, 1e-11)


@pytest.mark.parametrize("where", range(3))
def test_a_lane_of_nan_stays_alone(where):
    """All other lanes, to the last bit."""
    given = list(thousand())
    given[where] = given[where].at[17].set(jnp.nan)
    got = batch(CATALOGUE[ROBOT].build(), *given)
    for x, clean in zip(got, thousand_results(), strict=True):
        assert np.isnan(x[17]).all()
        assert np.array_equal(np.delete(x, 17, 0), np.delete(clean, 17, 0))


def test_a_lane_does_not_depend_on_its_neighbours():
    """The same state, among others and in another place: the same bits."""
    model, given = CATALOGUE[ROBOT].build(), thousand()
    order = np.random.default_rng(0).permutation(1000)
    got = batch(model, *(x[order] for x in given))
    for x, y in zip(got, thousand_results(), strict=True):
        assert np.array_equal(x, np.asarray(y)[order])


def test_models_in_a_batch():
    """Each lane has its own masses, and each its own result; states may be shared or not."""
    model = CATALOGUE[ROBOT].build()
    factors = jnp.array([0.5, 1.0, 2.0])
    models = jax.vmap(lambda f: model.replace({"bodies.mass": f * model.bodies.mass}))(factors)
    states_ = tuple(x[:3] for x in thousand())
    got = jax.jit(jax.vmap(single))(models, *states_)
    shared = jax.jit(jax.vmap(single, (0, None, None, None)))(models, *(x[0] for x in states_))
    for k, factor in enumerate(factors):
        one = model.replace({"bodies.mass": factor * model.bodies.mass})
        lone = batch(one, *(x[:3] for x in states_))
        for x, s, y in zip(got, shared, lone, strict=True):
            scale = max(1.0, float(jnp.abs(y).max()))
            close(x[k], y[k], 1e-11, scale)
            close(s[k], y[0], 1e-11, scale)


def test_nested_batches():
    """A batch of forces for each state of a batch."""
    model = CATALOGUE[ROBOT].build()
    q, v, tau = (x[:3] for x in thousand())
    pushes = jnp.stack([tau, 2 * tau], 1)
    inner = jax.vmap(single, (None, None, None, 0))
    got = jax.jit(jax.vmap(inner, (None, 0, 0, 0)))(model, q, v, pushes)
    outer = jax.jit(jax.vmap(jax.vmap(single, (None, 0, 0, 0)), (None, None, None, 1), 1))(model, q, v, pushes)
    for factor in (0, 1):
        wanted = batch(model, q, v, pushes[:, factor])
        for x, y, z in zip(got, outer, wanted, strict=True):
            scale = max(1.0, float(jnp.abs(z).max()))
            close(x[:, factor], z, 1e-11, scale)
            close(y[:, factor], z, 1e-11, scale)


def test_axes_of_a_state():
    """`State` holds the axes of `vmap`, as tuples do: a batch of configurations, of velocities, or of both."""
    model, (q, v) = CATALOGUE[ROBOT].build(), (x[:3] for x in thousand()[:2])
    energy = lambda state: jd.kinetic_energy(model, state)  # noqa: E731
    for axes, k in ((jd.State(None, 0), (0, 0, 0)), (jd.State(0, None), (0, 1, 2)), (jd.State(0, 0), (0, 1, 2))):
        state = jd.State(*(x if axis == 0 else x[0] for x, axis in ((q, axes.q), (v, axes.v))))
        many = jd.State(q[np.array(k)], v if axes.v == 0 else v[:1].repeat(3, 0))
        close(jax.jit(jax.vmap(energy, (axes,)))(state), jax.jit(jax.vmap(energy))(many), 1e-13)


def test_empty_batches():
    """As in JAX: the shapes of a batch, of no elements, whatever is mapped; with derivatives, in any nesting."""
    model = CATALOGUE["pendulum"].build()
    x = jnp.zeros((0, 1))
    moved = lambda a: jd.step(model, jd.State([0.1], a), [0.2], 1e-3).q  # noqa: E731
    for wrap in (lambda f: f, jax.jit):
        assert wrap(jax.vmap(lambda q: jd.mass_matrix(model, q)))(x).shape == (0, 1, 1)
        assert wrap(jax.vmap(lambda q: jd.difference(model, q, [0.0])))(x).shape == (0, 1)
        assert wrap(jax.vmap(jax.jacfwd(moved)))(x).shape == (0, 1, 1)
        assert wrap(jax.grad(lambda a: jax.vmap(moved)(a).sum()))(x).shape == (0, 1)
        for shape in ((2, 0, 1), (0, 2, 1)):
            assert wrap(jax.vmap(jax.vmap(moved)))(jnp.zeros(shape)).shape == shape
        path = wrap(jax.vmap(lambda a: jd.simulate(model, jd.State(a, a), jnp.zeros((3, 1)), 1e-3)))(x)
        assert path.q.shape == (0, 4, 1)


def test_gradients_and_batches_in_either_order():
    model = CATALOGUE["geared_arm"].build()
    q, v, tau = (jnp.asarray(x) for x in states("geared_arm"))
    score = lambda tau, q, v: jnp.sum(single(model, q, v, tau)[0] ** 2)  # noqa: E731
    inside = jax.jit(jax.vmap(jax.grad(score)))(tau, q, v)
    outside = jax.jit(jax.grad(lambda tau: jax.vmap(score)(tau, q, v).sum()))(tau)
    close(inside, outside, 1e-11, max(1.0, float(jnp.abs(inside).max())))
    shared = jax.jit(jax.grad(lambda t: jax.vmap(score, (None, 0, 0))(t, q, v).sum()))(tau[0])
    same = jax.jit(jax.vmap(jax.grad(score), (None, 0, 0)))(tau[0], q, v).sum(0)
    close(shared, same, 1e-11, max(1.0, float(jnp.abs(same).max())))


def test_sequences_and_single_precision_are_accepted():
    """NumPy, nested sequences, and mixed precisions, which widen."""
    model = CATALOGUE["pendulum"].build()
    got = jd.forward_dynamics(model, jd.State([0.1], (0.2,)), np.array([0.25], np.float32)).acceleration
    wanted = jd.forward_dynamics(model, jd.State(np.array([0.1]), jnp.array([0.2])), [0.25]).acceleration
    assert got.dtype == jnp.float64
    close(got, wanted, 1e-14)


class _Whole(jd.extend.Constraint):
    """The height of a body in units of 1 / `count` m, a whole number."""

    count: jax.Array | int
    target: jax.Array
    stabilization: jd.constraints.Baumgarte
    name: str | None = eqx.field(static=True, default=None)

    def layout(self, topology):
        return jd.extend.Layout((type(self),), 1, (0,))

    def evaluate(self, layout, attachments, views, robot):
        p = views[0].p
        count, turn = jnp.asarray(self.count, p.dtype), jnp.zeros_like(p)[None]
        return jd.extend.Rows([(turn, turn.at[0, 2].set(count))], count * p[2:3], jnp.zeros_like(p[:1]))


@pytest.mark.parametrize("count", [3, np.int32(3), jnp.int32(3)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_whole_numbers_of_constraints_widen_nothing(count, dtype):
    cast = lambda t: jax.tree.map(lambda x: jnp.asarray(x, dtype), t)  # noqa: E731
    model = cast(CATALOGUE["pendulum"].build())
    own = _Whole(count, *cast((jnp.zeros(1), jd.constraints.Baumgarte())))
    state, tau = cast((jd.State(np.array([0.5]), np.array([0.2])), np.array([0.1])))
    given = [(state, dtype), (jd.State(state.q.astype(np.float64), state.v), np.float64)]
    for at, wanted in given:
        assert jd.forward_dynamics(model, at, tau, constraints=(own,)).acceleration.dtype == wanted


def test_model_and_state_decide_the_precision():
    """... whatever else is given: with x64 on, lists and `jnp.zeros` are in double precision."""
    cast = lambda t: jax.tree.map(lambda x: x.astype(np.float32), t)  # noqa: E731
    wide = CATALOGUE["four_bar_weld"].build()
    model, q, v = cast((wide, *(jnp.asarray(x[0]) for x in states("four_bar_weld")[:2])))
    state, tau, own = jd.State(q, v), [0.0] * model.nv, wide.constraints
    external, rows = np.zeros((model.nb, 6)), jd.constraint_jacobian(wide, wide.neutral()).shape[0]
    found = {
        "forward": jd.forward_dynamics(
            model, state, tau, constraints=own, external=external, warm_start=np.zeros(rows)
        ),
        "inverse": jd.inverse_dynamics(model, state, tau, external=external),
        "step": jd.step(model, state, tau, 1e-3, constraints=own, external=external),
        "simulate": jd.simulate(model, state, [tau], 1e-3, constraints=own, external=external),
        "impulse": jd.impulse(model, state, tau, constraints=own, warm_start=np.zeros(rows)),
        "acceleration": jd.frame_acceleration(model, state, tau, model.body_names[-1]),
        "bias": jd.constraint_bias(model, state, own),
        "jacobian": jd.constraint_jacobian(model, q, own),
        "residual": jd.constraint_residual(model, q, own),
        "operator": jd.delassus(model, q, own).mv(np.zeros(rows)),
    }
    for name, result in found.items():
        floats = [x for x in jax.tree.leaves(result) if jnp.issubdtype(x.dtype, jnp.floating)]
        assert floats and all(x.dtype == jnp.float32 for x in floats), name
    again, _ = jax.lax.scan(lambda s, _: (jd.step(model, s, jnp.zeros(model.nv), 1e-3), None), state, length=2)
    assert again.q.dtype == jnp.float32
    assert jd.forward_dynamics(wide, state, tau).acceleration.dtype == jnp.float64


def test_one_trace_for_a_robot_that_is_loaded_twice():
    """Models of one file are one program: other states, other numbers and another copy trace nothing."""
    traces = []

    @jax.jit
    def run(model, q, v, tau):
        traces.append(model.name)
        return single(model, q, v, tau)

    first, again = jd.load(PENDULUM), jd.load(PENDULUM)
    x = jnp.zeros(1)
    run(first, x, x, x)
    run(again, x + 1, x, x)
    run(again.replace({"bodies.mass": jnp.array([3.0])}), x, x, x)
    assert first.topology == again.topology and hash(first.topology) == hash(again.topology)
    assert traces == ["pendulum"]
    other = jd.load(PENDULUM.replace("continuous", "fixed").replace("<link", "<!-- --><link", 1), floating=True)
    y = jnp.zeros(other.nv)
    run(other, other.neutral(), y, y)
    assert len(traces) == 2


def two_rods(name: str, upper: str, lower: str) -> jd.Model:
    """A double pendulum whose tip is held in the plane y = 0."""
    spec = jd.ModelSpec(name)
    for body, parent, x in ((upper, "world", 0.0), (lower, upper, 0.4)):
        inertia = jd.Inertia(1.0, (0.2, 0.0, 0.0), 0.01 * np.eye(3))
        placement = jd.Transform(np.eye(3), np.array([x, 0.0, 0.0]))
        spec.add_body(body, parent, jd.joints.Spherical(), placement=placement, inertia=inertia)
    spec.add_constraint(jd.constraints.PointOnPlane(lower, normal=(0, 1, 0), name=f"{lower} in plane"))
    return spec.build()


def test_a_renamed_robot_compiles_no_kernel(monkeypatch):
    """Names belong to the key under which JAX keeps a program, not to the kernel in it: that is called again."""
    run = jax.jit(single)
    model = two_rods("first", "upper", "lower")
    given = model.neutral(), 0.1 * jnp.ones(model.nv), jnp.zeros(model.nv)
    wanted = run(model, *given)
    known = set(host._made)
    monkeypatch.setattr(host, "_make", None)  # what makes a kernel that is not there yet
    got = run(two_rods("second", "a", "b"), *given)
    assert known and set(host._made) == known
    assert all(np.array_equal(x, y) for x, y in zip(got, wanted, strict=True))


def test_robots_that_differ_in_names_alone_keep_them():
    """A compiled function looks names up, and returns models with names: it serves one set of names only."""
    model, swapped = two_rods("first", "upper", "lower"), two_rods("second", "lower", "upper")
    assert model.topology != swapped.topology
    q = model.neutral()
    place = jax.jit(lambda m: jd.frame_pose(m, q, "lower").translation)
    close(place(model), [0.4, 0.0, 0.0], 1e-15)
    close(place(swapped), [0.0, 0.0, 0.0], 1e-15)
    heavier = jax.jit(lambda m: m.replace({"bodies.mass": 2 * m.bodies.mass}))
    assert [heavier(m).body_names for m in (model, swapped)] == [("upper", "lower"), ("lower", "upper")]
    assert heavier(swapped).name == "second"


def _stepped(**options):
    return lambda m, s, tau: jd.step(m, s, tau, 1e-3, **options).v


BAR = jd.load("four_bar")
#: calls of a four-bar, most of which loop
EAGER = {
    "forward_dynamics": lambda m, s, tau: jd.forward_dynamics(m, s, tau).acceleration,
    "solve": lambda m, s, tau: jd.delassus(m, s.q).solve(tau),
    "solve, columns": lambda m, s, tau: jd.delassus(m, s.q).solve(jnp.stack([tau, tau], 1)),
    "conjugate_gradient": lambda m, s, tau: jd.osim.conjugate_gradient(jd.delassus(m, s.q), tau).x,
    "largest_eigenvalue": lambda m, s, tau: jd.osim.largest_eigenvalue(jd.delassus(m, s.q)),
    "project": _stepped(project=True),
    "RK4": _stepped(integrator=jd.integrators.RK4()),
    "Gauss": _stepped(integrator=jd.integrators.Gauss(2)),
    "ImplicitMidpoint": _stepped(integrator=jd.integrators.ImplicitMidpoint(2)),
    "simulate": lambda m, s, tau: jd.simulate(m, s, tau[None], 1e-3).v,
    "grad": lambda m, s, tau: jax.grad(lambda x: jd.simulate(m, s, x[None], 1e-3).v.sum())(tau),
    "vmap": lambda m, s, tau: jax.vmap(lambda x: _stepped(project=True)(m, s, x))(jnp.stack([tau, tau])),
}


@pytest.mark.parametrize("name", EAGER)
def test_eager_calls_reuse_what_is_compiled(name):
    """Outside of jit too: the second call of a robot compiles nothing, with other numbers as well."""
    light, heavy = (BAR.replace({"bodies.mass": x * BAR.bodies.mass}) for x in (1.3, 1.7))
    state = jd.State([0.3, 0.4, -0.2], [0.1, 0.0, 0.2])
    compiles = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, _, **__: compiles.append(event) if event.endswith("backend_compile_duration") else None
    )
    call, tau = EAGER[name], jnp.array([0.3, 0.1, 0.2])
    found = call(light, state, tau)
    jax.jit(lambda x: 3.25 * x)(1.0)
    assert compiles
    fast = jd.State(state.q, 2 * state.v)
    compiles.clear()
    call(light, state, tau)
    call(heavy, fast, tau)
    assert not compiles
    jitted = jax.jit(lambda s, tau: call(light, s, tau))(state, tau)
    np.testing.assert_allclose(found, jitted, rtol=1e-9, atol=1e-12)


def test_calls_that_loop_without_jit():
    """`jax.disable_jit`, for looking for faults in a program, changes no gradient of a model."""
    state = jd.State(jd.assemble(BAR, BAR.neutral()), [0.0] * 3)
    slope = jax.grad(lambda m: jd.step(m, state, [0.3, 0.1, 0.2], 1e-3, project=True).v.sum())
    wanted = jax.jit(slope)(BAR)
    with jax.disable_jit():
        found = slope(BAR)
    for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        close(x, y, 1e-12)
