"""Adam with averages of 8 bits, beside Adam."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert import nn
from wengert.optim.adam8bit import dequantized, levels, quantized

RNG = np.random.default_rng(0)


def test_levels_are_dense_around_zero() -> None:
    for signed in (True, False):
        table = levels(signed)
        assert len(set(table.tolist())) == 256
        assert (np.diff(table) > 0).all()
        assert table[-1] == 1.0
        assert 0.0 in table
        assert (table.min() < -0.99) == signed
        # The seven decades of the paper.
        assert 1e-7 < table[table > 0].min() < 1e-6


@pytest.mark.parametrize("shape", [(4096,), (64, 65), (5, 7, 131), (1,)])
@pytest.mark.parametrize("signed", [True, False])
def test_an_element_becomes_the_nearest_level(shape: tuple[int, ...], signed: bool) -> None:
    x = RNG.standard_normal(shape).astype(np.float32) * 10.0 ** RNG.integers(-6, 3, shape)
    x = (x if signed else abs(x)).astype(np.float32)
    codes, scale = quantized(wg.tensor(x), signed)
    assert (codes.shape, codes.dtype, scale.shape) == (shape, np.uint8, (-(-x.size // 256),))
    found = dequantized(codes, scale, signed).numpy().ravel()
    for i in range(0, x.size, 256):
        part, table = x.ravel()[i : i + 256], levels(signed) * abs(x.ravel()[i : i + 256]).max()
        nearest = abs(part[:, None] - table).min(1)
        np.testing.assert_allclose(abs(found[i : i + 256] - part), nearest, atol=1e-6 * abs(part).max())


def test_zeros_and_what_is_not_finite() -> None:
    x = np.zeros(600, np.float32)
    x[300], x[599] = np.nan, np.inf
    found = dequantized(*quantized(wg.tensor(x), True), True).numpy()
    assert (found[:256] == 0).all()
    assert np.isnan(found[256:512]).all()  # a NaN shows in all of its block
    assert np.isinf(found[599])


def net() -> nn.Sequential:
    wg.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 128), nn.Tanh(), nn.Linear(128, 64))


X = wg.tensor(RNG.standard_normal((128, 64)).astype(np.float32))
Y = wg.tanh(X @ wg.tensor(RNG.standard_normal((64, 64)).astype(np.float32)) / 8)


def stepping(model: Any, opt: Any, compiled: bool) -> Callable[[], float]:
    def step(x: Any, y: Any) -> Any:
        opt.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        opt.step()
        return loss

    run = wg.jit(step) if compiled else step
    return lambda: float(run(X, Y))


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("kind", ["Adam", "AdamW"])
def test_it_follows_adam(kind: str, compiled: bool) -> None:
    losses = []
    for cls in (getattr(wg.optim, kind), getattr(wg.optim, f"{kind}8bit")):
        model = net()
        run = stepping(model, cls(model.parameters(), lr=3e-3, weight_decay=1e-2), compiled)
        losses.append([run() for _ in range(60)])
    full, small = losses
    assert small[0] == full[0]
    np.testing.assert_allclose(small, full, rtol=0.05)
    assert small[-1] < 0.3 * small[0]


def test_its_state_takes_a_quarter_and_small_parameters_are_exact() -> None:
    sizes, biases = [], []
    for cls in (wg.optim.Adam, wg.optim.Adam8bit):
        model = net()
        opt = cls(model.parameters(), lr=3e-3)
        stepping(model, opt, False)()
        weights = [s for p, s in opt.state.items() if p.size >= 4096]
        sizes.append(sum(b.nbytes for s in weights for b in s.values() if isinstance(b, np.ndarray)))
        biases.append([s["exp_avg"] for p, s in opt.state.items() if p.size < 4096])
    elements = 2 * 64 * 128
    assert sizes == [8 * elements, 2 * elements + 8 * elements // 256]
    assert all(a.tobytes() == b.tobytes() for a, b in zip(*biases, strict=True))


def test_compiled_steps_are_near_eager_ones() -> None:
    found = []
    for compiled in (False, True):
        model = net()
        opt = wg.optim.Adam8bit(model.parameters(), lr=3e-3)
        run = stepping(model, opt, compiled)
        losses = [run() for _ in range(12)]
        found.append((losses, opt))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-3)
    for opt in (found[0][1], found[1][1]):
        (first, *_) = opt.state.values()
        assert (first["exp_avg"].dtype, first["exp_avg_scale"].dtype, first["step"]) == (np.uint8, np.float32, 12)


@pytest.mark.parametrize("compiled", [False, True])
def test_state_dicts_go_on_bit_for_bit(compiled: bool) -> None:
    model = net()
    opt = wg.optim.Adam8bit(model.parameters(), lr=3e-3)
    run = stepping(model, opt, compiled)
    for _ in range(4):
        run()
    saved = copy.deepcopy((model.state_dict(), opt.state_dict()))
    expected = [run() for _ in range(4)]
    again = net()
    other = wg.optim.Adam8bit(again.parameters(), lr=1.0)
    again.load_state_dict(saved[0])
    other.load_state_dict(saved[1])
    go_on = stepping(again, other, compiled)
    assert [go_on() for _ in range(4)] == expected
    assert pickle.loads(pickle.dumps(other)).state_dict()["state"][0]["exp_avg"].dtype == np.uint8


def test_checkpoints_on_disk(tmp_path: Any) -> None:
    model = net()
    opt = wg.optim.Adam8bit(model.parameters(), lr=3e-3)
    run = stepping(model, opt, False)
    run()
    wg.train.save_checkpoint(tmp_path / "at", model=model, optimizer=opt)
    expected = run()
    again = net()
    other = wg.optim.Adam8bit(again.parameters(), lr=3e-3)
    wg.train.load_checkpoint(tmp_path / "at", model=again, optimizer=other)
    assert stepping(again, other, False)() == expected


def test_the_state_of_an_adam_is_taken() -> None:
    model = net()
    full = wg.optim.Adam(model.parameters(), lr=3e-3)
    run = stepping(model, full, False)
    for _ in range(5):
        run()
    small = wg.optim.Adam8bit(model.parameters(), lr=3e-3)
    saved = full.state_dict()
    for group in saved["param_groups"]:
        assert set(group) == set(small.state_dict()["param_groups"][0])
    small.load_state_dict(saved)
    p = model[0].weight
    near = dequantized(wg.tensor(small.state[p]["exp_avg"]), wg.tensor(small.state[p]["exp_avg_scale"]), True).numpy()
    assert abs(near - full.state[p]["exp_avg"]).max() < 0.02 * abs(near).max()
    most = wg.optim.Adam(model.parameters(), amsgrad=True)
    most.step()
    with pytest.raises(wg.StateError, match="max_exp_avg_sq, which Adam8bit does not keep"):
        small.load_state_dict(most.state_dict())
    with pytest.raises(wg.StateError, match="does not fit Adam"):
        full.load_state_dict(small.state_dict())


@pytest.mark.parametrize("compiled", [False, True])
def test_a_step_that_a_scaler_leaves_out_leaves_it_as_it_was(compiled: bool) -> None:
    model = net()
    opt = wg.optim.Adam8bit(model.parameters(), lr=3e-3)
    scaler = wg.train.GradScaler()

    def step(x: Any, y: Any) -> Any:
        opt.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        return loss

    run = wg.jit(step) if compiled else step
    run(X, Y)
    before = copy.deepcopy(opt.state_dict()["state"])
    run(X * float("inf"), Y)
    after = opt.state_dict()["state"]
    for n, entries in before.items():
        for name in entries.keys() - {"step"}:
            assert entries[name].numpy().tobytes() == after[n][name].numpy().tobytes(), name
    run(X, Y)
    assert any(
        s["exp_avg"].numpy().tobytes() != before[n]["exp_avg"].numpy().tobytes()
        for n, s in opt.state_dict()["state"].items()
    )


def test_half_precision_parameters_and_refusals() -> None:
    w = wg.ones((64, 64), dtype="float16", requires_grad=True)
    opt = wg.optim.Adam8bit([w], lr=0.25)
    (w * w).sum().backward()
    opt.step()
    assert w.dtype == np.float16
    assert w[0, 0].item() == 0.75
    with pytest.raises(wg.DTypeError, match="Adam8bit takes no complex parameters"):
        wg.optim.Adam8bit([wg.ones(3, dtype="complex64", requires_grad=True)])
    assert io.StringIO(repr(opt)).readline() == "Adam8bit (\n"
