"""A run that was killed, interrupted or ended goes on bit for bit, and its logs have each step once."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wengert as wg
import wengert.torch as torch
from wengert.core.errors import DataError, GraphError, StateError
from wengert.torch.utils.data import DataLoader, TensorDataset
from wengert.train import Callback, ModelCheckpoint, Run, fit, metrics

PROGRAM = Path(__file__).parents[1] / "helpers" / "resumed_training.py"
mse = wg.nn.functional.mse_loss
X = np.random.default_rng(0).standard_normal((20, 3)).astype(np.float32)
Y = X[:, :1] - X[:, 1:2]


class StopAt(Callback):
    """An end at a step or while validating, as by Ctrl-C."""

    def __init__(self, step: int, hook: str = "on_step_start") -> None:
        self.step, self.hook = step, hook

    def on_step_start(self, run: Run) -> None:
        if self.hook == "on_step_start" and run.step == self.step:
            signal.raise_signal(signal.SIGINT)

    def on_validation_start(self, run: Run) -> None:
        if self.hook == "on_validation_start" and run.step == self.step:
            signal.raise_signal(signal.SIGINT)


def arrays() -> Any:
    return X, Y


def loader() -> Any:
    return DataLoader(TensorDataset(torch.from_numpy(X), torch.from_numpy(Y)), 4, shuffle=True)


def workers() -> Any:
    data = TensorDataset(torch.from_numpy(X), torch.from_numpy(Y))
    return DataLoader(data, 4, shuffle=True, num_workers=2, generator=torch.Generator().manual_seed(3))


class Drawing:
    """An iterable whose order is drawn from the shared generators."""

    def __iter__(self) -> Any:
        order = np.random.permutation(20)  # noqa: NPY002 (what programs draw from)
        first = random.randrange(20)
        shift = wg.randn(1).item()
        for start in range(0, 20, 4):
            rows = (order[start : start + 4] + first) % 20
            yield X[rows] + np.float32(shift), Y[rows]


FEEDS: dict[str, Callable[[], Any]] = {"arrays": arrays, "loader": loader, "workers": workers, "drawing": Drawing}


def trained(folder: Path, feed: str, epochs: int, *looking: Callback, kind: Any = wg, **options: Any) -> Any:
    """Train with all that has a state: dropout, running statistics, moments, a schedule, an average, metrics."""
    torch.manual_seed(5)
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002
    nn = kind.nn
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.3), nn.Linear(4, 1))
    optimizer = kind.optim.AdamW(model.parameters(), lr=0.02)
    schedule = kind.optim.lr_scheduler.StepLR(optimizer, 2, 0.7)
    average = wg.train.AverageWeights(0.9)
    if feed == "arrays":
        options["batch_size"] = 4
    history = fit(
        model,
        optimizer,
        mse,
        FEEDS[feed](),
        epochs=epochs,
        validation=(X, Y),
        metrics=[metrics.MeanAbsoluteError(), metrics.R2()],
        schedule=schedule,
        callbacks=[average, wg.train.EarlyStopping(patience=50, restore=False), *looking],
        checkpoint=folder,
        progress=False,
        **{"compile": False, **options},
    )
    values = {name: value.detach().numpy().tobytes() for name, value in model.state_dict().items()}
    drawn = wg.randn(2).tolist(), random.random(), np.random.random()  # noqa: NPY002
    return history, values, drawn


def same(one: Any, other: Any) -> None:
    for table in ("steps", "epochs"):
        a, b = (getattr(found[0], table) for found in (one, other))
        assert list(a) == list(b)
        for name in a:
            np.testing.assert_array_equal(a[name], b[name], err_msg=f"{table} {name}")
    assert one[1:] == other[1:]


@pytest.mark.parametrize("feed", FEEDS)
@pytest.mark.parametrize("step", [1, 4, 5, 8])
def test_an_interrupted_run_goes_on(tmp_path: Path, feed: str, step: int) -> None:
    whole = trained(tmp_path / "whole", feed, 3)
    cut = trained(tmp_path / "cut", feed, 3, StopAt(step))
    assert cut[0].stopped == "interrupted"
    assert cut[0].steps.rows == step + 1
    again = trained(tmp_path / "cut", feed, 3)
    assert again[0].stopped is None
    same(whole, again)


@pytest.mark.parametrize(
    ("kind", "options"),
    [(wg, {"compile": True}), (torch, {}), (wg, {"accumulate": 2}), (wg, {"clip_norm": 0.1, "schedule_by": "step"})],
)
def test_with_other_options(tmp_path: Path, kind: Any, options: dict[str, Any]) -> None:
    whole = trained(tmp_path / "whole", "loader", 3, kind=kind, **options)
    trained(tmp_path / "cut", "loader", 3, StopAt(2), kind=kind, **options)
    trained(tmp_path / "cut", "loader", 3, StopAt(5), kind=kind, **options)
    same(whole, trained(tmp_path / "cut", "loader", 3, kind=kind, **options))


@pytest.mark.parametrize("feed", ["arrays", "loader"])
def test_an_interrupted_validation_is_made_again(tmp_path: Path, feed: str) -> None:
    whole = trained(tmp_path / "whole", feed, 2)
    cut = trained(tmp_path / "cut", feed, 2, StopAt(5, "on_validation_start"))
    assert (cut[0].steps.rows, cut[0].epochs.rows) == (5, 0)
    same(whole, trained(tmp_path / "cut", feed, 2))


def test_more_epochs(tmp_path: Path) -> None:
    whole = trained(tmp_path / "whole", "loader", 3)
    trained(tmp_path / "cut", "loader", 1)
    ended = trained(tmp_path / "cut", "loader", 1)
    assert ended[0].epochs.rows == 1
    same(whole, trained(tmp_path / "cut", "loader", 3))
    anew = trained(tmp_path / "cut", "loader", 1, resume=False)
    np.testing.assert_array_equal(anew[0].steps["loss"], whole[0].steps["loss"][:5])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are killed")
def test_killed_at_any_step(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, str(PROGRAM), str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 kills" in done.stdout


def simple(
    folder: Path | None, *looking: Callback, epochs: int = 2, data: Any = None, **options: Any
) -> wg.train.History:
    wg.manual_seed(0)
    model = wg.nn.Linear(3, 1)
    optimizer = wg.optim.SGD(model.parameters(), lr=0.1)
    data = [(X[:10], Y[:10]), (X[10:], Y[10:])] if data is None else data
    saving = {"checkpoint": folder} if folder else {}
    return fit(
        model,
        optimizer,
        mse,
        data,
        epochs=epochs,
        callbacks=looking,
        progress=False,
        compile=False,
        **saving,
        **options,
    )


def test_a_run_that_is_not_the_same_is_refused(tmp_path: Path) -> None:
    simple(tmp_path, wg.train.EarlyStopping("loss"), metrics=[metrics.R2()])
    with pytest.raises(StateError, match="a run with the metrics r2 goes on with none"):
        simple(tmp_path, wg.train.EarlyStopping("loss"))
    with pytest.raises(StateError, match="a run with the callbacks EarlyStopping goes on with none"):
        simple(tmp_path, metrics=[metrics.R2()])
    with pytest.raises(DataError, match=r"a run with data without state_dict\(\) goes on with a loader with"):
        simple(tmp_path, wg.train.EarlyStopping("loss"), metrics=[metrics.R2()], data=loader())
    half = tmp_path / "half"
    simple(half, StopAt(1))
    with pytest.raises(DataError, match="data has 1 batches, and 2 of them were used before"):
        simple(half, data=[(X, Y)])


def test_a_model_without_state_cannot_be_saved(tmp_path: Path) -> None:
    w = wg.zeros((3, 1)).requires_grad_()
    with pytest.raises(GraphError, match=r"a checkpoint of a model that is a function, without state_dict\(\)"):
        fit(lambda x: x @ w, wg.optim.SGD([w]), mse, [(X, Y)], checkpoint=tmp_path, progress=False)


def test_checkpoints_by_steps_and_the_best(tmp_path: Path) -> None:
    class Rising(Callback):
        def on_epoch_end(self, run: Run) -> None:
            run.log(score=[0.1, 0.9, 0.3][run.epoch - 1])

    noise = wg.random.Generator(4)
    saving = ModelCheckpoint(tmp_path, every_epochs=None, every_steps=2, keep=9, best="score", mode="max", noise=noise)
    simple(None, Rising(), saving, epochs=3, data=[(X, Y)])
    steps = [one.step for one in wg.train.checkpoints.survey(tmp_path)]
    # By steps, and at the end.
    assert steps == [2, 3]
    assert [one.step for one in wg.train.checkpoints.survey(tmp_path / "best")] == [2]
    assert "noise" in wg.train.checkpoints.survey(tmp_path)[0].parts
    model = wg.nn.Linear(3, 1)
    assert wg.train.load_checkpoint(tmp_path / "best", model=model) is not None
    for wrong in ({"every_steps": 0}, {"keep": 0}, {"model": 1}, {"best": "loss", "mode": "least"}):
        with pytest.raises(DataError):
            ModelCheckpoint(tmp_path, **wrong)
    with pytest.raises(DataError, match="no column of numbers 'val_loss' to go by"):
        simple(None, ModelCheckpoint(tmp_path / "x", best="val_loss"))


def test_an_exception_leaves_the_last_checkpoint(tmp_path: Path) -> None:
    class Failing(Callback):
        def on_step_end(self, run: Run) -> None:
            if run.step == 3:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        simple(tmp_path, Failing())
    assert [one.step for one in wg.train.checkpoints.survey(tmp_path)] == [2]


# -- logs


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_logs_of_a_run_that_goes_on(tmp_path: Path) -> None:
    def logs() -> list[Callback]:
        return [
            wg.train.CSVLogger(tmp_path / "epochs.csv"),
            wg.train.CSVLogger(tmp_path / "steps.csv", by="step"),
            wg.train.JSONLLogger(tmp_path / "log.jsonl"),
        ]

    simple(tmp_path / "run", *logs(), epochs=3)
    names = ("epochs.csv", "steps.csv", "log.jsonl")
    whole = [(tmp_path / name).read_text() for name in names]
    assert lines_of(tmp_path / "log.jsonl")[0]["kind"] == "step"
    assert [(line["kind"], line["step"]) for line in lines_of(tmp_path / "log.jsonl")] == [
        pair for i in (1, 2, 3) for pair in (("step", 2 * i - 1), ("step", 2 * i), ("epoch", 2 * i))
    ]
    # A run that was killed after its checkpoint wrote more, the last line in part.
    simple(tmp_path / "other", *logs(), epochs=2)
    with open(tmp_path / "epochs.csv", "a") as file:
        file.write("3,6,0.1,7.0\n4,8")
    with open(tmp_path / "steps.csv", "a") as file:
        file.write("5,3,0.1,7.0\n6,3,0.")
    with open(tmp_path / "log.jsonl", "a") as file:
        file.write('{"kind": "step", "step": 5, "epoch": 3, "loss": 7}\n{"kind": "st')
    simple(tmp_path / "other", *logs(), epochs=3)
    assert [(tmp_path / name).read_text() for name in names] == whole
    # One that begins anew replaces them.
    simple(tmp_path / "third", *logs(), epochs=1)
    assert [line["step"] for line in lines_of(tmp_path / "log.jsonl")] == [1, 2, 2]


def test_columns_that_come_later_and_numbers_that_json_lacks(tmp_path: Path) -> None:
    class Late(Callback):
        def on_epoch_end(self, run: Run) -> None:
            if run.epoch == 2:
                run.log(late=float("nan"), other=-float("inf"), table=np.eye(2))

    simple(
        None, Late(), wg.train.CSVLogger(tmp_path / "a.csv"), wg.train.JSONLLogger(tmp_path / "a.jsonl", steps=False)
    )
    rows = (tmp_path / "a.csv").read_text().splitlines()
    assert rows[0] == "epoch,step,lr,loss,late,other,table"
    assert rows[1].endswith(",,,")
    assert rows[2].endswith(',nan,-inf,"[[1.0, 0.0], [0.0, 1.0]]"')
    last = lines_of(tmp_path / "a.jsonl")[-1]
    assert (last["late"], last["other"], last["table"]) == ("nan", "-inf", [[1.0, 0.0], [0.0, 1.0]])


def test_a_file_that_is_no_such_log(tmp_path: Path) -> None:
    for log, text in (
        (wg.train.CSVLogger(tmp_path / "a"), "a,b\n1,2\n"),
        (wg.train.JSONLLogger(tmp_path / "a"), "[]\n"),
    ):
        simple(tmp_path / "run", epochs=1)
        (tmp_path / "a").write_text(text)
        with pytest.raises(DataError, match="log of this run"):
            simple(tmp_path / "run", log)
        assert (tmp_path / "a").read_text() == text


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a full disk is a device of Linux")
def test_a_full_disk() -> None:
    for log in (wg.train.JSONLLogger("/dev/full"), wg.train.CSVLogger("/dev/full", by="step")):
        with pytest.raises(DataError, match=r"/dev/full was not written: No space left on device \(.*test_resume\.py"):
            simple(None, log)
    with pytest.raises(DataError, match="was not written"):
        simple(None, wg.train.JSONLLogger("/no/such/folder/log"))


def test_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    simple(tmp_path / "run", wg.train.TensorBoard(tmp_path / "log", histograms=1), epochs=1)
    # A point of a step after the checkpoint.
    with wg.interop.tensorboard.SummaryWriter(tmp_path / "log") as writer:
        writer.add_scalar("step/loss", 9.0, 3)
    history = simple(tmp_path / "run", wg.train.TensorBoard(tmp_path / "log"), epochs=2)
    found = EventAccumulator(str(tmp_path / "log"))
    found.Reload()
    points = [(e.step, e.value) for e in found.Scalars("step/loss")]
    assert [step for step, _ in points] == [1, 2, 3, 4]
    np.testing.assert_allclose([value for _, value in points], history.steps["loss"], rtol=1e-6)
    assert [e.step for e in found.Scalars("epoch/loss")] == [2, 4]
    assert found.Tags()["histograms"] == ["weights/weight", "weights/bias"]
