"""An independent reference for one step with contact: dense algebra and a slow solver in NumPy float64.

The dynamics are those of `oracle`, the geometry and the law are written anew: Coulomb's law as a fixed point of the
projection on the cones with De Saxcé's shift,

    λ = P(λ − ρ (σ + μ |σ_t| n)),   σ = G λ + g,   P the nearest point of the cone |λ_t| ≤ μ λ_n,

swept over until it rests, and polished by Newton steps on what breaks, sticks and slides.
"""

from typing import NamedTuple

import delassus_oracle
import numpy as np
import oracle
import oracle_joints as joints


class Contact(NamedTuple):
    """Bodies (−1: the world), the point between them, the normal towards the first, the gap, and its pair's number."""

    first: int
    second: int
    point: np.ndarray
    normal: np.ndarray
    gap: float
    pair: int


class Found(NamedTuple):
    """`q` and `v` after the step, accelerations (nv,) if `free` of contact and (nv, 3n) in `reply` to its forces,
    `impulses` (n, 3) along the normals and two tangents, the Delassus matrix `G` (3n, 3n), `g` (3n,), `friction` (n,),
    `contacts`, and what is `left` of the law, m/s."""

    q: np.ndarray
    v: np.ndarray
    free: np.ndarray
    reply: np.ndarray
    impulses: np.ndarray
    G: np.ndarray
    g: np.ndarray
    friction: np.ndarray
    contacts: list
    left: float


def contacts(model, q) -> list[Contact]:
    """All places where shapes may touch: balls around points of spheres and capsules, corners of boxes."""
    robot, collision = oracle.read(model), model.collision
    frames, out = [*oracle.body_frames(robot, q), oracle_world(robot)], []
    for k, (i, j) in enumerate(collision.pairs):
        a, b = (_placed(collision, frames, s) for s in (i, j))
        if b[0].kind == "plane":
            up = b[1][:, 2]
            points = _points(*a)
            if a[0].kind == "box":  # of each diagonal the lower end
                points = [min(ends, key=lambda x: up @ x[0]) for ends in zip(points[:4], points[:3:-1], strict=True)]
            for x, radius in points:
                gap = up @ (x - b[2]) - radius
                out.append(Contact(a[0].body, b[0].body, x - (gap / 2 + radius) * up, up, gap, k))
        elif a[0].kind == b[0].kind == "sphere":
            apart = a[2] - b[2]
            length = np.linalg.norm(apart)
            ra, gap = a[3][0], length - a[3][0] - b[3][0]
            n = apart / length
            out.append(Contact(a[0].body, b[0].body, a[2] - (ra + gap / 2) * n, n, gap, k))
        else:
            raise NotImplementedError((a[0].kind, b[0].kind))
    return out


def oracle_world(robot):
    return oracle.attached(robot, [], "world")


def _placed(collision, frames, s):
    info, place = collision.shapes[s], collision.placement
    f = frames[info.body]
    R, p = np.asarray(place.rotation[s], float), np.asarray(place.translation[s], float)
    return info, f.R @ R, f.p + f.R @ p, np.asarray(collision.size[s], float)


def _points(info, R, p, size):
    """Points and radii of balls whose hull is the shape."""
    if info.kind == "sphere":
        return [(p, size[0])]
    if info.kind == "capsule":
        return [(p + s * size[1] * R[:, 2], size[0]) for s in (1, -1)]
    if info.kind == "box":
        corners = np.array(np.meshgrid(*[[-1, 1]] * 3)).reshape(3, -1).T * size
        return [(p + R @ c, 0.0) for c in corners]
    raise NotImplementedError(info.kind)


def frame_of(n):
    """Axes (3, 3): n, and two tangents, x and ±y turned by the least turn that takes ±z to n."""
    up = np.array([0, 0, 1.0 if n[2] >= 0 else -1.0])
    across = joints.skew(np.cross(up, n))
    R = np.eye(3) + across + across @ across / (1 + up @ n)
    return np.stack([n, R[:, 0], up[2] * R[:, 1]], 1)


