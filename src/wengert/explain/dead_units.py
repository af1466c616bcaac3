"""Units of activation functions that never react over the data: dead ReLUs, saturated sigmoids."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.arrays import Array
from ..core.errors import GradientError, ShapeError, fail
from ..core.mode import get_mode, reset_mode, set_mode
from ..core.ops.op import Op
from ..core.source import Source
from ..core.spec import category
from ..core.tensor import Tensor, asarray
from ..transforms.derivatives.reverse import backward_pass
from .observing.arguments import tensors_of, tracked
from .observing.events import Events, Pull, Step, observed

_BAR = 20


@dataclass(frozen=True)
class LayerUnits:
    """The units of one activation in one module.

    `path` is the module's path, `op` the activation, `source` the user's line; `active[i]` in which part
    of the data unit i had a slope above the threshold, `gradient[i]` the mean magnitude of the gradient
    before the activation. `dead` lists the units that never had, `kind` says whether such a unit of this
    activation is "dead" or "saturated".
    """

    path: str
    op: str
    kind: str
    source: Source | None
    active: Array
    gradient: Array

    @property
    def units(self) -> int:
        return len(self.active)

    @property
    def dead(self) -> tuple[int, ...]:
        """The units that never react."""
        return tuple(int(i) for i in np.flatnonzero(self.active == 0))

    @property
    def fraction(self) -> float:
        """The part of the units that never react."""
        return len(self.dead) / self.units if self.units else 0.0

    def __str__(self) -> str:
        full = round(self.fraction * _BAR)
        where = f" at {self.source}" if self.source is not None else ""
        names = ", ".join(map(str, self.dead[:10])) + (", ..." if len(self.dead) > 10 else "")
        mean = float(self.gradient.mean()) if self.gradient.size else 0.0
        return (
            f"{self.path or '(no module)':<20} {self.op:<10} [{'#' * full}{'.' * (_BAR - full)}] "
            f"{len(self.dead)} of {self.units} {self.kind}, mean |gradient| {mean:.2e}{where}"
            + (f"\n    units {names}" if names else "")
        )


@dataclass(frozen=True)
class DeadUnits:
    """The result of :func:`dead_units`, layer by layer. True where some unit never reacts.

    >>> import wengert as wg
    >>> w = wg.tensor([[1.0, -1.0]], requires_grad=True)
    >>> found = wg.explain.dead_units(lambda x: wg.relu(x @ w), wg.tensor([[0.5], [2.0]]))
    >>> bool(found), [(layer.op, layer.dead) for layer in found.layers]
    (True, [('relu', (1,))])
    """

    layers: tuple[LayerUnits, ...]
    samples: int

    def __bool__(self) -> bool:
        return any(layer.dead for layer in self.layers)

    def __getitem__(self, path: str) -> LayerUnits:
        for layer in self.layers:
            if layer.path == path:
                return layer
        raise KeyError(path)

    def __str__(self) -> str:
        if not self.layers:
            return "no activation functions ran"
        return "\n".join([f"units that never react to {self.samples} samples:", *map(str, self.layers)])


def dead_units(
    model: Callable[..., Any], data: Any, loss: Callable[..., Any] | None = None, *, threshold: float = 1e-3
) -> DeadUnits:
    """Find the units that never react to the data, in every activation of a model.

    Parameters
    ----------
    model: a module, or any function of one tensor.
    data: a tensor or array of samples, or an iterable of batches: tensors, or tuples whose first
        element the model takes.
    loss: given the model's result and the rest of a batch's tuple, what the gradients are of; the sum
        of the results by default.
    threshold: a unit reacts to a sample where the activation's slope is above this. ReLU has slope 0 or
        1; a leaky ReLU's negative side reacts unless its slope is below the threshold.

    A unit is an index of the last axis; of arrays with four or more axes a channel, axis 1. Counted are
    relu, leaky_relu, elu, celu, selu, silu, gelu, softplus, sigmoid, tanh, hardtanh and clip. The model runs
    in the mode it is in (call `model.eval()` to leave dropout out); no `.grad` changes.

    Raises GradientError for a loss that does not depend on floating values, ShapeError for no data.

    >>> import wengert as wg
    >>> w = wg.tensor([[1.0, -1.0]], requires_grad=True)
    >>> found = wg.explain.dead_units(lambda x: wg.relu(x @ w), wg.tensor([[0.5], [2.0]]))
    >>> found.layers[0].dead, found.layers[0].fraction
    ((1,), 0.5)
    """
    counts: dict[tuple[str, str, int], _Count] = {}
    samples = 0
    for batch in _batches(data):
        first, *rest = batch
        x = first if isinstance(first, Tensor) else asarray(first)
        samples += x.shape[0] if x.shape else 1
        _one_batch(model, x, rest, loss, threshold, counts)
    if not samples:
        fail(ShapeError, "dead_units of no data", "An iterator is empty after its first use: make it again.")
    return DeadUnits(tuple(c.result(path, op) for (path, op, _), c in counts.items()), samples)


def _batches(data: Any) -> Iterator[tuple[Any, ...]]:
    if isinstance(data, (Tensor, np.ndarray)):
        yield (data,)
    elif isinstance(data, tuple):
        yield data
    elif isinstance(data, Iterable):
        for batch in data:
            yield batch if isinstance(batch, tuple) else (batch,)
    else:
        fail(ShapeError, f"dead_units of data of type {type(data).__name__}", "Give a tensor, or batches.")


def _one_batch(
    model: Any, x: Tensor, rest: list[Any], loss: Any, threshold: float, counts: dict[tuple[str, str, int], _Count]
) -> None:
    token = set_mode(get_mode().with_grad(True))
    try:
        with observed() as seen, np.errstate(all="ignore"):
            _leaf, given = (x, x) if x.requires_grad or category(x.dtype) < 2 else tracked(x)
            out = model(given)
            target = out if loss is None else loss(out, *rest)
            roots = [t for t in tensors_of(target) if t.node is not None and t.requires_grad]
            if not roots:
                fail(GradientError, "dead_units of a model whose result does not depend on floating values")
            pairs = [(t.node, np.ones(t.shape, t.dtype)) for t in roots]
            backward_pass(pairs, None, create_graph=False, retain_graph=True)  # type: ignore[arg-type]
        occurrence: dict[tuple[str, str], int] = {}
        for step in seen.steps:
            if "activation" in step.op.facets and np.ndim(step.out) and step.recording:
                key = step.path, step.op.name
                number = occurrence[key] = occurrence.get(key, -1) + 1
                count = counts.setdefault((*key, number), _Count(step.source, step.op.facets["activation"]))
                count.add(step, _gradient(step, seen), threshold)
    finally:
        reset_mode(token)


class _Count:
    def __init__(self, source: Source | None, kind: str) -> None:
        self.source, self.kind = source, kind
        self.samples = 0
        self.active: Any = 0
        self.gradient: Any = 0

    def add(self, step: Step, gradient: Any, threshold: float) -> None:
        slope = np.abs(activation_slope(step.op, step.inputs, step.attrs))
        axis = 1 if slope.ndim >= 4 else slope.ndim - 1
        others = tuple(i for i in range(slope.ndim) if i != axis)
        self.samples += slope.size // max(slope.shape[axis], 1)
        self.active = self.active + (slope > threshold).sum(axis=others)
        if gradient is not None:
            self.gradient = self.gradient + np.abs(np.asarray(gradient, np.float64)).sum(axis=others)
        else:
            self.gradient = self.gradient + np.zeros(slope.shape[axis])

    def result(self, path: str, op: str) -> LayerUnits:
        count = max(self.samples, 1)
        return LayerUnits(path, op, self.kind, self.source, self.active / count, self.gradient / count)


def activation_slope(op: Op, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """Return the derivative of an activation at every element, by its own rule."""
    x, _ = tracked(np.asarray(inputs[0]))
    bounds = [asarray(v) if isinstance(v, (np.ndarray, np.generic)) else v for v in inputs[1:]]
    y = op.front(x, *bounds, **attrs)
    found = backward_pass([(y.node, np.ones(y.shape, y.dtype))], [x.node], create_graph=False, retain_graph=False)  # type: ignore[list-item]
    slope = found.get(x.node)  # type: ignore[arg-type]
    return np.zeros(y.shape) if slope is None else np.asarray(slope, np.float64)


def _gradient(step: Step, seen: Events) -> Any:
    """Return the gradient that arrived before this activation in the backward pass."""
    for pull in seen.pulls:
        if pull.node.op is step.op and _is_of(pull, step):
            return next(iter(pull.grads.values()), None)
    return None


def _is_of(pull: Pull, step: Step) -> bool:
    saved = pull.saved if isinstance(pull.saved, tuple) else ()
    return any(v is step.out or v is step.inputs[0] for v in saved)
