"""Generators: a key and a position in its stream of random bits."""

from __future__ import annotations

import os
import threading
from typing import Any

import numpy as np

from ..core.declare import public
from ..core.errors import DTypeError, ShapeError, fail
from ..core.spec import uint64
from ..core.tensor import Tensor, asarray
from .keys import RandomKey
from .philox import BLOCK, WORD, Key, words64


class Generator:
    """A stream of random numbers: a key, and a position in it that drawing moves on.

    Parameters
    ----------
    seed: any int; taken from the operating system where it is left out.

    Threads may share one: no two draws ever overlap. Where each thread, worker or layer should
    draw the same whatever the others do, give each its own with :meth:`split`.

    >>> import wengert as wg
    >>> g = wg.random.Generator(7)
    >>> a = wg.rand(3, generator=g)
    >>> bool((wg.rand(3, generator=g.manual_seed(7)) == a).all())
    True
    """

    __slots__ = ("_lock", "_key", "_counter", "_children", "_seed")

    def __init__(self, seed: int | None = None) -> None:
        self._lock = threading.Lock()
        if seed is None:
            self.seed()
        else:
            self.manual_seed(seed)

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream of `seed` from its beginning. Returns the generator. Raises DTypeError."""
        if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
            fail(DTypeError, f"a seed must be an int, not {seed!r}")
        seed = int(seed)
        with self._lock:
            self._seed = seed
            self._key: Key = (seed & WORD, seed >> 64 & WORD)
            self._counter = self._children = 0
        return self

    def seed(self) -> int:
        """Seed it from the operating system's entropy. Returns the seed."""
        seed = int.from_bytes(os.urandom(8))
        self.manual_seed(seed)
        return seed

    def initial_seed(self) -> int:
        """The seed that it was last given; for one made by `split`, its key."""
        return self._seed

    def draw(self, words: int) -> tuple[Key, int]:
        """Reserve that many words of 64 bits: the key and the block that they begin at."""
        with self._lock:
            counter = self._counter
            self._counter = counter + -(-words // BLOCK)
            return self._key, counter

    def split(self, count: int = 2) -> tuple[Generator, ...]:
        """`count` generators, independent of this one, of each other and of any split before.

        Child i of a generator has for its key the first two words of the cipher of the counter
        (i, 0, 0, 1), which no draw uses. Splitting leaves the numbers that this one draws alone.
        """
        if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or count < 0:
            fail(ShapeError, f"split({count!r}): the number of generators must be an int of at least 0")
        with self._lock:
            first, key = self._children, self._key
            self._children += int(count)
        children = []
        for i in range(first, first + int(count)):
            low, high = words64(key, i, 2, domain=1).tolist()
            children.append(Generator(low | high << 64))
        return tuple(children)

    def fork(self) -> Generator:
        """One independent generator: `split(1)[0]`."""
        return self.split(1)[0]

    def get_state(self) -> Tensor:
        """Key, position and number of splits as a uint64 tensor of 4, for :meth:`set_state`."""
        with self._lock:
            state = [*self._key, self._counter, self._children]
        return asarray(np.array(state, np.uint64), copy=False)

    def set_state(self, state: Any) -> Generator:
        """Go back to what :meth:`get_state` gave. Returns the generator. Raises ShapeError, DTypeError."""
        state = asarray(state)
        if state.shape != (4,) or state.dtype != uint64:
            fail(
                ShapeError if state.dtype == uint64 else DTypeError,
                f"{state.spec} is not the state of a generator",
                "Pass what get_state() returned: a uint64 tensor of 4 elements.",
            )
        low, high, counter, children = np.asarray(state).tolist()
        with self._lock:
            self._key, self._counter, self._children = (low, high), counter, children
            self._seed = low | high << 64
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _generator_in_state, (np.asarray(self.get_state()).tolist(),)

    def __repr__(self) -> str:
        return f"Generator(seed={self._seed}, position={self._counter})"


def _generator_in_state(state: list[int]) -> Generator:
    return Generator(0).set_state(np.array(state, np.uint64))


default_generator = Generator()


def draw(generator: Generator | RandomKey | None, words: int) -> tuple[Key, int]:
    """Reserve that many 64-bit words of a generator (None: the default one): key and position, for attributes."""
    if generator is None:
        generator = default_generator
    elif isinstance(generator, RandomKey):
        return generator.words, 0
    elif not isinstance(generator, Generator):
        fail(
            DTypeError,
            f"generator={generator!r} is a {type(generator).__name__}",
            "Pass a wg.random.Generator(seed), or None for the default one.",
        )
    return generator.draw(words)


@public
def manual_seed(seed: int) -> Generator:
    """Seed the default generator. Returns it.

    >>> import wengert as wg
    >>> _ = wg.manual_seed(0)
    >>> a = wg.rand(2)
    >>> _ = wg.manual_seed(0)
    >>> bool((wg.rand(2) == a).all())
    True
    """
    return default_generator.manual_seed(seed)


@public
def seed() -> int:
    """Seed the default generator from the operating system. Returns the seed."""
    return default_generator.seed()


@public
def initial_seed() -> int:
    """The default generator's seed."""
    return default_generator.initial_seed()


@public
def get_rng_state() -> Tensor:
    """The default generator's state, for :func:`set_rng_state`."""
    return default_generator.get_state()


@public
def set_rng_state(state: Any) -> None:
    """Set the default generator to what :func:`get_rng_state` gave."""
    default_generator.set_state(state)
