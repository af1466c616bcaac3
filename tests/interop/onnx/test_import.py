"""ONNX models as modules: what they take, give and hold, and what they refuse."""

from __future__ import annotations

import copy
import math
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import wengert as wg  # noqa: E402
from wengert.interop.onnx import Model, OnnxError, load  # noqa: E402

FLOAT, INT = TensorProto.FLOAT, TensorProto.INT64


def value(name: str, shape: Any = None, kind: int = FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def model(nodes: Any, inputs: Any, outputs: Any, weights: Any = (), opset: int = 21, **more: Any) -> Any:
    initial = [numpy_helper.from_array(np.asarray(v), n) for n, v in dict(weights).items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, initial)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10, **more)


def line(w: Any = ((1.0, 2.0), (3.0, 4.0))) -> Any:
    node = helper.make_node("MatMul", ["x", "layer.w"], ["y"], name="mm")
    return model([node], [value("x", ["n", 2])], [value("y", ["n", 2])], {"layer.w": np.array(w, np.float32)})


X = np.array([[1.0, -1.0]], np.float32)


def test_a_negative_size_is_an_open_one() -> None:
    """Paddle's exporter writes -1 for a size that it does not know."""
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    m = load(model([node], [value("x", [-1, 2])], [value("y", [-1, 2])], {"w": np.eye(2, dtype=np.float32)}))
    assert (m.inputs[0].shape, m.outputs[0].shape) == ((None, 2), (None, 2))
    for n in (1, 3):
        assert m(np.ones((n, 2), np.float32)).shape == (n, 2)
    assert wg.graph(m)(m.inputs[0].spec).outputs[0].spec.shape[1] == 2


def test_weights_are_parameters_under_their_names() -> None:
    m = load(line())
    assert [n for n, _ in m.named_parameters()] == ["layer.w"]
    assert m.initializer("layer.w") is m.layer.w
    assert m.inputs[0].shape == ("n", 2)
    assert repr(m) == "Model('g': x float32(n, 2) -> y float32(n, 2))"
    np.testing.assert_array_equal(m(X).detach().numpy(), [[-2.0, -2.0]])
    np.testing.assert_array_equal(m(x=wg.tensor(X)).detach().numpy(), [[-2.0, -2.0]])
    assert list(m.named(X)) == ["y"]


def test_numbers_of_formulas_are_no_weights() -> None:
    """Exporters write exponents and the like as initializers with names of their own: training leaves them alone."""
    for number in ("val_0", "onnx::Pow_12", "_constant_3", "scalar_tensor_default"):
        nodes = [
            helper.make_node("Pow", ["x", number], ["p"]),
            helper.make_node("Mul", ["p", "temperature"], ["q"]),
            helper.make_node("MatMul", ["q", "onnx::MatMul_7"], ["y"]),
        ]
        weights = {
            number: np.float32(2.0),
            "temperature": np.float32(0.5),
            "onnx::MatMul_7": np.ones((2, 2), np.float32),
        }
        m = load(model(nodes, [value("x", ["n", 2])], [value("y", ["n", 2])], weights))
        assert len(list(m.named_parameters())) == 2  # the number with a name of its user's, and the matrix
        assert len(list(m.named_buffers())) == 1
        opt = wg.optim.SGD(m.parameters(), lr=0.1)
        m(X).sum().backward()
        opt.step()
        assert np.isfinite(m(X).detach().numpy()).all()


def signed(document: Any, *lines: str) -> Any:
    """Add what PyTorch's exporter by graph says of the program."""
    text = "\n# inputs\n" + "\n".join(lines) + "\n"
    document.graph.metadata_props.add(key="pkg.torch.export.ExportedProgram.graph_signature", value=text)
    return document


def names(m: Any) -> set[str]:
    return {n for n, _ in m.named_parameters()}


