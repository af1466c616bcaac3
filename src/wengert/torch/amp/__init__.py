"""Mixed precision under PyTorch's path: `torch.amp`. It is for GPUs here, and without one is off, as PyTorch has it.

>>> import wengert.torch as torch
>>> torch.amp.GradScaler(enabled=False).is_enabled()
False
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from contextlib import ContextDecorator
from typing import Any

from ...core.errors import GraphError, fail


class autocast(ContextDecorator):
    """A context, or a decorator, in which PyTorch computes in less precision.

    For "cuda" it warns and has no effect, as PyTorch's without a GPU. For "cpu" it raises GraphError where it is
    enabled: numbers would be others than PyTorch's. Convert models and inputs yourself, `model.to(torch.bfloat16)`.
    """

    def __init__(
        self, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        kind = str(device_type).partition(":")[0]
        if enabled and kind == "cpu":
            fail(
                GraphError,
                'autocast("cpu")',
                "Operations compute in the dtype of their operands; wg.autocast comes later. Pass enabled=False, or "
                "convert the model and its inputs with .to(torch.bfloat16).",
            )
        if enabled:
            text = f"User provided device_type of {kind!r}, but it is not available. Disabling"
            warnings.warn(text, UserWarning, stacklevel=2)
        self.device, self.fast_dtype, self.enabled = kind, dtype, False

    def __enter__(self) -> autocast:
        return self

    def __exit__(self, *exc: object) -> None:
        pass


class GradScaler:
    """The scaling of losses for gradients in less precision, which is off: there is no GPU that would need it.

    `scale` gives the loss as it is, `step` calls the optimiser's. Enabled for "cuda" it warns, as PyTorch's; enabled
    for "cpu" it raises GraphError.
    """

    def __init__(
        self,
        device: Any = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        if enabled and str(device).startswith("cpu"):
            fail(GraphError, 'GradScaler("cpu")', "Gradients in float32 need no scaling: pass enabled=False.")
        if enabled:
            warnings.warn("GradScaler is enabled, but CUDA is not available.  Disabling.", stacklevel=2)
        self._growth = {"factor": growth_factor, "backoff": backoff_factor, "interval": growth_interval}

    def scale(self, outputs: Any) -> Any:
        """Return the loss, or the losses, as they are."""
        return outputs

    def unscale_(self, optimizer: Any) -> None:
        """Do nothing: gradients are not scaled."""

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Call the optimiser's `step`, and return what it gives."""
        return optimizer.step(*args, **kwargs)

    def update(self, new_scale: Any = None) -> None:
        """Do nothing: there is no scale."""

    def is_enabled(self) -> bool:
        """Return False."""
        return False

    def get_scale(self) -> float:
        """Return 1."""
        return 1.0

    def get_growth_factor(self) -> float:
        """Return the factor that was given."""
        return float(self._growth["factor"])

    def set_growth_factor(self, new_factor: float) -> None:
        """Take another factor."""
        self._growth["factor"] = new_factor

    def get_backoff_factor(self) -> float:
        """Return the factor that was given."""
        return float(self._growth["backoff"])

    def set_backoff_factor(self, new_factor: float) -> None:
        """Take another factor."""
        self._growth["backoff"] = new_factor

    def get_growth_interval(self) -> int:
        """Return the number of steps that was given."""
        return int(self._growth["interval"])

    def set_growth_interval(self, new_interval: int) -> None:
        """Take another number of steps."""
        self._growth["interval"] = new_interval

    def state_dict(self) -> dict[str, Any]:
        """Return an empty dict, as PyTorch's does where it is off."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Do nothing."""


def is_autocast_available(device_type: str) -> bool:
    """Return False: see :class:`autocast`."""
    return False


def custom_fwd(fwd: Callable[..., Any] | None = None, *, device_type: str = "cuda", cast_inputs: Any = None) -> Any:
    """Return the `forward` of a custom function as it is, also as a decorator with options."""
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)
    return fwd


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str = "cuda") -> Any:
    """Return the `backward` of a custom function as it is, also as a decorator with options."""
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)
    return bwd


__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]


def __dir__() -> list[str]:
    return sorted(__all__)
