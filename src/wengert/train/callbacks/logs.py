"""Logs of a run in files: comma-separated values, JSON lines, TensorBoard's events."""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Mapping
from typing import Any, Literal, TextIO

import numpy as np

from ...core.errors import DataError, fail
from ...interop.tensorboard import SummaryWriter, event_writer
from ...storage.files import Staged, not_written
from ..history import cell
from ..run import Callback, Run

Path = str | os.PathLike[str]


class CSVLogger(Callback):
    """A file of comma-separated values (RFC 4180) with a row for every epoch, or every step.

    Parameters
    ----------
    path: the file. A run that begins anew replaces it.
    by: "epoch" or "step".

    Each row is in the file when the epoch or step is over. A column that appears later is added: the file is then
    written anew. A resumed run goes on with the file: rows after the checkpoint, and half a row that a kill left, are
    removed first, so that none is there twice.

    Raises DataError where the file cannot be written, as on a full disk, and for one that is no such log.

    >>> import pathlib, tempfile, wengert as wg
    >>> x = wg.ones((8, 1))
    >>> model = wg.nn.Linear(1, 1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = wg.train.CSVLogger(folder + "/log.csv")
    ...     optimizer = wg.optim.SGD(model.parameters())
    ...     loss = wg.nn.functional.mse_loss
    ...     _ = wg.train.fit(model, optimizer, loss, (x, x), epochs=2, callbacks=[log], progress=False)
    ...     print(pathlib.Path(folder, "log.csv").read_text().splitlines()[0])
    epoch,step,lr,loss
    """

    rank = 1

    def __init__(self, path: Path, by: Literal["epoch", "step"] = "epoch") -> None:
        if by not in ("epoch", "step"):
            fail(DataError, f"by={by!r}", 'It is "epoch" or "step".')
        self.path, self.by = os.fspath(path), by
        self._columns: list[str] = []
        self._file: TextIO | None = None

    def on_start(self, run: Run) -> None:
        """Open the file, with the rows of the run so far."""
        kept = []
        if run.step and os.path.exists(self.path):
            kept = self._rows(run.epoch if self.by == "epoch" else run.step)
        self._write_anew(kept)

    def _rows(self, last: int) -> list[list[str]]:
        """Return the rows that are in the file up to an epoch or step, and take its columns."""
        with open(self.path, encoding="utf-8", newline="") as file:
            text = file.read()
        # What has no end of line was not written to its end.
        rows = list(csv.reader(text[: text.rfind("\n") + 1].splitlines()))
        if rows and self.by not in rows[0]:
            mend = "It is not the log of this run: give another path."
            fail(DataError, f"{self.path} has no column {self.by!r}", mend)
        self._columns = rows[0] if rows else []
        at = self._columns.index(self.by) if rows else 0
        return [row for row in rows[1:] if len(row) == len(self._columns) and int(row[at]) <= last]

    def _write_anew(self, rows: list[list[str]]) -> None:
        self.close()
        try:
            with Staged(self.path) as temporary, open(temporary, "w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file, lineterminator="\n")
                if self._columns:
                    writer.writerow(self._columns)
                writer.writerows([*row, *[""] * (len(self._columns) - len(row))] for row in rows)
            self._file = open(self.path, "a", encoding="utf-8", newline="")  # noqa: SIM115 (until the run ends)
        except OSError as e:
            not_written(self.path, e)

    def _write(self, row: Mapping[str, Any], last: int) -> None:
        new = [name for name in row if name not in self._columns]
        if new:
            before = self._rows(last) if self._columns else []
            self._columns = [*self._columns, *new]
            self._write_anew(before)
        assert self._file is not None
        try:
            csv.writer(self._file, lineterminator="\n").writerow([cell(row.get(name)) for name in self._columns])
            self._file.flush()
        except OSError as e:
            not_written(self.path, e)

    def on_step_end(self, run: Run) -> None:
        """Write the step's row."""
        if self.by == "step":
            self._write(run.history.steps.row(-1), run.step)

    def on_epoch_end(self, run: Run) -> None:
        """Write the epoch's row."""
        if self.by == "epoch":
            self._write(run.row, run.epoch)

    def on_end(self, run: Run) -> None:
        """Close the file."""
        self.close()

    def close(self) -> None:
        """Close the file."""
        file, self._file = self._file, None
        if file is not None:
            _close(file, self.path)


class JSONLLogger(Callback):
    """A file of JSON lines: one for every step, and one for every epoch, which has the step that it ended with.

    Parameters
    ----------
    path: the file. A run that begins anew replaces it.
    steps: whether there are lines for steps.

    Lines of epochs have `"kind": "epoch"`, those of steps "step". Numbers that are not finite, which JSON does not
    have, are the texts "nan", "inf" and "-inf". Each line is in the file when the step is over. A resumed run goes on
    with the file: lines after the checkpoint, and half a line that a kill left, are removed first, so that none is
    there twice.

    Raises DataError where the file cannot be written, as on a full disk, and for one that is no such log.

    >>> import json, pathlib, tempfile, wengert as wg
    >>> x = wg.ones((8, 1))
    >>> model = wg.nn.Linear(1, 1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = wg.train.JSONLLogger(folder + "/log.jsonl")
    ...     optimizer = wg.optim.SGD(model.parameters())
    ...     loss = wg.nn.functional.mse_loss
    ...     _ = wg.train.fit(model, optimizer, loss, (x, x), callbacks=[log], progress=False)
    ...     [json.loads(line)["kind"] for line in pathlib.Path(folder, "log.jsonl").read_text().splitlines()]
    ['step', 'epoch']
    """

    rank = 1

    def __init__(self, path: Path, steps: bool = True) -> None:
        self.path, self.steps = os.fspath(path), steps
        self._file: TextIO | None = None

    def on_start(self, run: Run) -> None:
        """Open the file, after the lines of the run so far."""
        try:
            if run.step and os.path.exists(self.path):
                self._cut(run)
                self._file = open(self.path, "a", encoding="utf-8")  # noqa: SIM115 (until the run ends)
            else:
                self._file = open(self.path, "w", encoding="utf-8")  # noqa: SIM115
        except OSError as e:
            not_written(self.path, e)

    def _cut(self, run: Run) -> None:
        """Cut the file off after the last line of the run so far: lines stand in the order of the run."""
        end = 0
        with open(self.path, "rb+") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    break
                try:
                    found = json.loads(line)
                    is_later = found["step"] > run.step or found["epoch"] > run.epoch + (found["kind"] == "step")
                except (ValueError, KeyError, TypeError):
                    mend = "It is not the log of this run: give another path."
                    fail(DataError, f"{self.path}, line {number}, is no line of a JSONLLogger", mend)
                if is_later:
                    break
                end += len(line)
            file.truncate(end)

    def _write(self, kind: str, row: Mapping[str, Any]) -> None:
        assert self._file is not None
        line = json.dumps({"kind": kind, **{name: _json(value) for name, value in row.items()}}, allow_nan=False)
        try:
            self._file.write(line + "\n")
            self._file.flush()
        except OSError as e:
            not_written(self.path, e)

    def on_step_end(self, run: Run) -> None:
        """Write the step's line."""
        if self.steps:
            self._write("step", run.history.steps.row(-1))

    def on_epoch_end(self, run: Run) -> None:
        """Write the epoch's line."""
        self._write("epoch", run.row)

    def on_end(self, run: Run) -> None:
        """Close the file."""
        file, self._file = self._file, None
        if file is not None:
            _close(file, self.path)


class TensorBoard(Callback):
    """Event files that TensorBoard shows, by :class:`wengert.interop.tensorboard.SummaryWriter`.

    Parameters
    ----------
    log_dir: the folder of the run.
    steps: whether there is a point for every step, tags `step/loss`; those of epochs are `epoch/loss`.
    histograms: every so many epochs the distributions of the weights are added, `weights/...`; None: never.

    Points are placed by the number of steps. A resumed run has TensorBoard leave out what was written after the
    checkpoint. Raises GraphError where the package `tensorboard` is not installed.

    >>> import wengert as wg
    >>> wg.train.TensorBoard("runs/first").log_dir
    'runs/first'
    """

    rank = 1

    def __init__(self, log_dir: Path, steps: bool = True, histograms: int | None = None) -> None:
        self.log_dir, self.steps, self.histograms = os.fspath(log_dir), steps, histograms
        self._writer: SummaryWriter | None = None
        event_writer()

    def on_start(self, run: Run) -> None:
        """Open a file of events."""
        # Steps count from 1: those after the checkpoint are to go.
        self._writer = SummaryWriter(self.log_dir, purge_step=run.step + 1 if run.step else None)

    def _add(self, group: str, row: Mapping[str, Any], step: int) -> None:
        assert self._writer is not None
        for name, value in row.items():
            if name not in ("epoch", "step") and not np.ndim(value):
                self._writer.add_scalar(f"{group}/{name}", value, step)

    def on_step_end(self, run: Run) -> None:
        """Add the step's values."""
        if self.steps:
            self._add("step", run.history.steps.row(-1), run.step)

    def on_epoch_end(self, run: Run) -> None:
        """Add the epoch's values."""
        assert self._writer is not None
        self._add("epoch", run.row, run.step)
        if self.histograms is not None and run.epoch % self.histograms == 0:
            for name, value in run.model.named_parameters():
                self._writer.add_histogram(f"weights/{name}", value.detach(), run.step)
        self._writer.flush()

    def on_end(self, run: Run) -> None:
        """Close the file."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()


def _json(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list):
        return [_json(v) for v in value]
    return value if not isinstance(value, float) or math.isfinite(value) else str(value)


def _close(file: TextIO, path: str) -> None:
    try:
        file.close()
    except OSError as e:
        not_written(path, e)
