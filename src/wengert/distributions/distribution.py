"""The base of all distributions: shapes, drawing, and densities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, NoReturn

import numpy as np

import wengert as wg

from ..core import tree
from ..core.errors import DTypeError, GradientError, GraphError, ShapeError, fail
from ..core.ops.operands import promote_tensors
from ..core.spec import Shape, category, default_float, normalize_shape
from ..core.tensor import Tensor, of_class
from ..ops.structure.shapes import as_operand


class AbsentError(GraphError, NotImplementedError):
    """An error for what a distribution does not have; as in PyTorch it is a NotImplementedError too."""


class Distribution:
    """A probability distribution, or a batch of them, as in PyTorch.

    A draw has the shape `sample_shape + batch_shape + event_shape`: how many draws are asked for, how
    many distributions the parameters describe, and the shape of one outcome. `log_prob` has the shape
    `sample_shape + batch_shape`. Parameters broadcast against each other and set the dtype.

    >>> import wengert as wg
    >>> p = wg.distributions.Normal(wg.zeros(3), 1.0)
    >>> p.batch_shape, p.event_shape, p.sample((2,)).shape
    ((3,), (), (2, 3))
    """

    batch_shape: Shape = ()
    event_shape: Shape = ()
    dtype: Any
    has_rsample = False
    has_enumerate_support = False
    # The constraints on parameters, by their names.
    arg_constraints: ClassVar[Any] = MappingProxyType({})
    # How many axes tensors among the attributes have beside the batch's.
    _own_axes: ClassVar[Mapping[str, int]] = MappingProxyType({})
    # The parameters of the constructor that are no tensors.
    not_tensors: frozenset[str] = frozenset()
    # Whether parameters are checked.
    _validates = True
    # Whether log_prob is -inf outside the support, and probabilities of 0 and 1 stay what they are. Where not, the
    # formula goes on between counts, and logits are finite: PyTorch's conventions, for targets that are no outcomes.
    _exact = True

    # -- drawing

    def sample(self, shape: Any = (), *, generator: Any = None, key: Any = None) -> Tensor:
        """Draw without gradients. `generator`, or `key` (see :func:`wengert.random.key`), say where from.

        Raises ShapeError, DTypeError.
        """
        with wg.no_grad():
            return self._draw(normalize_shape(shape), _source(generator, key)).detach()

    def rsample(self, shape: Any = (), *, generator: Any = None, key: Any = None) -> Tensor:
        """Draw so that gradients flow through the draw to the parameters (reparameterised).

        Raises ShapeError, DTypeError, GradientError where the draw is not a differentiable function of
        the parameters: see :func:`wengert.distributions.score_function`.
        """
        if not self.has_rsample:
            fail(
                GradientError,
                f"a draw from {type(self).__name__} has no derivative in its parameters",
                "Draw with sample() and estimate the gradient with wg.distributions.score_function, "
                "or use a relaxed distribution.",
            )
        return self._draw(normalize_shape(shape), _source(generator, key))

    def _draw(self, shape: Shape, source: Any) -> Tensor:
        self._lacks("samples")

    def _full(self, shape: Shape) -> Shape:
        return (*shape, *self.batch_shape, *self.event_shape)

    def _uniform(self, shape: Shape, source: Any) -> Tensor:
        """Return uniform numbers in the open interval from 0 to 1."""
        u = wg.random.uniform(shape, dtype=self.dtype, generator=source)
        return wg.maximum(u, float(wg.finfo(self.dtype).eps) / 4.0)

    # -- questions

    def log_prob(self, value: Any) -> Tensor:
        """Return the logarithm of the density (of the probability, for a discrete one); -inf outside the support."""
        self._lacks("log_prob")

    def prob(self, value: Any) -> Tensor:
        """Return exp(log_prob(value))."""
        return wg.exp(self.log_prob(value))

    def cdf(self, value: Any) -> Tensor:
        """Return the probability of an outcome of at most `value`."""
        self._lacks("cdf")

    def icdf(self, p: Any) -> Tensor:
        """Return the quantile function, the inverse of :meth:`cdf`; NaN outside 0 .. 1."""
        self._lacks("icdf")

    def entropy(self) -> Tensor:
        """Return the entropy in nats, of shape `batch_shape`."""
        self._lacks("entropy")

    @property
    def mean(self) -> Tensor:
        """The mean, of shape `batch_shape + event_shape`."""
        self._lacks("mean")

    @property
    def variance(self) -> Tensor:
        """The variance of each element, of shape `batch_shape + event_shape`."""
        self._lacks("variance")

    @property
    def stddev(self) -> Tensor:
        """The square root of :attr:`variance`."""
        return wg.sqrt(self.variance)

    @property
    def mode(self) -> Tensor:
        """The most probable outcome, of shape `batch_shape + event_shape`."""
        self._lacks("mode")

    @property
    def support(self) -> Any:
        """The constraint on outcomes: see :mod:`wengert.distributions.constraints`."""
        self._lacks("support")

    def perplexity(self) -> Tensor:
        """Return exp(entropy())."""
        return wg.exp(self.entropy())

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return every outcome along a new first axis; with `expand` for each distribution of the batch."""
        self._lacks("list of its outcomes")

    def _listed(self, outcomes: Tensor, expand: bool) -> Tensor:
        """Return outcomes along the first axis for the batch's shape, or with axes of size 1 in its place."""
        count, event = outcomes.shape[0], tuple(outcomes.shape[1:])
        column = wg.reshape(outcomes, (count, *(1,) * len(self.batch_shape), *event))
        return wg.broadcast_to(column, (count, *self.batch_shape, *event)) if expand else column

    def expand(self, batch_shape: Any) -> Any:
        """Return the distribution with its parameters broadcast to another batch shape.

        Raises ShapeError for one that the present shape does not broadcast to.
        """
        batch = normalize_shape(batch_shape)
        changed: dict[str, Any] = {}
        for name, value in vars(self).items():
            if isinstance(value, Tensor):
                own = self._own_axes.get(name, 0)
                changed[name] = wg.broadcast_to(value, (*batch, *value.shape[value.ndim - own :]))
            elif isinstance(value, Distribution):
                changed[name] = value.expand((*batch, *value.batch_shape[len(self.batch_shape) :]))
        return self._moved(batch, **changed)

    def _moved(self, batch_shape: Shape, **changed: Any) -> Any:
        """Return a copy of another batch shape, with other attributes."""
        made = object.__new__(type(self))
        vars(made).update(vars(self), **changed)
        made.batch_shape = batch_shape
        return made

    def _inside(self, support: Tensor, value: Tensor, safe: Any) -> Tensor:
        return inside(support, value, safe) if self._exact else value

    def _impossible(self, support: Tensor, value: Tensor, log_prob: Tensor) -> Tensor:
        return outside_is_impossible(support, value, log_prob) if self._exact else log_prob

    def _lacks(self, what: str) -> NoReturn:
        fail(AbsentError, f"{type(self).__name__} has no {what} in closed form", "Estimate it from draws.")

    # -- helpers of subclasses

    def _operands(self, **given: Any) -> tuple[Tensor, ...]:
        """Return the parameters as tensors of one floating dtype and, broadcast, of the batch's shape.

        Python numbers alone stay numbers, in Python's precision; what is drawn has the default dtype then.
        """
        tensors = wg.broadcast_arrays(*self._floating(**given))
        self.batch_shape = tensors[0].shape
        return tuple(tensors)

    def _floating(self, **given: Any) -> list[Tensor]:
        name = type(self).__name__
        tensors = promote_tensors(name, *given.values())
        kind = category(tensors[0].dtype)
        if kind == 3:
            fail(DTypeError, f"{name}: parameters of dtype {tensors[0].dtype}", "They must be real.")
        if kind < 2:
            tensors = [1.0 * t if t.is_weak else t.astype(default_float()) for t in tensors]
        self.dtype = default_float() if all(t.is_weak for t in tensors) else tensors[0].dtype
        return tensors

    def _value(self, value: Any) -> Tensor:
        return value if isinstance(value, Tensor) else _asarray(value, self.dtype)

    @staticmethod
    def _holds(ok: Any) -> bool:
        """Return whether a mask is true everywhere; what has no values while tracing is taken to be."""
        return bool(ok.is_abstract or ok._array.all())

    def _check(self, ok: Any, what: str) -> None:
        """Fail unless a mask holds everywhere."""
        if self._validates and not self._holds(ok):
            fail(
                ShapeError,
                f"{type(self).__name__}: {what}",
                "A parameter is outside its range, or NaN: wg.explain.nonfinite(f, *args) says where a NaN was born.",
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}(batch_shape={self.batch_shape}, event_shape={self.event_shape}, {self.dtype})"


