"""XLA as the engine of pipelines: a task is a program of the devices of its place, values move from device to device.

What a rank has of a value is a *row*: an array of JAX's on its device, with a first axis of one, or without one where
all ranks have the same; or an ndarray, of what no task has made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...execute.xla.memory import held_by, shown
from ...execute.xla.ranks import OWN, SAME, Devices, OnRanks, Spread
from ..mesh import Mesh
from ..pipeline.program import Pipelined
from ..pipeline.tasks import Task
from ..placing.partition import Partitioned
from ..placing.placement import local_part
from .lockstep import run_lockstep
from .stages import LockstepStages, given
from .xla import Parts, devices_of, spread_of


class Tasks:
    """The tasks of a pipeline as programs of XLA's: equal graphs of a place are compiled once."""

    def __init__(self, program: Pipelined, devices: Devices) -> None:
        self.program, self.devices = program, devices
        self.made: dict[tuple[Any, ...], OnRanks] = {}
        self.places: dict[tuple[int, ...], Devices] = {}
        self.is_whole = [all(e is None for e in placement) for placement in program.outputs]
        # The values that are the same on all ranks, and are one array on all their devices.
        self.same = {i for i, placement in enumerate(program.inputs) if all(e is None for e in placement)}
        for v, is_whole in zip(program.tasks.outputs, self.is_whole, strict=True):
            maker = program.tasks.makers.get(v)
            if is_whole and maker is not None and (program.places == 1 or program.tasks.tasks[maker].place is None):
                self.same.add(v)

    def spread(self, value: int) -> Spread:
        """Return what the ranks have of a value, by its number."""
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
        whole = (None,) * len(mesh.names)
        program = Partitioned(
            task.graph, mesh, (whole,) * len(task.graph.inputs), (whole,) * len(task.graph.outputs), {}
        )
        return dict(enumerate(run_lockstep(program, [rows[rank] for rank in range(mesh.size)])))

    # -- what goes in and comes out

    def rows_of(self, values: Sequence[Any]) -> dict[int, list[Any]]:
        """Return the rows of the program's inputs that the ranks here have."""
        found: dict[int, list[Any]] = {rank: [] for rank in self.devices.here}
        whole = self.devices.sharding(SAME)
        for x, placement in zip(values, self.program.inputs, strict=True):
            if isinstance(x, Mapping):
                rows: Mapping[int, Any] = x
            elif (
                (holder := held_by(x)) is not None
                and holder.where is whole
                and not any(e is not None for e in placement)
            ):
                rows = self.devices.rows(holder.array)
            else:
                rows = {rank: local_part(x, placement, self.program.mesh, rank) for rank in found}
            for rank in found:
                found[rank].append(rows[rank])
        return found

    def results(self, rows: Mapping[int, Sequence[Any]]) -> list[Any]:
        """Return the outputs for all rows of them: ndarrays of what is whole, parts by rank of what is split."""
        devices = self.devices
        found: list[Any] = []
        for k, (v, placement, is_whole) in enumerate(
            zip(self.program.tasks.outputs, self.program.outputs, self.is_whole, strict=True)
        ):
            of_rank = {rank: row[k] for rank, row in rows.items()}
            spec = self.program.tasks.specs[v]
            first = of_rank[devices.here[0]]
            if isinstance(first, np.ndarray):
                found.append(np.array(first) if is_whole else {rank: np.array(x) for rank, x in of_rank.items()})
            elif is_whole and v in self.same:
                array = devices.joined(of_rank, SAME, spec.shape)
                found.append(shown(array, devices.sharding(SAME), devices.is_shared, True))
            else:
                of_rank = {rank: np.asarray(x)[0] for rank, x in of_rank.items()}
                spread = spread_of(placement, self.program.mesh)
                found.append(
                    of_rank[devices.here[0]]
                    if is_whole
                    else Parts(devices.joined(of_rank, spread, spec.shape), devices, spread)
                )
        return found


class StagesOnDevices(LockstepStages):
    """All ranks of a pipeline on devices of this process: task by task, in the order that is one for all."""

    def __init__(self, program: Pipelined) -> None:
        super().__init__(program)
        self.devices, _ = devices_of(program.mesh)
        self.tasks = Tasks(program, self.devices)

    def run_placed(self, values: Sequence[Any]) -> list[Any]:
        """Return the outputs for the inputs' values: ndarrays of what is whole, parts by rank of what is split."""
        rows = self.tasks.rows_of(values)
        found = self.run([rows[rank] for rank in self.ranks])
        return self.tasks.results(dict(zip(self.ranks, found, strict=True)))

    def _moved(self, x: Any, rank: int) -> Any:
        return self.devices.row(x, rank, SAME)

    def _do(self, task: Task, ranks: Sequence[int], mesh: Any, stores: list[dict[int, Any]]) -> None:
        specs = [n.spec for n in task.graph.inputs]
        rows = {r: [given(stores[r], v, s) for v, s in zip(task.inputs, specs, strict=True)] for r in ranks}
        for rank, found in self.tasks.run(task, ranks, mesh, rows).items():
            stores[rank].update(zip(task.outputs, found, strict=True))