@pytest.mark.parametrize("mask", ["val_28", "onnx::Add_5", "value_0", "/a/Constant_3_output_0", "_tensor_constant0"])
def test_constants_of_any_size_are_no_weights(mask: str) -> None:
    nodes = [
        helper.make_node("Transpose", ["val_7"], ["w"], perm=[1, 0]),
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Add", ["p", mask], ["q"]),
        helper.make_node("Mul", ["q", "val_9"], ["r"]),
        helper.make_node("Add", ["r", "bias"], ["y"]),
    ]
    square = np.ones((2, 2), np.float32)
    weights = {"val_7": square, mask: square, "val_9": np.ones(1, np.float32), "bias": np.ones(2, np.float32)}
    m = load(model(nodes, [value("x", [2, 2])], [value("y", [2, 2])], weights))
    assert names(m) == {"val_7", "bias"}
    assert len(list(m.named_buffers())) == 2


def test_weights_of_recurrent_layers_and_norms_of_groups() -> None:
    """What they begin with, and the ones of a norm of instances that stands for one of groups, are constants."""
    one = {
        "onnx::LSTM_1": np.ones((1, 8, 3), np.float32),
        "onnx::LSTM_2": np.ones((1, 8, 2), np.float32),
        "onnx::LSTM_3": np.ones((1, 16), np.float32),
        "val_15": np.zeros((1, 1, 2), np.float32),
    }
    layer = helper.make_node("LSTM", [("x"), *list(one)[:3], "", "val_15", "val_15"], ["y"], hidden_size=2)
    assert names(load(model([layer], [value("x", [4, 1, 3])], [value("y")], one))) == set(list(one)[:3])
    nodes = [
        helper.make_node("InstanceNormalization", ["x", "val_1", "val_2"], ["n"]),
        helper.make_node("Reshape", ["n", "shape"], ["s"]),
        helper.make_node("Mul", ["s", "val_3"], ["m"]),
        helper.make_node("Add", ["m", "onnx::Add_4"], ["a"]),
        helper.make_node("Mul", ["a", "val_5"], ["y"]),
    ]
    flat, wide = np.ones(2, np.float32), np.ones((4, 1), np.float32)
    two = {"val_1": flat, "val_2": flat, "val_3": wide, "onnx::Add_4": wide, "val_5": flat[:1]}
    shape = {"shape": np.array([1, 4, 3])}
    m = load(model(nodes, [value("x", [1, 2, 6])], [value("y")], {**two, **shape}))
    assert names(m) == {"val_3", "onnx::Add_4"}


def test_a_document_that_tells_of_parameters_and_buffers() -> None:
    """Then no other name is a weight's, unless it can be nothing else: constants are called like operations."""
    nodes = [
        helper.make_node("MatMul", ["x", "folded"], ["p"]),
        helper.make_node("Mul", ["p", "cos"], ["q"]),
        helper.make_node("Sub", ["q", "mean"], ["r"]),
        helper.make_node("Add", ["r", "bias"], ["y"]),
    ]
    flat = np.ones(2, np.float32)
    weights = {"folded": np.ones((2, 2), np.float32), "cos": flat, "mean": flat, "bias": flat}
    plain = model(nodes, [value("x", [2, 2])], [value("y")], weights)
    assert names(load(plain)) == set(weights)
    told = signed(plain, "p_bias: PARAMETER target='bias'", "b_mean: BUFFER target='mean' persistent=True")
    assert names(load(told)) == {"folded", "bias"}
    nothing = signed(model(nodes, [value("x", [2, 2])], [value("y")], weights), "x: USER_INPUT")
    assert names(load(nothing)) == {"folded"}


def test_statistics_of_a_batch_norm_are_buffers() -> None:
    node = helper.make_node("BatchNormalization", ["x", "w", "b", "mean", "var"], ["y"])
    weights = {n: np.ones(2, np.float32) for n in ("w", "b", "mean", "var")}
    assert names(load(model([node], [value("x", [3, 2])], [value("y")], weights))) == {"w", "b"}


