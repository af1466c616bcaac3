"""`Tensor`: Wengert's tensor with PyTorch's methods, and what PyTorch's tensors say of themselves.

What operations on such a tensor give is one too; it is laid out as every tensor of Wengert, so that graphs, derivatives
and compiled code know no difference. Only what its methods *mean* is PyTorch's: `x.max(dim)` gives values and indices,
`x.size()` is a call, `x.std()` divides by n - 1.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from ..core.elsewhere import device_name, names_device, place_of
from ..core.errors import DTypeError, GradientError, GraphError, ShapeError, WriteError, fail
from ..core.mode import get_mode
from ..core.node import AfterAccumulation, RemovableHandle
from ..core.ops.declare import METHODS
from ..core.ops.op import Meaning
from ..core.spec import Spec, as_dtype, complex128, default_float, float64, int64
from ..core.standins import DataView
from ..core.storage import (
    address,
    bounds,
    join,
    laid_as,
    leave,
    lend,
    overlaps_itself,
    placed_alone,
    storage_of,
    window_of,
)
from ..core.tensor import Tensor as Plain
from ..core.tensor import asarray, new, of_class
from ..ops.index.formats import array_of, in_order, lying
from ..ops.index.memory import is_same
from ..ops.index.views import THROUGH
from ..ops.pointwise.logic import ON_BOOLEANS
from ..ops.structure.shapes import placed
from .dtypes import DTYPES, dtype, dtype_named

Array = np.ndarray[Any, Any]


class Size(tuple[int, ...]):
    """The shape of a tensor: a tuple of sizes, with the number of elements.

    >>> import wengert.torch as torch
    >>> torch.zeros(2, 3).shape
    torch.Size([2, 3])
    >>> torch.zeros(2, 3).shape.numel()
    6
    """

    __slots__ = ()

    def numel(self) -> int:
        """Return the number of elements."""
        count = 1
        for n in self:
            count *= n
        return count

    def __getitem__(self, index: Any) -> Any:
        found = tuple.__getitem__(self, index)
        return Size(found) if isinstance(index, slice) else found

    def __add__(self, other: Any) -> Any:
        return Size(tuple.__add__(self, tuple(other)))

    def __repr__(self) -> str:
        return f"torch.Size({list(self)})"


class layout(str):
    """The way in which a tensor is held: `torch.strided`, or `torch.sparse_coo` of :mod:`wengert.torch.sparse`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class memory_format(str):
    """An order of axes in memory: `torch.contiguous_format`, `torch.channels_last`, `torch.preserve_format`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


contiguous_format = memory_format("torch.contiguous_format")
preserve_format = memory_format("torch.preserve_format")
channels_last = memory_format("torch.channels_last")
channels_last_3d = memory_format("torch.channels_last_3d")
_CHANNELS_LAST = {channels_last: (0, 2, 3, 1), channels_last_3d: (0, 2, 3, 4, 1)}


def axes_in_memory(format: Any, ndim: int) -> tuple[int, ...] | None:
    """Return the axes from the outermost in memory to the innermost; None for `preserve_format` or no format.

    Raises ShapeError for a format of another number of axes.
    """
    if format is None or format == preserve_format:
        return None
    axes = _CHANNELS_LAST.get(format, tuple(range(ndim)))
    if len(axes) != ndim:
        fail(ShapeError, f"{format} of a tensor with {ndim} axes", f"It is an order of {len(axes)} axes.")
    return axes


# What is to be done where a program trains in several processes that write to the same parameters.
NOT_SHARED = (
    "Other processes would not see what is written: pass values through queues or pipes, or train in one process, "
    "where compiled functions use all cores."
)
strided, sparse_coo = layout("torch.strided"), layout("torch.sparse_coo")
# Layouts that programs ask for, and that no tensor has.
sparse_csr, sparse_csc, sparse_bsr, sparse_bsc, jagged = map(
    layout, ("torch.sparse_csr", "torch.sparse_csc", "torch.sparse_bsr", "torch.sparse_bsc", "torch.jagged")
)


class Elements(int):
    """The number of elements, which called gives the shape: Wengert's `x.size` and PyTorch's `x.size()` in one."""

    shape: Size

    def __call__(self, dim: int | None = None) -> Any:
        """Return the shape, or the size along an axis. Raises IndexError for an axis that does not exist."""
        return self.shape if dim is None else self.shape[dim]


class device(str):
    """The place of a tensor's memory: "cpu", or a device of JAX's. Others can be named, and are refused where used.

    >>> import wengert.torch as torch
    >>> torch.device("cuda" if torch.cuda.is_available() else "cpu")
    device(type='cpu')
    """

    type: str
    index: int | None  # type: ignore[assignment]

    def __new__(cls, name: Any = "cpu", index: int | None = None) -> device:
        if isinstance(name, device) and index is None:
            return name
        if isinstance(name, int):
            name = f"cuda:{name}"
        if index is not None:
            name = f"{name}:{index}"
        self = super().__new__(cls, name)
        self.type, _, number = str(name).partition(":")
        self.index = int(number) if number else None
        return self

    def __repr__(self) -> str:
        more = "" if self.index is None else f", index={self.index}"
        return f"device(type={self.type!r}{more})"

    def __enter__(self) -> device:
        on_cpu(self)
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def __reduce__(self) -> Any:
        return device, (str(self),)


CPU = device("cpu")
_SIZES: dict[Spec, Size] = {}


class Attribute:
    """An attribute that libraries give tensors. It stands beside them, and tensors without it have no room for it."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name
        self._held: dict[int, tuple[weakref.ref[Any], Any]] = {}

    def __get__(self, x: Any, owner: Any = None) -> Any:
        if x is None:
            return self
        found = self._held.get(id(x))
        if found is None:
            raise AttributeError(f"{type(x).__name__!r} object has no attribute {self._name!r}")
        return found[1]

    def __set__(self, x: Any, value: Any) -> None:
        key = id(x)
        self._held[key] = weakref.ref(x, lambda _: self._held.pop(key, None)), value

    def __delete__(self, x: Any) -> None:
        del self._held[id(x)]


