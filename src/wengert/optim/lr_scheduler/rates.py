"""Schedules by functions of the epoch, and schedules made of others or of a metric."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...core.errors import DTypeError, GraphError, RangeError, ShapeError, fail
from ...core.tensor import Tensor
from ..optimizer import refuse_in_trace
from .schedule import LRScheduler, State, attributes_of, check_optimizer, give, per_group, values_of, warn_of_epoch


class _Closed(LRScheduler):
    """A schedule whose rate is the initial one times a function of the epoch, or known in closed form otherwise."""

    def _at(self, base: Any) -> Any:
        """Return the rate at `last_epoch` from the initial one."""
        raise NotImplementedError

    def _get_closed_form_lr(self) -> list[Any]:
        return [self._at(base) for base in self.base_lrs]


class _OfFunctions(LRScheduler):
    """A schedule by functions of the epoch, one or one for each group, whose code is no part of the state."""

    def __init__(self, optimizer: Any, lr_lambda: Any, last_epoch: int = -1, verbose: Any = None) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        self.lr_lambdas = per_group("lr_lambda", lr_lambda, optimizer)
        for f in self.lr_lambdas:
            if not callable(f):
                fail(DTypeError, f"lr_lambda should be a function, but got {type(f).__name__}")
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> State:
        """Return the position, and the attributes of functions that are objects."""
        state = super().state_dict()
        state["lr_lambdas"] = [attributes_of(f) for f in self.lr_lambdas]
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take the position, and the attributes of functions that are objects."""
        self.__dict__.update({k: v for k, v in state_dict.items() if k != "lr_lambdas"})
        for f, attributes in zip(self.lr_lambdas, state_dict["lr_lambdas"]):
            if attributes is not None:
                f.__dict__.update(attributes)


class LambdaLR(_OfFunctions):
    """A schedule of the initial rate times `lr_lambda(epoch)`: one function, or one for each group.

    >>> import wengert as wg
    >>> opt = wg.optim.SGD([wg.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = wg.optim.lr_scheduler.LambdaLR(opt, lambda epoch: 1 / (1 + epoch))
    >>> opt.step()
    >>> schedule.step()
    >>> schedule.get_last_lr()
    [0.5]
    """

    def _next(self, lr: Any, base: Any, index: int) -> Any:
        return base * self.lr_lambdas[index](self.last_epoch)


class MultiplicativeLR(_OfFunctions):
    """A schedule that multiplies the rate by `lr_lambda(epoch)` every epoch.

    >>> import wengert as wg
    >>> opt = wg.optim.SGD([wg.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = wg.optim.lr_scheduler.MultiplicativeLR(opt, lambda epoch: 1 / (1 + epoch))
    >>> for _ in range(2):
    ...     opt.step()
    ...     schedule.step()
    ...     print(schedule.get_last_lr())
    [0.5]
    [0.16666666666666666]
    """

    def _next(self, lr: Any, base: Any, index: int) -> Any:
        return lr if self._is_initial else lr * self.lr_lambdas[index](self.last_epoch)


