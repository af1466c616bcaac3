"""Calls of functions as texts, which PyTorch and `wengert.torch` both evaluate: see `tests/torch/record_calls.py`."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np

DATA = Path(__file__).parent.parent / "torch" / "data"


def inputs(lib: Any, grad: bool = True) -> dict[str, Any]:
    """Tensors by name; those in float64 and complex128 require gradients."""
    rng = np.random.default_rng(7)
    x = rng.permutation(np.arange(1, 25) / 7 - 1.3).reshape(2, 3, 4)
    holes = x.copy()
    holes[0, 1, 2] = holes[1, 0, 0] = holes[1, 0, 3] = np.nan
    values = {
        "x": x,
        "y": rng.permutation(np.arange(24) / 5 - 2.1).reshape(2, 3, 4),
        "row": rng.normal(size=4),
        "u": rng.uniform(0.05, 0.95, size=(3, 4)),
        "p": rng.uniform(0.3, 3.0, size=(3, 4)),
        "q": rng.uniform(0.3, 3.0, size=(3, 4)),
        "holes": holes,
        "s": np.array(1.7),
        "edges": np.array([-np.inf, -2.5, -0.0, 0.0, 0.5, 1.5, np.inf, np.nan]),
        "empty": np.zeros((0, 3)),
        "f": rng.normal(size=(3, 4)).astype(np.float32),
        "i": rng.integers(-4, 5, size=(3, 4)),
        "j": rng.integers(1, 6, size=(3, 4)),
        "k": rng.integers(0, 9, size=7),
        "w": rng.integers(0, 200, size=(3, 4)).astype(np.uint8),
        "b": rng.random((3, 4)) < 0.5,
        "a": rng.random((3, 4)) < 0.5,
        "c": rng.normal(size=(3, 4)) + 1j * rng.normal(size=(3, 4)),
        "z": rng.normal(size=4) + 1j * rng.normal(size=4),
    }
    found = {name: lib.tensor(v) for name, v in values.items()}
    for name in found:
        if grad and values[name].dtype in (np.float64, np.complex128):
            found[name].requires_grad_()
    return found


def leaves(out: Any) -> list[Any]:
    """The tensors and numbers of a result, in order."""
    return [leaf for part in out for leaf in leaves(part)] if isinstance(out, (tuple, list)) else [out]


def written(value: Any) -> Any:
    """A tensor's dtype, shape and numbers, or a Python number, as JSON has them."""
    if not hasattr(value, "detach"):
        return value
    array = np.asarray(value.numpy(force=True))
    kind = array.dtype.name
    if array.dtype.kind == "c":
        array = np.ascontiguousarray(array).view(array.real.dtype)
    return [kind, list(value.shape), array.ravel().tolist()]


def total(lib: Any, values: list[Any]) -> Any:
    """A number that depends on every element of floating or complex tensors, each with another weight."""
    parts = []
    for v in values:
        if hasattr(v, "detach") and (v.is_floating_point() or v.is_complex()) and v.requires_grad:
            weights = lib.tensor(np.cos(np.arange(v.numel(), dtype=float)).reshape(tuple(v.shape)))
            parts.append(((lib.real(v) if v.is_complex() else v) * weights).sum())
    return sum(parts[1:], parts[0]) if parts else None


def evaluate(lib: Any, text: str, gradient: Any) -> dict[str, Any]:
    """What a call gives, and its first and second derivatives where there are some."""
    given = inputs(lib)
    out = leaves(eval(text, {"torch": lib, "inf": float("inf"), "nan": float("nan"), **given}))
    found: dict[str, Any] = {"out": [written(v) for v in out]}
    of = total(lib, out)
    wanted = [v for name, v in given.items() if v.requires_grad and name in text]
    for order in ("first", "second"):
        if of is None or not wanted:
            break
        try:
            slopes = gradient(of, wanted)
        except RuntimeError:  # PyTorch has no derivative of everything
            break
        found[order] = [None if g is None else written(g) for g in slopes]
        of = total(lib, [g for g in slopes if g is not None])
    return found


def recorded(name: str) -> dict[str, Any]:
    """What PyTorch gave, by the text of the call."""
    with gzip.open(DATA / f"{name}.json.gz", "rt") as file:
        found: dict[str, Any] = json.load(file)
    return found
