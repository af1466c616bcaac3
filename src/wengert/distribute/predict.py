"""A cluster on paper: what a step takes on a mesh, from kernels measured here and a model of the links."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import GraphError, fail
from ..core.graph.graph import Graph
from ..core.node import Node
from ..core.ops.op import Op
from ..core.spec import Spec, spec_of
from ..execute.gantt import Row, Scale, chart
from ..execute.jit.executor import executor
from ..explain.report import columns, html_table
from ..ops.collective import definitions as c
from ..ops.collective.group import current, entered
from .engines.mpi import SMALL
from .mesh import Mesh, OnMesh, Transport
from .pipeline.program import Pipelined
from .placing.partition import Partitioned
from .program import Program
from .training import StepOnMesh

_RUNS = 7


@dataclass(frozen=True)
class Cluster:
    """The links between the ranks of a job: a message of m bytes takes `latency` + m / `bandwidth` seconds.

    `speed` is how many times as fast as here a rank computes. `overhead` is what a collective takes besides, on the
    rank itself: Python, the waiting's first look; `sums` is how many bytes a second a rank copies and adds up where it
    sums what others sent. Measure a job's own by :func:`measure`.

    Source: Hockney 1994, The communication challenge for MPP.
    """

    latency: float = 5e-6
    bandwidth: float = 10e9
    overhead: float = 30e-6
    speed: float = 1.0
    sums: float = math.inf

    def seconds(self, node: Node) -> float:
        """Return the seconds that a collective of a rank's graph takes."""
        ranks, given = node.attrs["ranks"], node.inputs
        moved, rounds = traffic(node)
        if not given or not rounds or ranks == 1:
            return 0.0
        summed = given[0].spec.nbytes if node.op in _SUMS and isinstance(given[0], Node) else 0
        waits = rounds * math.ceil(math.log2(ranks)) * self.latency
        return self.overhead + waits + moved / self.bandwidth + summed / self.sums


_SUMS = frozenset({c.all_reduce, c.all_reduce_max, c.reduce_scatter})


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
    """A part of a step: kernels ("compute"), a collective or message ("move"), or waiting for one ("wait").

    It begins and ends at so many seconds, and sends `moved` bytes.
    """

    label: str
    kind: str
    start: float
    end: float
    moved: int


class Lane(NamedTuple):
    """Ranks that do the same at the same time: their numbers, the parts of their step, bytes of memory on each."""

    ranks: tuple[int, ...]
    parts: tuple[Part, ...]
    memory: int

    @property
    def seconds(self) -> float:
        """The seconds after which these ranks are done."""
        return self.parts[-1].end if self.parts else 0.0


