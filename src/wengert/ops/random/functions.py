"""Random numbers: functions of a key and a position, so that whatever drew them can draw them again.

A generator is a key and the number of its next block of bits; drawing reserves whole blocks. The ops
are sources: their attributes name key, position, shape and dtype, and say all that there is to know of
their result. How bits become numbers stands in `wengert.ops.random.philox`.

Each has a second form, its name with `_at`, whose key (uint64, two words) and position (uint64, 0-d) are
its last two inputs and which gives the same bits: see `wengert.ops.random.draws`. Inside a compiled function a
generator is a pair of such tensors, so that every call draws on where the last one stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NoReturn

import numpy as np

from ...core.arrays import Array
from ...core.dtypes import DType
from ...core.errors import DTypeError, ShapeError, fail
from ...core.ops.costs import TRANSCENDENTAL
from ...core.ops.declare import op, public
from ...core.ops.op import TABLE, Call, Missing
from ...core.ops.operands import elementwise_general
from ...core.spec import (
    Shape,
    Spec,
    as_dtype,
    bool_,
    category,
    default_float,
    float64,
    int64,
    normalize_axis,
    normalize_shape,
    show,
    spec_of,
    uint64,
)
from ...core.tensor import Tensor, asarray
from .. import definitions
from ..probabilities import probability_op
from ..structure.axes import permute_op
from ..structure.shapes import placed
from . import philox
from .draws import at, draw_with
from .generator import Generator, draw
from .keys import keyed

_SOURCE = "Salmon, Moraes, Dror & Shaw 2011, Parallel random numbers: as easy as 1, 2, 3"


def _infer_drawn(key: philox.Key, counter: int, shape: Shape, dtype: DType, **_: Any) -> Spec:
    return spec_of(shape, dtype)


def _infer_integers(key: philox.Key, counter: int, shape: Shape, dtype: DType, low: int, high: int) -> Spec:
    info = np.iinfo(dtype)
    if not info.min <= low < high <= info.max + 1:
        fail(ShapeError, f"random integers of {dtype} from {low} to {high}")
    return spec_of(shape, dtype)


def _infer_bernoulli(key: philox.Key, counter: int, shape: Shape, p: float) -> Spec:
    return spec_of(shape, bool_)


def _infer_permutation(key: philox.Key, counter: int, n: int) -> Spec:
    return spec_of((n,), int64)


def _infer_categorical(logits: Any, key: philox.Key, counter: int, shape: Shape) -> Spec:
    if shape[len(shape) - len(logits.shape) + 1 :] != logits.shape[:-1] or not logits.shape or not logits.shape[-1]:
        fail(ShapeError, f"random classes of shape {shape} by logits of {show(logits.shape, logits.dtype)}")
    return spec_of(shape, int64)


# -- the ops


def _infer_multinomial(weights: Any, key: philox.Key, counter: int, n: int, replacement: bool) -> Spec:
    if not weights.shape or not weights.shape[-1]:
        fail(ShapeError, f"multinomial: weights {show(weights.shape, weights.dtype)} have no classes")
    if not replacement and n > weights.shape[-1]:
        _refuse_draws(n, weights.shape[-1])
    return spec_of((*weights.shape[:-1], n), int64)


def _multinomial(weights: Array, *, key: philox.Key, counter: int, n: int, replacement: bool) -> Array:
    sums = weights.sum(-1)
    if not ((weights >= 0).all() and np.isfinite(sums).all() and (sums > 0).all()):
        fail(
            ShapeError, "multinomial: the weights are negative, not finite, or all 0", "Each row needs a positive sum."
        )
    possible = int((weights > 0).sum(-1).min(initial=weights.shape[-1]))
    if not replacement and n > possible:
        _refuse_draws(n, possible)
    return philox.multinomial(weights, key=key, counter=counter, n=n, replacement=replacement)


def _refuse_draws(n: int, classes: int) -> NoReturn:
    fail(
        ShapeError,
        f"multinomial: {n} draws without replacement from {classes} classes of positive weight",
        "Draw fewer, or pass replacement=True.",
    )


def _samples(shapes: Sequence[Shape], **attrs: Any) -> Any:
    return lambda rng: [
        Call((), {"key": (i + 1, 7 * i), "counter": 3 * i, "shape": shape, **attrs}) for i, shape in enumerate(shapes)
    ]


_SHAPES: tuple[Shape, ...] = ((), (5,), (2, 3), (0, 2))
_SEEDED = Missing("ONNX's random operators do not say which numbers a seed gives")
random_bits = op(
    "random_bits(; key, counter, shape, dtype: word_dtype)",
    philox.bits,
    infer=_infer_drawn,
    kind="source",
    doc="Random words of 32 or 64 bits (uint32, uint64).",
    source=_SOURCE,
    samples=_samples(_SHAPES, dtype=uint64),
    onnx=_SEEDED,
    cost=30,
)

random_uniform = op(
    "random_uniform(; key, counter, shape, dtype: floating_dtype)",
    philox.uniform,
    infer=_infer_drawn,
    kind="source",
    doc="Uniform random numbers in [0, 1).",
    source=_SOURCE,
    samples=_samples(_SHAPES, dtype=float64),
    onnx=_SEEDED,
    cost=32,
)

random_normal = op(
    "random_normal(; key, counter, shape, dtype: floating_dtype)",
    philox.normal,
    infer=_infer_drawn,
    kind="source",
    doc="Standard normal random numbers.",
    source="Box & Muller 1958, A note on the generation of random normal deviates",
    samples=_samples(_SHAPES, dtype=float64),
    onnx=_SEEDED,
    cost=32 + 2 * TRANSCENDENTAL,
)

random_bernoulli = op(
    "random_bernoulli(; key, counter, shape, p)",
    philox.bernoulli,
    infer=_infer_bernoulli,
    kind="source",
    doc="True with probability p.",
    source=_SOURCE,
    samples=_samples(_SHAPES, p=0.3),
    onnx=_SEEDED,
    cost=33,
)

random_integers = op(
    "random_integers(; key, counter, shape, dtype: integer_dtype, low: bound, high: bound)",
    philox.integers,
    infer=_infer_integers,
    kind="source",
    doc="Random integers from low up to, and not including, high.",
    source="Lemire 2019, Fast random integer generation in an interval (without its rejection: the bias "
    "is below (high - low) / 2**64)",
    samples=_samples(_SHAPES, dtype=int64, low=-3, high=9),
    onnx=_SEEDED,
    cost=33,
)

random_permutation = op(
    "random_permutation(; key, counter, n)",
    philox.permutation,
    infer=_infer_permutation,
    kind="source",
    doc="The integers from 0 to n - 1 in random order.",
    samples=lambda rng: [Call((), {"key": (2, 1), "counter": 5, "n": n}) for n in (0, 1, 7)],
    onnx=_SEEDED,
    cost=60,
)

random_categorical = op(
    "random_categorical(logits; key, counter, shape)",
    philox.categorical,
    accepts="real_inexact",
    infer=_infer_categorical,
    doc="Class numbers drawn with probabilities softmax(logits) over the last axis.",
    source="Gumbel 1954, Statistical theory of extreme values and some practical applications",
    samples=lambda rng: [
        Call((rng.standard_normal(4),), {"key": (2, 1), "counter": 5, "shape": ()}),
        Call((rng.standard_normal((2, 3)),), {"key": (2, 1), "counter": 0, "shape": (4, 2)}),
    ],
    reference=definitions.random_categorical,
    onnx=_SEEDED,
    batching="alone",
    cost=32 + 2 * TRANSCENDENTAL,
)

random_multinomial = op(
    "random_multinomial(weights; key, counter, n, replacement: flag)",
    _multinomial,
    accepts="real_inexact",
    infer=_infer_multinomial,
    doc="n class numbers for each row of weights, which are checked; without replacement in the order of drawing.",
    source="Efraimidis & Spirakis 2006, Weighted random sampling with a reservoir",
    samples=lambda rng: [
        Call((rng.uniform(0.1, 1.0, shape),), {"key": (2, 1), "counter": 5, "n": n, "replacement": replacement})
        for shape, n, replacement in (((4,), 3, False), ((2, 3), 2, False), ((2, 3), 5, True), ((3,), 0, True))
    ],
    reference=definitions.random_multinomial,
    onnx=_SEEDED,
    batching="alone",
    cost=32 + 3 * TRANSCENDENTAL,
)

for _drawing in (
    random_bits,
    random_uniform,
    random_normal,
    random_bernoulli,
    random_integers,
    random_permutation,
    random_categorical,
    random_multinomial,
):
    at(_drawing)


# -- drawing


def _shape_of(shape: tuple[Any, ...]) -> Shape:
    """Return the shape given as `f(2, 3)` or as `f((2, 3))`."""
    if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
        return normalize_shape(shape[0])
    return normalize_shape(shape)


def _floating(dtype: Any, name: str) -> DType:
    found = default_float() if dtype is None else as_dtype(dtype)
    if category(found) != 2:
        fail(DTypeError, f"{name}: dtype={found} is not real floating", "Use wg.randint for integers.")
    return found


def _words(count: int, dtype: DType) -> int:
    """Return the number of 64-bit words that `count` numbers of the dtype take (pairs are drawn whole)."""
    count += count % 2
    return count if dtype.itemsize == 8 else count // 2


def _drawn(source: Any, shape: Shape, dtype: DType, generator: Generator | None) -> Tensor:
    position = draw(generator, _words(prod(shape), dtype))
    out: Tensor = draw_with(source, (), position, {"shape": shape, "dtype": dtype})
    return out


def _leaf(x: Tensor, requires_grad: bool) -> Tensor:
    return x.requires_grad_() if requires_grad else x


@public
@keyed
def rand(
    *shape: Any,
    dtype: Any = None,
    requires_grad: bool = False,
    generator: Generator | None = None,
    device: Any = None,
) -> Tensor:
    """Return uniform random numbers in [0, 1).

    Parameters
    ----------
    shape: sizes, or one tuple of them.
    dtype: real floating; the default float (float32) where left out.
    requires_grad: make the result a leaf that collects gradients.
    generator: a :class:`wengert.random.Generator`; None for the default one.
    device: where to place them; see :meth:`Tensor.to`. None: the processor.

    Raises ShapeError, DTypeError, GraphError for a device that there is not.

    >>> import wengert as wg
    >>> wg.rand(2, 3).shape
    (2, 3)
    """
    out = _drawn(random_uniform, _shape_of(shape), _floating(dtype, "rand"), generator)
    return _leaf(out if device is None else placed(out, device), requires_grad)


@public
@keyed
def randn(
    *shape: Any,
    dtype: Any = None,
    requires_grad: bool = False,
    generator: Generator | None = None,
    device: Any = None,
) -> Tensor:
    """Return standard normal random numbers; parameters as in :func:`rand`.

    >>> import wengert as wg
    >>> wg.randn(4, dtype=wg.float64).dtype
    dtype('float64')
    """
    out = _drawn(random_normal, _shape_of(shape), _floating(dtype, "randn"), generator)
    return _leaf(out if device is None else placed(out, device), requires_grad)


@public(home="random")
@keyed
def rand_like(x: Any, dtype: Any = None, requires_grad: bool = False, generator: Generator | None = None) -> Tensor:
    """Return uniform random numbers in [0, 1), of the shape and (unless given) the dtype of `x`.

    >>> import wengert as wg
    >>> wg.random.rand_like(wg.zeros((2, 3))).shape
    (2, 3)
    """
    x = asarray(x)
    dtype = x.dtype if dtype is None and not x.is_weak else dtype
    return rand(x.shape, dtype=dtype, requires_grad=requires_grad, generator=generator)


@public(home="random")
@keyed
def randn_like(x: Any, dtype: Any = None, requires_grad: bool = False, generator: Generator | None = None) -> Tensor:
    """Return standard normal random numbers, of the shape and (unless given) the dtype of `x`.

    >>> import wengert as wg
    >>> wg.random.randn_like(wg.zeros((2, 3))).shape
    (2, 3)
    """
    x = asarray(x)
    dtype = x.dtype if dtype is None and not x.is_weak else dtype
    return randn(x.shape, dtype=dtype, requires_grad=requires_grad, generator=generator)


@public
@keyed
def randint(*args: Any, dtype: Any = None, generator: Generator | None = None, **named: Any) -> Tensor:
    """Return random integers: `randint(high, shape)` from 0, `randint(low, high, shape)` from `low`; below `high`.

    Parameters
    ----------
    low, high, shape (or size): by position or by name.
    dtype: an integer dtype; int64 where left out.
    generator: a :class:`wengert.random.Generator`; None for the default one.

    Raises ShapeError where there is no integer to draw or one that does not fit the dtype, DTypeError.

    >>> import wengert as wg
    >>> x = wg.randint(0, 10, (1000,))
    >>> int(x.min()) >= 0 and int(x.max()) <= 9
    True
    """
    low, high, shape = _randint_arguments(args, named)
    found = int64 if dtype is None else as_dtype(dtype)
    if category(found) != 1:
        fail(DTypeError, f"randint: dtype={found} is not an integer dtype", "Use wg.rand for floats.")
    info = np.iinfo(found.name)
    if not info.min <= low < high <= info.max + 1:
        fail(
            ShapeError,
            f"randint: low={low}, high={high} for dtype {found}",
            f"low must be less than high, and both within {info.min} .. {info.max + 1}.",
        )
    position = draw(generator, prod(shape))
    attrs = {"shape": shape, "dtype": found, "low": low, "high": high}
    out: Tensor = draw_with(random_integers, (), position, attrs)
    return out


def _randint_arguments(args: tuple[Any, ...], named: dict[str, Any]) -> tuple[int, int, Shape]:
    names = ("low", "high", "shape")
    if "size" in named:
        named["shape"] = named.pop("size")
    by_position = [n for n in names if n not in named]
    if "low" not in named and len(args) == len(by_position) - 1:
        by_position.remove("low")
        named["low"] = 0
    if len(args) != len(by_position) or set(named) - set(names):
        fail(DTypeError, "randint takes (high, shape) or (low, high, shape)")
    named.update(zip(by_position, args))
    bounds = []
    for name in ("low", "high"):
        value = named[name]
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
            fail(DTypeError, f"randint: {name} must be an int, not {value!r}")
        bounds.append(int(value))
    return bounds[0], bounds[1], normalize_shape(named["shape"])


@public(home="random")
@keyed
def randperm(n: int, dtype: Any = None, generator: Generator | None = None) -> Tensor:
    """Return the integers from 0 to n - 1 in random order, int64 or the dtype given.

    Raises ShapeError, DTypeError.

    >>> import wengert as wg
    >>> sorted(wg.random.randperm(4).tolist())
    [0, 1, 2, 3]
    """
    (n,) = normalize_shape(n, "n")
    found = int64 if dtype is None else as_dtype(dtype)
    out: Tensor = draw_with(random_permutation, (), draw(generator, n), {"n": n})
    return out if found == int64 else asarray(out, dtype=found)


@keyed
def uniform(
    shape: Any = (), low: Any = 0.0, high: Any = 1.0, *, dtype: Any = None, generator: Generator | None = None
) -> Tensor:
    """Return uniform random numbers from `low` up to `high` (numbers, or tensors that broadcast).

    Differentiable in the bounds: the result is low + (high - low) u. Raises ShapeError, DTypeError.

    >>> import wengert as wg
    >>> x = wg.random.uniform((100,), -1.0, 1.0)
    >>> bool((x >= -1).all() and (x < 1).all())
    True
    """
    found = _floating(_dtype_beside(dtype, low, high), "uniform")
    out = _drawn(random_uniform, normalize_shape(shape), found, generator)
    width = high - low
    return _shifted(out, low, width)


@keyed
def normal(
    shape: Any = (), mean: Any = 0.0, std: Any = 1.0, *, dtype: Any = None, generator: Generator | None = None
) -> Tensor:
    """Return normal random numbers of the given mean and standard deviation (numbers, or tensors that broadcast).

    Differentiable in both: the result is mean + std z. Raises ShapeError, DTypeError.

    >>> import wengert as wg
    >>> wg.random.normal((2, 2), mean=5.0, std=0.1).shape
    (2, 2)
    """
    _check_std(std)
    found = _floating(_dtype_beside(dtype, mean, std), "normal")
    out = _drawn(random_normal, normalize_shape(shape), found, generator)
    return _shifted(out, mean, std)


def _dtype_beside(dtype: Any, *parameters: Any) -> Any:
    """Return the dtype asked for, else that of floating tensors among the parameters."""
    if dtype is None:
        return next((p.dtype for p in parameters if isinstance(p, Tensor) and category(p.dtype) == 2), None)
    return dtype


def _shifted(x: Tensor, shift: Any, scale: Any) -> Tensor:
    """Return shift + scale * x, recorded at the user's line; a 0 or 1 given as a number costs nothing."""
    if isinstance(scale, Tensor) or scale != 1:
        x = elementwise_general(TABLE["multiply"], (x, scale))
    if isinstance(shift, Tensor) or shift != 0:
        x = elementwise_general(TABLE["add"], (x, shift))
    return x


