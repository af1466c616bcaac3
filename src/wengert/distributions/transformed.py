"""Distributions of transformed values, by the change of variables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import wengert as wg

from ..core.errors import DTypeError, fail
from ..core.spec import Shape
from ..core.tensor import Tensor
from ..ops.structure.shapes import as_operand
from .distribution import Distribution, inside, sum_last


class Transform:
    """A strictly monotone function of each element, with its inverse and the logarithm of its slope.

    >>> import wengert as wg
    >>> t = wg.distributions.ExpTransform()
    >>> t.inv(t(wg.tensor(2.0)))
    tensor(2.)
    """

    def __call__(self, x: Any) -> Tensor:
        raise NotImplementedError

    def inv(self, y: Any) -> Tensor:
        """Return the x that is taken to `y`."""
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return log |dy/dx|, elementwise."""
        raise NotImplementedError

    def within(self, y: Tensor) -> Tensor:
        """Return the mask of values `y` that the function takes (or NaN)."""
        return wg.full_like(y, True, dtype=wg.bool)

    @property
    def sign(self) -> Any:
        """The sign of the slope: +1 where the function rises, -1 where it falls."""
        return 1.0

    # A y inside the range, for elements that are not.
    safe = 0.5


class AffineTransform(Transform):
    """The transform loc + scale x; `scale` is not 0.

    >>> import wengert as wg
    >>> t = wg.distributions.AffineTransform(1.0, 2.0)
    >>> t(wg.tensor(3.0)), t.inv(wg.tensor(7.0))
    (tensor(7.), tensor(3.))
    """

    def __init__(self, loc: Any, scale: Any) -> None:
        self.loc, self.scale = loc, scale

    def __call__(self, x: Any) -> Tensor:
        out: Tensor = self.loc + self.scale * as_operand(x)
        return out

    def inv(self, y: Any) -> Tensor:
        out: Tensor = (as_operand(y) - self.loc) / self.scale
        return out

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        slope = wg.abs(wg.asarray(self.scale, dtype=None if isinstance(self.scale, Tensor) else x.dtype))
        return wg.log(slope) + wg.zeros_like(x)

    @property
    def sign(self) -> Any:
        return wg.sign(self.scale) if isinstance(self.scale, Tensor) else math.copysign(1.0, self.scale)


