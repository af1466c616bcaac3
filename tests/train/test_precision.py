"""`fit(precision=, scaler=)`: what it computes, what it leaves out, how it goes on, what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wengert as wg
import wengert.torch as torch
from wengert.core.errors import DTypeError, StateError
from wengert.train import Callback, GradScaler, Run, StopOnNaN, find_learning_rate, fit, metrics

mse = wg.nn.functional.mse_loss
X = np.random.default_rng(0).standard_normal((24, 3)).astype(np.float32)
Y = X[:, :1] - X[:, 1:2]
BATCHES = [(wg.asarray(X[i : i + 8]), wg.asarray(Y[i : i + 8])) for i in range(0, 24, 8)]


def parts(kind: Any = wg) -> Any:
    torch.manual_seed(0)
    nn = kind.nn
    model = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(0.2), nn.Linear(8, 1))
    return model, kind.optim.AdamW(model.parameters(), lr=0.02)


def trained(epochs: int = 1, *, model: Any = None, optimizer: Any = None, data: Any = BATCHES, **options: Any) -> Any:
    if model is None:
        model, optimizer = parts(options.pop("kind", wg))
    history = fit(model, optimizer, mse, data, epochs=epochs, **{"progress": False, "compile": False, **options})
    return history, [np.array(value.detach().numpy()) for value in model.state_dict().values()]


def same(one: Any, other: Any) -> None:
    for a, b in zip((one[0].steps, one[0].epochs), (other[0].steps, other[0].epochs), strict=True):
        assert list(a) == list(b)
        for name in a:
            np.testing.assert_array_equal(a[name], b[name], err_msg=name)
    for a, b in zip(one[1], other[1], strict=True):
        np.testing.assert_array_equal(a, b)


class Looking(Callback):
    """One that sees gradients, so that they and the update are two programs."""

    def __init__(self) -> None:
        self.seen: list[float] = []

    def on_gradients(self, run: Run) -> None:
        self.seen.append(max(float(abs(p.grad).max()) for p in run.parameters))


@pytest.mark.parametrize("clip", [None, 0.5])
@pytest.mark.parametrize("rules", ["wengert", "torch"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_it_is_the_loop_that_one_would_write(dtype: str, rules: str, clip: float | None) -> None:
    def block() -> Any:
        return wg.autocast(dtype) if rules == "wengert" else torch.autocast("cpu", getattr(torch, dtype))

    kind = wg if rules == "wengert" else torch
    model, optimizer = parts(kind)
    scaler = GradScaler(2.0**19, growth_interval=2, enabled=dtype == "float16")
    losses = []
    for x, y in BATCHES * 3:
        optimizer.zero_grad()
        with block():
            loss = mse(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        if clip is not None:
            wg.nn.clip_grad_norm_(model.parameters(), clip)
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    given = GradScaler(2.0**19, growth_interval=2) if dtype == "float16" else None
    found, weights = trained(3, kind=kind, precision=block(), scaler=given, clip_norm=clip)
    assert found.steps["loss"].tolist() == losses
    for value, expected in zip(weights, model.state_dict().values(), strict=True):
        np.testing.assert_array_equal(value, expected.detach().numpy())
    assert ("skipped" in found.steps) == (dtype == "float16")
    if given is not None:
        assert given.get_scale() == scaler.get_scale()
        assert 0 < found.steps["skipped"].sum() < 9


NAMES = {"bf16-mixed": "bfloat16", "bf16": "bfloat16", "16-mixed": "float16", "fp16": "float16"}


@pytest.mark.parametrize("name", [*NAMES, "32-true", "no", None])
def test_the_names_of_precisions(name: str | None) -> None:
    seen = []

    def forward(model: Any, batch: Any) -> Any:
        output = model(batch[0])
        seen.append(output.dtype.name)
        return output, batch[1]

    found, weights = trained(precision=name, forward=forward, validation=BATCHES, metrics=[metrics.R2()])
    assert set(seen) == {NAMES.get(str(name), "float32")}
    assert all(value.dtype == np.float32 for value in weights if value.dtype.kind == "f")
    assert ("skipped" in found.steps) == (NAMES.get(str(name)) == "float16")


@pytest.mark.parametrize("dtype", [torch.bfloat16, np.dtype("float16")])
def test_a_dtype_is_its_name(dtype: Any) -> None:
    same(trained(precision=dtype), trained(precision=dtype.name))


@pytest.mark.parametrize("how", ["whole", "accumulate", "clip", "looked at"])
@pytest.mark.parametrize("precision", ["bf16-mixed", "16-mixed"])
def test_compiled_as_eager_and_resumed_bit_for_bit(precision: str, how: str, tmp_path: Path) -> None:
    def run(epochs: int, folder: Path | None, compile: bool = True) -> Any:
        options: dict[str, Any] = {"accumulate": {"accumulate": 2}, "clip": {"clip_norm": 0.5}}.get(how, {})
        if how == "looked at":
            options["callbacks"] = [Looking()]
        scaler = GradScaler(2.0**18, growth_interval=2) if precision == "16-mixed" else None
        kinds = {"precision": precision, "scaler": scaler, "compile": compile}
        found = trained(epochs, validation=BATCHES, metrics=[metrics.R2()], checkpoint=folder, **kinds, **options)
        return *found, None if scaler is None else scaler.state_dict()

    whole = run(3, None)
    assert run(1, tmp_path)[0]["loss"][0] == whole[0]["loss"][0]
    again = run(3, tmp_path)
    same(whole, again)
    assert whole[2] == again[2]
    eager = run(3, None, False)
    # The programs round at other places: to 8 bits or 11.
    np.testing.assert_allclose(whole[0].steps["loss"], eager[0].steps["loss"], rtol=0.05, atol=0.02)
    assert whole[2] == eager[2]


@pytest.mark.parametrize("compile", [False, True])
def test_an_overflow_leaves_the_weights_as_they_are(compile: bool) -> None:
    looking = Looking()
    model = wg.nn.Linear(3, 1)
    before = model.weight.detach().numpy().copy()
    optimizer = wg.optim.Adam(model.parameters(), lr=0.1)
    scaler = GradScaler(2.0**30)
    options = {"precision": "16-mixed", "scaler": scaler, "clip_norm": 1.0, "compile": compile}
    found, weights = trained(model=model, optimizer=optimizer, callbacks=[looking], **options)
    np.testing.assert_array_equal(weights[0], before)
    assert found.steps["skipped"].tolist() == [1.0, 1.0, 1.0]
    assert found["skipped"].tolist() == [1.0]
    assert np.isnan(found["grad_norm"][0])
    assert scaler.get_scale() == 2.0**27
    # Then steps are made; what callbacks see is unscaled, and the norm is that of the steps that were made.
    found, weights = trained(12, model=model, optimizer=optimizer, callbacks=[looking], **options)
    assert found.steps["skipped"][-1] == 0.0
    assert not np.array_equal(weights[0], before)
    assert looking.seen[-1] < 10.0
    first = found.epochs["skipped"].tolist().index(0.0)
    norms = found.steps["grad_norm"][first * 3 : first * 3 + 3]
    assert found["grad_norm"][first] == pytest.approx(norms.mean())
    assert np.isfinite(found["loss"]).all()


def test_stop_on_nan_leaves_overflows_to_the_scaler() -> None:
    found, _ = trained(2, precision="16-mixed", scaler=GradScaler(2.0**18), callbacks=[StopOnNaN()])
    assert found.stopped is None
    assert found.steps["skipped"][0] == 1.0
    data = [*BATCHES, (BATCHES[0][0] * np.nan, BATCHES[0][1])]
    scaler = GradScaler(8.0)
    with pytest.warns(RuntimeWarning, match="the loss of step 4 is not finite"):
        found, weights = trained(2, data=data, precision="16-mixed", scaler=scaler, callbacks=[StopOnNaN()])
    assert found.steps.rows == 3
    assert all(np.isfinite(value).all() for value in weights[:2])
    # The scaler can be used again.
    trained(1, precision="16-mixed", scaler=scaler)


def test_evaluation_and_the_learning_rate_test() -> None:
    model, optimizer = parts()
    whole = wg.train.evaluate(model, mse, BATCHES, compile=False)
    half = wg.train.evaluate(model, mse, BATCHES, precision="bf16-mixed", compile=False)
    assert half["loss"] != whole["loss"]
    assert half["loss"] == pytest.approx(whole["loss"], rel=0.05)
    scaler = GradScaler(2.0**20)
    state = scaler.state_dict()
    options = {"precision": "16-mixed", "scaler": scaler, "steps": 12, "compile": False}
    tested = find_learning_rate(model, optimizer, mse, BATCHES, **options)
    assert scaler.state_dict() == state
    assert np.isfinite(tested.losses).all()


def test_another_precision_does_not_go_on(tmp_path: Path) -> None:
    trained(1, checkpoint=tmp_path, precision="16-mixed")
    with pytest.raises(StateError, match="a run in float16 with a scaler goes on in float32"):
        trained(2, checkpoint=tmp_path)
    with pytest.raises(StateError, match="a run in float16 with a scaler goes on in bfloat16"):
        trained(2, checkpoint=tmp_path, precision="bf16")
    trained(1, checkpoint=tmp_path / "whole")
    with pytest.raises(StateError, match="a run in float32 goes on in float16 with a scaler"):
        trained(2, checkpoint=tmp_path / "whole", precision="16-mixed")


def test_what_is_refused() -> None:
    with pytest.raises(
        DTypeError, match=r"precision='bf16-true', parameters in bfloat16[\s\S]*model.to\(\"bfloat16\"\)"
    ):
        trained(precision="bf16-true")
    with pytest.raises(DTypeError, match=r"precision='half'[\s\S]*'bf16-mixed'"):
        trained(precision="half")
    with pytest.raises(DTypeError, match="a scaler that is a int"):
        trained(precision="16-mixed", scaler=8)  # type: ignore[arg-type]