def test_it_differentiates_compiles_batches_and_traces() -> None:
    m = load(line())
    found = wg.grad(lambda m: wg.sum(m(X)))(m)
    np.testing.assert_array_equal(found.layer.w.numpy(), [[1, 1], [-1, -1]])
    compiled = wg.jit(lambda x: m(x))
    for _ in range(3):
        np.testing.assert_array_equal(compiled(wg.tensor(X)).detach().numpy(), [[-2.0, -2.0]])
    many = wg.vmap(lambda x: m(x))(wg.stack([wg.tensor(X)] * 3))
    assert many.shape == (3, 1, 2)
    graph = wg.graph(lambda x: m(x))(m.inputs[0].spec)
    assert [str(n) for n in graph.inputs[0].spec.shape] == ["n", "2"]


def test_it_trains() -> None:
    m = load(line())
    opt = wg.optim.SGD(m.parameters(), lr=0.1)

    @wg.jit
    def step(x: Any) -> Any:
        loss = wg.sum(m(x) ** 2)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    losses = [step(wg.tensor(X)).item() for _ in range(4)]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < losses[0]


def test_two_models_of_one_shape_are_two_compiled_programs() -> None:
    def of(op: str) -> Model:
        return load(model([helper.make_node(op, ["x"], ["y"])], [value("x", [2])], [value("y", [2])]))

    run = wg.jit(lambda m, x: m(x))
    for _ in range(3):
        assert run(of("Neg"), wg.ones((2,))).tolist() == [-1.0, -1.0]
        assert run(of("Abs"), wg.ones((2,))).tolist() == [1.0, 1.0]


def test_copies_and_pickles() -> None:
    m = load(line())
    for other in (copy.deepcopy(m), pickle.loads(pickle.dumps(m))):
        with wg.no_grad():
            other.layer.w.assign_(other.layer.w * 2)
        np.testing.assert_array_equal(other(X).detach().numpy(), [[-4.0, -4.0]])
    np.testing.assert_array_equal(m(X).detach().numpy(), [[-2.0, -2.0]])


def test_sizes_follow_from_the_shape_of_what_is_traced() -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"]),
        helper.make_node("Unsqueeze", ["n", "zeros"], ["n1"]),
        helper.make_node("Concat", ["n1", "rest"], ["shape"], axis=0),
        helper.make_node("Reshape", ["x", "shape"], ["y"]),
    ]
    given = {"zero": np.int64(0), "zeros": np.array([0]), "rest": np.array([-1])}
    m = load(model(nodes, [value("x", ["n", 2, 3])], [value("y", ["n", 6])], given))
    assert not list(m.parameters())
    assert not list(m.buffers())
    assert m(np.zeros((4, 2, 3), np.float32)).shape == (4, 6)
    graph = wg.graph(lambda x: m(x))(m.inputs[0].spec)
    assert str(graph.outputs[0].spec) == "f32[n,6]"


def test_a_shape_that_is_an_input_is_a_decision_of_a_compiled_function() -> None:
    node = helper.make_node("Reshape", ["x", "s"], ["y"])
    m = load(model([node], [value("x", [6]), value("s", [2], INT)], [value("y")]))
    assert m.static_inputs == ("s",)
    f = wg.jit(lambda x, s: m(x, s))
    assert f(wg.zeros((6,)), wg.tensor([2, 3])).shape == (2, 3)
    assert f(wg.zeros((6,)), wg.tensor([3, 2])).shape == (3, 2)
    with pytest.raises(OnnxError, match=r"node 'y' \(Reshape\): operand 2 is not known while this is traced"):
        wg.graph(lambda x, s: m(x, s))(wg.spec((6,)), wg.spec((2,), "int64"))


