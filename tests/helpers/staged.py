"""A training run by a pipeline whose state is at its stages, for tests and for ranks of jobs."""

from __future__ import annotations

from typing import Any

import small_networks
import wengert as wg
from wengert import distribute as dist
from wengert import nn

# A script whose last rank catches an error in the middle of a pipeline's step, and goes on.
CAUGHT = """
import sys

import numpy as np

import wengert as wg

wg.manual_seed(0)
model = wg.nn.Sequential(*(wg.nn.Sequential(wg.nn.Linear(4, 4), wg.nn.Tanh()) for _ in range(2)))
optimizer = wg.optim.SGD(model.parameters(), lr=0.1)


def step(x, y):
    loss = wg.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


pipeline = wg.distribute.Pipeline("pipe", micro=2)
run = wg.distribute.jit(step, mesh=wg.distribute.Mesh(pipe=2), in_specs=(None, None), pipeline=pipeline)
x, good = wg.ones(4, 4), wg.asarray(np.zeros(4, np.int64))
run(x, good)
try:
    run(x, good + 9)
except wg.RangeError:
    print("caught", file=sys.stderr)
run(x, good)
"""


def trainer(mesh: dist.Mesh | None, state: str = "stages", reads: str = "", **options: Any) -> Any:
    """A model of five parts, its optimiser, a step of it and its losses; `reads` says what else the step looks at."""
    wg.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(0.25), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3)
    ).to(wg.float64)
    mean = [wg.zeros(*p.shape, dtype=wg.float64) for p in model.parameters()]
    optimizer = wg.optim.AdamW(model.parameters(), lr=1e-2)

    def step(x: Any) -> Any:
        loss = (model(x) ** 2).mean()
        if reads == "norms":
            loss = loss + 1e-2 * sum((p**2).sum() for p in model.parameters())
        optimizer.zero_grad()
        loss.backward()
        if reads == "clip":
            nn.utils.clip_grad_norm_(model.parameters(), 1e-2)
        if reads == "mean before":
            for m, p in zip(mean, model.parameters(), strict=True):
                m.mul_(0.9).add_(0.1 * p.detach())
        optimizer.step()
        return (loss, model[0].weight.detach().sum()) if reads == "sum" else loss

    train = step
    if mesh is not None:
        train = dist.jit(
            step,
            mesh=mesh,
            in_specs=("data" if "data" in mesh.names else None,),
            pipeline=dist.Pipeline("pipe", 4, state=state, **options),
        )
    x = wg.randn(16, 6, dtype=wg.float64)

    def losses(n: int, x: Any = x) -> list[float]:
        return [float(wg.tree.leaves(train(x))[-1]) for _ in range(n)]

    return model, optimizer, mean, losses


def saved_in_the_middle(folder: str, mesh: Any, steps: int, more: int) -> Any:
    """What a rank has of a run that saves, and goes on: losses, and the bytes of its parameters."""
    model, optimizer, _, losses = trainer(dist.Mesh(mesh))
    found = losses(steps)
    dist.save_checkpoint(folder, model=model, optimizer=optimizer)
    return found + losses(more), sum(p._array.nbytes for p in model.parameters())


def gone_on(folder: str, mesh: Any, steps: int) -> list[float]:
    model, optimizer, _, losses = trainer(dist.Mesh(mesh) if mesh else None)
    dist.load_checkpoint(folder, model=model, optimizer=optimizer)
    return losses(steps)


def trained_in_turns(mesh: Any, turns: list[tuple[str, int]], engine: str = "native") -> list[float]:
    """The losses of a model that several plans train one after the other, each so many steps."""
    wg.manual_seed(0)
    model = small_networks.chain(4, 8, 8, 4).to(wg.float64)
    optimizer = wg.optim.AdamW(model.parameters(), lr=1e-2)

    def step(x: Any) -> Any:
        loss = (model(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(False)
        return loss

    steps: dict[str, Any] = {"alone": step}
    if mesh is not None:
        grid = dist.Mesh(mesh)
        pipeline = dist.Pipeline("pipe", 2, state="stages")
        steps["data"] = dist.jit(step, mesh=grid, in_specs=("data",), engine=engine)
        steps["pipeline"] = dist.jit(step, mesh=grid, in_specs=("data",), pipeline=pipeline, engine=engine)
    found = []
    for plan, count in turns:
        if plan == "fsdp" and mesh is not None:
            dist.shard(model, dist.Mesh(mesh), fsdp="data")
        elif plan == "whole" and mesh is not None:
            dist.shard(model, dist.Mesh(mesh))
        run = steps["alone" if mesh is None else {"fsdp": "data", "whole": "data"}.get(plan, plan)]
        found += [float(run(wg.sin(wg.arange(32.0, dtype=wg.float64).reshape(8, 4)))) for _ in range(count)]
    return found


def deciding(plan: str, steps: int = 8) -> list[float]:
    """The losses of steps that decide by theirs how often they update: another way to and fro."""
    wg.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(4))).to(wg.float64)
    options: dict[str, Any] = {"mesh": dist.Mesh(pipe=2), "in_specs": (None,), "pipeline": dist.Pipeline("pipe", 4)}
    if plan != "pipeline":
        options = {"mesh": dist.Mesh(data=2), "in_specs": ("data",)}
    if plan == "fsdp":
        dist.shard(model, options["mesh"], fsdp="data")
    optimizer = wg.optim.AdamW(model.parameters(), lr=0.01)

    def step(x: Any) -> Any:
        loss = (model(x) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        if loss < 0.1:
            optimizer.step()
        else:
            optimizer.step()
            optimizer.step()
        return loss

    train = dist.jit(step, **options) if plan else step
    return [float(train(wg.full((8, 4), 1.0 + 9.0 * (k % 3 == 1), dtype=wg.float64))) for k in range(steps)]
