"""What `jaxdyn` exports and where: functions and core types flat, families in their namespaces."""

import ast
import inspect
import re
import typing
from pathlib import Path

import numpy as np
import pages
import pytest

import jaxdyn as jd
from jaxdyn import extend

FAMILIES = {
    "joints": "Free Revolute Prismatic Spherical Planar Translation Universal Cylindrical Helical Fixed",
    "constraints": "Baumgarte Weld Hinge Slider Cylinder Point PointOnPlane Distance Coupling CenterOfMass General "
    "Lock Transmission Constraint",
    "contact": "ADMM Auto Contacts Detection Explanation Law Newton PGS detect explain",
    "shapes": "Sphere Capsule Box Cylinder Ellipsoid Mesh Plane HeightField Shape",
    "solvers": "ABA PV PVEarly PVSoft ConstrainedABA ProxPV LCABA ProxBBO LTL LTLSoft ProxLTL ProxLTLSoft Dense Auto "
    "Unified Solver",
    "osim": "ConstrainedABA Dense EFPA KJR LTL MatrixFree PV PVFast PVReduced Method Solved conjugate_gradient "
    "largest_eigenvalue linear_operator",
    "integrators": "Leapfrog SemiImplicitEuler ImplicitMidpoint RungeKutta Gauss RK4 Integrator",
}


@pytest.mark.parametrize("family", FAMILIES)
def test_families_are_namespaces(family):
    place = getattr(jd, family)
    names = FAMILIES[family].split()
    assert sorted(place.__all__) == sorted(names)
    assert all(inspect.isclass(getattr(place, n)) == n[0].isupper() for n in names)
    for name in names:
        with pytest.raises(AttributeError, match=rf"no attribute '{name}'; use .*`jd\.{family}\.{name}`"):
            getattr(jd, name)


def test_other_names_are_unknown_as_ever():
    assert not hasattr(jd, "no_such_name")
    with pytest.raises(ImportError):
        exec("from jaxdyn import no_such_name")


def test_modules_beside_the_surface_are_told(monkeypatch):
    for name in ("extend", "interop"):
        monkeypatch.delattr(jd, name, raising=False)
        with pytest.raises(AttributeError, match=f"no attribute '{name}'; use `from jaxdyn import {name}`"):
            getattr(jd, name)


def test_flat_names_are_functions_and_core_types():
    assert {n for n in jd.__all__ if inspect.ismodule(getattr(jd, n))} == set(FAMILIES)
    types = {n for n in jd.__all__ if inspect.isclass(getattr(jd, n))}
    core = "Commands Delassus Inertia Jump Model ModelSpec ModelWarning Result Solution State Stats Trajectory"
    assert types == {*core.split(), "Transform", "WarmStart"}


def test_what_an_editor_shows():
    """After a dot the public names, and on a line what a thing is."""
    assert set(dir(jd)) == {*jd.__all__, "__version__"} and set(dir(jd.contact)) == set(jd.contact.__all__)
    spec = jd.load_spec("four_bar")
    assert repr(spec) == "ModelSpec('four_bar', bodies=4, frames=0, shapes=0, constraints=1, actuators=1)"
    operator = jd.delassus(spec.build(), np.zeros(3))
    assert repr(operator) == "Delassus(MatrixFree(), shape=(3, 3))"
    assert repr(operator.with_damping(0.1)) == "Delassus(MatrixFree(), shape=(3, 3), damped)"
    for method in ("add_body", "add_frame", "add_shape", "add_ground", "add_pair", "exclude", "add_actuator"):
        assert typing.get_type_hints(getattr(jd.ModelSpec, method))["return"] is typing.Self, method


def test_robots_are_found_by_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert jd.load("four_bar").body_names == ("crank", "coupler", "rocker")
    assert jd.load("strider", name="biped").name == "biped"
    assert jd.load("four_bar", floating=True).nv == 9
    with pytest.raises(FileNotFoundError, match=r"no file 'spot', and no robot.*strider, four_bar"):
        jd.load("spot")
    with pytest.raises(ValueError, match="`floating` is False, but .* 'strider' floats"):
        jd.load("strider", floating=False)


def test_a_path_goes_before_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "four_bar").write_text("<robot name='mine'><link name='a'/></robot>")
    assert jd.load_spec("four_bar").name == "mine"


def test_extending_needs_one_module():
    page = (Path(__file__).resolve().parents[1] / "docs" / "extending.md").read_text()
    assert set(re.findall(r"from jaxdyn([\w.]*) import", page)) == {".extend"}
    assert set(re.findall(r"`(\w+)`", extend.__doc__)) >= set(extend.__all__) - {"matrices"}
    assert all(hasattr(extend, n) for n in extend.__all__)


PAGE = Path(__file__).resolve().parents[1] / "docs" / "extending.md"
#: what is written from the page alone, and the classes of its blocks
AUTHORS = {
    "a joint": "RollingKind Rolling",
    "a constraint": "Height",
    "a solver": "Stacked",
    "a recursion": "Loops",
}


@pytest.mark.parametrize("what", AUTHORS)
def test_an_author_needs_one_module_and_sixty_lines(what):
    """The block that defines the classes is shorter, takes everything from `jaxdyn` and `jaxdyn.extend`, and says
    nothing of compilers; that it runs, `test_docs.py` checks."""
    code = next(code for _, code in pages.blocks(PAGE) if f"class {AUTHORS[what].split()[0]}(" in code)
    tree = ast.parse(code)
    classes = {x.name: x for x in tree.body if isinstance(x, ast.ClassDef)}
    assert set(AUTHORS[what].split()) <= set(classes)
    assert sum(x.end_lineno - x.lineno + 1 for x in tree.body if not isinstance(x, ast.Assert)) < 60
    imported = [x for x in ast.walk(tree) if isinstance(x, ast.ImportFrom)]
    assert {x.module for x in imported if x.module.startswith("jaxdyn")} == {"jaxdyn.extend"}
    assert not re.search(r"compil|kernel|llvm|\bxla\b|lower|jaxpr|lax\.|primitive|sweep", code, re.I)
