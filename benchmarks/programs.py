"""Programs written for PyTorch, raced: PyTorch eager, torch.compile, and `wengert.torch` eager and compiled.

python benchmarks/programs.py [NAME ...] [--rounds N] [--threads N] [--steps N] [--only CONTENDER ...] [--smoke]

Eight stand in `at_size`, of the sizes that public programs have; those of `tests/torch/programs`, which are small, may
be named too, and `examples/NAME` is one of `examples` at its own size, where `--text` says what examples/words reads.
Programs stand as people write them; each hands its training step to `torch.compile`, which here is what
times it. Contenders take turns in processes of their own, with the same number of threads and caches of compiled code
that are empty. What they compute is compared with what PyTorch gives before anything is timed: digit by digit where it
was recorded, else in float64 with nothing drawn at random; and once more by the losses of the timed runs. Who cannot
run a program is left out of it, and the output says why. A figure is the median of a process's later steps, a ratio the
median of the rounds' ratios; beside the time on the clock stands, in brackets, the processor's, which other work on the
machine disturbs less. The first call counts apart. `--smoke` compares, and times nothing.
"""

from __future__ import annotations

import argparse
import contextlib
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
# How far timed losses may be from PyTorch's, the first and the mean of all: programs draw random numbers. By its
# dropout alone the first loss of the MNIST CNN has a standard deviation of 5 %, under either library.
FIRST, MEAN = 0.25, 0.2
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
    """Return whether a program is one of those here."""
    return (AT_SIZE / f"{name}.py").exists()


def is_example(name: str) -> bool:
    """Return whether a program is one of those that users read."""
    return name.startswith("examples/")


def example(name: str, contender: str, steps: int, text: str, smoke: bool) -> dict[str, Any]:
    """Run one of `examples` as one contender: small and in float64 to compare, at its own size for times."""
    from running_examples import SMALL, curve, durations

    library, how = contender.split()
    way: dict[str, Any] = {"compiled": how == "compiled", "by_wengert": library == "wengert"}
    case = next(c for c in SMALL if c.split()[0] == name)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        # What an example draws within its step is drawn otherwise once the step is compiled.
        compared = {**way, "compiled": False} if name == "vae" else way
        numbers = curve(case, **compared, folder=Path(folder))
        if not smoke:
            more = ["--data", text] if text and name == "words" else []
            TIMES[:] = durations(name, **way, steps=steps, arguments=[*more, "--out", f"{folder}/picture.svg"])
    return {"numbers": numbers} if smoke else {"numbers": numbers, **figures()}


