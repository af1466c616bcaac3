"""Values that are not in the host's memory as a whole.

Such a value has a shape and a dtype, stands in the place of an array, and computes nothing. Whoever takes it for
an array is told so: what knows where it is (:mod:`wengert.distribute`, `execute/xla`) asks for it by name.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np

from .errors import GraphError, fail
from .spec import DType, Shape, Spec

# What arrays are asked first, by compiled calls and optimisers: the flags of a contiguous array.
_FLAGS = SimpleNamespace(num=0x0501, writeable=True)


def _refused(name: str) -> Any:
    def method(self: Elsewhere, *others: Any) -> NoReturn:
        self.refuse(name)

    return method


# Python's operators on arrays, but for `==`: facts about values are compared by it.
_BINARY = ["add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift"]
_OTHERS = ["lt", "le", "gt", "ge", "neg", "pos", "abs", "invert", "int", "float", "complex", "index"]
_NAMES = [*(f"__{kind}{name}__" for name in _BINARY for kind in ("", "r", "i")), *(f"__{name}__" for name in _OTHERS)]
_Refusing = type("_Refusing", (), {"__slots__": (), **{name: _refused(name.strip("_")) for name in _NAMES}})


class Elsewhere(_Refusing):  # type: ignore[misc, valid-type]
    """The base of values that are not here as a whole; `spec` is the whole's shape and dtype."""

    __slots__ = ("spec", "__weakref__")

    spec: Spec
    flags = _FLAGS
    # Of a whole value on one device, the device's name: "cuda:0", say.
    place: str | None = None
    # A NumPy scalar beside it leaves the operation to it.
    __array_priority__ = 2000.0

    def refuse(self, what: str) -> NoReturn:
        """Raise GraphError: what is asked for needs a whole value."""
        fail(GraphError, f"{what} of {self!r}, which is not here as a whole", "Join its parts first.")

    def full(self, number: Any, dtype: DType) -> Elsewhere:
        """Return a value of the same shape, in the same places, that is everywhere one number."""
        raise NotImplementedError

    def taken(self, array: Any) -> Elsewhere:
        """Return another whole value, an array of this shape and dtype, in the same places."""
        raise NotImplementedError

    def fetched(self, what: str) -> Any:
        """Return the whole value as an array of the host's, for what is asked for."""
        self.refuse(what)

    def lent(self, is_alone: bool) -> Elsewhere:
        """Return the value for a program that may take its memory; `is_alone` says that nobody else refers to it."""
        return self

    def copy(self) -> Elsewhere:
        """Return the same value in memory of its own."""
        raise NotImplementedError

    @property
    def shape(self) -> Shape:
        """The whole's shape."""
        return self.spec.shape

    @property
    def dtype(self) -> DType:
        """The dtype."""
        return self.spec.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.spec.shape)

    @property
    def size(self) -> int:
        """The number of the whole's elements."""
        return self.spec.size

    @property
    def itemsize(self) -> int:
        """The bytes of an element."""
        return self.spec.dtype.itemsize

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        self.refuse("conversion to a NumPy array")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> NoReturn:
        self.refuse(f"{ufunc.__name__}")

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> NoReturn:
        self.refuse(f"{function.__name__}")

    def __getattr__(self, name: str) -> Any:
        if name[:2] == "__":  # what Python looks for, and does without
            raise AttributeError(name)
        self.refuse(name)

    def __getitem__(self, index: Any) -> NoReturn:
        self.refuse("an element")

    def __setitem__(self, index: Any, value: Any) -> NoReturn:
        self.refuse("a write to an element")

    def __len__(self) -> NoReturn:
        self.refuse("len()")

    def __iter__(self) -> NoReturn:
        self.refuse("a loop over elements")

    def __bool__(self) -> NoReturn:
        self.refuse("the truth")


def here(x: Any, what: str) -> Any:
    """Return a value as an array of the host's, for what is asked for; an array as it is."""
    return x.fetched(what) if isinstance(x, Elsewhere) else x


def in_place_of(old: Any, new: Any) -> Any:
    """Return what stands for a tensor's new value: a whole one goes where the old one was."""
    if isinstance(new, Elsewhere) and (new.place is None or new.place == getattr(old, "place", None)):
        return new
    new = here(new, "a value")
    return old.taken(new) if isinstance(old, Elsewhere) else new


def as_data(x: Any) -> Any:
    """Return what stands for a tensor's value: an array, or a value that is elsewhere."""
    return x if isinstance(x, Elsewhere) else np.asarray(x)
