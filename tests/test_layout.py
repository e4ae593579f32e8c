"""Where values are stored: branches compute results in their places."""

import functools
import platform

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scalar_help import needs_kernels
from test_called import TABLE, Choice, both, steps, values

from jaxdyn.engine import cpu, kept, kernels, layout, native, nodes
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
    (choice,) = (node for node in Layout(schedule(program), 1000).nodes if isinstance(node, nodes.Choice))
    first, second = map(copies, choice.cases.values())
    assert first == 0 and second > 10


@pytest.mark.parametrize("mode", ["straight", "called"])
@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="it is about these processors' instructions")
def test_lanes_outside_of_a_branch_keep_values_without_masked_stores(mode):
    """These take AMD's processors twelve cycles each."""
    with steps(mode), kernels.watching() as seen:
        jax.jit(jax.vmap(laned(chosen, Choice()), (None, 0, 0))).lower(*values(9, np.float32))
    program = kernels.arranged(kernels.program_of(*seen[0]), mode, 2)
    host, code = native.machine(native.llvm().get_process_triple(), "x86-64-v3", ""), ""
    for text in cpu.modules(schedule(program), 32):
        module = native.llvm().parse_assembly(text, native.llvm().create_context())
        module.triple = host.triple
        code += host.emit_assembly(module)
    assert "vblendvps" in code and "vmaskmov" not in code


def nested(share, choice, p, x, f):
    """Branches in a loop and in each other. What they compute is read by a later sweep, and is more than one result."""

    def deep(y):
        first = swept(TABLE, {"p": p, "x": y, "f": f})["f"][1:]
        second = swept(TABLE, {"p": p, "x": jnp.tanh(first), "f": f})["f"][1:]
        return first, second, first, y

    def between(y):
        return jax.lax.cond((y[1, 0] > 0).all(), deep, shallow, y)

    def shallow(y):
        for _ in range(40):
            y = y * share + f[1:]
        return y, y, -y, y

    def body(k, y):
        parts = jax.lax.cond((y[0, 0] > 0.1 * k).all(), deep, between, y)
        return jnp.tanh(sum(n * part for n, part in enumerate(parts, 1)))

    return jax.lax.fori_loop(0, 4, body, x)


@pytest.mark.parametrize(("many", "piece"), [(64, 1000), (1, 1000), (1, 5)])
def test_branches_in_loops_and_in_branches(monkeypatch, many, piece):
    fn = functools.partial(nested, 0.9 - 1e-3 * many - 1e-5 * piece)  # else code of another layout would be found
    p, x, f = args = values(23, np.float64)
    choice = Choice()
    choice.compiler = "xla"
    one = jax.jit(laned(fn, choice))
    wanted = [one(p, *lane) for lane in zip(x, f, strict=True)]
    kept.forget()
    monkeypatch.setattr(layout, "MANY", many)
    monkeypatch.setattr(cpu, "PIECE", piece)
    for (found,) in both(fn, args, (None, 0, 0)):
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)
    kept.forget()
