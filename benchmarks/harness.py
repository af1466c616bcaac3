"""Timing contenders side by side in one process: interleaved bursts, medians, ratios."""

from __future__ import annotations

import gc
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class Case:
    """One thing to measure.

    `contenders` maps a name to a function that does it once; `per` is how many operations that is, `pause` the seconds
    after each burst, `clock` what is read before and after one;
    `results` maps a name to a function giving the arrays to check, `reference` the float64 ones.
    """

    name: str
    contenders: dict[str, Callable[[], Any]]
    results: dict[str, Callable[[], list[np.ndarray]]]
    reference: list[np.ndarray]
    per: int = 1
    tolerance: float = 1e-4
    base: str = "wengert"
    pause: float = 0.0
    clock: Callable[[], float] = time.perf_counter
    times: dict[str, list[float]] = field(default_factory=dict)

    def check(self) -> None:
        """Every contender against the float64 reference, before anything is timed."""
        for name, result in self.results.items():
            found = result()
            assert len(found) == len(self.reference), f"{self.name}: {name} gives {len(found)} results"
            for f, r in zip(found, self.reference, strict=True):
                f = np.asarray(f, np.float64)
                assert f.shape == r.shape, f"{self.name}: {name} gives shape {f.shape}, reference {r.shape}"
                error = np.linalg.norm(f - r) / max(np.linalg.norm(r), 1e-30)
                assert error <= self.tolerance, f"{self.name}: {name} is off by {error:.2e}"

    def measure(self, rounds: int, seconds: float) -> None:
        """Bursts of about `seconds`, contenders in a new order every round."""
        rng = random.Random(self.name)
        counts = {name: _size(fn, seconds) for name, fn in self.contenders.items()}
        self.times = {name: [] for name in self.contenders}
        for _ in range(rounds):
            for name in rng.sample(list(self.contenders), len(self.contenders)):
                fn, count = self.contenders[name], counts[name]
                gc.collect()
                start = self.clock()
                for _ in range(count):
                    fn()
                self.times[name].append((self.clock() - start) / count / self.per)
                time.sleep(self.pause)

    def median(self, name: str) -> float:
        return statistics.median(self.times[name])

    def ratio(self, name: str, to: str) -> float:
        """The median over rounds of one contender's time over another's in the same round."""
        return statistics.median(a / b for a, b in zip(self.times[name], self.times[to], strict=True))


def _size(fn: Callable[[], Any], seconds: float) -> int:
    fn()
    start = time.perf_counter()
    fn()
    once = max(time.perf_counter() - start, 1e-7)
    return max(1, int(seconds / once))


def table(cases: list[Case], unit: float, unit_name: str) -> str:
    """A Markdown table: median times, and ratios of the others to Wengert."""
    names = list(dict.fromkeys(n for c in cases for n in c.contenders))
    rows = [
        "| | "
        + " | ".join(f"{n} ({unit_name})" for n in names)
        + " | "
        + " | ".join(f"{n} / wengert" for n in names if n != "wengert")
        + " |"
    ]
    rows.append("| --- |" + " ---: |" * (2 * len(names) - 1))
    for c in cases:
        cells = [f"{c.median(n) / unit:.3g}" if n in c.times else "" for n in names]
        ratios = [f"{c.ratio(n, 'wengert'):.2f}" if n in c.times else "" for n in names if n != "wengert"]
        rows.append(f"| {c.name} | " + " | ".join(cells + ratios) + " |")
    return "\n".join(rows)
