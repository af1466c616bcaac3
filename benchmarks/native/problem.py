"""What a problem is: its data, its formula, how a contender's results are compared with the reference.

A formula is written once, for all libraries: it takes a `Library` (library.py) and uses operators,
the functions that NumPy-like libraries share, and the library's own best version of whatever has one
(convolution, attention, cross-entropy, ...).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

Sizes: TypeAlias = Mapping[str, Any]
Arrays: TypeAlias = dict[str, np.ndarray]
Data: TypeAlias = dict[str, Any]

# Batches that training goes through by turns, and steps after which results are compared.
BATCHES = 4
STEPS = 4


@dataclass(frozen=True)
class Rule:
    """How parameters follow gradients: SGD, with momentum, or Adam with decoupled weight decay of matrices."""

    lr: float
    momentum: float = 0.0
    betas: tuple[float, float] | None = None
    eps: float = 1e-8
    decay: float = 0.0


@dataclass(frozen=True)
class Problem:
    """One thing to compute.

    `data(rng, sizes)` draws float64 arrays. Exactly one of these is given:

    loss: training. `loss(library, sizes)` is a function of the parameters, the running statistics
        (`data["stats"]`, may be empty) and a batch; it gives the loss and the new statistics.
    step: a state carried on. `step(library, sizes)` is a function from the state (`data["state"]`, a
        dict) and the constants (`data["given"]`) to the next state.
    call: `call(library, sizes)` is a function of `data["arguments"]` in order. With `gradients` it has
        one value, and its gradients with respect to these arguments are wanted too; else it gives
        one result for each name in `results`.

    `tolerance` is the relative error that is allowed; of parameters, relative to how far they moved.
    """

    name: str
    about: str
    sizes: Sizes
    small: Sizes
    data: Callable[[np.random.Generator, Sizes], Data]
    rule: Rule | None = None
    loss: Callable[[Any, Sizes], Callable[..., Any]] | None = None
    step: Callable[[Any, Sizes], Callable[..., Any]] | None = None
    call: Callable[[Any, Sizes], Callable[..., Any]] | None = None
    gradients: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    dtype: str = "float32"
    tolerance: float = 1e-3
    # Arguments of a call that are images or filters, which libraries lay out in ways of their own.
    layouts: Mapping[str, str] = field(default_factory=dict)
    # Contenders for which the problem is not written, and why.
    without: Mapping[str, str] = field(default_factory=dict)

    def scaled(self, small: bool) -> Sizes:
        return {**self.sizes, **self.small} if small else self.sizes

    def make(self, sizes: Sizes) -> Data:
        """The data, the same at every call, floats in the problem's dtype."""
        rng = np.random.default_rng(list(self.name.encode()))
        return _cast(self.data(rng, sizes), np.dtype(self.dtype))

    @property
    def names(self) -> tuple[str, ...]:
        """What a call gives, in order."""
        return ("value", *(f"d{g}" for g in self.gradients)) if self.gradients else self.results


def as_double(data: Any) -> Any:
    """The same numbers in float64: what the reference computes with."""
    return _cast(data, np.dtype(np.float64))


def _cast(data: Any, dtype: np.dtype[Any]) -> Any:
    if isinstance(data, dict):
        return {k: _cast(v, dtype) for k, v in data.items()}
    if isinstance(data, list | tuple):
        return type(data)(_cast(v, dtype) for v in data)
    array = np.asarray(data)
    return array.astype(dtype) if array.dtype.kind == "f" else array


def error(found: Arrays, reference: Arrays, start: Arrays) -> float:
    """The largest relative error, in the Euclidean norm.

    What moved from `start` counts as one vector, relative to how far it moved: the size of a
    parameter says nothing about an update of it.
    """
    assert sorted(found) == sorted(reference), f"gives {sorted(found)}, the reference {sorted(reference)}"
    worst, off, way = 0.0, 0.0, 0.0
    for name, want in reference.items():
        have = np.asarray(found[name], np.float64)
        assert have.shape == want.shape, f"{name} has shape {have.shape}, in the reference {want.shape}"
        if not np.isfinite(have).all():
            return float("inf")
        if name in start:
            off += float(np.sum((have - want) ** 2))
            way += float(np.sum((want - start[name]) ** 2))
        else:
            worst = max(worst, float(np.linalg.norm(have - want)) / max(float(np.linalg.norm(want)), 1e-30))
    return max(worst, (off / way) ** 0.5 if way else 0.0)


def start_of(data: Data) -> Arrays:
    """Everything that a run moves, before it does."""
    return {**data.get("params", {}), **data.get("stats", {}), **data.get("state", {})}
