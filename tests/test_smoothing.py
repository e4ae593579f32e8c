"""Smoothed derivatives of steps with contact: motions stay, and derivatives are those of a smoothed problem."""

import contact_oracle as oracle
import contact_scenes as scenes
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdyn as jd

PGS, DT = jd.contact.PGS, 4e-3
EXACT = PGS(sweeps=1000)
SPEED = 0.1


def smoothed(speed=SPEED):
    return PGS(sweeps=1000, smoothing=speed)


def everything():
    """Two links with limits and dry friction, on a ground that resists twists."""
    spec = jd.ModelSpec("everything")
    joints = jd.joints.Free(), jd.joints.Revolute(axis=scenes.Y, limits=(-0.5, 0.5), friction=0.2)
    for k, joint in enumerate(joints):
        place = scenes.at(z=-0.4) if k else scenes.at()
        spec.add_body(f"link{k}", f"link{k - 1}" if k else "world", joint, placement=place, inertia=scenes.rod(1, 0.4))
        spec.add_shape(f"link{k}", jd.shapes.Sphere(0.05), placement=scenes.at(z=-0.4 * k), friction=0.5, torsion=0.02)
    spec.add_ground(friction=0.5)
    return spec.build(), np.array([*scenes.pose(z=0.84), 0.45])


SCENES = {
    "quadruped": lambda: scenes.quadruped(friction=0.3),
    "looped": lambda: scenes.looped(friction=0.3),
    "soft": lambda: scenes.looped(friction=0.3, stiffness=1e4, damping=20.0),
    "bounces": lambda: scenes.quadruped(restitution=0.5),
    "box": scenes.box,
    "everything": everything,
}


def moving(model, seed=1):
    """A velocity that is not along any axis, with a part downwards."""
    v = 0.3 * np.random.default_rng(seed).normal(size=model.nv)
    v[2] = -0.2
    return v


def after(model, start, dv, v, tau, dt, friction, mass, law):
    """v and the way (nv,) of a step from `start`, moved by dv, and the impulses along normals."""
    model = model.replace({"collision.friction": friction, "bodies.mass": mass})
    found = jd.simulate(model, jd.State(jd.integrate(model, start, dv, 1.0), v), tau[None], dt, contacts=law)
    return jnp.concatenate([found.v[-1], jd.difference(model, start, found.q[-1]), found.contacts.impulses[0].ravel()])


ARGUMENTS = tuple(range(2, 8))
forward = jax.jit(jax.jacfwd(after, ARGUMENTS), static_argnums=8)
backward = jax.jit(jax.jacrev(after, ARGUMENTS), static_argnums=8)


def given(name, height=0.0):
    """The arguments of `after` for a scene."""
    model, q = SCENES[name]()
    q = q + height * np.eye(model.nq)[2]
    mass, friction = np.asarray(model.bodies.mass), np.asarray(model.collision.friction)
    return model, q, np.zeros(model.nv), moving(model), np.zeros(model.nv), np.array(DT), friction, mass


def flat(found):
    return np.concatenate([np.reshape(x, (len(x), -1)) for x in found], 1)


def cast(tree, dtype):
    return jax.tree.map(lambda x: jnp.asarray(x, dtype), tree)


@pytest.mark.parametrize(("name", "dtype"), list(zip(SCENES, 3 * [np.float32, np.float64], strict=True)))
def test_motions_keep_their_bits(name, dtype):
    law = PGS if name in ("looped", "box", "everything") else jd.contact.ADMM
    model, q = cast(SCENES[name](), dtype)
    start = jd.State(q, jnp.asarray(moving(model), dtype))
    run = jax.jit(
        lambda s, law: jd.simulate(model, s, jnp.zeros((20, model.nv), dtype), DT, contacts=law), static_argnums=1
    )
    plain, smooth = run(start, law()), run(start, law(smoothing=SPEED))
    assert float(plain.contacts.impulses.max()) > 0
    jax.tree.map(np.testing.assert_array_equal, plain, smooth)


