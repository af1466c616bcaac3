"""Programs that the ranks of a mesh run, each on a device of its own: a rank's graph inside of `jax.shard_map`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Literal, NamedTuple
from weakref import WeakSet

import numpy as np

from ...core.graph.graph import Graph
from ...core.spec import Spec
from ...core.state import locks
from ...core.state.cached import cached_property
from .api import jax, jnp, lax
from .lower import lower
from .lowerings.collectives import part_of
from .memory import Replica, held_by, shown
from .program import Compiled
from .rules import Trace

# Devices of one processor are threads that wait for each other: of two programs at once neither might get enough of
# them.
_TURN = locks.lock()
# The programs in whose first run processes have met.
_MET: WeakSet[Any] = WeakSet()


class Spread(NamedTuple):
    """A value as the ranks have it: by dimension the mesh axes that split it, and what that says of the array.

    "parts": the array is split so, and a rank has its part. "whole": every rank has all of the array, and takes its
    part of it, which costs nothing but room. "own": each rank has a value of its own; the array has them one after
    the other along a first axis.
    """

    names: tuple[str | None, ...] = ()
    kind: Literal["parts", "whole", "own"] = "parts"


SAME, OWN = Spread(), Spread((), "own")


class Devices:
    """The devices of a mesh's ranks, in the order of the ranks; `here` are the ranks whose devices this process has."""

    def __init__(self, axes: Mapping[str, int], devices: Sequence[Any]) -> None:
        self.axes = dict(axes)
        self.all = tuple(devices)
        own = jax.process_index()
        self.here = tuple(i for i, d in enumerate(devices) if d.process_index == own)
        self.is_shared = all(d.platform == "cpu" for d in devices)
        self.mesh = _mesh(tuple(self.axes.items()), self.all)

    @contextmanager
    def quiet(self, who: Any) -> Iterator[None]:
        """Return a block for a run in which processes may first meet: what their library prints goes to the errors."""
        if self.is_shared and len(self.here) < len(self.all) and who not in _MET:
            _MET.add(who)
            sys.stdout.flush()
            kept = os.dup(1)
            os.dup2(2, 1)
            try:
                yield
            finally:
                os.dup2(kept, 1)
                os.close(kept)
        else:
            yield

    def sharding(self, spread: Spread) -> Any:
        """Return where JAX has an array that is spread so."""
        if spread.kind == "own":
            names: tuple[Any, ...] = (tuple(self.axes),)
        else:
            names = () if spread.kind == "whole" else spread.names
            while names and names[-1] is None:
                names = names[:-1]
        return _sharding(self.mesh, names)

    def shape(self, spread: Spread, local: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of the array of which ranks have values of this shape."""
        if spread.kind == "own":
            return (len(self.all), *local)
        sizes = list(local)
        for dim, name in enumerate(spread.names):
            if name is not None:
                sizes[dim] *= self.axes[name]
        return tuple(sizes)

    def row(self, x: Any, rank: int, spread: Spread) -> Any:
        """Return a rank's value on its device: of an ndarray, or of what another device has."""
        if isinstance(x, (np.ndarray, np.generic)) and spread.kind == "own":
            x = np.asarray(x)[None]
        with jax.enable_x64(True):  # else JAX halves the width of an ndarray's numbers
            return jax.device_put(x, self.all[rank])

    def joined(self, rows: Mapping[int, Any], spread: Spread, local: Sequence[int]) -> Any:
        """Return the array of the values that this process' ranks have."""
        with jax.enable_x64(True):
            placed = [self.row(rows[rank], rank, spread) for rank in self.here]
            return jax.make_array_from_single_device_arrays(self.shape(spread, local), self.sharding(spread), placed)

    def rows(self, array: Any) -> dict[int, Any]:
        """Return what this process' ranks have of an array, each on its device."""
        by_device = {shard.device: shard.data for shard in array.addressable_shards}
        return {rank: by_device[self.all[rank]] for rank in self.here}

    def parts(self, array: Any, spread: Spread) -> dict[int, Any]:
        """Return the values of an array that this process' ranks have, as ndarrays that nobody writes to."""
        found = {rank: np.asarray(x) for rank, x in self.rows(array).items()}
        return {rank: x[0] for rank, x in found.items()} if spread.kind == "own" else found


@cache
def _mesh(axes: tuple[tuple[str, int], ...], devices: tuple[Any, ...]) -> Any:
    sizes = [n for _, n in axes]
    return jax.sharding.Mesh(np.array(devices, object).reshape(sizes), tuple(name for name, _ in axes))


@cache
def _sharding(mesh: Any, names: tuple[Any, ...]) -> Any:
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*names))


