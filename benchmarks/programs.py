"""Programs written for PyTorch, raced: PyTorch eager, torch.compile, and `wengert.torch` eager and compiled.

python benchmarks/programs.py [NAME ...] [--rounds N] [--threads N] [--steps N] [--only CONTENDER ...]

Eight stand in `at_size`, of the sizes that public programs have; those of `tests/torch/programs`, which are small, may
be named too. Programs stand as people write them; each hands its training step to `torch.compile`, which here is what
times it. Contenders take turns in processes of their own, with the same number of threads. What they compute is
compared with what PyTorch gives: digit by digit where it was recorded, by losses where a program draws random
numbers. A figure is the median of a process's later steps, a ratio the median of the rounds' ratios; beside the time
on the clock stands the processor's, which other work on the machine disturbs less. The first call counts apart.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import types
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests" / "torch"
AT_SIZE = ROOT / "benchmarks" / "at_size"
CONTENDERS = ("pytorch eager", "pytorch compiled", "wengert eager", "wengert compiled")
USUAL = tuple(sorted(p.stem for p in AT_SIZE.glob("*.py") if p.stem != "common"))
# The first loss, and the mean of all, of programs that draw random numbers.
FIRST, MEAN = 0.1, 0.2

# The seconds of each call, and the processor's. Not in what the programs see as `torch`: a compiler guards what it
# reads there.
TIMES: list[tuple[float, float]] = []


class Timed:
    """A module whose `compile` gives a function that notes how long each of its calls takes."""

    def __init__(self, torch: Any, compiled: bool) -> None:
        self._torch, self._compiled = torch, compiled

    def __getattr__(self, name: str) -> Any:
        return getattr(self._torch, name)

    def compile(self, step: Any, **_: Any) -> Any:
        """Return the step, compiled where this contender does so, timed."""
        run = self._torch.compile(step) if self._compiled else step

        def timed(*args: Any) -> Any:
            start, used = time.perf_counter(), time.process_time()
            out = run(*args)
            TIMES.append((time.perf_counter() - start, time.process_time() - used))
            return out

        return timed


def is_at_size(name: str) -> bool:
    """Whether a program is one of those here."""
    return (AT_SIZE / f"{name}.py").exists()


def contend(name: str, contender: str, steps: int) -> dict[str, Any]:
    """Run a program as one contender: its numbers, the time of its first step and of the others."""
    folder = AT_SIZE if is_at_size(name) else TESTS / "programs"
    sys.path[:0] = [str(TESTS), str(folder)]
    from running import edited

    file = folder / f"{name}.py"
    source = file.read_text(encoding="utf-8")
    library, how = contender.split()
    module: Any = types.ModuleType(f"program_{name}")
    sys.modules[module.__name__] = module
    exec(compile(edited(source) if library == "wengert" else source, str(file), "exec"), vars(module))
    module.torch = Timed(module.torch, how == "compiled")
    numbers = [float(v) for v in (module.main(True, steps) if is_at_size(name) else module.main(True))]
    # The early ones compile what is worth it.
    later = TIMES[min(len(TIMES) // 2, 20) :]
    clock, processor = (statistics.median(t) for t in zip(*later, strict=True))
    return {"numbers": numbers, "first": TIMES[0][0], "step": clock, "processor": processor}


def check(name: str, contender: str, found: list[float], wanted: list[float]) -> None:
    """Raise SystemExit where numbers are not those of PyTorch."""
    if is_at_size(name):
        means = [statistics.fmean(numbers) for numbers in (found, wanted)]
        bad = abs(found[0] - wanted[0]) > FIRST * abs(wanted[0]) or abs(means[0] - means[1]) > MEAN * abs(means[1])
        if bad or len(found) != len(wanted):
            raise SystemExit(
                f"{name}, {contender}: losses from {found[0]}, on average {means[0]}; {wanted[0]}, {means[1]}"
            )
        return
    for a, b in zip(found, wanted, strict=True):
        # What PyTorch's compiler gives differs from what it gives itself by up to 1e-5.
        if abs(a - b) > (1e-4 if contender == "pytorch compiled" else 1e-8) * max(1.0, abs(b)):
            raise SystemExit(f"{name}, {contender}: {a}, where PyTorch was recorded to give {b}")


def race(name: str, rounds: int, threads: int, steps: int, contenders: list[str]) -> dict[str, dict[str, list[float]]]:
    """The figures of every contender, round by round, in seconds."""
    at_size = is_at_size(name)
    wanted = None if at_size else json.loads((TESTS / "data" / "programs.json").read_text())[name]
    found: dict[str, dict[str, list[float]]] = {c: {"step": [], "processor": [], "first": []} for c in contenders}
    variables = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "WENGERT_NUM_THREADS")
    environment = {**os.environ, **dict.fromkeys(variables, str(threads))}
    for _ in range(rounds):
        for contender in contenders:
            command = [sys.executable, __file__, "--steps", str(steps), "--contend", name, contender]
            done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
            if done.returncode:
                raise SystemExit(f"{name}, {contender}:\n{done.stderr[-2000:]}")
            of = json.loads(done.stdout.splitlines()[-1])
            wanted = of["numbers"] if wanted is None else wanted  # PyTorch's, which comes first
            check(name, contender, of["numbers"], wanted)
            for figure, values in found[contender].items():
                values.append(of[figure])
    return found


def ratio(found: dict[str, dict[str, list[float]]], a: str, b: str, figure: str = "step") -> str:
    """The median over the rounds of one contender's figure over another's."""
    if a not in found or b not in found:
        return ""
    return f"{statistics.median(x / y for x, y in zip(found[a][figure], found[b][figure], strict=True)):.2f}"


def main() -> None:
    """Race the named programs, or the eight."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*", default=USUAL)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--only", nargs="+", default=list(CONTENDERS), choices=CONTENDERS, metavar="CONTENDER")
    parser.add_argument("--contend", nargs=2, metavar=("NAME", "CONTENDER"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.contend:
        print(json.dumps(contend(*args.contend, args.steps)))
        return
    contenders = [c for c in CONTENDERS if c in args.only]
    columns = [f"{c}: step ms (processor), first s" for c in contenders]
    columns += [
        "eager / PyTorch eager",
        "by the processor's time",
        "PyTorch eager / compiled",
        "torch.compile / compiled",
    ]
    print("| " + " | ".join(["program", *columns]) + " |")
    print("|" + " --- |" * (len(columns) + 1))
    for name in args.names:
        found = race(name, args.rounds, args.threads, args.steps, contenders)
        cells = []
        for c in contenders:
            step, processor, first = (statistics.median(found[c][f]) for f in ("step", "processor", "first"))
            cells.append(f"{step * 1e3:.2f} ({processor * 1e3:.2f}), {first:.2f}")
        cells += [
            ratio(found, "wengert eager", "pytorch eager"),
            ratio(found, "wengert eager", "pytorch eager", "processor"),
            ratio(found, "pytorch eager", "wengert compiled"),
            ratio(found, "pytorch compiled", "wengert compiled"),
        ]
        print("| " + " | ".join([name.replace("_", " "), *cells]) + " |", flush=True)


if __name__ == "__main__":
    main()
