"""What is no race: call overhead, first calls, compile times, memory, a busy machine.

python benchmarks/native/figures.py                  # all of them: a Markdown table
python benchmarks/native/figures.py --only memory    # one (may be repeated)

Every figure is measured in fresh processes, by Wengert alone. `memory` needs Linux.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np
from contenders import PROBLEMS, prepare
from run import duration

import wengert as wg

Found = dict[str, Any]


def median_time(fn: Callable[[], Any], seconds: float = 0.3) -> float:
    """Of one call, over chunks of about a millisecond."""
    fn()
    start = time.perf_counter()
    fn()
    count = max(1, int(1e-3 / max(time.perf_counter() - start, 1e-7)))
    times = []
    end = time.perf_counter() + seconds
    while len(times) < 5 or time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(count):
            fn()
        times.append((time.perf_counter() - start) / count)
    return statistics.median(times)


def warmed_up() -> None:
    """LLVM loaded, and a kernel compiled, so that neither counts as part of a first call."""
    wg.jit(lambda x: wg.exp(x) + 1)(wg.ones(3))


# -- one process each; what they return is printed as JSON


def overhead() -> Found:
    """A call with ten arrays of 8 elements, in and out."""

    def fn(*arrays: Any) -> Any:
        return sum(arrays[1:], arrays[0])

    arrays = [np.full(8, i, np.float32) for i in range(10)]
    tensors = [wg.tensor(a) for a in arrays]
    compiled = wg.jit(fn)
    return {"arrays": median_time(lambda: compiled(*arrays)), "tensors": median_time(lambda: compiled(*tensors))}


def rosenbrock(x: Any) -> Any:
    """The function of ten variables that optimisers are tried on."""
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def first_rosenbrock() -> Found:
    """Tracing, compiling and running a small value and gradient."""
    warmed_up()
    x = wg.tensor(np.linspace(-1, 1, 10))
    start = time.perf_counter()
    wg.jit(wg.value_and_grad(rosenbrock))(x)
    return {"seconds": time.perf_counter() - start}


def first_transformer() -> Found:
    """Tracing, compiling and running a whole training step."""
    warmed_up()
    problem = PROBLEMS["gpt_mini"]
    program = prepare("wengert", problem, problem.make(problem.sizes), problem.sizes)
    start = time.perf_counter()
    program.step()
    return {"seconds": time.perf_counter() - start}


def lengths() -> Found:
    """A hundred different lengths: what is compiled after the first one."""
    folder = Path(os.environ["WENGERT_CACHE_DIR"])

    def kernels() -> int:
        return len(list(folder.glob("code/*/*.obj")))

    fn = wg.jit(wg.value_and_grad(lambda x: (wg.softmax(x) * wg.tanh(x)).sum()))
    rng = np.random.default_rng(0)
    inputs = [wg.tensor(rng.standard_normal(n)) for n in rng.permutation(np.arange(100, 200))]
    times, counts = [], []
    for x in inputs:
        start = time.perf_counter()
        fn(x)
        times.append(time.perf_counter() - start)
        counts.append(kernels())
    return {"first": times[0], "later": statistics.median(times[1:]), "kernels": counts[0], "in all": counts[-1]}


def compile_times() -> Found:
    """Processor time per node, for programs of 100 to 20,000 nodes, planned each time."""
    os.environ["WENGERT_CACHE"] = "0"
    warmed_up()
    found: Found = {}
    for size in (100, 1000, 5000, 20_000):
        best = float("inf")
        for _ in range(3 if size < 5000 else 1):
            start = time.process_time()
            lowered = wg.jit(_long_program(size)).lower(wg.spec((64, 16)), wg.spec((16, 16)))
            lowered.compile().plan  # noqa: B018  # made when it is first looked at
            best = min(best, (time.process_time() - start) / len(lowered.graph.nodes))
        found[str(size)] = best
    return found


def _long_program(size: int) -> Callable[[Any, Any], Any]:
    """About `size` nodes: elementwise chains of several lengths, matrix products, norms."""

    def fn(x: Any, w: Any) -> Any:
        made = 0
        for i in itertools.count():
            y = x @ w
            for _ in range(1 + i % 3):
                y = wg.tanh(y * 0.9 + x)
            x = y - y.mean(-1, keepdims=True)
            made += 4 + 4 * (1 + i % 3)
            if made >= size:
                return x

    return fn


def memory() -> Found:
    """The peak that is predicted before anything runs, and what the process's resident memory then grows to."""
    rng = np.random.default_rng(0)

    def fn(x: Any, w: Any) -> Any:
        for _ in range(4):
            x = wg.tanh(x @ w) + wg.softmax(x, -1)
        return (x * x).sum()

    x = wg.tensor(rng.standard_normal((16384, 512)).astype(np.float32))
    w = wg.tensor(rng.standard_normal((512, 512)).astype(np.float32) / 23)
    grad = wg.jit(wg.grad(fn, argnums=(0, 1)))
    compiled = grad.lower(x, w).compile()
    predicted = compiled.memory
    # The pages of the inputs are in memory already; kernels and threads come with a small call.
    wg.jit(wg.grad(fn, argnums=(0, 1)))(x[:64], w)
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here
    kept = compiled(x, w)
    grown = _status("VmHWM") - before
    del kept
    fresh = predicted.peak - predicted.inputs - predicted.constants
    return {"predicted": fresh, "measured": grown}


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name + ":"))


