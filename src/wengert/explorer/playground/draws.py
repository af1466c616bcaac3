"""Random numbers that the page can draw too: the same ones from the same seed, in Python and in the browser.

The generator is xoshiro128** (Blackman and Vigna, "Scrambled Linear Pseudorandom Number Generators", 2021), whose state
is four 32-bit words, so that JavaScript computes it exactly. `explorer/src/engine/draws.ts` is its twin.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...core.arrays import Array

_WORD = 0xFFFFFFFF
Size = int | tuple[int, ...]


class Draws:
    """A generator of numbers. `state`, four words, is all that it goes on from.

    >>> Draws(1).uniform(0.0, 1.0, 2).round(4).tolist()
    [0.5686, 0.7539]
    """

    def __init__(self, seed: int) -> None:
        self.state: tuple[int, ...] = tuple(_mixed(seed + (i + 1) * 0x9E3779B9) for i in range(4))

    @classmethod
    def at(cls, state: Sequence[int]) -> Draws:
        """Return a generator that goes on from a state."""
        made = cls(0)
        made.state = tuple(state)
        return made

    def _next(self) -> int:
        a, b, c, d = self.state
        found = _rotated(b * 5 & _WORD, 7) * 9 & _WORD
        shifted = b << 9 & _WORD
        c ^= a
        d ^= b
        self.state = (a ^ d, b ^ c, c ^ shifted, _rotated(d, 11))
        return found

    def _share(self) -> float:
        return self._next() / 2**32

    def uniform(self, low: float, high: float, size: Size) -> Array:
        """Return numbers from `low` (inclusive) to `high`."""
        count = math.prod(size) if isinstance(size, tuple) else size
        return np.array([low + (high - low) * self._share() for _ in range(count)]).reshape(size)

    def normal(self, size: Size) -> Array:
        """Return numbers of mean 0 and variance 1, by the method of Box and Muller (1958)."""
        count = math.prod(size) if isinstance(size, tuple) else size
        return np.array([self._bell() for _ in range(count)], np.float64).reshape(size)

    def _bell(self) -> float:
        radius = math.sqrt(-2 * math.log(1 - self._share()))
        return radius * math.cos(2 * math.pi * self._share())

    def chosen(self, count: int, of: int) -> Array:
        """Return so many different numbers from 0 below `of`, in random order (Fisher and Yates, 1938)."""
        found = list(range(of))
        for i in range(count):
            j = i + math.floor(self._share() * (of - i))
            found[i], found[j] = found[j], found[i]
        return np.array(found[:count], np.int64)


def _rotated(word: int, by: int) -> int:
    return (word << by | word >> (32 - by)) & _WORD


def _mixed(word: int) -> int:
    """Return the word with every bit spread over all: the finaliser of MurmurHash3 (Appleby, 2011)."""
    word &= _WORD
    word = (word ^ word >> 16) * 0x85EBCA6B & _WORD
    word = (word ^ word >> 13) * 0xC2B2AE35 & _WORD
    return word ^ word >> 16
