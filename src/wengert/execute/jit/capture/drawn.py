"""Detection of random numbers that Python code draws while it is traced, by `random` or by `numpy.random`.

They are constants of a program, which the next call would have to draw anew: so a trace that drew some is not kept.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

GENERATORS = (np.random.Generator, np.random.RandomState, np.random.BitGenerator, random.Random)
# The generators that every function can reach: those of the modules' own functions.
_GLOBAL: tuple[tuple[str, Any], ...] = (("random", random), ("numpy.random", np.random))


class Drawn:
    """The states of generators before a trace."""

    def __init__(self, generators: Sequence[tuple[str, Any]]) -> None:
        self._before = [(path, x, _state(x)) for path, x in (*_GLOBAL, *generators)]

    def changed(self) -> list[str]:
        """Return the paths of the generators that were drawn from since."""
        return [path for path, x, before in self._before if _comparable(_state(x)) != _comparable(before)]

    def undo(self) -> None:
        """Put back the generators that were drawn from."""
        for _, x, before in self._before:
            if _comparable(_state(x)) != _comparable(before):
                _restore(x, before)


def _state(x: Any) -> Any:
    if isinstance(x, np.random.Generator):
        return x.bit_generator.state
    if isinstance(x, np.random.BitGenerator):
        return x.state
    return x.getstate() if hasattr(x, "getstate") else x.get_state(legacy=False)


def _restore(x: Any, state: Any) -> None:
    if isinstance(x, np.random.Generator):
        x.bit_generator.state = state
    elif isinstance(x, np.random.BitGenerator):
        x.state = state
    elif hasattr(x, "setstate"):
        x.setstate(state)
    else:
        x.set_state(state)


def _comparable(state: Any) -> Any:
    if isinstance(state, dict):
        return {name: _comparable(value) for name, value in state.items()}
    return state.tobytes() if isinstance(state, np.ndarray) else state
