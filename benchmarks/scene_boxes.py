"""Scenes of free boxes: stacks, a square pyramid, boxes side by side. Each pair of faces touches at four points."""

import dataclasses
import itertools

import numpy as np
from scene_parts import ContactScene, Poses, Touch, contacts, moved, upright

import jaxdyn as jd

SIDE = 0.3
#: distance between neighbours of a layer, which do not touch
GAP = 0.02
#: standard deviation of the displacements of boxes, metres and radians
SPREAD = 0.005


def add_box(spec: jd.ModelSpec, name: str, rng, side: float = SIDE) -> str:
    """Add a box of random mass on a free joint, and return its name."""
    mass = rng.uniform(0.5, 2.0)
    inertia = jd.Inertia(mass, (0, 0, 0), np.eye(3) * mass * side**2 / 6)
    spec.add_body(name, "world", jd.joints.Free(name=name), inertia=inertia)
    return name


def placed(model: jd.Model, places: dict[str, tuple]) -> np.ndarray:
    """Return the configuration with boxes at these centres and axes along those of the world."""
    q = np.array(model.neutral())
    for name, (x, y, z) in places.items():
        q[model.q_slice(name)] = (x, y, z, 1, 0, 0, 0)
    return q


def face(poses: Poses, a: str, b: str, low, high) -> list[Touch]:
    """Return contacts at the corners of the rectangle from `low` to `high` (2,) in the lower face of box a on b."""
    corners = itertools.product((low[0], high[0]), (low[1], high[1]))
    return [(a, b, poses[a] @ upright((x, y, -SIDE / 2))) for x, y in corners]


WHOLE = (-SIDE / 2, -SIDE / 2), (SIDE / 2, SIDE / 2)


def stack(n: int = 30, seed: int = 0) -> ContactScene:
    """Return a stack of `n` boxes: 4n contacts, nv = 6n."""
    rng, spec = np.random.default_rng(seed), jd.ModelSpec(f"stack_{n}")
    names = [add_box(spec, f"box{k}", rng) for k in range(n)]
    model = spec.build()
    q = moved(model, placed(model, {name: (0, 0, (k + 0.5) * SIDE) for k, name in enumerate(names)}), seed, SPREAD)
    poses, below = Poses(model, q), ["world", *names]
    touches = [t for a, b in zip(names, below, strict=False) for t in face(poses, a, b, *WHOLE)]
    return ContactScene(f"stack_{n}", model, q, contacts(poses, touches))


def pyramid_layout(base: int) -> tuple[dict[str, tuple], list[tuple[str, str, tuple, tuple]]]:
    """Return the centres by name, and the touching faces (a, b, low, high), of a square pyramid: `base`² boxes on the
    ground, then (base - 1)², and so on, each over the corners of four others."""
    pitch, places, faces = SIDE + GAP, {}, []
    inner, outer = GAP / 2, SIDE / 2
    for layer, n in enumerate(range(base, 0, -1)):
        for i, j in itertools.product(range(n), repeat=2):
            name = f"box_{layer}_{i}_{j}"
            x, y = (pitch * (k - (n - 1) / 2) for k in (i, j))
            places[name] = (x, y, (layer + 0.5) * SIDE)
            if layer == 0:
                faces.append((name, "world", *WHOLE))
                continue
            for di, dj in itertools.product((0, 1), repeat=2):
                (lx, hx), (ly, hy) = ((inner, outer) if d else (-outer, -inner) for d in (di, dj))
                faces.append((name, f"box_{layer - 1}_{i + di}_{j + dj}", (lx, ly), (hx, hy)))
    return places, faces


def pyramid(base: int = 4, seed: int = 0) -> ContactScene:
    """Return a square pyramid; a base of 4 x 4 gives 30 boxes (nv = 180) and 16 + 4 (9 + 4 + 1) = 72 touching faces."""
    rng, spec = np.random.default_rng(seed), jd.ModelSpec(f"pyramid_{base}")
    places, faces = pyramid_layout(base)
    for name in places:
        add_box(spec, name, rng)
    model = spec.build()
    q = moved(model, placed(model, places), seed, SPREAD)
    poses = Poses(model, q)
    touches = [t for a, b, low, high in faces for t in face(poses, a, b, low, high)]
    return ContactScene(f"pyramid_{base}", model, q, contacts(poses, touches))


def side_by_side(touching: bool = True, seed: int = 0) -> ContactScene:
    """Return two boxes on the ground, in touch (12 contacts) or apart (8 contacts; their rows are not coupled)."""
    rng, spec = np.random.default_rng(seed), jd.ModelSpec("side_by_side" if touching else "apart")
    names = [add_box(spec, name, rng) for name in ("left", "right")]
    model = spec.build()
    x = SIDE / 2 if touching else SIDE
    q = moved(model, placed(model, {"left": (-x, 0, SIDE / 2), "right": (x, 0, SIDE / 2)}), seed, SPREAD)
    poses = Poses(model, q)
    touches = [t for name in names for t in face(poses, name, "world", *WHOLE)]
    if touching:
        # its z axis is the normal of the right face
        frame = jd.Transform(np.array([[0.0, 0, 1], [0, 1, 0], [-1, 0, 0]]), (SIDE / 2, 0, 0))
        corners = itertools.product((-SIDE / 2, SIDE / 2), repeat=2)
        touches += [("left", "right", poses["left"] @ frame @ upright((y, z, 0))) for y, z in corners]
    return ContactScene(spec.name, model, q, contacts(poses, touches))


def box(seed: int = 0) -> ContactScene:
    """Return one box on the ground: 12 rows for 6 freedoms."""
    return dataclasses.replace(stack(1, seed), name="box")


def on_ice(seed: int = 0) -> ContactScene:
    """Return two boxes, one on the other, without friction: one row per contact."""
    scene = stack(2, seed)
    poses = Poses(scene.model, scene.q)
    touches = [(c.body_a, c.body_b, poses[c.body_a] @ c.placement_a) for c in scene.contacts]
    made = contacts(poses, touches, jd.constraints.PointOnPlane)
    return ContactScene("on_ice", scene.model, scene.q, made)
