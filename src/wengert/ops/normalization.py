"""Normalisation: layers, batches, groups, and root mean squares."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.declare import composite, op, public
from ..core.errors import ShapeError, fail
from ..core.op import Call, Missing, Vjp
from ..core.operands import promote_tensors
from ..core.record import bind
from ..core.spec import Spec, float32, normalize_shape, show
from ..core.tensor import Tensor
from .activations import operand
from .aliases import dim_alias
from .elementwise import rsqrt
from .norms import vector_norm
from .reduce import mean_op
from .reduction import count, reduced_shape
from .selection import maximum


def _standardize(x: Any, axis: tuple[int, ...], eps: float) -> tuple[Any, Any, Any]:
    wide = x.astype(float32) if x.dtype.itemsize == 2 else x
    n = count(x.shape, axis) or 1
    mean = np.add.reduce(wide, axis, keepdims=True) / n
    out = wide - mean
    variance = np.add.reduce(out * out, axis, keepdims=True) / n
    out *= 1 / np.sqrt(variance + wide.dtype.type(eps))
    return tuple(r.astype(x.dtype, copy=False) for r in (out, mean, variance))  # type: ignore[return-value]


def _standardize_pull(ct: Any, out: Any, axis: tuple[int, ...], eps: float, x_shape: Any) -> Any:
    """Through the result, and through the mean and the variance where they are used on their own."""
    ct_out, ct_mean, ct_variance = ct
    scaled, _, variance = out
    n = count(x_shape, axis) or 1
    inverse = rsqrt(variance + eps)
    level = ct_out.sum(axis=axis, keepdims=True) / n
    slope = (ct_out * scaled).sum(axis=axis, keepdims=True) / n
    inner = (ct_out - level - scaled * slope) * inverse
    return inner + (ct_mean + 2.0 * ct_variance * scaled / inverse) / n


def _infer_standardize(x: Spec, axis: tuple[int, ...], eps: float) -> tuple[Spec, Spec, Spec]:
    small = x.with_shape(reduced_shape(x.shape, axis, True))
    return x, small, small


def _standardize_reference(x: Any, axis: tuple[int, ...], eps: float) -> Any:
    def whole(fn: Any) -> Any:
        moved = np.moveaxis(x, axis, range(-len(axis), 0))
        rows = moved.reshape(*moved.shape[: x.ndim - len(axis)], -1)
        return np.expand_dims(np.apply_along_axis(lambda v: fn([float(a) for a in v]), -1, rows), axis)

    mean, variance = whole(statistics.fmean), whole(statistics.pvariance)
    return (x - mean) / np.sqrt(variance + eps), mean, variance


standardize_op = op(
    "standardize(x; axis, eps)",
    _standardize,
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
    onnx=Missing("ONNX has it as part of LayerNormalization"),
)


def _affine(x: Any, weight: Any, bias: Any, shape: tuple[int, ...]) -> Any:
    """x times a weight plus a bias, each reshaped, where there are any."""
    if weight is not None:
        x = x * (weight if weight.shape == shape else weight.reshape(shape))
    return x if bias is None else x + (bias if bias.shape == shape else bias.reshape(shape))


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
    "layer_norm(x, *params; axes, eps)",
    doc="x standardised over its last axes, times a weight, plus a bias.",
    source="Ba et al. 2016, arXiv:1607.06450",
    samples=_layer_norm_samples,
    reference=_layer_norm_reference,
    onnx="LayerNormalization",
)
def layer_norm_op(x: Any, *params: Any, axes: int, eps: float) -> Any:
    out = standardize_op.front(x, axis=tuple(range(-axes, 0)), eps=eps)[0]
    if params:
        out = out * params[0]
    return out + params[1] if len(params) > 1 else out


@public
def layer_norm(
    x: Any, normalized_shape: int | Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Tensor:
    """x less its mean over the last axes, divided by its deviation, times a weight, plus a bias.

    Parameters
    ----------
    x: (..., *normalized_shape).
    normalized_shape: the sizes of the axes that are normalised together.
    weight, bias: of shape `normalized_shape`, or None.
    eps: added to the variance.

    Raises ShapeError. Source: Ba et al. 2016, arXiv:1607.06450.

    >>> import wengert as wg
    >>> wg.layer_norm(wg.tensor([1.0, 3.0]), 2)
    tensor([-1.,  1.])
    """
    shape = normalize_shape(normalized_shape, "normalized_shape")
    t = operand(x, "layer_norm")
    if not shape or t.shape[-len(shape) :] != shape:
        fail(
            ShapeError,
            f"layer_norm over {shape} of x {show(t.shape, t.dtype)}",
            "normalized_shape is the sizes of the last axes of x.",
        )
    if weight is None and bias is not None:
        weight = Tensor(np.ones(shape, t.dtype))
    params = [p for p in (weight, bias) if p is not None]
    for p, name in zip(params, ("weight", "bias")):
        if tuple(p.shape) != shape:
            fail(ShapeError, f"layer_norm: {name} of shape {tuple(p.shape)} for normalized_shape {shape}")
    out: Tensor = layer_norm_op.front(*promote_tensors("layer_norm", t, *params), axes=len(shape), eps=float(eps))
    return out


@composite(
    "rms_norm(x, *weight; axes, eps)",
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
)
def rms_norm_op(x: Any, *weight: Any, axes: int, eps: float) -> Any:
    level = mean_op.front(x * x, axis=tuple(range(-axes, 0)), keepdims=True)
    out = x * rsqrt.front(level + eps)
    return out * weight[0] if weight else out


@public
def rms_norm(x: Any, normalized_shape: int | Sequence[int], weight: Any = None, eps: float = 1e-6) -> Tensor:
    """x over its root mean square along the last axes, times a weight.

    Parameters are those of :func:`layer_norm`. Source: Zhang and Sennrich 2019, arXiv:1910.07467.

    >>> import wengert as wg
    >>> wg.rms_norm(wg.tensor([3.0, 3.0]), 2)
    tensor([1., 1.])
    """
    shape = normalize_shape(normalized_shape, "normalized_shape")
    t = operand(x, "rms_norm")
    if not shape or t.shape[-len(shape) :] != shape:
        fail(ShapeError, f"rms_norm over {shape} of x {show(t.shape, t.dtype)}")
    params = [] if weight is None else [weight]
    out: Tensor = rms_norm_op.front(*promote_tensors("rms_norm", t, *params), axes=len(shape), eps=float(eps))
    return out


def _channels(x: Tensor, name: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The axes that statistics are taken over, and the shape of one number for each channel."""
    if x.ndim < 2:
        fail(ShapeError, f"{name} of {x.spec}", "It takes (n, channels, ...).")
    axes = tuple(a for a in range(-x.ndim, 0) if a != 1 - x.ndim)
    return axes, (x.shape[1],) + (1,) * (x.ndim - 2)


