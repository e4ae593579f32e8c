"""Loading takes time in proportion to the file: chains, rings, many roots, mimics, loops and frames.

Each file is loaded at two sizes. Eight times the size may take 20 times as long: work that grows with the square would
take 64 times.
"""

import time

import pytest
from parse_help import quiet

import jaxdyn as jd

INERTIAL = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'


def urdf(n, extra="", inner=lambda k: ""):
    links = "".join(f'<link name="l{k}">{INERTIAL}</link>' for k in range(n))
    joints = "".join(
        f'<joint name="j{k}" type="continuous"><parent link="l{k - 1}"/><child link="l{k}"/>{inner(k)}</joint>'
        for k in range(1, n)
    )
    # one motor alone: the matrix of actuators is dense
    motor = '<transmission name="m"><joint name="j1"/></transmission>'
    return f'<robot name="r">{links}{joints}{motor}{extra}</robot>'


def mimics(n):
    return urdf(n, inner=lambda k: f'<mimic joint="j{k - 1}"/>' if k > 1 else "")


def urdf_ring(n):
    return urdf(n, f'<joint name="x" type="continuous"><parent link="l{n - 1}"/><child link="l0"/></joint>')


def roots(n):
    pair = '<link name="a{0}"/><link name="b{0}"/>'
    fixed = '<joint name="j{0}" type="fixed"><parent link="a{0}"/><child link="b{0}"/></joint>'
    return f'<robot name="r">{"".join((pair + fixed).format(k) for k in range(n))}</robot>'


def loops(n):
    ends = '<predecessor link="l{}"/><successor link="l{}"/>'
    return urdf(
        n, "".join(f'<loop name="L{k}" type="spherical">{ends.format(k, k + 2)}</loop>' for k in range(0, n - 2, 4))
    )


def transmissions(n):
    return urdf(n).replace(
        "</robot>",
        "".join(f'<transmission name="t"><joint name="j{k % 9 + 1}"/></transmission>' for k in range(n)) + "</robot>",
    )


def sdf(links, joints=""):
    return f'<sdf version="1.9"><model name="m">{links}{joints}</model></sdf>'


def sdf_link(k, pose):
    return f'<link name="l{k}"><pose {pose}</pose><inertial><mass>1</mass></inertial></link>'


def sdf_joint(k, a, b, kind="revolute"):
    limit = f"<limit><effort>{int(k == 0)}</effort></limit>"
    return (
        f'<joint name="j{k}" type="{kind}"><parent>l{a}</parent><child>l{b}</child>'
        f"<axis><xyz>0 1 0</xyz>{limit}</axis></joint>"
    )


def sdf_ring(n):
    links = "".join(sdf_link(k, f">{k} 0 0 0 0 0") for k in range(n))
    return sdf(links, "".join(sdf_joint(k, k, (k + 1) % n, "ball" if k == n - 2 else "revolute") for k in range(n)))


def relative(n):
    frames = "".join(f'<frame name="f{k}"><pose relative_to="f{k + 1}">1 0 0 0 0 0</pose></frame>' for k in range(n))
    attached = "".join(f'<frame name="a{k}" attached_to="a{k + 1}"/>' for k in range(n))
    return sdf(sdf_link(0, ">") + sdf_link(1, ">") + f'<frame name="f{n}"/><frame name="a{n}"/>' + frames + attached,
               sdf_joint(0, 0, 1))  # fmt: skip


def sdf_loops(n):
    links = "".join(sdf_link(k, f">{k} 0 0 0 0 0") for k in range(n))
    chain = "".join(sdf_joint(k, k, k + 1, "ball") for k in range(n - 1))
    return sdf(links, chain + "".join(sdf_joint(f"c{k}", k, k + 2) for k in range(0, n - 2, 4)))


def gears(n):
    links = "".join(sdf_link(k, ">") for k in range(n))
    turns = "".join(sdf_joint(k, 0, k) for k in range(1, n))
    axes = "<axis><xyz>0 1 0</xyz></axis><axis2><xyz>0 1 0</xyz></axis2>"
    return sdf(links, turns + "".join(
        f'<joint name="g{k}" type="gearbox"><parent>l{k}</parent><child>l{k + 1}</child>{axes}'
        "<gearbox_reference_body>l0</gearbox_reference_body></joint>" for k in range(1, n - 1, 4)))  # fmt: skip


def mjcf(n):
    bodies = "".join(f'<body name="b{k}"><joint name="j{k}"/><joint/><geom size=".1"/></body>' for k in range(n))
    ties = "".join(f'<joint joint1="j{k}" joint2="j{k + 1}"/>' for k in range(0, n - 1, 4))
    return f"<mujoco><worldbody>{bodies}</worldbody><equality>{ties}</equality></mujoco>"


def spec(n):
    """Frames that hang on frames, and bodies on them."""
    made = jd.ModelSpec("chain")
    at = "world"
    for k in range(n):
        made.add_body(f"b{k}", at, jd.joints.Revolute(), inertia=jd.Inertia(1.0, (1, 0, 0)))
        made.add_frame(f"f{k}", f"b{k}")
        at = f"f{k}"
    for k in range(n, 3 * n):
        made.add_frame(f"f{k}", f"f{k - 1}")
    made.build()


#: case: (how to make the file, the larger size), such that the square of the size would take far longer
CASES = {
    "a chain": (urdf, 8000),
    "mimics": (mimics, 3200),
    "a ring in a URDF": (urdf_ring, 8000),
    "roots": (roots, 4000),
    "loops": (loops, 1600),
    "transmissions of one name": (transmissions, 1600),
    "a ring in an SDF": (sdf_ring, 4000),
    "frames that rest on each other": (relative, 1600),
    "loops in an SDF": (sdf_loops, 1600),
    "gears": (gears, 3200),
    "MJCF": (mjcf, 1600),
    "frames and bodies in Python": (spec, 1600),
}


def seconds(call, n):
    """The processor time to load, without that to make the file."""
    source = None if call is spec else call(n)
    start = time.process_time()
    try:
        spec(n) if source is None else quiet(source)
    except ValueError as error:
        assert len(str(error)) < 700 and ("ring" in str(error) or "roots" in str(error))
    return time.process_time() - start


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_time_is_in_proportion(case):
    call, n = CASES[case]
    if call is mjcf:
        pytest.importorskip("mujoco")
    seconds(call, 20)  # compiles what is compiled
    small, large = seconds(call, n // 8), seconds(call, n)
    if large > 0.3 + 20 * small:  # a collection of garbage in a large process takes half a second
        large = min(large, seconds(call, n))
    assert large < 0.3 + 20 * small, f"{n // 8}: {small:.2f} s, {n}: {large:.2f} s"


def test_no_depth_is_too_much():
    """Frames that rest on each other over thousands of steps, and are still placed."""
    model = quiet(relative(3000))
    placed = dict(zip(model.topology.frame_names, model.frames.translation, strict=True))
    assert abs(placed["f0"][0] - placed["f3000"][0] - 3000) < 1e-9
