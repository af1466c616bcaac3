"""A cluster on paper: what a step takes on a mesh, from kernels measured here and a model of the links."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from types import NoneType
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import GraphError, fail
from ..core.graph.graph import Graph
from ..core.graph.snapshot import input_node, located
from ..core.node import Node
from ..core.ops.op import TABLE, Op
from ..core.spec import Spec, spec_of
from ..execute.gantt import Row, Scale, chart
from ..execute.jit.executor import Executor, executor
from ..execute.native.compile import Compiled
from ..execute.native.overlap import Exchanges, moved_by
from ..execute.native.plan.plan import Exchange
from ..execute.native.run.runtime import Commit
from ..execute.native.run.timeline import NativeTrace
from ..explain.report import columns, html_table
from ..ops.collective import definitions as c
from ..ops.collective.group import current, entered
from .arguments import check_call
from .engines.engine import OneRank, run_placed
from .engines.links import links
from .engines.mpi_native import SMALL, Alone
from .engines.stages import OneStage
from .mesh import Mesh, OnMesh, Transport
from .pipeline.program import Pipelined
from .placing.partition import Partitioned
from .placing.placement import Placement, is_whole
from .placing.sharded import Sharded, is_at
from .program import Program
from .training import StepOnMesh

_RUNS = 7
# So many more collectives in a program, one after the other, say what one of them takes.
_IN_A_ROW = 8
# A place of a pipeline is rehearsed no more often than needed, once it has taken so many seconds.
_ENOUGH = 0.5
# The bytes of a message that is timed by itself: too many to leave before the other rank asks for them.
_MESSAGE = 1 << 15
# The size of the products of matrices behind which a message is hidden.
_WIDE = 128


# What the numbers of a cluster may be. Nothing computes or moves in no time at all but what is infinitely fast.
_LEAST = 1e-30
_RANGES = (
    ("latency", 0.0, math.inf),
    ("bandwidth", _LEAST, math.inf),
    ("overhead", 0.0, math.inf),
    ("speed", _LEAST, math.inf),
    ("sums", _LEAST, math.inf),
    ("hidden", 0.0, 1.0),
    ("message", 0.0, math.inf),
)


@dataclass(frozen=True)
class Cluster:
    """The links between the ranks of a job: a message of m bytes takes `latency` + m / `bandwidth` seconds.

    `speed` is how many times as fast as here a rank computes. `overhead` is what a collective takes besides, on the
    rank itself, where Python sends it since it has no native code; `message` is what one between the places of a
    pipeline takes on the rank that sends it, and on the one that receives it. `sums` is how many bytes a second a rank
    copies and adds up where it sums what others sent. Of the time that bytes move a rank can compute in a part,
    `hidden`: in all of it where a network card moves them, in none where the rank itself does, as on one host.

    Measure a job's own by :func:`measure`.

    Source: Hockney 1994, The communication challenge for MPP.
    """

    latency: float = 5e-6
    bandwidth: float = 10e9
    overhead: float = 30e-6
    speed: float = 1.0
    sums: float = math.inf
    hidden: float = 1.0
    message: float = 30e-6

    def __post_init__(self) -> None:
        for name, low, high in _RANGES:
            x = getattr(self, name)
            if not (isinstance(x, Real) and low <= float(x) <= high):
                fail(GraphError, f"Cluster with {name}={x!r}", f"It is a number from {low:g} to {high:g}.")

    def seconds(self, node: Node) -> float:
        """Return the seconds that a collective of a rank's graph takes."""
        return sum(self._seconds(node))

    def busy(self, node: Node) -> float:
        """Return the seconds of a collective in which the rank itself moves it, or adds up, and cannot compute."""
        moving, adding = self._seconds(node)
        return (1.0 - self.hidden) * moving + adding

    def _seconds(self, node: Node) -> tuple[float, float]:
        ranks, given = node.attrs["ranks"], node.inputs
        moved, rounds = traffic(node)
        if not given or not rounds or ranks == 1:
            return 0.0, 0.0
        summed = given[0].spec.nbytes if node.op in _SUMS and isinstance(given[0], Node) else 0
        waits = rounds * math.ceil(math.log2(ranks)) * self.latency
        of_python = 0.0 if _is_native(node) else self.overhead
        return of_python + waits + moved / self.bandwidth, summed / self.sums


