"""A cluster on paper: what a step takes on a mesh, from kernels measured here and a model of the links."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import GraphError, fail
from ..core.node import Node
from ..core.spec import Spec, spec_of
from ..execute.gantt import Row, Scale, chart
from ..execute.jit.executor import executor
from ..explain.report import columns, html_table
from ..ops.collective import definitions as c
from ..ops.collective.group import current, entered
from .engines.mpi import SMALL
from .mesh import Mesh, OnMesh, Transport
from .placing.partition import Partitioned
from .program import Program
from .training import StepOnMesh

_RUNS = 7


@dataclass(frozen=True)
class Cluster:
    """The links between the ranks of a job: a message of m bytes takes `latency` + m / `bandwidth` seconds.

    `speed` is how many times as fast as here a rank computes. `overhead` is what a collective takes besides, on the
    rank itself: Python, the waiting's first look. Measure a job's own by :func:`measure`.

    Source: Hockney 1994, The communication challenge for MPP.
    """

    latency: float = 5e-6
    bandwidth: float = 10e9
    overhead: float = 30e-6
    speed: float = 1.0

    def seconds(self, node: Node) -> float:
        """Return the seconds that a collective of a rank's graph takes."""
        ranks, given = node.attrs["ranks"], node.inputs
        moved, rounds = traffic(node)
        if not given or not rounds or ranks == 1:
            return 0.0
        return self.overhead + rounds * math.ceil(math.log2(ranks)) * self.latency + moved / self.bandwidth


