"""Schedules of the learning rate: made after the optimiser, stepped after its steps or epochs."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..core.errors import DTypeError, GraphError, ShapeError, StateError, fail
from ..core.tensor import Tensor
from .optimizer import Group, Optimizer, refuse_in_trace

__all__ = [
    "CosineAnnealingLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "OneCycleLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]


class LRScheduler:
    """The base of the schedules: sets `group["lr"]` of every group of an optimiser.

    A schedule acts when it is made (epoch 0) and at every `step()`. Most of them change the rate
    relative to what it is, so that several on one optimiser multiply.

    Raises DTypeError for an `optimizer` that is none.

    >>> import wengert as wg
    >>> class Halving(wg.optim.lr_scheduler.LRScheduler):
    ...     def _next(self, rate, first, i):
    ...         return first * 0.5**self.last_epoch
    >>> opt = wg.optim.SGD([wg.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> schedule = Halving(opt)
    >>> schedule.step()
    >>> schedule.get_last_lr()
    [0.5]
    """

    _left_out: tuple[str, ...] = ("optimizer",)

    def __init__(self, optimizer: Optimizer) -> None:
        if not isinstance(optimizer, Optimizer):
            fail(DTypeError, f"a schedule takes an optimiser, not {type(optimizer).__name__}")
        self.optimizer = optimizer
        self.last_epoch = 0
        self._apply(lambda group: group["lr"])

    def _next(self, lr: float, base: float, index: int) -> float:
        """Return the rate at epoch `last_epoch` from the one before, the initial one, and the group's number."""
        fail(GraphError, f"{type(self).__name__} defines no rate", "Override _next in the class.")

    def _apply(self, current: Callable[[Group], float]) -> None:
        for i, group in enumerate(self.optimizer.param_groups):
            # Also for a group that was added since: it begins with its own rate.
            if "initial_lr" not in group:
                group["initial_lr"] = group["lr"]
            group["lr"] = self._next(current(group), group["initial_lr"], i)

    def step(self) -> None:
        """Advance by one epoch (or one step of the optimiser, as you count them)."""
        refuse_in_trace(self)
        self.last_epoch += 1
        self._apply(lambda group: group["lr"])

    def restart(self) -> None:
        """Begin again at epoch 0, from the initial rates."""
        self.last_epoch = 0
        self._apply(lambda group: group["initial_lr"])

    def get_last_lr(self) -> list[float]:
        """Return the present rates of the groups."""
        return [group["lr"] for group in self.optimizer.param_groups]

    @property
    def base_lrs(self) -> list[float]:
        """The rates of the groups before any schedule."""
        return [group["initial_lr"] for group in self.optimizer.param_groups if "initial_lr" in group]

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the schedule, and its options. The rates themselves are the optimiser's."""
        return {k: v for k, v in self.__dict__.items() if k not in self._left_out}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore the position of another schedule of this kind. Raises StateError for other keys."""
        own = {k for k in self.__dict__ if k not in self._left_out}
        missing, unexpected = sorted(own - set(state_dict)), sorted(set(state_dict) - own)
        if missing or unexpected:
            fail(
                StateError,
                f"state dict does not fit {type(self).__name__}",
                f"missing keys: {missing}; unexpected keys: {unexpected}. Nothing was loaded.",
            )
        self.__dict__.update(state_dict)


class StepLR(LRScheduler):
    """A schedule that multiplies the rate by `gamma` every `step_size` epochs.

    >>> import wengert as wg
    >>> opt = wg.optim.SGD([wg.tensor(0.0, requires_grad=True)], lr=1.0)
    >>> schedule = wg.optim.lr_scheduler.StepLR(opt, step_size=2, gamma=0.5)
    >>> for _ in range(4):
    ...     schedule.step()
    >>> schedule.get_last_lr()
    [0.25]
    """

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1) -> None:
        _positive("step_size", step_size)
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer)

    def _next(self, lr: float, base: float, index: int) -> float:
        due = self.last_epoch > 0 and self.last_epoch % self.step_size == 0
        return lr * self.gamma if due else lr


class MultiStepLR(LRScheduler):
    """A schedule that multiplies the rate by `gamma` at each of the epochs `milestones`.

    >>> import wengert as wg
    >>> opt = wg.optim.SGD([wg.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> schedule = wg.optim.lr_scheduler.MultiStepLR(opt, milestones=[1, 3], gamma=0.5)
    >>> opt.step()
    >>> schedule.step()
    >>> schedule.get_last_lr()
    [0.5]
    """

    def __init__(self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1) -> None:
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer)

    def _next(self, lr: float, base: float, index: int) -> float:
        return lr * float(self.gamma ** self.milestones[self.last_epoch])


class ExponentialLR(LRScheduler):
    """A schedule that multiplies the rate by `gamma` every epoch.

    >>> import wengert as wg
    >>> opt = wg.optim.SGD([wg.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> schedule = wg.optim.lr_scheduler.ExponentialLR(opt, gamma=0.5)
    >>> for _ in range(2):
    ...     opt.step()
    ...     schedule.step()
    ...     print(schedule.get_last_lr())
    [0.5]
    [0.25]
    """

    def __init__(self, optimizer: Optimizer, gamma: float) -> None:
        self.gamma = gamma
        super().__init__(optimizer)

    def _next(self, lr: float, base: float, index: int) -> float:
        return lr * self.gamma if self.last_epoch else lr


class LinearLR(LRScheduler):
    """A schedule from `start_factor` to `end_factor` times the rate in `total_iters` epochs: a warm-up.

    Raises ShapeError for factors outside (0, 1] and [0, 1].

    >>> import wengert as wg
    >>> opt = wg.optim.SGD([wg.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> schedule = wg.optim.lr_scheduler.LinearLR(opt, start_factor=0.5, total_iters=2)
    >>> opt.step()
    >>> schedule.step()
    >>> schedule.get_last_lr()
    [0.75]
    """

    def __init__(
        self, optimizer: Optimizer, start_factor: float = 1.0 / 3, end_factor: float = 1.0, total_iters: int = 5
    ) -> None:
        if not 0 < start_factor <= 1:
            fail(ShapeError, f"start_factor must lie in (0, 1], not {start_factor}")
        if not 0 <= end_factor <= 1:
            fail(ShapeError, f"end_factor must lie in [0, 1], not {end_factor}")
        _positive("total_iters", total_iters)
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer)

    def _next(self, lr: float, base: float, index: int) -> float:
        if self.last_epoch == 0:
            return lr * self.start_factor
        if self.last_epoch > self.total_iters:
            return lr
        rise = self.end_factor - self.start_factor
        return lr * (1.0 + rise / (self.total_iters * self.start_factor + (self.last_epoch - 1) * rise))


class CosineAnnealingLR(LRScheduler):
    """A schedule from the rate to `eta_min` along half a cosine in `T_max` epochs (and back in as many more).

    Source: Loshchilov, Hutter, arXiv:1608.03983.

    >>> import wengert as wg
    >>> opt = wg.optim.SGD([wg.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> schedule = wg.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=2)
    >>> for _ in range(2):
    ...     opt.step()
    ...     schedule.step()
    ...     print(round(schedule.get_last_lr()[0], 6))
    0.5
    0.0
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0) -> None:
        _positive("T_max", T_max)
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer)

    def _next(self, lr: float, base: float, index: int) -> float:
        t, period = self.last_epoch, self.T_max
        if t == 0:
            return lr
        if (t - 1 - period) % (2 * period) == 0:
            # The epoch before stood at the minimum: the quotient below would be 0/0.
            return lr + (base - self.eta_min) * (1 - math.cos(math.pi / period)) / 2
        quotient = (1 + math.cos(math.pi * t / period)) / (1 + math.cos(math.pi * (t - 1) / period))
        return quotient * (lr - self.eta_min) + self.eta_min


class LambdaLR(LRScheduler):
    """A schedule of the initial rate times `lr_lambda(epoch)`: one function, or one for each group.

    >>> import wengert as wg
    >>> opt = wg.optim.SGD([wg.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> schedule = wg.optim.lr_scheduler.LambdaLR(opt, lambda epoch: 1 / (1 + epoch))
    >>> opt.step()
    >>> schedule.step()
    >>> schedule.get_last_lr()
    [0.5]
    """

    _left_out = ("optimizer", "lr_lambdas")

    def __init__(
        self, optimizer: Optimizer, lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]]
    ) -> None:
        self.lr_lambdas = _per_group("lr_lambda", lr_lambda, optimizer)
        super().__init__(optimizer)

    def _next(self, lr: float, base: float, index: int) -> float:
        return base * float(self.lr_lambdas[index](self.last_epoch))


class OneCycleLR(LRScheduler):
    """A schedule with one rise to `max_lr` and one longer fall far below the start, stepped after every batch.

    Parameters
    ----------
    optimizer: whose rate, and momentum or first beta, are set.
    max_lr: the peak, one or one for each group.
    total_steps: the length; or `epochs` times `steps_per_epoch`.
    pct_start: the part of it that rises.
    anneal_strategy: "cos" or "linear".
    cycle_momentum: let the momentum go from `max_momentum` to `base_momentum` and back.
    div_factor: the peak over the first rate.
    final_div_factor: the first rate over the last.
    three_phase: fall as steeply as it rose, then on to the last rate.

    Source: Smith, Topin, arXiv:1708.07120.

    Raises ShapeError for a share outside [0, 1], another strategy, no length, or no momentum to cycle.

    >>> import wengert as wg
    >>> opt = wg.optim.SGD([wg.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> schedule = wg.optim.lr_scheduler.OneCycleLR(opt, max_lr=1.0, total_steps=10)
    >>> round(schedule.get_last_lr()[0], 6)
    0.04
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | Sequence[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float = 0.85,
        max_momentum: float = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
    ) -> None:
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                fail(ShapeError, "OneCycleLR without a length", "Give total_steps, or epochs and steps_per_epoch.")
            total_steps = epochs * steps_per_epoch
        _positive("total_steps", total_steps)
        if not 0 <= pct_start <= 1:
            fail(ShapeError, f"pct_start must lie in [0, 1], not {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            fail(ShapeError, f"anneal_strategy must be 'cos' or 'linear', not {anneal_strategy!r}")
        if cycle_momentum and not {"momentum", "betas"} & set(optimizer.defaults):
            fail(ShapeError, f"{type(optimizer).__name__} has no momentum to cycle", "Pass cycle_momentum=False.")
        self.total_steps = total_steps
        self.max_lrs = [float(v) for v in _per_group("max_lr", max_lr, optimizer)]
        self.anneal_strategy = anneal_strategy
        self.cycle_momentum = cycle_momentum
        self.momentums = (max_momentum, base_momentum)
        self.final_div_factor = final_div_factor
        # (last step, rate at its end, momentum at its end), the rates as names of the three levels.
        rise = float(pct_start * total_steps) - 1
        middle = [(2 * pct_start * total_steps - 2, "initial", 0)] if three_phase else []
        self.phases = [(rise, "max", 1), *middle, (total_steps - 1, "min", 0)]
        for group, peak in zip(optimizer.param_groups, self.max_lrs):
            group["initial_lr"] = peak / div_factor
        super().__init__(optimizer)

    def _next(self, lr: float, base: float, index: int) -> float:
        if self.last_epoch > self.total_steps:
            fail(
                ShapeError,
                f"step {self.last_epoch} of a OneCycleLR of {self.total_steps} steps",
                "Give total_steps = epochs * batches in an epoch.",
            )
        levels = {"initial": base, "max": self.max_lrs[index], "min": base / self.final_div_factor}
        start, rate, momentum = 0.0, "initial", 0
        for end, next_rate, next_momentum in self.phases:
            if self.last_epoch <= end or end == self.phases[-1][0]:
                break
            start, rate, momentum = end, next_rate, next_momentum
        part = (self.last_epoch - start) / (end - start) if end != start else 1.0
        if self.cycle_momentum:
            self._set_momentum(index, self._anneal(self.momentums[momentum], self.momentums[next_momentum], part))
        return self._anneal(levels[rate], levels[next_rate], part)

    def _anneal(self, start: float, end: float, part: float) -> float:
        if self.anneal_strategy == "linear":
            return start + (end - start) * part
        return end + (start - end) / 2 * (1 + math.cos(math.pi * part))

    def _set_momentum(self, index: int, value: float) -> None:
        group = self.optimizer.param_groups[index]
        if "betas" in group:
            group["betas"] = (value, group["betas"][1])
        else:
            group["momentum"] = value


class SequentialLR(LRScheduler):
    """A schedule made of others in sequence: the i-th gives way to the next at epoch `milestones[i]`.

    Raises ShapeError for other numbers of milestones or falling ones, GraphError for a schedule of another optimiser.

    >>> import wengert as wg
    >>> from wengert.optim.lr_scheduler import ExponentialLR, LinearLR, SequentialLR
    >>> opt = wg.optim.SGD([wg.tensor(0.0, requires_grad=True)], lr=1.0)
    >>> parts = [LinearLR(opt, 0.5, total_iters=2), ExponentialLR(opt, 0.5)]
    >>> schedule = SequentialLR(opt, parts, milestones=[2])
    >>> rates = []
    >>> for _ in range(5):
    ...     rates += schedule.get_last_lr()
    ...     schedule.step()
    >>> rates
    [0.5, 0.75, 1.0, 0.5, 0.25]
    """

    _left_out = ("optimizer", "schedulers")

    def __init__(self, optimizer: Optimizer, schedulers: Sequence[LRScheduler], milestones: Sequence[int]) -> None:
        self.schedulers = list(schedulers)
        self.milestones = list(milestones)
        if not self.schedulers or len(self.milestones) != len(self.schedulers) - 1:
            fail(
                ShapeError,
                f"SequentialLR of {len(self.schedulers)} schedules with {len(self.milestones)} milestones",
                "There is one milestone between each two schedules.",
            )
        if self.milestones != sorted(self.milestones):
            fail(ShapeError, f"milestones must not fall: {self.milestones}")
        for s in self.schedulers:
            if s.optimizer is not optimizer or isinstance(s, ReduceLROnPlateau):
                fail(GraphError, f"SequentialLR cannot use a {type(s).__name__} that is on another optimiser or metric")
        self.optimizer = optimizer
        self.restart()

    def restart(self) -> None:
        """Begin again with the first schedule."""
        self.last_epoch = 0
        self.schedulers[0].restart()

    def step(self) -> None:
        """Advance by one epoch."""
        refuse_in_trace(self)
        self.last_epoch += 1
        i = bisect_right(self.milestones, self.last_epoch)
        if i and self.milestones[i - 1] == self.last_epoch:
            self.schedulers[i].restart()
        else:
            self.schedulers[i].step()

    def state_dict(self) -> dict[str, Any]:
        """Return the positions of the schedule and of its parts."""
        return {**super().state_dict(), "schedulers": [s.state_dict() for s in self.schedulers]}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore another's position. Raises StateError for other keys or another number of parts."""
        parts = state_dict.get("schedulers", ())
        if len(parts) != len(self.schedulers):
            fail(StateError, f"state of {len(parts)} schedules for a SequentialLR of {len(self.schedulers)}")
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "schedulers"})
        for s, part in zip(self.schedulers, parts):
            s.load_state_dict(part)


class ReduceLROnPlateau(LRScheduler):
    """A schedule that multiplies the rate by `factor` when a metric has not improved for more than `patience` epochs.

    Parameters
    ----------
    optimizer: whose rate is set.
    mode: "min" for a metric that should fall, "max" for one that should rise.
    factor: below 1.
    patience: the epochs without improvement that are let pass.
    threshold: what counts as an improvement, relative to the best ("rel") or absolute ("abs").
    cooldown: the epochs after a reduction in which none is counted.
    min_lr: where the rate stops, one or one for each group.
    eps: the smallest change that is made.

    A NaN metric counts as no improvement. Step it with the metric: `schedule.step(loss)`.

    Raises ShapeError for another mode or a factor of 1 or more.

    >>> import wengert as wg
    >>> opt = wg.optim.SGD([wg.tensor(1.0, requires_grad=True)], lr=1.0)
    >>> schedule = wg.optim.lr_scheduler.ReduceLROnPlateau(opt, factor=0.5, patience=0)
    >>> for loss in (1.0, 1.0, 1.0):
    ...     schedule.step(loss)
    >>> schedule.get_last_lr()
    [0.25]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | Sequence[float] = 0.0,
        eps: float = 1e-8,
    ) -> None:
        if mode not in ("min", "max") or threshold_mode not in ("rel", "abs"):
            fail(
                ShapeError,
                f"mode {mode!r} is not 'min' or 'max', or threshold_mode {threshold_mode!r} not 'rel' or 'abs'",
            )
        if not factor < 1:
            fail(ShapeError, f"factor must be below 1, not {factor}")
        self.mode, self.threshold_mode = mode, threshold_mode
        self.factor, self.patience, self.threshold = factor, patience, threshold
        self.cooldown, self.eps = cooldown, eps
        self.min_lrs = [float(v) for v in _per_group("min_lr", min_lr, optimizer)]
        self.best = math.inf if mode == "min" else -math.inf
        self.cooldown_counter = self.num_bad_epochs = 0
        super().__init__(optimizer)

    def _next(self, lr: float, base: float, index: int) -> float:
        return lr

    def step(self, metrics: Any = None) -> None:
        """Take the metric (a number or a tensor with one element) of another epoch.

        Raises DTypeError where there is none.
        """
        if metrics is None:
            fail(DTypeError, "ReduceLROnPlateau.step() without a metric", "Write schedule.step(validation_loss).")
        refuse_in_trace(self)
        value = float(metrics.detach() if isinstance(metrics, Tensor) else metrics)
        self.last_epoch += 1
        if self._better(value):
            self.best = value
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
            for i, group in enumerate(self.optimizer.param_groups):
                lower = max(group["lr"] * self.factor, self.min_lrs[min(i, len(self.min_lrs) - 1)])
                if group["lr"] - lower > self.eps:
                    group["lr"] = lower

    def _better(self, value: float) -> bool:
        sign = 1.0 if self.mode == "min" else -1.0
        if self.threshold_mode == "abs":
            return sign * value < sign * self.best - self.threshold
        return sign * value < sign * self.best * (1.0 - sign * self.threshold)


def _positive(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        fail(ShapeError, f"{name} must be a positive int, not {value!r}")


def _per_group(name: str, value: Any, optimizer: Optimizer) -> list[Any]:
    count = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [value] * count
    if len(value) != count:
        fail(ShapeError, f"{len(value)} values of {name} for {count} parameter groups")
    return list(value)


def __dir__() -> list[str]:
    return sorted(__all__)
