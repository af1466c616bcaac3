"""The choice of an engine for a partitioned program: for the rank that this is, or for all of them in this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, Protocol

import numpy as np

from ...core.spec import Spec
from ...core.tensor import Tensor
from ...execute.jit.executor import Executor, executor
from ...execute.native.budget.within import Limit
from ...ops.collective.group import current, entered
from ...ops.index.memory import Occupied
from ..mesh import Mesh, OnMesh, Transport
from ..pipeline.program import Pipelined
from ..placing.partition import Partitioned
from ..placing.placement import At, Placement, is_whole
from ..placing.sharded import Sharded, fits, of_tensor, parts_of
from .agreement import Agreement
from .lockstep import run_lockstep
from .simulation import Simulation
from .stages import LockstepStages, OneStage, StagesInTurns, fed
from .xla import OnDevices
from .xla_stages import StageOnDevice, StagesOnDevices

OnXLA = OnDevices | StagesOnDevices | StageOnDevice


class Engine(Protocol):
    """An engine that runs a partitioned program: `ranks` are those whose parts are in this process."""

    ranks: Sequence[int]

    def run(self, feeds: Sequence[Sequence[Any]]) -> list[list[Any]]:
        """Return the outputs of each of the ranks for the inputs of each."""
        ...

    def check(self, names: Sequence[str], arrays: Sequence[Any]) -> None:
        """Raise GraphError where another rank is about to run something else, or was given other whole values."""
        ...


class Lockstep:
    """All ranks in this process."""

    def __init__(self, program: Partitioned) -> None:
        self.program = program
        self.ranks: Sequence[int] = range(program.mesh.size)

    def check(self, names: Sequence[str], arrays: Sequence[Any]) -> None:
        """Do nothing: all ranks were given these."""

    def run(self, feeds: Sequence[Sequence[Any]]) -> list[list[Any]]:
        """Return every rank's outputs."""
        return run_lockstep(self.program, feeds)


class InTurns:
    """All ranks in this process, each of which runs native code within a limit of memory; they take turns."""

    def __init__(self, program: Partitioned, limit: Limit) -> None:
        self.program = program
        self.ranks: Sequence[int] = range(program.mesh.size)
        self.executor = executor(program.graph, None, limit)

    def check(self, names: Sequence[str], arrays: Sequence[Any]) -> None:
        """Do nothing: all ranks were given these."""

    def run(self, feeds: Sequence[Sequence[Any]]) -> list[list[Any]]:
        """Return every rank's outputs."""
        return Simulation(self.program.mesh).run_each([partial(self._run, r, feeds[r]) for r in self.ranks])

    def _run(self, rank: int, feed: Sequence[Any]) -> list[Any]:
        with self.program.telling(rank):
            return self.executor.run(fed(feed))


class OneRank:
    """One rank, whose steps are native code; the others run the same program elsewhere."""

    def __init__(self, program: Partitioned, group: OnMesh, limit: Limit | None = None) -> None:
        self.program = program
        self.limit = limit
        self.group = group.on(program.mesh)
        self.ranks: Sequence[int] = (group.transport.rank,)
        self.agreement = Agreement(self.group, program)
        self.executor: Executor | None = None
        self.is_whole = [is_whole(placement) for placement in program.outputs]

    def check(self, names: Sequence[str], arrays: Sequence[Any]) -> None:
        """Raise GraphError where another rank is about to run something else, or was given other whole values."""
        self.agreement.seek(names, arrays)

    def run(self, feeds: Sequence[Sequence[Any]]) -> list[list[Any]]:
        """Return this rank's outputs."""
        with entered(self.group), self.group.transport.trusting(), self.program.telling(self.ranks[0]):
            if self.executor is None:  # once all ranks have agreed on the program
                # What moves while other steps run needs memory that no budget knows of.
                exchanges = self.group.transport.exchanges(self.program.mesh) if self.limit is None else None
                self.executor = executor(self.program.graph, None, self.limit, exchanges=exchanges)
            found = self.executor.run(fed(feeds[0]))
        self.agreement.left([x for x, is_whole in zip(found, self.is_whole, strict=True) if is_whole])
        return [found]


def engine_for(
    program: Partitioned | Pipelined,
    limit: Limit | None = None,
    on_xla: bool = False,
    donated: Sequence[bool] | None = None,
    replaced: Mapping[int, int] | None = None,
) -> Engine | OnXLA:
    """Return the engine of a program: of the rank that runs here, else of all ranks in this process.

    Ranks keep to a limit of memory, by native code. On XLA results may take the memory of `donated` inputs; `replaced`
    says which output takes an input's place.
    """
    group = current()
    if on_xla:
        if isinstance(program, Pipelined):
            return StageOnDevice(program, group) if isinstance(group, OnMesh) else StagesOnDevices(program)
        return OnDevices(program, donated, replaced)
    if isinstance(program, Pipelined):
        if isinstance(group, OnMesh):
            return OneStage(program, group, limit)
        return LockstepStages(program) if limit is None else StagesInTurns(program, limit)
    if isinstance(group, OnMesh):
        return OneRank(program, group, limit)
    return Lockstep(program) if limit is None else InTurns(program, limit)


