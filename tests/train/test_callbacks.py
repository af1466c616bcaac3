"""Early stopping, stops at NaN, averages of weights: what they keep, and what they leave in the model."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wengert as wg
import wengert.torch as torch
from wengert.core.errors import DataError
from wengert.train import AverageWeights, Callback, EarlyStopping, LearningRates, Run, StopOnNaN, fit

mse = wg.nn.functional.mse_loss
X = np.random.default_rng(0).standard_normal((12, 3)).astype(np.float32)
Y = X[:, :1].copy()


def weights(model: Any) -> list[float]:
    return flat(model.state_dict())


def flat(state: Any) -> list[float]:
    """Floating values; whole numbers count batches."""
    values = [value.detach().numpy() for value in state.values()]
    return [x for value in values if value.dtype.kind == "f" for x in np.ravel(value).tolist()]


class Scores(Callback):
    """A column of chosen numbers, and the weights of every epoch."""

    def __init__(self, scores: list[float]) -> None:
        self.scores = scores
        self.weights: list[list[float]] = []

    def on_epoch_end(self, run: Run) -> None:
        run.log(score=self.scores[run.epoch - 1])
        self.weights.append(weights(run.model))


def run(*looking: Callback, epochs: int = 8, kind: Any = wg, **options: Any) -> Any:
    torch.manual_seed(0)
    nn = kind.nn
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    optimizer = kind.optim.SGD(model.parameters(), lr=0.1)
    given = {"epochs": epochs, "callbacks": looking, "progress": False, "compile": False, "batch_size": 6, **options}
    return model, fit(model, optimizer, mse, (X, Y), **given)


@pytest.mark.parametrize("kind", [wg, torch], ids=["wengert", "torch"])
def test_the_best_weights_come_back(kind: Any) -> None:
    scores = Scores([3.0, 1.0, 2.0, math.nan, 1.0, 0.5, 0.4, 0.3])
    stopping = EarlyStopping("score", patience=3)
    model, history = run(scores, stopping, kind=kind)
    assert history.stopped == "early stopping: score is no better for 3 epochs"
    assert (history.epochs.rows, stopping.best, stopping.best_epoch) == (5, 1.0, 2)
    assert weights(model) == scores.weights[1]
    model, _ = run(scores := Scores([1.0, 2.0, 3.0]), EarlyStopping("score", 2, restore=False))
    assert weights(model) == scores.weights[2]


def test_what_counts_as_better() -> None:
    for options, epochs in (({"mode": "max"}, 2), ({"min_delta": 0.5}, 3), ({"min_delta": 0.05}, 8)):
        scores = Scores([1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3])
        _, history = run(scores, EarlyStopping("score", patience=1 if "mode" in options else 2, **options))
        assert history.epochs.rows == epochs, options
    with pytest.raises(
        DataError, match=r"no column of numbers 'val_loss' to go by .*\nThe epochs have: epoch, step, lr, loss"
    ):
        run(EarlyStopping())
    for wrong in ({"mode": "least"}, {"patience": 0}):
        with pytest.raises(DataError):
            EarlyStopping(**wrong)  # type: ignore[arg-type]


def test_a_run_that_stopped_stays_stopped(tmp_path: Path) -> None:
    scores = [3.0, 1.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0]
    model, first = run(Scores(scores), EarlyStopping("score", 2), checkpoint=tmp_path)
    again, second = run(Scores(scores), EarlyStopping("score", 2), checkpoint=tmp_path)
    assert first.stopped == second.stopped
    assert second.epochs.rows == 4
    assert weights(model) == weights(again)


@pytest.mark.parametrize("compile", [True, False])
def test_nan_never_gets_into_the_weights(compile: bool) -> None:
    model = wg.nn.Linear(1, 1)
    seen: list[list[float]] = []

    class Seen(Callback):
        def on_step_end(self, run: Run) -> None:
            seen.append(weights(run.model))

    def loss(output: Any, target: Any) -> Any:
        return wg.sqrt((output - output.detach()) ** 2 + target).sum()

    # At 0 the root is finite, and its slope is not.
    data = [(wg.ones((1, 1)), wg.full((1, 1), t)) for t in (1.0, 2.0)] + [(wg.ones((64, 1)), wg.zeros((64, 1)))] * 2
    stop = StopOnNaN()
    with pytest.warns(RuntimeWarning, match=r"a gradient of step 3 is not finite") as met:
        found = fit(
            model,
            wg.optim.SGD(model.parameters(), lr=0.01),
            loss,
            data,
            callbacks=[stop, Seen()],
            progress=False,
            compile=compile,
        )
    assert found.steps.rows == 2
    assert weights(model) == seen[-1]
    assert stop.explanation.op == "sqrt"
    assert stop.explanation.phase == "backward"
    assert found.stopped == str(met[0].message)
    assert Path(__file__).name in found.stopped


def test_a_loss_that_is_nan_and_buffers() -> None:
    model = wg.nn.Sequential(wg.nn.Linear(3, 2), wg.nn.BatchNorm1d(2))
    before: list[Any] = []

    class Before(Callback):
        def on_step_start(self, run: Run) -> None:
            before.append(weights(run.model))

    stop = StopOnNaN()
    bad = X.copy()
    bad[3, 1] = np.nan
    with pytest.warns(RuntimeWarning, match="the loss of step 2 is not finite: nan came with batches"):
        found = fit(
            model,
            wg.optim.SGD(model.parameters(), lr=0.1),
            lambda o, t: mse(o, t[:, :2]),
            [(X, X), (bad, X)],
            callbacks=[stop, Before()],
            progress=False,
            accumulate=1,
        )
    assert found.steps.rows == 1
    # The statistics, too, are those of the step before.
    assert weights(model) == before[1]
    assert stop.explanation


def test_a_stop_at_nan_is_no_checkpoint_and_a_resumed_run_meets_it_again(tmp_path: Path) -> None:
    bad = X.copy()
    bad[7, 0] = np.inf

    def once(epochs: int) -> Any:
        wg.manual_seed(0)
        model = wg.nn.Linear(3, 1)
        optimizer = wg.optim.SGD(model.parameters(), lr=0.1)
        data = [(X[:6], Y[:6])] * 3 + [(bad[6:], Y[6:])]
        saving = wg.train.ModelCheckpoint(tmp_path, every_steps=2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return fit(
                model,
                optimizer,
                mse,
                data,
                callbacks=[StopOnNaN(), saving],
                epochs=epochs,
                progress=False,
                compile=False,
            )

    first, second = once(1), once(1)
    assert [one.step for one in wg.train.checkpoints.survey(tmp_path)] == [2]
    assert first.stopped == second.stopped
    assert first.steps.rows == second.steps.rows == 3


@pytest.mark.parametrize("kind", [wg, torch], ids=["wengert", "torch"])
def test_averages(kind: Any) -> None:
    every: list[list[float]] = []
    epochs: list[list[float]] = []

    class Weights(Callback):
        def on_step_end(self, run: Run) -> None:
            every.append(weights(run.model))

        def on_epoch_end(self, run: Run) -> None:
            epochs.append(weights(run.model))

    model, _ = run(AverageWeights(), Weights(), epochs=4, kind=kind)
    np.testing.assert_allclose(weights(model), np.mean(epochs, 0), rtol=1e-5)
    swa = AverageWeights(start=2, keep=False)
    every.clear()
    epochs.clear()
    model, _ = run(swa, Weights(), epochs=4, kind=kind)
    assert weights(model) == epochs[-1]
    np.testing.assert_allclose(flat(swa.average), np.mean(epochs[2:], 0), rtol=1e-5)
    every.clear()
    model, _ = run(AverageWeights(0.9), Weights(), epochs=4, kind=kind)
    expected = np.array(every[0])
    for n, now in enumerate(every[1:], 1):
        decay = min(0.9, (1 + n) / (10 + n))
        expected = decay * expected + (1 - decay) * np.array(now)
    np.testing.assert_allclose(weights(model), expected, rtol=1e-4)
    assert model[1].num_batches_tracked.item() == 8
    with pytest.raises(DataError, match="decay=1 of an average"):
        AverageWeights(1)


def test_validation_sees_the_average_and_training_does_not() -> None:
    plain, without = run(epochs=3, validation=(X, Y))
    model, found = run(AverageWeights(0.99), epochs=3, validation=(X, Y))
    assert found.steps["loss"].tolist() == without.steps["loss"].tolist()
    assert (found["val_loss"] != without["val_loss"]).all()
    last = wg.train.evaluate(model, mse, (X, Y), batch_size=6, compile=False)["loss"]
    assert last == found["val_loss"][-1]
    assert weights(model) != weights(plain)


def test_the_best_of_averages_comes_back() -> None:
    average = AverageWeights(0.9)
    kept: list[list[float]] = []

    class Kept(Callback):
        def on_epoch_end(self, run: Run) -> None:
            kept.append(flat(average.average))

    scores = Scores([3.0, 1.0, 2.0, 2.0])
    for looking in ((average, EarlyStopping("score", 2)), (EarlyStopping("score", 2), average)):
        kept.clear()
        average.average, average.count = None, 0
        model, _ = run(scores, Kept(), *looking, validation=(X, Y))
        assert weights(model) == kept[1]


def test_an_exception_leaves_training_weights() -> None:
    seen: list[list[float]] = []

    class Failing(Callback):
        def on_step_end(self, run: Run) -> None:
            seen.append(weights(run.model))
            if run.step == 5:
                raise ZeroDivisionError
            self.model = run.model

    failing = Failing()
    with pytest.raises(ZeroDivisionError):
        run(failing, AverageWeights(0.5), EarlyStopping("loss"), validation=(X, Y))
    assert weights(failing.model) == seen[-1]


def test_rates_of_groups() -> None:
    model = wg.nn.Linear(3, 1)
    optimizer = wg.optim.SGD([{"params": [model.weight]}, {"params": [model.bias], "lr": 0.5}], lr=0.1)
    schedule = wg.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    found = fit(
        model,
        optimizer,
        mse,
        [(X, Y)],
        epochs=3,
        schedule=schedule,
        callbacks=[LearningRates()],
        progress=False,
        compile=False,
    )
    assert found.steps["lr/0"].tolist() == found.steps["lr"].tolist() == [0.1, 0.05, 0.025]
    assert found.steps["lr/1"].tolist() == [0.5, 0.25, 0.125]
