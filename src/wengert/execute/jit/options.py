"""The options of `jit`, and amounts of memory as users write them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...core.errors import DTypeError, RangeError, fail

_UNITS = {"": 1, **{f"{p}B": 1000**i for i, p in enumerate(("", "k", "M", "G", "T"))}}
_UNITS |= {f"{p}iB": 1024 ** (i + 1) for i, p in enumerate(("K", "M", "G", "T"))}
_FOLDED = {name.lower(): n for name, n in _UNITS.items()}
_AMOUNT = re.compile(r"\s*(\d+(?:\.\d+)?|\.\d+)\s*([a-zA-Z]*)\s*\Z", re.ASCII)


@dataclass(frozen=True)
class Options:
    """The options of `jit`."""

    static_argnums: int | Sequence[int] | None
    static_argnames: str | Sequence[str] | None
    donate_argnums: int | Sequence[int] | None
    verify: bool
    reproducible: bool
    name: str | None
    memory: int | None = None
    spill: str = ""
    activations: str = ""
    engine: str = ""

    @property
    def native_only(self) -> str:
        """The first option here that only native code has; "" where there is none."""
        asked = {"verify=True": self.verify, "memory=": self.memory is not None, "activations=": bool(self.activations)}
        return next((name for name, said in asked.items() if said), "")


def nbytes_of(amount: Any, what: str) -> int:
    """Return an amount of memory in bytes: a whole number, or text with a unit, of powers of 1000 (MB) or 1024 (MiB).

    Raises DTypeError for anything else, RangeError for nothing and for less.

    >>> nbytes_of("1.5GiB", "memory")
    1610612736
    """
    if isinstance(amount, str):
        found = _AMOUNT.match(amount)
        unit = _FOLDED.get(found[2].lower()) if found is not None else None
        if found is None or unit is None:
            fail(DTypeError, f"{what}={amount!r} is no amount of memory", _WRITE)
        amount = round(float(found[1]) * unit)
    elif isinstance(amount, bool) or not hasattr(type(amount), "__index__"):
        fail(DTypeError, f"{what}={amount!r} is no amount of memory", _WRITE)
    if amount <= 0:
        fail(RangeError, f"{what}={amount!r} leaves no memory", _WRITE)
    return int(amount)


_WRITE = 'Write a number of bytes, or text with a unit: memory=200_000_000, memory="200MB", memory="1.5GiB".'
