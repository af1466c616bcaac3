"""Distributions of transformed values, by the change of variables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import wengert as wg

from ..core.errors import DTypeError, ShapeError, fail
from ..core.spec import Shape
from ..core.tensor import Tensor
from . import constraints
from .bijections import StickBreakingTransform
from .continuous import Normal
from .distribution import Distribution, inside, sum_last
from .multivariate import Independent
from .transforms import ComposeTransform, Transform


class TransformedDistribution(Distribution):
    """The distribution of t_n(... t_1(x)) for x of a `base` distribution.

    Transforms of whole events take batch axes of the base into the event. Raises DTypeError for a transform that is
    none, ShapeError for a base with fewer axes than the transforms work on.

    >>> import wengert as wg
    >>> d = wg.distributions
    >>> p = d.TransformedDistribution(d.Normal(0.0, 1.0), [d.AffineTransform(1.0, 2.0), d.ExpTransform()])
    >>> bool(wg.isclose(p.log_prob(3.0), d.LogNormal(1.0, 2.0).log_prob(3.0)))
    True
    >>> d.TransformedDistribution(d.Normal(wg.zeros(2), 1.0), d.StickBreakingTransform()).event_shape
    (3,)
    """

    # What takes batch axes of the base into the event.
    grouped: Any = Independent
    base: Distribution

    def __init__(self, base: Distribution, transforms: Transform | Sequence[Transform]) -> None:
        self.transforms = [transforms] if isinstance(transforms, Transform) else list(transforms)
        for t in self.transforms:
            if not isinstance(t, Transform):
                fail(DTypeError, f"TransformedDistribution: {t!r} is a {type(t).__name__}, not a Transform")
        chain = ComposeTransform(self.transforms)
        shape, axes = (*base.batch_shape, *base.event_shape), len(base.event_shape)
        if len(shape) < chain.domain.event_dim:
            what = f"TransformedDistribution: the transforms work on {chain.domain.event_dim} axes"
            fail(ShapeError, what, f"The base has the shape {shape}.")
        image = chain.forward_shape(shape)
        wanted = chain.inverse_shape(image)
        if wanted != shape:
            base = base.expand(wanted[: len(wanted) - axes])
        if chain.domain.event_dim > axes:
            base = self.grouped(base, chain.domain.event_dim - axes)
        self.base = base
        count = max(chain.codomain.event_dim, axes + chain.codomain.event_dim - chain.domain.event_dim)
        cut = len(image) - count
        self.batch_shape, self.event_shape = image[:cut], image[cut:]
        self.dtype = base.dtype

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """Draws carry gradients where the base's do."""
        return self.base.has_rsample

    @property
    def support(self) -> Any:
        """The constraint on what is drawn."""
        if not self.transforms:
            return self.base.support
        last = self.transforms[-1].codomain
        more = len(self.event_shape) - last.event_dim
        return constraints.independent(last, more) if more > 0 else last

    def expand(self, batch_shape: Any) -> Any:
        batch = tuple(batch_shape)
        shape = ComposeTransform(self.transforms).inverse_shape((*batch, *self.event_shape))
        base = self.base.expand(shape[: len(shape) - len(self.base.event_shape)])
        return self._moved(batch, base=base)

    def _draw(self, shape: Shape, source: Any) -> Tensor:
        x = self.base._draw(shape, source)
        for t in self.transforms:
            x = t(x)
        return x

    def _undone(self, y: Tensor) -> tuple[Tensor, list[tuple[Transform, Tensor, Tensor, Any]]]:
        """Return the base's value, and for each transform its argument, its value, and where that is in its range."""
        steps: list[tuple[Transform, Tensor, Tensor, Any]] = []
        for t in reversed(self.transforms):
            within: Any = True
            if not t.has_kept(y):  # what the transform gave is in its range, whatever rounding says
                within = t.within(y)
                if t.codomain.event_dim == 0:
                    y = inside(within, y, t.safe)
            x = t.inv(y)
            steps.append((t, x, y, within))
            y = x
        return y, steps

    def log_prob(self, value: Any) -> Tensor:
        x, steps = self._undone(self._value(value))
        total: Any = 0.0
        possible: Any = True
        count = len(self.event_shape)
        for t, argument, image, within in steps:
            if within is not True:
                part = (
                    wg.all(within, axis=tuple(range(t.codomain.event_dim - count, 0)))
                    if count > (t.codomain.event_dim)
                    else within
                )
                possible = possible & part
            count += t.domain.event_dim - t.codomain.event_dim
            total = total - sum_last(t.log_abs_det_jacobian(argument, image), count - t.domain.event_dim)
        density = sum_last(self.base.log_prob(x), count - len(self.base.event_shape)) + total
        return density if possible is True else wg.where(possible, density, -math.inf)

    def cdf(self, value: Any) -> Tensor:
        y = self._value(value)
        sign: Any = 1.0  # of the transforms already undone
        edges: list[tuple[Tensor, Tensor]] = []
        for t in reversed(self.transforms):
            if not t.has_kept(y):
                within = t.within(y)
                # Left of the range nothing lies below, right of it everything does.
                edges.append((within, _flipped(wg.where(y < t.safe, wg.zeros_like(y), 1.0), sign)))
                y = inside(within, y, t.safe)
            y = t.inv(y)
            sign = sign * t.sign
        found = _flipped(self.base.cdf(y), sign)
        for within, edge in edges:
            found = wg.where(within, found, edge)
        return found

    def icdf(self, p: Any) -> Tensor:
        sign: Any = 1.0
        for t in self.transforms:
            sign = sign * t.sign
        x = self.base.icdf(_flipped(self._value(p), sign))
        for t in self.transforms:
            x = t(x)
        return x


class LogisticNormal(TransformedDistribution):
    """The distribution of weights by stick breaking of normal numbers: k parameters give k + 1 weights.

    >>> import wengert as wg
    >>> wg.distributions.LogisticNormal(wg.zeros(2), wg.ones(2)).event_shape
    (3,)
    """

    def __init__(self, loc: Any, scale: Any) -> None:
        base = Normal(loc, scale)
        if not base.batch_shape:
            base = base.expand((1,))
        super().__init__(base, StickBreakingTransform())

    @property
    def loc(self) -> Any:
        """The means of the normal numbers."""
        return self.base.base.loc  # type: ignore[attr-defined]

    @property
    def scale(self) -> Any:
        """The standard deviations of the normal numbers."""
        return self.base.base.scale  # type: ignore[attr-defined]


def _flipped(p: Tensor, sign: Any) -> Tensor:
    """Return a probability, or of the complement where the sign is negative."""
    if isinstance(sign, Tensor):
        return wg.where(sign > 0.0, p, 1.0 - p)
    return p if sign > 0.0 else 1.0 - p
