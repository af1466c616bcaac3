"""Normalisation: layers, batches, groups, and root mean squares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ...core.dtypes import DType
from ...core.errors import ShapeError, fail
from ...core.mode import get_mode
from ...core.ops.autocast import Precisions
from ...core.ops.costs import DIVISION
from ...core.ops.declare import composite, op, public
from ...core.ops.facets import Cause, Form, Nonfinite
from ...core.ops.nonfinite import ROWS, always
from ...core.ops.op import Call, Joint, Missing, Vjp
from ...core.ops.operands import promote_tensors
from ...core.spec import Spec, broadcast_shapes, normalize_shape, show
from ...core.state.capture import get_capture
from ...core.tensor import Tensor, asarray
from ..aliases import dim_alias
from ..index.formats import in_rows, with_channels_last
from ..long_sums import add_up
from ..pointwise.arithmetic import negative, rsqrt
from ..pointwise.selection import maximum
from ..reduce.common import count, divided, narrowed, reduced_shape, running_dtype, widened
from ..reduce.norms import vector_norm
from ..reduce.sums import mean_op
from ..structure.dtypes import finfo
from ..structure.shapes import broadcast, casted
from .activations import inexact_operand, operand
from .norm_kernels import channels_backward, channels_forward, rows_backward, rows_forward


def _standardize(x: Any, axis: tuple[int, ...], eps: float) -> tuple[Any, Any, Any]:
    wide = widened(x)
    n = count(x.shape, axis) or 1
    mean = add_up(wide, axis, None, None, True) / n
    out = wide - mean
    variance = add_up(out * out, axis, None, None, True) / n
    out *= 1 / np.sqrt(variance + wide.dtype.type(eps))
    return narrowed(out, x.dtype), narrowed(mean, x.dtype), narrowed(variance, x.dtype)


def _standardize_pull(ct: Any, out: Any, axis: tuple[int, ...], eps: float, x_shape: Any) -> Any:
    """Return the cotangent through the result, and through mean and variance where they are used on their own."""
    ct_out, ct_mean, ct_variance = ct
    scaled, _, variance = out
    n = count(x_shape, axis) or 1
    inverse = rsqrt(variance + eps)
    level = ct_out.sum(axis=axis, keepdims=True) / n
    slope = (ct_out * scaled).sum(axis=axis, keepdims=True) / n
    inner = (ct_out - level - scaled * slope) * inverse
    return inner + (ct_mean + 2.0 * ct_variance * scaled / inverse) / n


def _standardize_composed(x: Any, axis: tuple[int, ...], eps: float) -> tuple[Any, Any, Any]:
    wide = casted(x, running_dtype(x.dtype))
    mean = mean_op.front(wide, axis=axis, keepdims=True)
    out = wide - mean
    variance = mean_op.front(out * out, axis=axis, keepdims=True)
    scaled = out * rsqrt.front(variance + eps)
    return casted(scaled, x.dtype), casted(mean, x.dtype), casted(variance, x.dtype)


def _infer_standardize(x: Spec, axis: tuple[int, ...], eps: float) -> tuple[Spec, Spec, Spec]:
    small = x.with_shape(reduced_shape(x.shape, axis, True))
    return x, small, small


def _standardize_reference(x: Any, axis: tuple[int, ...], eps: float) -> Any:
    def whole(fn: Any) -> Any:
        moved = np.moveaxis(x, axis, range(-len(axis), 0))
        rows = moved.reshape(*moved.shape[: x.ndim - len(axis)], -1)
        return np.expand_dims(np.apply_along_axis(lambda v: fn([float(a) for a in v]), -1, rows), axis)

    mean = whole(lambda row: math.fsum(row) / len(row))
    variance = whole(lambda row: math.fsum((v - math.fsum(row) / len(row)) ** 2 for v in row) / len(row))
    return (x - mean) / np.sqrt(variance + eps), mean, variance


standardize_op = op(
    "standardize(x; axis: axes, eps)",
    _standardize,
    accepts="real_inexact",
    infer=_infer_standardize,
    results=3,
    facts={"x": Vjp(_standardize_pull)},
    doc="x less its mean, over its deviation, along axes; and the mean and the variance.",
    source="Ioffe and Szegedy 2015, arXiv:1502.03167",
    samples=lambda rng: [
        Call((rng.normal(size=(2, 4)),), {"axis": (-1,), "eps": 1e-5}),
        Call((rng.normal(size=(3, 2, 2)),), {"axis": (-3, -1), "eps": 1e-3}),
    ],
    reference=_standardize_reference,
    composed=_standardize_composed,
    onnx=Missing("ONNX has it as part of LayerNormalization"),
    dependence="rows",
    cost=6 + DIVISION,
    autocast="float32",
)


# -- rows: over the last axes


def _standard_rows(x: Any, axes: tuple[int, ...], eps: float, centred: bool) -> tuple[Any, Any]:
    """Return a tensor less its mean (or as it is), over its deviation; and one over the deviation."""
    if centred:
        scaled, _, variance = standardize_op.front(x, axis=axes, eps=eps)
        return scaled, rsqrt.front(variance + eps)
    inverse = rsqrt.front(mean_op.front(x * x, axis=axes, keepdims=True) + eps)
    return x * inverse, inverse


def _rows(x: Any, *params: Any, axes: int, eps: float, centred: bool) -> Any:
    """Return the body of the norms over rows, computed in float32 at least."""
    wide = casted(x, running_dtype(x.dtype))
    out = _standard_rows(wide, _last(axes), eps, centred)[0]
    if params:
        out = out * params[0]
    return casted(out + params[1] if len(params) > 1 else out, x.dtype)


def _rows_pull(ct: Any, x: Any, params: tuple[Any, ...], axes: int, eps: float, centred: bool) -> tuple[Any, ...]:
    if not isinstance(ct, Tensor):
        return rows_backward(ct, x, *params, axes=axes, eps=eps, centred=centred)
    dtype, over = x.dtype, _last(axes)
    wide, g = casted(x, running_dtype(dtype)), casted(ct, running_dtype(dtype))
    scaled, inverse = _standard_rows(wide, over, eps, centred)
    before = tuple(range(-x.ndim, -axes))
    ct_params = [(g * scaled).sum(axis=before), g.sum(axis=before)][: len(params)]
    if params:
        g = g * params[0]
    inner = g - scaled * (g * scaled).mean(axis=over, keepdims=True)
    if centred:
        inner = inner - g.mean(axis=over, keepdims=True)
    return tuple(casted(c, dtype) for c in (inner * inverse, *ct_params))


def _check_params(x: Spec, shape: tuple[int, ...], params: Sequence[Spec]) -> None:
    """Raise ShapeError unless a weight and a bias, or what there is of them, have a shape."""
    if len(params) > 2 or any(p.shape != shape for p in params):
        fail(ShapeError, f"a norm of {show(x.shape, x.dtype)} with {' and '.join(map(str, params))}, not {shape}")


def _rows_fit(x: Spec, *params: Spec, axes: int, eps: float) -> None:
    _check_params(x, x.shape[len(x.shape) - axes :], params)


def _channels_fit(x: Spec, *params: Spec, axis: int, eps: float) -> None:
    _check_params(x, (x.shape[axis],), params)


def _fixed_fit(x: Spec, mean: Spec, variance: Spec, *params: Spec, axis: int, eps: float) -> None:
    _check_params(x, (x.shape[axis],), (mean, variance))
    _check_params(x, (x.shape[axis],), params)


def _groups_fit(x: Spec, *params: Spec, groups: int, axis: int, eps: float) -> None:
    if x.shape[axis] % groups:
        fail(ShapeError, f"group_norm of {show(x.shape, x.dtype)} with {groups} groups")
    _check_params(x, (x.shape[axis],), params)


def _last(axes: int) -> tuple[int, ...]:
    return tuple(range(-axes, 0))


def _layer_norm_reference(x: Any, *params: Any, axes: int, eps: float) -> Any:
    out = _standardize_reference(x, tuple(range(-axes, 0)), eps)[0]
    out = out * params[0] if params else out
    return out + params[1] if len(params) > 1 else out


def _layer_norm_samples(rng: Any) -> list[Call]:
    attrs = {"axes": 1, "eps": 1e-5}
    x, w, b = rng.normal(size=(2, 4)), rng.normal(size=4), rng.normal(size=4)
    return [
        Call((x, w, b), attrs),
        Call((x, w), attrs),
        Call((rng.normal(size=(2, 2, 3)),), {"axes": 2, "eps": 1e-3}),
    ]


@composite(
    "layer_norm(x, *params; axes: last_axes, eps)",
    fits=_rows_fit,
    accepts="real_inexact",
    forward=partial(rows_forward, centred=True),
    facts=Joint(lambda ct, x, params, axes, eps: _rows_pull(ct, x, params, axes, eps, True)),
    doc="x standardised over its last axes, times a weight, plus a bias.",
    source="Ba et al. 2016, arXiv:1607.06450",
    samples=_layer_norm_samples,
    reference=_layer_norm_reference,
    onnx="LayerNormalization",
    form=Form("norm", say="Each element gets what is left after its mean and its scale are taken out."),
    nonfinite=Nonfinite(
        ((always, Cause("the deviation of a row is 0 (and eps is 0), or its square overflows", ROWS)),),
        backward=Cause("the slope of a norm whose deviation is 0", ROWS),
    ),
    autocast="float32",
)
def layer_norm_op(x: Any, *params: Any, axes: int, eps: float) -> Any:
    """Return rows less their mean, over their deviation, times a weight, plus a bias."""
    return _rows(x, *params, axes=axes, eps=eps, centred=True)


def in_dtype_of(x: Tensor, out: Any) -> Any:
    """Return a norm of 16-bit numbers in their dtype, whatever the parameters have; under an autocast in float32."""
    dtype = x.spec.dtype
    if dtype.itemsize != 2 or out.spec.dtype == dtype:
        return out
    autocast = get_mode().autocast
    return out if isinstance(autocast, Precisions) and autocast.rules == "wengert" else casted(out, dtype)


@public(home="nn.functional")
def layer_norm(
    input: Any, normalized_shape: int | Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Tensor:
    """Return x less its mean over the last axes, divided by its deviation, times a weight, plus a bias.

    Parameters
    ----------
    input: (..., *normalized_shape).
    normalized_shape: the sizes of the axes that are normalised together.
    weight, bias: of shape `normalized_shape`, or None.
    eps: added to the variance.

    Raises ShapeError. Source: Ba et al. 2016, arXiv:1607.06450.

    >>> import wengert as wg
    >>> wg.nn.functional.layer_norm(wg.tensor([1.0, 3.0]), 2)
    tensor([-1.,  1.])
    """
    shape = normalize_shape(normalized_shape, "normalized_shape")
    t = operand(input, "layer_norm")
    args = _row_operands("layer_norm", t, shape, weight, bias)
    return in_rows(in_dtype_of(t, layer_norm_op.front(*args, axes=len(shape), eps=float(eps))))  # type: ignore


def _row_operands(name: str, t: Tensor, shape: tuple[int, ...], weight: Any, bias: Any = None) -> list[Tensor]:
    if not shape or t.shape[-len(shape) :] != shape:
        fail(
            ShapeError,
            f"{name} over {shape} of x {show(t.shape, t.dtype)}",
            "normalized_shape is the sizes of the last axes of x.",
        )
    return promote_tensors(name, t, *_params(name, shape, t.dtype, weight, bias))


def _params(name: str, shape: tuple[int, ...], dtype: DType, weight: Any, bias: Any) -> list[Tensor]:
    """Return the weight and the bias that there are, checked; a bias alone gets a weight of ones."""
    if weight is None and bias is not None:
        weight = asarray(np.ones(shape, dtype), copy=False)
    params = [operand(p, name) for p in (weight, bias) if p is not None]
    for p, which in zip(params, ("weight", "bias")):
        if p.shape != shape:
            fail(ShapeError, f"{name}: a {which} of shape {p.shape}", f"Here it has shape {shape}.")
    return params


@composite(
    "rms_norm(x, *params; axes: last_axes, eps)",
    fits=_rows_fit,
    accepts="real_inexact",
    forward=partial(rows_forward, centred=False),
    facts=Joint(lambda ct, x, params, axes, eps: _rows_pull(ct, x, params, axes, eps, False)),
    doc="x over its root mean square along the last axes, times a weight.",
    source="Zhang and Sennrich 2019, arXiv:1910.07467",
    samples=lambda rng: [
        Call((rng.normal(size=(2, 4)), rng.normal(size=4)), {"axes": 1, "eps": 1e-5}),
        Call((rng.normal(size=(2, 2, 3)),), {"axes": 2, "eps": 1e-3}),
    ],
    reference=lambda x, *w, axes, eps: (
        x / np.sqrt(np.mean(x**2, tuple(range(-axes, 0)), keepdims=True) + eps) * (w[0] if w else 1.0)
    ),
    onnx=Missing("no operator before opset 23"),
    form=Form("norm", say="Each element gets what is left after its scale is taken out."),
    nonfinite=Nonfinite(
        ((always, Cause("the mean square of a row is 0 (and eps is 0), or overflows", ROWS)),),
        backward=Cause("the slope of a norm whose mean square is 0", ROWS),
    ),
    autocast="float32",
)
def rms_norm_op(x: Any, *params: Any, axes: int, eps: float) -> Any:
    """Return rows over their root mean square, times a weight."""
    return _rows(x, *params, axes=axes, eps=eps, centred=False)


@public(home="nn.functional")
def rms_norm(input: Any, normalized_shape: int | Sequence[int], weight: Any = None, eps: float | None = None) -> Tensor:
    """Return x over its root mean square along the last axes, times a weight.

    Parameters are those of :func:`layer_norm`; `eps` is the machine epsilon of x where None. Of complex numbers the
    square is that of the number, not that of its length.
    Source: Zhang and Sennrich 2019, arXiv:1910.07467.

    >>> import wengert as wg
    >>> wg.nn.functional.rms_norm(wg.tensor([3.0, 3.0]), 2)
    tensor([1., 1.])
    """
    shape = normalize_shape(normalized_shape, "normalized_shape")
    t = inexact_operand(input, "rms_norm")
    args = _row_operands("rms_norm", t, shape, weight)
    if eps is None:
        eps = float(finfo(t.spec.dtype).eps)
    if t.spec.dtype.kind == "c":
        z, *rest = args
        out: Any = z * rsqrt.front((z * z).mean(axis=_last(len(shape)), keepdims=True) + eps)
        return out * rest[0] if rest else out  # type: ignore[no-any-return]
    return in_dtype_of(t, rms_norm_op.front(*args, axes=len(shape), eps=float(eps)))  # type: ignore[no-any-return]


# -- channels: over the batch and all positions


def _channel_axis(x: Tensor, name: str) -> int:
    """Return the channels' axis, counted from the right."""
    if x.ndim < 2:
        fail(ShapeError, f"{name} of {x.spec}", "It takes (n, channels, ...).")
    return 1 - x.ndim


