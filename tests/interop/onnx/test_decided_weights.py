"""Weights that what is decided by values depends on: they are parameters where that makes nothing known beforehand."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import wengert as wg  # noqa: E402
from wengert.interop.onnx import load  # noqa: E402

FLOAT, INT, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
N, V = helper.make_node, helper.make_tensor_value_info

WEIGHTS = {
    "w": np.array([2.0, 3.0], np.float32),
    "lim": np.float32(50),
    "a": np.float32(0.5),
    "b": np.float32(0.1),
    "n": np.array(3),
    "go": np.array(True),
}


def model(nodes: Any, weights: Any, x: Any = (2,), inputs: Any = (), **more: Any) -> Any:
    initial = [numpy_helper.from_array(np.asarray(v), n) for n, v in weights.items()]
    given = [V("x", FLOAT, list(x)), *inputs]
    graph = helper.make_graph(nodes, "g", given, [V("y", FLOAT, None)], initial)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("here", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, **more)


def names(m: Any) -> list[str]:
    return [n for n, _ in m.named_parameters()]


def branch(k: str) -> Any:
    return helper.make_graph([N("Mul", ["s2", k], ["r" + k])], k, [], [V("r" + k, FLOAT, [2])])


def step(state: str) -> list[Any]:
    return [
        N("Mul", [state, "w"], ["s2"]),
        N("ReduceSum", ["s2"], ["t"], keepdims=0),
        N("Less", ["t", "lim"], ["p"]),
    ]


def choice(out: str) -> Any:
    return N("If", ["p"], [out], then_branch=branch("a"), else_branch=branch("b"))


def loop(nodes: list[Any], goes: str, state: str) -> Any:
    inputs = [V("i", INT, []), V("c", BOOL, []), V("s", FLOAT, [2])]
    body = helper.make_graph(nodes, "body", inputs, [V(goes, BOOL, []), V(state, FLOAT, [2])])
    return N("Loop", ["n", "go", "x"], ["y"], body=body)


def chosen(m: Any, x: Any) -> Any:
    y = x * m.w
    return wg.where(wg.sum(y) < m.lim, y * m.a, y * m.b)


def thrice(m: Any, x: Any) -> Any:
    for _ in range(3):
        x = chosen(m, x)
    return x


def until(m: Any, x: Any) -> Any:
    for _ in range(3):
        x = x * m.w
        if wg.sum(x) >= m.lim:
            break
    return x


DECIDED = {
    "If": (lambda: [*step("x"), choice("y")], chosen),
    "If in a Loop": (lambda: [loop([*step("s"), choice("s3"), N("Identity", ["c"], ["c2"])], "c2", "s3")], thrice),
    "end of a Loop": (lambda: [loop(step("s"), "p", "s2")], until),
}


@pytest.mark.parametrize("case", DECIDED)
def test_weights_that_a_condition_depends_on_are_trained(case: str) -> None:
    make, reference = DECIDED[case]
    m = load(model(make(), WEIGHTS))
    assert set(names(m)) == {"w", "lim", "a", "b"}
    assert m.static_inputs == ()
    again = pickle.loads(pickle.dumps(m))
    compiled = wg.jit(lambda m, x: wg.tree.leaves(wg.grad(lambda m: wg.sum(m(x)))(m)))
    for x in (wg.tensor([1.0, 2.0]), wg.tensor([9.0, 30.0]), wg.tensor([3.0, 4.0])):
        expected = reference(m, x).tolist()
        for f in (m, again, wg.jit(lambda x: m(x))):
            np.testing.assert_allclose(f(x).tolist(), expected, rtol=1e-6)
        wanted = wg.grad(lambda m: wg.sum(reference(m, x)))(m)  # noqa: B023
        found = wg.grad(lambda m: wg.sum(m(x)))(m)  # noqa: B023
        for a, b, c in zip(wg.tree.leaves(wanted), wg.tree.leaves(found), compiled(m, x), strict=True):
            for g in (b, c):
                np.testing.assert_allclose(g.tolist(), a.tolist(), rtol=1e-5)
    rows = wg.tensor([[1.0, 2.0], [9.0, 30.0]])
    for f in (wg.vmap(lambda x: m(x)), wg.jit(wg.vmap(lambda x: m(x)))):
        np.testing.assert_allclose(f(rows).tolist(), [m(x).tolist() for x in rows], rtol=1e-6)


def test_a_condition_of_the_models_own_function() -> None:
    then = helper.make_graph([N("Mul", ["s2", "k"], ["u"])], "then", [], [V("u", FLOAT, None)])
    other = helper.make_graph([N("Mul", ["s2", "l"], ["v"])], "else", [], [V("v", FLOAT, None)])
    nodes = [N("If", ["p"], ["r"], then_branch=then, else_branch=other)]
    inner = helper.make_function("here", "Chosen", ["s2", "p", "k", "l"], ["r"], nodes, [helper.make_opsetid("", 18)])
    m = load(
        model(
            [*step("x"), N("Chosen", ["s2", "p", "a", "b"], ["y"], domain="here")],
            {k: WEIGHTS[k] for k in ("w", "lim", "a", "b")},
            functions=[inner],
        )
    )
    assert set(names(m)) == {"w", "lim", "a", "b"}
    x = wg.tensor([1.0, 2.0])
    assert wg.grad(lambda m: wg.sum(m(x)))(m).w.tolist() == [0.5, 1.0]


def sized(first: str, second: str) -> Any:
    yes = helper.make_graph([N("Concat", ["x", "x"], ["twice"], axis=0)], "yes", [], [V("twice", FLOAT, [4])])
    no = helper.make_graph([N("Identity", ["x"], ["once"])], "no", [], [V("once", FLOAT, [2])])
    return [N("Less", [first, second], ["p"]), N("If", ["p"], ["z"], then_branch=yes, else_branch=no)]


def test_a_condition_of_constants_alone_is_known() -> None:
    m = load(model([*sized("a", "lim"), N("Identity", ["z"], ["y"])], {k: WEIGHTS[k] for k in ("a", "lim")}))
    assert names(m) == []
    assert str(wg.graph(lambda x: m(x))(wg.spec((2,))).outputs[0].spec) == "f32[4]"


def test_a_weight_of_such_a_condition_that_also_goes_on_is_trained() -> None:
    m = load(model([*sized("a", "lim"), N("Mul", ["z", "a"], ["y"])], {k: WEIGHTS[k] for k in ("a", "lim")}))
    assert names(m) == ["a"]
    assert m(wg.ones(2)).tolist() == [0.5] * 4
    assert wg.jit(lambda x: m(x))(wg.ones(2)).tolist() == [0.5] * 4
    assert wg.grad(lambda m: wg.sum(m(wg.ones(2))))(m).a.tolist() == 4.0


def test_numbers_that_shapes_are_computed_from_are_constants() -> None:
    nodes = [
        N("Shape", ["x"], ["s"]),
        N("Cast", ["s"], ["f"], to=FLOAT),
        N("Mul", ["f", "scale"], ["g"]),
        N("Cast", ["g"], ["shape"], to=INT),
        N("Expand", ["k", "shape"], ["z"]),
        N("Mul", ["z", "scale"], ["y"]),
    ]
    m = load(model(nodes, {"scale": np.float32(2), "k": np.float32(3)}))
    assert names(m) == ["k"]
    assert wg.jit(lambda x: m(x))(wg.ones(2)).tolist() == [6.0] * 4


REGIONS = {"output_height": 1, "output_width": 1, "sampling_ratio": 2}


def test_weights_of_regions() -> None:
    """Those that give regions are trained as others are, constant regions are constants."""
    given = {"of": np.array([0, 0]), "boxes": np.array([[0, 0, 3, 3], [1, 1, 4, 4]], np.float32)}
    m = load(model([N("RoiAlign", ["x", "boxes", "of"], ["y"], **REGIONS)], given, (1, 1, 6, 6)))
    assert names(m) == []
    nodes = [
        N("ReduceMean", ["x"], ["mean"], keepdims=0),
        N("Mul", ["head.w", "mean"], ["moved"]),
        N("Add", ["boxes", "moved"], ["regions"]),
        N("RoiAlign", ["features", "regions", "of"], ["y"], **REGIONS),
    ]
    nodes.insert(0, N("Conv", ["x", "conv.w"], ["features"]))
    given |= {"conv.w": np.full((1, 1, 1, 1), 2, np.float32), "head.w": np.full((2, 4), 0.1, np.float32)}
    m = load(model(nodes, given, (1, 1, 6, 6)))
    assert {"conv.w", "head.w"} <= set(names(m))
    x = wg.arange(36, dtype=wg.float32).reshape(1, 1, 6, 6) / 36
    expected = m(x)
    assert wg.allclose(wg.jit(lambda x: m(x))(x), expected, rtol=1e-5)
    assert wg.allclose(wg.grad(lambda m: wg.sum(m(x)))(m).conv.w.sum() * 2, wg.sum(expected), rtol=1e-5)


def test_weights_of_a_choice_of_rows() -> None:
    nodes = [
        N("Mul", ["x", "w"], ["z"]),
        N("Greater", ["z", "lim"], ["p"]),
        N("Compress", ["z", "p"], ["y"], axis=0),
    ]
    m = load(model(nodes, {"w": WEIGHTS["w"], "lim": np.float32(5)}))
    assert set(names(m)) == {"w", "lim"}
    for x, rows, slope in (([1.0, 2.0], [6.0], [0.0, 2.0]), ([3.0, 2.0], [6.0, 6.0], [3.0, 2.0])):
        x = wg.tensor(x)
        for f in (m, wg.jit(lambda x: m(x))):
            assert f(x).tolist() == rows
        assert wg.grad(lambda m: wg.sum(m(x)))(m).w.tolist() == slope  # noqa: B023