@dataclass(frozen=True)
class Prediction:
    """A prediction of what a step takes on the ranks of a mesh.

    `lanes` has a timeline for the ranks of each place of a pipeline; without one, all ranks are in one lane.
    """

    mesh: Mesh
    cluster: Cluster
    lanes: tuple[Lane, ...]

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts of the ranks that take longest."""
        return max(self.lanes, key=lambda lane: lane.seconds).parts

    @property
    def seconds(self) -> float:
        """The seconds of a step."""
        return max(lane.seconds for lane in self.lanes)

    @property
    def moving(self) -> float:
        """The seconds of a step in which the ranks that take longest move something or wait for others."""
        return sum(p.end - p.start for p in self.parts if p.kind != "compute")

    @property
    def moved(self) -> int:
        """The most bytes that a rank sends in a step."""
        return max(sum(p.moved for p in lane.parts) for lane in self.lanes)

    @property
    def memory(self) -> int:
        """The most bytes of memory that a rank needs beside its inputs."""
        return max(lane.memory for lane in self.lanes)

    def gantt(self, width: int = 72) -> str:
        """Return a text chart of a step: one rank's parts, or a line for every place of a pipeline."""
        scale = Scale(self.seconds, width)
        rows, busy = [], []
        for lane in self.lanes:
            one = [" "] * width
            for p in lane.parts:
                line = one if len(self.lanes) > 1 else [" "] * width
                at = scale.columns(p.start, p.end)
                line[at] = _MARKS[p.kind] * (at.stop - at.start)
                if len(self.lanes) == 1:
                    rows.append(Row(p.label, p.kind, "".join(line)))
            if len(self.lanes) > 1:
                rows.append(Row(_numbers(lane.ranks), "", "".join(one)))
            busy.append(sum(p.end - p.start for p in lane.parts if p.kind == "compute"))
        return chart("ranks" if len(self.lanes) > 1 else "part", rows, scale, busy)

    def trace(self) -> dict[str, Any]:
        """Return the timeline of every lane as a Chrome trace: write it as JSON, open it in Perfetto or chrome://tracing.

        Ranks that do the same are one process there. Times are in microseconds.
        """
        events: list[dict[str, Any]] = []
        for number, lane in enumerate(self.lanes):
            name = f"rank {_numbers(lane.ranks)}"
            events.append({"ph": "M", "name": "process_name", "pid": number, "tid": 0, "args": {"name": name}})
            events += [
                {"ph": "X", "name": p.label, "cat": p.kind, "pid": number, "tid": 0, "ts": p.start * 1e6,
                 "dur": (p.end - p.start) * 1e6, "args": {"bytes": p.moved}}
                for p in lane.parts
            ]  # fmt: skip
        return {"traceEvents": events, "displayTimeUnit": "ms"}

    def _summary(self) -> str:
        return (
            f"{self.mesh}: {self.seconds * 1e3:.3f} ms a step, {self.moving / max(self.seconds, 1e-12):.0%} of it "
            f"moving {self.moved:,} bytes a rank; {self.memory:,} bytes of memory a rank"
        )

    def _rows(self) -> list[tuple[str, ...]]:
        return [
            (_numbers(lane.ranks), p.label, p.kind, f"{p.start * 1e6:.1f}", f"{(p.end - p.start) * 1e6:.1f}",
             f"{p.moved:,}")
            for lane in self.lanes
            for p in lane.parts
        ]  # fmt: skip

    def __str__(self) -> str:
        return f"{self._summary()}\n{columns(self._rows(), _HEADINGS)}"

    def _repr_html_(self) -> str:
        return html_table(self._summary(), self._rows(), _HEADINGS)


def _numbers(ranks: Sequence[int]) -> str:
    """Return numbers of ranks in few words: `0-3`, or the first ones."""
    if len(ranks) > 1 and list(ranks) == list(range(ranks[0], ranks[-1] + 1)):
        return f"{ranks[0]}-{ranks[-1]}"
    return ", ".join(map(str, ranks[:4])) + ("" if len(ranks) <= 4 else f", ... {ranks[-1]}")