def _all_but(axis: int, ndim: int) -> tuple[int, ...]:
    return tuple(a for a in range(-ndim, 0) if a != axis)


def _beside(p: Any, axis: int) -> Any:
    """Return one number for each channel, shaped to broadcast with x."""
    return p.reshape((p.shape[0],) + (1,) * (-axis - 1))


def _affine(x: Any, params: Sequence[Any], axis: int) -> Any:
    """Return x times a weight, plus a bias, for each channel."""
    if params:
        x = x * _beside(params[0], axis)
    return x + _beside(params[1], axis) if len(params) > 1 else x


def _channels_pull(ct: tuple[Any, Any, Any], x: Any, params: tuple[Any, ...], axis: int, eps: float) -> tuple[Any, ...]:
    if not isinstance(ct[0], Tensor):
        return channels_backward(ct, x, *params, axis=axis, eps=eps)
    dtype, over = x.dtype, _all_but(axis, x.ndim)
    wide, g, ct_mean, ct_variance = (casted(t, running_dtype(dtype)) for t in (x, *ct))
    scaled, _, variance = standardize_op.front(wide, axis=over, eps=eps)
    inverse = rsqrt.front(variance + eps)
    ct_params = [(g * scaled).sum(axis=over), g.sum(axis=over)][: len(params)]
    g = _affine(g, params[:1], axis)
    inner = g - g.mean(axis=over, keepdims=True) - scaled * (g * scaled).mean(axis=over, keepdims=True)
    beside = _beside(ct_mean, axis) + 2.0 * _beside(ct_variance, axis) * scaled / inverse
    ct_x = inner * inverse + divided(beside, count(x.shape, over))
    return tuple(casted(c, dtype) for c in (ct_x, *ct_params))


