"""Shapes and axes with PyTorch's names, parameters and meaning: `reshape`, `view`, `squeeze`, `transpose`, `expand`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import wengert as wg

from ...core.arrays import in_order_of
from ...core.errors import DTypeError, GradientError, GraphError, ShapeError, WriteError, fail
from ...core.mode import get_mode
from ...core.ops.declare import METHODS, PUBLIC
from ...core.spec import broadcast_shapes as common_shape
from ...core.spec import normalize_axis, show
from ...core.standins import DataView
from ...core.state.blocks import to_come
from ...core.state.capture import get_capture
from ...core.state.refusals import refuse
from ...core.storage import is_shared, join, leave, root_of, storage_of, window_of
from ...core.tensor import Tensor as Plain
from ...core.tensor import asarray, base_of, wrap
from ...ops.aliases import alias
from ...ops.index.formats import with_channels_last
from ...ops.index.inplace import check_write, old_version
from ...ops.index.memory import shares
from ...ops.index.views import THROUGH, layout
from ...ops.structure.shapes import int_args, reshaped
from ..dtypes import dtype
from ..namespace import FUNCTIONS, as_torch, function, give, method, tensor_of
from ..tensor import TYPES, Size, Tensor, contiguous_format, dtype_of, formatted


def axis_of(dim: Any, ndim: int) -> int:
    """Return an axis counted from the left; a tensor without axes takes 0 and -1. Raises ShapeError."""
    count = ndim if ndim else 1
    return normalize_axis(dim, count) + count


@function(method=False)
def detach(input: Any) -> Tensor:
    """Return the tensor without what it was computed from: no gradient flows through it; see `Tensor.detach`."""
    return input.detach()  # type: ignore[no-any-return]


def own(out: Any, source: Any = None) -> Any:
    """Return a result that shares nothing with what it was made from: a write to it stays its own."""
    if out is source:
        return formatted(out.clone(), contiguous_format)
    leave(out)
    data = out._array
    if type(data) is np.ndarray and not data.flags.c_contiguous:
        out._data = np.ascontiguousarray(data)
    return out


def sizes_of(given: tuple[Any, ...], what: str = "shape") -> tuple[int, ...]:
    """Return sizes that come one by one or as a sequence, of ints or of tensors that are ints."""
    return int_args(tuple(given[0]) if len(given) == 1 and isinstance(given[0], (tuple, list)) else given, what)


def as_method(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator: make a function the method `name`, and that alone."""

    def declare(fn: Callable[..., Any]) -> Callable[..., Any]:
        fn.__name__ = fn.__qualname__ = name
        return method()(fn)

    return declare


# -- reshape and view


def _taken(out: Any, x: Any) -> Any:
    """Return a reshaped tensor as one of its own, where its elements would have to be copied, as PyTorch does."""
    if type(x) not in to_come and window_of(x) is None and out is not x:
        whole = layout(x)
        if whole is not None and not shares(whole.reshape(tuple(out.shape)), whole):
            leave(out)
    return out


@function(method=False)
def reshape(input: Any, shape: Any) -> Any:
    """Return the elements in another shape, one size of which may be -1. Raises ShapeError.

    >>> import wengert.torch as torch
    >>> torch.reshape(torch.arange(4), (2, -1))
    tensor([[0, 1],
            [2, 3]])
    """
    x = tensor_of(input)
    return _taken(METHODS["reshape"](x, sizes_of((shape,))), x)


@as_method("reshape")
def reshape_method(self: Any, *shape: Any, **named: Any) -> Any:
    """Return the elements in another shape, whose sizes come one by one or as a sequence. Raises ShapeError."""
    return _taken(METHODS["reshape"](self, sizes_of((named["shape"],) if named else shape)), self)


def laid_out(x: Any, shape: Any = None) -> Any:
    """Give a tensor of its own the layout in memory that PyTorch's has, so that a view of it (of that shape) is one."""
    if type(x) in to_come:
        return x
    data = window_of(x)
    if type(data) is np.ndarray and not data.flags.c_contiguous and not is_shared(x):
        fits = shape is not None and data.size and math.prod(shape) == data.size and -1 not in shape
        if fits and shares(data.reshape(shape), data):
            return x
        x._data = np.ascontiguousarray(data)
    return x


