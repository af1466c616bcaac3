"""`wengert inspect` and `wengert export` with ONNX models."""

from __future__ import annotations

from pathlib import Path

import pytest

import wengert as wg
from wengert.cli import main

pytest.importorskip("onnx", reason="the package onnx is not installed")


def test_a_graph_is_exported_and_inspected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = tmp_path / "g.json"
    graph.write_text(wg.graph(lambda x: wg.tanh(x) + 1)(wg.spec((None, 3))).to_json())
    out = tmp_path / "g.onnx"
    assert main(["export", str(graph), str(out), "--opset", "18"]) == 0
    assert "opset 18" in capsys.readouterr().out
    assert main(["inspect", str(out)]) == 0
    said = capsys.readouterr().out
    assert "operators = ai.onnx 18" in said
    assert "x 3" in said
    assert "1 Tanh, 1 Add" in said
    assert wg.interop.onnx.load(out)(wg.zeros((2, 3))).tolist() == [[1.0] * 3] * 2


def test_what_is_no_model_or_graph(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.onnx"
    bad.write_bytes(b"nothing")
    assert main(["inspect", str(bad)]) == 1
    assert "this is no ONNX model" in capsys.readouterr().err
    empty = tmp_path / "g.json"
    empty.write_text("")
    assert main(["export", str(empty), str(tmp_path / "o.onnx")]) == 1
    assert "is empty" in capsys.readouterr().err
