"""Checkpoints: a good one is there whatever happens, and training goes on from it bit for bit."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.core.errors import DataError, StateError
from wengert.storage import files
from wengert.train import load_checkpoint, save_checkpoint
from wengert.train.checkpoints import survey

PROGRAM = Path(__file__).parents[1] / "helpers" / "killed_training.py"


def disturbed(folder: Path, kills: int, seed: int) -> str:
    command = [sys.executable, str(PROGRAM), str(folder), str(kills), str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
def test_kills_full_disks_and_two_writers(tmp_path: Path) -> None:
    assert "8 kills" in disturbed(tmp_path, 8, 0)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
def test_a_hundred_kills(tmp_path: Path) -> None:
    assert "100 kills" in disturbed(tmp_path, 100, 1)


def model_of(value: float) -> wg.nn.Module:
    model = wg.nn.Linear(2, 2)
    for p in model.parameters():
        p.assign_(wg.full(p.shape, value))
    return model


def flip(file: Path, at: float = 0.5) -> None:
    data = bytearray(file.read_bytes())
    data[int(len(data) * at)] ^= 1
    file.write_bytes(bytes(data))


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


DAMAGE: dict[str, Callable[[Path], None]] = {
    "a flipped bit": lambda folder: flip(folder / "model.safetensors"),
    "a flipped bit of a value": lambda folder: flip(folder / "model.safetensors", 0.99),
    "a file cut short": lambda folder: truncate(folder / "model.safetensors"),
    "a missing file": lambda folder: (folder / "model.safetensors").unlink(),
    "a flipped bit of the manifest": lambda folder: flip(folder / "manifest.json"),
    "an empty manifest": lambda folder: (folder / "manifest.json").write_text(""),
    "a missing manifest": lambda folder: (folder / "manifest.json").unlink(),
    "a manifest of another kind": lambda folder: (folder / "manifest.json").write_text("[1]"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_the_last_good_one_is_taken(name: str, tmp_path: Path) -> None:
    for step in (1, 2, 3):
        save_checkpoint(tmp_path, step=step, model=model_of(step))
    DAMAGE[name](tmp_path / "checkpoint-000003")
    model = model_of(0)
    with pytest.warns(RuntimeWarning, match=r"checkpoint-000002 is loaded in its place: checkpoint-000003: "):
        found = load_checkpoint(tmp_path, model=model)
    assert found is not None
    assert found.step == 2
    assert [os.path.basename(path) for path, _ in found.skipped] == ["checkpoint-000003"]
    assert model.weight.tolist() == [[2.0, 2.0], [2.0, 2.0]]
    assert [one.problem is None for one in survey(tmp_path)] == [True, True, False]
    for step in (1, 2):
        DAMAGE[name](tmp_path / f"checkpoint-00000{step}")
    with pytest.raises(DataError, match="has no good checkpoint"):
        load_checkpoint(tmp_path, model=model)
    # What is written next is the newest, and good.
    save_checkpoint(tmp_path, step=4, model=model_of(4))
    again = load_checkpoint(tmp_path, model=model)
    assert again is not None
    assert again.step == 4


def test_the_pointer(tmp_path: Path) -> None:
    assert load_checkpoint(tmp_path / "none") is None
    assert load_checkpoint(tmp_path) is None
    for step in (1, 2, 3):
        path = save_checkpoint(tmp_path, step=step, value=step)
    assert (tmp_path / "latest").read_text() == "checkpoint-000003\n"
    for text, step in (("checkpoint-000002\n", 2), ("../evil", 3), ("\0", 3), ("checkpoint-000099", 3), ("", 3)):
        (tmp_path / "latest").write_text(text)
        found = load_checkpoint(tmp_path)
        assert found is not None
        assert found["value"] == step
    (tmp_path / "latest").unlink()
    assert load_checkpoint(tmp_path).step == 3  # type: ignore[union-attr]
    # One of them by its own folder.
    assert load_checkpoint(path).step == 3  # type: ignore[union-attr]


def test_old_ones_are_deleted(tmp_path: Path) -> None:
    for step in range(6):
        save_checkpoint(tmp_path, step=step, keep=2, value=step)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["checkpoint-000005", "checkpoint-000006", "latest"]
    with pytest.raises(DataError, match="keep=0"):
        save_checkpoint(tmp_path, keep=0)


def test_what_ended_processes_left_is_deleted(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    mine = tmp_path / f".staged-{socket.gethostname()}-{os.getpid()}-12345678"
    others = [
        tmp_path / f".staged-{socket.gethostname()}-{gone.pid}-12345678",
        tmp_path / ".gone-checkpoint-000001-12345678",
    ]
    elsewhere = tmp_path / ".staged-elsewhere-1-12345678"
    for folder in (mine, elsewhere, *others):
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(b"half")
    save_checkpoint(tmp_path, value=1)
    assert [f.exists() for f in (mine, elsewhere, *others)] == [True, True, False, False]
    os.utime(elsewhere, (0, 0))
    save_checkpoint(tmp_path, value=1)
    assert not elsewhere.exists()


def test_all_kinds_of_parts(tmp_path: Path) -> None:
    def parts() -> dict[str, Any]:
        model = wg.nn.Linear(2, 2)
        optimizer = wg.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        return {
            "model": model,
            "optimizer": optimizer,
            "scheduler": wg.optim.lr_scheduler.MultiStepLR(optimizer, [1, 3]),
            "g": wg.random.Generator(5),
            "n": np.random.default_rng(5),
            "p": random.Random(5),
        }

    given = parts()
    given["model"](wg.ones(2)).sum().backward()
    given["optimizer"].step()
    given["scheduler"].step()
    for draw in (lambda: wg.rand(3, generator=given["g"]), given["n"].random, given["p"].random):
        draw()
    save_checkpoint(tmp_path, random=("wengert", "python", "numpy"), config={"lr": 0.1, "name": "é"}, **given)
    expected = [wg.rand(2).tolist(), random.random(), np.random.rand(), wg.rand(2, generator=given["g"]).tolist()]  # noqa: NPY002
    expected += [given["n"].random(), given["p"].random()]
    other = parts()
    found = load_checkpoint(tmp_path, **other)
    assert found is not None
    assert found["config"] == {"lr": 0.1, "name": "é"}
    assert found.step is None
    got = [wg.rand(2).tolist(), random.random(), np.random.rand(), wg.rand(2, generator=other["g"]).tolist()]  # noqa: NPY002
    assert [*got, other["n"].random(), other["p"].random()] == expected
    assert other["scheduler"].state_dict() == given["scheduler"].state_dict()
    assert type(other["scheduler"].milestones) is type(given["scheduler"].milestones)
    ours, theirs = (x["optimizer"].state_dict()["state"][0] for x in (other, given))
    assert all((np.asarray(ours[k]) == np.asarray(theirs[k])).all() for k in theirs)


def test_refusals(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, model=model_of(1))
    with pytest.raises(DataError, match="has no part 'optimizer'"):
        load_checkpoint(tmp_path, optimizer=object())
    with pytest.raises(StateError, match="does not fit"):
        load_checkpoint(tmp_path, model=wg.nn.Linear(3, 3))
    with pytest.raises(DataError, match="which cannot be saved"):
        save_checkpoint(tmp_path, thing=object())
    with pytest.raises(DataError, match="shared generators are"):
        save_checkpoint(tmp_path, random=("dice",))
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="was not written"):
        save_checkpoint(tmp_path / "file", value=1)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["checkpoint-000001", "file", "latest"]


@pytest.mark.parametrize("call", ["fsync", "replace", "rename", "mkdir"])
def test_a_disk_that_is_full(call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever cannot be done for lack of space: what was there stays, and nothing is left beside it."""
    save_checkpoint(tmp_path, step=1, model=model_of(1))
    real = getattr(os, call)
    for after in range(12):
        calls = 0

        def full(*args: Any, after: int = after, **kwargs: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls > after:
                raise OSError(28, "No space left on device")
            return real(*args, **kwargs)

        monkeypatch.setattr(files.os, call, full)
        told = ""
        try:
            save_checkpoint(tmp_path, step=2, model=model_of(2))
        except DataError as e:
            told = str(e)
        assert not told or "No space left on device" in told
        monkeypatch.undo()
        model = model_of(0)
        found = load_checkpoint(tmp_path, model=model)
        assert found is not None
        assert found.step in (1, 2)
        assert model.weight.tolist() == [[found.step] * 2] * 2
        assert not [p.name for p in tmp_path.iterdir() if p.name.startswith(".") and told and ".gone" not in p.name]
        if calls <= after:
            break
    else:
        pytest.fail("it always failed")
