"""Origins: the steps by which passes made the nodes of a rewritten graph.

While `recording()`, the passes note for every node that they make which nodes it replaces and why.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ..core.node import Node


class Origins:
    """The steps that led to nodes: for each, why it was made and what it was made from.

    `first` are the nodes before all passes; others may become one of them later.
    """

    def __init__(self, first: Iterable[Node] = ()) -> None:
        self._first = frozenset(first)
        self._steps: dict[Node, list[tuple[str, tuple[Node, ...]]]] = {}

    def note(self, new: Node, why: str, *old: Node) -> None:
        """Note that `new` takes the place of `old`, by the rewrite called `why`; several notes add up."""
        if new not in old:
            self._steps.setdefault(new, []).append((why, old))

    def history(self, node: Node) -> list[tuple[str, Node]]:
        """Return the rewrites behind a node, the last first: (why, what was there before)."""
        return [(why, n) for why, n in self._behind(node) if why]

    def ancestors(self, node: Node) -> list[Node]:
        """Return the nodes of the first graph that a node comes from, and those that no pass made."""
        everything = [node, *(n for _, n in self._behind(node))]
        return [n for n in everything if n in self._first or n not in self._steps]

    def _behind(self, node: Node) -> list[tuple[str, Node]]:
        """Return the steps that led to a node, nearest first, with their rewrites ("": the same, on other inputs)."""
        found: list[tuple[str, Node]] = []
        seen = {node}
        stack = [node]
        while stack:
            for why, old in self._steps.get(stack.pop(), ()):
                for n in old:
                    if n not in seen:
                        seen.add(n)
                        found.append((why, n))
                        stack.append(n)
        return found


_current: ContextVar[Origins | None] = ContextVar("origins", default=None)


@contextmanager
def recording(first: Iterable[Node] = ()) -> Iterator[Origins]:
    """Note the origins of the nodes that passes make within the block, of the nodes `first`."""
    origins = Origins(first)
    token = _current.set(origins)
    try:
        yield origins
    finally:
        _current.reset(token)


def note(new: Node, why: str, *old: Node) -> None:
    """Tell the recorder, if any, that `new` takes the place of `old` (an empty `why`: the same, on other inputs)."""
    origins = _current.get()
    if origins is not None:
        origins.note(new, why, *old)
