"""What is known of parameters: programs that leave out zeros and ones, beside those that do not."""

import dataclasses
from typing import ClassVar

import emulator
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scalar_help import agree, needs_kernels

from jaxdyn.engine import kernels
from jaxdyn.engine.lanes import laned

pytestmark = needs_kernels


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Numbers:
    """Parameters: the same for all lanes, and looked at."""

    m: jax.Array
    b: jax.Array
    parameters_of_lanes: ClassVar[bool] = True


def chain(p, x):
    """Products and sums as robots have them."""
    y = x
    for _ in range(3):
        parts = p.m * y[None]
        y = (parts[:, 0] - parts[:, 1]) * 0.5 + parts[:, 2] + p.b
    e = p.b * p.b + 1
    turned = jnp.where(p.b > 0, y / e, -y * p.b)
    return {"y": y, "turned": turned, "root": jnp.sqrt(y * y + p.b), "dot": (p.m * p.m).sum(1) * x}


def parameters(kind):
    rng = np.random.default_rng(2)
    few = np.array([0.0, 1.0, -1.0, 0.3, -0.0])
    m, b = {
        "some": (rng.choice(few, (3, 3)), rng.choice(few, 3)),
        "unit": (np.eye(3), np.ones(3)),
        "none": (np.zeros((3, 3)), np.zeros(3)),
        "minus": (-np.eye(3)[::-1], -np.ones(3)),
        "any": (rng.normal(size=(3, 3)), rng.normal(size=3)),
    }[kind]
    return Numbers(jnp.asarray(m), jnp.asarray(b))


@pytest.mark.parametrize("kind", ("some", "unit", "none", "minus", "any"))
def test_what_is_known_changes_no_number(kind):
    p, x = parameters(kind), jnp.asarray(np.random.default_rng(4).normal(size=(37, 3)) * 100)
    g = laned(chain)
    unknown = jax.jit(jax.vmap(g, (None, 0)))(p, x)
    each = jax.jit(jax.vmap(g))(jax.tree.map(lambda o: jnp.broadcast_to(o, (37, *o.shape)), p), x)
    with kernels.watching() as seen:
        known = jax.jit(lambda x: jax.vmap(lambda y: g(p, y))(x))(x)
    left, whole = kernels.program_of(*seen[0]), kernels.program_of(*seen[0][:3], (False,) * 3)
    assert (len(left.op) < len(whole.op)) == (kind != "any")
    # which product is fused into a sum depends on what else reads it: without that, they are the same numbers
    numbers = [np.asarray(p.m).reshape(-1, 1), np.asarray(p.b)[:, None], np.asarray(x).T]
    for got, wanted in zip(emulator.run(left, numbers), emulator.run(whole, numbers), strict=True):
        agree(got, wanted)
    for name in known:
        agree(each[name], unknown[name], what=name)
        agree(known[name], unknown[name], 1e-12, what=name)
