"""The operations that a node takes, by its op's declaration (:mod:`wengert.core.ops.costs`).

One addition, multiplication or comparison of real numbers counts 1. Other elementwise functions count
what a good implementation takes, rounded. A product of matrices counts an addition and a multiplication
for each term, 2 m n k. Moving elements counts nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..errors import GraphError
from ..node import Node
from ..ops.costs import cost_of
from ..ops.facets import Count
from ..ops.op import Op, spec_of_input
from ..spec import Spec
from .snapshot import specs_of


class Flops(NamedTuple):
    """A count (an int, or a polynomial in unknown sizes) and the rule that gave it; None where `rule` says why not."""

    operations: Any
    rule: str


def flops(node: Node) -> Flops:
    """Return the operations of a node that is not composite."""
    out = specs_of(node)[0]
    specs = [spec_of_input(e) for e in node.inputs]
    cost = cost_of(node.op)
    try:
        if isinstance(cost, Count):
            # A complex product is four real ones and two sums for one.
            factor = 4 if out.dtype.kind == "c" and specs[0].dtype.kind == "c" else 1
            return Flops(cost.operations(node, specs, out) * factor, cost.words)
        if node.op.kind == "elementwise":
            return _elementwise(node.op, specs, out)
        if cost == 0:
            return Flops(0, "moves elements")
        if cost is not None and node.op.draws:
            return Flops(out.size * cost, f"{cost} for each number drawn")
        if cost is not None:
            parts = 2 if specs[0].dtype.kind == "c" else 1
            return Flops(specs[0].size * cost * parts, f"{cost} for each element of its operand")
        size = sum(s.size for s in [*specs, *specs_of(node)])
    except GraphError:
        return Flops(None, "needs sizes that are not known until the graph is fed")
    return Flops(size, "no rule for this op: 1 for each element read or written")


def _elementwise(op: Op, specs: Sequence[Spec], out: Spec) -> Flops:
    weight = cost_of(op)
    assert isinstance(weight, int)
    words = f"{weight} for each element" if "cost" in op.facets else f"a special function, {weight} for each element"
    if any(s.dtype.kind == "c" for s in specs):
        weight = op.facets.get("complex_cost", 4 * weight)
        words = f"{weight} for each complex element"
    return Flops(out.size * weight, words)
