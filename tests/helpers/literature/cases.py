"""Cases: functions of an array namespace and one array, with seeded points and data."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

POINTS = 2  # points at which each case is compared


class Draws:
    """A source of numbers from a bit generator's raw stream, which NumPy promises never to change (NEP 19)."""

    def __init__(self, name: str) -> None:
        self._bits = np.random.PCG64(zlib.crc32(name.encode()))

    def uniform(self, low: float, high: float, *shape: int) -> Any:
        count = int(np.prod(shape, dtype=np.int64))
        unit = (np.asarray(self._bits.random_raw(count), np.uint64) >> np.uint64(11)).astype(np.float64) * 2.0**-53
        return low + (high - low) * unit.reshape(shape)

    def normal(self, *shape: int) -> Any:
        """Return standard normal numbers by Box and Muller's transform."""
        radius = np.sqrt(-2.0 * np.log1p(-self.uniform(0.0, 1.0, *shape)))
        return radius * np.cos(2.0 * np.pi * self.uniform(0.0, 1.0, *shape))

    def integers(self, high: int, *shape: int) -> Any:
        return np.floor(self.uniform(0.0, high, *shape)).astype(np.int64)


@dataclass(frozen=True)
class Case:
    name: str
    field: str
    source: str
    function: Callable[..., Any]
    start: Callable[[Draws], Any]
    data: Callable[[Draws], Mapping[str, Any]]

    def points(self) -> list[Any]:
        draws = Draws(f"{self.name} points")
        return [np.asarray(self.start(draws), np.float64) for _ in range(POINTS)]

    def directions(self) -> list[Any]:
        draws = Draws(f"{self.name} directions")
        return [draws.normal(*x.shape) for x in self.points()]

    def on(self, xp: Any) -> Callable[[Any], Any]:
        """Return the scalar function of one array, with its data as constants of that namespace."""
        data = {
            k: xp.asarray(v) if isinstance(v, np.ndarray) else v
            for k, v in self.data(Draws(f"{self.name} data")).items()
        }
        return lambda x: self.function(xp, x, **data)


CASES: dict[str, Case] = {}


def case(
    source: str,
    start: Callable[[Draws], Any],
    data: Callable[[Draws], Mapping[str, Any]] = lambda draws: {},
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare a function `f(xp, x, **data)` as a case; `start(draws)` gives a point."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        name = function.__name__
        assert name not in CASES, name
        CASES[name] = Case(name, function.__module__.rsplit(".", 1)[-1], source, function, start, data)
        return function

    return register


def unpack(x: Any, *shapes: tuple[int, ...]) -> list[Any]:
    """Return the parts of a vector, in these shapes."""
    parts = []
    begin = 0
    for shape in shapes:
        size = int(np.prod(shape, dtype=np.int64))
        parts.append(x[begin : begin + size].reshape(shape))
        begin += size
    assert begin == x.shape[0], f"{begin} of {x.shape[0]} parameters are used"
    return parts
