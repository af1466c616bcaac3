"""XLA as the engine of pipelines: a task is a program of the devices of its place, values move from device to device.

What a rank has of a value is a *row*: an array of JAX's on its device, with a first axis of one, or without one where
all ranks have the same; or an ndarray, of what no task has made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...core.graph.evaluate import run as interpret
from ...core.spec import Spec
from ...execute.xla.memory import copied, held_by, shown
from ...execute.xla.ranks import OWN, SAME, Devices, Exchange, OnRanks, Spread
from ..mesh import Mesh, OnMesh
from ..pipeline.program import Pipelined
from ..pipeline.tasks import Task
from ..placing.partition import Partitioned
from ..placing.placement import is_whole, local_part
from ..placing.sharded import is_at
from .lockstep import run_lockstep
from .stages import LockstepStages, OneStage, given
from .xla import Parts, devices_of, spread_of


class Rows(Mapping[int, Any]):
    """A value's rows, by rank, of those ranks that have it: ndarrays are made for whoever asks for one."""

    __slots__ = ("rows", "_parts")

    def __init__(self, rows: Mapping[int, Any]) -> None:
        self.rows = rows
        self._parts: dict[int, np.ndarray[Any, Any]] = {}

    def __getitem__(self, rank: int) -> Any:
        if rank not in self._parts:
            self._parts[rank] = np.asarray(self.rows[rank])[0]
        return self._parts[rank]

    def __iter__(self) -> Iterator[int]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


