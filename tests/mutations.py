"""Broken model files, made from good ones by one to three random changes. The same seed makes the same file."""

import copy
import random

from lxml import etree

URDF = """<robot name="r">
<link name="base"><inertial><origin xyz="0 0 0.1" rpy="0.1 0.2 0.3"/><mass value="2"/>
  <inertia ixx="0.1" iyy="0.12" izz="0.08" ixy="0.01" ixz="0" iyz="0.002"/></inertial></link>
<link name="a"><inertial><origin xyz="0.1 0 0"/><mass value="1"/>
  <inertia ixx="0.01" iyy="0.012" izz="0.008" ixy="0" ixz="0" iyz="0"/></inertial><visual><geometry/></visual>
  <collision name="rod"><origin xyz="0.1 0 0" rpy="0 1 0"/><geometry><cylinder radius="0.1" length="0.3"/></geometry>
  </collision><contact><lateral_friction value="0.7"/><restitution value="0.2"/></contact></link>
<link name="b"><inertial><mass value="0.5"/>
  <inertia ixx="0.02" iyy="0.012" izz="0.018" ixy="0" ixz="0" iyz="0"/></inertial>
  <collision><geometry><box size="0.1 0.2 0.3"/></geometry></collision>
  <collision><geometry><mesh filename="b.stl" scale="1 1 1"/></geometry></collision></link>
<link name="c"><inertial><origin xyz="0 0.1 0"/><mass value="0.3"/>
  <inertia ixx="0.01" iyy="0.015" izz="0.008" ixy="0" ixz="0" iyz="0"/></inertial></link>
<link name="tip"/>
<joint name="j1" type="revolute"><origin xyz="0.1 0 0.2" rpy="0.3 0 0.1"/><parent link="base"/><child link="a"/>
  <axis xyz="0 1 0"/><limit lower="-1" upper="1.5" effort="20" velocity="3"/><dynamics damping="0.2" friction="0.1"/>
</joint>
<joint name="j2" type="continuous"><origin xyz="0.2 0 0"/><parent link="a"/><child link="b"/><axis xyz="1 1 0"/></joint>
<joint name="j3" type="prismatic"><parent link="a"/><child link="c"/><axis xyz="0 0 1"/>
  <limit lower="0" upper="0.4" effort="5" velocity="1"/><mimic joint="j1" multiplier="0.5" offset="0.1"/></joint>
<joint name="j4" type="fixed"><origin xyz="0 0 0.3"/><parent link="b"/><child link="tip"/></joint>
<transmission name="t1"><type>simple</type><joint name="j1"><hardwareInterface>effort</hardwareInterface></joint>
  <actuator name="m1"><mechanicalReduction>50</mechanicalReduction></actuator></transmission>
<gazebo reference="b"><mu1>0.8</mu1></gazebo>
<gazebo reference="j2"><springStiffness>3</springStiffness></gazebo>
</robot>"""
PLUS = URDF.replace(
    "</robot>",
    """<loop name="L" type="spherical"><predecessor link="tip"><origin xyz="0.1 0 0"/></predecessor>
  <successor link="c"/></loop>
<coupling name="G"><predecessor link="b"/><successor link="c"/><ratio value="3"/></coupling></robot>""",
)
_SIX = "<inertia><ixx>0.1</ixx><iyy>0.2</iyy><izz>0.15</izz><ixy>0.01</ixy><ixz>0</ixz><iyz>0</iyz></inertia>"
SDF = f"""<sdf version="1.9"><world name="w"><gravity>0 0 -9.81</gravity><model name="m"><pose>0 0 1 0 0 0.2</pose>
<link name="base"><inertial><pose>0 0 0.05 0 0 0</pose><mass>3</mass>{_SIX}</inertial></link>
<link name="a"><pose relative_to="base">0.3 0 0 0.1 0.2 0.3</pose><inertial><mass>1</mass>{_SIX}</inertial></link>
<link name="b"><pose relative_to="a">0.3 0 0 0 0 0</pose><inertial><mass>0.5</mass>{_SIX}</inertial>
  <collision name="ball"><pose relative_to="a">0 0 0.1 0 0 0</pose><geometry><sphere><radius>0.1</radius></sphere>
  </geometry><surface><friction><ode><mu>0.6</mu></ode></friction></surface></collision></link>
<link name="c"><pose relative_to="base">0 0.3 0 0 0 0</pose><inertial><mass>0.6</mass>{_SIX}</inertial></link>
<frame name="tool" attached_to="b"><pose>0.1 0 0 0 0 0</pose></frame>
<joint name="j1" type="revolute"><parent>base</parent><child>a</child><axis><xyz>0 1 0</xyz>
  <limit><lower>-1</lower><upper>1</upper><effort>10</effort></limit>
  <dynamics><damping>0.5</damping><spring_stiffness>3</spring_stiffness></dynamics></axis></joint>
<joint name="j2" type="universal"><parent>a</parent><child>b</child><axis><xyz>0 1 0</xyz></axis>
  <axis2><xyz>0 0 1</xyz></axis2></joint>
<joint name="j3" type="prismatic"><parent>base</parent><child>c</child>
  <axis><xyz expressed_in="base">0 1 0</xyz></axis></joint>
<joint name="loop" type="ball"><pose>0.1 0.1 0 0 0 0</pose><parent>b</parent><child>c</child></joint>
</model></world></sdf>"""
MJCF = """<mujoco model="arm"><compiler angle="radian"/><option gravity="0 0 -9.81"/><worldbody>
<body name="base" pos="0 0 1"><freejoint name="root"/><inertial pos="0 0 0.1" mass="3" diaginertia="0.1 0.2 0.15"/>
  <body name="l1" pos="0 0.1 0" quat="0.9 0.1 0.2 0.3">
    <joint name="j1" axis="0 1 0" pos="0.01 0 0.02" range="-1 1" stiffness="3" springref="0.2" damping="0.3"/>
    <joint name="j1b" axis="1 0 0" armature="0.01"/>
    <geom type="capsule" fromto="0 0 0 0 0 -0.3" size="0.03" mass="0.7"/>
    <body name="l2" pos="0 0 -0.3"><joint name="j2" type="slide" axis="0 0 1"/><geom type="sphere" size="0.05"/></body>
  </body>
  <body name="r1" pos="0 -0.1 0"><joint name="k1" axis="0 1 0"/>
    <geom type="box" size="0.05 0.1 0.02" mass="0.4"/></body>
</body></worldbody>
<equality><joint name="e1" joint1="k1" joint2="j1" polycoef="0.1 2 0 0 0"/>
  <connect name="e2" body1="l2" body2="r1" anchor="0 0 0"/></equality>
<actuator><motor name="m1" joint="j1" gear="10"/><motor name="m2" joint="k1"/></actuator></mujoco>"""
YAML = """closed_loop: [[tip, c]]
type: [3d]
name_mot: [j1, j2]
joint_name: [j2]
joint_type: [UJOINT_XY]
"""
XML = {"urdf": URDF, "urdf_plus": PLUS, "sdf": SDF, "mjcf": MJCF}