def step(model, q, v, tau, dt, law) -> Found:
    """One step of dt seconds under the parameters (`recovery`, ...) of a law of jaxdyn."""
    found = posed(model, q, v, tau, dt, law)
    lam, left = solve(found.G, found.g, found.friction)
    q, v = after(model, q, v, dt, found, lam)
    return found._replace(q=q, v=v, impulses=lam.reshape(-1, 3), left=left)


def posed(model, q, v, tau, dt, law) -> Found:
    """A step without impulses: the problem that these solve."""
    robot, places = oracle.read(model), contacts(model, q)
    axes = [frame_of(c.normal) for c in places]
    frames = [*oracle.body_frames(robot, q), oracle_world(robot)]
    J = np.concatenate(
        [
            R.T @ (frames[c.first].velocity(c.point) - frames[c.second].velocity(c.point))
            for c, R in zip(places, axes, strict=True)
        ]
    )
    M = oracle.mass_matrix(robot, q) + np.diag(dt * robot.damping + dt**2 * robot.stiffness)
    force = tau - oracle.bias_forces(robot, q, v) + oracle.passive_forces(robot, q, v) - dt * robot.stiffness * v
    K = oracle.constraint_jacobian(model, q)
    P = delassus_oracle.mobility(M, K if len(K) else None)
    a = P @ force
    if len(K):
        wanted = oracle.constraint_target(model, q, v) - oracle.constraint_bias(model, q, v)
        back = np.linalg.solve(M, K.T)
        a = a + back @ np.linalg.pinv(K @ back, rcond=1e-12, hermitian=True) @ wanted
    turn = np.concatenate([_turning(k, v[s]) for k, s in zip(robot.kinds, robot.v, strict=True)])
    values = model.collision.of_pairs()
    pick = lambda x: np.asarray(x, float)[[c.pair for c in places]]  # noqa: E731
    gaps = np.array([c.gap for c in places])
    goal, R = goals(law, gaps, (J @ v)[::3], dt, *map(pick, (values.restitution, values.stiffness, values.damping)))
    g, mu = J @ (v + dt * (a + turn)), pick(values.friction)
    g[::3] -= goal
    G = J @ P @ J.T
    G[np.arange(0, len(g), 3), np.arange(0, len(g), 3)] += R
    G = (G + G.T) / 2
    q, v = ended(robot, q, v, dt, a)
    return Found(q, v, a, P @ J.T, np.zeros((len(mu), 3)), G, g, mu, places, 0.0)


def after(model, q, v, dt, found: Found, lam) -> tuple[np.ndarray, np.ndarray]:
    """q and v after a step in which the impulses are lam (3n,)."""
    return ended(oracle.read(model), q, v, dt, found.free + found.reply @ lam / dt)


def ended(robot, q, v, dt, a):
    """q and v after a step at accelerations a."""
    w = v + dt * (a + np.concatenate([_turning(k, v[s]) for k, s in zip(robot.kinds, robot.v, strict=True)]))
    parts = [_moved(k, q[s], w[t], dt) for k, s, t in zip(robot.kinds, robot.q, robot.v, strict=True)]
    return tuple(np.concatenate(x) for x in zip(*parts, strict=True))


def goals(law, gap, speed, dt, restitution, stiffness, damping):
    """The speeds at which contacts shall open, and their compliances (see `docs`), contact by contact."""
    out = []
    for phi, s, e, k, d in zip(gap, speed, restitution, stiffness, damping, strict=True):
        if np.isfinite(k):
            d = d if np.isfinite(d) else 0.0
            out.append((-phi * k / (k * dt + d), 1 / (dt * (k * dt + d))))
            continue
        goal = -phi / dt if phi > 0 else min(-law.recovery * phi / dt, law.recovery_speed)
        if e > 0 and phi + dt * s < 0 and s < -law.bounce_speed:
            goal = max(goal, -e * s)
        out.append((goal, 0.0))
    return np.array(out).T


