"""Measure Wengert beside its peers, in one run, every result checked against float64 first.

pip install torch autograd jax  # the peers; whichever is installed takes part
python benchmarks/run.py
python benchmarks/run.py --only models --rounds 15
python benchmarks/run.py --smoke     # check results only, time nothing
python benchmarks/run.py --only native   # compiled functions: benchmarks/native/run.py, with options of its own
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import statistics
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import derivatives
import eager
import jacobians
import models
import numpy as np
import products
from harness import Case, table
from peers import autograd_module, jax_module, torch_module

import wengert as wg

GROUPS = {
    "forward": (
        "One operation on 8 float32 elements, nothing recorded",
        lambda: eager.forward_cases(False),
        1e-9,
        "ns",
    ),
    "recorded": ("One operation on 8 float32 elements, recorded", lambda: eager.forward_cases(True), 1e-9, "ns"),
    "backward": ("Backward of one operation on 8 float32 elements", eager.backward_cases, 1e-9, "ns"),
    "derivatives": ("Derivatives of every kind, eager, float32", derivatives.cases, 1e-6, "µs"),
    "elimination": (
        "Jacobians by vertex elimination (wengert), in forward and in reverse mode; "
        "multiplications of forward, reverse and Markowitz order",
        jacobians.elimination_cases,
        1e-6,
        "µs",
    ),
    "sparse": ("A sparse Jacobian by colouring (wengert), and the dense one", jacobians.sparse_cases, 1e-6, "µs"),
    "products": (
        "Compiled products of float32 matrices; N: rows side by side in memory, T: columns",
        products.cases,
        1e-6,
        "µs",
    ),
    "models": ("A training step of each example", models.cases, 1e-3, "ms"),
}


def import_cost(rounds: int) -> str:
    """CPU time of `import wengert` beyond `import numpy`, in fresh interpreters by turns."""

    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}

    def cpu(code: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], check=True, env=environment)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    cpu("import wengert")  # compiles the modules once, as installing does
    pairs = [(cpu("import numpy"), cpu("import wengert")) for _ in range(rounds)]
    base, extra = (statistics.median(p[0] for p in pairs), statistics.median(b - a for a, b in pairs))
    return (
        f"`import numpy` {base * 1e3:.0f} ms of CPU time; "
        f"`import wengert` {extra * 1e3:.0f} ms more (medians of {rounds})"
    )


def machine() -> str:
    versions = [f"wengert {wg.__version__}", f"numpy {np.__version__}", f"Python {platform.python_version()}"]
    for module in (torch_module(), autograd_module(), jax_module()):
        if module is not None:
            versions.append(f"{module.__name__} {getattr(module, '__version__', '')}".strip())
    return ", ".join(versions) + f"; {platform.machine()}, {os.cpu_count()} processors"


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure Wengert beside its peers.")
    parser.add_argument(
        "--only", choices=[*GROUPS, "import", "native"], action="append", help="one part (may be repeated)"
    )
    parser.add_argument("--rounds", type=int, default=9, help="bursts of each contender (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=0.05, help="length of a burst (default %(default)s)")
    parser.add_argument("--smoke", action="store_true", help="check results, time nothing")
    args = parser.parse_args()
    chosen = args.only or [*GROUPS, "import", "native"]
    if not args.smoke:
        print(machine(), "\n")
    for name, (title, make, unit, unit_name) in GROUPS.items():
        if name not in chosen:
            continue
        cases: list[Case] = make()
        for case in cases:
            case.check()
            if not args.smoke:
                case.measure(args.rounds, args.seconds)
        print(f"## {title}\n")
        print(f"{len(cases)} cases checked\n" if args.smoke else table(cases, unit, unit_name) + "\n")
    if "import" in chosen and not args.smoke:
        print("## Import\n\n" + import_cost(args.rounds))
    if "native" in chosen:
        print("## Compiled functions\n", flush=True)
        own = ["--smoke"] if args.smoke else ["--rounds", str(args.rounds)]
        subprocess.run([sys.executable, str(Path(__file__).with_name("native") / "run.py"), *own], check=True)


if __name__ == "__main__":
    main()
