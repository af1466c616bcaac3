"""Compiled functions beside the peers: every result checked against float64, then timed by turns.

pip install 'wengert[bench]'        # the peers; whichever is installed takes part
python benchmarks/native/run.py            # all problems: a Markdown table
python benchmarks/native/run.py --peers ~/peers/bin/python     # the peers in an environment of their own
python benchmarks/native/run.py --only 'mlp_*' --only gpt_mini --contenders wengert,jax --rounds 15
python benchmarks/native/run.py --smoke    # small sizes, results only
python benchmarks/native/figures.py        # what is no race: call overhead, first calls, compile times, ...
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np
from contenders import CONTENDERS, PROBLEMS, check, installed, left_out, prepare, reference
from problem import Problem

import wengert as wg


class Slot:
    """A contender's process on one problem, and the times that it gave."""

    def __init__(self, contender: str, problem: Problem, expected: Path, python: str, threads: int) -> None:
        counts = {f"{k}_NUM_THREADS": str(threads) for k in ("WENGERT", "OMP", "OPENBLAS", "MKL")}
        command = [python, str(Path(__file__).with_name("worker.py")), contender, problem.name, str(expected)]
        self.contender = contender
        self.times: list[float] = []
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **counts, "JAX_PLATFORMS": "cpu"},
        )

    def ready(self) -> dict[str, float]:
        """The first call's time and the error, once the check is passed."""
        found: dict[str, float] = json.loads(self._line())
        return found

    def round(self, seconds: float) -> None:
        """One burst."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"round": seconds}) + "\n")
        self.process.stdin.flush()
        self.times.append(json.loads(self._line()))

    def close(self) -> None:
        """End the process."""
        if self.process.poll() is None:
            self.process.communicate("\n")

    def _line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            _, said = self.process.communicate()
            raise RuntimeError(f"{self.contender} failed:\n{said[-2000:]}")
        return line


def race(problem: Problem, pythons: dict[str, str], rounds: int, seconds: float, threads: int) -> dict[str, Slot]:
    """The contenders, each by its interpreter, on one problem, in a new order every round; those that are right."""
    data = problem.make(problem.sizes)
    slots: dict[str, Slot] = {}
    with tempfile.TemporaryDirectory() as folder:
        expected = Path(folder) / "reference.npz"
        np.savez(expected, **reference(problem, data, problem.sizes))  # type: ignore[arg-type]
        for name, python in pythons.items():
            if (why := left_out(name, problem)) is not None:
                print(f"{problem.name}: without {name}: {why}", file=sys.stderr)
                continue
            slot = Slot(name, problem, expected, python, threads)
            try:
                found = slot.ready()
            except RuntimeError as e:
                print(f"{problem.name}: {e}", file=sys.stderr)
                continue
            slots[name] = slot
            print(f"{problem.name}: {name}: first {found['first']:.2f} s, {found['error']:.0e} off", file=sys.stderr)
    order = random.Random(problem.name)
    for _ in range(rounds):
        for slot in order.sample(list(slots.values()), len(slots)):
            slot.round(seconds)
    for slot in slots.values():
        slot.close()
    return slots


def duration(seconds: float) -> str:
    """With three digits and a unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.1e} s"


def ratio(slots: dict[str, Slot], name: str) -> float | None:
    """The median over rounds of a contender's time over Wengert's in the same round."""
    if name not in slots or "wengert" not in slots:
        return None
    return statistics.median(a / b for a, b in zip(slots[name].times, slots["wengert"].times, strict=True))


def row(problem: Problem, slots: dict[str, Slot], names: list[str]) -> str:
    """One problem's line: times, and how often Wengert's fits into each."""
    cells = []
    for name in names:
        slot, times = slots.get(name), ratio(slots, name)
        cell = "" if slot is None else duration(statistics.median(slot.times))
        cells.append(cell if times is None or name == "wengert" else f"{cell} ({times:.2f})")
    peers = [r for n in names if n not in ("wengert", "wengert.xla", "numpy") and (r := ratio(slots, n)) is not None]
    return f"| {problem.name} | " + " | ".join(cells) + f" | {f'**{min(peers):.2f}**' if peers else ''} |"


def smoke(problems: list[Problem], names: list[str]) -> None:
    """Check every installed contender at small sizes, in this process."""
    for problem in problems:
        sizes = problem.scaled(small=True)
        data = problem.make(sizes)
        expected = reference(problem, data, sizes)
        for name in names:
            # Compiling takes torch minutes; a run at full size checks it.
            if name != "torch.compile" and installed(name) and left_out(name, problem) is None:
                check(problem, prepare(name, problem, data, sizes), expected, data)


def versions(python: str) -> dict[str, str]:
    """Of the contenders' modules that an interpreter has."""
    code = (
        "import json, sys; from importlib import metadata, util; "
        "print(json.dumps({m: metadata.version(m) for m in sys.argv[1:] if util.find_spec(m)}))"
    )
    modules = sorted({m for m in CONTENDERS.values() if m != "wengert"})
    done = subprocess.run([python, "-c", code, *modules], check=True, capture_output=True, text=True)
    found: dict[str, str] = json.loads(done.stdout)
    return found


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Compiled functions beside the peers.")
    parser.add_argument("--only", action="append", metavar="PATTERN", help="problems (may be repeated)")
    parser.add_argument("--contenders", default=",".join(CONTENDERS), help="default %(default)s")
    parser.add_argument("--peers", default=sys.executable, help="the peers' interpreter (default: this one)")
    parser.add_argument("--rounds", type=int, default=9, help="bursts of each contender (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=0.25, help="length of a burst (default %(default)s)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="threads of each (default %(default)s)")
    parser.add_argument("--smoke", action="store_true", help="check results at small sizes, time nothing")
    args = parser.parse_args(argv)
    names = args.contenders.split(",")
    if unknown := set(names) - set(CONTENDERS):
        parser.error(f"no contender {', '.join(sorted(unknown))}; there are {', '.join(CONTENDERS)}")
    patterns = args.only or ["*"]
    problems = [p for p in PROBLEMS.values() if any(fnmatch.fnmatch(p.name, pattern) for pattern in patterns)]
    if args.smoke:
        smoke(problems, names)
        print(f"{len(problems)} problems checked")
        return
    listed = versions(args.peers)
    pythons = {
        n: sys.executable if n.startswith("wengert") else args.peers
        for n in names
        if n == "wengert" or CONTENDERS[n] in listed
    }
    there = list(pythons)
    print(
        f"wengert {wg.__version__}, {', '.join(f'{k} {v}' for k, v in listed.items())}; Python "
        f"{platform.python_version()}, {platform.machine()}, {os.cpu_count()} processors, {args.threads} threads\n"
        f"Medians over {args.rounds} rounds; in brackets, the ratio to Wengert's time.\n"
    )
    if missing := [n for n in names if n not in pythons]:
        print(f"Without {', '.join(missing)}: not installed.\n")
    print("| | " + " | ".join(there) + " | best peer |\n| --- |" + " ---: |" * (len(there) + 1), flush=True)
    best: list[float] = []
    for problem in problems:
        slots: dict[str, Any] = race(problem, pythons, args.rounds, args.seconds, args.threads)
        print(row(problem, slots, there), flush=True)
        if peers := [
            r for n in there if n not in ("wengert", "wengert.xla", "numpy") and (r := ratio(slots, n)) is not None
        ]:
            best.append(min(peers))
    if best:
        print(f"\nGeometric mean over the best peer: {statistics.geometric_mean(best):.2f}")


if __name__ == "__main__":
    main()
