"""Programs written for PyTorch, raced: PyTorch eager, torch.compile, and `wengert.torch` eager and compiled.

python benchmarks/programs.py [NAME ...] [--rounds N] [--threads N] [--steps N] [--only CONTENDER ...]

Eight stand in `at_size`, of the sizes that public programs have; those of `tests/torch/programs`, which are small, may
be named too. Programs stand as people write them; each hands its training step to `torch.compile`, which here is what
times it. Contenders take turns in processes of their own, with the same number of threads and caches of compiled code
that are empty. What they compute is compared with what PyTorch gives before anything is timed: digit by digit where it
was recorded, else in float64 with nothing drawn at random; and once more by the losses of the timed runs. Who cannot
run a program is left out of it, and the output says why. A figure is the median of a process's later steps, a ratio the
median of the rounds' ratios; beside the time on the clock stands the processor's, which other work on the machine
disturbs less. The first call counts apart.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import types
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests" / "torch"
AT_SIZE = ROOT / "benchmarks" / "at_size"
CONTENDERS = ("pytorch eager", "pytorch compiled", "wengert eager", "wengert compiled")
USUAL = tuple(sorted(p.stem for p in AT_SIZE.glob("*.py") if p.stem != "common"))
# How far timed losses may be from PyTorch's, the first and the mean of all: programs draw random numbers.
FIRST, MEAN = 0.1, 0.2
# The steps of the comparison in float64, and how far its losses may be from PyTorch's.
CHECKED, EXACT = 6, 1e-8

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


def loaded(file: Path, name: str, library: str, exact: bool) -> Any:
    """Return a program as a module, for one of the libraries; `exact`: with data in float64 and no noise."""
    from running import edited

    source = file.read_text(encoding="utf-8")
    source = source.replace("float32", "float64").replace("randn_like", "ones_like") if exact else source
    module: Any = types.ModuleType(name)
    sys.modules[name] = module
    exec(compile(edited(source) if library == "wengert" else source, str(file), "exec"), vars(module))
    return module


def draw_nothing(torch: Any) -> None:
    """Let layers that are made from here on drop nothing, and be in float64."""
    torch.set_default_dtype(torch.float64)
    dropout = torch.nn.Dropout.__init__
    for layer in (torch.nn.Dropout, torch.nn.LSTM, torch.nn.GRU):

        def made(self: Any, *args: Any, _init: Any = layer.__init__, **options: Any) -> None:
            if _init is dropout:
                _init(self, 0.0)
            else:
                _init(self, *args, **{**options, "dropout": 0.0})

        layer.__init__ = made


def contend(name: str, contender: str, steps: int, exact: bool = False) -> dict[str, Any]:
    """Run a program as one contender: its numbers, the time of its first step and of the others."""
    folder = AT_SIZE if is_at_size(name) else TESTS / "programs"
    sys.path[:0] = [str(TESTS), str(folder)]
    library, how = contender.split()
    if is_at_size(name):
        loaded(AT_SIZE / "common.py", "common", library, exact)
    module = loaded(folder / f"{name}.py", f"program_{name}", library, exact)
    if exact:
        draw_nothing(module.torch)
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


def run(name: str, contender: str, threads: int, steps: int, exact: bool = False) -> dict[str, Any] | str:
    """What `contend` returns in a process of its own, or the reason why there is nothing."""
    variables = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "WENGERT_NUM_THREADS")
    command = [sys.executable, __file__, "--steps", str(steps), "--contend", name, contender]
    command += ["--exact"] if exact else []
    with tempfile.TemporaryDirectory() as empty:
        caches = {"WENGERT_CACHE_DIR": f"{empty}/wengert", "TORCHINDUCTOR_CACHE_DIR": f"{empty}/inductor"}
        environment = {**os.environ, **dict.fromkeys(variables, str(threads)), **caches}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line and not line.startswith((" ", "\t"))]
        named = [line for line in lines if line.partition(":")[0].endswith(("Error", "Exit"))]
        return (named or lines or ["no message"])[-1][:200]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def able(name: str, threads: int, contenders: list[str]) -> list[str]:
    """Return the contenders that run a program; in float64 they have PyTorch's numbers, or SystemExit is raised."""
    if not is_at_size(name):
        return contenders
    wanted, found = None, []
    for contender in dict.fromkeys(["pytorch eager", *contenders]):
        of = run(name, contender, threads, CHECKED, exact=True)
        if isinstance(of, str):
            print(f"{name}: {contender} is left out: {of}", file=sys.stderr)
            continue
        wanted = wanted or of["numbers"]
        if all(abs(a - b) <= EXACT * max(1.0, abs(b)) for a, b in zip(of["numbers"], wanted, strict=True)):
            found.append(contender)
            continue
        told = f"{name}, {contender}, float64: {of['numbers']}, where PyTorch has {wanted}"
        if not contender.startswith("pytorch"):
            raise SystemExit(told)
        print(f"left out: {told}", file=sys.stderr)  # PyTorch does not agree with itself
    return [c for c in contenders if c in found]


def race(name: str, rounds: int, threads: int, steps: int, contenders: list[str]) -> dict[str, dict[str, list[float]]]:
    """The figures of every contender, round by round, in seconds."""
    wanted = None if is_at_size(name) else json.loads((TESTS / "data" / "programs.json").read_text())[name]
    contenders = able(name, threads, contenders)
    found: dict[str, dict[str, list[float]]] = {c: {"step": [], "processor": [], "first": []} for c in contenders}
    for _ in range(rounds):
        for contender in contenders:
            of = run(name, contender, threads, steps)
            if isinstance(of, str):
                raise SystemExit(f"{name}, {contender}: {of}")
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
    parser.add_argument("--exact", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--contend", nargs=2, metavar=("NAME", "CONTENDER"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.contend:
        print(json.dumps(contend(*args.contend, args.steps, args.exact)))
        return
    contenders = [c for c in CONTENDERS if c in args.only]
    columns = [f"{c}: step ms (processor), first s" for c in contenders]
    columns += [
        "eager / PyTorch eager",
        "by the processor's time",
        "PyTorch eager / compiled",
        "torch.compile / compiled",
        "first call: torch.compile / compiled",
    ]
    print("| " + " | ".join(["program", *columns]) + " |")
    print("|" + " --- |" * (len(columns) + 1))
    for name in args.names:
        found = race(name, args.rounds, args.threads, args.steps, contenders)
        cells = []
        for c in contenders:
            if c not in found:
                cells.append("left out")
                continue
            step, processor, first = (statistics.median(found[c][f]) for f in ("step", "processor", "first"))
            cells.append(f"{step * 1e3:.2f} ({processor * 1e3:.2f}), {first:.2f}")
        cells += [
            ratio(found, "wengert eager", "pytorch eager"),
            ratio(found, "wengert eager", "pytorch eager", "processor"),
            ratio(found, "pytorch eager", "wengert compiled"),
            ratio(found, "pytorch compiled", "wengert compiled"),
            ratio(found, "pytorch compiled", "wengert compiled", "first"),
        ]
        print("| " + " | ".join([name.replace("_", " "), *cells]) + " |", flush=True)


if __name__ == "__main__":
    main()