class ByQuantile(Distribution):
    """A distribution whose draws are quantiles of uniform numbers."""

    has_rsample = True

    def _draw(self, shape: Shape, source: Any) -> Tensor:
        return self.icdf(self._uniform(self._full(shape), source))


def _asarray(value: Any, dtype: Any) -> Tensor:
    if isinstance(value, (bool, int, float)):
        return as_operand(value)
    return wg.asarray(value, dtype=dtype) if isinstance(value, (list, tuple)) else wg.asarray(value)


def _source(generator: Any, key: Any) -> Any:
    """Return the generator or key as samplers take it."""
    if key is None:
        return generator
    if generator is not None:
        fail(DTypeError, "both key= and generator= are given", "Pass one of them.")
    if not isinstance(key, wg.random.RandomKey):
        fail(DTypeError, f"key={key!r} is a {type(key).__name__}", "Make a key with wg.random.key(seed).")
    return key


def sources(source: Any, count: int) -> tuple[Any, ...]:
    """Return the sources of `count` independent draws: keys are split, a generator goes on."""
    return wg.random.split(source, count) if isinstance(source, wg.random.RandomKey) else (source,) * count


def inside(support: Tensor, value: Tensor, safe: Any) -> Tensor:
    """Return `value` in the support, a harmless number elsewhere; NaN stays."""
    return wg.where(support | (value != value), value, safe)


