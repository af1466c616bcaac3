"""Padding layers: five kinds, each for one, two and three axes."""

from __future__ import annotations

from typing import Any

from ...core.tensor import Tensor
from .. import functional as F
from ..module import Module


class _Pad(Module):
    """A layer that puts elements around the last axes.

    `padding` is one width for all sides, or (before, after) of the last axis, then of the one before it, and so on; see
    :func:`wengert.nn.functional.pad`.
    """

    padding: tuple[int, ...]
    value: float | None = None
    _axes = 1
    _how = "constant"

    def __init__(self, padding: int | tuple[int, ...]) -> None:
        super().__init__()
        self.padding = (padding,) * (2 * self._axes) if isinstance(padding, int) else tuple(padding)

    def forward(self, input: Any) -> Tensor:
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


class ConstantPad1d(_ConstantPad):
    """A layer that puts one value around the last axis.

    >>> import wengert as wg
    >>> wg.nn.ConstantPad1d(1, 0.5)(wg.ones((1, 1, 2))).shape
    (1, 1, 4)
    """

    _axes = 1


class ConstantPad2d(_ConstantPad):
    """A layer that puts one value around the last two axes.

    >>> import wengert as wg
    >>> wg.nn.ConstantPad2d(1, 0.5)(wg.ones((1, 1, 2, 2))).shape
    (1, 1, 4, 4)
    """

    _axes = 2


class ConstantPad3d(_ConstantPad):
    """A layer that puts one value around the last three axes.

    >>> import wengert as wg
    >>> wg.nn.ConstantPad3d(1, 0.5)(wg.ones((1, 1, 2, 2, 2))).shape
    (1, 1, 4, 4, 4)
    """

    _axes = 3


class ReflectionPad1d(_Pad):
    """A layer that mirrors the input around the last axis.

    >>> import wengert as wg
    >>> wg.nn.ReflectionPad1d(1)(wg.ones((1, 1, 2))).shape
    (1, 1, 4)
    """

    _axes = 1
    _how = "reflect"


class ReflectionPad2d(_Pad):
    """A layer that mirrors the input around the last two axes.

    >>> import wengert as wg
    >>> wg.nn.ReflectionPad2d(1)(wg.ones((1, 1, 2, 2))).shape
    (1, 1, 4, 4)
    """

    _axes = 2
    _how = "reflect"


class ReflectionPad3d(_Pad):
    """A layer that mirrors the input around the last three axes.

    >>> import wengert as wg
    >>> wg.nn.ReflectionPad3d(1)(wg.ones((1, 1, 2, 2, 2))).shape
    (1, 1, 4, 4, 4)
    """

    _axes = 3
    _how = "reflect"


class ReplicationPad1d(_Pad):
    """A layer that repeats border elements around the last axis.

    >>> import wengert as wg
    >>> wg.nn.ReplicationPad1d(1)(wg.ones((1, 1, 2))).shape
    (1, 1, 4)
    """

    _axes = 1
    _how = "replicate"


class ReplicationPad2d(_Pad):
    """A layer that repeats border elements around the last two axes.

    >>> import wengert as wg
    >>> wg.nn.ReplicationPad2d(1)(wg.ones((1, 1, 2, 2))).shape
    (1, 1, 4, 4)
    """

    _axes = 2
    _how = "replicate"


class ReplicationPad3d(_Pad):
    """A layer that repeats border elements around the last three axes.

    >>> import wengert as wg
    >>> wg.nn.ReplicationPad3d(1)(wg.ones((1, 1, 2, 2, 2))).shape
    (1, 1, 4, 4, 4)
    """

    _axes = 3
    _how = "replicate"


class CircularPad1d(_Pad):
    """A layer that continues at the other end around the last axis.

    >>> import wengert as wg
    >>> wg.nn.CircularPad1d(1)(wg.ones((1, 1, 2))).shape
    (1, 1, 4)
    """

    _axes = 1
    _how = "circular"


class CircularPad2d(_Pad):
    """A layer that continues at the other end around the last two axes.

    >>> import wengert as wg
    >>> wg.nn.CircularPad2d(1)(wg.ones((1, 1, 2, 2))).shape
    (1, 1, 4, 4)
    """

    _axes = 2
    _how = "circular"


class CircularPad3d(_Pad):
    """A layer that continues at the other end around the last three axes.

    >>> import wengert as wg
    >>> wg.nn.CircularPad3d(1)(wg.ones((1, 1, 2, 2, 2))).shape
    (1, 1, 4, 4, 4)
    """

    _axes = 3
    _how = "circular"


class ZeroPad1d(_Pad):
    """A layer that puts zeros around the last axis.

    >>> import wengert as wg
    >>> wg.nn.ZeroPad1d(1)(wg.ones((1, 1, 2))).shape
    (1, 1, 4)
    """

    _axes = 1
    value = 0.0


class ZeroPad2d(_Pad):
    """A layer that puts zeros around the last two axes.

    >>> import wengert as wg
    >>> wg.nn.ZeroPad2d(1)(wg.ones((1, 1, 2, 2))).shape
    (1, 1, 4, 4)
    """

    _axes = 2
    value = 0.0


class ZeroPad3d(_Pad):
    """A layer that puts zeros around the last three axes.

    >>> import wengert as wg
    >>> wg.nn.ZeroPad3d(1)(wg.ones((1, 1, 2, 2, 2))).shape
    (1, 1, 4, 4, 4)
    """

    _axes = 3
    value = 0.0