_SUMS = frozenset({c.all_reduce, c.all_reduce_max, c.reduce_scatter})


def _is_native(node: Node) -> bool:
    """Return whether native code moves what a collective does."""
    moved = moved_by(node)
    return moved is not None and Alone({}).scratch(moved) is not None


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
    if node.op is c.broadcast_from:
        # The root sends to each one what is small, and the rest along a binomial tree.
        return (ranks - 1 if n <= SMALL else math.ceil(math.log2(ranks))) * n, 1
    return n, 1


class Part(NamedTuple):
    """A part of a step: kernels ("compute"), a collective or message ("move"), or waiting for one ("wait").

    It begins and ends at so many seconds, and sends `moved` bytes. Collectives move while kernels run. `nodes` are
    those of the program's graph that it computes or moves; a pipeline's tasks have graphs of their own, and tell none.
    """

    label: str
    kind: str
    start: float
    end: float
    moved: int
    nodes: tuple[Node, ...] = ()


class Lane(NamedTuple):
    """Ranks that do the same at the same time: their numbers, the parts of their step, bytes of memory on each."""

    ranks: tuple[int, ...]
    parts: tuple[Part, ...]
    memory: int

    @property
    def seconds(self) -> float:
        """The seconds after which these ranks are done."""
        return max((p.end for p in self.parts), default=0.0)

    @property
    def computing(self) -> float:
        """The seconds in which these ranks compute."""
        return sum(p.end - p.start for p in self.parts if p.kind == "compute")


