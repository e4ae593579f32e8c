"""Wrong calls drawn at random: each ends in an error that names the call, or in the right numbers."""

import hostile
import jax
import pytest


@pytest.mark.parametrize("seed", [11, 12])
def test_wrong_calls_are_told_or_right(seed):
    with jax.numpy_dtype_promotion("standard"):
        counts, wrong = hostile.run(seed, 400)
    assert not wrong, "\n".join(wrong)
    assert counts["error"] > 200 and counts["right"] > 30
