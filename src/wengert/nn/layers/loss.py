"""Losses as modules; `size_average` and `reduce` are what `reduction` replaced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ... import argmax, concat
from ...core.errors import RangeError, fail
from ...core.tensor import Tensor, asarray
from ...ops.neural.losses import REDUCTIONS, Flag, reduction_of
from .. import functional as F
from ..module import Module
from .container import ModuleList, Sequential
from .linear import Linear


class Loss(Module):
    """The base of losses: a `reduction`, "none", "mean" or "sum". Raises RangeError for another."""

    reduction: str

    def __init__(self, size_average: Flag = None, reduce: Flag = None, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = reduction_of(size_average, reduce, reduction, stacklevel=3)
        if self.reduction not in REDUCTIONS and self.reduction != "batchmean":
            fail(RangeError, f"reduction must be 'mean', 'sum' or 'none', not {reduction!r}")


class WeightedLoss(Loss):
    """The base of losses with a constant weight, which is a buffer."""

    weight: Any

    def __init__(
        self, weight: Any = None, size_average: Flag = None, reduce: Flag = None, reduction: str = "mean"
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", None if weight is None else asarray(weight))


class L1Loss(Loss):
    """The absolute difference, reduced.

    >>> import wengert as wg
    >>> wg.nn.L1Loss()(wg.tensor([0.0, 0.0]), wg.tensor([1.0, 3.0]))
    tensor(2.)
    """

    def forward(self, input: Any, target: Any) -> Tensor:
        """Map two tensors of one shape to a loss."""
        return F.l1_loss(input, target, reduction=self.reduction)


class MSELoss(Loss):
    """The squared difference, reduced.

    >>> import wengert as wg
    >>> wg.nn.MSELoss(reduction="sum")(wg.tensor([1.0, 2.0]), wg.tensor([0.0, 0.0]))
    tensor(5.)
    """

    def forward(self, input: Any, target: Any) -> Tensor:
        """Map two tensors of one shape to a loss."""
        return F.mse_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(Loss):
    """The Huber loss divided by `beta`.

    >>> import wengert as wg
    >>> wg.nn.SmoothL1Loss()(wg.tensor([0.0, 0.0]), wg.tensor([1.0, 3.0]))
    tensor(1.5)
    """

    def __init__(
        self, size_average: Flag = None, reduce: Flag = None, reduction: str = "mean", beta: float = 1.0
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Any, target: Any) -> Tensor:
        """Map two tensors of one shape to a loss."""
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(Loss):
    """The Huber loss, quadratic up to `delta`, linear beyond.

    >>> import wengert as wg
    >>> wg.nn.HuberLoss()(wg.tensor([0.0, 0.0]), wg.tensor([1.0, 3.0]))
    tensor(1.5)
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input: Any, target: Any) -> Tensor:
        """Map two tensors of one shape to a loss."""
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class NLLLoss(WeightedLoss):
    """The negative log-probability of the right class, from log-probabilities.

    >>> import wengert as wg
    >>> wg.nn.NLLLoss()(wg.tensor([[-1.0, -2.0]]), wg.tensor([1]))
    tensor(2.)
    """

    def __init__(
        self,
        weight: Any = None,
        size_average: Flag = None,
        ignore_index: int = -100,
        reduce: Flag = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Any, target: Any) -> Tensor:
        """Map log-probabilities (N, C, ...) and class ids (N, ...) to a loss."""
        return F.nll_loss(input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction)


class NLLLoss2d(NLLLoss):
    """:class:`NLLLoss` under its name for images.

    >>> import wengert as wg
    >>> wg.nn.NLLLoss2d()(wg.tensor([[[[-1.0]], [[-2.0]]]]), wg.tensor([[[1]]]))
    tensor(2.)
    """