def outside_is_impossible(support: Tensor, value: Tensor, log_prob: Tensor) -> Tensor:
    """Return `log_prob` in the support, -inf elsewhere; NaN where the value is."""
    return wg.where(support | (value != value), log_prob, -np.inf)


def off_ends(p: Tensor, *, tiny: bool = False) -> Tensor:
    """Return probabilities kept off 0 and 1 by the dtype's precision, with `tiny` off 0 by the precision there."""
    info = wg.finfo(p.dtype)
    return wg.clip(p, float(info.tiny if tiny else info.eps), 1.0 - float(info.eps))


def zeros_like(x: Tensor) -> Tensor:
    """Return zeros of the shape, dtype and class of a tensor."""
    return of_class(type(x), wg.zeros_like(x))  # type: ignore[no-any-return]


def log1p_square(x: Tensor) -> Tensor:
    """Return log(1 + x**2), also where the square overflows."""
    size = wg.abs(x)
    far = size > 2.0 * float(wg.finfo(x.dtype).eps) ** -0.5  # where the 1 is lost in rounding
    near = wg.where(far, 0.0, x)
    return wg.where(far, 2.0 * wg.log(wg.where(far, size, 1.0)), wg.log1p(near * near))


def sum_last(x: Tensor, count: int) -> Tensor:
    """Return the sum over the last `count` axes."""
    return wg.sum(x, axis=tuple(range(-count, 0))) if count else x


# -- as pytrees: transforms of functions take them apart, compiled functions take and return them


class _Rest:
    """The rest of a distribution or transform beside its children: its class, their names, its other attributes."""

    __slots__ = ("kind", "names", "others", "leader")

    def __init__(self, x: Any, names: tuple[str, ...]) -> None:
        self.kind, self.names = type(x), names
        self.others = {name: value for name, value in vars(x).items() if name not in names}
        # A child that has the axes of the batch, and how many more: they follow it when they are mapped over.
        self.leader: tuple[str, int] | None = None
        batch = tuple(getattr(x, "batch_shape", ()))
        for name in names if isinstance(x, Distribution) else ():
            shape = _axes(vars(x)[name])
            if shape is not None and shape[: len(batch)] == batch:
                self.leader = name, len(shape) - len(batch)
                break

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Rest)
            and (self.kind, self.names, self.leader) == (other.kind, other.names, other.leader)
            and self.others.keys() == other.others.keys()
            and all(_same(value, other.others[name]) for name, value in self.others.items())
        )

    __hash__ = None  # type: ignore[assignment]


def _same(a: Any, b: Any) -> bool:
    return a is b or (type(a) is type(b) and not isinstance(a, np.ndarray) and bool(a == b))


def _axes(x: Any) -> Shape | None:
    """Return the shape of a tensor, or of a distribution's batch."""
    if isinstance(x, Tensor):
        return tuple(x.shape)
    return tuple(x.batch_shape) if isinstance(x, Distribution) else None


def _has_tensors(x: Any) -> bool:
    if isinstance(x, (list, tuple)) and not hasattr(x, "_fields"):
        return bool(x) and all(map(_has_tensors, x))
    return isinstance(x, Tensor) or any(isinstance(x, kind) for kind in _TREES)


def _flatten(x: Any) -> tuple[list[Any], _Rest]:
    names = tuple(name for name, value in vars(x).items() if _has_tensors(value))
    return [vars(x)[name] for name in names], _Rest(x, names)


def _unflatten(rest: _Rest, children: Sequence[Any]) -> Any:
    made = object.__new__(rest.kind)
    vars(made).update(rest.others)
    vars(made).update(zip(rest.names, children, strict=True))
    if rest.leader is not None:
        name, more = rest.leader
        shape = _axes(vars(made)[name])
        if shape is not None and len(shape) >= more:
            made.batch_shape = shape[: len(shape) - more]
    return made


_TREES: list[type] = []


def register_tree(kind: type) -> None:
    """Make objects of a class, which are what their attributes are, pytrees of the tensors among those."""
    _TREES.append(kind)
    tree.register(kind, _flatten, _unflatten)


register_tree(Distribution)
