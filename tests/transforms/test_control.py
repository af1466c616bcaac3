"""Control flow: the Python that it looks like on values, one node while tracing, every derivative of both."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wengert as wg
from wengert.core.ops.declare import composite
from wengert.transforms.control import ops as control_ops

F64 = wg.float64


def t(value):
    return wg.tensor(np.asarray(value, float))


def close(a, b, tol=1e-10) -> None:
    la, lb = wg.tree.leaves(a), wg.tree.leaves(b)
    assert len(la) == len(lb)
    for x, y in zip(la, lb, strict=True):
        np.testing.assert_allclose(np.asarray(x._array), np.asarray(y._array), rtol=tol, atol=tol)


def traced(fn, *args):
    """`fn` run as a graph."""
    return wg.graph(fn)(*args)(*args)


# -- programs, each with its arguments; every transform of them must agree, eager and traced


def rnn(w, xs):
    def step(h, x):
        h = wg.tanh(w @ h + x)
        return h, (h**2).sum()

    h, ys = wg.scan(step, wg.zeros(2, dtype=F64), xs)
    return h.sum() + (ys * wg.arange(1, 5)).sum()


def rnn_backwards(w, xs):
    h, ys = wg.scan(lambda h, x: (wg.sin(w @ h) * x, h), wg.ones(2, dtype=F64), xs, reverse=True)
    return (h * ys.sum(axis=0)).sum()


def nested(w, xs):
    def outer(c, x):
        inner, _ = wg.scan(lambda d, _: (wg.sin(d * w.sum()) + x.sum(), d), c, length=3)
        return inner, inner * c

    c, ys = wg.scan(outer, wg.tensor(np.float64(0.3)), xs)
    return c + ys.sum()


def choosing(w, xs):
    def step(c, x):
        c = wg.cond(x.sum() > 0, lambda c: wg.sin(c) * w.sum(), lambda c: c * x[0], c)
        return c, c

    c, ys = wg.scan(step, wg.tensor(np.float64(0.7)), xs)
    return c + (ys**2).sum()


def switching(w, xs):
    total = xs.sum() * 0.0
    for i in range(3):
        index = wg.asarray(i) + (xs[0, 0] > 100).astype(wg.int64)
        total = total + wg.switch(index, [wg.sin, lambda v: v**3, lambda v: w.sum() * wg.exp(v)], xs[i, 0])
    return total


def newton(w, xs):
    a = (w * w).sum() + 1.0
    root = wg.while_loop(lambda s: wg.abs(s * s - a) > 1e-13, lambda s: s - (s * s - a) / (2 * s), a, max_steps=40)
    return root * xs.sum()


def growing(w, xs):
    """As many steps as an example takes, none among them; a number counts them, which has no derivative."""

    def step(state):
        v, n = state
        return wg.sin(w @ v) + 1.3 * v, n + 1

    v, n = wg.while_loop(lambda s: (s[0] ** 2).sum() < 4.0 + w[0, 0] ** 2, step, (xs[0], 0), max_steps=50)
    return (v * xs[1]).sum() * (n + 1.0)


def cut_short(w, xs):
    return wg.while_loop(lambda v: v.sum() < 1e9, lambda v: wg.cos(w @ v) + v, xs[0], max_steps=3).sum()


def stops_within(w, xs):
    """Loops that stop by value, in a loop over rows."""

    def row(c, x):
        c = wg.while_loop(
            lambda c: abs(c) < 2.0 + x[0] ** 2, lambda c: 1.3 * c + 0.1 * wg.sin(x[1] * c) * w[0, 0], c, 30
        )
        return wg.sin(c) + 0.1, c

    c, ys = wg.scan(row, wg.tensor(np.float64(0.3)), xs)
    return c * w[1, 1] + (ys**2).sum()


def counted(w, xs):
    out = wg.fori_loop(0, 5, lambda i, c: c * wg.cos(w[0, 0]) + i, xs[0])
    return (out**2).sum()


def mapped(w, xs):
    return wg.map(lambda x: wg.logsumexp(w @ x, axis=-1), xs).sum()


def captured(w, xs):
    scaled = w * 2.0
    h, _ = wg.scan(lambda h, x: (h + wg.sin(scaled @ x), None), wg.zeros(2, dtype=F64), xs)
    return (h**2).sum()


PROGRAMS = [
    rnn,
    rnn_backwards,
    nested,
    choosing,
    switching,
    newton,
    growing,
    cut_short,
    stops_within,
    counted,
    mapped,
    captured,
]


def arguments(seed=0):
    rng = np.random.default_rng(seed)
    return t(rng.normal(size=(2, 2))), t(rng.normal(size=(4, 2)))


@pytest.mark.parametrize("program", PROGRAMS)
def test_value_and_gradient_traced_and_eager(program) -> None:
    args = arguments()
    close(traced(program, *args), program(*args))
    gradient = wg.grad(program, argnums=(0, 1))
    expected = gradient(*args)
    close(traced(gradient, *args), expected)
    graph = wg.graph(program)(*args)
    close(wg.grad(lambda *a: graph(*a), argnums=(0, 1))(*args), expected)
    wg.check_grads(program, args, order=1)


@pytest.mark.parametrize("program", PROGRAMS)
def test_forward_mode(program) -> None:
    args, ts = arguments(), arguments(1)

    def forward(*args):
        return wg.jvp(program, args, ts)[1]

    grads = wg.grad(program, argnums=(0, 1))(*args)
    expected = sum((g * v).sum().item() for g, v in zip(grads, ts, strict=True))
    np.testing.assert_allclose(forward(*args).item(), expected, rtol=1e-10)
    np.testing.assert_allclose(traced(forward, *args).item(), expected, rtol=1e-10)


@pytest.mark.parametrize("program", PROGRAMS)
def test_second_order_in_every_nesting(program) -> None:
    args, ts = arguments(), arguments(1)
    nums = (0, 1)

    def over_reverse(*a):
        return wg.jvp(wg.grad(program, nums), a, ts)[1]

    def over_forward(*a):
        return wg.grad(lambda *b: wg.jvp(program, b, ts)[1], nums)(*a)

    def reverse_twice(*a):
        def along(*b):
            return sum(((g * v).sum() for g, v in zip(wg.grad(program, nums)(*b), ts, strict=True)), t(0.0))

        return wg.grad(along, nums)(*a)

    expected = reverse_twice(*args)
    for product in (over_reverse, over_forward, reverse_twice):
        close(product(*args), expected, 1e-8)
        close(traced(product, *args), expected, 1e-8)


@pytest.mark.parametrize("program", PROGRAMS)
def test_vmap(program) -> None:
    w, xs = arguments()
    many = wg.stack([xs, -xs, xs * 0.5])
    rows = [many[i] for i in range(3)]
    close(wg.vmap(program, (None, 0))(w, many), wg.stack([program(w, x) for x in rows]))
    ws = wg.stack([w, w + 0.1])
    close(wg.vmap(program, (0, None))(ws, xs), wg.stack([program(ws[i], xs) for i in range(2)]))
    gradient = wg.grad(program)
    close(wg.vmap(gradient, (None, 0))(w, many), wg.stack([gradient(w, x) for x in rows]), 1e-8)
    through = wg.grad(lambda w: wg.vmap(program, (None, 0))(w, many).sum())(w)
    close(through, sum((gradient(w, x) for x in rows), t(np.zeros((2, 2)))), 1e-8)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_graph_with_graphs_inside_prints_and_parses(program) -> None:
    args = arguments()
    for fn in (program, wg.grad(program)):
        graph = wg.graph(fn)(*args)
        for again in (wg.Graph.parse(str(graph)), wg.Graph.from_json(graph.to_json())):
            assert again == graph
            assert again.structural_hash == graph.structural_hash
            close(again(*args), graph(*args))


def test_a_traced_loop_is_one_node_whatever_its_length() -> None:
    def sizes(n):
        graph = wg.graph(lambda x: wg.scan(lambda c, r: (c * r, c), wg.tensor(1.0), x)[0])(wg.spec((n,)))
        return len(graph), len(graph.find("scan"))

    assert sizes(3) == sizes(3000)
    assert sizes(3)[1] == 1


def test_what_things_are_called_inside_makes_no_difference() -> None:
    def one(x):
        return wg.cond(x.sum() > 0, lambda first: first * 2, lambda first: first, x)

    def other(x):
        return wg.cond(x.sum() > 0, lambda second: second * 2, lambda second: second, x)

    def different(x):
        return wg.cond(x.sum() > 0, lambda second: second * 3, lambda second: second, x)

    spec = wg.spec((2,))
    assert wg.graph(one)(spec) == wg.graph(other)(spec)
    assert wg.graph(one)(spec) != wg.graph(different)(spec)


def test_only_the_branch_taken_runs() -> None:
    ran = []

    def branch(name):
        return lambda x: (ran.append(name), x)[1]

    wg.cond(wg.tensor(True), branch("yes"), branch("no"), wg.ones(2))
    assert ran == ["yes"]
    # A branch not taken must not poison the gradient either.
    g = traced(wg.grad(lambda x: wg.cond(x > 0, wg.log, lambda v: v * 3.0, x)), t(-1.0))
    assert g.item() == 3.0
    batch = wg.vmap(wg.grad(lambda x: wg.cond(x > 0, wg.log, lambda v: v * 3.0, x)))(t([-1.0, 0.0, 2.0]))
    np.testing.assert_array_equal(batch.numpy(), [3.0, 3.0, 0.5])


ENGINES = {"eager": lambda f: f, "graph": lambda f: lambda *xs: traced(f, *xs), "jit": wg.jit}
UNTAKEN = {
    "cond": lambda x: wg.cond(x > 0, lambda: wg.sqrt(x), lambda: 3 * x),
    "switch": lambda x: wg.switch((x <= 0).astype(wg.int64), [lambda: wg.log(x), lambda: 3 * x]),
    "computed before": lambda x: wg.cond(x + 1 > 1, lambda y=2 * x: wg.sqrt(y), lambda: 3 * x),
    "beside an operand": lambda x: wg.cond(x > 0, lambda v: wg.sqrt(x) * v, lambda v: 3 * v, x),
    "in a branch": lambda x: wg.cond(
        x > 0, lambda: wg.cond(x > 1, lambda: wg.sqrt(x), lambda: x), lambda: wg.cond(x > -5, lambda: 3 * x, lambda: x)
    ),
    "a loop in a branch": lambda x: wg.cond(
        x > 0, lambda: wg.fori_loop(0, 2, lambda i, c: c + wg.sqrt(x), 0.0 * x), lambda: 3 * x
    ),
    "a gradient in a branch": lambda x: wg.cond(x > 0, lambda: wg.grad(lambda v: v**1.5)(x), lambda: 3 * x),
    "a map in a branch": lambda x: wg.cond(
        x > 0, lambda: wg.vmap(lambda v: v * wg.sqrt(x))(wg.ones(2, dtype=F64)).sum(), lambda: 3 * x
    ),
    "a checkpoint in a branch": lambda x: wg.cond(x > 0, lambda: wg.checkpoint(wg.sqrt)(x), lambda: 3 * x),
    "in a loop": lambda x: wg.scan(
        lambda c, v: (wg.cond(v > 0, lambda: c + wg.sqrt(x), lambda: c + x), None), 0.0 * x, -wg.ones(3, dtype=F64)
    )[0],
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", UNTAKEN)
def test_what_a_branch_makes_of_captured_tensors_alone_is_left_with_it(name: str, engine: str) -> None:
    f, run = UNTAKEN[name], ENGINES[engine]
    for x in map(t, (-1.0, 0.0)):
        assert run(wg.grad(f))(x).item() == 3.0
        assert run(wg.grad(wg.grad(lambda x: f(x) * x)))(x).item() == 6.0
        assert run(lambda x: wg.jvp(f, (x,), (wg.ones_like(x),))[1])(x).item() == 3.0
        assert run(lambda x: wg.vmap(wg.grad(f))(x[None])[0])(x).item() == 3.0
    x = t(0.25)
    assert run(wg.grad(f))(x).item() == pytest.approx(wg.grad(f)(x).item())
    assert run(wg.grad(f))(x).item() != 3.0 or name == "in a loop"


def test_errors_of_a_branch_that_is_not_taken_are_not_raised() -> None:
    programs = {
        "index": lambda x, i: wg.cond(i < 3, lambda: x[i], lambda: x[0] * 0 - 1),
        "take": lambda x, i: wg.cond(i < 3, lambda: wg.take(x, i[None], axis=0).sum(), lambda: x[0] * 0 - 1),
        "inverse": lambda x, i: wg.cond(
            i < 3, lambda: wg.linalg.inv(wg.outer(x, x) + (5.0 - i) * wg.eye(3)).sum(), lambda: x[0] * 0 - 1
        ),
    }
    x = wg.tensor([1.0, 2.0, 3.0])
    for f in programs.values():
        graph, compiled = wg.graph(f)(x, wg.asarray(0)), wg.jit(f)
        for run in (graph, compiled):
            assert run(x, wg.asarray(1)).item() == pytest.approx(f(x, wg.asarray(1)).item(), rel=1e-4)
            assert run(x, wg.asarray(5)).item() == -1.0
    for run in (wg.graph(programs["index"])(x, wg.asarray(0)), wg.jit(programs["index"])):
        with pytest.raises(wg.RangeError):
            run(x, wg.asarray(-9))


def test_branches_share_what_they_capture() -> None:
    def f(x, y):
        return wg.cond(x.sum() > 0, lambda: wg.sqrt(x) * y, lambda: 3 * x)

    graph = wg.graph(f)(wg.spec((3,)), wg.spec(()))
    (choice,) = graph.find("switch")
    assert choice.inputs[1:] == tuple(graph.inputs)
    assert not graph.find("sqrt")
    assert [len(g.find("sqrt")) for g in choice.attrs["branches"]] == [0, 1]


def test_a_scan_over_no_rows_computes_nothing_of_its_body() -> None:
    for run in ENGINES.values():
        g = run(wg.grad(lambda w: wg.scan(lambda c, v: (c + wg.sqrt(w) * v, c), w * 0, wg.zeros(0, dtype=F64))[0]))
        assert g(t(0.0)).item() == 0.0


def test_an_index_outside_goes_to_the_nearest_branch() -> None:
    branches = [lambda: 0.0, lambda: 1.0, lambda: 2.0]
    for index, expected in [(-5, 0.0), (1, 1.0), (9, 2.0)]:
        assert float(wg.switch(wg.asarray(index), branches)) == expected
        graph = wg.graph(lambda i: wg.switch(i, branches))(wg.spec((), wg.int64))
        assert graph(wg.asarray(index)).item() == expected


def test_while_runs_until_every_example_is_done() -> None:
    def steps(x):
        return wg.while_loop(lambda s: s[0] < 100, lambda s: (s[0] * 2, s[1] + 1), (x, wg.asarray(0)))[1]

    np.testing.assert_array_equal(wg.vmap(steps)(t([1.0, 30.0, 200.0])).numpy(), [7, 2, 0])


def turns_run(monkeypatch, graph, *args) -> int:
    """How often the graphs inside of loops run."""
    ran = []
    run = control_ops.run
    with monkeypatch.context() as patch:
        patch.setattr(control_ops, "run", lambda *a: (ran.append(1), run(*a))[1])
        graph(*args)
    return len(ran)


DERIVATIVES = {
    "gradient": lambda f: wg.grad(f, (0, 1)),
    "reverse over reverse": lambda f: wg.grad(lambda w, xs: wg.grad(f)(w, xs).sum()),
    "forward over reverse": lambda f: lambda w, xs: wg.jvp(lambda w: wg.grad(f)(w, xs), (w,), (w,))[1],
    "reverse over forward": lambda f: wg.grad(lambda w, xs: wg.jvp(lambda w: f(w, xs), (w,), (w,))[1]),
    "gradients of examples": lambda f: lambda w, xs: wg.vmap(wg.grad(f), (None, 0))(w, wg.stack([xs, -xs, xs * 0.1])),
}


@pytest.mark.parametrize("program", [newton, growing, stops_within])
@pytest.mark.parametrize("derivative", DERIVATIVES)
def test_derivatives_cost_the_steps_taken_not_the_most(program, derivative, monkeypatch) -> None:
    args = arguments()
    while_loop = wg.while_loop
    ran = []
    for limit in (60, 2000):
        with monkeypatch.context() as patch:
            patch.setattr(wg, "while_loop", lambda c, b, s, max_steps, n=limit: while_loop(c, b, s, n))
            graph = wg.graph(DERIVATIVES[derivative](program))(*args)
        ran.append(turns_run(monkeypatch, graph, *args))
    assert ran[0] == ran[1]


def test_a_loop_that_takes_no_step_has_the_derivative_of_its_first_state() -> None:
    def f(x):
        return wg.while_loop(lambda s: s < 1.0, lambda s: s * s, x, max_steps=9) * x

    np.testing.assert_array_equal(wg.vmap(wg.grad(f))(t([2.0, 3.0])).numpy(), [4.0, 6.0])
    assert traced(wg.grad(wg.grad(f)), t(2.0)).item() == 2.0
    assert wg.vmap(wg.grad(f))(t(np.zeros(0))).shape == (0,)


def test_rows_past_the_last_step_are_not_looked_at() -> None:
    # At 0, which such rows hold, the step has no derivative.
    def f(x):
        return wg.while_loop(lambda s: s > 0.5, lambda s: wg.sqrt(wg.sqrt(s)) * s - 0.2, x, max_steps=30)

    xs = t([0.6, 0.9, 0.1])
    expected = [wg.grad(f)(x).item() for x in xs]
    np.testing.assert_allclose(wg.vmap(wg.grad(f))(xs).numpy(), expected, rtol=1e-12)
    through = wg.grad(lambda xs: wg.vmap(wg.grad(f))(xs).sum())(xs)
    second = [wg.grad(wg.grad(f))(x).item() for x in xs]
    np.testing.assert_allclose(through.numpy(), second, rtol=1e-12)


def test_examples_of_examples() -> None:
    w, xs = arguments()
    ws = wg.stack([w, 0.7 * w])
    many = wg.stack([xs, -xs, xs * 0.1])
    gradient = wg.grad(growing)
    found = wg.vmap(lambda w: wg.vmap(lambda xs: gradient(w, xs))(many))(ws)
    close(found, wg.stack([wg.stack([gradient(v, x) for x in many]) for v in ws]), 1e-8)


def test_graphs_of_loops_that_cannot_be() -> None:
    gradient = str(wg.graph(wg.grad(newton))(*arguments()))
    assert "partial_scan" in gradient
    with pytest.raises(wg.GraphError, match="rows without max_steps"):
        wg.Graph.parse(gradient.replace("max_steps=40", "max_steps=None"))
    with pytest.raises(wg.GraphError, match=r"partial_scan over f64\[\] rows"):
        wg.Graph.parse(gradient.replace("keeps=True] e ", "keeps=True] b "))


def test_numbers_in_a_first_state_take_the_dtype_of_the_loop() -> None:
    def f(x):
        return wg.scan(lambda c, r: (c + r, c), 0.0, x)

    x = t([1.0, 2.0])
    assert f(x)[0].dtype == traced(f, x)[0].dtype == F64
    assert wg.while_loop(lambda c: c < 3, lambda c: c + x.sum(), 0.0).dtype == F64
    assert traced(lambda x: wg.while_loop(lambda c: c < 3, lambda c: c + x.sum(), 0.0), x).dtype == F64


def test_no_steps_at_all() -> None:
    def f(w):
        c, ys = wg.scan(lambda c, r: (c * w, wg.stack([c, r])), w, wg.zeros(0, dtype=F64))
        return c + ys.sum(), ys

    assert f(t(2.0))[1].shape == traced(f, t(2.0))[1].shape == (0, 2)
    assert wg.grad(lambda w: f(w)[0])(t(2.0)).item() == 1.0
    assert traced(wg.grad(lambda w: f(w)[0]), t(2.0)).item() == 1.0
    assert wg.vmap(lambda w: f(w)[0])(t([1.0, 2.0])).shape == (2,)


def test_integers_in_the_state() -> None:
    def f(x):
        (c, n), ys = wg.scan(lambda s, r: ((s[0] * r, s[1] + 1), s[1]), (x[0], wg.asarray(0)), x)
        return c * n, ys

    x = t([2.0, 3.0])
    close(traced(f, x), f(x))
    close(traced(wg.grad(lambda x: f(x)[0]), x), wg.grad(lambda x: f(x)[0])(x))
    assert wg.jvp(f, (x,), (x,))[1][1] is None


def test_parameters_used_inside_collect_gradients() -> None:
    layer = wg.nn.Linear(2, 2)
    xs = wg.randn(5, 2)
    graph = wg.graph(lambda xs: wg.scan(lambda h, x: (wg.tanh(layer(h) + x), h), wg.zeros(2), xs)[0].sum())(xs)
    graph(xs).backward()
    through = {n: p.grad.numpy() for n, p in layer.named_parameters()}
    layer.zero_grad()
    wg.scan(lambda h, x: (wg.tanh(layer(h) + x), h), wg.zeros(2), xs)[0].sum().backward()
    for name, p in layer.named_parameters():
        np.testing.assert_allclose(through[name], p.grad.numpy(), rtol=1e-5)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: wg.cond(wg.ones(2), wg.sin, wg.cos, wg.ones(2)), r"pred is f32\[2\], not a scalar"),
        (lambda: wg.switch(wg.tensor(1.0), [wg.sin], wg.ones(2)), "an index of f32"),
        (lambda: wg.switch(wg.asarray(0), []), "without branches"),
        (lambda: wg.scan(lambda c, x: c, wg.ones(2), wg.ones(3)), "scan: a step returned"),
        (lambda: wg.scan(lambda c, x: (x, c), wg.ones(2), wg.ones(3)), r"a state of f32\[2\] became f32\[\]"),
        (lambda: wg.scan(lambda c, x: ((c, c), c), wg.ones(2), wg.ones(3)), "the state .* became"),
        (lambda: wg.scan(lambda c, x: (c, c), wg.ones(2)), "needs length="),
        (lambda: wg.scan(lambda c, x: (c, c), wg.ones(2), (wg.ones(3), wg.ones(4))), r"different lengths \[3, 4\]"),
        (lambda: wg.scan(lambda c, x: (c, c), wg.ones(2), wg.tensor(1.0)), "a 0-d tensor among xs"),
        (lambda: wg.while_loop(lambda c: c < 9, lambda c: c.astype(F64), wg.tensor(1.0)), "became f64"),
    ],
)
def test_errors_say_what_is_wrong(call, text: str) -> None:
    with pytest.raises(wg.WengertError, match=text) as caught:
        call()
    assert "test_control.py" in str(caught.value).splitlines()[0]
    with pytest.raises(wg.WengertError, match=text):
        wg.graph(lambda _: call())(wg.spec(()))


def test_errors_of_traced_branches() -> None:
    def trace(true, false):
        wg.graph(lambda x: wg.cond(x.sum() > 0, true, false, x))(wg.spec((2,)))

    with pytest.raises(wg.GraphError, match=r"branch 0 returns .* branch 1 returns"):
        trace(lambda x: x, lambda x: (x, x))
    with pytest.raises(wg.GraphError, match=r"of branch 0 is f32\[1\], of branch 1 f32\[2\]"):
        trace(lambda x: x, lambda x: x[:1])


def test_an_unbounded_traced_while_has_no_reverse_mode_and_says_so() -> None:
    def f(x):
        return wg.while_loop(lambda c: c < 100, lambda c: c * x, x)

    assert wg.grad(f)(3.0).item() == pytest.approx(5 * 3.0**4)
    with pytest.raises(wg.GradientError, match="not bounded") as caught:
        wg.graph(wg.grad(f))(wg.spec(()))
    assert "max_steps" in str(caught.value)
    assert traced(lambda x: wg.jvp(f, (x,), (1.0,))[1], t(3.0)).item() == pytest.approx(5 * 3.0**4)


def test_random_numbers_in_a_traced_loop_are_refused() -> None:
    with pytest.raises(wg.TraceError, match="the same in every step"):
        wg.graph(lambda x: wg.scan(lambda c, r: (c + wg.rand(2), c), x, length=3)[0])(wg.spec((2,)))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 6), st.booleans(), st.integers(0, 2**31))
def test_scan_is_a_python_loop(length: int, reverse: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    w, xs = t(rng.normal(size=(2, 2))), t(rng.normal(size=(length, 2)))

    def by_scan(w, xs):
        return wg.scan(lambda h, x: (wg.sin(w @ h + x), h * x), wg.ones(2, dtype=F64), xs, reverse=reverse)

    h, rows = np.ones(2), [np.zeros(2)] * length
    for i in reversed(range(length)) if reverse else range(length):
        rows[i] = h * xs.numpy()[i]
        h = np.sin(w.numpy() @ h + xs.numpy()[i])
    for found in (by_scan(w, xs), traced(by_scan, w, xs)):
        np.testing.assert_allclose(found[0].numpy(), h)
        np.testing.assert_allclose(found[1].numpy(), np.array(rows).reshape(length, 2))


DOUBLED = (lambda c, x: (wg.concat([c, c]), x), lambda c, x: (c.astype(F64), x), lambda c, x: (c + x, x))


@pytest.mark.parametrize("around", [lambda f: f, lambda f: wg.jit(f)], ids=["eager", "jit"])
@pytest.mark.parametrize(
    ("call", "advice"),
    [
        (lambda c: wg.scan(DOUBLED[0], c, wg.ones((4, 3))), r"one of shape \(3,\)\. What grows .* second result, y"),
        (lambda c: wg.scan(DOUBLED[1], c, wg.ones((4, 3))), r"the dtype of its state\. .*x\.astype\(wg\.float64\)"),
        (lambda c: wg.scan(DOUBLED[2], c[0], wg.ones((4, 3))), r"the shape of its state\. .*wg\.full\(\(3,\), x\)"),
        (
            lambda c: wg.while_loop(lambda c: c.sum() < 9, lambda c: wg.concat([c, c]), c),
            r"one of shape \(3,\)\. What grows .* x\[i\] = v",
        ),
    ],
)
def test_a_state_of_another_shape_is_not_told_to_change_its_dtype(call, advice: str, around) -> None:
    with pytest.raises(wg.WengertError) as caught:
        around(call)(wg.ones(3))
    first, mend = str(caught.value).splitlines()
    assert re.search(advice, mend)
    assert ("astype" in mend) == ("f64" in first)


PROBE = composite("control_probe(x, r)", doc="x times r.", listed=False)(lambda x, r: x * r)


@pytest.mark.parametrize("shape", [(), (1,), (2,)])
def test_composites_with_captured_operands_that_broadcast(shape: tuple[int, ...]) -> None:
    x, r = wg.tensor([1.0, 2.0]), wg.tensor(np.full(shape, 3.0))
    rows = wg.tensor([[1.0, 2.0], [3.0, 4.0]])

    def chosen(r: Any) -> Any:
        return wg.cond(x.sum() > 0, lambda v: PROBE.front(v, r).sum(), lambda v: v.sum(), x)

    def scanned(r: Any) -> Any:
        return wg.scan(lambda c, t: (c + PROBE.front(t, r).sum(), c), wg.tensor(0.0, dtype=r.dtype), rows)[0] ** 2

    for f in (chosen, scanned, lambda r: chosen(r * r)):
        want = np.asarray(wg.grad(f)(r))
        assert want.any()
        np.testing.assert_allclose(np.asarray(wg.jit(wg.grad(f))(r)), want)
        tangent = wg.jit(lambda r, f=f: wg.jvp(f, (r,), (wg.ones_like(r),))[1])
        np.testing.assert_allclose(float(tangent(r)), want.sum())
