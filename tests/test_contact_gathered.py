"""Contact rows that are gathered, i.e. for which the motions of bodies ride: as if they rode themselves."""

import contact_scenes as scenes
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdyn as jd
from jaxdyn.contact import gathered
from jaxdyn.contact.problem import begun, touching
from jaxdyn.engine.lanes import laned

DT, LANES = 5e-3, 8
#: nothing bounces here: laws that differ in that have programs of their own, with the same meaning
LAW, OTHER = jd.contact.PGS(sweeps=5), jd.contact.PGS(sweeps=5, bounce_speed=0.06)


def kept(law, model, constraints, q, v, tau, dt):
    """G; and note what was gathered."""
    made = touching(begun(law, model, constraints, q, v, tau, None, dt), law)
    rode.append(made.own.how)
    return made.G


#: which rows have been gathered
rode: list[gathered.Gathering] = []


def states(model, q, seed=0):
    rng = np.random.default_rng(seed)
    d, v, tau = 0.05 * rng.normal(size=(3, LANES, model.nv))
    return jax.vmap(lambda d: jd.integrate(model, jnp.asarray(q), d, 1.0))(d), jnp.asarray(5 * v), jnp.asarray(tau)


def measured(model, args, law=LAW):
    """G and velocities after a step of all lanes, and what was gathered."""
    rode.clear()
    dtype = args[0].dtype

    def one(q, v, tau):
        G = laned(kept, law)(model, model.constraints, q, v, tau, jnp.asarray(DT, dtype))
        return G, jd.step(model, jd.State(q, v), tau, DT, contacts=law).v

    return jax.jit(jax.vmap(one))(*args), rode[0]


SCENES = {
    "plane": (lambda: scenes.booted(), 15),
    "twists": (lambda: scenes.booted(torsion=0.01), 20),
    "heights": (lambda: scenes.booted(level=False), 15),
    "hands": (lambda: scenes.booted(hands=True), 15),
}


@pytest.mark.parametrize("name", SCENES)
def test_gathered_rows_act_as_their_own(name, monkeypatch):
    make, rows = SCENES[name]
    model, q = make()
    args = states(model, q)
    (G, v), how = measured(model, args)
    feet = [b for b in how.bodies if model.body_names[b].endswith("foot")]
    assert len(feet) == 2
    assert how.riding.rows == how.plan.rows - sum(map(how.plan.count, how.members)) + 6 * len(how.bodies)
    assert all(sum(how.plan.count(c) for c in how.members if b in how.plan.bodies(c)) == rows for b in feet)
    none = lambda _, plan, held, slots: gathered.Gathering(plan, held, (), ())  # noqa: E731
    monkeypatch.setattr(gathered, "gathering", none)
    (H, w), alone = measured(model, args, OTHER)
    assert not alone.members
    np.testing.assert_allclose(G, H, rtol=0, atol=1e-13 * np.abs(H).max())
    np.testing.assert_allclose(v, w, rtol=0, atol=1e-9)  # few sweeps magnify what redundant forces round
    if name == "plane":  # in single precision too, as exactly as rows that ride
        model, args = jax.tree.map(lambda x: x.astype(jnp.float32), (model, args))
        (single, _), _ = measured(model, args, OTHER)
        monkeypatch.undo()
        (mine, _), _ = measured(model, args)
        H, mine, single = (np.asarray(x, float) for x in (H, mine, single))
        assert np.abs(mine - H).max() <= 2 * np.abs(single - H).max() + 1e-7 * np.abs(H).max()


def test_bodies_with_few_rows_and_roots_are_not_gathered():
    """Six motions instead of six rows or fewer save nothing, and the rows of a root do not ride up a tree."""
    for model, q in (scenes.quadruped(), scenes.box(), scenes.looped()):
        _, how = measured(model, states(model, q))
        assert not how.members


def test_places_far_away_do_not_round_those_that_touch():
    """In single precision, a foot on the ground that would also touch a wall 50 m away."""
    spec = jd.ModelSpec("leg", gravity=(0, 0, -scenes.G))
    spec.add_body("leg", "world", jd.joints.Free(), inertia=scenes.rod(3.0, 0.2))
    spec.add_body("foot", "leg", jd.joints.Revolute(axis=scenes.Y), inertia=scenes.rod(0.4, 0.1))
    spec.add_shape("foot", jd.shapes.Box((0.16, 0.08, 0.04)))
    spec.add_ground().add_shape("world", jd.shapes.Plane(), placement=scenes.at(50, tilt=-np.pi / 2), name="wall")
    model = spec.build()
    args = states(model, model.neutral().at[2].set(0.1))
    (exact, _), how = measured(model, args)
    model, args = jax.tree.map(lambda x: x.astype(jnp.float32), (model, args))
    (single, _), _ = measured(model, args)
    single = np.asarray(single, float)
    size = np.sqrt(np.einsum("kii->ki", exact))
    assert how.members and np.abs((single - exact) / (size[:, None] * size[..., None])).max() < 1e-5


def test_contacts_that_cannot_move_along_their_normals_jam_nothing():
    """A box turns on a sled that slides along a ramp. It touches the ramp, which is a box too: its motion along the
    world's axes says only to rounding that it does not move along the normal."""
    tilt = scenes.at(tilt=0.3)
    spec = jd.ModelSpec("sled", gravity=(0, 0, -scenes.G))
    slide = jd.joints.Prismatic(axis=scenes.X)
    spec.add_body("sled", "world", slide, placement=tilt, inertia=scenes.round_body(2.0, 0.1))
    spec.add_body("turn", "sled", jd.joints.Revolute(axis=(0, 0, 1)), inertia=scenes.round_body(1.0, 0.1))
    spec.add_shape("turn", jd.shapes.Box((0.2, 0.3, 0.2)))
    ramp = jd.Transform(tilt.rotation, tilt.rotation @ np.array([0.0, 0.0, 1e-9 - 0.6]))
    spec.add_shape("world", jd.shapes.Box((20, 20, 1)), placement=ramp, name="ramp")
    model = spec.build()
    q, v, tau = states(model, model.neutral())
    (_, after), how = measured(model, (q, v, tau))
    free = jax.vmap(lambda q, v, tau: jd.step(model, jd.State(q, v), tau, DT).v)(q, v, tau)
    assert how.members
    np.testing.assert_allclose(after, free, rtol=0, atol=1e-12)
