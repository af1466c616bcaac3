"""Convolution in any number of spatial dimensions, and its two adjoints.

A convolution layer (a cross-correlation, as the field has it) is one trilinear form in the input
x, the kernel w and the cotangent y of its result. The three ops here are its partial derivatives:
`convolve` (x, w -> y), `convolve_transpose` (y, w -> x) and `convolve_kernel` (x, y -> w), so
every derivative of one of them, of any order, is another of them.

Layout: x is (*batch, C, *S), w is (O, C / groups, *K), y is (*batch, O, *out), with any number of
batch axes. Padding is a (low, high) pair for each spatial dimension; a negative one crops.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.errors import DTypeError, RangeError, ShapeError, fail
from ...core.ops.autocast import computed_in
from ...core.ops.costs import product_of
from ...core.ops.declare import op, public
from ...core.ops.facets import Count, Role
from ...core.ops.nonfinite import OVERFLOW
from ...core.ops.op import TABLE, Call, Linear, Missing, Op
from ...core.ops.operands import promote_tensors
from ...core.ops.record import bind
from ...core.spec import Shape, category
from ...core.tensor import Tensor, asarray
from .. import definitions
from ..index.formats import with_channels_last
from . import im2col
from .windows import Pads, Size, int_tuple

_SAMPLED: tuple[tuple[Shape, Shape, Shape, Pads, Shape, int], ...] = (
    ((2, 2, 5), (3, 2, 3), (1,), ((0, 0),), (1,), 1),
    ((2, 1, 7), (2, 1, 3), (2,), ((1, 1),), (2,), 1),
    ((1, 2, 3, 4), (2, 2, 2, 2), (1, 1), ((1, 0), (0, 1)), (1, 1), 1),
    ((4, 3, 2), (2, 2, 2, 1), (2, 1), ((1, 1), (0, 0)), (1, 1), 2),
    ((2, 2, 3, 2), (2, 1, 2, 2), (1, 1), ((1, 1), (0, 1)), (1, 1), 2),
    ((2, 1, 2, 5), (2, 2, 3), (1,), ((-1, 1),), (1,), 1),
)


def _samples_convolve(rng: Any) -> list[Call]:
    return [
        Call(
            (rng.standard_normal(x), rng.standard_normal(w)),
            {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups},
        )
        for x, w, stride, padding, dilation, groups in _SAMPLED
    ]


def _samples_transpose(rng: Any) -> list[Call]:
    calls = []
    for sample in _samples_convolve(rng):
        x, w = sample.args
        y = definitions.convolve(x, w, **sample.attrs)
        calls.append(Call((rng.standard_normal(y.shape), w), {"size": x.shape[2 - w.ndim :], **sample.attrs}))
    return calls


def _samples_kernel(rng: Any) -> list[Call]:
    calls = []
    for sample in _samples_convolve(rng):
        x, w = sample.args
        y = definitions.convolve(x, w, **sample.attrs)
        calls.append(Call((x, rng.standard_normal(y.shape)), {"kernel": w.shape[2:], **sample.attrs}))
    return calls


# -- the ops


def _conj(a: Any) -> Any:
    return TABLE["conj"](a) if a.dtype.kind == "c" else a


convolve: Op = op(
    "convolve(x, w; stride, padding, dilation, groups)",
    im2col.convolve,
    infer=im2col.infer_convolve,
    facts={
        "x": Linear(
            lambda ct, w, x_shape, stride, padding, dilation, groups: convolve_transpose(
                ct,
                _conj(w),
                size=x_shape[-len(stride) :],
                stride=stride,
                padding=padding,
                dilation=dilation,
                groups=groups,
            )
        ),
        "w": Linear(
            lambda ct, x, w_shape, stride, padding, dilation, groups: convolve_kernel(
                _conj(x), ct, kernel=w_shape[2:], stride=stride, padding=padding, dilation=dilation, groups=groups
            )
        ),
    },
    doc="Cross-correlation of x (*batch, C, *S) with a kernel w (O, C / groups, *K).",
    source="Dumoulin & Visin 2016, A guide to convolution arithmetic for deep learning",
    samples=_samples_convolve,
    reference=definitions.convolve,
    onnx="Conv",
    role=Role.PRODUCT,
    dependence="convolution",
    kernels=True,
    cost=Count(
        "2 for each result, channel and kernel element",
        lambda node, specs, out: 2 * out.size * product_of(specs[1].shape[1:]),
    ),
    nonfinite=OVERFLOW,
    zero_gradient="factor",
)

convolve_transpose: Op = op(
    "convolve_transpose(y, w; size: sizes, stride, padding, dilation, groups)",
    im2col.convolve_transpose,
    infer=im2col.infer_transpose,
    facts={
        "y": Linear(
            lambda ct, w, stride, padding, dilation, groups: convolve(
                ct, _conj(w), stride=stride, padding=padding, dilation=dilation, groups=groups
            )
        ),
        "w": Linear(
            lambda ct, y, w_shape, stride, padding, dilation, groups: convolve_kernel(
                ct, _conj(y), kernel=w_shape[2:], stride=stride, padding=padding, dilation=dilation, groups=groups
            )
        ),
    },
    doc="The transpose of convolve in its input: y (*batch, O, *out) to x (*batch, C, *size).",
    source="Dumoulin & Visin 2016, A guide to convolution arithmetic for deep learning",
    samples=_samples_transpose,
    reference=definitions.convolve_transpose,
    onnx="ConvTranspose",
    role=Role.PRODUCT,
    dependence="convolution",
    kernels=True,
    cost=Count(
        "2 for each input, channel and kernel element",
        lambda node, specs, out: 2 * specs[0].size * product_of(specs[1].shape[1:]),
    ),
)

convolve_kernel: Op = op(
    "convolve_kernel(x, y; kernel, stride, padding, dilation, groups)",
    im2col.convolve_kernel,
    infer=im2col.infer_kernel,
    facts={
        "x": Linear(
            lambda ct, y, x_shape, stride, padding, dilation, groups: convolve_transpose(
                _conj(y),
                ct,
                size=x_shape[-len(stride) :],
                stride=stride,
                padding=padding,
                dilation=dilation,
                groups=groups,
            )
        ),
        "y": Linear(
            lambda ct, x, stride, padding, dilation, groups: convolve(
                _conj(x), ct, stride=stride, padding=padding, dilation=dilation, groups=groups
            )
        ),
    },
    doc="The transpose of convolve in its kernel: x and a cotangent y of its result to w's shape.",
    samples=_samples_kernel,
    reference=definitions.convolve_kernel,
    onnx=Missing("no such operator"),
    role=Role.PRODUCT,
    dependence="convolution",
    kernels=True,
    cost=Count(
        "2 for each result, channel and kernel element",
        lambda node, specs, out: 2 * specs[1].size * product_of(out.shape[1:]),
    ),
)


# -- the functions


def _operands(name: str, x: Any, weight: Any, bias: Any, ndim: int) -> list[Tensor]:
    """Return input, kernel and, unless None, bias, in their common dtype and with fitting numbers of dimensions."""
    found = promote_tensors(name, *(a for a in (x, weight, bias) if a is not None))
    if not ((found[0] is x and found[1] is weight) or found[1].meaning.mixes_dtypes):
        given = [asarray(a).spec for a in (x, weight)]
        if given[0].dtype != given[1].dtype:
            fail(DTypeError, f"{name}: an input {given[0]} and weights {given[1]}", "Both are of one dtype.")
    if category(found[0].spec.dtype) == 0:
        fail(DTypeError, f"{name} takes numbers, not bool", "Cast first: x.astype(wg.float32).")
    if len(found[0].spec.shape) not in (ndim + 1, ndim + 2):
        fail(
            ShapeError,
            f"{name}: an input of shape {found[0].shape} with a kernel of shape {found[1].shape}",
            f"{name} takes an input of {ndim + 1} dimensions (C, ...) or {ndim + 2} (N, C, ...).",
        )
    return found


def _groups(groups: Any, name: str) -> int:
    if isinstance(groups, bool) or not isinstance(groups, (int, np.integer)) or groups < 1:
        fail(RangeError, f"{name}: groups={groups!r} must be an int of at least 1")
    return int(groups)


def _with_bias(y: Tensor, bias: Tensor | None, channels: int, ndim: int, name: str) -> Tensor:
    if bias is None:
        return y
    if bias.spec.shape != (channels,):
        fail(ShapeError, f"{name}: a bias of shape {bias.shape} for {channels} output channels")
    out: Tensor = y + bias.reshape((channels,) + (1,) * ndim)
    return out


def _pads(padding: Any, kernel: Shape, stride: Shape, dilation: Shape, name: str) -> Pads:
    if not isinstance(padding, str):
        return tuple((p, p) for p in int_tuple(padding, len(kernel), "padding", 0))
    if padding == "valid":
        return ((0, 0),) * len(kernel)
    if padding != "same":
        fail(RangeError, f'{name}: padding={padding!r}; a name must be "same" or "valid"')
    if any(s != 1 for s in stride):
        fail(RangeError, f'{name}: padding="same" with stride={stride}', 'padding="same" needs a stride of 1.')
    totals = [d * (k - 1) for k, d in zip(kernel, dilation)]
    return tuple((t // 2, t - t // 2) for t in totals)


def _conv(ndim: int, x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: Any) -> Tensor:
    name = f"conv{ndim}d"
    x, weight, *rest = _operands(name, x, weight, bias, ndim)
    strides, dilations = int_tuple(stride, ndim, "stride", 1), int_tuple(dilation, ndim, "dilation", 1)
    attrs = {
        "stride": strides,
        "padding": _pads(padding, weight.shape[2:], strides, dilations, name),
        "dilation": dilations,
        "groups": _groups(groups, name),
    }
    y = _with_bias(bind(convolve, (x, weight), attrs), rest[0] if rest else None, weight.shape[0], ndim, name)
    return with_channels_last(with_channels_last(y, x), weight)  # type: ignore[no-any-return]


def _conv_transpose(
    ndim: int,
    x: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: Any,
    dilation: Any,
) -> Tensor:
    name = f"conv_transpose{ndim}d"
    x, weight, *rest = _operands(name, x, weight, bias, ndim)
    strides, dilations = int_tuple(stride, ndim, "stride", 1), int_tuple(dilation, ndim, "dilation", 1)
    pads, extra = int_tuple(padding, ndim, "padding", 0), int_tuple(output_padding, ndim, "output_padding", 0)
    if any(e >= max(s, d) for e, s, d in zip(extra, strides, dilations)):
        fail(
            RangeError,
            f"{name}: output_padding={extra} with stride={strides} and dilation={dilations}",
            "output_padding must be smaller than the stride or the dilation.",
        )
    groups = _groups(groups, name)
    im2col.check_channels(x, weight, groups, ndim, 0, name)
    size = tuple(
        (n - 1) * s - 2 * p + d * (k - 1) + e + 1
        for n, s, p, d, k, e in zip(x.spec.shape[-ndim:], strides, pads, dilations, weight.spec.shape[2:], extra)
    )
    attrs = {
        "size": size,
        "stride": strides,
        # The rows that output_padding adds take part in no window unless a wider one reaches them:
        # a convolution back then sees that much less padding.
        "padding": tuple((p, p - e) for p, e in zip(pads, extra)),
        "dilation": dilations,
        "groups": groups,
    }
    y = bind(convolve_transpose, (x, weight), attrs)
    y = _with_bias(y, rest[0] if rest else None, weight.spec.shape[1] * groups, ndim, name)
    return with_channels_last(with_channels_last(y, x), weight)  # type: ignore[no-any-return]


@public(home="nn.functional")
@computed_in("lower")
def conv1d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Size = 1,
    padding: Size | str = 0,
    dilation: Size = 1,
    groups: int = 1,
) -> Tensor:
    """Return the convolution (cross-correlation) over one dimension: :func:`conv2d` for signals.

    Parameters
    ----------
    input: (N, C, L) or (C, L).
    weight: (O, C / groups, K).
    bias: (O,) or None.

    Returns (N, O, L') or (O, L'). Raises ShapeError, RangeError, DTypeError.

    >>> import wengert as wg
    >>> wg.nn.functional.conv1d(wg.tensor([[1.0, 2.0, 4.0, 8.0]]), wg.tensor([[[-1.0, 1.0]]]))
    tensor([[1., 2., 4.]])
    """
    return _conv(1, input, weight, bias, stride, padding, dilation, groups)


@public(home="nn.functional")
@computed_in("lower")
def conv2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Size = 1,
    padding: Size | str = 0,
    dilation: Size = 1,
    groups: int = 1,
) -> Tensor:
    """Return the convolution (cross-correlation) over two dimensions.

    Parameters
    ----------
    input: (N, C, H, W) or (C, H, W).
    weight: (O, C / groups, KH, KW).
    bias: (O,) or None.
    stride, dilation: an int, or one for each dimension.
    padding: zeros on both sides, an int or one for each dimension; "valid" for none, "same" for
        as much as keeps the size (stride 1; the odd one goes to the end).
    groups: input and output channels are split into that many groups that do not mix.

    Returns (N, O, H', W') or (O, H', W'), H' = (H + 2 padding - dilation (KH - 1) - 1) // stride + 1.

    Raises ShapeError where channels or sizes do not fit, RangeError for an option, DTypeError for booleans.

    Source: LeCun et al. 1989, Backpropagation applied to handwritten zip code recognition.

    >>> import wengert as wg
    >>> x = wg.tensor([[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]])
    >>> wg.nn.functional.conv2d(x, wg.tensor([[[[1.0, 0.0], [0.0, -1.0]]]]))
    tensor([[[-4., -4.],
             [-4., -4.]]])
    """
    return _conv(2, input, weight, bias, stride, padding, dilation, groups)


@public(home="nn.functional")
@computed_in("lower")
def conv3d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Size = 1,
    padding: Size | str = 0,
    dilation: Size = 1,
    groups: int = 1,
) -> Tensor:
    """Return the convolution (cross-correlation) over three dimensions: :func:`conv2d` for volumes.

    Parameters
    ----------
    input: (N, C, D, H, W) or (C, D, H, W).
    weight: (O, C / groups, KD, KH, KW).
    bias: (O,) or None.

    Returns (N, O, D', H', W') or (O, D', H', W'). Raises ShapeError, RangeError, DTypeError.

    >>> import wengert as wg
    >>> wg.nn.functional.conv3d(wg.ones((1, 1, 3, 4, 5)), wg.ones((2, 1, 2, 2, 2))).shape
    (1, 2, 2, 3, 4)
    """
    return _conv(3, input, weight, bias, stride, padding, dilation, groups)


@public(home="nn.functional")
@computed_in("lower")
def conv_transpose1d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Size = 1,
    padding: Size = 0,
    output_padding: Size = 0,
    groups: int = 1,
    dilation: Size = 1,
) -> Tensor:
    """Return the transposed convolution over one dimension: :func:`conv_transpose2d` for signals.

    Parameters
    ----------
    input: (N, C, L) or (C, L).
    weight: (C, O / groups, K).
    bias: (O,) or None.

    Returns (N, O, L') or (O, L'). Raises ShapeError, RangeError, DTypeError.

    >>> import wengert as wg
    >>> wg.nn.functional.conv_transpose1d(wg.tensor([[1.0, 2.0]]), wg.tensor([[[1.0, 1.0]]]), stride=2)
    tensor([[1., 1., 2., 2.]])
    """
    return _conv_transpose(1, input, weight, bias, stride, padding, output_padding, groups, dilation)


@public(home="nn.functional")
@computed_in("lower")
def conv_transpose2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Size = 1,
    padding: Size = 0,
    output_padding: Size = 0,
    groups: int = 1,
    dilation: Size = 1,
) -> Tensor:
    """Return the transposed convolution over two dimensions: the gradient of :func:`conv2d` in its input.

    Parameters
    ----------
    input: (N, C, H, W) or (C, H, W).
    weight: (C, O / groups, KH, KW).
    bias: (O,) or None.
    stride, padding, dilation, groups: those of the convolution that it is the transpose of.
    output_padding: rows and columns to add at the end, of the several sizes that the convolution
        maps to the same one; smaller than the stride or the dilation.

    Returns (N, O, H', W') or (O, H', W'),
    H' = (H - 1) stride - 2 padding + dilation (KH - 1) + output_padding + 1.

    Raises ShapeError, RangeError, DTypeError.

    Source: Zeiler et al. 2010, Deconvolutional networks.

    >>> import wengert as wg
    >>> x, weight = wg.ones((1, 2, 4, 4)), wg.ones((2, 3, 3, 3))
    >>> wg.nn.functional.conv_transpose2d(x, weight, stride=2, output_padding=1).shape
    (1, 3, 10, 10)
    """
    return _conv_transpose(2, input, weight, bias, stride, padding, output_padding, groups, dilation)


@public(home="nn.functional")
@computed_in("lower")
def conv_transpose3d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Size = 1,
    padding: Size = 0,
    output_padding: Size = 0,
    groups: int = 1,
    dilation: Size = 1,
) -> Tensor:
    """Return the transposed convolution over three dimensions: :func:`conv_transpose2d` for volumes.

    Parameters
    ----------
    input: (N, C, D, H, W) or (C, D, H, W).
    weight: (C, O / groups, KD, KH, KW).
    bias: (O,) or None.

    Returns (N, O, D', H', W') or (O, D', H', W'). Raises ShapeError, DTypeError.

    >>> import wengert as wg
    >>> wg.nn.functional.conv_transpose3d(wg.ones((1, 1, 2, 2, 2)), wg.ones((1, 3, 2, 2, 2)), stride=2).shape
    (1, 3, 4, 4, 4)
    """
    return _conv_transpose(3, input, weight, bias, stride, padding, output_padding, groups, dilation)
