"""Memory of a rank by plan: what is resident between steps, and at most during one.

    python benchmarks/ranks_memory.py [--ranks 2] [--width 2048] [--layers 6] [--plans data,zero,pipeline]

An MLP is trained with AdamW, each rank with its part of the batch or of the layers; losses are checked against one
process first.
Resident is what the process has beside what it had before the model was made, by Linux: *between* steps when three were
made, *peak* the most that it ever had during two more.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
from pathlib import Path
from typing import Any

import numpy as np

import wengert as wg
from wengert import distribute as dist
from wengert import nn

PLANS = ("data", "zero", "fsdp", "pipeline everywhere", "pipeline")


def resident(what: str = "VmRSS") -> int:
    """The resident bytes of this process, or (VmHWM) the most since it was last reset."""
    gc.collect()
    if what == "VmRSS":
        ctypes.CDLL(None).malloc_trim(0)  # what is free inside is nobody's
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(what):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"no {what}")


def train(plan: str, width: int, layers: int) -> tuple[list[float], int, int, int]:
    """Losses, and the bytes of parameters and state, resident between steps, and at the peak of a step."""
    before = resident()
    wg.manual_seed(0)
    model = nn.Sequential(*(m for _ in range(layers) for m in (nn.Linear(width, width), nn.ReLU())))
    optimizer = wg.optim.AdamW(model.parameters(), lr=1e-4)

    def step(x: Any) -> Any:
        loss = (model(x) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    run: Any = wg.jit(step)
    if plan:
        axis = "pipe" if "pipeline" in plan else "data"
        mesh = dist.Mesh({axis: dist.size()})
        if plan == "fsdp":
            dist.shard(model, mesh, fsdp="data")
        state = "everywhere" if "everywhere" in plan else "stages"
        run = dist.jit(
            step,
            mesh=mesh,
            in_specs=("data" if axis == "data" else None,),
            zero="data" if plan == "zero" else None,
            pipeline=dist.Pipeline("pipe", 4, state=state) if axis == "pipe" else None,
        )
    x = wg.tensor(np.random.default_rng(0).normal(size=(32, width)).astype(np.float32))
    losses = [float(run(x)) for _ in range(3)]
    between = resident() - before
    Path("/proc/self/clear_refs").write_text("5")  # from here on
    losses += [float(run(x)) for _ in range(2)]
    peak = resident("VmHWM") - before
    held = sum(p._data.nbytes + p.grad._data.nbytes for p in model.parameters())
    held += sum(v.nbytes for s in optimizer.state.values() for v in s.values() if hasattr(v, "nbytes"))
    return losses, held, between, peak


def main() -> None:
    """Print a row for each plan."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--plans", default=",".join(PLANS))
    given = parser.parse_args()
    alone = dist.run(train, 1, "", given.width, given.layers, engine="mpi")[0]
    print("| plan | parameters, gradients, state, MB | between steps, MB | peak, MB |\n| --- | --- | --- | --- |")
    rows = {"one process": alone}
    for plan in given.plans.split(","):
        found = dist.run(train, given.ranks, plan, given.width, given.layers, engine="mpi")
        np.testing.assert_allclose(found[0][0], alone[0], rtol=1e-4)
        rows[plan] = max(found, key=lambda row: row[2])
    for name, (_, *numbers) in rows.items():
        print(f"| {name} | {' | '.join(f'{n / 1e6:,.0f}' for n in numbers)} |", flush=True)


if __name__ == "__main__":
    main()