def test_impacts_keep_their_bits_and_are_smoothed():
    model, q = scenes.balls(restitution=0.5)
    v = np.eye(6)[2] * -1.0

    def jump(height, law):
        return jd.impulse(model, jd.State(q + height * np.eye(7)[2], v), contacts=law, near=0.1)

    plain, smooth = jump(0.01, PGS()), jump(0.01, PGS(smoothing=SPEED))
    np.testing.assert_array_equal(plain.velocity, smooth.velocity)
    speeds = jax.jit(
        jax.grad(lambda v, law: jd.impulse(model, jd.State(q, v), contacts=law).velocity[2]), static_argnums=1
    )
    # σ = v + e |v| without a contact
    share = central(-1.0 + 0.5 * -1.0)
    np.testing.assert_allclose(speeds(v, PGS(smoothing=SPEED))[2], 1 - share * 1.5, rtol=1e-12)
    np.testing.assert_allclose(speeds(v, PGS())[2], -0.5, rtol=1e-12)


def central(x, speed=SPEED):
    """How much of a change of the free velocity x, along a single row, the force takes away on the central path, where
    the force's velocity u and the velocity x + u that is left fulfil u (x + u) = speed²: −du/dx."""
    return (1 - x / np.hypot(x, 2 * speed)) / 2


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("mode", [jax.jacfwd, jax.jacrev])
@pytest.mark.parametrize("speed", [1e-3, 0.1, 2.0])
def test_a_ball_near_the_ground_follows_the_central_path(speed, mode, dtype):
    """With respect to how high it is and how fast it falls; in the ground its goal changes by a fifth of the gap."""
    model, q = cast(scenes.balls(), dtype)

    def falls(gap, v):
        state = jd.State(q.at[2].add(gap), jnp.zeros(6, dtype).at[2].set(v))
        return jd.step(model, state, jnp.zeros(6, dtype), DT, contacts=PGS(smoothing=speed)).v[2]

    slopes = jax.jit(mode(falls, (0, 1)))
    for gap, v in [(0.0, 0.0), (1e-5, 0.0), (1e-3, 0.0), (1e-3, -0.5), (0.05, 0.3), (0.5, -1.0), (-1e-3, 0.0)]:
        rate = (1 if gap > 0 else 0.2) / DT  # of the goal
        share = central(rate * gap + v - scenes.G * DT, speed)
        found = np.array(slopes(dtype(gap), dtype(v)))
        tolerance = 1e-12 if dtype == np.float64 else 2e-5
        if gap:  # where it touches the goal has a kink
            assert abs(found[0] + rate * share) <= tolerance * rate * max(share, 1e-3), (gap, v)
        assert abs(found[1] - (1 - share)) <= tolerance, (gap, v)


