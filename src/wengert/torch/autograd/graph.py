"""The recorded graph as programs walk it, with hooks and contexts, under PyTorch's path: `torch.autograd.graph`.

>>> import wengert.torch as torch
>>> x = torch.tensor(2.0, requires_grad=True)
>>> y = x * 3
>>> y.grad_fn.name(), y.grad_fn.next_functions[0][0].name()
('MultiplyBackward', 'AccumulateGrad')
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ...core.errors import GradientError, fail
from ...core.node import AfterStep, BeforeStep, Freed, Hooked, Recomputed, RemovableHandle, hooked
from ...core.node import Node as PlainNode
from ...core.ops.record import OUTPUT
from ...core.tensor import Tensor as PlainTensor
from ...core.tensor import of_class, wrap
from ...transforms.derivatives.reverse import reachable, running
from ..absent import names_of
from ..functions.versions import increment_version
from ..tensor import Tensor
from .packing import allow_mutation_on_saved_tensors, disable_saved_tensors_hooks, save_on_cpu, saved_tensors_hooks


class Node:
    """A step of the backward pass, `x.grad_fn`: what it is called, what follows it, hooks, and a dict for programs."""

    __slots__ = ("__weakref__", "_node")

    def __init__(self, node: PlainNode) -> None:
        self._node = node

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and self._node is other._node

    def __hash__(self) -> int:
        return id(self._node)

    def __repr__(self) -> str:
        return f"<{self.name()}>"

    def __getattr__(self, name: str) -> Any:
        place = _SAVED.get(name)
        if place is not None:
            return self._saved(name, place)
        if name.startswith("_"):
            raise AttributeError(f"{self.name()} has no attribute {name!r}")
        return getattr(self._node, name)

    def _saved(self, name: str, place: int) -> Any:
        """Return what the step keeps of an operand, or of its result. Raises GradientError once it is freed."""
        saved = self._node.saved.saved if type(self._node.saved) is Hooked else self._node.saved
        if type(saved) is Freed:
            fail(GradientError, f"{self.name()}.{name} was freed by backward() at {saved.where}")
        if isinstance(saved, Recomputed):
            saved = saved.take(self._node)
        value = saved[place] if saved and len(saved) > abs(place) else None
        if value is None:
            raise AttributeError(f"{self.name()} has no attribute {name!r}")
        return of_class(Tensor, wrap(value)) if isinstance(value, np.ndarray) else value

    def name(self) -> str:
        """Return the name, such as "MultiplyBackward", of a leaf "AccumulateGrad"."""
        return self._node.name()

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """The steps that follow, each with the number of the result whose gradient it is given; None without one."""
        found: list[tuple[Node | None, int]] = []
        for n in self._node.inputs:
            if not isinstance(n, PlainNode) or not n.requires_grad:
                found.append((None, 0))
            elif n.op is OUTPUT:
                found.append((step(n.inputs[0]), int(n.attrs["index"])))
            else:
                found.append((step(n), 0))
        return tuple(found)

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dict for programs to write to, which lasts as long as the step."""
        return _metadata.setdefault(self._node, {})

    def register_hook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Call `fn(grad_inputs, grad_outputs)` after the step; what it returns, unless None, replaces `grad_inputs`.

        An input that stands there twice has the sum in the first place. Returns a handle whose `remove()` ends it.
        """
        return self._add(AfterStep(_told, fn))

    def register_prehook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Call `fn(grad_outputs)` before the step; what it returns, unless None, replaces them. Returns a handle."""
        return self._add(BeforeStep(_told, fn))

    def _add(self, hook: Any) -> RemovableHandle:
        return RemovableHandle(hooked(self._node).hooks, hook, self._node.op.kind == "leaf")


# PyTorch's names of what the steps of many operations keep, by their places.
_SAVED = {"_saved_self": 0, "_saved_input": 0, "_saved_other": 1, "_saved_result": -1}
_metadata: weakref.WeakKeyDictionary[PlainNode, dict[Any, Any]] = weakref.WeakKeyDictionary()
# One object for each node while somebody has it, of a class called as the step is.
_steps: weakref.WeakValueDictionary[int, Node] = weakref.WeakValueDictionary()
_classes: dict[str, type[Node]] = {}


