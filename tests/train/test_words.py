"""What a training loop says to those who come from elsewhere, or whose data, optimiser and model do not fit."""

from __future__ import annotations

import io
import sys
import types
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.core.errors import DTypeError, GradientError, RangeError, ShapeError
from wengert.train import fit
from wengert.train.progress import bar

mse = wg.nn.functional.mse_loss
X, Y = wg.ones((8, 2)), wg.ones((8, 1))


def trained(model: Any, optimizer: Any = None, **options: Any) -> Any:
    optimizer = optimizer or wg.optim.SGD(model.parameters())
    return fit(model, optimizer, mse, options.pop("data", (X, Y)), **{"progress": False, **options})


@pytest.mark.parametrize("options", [{"compile": True}, {"compile": False}, {"accumulate": 2, "batch_size": 2}])
def test_an_optimizer_of_another_model_is_refused(options: dict[str, Any]) -> None:
    model, other = wg.nn.Linear(2, 1), wg.nn.Linear(2, 1)
    before = other.weight.tolist()
    with pytest.raises(GradientError, match="depends on none of the 2 parameters") as caught:
        trained(model, wg.optim.SGD(other.parameters()), **options)
    assert "SGD(model.parameters())" in str(caught.value)
    assert other.weight.tolist() == before


def test_an_optimizer_of_a_part_is_enough() -> None:
    model = wg.nn.Sequential(wg.nn.Linear(2, 3), wg.nn.Linear(3, 1))
    assert trained(model, wg.optim.SGD(model[1].parameters())).steps.rows == 1


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"validation_data": (X, Y)}, "Use validation=."),
        ({"num_epochs": 2}, "Use epochs=."),
        ({"verbose": 0}, "Use progress=."),
        ({"epoch": 2}, "Use epochs=."),
        ({"lr": 0.1}, "Use the optimizer's lr=."),
        ({"zzz": 0.1}, "It takes model, optimizer, loss, data, epochs"),
    ],
)
def test_keywords_of_other_loops_name_those_of_this_one(given: dict[str, Any], word: str) -> None:
    model = wg.nn.Linear(2, 1)
    with pytest.raises(DTypeError) as caught:
        trained(model, **given)
    assert "test_words.py:" in str(caught.value).splitlines()[0]
    assert word in str(caught.value)


@pytest.mark.parametrize("name", ["fit", "predict", "evaluate", "compile", "summary", "save", "load", "cuda", "cpu"])
def test_what_other_modules_have_names_what_does_it(name: str) -> None:
    model = wg.nn.Linear(2, 1)
    assert not hasattr(model, name)
    with pytest.raises(AttributeError, match=rf"no attribute '{name}'\. \w+"):
        getattr(model, name)
    with pytest.raises(AttributeError, match=r"no attribute 'wieght'$"):
        model.wieght


class Net(wg.nn.Module):
    def __init__(self, last: Any) -> None:
        self.layers = wg.nn.Sequential(wg.nn.Linear(2, 4), wg.nn.ReLU(), last)

    def forward(self, x: Any) -> Any:
        return self.layers(x)


