"""`wg.train.fit`: what it computes, with which models, data and losses, and what it refuses."""

from __future__ import annotations

import signal
import threading
import time
from collections import namedtuple
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import wengert as wg
import wengert.torch as torch
from wengert.core.errors import DataError, DTypeError, GraphError, RangeError, ShapeError
from wengert.torch.utils.data import DataLoader, TensorDataset
from wengert.train import Callback, Run, fit, metrics

mse = wg.nn.functional.mse_loss
RNG = np.random.default_rng(0)
X = RNG.standard_normal((50, 3)).astype(np.float32)
Y = (X @ np.array([[1.0], [-2.0], [0.5]]) + 0.1 * RNG.standard_normal((50, 1))).astype(np.float32)
BATCHES = [(wg.asarray(X[i : i + 8]), wg.asarray(Y[i : i + 8])) for i in range(0, 50, 8)]


def model_of(kind: Any = wg.nn) -> Any:
    wg.manual_seed(1)
    return kind.Sequential(kind.Linear(3, 4), kind.Tanh(), kind.Linear(4, 1))


def quietly(model: Any, optimizer: Any, loss: Any, data: Any, **options: Any) -> wg.train.History:
    # Compiling takes most of the time: it is asked for where it is what is tested.
    return fit(model, optimizer, loss, data, **{"progress": False, "compile": False, **options})


def weights(model: Any) -> dict[str, np.ndarray]:
    return {name: np.array(value.detach().numpy()) for name, value in model.state_dict().items()}


def by_hand(epochs: int, clip: float | None = None, size: int = 1) -> tuple[dict[str, np.ndarray], list[float]]:
    """The same training as a plain loop: the reference."""
    model = model_of()
    optimizer = wg.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for _ in range(epochs):
        for start in range(0, len(BATCHES), size):
            x = wg.concat([x for x, _ in BATCHES[start : start + size]])
            y = wg.concat([y for _, y in BATCHES[start : start + size]])
            loss = mse(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            if clip is not None:
                wg.nn.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            losses.append(loss.item())
    return weights(model), losses


@pytest.mark.parametrize("compile", [True, False])
@pytest.mark.parametrize(("clip", "size"), [(None, 1), (0.5, 1), (None, 3), (0.5, 3)])
def test_it_is_the_loop_that_one_would_write(compile: bool, clip: float | None, size: int) -> None:
    expected, losses = by_hand(3, clip, size)
    model = model_of()
    optimizer = wg.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    found = quietly(model, optimizer, mse, BATCHES, epochs=3, clip_norm=clip, accumulate=size, compile=compile)
    np.testing.assert_allclose(found.steps["loss"], losses, rtol=1e-5)
    for name, value in weights(model).items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-4, atol=1e-6)
    assert ("grad_norm" in found.steps) == (clip is not None)
    if compile is False and size == 1:
        assert found.steps["loss"].tolist() == losses


def of_arrays() -> Any:
    return X, Y


def loader_of(workers: int) -> Callable[[], Any]:
    data = TensorDataset(torch.from_numpy(X), torch.from_numpy(Y))
    return lambda: DataLoader(data, 8, num_workers=workers)


DATA: dict[str, Callable[[], Any]] = {
    "a list": lambda: BATCHES,
    "arrays": of_arrays,
    "a function of nothing": lambda: lambda: iter(BATCHES),
    "a function of the epoch": lambda: lambda epoch: iter(BATCHES),
    "arrays in a list": lambda: [(np.asarray(x), np.asarray(y)) for x, y in BATCHES],
    "a loader": loader_of(0),
    "a loader with workers": loader_of(2),
}


@pytest.mark.parametrize("kind", [wg, torch], ids=["wengert", "torch"])
@pytest.mark.parametrize("name", DATA)
def test_data_of_all_kinds(kind: Any, name: str) -> None:
    model = model_of(kind.nn)
    optimizer = kind.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    sizes = {"batch_size": 8, "shuffle": False} if name == "arrays" else {}
    seen: set[type] = set()

    def loss(output: Any, target: Any) -> Any:
        seen.add(type(output))
        return mse(output, target)

    found = quietly(model, optimizer, loss, DATA[name](), epochs=3, compile=True, **sizes)
    np.testing.assert_allclose(found.steps["loss"], by_hand(3)[1], rtol=1e-5)
    # What a loader gives is PyTorch's, and so is what becomes of it.
    assert {issubclass(t, torch.Tensor) for t in seen} == {kind is torch or "loader" in name}
    assert found["epoch"].tolist() == [1, 2, 3]
    assert found.steps["epoch"].tolist() == [1] * 7 + [2] * 7 + [3] * 7


