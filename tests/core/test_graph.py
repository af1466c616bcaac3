"""The graph: closing, tracing, questions, equality, running."""

from __future__ import annotations

import copy
import itertools
import pickle
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import wengert as wg
from random_graphs import random_graph
from wengert.core.ops.declare import composite, op
from wengert.core.ops.op import TABLE, Linear
from wengert.core.tensor import Tensor


def f32(*shape: int) -> Any:
    return wg.spec(shape)


def ops_of(graph: wg.Graph) -> list[str]:
    return [n.op.name for n in graph.nodes]


@pytest.fixture
def temporary_ops() -> Iterator[None]:
    """Ops that a test declares leave the table after it."""
    before = set(TABLE)
    yield
    for name in set(TABLE) - before:
        del TABLE[name]


# -- making graphs


def test_eager_and_traced_graphs_are_equal() -> None:
    def f(x: Tensor, w: Tensor) -> Any:
        h = wg.exp(x * w) + 2
        return {"h": h, "s": h * h - x / 3}

    x = wg.tensor(np.ones((2, 3), np.float32), requires_grad=True)
    w = wg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    traced = wg.graph(f)(f32(2, 3), f32(3))
    eager = wg.Graph.of(f(x, w), inputs=[x, w])
    assert eager == traced
    assert hash(eager) == hash(traced)
    assert wg.Graph.of(f(x, w)) == traced
    assert wg.graph(f)(x, w) == traced


def test_parameters_are_found() -> None:
    w = wg.tensor([1.0, 2.0], requires_grad=True)
    b = wg.tensor([0.5, 0.5], requires_grad=True)
    graph = wg.Graph.of(w * 3.0 + b, names={"w": w, "b": b})
    assert [graph.kind(n) for n in graph.nodes] == ["parameter", "parameter", "computation", "root"]
    assert [graph.names[n] for n in graph.inputs] == ["w", "b"]
    assert graph.summary().parameter_elements == 4


def test_what_is_not_given_is_a_constant() -> None:
    x = wg.tensor([1.0, 2.0])
    w = wg.tensor([3.0, 4.0], requires_grad=True)
    out = x * w
    assert [n.attrs["value"].tolist() for n in wg.Graph.of(out).constants] == [[1.0, 2.0]]
    given = wg.Graph.of(out, inputs=[x, w])
    assert not given.constants
    assert [given.kind(n) for n in given.inputs] == ["input", "input"]


def test_intermediate_and_unused_inputs() -> None:
    x = wg.tensor([1.0, 2.0], requires_grad=True)
    h = wg.exp(x)
    unused = wg.tensor(1.0)
    graph = wg.Graph.of(h * 2.0, inputs=[unused, h])
    assert ops_of(graph) == ["input", "input", "multiply"]
    assert graph(7.0, [1.0, 2.0]).tolist() == [2.0, 4.0]


def test_snapshots_hold_no_values_and_share_no_nodes() -> None:
    x = wg.tensor([1.0, 2.0], requires_grad=True)
    y = wg.exp(x)
    graph = wg.Graph.of(y)
    assert all(n.saved is None and not n.requires_grad for n in graph.nodes)
    assert y.node not in graph.nodes
    y.backward(wg.asarray([1.0, 1.0]))
    assert graph().tolist() == y.tolist()


def test_bad_arguments_of_of() -> None:
    x = wg.tensor(1.0, requires_grad=True)
    with pytest.raises(wg.GraphError, match="input 1 is given twice"):
        wg.Graph.of(x * x, inputs=[x, x])
    with pytest.raises(wg.GraphError, match="input 0 is a str"):
        wg.Graph.of(x * x, inputs=["x"])


@dataclass
class Pair:
    left: Any
    right: Any


def test_nests_names_and_static_arguments() -> None:
    def f(x: Any, params: Any, *rest: Any, power: int = 2, **more: Any) -> Any:
        out = x * params["w"] + params["b"].left
        for r in rest:
            out = out * r
        for _ in range(power):
            out = out * more["scale"]
        return Pair(out, [x, None])

    graph = wg.graph(f)(f32(2), {"w": f32(2), "b": Pair(f32(2), "static")}, f32(2), power=3, scale=f32())
    assert [graph.names[n] for n in graph.inputs] == ["x", "params.w", "params.b.left", "rest.0", "scale"]
    one, params = np.ones(2, np.float32), {"w": np.ones(2, np.float32), "b": Pair(np.ones(2, np.float32), "static")}
    result = graph(one, params, 2 * one, scale=2.0, power=3)
    assert isinstance(result, Pair)
    assert result.left.tolist() == [32.0, 32.0]
    assert result.right[0].tolist() == [1.0, 1.0]
    assert result.right[1] is None
    assert graph(one, one, one, 2 * one, 2.0).left.tolist() == [32.0, 32.0]
    with pytest.raises(wg.FeedError, match="was traced with 3 where it is given 4"):
        graph(one, params, 2 * one, scale=2.0, power=4)


