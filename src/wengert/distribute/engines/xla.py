"""XLA as the engine of partitioned programs: each rank is a device of JAX's, in this process or one of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from ...core.errors import GraphError, fail
from ...core.graph.evaluate import run as interpret
from ...execute.xla.devices import divide_processor, of_ranks
from ...execute.xla.ranks import Devices, OnRanks, Spread
from ...ops.collective.group import current, entered
from ..arguments import whole_number
from ..mesh import Mesh, OnMesh, Transport
from ..placing.partition import Partitioned
from ..placing.placement import Placement, is_whole, local_part, spec_of_placement
from .agreement import Agreement
from .lockstep import run_lockstep


class Parts(Mapping[int, Any]):
    """A value's parts where JAX has them, by rank: ndarrays are made for whoever asks for one."""

    __slots__ = ("array", "devices", "spread", "_rows")

    def __init__(self, array: Any, devices: Devices, spread: Spread) -> None:
        self.array, self.devices, self.spread = array, devices, spread
        self._rows: dict[int, Any] | None = None

    def _made(self) -> dict[int, Any]:
        if self._rows is None:
            self._rows = self.devices.parts(self.array, self.spread)
        return self._rows

    def __getitem__(self, rank: int) -> Any:
        return self._made()[rank]

    def __iter__(self) -> Iterator[int]:
        return iter(self.devices.here)

    def __len__(self) -> int:
        return len(self.devices.here)


def cpu_devices(count: int) -> None:
    """Divide this processor into so many devices of JAX's, each of which can be a rank of a mesh.

    Programs on a mesh of up to `count` ranks then run in this process with `engine="xla"`. It says how JAX begins:
    call it before anything runs on XLA, or set JAX_NUM_CPU_DEVICES in the environment. Raises GraphError where JAX has
    begun with another number of them, and without jax.

    >>> import wengert as wg
    >>> wg.distribute.cpu_devices(8)  # doctest: +SKIP
    """
    divide_processor(whole_number(count, f"cpu_devices({count!r})", "It is a number of devices, from 1 on."))


def spread_of(placement: Placement, mesh: Mesh, kind: Any = "parts") -> Spread:
    """Return a placement without partial sums as XLA's programs have it."""
    names = spec_of_placement(placement, mesh).names
    return Spread(names, kind if names else "parts")


class JaxTransport(Transport):
    """A way for the ranks of a job to exchange arrays whose processes JAX knows of, each with a device."""

    __slots__ = ("devices",)

    devices: Sequence[Any]


def devices_of(mesh: Mesh) -> tuple[Devices, OnMesh | None]:
    """Return the devices of a mesh's ranks, and the group of the rank that runs here; None where all do.

    Raises GraphError where there are too few, and where ranks are no devices.
    """
    group = current()
    if not isinstance(group, OnMesh):
        return Devices(mesh.axes, of_ranks(mesh.size, str(mesh))), None
    group = group.on(mesh)
    if not isinstance(group.transport, JaxTransport):
        kind = "a simulation" if group.transport.shares_process else "a job of MPI's"
        fail(
            GraphError,
            f"a program on {mesh} by XLA in {kind}",
            "Ranks that run XLA are devices: of one process, without a job; or of processes that "
            "`wengert launch --engine xla` starts. Elsewhere leave the engine at its default.",
        )
    return Devices(mesh.axes, group.transport.devices), group


