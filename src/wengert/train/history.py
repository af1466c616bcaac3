"""The history of a training run: columns of numbers, one row for each step and for each epoch."""

from __future__ import annotations

import csv
import importlib
import io
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from ..core.arrays import Array
from ..core.errors import DataError, RangeError, fail
from ..core.tensor import Tensor
from ..storage.files import Staged
from .chart import line_chart

Path = str | os.PathLike[str]
Row = Mapping[str, Any]


class Columns(Mapping[str, Array]):
    """Named columns of equal lengths; where a row lacks a value its column has NaN.

    >>> import wengert as wg
    >>> columns = wg.train.Columns()
    >>> columns.append({"step": 1, "loss": 0.5})
    >>> columns.append({"step": 2, "loss": 0.25, "accuracy": 0.9})
    >>> columns["accuracy"].tolist()
    [nan, 0.9]
    """

    def __init__(self) -> None:
        self._values: dict[str, list[Any]] = {}
        self.rows = 0

    def append(self, row: Row) -> None:
        """Add a row: numbers, or arrays of one shape, by the names of their columns."""
        for name in row:
            if name not in self._values:
                self._values[name] = [None] * self.rows
        for name, values in self._values.items():
            values.append(_plain(row.get(name)))
        self.rows += 1

    def extend(self, row: Row) -> None:
        """Give values to the last row."""
        for name, value in row.items():
            if name not in self._values:
                self._values[name] = [None] * self.rows
            self._values[name][-1] = _plain(value)

    def row(self, number: int) -> dict[str, Any]:
        """Return what a row has, the last one for -1."""
        return {name: values[number] for name, values in self._values.items() if values[number] is not None}

    def __getitem__(self, name: str) -> Array:
        if name not in self._values:
            raise KeyError(f"no column {name!r}; there are: {', '.join(self._values) or 'none'}")
        values = self._values[name]
        filler: Any = next((np.full(v.shape, math.nan) for v in values if isinstance(v, np.ndarray)), math.nan)
        return np.array([filler if v is None else v for v in values])

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def state_dict(self) -> dict[str, Any]:
        """Return the columns as plain data."""
        return {"rows": self.rows, "values": {name: _storable(values) for name, values in self._values.items()}}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take the columns of a result of :meth:`state_dict`."""
        self.rows = state_dict["rows"]
        self._values = {name: [_plain(v) for v in values] for name, values in state_dict["values"].items()}

    def to_csv(self, path: Path | None = None) -> str:
        """Return the columns as comma-separated values (RFC 4180), and write them to a file where a path is given.

        Numbers have all their digits; an array (a confusion matrix) is written as nested lists; what a row lacks is
        empty. Raises DataError where the file cannot be written.
        """
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self._values)
        for i in range(self.rows):
            writer.writerow([cell(values[i]) for values in self._values.values()])
        text = out.getvalue()
        if path is not None:
            with Staged(path) as temporary, open(temporary, "w", encoding="utf-8", newline="") as file:
                file.write(text)
        return text

    def to_frame(self) -> Any:
        """Return the columns as a data frame of pandas; an array is one cell. Raises DataError without pandas."""
        columns = {name: list(v) if v.ndim > 1 else v for name, v in self.items()}
        return _package("pandas", "a data frame").DataFrame(columns)

    def __repr__(self) -> str:
        return f"<{self.rows} rows of {', '.join(self._values) or 'nothing'}>"


class History:
    """The course of a training run: `epochs` and `steps` are columns of numbers, `stopped` says why it ended early.

    `history["val_loss"]` is a column of the epochs, and `for row in history` gives each epoch as a dict, so that
    `pandas.DataFrame(history)` has a row for each epoch; `history.to_frame()` gives the same.

    A step's loss is that of its batch before the update; an epoch's `loss` is the mean of those
    over all rows, and what begins with `val_` was computed after it.

    >>> import wengert as wg
    >>> x = wg.linspace(0, 1, 64).reshape(64, 1)
    >>> model = wg.nn.Linear(1, 1)
    >>> optimizer = wg.optim.SGD(model.parameters(), lr=0.5)
    >>> history = wg.train.fit(model, optimizer, wg.nn.functional.mse_loss, (x, 3 * x), epochs=5, progress=False)
    >>> bool(history["loss"][-1] < history["loss"][0]), len(history.steps["loss"])
    (True, 10)
    """

    def __init__(self) -> None:
        self.epochs = Columns()
        self.steps = Columns()
        self.stopped: str | None = None

    def __getitem__(self, name: str) -> Array:
        return self.epochs[name]

    def __contains__(self, name: object) -> bool:
        return name in self.epochs

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self.epochs.row(i) for i in range(self.epochs.rows))

    def __len__(self) -> int:
        return self.epochs.rows

    def __bool__(self) -> bool:
        return True

    def to_frame(self, *, by: Literal["epoch", "step"] = "epoch") -> Any:
        """Return the epochs, or the steps, as a data frame of pandas. Raises DataError without pandas."""
        return self._by(by).to_frame()

    def plot(self, *names: str, by: Literal["epoch", "step"] = "epoch", ax: Any = None) -> Any:
        """Draw columns by matplotlib, without names the losses, and return the axes; into `ax` where that is given.

        Raises RangeError for a name that is no column of numbers, DataError without matplotlib: :meth:`chart` draws
        without it.
        """
        pyplot = _package("matplotlib.pyplot", "plot()", " history.chart() draws without it.")
        columns, chosen = self._columns(names, by)
        axes = pyplot.subplots()[1] if ax is None else ax
        for name in chosen:
            axes.plot(columns[by], columns[name], label=name)
        axes.set_xlabel(by)
        if chosen:
            axes.legend()
        return axes

    def _columns(self, names: tuple[str, ...], by: str) -> tuple[Columns, tuple[str, ...]]:
        """Return the columns by epoch or step, and the names of those to draw. Raises RangeError."""
        columns = self._by(by)
        chosen = names or tuple(name for name in columns if name in ("loss", "val_loss"))
        for name in chosen:
            if name not in columns or columns[name].ndim != 1:
                fail(RangeError, f"no column of numbers {name!r}", f"There are: {', '.join(columns)}.")
        return columns, chosen

    def chart(self, *names: str, by: Literal["epoch", "step"] = "epoch", log_y: bool = False, title: str = "") -> str:
        """Return a picture (SVG) of columns; without names of the losses.

        Raises RangeError for a name that is no column of numbers.
        """
        columns, chosen = self._columns(names, by)
        at = [float(x) for x in columns[by]] if columns.rows else []
        series = {name: list(zip(at, map(float, columns[name]))) for name in chosen}
        return line_chart(series, title=title, x_label=by, log_y=log_y)

    def to_csv(self, path: Path | None = None, *, by: Literal["epoch", "step"] = "epoch") -> str:
        """Return the epochs, or the steps, as comma-separated values, and write them to a file where a path is given.

        Raises DataError where the file cannot be written.
        """
        return self._by(by).to_csv(path)

    def _by(self, by: str) -> Columns:
        if by not in ("epoch", "step"):
            fail(RangeError, f"by={by!r}", 'It is "epoch" or "step".')
        return self.epochs if by == "epoch" else self.steps

    def _repr_svg_(self) -> str:
        return self.chart(by="epoch" if self.epochs.rows > 1 else "step") if self.steps.rows else line_chart({})

    def state_dict(self) -> dict[str, Any]:
        """Return both tables as plain data."""
        return {"epochs": self.epochs.state_dict(), "steps": self.steps.state_dict()}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take the tables of a result of :meth:`state_dict`."""
        self.epochs.load_state_dict(state_dict["epochs"])
        self.steps.load_state_dict(state_dict["steps"])

    def __repr__(self) -> str:
        last = self.epochs.row(-1) if self.epochs.rows else {}
        told = ", ".join(f"{name} {value:.4g}" for name, value in last.items() if isinstance(value, float))
        why = f", stopped: {self.stopped}" if self.stopped else ""
        return f"<History of {self.epochs.rows} epochs, {self.steps.rows} steps{': ' if told else ''}{told}{why}>"


def _package(name: str, what: str, mend: str = "") -> Any:
    """Return a package of others. Raises DataError where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        package = name.partition(".")[0]
        fail(DataError, f"{what} needs the package {package}", f"Install it with: pip install {package}.{mend}")


def _plain(value: Any) -> Any:
    """Return a number as Python's, an array of several as an array of its own."""
    if isinstance(value, Tensor):
        value = value.detach().numpy()
    if isinstance(value, (np.ndarray, np.generic)):
        return value.item() if value.ndim == 0 else np.array(value)
    return value


def _storable(values: Sequence[Any]) -> Any:
    """Return a column as a checkpoint takes it: one array where that is all numbers of a kind."""
    kinds = {type(v) for v in values}
    return np.array(values) if kinds == {float} or kinds == {int} else list(values)


def cell(value: Any) -> Any:
    """Return a value as a table's cell: numbers with all digits, arrays as nested lists, "" for None."""
    if value is None:
        return ""
    return value.tolist() if isinstance(value, np.ndarray) else value
