"""A training job in which one rank does something else in its fifth step: what is told of it."""

from __future__ import annotations

from typing import Any

import numpy as np

import wengert as wg
from wengert import distribute as dist

# What is told, by what differs.
WORDS = {
    "rate": r"'lr' of optimizer, \(\) float64, is 0.2 on rank 1 and 0.1 on rank 0, in step",
    "parameter": r"model.weight, \(4, 4\) float32, is another one on rank 1 than on rank 0, in step",
    "content": r"x, \(16, 4\) float32, is another one on rank 1 than on rank 0",
    "order": r"x, \(16, 4\) float32, is another one on rank 1 than on rank 0",
    "size": r"ranks 0 and 1 are to run different programs: rank 0 has x: f32\[8,4\]",
    "known size": r"ranks 0 and 1 are to run different programs: rank 0 has x: f32\[4,4\]",
    "code": r"rank 0 has b: f32\[8,4\] = pow\[\] a 2.0 \(.*diverging.py:\d+\), rank 1 has b: f32\[8,4\] = pow",
    "collective": r"rank 0 calls the program step on Mesh\(data=2\) at .*, rank 1 calls all_reduce\(\(3,\) float32",
    "ends": r"rank 0 waits in the program step on Mesh\(data=2\) at .*, and rank 1 has ended",
}
KINDS = tuple(WORDS)


def diverge(kind: str) -> list[float]:
    """Train; the last rank differs from the fifth step on as `kind` says."""
    wg.manual_seed(0)
    mesh = dist.Mesh(data=dist.size())
    model = wg.nn.Linear(4, 4)
    optimizer = wg.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    power = [2]

    def step(x: Any) -> Any:
        loss = (model(x) ** power[0]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    train = dist.jit(step, mesh=mesh, in_specs=("data",))
    rng, losses = np.random.default_rng(0), []
    is_other = dist.rank() == dist.size() - 1
    for i in range(10):
        x = rng.normal(size=(8 if kind == "known size" and i % 2 else 16, 4)).astype(np.float32)
        if is_other and i == 5:
            if kind == "rate":
                optimizer.param_groups[0]["lr"] = 0.2
            if kind == "parameter":
                with wg.no_grad():
                    model.weight.mul_(1.5)
            if kind == "content":
                x[3, 2] += 1.0
            if kind == "order":
                x = x[::-1].copy()
            if kind == "size":
                x = x[:8]
            if kind == "known size":
                x = np.concatenate([x, x])
            if kind == "code":
                power[0] = 3
            if kind == "collective":
                dist.all_reduce(wg.ones(3), "ranks")
            if kind == "ends":
                break
        losses.append(float(train(wg.tensor(x))))
    return losses
