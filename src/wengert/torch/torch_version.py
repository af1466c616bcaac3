"""`torch.torch_version`: versions that compare by their numbers."""

from __future__ import annotations

import re
from typing import Any

from .absent import names_of


class TorchVersion(str):
    """A version that compares by its numbers, also with a plain string or a tuple.

    >>> from wengert.torch.torch_version import TorchVersion
    >>> TorchVersion("2.13.0") >= "2.2", TorchVersion("2.13.0") < (3, 0)
    (True, True)
    """

    __slots__ = ()

    def _numbers(self, other: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
        given = other if isinstance(other, (tuple, list)) else re.findall(r"\d+", str(other).partition("+")[0])
        own = [int(n) for n in re.findall(r"\d+", str(self).partition("+")[0])]
        theirs = [int(n) for n in given]
        size = max(len(own), len(theirs))
        first = tuple(own + [0] * (size - len(own)))
        return first, tuple(theirs + [0] * (size - len(theirs)))

    def __lt__(self, other: Any) -> bool:
        a, b = self._numbers(other)
        return a < b

    def __le__(self, other: Any) -> bool:
        a, b = self._numbers(other)
        return a <= b

    def __gt__(self, other: Any) -> bool:
        a, b = self._numbers(other)
        return a > b

    def __ge__(self, other: Any) -> bool:
        a, b = self._numbers(other)
        return a >= b

    def __eq__(self, other: object) -> bool:
        return str(self) == other if isinstance(other, str) else self._numbers(other)[0] == self._numbers(other)[1]

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


__all__ = ["TorchVersion"]


__getattr__ = names_of(__name__)
