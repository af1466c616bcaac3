"""Transforms: differentiable functions with inverses and the logarithm of the change of volume, and how they compose.

A transform's `domain` and `codomain` are constraints; their `event_dim` says how many axes it works on at once.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import wengert as wg

from ..core.errors import DTypeError, ShapeError, fail
from ..core.tensor import Tensor
from ..ops.structure.shapes import as_operand
from . import constraints
from .distribution import AbsentError, Distribution, off_ends, register_tree, sum_last, zeros_like


class Transform:
    """A differentiable function of each element, or of the last `domain.event_dim` axes.

    Subclasses define `_call`, `_inverse` and `log_abs_det_jacobian`, and say `domain`, `codomain` (constraints),
    `bijective`, and where elements are transformed one by one, `sign`. With `cache_size=1` the last value and its image
    are kept, so that the inverse of what was just computed is exact.

    >>> import wengert as wg
    >>> t = wg.distributions.ExpTransform()
    >>> t.inv(t(wg.tensor(2.0)))
    tensor(2.)
    >>> t.inv
    _InverseTransform(ExpTransform())
    """

    domain: Any = constraints.real
    codomain: Any = constraints.real
    bijective: Any = False
    # A value in the codomain, for elements that are not.
    safe = 0.5

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            fail(ShapeError, f"{type(self).__name__}: cache_size={cache_size!r}", "It is 0 or 1.")
        self._cache_size = cache_size
        self._kept: tuple[Any, Any] = (None, None)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept": (None, None)}

    @property
    def event_dim(self) -> int:
        """The axes of a member of the domain, where those of the codomain are as many. Raises ShapeError."""
        if self.domain.event_dim != self.codomain.event_dim:
            fail(ShapeError, f"{type(self).__name__} changes the number of axes", "Ask its domain or its codomain.")
        return int(self.domain.event_dim)

    @property
    def inv(self) -> Any:
        """The inverse, a transform too: `t.inv(y)`."""
        return _InverseTransform(self)

    @property
    def sign(self) -> Any:
        """The sign of the slope: +1 where the function rises, -1 where it falls. Raises AbsentError for others."""
        fail(AbsentError, f"{type(self).__name__} neither rises nor falls")

    def with_cache(self, cache_size: int = 1) -> Any:
        """Return the transform with another size of its cache."""
        if getattr(self, "_cache_size", 0) == cache_size:
            return self
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__, _cache_size=cache_size, _kept=(None, None))
        return made

    def __call__(self, x: Any) -> Tensor:
        x = as_operand(x)
        if not getattr(self, "_cache_size", 0):
            return self._call(x)
        known, image = self._kept
        if known is not x:
            image = self._call(x)
            self._kept = (x, image)
        return image  # type: ignore[no-any-return]

    def _undo(self, y: Any) -> Tensor:
        y = as_operand(y)
        if not getattr(self, "_cache_size", 0):
            return self._inverse(y)
        origin, known = self._kept
        if known is not y:
            origin = self._inverse(y)
            self._kept = (origin, y)
        return origin  # type: ignore[no-any-return]

    def has_kept(self, y: Any) -> bool:
        """Return whether the inverse of `y` is in the cache."""
        return y is not None and getattr(self, "_kept", (None, None))[1] is y

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Tensor:
        """Return log |dy/dx|, of the shape of `x` without the axes of the domain's members."""
        raise NotImplementedError

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return the shape that a value of a shape is taken to."""
        return tuple(shape)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return the shape that is taken to a shape."""
        return tuple(shape)

    def within(self, y: Tensor) -> Tensor:
        """Return the mask of values `y` that the function takes (or NaN), without the axes of a member."""
        found: Tensor = self.codomain.check(y)
        nan = y != y
        return found | (_any_last(nan, self.codomain.event_dim) if self.codomain.event_dim else nan)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def _any_last(mask: Tensor, count: int) -> Tensor:
    """Return whether any element of the last `count` axes is true."""
    return wg.any(mask, axis=tuple(range(-count, 0)))


