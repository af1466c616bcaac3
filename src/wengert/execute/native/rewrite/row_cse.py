"""Common rows of products: rows that an index array picks from a small table, multiplied once each.

Where fewer rows are there than are picked (letters of an alphabet, words of a small vocabulary, stations that measure
often), `table[i] @ w` computes the same rows again and again: `(table @ w)[i]` computes each of them once. Its
derivatives have the transposed forms: what is added up over the picks is added up before it is multiplied.

    table[i] @ w              =  (table @ w)[i]
    scatter(i, ct @ w.T)      =  scatter(i, ct) @ w.T
    table[i].T @ ct           =  table.T @ scatter(i, ct)

`scatter(i, x)` adds row k of x to row i[k] of zeros. A row of the table that nobody picks has no part in the left
sides, whatever is in it: the right sides leave it out, for 0 times infinity is not 0.
"""

from __future__ import annotations

import math

import numpy as np

from ....core.graph.snapshot import constant_node
from ....core.node import Node
from ....passes.rewrite import Rule, RuleSet, build, is_op

# The least ratio of picked rows to the table's rows.
_TIMES = 2


def _is_repeated(rows: int, index: Node) -> bool:
    return index.spec.size >= _TIMES * rows > 0


def _picked(x: object) -> tuple[Node, Node] | None:
    """Return a table and the index by which rows of it are picked, where they are picked repeatedly."""
    if not isinstance(x, Node) or x.op.name != "index" or len(x.inputs) != 2 or x.attrs["axis"] != -2:
        return None
    table, index = x.inputs
    if not isinstance(table, Node) or not isinstance(index, Node) or table.spec.ndim != 2:
        return None
    return (table, index) if _is_repeated(table.spec.shape[0], index) else None


def _is_float(node: Node) -> bool:
    """Return whether sums over the picks may be rounded to the dtype: a product of 16-bit floats sums in wider ones."""
    return bool(node.spec.dtype.kind == "f" and node.spec.dtype.itemsize >= 4)


def _of_product(node: Node) -> Node | None:
    """Rewrite picked rows times a matrix."""
    x, w = node.inputs
    found = _picked(x)
    if found is None or not isinstance(w, Node) or w.spec.ndim != 2 or not _is_float(node):
        return None
    table, index = found
    return build("index", (build("matmul", (table, w), node), index), node, axis=-2)


def _rows(x: Node, like: Node) -> Node:
    """Return the array with all but the last axis as one."""
    shape = (math.prod(x.spec.shape[:-1]), x.spec.shape[-1])
    return x if x.spec.shape == shape else build("reshape", (x,), like, shape=shape)


def _flat(index: Node, like: Node) -> Node:
    return index if index.spec.ndim == 1 else build("reshape", (index,), like, shape=(index.spec.size,))


def _scattered(index: Node, x: Node, rows: int, like: Node) -> Node:
    return build("index_transpose", (_rows(x, like), _flat(index, like)), like, axis=-2, sizes=(rows,))


def _where_picked(index: Node, x: Node, like: Node) -> Node:
    """Return a table's rows, zero where nobody picks them."""
    one = build("broadcast", (constant_node(np.ones((), np.int32)),), like, shape=(index.spec.size,))
    rows = x.spec.shape[0]
    counts = build("index_transpose", (one, _flat(index, like)), like, axis=-1, sizes=(rows,))
    picked = build("reshape", (build("not_equal", (counts, 0), like),), like, shape=(rows, 1))
    return build("where", (build("broadcast", (picked,), like, shape=x.spec.shape), x, 0.0), like)


def _of_scatter(node: Node) -> Node | None:
    """Rewrite a sum over picked rows, of a product with a matrix."""
    if len(node.inputs) != 2 or node.attrs["axis"] != -2 or len(node.attrs["sizes"]) != 1 or node.spec.ndim != 2:
        return None
    product, index = node.inputs
    if not isinstance(index, Node) or not is_op(product, "matmul") or not _is_float(node):
        return None
    assert isinstance(product, Node)
    x, w = product.inputs
    rows = node.attrs["sizes"][0]
    if not isinstance(x, Node) or not isinstance(w, Node) or w.spec.ndim != 2 or not _is_repeated(rows, index):
        return None
    if x.spec.shape[:-1] != index.spec.shape:  # one row is added for each pick
        return None
    return _where_picked(index, build("matmul", (_scattered(index, x, rows, node), w), node), node)


def _of_transposed(node: Node) -> Node | None:
    """Rewrite transposed picked rows times a matrix."""
    turned, ct = node.inputs
    if (
        not isinstance(turned, Node)
        or turned.op.name != "permute"
        or tuple(turned.attrs["axes"]) not in ((-1, -2), (1, 0))
    ):
        return None
    x = turned.inputs[0]
    if is_op(x, "reshape") and isinstance(x, Node) and isinstance(x.inputs[0], Node):
        flat, x = x, x.inputs[0]
        if flat.spec.ndim != 2 or flat.spec.shape[-1] != x.spec.shape[-1]:
            return None
    found = _picked(x)
    if found is None or not isinstance(ct, Node) or ct.spec.ndim != 2 or not _is_float(node):
        return None
    table, index = found
    sums = _scattered(index, ct, table.spec.shape[0], node)
    left = build("permute", (_where_picked(index, table, node),), node, axes=turned.attrs["axes"])
    return build("matmul", (left, sums), node)


REPEATED_ROWS = RuleSet(
    [
        Rule("a product with rows picked repeatedly", frozenset({"matmul"}), _of_product),
        Rule("a turned product with rows picked repeatedly", frozenset({"matmul"}), _of_transposed),
        Rule("sums where rows were picked, before the product", frozenset({"index_transpose"}), _of_scatter),
    ]
)
