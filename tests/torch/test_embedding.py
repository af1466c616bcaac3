"""Embeddings of `wengert.torch`, bags of them and `one_hot`: PyTorch's numbers and gradients."""

from __future__ import annotations

import numpy as np
import pytest

import wengert as wg
import wengert.torch as torch
from torch_layers import compiled, same
from torch_records import read
from wengert.core.errors import DTypeError, GraphError, RangeError, ShapeError

F, nn = torch.nn.functional, torch.nn

CALLS = [
    "F.embedding(I(5, 2, 3), N(5, 4)), F.embedding(I(5), N(5, 4), padding_idx=-1), F.embedding(I(3, 0, 2), N(3, 1))",
    "F.embedding(I(3, 7), N(3, 2), padding_idx=1, scale_grad_by_freq=True), F.embedding(I(3, 7), N(3, 2), sparse=False)",  # noqa: E501
    "F.embedding(I(3, 7), w := N(5, 2).detach(), max_norm=0.5), w, F.embedding(I(3, 4), v := N(3, 2).detach(), None, 1.0, 3.0), v",  # noqa: E501
    "F.embedding_bag(I(5, 2, 3), N(5, 4)), F.embedding_bag(I(5, 2, 3), N(5, 4), mode='sum', padding_idx=2)",
    "F.embedding_bag(I(5, 7), N(5, 4), torch.tensor([0, 2, 2, 6]))",
    "F.embedding_bag(I(5, 7), N(5, 4), torch.tensor([0, 2, 2, 7]), include_last_offset=True, padding_idx=0)",
    "F.embedding_bag(I(5, 7), N(5, 4), torch.tensor([0, 2, 2, 6]), mode='max', padding_idx=-2)",
    "F.embedding_bag(I(5, 2, 3), N(5, 4), mode='max'), F.embedding_bag(I(5, 0), N(5, 4), torch.tensor([0, 0]))",
    "F.embedding_bag(I(5, 2, 3), N(5, 4), mode='sum', per_sample_weights=N(2, 3))",
    "F.embedding_bag(I(5, 7), N(5, 4), torch.tensor([0, 3]), mode='sum', per_sample_weights=N(7), padding_idx=1)",
    "F.one_hot(I(5, 2, 3)), F.one_hot(I(3, 4), 6), F.one_hot(torch.tensor(2), num_classes=3), F.one_hot(I(3, 0), 2)",
    "(m := layer(nn.Embedding(5, 3, padding_idx=2)))(I(5, 2, 2)), repr(m), repr(nn.Embedding(3, 2, 1, 1.5, 3.0, True))",
    "(m := layer(nn.EmbeddingBag(5, 3)))(I(5, 4), torch.tensor([0, 1])), repr(m)",
    "repr(nn.EmbeddingBag(3, 2, 1.0, 1.0, mode='sum', padding_idx=1, include_last_offset=True))",
    "layer(nn.EmbeddingBag(5, 3, mode='sum', include_last_offset=True))(I(5, 4), torch.tensor([0, 1, 4]), N(4))",
    "(m := nn.Embedding.from_pretrained(N(4, 2)))(I(4, 3)), str(m.weight.requires_grad), m.weight.detach()",
    "(m := nn.EmbeddingBag.from_pretrained(N(4, 2), False, mode='max'))(I(4, 1, 3)), str(m.weight.requires_grad)",
]
RECORDED = read("embedding")


@pytest.mark.parametrize("text", CALLS)
def test_numbers_and_gradients_are_pytorchs(text: str) -> None:
    same(torch, text, RECORDED[text])


@pytest.mark.parametrize("text", CALLS[3:9])
def test_compiled_calls_give_the_same(text: str) -> None:
    compiled(wg, torch, text, RECORDED[text])


def test_offsets_of_a_trace() -> None:
    weight = torch.tensor(np.random.RandomState(0).normal(size=(5, 2)))
    ids = torch.tensor([1, 2, 3, 0, 4])
    for mode in ("sum", "mean", "max"):
        fn = wg.jit(lambda w, i, o, mode=mode: F.embedding_bag(i, w, o, mode=mode))
        for starts in ([0, 2, 2], [0, 1, 4], [0, 0, 0]):
            offsets = torch.tensor(starts)
            want = F.embedding_bag(ids, weight, offsets, mode=mode)
            np.testing.assert_allclose(fn(weight, ids, offsets).numpy(), want.numpy(), rtol=1e-12)


