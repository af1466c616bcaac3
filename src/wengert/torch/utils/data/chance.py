"""Draws by chance of a loader and its samplers, and the states of the generators that they are from."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

from ....random import Generator, get_rng_state, manual_seed, set_rng_state
from ...functions.creation import multinomial, randint, randperm

# The numbers that NumPy and Python draw, where a program seeds them.
State = dict[str, Any]


def drawn_seed(generator: Any = None) -> int:
    """Return a seed, drawn from a generator (None: the default one)."""
    return int(randint(0, 2**63 - 1, (), generator=generator).item())


def seeded(seed: int) -> Any:
    """Return a new generator."""
    return Generator(seed)


def permutation(n: int, generator: Any = None) -> list[int]:
    """Return the numbers below `n` in an order by chance."""
    return randperm(n, generator=generator).tolist()  # type: ignore[no-any-return]


def integers(high: int, count: int, generator: Any = None) -> list[int]:
    """Return numbers below `high`, each drawn evenly."""
    return randint(0, high, (count,), generator=generator).tolist()  # type: ignore[no-any-return]


def weighted(weights: Any, count: int, replacement: bool, generator: Any = None) -> list[int]:
    """Return positions drawn by their weights."""
    return multinomial(weights, count, replacement, generator=generator).tolist()  # type: ignore[no-any-return]


def seed_everything(seed: int, number: int, more: int = 0) -> None:
    """Seed the default generators of Wengert, Python and NumPy for the worker or batch of this number."""
    manual_seed(seed + number)
    random.seed(seed + number)
    words = np.random.SeedSequence([number, seed & 0xFFFFFFFF, seed >> 32, more]).generate_state(4)
    np.random.seed(words)  # noqa: NPY002 (what programs draw from)


def now() -> State:
    """Return the states of the default generators."""
    found: State = {"wengert": get_rng_state(), "python": random.getstate()}
    if "numpy.random" in sys.modules:
        found["numpy"] = np.random.get_state()  # noqa: NPY002
    return found


def restore(state: State) -> None:
    """Set the default generators to the states of another time."""
    set_rng_state(state["wengert"])
    version, words, rest = state["python"]
    random.setstate((version, tuple(words), rest))  # a file may have made a list of it
    if "numpy" in state:
        np.random.set_state(tuple(state["numpy"]))  # noqa: NPY002


def generators_of(holders: Iterable[Any]) -> list[Any]:
    """Return the generators that objects hold as `generator`, each once."""
    found: list[Any] = []
    for holder in holders:
        generator = getattr(holder, "generator", None)
        if hasattr(generator, "get_state") and not any(generator is g for g in found):
            found.append(generator)
    return found
