"""Losses and distances of `wengert.torch`: PyTorch's numbers on its own samples, and every crossing."""

from __future__ import annotations

import inspect
import math
import warnings
from typing import Any

import numpy as np
import pytest

import torch_records as records
import wengert as wg
import wengert.torch as torch
from wengert.core.errors import RangeError, ShapeError

F = torch.nn.functional
RECORDED = records.read("losses")


@pytest.mark.parametrize("label", RECORDED)
def test_losses_are_pytorchs(label: str) -> None:
    records.replay(torch, label, *RECORDED[label])


def test_flags_of_old() -> None:
    x, y = torch.tensor([1.0, 3.0]), torch.tensor([0.0, 0.0])
    cases = (((None, False), "none"), ((False, None), "sum"), ((True, True), "mean"), ((False, False), "none"))
    for (average, reduce), name in cases:
        with pytest.warns(UserWarning, match="size_average"):
            found = F.mse_loss(x, y, average, reduce)
        np.testing.assert_array_equal(found.numpy(), F.mse_loss(x, y, reduction=name).numpy())
    with pytest.warns(UserWarning, match="size_average"):
        assert torch.nn.L1Loss(size_average=False).reduction == "sum"
    with pytest.raises(ValueError, match="reduction"):
        F.soft_margin_loss(x, y, reduction="average")