def test_second_derivatives_and_batches() -> None:
    weight, ids = torch.tensor(np.random.RandomState(0).normal(size=(4, 3))), torch.tensor([[0, 1], [1, 1]])
    for mode in ("sum", "mean", "max"):
        wg.check_grads(lambda w, mode=mode: F.embedding_bag(ids, w * w, mode=mode), weight, order=2)
    found = wg.vmap(lambda i: F.embedding(i, weight, padding_idx=1))(ids)
    np.testing.assert_array_equal(found.numpy(), weight.numpy()[ids.numpy()])


def test_padding_starts_at_zeros() -> None:
    layer = nn.Embedding(3, 2, padding_idx=-1)
    assert layer.padding_idx == 2
    assert not layer.weight[2].detach().numpy().any()
    assert layer.weight[:2].detach().numpy().all()
    layer(torch.tensor([0, 2, 2])).sum().backward()
    assert layer.weight.grad.tolist() == [[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]]


def test_rows_that_are_named_get_shorter() -> None:
    layer = nn.Embedding(3, 2, max_norm=1.0)
    layer.weight.data = torch.tensor([[3.0, 4.0], [3.0, 4.0], [0.3, 0.4]])
    layer(torch.tensor([0, 2])).sum().backward()
    np.testing.assert_allclose(layer.weight.detach().numpy(), [[0.6, 0.8], [3.0, 4.0], [0.3, 0.4]], rtol=1e-6)
    assert layer.weight.grad.tolist() == [[1.0, 1.0], [0.0, 0.0], [1.0, 1.0]]


def test_refusals() -> None:
    w, ids = torch.ones(3, 2), torch.tensor([0, 1])
    for wrong in (
        lambda: F.embedding(torch.tensor([3]), w),
        lambda: F.embedding(torch.tensor([-1]), w),
        lambda: F.embedding(ids, w, padding_idx=3),
        lambda: F.one_hot(torch.tensor([3]), 3),
        lambda: nn.Embedding(3, 2, padding_idx=-4),
    ):
        with pytest.raises(RangeError):
            wrong()
    for wrong in (
        lambda: F.embedding(ids, torch.ones(3)),
        lambda: F.embedding_bag(ids, w),
        lambda: F.embedding_bag(torch.zeros(1, 2, dtype=torch.int64), w, torch.tensor([0])),
        lambda: F.embedding_bag(ids, w, torch.tensor([[0]])),
        lambda: F.one_hot(torch.zeros(0, dtype=torch.int64)),
        lambda: nn.Embedding(3, 2, _weight=torch.ones(2, 2)),
        lambda: nn.Embedding.from_pretrained(torch.ones(3)),
        lambda: nn.EmbeddingBag.from_pretrained(torch.ones(3)),
    ):
        with pytest.raises(ShapeError):
            wrong()
    for wrong in (
        lambda: F.embedding_bag(ids, w, torch.tensor([0]), mode="min"),
        lambda: F.embedding_bag(ids, w, torch.tensor([0]), per_sample_weights=torch.ones(2)),
        lambda: F.embedding_bag(ids, w, torch.tensor([0]), scale_grad_by_freq=True),
    ):
        with pytest.raises(GraphError):
            wrong()
    with pytest.raises(DTypeError):
        F.embedding(torch.ones(2), w)


def test_the_last_bag_goes_to_the_end_whatever_the_last_offset_says():
    bag = torch.nn.EmbeddingBag(10, 3, include_last_offset=True, mode="sum")
    ids = torch.tensor([0, 1, 2, 3])
    wanted = torch.stack([bag.weight[:3].sum(0), bag.weight[3]])
    for last in (3, 4, 9):
        assert torch.equal(bag(ids, torch.tensor([0, 3, last])), wanted)


def test_factors_of_another_dtype_are_refused_and_tables_of_integers_are_not():
    table = torch.ones(4, 2)
    with pytest.raises(TypeError, match="Both are of one dtype"):
        torch.nn.functional.embedding_bag(
            torch.tensor([[0, 1]]), table, mode="sum", per_sample_weights=torch.ones(1, 2, dtype=torch.double)
        )
    layer = torch.nn.Embedding.from_pretrained(torch.arange(6).reshape(3, 2))
    assert layer(torch.tensor([2])).tolist() == [[4, 5]]
