"""Measure the convergence of solutions over steps, and their accuracy by penalty weight, in double precision.

    python benchmarks/convergence.py [FIGURE ...] [--states N] [--out FOLDER]

- `steps`: largest residual of the rows after each proximal step, with and without refinement, for two hands that hold a
  cube by eight points (lcaba_proxbbo, Fig. 10).
- `weights`: deviation of the accelerations from the result of sixty refined steps, for weights from 1e1 to 1e11 and the
  same robot (lcaba_proxbbo, Fig. 11); also the deviation of `Dense`.
- `duplicates`: residual after each step for several weights, for Talos with each of four welds given twice
  (proximal_ltl, Fig. 2).
- `soft`: residual of the rows, and deviation from `PV`, of the soft solvers by weight, for Talos with four welds
  (popov_vereshchagin, Fig. 3).

Only the ratio of penalties to inertias matters. Instead of changing the weight μ, which would require compiling again,
masses and forces are divided by it, which does not change accelerations. Writes `convergence.json` and one plot per
figure.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import systems
from results import Results, parser
from tqdm import tqdm

import jaxdyn as jd

WEIGHTS = 10.0 ** np.arange(1, 12)
STEPS = 11


def lighter(model: jd.Model, by) -> jd.Model:
    """Return the model with inertias, damping and stiffness divided by `by`."""
    b = model.bodies
    return model.replace(
        {
            "bodies.mass": b.mass / by,
            "bodies.rotational": b.rotational / by,
            "joints.armature": model.joints.armature / by,
            "joints.damping": model.joints.damping / by,
            "joints.stiffness": model.joints.stiffness / by,
        }
    )


class Case:
    """A robot in random states around a configuration, with its constraint rows for reference."""

    def __init__(self, name: str, n: int):
        self.model, q = systems.system(name)
        rng = np.random.default_rng(0)
        nv = self.model.nv
        # random configurations near q, with loops closed again
        near = jax.vmap(lambda d: jd.integrate(self.model, q, d, 1.0))(jnp.asarray(rng.uniform(-0.1, 0.1, (n, nv))))
        close = jax.jit(jax.vmap(lambda q: jd.assemble(self.model, q)))
        self.q = close(near)
        self.v = jnp.asarray(rng.normal(size=(n, nv)))
        self.tau = jnp.asarray(rng.normal(size=(n, nv)))
        self.rows = functools.partial(jd.constraint_jacobian, self.model, constraints=self.model.constraints)

    def solve(self, solver: jd.solvers.Solver) -> Callable:
        """Return a function from (μ, warm start or None) to accelerations and multipliers of the unscaled model."""

        def one(mu, q, v, tau, warm):
            scaled = lighter(self.model, mu)
            start = None if warm is None else warm / mu
            out = jd.forward_dynamics(scaled, jd.State(q, v), tau / mu, solver=solver, warm_start=start)
            return out.acceleration, out.multipliers * mu

        run = jax.jit(lambda mu, warm: jax.vmap(functools.partial(one, mu))(self.q, self.v, self.tau, warm))
        return lambda mu, warm=None: run(mu, jnp.zeros((len(self.q), self.count)) if warm is None else warm)

    @functools.cached_property
    def count(self) -> int:
        return sum(c.layout(self.model.topology).rows for c in self.model.constraints)

    @functools.cached_property
    def wanted(self) -> jax.Array:
        """Return a* − γ of the rows without stabilisation."""
        bias = lambda q, v: jd.constraint_bias(self.model, jd.State(q, v), self.model.constraints)  # noqa: E731
        return -jax.jit(jax.vmap(bias))(self.q, self.v)

    @functools.cached_property
    def jacobian(self) -> jax.Array:
        return jax.jit(jax.vmap(lambda q: self.rows(q)))(self.q)

    def residual(self, qdd) -> np.ndarray:
        """Return max |J q̈ + γ − a*| of every state."""
        return np.abs(np.einsum("nij,nj->ni", self.jacobian, qdd) - self.wanted).max(1)


def spread(x) -> dict:
    """Return the least, median and largest value over the states."""
    return {"least": float(np.min(x)), "median": float(np.median(x)), "largest": float(np.max(x))}


def deviation(x, reference) -> np.ndarray:
    return np.linalg.norm(x - reference, axis=1) / np.linalg.norm(reference, axis=1)


def steps(n: int) -> dict:
    case, mu, out = Case("two_hands_cube", n), 1e5, {}
    for name in ("LCABA", "ProxBBO", "ProxLTL"):
        one = case.solve(getattr(jd.solvers, name)(mu=1.0, max_steps=1, refine=False))
        lam, found = None, []
        for _ in range(STEPS):
            qdd, lam = one(mu, lam)
            found.append(spread(case.residual(qdd)))
        out[f"{name}, not refined"] = dict(zip(map(str, range(1, STEPS + 1)), found, strict=True))
    refined = {}
    for k in (1, 2, 3, 4, 6, 11):
        qdd, _ = case.solve(jd.solvers.LCABA(mu=1.0, max_steps=k, tol=0.0))(mu)
        refined[str(k)] = spread(case.residual(qdd))
    out["LCABA, refined"] = refined
    return out


def weights(n: int) -> dict:
    case, out = Case("two_hands_cube", n), {}
    best, _ = case.solve(jd.solvers.LCABA(mu=1e3, max_steps=60))(1.0)
    dense, _ = case.solve(jd.solvers.Dense())(1.0)
    out["Dense"] = {"1e3": spread(deviation(dense, best))}
    for name in ("LCABA", "ProxBBO", "ProxLTL"):
        for refine in (False, True):
            run = case.solve(getattr(jd.solvers, name)(mu=1.0, max_steps=30, refine=refine))
            found = {f"{mu:.0e}": spread(deviation(run(mu)[0], best)) for mu in WEIGHTS}
            out[f"{name}, {'' if refine else 'not '}refined"] = found
    return out


def duplicates(n: int) -> dict:
    case, out = Case("talos_4_twice", n), {}
    one = case.solve(jd.solvers.ProxLTL(mu=1.0, max_steps=1, refine=False))
    for mu in (1e2, 1e4, 1e6, 1e8):
        lam, found = None, {}
        for k in range(1, 9):
            qdd, lam = one(mu, lam)
            found[str(k)] = spread(case.residual(qdd))
        out[f"μ = {mu:.0e}"] = found
    return out


def soft(n: int) -> dict:
    case, out = Case("talos_4", n), {}
    hard, _ = case.solve(jd.solvers.PV())(1.0)
    out["PV: residual"] = {f"{w:.0e}": spread(case.residual(hard)) for w in 10.0 ** np.arange(2, 13)}
    for name in ("PVSoft", "LTLSoft"):
        run = case.solve(getattr(jd.solvers, name)(weights=1.0, max_steps=1))
        found = {f"{w:.0e}": run(w)[0] for w in 10.0 ** np.arange(2, 13)}
        out[f"{name}: residual"] = {w: spread(case.residual(x)) for w, x in found.items()}
        out[f"{name}: deviation from PV"] = {w: spread(deviation(x, hard)) for w, x in found.items()}
    return out


FIGURES = {
    "steps": (steps, "proximal steps, μ = 1e5", "largest |J q̈ + γ − a*|"),
    "weights": (weights, "weight μ", "relative deviation of q̈"),
    "duplicates": (duplicates, "proximal steps", "largest |J q̈ + γ − a*|"),
    "soft": (soft, "weight", "largest residual, relative deviation"),
}


def draw(pyplot, name: str, found: dict):
    _, across, up = FIGURES[name]
    figure, axes = pyplot.subplots(figsize=(7, 4.5), layout="tight")
    for label, points in found.items():
        x = [float(k) for k in points]
        y = {key: np.maximum([p[key] for p in points.values()], 1e-17) for key in ("least", "median", "largest")}
        (line,) = axes.plot(x, y["median"], marker="o", label=label)
        axes.fill_between(x, y["least"], y["largest"], alpha=0.15, color=line.get_color())
    axes.set(xlabel=across, ylabel=up, yscale="log", xscale="log" if "weight" in across else "linear")
    axes.legend(fontsize="small")
    axes.grid(alpha=0.3)
    return figure


def main() -> None:
    options = parser(__doc__, "figure", FIGURES)
    options.add_argument("--states", type=int, default=256)
    options = options.parse_args()
    jax.config.update("jax_enable_x64", True)
    results = Results(options.out, "convergence")
    for name in tqdm(options.names or FIGURES):
        results.found[name] = FIGURES[name][0](options.states)
        results.keep(name)
        results.plot(name, functools.partial(draw, name=name, found=results.found[name]))


if __name__ == "__main__":
    main()
