"""The scaling of losses, without which small gradients of float16 would be zeros.

The smallest positive number of float16 is 6e-8. A loss multiplied by a large number has gradients that are as much
larger; they are divided by it before the optimiser sees them. The number is found while training: it is halved where
gradients overflow, in a step that is then left out, and doubled after many that did not (Micikevicius et al. 2018,
"Mixed precision training", section 3.2).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import all as all_of
from .. import isfinite, logical_not, logical_or, where
from ..core import tree
from ..core.errors import DTypeError, GradientError, RangeError, StateError, fail
from ..core.mode import no_grad
from ..core.ops.autocast import is_half
from ..core.spec import float32, int32
from ..core.tensor import Tensor, wrap
from ..ops.index.inplace import set_gradient
from .optimizer import Optimizer


class GradScaler:
    """A scale of the loss, and the steps of optimisers that leave out what overflowed.

    Parameters
    ----------
    init_scale: the first scale.
    growth_factor: what the scale is multiplied by after `growth_interval` steps in a row whose gradients were finite.
    backoff_factor: what it is multiplied by where a gradient is infinite or NaN.
    growth_interval: the number of such steps.
    enabled: False leaves losses and gradients as they are, and `step` is the optimiser's.

    In a step call `scale(loss).backward()`, then `step(optimizer)`, then `update()`; before the clipping of gradients,
    or any look at them, `unscale_(optimizer)`. Scale and count are tensors, and in a compiled step parameters and
    buffers are selected: there is one program, whatever overflows. bfloat16 has the range of float32 and needs none.

    Raises RangeError for factors that do not grow and back off.

    >>> import wengert as wg
    >>> w = wg.ones(2, requires_grad=True)
    >>> optimizer, scaler = wg.optim.SGD([w], lr=0.25), wg.train.GradScaler(init_scale=1024.0)
    >>> with wg.autocast("float16"):
    ...     loss = (w @ wg.tensor([1e-5, 1.0])) ** 2
    >>> scaler.scale(loss).backward()
    >>> scaler.step(optimizer)
    >>> scaler.update()
    >>> w, scaler.get_scale()
    (tensor([1. , 0.5], requires_grad=True), 1024.0)
    """

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        if not (growth_factor > 1.0 and 0.0 < backoff_factor < 1.0):
            fail(
                RangeError,
                f"GradScaler with growth_factor={growth_factor} and backoff_factor={backoff_factor}",
                "The one is above 1, the other between 0 and 1.",
            )
        self._enabled = bool(enabled)
        self._growth_factor, self._backoff_factor = float(growth_factor), float(backoff_factor)
        self._growth_interval = int(growth_interval)
        self._scale = wrap(np.asarray(init_scale, float32))
        self._good_steps = wrap(np.asarray(0, int32))
        # Whether gradients overflowed, of each optimiser since the last update; and which of them has made its step.
        self._overflowed: dict[Optimizer, Tensor] = {}
        self._stepped: list[Optimizer] = []

    # -- a step

    def scale(self, outputs: Any) -> Any:
        """Return a loss, or a pytree of losses, multiplied by the scale. Raises DTypeError for what is no tensor."""
        if not self._enabled:
            return outputs
        return tree.map(self._scaled, outputs)

    def _scaled(self, loss: Any) -> Tensor:
        if not isinstance(loss, Tensor):
            fail(DTypeError, f"scale of a {type(loss).__name__}", "It takes a loss, or a list of them.")
        return loss * self._scale

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the gradients of an optimiser's parameters by the scale, and note whether all are finite.

        `step` does so where it has not been done. Raises GradientError where it has been since the last `update`,
        and for a gradient in half precision: parameters are to be float32.
        """
        if not self._enabled:
            return
        if optimizer in self._overflowed:
            fail(
                GradientError,
                "unscale_() of gradients that are unscaled, or after step()",
                "Call it once for an optimiser between two calls of update().",
            )
        inverse = 1.0 / self._scale
        finite: Tensor | None = None
        with no_grad():
            for group in optimizer.param_groups:
                for p in group["params"]:
                    if p.grad is None:
                        continue
                    if is_half(p.grad.dtype):
                        fail(
                            GradientError,
                            f"unscale_() of a gradient in half precision, {p.grad.spec}",
                            "Keep parameters in float32: wg.autocast converts them where they are used.",
                        )
                    set_gradient(p, p.grad * inverse)
                    is_finite = all_of(isfinite(p.grad))
                    finite = is_finite if finite is None else finite & is_finite
        if finite is None:
            fail(GradientError, "unscale_() of parameters that have no gradients", "Call backward() first.")
        self._overflowed[optimizer] = logical_not(finite)

    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
        """Make an optimiser's step, unless gradients overflowed; unscale them first where that is not done.

        Returns what `optimizer.step(*args, **kwargs)` gives, None for a step that was left out or is compiled.
        Raises GradientError for a second step before `update()`, and for a closure.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if args or kwargs:
            fail(GradientError, "a step by a closure with a GradScaler", "Compute loss and gradients before the step.")
        if optimizer in self._stepped:
            fail(GradientError, "step() twice before update()", "Call update() at the end of each step.")
        if optimizer not in self._overflowed:
            self.unscale_(optimizer)
        self._stepped.append(optimizer)
        return optimizer.step_unless(self._overflowed[optimizer])

    def overflowed(self, optimizer: Optimizer) -> Tensor:
        """Return whether gradients of an optimiser's parameters overflowed, as its step leaves them out.

        Raises GradientError where they have not been unscaled since the last `update()`.
        """
        if optimizer not in self._overflowed:
            fail(GradientError, "overflowed() of gradients that are not unscaled", "Call unscale_() or step() first.")
        return self._overflowed[optimizer]

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Choose the scale of the next step: smaller after an overflow, larger after many steps without one.

        `new_scale` sets it. Raises GradientError where no gradients were looked at since the last call.
        """
        if not self._enabled:
            return
        with no_grad():
            if new_scale is not None:
                given = new_scale.detach() if isinstance(new_scale, Tensor) else new_scale
                self._scale.assign_(given * wrap(np.ones((), float32)))
            else:
                self._adapt()
        self._overflowed.clear()
        self._stepped.clear()

    def _adapt(self) -> None:
        flags = list(self._overflowed.values())
        if not flags:
            fail(GradientError, "update() before step()", "There are no gradients that the scale could go by.")
        overflowed = flags[0]
        for flag in flags[1:]:
            overflowed = logical_or(overflowed, flag)
        good = self._good_steps + 1
        is_time = good == self._growth_interval
        grown = self._scale * self._growth_factor
        larger = where(is_time & isfinite(grown), grown, self._scale)
        self._scale.assign_(where(overflowed, self._scale * self._backoff_factor, larger))
        self._good_steps.assign_(where(overflowed | is_time, self._good_steps * 0, good))

    # -- what it is

    def is_enabled(self) -> bool:
        """Return whether it scales at all."""
        return self._enabled

    def get_scale(self) -> float:
        """Return the scale as a number; 1 where it is not enabled."""
        return float(self._scale.item()) if self._enabled else 1.0

    def get_growth_factor(self) -> float:
        """Return the factor by which the scale grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set the factor by which the scale grows."""
        self._growth_factor = float(new_factor)

    def get_backoff_factor(self) -> float:
        """Return the factor of the scale after an overflow."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set the factor of the scale after an overflow."""
        self._backoff_factor = float(new_factor)

    def get_growth_interval(self) -> int:
        """Return the number of steps without overflow after which the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set the number of steps without overflow after which the scale grows."""
        self._growth_interval = int(new_interval)

    def state_dict(self) -> dict[str, Any]:
        """Return scale, factors and the count of steps since the scale changed, as numbers, under PyTorch's names.

        Empty where it is not enabled. :func:`wengert.train.save_checkpoint` takes the scaler itself.
        """
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": int(self._good_steps.item()),
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take the state that :meth:`state_dict` gave. Raises StateError for that of one that was not enabled."""
        if not self._enabled:
            return
        missing = [name for name in self.state_dict() if name not in state_dict]
        if missing:
            fail(
                StateError,
                f"the state of a GradScaler without {', '.join(missing)}",
                "It is empty where the scaler was not enabled when it was saved.",
            )
        self._scale = wrap(np.asarray(float(state_dict["scale"]), float32))
        self._good_steps = wrap(np.asarray(int(state_dict["_growth_tracker"]), int32))
        self._growth_factor = float(state_dict["growth_factor"])
        self._backoff_factor = float(state_dict["backoff_factor"])
        self._growth_interval = int(state_dict["growth_interval"])
