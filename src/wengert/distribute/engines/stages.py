"""The engines of pipelines: all ranks in this process, or the one that runs here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...core.spec import Spec
from ...execute.jit.executor import Executor, executor
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

    def __init__(self, program: Pipelined, group: OnMesh) -> None:
        self.program, self.group = program, group.on(program.mesh)
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
        exchanges = self.group.transport.exchanges(self.program.mesh)
        for act in self.program.lists[self.place]:
            if act.what == "run":
                graph = self.program.tasks.tasks[act.value].graph
                key = graph.structural_hash
                if key not in known:
                    known[key] = executor(graph, exchanges=exchanges)
                self.executors[act.value] = known[key]

    def run(self, feeds: Sequence[Sequence[Any]]) -> list[list[Any]]:
        """Return this rank's outputs."""
        there = _there(feeds[0])
        store: dict[int, Any] = dict(zip(there, self._fed([*there.values()]), strict=True))
        with entered(self.group), self.group.transport.trusting(), self.program.telling(self.ranks[0]):
            if self.links is None:  # once all ranks have agreed on the program
                self.links = self._linked()
            if not self.executors:
                self._compile()
            try:
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