# The names that PyTorch's types have in `x.type()` and the constructors called after them.
TYPES: dict[str, str] = {
    "FloatTensor": "float32",
    "DoubleTensor": "float64",
    "HalfTensor": "float16",
    "BFloat16Tensor": "bfloat16",
    "ByteTensor": "uint8",
    "CharTensor": "int8",
    "ShortTensor": "int16",
    "IntTensor": "int32",
    "LongTensor": "int64",
    "BoolTensor": "bool",
}


# The ops that PyTorch has not for booleans: where one operand is such, or where all are.
NO_BOOLEANS: Mapping[str, Callable[[Iterable[bool]], bool]] = MappingProxyType(
    {
        "subtract": any,
        **dict.fromkeys(("negative", "positive", "abs", "ceil", "floor", "round", "trunc"), all),
        **dict.fromkeys(("floor_divide", "remainder", "pow"), all),
    }
)
# The ops in which an integer that does not fit the dtype wraps around; in others it is an error.
WRAPPING = frozenset(
    {
        *("add", "subtract", "multiply", "floor_divide", "remainder", "pad"),
        *("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift"),
    }
)


def on_cpu(place: Any) -> None:
    """Raise DTypeError for any device but the processor."""
    if place is not None and str(place).partition(":")[0] not in ("cpu", "meta"):
        fail(
            DTypeError,
            f"device {str(place)!r}: tensors live on the processor",
            'torch.cuda.is_available() is False; write torch.device("cuda" if torch.cuda.is_available() else "cpu"). '
            "Where JAX has a device, x.to(device) and module.to(device) place what compiled steps compute with.",
        )


def where(place: Any) -> str:
    """Return the one name of a device that tensors can be placed on. Raises DTypeError where there is none."""
    if place is None or str(place).partition(":")[0] in ("cpu", "meta"):
        return "cpu"
    try:
        return device_name(place)
    except GraphError:
        on_cpu(place)
        raise


