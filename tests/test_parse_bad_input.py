"""Malformed files: one clear error that names the offender and its place, and never a model."""

import re
import time

import pytest
from parse_help import arm, joint, link, quiet, urdf

from jaxdyn.loaders.load import load

PLAIN = ("base", "a", "b")
TWO = [*map(link, PLAIN), joint("j1", "base", "a"), joint("j2", "a", "b")]

LAUGHS = "".join(f'<!ENTITY l{k} "{f"&l{k - 1};" * 10}">' for k in range(1, 10))
BOMB = f'<?xml version="1.0"?><!DOCTYPE robot [<!ENTITY l0 "ha">{LAUGHS}]><robot name="&l9;"/>'
BOMB_TEXT = BOMB.replace('<robot name="&l9;"/>', '<robot name="r"><link name="x">&l9;</link></robot>')


def chain(*extra, links=PLAIN):
    return urdf(*map(link, links), *extra)


#: case: (the file, words that its error must hold)
URDFS = {
    "an empty file": ("<", "cannot be read"),
    "no XML": ("hello < world", "line 1: the XML cannot be read"),
    "a tag that is not closed": ("<robot name='r'>\n<link name='a'>\n</robot>", "line 3.*link"),
    "an attribute without quotes": ("<robot name=r/>", "line 1.*cannot be read"),
    "two roots of the XML": ("<robot/><robot/>", "cannot be read"),
    "nesting without end": ("<robot>" + "<link>" * 5000, "cannot be read.*[dD]ep"),
    "an entity bomb in an attribute": (BOMB, "[eE]ntit"),
    "an entity bomb in a text": (BOMB_TEXT, "[eE]ntit"),
    "an external entity": (
        '<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]><robot name="r">&x;</robot>',
        "entity 'x'",
    ),
    "an external DTD": ('<!DOCTYPE robot SYSTEM "http://localhost/x.dtd"><robot name="r"/>', "document type"),
    "an entity that is not declared": ("<robot name='r'>&nothing;</robot>", "nothing"),
    "another format": ("<COLLADA/>", "<COLLADA>.*<robot>"),
    "xacro": ('<robot xmlns:xacro="http://ros.org/wiki/xacro"><xacro:leg side="l"/></robot>', "<xacro:leg> is a macro"),
    "no links": (urdf(), "<robot name='robot'>: there is no <link>"),
    "a link without a name": (urdf("<link/>"), "<link> of <robot name='robot'>.*`name`"),
    "an empty name": (urdf('<link name=" "/>'), "`name`"),
    "a link twice": (chain(links=("base", "a", "a")), "'a' is taken by the <link> in line"),
    "a joint twice": (urdf(*TWO, link("c"), joint("j1", "b", "c")), "<joint name='j1'>.*'j1' is taken"),
    "a joint without a name": (urdf(*TWO).replace('<joint name="j2"', "<joint"), "<joint>.*`name`"),
    "a joint without a type": (urdf(*TWO).replace('name="j2" type="revolute"', 'name="j2"'), "'j2'.*`type`"),
    "an unknown type": (
        urdf(*TWO).replace('name="j2" type="revolute"', 'name="j2" type="elbow"'),
        "'j2'.*'elbow'.*revolute",
    ),
    "an unknown parent": (chain(joint("j1", "bse", "a"), joint("j2", "a", "b")), "'j1'.*parent.*'bse'.*'base'"),
    "an unknown child": (chain(joint("j1", "base", "arm9")), "'j1'.*child.*'arm9'"),
    "a joint without a parent": (chain('<joint name="j1" type="fixed"><child link="a"/></joint>'), "'j1'.*<parent>"),
    "a joint without a child": (chain('<joint name="j1" type="fixed"><parent link="a"/></joint>'), "'j1'.*<child>"),
    "a parent without a link": (
        chain('<joint name="j1" type="fixed"><parent/><child link="a"/></joint>'),
        "<parent> of <joint name='j1'>.*`link`",
    ),
    "a link that is its own parent": (chain(joint("j1", "a", "a")), "'j1'.*'a' is its own parent"),
    "two parents": (urdf(*TWO, joint("j3", "base", "b")), "'j3'.*'b' already hangs on joint 'j2'"),
    "a ring beside the root": (
        urdf(*map(link, "rabc"), joint("j1", "a", "b"), joint("j2", "b", "c"), joint("j3", "c", "a")),
        "ring: a -> b -> c -> a|ring: b -> c -> a -> b|ring: c -> a -> b -> c",
    ),
    "a ring and nothing else": (urdf(*map(link, "ab"), joint("j1", "a", "b"), joint("j2", "b", "a")), "ring: .*a -> b"),
    "two roots": (chain(joint("j1", "base", "a")), "2 roots: 'base', 'b'"),
    "a link called world in the middle": (
        urdf(
            *map(link, ("base", "world", "world_link")),
            joint("j1", "base", "world"),
            joint("j2", "world", "world_link"),
        ),
        "'world_link' is already taken",
    ),
    "negative mass": (
        urdf(link("base"), link("a", mass=-2), joint("j", "base", "a")),
        "<link name='a'>.*negative mass -2",
    ),
    "a negative moment": (
        urdf(link("base"), link("a", inertia=(0.1, -0.1, 0.1)), joint("j", "base", "a")),
        "<link name='a'>.*negative principal moment",
    ),
    "a mass that is no number": (
        urdf(link("base"), link("a", mass="heavy"), joint("j", "base", "a")),
        "<mass> of <link name='a'>.*'heavy'",
    ),
    "a mass of NaN": (
        urdf(link("base"), link("a", mass="nan"), joint("j", "base", "a")),
        "<mass> of <link name='a'>.*'nan'",
    ),
    "an endless inertia": (
        urdf(link("base"), link("a", inertia=("inf", 1, 1)), joint("j", "base", "a")),
        "<inertia> of <link name='a'>.*'inf'",
    ),
    "an inertia without iyy": (arm().replace('iyy="0.02" ', "", 1), "<inertia> of <link name='base'>.*`iyy`"),
    "an inertial without a mass": (
        arm().replace('<mass value="1.0"/>', "", 1),
        "<inertial> of <link name='base'>.*<mass>",
    ),
    "two inertials": (urdf(link("base", inner="<inertial/>")), "<inertial> of <link name='base'>.*second"),
    "an origin of two numbers": (
        urdf(*TWO).replace('xyz="0 0 0.3"', 'xyz="0 0"', 1),
        "<origin> of <joint name='j1'>.*3 numbers, not '0 0'",
    ),
    "an origin of words": (
        urdf(*TWO).replace('rpy="0.1 0.2 0.3"', 'rpy="a b c"', 1),
        "<origin> of <joint name='j1'>.*'a'",
    ),
    "a decimal comma": (urdf(*TWO).replace('xyz="0 0 0.3"', 'xyz="0 0 0,3"', 1), "<joint name='j1'>.*'0,3'"),
    "a rotation said twice": (
        urdf(*TWO).replace('rpy="0.1 0.2 0.3"', 'rpy="0 0 0" quat_xyzw="0 0 0 1"', 1),
        "<joint name='j1'>.*not both",
    ),
    "a quaternion of zeros": (
        urdf(*TWO).replace('rpy="0.1 0.2 0.3"', 'quat_xyzw="0 0 0 0"', 1),
        "<joint name='j1'>.*quat_xyzw",
    ),
    "a zero axis": (urdf(*TWO).replace('axis xyz="0 1 0"', 'axis xyz="0 0 0"', 1), "<axis> of <joint name='j1'>.*zero"),
    "two axes": (
        urdf(*map(link, PLAIN), joint("j1", "base", "a", inner='<axis xyz="1 0 0"/>')),
        "<axis> of <joint name='j1'>.*second",
    ),
    "limits in the wrong order": (
        urdf(*TWO).replace('lower="-1"', 'lower="5"', 1),
        "<joint name='j1'>.*lower limit.*above",
    ),
    "a negative effort": (urdf(*TWO).replace('effort="30"', 'effort="-30"', 1), "<joint name='j1'>.*effort.*negative"),
    "negative friction": (
        urdf(link("base"), link("a"), joint("j1", "base", "a", inner='<dynamics friction="-1"/>')),
        "<joint name='j1'>.*friction.*negative",
    ),
    "two reductions": (
        urdf(
            *TWO,
            '<transmission name="t"><joint name="j1"/><actuator name="m"><mechanicalReduction>2</mechanicalReduction>'
            "<mechanicalReduction>3</mechanicalReduction></actuator></transmission>",
        ),
        "<mechanicalReduction> of <actuator name='m'>.*second",
    ),
    "a mimic of nobody": (
        urdf(link("base"), link("a"), joint("j1", "base", "a", inner="<mimic/>")),
        "<mimic> of <joint name='j1'>.*`joint`",
    ),
    "a mimic of itself": (
        urdf(link("base"), link("a"), joint("j1", "base", "a", inner='<mimic joint="j1"/>')),
        "ring: j1 -> j1",
    ),
    "mimics in a ring": (
        urdf(
            *map(link, PLAIN),
            joint("j1", "base", "a", inner='<mimic joint="j2"/>'),
            joint("j2", "a", "b", inner='<mimic joint="j1"/>'),
        ),
        "mimic each other in a ring: j1 -> j2 -> j1",
    ),
    "a mimic of a floating joint": (
        urdf(
            *map(link, PLAIN), joint("j1", "base", "a", "floating"), joint("j2", "a", "b", inner='<mimic joint="j1"/>')
        ),
        "<joint name='j2'>.*'j1' has no single coordinate",
    ),
    "a mimic that multiplies by a word": (
        urdf(
            *map(link, PLAIN),
            joint("j1", "base", "a"),
            joint("j2", "a", "b", inner='<mimic joint="j1" multiplier="two"/>'),
        ),
        "<mimic joint='j1'> of <joint name='j2'>.*'two'",
    ),
    "a transmission without a name": (arm('<transmission><joint name="j1"/></transmission>'), "<transmission>.*`name`"),
    "a reduction that is no number": (
        arm(
            '<transmission name="t"><joint name="j1"/><actuator name="m">'
            "<mechanicalReduction>ten</mechanicalReduction></actuator></transmission>"
        ),
        "<mechanicalReduction> of <actuator name='m'>.*'ten'",
    ),
    "a frame called as a link": (
        urdf(*TWO, name="r").replace('<link name="b">', '<link name="base">'),
        "'base' is taken",
    ),
}