_MARKS = {"compute": "1", "move": "=", "wait": "."}
_HEADINGS = ("ranks", "part", "kind", "start µs", "µs", "bytes")


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
    step: what :func:`partition` or :func:`shard_map` returned, or a step of :func:`jit`.
    mesh: the mesh; that of the step where it is left out.
    cluster: the links; a fast network where it is left out.
    args: the arguments of a function, or specs of them; of a step that has been called they may be left out.

    One rank's kernels run here, on parts of the right sizes, and are timed; what ranks send each other is counted, and
    takes the time that the model says. Collectives count as if each were waited for where it starts: what ranks hide of
    them behind kernels makes a step shorter. Messages between the places of a pipeline overlap. The mesh may have any
    size: 8 ranks, or 4,096.

    Raises GraphError for anything else.

    >>> import wengert as wg
    >>> f = wg.distribute.partition(lambda w, x: wg.tanh(x @ w).sum(), wg.distribute.Mesh(data=64), (None, "data"))
    >>> found = wg.distribute.predict(f, args=(wg.spec((8, 8)), wg.spec((128, 8))))
    >>> found.moved, [p.label for p in found.parts if p.kind == "move"]
    (252, ['all_reduce over data'])
    """
    made: Partitioned | Pipelined
    if isinstance(step, Program):
        made = step.lower(*args)
    elif isinstance(step, StepOnMesh) and (args or step.partitions):
        made = step.lowered(*args) if args else step.partitions[-1]
    elif isinstance(step, (Partitioned, Pipelined)):
        made = step
    else:
        fail(
            GraphError,
            f"predict of {step!r}",
            "Give a partitioned function or a step of wg.distribute.jit, with its args where it has not been called.",
        )
    if mesh is not None and mesh != made.mesh:
        fail(GraphError, f"predict on {mesh} of a program for {made.mesh}", "Make the program for this mesh.")
    cluster = cluster or Cluster()
    return _pipelined(made, cluster) if isinstance(made, Pipelined) else _predicted(made, cluster)


class _Measured(NamedTuple):
    """A run of a graph by one rank: its parts one after the other, and the bytes of its arena."""

    parts: tuple[Part, ...]
    memory: int

    @property
    def seconds(self) -> float:
        return self.parts[-1].end if self.parts else 0.0


def _measured(graph: Graph, mesh: Mesh, cluster: Cluster) -> _Measured:
    """Run a graph as one rank does, alone, and return what its kernels take, and what the model says of the others."""
    rng = np.random.default_rng(0)
    feeds = [_example(n.spec, rng) for n in graph.inputs]
    with entered(OnMesh(mesh, _Alone(mesh.size)), process=True):
        ready: Any = executor(graph)
        if not hasattr(ready, "trace"):
            fail(GraphError, "predict where there is no native code", "pip install llvmlite")
        for _ in range(3):
            ready.run(feeds)
        # The least time is that of a run which nothing disturbed.
        whole = min(_seconds(lambda: ready.run(feeds)) for _ in range(_RUNS))
        traces = [ready.trace(feeds) for _ in range(_RUNS)]
    steps = ready.plan.steps
    spent = np.min([np.bincount(t.step, t.end - t.start, len(steps)) for t in traces], axis=0)
    first = traces[-1]
    parts: list[Part] = []
    # What the run takes beside its steps: inputs are checked, results made.
    at = max(0.0, whole - float(spent.sum())) / cluster.speed
    if at:
        parts.append(Part("call", "compute", 0.0, at, 0))
    for i in dict.fromkeys(first.step.tolist()):
        node = next((n for n in steps[i].nodes if "collective" in n.op.facets and traffic(n)[1]), None)
        if node is not None:
            seconds = cluster.seconds(node)
            parts.append(Part(f"{node.op.name} over {node.attrs['over']}", "move", at, at + seconds, traffic(node)[0]))
        else:
            seconds = float(spent[i]) / cluster.speed
            parts.append(Part(first.labels[i], "compute", at, at + seconds, 0))
        at += seconds
    return _Measured(tuple(parts), ready.memory.peak)


def _seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _predicted(made: Partitioned, cluster: Cluster) -> Prediction:
    found = _measured(made.graph, made.mesh, cluster)
    return Prediction(made.mesh, cluster, (Lane(tuple(range(made.mesh.size)), found.parts, found.memory),))


def _pipelined(made: Pipelined, cluster: Cluster) -> Prediction:
    """Return the timelines of the places of a pipeline: tasks as long as here, in the program's order."""
    known: dict[str, _Measured] = {}
    lanes: list[list[Part]] = [[] for _ in range(made.places)]
    at = [0.0] * made.places
    arrivals: dict[tuple[int, int], float] = {}
    begun = [0] * made.places
    arena = [0] * made.places

    def add(place: int, label: str, kind: str, seconds: float, moved: int = 0) -> None:
        if seconds or moved:
            lanes[place].append(Part(label, kind, at[place], at[place] + seconds, moved))
            at[place] += seconds

    for span in made.order:
        place, acts = span.place, made.lists[span.place]
        task = made.tasks.tasks[span.task]
        measured = known.get(key := task.graph.structural_hash)
        if measured is None:
            measured = known[key] = _measured(task.graph, made.mesh, cluster)
        arena[place] = max(arena[place], measured.memory)
        if task.place is None and any(p.kind == "move" for p in measured.parts):
            latest = max(at)  # all places do it together
            add(place, "wait for all", "wait", latest - at[place])
        while True:
            act = acts[begun[place]]
            begun[place] += 1
            if act.what == "receive":
                late = arrivals[act.value, place] - at[place]
                if late > 0:
                    add(place, f"wait for {made.tasks.tasks[made.tasks.makers[act.value]].label}", "wait", late)
                add(place, "receive", "move", cluster.overhead)
            elif act.what == "run":
                break
        for p in measured.parts:
            label = task.label if p.kind == "compute" else f"{task.label}: {p.label}"
            if p.kind == "compute" and lanes[place] and lanes[place][-1].label == label:
                last = lanes[place][-1]
                lanes[place][-1] = last._replace(end=last.end + p.end - p.start)
                at[place] += p.end - p.start
            else:
                add(place, label, p.kind, p.end - p.start, p.moved)
        while begun[place] < len(acts) and acts[begun[place]].what == "send":
            act = acts[begun[place]]
            begun[place] += 1
            nbytes = made.tasks.specs[act.value].nbytes
            add(place, f"send to {act.other}", "move", cluster.overhead, nbytes)
            arrivals[act.value, act.other] = at[place] + cluster.latency + nbytes / cluster.bandwidth
    return Prediction(
        made.mesh,
        cluster,
        tuple(Lane(tuple(made.ranks_of(p)), tuple(parts), made.kept(p) + arena[p]) for p, parts in enumerate(lanes)),
    )


