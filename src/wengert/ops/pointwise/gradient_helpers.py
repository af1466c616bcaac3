"""Values that pass unchanged while their derivative does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core import tree
from ...core.errors import DTypeError, ShapeError, fail
from ...core.ops.declare import elementwise, op, public
from ...core.ops.facets import Role
from ...core.ops.op import TABLE, Call, Joint, Linear, Missing, NoDerivative, Partial
from ...core.ops.record import SCALARS
from ...core.spec import category
from ...core.tensor import Tensor
from ..structure.shapes import as_operand
from .arithmetic import stop_gradient

_NO_ONNX = Missing("ONNX models carry no derivatives")


def _tensor(x: Any, what: str) -> Tensor:
    if not isinstance(x, (Tensor, np.ndarray, np.generic, bool, int, float, complex, list)):
        fail(DTypeError, f"{what} of a {type(x).__name__}, which is not a tensor")
    return as_operand(x)


# -- scaled and reversed


def _as_array(x: Any, like: Any) -> Any:
    """Return `x` itself, or for a number an array of it."""
    return np.full_like(like, x) if type(x) in SCALARS else x


_scaled = elementwise(
    "scale_gradient(x, scale)",
    _as_array,
    partials={"x": Partial(lambda scale: scale), "scale": NoDerivative("it weighs gradients, not the value")},
    doc="x; its derivative is multiplied by scale.",
    public="",
    samples=lambda rng: [Call((rng.normal(size=(2, 3)), rng.normal(size=(2, 3))), order=0)],
    reference=lambda x, scale: x,
    onnx=_NO_ONNX,
    role=Role.PASS,
    cost=0,
    sympy=lambda sp, x, scale: x,
)


@public
def scale_gradient(x: Any, scale: Any) -> Tensor:
    """Return `x`, with its derivative multiplied by `scale` in every mode.

    Parameters
    ----------
    x: a tensor, an array or a number.
    scale: a number, or a tensor that broadcasts to the shape of `x`; no gradient flows to it.

    Cotangents are multiplied by `scale` on their way back, tangents on their way forward; with
    every order of derivative there is one more factor. The result has the dtype of `x`.

    Raises ShapeError, DTypeError.

    >>> import wengert as wg
    >>> wg.grad(lambda x: wg.scale_gradient(x, 0.1) ** 2)(3.0)
    tensor(0.6)
    """
    value = _tensor(x, "scale_gradient")
    if category(value.dtype) < 2:
        return value
    if isinstance(scale, (bool, int, float, complex)):
        if isinstance(scale, complex) and category(value.dtype) < 3:
            fail(DTypeError, f"scale_gradient of {value.spec} by the complex number {scale}")
        return _scaled.front(value, scale)  # type: ignore[no-any-return]
    factor = _tensor(scale, "scale_gradient: a scale")
    if category(factor.dtype) == 3 and category(value.dtype) < 3:
        fail(DTypeError, f"scale_gradient of {value.spec} by a complex tensor {factor.spec}")
    if factor.ndim > value.ndim or any(a not in (1, b) for a, b in zip(factor.shape[::-1], value.shape[::-1])):
        fail(
            ShapeError,
            f"scale_gradient: a scale of shape {factor.shape} does not broadcast to {value.shape}",
            "Give a number, or a factor for each element.",
        )
    if factor.dtype != value.dtype:
        factor = TABLE["cast"].front(factor, dtype=value.dtype)
    return _scaled.front(value, factor)  # type: ignore[no-any-return]


@public
def reverse_gradient(x: Any, scale: float = 1.0) -> Tensor:
    """Return `x`, with its derivative multiplied by `-scale`: gradient reversal.

    What comes after learns to do its task; what comes before learns to make it fail. Tangents are
    reversed too, so that both modes compute the same linear map; where a sensitivity is wanted and
    not the training signal, leave the reversal out.

    Source: Ganin and Lempitsky, "Unsupervised domain adaptation by backpropagation", ICML 2015.

    Raises DTypeError.

    >>> import wengert as wg
    >>> wg.grad(lambda x: wg.reverse_gradient(x, 0.5) ** 2)(3.0)
    tensor(-3.)
    """
    if not isinstance(scale, (int, float)):
        fail(DTypeError, f"reverse_gradient: a scale of type {type(scale).__name__}", "Give a number.")
    return scale_gradient(x, -scale)


# -- clipped


def _clipped_between(ct: Any, low: float | None, high: float | None) -> tuple[Any]:
    if low is not None:
        ct = TABLE["maximum"](ct, _like(ct, low))
    if high is not None:
        ct = TABLE["minimum"](ct, _like(ct, high))
    return (ct,)


def _like(ct: Any, number: float) -> Any:
    return np.asarray(number, ct.dtype) if isinstance(ct, np.ndarray) else number


_clipped = op(
    "clip_gradient(x; low: number?, high: number?)",
    lambda x, low, high: x,
    infer=lambda x, low, high: x,
    facts=Joint(_clipped_between, push=lambda ts: ts[0]),
    doc="x; cotangents that come back to it are clipped to [low, high].",
    samples=lambda rng: [
        Call((rng.normal(size=(2, 3)),), {"low": -0.5, "high": 1.0}, order=0),
        Call((rng.normal(size=()),), {"low": None, "high": 1.0}, order=0),
    ],
    reference=lambda x, low, high: x,
    onnx=_NO_ONNX,
    role=Role.PASS,
    cost=0,
)


def _clipped_to_norm(ct: Any, norm: float, axis: tuple[int, ...]) -> tuple[Any]:
    dtype = ct.dtype
    if dtype.itemsize == 2:  # the squares of 16-bit floats overflow early
        ct = TABLE["cast"](ct, dtype=np.dtype(np.float32))
    size = TABLE["abs"](ct)
    squared = TABLE["sum"](size * size, axis=axis, keepdims=True)
    large = squared > norm * norm
    # Where nothing is clipped the root is not taken: its slope at 0 is infinite.
    root = TABLE["sqrt"](TABLE["where"](large, squared, _like(squared, norm * norm + 1.0)))
    factor = TABLE["where"](large, norm / root, _like(squared, 1.0))
    out = ct * factor
    return (out if out.dtype == dtype else TABLE["cast"](out, dtype=dtype),)


_clipped_norm = op(
    "clip_gradient_norm(x; norm, axis: axes)",
    lambda x, norm, axis: x,
    infer=lambda x, norm, axis: x,
    facts=Joint(_clipped_to_norm, push=lambda ts: ts[0]),
    doc="x; cotangents that come back to it are scaled down where their norm over axes is larger than norm.",
    samples=lambda rng: [
        Call((rng.normal(size=(2, 3)),), {"norm": 0.5, "axis": (-2, -1)}, order=0),
        Call((rng.normal(size=(2, 3)),), {"norm": 0.5, "axis": (-1,)}, order=0),
    ],
    reference=lambda x, norm, axis: x,
    onnx=_NO_ONNX,
    role=Role.PASS,
    cost=0,
)


@public
def clip_gradient(x: Any, low: float | None = None, high: float | None = None, *, norm: float | None = None) -> Tensor:
    """Return `x`, with the cotangents that come back to it clipped.

    Parameters
    ----------
    x: a tensor, an array or a number.
    low, high: bounds for every element of a real cotangent; None for none.
    norm: instead of them, the largest Euclidean norm of the whole cotangent (of each example's under
        `vmap`); a larger one is scaled down.

    Reverse mode only: clipping is not linear and has no counterpart for tangents, which pass
    unchanged. NaNs stay NaN. Derivatives of the gradient see the clipping; a second reverse pass
    clips its own cotangents too.

    Raises DTypeError, ShapeError.

    >>> import wengert as wg
    >>> wg.grad(lambda x: (100.0 * wg.clip_gradient(x, -1.0, 1.0)).sum())(wg.tensor([1.0, 2.0]))
    tensor([1., 1.])
    >>> wg.grad(lambda x: (4.0 * wg.clip_gradient(x, norm=1.0)).sum())(wg.zeros(4))
    tensor([0.5, 0.5, 0.5, 0.5])
    """
    value = _tensor(x, "clip_gradient")
    for number in (low, high, norm):
        if number is not None and (isinstance(number, bool) or not isinstance(number, (int, float))):
            fail(DTypeError, f"clip_gradient: a bound of type {type(number).__name__}", "Give a number or None.")
    if norm is not None:
        if low is not None or high is not None or not norm > 0:
            fail(
                ShapeError,
                f"clip_gradient with low={low}, high={high}, norm={norm}",
                "Give low and high, or a positive norm.",
            )
        if category(value.dtype) < 2:
            return value
        axis = tuple(range(-value.ndim, 0))
        return _clipped_norm.front(value, norm=float(norm), axis=axis)  # type: ignore[no-any-return]
    if low is not None and high is not None and not low <= high:
        fail(ShapeError, f"clip_gradient: low={low} is not at most high={high}")
    if category(value.dtype) == 3:
        fail(DTypeError, f"clip_gradient of {value.spec} between bounds", "Complex cotangents are clipped by norm=.")
    if category(value.dtype) < 2:
        return value
    bounds = {"low": None if low is None else float(low), "high": None if high is None else float(high)}
    return _clipped.front(value, **bounds)  # type: ignore[no-any-return]


# -- named

_named = op(
    "checkpoint_name(x; name)",
    lambda x, name: x,
    infer=lambda x, name: x,
    facts={"x": Linear(lambda ct: ct, fills=True, selects=True, covers=True)},
    kind="linear",
    moves=True,
    doc="x, under a name that checkpoint policies know.",
    samples=lambda rng: [Call((rng.normal(size=(2, 3)),), {"name": "a"})],
    reference=lambda x, name: x,
    onnx="Identity",
    role=Role.PASS,
    cost=0,
)


@public
def checkpoint_name(x: Any, name: str) -> Tensor:
    """Return `x`, under a name by which a policy of :func:`wengert.checkpoint` can keep it.

    Raises DTypeError.

    >>> import wengert as wg
    >>> def f(x):
    ...     return wg.sin(wg.checkpoint_name(wg.exp(x), "grown"))
    >>> wg.grad(wg.checkpoint(f, policy=wg.checkpoint_policies.save_names("grown")))(0.0)
    tensor(0.5403)
    """
    if not isinstance(name, str):
        fail(DTypeError, f"checkpoint_name: a name of type {type(name).__name__}", "Give a string.")
    return _named.front(_tensor(x, "checkpoint_name"), name=name)  # type: ignore[no-any-return]


# -- straight through

_through = elementwise(
    "straight_through(hard, soft)",
    _as_array,
    partials={
        "hard": NoDerivative("its derivative is replaced by that of the other argument"),
        "soft": Partial(lambda: 1.0),
    },
    doc="hard, with the derivative of soft.",
    public="",
    samples=lambda rng: [Call((np.round(rng.normal(size=(2, 3))), rng.normal(size=(2, 3))), order=0)],
    reference=lambda hard, soft: hard,
    onnx=_NO_ONNX,
    role=Role.PASS,
    cost=0,
    sympy=lambda sp, hard, soft: hard,
)


def _one_through(hard: Any, soft: Any) -> Tensor:
    value, slope = _tensor(hard, "straight_through"), _tensor(soft, "straight_through")
    if value.shape != slope.shape:
        fail(
            ShapeError,
            f"straight_through: a value of shape {value.shape} with the derivative of one of shape {slope.shape}",
            "Both must have one shape.",
        )
    if category(slope.dtype) < 2:
        fail(DTypeError, f"straight_through: {slope.spec} has no derivative", "Only floating values have one.")
    if category(value.dtype) == 3 and category(slope.dtype) < 3:
        fail(DTypeError, f"straight_through: a complex value {value.spec} with the derivative of {slope.spec}")
    if value.dtype != slope.dtype:
        value = TABLE["cast"].front(value, dtype=slope.dtype)
    return _through.front(stop_gradient.front(value), slope)  # type: ignore[no-any-return]


@public
def straight_through(hard: Any, soft: Any = None) -> Any:
    """Return the value of `hard` with the derivative of `soft`: the straight-through estimator.

    Parameters
    ----------
    hard: a pytree of tensors, of any dtype; or, without `soft`, a function of one pytree that returns a
        pytree like it.
    soft: a pytree like it, of floating tensors with the same shapes.

    `straight_through(hard, soft)` is in the dtype of `soft`. `straight_through(f)` is the function with
    the values of `f` and the derivative of the identity. Both hold in every mode and order.

    Source: Bengio, Léonard and Courville, "Estimating or propagating gradients through stochastic
    neurons for conditional computation", 2013.

    Raises ShapeError, DTypeError, GraphError.

    >>> import wengert as wg
    >>> wg.grad(lambda x: (wg.straight_through(wg.round)(x) ** 2).sum())(wg.tensor([0.8, 2.3]))
    tensor([2., 4.])
    >>> wg.straight_through(wg.tensor(1.0) > 0.0, wg.sigmoid(wg.tensor(1.0)))
    tensor(1.)
    """
    if soft is not None:
        return tree.map(_one_through, hard, soft)
    if not callable(hard):
        fail(
            DTypeError,
            f"straight_through of one {type(hard).__name__}",
            "Give a value and what has its derivative, straight_through(hard, soft), or a function.",
        )
    fn: Callable[[Any], Any] = hard

    def through(x: Any) -> Any:
        return tree.map(_one_through, fn(x), x)

    return through