PAIR = '<predecessor link="a"/><successor link="b"/>'
PLUS = {
    "a loop of an unknown type": (f'<loop name="l" type="hinge">{PAIR}</loop>', "<loop name='l'>.*'hinge'.*revolute"),
    "a loop without a type": (f'<loop name="l">{PAIR}</loop>', "<loop name='l'>.*`type`"),
    "a loop without a name": (f'<loop type="fixed">{PAIR}</loop>', "<loop>.*`name`"),
    "a loop to an unknown link": (
        '<loop name="l" type="fixed"><predecessor link="a"/><successor link="c"/></loop>',
        "successor.*'c'",
    ),
    "a loop without a successor": ('<loop name="l" type="fixed"><predecessor link="a"/></loop>', "'l'.*<successor>"),
    "a loop with itself": (
        '<loop name="l" type="fixed"><predecessor link="a"/><successor link="a"/></loop>',
        "'a' to itself",
    ),
    "a loop without an axis": (
        f'<loop name="l" type="revolute">{PAIR}<axis xyz="0 0 0"/></loop>',
        "<axis> of <loop name='l'>.*zero",
    ),
    "a loop within a fixed pair": (
        '<loop name="l" type="fixed"><predecessor link="b"/><successor link="tip"/></loop>',
        "text: .*constraint 'l'.*both sides",
    ),
    "a coupling without a ratio": (f'<coupling name="c">{PAIR}</coupling>', "<coupling name='c'>.*<ratio>"),
    "a coupling by a word": (
        f'<coupling name="c">{PAIR}<ratio value="fast"/></coupling>',
        "<ratio> of <coupling name='c'>.*'fast'",
    ),
    "two loops of one name": (f'<loop name="l" type="fixed">{PAIR}</loop>' * 2, "two constraints are named 'l'"),
    "independent as a word": ('<loop name="l" type="fixed"/>', "'perhaps'|<predecessor>"),
    "a coupling of nothing that moves": (
        '<coupling name="c"><predecessor link="b"/><successor link="tip"/><ratio value="1"/></coupling>',
        "<coupling name='c'>.*no moving joint",
    ),
}