def _example(spec: Spec, rng: Any) -> Any:
    """Return numbers for an input that every op takes: small positive floats, zeros of the others."""
    if spec.inexact:
        return rng.uniform(0.1, 1.0, spec.shape).astype(spec.dtype)
    return np.zeros(spec.shape, spec.dtype)


def measure(size: int = 1 << 22, repeats: int = 20) -> Cluster:
    """Return the cluster that the job of this rank runs on, by a ring of messages and a sum. All ranks call it.

    Raises GraphError outside of a job.
    """
    group = current()
    if not isinstance(group, OnMesh):
        fail(GraphError, "measure outside of a job", "Run it on ranks: wg.distribute.run(wg.distribute.measure, 2).")
    line = OnMesh(Mesh(ranks=group.transport.size), group.transport)
    n = group.transport.size
    over = {"over": "ranks", "ranks": n}

    def spent(x: Any, op: Op, **attrs: Any) -> float:
        times = []
        with entered(line), line.transport.trusting():
            for _ in range(repeats):
                start = time.perf_counter()
                op.forward(x, **over, **attrs)
                times.append(time.perf_counter() - start)
        # What all ranks agree on: the slowest one's median.
        with entered(line):
            slowest = c.all_reduce_max.forward(np.array([np.median(times)]), **over)
        return float(slowest[0])

    ring = tuple((i, (i + 1) % n) for i in range(n))
    x = np.zeros(size // 8)
    small, large = spent(np.zeros(1), c.ppermute, pairs=ring), spent(x, c.ppermute, pairs=ring)
    found = Cluster(small / 2, size / max(large - small, 1e-9), small / 2)
    # What a sum takes longer than the messages that it is made of.
    sent = n - 1 if n == 2 or size <= SMALL else 2 * (n - 1) / n
    more = spent(x, c.all_reduce) - small - sent * size / found.bandwidth
    return replace(found, sums=size / more if more > 0 else math.inf)