def _turning(kind, v):
    return np.concatenate([np.cross(v[3:], v[:3]), np.zeros(3)]) if kind == "FreeKind" else np.zeros_like(v)


def _moved(kind, q, w, dt):
    """A joint after a step at velocities in the axes of its start; those of free joints turn."""
    if kind != "FreeKind":
        return joints.integrate(kind, q, dt * w), w
    spin = dt * w[3:]
    angle = np.linalg.norm(spin)
    part = np.concatenate([[np.cos(angle / 2)], np.sinc(angle / 2 / np.pi) / 2 * spin])
    R, after = joints.from_quaternion(q[3:]), joints.times(q[3:], part)
    after = after / np.linalg.norm(after)
    return np.concatenate([q[:3] + dt * R @ w[:3], after]), np.concatenate(
        [joints.from_quaternion(after).T @ R @ w[:3], w[3:]]
    )


def cone(z, mu):
    """The nearest point of the cone |t| ≤ mu n."""
    n, length = z[0], np.hypot(z[1], z[2])
    if length <= mu * n:
        return z
    if mu * length <= -n:
        return np.zeros(3)
    n = (n + mu * length) / (1 + mu * mu)
    return np.array([n, *(mu * n / length * z[1:])]) if n > 0 and length > 0 else np.array([max(n, 0.0), 0, 0])


def left_of(G, g, mu, lam) -> float:
    """What is left of the law at impulses lam, m/s."""
    worst = 0.0
    for k, m in enumerate(mu):
        rows = slice(3 * k, 3 * k + 3)
        size = np.trace(G[rows, rows]) / 3
        s = G[rows] @ lam + g[rows]
        s = s + np.array([m * np.hypot(s[1], s[2]), 0, 0])
        worst = max(worst, np.abs(lam[rows] - cone(lam[rows] - s / size, m)).max() * size)
    return worst


def solve(G, g, mu, sweeps=3000) -> tuple[np.ndarray, float]:
    """Impulses, and what is left of the law, m/s."""
    lam, scale = np.zeros(len(g)), np.abs(g).max()
    for sweep in range(sweeps):
        for k, m in enumerate(mu):
            rows = slice(3 * k, 3 * k + 3)
            step = 1 / np.linalg.eigvalsh(G[rows, rows])[-1]
            s = G[rows] @ lam + g[rows]
            s[0] += m * np.hypot(s[1], s[2])
            lam[rows] = cone(lam[rows] - step * s, m)
        if sweep % 20 == 19:
            polished = polish(G, g, mu, lam)
            left = left_of(G, g, mu, polished)
            if left < 1e-13 * scale:
                return polished, left
    return lam, left_of(G, g, mu, lam)


def polish(G, g, mu, lam, steps=6):
    """Newton's steps, where what breaks, sticks and slides is as it seems."""
    s = G @ lam + g
    push = max(np.abs(lam).max(), 1e-300)
    breaks, slides = [], []
    for k, m in enumerate(mu):
        n, t = lam[3 * k], np.hypot(*lam[3 * k + 1 : 3 * k + 3])
        breaks.append(n <= 1e-9 * push)
        slides.append(t >= m * n * (1 - 1e-7) and np.hypot(*s[3 * k + 1 : 3 * k + 3]) > 0)

    def equations(x):
        s, out = G @ x + g, np.empty(len(x), x.dtype)
        for k, m in enumerate(mu):
            r = slice(3 * k, 3 * k + 3)
            f, u = x[r], s[r]
            if breaks[k]:
                out[r] = f
            elif slides[k]:
                out[3 * k] = u[0]
                out[3 * k + 1 : 3 * k + 3] = f[1:] * np.sqrt(u[1] ** 2 + u[2] ** 2) + m * f[0] * u[1:]
            else:
                out[r] = u
        return out

    x = lam.copy()
    for _ in range(steps):
        columns = [np.imag(equations(x + 1e-40j * e)) / 1e-40 for e in np.eye(len(x))]
        x = x - np.linalg.lstsq(np.stack(columns, 1), equations(x), rcond=1e-11)[0]
    return x