def sdf(*parts, version="1.7"):
    return f'<sdf version="{version}"><model name="m">' + "".join(parts) + "</model></sdf>"


def body(name="a", inner="", inertia="<ixx>1</ixx>"):
    return f'<link name="{name}">{inner}<inertial><mass>1</mass><inertia>{inertia}</inertia></inertial></link>'


def pin(name="j", parent="world", child="a", kind="revolute", inner="<axis><xyz>0 0 1</xyz></axis>"):
    return f'<joint name="{name}" type="{kind}"><parent>{parent}</parent><child>{child}</child>{inner}</joint>'


SDFS = {
    "a version of words": (sdf(body(), pin(), version="new"), "<sdf>.*'new'"),
    "an endless version": (sdf(body(), pin(), version="1" * 5000), "<sdf>.*`version` is '111"),
    "no model": ('<sdf version="1.7"/>', "<sdf>.*<model>"),
    "two models without a world": ('<sdf><model name="a"/><model name="b"/></sdf>', "<model name='b'>.*one <model>"),
    "a model without a name": ("<sdf><model><link name='a'/></model></sdf>", "<model>.*`name`"),
    "a link twice": (sdf(body(), body(), pin()), "<link name='a'>.*'a' is taken"),
    "an unknown child": (sdf(body(), pin(child="c")), "<joint name='j'>.*'c'"),
    "an unknown parent": (sdf(body(), pin(parent="c")), "<joint name='j'>.*'c'"),
    "a joint without a child": (
        sdf(body(), '<joint name="j" type="fixed"><parent>a</parent></joint>'),
        "<joint name='j'>.*<child>",
    ),
    "an empty parent": (sdf(body(), pin(parent="")), "<joint name='j'>.*<parent> is empty"),
    "a link that is its own parent": (sdf(body(), pin(parent="a")), "<joint name='j'>.*'a' is its own parent"),
    "the world as a child": (sdf(body(), pin(parent="a", child="world")), "'?world'?"),
    "an unknown type": (sdf(body(), pin(kind="pin")), "<joint name='j'>.*'pin'.*revolute"),
    "a joint without an axis": (sdf(body(), pin(inner="")), "<joint name='j'>.*<axis>"),
    "a zero axis": (sdf(body(), pin(inner="<axis><xyz>0 0 0</xyz></axis>")), "<axis> of <joint name='j'>.*zero"),
    "an axis in an unknown frame": (
        sdf(body(), pin(inner='<axis><xyz expressed_in="there">0 0 1</xyz></axis>')),
        "<axis> of <joint name='j'>.*'there'",
    ),
    "a pose of five numbers": (
        sdf(body(inner="<pose>0 0 0 0 0</pose>"), pin()),
        "<pose> of <link name='a'>.*6 numbers",
    ),
    "a pose relative to nothing": (sdf(body(inner='<pose relative_to="x"/>'), pin()), "<link name='a'>.*'x'"),
    "poses in a ring": (
        sdf(
            body(inner='<pose relative_to="b">0 0 0 0 0 0</pose>'),
            body("b", '<pose relative_to="a">0 0 0 0 0 0</pose>'),
            pin(),
        ),
        "ring: 'a' -> 'b' -> 'a'",
    ),
    "frames attached in a ring": (
        sdf(body(), pin(), '<frame name="f" attached_to="g"/><frame name="g" attached_to="f"/>'),
        "'f'|'g'",
    ),
    "negative mass": (sdf(body().replace("<mass>1<", "<mass>-1<"), pin()), "<link name='a'>.*negative mass"),
    "a mass of words": (sdf(body().replace("<mass>1<", "<mass>one<"), pin()), "<mass> of <link name='a'>.*'one'"),
    "a negative moment": (sdf(body(inertia="<ixx>-1</ixx>"), pin()), "<link name='a'>.*negative principal moment"),
    "limits in the wrong order": (
        sdf(body(), pin(inner="<axis><xyz>0 0 1</xyz><limit><lower>1</lower><upper>0</upper></limit></axis>")),
        "<joint name='j'>.*lower limit.*above",
    ),
    "an include": (sdf(body(), "<include><uri>model://leg</uri></include>", pin()), "<include>.*model://leg"),
    "an inertia from shapes": (
        sdf('<link name="a"><inertial auto="true"/></link>', pin()),
        "<inertial> of <link name='a'>.*auto",
    ),
    "a reserved name": (sdf(body("a::b"), pin(child="a::b")), "'a::b' is reserved"),
    "a loop that nothing can close": (
        sdf(
            *map(body, "abc"),
            *(
                pin(f"j{x}{y}", x, y, "universal", "<axis/><axis2><xyz>1 0 0</xyz></axis2>")
                for x, y in ("ab", "bc", "ca")
            ),
        ),
        "universal joint has no constraint",
    ),
    "a gearbox on nothing": (
        sdf(
            *map(body, "ab"),
            pin(),
            pin("g", "a", "b", "gearbox", "<axis/><axis2/><gearbox_reference_body>a</gearbox_reference_body>"),
        ),
        "<joint name='g'>.*no joint with one coordinate connects",
    ),
    "a mimic of an unknown joint": (
        sdf(body(), pin(inner='<axis><xyz>0 0 1</xyz><mimic joint="k"/></axis>')),
        "<mimic joint='k'> of <joint name='j'>.*'k'",
    ),
    "floating what is tied": (sdf(body(), pin()), "floating=True"),
    "a static of words": (sdf("<static>maybe</static>", body(), pin()), "'maybe'"),
}


