"""Training steps on XLA beside the same models written in JAX by hand: processor time, in one process, by turns.

    python benchmarks/native/beside_jax.py [--only mlp_*] [--rounds 9] [--threads 1]

Both are one compiled function from state to state, the state donated (functional.py); what differs is the program that
XLA is given, and what stands around its call. A round runs both for the same time, in an order that changes; the ratio
is the median of the rounds' ratios, Wengert's time over JAX's. The first call is tracing, compiling and one step. What
other programs do to a shared machine touches both alike, and time in which nothing ran does not count.
"""

from __future__ import annotations

import argparse
import fnmatch
import gc
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

CONTENDERS = "jax", "wengert.xla"


def started(contender: str, problem: Any, data: Any, expected: Any) -> tuple[Any, float]:
    """The program of a contender, checked, and the processor time of making it and of its first step."""
    from contenders import check, library

    made = library(contender, problem.dtype)
    gc.collect()
    start = time.process_time()
    program = made.program(problem, data, problem.sizes)
    program.wait(program.step())
    first = time.process_time() - start
    check(problem, program, expected, data)
    return program, first


def burst(program: Any, seconds: float) -> float:
    """The processor time of a step, over so many seconds of it, from the first state."""
    program.reset()
    program.wait(program.step())
    steps, start = 0, time.process_time()
    while (spent := time.process_time() - start) < seconds or not steps:
        for _ in range(8 if spent < seconds / 2 and steps else 1):
            handle = program.step()
            steps += 1
        program.wait(handle)
    return (time.process_time() - start) / steps


def compared(name: str, rounds: int, seconds: float) -> tuple[float, float, float, float, float]:
    """Both times of a step, the median ratio, and both first calls."""
    from contenders import PROBLEMS, reference

    problem = PROBLEMS[name]
    data = problem.make(problem.sizes)
    expected = reference(problem, data, problem.sizes)
    ready = [started(contender, problem, data, expected) for contender in CONTENDERS]
    times: list[list[float]] = [[], []]
    gc.collect()
    for k in range(rounds):
        for i in (0, 1) if k % 2 else (1, 0):
            times[i].append(burst(ready[i][0], seconds))
    ratio = statistics.median(b / a for a, b in zip(*times, strict=True))
    return statistics.median(times[0]), statistics.median(times[1]), ratio, ready[0][1], ready[1][1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="*", help="names of problems, separated by commas")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.3, help="of processor time, of each in a round")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.threads])
    import training

    from wengert import jit  # noqa: F401  # both libraries are loaded before anything is timed

    print("| problem | JAX by hand, ms | on XLA, ms | ratio | first call, s | on XLA, s | ratio |")
    print("|---|---|---|---|---|---|---|")
    for problem in training.PROBLEMS:
        if any(fnmatch.fnmatch(problem.name, pattern) for pattern in args.only.split(",")):
            theirs, ours, ratio, first, own = compared(problem.name, args.rounds, args.seconds)
            row = f"{1e3 * theirs:.4g} | {1e3 * ours:.4g} | {ratio:.2f} | {first:.2f} | {own:.2f} | {own / first:.2f}"
            print(f"| {problem.name} | {row} |", flush=True)


if __name__ == "__main__":
    main()
