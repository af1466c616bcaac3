"""Functions that say where tensors lie in memory: `as_strided`, `set_`, `empty_strided`, `resize_`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.errors import DTypeError, GradientError, GraphError, RangeError, ShapeError, WriteError, fail
from ...core.graph.snapshot import LEAVES
from ...core.ops.record import bind
from ...core.spec import default_float, show, spec_of
from ...core.standins import DataView
from ...core.state.capture import get_capture
from ...core.state.refusals import refuse
from ...core.storage import Storage, address, bounds, is_shared, join, laid_in, move, share, window_of
from ...core.tensor import asarray, wrap
from ...ops.index.indices import index_op
from ...ops.index.views import THROUGH, layout, lie_in
from ...ops.structure.shapes import reshaped
from ..namespace import as_torch, function, method, tensor_of
from ..storage import UntypedStorage
from ..tensor import Tensor, preserve_format
from .creation import finished, wanted
from .indexing import window_scatter
from .shaping import as_method, copies, sizes_of

# -- windows into memory


def _strided(shape: tuple[int, ...], size: Any, stride: Any, storage_offset: Any) -> Any:
    sizes, steps = sizes_of((size,)), sizes_of((stride,))
    at = np.full((1,) * len(sizes), int(storage_offset or 0))
    for axis, (n, step) in enumerate(zip(sizes, steps, strict=True)):
        at = at + np.arange(n).reshape([-1 if i == axis else 1 for i in range(len(sizes))]) * step
    if at.size and (at.min() < 0 or at.max() >= math.prod(shape)):
        _refuse_beyond(sizes, steps, storage_offset, f"a tensor of {shape}", "the tensor's own elements")
    return tensor_of(asarray(at, copy=False))


def _refuse_beyond(sizes: Any, steps: Any, offset: Any, what: str, all_there_are: str) -> None:
    fail(
        RangeError,
        f"as_strided with sizes {sizes}, strides {steps}, offset {offset or 0} of {what}",
        f"It reaches beyond {all_there_are}, which are all that there are.",
    )


def _fills_memory(x: Any, in_part: bool) -> bool:
    """Return whether the elements lie in row-major order, and, but for `in_part`, are all that the memory has."""
    window = window_of(x)
    lies = window if window is not None else layout(x)
    if lies is None or not lies.flags.c_contiguous:
        return False
    if in_part:
        return True
    whole = lies
    while isinstance(whole.base, np.ndarray):
        whole = whole.base
    return x._share is None or whole.nbytes == lies.nbytes


def _is_given(x: Any) -> bool:
    """Return whether elements without a value yet lie in the memory of an input of a trace."""
    if window_of(x) is not None:
        return False
    node = x.writes_through.source(x)
    return node is None or node.op in LEAVES


def _window_of_memory(s: Storage, dtype: Any, sizes: Any, steps: Any, offset: int) -> Any:
    """Return the array that lies in a memory at strides and an offset, in elements of a dtype.

    Raises RangeError beyond the memory, ShapeError for what no window is.
    """
    low, high = bounds(s.whole)
    if len(sizes) != len(steps) or any(n < 0 for n in (*sizes, *steps)) or offset < 0:
        fail(
            ShapeError,
            f"a window into memory with sizes {sizes}, strides {steps}, offset {offset}",
            "None may be negative.",
        )
    last = offset + sum((n - 1) * step for n, step in zip(sizes, steps))
    if math.prod(sizes) and (last + 1) * dtype.itemsize > high - low:
        count = (high - low) // dtype.itemsize
        _refuse_beyond(sizes, steps, offset, f"a memory of {count} elements", "its elements")
    place = low - address(s.whole) + offset * dtype.itemsize
    return laid_in(s, dtype, tuple(sizes), tuple(step * dtype.itemsize for step in steps), place)


@function()
def as_strided(input: Any, size: Any, stride: Any, storage_offset: int | None = None) -> Any:
    """Return the elements at steps in the memory that the tensor lies in.

    `storage_offset` is counted from the beginning of the memory; where it is left out, from the tensor's own.

    A write to the result reaches the tensor, and the other way round. Raises RangeError beyond the memory, ShapeError
    where gradients are recorded for a part of another tensor that lies in another order, or with an offset, GraphError
    in a compiled function for the memory of what that is given: `torch.compile` runs it eagerly then.

    >>> import wengert.torch as torch
    >>> x = torch.arange(6)[2:4]
    >>> x.as_strided((2, 2), (3, 1), 0)
    tensor([[0, 1],
            [3, 4]])
    """
    x = tensor_of(input)
    if type(window_of(x)) is np.ndarray and not x.requires_grad:
        s, sizes = share(x).storage, sizes_of((size,))
        offset = x.storage_offset() if storage_offset is None else storage_offset
        out = as_torch(wrap(_window_of_memory(s, x.spec.dtype, sizes, sizes_of((stride,)), offset)))
        join(out, x)
        return out
    if not _fills_memory(x, storage_offset is None):
        # Outside of a compiled function it has a value, and gives the elements.
        fail(
            GraphError if window_of(x) is None else ShapeError,
            f"as_strided of {show(x.shape, x.dtype)}, which is part of a tensor or lies in another order",
            "Strides would be those of that tensor's memory. Take them from the tensor itself, or of x.contiguous().",
        )
    if _is_given(x):
        fail(
            GraphError,
            f"as_strided of {show(x.shape, x.dtype)}, in the memory of what a compiled function is given",
            "How that lies may differ from call to call. Take the strides outside, or of x.clone().",
        )
    at = _strided(tuple(x.shape), size, stride, storage_offset)
    out = as_torch(bind(index_op, (reshaped(x, (x.numel(),)), at), {"axis": -1}))
    steps = [n * x.dtype.itemsize for n in (stride if isinstance(stride, (tuple, list)) else (stride,))]
    return lie_in(out, x, lambda whole: _window(whole, out.shape, steps, (storage_offset or 0) * x.dtype.itemsize))


def _window(whole: Any, shape: Any, steps: Any, offset: int) -> Any:
    """Return the window of an array in row-major order that begins so many bytes after it."""
    if not math.prod(shape):
        return np.empty(tuple(shape), whole.dtype)
    return np.ndarray(tuple(shape), whole.dtype, whole.reshape((-1,)).view(np.uint8), offset, steps)


copies(as_strided, "as_strided_copy")
window_scatter(
    "as_strided_scatter",
    lambda x, size, stride, storage_offset=None: _strided(tuple(x.shape), size, stride, storage_offset),
    "the elements at steps in memory",
)


@function(method=False)
def empty_strided(
    size: Any,
    stride: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Return a tensor of zeros that lies in memory at strides, given in elements. Raises ShapeError for negative ones.

    >>> import wengert.torch as torch
    >>> torch.empty_strided((2, 3), (1, 2)).is_contiguous()
    False
    """
    sizes, steps = sizes_of((size,)), sizes_of((stride,))
    kind = wanted(dtype, default_float())
    count = 1 + sum((n - 1) * step for n, step in zip(sizes, steps)) if math.prod(sizes) else 0
    s = share(wrap(np.zeros(max(count, 0), kind))).storage
    made = wrap(_window_of_memory(s, kind, sizes, steps, 0))
    return finished(made, requires_grad, device)


