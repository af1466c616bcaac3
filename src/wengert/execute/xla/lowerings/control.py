"""Control flow in XLA: switches, loops and scans as `lax.switch`, `lax.while_loop` and `lax.scan`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....core.graph.graph import Graph
from ....core.node import Node
from ..api import jnp, lax
from ..rules import Trace, lowers


@lowers("switch")
def _switch(t: Trace, node: Node, index: Any, *args: Any) -> Any:
    runs = [t.inner(branch) for branch in node.attrs["branches"]]
    index = jnp.clip(index, 0, len(runs) - 1)
    if over := t.met(node.attrs["branches"]):
        index, differs = t.agreed(index, over)
        t.check(differs)
    outputs, wrong = lax.switch(index, runs, *args)
    t.check(wrong)
    return tuple(outputs)


def _rows(specs: Any, length: int) -> list[Any]:
    return [jnp.zeros((length, *s.shape), s.dtype) for s in specs]


@lowers("while_loop")
def _while_loop(t: Trace, node: Node, *args: Any) -> Any:
    cond, body = node.attrs["cond"], node.attrs["body"]
    carries, limit = node.attrs["carries"], node.attrs["max_steps"]
    shared = args[carries:]
    goes_on, step = t.inner(cond), t.inner(body)
    kept = [n.spec for n in body.outputs[carries:]]
    over = t.met((cond, body))
    start = list(args[:carries]), _rows(kept, limit or 0), jnp.zeros((), np.int64), jnp.zeros((), bool)

    def going(state: Any) -> Any:
        carry, _, count, _ = state
        (found,), _ = goes_on(*carry, *shared)
        found = jnp.reshape(found, ()) != 0
        return found if limit is None else found & (count < limit)

    def test(state: Any) -> Any:
        return t.agreed(going(state), over)[0] if over else going(state)

    def run(state: Any) -> Any:
        carry, rows, count, wrong = state
        _, wrong_test = goes_on(*carry, *shared)
        found, wrong_step = step(*carry, *shared)
        rows = [lax.dynamic_update_index_in_dim(r, y, count, 0) for r, y in zip(rows, found[carries:], strict=True)]
        return found[:carries], rows, count + 1, wrong | wrong_test | wrong_step

    end = lax.while_loop(test, run, start)
    carry, rows, count, wrong = end
    t.check(wrong)
    if over:
        t.check(t.agreed(going(end), over)[1])
    return (*carry, *rows, count) if kept else tuple(carry)


@lowers("scan")
def _scan(t: Trace, node: Node, *args: Any) -> Any:
    return _scanned(t, node, args, None)


@lowers("partial_scan")
def _partial_scan(t: Trace, node: Node, iterations: Any, *args: Any) -> Any:
    iterations = jnp.clip(iterations, 0, node.attrs["length"])
    if over := t.met((node.attrs["body"],)):
        iterations, differs = t.agreed(iterations, over)
        t.check(differs)
    return _scanned(t, node, args, iterations)


def _scanned(t: Trace, node: Node, args: Any, iterations: Any) -> Any:
    body: Graph = node.attrs["body"]
    carries, sequences, length = (node.attrs[name] for name in ("carries", "sequences", "length"))
    reverse = node.attrs["reverse"]
    rows, shared = args[carries : carries + sequences], args[carries + sequences :]
    run = t.inner(body)
    specs = [n.spec for n in body.outputs]

    def step(state: Any, xs: Any) -> Any:
        carry, wrong = state
        number, *given = xs

        def taken() -> Any:
            found, bad = run(*carry, *given, *shared)
            return (found[:carries], wrong | bad), found[carries:]

        def left() -> Any:
            return (list(carry), wrong), [jnp.zeros(s.shape, s.dtype) for s in specs[carries:]]

        return taken() if iterations is None else lax.cond(number < iterations, taken, left)

    start = list(args[:carries]), jnp.zeros((), bool)
    numbers = lax.iota(np.int64, length)
    (carry, wrong), ys = lax.scan(step, start, (numbers, *rows), length=length, reverse=reverse)
    t.check(wrong)
    return (*carry, *ys)
