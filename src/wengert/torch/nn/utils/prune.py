"""Weights with a mask: a module computes with `name_orig * name_mask`, and trains `name_orig`."""

from __future__ import annotations

import math
import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import wengert as wg

from ....core.errors import DTypeError, GraphError, RangeError, ShapeError, fail
from ...absent import names_of
from ...functions.indexing import positions
from ...namespace import as_torch, tensor_of
from ..parameter import Parameter

__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "PruningContainer",
    "RandomStructured",
    "RandomUnstructured",
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "random_structured",
    "random_unstructured",
    "remove",
]


# -- how many


def _validate_pruning_amount_init(amount: Any) -> None:
    """Raise DTypeError for what is no number, ValueError for a share outside [0, 1] or a negative count."""
    if not isinstance(amount, numbers.Real):
        fail(DTypeError, f"an amount to prune of {amount!r}", "It is a share in [0, 1] or a count.")
    whole = isinstance(amount, numbers.Integral)
    if float(amount) < 0 or (not whole and float(amount) > 1):
        raise ValueError(f"an amount to prune of {amount!r}: a share is in [0, 1], a count not negative")


def _validate_pruning_amount(amount: Any, tensor_size: int) -> None:
    """Raise ValueError for a count of more than there are."""
    if isinstance(amount, numbers.Integral) and int(amount) > tensor_size:
        raise ValueError(f"{amount} to prune of {tensor_size}: give a count of at most that, or a share")


def _compute_nparams_toprune(amount: Any, tensor_size: int) -> int:
    """Return how many a share or a count means."""
    return int(amount) if isinstance(amount, numbers.Integral) else round(amount * tensor_size)


def _validate_structured_pruning(t: Any) -> None:
    """Raise ShapeError for a tensor of less than two axes."""
    if t.ndim < 2:
        fail(ShapeError, f"structured pruning of a tensor of shape {tuple(t.shape)}", "It takes two axes at least.")


def _validate_pruning_dim(t: Any, dim: int) -> None:
    """Raise RangeError for an axis that there is not."""
    if not -t.ndim <= dim < t.ndim:
        fail(RangeError, f"pruning along axis {dim} of a tensor of shape {tuple(t.shape)}")


def _compute_norm(t: Any, n: Any, dim: int) -> Any:
    """Return the norms of order `n` of the slices along an axis."""
    axes = [d for d in range(t.ndim) if d != dim % t.ndim]
    return tensor_of(t).norm(p=n, dim=axes)


def _without(mask: Any, scores: Any, count: int) -> Any:
    """Return a mask with 0 where the `count` smallest scores are."""
    if not count:
        return mask
    places = scores.reshape(-1).topk(count, largest=False).indices
    flat = mask.reshape(-1).index_fill(0, places, 0)
    return flat.reshape(mask.shape)


# -- methods


