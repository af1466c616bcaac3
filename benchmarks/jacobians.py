"""Ways to a Jacobian: sparse against dense, vertex elimination against forward and reverse mode."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from harness import Case

import wengert as wg

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "helpers"))
from elimination_cases import CASES


def _differences(fn: Callable[..., Any], x: np.ndarray) -> np.ndarray:
    """Central differences, of fourth order: shares nothing with any mode."""
    columns = []
    for i in range(x.size):
        step = np.zeros_like(x)
        step[i] = 1e-4 * max(abs(x[i]), 1e-2)
        at = [np.asarray(fn(wg.asarray(x + k * step))) for k in (-2, -1, 1, 2)]
        columns.append((at[0] - 8 * at[1] + 8 * at[2] - at[3]) / (12 * step[i]))
    return np.stack(columns, -1)


def _mode(fn: Callable[..., Any], x: Any, mode: str) -> Callable[[], Any]:
    derivative = wg.jacobian(fn, mode=mode)
    return lambda: derivative(x)


def elimination_cases() -> list[Case]:
    """Small dense functions of the literature; each name ends in the multiplications of three orders."""
    made = []
    for fn, point in CASES.items():
        x = np.asarray(point, float)
        cost = wg.elimination_cost(fn, wg.asarray(x))
        counts = f"{cost.forward} / {cost.reverse} / {cost.markowitz}"
        runs = {
            "wengert": _mode(fn, wg.asarray(x), "elimination"),
            "forward": _mode(fn, wg.asarray(x), "forward"),
            "reverse": _mode(fn, wg.asarray(x), "reverse"),
        }
        results = {k: lambda run=run: [run().numpy()] for k, run in runs.items()}
        made.append(
            Case(f"{fn.__name__.replace('_', ' ')}: {counts}", runs, results, [_differences(fn, x)], tolerance=1e-6)
        )
    return made


def _broyden(x: Any) -> Any:
    """Broyden's tridiagonal function (Moré, Garbow, Hillstrom 1981)."""
    inner = (3 - 2 * x) * x + 1
    return inner - wg.pad(x[:-1], (1, 0)) - 2 * wg.pad(x[1:], (0, 1))


def _broyden_matrix(x: np.ndarray) -> np.ndarray:
    n = x.size
    return np.diag(3 - 4 * x) - np.eye(n, k=-1) - 2 * np.eye(n, k=1)


def sparse_cases() -> list[Case]:
    """Three compressed directions against one for every variable."""
    made = []
    for n in (100, 1000):
        x = np.linspace(-1, 1, n)
        sparse = wg.sparse.jacobian(_broyden)
        dense = wg.jacobian(_broyden)
        t = wg.asarray(x)
        sparse(t)  # finds pattern and colours, once
        made.append(
            Case(
                f"Broyden tridiagonal, {n} variables",
                {"wengert": lambda t=t, s=sparse: s(t), "dense": lambda t=t, d=dense: d(t)},
                {
                    "wengert": lambda t=t, s=sparse: [s(t).toarray()],
                    "dense": lambda t=t, d=dense: [d(t).numpy()],
                },
                [_broyden_matrix(x)],
                tolerance=1e-10,
            )
        )
    return made
