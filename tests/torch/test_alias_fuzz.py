"""Random programs of views, rebound names and writes, beside NumPy's, whose views are the memory's own.

They run in settings in which a search for those who share memory would miss some: with the collector's lists frozen,
with weak references of the program's own, without the collector, during a collection, in another thread, and where the
values are read, kept, given to NumPy and copied between the writes.
"""

from __future__ import annotations

import contextlib
import copy
import gc
import pickle
import random
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import wengert.numpy as wnp
import wengert.torch as torch

PROGRAMS = 6


class Pair:
    """A tensor, and the array that NumPy has in its place."""

    def __init__(self, tensor: Any, array: Any) -> None:
        self.tensor, self.array = tensor, array


def taken(draw: random.Random, x: Pair) -> list[Pair]:
    """What is taken from a tensor in one of many ways, in part or as a whole."""
    t, a = x.tensor, x.array
    rows = a.shape[0] if a.ndim else 0
    is_torch = isinstance(t, torch.Tensor)
    kind = draw.choice(["slice", "item", "step", "parts", "rows", "flat", "turned", "shape", "detach", "data"])
    if kind == "slice" and rows:
        begin = draw.randint(0, rows - 1)
        end = draw.randint(begin, rows)
        return [Pair(t[begin:end], a[begin:end])]
    if kind == "item" and rows:
        at = draw.randrange(rows)
        return [Pair(t[at, ...], a[at, ...])]
    if kind == "step" and rows:
        return [Pair(t[::2], a[::2])]
    if kind == "parts" and rows > 1 and is_torch:
        cut = -(-rows // 2)
        both = [Pair(p, q) for p, q in zip(t.chunk(2), (a[:cut], a[cut:]), strict=True)]
        return both[: draw.randint(1, 2)] if draw.random() < 0.5 else both[-1:]
    if kind == "rows" and 0 < rows < 5 and is_torch:
        return [Pair(p, a[i, ...]) for i, p in enumerate(t.unbind(0))][:2]
    if kind == "turned" and a.ndim == 2:
        return [Pair(t.T, a.T)]
    if kind == "flat":
        return [Pair(t.reshape(-1), a.reshape(-1))]
    if kind == "shape":
        return [Pair(t[None], a[None])]
    return [Pair(t.detach() if kind == "detach" else t.data, a[...])]


def written(draw: random.Random, x: Pair) -> None:
    """A write to all of a tensor, or to a part of it."""
    number = draw.choice([2.0, 0.5, -1.0, 3.0])
    kind = draw.choice(["mul", "add", "copy", "row", "one", "fill", "chosen"])
    if kind == "mul":
        x.tensor.mul_(number)
        x.array *= number
    elif kind == "add":
        x.tensor.add_(number)
        x.array += number
    elif kind == "row" and x.array.ndim and x.array.shape[0]:
        x.tensor[0] = number
        x.array[0] = number
    elif kind == "one" and x.array.size:
        place = tuple(draw.randrange(n) for n in x.array.shape)
        x.tensor[place] = number
        x.array[place] = number
    elif kind == "chosen" and x.array.ndim and x.array.shape[0]:
        rows = [draw.randrange(x.array.shape[0]) for _ in range(2)]
        x.tensor[rows] = number
        x.array[rows] = number
    elif kind == "fill":
        x.tensor.fill_(number)
        x.array[...] = number
    else:
        x.tensor.copy_(x.tensor * 0 + number)
        x.array[...] = number


Setting = Callable[[list[Pair], random.Random], Any]


@contextlib.contextmanager
def frozen(live: list[Pair], draw: random.Random) -> Iterator[None]:
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextlib.contextmanager
def referred(live: list[Pair], draw: random.Random) -> Iterator[None]:
    held = [weakref.ref(x.tensor) for x in live for _ in range(draw.randint(0, 2))]
    yield
    held.clear()


@contextlib.contextmanager
def uncollected(live: list[Pair], draw: random.Random) -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextlib.contextmanager
def read(live: list[Pair], draw: random.Random) -> Iterator[None]:
    """Keep values from before the write, which stay as they were."""
    kept = [(x.tensor.clone() if draw.random() < 0.5 else np.asarray(x.tensor), x.array.copy()) for x in live]
    yield
    for found, array in kept:
        np.testing.assert_array_equal(np.asarray(found), array)


@contextlib.contextmanager
def lent(live: list[Pair], draw: random.Random) -> Iterator[None]:
    """Give the memory to NumPy, which writes to it and sees what is written."""
    x = draw.choice(live)
    shown = x.tensor.numpy() if isinstance(x.tensor, torch.Tensor) else None
    if shown is not None and shown.size:
        shown[...] += 1.0
        x.array += 1.0
    yield
    if shown is not None:
        np.testing.assert_array_equal(shown, x.array)


@contextlib.contextmanager
def copied(live: list[Pair], draw: random.Random) -> Iterator[None]:
    """Go on with copies of all, which share memory with one another as the first ones did."""
    if draw.random() < 0.3:
        tensors = [x.tensor.detach() for x in live]
        arrays = copy.deepcopy([x.array for x in live]) if len(live) == 1 else None
        made = copy.deepcopy(tensors) if draw.random() < 0.5 else pickle.loads(pickle.dumps(tensors))
        made[0].add_(1.0)
        before = [np.array(x.array) for x in live]
        tensors[0].add_(1.0)
        live[0].array += 1.0
        for ours, theirs in zip(made, tensors, strict=True):
            np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs))
        del arrays, before
    yield


