"""`wg.explain.paths`: every path is found, its product is right, and the sum is the gradient."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.core.node import Node

RNG = np.random.default_rng(0)
UNARY = [wg.sin, wg.cos, wg.tanh, wg.exp, lambda v: v * 0.5, lambda v: -v, lambda v: v + 1.0]
BINARY = [lambda a, b: a + b, lambda a, b: a * b, lambda a, b: a - b, wg.maximum, wg.hypot]


def leaf(value: Any, dtype: Any = np.float64) -> Any:
    return wg.tensor(np.asarray(value, dtype), requires_grad=True)


def random_scalar(rng: np.random.Generator, steps: int) -> tuple[Any, Any]:
    """A random program of numbers: the variable and a result that depends on it in several ways."""
    x = leaf(rng.normal())
    values = [x, leaf(rng.normal())]
    for _ in range(steps):
        if rng.random() < 0.4:
            values.append(UNARY[rng.integers(len(UNARY))](values[rng.integers(len(values))]))
        else:
            a, b = rng.integers(len(values), size=2)
            values.append(BINARY[rng.integers(len(BINARY))](wg.tanh(values[a]), values[b]))
    return x, wg.tanh(values[-1]) + x * values[-2]


def by_recursion(root: Node, start: Node, slope: Callable[[Node, int], float]) -> list[float]:
    """Every path's product, by enumerating them from the root: small graphs only."""
    if root is start:
        return [1.0]
    return [
        slope(root, i) * rest
        for i, entry in enumerate(root.inputs)
        if type(entry) is Node
        for rest in by_recursion(entry, start, slope)
    ]


def slope_by_rule(node: Node, index: int) -> float:
    """The local derivative of one operand, straight from the declared fact."""
    fact = node.op.fact(index)
    one = np.ones((), np.float64)
    kind = type(fact).__name__
    if kind == "Partial":
        return float(fact.pull(one, node.saved, node, index))
    if kind == "Linear":
        return float(fact.pull(one, node.saved, node, index))
    weight = fact.weight(one, node.saved, node, index) if fact.weight is not None else 1.0
    return float(weight) * bool(fact.pull(one, node.saved, node, index))


@pytest.mark.parametrize("seed", range(30))
def test_numbers_every_path_is_found(seed: int) -> None:
    x, y = random_scalar(np.random.default_rng(seed), 9)
    expected = by_recursion(y.node, x.node, slope_by_rule)
    found = wg.explain.paths(y, x)
    assert found.count == len(expected) == len(found.paths)
    got = sorted(p.contribution for p in found)
    np.testing.assert_allclose(got, sorted(expected), rtol=1e-12, atol=1e-300)
    assert found.sum == pytest.approx(math.fsum(expected), rel=1e-12)
    y.backward()
    assert found.gradient == x.grad.item()
    assert found.check() <= 1e-12 * max(1.0, sum(map(abs, expected)))
    for path in found:
        assert path.contribution == pytest.approx(math.prod(path.factors))
        assert path.nodes[0] == "w"
        assert path.nodes[-1] == "loss"


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("k", [1, 3, 7])
def test_numbers_the_largest_are_the_largest(seed: int, k: int) -> None:
    x, y = random_scalar(np.random.default_rng(100 + seed), 12)
    every = sorted((abs(c) for c in by_recursion(y.node, x.node, slope_by_rule)), reverse=True)
    found = wg.explain.paths(y, x, k)
    assert [p.size for p in found] == pytest.approx(every[:k])
    assert found.count == len(every)
    found.check()


def test_very_many_paths_are_counted_and_the_largest_found() -> None:
    x = leaf(0.3)
    y = x
    for _ in range(200):
        y = y * 0.5 + wg.sin(y) * 0.4
    found = wg.explain.paths(y, x, k=5)
    assert found.count == 2**200  # one by one they would never end
    assert len(found.paths) == 5
    # The largest takes the larger of the two slopes at every step.
    best, z = 1.0, 0.3
    for _ in range(200):
        best *= max(0.5, 0.4 * math.cos(z))
        z = z * 0.5 + math.sin(z) * 0.4
    assert found.paths[0].contribution == pytest.approx(best)
    found.check()
    default = wg.explain.paths(y, x)
    assert len(default.paths) == 20
    assert "(20 largest shown)" in str(default)


def test_the_count_is_the_graphs() -> None:
    g = wg.graph(lambda x: wg.sin(x * x) * x + wg.exp(x) * (x * x))(wg.spec((), wg.float64))
    found = wg.explain.paths(g, "x", inputs=[0.7])
    assert found.count == g.count_paths(g.node("x"), g.outputs[0])
    assert found.gradient == pytest.approx(wg.grad(g)(np.float64(0.7)).item())
    found.check()
    assert {p.nodes[0] for p in found} == {"x"}
    named = {g.names[n] for n in g.nodes}
    assert all(set(p.nodes) <= named for p in found)