@as_method("view")
def view(self: Any, *shape: Any, **named: Any) -> Any:
    """Return the elements in another shape, whose sizes come one by one or as a sequence; or read as another dtype.

    Writes to the result reach the tensor. Raises ShapeError, and DTypeError for a dtype of another size whose elements
    the last axis does not fill.
    """
    given = named.get("dtype", named.get("size", shape[0] if len(shape) == 1 else shape))
    if isinstance(given, (dtype, np.dtype, str, type)):
        return _read_as(self, dtype_of(given))
    sizes = sizes_of((given,) if type(given) is int else tuple(given))
    return METHODS["reshape"](self if sizes == tuple(self.shape) else laid_out(self, sizes), sizes)


def _read_as(x: Any, dtype: Any) -> Any:
    if dtype == x.dtype:
        return METHODS["reshape"](x, x.shape)
    if dtype.kind == "c" and x.dtype.kind == "f" and dtype.itemsize == 2 * x.dtype.itemsize:
        return as_torch(wg.view_as_complex(x.reshape(*x.shape[:-1], -1, 2)))
    if dtype.kind == "f" and x.dtype.kind == "c" and 2 * dtype.itemsize == x.dtype.itemsize:
        return as_torch(wg.view_as_real(x)).reshape(*x.shape[:-1], -1)
    if x._array is None:
        refuse(
            f"view() of an abstract tensor {x.spec} as {dtype}",
            "The bits of a value are read where there are some: do this outside of the traced function.",
            x,
        )
    try:
        same = dtype.itemsize == x.spec.dtype.itemsize
        bits = window_of(x if same else laid_out(x)).view(dtype)
    except (ValueError, TypeError) as e:
        fail(DTypeError, f"view() of {show(x.shape, x.dtype)} as {dtype}: {e}")
    out: Any = as_torch(wrap(bits))
    join(out, x, keeps_gradients=False)
    return out


@as_method("view_as")
def view_as(self: Any, other: Any) -> Any:
    """Return the elements in the shape of `other`. Raises ShapeError."""
    return self.view(other.shape)