class BasePruningMethod(ABC):
    """A hook that multiplies a module's weight by a mask before each call; subclasses define `compute_mask`.

    `PRUNING_TYPE` says what amounts count: "unstructured" elements, "structured" slices along `dim`, or "global".
    """

    PRUNING_TYPE: str
    _tensor_name: str

    def __call__(self, module: Any, inputs: Any) -> None:
        """Give the module its masked weight."""
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """Return the mask for scores `t`, 0 where `default_mask` is."""

    def apply_mask(self, module: Any) -> Any:
        """Return the module's weight times its mask. Raises GraphError for a module that is not pruned."""
        name = getattr(self, "_tensor_name", None)
        if name is None:
            fail(GraphError, f"{type(module).__name__} has to be pruned before", "Call apply(module, name).")
        mask, whole = getattr(module, f"{name}_mask"), getattr(module, f"{name}_orig")
        return mask.to(dtype=whole.dtype) * whole

    @classmethod
    def apply(cls, module: Any, name: str, *args: Any, importance_scores: Any = None, **kwargs: Any) -> Any:
        """Prune a module's weight by this method, beside those that it was pruned by before. Returns the method.

        Parameters
        ----------
        args, kwargs: those of the method's class.
        importance_scores: what is compared in place of the weight, of its shape.

        Raises ShapeError for scores of another shape.
        """
        found = _method_of(module, name)
        method: Any = cls(*args, **kwargs)
        method._tensor_name = name
        if found is not None:
            module._forward_pre_hooks.pop(found[0])
            container = PruningContainer(found[1]) if not isinstance(found[1], PruningContainer) else found[1]
            container.add_pruning_method(method)
            method = container
        held = getattr(module, name)
        if importance_scores is not None and tuple(importance_scores.shape) != tuple(held.shape):
            fail(
                ShapeError,
                f"importance_scores of shape {tuple(importance_scores.shape)} for {name} of {tuple(held.shape)}",
                "They have the shape of the parameter.",
            )
        scores = held if importance_scores is None else importance_scores
        before = getattr(module, f"{name}_mask") if found is not None else as_torch(wg.ones_like(held.detach()))
        mask = method.compute_mask(scores.detach(), default_mask=before)
        if found is None:
            delattr(module, name)
            module.register_parameter(f"{name}_orig", held)
        module.register_buffer(f"{name}_mask", mask)
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(self, t: Any, default_mask: Any = None, importance_scores: Any = None) -> Any:
        """Return a tensor times the mask that the method finds for it. Raises ShapeError for scores of another."""
        scores = t if importance_scores is None else importance_scores
        if tuple(scores.shape) != tuple(t.shape):
            fail(ShapeError, f"importance_scores of shape {tuple(scores.shape)} for a tensor of {tuple(t.shape)}")
        before = as_torch(wg.ones_like(t.detach())) if default_mask is None else default_mask
        return t * self.compute_mask(scores.detach(), default_mask=before)

    def remove(self, module: Any) -> None:
        """Let the weight be a parameter again, with zeros where the mask has them. Raises GraphError without one."""
        name = getattr(self, "_tensor_name", None)
        if name is None:
            fail(GraphError, f"{type(module).__name__} has to be pruned before pruning is removed")
        weight = self.apply_mask(module).detach()
        whole = getattr(module, f"{name}_orig")
        whole.data = weight
        for each in (name, f"{name}_mask", f"{name}_orig"):
            if hasattr(module, each):
                delattr(module, each)
        module.register_parameter(name, whole if isinstance(whole, Parameter) else Parameter(whole))


class PruningContainer(BasePruningMethod):
    """Several methods for one weight, of which each prunes what those before it have left."""

    def __init__(self, *args: Any) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        given = tuple(args[0]) if len(args) == 1 and isinstance(args[0], Iterable) else args
        if len(given) == 1:
            self._tensor_name = given[0]._tensor_name
            self._pruning_methods = (given[0],)
            return
        for method in given:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: Any) -> None:
        """Add a method for the same weight. Raises DTypeError for none, ValueError for one of another weight."""
        if not isinstance(method, BasePruningMethod) and method is not None:
            fail(DTypeError, f"{type(method).__name__} is not a BasePruningMethod subclass")
        if method is not None and getattr(self, "_tensor_name", method._tensor_name) != method._tensor_name:
            raise ValueError(f"a method for {method._tensor_name!r} beside those for {self._tensor_name!r}")
        if method is not None:
            self._tensor_name = method._tensor_name
            self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Any:
        return iter(self._pruning_methods)

    def __getitem__(self, index: Any) -> Any:
        return self._pruning_methods[index]

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """Return the mask of the last method, among what `default_mask` has left.

        Raises GraphError for a method of an unknown `PRUNING_TYPE`.
        """
        method = self._pruning_methods[-1]
        mask = default_mask.to(dtype=t.dtype)
        kind = method.PRUNING_TYPE
        if kind == "structured":
            axis = getattr(method, "dim", 0) % t.ndim
            others = [d for d in range(t.ndim) if d != axis]
            left = (mask.sum(dim=others) != 0).nonzero().reshape(-1)
            part = method.compute_mask(t.index_select(axis, left), default_mask=mask.index_select(axis, left))
            return mask.index_copy(axis, left, part.to(dtype=mask.dtype))
        if kind == "global":  # its mask is one for the whole weight
            return method.compute_mask(t, default_mask=mask).to(dtype=mask.dtype)
        if kind != "unstructured":
            fail(GraphError, f"Unrecognized PRUNING_TYPE {kind!r}", 'It is "unstructured", "structured" or "global".')
        chosen = mask == 1
        left = positions(t.shape)[chosen].reshape(-1)
        part = method.compute_mask(t.reshape(-1)[left], default_mask=mask.reshape(-1)[left])
        return mask.reshape(-1).index_copy(0, left, part.to(dtype=mask.dtype)).reshape(t.shape)


