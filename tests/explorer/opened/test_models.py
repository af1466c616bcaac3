"""ONNX models in the explorer: what runs, on what inputs, what is told of each node; hostile documents are refused."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

pytest.importorskip("onnx", reason="the package onnx is not installed")

from fuzz_onnx import mutated
from onnx import TensorProto, helper, numpy_helper

import wengert as wg
from wengert.cli import main
from wengert.explorer import open_file
from wengert.explorer.opened.live import Opened, asked
from wengert.explorer.recording.scopes import node_of
from wengert.interop.onnx.inputs import Wanted
from wengert.interop.onnx.told import place_of

ROOT = Path(__file__).parents[3]
SCHEMA = json.loads((ROOT / "src/wengert/explorer/trace.schema.json").read_text())
FLOAT, INT = TensorProto.FLOAT, TensorProto.INT64


def saved(tmp_path: Path, nodes: list[Any], inputs: list[Any], weights: dict[str, Any], output: Any = None) -> Path:
    """Write a model whose last node gives its result."""
    ends = [output or helper.make_tensor_value_info(nodes[-1].output[0], FLOAT, None)]
    stored = [numpy_helper.from_array(np.asarray(a), n) for n, a in weights.items()]
    graph = helper.make_graph(nodes, "net", inputs, ends, stored)
    path = tmp_path / "model.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]).SerializeToString())
    return path


def value(name: str, shape: Any, kind: int = FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def mlp(tmp_path: Path) -> Path:
    """Write two blocks of one structure and a head, by the names that exporters give."""
    rng = np.random.default_rng(0)
    nodes, at = [], "x"
    weights = {}
    for i in range(2):
        weights[f"blocks.{i}.w"] = rng.standard_normal((4, 4)).astype(np.float32)
        weights[f"blocks.{i}.b"] = rng.standard_normal(4).astype(np.float32)
        names = [at, f"blocks.{i}.w", f"blocks.{i}.b"]
        nodes.append(
            helper.make_node("Gemm", names, [f"h{i}"], name=f"/blocks/blocks.{i}/lin/Gemm", transB=1, alpha=0.5)
        )
        nodes.append(helper.make_node("Relu", [f"h{i}"], [f"r{i}"], name=f"/blocks/blocks.{i}/act/Relu"))
        at = f"r{i}"
    nodes.append(helper.make_node("Softmax", [at], ["y"], name="/head/Softmax", axis=-1))
    return saved(tmp_path, nodes, [value("x", ["batch", 4])], weights)


def rows_of(found: Any, operator: str) -> list[Any]:
    return [r for r in found.recording.rows if (n := node_of(r.scope)) is not None and n.operator == operator]


def test_a_run_has_the_models_values_and_gradients(tmp_path: Path) -> None:
    path = mlp(tmp_path)
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    found = open_file(path, x, compiled=False)
    model = wg.interop.onnx.load(path)
    (root,) = found.recording.roots
    np.testing.assert_array_equal(root.value, model(x).detach().numpy())
    weight = model.initializer("blocks.0.w")
    wg.sum(model(x)).backward()
    (row,) = [r for r in found.recording.rows if r.name == "blocks.0.w"]
    np.testing.assert_allclose(row.gradient, weight.grad.numpy(), rtol=1e-6, atol=1e-7)
    jsonschema.Draft202012Validator(SCHEMA).validate(found.document)


def test_nodes_say_what_the_document_says(tmp_path: Path) -> None:
    found = open_file(mlp(tmp_path), compiled=False)
    origins = found.document["origins"]
    (gemm, *_) = [o for o in origins["list"] if o["operator"] == "Gemm"]
    assert gemm["attributes"] == {"alpha": 0.5, "transB": 1}
    assert gemm["inputs"] == ["x", "blocks.0.w", "blocks.0.b"]
    assert gemm["name"] == "/blocks/blocks.0/lin/Gemm"
    relu = rows_of(found, "Relu")[0]
    assert origins["list"][origins["nodes"][relu.index]]["about"].startswith("Relu takes one input")
    assert relu.name == "r0"


def test_blocks_of_one_structure_fold(tmp_path: Path) -> None:
    scopes, strings = (open_file(mlp(tmp_path), compiled=False).document[k] for k in ("scopes", "strings"))
    named = {strings[n]: h for n, h in zip(scopes["name"], scopes["hash"])}
    assert {"blocks", "0", "1"} <= set(named)
    assert named["0"] == named["1"] != named["blocks"]


@pytest.mark.parametrize(
    ("name", "metadata", "module", "call"),
    [
        ("/layers/layers.3/attn/MatMul", {}, "layers.3.attn", ""),
        ("model/dense_1/BiasAdd", {}, "model.dense_1", ""),
        ("Conv_12", {}, "", ""),
        ("n", {"pkg.torch.onnx.name_scopes": "['', 'blocks', 'blocks.0', 'relu']"}, "blocks.0", "relu"),
        ("n", {"pkg.torch.onnx.name_scopes": "__import__('os')"}, "", ""),
        ("n", {"pkg.torch.onnx.name_scopes": "[" * 9000}, "", ""),
        ("/" * 5000, {}, "", ""),
    ],
)
def test_the_place_of_a_node(name: str, metadata: dict[str, str], module: str, call: str) -> None:
    node = helper.make_node("Relu", ["x"], ["y"], name=name)
    for key, text in metadata.items():
        node.metadata_props.add(key=key, value=text)
    assert place_of(node) == (module, call)


def test_paths_of_modules_are_in_graphs_too(tmp_path: Path) -> None:
    model = wg.interop.onnx.load(mlp(tmp_path))
    graph = wg.graph(model)(wg.spec((2, 4)))
    assert {n.path for n in graph.computations if n.op.name == "relu"} == {"blocks.0.act", "blocks.1.act"}


# -- inputs


def test_sizes_are_defaulted_given_or_those_of_inputs(tmp_path: Path) -> None:
    path = mlp(tmp_path)
    for found, batch in (
        (open_file(path, compiled=False), 1),
        (open_file(path, sizes={"batch": 5}, compiled=False), 5),
        (open_file(path, x=np.ones((3, 4), np.float32), compiled=False), 3),
    ):
        told = found.document["meta"]["inputs"]
        assert told["list"][0]["shape"] == [batch, 4]
        assert found.recording.roots[0].value.shape == (batch, 4)
    with pytest.raises(wg.interop.onnx.OnnxError, match="no size 'rows'"):
        open_file(path, sizes={"rows": 2})
    with pytest.raises(wg.interop.onnx.OnnxError, match="no input 'z'"):
        open_file(path, z=1.0)


def test_a_seed_gives_the_same_numbers(tmp_path: Path) -> None:
    path = mlp(tmp_path)
    first, again, other = (open_file(path, seed=s, compiled=False).recording.rows[0].value for s in (3, 3, 4))
    assert (first == again).all()
    assert (first != other).all()


def test_indices_are_in_the_range_of_what_they_pick_from(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Cast", ["ids"], ["wide"], to=INT),
        helper.make_node("Gather", ["table", "wide"], ["rows"]),
        helper.make_node("Mul", ["rows", "attention_mask"], ["y"]),
    ]
    inputs = [value("ids", ["b", "length"], TensorProto.INT32), value("attention_mask", ["b", "length", 1])]
    path = saved(tmp_path, nodes, inputs, {"table": np.ones((5, 3), np.float32)})
    found = open_file(path, sizes={"length": 200}, compiled=False)
    assert found.recording.error is None
    given = {r.name: r.value for r in found.recording.rows if r.kind == "input"}
    ids, mask = given["ids"], given["attention_mask"]
    assert set(np.unique(ids)) == set(range(5))
    assert (mask == 1).all()


@pytest.mark.parametrize(
    ("how", "first"),
    [("zeros", [0, 0, 0, 0]), ("ones", [1, 1, 1, 1]), ("range", [0, 1, 2, 3]), ("[[4, 3, 2, 1]]", [4, 3, 2, 1])],
)
def test_how_an_input_is_made_can_be_said(tmp_path: Path, how: str, first: list[float]) -> None:
    found = open_file(mlp(tmp_path), x=how, compiled=False)
    assert found.recording.rows[0].value[0].tolist() == first
    assert found.document["meta"]["inputs"]["list"][0]["how"] == how


def test_what_is_no_input_is_refused(tmp_path: Path) -> None:
    with pytest.raises(wg.interop.onnx.OnnxError, match="is given as 'nothing'"):
        open_file(mlp(tmp_path), x="nothing")


def test_sizes_that_depend_on_others(tmp_path: Path) -> None:
    nodes = [helper.make_node("Concat", ["past", "now"], ["all"], axis=0), helper.make_node("Add", ["all", "m"], ["y"])]
    inputs = [value("past", ["b", "p"]), value("now", ["b", "n"]), value("m", ["2 * b", "p"])]
    found = open_file(saved(tmp_path, nodes, inputs, {}), sizes={"b": 3, "n": 8}, compiled=False)
    assert found.recording.error is None
    assert found.recording.roots[0].value.shape == (6, 8)


def test_other_sizes_are_tried_where_the_usual_ones_do_not_fit(tmp_path: Path) -> None:
    nodes = [helper.make_node("Reshape", ["x", "to"], ["y"])]
    weights = {"to": np.array([4, 8])}
    found = open_file(saved(tmp_path, nodes, [value("x", ["b", "n"])], weights), compiled=False)
    assert found.recording.error is None
    assert found.document["meta"]["inputs"]["sizes"] == {"b": 1, "n": 32}


# -- what does not run


def test_what_cannot_run_is_drawn_as_it_stands(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Fused", ["x", "w"], ["h"], domain="com.vendor", name="/a/Fused", mode="fast"),
        helper.make_node("Relu", ["h"], ["y"]),
    ]
    path = saved(tmp_path, nodes, [value("x", ["b", 3])], {"w": np.eye(3, dtype=np.float32)})
    found = open_file(path)
    meta = found.document["meta"]
    assert not meta["values"]
    assert "does not run: node '/a/Fused'" in meta["notes"][0]
    assert [o["operator"] for o in found.document["origins"]["list"]] == ["Fused", "Relu"]
    assert found.document["origins"]["list"][0]["attributes"] == {"mode": "fast"}
    assert len(found.document["edges"]["dst"]) == 4
    (weight,) = [r for r in found.recording.rows if r.kind == "param"]
    assert found.document["stats"]["value"]["details"][str(weight.index)]["max"] == 1
    jsonschema.Draft202012Validator(SCHEMA).validate(found.document)


def test_the_structure_has_every_node_with_those_inside(tmp_path: Path) -> None:
    then = helper.make_graph([helper.make_node("Neg", ["x"], ["t"])], "then", [], [value("t", None)])
    other = helper.make_graph([helper.make_node("Abs", ["x"], ["e"])], "else", [], [value("e", None)])
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("If", ["flag"], ["y"], then_branch=then, else_branch=other),
    ]
    path = saved(tmp_path, nodes, [value("x", [3]), value("flag", [], TensorProto.BOOL)], {})
    found = open_file(path, structure=True)
    assert sorted(r.op.name for r in found.recording.rows if r.op is not None) == ["Abs", "If", "Neg", "Shape"]
    ran = open_file(path, flag="true", compiled=False)
    assert [r.op.name for r in ran.recording.rows if r.op is not None] == ["negative"]
    assert "1 of the document's 2 nodes give constants" in ran.document["meta"]["notes"][-1]


def test_a_run_that_fails_is_shown_as_far_as_it_went(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["h"]),
        helper.make_node("MatMul", ["h", "w"], ["y"], name="product"),
    ]
    path = saved(tmp_path, nodes, [value("x", [2, 3])], {"w": np.ones((4, 4), np.float32)})
    found = open_file(path)
    assert "node 'product' (MatMul)" in found.document["meta"]["error"]["text"]
    assert [r.op.name for r in found.recording.rows if r.op is not None] == ["relu"]


@pytest.mark.parametrize("content", [b"", b"nothing", b"\x08\x08" * 40])
def test_what_is_no_model(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.onnx"
    path.write_bytes(content)
    with pytest.raises(wg.WengertError, match="no ONNX model"):
        open_file(path)
    with pytest.raises(wg.WengertError, match="does not exist"):
        open_file(tmp_path / "none.onnx")


@pytest.mark.parametrize("structure", [False, True])
def test_mutants_are_shown_or_refused(tmp_path: Path, structure: bool) -> None:
    data = mlp(tmp_path).read_bytes()
    rng = random.Random(7)
    path = tmp_path / "mutant.onnx"
    shown = 0
    for _ in range(60):
        path.write_bytes(mutated(rng, data))
        try:
            jsonschema.Draft202012Validator(SCHEMA).validate(
                open_file(path, structure=structure, compiled=False).document
            )
        except wg.WengertError:
            continue
        shown += 1
    assert shown > 10


def test_names_of_a_document_are_text(tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script>"
    nodes = [helper.make_node("Relu", ["x"], ["y"], name=evil, doc_string=evil)]
    path = saved(tmp_path, nodes, [value("x", [2])], {})
    assert "<script>alert" not in open_file(path, compiled=False).to_html()


# -- on the server


def test_a_live_page_runs_the_model_again(tmp_path: Path) -> None:
    app = Opened(mlp(tmp_path), Wanted())
    posts: list[Any] = []
    talk = app.open(posts.append)
    message = {"id": 1, "ask": "inputs", "seed": 5, "sizes": {"batch": 3}, "inputs": {"x": "ones"}}
    talk._run(*_parts(message))
    assert posts[-1].header == {"type": "answer", "id": 1, "answer": True}
    assert app.document["meta"]["inputs"]["list"][0] == {
        "name": "x", "dtype": "float32", "shape": [3, 4], "how": "ones",
    }  # fmt: skip
    talk._run(*_parts({**message, "id": 2, "inputs": {"x": "[1]"}}))
    # A run that fails is shown; what cannot be an input is refused, and the page stays.
    before = app.document
    talk._run(*_parts({**message, "id": 3, "inputs": {"x": "no"}}))
    assert "is given as 'no'" in posts[-1].header["error"]
    assert app.document is before


def _parts(message: dict[str, Any]) -> Any:
    found = asked(message)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "message",
    [
        {"id": 1, "ask": "inputs"},
        {"id": "1", "ask": "inputs", "seed": 0, "sizes": {}, "inputs": {}},
        {"id": 1, "ask": "inputs", "seed": 0, "sizes": {"batch": "many"}, "inputs": {}},
        {"id": 1, "ask": "inputs", "seed": 0, "sizes": {}, "inputs": {"x": 3}},
        {"id": 1, "ask": "inputs", "seed": 0.5, "sizes": {}, "inputs": {}},
    ],
)
def test_what_is_no_question_is_said_to_be_none(tmp_path: Path, message: dict[str, Any]) -> None:
    posts: list[Any] = []
    Opened(mlp(tmp_path), Wanted()).open(posts.append).receive(message)
    assert posts[-1].header["type"] == "error"


# -- on the command line


def test_options_stand_before_or_behind_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, page, x = str(mlp(tmp_path)), tmp_path / "page.html", tmp_path / "x.npy"
    assert main(["explore", path, "--save", str(page), "--size", "batch=3", "--seed", "2"]) == 0
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    np.save(x, np.ones((2, 4), np.float32))
    assert main(["explore", "--check", path, "--input", f"x={x}"]) == 0
    assert main(["explore", "--structure", "--save", str(page), path]) == 0
    assert "11 nodes, 5 operations" in capsys.readouterr().out
    assert main(["explore", path, "--check", "--size", "rows=3"]) == 2
    assert "no size 'rows'" in capsys.readouterr().err


def test_options_of_models_are_refused_elsewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "script.py"
    script.write_text("import wengert as wg\n")
    assert main(["explore", "--check", "--seed", "1", str(script)]) == 2
    assert "--seed is for a model" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["explore", "model.onnx", "--size", "batch"])