def test_a_graphs_intermediate_node() -> None:
    g = wg.graph(lambda x: wg.sin(x * x) + x * x)(wg.spec((), wg.float64))
    name = g.names[g.find("multiply")[0]]
    found = wg.explain.paths(g, name, inputs=[0.7])
    assert found.sum == pytest.approx(math.cos(0.49) if len(g.find("multiply")) > 1 else math.cos(0.49) + 1)
    assert wg.explain.paths(g, g.node(name), inputs=[0.7]).sum == found.sum


# -- tensors


def network() -> tuple[dict[str, Any], Any]:
    w, b = leaf(RNG.normal(size=(4, 3))), leaf(RNG.normal(size=3))
    x = wg.tensor(RNG.normal(size=(5, 4)))
    h = wg.relu(x @ w + b)
    h = wg.softmax(h @ (w.mT @ w) + h, axis=-1)
    return {"w": w, "b": b, "h": h}, (h * h).mean() + wg.logsumexp(h, axis=None)


@pytest.mark.parametrize("name", ["w", "b", "h"])
def test_tensor_paths_add_up_to_the_gradient(name: str) -> None:
    values, loss = network()
    found = wg.explain.paths(loss, values[name])
    assert found.count == len(found.paths) > 2
    (expected,) = wg.autograd.grad(loss, values[name], retain_graph=True)
    np.testing.assert_allclose(sum(p.contribution for p in found), expected.numpy(), rtol=1e-10, atol=1e-14)
    np.testing.assert_array_equal(found.gradient, expected.numpy())
    assert found.check() < 1e-14
    sizes = [p.size for p in found]
    assert sizes == sorted(sizes, reverse=True)
    top = wg.explain.paths(loss, values[name], k=2)
    assert [p.size for p in top] == sizes[:2]
    np.testing.assert_allclose(top.sum, found.sum)


def test_one_tensor_path_by_hand() -> None:
    x = leaf([1.0, 2.0])
    y = (wg.exp(x) * x).sum()
    found = wg.explain.paths(y, x)
    by_way = {p.operands[0] if len(p.nodes) == 3 else "exp": p.contribution for p in found}
    np.testing.assert_allclose(by_way["y"], np.exp([1.0, 2.0]))
    np.testing.assert_allclose(by_way["exp"], np.exp([1.0, 2.0]) * [1.0, 2.0])


def test_several_results_and_broadcasts() -> None:
    x = leaf(RNG.normal(size=(3, 4)))
    rows = wg.unstack(x)
    top, _ = wg.top_k(rows[0] * rows[1] + rows[0], 2)
    loss = (top * x.sum(axis=0)[:2]).sum() + rows[2].mean()
    found = wg.explain.paths(loss, x)
    assert found.count == len(found.paths)
    found.check()


def test_attention_and_layer_norm() -> None:
    x, w = leaf(RNG.normal(size=(2, 5, 4)), np.float32), leaf(RNG.normal(size=(4, 4)), np.float32)
    h = wg.nn.functional.layer_norm(x @ w, (4,))
    loss = wg.square(wg.nn.functional.scaled_dot_product_attention(h, h, h) + h).mean()
    for variable in (x, w):
        found = wg.explain.paths(loss, variable)
        assert found.count > 3
        assert found.check() < 1e-6


def test_too_many_tensor_paths_are_refused() -> None:
    x = leaf([0.1, 0.2])
    y = x
    for _ in range(30):
        y = y * 0.5 + wg.sin(y)
    with pytest.raises(wg.GraphError, match=rf"{2**30:,} paths between tensors"):
        wg.explain.paths(y.sum(), x, k=3)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "complex64", "complex128"])
def test_dtypes(dtype: str) -> None:
    kind = wg.bfloat16 if dtype == "bfloat16" else getattr(wg, dtype)
    x = wg.tensor(RNG.normal(size=6)).astype(kind).detach().requires_grad_()
    y = wg.sin(x) * x + x
    loss = wg.square(wg.abs(y)).sum() if dtype.startswith("complex") else wg.square(y).sum()
    found = wg.explain.paths(loss, x)
    assert found.count in (6, 3)
    found.check()


# -- zeros that flow and zeros that do not


def test_a_path_that_a_selection_cuts_is_absent() -> None:
    x = leaf(0.0)
    found = wg.explain.paths(wg.where(x > 0, wg.log(x), 2.0 * x), x)
    assert [p.absent for p in found] == [False, True]
    assert found.sum == found.gradient == 2.0
    assert "nothing flows here" in str(found)
    z = leaf([0.0, 1.0])
    both = wg.explain.paths(wg.where(z > 0, wg.log(z), 2.0 * z).sum(), z)
    np.testing.assert_array_equal(both.sum, [2.0, 1.0])
    both.check()


def test_infinite_and_nan_slopes_stay() -> None:
    x = leaf(0.0)
    found = wg.explain.paths(wg.sqrt(x) + x, x)
    assert found.sum == found.gradient == math.inf
    assert [p.contribution for p in found] == [math.inf, 1.0]
    found = wg.explain.paths(wg.sqrt(x) * x + x, x)
    assert math.isnan(found.sum)
    assert math.isnan(found.gradient)
    found.check()


def test_empty_tensors() -> None:
    x = leaf(np.zeros((0, 3)))
    found = wg.explain.paths((x * x).sum(), x)
    assert found.count == 2
    assert found.sum.shape == (0, 3)
    found.check()


