"""Runs that are kept in a folder: histories of watched trainings, and TensorBoard's event files."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wengert as wg
from wengert.core.errors import DataError
from wengert.explorer import runs
from wengert.explorer.server import Message
from wengert.explorer.watch import POINTS, Recorded, Watched


def told(message: Message) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    data = message.encoded()
    length = int.from_bytes(data[:4], "little")
    header = json.loads(data[4 : 4 + length])
    arrays = {
        name: np.frombuffer(data, "<f4", at["shape"][0], 4 + length + at["offset"])
        for name, at in header.pop("arrays", {}).items()
    }
    return header, arrays


def watched(folder: Path, title: str, losses: list[float]) -> Watched:
    made = Watched(title, [], 10, folder)
    for step, loss in enumerate(losses, 1):
        made.step(step, {"loss": loss})
    made.tick()
    made.keep()
    return made


def test_a_run_is_kept_and_stands_beside_the_next(tmp_path: Path) -> None:
    watched(tmp_path, "one/é run", [3.0, 2.0, float("nan"), float("inf")])
    (kept,) = runs.runs_in(tmp_path)
    assert kept.title == "one/é run"
    np.testing.assert_array_equal(kept.loss, [3.0, 2.0, np.nan, np.inf])
    posted: list[Message] = []
    watched(tmp_path, "two", [1.0]).open(posted.append)
    header, arrays = told(next(m for m in posted if m.header["type"] == "runs"))
    # Not itself.
    assert header["titles"] == ["one/é run"]
    assert arrays["steps0"].tolist() == [1, 2, 3, 4]


def test_a_history_does_not_grow_with_the_run_and_old_ones_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = watched(tmp_path, "long", [1.0 / k for k in range(1, 20_000)])
    assert len(runs.runs_in(tmp_path)[0].steps) <= 2 * POINTS
    assert long._file is not None
    assert long._file.stat().st_size < 100_000
    long._file.unlink()
    monkeypatch.setattr(runs, "KEPT", 3)
    for i in range(6):
        runs.keep(tmp_path / f"r{i}{runs.SUFFIX}", f"r{i}", np.arange(2.0), np.arange(2.0), {})
        os.utime(tmp_path / f"r{i}{runs.SUFFIX}", (i, 1_000_000_000 + i))
    assert sorted(p.name for p in tmp_path.glob("r*")) == [f"r{i}{runs.SUFFIX}" for i in (3, 4, 5)]


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"schema": "other"}', '{"schema": "wengert.watch/1", "steps": [1], "loss": 3, "title": ""}'],
)
def test_damaged_histories_are_passed_over(tmp_path: Path, text: str) -> None:
    (tmp_path / f"bad{runs.SUFFIX}").write_text(text)
    assert runs.runs_in(tmp_path) == []


def test_a_folder_that_is_not_there() -> None:
    with pytest.raises(DataError, match="there is no folder"):
        runs.runs_in(Path("/nowhere/at/all"))


def event_file(folder: Path) -> Path:
    tensorboard = pytest.importorskip("tensorboard.summary.writer.event_file_writer")
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.compat.proto.tensor_pb2 import TensorProto

    writer = tensorboard.EventFileWriter(str(folder))
    for step in range(50):
        values = [
            Summary.Value(tag="train/loss", simple_value=1 / (step + 1)),
            Summary.Value(tag="val_loss", tensor=TensorProto(dtype=1, float_val=[2.0 / (step + 1)])),
            Summary.Value(tag="raw_loss", tensor=TensorProto(dtype=2, tensor_content=np.float64(step).tobytes())),
            Summary.Value(tag="rate", simple_value=0.1),
        ]
        writer.add_event(Event(wall_time=1.0, step=1000 * step, summary=Summary(value=values)))
    writer.flush()
    writer.close()
    return next(folder.glob("*tfevents*"))


def test_event_files_are_runs_too(tmp_path: Path) -> None:
    file = event_file(tmp_path / "exp" / "a")
    found = {run.title: run for run in runs.runs_in(tmp_path)}
    assert set(found) == {"exp/a · train/loss", "exp/a · val_loss", "exp/a · raw_loss"}
    assert found["exp/a · train/loss"].steps.tolist() == [1000.0 * k for k in range(50)]
    np.testing.assert_allclose(found["exp/a · train/loss"].loss, 1 / np.arange(1, 51), rtol=1e-6)
    np.testing.assert_allclose(found["exp/a · val_loss"].loss, 2 / np.arange(1, 51), rtol=1e-6)
    np.testing.assert_allclose(found["exp/a · raw_loss"].loss, np.arange(50))
    # Cut anywhere it is read as far as it is whole.
    whole = file.read_bytes()
    for cut in (0, 5, 11, 13, 100, len(whole) - 1):
        file.write_bytes(whole[:cut])
        runs.runs_in(tmp_path)
    posted: list[Message] = []
    Recorded(tmp_path).open(posted.append)
    assert [m.header["type"] for m in posted] == ["welcome", "runs", "modules", "frame"]


@given(st.binary(max_size=200))
@settings(max_examples=200, deadline=None)
def test_what_is_no_event_file_gives_nothing(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    file = tmp_path_factory.getbasetemp() / "x.tfevents"
    file.write_bytes(len(data).to_bytes(8, "little") + b"0000" + data + b"0000")
    for step, tag, value in runs.scalars(file):
        assert (type(step), type(tag), type(value)) == (int, str, float)


def test_a_watched_step_keeps_its_history(tmp_path: Path) -> None:
    w = wg.tensor(1.0, requires_grad=True)

    def step() -> wg.Tensor:
        return w * w

    watching = wg.explore.watch(step, [w], open=False, history=tmp_path)  # type: ignore[attr-defined]
    for _ in range(5):
        watching()
    watching.watcher.close()
    (kept,) = runs.runs_in(tmp_path)
    assert kept.loss.tolist() == [1.0] * 5


def test_the_folder_is_served(tmp_path: Path) -> None:
    from wengert.explorer.server import Server

    async def once() -> str:
        async with Server(Recorded(tmp_path)) as server:
            return server.url

    assert asyncio.run(once()).startswith("http://127.0.0.1:")