class Tensor(Plain):
    """An n-dimensional array with PyTorch's methods, which remembers how it was computed.

    `Tensor(2, 3)` has that shape and any values, `Tensor([1.0, 2.0])` these values in the default dtype (the legacy
    constructors; :func:`wengert.torch.tensor` keeps the values' dtype).

    It is a :class:`wengert.Tensor` in every respect but the meaning of some methods.

    >>> import wengert.torch as torch
    >>> x = torch.tensor([[1.0, 4.0], [3.0, 2.0]])
    >>> x.max(dim=1).indices
    tensor([1, 0])
    >>> x.size(), x.size(0), round(x.std().item(), 4)
    (torch.Size([2, 2]), 2, 1.291)
    """

    __slots__ = ()

    writes_through = THROUGH
    scalars_promote = False
    meaning = Meaning(
        ON_BOOLEANS,
        NO_BOOLEANS,
        WRAPPING,
        frozenset({"multiply", "divide", "floor_divide"}),
        mixes_dtypes=False,
        losses_broadcast=True,
        keeps_formats=True,
    )

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return new(cls)

    def __init__(self, *data: Any, device: Any = None, **options: Any) -> None:
        if is_made(self):
            return
        if options:
            raise TypeError(f"{type(self).__name__}() got an unexpected keyword argument {next(iter(options))!r}")
        on_cpu(device)
        made = legacy(None, data)
        self._data, self._spec, self.node, self._share = made._array, made.spec, made.node, None

    # -- what it is

    @property
    def shape(self) -> Size:
        """The size of each dimension."""
        spec = self.spec
        found = _SIZES.get(spec)
        if found is None:
            if len(_SIZES) > 4096:
                _SIZES.clear()
            found = _SIZES[spec] = Size(spec.shape)
        return found

    @property
    def dtype(self) -> Any:
        """The dtype, one of :class:`wengert.torch.dtype`."""
        plain = self.spec.dtype
        return DTYPES[plain] if plain in DTYPES else dtype_named(plain)

    @property
    def size(self) -> Any:
        """The shape, or one size of it, where called; else the number of elements."""
        found = Elements(self.spec.size)
        found.shape = self.shape
        return found

    @property
    def device(self) -> device:
        """The device: the processor, or the one that the tensor was placed on."""
        place = place_of(self)
        return CPU if place == "cpu" else device(place)

    @property
    def layout(self) -> layout:
        """The layout, always strided."""
        return strided

    @property
    def itemsize(self) -> int:
        return self.spec.dtype.itemsize

    def element_size(self) -> int:
        """Return the number of bytes of an element."""
        return self.spec.dtype.itemsize

    def nelement(self) -> int:
        """Return the number of elements."""
        return self.spec.size

    def ndimension(self) -> int:
        """Return the number of dimensions."""
        return len(self.spec.shape)

    def get_device(self) -> int:
        """Return the number of the device that the tensor is placed on; -1 on the processor."""
        index = self.device.index
        return -1 if index is None else index

    def is_signed(self) -> bool:
        """Return whether the dtype has negative numbers."""
        return self.dtype.kind not in "bu"

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Return whether the elements lie in memory in C order, or in that of a memory format, without gaps."""
        array = array_of(self)
        if memory_format in _CHANNELS_LAST:
            axes = _CHANNELS_LAST[memory_format]
            return array is not None and array.ndim == len(axes) and array.transpose(axes).flags.c_contiguous
        return array is None or array.flags.c_contiguous

    def is_same_size(self, other: Plain) -> bool:
        """Return whether both have one shape."""
        return tuple(self.shape) == tuple(other.shape)

    def is_set_to(self, other: Plain) -> bool:
        """Return whether both have the same elements of one memory, in the same shape."""
        if self is other:
            return True
        mine, theirs = window_of(self), window_of(other)
        s = storage_of(self.owner if self.is_name else self)  # type: ignore[attr-defined]
        if s is None or s is not storage_of(other.owner if other.is_name else other):  # type: ignore[attr-defined]
            return False
        return type(mine) is type(theirs) is np.ndarray and is_same(mine, theirs)

    def is_inference(self) -> bool:
        """Return False: tensors made under `inference_mode` are ordinary ones."""
        return False

    def is_pinned(self) -> bool:
        """Return False: there is no other device to copy to."""
        return False

    def is_shared(self) -> bool:
        """Return False: memory that processes share is that of :class:`wengert.torch.utils.data.DataLoader` alone."""
        return False

    is_sparse = is_sparse_csr = is_quantized = is_meta = is_nested = is_mkldnn = False
    # Of devices that no tensor is on.
    is_ipu = is_maia = is_mps = is_mtia = is_vulkan = is_xpu = False

    @property
    def is_cpu(self) -> bool:
        """True where the tensor is on the processor."""
        return place_of(self) == "cpu"

    @property
    def is_cuda(self) -> bool:
        """True where the tensor is placed on a GPU."""
        return place_of(self).startswith(("cuda", "rocm"))

    @property
    def is_xla(self) -> bool:
        """True where the tensor is placed on a device of JAX's that is no GPU."""
        return not self.is_cpu and not self.is_cuda

    @property
    def retains_grad(self) -> bool:
        """True for a tensor that is no leaf and keeps its gradient."""
        node = self.node
        return not self.is_leaf and getattr(getattr(node, "saved", None), "retain", None) is not None

    @property
    def output_nr(self) -> int:
        """The number of the result among those of its operation."""
        return int(self.node.attrs.get("index", 0)) if self.node is not None and self.node.op.name == "output" else 0

    def stride(self, dim: int | None = None) -> Any:
        """Return the strides, in elements; or the one along an axis."""
        array = array_of(self)
        if array is None:
            array = np.empty(self.shape, np.uint8)
        strides = tuple(step // array.itemsize for step in laid_as(array))
        return strides if dim is None else strides[dim]

    def storage_offset(self) -> int:
        """Return how many elements of its memory lie before the tensor's first."""
        x = self.owner if self.is_name else self  # type: ignore[attr-defined]
        s, array = storage_of(x), window_of(x)
        if s is None or not isinstance(array, np.ndarray) or not array.size:
            return 0
        return (address(array) - bounds(s.whole)[0]) // array.itemsize

    def data_ptr(self) -> int:
        """Return the address of the first element, as long as the value stays; 0 where there is none."""
        x = self.owner if self.is_name else self  # type: ignore[attr-defined]
        if not isinstance(window_of(x), np.ndarray):
            found: int = self._value("data_ptr()").ctypes.data
            return found
        return address(placed_alone(x)) if x.numel() else 0

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """Return the name of the type, such as "torch.FloatTensor"; with `dtype` the tensor in that dtype."""
        if dtype is None:
            names = {d: n for n, d in TYPES.items()}
            return f"torch.{names.get(self.dtype.name, self.dtype.name)}"
        return self.to(dtype_of(dtype))

    # -- where it is, and in which dtype

    def to(self, *args: Any, **kwargs: Any) -> Tensor:
        """Return the tensor in another dtype, given as such or by another tensor, on another device, or both.

        A copy is made where `copy` asks, and where the elements do not lie as `memory_format` says. `non_blocking` is
        taken. What is placed on a device computes in compiled functions. Raises DTypeError for a device that there is
        not.
        """
        dtype, copy, to = kwargs.pop("dtype", None), kwargs.pop("copy", False), kwargs.pop("device", None)
        kwargs.pop("non_blocking", None)
        format = kwargs.pop("memory_format", None)
        if kwargs:
            fail(DTypeError, f"to() has no parameter {', '.join(kwargs)}")
        for i, a in enumerate(args):
            if isinstance(a, Plain):
                dtype, to = a.dtype, place_of(a)
            elif isinstance(a, bool):
                copy = a if i == len(args) - 1 and i > 1 else copy
            elif isinstance(a, (device, int)) or (isinstance(a, str) and _is_device(a)):
                to = device(a)
            elif a is not None:
                dtype = dtype_of(a)
        there = place_of(self) if to is None else where(to)
        want = None if dtype is None else dtype_of(dtype)
        if want is None or want == self.dtype:
            out: Any = placed(self, there)
        else:
            out = placed(placed(self, "cpu")._converted(want), there)  # type: ignore[attr-defined]
        out = out.clone() if copy and out is self else out
        return out if format is None else formatted(out, format)

    def _converted(self, dtype: Any) -> Any:
        source = self.spec.dtype
        if source.kind in "fV" and dtype.kind in "iu" and (dtype.kind == "u" or dtype.itemsize < 4):
            # PyTorch's processors count modulo the dtype's size: -1.0 is 255 in uint8.
            return self.astype(int64).astype(dtype)
        return self.astype(dtype)

    def cpu(self, memory_format: Any = None) -> Tensor:
        """Return the tensor on the processor, itself where it is there."""
        return placed(self, "cpu")  # type: ignore[return-value]

    def cuda(self, device: Any = None, non_blocking: bool = False) -> Tensor:
        """Return the tensor on a GPU. Raises DTypeError where JAX has none."""
        return self.to("cuda" if device is None else device if isinstance(device, str) else f"cuda:{device}")

    def pin_memory(self, device: Any = None) -> Tensor:
        """Return the tensor itself: there is no other device to copy to."""
        return self

    def share_memory_(self) -> Tensor:
        """Raise WriteError: a tensor is a value, and memory that several processes write to is not there."""
        fail(WriteError, "share_memory_() of a tensor", NOT_SHARED)

    def numpy(self, *, force: bool = False) -> Array:
        """Return a NumPy array that shares the tensor's memory: a write to either is seen by both.

        With `force=True`, or where nothing is recorded, also of a tensor that requires gradients. Raises GradientError
        for one that requires gradients otherwise, GraphError for an abstract tensor.
        """
        shown = (
            super().numpy() if not (self.requires_grad and (force or not get_mode().grad)) else self.detach().numpy()
        )
        return lend(self) if type(window_of(self)) is np.ndarray and not self.is_weak else shown

    def new_tensor(self, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
        """Return a tensor of `data`, of this one's dtype and on its device unless others are given."""
        out = of_class(Tensor, asarray(data, dtype=self.dtype if dtype is None else dtype_of(dtype), copy=True))
        made: Tensor = placed(out, place_of(self) if device is None else where(device))  # type: ignore[assignment]
        return made.requires_grad_() if requires_grad else made  # type: ignore[return-value]

    def new(self, *data: Any) -> Tensor:
        """Return a tensor of this one's dtype, of a shape or of values, as the legacy constructors do."""
        if len(data) == 1 and isinstance(data[0], Tensor):
            return data[0].view_as(data[0])  # type: ignore[return-value]
        return of_class(Tensor, legacy(self.dtype, data))  # type: ignore[no-any-return]

    @staticmethod
    def _make_subclass(cls: Any, data: Any, require_grad: bool = False, **options: Any) -> Any:
        """Return a tensor of a class of a program's own, below this one, in the memory of another tensor."""
        made: Any = new(cls)
        hold(made, data, "a tensor")
        return made.requires_grad_() if require_grad else made

    def as_subclass(self, cls: Any) -> Any:
        """Return the tensor, in its memory and with its history, as one of a class below this one.

        What is computed from it is an ordinary tensor.
        """
        made = self._make_subclass(cls, self)
        if self.requires_grad:
            made.node = self.view_as(self).node
        return made

    # -- gradients

    @property
    def is_leaf(self) -> bool:
        """True where the user made the tensor, rather than a recorded operation."""
        return Plain.is_leaf.fget(self)  # type: ignore[attr-defined, no-any-return]

    def detach_(self) -> Tensor:
        """Forget how the tensor was computed, or that it collects gradients, and return it."""
        if self.is_leaf:
            self.requires_grad_(False)
        else:
            self.node = None if self._array is not None else self.detach().node
        return self

    def register_hook(self, hook: Any) -> RemovableHandle:
        """Call `hook(gradient)` when this tensor's gradient is computed; what it returns takes the gradient's place.

        Returns a handle whose `remove()` ends it. Raises GradientError for a tensor that does not require gradients.
        """
        return super().register_hook(partial(_told, hook))

    def register_post_accumulate_grad_hook(self, hook: Any) -> RemovableHandle:
        """Call `hook(tensor)` whenever `backward()` has added to this leaf's `.grad`.

        Returns a handle whose `remove()` ends it. Raises GradientError for a tensor that is no leaf, or does not
        require gradients.
        """
        if not self.requires_grad or not self.is_leaf:
            what = "is no leaf" if self.requires_grad else "does not require gradients"
            fail(GradientError, f"register_post_accumulate_grad_hook() on a tensor that {what}", "It has no .grad.")
        return RemovableHandle(self._hooked().hooks, AfterAccumulation(hook), True)


def formatted(x: Any, format: Any) -> Tensor:
    """Return the tensor itself where its elements lie as a memory format says, else a copy in which they do."""
    axes = axes_in_memory(format, x.ndim)
    return x if axes is None else lying(x, axes)  # type: ignore[no-any-return]


def lay(x: Tensor, format: Any) -> None:
    """Have a tensor of four or five axes, as many as the memory format has, lie in memory as that says."""
    if x.ndim in (4, 5) and (format not in _CHANNELS_LAST or len(_CHANNELS_LAST[format]) == x.ndim):
        data: Any = x.data
        x.data = data.contiguous(memory_format=format)


def is_made(x: Any) -> bool:
    """Return whether a class of a program's own has made a tensor in its `__new__`, as one of PyTorch's is made."""
    return type(x).__new__ is not Tensor.__new__  # type: ignore[comparison-overlap]


def hold(x: Tensor, data: Any, what: str) -> None:
    """Give a new tensor the memory of another one, so that a write to either reaches both; other data is copied."""
    given = data.detach() if isinstance(data, Plain) else data
    if isinstance(given, Tensor) and (window := window_of(given)) is not None and not overlaps_itself(window):
        x._data, x._spec, x.node, x._share = window, given.spec, None, None
        join(x, given, keeps_gradients=False)
        return
    made = asarray([] if given is None else given, copy=True)
    held = made._value(what) if made._array is None else made._array
    x._data, x._spec, x.node, x._share = held, made.spec, None, None


def _told(hook: Any, gradient: Plain) -> Any:
    """Call a hook with a gradient of PyTorch's meaning: derivative rules compute with Wengert's own tensors."""
    return hook(of_class(Tensor, gradient))


def _is_device(name: str) -> bool:
    return names_device(name) or name.partition(":")[0] in ("meta", "hip", "mtia", "ipu")


def dtype_of(given: Any) -> Any:
    """Return a dtype by itself, by its name or by the name of PyTorch's type (`torch.FloatTensor`, "torch.LongTensor").

    Python's `float` and `complex` are float64 and complex128, whatever the default dtype is. Raises DTypeError.
    """
    if isinstance(given, dtype):
        return given.dtype
    if given is float or given is complex:
        return float64 if given is float else complex128
    name = getattr(given, "__name__", given) if not isinstance(given, np.dtype) else None
    if isinstance(name, str):
        plain = name.removeprefix("torch.")
        if plain in TYPES:
            return as_dtype(TYPES[plain])
        if isinstance(given, str):
            return as_dtype(plain)
    return as_dtype(given)


def legacy(dtype: Any, data: tuple[Any, ...]) -> Plain:
    """Return the tensor of the legacy constructors: sizes give any values, a sequence or a tensor its values."""
    want = dtype if dtype is not None else default_float()
    if len(data) == 1 and not isinstance(data[0], (int, np.integer, Size)):
        (given,) = data
        return asarray(given, dtype=want, copy=True)
    sizes = tuple(data[0]) if data and isinstance(data[0], Size) else tuple(int(n) for n in data)
    return asarray(np.zeros(sizes if data else (0,), want), copy=False)


Tensor.result_class = Tensor
# Those of Pyro.
for _name in ("unconstrained", "_pyro_dims", "_pyro_backward", "_pyro_dct_dim", "_pyro_custom_init"):
    _attribute = Attribute()
    _attribute.__set_name__(Tensor, _name)
    setattr(Tensor, _name, _attribute)