def test_branches_and_loops_are_traced() -> None:
    def body(op: str) -> Any:
        return helper.make_graph([helper.make_node(op, ["x"], [op])], op, [], [value(op)])

    node = helper.make_node("If", ["c"], ["y"], then_branch=body("Exp"), else_branch=body("Neg"))
    m = load(model([node], [value("c", [], TensorProto.BOOL), value("x", [2])], [value("y")]))
    f = wg.jit(lambda c, x: m(c, x))
    for _ in range(2):
        assert f(wg.tensor(False), wg.ones((2,))).tolist() == [-1.0, -1.0]
        assert math.isclose(f(wg.tensor(True), wg.ones((2,)))[0].item(), math.e, rel_tol=1e-6)

    inner = helper.make_graph(
        [helper.make_node("Add", ["s", "x"], ["s2"]), helper.make_node("Identity", ["c"], ["c2"])],
        "body",
        [value("i", [], INT), value("c", [], TensorProto.BOOL), value("s")],
        [value("c2", [], TensorProto.BOOL), value("s2"), value("s2")],
    )
    inner.node.append(helper.make_node("Mul", ["s2", "s2"], ["row"]))
    inner.output[2].name = "row"
    node = helper.make_node("Loop", ["n", "", "x"], ["last", "rows"], body=inner)
    m = load(model([node], [value("x", [2])], [value("last"), value("rows")], {"n": np.int64(30)}))
    for f in (m, wg.jit(lambda x: m(x))):
        last, rows = f(wg.ones((2,)))
        assert last.tolist() == [31.0, 31.0]
        assert rows.shape == (30, 2)
        assert rows[-1].tolist() == [961.0, 961.0]
    assert wg.grad(lambda x: wg.sum(m(x)[0]))(wg.ones((2,))).tolist() == [31.0, 31.0]


def test_a_constant_count_bounds_a_loop_that_is_traced_from_its_condition_on() -> None:
    body = helper.make_graph(
        [
            helper.make_node("Mul", ["s", "half"], ["s2"]),
            helper.make_node("Greater", ["s2", "one"], ["c2"]),
        ],
        "body",
        [value("i", [], INT), value("c", [], TensorProto.BOOL), value("s")],
        [value("c2", [], TensorProto.BOOL), value("s2")],
    )
    nodes = [
        helper.make_node("Greater", ["x", "one"], ["start"]),
        helper.make_node("Loop", ["n", "start", "x"], ["y"], body=body),
    ]
    given = {"half": np.float32(0.5), "one": np.float32(1)}
    for n, slopes in ((30, [1.0, 0.25, 0.0625]), (3, [1.0, 0.25, 0.125])):
        m = load(model(nodes, [value("x", [])], [value("y", [])], {**given, "n": np.int64(n)}))
        slope = wg.grad(lambda x: m(x))  # noqa: B023
        points = wg.tensor([0.5, 3.0, 12.0])
        assert [slope(x).item() for x in points] == slopes
        assert [wg.jit(slope)(x).item() for x in points] == slopes
        assert wg.vmap(slope)(points).tolist() == slopes
        summed = wg.grad(lambda xs: wg.scan(lambda s, x: (s + m(x), None), wg.tensor(0.0), xs)[0])  # noqa: B023
        assert wg.jit(summed)(points).tolist() == slopes
    m = load(model(nodes, [value("x", [])], [value("y", [])], {**given, "n": np.int64(2**63 - 1)}))
    assert [wg.jit(lambda x: m(x))(x).item() for x in points] == [0.5, 0.75, 0.75]
    with pytest.raises(wg.GradientError, match="not bounded"):
        wg.jit(wg.grad(lambda x: m(x)))(points[1])


