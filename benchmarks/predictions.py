"""Predictions of steps on ranks beside what real ranks take, by the links and kernels that the job itself measures.

    python benchmarks/predictions.py [--ranks 2] [--models mlp,gpt] [--repeat 3]

Every rank is a process; there should be a core for each. Losses are checked against one process first. Printed are the
median and the least of 300 steps, the prediction, and its ratio to the least: others' work on the machine only adds.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

import wengert as wg
from wengert import distribute as dist
from wengert import nn

STEPS = 300


class Layer(nn.Module):
    """A layer of a GPT."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        b, t, d = x.shape
        h = wg.permute_dims(self.qkv(self.before(x)).reshape(b, t, 3, self.heads, d // self.heads), (2, 0, 3, 1, 4))
        seen = nn.functional.scaled_dot_product_attention(h[0], h[1], h[2], is_causal=True)
        x = x + self.out(wg.permute_dims(seen, (0, 2, 1, 3)).reshape(b, t, d))
        return x + self.down(nn.functional.gelu(self.up(self.after(x))))


class GPT(nn.Module):
    """A GPT whose step is short, so that some steps are undisturbed on a busy machine: two layers of 64."""

    def __init__(self, tokens: int = 65, width: int = 64, layers: int = 2, length: int = 32) -> None:
        super().__init__()
        self.embed, self.place = nn.Embedding(tokens, width), nn.Embedding(length, width)
        self.layers = nn.ModuleList([Layer(width, 4) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, tokens)

    def forward(self, x: Any) -> Any:
        y = self.embed(x) + self.place(wg.arange(x.shape[1]))
        for layer in self.layers:
            y = layer(y)
        return self.head(self.norm(y)).reshape(-1, 65)


def mlp() -> nn.Module:
    """Return three layers of 256."""
    return nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))


def example(kind: str) -> tuple[Any, Any]:
    """Return a batch."""
    rng = np.random.default_rng(0)
    if kind == "gpt":
        return wg.tensor(rng.integers(0, 65, (8, 32))), wg.tensor(rng.integers(0, 65, 8 * 32))
    return wg.tensor(rng.normal(size=(128, 128)).astype(np.float32)), wg.tensor(rng.integers(0, 10, 128))


def plans(ranks: int) -> dict[str, tuple[dict[str, int], dict[str, Any]]]:
    """Return meshes and options by name."""
    found: dict[str, tuple[dict[str, int], dict[str, Any]]] = {
        "data": ({"data": ranks}, {}),
        "zero": ({"data": ranks}, {"zero": "data"}),
        "pipeline": ({"pipe": ranks}, {"pipeline": dist.Pipeline("pipe", 4)}),
        "pipeline everywhere": ({"pipe": ranks}, {"pipeline": dist.Pipeline("pipe", 4, state="everywhere")}),
    }
    if ranks == 4:
        found["data pipeline"] = {"data": 2, "pipe": 2}, {"pipeline": dist.Pipeline("pipe", 4)}
    return found


def train(kind: str, plan: str, ranks: int) -> tuple[Any, list[float], list[float]]:
    """Return a compiled step, the losses of its steps, and what each took."""
    wg.manual_seed(0)
    model = GPT() if kind == "gpt" else mlp()
    optimizer = wg.optim.AdamW(model.parameters(), lr=1e-3)

    def step(x: Any, y: Any) -> Any:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    run: Any = wg.jit(step)
    if plan:
        axes, options = plans(ranks)[plan]
        run = dist.jit(step, mesh=dist.Mesh(axes), in_specs=("data" if "data" in axes else None,) * 2, **options)
    x, y = example(kind)
    losses, spent = [float(run(x, y)) for _ in range(8)], []
    for _ in range(STEPS):
        start = time.perf_counter()
        losses.append(float(run(x, y)))
        spent.append(time.perf_counter() - start)
    return run, losses, spent


def job(kind: str, plan: str, ranks: int) -> tuple[list[float], list[float], float, Any]:
    """Return, on a rank, losses, seconds of steps, the seconds that were predicted, and the links."""
    step, losses, spent = train(kind, plan, ranks)
    links = dist.measure()
    return losses, spent, dist.predict(step, cluster=links).seconds, links


def main() -> None:
    """Print a row for each model and plan."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--models", default="mlp,gpt")
    parser.add_argument("--plans", default="")
    parser.add_argument("--repeat", type=int, default=1)
    given = parser.parse_args()
    print("| model | plan | ranks | median ms | least ms | predicted ms | predicted / least |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for kind in given.models.split(","):
        _, alone, _ = train(kind, "", 1)
        for plan in given.plans.split(",") if given.plans else plans(given.ranks):
            for _ in range(given.repeat):
                found = dist.run(job, given.ranks, kind, plan, given.ranks, engine="mpi")
                np.testing.assert_allclose(found[0][0], alone, rtol=2e-3)
                spent = np.max([row[1] for row in found], axis=0)
                predicted = max(row[2] for row in found)
                least = spent.min()
                print(
                    f"| {kind} | {plan} | {given.ranks} | {np.median(spent) * 1e3:.2f} | {least * 1e3:.2f} | "
                    f"{predicted * 1e3:.2f} | {predicted / least:.2f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