@public
def batch_norm(
    x: Any,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Every channel less its mean, divided by its deviation, times a weight, plus a bias.

    Parameters
    ----------
    x: (n, channels, ...).
    running_mean, running_var: (channels,). In training they are moved, outside the graph, towards
        the batch's mean and unbiased variance by `momentum`; else they are what is used. None takes
        the batch's statistics always.
    weight, bias: (channels,), or None.
    eps: added to the variance.

    Raises ShapeError. Source: Ioffe and Szegedy 2015, arXiv:1502.03167.

    >>> import wengert as wg
    >>> wg.batch_norm(wg.tensor([[1.0], [3.0]]), None, None, training=True)
    tensor([[-1.],
            [ 1.]])
    """
    t = operand(x, "batch_norm")
    axes, shape = _channels(t, "batch_norm")
    for p in (running_mean, running_var, weight, bias):
        if p is not None and tuple(p.shape) != shape[:1]:
            fail(ShapeError, f"batch_norm: a parameter of shape {tuple(p.shape)} for {shape[0]} channels of {t.spec}")
    if training or running_mean is None or running_var is None:
        scaled, mean, variance = bind(standardize_op, (t,), {"axis": axes, "eps": float(eps)})
        n = count(t.shape, axes)
        if training and n == 1:
            fail(ShapeError, f"batch_norm in training of one value for each channel, {t.spec}", "Use a larger batch.")
        if training and running_mean is not None and running_var is not None and not t.is_abstract and n:
            _move(running_mean, mean, momentum)
            _move(running_var, variance, momentum, n / (n - 1))
    else:
        center, spread = (r.detach().reshape(shape) for r in (running_mean, running_var))
        scaled = (t - center) * rsqrt.front(spread + eps)
    out: Tensor = _affine(scaled, weight, bias, shape)
    return out


def _move(running: Tensor, batch: Tensor, momentum: float, scale: float = 1.0) -> None:
    value = np.asarray(batch._data).reshape(running.shape) * scale
    running.assign_((1 - momentum) * np.asarray(running._data) + momentum * value)


@public
def group_norm(x: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Tensor:
    """Groups of channels less their mean, over their deviation, times a weight, plus a bias.

    Parameters
    ----------
    x: (n, channels, ...), the channels a multiple of `num_groups`.
    weight, bias: (channels,), or None.

    Raises ShapeError. Source: Wu and He 2018, arXiv:1803.08494.

    >>> import wengert as wg
    >>> wg.group_norm(wg.tensor([[1.0, 3.0]]), 1)
    tensor([[-1.,  1.]])
    """
    t = operand(x, "group_norm")
    _, shape = _channels(t, "group_norm")
    if num_groups < 1 or shape[0] % num_groups:
        fail(ShapeError, f"group_norm: {shape[0]} channels of {t.spec} do not divide into {num_groups} groups")
    grouped = t.reshape((t.shape[0], num_groups, -1))
    scaled = bind(standardize_op, (grouped,), {"axis": (-1,), "eps": float(eps)})[0].reshape(t.shape)
    out: Tensor = _affine(scaled, weight, bias, shape)
    return out


@public
@dim_alias
def normalize(x: Any, p: float = 2.0, axis: int = 1, eps: float = 1e-12) -> Tensor:
    """x over its p-norm along an axis (at least `eps`).

    >>> import wengert as wg
    >>> wg.normalize(wg.tensor([[3.0, 4.0]]))
    tensor([[0.6, 0.8]])
    """
    t = operand(x, "normalize")
    length = vector_norm(t, axis=axis, keepdims=True, ord=p)
    out: Tensor = t / maximum.front(length, eps)
    return out


@public
@dim_alias
def cosine_similarity(x: Any, y: Any, axis: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between x and y along an axis.

    >>> import wengert as wg
    >>> wg.cosine_similarity(wg.tensor([[1.0, 0.0]]), wg.tensor([[1.0, 1.0]]))
    tensor([0.7071])
    """
    a, b = promote_tensors("cosine_similarity", operand(x, "cosine_similarity"), operand(y, "cosine_similarity"))
    lengths = vector_norm(a, axis=axis) * vector_norm(b, axis=axis)
    out: Tensor = (a * b).sum(axis=axis) / maximum.front(lengths, eps)
    return out
