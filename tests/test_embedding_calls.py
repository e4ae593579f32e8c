"""Calls of `embed`, `expand`, `reduce` and `Transmission`: what they take, and how they refuse the rest."""

import copy
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from catalogue_base import at, lump
from embedding_robots import cut, embedded, explicit

import jaxdyn as jd

Coupling, Transmission, Point = (getattr(jd.constraints, x) for x in ("Coupling", "Transmission", "Point"))


def pair(*constraints) -> jd.Model:
    spec = jd.ModelSpec("pair")
    spec.add_body("a", "world", jd.joints.Revolute(), inertia=lump(1.0))
    spec.add_body("b", "a", jd.joints.Revolute(axis=(0, 1, 0)), inertia=lump(1.0))
    for c in constraints:
        spec.add_constraint(c)
    return spec.build()


def test_embedding_again_changes_nothing():
    model = embedded("four_bars")
    for again in (jd.embed(model), jd.embed(model, []), jd.embed(jd.embed(cut("four_bars"), "first"), "second")):
        assert again.topology == model.topology
        assert again.actuation.shape == (model.nv, 2)
        assert np.array_equal(again.actuation, model.actuation)
        assert np.abs(again.neutral() - model.neutral()).max() < 1e-12


def test_embedding_again_with_other_joints():
    model = jd.embed(embedded("four_bars"), independent=["first_rocker", "second_rocker"])
    assert model.v_slice("first_rocker") == slice(1, 2)
    assert model.actuation.shape == (model.topology.nv, 2)  # cranks, which have the motors, depend on rockers
    assert np.array_equal(model.actuation, cut("four_bars").actuation)
    back = jd.embed(model)
    assert back.topology == embedded("four_bars").topology


def test_one_name_is_a_list_of_one():
    tree = cut("partly")
    assert jd.embed(tree, "gear").topology == jd.embed(tree, ["gear"]).topology
    one = jd.embed(tree, "first", independent="first_rocker")
    assert one.topology == jd.embed(tree, ["first"], independent=["first_rocker"]).topology
    assert one.v_slice("first_rocker") == slice(0, 1)
    assert [c.name for c in one.constraints] == ["gear", "strut", "across"]


def test_local_loops_leave_the_ground_alone():
    assert jd.embed(cut("grounded"), "local").embedded == ()
    assert len(jd.embed(cut("four_bar_floating"), "local").embedded) == 3


@pytest.mark.parametrize("again", ["local", "last"])
def test_embedded_loops_without_names_stay(again):
    spec = jd.ModelSpec("six")
    for k, parent in enumerate(("world", "b0", "b1", "b2", "world", "b4")):
        joint = jd.joints.Revolute(axis=(0, 1, 0), name=f"j{k}")
        spec.add_body(f"b{k}", parent, joint, placement=at(0, 0, 0.3), inertia=lump(1.0))
    spec.add_constraint(Coupling(["j0", "j1"], [1, -2]))
    spec.add_constraint(jd.constraints.PointOnPlane("b5", placement_a=at(0, 0, 0.3)))  # to the ground: not local
    spec.add_constraint(Coupling(["j2", "j3"], [1, 3], name="last"))
    once = jd.embed(spec.build(), "local")
    assert [type(c) for c in once.constraints] == [jd.constraints.PointOnPlane] and once.nv == 4
    found = jd.embed(once, again)
    assert found.topology == once.topology and found.embedded == once.embedded


def test_models_are_data():
    model = embedded("four_bars")
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert other.topology == model.topology
        v = jnp.ones(model.nv)
        assert np.array_equal(
            jd.integrate(other, other.neutral(), v, 0.1), jd.integrate(model, model.neutral(), v, 0.1)
        )


def zero_target():
    return pair(Coupling(["a", "b"], [1, 2], target=[0.1], name="held"))


def no_freedom():
    return pair(Coupling(["a", "b"], [1, 2], name="one"), Coupling(["a", "b"], [1, 3], name="two"))