def step(node: PlainNode) -> Node:
    """Return a recorded node as a step of the backward pass."""
    found = _steps.get(id(node))
    if found is None or found._node is not node:
        name = node.name()
        cls = _classes.get(name)
        if cls is None:
            cls = _classes[name] = type(name, (Node,), {"__slots__": (), "__doc__": Node.__doc__})
        found = _steps[id(node)] = cls(node)
    return found


def _told(fn: Callable[..., Any], *gradients: Any) -> Any:
    """Call a hook with gradients of PyTorch's meaning."""
    return fn(*(tuple(None if g is None else of_class(Tensor, g) for g in each) for each in gradients))


def _grad_fn(self: Any) -> Node | None:
    """Return the step that the tensor's gradient goes to first; None for a leaf and for what was not recorded."""
    if self.is_leaf:
        return None
    return step(self.node.inputs[0] if self.node.op is OUTPUT else self.node)


Tensor.grad_fn = property(_grad_fn)  # type: ignore[assignment]


class GradientEdge(NamedTuple):
    """A place in the graph, of which `autograd.grad` gives the gradient: a step, and the number of its result."""

    node: Node
    output_nr: int
    ownership_token: Any = None


def get_gradient_edge(tensor: Any) -> GradientEdge:
    """Return the place in the graph whose gradient is the tensor's, also after the tensor is written to.

    Raises GradientError for a tensor that does not require gradients.

    >>> import wengert.torch as torch
    >>> x = torch.tensor(2.0, requires_grad=True).clone()
    >>> edge = torch.autograd.graph.get_gradient_edge(x)
    >>> x *= 5
    >>> torch.autograd.grad(x, edge)
    (tensor(5.),)
    """
    if not tensor.requires_grad:
        fail(GradientError, "get_gradient_edge() of a tensor that does not require gradients")
    found = step(tensor.node) if tensor.is_leaf else _grad_fn(tensor)
    return GradientEdge(found, 0 if tensor.is_leaf else tensor.output_nr, tensor.node)  # type: ignore[arg-type]


class AtEdge(PlainTensor):
    """A stand-in for the tensor at a place in the graph, whose gradient is asked for."""

    __slots__ = ()


def at_edges(inputs: Sequence[Any], outputs: Sequence[Any]) -> list[Any]:
    """Return inputs of a backward pass with tensors in the place of edges. Raises GradientError for a step not met."""
    if not any(isinstance(x, GradientEdge) for x in inputs):
        return list(inputs)
    met = reachable([o.node for o in outputs if isinstance(o, PlainTensor) and o.node is not None])
    found: list[Any] = []
    for x in inputs:
        if isinstance(x, GradientEdge):
            node = x.ownership_token if isinstance(x.ownership_token, PlainNode) else x.node._node
            if node is x.node._node and isinstance(node.spec, tuple):
                picked = (n for n in met if n.op is OUTPUT and n.inputs[0] is node and n.attrs["index"] == x.output_nr)
                node = next(picked, node)
            stands = AtEdge.__new__(AtEdge)
            stands._data, stands._grad, stands._share = None, None, None
            stands._spec, stands.node = node.spec, node
            x = stands
        found.append(x)
    return found


class _Handles:
    """The handles of several hooks as one."""

    __slots__ = ("handles",)

    def __init__(self, handles: Sequence[Any]) -> None:
        self.handles = handles

    def remove(self) -> None:
        """Remove the hooks."""
        for handle in self.handles:
            handle.remove()


def register_multi_grad_hook(tensors: Sequence[Any], fn: Callable[..., Any], *, mode: str = "all") -> Any:
    """Call `fn` with the gradients of several tensors when all that a backward pass computes are there.

    Those that it does not compute are None. With `mode="any"` call it with the first one that is there. Returns a
    handle, whose `remove()` ends it. Raises ValueError for another mode.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"register_multi_grad_hook: mode={mode!r}. It is 'all' or 'any'.")
    nodes = [t.node for t in tensors]
    seen: weakref.WeakKeyDictionary[Any, dict[int, Any]] = weakref.WeakKeyDictionary()

    def arrived(i: int, gradient: Any) -> None:
        current: Any = running.get()
        found = seen.setdefault(current, {})
        found[i] = gradient
        if mode == "any":
            if len(found) == 1:
                fn(gradient)
            return
        if len(found) == sum(current.reaches(n) for n in nodes):
            fn([found.get(k) for k in range(len(nodes))])

    return _Handles([t.register_hook(partial(arrived, i)) for i, t in enumerate(tensors)])


__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
