"""Write the documents that the explorer's own tests read: `python scripts/explorer_samples.py FOLDER`.

Each is a real recording of a program below: the lesson of a single product, numbers that meet a tensor, a program that
decides by its values, a training step of a small network, a transformer's step in which a not-a-number is born going
back, and one of many nodes.
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
from wengert import nn, optim
from wengert.explorer import Document, explore

# -- the lesson: L = (w x + b - t)^2

w = wg.tensor(2.0, dtype=wg.float64, requires_grad=True)
b = wg.tensor(1.0, dtype=wg.float64, requires_grad=True)


def loss(x: Any, t: Any) -> Any:
    L = (w * x + b - t) ** 2
    return L  # noqa: RET504 (the lesson's formula has this name)


def learner() -> Document:
    return explore(loss, 3.0, 5.0).document


# -- single numbers that meet a tensor: their gradients are numbers, and no slope is


def summed(w: Any, b: Any, x: Any) -> Any:
    error = w * x + b - 2.0
    return (error * error).sum()


def sums() -> Document:
    return explore(summed, 1.5, -0.638, np.array([0.5, -1.0, 2.0]), compiled=False).document


# -- a program that takes numbers out of its graph, to go on with one and to decide by another


def deciding(a: Any, b: Any) -> Any:
    s = (a * a).item()
    if b > 0:
        return b * s
    return -b


def decisions() -> Document:
    return explore(deciding, 2.0, 3.0, compiled=False).document


# -- an op that is declared by a formula, which the page computes


def declared() -> Document:
    log_cosh = wg.ops.elementwise(
        "log_cosh(x)",
        "logaddexp(x, -x) - log(2)",
        forward=lambda x: np.logaddexp(x, -x) - x.dtype.type(np.log(2.0)),
        partials={"x": lambda x: wg.tanh(x) if isinstance(x, wg.Tensor) else np.tanh(x)},
    )
    return explore(lambda a: 2.0 * log_cosh(3.0 * a), 0.5, compiled=False).document


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
    network = Network(rng, [3, 3, 2, 1])

    def step(x0: Any, x1: Any, x2: Any, target: Any) -> Any:
        error = network([x0, x1, x2]) - target
        return error * error

    return explore(step, 2.0, 3.0, -1.0, 1.0).document


# -- a transformer written with plain operations, twelve blocks of fourteen heads: about 10,000 nodes


class Norm(nn.Module):
    """Queries and keys by their length. The root is taken before `eps` is added: at 0 it has no slope."""

    def forward(self, q: Any) -> Any:
        n = (q * q).sum(-1).sqrt() + 1e-6
        return q / n[..., None]


class SafeNorm(nn.Module):
    """The same with `eps` inside of the root."""

    def forward(self, q: Any) -> Any:
        n = ((q * q).sum(-1) + 1e-6).sqrt()
        return q / n[..., None]


def rotated(x: Any, cos: Any, sin: Any) -> Any:
    """Positions as rotations of pairs (Su et al., "RoFormer", 2021)."""
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    return wg.concat([a * cos - b * sin, a * sin + b * cos], -1)


class Head(nn.Module):
    def __init__(self, width: int, size: int, norm: type[nn.Module]) -> None:
        self.q_proj = nn.Parameter(wg.random.normal((width, size)) * width**-0.5)
        self.k_proj = nn.Parameter(wg.random.normal((width, size)) * width**-0.5)
        self.v_proj = nn.Parameter(wg.random.normal((width, size)) * width**-0.5)
        self.q_norm, self.k_norm = norm(), SafeNorm()
        self.scale = size**0.5

    def forward(self, x: Any, mask: Any, cos: Any, sin: Any) -> Any:
        q = rotated(self.q_norm(x @ self.q_proj), cos, sin)
        k = rotated(self.k_norm(x @ self.k_proj), cos, sin)
        scores = (q @ k.mT) * self.scale + mask
        e = wg.exp(scores - scores.max(-1, keepdims=True))
        weights = e / e.sum(-1, keepdims=True)
        return weights @ (x @ self.v_proj)


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, norm: type[nn.Module]) -> None:
        self.heads = nn.ModuleList([Head(width, width // heads, norm) for _ in range(heads)])
        self.out_proj = nn.Linear(width, width)

    def forward(self, x: Any, *positions: Any) -> Any:
        return self.out_proj(wg.concat([head(x, *positions) for head in self.heads], -1))


class Block(nn.Module):
    def __init__(self, width: int, heads: int, norm: type[nn.Module]) -> None:
        self.ln_1, self.ln_2 = nn.LayerNorm(width, bias=False), nn.LayerNorm(width)
        self.attn = Attention(width, heads, norm)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width))

    def forward(self, x: Any, keep: Any, *positions: Any) -> Any:
        x = x + self.attn(self.ln_1(x) * keep, *positions)
        return x + self.mlp(self.ln_2(x))


class Transformer(nn.Module):
    def __init__(self, blocks: int, heads: int, width: int, words: int, length: int, bad: int) -> None:
        self.embed = nn.Embedding(words, width)
        angles = np.arange(length)[:, None] * 100.0 ** -np.arange(0, 1, 2 * heads / width)
        self.cos, self.sin = (wg.tensor(f(angles).astype(np.float32)) for f in (np.cos, np.sin))
        self.blocks = nn.ModuleList([Block(width, heads, Norm if i == bad else SafeNorm) for i in range(blocks)])
        self.ln_f, self.head = nn.LayerNorm(width), nn.Linear(width, words)

    def forward(self, tokens: Any, mask: Any, keep: Any) -> Any:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x, keep, mask, self.cos, self.sin)
        return self.head(self.ln_f(x))


def transformer() -> Document:
    """Padding is multiplied by 0 before attention: its queries are exactly 0, where block 7's root has no slope."""
    wg.manual_seed(0)
    batch, length, words = 4, 16, 50
    model = Transformer(blocks=12, heads=14, width=56, words=words, length=length, bad=7)
    rng = np.random.default_rng(0)
    tokens = wg.tensor(rng.integers(0, words, (batch, length)))
    targets = wg.tensor(rng.integers(0, words, (batch, length)))
    sizes = np.array([16, 16, 12, 14])
    there = np.arange(length) < sizes[:, None]
    keep = wg.tensor(there[..., None].astype(np.float32))
    mask = wg.tensor(np.where(there[:, None], 0, -1e9).astype(np.float32))
    optimizer = optim.Adam(model.parameters(), lr=1e-3)

    def step(tokens: Any, targets: Any) -> Any:
        loss = nn.functional.cross_entropy(model(tokens, mask, keep).reshape((-1, words)), targets.reshape(-1))
        loss.backward()
        optimizer.step()
        return loss

    return explore(step, tokens, targets).document


# -- a graph of many nodes: a recurrent cell of single neurons over a long sequence


def large() -> Document:
    wg.manual_seed(0)
    size, length = 16, 185
    rng = np.random.default_rng(0)
    cell = [Neuron(rng, size // 2) for _ in range(size)]
    xs = rng.normal(size=length)

    def step() -> Any:
        state = [wg.tensor(0.0) for _ in range(size)]
        for x in xs:
            state = [neuron(state[i % 2 :: 2]) + float(x) for i, neuron in enumerate(cell)]
        return sum(s * s for s in state)

    return explore(step).document


SAMPLES: dict[str, Callable[[], Document]] = {
    "learner": learner,
    "sums": sums,
    "decisions": decisions,
    "declared": declared,
    "mlp": mlp,
    "transformer": transformer,
    "large": large,
}


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or list(SAMPLES):
        began = time.process_time()
        document = SAMPLES[name]()
        text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")
        nodes = len(document["nodes"]["op"])
        print(f"{name}: {nodes:,} nodes, {len(text):,} characters, {time.process_time() - began:.2f} s")


if __name__ == "__main__":
    main()