def test_gradients_inside_a_traced_function() -> None:
    def f(x: Tensor) -> Any:
        return wg.grad(lambda t: wg.exp(t) * t)(x)

    graph = wg.graph(f)(f32())
    assert not any(n.requires_grad for n in graph.nodes)
    x = 0.7
    assert graph(x).item() == pytest.approx(np.exp(x) * (1 + x), rel=1e-6)
    second = wg.graph(wg.grad(wg.grad(lambda t: wg.exp(t) * t)))(f32())
    assert second(x).item() == pytest.approx(np.exp(x) * (2 + x), rel=1e-6)
    assert "alias" not in ops_of(second)


def test_gradients_in_values_from_outside() -> None:
    """What a function differentiates in stays what it is: a constant, or a parameter."""
    c, w = wg.tensor(3.0), wg.tensor(3.0, requires_grad=True)
    constant = wg.graph(lambda x: wg.grad(lambda t: t * t * x)(c))(f32())
    parameter = wg.graph(lambda x: wg.grad(lambda t: t * t * x)(w))(f32())
    assert [constant.kind(n) for n in constant.inputs] == ["input"]
    assert [parameter.names[n] for n in parameter.inputs] == ["x", "w"]
    assert constant(2.0).item() == parameter(2.0).item() == 12.0


def test_closure_tensors() -> None:
    w = wg.tensor([1.0, 2.0], requires_grad=True)
    c = wg.tensor([5.0, 6.0])
    graph = wg.graph(lambda x: x * w + c)(f32(2))
    assert [(graph.names[n], graph.kind(n)) for n in graph.inputs] == [("x", "input"), ("w", "parameter")]
    assert [n.attrs["value"].tolist() for n in graph.constants] == [[5.0, 6.0]]
    one = np.ones(2, np.float32)
    assert graph(one).tolist() == [6.0, 8.0]
    w.data = wg.tensor([2.0, 2.0])
    assert graph(one).tolist() == [7.0, 8.0]
    assert graph(one, one).tolist() == [6.0, 7.0]
    graph(one).backward(one)
    assert w.grad.tolist() == [1.0, 1.0]


def test_results_that_are_no_tensors() -> None:
    assert wg.graph(lambda x: (x, 2.0))(f32())(1.0)[1].tolist() == 2.0
    with pytest.raises(wg.GraphError, match="returned a str"):
        wg.graph(lambda x: "x")(f32())


def test_values_of_abstract_tensors_are_refused() -> None:
    with pytest.raises(wg.WengertError):
        wg.graph(lambda x: x if x > 0 else -x)(f32())


# -- composites


def _declare_composites() -> Any:
    @composite("probe_scaled(x; k)")
    def scaled(x: Tensor, *, k: float) -> Tensor:
        return TABLE["exp"].front(x) * k + 1.0

    @composite("probe_outer(x)")
    def outer(x: Tensor) -> Tensor:
        return scaled.front(x, k=3.0) * x

    @composite("probe_two(x, y)", results=2)
    def two(x: Tensor, y: Tensor) -> Any:
        return x * y, scaled.front(y, k=2.0)

    return scaled, outer, two


@pytest.mark.usefixtures("temporary_ops")
def test_composites_are_one_node_until_expanded() -> None:
    _, outer, two = _declare_composites()

    def f(x: Tensor) -> Any:
        a, b = two.front(outer.front(x), x)
        return a + b

    traced = wg.graph(f)(f32(3))
    x = wg.tensor([0.1, 0.2, 0.3], requires_grad=True)
    eager = wg.Graph.of(f(x))
    assert ops_of(traced) == ["input", "probe_outer", "probe_two", "output", "output", "add"]
    assert eager == traced
    assert wg.Graph.parse(str(traced)) == traced

    inner = traced.inner(traced.find("probe_outer")[0])
    assert ops_of(inner) == ["input", "probe_scaled", "multiply"]
    once = traced.expand(recursive=False)
    assert sorted(set(ops_of(once))) == ["add", "input", "multiply", "probe_scaled"]
    full = traced.expand()
    assert sorted(set(ops_of(full))) == ["add", "exp", "input", "multiply"]
    assert "probe_two" in ops_of(traced.expand(names="probe_outer"))
    assert full.expand() is full
    for graph in (traced, once, full):
        np.testing.assert_allclose(graph(x).detach().numpy(), f(x).detach().numpy(), rtol=1e-6)
    with pytest.raises(wg.GraphError, match="not composite"):
        traced.inner(traced.inputs[0])


