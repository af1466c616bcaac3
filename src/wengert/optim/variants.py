"""Relatives of Adam: Adamax, NAdam and RAdam."""

from __future__ import annotations

from typing import Any

from ..ops.pointwise.arithmetic import sqrt
from ..ops.pointwise.selection import abs as absolute
from ..ops.pointwise.selection import maximum
from .formulas import check_betas, choose
from .optimizer import Group, Optimizer, Params, State, is_on, require


class _Averaging(Optimizer):
    """A rule with averages of the gradient and of its size, whose weight decay is Adam's or AdamW's."""

    numbers: tuple[str, ...] = ("lr", "betas", "eps", "weight_decay")
    switches = ("weight_decay",)

    def _check(self, group: Group) -> None:
        super()._check(group)
        require(group, "eps", lambda v: v >= 0, "at least 0")
        check_betas(group)

    def _names(self, group: Group) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq")

    def _averages(self, value: Any, grad: Any, state: State, group: Group) -> Any:
        """Bring both averages up to date; return the gradient that entered them."""
        beta1, beta2 = group["betas"]
        if is_on(group["weight_decay"]) and not group["decoupled_weight_decay"]:
            grad = grad + value * group["weight_decay"]
        state["exp_avg"] *= beta1
        state["exp_avg"] += grad * (1.0 - beta1)
        state["exp_avg_sq"] *= beta2
        state["exp_avg_sq"] += grad * grad * (1.0 - beta2)
        return grad

    def _decayed(self, change: Any, value: Any, group: Group) -> Any:
        if is_on(group["weight_decay"]) and group["decoupled_weight_decay"]:
            change = change - value * (group["lr"] * group["weight_decay"])
        return change


class Adamax(_Averaging):
    """The Adamax optimiser: Adam with the largest decayed gradient in place of the second average.

    Parameters
    ----------
    params: leaf tensors, or dicts of them with their own options.
    lr: the step size.
    betas: the decay rates of the average and of the maximum, in [0, 1).
    eps: added to the size of every gradient.
    weight_decay: an L2 penalty's factor, added to the gradient.
    maximize: climb instead of descend.

    Source: Kingma, Ba, arXiv:1412.6980, section 7.

    >>> import wengert as wg
    >>> w = wg.tensor(1.0, requires_grad=True)
    >>> opt = wg.optim.Adamax([w], lr=0.25)
    >>> (w * w).backward()
    >>> opt.step()
    >>> round(w.item(), 6)
    0.75
    """

    def __init__(
        self,
        params: Params,
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        maximize: bool = False,
    ) -> None:
        options = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize}
        super().__init__(params, options)

    def _names(self, group: Group) -> tuple[str, ...]:
        return ("exp_avg", "exp_inf")

    def _update(self, value: Any, grad: Any, state: State, group: Group, step: Any) -> Any:
        beta1, beta2 = group["betas"]
        if is_on(group["weight_decay"]):
            grad = grad + value * group["weight_decay"]
        state["exp_avg"] *= beta1
        state["exp_avg"] += grad * (1.0 - beta1)
        state["exp_inf"] = maximum(state["exp_inf"] * beta2, absolute(grad) + group["eps"])
        return state["exp_avg"] / state["exp_inf"] * (-group["lr"] / (1.0 - beta1**step))


class NAdam(_Averaging):
    """The NAdam optimiser: Adam with Nesterov's momentum.

    Parameters
    ----------
    params: leaf tensors, or dicts of them with their own options.
    lr: the step size.
    betas: the decay rates of the two averages, in [0, 1).
    eps: added to the root of the second average.
    weight_decay: an L2 penalty's factor, added to the gradient.
    momentum_decay: how fast the momentum rises to the first of `betas`.
    decoupled_weight_decay: shrink the value by `lr * weight_decay` in place of the penalty.
    maximize: climb instead of descend.

    Source: Dozat, "Incorporating Nesterov momentum into Adam", ICLR workshop, 2016.

    >>> import wengert as wg
    >>> w = wg.tensor(1.0, requires_grad=True)
    >>> opt = wg.optim.NAdam([w], lr=0.25)
    >>> (w * w).backward()
    >>> opt.step()
    >>> 0.7 < w.item() < 0.8
    True
    """

    numbers = ("lr", "betas", "eps", "weight_decay", "momentum_decay")
    scalars = ("mu_product",)

    def __init__(
        self,
        params: Params,
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        maximize: bool = False,
    ) -> None:
        options: dict[str, Any] = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
        }
        super().__init__(params, options)

    def _check(self, group: Group) -> None:
        super()._check(group)
        require(group, "momentum_decay", lambda v: v >= 0, "at least 0")

    def _names(self, group: Group) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq", "mu_product")

    def _initial(self, name: str, group: Group) -> float:
        return 1.0 if name == "mu_product" else 0.0

    def _update(self, value: Any, grad: Any, state: State, group: Group, step: Any) -> Any:
        (beta1, beta2), lr, fall = group["betas"], group["lr"], group["momentum_decay"]
        now = beta1 * (1.0 - 0.5 * 0.96 ** (step * fall))
        later = beta1 * (1.0 - 0.5 * 0.96 ** ((step + 1) * fall))
        product = state["mu_product"] = self._rounded(state["mu_product"] * self._rounded(now))
        grad = self._averages(value, grad, state, group)
        deviation = sqrt(state["exp_avg_sq"] * (1.0 / (1.0 - beta2**step)))
        deviation += group["eps"]
        ahead = grad * (-lr * (1.0 - now) / (1.0 - product))
        ahead += state["exp_avg"] * (-lr * later / (1.0 - product * later))
        return self._decayed(ahead / deviation, value, group)


class RAdam(_Averaging):
    """The RAdam optimiser: Adam whose scaling sets in as the second average becomes reliable.

    Parameters
    ----------
    params: leaf tensors, or dicts of them with their own options.
    lr: the step size.
    betas: the decay rates of the two averages, in [0, 1).
    eps: added to the root of the second average.
    weight_decay: an L2 penalty's factor, added to the gradient.
    decoupled_weight_decay: shrink the value by `lr * weight_decay` in place of the penalty.
    maximize: climb instead of descend.

    Source: Liu et al., arXiv:1908.03265.

    >>> import wengert as wg
    >>> w = wg.tensor(1.0, requires_grad=True)
    >>> opt = wg.optim.RAdam([w], lr=0.25)
    >>> (w * w).backward()
    >>> opt.step()
    >>> w.item()
    0.5
    """

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        decoupled_weight_decay: bool = False,
        maximize: bool = False,
    ) -> None:
        options: dict[str, Any] = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
        }
        super().__init__(params, options)

    def _update(self, value: Any, grad: Any, state: State, group: Group, step: Any) -> Any:
        (beta1, beta2), lr = group["betas"], group["lr"]
        self._averages(value, grad, state, group)
        power = beta2**step
        most = 2.0 / (1.0 - beta2) - 1.0
        length = most - 2.0 * step * power / (1.0 - power)
        scaled = length > 5.0
        # Of a shorter length the root would be that of a negative number; it is not used.
        known = choose(scaled, length, 5.0)
        rectified = ((known - 4.0) * (known - 2.0) * most / ((most - 4.0) * (most - 2.0) * known)) ** 0.5
        deviation = sqrt(state["exp_avg_sq"])
        deviation += group["eps"]
        factor = choose(scaled, rectified * (1.0 - power) ** 0.5 / deviation, 1.0)
        change = state["exp_avg"] * factor
        change *= -lr / (1.0 - beta1**step)
        return self._decayed(change, value, group)
