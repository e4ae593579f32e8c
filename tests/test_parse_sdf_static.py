"""SDF: models that stand still, and what holds for the joints that a loop cuts."""

import warnings

import numpy as np
import oracle
import pytest
from parse_help import quiet
from test_parse_sdf import axis, four_bar, joint, link, sdf

import jaxdyn as jd
from jaxdyn.loaders.load import load

STILL = "<static>true</static>"
MIMIC = '<mimic joint="ja"><multiplier>2</multiplier></mimic>'


def test_a_static_model_does_not_move_at_all():
    parts = link("a", "0 0 1 0 0 0"), link("b", "0 0 2 0 0 0"), joint("j", "a", "b"), joint("k", "a", "b", "fixed")
    with pytest.warns(jd.ModelWarning) as told:
        model = load(sdf(STILL, *parts))
    texts = [str(w.message) for w in told]
    assert any("joints of <static> models, which do not move: 'j'." in t for t in texts)
    assert model.nv == 0 and model.nu == 0 and model.constraints == ()
    np.testing.assert_allclose(jd.frame_pose(model, model.neutral(), "b").translation, [0, 0, 2])


def test_static_links_need_no_inertia():
    bare, leg = '<link name="floor"/>', link("leg") + joint("j", "world", "leg")
    world = '<sdf version="1.7"><world name="w"><model name="a">{}{}</model><model name="b">{}</model></world></sdf>'
    with pytest.warns(jd.ModelWarning, match="links without <inertial>.*: 'floor'"):
        load(world.format("", bare, leg))
    with warnings.catch_warnings():
        warnings.simplefilter("error", jd.ModelWarning)
        load(world.format(STILL, bare, leg))


@pytest.mark.parametrize(("parent", "child"), [("base::l", "b"), ("b", "base::l")])
def test_a_nested_static_model_holds_what_hangs_on_it(parent, child):
    base = f'<model name="base"><pose>0 0 1 0 0 0</pose>{STILL}{link("l")}</model>'
    model = load(sdf(base, link("b", "0 0 2 0 0 0"), joint("j", parent, child)))
    assert model.joint_names == ("j",) and model.body_names == ("b",)
    for name, height in (("base::l", 1), ("b", 2)):
        name = f"{name}_origin" if f"{name}_origin" in model.frame_names else name
        np.testing.assert_allclose(jd.frame_pose(model, [0.0], name).translation, [0, 0, height], atol=1e-6)


def test_static_models_stand_where_others_float():
    one = f'<model name="ground">{STILL}{link("g")}</model><model name="m">{link("a", "0 0 1 0 0 0")}</model>'
    text = f'<sdf version="1.9"><world name="w">{one}</world></sdf>'
    for options in ({}, {"floating": True}):
        model = load(text, **options)
        assert model.body_names == ("m::a",) and model.joint_names == ("root_joint",)


def test_a_joint_that_mimics_is_not_cut():
    """The file's order would cut it; so would it cut the one that leads."""
    model = quiet(four_bar(inner=[None, None, None, axis(inner=MIMIC)]))
    assert {"ja", "jd"} <= set(model.joint_names)
    coupling = next(c for c in model.constraints if c.name == "jd_mimic")
    assert isinstance(coupling, jd.constraints.Coupling)
    q = np.zeros(model.nq)
    q[[model.joint_names.index(n) for n in ("ja", "jd")]] = 0.1, 0.2
    rows = [c.name for c in model.constraints for _ in range(c.layout(model.topology).rows)]
    np.testing.assert_allclose(np.array(oracle.constraint_residual(model, q))[rows.index("jd_mimic")], 0, atol=1e-15)


def test_a_mimic_that_must_be_cut_is_an_error():
    both = [axis(inner=MIMIC.replace("ja", other)) for other in ("jb", "jc", "jd", "jb")]
    with pytest.raises(ValueError, match="<mimic joint='j.'> of <joint name='jd'>.*it cannot follow another"):
        load(four_bar(inner=both))


def test_limits_of_a_joint_that_is_cut_are_told():
    limit = "<limit><lower>-1</lower><upper>1</upper></limit>"
    with pytest.warns(jd.ModelWarning, match="joints that close loops, whose limits are not kept: 'jd'"):
        load(four_bar(inner=[axis(inner=limit)] * 4))