@dataclass(frozen=True)
class Prediction:
    """A prediction of what a step takes on the ranks of a mesh.

    `lanes` has a timeline for the ranks of each place of a pipeline; without one, all ranks are in one lane. `graph` is
    what a rank runs. `wg.explore` shows it, and the timelines beside it.
    """

    mesh: Mesh
    cluster: Cluster
    lanes: tuple[Lane, ...]
    graph: Graph

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts of the ranks that take longest."""
        return self._longest.parts

    @property
    def _longest(self) -> Lane:
        return max(self.lanes, key=lambda lane: lane.seconds)

    @property
    def seconds(self) -> float:
        """The seconds of a step."""
        return max(lane.seconds for lane in self.lanes)

    @property
    def moving(self) -> float:
        """The seconds of a step in which the ranks that take longest wait for what moves, and compute nothing."""
        return self.seconds - self._longest.computing

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
            busy.append(lane.computing)
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

    def __timeline__(self, row_of: Mapping[Node, int]) -> dict[str, Any]:
        """Return the `ranks` table of an exploration's document; `row_of` has the rows of the graph's nodes."""
        parts = [(number, p) for number, lane in enumerate(self.lanes) for p in lane.parts]
        return {
            "mesh": str(self.mesh),
            "micros": round(self.seconds * 1e6, 3),
            "lanes": [{"ranks": _numbers(lane.ranks), "memory": lane.memory} for lane in self.lanes],
            "lane": [number for number, _ in parts],
            "kind": [_KINDS.index(p.kind) for _, p in parts],
            "label": [p.label for _, p in parts],
            "start": [round(p.start * 1e6, 3) for _, p in parts],
            "end": [round(p.end * 1e6, 3) for _, p in parts],
            "moved": [p.moved for _, p in parts],
            "nodes": [sorted({row_of[n] for n in p.nodes if n in row_of}) for _, p in parts],
        }

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
_KINDS = tuple(_MARKS)
_HEADINGS = ("ranks", "part", "kind", "start µs", "µs", "bytes")


class _Alone(Transport):
    """Rank 0 of a job whose other ranks are not there: each is taken to bring what this one does."""

    __slots__ = ()

    def __init__(self, size: int) -> None:
        self.rank, self.size = 0, size

    def meet(self, members: tuple[int, ...], op: Op, x: Any, attrs: Mapping[str, Any]) -> Any:
        spec = op.infer(_spec(x), **attrs)
        return np.resize(x, spec.shape)

    def compare(self, digest: bytes, what: Callable[[], str]) -> bool:
        return False

    def exchanges(self, mesh: Mesh) -> Exchanges:
        return Alone(mesh.coordinates(self.rank))


def _spec(x: Any) -> Spec:
    return spec_of(x.shape, x.dtype)


def predict(
    step: Any, mesh: Mesh | None = None, cluster: Cluster | None = None, args: Sequence[Any] = ()
) -> Prediction:
    """Return the predicted time and memory of a step on the ranks of a mesh, without these ranks.

    Parameters
    ----------
    step: what :func:`partition` or :func:`shard_map` returned, or a step of :func:`jit`.
    mesh: the mesh; that of the step where it is left out.
    cluster: the links; a fast network where it is left out.
    args: the arguments of a function, or specs of them; of a step that has been called they may be left out.

    One rank's kernels run here, on parts of the right sizes, and are timed, and so is the Python around them (all of it
    where a step has been called); what ranks send each other is counted, and takes the time that the model says.
    Collectives move while other kernels run,
    one after the other, and a rank waits for what is not there yet; so do messages between the places of a pipeline,
    within whose tasks collectives are waited for at once. The mesh may have any size: 8 ranks, or 4,096.

    Raises GraphError for anything else.

    >>> import wengert as wg
    >>> f = wg.distribute.partition(lambda w, x: wg.tanh(x @ w).sum(), wg.distribute.Mesh(data=64), (None, "data"))
    >>> found = wg.distribute.predict(f, args=(wg.spec((8, 8)), wg.spec((128, 8))))
    >>> found.moved, [p.label for p in found.parts if p.kind == "move"]
    (252, ['all_reduce over data'])
    """
    for name, given, kind in (("mesh", mesh, Mesh), ("cluster", cluster, Cluster)):
        if not isinstance(given, (kind, NoneType)):
            mend = "Arguments of the step are given together: predict(step, args=(x, y))."
            fail(GraphError, f"predict with a {type(given).__name__} for its {name}", mend)
    if not isinstance(args, Sequence):
        fail(GraphError, f"predict with args={args!r}", "They are a tuple: predict(step, args=(wg.spec((8, 4)),)).")
    if args and isinstance(step, (Program, StepOnMesh)):
        check_call(getattr(step, "__wrapped__", step), args, {}, "predict")
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
    # What has been called tells what its calls take beside their programs.
    outside = step.time.outside if isinstance(step, StepOnMesh) and math.isfinite(step.time.outside) else 0.0
    if isinstance(made, Pipelined):
        return _pipelined(made, cluster, outside)
    return _predicted(made, cluster, outside)


class _Measured(NamedTuple):
    """A run of a graph by one rank: its parts one after the other, and the bytes of its arena."""

    parts: tuple[Part, ...]
    memory: int


def _measured(graph: Graph, mesh: Mesh, cluster: Cluster, around: float = 0.0, overlaps: bool = True) -> _Measured:
    """Run a graph as one rank does, alone, and return what its kernels take, and what the model says of the others.

    What Python takes `around` it comes first. Where nothing `overlaps`, collectives are waited for where they start.
    """
    rng = np.random.default_rng(0)
    feeds = [_example(n.spec, rng) for n in graph.inputs]
    alone = _Alone(mesh.size)
    with entered(OnMesh(mesh, alone), process=True):
        ready: Any = executor(graph, exchanges=alone.exchanges(mesh))
        if not hasattr(ready, "trace"):
            fail(GraphError, "predict where there is no native code", "pip install llvmlite")
        kept = [
            ready.run(feeds) for _ in range(2)
        ]  # as in training: a step's results are there while the next one runs

        def again() -> None:
            kept[:] = kept[1], ready.run(feeds)

        again()
        # The least time is that of a run which nothing disturbed.
        whole = min(_seconds(again) for _ in range(_RUNS))
        trace = min((ready.trace(feeds) for _ in range(_RUNS)), key=lambda t: float((t.end - t.start).sum()))
    # What the run takes beside its steps: inputs are checked, results made.
    at = (around + max(0.0, whole - float((trace.end - trace.start).sum()))) / cluster.speed
    parts = [Part("call", "compute", 0.0, at, 0)] if at else []
    return _Measured((*parts, *_laid_out(ready, trace, at, cluster, overlaps)), ready.memory.peak)


def _laid_out(ready: Compiled, trace: NativeTrace, at: float, cluster: Cluster, overlaps: bool) -> Iterator[Part]:
    """Yield the parts of a run from a moment on: kernels as long as they took, and what moves behind them."""
    steps = ready.plan.steps
    spent = np.bincount(trace.step, trace.end - trace.start, len(steps))
    arrivals: dict[Node, float] = {}
    line = 0.0  # until when something else moves
    for i in dict.fromkeys(trace.step.tolist()):
        kernel, nodes = steps[i].kernel, steps[i].nodes
        origins = tuple(dict.fromkeys(a for n in nodes for a in ready.ancestors(n)))
        node = next((n for n in nodes if "collective" in n.op.facets and traffic(n)[1]), None)
        phase = kernel.phase if isinstance(kernel, Exchange) else "all"
        if node is None:
            seconds = 0.0 if isinstance(kernel, Exchange) else float(spent[i]) / cluster.speed
            if seconds:
                yield Part(trace.labels[i], "compute", at, at + seconds, 0, origins)
            at += seconds
        elif phase in ("start", "all"):
            begin = max(at, line)
            line = arrivals[node] = begin + cluster.seconds(node)
            yield Part(f"{node.op.name} over {node.attrs['over']}", "move", begin, line, traffic(node)[0], origins)
            at = at if phase == "start" and overlaps else line
        elif phase == "wait" and overlaps:
            late, at = at, max(at + cluster.busy(node), arrivals[node])
            if late < at:
                yield Part(f"wait for {node.op.name}", "wait", late, at, 0, origins)


class _Given:
    """An executor whose results are there already."""

    def __init__(self, outputs: Sequence[Any]) -> None:
        self.outputs = outputs

    def run(self, arrays: Sequence[Any]) -> list[Any]:
        return list(self.outputs)

    def run_at_once(self, arrays: Sequence[Any], commit: Commit) -> list[Any]:
        raise NotImplementedError


class _Clock:
    """The moments in which the acts of a place begin and end, in one run of its step."""

    def __init__(self) -> None:
        self.begun: list[float] = []
        self.ended: list[float] = []

    def act(self, work: Callable[[], Any] = lambda: None) -> Any:
        """Do an act's work, and note when."""
        self.begun.append(time.perf_counter())
        found = work()
        self.ended.append(time.perf_counter())
        return found


