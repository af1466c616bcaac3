"""Constraints: the sets that parameters and draws lie in, each with a test of its members.

A constraint's `check(value)` gives a boolean tensor; the last `event_dim` axes of the value are one member of the set.
:func:`wengert.distributions.biject_to` and :func:`wengert.distributions.transform_to` lead from any numbers to
them.

>>> import wengert as wg
>>> from wengert.distributions import constraints
>>> constraints.positive.check(wg.tensor([1.0, 0.0, -2.0]))
tensor([ True, False, False])
>>> constraints.simplex
Simplex()
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import wengert as wg

from ..core.errors import ShapeError, fail
from ..core.tensor import of_class

__all__ = [
    "Constraint",
    "MixtureSameFamilyConstraint",
    "boolean",
    "cat",
    "corr_cholesky",
    "dependent",
    "dependent_property",
    "greater_than",
    "greater_than_eq",
    "half_open_interval",
    "independent",
    "integer_interval",
    "interval",
    "is_dependent",
    "less_than",
    "lower_cholesky",
    "lower_triangular",
    "multinomial",
    "nonnegative",
    "nonnegative_integer",
    "one_hot",
    "positive",
    "positive_definite",
    "positive_integer",
    "positive_semidefinite",
    "real",
    "real_vector",
    "simplex",
    "square",
    "stack",
    "symmetric",
    "unit_interval",
]


class Constraint:
    """A set of values.

    Attributes
    ----------
    is_discrete: whether its members are countable.
    event_dim: how many of a value's last axes make up one member.
    """

    is_discrete: Any = False
    event_dim: Any = 0

    def check(self, value: Any) -> Any:
        """Return whether values are members, of the value's shape without the last `event_dim` axes."""
        raise NotImplementedError

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value}" for name, value in vars(self).items() if not name.startswith("_"))
        return f"{_camel(type(self).__name__)}({shown})"


def _camel(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in name.strip("_").split("_"))


def _all_last(mask: Any, count: int) -> Any:
    """Return whether all elements of the last `count` axes are true."""
    if count > mask.ndim:
        fail(ShapeError, f"a value with {mask.ndim} axes where {count} make up one member of a constraint's set")
    return wg.all(mask, axis=tuple(range(-count, 0))) if count else mask


class _Dependent(Constraint):
    """The place of a constraint that depends on other parameters, and cannot be checked by itself."""

    def __init__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> None:
        self._is_discrete, self._event_dim = is_discrete, event_dim

    @property
    def is_discrete(self) -> Any:
        """Says whether members are countable. Raises NotImplementedError where that is not known."""
        if self._is_discrete is NotImplemented:
            raise NotImplementedError(".is_discrete cannot be determined statically")
        return self._is_discrete

    @property
    def event_dim(self) -> Any:
        """The axes of a member. Raises NotImplementedError where that is not known."""
        if self._event_dim is NotImplemented:
            raise NotImplementedError(".event_dim cannot be determined statically")
        return self._event_dim

    def __call__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> _Dependent:
        return _Dependent(
            is_discrete=self._is_discrete if is_discrete is NotImplemented else is_discrete,
            event_dim=self._event_dim if event_dim is NotImplemented else event_dim,
        )

    def check(self, value: Any) -> Any:
        """Raise ValueError: what it depends on is not known."""
        raise ValueError("Cannot determine validity of dependent constraint")