class Identity(BasePruningMethod):
    """The method that prunes nothing, and gives the module its mask of ones."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """Return the mask as it was."""
        return default_mask

    @classmethod
    def apply(cls, module: Any, name: str) -> Any:  # type: ignore[override]
        """Give a module's weight a mask of ones."""
        return super().apply(module, name)


class _ByAmount(BasePruningMethod):
    """A method that is given how many to prune."""

    def __init__(self, amount: Any) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount

    def _count(self, size: int) -> int:
        count = _compute_nparams_toprune(self.amount, size)
        _validate_pruning_amount(count, size)
        return count


class RandomUnstructured(_ByAmount):
    """The method that prunes elements by chance."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """Return the mask without some elements."""
        scores = as_torch(wg.rand(tuple(t.shape)))
        return _without(default_mask, scores, self._count(t.numel()))

    @classmethod
    def apply(cls, module: Any, name: str, amount: Any) -> Any:  # type: ignore[override]
        """Prune a module's weight."""
        return super().apply(module, name, amount=amount)


class L1Unstructured(_ByAmount):
    """The method that prunes the elements of the least magnitude."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """Return the mask without the smallest."""
        return _without(default_mask, abs(t), self._count(t.numel()))

    @classmethod
    def apply(cls, module: Any, name: str, amount: Any, importance_scores: Any = None) -> Any:  # type: ignore[override]
        """Prune a module's weight."""
        return super().apply(module, name, amount=amount, importance_scores=importance_scores)


class _Structured(_ByAmount):
    """A method that prunes whole slices along an axis."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: Any, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def _scores(self, t: Any) -> Any:
        raise NotImplementedError

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """Return the mask without the slices of the least scores."""
        _validate_structured_pruning(t)
        _validate_pruning_dim(t, self.dim)
        axis = self.dim % t.ndim
        count = self._count(t.shape[axis])
        if not count:
            return default_mask
        kept = _without(as_torch(wg.ones((t.shape[axis],), dtype=default_mask.dtype)), self._scores(t), count)
        return default_mask * kept.reshape([-1 if d == axis else 1 for d in range(t.ndim)])


class RandomStructured(_Structured):
    """The method that prunes slices along an axis by chance."""

    def _scores(self, t: Any) -> Any:
        return as_torch(wg.rand((t.shape[self.dim],)))

    @classmethod
    def apply(cls, module: Any, name: str, amount: Any, dim: int = -1) -> Any:  # type: ignore[override]
        """Prune a module's weight."""
        return super().apply(module, name, amount=amount, dim=dim)


class LnStructured(_Structured):
    """The method that prunes the slices along an axis of the least norms."""

    def __init__(self, amount: Any, n: Any, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def _scores(self, t: Any) -> Any:
        return _compute_norm(t, self.n, self.dim)

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Any, name: str, amount: Any, n: Any, dim: int, importance_scores: Any = None
    ) -> Any:
        """Prune a module's weight."""
        return super().apply(module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores)


class CustomFromMask(BasePruningMethod):
    """The method that prunes where a given mask is 0."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Any) -> None:
        self.mask = mask

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """Return both masks in one."""
        return default_mask * self.mask.to(dtype=default_mask.dtype)

    @classmethod
    def apply(cls, module: Any, name: str, mask: Any) -> Any:  # type: ignore[override]
        """Prune a module's weight."""
        return super().apply(module, name, mask=mask)