class OnRanks(Compiled):
    """A rank's graph as a program of all ranks.

    A run takes for each input an ndarray of the whole value, or an array of JAX's that is spread as the program takes
    it, and gives arrays of JAX's; an ndarray for an output that all ranks have, if the program `shows` such. What a
    check finds wrong is given to `decide`: the values of the inputs, for the outputs.
    """

    def __init__(
        self,
        graph: Graph,
        devices: Devices,
        inputs: Sequence[Spread],
        outputs: Sequence[Spread],
        decide: Callable[[list[Any]], list[Any]],
        donated: Sequence[bool] | None = None,
        replaced: Mapping[int, int] | None = None,
        shows: bool = True,
    ) -> None:
        self.shows = shows
        self.devices, self.inputs, self.outputs, self.decide = devices, tuple(inputs), tuple(outputs), decide
        self._taken = [devices.sharding(s) for s in inputs]
        super().__init__(graph, donated, replaced)

    # -- compiling

    def _trace(self) -> Trace:
        return Trace(lower, self.devices.axes)

    def _jitted(self, program: Callable[..., Any], given: tuple[int, ...], options: Any) -> tuple[Any, list[Any]]:
        devices = self.devices
        ins, outs = self._taken, [devices.sharding(self.outputs[k]) for k in self._order]
        on_ranks = jax.shard_map(
            program,
            mesh=devices.mesh,
            in_specs=tuple(s.spec for s in ins),
            out_specs=([s.spec for s in outs], jax.sharding.PartitionSpec()),
            check_vma=False,
        )
        call = jax.jit(on_ranks, donate_argnums=given, keep_unused=True, compiler_options=options)
        specs = []
        for node, spread, sharding in zip(self.graph.inputs, self.inputs, ins, strict=True):
            assert isinstance(node.spec, Spec)
            shape = devices.shape(spread, node.spec.shape)
            specs.append(jax.ShapeDtypeStruct(shape, node.spec.dtype, sharding=sharding))
        return call, specs

    def _entered(self, args: Sequence[Any]) -> list[Any]:
        """Return a rank's operands for what it is fed."""
        out = []
        for x, spread in zip(args, self.inputs, strict=True):
            if spread.kind == "own":
                out.append(lax.squeeze(x, (0,)))
                continue
            for dim, name in enumerate(spread.names if spread.kind == "whole" else ()):
                if name is not None:
                    x = part_of(x, dim, name, self.devices.axes[name])
            out.append(x)
        return out

    def _left(self, k: int, x: Any) -> Any:
        return lax.expand_dims(x, (0,)) if self.outputs[k].kind == "own" else x

    def _joined(self, wrong: Any) -> Any:
        """Return whether anything is wrong on any rank: all keep their state, or none."""
        names = tuple(name for name, n in self.devices.axes.items() if n > 1)
        wrong = jnp.asarray(wrong)
        return lax.psum(wrong.astype(np.int32), names) > 0 if names else wrong

    # -- running

    def _fed(self, arrays: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        with jax.enable_x64(True):
            return self._fed_wide(arrays)

    def _fed_wide(self, arrays: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        holders, args = [], []
        for i, (a, sharding) in enumerate(zip(arrays, self._taken, strict=True)):
            holder = held_by(a) if type(a) is np.ndarray else None
            if holder is not None and holder.where is sharding:
                args.append(holder.array)
            else:
                holder = None
                args.append(self._brought(a, i) if isinstance(a, (np.ndarray, np.generic)) else a)
            holders.append(holder)
        return holders, args

    def _brought(self, a: Any, i: int) -> Any:
        """Return an ndarray of the whole value as an array on the devices."""
        sharding, local = self._taken[i], self.graph.inputs[i].spec.shape
        if len(self.devices.here) == len(self.devices.all):
            return jax.device_put(a, sharding)
        shape = self.devices.shape(self.inputs[i], local)
        return jax.make_array_from_callback(shape, sharding, lambda index: a[index])

    def _called(self, holders: Sequence[Any], args: Sequence[Any]) -> tuple[Any, Any]:
        with _TURN, self.devices.quiet(self):
            return super()._called(holders, args)

    def _wait_for(self, found: Sequence[Any]) -> None:
        for x in found:
            x.block_until_ready()

    def _is_set(self, flag: Any) -> bool:
        return bool(flag)

    def device_seat(self) -> None:
        """Return None: what ranks have is Python's to take and give."""
        return

    def _placed(self, arrays: Sequence[Any], holders: Sequence[Any], found: Sequence[Any]) -> list[Any]:
        """Return what the ranks have of the outputs: an ndarray where all have the same."""
        outputs: list[Any] = [None] * len(found)
        whole = self.devices.sharding(SAME)
        for (k, i), x in zip(self._slots, found, strict=True):
            spread = self.outputs[k]
            if not self.shows or spread.kind == "own" or any(spread.names):
                outputs[k] = x
                continue
            holder = holders[i] if i >= 0 else None
            if type(holder) is Replica and x.addressable_data(0).unsafe_buffer_pointer() == holder.pointer:
                holder.array = x
                outputs[k] = arrays[i]
            else:
                outputs[k] = shown(x, whole, self._shares, True)
        return outputs

    def _interpreted(self, arrays: Sequence[Any]) -> list[Any]:
        return self.decide(list(arrays))

    # -- looking inside

    @cached_property
    def _device(self) -> str:
        first = self.devices.all[0]
        return f"{first.platform}:{first.id} and {len(self.devices.all) - 1} more"

    @cached_property
    def _shares(self) -> bool:
        return self.devices.is_shared


class Gathering:
    """A meeting of devices, each in a process of its own, at which all get what all have: bytes."""

    def __init__(self, devices: Sequence[Any], own: int) -> None:
        self.devices, self.own = Devices({"ranks": len(devices)}, devices), own

    def __call__(self, x: Any) -> Any:
        """Return the arrays of all, stacked."""
        if not x.size:
            return np.empty((len(self.devices.all), *x.shape), x.dtype)
        flat = np.ascontiguousarray(x).reshape(-1).view(np.uint8)
        given = self.devices.joined({self.own: flat}, OWN, flat.shape)
        with _TURN, self.devices.quiet(self):
            found = np.asarray(_gathered(self.devices.mesh)(given).addressable_data(0))
        return found.view(x.dtype).reshape(-1, *x.shape)


@cache
def _gathered(mesh: Any) -> Any:
    spec = jax.sharding.PartitionSpec
    gather = lambda x: lax.all_gather(x, "ranks", axis=0, tiled=True)
    return jax.jit(jax.shard_map(gather, mesh=mesh, in_specs=spec("ranks"), out_specs=spec(), check_vma=False))


class Exchange:
    """A meeting of two devices, each in a process of its own, at which the first one sends the second one a row."""

    def __init__(self, devices: Sequence[Any], own: int) -> None:
        self.devices, self.own = Devices({"ends": 2}, devices), own

    def send(self, x: Any) -> None:
        """Send a row."""
        row = self.devices.row(x, self.own, OWN)
        self._met(row, row.shape[1:])

    def receive(self, spec: Spec) -> Any:
        """Return the row that the other device sends."""
        return self._met(np.zeros(spec.shape, spec.dtype), spec.shape)

    def _met(self, x: Any, local: Sequence[int]) -> Any:
        given = self.devices.joined({self.own: x}, OWN, local)
        if not given.size:
            return self.devices.rows(given)[self.own]
        with _TURN, self.devices.quiet(self), jax.enable_x64(True):
            found = _moved(self.devices.mesh)(given).block_until_ready()
        return self.devices.rows(found)[self.own]


@cache
def _moved(mesh: Any) -> Any:
    spec = jax.sharding.PartitionSpec("ends")
    move = lambda x: lax.ppermute(x, "ends", [(0, 1)])
    return jax.jit(jax.shard_map(move, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False))
