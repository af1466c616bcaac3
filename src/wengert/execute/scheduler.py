"""The scheduler: runs a graph on several threads, where every node waits for its parents."""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Sequence
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import GraphError, fail
from ..core.graph.evaluate import compute
from ..core.graph.graph import Graph
from ..core.node import Node
from ..core.state import locks
from ..core.state.observer import observer
from ..core.tensor import wrap
from .gantt import Row, Scale, chart
from .interpreter import feed, nest_outputs


class Life(NamedTuple):
    """The life of one node in a run; times in seconds from its start.

    `waited` is when its first parent was done (0 for a node without computed parents), `ready` when
    the last was, `started` and `done` when a worker ran it, `worker` which one.
    """

    node: Node
    name: str
    waited: float
    ready: float
    started: float
    done: float
    worker: int


@dataclass(frozen=True)
class Trace:
    """The life of every computed node of a run, in the order in which they were done.

    >>> import wengert as wg
    >>> g = wg.graph(lambda x: wg.exp(x) + wg.sin(x))(wg.spec((2,)))
    >>> _, trace = g.run([wg.zeros(2)], workers=2, trace=True)
    >>> [life.node.op.name for life in trace.critical_path()][-1]
    'add'
    """

    lives: tuple[Life, ...]
    workers: int
    seconds: float

    def critical_path(self) -> list[Life]:
        """Return the chain of nodes that determined the run's length: from the last done, its latest parents."""
        by_node = {life.node: life for life in self.lives}
        path = [max(self.lives, key=lambda life: life.done)] if self.lives else []
        while path:
            parents = [by_node[e] for e in path[-1].node.inputs if isinstance(e, Node) and e in by_node]
            if not parents:
                break
            path.append(max(parents, key=lambda life: life.done))
        return path[::-1]

    def gantt(self, width: int = 72) -> str:
        """Return a text chart: a row for every node, `.` while it waits for parents, `-` ready, `#` running.

        The last rows show how busy every worker was.
        """
        scale = Scale(self.seconds, width)
        rows = []
        for life in self.lives:
            waited, ready, started = map(scale.column, (life.waited, life.ready, life.started))
            line = [" "] * width
            line[waited:ready] = "." * (ready - waited)
            line[ready:started] = "-" * (started - ready)
            running = scale.columns(life.started, life.done)
            line[running] = "#" * (running.stop - running.start)
            rows.append(Row(f"{life.name} {life.node.op.name}", str(life.worker), "".join(line)))
        busy = [sum(x.done - x.started for x in self.lives if x.worker == worker) for worker in range(self.workers)]
        return chart("node", rows, scale, busy)

    def __str__(self) -> str:
        return self.gantt()


def run_parallel(graph: Graph, inputs: Any = (), workers: int = 2, trace: bool = False) -> Any:
    """Run a graph on threads: `graph.run(inputs, workers=2)`.

    Parameters
    ----------
    inputs: the graph's inputs, in order, or in the pytree that it was traced with.
    workers: threads; NumPy computes outside Python's global lock.
    trace: also return the :class:`Trace` of the run.

    A node becomes ready when all of its parents are done; the ready node that comes first in the
    graph runs first. Nothing is recorded for gradients. An error in a node, or Ctrl-C, stops all
    workers before it is raised.

    Raises FeedError, GraphError, and what the ops raise.

    >>> import wengert as wg
    >>> g = wg.graph(lambda x: wg.exp(x) + wg.sin(x))(wg.spec((2,)))
    >>> g.run([wg.zeros(2)], workers=2)
    tensor([1., 1.])
    """
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        fail(GraphError, f"a run with {workers!r} workers", "It needs at least one.")
    args = tuple(inputs) if isinstance(inputs, (list, tuple)) else (inputs,)
    tensors = feed(graph, args, {})
    for t in tensors:
        t._value("graph.run")
    # While it is observed there is one worker, which tells of what it does in the order of the graph.
    run = _Run(graph, [t._array for t in tensors], workers if observer() is None else 1)
    values = run.finish()
    outputs = nest_outputs(graph, [wrap(np.asarray(v)) for v in values])
    return (outputs, run.trace()) if trace else outputs