REFUSED = {
    "unknown loop": (lambda: jd.embed(cut("four_bars"), "frist"), ValueError, "`loops`.*'frist'.*Did you mean 'first'"),
    "no loop": (lambda: jd.embed(cut("four_bars"), 3), TypeError, "`loops` is 3"),
    "not a model": (lambda: jd.embed("robot"), TypeError, "`embed`: `model`"),
    "unknown joint": (
        lambda: jd.embed(cut("four_bars"), independent=["first_cranc"]),
        ValueError,
        "`independent`.*'first_cranc'.*Did you mean 'first_crank'",
    ),
    "no joint": (lambda: jd.embed(cut("four_bars"), independent=[3]), TypeError, "`independent`"),
    "joint without loop": (lambda: jd.embed(cut("four_bars"), independent="base"), ValueError, "'base' is in none"),
    "too many": (
        lambda: jd.embed(cut("four_bars"), independent=["first_crank", "first_rocker"]),
        ValueError,
        "'first'.*'first_crank', 'first_rocker'.*not determined.*rank 2.*`independent=`",
    ),
    "singular": (
        lambda: jd.embed(cut("spatial_bars"), independent=["rod"]),
        ValueError,
        "'ball'.*not determined",
    ),
    "no freedom": (lambda: jd.embed(no_freedom()), ValueError, "'one', 'two'.*no freedom"),
    "target": (lambda: jd.embed(zero_target()), ValueError, "'held' has a `target`"),
    "nothing to embed": (
        lambda: jd.embed(pair(Coupling(["a", "b"], [0.0, 0.0], name="loose"))),
        ValueError,
        "'loose': no joint moves",
    ),
    "on the axis": (lambda: jd.embed(pair(Point("b", name="pivot"))), ValueError, "'pivot': no joint moves"),
    "too far": (
        lambda: jd.embed(pair(Point("b", placement_b=at(5.0), name="far"))),
        ValueError,
        "`embed`.*cannot close 'far'",
    ),
    "contradiction": (
        lambda: jd.embed(pair(Coupling(["a", "b"], [1, 2]), Coupling(["a", "b"], [2, 4], offset=1.0))),
        ValueError,
        "`embed`.*cannot close",
    ),
    "no root": (
        lambda: jd.embed(pair(Transmission(["a", "b"], lambda q: q[1:] ** 2 + 1, 1, name="f"))),
        ValueError,
        "`embed`.*cannot close 'f'",
    ),
    "traced": (
        lambda: jax.jit(lambda model, x: jd.embed(model.replace({"bodies.mass": x})).nv)(cut("four_bars"), jnp.ones(7)),
        ValueError,
        "`embed`: `model` is traced.*`replace`",
    ),
    "dependent slice": (
        lambda: embedded("four_bars").v_slice("first_rocker"),
        ValueError,
        "'first_rocker' depends on that of 'first_crank'",
    ),
    "tree velocity": (
        lambda: jd.expand(embedded("four_bars"), jd.State(jnp.zeros(7), jnp.zeros(7))),
        ValueError,
        r"`expand`.*\(7,\), not \(3,\)",
    ),
    "own velocity": (
        lambda: jd.reduce(embedded("four_bars"), jd.State(jnp.zeros(7), jnp.zeros(3))),
        ValueError,
        r"`reduce`.*\(3,\), not \(7,\)",
    ),
    "no state": (lambda: jd.reduce(embedded("four_bars"), (jnp.zeros(7), jnp.zeros(7))), TypeError, "`state` is tuple"),
    "force": (
        lambda: jd.forward_dynamics(
            embedded("four_bars"), jd.State(embedded("four_bars").neutral(), jnp.zeros(3)), jnp.zeros(4)
        ),
        ValueError,
        r"\(4,\), neither \(3,\).*nor \(7,\)",
    ),
    "forces in time": (
        lambda: jd.simulate(
            embedded("four_bars"), jd.State(embedded("four_bars").neutral(), jnp.zeros(3)), jnp.zeros((2, 4)), 1e-3
        ),
        ValueError,
        r"\(2, 4\)",
    ),
    "rows": (lambda: Transmission(["a", "b"], explicit, 1), ValueError, r"not an array of shape \(1,\)"),
    "no rows": (lambda: Transmission(["a", "b"], explicit, 0), ValueError, "`rows` is 0"),
    "no function": (lambda: Transmission(["a", "b"], 3, 1), TypeError, "`fn` is 3"),
    "integers": (lambda: Transmission(["a"], lambda q: jnp.zeros(1, int), 1), ValueError, "no derivative"),
    "twice the same": (lambda: Transmission(["a", "a"], explicit, 1), ValueError, "none twice"),
    "a ball": (
        lambda: (
            jd.ModelSpec("m")
            .add_body("x", "world", jd.joints.Spherical(), inertia=lump(1.0))
            .add_constraint(Transmission(["x"], lambda q: q, 1))
            .build()
        ),
        ValueError,
        "no single coordinate",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused(what):
    call, kind, text = REFUSED[what]
    with pytest.raises(kind, match=text):
        call()


def test_transmissions_take_numbers_of_double_precision():
    """Constants of the function do not decide the precision of the model."""
    wide = jnp.asarray(0.5, jnp.float64)
    with jax.numpy_dtype_promotion("standard"):
        double = pair(Transmission(["a", "b"], lambda q: q[1:] - jnp.sin(q[:1]) * wide, 1))
        double = jd.embed(jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), double))
        state = jd.State(double.neutral(), jnp.ones(1, jnp.float32))
        assert jd.expand(double, state).v.dtype == jnp.float32
        assert np.allclose(jd.expand(double, state).v, [1.0, 0.5])
