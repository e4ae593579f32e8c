"""Disjoint sets, against sets that are merged one by one."""

import numpy as np
import pytest

from jaxdyn.engine.sets import Disjoint, connected


def merged(groups):
    """Return the numbers of connected groups, the plain way."""
    parts = []
    for k, items in enumerate(groups):
        met = [p for p in parts if p[0] & set(items)]
        parts = [p for p in parts if p not in met]
        parts.append((set(items).union(*(p[0] for p in met)), sorted([k, *(j for p in met for j in p[1])])))
    return [own for _, own in parts]


@pytest.mark.parametrize("seed", range(40))
def test_groups_that_share_items_are_connected(seed):
    rng = np.random.default_rng(seed)
    groups = [set(rng.integers(0, 12, rng.integers(0, 4)).tolist()) for _ in range(rng.integers(0, 9))]
    assert connected(groups) == merged(groups)


def test_sets_grow_together_in_the_order_of_their_items():
    sets = Disjoint("abcde")
    sets.join("d", "b")
    sets.join("b", "e")
    assert sets.find("d") == sets.find("e") != sets.find("a")
    assert sets.sets() == [["a"], ["b", "d", "e"], ["c"]]