class Tasks:
    """The tasks of a pipeline as programs of XLA's: equal graphs of a place are compiled once."""

    def __init__(self, program: Pipelined) -> None:
        self.program = program
        self.devices, self.group = devices_of(program.mesh)
        self.made: dict[tuple[Any, ...], OnRanks] = {}
        self.places: dict[tuple[int, ...], Devices] = {}
        self.is_whole = [is_whole(placement) for placement in program.outputs]
        # The values that are the same on all ranks, and are one array on all their devices.
        places = zip(program.inputs, program.inputs_at, strict=True)
        self.same = {i for i, (placement, at) in enumerate(places) if is_whole(placement) and at is None}
        for v, everywhere in zip(program.tasks.outputs, self.is_whole, strict=True):
            maker = program.tasks.makers.get(v)
            if everywhere and maker is not None and (program.places == 1 or program.tasks.tasks[maker].place is None):
                self.same.add(v)

    def spread(self, value: int) -> Spread:
        """Return how a value, given by its number, is spread over the ranks."""
        return SAME if value in self.same else OWN

    # -- tasks

    def run(self, task: Task, ranks: Sequence[int], mesh: Mesh, rows: Mapping[int, Sequence[Any]]) -> dict[int, Any]:
        """Return each rank's rows of a task's outputs, for those of its inputs: of the task's ranks that are here."""
        made = self._made(task, tuple(ranks), mesh)
        on, at = made.devices, {rank: i for i, rank in enumerate(ranks)}
        feeds = [
            on.joined({at[rank]: row[i] for rank, row in rows.items()}, spread, node.spec.shape)
            for i, (spread, node) in enumerate(zip(made.inputs, task.graph.inputs, strict=True))
        ]
        found = [on.rows(x) for x in made.run(feeds)]
        return {rank: [x[at[rank]] for x in found] for rank in rows}

    def _made(self, task: Task, ranks: tuple[int, ...], mesh: Mesh) -> OnRanks:
        inputs, outputs = (tuple(map(self.spread, numbers)) for numbers in (task.inputs, task.outputs))
        key = task.graph.structural_hash, ranks, inputs, outputs
        if key not in self.made:
            on = self.places.get(ranks)
            if on is None:
                on = self.places[ranks] = Devices(mesh.axes, [self.devices.all[rank] for rank in ranks])

            def decide(values: list[Any]) -> list[Any]:
                rows = [on.parts(x, spread) for x, spread in zip(values, inputs, strict=True)]
                found = self.interpreted(task, mesh, {rank: [row[rank] for row in rows] for rank in on.here})
                return [
                    on.joined({rank: np.asarray(row[k]) for rank, row in found.items()}, spread, node.spec.shape)
                    for k, (node, spread) in enumerate(zip(task.graph.outputs, outputs, strict=True))
                ]

            self.made[key] = OnRanks(task.graph, on, inputs, outputs, decide, shows=False)
        return self.made[key]

    def interpreted(self, task: Task, mesh: Mesh, rows: Mapping[int, list[Any]]) -> dict[int, list[Any]]:
        """Return the outputs as the task's ranks compute them node by node: the error of an op, or its results."""
        if self.group is not None:
            return {rank: interpret(task.graph, row) for rank, row in rows.items()}
        whole = (None,) * len(mesh.names)
        program = Partitioned(
            task.graph, mesh, (whole,) * len(task.graph.inputs), (whole,) * len(task.graph.outputs), {}
        )
        return dict(enumerate(run_lockstep(program, [rows[rank] for rank in range(mesh.size)])))

    # -- what goes in and comes out

    def rows_of(self, values: Sequence[Any]) -> dict[int, list[Any]]:
        """Return the rows of the program's inputs that the ranks here have; None for what other places have."""
        found: dict[int, list[Any]] = {rank: [] for rank in self.devices.here}
        whole, mesh = self.devices.sharding(SAME), self.program.mesh
        for x, placement, at in zip(values, self.program.inputs, self.program.inputs_at, strict=True):
            if isinstance(x, Mapping):
                rows: Mapping[int, Any] = x.rows if isinstance(x, Rows) else x
            elif (
                at is None
                and (holder := held_by(x)) is not None
                and holder.where is whole
                and not any(e is not None for e in placement)
            ):
                rows = self.devices.rows(holder.array)
            else:
                rows = {rank: local_part(x, placement, mesh, rank) for rank in found}
            for rank in found:
                found[rank].append(rows[rank] if is_at(at, mesh, rank) else None)
        return found

    def results(self, rows: Mapping[int, Sequence[Any]]) -> list[Any]:
        """Return the outputs for all rows of them: ndarrays of what is whole, parts by rank of what is split, or what
        one place has."""
        devices, program = self.devices, self.program
        found: list[Any] = []
        seen = set(range(len(program.inputs)))
        for k, (v, placement, everywhere, at) in enumerate(
            zip(program.tasks.outputs, program.outputs, self.is_whole, program.outputs_at, strict=True)
        ):
            of_rank = {rank: row[k] for rank, row in rows.items()}
            if at is not None:
                there = {rank: x for rank, x in of_rank.items() if x is not None}
                found.append(Rows({rank: devices.row(x, rank, OWN) for rank, x in there.items()}))
                continue
            spec = program.tasks.specs[v]
            first = of_rank[devices.here[0]]
            if isinstance(first, np.ndarray):
                found.append(np.array(first) if everywhere else {rank: np.array(x) for rank, x in of_rank.items()})
            elif everywhere and v in self.same:
                array = devices.joined(of_rank, SAME, spec.shape)
                if v in seen:  # what is one value here are two results, which a program may update each
                    array = copied(array)
                seen.add(v)
                found.append(shown(array, devices.sharding(SAME), devices.is_shared, True))
            else:
                of_rank = {rank: np.asarray(x)[0] for rank, x in of_rank.items()}
                spread = spread_of(placement, program.mesh)
                found.append(
                    of_rank[devices.here[0]]
                    if everywhere
                    else Parts(devices.joined(of_rank, spread, spec.shape), devices, spread)
                )
        return found


