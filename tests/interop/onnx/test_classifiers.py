"""Support vector machines, maps and labels of ai.onnx.ml, beside the package's evaluator and libsvm's iteration."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")

from onnx import helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

import wengert as wg  # noqa: E402
from wengert.interop.onnx import OnnxError, load  # noqa: E402

ML = "ai.onnx.ml"
KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")
X = np.random.default_rng(1).normal(size=(20, 3)).astype(np.float32)


def document(nodes: Any, outputs: Any, kind: Any = None) -> Any:
    given = kind or helper.make_tensor_value_info("x", 1, [None, 3])
    graph = helper.make_graph(nodes, "g", [given], [onnx.ValueInfoProto(name=n) for n in outputs])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(ML, 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def classifier(labels: Any, kernel: str = "RBF", **more: Any) -> Any:
    count, vectors = len(labels), 2 + 3 * (len(labels) - 1)
    rng = np.random.default_rng(count)
    pairs = count * (count - 1) // 2
    kind = "classlabels_strings" if isinstance(labels[0], str) else "classlabels_ints"
    given = {
        kind: list(labels),
        "coefficients": rng.normal(size=(count - 1) * vectors).tolist(),
        "kernel_params": [0.3, 0.5, 3.0],
        "kernel_type": kernel,
        "rho": rng.normal(size=pairs).tolist(),
        "support_vectors": rng.normal(size=vectors * 3).tolist(),
        "vectors_per_class": [2, *[3] * (count - 1)],
    }
    return helper.make_node("SVMClassifier", ["x"], ["label", "scores"], domain=ML, **{**given, **more})


def both(proto: Any, x: Any = X, **options: Any) -> list[Any]:
    """What a document gives, eager and compiled."""
    model = load(proto, **options)
    found = []
    for f in (model, wg.jit(lambda x: model(x))):
        out = f(wg.tensor(x))
        found.append([v.detach().numpy() for v in (out if isinstance(out, tuple) else (out,))])
    return found


def agree(proto: Any) -> None:
    want = ReferenceEvaluator(proto).run(None, {"x": X})
    for found in both(proto):
        for a, b in zip(found, want, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("kernel", KERNELS)
def test_regressors(kernel: str) -> None:
    rng = np.random.default_rng(0)
    machine = {"support_vectors": rng.normal(size=12).tolist(), "n_supports": 4, "kernel_params": [0.3, 0.5, 3.0]}
    for more in ({}, {"one_class": 1}):
        node = helper.make_node(
            "SVMRegressor", ["x"], ["y"], domain=ML, coefficients=rng.normal(size=4).tolist(), rho=[0.2],
            kernel_type=kernel, **machine, **more,
        )  # fmt: skip
        agree(document([node], ["y"]))


def test_a_regressor_without_vectors_is_linear() -> None:
    node = helper.make_node("SVMRegressor", ["x"], ["y"], domain=ML, coefficients=[1.0, -2.0, 0.5], rho=[0.2])
    agree(document([node], ["y"]))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("count", [2, 3, 5])
def test_classifiers_by_votes(kernel: str, count: int) -> None:
    agree(document([classifier([7, 3, 5, 2, 9][:count], kernel)], ["label", "scores"]))


@pytest.mark.parametrize("how", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
@pytest.mark.parametrize("count", [2, 3])
def test_what_is_done_with_scores(count: int, how: str) -> None:
    agree(document([classifier([7, 3, 5][:count], post_transform=how)], ["label", "scores"]))


@pytest.mark.parametrize("labels", [[4, 6], [4, 6, 9]])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_classifiers_without_vectors_are_linear(labels: Any, sign: float) -> None:
    coefficients = (sign * np.abs(np.random.default_rng(2).normal(size=3 * len(labels)))).tolist()
    given = {"classlabels_ints": labels, "coefficients": coefficients, "rho": [0.1]}
    agree(document([helper.make_node("SVMClassifier", ["x"], ["l", "s"], domain=ML, **given)], ["l", "s"]))


def coupled(r: Any) -> Any:
    """Probabilities of classes by those of pairs, as libsvm's `multiclass_probability` has them."""
    k = len(r)
    q = np.array([[sum(r[j, t] ** 2 for j in range(k) if j != t) if t == s else -r[s, t] * r[t, s] for s in range(k)]
                  for t in range(k)])  # fmt: skip
    p = np.full(k, 1 / k)
    for _ in range(max(100, k)):
        products = q @ p
        whole = p @ products
        if np.abs(products - whole).max() < 0.005 / k:
            break
        for t in range(k):
            change = (whole - products[t]) / q[t, t]
            p[t] += change
            whole = (whole + change * (change * q[t, t] + 2 * products[t])) / (1 + change) ** 2
            products = (products + change * q[t]) / (1 + change)
            p /= 1 + change
    return p