@contextlib.contextmanager
def plain(live: list[Pair], draw: random.Random) -> Iterator[None]:
    yield


SETTINGS = {f.__name__: f for f in (plain, frozen, referred, uncollected, read, lent, copied)}


def run(namespace: Any, setting: Setting, seed: int) -> None:
    for program in range(PROGRAMS):
        draw = random.Random(1000 * seed + program)
        whole = np.arange(24, dtype=np.float32).reshape(4, 6)
        live = [Pair(namespace.tensor(whole) if namespace is torch else namespace.array(whole), whole.copy())]
        del whole
        for _ in range(draw.randint(5, 40)):
            at = draw.randrange(len(live))
            kind = draw.choice(["take", "take", "rebind", "write", "write", "drop", "copy"])
            if kind == "take":
                live += taken(draw, live[at])
            elif kind == "rebind":
                live[at] = taken(draw, live[at])[0]
            elif kind == "write":
                with setting(live, draw):
                    written(draw, live[at])
            elif kind == "drop" and len(live) > 1:
                live.pop(at)
            elif kind == "copy":
                fresh = live[at].tensor.tolist()
                made = torch.tensor(fresh) if namespace is torch else namespace.array(fresh, np.float32)
                live.append(Pair(made.reshape(live[at].array.shape), live[at].array.copy()))
            if len(live) > 8:
                live.pop(draw.randrange(len(live)))
            for x in live:
                by_list = draw.random() < 0.5
                found = np.reshape(x.tensor.tolist(), x.array.shape) if by_list else np.asarray(x.tensor)
                np.testing.assert_array_equal(found, x.array, err_msg=f"program {program} of {seed}")


SEEDS = [pytest.param(i, marks=[pytest.mark.slow] if i >= 3 else []) for i in range(40)]


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("namespace", [torch, wnp], ids=["torch", "numpy"])
@pytest.mark.parametrize("seed", SEEDS)
def test_nobody_who_shares_memory_is_missed(seed: int, namespace: Any, setting: str) -> None:
    run(namespace, SETTINGS[setting], seed)


def test_in_another_thread() -> None:
    failed: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            run(torch, plain, seed)
        except BaseException as e:
            failed.append(e)

    threads = [threading.Thread(target=work, args=(100 + i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed


def test_during_a_collection() -> None:
    """A collection may run finalisers that write, in the midst of a write."""
    x = torch.zeros(6)
    rows = [x[i : i + 2] for i in range(5)]

    class Writer:
        def __del__(self) -> None:
            x[5] += 1.0

    def cycle() -> None:
        w: Any = Writer()
        w.me = w

    for i in range(4):
        cycle()
        gc.collect()
        rows[0].add_(1.0)
        assert rows[4][1].item() == i + 1
        assert x[0].item() == i + 1
