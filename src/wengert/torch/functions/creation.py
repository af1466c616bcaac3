"""Tensors from numbers, arrays and shapes: PyTorch's creation functions."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

import numpy as np

import wengert as wg

from ...core.arrays import in_order_of
from ...core.dims import Dim, has_dims
from ...core.elsewhere import place_of
from ...core.errors import DTypeError, GraphError, fail
from ...core.spec import default_complex, default_float, default_int, real_dtype
from ...core.standins import over_array
from ...core.storage import window_of
from ...core.tensor import Tensor as Plain
from ...core.tensor import asarray, of_class
from ...core.tensor import tensor as plain_tensor
from ...ops.index.formats import in_order
from ...ops.random.generator import Examples
from ...ops.structure.shapes import int_args, placed
from ..namespace import FUNCTIONS, as_torch, check_out, fill_out, function, method, tensor_of
from ..storage import UntypedStorage
from ..tensor import TYPES, Tensor, axes_in_memory, dtype_of, formatted, legacy, strided, where


def refuse_same(name: str, *parameters: Any) -> None:
    """Raise GraphError for a draw with parameters that differ between examples which are to draw the same numbers."""
    if Examples.share_draws(parameters):
        fail(
            GraphError,
            f'{name} under vmap(..., randomness="same"), with parameters that differ from one example to the next',
            "Draw numbers without parameters and compute with them, torch.randn(n) * std + mean, "
            'or say randomness="different".',
        )


def finished(
    made: Any, requires_grad: bool = False, device: Any = None, *, out: Any = None, layout: Any = None
) -> Tensor:
    """Return a new tensor of Wengert's as one of this namespace, on a device, a leaf where asked for.

    `out` is given its shape and its values, and returned. Raises DTypeError for a layout that is not strided.
    """
    if layout is not None and layout != strided:
        fail(DTypeError, f"layout={layout}", "New tensors are strided; torch.sparse_coo_tensor makes sparse ones.")
    found: Tensor = of_class(Tensor, made if device is None else placed(made, where(device)))
    if out is not None:
        found = fill_out(out, found)
    return found.requires_grad_() if requires_grad else found  # type: ignore[return-value]


def beside(x: Any, device: Any) -> Any:
    """Return the device for what is made like `x`: the one that is given, or where `x` is; None for the processor."""
    place = place_of(x) if device is None else "cpu"
    return device if place == "cpu" else place


def wanted(dtype: Any, default: Any = None, out: Any = None) -> Any:
    """Return a dtype by any of its names, or that of `out`, or the default. Raises DTypeError for two that differ."""
    want = default if dtype is None else dtype_of(dtype)
    if out is None:
        return want
    check_out(out)
    if dtype is not None and want != out.dtype:
        fail(DTypeError, f"dtype={want} and out= of {out.spec}", "Leave dtype out, or give a tensor of that dtype.")
    return out.spec.dtype


@function(method=False)
def tensor(
    data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False
) -> Tensor:
    """Return a tensor with a copy of `data`: a number, nested sequences, an array, a tensor.

    Python's floats get the default dtype, NumPy arrays and scalars keep theirs. Raises ShapeError for ragged lists,
    DTypeError for data that is not numeric.

    >>> import wengert.torch as torch
    >>> torch.tensor([[1, 2], [3, 4]])
    tensor([[1, 2],
            [3, 4]])
    """
    if isinstance(data, Plain):
        data = data.detach()
    made = plain_tensor(data, wanted(dtype))
    if isinstance(data, np.ndarray) and data.ndim > 1 and not data.flags.c_contiguous:
        made._data = in_order_of(made._array, (np.asarray(data),))
    return finished(made, requires_grad, device)


@function("asarray", method=False)
def as_tensor(data: Any, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Tensor:
    """Return `data` as a tensor: one of this namespace as it is, where nothing has to change; a storage as bytes."""
    want = wanted(dtype)
    data = data.elements if isinstance(data, UntypedStorage) else data
    if isinstance(data, Plain):
        out = data if want is None or data.dtype == want else data.astype(want)
        out = out.clone() if copy else tensor_of(out)
        return out if device is None else finished(out, device=device)  # type: ignore[return-value]
    if isinstance(data, np.ndarray) and not copy and want in (None, data.dtype):
        return finished(over_array(data, Tensor), device=device)
    return finished(asarray(data, dtype=want, copy=copy), device=device)


@function(method=False)
def from_numpy(ndarray: Any) -> Tensor:
    """Return a tensor that shares the memory of a NumPy array: a write to either is seen by both.

    Since the array may be written to at any time, an operation on the tensor first copies what it reads. For data that
    nobody writes to any more, `torch.tensor(array)` copies once.

    >>> import numpy as np
    >>> import wengert.torch as torch
    >>> a = np.zeros(2)
    >>> x = torch.from_numpy(a)
    >>> x[0] = 1.0
    >>> a[1] = 2.0
    >>> a.tolist(), x.tolist()
    ([1.0, 2.0], [1.0, 2.0])
    """
    if not isinstance(ndarray, np.ndarray):
        fail(DTypeError, f"from_numpy() of a {type(ndarray).__name__}", "Write torch.tensor(data).")
    return finished(over_array(ndarray, Tensor))


@function(method=False)
def frombuffer(buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Tensor:
    """Return a tensor of one axis in the memory of an object with Python's buffer protocol (bytes, an array).

    `offset` is counted in bytes, `count` in elements: -1 takes all that follow. Raises ValueError where the buffer
    has too few bytes.

    >>> import wengert.torch as torch
    >>> torch.frombuffer(bytearray([1, 0, 2, 0]), dtype=torch.int16)
    tensor([1, 2], dtype=torch.int16)
    """
    array = np.frombuffer(buffer, dtype_of(dtype), count, offset)
    return finished(over_array(array, Tensor), requires_grad)


@function(method=False)
def from_dlpack(ext_tensor: Any) -> Tensor:
    """Return a tensor of any array on the processor that speaks DLPack, in its memory: writes to either reach both."""
    if isinstance(ext_tensor, Tensor):
        return ext_tensor.view_as(ext_tensor)  # type: ignore[return-value]
    if isinstance(ext_tensor, Plain) or not hasattr(ext_tensor, "__dlpack__"):
        return finished(wg.from_dlpack(ext_tensor))
    try:
        array = np.from_dlpack(ext_tensor)
    except (BufferError, TypeError, ValueError):
        return finished(wg.from_dlpack(ext_tensor))
    return finished(over_array(array, Tensor))


def _of_shape(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return PyTorch's function of sizes, one by one or as a sequence."""

    def make(
        *size: Any,
        out: Any = None,
        dtype: Any = None,
        layout: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        pin_memory: bool = False,
        generator: Any = None,
        **more: Any,
    ) -> Tensor:
        if "size" in more:
            size = (more.pop("size"),)
        format = more.pop("memory_format", None)
        if more:
            fail(DTypeError, f"{fn.__name__}() has no parameter {', '.join(more)}")
        given = {"generator": generator} if generator is not None else {}
        made = finished(fn(int_args(size), dtype=wanted(dtype, out=out), **given), False, device, layout=layout)
        made = made if format is None else formatted(made, format)
        made = made if out is None else fill_out(out, made)
        return made.requires_grad_() if requires_grad else made  # type: ignore[return-value]

    make.__name__ = make.__qualname__ = fn.__name__
    make.__doc__ = f"{(fn.__doc__ or '').split('.')[0].strip()}.\n\nSizes come one by one or as a sequence."
    return make