def _batch_norm_samples(rng: Any) -> list[Call]:
    w, b = rng.normal(size=2), rng.normal(size=2)
    return [
        Call((rng.normal(size=(4, 2)), w, b), {"axis": -1, "eps": 1e-5}),
        Call((rng.normal(size=(2, 2, 3)), w), {"axis": -2, "eps": 1e-3}),
        Call((rng.normal(size=(3, 2, 2, 1)),), {"axis": -3, "eps": 1e-5}),
    ]


def _batch_norm_reference(x: Any, *params: Any, axis: int, eps: float) -> Any:
    scaled, mean, variance = _standardize_reference(x, _all_but(axis, x.ndim), eps)
    return _affine(scaled, params, axis), mean.reshape(-1), variance.reshape(-1)


@composite(
    "batch_norm(x, *params; axis, eps)",
    fits=_channels_fit,
    accepts="real_inexact",
    forward=channels_forward,
    facts=Joint(_channels_pull),
    results=3,
    doc="Channels standardised over the batch, times a weight, plus a bias; their means and variances.",
    source="Ioffe and Szegedy 2015, arXiv:1502.03167",
    samples=_batch_norm_samples,
    reference=_batch_norm_reference,
    onnx="BatchNormalization",
    batching="body",
    form=Form("norm", say="Each element gets what is left after the batch's mean and scale are taken out."),
    nonfinite=Nonfinite(
        ((always, Cause("the deviation of a channel is 0 (and eps is 0), or its square overflows", ROWS)),)
    ),
    autocast="float32",
)
def batch_norm_op(x: Any, *params: Any, axis: int, eps: float) -> Any:
    """Return standardised channels, times a weight, plus a bias, with their means and variances."""
    wide = casted(x, running_dtype(x.dtype))
    scaled, mean, variance = standardize_op.front(wide, axis=_all_but(axis, x.ndim), eps=eps)
    out = _affine(scaled, params, axis)
    return tuple(casted(r, x.dtype) for r in (out, mean.reshape((-1,)), variance.reshape((-1,))))