NUMBERS = "nan inf -inf 1e400 -1 0 abc 1,5 0x10 1_000 １ 1e-320 1e38 1e39 1e200 1e308 1.0.0 --1 1e 1d3 true".split()
NUMBERS += ["null", "${x}", "1e12", "-1e-12", "", " ", "1" * 5000, "0.1 0.2", "0 0 0", "1 2 3 4 5 6 7"]
WORDS = ["", " ", "world", "a", "é", "机器人", "a b", "../x", "x::y", "__model__", "root_joint", "base", "'", '"', "&"]
WORDS += ["%s", "{}", "{0}", "\\", "\t", "\n", "x" * 3000, "None", "0", "ball", "fixed", "revolute", "floating"]
SNIPPETS = [
    '<loop name="L" type="revolute"><predecessor link="a"/><successor link="b"/></loop>',
    '<mimic joint="j1"/>',
    '<limit lower="2" upper="1" effort="-3"/>',
    '<dynamics damping="-1"/>',
    '<joint name="q" type="ball"/>',
    '<axis xyz="0 0 0"/>',
    "<gravity>false</gravity>",
    "<static>1</static>",
    '<inertial><mass value="-1"/></inertial>',
]


def mutated(form: str, seed: int) -> tuple[bytes, str]:
    """Return a broken XML file of a format, and in words what was done to it."""
    r = random.Random(f"{form} {seed}")
    if r.random() < 0.15:
        return _bytes(r, XML[form].encode())
    root, done = etree.fromstring(XML[form]), []
    for _ in range(r.choice([1, 1, 1, 2, 3])):
        done.append(_change(r, root))
    return etree.tostring(root), "; ".join(done)


def _change(r: random.Random, root) -> str:
    """Change one element; return what was done."""
    elements = list(root.iter())
    x = r.choice(elements)
    told = f"<{x.tag} {dict(x.attrib)}>"[:80]
    kind = r.choice(["number"] * 4 + ["word"] * 2 + list(CHANGES))
    if kind in CHANGES:
        CHANGES[kind](r, root, x)
        return f"{kind} {told}"
    places = [(e, k) for e in elements for k in (*e.attrib, *([None] if (e.text or "").strip() else []))]
    wanted = [p for p in places if is_number(_get(p)) == (kind == "number")]
    e, key = r.choice(wanted or places)
    parts = _get((e, key)).split()
    parts[r.randrange(len(parts))] = r.choice(NUMBERS if kind == "number" else WORDS)
    new = " ".join(parts)
    if key is None:
        e.text = new
    else:
        e.set(key, new)
    return f"{kind} {new[:30]!r} in {key} of <{e.tag}>"


def _get(place) -> str:
    e, key = place
    return (e.text if key is None else e.get(key)) or "0"


def is_number(text: str) -> bool:
    """Return whether all words of a text are numbers."""
    try:
        return bool([float(t) for t in text.split()])
    except ValueError:
        return False