@pytest.mark.usefixtures("temporary_ops")
def test_a_composite_whose_inside_is_used_outside_is_opened() -> None:
    scaled, _, _ = _declare_composites()
    graph = wg.graph(wg.grad(lambda x: scaled.front(x, k=2.0) * x))(f32())
    names = ops_of(graph)
    assert names.count("exp") == 1
    assert "probe_scaled" not in names
    x = 0.3
    assert graph(x).item() == pytest.approx(2 * np.exp(x) * (1 + x) + 1, rel=1e-6)


@pytest.mark.usefixtures("temporary_ops")
def test_expanded_nodes_know_the_users_line() -> None:
    scaled, _, _ = _declare_composites()
    graph = wg.graph(lambda x: scaled.front(x, k=2.0))(f32()).expand()
    assert all("test_graph.py" in n.source.file for n in graph.computations if n.source is not None)
    assert any(n.source is not None for n in graph.computations)


@pytest.mark.usefixtures("temporary_ops")
def test_ops_with_several_results() -> None:
    made = op(
        "probe_pair(x)",
        lambda x: (x + 1, x * 2),
        infer=lambda x: (x, x),
        facts={"x": Linear(lambda ct: ct[0] + ct[1] * 2)},
        results=2,
    )

    def f(x: Tensor) -> Any:
        a, b = made.front(x)
        return b * a

    graph = wg.graph(f)(f32(2))
    assert ops_of(graph) == ["input", "probe_pair", "output", "output", "multiply"]
    assert wg.Graph.parse(str(graph)) == graph
    x = wg.tensor([1.0, 2.0], requires_grad=True)
    assert wg.Graph.of(f(x)) == graph
    out = graph(x)
    assert out.tolist() == [4.0, 12.0]
    out.backward(wg.asarray([1.0, 1.0]))
    assert x.grad.tolist() == [6.0, 10.0]


# -- questions


@pytest.fixture
def diamond() -> wg.Graph:
    def f(x: Tensor, w: Tensor) -> Tensor:
        a = x * w
        return wg.exp(a) + wg.sin(a) * w

    return wg.graph(f)(f32(2), f32(2))


def test_relations(diamond: wg.Graph) -> None:
    x, w = diamond.inputs
    (a,) = (n for n in diamond.find("multiply") if x in n.inputs)
    (out,) = diamond.outputs
    assert [n.op.name for n in diamond.consumers(a)] == ["exp", "sin"]
    assert diamond.producers(a) == (x, w)
    assert diamond.ancestors(a) == [x, w]
    assert len(diamond.descendants(a)) == 4
    assert diamond.consumers(out) == ()
    assert [[n.op.name for n in level] for level in diamond.levels()] == [
        ["input", "input"], ["multiply"], ["exp", "sin"], ["multiply"], ["add"],
    ]  # fmt: skip
    assert diamond.node(diamond.names[a]) is a
    with pytest.raises(wg.GraphError, match="no node is called"):
        diamond.node("nothing")
    with pytest.raises(wg.GraphError, match="not a node of this graph"):
        diamond.consumers(wg.graph(lambda x: x)(f32()).inputs[0])


def test_paths(diamond: wg.Graph) -> None:
    x, w = diamond.inputs
    (out,) = diamond.outputs
    assert diamond.count_paths(x, out) == 2
    assert diamond.count_paths(w, out) == 3
    found = list(diamond.paths(w, out))
    assert len(found) == 3
    for path in found:
        assert path[0] is w
        assert path[-1] is out
        assert all(a in b.inputs for a, b in itertools.pairwise(path))
    assert diamond.count_paths(out, x) == 0
    assert list(diamond.paths(out, x)) == []
    assert list(diamond.paths(x, x)) == [(x,)]


@pytest.mark.parametrize("seed", range(40))
def test_paths_agree_with_their_count(seed: int) -> None:
    graph = random_graph(seed)
    for a, b in itertools.product(graph.inputs, graph.outputs):
        count = graph.count_paths(a, b)
        assert sum(1 for _ in itertools.islice(graph.paths(a, b), 3000)) == min(count, 3000)


