"""Programs written for PyTorch, raced: PyTorch eager, torch.compile, and `wengert.torch` eager and compiled.

python benchmarks/programs.py [NAME ...] [--rounds N] [--contenders NAME ...] [--smoke]

The programs are those of `tests/torch/programs`, as they stand; each hands its training step to `torch.compile`, which
here is what times it. `examples/NAME` is one of `examples/` at its own size, where `--text` says what examples/words
reads. Contenders take turns in processes of their own; what they compute is compared with what
PyTorch was recorded to give first. Ratios are of medians over the steps of all rounds; the first call counts apart.
`--smoke` compares, and times nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests" / "torch"
CONTENDERS = ("pytorch eager", "pytorch compiled", "wengert eager", "wengert compiled")
USUAL = ("mlp_classifier", "convnet", "resnet", "vae", "lstm_language_model", "gpt", "gcn", "ddpm")

STEPS = 30  # of an example, which has hundreds
CLOCK = time.process_time if "--processor-time" in sys.argv else time.perf_counter


# The seconds of each call. Not in what the programs see as `torch`: a compiler guards what it reads there.
TIMES: list[float] = []


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
            start = CLOCK()
            out = run(*args)
            TIMES.append(CLOCK() - start)
            return out

        return timed


def example(name: str, contender: str, text: str, smoke: bool) -> dict[str, Any]:
    """Run one of `examples/` as one contender: small and in double precision to compare, at its own size for times."""
    from running_examples import SMALL, curve, durations

    library, how = contender.split()
    way: dict[str, Any] = {"compiled": how == "compiled", "by_wengert": library == "wengert"}
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        # What an example draws within its step is drawn otherwise once the step is compiled.
        compared = {**way, "compiled": False} if name == "vae" else way
        case = next(c for c in SMALL if c.split()[0] == name)
        numbers = curve(case, **compared, folder=Path(folder))
        more = ["--data", text] if text else []
        times = (
            [0.0] * 4
            if smoke
            else durations(name, **way, steps=STEPS, clock=CLOCK, arguments=[*more, "--out", f"{folder}/p.svg"])
        )
    return {"numbers": numbers, "first": times[0], "steps": times[3:]}


def contend(name: str, contender: str, text: str, smoke: bool) -> dict[str, Any]:
    """Run a program as one contender: its numbers, the time of its first step and of the others."""
    sys.path[:0] = [str(TESTS), str(TESTS / "programs")]
    if name.startswith("examples/"):
        return example(name.removeprefix("examples/"), contender, text, smoke)
    from running import edited

    file = TESTS / "programs" / f"{name}.py"
    source = file.read_text(encoding="utf-8")
    library, how = contender.split()
    module: Any = types.ModuleType(f"program_{name}")
    sys.modules[module.__name__] = module
    exec(compile(edited(source) if library == "wengert" else source, str(file), "exec"), vars(module))
    module.torch = Timed(module.torch, how == "compiled")
    numbers = [float(v) for v in module.main(True)]
    return {"numbers": numbers, "first": TIMES[0], "steps": TIMES[3:]}


def recorded(name: str) -> list[float]:
    """The numbers that PyTorch gave."""
    file, _, key = name.rpartition("/")
    found: dict[str, list[float]] = json.loads((TESTS / "data" / f"{file or 'programs'}.json").read_text())
    return found[key]


def race(name: str, rounds: int, contenders: Sequence[str], options: Sequence[str]) -> dict[str, dict[str, float]]:
    """The median step and the first call of every contender, in seconds."""
    steps: dict[str, list[float]] = {c: [] for c in contenders}
    first: dict[str, list[float]] = {c: [] for c in contenders}
    for _ in range(rounds):
        for contender in contenders:
            command = [sys.executable, __file__, "--contend", name, contender, *options]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise SystemExit(f"{name}, {contender}:\n{done.stderr[-2000:]}")
            found = json.loads(done.stdout.splitlines()[-1])
            for a, b in zip(found["numbers"], recorded(name), strict=True):
                # What PyTorch's compiler gives differs from what it gives itself by up to 1e-5.
                if abs(a - b) > (1e-4 if contender == "pytorch compiled" else 1e-8) * max(1.0, abs(b)):
                    raise SystemExit(f"{name}, {contender}: {a}, where PyTorch was recorded to give {b}")
            steps[contender] += found["steps"]
            first[contender].append(found["first"])
    return {c: {"step": statistics.median(steps[c]), "first": statistics.median(first[c])} for c in contenders}


def main() -> None:
    """Race the named programs, or the usual eight."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*", default=USUAL)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--contenders", nargs="*", default=CONTENDERS, help="who takes part", choices=CONTENDERS)
    parser.add_argument("--processor-time", action="store_true", help="what the processor spent: for busy machines")
    parser.add_argument("--text", default="", help="the text that examples/words reads")
    parser.add_argument("--smoke", action="store_true", help="compare, and time nothing")
    parser.add_argument("--contend", nargs=2, metavar=("NAME", "CONTENDER"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.contend:
        print(json.dumps(contend(*args.contend, args.text, args.smoke)))
        return
    columns = [f"{c}: step ms, first s" for c in args.contenders]
    ratios = ["eager / PyTorch", "best of PyTorch / compiled"]
    print("| " + " | ".join(["program", *columns, *ratios]) + " |")
    print("|" + " --- |" * (len(columns) + 3))
    for name in args.names:
        options = ["--text", args.text] if name == "examples/words" else []
        options += ["--smoke"] * args.smoke + ["--processor-time"] * args.processor_time
        rounds = 1 if args.smoke else args.rounds
        found = race(name, rounds, args.contenders, options)
        if args.smoke:
            print(f"{name}: what {', '.join(args.contenders)} give is as recorded", flush=True)
            continue
        cells = [f"{found[c]['step'] * 1e3:.3f}, {found[c]['first']:.2f}" for c in args.contenders]
        step = {c: found[c]["step"] if c in found else math.nan for c in CONTENDERS}
        eager = step["wengert eager"] / step["pytorch eager"]
        best = min((step[c] for c in args.contenders if c.startswith("pytorch")), default=math.nan)
        cells += [f"{eager:.2f}", f"{best / step['wengert compiled']:.2f}"]
        print("| " + " | ".join([name.replace("_", " "), *cells]) + " |", flush=True)


if __name__ == "__main__":
    main()