@pytest.mark.parametrize("count", [2, 3, 5])
def test_probabilities_are_libsvms(count: int) -> None:
    rng = np.random.default_rng(3)
    pairs = list(itertools.combinations(range(count), 2))
    a, b = rng.normal(size=(2, len(pairs)))
    labels = list(range(count))
    raw = document([classifier(labels)], ["label", "scores"])
    decided = ReferenceEvaluator(raw).run(None, {"x": X})[1]
    if count == 2:
        decided = decided[:, 1:]
    want = []
    for row in decided:
        r = np.zeros((count, count))
        for k, (i, j) in enumerate(pairs):
            r[i, j] = np.clip(1 - 1 / (1 + np.exp(-(row[k] * a[k] + b[k]))), 1e-7, 1 - 1e-7)
            r[j, i] = 1 - r[i, j]
        want.append(coupled(r))
    proto = document([classifier(labels, prob_a=a.tolist(), prob_b=b.tolist())], ["label", "scores"])
    for _, scores in both(proto):
        np.testing.assert_allclose(scores, want, rtol=1e-4, atol=1e-5)
    model = load(proto)
    x, along = wg.tensor(X), wg.tensor(X[::-1].copy())

    def loss(x: Any) -> Any:
        return (model(x)[1][:, 0] ** 2).sum()

    backward, forward = (wg.grad(loss)(x) * along).sum(), wg.jvp(loss, (x,), (along,))[1]
    assert abs(float(backward)) > 1e-3
    np.testing.assert_allclose(float(backward), float(forward), rtol=1e-3)
    step = 1e-2
    with wg.no_grad():
        slope = (loss(x + step * along) - loss(x - step * along)) / (2 * step)
    np.testing.assert_allclose(float(backward), float(slope), rtol=0.05)


def test_texts_and_dictionaries_have_no_place_in_compiled_code() -> None:
    labels = ["low", "middle", "high"]
    zipped = helper.make_node("ZipMap", ["scores"], ["rows"], domain=ML, classlabels_strings=labels)
    proto = document([classifier(labels), zipped], ["label", "rows"])
    text, rows = load(proto)(wg.tensor(X))
    places, scores = load(proto, zipmap=False)(wg.tensor(X))
    model = load(proto, zipmap=False)
    assert model.labels == tuple(labels)
    assert [model.labels[i] for i in places.tolist()] == text.tolist()
    assert [list(row.values()) for row in rows] == scores.tolist()
    for found in both(proto, zipmap=False):
        np.testing.assert_array_equal(found[0], places.numpy())
        np.testing.assert_allclose(found[1], scores.numpy(), rtol=1e-5, atol=1e-6)
    again = pickle.loads(pickle.dumps(model))
    assert again(wg.tensor(X))[0].tolist() == places.tolist()
    for outputs in (["label"], ["rows"]):
        asked = load(document([classifier(labels), zipped], outputs))
        with pytest.raises(OnnxError, match=r"zipmap=False"):
            wg.jit(lambda x: asked(x))(wg.tensor(X))  # noqa: B023


CASTS: list[tuple[dict[str, Any], dict[int, Any], Any]] = [
    ({}, {3: 1.5, 1: 2.5}, np.array([[2.5, 1.5]], np.float32)),
    ({"cast_to": "TO_INT64"}, {1: 2.0}, np.array([[2]])),
    ({"cast_to": "TO_FLOAT", "map_form": "SPARSE", "max_map": 4}, {2: "0.5"}, np.array([[0, 0, 0.5, 0]], np.float32)),
    ({"cast_to": "TO_STRING"}, {1: "a", 0: "b"}, np.array([["b", "a"]], object)),
    ({"cast_to": "TO_STRING", "map_form": "SPARSE", "max_map": 2}, {1: 0.5}, np.array([["", "0.500000"]], object)),
]


def mapped(**attributes: Any) -> Any:
    kind = onnx.ValueInfoProto(name="x")
    kind.type.map_type.key_type = onnx.TensorProto.INT64
    kind.type.map_type.value_type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    return load(document([helper.make_node("CastMap", ["x"], ["y"], domain=ML, **attributes)], ["y"], kind))


@pytest.mark.parametrize(("attributes", "given", "want"), CASTS)
def test_maps_become_tensors(attributes: Any, given: Any, want: Any) -> None:
    found = mapped(**attributes)(given)
    found = found.numpy() if isinstance(found, wg.Tensor) else found
    assert found.dtype == want.dtype
    np.testing.assert_array_equal(found, want)


def test_what_is_no_machine_is_refused() -> None:
    with pytest.raises(OnnxError, match="the key 5 is not among the 3"):
        mapped(map_form="SPARSE", max_map=3)({5: 1.0})
    with pytest.raises(OnnxError, match="takes more than the"):
        mapped(map_form="SPARSE", max_map=1 << 50)({5: 1.0})
    for more, text in (
        ({"kernel_type": "CUBIC"}, "kernel_type is 'CUBIC'"),
        ({"vectors_per_class": [2, 2]}, "classes of vectors"),
        ({"support_vectors": [1.0, 2.0]}, "numbers are given for the shape"),
        ({"rho": [1.0, 2.0]}, "numbers of rho"),
    ):
        with pytest.raises(OnnxError, match=text):
            load(document([classifier([0, 1, 2], **more)], ["label", "scores"]))(wg.tensor(X))