@composite(
    "batch_norm_fixed(x, mean, variance, *params; axis, eps)",
    fits=_fixed_fit,
    accepts="real_inexact",
    doc="Channels less a given mean, over a given deviation, times a weight, plus a bias.",
    source="Ioffe and Szegedy 2015, arXiv:1502.03167",
    samples=lambda rng: [
        Call((c.args[0], rng.normal(size=2), rng.uniform(0.5, 2, 2), *c.args[1:]), c.attrs)
        for c in _batch_norm_samples(rng)
    ],
    reference=lambda x, mean, variance, *params, axis, eps: _affine(
        (x - _beside(mean, axis)) / np.sqrt(_beside(variance, axis) + eps), params, axis
    ),
    onnx="BatchNormalization",
    batching="body",
    autocast="float32",
)
def batch_norm_fixed_op(x: Any, mean: Any, variance: Any, *params: Any, axis: int, eps: float) -> Any:
    """Return channels standardised by given means and variances, times a weight, plus a bias."""
    wide = running_dtype(x.dtype)
    scale = rsqrt.front(casted(variance, wide) + eps)
    if params:
        scale = scale * casted(params[0], wide)
    shift = negative.front(casted(mean, wide) * scale)
    if len(params) > 1:
        shift = shift + casted(params[1], wide)
    return casted(casted(x, wide) * _beside(scale, axis) + _beside(shift, axis), x.dtype)


