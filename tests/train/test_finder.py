"""The test of learning rates: what it suggests, and that it leaves nothing behind."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest

import wengert as wg
import wengert.torch as torch
from wengert.core.errors import DataError, RangeError
from wengert.torch.utils.data import DataLoader, TensorDataset
from wengert.train import find_learning_rate

mse = wg.nn.functional.mse_loss
X = np.random.default_rng(0).standard_normal((40, 3)).astype(np.float32)
Y = X[:, :1] - X[:, 1:2]


def everything(model: Any, optimizer: Any) -> Any:
    """All that a test of rates must put back, as bytes."""
    values = {name: value.detach().numpy().tobytes() for name, value in model.state_dict().items()}
    grads = [None if p.grad is None else p.grad.numpy().tobytes() for p in model.parameters()]
    state = str(optimizer.state_dict())
    modes = [m.training for m in model.modules()]
    return (
        values,
        grads,
        state,
        modes,
        wg.random.get_rng_state().tolist(),
        random.getstate(),
        np.random.get_state()[1].tolist(),  # noqa: NPY002
    )


@pytest.mark.parametrize("kind", [wg, torch], ids=["wengert", "torch"])
@pytest.mark.parametrize("compile", [True, False])
@pytest.mark.parametrize("is_trained", [True, False])
def test_everything_is_put_back(kind: Any, compile: bool, is_trained: bool) -> None:
    torch.manual_seed(0)
    nn = kind.nn
    model = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 1))
    model[1].eval()
    optimizer = kind.optim.AdamW(model.parameters(), lr=0.02)
    data = DataLoader(TensorDataset(torch.from_numpy(X), torch.from_numpy(Y)), 8, shuffle=True)
    if is_trained:
        for x, y in data:
            loss = mse(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    before = everything(model, optimizer)
    found = find_learning_rate(model, optimizer, mse, data, steps=30, compile=compile)
    assert everything(model, optimizer) == before
    assert len(found.rates) > 10
    assert "AdamW" not in str(found)
    # What is computed next is what would have been computed.
    one = mse(model(wg.asarray(X)), wg.asarray(Y)).item()
    optimizer.step()
    assert math.isfinite(one)


def test_an_error_leaves_nothing_behind() -> None:
    model = wg.nn.Sequential(wg.nn.Linear(3, 2), wg.nn.Dropout(0.5), wg.nn.Linear(2, 1))
    optimizer = wg.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    before = everything(model, optimizer)
    calls = []

    def loss(output: Any, target: Any) -> Any:
        calls.append(1)
        if len(calls) == 5:
            raise ZeroDivisionError
        return mse(output, target)

    with pytest.raises(ZeroDivisionError):
        find_learning_rate(model, optimizer, loss, [(X, Y)], compile=False)
    assert everything(model, optimizer) == before


def test_the_suggestion_is_below_where_it_diverges() -> None:
    """Gradient descent on a quadratic diverges beyond 2 / curvature: here 2 / 20."""
    w = wg.ones(1).requires_grad_()
    found = find_learning_rate(
        lambda x: x * w, wg.optim.SGD([w]), lambda o, t: 10 * (o * o).sum(), [(wg.ones(1), wg.ones(1))], steps=200
    )
    assert found.suggestion is not None
    assert 1e-3 < found.suggestion < 0.1
    assert found.rates[-1] < 10
    assert found.rates[0] == pytest.approx(1e-7)
    np.testing.assert_allclose(found.rates[1:] / found.rates[:-1], 1e8 ** (1 / 199))
    assert w.item() == 1.0
    assert "suggestion" in found.chart()
    assert "<svg" in found._repr_svg_()
    assert str(found).startswith("learning rate 0.0")


def test_smoothing_is_corrected_for_its_beginning() -> None:
    w = wg.ones(1).requires_grad_()
    found = find_learning_rate(
        lambda x: x * w,
        wg.optim.SGD([w]),
        lambda o, t: o.sum(),
        [(wg.ones(1), 0.0)] * 3,
        smallest=1e-9,
        largest=1e-8,
        steps=5,
    )
    np.testing.assert_allclose(found.smoothed, 1, atol=1e-6)
    # A loss that never falls has no best rate.
    flat = find_learning_rate(
        lambda x: x * w, wg.optim.SGD([w]), lambda o, t: o.sum() * 0 + 1, [(wg.ones(1), 0.0)], steps=9
    )
    assert flat.suggestion is None
    assert str(flat).startswith("no rate of 9")
    assert "<svg" in flat.chart()


def test_what_is_refused() -> None:
    model = wg.nn.Linear(3, 1)
    optimizer = wg.optim.SGD(model.parameters())
    for wrong in (
        {"smallest": 0.0},
        {"smallest": 1.0, "largest": 0.1},
        {"steps": 1},
        {"smoothing": 1.0},
        {"diverged": 1.0},
    ):
        with pytest.raises(RangeError, match=r"test_finder\.py"):
            find_learning_rate(model, optimizer, mse, [(X, Y)], **wrong)
    with pytest.raises(DataError, match="the first loss is nan"):
        find_learning_rate(model, optimizer, lambda o, t: mse(o, t) * math.nan, [(X, Y)], compile=False)
    with pytest.raises(DataError, match="data without batches"):
        find_learning_rate(model, optimizer, mse, [])
