"""`wg.explain.flow`, `memory`, `cost` and `diff`: answers about graphs, held against independent measures."""

from __future__ import annotations

import importlib
import itertools
import re
import sys
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import wengert as wg

diff_module = importlib.import_module("wengert.explain.diff")

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
    (lambda x, y: wg.atan2(x, y), "atan2", "scale"),
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


# -- diff

VECTOR = wg.spec((4,), wg.float64)
UNARY = ["sin", "cos", "tanh", "exp", "negative", "square"]
BINARY = ["add", "multiply", "subtract", "maximum"]


def random_program(seed: int, steps: int) -> list[tuple[str, int, int, float | None]]:
    """Rows (op, operand, operand, literal) over two inputs; every row's value is used later or is the result."""
    rng = np.random.default_rng(seed)
    rows: list[tuple[str, int, int, float | None]] = []
    for i in range(steps):
        a, b = i + 1, int(rng.integers(max(0, i - 6), i + 2))
        if rng.random() < 0.5:
            rows.append((UNARY[rng.integers(len(UNARY))], a, -1, None))
        elif rng.random() < 0.3:
            rows.append((BINARY[rng.integers(len(BINARY))], a, -1, float(rng.integers(2, 9)) + i / 1024))
        else:
            rows.append((BINARY[rng.integers(len(BINARY))], a, b, None))
    return rows


def graph_of(rows: Any, spec: Any = VECTOR) -> Any:
    def program(x: Any, y: Any) -> Any:
        values = [x, y]
        for op, a, b, literal in rows:
            operands = [values[a]] + ([values[b]] if b >= 0 else []) + ([literal] if literal is not None else [])
            values.append(getattr(wg, op)(*operands))
        return values[-1]

    return wg.graph(program)(spec, spec)


def sound(a: Any, b: Any, found: Any) -> None:
    """What no edit mentions is the same in both graphs."""
    said = {line.split(":")[0] for e in found for line in (e.before, e.after) if line}
    back = {j: i for i, j in found.matched.items()}
    assert len(back) == len(found.matched)
    for i, j in found.matched.items():
        n, m = a.nodes[i], b.nodes[j]
        if a.names[n] in said or b.names[m] in said:
            continue
        assert n.op.name == m.op.name
        for x, y in zip(n.inputs, m.inputs, strict=True):
            if isinstance(x, wg.Node):
                p, q = a.index[x], b.index[y]
                assert found.matched.get(p) == q or p not in found.matched or q not in back
            else:
                assert x == y
    assert all(a.names[n] in said for i, n in enumerate(a.nodes) if i not in found.matched)
    assert all(b.names[m] in said for j, m in enumerate(b.nodes) if j not in back)


@pytest.mark.parametrize("seed", range(20))
def test_diff_of_equal_graphs_is_empty(seed: int) -> None:
    a = graph_of(random_program(seed, 30))
    again = graph_of(random_program(seed, 30))
    for b in (a, again, wg.Graph.parse(str(a)), wg.Graph.from_json(a.to_json())):
        found = wg.explain.diff(a, b)
        assert not found
        assert len(found) == 0
        assert str(found) == "the graphs are equal"
    text = re.sub(r"\b(?=[xy]\b)", "input_", str(a))
    assert "input_x: f64" in text
    assert not wg.explain.diff(a, wg.Graph.parse(text))


@pytest.mark.parametrize("seed", range(30))
def test_one_changed_node_is_one_edit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = random_program(seed, 60)
    at = int(rng.integers(len(rows)))
    op, x, y, literal = rows[at]
    pool = UNARY if y < 0 and literal is None else BINARY
    other = [*rows]
    other[at] = (next(o for o in pool if o != op), x, y, literal)
    a, b = graph_of(rows), graph_of(other)
    found = wg.explain.diff(a, b)
    assert [e.kind for e in found] == ["changed"]
    assert found.edits[0].note == f"{op} -> {other[at][0]}"
    sound(a, b, found)


