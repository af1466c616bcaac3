"""A recorded run on several threads: the life of every node, by the scheduler."""

from __future__ import annotations

from typing import Any

from ...core.errors import WengertError
from ...core.tensor import wrap
from ...execute.scheduler import Trace, run_parallel
from .rerun import Rerun, row_of

# The run that is shown is the fastest of so many: the first meets cold caches.
RUNS = 3


def parallel(run: Rerun, workers: int = 2) -> dict[str, Any] | None:
    """Return the `parallel` table of a document (see the schema); None where the graph cannot be run."""
    inputs = [wrap(a) for a in run.arrays]
    try:
        graph = run.forward()
        traces: list[Trace] = [run_parallel(graph, inputs, workers=workers, trace=True)[1] for _ in range(RUNS)]
    except WengertError:
        return None
    best = min(traces, key=lambda trace: trace.seconds)
    lives = [(row_of(life.node)[0], life) for life in best.lives]
    known = sorted(((row, life) for row, life in lives if row >= 0), key=lambda pair: pair[1].started)

    def column(name: str) -> list[float]:
        return [round(getattr(life, name) * 1e6, 2) for _, life in known]

    return {
        "origin": "scheduler",
        "workers": workers,
        "node": [row for row, _ in known],
        "worker": [life.worker for _, life in known],
        "ready": column("ready"),
        "start": column("started"),
        "end": column("done"),
        "done": column("done"),
    }