def test_the_loss_of_an_epoch_is_the_mean_over_rows() -> None:
    model = model_of()
    frozen = wg.optim.SGD(model.parameters(), lr=0.0)
    found = quietly(model, frozen, mse, BATCHES, validation=(X, Y), metrics=[metrics.MeanSquaredError()])
    whole = mse(model(wg.asarray(X)), wg.asarray(Y)).item()
    assert len({x.shape for x, _ in BATCHES}) == 2
    for name in ("loss", "val_loss", "mean_squared_error", "val_mean_squared_error"):
        assert found[name][0] == pytest.approx(whole, rel=1e-6), name


def test_arrays_come_in_an_order_of_their_seed() -> None:
    def order(seed: int, epochs: int = 2) -> list[list[float]]:
        wg.manual_seed(seed)
        seen: list[list[float]] = []

        def forward(model: Any, batch: Any) -> Any:
            seen.append(batch[0][:, 0].tolist())
            return model(batch[0]), batch[1]

        model = model_of()
        optimizer = wg.optim.SGD(model.parameters(), lr=0.1)
        wg.manual_seed(seed)
        quietly(model, optimizer, mse, (X, Y), forward=forward, epochs=epochs, compile=False)
        return seen

    first = order(0)
    assert first == order(0) != order(1)
    assert first[:2] != first[2:]
    assert sorted(first[0] + first[1]) == sorted(X[:, 0].tolist())


def test_modes_are_those_of_before() -> None:
    model = wg.nn.Sequential(wg.nn.Linear(3, 4), wg.nn.BatchNorm1d(4), wg.nn.Dropout(0.5), wg.nn.Linear(4, 1))
    model[1].eval()  # a frozen norm stays frozen
    seen = []

    class Modes(Callback):
        def on_step_end(self, run: Run) -> None:
            seen.append([m.training for m in model])

        def on_epoch_end(self, run: Run) -> None:
            seen.append([m.training for m in model])

    before = model[1].running_mean.tolist()
    optimizer = wg.optim.SGD(model.parameters(), lr=0.1)
    found = quietly(model, optimizer, mse, BATCHES[:1], validation=BATCHES, callbacks=[Modes()], epochs=2)
    assert seen == [[True, False, True, True]] * 4
    assert model[1].running_mean.tolist() == before
    # Evaluation is without dropout: twice the same.
    again = wg.train.evaluate(model, mse, BATCHES, compile=False)
    assert again["loss"] == found["val_loss"][-1]
    assert model.training
    model.eval()
    quietly(model, optimizer, mse, BATCHES[:1], callbacks=[Modes()])
    assert seen[-1] == [True] * 4
    assert not any(m.training for m in model.modules())


def test_frozen_parameters_and_parameters_without_gradient() -> None:
    model = model_of()
    model[0].requires_grad_(False)
    before = weights(model)
    quietly(model, wg.optim.Adam(model.parameters(), lr=0.1), mse, BATCHES, clip_norm=1.0, compile=True)
    after = weights(model)
    assert {name for name in after if (after[name] != before[name]).any()} == {"2.weight", "2.bias"}

    class Thawing(Callback):
        def on_epoch_start(self, run: Run) -> None:
            model[0].requires_grad_(run.epoch > 0)

    quietly(
        model, wg.optim.Adam(model.parameters(), lr=0.1), mse, BATCHES, epochs=2, callbacks=[Thawing()], compile=True
    )
    assert (weights(model)["0.weight"] != before["0.weight"]).any()


