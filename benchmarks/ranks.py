"""Timing on ranks: ways to do the same by turns, each call as long as its slowest rank takes."""

from __future__ import annotations

import os
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

# The seconds of a burst before all other programs: they come to their turn between bursts.
BURST = 0.3


def pin(rank: int) -> None:
    """Give this rank a processor of its own, and to threads that it starts from now on."""
    here = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {here[rank % len(here)]})


@contextmanager
def undisturbed(is_above: bool) -> Iterator[None]:
    """Run a burst before all other programs of the machine, which come to their turn after it; as an administrator."""

    def schedule(niceness: int) -> None:
        for thread in os.listdir("/proc/self/task"):
            os.setpriority(os.PRIO_PROCESS, int(thread), niceness)
        group = Path("/proc/self/autogroup")
        if group.exists():  # among all programs this session has one place
            group.write_text(str(niceness))

    if not is_above:
        yield
        return
    schedule(-20)
    try:
        yield
    finally:
        schedule(0)
        time.sleep(BURST)


def medians(ways: Mapping[str, Callable[[], Any]], seconds: float, is_above: bool) -> dict[str, float]:
    """Return the median seconds of a call of each way, in about so many seconds for each; on all ranks the same."""
    from mpi4py import MPI

    world, spent = MPI.COMM_WORLD, {name: [] for name in ways}
    end = time.perf_counter() + seconds * len(ways)
    rng = random.Random(0)
    while world.bcast(time.perf_counter() < end):
        for name in rng.sample(list(ways), len(ways)):
            with undisturbed(is_above):
                ways[name]()
                stop = time.perf_counter() + BURST
                is_over = False
                while not is_over:
                    world.Barrier()
                    start = time.perf_counter()
                    ways[name]()
                    now = time.perf_counter()
                    told = np.array([now - start, now > stop])
                    slowest = np.empty_like(told)
                    world.Allreduce(told, slowest, op=MPI.MAX)
                    spent[name].append(float(slowest[0]))
                    is_over = bool(slowest[1])
    return {name: statistics.median(times) if times else 0.0 for name, times in spent.items()}
