"""What runs a traced graph: native code, or the interpreter where there is none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from ...core.evaluate import run
from ...core.graph import Graph


class Executor(Protocol):
    """A graph made ready: `run` takes arrays for its inputs and gives new arrays for its outputs."""

    def run(self, arrays: Sequence[Any]) -> list[Any]: ...


class Interpreted:
    """A graph run node by node."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def run(self, arrays: Sequence[Any]) -> list[Any]:
        """The outputs' values; none of them shares memory with an input."""
        outputs = [np.asarray(v) for v in run(self.graph, arrays)]
        return [v.copy() if any(np.may_share_memory(v, a) for a in arrays) else v for v in outputs]
