"""Write the documents that the explorer's own tests read: `python scripts/explorer_samples.py FOLDER`.

Each is a real recording of a program below: the lesson of a single product, a training step of a small network, a
transformer's step in which a not-a-number is born going back, and one of many nodes.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import wengert as wg
from wengert.explorer import Document, explore

# -- the lesson: L = (w x + b - t)^2

w = wg.tensor(2.0, dtype=wg.float64, requires_grad=True)
b = wg.tensor(1.0, dtype=wg.float64, requires_grad=True)


def loss(x: Any, t: Any) -> Any:
    L = (w * x + b - t) ** 2
    return L  # noqa: RET504 (the lesson's formula has this name)


def learner() -> Document:
    return explore(loss, 3.0, 5.0).document


# -- a network of single neurons, as micrograd has them: one step of training on four points


class Neuron:
    def __init__(self, rng: np.random.Generator, inputs: int) -> None:
        self.w = [wg.tensor(float(v), requires_grad=True) for v in rng.uniform(-1, 1, inputs)]
        self.b = wg.tensor(0.0, requires_grad=True)

    def __call__(self, x: list[Any]) -> Any:
        total = self.b
        for wi, xi in zip(self.w, x, strict=True):
            total = total + wi * xi
        return wg.tanh(total)


class Network:
    def __init__(self, rng: np.random.Generator, sizes: list[int]) -> None:
        self.layers = [[Neuron(rng, n) for _ in range(m)] for n, m in zip(sizes, sizes[1:])]

    def __call__(self, x: list[Any]) -> Any:
        for layer in self.layers:
            x = [neuron(x) for neuron in layer]
        return x[0]


def mlp() -> Document:
    rng = np.random.default_rng(0)
    network = Network(rng, [3, 4, 3, 1])

    def step(x0: Any, x1: Any, x2: Any, target: Any) -> Any:
        error = network([x0, x1, x2]) - target
        return error * error

    return explore(step, 2.0, 3.0, -1.0, 1.0).document


SAMPLES: dict[str, Callable[[], Document]] = {"learner": learner, "mlp": mlp}


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or SAMPLES:
        began = time.process_time()
        document = SAMPLES[name]()
        text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")
        nodes = len(document["nodes"]["op"])
        print(f"{name}: {nodes:,} nodes, {len(text):,} characters, {time.process_time() - began:.2f} s")


if __name__ == "__main__":
    main()
