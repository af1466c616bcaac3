"""Checks of derivatives against numerical ones, which are never a way to differentiate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core import tree
from ...core.arrays import Array
from ...core.dtypes import is_inexact
from ...core.errors import GradientError, WengertError, fail
from ...core.mode import no_grad
from ...core.spec import category, complex128, float64
from ...core.tensor import Tensor, asarray, wrap
from ...transforms.derivatives.functional import vjp
from ...transforms.derivatives.variables import refuse_none

# Relative to max(1, |derivative|); extrapolated differences in float64 are good to about 1e-9.
_RTOL = 1e-6
_STEPS = (1e-3, 5e-4, 2.5e-4)


def check_grads(
    fn: Callable[..., Any],
    args: Sequence[Any] | Any,
    order: int = 2,
    *,
    rtol: float = _RTOL,
    atol: float = _RTOL,
    max_elements: int = 200,
    seed: int = 0,
) -> None:
    """Check the derivatives of `fn` at `args`, up to `order`, against finite differences.

    Parameters
    ----------
    fn: from tensors (and pytrees of them) to a tensor or a pytree of them; called in float64 and, for
        the complex step, where it takes them, on complex numbers.
    args: a tuple of arguments; a single tensor stands for itself. Floating leaves are checked.
    order: 1 checks the gradient, 2 also the gradient of a random projection of it, and so on.
    rtol, atol: an element passes within `atol + rtol * |numerical|`.
    max_elements: larger inputs are checked at that many random elements.

    Central differences with Richardson extrapolation decide; where they disagree, the complex step
    (Squire and Trapp 1998), which does not suffer from cancellation, may acquit a gradient of an
    analytic function.

    Raises GradientError naming the argument, the element, both numbers and the order.

    >>> import wengert as wg
    >>> wg.check_grads(lambda x: wg.sin(x) * x, wg.tensor([0.5, 2.0]))
    """
    pytree = tuple(args) if isinstance(args, (tuple, list)) else (args,)
    leaves, structure = tree.flatten(pytree)
    checked = [i for i, leaf in enumerate(leaves) if _is_floating(leaf)]
    values = [np.array(_value(leaves[i])) for i in checked]
    rng = np.random.default_rng(seed)
    names = _leaf_names(pytree)

    def flat(*tensors: Tensor) -> list[Tensor]:
        full = list(leaves)
        for i, t in zip(checked, tensors, strict=True):
            full[i] = t
        out = fn(*tree.unflatten(structure, full))
        refuse_none(out, getattr(fn, "__name__", type(fn).__name__))
        found = [o if isinstance(o, Tensor) else asarray(o) for o in tree.leaves(out)]
        return [o for o in found if category(o.dtype) >= 2]

    function = flat
    for level in range(1, order + 1):
        function = _check_level(function, values, [names[i] for i in checked], level, rng, rtol, atol, max_elements)


def _check_level(
    flat: Callable[..., list[Tensor]],
    values: list[Array],
    names: list[str],
    level: int,
    rng: np.random.Generator,
    rtol: float,
    atol: float,
    max_elements: int,
) -> Callable[..., list[Tensor]]:
    """Check one order at `values`, and return the gradient as a function, for the next order."""
    outs = flat(*map(_tensor, values))
    weights = [_random_like(o, rng) for o in outs]

    def projected(*arrays: Array) -> float:
        with no_grad():
            found = flat(*map(_tensor, arrays))
        return float(sum(np.sum(np.real(np.conj(w) * o._array)) for w, o in zip(weights, found, strict=True)))

    def gradient(*tensors: Tensor) -> list[Tensor]:
        found, pull = vjp(lambda *xs: tuple(flat(*xs)), *tensors)
        return list(pull(tuple(wrap(np.asarray(w, o.dtype)) for w, o in zip(weights, found, strict=True))))

    grads = [g._array for g in gradient(*map(_tensor, values))]
    for k, (value, g, name) in enumerate(zip(values, grads, names, strict=True)):
        if g.shape != value.shape or g.dtype != value.dtype:
            fail(
                GradientError,
                f"the gradient in {name} has {g.shape} {g.dtype}, its argument {value.shape} {value.dtype}",
            )
        for index in _elements(value.shape, max_elements, rng):
            for unit in (1.0, 1j) if value.dtype.kind == "c" else (1.0,):
                analytic = float(np.real(g[index]) if unit == 1.0 else np.imag(g[index]))
                numerical = _difference(projected, values, k, index, unit)
                close = _close(analytic, numerical, rtol, atol)
                if not close and unit == 1.0:
                    precise = _complex_step(flat, weights, values, k, index)
                    close = precise is not None and _close(analytic, precise, rtol, atol)
                if not close:
                    element = f"{name}[{', '.join(map(str, index))}]" if index else name
                    fail(
                        GradientError,
                        f"the derivative of order {level} in {element} is {analytic:.10g}, "
                        f"numerically {numerical:.10g}: off by {abs(analytic - numerical):.3g}",
                        "Either a derivative rule is wrong or the function is not smooth here "
                        "(a kink, a branch, a value that is rounded to float32 inside).",
                    )
    return gradient


def _is_floating(leaf: Any) -> bool:
    if isinstance(leaf, (Tensor, np.ndarray, np.generic)):
        return is_inexact(leaf.dtype)
    return type(leaf) in (float, complex)


def _value(leaf: Any) -> Array:
    value = np.asarray(leaf._array if isinstance(leaf, Tensor) else leaf)
    return value.astype(complex128 if value.dtype.kind == "c" else float64)


def _tensor(value: Array) -> Tensor:
    return wrap(value)


def _random_like(out: Tensor, rng: np.random.Generator) -> Array:
    w = rng.uniform(0.5, 1.5, out.shape) * rng.choice([-1.0, 1.0], out.shape)
    if out.dtype.kind == "c":
        return np.asarray(w + 1j * rng.uniform(0.5, 1.5, out.shape))
    return np.asarray(w)


def _elements(shape: tuple[int, ...], limit: int, rng: np.random.Generator) -> list[tuple[int, ...]]:
    size = int(np.prod(shape))
    flat = np.arange(size) if size <= limit else rng.choice(size, limit, replace=False)
    return [tuple(int(i) for i in np.unravel_index(int(f), shape)) for f in flat]


def _moved(values: list[Array], k: int, index: tuple[int, ...], step: complex) -> list[Array]:
    out = list(values)
    # A copy, also of what has no axes: arithmetic would make a number of that, to which nothing is written.
    out[k] = np.array(values[k], copy=True) if values[k].dtype.kind == "c" else values[k].astype(type(step))
    out[k][index] += step
    return out


def _difference(
    projected: Callable[..., float], values: list[Array], k: int, index: tuple[int, ...], unit: complex
) -> float:
    """Return central differences at three steps, extrapolated to step 0 (Richardson 1911)."""
    scale = max(1.0, float(abs(values[k][index])))
    table = []
    for step in _STEPS:
        h = step * scale * (unit if unit == 1j else 1.0)
        up, down = (projected(*_moved(values, k, index, s)) for s in (h, -h))
        table.append((up - down) / (2 * step * scale))
    first = [(4 * b - a) / 3 for a, b in zip(table, table[1:], strict=False)]
    return (16 * first[1] - first[0]) / 15


def _complex_step(
    flat: Callable[..., list[Tensor]], weights: list[Array], values: list[Array], k: int, index: tuple[int, ...]
) -> float | None:
    """Return the derivative by one evaluation at a complex point; None where `fn` does not take one.

    A function with a real result at a complex point (an absolute value, a norm) is not analytic: its
    step says nothing.
    """
    if any(v.dtype.kind == "c" for v in values):
        return None
    h = 1e-30
    try:
        with no_grad():
            found = flat(*map(_tensor, _moved([v.astype(complex128) for v in values], k, index, 1j * h)))
    except (WengertError, TypeError, ValueError):
        return None
    if any(o.dtype.kind != "c" for o in found):
        return None
    return float(sum(np.sum(w * np.imag(o._array)) for w, o in zip(weights, found, strict=True)) / h)


def _close(a: float, b: float, rtol: float, atol: float) -> bool:
    return a == b or bool(abs(a - b) <= atol + rtol * abs(b)) or (a != a and b != b)


def _leaf_names(pytree: tuple[Any, ...]) -> list[str]:
    """Return names such as `args[0]['w']` for the leaves of the arguments."""
    names: list[str] = []

    def visit(x: Any, name: str) -> None:
        if isinstance(x, dict):
            for key, value in x.items():
                visit(value, f"{name}[{key!r}]")
        elif isinstance(x, (list, tuple)):
            for i, value in enumerate(x):
                visit(value, f"{name}[{i}]")
        else:
            names.extend([name] * len(tree.leaves(x)))

    for i, arg in enumerate(pytree):
        visit(arg, f"args[{i}]")
    return names
