"""Recording a function's call, with its arguments as inputs: what `wg.explore(f, *args)` does."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...core import tree
from ...core.errors import GraphError, fail
from ...core.graph.graph import Graph
from ...core.node import Node
from ...core.spec import Spec, category
from ...core.tensor import Tensor, asarray, wrap
from ...explain.observing.arguments import parameter_names, tensors_of
from ...transforms.derivatives import reverse
from . import reached
from .gathered import graph_title
from .names import name_leaves
from .recorder import Recorder
from .recording import Recording, recorded


def record_call(
    target: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], step: int | None = None
) -> Recording:
    """Run a function under the recorder."""
    inputs = _Inputs(target, args, kwargs)
    recorder = Recorder(step)
    error: BaseException | None = None
    notes: list[str] = []
    results: list[Tensor] = []
    with recorder.recording():
        try:
            results = tensors_of(target(*inputs.args, **inputs.kwargs))
            if not recorder.has_passed:
                _differentiate(results, notes)
        except Exception as e:
            error = e
    recorder.settle(error is not None)
    recording = recorded(recorder, inputs.nodes, results)
    inside = reached.tensors(recorder.variables.items())
    outside = reached.arrays([("", target), *recorder.variables.items()])
    name_leaves(recording.rows, reached.leaf_names(inside) | inputs.names, outside)
    recording.title, recording.script = inputs.title, inputs.script
    recording.error, recording.notes = error, [*notes, *recorder.notes()]
    recording.parameters = reached.parameters([*inputs.used, *inside])
    return recording


def _differentiate(results: Sequence[Tensor], notes: list[str]) -> None:
    """Run a backward pass from what a function returned: its first scalar, else the sum of everything."""
    tracked = [t for t in results if t.node is not None and t.requires_grad and category(t.dtype) >= 2]
    scalars = [t for t in tracked if t.size == 1 and category(t.dtype) == 2]
    if not tracked:
        return
    chosen = scalars[:1] or tracked
    if not scalars:
        notes.append("The result is no single number: shown are the gradients of the sum of its elements.")
    pairs = [(t.node, np.ones(t.shape, t.dtype)) for t in chosen if t.node is not None]
    reverse.backward_pass(pairs, None, create_graph=False, retain_graph=True)


class _Inputs:
    """A function's arguments as inputs with gradients, and the names of things."""

    def __init__(self, target: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self.names: dict[int, str] = {}
        self.nodes: list[Node] = []
        self._alive: list[Any] = []
        names = _names(target, len(args))
        self.used = reached.tensors([("", target), *((n, a) for n, a in zip(names, args) if callable(a))])
        for name, tensor in self.used:
            self._call(tensor, name)
        taken = [n.spec for n in target.inputs] if isinstance(target, Graph) else [t for _, t in self.used]
        self._number = _float_dtype(taken, (args, kwargs))
        self.args = [self._argument(name, value) for name, value in zip(names, args, strict=True)]
        self.kwargs = {name: self._argument(name, value) for name, value in kwargs.items()}
        called = getattr(target, "__name__", type(target).__name__)
        self.title = "lambda" if called == "<lambda>" else f"{called}({', '.join([*names, *kwargs])})"
        if isinstance(target, Graph):
            self.title = graph_title(target)
        code = getattr(inspect.unwrap(target), "__code__", None)
        file = code.co_filename if code is not None else ""
        self.script = _script(file)

    def _argument(self, name: str, value: Any) -> Any:
        if callable(value):
            return value
        leaves, structure = tree.flatten(value)
        if len(leaves) == 1 and leaves[0] is value:
            return self._leaf(name, value)
        return tree.unflatten(structure, [self._leaf(f"{name}.{i}", leaf) for i, leaf in enumerate(leaves)])

    def _leaf(self, name: str, value: Any) -> Any:
        if not isinstance(value, (Tensor, np.ndarray, np.generic)) and type(value) not in (float, complex):
            return value
        made = asarray(value, dtype=self._number if type(value) is float else None)
        if made._array is None:
            fail(GraphError, f"explore: the argument {name} is abstract", "Give a tensor with a value.")
        if category(made.dtype) >= 2 and made.node is None:
            made = wrap(made._array, made.spec).requires_grad_()
        if made.node is not None:
            self.nodes.append(made.node)
        self._call(made, name)
        return made

    def _call(self, tensor: Tensor, name: str) -> None:
        self.names.setdefault(reached.key(tensor), name)
        self._alive.append((tensor, tensor.node, tensor._array))


def _script(file: str) -> str:
    """Return the name of a file of code; a prompt and a notebook cell (`/tmp/ipykernel_7/42.py`) have none."""
    folder, name = os.path.split(file)
    return "" if file.startswith("<") or os.path.basename(folder).startswith("ipykernel_") else name


def _names(target: Any, count: int) -> list[str]:
    """Return a function's names for its arguments."""
    if isinstance(target, Graph):
        free = [target.names[n] for n in target.inputs if n not in target.bound]
        if len(free) == count:
            return free
    return parameter_names(getattr(target, "forward", target), count)


def _float_dtype(used: Sequence[Tensor | Spec], arguments: Any) -> Any:
    """Return the dtype for Python numbers: that of all floating tensors which the function uses, else float64."""
    given = [leaf for leaf in tree.leaves(arguments) if isinstance(leaf, (Tensor, np.ndarray, np.generic))]
    found = {x.dtype for x in [*used, *given] if np.dtype(x.dtype).kind == "f"}
    return found.pop() if len(found) == 1 else np.dtype(np.float64)
