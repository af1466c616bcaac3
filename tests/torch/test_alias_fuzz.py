"""Random programs of views, rebound names and writes, beside NumPy's, whose views are the memory's own.

Who shares memory with whom is found from counts of references: what is tested is that nobody is missed, whichever
tensors on the way are gone.
"""

from __future__ import annotations

import gc
import random
from typing import Any

import numpy as np
import pytest

import wengert.torch as torch

PROGRAMS = 12


class Pair:
    """A tensor, and the array that NumPy has in its place."""

    def __init__(self, tensor: Any, array: Any) -> None:
        self.tensor, self.array = tensor, array


def taken(draw: random.Random, x: Pair) -> list[Pair]:
    """What is taken from a tensor in one of many ways, in part or as a whole."""
    t, a = x.tensor, x.array
    rows = a.shape[0] if a.ndim else 0
    kind = draw.choice(["slice", "item", "parts", "rows", "flat", "shape", "detach", "data"])
    if kind == "slice" and rows:
        begin = draw.randint(0, rows - 1)
        end = draw.randint(begin, rows)
        return [Pair(t[begin:end], a[begin:end])]
    if kind == "item" and rows:
        at = draw.randrange(rows)
        return [Pair(t[at], a[at, ...])]
    if kind == "parts" and rows > 1:
        cut = -(-rows // 2)
        both = [Pair(p, q) for p, q in zip(t.chunk(2), (a[:cut], a[cut:]), strict=True)]
        return both[: draw.randint(1, 2)] if draw.random() < 0.5 else both[-1:]
    if kind == "rows" and 0 < rows < 5:
        return [Pair(p, a[i, ...]) for i, p in enumerate(t.unbind(0))][:2]
    if kind == "flat":
        return [Pair(t.reshape(-1), a.reshape(-1))]
    if kind == "shape":
        return [Pair(t.unsqueeze(0), a[None])]
    return [Pair(t.detach() if kind == "detach" else t.data, a[...])]


def written(draw: random.Random, x: Pair) -> None:
    """A write to all of a tensor, or to its first row."""
    number = draw.choice([2.0, 0.5, -1.0, 3.0])
    kind = draw.choice(["mul", "add", "copy", "row"])
    if kind == "mul":
        x.tensor.mul_(number)
        x.array *= number
    elif kind == "add":
        x.tensor.add_(number)
        x.array += number
    elif kind == "row" and x.array.ndim and x.array.shape[0]:
        x.tensor[0] = number
        x.array[0] = number
    else:
        x.tensor.copy_(torch.full_like(x.tensor, number))
        x.array[...] = number


@pytest.mark.parametrize("seed", range(25))
def test_nobody_who_shares_memory_is_missed(seed: int) -> None:
    for program in range(PROGRAMS):
        draw = random.Random(1000 * seed + program)
        whole = np.arange(24, dtype=np.float32).reshape(4, 6)
        live = [Pair(torch.tensor(whole), whole.copy())]
        del whole
        for _ in range(draw.randint(5, 40)):
            at = draw.randrange(len(live))
            kind = draw.choice(["take", "take", "rebind", "write", "write", "drop", "copy"])
            if kind == "take":
                live += taken(draw, live[at])
            elif kind == "rebind":
                live[at] = taken(draw, live[at])[0]
            elif kind == "write":
                written(draw, live[at])
            elif kind == "drop" and len(live) > 1:
                live.pop(at)
            elif kind == "copy":
                live.append(Pair(live[at].tensor.clone(), live[at].array.copy()))
            if len(live) > 8:
                live.pop(draw.randrange(len(live)))
            for x in live:
                np.testing.assert_array_equal(x.tensor.numpy(), x.array, err_msg=f"program {program}")


def test_an_old_view_is_found_by_way_of_a_young_one() -> None:
    """What a young view was taken from may be among the old objects, at which nobody looks then."""
    x = torch.arange(6.0)
    a = x[1:4]
    gc.collect()
    b = a[1:2]
    x.mul_(2.0)
    assert (a.tolist(), b.tolist()) == ([2.0, 4.0, 6.0], [4.0])
