"""Point masses are told of where the mass matrix is singular for them, and nowhere else."""

import warnings

import numpy as np
import oracle
import pytest
from parse_help import joint, link, quiet, urdf

import jaxdyn as jd
from jaxdyn.loaders.load import load

NOTHING = (0, 0, 0)
TIP = '<joint name="k" type="fixed"><parent link="dot"/><child link="tip"/></joint>'


def point(name, com=(0, 0, 0)):
    return link(name, com=com, inertia=NOTHING)


def one(kind, com=(0, 0, 0), axis="0 0 1", extra=()):
    return urdf(link("base"), point("dot", com), joint("j", "base", "dot", kind, axis=axis), *extra)


def hand(com=(0.1, 0, 0)):
    """A link fixed to the point mass."""
    return link("hand", com=com), joint("k", "dot", "hand", "fixed")


SINGULAR = {
    "on its axis": one("revolute", (0, 0, 0.3)),
    "on a slanted axis": one("revolute", (0.3, 0, 0.4), axis="3 0 4"),
    "floating": one("floating", (0.1, 0, 0)),
    "in a plane, above the joint": one("planar", (0, 0, 0.3)),
    "at the end of a wrist": urdf(
        *map(link, ("base", "arm")),
        point("dot", (0, 0, 1)),
        joint("i", "base", "arm"),
        joint("j", "arm", "dot", "continuous", axis="0 0 1"),
    ),
    "with a point fixed to it": one("revolute", (0, 0, 0.3), extra=(point("tip", (0, 0, 1)), TIP)),
}
REGULAR = {
    "a pendulum": one("revolute", (0.3, 0, 0)),
    "a slide": one("prismatic"),
    "with a link fixed to it": one("revolute", extra=hand()),
    "fixed to another": urdf(
        *map(link, ("base", "a")), point("dot"), joint("j", "base", "a"), joint("k", "a", "dot", "fixed")
    ),
    "what carries more": urdf(
        link("base"),
        point("dot"),
        link("a"),
        joint("j", "base", "dot", axis="0 0 1"),
        joint("k", "dot", "a", "continuous", axis="0 1 0"),
    ),
}


def rank_lost(model):
    M = oracle.mass_matrix(model, np.array(model.neutral()))
    return np.linalg.eigvalsh(M)[0] < 1e-9


@pytest.mark.parametrize("case", SINGULAR)
def test_it_is_told_where_the_mass_matrix_is_singular(case):
    with pytest.warns(jd.ModelWarning, match="mass but no rotational inertia.*'dot'"):
        model = load(SINGULAR[case])
    assert rank_lost(model)


@pytest.mark.parametrize("case", REGULAR)
def test_it_is_not_told_where_it_does_no_harm(case):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = load(REGULAR[case])
    assert not rank_lost(model)


def test_armature_helps():
    spec = jd.ModelSpec("dot")
    spec.add_body("dot", "world", jd.joints.Revolute(armature=0.1), inertia=jd.Inertia(1.0, (0, 0, 1)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not rank_lost(spec.build())


def test_what_has_no_mass_either_is_told_once():
    text = urdf(link("base"), '<link name="a"/>', joint("j", "base", "a"))
    with pytest.warns(jd.ModelWarning, match="nothing that hangs on 'a'") as told:
        load(text)
    assert len(told) == 1 and quiet(text).nv == 1
