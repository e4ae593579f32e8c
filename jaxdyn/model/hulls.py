"""`hull_of`: the convex hull of a mesh, reduced to few vertices."""

from typing import NamedTuple

import numpy as np

from ..spatial.quarters import in_quarters

#: most vertices that a hull keeps: every step searches all of them, in each pair
MOST = 64
#: a mesh counts as convex if it lies inside its hull by at most this share of its size
CONVEX = 1e-2
#: points count as lying in a plane or line if they are off it by at most this share of their size
FLAT = 1e-9
#: the normals of hulls without faces
NONE = np.zeros((0, 3))


class Hull(NamedTuple):
    """The vertices (n, 3) of a convex hull; `told`, messages about what the hull loses; and the normals (k, 3) of its
    faces: two opposite ones if it is flat, none if it is a line or a point."""

    vertices: np.ndarray
    told: tuple[str, ...]
    normals: np.ndarray

    @property
    def quarters(self) -> np.ndarray:
        """The vertices, ordered in four groups of which each touches the ground at one vertex, see `in_quarters`."""
        if len(self.vertices) < 4 or not len(self.normals):
            return np.resize(self.vertices, (max(4, len(self.vertices)), 3))
        return in_quarters(self.vertices, self.normals)


def hull_of(call: str, vertices: np.ndarray, faces: np.ndarray | None = None) -> Hull:
    """Return the convex hull of points (n, 3), with at most `MOST` vertices. If the `faces` (m, 3) of a mesh are given,
    `told` reports a mesh that is not convex.

    **Raises** `ImportError` without SciPy.
    """
    try:
        from scipy.spatial import ConvexHull
    except ImportError:
        text = f"{call}: hulls of meshes need SciPy, which is not installed: `pip install 'jaxdyn[meshes]'`."
        raise ImportError(text) from None

    middle = (vertices.min(0) + vertices.max(0)) / 2
    size = float(np.ptp(vertices, axis=0).max())
    if size == 0:
        return Hull(vertices[:1], (), NONE)
    local = (vertices - middle) / size
    _, spread, axes = np.linalg.svd(local - local.mean(0), full_matrices=False)
    rank = int((spread > FLAT * max(1.0, spread[0])).sum())
    flat = local @ axes[:rank].T
    if rank == 1:
        return Hull(vertices[[flat[:, 0].argmin(), flat[:, 0].argmax()]], (), NONE)
    outer = ConvexHull(flat).vertices
    kept, told = outer, []
    if len(outer) > MOST:
        some, left = _fewest(ConvexHull, flat[outer])
        kept = outer[some]
        kind = f"{len(kept)} of its hull's {len(outer)} vertices are kept"
        told.append(f"{kind}, others stand out by up to {left * size:.1g} m")
    if faces is not None and len(faces) and rank == 3:
        depth = _depth(ConvexHull(flat[kept]).equations, flat, faces)
        if depth > CONVEX:
            told.insert(0, f"is not convex, its hull is up to {depth * size:.1g} m away from it")
    normals = np.stack([axes[2], -axes[2]]) if rank == 2 else ConvexHull(flat[kept]).equations[:, :3] @ axes
    return Hull(vertices[np.sort(kept)], tuple(told), normals)


def _beyond(equations: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return how far points are outside of a hull (negative: inside), measured from the planes of its faces."""
    return (points @ equations[:, :-1].T + equations[:, -1]).max(1)


def _fewest(ConvexHull, points: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the indices of at most `MOST` vertices to keep, and how far the others stand out of their hull. The vertex
    that stands out most is added next."""
    dims = points.shape[1]
    ends = [points.argmin(0), points.argmax(0)]
    chosen = list(dict.fromkeys(np.concatenate(ends).tolist()))
    while True:
        hull = ConvexHull(points[chosen]) if _spans(points[chosen], dims) else None
        # until they span the space: the distance from the plane or line through them
        out = _beyond(hull.equations, points) if hull else _off(points, points[chosen])
        worst = int(out.argmax())
        if len(chosen) == MOST or out[worst] <= 0 or worst in chosen:
            return np.array(chosen), max(float(out[worst]), 0.0)
        chosen.append(worst)


def _spans(points: np.ndarray, dims: int) -> bool:
    spread = np.linalg.svd(points - points.mean(0), compute_uv=False)
    return len(points) > dims and bool(spread[dims - 1] > 1e-6 * spread[0])


def _off(points: np.ndarray, flat: np.ndarray) -> np.ndarray:
    """Return the distances of points from the plane or line through the points `flat`."""
    middle = flat.mean(0)
    _, spread, axes = np.linalg.svd(flat - middle, full_matrices=False)
    axes = axes[spread > 1e-6 * spread[0]]
    d = points - middle
    return np.linalg.norm(d - d @ axes.T @ axes, axis=1)


def _depth(equations: np.ndarray, points: np.ndarray, faces: np.ndarray) -> float:
    """Return the depth of the deepest face inside a hull, measured at the faces' corners and centres."""
    corners = points[np.unique(faces)]
    chunks = [corners[k : k + 4096] for k in range(0, len(corners), 4096)]
    chunks += [points[faces[k : k + 4096]].mean(1) for k in range(0, len(faces), 4096)]
    return max(float(-_beyond(equations, x).min()) for x in chunks)
