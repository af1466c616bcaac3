"""Optimisers that treat a parameter as a matrix: Adafactor and Muon."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.errors import DTypeError, RangeError, ShapeError, fail
from ..core.spec import category
from ..core.tensor import Tensor
from ..ops.pointwise.arithmetic import sqrt
from ..ops.pointwise.selection import maximum
from .formulas import check_numbers, choose, mean, norm, to_bfloat16
from .optimizer import Group, Optimizer, Params, State, is_on, require


class Adafactor(Optimizer):
    """The Adafactor optimiser: Adam without momentum, whose average of squares is kept as one row and one column.

    Parameters
    ----------
    params: leaf tensors, or dicts of them with their own options; no complex ones.
    lr: the largest step relative to the parameter's size.
    beta2_decay: the power of the step's number that gives the average's weight of the newest gradient.
    eps: what squares are at least, as a root (None: that of the dtype), and what the parameter's size is at least.
    d: the root mean square above which an update is scaled down.
    weight_decay: every step first shrinks the value by `lr * weight_decay`.
    maximize: climb instead of descend.

    Source: Shazeer, Stern, arXiv:1804.04235.

    >>> import wengert as wg
    >>> w = wg.ones((2, 3), requires_grad=True)
    >>> opt = wg.optim.Adafactor([w], lr=0.25)
    >>> (w * w).sum().backward()
    >>> opt.step()
    >>> round(w[0, 0].item(), 6)
    0.75
    """

    numbers = ("lr", "beta2_decay", "d", "weight_decay")
    switches = ("weight_decay",)
    elementwise = False

    def __init__(
        self,
        params: Params,
        lr: float = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        maximize: bool = False,
    ) -> None:
        options: dict[str, Any] = {
            "lr": lr,
            "beta2_decay": beta2_decay,
            "eps": eps,
            "d": d,
            "weight_decay": weight_decay,
            "maximize": maximize,
        }
        super().__init__(params, options)

    def _check(self, group: Group) -> None:
        super()._check(group)
        require(group, "beta2_decay", lambda v: v <= 0, "at most 0")
        require(group, "d", lambda v: v >= 1, "at least 1")
        eps = group["eps"]
        if len(eps) != 2 or not all(e is None or e >= 0 for e in eps) or eps[1] is None:
            fail(RangeError, f"eps must be two numbers of at least 0, or None and one, not {eps!r}")
        group["eps"] = tuple(eps)
        for p in group["params"]:
            if isinstance(p, Tensor) and category(p.dtype) == 3:
                fail(DTypeError, f"Adafactor takes no complex parameters, {p.spec}")

    def _names_of(self, p: Tensor, group: Group) -> tuple[str, ...]:
        return ("row_var", "col_var") if p.ndim > 1 else ("variance",)

    def _shape(self, name: str, p: Tensor) -> tuple[int, ...]:
        shape = tuple(p.shape)
        return {"row_var": (*shape[:-1], 1), "col_var": (*shape[:-2], 1, *shape[-1:])}.get(name, shape)

    def _update(self, value: Any, grad: Any, state: State, group: Group, step: Any) -> Any:
        lr, (least, size) = group["lr"], group["eps"]
        least = float(np.finfo(value.dtype).eps) if least is None else least
        weight = step ** group["beta2_decay"]
        rate = step**-0.5
        rate = choose(rate < lr, rate, lr)
        count = max(value.size if isinstance(value, np.ndarray) else math.prod(value.shape), 1) ** 0.5
        scale = norm(value) / count
        alpha = choose(scale > size, scale, size) * rate
        squares = grad * grad
        if grad.ndim > 1:
            row, column = state["row_var"], state["col_var"]
            row += (mean(squares, -1) - row) * weight
            column += (mean(squares, -2) - column) * weight
            state["row_var"], state["col_var"] = row, column
            variance = row * column / maximum(mean(row, -2), least)
        else:
            state["variance"] += (squares - state["variance"]) * weight
            variance = state["variance"]
        change = grad / sqrt(maximum(variance, least * least))
        excess = norm(change) / (count * group["d"])
        change = change * (-alpha / choose(excess > 1.0, excess, 1.0))
        if is_on(group["weight_decay"]):
            change = change - value * (lr * group["weight_decay"])
        return change


class Muon(Optimizer):
    """The Muon optimiser: steps along the momentum made nearly orthogonal, for the matrices of hidden layers.

    Parameters
    ----------
    params: matrices, or dicts of them with their own options.
    lr: the step size.
    weight_decay: every step first shrinks the value by `lr * weight_decay`.
    momentum: the decay rate of the average of gradients.
    nesterov: look ahead along the momentum.
    ns_coefficients: those of the polynomial that is iterated.
    eps: what the matrix's norm is at least.
    ns_steps: the iterations, computed in bfloat16.
    adjust_lr_fn: "original" (None): the rate grows with the root of rows over columns; "match_rms_adamw": with that
        of the larger of the two, for rates chosen for AdamW.

    Source: Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024.

    >>> import wengert as wg
    >>> w = wg.eye(2, requires_grad=True)
    >>> opt = wg.optim.Muon([w], lr=0.25, weight_decay=0.0)
    >>> (w * w).sum().backward()
    >>> opt.step()
    >>> 0.6 < w[0, 0].item() < 0.9
    True
    """

    numbers = ("lr", "weight_decay", "momentum")
    elementwise = False

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        options: dict[str, Any] = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }
        super().__init__(params, options)

    def _check(self, group: Group) -> None:
        super()._check(group)
        require(group, "momentum", lambda v: v >= 0, "at least 0")
        require(group, "eps", lambda v: v >= 0, "at least 0")
        check_numbers(group, "ns_coefficients", 3)
        if group["adjust_lr_fn"] not in (None, "original", "match_rms_adamw"):
            fail(RangeError, f"adjust_lr_fn must be 'original' or 'match_rms_adamw', not {group['adjust_lr_fn']!r}")
        if not 0 <= group["ns_steps"] < 100:
            fail(RangeError, f"ns_steps must be below 100, not {group['ns_steps']}")
        for p in group["params"]:
            if isinstance(p, Tensor) and (p.ndim != 2 or category(p.dtype) == 3):
                fail(ShapeError, f"Muon takes real matrices, not {p.spec}", "Give the others to AdamW.")

    def _names(self, group: Group) -> tuple[str, ...]:
        return ("momentum_buffer",)

    def _update(self, value: Any, grad: Any, state: State, group: Group, step: Any) -> Any:
        momentum, lr = group["momentum"], group["lr"]
        rows, columns = value.shape
        buffer = state["momentum_buffer"]
        buffer += (grad - buffer) * (1.0 - momentum)
        state["momentum_buffer"] = buffer
        along = grad + (buffer - grad) * momentum if group["nesterov"] else buffer
        direction = _orthogonal(along.T if rows > columns else along, group)
        direction = direction.T if rows > columns else direction
        if group["adjust_lr_fn"] == "match_rms_adamw":
            factor = 0.2 * math.sqrt(max(rows, columns))
        else:
            factor = math.sqrt(max(1.0, rows / columns))
        return direction.astype(value.dtype) * (-lr * factor) - value * (lr * group["weight_decay"])


def _orthogonal(x: Any, group: Group) -> Any:
    """Return a matrix with singular values near 1 and the singular vectors of `x`, in bfloat16's precision."""
    a, b, c = group["ns_coefficients"]
    x = to_bfloat16(x.astype("float32"))
    length = to_bfloat16(sqrt((x * x).sum()))
    x = to_bfloat16(x / maximum(length, to_bfloat16(np.asarray(group["eps"], "float32"))))
    for _ in range(group["ns_steps"]):
        gram = to_bfloat16(x @ x.T)
        x = to_bfloat16(x * a + to_bfloat16(gram * b + (gram @ gram) * c) @ x)
    return x