@contextmanager
def busy(count: int) -> Iterator[None]:
    """With that many processes that never rest."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def crowded() -> Found:
    """A training step by two threads beside eight busy processes, relative to one thread, by turns."""
    problem = PROBLEMS["mlp_mnist"]
    program = prepare("wengert", problem, problem.make(problem.sizes), problem.sizes)
    times: dict[int, list[float]] = {1: [], 2: []}
    with busy(8):
        for _ in range(9):
            for threads, found in times.items():
                wg.set_num_threads(threads)
                found.append(median_time(program.step, seconds=0.5))
    ratios = [two / one for one, two in zip(times[1], times[2], strict=True)]
    return {"one": statistics.median(times[1]), "two": statistics.median(times[2]), "ratio": statistics.median(ratios)}


# -- rows of the table


def measured(figure: str, folder: Path) -> Found:
    """A figure from a fresh process, its kernels kept in the folder."""
    command = [sys.executable, __file__, "--measure", figure]
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, "WENGERT_CACHE_DIR": str(folder)}
    )
    found: Found = json.loads(done.stdout)
    return found


def row_overhead(folder: Path) -> Iterator[tuple[str, str]]:
    found = measured("overhead", folder)
    yield "call with ten arrays, as tensors", duration(found["tensors"])
    yield "call with ten arrays, as NumPy arrays", duration(found["arrays"])


def _first(figure: str, what: str, folder: Path) -> Iterator[tuple[str, str]]:
    """Cold, and three times with plan and kernels in the cache."""
    cold = measured(figure, folder)["seconds"]
    warm = statistics.median(measured(figure, folder)["seconds"] for _ in range(3))
    yield f"first call of {what}, cold", duration(cold)
    yield f"first call of {what}, from the cache", duration(warm)


def row_rosenbrock(folder: Path) -> Iterator[tuple[str, str]]:
    yield from _first("first_rosenbrock", "Rosenbrock-10, value and gradient", folder)


def row_transformer(folder: Path) -> Iterator[tuple[str, str]]:
    yield from _first("first_transformer", "gpt_mini's training step", folder)


def row_lengths(folder: Path) -> Iterator[tuple[str, str]]:
    found = measured("lengths", folder)
    yield (
        "100 calls with 100 lengths",
        f"{found['kernels']} kernels compiled in the first, {found['in all'] - found['kernels']} in the others; "
        f"{duration(found['first'])}, then {duration(found['later'])} each",
    )


def row_compile_times(folder: Path) -> Iterator[tuple[str, str]]:
    found = measured("compile_times", folder)
    for size, seconds in found.items():
        grown = seconds / found["100"]
        yield f"tracing and compiling, {int(size):,} nodes", f"{duration(seconds)} a node, {grown:.2f} x that of 100"


def row_memory(folder: Path) -> Iterator[tuple[str, str]]:
    found = measured("memory", folder)
    off = found["measured"] / found["predicted"] - 1
    yield (
        "peak memory beside the inputs",
        f"predicted {found['predicted'] / 1e6:.1f} MB, measured {found['measured'] / 1e6:.1f} MB ({off:+.1%})",
    )


def row_crowded(folder: Path) -> Iterator[tuple[str, str]]:
    found = measured("crowded", folder)
    yield (
        "mlp_mnist's step beside eight busy processes",
        f"one thread {duration(found['one'])}, two {duration(found['two'])}: {found['ratio']:.2f} x",
    )


ROWS = {
    "overhead": row_overhead,
    "rosenbrock": row_rosenbrock,
    "transformer": row_transformer,
    "lengths": row_lengths,
    "compile_times": row_compile_times,
    "memory": row_memory,
    "crowded": row_crowded,
}
FIGURES = (overhead, first_rosenbrock, first_transformer, lengths, compile_times, memory, crowded)


def main() -> None:
    parser = argparse.ArgumentParser(description="Wengert's figures that are no race.")
    parser.add_argument("--only", choices=list(ROWS), action="append", help="one figure (may be repeated)")
    parser.add_argument("--measure", choices=[f.__name__ for f in FIGURES], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(next(f for f in FIGURES if f.__name__ == args.measure)()))
        return
    print("| figure | |\n| --- | --- |", flush=True)
    for name in args.only or ROWS:
        with tempfile.TemporaryDirectory() as folder:
            for what, value in ROWS[name](Path(folder)):
                print(f"| {what} | {value} |", flush=True)


if __name__ == "__main__":
    main()