class StepLR(_Closed):
    """A schedule that multiplies the rate by `gamma` every `step_size` epochs.

    >>> import wengert as wg
    >>> opt = wg.optim.SGD([wg.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = wg.optim.lr_scheduler.StepLR(opt, step_size=2, gamma=0.5)
    >>> for _ in range(2):
    ...     opt.step()
    ...     schedule.step()
    ...     print(schedule.get_last_lr())
    [1.0]
    [0.5]
    """

    def __init__(
        self, optimizer: Any, step_size: int, gamma: float = 0.1, last_epoch: int = -1, verbose: Any = None
    ) -> None:
        self.step_size, self.gamma = step_size, gamma
        _not_zero("step_size", step_size)
        super().__init__(optimizer, last_epoch)

    def _next(self, lr: Any, base: Any, index: int) -> Any:
        return lr * self.gamma if self.last_epoch > 0 and self.last_epoch % self.step_size == 0 else lr

    def _at(self, base: Any) -> Any:
        return base * self.gamma ** (self.last_epoch // self.step_size)


class MultiStepLR(_Closed):
    """A schedule that multiplies the rate by `gamma` at each of the epochs `milestones`.

    >>> import wengert as wg
    >>> opt = wg.optim.SGD([wg.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = wg.optim.lr_scheduler.MultiStepLR(opt, milestones=[1, 3], gamma=0.5)
    >>> for _ in range(2):
    ...     opt.step()
    ...     schedule.step()
    ...     print(schedule.get_last_lr())
    [0.5]
    [0.5]
    """

    def __init__(
        self,
        optimizer: Any,
        milestones: Iterable[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
        verbose: Any = None,
    ) -> None:
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def _next(self, lr: Any, base: Any, index: int) -> Any:
        return lr * float(self.gamma ** self.milestones[self.last_epoch])

    def _at(self, base: Any) -> Any:
        return base * self.gamma ** bisect_right(sorted(self.milestones.elements()), self.last_epoch)


class ConstantLR(_Closed):
    """A schedule that keeps `factor` times the rate for `total_iters` epochs. Raises ValueError outside [0, 1].

    >>> import wengert as wg
    >>> opt = wg.optim.SGD([wg.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = wg.optim.lr_scheduler.ConstantLR(opt, factor=0.5, total_iters=2)
    >>> for _ in range(2):
    ...     opt.step()
    ...     schedule.step()
    ...     print(schedule.get_last_lr())
    [0.5]
    [1.0]
    """

    def __init__(
        self,
        optimizer: Any,
        factor: float = 1.0 / 3,
        total_iters: int = 5,
        last_epoch: int = -1,
        verbose: Any = None,
    ) -> None:
        _in_unit("factor", factor)
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def _next(self, lr: Any, base: Any, index: int) -> Any:
        if self.last_epoch == 0:
            return lr * self.factor
        return lr if self.last_epoch != self.total_iters else lr * (1.0 / self.factor)

    def _at(self, base: Any) -> Any:
        return base if self.last_epoch >= self.total_iters else base * self.factor


class LinearLR(_Closed):
    """A schedule from `start_factor` to `end_factor` times the rate in `total_iters` epochs: a warm-up.

    Raises ValueError for factors outside (0, 1] and [0, 1].

    >>> import wengert as wg
    >>> opt = wg.optim.SGD([wg.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = wg.optim.lr_scheduler.LinearLR(opt, start_factor=0.5, total_iters=2)
    >>> opt.step()
    >>> schedule.step()
    >>> schedule.get_last_lr()
    [0.75]
    """

    resumes = True

    def __init__(
        self,
        optimizer: Any,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
        verbose: Any = None,
    ) -> None:
        _in_unit("start_factor", start_factor)
        _in_unit("end_factor", end_factor)
        if start_factor == 0:
            fail(RangeError, "start_factor must be above 0")
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def _next(self, lr: Any, base: Any, index: int) -> Any:
        if self.last_epoch == 0:
            return lr * self.start_factor
        if self.last_epoch > self.total_iters:
            return lr
        rise = self.end_factor - self.start_factor
        return lr * (1.0 + rise / (self.total_iters * self.start_factor + (self.last_epoch - 1) * rise))

    def _at(self, base: Any) -> Any:
        part = min(self.total_iters, self.last_epoch) / self.total_iters
        return base * (self.start_factor + (self.end_factor - self.start_factor) * part)


class ExponentialLR(_Closed):
    """A schedule that multiplies the rate by `gamma` every epoch.

    >>> import wengert as wg
    >>> opt = wg.optim.SGD([wg.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = wg.optim.lr_scheduler.ExponentialLR(opt, gamma=0.5)
    >>> for _ in range(2):
    ...     opt.step()
    ...     schedule.step()
    ...     print(schedule.get_last_lr())
    [0.5]
    [0.25]
    """

    resumes = True

    def __init__(self, optimizer: Any, gamma: float, last_epoch: int = -1, verbose: Any = None) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _next(self, lr: Any, base: Any, index: int) -> Any:
        return lr if self._is_initial else lr * self.gamma

    def _at(self, base: Any) -> Any:
        return base * self.gamma**self.last_epoch


class PolynomialLR(_Closed):
    """A schedule from the rate to 0 in `total_iters` epochs along a power of what is left of them.

    >>> import wengert as wg
    >>> opt = wg.optim.SGD([wg.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = wg.optim.lr_scheduler.PolynomialLR(opt, total_iters=4, power=2.0)
    >>> for _ in range(2):
    ...     opt.step()
    ...     schedule.step()
    ...     print(schedule.get_last_lr())
    [0.5625]
    [0.25]
    """

    resumes = True

    def __init__(
        self, optimizer: Any, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1, verbose: Any = None
    ) -> None:
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def _next(self, lr: Any, base: Any, index: int) -> Any:
        if self._is_initial or self.last_epoch > self.total_iters:
            return lr
        now, before = (1.0 - t / self.total_iters for t in (self.last_epoch, self.last_epoch - 1))
        return lr * (now / before) ** self.power

    def _at(self, base: Any) -> Any:
        return base * (1.0 - min(self.total_iters, self.last_epoch) / self.total_iters) ** self.power


class CosineAnnealingLR(_Closed):
    """A schedule from the rate to `eta_min` along half a cosine in `T_max` epochs (and back in as many more).

    Source: Loshchilov, Hutter, arXiv:1608.03983.

    >>> import wengert as wg
    >>> opt = wg.optim.SGD([wg.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = wg.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=2)
    >>> opt.step()
    >>> schedule.step()
    >>> round(schedule.get_last_lr()[0], 6)
    0.5
    """

    resumes = True

    def __init__(
        self, optimizer: Any, T_max: int, eta_min: float = 0.0, last_epoch: int = -1, verbose: Any = None
    ) -> None:
        _not_zero("T_max", T_max)
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def _next(self, lr: Any, base: Any, index: int) -> Any:
        if self._is_initial:
            return lr
        if self._step_count == 1 and self.last_epoch > 0:
            return self._at(base)
        t, period = self.last_epoch, self.T_max
        if (t - 1 - period) % (2 * period) == 0:
            # The epoch before stood at the minimum: the quotient below would be 0/0.
            return lr + (base - self.eta_min) * (1 - math.cos(math.pi / period)) / 2
        quotient = (1 + math.cos(math.pi * t / period)) / (1 + math.cos(math.pi * (t - 1) / period))
        return quotient * (lr - self.eta_min) + self.eta_min

    def _at(self, base: Any) -> Any:
        return self.eta_min + (base - self.eta_min) * (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2


class _OfSchedules(LRScheduler):
    """A schedule made of others."""

    _schedulers: list[Any]

    def _check(self, schedulers: Sequence[Any], optimizer: Any) -> None:
        name = type(self).__name__
        for i, s in enumerate(schedulers):
            if not hasattr(s, "optimizer"):
                fail(DTypeError, f"{name}: {type(s).__name__} at index {i} has no optimizer")
            if isinstance(s, ReduceLROnPlateau):
                fail(ShapeError, f"{name} does not support ReduceLROnPlateau, whose step takes a metric, at index {i}")
            if s.optimizer is not optimizer:
                fail(ShapeError, f"{name}: {type(s).__name__} at index {i} is on another optimizer")

    def state_dict(self) -> State:
        """Return the positions of the schedule and of its parts."""
        state = {k: v for k, v in self.__dict__.items() if k not in ("optimizer", "_schedulers")}
        state["_schedulers"] = [s.state_dict() for s in self._schedulers]
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take the positions of the schedule and of its parts."""
        self.__dict__.update({k: v for k, v in state_dict.items() if k != "_schedulers"})
        for s, part in zip(self._schedulers, state_dict["_schedulers"]):
            s.load_state_dict(part)


class SequentialLR(_OfSchedules):
    """A schedule made of others in sequence: the i-th gives way to the next at epoch `milestones[i]`.

    Raises ValueError for other numbers of milestones or falling ones, or a schedule of another optimiser.

    >>> import wengert as wg
    >>> from wengert.optim.lr_scheduler import ExponentialLR, LinearLR, SequentialLR
    >>> opt = wg.optim.SGD([wg.zeros(1, requires_grad=True)], lr=1.0)
    >>> parts = [LinearLR(opt, 0.5, total_iters=2), ExponentialLR(opt, 0.5)]
    >>> schedule = SequentialLR(opt, parts, milestones=[2])
    >>> rates = []
    >>> for _ in range(5):
    ...     rates += schedule.get_last_lr()
    ...     opt.step()
    ...     schedule.step()
    >>> rates
    [0.5, 0.75, 1.0, 0.5, 0.25]
    """

    def __init__(
        self,
        optimizer: Any,
        schedulers: list[Any],
        milestones: list[int],
        last_epoch: int = -1,
        verbose: Any = None,
    ) -> None:
        if len(schedulers) < 1 or len(milestones) != len(schedulers) - 1:
            fail(
                RangeError,
                f"SequentialLR of {len(schedulers)} schedules with {len(milestones)} milestones",
                "There is one milestone between each two schedules.",
            )
        if list(milestones) != sorted(milestones):
            fail(RangeError, f"milestones must not fall: {milestones}")
        self._check(schedulers, optimizer)
        self._schedulers, self._milestones = schedulers, milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        self._first_step()

    def _first_step(self) -> None:
        for group in self.optimizer.param_groups:
            give(group, "lr", group["initial_lr"])
        # The first step of each was made when it was; the one whose turn it is makes its own again.
        self.recursive_undo()
        first = self._schedulers[bisect_right(self._milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def _begin_again(self) -> None:
        for s in self._schedulers:
            s._begin_again()
        self.last_epoch = 0
        self._first_step()

    def recursive_undo(self, sched: Any = None) -> None:
        """Put all parts, and parts of parts, one epoch back."""
        s = self if sched is None else sched
        if hasattr(s, "_schedulers"):
            for part in s._schedulers:
                self.recursive_undo(part)
        elif hasattr(s, "last_epoch"):
            s.last_epoch -= 1

    def step(self) -> None:  # type: ignore[override]
        """Advance by one epoch."""
        refuse_in_trace(self)
        self.last_epoch += 1
        i = bisect_right(self._milestones, self.last_epoch)
        now = self._schedulers[i]
        if i > 0 and self._milestones[i - 1] == self.last_epoch:
            now._update_lr(0)
        else:
            now.step()
        self._last_lr = now.get_last_lr()


class ChainedScheduler(_OfSchedules):
    """A schedule made of others that all act at every step. Raises ValueError for one of another optimiser.

    >>> import wengert as wg
    >>> opt = wg.optim.SGD([wg.zeros(1, requires_grad=True)], lr=1.0)
    >>> from wengert.optim.lr_scheduler import ChainedScheduler, ConstantLR, ExponentialLR
    >>> schedule = ChainedScheduler([ConstantLR(opt, 0.5, total_iters=2), ExponentialLR(opt, 0.5)])
    >>> for _ in range(2):
    ...     opt.step()
    ...     schedule.step()
    ...     print(schedule.get_last_lr())
    [0.25]
    [0.25]
    """

    def __init__(self, schedulers: Sequence[Any], optimizer: Any = None, verbose: Any = None) -> None:
        if len(schedulers) < 1:
            fail(RangeError, "ChainedScheduler expects at least one scheduler to be chained, but got no scheduler.")
        optimizer = optimizer or schedulers[0].optimizer
        self._check(schedulers, optimizer)
        self._schedulers = schedulers  # type: ignore[assignment]
        self.optimizer = optimizer
        self._last_lr = values_of(optimizer, "lr")

    def _begin_again(self) -> None:
        for s in self._schedulers:
            s._begin_again()
        self._last_lr = values_of(self.optimizer, "lr")

    def step(self) -> None:  # type: ignore[override]
        """Advance all by one epoch."""
        for s in self._schedulers:
            s.step()
        self._last_lr = values_of(self.optimizer, "lr")


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

    Raises ValueError for another mode or a factor of 1 or more.

    >>> import wengert as wg
    >>> opt = wg.optim.SGD([wg.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = wg.optim.lr_scheduler.ReduceLROnPlateau(opt, factor=0.5, patience=0)
    >>> for loss in (1.0, 1.0, 1.0):
    ...     schedule.step(loss)
    >>> schedule.get_last_lr()
    [0.25]
    """

    def __init__(
        self,
        optimizer: Any,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: Any = 0,
        eps: float = 1e-8,
        verbose: Any = None,
    ) -> None:
        if factor >= 1.0:
            fail(RangeError, "Factor should be < 1.0.")
        if mode not in ("min", "max") or threshold_mode not in ("rel", "abs"):
            fail(RangeError, f"mode {mode!r} or threshold mode {threshold_mode!r} is unknown!")
        check_optimizer(optimizer)
        self.factor, self.optimizer = factor, optimizer
        self.default_min_lr = None if isinstance(min_lr, (list, tuple)) else min_lr
        self.min_lrs = per_group("min_lr", min_lr, optimizer)
        self.patience, self.cooldown, self.eps = patience, cooldown, eps
        self.last_epoch = 0
        self._last_lr = values_of(optimizer, "lr")
        self.mode, self.threshold, self.threshold_mode = mode, threshold, threshold_mode
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self._reset()

    def restart(self) -> None:
        """Raise GraphError: this schedule knows no initial rates."""
        fail(GraphError, "ReduceLROnPlateau.restart(): it keeps no initial rates", "Set them, and make a new schedule.")

    def _reset(self) -> None:
        self.best = self.mode_worse
        self.cooldown_counter = self.num_bad_epochs = 0

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Take the metric, a number or a tensor with one element, of another epoch."""
        refuse_in_trace(self)
        value = float(metrics.detach() if isinstance(metrics, Tensor) else metrics)
        if epoch is not None:
            warn_of_epoch()
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._is_better(value, self.best):
            self.best, self.num_bad_epochs = value, 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr(self.last_epoch)
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = values_of(self.optimizer, "lr")

    def _reduce_lr(self, epoch: int) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                fail(
                    GraphError,
                    f"{len(self.min_lrs)} values of min_lr for {len(groups)} parameter groups",
                    "A group was added since: set min_lrs.",
                )
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, least in zip(groups, self.min_lrs):
            old = float(group["lr"])
            lower = max(old * self.factor, least)
            if old - lower > self.eps:
                give(group, "lr", lower)

    @property
    def in_cooldown(self) -> bool:
        """True where a reduction was so recent that nothing is counted."""
        return self.cooldown_counter > 0

    def _is_better(self, a: float, best: float) -> bool:
        if self.mode == "min":
            return a < (best * (1.0 - self.threshold) if self.threshold_mode == "rel" else best - self.threshold)
        return a > (best * (self.threshold + 1.0) if self.threshold_mode == "rel" else best + self.threshold)


def _not_zero(name: str, value: Any) -> None:
    if value == 0:
        fail(RangeError, f"{name} must not be 0", "The rate would be divided by it at the first step.")


def _in_unit(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        fail(RangeError, f"{name} must lie in [0, 1], not {value}")
