"""What a budget of memory costs: a transformer's training step without one, and within parts of what that takes.

    python benchmarks/memory.py                 # twelve layers, 256 wide: a Markdown table
    python benchmarks/memory.py --width 128 --threads 1
    python benchmarks/memory.py --smoke         # small; results are checked, nothing is timed

The step is forward, backward and Adam's update of a decoder of ordinary shape (norms first, causal attention, GELU, a
loss over the vocabulary) in float32. Two figures are halved: what a call takes beside the arguments, the parameters
and Adam's averages (`growth`, which `memory=` limits), and everything together (`whole`: those and the growth).
Losses and parameters after three steps are compared with those of the free step before anything is timed. The steps
are timed by turns in a new order every round: the processor time of this process, a ratio the median of the rounds'
ratios. Resident memory is measured in a process each (Linux only), and so is what compiling takes, without the cache.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import wengert as wg

# Parts of the free growth that the step gets.
PARTS = (0.5, 0.4, 0.3)
COLUMNS = ("growth", "whole", "grown by", "resident", "processor time", "ratio", "estimated", "planning", "results")
# What sums in another order may change in three steps, relative to the largest parameter.
TOLERANCE = 1e-4


class Sizes(NamedTuple):
    """The shape of the model and of a batch."""

    layers: int
    width: int
    heads: int
    batch: int
    length: int
    vocabulary: int


class Attention(wg.nn.Module):
    """Causal attention of several heads, its three projections as one product."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.heads = sizes.heads
        self.inner = wg.nn.Linear(sizes.width, 3 * sizes.width)
        self.outer = wg.nn.Linear(sizes.width, sizes.width)

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        split = self.inner(x).reshape(batch, length, 3, self.heads, width // self.heads)
        query, key, value = wg.permute_dims(split, (2, 0, 3, 1, 4))
        found = wg.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.outer(wg.permute_dims(found, (0, 2, 1, 3)).reshape(batch, length, width))


class Layer(wg.nn.Module):
    """Attention and a network of two layers, each added to what it is given."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.norms = wg.nn.ModuleList([wg.nn.LayerNorm(sizes.width) for _ in range(2)])
        self.attention = Attention(sizes)
        self.wide = wg.nn.Linear(sizes.width, 4 * sizes.width)
        self.narrow = wg.nn.Linear(4 * sizes.width, sizes.width)

    def forward(self, x: Any) -> Any:
        x = x + self.attention(self.norms[0](x))
        return x + self.narrow(wg.nn.functional.gelu(self.wide(self.norms[1](x))))


class Decoder(wg.nn.Module):
    """Letters and their positions, layers, and what letter comes next."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.letters = wg.nn.Embedding(sizes.vocabulary, sizes.width)
        self.positions = wg.nn.Embedding(sizes.length, sizes.width)
        self.layers = wg.nn.ModuleList([Layer(sizes) for _ in range(sizes.layers)])
        self.norm = wg.nn.LayerNorm(sizes.width)
        self.head = wg.nn.Linear(sizes.width, sizes.vocabulary, bias=False)

    def forward(self, letters: Any) -> Any:
        x = self.letters(letters) + self.positions(wg.arange(letters.shape[1]))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class Training:
    """A model with its data and its compiled step, the same from the same seed."""

    def __init__(self, sizes: Sizes, **options: Any) -> None:
        wg.manual_seed(0)
        self.model = Decoder(sizes)
        self.optimizer = optimizer = wg.optim.Adam(self.model.parameters(), lr=1e-3)
        letters = np.random.default_rng(0).integers(0, sizes.vocabulary, (sizes.batch, sizes.length + 1))
        self.batch = (wg.tensor(letters[:, :-1].copy()), wg.tensor(letters[:, 1:].copy()))

        @wg.jit(**options)
        def step(letters: Any, following: Any) -> Any:
            scores = self.model(letters)
            loss = wg.nn.functional.cross_entropy(scores.reshape(-1, sizes.vocabulary), following.reshape(-1))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()  # gradients that nothing reads afterwards need no memory of their own
            return loss

        self.step = step

    def __call__(self) -> float:
        return float(self.step(*self.batch))

    def state(self) -> list[np.ndarray]:
        """The parameters."""
        return [p.detach().numpy().copy() for p in self.model.parameters()]


class Row(NamedTuple):
    """A step of the table: its budget, and the part of a free step's memory that this is."""

    name: str
    limit: int | None


def rows(sizes: Sizes) -> list[Row]:
    """The free step, and those within parts of its growth and within half of everything, where that is possible."""
    made = Training(sizes)
    made()
    growth, whole = made.step.memory.growth, made.step.memory.peak
    found = [Row("free", None)] + [Row(f"{part:.0%} of the growth", int(growth * part)) for part in PARTS]
    half = whole // 2 - (whole - growth)
    return [*found, Row("50% of the whole", half)] if half > 0 else found


def check(free: Training, other: Training, name: str) -> str:
    """Compare three steps; return how far parameters are apart.

    Raises AssertionError where that is more than rounding.
    """
    for _ in range(3):
        a, b = free(), other()
        assert abs(a - b) <= TOLERANCE * abs(a), f"{name}: a loss of {b}, without a budget {a}"
    pairs = list(zip(free.state(), other.state(), strict=True))
    if all((a == b).all() for a, b in pairs):
        return "same bits"
    off = max(float(abs(a - b).max()) for a, b in pairs) / max(float(abs(a).max()) for a, _ in pairs)
    assert off <= TOLERANCE, f"{name}: parameters are off by {off:.1e}"
    return f"within {off:.0e}"


def turns(contenders: dict[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """The seconds of processor time of each contender in each round."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    rng = random.Random(0)
    for _ in range(rounds):
        for name in rng.sample(list(contenders), len(contenders)):
            gc.collect()
            start = time.process_time()
            contenders[name]()
            times[name].append(time.process_time() - start)
    return times


# -- in a process each


def measured(sizes: Sizes, limit: int | None, threads: int) -> dict[str, float]:
    """What planning takes of the processor, and by how much the process grows in a call."""
    command = [sys.executable, __file__, "--measure", json.dumps([*sizes]), "--threads", str(threads)]
    if limit is not None:
        command += ["--limit", str(limit)]
    environment = {**os.environ, "WENGERT_CACHE": "0"}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def measure(sizes: Sizes, limit: int | None) -> dict[str, float]:
    """What :func:`measured` gives, in this process."""
    wg.jit(lambda x: wg.exp(x @ x) + 1)(wg.ones((3, 3)))  # LLVM is loaded, and threads are there
    made = Training(sizes, **({} if limit is None else {"memory": limit}))
    lowered = made.step.lower(*made.batch)
    traced = time.process_time()
    lowered.compile().plan  # noqa: B018  # made when it is first looked at
    planned = time.process_time()
    # Zeros that were never written have no memory yet; the step's is counted from here.
    for buffers in made.optimizer.state.values():
        for array in buffers.values():
            if isinstance(array, np.ndarray):
                array += 0
    gc.collect()
    found = {"planned": planned - traced}
    if sys.platform != "linux":
        return found
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    made()
    return found | {"grown": _status("VmHWM") - before, "resident": _status("VmHWM")}


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name + ":"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--vocabulary", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--smoke", action="store_true", help="check the results at small sizes, time nothing")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--limit", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    wg.set_num_threads(given.threads)
    if given.measure:
        print(json.dumps(measure(Sizes(*json.loads(given.measure)), given.limit)))
        return
    sizes = Sizes(given.layers, given.width, given.heads, given.batch, given.length, given.vocabulary)
    if given.smoke:
        smoke()
        return
    print(", ".join(f"{name} {value}" for name, value in sizes._asdict().items()), f"threads {given.threads}")
    chosen = rows(sizes)
    made = {r.name: Training(sizes, **({} if r.limit is None else {"memory": r.limit})) for r in chosen}
    same = {r.name: check(Training(sizes), made[r.name], r.name) for r in chosen}
    times = turns(dict(made), given.rounds)
    print("| | " + " | ".join(COLUMNS) + " |")
    print("| --- |" + " ---: |" * len(COLUMNS))
    for row in chosen:
        memory = made[row.name].step.memory
        apart = measured(sizes, row.limit, given.threads)
        ratio = statistics.median(a / b for a, b in zip(times[row.name], times["free"], strict=True))
        budget = wg.explain.memory(made[row.name].step)
        cells = [
            *(f"{n / 1e6:.1f} MB" for n in (memory.growth, memory.peak)),
            *(f"{apart[n] / 1e6:.1f} MB" if n in apart else "" for n in ("grown", "resident")),
            f"{statistics.median(times[row.name]) * 1e3:.1f} ms",
            f"{ratio:.3f}",
            f"{1 + budget.slower:.3f}",
            f"{apart['planned']:.2f} s",
            same[row.name],
        ]
        print(f"| {row.name} | " + " | ".join(cells) + " |", flush=True)


def smoke(part: float = 0.6) -> None:
    """Check a small step within a part of its memory against the free one."""
    sizes = Sizes(layers=3, width=32, heads=2, batch=2, length=16, vocabulary=32)
    free = Training(sizes)
    free()
    limit = int(free.step.memory.growth * part)
    within = Training(sizes, memory=limit)
    check(Training(sizes), within, "the small step")
    assert within.step.memory.growth <= limit


if __name__ == "__main__":
    main()
