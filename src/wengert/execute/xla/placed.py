"""Tensors' values on one device of JAX's, and the programs that run there because they are given such values.

A placed value is an array of JAX's in the place of an ndarray. Outside of compiled functions nothing computes with it:
an operation at a time, a device would wait for Python, and derivatives run on ndarrays. A compiled function that is
given placed tensors, or finds them outside, is a program of XLA's on their device, and so are what it returns and what
it writes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np

from ...core.arrays import Array
from ...core.dtypes import DType
from ...core.elsewhere import Elsewhere, here, refuse_device, refuse_here, spec_at
from ...core.errors import GraphError
from ...core.graph.graph import Graph
from ...core.spec import spec_of
from .api import is_installed, jax, jnp
from .lower import lower
from .program import Compiled
from .rules import Trace

# No array's: who takes a placed value for one asks for its flags first, and makes an array of it.
_FLAGS = SimpleNamespace(num=0, writeable=False, c_contiguous=True)


class Placed(Elsewhere):
    """A value on a device: an array of JAX's, which nobody writes to; a program may take its memory."""

    __slots__ = ("array", "place")

    flags = _FLAGS
    array: Any
    place: str

    def __init__(self, array: Any, place: str) -> None:
        self.array, self.place = array, place
        known = spec_of(array.shape, np.dtype(array.dtype))
        self.spec = spec_at(known.shape, known.dtype, place)

    def refuse(self, what: str) -> NoReturn:
        """Raise GraphError: outside of compiled functions nothing computes there."""
        refuse_here(
            GraphError,
            f"{what} of a tensor on {self.place}, {self.spec}, outside of a compiled function",
            "What computes on a device is compiled: wg.jit(f)(x) runs where x is. x.to('cpu') brings the value back.",
        )

    def fetched(self, what: str) -> Array:
        """Return the value as an array of the host's, with memory of its own."""
        return np.array(self.array, order="C")

    def full(self, number: Any, dtype: DType) -> Placed:
        """Return a value of the same shape, on the same device, that is everywhere one number."""
        return PLACING.put(np.full(self.shape, number, dtype), self.place)

    def taken(self, array: Any) -> Placed:
        """Return an array's value on the same device."""
        return PLACING.put(array, self.place)

    def lent(self, is_alone: bool) -> Placed:
        """Return the value for a program that may take its memory: a copy where somebody else refers to it."""
        return self if is_alone else self.copy()

    def copy(self) -> Placed:
        """Return the same value in memory of its own."""
        with jax.enable_x64(True):
            return Placed(jnp.copy(self.array), self.place)

    def __add__(self, other: Any) -> Placed:
        """Return the sum of two gradients, which a backward pass adds up where they are."""
        if not isinstance(other, Placed) or other.place != self.place:
            self.refuse("add")
        with jax.enable_x64(True):
            return Placed(_added()(self.array, other.array), self.place)

    def __repr__(self) -> str:
        return f"Placed({self.spec}, {self.place!r})"


@cache
def _added() -> Any:
    return jax.jit(lambda a, b: a + b)


class _Devices:
    """JAX's devices, by their names."""

    def name(self, kind: str, number: int) -> str:
        """Return a device's one name: of what "gpu:0" and "xla:0" name too, "cuda:0" say. Raises GraphError."""
        if not is_installed():
            refuse_device(f"{kind}:{number}", "jax, which has all but the processor, is not installed")
        found = self._of_kind(kind, number)
        if len(found) <= number:
            have = f"{len(found)} {kind} device{'s' * (len(found) != 1)}"
            refuse_device(f"{kind}:{number}", f"jax has {have} here")
        device = found[number]
        platform = device.platform
        if platform == "gpu":
            platform = "rocm" if "rocm" in str(device.client.platform_version).lower() else "cuda"
        return f"xla:{number}" if platform == "cpu" else f"{platform}:{number}"

    def _of_kind(self, kind: str, number: int) -> Sequence[Any]:
        try:
            return jax.local_devices() if kind == "xla" else jax.local_devices(backend=kind)  # type: ignore[no-any-return]
        except RuntimeError:
            refuse_device(f"{kind}:{number}", f"jax has no {kind} here, only {jax.local_devices()[0].platform}")

    def put(self, array: Any, place: str) -> Placed:
        """Return a copy of an array on a device."""
        with jax.enable_x64(True):
            return Placed(jax.device_put(np.asarray(array), device_at(place), may_alias=False), place)


