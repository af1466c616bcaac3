"""Graphs as text and as JSON: exact, and read back equal; errors that say where."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

import wengert as wg
from random_graphs import random_graph
from wengert.core.dims import Dim
from wengert.core.graph.values import encode
from wengert.core.ops.op import TABLE, Call, Op
from wengert.core.ops.record import SCALARS, abstract_input, bind
from wengert.core.spec import spec_of
from wengert.core.tensor import Tensor


@pytest.mark.parametrize("seed", range(250))
def test_random_graphs_read_back(seed: int) -> None:
    graph = random_graph(seed)
    parsed = wg.Graph.parse(str(graph))
    assert parsed == graph
    assert str(parsed) == str(graph)
    assert parsed.structural_hash == graph.structural_hash
    assert wg.Graph.parse(graph.text(source=True)) == graph
    loaded = wg.Graph.from_json(graph.to_json())
    assert loaded == graph
    assert loaded.text(source=True) == graph.text(source=True)
    assert hash(loaded) == hash(graph)


def test_random_graphs_are_of_some_size() -> None:
    sizes = [len(random_graph(seed).computations) for seed in range(250)]
    assert sum(sizes) > 250 * 3
    assert max(sizes) > 15


def _sample_graph(op: Op, call: Call) -> tuple[wg.Graph, list[Any]]:
    plain = [a if type(a) in SCALARS or a is None else np.asarray(a) for a in call.args]
    args = [abstract_input(spec_of(a.shape, a.dtype)) if isinstance(a, np.ndarray) else a for a in plain]
    out = op.front(*args, **call.attrs) if op.kind == "composite" else bind(op, args, call.attrs)
    graph = wg.Graph.of(out, inputs=[a for a in args if isinstance(a, Tensor)])
    return graph, [a for a in plain if isinstance(a, np.ndarray)]


@pytest.mark.parametrize("name", sorted(n for n, op in TABLE.items() if op.samples is not None))
def test_every_op_reads_back_and_runs(name: str) -> None:
    op = TABLE[name]
    for call in op.samples(np.random.default_rng(0)):  # type: ignore[misc]
        graph, values = _sample_graph(op, call)
        assert wg.Graph.parse(str(graph)) == graph
        assert wg.Graph.from_json(graph.to_json()) == graph
        found = graph(*values)
        results = found if isinstance(found, tuple) else (found,)
        assert [r.spec for r in results] == [n.spec for n in graph.outputs]
        if op.body is not None:
            opened = graph.expand()
            assert not any(n.op.body for n in opened.nodes)
            again = opened(*values)
            for a, b in zip(results, again if isinstance(again, tuple) else (again,)):
                np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6, atol=1e-12)


def test_layout() -> None:
    def f(x: Tensor, w: Tensor) -> Tensor:
        return x * w + 1

    graph = wg.graph(f)(wg.spec((3, 4)), wg.spec((4,)))
    assert str(graph) == (
        "graph f(x: f32[3,4], w: f32[4]) -> f32[3,4]\n"
        "  a: f32[3,4] = broadcast[shape=(3, 4)] w\n"
        "  b: f32[3,4] = multiply x a\n"
        "  c: f32[3,4] = add b 1.0\n"
        "  return c"
    )
    assert "(x * w)" in graph.text(source=True)
    assert "test_graph_text.py:" in graph.text(source=True)


def test_long_headers_are_broken_into_lines() -> None:
    graph = wg.graph(lambda *parts: parts[0])(*[wg.spec((10, 10))] * 12)
    assert str(graph).splitlines()[1] == "    parts.0: f32[10,10],"
    assert wg.Graph.parse(str(graph)) == graph


@pytest.mark.parametrize(
    "value",
    [
        None, True, -7, 10**30, 0.1, -0.0, math.inf, -math.inf, 5e-324, "a \"b\"\n# é \ud800", "", (), (1,),
        ((1, 2), (3, ()), None), complex(-0.0, math.inf), np.dtype("float32"), (np.dtype("bool"), (True, "x")),
    ],
)  # fmt: skip
def test_attributes_of_every_kind(value: Any) -> None:
    op = Op("attr_probe(x; value)", "general", lambda x, value: x, infer=lambda x, value: x)
    try:
        graph = wg.graph(lambda x: bind(op, (x,), {"value": value}))(wg.spec(()))
        for back in (wg.Graph.parse(str(graph)), wg.Graph.from_json(graph.to_json())):
            assert back == graph
            (node,) = back.computations
            assert encode(node.attrs["value"]) == encode(value)
            assert type(node.attrs["value"]) is type(value)
    finally:
        del TABLE["attr_probe"]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "complex128", "bfloat16"])
@pytest.mark.parametrize("size", [0, 3, 7, 300])
def test_constants_are_exact(dtype: str, size: int) -> None:
    rng = np.random.default_rng(size)
    values = rng.normal(0, 1, size)
    values[::2] = np.resize([np.nan, np.inf, -np.inf, -0.0, 1 / 3], values[::2].shape)
    constant = wg.asarray(wg.asarray(values).astype(dtype).numpy())
    graph = wg.graph(lambda: constant)()
    for back in (wg.Graph.parse(str(graph)), wg.Graph.from_json(graph.to_json())):
        assert back == graph
        (node,) = back.constants
        assert node.attrs["value"].tobytes() == constant.numpy().tobytes()
        assert node.attrs["value"].dtype == constant.dtype
        assert not node.attrs["value"].flags.writeable


def test_nan_payloads_and_odd_strides_are_kept() -> None:
    odd = np.array([0x7FF8000000000123, 0x3FF0000000000000], np.uint64).view(np.float64)
    strided = np.arange(24.0).reshape(4, 6)[::-2, ::3].T
    graph = wg.graph(lambda: (wg.asarray(odd), wg.asarray(strided)))()
    back = wg.Graph.parse(str(graph))
    assert back == graph
    first, second = back.constants
    assert first.attrs["value"].tobytes() == odd.tobytes()
    np.testing.assert_array_equal(second.attrs["value"], strided)


def test_large_constants_are_compressed() -> None:
    graph = wg.graph(lambda: wg.asarray(np.zeros(100_000)))()
    assert len(str(graph)) < 16_000
    assert wg.Graph.parse(str(graph)) == graph


def test_names_that_are_no_identifiers() -> None:
    pytree = {"a b": wg.spec(()), "return": wg.spec(()), "é": wg.spec(()), "inf": wg.spec(())}
    graph = wg.graph(lambda p: p["a b"] + p["return"] * p["inf"])(pytree)
    assert wg.Graph.parse(str(graph)) == graph
    flat = wg.graph(lambda **k: k["inf"] + k["nan"] * k["graph"] + k["None"] * k["f32"])(
        **{"inf": wg.spec(()), "nan": wg.spec(()), "graph": wg.spec(()), "None": wg.spec(()), "f32": wg.spec(())}
    )
    assert wg.Graph.parse(str(flat)) == flat


def test_unknown_sizes() -> None:
    x = wg.placeholder((None, 3), wg.float32, name="x")
    n, m = Dim.named("n"), Dim.named("m")
    w = abstract_input(spec_of((3 * ((n + 1) // 2) - m * n, (n - m) // (m + 2), -n + 7), wg.float32), "w")
    out = (wg.concat([x, x], axis=0) * 2.0, wg.exp(w))
    graph = wg.Graph.of(out, inputs=[x, w])
    assert "x: f32[" in str(graph)
    assert "//" in str(graph)
    assert wg.Graph.parse(str(graph)) == graph
    assert wg.Graph.from_json(graph.to_json()) == graph
    assert "bytes of values" in str(graph.summary())


def test_any_order_and_comments_read_as_the_same_graph() -> None:
    text = """
    graph f(x: f32[2]) -> f32[2]   # a comment
      later: f32[2] = exp x
      unused: f32[2] = sin x
      first: f32[2] = multiply x 2.0
      out: f32[2] = add first later
      return out
    """
    graph = wg.Graph.parse(text)
    assert graph == wg.graph(lambda x: x * 2 + wg.exp(x))(wg.spec((2,)))


BAD_TEXTS = {
    "": ("line 1, column 1", "expected 'graph'"),
    "graph f(x: f32[2]) -> f32[2]\n  a: f32[2] = exp y\n  return a": ("line 2, column 19", "'y' is not defined"),
    "graph f(x: f32[2]) -> f32[2]\n  a: f32[2] = nosuch x\n  return a": ("line 2, column 15", "not an op"),
    "graph f(x: q32[2]) -> f32[2]\n  return x": ("line 1, column 12", "'q32' is not a dtype"),
    "graph f(x: f32[2]) -> f32[3]\n  return x": ("line 1, column 23", "promises"),
    "graph f(x: f32[2]) -> f32[2]\n  a: f32[3] = exp x\n  return a": ("line 2, column 15", "exp gives f32[2]"),
    "graph f(x: f32[2]) -> f32[2]\n  x: f32[2] = exp x\n  return x": ("line 2, column 3", "defined twice"),
    "graph f(x: f32[2]) -> f32[2]\n  a: f32[2] = exp x x\n  return a": ("line 2, column 15", "takes 1 inputs"),
    "graph f(x: f32[2]) -> f32[2]\n  a: f32[2] = exp[k=1] x\n  return a": ("line 2, column 15", "attributes"),
    "graph f(x: f32[2]) -> f32[2]\n  a: f32[2] = exp $\n  return a": ("line 2, column 19", "'$' does not belong"),
    "graph f(x: f32[2]) -> f32[2]\n  a: f32[2] = constant [1.0]\n  return a": ("line 2, column 24", "not a constant"),
    'graph f(x: f32[2]) -> f32[2]\n  a: f32[2] = constant "AAAA"\n  return a': ("line 2, column 24", "damaged"),
    "graph f(x: f32[2]) -> f32[2]\n  a: f32[2] = exp x": ("line 2, column 20", "expected a node's name or 'return'"),
    "graph f(x: f32[2]) -> f32[2]\n  return x y": ("line 2, column 12", "after the end"),
    "graph f(x: f32[-1]) -> f32[2]\n  return x": ("line 1, column 16", "expected a size"),
}


@pytest.mark.parametrize(
    ("inputs", "line", "what"),
    [
        ("x: i64[6]", "i64[] = mean[axis=(-1,), keepdims=False] x", "mean does not take i64[6]"),
        ("x: u8[6]", "u8[] = var[axis=(-1,), correction=0, keepdims=False] x", "var does not take u8[6]"),
        ("x: i64[6]", "i64[6] = exp x", "exp does not take i64[6]"),
        ("x: i64[6]", "f32[6] = softplus[beta=1.0] x", "softplus does not take i64[6]"),
        ("x: i32[3,3]", "i32[3,3] = inv x", "inv does not take i32[3,3]"),
        ("x: bool[6]", "bool[6] = add x x", "add does not take bool[6]"),
        ("x: f32[6], y: f64[6]", "f32[6] = add x y", "add of f32[6] and f64[6]: cast"),
        ("x: i32[6]", "i32[6] = multiply x 2.5", "multiply of i32[6] and the literal 2.5"),
        ("x: f32[6], y: f64[6]", "f32[12] = concat[axis=-1] x y", "concat of f32[6] and f64[6]: cast"),
        ("x: f32[2,3], y: f64[3,2]", "f32[2,2] = matmul x y", "matmul of f32[2,3] and f64[3,2]: cast"),
        ("x: f32[6], y: i64[6]", "f32[6] = where x y y", "where: input 0 has booleans, not f32[6]"),
        ("x: bool[6], y: f32[6], z: f64[6]", "f32[6] = where x y z", "where of f32[6] and f64[6]: cast"),
    ],
)
def test_dtypes_that_an_op_does_not_compute_in_are_refused(inputs: str, line: str, what: str) -> None:
    """A front door casts; a text that leaves the casts out would give other dtypes, or other numbers, than it says."""
    result = line.partition(" = ")[0]
    with pytest.raises(wg.GraphError, match="line 2") as caught:
        wg.Graph.parse(f"graph f({inputs}) -> {result}\n  a: {line}\n  return a")
    assert what in str(caught.value)


@pytest.mark.parametrize("text", BAD_TEXTS)
def test_parse_errors_say_where(text: str) -> None:
    place, what = BAD_TEXTS[text]
    with pytest.raises(wg.GraphError) as caught:
        wg.Graph.parse(text)
    first = str(caught.value).splitlines()[0]
    assert place in first
    assert what in first
    assert "test_graph_text.py" in first


def _damage(change: Any) -> str:
    document = json.loads(wg.graph(lambda x: wg.exp(x) * 2.0)(wg.spec((2,))).to_json())
    change(document)
    return json.dumps(document)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda d: d.update(version=99), "version 99"),
        (lambda d: d.update(format="other"), "not a JSON document"),
        (lambda d: d.pop("nodes"), "no field 'nodes'"),
        (lambda d: d["nodes"][1].update(op="nosuch"), "not an op"),
        (lambda d: d["nodes"][1].update(inputs=[5]), "refers to node 5"),
        (lambda d: d["nodes"][1].update(inputs=["x"]), "refers to node 'x'"),
        (lambda d: d["nodes"][1].update(shape=[3]), "exp gives f32[2]"),
        (lambda d: d["nodes"][1].update(dtype="object"), "dtype"),
        (lambda d: d["nodes"][1].update(source={"file": 3}), "no field 'file'"),
        (lambda d: d["nodes"][2]["inputs"].__setitem__(1, {"literal": {"what": 1}}), "not a value"),
        (lambda d: d.update(outputs=[True]), "refers to node True"),
        (lambda d: d["nodes"].__setitem__(1, 7), "not an object"),
    ],
)
def test_json_errors(change: Any, what: str) -> None:
    with pytest.raises(wg.GraphError) as caught:
        wg.Graph.from_json(_damage(change))
    assert what in str(caught.value).splitlines()[0]


def test_not_json_at_all() -> None:
    with pytest.raises(wg.GraphError, match="line 1, column 1"):
        wg.Graph.from_json("nonsense")


def test_json_fields() -> None:
    def f(x: Tensor) -> Tensor:
        return wg.exp(x) * math.inf

    document = json.loads(wg.graph(f)(wg.spec((2,))).to_json())
    assert [n["kind"] for n in document["nodes"]] == ["input", "computation", "root"]
    last = document["nodes"][2]
    assert last["inputs"] == [1, {"literal": {"float": "inf"}}]
    assert (last["shape"], last["dtype"], last["op"]) == ([2], "float32", "multiply")
    assert last["source"]["text"] == "wg.exp(x) * math.inf"
    assert last["source"]["function"] == "f"


def test_a_long_chain_prints_and_reads_back() -> None:
    x = y = wg.tensor(0.5, requires_grad=True)
    for _ in range(5_000):
        y = y * 0.999
    graph = wg.Graph.of(y)
    assert wg.Graph.parse(str(graph)) == graph
    assert wg.Graph.from_json(graph.to_json()) == graph
    assert x.requires_grad
