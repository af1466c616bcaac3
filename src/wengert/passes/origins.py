"""Where the nodes of a rewritten graph come from.

While `recording()`, the passes note for every node that they make which nodes it replaces and why.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ..core.node import Node


class Origins:
    """The steps that led to nodes: for each, why it was made and what it was made from."""

    def __init__(self) -> None:
        self._steps: dict[Node, tuple[str, tuple[Node, ...]]] = {}

    def note(self, new: Node, why: str, *old: Node) -> None:
        """`new` takes the place of `old`, by the rewrite called `why`."""
        if new not in old:
            self._steps.setdefault(new, (why, old))

    def history(self, node: Node) -> list[tuple[str, Node]]:
        """The rewrites behind a node, the last first: (why, what was there before)."""
        found: list[tuple[str, Node]] = []
        seen = {node}
        stack = [node]
        while stack:
            why, old = self._steps.get(stack.pop(), ("", ()))
            for n in old:
                if n not in seen:
                    seen.add(n)
                    if why:
                        found.append((why, n))
                    stack.append(n)
        return found

    def ancestors(self, node: Node) -> list[Node]:
        """The nodes of the graph before all passes that a node comes from: those that nothing led to."""
        first = [n for _, n in self.history(node) if n not in self._steps]
        return first if first or node in self._steps else [node]


_current: ContextVar[Origins | None] = ContextVar("origins", default=None)


@contextmanager
def recording() -> Iterator[Origins]:
    """Note the origins of nodes that passes make meanwhile."""
    origins = Origins()
    token = _current.set(origins)
    try:
        yield origins
    finally:
        _current.reset(token)


def note(new: Node, why: str, *old: Node) -> None:
    """Tell whoever records that `new` takes the place of `old` (an empty `why`: the same, on other inputs)."""
    origins = _current.get()
    if origins is not None:
        origins.note(new, why, *old)