class _Run:
    """One run: the state that its workers share, under one lock."""

    def __init__(self, graph: Graph, feeds: Sequence[Any], workers: int) -> None:
        self.graph = graph
        self.workers = workers
        self.values: dict[Node, Any] = dict(zip(graph.inputs, feeds, strict=True))
        self.changed = threading.Condition(locks.lock())
        self.error: BaseException | None = None
        self.failed: tuple[Node, list[Any]] | None = None
        self.stopped = False
        self.lives: list[Life] = []
        todo = [n for n in graph.nodes if n not in self.values]
        self.left = len(todo)
        self.waiting = {n: len({e for e in n.inputs if isinstance(e, Node) and e not in self.values}) for n in todo}
        self.uses = {n: len(graph.consumers(n)) for n in graph.nodes}
        for n in graph.outputs:
            self.uses[n] += 1
        self.first_parent: dict[Node, float] = {}
        # A heap by position in the graph: among ready nodes the earliest runs first.
        self.ready = [(graph.index[n], 0.0) for n in todo if self.waiting[n] == 0]
        heapq.heapify(self.ready)
        self.started = time.perf_counter()
        self.seconds = 0.0

    def finish(self) -> list[Any]:
        # Workers compute in the caller's context: what it has set, and who watches, holds in them too.
        threads = [
            threading.Thread(target=copy_context().run, args=(self._work, w), daemon=True) for w in range(self.workers)
        ]
        try:
            for t in threads:
                t.start()
            with self.changed:
                while self.left and self.error is None:
                    # A timeout lets Ctrl-C through on every platform.
                    self.changed.wait(0.2)
        finally:
            with self.changed:
                self.stopped = True
                self.changed.notify_all()
            for t in threads:
                if t.ident is not None:  # where Ctrl-C came while they were started
                    t.join()
        self.seconds = time.perf_counter() - self.started
        if self.failed is not None:
            # Once more on the caller's thread, whose stack says where in the program the run began.
            compute(*self.failed)
        if self.error is not None:
            raise self.error
        return [self.values[n] for n in self.graph.outputs]

    def trace(self) -> Trace:
        return Trace(tuple(self.lives), self.workers, self.seconds)

    def _work(self, worker: int) -> None:
        with np.errstate(all="ignore"):  # infinities and NaNs are values
            self._work_quietly(worker)

    def _work_quietly(self, worker: int) -> None:
        while True:
            with self.changed:
                while not self.ready and self.left and not self.stopped and self.error is None:
                    self.changed.wait()
                if not self.ready or self.stopped or self.error is not None:
                    return
                position, ready = heapq.heappop(self.ready)
                node = self.graph.nodes[position]
                args = [self.values[e] if isinstance(e, Node) else e for e in node.inputs]
            start = time.perf_counter() - self.started
            try:
                value = compute(node, args)
            except BaseException as e:
                with self.changed:
                    if self.error is None:
                        self.error, self.failed = e, (node, args)
                    self.changed.notify_all()
                return
            done = time.perf_counter() - self.started
            with self.changed:
                self._propagate(node, value, Life(node, "", 0.0, ready, start, done, worker))

    def _propagate(self, node: Node, value: Any, life: Life) -> None:
        self.values[node] = value
        waited = self.first_parent.get(node, 0.0)
        self.lives.append(life._replace(name=self.graph.names[node], waited=waited))
        for parent in dict.fromkeys(e for e in node.inputs if isinstance(e, Node)):
            self.uses[parent] -= 1
            if self.uses[parent] == 0:
                del self.values[parent]
        for child in self.graph.consumers(node):
            self.first_parent.setdefault(child, life.done)
            self.waiting[child] -= 1
            if self.waiting[child] == 0:
                heapq.heappush(self.ready, (self.graph.index[child], life.done))
        self.left -= 1
        self.changed.notify_all()


Graph.run = run_parallel  # type: ignore[attr-defined]