def refused(source, words, **options):
    """Loading raises one `ValueError` of the loader that holds the words, on one line, without an end in sight."""
    start = time.perf_counter()
    with pytest.raises(ValueError) as error:
        quiet(source, **options)
    assert time.perf_counter() - start < 5
    text = str(error.value)
    assert re.search(words, text, re.S), text
    assert "`load`" in text, text
    assert len(text) < 700, text


@pytest.mark.parametrize("case", URDFS)
def test_urdf(case):
    refused(*URDFS[case])


@pytest.mark.parametrize("case", PLUS)
def test_urdf_plus(case):
    tip = [link("tip"), joint("tip_joint", "b", "tip", "fixed")]
    text = urdf(*TWO, *tip, PLUS[case][0])
    if case == "independent as a word":
        text = text.replace('name="j1" type="revolute"', 'name="j1" type="revolute" independent="perhaps"')
    refused(text, PLUS[case][1])


@pytest.mark.parametrize("case", SDFS)
def test_sdf(case):
    refused(*SDFS[case], floating=True if case == "floating what is tied" else None)


def test_a_file_is_named_with_its_line(tmp_path):
    file = tmp_path / "broken_arm.urdf"
    file.write_text(urdf(*TWO).replace('name="j2" type="revolute"', 'name="j2" type="elbow"'))
    line = 1 + file.read_text().split("elbow")[0].count("\n")
    refused(file, rf"broken_arm\.urdf, line {line}, <joint name='j2'>")
    file.write_bytes(b"\x00\xff\xfe garbage")
    refused(file, r"broken_arm\.urdf, line 1: the XML cannot be read")
    file.write_text("")
    refused(file, r"broken_arm\.urdf.*cannot be read")


