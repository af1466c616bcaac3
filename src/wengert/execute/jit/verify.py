"""Verification: native code and the interpreter side by side, as `wg.jit(f, verify=True)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...core.errors import GraphError, fail
from ...core.graph.evaluate import run
from ...core.graph.graph import Graph
from ...core.node import Node
from ...core.spec import category
from ...core.state.observer import Observer, observing
from ..native.budget.within import Limit
from ..native.run.runtime import Commit
from .executor import executor, run_by_node

# The distance by which results may differ, in ulp of the largest element: sums in another
# order, functions within two ulp, products that round once instead of twice, and what follows from them
# through a whole program.
LIMIT = 1 << 14
# The same for one operation on equal operands, for each element that a result is made of.
STEP_LIMIT = 16.0


def verified(
    graph: Graph,
    donated: Sequence[bool] | None = None,
    limit: Limit | None = None,
    *,
    replaced: Mapping[int, int] | None = None,
) -> Verified:
    """Return the graph as native code that is verified; it computes everything twice, on inputs of its own.

    A `limit` of memory is for the native code; the interpreter keeps to none.
    """
    return Verified(graph, limit)


class Verified:
    """An executor that computes everything twice, and raises where native code and interpreter differ."""

    def __init__(self, graph: Graph, limit: Limit | None = None) -> None:
        self.graph = graph
        self.native = executor(graph, None, limit)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.native, name)

    def run(self, arrays: Sequence[Any]) -> list[Any]:
        """Return the native outputs, compared. Raises GraphError naming the first node that differs."""
        found = self.native.run(arrays)
        with observing(Observer(), alone=True):  # the second computation is no part of the program
            expected = run(self.graph, arrays)
        for node, a, b in zip(self.graph.outputs, found, expected, strict=True):
            if distance(a, b) > LIMIT:
                with observing(_Comparison(self.graph), alone=True):
                    run_by_node(self.graph, arrays, executor)
                mend = "Each operation alone agrees: it is how they are put together."
                _differ(self.graph, node, distance(a, b), mend)
        return found

    def run_at_once(self, arrays: Sequence[Any], commit: Commit) -> list[Any]:
        """Run, and give the outputs to `commit` when they have been compared."""
        found = self.run(arrays)
        commit(found, ())
        return found


class _Comparison(Observer):
    """Compares each step of a program with what NumPy makes of the same operands, and raises for one that differs."""

    __slots__ = ("graph",)

    inlines = False

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph

    def step(
        self, op: Any, inputs: Sequence[Any], out: Any, run: Callable[..., Any], attrs: Mapping[str, Any],
        start: float, node: Any = None,
    ) -> None:  # fmt: skip
        if isinstance(out, tuple):
            return
        with np.errstate(all="ignore"):
            found = distance(out, run(*inputs))
        terms = max((x.size for x in inputs if isinstance(x, np.ndarray)), default=1)
        if found > STEP_LIMIT * max(1.0, terms / max(1, out.size)):
            _differ(self.graph, self.node, found, "")


def _differ(graph: Graph, node: Node, apart: float, mend: str) -> None:
    made = node.source
    by = "in where it is infinite or NaN" if np.isinf(apart) else f"by {apart:.3g} ulp of its largest element"
    fail(
        GraphError,
        f"native code and interpreter differ: {node.op.name} {node.spec} ({graph.names[node]}) {by}",
        (f"It was traced at {made}" + (f": {made.text}" if made.text else "") + ". " if made is not None else "")
        + mend,
    )


def distance(a: Any, b: Any) -> float:
    """Return how far two arrays differ, in ulp of the second's largest element; infinite where one is not finite."""
    a, b = np.asarray(a), np.asarray(b)
    if a.size == 0:
        return 0.0
    if category(b.dtype) < 2:
        return 0.0 if np.array_equal(a, b) else float("inf")
    eps = float(np.finfo(b.dtype).eps) if b.dtype.kind in "fc" else 2.0**-7
    wide = np.complex128 if b.dtype.kind == "c" else np.float64
    x, y = a.astype(wide), b.astype(wide)
    finite = np.isfinite(y)
    if not np.array_equal(finite, np.isfinite(x)) or not np.array_equal(x[~finite], y[~finite], equal_nan=True):
        return float("inf")
    if not finite.any():
        return 0.0
    largest = float(np.abs(y[finite]).max())
    error = float(np.abs(x[finite] - y[finite]).max())
    return error / (eps * max(largest, float(np.finfo(np.float32).tiny))) if error else 0.0
