"""The protocol of a closed graph, for the modules below `Graph` that read one: text, JSON, numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, Protocol

from ..node import Node

NodeKind = Literal["input", "parameter", "constant", "computation", "root"]


class ClosedGraph(Protocol):
    """A closed graph as its readers see it."""

    nodes: tuple[Node, ...]
    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]
    name: str

    @property
    def index(self) -> Mapping[Node, int]: ...

    @property
    def names(self) -> Mapping[Node, str]: ...

    @property
    def parameters(self) -> tuple[Node, ...]: ...

    @property
    def computations(self) -> tuple[Node, ...]: ...

    def kind(self, node: Node) -> NodeKind: ...

    def saved_bytes(self) -> int: ...

    def expand_where(self, chosen: Callable[[Node], bool]) -> ClosedGraph: ...
