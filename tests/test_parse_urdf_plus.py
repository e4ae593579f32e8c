"""URDF+: loops and couplings."""

import jax
import numpy as np
import oracle
import pytest
from parse_help import closed, joint, link, urdf

import jaxdyn as jd
from jaxdyn.loaders.load import load, load_spec


def flat(name, parent, child, xyz, independent=None):
    """A joint about z."""
    stated = "" if independent is None else f'independent="{independent}"'
    return joint(name, parent, child, xyz=xyz, axis="0 0 1", attributes=stated).replace('rpy="0.1 0.2 0.3"', "")


def loop(kind="revolute", name="loop", axis="0 0 1", ends=("bar2", "bar3")):
    return f"""<loop name="{name}" type="{kind}"><predecessor link="{ends[0]}"><origin xyz="1 0 0"/></predecessor>
      <successor link="{ends[1]}"><origin xyz="0.5 0 0"/></successor><axis xyz="{axis}"/></loop>"""


def bars(*extra, dependent="false"):
    """Links 1 and 2 in a chain, link 3 beside them: a four-bar linkage when the loop closes 2 and 3."""
    return urdf(
        *(link(n, com=(0.2, 0, 0)) for n in ("base", "bar1", "bar2", "bar3")),
        flat("j1", "base", "bar1", "0 0 0", "true"),
        flat("j2", "bar1", "bar2", "0.5 0 0", dependent),
        flat("j3", "base", "bar3", "1 0 0", dependent),
        *extra,
    )


def test_a_four_bar_linkage():
    model = load(bars(loop()))
    (hinge,) = model.constraints
    assert type(hinge) is jd.constraints.Hinge and hinge.name == "loop"
    assert (hinge.body_a, hinge.body_b) == ("bar2", "bar3")
    np.testing.assert_allclose(hinge.placement_a.translation, [1, 0, 0])
    np.testing.assert_allclose(hinge.placement_b.translation, [0.5, 0, 0])
    np.testing.assert_allclose(hinge.axis, [0, 0, 1])
    assert model.actuator_names == ("j1",)
    q, error = closed(model, [0.6, 0.1, 0.3])
    assert error < 1e-11
    # a plane linkage with three joints and one loop has one freedom
    assert np.linalg.matrix_rank(oracle.constraint_jacobian(model, q), tol=1e-9) == 2


@pytest.mark.parametrize(
    ("kind", "rows", "freedoms"),
    [
        ("revolute", 5, 1),
        ("continuous", 5, 1),
        ("prismatic", 5, 1),
        ("fixed", 6, 0),
        ("spherical", 3, 3),
        ("cylindrical", 4, 2),
    ],
)
def test_kinds_of_loops(kind, rows, freedoms):
    model = load(bars(loop(kind)))
    assert sum(c.rows for c in model.constraints) == rows
    assert rows + freedoms == 6
    assert [c.name for c in model.constraints] == ["loop"]


def test_a_planar_loop_leaves_two_slides_and_a_turn():
    n = np.array([0.3, -0.5, 0.8])
    text = urdf(link("a"), link("b"), link("c"), joint("f", "a", "b", "floating"), joint("g", "a", "c", "floating"))
    text = text.replace("</robot>", loop("planar", axis=" ".join(map(str, n)), ends=("b", "c")) + "</robot>")
    model = load(text)
    assert [c.name for c in model.constraints] == ["loop_0", "loop_1", "loop_2"]
    q, error = closed(model, model.random_state(jax.random.key(1)).q)
    assert error < 1e-11
    J = oracle.constraint_jacobian(model, q)[:, 6:]
    assert np.linalg.matrix_rank(J, tol=1e-9) == 3
    # the normals agree, and the origins lie in one plane
    poses = oracle.poses(model, q)
    Rb, pb, Rc, pc = (np.array(x) for x in (*_pose(poses, 0), *_pose(poses, 1)))
    np.testing.assert_allclose(np.cross(Rb @ n, Rc @ n), 0, atol=1e-9)
    assert abs((pb + Rb @ [1, 0, 0] - pc - Rc @ [0.5, 0, 0]) @ (Rb @ n)) < 1e-9