class StagesOnDevices(LockstepStages):
    """All ranks of a pipeline on devices of this process: task by task, in the order that is one for all."""

    def __init__(self, program: Pipelined) -> None:
        super().__init__(program)
        self.tasks = Tasks(program)

    def run_placed(self, values: Sequence[Any]) -> list[Any]:
        """Return the outputs for the inputs' values: ndarrays of what is whole, parts by rank of what is split."""
        rows = self.tasks.rows_of(values)
        found = self.run([rows[rank] for rank in self.ranks])
        return self.tasks.results(dict(zip(self.ranks, found, strict=True)))

    def _moved(self, x: Any, rank: int) -> Any:
        return self.tasks.devices.row(x, rank, OWN)

    def _do(self, task: Task, ranks: Sequence[int], mesh: Any, stores: list[dict[int, Any]]) -> None:
        specs = [n.spec for n in task.graph.inputs]
        rows = {r: [given(stores[r], v, s) for v, s in zip(task.inputs, specs, strict=True)] for r in ranks}
        for rank, found in self.tasks.run(task, ranks, mesh, rows).items():
            stores[rank].update(zip(task.outputs, found, strict=True))


class StageOnDevice(OneStage):
    """One rank of a pipeline, on a device; the others run elsewhere."""

    def __init__(self, program: Pipelined, group: OnMesh) -> None:
        super().__init__(program, group)
        self.tasks = Tasks(program)

    def run_placed(self, values: Sequence[Any]) -> list[Any]:
        """Return the outputs for the inputs' values: ndarrays of what is whole, parts by rank of what is split."""
        (rank,) = self.ranks
        found = self.tasks.results({rank: self.run([self.tasks.rows_of(values)[rank]])[0]})
        self.agreement.left([x for x, is_whole in zip(found, self.is_whole, strict=True) if is_whole])
        return found

    def _compile(self) -> None:
        ranks = self.program.ranks_of(self.place)
        for act in self.program.lists[self.place]:
            if act.what == "run":
                task = self.program.tasks.tasks[act.value]
                of_all = task.place is None
                mesh = self.program.mesh if of_all else self.program.beside
                here = range(mesh.size) if of_all else ranks
                self.executors[act.value] = _Here(self.tasks, task, here, mesh, self.ranks[0])

    def _linked(self) -> _Links:
        return _Links(self.tasks.devices, self.ranks[0])

    def _fed(self, values: Sequence[Any]) -> list[Any]:
        return list(values)

    def _left(self, found: list[Any]) -> list[Any]:
        return found


class _Here:
    """A task as the executor of one of its ranks."""

    def __init__(self, tasks: Tasks, task: Task, ranks: Sequence[int], mesh: Mesh, rank: int) -> None:
        self.tasks, self.task, self.on, self.rank = tasks, task, (ranks, mesh), rank

    def run(self, arrays: Sequence[Any]) -> list[Any]:
        """Return this rank's rows of the outputs."""
        found: list[Any] = self.tasks.run(self.task, *self.on, {self.rank: arrays})[self.rank]
        return found


class _Links:
    """Messages as programs of two devices: one hands a row over when the other one receives it."""

    def __init__(self, devices: Devices, rank: int) -> None:
        self.devices, self.rank = devices, rank
        self.known: dict[tuple[int, int], Exchange] = {}

    def _between(self, source: int, target: int) -> Exchange:
        found = self.known.get((source, target))
        if found is None:
            ends = [self.devices.all[source], self.devices.all[target]]
            found = self.known[source, target] = Exchange(ends, int(self.rank == target))
        return found

    def send(self, x: Any, rank: int) -> None:
        """Do nothing: the row is handed over later."""

    def hand(self, x: Any, rank: int) -> None:
        """Meet the rank that receives."""
        self._between(self.rank, rank).send(x)

    def receive(self, spec: Spec, rank: int) -> Any:
        """Return the next row that a rank sends here."""
        return self._between(rank, self.rank).receive(spec)

    def finish(self) -> None:
        """Do nothing: nothing is on its way."""
