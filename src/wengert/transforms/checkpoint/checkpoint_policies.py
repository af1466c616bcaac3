"""Policies for `wg.checkpoint(f, policy=...)`: the choice of the values that a checkpoint keeps.

A policy is a function of a recorded node that says whether to keep its result, or an object whose
`select(nodes)` returns the nodes of a checkpoint whose results are kept.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any, Protocol, runtime_checkable

from ...core.errors import DTypeError, fail
from ...core.node import Node
from ...core.ops.facets import VIEWS
from ...core.ops.op import TABLE, spec_of_input

__all__ = [
    "Policy",
    "Selection",
    "cost",
    "everything_saveable",
    "nothing_saveable",
    "save_bytes",
    "save_names",
    "save_ops",
]

Policy = Callable[[Node], bool]


@runtime_checkable
class Selection(Protocol):
    """A policy that looks at a checkpoint's nodes together."""

    def select(self, nodes: Sequence[Node]) -> Iterable[Node]:
        """Return the nodes whose results are kept."""


def nothing_saveable(node: Node) -> bool:
    """Keep only the inputs of the region: the default."""
    return False


def everything_saveable(node: Node) -> bool:
    """Keep everything, as without a checkpoint."""
    return True


def _names(names: Sequence[Any], what: str) -> frozenset[str]:
    for name in names:
        if not isinstance(name, str):
            fail(DTypeError, f"{what} of a {type(name).__name__}", "Give names, each a string.")
    return frozenset(names)


def save_ops(*names: str) -> Policy:
    """Keep the results of these ops: `save_ops("matmul", "conv2d")`. Raises DTypeError for one that does not exist."""
    chosen = _names(names, "save_ops()")
    for name in sorted(chosen):
        if name not in TABLE:
            fail(DTypeError, f"save_ops({name!r}): no such op", "A node's op is node.op.name.")
    return lambda node: node.op.name in chosen


def save_names(*names: str) -> Policy:
    """Keep the values that :func:`wengert.checkpoint_name` named so."""
    chosen = _names(names, "save_names()")
    return lambda node: node.op.name == "checkpoint_name" and node.attrs["name"] in chosen


class save_bytes:
    """Keep results of at most `limit` bytes in all: those that cost the most to compute for their size.

    The costs are estimates: 2 for each multiplication and addition of a product or a convolution, 1
    for each element that another op reads or writes, nothing for what only rearranges.
    """

    def __init__(self, limit: int) -> None:
        if isinstance(limit, bool) or not isinstance(limit, (int, float)) or limit < 0:
            fail(DTypeError, f"save_bytes({limit!r})", "Give a number of bytes.")
        self.limit = limit

    def select(self, nodes: Sequence[Node]) -> list[Node]:
        """Return the most expensive results for each byte, until the limit is reached."""
        ranked = [(-cost(n) / max(size, 1), i, size) for i, n in enumerate(nodes) if (size := _bytes(n))]
        heapq.heapify(ranked)
        left = self.limit
        chosen = []
        while ranked:
            price, i, size = heapq.heappop(ranked)
            if price < 0 and size <= left:
                left -= size
                chosen.append(nodes[i])
        return chosen


def _specs(node: Node) -> Sequence[Any]:
    return node.spec if isinstance(node.spec, tuple) else (node.spec,)


def _bytes(node: Node) -> int:
    return sum(prod(s.shape) * s.dtype.itemsize for s in _specs(node))


def cost(node: Node) -> float:
    """Return an estimate of what a node costs to compute, in elementary operations."""
    name = node.op.name
    if node.op.role in VIEWS or name == "copy":
        return 0.0
    ins = [spec_of_input(e) for e in node.inputs]
    out = sum(prod(s.shape) for s in _specs(node))
    if name == "matmul":
        return float(2 * out * ins[0].shape[-1])
    if name.startswith("conv") and len(ins) > 1 and len(ins[1].shape) > 2:
        return float(2 * out * prod(ins[1].shape[1:]))
    return float(max([out, *(prod(s.shape) for s in ins)]))


def __dir__() -> list[str]:
    return sorted(__all__)
