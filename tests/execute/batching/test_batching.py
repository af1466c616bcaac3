"""Automatic batching gives what one-by-one execution gives: values, gradients, curves of training."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wengert as wg
from wengert.execute.batching.block import Batching
from wengert.execute.batching.kernels import Kernels

from .programs import TreeLSTM, check, close, random_tree, values_and_gradients


def ran(block: Batching) -> list[tuple[str, int]]:
    """Return the groups of a block's runs, as names of cells with numbers of calls."""
    return [(g.cell, g.calls) for run in block.report.runs for g in run.groups]


@pytest.fixture(scope="module")
def model() -> TreeLSTM:
    wg.manual_seed(0)
    return TreeLSTM()


TREES = st.recursive(st.integers(0, 9), lambda inner: st.tuples(inner, inner), max_leaves=8)


MODEL = TreeLSTM()


@settings(max_examples=12)
@given(st.lists(TREES, min_size=1, max_size=5))
def test_random_trees(trees: list[Any]) -> None:
    check(MODEL, trees, list(MODEL.parameters()))


def test_cells_of_one_depth_run_together(model: TreeLSTM) -> None:
    with wg.batching() as block:
        for tree in (((1, 2), (3, 4)), ((5, 6), 7), 8):
            model(tree)
    assert ran(block) == [("Leaf", 8), ("Node", 3), ("Node", 2), ("Linear", 3), ("slice", 3)]


def test_curves_of_training_are_those_of_one_by_one_execution() -> None:
    curves = []
    for batched in (False, True):
        wg.manual_seed(1)
        rng = np.random.default_rng(1)
        m = TreeLSTM()
        optimizer = wg.optim.Adam(m.parameters(), lr=0.01)
        curve = []
        for _ in range(8):
            trees = [random_tree(int(rng.integers(1, 7)), rng) for _ in range(6)]
            targets = wg.tensor(rng.normal(size=6).astype(np.float32))
            optimizer.zero_grad()
            outs = wg.autobatch(m)(trees) if batched else [m(t) for t in trees]
            loss = (wg.stack(outs) - targets).square().mean()
            loss.backward()
            optimizer.step()
            curve.append(loss.item())
        curves.append(curve)
    np.testing.assert_allclose(curves[1], curves[0], rtol=0, atol=2e-6)