def _check_std(std: Any) -> None:
    if not isinstance(std, Tensor) and std < 0:
        fail(ShapeError, f"a standard deviation of {std!r} is negative")


@keyed
def bernoulli(p: Any, shape: Any = None, *, generator: Generator | None = None) -> Tensor:
    """Return booleans that are True with probability `p`.

    Parameters
    ----------
    p: a number, or a tensor of probabilities.
    shape: of the result; that of `p` where left out. A tensor `p` broadcasts to it.
    generator: a :class:`Generator`; None for the default one.

    Raises ShapeError, DTypeError.

    >>> import wengert as wg
    >>> wg.random.bernoulli(1.0, (3,))
    tensor([ True,  True,  True])
    """
    if isinstance(p, (bool, int, float)):
        if not 0 <= p <= 1:
            fail(ShapeError, f"bernoulli: p={p!r} is not a probability", "It must lie between 0 and 1.")
        found = normalize_shape(() if shape is None else shape)
        position = draw(generator, (prod(found) + 1) // 2)
        out: Tensor = draw_with(random_bernoulli, (), position, {"shape": found, "p": float(p)})
        return out
    p = asarray(p)
    if category(p.dtype) == 3:
        fail(DTypeError, f"bernoulli: probabilities of dtype {p.dtype}", "They must be real.")
    if p.is_abstract:
        floating = p if category(p.dtype) == 2 else p.astype(default_float())
        p = probability_op.front(floating, of="bernoulli", what="p", mend="Each must lie between 0 and 1.")
    else:
        value = p._array
        if not ((value >= 0) & (value <= 1)).all():
            fail(
                ShapeError,
                f"bernoulli: not every element of {p.spec} is a probability",
                "Each must lie between 0 and 1.",
            )
    found = p.shape if shape is None else normalize_shape(shape)
    return elementwise_general(TABLE["less"], (_drawn(random_uniform, found, float64, generator), p))


@keyed
def categorical(logits: Any, shape: Any = (), axis: int = -1, *, generator: Generator | None = None) -> Tensor:
    """Return class numbers (int64) drawn with probabilities softmax(logits) along `axis`.

    Parameters
    ----------
    logits: unnormalised log-probabilities; -inf for a class that never comes. For probabilities pass
        `wg.log(probs)`.
    shape: how many draws for each distribution, in front of the logits' other axes.
    axis: the axis of the classes.
    generator: a :class:`Generator`; None for the default one.

    Raises ShapeError, DTypeError.

    >>> import wengert as wg
    >>> wg.random.categorical(wg.tensor([-50.0, 50.0]), (3,))
    tensor([1, 1, 1])
    """
    logits = asarray(logits)
    if category(logits.dtype) == 3:
        fail(DTypeError, f"categorical: logits of dtype {logits.dtype}", "They must be real.")
    axis = normalize_axis(axis, logits.ndim)
    if logits.shape[axis] == 0:
        fail(ShapeError, f"categorical: logits of shape {logits.shape} have no classes along axis {axis}")
    if category(logits.dtype) < 2:
        logits = asarray(logits, dtype=default_float())
    if axis != -1:
        axes = [a for a in range(-logits.ndim, 0) if a != axis]
        logits = permute_op.front(logits, axes=(*axes, axis))
    found = normalize_shape(shape) + logits.shape[:-1]
    position = draw(generator, prod(found) * logits.shape[-1])
    out: Tensor = draw_with(random_categorical, (logits,), position, {"shape": found})
    return out


@public(home="random")
@keyed
def multinomial(
    probs: Any, num_samples: int, replacement: bool = False, *, generator: Generator | None = None
) -> Tensor:
    """Return class numbers drawn by weight, as in PyTorch.

    Parameters
    ----------
    probs: (C,) or (N, C) weights, not negative; they need not sum to 1.
    num_samples: how many draws for each row.
    replacement: whether a class may come more than once.
    generator: a :class:`wengert.random.Generator`; None for the default one.

    Returns (num_samples,) or (N, num_samples), int64. Raises ShapeError for weights of another shape, and for rows
    with no positive finite sum or with too few classes: of a compiled function when it runs.

    Source: Efraimidis & Spirakis 2006, Weighted random sampling with a reservoir.

    >>> import wengert as wg
    >>> sorted(wg.random.multinomial(wg.tensor([0.2, 0.3, 0.5]), 3).tolist())
    [0, 1, 2]
    """
    probs = asarray(probs)
    (num_samples,) = normalize_shape(num_samples, "num_samples")
    if probs.ndim not in (1, 2) or category(probs.dtype) == 3:
        fail(ShapeError, f"multinomial: weights of {probs.spec}", "They must be real, of shape (C,) or (N, C).")
    position = draw(generator, (num_samples if replacement else 1) * prod(probs.shape))
    weights = asarray(probs, dtype=float64)
    out: Tensor = draw_with(
        random_multinomial, (weights,), position, {"n": num_samples, "replacement": bool(replacement)}
    )
    return out


@keyed
def permutation(x: Any, axis: int = 0, *, generator: Generator | None = None) -> Tensor:
    """Return the integers below `x` in random order, or a tensor `x` with its slices along `axis` in random order.

    >>> import wengert as wg
    >>> sorted(wg.random.permutation(wg.tensor([3, 1, 2])).tolist())
    [1, 2, 3]
    """
    if isinstance(x, (int, np.integer)):
        return randperm(int(x), generator=generator)
    x = asarray(x)
    axis = normalize_axis(axis, x.ndim)
    order = randperm(x.shape[axis], generator=generator)
    out: Tensor = x[(..., order, *(slice(None),) * (-1 - axis))]
    return out


@public(name="bernoulli", home="torch")
@keyed
def _bernoulli_like(p: Any, generator: Generator | None = None) -> Tensor:
    """Return 0 and 1, in the dtype and shape of the probabilities `p`, 1 with that probability.

    :func:`wengert.random.bernoulli` gives booleans, of any shape. Raises DTypeError.

    >>> import wengert as wg
    >>> wg.torch.bernoulli(wg.tensor([0.0, 1.0]))
    tensor([0., 1.])
    """
    p = asarray(p)
    if category(p.dtype) != 2:
        fail(DTypeError, f"bernoulli: probabilities of dtype {p.dtype}", "They must be real floating.")
    return asarray(bernoulli(p, generator=generator), dtype=p.dtype)


# -- filling a tensor


@public(method=True, function=False)
def normal_(x: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Give the tensor normal random numbers, outside any graph, and return it. Raises ShapeError, DTypeError."""
    filled: Tensor = x.assign_(normal(x.shape, mean, std, dtype=x.dtype, generator=generator).detach())
    return filled


@public(method=True, function=False)
def uniform_(x: Tensor, a: float = 0.0, b: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Give the tensor uniform random numbers from `a` to `b`, outside any graph, and return it. Raises DTypeError."""
    filled: Tensor = x.assign_(uniform(x.shape, a, b, dtype=x.dtype, generator=generator).detach())
    return filled


@public(method=True, function=False)
def bernoulli_(x: Tensor, p: Any = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Give the tensor 0 and 1, the 1 with probability `p`, outside any graph, and return it. Raises ShapeError."""
    filled: Tensor = x.assign_(bernoulli(p, x.shape, generator=generator))
    return filled
