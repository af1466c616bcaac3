"""Local derivatives and the gradients along each edge, by the rules of the backward pass; and the cost of nodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.errors import WengertError
from ...core.graph.graph import Graph
from ...core.graph.work import flops
from ...core.node import Node, make_node
from ...core.ops.record import OUTPUT, abstract_input
from ...core.tensor import Tensor
from ...explain.cost import cost
from ...explain.gradients.edges import Cotangent, Puller
from ..recording.recording import Row
from .stats import exact, num


def shares(row: Row) -> dict[int, Any]:
    """Return the gradient that went to each operand in the backward pass; for one that is taken twice, apart."""
    node = row.node
    if not row.left or node is None or len(set(row.operands)) == len(row.operands):
        return row.left
    twice = {i for i, o in enumerate(row.operands) if o is not None and row.operands.count(o) > 1}
    if not twice & row.left.keys() or row.gradient is None:
        return row.left
    found = _pulled(row, node, row.gradient)
    return row.left if found is None else found


def local(row: Row) -> dict[int, Any]:
    """Return the local derivative in each operand, where both are single numbers."""
    node, single = row.node, _is_single(row)
    if row.kind == "root" and single:
        return {0: 1} if row.operands[0] is not None and _is_single(row.operands[0]) else {}
    if node is None or not single or row.op is None or not any(o is not None and _is_single(o) for o in row.operands):
        return {}
    if type(node) is not Node or row.value is None:
        return {}
    found = _pulled(row, node, np.ones(node.spec.shape, node.spec.dtype))
    if found is None:
        return {}
    out = {}
    for i, gradient in found.items():
        operand = row.operands[i] if i < len(row.operands) else None
        if operand is not None and _is_single(operand) and np.size(gradient) == 1:
            slope = exact(gradient)
            out[i] = num(slope) if isinstance(slope, (int, float)) else slope
    return out


def _is_single(row: Row) -> bool:
    return (len(row.specs) == 1 and row.specs[0].shape == ()) or (len(row.specs) == 1 and row.specs[0].size == 1)


class FromRow(Puller):
    """A pull through a row's node with the values that the row keeps: those of the tape are gone."""

    def __init__(self, row: Row) -> None:
        super().__init__("a document")
        self.row = row

    def saved(self, node: Node) -> Any:
        return self.row.saved

    def operands(self, ct: Cotangent) -> dict[int, Cotangent] | None:
        """Return cotangents of the operands, by position; None where the row does not keep what that takes."""
        node = self.row.node
        assert node is not None
        try:
            return self.pull(node, ct)
        except (WengertError, IndexError, TypeError, AttributeError):
            return None  # a rule of the user's own that keeps what it likes


def _pulled(row: Row, node: Node, cotangent: Any) -> dict[int, Any] | None:
    """Return cotangents of a node's operands by position, from the values that the row keeps."""
    if node.op.kind == "leaf" or isinstance(cotangent, tuple) or node.op is OUTPUT:
        return None
    found = FromRow(row).operands(Cotangent(cotangent))
    return None if found is None else {i: ct.value for i, ct in found.items()}


def operations(row: Row) -> Any:
    """Return a row's operations, counted as :func:`wengert.explain.cost` does; 0 where they cannot be counted."""
    op = row.op
    assert op is not None
    inputs: list[Any] = []
    for i, operand in enumerate(row.operands):
        specs = operand.specs if operand is not None else ()
        inputs.append(abstract_input(specs[0]) if specs else row.literals.get(i))
    try:
        if op.body is None:
            entries = tuple(x.node if isinstance(x, Tensor) else x for x in inputs)
            node = make_node(op, entries, dict(row.attrs), None, row.spec, None, 0, None, False)
            count = flops(node).operations
        else:
            made = op.front(*inputs, **row.attrs)
            count = cost(Graph.of(list(made) if isinstance(made, tuple) else made)).flops
    except (WengertError, AttributeError, TypeError):
        return 0  # a rule of the user's own, or an operand of which nothing is known
    return num(count) if isinstance(count, (int, float)) else 0
