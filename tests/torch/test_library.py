"""Operators of a program's own: eager and compiled, with derivatives, in `torch.ops`."""

import numpy as np
import pytest

import wengert.torch as torch
from wengert.core.errors import GradientError, GraphError

CALLS = []


@torch.library.custom_op("tests::scaled", mutates_args=())
def scaled(x: torch.Tensor, factor: float = 2.0) -> torch.Tensor:
    CALLS.append(type(x))
    return torch.from_numpy(np.sin(x.numpy()) * factor)


@scaled.register_fake
def _(x, factor=2.0):
    return torch.empty_like(x)


def _setup(ctx, inputs, output):
    x, ctx.factor = inputs
    ctx.save_for_backward(x)


torch.library.register_autograd(
    "tests::scaled", lambda ctx, g: (g * ctx.saved_tensors[0].cos() * ctx.factor, None), setup_context=_setup
)


def test_an_operator_is_called_as_it_stands():
    x = torch.tensor([1.0, 2.0])
    assert torch.allclose(scaled(x), x.sin() * 2)
    assert torch.allclose(torch.ops.tests.scaled(x, factor=3.0), x.sin() * 3)
    assert CALLS[-1] is torch.Tensor
    assert scaled.__name__ == "scaled"


def test_its_derivative():
    x = torch.tensor([1.0, 2.0], requires_grad=True, dtype=torch.double)
    scaled(x, 3.0).sum().backward()
    assert torch.allclose(x.grad, 3 * x.cos())
    assert torch.autograd.gradcheck(lambda t: scaled(t, 0.5), x)
    assert torch.autograd.gradgradcheck(lambda t: scaled(t, 0.5), x)


def test_compiled():
    f = torch.compile(lambda x: scaled(x * 2).sum(), fullgraph=True)
    for i in range(4):
        x = torch.tensor([1.0, float(i)], requires_grad=True)
        f(x).backward()
        assert torch.allclose(x.grad, 4 * (2 * x).cos())


def test_without_a_derivative_a_gradient_is_refused():
    @torch.library.custom_op("tests::opaque", mutates_args=())
    def opaque(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    y = opaque(torch.ones(2, requires_grad=True))
    with pytest.raises(GradientError, match="no derivative is registered"):
        y.sum().backward()
    assert opaque(torch.ones(2)).tolist() == [2.0, 2.0]


def test_one_that_writes():
    @torch.library.custom_op("tests::fill", mutates_args=("x",))
    def fill(x: torch.Tensor, value: float) -> None:
        x.fill_(value)

    x = torch.zeros(2)
    fill(x, 3.0)
    assert x.tolist() == [3.0, 3.0]


def test_what_is_not_there():
    with pytest.raises(GraphError, match="namespace"):
        torch.library.custom_op("bare", lambda x: x, mutates_args=())
    with pytest.raises(GraphError, match="there is no operator"):
        torch.library.register_fake("tests::none", lambda x: x)
    with pytest.raises(GraphError, match=r"C\+\+"):
        torch.ops.quantized.linear(1)
    assert "nested_tensor" in dir(torch.nested)
    with pytest.raises(GraphError, match="pad_sequence"):
        torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