# -- ends


def test_the_loss_itself_and_what_it_does_not_depend_on() -> None:
    x, other = leaf(2.0), leaf([1.0, 2.0])
    y = x * 3.0
    own = wg.explain.paths(y, y)
    assert (own.count, own.sum, own.gradient) == (1, 1.0, 1.0)
    none = wg.explain.paths(y, other)
    assert none.count == 0
    np.testing.assert_array_equal(none.gradient, [0.0, 0.0])
    assert "no path" in str(none)
    none.check()


def test_nothing_changes_by_asking() -> None:
    x = leaf(2.0)
    y = wg.sin(x) * x
    wg.explain.paths(y, x)
    assert x.grad is None
    y.backward()
    assert x.grad.item() == pytest.approx(math.sin(2) + 2 * math.cos(2))


def test_freed_values_are_named() -> None:
    x = leaf(2.0)
    y = wg.sin(x) * x
    y.backward(retain_graph=True)
    wg.explain.paths(y, x).check()
    y.backward()
    with pytest.raises(wg.GradientError, match="retain_graph=True"):
        wg.explain.paths(y, x)


def test_a_compiled_step_s_freed_values_are_named() -> None:
    """What a compiled function was given is freed with it: no path to anything is known, which is not a zero."""
    x = leaf([1.0, 2.0])

    @wg.jit
    def step(scale: wg.Tensor) -> wg.Tensor:
        loss = ((x * scale) ** 2).sum()
        loss.backward()
        return loss

    for _ in range(3):
        loss = step(wg.ones(2))
    with pytest.raises(wg.GradientError, match="paths through compiled"):
        wg.explain.paths(loss, x)
    unused = leaf(1.0)
    other = wg.sin(leaf(2.0))
    assert "no path leads from w to loss: the derivative is 0" in str(wg.explain.paths(other, unused))


def test_errors() -> None:
    x, plain = leaf([1.0, 2.0]), wg.tensor([1.0])
    with pytest.raises(wg.GradientError, match="not a real scalar"):
        wg.explain.paths(x * 2.0, x)
    with pytest.raises(wg.GradientError, match="does not require gradients"):
        wg.explain.paths(plain.sum(), x)
    with pytest.raises(wg.GradientError, match="does not require gradients"):
        wg.explain.paths(x.sum(), plain)
    with pytest.raises(wg.DTypeError, match="paths from a float"):
        wg.explain.paths(x.sum(), 1.0)
    with pytest.raises(wg.GraphError, match="k=0"):
        wg.explain.paths(x.sum(), x, 0)
    two = wg.graph(lambda a: (a, a * 2.0))(wg.spec(()))
    with pytest.raises(wg.GraphError, match="2 outputs"):
        wg.explain.paths(two, "a", inputs=[1.0])
    with pytest.raises(wg.FeedError):
        wg.explain.paths(two, "a")
    one = wg.graph(lambda a: a * 2.0)(wg.spec(()))
    with pytest.raises(wg.GraphError, match="zz"):
        wg.explain.paths(one, "zz", inputs=[1.0])
    with pytest.raises(wg.GraphError, match="abstract"):
        wg.graph(lambda a: wg.explain.paths(a * 2.0, a).sum)(wg.spec(()))


def test_a_wrong_sum_is_not_passed_over() -> None:
    x = leaf(2.0)
    found = wg.explain.paths(wg.sin(x) * x, x)
    wrong = type(found)(
        found.variable, found.loss, found.count, found.paths, found.places, found.sum + 1e-6, found.gradient,
        found.tolerance,
    )  # fmt: skip
    with pytest.raises(wg.GradientError, match="is not the gradient"):
        wrong.check()


def test_a_deep_chain_needs_no_recursion() -> None:
    x = leaf(1.0)
    y = x
    for _ in range(20_000):
        y = y + 1.0
    found = wg.explain.paths(y, x)
    assert (found.count, found.sum) == (1, 1.0)
    z = wg.stack([x, x])
    for _ in range(3000):
        z = z + 1.0
    assert wg.explain.paths(z.sum(), x).sum == 2.0


# -- as text


def test_text_latex_and_html() -> None:
    x = leaf(3.0)
    y = wg.sin(x) * x
    found = wg.explain.paths(y, x)
    text = str(found)
    assert "the sum of 2 paths" in text
    assert "v1 = wg.sin(x)" in text
    assert re.search(r"test_paths.py:\d+", text)
    latex = found.to_latex()
    assert latex.count(r"\frac{\partial") == 1 + 3
    assert latex.count("{") == latex.count("}")
    assert r"\texttt{wg.sin(x)}" in latex
    html = found._repr_html_()
    assert html.count("<table>") == 2
    assert "wg.sin(x)" in html


def test_a_path_that_takes_away_has_a_negative_share() -> None:
    x = wg.tensor(2.0, requires_grad=True)
    rows = str(wg.explain.paths(wg.sin(x) * x + x**2, x)).splitlines()
    (row,) = [r for r in rows if "-0.8323" in r]
    assert row.rstrip().endswith("-20.4%")