@pytest.mark.parametrize(("place", "v"), [(0.05, 0.0), (0.19, 0.0), (0.19, 5.0), (-0.199, -0.1)])
def test_joints_follow_it_too(place, v):
    """A slider near its limits, and one that rubs: there friction grows with the speed, to its bound."""
    spec = jd.ModelSpec("slider", gravity=(0, 0, 0))
    lump = jd.Inertia(2.0, (0, 0, 0), 0.01 * np.eye(3))
    spec.add_body("a", "world", jd.joints.Prismatic(axis=scenes.X, limits=(-0.2, 0.2)), inertia=lump)
    spec.add_body("b", "world", jd.joints.Prismatic(axis=scenes.X, friction=30.0), inertia=lump)
    model = spec.build()

    def ends(q, v):
        return jd.step(model, jd.State(q, v), jnp.zeros(2), DT, contacts=smoothed()).v

    by_q, by_v = jax.jit(jax.jacfwd(ends, (0, 1)))(np.array([place, 0]), np.array([v, v]))
    share = sum(central((0.2 - way * place) / DT - way * v) for way in (1, -1))
    np.testing.assert_allclose(by_q[0, 0], -share / DT, rtol=1e-11)
    np.testing.assert_allclose(by_v[0, 0], 1 - share, rtol=1e-11)
    bound = (
        30.0 * DT / 2
    )  # the change of the velocity at most; the projection of x is (|x + bound|' − |x − bound|') / 2
    share = (central(-v - bound) - central(bound - v)) if v else bound / np.hypot(bound, 2 * SPEED)
    np.testing.assert_allclose(by_v[1, 1], 1 - share, rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("name", SCENES)
def test_both_modes_agree(name):
    for height in (0.0, 0.02):
        args = given(name, height)
        ahead, back = flat(forward(*args, smoothed())), flat(backward(*args, smoothed()))
        np.testing.assert_allclose(ahead, back, rtol=0, atol=1e-7 * np.abs(ahead).max())


@pytest.mark.parametrize("name", ["quadruped", "soft", "everything"])
def test_exact_derivatives_are_the_limit(name):
    """Of no smoothing, for contacts that press and that hover; what is left goes with the square of the speed."""
    for height in (-1e-4, 2e-3):
        args = given(name, height)
        rows = slice(0, 2 * args[0].nv)  # forces of feet that depend on each other have no exact derivatives
        wanted = flat(forward(*args, EXACT))[rows]
        off = [
            np.abs(flat(forward(*args, smoothed(c)))[rows] - wanted).max() / np.abs(wanted).max() for c in (0.1, 1e-4)
        ]
        assert off[0] > 1e-3 and off[1] < 1e-4 and off[1] < 1e-4 * off[0], off


CORNERS = {
    "at rest": (0.0, 0.0),
    "touches without a force": (0.0, DT * scenes.G),
    "deep": (-0.05, 0.0),
    "apart": (0.01, 0.0),
    "far": (1e6, 0.0),
    "fast": (0.01, -1e4),
}


@pytest.mark.parametrize(
    ("scene", "speed", "dtype"),
    [
        *(("balls", speed, dtype) for speed in (1e-9, 0.1, 1e6) for dtype in (np.float32, np.float64)),
        ("box", 1e-9, np.float32),
        ("box", 0.1, np.float64),
        ("everything", 0.1, np.float32),
        ("everything", 1e-9, np.float64),
    ],
)
def test_finite_everywhere(scene, speed, dtype):
    """At no force, at the tip of the cone, without sliding or friction, at feet that depend on each other."""
    made = {"balls": lambda: scenes.balls(friction=0.0), "box": scenes.box, "everything": everything}
    model, q = cast(made[scene](), dtype)
    friction, mass, zero = model.collision.friction, model.bodies.mass, jnp.zeros(model.nv, dtype)
    for height, v in CORNERS.values():
        args = q.at[2].add(height), zero, zero.at[2].set(v), zero, jnp.asarray(DT, dtype), friction, mass
        for mode in (forward, backward):
            assert np.isfinite(flat(mode(model, *args, PGS(smoothing=speed)))).all(), (height, v)


@pytest.mark.parametrize("dt", [1e-3, 4e-3])
def test_derivatives_of_motions_do_not_depend_on_the_time_step(dt):
    """Of a ball that flies by the ground: along the central path forces are m c² / gap, whatever dt."""
    model, q = scenes.balls(gravity=0.0)
    gap, seconds = 0.05, 0.2

    def rises(height):
        motion = jd.simulate(
            model,
            jd.State(q + height * np.eye(7)[2], np.zeros(6)),
            jnp.zeros((round(seconds / dt), 6)),
            dt,
            contacts=smoothed(),
        )
        return motion.v[-1, 2]

    force = SPEED**2 / gap**2
    wanted = -np.sqrt(force) * np.sin(np.sqrt(force) * seconds)  # of dv' = −force dz, dz' = dv
    assert abs(float(jax.jit(jax.grad(rises))(gap)) / wanted - 1) < 0.05


def positive(z, k):
    return (z + np.hypot(z, 2 * k)) / 2


def projected(z, k, mu, pressing):
    """The smoothed law's projection of z (m,); `pressing` (m/3,) is what shifts normal forces."""
    out = np.empty_like(z)
    for i, m in enumerate(mu):
        n, t = 3 * i, slice(3 * i + 1, 3 * i + 3)
        out[n] = positive(z[n], k[n]) + pressing[i]
        R, r, c = m * out[n], np.hypot(*z[t]), 2 * k[n + 1]
        out[t] = z[t] * 2 * R / (np.hypot(r + R, c) + np.hypot(r - R, c))
    return out


class Smooth:
    """The smoothed problem at a step that jaxdyn has made: its law is shifted so that the forces fulfil it."""

    def __init__(self, args, speed):
        model, q, _, v, tau, dt, *_ = args
        posed = oracle.posed(model, q, v, tau, dt, EXACT)
        made = jax.jit(lambda: jd.simulate(model, jd.State(q, v), tau[None], dt, contacts=EXACT))()
        self.forces = np.asarray(made.contacts.impulses[0], float).ravel() / dt
        diagonal = np.diag(posed.G)
        across = (diagonal[1::3] + diagonal[2::3]) / 2
        self.w = 1 / np.stack([diagonal[::3], across, across], 1).ravel()
        self.k = self.w * speed / dt
        z = self.forces - self.w * (posed.G @ self.forces + posed.g / dt)
        self.pressing = np.where(z > 0, z - positive(z, self.k), 0)[::3]
        self.shift = self.forces - projected(z, self.k, posed.friction, self.pressing)
        self.args = args

    def after(self, x):
        """What `after` gives, but by this law, if the arguments are flat x more."""
        model, q, *numbers = self.args
        moved, sizes = [], np.cumsum([np.size(n) for n in numbers])
        for n, dx in zip(numbers, np.split(x, sizes[:-1]), strict=True):
            moved.append(np.asarray(n, float) + dx.reshape(np.shape(n)))
        dv, v, tau, dt, friction, mass = moved
        model = model.replace({"collision.friction": friction, "bodies.mass": mass})
        now = np.asarray(jd.integrate(model, q, dv, 1.0))
        posed = oracle.posed(model, now, v, tau, float(dt), EXACT)

        def left(f):
            z = f - self.w * (posed.G @ f + posed.g / dt)
            return f - projected(z, self.k, posed.friction, self.pressing) - self.shift

        f, h = self.forces, 1e-7 * self.k.max()
        for _ in range(6):
            columns = [(left(f + h * e) - left(f - h * e)) / (2 * h) for e in np.eye(len(f))]
            f = f - np.linalg.lstsq(np.stack(columns, 1), left(f), rcond=1e-10)[0]
        assert np.abs(left(f)).max() < 1e-11 * self.k.max()
        q_end, v_end = oracle.after(model, now, v, float(dt), posed, dt * f)
        return np.concatenate([v_end, jd.difference(model, q, q_end), dt * f])


@pytest.mark.parametrize("height", [-1e-4, 2e-4, 5e-3], ids=["presses", "lands", "hovers"])
@pytest.mark.parametrize("name", ["quadruped", "looped"])
def test_they_are_those_of_the_smoothed_problem(name, height):
    """Against differences of solutions by Newton's method, from the dense algebra of the oracle."""
    args = given(name, height)
    found = flat(forward(*args, smoothed()))
    smooth, rng, h = Smooth(args, SPEED), np.random.default_rng(0), 1e-6
    for _ in range(6):
        way = rng.normal(size=found.shape[1])
        way[: len(args[2])] *= name != "looped"  # which opens loops
        way[3 * len(args[2])] *= 1e-2  # of dt
        wanted = (smooth.after(h * way) - smooth.after(-h * way)) / (2 * h)
        np.testing.assert_allclose(found @ way, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())
