"""`Inertia` of a rigid body, checks of its numbers, and log-Cholesky coordinates for identification."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from .transform import Transform, as_floats


class Inertia(eqx.Module):
    """Mass properties of a rigid body.

    **Fields:** `mass` () in kg; `center_of_mass` (3,) in m, from the body's origin, in body axes;
    `rotational` (3, 3) in kg m², about the centre of mass, in body axes.
    """

    mass: Float[Array, ""]
    center_of_mass: Float[Array, "3"]
    rotational: Float[Array, "3 3"]

    def __init__(
        self,
        mass: ArrayLike = 0.0,
        center_of_mass: ArrayLike = (0.0, 0.0, 0.0),
        rotational: ArrayLike = ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)),
    ):
        self.mass = as_floats(mass)
        self.center_of_mass = as_floats(center_of_mass)
        self.rotational = as_floats(rotational)

    def __check_init__(self):
        for name, shape in (("mass", ()), ("center_of_mass", (3,)), ("rotational", (3, 3))):
            got = np.shape(getattr(self, name))
            if got != shape:
                raise ValueError(f"`Inertia`: `{name}` has shape {got}, not {shape}.")

    @staticmethod
    def box(mass: float, size: ArrayLike) -> "Inertia":
        """Return the inertia of a homogeneous box with edge lengths `size` (3,), centred at the body's origin."""
        x, y, z = np.asarray(size, float)
        return Inertia(mass, np.zeros(3), mass / 12 * np.diag([y * y + z * z, x * x + z * z, x * x + y * y]))

    def transformed(self, placement: Transform) -> "Inertia":
        """Return the inertia of the same body in a frame A; `placement` is the pose of the body in A."""
        r = placement.rotation
        return Inertia(self.mass, placement.apply(self.center_of_mass), r @ self.rotational @ r.T)

    def __add__(self, other: "Inertia") -> "Inertia":
        """Return the inertia of two bodies welded together, both given in the same frame."""
        mass = self.mass + other.mass
        share = jnp.where(mass == 0, 0.5, other.mass / jnp.where(mass == 0, 1.0, mass))
        d = other.center_of_mass - self.center_of_mass
        reduced = self.mass * share
        rotational = self.rotational + other.rotational + reduced * (d @ d * jnp.eye(3) - jnp.outer(d, d))
        return Inertia(mass, self.center_of_mass + share * d, rotational)


def problem_of(mass, center_of_mass, rotational, tol: float = 1e-6) -> tuple[str, bool] | None:
    """Return what is wrong with a body's numbers, in words, and whether it is fatal; None if nothing is wrong.

    Negative mass, an asymmetric or an indefinite rotational inertia cannot belong to a body. A violated
    triangle inequality (one principal moment larger than the sum of the others) is not physical either, but it is
    not fatal: some files contain it, and the equations can still be solved.
    """
    mass, c, i = float(mass), np.asarray(center_of_mass, float), np.asarray(rotational, float)
    if not (np.isfinite(mass) and np.isfinite(c).all() and np.isfinite(i).all()):
        return "has an inertia that is not finite", True
    if mass < 0:
        return f"has the negative mass {mass:g}", True
    scale = np.abs(i).max()
    if np.abs(i - i.T).max() > tol * scale:
        return "has a rotational inertia that is not symmetric", True
    moments = np.linalg.eigvalsh((i + i.T) / 2)
    if moments[0] < -tol * scale:
        return f"has a rotational inertia with the negative principal moment {moments[0]:g}", True
    if moments[2] > (moments[0] + moments[1]) * (1 + tol) + 1e-15:
        return (
            f"has principal moments {moments[0]:.3g}, {moments[1]:.3g}, {moments[2]:.3g} that violate the "
            "triangle inequality",
            False,
        )
    return None


def inertia_from_log_cholesky(theta: ArrayLike) -> Inertia:
    """Return the inertia for ten free parameters (log-Cholesky, Rucker and Wensing 2022).

    theta (10,) is ``(alpha, d1, d2, d3, s12, s23, s13, t1, t2, t3)``; every real vector gives a positive
    mass and a positive definite pseudo-inertia ``U Uᵀ``, so gradient steps never leave the physical inertias.
    """
    a, d1, d2, d3, s12, s23, s13, t1, t2, t3 = jnp.asarray(theta)
    e1, e2, e3 = jnp.exp(d1), jnp.exp(d2), jnp.exp(d3)
    zero, one = jnp.zeros_like(a), jnp.ones_like(a)
    upper = jnp.exp(a) * jnp.stack(
        [
            jnp.stack([e1, s12, s13, t1]),
            jnp.stack([zero, e2, s23, t2]),
            jnp.stack([zero, zero, e3, t3]),
            jnp.stack([zero, zero, zero, one]),
        ]
    )
    pseudo = upper @ upper.T
    mass, first = pseudo[3, 3], pseudo[:3, 3]
    c = first / mass
    second = pseudo[:3, :3] - mass * jnp.outer(c, c)
    return Inertia(mass, c, jnp.trace(second) * jnp.eye(3) - second)


def log_cholesky_from_inertia(inertia: Inertia) -> Float[Array, "10"]:
    """Return the parameters (10,) that `inertia_from_log_cholesky` takes. The inertia must be positive definite."""
    m, c, i = inertia.mass, inertia.center_of_mass, inertia.rotational
    second = 0.5 * jnp.trace(i) * jnp.eye(3) - i + m * jnp.outer(c, c)
    pseudo = jnp.block([[second, (m * c)[:, None]], [(m * c)[None], m[None, None]]])
    flipped = jnp.linalg.cholesky(pseudo[::-1, ::-1])
    upper = flipped[::-1, ::-1]
    u = upper / upper[3, 3]
    return jnp.stack(
        [jnp.log(upper[3, 3]), jnp.log(u[0, 0]), jnp.log(u[1, 1]), jnp.log(u[2, 2])]
        + [u[0, 1], u[1, 2], u[0, 2], u[0, 3], u[1, 3], u[2, 3]]
    )