@pytest.mark.parametrize("part", ["forward", "backward", "sums"])
def test_check_compares_values_and_gradients(model: TreeLSTM, part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def run() -> None:
        with wg.batching(check=True):
            y = model(((1, 2), 3)) + model((4, 5))
        y.backward()

    run()
    inner: Any = getattr(Kernels, part)

    def wrong(self: Kernels, n: int) -> Any:
        def run(inputs: Any, outputs: Any) -> Any:
            found = inner(self, n)(inputs, outputs)
            found[0][...] += 1
            return found

        return run

    monkeypatch.setattr(Kernels, part, wrong)
    with pytest.raises(wg.GraphError, match=r"differs by .* from that of one-by-one execution"):
        run()


@wg.cell
def double(x: Any) -> Any:
    return x * 2


LINEAR = wg.nn.Linear(3, 3)
SCALE = wg.tensor([0.5, -1.0, 2.0], requires_grad=True)
CELLS: list[tuple[int, Any]] = [
    (1, LINEAR),
    (1, wg.nn.Sequential(wg.nn.Linear(3, 3), wg.nn.Tanh())),
    (1, wg.cell(lambda x: wg.sin(x) * SCALE)),
    (2, wg.cell(lambda x, y: wg.where(x > y, x * y, LINEAR(y)))),
    (2, wg.cell(lambda x, y: (x - y) / (1.0 + y * y))),
    (2, lambda x, y: x + y * SCALE),
    (2, lambda x, y: wg.concat([x[1:], y[:1]])),
    (2, lambda x, y: wg.stack([x, y, x]).sum(0) * 0.5),
    (1, lambda x: wg.softmax(x)),
    (1, lambda x: x * 2.0 if float(x[0].detach()) > 0 else x),
]
PARAMETERS = [SCALE, *LINEAR.parameters(), *CELLS[1][1].parameters()]


@settings(max_examples=10)
@given(st.lists(st.lists(st.tuples(*[st.integers(0, 99)] * 3), min_size=1, max_size=9), min_size=1, max_size=4))
def test_random_programs(examples: list[list[tuple[int, int, int]]]) -> None:
    """Each example is a program: the numbers of a cell or operation, and of the values that it takes."""

    def run(program: list[tuple[int, int, int]]) -> Any:
        values = [SCALE, wg.tensor([1.0, 0.25, -0.5])]
        for which, first, second in program:
            count, fn = CELLS[which % len(CELLS)]
            taken = [values[i % len(values)] for i in (first, second)]
            values.append(fn(*taken[:count]))
        return wg.tanh(values[-1]) + values[len(values) // 2]

    check(run, examples, PARAMETERS)


def test_a_value_that_python_asks_for_runs_what_is_deferred() -> None:
    with wg.batching() as block:
        y = double(wg.tensor(1.0))
        assert ran(block) == []
        z = double(y) if y > 1 else y
        assert ran(block) == [("double", 1), ("greater", 1)]
        assert z.item() == 4.0
    assert [name for name, _ in ran(block)] == ["double", "greater", "double"]


def test_a_handle_knows_its_shape_without_a_run() -> None:
    x = wg.ones(2, 3, requires_grad=True)
    with wg.batching() as block:
        y = double(x)
        assert (y.shape, y.dtype, y.ndim, y.requires_grad, len(y)) == ((2, 3), wg.float32, 2, True, 2)
        assert isinstance(y, wg.Tensor)
        assert not y.is_abstract
        assert ran(block) == []
    assert y.tolist() == [[2.0] * 3] * 2
    assert type(y) is wg.Tensor


def test_operations_between_cells_are_deferred() -> None:
    x = wg.tensor([1.0, 2.0, 3.0, 4.0])
    with wg.batching() as block:
        y = double(x)
        outs = [
            -y,
            y + 1.0,
            2.0 / y,
            y[1:],
            y[None],
            y.reshape(2, 2),
            y.sum(),
            wg.split(y, 2)[1],
            wg.where(y > 3, y, 0.0),
            wg.softmax(y),
            wg.concat([y, x]),
            x @ y,
        ]
        assert ran(block) == []
    for found, expected in zip(
        outs,
        [
            -2 * x,
            2 * x + 1.0,
            1.0 / x,
            2 * x[1:],
            2 * x[None],
            2 * x.reshape(2, 2),
            2 * x.sum(),
            2 * x[2:],
            wg.tensor([0.0, 4.0, 6.0, 8.0]),
            wg.softmax(2 * x),
            wg.concat([2 * x, x]),
            2 * x @ x,
        ],
        strict=True,
    ):
        close(found, expected)


@pytest.mark.parametrize("grad", [True, False])
def test_stacks_of_many_values(grad: bool) -> None:
    x = wg.tensor([1.0, 2.0], requires_grad=True)

    def run(n: int) -> Any:
        parts = [double(x * i) for i in range(n)]
        return wg.stack([*parts, parts[0]]).sum(0) + wg.stack(parts, axis=1)[:, -1]

    with wg.set_grad_enabled(grad), wg.batching() as block:
        outs = [run(n) for n in (9, 2, 9)]
        assert ran(block) == []
    for out, n in zip(outs, (9, 2, 9), strict=True):
        close(out.detach(), run(n).detach())
    assert all(out.requires_grad is grad for out in outs)
    check(run, [9, 2, 9], [x])


def test_pytrees_constants_and_several_results() -> None:
    @wg.cell
    def cell(parts: dict[str, Any], *, scale: float, name: str) -> Any:
        return {name: parts["a"] * scale, "same": parts["b"][0], "text": name}, (parts["a"] + 1.0,)

    def run(i: int) -> Any:
        found, (other,) = cell({"a": wg.full((2,), float(i)), "b": [wg.tensor(i)]}, scale=3.0, name="n")
        assert found["text"] == "n"
        return found["n"] + other + found["same"]

    assert [y.tolist() for y in wg.autobatch(run)([1, 2])] == [run(i).tolist() for i in (1, 2)]


def test_constants_that_differ_in_type_or_bits_run_apart() -> None:
    @wg.cell
    def power(x: Any, n: Any) -> Any:
        return x**n if isinstance(n, int) else x * 0.0 + wg.atan2(wg.tensor(n), -1.0)

    x = wg.tensor(2.0)
    with wg.batching() as block:
        outs = [power(x, n) for n in (2, 2.0, True, 0.0, -0.0, 2)]
    assert ran(block) == [("power", n) for n in (2, 1, 1, 1, 1)]
    for found, n in zip(outs, (2, 2.0, True, 0.0, -0.0, 2), strict=True):
        close(found, power(x, n))


def test_shapes_and_dtypes_run_apart() -> None:
    with wg.batching() as block:
        outs = [
            double(wg.ones(n, dtype=t)) for n, t in ((2, wg.float32), (3, wg.float32), (2, wg.float64), (2, wg.int64))
        ]
    assert ran(block) == [("double", 1)] * 4
    assert [(y.shape, y.dtype) for y in outs] == [
        ((2,), wg.float32),
        ((3,), wg.float32),
        ((2,), wg.float64),
        ((2,), wg.int64),
    ]


def test_unused_results_and_inputs_without_gradients() -> None:
    w = wg.tensor([1.0, 2.0], requires_grad=True)

    @wg.cell
    def cell(x: Any, i: Any) -> Any:
        return x * w, x + i, wg.sqrt(x)

    def run(i: int) -> Any:
        first, _, _ = cell(wg.full((2,), float(i)), wg.tensor(i))
        return cell(first, wg.tensor(i))[0]

    check(run, [1, 2, 3], [w])


def test_nothing_flows_from_results_that_nobody_uses() -> None:
    """A gradient of 0 there would meet an infinite derivative."""
    w = wg.tensor([1.0, 2.0], requires_grad=True)
    root = wg.cell(lambda x: (x * w, wg.sqrt(x * w)))
    start = wg.tensor([0.0, 4.0], requires_grad=True)

    def run(uses: bool) -> Any:
        first, second = root(start + float(uses))
        return first + second * 2.0 if uses else first

    for examples in ([False, False], [True, False], [True, True]):
        check(run, examples, [w, start])
        assert np.isfinite(np.asarray(w.grad)).all()


def test_a_parameter_in_cells_and_outside() -> None:
    w = wg.tensor([1.5, -0.5], requires_grad=True)
    first, second = wg.cell(lambda x: wg.tanh(x * w)), wg.cell(lambda x, y: x * w + y)
    check(lambda i: second(first(w * i), w) + w, [1.0, 2.0], [w])


def test_a_value_that_many_calls_take_gets_all_their_gradients() -> None:
    x = wg.tensor([1.0, 2.0], requires_grad=True)

    @wg.cell
    def cell(a: Any, b: Any) -> Any:
        return a * b

    def run() -> list[Any]:
        a = cell(x, x)
        return [cell(a, x), cell(a, a), cell(a, x)]

    def batched() -> list[Any]:
        with wg.batching():
            return run()

    for found, expected in zip(values_and_gradients(batched, [x]), values_and_gradients(run, [x]), strict=True):
        close(found, expected)


def test_growth_to_long_chains_and_many_calls() -> None:
    """A chain longer than Python's stack, and more calls than one kernel takes."""
    w = wg.tensor(0.999, requires_grad=True)

    @wg.cell
    def step(x: Any) -> Any:
        return x * w

    def chain() -> list[Any]:
        x = wg.tensor(1.0)
        for _ in range(1200):
            x = step(x)
        return [x]

    def batched() -> list[Any]:
        with wg.batching():
            return chain()

    value, gradient = values_and_gradients(batched, [w])
    close(value, 0.999**1200, 1e-4)
    close(gradient, 2 * 1200 * 0.999**2399, 1e-4)
    with wg.batching() as block:
        ys = [step(wg.tensor(float(i))) for i in range(600)]
    assert [n for _, n in ran(block)] == [256, 256, 88]
    close([y.item() for y in ys], 0.999 * np.arange(600))


def test_second_derivatives_are_right() -> None:
    x = wg.tensor([1.0, 2.0], requires_grad=True)
    cube = wg.cell(lambda v: v**3)
    with wg.batching():
        y = cube(cube(x)).sum()
    (g,) = wg.autograd.grad(y, [x], create_graph=True)
    (h,) = wg.autograd.grad(g.sum(), [x])
    close(g, 9 * np.array([1.0, 2.0]) ** 8)
    close(h, 72 * np.array([1.0, 2.0]) ** 7)


def test_gradients_of_what_a_batch_goes_on_with_are_refused() -> None:
    """They would lack what flows inside the batch."""
    x = wg.tensor([1.0, 2.0], requires_grad=True)
    with wg.batching():
        h = double(x)
        y = (double(h) + h).sum()
    asks = (
        lambda: h.retain_grad(),
        lambda: h.register_hook(print),
        lambda: wg.autograd.grad(y, [h]),
        lambda: y.backward(inputs=[h]),
    )
    for ask in asks:
        with pytest.raises(wg.GradientError, match=r"gradient of a result of double, .*inside of a batch"):
            ask()
    with wg.batching() as block:
        h = double(x)
        block.flush()
        y = (double(h) + h).sum()
    (g,) = wg.autograd.grad(y, [h], retain_graph=True)
    h.retain_grad()
    y.retain_grad()
    y.backward()
    assert (g.tolist(), h.grad.tolist(), y.grad.item(), x.grad.tolist()) == ([3.0] * 2, [3.0] * 2, 1.0, [6.0] * 2)


def test_a_second_backward_pass_asks_for_the_graph() -> None:
    x = wg.tensor(2.0, requires_grad=True)
    with wg.batching():
        y = double(x) * x
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.item() == 16.0
    with pytest.raises(wg.GradientError, match="second time"):
        y.backward()


def test_transforms_around_a_block() -> None:
    square = wg.cell(lambda v: v * v)

    def f(w: Any) -> Any:
        first, second = wg.autobatch(lambda x: square(square(w * x)))([wg.tensor(1.0), wg.tensor(2.0)])
        return first + second

    assert wg.grad(f)(wg.tensor(2.0)).item() == 4 * 17 * 8
    # In a trace the block does nothing: the program is traced as it is written.
    assert wg.jit(f)(wg.tensor(2.0)).item() == 17 * 16
    assert wg.vmap(f)(wg.tensor([1.0, 2.0])).tolist() == [17.0, 17.0 * 16]


def test_no_gradients_are_recorded_under_no_grad(model: TreeLSTM) -> None:
    with wg.no_grad():
        found = wg.autobatch(model)([(1, 2), 3])
        expected = [model((1, 2)), model(3)]
    assert not any(y.requires_grad for y in found)
    for a, b in zip(found, expected, strict=True):
        close(a, b)