MISFITS: dict[str, tuple[Any, str]] = {
    "linear": (wg.nn.Linear(64, 10), "'layers.2', Linear(in_features=64, out_features=10, bias=True)"),
    "norm": (wg.nn.LayerNorm(5), "'layers.2', LayerNorm((5,)"),
    "batch norm": (wg.nn.BatchNorm1d(5), "'layers.2', BatchNorm1d(5"),
    "embedding": (wg.nn.Embedding(3, 2), "'layers.2', Embedding(3, 2"),
    "inside": (wg.nn.Sequential(wg.nn.ReLU(), wg.nn.Linear(3, 1)), "'layers.2.1', Linear(in_features=3"),
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", MISFITS)
def test_a_misfit_names_the_module_and_what_arrived(name: str, compiled: bool) -> None:
    last, told = MISFITS[name]
    model = Net(last)
    with pytest.raises((ShapeError, DTypeError)) as caught:
        (wg.jit(model) if compiled else model)(X)
    assert "test_words.py:" in str(caught.value).splitlines()[0]
    assert str(caught.value).count("Raised in module") == 1
    assert told in str(caught.value)
    assert str(caught.value).endswith("which was given f32[8,4].")


def test_images_without_channels_say_where_they_come_from() -> None:
    with pytest.raises(ShapeError, match=r"gets one: x\[:, None\]"):
        wg.nn.Conv2d(1, 4, 3)(wg.ones((8, 28, 28)))
    assert wg.nn.Conv2d(1, 4, 3)(wg.ones((8, 28, 28))[:, None]).shape == (8, 4, 26, 26)
    with pytest.raises(ShapeError, match=r"wg\.moveaxis\(x, -1, -3\)"):
        wg.nn.Conv2d(3, 4, 3)(wg.ones((8, 28, 28, 3)))
    assert wg.nn.Conv2d(3, 4, 3)(wg.moveaxis(wg.ones((8, 28, 28, 3)), -1, -3)).shape == (8, 4, 26, 26)


def test_options_out_of_range_are_values_of_the_wrong_size() -> None:
    model = wg.nn.Linear(2, 1)
    for wrong in (
        lambda: wg.optim.SGD(model.parameters(), lr=-1.0),
        lambda: wg.nn.Dropout(1.5),
        lambda: wg.nn.Linear(-1, 2),
        lambda: trained(model, epochs=-1),
        lambda: trained(model, batch_size=0),
        lambda: trained(model, clip_norm=0.0),
    ):
        with pytest.raises(RangeError) as caught:
            wrong()
        assert isinstance(caught.value, ValueError)
        assert not isinstance(caught.value, ShapeError)


def test_float64_data_of_a_float32_model_are_told_once() -> None:
    model = wg.nn.Linear(2, 1)
    wide = np.ones((8, 2)), np.ones((8, 1))
    with pytest.warns(RuntimeWarning, match="data are float64 and the model's parameters float32") as caught:
        trained(model, data=wide, epochs=3, batch_size=2)
    assert len(caught) == 1
    trained(wg.nn.Linear(2, 1).to("float64"), data=wide)
    trained(model, data=(wide[0].astype(np.float32), wide[1].astype(np.float32)))


def test_read_only_arrays_are_data() -> None:
    x, y = np.ones((8, 2), np.float32), np.ones((8, 1), np.float32)
    x.flags.writeable = y.flags.writeable = False
    assert trained(wg.nn.Linear(2, 1), data=(x, y), validation=(x, y)).epochs.rows == 1


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_bar_says_that_the_first_step_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)
    for compile in (True, False):
        out = _Terminal()
        monkeypatch.setattr(sys, "stderr", out)
        trained(wg.nn.Linear(2, 1), epochs=2, progress=True, compile=compile)
        lines = [line for line in out.getvalue().splitlines() if "2/2" in line or "1/2" in line]
        assert ("compiling ..." in out.getvalue()) == compile
        assert ["compiled in" in line for line in out.getvalue().split("\n")[:2]] == [compile, False], lines
    out = io.StringIO()
    monkeypatch.setattr(sys, "stderr", out)
    shown = bar("x", 2)
    shown.note("not yet", now=True)
    assert out.getvalue() == "", "a log file has one line for each epoch"
    shown.close()


def test_histories_are_frames_and_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    """What pandas and matplotlib are given; the packages themselves are not installed with the tests."""
    history = trained(wg.nn.Linear(2, 1), epochs=3, validation=(X, Y), batch_size=4)
    drawn: list[tuple[Any, ...]] = []
    axes = types.SimpleNamespace(
        plot=lambda x, y, label: drawn.append((label, x.tolist(), y.tolist())),
        set_xlabel=lambda text: drawn.append((text,)),
        legend=lambda: None,
    )
    pyplot = types.SimpleNamespace(subplots=lambda: (None, axes))
    monkeypatch.setitem(sys.modules, "pandas", types.SimpleNamespace(DataFrame=dict))
    monkeypatch.setitem(sys.modules, "matplotlib", types.SimpleNamespace(pyplot=pyplot))
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", pyplot)
    frame = history.to_frame()
    assert list(frame) == ["epoch", "step", "lr", "loss", "val_loss"]
    assert list(frame["epoch"]) == [1, 2, 3]
    assert len(history.to_frame(by="step")["loss"]) == 6
    assert history.plot() is axes
    assert drawn == [
        ("loss", [1, 2, 3], history["loss"].tolist()),
        ("val_loss", [1, 2, 3], history["val_loss"].tolist()),
        ("epoch",),
    ]
    with pytest.raises(RangeError, match="no column of numbers 'accuracy'"):
        history.plot("accuracy")
    # So `pandas.DataFrame(history)` reads it: as the rows.
    rows = list(history)
    assert [row["loss"] for row in rows] == history["loss"].tolist()
    assert len(history) == 3
    assert "loss" in history
    assert "accuracy" not in history


def test_pandas_reads_a_history() -> None:
    pandas = pytest.importorskip("pandas")
    history = trained(wg.nn.Linear(2, 1), epochs=3, validation=(X, Y))
    pandas.testing.assert_frame_equal(pandas.DataFrame(history), history.to_frame())
