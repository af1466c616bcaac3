"""The nodes of a document, such as an ONNX model, that rows and scopes came from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ..recording.recording import Row
from ..recording.scopes import Tree, node_of


class Origins:
    """A table of a document's nodes, each once. A node says by `told()`, a dataclass of plain data, what it is."""

    def __init__(self) -> None:
        self._index: dict[int, int] = {}
        self._found: list[Any] = []

    def of(self, node: Any) -> int:
        """Return the row of a node in the table, -1 of none."""
        if node is None:
            return -1
        if id(node) not in self._index:
            self._index[id(node)] = len(self._found)
            self._found.append(node.told())
        return self._index[id(node)]

    def entries(self, rows: Sequence[Row], tree: Tree) -> dict[str, Any] | None:
        """Return the table, and which of its rows nodes and scopes came from; None where none did."""
        nodes = [self.of(node_of(row.scope) if row.op is not None else None) for row in rows]
        scopes = [self.of(place.node) for place in tree.places]
        if not self._found:
            return None
        return {
            "nodes": nodes,
            "scopes": scopes,
            "list": [_entry(one) for one in self._found],
        }


def _entry(told: Any) -> dict[str, Any]:
    """Return an entry: what is told of the node, without what is empty."""
    always = ("operator", "name", "inputs", "outputs")
    return {key: value for key, value in asdict(told).items() if value or key in always}
