"""Values that are not in the host's memory as a whole, and the devices that such may be placed on.

Such a value has a shape and a dtype, stands in the place of an array, and computes nothing. Whoever takes it for
an array is told so: what knows where it is (:mod:`wengert.distribute`, `execute/xla`) asks for it by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, NoReturn, Protocol

import numpy as np

from .dtypes import DType
from .errors import GraphError, WengertError, error, fail
from .spec import Shape, Spec, spec_of
from .storage import laid_like, leave

# What a value is asked for by who writes it to a file.
SAVING = "saving"
# What arrays are asked first, by compiled calls and optimisers: the flags of a contiguous array.
_FLAGS = SimpleNamespace(num=0x0501, writeable=True, c_contiguous=True)


def refuse_here(kind: type[WengertError], what: str, remedy: str) -> NoReturn:
    """Raise an error of what took a value for an array of the host's that is none: `is_elsewhere` tells it."""
    found = error(kind, what, remedy)
    found.is_elsewhere = True
    raise found from None


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
        refuse_here(GraphError, f"{what} of {self!r}, which is not here as a whole", "Join its parts first.")

    def full(self, number: Any, dtype: DType) -> Elsewhere:
        """Return a value of the same shape, in the same places, that is everywhere one number."""
        raise NotImplementedError

    def taken(self, array: Any) -> Elsewhere:
        """Return another whole value, an array of this shape and dtype, in the same places."""
        raise NotImplementedError

    def cast(self, dtype: DType) -> Elsewhere:
        """Return the value in another dtype, in the same places."""
        return self.taken(self.fetched(f"to({dtype})").astype(dtype))

    def fetched(self, what: str) -> Any:
        """Return the whole value as an array of the host's, for what is asked for."""
        self.refuse(what)

    def joined(self, what: str) -> Any:
        """Return the same for what all ranks ask for at the same time, of a value in parts too."""
        return self.fetched(what)

    def lent(self, is_alone: bool) -> Elsewhere:
        """Return the value for a program that may take its memory; `is_alone` says that nobody else refers to it."""
        return self

    def copy(self) -> Elsewhere:
        """Return the same value in memory of its own."""
        raise NotImplementedError

    def of_elements(self, op: Any, values: Sequence[Any], attrs: Mapping[str, Any]) -> Elsewhere | None:
        """Return an elementwise op of values among which this one is, in the same places; None if it cannot be."""
        return None

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

    def __format__(self, spec: str) -> str:
        if spec:
            self.refuse("format()")
        return str(self)


def here(x: Any, what: str) -> Any:
    """Return a value as an array of the host's, for what is asked for; an array as it is."""
    return x.fetched(what) if isinstance(x, Elsewhere) else x


def in_place_of(old: Any, new: Any) -> Any:
    """Return a tensor's new value, moved to the device of the old one if it is whole."""
    if isinstance(new, Elsewhere) and (new.place is None or new.place == getattr(old, "place", None)):
        return new
    new = here(new, "a value")
    if type(old) is type(new) is np.ndarray and not old.flags.c_contiguous and old.shape == new.shape:
        return laid_like(new, old)
    return old.taken(new) if isinstance(old, Elsewhere) else new


def as_data(x: Any) -> Any:
    """Return a tensor's value: an array of the host, or a value on another device."""
    return x if isinstance(x, Elsewhere) else np.asarray(x)


# -- devices

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
    """Return the `Placing` that puts arrays on devices."""
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


def place_of(x: Any) -> str:
    """Return the name of the device that a tensor's value is on; of an abstract one the processor's."""
    data = x._array
    return CPU if type(data) is np.ndarray or data is None else getattr(data, "place", None) or CPU


def moved(data: Any, place: str) -> Any:
    """Return a value, an array or one on a device, on another device, by its one name."""
    value = here(data, f"to({place!r})")
    return value if place == CPU else placing().put(value, place)


def check_move(x: Any, place: str) -> None:
    """Raise where a tensor's value, or its gradient's, cannot go to a device: it is not in one place."""
    if x._array is not None and isinstance(x._array, Elsewhere) and x._array.place is None and place != CPU:
        x._array.refuse(f"to({place!r})")
    if x.grad is not None:
        check_move(x.grad, place)


def move_(x: Any, place: str) -> None:
    """Move a tensor's value, and its gradient's, to a device; the object stays the one that others refer to."""
    if x._array is not None and place_of(x) != place:
        data = moved(x._array, place)
        leave(x)
        x._data, x._spec = data, data.spec if isinstance(data, Elsewhere) else spec_of(data.shape, data.dtype)
    if x.grad is not None:
        move_(x.grad, place)
