"""Values of abstract tensors, computed on demand from the values of a trace's inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.elsewhere import Elsewhere
from ...core.graph.evaluate import compute
from ...core.mode import get_mode, reset_mode, set_mode
from ...core.node import Mixed, Node
from ...core.ops.op import ALIAS, LEAF
from ...core.ops.record import OUTPUT
from ...core.tensor import Tensor


class Unknown(Exception):
    """An error: a value depends on something that has none (the argument of an inner trace)."""


class Values:
    """The values of recorded nodes, each computed once."""

    def __init__(self) -> None:
        self.known: dict[Node, Any] = {}
        self._brought: dict[int, tuple[Elsewhere, Any]] = {}

    def of(self, root: Node) -> Any:
        """Return the value of a node. Raises Unknown."""
        stack = [root]
        known = self.known
        while stack:
            node = stack[-1]
            if node in known:
                stack.pop()
                continue
            waiting = [e for e in _needed(node) if e not in known]
            if waiting:
                stack.extend(waiting)
                continue
            stack.pop()
            known[node] = self._compute(node)
        return known[root]

    def can_be_known(self, root: Node) -> bool:
        """Return whether a node depends only on nodes that have values."""
        seen = {root}
        stack = [root]
        while stack:
            node = stack.pop()
            if node in self.known:
                continue
            needed = _needed(node)
            if node.op.kind == "leaf" and not needed and node.op is not LEAF:
                return False
            stack += [e for e in needed if e not in seen]
            seen.update(needed)
        return True

    def ends(self, root: Node) -> set[Node]:
        """Return the inputs that a node's value depends on."""
        ends: set[Node] = set()
        seen = {root}
        stack = [root]
        while stack:
            node = stack.pop()
            needed = _needed(node)
            if node.op.kind == "leaf" and not needed and not node.inputs:
                ends.add(node)
            stack += [e for e in needed if e not in seen]
            seen.update(needed)
        return ends

    def _compute(self, node: Node) -> Any:
        if node.op.kind == "leaf":
            if node.inputs:
                value = node.inputs[0]
                return self.known[value] if isinstance(value, Node) else value
            owner = node.variable if node.op is LEAF else None
            if owner is None or owner._array is None:
                raise Unknown
            return self._here(owner._array)
        values = node.saved if type(node.saved) is Mixed else ()
        args = []
        for i, entry in enumerate(node.inputs):
            value = values[i] if values else None
            if isinstance(value, Tensor) and value._array is not None:
                args.append(value._array)
            elif isinstance(entry, Node):
                args.append(self.known[entry])
            elif isinstance(entry, Tensor):
                args.append(entry._array if entry.node is None else self.known[entry.node])
            else:
                args.append(entry)
        args = [self._here(a) for a in args]
        if node.op is ALIAS:
            return args[0]
        if node.op is OUTPUT:
            return args[0][node.attrs["index"]]
        # While tracing, what draws numbers would be recorded; here it is computed.
        token = set_mode(get_mode().traced(None, grad=False, tracing=False))
        try:
            with np.errstate(all="ignore"):  # infinities and NaNs are values
                return compute(node, args)
        finally:
            reset_mode(token)

    def _here(self, value: Any) -> Any:
        """Return a value as an array of the host's; of one in parts the whole, which all ranks join, once."""
        if not isinstance(value, Elsewhere):
            return value
        if id(value) not in self._brought:
            self._brought[id(value)] = value, value.joined("a decision")
        return self._brought[id(value)][1]


def _needed(node: Node) -> list[Node]:
    """Return the nodes whose values a node's own is computed from."""
    values = node.saved if type(node.saved) is Mixed else ()
    found = []
    for i, entry in enumerate(node.inputs):
        value = values[i] if values else None
        if isinstance(value, Tensor) and value._array is not None:
            continue
        source = entry.node if isinstance(entry, Tensor) else entry
        if isinstance(source, Node):
            found.append(source)
    return found
