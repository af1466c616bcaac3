"""`pad`, counted as PyTorch counts: from the last axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....core.errors import ShapeError, fail
from ....core.ops.autocast import computed_in
from ....core.tensor import Tensor
from ....nn import functional as plain
from ...functions.shaping import own
from ...tensor import with_channels_last

__all__ = ["pad"]


def pad(input: Any, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Return a tensor with elements put around it, or taken away where a width is negative.

    Parameters
    ----------
    pad: widths (before, after) of the last axis, then of the one before it, and so on.
    mode: "constant" puts `value` (0), "reflect" mirrors at the border elements without repeating them, "replicate"
        repeats those, "circular" continues at the other end.

    Raises ShapeError for widths that do not fit, GraphError for another mode.

    >>> import wengert.torch as torch
    >>> torch.nn.functional.pad(torch.tensor([[1, 2, 3]]), (1, 1), mode="circular")
    tensor([[3, 1, 2, 3, 1]])
    """
    widths = [int(w) for w in pad]
    if mode == "constant" and input.dtype.kind in "biu":
        value = input.dtype.type(value or 0).item()
    pairs = list(zip(widths[::2], widths[1::2]))
    sizes = list(input.shape)[::-1]
    for n, (before, after) in zip(sizes, pairs):
        most = max(before, after)
        if (mode == "reflect" and most >= max(n, 1)) or (mode == "circular" and most > n):
            fail(
                ShapeError,
                f"pad of {tuple(input.shape)} by {tuple(widths)}, mode {mode!r}",
                "A width must be less than the axis' size (reflect), at most that size (circular).",
            )
    if mode == "replicate" or (mode == "reflect" and len(pairs) < 3):
        out = _at_the_border(input, widths, mode)
    else:
        out = _padded(input, widths, mode, value)
    out = own(out, input) if mode != "constant" else out
    return out if mode == "circular" else with_channels_last(out, input)


@computed_in("float32", "torch")
def _at_the_border(input: Any, widths: list[int], mode: str) -> Tensor:
    return _padded(input, widths, mode, None)


def _padded(input: Any, widths: list[int], mode: str, value: float | None) -> Tensor:
    if mode not in ("reflect", "replicate") or min(widths, default=0) >= 0 or len(widths) > 2 * input.ndim:
        return plain.pad(input, widths, mode, value)
    # What is put on one side may be of what is taken away on the other.
    grown = plain.pad(input, [max(w, 0) for w in widths], mode, value)
    return plain.pad(grown, [min(w, 0) for w in widths])
