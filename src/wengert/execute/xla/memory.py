"""Arrays on a device as NumPy's: results that stay where XLA put them, and are found there when they are fed again.

A tensor's data is an ndarray. Where a device's memory is the host's (a CPU) a result is an ndarray over XLA's own
buffer: nothing is copied, and state that a program updates in place keeps its ndarray, whose contents are new. Where it
is not, the ndarray is a copy that nobody writes to, and remembers the device's array.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from ...core.arrays import Array
from ...core.dtypes import is_foreign
from ...core.storage import leave
from ...core.tensor import Tensor
from .api import jax, jnp


class Held:
    """The owner of an ndarray's memory: a JAX array. It is the base of that ndarray and of no other."""

    __slots__ = ("__array_interface__", "__weakref__", "array", "where", "pointer")

    array: Any
    where: Any
    pointer: int

    def __init__(self, array: Any, where: Any, pointer: int, shape: tuple[int, ...], typestr: str) -> None:
        self.array, self.where, self.pointer = array, where, pointer
        self.__array_interface__ = {"shape": shape, "typestr": typestr, "data": (pointer, False), "version": 3}


class Replica:
    """The owner of an ndarray's memory: the first of the devices that all have the array, which a program updates.

    Nobody else may write there, for the others would not see it: the ndarray is read-only.
    """

    __slots__ = ("__array_interface__", "__weakref__", "array", "where", "pointer")

    array: Any
    where: Any
    pointer: int

    def __init__(self, array: Any, where: Any, pointer: int, shape: tuple[int, ...], typestr: str) -> None:
        self.array, self.where, self.pointer = array, where, pointer
        self.__array_interface__ = {"shape": shape, "typestr": typestr, "data": (pointer, True), "version": 3}


class Copied:
    """The owner of an ndarray that is a read-only copy of an array on a device with memory of its own."""

    __slots__ = ("__array_interface__", "__weakref__", "array", "where", "copy")

    def __init__(self, array: Any, where: Any, shown: Any) -> None:
        self.array, self.where, self.copy = array, where, np.array(shown, order="C")
        self.__array_interface__ = {
            "shape": self.copy.shape, "typestr": self.copy.dtype.str, "data": (self.copy.ctypes.data, True),
            "version": 3,
        }  # fmt: skip


Holder = Held | Replica | Copied
_HOLDERS = frozenset({Held, Replica, Copied})


def held_by(a: Array) -> Holder | None:
    """Return what holds the array on the device that all of an ndarray is; None for any other ndarray."""
    base: Any = a.base
    if type(base) in _HOLDERS:
        return base  # type: ignore[no-any-return]
    if type(base) is np.ndarray and is_foreign(a.dtype) and a.size == base.size:  # which no interface names
        found: Any = base.base
        return found if type(found) in _HOLDERS else None
    return None


def shown(array: Any, where: Any, is_shared: bool, is_replicated: bool = False) -> Array:
    """Return a JAX array as an ndarray, which remembers it, and `where` it is: a device, or a sharding for several.

    `is_shared` says that the host sees the device's memory, `is_replicated` that several devices have all of the array.
    """
    dtype, shape = array.dtype, array.shape
    if not array.size:
        return np.zeros(shape, dtype)
    first = array.addressable_data(0) if is_replicated else array
    if not is_shared:
        a = np.asarray(Copied(array, where, first))
    else:
        named = dtype.str if dtype.kind != "V" else "<u2"
        kind = Replica if is_replicated else Held
        a = np.asarray(kind(array, where, first.unsafe_buffer_pointer(), shape, named))
    return a if a.dtype == dtype else a.view(dtype)


def copied(array: Any) -> Any:
    """Return a JAX array's values in memory of its own, where they are."""
    with jax.enable_x64(True):
        return jnp.copy(array)


def shower(shape: tuple[int, ...], dtype: Any, where: Any, is_shared: bool) -> Callable[[Any], Array]:
    """Return what shows arrays of this shape and dtype, all on one device, as :func:`shown` does."""
    if not is_shared or 0 in shape:
        return lambda array: shown(array, where, is_shared)
    named = dtype.str if dtype.kind != "V" else "<u2"

    def show(array: Any) -> Array:
        a = np.asarray(Held(array, where, array.unsafe_buffer_pointer(), shape, named))
        return a if a.dtype == dtype else a.view(dtype)

    return show


class _Holder:
    __slots__ = ("value",)

    value: Any


_holder = _Holder()
_holder.value = np.zeros(1)
# References to an ndarray that a variable and one place besides hold, counted as in `settled`.
_TWICE = 0


def _count() -> int:
    a = _holder.value
    return sys.getrefcount(a)


_TWICE = _count()


def _is_whole(a: Array) -> bool:
    """Return whether an array is all that there is to see of its memory: its own, or a reshaped array's."""
    if a.base is None:
        return bool(a.flags.owndata)
    if type(a.base) is not np.ndarray or a.nbytes != a.base.nbytes:
        return False
    base = a.base
    return bool(base.flags.owndata) and base.base is None and sys.getrefcount(base) == _TWICE


def settled(t: Tensor) -> Array:
    """Return a tensor's value, an array moved to the device for good where nothing but the tensor refers to it.

    What is fed again then need not be copied again: an example set that training goes through in turns, say.
    """
    a: Array = t._array
    if type(a) is not np.ndarray:  # a value in parts, which steps on a mesh bring to their devices
        return a
    if sys.getrefcount(a) != _TWICE or not a.ndim or not a.size or not _is_whole(a):
        return a
    if not a.flags.c_contiguous or not a.dtype.isnative or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return a
    array = brought(a)
    device = array.device
    moved = shown(array, device, device.platform == "cpu")
    leave(t)
    t._data = moved
    return moved


def brought(a: Array) -> Any:
    """Return a copy of an array on the device, as JAX has it."""
    with jax.enable_x64(True):
        return _copier()(a).block_until_ready()  # which costs a fraction of device_put


@cache
def _copier() -> Any:
    return jax.jit(jnp.copy)
