"""The loader of a `robot.yaml` next to a URDF, which lists the frames that close loops (Gepetto's
example-parallel-robots).

| key | meaning |
| --- | --- |
| `closed_loop` | pairs of frames that coincide: names of links, or of joints for the links that they move |
| `type` | `3d` (a `Point`) or `6d` (a `Weld`, the default) for each pair; the constraint is named ``<a>/<b>`` |
| `name_mot` | the joints with motors; without it every joint with one velocity has one |
| `joint_name`, `joint_type` | joints to change, and their types: `SPHERICAL`, `FIXED`, `UJOINT_XY` or other axes |
| `urdf` | the URDF's file name (default: `robot.urdf`, or the only URDF of the folder) |

`UJOINT_XY` stands for a `Universal` joint about the joint frame's x, then y. A joint that becomes spherical or
universal keeps its damping and friction. The limits, effort and spring of its former axis are dropped, the spring with
a warning.
"""

import re
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import yaml

from ..model.joints import Fixed, Spherical, Universal
from ..model.pairs import Point, Weld
from ..model.spec import ModelSpec
from ..tree.topology import unknown
from . import urdf
from .files import check_regular, read_bytes
from .shapes import Wanted
from .skeleton import Connection
from .xml import brief, cut, nearest, read, warn

KEYS = ("closed_loop", "type", "name_mot", "joint_name", "joint_type", "urdf")
#: the texts that stand for an empty value in YAML
EMPTY = ("", "~", "null")
AXES = dict(zip("XYZ", np.eye(3), strict=True))


#: largest nesting depth that is read; lists of lists in a mapping need 3
DEEPEST = 8
TOO_DEEP = "it nests too deeply"
_BASE: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


