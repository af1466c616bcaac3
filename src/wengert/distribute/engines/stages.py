"""The engines of pipelines: all ranks in this process, or the one that runs here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from ...core.errors import error
from ...core.spec import Spec
from ...execute.jit.executor import Executor, executor
from ...execute.native.budget.within import BudgetError, Limit
from ...ops.collective.group import entered
from ..mesh import OnMesh
from ..pipeline.program import Act, Pipelined
from ..pipeline.tasks import Task
from ..placing.partition import Partitioned
from ..placing.placement import is_whole
from ..placing.sharded import is_at
from .agreement import Agreement
from .links import Links, links
from .lockstep import run_lockstep
from .simulation import Simulation


class LockstepStages:
    """All ranks of a pipeline in this process: task by task, in the order that is one for all."""

    def __init__(self, program: Pipelined) -> None:
        self.program = program
        self.ranks: Sequence[int] = range(program.mesh.size)

    def check(self, names: Sequence[str], arrays: Sequence[Any]) -> None:
        """Do nothing: all ranks were given these."""

    def run(self, feeds: Sequence[Sequence[Any]]) -> list[list[Any]]:
        """Return every rank's outputs."""
        program = self.program
        tasks = program.tasks
        stores = [_there(row) for row in feeds]
        ranks_of = [program.ranks_of(p) for p in range(program.places)]
        together: set[int] = set()
        position = [0] * program.places
        for span in program.order:
            task = tasks.tasks[span.task]
            position[span.place] = self._arrivals(span.place, position[span.place], stores, ranks_of)
            if task.place is not None:
                self._do(task, ranks_of[span.place], program.beside, stores)
            elif span.task not in together:
                together.add(span.task)
                self._do(task, list(self.ranks), program.mesh, stores)
            act = program.lists[span.place][position[span.place]]
            for rank in ranks_of[span.place]:
                for v in act.done:
                    stores[rank].pop(v, None)
            position[span.place] += 1
        return [_left(program, rank, store) for rank, store in enumerate(stores)]

    def _arrivals(self, place: int, at: int, stores: list[dict[int, Any]], ranks_of: Sequence[Sequence[int]]) -> int:
        """Take what a place receives before its next task, and forget what it sends; return that task's position."""
        acts = self.program.lists[place]
        while acts[at].what != "run":
            act = acts[at]
            if act.what == "receive":
                for source, target in zip(ranks_of[act.other], ranks_of[place], strict=True):
                    stores[target][act.value] = self._moved(stores[source][act.value], target)
            at += 1
        return at

    def _moved(self, x: Any, rank: int) -> Any:
        """Return a value as the rank has it that it was sent to."""
        return x

    def _do(self, task: Task, ranks: Sequence[int], mesh: Any, stores: list[dict[int, Any]]) -> None:
        specs = [n.spec for n in task.graph.inputs]
        rows = [[given(stores[r], v, s) for v, s in zip(task.inputs, specs, strict=True)] for r in ranks]
        whole = (None,) * len(mesh.names)
        program = Partitioned(task.graph, mesh, (whole,) * len(specs), (whole,) * len(task.outputs), {})
        # The ranks of a stage are those of a mesh of their own: errors name them by the whole one.
        done = run_lockstep(program, rows, lambda r: self.program.telling(ranks[r]))
        for rank, found in zip(ranks, done, strict=True):
            stores[rank].update(zip(task.outputs, found, strict=True))


class StagesInTurns(LockstepStages):
    """All ranks of a pipeline in this process, whose tasks are native code within a limit of memory."""

    def __init__(self, program: Pipelined, limit: Limit) -> None:
        super().__init__(program)
        places = [limits(program, place, limit) for place in range(program.places)]
        self.limits = {t: least(found[t] for found in places if t in found) for t in set().union(*places)}
        self.number = {id(task): i for i, task in enumerate(program.tasks.tasks)}
        self.executors: dict[tuple[str, Limit], Executor] = {}

    def _do(self, task: Task, ranks: Sequence[int], mesh: Any, stores: list[dict[int, Any]]) -> None:
        limit = self.limits[self.number[id(task)]]
        key = task.graph.structural_hash, limit
        if key not in self.executors:
            with _telling_limit(limit):
                self.executors[key] = executor(task.graph, None, limit)
        specs = [n.spec for n in task.graph.inputs]
        rows = [[given(stores[r], v, s) for v, s in zip(task.inputs, specs, strict=True)] for r in ranks]
        jobs = [partial(self._run, self.executors[key], rank, row) for rank, row in zip(ranks, rows, strict=True)]
        for rank, found in zip(ranks, Simulation(mesh).run_each(jobs), strict=True):
            stores[rank].update(zip(task.outputs, found, strict=True))

    def _run(self, task: Executor, rank: int, row: Sequence[Any]) -> list[Any]:
        with self.program.telling(rank):
            return task.run(fed(row))


def limits(program: Pipelined, place: int, limit: Limit) -> dict[int, Limit]:
    """Return the limits of a place's tasks, by number: what is left beside the values that the place keeps then.

    Equal tasks have the least of theirs, so that they are compiled once. Raises BudgetError where nothing is left.
    """
    found: dict[str, list[int]] = {}
    kept = program.kept_before(place)
    tasks = program.tasks.tasks
    for number in kept:
        found.setdefault(tasks[number].graph.structural_hash, []).append(number)
    made: dict[int, Limit] = {}
    for equal in found.values():
        most = max(kept[n] for n in equal)
        if limit.nbytes is not None and most >= limit.nbytes:
            raise error(
                BudgetError,
                f"a pipeline on {program.mesh} within {limit.nbytes:,} bytes: place {place} keeps {most:,} bytes of "
                "values between its tasks",
                'Allow more, or keep less: more microbatches with schedule="1f1b", or wg.checkpoint in its layers.',
            )
        left = None if limit.nbytes is None else limit.nbytes - most
        made.update({n: limit._replace(nbytes=left) for n in equal})
    return made