class _Timed:
    """An executor whose runs a clock notes."""

    def __init__(self, executor: Executor, clock: _Clock) -> None:
        self.executor, self.clock = executor, clock

    def run(self, arrays: Sequence[Any]) -> list[Any]:
        found: list[Any] = self.clock.act(lambda: self.executor.run(arrays))
        return found

    def run_at_once(self, arrays: Sequence[Any], commit: Commit) -> list[Any]:
        raise NotImplementedError


class _NoLinks:
    """The messages of a place that sends none, and is given examples of what it would receive."""

    def __init__(self, specs: Sequence[Spec], clock: _Clock) -> None:
        rng = np.random.default_rng(0)
        self.known = {spec: _example(spec, rng) for spec in specs}
        self.clock = clock

    def send(self, x: Any, rank: int) -> None:
        self.clock.act()

    def hand(self, x: Any, rank: int) -> None:
        self.clock.act()

    def receive(self, spec: Spec, rank: int) -> Any:
        return self.clock.act(lambda: self.known[spec])

    def finish(self) -> None: ...


class _Rehearsal(NamedTuple):
    """A step of one place of a pipeline, alone: seconds before its first act, of each act, and after the last one.

    An act has the Python that comes before its work. `memory` is the largest arena of its tasks, in bytes.
    """

    before: float
    acts: list[float]
    after: float
    memory: int


