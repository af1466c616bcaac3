"""The precision in which a training loop computes, by the names that loops of the field have for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.errors import DTypeError, fail
from ..core.mode import ModeBlock
from ..core.ops.autocast import autocast
from ..optim.grad_scaler import GradScaler

# What Lightning and Accelerate call them, and the dtypes' own names.
_HALF = {
    "bf16-mixed": "bfloat16",
    "bf16": "bfloat16",
    "bfloat16": "bfloat16",
    "16-mixed": "float16",
    "fp16": "float16",
    "float16": "float16",
}
_WHOLE = ("32-true", "32", "no", "float32")
_CONVERTED = {"bf16-true": "bfloat16", "16-true": "float16", "64-true": "float64", "64": "float64"}


class Precision:
    """The precision of a loop's steps: an autocast for outputs and losses, and a scaler of the loss, or neither.

    `name` is the lower dtype, None where all is computed in the precision of its operands. With float16 there is a
    scaler, unless one is given.
    """

    def __init__(self, precision: Any = None, scaler: Any = None) -> None:
        self._block, self.name = _block(precision)
        if scaler is not None and not isinstance(scaler, GradScaler):
            mend = "It is a wg.train.GradScaler, or torch.amp.GradScaler of wengert.torch."
            fail(DTypeError, f"a scaler that is a {type(scaler).__name__}", mend)
        if scaler is None and self.name == "float16":
            scaler = GradScaler()
        # One that is not enabled does nothing.
        self.scaler: GradScaler | None = scaler if scaler is not None and scaler.is_enabled() else None

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that computes in this precision."""
        return fn if self._block is None else self._block(fn)

    def __str__(self) -> str:
        return (self.name or "float32") + ("" if self.scaler is None else " with a scaler")

    def left_out(self) -> None:
        """Take note of a step that is not made after its gradients were unscaled."""
        if self.scaler is not None:
            self.scaler.update()

    def will_back_off(self) -> bool:
        """Return whether a smaller scale may be all that gradients need to be finite."""
        return self.scaler is not None and self.scaler.get_scale() > 1.0


def _block(precision: Any) -> tuple[ModeBlock | None, str | None]:
    """Return the autocast that is meant, and the name of its dtype. Raises DTypeError."""
    # wg.autocast, or PyTorch's with its own list of what is computed in which precision.
    if isinstance(precision, ModeBlock) and hasattr(precision, "dtype_name"):
        return precision, precision.dtype_name
    name = str(getattr(precision, "name", precision))
    if precision is None or name in _WHOLE:
        return None, None
    if name in _CONVERTED:
        fail(
            DTypeError,
            f"precision={precision!r}, parameters in {_CONVERTED[name]}",
            f'Convert the model before its optimiser is made: model.to("{_CONVERTED[name]}").',
        )
    if name not in _HALF:
        known = ", ".join(map(repr, (*_HALF, *_WHOLE)))
        fail(DTypeError, f"precision={precision!r}", f"It is an autocast, None, or one of {known}.")
    return autocast(_HALF[name]), _HALF[name]