@method()
def new_empty_strided(
    self: Any,
    size: Any,
    stride: Any,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """Return `empty_strided` of the tensor's dtype, unless another one is given."""
    kind = self.spec.dtype if dtype is None else dtype
    return empty_strided(size, stride, dtype=kind, device=device, requires_grad=requires_grad)


# -- another memory for the same tensor


def _move(x: Any, array: Any, source: Any) -> Any:
    """Give a tensor another array, which lies in the memory of `source` (None: in its own)."""
    move(x, array, source)
    x._spec = spec_of(array.shape, array.dtype)
    return x


def _check_move(x: Any, what: str) -> None:
    if x.requires_grad:
        fail(GradientError, f"{what} of a tensor that requires gradients", "Make a new tensor.")
    if not isinstance(window_of(x), np.ndarray) or get_capture() is not None:
        refuse(f"{what} of an abstract tensor {x.spec}", "Make a new tensor, or do it outside.", x)


@method()
def as_strided_(self: Any, size: Any, stride: Any, storage_offset: int | None = None) -> Any:
    """Give the tensor the elements at steps in its memory, as `as_strided` does. Returns it."""
    _check_move(self, "as_strided_")
    out = as_strided(self, size, stride, storage_offset)
    return _move(self, window_of(out), out)


@method()
def set_(self: Any, source: Any = None, storage_offset: int = 0, size: Any = None, stride: Any = None) -> Any:
    """Give the tensor the memory of another one, or of a storage, with sizes and strides in it. Returns it.

    A write to either is seen by both from then on. Without a source the tensor is empty. Raises DTypeError for a source
    of another dtype, RangeError beyond the memory, GradientError for a tensor that requires gradients.

    >>> import wengert.torch as torch
    >>> x, y = torch.empty(0), torch.arange(4.0)
    >>> x.set_(y).fill_(1.0)
    tensor([1., 1., 1., 1.])
    >>> y
    tensor([1., 1., 1., 1.])
    """
    _check_move(self, "set_")
    if source is None:
        return _move(self, np.empty((0,), self.spec.dtype), None)
    if isinstance(source, UntypedStorage):
        base: Any = source.elements
        if type(source) is not UntypedStorage and base.dtype != self.dtype:
            fail(DTypeError, f"set_ of {self.spec} to a storage of {base.dtype}", "Both have one dtype.")
        count = source.nbytes() // self.itemsize
        sizes = (max(count - storage_offset, 0),) if size is None else sizes_of((size,))
    else:
        base = tensor_of(source)
        if base.dtype != self.dtype:
            fail(DTypeError, f"set_ of {self.spec} to {base.spec}", "Both have one dtype.")
        if not isinstance(window_of(base), np.ndarray):
            refuse(f"set_ to an abstract tensor {base.spec}", "Make a new tensor, or do it outside.", base)
        if size is None:
            return _move(self, window_of(base), base)
        sizes = sizes_of((size,))
    if stride is None:
        steps = tuple(math.prod(sizes[i + 1 :]) for i in range(len(sizes)))
    else:
        steps = sizes_of((stride,))
    array = _window_of_memory(share(base).storage, self.spec.dtype, sizes, steps, storage_offset)
    return _move(self, array, base)


@as_method("resize_")
def resize_(self: Any, *sizes: Any, memory_format: Any = preserve_format) -> Any:
    """Give the tensor another shape, in row-major order, in its memory: its elements come in the order of memory.

    Where the memory is too small, zeros follow; PyTorch has any numbers there. Returns the tensor. Raises WriteError
    where memory that others share is too small, GradientError for a tensor that requires gradients.
    """
    shape = sizes_of(sizes, "sizes")
    _check_move(self, "resize_")
    if shape == tuple(self.shape):
        return self
    base = share(self)
    low, high = bounds(base.storage.whole)
    offset, width = self.storage_offset(), self.itemsize
    if (offset + math.prod(shape)) * width <= high - low:
        steps = tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))
        return as_strided_(self, shape, steps, offset)
    if is_shared(self):
        fail(
            WriteError,
            f"resize_ of {show(self.shape, self.dtype)} to {shape}, in memory that others share",
            "It is too small, and theirs would have to move. Make a new tensor.",
        )
    flat = window_of(self)
    flat = flat.transpose(sorted(range(flat.ndim), key=lambda i: -abs(flat.strides[i]))).reshape(-1)
    new = np.zeros(math.prod(shape), flat.dtype)
    new[: flat.size] = flat
    return _move(self, new.reshape(shape), None)


@as_method("resize_as_")
def resize_as_(self: Any, other: Any, memory_format: Any = None) -> Any:
    """Give the tensor the shape of `other` as `resize_` does. Returns it."""
    return self.resize_(tuple(other.shape))