def _rehearsed(made: Pipelined, place: int) -> _Rehearsal:
    """Run a place's step as its rank does, with what others send there already, and return the least that acts take."""
    alone = _Alone(made.mesh.size)
    alone.rank = made.ranks_of(place)[0]
    group = OnMesh(made.mesh, alone)
    stage, clock = OneStage(made, group), _Clock()
    stage.links = _NoLinks(made.tasks.specs, clock)
    specs = made.tasks.specs
    step = _call(stage, made, alone, specs[: len(made.inputs)], [specs[v] for v in made.tasks.outputs])
    rows: list[list[float]] = []
    with entered(group, process=True):
        step()
        if not all(hasattr(e, "memory") for e in stage.executors.values()):
            fail(GraphError, "predict where there is no native code", "pip install llvmlite")
        memory = max((e.memory.peak for e in stage.executors.values() if isinstance(e, Compiled)), default=0)
        stage.executors = {number: _Timed(e, clock) for number, e in stage.executors.items()}
        start = began = time.perf_counter()
        while len(rows) < _RUNS or (len(rows) < 3 * _RUNS and start - began < _ENOUGH):
            clock.begun, clock.ended = [], []
            start = time.perf_counter()
            step()
            end = time.perf_counter()
            rows.append(np.diff([start, clock.begun[0], *clock.ended, end]).tolist())
    before, *acts, after = np.min(rows, axis=0).tolist()
    return _Rehearsal(before, acts, after, memory)


def _call(
    engine: OneStage | OneRank,
    made: Partitioned | Pipelined,
    alone: _Alone,
    specs: Sequence[Spec],
    outputs: Sequence[Spec],
) -> Callable[[], None]:
    """Return a call of a step by a rank, on what a rank has of examples; its state is as the last step has left it."""
    mesh, rng = made.mesh, np.random.default_rng(0)
    places = made.inputs_at if isinstance(made, Pipelined) else [None] * len(specs)
    values = [
        _example(s, rng)
        if at is None and is_whole(p)
        else Sharded(
            _whole(s, p, mesh), p, mesh, {alone.rank: _example(s, rng)} if is_at(at, mesh, alone.rank) else {}, at=at
        )
        for s, p, at in zip(specs, made.inputs, places, strict=True)
    ]
    wholes = [_whole(s, p, mesh) for s, p in zip(outputs, made.outputs, strict=True)]
    state = [v for v in values if not isinstance(v, Sharded)]
    names = [""] * len(values)

    def step() -> None:
        engine.check(names, values)
        run_placed(engine, made, values, names, wholes)
        engine.agreement.left(state)

    return step


def _around(made: Partitioned) -> float:
    """Return the seconds that Python takes in a step beside its program."""
    alone = _Alone(made.mesh.size)
    group = OnMesh(made.mesh, alone)
    engine = OneRank(made, group)
    outputs = [n.spec for n in made.graph.outputs]
    engine.executor = _Given([_zeros(spec) for spec in outputs])
    step = _call(engine, made, alone, [n.spec for n in made.graph.inputs], outputs)
    with entered(group, process=True):
        return min(_seconds(step) for _ in range(3 * _RUNS))


def _zeros(spec: Any) -> Any:
    return np.zeros(spec.shape, spec.dtype)


def _whole(spec: Spec, placement: Placement, mesh: Mesh) -> Spec:
    sizes = list(spec.shape)
    for name, entry in zip(mesh.names, placement, strict=True):
        if entry is not None:
            sizes[entry] *= mesh.axes[name]
    return spec_of(tuple(sizes), spec.dtype)


def _seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _predicted(made: Partitioned, cluster: Cluster, outside: float) -> Prediction:
    found = _measured(made.graph, made.mesh, cluster, outside + _around(made))
    lane = Lane(tuple(range(made.mesh.size)), found.parts, found.memory)
    return Prediction(made.mesh, cluster, (lane,), made.graph)