@public(home="nn.functional")
def batch_norm(
    input: Any,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Return x with every channel less its mean, divided by its deviation, times a weight, plus a bias.

    Parameters
    ----------
    input: (n, channels, ...).
    running_mean, running_var: (channels,). In training they are moved, outside the graph, towards
        the batch's mean and unbiased variance by `momentum`; else they are what is used. None takes
        the batch's statistics always. A compiled function moves them in every call; in other traces,
        where a batch has no values, they stay.
    weight, bias: (channels,), or None.
    eps: added to the variance.

    Raises ShapeError. Source: Ioffe and Szegedy 2015, arXiv:1502.03167.

    >>> import wengert as wg
    >>> wg.nn.functional.batch_norm(wg.tensor([[1.0], [3.0]]), None, None, training=True)
    tensor([[-1.],
            [ 1.]])
    """
    t = operand(input, "batch_norm")
    if 0 in t.spec.shape:  # of nothing there are no statistics; parameters have zero gradients
        out = t * 1.0
        if t.ndim > 1:
            out = _affine(out, _params("batch_norm", t.shape[1:2], t.dtype, weight, bias), 1 - t.ndim)
        return in_dtype_of(t, out)  # type: ignore[no-any-return]
    axis = _channel_axis(t, "batch_norm")
    channels = t.shape[axis]
    for r in (running_mean, running_var):
        if r is not None and r.shape != (channels,):
            fail(ShapeError, f"batch_norm: running statistics {r.spec} for {channels} channels of {t.spec}")
    args = promote_tensors("batch_norm", t, *_params("batch_norm", (channels,), t.dtype, weight, bias))
    attrs = {"axis": axis, "eps": float(eps)}
    if running_mean is None or running_var is None or training:
        n = count(t.shape, _all_but(axis, t.ndim))
        if training and n == 1:
            fail(ShapeError, f"batch_norm in training of one value for each channel, {t.spec}", "Use a larger batch.")
        out, mean, variance = batch_norm_op.front(*args, **attrs)
        if running_mean is not None and running_var is not None and follows(t):
            _move(running_mean, mean, momentum)
            _move(running_var, variance, momentum, n / (n - 1))
    else:
        fixed = (casted(r.detach(), args[0].dtype) for r in (running_mean, running_var))
        out = batch_norm_fixed_op.front(args[0], *fixed, *args[1:], **attrs)
    return with_channels_last(in_dtype_of(t, out), t)  # type: ignore[no-any-return]


def follows(x: Tensor) -> bool:
    """Return whether running statistics follow a batch: it has values, or will have when a compiled function runs."""
    if not x.is_abstract:
        return True
    scope = get_mode().scope
    return get_capture() is not None and not (scope is not None and scope.within("trace"))


def _move(running: Tensor, batch: Tensor, momentum: Any, scale: float = 1.0) -> None:
    old: Any = running.detach()
    new: Any = batch.detach()
    if not (running.is_abstract or batch.is_abstract or isinstance(momentum, Tensor)):
        old, new = old._array, new._array
    running.assign_((1 - momentum) * old + momentum * (new.reshape(running.shape) * scale))


def _group_norm_reference(x: Any, *params: Any, groups: int, axis: int, eps: float) -> Any:
    grouped = x.reshape((x.shape[0], groups, -1))
    return _affine(_standardize_reference(grouped, (-1,), eps)[0].reshape(x.shape), params, axis)


@composite(
    "group_norm(x, *params; groups, axis, eps)",
    fits=_groups_fit,
    accepts="real_inexact",
    doc="Groups of channels standardised for each member of a batch, times a weight, plus a bias.",
    source="Wu and He 2018, arXiv:1803.08494",
    samples=lambda rng: [
        Call((rng.normal(size=(2, 4)), *rng.normal(size=(2, 4))), {"groups": 2, "axis": -1, "eps": 1e-5}),
        Call((rng.normal(size=(2, 2, 3)),), {"groups": 1, "axis": -2, "eps": 1e-3}),
    ],
    reference=_group_norm_reference,
    onnx="GroupNormalization",
    nonfinite=Nonfinite(
        ((always, Cause("the deviation of a group is 0 (and eps is 0), or its square overflows", ROWS)),)
    ),
    autocast="float32",
)
def group_norm_op(x: Any, *params: Any, groups: int, axis: int, eps: float) -> Any:
    """Return standardised groups of channels, times a weight, plus a bias."""
    each = prod(x.shape[axis:]) // groups
    grouped = x.reshape((*x.shape[:axis], groups, each))
    return _affine(layer_norm_op.front(grouped, axes=1, eps=eps).reshape(x.shape), params, axis)


@public(home="nn.functional")
def group_norm(input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Tensor:
    """Return x with groups of channels less their mean, over their deviation, times a weight, plus a bias.

    Parameters
    ----------
    input: (n, channels, ...), the channels a multiple of `num_groups`.
    weight, bias: (channels,), or None.

    Raises ShapeError. Source: Wu and He 2018, arXiv:1803.08494.

    >>> import wengert as wg
    >>> wg.nn.functional.group_norm(wg.tensor([[1.0, 3.0]]), 1)
    tensor([[-1.,  1.]])
    """
    t = operand(input, "group_norm")
    axis = _channel_axis(t, "group_norm")
    channels = t.shape[axis]
    if num_groups < 1 or channels % num_groups:
        fail(ShapeError, f"group_norm: {channels} channels of {t.spec} do not divide into {num_groups} groups")
    if t.shape[axis:] and prod(t.shape[:axis]) * prod(t.shape[axis:]) == num_groups:
        fail(ShapeError, f"group_norm of {t.spec} in {num_groups} groups", "A group has more than one value.")
    args = promote_tensors("group_norm", t, *_params("group_norm", (channels,), t.dtype, weight, bias))
    out = group_norm_op.front(*args, groups=int(num_groups), axis=axis, eps=float(eps))
    return with_channels_last(in_dtype_of(t, out), t)  # type: ignore[no-any-return]


@public(home="nn.functional")
def normalize(input: Any, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """Return x over its p-norm along an axis (at least `eps`). Raises ShapeError.

    >>> import wengert as wg
    >>> wg.nn.functional.normalize(wg.tensor([[3.0, 4.0]]))
    tensor([[0.6, 0.8]])
    """
    t = inexact_operand(input, "normalize")
    if t.ndim == 0 and dim in (0, -1):  # one number has an axis of one, as in PyTorch
        return normalize(t.reshape((1,)), p, 0, eps).reshape(())
    out: Tensor = t / maximum.front(vector_norm(t, axis=dim, keepdims=True, ord=p), eps)
    return out


@public(home="nn.functional")
@dim_alias
def cosine_similarity(x1: Any, x2: Any, axis: int = 1, eps: float = 1e-8) -> Tensor:
    """Return the cosine of the angle between vectors along an axis; both broadcast.

    Lengths below `eps` count as it. Raises ShapeError for shapes that do not broadcast.

    >>> import wengert as wg
    >>> wg.nn.functional.cosine_similarity(wg.tensor([[1.0, 0.0]]), wg.tensor([[1.0, 1.0]]))
    tensor([0.7071])
    """
    a, b = promote_tensors("cosine_similarity", operand(x1, "cosine_similarity"), operand(x2, "cosine_similarity"))
    if a.ndim == b.ndim == 0:  # one number has an axis of one, as in PyTorch
        a, b = a.reshape((1,)), b.reshape((1,))
    shape = broadcast_shapes(a.shape, b.shape)
    if shape is None:
        fail(ShapeError, f"cosine_similarity of {a.spec} and {b.spec}", "Their shapes must broadcast.")
    a, b = (t if t.shape == shape else broadcast.front(t, shape=shape) for t in (a, b))
    lengths = [maximum.front(vector_norm(t, axis=axis), eps) for t in (a, b)]
    out: Tensor = (a * b).sum(axis=axis) / (lengths[0] * lengths[1])
    return out
