"""Averages of a model's parameters over training: of equal weights (SWA), or exponentially decaying ones (EMA)."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from ...core.errors import GraphError, RangeError, fail
from ...core.mode import no_grad
from ...core.spec import category
from ...core.tensor import asarray
from ...nn.layers.norm import BatchNorm
from ...optim.lr_scheduler.schedule import LRScheduler, State, check_optimizer, per_group
from ..absent import names_of
from ..nn.module import Module
from ..tensor import on_cpu

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]


def get_ema_avg_fn(decay: float = 0.999) -> Callable[[Any, Any, Any], Any]:
    """Return the function of an average, a present value and a count that gives the exponentially decaying average.

    Raises ValueError for a `decay` outside [0, 1].
    """
    _check_decay(decay)

    def ema_update(ema_param: Any, current_param: Any, num_averaged: Any) -> Any:
        with no_grad():
            return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn() -> Callable[[Any, Any, Any], Any]:
    """Return the function of an average, a present value and a count that gives the average of equal weights."""

    def swa_update(averaged_param: Any, current_param: Any, num_averaged: Any) -> Any:
        with no_grad():
            return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[[Any, Any, Any], None]:
    """Return the function that gives a list of averages the exponentially decaying ones; see :func:`get_ema_avg_fn`."""
    return _for_lists(get_ema_avg_fn(decay), "ema_update")


def get_swa_multi_avg_fn() -> Callable[[Any, Any, Any], None]:
    """Return the function that gives a list of averages those of equal weights; see :func:`get_swa_avg_fn`."""
    return _for_lists(get_swa_avg_fn(), "swa_update")


def _for_lists(average: Callable[[Any, Any, Any], Any], name: str) -> Callable[[Any, Any, Any], None]:
    def update(averaged_params: Any, current_params: Any, num_averaged: Any) -> None:
        with no_grad():
            for averaged, current in zip(averaged_params, current_params, strict=True):
                averaged.copy_(average(averaged, current, num_averaged))

    update.__name__ = name
    return update


def _check_decay(decay: float) -> None:
    if not 0.0 <= decay <= 1.0:
        fail(RangeError, f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


class AveragedModel(Module):
    """A copy of a model whose parameters are averages of the model's, renewed by `update_parameters(model)`.

    Parameters
    ----------
    model: the model; it is copied.
    device: taken; the processor.
    avg_fn: a function of an average, a present value and the count of values that gives the new average; None: of
        equal weights.
    multi_avg_fn: such a function of lists, which it writes to, in its place.
    use_buffers: average buffers too, in place of taking over the present ones.

    >>> import wengert.torch as torch
    >>> from wengert.torch.optim.swa_utils import AveragedModel
    >>> model = torch.nn.Linear(1, 1, bias=False)
    >>> averaged = AveragedModel(model)
    >>> for value in (1.0, 2.0, 6.0):
    ...     _ = torch.nn.init.constant_(model.weight, value)
    ...     averaged.update_parameters(model)
    >>> averaged.module.weight.item()
    3.0
    """

    n_averaged: Any

    def __init__(
        self,
        model: Any,
        device: Any = None,
        avg_fn: Callable[[Any, Any, Any], Any] | None = None,
        multi_avg_fn: Callable[[Any, Any, Any], None] | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            fail(GraphError, "Only one of avg_fn and multi_avg_fn should be provided")
        on_cpu(device)
        self.module = copy.deepcopy(model)
        self.register_buffer("n_averaged", asarray(np.zeros((), np.int64)))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the averaged model gives."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Any) -> None:
        """Let the present values of a model enter the averages."""
        with no_grad():
            averaged, present = list(self.module.parameters()), list(model.parameters())
            buffers, new_buffers = list(self.module.buffers()), list(model.buffers())
            if self.use_buffers:
                averaged, present = averaged + buffers, present + new_buffers
            pairs = [(a.data, p.detach()) for a, p in zip(averaged, present)]
            if int(self.n_averaged) == 0:
                for a, p in pairs:
                    a.copy_(p)
            elif self.multi_avg_fn is not None:
                # Functions of lists may ask the first element for the dtype of all.
                for dtype in dict.fromkeys(a.dtype for a, _ in pairs):
                    same = [(a, p) for a, p in pairs if a.dtype == dtype]
                    self.multi_avg_fn([a for a, _ in same], [p for _, p in same], self.n_averaged)
            else:
                average = self.avg_fn or get_swa_avg_fn()
                for a, p in pairs:
                    new = average(a, p, self.n_averaged)
                    a.copy_(new if category(new.dtype) <= category(a.dtype) else new.astype(a.dtype))
            if not self.use_buffers:
                for b, new in zip(buffers, new_buffers):
                    b.data.copy_(new.detach())
            self.n_averaged += 1


def update_bn(loader: Iterable[Any], model: Any, device: Any = None) -> None:
    """Give the batch norms of a model the means and variances that its parameters make of a loader's inputs.

    `loader` gives inputs, or lists whose first element is the input.
    """
    on_cpu(device)
    norms = [m for m in model.modules() if isinstance(m, BatchNorm)]
    if not norms:
        return
    with no_grad():
        momenta, was_training = [m.momentum for m in norms], model.training
        for m in norms:
            m.reset_running_stats()
            m.momentum = None
        try:
            model.train()
            for given in loader:
                model(given[0] if isinstance(given, (list, tuple)) else given)
        finally:
            for m, momentum in zip(norms, momenta):
                m.momentum = momentum
            model.train(was_training)


class SWALR(LRScheduler):
    """A schedule from the present rate to `swa_lr` in `anneal_epochs` epochs, where it stays.

    `anneal_strategy` is "cos" or "linear". Raises ValueError for another one, or a negative number of epochs.

    >>> import wengert.torch as torch
    >>> opt = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = torch.optim.swa_utils.SWALR(opt, swa_lr=0.5, anneal_epochs=2, anneal_strategy="linear")
    >>> for _ in range(2):
    ...     opt.step()
    ...     schedule.step()
    ...     print(schedule.get_last_lr())
    [0.75]
    [0.5]
    """

    def __init__(
        self,
        optimizer: Any,
        swa_lr: Any,
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        for group, lr in zip(optimizer.param_groups, per_group("swa_lr", swa_lr, optimizer)):
            group["swa_lr"] = lr
        if anneal_strategy not in ("cos", "linear"):
            fail(RangeError, f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            fail(RangeError, f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self._anneal_strategy, self.anneal_epochs = anneal_strategy, anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _share(self, step: float) -> float:
        """Return the share of `swa_lr` in the rate after so many steps."""
        t = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return t if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * t)) / 2

    def _next(self, lr: Any, base: Any, index: int) -> Any:
        step = self._step_count - 1
        step = max(1, step) if self.anneal_epochs == 0 else step
        final = self.optimizer.param_groups[index]["swa_lr"]
        before, now = self._share(step - 1), self._share(step)
        first = final if before == 1 else (lr - before * final) / (1 - before)
        return final * now + first * (1 - now)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take position and options from a result of `state_dict()`, of this or of PyTorch's schedule."""
        state: State = {k: v for k, v in state_dict.items() if k != "anneal_func"}
        super().load_state_dict(state)


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