class dependent_property(property, _Dependent):
    """A property that gives a constraint by other attributes of its object, and is `dependent` on the class.

    >>> from wengert.distributions import constraints
    >>> class Above:
    ...     def __init__(self, low):
    ...         self.low = low
    ...     @constraints.dependent_property(is_discrete=False, event_dim=0)
    ...     def support(self):
    ...         return constraints.greater_than(self.low)
    >>> Above(2.0).support, constraints.is_dependent(Above.support)
    (GreaterThan(lower_bound=2.0), True)
    """

    def __init__(
        self,
        fn: Callable[[Any], Constraint] | None = None,
        *,
        is_discrete: Any = NotImplemented,
        event_dim: Any = NotImplemented,
    ) -> None:
        property.__init__(self, fn)
        self._is_discrete, self._event_dim = is_discrete, event_dim

    def __call__(self, fn: Callable[[Any], Constraint]) -> dependent_property:  # type: ignore[override]
        return dependent_property(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


def is_dependent(constraint: Any) -> bool:
    """Return whether a constraint stands for one that depends on other parameters."""
    return isinstance(constraint, _Dependent)


class _Boolean(Constraint):
    is_discrete = True

    def check(self, value: Any) -> Any:
        return (value == 0) | (value == 1)


class _OneHot(Constraint):
    is_discrete = True
    event_dim = 1

    def check(self, value: Any) -> Any:
        return wg.all((value == 0) | (value == 1), axis=-1) & (wg.sum(value, axis=-1) == 1)


class integer_interval(Constraint):
    """The integers from `lower_bound` to `upper_bound`, both included."""

    is_discrete = True

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    def check(self, value: Any) -> Any:
        return _whole(value) & (self.lower_bound <= value) & (value <= self.upper_bound)


def _whole(value: Any) -> Any:
    return (wg.floor(value) == value) & (wg.abs(value) < math.inf) if value.dtype.kind in "fV" else value == value


class _IntegersFrom(Constraint):
    is_discrete = True

    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound

    def check(self, value: Any) -> Any:
        return _whole(value) & (value >= self.lower_bound)

    def __repr__(self) -> str:
        return f"IntegerGreaterThan(lower_bound={self.lower_bound})"


class _Real(Constraint):
    def check(self, value: Any) -> Any:
        return value == value  # not NaN


class greater_than(Constraint):
    """The numbers above `lower_bound`."""

    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound

    def check(self, value: Any) -> Any:
        return self.lower_bound < value


class greater_than_eq(Constraint):
    """The numbers from `lower_bound` on."""

    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound

    def check(self, value: Any) -> Any:
        return self.lower_bound <= value


class less_than(Constraint):
    """The numbers below `upper_bound`."""

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Any) -> Any:
        return value < self.upper_bound


class interval(Constraint):
    """The numbers from `lower_bound` to `upper_bound`, both included."""

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    def check(self, value: Any) -> Any:
        return (self.lower_bound <= value) & (value <= self.upper_bound)


class half_open_interval(Constraint):
    """The numbers from `lower_bound` on, below `upper_bound`."""

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    def check(self, value: Any) -> Any:
        return (self.lower_bound <= value) & (value < self.upper_bound)


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value: Any) -> Any:
        total = wg.sum(value, axis=-1)
        # Beside 1e-6, what a sum of so many weights may be off by rounding.
        tolerance = max(1e-6, value.shape[-1] * float(wg.finfo(value.dtype).eps)) if value.dtype.kind in "fV" else 1e-6
        return wg.all(value >= 0, axis=-1) & (wg.abs(total - 1) < tolerance)


class multinomial(Constraint):
    """The vectors of counts that sum to at most `upper_bound`."""

    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, x: Any) -> Any:
        return wg.all(x >= 0, axis=-1) & (wg.sum(x, axis=-1) <= self.upper_bound)


class _LowerTriangular(Constraint):
    event_dim = 2

    def check(self, value: Any) -> Any:
        return _all_last(wg.tril(value) == value, 2)


class _LowerCholesky(Constraint):
    event_dim = 2

    def check(self, value: Any) -> Any:
        return lower_triangular.check(value) & wg.all(wg.diagonal(value, 0, -2, -1) > 0, axis=-1)


class _CorrCholesky(Constraint):
    event_dim = 2

    def check(self, value: Any) -> Any:
        tolerance = float(wg.finfo(value.dtype).eps) * value.shape[-1] * 10  # of a sum of squares in rounding
        rows = wg.sqrt(wg.sum(value * value, axis=-1))
        return lower_cholesky.check(value) & wg.all(wg.abs(rows - 1) <= tolerance, axis=-1)


class _Square(Constraint):
    event_dim = 2

    def check(self, value: Any) -> Any:
        is_square = _is_square(value)
        return of_class(type(value), wg.full(tuple(value.shape[:-2]), is_square, dtype=bool))


def _is_square(value: Any) -> bool:
    if value.ndim < 2:
        fail(ShapeError, f"{value.spec} is no matrix", "It has at least two axes.")
    return bool(value.shape[-2] == value.shape[-1])


class _Symmetric(_Square):
    def check(self, value: Any) -> Any:
        if not _is_square(value):
            return super().check(value)
        return _all_last(wg.isclose(value, value.mT, atol=1e-6), 2)


class _PositiveSemidefinite(_Symmetric):
    def check(self, value: Any) -> Any:
        symmetric = super().check(value)
        if not _is_square(value):
            return symmetric
        return symmetric & wg.all(wg.linalg.eigvalsh(value) >= 0, axis=-1)


