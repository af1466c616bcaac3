"""The choice of an engine for a partitioned program: for the rank that this is, or for all of them in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, Protocol

import numpy as np

from ...core.errors import DTypeError, ShapeError, fail
from ...core.spec import Spec
from ...core.tensor import Tensor, wrap
from ...execute.jit.executor import Executor, executor
from ...ops.collective.definitions import all_gather
from ...ops.collective.group import current, entered
from ..mesh import Mesh, OnMesh
from ..pipeline.program import Pipelined
from ..placing.partition import Partitioned
from ..placing.placement import Placement, local_part, spec_of_placement
from .agreement import Agreement
from .lockstep import run_lockstep
from .stages import LockstepStages, OneStage
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


class OneRank:
    """One rank, whose steps are native code; the others run the same program elsewhere."""

    def __init__(self, program: Partitioned, group: OnMesh) -> None:
        self.program = program
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
                self.executor = executor(self.program.graph)
            found = self.executor.run([np.ascontiguousarray(x).reshape(np.shape(x)) for x in feeds[0]])
        self.agreement.left([x for x, is_whole in zip(found, self.is_whole, strict=True) if is_whole])
        return [found]


def engine_for(
    program: Partitioned | Pipelined,
    on_xla: bool = False,
    donated: Sequence[bool] | None = None,
    replaced: Mapping[int, int] | None = None,
) -> Engine | OnXLA:
    """Return the engine of a program: of the rank that runs here, else of all ranks in this process.

    On XLA results may take the memory of `donated` inputs; `replaced` says which output takes an input's place.
    """
    group = current()
    if on_xla:
        if isinstance(program, Pipelined):
            return StageOnDevice(program, group) if isinstance(group, OnMesh) else StagesOnDevices(program)
        return OnDevices(program, donated, replaced)
    if isinstance(program, Pipelined):
        return OneStage(program, group) if isinstance(group, OnMesh) else LockstepStages(program)
    return OneRank(program, group) if isinstance(group, OnMesh) else Lockstep(program)


def run_placed(
    engine: Engine | OnXLA, program: Partitioned | Pipelined, values: Sequence[Any], wholes: Sequence[Spec]
) -> list[Any]:
    """Return a program's outputs for its inputs: whole values are ndarrays, values in parts are `Sharded`.

    `wholes` are the specs of the outputs' whole values. Raises ShapeError for parts by another placement.
    """
    mesh = program.mesh
    given = []
    for x, node, placement in zip(values, program.graph.inputs, program.inputs, strict=True):
        if isinstance(x, Sharded):
            _refuse_other(x, placement, mesh, program.graph.names[node])
            x = x.parts
        given.append(x)
    found: list[Any]
    if isinstance(engine, OnXLA):
        found = engine.run_placed(given)
    else:
        rows = engine.run([[_part(x, p, mesh, r) for x, p in zip(given, program.inputs)] for r in engine.ranks])
        found = [
            np.asarray(rows[0][i])
            if all(e is None for e in placement)
            else {rank: np.asarray(row[i]) for rank, row in zip(engine.ranks, rows, strict=True)}
            for i, placement in enumerate(program.outputs)
        ]
    return [
        Sharded(spec, placement, mesh, x) if isinstance(x, Mapping) else x
        for x, spec, placement in zip(found, wholes, program.outputs, strict=True)
    ]


def _part(x: Any, placement: Placement, mesh: Mesh, rank: int) -> Any:
    return x[rank] if isinstance(x, Mapping) else local_part(np.asarray(x), placement, mesh, rank)


class Sharded:
    """A value in parts: those of the ranks that run in this process.

    `spec` is the whole's shape and dtype, `placement` says which dimension each mesh axis splits. Partitioned programs
    take it, and give it where their `out_specs` say so; it is never whole in one place, unless `whole()` is asked for.

    >>> import wengert as wg
    >>> mesh = wg.distribute.Mesh(data=2)
    >>> x = wg.distribute.place(wg.arange(4.0), mesh, "data")
    >>> x, [part.tolist() for part in x.parts.values()]
    (Sharded(f32[4], PartitionSpec('data')), [[0.0, 1.0], [2.0, 3.0]])
    >>> x.whole()
    tensor([0., 1., 2., 3.])
    """

    __slots__ = ("spec", "placement", "mesh", "parts")

    def __init__(self, spec: Any, placement: Placement, mesh: Mesh, parts: Mapping[int, Any]) -> None:
        self.spec = spec
        self.placement = placement
        self.mesh = mesh
        self.parts = parts

    @property
    def local(self) -> Tensor:
        """The part of the rank that runs here; of the first one, where all do."""
        return wrap(next(iter(self.parts.values())))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        fail(DTypeError, f"conversion of {self!r} to a NumPy array", "Its parts are on several ranks: x.whole() first.")

    def whole(self) -> Tensor:
        """Return the whole value: a collective, which all ranks call."""
        split = [(name, d) for name, d in zip(self.mesh.names, self.placement, strict=True) if d is not None]
        group = current()
        if isinstance(group, OnMesh) and len(self.parts) < self.mesh.size:
            with entered(group.on(self.mesh)):
                (x,) = self.parts.values()
                for name, d in split:
                    attrs = {"over": name, "ranks": self.mesh.axes[name], "axis": d - x.ndim, "replicated": True}
                    x = all_gather.forward(x, **attrs)
            return wrap(x)
        out = np.empty(self.spec.shape, self.spec.dtype)
        for rank, part in self.parts.items():
            local_part(out, self.placement, self.mesh, rank)[...] = part
        return wrap(out)

    def __repr__(self) -> str:
        return f"Sharded({self.spec}, {spec_of_placement(self.placement, self.mesh)})"


def _refuse_other(x: Sharded, placement: Placement, mesh: Mesh, name: str) -> None:
    """Raise ShapeError for parts that are not placed as a program takes them."""
    if x.placement != placement or x.mesh != mesh:
        fail(
            ShapeError,
            f"{name} is split as {spec_of_placement(x.placement, x.mesh)} on {x.mesh} where the program takes "
            f"{spec_of_placement(placement, mesh)} on {mesh}",
            "Give it placed as in_specs says, or whole: x.whole().",
        )
