"""Lesser processors for tests: the choice of the cases that are run there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

TARGETS = ("host", "avx2", "sse2")
# Those for half precision: the second is the host without sums of pairs of bfloat16.
HALF_TARGETS = ("host", "no pairs", "avx2", "sse2")


def on_processors(
    values: Iterable[Any], name: Callable[[Any], str] = str, targets: tuple[str, ...] = TARGETS
) -> list[Any]:
    """Return pairs of a value and a target: all on the host, and every other one on a lesser processor, in turn.

    The others are slow ones: kernels are written for vectors of any width, and compiling them takes the time.
    """
    found = []
    for turn, value in enumerate(values):
        for target in targets:
            lesser = targets[1 + turn // 2 % (len(targets) - 1)]
            is_asked = target == "host" or (turn % 2 == 0 and target == lesser)
            marks = () if is_asked else pytest.mark.slow
            found.append(pytest.param(value, target, marks=marks, id=f"{name(value)}-{target}"))
    return found
