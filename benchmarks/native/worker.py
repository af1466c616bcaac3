"""One contender on one problem, in a process of its own: no two pools of threads are awake at once.

Spoken to in lines of JSON by run.py: `{"round": seconds}` is answered with a time, an empty line ends.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

# A burst is timed in chunks of at least this many seconds, with one wait at the end of each.
CHUNK = 0.004


def chunk(program: Any, count: int, waits: bool) -> float:
    """Seconds for one of `count` steps; every one is waited for where `waits`."""
    start = time.perf_counter()
    for _ in range(count):
        handle = program.step()
        if waits:
            program.wait(handle)
    program.wait(handle)
    return (time.perf_counter() - start) / count


def burst(program: Any, seconds: float, count: int, waits: bool) -> float:
    """The median time of a step over about `seconds`, from the first state."""
    program.reset()
    chunk(program, count, waits)
    gc.collect()
    gc.disable()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        times.append(chunk(program, count, waits))
    gc.enable()
    return statistics.median(times)


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a library prints is no answer
    contender, name, expected = sys.argv[1:]
    # Imports the contender's library alone: the parent computed the reference.
    from contenders import PROBLEMS, check, library, prepare

    problem = PROBLEMS[name]
    if contender != "numpy":
        library(contender, problem.dtype)
    data = problem.make(problem.sizes)
    start = time.perf_counter()
    program = prepare(contender, problem, data, problem.sizes)
    program.wait(program.step())
    first = time.perf_counter() - start
    off = check(problem, program, np.load(expected), data)
    waits, count = problem.call is not None, 1
    while chunk(program, count, waits) * count < CHUNK:
        count *= 2
    answers.write(json.dumps({"first": first, "error": off}) + "\n")
    for line in sys.stdin:
        if not line.strip():
            break
        answers.write(json.dumps(burst(program, json.loads(line)["round"], count, waits)) + "\n")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    main()