def test_paths_are_counted_without_enumeration() -> None:
    def f(x: Tensor) -> Tensor:
        for _ in range(500):
            x = x * x
        return x

    graph = wg.graph(f)(f32())
    x, out = graph.inputs[0], graph.outputs[0]
    assert graph.count_paths(x, out) == 2**500
    assert len(next(graph.paths(x, out))) == 501


@pytest.mark.parametrize("seed", range(40))
def test_orders_of_random_graphs(seed: int) -> None:
    graph = random_graph(seed)
    place = graph.index
    for node in graph.nodes:
        assert all(place[p] < place[node] for p in graph.producers(node))
        assert all(node in graph.producers(c) for c in graph.consumers(node))
    level_of = {n: i for i, level in enumerate(graph.levels()) for n in level}
    assert len(level_of) == len(graph)
    assert all(level_of[p] < level_of[n] for n in graph.nodes for p in graph.producers(n))
    assert graph.nodes[: len(graph.inputs)] == graph.inputs


def test_subgraph(diamond: wg.Graph) -> None:
    x, w = diamond.inputs
    (a,) = (n for n in diamond.find("multiply") if x in n.inputs)
    (out,) = diamond.outputs
    part = diamond.subgraph([w, a], [out])
    one = np.ones(2, np.float32)
    np.testing.assert_allclose(part(one, 0 * one).numpy(), one)
    assert diamond.subgraph([x, w], [out]) == diamond
    with pytest.raises(wg.GraphError, match="depend on w"):
        diamond.subgraph([a], [out])


def test_saved_bytes() -> None:
    x, w = f32(10), f32(10)
    graph = wg.graph(lambda x, w: wg.exp(x * w) + 1.0)(x, w)
    assert graph.saved_bytes() == 40  # exp keeps its result; multiply keeps inputs, which live anyway
    assert graph.saved_bytes(wrt=[]) == 0
    assert wg.graph(lambda x: x + x)(x).saved_bytes() == 0
    broadcast = wg.graph(lambda x, s: x * wg.exp(s))(x, f32())
    assert broadcast.saved_bytes() == 4
    assert "bytes saved for backward" in str(graph.summary())


# -- equality


def test_differences_are_seen() -> None:
    def make(k: Any = 2.0, shape: int = 2, swap: bool = False, constant: float = 1.0) -> wg.Graph:
        c = np.full(shape, constant, np.float32)
        return wg.graph(lambda x, y: (y * x if swap else x * y) * k + wg.asarray(c))(f32(shape), f32(shape))

    base = make()
    assert base == make()
    assert base == make(k=2)
    others = [make(k=3.0), make(shape=3), make(swap=True), make(constant=-1.0), make(constant=np.nan), make(k=-2.0)]
    for a, b in itertools.combinations([base, *others], 2):
        assert a != b
        assert a.structural_hash != b.structural_hash
    assert make(constant=np.nan) == make(constant=np.nan)
    assert make(constant=0.0) != make(constant=-0.0)
    assert base != "something else"


def test_names_and_places_do_not_matter() -> None:
    first = wg.graph(lambda x: x * 2)(f32())
    second = wg.graph(lambda other: other * 2.0)(f32())
    assert first == second
    assert len({first, second}) == 1


def test_structural_hash_is_the_same_in_another_process() -> None:
    program = (
        "import wengert as wg, numpy as np\n"
        "print(wg.graph(lambda x: wg.exp(x) * np.float32(3.5))(wg.spec((2,))).structural_hash)"
    )
    here = wg.graph(lambda x: wg.exp(x) * np.float32(3.5))(f32(2)).structural_hash
    there = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert there.stdout.strip() == here


def test_pickle_and_copy() -> None:
    graph = wg.graph(lambda p, k: {"out": p["x"] * k + 1})({"x": f32(2)}, 3)
    back = pickle.loads(pickle.dumps(graph))
    assert back == graph
    assert back.text(source=True) == graph.text(source=True)
    assert back({"x": np.ones(2, np.float32)}, 3)["out"].tolist() == [4.0, 4.0]
    assert copy.copy(graph) is graph
    assert copy.deepcopy(graph) is graph
    with pytest.raises(wg.GraphError, match="immutable"):
        graph.name = "other"


# -- running