class OnDevices:
    """The ranks of a program whose devices are in this process, all of them or one."""

    def __init__(
        self,
        program: Partitioned,
        donated: Sequence[bool] | None = None,
        replaced: Mapping[int, int] | None = None,
    ) -> None:
        self.program, self.donated, self.replaced = program, donated, replaced or {}
        self.devices, self.group = devices_of(program.mesh)
        self.ranks: Sequence[int] = self.devices.here
        self.agreement = None if self.group is None else Agreement(self.group, program)
        self.is_whole = [is_whole(placement) for placement in program.outputs]
        self.made: dict[frozenset[int], OnRanks] = {}
        self.compiled: OnRanks  # the program of the last run

    def check(self, names: Sequence[str], arrays: Sequence[Any]) -> None:
        """Raise GraphError where another rank is about to run something else, or was given other whole values."""
        if self.agreement is not None:
            self.agreement.seek(names, arrays)

    def _compiled(self, updated: Mapping[int, int]) -> OnRanks:
        """Return the program of XLA, made once all ranks have agreed on it, that may update these inputs."""
        program, mesh = self.program, self.program.mesh
        inputs = [spread_of(p, mesh, "whole" if i in updated else "parts") for i, p in enumerate(program.inputs)]
        outputs = [spread_of(p, mesh) for p in program.outputs]
        donated = None if self.donated is None else [d and i in updated for i, d in enumerate(self.donated)]
        return OnRanks(program.graph, self.devices, inputs, outputs, self._decide, donated, updated)

    def run_placed(self, values: Sequence[Any]) -> list[Any]:
        """Return the outputs for the inputs' values: ndarrays of what is whole, parts by rank of what is split."""
        with self.group.transport.trusting() if self.group is not None else nullcontext():
            found = self._run(values)
        if self.agreement is not None:
            self.agreement.left([x for x, is_whole in zip(found, self.is_whole, strict=True) if is_whole])
        return [
            x if is_whole else Parts(x, self.devices, spread)
            for x, is_whole, spread in zip(found, self.is_whole, self.compiled.outputs, strict=True)
        ]

    def _run(self, values: Sequence[Any]) -> list[Any]:
        # State that is whole before and after a run stays so on every device, where the program updates it. Of parts
        # nobody counts who else refers to them.
        updated = {i: k for i, k in self.replaced.items() if self.is_whole[k] and not isinstance(values[i], Mapping)}
        key = frozenset(updated)
        if key not in self.made:
            self.made[key] = self._compiled(updated)
        compiled, feeds = self.made[key], []
        self.compiled = compiled
        for x, spread, node in zip(values, compiled.inputs, self.program.graph.inputs, strict=True):
            if isinstance(x, Mapping):
                x = self._array(x, spread, node.spec.shape)
            feeds.append(x)
        return compiled.run(feeds)

    def _array(self, parts: Mapping[int, Any], spread: Spread, local: Sequence[int]) -> Any:
        """Return the array of a value in parts: the one that there is, where a program has given it."""
        if isinstance(parts, Parts) and parts.devices.all == self.devices.all and parts.spread == spread:
            return parts.array
        return self.devices.joined(parts, spread, local)

    def _decide(self, values: list[Any]) -> list[Any]:
        """Return the outputs as the ranks compute them node by node: the error of an op, or its results."""
        program, devices = self.program, self.devices
        rows: dict[int, list[Any]] = {rank: [] for rank in self.ranks}
        for x, spread, placement in zip(values, self.compiled.inputs, program.inputs, strict=True):
            there = {} if isinstance(x, np.ndarray) else devices.parts(x, spread)
            for rank in self.ranks:
                rows[rank].append(there[rank] if there else local_part(x, placement, program.mesh, rank))
        if self.group is None:
            found = dict(zip(self.ranks, run_lockstep(program, [rows[r] for r in self.ranks]), strict=True))
        else:
            (rank,) = self.ranks
            # An op that raises here may give others what they need: these wait for a rank that has left.
            with entered(self.group), self.group.transport.trusting(False), program.telling(rank):
                found = {rank: interpret(program.graph, rows[rank])}
        outputs: list[Any] = []
        for k, (node, everywhere, spread) in enumerate(
            zip(program.graph.outputs, self.is_whole, self.compiled.outputs, strict=True)
        ):
            parts = {rank: np.array(row[k]) for rank, row in found.items()}
            outputs.append(parts[self.ranks[0]] if everywhere else devices.joined(parts, spread, node.spec.shape))
        return outputs