@function()
def flatten(input: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    """Return the axes from `start_dim` to `end_dim`, inclusive, merged into one. Raises ShapeError.

    >>> import wengert.torch as torch
    >>> torch.flatten(torch.zeros(2, 3, 4), start_dim=1).shape
    torch.Size([2, 12])
    """
    x = tensor_of(input)
    ndim = max(x.ndim, 1)
    if x.ndim and axis_of(start_dim, ndim) == axis_of(end_dim, ndim):
        return x
    return _taken(as_torch(PUBLIC["flatten"](x, start_dim, end_dim)), x)


@function()
def ravel(input: Any) -> Any:
    """Return the elements as one axis without gaps."""
    x = contiguous(flatten(input))
    return METHODS["reshape"](x, x.shape) if x is input else x


@function()
def unflatten(input: Any, dim: int, sizes: Any) -> Any:
    """Return one axis split into several of the given sizes, one of which may be -1. Raises ShapeError."""
    x = tensor_of(input)
    return _taken(as_torch(PUBLIC["unflatten"](x, dim, sizes_of((sizes,)))), x)


@as_method("contiguous")
def contiguous(self: Any, memory_format: Any = contiguous_format) -> Any:
    """Return the tensor itself where its elements lie in C order, or in that of a memory format, else a copy."""
    window = window_of(self)
    if type(window) is np.ndarray and memory_format is contiguous_format and window.flags.c_contiguous:
        return self
    if window is None and layout(self) is None:
        return METHODS["reshape"](self, self.shape)
    return formatted(self, memory_format)


@function()
def clone(input: Any, *, memory_format: Any = None) -> Any:
    """Return a copy, to which gradients flow through. It lies in memory as the tensor does, unless a format is given.

    What is expanded, or a part of another tensor, keeps the order of its axes and loses its gaps.
    """
    out = PUBLIC["clone"](tensor_of(input))
    return out if memory_format is None else formatted(out, memory_format)


def view_as_real(input: Any) -> Any:
    """Return complex numbers as pairs of real ones along a new last axis. Raises DTypeError."""
    return as_torch(wg.view_as_real(tensor_of(input)))


def view_as_complex(input: Any) -> Any:
    """Return pairs of real numbers along the last axis as complex ones. Raises DTypeError, ShapeError."""
    x = tensor_of(input)
    window = window_of(x)
    is_packed = type(window) is not np.ndarray or not window.ndim or window.strides[-1] == window.itemsize
    return as_torch(wg.view_as_complex(x if is_packed else laid_out(x)))


function(method=False)(view_as_real)
function(method=False)(view_as_complex)


# -- axes of size 1


@function()
def squeeze(input: Any, dim: Any = None) -> Any:
    """Return the tensor without those axes, or the given ones among them, that have size 1. Others stay.

    >>> import wengert.torch as torch
    >>> torch.squeeze(torch.zeros(1, 3, 1)).shape, torch.squeeze(torch.zeros(1, 3), 1).shape
    (torch.Size([3]), torch.Size([1, 3]))
    """
    x = tensor_of(input)
    if dim is None:
        return as_torch(PUBLIC["squeeze"](x))
    axes = {axis_of(d, x.ndim) for d in (dim if isinstance(dim, (tuple, list)) else (dim,))}
    return as_torch(PUBLIC["squeeze"](x, tuple(sorted(a for a in axes if x.ndim and x.shape[a] == 1))))


@function()
def unsqueeze(input: Any, dim: int) -> Any:
    """Return the tensor with a new axis of size 1 at `dim`. Raises ShapeError.

    >>> import wengert.torch as torch
    >>> torch.unsqueeze(torch.zeros(3), 0).shape
    torch.Size([1, 3])
    """
    return as_torch(PUBLIC["expand_dims"](tensor_of(input), dim))


def _at_least(ndim: int) -> None:
    def raised(x: Any) -> Any:
        if x.ndim >= ndim:
            return x
        if ndim == 3 and x.ndim == 2:
            return unsqueeze(x, 2)
        return x.reshape((1,) * (ndim - 1 - (ndim == 3)) + (x.numel(),) + (1,) * (ndim == 3))

    def make(*tensors: Any) -> Any:
        if len(tensors) == 1 and not isinstance(tensors[0], (tuple, list)):
            return raised(tensor_of(tensors[0]))
        given = tensors[0] if len(tensors) == 1 else tensors
        return tuple(raised(tensor_of(t)) for t in given)

    make.__name__ = make.__qualname__ = f"atleast_{ndim}d"
    make.__doc__ = f"Return the tensor with at least {ndim} axes; several, or a sequence of them, give a tuple."
    function(method=False)(make)


for _ndim in (1, 2, 3):
    _at_least(_ndim)


# -- the order of axes


@function()
def permute(input: Any, *dims: Any, **named: Any) -> Any:
    """Return the tensor with its axes in another order, given one by one or as a sequence. Raises ShapeError."""
    return as_torch(PUBLIC["permute"](tensor_of(input), *((named["dims"],) if named else dims)))


def _exchange(name: str, first: str, second: str) -> None:
    def exchange(input: Any, dim0: int, dim1: int) -> Any:
        x = tensor_of(input)
        if not x.ndim:
            return x.view(()) if axis_of(dim0, 0) == axis_of(dim1, 0) else x
        return as_torch(PUBLIC["swapaxes"](x, axis_of(dim0, x.ndim), axis_of(dim1, x.ndim)))

    exchange.__name__ = exchange.__qualname__ = name
    exchange.__doc__ = "Return the tensor with two axes exchanged. Raises ShapeError for one that does not exist."
    function()(alias(**{first: "dim0", second: "dim1"})(exchange) if first != "dim0" else exchange)


for _name in ("transpose", "swapdims"):
    _exchange(_name, "dim0", "dim1")
_exchange("swapaxes", "axis0", "axis1")


@function("moveaxis")
def movedim(input: Any, source: Any, destination: Any) -> Any:
    """Return the tensor with axes moved to other places, the rest in their order. Raises ShapeError."""
    x = tensor_of(input)
    if not x.ndim:
        return x.view(())
    return as_torch(PUBLIC["moveaxis"](x, source, destination))


@function()
def t(input: Any) -> Any:
    """Return a matrix transposed; fewer axes stay as they are. Raises ShapeError for more than two."""
    x = tensor_of(input)
    return as_torch(PUBLIC["t"](x)) if x.ndim == 2 else x.view_as(x) if x.ndim < 2 else _no_matrix(x, "t()")


def _no_matrix(x: Any, what: str) -> Any:
    fail(ShapeError, f"{what} of {show(x.shape, x.dtype)}", "It takes a matrix; x.mT transposes the last two axes.")


@function()
def adjoint(input: Any) -> Any:
    """Return the last two axes exchanged, and complex numbers conjugated. Raises ShapeError for fewer than two."""
    x = tensor_of(input)
    if x.ndim < 2:
        _no_matrix(x, "adjoint")
    turned = x.swapaxes(-1, -2)
    return wg.conj(turned) if x.is_complex() else turned


def _reversed(x: Any) -> Any:
    """Return the tensor with all its axes in reverse order."""
    return x.permute(*reversed(range(x.ndim))) if x.ndim else x


def _swapped(x: Any) -> Any:
    """Return the tensor with its last two axes exchanged."""
    return x.swapaxes(-1, -2) if x.ndim else x


def _conjugated(x: Any) -> Any:
    """Return the matrix transposed, and complex numbers conjugated."""
    if x.ndim not in (0, 2):
        _no_matrix(x, ".H")
    return adjoint(x) if x.ndim else (wg.conj(x) if x.is_complex() else x)


def _adjoint(x: Any) -> Any:
    """Return the tensor with its last two axes exchanged, and complex numbers conjugated."""
    return adjoint(x) if x.ndim else (wg.conj(x) if x.is_complex() else x)


for _name, _of in (("T", _reversed), ("mT", _swapped), ("H", _conjugated), ("mH", _adjoint)):
    setattr(Tensor, _name, property(_of))


@function()
def flip(input: Any, *dims: Any, **named: Any) -> Any:
    """Return the elements in reverse order along axes, given one by one or as a sequence. Raises ShapeError."""
    x = tensor_of(input)
    axes = tuple({axis_of(d, x.ndim) for d in sizes_of(tuple(named.values()) or dims, "dims")})
    out = own(as_torch(PUBLIC["flip"](x, axes if x.ndim else ())), x)
    given = window_of(x)
    if type(given) is np.ndarray and not given.flags.c_contiguous:
        out._data = in_order_of(out._array, (given,))
    return out


def _flips(name: str, axis: int) -> None:
    def flips(input: Any) -> Any:
        x = tensor_of(input)
        if x.ndim <= axis:
            fail(ShapeError, f"{name} of {show(x.shape, x.dtype)}", f"It takes at least {axis + 1} axes.")
        return flip(x, axis)

    flips.__name__ = flips.__qualname__ = name
    flips.__doc__ = f"Return the elements in reverse order along axis {axis}. Raises ShapeError where there is none."
    function()(flips)


_flips("flipud", 0)
_flips("fliplr", 1)


@function()
@alias(axis="dims", dim="dims")
def roll(input: Any, shifts: Any, dims: Any = None) -> Any:
    """Return the elements shifted along axes, or flattened where none is given. Raises ShapeError."""
    x = tensor_of(input)
    if not x.ndim:
        return own(x.view(()))
    axes = None if dims is None or dims == () or dims == [] else dims
    by = shifts[0] if axes is None and isinstance(shifts, (tuple, list)) and len(shifts) == 1 else shifts
    out = as_torch(PUBLIC["roll"](x, by, axes)).clone()
    return out if axes is None else with_channels_last(out, x)


@function()
def rot90(input: Any, k: int = 1, dims: Any = (0, 1)) -> Any:
    """Return the plane of two axes turned by 90 degrees `k` times, from the first axis towards the second."""
    x = tensor_of(input)
    first, second = (axis_of(d, x.ndim) for d in dims)
    if first == second:
        fail(ShapeError, f"rot90 in the axes {tuple(dims)}", "They are two.")
    turns = k % 4
    if turns == 0:
        return formatted(x.clone(), contiguous_format)
    if turns == 2:
        return flip(x, first, second)
    out = flip(x, second).swapaxes(first, second) if turns == 1 else flip(x.swapaxes(first, second), second)
    leave(out)
    return out


# -- repetition


@as_method("expand")
def expand(self: Any, *sizes: Any, implicit: bool = False, **named: Any) -> Any:
    """Return the tensor repeated along axes of size 1 and new ones; -1 keeps the size of an axis. Raises ShapeError."""
    out = as_torch(METHODS["expand"](self, *((named["size"],) if named else sizes)))
    return METHODS["reshape"](self, self.shape) if out is self else out


@as_method("expand_as")
def expand_as(self: Any, other: Any) -> Any:
    """Return the tensor repeated to the shape of `other`. Raises ShapeError."""
    return self.expand(other.shape)


@function()
@alias(shape="size")
def broadcast_to(input: Any, size: Any) -> Any:
    """Return the tensor repeated to a shape that it broadcasts to. Raises ShapeError."""
    return tensor_of(input).expand(size)


@function(method=False)
def broadcast_shapes(*shapes: Any) -> Size:
    """Return the shape that tensors of these shapes broadcast to. Raises ShapeError."""
    return Size(PUBLIC["broadcast_shapes"](*shapes))


@function(method=False)
def broadcast_tensors(*tensors: Any) -> Any:
    """Return tensors repeated to the shape that they have in common. Raises ShapeError."""
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors
    found = [tensor_of(t) for t in given]
    shape = broadcast_shapes(*(tuple(t.shape) for t in found))
    return tuple(as_torch(METHODS["expand"](t, *shape)) for t in found)


@as_method("sum_to_size")
def sum_to_size(self: Any, *size: Any) -> Any:
    """Return the sum over what a broadcast from these sizes would have repeated. Raises ShapeError."""
    shape = sizes_of(size, "size")
    if common_shape(shape, self.shape) != tuple(self.shape):
        fail(
            ShapeError, f"sum_to_size of {show(self.shape, self.dtype)} to {shape}", "It must broadcast to the tensor."
        )
    extra = self.ndim - len(shape)
    axes = (*range(extra), *(i + extra for i, n in enumerate(shape) if n == 1 and self.shape[i + extra] != 1))
    return reshaped(as_torch(wg.sum(self, axis=axes, keepdims=True)), shape) if axes else self


@function()
@alias(reps="dims")
def tile(input: Any, *dims: Any) -> Any:
    """Return the tensor laid out several times along each axis, the last axis last. Raises ShapeError."""
    x = tensor_of(input)
    return own(as_torch(PUBLIC["tile"](x, sizes_of(dims, "dims"))), x)


@as_method("repeat")
def repeat(self: Any, *repeats: Any, **named: Any) -> Any:
    """Return the tensor laid out several times, with a number for each axis. Raises ShapeError for fewer numbers."""
    times = sizes_of((named["repeats"],) if named else repeats, "repeats")
    if len(times) < self.ndim:
        fail(
            ShapeError,
            f"repeat of {show(self.shape, self.dtype)} by {times}",
            "Give a number for each axis. To repeat each element, use repeat_interleave.",
        )
    return tile(self, times)


@function()
def repeat_interleave(
    input: Any, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Any:
    """Return each element several times in a row: `repeats` times, or as often as each of its numbers says.

    Without `dim` the tensor is flattened. `repeat_interleave(repeats)` gives each index as often as its number says.
    Raises ShapeError for negative numbers or as many as do not fit, TraceError for numbers that are abstract.
    """
    if repeats is None:
        return repeat_interleave(wg.arange(len(input)), input, 0)
    x: Any = tensor_of(input)
    if isinstance(repeats, Plain) and repeats.ndim == 1 and repeats.shape[0] == 1:
        repeats = repeats[0]
    if isinstance(repeats, Plain) and repeats.ndim == 0 and not repeats.is_abstract:
        repeats = int(repeats)
    if not x.ndim:
        x = x.reshape(1)
    out = own(as_torch(PUBLIC["repeat"](x, repeats, dim)), x)
    if output_size is not None and output_size != (found := out.shape[0 if dim is None else dim]):
        fail(ShapeError, f"repeat_interleave: output_size={output_size}, and {found} elements", "Leave it out.")
    return out


# -- other dtypes


def _conversion(name: str, dtype: str) -> None:
    def convert(self: Any, memory_format: Any = None) -> Any:
        wanted, x = dtype_of(dtype), self
        if x.is_complex() and wanted.kind not in "bc":
            x = wg.real(x).clone()
        return x.to(wanted, memory_format=memory_format)

    convert.__doc__ = f"Return the tensor in the dtype {dtype}; the tensor itself where it has it."
    as_method(name)(convert)


for _name, _dtype in {
    **{n.removesuffix("Tensor").lower(): d for n, d in TYPES.items()},
    "cfloat": "complex64",
    "cdouble": "complex128",
}.items():
    _conversion(_name, _dtype)


@as_method("type_as")
def type_as(self: Any, other: Any) -> Any:
    """Return the tensor in the dtype of `other`."""
    return self.to(other.dtype)


# -- another shape for the same tensor


def _reshaping(name: str) -> None:
    compute = getattr(Tensor, name)

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self._array is None:
            check_write(self, f"{name}_")
            capture = get_capture()
            if capture is not None:
                capture.reshape(self, f"{name}_")
        if self.requires_grad and self.is_leaf:
            fail(GradientError, f"{name}_ of a leaf that requires gradients", "Make a new tensor of it.")
        # Recorded also where nothing else is: gradients have the shape that the tensor has now.
        with wg.enable_grad():
            new = compute(old_version(self) if window_of(self) is None else self, *args, **kwargs)
        # Another way to see the same memory: what it was taken from, and what was taken from it, stay tied to it.
        s, data = storage_of(self), window_of(new)
        if s is not None and s.memory is not None:
            self._window = data
        else:
            self._data = data
        self.node = new.node
        if data is not None:
            self._spec = new.spec
            if s is not None and root_of(s) is self:
                s.whole = data
        return self

    run.__name__ = run.__qualname__ = f"{name}_"
    run.__doc__ = f"Give the tensor the shape of `{name}` of it, and return it. Raises GradientError for a leaf."
    method()(run)


for _name in ("squeeze", "unsqueeze", "transpose", "swapaxes", "swapdims", "t"):
    _reshaping(_name)


def copies(fn: Callable[..., Any], name: str) -> None:
    """Declare PyTorch's `name`: what `fn` gives, as a tensor (or several) of its own."""

    def copy(input: Any, *args: Any, out: Any = None, **kwargs: Any) -> Any:
        found = fn(tensor_of(input), *args, **kwargs)
        several = isinstance(found, (tuple, list))
        parts = tuple(formatted(f.clone(), contiguous_format) for f in (found if several else (found,)))
        made = parts if several else parts[0]
        return made if out is None else give(out, made)

    copy.__name__ = copy.__qualname__ = name
    copy.__doc__ = f"Return a copy of what `{name.removesuffix('_copy')}` gives."
    function(method=False)(copy)


for _name in ("expand", "view", "permute", "squeeze", "unsqueeze", "t", "transpose"):
    copies(FUNCTIONS.get(_name) or getattr(Tensor, _name), f"{_name}_copy")
copies(lambda x: x, "alias_copy")
copies(view_as_real, "view_as_real_copy")
copies(view_as_complex, "view_as_complex_copy")
copies(lambda x: x.detach(), "detach_copy")


@function(method=True)
def resolve_conj(input: Any) -> Any:
    """Return the tensor: conjugates are values, not promises."""
    return tensor_of(input)


@function(method=True)
def resolve_neg(input: Any) -> Any:
    """Return the tensor: negatives are values, not promises."""
    return tensor_of(input)
