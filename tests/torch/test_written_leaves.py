"""Gradients of leaves that are written to between their uses, and what a step leaves in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg
import wengert.torch as torch

CALLS = 6
WRITES = {
    "copy_": lambda p, q: p.copy_(q),
    "data.copy_": lambda p, q: p.data.copy_(q),
    "detach": lambda p, q: p.detach().copy_(q),
    "elements": lambda p, q: p.__setitem__(slice(None), q),
    "add_": lambda p, q: p.add_(q - p),
}


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("way", ["grad", "backward", "inputs"])
def test_what_flowed_through_a_leaf_before_a_write_counts(name: str, way: str) -> None:
    p = torch.nn.Parameter(torch.tensor([2.0]))
    q = torch.tensor([5.0])

    def step(x: Any) -> Any:
        loss = (p * x).sum()
        with torch.no_grad():
            WRITES[name](p, q)
        loss = loss + (p * p).sum()
        if way == "grad":
            return torch.autograd.grad(loss, [p])[0]
        p.grad = None
        loss.backward(inputs=[p]) if way == "inputs" else loss.backward()
        return p.grad.clone()

    x = torch.tensor([1.0])
    for run in (step, torch.compile(step)):
        for _ in range(CALLS):
            with torch.no_grad():
                p.fill_(2.0)
            assert run(x).tolist() == [11.0]
            assert p.tolist() == [5.0]


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "NAdam", "Rprop"])
def test_a_step_keeps_how_a_parameter_lies(name: str) -> None:
    w = torch.nn.Parameter(torch.ones(3, 2).t())
    options = {"momentum": 0.9} if name == "SGD" else {}
    optimizer = getattr(torch.optim, name)([w], lr=0.1, **options)
    for _ in range(2):
        optimizer.zero_grad()
        (w**2).sum().backward()
        optimizer.step()
        assert w.stride() == (1, 2)
    before = w.detach().clone()
    w.detach().reshape(-1).zero_()  # a copy, since the elements do not lie in this order
    assert w.detach().tolist() == before.tolist()


def test_a_gradient_is_summed_to_the_shape_of_its_argument() -> None:
    class Add(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, b: Any) -> Any:
            return x + b

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g, g

    x = torch.ones(2, 3, requires_grad=True)
    b = torch.ones(3, requires_grad=True)
    c = torch.ones(2, 1, requires_grad=True)
    (Add.apply(x, b) * 2).sum().backward()
    Add.apply(x, c).sum().backward()
    assert (b.grad.tolist(), c.grad.tolist()) == ([4.0] * 3, [[3.0], [3.0]])


def test_frozen_float8_weights_before_a_layer_that_trains() -> None:
    pytest.importorskip("ml_dtypes")
    layer = torch.nn.Linear(3, 2)
    small = torch.ones(3, 3).to(torch.float8_e4m3fn)
    run = torch.compile(lambda x: layer(x @ small.float()))
    x = torch.ones(1, 3)
    for _ in range(CALLS):
        layer.weight.grad = None
        run(x).sum().backward()
        np.testing.assert_array_equal(layer.weight.grad.numpy(), np.full((2, 3), 3.0, np.float32))
    assert wg.jit(lambda a: a.astype(wg.float32).sum())(small) == 9.0


def _layouts() -> dict[str, tuple[Any, float]]:
    """Return functions of [[1, 2], [3, 4]] that write through a reshape, with what PyTorch gives for each."""

    def write(make: Any, flat: Any = lambda y: y.reshape(-1)) -> Any:
        def run(x: Any) -> Any:
            y = make(x)
            flat(y).zero_()
            return y.sum()

        return run

    return {
        "clone": (write(lambda x: x.mT.clone()), 10.0),
        "contiguous": (write(lambda x: x.t() * 2, lambda y: y.contiguous()), 20.0),
        "chain": (write(lambda x: (x.t() * 2 - 1).abs() + 1, lambda y: y.flatten()), 20.0),
        "turned back": (write(lambda x: x.t() * 2, lambda y: y.t().flatten()), 0.0),
        "turned": (write(lambda x: x * 2, lambda y: y.t().reshape(-1)), 20.0),
        "plain": (write(lambda x: x * 2), 0.0),
        "plain first": (write(lambda x: x + x.t()), 0.0),
        "relu": (write(lambda x: torch.relu(x.t())), 10.0),
        "where": (write(lambda x: torch.where(x.t() > 2, x.t(), 0.0)), 7.0),
        "composite": (write(lambda x: torch.nn.functional.leaky_relu(x.t())), 10.0),
        "cast": (write(lambda x: x.t().double()), 10.0),
        "made contiguous": (write(lambda x: x.t().contiguous() * 2), 0.0),
        "product": (write(lambda x: (x @ x).t() * 1), 54.0),
        "softmax": (write(lambda x: torch.softmax(x.t(), -1)), 0.0),
    }


@pytest.mark.parametrize("name", _layouts())
def test_what_a_compiled_reshape_copies(name: str) -> None:
    run, expected = _layouts()[name]
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    compiled = torch.compile(run)
    assert run(x).item() == expected
    for _ in range(CALLS):
        assert compiled(x).item() == expected
    assert torch.func.vmap(run)(torch.stack([x, x])).tolist() == [expected] * 2


@pytest.mark.parametrize("is_state", [False, True])
@pytest.mark.parametrize("name", ["clone", "plain", "chain", "made contiguous", "relu"])
def test_what_a_compiled_reshape_copies_of_transposed_arguments(name: str, is_state: bool) -> None:
    run, _ = _layouts()[name]
    held = torch.tensor([[1.0, 2.0], [3.0, 4.0]]).t()
    outer = (lambda _: run(held)) if is_state else run
    compiled = torch.compile(outer)
    rows = held.t().clone()
    for x in (held, held.t(), held, rows, rows.t(), rows.t().clone(), rows[:, :]):
        expected = outer(x).item()
        for _ in range(CALLS):
            assert compiled(x).item() == expected


def _filled(b: Any, x: Any) -> Any:
    b.zero_()
    b.add_(x)
    return b.sum()


def _filled_and_viewed(b: Any, x: Any) -> Any:
    b.zero_()
    part = b[1:]
    part.add_(x[1:])
    y = part * 2
    b.fill_(5.0)
    return y + part


def _filled_from_each_other(b: Any, x: Any) -> Any:
    b.zero_()
    x.zero_()
    b.add_(x + 1)
    x.sub_(b)
    return b * 10 + x


def _filled_through_data(b: Any, x: Any) -> Any:
    b.data.fill_(2.0)
    b.mul_(x)
    return b


@pytest.mark.parametrize("f", [_filled, _filled_and_viewed, _filled_from_each_other, _filled_through_data])
def test_an_argument_that_is_filled_has_a_known_value_from_then_on(f: Any) -> None:
    """The value is no tensor from outside that the trace has met."""
    expected = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([4.0, 5.0, 6.0])
    result = f(*expected).tolist()
    compiled = wg.jit(f)
    for _ in range(CALLS):
        given = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([4.0, 5.0, 6.0])
        assert compiled(*given).tolist() == result
        assert [t.tolist() for t in given] == [t.tolist() for t in expected]
