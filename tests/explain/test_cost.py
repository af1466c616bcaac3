"""`wg.explain.cost`: operations and bytes, against counts made in other ways."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.core.ops import costs
from wengert.core.ops.facets import VIEWS
from wengert.core.ops.op import TABLE

M, N, K, B = 7, 5, 3, 2


def cost_of(fn: Any, *shapes: Any, dtype: Any = wg.float32) -> Any:
    return wg.explain.cost(wg.graph(fn)(*(wg.spec(s, dtype) for s in shapes)))


def counted_einsum(subscripts: str, *shapes: tuple[int, ...]) -> int:
    """Multiplications and additions of a sum of products, by running over the index letters."""
    left, right = subscripts.split("->")
    sizes = {
        c: n for term, shape in zip(left.split(","), shapes, strict=True) for c, n in zip(term, shape, strict=True)
    }
    terms = 0
    for _ in itertools.product(*(range(n) for n in sizes.values())):
        terms += 1
    return terms * (len(shapes) if set(sizes) - set(right) else len(shapes) - 1)


CONTRACTIONS = [
    (lambda x, y: x @ y, "ik,kj->ij", ((M, K), (K, N))),
    (lambda x, y: x @ y, "bik,bkj->bij", ((B, M, K), (B, K, N))),
    (lambda x, y: x @ y, "ik,k->i", ((M, K), (K,))),
    (lambda x, y: x @ y, "k,kj->j", ((K,), (K, N))),
    (lambda x, y: x @ y, "k,k->", ((K,), (K,))),
    (lambda x, y: wg.einsum("bik,bjk->bij", x, y), "bik,bjk->bij", ((B, M, K), (B, N, K))),
    (lambda x, y: wg.einsum("i,j->ij", x, y), "i,j->ij", ((M,), (N,))),
    (lambda x, y: wg.nn.functional.linear(x, y), "ik,jk->ij", ((M, K), (N, K))),
]


@pytest.mark.parametrize(("fn", "subscripts", "shapes"), CONTRACTIONS)
def test_contractions(fn: Any, subscripts: str, shapes: Any) -> None:
    assert cost_of(fn, *shapes).flops == counted_einsum(subscripts, *shapes)


def test_three_operands_are_contracted_two_at_a_time() -> None:
    found = cost_of(lambda a, b, c: wg.einsum("ij,jk,kl->il", a, b, c), (M, K), (K, N), (N, B))
    orders = (
        counted_einsum("ij,jk->ik", (M, K), (K, N)) + counted_einsum("ik,kl->il", (M, N), (N, B)),
        counted_einsum("jk,kl->jl", (K, N), (N, B)) + counted_einsum("ij,jl->il", (M, K), (K, B)),
    )
    assert found.flops in orders


def test_convolution_counts_every_product() -> None:
    x, w, groups, stride, dilation = (2, 4, 9, 8), (6, 2, 3, 2), 2, 2, 1
    found = cost_of(lambda a, b: wg.nn.functional.conv2d(a, b, stride=stride, groups=groups), x, w)
    terms = 0
    out = [(n - dilation * (k - 1) - 1) // stride + 1 for n, k in zip(x[2:], w[2:], strict=True)]
    for _ in itertools.product(range(x[0]), range(w[0]), *map(range, out)):
        terms += w[1] * w[2] * w[3]
    (node,) = [n for n in found if n.op == "convolve"]
    assert node.flops == 2 * terms


def test_backward_of_a_matrix_product_costs_twice_the_forward() -> None:
    def loss(p: Any) -> Any:
        return (p["x"] @ p["w"]).sum()

    spec = {"x": wg.spec((M, K)), "w": wg.spec((K, N))}
    forward = wg.explain.cost(wg.graph(loss)(spec))
    both = wg.explain.cost(wg.graph(wg.grad(loss))(spec))
    one = 2 * M * N * K
    assert sum(n.flops for n in forward if n.op == "matmul") == one
    assert sum(n.flops for n in both if n.op == "matmul") == 2 * one


def test_elementwise_reductions_and_bytes() -> None:
    found = cost_of(lambda x, b: wg.exp(x + b).sum(axis=0), (M, N), (N,))
    by_op = {n.op: n for n in found}
    assert by_op["add"].flops == M * N
    assert by_op["add"].read == 4 * (M * N + N)
    assert by_op["add"].written == 4 * M * N
    assert by_op["broadcast"].bytes == 0
    assert by_op["exp"].flops == 15 * M * N
    assert by_op["sum"].flops == M * N
    assert by_op["sum"].bytes == 4 * (M * N + N)
    assert found.flops == 17 * M * N
    assert by_op["add"].intensity == pytest.approx(M * N / (4 * (2 * M * N + N)))
    assert found.bytes == sum(n.bytes for n in found)


def test_an_operand_taken_twice_is_read_once() -> None:
    found = cost_of(lambda x: x * x, (M,))
    assert found.nodes[0].read == 4 * M


@pytest.mark.parametrize(
    ("exponent", "weight"), [(2, 1), (2.0, 1), (3, 2), (8, 3), (1, 0), (-2, 5), (0.5, 4), (-0.5, 8), (9, 30), (2.5, 30)]
)
def test_small_powers_are_products(exponent: float, weight: int) -> None:
    assert cost_of(lambda x: x**exponent, (M,)).flops == weight * M


def test_complex_numbers() -> None:
    found = cost_of(lambda x, y: x @ y, (M, K), (K, N), dtype=wg.complex64)
    assert found.flops == 8 * M * N * K
    assert cost_of(lambda x, y: x * y, (M,), (M,), dtype=wg.complex64).flops == 6 * M
    assert cost_of(lambda x, y: x + y, (M,), (M,), dtype=wg.complex64).flops == 2 * M


def test_a_composite_is_the_sum_of_what_is_inside_and_moves_only_its_ends() -> None:
    graph = wg.graph(lambda x: wg.softmax(x))(wg.spec((M, N)))
    (node,) = wg.explain.cost(graph)
    assert node.flops == wg.explain.cost(graph.expand()).flops
    assert node.bytes == 2 * 4 * M * N
    assert "inside" in node.rule


def test_linear_algebra_of_stacks() -> None:
    n = 6
    found = cost_of(lambda a: wg.linalg.cholesky(a), (B, n, n), dtype=wg.float64)
    assert next(c for c in found if c.op == "cholesky").flops == B * n**3 // 3
    found = cost_of(lambda a, b: wg.linalg.solve(a, b), (n, n), (n, 4), dtype=wg.float64)
    assert next(c for c in found if c.op == "solve").flops == 2 * n**3 // 3 + 2 * n * n * 4


def test_loops_count_all_turns_and_branches_the_longest() -> None:
    w = wg.randn(N, N)
    found = cost_of(lambda xs: wg.scan(lambda c, x: (wg.tanh(w @ c + x), c), wg.zeros(N), xs)[0], (M, N))
    assert found.flops == M * (2 * N * N + N + 15 * N)
    found = cost_of(lambda p, x: wg.cond(p > 0, lambda x: x * 2 + 1, wg.sin, x), (), (N,))
    assert next(n for n in found if n.op == "switch").flops == 15 * N
    found = cost_of(lambda x: wg.while_loop(lambda x: (x < 10).all(), lambda x: x * 2, x), (N,))
    assert [n.op for n in found.unknown] == ["while_loop"]
    nested = cost_of(lambda xs: wg.scan(lambda c, x: (wg.while_loop(lambda x: x < 1, wg.exp, c), x), 0.5, xs), (M,))
    assert [n.rule for n in nested.unknown] == ["iterates as often as its values ask for"]


def test_modules_add_up() -> None:
    model = wg.nn.Sequential(wg.nn.Linear(4, 8), wg.nn.Sequential(wg.nn.ReLU(), wg.nn.Linear(8, 2)))
    found = wg.explain.cost(wg.graph(model)(wg.spec((3, 4))))
    assert found.paths[""].flops == found.flops
    assert found.paths["1"].flops == found.paths["1.0"].flops + found.paths["1.1"].flops
    assert found.paths["0"].flops + found.paths["1"].flops == found.flops
    assert found.paths["0"].flops == 3 * (2 * 4 * 8 + 8)
    assert "1.1" in str(found)
    assert found._repr_html_().count("<table>") == 2


def test_views_are_what_shares_memory() -> None:
    """Every op that gives a view of an operand in its samples is said to, but for two that only may."""
    sharing = set()
    for name, op in TABLE.items():
        for call in op.samples(np.random.default_rng(0)) if op.samples is not None else ():
            out = op.forward(*call.args, **call.attrs)
            results = out if isinstance(out, (tuple, list)) else (out,)
            arrays = [a for a in call.args if isinstance(a, np.ndarray)]
            if any(isinstance(r, np.ndarray) and np.shares_memory(a, r) for a in arrays for r in results):
                sharing.add(name)
    assert {"reshape", "slice", "broadcast", "permute"} <= sharing
    assert {op.name for op in TABLE.values() if op.role in VIEWS} - {"alias", "output"} <= sharing


@pytest.mark.parametrize("name", [n for n, o in TABLE.items() if o.samples is not None and o.kind != "leaf"])
def test_every_op_has_a_count_or_a_reason(name: str) -> None:
    op = TABLE[name]
    call = next(iter(op.samples(np.random.default_rng(0))))  # type: ignore[misc]

    def run(*xs: Any) -> Any:
        rest = iter(xs)
        out = op.front(*(next(rest) if isinstance(a, np.ndarray) else a for a in call.args), **call.attrs)
        return list(out) if isinstance(out, tuple) else out

    graph = wg.graph(run)(*(a for a in call.args if isinstance(a, np.ndarray)))
    for node in wg.explain.cost(graph):
        assert node.rule
        assert node.flops is None or node.flops >= 0
        if op.kind == "elementwise" and node.op == name:
            size = np.prod(graph.outputs[0].spec.shape, dtype=int)
            if node.rule.endswith("operations inside"):  # a formula of other ops, for each element
                assert node.flops >= size
                assert node.flops % size == 0
            else:
                assert node.flops == size * _weight(name, graph)


def _weight(name: str, graph: Any) -> int:
    weight = costs.cost_of(TABLE[name])
    weight = costs.POWER if name == "pow" else weight
    assert isinstance(weight, int)
    if any(n.spec.dtype.kind == "c" for n in graph.inputs):
        return {"add": 2, "subtract": 2, "negative": 2, "multiply": 6}.get(name, 4 * weight)
    return weight


def test_roofline() -> None:
    found = cost_of(lambda x, y: wg.exp(x @ y), (64, 64), (64, 64))
    product, exponential = found.nodes
    low = found.bound_by_memory(1e9, 1e9)
    assert low == ()
    assert found.bound_by_memory(1e12, 1e9) == (product, exponential)
    assert found.bound_by_memory(8e9, 1e9) == (exponential,)
    expected = max(2 * 64**3 / 1e11, product.bytes / 1e10) + max(15 * 64**2 / 1e11, exponential.bytes / 1e10)
    assert found.seconds(1e11, 1e10) == pytest.approx(expected)


def test_unknown_sizes_give_formulas() -> None:
    x = wg.placeholder((None, 4), "float32")
    f = wg.function([x], wg.tanh(x @ wg.tensor(np.ones((4, 3), np.float32))))
    found = wg.explain.cost(f.graph)
    product = next(n for n in found if n.op == "matmul")
    assert "24" in str(product.flops)
    assert found.intensity is None
    assert "24" in str(found)
    with pytest.raises(wg.GraphError, match="not known"):
        found.seconds(1e9, 1e9)


def test_a_tensors_graph_and_other_things() -> None:
    x = wg.tensor([1.0, 2.0], requires_grad=True)
    assert [n.op for n in wg.explain.cost(wg.exp(x) * x)] == ["exp", "multiply"]
    with pytest.raises(wg.DTypeError, match="float"):
        wg.explain.cost(1.0)
    with pytest.raises(wg.GraphError, match="'q'"):
        wg.explain.cost(x * 2.0)["q"]