class _PositiveDefinite(_Symmetric):
    def check(self, value: Any) -> Any:
        symmetric = super().check(value)
        if not _is_square(value):
            return symmetric
        return symmetric & wg.all(wg.linalg.eigvalsh(value) > 0, axis=-1)


class independent(Constraint):
    """A constraint whose last `reinterpreted_batch_ndims` batch axes count as parts of one member."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        self.base_constraint, self.reinterpreted_batch_ndims = base_constraint, reinterpreted_batch_ndims

    @property
    def is_discrete(self) -> Any:
        """Says whether members are countable."""
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> Any:
        """The axes of a member."""
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value: Any) -> Any:
        if value.ndim < self.event_dim:
            fail(ShapeError, f"a value with {value.ndim} axes where {self.event_dim} make up one member")
        return _all_last(self.base_constraint.check(value), self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"IndependentConstraint({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class _Pieces(Constraint):
    """The base of constraints on parts of a value along an axis."""

    cseq: list[Constraint]

    @property
    def is_discrete(self) -> Any:
        """Says whether members are countable, of any part."""
        return any(c.is_discrete for c in self.cseq)

    @property
    def event_dim(self) -> Any:
        """The axes of a member, the most of any part."""
        return max(c.event_dim for c in self.cseq)


class cat(_Pieces):
    """Constraints on parts of `lengths` (by default 1) that stand one after the other along an axis."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None) -> None:
        self.cseq, self.dim = list(cseq), dim
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            fail(ShapeError, f"cat: {len(self.lengths)} lengths for {len(self.cseq)} constraints")

    def check(self, value: Any) -> Any:
        found, start = [], 0
        check_pieces("cat", value, self.dim, sum(self.lengths))
        for constraint, length in zip(self.cseq, self.lengths, strict=True):
            found.append(constraint.check(_slice(value, self.dim, start, length)))
            start += length
        return wg.concat(found, axis=self.dim)


class stack(_Pieces):
    """Constraints on the parts that a value has along an axis, one for each index."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        self.cseq, self.dim = list(cseq), dim

    @property
    def event_dim(self) -> Any:
        """The axes of a member, the most of any part, and the axis of the parts where that stands among them."""
        found = super().event_dim
        return found + (self.dim + found < 0)

    def check(self, value: Any) -> Any:
        check_pieces("stack", value, self.dim, len(self.cseq))
        parts = wg.unstack(value, axis=self.dim)
        return wg.stack([c.check(part) for c, part in zip(self.cseq, parts, strict=True)], axis=self.dim)


def check_pieces(name: str, value: Any, dim: int, count: int) -> None:
    """Fail unless a value has as many elements along an axis as there are for parts."""
    if not -value.ndim <= dim < value.ndim or value.shape[dim] != count:
        fail(ShapeError, f"{name} along axis {dim} of {value.spec}", f"There are {count} elements along that axis.")


def _slice(value: Any, dim: int, start: int, length: int) -> Any:
    at = dim % value.ndim
    return value[(slice(None),) * at + (slice(start, start + length),)]


class MixtureSameFamilyConstraint(Constraint):
    """The support of a mixture, where the components' supports, along their last batch axis, are `base_constraint`."""

    def __init__(self, base_constraint: Constraint) -> None:
        self.base_constraint = base_constraint

    @property
    def is_discrete(self) -> Any:
        """Says whether members are countable."""
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> Any:
        """The axes of a member."""
        return self.base_constraint.event_dim

    def check(self, value: Any) -> Any:
        at = value.ndim - self.event_dim
        return wg.all(self.base_constraint.check(wg.expand_dims(value, axis=at)), axis=-1)

    def __repr__(self) -> str:
        return f"MixtureSameFamilyConstraint({self.base_constraint!r})"


dependent = _Dependent()
boolean = _Boolean()
one_hot = _OneHot()
nonnegative_integer = _IntegersFrom(0)
positive_integer = _IntegersFrom(1)
real = _Real()
real_vector = independent(real, 1)
positive = greater_than(0.0)
nonnegative = greater_than_eq(0.0)
unit_interval = interval(0.0, 1.0)
simplex = _Simplex()
lower_triangular = _LowerTriangular()
lower_cholesky = _LowerCholesky()
corr_cholesky = _CorrCholesky()
square = _Square()
symmetric = _Symmetric()
positive_semidefinite = _PositiveSemidefinite()
positive_definite = _PositiveDefinite()


def __dir__() -> list[str]:
    return sorted(__all__)
