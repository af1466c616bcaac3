"""Time writes in place and views beside PyTorch's, in one process and in turns.

    python benchmarks/writes.py [--rounds 7]

Each row is written once, by PyTorch's names. Before it is timed, both libraries run it and have to leave the same
numbers behind. The figures are medians of processor time a call, in microseconds, and the ratio of the medians.
"""

from __future__ import annotations

import argparse
import statistics
import timeit
from collections.abc import Callable
from time import process_time
from typing import Any, NamedTuple

import torch

import wengert.torch

CALLS = 1000


class Row(NamedTuple):
    """A statement that is timed: `make(t, n)` of a library gives it, and what it leaves behind as a list."""

    name: str
    make: Callable[[Any, int], tuple[Callable[[], Any], Callable[[], list[float]]]]
    sizes: tuple[int, ...] = (10**3, 10**6)


def _element(views: int) -> Callable[[Any, int], Any]:
    def make(t: Any, n: int) -> Any:
        x = t.zeros(n)
        held = [x[i : i + 5] for i in range(views)]

        def write() -> None:
            x[7] = 1.0

        return write, lambda: [*x[:20].tolist(), len(held)]

    return make


def _of_view(write: Callable[[Any], Any]) -> Callable[[Any, int], Any]:
    def make(t: Any, n: int) -> Any:
        x = t.ones(n)
        view = x[10:15]
        return lambda: write(view), lambda: x[:20].tolist()

    return make


def _recurrence(t: Any, n: int) -> Any:
    x = t.ones(n)

    def write() -> None:
        x[4] = x[3] * 0.5

    return write, lambda: x[:20].tolist()


def _taken(take: Callable[[Any], Any]) -> Callable[[Any, int], Any]:
    def make(t: Any, n: int) -> Any:
        x = t.arange(float(n)).reshape(10, -1)
        return lambda: take(x), lambda: take(x).reshape(-1)[:20].tolist()

    return make


ROWS = [
    Row("x[i] = 1", _element(0)),
    Row("x[i] = 1, with 50 views", _element(50)),
    Row("view.fill_(2)", _of_view(lambda v: v.fill_(2.0))),
    Row("view.add_(1)", _of_view(lambda v: v.add_(1.0))),
    Row("x[4] = x[3] * 0.5", _recurrence),
    Row("x[3]", _taken(lambda x: x[3]), (10**3,)),
    Row("x[3:5]", _taken(lambda x: x[3:5]), (10**3,)),
    Row("x.t()", _taken(lambda x: x.t()), (10**3,)),
    Row("x.view(-1)", _taken(lambda x: x.view(-1)), (10**3,)),
    Row("x.detach()", _taken(lambda x: x.detach()), (10**3,)),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    print(f"{'':28s} {'elements':>9s} {'PyTorch':>8s} {'Wengert':>8s} {'ratio':>6s}")
    for row in ROWS:
        for n in row.sizes:
            made = [row.make(t, n) for t in (torch, wengert.torch)]
            for write, _ in made:
                for _ in range(8):
                    write()
            left = [seen() for _, seen in made]
            assert left[0] == left[1], f"{row.name}: {left}"
            times: list[list[float]] = [[], []]
            for _ in range(rounds):
                for found, (write, _) in zip(times, made, strict=True):
                    found.append(timeit.timeit(write, number=CALLS, timer=process_time) / CALLS * 1e6)
            theirs, ours = map(statistics.median, times)
            print(f"{row.name:28s} {n:9d} {theirs:8.2f} {ours:8.2f} {ours / theirs:6.2f}")


if __name__ == "__main__":
    main()
