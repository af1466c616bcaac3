"""Training curves of three examples in float32 and in half precision, from the same starts on the same batches.

    python benchmarks/curves.py                                        # digits, which the package holds
    python benchmarks/curves.py --images MNIST --text input.txt        # the convolutional network and the transformer
    python benchmarks/curves.py --smoke                                # a few steps; every curve must fall

A row has the mean of the last losses, with their standard deviation between seeds; then, in half precision, the largest
distance from the float32 curve of the same seed, in means of 20 steps; and what is right of held-out data.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import wengert as wg
from wengert import nn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))
import mnist
import shakespeare

F = nn.functional
PRECISIONS = (None, "bfloat16", "float16")
SMOOTHED, LAST = 20, 50


class Task(NamedTuple):
    """A model, its optimiser, its batches from a seed, and the held-out data."""

    model: Callable[[], nn.Module]
    optimizer: Callable[[Any], Any]
    batches: Callable[[int], Iterator[tuple[Any, Any]]]
    held_out: tuple[np.ndarray, np.ndarray]


def digits() -> Task:
    """Return the perceptron of the README's demo on the embedded digits."""
    images, labels = wg.data.load_digits()
    x, y = images.reshape(-1, 64), labels
    order = np.random.default_rng(0).permutation(len(x))
    train, held = order[360:], order[:360]

    def batches(seed: int) -> Iterator[tuple[Any, Any]]:
        epoch = 0
        while True:
            yield from wg.data.batches(x[train], y[train], size=32, shuffle=True, seed=1000 * seed + epoch)
            epoch += 1

    model = lambda: nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    return Task(model, lambda p: wg.optim.SGD(p, lr=0.1, momentum=0.9), batches, (x[held], y[held]))


def images(folder: Path) -> Task:
    """Return the convolutional network of examples/mnist.py."""
    x, y, held_x, held_y = mnist.load(folder)

    def batches(seed: int) -> Iterator[tuple[Any, Any]]:
        epoch = 0
        while True:
            yield from wg.data.batches(x, y, size=64, shuffle=True, seed=1000 * seed + epoch)
            epoch += 1

    return Task(
        lambda: mnist.make_model("cnn"), lambda p: wg.optim.AdamW(p, lr=2e-3), batches, (held_x[:500], held_y[:500])
    )


def characters(text: Path) -> Task:
    """Return a transformer of two blocks as in examples/shakespeare.py."""
    letters, codes = np.unique(np.array(list(text.read_text())), return_inverse=True)
    cut, length = len(codes) * 9 // 10, 64

    def rows(ids: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = ids[starts[:, None] + np.arange(length + 1)]
        return found[:, :-1].copy(), found[:, 1:].copy()

    def batches(seed: int) -> Iterator[tuple[Any, Any]]:
        rng = np.random.default_rng(seed)
        while True:
            yield tuple(map(wg.asarray, rows(codes, rng.integers(0, cut - length - 1, 16))))

    held = rows(codes, np.arange(cut, len(codes) - length - 1, 997)[:64])
    model = lambda: shakespeare.Model(len(letters), length, 96, 4, 2)
    return Task(model, lambda p: wg.optim.AdamW(p, lr=2e-3), batches, held)


def curve(task: Task, precision: str | None, seed: int, steps: int) -> tuple[np.ndarray, float]:
    """Return the losses of a training, and the part of the held-out data that is right after it."""
    wg.manual_seed(seed)
    model = task.model()
    optimizer = task.optimizer(model.parameters())
    scaler = wg.train.GradScaler(enabled=precision == "float16")

    @wg.jit
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        with wg.autocast(precision or "bfloat16", enabled=precision is not None):
            logits = model(x)
            loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), y.reshape(-1))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss

    losses = [step(*batch).item() for batch, _ in zip(task.batches(seed), range(steps))]
    x, y = task.held_out
    with wg.no_grad(), wg.autocast(precision or "bfloat16", enabled=precision is not None):
        right = (wg.argmax(wg.jit(model)(wg.asarray(x)), axis=-1) == wg.asarray(y)).astype("float32").mean().item()
    return np.array(losses), right


def row(name: str, task: Task, seeds: int, steps: int) -> str:
    """Return the task's row of the table."""
    found = {p: [curve(task, p, seed, steps) for seed in range(seeds)] for p in PRECISIONS}
    smooth = lambda losses: losses[: len(losses) // SMOOTHED * SMOOTHED].reshape(-1, SMOOTHED).mean(1)
    cells = []
    for precision, runs in found.items():
        ends = [losses[-LAST:].mean() for losses, _ in runs]
        cell = f"{np.mean(ends):.4f} ± {np.std(ends):.4f}"
        if precision is not None:
            apart = [np.abs(smooth(a) - smooth(b)).max() for (a, _), (b, _) in zip(runs, found[None])]
            cell += f" ({max(apart):.4f})"
        cells.append(f"{cell}; {np.mean([right for _, right in runs]):.1%}")
        for losses, _ in runs:
            tail = max(1, len(losses) // 4)
            assert losses[-tail:].mean() < losses[:tail].mean(), f"{name}: the loss does not fall in {precision}"
    return f"| {name} | " + " | ".join(cells) + " |"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=Path, help="folder with MNIST's IDX files")
    parser.add_argument("--text", type=Path, help="a text file")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--smoke", action="store_true", help="one seed, few steps")
    given = parser.parse_args(arguments)
    seeds, steps = (1, 40) if given.smoke else (given.seeds, given.steps)
    print("| | float32 | bfloat16 | float16, scaled |\n| --- | --- | --- | --- |")
    print(row("digits, 64-64-10, SGD", digits(), seeds, steps), flush=True)
    if given.images is not None:
        print(row("MNIST, two convolutions, AdamW", images(given.images), seeds, steps), flush=True)
    if given.text is not None:
        print(row("characters, two transformer blocks, AdamW", characters(given.text), seeds, steps), flush=True)


if __name__ == "__main__":
    main()