@pytest.mark.parametrize(
    "target", [np.array([0, 1, 1, 0]), np.array([0, 1, 1, 0], np.uint8), np.array([True, False] * 2)]
)
def test_targets_that_are_no_floats(target: np.ndarray) -> None:
    model = wg.nn.Linear(3, 2)

    def loss(output: Any, found: Any) -> Any:
        assert found.dtype == target.dtype
        return wg.nn.functional.cross_entropy(output, found.astype(wg.int64))

    optimizer = wg.optim.SGD(model.parameters(), lr=0.5)
    history = quietly(model, optimizer, loss, (X[:4], target), epochs=3, metrics=[metrics.Accuracy()], compile=True)
    assert history["loss"][-1] < history["loss"][0]


Parts = namedtuple("Parts", "penalty loss")


@pytest.mark.parametrize(
    "shaped",
    [
        lambda loss, more: {"loss": loss, "penalty": more},
        lambda loss, more: {"penalty": more, "loss": loss},
        lambda loss, more: (loss, {"penalty": more}),
        lambda loss, more: Parts(more, loss),
        lambda loss, more: {"loss": loss, "penalty": 2.5},
    ],
)
@pytest.mark.parametrize(("size", "compile"), [(1, False), (2, False), (1, True)])
def test_losses_of_several_parts(shaped: Any, size: int, compile: bool) -> None:
    model = model_of()
    optimizer = wg.optim.SGD(model.parameters(), lr=0.1)
    made = lambda o, t: shaped(mse(o, t), wg.asarray(2.5))
    found = quietly(model, optimizer, made, BATCHES, validation=BATCHES, accumulate=size, compile=compile)
    assert found["penalty"].tolist() == found["val_penalty"].tolist() == [2.5]
    assert set(found.steps) == {"step", "epoch", "lr", "loss", "penalty"}
    assert found.steps["loss"][0] != 2.5


@pytest.mark.parametrize("kind", [wg, torch], ids=["wengert", "torch"])
def test_schedules(kind: Any) -> None:
    def rates(make: Callable[[Any], Any], **options: Any) -> list[float]:
        model = model_of(kind.nn)
        optimizer = kind.optim.SGD(model.parameters(), lr=0.1)
        found = quietly(model, optimizer, mse, BATCHES[:2], schedule=make(optimizer), epochs=2, **options)
        return [round(rate, 6) for rate in found.steps["lr"].tolist()]

    step_lr = kind.optim.lr_scheduler.StepLR
    assert rates(lambda o: step_lr(o, 1, 0.5)) == [0.1, 0.1, 0.05, 0.05]
    assert rates(lambda o: step_lr(o, 1, 0.5), schedule_by="step") == [0.1, 0.05, 0.025, 0.0125]
    assert rates(lambda o: lambda step: 0.01 * (step + 1)) == [0.01, 0.02, 0.03, 0.04]
    plateau = kind.optim.lr_scheduler.ReduceLROnPlateau
    assert rates(lambda o: plateau(o, factor=0.5, patience=0)) == [0.1] * 4
    assert rates(lambda o: plateau(o, factor=0.5, patience=0, threshold=1e9)) == [0.1, 0.1, 0.05, 0.05]


def test_a_model_that_is_a_function() -> None:
    w = wg.zeros((3, 1)).requires_grad_()
    found = quietly(lambda x: x @ w, wg.optim.SGD([w], lr=0.1), mse, BATCHES, epochs=10, validation=BATCHES)
    assert found["val_loss"][-1] < 0.1


def test_metrics_by_name_and_functions() -> None:
    def spread(output: Any, target: Any) -> Any:
        return (output - target).max()

    model = model_of()
    named = {"worst": spread, "error": metrics.MeanAbsoluteError()}
    found = quietly(
        model, wg.optim.SGD(model.parameters()), mse, BATCHES, validation=BATCHES, metrics=named, compile=True
    )
    assert {"worst", "error", "val_worst", "val_error"} <= set(found.epochs)
    again = quietly(model, wg.optim.SGD(model.parameters()), mse, BATCHES, metrics=spread)
    assert "spread" in again.epochs


