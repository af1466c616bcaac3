"""`wengert export MODEL --to FOLDER`: models as programs, and what is refused."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native code needs llvmlite")
pytest.importorskip("onnx")

import wengert as wg
from exported import needs
from wengert import nn
from wengert.cli import main


@pytest.fixture
def model(tmp_path: Path) -> Any:
    wg.manual_seed(0)
    made = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 5)).eval()
    wg.interop.onnx.save(made, (wg.spec(("n", 1, 6, 6)),), tmp_path / "a model.onnx")
    return made


def test_a_model_becomes_a_program(tmp_path: Path, model: Any, capsys: pytest.CaptureFixture[str]) -> None:
    needs("host")
    folder = tmp_path / "out"
    assert main(["export", str(tmp_path / "a model.onnx"), "--to", str(folder), "--size", "n=2"]) == 0
    assert "a_model.h" in capsys.readouterr().out
    x = np.random.default_rng(0).normal(size=(2, 1, 6, 6)).astype("f4")
    with wg.no_grad():
        expected = model(wg.tensor(x)).numpy()
    np.testing.assert_allclose(runpy.run_path(f"{folder}/load.py")["Model"]()(x), expected, rtol=1e-5, atol=1e-6)


def test_an_input_that_decides_is_given_a_value(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    needs("host")
    wg.interop.onnx.save(lambda x, k: x * k, (wg.spec(4), wg.spec((), "float32")), tmp_path / "m.onnx")
    command = ["export", str(tmp_path / "m.onnx"), "--to", str(tmp_path / "out"), "--value", "k=3"]
    assert main(command) == 0, capsys.readouterr().err
    program = runpy.run_path(f"{tmp_path}/out/load.py")["Model"]()
    np.testing.assert_allclose(program(np.arange(4, dtype="f4")), 3.0 * np.arange(4))


def test_a_graph_becomes_a_program(tmp_path: Path) -> None:
    needs("host")
    graph = wg.graph(lambda x, y: wg.exp(x) + y)(wg.spec(3), wg.spec(3))
    (tmp_path / "g.json").write_text(graph.to_json())
    assert main(["export", str(tmp_path / "g.json"), "--to", str(tmp_path / "out"), "--name", "f"]) == 0
    program = runpy.run_path(f"{tmp_path}/out/load.py")["Model"]()
    np.testing.assert_allclose(program(x=np.zeros(3, "f4"), y=np.ones(3, "f4")), 2.0)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--to", "out", "--size", "m=2"], "the model has no size 'm'"),
        (["--to", "out", "--size", "n"], "--size n is no size"),
        (["--to", "out", "--value", "y=1"], "the model has no input 'y'"),
        (["--to", "out", "--target", "vax"], "for the target 'vax'"),
        (["--to", "."], "is not empty"),
        (["a.onnx", "--to", "out"], "without OUT and --to, or with both"),
        ([], "without OUT and --to, or with both"),
    ],
)
def test_what_is_refused(
    tmp_path: Path,
    model: Any,
    more: list[str],
    told: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["export", "a model.onnx", *more]) == 1
    assert told in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["a model.onnx"]
