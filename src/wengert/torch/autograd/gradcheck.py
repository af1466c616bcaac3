"""Gradients against finite differences, with PyTorch's keywords: `gradcheck` and `gradgradcheck`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import wengert as wg

from ...core.errors import GradientError, fail
from ...core.tensor import Tensor as Plain
from ...core.tensor import asarray, of_class
from ..tensor import Tensor
from .forward_ad import dual_level, make_dual, unpack_dual
from .gradients import grad as gradients_of


class GradcheckError(GradientError):
    """An error for a gradient that differs from finite differences."""


def _tensors(value: Any) -> list[Any]:
    found = value if isinstance(value, (tuple, list)) else (value,)
    return [t for t in found if isinstance(t, Plain)]


def _tensor(value: Any) -> Tensor:
    return of_class(Tensor, asarray(value, copy=True))  # type: ignore[no-any-return]


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Return whether the gradients of `func` agree with central differences.

    Parameters
    ----------
    func: of tensors, which gives one or several. Results are weighted by random numbers and summed.
    inputs: a tensor or a tuple; those that require gradients are checked, and should be in float64.
    eps: the step of the differences.
    atol, rtol: an element passes within `atol + rtol * |numerical|`.
    raise_exception: raise GradcheckError for one that does not; else return False.
    check_forward_ad, check_backward_ad: check tangents, and gradients; one of them at least.
    nondet_tol: how far the gradients of a second backward pass may be from those of the first.
    check_undefined_grad, check_grad_dtypes, check_batched_grad, check_batched_forward_grad, fast_mode, masked:
        PyTorch's further checks and its faster one, which are not made.

    Raises GradientError where no input requires gradients.

    >>> import wengert.torch as torch
    >>> x = torch.tensor([0.5, 1.0], dtype=torch.float64, requires_grad=True)
    >>> torch.autograd.gradcheck(torch.sin, (x,))
    True
    """
    args = list(inputs) if isinstance(inputs, (tuple, list)) else [inputs]
    chosen = [i for i, a in enumerate(args) if isinstance(a, Plain) and a.requires_grad]
    if not chosen:
        fail(GradientError, "gradcheck of inputs of which none requires gradients", "Set requires_grad=True on some.")
    if not (check_forward_ad or check_backward_ad):
        fail(GradientError, "gradcheck(check_forward_ad=False, check_backward_ad=False)", "Check one of them at least.")
    values = [np.array(args[i].detach().numpy()) for i in chosen]

    def call(*given: Any) -> list[Any]:
        filled = list(args)
        for i, g in zip(chosen, given, strict=True):
            filled[i] = g
        return [o for o in _tensors(func(*filled)) if o.dtype.kind in "fc"]

    with wg.enable_grad():
        own = [_tensor(v).requires_grad_() for v in values]
        outs = call(*own)
        rng = np.random.default_rng(0)
        weights = [_weights(rng, o) for o in outs]
    specs = [o.spec for o in outs]

    def projected(arrays: list[Any]) -> float:
        with wg.enable_grad():
            made = call(*(_tensor(v).requires_grad_() for v in arrays))
        if [o.spec for o in made] != specs:
            what = ", ".join(str(o.spec) for o in made)
            fail(GradcheckError, f"the function's results should not depend on its values in shape and dtype: {what}")
        pairs = zip(made, weights, strict=True)
        return float(sum(np.real(np.conj(w) * o.detach().numpy()).sum() for o, w in pairs))

    try:
        found = _gradients(outs, own, weights, nondet_tol) if check_backward_ad else []
        for k in range(len(values)):
            wanted = _numerical(projected, values, k, eps)
            if check_backward_ad:
                _compare(f"the gradient in input {chosen[k]}", found[k], wanted, atol, rtol)
            if check_forward_ad:
                _check_tangent(call, values, k, wanted, weights, atol, rtol)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _gradients(outs: list[Any], own: list[Any], weights: list[Any], nondet_tol: float) -> list[Any]:
    """Return the gradients as arrays. Raises GradcheckError if a second pass gives others."""
    checked = [(o, _tensor(w)) for o, w in zip(outs, weights, strict=True) if o.requires_grad]
    if not checked:
        return [np.zeros(tuple(x.shape), x.dtype) for x in own]
    results, cotangents = [o for o, _ in checked], [w for _, w in checked]
    passes = []
    for keeps in (True, False):
        found = gradients_of(results, own, cotangents, retain_graph=keeps, allow_unused=True)
        passes.append(
            [np.zeros(tuple(x.shape), x.dtype) if g is None else g.detach().numpy() for g, x in zip(found, own)]
        )
    for k, (first, second) in enumerate(zip(*passes, strict=True)):
        # Between two passes kernels may take over from NumPy, which changes last digits.
        rounding = 64 * np.finfo(first.dtype).eps * np.abs(first).max(initial=0.0)
        if (np.abs(first - second) > nondet_tol + rounding).any():
            fail(
                GradcheckError,
                f"Backward is not reentrant: a second pass gives another gradient in argument {k}",
                "Its rules are to be functions of their arguments; nondet_tol= says how far they may differ.",
            )
    return passes[0]


