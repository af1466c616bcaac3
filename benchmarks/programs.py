"""Programs written for PyTorch, raced: PyTorch eager, torch.compile, and `wengert.torch` eager and compiled.

python benchmarks/programs.py [NAME ...] [--rounds N]

The programs are those of `tests/torch/programs`, as they stand; each hands its training step to `torch.compile`, which
here is what times it. Contenders take turns in processes of their own; what they compute is compared with what
PyTorch was recorded to give first. Ratios are of medians over the steps of all rounds; the first call counts apart.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
import types
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests" / "torch"
CONTENDERS = ("pytorch eager", "pytorch compiled", "wengert eager", "wengert compiled")
USUAL = ("mlp_classifier", "convnet", "resnet", "vae", "lstm_language_model", "gpt", "gcn", "ddpm")


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
            start = time.perf_counter()
            out = run(*args)
            TIMES.append(time.perf_counter() - start)
            return out

        return timed


def contend(name: str, contender: str) -> dict[str, Any]:
    """Run a program as one contender: its numbers, the time of its first step and of the others."""
    sys.path[:0] = [str(TESTS), str(TESTS / "programs")]
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


def race(name: str, rounds: int) -> dict[str, dict[str, float]]:
    """The median step and the first call of every contender, in seconds."""
    recorded = json.loads((TESTS / "data" / "programs.json").read_text())[name]
    steps: dict[str, list[float]] = {c: [] for c in CONTENDERS}
    first: dict[str, list[float]] = {c: [] for c in CONTENDERS}
    for _ in range(rounds):
        for contender in CONTENDERS:
            command = [sys.executable, __file__, "--contend", name, contender]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise SystemExit(f"{name}, {contender}:\n{done.stderr[-2000:]}")
            found = json.loads(done.stdout.splitlines()[-1])
            for a, b in zip(found["numbers"], recorded, strict=True):
                # What PyTorch's compiler gives differs from what it gives itself by up to 1e-5.
                if abs(a - b) > (1e-4 if contender == "pytorch compiled" else 1e-8) * max(1.0, abs(b)):
                    raise SystemExit(f"{name}, {contender}: {a}, where PyTorch was recorded to give {b}")
            steps[contender] += found["steps"]
            first[contender].append(found["first"])
    return {c: {"step": statistics.median(steps[c]), "first": statistics.median(first[c])} for c in CONTENDERS}


def main() -> None:
    """Race the named programs, or the usual eight."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*", default=USUAL)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--contend", nargs=2, metavar=("NAME", "CONTENDER"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.contend:
        print(json.dumps(contend(*args.contend)))
        return
    columns = [f"{c}: step ms, first s" for c in CONTENDERS]
    print("| " + " | ".join(["program", *columns, "eager / PyTorch", "best of PyTorch / compiled"]) + " |")
    print("|" + " --- |" * (len(CONTENDERS) + 3))
    for name in args.names:
        found = race(name, args.rounds)
        cells = [f"{found[c]['step'] * 1e3:.3f}, {found[c]['first']:.2f}" for c in CONTENDERS]
        eager = found["wengert eager"]["step"] / found["pytorch eager"]["step"]
        best = min(found["pytorch eager"]["step"], found["pytorch compiled"]["step"])
        cells += [f"{eager:.2f}", f"{best / found['wengert compiled']['step']:.2f}"]
        print("| " + " | ".join([name.replace("_", " "), *cells]) + " |", flush=True)


if __name__ == "__main__":
    main()
