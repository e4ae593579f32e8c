"""Curves of states and models along which loops stay closed, and derivatives of the reference along them.

A `Curve` changes everything at once or one kind of argument alone; its tangent at 0 is what forward mode is given, and
central differences of fourth order along it, in dense algebra, are what must come out.
"""

import functools
from typing import NamedTuple

import catalogue
import jax
import numpy as np
import oracle
from catalogue import CATALOGUE
from oracle_joints import turn

STEP = 2e-5

#: what a curve may move, apart from tau and external: fields of the model by their dotted names
INERTIAS = ("bodies.mass", "bodies.center_of_mass", "bodies.rotational")
GAINS = ("joints.armature", "joints.damping", "joints.stiffness", "gravity")
GEOMETRY = ("bodies.placement", "joints.axis", "joints.pitch", "frames")


class Point(NamedTuple):
    """All arguments of forward dynamics at one place of a curve."""

    model: object
    q: np.ndarray
    v: np.ndarray
    tau: np.ndarray
    external: np.ndarray


def slope(f, step=STEP):
    """Derivative at 0 of a function with tree values, by central differences of fourth order."""
    return jax.tree.map(
        lambda a, b, c, d: _finite(8 * (np.asarray(b) - c) - (np.asarray(a) - d)) / (12 * step),
        *(f(k * step) for k in (2, 1, -1, -2)),
    )


def _finite(x):
    """Zero for limits that are infinite at both ends."""
    return np.where(np.isnan(x), 0.0, x)


def _turned(R, w):
    """Rotations (..., 3, 3), each turned by its rotation vector (..., 3)."""
    flat = [r @ _rotation(x) for r, x in zip(R.reshape(-1, 3, 3), w.reshape(-1, 3), strict=True)]
    return np.array(flat).reshape(R.shape)


def _rotation(w):
    angle = np.linalg.norm(w)
    return turn(w / angle, angle) if angle > 0 else np.eye(3)


def _moved(value, s, rng, path):
    """A leaf moved to the place s of its curve: rotations stay rotations, axes of unit length, inertias symmetric."""
    x = np.asarray(value)
    d = rng.normal(size=x.shape)
    if path.endswith("rotation"):
        return _turned(x, s * rng.normal(size=x.shape[:-1]))
    if path.endswith("rotational"):
        return x + s * 0.1 * (d + np.swapaxes(d, -1, -2)) * np.trace(x, axis1=-2, axis2=-1)[..., None, None]
    if path.endswith(("axis", "axis2")):
        y = x + s * d
        return y / np.linalg.norm(y, axis=-1, keepdims=True)
    if path.endswith(".mass"):
        return x * (1 + 0.3 * s * d)
    return x + s * 0.3 * d


def moved_model(model, paths, s, seed, planar):
    """The model with the leaves under `paths` moved; `planar` mechanisms in the plane y = 0 stay in it."""
    rng = np.random.default_rng(seed)
    with_paths, tree = jax.tree_util.tree_flatten_with_path(model)
    out = []
    for keys, leaf in with_paths:
        path = jax.tree_util.keystr(keys, simple=True, separator=".")
        draw = np.random.default_rng(rng.integers(1 << 31))
        if not any(path.startswith(p) for p in paths) or path.endswith(("lower", "upper", "effort", "friction")):
            out.append(np.asarray(leaf))
        elif planar and path.endswith(("rotation", "axis", "axis2")):
            out.append(np.asarray(leaf))
        else:
            new = _moved(leaf, s, draw, path)
            if planar and path.endswith("translation"):
                new = np.where(np.arange(3) == 1, np.asarray(leaf), new)
            out.append(new)
    return jax.tree.unflatten(tree, out)


@functools.cache
def robot_of(name):
    return CATALOGUE[name].build()


def closed_at(name, robot, q, v):
    """Loops closed from q, and v taken along them."""
    entry = CATALOGUE[name]
    if entry.singular or not robot.constraints:
        return q, v
    q = catalogue._close(robot, q)
    left, s, right = np.linalg.svd(oracle.constraint_jacobian(robot, q), full_matrices=False)
    keep = s > 1e-7 * s[0]
    # once more: stabilisation multiplies what is left open by thousands
    error = (left.T @ oracle.constraint_residual(robot, q))[keep] / s[keep]
    q = oracle.integrate(robot, q, -right[keep].T @ error, 1.0)
    _, s, right = np.linalg.svd(oracle.constraint_jacobian(robot, q), full_matrices=False)
    kept = right[s > 1e-7 * s[0]]
    return q, v - kept.T @ (kept @ v)


def curve(name, q, v, tau, external, moves, seed, planar):
    """A function s -> `Point`. `moves`: of "q", "v", "tau", "external" and paths of the model."""
    entry, model = CATALOGUE[name], robot_of(name)
    rng = np.random.default_rng(seed)
    dq, dv, dtau = rng.normal(size=(3, model.nv))
    dx = rng.normal(size=external.shape) * np.minimum(1.0, np.asarray(model.bodies.mass))[:, None]
    paths = tuple(m for m in moves if m not in ("q", "v", "tau", "external"))
    spin = entry.singular  # along such poses only the motions of the sampled velocities lead
    dq, dv = (v, v) if spin else (dq, dv)

    @functools.cache
    def at(s):
        now = moved_model(model, paths, s, seed + 1, planar) if paths else jax.tree.map(np.asarray, model)
        robot = oracle.read(now)
        there = oracle.integrate(robot, q, dq, s) if "q" in moves else q
        there, speed = closed_at(name, robot, there, v + s * dv if "v" in moves else v)
        return Point(
            now,
            there,
            speed,
            tau + s * dtau if "tau" in moves else tau,
            external + s * dx if "external" in moves else external,
        )

    return at


def reference(point: Point):
    """(acceleration, multipliers) in dense algebra."""
    found = oracle.forward_dynamics(*point[:4], external=point.external, tolerance=1e-7)
    return found.acceleration, found.multipliers