def _weights(rng: np.random.Generator, out: Any) -> Any:
    w = rng.uniform(0.5, 1.5, tuple(out.shape))
    return (w + 1j * rng.uniform(0.5, 1.5, w.shape) if out.is_complex() else w).astype(out.dtype)


def _numerical(projected: Callable[[list[Any]], float], values: list[Any], k: int, eps: float) -> Any:
    """Return the gradient in one input by central differences; of complex numbers in both parts."""
    out = np.zeros_like(values[k])
    units = (1.0, 1j) if out.dtype.kind == "c" else (1.0,)
    for at in np.ndindex(out.shape):
        for unit in units:
            ends = []
            for sign in (1, -1):
                moved = [v.copy() for v in values]
                moved[k][at] += sign * eps * unit
                ends.append(projected(moved))
            out[at] += unit * (ends[0] - ends[1]) / (2 * eps)
    return out


def _compare(what: str, got: Any, wanted: Any, atol: float, rtol: float) -> None:
    wrong = ~(np.abs(got - wanted) <= atol + rtol * np.abs(wanted))
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        text = f"{what} at {at} is {got[at]}, by differences {wanted[at]}"
        fail(GradcheckError, text, "One of forward and backward is wrong, or the function is not smooth there.")


def _check_tangent(
    call: Callable[..., list[Any]],
    values: list[Any],
    k: int,
    gradient: Any,
    weights: list[Any],
    atol: float,
    rtol: float,
) -> None:
    """Compare a tangent along one argument with the gradient by differences: both multiply one vector."""
    direction = np.random.default_rng(1 + k).uniform(-1, 1, values[k].shape).astype(values[k].dtype)
    with dual_level():
        given = list(map(_tensor, values))
        given[k] = make_dual(given[k], _tensor(direction))
        tangents = [unpack_dual(o).tangent for o in call(*given)]
    pairs = ((w, t) for w, t in zip(weights, tangents, strict=True) if t is not None)
    got = sum(np.real(np.conj(w) * t.detach().numpy()).sum() for w, t in pairs)
    wanted = np.real(np.conj(gradient) * direction).sum()
    what = f"the tangent of forward mode along argument {k}"
    _compare(what, np.asarray(got), np.asarray(wanted), atol * max(1, values[k].size), rtol)


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    gen_non_contig_grad_outputs: bool = False,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Return whether second derivatives of `func` agree with differences of its gradients; see :func:`gradcheck`.

    `check_fwd_over_rev` checks tangents of gradients, `check_rev_over_rev` gradients of gradients.
    """
    args = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    if grad_outputs is None:
        rng = np.random.default_rng(2)
        outs = [o for o in _tensors(func(*args)) if o.dtype.kind in "fc"]
        grad_outputs = tuple(_tensor(_weights(rng, o)).requires_grad_() for o in outs)
    given = tuple(_tensors(grad_outputs))
    chosen = [i for i, a in enumerate(args) if isinstance(a, Plain) and a.requires_grad]

    def gradient(*both: Any) -> tuple[Any, ...]:
        own, cts = both[: len(args)], both[len(args) :]
        # Of the checked inputs themselves, also where differences move them.
        own = tuple(
            a.detach().requires_grad_() if i in chosen and not a.requires_grad else a for i, a in enumerate(own)
        )
        pairs = [(o, ct) for o, ct in zip(_tensors(func(*own)), cts) if o.requires_grad]
        wanted = [own[i] for i in chosen]
        with wg.enable_grad():
            found = gradients_of(
                [o for o, _ in pairs], wanted, [ct for _, ct in pairs], create_graph=True, allow_unused=True
            )
        return tuple(wg.zeros_like(a) if g is None else g for g, a in zip(found, wanted, strict=True))

    def recorded(*both: Any) -> tuple[Any, ...]:
        with wg.enable_grad():
            return gradient(*both)

    return gradcheck(
        recorded,
        (*args, *given),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
    )


__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


def __dir__() -> list[str]:
    return sorted(__all__)
