"""`Distribution`: Wengert's distributions with PyTorch's conventions.

The mathematics is that of :mod:`wengert.distributions`. What PyTorch has beside it stands here: arguments and values
are checked (`validate_args`) and refused with ValueErrors, numbers become tensors of the default dtype, shapes are
`torch.Size`, draws take `sample_shape`.
"""

from __future__ import annotations

import warnings
from typing import Any

import wengert as wg

from ...core.errors import GraphError, ShapeError, TraceError, fail
from ...core.spec import default_float
from ...core.state.capture import get_capture
from ...core.state.refusals import probing
from ...core.tensor import Tensor as Plain
from ...distributions import constraints
from ...distributions.distribution import AbsentError, sum_last
from ...distributions.distribution import Distribution as PlainDistribution
from ..absent import names_of
from ..namespace import as_torch, tensor_of
from ..tensor import Size, Tensor


class Distribution(PlainDistribution):
    """The base of distributions: shapes, checks of arguments and values, and what subclasses define.

    Parameters
    ----------
    batch_shape: the shape of the parameters.
    event_shape: the shape of one outcome.
    validate_args: whether arguments, and values given to `log_prob` and `cdf`, are checked. By default they are, unless
        Python runs with `-O`.

    >>> import wengert.torch as torch
    >>> p = torch.distributions.Normal(torch.zeros(3), 1.0)
    >>> p
    Normal(loc: torch.Size([3]), scale: torch.Size([3]))
    >>> p.sample(sample_shape=(2,)).shape
    torch.Size([2, 3])
    """

    _validate_args = __debug__
    # Values that are no outcomes have the formula's number while nothing validates them, as soft targets do.
    _exact = False

    def __init__(self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None) -> None:
        self.batch_shape, self.event_shape = batch_shape, event_shape
        self.dtype = default_float()
        if validate_args is not None:
            self._validate_args = bool(validate_args)
        if self._validate_args:
            self._check_arguments({name: getattr(self, name) for name in self.arg_constraints if name in vars(self)})

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Set whether distributions check where they are not told. Raises ValueError for what is no bool."""
        if value not in (True, False):
            raise ValueError(f"set_default_validate_args({value!r}): it is True or False")
        Distribution._validate_args = value

    # -- shapes

    @property  # type: ignore[override]
    def batch_shape(self) -> Size:
        """The shape of the parameters."""
        found: Size = vars(self).get("_batch_shape", Size())
        return found

    @batch_shape.setter
    def batch_shape(self, shape: Any) -> None:
        self._batch_shape = Size(shape)

    @property  # type: ignore[override]
    def event_shape(self) -> Size:
        """The shape of one outcome."""
        found: Size = vars(self).get("_event_shape", Size())
        return found

    @event_shape.setter
    def event_shape(self, shape: Any) -> None:
        self._event_shape = Size(shape)

    def _extended_shape(self, sample_shape: Any = ()) -> Size:
        return Size((*sample_shape, *self.batch_shape, *self.event_shape))

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """Return the distribution with its parameters broadcast to another batch shape."""
        return super().expand(tuple(batch_shape))

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        """Return the object that a subclass's `expand` fills."""
        if _instance is None and vars(type(self)).get("__init__") is not vars(cls).get("__init__"):
            what = f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ method"
            raise NotImplementedError(f"{what} must also define a custom .expand() method.")
        return object.__new__(type(self)) if _instance is None else _instance

    # -- checks

    def _check_arguments(self, given: dict[str, Any]) -> None:
        """Raise ShapeError (a ValueError) for an argument that violates its constraint."""
        for name, value in given.items():
            constraint = self.arg_constraints.get(name)
            if isinstance(value, (bool, int, float)):
                value = wg.asarray(float(value), dtype=default_float())
            if constraint is None or constraints.is_dependent(constraint) or not isinstance(value, Plain):
                continue
            if not self._holds(constraint.check(value)):
                what = f"Expected parameter {name} (Tensor of shape {tuple(value.shape)}) of distribution"
                fail(
                    ShapeError,
                    f"{what} {type(self).__name__} to satisfy the constraint {constraint!r}",
                    f"It has invalid values: {value!r}",
                )

    def _validate_sample(self, value: Any) -> None:
        """Raise ValueError for a value whose shape does not fit, or that is not in the support."""
        if not isinstance(value, Plain):
            raise ValueError("The value argument to log_prob must be a Tensor")
        shape, axes = tuple(value.shape), len(self.event_shape)
        if axes > len(shape) or shape[len(shape) - axes :] != tuple(self.event_shape):
            what = f"The right-most size of value must match event_shape: {value.shape} vs {self.event_shape}"
            fail(ShapeError, what)
        wanted = (*self.batch_shape, *self.event_shape)
        if any(i not in (1, j) and j != 1 for i, j in zip(reversed(shape), reversed(wanted))):
            fail(
                ShapeError, f"Value is not broadcastable with batch_shape+event_shape: {value.shape} vs {Size(wanted)}"
            )
        try:
            support = self.support
        except NotImplementedError:
            text = "does not define `support` to enable sample validation. Write `validate_args=False` to turn it off."
            warnings.warn(f"{type(self)} {text}", stacklevel=3)
            return
        if not self._holds(support.check(value)):
            what = f"Expected value argument (Tensor of shape {shape}) to be within the support ({support!r})"
            fail(ShapeError, f"{what} of the distribution {self!r}", f"It has invalid values: {value!r}")

    @staticmethod
    def _holds(ok: Any) -> bool:
        if not ok.is_abstract:
            return bool(ok._array.all())
        if get_capture() is None:
            return True
        # A compiled function decides at every run, as an eager one does, but within inner transforms.
        try:
            with probing():
                return bool(wg.all(ok))
        except TraceError:
            return True

    def _checked(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return value

    # -- drawing

    def sample(self, sample_shape: Any = (), **source: Any) -> Tensor:  # type: ignore[override]
        """Draw without gradients, a tensor of shape `sample_shape + batch_shape + event_shape`."""
        if type(self).rsample is not Distribution.rsample:  # as a subclass of the user's has it
            with wg.no_grad():
                return self.rsample(sample_shape).detach()  # type: ignore[return-value]
        return as_torch(super().sample(tuple(sample_shape), **source))  # type: ignore[no-any-return]

    def rsample(self, sample_shape: Any = (), **source: Any) -> Tensor:  # type: ignore[override]
        """Draw so that gradients flow through the draw to the parameters. Raises AbsentError (NotImplementedError)."""
        if not self.has_rsample:
            fail(
                AbsentError,
                f"a draw from {type(self).__name__} has no derivative in its parameters",
                "Draw with sample(), and use log_prob() in the loss.",
            )
        return as_torch(super().rsample(tuple(sample_shape), **source))  # type: ignore[no-any-return]

    def sample_n(self, n: int) -> Tensor:
        """Draw n times: `sample((n,))`, which is the newer name."""
        warnings.warn("`sample_n(n)` will be deprecated. Use `sample((n,))` instead.", FutureWarning, stacklevel=2)
        return self.sample((n,))

    # -- questions

    def log_prob(self, value: Any) -> Any:
        """Return the logarithm of the density (of the probability, for a discrete one) of a value.

        Raises ValueError for values outside the support while arguments are validated.
        """
        return as_torch(super().log_prob(self._checked(value)))

    def cdf(self, value: Any) -> Any:
        """Return the probability of an outcome of at most `value`."""
        return as_torch(super().cdf(self._checked(value)))

    def icdf(self, value: Any) -> Any:
        """Return the quantile function, the inverse of :meth:`cdf`."""
        return as_torch(super().icdf(value))

    def entropy(self) -> Any:
        """Return the entropy in nats, of shape `batch_shape`."""
        return as_torch(super().entropy())

    def perplexity(self) -> Any:
        """Return exp(entropy())."""
        return as_torch(wg.exp(self.entropy()))

    def enumerate_support(self, expand: bool = True) -> Any:
        """Return every outcome along a new first axis; with `expand` for each distribution of the batch."""
        return as_torch(super().enumerate_support(expand))

    @property
    def mean(self) -> Any:
        """The mean."""
        return as_torch(super().mean)

    @property
    def mode(self) -> Any:
        """The most probable outcome."""
        return as_torch(super().mode)

    @property
    def variance(self) -> Any:
        """The variance."""
        return as_torch(super().variance)

    @property
    def stddev(self) -> Any:
        """The square root of the variance."""
        return as_torch(wg.sqrt(self.variance))

    def __repr__(self) -> str:
        shown = []
        given = vars(self).get("_given", vars(self))
        for name in self.arg_constraints:
            value = getattr(self, name) if name in given else None
            if isinstance(value, Plain):
                text = value if value.is_abstract or value.ndim else value.detach().item()
                shown.append(f"{name}: {text if value.spec.size == 1 else value.shape}")
        return f"{type(self).__name__}({', '.join(shown)})"


# Parameters of which one is given.
_ALTERNATIVES = ({"probs", "logits"}, {"covariance_matrix", "precision_matrix", "scale_tril"})


def begin(
    self: Any, validate_args: bool | None, plain: Any, unchecked: frozenset[str], more: bool, given: dict[str, Any]
) -> None:
    """Initialise a distribution of this namespace by Wengert's class, with tensors for numbers.

    Wengert's checks are made where they say more than the constraints.
    """
    if validate_args is not None:
        self._validate_args = bool(validate_args)
    self._validates = more and self._validate_args
    kept = {name: value for name, value in given.items() if name in plain.not_tensors}
    values = {name: value for name, value in given.items() if name not in kept}
    self._given = tuple(name for name, value in values.items() if value is not None)
    for group in _ALTERNATIVES:
        if group <= values.keys() and len(group.intersection(self._given)) != 1:
            fail(
                ShapeError,
                f"{type(self).__name__} takes one of {', '.join(sorted(group))}",
                "Pass exactly one of them.",
            )
    numbers = all(v is None or isinstance(v, (bool, int, float)) for v in values.values())
    for name, value in values.items():
        if value is not None and (numbers or not isinstance(value, (bool, int, float))):
            values[name] = tensor_of(wg.asarray(float(value), dtype=default_float()) if numbers else value)
    if self._validate_args:
        self._check_arguments({name: value for name, value in values.items() if name not in unchecked})
    plain.__init__(self, **values, **kept)
    for name, value in vars(self).items():
        if isinstance(value, Plain):
            vars(self)[name] = as_torch(value)


class ExponentialFamily(Distribution):
    """The base of exponential families, whose density is exp(<t(x), theta> - F(theta) + k(x)).

    Subclasses give `_natural_params` (a tuple of tensors), `_log_normalizer(*theta)`, which is F, and
    `_mean_carrier_measure`, the mean of k; the entropy follows by the gradient of F.
    """

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Any) -> Any:
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> Any:
        raise NotImplementedError

    def entropy(self) -> Any:
        """Return the entropy in nats, of shape `batch_shape`."""
        if not self.has_natural_params:
            return super().entropy()
        normalizer, theta, slopes = self.normalized()
        found = normalizer - self._mean_carrier_measure
        for parameter, slope in zip(theta, slopes, strict=True):
            product = parameter * slope
            found = found - sum_last(product, product.ndim - len(self.batch_shape))
        return found

    @property
    def has_natural_params(self) -> bool:
        """Says whether a subclass has natural parameters."""
        return type(self)._natural_params is not ExponentialFamily._natural_params

    def normalized(self) -> tuple[Any, list[Any], Any]:
        """Return the normalizer, the natural parameters, and the normalizer's gradient, the mean of t(x)."""
        theta = [p if p.requires_grad else p.detach().requires_grad_() for p in self._natural_params]
        with wg.enable_grad():
            normalizer = self._log_normalizer(*theta)
            slopes = wg.autograd.grad(normalizer.sum(), theta, create_graph=True)
        return normalizer, theta, slopes


__all__ = ["Distribution", "ExponentialFamily"]


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
