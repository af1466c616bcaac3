"""Pipelined programs: what each place of a pipeline does in a step, in order."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from ...core import tree
from ...core.errors import GraphError, fail
from ...core.graph.graph import Graph
from ...core.node import Node
from ...core.state.cached import cached_property
from ...explain.report import columns, html_table
from ..arguments import whole_number
from ..mesh import Mesh
from ..placing.partition import Partitioned, partition_graph
from ..placing.placement import At, Placement
from .microbatches import microbatched
from .schedule import SCHEDULES, Span, played
from .stages import Stages
from .tasks import NOTHING, Kept, Task, Tasks, tasks_of

STATES = ("stages", "everywhere")


@dataclass(frozen=True, repr=False)
class Pipeline:
    """A pipeline along a mesh axis: the places along it compute a step's stages, microbatch by microbatch.

    Parameters
    ----------
    over: the mesh axis.
    micro: the number of microbatches that the batch is cut into.
    schedule: "1f1b", in which a place begins a backward pass as soon as it can and keeps few microbatches, or "gpipe",
        in which all forward passes come first.
    laps: how many stages each place has: with 2 the batch goes through all places twice (interleaved stages), which
        leaves places less idle and moves more.
    stages: for each stage in order the module paths that it computes, as patterns ("blocks.0", "blocks.[1-3]", or a
        sequence of them); None cuts where it costs least.
    batch: for each argument the dimension that is cut into microbatches, or None; a pytree of them that begins like the
        arguments. Left out, it is the first dimension of every argument of a step that :func:`jit` compiles.
    state: where parameters, their gradients and optimiser state are between the steps of :func:`jit`: at the "stages",
        whose ranks alone keep what they update, so that nothing of it is sent to others, or "everywhere".

    Raises GraphError for anything else.

    >>> import wengert as wg
    >>> wg.distribute.Pipeline("pipe", micro=4, stages=["embed", "blocks.*"])
    Pipeline('pipe', micro=4, stages=(('embed',), ('blocks.*',)))
    """

    over: str
    micro: int
    schedule: str = "1f1b"
    laps: int = 1
    stages: Any = None
    batch: Any = None
    state: str = "stages"

    def __post_init__(self) -> None:
        for name in ("micro", "laps"):
            n = getattr(self, name)
            n = whole_number(n, f"a pipeline with {name}={n!r}", "It is a number from 1 on.")
            object.__setattr__(self, name, n)
        if self.schedule not in SCHEDULES:
            fail(GraphError, f"a pipeline with schedule={self.schedule!r}", f"It is one of {', '.join(SCHEDULES)}.")
        if self.state not in STATES:
            fail(GraphError, f"a pipeline with state={self.state!r}", f"It is one of {', '.join(STATES)}.")
        if self.stages is not None:
            object.__setattr__(self, "stages", _stages(self.stages))

    def __repr__(self) -> str:
        said = [f"{f.name}={v!r}" for f in fields(self)[1:] if (v := getattr(self, f.name)) != f.default]
        return f"Pipeline({', '.join([repr(self.over), *said])})"

    def count(self, mesh: Mesh) -> int:
        """Return the number of stages on a mesh. Raises GraphError where other ones were named."""
        found = mesh.size_of(self.over) * self.laps
        if self.stages is not None and len(self.stages) != found:
            fail(
                GraphError,
                f"a pipeline with {len(self.stages)} stages over {self.over!r}, an axis of "
                f"{mesh.size_of(self.over)} ranks, in {self.laps} laps",
                f"Name {found} stages, in the order in which the batch goes through them.",
            )
        return found

    def cuts(self, args: Sequence[Any]) -> list[int | None]:
        """Return the dimension along which each leaf of the arguments is cut. Raises GraphError."""
        batch = 0 if self.batch is None else self.batch
        return [d for e, a in zip(_each(batch, args), args, strict=True) for d in _spread(e, a)]


def as_pipeline(given: Any, mesh: Mesh, what: str) -> Pipeline | None:
    """Return a pipeline that a user gave to `what`, or None. Raises GraphError for one that does not fit the mesh."""
    if given is None:
        return None
    if not isinstance(given, Pipeline):
        fail(
            GraphError,
            f"{what} on {mesh} with pipeline={given!r}",
            f"It is a wg.distribute.Pipeline({mesh.names[0]!r}, micro=4), say.",
        )
    given.count(mesh)
    return given


def _stages(given: Any) -> tuple[tuple[str, ...], ...]:
    rows = given if isinstance(given, (tuple, list)) else [None]
    found = tuple(
        (row,) if isinstance(row, str) else tuple(row) if isinstance(row, (tuple, list)) else () for row in rows
    )
    if not all(row and all(isinstance(name, str) for name in row) for row in found):
        fail(
            GraphError,
            f"a pipeline with stages={given!r}",
            'It has for each stage the paths of its modules: ["embed", ("blocks.0", "blocks.1"), "head"].',
        )
    return found


def _each(batch: Any, args: Sequence[Any]) -> Sequence[Any]:
    if not isinstance(batch, (tuple, list)):
        return [batch] * len(args)
    if len(batch) != len(args):
        fail(GraphError, f"a pipeline with batch={batch!r} for {len(args)} arguments", "Give an entry for each.")
    return batch


def _spread(entry: Any, pytree: Any) -> list[int | None]:
    if entry is None or (isinstance(entry, int) and not isinstance(entry, bool)):
        return [entry if getattr(x, "shape", ()) else None for x in tree.leaves(pytree)]
    if isinstance(entry, dict) and isinstance(pytree, dict) and entry.keys() == pytree.keys():
        return [d for key in pytree for d in _spread(entry[key], pytree[key])]
    if isinstance(entry, (tuple, list)) and isinstance(pytree, (tuple, list)) and len(entry) == len(pytree):
        return [d for e, p in zip(entry, pytree, strict=True) for d in _spread(e, p)]
    fail(
        GraphError,
        f"a pipeline with batch={entry!r} for {tree.structure(pytree)}",
        "It is a dimension or None for all of it, or a pytree of them that begins like it.",
    )


class Act(NamedTuple):
    """An act of a place: it runs a task, sends a value, hands it over, or receives it.

    A value is sent as soon as it is there; where it is received, in an order that is one for all places, stands "hand"
    for its sender: engines that cannot send before somebody receives do it there. `value` is the number of a task or of
    a value, `other` the place at the other end, `done` the values that nothing needs any more.
    """

    what: str
    value: int
    other: int
    done: tuple[int, ...]


class Pipelined:
    """A program for the ranks of a mesh with a pipeline along one axis.

    `graph` is the program on all microbatches, as the ranks of one place would run it alone; `lists` has for each place
    its acts in order. It prints as a table of the tasks.
    """

    def __init__(
        self,
        options: Pipeline,
        mesh: Mesh,
        inputs: Sequence[Placement],
        outputs: Sequence[Placement],
        graph: Graph,
        tasks: Tasks,
        placements: Mapping[Node, Placement],
    ) -> None:
        self.options, self.mesh = options, mesh
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)
        self.graph, self.tasks, self.placements = graph, tasks, placements
        self.places = mesh.size_of(options.over)
        self.order = played(tasks, self.places, options.schedule, lambda task: task.seconds)
        self.lists = _lists(tasks, self.places, self.order)
        # The places that alone have inputs and outputs; None for what all have.
        self.inputs_at = [self._at(tasks.at.get(i)) for i in range(len(self.inputs))]
        self.outputs_at = [self._at(tasks.source(v) if self.places > 1 else None) for v in tasks.outputs]

    def _at(self, place: int | None) -> At | None:
        return None if place is None else (self.over, place)

    @property
    def over(self) -> str:
        """The mesh axis that the pipeline runs along."""
        return self.options.over

    @cached_property
    def beside(self) -> Mesh:
        """The mesh of the ranks of one place."""
        return beside(self.mesh, self.over)

    def ranks_of(self, place: int) -> list[int]:
        """Return the ranks of a place, in the order of the mesh beside."""
        return [r for r in range(self.mesh.size) if self.mesh.coordinates(r)[self.over] == place]

    def telling(self, rank: int) -> AbstractContextManager[None]:
        """Add to an error of one rank whose it is, as programs without a pipeline do."""
        return Partitioned(self.graph, self.mesh, self.inputs, self.outputs, self.placements).telling(rank)

    @cached_property
    def identity(self) -> str:
        """A hash of what ranks must agree on beside the graph: the acts of all places."""
        graphs = [t.graph.structural_hash for t in self.tasks.tasks]
        rows = [[(a.what, a.value, a.other) for a in acts] for acts in self.lists]
        return hashlib.sha256(repr((rows, graphs)).encode()).hexdigest()

    def tasks_of(self, place: int) -> list[Task]:
        """Return the tasks of a place, in order."""
        return [self.tasks.tasks[span.task] for span in self.order if span.place == place]

    def kept(self, place: int) -> int:
        """Return the most bytes of values, beside the program's inputs, that a place has between two of its tasks."""
        return max((with_it for _, _, with_it in self._held(place)), default=0)

    def kept_before(self, place: int) -> dict[int, int]:
        """Return the bytes of such values that a place has when a task of it begins, by the task's number."""
        return {act.value: before for act, before, _ in self._held(place) if act.what == "run"}

    def _held(self, place: int) -> Iterator[tuple[Act, int, int]]:
        """Give a place's acts, with the bytes of values that it has before one, and when it is done."""
        specs, start = self.tasks.specs, len(self.graph.inputs)
        held = 0
        for act in self.lists[place]:
            before = held
            if act.what == "run":
                held += sum(specs[v].nbytes for v in self.tasks.tasks[act.value].outputs)
            elif act.what == "receive":
                held += specs[act.value].nbytes
            yield act, before, held
            held -= sum(specs[v].nbytes for v in act.done if v >= start)

    def moved(self, place: int) -> int:
        """Return the bytes that a rank of a place sends to others along the pipeline in a step, results left out."""
        return sum(self.tasks.specs[a.value].nbytes for a in self.lists[place] if a.what == "send")

    def idle(self) -> float:
        """Return the share of a step in which places wait for others, if tasks took what their operations suggest."""
        end = max((s.end for s in self.order), default=0.0)
        busy = sum(s.end - s.start for s in self.order)
        return 1 - busy / (end * self.places) if end else 0.0

    def _summary(self) -> str:
        o = self.options
        kept = ", ".join(f"{self.kept(p):,}" for p in range(self.places))
        return (
            f"{o.schedule} over {o.over!r}: {self.places * o.laps} stages on {self.places} places, {o.micro} "
            f"microbatches, {self.idle():.0%} idle; bytes kept by place: {kept}"
        )

    def _rows(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = []
        for span in self.order:
            task = self.tasks.tasks[span.task]
            rows.append((str(span.place), task.label, f"{len(task.graph.computations)}", f"{span.start * 1e6:.1f}",
                         f"{(span.end - span.start) * 1e6:.1f}"))  # fmt: skip
        return rows

    def __str__(self) -> str:
        return f"{self._summary()}\n{columns(self._rows(), _HEADINGS)}"

    def __repr__(self) -> str:
        return f"<Pipelined: {self._summary()}>"

    def _repr_html_(self) -> str:
        return html_table(self._summary(), self._rows(), _HEADINGS)


_HEADINGS = ("place", "task", "operations", "start µs", "µs")


def beside(mesh: Mesh, over: str) -> Mesh:
    """Return the mesh of the axes other than one; one rank where there is no other."""
    return Mesh({n: s for n, s in mesh.axes.items() if n != over} or {"alone": 1})


def pipelined(
    graph: Graph,
    mesh: Mesh,
    inputs: Sequence[Placement],
    outputs: Sequence[Placement | None],
    gathered: Sequence[frozenset[int]],
    cuts: Sequence[int | None],
    options: Pipeline,
    spread: Iterable[str] = (),
    kept: Kept = NOTHING,
) -> Pipelined:
    """Return a program for the ranks of a mesh with a pipeline along one of its axes.

    Parameters are those of :func:`partition_graph`, for each input the dimension that is cut into microbatches, and the
    state that stays at the stages.
    Raises GraphError where nothing is cut, or a placement names the pipeline's axis.
    """
    at = mesh.names.index(options.over)
    count = options.count(mesh)
    for node, p in zip(graph.inputs, inputs, strict=True):
        if p[at] is not None:
            fail(
                GraphError,
                f"{graph.names[node]} is split over {options.over!r}, the axis of a pipeline",
                "Stages have values of their own: leave the axis out of placements.",
            )
    if all(d is None for d in cuts):
        fail(GraphError, f"a pipeline of {graph!r} none of whose inputs is cut", "Say in batch= what the batch is.")
    other = beside(mesh, options.over)

    def without(p: Placement | None) -> Placement | None:
        if p is None:
            return None
        return tuple(e for i, e in enumerate(p) if i != at) or (None,)

    placed: list[Any] = [without(p) for p in inputs]
    axes = [frozenset(i - (i > at) for i in g) for g in gathered]
    goals = [without(p) for p in outputs]
    made: Partitioned = partition_graph(graph, other, placed, goals, axes, in_stages=True, spread=spread)
    unrolled = microbatched(made, cuts, options.micro)
    batch = [n for n, d in zip(unrolled.one.inputs, cuts, strict=True) if d is not None]
    stages = Stages(unrolled.one, batch, count, options.stages or ())
    tasks = tasks_of(unrolled, stages, mesh.size_of(options.over), options.over, kept)

    def with_axis(p: Placement) -> Placement:
        return (None,) if len(mesh.names) == 1 else (*p[:at], None, *p[at:])

    out = [with_axis(p) for p in made.outputs]
    placements = {n: with_axis(p) for n, p in made.placements.items()}
    return Pipelined(options, mesh, inputs, out, unrolled.graph, tasks, placements)


def _lists(tasks: Tasks, places: int, order: Sequence[Span]) -> tuple[tuple[Act, ...], ...]:
    """Return each place's acts in an order of tasks that is one for all."""
    wanted: dict[int, dict[int, None]] = {}
    for span in order:
        task = tasks.tasks[span.task]
        for value in task.inputs if task.place is not None else ():
            source = tasks.source(value)
            if source not in (None, span.place):
                wanted.setdefault(value, {})[span.place] = None
    acts: list[list[tuple[str, int, int]]] = [[] for _ in range(places)]
    sent: dict[tuple[int, int], list[int]] = {}

    def send(value: int, source: int) -> None:
        for target in wanted.get(value, ()):
            acts[source].append(("send", value, target))
            sent.setdefault((source, target), []).append(value)

    for value, place in tasks.at.items():
        send(value, place)
    for span in order:
        task = tasks.tasks[span.task]
        for value in task.inputs if task.place is not None else ():
            source = tasks.source(value)
            if source is None or source == span.place:
                continue
            line = sent[source, span.place]
            while value in line:  # what was sent before is received before
                first = line.pop(0)
                acts[source].append(("hand", first, span.place))
                acts[span.place].append(("receive", first, source))
        acts[span.place].append(("run", span.task, -1))
        for value in task.outputs:
            send(value, span.place)
    return tuple(_with_ends(tasks, row) for row in acts)


def _with_ends(tasks: Tasks, acts: Sequence[tuple[str, int, int]]) -> tuple[Act, ...]:
    """Return acts with the values after which nothing needs them."""
    seen = set(tasks.outputs)
    found = []
    for what, value, other in reversed(acts):
        task: Task | None = tasks.tasks[value] if what == "run" else None
        used = (*task.inputs, *task.outputs) if task is not None else (value,)
        done = tuple(v for v in dict.fromkeys(used) if v not in seen)
        seen.update(done)
        found.append(Act(what, value, other, done))
    return tuple(reversed(found))
