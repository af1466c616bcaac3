"""`pad`, counted as PyTorch counts: from the last axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import wengert as wg

from ...core.errors import GraphError, ShapeError, fail
from ...core.ops.autocast import computed_in
from ...core.spec import show
from ...core.storage import leave
from ...core.tensor import Tensor, result_class
from ...ops.index.formats import with_channels_last
from ...ops.structure.shapes import int_args

# PyTorch's names of the modes, with NumPy's.
_MODES: dict[str, Literal["constant", "reflect", "edge", "wrap"]] = {
    "constant": "constant",
    "reflect": "reflect",
    "replicate": "edge",
    "circular": "wrap",
}


def pad(input: Any, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Return a tensor with elements put around it, or taken away, as PyTorch counts them: the last axis first.

    :func:`wengert.pad` counts as NumPy does.

    Parameters
    ----------
    input: any shape and dtype.
    pad: pairs of numbers in one flat sequence, (before, after) for the last axis, then for the one before it, and
        so on. A negative number takes elements away.
    mode: "constant" puts `value` (default 0), "reflect" mirrors at the border elements without repeating them,
        "replicate" repeats those, "circular" continues at the other end.

    Raises ShapeError for widths that do not fit (a mirrored one is smaller than its axis), DTypeError for a value that
    the dtype does not hold, GraphError for another mode or a value in one that takes none.

    >>> import wengert as wg
    >>> x = wg.tensor([[1, 2, 3], [4, 5, 6]])
    >>> wg.nn.functional.pad(x, (1, -1))
    tensor([[0, 1, 2],
            [0, 4, 5]])
    >>> wg.nn.functional.pad(x, (0, 2, 1, 0), mode="circular")
    tensor([[4, 5, 6, 4, 5],
            [1, 2, 3, 1, 2],
            [4, 5, 6, 4, 5]])
    """
    x = wg.asarray(input)
    if not isinstance(pad, (tuple, list)):
        fail(ShapeError, _what(x, pad), "Give pairs (before, after) in one flat tuple, the last axis first.")
    widths = int_args((tuple(pad),), "pad")
    if len(widths) % 2 or len(widths) > 2 * x.ndim:
        fail(
            ShapeError,
            _what(x, pad),
            f"Give a pair for each axis, the last first: at most {2 * x.ndim} ints.",
        )
    if mode not in _MODES:
        fail(GraphError, f"pad: there is no mode {mode!r}", f"It is one of {', '.join(_MODES)}.")
    if mode == "constant":
        if x.dtype.kind in "biu" and (value is None or "pad" in result_class((x,)).meaning.wrapping):
            value = x.dtype.type(value or 0).item()
        return with_channels_last(_padded(x, widths, mode, value), x)  # type: ignore[no-any-return]
    if value:
        fail(GraphError, f"pad: a value in mode {mode!r}", "Only the mode constant puts a value.")
    for n, before, after in zip(reversed(x.shape), widths[::2], widths[1::2]):
        most = max(before, after)
        if (mode == "reflect" and most >= max(n, 1)) or (mode == "circular" and most > n):
            fail(ShapeError, f"{_what(x, pad)}, mode {mode!r}", f"An axis has only {n} elements, which come once.")
    by_border = mode == "replicate" or (mode == "reflect" and len(widths) < 6)
    out = (_at_the_border if by_border else _padded)(x, widths, mode, None)
    # A write to the result is its own.
    if out is x:
        out = x.clone()
    leave(out)
    return out if mode == "circular" else with_channels_last(out, x)


def _what(x: Tensor, widths: Any) -> str:
    return f"pad of {show(x.shape, x.dtype)} by {widths!r}"


def _padded(x: Any, widths: Sequence[int], mode: str, value: float | None) -> Tensor:
    takes = min(widths, default=0) < 0
    if takes and mode in ("reflect", "replicate"):
        # What is put on one side may be of what is taken away on the other.
        x, widths = _padded(x, [max(w, 0) for w in widths], mode, value), [min(w, 0) for w in widths]
    pairs = [(0, 0)] * (x.ndim - len(widths) // 2) + [*zip(widths[::2], widths[1::2])][::-1]
    if takes:
        kept = []
        for n, (before, after) in zip(x.shape, pairs, strict=True):
            start, stop = max(0, -before), n - max(0, -after)
            if start > stop:
                fail(ShapeError, _what(x, widths), f"An axis of {n} elements has not so many to take away.")
            kept.append(slice(start, stop))
        x = x[tuple(kept)]
    grown = [(max(0, before), max(0, after)) for before, after in pairs]
    return wg.pad(x, grown, _MODES[mode], 0 if value is None else value)


_at_the_border = computed_in("float32", "torch")(_padded)
