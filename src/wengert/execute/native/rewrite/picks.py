"""Picks of one element of each row, and their gradients, as work of the loops that compute or take the rows.

A pick of what a loop computes would have the rows stored for one element each; its gradient is rows of zeros with one
element. As a masked sum, and as a choice by place, both stay inside the loop. A row holds its place exactly once, as
indices of no place are errors.
"""

from __future__ import annotations

import numpy as np

from ....core.node import Node
from ....core.spec import int32
from ....passes.rewrite import Rule, build
from .checks import place_from_start


def _rows(node: Node) -> Node:
    """Return what a node shows in another shape, by reshapes that leave each row whole."""
    while node.op.name == "reshape" and isinstance(node.inputs[0], Node):
        source = node.inputs[0]
        if not source.spec.ndim or not node.spec.ndim or source.spec.shape[-1] != node.spec.shape[-1]:
            break
        node = source
    return node


def _is_float(node: Node) -> bool:
    return bool(node.spec.dtype.kind == "f" and node.spec.dtype.itemsize >= 4)


def _hits(at: Node, rows: tuple[int, ...], like: Node) -> Node:
    """Return the mask over rows of a shape that is True at the places `at`, one in each row."""
    place = place_from_start(at, rows[-1], at.spec.ndim - 1, like)
    index = build("reshape", (place,), like, shape=rows[:-1])
    return build("one_hot", (index,), like, num_classes=rows[-1], dtype=np.dtype(bool))


def _picked(node: Node) -> Node | None:
    """Rewrite the pick of one element of each row that a loop computes as a masked sum, which fuses with the loop."""
    x, at = node.inputs
    if not isinstance(x, Node) or not isinstance(at, Node) or not _is_float(x) or x.spec.size == 0:
        return None
    rows = _rows(x)
    if rows.op.kind != "elementwise" or node.attrs["axis"] != -1 or at.spec.shape != (*x.spec.shape[:-1], 1):
        return None
    chosen = build("where", (_hits(at, rows.spec.shape, node), rows, 0.0), node)
    found = build("sum", (chosen,), node, axis=(-1,), keepdims=True)
    return build("reshape", (found,), node, shape=node.spec.shape) if rows is not x else found


def _put(node: Node) -> Node | None:
    """Rewrite rows of zeros with one element put into each as a choice by place, which fuses with what follows."""
    ct, at = node.inputs
    if not isinstance(ct, Node) or not isinstance(at, Node) or not _is_float(ct):
        return None
    shape = node.spec.shape
    if node.attrs["axis"] != -1 or ct.spec.shape[-1] != 1 or node.spec.size == 0:
        return None
    return build("where", (_hits(at, shape, node), build("broadcast", (ct,), node, shape=shape), 0.0), node)


def _sum_of_put(node: Node) -> Node | None:
    """Rewrite the sum of each row of zeros into which one element was put as that element."""
    (x,) = node.inputs
    if not isinstance(x, Node) or not x.spec.ndim or node.attrs["axis"] != (-1,) or node.spec.dtype != x.spec.dtype:
        return None
    rows = _rows(x)
    if rows.op.name != "where":
        return None
    hits, spread, other = rows.inputs
    if not isinstance(hits, Node) or hits.op.name != "one_hot" or isinstance(other, Node) or other != 0:
        return None
    if not isinstance(spread, Node) or spread.op.name != "broadcast" or hits.spec.shape != rows.spec.shape:
        return None
    put = spread.inputs[0]
    if not isinstance(put, Node) or put.spec.shape != (*rows.spec.shape[:-1], 1):
        return None
    # A sum begins at 0.0, and 0.0 plus -0.0 is 0.0.
    return build("reshape", (build("add", (put, 0.0), node),), node, shape=node.spec.shape)


def _wide_enough(node: Node) -> Node | None:
    """Rewrite one_hot with classes in a dtype that holds all of them: loops compare with every one."""
    (index,) = node.inputs
    if not isinstance(index, Node) or node.attrs["num_classes"] - 1 <= np.iinfo(index.spec.dtype).max:
        return None
    return build("one_hot", (build("cast", (index,), node, dtype=int32),), node, **node.attrs)


def hits_seen_as(view: Node, hits: Node) -> Node | None:
    """Return a reshape `view` of a mask by place as the mask of a reshaped index; None of others."""
    shape = view.spec.shape
    if view.op.name != "reshape" or hits.op.name != "one_hot" or not shape or shape[-1] != hits.attrs["num_classes"]:
        return None
    index = build("reshape", (hits.inputs[0],), view, shape=shape[:-1])
    return build("one_hot", (index,), view, **hits.attrs)


PICKS = (
    Rule("element of a row as masked sum", frozenset({"gather"}), _picked),
    Rule("element put into a row as choice", frozenset({"gather_transpose"}), _put),
    Rule("sum of a row with one element put into it", frozenset({"sum"}), _sum_of_put),
    Rule("classes in a wider dtype", frozenset({"one_hot"}), _wide_enough),
)