def _drawn(fn: Callable[..., Any], scale: float) -> Callable[..., Any]:
    """Return a function that draws complex numbers, too: both parts by themselves, times a scale."""

    def draw(shape: Any, *, dtype: Any = None, **given: Any) -> Any:
        if dtype is None or dtype_of(dtype).kind != "c":
            return fn(shape, dtype=dtype, **given)
        whole = dtype_of(dtype)
        real, imag = (fn(shape, dtype=real_dtype(whole), **given) * scale for _ in ("real", "imag"))
        return (real + imag * 1j).astype(whole)

    draw.__name__ = draw.__qualname__ = fn.__name__
    draw.__doc__ = fn.__doc__
    return draw


# The square of a complex normal number's length has the mean 1.
uniform, standard_normal = _drawn(wg.rand, 1.0), _drawn(wg.randn, math.sqrt(0.5))

for _fn in (wg.zeros, wg.ones, wg.empty, uniform, standard_normal):
    function(method=False)(_of_shape(_fn))


def lying_as(made: Tensor, x: Any, format: Any = None) -> Tensor:
    """Return a new tensor of the shape of `x` that lies in memory as `x` does, or in a memory format."""
    axes = axes_in_memory(format, made.ndim)
    data = made._array
    if type(data) is np.ndarray and data.ndim > 1:
        given = window_of(x) if isinstance(x, Plain) else None
        if axes is not None:
            made._data = in_order(data, axes)
        elif type(given) is np.ndarray and not given.flags.c_contiguous:
            made._data = in_order_of(data, (given,))
    return made