class CrossEntropyLoss(WeightedLoss):
    """The negative log-probability of the right class, from logits.

    Parameters
    ----------
    weight: (C,), a factor for every class.
    ignore_index: a target that counts for nothing.
    reduction: "none", "mean" (weighted) or "sum".
    label_smoothing: how much of the target is spread over all classes.

    >>> import wengert as wg
    >>> wg.nn.CrossEntropyLoss()(wg.tensor([[0.0, 0.0]]), wg.tensor([1]))
    tensor(0.6931)
    """

    def __init__(
        self,
        weight: Any = None,
        size_average: Flag = None,
        ignore_index: int = -100,
        reduce: Flag = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Any, target: Any) -> Tensor:
        """Map logits (N, C, ...) and class ids (N, ...) or probabilities (N, C, ...) to a loss."""
        return F.cross_entropy(
            input,
            target,
            self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


@dataclass(frozen=True)
class LinearCrossEntropyOptions:
    """The ways in which PyTorch splits a linear cross-entropy. They change no number, and nothing here."""

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: Any = None


class LinearCrossEntropyLoss(Module):
    """A linear layer and the cross-entropy of what it gives.

    Parameters are those of :class:`Linear` and :class:`CrossEntropyLoss`; `out_features` are sizes of positions that
    each have logits of their own. `options` change no number.

    >>> import wengert as wg
    >>> wg.nn.LinearCrossEntropyLoss(3, 4)(wg.zeros((2, 3)), wg.tensor([0, 1]))
    tensor(1.3863, grad_fn=<CrossEntropyBackward>)
    """

    weight: Any

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
        reduction: str = "mean",
        weight: Any = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: Any = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.num_classes = num_classes
        self.out_features = tuple(out_features)
        self.reduction = reduction
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        self.options = options
        rows = num_classes
        for n in self.out_features:
            rows *= n
        self.linear = Linear(in_features, rows, bias, device=device, dtype=dtype)
        self.register_buffer("weight", None if weight is None else asarray(weight))

    def extra_repr(self) -> str:
        """Return the options for `repr`."""
        return (
            f"in_features={self.in_features}, num_classes={self.num_classes}, out_features={self.out_features}, "
            f"bias={self.linear.bias is not None}, reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )

    def forward(self, input: Any, target: Any) -> Tensor:
        """Map (N, in_features) and classes or probabilities to a loss."""
        shape = (self.num_classes, *self.out_features)
        bias = self.linear.bias
        return F.linear_cross_entropy(
            input,
            self.linear.weight.reshape((*shape, -1)),
            target,
            linear_bias=None if bias is None else bias.reshape(shape),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
        )


class Adapted(NamedTuple):
    """The log-probabilities of the targets, and their mean with the sign turned."""

    output: Any
    loss: Any


class AdaptiveLogSoftmaxWithLoss(Module):
    """A softmax over many classes by frequency: the rarer ones stand in clusters, with smaller projections.

    Parameters
    ----------
    in_features: the size of the last axis of the input.
    n_classes: how many classes there are, the most frequent first.
    cutoffs: where the clusters begin, rising.
    div_value: by what the projection of each cluster is smaller than that of the one before.
    head_bias: whether the layer of the most frequent classes has a bias.

    Source: Grave et al. 2016, arXiv:1609.04309.

    Raises RangeError for cutoffs that do not rise between 1 and the last class.

    >>> import wengert as wg
    >>> wg.nn.AdaptiveLogSoftmaxWithLoss(4, 10, [2, 5]).log_prob(wg.ones((3, 4))).shape
    (3, 10)
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        bounds = [int(c) for c in cutoffs]
        if not bounds or bounds != sorted({*bounds}) or bounds[0] <= 0 or bounds[-1] > n_classes - 1:
            fail(
                RangeError, f"cutoffs {bounds} of {n_classes} classes", "They rise, from 1 at least to the last class."
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*bounds, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = bounds[0]
        self.n_clusters = len(bounds)
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, head_bias, device=device, dtype=dtype)
        self.tail = ModuleList()
        for i, (low, high) in enumerate(zip(self.cutoffs, self.cutoffs[1:])):
            inner = int(in_features // div_value ** (i + 1))
            first = Linear(in_features, inner, False, device=device, dtype=dtype)
            self.tail.append(Sequential(first, Linear(inner, high - low, False, device=device, dtype=dtype)))

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        for layer in self.modules():
            if isinstance(layer, Linear):
                layer.reset_parameters()

    def _parts(self, input: Any) -> tuple[Any, list[Any]]:
        """Return log-probabilities: of the head, and of each cluster's classes among all."""
        head = F.log_softmax(self.head(input), dim=-1)
        clusters = enumerate(self.tail)
        return head, [
            F.log_softmax(part(input), dim=-1) + head[..., self.shortlist_size + i : self.shortlist_size + i + 1]
            for i, part in clusters
        ]

    def log_prob(self, input: Any) -> Any:
        """Return the log-probabilities of all classes, (N, n_classes)."""
        head, tails = self._parts(input)
        return concat([head[..., : self.shortlist_size], *tails], axis=-1)

    def predict(self, input: Any) -> Any:
        """Return the most probable class of each row."""
        return argmax(self.log_prob(input), axis=-1)

    def forward(self, input: Any, target: Any) -> Adapted:
        """Map (N, in_features) and class ids (N,) to log-probabilities and a loss."""
        scores = self.log_prob(input)
        # The loss of a class is checked to be one.
        output = -F.nll_loss(scores, target, reduction="none")
        return Adapted(output, -output.mean())


class BCELoss(WeightedLoss):
    """The binary cross-entropy, from probabilities. :class:`BCEWithLogitsLoss` is stabler.

    >>> import wengert as wg
    >>> wg.nn.BCELoss()(wg.tensor([0.5, 0.5]), wg.tensor([1.0, 0.0]))
    tensor(0.6931)
    """

    def forward(self, input: Any, target: Any) -> Tensor:
        """Map probabilities and targets in 0..1, of one shape, to a loss."""
        return F.binary_cross_entropy(input, target, self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(Loss):
    """The binary cross-entropy, from logits; `pos_weight` is a factor for the positive targets.

    >>> import wengert as wg
    >>> wg.nn.BCEWithLogitsLoss()(wg.tensor([0.0, 0.0]), wg.tensor([1.0, 0.0]))
    tensor(0.6931)
    """

    weight: Any
    pos_weight: Any

    def __init__(
        self,
        weight: Any = None,
        size_average: Flag = None,
        reduce: Flag = None,
        reduction: str = "mean",
        pos_weight: Any = None,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", None if weight is None else asarray(weight))
        self.register_buffer("pos_weight", None if pos_weight is None else asarray(pos_weight))

    def forward(self, input: Any, target: Any) -> Tensor:
        """Map logits and targets in 0..1, of one shape, to a loss."""
        return F.binary_cross_entropy_with_logits(
            input, target, self.weight, reduction=self.reduction, pos_weight=self.pos_weight
        )


class KLDivLoss(Loss):
    """The Kullback-Leibler divergence of targets from log-probabilities; "batchmean" divides by N only.

    >>> import wengert as wg
    >>> wg.nn.KLDivLoss(reduction="batchmean")(wg.log(wg.tensor([[0.5, 0.5]])), wg.tensor([[0.5, 0.5]]))
    tensor(0.)
    """

    def __init__(
        self, size_average: Flag = None, reduce: Flag = None, reduction: str = "mean", log_target: bool = False
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: Any, target: Any) -> Tensor:
        """Map log-probabilities and (log-)probabilities to a loss."""
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class GaussianNLLLoss(Loss):
    """The negative log-likelihood by normal distributions with given variances.

    >>> import wengert as wg
    >>> wg.nn.GaussianNLLLoss()(wg.tensor([1.0]), wg.tensor([3.0]), wg.tensor([4.0]))
    tensor(1.1931)
    """

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.full = full
        self.eps = eps

    def forward(self, input: Any, target: Any, var: Any) -> Tensor:
        """Map means, targets and variances to a loss."""
        return F.gaussian_nll_loss(input, target, var, full=self.full, eps=self.eps, reduction=self.reduction)


class PoissonNLLLoss(Loss):
    """The negative log-likelihood of counts by Poisson distributions.

    >>> import wengert as wg
    >>> wg.nn.PoissonNLLLoss()(wg.tensor([0.0, 0.0]), wg.tensor([1.0, 2.0]))
    tensor(1.)
    """

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: Flag = None,
        eps: float = 1e-8,
        reduce: Flag = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, log_input: Any, target: Any) -> Tensor:
        """Map (logarithms of) rates and counts to a loss."""
        return F.poisson_nll_loss(
            log_input, target, log_input=self.log_input, full=self.full, eps=self.eps, reduction=self.reduction
        )


class SoftMarginLoss(Loss):
    """log(1 + exp(-target input)) for targets 1 and -1.

    >>> import wengert as wg
    >>> wg.nn.SoftMarginLoss()(wg.tensor([0.0]), wg.tensor([1.0]))
    tensor(0.6931)
    """

    def forward(self, input: Any, target: Any) -> Tensor:
        """Map two tensors of one shape to a loss."""
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class MultiLabelMarginLoss(Loss):
    """A margin between scores of targets and of other classes; several targets a row.

    >>> import wengert as wg
    >>> wg.nn.MultiLabelMarginLoss()(wg.tensor([[0.0, 0.5]]), wg.tensor([[1, -1]]))
    tensor(0.25)
    """

    def forward(self, input: Any, target: Any) -> Tensor:
        """Map scores (N, C) and class ids before the first -1, (N, C), to a loss."""
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(WeightedLoss):
    """The mean over classes of binary cross-entropies of logits.

    >>> import wengert as wg
    >>> wg.nn.MultiLabelSoftMarginLoss()(wg.zeros((1, 2)), wg.tensor([[1.0, 0.0]]))
    tensor(0.6931)
    """

    def forward(self, input: Any, target: Any) -> Tensor:
        """Map logits and targets of one shape to a loss."""
        return F.multilabel_soft_margin_loss(input, target, self.weight, reduction=self.reduction)


class MultiMarginLoss(WeightedLoss):
    """A margin between the target's score and the others', to the power `p`. Raises RangeError for p not 1 or 2.

    >>> import wengert as wg
    >>> wg.nn.MultiMarginLoss()(wg.tensor([[0.0, 0.5]]), wg.tensor([1]))
    tensor(0.25)
    """

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Any = None,
        size_average: Flag = None,
        reduce: Flag = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            fail(RangeError, f"MultiMarginLoss: p is {p!r}", "It is 1 or 2.")
        self.p = p
        self.margin = margin

    def forward(self, input: Any, target: Any) -> Tensor:
        """Map scores (N, C) and class ids (N,) to a loss."""
        return F.multi_margin_loss(input, target, self.p, self.margin, self.weight, reduction=self.reduction)


class _Margin(Loss):
    """A loss of a function with `margin`."""

    def __init__(
        self, margin: float = 0.0, size_average: Flag = None, reduce: Flag = None, reduction: str = "mean"
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin


class HingeEmbeddingLoss(_Margin):
    """`input` where the target is 1, what it lacks to `margin` where the target is -1.

    >>> import wengert as wg
    >>> wg.nn.HingeEmbeddingLoss()(wg.tensor([0.5, 0.25]), wg.tensor([1, -1]))
    tensor(0.625)
    """

    def __init__(
        self, margin: float = 1.0, size_average: Flag = None, reduce: Flag = None, reduction: str = "mean"
    ) -> None:
        super().__init__(margin, size_average, reduce, reduction)

    def forward(self, input: Any, target: Any) -> Tensor:
        """Map distances and targets to a loss."""
        return F.hinge_embedding_loss(input, target, margin=self.margin, reduction=self.reduction)


class MarginRankingLoss(_Margin):
    """max(0, margin - target (input1 - input2)).

    >>> import wengert as wg
    >>> wg.nn.MarginRankingLoss()(wg.tensor([1.0, 2.0]), wg.tensor([3.0, 1.0]), wg.tensor([1.0, 1.0]))
    tensor(1.)
    """

    def forward(self, input1: Any, input2: Any, target: Any) -> Tensor:
        """Map two scores and targets 1 or -1 to a loss."""
        return F.margin_ranking_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class CosineEmbeddingLoss(_Margin):
    """1 - cos of the angle where the target is 1, max(0, cos - margin) where it is -1.

    >>> import wengert as wg
    >>> wg.nn.CosineEmbeddingLoss()(wg.tensor([1.0, 0.0]), wg.tensor([0.0, 1.0]), wg.tensor(1))
    tensor(1.)
    """

    def forward(self, input1: Any, input2: Any, target: Any) -> Tensor:
        """Map vectors (N, D) and targets (N,) to a loss."""
        return F.cosine_embedding_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class TripletMarginLoss(Loss):
    """max(0, margin + d(anchor, positive) - d(anchor, negative)) with the distance of a p-norm.

    >>> import wengert as wg
    >>> wg.nn.TripletMarginLoss()(wg.zeros((1, 2)), wg.ones((1, 2)), wg.ones((1, 2)))
    tensor(1.)
    """

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        size_average: Flag = None,
        reduce: Flag = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin
        self.p = p
        self.eps = eps
        self.swap = swap

    def forward(self, anchor: Any, positive: Any, negative: Any) -> Tensor:
        """Map three tensors of vectors to a loss."""
        return F.triplet_margin_loss(
            anchor,
            positive,
            negative,
            margin=self.margin,
            p=self.p,
            eps=self.eps,
            swap=self.swap,
            reduction=self.reduction,
        )


class TripletMarginWithDistanceLoss(Loss):
    """:class:`TripletMarginLoss` with a distance of one's own.

    >>> import wengert as wg
    >>> wg.nn.TripletMarginWithDistanceLoss()(wg.zeros((1, 2)), wg.ones((1, 2)), wg.ones((1, 2)))
    tensor(1.)
    """

    def __init__(
        self,
        *,
        distance_function: Callable[[Any, Any], Any] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction=reduction)
        self.distance_function: Any = F.pairwise_distance if distance_function is None else distance_function
        self.margin = margin
        self.swap = swap

    def forward(self, anchor: Any, positive: Any, negative: Any) -> Tensor:
        """Map three tensors of vectors to a loss."""
        return F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )


class CTCLoss(Loss):
    """Minus the log-probability of label sequences over all their alignments with `log_probs`.

    >>> import wengert as wg
    >>> wg.nn.CTCLoss()(wg.log(wg.full((2, 1, 2), 0.5)), wg.tensor([[1]]), [2], [1])
    tensor(0.2877)
    """

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction=reduction)
        self.blank = blank
        self.zero_infinity = zero_infinity

    def forward(self, log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any) -> Tensor:
        """Map log-probabilities (T, N, C), labels and lengths to a loss."""
        return F.ctc_loss(
            log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction, self.zero_infinity
        )
