"""`LRScheduler`, the base of the schedules, and the helpers that they share."""

from __future__ import annotations

import types
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

from ...core.errors import DTypeError, RangeError, fail
from ...core.tensor import Tensor
from ..optimizer import Group, Optimizer, refuse_in_trace

State = dict[str, Any]


class LRScheduler:
    """The base of the schedules: a subclass defines `get_lr()`, which gives the rates of the groups.

    `last_epoch` counts the steps from 0 (the schedule's making); other than -1 in the constructor it is where a
    schedule is taken up again, and the groups have to have their `initial_lr`. `verbose` is taken; nothing is
    printed.

    Raises TypeError for an `optimizer` that is none, KeyError for groups without `initial_lr`.

    >>> import wengert as wg
    >>> class Halving(wg.optim.lr_scheduler.LRScheduler):
    ...     def get_lr(self):
    ...         return [base * 0.5**self.last_epoch for base in self.base_lrs]
    >>> opt = wg.optim.SGD([wg.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = Halving(opt)
    >>> opt.step(), schedule.step()
    (None, None)
    >>> schedule.get_last_lr()
    [0.5]
    """

    # Whether a schedule that is taken up again leaves the rate as it finds it.
    resumes = False
    _get_lr_called_within_step = False
    _is_initial = False

    def __init__(self, optimizer: Any, last_epoch: int = -1, verbose: Any = None) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", _own(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(f"param 'initial_lr' is not specified in param_groups[{i}] when resuming an optimizer")
        self.base_lrs = values_of(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def restart(self) -> None:
        """Begin again at epoch 0, from the initial rates. PyTorch's schedules cannot."""
        refuse_in_trace(self)
        for group in self.optimizer.param_groups:
            give(group, "lr", group.get("initial_lr", group["lr"]))
        self._begin_again()

    def _begin_again(self) -> None:
        """Make the first step again, from the present rates."""
        self.last_epoch = -1
        self._initial_step()

    def get_lr(self) -> list[Any]:
        """Return the rates at `last_epoch`. :meth:`get_last_lr` is the one to call."""
        self._warn_if_called()
        groups = self.optimizer.param_groups
        if self._is_initial and self.resumes and self.last_epoch != 0:
            return values_of(self.optimizer, "lr")
        return [self._next(group["lr"], group.get("initial_lr"), i) for i, group in enumerate(groups)]

    def _next(self, lr: Any, base: Any, index: int) -> Any:
        """Return a group's rate from the present one, the initial one, and the group's number."""
        raise NotImplementedError(f"{type(self).__name__} defines no get_lr()")

    def _warn_if_called(self) -> None:
        if not self._get_lr_called_within_step:
            warnings.warn("To get the last learning rate computed by the scheduler, use `get_last_lr()`.", stacklevel=3)

    def get_last_lr(self) -> list[Any]:
        """Return the rates that were set last."""
        return self._last_lr

    def step(self, epoch: int | None = None) -> None:
        """Advance by one epoch, or go to `epoch` by the closed form. Raises TraceError in a compiled function."""
        refuse_in_trace(self)
        if self._step_count == 1 and not getattr(self.optimizer, "_opt_called", True):
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`: the first rate of the schedule is "
                "never used. Call `optimizer.step()` first. See "
                "https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate",
                stacklevel=2,
            )
        self._step_count += 1
        if epoch is not None:
            warn_of_epoch()
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        self._get_lr_called_within_step = True
        try:
            self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
            closed = getattr(self, "_get_closed_form_lr", None)
            rates = self.get_lr() if epoch is None or closed is None else closed()
        finally:
            self._get_lr_called_within_step = False
        self._set(rates)

    def _set(self, rates: Iterable[Any]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates):
            give(group, "lr", rate)
        self._last_lr = values_of(self.optimizer, "lr")

    def state_dict(self) -> State:
        """Return the position and the options."""
        return {k: v for k, v in self.__dict__.items() if k != "optimizer"}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take position and options from a result of :meth:`state_dict`, of this or of PyTorch's schedule."""
        self.__dict__.update(state_dict)


def check_optimizer(optimizer: Any) -> None:
    """Raise TypeError for what is no optimiser."""
    if not isinstance(optimizer, Optimizer):
        fail(DTypeError, f"{type(optimizer).__name__} is not an Optimizer")


def warn_of_epoch() -> None:
    """Warn of a step to an epoch."""
    warnings.warn("`scheduler.step(epoch)` is deprecated: call `scheduler.step()` after every epoch.", stacklevel=3)


def per_group(name: str, value: Any, optimizer: Any) -> list[Any]:
    """Return a value for each group: one for all, or a list of them. Raises ValueError for another number."""
    count = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [value] * count
    if len(value) != count:
        fail(RangeError, f"{name} must have the same length as optimizer.param_groups: {len(value)}, not {count}")
    return list(value)


def attributes_of(f: Any) -> State | None:
    """Return the attributes of a function that is an object; None of others."""
    return None if isinstance(f, types.FunctionType) else f.__dict__.copy()


def _own(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, Tensor) else value


def values_of(optimizer: Any, name: str) -> list[Any]:
    """Return an option of all groups, tensors as copies."""
    return [_own(group[name]) for group in optimizer.param_groups]


def give(group: Group, name: str, value: Any) -> None:
    """Give an option a value; a tensor stays the tensor it is."""
    if isinstance(group[name], Tensor):
        group[name].fill_(float(value))
    else:
        group[name] = float(value) if isinstance(value, Tensor) else value
