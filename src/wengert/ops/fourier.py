"""Discrete Fourier transforms: four ops, each linear, and the functions of `wg.fft` made of them.

The ops keep the number of points; padding and trimming are nodes of their own. With `norm` read as
a scale, the adjoint of a transform is the opposite transform with the opposite scale: "backward" and
"forward" change places, "ortho" is its own.

Source: J. W. Cooley and J. W. Tukey, An algorithm for the machine calculation of complex Fourier
series (1965); the adjoints of the half-spectrum transforms weigh each frequency by how often it
stands in the whole spectrum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from ..core.dims import Dim
from ..core.errors import DTypeError, GraphError, ShapeError, fail
from ..core.ops.costs import log2_of, product_of
from ..core.ops.declare import op
from ..core.ops.facets import Count
from ..core.ops.op import Call, Linear, Missing, Op
from ..core.ops.record import another, bind
from ..core.spec import (
    Spec,
    as_dtype,
    category,
    complex_dtype,
    default_complex,
    default_float,
    inexact_dtype,
    normalize_axis,
    real_dtype,
    show,
    spec_of,
)
from ..core.tensor import Tensor, wrap
from .aliases import alias
from .pointwise.arithmetic import conj
from .structure.axes import roll
from .structure.extend import pad_op
from .structure.shapes import as_operand, cast, casted, int_args, placed

Norm = Literal["backward", "ortho", "forward"]
Sizes = Sequence[int] | None
Axes = int | Sequence[int] | None

# The normalization of the adjoint.
_OPPOSITE: dict[Any, Norm] = {"backward": "forward", "ortho": "ortho", "forward": "backward"}
_PAIRS = Missing("ONNX's DFT takes and gives complex numbers as pairs of reals")
_LIBRARY = Missing("a library call, not a scalar expression")


# -- the ops


def _operations(node: Any, specs: Sequence[Spec], out: Spec) -> int:
    x = specs[0]
    return round(5 * x.size * log2_of(product_of(x.shape[a] for a in node.attrs["axes"])))


def _real_operations(node: Any, real: Spec) -> int:
    """Return half as many: of a transform from or to these real numbers."""
    return round(2.5 * real.size * log2_of(real.shape[node.attrs["axis"]]))


def _check_points(name: str, x: Spec, n: int) -> None:
    if n < 1:
        fail(ShapeError, f"{name} of {show(x.shape, x.dtype)} to {n} points", "Give n, at least 1.")


def _check_category(name: str, x: Spec, wanted: int) -> None:
    if category(x.dtype) != wanted:
        fail(DTypeError, f"{name} of {show(x.shape, x.dtype)}", f"It takes {('real', 'complex')[wanted - 2]} numbers.")


def _infer_complex(name: str, x: Spec, axes: tuple[int, ...]) -> Spec:
    _check_category(name, x, 3)
    if not axes:
        fail(ShapeError, f"{name} of {show(x.shape, x.dtype)} along no axis")
    for axis in axes:
        if not isinstance(x.shape[axis], Dim):
            _check_points(name, x, x.shape[axis])
    return x


def _spectrum(inverse: bool) -> Op:
    name = "ifft" if inverse else "fft"

    def run(x: Any, axes: tuple[int, ...], norm: Norm) -> Any:  # NumPy loads its transforms when first used
        return (np.fft.ifftn if inverse else np.fft.fftn)(x, axes=axes, norm=norm)

    def reference(x: Any, axes: tuple[int, ...], norm: Norm) -> Any:
        for axis in axes:
            x = _by_matrix(x, axis, norm, inverse)
        return x

    return op(
        f'{name}(x; axes, norm: "backward"|"ortho"|"forward")',
        run,
        infer=lambda x, axes, norm: _infer_complex(name, x, axes),
        facts={
            "x": Linear(lambda ct, axes, norm: (fft_op if inverse else ifft_op)(ct, axes=axes, norm=_OPPOSITE[norm]))
        },
        kind="linear",
        doc=f"The {'inverse ' if inverse else ''}discrete Fourier transform of complex numbers along axes.",
        samples=lambda rng: [
            Call((_complex(rng, shape),), {"axes": axes, "norm": norm})
            for shape, axes, norm in (
                ((4,), (-1,), "backward"),
                ((2, 3), (-2,), "ortho"),
                ((2, 5), (-1,), "forward"),
                ((2, 2, 3), (-3, -1), "backward"),
                ((1,), (-1,), "backward"),
            )
        ],
        reference=reference,
        onnx=_PAIRS,
        dependence="rows",
        cost=Count("5 n log2 n", _operations),
    )


def _complex(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    return rng.normal(size=shape) + 1j * rng.normal(size=shape)


def _by_matrix(x: Any, axis: int, norm: Norm, inverse: bool) -> Any:
    """Return the transform by its definition, with the matrix of roots of unity."""
    n = x.shape[axis]
    k = np.arange(n)
    matrix = np.exp((2j if inverse else -2j) * np.pi * np.outer(k, k) / n)
    scaled = norm == ("backward" if inverse else "forward")
    matrix = matrix / (np.sqrt(n) if norm == "ortho" else n if scaled else 1)
    return np.moveaxis(np.tensordot(matrix, x, axes=(1, axis)), 0, axis)


fft_op: Op = _spectrum(False)
ifft_op: Op = _spectrum(True)


def _halved(x: Spec, axis: int) -> int:
    n = x.shape[axis]
    _check_category("rfft", x, 2)
    if isinstance(n, Dim):
        fail(
            GraphError,
            f"rfft of {show(x.shape, x.dtype)}: half of an unknown size is not known",
            "Give the axis a size, or use wg.fft.fft, whose result has the size of its argument.",
        )
    _check_points("rfft", x, n)
    return n // 2 + 1


def _resized(x: Spec, axis: int, size: int, dtype: Any) -> Spec:
    shape = list(x.shape)
    shape[axis] = size
    return spec_of(tuple(shape), dtype)


def _infer_irfft(x: Spec, axis: int, size: int) -> Spec:
    _check_points("irfft", x, size)
    _check_category("irfft", x, 3)
    if x.shape[axis] != size // 2 + 1:
        fail(
            ShapeError,
            f"irfft of {show(x.shape, x.dtype)} to {size} points",
            f"Its axis must have {size // 2 + 1} elements.",
        )
    return _resized(x, axis, size, real_dtype(x.dtype))


def _multiplicity(ct: Any, size: int, axis: int, inner: float) -> Any:
    """Return `inner` at the frequencies that stand twice in the whole spectrum of `size` points, 1 at the others."""
    weights = np.full(size // 2 + 1, inner, real_dtype(complex_dtype(ct.dtype)))
    weights[0] = 1
    if size % 2 == 0:
        weights[-1] = 1
    return weights.reshape((-1, *(1,) * (-1 - axis)))


def _rfft(x: Any, axis: int, norm: Norm) -> Any:
    if x.dtype.itemsize < 4:
        x = x.astype(np.float32)
    return np.fft.rfft(x, axis=axis, norm=norm)


def _rfft_transpose(ct: Any, axis: int, norm: Norm, x_shape: Any, x_dtype: Any) -> Any:
    n = x_shape[axis]
    g = irfft_op(ct * _multiplicity(ct, n, axis, 0.5), axis=axis, size=n, norm=_OPPOSITE[norm])
    return g if g.dtype == x_dtype else cast(g, dtype=x_dtype)


def _irfft_transpose(ct: Any, axis: int, size: int, norm: Norm) -> Any:
    g = rfft_op(ct, axis=axis, norm=_OPPOSITE[norm])
    return g * _multiplicity(ct, size, axis, 2.0)


def _whole_spectrum(x: Any, axis: int, size: int) -> Any:
    """Return all frequencies from the first half, with real ends."""
    first = np.moveaxis(x, axis, -1)
    first = np.concatenate([first[..., :1].real, first[..., 1:]], -1)
    if size % 2 == 0:
        first = np.concatenate([first[..., :-1], first[..., -1:].real], -1)
    rest = np.conj(first[..., 1 : (size + 1) // 2][..., ::-1])
    return np.moveaxis(np.concatenate([first, rest], -1), -1, axis)


rfft_op: Op = op(
    'rfft(x; axis, norm: "backward"|"ortho"|"forward")',
    _rfft,
    accepts="real_inexact",
    infer=lambda x, axis, norm: _resized(x, axis, _halved(x, axis), complex_dtype(x.dtype)),
    facts={"x": Linear(_rfft_transpose)},
    kind="linear",
    doc="The discrete Fourier transform of real numbers along an axis: the frequencies that are not negative.",
    samples=lambda rng: [
        Call((rng.normal(size=shape),), {"axis": axis, "norm": norm})
        for shape, axis, norm in (
            ((4,), -1, "backward"),
            ((2, 5), -1, "ortho"),
            ((3, 2), -2, "forward"),
            ((2, 1), -1, "backward"),
        )
    ],
    reference=lambda x, axis, norm: np.take(
        _by_matrix(x, axis, norm, False), np.arange(x.shape[axis] // 2 + 1), axis=axis
    ),
    onnx=_PAIRS,
    dependence="rows",
    cost=Count("2.5 n log2 n", lambda node, specs, out: _real_operations(node, specs[0])),
    autocast="float32",
)

irfft_op: Op = op(
    'irfft(x; axis, size, norm: "backward"|"ortho"|"forward")',
    lambda x, axis, size, norm: np.fft.irfft(x, size, axis=axis, norm=norm),
    infer=lambda x, axis, size, norm: _infer_irfft(x, axis, size),
    facts={"x": Linear(_irfft_transpose)},
    kind="linear",
    doc="The inverse of `rfft`: `size` real numbers from the frequencies that are not negative.",
    samples=lambda rng: [
        Call((_complex(rng, shape),), {"axis": axis, "size": size, "norm": norm})
        for shape, axis, size, norm in (
            ((3,), -1, 4, "backward"),
            ((2, 3), -1, 5, "ortho"),
            ((2, 2), -2, 3, "forward"),
            ((1,), -1, 1, "backward"),
        )
    ],
    reference=lambda x, axis, size, norm: _by_matrix(_whole_spectrum(x, axis, size), axis, norm, True).real,
    onnx=_PAIRS,
    dependence="rows",
    cost=Count("2.5 n log2 n", lambda node, specs, out: _real_operations(node, out)),
    autocast="float32",
)


# -- arguments


def _normalization(norm: Any) -> Norm:
    if norm is None:
        return "backward"
    if norm not in _OPPOSITE:
        fail(ShapeError, f"norm={norm!r} is no normalization", 'Use "backward", "ortho" or "forward".')
    found: Norm = norm
    return found


def _as_complex(x: Any) -> Tensor:
    x = as_operand(x)
    return casted(x, default_complex() if category(x.dtype) < 2 else complex_dtype(x.dtype))


def _as_real(name: str, x: Any) -> Tensor:
    x = as_operand(x)
    if x.dtype.kind == "c":
        fail(
            DTypeError,
            f"{name} takes real numbers, not {show(x.shape, x.dtype)}",
            "Use wg.fft.fft, or wg.real for the real part.",
        )
    return casted(x, inexact_dtype(x.dtype))


def _points(name: str, x: Tensor, n: Any) -> int:
    (size,) = int_args((n,), "n")
    _check_points(name, x.spec, size)
    return size


def _fitted(x: Tensor, axis: int, n: int) -> Tensor:
    """Return `x` trimmed, or padded with zeros, to `n` elements along an axis counted from the right."""
    have = x.shape[axis]
    if n == have:
        return x
    if n < have:
        trimmed: Tensor = x[(Ellipsis, slice(0, n), *(slice(None),) * (-1 - axis))]
        return trimmed
    padded: Tensor = bind(pad_op, (x,), {"widths": ((0, n - have), *((0, 0),) * (-1 - axis))})
    return padded


def _plan(name: str, x: Tensor, s: Sizes, axes: Axes) -> tuple[tuple[int, ...], tuple[int | None, ...]]:
    """Return axes counted from the right and, for each, the size that `s` names (None: as it is)."""
    if isinstance(axes, int):
        axes = (axes,)
    sizes = None if s is None else int_args((s,), "s")
    if axes is None:
        axes = range(-x.ndim, 0) if sizes is None else range(-len(sizes), 0)
    found = tuple(normalize_axis(a, x.ndim) for a in axes)
    if len(set(found)) != len(found) or (sizes is not None and len(sizes) != len(found)):
        fail(
            ShapeError,
            f"{name} of {show(x.shape, x.dtype)} along axes {tuple(axes)}" + (f" to {sizes}" if sizes else ""),
            "Name each axis once, and one size for each axis.",
        )
    return found, (None,) * len(found) if sizes is None else tuple(None if n == -1 else n for n in sizes)


def _complex_transform(name: str, made: Op, x: Any, s: Sizes, axes: Axes, norm: Any) -> Tensor:
    x = _as_complex(x)
    norm = _normalization(norm)
    found, sizes = _plan(name, x, s, axes)
    for axis, n in zip(found, sizes, strict=True):
        x = _fitted(x, axis, x.shape[axis] if n is None else _points(name, x, n))
    out: Tensor = bind(made, (x,), {"axes": found, "norm": norm}) if found else another(x)
    return out


def _real_transform(name: str, x: Any, s: Sizes, axes: Axes, norm: Any) -> Tensor:
    x = _as_real(name, x)
    norm = _normalization(norm)
    found, sizes = _plan(name, x, s, axes)
    _check_some(name, x, found)
    for axis, n in zip(found, sizes, strict=True):
        x = _fitted(x, axis, x.shape[axis] if n is None else _points(name, x, n))
    out: Tensor = bind(rfft_op, (x,), {"axis": found[-1], "norm": norm})
    if len(found) > 1:
        out = bind(fft_op, (out,), {"axes": found[:-1], "norm": norm})
    return out


def _inverse_real(name: str, x: Any, s: Sizes, axes: Axes, norm: Any) -> Tensor:
    x = _as_complex(x)
    norm = _normalization(norm)
    found, sizes = _plan(name, x, s, axes)
    _check_some(name, x, found)
    *others, last = found
    for axis, n in zip(others, sizes[:-1], strict=True):
        x = _fitted(x, axis, x.shape[axis] if n is None else _points(name, x, n))
    size = 2 * (x.shape[last] - 1) if sizes[-1] is None else sizes[-1]
    if isinstance(size, Dim):
        fail(GraphError, f"{name} of {show(x.shape, x.dtype)}: the result's size is not known", "Give n (or s).")
    x = _fitted(x, last, _points(name, x, size) // 2 + 1)
    if others:
        x = bind(ifft_op, (x,), {"axes": tuple(others), "norm": norm})
    out: Tensor = bind(irfft_op, (x,), {"axis": last, "size": size, "norm": norm})
    return out


def _check_some(name: str, x: Tensor, axes: tuple[int, ...]) -> None:
    if not axes:
        fail(ShapeError, f"{name} of {show(x.shape, x.dtype)} along no axis", "Name at least one axis.")


# -- the functions

one_axis: Callable[[Any], Any] = alias(dim="axis")
many_axes: Callable[[Any], Any] = alias(dim="axes")


@one_axis
def fft(x: Any, /, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """Return the discrete Fourier transform along an axis: X[k] = sum over j of x[j] exp(-2 pi i j k / n).

    Parameters
    ----------
    x: any shape, real or complex; integers become complex64, float32 stays single precision.
    n: points; the axis is trimmed, or padded with zeros at its end. None: as many as there are.
    axis: which axis (PyTorch's `dim`).
    norm: "backward" scales by 1, "ortho" by 1/sqrt(n), "forward" by 1/n.

    Raises ShapeError for an axis that does not exist and for less than one point.

    >>> import wengert as wg
    >>> wg.fft.fft(wg.tensor([1.0, 0.0, 0.0, 0.0]))
    tensor([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j])
    """
    return _complex_transform("fft", fft_op, x, None if n is None else (n,), (axis,), norm)


@one_axis
def ifft(x: Any, /, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """Return the inverse of :func:`fft` along an axis, with the same parameters.

    `norm` "backward" scales by 1/n, "ortho" by 1/sqrt(n), "forward" by 1.

    >>> import wengert as wg
    >>> wg.real(wg.fft.ifft(wg.fft.fft(wg.tensor([1.0, 2.0, 4.0, 8.0]))))
    tensor([1., 2., 4., 8.])
    """
    return _complex_transform("ifft", ifft_op, x, None if n is None else (n,), (axis,), norm)


@many_axes
def fftn(x: Any, /, s: Sizes = None, axes: Axes = None, norm: Norm = "backward") -> Tensor:
    """Return the discrete Fourier transform along several axes.

    Parameters
    ----------
    x: any shape, real or complex.
    s: points for each of the axes, -1 for as many as there are; None: all axes as they are.
    axes: which axes, each once; None: all, or the last `len(s)`.
    norm: as in :func:`fft`, where n is the product of the points.

    Raises ShapeError.

    >>> import wengert as wg
    >>> wg.real(wg.fft.fftn(wg.ones(2, 2)))
    tensor([[4., 0.],
            [0., 0.]])
    """
    return _complex_transform("fftn", fft_op, x, s, axes, norm)


@many_axes
def ifftn(x: Any, /, s: Sizes = None, axes: Axes = None, norm: Norm = "backward") -> Tensor:
    """Return the inverse of :func:`fftn`, with the same parameters.

    >>> import wengert as wg
    >>> wg.real(wg.fft.ifftn(wg.ones(2, 2)))
    tensor([[1., 0.],
            [0., 0.]])
    """
    return _complex_transform("ifftn", ifft_op, x, s, axes, norm)


@one_axis
def rfft(x: Any, /, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """Return the discrete Fourier transform of real numbers: n // 2 + 1 frequencies that are not negative.

    The others are their conjugates. Parameters as in :func:`fft`; float32 gives complex64, float64
    complex128. Raises ShapeError, and DTypeError for complex numbers.

    >>> import wengert as wg
    >>> wg.fft.rfft(wg.tensor([1.0, 0.0, -1.0, 0.0]))
    tensor([0.+0.j, 2.+0.j, 0.+0.j])
    """
    return _real_transform("rfft", x, None if n is None else (n,), (axis,), norm)


@one_axis
def irfft(x: Any, /, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """Return the inverse of :func:`rfft`: n real numbers from n // 2 + 1 frequencies.

    The imaginary parts at frequency 0 and, for even n, at the last one are not used. `n` None gives
    2 (m - 1) numbers from m frequencies: name an odd number. Raises ShapeError.

    >>> import wengert as wg
    >>> wg.fft.irfft(wg.fft.rfft(wg.tensor([1.0, 2.0, 4.0])), n=3)
    tensor([1., 2., 4.])
    """
    return _inverse_real("irfft", x, None if n is None else (n,), (axis,), norm)


@many_axes
def rfftn(x: Any, /, s: Sizes = None, axes: Axes = None, norm: Norm = "backward") -> Tensor:
    """Return :func:`rfft` along the last of the axes, :func:`fftn` along the others.

    Parameters as in :func:`fftn`. Raises ShapeError, and DTypeError for complex numbers.

    >>> import wengert as wg
    >>> wg.fft.rfftn(wg.ones(4, 4)).shape
    (4, 3)
    """
    return _real_transform("rfftn", x, s, axes, norm)


@many_axes
def irfftn(x: Any, /, s: Sizes = None, axes: Axes = None, norm: Norm = "backward") -> Tensor:
    """Return the inverse of :func:`rfftn`; `s` holds the sizes of the result (see :func:`irfft`).

    >>> import wengert as wg
    >>> wg.fft.irfftn(wg.fft.rfftn(wg.ones(2, 3)), s=(2, 3))
    tensor([[1., 1., 1.],
            [1., 1., 1.]])
    """
    return _inverse_real("irfftn", x, s, axes, norm)


@many_axes
def fft2(x: Any, /, s: Sizes = None, axes: Axes = (-2, -1), norm: Norm = "backward") -> Tensor:
    """Return :func:`fftn` along the last two axes.

    >>> import wengert as wg
    >>> wg.fft.fft2(wg.tensor([[1.0, 0.0], [0.0, 0.0]])).real
    tensor([[1., 1.],
            [1., 1.]])
    """
    return _complex_transform("fft2", fft_op, x, s, axes, norm)


@many_axes
def ifft2(x: Any, /, s: Sizes = None, axes: Axes = (-2, -1), norm: Norm = "backward") -> Tensor:
    """Return :func:`ifftn` along the last two axes.

    >>> import wengert as wg
    >>> wg.fft.ifft2(wg.ones((2, 2))).real
    tensor([[1., 0.],
            [0., 0.]])
    """
    return _complex_transform("ifft2", ifft_op, x, s, axes, norm)


@many_axes
def rfft2(x: Any, /, s: Sizes = None, axes: Axes = (-2, -1), norm: Norm = "backward") -> Tensor:
    """Return :func:`rfftn` along the last two axes.

    >>> import wengert as wg
    >>> wg.fft.rfft2(wg.ones((4, 4))).shape
    (4, 3)
    """
    return _real_transform("rfft2", x, s, axes, norm)


@many_axes
def irfft2(x: Any, /, s: Sizes = None, axes: Axes = (-2, -1), norm: Norm = "backward") -> Tensor:
    """Return :func:`irfftn` along the last two axes.

    >>> import wengert as wg
    >>> wg.fft.irfft2(wg.fft.rfft2(wg.ones((2, 2))))
    tensor([[1., 1.],
            [1., 1.]])
    """
    return _inverse_real("irfft2", x, s, axes, norm)


@one_axis
def hfft(x: Any, /, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """Return the real spectrum of a signal with conjugate symmetry, given its first n // 2 + 1 elements.

    `n` None gives 2 (m - 1) numbers from m elements. Parameters as in :func:`fft`. Raises ShapeError.

    >>> import wengert as wg
    >>> wg.fft.hfft(wg.tensor([1.0, 2.0, 3.0]))
    tensor([ 8., -2.,  0., -2.])
    """
    return _inverse_real("hfft", conj(_as_complex(x)), None if n is None else (n,), (axis,), _opposite(norm))


@one_axis
def ihfft(x: Any, /, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """Return the inverse of :func:`hfft`: the first n // 2 + 1 elements of a signal with conjugate symmetry.

    Raises ShapeError, and DTypeError for complex numbers.

    >>> import wengert as wg
    >>> wg.real(wg.fft.ihfft(wg.tensor([8.0, -2.0, 0.0, -2.0])))
    tensor([1., 2., 3.])
    """
    out: Tensor = conj(_real_transform("ihfft", x, None if n is None else (n,), (axis,), _opposite(norm)))
    return out


def _opposite(norm: Any) -> Norm:
    return _OPPOSITE[_normalization(norm)]


def _frequencies(name: str, n: int, values: Any, d: float, dtype: Any, device: Any) -> Tensor:
    found = default_float() if dtype is None else as_dtype(dtype)
    if category(found) != 2:
        fail(DTypeError, f"{name} in {found}", "Frequencies are real: use a real floating dtype.")
    made = wrap((values / (n * d)).astype(found))
    return made if device is None else placed(made, device)


def _number_of_points(name: str, n: Any) -> int:
    (size,) = int_args((n,), "n")
    if isinstance(size, Dim) or size < 1:
        fail(ShapeError, f"{name} of {n} points", "Give a known number, at least 1.")
    return size


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """Return the frequencies of :func:`fft`: [0, 1, ..., (n-1)//2, -(n//2), ..., -1] / (n d).

    `d` is the time between samples; `dtype` a real floating dtype, the default float if None.
    Raises ShapeError for less than one point, DTypeError.

    >>> import wengert as wg
    >>> wg.fft.fftfreq(4)
    tensor([ 0.  ,  0.25, -0.5 , -0.25])
    """
    size = _number_of_points("fftfreq", n)
    values = np.arange(size)
    return _frequencies("fftfreq", size, np.where(values <= (size - 1) // 2, values, values - size), d, dtype, device)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """Return the frequencies of :func:`rfft`: [0, 1, ..., n//2] / (n d); parameters as in :func:`fftfreq`.

    >>> import wengert as wg
    >>> wg.fft.rfftfreq(4)
    tensor([0.  , 0.25, 0.5 ])
    """
    size = _number_of_points("rfftfreq", n)
    return _frequencies("rfftfreq", size, np.arange(size // 2 + 1), d, dtype, device)


@many_axes
def fftshift(x: Any, /, axes: Axes = None) -> Tensor:
    """Return `x` with frequency 0 moved to the middle of the axes (None: all of them).

    >>> import wengert as wg
    >>> wg.fft.fftshift(wg.tensor([0, 1, 2, -2, -1]))
    tensor([-2, -1,  0,  1,  2])
    """
    return _shifted(as_operand(x), axes, 1)


@many_axes
def ifftshift(x: Any, /, axes: Axes = None) -> Tensor:
    """Return the inverse of :func:`fftshift`.

    >>> import wengert as wg
    >>> wg.fft.ifftshift(wg.tensor([-2, -1, 0, 1, 2]))
    tensor([ 0,  1,  2, -2, -1])
    """
    return _shifted(as_operand(x), axes, -1)


def _shifted(x: Tensor, axes: Axes, sign: int) -> Tensor:
    found, _ = _plan("fftshift", x, None, axes)
    if any(isinstance(x.shape[a], Dim) for a in found):
        fail(GraphError, f"fftshift of {show(x.shape)}: half of an unknown size is not known", "Give the axis a size.")
    return roll(x, tuple(sign * (x.shape[a] // 2) for a in found), found) if found else another(x)
