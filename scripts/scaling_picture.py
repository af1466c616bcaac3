"""Draw docs/img/scaling.svg: what part of a step ranks compute, predicted for 8 to 4,096 of them.

    python scripts/scaling_picture.py

The batch grows with the ranks. Kernels are timed here, links are a model (wg.distribute.predict).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np

import wengert as wg
from wengert import distribute as dist
from wengert import nn

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

from predictions import GPT  # noqa: E402

RANKS = (8, 64, 512, 4096)
EACH, LENGTH = 4, 64
CLUSTERS = {
    "10 GB/s, 5 µs": dist.Cluster(5e-6, 10e9),
    "1.25 GB/s, 20 µs": dist.Cluster(20e-6, 1.25e9),
}
PLANS = ("data", "pipeline of 2", "pipeline of 4")


def program(plan: str, ranks: int) -> Any:
    """Return the program of a training step by a plan on so many ranks."""
    wg.manual_seed(0)
    model = GPT(width=128, layers=4, length=LENGTH)
    optimizer = wg.optim.AdamW(model.parameters(), lr=1e-3)

    def step(x: Any, y: Any) -> Any:
        loss = nn.functional.cross_entropy(model(x), y.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    places = int(plan.rpartition(" ")[2]) if plan != "data" else 1
    axes = {"data": ranks // places} if ranks > places else {}
    pipeline = dist.Pipeline("pipe", 8) if places > 1 else None
    mesh = dist.Mesh({"pipe": places, **axes} if places > 1 else axes)
    made = dist.jit(step, mesh=mesh, in_specs=("data" if axes else None,) * 2, pipeline=pipeline)
    batch = wg.spec((EACH * ranks, LENGTH), "int64")
    return made.lowered(batch, batch)


def main() -> None:
    """Predict every plan on every number of ranks, and write the picture."""
    found: dict[tuple[str, str], list[float]] = {}
    for plan in PLANS:
        for ranks in RANKS:
            made = program(plan, ranks)
            for name, cluster in CLUSTERS.items():
                p = dist.predict(made, cluster=cluster)
                busy = np.mean([sum(q.end - q.start for q in lane.parts if q.kind == "compute") for lane in p.lanes])
                found.setdefault((name, plan), []).append(float(busy) / p.seconds)
                print(f"{plan}, {ranks} ranks, {name}: {found[name, plan][-1]:.0%} computing", flush=True)
    matplotlib.rcParams.update({"svg.hashsalt": "wengert", "font.size": 10})
    figure, axes = plt.subplots(1, len(CLUSTERS), figsize=(9, 3.6), sharey=True)
    for ax, name in zip(axes, CLUSTERS, strict=True):
        for plan in PLANS:
            ax.plot(RANKS, [100 * v for v in found[name, plan]], marker="o", label=plan)
        ax.set_xscale("log", base=2)
        ax.set_xticks(RANKS, [f"{n:,}" for n in RANKS])
        ax.set_ylim(0, 100)
        ax.set_title(name)
        ax.set_xlabel("ranks")
        ax.grid(alpha=0.3)
    axes[0].set_ylabel("% of a step spent computing")
    axes[0].legend(loc="lower left")
    figure.tight_layout()
    figure.savefig(ROOT / "docs" / "img" / "scaling.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
