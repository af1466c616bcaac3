"""The RMSprop and Adagrad optimisers: steps scaled by the size of past gradients."""

from __future__ import annotations

from typing import Any

from ..ops.pointwise.arithmetic import sqrt
from .optimizer import Group, Optimizer, Params, State, is_on, require


class RMSprop(Optimizer):
    """The RMSprop optimiser: steps divided by the root of a running average of squared gradients.

    Parameters
    ----------
    params: leaf tensors, or dicts of them with their own options.
    lr: the step size.
    alpha: the decay rate of the average.
    eps: added to its root.
    weight_decay: an L2 penalty's factor, added to the gradient.
    momentum: how much of the last step is kept.
    centered: subtract the square of the mean gradient, for an estimate of the variance.
    maximize: climb instead of descend.

    Source: Hinton, "Neural networks for machine learning", lecture 6e; centered: Graves, arXiv:1308.0850.

    >>> import wengert as wg
    >>> w = wg.tensor(1.0, requires_grad=True)
    >>> opt = wg.optim.RMSprop([w], lr=0.01)
    >>> (w * w).backward()
    >>> opt.step()
    >>> round(w.item(), 4)
    0.9
    """

    numbers = ("lr", "alpha", "eps", "weight_decay", "momentum")
    switches = ("weight_decay", "momentum")

    def __init__(
        self,
        params: Params,
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
        maximize: bool = False,
    ) -> None:
        options: dict[str, Any] = {
            "lr": lr,
            "alpha": alpha,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "centered": centered,
            "maximize": maximize,
        }
        super().__init__(params, options)

    def _check(self, group: Group) -> None:
        super()._check(group)
        require(group, "alpha", lambda v: 0 <= v <= 1, "in [0, 1]")
        require(group, "eps", lambda v: v >= 0, "at least 0")
        require(group, "momentum", lambda v: v >= 0, "at least 0")

    def _names(self, group: Group) -> tuple[str, ...]:
        names = ("square_avg",)
        if group["centered"]:
            names += ("grad_avg",)  # type: ignore[assignment]
        if is_on(group["momentum"]):
            names += ("momentum_buffer",)  # type: ignore[assignment]
        return names

    def _update(self, value: Any, grad: Any, state: State, group: Group, step: Any) -> Any:
        alpha = group["alpha"]
        if is_on(group["weight_decay"]):
            grad = grad + value * group["weight_decay"]
        state["square_avg"] *= alpha
        squared = grad * grad
        squared *= 1.0 - alpha
        state["square_avg"] += squared
        variance = state["square_avg"]
        if group["centered"]:
            state["grad_avg"] *= alpha
            state["grad_avg"] += grad * (1.0 - alpha)
            variance = variance - state["grad_avg"] * state["grad_avg"]
        deviation = sqrt(variance)
        deviation += group["eps"]
        change = grad / deviation
        if is_on(group["momentum"]):
            state["momentum_buffer"] *= group["momentum"]
            state["momentum_buffer"] += change
            change = state["momentum_buffer"]
        return change * -group["lr"]


RMSProp = RMSprop


class Adagrad(Optimizer):
    """The Adagrad optimiser: steps divided by the root of the sum of all squared gradients so far.

    Parameters
    ----------
    params: leaf tensors, or dicts of them with their own options.
    lr: the step size.
    lr_decay: how fast the step size falls: lr / (1 + (step - 1) * lr_decay).
    weight_decay: an L2 penalty's factor, added to the gradient.
    initial_accumulator_value: what the sum starts from.
    eps: added to its root.
    maximize: climb instead of descend.

    Source: Duchi, Hazan, Singer, JMLR 12, 2011.

    >>> import wengert as wg
    >>> w = wg.tensor(1.0, requires_grad=True)
    >>> opt = wg.optim.Adagrad([w], lr=0.25)
    >>> (w * w).backward()
    >>> opt.step()
    >>> w.item()
    0.75
    """

    numbers = ("lr", "lr_decay", "weight_decay", "eps")
    switches = ("weight_decay",)

    def __init__(
        self,
        params: Params,
        lr: float = 1e-2,
        lr_decay: float = 0.0,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
        maximize: bool = False,
    ) -> None:
        options: dict[str, Any] = {
            "lr": lr,
            "lr_decay": lr_decay,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "eps": eps,
            "maximize": maximize,
        }
        super().__init__(params, options)

    def _check(self, group: Group) -> None:
        super()._check(group)
        for name in ("lr_decay", "initial_accumulator_value", "eps"):
            require(group, name, lambda v: v >= 0, "at least 0")

    def _names(self, group: Group) -> tuple[str, ...]:
        return ("sum",)

    def _initial(self, name: str, group: Group) -> float:
        start: float = group["initial_accumulator_value"]
        return start

    def _update(self, value: Any, grad: Any, state: State, group: Group, step: Any) -> Any:
        if is_on(group["weight_decay"]):
            grad = grad + value * group["weight_decay"]
        state["sum"] += grad * grad
        deviation = sqrt(state["sum"])
        deviation += group["eps"]
        change = grad / deviation
        change *= -group["lr"] / (1.0 + (step - 1) * group["lr_decay"])
        return change