def figures() -> dict[str, float]:
    """Return what the noted times say, in seconds: the first call, the median of later ones, and the processor's."""
    later = TIMES[min(len(TIMES) // 2, 20) :]  # the early ones compile what is worth it
    clock, processor = (statistics.median(t) for t in zip(*later, strict=True))
    return {"first": TIMES[0][0], "step": clock, "processor": processor}


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


def contend(
    name: str, contender: str, steps: int, exact: bool = False, text: str = "", smoke: bool = False
) -> dict[str, Any]:
    """Run a program as one contender: its numbers, the time of its first step and of the others."""
    if is_example(name):
        sys.path.insert(0, str(TESTS))
        return example(name.removeprefix("examples/"), contender, steps, text, smoke)
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
    return {"numbers": numbers, **figures()}


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


def recorded(name: str) -> list[float] | None:
    """Return the numbers that PyTorch was recorded to give for a program; None for those at size."""
    if is_at_size(name):
        return None
    file, key = ("examples", name.removeprefix("examples/")) if is_example(name) else ("programs", name)
    found: dict[str, list[float]] = json.loads((TESTS / "data" / f"{file}.json").read_text())
    return found[key]


def run(name: str, contender: str, threads: int, steps: int, *options: str) -> dict[str, Any] | str:
    """Return what `contend` does in a process of its own, or the reason why there is nothing."""
    variables = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "WENGERT_NUM_THREADS")
    command = [sys.executable, __file__, "--steps", str(steps), *options, "--contend", name, contender]
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
        of = run(name, contender, threads, CHECKED, "--exact")
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


def race(
    name: str, rounds: int, threads: int, steps: int, contenders: list[str], options: list[str]
) -> dict[str, dict[str, list[float]]]:
    """Return the figures of every contender, round by round, in seconds."""
    wanted = recorded(name)
    contenders = able(name, threads, contenders)
    found: dict[str, dict[str, list[float]]] = {c: {"step": [], "processor": [], "first": []} for c in contenders}
    for _ in range(rounds):
        for contender in contenders:
            of = run(name, contender, threads, steps, *options)
            if isinstance(of, str):
                raise SystemExit(f"{name}, {contender}: {of}")
            wanted = of["numbers"] if wanted is None else wanted  # PyTorch's, which comes first
            check(name, contender, of["numbers"], wanted)
            for figure, values in found[contender].items():
                values.append(of[figure])
    return found


def compare(name: str, threads: int, contenders: list[str]) -> list[str]:
    """Return the contenders that run a program and have PyTorch's numbers, or raise SystemExit."""
    wanted = recorded(name)
    if wanted is None:
        return able(name, threads, contenders)
    for contender in contenders:
        of = run(name, contender, threads, CHECKED, "--smoke")
        if isinstance(of, str):
            raise SystemExit(f"{name}, {contender}: {of}")
        check(name, contender, of["numbers"], wanted)
    return contenders


def ratio(found: dict[str, dict[str, list[float]]], a: str, b: str, figure: str = "step") -> str:
    """Return the median over the rounds of one contender's figure over another's."""
    if a not in found or b not in found:
        return ""
    return f"{statistics.median(x / y for x, y in zip(found[a][figure], found[b][figure], strict=True)):.2f}"


def both(found: dict[str, dict[str, list[float]]], a: str, b: str) -> str:
    """Return the ratio by the clock, and in brackets that by the processor's time."""
    by_clock = ratio(found, a, b)
    return f"{by_clock} ({ratio(found, a, b, 'processor')})" if by_clock else ""


def main() -> None:
    """Race the named programs, or the eight."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*", default=USUAL)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--only", nargs="+", default=list(CONTENDERS), choices=CONTENDERS, metavar="CONTENDER")
    parser.add_argument("--text", default="", help="the text that examples/words reads")
    parser.add_argument("--smoke", action="store_true", help="compare, and time nothing")
    parser.add_argument("--exact", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--contend", nargs=2, metavar=("NAME", "CONTENDER"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.contend:
        print(json.dumps(contend(*args.contend, args.steps, args.exact, args.text, args.smoke)))
        return
    contenders = [c for c in CONTENDERS if c in args.only]
    if args.smoke:
        for name in args.names:
            print(f"{name}: {', '.join(compare(name, args.threads, contenders))} agree", flush=True)
        return
    columns = [f"{c}: step ms (processor), first s" for c in contenders]
    columns += [
        "eager / PyTorch eager (processor)",
        "PyTorch eager / compiled (processor)",
        "torch.compile / compiled (processor)",
        "first call: torch.compile / compiled",
    ]
    print("| " + " | ".join(["program", *columns]) + " |")
    print("|" + " --- |" * (len(columns) + 1))
    for name in args.names:
        found = race(name, args.rounds, args.threads, args.steps, contenders, ["--text", args.text])
        cells = []
        for c in contenders:
            if c not in found:
                cells.append("left out")
                continue
            step, processor, first = (statistics.median(found[c][f]) for f in ("step", "processor", "first"))
            cells.append(f"{step * 1e3:.2f} ({processor * 1e3:.2f}), {first:.2f}")
        cells += [
            both(found, "wengert eager", "pytorch eager"),
            both(found, "pytorch eager", "wengert compiled"),
            both(found, "pytorch compiled", "wengert compiled"),
            ratio(found, "pytorch compiled", "wengert compiled", "first"),
        ]
        print("| " + " | ".join([name.replace("_", " "), *cells]) + " |", flush=True)


if __name__ == "__main__":
    main()