def test_histories(tmp_path: Any) -> None:
    model = wg.nn.Linear(3, 2)
    labels = (Y[:, 0] > 0).astype(np.int64)
    found = quietly(
        model,
        wg.optim.SGD(model.parameters(), lr=0.1),
        wg.nn.functional.cross_entropy,
        (X, labels),
        epochs=3,
        validation=(X, labels),
        metrics=[metrics.ConfusionMatrix()],
    )
    assert found["val_confusion_matrix"].shape == (3, 2, 2)
    assert found["val_confusion_matrix"].sum((1, 2)).tolist() == [50] * 3
    text = found.to_csv(tmp_path / "epochs.csv")
    assert (tmp_path / "epochs.csv").read_text() == text
    assert text.splitlines()[0] == "epoch,step,lr,loss,confusion_matrix,val_loss,val_confusion_matrix"
    assert found.to_csv(by="step").count("\n") == 7
    assert ">val_loss<" in found.chart()
    assert ">lr<" in found.chart("lr", by="step", log_y=True)
    assert "3 epochs, 6 steps" in repr(found)
    for name in ("none", "confusion_matrix"):
        with pytest.raises(wg.RangeError, match="no column of numbers"):
            found.chart(name)
    with pytest.raises(KeyError, match="no column 'x'; there are: epoch"):
        found["x"]
    empty = quietly(model, wg.optim.SGD(model.parameters()), mse, BATCHES, epochs=0)
    assert empty.epochs.rows == 0
    assert "<svg" in empty._repr_svg_()


class Holed(Callback):
    """What is logged in some rows only."""

    def on_step_end(self, run: Run) -> None:
        if run.step == 2:
            run.log(extra=7.0)

    def on_epoch_end(self, run: Run) -> None:
        if run.epoch == 2:
            run.log(late=1.0)


def test_what_a_row_lacks_is_nan() -> None:
    model = model_of()
    found = quietly(model, wg.optim.SGD(model.parameters()), mse, BATCHES[:3], epochs=2, callbacks=[Holed()])
    np.testing.assert_array_equal(found.steps["extra"], [np.nan, 7, np.nan, np.nan, np.nan, np.nan])
    np.testing.assert_array_equal(found["late"], [np.nan, 1])
    assert found.to_csv().splitlines()[1].endswith(",")


class Pairs:
    def __len__(self) -> int:
        return 3

    def __getitem__(self, i: int) -> Any:
        return X[i], Y[i]


def once() -> Iterator[Any]:
    yield from BATCHES


