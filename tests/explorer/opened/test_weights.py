"""Files of weights in the explorer: the tree of names, statistics, and what is wrong with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

import wengert as wg
from wengert.cli import main
from wengert.explorer import open_file
from wengert.storage import safetensors_files

ROOT = Path(__file__).parents[3]
SCHEMA = json.loads((ROOT / "src/wengert/explorer/trace.schema.json").read_text())


def arrays() -> dict[str, Any]:
    w = np.random.default_rng(0).standard_normal((32, 16)).astype(np.float32)
    return {f"blocks.{i}.{n}": a for i in range(3) for n, a in (("w", w + i), ("b", np.zeros(32, np.float32)))}


def saved(tmp_path: Path, found: dict[str, Any]) -> Path:
    path = tmp_path / "model.safetensors"
    safetensors_files.write(str(path), found)
    return path


def test_names_are_a_tree_in_which_equal_blocks_fold(tmp_path: Path) -> None:
    found = open_file(saved(tmp_path, arrays()))
    document = found.document
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    strings, scopes = document["strings"], document["scopes"]
    named = {strings[n]: h for n, h in zip(scopes["name"], scopes["hash"])}
    assert named["0"] == named["1"] == named["2"] != named["blocks"]
    assert document["meta"]["stored"]
    assert len(document["nodes"]["op"]) == 6
    assert found.findings == []
    details = document["stats"]["value"]["details"]
    assert sum(details["1"]["hist"]) + sum(details["0"]["hist"]) == 32 * 16 + 32


@pytest.mark.parametrize("ending", ["pt", "npz"])
def test_other_formats_show_the_same(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"model.{ending}"
    assert main(["convert", str(saved(tmp_path, arrays())), str(path)]) == 0
    nodes = open_file(path).document["nodes"]
    assert len(nodes["op"]) == 6


def test_faults_are_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    w = arrays()["blocks.0.w"]
    bad, dead = w.copy(), w.copy()
    bad[1, 2] = np.nan
    dead[3] = 0
    found = {"a": w, "b.w": w.copy(), "c": bad, "d": dead, "e": np.zeros_like(w), "m": np.full((8, 8), -np.inf)}
    path = saved(tmp_path, {name: np.asarray(a, np.float32) for name, a in found.items()})
    findings = {f.rule: f for f in open_file(path).findings}
    assert {rule: (f.severity, f.title) for rule, f in findings.items()} == {
        "stored-nan": ("error", "1 NaN in c"),
        "stored-zero": ("warning", "e is all zeros"),
        "stored-dead-rows": ("note", "1 dead row in d"),
        "stored-infinity": ("note", "64 infinities in m"),
        "stored-copies": ("note", "stands in the file 2 times"),
    }
    assert "b.w" in findings["stored-copies"].text
    assert main(["explore", str(path), "--check"]) == 1
    assert "error: 1 NaN in c (stored-nan)" in capsys.readouterr().out


def test_odd_arrays(tmp_path: Path) -> None:
    odd = {"empty": np.zeros((0, 3), np.float32), "scalar": np.float32(2), "whole": np.arange(5), "t": np.ones(2, bool)}
    half = wg.ones((2, 2), dtype=wg.bfloat16).numpy()
    found = open_file(saved(tmp_path, {**{n: np.asarray(a) for n, a in odd.items()}, "half": half}))
    jsonschema.Draft202012Validator(SCHEMA).validate(found.document)
    assert found.findings == []
    assert sorted(found.document["strings"][n] for n in found.document["nodes"]["dtype"]) == [
        "bfloat16", "bool", "float32", "float32", "int64",
    ]  # fmt: skip


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    whole = saved(tmp_path, arrays()).read_bytes()
    path = tmp_path / "damaged.safetensors"
    for n in (0, 5, 40, len(whole) - 1):
        path.write_bytes(whole[:n])
        with pytest.raises(wg.DataError):
            open_file(path)


def test_weights_take_no_inputs(tmp_path: Path) -> None:
    with pytest.raises(wg.DataError, match="holds weights and no program"):
        open_file(saved(tmp_path, arrays()), x=1)
