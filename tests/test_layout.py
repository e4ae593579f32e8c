"""Where values are stored: branches compute results in their places."""

import jax
import numpy as np
import pytest
from scalar_help import needs_kernels
from test_called import TABLE, Choice, steps, values

from jaxdyn.engine import kernels, nodes
from jaxdyn.engine.lanes import laned
from jaxdyn.engine.layout import Layout
from jaxdyn.engine.order import schedule
from jaxdyn.engine.sweeps import swept

pytestmark = needs_kernels


def chosen(choice, p, x, f):
    """A sweep in one branch, little in the other one."""

    def other():
        y = x
        for _ in range(40):  # more than what is computed in both cases
            y = y * 0.9 + f[1:]
        return y

    return jax.lax.cond((x[0, 0] > 0).all(), lambda: swept(TABLE, {"p": p, "x": x, "f": f})["f"][1:], other)


def copies(case) -> int:
    """The number of values that a branch copies to results."""
    found = 0
    for node in case:
        if isinstance(node, nodes.Moves):
            found += len(node.values)
        elif isinstance(node, nodes.Piece):
            found += sum(len(st.places) for st in node.statements if isinstance(st, nodes.Outcome))
    return found


@pytest.mark.parametrize("mode", ["straight", "called"])
def test_the_branch_that_computes_most_copies_no_results(mode):
    """It computes them where they are read; the other one replaces those of its lanes."""
    with steps(mode), kernels.watching() as seen:
        jax.jit(jax.vmap(laned(chosen, Choice()), (None, 0, 0))).lower(*values(9, np.float64))
    program = kernels.arranged(kernels.program_of(*seen[0]), mode, 2)
    layout = Layout(schedule(program), 1000)
    (choice,) = (node for node in layout.nodes if isinstance(node, nodes.Choice))
    first, second = map(copies, choice.cases.values())
    assert first == 0 and second > 10
