"""Jacobians, Hessians and products with them of eager functions: `torch.autograd.functional`.

A function takes tensors, and gives one or a tuple of them; what is asked for comes in tuples where they do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import wengert as wg

from ...core.errors import GradientError, fail
from ...core.tensor import Tensor as Plain
from ..absent import names_of
from .gradients import grad as gradients_of
from .levels import refuse


def _tuple(inputs: Any) -> tuple[Any, ...]:
    return tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)


def _arguments(inputs: Any, create_graph: bool) -> tuple[Any, ...]:
    """Return the inputs as a tuple: with `create_graph`, those without a history as leaves with gradients.

    Raises GradientError inside a transform of `torch.func`.
    """
    refuse("torch.autograd.functional", "Write torch.func.jacrev, vjp, jvp or hessian, which nest.")
    args = _tuple(inputs)
    return tuple(a if a.requires_grad else a.detach().requires_grad_() for a in args) if create_graph else args


def _finished(found: Any, create_graph: bool) -> Any:
    """Return what was found without its history, unless a graph is asked for."""
    if isinstance(found, tuple):
        return tuple(_finished(f, create_graph) for f in found)
    return found if create_graph else found.detach()


def _of_inputs(found: Any, inputs: Any) -> Any:
    return found if isinstance(inputs, (tuple, list)) else found[0]


def _check_strict(strict: bool, func: Callable[..., Any], args: tuple[Any, ...], what: str, order: int) -> None:
    """Raise GradientError where `strict` asks for it and an output, or its gradient, does not depend on an input.

    Gradients are looked at where they are differentiated, in the order 2.
    """
    if not strict:
        return
    own = tuple(a.detach().requires_grad_() for a in args)
    for i, out in enumerate(_tuple(func(*own))):
        found = _sources(out, own, order > 1)
        for j, g in enumerate(found):
            if g is None:
                fail(GradientError, f"{what}(strict=True): output {i} does not depend on input {j}")
            if order > 1 and None in (further := _sources(g, own, False)):
                at = further.index(None)
                fail(
                    GradientError,
                    f"{what}(strict=True): the gradient of output {i} in input {j} does not depend on input {at}",
                )


def _sources(out: Any, own: tuple[Any, ...], create_graph: bool) -> list[Any]:
    if not out.requires_grad:
        return [None] * len(own)
    found = gradients_of(out.sum(), own, retain_graph=True, create_graph=create_graph, allow_unused=True)
    return list(found)


def _check_vectorize(strict: bool, vectorize: bool, what: str) -> None:
    if strict and vectorize:
        fail(GradientError, f"{what}(strict=True, vectorize=True)", "Leave one of them out.")


def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """Return the Jacobian of `func` at `inputs`: for an output and an input a tensor of both shapes.

    Parameters
    ----------
    create_graph: make the result differentiable.
    strict: raise where an output does not depend on an input, instead of zeros; with `create_graph`, where its
        gradient does not.
    vectorize: not read, but for not going with `strict`: all directions go in one pass.
    strategy: "reverse-mode" or "forward-mode".

    >>> import wengert.torch as torch
    >>> torch.autograd.functional.jacobian(lambda x: x**2, torch.tensor([1.0, 3.0]))
    tensor([[2., 0.],
            [0., 6.]])
    """
    _check_vectorize(strict, vectorize, "jacobian")
    args = _arguments(inputs, create_graph)
    if strategy not in ("reverse-mode", "forward-mode"):
        fail(GradientError, f"jacobian: strategy={strategy!r}", 'It is "reverse-mode" or "forward-mode".')
    with wg.enable_grad():
        _check_strict(strict, func, args, "jacobian", 2 if create_graph else 1)
        mode: Any = "reverse" if strategy == "reverse-mode" else "forward"
        found = wg.jacobian(func, tuple(range(len(args))), mode)(*args)
    several = isinstance(found, tuple) and bool(found) and isinstance(found[0], tuple)
    rows = tuple(_of_inputs(row, inputs) for row in found) if several else _of_inputs(found, inputs)
    return _finished(rows, create_graph)


def _number(func: Callable[..., Any], what: str) -> Callable[..., Any]:
    def scalar(*args: Any) -> Any:
        out = func(*args)
        if not isinstance(out, Plain) or out.size != 1:
            fail(GradientError, f"{what} of a function with more than one number for a result")
        return out.reshape(())

    return scalar


def hessian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """Return the second derivatives of a function with one number for a result; see :func:`jacobian`.

    >>> import wengert.torch as torch
    >>> torch.autograd.functional.hessian(lambda x: (x**3).sum(), torch.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    _check_vectorize(strict, vectorize, "hessian")
    args = _arguments(inputs, create_graph)
    numbers = tuple(range(len(args)))
    mode: Any = "forward" if outer_jacobian_strategy == "forward-mode" else "reverse"
    with wg.enable_grad():
        _check_strict(strict, func, args, "hessian", 2)
        inner = wg.grad(_number(func, "hessian"), numbers)
        found = wg.jacobian(inner, numbers, mode)(*args)
    return _finished(found if isinstance(inputs, (tuple, list)) else found[0][0], create_graph)


def _given(v: Any, outputs: tuple[Any, ...], what: str) -> tuple[Any, ...]:
    if v is None:
        if len(outputs) != 1 or outputs[0].size != 1:
            fail(GradientError, f"{what} without v", "It can be left out for a result of one number only.")
        return (wg.ones_like(outputs[0]),)
    return _tuple(v)


def vjp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return the value of `func` at `inputs` and the product of `v` with its Jacobian.

    `v` has the shapes of the value, and may be left out where that is one number.
    """
    args = _arguments(inputs, create_graph)
    with wg.enable_grad():
        _check_strict(strict, func, args, "vjp", 2 if create_graph else 1)
        out, pull = wg.vjp(func, *args)
        weights = _given(v, _tuple(out), "vjp")
        found = pull(weights if isinstance(out, tuple) else weights[0])
    return _finished(out, create_graph), _finished(_of_inputs(found, inputs), create_graph)


def jvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return the value of `func` at `inputs` and the product of its Jacobian with `v`, of the inputs' shapes."""
    args = _arguments(inputs, create_graph)
    with wg.enable_grad():
        _check_strict(strict, func, args, "jvp", 2 if create_graph else 1)
        out, found = wg.jvp(func, args, _given(v, args, "jvp"))
    return _finished(out, create_graph), _finished(found, create_graph)


def hvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return the value of a function with one number for a result and the product of its Hessian with `v`."""
    args = _arguments(inputs, create_graph)
    with wg.enable_grad():
        _check_strict(strict, func, args, "hvp", 2)
        both = wg.value_and_grad(_number(func, "hvp"), tuple(range(len(args))))
        (out, _), (_, found) = wg.jvp(lambda *xs: both(*xs), args, _given(v, args, "hvp"))
    return _finished(out, create_graph), _finished(_of_inputs(found, inputs), create_graph)


def vhp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return the value of a function with one number for a result and the product of `v` with its Hessian."""
    args = _arguments(inputs, create_graph)
    with wg.enable_grad():
        _check_strict(strict, func, args, "vhp", 2)
        value = _number(func, "vhp")
        _, pull = wg.vjp(wg.grad(value, tuple(range(len(args)))), *args)
        found = pull(_given(v, args, "vhp"))
        out = value(*args)
    return _finished(out, create_graph), _finished(_of_inputs(found, inputs), create_graph)


__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