def test_functions_of_the_model_are_called_with_their_attributes() -> None:
    scaled = helper.make_function(
        "here",
        "Scaled",
        ["x"],
        ["y"],
        [helper.make_node("LeakyRelu", ["x"], ["y"])],
        [helper.make_opsetid("", 21)],
        attributes=["slope"],
    )
    scaled.node[0].attribute.add(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    nodes = [helper.make_node("Scaled", ["x"], ["y"], domain="here", slope=0.5)]
    proto = model(nodes, [value("x", [2])], [value("y", [2])], functions=[scaled])
    proto.opset_import.append(helper.make_opsetid("here", 1))
    assert load(proto)(np.array([-2.0, 2.0], np.float32)).tolist() == [-1.0, 2.0]
    scaled.node[0].op_type, scaled.node[0].domain = "Scaled", "here"
    with pytest.raises(OnnxError, match="calls itself"):
        load(model(nodes, [value("x", [2])], [value("y", [2])], functions=[scaled]))


# -- external data


def external(folder: Path, place: str, data: bytes | None = None, **more: str) -> Path:
    proto = line()
    tensor = proto.graph.initializer[0]
    raw = tensor.raw_data
    if data is None:
        data = raw
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, said in {"location": place, **more}.items():
        tensor.external_data.add(key=key, value=said)
    (folder / "weights.bin").write_bytes(data)
    path = folder / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def test_weights_in_another_file(tmp_path: Path) -> None:
    m = load(external(tmp_path, "weights.bin"))
    np.testing.assert_array_equal(m(X).detach().numpy(), [[-2.0, -2.0]])


@pytest.mark.parametrize(
    ("place", "more", "text"),
    [
        ("../weights.bin", {}, "not inside the model's folder"),
        ("/etc/passwd", {}, "not inside the model's folder"),
        ("link.bin", {}, "which is a link"),
        ("none.bin", {}, "does not exist beside the model"),
        (".", {}, "which is no file"),
        ("weights.bin", {"offset": "8"}, "ends behind the end"),
        ("weights.bin", {"length": "999"}, "needs 16 bytes and says 999"),
        ("weights.bin", {"offset": "-4"}, "needs 16 bytes"),
        ("weights.bin", {"offset": "x"}, "no number"),
    ],
)
def test_files_that_are_not_read(tmp_path: Path, place: str, more: dict[str, str], text: str) -> None:
    path = external(tmp_path, place, **more)
    (tmp_path / "link.bin").symlink_to(tmp_path / "weights.bin")
    with pytest.raises(OnnxError, match=text):
        load(path)
    with pytest.raises(OnnxError, match="not read from a file"):
        load(path.read_bytes())


# -- refusals


@pytest.mark.parametrize("op", ["ConstantOfShape", "Expand", "Tile", "RandomNormal", "Range", "EyeLike"])
def test_a_small_model_that_asks_for_much_memory(op: str) -> None:
    big = np.array([10**6, 10**5])
    weights: dict[str, Any] = {"s": big}
    nodes = [helper.make_node(op, ["x", "s"], ["y"], name="big")]
    if op == "ConstantOfShape":
        nodes = [helper.make_node(op, ["s"], ["y"], name="big")]
    elif op == "RandomNormal":
        nodes = [helper.make_node(op, [], ["y"], name="big", shape=big.tolist())]
    elif op == "Range":
        weights = {"a": np.int64(0), "b": np.int64(10**11), "c": np.int64(1)}
        nodes = [helper.make_node(op, ["a", "b", "c"], ["y"], name="big")]
    elif op == "EyeLike":
        weights = {"s": np.array([10**5, 10**5])}
        nodes = [
            helper.make_node("Expand", ["x", "s"], ["w"], name="big"),
            helper.make_node(op, ["w"], ["y"]),
        ]
    m = load(model(nodes, [value("x", [1, 1])], [value("y")], weights))
    with pytest.raises(OnnxError, match=r"node 'big' .* bytes that the model may use"):
        m(np.ones((1, 1), np.float32))


def test_values_that_grow_step_by_step_are_refused_too() -> None:
    nodes = [helper.make_node("Concat", [f"x{i}", f"x{i}"], [f"x{i + 1}"], axis=0, name=f"n{i}") for i in range(40)]
    m = load(model(nodes, [value("x0", [4])], [value("x40")]), memory=1 << 20)
    with pytest.raises(OnnxError, match=r"node 'n1\d' \(Concat\): .* bytes that the model may use"):
        m(np.ones(4, np.float32))


@pytest.mark.parametrize(
    ("nodes", "text"),
    [
        ([helper.make_node("Nothing", ["x"], ["y"], name="a")], r"node 'a' \(Nothing\): the operator is not known"),
        ([helper.make_node("Relu", ["z"], ["y"], name="a")], "node 'a' .* reads 'z', which nothing before it gives"),
        ([helper.make_node("Relu", ["x"], ["x"], name="a")], "node 'a' .* gives 'x', which has a value already"),
        ([helper.make_node("Relu", ["x"], ["z"])], "output 'y' .* is the result of no node"),
        ([helper.make_node("Relu", ["x"], ["y"], other=3)], "an attribute 'other' that its operator does not have"),
        (
            [helper.make_node("Op", ["x"], ["y"], domain="d")],
            "of the domain 'd', of which the model imports no version",
        ),
    ],
)
def test_documents_that_are_no_models(nodes: Any, text: str) -> None:
    with pytest.raises(OnnxError, match=text):
        load(model(nodes, [value("x", [2])], [value("y", [2])]))


def test_inputs_that_do_not_fit() -> None:
    m = load(line())
    with pytest.raises(OnnxError, match="input 'x' is float64, and the model takes float32"):
        m(np.ones((1, 2)))
    with pytest.raises(OnnxError, match=r"input 'x' has the shape \(1, 3\), and the model takes \(n, 2\)"):
        m(np.ones((1, 3), np.float32))
    with pytest.raises(OnnxError, match="is not given its input 'x'"):
        m()
    with pytest.raises(OnnxError, match="takes 1 inputs and is given 2"):
        m(X, X)
    with pytest.raises(OnnxError, match="has no input 'z'"):
        m(X, z=X)


def test_a_fault_in_a_node_names_it() -> None:
    node = helper.make_node("MatMul", ["x", "x"], ["y"], name="mm")
    with pytest.raises(OnnxError, match=r"node 'mm' \(MatMul\): ") as e:
        load(model([node], [value("x", [2, 3])], [value("y")]))(np.ones((2, 3), np.float32))
    assert isinstance(e.value, wg.GraphError)


def test_integers_are_divided_towards_zero() -> None:
    for op, want in (("Div", [-3, 3, -3, 3]), ("Mod", [1, -1, -1, 1])):
        node = helper.make_node(op, ["x", "y"], ["z"])
        m = load(model([node], [value("x", [4], INT), value("y", [4], INT)], [value("z", [4], INT)]))
        assert m(np.array([-7, 7, 7, -7]), np.array([2, 2, -2, -2])).tolist() == (
            want if op == "Div" else [1, 1, -1, -1]
        )


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(OnnxError, match=r"needs the package onnx(.|\n)*wengert\[onnx\]"):
        load(b"")
    with pytest.raises(OnnxError, match=r"needs the package onnx"):
        wg.interop.onnx.save(wg.exp, wg.spec((2,)), None)


def test_names_that_a_module_has_are_others() -> None:
    node = helper.make_node("Add", ["x", "forward"], ["y"])
    m = load(model([node], [value("x", [2])], [value("y", [2])], {"forward": np.ones(2, np.float32)}))
    assert [n for n, _ in m.named_parameters()] == ["forward_"]
    assert m.initializer("forward").tolist() == [1.0, 1.0]
    assert m(np.ones(2, np.float32)).tolist() == [2.0, 2.0]


def test_weights_with_private_names_are_found_by_the_compiler() -> None:
    node = helper.make_node("Add", ["x", "_w"], ["y"])
    m = load(model([node], [value("x", [2])], [value("y", [2])], {"_w": np.ones(2, np.float32)}))
    f = wg.jit(lambda x: m(x))
    assert f(wg.ones((2,))).tolist() == [2.0, 2.0]
    with wg.no_grad():
        m.initializer("_w").assign_(wg.zeros((2,)))
    assert f(wg.ones((2,))).tolist() == [1.0, 1.0]


X_INFO, Y_INFO = value("x", [2, 3]), value("y")


@pytest.mark.parametrize(
    ("operator", "inputs", "attributes", "said"),
    [
        ("Add", ["x"], {}, "node 'n' (Add) has 1 input, and Add takes 2 ("),
        ("Add", ["x", "x", "x"], {}, "node 'n' (Add) has 3 inputs, and Add takes 2 ("),
        ("Add", ["", "x"], {}, "node 'n' (Add) leaves out input 1 (A), without which Add means nothing ("),
        ("Concat", [], {"axis": 0}, "node 'n' (Concat) has 0 inputs, and Concat takes at least 1 ("),
        (
            "Softmax",
            ["x"],
            {"axis": "q"},
            "node 'n' (Softmax), attribute 'axis': it is of the kind STRING, and Softmax",
        ),
        ("Cast", ["x"], {}, "node 'n' (Cast) has no attribute 'to', without which Cast means nothing ("),
    ],
)
def test_nodes_that_are_not_what_onnx_says_of_them(operator: str, inputs: Any, attributes: Any, said: str) -> None:
    with pytest.raises(OnnxError) as caught:
        load(model([helper.make_node(operator, inputs, ["y"], name="n", **attributes)], [X_INFO], [Y_INFO]))
    assert str(caught.value).startswith(said)


def test_a_place_is_told_once() -> None:
    relu = load(model([helper.make_node("Relu", ["x"], ["y"])], [X_INFO], [Y_INFO]))
    with pytest.raises(OnnxError, match="ragged nested list") as caught:
        relu([[1.0, 2.0], [3.0]])
    assert str(caught.value).count(".py:") == 1


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        load(tmp_path / "none.onnx")
    assert isinstance(caught.value, OnnxError)
    assert caught.value.errno == 2
    assert str(caught.value).startswith(f"{str(tmp_path)[:40]}")
    assert f"cannot be read: No such file or directory ({__file__}:" in str(caught.value)
    with pytest.raises(OSError, match="cannot be read: Is a directory"):
        load(tmp_path)


@pytest.mark.parametrize("version", [29, 999, 2**40])
def test_versions_that_no_one_knows_are_refused(version: int) -> None:
    newest = onnx.defs.onnx_opset_version()
    if version <= newest:
        pytest.skip("it is known by now")
    node = helper.make_node("Relu", ["x"], ["y"], name="r")
    with pytest.raises(OnnxError, match=f"node 'r' .*version {version} of the domain 'ai.onnx', after {newest}"):
        load(model([node], [value("x", [2])], [value("y", [2])], opset=version))
    load(model([node], [value("x", [2])], [value("y", [2])], opset=newest))


def test_an_input_with_a_value_may_be_given() -> None:
    nodes = [helper.make_node("Mul", ["x", "scale"], ["y"])]
    inputs = [value("x", [2]), value("scale", [1])]
    m = load(model(nodes, inputs, [value("y", [2])], {"scale": np.full(1, 3.0, np.float32)}))
    assert [v.name for v in m.inputs] == ["x"]
    assert [v.name for v in m.defaults] == ["scale"]
    x, scale = wg.ones((2,)), wg.full((1,), 5.0)
    for f in (m, wg.jit(lambda x, **more: m(x, **more))):
        assert f(x).tolist() == [3.0, 3.0]
        assert f(x, scale=scale).tolist() == [5.0, 5.0]
    with pytest.raises(OnnxError, match=r"input 'scale' has the shape \(2,\)"):
        m(x, scale=x)
    with pytest.raises(OnnxError, match="input 'scale' has a value in the document that is a constant"):
        m.freeze()(x, scale=scale)
