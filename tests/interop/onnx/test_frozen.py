"""Frozen ONNX models: the same results, and weights that no call reads from outside."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import wengert as wg  # noqa: E402
from wengert.interop.onnx import Model, load  # noqa: E402

RNG = np.random.default_rng(0)
WEIGHTS = {
    "conv.w": RNG.standard_normal((8, 3, 3, 3)).astype(np.float32),
    "conv.b": RNG.standard_normal(8).astype(np.float32),
    "fc.w": RNG.standard_normal((8, 5)).astype(np.float32),
    "index": np.array([4, 0, 2]),
}
X = RNG.standard_normal((2, 3, 9, 8)).astype(np.float32)


def net() -> Any:
    """A convolution, a pool, a mean, a product, columns by an index, and a condition that reads a weight too."""
    branches = {
        name: helper.make_graph(
            [helper.make_node(op, ["picked", "fc.b"], [name])],
            name,
            [],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)],
        )
        for name, op in (("then_branch", "Add"), ("else_branch", "Sub"))
    }
    nodes = [
        helper.make_node("Conv", ["x", "conv.w", "conv.b"], ["a"], pads=[1, 1, 1, 1], name="conv"),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MaxPool", ["b"], ["c"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        helper.make_node("GlobalAveragePool", ["c"], ["d"]),
        helper.make_node("Flatten", ["d"], ["e"]),
        helper.make_node("MatMul", ["e", "fc.w"], ["f"]),
        helper.make_node("Gather", ["f", "index"], ["picked"], axis=1),
        helper.make_node("If", ["up"], ["y"], **branches),
    ]
    weights = {**WEIGHTS, "fc.b": np.ones(3, np.float32), "up": np.array(True)}
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 9, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])],
        [numpy_helper.from_array(v, n) for n, v in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def results(model: Model, x: Any = X) -> np.ndarray[Any, Any]:
    found: np.ndarray[Any, Any] = model(x).detach().numpy()
    return found


def test_a_frozen_model_computes_the_same_and_has_no_parameters() -> None:
    plain, frozen = load(net()), load(net()).freeze()
    np.testing.assert_array_equal(results(frozen), results(plain))
    assert list(frozen.parameters()) == list(frozen.buffers()) == []
    assert frozen.is_frozen
    assert not plain.is_frozen
    assert frozen.fingerprint != plain.fingerprint
    assert frozen.inputs == plain.inputs
    np.testing.assert_array_equal(results(frozen.freeze()), results(plain))  # again, which changes nothing


def test_it_holds_the_weights_of_its_time() -> None:
    model = load(net())
    held = model.fc.w
    held.assign_(held.detach() * 2.0)
    twice = results(model)
    model.freeze()
    held.assign_(held.detach() * 0.0)
    np.testing.assert_array_equal(results(model), twice)


@pytest.mark.parametrize("batch", [1, 2])
def test_it_compiles_at_every_call_and_differentiates(batch: int) -> None:
    pytest.importorskip("llvmlite", reason="native code needs llvmlite")
    x = X[:batch]
    plain, frozen = load(net()), load(net()).freeze()
    compiled = wg.jit(lambda x: frozen(x))
    for _ in range(7):
        np.testing.assert_allclose(compiled(x).numpy(), results(plain, x), rtol=1e-4, atol=1e-4)
    slope = wg.grad(lambda x: wg.sum(compiled(x) ** 2))(wg.tensor(x))
    wanted = wg.grad(lambda x: wg.sum(plain(x) ** 2))(wg.tensor(x))
    np.testing.assert_allclose(slope.detach().numpy(), wanted.detach().numpy(), rtol=1e-3, atol=1e-4)
    rows = wg.vmap(lambda x: frozen(x[None])[0])(wg.tensor(x))
    np.testing.assert_allclose(rows.numpy(), results(plain, x), rtol=1e-4, atol=1e-4)


def test_two_frozen_models_are_two_programs() -> None:
    pytest.importorskip("llvmlite", reason="native code needs llvmlite")
    one, other = load(net()), load(net())
    other.fc.w.assign_(other.fc.w.detach() * 3.0)
    wanted = [results(m) for m in (one, other)]
    models = [one.freeze(), other.freeze()]
    compiled = wg.jit(lambda model, x: model(x))
    for _ in range(3):
        for m, expected in zip(models, wanted):
            np.testing.assert_allclose(compiled(m, X).numpy(), expected, rtol=1e-4, atol=1e-4)


def test_it_is_pickled_and_copied_with_its_weights() -> None:
    model = load(net()).freeze()
    for again in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        np.testing.assert_array_equal(results(again), results(model))
        assert again.is_frozen
        assert again.fingerprint == model.fingerprint
