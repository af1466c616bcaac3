"""Devices on which tensors may be placed, by their names: the processor, and those of an engine that has others.

`core` has no device but the processor. An engine registers what puts arrays on others, and is loaded when the first
one is named.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, Protocol

from .elsewhere import Elsewhere
from .errors import GraphError, fail
from .spec import DType, Shape, Spec

CPU = "cpu"
# What others call a device: PyTorch, JAX.
_KINDS = frozenset({"cpu", "cuda", "gpu", "mps", "rocm", "tpu", "xla", "xpu"})


class Placing(Protocol):
    """An engine's devices: `name` finds one, and `put` puts an array on the device that `name` has named."""

    def name(self, kind: str, number: int) -> str:
        """Return the one name of a device. Raises GraphError where there is none."""
        ...

    def put(self, array: Any, place: str) -> Elsewhere:
        """Return a copy of an array on a device."""
        ...


_loads: list[Callable[[], Placing]] = []


def register(load: Callable[[], Placing]) -> None:
    """Register what gives the devices of an engine, called when one is named."""
    _loads[:] = [load]


def placing() -> Placing:
    """Return what puts arrays on devices."""
    return _loads[0]()


def names_device(x: Any) -> bool:
    """Return whether `x` is a device's name, "cuda:0" say: of one that there is, or of another."""
    return isinstance(x, str) and x.partition(":")[0] in _KINDS


def device_name(device: Any) -> str:
    """Return the one name of a device: "cpu", "xla:1", "cuda:0"; None is the processor.

    Raises GraphError (a ValueError) where there is no such device.
    """
    if device is None:
        return CPU
    kind, colon, number = str(device).partition(":")
    if kind == CPU and number in ("", "0"):
        return CPU
    if kind not in _KINDS or kind == CPU or (colon and not (number.isascii() and number.isdigit())):
        refuse_device(device, "there is no such device")
    return placing().name(kind, int(number or 0))


def refuse_device(device: Any, why: str) -> NoReturn:
    """Raise GraphError for a device that there is not."""
    fail(
        GraphError,
        f"device {str(device)!r}: {why}",
        'Devices are "cpu", where tensors are unless they are placed elsewhere, and those of JAX: "xla:0", its first '
        'one of any kind, "cuda:0", "tpu:0".',
    )


class PlacedSpec(Spec):
    """The shape and dtype of a value on a device: equal to the spec of any other such value, and another object.

    Fast paths compare specs by identity, so that none takes a placed value for an array.
    """

    __slots__ = ("place",)

    place: str

    def __reduce__(self) -> tuple[Any, ...]:
        return spec_at, (self.shape, self.dtype, self.place)


_specs: dict[tuple[Shape, DType, str], PlacedSpec] = {}
_LIMIT = 1 << 14


def spec_at(shape: Shape, dtype: DType, place: str) -> PlacedSpec:
    """Return the one spec of values of this shape and dtype at a place."""
    key = shape, dtype, place
    found = _specs.get(key)
    if found is None:
        if len(_specs) >= _LIMIT:
            _specs.clear()
        found = PlacedSpec(shape, dtype, {})
        found.place = place
        _specs[key] = found
    return found