class _InverseTransform(Transform):
    """The inverse of a transform."""

    def __init__(self, transform: Transform) -> None:
        super().__init__()
        self._of = transform

    @property
    def domain(self) -> Any:
        return self._of.codomain

    @property
    def codomain(self) -> Any:
        return self._of.domain

    @property
    def bijective(self) -> Any:
        return self._of.bijective

    @property
    def sign(self) -> Any:
        return self._of.sign

    @property
    def inv(self) -> Any:
        return self._of

    def with_cache(self, cache_size: int = 1) -> Any:
        return self._of.with_cache(cache_size).inv

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._of == other._of

    def __hash__(self) -> int:
        return hash((_InverseTransform, self._of))

    def __repr__(self) -> str:
        return f"_InverseTransform({self._of!r})"

    def __call__(self, x: Any) -> Tensor:
        return self._of._undo(x)

    def _undo(self, y: Any) -> Tensor:
        return self._of(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Tensor:
        return -self._of.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return self._of.inverse_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return self._of.forward_shape(shape)


class Plain(Transform):
    """The base of transforms without parameters: two of a class are equal."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))


class _Rising(Plain):
    """The base of strictly rising functions of each element."""

    bijective = True

    @property
    def sign(self) -> Any:
        return 1


class ExpTransform(_Rising):
    """The transform exp(x).

    >>> import wengert as wg
    >>> wg.distributions.ExpTransform()(wg.tensor(0.0))
    tensor(1.)
    """

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return wg.exp(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return wg.log(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Tensor:
        return x  # type: ignore[no-any-return]


def sigmoid_off_ends(x: Tensor) -> Tensor:
    """Return 1 / (1 + exp(-x)), not rounded to 0 or 1, of which the inverse is infinite."""
    return off_ends(wg.sigmoid(x), tiny=True)


class SigmoidTransform(_Rising):
    """The transform 1 / (1 + exp(-x)), kept off 0 and 1 by the dtype's precision.

    >>> import wengert as wg
    >>> wg.distributions.SigmoidTransform()(wg.tensor(0.0))
    tensor(0.5)
    """

    codomain = constraints.unit_interval

    def _call(self, x: Tensor) -> Tensor:
        return sigmoid_off_ends(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return wg.special.logit(off_ends(y, tiny=True))

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Tensor:
        return -wg.nn.functional.softplus(x) - wg.nn.functional.softplus(-x)


class TanhTransform(_Rising):
    """The transform tanh(x); the slope is taken at x, where it keeps its digits.

    >>> import wengert as wg
    >>> wg.distributions.TanhTransform()(wg.tensor(0.0))
    tensor(0.)
    """

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Tensor) -> Tensor:
        return wg.tanh(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return wg.atanh(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Tensor:
        out: Tensor = 2.0 * (math.log(2.0) - x - wg.nn.functional.softplus(-2.0 * x))
        return out

    def within(self, y: Tensor) -> Tensor:
        return ~(wg.abs(y) >= 1.0)


class SoftplusTransform(_Rising):
    """The transform log(1 + exp(x)).

    >>> import wengert as wg
    >>> wg.distributions.SoftplusTransform()(wg.tensor(0.0))
    tensor(0.6931)
    """

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return wg.nn.functional.softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return y + wg.log(-wg.expm1(-y))

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Tensor:
        return -wg.nn.functional.softplus(-x)


class PowerTransform(Transform):
    """The transform x**exponent of positive x; the exponent is not 0.

    >>> import wengert as wg
    >>> wg.distributions.PowerTransform(2.0)(wg.tensor(3.0))
    tensor(9.)
    """

    domain = constraints.positive
    codomain = constraints.positive
    bijective = True

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.exponent = exponent

    def _call(self, x: Tensor) -> Tensor:
        out: Tensor = x**self.exponent
        return out

    def _inverse(self, y: Tensor) -> Tensor:
        out: Tensor = y ** (1.0 / self.exponent)
        return out

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Tensor:
        slope = wg.abs(wg.asarray(self.exponent, dtype=None if isinstance(self.exponent, Tensor) else x.dtype))
        out: Tensor = wg.log(slope) + (self.exponent - 1.0) * wg.log(wg.abs(x))
        return out

    @property
    def sign(self) -> Any:
        return _sign(self.exponent)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and _equal(self.exponent, other.exponent)

    __hash__ = Transform.__hash__

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return wg.broadcast_shapes(tuple(shape), np.shape(self.exponent))

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return self.forward_shape(shape)


def _sign(number: Any) -> Any:
    return wg.sign(number) if isinstance(number, Tensor) else int(math.copysign(1.0, number))


def _equal(a: Any, b: Any) -> bool:
    """Return whether numbers or tensors with values are equal in all elements."""
    if a is b:
        return True
    if any(isinstance(v, Tensor) and v.is_abstract for v in (a, b)):
        return False
    first, second = (np.asarray(v.detach() if isinstance(v, Tensor) else v) for v in (a, b))
    return bool(np.array_equal(first, second))


class AffineTransform(Transform):
    """The transform loc + scale x; `scale` is not 0. With `event_dim` the last axes of x are one member.

    >>> import wengert as wg
    >>> t = wg.distributions.AffineTransform(1.0, 2.0)
    >>> t(wg.tensor(3.0)), t.inv(wg.tensor(7.0))
    (tensor(7.), tensor(3.))
    """

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    @property
    def domain(self) -> Any:
        return constraints.independent(constraints.real, self._event_dim) if self._event_dim else constraints.real

    codomain = domain

    def _call(self, x: Tensor) -> Tensor:
        out: Tensor = self.loc + self.scale * x
        return out

    def _inverse(self, y: Tensor) -> Tensor:
        out: Tensor = (y - self.loc) / self.scale
        return out

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Tensor:
        slope = wg.abs(wg.asarray(self.scale, dtype=None if isinstance(self.scale, Tensor) else x.dtype))
        return sum_last(wg.log(slope) + zeros_like(x), self._event_dim)

    @property
    def sign(self) -> Any:
        return _sign(self.scale)

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, AffineTransform)
        return same and _equal(self.loc, other.loc) and _equal(self.scale, other.scale)  # type: ignore[attr-defined]

    __hash__ = Transform.__hash__

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return wg.broadcast_shapes(tuple(shape), np.shape(self.loc), np.shape(self.scale))

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return self.forward_shape(shape)


class AbsTransform(Plain):
    """The transform |x|, whose inverse is the positive of the two.

    >>> import wengert as wg
    >>> wg.distributions.AbsTransform()(wg.tensor(-2.0))
    tensor(2.)
    """

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return wg.abs(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class CumulativeDistributionTransform(Transform):
    """The transform by a distribution's cumulative function, to numbers from 0 to 1.

    >>> import wengert as wg
    >>> d = wg.distributions
    >>> d.CumulativeDistributionTransform(d.Normal(0.0, 1.0))(wg.tensor(0.0))
    tensor(0.5)
    """

    codomain = constraints.unit_interval
    bijective = True

    def __init__(self, distribution: Distribution, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Any:
        return self.distribution.support

    @property
    def sign(self) -> Any:
        return 1

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Tensor:
        return self.distribution.log_prob(x)


class ReshapeTransform(Transform):
    """The transform of members of a shape to another shape of as many elements.

    >>> import wengert as wg
    >>> wg.distributions.ReshapeTransform((4,), (2, 2))(wg.zeros((3, 4))).shape
    (3, 2, 2)
    """

    bijective = True

    def __init__(self, in_shape: Sequence[int], out_shape: Sequence[int], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.in_shape, self.out_shape = tuple(in_shape), tuple(out_shape)
        if math.prod(self.in_shape) != math.prod(self.out_shape):
            fail(ShapeError, f"ReshapeTransform: {self.in_shape} and {self.out_shape} have other numbers of elements")

    @property
    def domain(self) -> Any:
        return constraints.independent(constraints.real, len(self.in_shape))

    @property
    def codomain(self) -> Any:
        return constraints.independent(constraints.real, len(self.out_shape))

    def _call(self, x: Tensor) -> Tensor:
        return wg.reshape(x, self.forward_shape(tuple(x.shape)))

    def _inverse(self, y: Tensor) -> Tensor:
        return wg.reshape(y, self.inverse_shape(tuple(y.shape)))

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Tensor:
        return sum_last(zeros_like(x), len(self.in_shape))

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return _reshaped(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return _reshaped(shape, self.out_shape, self.in_shape)


def _reshaped(shape: Sequence[int], old: tuple[int, ...], new: tuple[int, ...]) -> tuple[int, ...]:
    cut = len(shape) - len(old)
    if cut < 0 or tuple(shape[cut:]) != old:
        fail(ShapeError, f"ReshapeTransform: a value of the shape {tuple(shape)}", f"It ends with {old}.")
    return (*shape[:cut], *new)


def _given(name: str, parts: Sequence[Any], cache_size: int) -> list[Transform]:
    """Return transforms, with caches where asked for. Raises DTypeError for what is none."""
    for part in parts:
        if not isinstance(part, Transform):
            fail(DTypeError, f"{name}: {part!r} is a {type(part).__name__}, not a Transform")
    return [part.with_cache(cache_size) for part in parts] if cache_size else list(parts)


class IndependentTransform(Transform):
    """A transform whose last `reinterpreted_batch_ndims` further axes count as parts of one member.

    >>> import wengert as wg
    >>> d = wg.distributions
    >>> t = d.IndependentTransform(d.ExpTransform(), 1)
    >>> t.log_abs_det_jacobian(wg.tensor([1.0, 2.0]), None)
    tensor(3.)
    """

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.base_transform: Transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @property
    def domain(self) -> Any:
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @property
    def codomain(self) -> Any:
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self) -> Any:
        return self.base_transform.bijective

    @property
    def sign(self) -> Any:
        return self.base_transform.sign

    def _call(self, x: Tensor) -> Tensor:
        self._check_axes(x, self.domain.event_dim)
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        self._check_axes(y, self.codomain.event_dim)
        return self.base_transform.inv(y)  # type: ignore[no-any-return]

    def _check_axes(self, x: Tensor, count: int) -> None:
        if x.ndim < count:
            fail(ShapeError, f"IndependentTransform of {x.spec}: too few axes", f"A member has {count}.")

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Tensor:
        return sum_last(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return self.base_transform.inverse_shape(shape)

    def __repr__(self) -> str:
        return f"IndependentTransform({self.base_transform!r}, {self.reinterpreted_batch_ndims})"


class ComposeTransform(Transform):
    """The transform t_n(... t_1(x)).

    >>> import wengert as wg
    >>> d = wg.distributions
    >>> d.ComposeTransform([d.AffineTransform(0.0, 2.0), d.ExpTransform()])(wg.tensor(0.0))
    tensor(1.)
    """

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = _given("ComposeTransform", parts, cache_size)

    @property
    def domain(self) -> Any:
        if not self.parts:
            return constraints.real
        count = self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            count = max(count + part.domain.event_dim - part.codomain.event_dim, part.domain.event_dim)
        return _at_least(self.parts[0].domain, count)

    @property
    def codomain(self) -> Any:
        if not self.parts:
            return constraints.real
        count = self.parts[0].domain.event_dim
        for part in self.parts:
            count = max(count + part.codomain.event_dim - part.domain.event_dim, part.codomain.event_dim)
        return _at_least(self.parts[-1].codomain, count)

    @property
    def bijective(self) -> Any:
        return all(part.bijective for part in self.parts)

    @property
    def sign(self) -> Any:
        found: Any = 1
        for part in self.parts:
            found = found * part.sign
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    __hash__ = Transform.__hash__

    def __call__(self, x: Any) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x  # type: ignore[no-any-return]

    def _undo(self, y: Any) -> Tensor:
        for part in reversed(self.parts):
            y = part.inv(y)
        return y  # type: ignore[no-any-return]

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Tensor:
        if not self.parts:
            return zeros_like(x)
        count = self.domain.event_dim
        total: Any = 0.0
        for i, part in enumerate(self.parts):
            image = y if i == len(self.parts) - 1 else part(x)
            total = total + sum_last(part.log_abs_det_jacobian(x, image), count - part.domain.event_dim)
            count += part.codomain.event_dim - part.domain.event_dim
            x = image
        return total  # type: ignore[no-any-return]

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return tuple(shape)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return tuple(shape)

    def with_cache(self, cache_size: int = 1) -> Any:
        return self if self._cache_size == cache_size else ComposeTransform(self.parts, cache_size)

    def __repr__(self) -> str:
        return "ComposeTransform(\n    " + ",\n    ".join(map(repr, self.parts)) + "\n)"


def _at_least(constraint: Any, count: int) -> Any:
    more = count - constraint.event_dim
    return constraints.independent(constraint, more) if more > 0 else constraint


class _Pieces(Transform):
    """The base of transforms of parts of a value along an axis."""

    transforms: list[Transform]
    dim: int

    @property
    def bijective(self) -> Any:
        return all(t.bijective for t in self.transforms)

    def _split(self, x: Tensor) -> list[Tensor]:
        raise NotImplementedError

    def _join(self, parts: Sequence[Tensor]) -> Tensor:
        raise NotImplementedError

    def _call(self, x: Tensor) -> Tensor:
        return self._join([t(part) for t, part in zip(self.transforms, self._split(x), strict=True)])

    def _inverse(self, y: Tensor) -> Tensor:
        return self._join([t.inv(part) for t, part in zip(self.transforms, self._split(y), strict=True)])

    @property
    def sign(self) -> Any:
        fail(AbsentError, f"{type(self).__name__} has a sign for each part")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.transforms!r}, dim={self.dim})"


class CatTransform(_Pieces):
    """The transform of parts of `lengths` (by default 1) along an axis, each by its own.

    >>> import wengert as wg
    >>> d = wg.distributions
    >>> d.CatTransform([d.ExpTransform(), d.AbsTransform()], lengths=[1, 2])(wg.tensor([0.0, -1.0, -2.0]))
    tensor([1., 1., 2.])
    """

    def __init__(
        self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None, cache_size: int = 0
    ) -> None:
        super().__init__(cache_size)
        self.transforms = _given(type(self).__name__, tseq, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        self.dim = dim
        if len(self.lengths) != len(self.transforms):
            fail(ShapeError, f"CatTransform: {len(self.lengths)} lengths for {len(self.transforms)} transforms")

    @property
    def length(self) -> int:
        """The elements along the axis, of all parts."""
        return sum(self.lengths)

    @property
    def domain(self) -> Any:
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @property
    def codomain(self) -> Any:
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)

    def _split(self, x: Tensor) -> list[Tensor]:
        constraints.check_pieces("CatTransform", x, self.dim, self.length)
        ends = np.cumsum(self.lengths).tolist()
        at = (slice(None),) * (self.dim % x.ndim)
        return [x[(*at, slice(end - n, end))] for end, n in zip(ends, self.lengths, strict=True)]

    def _join(self, parts: Sequence[Tensor]) -> Tensor:
        return wg.concat(list(parts), axis=self.dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Tensor:
        count = max(t.domain.event_dim for t in self.transforms)
        found = [
            sum_last(t.log_abs_det_jacobian(a, b), count - t.domain.event_dim)
            for t, a, b in zip(self.transforms, self._split(x), self._split(y), strict=True)
        ]
        at = self.dim if self.dim < 0 else self.dim - x.ndim
        at += count
        if at < 0:
            return wg.concat(found, axis=at)
        return functools.reduce(wg.add, found)


class StackTransform(_Pieces):
    """The transform of the parts that a value has along an axis, each by its own.

    >>> import wengert as wg
    >>> d = wg.distributions
    >>> d.StackTransform([d.ExpTransform(), d.AbsTransform()], dim=0)(wg.tensor([[0.0], [-1.0]])).tolist()
    [[1.0], [1.0]]
    """

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.transforms = _given(type(self).__name__, tseq, cache_size)
        self.dim = dim

    @property
    def domain(self) -> Any:
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @property
    def codomain(self) -> Any:
        return constraints.stack([t.codomain for t in self.transforms], self.dim)

    def _split(self, x: Tensor) -> list[Tensor]:
        constraints.check_pieces("StackTransform", x, self.dim, len(self.transforms))
        return list(wg.unstack(x, axis=self.dim))

    def _join(self, parts: Sequence[Tensor]) -> Tensor:
        return wg.stack(list(parts), axis=self.dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Tensor:
        found = [
            t.log_abs_det_jacobian(a, b)
            for t, a, b in zip(self.transforms, self._split(x), self._split(y), strict=True)
        ]
        return wg.stack(found, axis=self.dim)


identity_transform = ComposeTransform([])

register_tree(Transform)
