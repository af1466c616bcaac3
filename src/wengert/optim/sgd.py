"""Stochastic gradient descent."""

from __future__ import annotations

from typing import Any

from ..core.errors import RangeError, fail
from .optimizer import Group, Optimizer, Params, State, is_on, require


class SGD(Optimizer):
    """The gradient descent optimiser, with momentum (heavy ball or Nesterov's).

    Parameters
    ----------
    params: leaf tensors, or dicts of them with their own options.
    lr: the step size.
    momentum: how much of the last step is kept.
    dampening: how much less of the gradient enters the momentum.
    weight_decay: an L2 penalty's factor, added to the gradient.
    nesterov: look ahead along the momentum; needs momentum and no dampening.
    maximize: climb instead of descend.

    Source: Sutskever et al., "On the importance of initialization and momentum in deep learning", 2013.

    >>> import wengert as wg
    >>> w = wg.tensor(1.0, requires_grad=True)
    >>> opt = wg.optim.SGD([w], lr=0.5)
    >>> (w * w).backward()
    >>> opt.step()
    >>> w.item()
    0.0
    """

    numbers = ("lr", "momentum", "dampening", "weight_decay")
    switches = ("momentum", "dampening", "weight_decay")

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        maximize: bool = False,
    ) -> None:
        options: dict[str, Any] = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
        }
        super().__init__(params, options)

    def _check(self, group: Group) -> None:
        super()._check(group)
        require(group, "momentum", lambda v: v >= 0, "at least 0")
        require(group, "dampening", lambda v: v == v, "a number")
        if group["nesterov"] and (group["momentum"] <= 0 or group["dampening"] != 0):
            fail(RangeError, "nesterov=True needs momentum above 0 and dampening 0")

    def _names(self, group: Group) -> tuple[str, ...]:
        return ("momentum_buffer",) if is_on(group["momentum"]) else ()

    def _update(self, value: Any, grad: Any, state: State, group: Group, step: Any) -> Any:
        momentum, dampening = group["momentum"], group["dampening"]
        if is_on(group["weight_decay"]):
            grad = grad + value * group["weight_decay"]
        if is_on(momentum):
            # The first gradient enters whole: 1 // step is 1 then, and 0 afterwards.
            new = grad * (1.0 - dampening * (1 - 1 // step)) if is_on(dampening) else grad
            state["momentum_buffer"] *= momentum
            state["momentum_buffer"] += new
            buffer = state["momentum_buffer"]
            grad = grad + buffer * momentum if group["nesterov"] else buffer
        return grad * -group["lr"]