class Engines:
    """The engines of one program: of every rank that runs it its own, and one for all ranks of this process.

    Simulated ranks may share what was compiled once. The engine of a rank that comes in another job is made anew.
    """

    def __init__(self, make: Callable[[], Engine | OnXLA]) -> None:
        self._make = make
        self._made: dict[int | None, tuple[Transport | None, Engine | OnXLA]] = {}

    def here(self) -> Engine | OnXLA:
        """Return the engine for who runs here."""
        group = current()
        transport = group.transport if isinstance(group, OnMesh) else None
        rank = None if transport is None else transport.rank
        found = self._made.get(rank)
        if found is None or found[0] is not transport:
            found = self._made[rank] = transport, self._make()
        return found[1]


def one_thread() -> AbstractContextManager[Any]:
    """Return a block for one thread of a rank at a time: it agrees with other ranks on a program, and runs it."""
    group = current()
    return group.transport.one_thread() if isinstance(group, OnMesh) else nullcontext()


def run_placed(
    engine: Engine | OnXLA,
    program: Partitioned | Pipelined,
    values: Sequence[Any],
    names: Sequence[str],
    wholes: Sequence[Spec],
    kept: Mapping[int, str] | None = None,
    state: frozenset[int] = frozenset(),
) -> list[Any]:
    """Return a program's outputs for its inputs: whole values are arrays, values in parts are `Sharded`.

    `names` are those of the inputs, `kept` those of outputs, as errors call them; `wholes` are the specs of the
    outputs' whole values, `state` the numbers of inputs that other steps may have left in other parts: they are joined.
    Raises ShapeError for other parts by another placement.
    """
    mesh = program.mesh
    if isinstance(program, Pipelined):
        inputs_at, outputs_at = program.inputs_at, program.outputs_at
    else:
        inputs_at, outputs_at = [None] * len(values), [None] * len(wholes)
    values = [
        _brought(x, p, mesh, at, i in state)
        for i, (x, p, at) in enumerate(zip(values, program.inputs, inputs_at, strict=True))
    ]
    if isinstance(engine, OnXLA):
        given = [
            _on_devices(x, p, mesh, engine.ranks, name, at)
            for x, p, name, at in zip(values, program.inputs, names, inputs_at, strict=True)
        ]
        found = engine.run_placed(given)
    else:
        columns = [
            parts_of(x, p, mesh, engine.ranks, name, at)
            for x, p, name, at in zip(values, program.inputs, names, inputs_at, strict=True)
        ]
        rows = engine.run([[column[k] for column in columns] for k in range(len(engine.ranks))])
        if isinstance(engine, (Lockstep, LockstepStages)):  # others run executors, which give new arrays
            seen = Occupied()
            for column in columns:
                for part in column:
                    if part is not None:
                        seen.add(np.asarray(part))
            rows = [[None if v is None else _apart(np.asarray(v), seen) for v in row] for row in rows]
        found = [
            np.asarray(rows[0][i])
            if at is None and is_whole(placement)
            else {rank: np.asarray(row[i]) for rank, row in zip(engine.ranks, rows, strict=True) if row[i] is not None}
            for i, (placement, at) in enumerate(zip(program.outputs, outputs_at, strict=True))
        ]
    return [
        Sharded(wholes[i], placement, mesh, x, (kept or {}).get(i, ""), at) if isinstance(x, Mapping) else x
        for i, (x, placement, at) in enumerate(zip(found, program.outputs, outputs_at, strict=True))
    ]


def _brought(x: Any, placement: Placement, mesh: Mesh, at: At | None, is_state: bool) -> Any:
    """Return a value of a step; a whole one where a pipeline has left it at a stage, or another step in other parts."""
    x = of_tensor(x)
    if not isinstance(x, Sharded) or (x.at == at and x.placement == placement and x.mesh == mesh):
        return x
    is_apart = x.at not in (None, at) or (is_state and not fits(x, placement, mesh))
    return x.whole() if is_apart else x


def _on_devices(x: Any, placement: Placement, mesh: Mesh, ranks: Sequence[int], name: str, at: At | None) -> Any:
    """Return a value as XLA's engines take it: an array of the whole, or the ranks' parts."""
    x = of_tensor(x)
    if not isinstance(x, Sharded):
        return x._array if isinstance(x, Tensor) else x
    if x.placement == placement and x.mesh == mesh and x.at == at:
        return x.parts
    return dict(zip(ranks, parts_of(x, placement, mesh, ranks, name, at), strict=True))


def _apart(v: Any, seen: Occupied) -> Any:
    """Return an array that shares no memory with those that were seen; it is seen then."""
    if seen.add(v):
        v = v.copy()
        seen.add(v)
    return v