def _pose(poses, k):
    R, p = poses
    return R[k], p[k]


def coupling(ratio="6", ends=("bar1", "bar3"), name="gear"):
    inner = f'<ratio value="{ratio}"/>' if ratio else ""
    return f'<coupling name="{name}"><predecessor link="{ends[0]}"/><successor link="{ends[1]}"/>{inner}</coupling>'


def test_a_coupling_turns_the_successor_faster():
    model = load(bars(coupling()).replace('independent="false"', "", 1))
    assert [c.name for c in model.constraints] == ["gear"]
    np.testing.assert_allclose(oracle.constraint_residual(model, np.array([0.1, 0.7, 0.6])), 0, atol=1e-15)
    assert model.actuator_names == ("j1", "j2")


def test_a_coupling_over_longer_paths_sums_their_joints():
    model = load(bars(coupling("2", ("bar2", "bar3"))))
    np.testing.assert_allclose(oracle.constraint_residual(model, np.array([0.1, 0.2, 0.6])), 0, atol=1e-15)
    assert model.actuator_names == ("j1",)


@pytest.mark.parametrize("free", ["j1", "j2", "j3"])
def test_embedding_follows_the_file(free):
    """Without actuators, too, the joint that the file calls independent is."""
    flags = {j: str(j == free).lower() for j in ("j1", "j2", "j3")}
    text = bars(loop()).replace('independent="true"', "").replace('independent="false"', "")
    for j, told in flags.items():
        text = text.replace(f'name="{j}"', f'name="{j}" independent="{told}"')
    spec = load_spec(text)
    spec.actuators.clear()
    model = jd.embed(spec.build())
    assert [model.joint_names[v] for v in model.topology.independent] == [free]


def test_independent_is_true_where_nothing_is_said():
    model = load(bars(loop(), dependent="true"))
    assert model.actuator_names == ("j1", "j2", "j3")
    assert load(bars(loop()).replace('independent="true"', "")).actuator_names == ("j1",)


def test_a_dependent_joint_that_nothing_ties_is_told():
    with pytest.warns(jd.ModelWarning, match="'j2'.*move freely"):
        model = load(bars(coupling()))
    assert model.actuator_names == ("j1", "j2")


@pytest.mark.parametrize("follower", ["j2", "j1"])
def test_a_joint_that_mimics_is_tied(follower, recwarn):
    """... and so is the one that it follows: either may be the dependent one."""
    leader = {"j2": "j1", "j1": "j2"}[follower]
    text = bars(coupling())
    at = text.index("</joint>", text.index(f'name="{follower}"'))
    model = load(f'{text[:at]}<mimic joint="{leader}" multiplier="2"/>{text[at:]}')
    assert not [w for w in recwarn if "move freely" in str(w.message)], [str(w.message) for w in recwarn]
    assert "j2" not in model.actuator_names


def test_capitals_are_read():
    assert load(bars(loop(), dependent="False")).actuator_names == ("j1",)


def test_loops_between_links_that_merge():
    text = bars(link("tip"), joint("tip_joint", "bar2", "tip", "fixed", xyz="1 0 0").replace('rpy="0.1 0.2 0.3"', ""))
    ends = loop(ends=("tip", "bar3")).replace('<origin xyz="1 0 0"/>', "")
    merged, whole = (
        load(text.replace("</robot>", ends + "</robot>")),
        load(text.replace("</robot>", loop() + "</robot>")),
    )
    q = np.array([0.5, -0.2, 0.8])
    residuals = [oracle.constraint_residual(m, q) for m in (merged, whole)]
    np.testing.assert_allclose(*residuals, atol=1e-14)
