"""Operators of the domain com.microsoft, beside onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")

from onnx import helper, numpy_helper  # noqa: E402

import wengert as wg  # noqa: E402
from wengert.interop.onnx import OnnxError, load  # noqa: E402

RNG = np.random.default_rng(0)
DOMAIN = "com.microsoft"


def model(op: str, operands: list[Any], given: int, outputs: int = 1, **attributes: Any) -> Any:
    """Return a model of one node: the first operands are given, the others initializers, None is left out."""
    names = ["" if v is None else f"v{i}" for i, v in enumerate(operands)]
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, names, results, domain=DOMAIN, **attributes)
    kinds = [helper.np_dtype_to_tensor_dtype(v.dtype) for v in operands[:given]]
    graph = helper.make_graph(
        [node],
        "one node",
        [helper.make_tensor_value_info(n, k, v.shape) for n, k, v in zip(names, kinds, operands)],
        [onnx.ValueInfoProto(name=r) for r in results],
        [numpy_helper.from_array(v, n) for n, v in zip(names[given:], operands[given:]) if v is not None],
    )
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def eight(*shape: int, dtype: Any = np.uint8) -> Any:
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max + 1, shape).astype(dtype)


def real(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def scale(value: float) -> Any:
    return np.float32(value)


def zero(value: int, dtype: Any = np.uint8) -> Any:
    return np.array(value, dtype)


X, Y = (scale(0.05), zero(120)), (scale(0.03), zero(7))
SIGNED = (scale(0.04), zero(-3, np.int8))
IMAGE = eight(2, 3, 6, 7)
# A case: the operator, its operands, how many of them are given at run time, its attributes.
CASES: dict[str, tuple[str, list[Any], int, dict[str, Any]]] = {
    "add": ("QLinearAdd", [eight(2, 5), *X, eight(5), *Y, scale(0.08), zero(100)], 1, {}),
    "add signed": ("QLinearAdd", [eight(4, dtype=np.int8), *SIGNED, eight(4, dtype=np.int8), *SIGNED, *SIGNED], 1, {}),
    "multiply": ("QLinearMul", [eight(2, 5), *X, eight(2, 1), *Y, scale(0.2), zero(90)], 1, {}),
    "sigmoid": ("QLinearSigmoid", [eight(9), *X, scale(1 / 256), zero(0)], 1, {}),
    "leaky relu": ("QLinearLeakyRelu", [eight(9), *X, *X], 1, {"alpha": 0.2}),
    "softmax": ("QLinearSoftmax", [eight(3, 6), *X, scale(1 / 256), zero(0)], 1, {"axis": -1, "opset": 13}),
    "concat": ("QLinearConcat", [*X, eight(2, 3), *X, eight(2, 4), *Y], 0, {"axis": 1}),
    "average": ("QLinearAveragePool", [IMAGE, *X, *X], 1, {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1]}),
    "whole average": ("QLinearGlobalAveragePool", [IMAGE, *X, *X], 1, {"channels_last": 0}),
    "average, channels last": ("QLinearGlobalAveragePool", [IMAGE, *X, *X], 1, {"channels_last": 1}),
    "gemm": (
        "QGemm",
        [eight(4, 6), *X, eight(5, 6, dtype=np.int8), scale(0.02), zero(0, np.int8), np.arange(5, dtype=np.int32), *Y],
        1,
        {"transB": 1, "alpha": 1.0},
    ),
    "gemm to floats": ("QGemm", [eight(4, 6), *X, eight(6, 5), *Y], 1, {}),
    "matmul to floats": (
        "MatMulIntegerToFloat",
        [eight(4, 6), eight(6, 5), scale(0.1), RNG.uniform(0.01, 0.1, 5).astype(np.float32), zero(3), None, real(5)],
        1,
        {},
    ),
    "dynamic matmul": ("DynamicQuantizeMatMul", [real(4, 6), eight(6, 5), scale(0.1), zero(100), real(5)], 1, {}),
    "gelu": ("Gelu", [real(9)], 1, {}),
    "bias, gelu": ("BiasGelu", [real(3, 4), real(4)], 1, {}),
    "fast gelu": ("FastGelu", [real(3, 4), real(4)], 1, {}),
    "quick gelu": ("QuickGelu", [real(9)], 1, {"alpha": 1.5}),
    "fused product": ("FusedMatMul", [real(2, 3, 4), real(2, 5, 4)], 1, {"transB": 1, "alpha": 0.5}),
    "norm": ("SkipLayerNormalization", [real(2, 3, 8), real(2, 3, 8), real(8), real(8), real(8)], 1, {}),
    "simple norm": ("SkipSimplifiedLayerNormalization", [real(2, 3, 8), real(2, 3, 8), real(8)], 1, {}),
}


def both(proto: Any, given: list[Any]) -> tuple[list[Any], list[Any]]:
    """Return what onnxruntime gives, and what the model gives, eager and compiled."""
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # several quantise each their own rows of an LSTM's batch
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    wanted = session.run(None, {i.name: v for i, v in zip(session.get_inputs(), given)})
    made = load(proto)
    args = [wg.tensor(v) for v in given]
    found = []
    for run in (made, wg.jit(lambda *xs: made(*xs))):
        result = run(*args)
        found.append([r.detach().numpy() for r in (result if isinstance(result, tuple) else (result,))])
    return wanted, found


@pytest.mark.parametrize("name", CASES)
def test_as_onnxruntime(name: str) -> None:
    """Integers differ by one where a number lies between two of them, which few do."""
    op, operands, given, attributes = CASES[name]
    wanted, found = both(model(op, operands, given, **attributes), operands[:given])
    for results in found:
        for a, b in zip(results, wanted, strict=True):
            assert a.dtype == b.dtype
            assert a.shape == b.shape
            if b.dtype.kind in "iu":
                apart = np.abs(a.astype(int) - b.astype(int))
                assert apart.max() <= 1
                assert apart.mean() <= 0.05
            else:
                np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_a_quantised_lstm(direction: str) -> None:
    """Of two directions, with states."""
    ways, size = (2 if direction == "bidirectional" else 1), 5
    weights = [eight(ways, n, 4 * size, dtype=np.int8) for n in (3, size)]
    scales = [RNG.uniform(0.003, 0.006, ways).astype(np.float32) for _ in range(2)]
    zeros = [np.zeros(ways, np.int8)] * 2
    states = [real(ways, 2, size), real(ways, 2, size)]
    operands = [real(6, 2, 3), *weights, real(ways, 8 * size), None, *states, None]
    operands += [scales[0], zeros[0], scales[1], zeros[1]]
    proto = model("DynamicQuantizeLSTM", operands, 1, 3, direction=direction, hidden_size=size)
    wanted, found = both(proto, operands[:1])
    for results in found:
        for a, b in zip(results, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_integers_stand_for_numbers() -> None:
    """Without another runtime: sums, products and an LSTM are those of the numbers, up to a rounding."""
    op, operands, given, attributes = CASES["add"]
    found = load(model(op, operands, given, **attributes))(wg.tensor(operands[0])).detach().numpy()
    numbers = (operands[0] - 120.0) * 0.05 + (operands[3] - 7.0) * 0.03
    np.testing.assert_allclose(found, np.clip(numbers / 0.08 + 100, 0, 255), atol=0.51)

    op, operands, given, attributes = CASES["gemm to floats"]
    found = load(model(op, operands, given, **attributes))(wg.tensor(operands[0])).detach().numpy()
    np.testing.assert_allclose(found, (operands[0] - 120.0) * 0.05 @ ((operands[3] - 7.0) * 0.03), rtol=1e-5, atol=1e-5)

    x, w, r = real(6, 2, 3), eight(1, 3, 20, dtype=np.int8), eight(1, 5, 20, dtype=np.int8)
    of_weights = [np.array([0.004], np.float32), np.zeros(1, np.int8)] * 2
    whole = model("DynamicQuantizeLSTM", [x, w, r, *[None] * 5, *of_weights], 1, 1, hidden_size=5)
    weights = [np.ascontiguousarray(np.swapaxes(v * np.float32(0.004), 1, 2)) for v in (w, r)]
    node = helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=5)
    graph = helper.make_graph(
        [node],
        "of numbers",
        [helper.make_tensor_value_info("x", 1, x.shape)],
        [onnx.ValueInfoProto(name="y")],
        [numpy_helper.from_array(v, n) for v, n in zip(weights, "wr")],
    )
    plain = load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10))
    found, wanted = (m(wg.tensor(x)).detach().numpy() for m in (load(whole), plain))
    np.testing.assert_allclose(found, wanted, atol=0.02)
    assert not np.array_equal(found, wanted)


def test_of_operands_without_scales_nothing_is_made() -> None:
    operands = [real(6, 2, 3), eight(1, 3, 20, dtype=np.int8), eight(1, 5, 20, dtype=np.int8)]
    made = load(model("DynamicQuantizeLSTM", operands, 1, 1, hidden_size=5))
    with pytest.raises(OnnxError, match="weights have no scale"):
        made(wg.tensor(operands[0]))
    made = load(model("QLinearConcat", [*X, eight(2, 3), *X, eight(2, 3)], 0, axis=1))
    with pytest.raises(OnnxError, match="there are 4 operands"):
        made()
