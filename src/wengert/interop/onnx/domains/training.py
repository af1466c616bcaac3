"""Optimisers' steps and gradients, of the domain ai.onnx.preview.training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import wengert as wg

from ..errors import refuse
from ..registry import TRAINING, operator

Update = Callable[..., tuple[Any, ...]]


def _groups(values: tuple[Any, ...], each: int) -> list[tuple[Any, ...]]:
    count, rest = divmod(len(values), each)
    if rest or not count:
        refuse(f"{len(values)} operands are not {each} for each tensor")
    return [values[i::count] for i in range(count)]


def _together(updated: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    return tuple(v for column in zip(*updated) for v in column)


@operator("Adagrad", domain=TRAINING)
def _adagrad(
    rate: Any, count: Any, *values: Any, decay_factor: float = 0.0, epsilon: float = 1e-6, norm_coefficient: float = 0.0
) -> Any:
    done = []
    step = rate / (1 + count.astype(rate.dtype) * decay_factor)
    for x, g, h in _groups(values, 3):
        g = norm_coefficient * x + g
        h = h + g * g
        done.append((x - step * g / (wg.sqrt(h) + epsilon), h))
    return _together(done)


@operator("Momentum", domain=TRAINING)
def _momentum(
    rate: Any, count: Any, *values: Any, alpha: float, beta: float, mode: str, norm_coefficient: float
) -> Any:
    if mode not in ("standard", "nesterov"):
        refuse(f"mode is {mode!r}, and neither 'standard' nor 'nesterov'")
    done = []
    for x, g, v in _groups(values, 3):
        g = norm_coefficient * x + g
        v = alpha * v + wg.where(count > 0, wg.full((), beta, dtype=x.dtype), wg.ones((), dtype=x.dtype)) * g
        done.append((x - rate * (v if mode == "standard" else g + alpha * v), v))
    return _together(done)


@operator("Adam", domain=TRAINING)
def _adam(
    rate: Any,
    count: Any,
    *values: Any,
    alpha: float = 0.9,
    beta: float = 0.999,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
    norm_coefficient_post: float = 0.0,
) -> Any:
    done = []
    t = count.astype(rate.dtype)
    # The first update, by whichever number, has no bias to correct.
    corrected = (
        rate
        * wg.sqrt(1 - wg.pow(wg.full((), beta, dtype=rate.dtype), t))
        / (1 - wg.pow(wg.full((), alpha, dtype=rate.dtype), t))
    )
    step = wg.where(t > 0, corrected, rate)
    for x, g, v, h in _groups(values, 4):
        g = norm_coefficient * x + g
        v = alpha * v + (1 - alpha) * g
        h = beta * h + (1 - beta) * g * g
        new = x - step * v / (wg.sqrt(h) + epsilon)
        done.append(((1 - norm_coefficient_post) * new, v, h))
    return _together(done)


@operator("Gradient", domain=TRAINING)
def _gradient(*values: Any, xs: Any, y: str, zs: Any = (), context: Any) -> Any:
    function = context.body("function")
    count = len(xs)
    if len(values) != count + len(zs):
        refuse(f"{len(values)} operands are not those of xs and zs")

    def of(*variables: Any) -> Any:
        (out,) = function(*variables, *values[count:])
        return wg.sum(out)

    found = wg.grad(of, tuple(range(count)))(*values[:count])
    return tuple(found)