WRONG: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "no data": ({"data": []}, DataError, "data without batches"),
    "arrays without rows": ({"data": (X[:0], Y[:0])}, DataError, "data without batches"),
    "a loader without samples": ({"data": DataLoader([], 4)}, DataError, "data without batches"),
    "validation without batches": ({"validation": []}, DataError, "data without batches"),
    "arrays of two lengths": ({"data": (X, Y[:3])}, ShapeError, "arrays of different lengths"),
    "one array": ({"data": X}, DTypeError, "data is a ndarray"),
    "a dataset": ({"data": Pairs()}, DTypeError, "data is a Pairs, which has no batches"),
    "None": ({"data": None}, DTypeError, "data is a NoneType, which has no batches"),
    "batches without a target": (
        {"data": [wg.asarray(X)]},
        DTypeError,
        "a batch is a .*Tensor, not inputs and a target",
    ),
    "batches that are dicts": ({"data": [{"x": X}]}, DTypeError, "a batch is a dict of 1, not inputs and a target"),
    "a size for batches": ({"batch_size": 3}, DataError, "batch_size=3 for data that is a list"),
    "a loss of many": ({"loss": lambda o, t: (o - t) ** 2}, ShapeError, r"'loss' of shape \(8, 1\), no scalar"),
    "a loss that is a number": ({"loss": lambda o, t: 1.0}, DTypeError, "a loss that is a float"),
    "a loss of integers": ({"loss": lambda o, t: t.sum().astype(wg.int64)}, DTypeError, "a loss of dtype int64"),
    "a dict without loss": ({"loss": lambda o, t: {"mse": mse(o, t)}}, DTypeError, "gave a dict of 'mse'"),
    "a part of many": ({"loss": lambda o, t: (mse(o, t), {"e": o})}, ShapeError, r"'e' of shape \(8, 1\)"),
    "a forward of one": ({"forward": lambda m, b: m(b[0])}, DTypeError, r"forward\(model, batch\) gave a Tensor"),
    "epochs below 0": ({"epochs": -1}, RangeError, "epochs=-1"),
    "accumulating nothing": ({"accumulate": 0}, RangeError, "accumulate=0"),
    "a norm below 0": ({"clip_norm": -1.0}, RangeError, "clip_norm=-1.0"),
    "a callback that is a function": ({"callbacks": [print]}, DTypeError, "a callback that is a builtin"),
    "a callback that is a class": ({"callbacks": [Holed]}, DTypeError, "a callback that is a type"),
    "a metric that is a class": ({"metrics": [metrics.Accuracy]}, DTypeError, "is no metric"),
    "a schedule of nothing": ({"schedule": 0.1}, DTypeError, "a schedule that is a float"),
    "a schedule by batches": ({"schedule_by": "batch"}, DataError, "schedule_by='batch'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_refused(name: str) -> None:
    given, kind, text = WRONG[name]
    model = model_of()
    with pytest.raises(kind, match=text) as caught:
        quietly(model, wg.optim.SGD(model.parameters()), **{"loss": mse, "data": BATCHES, **given})
    assert "test_fit.py:" in str(caught.value).splitlines()[0]


def test_arguments_in_another_order_are_named() -> None:
    model = model_of()
    optimizer = wg.optim.SGD(model.parameters())
    with pytest.raises(DTypeError, match=r"an optimizer that is a function .*test_fit.*\nThe order is fit\(model, opt"):
        fit(model, mse, optimizer, BATCHES)
    with pytest.raises(DTypeError, match=r"a loss that is a list, no function .*test_fit.*\nThe order is fit\(model, "):
        fit(model, optimizer, BATCHES, mse)


def test_an_iterator_is_used_up() -> None:
    model = model_of()
    with pytest.raises(DataError, match=r"data has no batches in epoch 2 .*\n.*which can be used once"):
        quietly(model, wg.optim.SGD(model.parameters()), mse, once(), epochs=2)
    assert quietly(model, wg.optim.SGD(model.parameters()), mse, once()).steps.rows == 7


def test_lbfgs_has_a_loop_of_its_own() -> None:
    model = model_of()
    with pytest.raises(GraphError, match="fit with LBFGS"):
        quietly(model, wg.optim.LBFGS(model.parameters()), mse, BATCHES)


class Noting(Callback):
    def __init__(self, name: str, notes: list[str], fails_in: str = "") -> None:
        self.name, self.notes, self.fails_in = name, notes, fails_in

    def _note(self, hook: str) -> None:
        self.notes.append(f"{self.name}.{hook}")
        if hook == self.fails_in:
            raise ZeroDivisionError(f"in {hook}")

    def on_start(self, run: Run) -> None:
        self._note("start")

    def on_step_end(self, run: Run) -> None:
        self._note("step")

    def on_epoch_end(self, run: Run) -> None:
        self._note("epoch")

    def on_end(self, run: Run) -> None:
        self._note(f"end {type(run.error).__name__}")
        if self.fails_in == "end":
            raise KeyError("in end")


@pytest.mark.parametrize("hook", ["start", "step", "epoch"])
def test_an_exception_in_a_callback_ends_the_run_and_all_callbacks(hook: str) -> None:
    notes: list[str] = []
    model = model_of()
    model.eval()
    looking = [Noting("a", notes), Noting("b", notes, hook), Noting("c", notes, "end")]
    with pytest.raises(KeyError, match="in end") as caught:
        quietly(model, wg.optim.SGD(model.parameters()), mse, BATCHES[:1], callbacks=looking)
    assert isinstance(caught.value.__context__, ZeroDivisionError)
    assert notes[-3:] == ["c.end ZeroDivisionError", "b.end ZeroDivisionError", "a.end ZeroDivisionError"]
    assert notes.count(f"c.{hook}") == 0
    assert not model.training
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_hooks_come_in_order() -> None:
    notes: list[str] = []

    class Every(Callback):
        def __getattribute__(self, name: str) -> Any:
            if name.startswith("on_"):
                notes.append(name)
            return super().__getattribute__(name)

        def needs_gradients(self, run: Run) -> bool:
            return run.step == 1

    model = model_of()
    quietly(model, wg.optim.SGD(model.parameters()), mse, BATCHES[:2], validation=BATCHES, callbacks=[Every()])
    whole = ["on_step_start", "on_step_end", "on_step_start", "on_gradients", "on_step_end"]
    around = ["on_validation_start", "on_validation_end", "on_epoch_end", "on_end"]
    # The end's own hook is looked up before the first is called.
    assert [n for n in notes if n != "on_end"] == ["on_resume", "on_start", "on_epoch_start", *whole, *around[:-1]]


class Interrupting(Callback):
    def __init__(self, at: int, hook: str = "on_step_start", times: int = 1) -> None:
        self.at, self.hook, self.times = at, hook, times

    def on_step_start(self, run: Run) -> None:
        if self.hook == "on_step_start" and run.step == self.at:
            for _ in range(self.times):
                signal.raise_signal(signal.SIGINT)

    def on_validation_start(self, run: Run) -> None:
        if self.hook == "on_validation_start":
            signal.raise_signal(signal.SIGINT)


def test_ctrl_c_ends_after_the_step() -> None:
    model = model_of()
    found = quietly(model, wg.optim.SGD(model.parameters()), mse, BATCHES, epochs=3, callbacks=[Interrupting(9)])
    assert (found.stopped, found.steps.rows, found.epochs.rows) == ("interrupted", 10, 1)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    cut = quietly(
        model,
        wg.optim.SGD(model.parameters()),
        mse,
        BATCHES,
        validation=BATCHES,
        callbacks=[Interrupting(0, "on_validation_start")],
    )
    assert (cut.stopped, cut.steps.rows, cut.epochs.rows) == ("interrupted", 7, 0)
    assert model.training


def test_a_second_ctrl_c_ends_at_once() -> None:
    model = model_of()
    with pytest.raises(KeyboardInterrupt):
        quietly(model, wg.optim.SGD(model.parameters()), mse, BATCHES, callbacks=[Interrupting(2, times=2)])
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_with_workers() -> None:
    data = TensorDataset(torch.from_numpy(X), torch.from_numpy(Y))
    loader = DataLoader(data, 8, num_workers=2)
    model = model_of(torch.nn)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    found = quietly(model, optimizer, mse, loader, epochs=2, callbacks=[Interrupting(3)], compile=True)
    assert (found.stopped, found.steps.rows) == ("interrupted", 4)


def test_a_handler_of_ones_own_stays() -> None:
    met = []
    before = signal.signal(signal.SIGINT, lambda number, frame: met.append(number))
    try:
        model = model_of()
        found = quietly(model, wg.optim.SGD(model.parameters()), mse, BATCHES, callbacks=[Interrupting(2)])
    finally:
        signal.signal(signal.SIGINT, before)
    assert (found.stopped, found.steps.rows, met) == (None, 7, [signal.SIGINT])


def test_in_a_thread() -> None:
    model = model_of()
    results = []

    def work() -> None:
        results.append(quietly(model, wg.optim.SGD(model.parameters(), lr=0.1), mse, BATCHES, epochs=2))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert results[0]["loss"][1] < results[0]["loss"][0]


def test_the_bar(capsys: pytest.CaptureFixture[str]) -> None:
    model = model_of()
    fit(model, wg.optim.SGD(model.parameters()), mse, BATCHES, epochs=2, validation=BATCHES)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert lines[1].startswith("epoch 2/2 [")
    assert "7/7" in lines[1]
    assert "val_loss" in lines[1]
    assert capsys.readouterr().out == ""


def test_times() -> None:
    class Slow:
        def __iter__(self) -> Iterator[Any]:
            for batch in BATCHES[:3]:
                time.sleep(0.01)
                yield batch

    model = model_of()
    found = quietly(model, wg.optim.SGD(model.parameters()), mse, Slow(), callbacks=[wg.train.Timing()])
    assert found["data_seconds"][0] >= 0.03
    assert found["seconds"][0] >= found["data_seconds"][0] + found["step_seconds"][0] > 0
    assert found["rows_per_second"][0] == pytest.approx(24 / found["seconds"][0])
