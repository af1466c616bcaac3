"""Products of matrices, compiled: those with few rows or columns, and those of a training step, of every layout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from harness import Case
from peers import torch_module

import wengert as wg

# Rows, columns, inner axis; which operands lie transposed in memory.
SHAPES = (
    (2, 1024, 1024, "NT"),
    (2, 1024, 1024, "NN"),
    (4, 1000, 1000, "NT"),
    (8, 1000, 1000, "NT"),
    (2, 100, 100, "NT"),
    (1000, 2, 1000, "NN"),
    (1000, 4, 1000, "NT"),
    (1000, 4, 1000, "TN"),
    (2, 2, 10_000, "NT"),
    (8, 10, 1000, "NN"),
    (64, 10, 784, "NT"),
    (20, 800, 200, "NT"),
    (20, 200, 800, "NN"),
    (64, 784, 1024, "NT"),
    (64, 1024, 784, "NN"),
    (512, 784, 64, "TN"),
    (800, 200, 700, "TN"),
    (10_000, 200, 700, "TN"),
    (700, 200, 10_000, "NN"),
)


def _laid_out(x: np.ndarray, how: str) -> np.ndarray:
    """Return a matrix whose rows, or with "T" whose columns, lie side by side."""
    return np.ascontiguousarray(x.T).T if how == "T" else x


def cases() -> list[Case]:
    """Each product by a compiled function of its own, by NumPy's BLAS, and by PyTorch."""
    torch = torch_module()
    made = []
    for rows, columns, inner, layout in SHAPES:
        rng = np.random.default_rng(0)
        x, y = (rng.standard_normal(s).astype(np.float32) for s in ((rows, inner), (inner, columns)))
        x, y = _laid_out(x, layout[0]), _laid_out(y, layout[1])
        # The compiled function is given rows side by side, and transposes them itself.
        given = [wg.tensor(v.T if how == "T" else v) for v, how in zip((x, y), layout, strict=True)]
        product = wg.jit(
            lambda a, b, layout=layout: (a.mT if layout[0] == "T" else a) @ (b.mT if layout[1] == "T" else b)
        )
        runs: dict[str, Callable[[], Any]] = {
            "wengert": lambda product=product, given=given: product(*given),
            "numpy": lambda x=x, y=y: x @ y,
        }
        if torch is not None:
            operands = [
                torch.from_numpy(v.T).T if how == "T" else torch.from_numpy(v) for v, how in zip((x, y), layout)
            ]
            runs["torch"] = lambda operands=operands: torch.mm(*operands)
        results = {k: lambda run=run: [np.asarray(run())] for k, run in runs.items()}
        name = f"{rows} x {inner} by {inner} x {columns}, {layout}"
        made.append(Case(name, runs, results, [x.astype(np.float64) @ y.astype(np.float64)], tolerance=1e-5))
    return made
