"""Steps of shapes whose contacts have fewer dimensions than others, or than their shared slots."""

import jax.numpy as jnp
import numpy as np
import pytest

import jaxdyn as jd

BALLS = """<mujoco><worldbody><geom type="plane" size="1 1 1" condim="{floor}"/><body pos="0 0 0.1"><freejoint/>
<geom size=".1" condim="{one}"/><geom size=".1" pos=".3 0 0" condim="{rest}"/>
<geom size=".1" pos="0 .3 0" condim="{rest}"/></body></worldbody></mujoco>"""


@pytest.mark.parametrize("compiler", ["kernel", "xla"])
@pytest.mark.parametrize(
    ("floor", "one", "rest", "slots"), [(1, 1, 3, None), (3, 3, 4, None), (1, 1, 1, None), (3, 3, 3, 2), (1, 1, 3, 2)]
)
def test_steps_of_mixed_dimensions(compiler, floor, one, rest, slots):
    """They raised an internal error. The body rests, and slides where all contacts have one dimension."""
    pytest.importorskip("mujoco")
    model = jd.load(BALLS.format(floor=floor, one=one, rest=rest)).with_compiler(compiler)
    q = model.neutral().at[2].set(0.1)
    state = jd.State(q, jnp.zeros(6).at[0].set(1e-3))
    law = jd.contact.Auto(slots=slots)
    after = jd.step(model, state, jnp.zeros(6), 1e-3, contacts=law)
    if slots is None:
        np.testing.assert_allclose(after.v[2:5], 0, atol=1e-6)
        expected = 1e-3 if (floor, one, rest) == (1, 1, 1) else 0
        np.testing.assert_allclose(after.v[0], expected, atol=1e-6)
    assert np.isfinite(np.asarray(after.v)).all() and abs(after.v[0]) < 2e-3
