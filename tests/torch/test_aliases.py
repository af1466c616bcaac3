"""Names of one memory: what is written to by one is seen by all, in compiled functions as outside of them.

The numbers are PyTorch's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
import wengert.torch as torch

CALLS = 6
either = pytest.mark.parametrize("compiled", [lambda f: f, torch.compile], ids=["eager", "compiled"])
Compile = Callable[[Any], Any]


def equal(tensor: Any, expected: Any) -> None:
    np.testing.assert_array_equal(tensor.detach(), np.asarray(expected, tensor.dtype))


# -- views of state


@either
def test_views_of_state_follow_what_a_function_writes(compiled: Compile) -> None:
    w = torch.zeros(4)
    first, named, transposed = w[:2], w.detach(), w.view(2, 2).t()

    @compiled
    def step() -> Any:
        w.add_(1.0)
        return w.sum()

    for _ in range(CALLS):
        step()
        equal(first, w[:2])
    equal(named, [6] * 4)
    equal(transposed, [[6, 6], [6, 6]])
    first.zero_()
    equal(w, [0, 0, 6, 6])
    step()
    equal(first, [1, 1])


@either
def test_a_view_that_is_gone_holds_nothing_up(compiled: Compile) -> None:
    w = torch.zeros(4)
    view = w[1:]

    @compiled
    def step() -> Any:
        w.add_(1.0)
        return w.sum()

    for n in range(2 * CALLS):
        if n == CALLS:
            equal(view, [6] * 3)
            del view
        step()
    equal(w, [12] * 4)
    view = w[::2]
    step()
    equal(view, [13, 13])


@either
def test_parameters_in_one_vector_follow_the_optimiser(compiled: Compile) -> None:
    linear = torch.nn.Linear(2, 1, bias=False)
    with torch.no_grad():
        linear.weight.fill_(1.0)
    flat = linear.weight.data.view(-1)
    optimizer = torch.optim.SGD(linear.parameters(), lr=0.25)

    @compiled
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = linear(x).sum()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(CALLS):
        step(torch.ones(1, 2))
        equal(flat, linear.weight.detach()[0])
    equal(flat, [-0.5, -0.5])
    flat.fill_(2.0)
    assert step(torch.ones(1, 2)).item() == 4


@either
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.complex64, torch.int64])
def test_views_of_every_dtype_and_of_strided_memory_follow(compiled: Compile, dtype: Any) -> None:
    w = torch.zeros(2, 3, dtype=dtype).t()
    row = w[1]

    @compiled
    def step() -> None:
        w.add_(torch.arange(6).reshape(3, 2).to(dtype))

    for _ in range(CALLS):
        step()
    equal(w, [[0, 6], [12, 18], [24, 30]])
    equal(row, [12, 18])
    row.zero_()
    equal(w, [[0, 6], [0, 0], [24, 30]])


@either
def test_views_of_an_argument_that_is_written_to_follow(compiled: Compile) -> None:
    x = torch.arange(4.0)
    view = x[:2]
    double = compiled(lambda x: x.mul_(2.0).sum())
    for _ in range(CALLS):
        double(x)
    equal(view, [0, 64])


@either
def test_rows_of_a_buffer_follow_what_is_written_by_number(compiled: Compile) -> None:
    buffer = torch.zeros(4, 2)
    rows = [buffer[i] for i in range(4)]

    @compiled
    def store(i: Any, x: Any) -> Any:
        buffer[i] = x
        return buffer.sum()

    for i in range(4):
        store(torch.tensor(i), torch.full((2,), float(i)))
    for i in range(4):
        equal(rows[i], [i, i])


@either
@pytest.mark.filterwarnings("ignore:torch.compile. both runs eagerly. mul_ on a value that was taken")
def test_two_functions_and_a_view_that_one_of_them_writes(compiled: Compile) -> None:
    w = torch.zeros(4)
    part = w[2:]

    @compiled
    def both() -> None:
        w.add_(1.0)
        part.mul_(2.0)

    @compiled
    def whole() -> None:
        w.sub_(1.0)

    for _ in range(CALLS):
        both()
        whole()
    equal(w, [0, 0, 63, 63])
    equal(part, [63, 63])


@either
def test_filled_state_can_be_written_to_in_parts(compiled: Compile) -> None:
    w = torch.zeros(3, 2)

    @compiled
    def fill(x: Any) -> None:
        w.fill_(1.0)
        w.copy_(x)

    for _ in range(CALLS):
        fill(torch.arange(2.0))
        w[1].zero_()
    equal(w, [[0, 1], [0, 0], [0, 1]])


# -- results


@either
def test_a_result_that_is_a_view_of_state_shares_its_memory(compiled: Compile) -> None:
    w = torch.zeros(3, 2)

    @compiled
    def row() -> Any:
        return w[1]

    for _ in range(CALLS):
        row().add_(1.0)
    equal(w, [[0, 0], [6, 6], [0, 0]])


@either
def test_results_that_are_views_of_an_argument_share_its_memory(compiled: Compile) -> None:
    x = torch.arange(6.0).reshape(2, 3)
    views = compiled(lambda x: (x.view(-1), {"t": x.t()}, x * 2))
    for _ in range(CALLS):
        flat, named, twice = views(x)
        flat[0] += 1
        named["t"][2, 1] -= 1
    equal(x, [[6, 1, 2], [3, 4, -1]])
    equal(flat, [6, 1, 2, 3, 4, -1])
    equal(twice, [[10, 2, 4], [6, 8, 0]])


@either
@pytest.mark.parametrize("order", [1, -1])
def test_results_that_are_views_of_one_another_share_memory(compiled: Compile, order: int) -> None:
    @compiled
    def f(x: Any) -> Any:
        h = x * 2
        return (h, h[0], h.view(-1)[1:])[::order]

    for _ in range(CALLS):
        h, first, rest = f(torch.ones(2, 2))[::order]
        first.zero_()
        rest[-1] = 9
        equal(h, [[0, 0], [2, 9]])
        equal(rest, [0, 2, 9])


@either
def test_a_view_of_a_parameter_has_its_gradient_and_its_memory(compiled: Compile) -> None:
    linear = torch.nn.Linear(2, 1)
    with torch.no_grad():
        linear.weight.fill_(1.0)
    taken = compiled(lambda: (linear.weight[0], linear.weight.detach()))
    for _ in range(CALLS):
        row, detached = taken()
        with torch.no_grad():
            detached.mul_(2.0)
    equal(linear.weight, [[64, 64]])
    equal(row, [64, 64])
    row.sum().backward()
    equal(linear.weight.grad, [[1, 1]])


@either
def test_what_a_method_keeps_is_the_same_memory(compiled: Compile) -> None:
    class Buffer:
        def __init__(self) -> None:
            self.values, self.last = torch.zeros(4), None

        def push(self, x: Any) -> Any:
            self.values[1:] = self.values[:-1].clone()
            self.values[0] = x
            self.last = self.values[:2]
            return self.values

    buffer = Buffer()
    push = compiled(buffer.push)
    found = [push(torch.tensor(float(i))) for i in range(CALLS)]
    buffer.last.zero_()
    for values in (*found, buffer.values):
        equal(values, [0, 0, 3, 2])


@either
def test_a_written_argument_and_a_view_of_it_come_back(compiled: Compile) -> None:
    @compiled
    def f(x: Any) -> Any:
        x.add_(1.0)
        return x[:1], x

    x = torch.zeros(2)
    for _ in range(CALLS):
        view, same = f(x)
        assert same is x
        view.mul_(3.0)
    equal(x, [1092, 6])


@either
def test_a_copy_is_no_view(compiled: Compile) -> None:
    w = torch.zeros(2, 3)
    taken = compiled(lambda: (w[[0, 1]], w.t().reshape(-1), w.clone()))
    for _ in range(CALLS):
        for x in taken():
            x.add_(1.0)
    equal(w, np.zeros((2, 3)))


# -- gradients


@either
def test_whoever_holds_a_gradient_sees_what_is_added_to_it(compiled: Compile) -> None:
    w = torch.ones(3, requires_grad=True)

    @compiled
    def step() -> None:
        (w * w).sum().backward()

    step()
    gradient, part = w.grad, w.grad[1:]
    for _ in range(CALLS):
        step()
    assert w.grad is gradient
    equal(gradient, [14] * 3)
    equal(part, [14] * 2)


@either
def test_a_gradient_that_is_set_to_zero_stays_the_same_tensor(compiled: Compile) -> None:
    w = torch.ones(3, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.25)

    @compiled
    def step() -> None:
        optimizer.zero_grad(set_to_none=False)
        (w * w).sum().backward()
        torch.nn.utils.clip_grad_value_([w], 0.5)
        optimizer.step()

    step()
    gradient, value = w.grad, w.detach()[1:]
    for _ in range(CALLS):
        step()
    assert w.grad is gradient
    equal(gradient, [0.5] * 3)
    equal(value, [0.125] * 2)


@either
def test_a_gradient_that_is_forgotten_is_another_tensor(compiled: Compile) -> None:
    w = torch.ones(3, requires_grad=True)

    @compiled
    def step(x: Any) -> None:
        w.grad = None
        (w * x).sum().backward()

    step(torch.ones(3))
    gradient = w.grad
    for n in range(CALLS):
        step(torch.full((3,), float(n)))
    equal(gradient, [1] * 3)
    equal(w.grad, [5] * 3)


@either
def test_gradients_inside_are_of_the_namespace(compiled: Compile) -> None:
    w = torch.tensor([[1.0, 4.0], [3.0, 2.0]], requires_grad=True)

    @compiled
    def largest() -> Any:
        w.grad = None
        (w * w).sum().backward()
        return w.grad.max(dim=1)

    @compiled
    def again() -> Any:
        return w.grad.max(dim=1)

    for f in (largest, again):
        for _ in range(CALLS):
            values, indices = f()
            equal(values, [8, 6])
            equal(indices, [1, 0])


# -- in Wengert's own namespace, where a slice is a value


@pytest.mark.parametrize("compiled", [lambda f: f, wg.jit], ids=["eager", "compiled"])
def test_what_is_returned_as_it_is_is_the_same_tensor(compiled: Compile) -> None:
    state = wg.zeros(2)

    @compiled
    def f(x: Any, y: Any) -> Any:
        state.add_(1.0)
        y.add_(1.0)
        return {"x": x, "y": y, "state": state, "part": state[:1]}

    x, y, parts = wg.ones(2), wg.zeros(3), []
    for n in range(CALLS):
        found = f(x, y)
        assert found["x"] is x
        assert found["y"] is y
        assert found["state"] is state
        parts.append(found["part"])
        assert [p.tolist() for p in parts] == [[k + 1.0] for k in range(n + 1)]
    assert y.tolist() == [6, 6, 6]


def test_a_donated_argument_comes_back_as_another_tensor() -> None:
    f = wg.jit(lambda x, y: (x, x + y), donate_argnums=0)
    x = wg.ones(2)
    for _ in range(CALLS):
        given, total = f(x, wg.ones(2))
        assert given is not x
        assert given.tolist() == [1, 1]
        assert total.tolist() == [2, 2]
        x = given


# -- places that are known when a program runs


@pytest.mark.filterwarnings("ignore:torch.compile. .* runs eagerly")
@pytest.mark.parametrize("number", [int, torch.tensor], ids=["int", "tensor"])
@pytest.mark.parametrize(
    "write",
    [
        lambda b, k: b[k].add_(1.0),
        lambda b, k: b[k].copy_(torch.ones(2)),
        lambda b, k: b[k, :].fill_(1.0),
        lambda b, k: b.t()[:, k].add_(1.0),
    ],
)
def test_a_write_at_a_place_that_differs_from_call_to_call(number: Any, write: Any) -> None:
    b = torch.zeros(3, 2)
    compiled = torch.compile(lambda k: write(b, k))
    for k in (0, 1, 2):
        compiled(number(k))
    equal(b, np.ones((3, 2)))


def test_what_is_read_at_such_a_place_is_no_view_and_says_so() -> None:
    b = torch.zeros(3, 2)
    row = torch.compile(lambda k: b[k])
    for k in (0, 1, 2):
        found = row(torch.tensor(k))
        equal(found, np.zeros(2))
    with pytest.raises(wg.WriteError, match="would not reach"):
        found.add_(1.0)


@either
def test_copy_without_a_history_has_none(compiled: Compile) -> None:
    b, w = torch.zeros(1), torch.tensor([2.0], requires_grad=True)

    @compiled
    def step(x: Any) -> Any:
        h = w * x
        with torch.no_grad():
            b.copy_(h)
        (b * w).sum().backward()
        return h.detach()

    for i in range(CALLS):
        w.grad = None
        step(torch.tensor([1.0 + i]))
        equal(w.grad, [2.0 * (i + 1)])
        assert not b.requires_grad


def test_a_copy_of_a_leaf_is_no_leaf() -> None:
    w = torch.ones(2, requires_grad=True)
    b = torch.zeros(2).copy_(w)
    assert not b.is_leaf
    b.mul_(2.0)
    b.sum().backward()
    equal(w.grad, [2.0, 2.0])


def test_windows_as_results() -> None:
    compiled = torch.compile(lambda x: x.unfold(-1, 2, 2))
    for i in range(CALLS):
        x = torch.arange(6.0).reshape(2, 3) + i
        equal(compiled(x), x.numpy()[:, None, :2])


def test_strides_of_what_a_compiled_function_is_given_are_not_guessed() -> None:
    """Whether an argument lies in row-major order differs from call to call."""
    compiled = torch.compile(lambda x: x.clone().as_strided((2, 2), (1, 2)))
    x = torch.arange(6.0).reshape(2, 3)
    for _ in range(CALLS):
        equal(compiled(x), [[0.0, 2.0], [1.0, 3.0]])
    for given in (x, x.t()):
        with pytest.raises(wg.GraphError, match="as_strided of"):
            torch.compile(lambda x: x.as_strided((2, 2), (1, 2)), fullgraph=True)(given)
    with pytest.warns(UserWarning, match="runs eagerly"):
        equal(torch.compile(lambda x: x.as_strided((2, 2), (1, 2)))(x), [[0.0, 2.0], [1.0, 3.0]])


@either
@pytest.mark.parametrize("rule", ["SGD", "Adam"])
def test_a_view_of_a_parameter_lives_while_the_optimiser_steps(compiled: Compile, rule: str) -> None:
    """Afterwards it has the new value, and gradients go on to the parameter by it."""
    w = torch.tensor([[1.0, -2.0]], dtype=torch.float64, requires_grad=True)
    optimizer = getattr(torch.optim, rule)([w], lr=0.25)
    alone = np.array([[1.0, -2.0]])

    @compiled
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        row = w.squeeze()
        (row @ x).backward()
        optimizer.step()
        optimizer.zero_grad()
        (row**2).sum().backward()
        return row.detach() * 1

    for i in range(CALLS):
        row = step(torch.tensor([3.0 + i, 4.0], dtype=torch.float64))
        if rule == "SGD":
            alone = alone - 0.25 * np.array([[3.0 + i, 4.0]])
            equal(w, alone)
        equal(row, w.detach().numpy()[0])
        equal(w.grad, 2 * w.detach().numpy())
