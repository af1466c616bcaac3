"""Automatic batching beside what else programs do: other modules, random numbers, errors, writes, threads."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import wengert as wg
import wengert.torch as torch
from wengert.execute.batching.cells import cell_of_op, exactly

from .programs import TreeLSTM, check, close, values_and_gradients


def recurrent(cell: Any, width: int) -> Any:
    """A loop over a sequence, whose length may be any."""

    def run(x: Any) -> Any:
        h = c = torch.zeros(width)
        for t in range(len(x)):
            h, c = cell(x[t], (h, c))
        return h

    return run


def test_pytorchs_modules() -> None:
    torch.manual_seed(0)
    cell = torch.nn.LSTMCell(3, 4)
    xs = [torch.randn(n, 3) for n in (2, 5, 1, 3)]
    run = recurrent(cell, 4)
    check(run, xs, list(cell.parameters()))
    with wg.batching() as block:
        outs = [run(x) for x in xs]
    assert [g.calls for r in block.report.runs for g in r.groups] == [4, 3, 2, 1, 1]
    assert all(type(y.clone()) is torch.Tensor for y in outs)


def test_pytorchs_views_share_memory() -> None:
    cell = wg.cell(lambda x: x * 2)
    with wg.batching() as block:
        h = cell(torch.arange(4.0))
        v = h[1:3]
        first = v[0]
        twice = cell(v)
        left, right = torch.chunk(h, 2)
        others = [h.chunk(2)[1], h.reshape(2, 2)[1], h.view(2, 2).T[:, 1], h[None].squeeze(0)[2:], h.split(2)[1]]
        assert not block.report.runs
        v += 10
    assert h.tolist() == [0.0, 12.0, 14.0, 6.0]
    assert (first.item(), left.tolist(), right.tolist()) == (12.0, [0.0, 12.0], [14.0, 6.0])
    assert twice.tolist() == [4.0, 8.0]
    assert all(other.tolist() == [14.0, 6.0] for other in others)
    h[1] = 5.0
    assert v.tolist() == [5.0, 14.0]


def test_gradients_of_pytorchs_views() -> None:
    x = torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    cell = wg.cell(lambda x: x * x)

    def run() -> list[Any]:
        h = cell(x)
        v = h[1:3]
        return [cell(v), v.sum(), h.reshape(2, 2)[0]]

    def batched() -> list[Any]:
        with wg.batching():
            return run()

    for found, expected in zip(values_and_gradients(batched, [x]), values_and_gradients(run, [x]), strict=True):
        close(found, expected)


def test_random_numbers_are_those_of_one_by_one_execution() -> None:
    dropout, linear = wg.nn.Dropout(0.5), wg.nn.Linear(4, 4)

    @wg.cell
    def noisy(x: Any) -> Any:
        return dropout(linear(x)) + wg.rand(4) * wg.randn(4)

    def run(n: int) -> Any:
        x = wg.ones(4)
        for _ in range(n):
            x = noisy(x)
        return x

    found = []
    for f in (lambda xs: [run(x) for x in xs], wg.autobatch(run), wg.autobatch(run, check=True)):
        wg.manual_seed(5)
        found.append(values_and_gradients(lambda f=f: f([3, 1, 2]), list(linear.parameters())) + [wg.rand(2)])
    for other in found[1:]:
        for a, b in zip(other, found[0], strict=True):
            close(a, b)


def test_batch_normalisation_is_refused_in_training() -> None:
    norm = wg.nn.BatchNorm1d(3)
    with pytest.raises(wg.GraphError, match=r"BatchNorm1d in a block of batching: .*running_mean") as e, wg.batching():
        norm(wg.ones(2, 3))
    assert "module.eval()" in str(e.value)
    norm.eval()
    check(norm, [wg.ones(2, 3), wg.full((2, 3), 2.0)], list(norm.parameters()))


def test_a_module_that_trains_and_is_tested_in_turn() -> None:
    wg.manual_seed(0)
    dropout = wg.nn.Dropout(0.5)
    x = wg.ones(8)
    with wg.batching() as block:
        trained = dropout(x)
        block.flush()
        dropout.eval()
        tested = dropout(x)
    assert tested.tolist() == [1.0] * 8
    assert set(trained.tolist()) == {0.0, 2.0}


def test_a_change_of_what_is_deferred_is_refused() -> None:
    factors = [2.0]
    cell = wg.cell(lambda x: x * factors[0])

    def run() -> None:
        with wg.batching():
            cell(wg.ones(2))
            factors[0] = 3.0

    with pytest.raises(wg.GraphError, match="has changed since calls of it were deferred"):
        run()
    with wg.batching() as block:
        first = cell(wg.ones(2))
        block.flush()
        factors[0] = 4.0
        second = cell(wg.ones(2))
    assert (first.tolist(), second.tolist()) == ([3.0, 3.0], [4.0, 4.0])


def test_parameters_that_are_written_between_calls() -> None:
    linear = wg.nn.Linear(2, 2, bias=False)
    x = wg.tensor([1.0, 2.0])
    before = linear(x).detach()
    with wg.batching():
        first = linear(x)
        with wg.no_grad():
            linear.weight.copy_(linear.weight * 2)
        second = linear(x)
        linear.weight = wg.nn.Parameter(linear.weight.detach() * 2)
        third = linear(x)
    close(first.detach(), before)
    close(second.detach(), 2 * before)
    close(third.detach(), 4 * before)


def test_arguments_that_are_written_after_the_call() -> None:
    cell = wg.cell(lambda x: x * 2)
    x, y = wg.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0])
    with wg.batching():
        found, other = cell(x), cell(y)
        x[0] = 9.0
        y[0] = 9.0
    assert (found.tolist(), other.tolist()) == ([2.0, 4.0], [2.0, 4.0])


def test_errors_name_the_example_and_the_line() -> None:
    table = wg.tensor([1.0, 2.0, 3.0])
    pick = wg.cell(lambda i: table[i])

    def run(i: int) -> Any:
        return pick(np.int64(i))

    with pytest.raises(wg.RangeError, match=r"<lambda> of example 2: .*index 5 is out of range.*test_programs.py:\d+"):
        wg.autobatch(run)([0, 1, 5, 2])
    with pytest.raises(wg.ShapeError) as e:
        wg.autobatch(lambda n: wg.cell(lambda x: x + wg.ones(3))(wg.ones(n)))([3, 2])
    assert "in example 1 of the batch" in e.value.__notes__


def test_a_batch_that_failed_says_so_again() -> None:
    pick = wg.cell(lambda i: wg.tensor([1.0])[i])
    with pytest.raises(wg.RangeError), wg.batching():
        y = pick(np.int64(3))
    with pytest.raises(wg.RangeError):
        y.item()


def test_an_error_in_the_block_leaves_what_is_deferred_for_later() -> None:
    cell = wg.cell(lambda x: x * 2)
    made = []

    def run() -> None:
        with wg.batching():
            made.append(cell(wg.tensor(2.0)))
            raise KeyError

    with pytest.raises(KeyError):
        run()
    assert made[0].item() == 4.0
    assert cell(wg.tensor(1.0)).item() == 2.0


def reasons(block: Any) -> str:
    return " | ".join(f"{name}: {why}" for name, why, *_ in block.report.left)


def test_what_is_not_static_runs_as_it_is_written() -> None:
    seen = []

    def forked(x: Any) -> Any:
        return x * 2 if x > 1 else x

    def noting(x: Any) -> Any:
        seen.append(x.shape)
        return x * 2

    def drawing(x: Any, g: Any = wg.random.Generator(0)) -> Any:  # noqa: B008
        return x + wg.rand(generator=g)

    with wg.batching() as block:
        values = [wg.cell(f)(wg.tensor(2.0)).item() for f in (forked, noting)]
        wg.cell(drawing)(wg.tensor(2.0))
    assert values == [4.0, 4.0]
    assert seen == [()]
    assert "forked: a branch on its truth needs the value" in reasons(block)
    assert "changes something outside" in reasons(block)
    assert "drawing: " in reasons(block)


class Looping(wg.nn.Module):
    """A module with a loop: what it calls is batched."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = wg.nn.Linear(2, 2)

    def forward(self, xs: Any) -> Any:
        total = wg.zeros(2)
        for i in range(xs.shape[0]):
            total = total + self.inner(xs[i])
        return total


