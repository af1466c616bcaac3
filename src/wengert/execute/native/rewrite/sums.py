"""Sums of many terms of one kind as one term, whatever the kind.

The gradient of what every step of a recurrent network uses is a sum of as many terms as there are steps. Computed one
by one, each reads and writes the whole sum.

Scatters into zeros are one such kind. A table that every step of a decoder looks words up in has a gradient of as many
terms as there are steps, each of zeros but for a few rows. As one scatter the zeros are written once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ....core.graph.graph import Graph
from ....core.node import Node
from ....passes.origins import note
from ....passes.rewrite import build, moved_onto, with_outputs


class Sum(NamedTuple):
    """A sum of a graph: its last addition, its terms from the left, and those of them that nothing else reads."""

    root: Node
    terms: Sequence[Node]
    alone: frozenset[Node]


# What joins terms of a sum: it returns them and, made of the latest form of nodes, what they add up to; or None.
Join = Callable[[Sum, Callable[[Node], Node]], tuple[Sequence[Node], Node] | None]


def join_terms(graph: Graph, name: str, join: Join) -> Graph:
    """Return the graph with terms joined where `join` does so; `name` is what the rewrite is called."""
    outputs = frozenset(graph.outputs)
    alone = frozenset(
        e
        for node in graph.nodes
        if _is_sum(node)
        for e in node.inputs
        if isinstance(e, Node) and e not in outputs and len(graph.consumers(e)) == 1
    )
    replace: dict[Node, Node] = {}

    def latest(node: Node) -> Node:
        return replace.get(node, node)

    for node in graph.nodes:
        made = moved_onto(node, replace)
        if made is not node:
            note(made, "", node)
        if _is_sum(node) and node not in alone:
            terms = _terms(node, alone)
            found = join(Sum(node, terms, alone), latest)
            if found is not None:
                joined, made = found
                for term in terms:
                    if term not in joined:
                        made = build("add", (latest(term), made), node)
                note(made, name, node)
        if made is not node:
            replace[node] = made
    return with_outputs(graph, [latest(n) for n in graph.outputs])


def _is_sum(node: Node) -> bool:
    spec = node.spec
    if node.op.name != "add" or spec.dtype.kind != "f" or spec.dtype.itemsize < 4:
        return False
    return all(isinstance(e, Node) and e.spec == spec for e in node.inputs)


def _terms(root: Node, alone: frozenset[Node]) -> list[Node]:
    """Return what a sum adds up, from the left."""
    found: list[Node] = []
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node is root or (node in alone and _is_sum(node)):
            waiting += reversed(node.inputs)
        else:
            found.append(node)
    return found


# -- scatters


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
