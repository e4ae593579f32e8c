"""What compiling costs: the size of the programs of small robots, and how often they are traced. A budget that is
exceeded means slower starts for everyone: raise it only for something worth it."""

import time

import jax
import jax.numpy as jnp
import pytest
from catalogue import CATALOGUE
from compiled import states

import jaxdyn as jd


def operands(robot):
    return CATALOGUE[robot].build(), *(jnp.asarray(x[0]) for x in states(robot))


def accelerate(model, q, v, tau):
    return jd.forward_dynamics(model, jd.State(q, v), tau).acceleration


def instructions(f, *args) -> int:
    """Operations in the lowered program, those of every function counted once."""
    return sum(" = " in line for line in jax.jit(f).lower(*args).as_text().splitlines())


def chain(n):
    spec = jd.ModelSpec(f"chain_{n}")
    for k in range(n):
        parent = f"link_{k - 1}" if k else "world"
        inertia = jd.Inertia(1.0, (0.1, 0, 0), 0.01 * jnp.eye(3))
        placement = jd.Transform.from_quaternion((1, 0, 0, 0), (0.2, 0, 0))
        spec.add_body(f"link_{k}", parent, jd.joints.Revolute(axis=(0, 1, 0)), placement=placement, inertia=inertia)
    return spec.build()


#: program, robot, most instructions
BUDGETS = {
    "tree": (accelerate, "quadruped", 3500),
    "loop": (accelerate, "four_bar_point", 6000),
    "mass_matrix": (lambda m, q, v, tau: jd.mass_matrix(m, q), "quadruped", 2500),
    "inverse_dynamics": (lambda m, q, v, tau: jd.inverse_dynamics(m, jd.State(q, v), tau), "quadruped", 2500),
    "gradient": (
        lambda m, q, v, tau: jax.grad(lambda t: accelerate(m, q, v, t).sum())(tau),
        "four_bar_point",
        12000,
    ),
}


@pytest.mark.parametrize("name", BUDGETS)
def test_size_of_programs(name):
    f, robot, most = BUDGETS[name]
    size = instructions(f, *operands(robot))
    print(name, size)
    assert size <= most


def test_size_follows_the_depth_not_the_bodies():
    """Rows of one kind that do not wait for each other are one call: many legs cost what one does."""

    def star(n):
        spec = jd.ModelSpec(f"star_{n}")
        for k in range(n):
            inertia = jd.Inertia(1.0, (0.1, 0, 0), 0.01 * jnp.eye(3))
            spec.add_body(f"leg_{k}", "world", jd.joints.Revolute(axis=(0, 1, 0)), inertia=inertia)
        return spec.build()

    def size(model):
        x = jnp.zeros(model.nv)
        return instructions(accelerate, model, x, x, x)

    assert size(star(12)) < 1.6 * size(star(3))
    assert size(chain(8)) < 2.2 * size(chain(4))


def test_a_batch_is_no_larger_a_program():
    model, q, v, tau = operands("four_bar_point")
    one = instructions(accelerate, model, q, v, tau)
    many = jax.vmap(accelerate, (None, 0, 0, 0))
    wide = [jnp.broadcast_to(x, (64, *x.shape)) for x in (q, v, tau)]
    assert instructions(many, model, *wide) < 1.2 * one


def test_tracing_is_quick():
    """A second trace of a robot, after the plans are cached, takes no seconds."""
    args = operands("four_bar_point")
    jax.jit(lambda *a: accelerate(*a)).lower(*args)
    start = time.perf_counter()
    jax.jit(lambda *a: accelerate(*a)).lower(*args)
    assert time.perf_counter() - start < 5.0