def test_modules_with_loops_are_no_cells_unless_they_are_marked() -> None:
    model = Looping()
    with wg.batching() as block:
        model(wg.ones(3, 2))
    assert "Looping: its forward has a loop" in reasons(block)
    assert {g.cell for r in block.report.runs for g in r.groups} == {"Linear", "add"}
    wg.cell(model)
    with wg.batching() as block:
        model(wg.ones(3, 2))
    assert [g.cell for r in block.report.runs for g in r.groups] == ["Looping"]
    check(model, [wg.ones(3, 2), wg.ones(1, 2)], list(model.parameters()))


class Marked(wg.nn.Module):
    """A module of which one method is a cell."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = wg.nn.Parameter([2.0])

    @wg.cell
    def step(self, x: Any) -> Any:
        return x * self.weight


def test_methods_are_cells_of_their_objects() -> None:
    first, second = Marked(), Marked()
    with wg.no_grad():
        second.weight.copy_(wg.tensor([3.0]))
    with wg.batching() as block:
        ys = [m.step(wg.tensor([1.0])) for m in (first, second, first)]
    assert [y.tolist() for y in ys] == [[2.0], [3.0], [2.0]]
    assert [(g.cell, g.calls) for r in block.report.runs for g in r.groups] == [("Marked.step", 2), ("Marked.step", 1)]
    assert first.step(wg.tensor([1.0])).tolist() == [2.0]


def test_compiled_functions_inside_cells_and_with_handles() -> None:
    square = wg.jit(lambda x: x * x)
    w = wg.tensor([1.0, 3.0], requires_grad=True)
    cell = wg.cell(lambda x: square(x) + w)
    check(lambda x: square(cell(x)), [wg.ones(2), wg.full((2,), 2.0)], [w])


def test_a_cell_may_read_a_value_to_come() -> None:
    w = wg.tensor([1.0, 2.0], requires_grad=True)
    double = wg.cell(lambda x: x * 2)

    def run(scale: float) -> Any:
        h = double(w * scale)
        cell = wg.cell(lambda x: x * h)
        return cell(double(h)) + cell(w)

    check(run, [1.0, 2.0], [w])


def test_attributes_of_operations_differ_by_types_and_bits() -> None:
    op = wg.exp(wg.ones(2, requires_grad=True)).node.op
    cells = [cell_of_op(op, *exactly({"a": v})) for v in (0.0, -0.0, 0, False, (1, 0.0), (1, -0.0), (True, 0.0))]
    assert len({id(c) for c in cells}) == 7


def test_traced_loops_and_branches_in_cells() -> None:
    w = wg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    loop = wg.cell(lambda x: wg.scan(lambda c, y: (c * 0.5 + y * w, c), wg.zeros(3), x)[0])
    choice = wg.cell(lambda x, i: wg.cond(i > 0, lambda x: x * 2, lambda x: x * w, x))
    examples = [(wg.ones(4, 3), 1), (wg.full((4, 3), 2.0), 0), (wg.full((4, 3), -1.0), 1)]
    check(lambda e: choice(loop(e[0]), wg.tensor(e[1])), examples, [w])
    with wg.batching() as block:
        for x, i in examples:
            choice(loop(x), wg.tensor(i))
    assert [g.calls for r in block.report.runs for g in r.groups] == [3, 3]


def test_blocks_in_blocks() -> None:
    cell = wg.cell(lambda x: x * 2)
    with wg.batching() as outer:
        y = cell(wg.tensor(1.0))
        with wg.batching() as inner:
            z = cell(y)
        w = cell(z)
    assert (y.item(), z.item(), w.item()) == (2.0, 4.0, 8.0)
    assert (len(outer.report.runs), len(inner.report.runs)) == (2, 1)


def test_a_decorator_is_a_block_for_each_call() -> None:
    cell = wg.cell(lambda x: x * 2)

    @wg.batching
    def f(x: Any) -> Any:
        return cell(cell(x))

    assert f(wg.tensor(1.0)).item() == 4.0
    assert wg.batching(check=True)(f)(wg.tensor(2.0)).item() == 8.0


def test_threads_have_blocks_of_their_own() -> None:
    model = TreeLSTM()
    expected = model(((1, 2), 3)).detach()
    found: list[Any] = []

    def run() -> None:
        found.append(wg.autobatch(model)([((1, 2), 3)] * 3))

    cell = wg.cell(lambda x: x * 2)
    with wg.batching() as block:
        y = cell(wg.tensor(1.0))
        threads = [threading.Thread(target=run) for _ in range(4)]
        other = threading.Thread(target=lambda: found.append([y + 1.0]))
        for t in (*threads, other):
            t.start()
        for t in (*threads, other):
            t.join()
        assert len(block.report.runs) == 1  # the other thread asked for the value
    assert len(found) == 5
    for outs in found:
        for out in outs:
            close(out.detach(), 3.0 if len(outs) == 1 else expected)


def test_handles_are_pickled_and_copied_as_tensors() -> None:
    cell = wg.cell(lambda x: x * 2)
    for make in (lambda y: pickle.loads(pickle.dumps(y)), copy.deepcopy, copy.copy):
        with wg.batching():
            y = make(cell(wg.tensor([1.0, 2.0])))
            assert type(y) is wg.Tensor
        assert y.tolist() == [2.0, 4.0]


def test_modules_are_pickled_and_copied_without_what_blocks_know() -> None:
    model = TreeLSTM()
    wg.autobatch(model)([(1, 2)])
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        close(wg.autobatch(other)([(1, 2)])[0].detach(), model((1, 2)).detach())


def test_nothing_keeps_a_batch_alive() -> None:
    model = TreeLSTM()
    with wg.batching() as block:
        loss = model((1, 2))
    record = weakref.ref(loss.node.inputs[0].attrs["record"])
    gc.collect()
    gc.disable()
    try:
        loss.backward()
        del loss, block
        assert record() is None
    finally:
        gc.enable()


def test_float64_and_complex_cells() -> None:
    w = wg.tensor([1.0 + 2.0j, -1.0j], requires_grad=True)
    cell = wg.cell(lambda x: x * w)

    def total(x: Any) -> Any:
        y = cell(cell(x))
        return wg.real(y * wg.conj(y)).sum()

    check(total, [wg.tensor([1.0 + 0j, 2.0]), wg.tensor([1j, 3.0])], [])
    grads = []
    for f in (total, lambda x: wg.autobatch(total)([x])[0]):
        w.grad = None
        f(wg.tensor([1.0 + 0j, 2.0])).backward()
        grads.append(np.asarray(w.grad))
    np.testing.assert_allclose(grads[1], grads[0], rtol=1e-5)


def test_examples_without_rows_and_empty_batches() -> None:
    assert wg.autobatch(lambda x: x)([]) == []
    w = wg.tensor([1.0, 2.0], requires_grad=True)
    start = wg.cell(lambda: w * 2)
    check(lambda i: start() * i, [1.0, 2.0], [w])
