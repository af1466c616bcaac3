"""Adadelta, averaged gradient descent (ASGD), and Rprop."""

from __future__ import annotations

from typing import Any

from ..core.errors import RangeError, fail
from ..ops.pointwise.arithmetic import sqrt
from ..ops.pointwise.selection import maximum, minimum, sign
from .formulas import check_numbers, choose
from .optimizer import Group, Optimizer, Params, State, is_on, require


class Adadelta(Optimizer):
    """The Adadelta optimiser: steps of the size of past steps over that of past gradients.

    Parameters
    ----------
    params: leaf tensors, or dicts of them with their own options.
    lr: a factor of every step.
    rho: the decay rate of the two averages of squares, in [0, 1].
    eps: added to both.
    weight_decay: an L2 penalty's factor, added to the gradient.
    maximize: climb instead of descend.

    Source: Zeiler, arXiv:1212.5701.

    >>> import wengert as wg
    >>> w = wg.tensor(1.0, requires_grad=True)
    >>> opt = wg.optim.Adadelta([w])
    >>> (w * w).backward()
    >>> opt.step()
    >>> round(w.item(), 4)
    0.9968
    """

    numbers = ("lr", "rho", "eps", "weight_decay")
    switches = ("weight_decay",)

    def __init__(
        self,
        params: Params,
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        maximize: bool = False,
    ) -> None:
        options = {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize}
        super().__init__(params, options)

    def _check(self, group: Group) -> None:
        super()._check(group)
        require(group, "rho", lambda v: 0 <= v <= 1, "in [0, 1]")
        require(group, "eps", lambda v: v >= 0, "at least 0")

    def _names(self, group: Group) -> tuple[str, ...]:
        return ("square_avg", "acc_delta")

    def _update(self, value: Any, grad: Any, state: State, group: Group, step: Any) -> Any:
        rho, eps = group["rho"], group["eps"]
        if is_on(group["weight_decay"]):
            grad = grad + value * group["weight_decay"]
        state["square_avg"] *= rho
        state["square_avg"] += grad * grad * (1.0 - rho)
        change = sqrt(state["acc_delta"] + eps) / sqrt(state["square_avg"] + eps) * grad
        state["acc_delta"] *= rho
        state["acc_delta"] += change * change * (1.0 - rho)
        return change * -group["lr"]


class ASGD(Optimizer):
    """The averaged gradient descent optimiser; the averages of the values are the buffers "ax".

    Parameters
    ----------
    params: leaf tensors, or dicts of them with their own options.
    lr: the first step size.
    lambd: the factor of a decay of the values, and of that of the step size.
    alpha: the power of the step size's decay: lr / (1 + lambd * lr * step) ** alpha.
    t0: the step from which the values are averaged.
    weight_decay: an L2 penalty's factor, added to the gradient.
    maximize: climb instead of descend.

    Source: Polyak, Juditsky, SIAM J. Control Optim. 30, 1992.

    >>> import wengert as wg
    >>> w = wg.tensor(1.0, requires_grad=True)
    >>> opt = wg.optim.ASGD([w], lr=0.25, lambd=0.0)
    >>> (w * w).backward()
    >>> opt.step()
    >>> w.item()
    0.5
    """

    numbers = ("lr", "lambd", "alpha", "t0", "weight_decay")
    switches = ("weight_decay",)
    scalars = ("eta", "mu")

    def __init__(
        self,
        params: Params,
        lr: float = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0.0,
        maximize: bool = False,
    ) -> None:
        options: dict[str, Any] = {
            "lr": lr,
            "lambd": lambd,
            "alpha": alpha,
            "t0": t0,
            "weight_decay": weight_decay,
            "maximize": maximize,
        }
        super().__init__(params, options)

    def _check(self, group: Group) -> None:
        super()._check(group)
        for name in ("lambd", "alpha", "t0"):
            require(group, name, lambda v: v == v, "a number")

    def _names(self, group: Group) -> tuple[str, ...]:
        return ("eta", "mu", "ax")

    def _initial(self, name: str, group: Group) -> float:
        start: float = {"eta": group["lr"], "mu": 1.0}.get(name, 0.0)
        return start

    def _update(self, value: Any, grad: Any, state: State, group: Group, step: Any) -> Any:
        lr, lambd, eta, mu = group["lr"], group["lambd"], state["eta"], state["mu"]
        if is_on(group["weight_decay"]):
            grad = grad + value * group["weight_decay"]
        change = (grad + value * lambd) * -eta
        state["ax"] += (value + change - state["ax"]) * mu
        state["eta"] = self._rounded(lr / (1.0 + lambd * lr * step) ** group["alpha"])
        averaged = step - group["t0"]
        state["mu"] = self._rounded(1.0 / choose(averaged > 1.0, averaged, 1.0))
        return change


class Rprop(Optimizer):
    """The resilient backpropagation optimiser: steps that look at the gradient's sign alone, for full batches.

    Parameters
    ----------
    params: leaf tensors, or dicts of them with their own options.
    lr: the first step size of every element.
    etas: the factors of an element's step size where the gradient changed its sign, and where it kept it.
    step_sizes: the least and the largest step size.
    maximize: climb instead of descend.

    Source: Riedmiller, Braun, ICNN 1993.

    >>> import wengert as wg
    >>> w = wg.tensor(1.0, requires_grad=True)
    >>> opt = wg.optim.Rprop([w], lr=0.25)
    >>> (w * w).backward()
    >>> opt.step()
    >>> w.item()
    0.75
    """

    numbers = ("lr", "etas", "step_sizes")

    def __init__(
        self,
        params: Params,
        lr: float = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50.0),
        maximize: bool = False,
    ) -> None:
        super().__init__(params, {"lr": lr, "etas": etas, "step_sizes": step_sizes, "maximize": maximize})

    def _check(self, group: Group) -> None:
        super()._check(group)
        check_numbers(group, "etas", 2)
        check_numbers(group, "step_sizes", 2)
        less, more = group["etas"]
        if not 0.0 < less < 1.0 < more:
            fail(RangeError, f"etas must be one below 1 and one above, not {group['etas']!r}")

    def _names(self, group: Group) -> tuple[str, ...]:
        return ("prev", "step_size")

    def _initial(self, name: str, group: Group) -> float:
        start: float = group["lr"] if name == "step_size" else 0.0
        return start

    def _update(self, value: Any, grad: Any, state: State, group: Group, step: Any) -> Any:
        (less, more), (least, most) = group["etas"], group["step_sizes"]
        agreement = grad * state["prev"]
        turned = agreement < 0.0
        factor = choose(turned, less, choose(agreement > 0.0, more, 1.0))
        # Where the sign has changed the value stays, and the next step is made as a first one.
        kept = choose(turned, 0.0, grad)
        size = state["step_size"] = minimum(maximum(state["step_size"] * factor, least), most)
        state["prev"] = kept + 0.0
        return sign(kept) * -size