def misspelt(r: random.Random, name: str) -> str:
    """Return a name with two letters exchanged, one doubled or left out, or in capitals."""
    k = r.randrange(max(1, len(name) - 1))
    swapped = name[:k] + name[k : k + 2][::-1] + name[k + 2 :]
    options = [swapped, name[:k] + name[k] * 2 + name[k + 1 :], name.upper(), name + "s"]
    return next((n for n in r.sample(options, 4) if n != name), name + "_")


def _rename_element(r, root, x):
    x.tag = misspelt(r, x.tag)


def _rename_attribute(r, root, x):
    if x.attrib:
        key = r.choice(list(x.attrib))
        value = x.attrib.pop(key)
        x.set(misspelt(r, key), value)


def _delete(r, root, x):
    if x is not root:
        x.getparent().remove(x)


def _drop_attribute(r, root, x):
    if x.attrib:
        x.attrib.pop(r.choice(list(x.attrib)))


def _double(r, root, x):
    if x is not root:
        x.addnext(copy.deepcopy(x))


def _move(r, root, x):
    places = [e for e in root.iter() if e is not x and x not in e.iterancestors()]
    if x is not root and places:
        r.choice(places).append(x)


def _wrap(r, root, x):
    if x is not root:
        around = etree.Element(r.choice(["group", x.tag]))
        x.addprevious(around)
        around.append(x)


def _nest(r, root, x):
    for _ in range(r.choice([10, 300, 2000])):
        x = etree.SubElement(x, r.choice(["link", "x", "body", "model"]))


def _insert(r, root, x):
    x.append(etree.fromstring(r.choice(SNIPPETS)))


def _exchange(r, root, x):
    y = r.choice(list(root.iter(x.tag)))
    for key in set(x.attrib) & set(y.attrib):
        (a, b) = (x.get(key), y.get(key))
        x.set(key, b)
        y.set(key, a)
    if not len(x) and not len(y):
        x.text, y.text = y.text, x.text


CHANGES = {
    "misspell": _rename_element,
    "misspell an attribute of": _rename_attribute,
    "delete": _delete,
    "drop an attribute of": _drop_attribute,
    "double": _double,
    "move": _move,
    "wrap": _wrap,
    "nest in": _nest,
    "insert into": _insert,
    "exchange": _exchange,
}


def _bytes(r: random.Random, data: bytes) -> tuple[bytes, str]:
    """Break the text of a file."""
    k = r.randrange(len(data))
    noise = bytes(r.randrange(256) for _ in range(r.choice([1, 5, 100])))
    root = data.split(b" ", 1)[0][1:]
    options = {
        "cut": data[:k],
        "noise": data[:k] + noise + data[k:],
        "null": data[:k] + b"\0" + data[k:],
        "latin-1": data.replace(b'name="', b'name="\xe9', 3),
        "utf-16": data.decode().encode("utf-16"),
        "encoding": b'<?xml version="1.0" encoding="nonsense"?>' + data,
        "entity": b"<!DOCTYPE " + root + b' [<!ENTITY x "y">]>' + data.replace(b">", b">&x;", 1),
        "long": data.replace(b'name="', b'name="' + b"A" * 100_000, 1),
        "namespace": data.replace(b"<" + root, b"<" + root + b' xmlns="http://x.y/z"', 1),
        "empty": r.choice([b"", b"<", b"<a/>", b"<" + root + b"/>"]),
    }
    kind = r.choice(list(options))
    return options[kind], f"bytes: {kind}"


def mutated_yaml(seed: int) -> tuple[bytes, str]:
    """Return a broken robot.yaml, and in words what was done to it."""
    r = random.Random(f"yaml {seed}")
    lines = YAML.splitlines()
    k = r.randrange(len(lines))
    key, value = lines[k].split(": ")
    odd = [
        "null",
        "1",
        "1.5",
        "[]",
        "{}",
        "''",
        "[a, b]",
        ".nan",
        "2001-99-99",
        "!!set {a, b}",
        "!x y",
        "*a",
        "'a\\0b'",
    ]
    odd += ["!!python/name:os.system", "1" * 5000, "0x_", "[" * 500, "é", '"\\0"', "x" * 3000, "190:20:30", "."]
    word = value.strip("[]").split(", ")[0]
    options = {
        "value": [*lines[:k], f"{key}: {r.choice(odd)}", *lines[k + 1 :]],
        "word": [*lines[:k], f"{key}: {value.replace(word, r.choice(odd), 1)}", *lines[k + 1 :]],
        "key": [*lines[:k], f"{misspelt(r, key)}: {value}", *lines[k + 1 :]],
        "drop": lines[:k] + lines[k + 1 :],
        "double": [*lines, lines[k]],
        "more": [*lines, r.choice(["? [a, b]\n: c", "null: 1", "1: 2", "<<: {urdf: x}", "---\na: b", "\t", "foo: 1"])],
        "urdf": [*lines, "urdf: " + r.choice([*odd, "robot.yaml", "/dev/null", "..", "none.urdf"])],
        "cut": [YAML[: r.randrange(len(YAML))]],
    }
    kind = r.choice(list(options))
    text = "\n".join(options[kind]).encode()
    return (text.decode().encode("utf-16"), "utf-16") if r.random() < 0.05 else (text, f"{kind} at {key}")
