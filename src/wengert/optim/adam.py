"""Adam, and AdamW with decoupled weight decay."""

from __future__ import annotations

from typing import Any

from ..ops.pointwise.arithmetic import sqrt
from ..ops.pointwise.selection import maximum
from .formulas import check_betas
from .optimizer import Group, Optimizer, Params, State, is_on, require


class Adam(Optimizer):
    """The Adam optimiser: steps scaled by running averages of the gradient and of its square.

    Parameters
    ----------
    params: leaf tensors, or dicts of them with their own options.
    lr: the step size.
    betas: the decay rates of the two averages, in [0, 1).
    eps: added to the root of the second average.
    weight_decay: an L2 penalty's factor, added to the gradient (see :class:`AdamW` for the other kind).
    amsgrad: divide by the largest second average so far (Reddi et al., arXiv:1904.09237).
    maximize: climb instead of descend.

    Source: Kingma, Ba, arXiv:1412.6980.

    >>> import wengert as wg
    >>> w = wg.tensor(1.0, requires_grad=True)
    >>> opt = wg.optim.Adam([w], lr=0.25)
    >>> (w * w).backward()
    >>> opt.step()
    >>> w.item()
    0.75
    """

    numbers = ("lr", "betas", "eps", "weight_decay")
    switches = ("weight_decay",)
    _decoupled = False

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        maximize: bool = False,
    ) -> None:
        options: dict[str, Any] = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
        }
        super().__init__(params, options)

    def _check(self, group: Group) -> None:
        super()._check(group)
        require(group, "eps", lambda v: v >= 0, "at least 0")
        check_betas(group)

    def _names(self, group: Group) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq", "max_exp_avg_sq") if group["amsgrad"] else ("exp_avg", "exp_avg_sq")

    def _update(self, value: Any, grad: Any, state: State, group: Group, step: Any) -> Any:
        (beta1, beta2), lr, decay = group["betas"], group["lr"], group["weight_decay"]
        decoupled = group.get("decoupled_weight_decay", self._decoupled)
        if is_on(decay) and not decoupled:
            grad = grad + value * decay
        state["exp_avg"] *= beta1
        state["exp_avg"] += grad * (1.0 - beta1)
        state["exp_avg_sq"] *= beta2
        squared = grad * grad
        squared *= 1.0 - beta2
        state["exp_avg_sq"] += squared
        square = state["exp_avg_sq"]
        if group["amsgrad"]:
            square = state["max_exp_avg_sq"] = maximum(state["max_exp_avg_sq"], square)
        # Both bias corrections as numbers: lr/c1 * mean / (sqrt(square)/sqrt(c2) + eps).
        root = (1.0 - beta2**step) ** 0.5
        deviation = sqrt(square)
        deviation += group["eps"] * root
        change = state["exp_avg"] / deviation
        change *= -lr * root / (1.0 - beta1**step)
        if is_on(decay) and decoupled:
            change -= value * (lr * decay)
        return change


class AdamW(Adam):
    """The Adam optimiser with decoupled weight decay: every step first shrinks the value by `lr * weight_decay`.

    Parameters are those of :class:`Adam`; `weight_decay` is 0.01 by default.

    Source: Loshchilov, Hutter, arXiv:1711.05101.

    >>> import wengert as wg
    >>> w = wg.tensor(1.0, requires_grad=True)
    >>> opt = wg.optim.AdamW([w], lr=0.25, weight_decay=0.5)
    >>> (w * w).backward()
    >>> opt.step()
    >>> w.item()
    0.625
    """

    _decoupled = True

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize)