@pytest.mark.parametrize("seed", range(30))
def test_one_inserted_node_is_one_edit_each_way(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = random_program(seed, 60)
    at = int(rng.integers(1, len(rows)))

    def shift(k: int) -> int:
        return k if k < at + 2 else k + 1

    op, _, y, c = rows[at]
    later = [(o, shift(p), shift(q), d) for o, p, q, d in rows[at + 1 :]]
    longer = [*rows[:at], ("sqrt", at + 1, -1, None), (op, at + 2, y, c), *later]
    a, b = graph_of(rows), graph_of(longer)
    found = wg.explain.diff(a, b)
    assert [e.kind for e in found] == ["added"]
    assert "sqrt" in (found.edits[0].after or "")
    sound(a, b, found)
    back = wg.explain.diff(b, a)
    assert [e.kind for e in back] == ["removed"]
    assert "sqrt" in (back.edits[0].before or "")
    sound(b, a, back)


@pytest.mark.parametrize("seed", range(20))
def test_unrelated_graphs_differ_soundly(seed: int) -> None:
    a, b = graph_of(random_program(seed, 40)), graph_of(random_program(seed + 1000, 35))
    found = wg.explain.diff(a, b)
    assert found
    sound(a, b, found)


def test_a_changed_literal_attribute_constant_and_operand() -> None:
    c = wg.tensor(np.arange(4.0))

    def made(literal: float, axis: int, constant: Any, swap: bool) -> Any:
        def f(x: Any, y: Any) -> Any:
            h = wg.sin(x) * literal + constant
            a, b = (y, x) if swap else (x, y)
            return wg.sum(wg.outer(h, wg.cos(a)), axis=axis) - wg.exp(b)

        return wg.graph(f)(VECTOR, VECTOR)

    base = made(2.0, 0, c, False)
    literal = wg.explain.diff(base, made(3.0, 0, c, False))
    assert [(e.kind, e.note) for e in literal] == [("changed", "operand 1: 2.0 -> 3.0")]
    axis = wg.explain.diff(base, made(2.0, 1, c, False))
    assert [(e.kind, e.note) for e in axis] == [("changed", "axis=(-2,) -> (-1,)")]
    constant = wg.explain.diff(base, made(2.0, 0, c + 1.0, False))
    assert [(e.kind, e.note) for e in constant] == [("changed", "another value")]
    swapped = wg.explain.diff(base, made(2.0, 0, c, True))
    assert {e.kind for e in swapped} == {"rewired"}
    assert len(swapped) == 2


def test_the_users_lines() -> None:
    def before(x: Any) -> Any:
        return wg.exp(x) + 1.0

    def after(x: Any) -> Any:
        return wg.exp(wg.sin(x)) + 1.0

    (edit,) = wg.explain.diff(wg.graph(before)(VECTOR), wg.graph(after)(VECTOR))
    assert edit.kind == "added"
    assert edit.source is not None
    assert edit.source.text == "wg.sin(x)"
    assert edit.source.line == after.__code__.co_firstlineno + 1
    assert "wg.sin(x)" in str(edit)


def test_another_batch_size_is_a_change_of_the_inputs() -> None:
    rows = random_program(3, 30)
    found = wg.explain.diff(graph_of(rows), graph_of(rows, wg.spec((8,), wg.float64)))
    assert [e.note for e in found] == ["f64[4] -> f64[8]"] * 2


def test_inputs_and_outputs_added() -> None:
    one = wg.graph(lambda x, y: wg.sin(x) * y)(VECTOR, VECTOR)
    two = wg.graph(lambda x, z, y: (wg.sin(x) * y, z))(VECTOR, VECTOR, VECTOR)
    found = wg.explain.diff(one, two)
    assert [(e.kind, e.after) for e in found] == [("added", "z: f64[4] input"), ("output", "output 1: z")]
    back = wg.explain.diff(two, one)
    assert [(e.kind, e.before) for e in back] == [("removed", "z: f64[4] input"), ("output", "output 1: z")]


def test_modules_that_differ_by_a_layer() -> None:
    def model(*extra: Any) -> Any:
        wg.manual_seed(0)
        return wg.nn.Sequential(wg.nn.Linear(4, 8), wg.nn.ReLU(), *extra, wg.nn.Linear(8, 2))

    a = wg.graph(model())(wg.spec((3, 4)))
    b = wg.graph(model(wg.nn.Tanh()))(wg.spec((3, 4)))
    found = wg.explain.diff(a, b)
    assert [e.kind for e in found] == ["added"]
    assert "tanh" in (found.edits[0].after or "")


def test_the_work_grows_as_the_graph_does() -> None:
    def calls(nodes: int) -> int:
        rows = random_program(0, nodes)
        other = [*rows]
        for at in (10, nodes // 2, nodes - nodes // 10):
            op, x, y, c = rows[at]
            pool = UNARY if y < 0 and c is None else BINARY
            other[at] = (next(o for o in pool if o != op), x, y, c)
        a, b = graph_of(rows), graph_of(other)
        made = 0

        def count(frame: object, event: str, argument: object) -> None:
            nonlocal made
            made += event in ("call", "c_call")

        sys.setprofile(count)
        try:
            found = wg.explain.diff(a, b)
        finally:
            sys.setprofile(None)
        assert [e.kind for e in found] == ["changed"] * 3
        return made

    assert calls(8_000) < 6 * calls(2_000)  # four times as many nodes


def test_longest_common_subsequence() -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        a, b = (list(rng.integers(0, 4, size=rng.integers(0, 12))) for _ in range(2))
        pairs = diff_module._longest_common(a, b)
        assert all(a[i] == b[j] for i, j in pairs)
        assert all(p[0] < q[0] and p[1] < q[1] for p, q in itertools.pairwise(pairs))
        table = np.zeros((len(a) + 1, len(b) + 1), int)
        for i, x in enumerate(a):
            for j, y in enumerate(b):
                table[i + 1, j + 1] = table[i, j] + 1 if x == y else max(table[i, j + 1], table[i + 1, j])
        assert len(pairs) == table[-1, -1]


def test_diff_of_something_else() -> None:
    with pytest.raises(wg.DTypeError, match="Tensor"):
        wg.explain.diff(graph_of(random_program(0, 3)), leaf(1.0))
