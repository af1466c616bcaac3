"""`wengert explore FILE`: what a file is is seen from what is in it; comparisons are printed whole."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

import wengert as wg
import wengert.torch as torch
from wengert.cli import main
from wengert.core.errors import DataError
from wengert.explorer import explore
from wengert.storage import load_weights


def archive(*names: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        for name in names:
            made.writestr(name, "{}")
    return out.getvalue()


@pytest.mark.parametrize("name", ["model.pth.tar", "weights", "checkpoint.model", "w.safetensors.bak"])
def test_weights_are_opened_whatever_they_are_called(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    if name == "model.pth.tar":
        torch.save({"w": torch.ones(2, 3)}, path)
    else:
        wg.storage.save(path, {"w": wg.ones((2, 3))})
    assert main(["explore", str(path), "--save", str(tmp_path / "page.html")]) == 0
    assert "1 nodes" in capsys.readouterr().err or (tmp_path / "page.html").stat().st_size > 1000
    assert (tmp_path / "page.html").exists()


REFUSED: dict[str, tuple[bytes, str]] = {
    "model.h5": (b"\x89HDF\r\n\x1a\n" + b"\0" * 99, "an HDF5 file"),
    "model.tflite": (b"\x1c\0\0\0TFL3" + b"\0" * 99, "TensorFlow Lite.*ONNX"),
    "model.jit": (archive("model/code/__torch__.py", "model/data.pkl"), "TorchScript.*torch.onnx.export"),
    "model.pt2": (archive("serialized_exported_program.json"), "torch.export.*torch.onnx.export"),
    "model.keras": (archive("config.json", "model.weights.h5"), "Keras.*npz"),
    "model.skops": (archive("schema.json"), "skops.*skl2onnx"),
    "model.tar": (b"\0" * 257 + b"ustar" + b"\0" * 250, "a tar archive: unpack it first"),
    "model.gz": (b"\x1f\x8bxx", "compressed with gzip"),
    "model.mlmodel": (b"\0\1\2\3", "no format of weights that is known"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_read_is_named(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, what = REFUSED[name]
    path = tmp_path / name
    path.write_bytes(data)
    assert main(["explore", str(path)]) == 1
    told = capsys.readouterr().err
    assert "null bytes" not in told
    with pytest.raises(DataError, match=what):
        load_weights(path)
    assert str(path) in told


def test_a_script_may_have_any_name(tmp_path: Path) -> None:
    path = tmp_path / "train"
    path.write_text("import wengert as wg\n(wg.tensor(2.0, requires_grad=True) ** 2).backward()\n")
    assert main(["explore", str(path), "--save", str(tmp_path / "page.html")]) == 0


def test_a_comparison_prints_all_it_found() -> None:
    wg.manual_seed(0)
    model = wg.nn.Sequential(wg.nn.Linear(4, 8), wg.nn.ReLU(), wg.nn.Linear(8, 1))
    x = np.ones((3, 4), np.float32)
    before = explore(lambda x: (model(x) ** 2).mean(), x, compiled=False)
    after = explore(lambda x: wg.tanh(model(x) * 3.0).sum(), x, compiled=False)
    found = before.diff(after)
    lines = str(found).splitlines()
    edits = found.document["diff"]["edits"]
    assert len(edits) == 5
    assert "2 removed, 3 added:" in lines
    for edit in edits:
        assert any(
            line.startswith(f"  {'+' if edit['kind'] == 'added' else '-'}") and edit["text"] in line for line in lines
        )
    assert any(line.startswith("1 value differs, that of ") for line in lines)
    assert any("gradients differ, first that of x" in line for line in lines)
    assert str(before.diff(before)).endswith("\nno edits")
    assert "no edits" not in str(before)
