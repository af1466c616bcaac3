"""`wg.explain.flow`, `memory`, `cost` and `diff`: answers about graphs, held against independent measures."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import wengert as wg

RNG = np.random.default_rng(0)


def leaf(value: Any, dtype: Any = np.float64) -> Any:
    return wg.tensor(np.asarray(value, dtype), requires_grad=True)


# -- flow

PATTERNS = [
    (lambda x, y: x + y, "add", "distribute"),
    (lambda x, y: x - y, "subtract", "distribute"),
    (lambda x, y: x * y, "multiply", "swap"),
    (lambda x, y: x * 3.0, "multiply", "scale"),
    (lambda x, y: x / y, "divide", "scale"),
    (lambda x, y: x**y, "pow", "scale"),
    (lambda x, y: wg.hypot(x, y), "hypot", "scale"),
    (lambda x, y: wg.maximum(x, y), "maximum", "route"),
    (lambda x, y: wg.minimum(x, y), "minimum", "route"),
    (lambda x, y: wg.relu(x), "relu", "route"),
    (lambda x, y: wg.clip(x, 0.0, 1.0), "clip", "route"),
    (lambda x, y: wg.where(x.detach() > 1, x, y), "where", "route"),
    (lambda x, y: wg.exp(x), "exp", "scale"),
    (lambda x, y: -x, "negative", "scale"),
    (lambda x, y: x @ y.mT, "matmul", "swap"),
    (lambda x, y: wg.einsum("ij,kj->ik", x, y), "einsum", "swap"),
    (lambda x, y: x.sum(axis=0), "sum", "distribute"),
    (lambda x, y: x.mean(axis=0), "mean", "distribute"),
    (lambda x, y: wg.max(x, axis=0), "max", "route"),
    (lambda x, y: wg.std(x, axis=0), "std", "scale"),
    (lambda x, y: wg.softmax(x), "softmax", "scale"),
    (lambda x, y: x[0], "slice", "route"),
    (lambda x, y: x.reshape(6), "reshape", "route"),
    (lambda x, y: x.mT, "permute", "route"),
    (lambda x, y: wg.concat([x, y]), "concat", "route"),
    (lambda x, y: wg.broadcast_to(x, (4, 2, 3)), "broadcast", "accumulate"),
    (lambda x, y: wg.tile(x, (2, 1)), "tile", "accumulate"),
    (lambda x, y: wg.pad(x, ((1, 1), (0, 0))), "pad", "route"),
    (lambda x, y: x[wg.tensor([0, 0, 1])], "index", "accumulate"),
    (lambda x, y: x[wg.tensor([1, 0])], "index", "route"),
]


@pytest.mark.parametrize(("fn", "op", "pattern"), PATTERNS, ids=[f"{op}-{p}" for _, op, p in PATTERNS])
def test_patterns(fn: Any, op: str, pattern: str) -> None:
    x, y = leaf(RNG.uniform(0.5, 2.0, (2, 3))), leaf(RNG.uniform(0.5, 2.0, (2, 3)))
    found = wg.explain.flow((fn(x, y) * wg.tensor(2.0, dtype=wg.float64)).sum())
    nodes = [n for n in found if n.op == op]
    assert nodes[-1].pattern == pattern


def test_flow_of_numbers_by_hand() -> None:
    x, y = leaf(2.0), leaf(3.0)
    found = wg.explain.flow(wg.maximum(x * y, x - y) / y)
    by_op = {n.op: n for n in found if n.op != "leaf"}
    assert by_op["divide"].sentence == (
        "1 arrives; v3 gets it times the slope 0.3333: 0.3333, w2 gets it times the slope -0.6667: -0.6667"
    )
    assert by_op["multiply"].sentence.startswith("0.3333 arrives; ")
    assert "times w2 = 3: 1" in by_op["multiply"].sentence
    assert by_op["subtract"].sentence == "nothing flows here"
    assert by_op["subtract"].gradient is not None
    assert not by_op["subtract"].gradient.flows
    assert found["loss"].gradient.numbers == 1.0
    assert found["w2"].uses == 3
    assert "used 3 times" in found["w2"].sentence


def test_flow_agrees_with_the_backward_pass() -> None:
    w, b = leaf(RNG.normal(size=(4, 3))), leaf(np.zeros(3))
    x = wg.tensor(RNG.normal(size=(5, 4)))
    h = wg.relu(x @ w + b)
    h = wg.softmax(h @ (w.mT @ w) + h)
    h.retain_grad()
    loss = wg.max(wg.concat([h, h * h]), axis=0).mean() + wg.top_k(b, 2)[0].sum() + wg.std(w)
    found = wg.explain.flow(loss)
    loss.backward()
    expected = {"[4,3]": w, "[3]": b}
    leaves = [n for n in found if n.op == "leaf"]
    assert len(leaves) == 2
    for node in leaves:
        tensor = expected[re.search(r"\[.*\]", node.spec)[0]]  # type: ignore[index]
        np.testing.assert_allclose(node.gradient.numbers, tensor.grad.numpy(), rtol=1e-12)
    softmax = next(n for n in found if n.op == "softmax")
    np.testing.assert_allclose(softmax.gradient.numbers, h.grad.numpy(), rtol=1e-12)
    assert softmax.uses == 3
    for node in found:
        shares = [s.gradient for s in node.arrived if s.gradient.numbers is not None]
        if node.op != "top_k" and shares and node.gradient.numbers is not None:
            np.testing.assert_allclose(sum(s.numbers for s in shares), node.gradient.numbers, rtol=1e-9, atol=1e-15)


def test_flow_of_a_graph_uses_its_names() -> None:
    g = wg.graph(lambda x1, x2: (x1 + x2) * wg.sin(x1))(wg.spec(()), wg.spec(()))
    found = wg.explain.flow(g, inputs=[1.0, 2.0])
    assert {n.name for n in found} == set(g.names.values())
    assert found["x1"].gradient.numbers == pytest.approx(wg.grad(g)(1.0, 2.0).item())
    assert found["a"].text == "x1 + x2"


def test_flow_as_picture_and_table() -> None:
    x = leaf([1.0, 2.0])
    found = wg.explain.flow((wg.exp(x) * x).sum())
    picture = ElementTree.fromstring(found.to_svg())
    titles = [t.text for t in picture.iter("{http://www.w3.org/2000/svg}title")]
    assert sum(str(n) in titles for n in found) == len(found)
    assert found._repr_html_().count("<tr>") == len(found) + 1
    assert len(str(found).splitlines()) == len(found) + 1


def test_flow_errors() -> None:
    x = leaf([1.0, 2.0])
    with pytest.raises(wg.GradientError, match="not a real scalar"):
        wg.explain.flow(x * 2.0)
    with pytest.raises(wg.DTypeError):
        wg.explain.flow(3.0)
    y = (x * x).sum()
    y.backward()
    with pytest.raises(wg.GradientError, match="retain_graph"):
        wg.explain.flow(y)
    with pytest.raises(wg.GraphError, match="'zz'"):
        wg.explain.flow((x * x).sum())["zz"]


def test_flow_of_a_long_chain() -> None:
    x = leaf(1.0)
    y = x
    for _ in range(3000):
        y = y * 1.0001
    found = wg.explain.flow(y)
    assert len(found) == 3001
    with pytest.raises(wg.GraphError, match="400"):
        found.to_svg()
