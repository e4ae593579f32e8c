"""`Inertia` of a rigid body, checks of its numbers, and log-Cholesky coordinates for identification."""

from functools import partial

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .instances import check_instance
from .numbers import ArrayLike, check, constants, finite, floats, not_negative, shown
from .transform import Transform, placed


class Inertia(eqx.Module):
    """Mass properties of a rigid body.

    **Fields:** `mass` () in kg; `center_of_mass` (3,) in m, from the body's origin, in body axes;
    `rotational` (3, 3) in kg m², about the centre of mass, in body axes.

    **Raises** `ValueError` for wrong shapes, and for numbers that are not finite (unless they are traced).
    `ModelSpec.add_body` checks whether a body can have them.
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
        self.mass = floats("`Inertia`", "mass", mass, (), finite)
        self.center_of_mass = floats("`Inertia`", "center_of_mass", center_of_mass, (3,), finite)
        self.rotational = floats("`Inertia`", "rotational", rotational, (3, 3), finite)

    @staticmethod
    def box(mass: float, size: ArrayLike) -> "Inertia":
        """Return the inertia of a homogeneous box with edge lengths `size` (3,), centred at the body's origin.

        `transformed` moves it, as the inertias of the other solids: ``box.transformed(Transform(np.eye(3), center))``.
        Masses are in kg and lengths in m. All **raise** `ValueError` for negative numbers and wrong shapes.
        """
        mass = float(constants("`Inertia.box`", "mass", mass, (), not_negative))
        x, y, z = constants("`Inertia.box`", "size", size, (3,), not_negative)
        return Inertia(mass, np.zeros(3), mass / 12 * np.diag([y * y + z * z, x * x + z * z, x * x + y * y]))

    @staticmethod
    def sphere(mass: float, radius: float) -> "Inertia":
        """Return the inertia of a homogeneous ball, centred at the body's origin."""
        mass, r = _sizes("sphere", mass=mass, radius=radius)
        return Inertia(mass, np.zeros(3), 0.4 * mass * r * r * np.eye(3))

    @staticmethod
    def cylinder(mass: float, radius: float, length: float) -> "Inertia":
        """Return the inertia of a homogeneous cylinder along z, centred at the body's origin."""
        mass, r, length = _sizes("cylinder", mass=mass, radius=radius, length=length)
        across = mass * (r * r / 4 + length * length / 12)
        return Inertia(mass, np.zeros(3), np.diag([across, across, mass * r * r / 2]))

    @staticmethod
    def capsule(mass: float, radius: float, length: float) -> "Inertia":
        """Return the inertia of a homogeneous capsule along z, centred at the body's origin; `length` is that of its
        cylinder alone, as of `jaxdyn.shapes.Capsule`."""
        mass, r, length = _sizes("capsule", mass=mass, radius=radius, length=length)
        ends = mass * (4 / 3 * r / (length + 4 / 3 * r) if r > 0 else 0.0)  # both half balls
        tube = mass - ends
        across = tube * (r * r / 4 + length**2 / 12) + ends * (0.4 * r * r + length**2 / 4 + 0.375 * length * r)
        return Inertia(mass, np.zeros(3), np.diag([across, across, (tube / 2 + 0.4 * ends) * r * r]))

    def transformed(self, placement: Transform | ArrayLike) -> "Inertia":
        """Return the inertia of the same body in a frame A; `placement` is the pose of the body in A, or its
        translation (3,)."""
        place = placed("`Inertia.transformed`", "placement", placement)
        r = place.rotation
        return Inertia(self.mass, place.apply(self.center_of_mass), r @ self.rotational @ r.T)

    def __add__(self, other: "Inertia") -> "Inertia":
        """Return the inertia of two bodies welded together, both given in the same frame."""
        check_instance("`Inertia + other`", "other", other, Inertia)
        mass = self.mass + other.mass
        share = jnp.where(mass == 0, 0.5, other.mass / jnp.where(mass == 0, 1.0, mass))
        d = other.center_of_mass - self.center_of_mass
        reduced = self.mass * share
        rotational = (
            self.rotational + other.rotational + reduced * (d @ d * jnp.eye(3, dtype=d.dtype) - jnp.outer(d, d))
        )
        return Inertia(mass, self.center_of_mass + share * d, rotational)


