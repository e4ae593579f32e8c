"""Groups the vertices of a convex hull in four, so that a face on the ground has corners of all four groups."""

import itertools

import numpy as np

#: faces that are tried as axes of the grouping
TRIED = 10


def in_quarters(vertices: np.ndarray, normals: np.ndarray) -> np.ndarray:
    """Return the vertices of a convex hull (n, 3) in an order (m, 3) in which the groups are 0, 4, 8, ..., and 1, 5, 9,
    ..., and so on; some are repeated if groups differ in size. `normals` (k, 3) are those of the hull's faces.

    The lowest vertex of each group is where a mesh touches the ground. Groups are quadrants around each of three axes,
    with opposite quadrants of opposite ends together: for a box, the two ends of a diagonal. The function tries several
    axes and takes those that spread the corners of faces best.
    """
    vertices, normals = np.asarray(vertices, float), np.unique(np.round(np.asarray(normals, float), 6), axis=0)
    center = 0.5 * (vertices.min(0) + vertices.max(0))
    heights = (vertices - center) @ normals.T
    size = np.ptp(vertices, axis=0).max()
    faces = [np.flatnonzero(h > h.max() - 1e-5 * size) for h in heights.T]
    largest = normals[np.argsort([-len(f) for f in faces], kind="stable")[:TRIED]]
    best, groups = -1.0, None
    for axes in _frames(largest):
        below = (vertices - center) @ axes < 0
        found = 2 * (below[:, 0] ^ below[:, 2]) + (below[:, 1] ^ below[:, 2])
        score = sum(len(np.unique(found[f])) for f in faces)
        if score > best:
            best, groups = score, [np.flatnonzero(found == k) for k in range(4)]
    length = max(len(g) for g in groups)
    # a group without vertices gets all: its lowest vertex is the lowest of all
    length = len(vertices) if any(len(g) == 0 for g in groups) else length
    order = [np.resize(g if len(g) else np.arange(len(vertices)), length) for g in groups]
    return vertices[np.stack(order, 1).ravel()]


def _frames(normals: np.ndarray):
    """Yield right-angled axes (3, 3), as columns: the world's, those of pairs of faces, and both turned by half of a
    right angle."""
    found = [np.eye(3)]
    for z, x in itertools.permutations(normals, 2):
        x = x - z * (x @ z)
        if np.linalg.norm(x) > 0.1:
            x = x / np.linalg.norm(x)
            found.append(np.stack([x, np.cross(z, x), z], 1))
    half = np.array([[1, -1, 0], [1, 1, 0], [0, 0, np.sqrt(2)]]) / np.sqrt(2)
    for axes in found:
        yield axes
        yield axes @ half
