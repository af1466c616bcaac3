"""The compiled entry of calls: its availability, and classes whose instances are called by it."""

from __future__ import annotations

import ctypes
import platform
import sys
from functools import cache
from typing import Any

import numpy as np

from ....core.tensor import Tensor, new
from ..codegen import machine
from . import code as entry_code
from .assembler import Assembler, Entry, Memory, MethodDef, Object, Word
from .layout import layout, place_of_slot, read

# The releases of CPython by which the entry is tested: it reads and writes where these keep the parts of objects.
TESTED = frozenset({(3, 11)})
_FASTCALL = 0x0080


class Native:
    """A base of classes whose instances are called: natively where they have a function, else by `__call__`."""

    __slots__ = ("_called",)

    _called: Any

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def call_by(self, function: Any) -> None:
        """Let calls begin with a native function, made for this instance; None: no longer."""
        if function is not None:
            self._called = function.__self__
        elif hasattr(self, "_called"):
            del self._called


def lack() -> str:
    """Return why calls are not dispatched by native code here; an empty text where they may be."""
    if platform.python_implementation() != "CPython" or sys.version_info[:2] not in TESTED:
        tested = ", ".join(f"{major}.{minor}" for major, minor in sorted(TESTED))
        return f"it is not tested with this Python, only with CPython {tested}"
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return "this Python has no global lock"
    if sys.byteorder != "little" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return "it is made for processors of 64 bits, lowest byte first"
    return machine.lack().partition("\n")[0]


@cache
def entry() -> Entry | None:
    """Return the compiled entry; None where there is none, or objects are not laid out as it takes them to be."""
    if lack():
        return None
    found, api, called = layout(), _numpy_functions(), place_of_slot(new(Native), "_called", object())
    if found is None or api is None or called < 0:
        return None
    symbols = {f"wengert_{name}": id(x) for name, x in entry_code.OBJECTS.items()} | api
    symbols["wengert_python_call"] = read(Native, _TYPE_CALL)
    symbols["wengert_never"] = _held_lock()
    for name in entry_code.PYTHON_API:
        if not hasattr(ctypes.pythonapi, name):
            return None
        symbols[name] = _address(getattr(ctypes.pythonapi, name))
    handlers = entry_code.load(found, called, symbols)
    made = Entry(handlers, found, MethodDef(b"compiled", handlers["entry"], _FASTCALL, None))
    return made if _works(made) else None


# Where a type has the function that calls its instances (`tp_call`): after the names, sizes and functions that every
# CPython has in one order.
_TYPE_CALL = 128


def calls_natively(cls: type[Native]) -> bool:
    """Let instances of a class be called by the native entry first, from now on; return False where they cannot.

    Calls of instances look for `__call__` by the type's `tp_call`, which every class with that method shares. Ours goes
    there too, for calls that it gives up. False where a type is not laid out as it is known to be.
    """
    found = entry()
    if found is not None and read(cls, _TYPE_CALL) == found.handlers["called"]:
        return True

    class Other:
        def __call__(self) -> None:
            pass

    class Silent:
        pass

    if found is None or not read(Other, _TYPE_CALL) == read(cls, _TYPE_CALL) == read(Native, _TYPE_CALL) != 0:
        return False
    if read(Silent, _TYPE_CALL) != 0 or read(type, _TYPE_CALL) == read(Other, _TYPE_CALL):
        return False
    ctypes.c_int64.from_address(id(cls) + _TYPE_CALL).value = found.handlers["called"]
    return True


def _held_lock() -> int:
    """Return the address of a lock that is never released: a wait for it with a timeout lasts that long."""
    allocate, acquire = ctypes.pythonapi.PyThread_allocate_lock, ctypes.pythonapi.PyThread_acquire_lock
    allocate.restype, acquire.argtypes = ctypes.c_void_p, (ctypes.c_void_p, ctypes.c_int)
    made = allocate()
    acquire(made, 1)
    return int(made)


def _address(f: Any) -> int:
    found = ctypes.cast(f, ctypes.c_void_p).value
    assert found is not None
    return found


def _numpy_functions() -> dict[str, int] | None:
    """Return the addresses of functions that NumPy gives to C."""
    capsule = getattr(getattr(np, "_core", None), "multiarray", None)
    table = getattr(capsule, "_ARRAY_API", None)
    if table is None:
        return None
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    functions = (ctypes.c_void_p * 300).from_address(pointer(table, None))
    # Entry 2 is ndarray itself in every NumPy.
    if functions[2] != id(np.ndarray):
        return None
    return {name: found for name, i in entry_code.NUMPY_API.items() if (found := functions[i]) is not None}


def version_of(cls: type) -> int:
    """Return the number of a class that changes with it; one that it never has where it has none just now."""
    found = entry()
    number = 0 if found is None else read(cls, found.layout.type_version)
    return number or -1


def _works(found: Entry) -> bool:
    """Return whether a small function does what it should: a tensor and a copy of its array, in a tuple."""
    spec = Tensor(np.arange(3.0))
    array, shape = spec._array, np.array([3], np.int64)
    missed = object()
    r = Assembler(found, 1)
    entry_word, made, pair = r.value(), r.hold(), r.hold(2)
    second = Word("held", pair.number + 1)
    given = Word("values", 0)
    r.do("is_tensor", given, Object(Tensor), Object(spec._spec))
    r.do("feed_tensor", given, entry_word, r.hold(), Object(array.dtype), 1, Memory(shape))
    r.do("fresh", Object(array.dtype), 1, Memory(shape), 0, r.value(), made)
    r.do("made", Object(Tensor), Object(spec._spec), made, pair)
    r.do("constant", Object(missed), second)
    r.do("pack_tuple", 2, pair, Word("held", 0))
    r.do("return")
    call, _ = r.function(missed)
    before = sys.getrefcount(array), sys.getrefcount(spec)
    for wrong in ((), (spec, spec), (1,), (Tensor(np.arange(4.0)),)):
        if call(*wrong) is not missed:
            return False
    result = call(spec)
    if type(result) is not tuple or result[1] is not missed or type(result[0]) is not Tensor:
        return False
    new_array = result[0]._array
    return (
        result[0]._spec is spec._spec
        and type(new_array) is np.ndarray
        and new_array.shape == (3,)
        and new_array.dtype == array.dtype
        and bool(new_array.flags.owndata)
        and sys.getrefcount(new_array) == 3
        and (sys.getrefcount(array), sys.getrefcount(spec)) == before
    )
