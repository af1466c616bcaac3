"""The choice of an engine for a partitioned program: for the rank that this is, or for all of them in this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from ...execute.jit.executor import Executor, executor
from ...execute.native.budget.within import Limit
from ...ops.collective.group import current, entered
from ..mesh import OnMesh
from ..pipeline.program import Pipelined
from ..placing.partition import Partitioned
from .agreement import Agreement
from .lockstep import run_lockstep
from .stages import LockstepStages, OneStage


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


class OneRank:
    """One rank, whose steps are native code; the others run the same program elsewhere."""

    def __init__(self, program: Partitioned, group: OnMesh, limit: Limit | None = None) -> None:
        self.program = program
        self.limit = limit
        self.group = group.on(program.mesh)
        self.ranks: Sequence[int] = (group.transport.rank,)
        self.agreement = Agreement(self.group, program)
        self.executor: Executor | None = None
        self.is_whole = [all(e is None for e in placement) for placement in program.outputs]

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
            found = self.executor.run([np.ascontiguousarray(x).reshape(np.shape(x)) for x in feeds[0]])
        self.agreement.left([x for x, is_whole in zip(found, self.is_whole, strict=True) if is_whole])
        return [found]


def engine_for(program: Partitioned | Pipelined, limit: Limit | None = None) -> Engine:
    """Return the engine of a program: of the rank that runs here, else of all ranks in this process.

    A rank keeps to a limit of memory; of all ranks in one process there is none to keep to.
    """
    group = current()
    if isinstance(program, Pipelined):
        return OneStage(program, group) if isinstance(group, OnMesh) else LockstepStages(program)
    return OneRank(program, group, limit) if isinstance(group, OnMesh) else Lockstep(program)
