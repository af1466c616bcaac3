"""`check` of a document: the first node at which another runtime differs, with the line that it came from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the package onnx is not installed")
pytest.importorskip("onnx.reference", reason="the package onnx is not installed")

from onnx import TensorProto, helper, numpy_helper

import wengert as wg
from wengert.interop.onnx import OnnxError, check, registry, save


def plant(monkeypatch: pytest.MonkeyPatch, operator: str, wrong: Any) -> None:
    """Make the rule of an operator give something else."""
    rules = registry._RULES[("", operator)]
    made = [replace(rule, function=wrong(rule.function)) for rule in rules]
    monkeypatch.setitem(registry._RULES, ("", operator), made)


def shifted(rule: Any) -> Any:
    return lambda *args, **attrs: rule(*args, **attrs) + 0.25


def net(x: Any) -> Any:
    h = wg.tanh(x * 2.0)
    return wg.exp(h) / wg.sum(wg.tanh(h))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "net.onnx"
    save(net, wg.spec((None, 3)), file, names=["x"])
    return file


def test_a_sound_model_agrees(path: Path) -> None:
    assert check(path, runtime="reference") is None
    assert check(str(path), [np.ones((2, 3), np.float32)], runtime="reference") is None
    assert check(path.read_bytes(), {"x": wg.ones((2, 3))}, runtime="reference") is None
    assert check(path, sizes={"axis0": 4}, seed=3, runtime="reference") is None


@pytest.mark.parametrize("runtime", ["reference", "onnxruntime"])
@pytest.mark.parametrize(
    ("operator", "line"), [("Tanh", "h = wg.tanh"), ("Exp", "return wg.exp"), ("Div", "return wg.exp")]
)
def test_the_first_node_is_named_with_its_line(
    path: Path, monkeypatch: pytest.MonkeyPatch, operator: str, line: str, runtime: str
) -> None:
    if runtime == "onnxruntime":
        pytest.importorskip("onnxruntime")
    plant(monkeypatch, operator, shifted)
    found = check(path, runtime=runtime)
    assert found is not None
    assert found.op == operator
    assert abs(found.largest - 0.25) < 1e-4
    file, number = found.source.rsplit(":", 1)
    assert Path(file) == Path(__file__)
    assert Path(__file__).read_text().splitlines()[int(number) - 1].strip().startswith(line)


def document(nodes: list[Any], weights: dict[str, Any], shape: Any = (2, 4)) -> Any:
    stored = [numpy_helper.from_array(np.asarray(a), n) for n, a in weights.items()]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    kind = TensorProto.FLOAT
    graph = helper.make_graph(nodes, "g", [x], [helper.make_tensor_value_info("y", kind, None)], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def test_a_result_among_several(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [
        helper.make_node("Split", ["x"], ["a", "b"], axis=1, num_outputs=2, name="cut"),
        helper.make_node("Sub", ["a", "b"], ["y"], name="gap"),
    ]
    model = document(nodes, {})
    assert check(model, runtime="reference") is None
    plant(monkeypatch, "Split", lambda rule: lambda *a, **k: tuple(p * (1 + i) for i, p in enumerate(rule(*a, **k))))
    found = check(model, runtime="reference")
    assert found is not None
    assert (found.node, found.op, found.source) == ("cut", "Split", "")


def test_a_shape_that_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["s"], name="size"),
        helper.make_node("Concat", ["s", "one"], ["to"], axis=0, name="join"),
        helper.make_node("Reshape", ["x", "to"], ["y"], name="wide"),
    ]
    model = document(nodes, {"one": np.array([1])})
    assert check(model, runtime="reference") is None
    plant(monkeypatch, "Concat", lambda rule: lambda *a, **k: wg.flip(rule(*a, **k), 0))
    found = check(model, runtime="reference")
    assert found is not None
    assert (found.node, found.op) == ("join", "Concat")


def test_a_fault_inside_a_branch_is_its_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    out = helper.make_tensor_value_info("t", TensorProto.FLOAT, None)
    then = helper.make_graph([helper.make_node("Neg", ["h"], ["t"])], "then", [], [out])
    other = helper.make_graph([helper.make_node("Abs", ["h"], ["t"])], "else", [], [out])
    nodes = [
        helper.make_node("Relu", ["x"], ["h"]),
        helper.make_node("If", ["flag"], ["y"], then_branch=then, else_branch=other, name="choice"),
    ]
    model = document(nodes, {"flag": np.array(True)})
    assert check(model, runtime="reference") is None
    plant(monkeypatch, "Neg", shifted)
    found = check(model, runtime="reference")
    assert found is not None
    assert (found.node, found.op) == ("choice", "If")


def test_what_rounding_adds_up_is_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each node is a little off, within what is allowed; the last one is further off than that, on other operands."""
    nodes = [helper.make_node("Exp" if i % 2 else "Log", [f"v{i}" if i else "x"], [f"v{i + 1}"]) for i in range(8)]
    model = document([*nodes, helper.make_node("Identity", ["v8"], ["y"])], {})
    plant(monkeypatch, "Exp", lambda rule: lambda x: rule(x) * (1 + 5e-4))
    x = [np.full((2, 4), 3.0, np.float32)]
    assert check(model, x, rtol=1e-3, atol=0, runtime="reference") is None
    assert check(model, x, rtol=4e-4, atol=0, runtime="reference") is not None


def test_a_function_is_given_its_arguments() -> None:
    with pytest.raises(OnnxError, match="by position"):
        check(net, {"x": np.ones((2, 3), np.float32)})
    with pytest.raises(OnnxError, match="no input 'z'"):
        check(document([helper.make_node("Relu", ["x"], ["y"])], {}), {"z": 1}, runtime="reference")


def test_programs_with_loops_agree() -> None:
    def doubled(x: Any) -> Any:
        return wg.while_loop(lambda v: wg.sum(v) < 10.0, lambda v: v * 2.0, wg.exp(x)) + 1

    assert check(doubled, [wg.ones(2)], runtime="reference") is None


def test_what_the_evaluator_refuses_is_an_error_of_onnx() -> None:
    last = wg.grad(lambda a: wg.scan(lambda h, v: (wg.tanh(h + v), h), wg.tensor(0.0), a)[0])
    with pytest.raises(OnnxError, match="the evaluator of the package onnx refuses the model"):
        check(last, [wg.ones(3)], runtime="reference")
