"""Long computations do not depend on how deep the stack of Python is when they begin."""

import sys

import pytest

from jaxdyn.engine.room import roomy

CALLS = 2000


def at_depth(depth, fn):
    return fn() if depth == 0 else at_depth(depth - 1, fn)


def small(k):
    return k


def many():
    for k in range(CALLS):
        small(k)


@pytest.mark.skipif(sys.platform != "linux", reason="counts page faults")
def test_no_call_maps_memory():
    """At some depths frames end where a chunk does."""
    import resource

    def faults():
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

    def counted():
        before = faults()
        many()
        return faults() - before

    assert max(at_depth(depth, roomy(counted)) for depth in range(150)) < CALLS / 4


def test_it_is_the_function():
    @roomy
    def ratio(x: float, *, over: float) -> float:
        """Return x / over."""
        return x / over

    assert ratio(3.0, over=2.0) == 1.5 and ratio.__name__ == "ratio" and ratio.__doc__ == "Return x / over."
    with pytest.raises(ZeroDivisionError):
        ratio(1.0, over=0.0)