@contextmanager
def _telling_limit(limit: Limit | None) -> Iterator[None]:
    """Return a block whose errors of a budget say that it is what is left for a task."""
    try:
        yield
    except BudgetError as e:
        assert limit is not None
        e.add_note(
            f"a task of the pipeline has {limit.nbytes:,} bytes, beside those that its place keeps between tasks"
        )
        raise


def least(found: Iterable[Limit]) -> Limit:
    """Return the limit of the fewest bytes."""
    return min(found, key=lambda limit: math.inf if limit.nbytes is None else limit.nbytes)


def _there(values: Sequence[Any]) -> dict[int, Any]:
    """Return the inputs that a rank has, by number."""
    return {i: x for i, x in enumerate(values) if x is not None}


def _left(program: Pipelined, rank: int, store: Mapping[int, Any]) -> list[Any]:
    """Return the outputs of a rank; None for those that other places have."""
    rows = zip(program.tasks.outputs, program.outputs_at, strict=True)
    return [store[v] if is_at(at, program.mesh, rank) else None for v, at in rows]


def given(store: dict[int, Any], value: int, spec: Spec) -> Any:
    """Return a value; anything of its shape where another place has it, and sends it in the task itself."""
    found = store.get(value)
    return np.zeros(spec.shape, spec.dtype) if found is None else found


def fed(values: Sequence[Any]) -> list[Any]:
    """Return a program's inputs as executors take them."""
    return [x if x.flags.c_contiguous else np.array(x, order="C") for x in values]


class OneStage:
    """One rank of a pipeline, whose tasks are native code; the others run elsewhere."""

    def __init__(self, program: Pipelined, group: OnMesh, limit: Limit | None = None) -> None:
        self.program, self.group, self.limit = program, group.on(program.mesh), limit
        rank = group.transport.rank
        self.ranks: Sequence[int] = (rank,)
        here = program.mesh.coordinates(rank)
        self.place = here[program.over]
        self.others = [program.mesh.rank({**here, program.over: p}) for p in range(program.places)]
        self.agreement = Agreement(self.group, program)
        self.links: Links | None = None
        self.executors: dict[int, Any] = {}  # by task: `run` gives its outputs for its inputs
        self.is_whole = [is_whole(placement) for placement in program.outputs]

    def check(self, names: Sequence[str], arrays: Sequence[Any]) -> None:
        """Raise GraphError where another rank is about to run something else, or was given other whole values."""
        self.agreement.seek(names, arrays)

    def _compile(self) -> None:
        """Compile what this place runs: equal graphs once."""
        known: dict[str, Executor] = {}
        made: dict[int, Any] = {}
        # What moves while other steps run needs memory that no budget knows of.
        exchanges = self.group.transport.exchanges(self.program.mesh) if self.limit is None else None
        within = {} if self.limit is None else limits(self.program, self.place, self.limit)
        for act in self.program.lists[self.place]:
            if act.what == "run":
                graph = self.program.tasks.tasks[act.value].graph
                key = graph.structural_hash
                if key not in known:
                    with _telling_limit(within.get(act.value)):
                        known[key] = executor(graph, None, within.get(act.value), exchanges=exchanges)
                made[act.value] = known[key]
        self.executors = made  # all of them, or none where one cannot be compiled

    def run(self, feeds: Sequence[Sequence[Any]]) -> list[list[Any]]:
        """Return this rank's outputs."""
        there = _there(feeds[0])
        store: dict[int, Any] = dict(zip(there, self._fed([*there.values()]), strict=True))
        with entered(self.group), self.group.transport.trusting(), self.program.telling(self.ranks[0]):
            if self.links is None:  # once all ranks have agreed on the program
                self.links = self._linked()
            try:
                if not self.executors:
                    self._compile()
                for act in self.program.lists[self.place]:
                    self._act(act, store, self.links)
                self.links.finish()
            except BaseException:
                self.group.transport.leave()
                raise
        return [self._left(_left(self.program, self.ranks[0], store))]

    def _act(self, act: Act, store: dict[int, Any], links: Links) -> None:
        """Do one thing of this place's list."""
        tasks = self.program.tasks
        if act.what == "run":
            task = tasks.tasks[act.value]
            arrays = self._fed([given(store, v, tasks.specs[v]) for v in task.inputs])
            store.update(zip(task.outputs, self.executors[act.value].run(arrays), strict=True))
        elif act.what == "receive":
            store[act.value] = links.receive(tasks.specs[act.value], self.others[act.other])
        elif act.what == "send":
            links.send(store[act.value], self.others[act.other])
        else:
            links.hand(store[act.value], self.others[act.other])
        for v in act.done:
            store.pop(v, None)

    def _linked(self) -> Links:
        return links(self.group.transport)

    def _fed(self, values: Sequence[Any]) -> list[Any]:
        """Return the program's inputs as executors take them."""
        return fed(values)

    def _left(self, found: list[Any]) -> list[Any]:
        """Return the outputs; those that are whole are no news to the other ranks."""
        self.agreement.left([x for x, is_whole in zip(found, self.is_whole, strict=True) if is_whole])
        return found