def test_what_is_no_file(tmp_path):
    for source in ("", "nowhere.urdf", tmp_path / "nowhere.urdf"):
        with pytest.raises(FileNotFoundError, match="there is no file"):
            load(source)
    with pytest.raises(FileNotFoundError, match=r"no robot\.yaml"):
        load(tmp_path)
    for source in (None, 3, b"<robot/>"):
        with pytest.raises(TypeError, match="`source` is"):
            load(source)
    with pytest.raises(TypeError, match="`floating` is 'yes'"):
        load(arm(), floating="yes")
    with pytest.raises(TypeError, match="`name` is 3"):
        load(arm(), name=3)


def test_a_base_that_floats_needs_its_name():
    text = urdf(*map(link, PLAIN), joint("root_joint", "base", "a"), joint("j2", "a", "b"))
    refused(text, "'root_joint'.*floating base", floating=True)


def test_names_are_cut_in_messages():
    refused(urdf(*TWO).replace('xyz="0 0 0.3"', f'xyz="{"9 " * 5000}"', 1), r"3 numbers, not '9 9.*\.\.\.")


def test_an_encoding_that_lies(tmp_path):
    file = tmp_path / "robot.urdf"
    file.write_bytes('<?xml version="1.0" encoding="utf-8"?><robot name="\xe9"/>'.encode("latin-1"))
    refused(file, r"robot\.urdf, line 1: the XML cannot be read")
    file.write_bytes(f'<?xml version="1.0" encoding="utf-16"?>{BOMB[21:]}'.encode("utf-16"))
    refused(file, "[eE]ntit")
