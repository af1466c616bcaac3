"""Fresh variables: what a transform of functions puts in its arguments' places, and when it is done with them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core import tree
from ..core.errors import DTypeError, GradientError, fail
from ..core.mode import get_mode, reset_mode, set_mode
from ..core.node import EMPTY_ATTRS, Node, make_node
from ..core.record import caller, resumed, stopped
from ..core.spec import category
from ..core.tensor import ALIAS, Tensor, abstract, asarray, wrap
from .reverse import Reachable, reach


class Nest:
    """An argument with its floating leaves replaced by fresh variables to differentiate in."""

    __slots__ = ("tracked", "variables", "_structure", "_positions", "_count")

    def __init__(self, nest: Any, what: str) -> None:
        leaves, self._structure = tree.flatten(nest)
        self.variables: list[Tensor] = []
        self._positions: list[int] = []
        self._count = len(leaves)
        for i, leaf in enumerate(leaves):
            if differentiable(leaf):
                leaves[i] = fresh = variable(leaf)
                self.variables.append(fresh)
                self._positions.append(i)
        if not self.variables:
            found = sorted({describe_leaf(leaf) for leaf in leaves}) or ["nothing"]
            fail(
                DTypeError,
                f"{what} cannot be differentiated in: it holds {', '.join(found)}",
                "Gradients exist for floating and complex values: write 3.0 instead of 3, "
                "or x.astype(wg.float32); choose other arguments with argnums=.",
            )
        self.tracked = tree.unflatten(self._structure, leaves)

    def like(self, grads: Any) -> Any:
        """A nest of this structure with the next gradients at the differentiated leaves."""
        leaves: list[Any] = [None] * self._count
        for i in self._positions:
            leaves[i] = next(grads)
        return tree.unflatten(self._structure, leaves)

    def beside(self, nest: Any, what: str) -> list[tuple[Tensor, Any]]:
        """The variables, each with what stands in its place in another nest of this structure."""
        # None among them stands for a leaf's zeros; a None of the argument is no leaf at all.
        own, structure = tree.flatten(self.tracked, _is_none)
        leaves, found = tree.flatten(nest, _is_none)
        if found != structure:
            fail(GradientError, f"{what}: tangents {found} for {structure}", "They must have one structure.")
        by_id = {id(o): leaf for o, leaf in zip(own, leaves)}
        return [(v, by_id[id(v)]) for v in self.variables]


def _is_none(x: Any) -> bool:
    return x is None


def differentiable(leaf: Any) -> bool:
    if isinstance(leaf, Tensor):
        return category(leaf.dtype) >= 2
    if isinstance(leaf, (np.ndarray, np.generic)):
        return leaf.dtype.kind in "fc" or leaf.dtype.name == "bfloat16"
    return type(leaf) in (float, complex)


def describe_leaf(leaf: Any) -> str:
    if isinstance(leaf, (Tensor, np.ndarray, np.generic)):
        return f"{leaf.dtype} {leaf.shape}"
    return type(leaf).__name__


def variable(leaf: Any) -> Tensor:
    """A new variable with the leaf's value, connected to it where something outside tracks it."""
    x = resumed(leaf) if isinstance(leaf, Tensor) else asarray(leaf)
    connected = x.is_abstract or (x.requires_grad and not _is_parameter(x))
    code, offset = caller()
    # As a tensor among the inputs, the leaf gets no gradient, but a graph still knows what it is.
    source = x.node if connected else x
    node = make_node(ALIAS, (source,), EMPTY_ATTRS, (), x.spec, code, offset, get_mode().scope)
    if x.is_abstract:
        return abstract(node)
    out = wrap(x._data, x._spec)
    out.node = node
    _open[node] = x._data
    return out


# The variables of transforms at work, and their values.
_open: weakref.WeakKeyDictionary[Node, Any] = weakref.WeakKeyDictionary()


def open_variables(outs: Sequence[Tensor]) -> list[Tensor]:
    """The variables of transforms at work, with values, that results hang on."""
    found: dict[Node, Tensor] = {}
    stack = [o.node for o in outs if o.node is not None]
    seen = set(stack) if _open else None
    while seen is not None and stack:
        node = stack.pop()
        if node in _open:
            found[node] = alias = wrap(_open[node], node.spec)
            alias.node = node
            continue
        for entry in node.inputs:
            source = entry.node if isinstance(entry, Tensor) else entry
            if isinstance(source, Node) and source not in seen:
                seen.add(source)
                stack.append(source)
    return list(found.values())


def _is_parameter(x: Tensor) -> bool:
    # A subclass of Tensor is a module's parameter: in a functional transform it is a plain value.
    return type(x) is not Tensor and x.is_leaf


def recorded(fn: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    token = set_mode(get_mode().with_grad(True))
    try:
        return fn(*args, **kwargs)
    finally:
        reset_mode(token)


def split_aux(result: Any, has_aux: bool, name: str) -> tuple[Any, Any]:
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        fail(GradientError, f"{name} must return (value, aux) with has_aux=True, not {type(result).__name__}")
    return result


def reaches_others(root: Node, inputs: Sequence[Tensor], known: Reachable | None = None) -> bool:
    """Whether the result depends on a tracked leaf that is not one of the fresh variables."""
    pending, ends = known if known is not None else reach([root])
    own = {t.node for t in inputs}
    return not ends <= own and any(_is_variable(node) and node not in own for node in pending)


def is_live(root: Node, dead: set[Node]) -> bool:
    """Whether the result depends on anything that gradients are still asked for.

    `dead` has nodes known not to, and gains what is found.
    """
    if root in dead:
        return False
    seen = {root}
    stack = [root]
    while stack:
        node = stack.pop()
        if _is_variable(node):
            return True
        for entry in node.inputs:
            if type(entry) is Node and entry not in seen and entry not in dead:
                seen.add(entry)
                stack.append(entry)
    dead |= seen
    return False


def _is_variable(node: Node) -> bool:
    """Whether gradients end here: a leaf, or what another transform, still at work, differentiates in."""
    return node.op.kind == "leaf" or (node.op is ALIAS and node in _open)


def close(inputs: Sequence[Tensor]) -> None:
    """The transform is done with its variables: what hangs on nothing else is a plain value to those outside."""
    for t in inputs:
        if t.node is not None:
            _open.pop(t.node, None)


def plain(x: Any) -> Any:
    """A result without history; an abstract one keeps its own, unless nothing is recorded for gradients."""
    if not isinstance(x, Tensor):
        return x
    if x.is_abstract:
        return x if get_mode().grad or not x.spec.inexact else stopped(x)
    return x.detach() if x.requires_grad else x
