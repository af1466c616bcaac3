"""Products of matrices with a tiny axis, as loops.

A kernel for matrices holds a tile of the result in registers and pads what is smaller. Where the
inner axis has a few elements, the product is a few multiplications for every element of the result:
elementwise work, which fuses with what comes before and after. Where the result has a few columns and
the left matrix is what a loop computes, it is a few sums along that loop's rows, and the matrix
need not be written for them. That pays while products are small enough for calls, and what passes
between them, to be what they cost. The tiny axis itself is taken apart
(:mod:`~wengert.execute.native.rewrite.scalarize`), so that a small network, an integrator's stages
included, is one kernel.
"""

from __future__ import annotations

from ....core.node import Node
from ....passes.rewrite import Rule, RuleSet, build

# The longest axis that is tiny.
TINY = 4
# The most elements of a loop in the place of a product. Where there are more, tiles are faster, padded as they are.
_FEW = 4096


def _product(node: Node) -> Node | None:
    x, y = node.inputs
    if not isinstance(x, Node) or not isinstance(y, Node) or node.spec.dtype.kind != "f":
        return None
    rows, inner = x.spec.shape[-2:]
    columns = y.spec.shape[-1]
    # Vectors have kernels of their own; 16-bit floats are summed as wider ones.
    if min(rows, columns) < 2 or node.spec.size == 0 or inner == 0 or node.spec.dtype.itemsize < 4:
        return None
    if max(node.spec.size, x.spec.size) > _FEW:
        return None
    if inner <= TINY:
        return _outer_products(node, x, y, inner)
    if columns <= TINY and x.op.kind == "elementwise":
        return _column_sums(node, x, y, columns)
    return None


def _outer_products(node: Node, x: Node, y: Node, inner: int) -> Node:
    """Return the sum over the inner axis of a column times a row."""
    total: Node | None = None
    for i in range(inner):
        column = _spread(build("slice", (x,), node, entries=(i,)), -1, node.spec.shape, node)
        row = _spread(build("slice", (y,), node, entries=(i, (None, None, None))), -2, node.spec.shape, node)
        term = build("multiply", (column, row), node)
        total = term if total is None else build("add", (total, term), node)
    assert total is not None
    return total


def _column_sums(node: Node, x: Node, y: Node, columns: int) -> Node:
    """Return the product with every column as a sum along the rows of x."""
    shape = (*node.spec.shape[:-1], x.spec.shape[-1])
    x = build("broadcast", (x,), node, shape=shape) if x.spec.shape != shape else x
    sums = []
    for i in range(columns):
        column = _spread(build("slice", (y,), node, entries=(i,)), -2, shape, node)
        sums.append(build("sum", (build("multiply", (x, column), node),), node, axis=(-1,), keepdims=False))
    return build("stack", tuple(sums), node, axis=-1)


def _spread(x: Node, axis: int, shape: tuple[int, ...], like: Node) -> Node:
    """Return `x` with an axis of size 1 before or after its last one, broadcast to a shape."""
    *lead, last = x.spec.shape
    opened = build("reshape", (x,), like, shape=(*lead, last, 1) if axis == -1 else (*lead, 1, last))
    return build("broadcast", (opened,), like, shape=shape) if opened.spec.shape != shape else opened


SMALL_PRODUCTS = RuleSet([Rule("a product with a tiny axis as a loop", frozenset({"matmul"}), _product)])