def _pipelined(made: Pipelined, cluster: Cluster, outside: float) -> Prediction:
    """Return the timelines of the places of a pipeline: acts as long as here, in the program's order."""
    moves: dict[str, tuple[Part, ...]] = {}
    lanes: list[list[Part]] = [[] for _ in range(made.places)]
    at = [0.0] * made.places
    arrivals: dict[tuple[int, int], float] = {}
    together: dict[int, float] = {}
    begun = [0] * made.places
    alone = [_rehearsed(made, place) for place in range(made.places)]

    def add(place: int, label: str, kind: str, seconds: float, moved: int = 0) -> None:
        last = lanes[place][-1] if lanes[place] else None
        if last is not None and kind == last.kind == "compute" and label == last.label:
            lanes[place][-1] = last._replace(end=last.end + seconds)
        elif seconds or moved:
            lanes[place].append(Part(label, kind, at[place], at[place] + seconds, moved))
        at[place] += seconds

    def taken(place: int) -> float:
        """Return the seconds of a place's next act."""
        return alone[place].acts[begun[place]] / cluster.speed

    def message(place: int) -> None:
        """Add a message of a place, which is its next act."""
        act = made.lists[place][begun[place]]
        nbytes = made.tasks.specs[act.value].nbytes
        add(place, "call", "compute", taken(place))
        begun[place] += 1
        if act.what == "send":
            add(place, f"send to {act.other}", "move", cluster.message, nbytes)
            # What a rank moves itself it does not move before it receives it.
            arrivals[act.value, act.other] = at[place] + cluster.latency + cluster.hidden * nbytes / cluster.bandwidth
        elif act.what == "receive":
            maker = made.tasks.makers.get(act.value)
            label = "wait for " + (made.tasks.tasks[maker].label if maker is not None else f"state of {act.other}")
            add(place, label, "wait", max(0.0, arrivals[act.value, place] - at[place]))
            busy = (1.0 - cluster.hidden) * nbytes / cluster.bandwidth
            add(place, "receive", "move", cluster.message + busy)

    for place in range(made.places):
        add(place, "call", "compute", (outside + alone[place].before) / cluster.speed)
    for place in range(made.places):
        while made.lists[place] and made.lists[place][begun[place]].what == "send":
            message(place)
    for span in made.order:
        place, acts = span.place, made.lists[span.place]
        task = made.tasks.tasks[span.task]
        moved = moves.get(key := task.graph.structural_hash)
        if moved is None:
            does = any("collective" in n.op.facets and traffic(n)[1] for n in task.graph.nodes)
            measured = _measured(task.graph, made.mesh, cluster, overlaps=False).parts if does else ()
            moved = moves[key] = tuple(p for p in measured if p.kind == "move")
        # What all places do together, they do when the last one is there, whose tasks before it come before it here.
        is_joint = task.place is None and bool(moved)
        for each in range(made.places) if is_joint and span.task not in together else [place]:
            while made.lists[each][begun[each]].what != "run":
                message(each)
        if is_joint and span.task not in together:
            together[span.task] = max(at[each] + taken(each) for each in range(made.places))
        add(place, task.label, "compute", taken(place))
        begun[place] += 1
        if is_joint:
            add(place, "wait for all", "wait", max(0.0, together[span.task] - at[place]))
        for p in moved:
            add(place, f"{task.label}: {p.label}", p.kind, p.end - p.start, p.moved)
        while begun[place] < len(acts) and acts[begun[place]].what == "send":
            message(place)
    for place in range(made.places):
        add(place, "call", "compute", alone[place].after / cluster.speed)
    return Prediction(
        made.mesh,
        cluster,
        tuple(
            Lane(tuple(made.ranks_of(p)), tuple(parts), made.kept(p) + alone[p].memory) for p, parts in enumerate(lanes)
        ),
        made.graph,
    )


def _example(spec: Spec, rng: Any) -> Any:
    """Return numbers for an input that every op takes: small positive floats, zeros of the others."""
    if spec.inexact:
        return rng.uniform(0.1, 1.0, spec.shape).astype(spec.dtype)
    return np.zeros(spec.shape, spec.dtype)


