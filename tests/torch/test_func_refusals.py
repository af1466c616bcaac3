"""What the transforms of `torch.func` refuse where PyTorch does, and what they give back of their arguments."""

from collections.abc import Callable
from typing import Any

import pytest

import wengert.torch as torch

X = torch.tensor([1.0, 2.0, 3.0])


def _of(transform: str, f: Callable[..., Any], **kwargs: Any) -> Any:
    """Return what a transform gives of a function at X."""
    if transform == "vjp":
        return torch.func.vjp(f, X, **kwargs)
    if transform == "jvp":
        return torch.func.jvp(f, (X,), (X,), **kwargs)
    return getattr(torch.func, transform)(f, **kwargs)(X)


class Old(torch.autograd.Function):
    """A function whose forward takes the context."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.saved_tensors[0].cos()


EVERY = ("grad", "grad_and_value", "vjp", "jvp", "jacrev", "jacfwd", "vmap")
BACKWARD = ("grad", "grad_and_value", "vjp", "jacrev", "hessian")
REFUSED = {
    "setup_context": (Old.apply, (*EVERY, "hessian", "functionalize")),
    "requires_grad_": (lambda x: x.requires_grad_().sum(), EVERY),
    "retain_grad": (lambda x: _retained(x.sin()).sum(), ("grad", "grad_and_value", "vjp", "jacrev")),
    "autograd.functional": (lambda x: torch.autograd.functional.jacobian(torch.sin, x).sum(), EVERY),
    "saved tensor hooks": (lambda x: _saved(x), BACKWARD),
    "only tensors": (lambda x: 3.0, ("vjp", "jvp", "jacrev", "jacfwd")),
    "non-empty": (lambda x: (), ("vjp", "jvp", "jacrev", "jacfwd")),
    "as a return": (lambda x: (x, 3), ("vmap",)),
}


def _retained(x: Any) -> Any:
    x.retain_grad()
    return x


def _saved(x: Any) -> Any:
    with torch.autograd.graph.save_on_cpu():
        return x.sin().sum()


@pytest.mark.parametrize(("what", "transform"), [(w, t) for w, (_, ts) in REFUSED.items() for t in ts])
def test_refused_inside_of_a_transform(what: str, transform: str) -> None:
    with pytest.raises((RuntimeError, ValueError), match=what):
        _of(transform, REFUSED[what][0])
    assert torch.autograd.functional.jacobian(torch.sin, X).shape == (3, 3)  # and outside again it is not


@pytest.mark.parametrize("transform", BACKWARD)
def test_hooks_of_saved_tensors_around_a_transform(transform: str) -> None:
    with torch.autograd.graph.save_on_cpu(), pytest.raises(RuntimeError, match="saved tensor hooks"):
        _of(transform, lambda x: x.sin().sum())
    with torch.autograd.graph.save_on_cpu():
        found = torch.func.jvp(torch.sin, (X,), (X,)), torch.vmap(torch.sin)(X)
    assert found[1].tolist() == found[0][0].tolist() == X.sin().tolist()


@pytest.mark.parametrize("transform", ["grad", "grad_and_value", "vjp", "jvp", "jacrev", "jacfwd"])
@pytest.mark.parametrize("beside", [1, 1.0, "abc", [1]])
def test_what_stands_beside_the_result_are_tensors(transform: str, beside: Any) -> None:
    with pytest.raises(ValueError, match="tensors beside"):
        _of(transform, lambda x: (x.sum(), [x, beside]), has_aux=True)
    if transform == "jvp":
        with pytest.raises(ValueError, match="tuple"):
            _of(transform, lambda x: x.sum(), has_aux=True)


@pytest.mark.parametrize(
    ("primals", "tangents", "what"),
    [
        (X, (X,), "tuple"),
        ((X,), X, "structure"),
        ((X,), [X], "structure"),
        ((1.0,), (X,), "only contain"),
        ((X,), (1.0,), "only contain"),
    ],
)
def test_primals_and_tangents_are_tuples_of_tensors(primals: Any, tangents: Any, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        torch.func.jvp(torch.sin, primals, tangents)


@pytest.mark.parametrize("in_dims", [[0, 0], {0}, "lol", (0,), (0, 0, 0), ((0,), 0), ([0], 0)])
def test_axes_that_do_not_begin_like_the_arguments(in_dims: Any) -> None:
    with pytest.raises(ValueError, match="in_dims"):
        torch.vmap(lambda a, b: a, in_dims)([X, X], X)


def test_random_numbers_in_a_forward_jacobian() -> None:
    with pytest.raises(ValueError, match="random"):
        torch.func.jacfwd(torch.bernoulli)(torch.full((3,), 0.5))
    assert torch.func.jacfwd(torch.bernoulli, randomness="same")(torch.full((3,), 0.5)).shape == (3, 3)


@pytest.mark.parametrize("saves", ["input", "output"])
@pytest.mark.parametrize("dirty", [False, True])
def test_an_argument_that_is_returned_as_it_is_and_saved(saves: str, dirty: bool) -> None:
    class Same(torch.autograd.Function):
        @staticmethod
        def forward(x: Any) -> Any:
            return x

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            if dirty:
                ctx.mark_dirty(inputs[0])
            ctx.save_for_backward(inputs[0] if saves == "input" else output)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g

    if dirty:
        assert Same.apply(X.clone()).tolist() == X.tolist()
        return
    with pytest.raises(RuntimeError, match="returned as it is"):
        Same.apply(X)
    with pytest.raises(RuntimeError, match="returned as it is"):
        torch.func.grad(lambda x: Same.apply(x.clone()).sum())(X)


MAPPED = {
    "plain": (lambda op: torch.vmap(op), lambda x: x),
    "another axis": (lambda op: torch.vmap(op, 1), lambda x: x.movedim(1, 0)),
    "both axes": (lambda op: torch.vmap(op, 1, 1), lambda x: x),
    "twice": (lambda op: torch.vmap(torch.vmap(op)), lambda x: x),
    "twice, other axes": (lambda op: torch.vmap(torch.vmap(op, 1), 1), lambda x: x.permute(1, 2, 0)),
    "an axis in a tuple": (lambda op: torch.vmap(op, out_dims=(1,)), lambda x: x.movedim(0, 1)),
}


@pytest.mark.parametrize("case", MAPPED)
@pytest.mark.parametrize("view", [False, True])
def test_what_is_written_and_returned_is_the_callers(case: str, view: bool) -> None:
    mapped, moved = MAPPED[case]
    x = torch.arange(24.0).reshape(2, 3, 4)
    before = x.clone()
    out = mapped(lambda v: v.neg_()[..., None] if view else v.neg_())(x)
    wanted = moved(x)[..., None] if view else moved(x)
    assert out.tolist() == wanted.tolist()
    assert x.tolist() == (-before).tolist()
    x.mul_(2)
    assert out.tolist() == wanted.tolist()  # the result has the memory of the argument
    if not view and moved(x) is x:
        assert out is x


def test_one_result_with_its_axis_in_a_tuple() -> None:
    x = torch.arange(6.0).reshape(3, 2)
    assert torch.vmap(torch.sin, out_dims=(1,))(x).tolist() == x.sin().T.tolist()
    assert torch.vmap(torch.sin, out_dims=(1,), chunk_size=2)(x).tolist() == x.sin().T.tolist()
    (found,) = torch.vmap(lambda v: (v.sin(),), out_dims=(1,))(x)
    assert found.tolist() == x.sin().T.tolist()
