"""A recorded run and its gradients on several threads: the life of every node, by the scheduler."""

from __future__ import annotations

import math
from typing import Any

from ...core.errors import WengertError
from ...core.graph.graph import Graph
from ...core.node import Node
from ...core.tensor import Tensor, wrap
from ...execute.scheduler import Trace, run_parallel
from .rerun import Rerun, row_of

# The run that is shown is the fastest of so many: the first meets cold caches.
RUNS = 3


def parallel(run: Rerun, workers: int = 2) -> dict[str, Any] | None:
    """Return the `parallel` table of a document (see the schema); None where the graph cannot be run."""
    inputs = [wrap(a) for a in run.arrays]
    try:
        graph = run.differentiated()
        traces = [_traced(graph, inputs, workers) for _ in range(RUNS)]
        alone = [_traced(graph, inputs, 1) for _ in range(RUNS)]
    except WengertError:
        return None
    least: dict[Node, float] = {}
    for life in (life for trace in alone for life in trace.lives):
        least[life.node] = min(least.get(life.node, math.inf), life.done - life.started)
    best = min(traces, key=lambda trace: trace.seconds)
    lives = [(*row_of(life.node), life) for life in best.lives]
    known = sorted((entry for entry in lives if entry[0] >= 0), key=lambda entry: entry[2].started)

    def column(name: str) -> list[float]:
        return [round(getattr(life, name) * 1e6, 2) for *_, life in known]

    return {
        "origin": "scheduler",
        "workers": workers,
        "node": [row for row, *_ in known],
        "gradient": [int(backward) for _, backward, _ in known],
        "worker": [life.worker for *_, life in known],
        "ready": column("ready"),
        "start": column("started"),
        "end": column("done"),
        "done": column("done"),
        "alone": [round(least[life.node] * 1e6, 2) for *_, life in known],
    }


def _traced(graph: Graph, inputs: list[Tensor], workers: int) -> Trace:
    trace: Trace = run_parallel(graph, inputs, workers=workers, trace=True)[1]
    return trace