PLACING = _Devices()


@cache
def device_at(place: str) -> Any:
    """Return the device of JAX's that a name stands for."""
    kind, _, number = place.partition(":")
    found = jax.local_devices() if kind == "xla" else jax.local_devices(backend=kind)
    return found[int(number)]


class OnDevice(Compiled):
    """A graph compiled for one device, which takes and gives placed values.

    The outputs in `here` are ndarrays of the host's: what is kept in Python's numbers, and in tensors that are there.
    """

    def __init__(
        self,
        graph: Graph,
        place: str,
        donated: Sequence[bool] | None = None,
        replaced: Mapping[int, int] | None = None,
        here: Collection[int] = (),
    ) -> None:
        self.place, self.here = place, here
        super().__init__(graph, donated, replaced)
        if self._made.on_host and any(self._made.donated):  # what Python raises in a run must not cost the state
            self.replaced, self._order = {}, list(range(len(graph.outputs)))
            self._made = self._compile()
            self._slots = [(k, -1) for k in self._order]

    def _trace(self) -> Trace:
        return Trace(lower, looks=False)

    def _jitted(self, program: Any, given: tuple[int, ...], options: Any) -> tuple[Any, list[Any]]:
        call, specs = super()._jitted(program, given, options)
        there = jax.sharding.SingleDeviceSharding(self._where)
        return call, [jax.ShapeDtypeStruct(s.shape, s.dtype, sharding=there) for s in specs]

    def _fed(self, arrays: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        holders: list[Any] = []
        args: list[Any] = []
        for a in arrays:
            there = isinstance(a, Placed) and a.place == self.place
            holders.append(a if there else None)
            args.append(a.array if there else here(a, "a program"))
        if holders and not any(h is not None for h in holders):  # else JAX brings what is the host's
            with jax.enable_x64(True):
                args = [jax.device_put(x, self._where) for x in args]
        return holders, args

    @property
    def _program(self) -> Any:
        return self._made.compiled

    def device_seat(self) -> None:
        """Return None: placed values are Python's to take and give."""
        return

    def _is_set(self, flag: Any) -> bool:
        return bool(flag)

    def _refused(self, arrays: Sequence[Any], outputs: list[Any]) -> list[Any]:
        found = [outputs[k].array if isinstance(outputs[k], Placed) else outputs[k] for k, _ in self._slots]
        self._give_back([a if isinstance(a, Placed) else None for a in arrays], found)
        return self._interpreted(arrays)

    def _placed(self, arrays: Sequence[Any], holders: Sequence[Any], found: Sequence[Any]) -> list[Any]:
        outputs: list[Any] = [None] * len(found)
        for (k, _), x in zip(self._slots, found, strict=True):
            outputs[k] = np.array(x) if k in self.here else Placed(x, self.place)
        return outputs

    def _loses(self, holders: Sequence[Any]) -> bool:
        """Return whether the program was given anything: what may raise in a run was given nothing to keep."""
        return any(self._made.donated)

    def _interpreted(self, arrays: Sequence[Any]) -> list[Any]:
        found = super()._interpreted([here(a, "the interpreter") for a in arrays])
        return [a if k in self.here else PLACING.put(a, self.place) for k, a in enumerate(found)]

    # -- looking inside

    @property
    def _device(self) -> str:
        return self.place

    @property
    def _where(self) -> Any:
        return device_at(self.place)

    @property
    def _returned(self) -> int:
        return sum(n.spec.nbytes for k, n in enumerate(self.graph.outputs) if k in self.here)
