"""Programs on PyTorch's libraries: how they are run, and how far their numbers are from those that are recorded."""

import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "torch" / "libraries"
EXPECTED, STATES = FOLDER / "expected.json", FOLDER / "states.json"


def run(name, wengert):
    """Return the numbers of a program by their names, or the last line of what it said."""
    command = [sys.executable, *(["-m", "wengert.torch"] if wengert else []), "run.py", name]
    done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("@@")]
    return json.loads(lines[-1][2:]) if lines else (done.stderr.strip().splitlines() or ["nothing"])[-1]


def difference(expected, found):
    """Return the greatest difference of two programs' numbers, each relative to the greatest of its list."""
    worst = 0.0
    for name, values in expected.items():
        scale = max([abs(v) for v in values if abs(v) < float("inf")] + [1e-3])
        others = found.get(name)
        if others is None or len(others) != len(values):
            return float("inf")
        for a, b in zip(values, others):
            same = a == b or (a != a and b != b)
            off = 0.0 if same else abs(a - b) / scale
            worst = max(worst, off if off == off else float("inf"))
    return worst


def version_of(library):
    """Return the version of the package that a module is of."""
    names = importlib.metadata.packages_distributions()[library]
    return importlib.metadata.version(names[0])