def measure(size: int = 1 << 22, repeats: int = 20) -> Cluster:
    """Return the cluster that the job of this rank runs on. All ranks call it.

    Programs of messages around a ring, and of sums, of up to `size` bytes are timed, and the model's line laid through
    what they take, by relative distances: the least of `repeats` runs, of the slowest rank.

    Raises GraphError outside of a job.
    """
    group = current()
    if not isinstance(group, OnMesh):
        fail(GraphError, "measure outside of a job", "Run it on ranks: wg.distribute.run(wg.distribute.measure, 2).")
    n = group.transport.size
    line = OnMesh(Mesh(ranks=n), group.transport)
    over = {"over": "ranks", "ranks": n}
    exchanges = line.transport.exchanges(line.mesh)

    def spent(run: Callable[[], Any]) -> float:
        times = []
        with entered(line), line.transport.trusting():
            run()
            for _ in range(repeats):
                times.append(_seconds(run))
        # What all ranks agree on: the slowest one's least, which nothing disturbed.
        with entered(line):
            slowest = c.all_reduce_max.forward(np.array([min(times)]), **over)
        return float(slowest[0])

    def time_of(outputs: Sequence[Node], inputs: Sequence[Node]) -> float:
        made = executor(Graph(outputs, inputs), exchanges=exchanges)
        # Memory that was written to: all of what was not is one page.
        values = [np.full(n.spec.shape, 0.0, n.spec.dtype) for n in inputs]
        return spent(lambda: made.run(values))

    def row(count: int, x: Node, op: Op, given: Sequence[Any], **attrs: Any) -> Node:
        """Return the result of applying an op `count` times to a value of the same spec."""
        for _ in range(count):
            x = located(op, (x, *given), attrs, x.spec)
        return x

    def in_program(op: Op, size: int, **attrs: Any) -> float:
        """Return the seconds that one more collective in a program takes."""
        x = input_node(spec_of((size // 8,), np.dtype(float)))
        one, more = (time_of([row(k, x, op, (), **over, **attrs)], [x]) for k in (1, 1 + _IN_A_ROW))
        return max(more - one, 1e-9) / _IN_A_ROW

    def hidden(size: int) -> float:
        """Return the part of a message's time in which a rank can compute: by one behind as long a computation."""
        x, a = input_node(spec_of((size // 8,), np.dtype(float))), input_node(spec_of((_WIDE, _WIDE), np.dtype("f4")))
        there = row(1, x, c.ppermute, (), **over, pairs=ring)
        moving, count, computing = time_of([there], [x]), 4, 0.0
        while computing < moving and count < 4096:
            count *= 2
            computing = time_of([row(count, a, TABLE["matmul"], (a,))], [a])
        both = time_of([there, row(count, a, TABLE["matmul"], (a,))], [x, a])
        return float(np.clip((moving + computing - both) / moving, 0.0, 1.0))

    def message() -> float:
        """Return the mean seconds that a message takes on the sending and on the receiving rank."""
        ends, rank = links(line.transport), line.transport.rank
        there = spec_of((_MESSAGE // 8,), np.dtype(float))
        x, other, times = np.zeros(there.shape), rank ^ 1, []
        with line.transport.trusting():
            for _ in range(repeats):
                meet()
                start = time.perf_counter()
                if other < n and rank < other:
                    ends.send(x, other)
                sent = time.perf_counter()
                meet()  # what is received is there already
                begun = time.perf_counter()
                if other < n and rank < other:
                    ends.hand(x, other)
                elif rank > other:
                    ends.receive(there, other)
                times.append(sent - start + time.perf_counter() - begun)
                ends.finish()
        both = np.zeros(2)
        both[rank > other] = min(times)
        with entered(line):
            both = c.all_reduce_max.forward(both, **over)
        return max(0.0, float(both.mean()) - _MESSAGE * float(per_byte) / 2)

    def meet() -> None:
        with entered(line):
            c.all_reduce.forward(np.zeros(1), **over)

    ring = tuple((i, (i + 1) % n) for i in range(n))
    sizes = sorted({min(size, 8 << k) for k in range(0, 40, 3)})
    taken = np.array([in_program(c.ppermute, m, pairs=ring) for m in sizes])
    table = np.stack([np.ones(len(sizes)), sizes], 1)
    (latency, per_byte), *_ = np.linalg.lstsq(table / taken[:, None], np.ones(len(sizes)), rcond=None)
    latency, per_byte = max(latency, taken[0] / 2), max(per_byte, 1e-12)
    x = np.zeros(1)
    by_python = spent(lambda: c.ppermute.forward(x, **over, pairs=ring))
    # What a sum takes longer than the messages that it is made of.
    sums = np.array([in_program(c.all_reduce, m) for m in sizes])
    sent = np.array([(n - 1) * m if n == 2 or m <= SMALL else 2 * (n - 1) / n * m for m in sizes])
    rounds = np.array([1 if n == 2 or m <= SMALL else 2 for m in sizes]) * max(1, math.ceil(math.log2(n)))
    more = float(np.sum((sums - rounds * latency - sent * per_byte) * sizes / sums**2) / np.sum((sizes / sums) ** 2))
    return Cluster(
        float(latency),
        1 / float(per_byte),
        max(0.0, by_python - float(taken[0])),
        sums=1 / more if more > 0 else math.inf,
        hidden=hidden(min(size, 1 << 20)),
        message=message(),
    )