def test_feed_errors() -> None:
    def f(x: Tensor, w: Tensor) -> Tensor:
        return x * w

    graph = wg.graph(f)(f32(2), f32(2))
    one = np.ones(2, np.float32)
    with pytest.raises(wg.FeedError, match=r"takes 2 inputs, not 1: w missing .*test_graph.py") as caught:
        graph(one)
    assert "x: f32[2], w: f32[2]" in str(caught.value)
    with pytest.raises(wg.FeedError, match="takes 2 inputs, not 3"):
        graph(one, one, one)
    with pytest.raises(wg.FeedError, match=r"input w of .* takes \(2,\) float32, not \(2,\) float64"):
        graph(one, np.ones(2))
    with pytest.raises(wg.FeedError, match=r"input x of .* takes \(2,\) float32, not \(3,\) float32"):
        graph(np.ones(3, np.float32), one)
    with pytest.raises(wg.FeedError, match="is given the pytree"):
        graph({"x": one, "w": one})
    with pytest.raises(wg.FeedError, match=r"input x of .* ragged"):
        wg.Graph.parse(str(graph))([[1.0], [2.0, 3.0]], one)


@pytest.mark.parametrize("seed", range(60))
def test_random_graphs_run_as_recorded(seed: int) -> None:
    """Running a graph, and running it so that it is recorded again, agree bit for bit."""
    graph = random_graph(seed)
    rng = np.random.default_rng(seed)
    feeds = [rng.normal(0, 3, n.spec.shape).astype(n.spec.dtype) for n in graph.inputs]
    plain = graph(*feeds)
    tracked = [wg.tensor(v, requires_grad=v.dtype.kind in "fc") for v in feeds]
    again = graph(*tracked)
    for a, b, node in zip(plain, again, graph.outputs, strict=True):
        assert a.spec == node.spec
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())
    assert wg.graph(lambda *args: graph(*args))(*[n.spec for n in graph.inputs]) == graph


def test_infinities_and_nans_are_values() -> None:
    graph = wg.graph(lambda x: wg.log(x) / x)(f32(2))
    assert np.isnan(graph(np.array([-1.0, 0.0], np.float32)).tolist()[0])
    assert graph(wg.tensor([1.0, 0.0], requires_grad=True)).tolist() == [0.0, -np.inf]


def test_results_do_not_alias_arrays_that_were_fed() -> None:
    graph = wg.graph(lambda x: x)(f32(2))
    fed = np.ones(2, np.float32)
    out = graph(fed)
    fed[0] = 9.0
    assert out.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("n", [10_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_a_chain_of_many_nodes(n: int) -> None:
    x = y = wg.tensor(0.5, requires_grad=True)
    for _ in range(n):
        y = y * 0.99999
    graph = wg.Graph.of(y)
    assert len(graph) == n + 1
    assert len(str(graph).splitlines()) == n + 2
    assert graph == wg.Graph.of(y)
    assert hash(graph) == hash(wg.Graph.of(y))
    assert graph(0.5).item() == y.item()
    assert len(graph.levels()) == n + 1
    assert graph.count_paths(graph.inputs[0], graph.outputs[0]) == 1
    assert len(next(graph.paths(graph.inputs[0], graph.outputs[0]))) == n + 1
    assert len(graph.ancestors(graph.outputs[0])) == n
    assert graph(x).requires_grad


def test_a_dict_names_the_inputs() -> None:
    x, w = wg.tensor([1.0, 2.0]), wg.tensor([3.0, 4.0], requires_grad=True)
    graph = wg.Graph.of(x * w, {"pixels": x, "weights": w})
    assert [graph.names[n] for n in graph.inputs] == ["pixels", "weights"]


def test_saved_bytes_follow_results_of_several_and_look_through_views() -> None:
    w, v = wg.randn(6, 6, requires_grad=True), wg.randn(9, 2)
    x = wg.randn(12, 6, requires_grad=True)

    def split(x: Any) -> Any:
        left, right = wg.split(wg.exp(x) @ w, 3, axis=-1)
        return (left * right).reshape(4, 9) @ v

    # exp(x), and the product whose halves are views of it
    kept = wg.graph(split)(x).saved_bytes()
    assert kept == 2 * 12 * 6 * 4 == wg.explain.memory(split(x).sum()).saved


def test_saved_bytes_leave_out_what_no_gradient_reaches() -> None:
    w = wg.randn(6, requires_grad=True)
    assert wg.graph(lambda x: wg.where(wg.exp(x * w) > 1.0, x, w))(wg.spec((6,))).saved_bytes() == 6


def test_saved_bytes_count_copies_that_a_reshape_makes() -> None:
    x = wg.randn(4, 6, requires_grad=True)

    def f(x: Any) -> Any:
        return wg.square(wg.exp(x).mT.reshape(24))

    assert wg.graph(f)(x).saved_bytes() == 2 * x.nbytes == wg.explain.memory(f(x).sum()).saved