# -- functions


def identity(module: Any, name: str) -> Any:
    """Give a module's weight a mask of ones, `name_mask`, and return the module."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Any, name: str, amount: Any) -> Any:
    """Prune `amount` elements (a share or a count) of a module's weight by chance; return the module."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Any, name: str, amount: Any, importance_scores: Any = None) -> Any:
    """Prune the `amount` elements (a share or a count) of the least magnitude; return the module.

    >>> import wengert.torch as torch
    >>> layer = torch.nn.Linear(2, 1)
    >>> _ = layer.weight.data.copy_(torch.tensor([[3.0, -1.0]]))
    >>> torch.nn.utils.prune.l1_unstructured(layer, "weight", amount=1).weight_mask
    tensor([[1., 0.]])
    """
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Any, name: str, amount: Any, dim: int) -> Any:
    """Prune `amount` slices along an axis by chance; return the module."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(module: Any, name: str, amount: Any, n: Any, dim: int, importance_scores: Any = None) -> Any:
    """Prune the `amount` slices along an axis of the least norms of order `n`; return the module."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Any, name: str, mask: Any) -> Any:
    """Prune a module's weight where a mask is 0; return the module."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Any, pruning_method: type[BasePruningMethod], importance_scores: Any = None, **kwargs: Any
) -> None:
    """Prune weights of several modules as if they were one tensor.

    Parameters
    ----------
    parameters: pairs of a module and a name.
    pruning_method: a method of unstructured pruning, which is given `kwargs`.
    importance_scores: by such pair, what is compared in place of the weight.

    Raises DTypeError for pairs or scores in anything else than a list and a dict, or a structured method.
    """
    if not isinstance(parameters, Iterable):
        fail(DTypeError, "global_unstructured(): parameters are no list", "Give pairs of a module and a name.")
    if importance_scores is not None and not isinstance(importance_scores, dict):
        fail(DTypeError, "global_unstructured(): importance_scores are no dict", "Its keys are (module, name).")
    pairs, given = list(parameters), importance_scores or {}
    weights = [getattr(module, name) for module, name in pairs]
    scores = [given.get((module, name), w) for (module, name), w in zip(pairs, weights, strict=True)]
    masks = [
        getattr(module, f"{name}_mask", as_torch(wg.ones_like(w.detach())))
        for (module, name), w in zip(pairs, weights, strict=True)
    ]
    container = PruningContainer()
    container._tensor_name = "temp"
    method = pruning_method(**kwargs)
    method._tensor_name = "temp"
    container.add_pruning_method(method)
    if method.PRUNING_TYPE != "unstructured":
        fail(DTypeError, f'Only "unstructured" PRUNING_TYPE supported for global pruning, not {method.PRUNING_TYPE}')
    flat, before = (as_torch(wg.concat([t.detach().reshape(-1) for t in each])) for each in (scores, masks))
    whole = container.compute_mask(flat, default_mask=before)
    at = 0
    for (module, name), w in zip(pairs, weights, strict=True):
        size = math.prod(w.shape)
        custom_from_mask(module, name, mask=whole[at : at + size].reshape(w.shape))
        at += size


def _method_of(module: Any, name: str) -> Any:
    """Return the number of the hook that prunes a weight, and its method; None where there is none."""
    for number, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            return number, hook
    return None


def remove(module: Any, name: str) -> Any:
    """Let a weight be a parameter again, pruned as it is; return the module. Raises ValueError where it is not."""
    found = _method_of(module, name)
    if found is None:
        raise ValueError(f"the parameter {name!r} of {type(module).__name__} is not pruned")
    found[1].remove(module)
    module._forward_pre_hooks.pop(found[0])
    return module


def is_pruned(module: Any) -> bool:
    """Return whether a weight of a module, or of one below it, is pruned."""
    return any(
        isinstance(hook, BasePruningMethod) for each in module.modules() for hook in each._forward_pre_hooks.values()
    )


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