class ExpTransform(Transform):
    """The transform exp(x).

    >>> import wengert as wg
    >>> wg.distributions.ExpTransform()(wg.tensor(0.0))
    tensor(1.)
    """

    def __call__(self, x: Any) -> Tensor:
        return wg.exp(x)

    def inv(self, y: Any) -> Tensor:
        return wg.log(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x

    def within(self, y: Tensor) -> Tensor:
        return ~(y <= 0.0)


class SigmoidTransform(Transform):
    """The transform 1 / (1 + exp(-x)).

    >>> import wengert as wg
    >>> wg.distributions.SigmoidTransform()(wg.tensor(0.0))
    tensor(0.5)
    """

    def __call__(self, x: Any) -> Tensor:
        return wg.sigmoid(x)

    def inv(self, y: Any) -> Tensor:
        return wg.special.logit(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -wg.nn.functional.softplus(x) - wg.nn.functional.softplus(-x)

    def within(self, y: Tensor) -> Tensor:
        return ~((y <= 0.0) | (y >= 1.0))


class TanhTransform(Transform):
    """The transform tanh(x); the slope is taken at x, where it keeps its digits.

    >>> import wengert as wg
    >>> wg.distributions.TanhTransform()(wg.tensor(0.0))
    tensor(0.)
    """

    def __call__(self, x: Any) -> Tensor:
        return wg.tanh(x)

    def inv(self, y: Any) -> Tensor:
        return wg.atanh(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return 2.0 * (math.log(2.0) - x - wg.nn.functional.softplus(-2.0 * x))

    def within(self, y: Tensor) -> Tensor:
        return ~(wg.abs(y) >= 1.0)


class SoftplusTransform(Transform):
    """The transform log(1 + exp(x)).

    >>> import wengert as wg
    >>> wg.distributions.SoftplusTransform()(wg.tensor(0.0))
    tensor(0.6931)
    """

    def __call__(self, x: Any) -> Tensor:
        return wg.nn.functional.softplus(x)

    def inv(self, y: Any) -> Tensor:
        y = as_operand(y)
        out: Tensor = y + wg.log(-wg.expm1(-y))
        return out

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -wg.nn.functional.softplus(-x)

    def within(self, y: Tensor) -> Tensor:
        return ~(y <= 0.0)


class PowerTransform(Transform):
    """The transform x**exponent of positive x; the exponent is not 0.

    >>> import wengert as wg
    >>> wg.distributions.PowerTransform(2.0)(wg.tensor(3.0))
    tensor(9.)
    """

    def __init__(self, exponent: Any) -> None:
        self.exponent = exponent

    def __call__(self, x: Any) -> Tensor:
        out: Tensor = as_operand(x) ** self.exponent
        return out

    def inv(self, y: Any) -> Tensor:
        out: Tensor = as_operand(y) ** (1.0 / self.exponent)
        return out

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        slope = wg.abs(wg.asarray(self.exponent, dtype=None if isinstance(self.exponent, Tensor) else x.dtype))
        out: Tensor = wg.log(slope) + (self.exponent - 1.0) * wg.log(x)
        return out

    def within(self, y: Tensor) -> Tensor:
        return ~(y <= 0.0)

    @property
    def sign(self) -> Any:
        return wg.sign(self.exponent) if isinstance(self.exponent, Tensor) else math.copysign(1.0, self.exponent)


class TransformedDistribution(Distribution):
    """The distribution of t_n(... t_1(x)) for x of a `base` distribution and elementwise `transforms`.

    Raises DTypeError for a transform that is none.

    >>> import wengert as wg
    >>> d = wg.distributions
    >>> p = d.TransformedDistribution(d.Normal(0.0, 1.0), [d.AffineTransform(1.0, 2.0), d.ExpTransform()])
    >>> bool(wg.isclose(p.log_prob(3.0), d.LogNormal(1.0, 2.0).log_prob(3.0)))
    True
    """

    def __init__(self, base: Distribution, transforms: Transform | Sequence[Transform]) -> None:
        self.base = base
        self.transforms = [transforms] if isinstance(transforms, Transform) else list(transforms)
        for t in self.transforms:
            if not isinstance(t, Transform):
                fail(DTypeError, f"TransformedDistribution: {t!r} is a {type(t).__name__}, not a Transform")
        self.batch_shape, self.event_shape = base.batch_shape, base.event_shape
        self.dtype, self.has_rsample = base.dtype, base.has_rsample

    def _draw(self, shape: Shape, source: Any) -> Tensor:
        x = self.base._draw(shape, source)
        for t in self.transforms:
            x = t(x)
        return x

    def log_prob(self, value: Any) -> Tensor:
        y = self._value(value)
        total: Any = 0.0
        count = len(self.event_shape)
        possible = wg.full_like(y, True, dtype=wg.bool)
        for t in reversed(self.transforms):
            within = t.within(y)
            possible = possible & within
            y = inside(within, y, t.safe)
            x = t.inv(y)
            total = total - t.log_abs_det_jacobian(x, y)
            y = x
        density = self.base.log_prob(y)
        if self.transforms:
            density = density + sum_last(total, count)
        whole = wg.all(possible, axis=tuple(range(-count, 0))) if count else possible
        return wg.where(whole, density, -math.inf)

    def cdf(self, value: Any) -> Tensor:
        y = self._value(value)
        sign: Any = 1.0  # of the transforms already undone
        edges: list[tuple[Tensor, Tensor]] = []
        for t in reversed(self.transforms):
            within = t.within(y)
            # Left of the range nothing lies below, right of it everything does.
            edges.append((within, _flipped(wg.where(y < t.safe, wg.zeros_like(y), 1.0), sign)))
            y = t.inv(inside(within, y, t.safe))
            sign = sign * t.sign
        found = _flipped(self.base.cdf(y), sign)
        for within, edge in edges:
            found = wg.where(within, found, edge)
        return found


def _flipped(p: Tensor, sign: Any) -> Tensor:
    """Return a probability, or of the complement where the sign is negative."""
    if isinstance(sign, Tensor):
        return wg.where(sign > 0.0, p, 1.0 - p)
    return p if sign > 0.0 else 1.0 - p