def _like(fn: Callable[..., Any]) -> Callable[..., Any]:
    def make(
        input: Any,
        *,
        dtype: Any = None,
        layout: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        memory_format: Any = None,
        generator: Any = None,
    ) -> Tensor:
        given = {"generator": generator} if generator is not None else {}
        want = wanted(dtype, input.dtype)
        made = fn(tuple(input.shape), dtype=want, **given)
        found = finished(made, requires_grad, beside(input, device), layout=layout)
        return lying_as(found, input, memory_format)

    make.__name__ = make.__qualname__ = f"{fn.__name__}_like"
    make.__doc__ = f"Return `{fn.__name__}` in the shape and, unless `dtype` is given, the dtype of `input`."
    return make


for _fn in (wg.zeros, wg.ones, wg.empty, uniform, standard_normal):
    function(method=False)(_like(_fn))


@function(method=False)
def full(
    size: Any,
    fill_value: Any,
    *,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor filled with one number, whose kind decides the dtype where none is given."""
    want = wanted(dtype, np.dtype(bool) if isinstance(fill_value, bool) else None, out)
    made = wg.full(int_args((size,)), fill_value, dtype=want)
    return finished(made, requires_grad, device, out=out, layout=layout)


@function(method=False)
def full_like(
    input: Any,
    fill_value: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Return one number in the shape and, unless `dtype` is given, the dtype of `input`."""
    made = wg.full(tuple(input.shape), fill_value, dtype=wanted(dtype, input.dtype))
    found = finished(made, requires_grad, beside(input, device), layout=layout)
    return lying_as(found, input, memory_format)


@function(method=False)
def scalar_tensor(s: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return a number as a 0-d tensor of the default dtype."""
    return finished(asarray(s, dtype=wanted(dtype, default_float())), requires_grad, device)


@function(method=False)
def arange(
    start: Any,
    end: Any = None,
    step: Any = 1,
    *,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Return the numbers from `start` (0 where only an end is given) up to `end`, which is left out, in steps."""
    start, end = (0, start) if end is None else (start, end)
    start, end, step = (v.item() if isinstance(v, Plain) else v for v in (start, end, step))
    whole = all(isinstance(v, (int, np.integer, Dim)) for v in (start, end, step))
    want = wanted(dtype, default_int if whole else default_float(), out)
    return finished(wg.arange(start, end, step, dtype=want), requires_grad, device, out=out, layout=layout)


@function(method=False)
def range(
    start: Any = 0,
    end: Any = 0,
    step: Any = 1,
    *,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return the numbers from `start` up to `end`, which belongs to them, in steps of `step`."""
    count = int(np.floor((end - start) / step)) + 1
    made = asarray((start + step * np.arange(count)).astype(wanted(dtype, default_float(), out)))
    return finished(made, requires_grad, device, out=out, layout=layout)


@function(method=False)
def linspace(
    start: Any,
    end: Any,
    steps: int,
    *,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return `steps` numbers evenly from `start` to `end`, which both belong to them; complex where one of them is."""
    made = _spaced(wg.linspace, np.linspace, start, end, steps, dtype, out)
    return finished(made, requires_grad, device, out=out, layout=layout)


@function(method=False)
def logspace(
    start: Any,
    end: Any,
    steps: int,
    base: float = 10.0,
    *,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return `base` to the powers that `linspace` gives."""

    def of_open(start: Any, end: Any, steps: Any, dtype: Any) -> Any:
        return wg.logspace(start, end, steps, base, dtype=dtype)

    def powers(start: Any, end: Any, steps: int) -> Any:
        return float(base) ** np.linspace(start, end, steps)

    made = _spaced(of_open, powers, start, end, steps, dtype, out)
    return finished(made, requires_grad, device, out=out, layout=layout)


def _spaced(
    of_open: Callable[..., Any], values: Callable[..., Any], start: Any, end: Any, steps: Any, dtype: Any, out: Any
) -> Any:
    """Return numbers between two ends, of their kind where no dtype is given. Raises DTypeError for complex as real."""
    start, end = (v.item() if isinstance(v, Plain) else v for v in (start, end))
    imaginary = any(isinstance(v, builtins.complex) for v in (start, end))
    want = wanted(dtype, default_complex() if imaginary else default_float(), out)
    if imaginary and want.kind != "c":
        fail(DTypeError, f"numbers from {start} to {end} in {want}", "Numbers between complex ends are complex.")
    if has_dims((start, end, steps)):
        return of_open(start, end, steps, dtype=want)
    return asarray(values(start, end, int(steps)).astype(want))


@function(method=False)
def eye(
    n: int,
    m: int | None = None,
    *,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a matrix with ones on its diagonal and zeros elsewhere."""
    made = wg.eye(n, m, dtype=wanted(dtype, out=out))
    return finished(made, requires_grad, device, out=out, layout=layout)


@function(method=False, out=True)
def complex(real: Any, imag: Any) -> Tensor:
    """Return the complex numbers of real and imaginary parts of one dtype. Raises DTypeError for other than real."""
    real, imag = tensor_of(real), tensor_of(imag)
    if real.dtype != imag.dtype or real.dtype.kind != "f":
        fail(DTypeError, f"complex() of {real.spec} and {imag.spec}", "Both parts are floating, of one dtype.")
    return real + imag * 1j  # type: ignore[no-any-return]


@function(method=False, out=True, autocast="float32")
def polar(abs: Any, angle: Any) -> Tensor:
    """Return the complex numbers of these magnitudes and angles."""
    return complex(abs * wg.cos(angle), abs * wg.sin(angle))


# -- random numbers


@function(method=False)
def randint(
    low: Any,
    high: Any = None,
    size: Any = None,
    *,
    generator: Any = None,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return integers drawn evenly from `low` (0 where only `high` is given) to `high`, which is left out."""
    if size is None:
        low, high, size = 0, low, high
    given = {"generator": generator} if generator is not None else {}
    made = wg.randint(int(low), int(high), int_args((size,)), **given)
    want = wanted(dtype, default_int, out)
    made = made if made.dtype == want else made.astype(want)
    return finished(made, requires_grad, device, out=out, layout=layout)


@function(method=False)
def randint_like(input: Any, low: Any, high: Any = None, *, dtype: Any = None, **more: Any) -> Tensor:
    """Return `randint` in the shape and, unless `dtype` is given, the dtype of `input`."""
    low, high = (0, low) if high is None else (low, high)
    format = more.pop("memory_format", None)
    made = randint(low, high, tuple(input.shape), dtype=wanted(dtype, input.dtype), **more)
    return lying_as(made, input, format)


@function(method=False)
def randperm(
    n: int,
    *,
    generator: Any = None,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Return the integers below `n` in an order by chance."""
    given = {"generator": generator} if generator is not None else {}
    made = wg.random.randperm(n, **given)
    made = made.astype(wanted(dtype, made.dtype, out))
    return finished(made, requires_grad, device, out=out, layout=layout)


@function(method=False)
def normal(
    mean: Any,
    std: Any = 1.0,
    size: Any = None,
    *,
    generator: Any = None,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Return normal numbers of these means and standard deviations: tensors, or numbers and a `size`."""
    refuse_same("normal()", mean, std)
    given = {"generator": generator} if generator is not None else {}
    if size is None:
        parts = [v for v in (mean, std) if isinstance(v, Plain)]
        shape = np.broadcast_shapes(*(tuple(v.shape) for v in parts))
        want = wanted(dtype, parts[0].spec.dtype, out)
    else:
        shape, want = int_args((size,)), wanted(dtype, default_float(), out)
    made = as_torch(standard_normal(shape, dtype=want, **given)) * std + mean
    return finished(made, requires_grad, device, out=out, layout=layout)


@function(out=True)
def bernoulli(input: Any, p: Any = None, *, generator: Any = None) -> Tensor:
    """Return 0 or 1 for each element, the 1 with the probability that it, or `p`, is."""
    refuse_same("bernoulli()", input if p is None else p)
    drawn = finished(wg.random.bernoulli(tensor_of(input) if p is None else p, tuple(input.shape), generator=generator))
    return drawn.astype(input.dtype)  # type: ignore[return-value]


@method()
def bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Any = None) -> Tensor:
    """Fill the tensor with 0 or 1, the 1 with probability `p`, a number or a tensor that broadcasts; return it."""
    refuse_same("bernoulli_()", p)
    return Plain.bernoulli_(self, p, generator=generator)  # type: ignore[return-value]


@function(out=True)
def poisson(input: Any, generator: Any = None) -> Tensor:
    """Return counts drawn from Poisson distributions of these rates."""
    refuse_same("poisson()", input)
    given = {"generator": generator} if generator is not None else {}
    return finished(wg.random.poisson(input, **given)).astype(input.dtype)  # type: ignore[return-value]


@function(method=False)
def _standard_gamma(self: Any, generator: Any = None) -> Tensor:
    """Return gamma random numbers of these concentrations and rate 1, as PyTorch's distributions draw them."""
    refuse_same("_standard_gamma()", self)
    given = {"generator": generator} if generator is not None else {}
    return finished(wg.random.gamma(self, **given))


@function(method=False)
def _sample_dirichlet(self: Any, generator: Any = None) -> Tensor:
    """Return draws of Dirichlet distributions with these concentrations along the last axis."""
    drawn = _standard_gamma(self, generator)
    return drawn / drawn.sum(-1, keepdim=True)  # type: ignore[return-value]


@function(method=False, out=True)
def binomial(count: Any, prob: Any, generator: Any = None) -> Tensor:
    """Return counts of successes in so many trials of these probabilities, both tensors of one floating dtype."""
    refuse_same("binomial()", count, prob)
    given = {"generator": generator} if generator is not None else {}
    return finished(wg.random.binomial(count, prob, **given))


@function(out=True)
def multinomial(input: Any, num_samples: int, replacement: bool = False, *, generator: Any = None) -> Tensor:
    """Return indices drawn from rows of weights; see :func:`wengert.random.multinomial`."""
    refuse_same("multinomial()", input)
    given = {"generator": generator} if generator is not None else {}
    return finished(wg.random.multinomial(input, num_samples, replacement, **given))


# -- the legacy constructors, and a tensor's own


class _OfDtype(type):
    """The type of `torch.FloatTensor` and the like: what they make, and have for instances, are tensors of a dtype."""

    def __call__(cls, *data: Any) -> Any:
        return finished(legacy(dtype_of(cls), data))

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and instance.spec.dtype == dtype_of(cls)


for _name, _dtype in TYPES.items():
    _doc = f"A tensor of {_dtype}, made of sizes (any values) or of a sequence's values."
    FUNCTIONS[_name] = _OfDtype(_name, (), {"__doc__": _doc, "__module__": "torch", "__slots__": ()})


def _new(name: str) -> None:
    make = FUNCTIONS[name]

    def new(
        self: Tensor, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, **more: Any
    ) -> Tensor:
        want = self.dtype if dtype is None else dtype
        return make(*size, dtype=want, device=beside(self, device), requires_grad=requires_grad, **more)  # type: ignore[no-any-return]

    new.__name__ = new.__qualname__ = f"new_{name}"
    new.__doc__ = f"Return `{name}` of these sizes, of the tensor's dtype unless another is given."
    method()(new)


for _name in ("zeros", "ones", "empty", "full"):
    _new(_name)