def traffic(node: Node) -> tuple[int, int]:
    """Return how many bytes a rank sends in a collective, and in how many rounds."""
    ranks = node.attrs["ranks"]
    spec: Any = node.inputs[0].spec if node.inputs and isinstance(node.inputs[0], Node) else None
    n = spec.nbytes if isinstance(spec, Spec) else 0
    if node.op in (c.pcast, c.own_part, c.axis_index):
        return 0, 0
    if node.op in (c.all_reduce, c.all_reduce_max):
        return ((ranks - 1) * n, 1) if n <= SMALL or ranks == 2 else (2 * (ranks - 1) * n // ranks, 2)
    if node.op in (c.reduce_scatter, c.all_to_all):
        return (ranks - 1) * n // ranks, 1
    if node.op is c.all_gather:
        return (ranks - 1) * n, 1
    return n, 1


class Part(NamedTuple):
    """A part of a step: a kernel ("compute") or a collective ("move"), when it begins and ends, the bytes it moves."""

    label: str
    kind: str
    start: float
    end: float
    moved: int


@dataclass(frozen=True)
class Prediction:
    """A prediction of what a step takes on each rank: `parts` in order, seconds, bytes sent, and bytes of memory."""

    mesh: Mesh
    cluster: Cluster
    parts: tuple[Part, ...]
    memory: int

    @property
    def seconds(self) -> float:
        """The seconds of a step."""
        return self.parts[-1].end if self.parts else 0.0

    @property
    def moving(self) -> float:
        """The seconds of a step in which a rank waits for others."""
        return sum(p.end - p.start for p in self.parts if p.kind == "move")

    @property
    def moved(self) -> int:
        """The bytes that a rank sends in a step."""
        return sum(p.moved for p in self.parts)

    def gantt(self, width: int = 72) -> str:
        """Return a text chart of one rank's step: all ranks do the same at the same time."""
        scale = Scale(self.seconds, width)
        rows = []
        for p in self.parts:
            line = [" "] * width
            at = scale.columns(p.start, p.end)
            line[at] = ("=" if p.kind == "move" else "1") * (at.stop - at.start)
            rows.append(Row(p.label, p.kind, "".join(line)))
        return chart("part", rows, scale, [self.seconds - self.moving])

    def _summary(self) -> str:
        return (
            f"{self.mesh}: {self.seconds * 1e3:.3f} ms a step, {self.moving / max(self.seconds, 1e-12):.0%} of it "
            f"moving {self.moved:,} bytes a rank; {self.memory:,} bytes of memory a rank"
        )

    def _rows(self) -> list[tuple[str, ...]]:
        return [
            (p.label, p.kind, f"{p.start * 1e6:.1f}", f"{(p.end - p.start) * 1e6:.1f}", f"{p.moved:,}")
            for p in self.parts
        ]

    def __str__(self) -> str:
        return f"{self._summary()}\n{columns(self._rows(), _HEADINGS)}"

    def _repr_html_(self) -> str:
        return html_table(self._summary(), self._rows(), _HEADINGS)


_HEADINGS = ("part", "kind", "start µs", "µs", "bytes")


class _Alone(Transport):
    """Rank 0 of a job whose other ranks are not there: each is taken to bring what this one does."""

    __slots__ = ()

    def __init__(self, size: int) -> None:
        self.rank, self.size = 0, size

    def meet(self, members: tuple[int, ...], op: Any, x: Any, attrs: Mapping[str, Any]) -> Any:
        spec = op.infer(_spec(x), **attrs)
        return np.resize(x, spec.shape)


def _spec(x: Any) -> Spec:
    return spec_of(x.shape, x.dtype)


def predict(
    step: Any, mesh: Mesh | None = None, cluster: Cluster | None = None, args: Sequence[Any] = ()
) -> Prediction:
    """Return what a step takes on the ranks of a mesh, without these ranks.

    Parameters
    ----------
    step: what :func:`partition` or :func:`shard_map` returned, or a step of :func:`jit` that has been called.
    mesh: the mesh; that of the step where it is left out.
    cluster: the links; a fast network where it is left out.
    args: the arguments of a partitioned function, or specs of them.

    One rank's kernels run here, on parts of the right sizes, and are timed; what ranks send each other is counted, and
    takes the time that the model says. Collectives do not overlap with kernels, as in the engine that there is. The
    mesh may have any size: 8 ranks, or 4,096.

    Raises GraphError for anything else.

    >>> import wengert as wg
    >>> f = wg.distribute.partition(lambda w, x: wg.tanh(x @ w).sum(), wg.distribute.Mesh(data=64), (None, "data"))
    >>> found = wg.distribute.predict(f, args=(wg.spec((8, 8)), wg.spec((128, 8))))
    >>> found.moved, [p.label for p in found.parts if p.kind == "move"]
    (252, ['all_reduce over data'])
    """
    if isinstance(step, Program):
        made = step.lower(*args)
    elif isinstance(step, StepOnMesh) and step.partitions:
        made = step.partitions[-1]
    elif isinstance(step, Partitioned):
        made = step
    else:
        fail(
            GraphError,
            f"predict of {step!r}",
            "Give a partitioned function with its args, or a step of wg.distribute.jit that has been called.",
        )
    if mesh is not None and mesh != made.mesh:
        fail(GraphError, f"predict on {mesh} of a program for {made.mesh}", "Make the program for this mesh.")
    return _predicted(made, cluster or Cluster())


def _predicted(made: Partitioned, cluster: Cluster) -> Prediction:
    graph, mesh = made.graph, made.mesh
    rng = np.random.default_rng(0)
    feeds = [_example(n.spec, rng) for n in graph.inputs]
    with entered(OnMesh(mesh, _Alone(mesh.size)), process=True):
        ready: Any = executor(graph)
        if not hasattr(ready, "trace"):
            fail(GraphError, "predict where there is no native code", "pip install llvmlite")
        for _ in range(3):
            ready.run(feeds)
        traces = [ready.trace(feeds) for _ in range(_RUNS)]
    steps = ready.plan.steps
    spent = np.median([np.bincount(t.step, t.end - t.start, len(steps)) for t in traces], axis=0)
    first = traces[-1]
    parts: list[Part] = []
    at = 0.0
    for i in dict.fromkeys(first.step.tolist()):
        node = next((n for n in steps[i].nodes if "collective" in n.op.facets and traffic(n)[1]), None)
        if node is not None:
            seconds = cluster.seconds(node)
            parts.append(Part(f"{node.op.name} over {node.attrs['over']}", "move", at, at + seconds, traffic(node)[0]))
        else:
            seconds = float(spent[i]) / cluster.speed
            parts.append(Part(first.labels[i], "compute", at, at + seconds, 0))
        at += seconds
    return Prediction(mesh, cluster, tuple(parts), ready.memory.peak)


def _example(spec: Spec, rng: Any) -> Any:
    """Return numbers for an input that every op takes: small positive floats, zeros of the others."""
    if spec.inexact:
        return rng.uniform(0.1, 1.0, spec.shape).astype(spec.dtype)
    return np.zeros(spec.shape, spec.dtype)


def measure(size: int = 1 << 22, repeats: int = 20) -> Cluster:
    """Return the cluster that the job of this rank runs on, measured by a ring of messages. All ranks call it.

    Raises GraphError outside of a job.
    """
    group = current()
    if not isinstance(group, OnMesh):
        fail(GraphError, "measure outside of a job", "Run it on ranks: wg.distribute.run(wg.distribute.measure, 2).")
    line = OnMesh(Mesh(ranks=group.transport.size), group.transport)
    n = group.transport.size
    attrs = {"over": "ranks", "ranks": n, "pairs": tuple((i, (i + 1) % n) for i in range(n))}

    def spent(x: Any) -> float:
        times = []
        with entered(line), line.transport.trusting():
            for _ in range(repeats):
                start = time.perf_counter()
                c.ppermute.forward(x, **attrs)
                times.append(time.perf_counter() - start)
        # What all ranks agree on: the slowest one's median.
        with entered(line):
            slowest = c.all_reduce_max.forward(np.array([np.median(times)]), over="ranks", ranks=n)
        return float(slowest[0])

    small, large = spent(np.zeros(1)), spent(np.zeros(size // 8))
    return Cluster(small / 2, size / max(large - small, 1e-9), small / 2)
