"""Sums of products of matrices as one product, of their operands side by side.

    a1 @ b1 + a2 @ b2 + a3 @ b3  =  [a1 a2 a3] @ [b1; b2; b3]

So the gradient of a matrix that every step of a recurrent network multiplies by is a sum of as many products as there
are steps, each of few rows: they read and write the whole sum once for each. As one product it stays in registers. The
operands are laid side by side where they are computed, or copied, which is less work wherever this is done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ....core.graph.graph import Graph
from ....core.node import Node
from ....passes.rewrite import build, is_op
from .sums import Sum, join_terms

# A sum of fewer products is left as it is: each but the first is added as it is computed.
_LEAST = 3


class _Product(NamedTuple):
    """A product of two matrices of a graph, the left one read from row to row or (turned) from column to column."""

    left: Node
    right: Node
    turned: bool


def sums_of_products(graph: Graph) -> Graph:
    """Return the graph with one product in the place of sums of many, where there is less to read and write so."""

    def join(total: Sum, latest: Callable[[Node], Node]) -> tuple[list[Node], Node] | None:
        if total.root.spec.ndim != 2:
            return None
        found = {n: p for n in total.terms if n in total.alone and (p := _product(graph, n)) is not None}
        products = list(found.values())
        if len(products) < _LEAST or not _is_worth_it(total.root, products):
            return None
        return list(found), _joined(graph, total.root, products, latest)

    return join_terms(graph, "a sum of products as one", join)


def _product(graph: Graph, node: Node) -> _Product | None:
    """Return the product that a node is, also where it is a turned one: (Aᵀ B)ᵀ = Bᵀ A."""
    is_turned = _is_turned(node) and node.inputs[0] not in graph.outputs
    made = node.inputs[0] if is_turned and len(graph.consumers(node.inputs[0])) == 1 else node
    if not is_op(made, "matmul") or not all(_is_matrix(e) for e in made.inputs):
        return None
    left, right = made.inputs
    if _is_turned(left):
        return _Product(right, left.inputs[0], True) if is_turned else _Product(left.inputs[0], right, True)
    return None if is_turned else _Product(left, right, False)


def _is_turned(entry: object) -> bool:
    return isinstance(entry, Node) and entry.op.name == "permute" and entry.attrs["axes"][-1] in (0, -2)


def _is_matrix(entry: object) -> bool:
    return isinstance(entry, Node) and len(entry.spec.shape) == 2


def _is_worth_it(root: Node, products: Sequence[_Product]) -> bool:
    """Return whether reading and writing the sum for every product is more than to copy all operands."""
    rows, columns = root.spec.shape
    inner = sum(p.right.spec.shape[0] for p in products)
    return (len(products) - 1) * rows * columns > inner * (rows + columns)


def _joined(graph: Graph, root: Node, products: Sequence[_Product], latest: Callable[[Node], Node]) -> Node:
    """Return the products of a sum as one."""
    turned = all(p.turned for p in products)
    lefts, rights = [p.left for p in products], [p.right for p in products]
    order = (_order(graph, lefts) if turned else None) or _order(graph, rights) or range(len(products))
    lefts, rights = ([latest(x[i]) for i in order] for x in (lefts, rights))
    if not turned:
        lefts = [_turn(x, root) if products[i].turned else x for i, x in zip(order, lefts, strict=True)]
    left = build("concat", tuple(lefts), root, axis=-2 if turned else -1)
    left = _turn(left, root) if turned else left
    return build("matmul", (left, build("concat", tuple(rights), root, axis=-2)), root)


def _turn(matrix: Node, root: Node) -> Node:
    return build("permute", (matrix,), root, axes=(-1, -2))


def _order(graph: Graph, pieces: Sequence[Node]) -> list[int] | None:
    """Return the order in which a concatenation, which is there, has just these matrices one below the other."""
    at = {piece: i for i, piece in enumerate(pieces)}
    for reader in graph.consumers(pieces[0]):
        below = reader.op.name == "concat" and reader.attrs["axis"] == -2
        if below and len(reader.inputs) == len(pieces) == len(at) and all(e in at for e in reader.inputs):
            return [at[e] for e in reader.inputs]
    return None