def _sizes(shape: str, **numbers) -> list[float]:
    return [float(constants(f"`Inertia.{shape}`", what, x, (), not_negative)) for what, x in numbers.items()]


#: how far from symmetric a rotational inertia, and how far below zero its moments, may be, by its largest entry
ROUNDING = 1e-5


def is_rotational(x: np.ndarray) -> str | None:
    """Rule of rotational inertias (..., 3, 3): symmetric, with no negative moments on the diagonal. `is_definite`
    checks the other principal moments: some files have products of inertia that are too large."""
    scale = ROUNDING * np.abs(x).max((-1, -2), initial=0.0)
    if (np.abs(x - np.swapaxes(x, -1, -2)).max((-1, -2), initial=0.0) > scale).any():
        return "is not symmetric"
    return is_definite(x) if (np.diagonal(x, 0, -2, -1).min(-1, initial=0.0) < -scale).any() else None


def is_definite(x: np.ndarray) -> str | None:
    """Rule of symmetric rotational inertias (..., 3, 3): no negative principal moment."""
    scale = ROUNDING * np.abs(x).max((-1, -2), initial=0.0)
    least = np.linalg.eigvalsh((x + np.swapaxes(x, -1, -2)) / 2)[..., 0]
    return f"has the negative principal moment {least.min():g}" if (least < -scale).any() else None


def problem_of(mass, center_of_mass, rotational) -> tuple[str, bool] | None:
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
    problem = is_rotational(i) or is_definite(i)
    if problem is not None:
        return f"has a rotational inertia that {problem}", True
    moments = np.linalg.eigvalsh((i + i.T) / 2)
    if moments[2] > (moments[0] + moments[1]) * (1 + 1e-6) + 1e-15:
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

    Raises `ValueError` for wrong shapes and numbers that are not finite.
    """
    call = "`inertia_from_log_cholesky`"
    a, d1, d2, d3, s12, s23, s13, t1, t2, t3 = floats(call, "theta", theta, (10,), finite)
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
    rotational = jnp.trace(second) * jnp.eye(3, dtype=second.dtype) - second
    check(call, "theta", jnp.concatenate([mass[None], c, rotational.ravel()]), _within_range)
    return Inertia(mass, c, rotational)


def _within_range(x: np.ndarray) -> str | None:
    ok = np.isfinite(x).all() and x[0] > 0
    return None if ok else f"gives an inertia that overflows or vanishes: {shown(x)}"


def _definite(inertia: Inertia, factor: np.ndarray) -> str | None:
    if np.isfinite(factor).all() and (np.diag(factor) > 0).all():
        return None
    mass, rotational = np.asarray(inertia.mass, float), np.asarray(inertia.rotational, float)
    moments = np.linalg.eigvalsh(rotational) if np.isfinite(rotational).all() else rotational
    return (
        f"has mass {mass:g} and principal moments {shown(moments)}, so that its pseudo-inertia is not positive "
        "definite: give mass, and moments above zero, each less than the sum of the others"
    )


def log_cholesky_from_inertia(inertia: Inertia) -> Float[Array, "10"]:
    """Return the parameters (10,) that `inertia_from_log_cholesky` takes.

    **Raises** `ValueError` unless the pseudo-inertia is positive definite: mass, and principal moments above zero of
    which each is less than the sum of the others. (Where the inertia is traced, the result is NaN instead.)
    """
    check_instance("`log_cholesky_from_inertia`", "inertia", inertia, Inertia)
    m, c, i = inertia.mass, inertia.center_of_mass, inertia.rotational
    second = 0.5 * jnp.trace(i) * jnp.eye(3, dtype=i.dtype) - i + m * jnp.outer(c, c)
    pseudo = jnp.block([[second, (m * c)[:, None]], [(m * c)[None], m[None, None]]])
    flipped = jnp.linalg.cholesky(pseudo[::-1, ::-1])
    check("`log_cholesky_from_inertia`", "inertia", flipped, partial(_definite, inertia))
    upper = flipped[::-1, ::-1]
    u = upper / upper[3, 3]
    return jnp.stack(
        [jnp.log(upper[3, 3]), jnp.log(u[0, 0]), jnp.log(u[1, 1]), jnp.log(u[2, 2])]
        + [u[0, 1], u[1, 2], u[0, 2], u[0, 3], u[1, 3], u[2, 3]]
    )