def test_shapes_that_differ_broadcast_with_a_warning() -> None:
    x, y = torch.tensor([[1.0], [3.0]]), torch.tensor([1.0, 0.0])
    for loss in (F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss):
        with pytest.warns(UserWarning, match="target size"):
            assert loss(x, y, reduction="none").shape == (2, 2)
    with pytest.raises(ShapeError):
        F.mse_loss(x, torch.ones(3, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        F.kl_div(x, y.reshape(1, 2), reduction="sum")
    with pytest.raises(ValueError, match="shape"):
        F.binary_cross_entropy(torch.tensor([0.5]), torch.tensor([[1.0]]))


def test_weights() -> None:
    x, y, w = torch.tensor([1.0, 3.0]), torch.zeros(2), torch.tensor([1.0, 3.0])
    assert F.mse_loss(x, y, weight=w).item() == 7.0
    assert F.l1_loss(x, y, weight=w, reduction="sum").item() == 10.0
    assert F.huber_loss(x, y, weight=w).item() == pytest.approx((0.5 + 7.5) / 2)
    with pytest.raises(ShapeError):
        F.mse_loss(x, y, weight=torch.ones(1))


def test_refusals() -> None:
    x = torch.randn(2, 3)
    with pytest.raises(RangeError):
        F.cross_entropy(x, torch.tensor([0, 3]))
    with pytest.raises(RangeError):
        F.multi_margin_loss(x, torch.tensor([0, 1]), p=3)
    with pytest.raises(ShapeError):
        F.margin_ranking_loss(x, x, torch.ones(()))
    with pytest.raises(RangeError):
        F.gaussian_nll_loss(x, x, -torch.ones(2, 3))
    with pytest.raises(ShapeError):
        F.gaussian_nll_loss(x, x, torch.ones(5))
    with pytest.raises(RangeError):
        F.triplet_margin_loss(x, x, x, margin=0)
    with pytest.raises(ShapeError):
        F.pdist(torch.ones(3))


# -- connectionist temporal classification


def by_paths(log_probs: np.ndarray, labels: list[int], blank: int) -> float:
    """Minus the log-probability of labels: the sum over every path, written out."""
    steps, classes = log_probs.shape
    total = 0.0
    for path in np.ndindex(*(classes,) * steps):
        merged = [c for i, c in enumerate(path) if i == 0 or c != path[i - 1]]
        if [c for c in merged if c != blank] == labels:
            total += math.exp(sum(log_probs[t, c] for t, c in enumerate(path)))
    return -math.log(total) if total else math.inf


@pytest.mark.parametrize("labels", [[1, 2], [1, 1], [2], [], [1, 2, 1]])
def test_ctc_sums_over_all_paths(labels: list[int]) -> None:
    scores = np.random.RandomState(0).normal(size=(4, 3))
    log_probs = F.log_softmax(torch.tensor(scores), dim=-1)
    found = F.ctc_loss(log_probs, torch.tensor(labels, dtype=torch.int64), [4], [len(labels)], reduction="sum")
    assert found.item() == pytest.approx(by_paths(log_probs.numpy(), labels, 0), rel=1e-12)


def test_ctc_of_what_cannot_be() -> None:
    log_probs = F.log_softmax(torch.tensor(np.random.RandomState(0).normal(size=(2, 2, 3))), dim=-1).detach()
    log_probs.requires_grad_()
    args = (torch.tensor([[1, 1], [1, 2]]), [2, 2], [2, 2])
    assert np.isinf(F.ctc_loss(log_probs, *args, reduction="none").detach().numpy()).tolist() == [True, False]
    loss = F.ctc_loss(log_probs, *args, reduction="sum", zero_infinity=True)
    loss.backward()
    assert np.isfinite(loss.item())
    assert not log_probs.grad[:, 0].any()
    assert np.isfinite(log_probs.grad.numpy()).all()


def test_ctc_crossings() -> None:
    scores = torch.tensor(np.random.RandomState(1).normal(size=(5, 2, 4)))
    targets, lengths, counts = torch.tensor([[1, 2], [3, 0]]), torch.tensor([5, 4]), torch.tensor([2, 1])

    def loss(z: Any) -> Any:
        return F.ctc_loss(F.log_softmax(z, dim=-1), targets, lengths, counts)

    wg.check_grads(loss, scores)
    eager, compiled = loss(scores), wg.jit(loss)
    for _ in range(6):
        assert compiled(scores).item() == pytest.approx(eager.item(), rel=1e-12)
    slope = wg.jit(wg.grad(loss))(scores)
    np.testing.assert_allclose(slope.numpy(), wg.grad(loss)(scores).numpy(), rtol=1e-9, atol=1e-12)
    joined = F.ctc_loss(F.log_softmax(scores, dim=-1), torch.tensor([1, 2, 3]), (5, 4), (2, 1))
    assert joined.item() == pytest.approx(eager.item(), rel=1e-12)
    with pytest.raises(RangeError):
        F.ctc_loss(scores, targets, [6, 4], counts)


def test_adaptive_log_softmax() -> None:
    torch.manual_seed(0)
    layer = torch.nn.AdaptiveLogSoftmaxWithLoss(6, 10, [3, 7], div_value=2.0, dtype=torch.float64)
    assert [tuple(p.shape) for p in layer.parameters()] == [(5, 6), (3, 6), (4, 3), (1, 6), (3, 1)]
    x, y = torch.randn(5, 6, dtype=torch.float64), torch.tensor([0, 3, 9, 6, 2])
    scores = layer.log_prob(x).detach().numpy()
    np.testing.assert_allclose(np.exp(scores).sum(axis=1), 1.0, rtol=1e-12)
    output, loss = layer(x, y)
    np.testing.assert_allclose(output.detach().numpy(), scores[np.arange(5), y.numpy()], rtol=1e-12)
    assert loss.item() == pytest.approx(-output.detach().numpy().mean(), rel=1e-12)
    assert layer.predict(x).tolist() == scores.argmax(axis=1).tolist()
    for wrong in ([7, 3], [0, 4], [3, 10], []):
        with pytest.raises(RangeError):
            torch.nn.AdaptiveLogSoftmaxWithLoss(6, 10, wrong)


# -- crossings

SMOOTH = {
    "gaussian_nll_loss": (3, lambda x, y, z: F.gaussian_nll_loss(x, y, z * z + 1, full=True)),
    "poisson_nll_loss": (2, lambda x, y: F.poisson_nll_loss(x, y * y + 2, full=True)),
    "hinge_embedding_loss": (1, lambda x: F.hinge_embedding_loss(x, torch.tensor([1.0, -1.0, 1.0]))),
    "margin_ranking_loss": (2, lambda x, y: F.margin_ranking_loss(x, y, torch.ones(3), margin=0.3)),
    "soft_margin_loss": (1, lambda x: F.soft_margin_loss(x, torch.tensor([1.0, -1.0, 1.0]))),
    "cosine_embedding_loss": (2, lambda x, y: F.cosine_embedding_loss(x, y, torch.tensor(1))),
    "triplet_margin_loss": (3, lambda x, y, z: F.triplet_margin_loss(x, y, z, swap=True)),
    "multi_margin_loss": (1, lambda x: F.multi_margin_loss(x, torch.tensor(1), p=2)),
    "multilabel_margin_loss": (1, lambda x: F.multilabel_margin_loss(x, torch.tensor([2, 0, -1]))),
    "multilabel_soft_margin_loss": (1, lambda x: F.multilabel_soft_margin_loss(x, torch.tensor([1.0, 0.0, 1.0]))),
    "huber_loss": (2, lambda x, y: F.huber_loss(x, y, delta=0.7)),
    "cosine_similarity": (2, lambda x, y: F.cosine_similarity(x, y, dim=0)),
    "pairwise_distance": (2, lambda x, y: F.pairwise_distance(x, y, p=3.0)),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives_compiled_calls_and_batches(name: str) -> None:
    count, loss = SMOOTH[name]
    state = np.random.RandomState(3)
    args = [torch.tensor(state.normal(size=3)) for _ in range(count)]
    wg.check_grads(loss, tuple(args))
    eager, compiled = loss(*args), wg.jit(loss)
    assert type(eager) is torch.Tensor
    for _ in range(6):
        assert compiled(*args).item() == pytest.approx(eager.item(), rel=1e-12)
    rows = [torch.tensor(state.normal(size=(4, 3))) for _ in range(count)]
    each = [loss(*(r[i] for r in rows)).item() for i in range(4)]
    np.testing.assert_allclose(wg.vmap(loss)(*rows).numpy(), each, rtol=1e-12)


@pytest.mark.parametrize("name", SMOOTH)
def test_one_function_serves_both_namespaces(name: str) -> None:
    assert getattr(F, name) is getattr(wg.nn.functional, name)
    count, loss = SMOOTH[name]
    state = np.random.RandomState(4)
    given = [state.normal(size=3) for _ in range(count)]
    assert loss(*map(wg.tensor, given)).item() == loss(*map(torch.tensor, given)).item()


def test_results_are_of_their_arguments_namespace() -> None:
    x = [0.5, 0.25]
    for name in ("huber_loss", "gaussian_nll_loss", "soft_margin_loss", "pairwise_distance", "triplet_margin_loss"):
        loss, count = getattr(F, name), 3 if name[0] in "gt" else 2
        for lib in (wg, torch):
            assert type(loss(*[lib.tensor(x)] * count)) is lib.Tensor, name
    scores = wg.log(wg.full((2, 1, 2), 0.5))
    assert type(F.ctc_loss(scores, wg.tensor([[1]]), [2], [1])) is wg.Tensor
    assert type(F.ctc_loss(torch.tensor(scores), torch.tensor([[1]]), [2], [1])) is torch.Tensor


def test_losses_take_lists() -> None:
    for name in ("hinge_embedding_loss", "soft_margin_loss", "multilabel_soft_margin_loss", "poisson_nll_loss"):
        loss = getattr(wg.nn.functional, name)
        assert loss([0.5, -0.25], [1.0, 1.0]).item() == loss(wg.tensor([0.5, -0.25]), wg.tensor([1.0, 1.0])).item()


def test_modules_of_losses_are_wengerts_with_pytorchs_methods() -> None:
    for name in dir(torch.nn):
        if name.endswith(("Loss", "Loss2d")):
            cls = getattr(torch.nn, name)
            assert issubclass(cls, (torch.nn.Module, getattr(wg.nn, name))), name
            assert inspect.signature(cls.__init__) == inspect.signature(getattr(wg.nn, name).__init__)
    assert issubclass(torch.nn.NLLLoss2d, torch.nn.NLLLoss)
    assert issubclass(torch.nn.BCELoss, torch.nn.modules.loss._WeightedLoss)
    loss = torch.nn.AdaptiveLogSoftmaxWithLoss(6, 10, [3, 7], dtype=torch.float64)
    assert type(loss.head) is torch.nn.Linear
    assert type(loss.tail[0][0].weight) is torch.nn.Parameter
    assert loss.head.weight.dtype == torch.float64


def test_shapes_that_differ_are_refused_where_tensors_are_wengerts() -> None:
    x, y = wg.tensor([[1.0], [3.0]]), wg.tensor([1.0, 0.0])
    for loss in (F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss, F.kl_div):
        with pytest.raises(ShapeError, match="differ in shape"):
            loss(x, y)
    with pytest.raises(wg.DTypeError, match="Write reduction='sum'"):
        F.mse_loss(y, y, "sum")


def test_l1_of_complex_numbers() -> None:
    x, y = torch.tensor([3 + 4j, 1j]), torch.tensor([0j, 0j])
    assert F.l1_loss(x, y).item() == 3.0


def test_empty_and_nan() -> None:
    none = torch.zeros(0, 3)
    assert math.isnan(F.cross_entropy(none, torch.zeros(0, dtype=torch.int64)).item())
    assert F.mse_loss(none, none, reduction="sum").item() == 0
    assert math.isnan(F.hinge_embedding_loss(torch.tensor([math.nan]), torch.ones(1)).item())
    assert F.pdist(torch.zeros(1, 3)).shape == (0,)