class _Loader(_BASE):
    """Reads lists, mappings and strings only, so that ``1`` and ``no`` remain names. Raises an error for a repeated
    key."""

    def construct_mapping(self, node, deep=False):
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a key is no plain word", key.start_mark)
            if key.value in seen:
                told = f"key {brief(key.value)} occurs twice"
                raise yaml.constructor.ConstructorError(None, None, told, key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def plain(data: bytes) -> bytes:
    """Return the bytes of a YAML file unchanged. Raise for aliases, which can expand without bound, for tags, and for
    deep nesting."""
    depth = 0
    for event in yaml.parse(data, _BASE):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        told = None
        if isinstance(event, yaml.AliasEvent):
            told = "aliases are not read"
        elif getattr(event, "tag", None) not in (None, "!"):
            told = f"the tag {brief(event.tag)} is not read"
        elif depth > DEEPEST:
            told = TOO_DEEP
        if told is not None:
            raise yaml.constructor.ConstructorError(None, None, told, event.start_mark)
    return data


def contents(path: Path) -> dict[str, Any]:
    """Return the mapping in a YAML file. Raise `ValueError` naming file and line for YAML that cannot be read, and for
    unknown keys."""

    def bad(text: str, line: int | None = None) -> NoReturn:
        raise ValueError(f"`load`: {path.name}{'' if line is None else f', line {line + 1}'}: {cut(text)}") from None

    try:
        data = yaml.load(plain(read_bytes(path)), _Loader)
    except yaml.MarkedYAMLError as error:
        # libyaml has its own limit, which newer versions check before the first event
        problem = TOO_DEEP if "nesting depth" in str(error.problem) else error.problem
        bad(f"the YAML cannot be read: {problem}.", error.problem_mark.line if error.problem_mark else None)
    except (yaml.YAMLError, UnicodeError) as error:
        bad(f"the YAML cannot be read: {brief(str(error))}.")
    if not isinstance(data, dict):
        bad(f"a mapping with `closed_loop` is needed, not {type(data).__name__}.")
    for key in data:
        if key not in KEYS:
            near = nearest(key, KEYS)
            hint = f"Did you mean {near}?" if near else f"The keys are {', '.join(KEYS)}."
            bad(f"there is no key {brief(key)}. {hint}")
    return data


def strings(path: Path, data: dict, key: str) -> list[str]:
    """Return the list of names under a key, empty if the key is absent. Raise `ValueError` for anything else, and for a
    motor or joint that is named twice."""
    value = data.get(key) or []
    value = [] if value in EMPTY else value
    if not isinstance(value, list) or not all(isinstance(x, str) for x in value):
        raise ValueError(f"`load`: {path.name}: `{key}` is not a list of names.")
    seen: set[str] = set()
    for name in value if key in ("name_mot", "joint_name") else ():
        if name in seen:
            raise ValueError(f"`load`: {path.name}: `{key}` holds {brief(name)} twice.")
        seen.add(name)
    return value


def retyped(path: Path, connection: Connection, kind: str) -> None:
    """Change the joint to the type that the YAML states. Warn if it loses a spring."""
    old = connection.joint
    if kind.upper() == "FIXED":
        connection.joint = Fixed(old.name)
    elif kind.upper() == "SPHERICAL":
        connection.joint = Spherical(old.name, damping=old.damping, friction=old.friction)
    elif re.fullmatch("UJOINT_(?!XX|YY|ZZ)[XYZ]{2}", kind.upper()):
        first, second = (tuple(AXES[c]) for c in kind.upper()[-2:])
        options = {"damping": old.damping, "friction": old.friction}
        connection.joint = Universal(old.name, axis=first, axis2=second, **options)
    else:
        known = "SPHERICAL, FIXED, or UJOINT_ with two different of X, Y, Z"
        raise ValueError(f"`load`: {path.name}: joint {old.name!r}: the type {brief(kind)} is none of {known}.")
    if np.any(old.stiffness) and connection.joint.kind.nv:
        told = f"has a spring, which is left out, for {path.name} makes it {brief(kind)}"
        warn(connection.element, f"joint {old.name!r} {told}.")


def urdf_beside(path: Path, data: dict) -> Path:
    """Return the path of the URDF to which the YAML belongs."""
    if "urdf" in data:
        if not isinstance(data["urdf"], str):
            raise ValueError(f"`load`: {path.name}: `urdf` is not a file name.")
        named = path.parent / data["urdf"]
        check_regular(named, f"{path.name}: `urdf`")
        return named
    beside = path.parent / "robot.urdf"
    found = [beside] if beside.is_file() else sorted(path.parent.glob("*.urdf"))
    if len(found) != 1:
        raise ValueError(f"`load`: {path.name}: there is no robot.urdf beside it; name the URDF by the key `urdf`.")
    return found[0]


def load(
    path: Path, floating: bool | None = None, name: str | None = None, collision: Wanted = "primitives"
) -> ModelSpec:
    """Return the `ModelSpec` of a `robot.yaml` and the URDF next to it.

    **Raises** `ValueError` naming the key and the frame, joint or type at fault.
    """
    data = contents(path)
    document = read(urdf_beside(path, data))
    joints, kinds = strings(path, data, "joint_name"), strings(path, data, "joint_type")
    if len(joints) != len(kinds):
        raise ValueError(f"`load`: {path.name}: {len(joints)} `joint_name` for {len(kinds)} `joint_type`.")

    def retype(connections: dict[str, Connection]) -> None:
        for joint, kind in zip(joints, kinds, strict=True):
            if joint not in connections:
                raise ValueError(f"`load`: {path.name}: `joint_name`: " + unknown("joint", joint, connections))
            retyped(path, connections[joint], kind)

    spec = urdf.load(document, floating, name, retype, drive="name_mot" not in data, collision=collision)
    moving = {b.joint.name: b.joint for b in spec.bodies.values() if b.joint.kind.nv}
    for motor in strings(path, data, "name_mot"):
        if motor not in moving:
            raise ValueError(f"`load`: {path.name}: `name_mot`: " + unknown("moving joint", motor, moving))
        if moving[motor].kind.nv != 1:
            raise ValueError(f"`load`: {path.name}: `name_mot`: joint {motor!r} has more than one velocity.")
        spec.add_actuator(motor)
    moved = {j.get("name").strip(): j.find("child").get("link").strip() for j in document.root.findall("joint")}
    close(path, data, spec, moved)
    return spec


def close(path: Path, data: dict, spec: ModelSpec, moved: dict[str, str]) -> None:
    """Add a constraint for every pair in `closed_loop`. `moved` maps joints to their child links."""
    pairs, kinds = data.get("closed_loop") or [], strings(path, data, "type")
    pairs = [] if pairs in EMPTY else pairs
    if not isinstance(pairs, list) or not all(
        isinstance(p, list) and len(p) == 2 and all(isinstance(x, str) for x in p) for p in pairs
    ):
        raise ValueError(f"`load`: {path.name}: `closed_loop` is not a list of pairs of frame names.")
    kinds = kinds or ["6d"] * len(pairs)
    if len(kinds) != len(pairs):
        raise ValueError(f"`load`: {path.name}: {len(pairs)} pairs in `closed_loop` for {len(kinds)} `type`.")
    known = {**moved, **{link: link for link in (*spec.bodies, *spec.frames, "world")}}
    for pair, kind in zip(pairs, kinds, strict=True):
        for frame in pair:
            if frame not in known:
                raise ValueError(f"`load`: {path.name}: `closed_loop`: " + unknown("frame", frame, known))
        if kind.lower() not in ("3d", "6d"):
            raise ValueError(f"`load`: {path.name}: `type` {brief(kind)} of {brief(pair)} is neither 3d nor 6d.")
        if any(c.name == "/".join(pair) for c in spec.constraints):
            raise ValueError(f"`load`: {path.name}: `closed_loop` has {brief(pair)} twice.")
        build: Any = Point if kind.lower() == "3d" else Weld
        try:
            spec.add_constraint(build(*(known[frame] for frame in pair), name="/".join(pair)))
        except ValueError as error:
            raise ValueError(f"`load`: {path.name}: `closed_loop`: {cut(str(error))}") from error
