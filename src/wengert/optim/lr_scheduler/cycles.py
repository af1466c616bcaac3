"""Schedules of cycles: with restarts, between two rates, and of one cycle."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from ...core.errors import RangeError, ShapeError, fail
from ..optimizer import Group, refuse_in_trace
from .schedule import LRScheduler, State, attributes_of, check_optimizer, give, per_group


class CosineAnnealingWarmRestarts(LRScheduler):
    """A schedule along half a cosine to `eta_min` in `T_0` epochs, then again in `T_mult` times as many, and so on.

    `step(epoch)` takes fractions of epochs. Raises ValueError for other than positive whole numbers.

    Source: Loshchilov, Hutter, arXiv:1608.03983.

    >>> import wengert as wg
    >>> opt = wg.optim.SGD([wg.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = wg.optim.lr_scheduler.CosineAnnealingWarmRestarts(opt, T_0=2)
    >>> for _ in range(2):
    ...     opt.step()
    ...     schedule.step()
    ...     print(round(schedule.get_last_lr()[0], 6))
    0.5
    1.0
    """

    def __init__(
        self,
        optimizer: Any,
        T_0: int,
        T_mult: int = 1,
        eta_min: float = 0.0,
        last_epoch: int = -1,
        verbose: Any = None,
    ) -> None:
        for name, value in (("T_0", T_0), ("T_mult", T_mult)):
            if not isinstance(value, int) or value < 1:
                fail(RangeError, f"{name} must be a positive int, not {value!r}")
        if not isinstance(eta_min, (float, int)):
            fail(RangeError, f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}")
        self.T_0, self.T_i, self.T_mult, self.eta_min = T_0, T_0, T_mult, eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def _next(self, lr: Any, base: Any, index: int) -> Any:
        return self.eta_min + (base - self.eta_min) * (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2

    def step(self, epoch: float | None = None) -> None:
        """Advance by one epoch, or go to `epoch`, which may be a fraction. Raises ValueError below 0."""
        refuse_in_trace(self)
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        elif epoch < 0:
            fail(RangeError, f"Expected non-negative epoch, but got {epoch}")
        elif epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            cycles = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult**cycles - 1) / (self.T_mult - 1)
            self.T_i = self.T_0 * self.T_mult**cycles
        self.last_epoch = math.floor(epoch)
        self._get_lr_called_within_step = True
        try:
            rates = self.get_lr()
        finally:
            self._get_lr_called_within_step = False
        self._set(rates)


class _WithMomentum(LRScheduler):
    """A schedule that sets the momentum, or the first beta, together with the rate."""

    cycle_momentum: bool
    use_beta1: bool

    def _begin_momentum(self, lowest: Any, highest: Any, last_epoch: int) -> tuple[list[Any], list[Any]]:
        """Give the groups the highest momentum. Raises ValueError for an optimiser without one."""
        defaults = self.optimizer.defaults
        if "momentum" not in defaults and "betas" not in defaults:
            fail(
                ShapeError,
                f"{type(self.optimizer).__name__} has no momentum or beta1 to cycle",
                "Pass cycle_momentum=False.",
            )
        self.use_beta1 = "betas" in defaults
        lows = per_group("base_momentum", lowest, self.optimizer)
        highs = per_group("max_momentum", highest, self.optimizer)
        if last_epoch == -1:
            for group, low, high in zip(self.optimizer.param_groups, lows, highs):
                self._set_momentum(group, high)
                group["max_momentum"], group["base_momentum"] = high, low
        return lows, highs

    def _set_momentum(self, group: Group, value: Any) -> None:
        if self.use_beta1:
            group["betas"] = (value, *group["betas"][1:])
        else:
            group["momentum"] = value


class CyclicLR(_WithMomentum):
    """A schedule between `base_lr` and `max_lr`, up in `step_size_up` steps and down in `step_size_down`.

    Parameters
    ----------
    optimizer: whose rate is set, and its momentum the other way round where `cycle_momentum`.
    base_lr, max_lr: the ends, one or one for each group.
    step_size_up, step_size_down: the lengths of the two halves; None: the same.
    mode: "triangular"; "triangular2": half the height in every cycle; "exp_range": `gamma` to the power of the step.
    gamma: see `mode`.
    scale_fn: a function of the cycle's number (`scale_mode="cycle"`) or of the step's ("iterations"), for a mode.
    scale_mode: see `scale_fn`.
    cycle_momentum, base_momentum, max_momentum: whether and between what to set the momentum.
    last_epoch: where to take the schedule up.

    Raises ValueError for another mode, or an optimiser without momentum.

    Source: Smith, arXiv:1506.01186.

    >>> import wengert as wg
    >>> opt = wg.optim.SGD([wg.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = wg.optim.lr_scheduler.CyclicLR(
    ...     opt, base_lr=0.5, max_lr=1.0, step_size_up=2, cycle_momentum=False
    ... )
    >>> for _ in range(2):
    ...     opt.step()
    ...     schedule.step()
    ...     print(schedule.get_last_lr())
    [0.75]
    [1.0]
    """

    def __init__(
        self,
        optimizer: Any,
        base_lr: Any,
        max_lr: Any,
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: Any = 0.8,
        max_momentum: Any = 0.9,
        last_epoch: int = -1,
        verbose: Any = None,
    ) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        base_lrs = per_group("base_lr", base_lr, optimizer)
        if last_epoch == -1:
            for group, lr in zip(optimizer.param_groups, base_lrs):
                give(group, "lr", lr)
        self.max_lrs = per_group("max_lr", max_lr, optimizer)
        up = float(step_size_up)
        self.total_size = up + (up if step_size_down is None else float(step_size_down))
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            fail(RangeError, f"mode {mode!r} is not 'triangular', 'triangular2' or 'exp_range', and scale_fn is None")
        self.mode, self.gamma = mode, gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode if scale_fn else "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.base_momentums, self.max_momentums = self._begin_momentum(base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x: float) -> float:
        """Return the height of a cycle, or of a step, relative to that of the first."""
        if self._scale_fn_custom is not None:
            return float(self._scale_fn_custom(x))
        if self.mode == "exp_range":
            return float(self.gamma**x)
        return 0.5 ** (x - 1) if self.mode == "triangular2" else 1.0

    def get_lr(self) -> list[Any]:
        """Return the rates at `last_epoch`; the momentum is set here too."""
        self._warn_if_called()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        height *= self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for group, low, high in zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums):
                self._set_momentum(group, high - (high - low) * height)
        return [low + (high - low) * height for low, high in zip(self.base_lrs, self.max_lrs)]

    def state_dict(self) -> State:
        """Return the position and the options; of a `scale_fn` that is an object its attributes."""
        state = super().state_dict()
        state["_scale_fn_custom"] = None if self._scale_fn_custom is None else attributes_of(self._scale_fn_custom)
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take the position and the options."""
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "_scale_fn_custom"})
        attributes = state_dict.get("_scale_fn_custom")
        if attributes is not None and self._scale_fn_custom is not None:
            self._scale_fn_custom.__dict__.update(attributes)


class OneCycleLR(_WithMomentum):
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
    last_epoch: where to take the schedule up.

    Source: Smith, Topin, arXiv:1708.07120.

    Raises ValueError for a share outside [0, 1], another strategy, no length, or no momentum to cycle, and for a phase
    without a length, where the rise has one step alone.

    >>> import wengert as wg
    >>> opt = wg.optim.SGD([wg.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = wg.optim.lr_scheduler.OneCycleLR(opt, max_lr=1.0, total_steps=10)
    >>> round(schedule.get_last_lr()[0], 6)
    0.04
    """

    def __init__(
        self,
        optimizer: Any,
        max_lr: Any,
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: Any = 0.85,
        max_momentum: Any = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
        verbose: Any = None,
    ) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                fail(RangeError, "You must define either total_steps OR (epochs AND steps_per_epoch)")
            total_steps = epochs * steps_per_epoch
        if not isinstance(total_steps, int) or total_steps <= 0:
            fail(RangeError, f"Expected positive integer total_steps, but got {total_steps}")
        if not isinstance(pct_start, float) or not 0 <= pct_start <= 1:
            fail(RangeError, f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            fail(RangeError, f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self.total_steps = total_steps
        stops: list[tuple[float, str, str]] = [(0.0, "initial_lr", "max_momentum")]
        stops.append((float(pct_start * total_steps) - 1, "max_lr", "base_momentum"))
        if three_phase:
            stops.append((float(2 * pct_start * total_steps) - 2, "initial_lr", "max_momentum"))
        stops.append((total_steps - 1, "min_lr", "max_momentum"))
        self._schedule_phases = [
            {"end_step": end, "start_lr": lr, "end_lr": next_lr, "start_momentum": m, "end_momentum": next_m}
            for (_, lr, m), (end, next_lr, next_m) in zip(stops, stops[1:])
        ]
        self._anneal_func_type = anneal_strategy
        for group, peak in zip(optimizer.param_groups, per_group("max_lr", max_lr, optimizer)):
            if last_epoch == -1:
                group["initial_lr"], group["max_lr"] = peak / div_factor, peak
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._begin_momentum(base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Return the rates at `last_epoch`; the momentum is set here too. Raises ValueError after the last step."""
        self._warn_if_called()
        step = self.last_epoch
        if step > self.total_steps:
            fail(
                RangeError,
                f"Tried to step {step} times. The specified number of total steps is {self.total_steps}",
                "Give total_steps = epochs * batches in an epoch.",
            )
        start = 0.0
        for phase in self._schedule_phases:
            end: Any = phase["end_step"]
            if step <= end or phase is self._schedule_phases[-1]:
                break
            start = end
        if start == end:
            fail(
                RangeError,
                f"a OneCycleLR of total_steps={self.total_steps} with a phase that begins and ends at step {end:g}",
                "Give another pct_start: PyTorch divides by 0 there.",
            )
        part = (step - start) / (end - start)
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(self._between(group[phase["start_lr"]], group[phase["end_lr"]], part))
            if self.cycle_momentum:
                first, last = group[phase["start_momentum"]], group[phase["end_momentum"]]
                self._set_momentum(group, self._between(first, last, part))
        return rates

    def _between(self, start: float, end: float, part: float) -> float:
        if self._anneal_func_type == "linear":
            return (end - start) * part + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * part) + 1)
