"""What the tests of the loaders share: small URDFs, the robots of example-robot-data, and loads without warnings."""

import warnings
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
import oracle

from jaxdyn.loaders.load import load

#: where the package example-robot-data keeps its robots
ROBOTS = Path(str(distribution("example-robot-data").locate_file("cmeel.prefix/share/example-robot-data/robots")))


def link(name, mass=1.0, com=(0.1, 0.0, 0.2), inertia=(0.01, 0.02, 0.015), inner=""):
    """A `<link>` with an inertial."""
    moments = f'ixx="{inertia[0]}" iyy="{inertia[1]}" izz="{inertia[2]}" ixy="0" ixz="0" iyz="0"'
    return f"""<link name="{name}"><inertial><origin xyz="{" ".join(map(str, com))}"/><mass value="{mass}"/>
      <inertia {moments}/></inertial>{inner}</link>"""


def joint(name, parent, child, kind="revolute", xyz="0 0 0.3", axis="0 1 0", inner="", attributes=""):
    """A `<joint>` of a URDF."""
    limit = '<limit lower="-1" upper="2" effort="30" velocity="5"/>' if kind in ("revolute", "prismatic") else ""
    return f"""<joint name="{name}" type="{kind}" {attributes}><parent link="{parent}"/><child link="{child}"/>
      <origin xyz="{xyz}" rpy="0.1 0.2 0.3"/><axis xyz="{axis}"/>{limit}{inner}</joint>"""


def urdf(*parts, name="robot"):
    """A URDF of the given elements."""
    return f'<robot name="{name}">' + "\n".join(parts) + "</robot>"


def arm(*extra, n=2):
    """base, then links l1 to ln in a chain of joints j1 to jn, and what else is given."""
    names = ["base", *(f"l{k}" for k in range(1, n + 1))]
    joints = [joint(f"j{k}", names[k - 1], names[k]) for k in range(1, n + 1)]
    return urdf(*map(link, names), *joints, *extra)


def quiet(source, **options):
    """`load` with its warnings off."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return load(source, **options)


def closed(model, q=None, steps=50):
    """Newton's method on the constraints, by the independent reference: a closed q and its residual."""
    q = np.array(model.neutral() if q is None else q)
    for _ in range(steps):
        r = oracle.constraint_residual(model, q)
        if np.abs(r).max() < 1e-12:
            break
        step = -np.linalg.lstsq(oracle.constraint_jacobian(model, q), r, rcond=1e-9)[0]
        q = oracle.integrate(model, q, step * min(1.0, 0.3 / max(np.abs(step).max(), 1e-12)), 1.0)
    return q, np.abs(oracle.constraint_residual(model, q)).max()


def mujoco_mass_matrix(mm, data):
    """MuJoCo's mass matrix (nv, nv) where `data` is."""
    import mujoco

    M = np.zeros((mm.nv, mm.nv))
    try:
        mujoco.mj_fullM(mm, data, M)
    except TypeError:  # the signature before MuJoCo 4
        mujoco.mj_fullM(mm, M, data.qM)
    return M
