"""`wengert inspect` and `wengert convert`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import wengert as wg
import wengert.torch as torch
from wengert.cli import main
from wengert.storage import load_weights, save

DATA = Path(__file__).parents[1] / "storage" / "data"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    wg.manual_seed(0)
    path = tmp_path / "x.pt"
    torch.save({"state_dict": torch.nn.Linear(3, 2).state_dict(), "half": torch.ones(2, dtype=torch.bfloat16)}, path)
    return path


def test_inspect(checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(checkpoint)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{checkpoint}: PyTorch, {checkpoint.stat().st_size:,} bytes"
    assert lines[1:] == [
        "name               shape  dtype     bytes",
        "state_dict.weight  2 x 3  float32      24",
        "state_dict.bias    2      float32       8",
        "half               2      bfloat16      4",
        "3 tensors, 10 elements, 36 bytes (2 float32, 1 bfloat16)",
    ]
    assert main(["inspect", str(checkpoint), "--part", "state_dict"]) == 0
    assert "2 tensors, 8 elements" in capsys.readouterr().out
    assert main(["inspect", str(checkpoint), "--part", "x"]) == 1
    assert "has no part 'x'" in capsys.readouterr().err


def test_inspect_gguf(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(DATA / "blocks.gguf")]) == 0
    out = capsys.readouterr().out
    assert "epsilon = 0.5" in out
    assert "Q4_0  3 x 64  Q4_0     108" in out


def test_inspect_graphs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = wg.graph(lambda x: wg.sin(x) * wg.ones(3))(wg.spec((3,)))
    for text in (graph.to_json(), graph.to_json(indent=2), graph.text()):
        (tmp_path / "g").write_text(text)
        assert main(["inspect", str(tmp_path / "g")]) == 0
        out = capsys.readouterr().out
        assert out.startswith("a graph of ")
        assert "inputs: 1, outputs: 1, operations: " in out


def test_inspect_checkpoints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith(f"wengert: {tmp_path} has no checkpoints\n")
    for step in (1, 2):
        wg.train.save_checkpoint(tmp_path, step=step, model=wg.nn.Linear(1, 1))
    (tmp_path / "checkpoint-000002" / "model.safetensors").write_bytes(b"")
    assert main(["inspect", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[:2] == ["checkpoint-000001", "1"]
    assert "good" in lines[1]
    assert "model.safetensors is damaged: it has 0 bytes" in lines[2]
    (tmp_path / "checkpoint-000001" / "manifest.json").unlink()
    assert main(["inspect", str(tmp_path)]) == 1


def test_no_place_of_a_command_is_named() -> None:
    """What runs `python -m` is the interpreter's, and no line of the user."""
    done = subprocess.run(
        [sys.executable, "-m", "wengert", "inspect", "no.npz"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.partition("\n")[0] == "wengert: no such file: no.npz"


def test_what_a_file_says_does_not_reach_the_terminal_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(tmp_path / "x", {"\x1b[2J": wg.ones(1)}, {"a\x1b]0;": "\x07" * 100})
    assert main(["inspect", str(tmp_path / "x")]) == 0
    assert not set(capsys.readouterr().out) & {"\x1b", "\x07"}


@pytest.mark.parametrize("ending", ["safetensors", "npz", "pt", "pth"])
def test_convert_there_and_back(ending: str, checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = load_weights(checkpoint, "state_dict")
    out = checkpoint.with_name(f"y.{ending}")
    assert main(["convert", str(checkpoint), str(out), "--part", "state_dict"]) == 0
    assert "2 tensors, 32 bytes, from PyTorch" in capsys.readouterr().out
    back = checkpoint.with_name("z.pt")
    assert main(["convert", str(out), str(back)]) == 0
    for found in (load_weights(out), load_weights(back)):
        assert set(found) == set(given)
        for name in given:
            np.testing.assert_array_equal(found[name], given[name])
    assert main(["convert", str(out), str(back), "--dtype", "float16"]) == 0
    assert {str(v.dtype) for v in load_weights(back).values()} == {"float16"}


def test_what_cannot_be_converted(checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def told(*args: str) -> str:
        assert main(["convert", str(checkpoint), *args]) == 1
        return capsys.readouterr().err

    assert "OUT ends with '.h5'" in told(str(checkpoint.with_name("y.h5")))
    assert "int32 is no floating dtype" in told(str(checkpoint.with_name("y.npz")), "--dtype", "int32")
    assert "half is of dtype bfloat16" in told(str(checkpoint.with_name("y.npz")))
    assert sorted(p.name for p in checkpoint.parent.iterdir()) == ["x.pt"]
