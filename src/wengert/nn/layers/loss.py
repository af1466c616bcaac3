"""Losses as modules. `reduction` is "mean", "sum" or "none"."""

from __future__ import annotations

from typing import Any

from ...core.errors import ShapeError, fail
from ...core.tensor import Tensor, asarray
from .. import functional as F
from ..module import Module


class _Loss(Module):
    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        if reduction not in ("mean", "sum", "none", "batchmean"):
            fail(ShapeError, f"reduction must be 'mean', 'sum' or 'none', not {reduction!r}")
        self.reduction = reduction


class MSELoss(_Loss):
    """The squared difference.

    Raises ShapeError for another `reduction`.

    >>> import wengert as wg
    >>> wg.nn.MSELoss()(wg.tensor([1.0, 2.0]), wg.tensor([0.0, 0.0]))
    tensor(2.5)
    """

    def forward(self, input: Any, target: Any) -> Tensor:
        """Map two tensors of one shape to a loss."""
        return F.mse_loss(input, target, reduction=self.reduction)


class L1Loss(_Loss):
    """The absolute difference.

    Raises ShapeError for another `reduction`.

    >>> import wengert as wg
    >>> wg.nn.L1Loss()(wg.tensor([0.0, 0.0]), wg.tensor([1.0, 3.0]))
    tensor(2.)
    """

    def forward(self, input: Any, target: Any) -> Tensor:
        """Map two tensors of one shape to a loss."""
        return F.l1_loss(input, target, reduction=self.reduction)


class HuberLoss(_Loss):
    """The Huber loss, quadratic up to `delta`, linear beyond. Source: Huber 1964.

    >>> import wengert as wg
    >>> wg.nn.HuberLoss()(wg.tensor([0.0, 0.0]), wg.tensor([1.0, 3.0]))
    tensor(1.5)
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction)
        self.delta = delta

    def forward(self, input: Any, target: Any) -> Tensor:
        """Map two tensors of one shape to a loss."""
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class SmoothL1Loss(_Loss):
    """The Huber loss divided by `beta`.

    >>> import wengert as wg
    >>> wg.nn.SmoothL1Loss()(wg.tensor([0.0, 0.0]), wg.tensor([1.0, 3.0]))
    tensor(1.5)
    """

    def __init__(self, reduction: str = "mean", beta: float = 1.0) -> None:
        super().__init__(reduction)
        self.beta = beta

    def forward(self, input: Any, target: Any) -> Tensor:
        """Map two tensors of one shape to a loss."""
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class _Weighted(_Loss):
    """A loss with a constant weight (per class or element)."""

    weight: Tensor | None

    def __init__(self, weight: Any = None, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.register_buffer("weight", None if weight is None else asarray(weight))


class CrossEntropyLoss(_Weighted):
    """The negative log-probability of the right class, from logits.

    Parameters
    ----------
    weight: (C,) a factor for every class.
    ignore_index: a target that counts for nothing.
    reduction: "mean" (weighted), "sum" or "none".
    label_smoothing: how much of the target is spread over all classes.

    >>> import wengert as wg
    >>> loss = wg.nn.CrossEntropyLoss()(wg.tensor([[0.0, 0.0]]), wg.tensor([1]))
    >>> round(loss.item(), 4)
    0.6931
    """

    def __init__(
        self, weight: Any = None, ignore_index: int = -100, reduction: str = "mean", label_smoothing: float = 0.0
    ) -> None:
        super().__init__(weight, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Any, target: Any) -> Tensor:
        """Map logits (N, C, ...) and class ids (N, ...) or probabilities (N, C, ...) to a loss."""
        return F.cross_entropy(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class NLLLoss(_Weighted):
    """The negative log-probability of the right class, from log-probabilities.

    >>> import wengert as wg
    >>> wg.nn.NLLLoss()(wg.tensor([[-1.0, -2.0]]), wg.tensor([1]))
    tensor(2.)
    """

    def __init__(self, weight: Any = None, ignore_index: int = -100, reduction: str = "mean") -> None:
        super().__init__(weight, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Any, target: Any) -> Tensor:
        """Map log-probabilities (N, C, ...) and class ids (N, ...) to a loss."""
        return F.nll_loss(input, target, weight=self.weight, ignore_index=self.ignore_index, reduction=self.reduction)


class BCELoss(_Weighted):
    """The binary cross-entropy, from probabilities. :class:`BCEWithLogitsLoss` is stabler.

    >>> import wengert as wg
    >>> wg.nn.BCELoss()(wg.tensor([0.5, 0.5]), wg.tensor([1.0, 0.0]))
    tensor(0.6931)
    """

    def forward(self, input: Any, target: Any) -> Tensor:
        """Map probabilities and targets in [0, 1], of one shape, to a loss."""
        return F.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_Weighted):
    """The binary cross-entropy, from logits; `pos_weight` is a factor for the positive targets.

    >>> import wengert as wg
    >>> wg.nn.BCEWithLogitsLoss()(wg.tensor([0.0, 0.0]), wg.tensor([1.0, 0.0]))
    tensor(0.6931)
    """

    pos_weight: Tensor | None

    def __init__(self, weight: Any = None, reduction: str = "mean", pos_weight: Any = None) -> None:
        super().__init__(weight, reduction)
        self.register_buffer("pos_weight", None if pos_weight is None else asarray(pos_weight))

    def forward(self, input: Any, target: Any) -> Tensor:
        """Map logits and targets in [0, 1], of one shape, to a loss."""
        return F.binary_cross_entropy_with_logits(
            input, target, weight=self.weight, reduction=self.reduction, pos_weight=self.pos_weight
        )


class KLDivLoss(_Loss):
    """The Kullback-Leibler divergence of targets from log-probabilities; "batchmean" divides by N only.

    >>> import wengert as wg
    >>> p = wg.tensor([[0.5, 0.5]])
    >>> wg.nn.KLDivLoss(reduction="batchmean")(wg.log(p), p)
    tensor(0.)
    """

    def __init__(self, reduction: str = "mean", log_target: bool = False) -> None:
        super().__init__(reduction)
        self.log_target = log_target

    def forward(self, input: Any, target: Any) -> Tensor:
        """Map log-probabilities and (log-)probabilities of one shape to a loss."""
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)
