"""Kernels beside XLA, for functions that nobody thought of."""

import pytest
import random_functions
from scalar_help import needs_kernels


@needs_kernels
@pytest.mark.parametrize("seed", range(8))
def test_kernels_and_xla_agree(seed):
    found = random_functions.apart(seed)
    assert max(found.values()) <= 1, f"{found} of the tolerance"
