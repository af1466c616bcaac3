"""Recurrent layers of `wengert.torch` and packed sequences: PyTorch's numbers and gradients, and every crossing."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import wengert as wg
import wengert.torch as torch
from torch_layers import same
from torch_records import read
from wengert.core.errors import GraphError, RangeError, ShapeError, TraceError

nn, rnn = torch.nn, torch.nn.utils.rnn

CALLS = [
    "(m := layer(nn.RNN(3, 4)))(N(5, 2, 3)), list(m.state_dict()), repr(m)",
    "(m := layer(nn.RNN(3, 4, 2, 'relu', False, True, 0.0, True)))(N(2, 5, 3), N(4, 2, 4)), list(m.state_dict()), repr(m)",  # noqa: E501
    "(m := layer(nn.LSTM(3, 4, 2, proj_size=2, bidirectional=True)))(N(5, 2, 3)), list(m.state_dict()), repr(m)",
    "layer(nn.LSTM(3, 4, batch_first=True))(N(2, 5, 3), (N(1, 2, 4), N(1, 2, 4))), layer(nn.LSTM(3, 2))(N(5, 3))",
    "layer(nn.GRU(3, 4, num_layers=2, bidirectional=True))(N(5, 2, 3)), layer(nn.GRU(3, 2))(N(4, 3), N(1, 2))",
    "[list(x) for x in layer(nn.LSTM(3, 4, bidirectional=True))(rnn.pack_padded_sequence(N(5, 3, 3), [5, 3, 1]))]",
    "[list(x) for x in layer(nn.LSTM(3, 4, 2))(rnn.pack_padded_sequence(N(3, 5, 3), torch.tensor([2, 5, 2]), True, False),"  # noqa: E501
    " (N(2, 3, 4), N(2, 3, 4)))]",
    "layer(nn.GRU(3, 2, 2, bidirectional=True))(rnn.pack_sequence([N(2, 3), N(4, 3), N(1, 3)], False))[1]",
    "rnn.pad_packed_sequence(layer(nn.RNN(3, 2, bidirectional=True))(rnn.pack_sequence([N(2, 3), N(4, 3)], False))[0])",
    "(m := layer(nn.RNNCell(3, 4)))(N(2, 3)), m(N(3), N(4)), repr(m), repr(nn.RNNCell(3, 4, False, 'relu'))",
    "(m := layer(nn.LSTMCell(3, 4)))(N(2, 3)), m(N(2, 3), (N(2, 4), N(2, 4))), repr(m), list(m.state_dict())",
    "layer(nn.GRUCell(3, 4, bias=False))(N(2, 3), N(2, 4)), layer(nn.RNNCell(3, 2, nonlinearity='relu'))(N(2, 3))",
    "rnn.pad_sequence([N(2, 3), N(4, 3), N(1, 3)]), rnn.pad_sequence([I(9, 2), I(9, 4)], True, -1)",
    "rnn.pad_sequence([N(2), N(4)], True, 0.5, padding_side='left'), rnn.unpad_sequence(N(4, 2, 3).detach(), torch.tensor([2, 4]))",  # noqa: E501
    "list(rnn.pack_padded_sequence(N(3, 4, 2), [1, 4, 2], batch_first=True, enforce_sorted=False))",
    "rnn.pad_packed_sequence(rnn.pack_padded_sequence(N(3, 4, 2), [1, 4, 2], True, False), True, -1.5, 6)",
    "rnn.unpack_sequence(rnn.pack_sequence([N(2, 3), N(4, 3), N(1, 3)], enforce_sorted=False))",
    "rnn.invert_permutation(torch.tensor([2, 0, 1])), str(rnn.invert_permutation(None))",
]
RECORDED = read("recurrent")


@pytest.mark.parametrize("text", CALLS)
def test_numbers_and_gradients_are_pytorchs(text: str) -> None:
    same(torch, text, RECORDED[text])


@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
def test_compiled_and_transformed(name: str) -> None:
    layer = getattr(nn, name)(3, 2, bidirectional=True).double()
    x = torch.tensor(np.random.RandomState(0).normal(size=(4, 2, 3)))
    wg.check_grads(lambda v: layer(v)[0], x[:2, :1], order=2)
    packed = rnn.pack_padded_sequence(x, [4, 2])
    for fn in (
        lambda v: layer(v)[0],
        lambda v: layer(rnn.pack_padded_sequence(v, [4, 2]))[0].data,
        lambda v: rnn.pad_packed_sequence(layer(packed.holding(packed.data * v.sum()))[0])[0],
    ):
        run: Any = wg.jit(fn)
        for _ in range(6):
            np.testing.assert_allclose(run(x).detach().numpy(), fn(x).detach().numpy(), rtol=1e-9, atol=1e-12)
    each = wg.vmap(lambda v: layer(v)[0])(x.moveaxis(1, 0))
    np.testing.assert_allclose(each.moveaxis(0, 1).detach().numpy(), layer(x)[0].detach().numpy(), rtol=1e-9)


def test_training_compiled() -> None:
    layer = nn.LSTM(3, 4, 2, batch_first=True).double()
    x = torch.randn(2, 5, 3, dtype=torch.float64)
    found = []
    for compile in (False, True):
        model = copy.deepcopy(layer)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(model: Any = model, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            loss = (model(x)[0] ** 2).sum()
            loss.backward()
            optimizer.step()
            return loss

        run = torch.compile(step) if compile else step
        found.append([run().item() for _ in range(6)])
    np.testing.assert_allclose(found[1], found[0], rtol=1e-9)


def test_dropout_lies_between_layers() -> None:
    layer, x = nn.GRU(3, 4, 2, dropout=0.5), torch.randn(5, 2, 3)
    assert any((layer(x)[0] != layer(x)[0]).any() for _ in range(4))
    assert (layer(x)[1][0] == layer(x)[1][0]).all()
    layer.eval()
    assert (layer(x)[0] == layer(x)[0]).all()


def test_initial_values() -> None:
    for module in (nn.LSTM(4, 16), nn.GRUCell(4, 16)):
        for p in module.parameters():
            assert 0.15 < p.abs().max().item() <= 0.25
    layer = nn.LSTM(2, 3, 2, bias=False, proj_size=1)
    assert [len(w) for w in layer.all_weights] == [3, 3]
    layer.flatten_parameters()


def test_packed_sequences() -> None:
    packed = rnn.pack_padded_sequence(torch.ones(2, 3, 1), [3, 2], batch_first=True)
    assert packed.data.shape == (5, 1)
    assert packed.to(torch.float64).data.dtype == packed.double().data.dtype == torch.float64
    assert packed.cpu() is packed
    assert not packed.is_cuda
    assert (packed.is_pinned(), packed.pin_memory() is packed) == (False, True)
    assert rnn.PackedSequence((packed.data, packed.batch_sizes)).batch_sizes.tolist() == [2, 2, 1]
    _, _, order, back = packed
    assert (order, back) == (None, None)


def test_layers_of_wengert_become_ours() -> None:
    x = torch.randn(2, 5, 3)
    for inner in (wg.nn.LSTM(3, 4, 2, batch_first=True, bidirectional=True), wg.nn.RNN(3, 4, nonlinearity="relu")):
        before = inner(x)[0].detach().numpy()
        model = nn.ModuleList([inner, wg.nn.GRUCell(3, 4)])
        assert isinstance(model[0], nn.RNNBase)
        np.testing.assert_allclose(model[0](x)[0].detach().numpy(), before, rtol=1e-5, atol=1e-7)
        assert model[1](x[0]).shape == (5, 4)


def test_refusals() -> None:
    layer, x = nn.LSTM(3, 4), torch.ones(5, 2, 3)
    for wrong in (
        lambda: layer(torch.ones(5, 2, 4)),
        lambda: layer(torch.ones(0, 2, 3)),
        lambda: layer(x, torch.ones(1, 2, 4)),
        lambda: nn.GRU(3, 4)(x, torch.ones(1, 3, 4)),
        lambda: nn.LSTM(3, 0),
        lambda: nn.LSTM(3, 4, proj_size=4),
        lambda: nn.RNN(3, 4, dropout=2.0),
        lambda: nn.GRUCell(3, 4)(torch.ones(2, 4)),
        lambda: nn.LSTMCell(3, 4)(torch.ones(2, 3), torch.ones(2, 4)),
        lambda: rnn.pack_padded_sequence(x, [3, 5]),
        lambda: rnn.pack_padded_sequence(x, [5, 0]),
        lambda: rnn.pack_padded_sequence(x, [6, 1]),
        lambda: rnn.pack_padded_sequence(x, [5]),
        lambda: rnn.pad_packed_sequence(rnn.pack_padded_sequence(x, [5, 3]), total_length=4),
        lambda: rnn.pad_sequence([]),
    ):
        with pytest.raises((ShapeError, RangeError)):
            wrong()
    for wrong in (
        lambda: nn.RNN(3, 4, nonlinearity="gelu"),
        lambda: nn.RNNBase("GRU", 3, 4, proj_size=2),
        lambda: wg.jit(lambda n: rnn.pack_padded_sequence(x, n).data)(torch.tensor([5, 3])),
    ):
        with pytest.raises((GraphError, TraceError)):
            wrong()
