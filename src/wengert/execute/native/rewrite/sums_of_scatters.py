"""Sums of scatters into zeros as one scatter, of their values side by side.

A table that every step of a decoder looks words up in has a gradient of as many terms as there are steps, each of zeros
but for a few rows. As one scatter the zeros are written once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ....core.graph.graph import Graph
from ....core.node import Node
from ....passes.rewrite import build
from .sums import Sum, join_terms


def sums_of_scatters(graph: Graph) -> Graph:
    """Return the graph with one scatter in the place of sums of several, where there is less to write so."""

    def join(total: Sum, latest: Callable[[Node], Node]) -> tuple[list[Node], Node] | None:
        alike: dict[Any, list[Node]] = {}
        for term in total.terms:
            if term in total.alone and (kind := _kind(term)) is not None:
                alike.setdefault(kind, []).append(term)
        found = max(alike.values(), key=len, default=[])
        values = sum(n.inputs[0].spec.size for n in found)
        if len(found) < 2 or (len(found) - 1) * total.root.spec.size <= values:
            return None
        return found, _joined(total.root, [latest(n) for n in found])

    return join_terms(graph, "a sum of scatters as one", join)


def _kind(node: Node) -> Any:
    """Return what scatters have in common that can be one; None for what is none, or has axes before the rows."""
    if node.op.name != "index_transpose" or len(node.inputs) != 2:
        return None
    values, index = node.inputs
    if not isinstance(values, Node) or not isinstance(index, Node) or not index.spec.size:
        return None
    rows = index.spec.ndim
    tail = values.spec.shape[rows:]
    if values.spec.shape[:rows] != index.spec.shape or len(tail) != -node.attrs["axis"] - 1:
        return None
    return node.attrs["axis"], node.attrs["sizes"], tail, values.spec.dtype, index.spec.dtype


def _joined(root: Node, scatters: list[Node]) -> Node:
    """Return scatters of one kind as one."""
    values, indices = [], []
    for node in scatters:
        ct, index = node.inputs
        count = math.prod(index.spec.shape)
        indices.append(build("reshape", (index,), root, shape=(count,)))
        values.append(build("reshape", (ct,), root, shape=(count, *ct.spec.shape[index.spec.ndim :])))
    axis = -values[0].spec.ndim
    joined = build("concat", tuple(values), root, axis=axis), build("concat", tuple(indices), root, axis=-1)
    return build("index_transpose", joined, root, **scatters[0].attrs)
