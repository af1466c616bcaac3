"""Padding layers: five kinds for one, two and three axes."""

from __future__ import annotations

from typing import Any

from .. import functional as F
from ..module import Module

_KINDS = {"Constant": "constant", "Reflection": "reflect", "Replication": "replicate", "Circular": "circular"}

__all__ = [f"{kind}Pad{n}d" for kind in (*_KINDS, "Zero") for n in (1, 2, 3)]


class _Pad(Module):
    """A layer that puts elements around the last axes."""

    padding: tuple[int, ...]
    value: float | None = None
    _axes = 1
    _how = "constant"

    def __init__(self, padding: int | tuple[int, ...]) -> None:
        Module.__init__(self)
        self.padding = (padding,) * (2 * self._axes) if isinstance(padding, int) else tuple(padding)

    def forward(self, input: Any) -> Any:
        """Return the input with elements around its last axes. Raises ShapeError for widths that do not fit."""
        return F.pad(input, self.padding, self._how, self.value)

    def extra_repr(self) -> str:
        """Return the widths for `repr`."""
        return str(self.padding)


class _ConstantPad(_Pad):
    """A layer that puts one value around the last axes."""

    def __init__(self, padding: int | tuple[int, ...], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def extra_repr(self) -> str:
        """Return the widths and the value for `repr`."""
        return f"padding={self.padding}, value={self.value}"


def _family(kind: str, axes: int) -> Any:
    mode = _KINDS.get(kind, "constant")
    doc = f"""A layer that pads the last {axes} {"axis" if axes == 1 else "axes"}, mode {mode!r}.

    `padding` is one width for all sides, or (before, after) of the last axis, then of the one before it, and so on;
    see :func:`wengert.torch.nn.functional.pad`.
    """
    members: dict[str, Any] = {"__doc__": doc, "__module__": __name__, "_axes": axes, "_how": mode}
    if kind == "Zero":
        members["value"] = 0.0
    return type(f"{kind}Pad{axes}d", (_ConstantPad if kind == "Constant" else _Pad,), members)


globals().update({f"{kind}Pad{n}d": _family(kind, n) for kind in (*_KINDS, "Zero") for n in (1, 2, 3)})
