"""`load` and `load_spec` read a model from a file or text. The root element of the XML determines the format."""

import os
import warnings
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from ..model.model import Model
from ..model.spec import ModelSpec
from ..model.values import ModelWarning
from ..robots.shipped import SHIPPED, missing
from ..spatial.instances import check_flag, check_instance
from ..spatial.numbers import constants, not_negative
from . import mjcf, robot_yaml, sdf, urdf
from .files import is_there
from .shapes import Wanted
from .xml import Document, brief, cut, fail, parse, read

FORMATS = {"robot": urdf.load, "sdf": sdf.load, "mujoco": mjcf.load}


def load(
    source: str | os.PathLike,
    *,
    floating: bool | None = None,
    name: str | None = None,
    compiler: Literal["auto", "kernel", "xla"] = "auto",
    ground: bool | float = False,
    self_collisions: bool = False,
    collision: Wanted | None = None,
) -> Model:
    """Return a model from URDF, URDF+, SDF or MJCF, from a `robot.yaml` next to a URDF, or of a shipped robot.

    **Arguments:**

    - `source`: a path, or the XML itself (a text that contains ``<``), or the name of a robot that jaxdyn ships,
      ``"four_bar"`` or ``"strider"``, if there is no file of that name. A folder stands for the `robot.yaml` in it. A
      URDF given by its own path is read without the YAML next to it.
    - `floating`: True if the base floats, on a `Free` joint named ``root_joint``. By default a URDF is fixed
      unless it has a floating joint (whose name is kept), an SDF model floats unless it is static or a joint
      ties it to the world, and an MJCF model floats if it has a free joint.
    - `name`: the model's name (default: the file's).
    - `compiler`: the compiler of the robot's programs, see `Model.with_compiler`.
    - `ground`: True adds the plane z = 0 as the shape ``"ground"``, with which all shapes collide; a number does so
      with this coefficient of friction (default: 1).
    - `self_collisions`: True if bodies of one tree collide with each other.
    - `collision`: the shapes of the file to read: "all", "primitives" (those without mesh files), or "none". By default
      "all" if there is a `ground` or `self_collisions`, else "primitives", and calls with contact warn of meshes that
      were not read.

    Links on fixed joints become frames of the same name. Loops, gears and mimic joints become the model's
    `constraints`, motors its `actuation`. For anything else in the file that would affect the motion, `load` raises an
    error or gives a `ModelWarning`.

    **Raises** `FileNotFoundError`, or `ValueError` naming the file, the line and the element at fault; `ImportError`
    for MJCF without the extra ``jaxdyn[mjcf]``.

    ```python
    model = jd.load("cassie.sdf")
    ```
    """
    options = {"ground": ground, "self_collisions": self_collisions, "collision": collision}
    check_instance("`load`", "compiler", compiler, str)
    spec = load_spec(source, floating=floating, name=name, **options)  # type: ignore
    try:
        return spec.build().with_compiler(compiler)
    except ValueError as error:
        origin = "text" if isinstance(source, str) and "<" in source else Path(source).name
        raise ValueError(f"`load`: {origin}: {cut(str(error))}") from error


def load_spec(
    source: str | os.PathLike,
    *,
    floating: bool | None = None,
    name: str | None = None,
    ground: bool | float = False,
    self_collisions: bool = False,
    collision: Wanted | None = None,
) -> ModelSpec:
    """Return the `ModelSpec` from which `load` builds the model, so that it can be changed first. Arguments as in
    `load`.

    Raises the errors of `load`.
    """
    check_flag("`load`", "self_collisions", self_collisions)
    known = get_args(Wanted)
    if collision is not None and (not isinstance(collision, str) or collision not in known):
        raise ValueError(f"`load`: `collision` is {brief(collision)}, none of {', '.join(map(repr, known))}.")
    if isinstance(ground, np.bool_):
        ground = bool(ground)
    grounded = ground is not False and ground is not None
    default = "all" if grounded or self_collisions else "primitives"
    spec = _spec(source, floating, name, collision or default)
    if collision is not None:
        spec.unread.clear()
    spec.self_collisions = bool(self_collisions)
    if grounded:
        _ground(spec, ground)
    return spec


def _ground(spec: ModelSpec, ground: bool | float) -> None:
    """Add the ground. Raise `ValueError` if a shape has its name; warn if the file has a plane."""
    if "ground" in spec.shapes:
        raise ValueError("`load`: `ground`: the file has a shape 'ground' already; leave `ground` out, or rename it.")
    planes = [c.name for c in spec.shapes.values() if c.shape.kind == "plane"]
    if planes:
        text = f"`load`: `ground`: the file has a plane already, {brief(planes[0])}; now there are two."
        warnings.warn(text, ModelWarning, stacklevel=3)
    spec.add_ground(1.0 if ground is True else constants("`load`", "ground", ground, (), not_negative))


def _spec(source: str | os.PathLike, floating: bool | None, name: str | None, collision: Wanted) -> ModelSpec:
    """Return the `ModelSpec` of a file without the ground."""
    if floating is not None and not isinstance(floating, bool):
        raise TypeError(f"`load`: `floating` is {brief(floating)}, not True, False or None.")
    if name is not None and (not isinstance(name, str) or not name):
        raise TypeError(f"`load`: `name` is {brief(name)}, not a name.")
    if isinstance(source, str) and "<" in source:
        return load_document(parse(source), floating, name, collision)
    if not isinstance(source, str | os.PathLike):
        raise TypeError(f"`load`: `source` is {type(source).__name__}, not a path or an XML text.{_hint(source)}")
    path = Path(source)
    if not str(source).strip() or not is_there(path):
        if source not in SHIPPED:
            raise FileNotFoundError(f"`load`: {missing(source)}")
        shipped = SHIPPED[source]
        if not isinstance(shipped, Path):
            return _built(shipped(), floating, name)
        path = shipped
    if path.is_dir():
        path = path / "robot.yaml"
        if not path.is_file():
            raise FileNotFoundError(f"`load`: the folder {path.parent.name!r} holds no robot.yaml; name a file in it.")
    if path.suffix in (".yaml", ".yml"):
        return robot_yaml.load(path, floating, name, collision)
    return load_document(read(path), floating, name, collision)


def _hint(source: Any) -> str:
    """Return advice where the model of another engine is in the place of a file."""
    if hasattr(source, "to_xml"):  # MuJoCo's `MjSpec`
        return " Give its text, `source.to_xml()`."
    if hasattr(source, "njoints") or hasattr(source, "njnt"):  # models of Pinocchio and MuJoCo
        return " Give the file that it was made from."
    return ""


def _built(spec: ModelSpec, floating: bool | None, name: str | None) -> ModelSpec:
    """Return a shipped robot that is built in Python. All of these have floating bases."""
    if floating is False:
        raise ValueError(f"`load`: `floating` is False, but the base of the shipped robot {spec.name!r} floats.")
    spec.name = name or spec.name
    return spec


def load_document(
    document: Document, floating: bool | None, name: str | None, collision: Wanted = "primitives"
) -> ModelSpec:
    """Return the `ModelSpec` of an XML document, whose root element determines the format."""
    root = document.root
    if root.tag not in FORMATS:
        fail(root, "it is the root of no robot format; known are <robot> (URDF), <sdf> and <mujoco>.")
    try:
        return FORMATS[root.tag](document, floating, name, collision=collision)
    except RecursionError:
        fail(root, "its parts refer to each other over too many steps.")
