"""Fresh variables in the place of a transformed function's arguments, and the end of their life.

A function may write to its arguments. It is given tensor objects of its own, so the caller's stay as they are, and
so do the transform's: what it differentiates in are nodes, which no write changes.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

import numpy as np

from ...core import tree
from ...core.dtypes import is_inexact
from ...core.errors import DTypeError, GradientError, GraphError, fail
from ...core.mode import get_mode, reset_mode, set_mode
from ...core.node import EMPTY_ATTRS, Hooked, Node, make_node
from ...core.ops.op import ALIAS, LEAF
from ...core.ops.record import another, caller, resumed, same_value, stopped
from ...core.spec import category, complex_dtype, promote, real_dtype, spec_of
from ...core.standins import WeakTensor, weak
from ...core.state.capture import Filled, Writes, Written
from ...core.state.capture import open_variables as _open
from ...core.state.cells import del_data
from ...core.state.refusals import Watch
from ...core.storage import alone, storage_of, window_of
from ...core.tensor import Tensor, abstract, like, wrap
from ...ops.structure.shapes import as_operand, casted
from .reverse import Reachable, reach


class Pytree:
    """An argument with its floating leaves replaced by fresh variables to differentiate in.

    `tracked` is for the function; the `variables` are tensors of the same nodes for the transform.
    """

    __slots__ = ("tracked", "variables", "_structure", "_positions", "_count")

    def __init__(self, pytree: Any, what: str) -> None:
        leaves, self._structure = tree.flatten(pytree)
        self.variables: list[Tensor] = []
        self._positions: list[int] = []
        self._count = len(leaves)
        for i, leaf in enumerate(leaves):
            if differentiable(leaf):
                fresh = variable(leaf)
                leaves[i] = same_value(fresh)
                self.variables.append(fresh)
                self._positions.append(i)
            elif isinstance(leaf, Tensor):
                leaves[i] = another(leaf)
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
        """Return a pytree of this structure with the next gradients at the differentiated leaves."""
        leaves: list[Any] = [None] * self._count
        for i in self._positions:
            leaves[i] = next(grads)
        return tree.unflatten(self._structure, leaves)

    def beside(self, pytree: Any, what: str) -> list[tuple[Tensor, Any]]:
        """Return the variables, each with the leaf in its place in another pytree of this structure."""
        # None among tangents stands for a leaf's zeros; a None of the argument is no leaf at all.
        places, wanted = tree.flatten(tree.unflatten(self._structure, list(range(self._count))), _is_none)
        leaves, found = tree.flatten(pytree, _is_none)
        ordered = tree.arranged(leaves, found, wanted)
        if ordered is None:
            fail(GradientError, f"{what}: tangents {found} for {wanted}", "They must have one structure.")
        return [(v, ordered[places.index(i)]) for v, i in zip(self.variables, self._positions, strict=True)]


def _is_none(x: Any) -> bool:
    return x is None


def own_copies(pytree: Any) -> Any:
    """Return a pytree with its tensors as other objects, one for one: a step of a loop may write to them."""
    if isinstance(pytree, Tensor):
        return another(pytree)
    made: dict[int, Tensor] = {}

    def own(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        if id(leaf) not in made:
            made[id(leaf)] = another(leaf)
        return made[id(leaf)]

    return tree.map(own, pytree)


def own_object(leaf: Any) -> Any:
    """Return a tensor as another object of the same node; any other value as it is."""
    return same_value(leaf) if isinstance(leaf, Tensor) else leaf


def differentiable(leaf: Any) -> bool:
    """Return whether a leaf is a floating or complex number, array or tensor."""
    if isinstance(leaf, Tensor):
        return category(leaf.dtype) >= 2
    if isinstance(leaf, (np.ndarray, np.generic)):
        return is_inexact(leaf.dtype)
    return type(leaf) in (float, complex)


def describe_leaf(leaf: Any) -> str:
    """Return a leaf as errors name it: dtype and shape, or its type."""
    if isinstance(leaf, (Tensor, np.ndarray, np.generic)):
        return f"{leaf.dtype} {leaf.shape}"
    return type(leaf).__name__


def variable(leaf: Any) -> Tensor:
    """Return a new variable with the leaf's value, connected to it where something outside tracks it."""
    x = resumed(leaf) if isinstance(leaf, Tensor) else as_operand(leaf)
    connected = x.is_abstract or x.requires_grad
    code, offset = caller()
    # As a tensor among the inputs, the leaf gets no gradient, but a graph still knows what it is.
    source = x.node if connected else x
    node = make_node(ALIAS, (source,), EMPTY_ATTRS, (), x.spec, code, offset, get_mode().scope)
    out = like(x, abstract(node) if x.is_abstract else wrap(x._array, x.spec))
    out.node = node
    _open[node] = x._array
    return weak(out) if type(x) is WeakTensor else out


def of_number(g: Any, variable: Tensor, outs: Sequence[Tensor]) -> Any:
    """Return a variable's gradient; for one of a Python number, in the dtype of the function's results."""
    if type(variable) is not WeakTensor:
        return g
    found = [o.dtype for o in outs if type(o) is not WeakTensor and category(o.dtype) >= 2]
    if not found:
        return weak(g)
    together = functools.reduce(promote, found)
    return casted(g, complex_dtype(together) if category(g.dtype) == 3 else real_dtype(together))


def outer_variables(outs: Sequence[Tensor]) -> list[Tensor]:
    """Return the variables of transforms at work, with values, that results depend on."""
    found: dict[Node, Tensor] = {}
    stack = [o.node for o in outs if o.node is not None]
    seen = set(stack) if _open else None
    while seen is not None and stack:
        node = stack.pop()
        if _open.get(node) is not None:
            found[node] = alias = wrap(_open[node], node.spec)
            alias.node = node
            continue
        for entry in node.inputs:
            source = entry.node if isinstance(entry, Tensor) else entry
            if isinstance(source, Node) and source not in seen:
                seen.add(source)
                stack.append(source)
    return list(found.values())


def recorded(
    fn: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    writes: Writes,
    given: Any,
    variables: Sequence[Tensor],
) -> Any:
    """Return `fn()`, with gradients recorded.

    `writes` gathers the tensors that it writes to (see :func:`close`); those in the pytree `given` are the caller's.
    What would cut a value off from the `variables` is raised again if `fn` takes the error.
    """
    watch = Watch(fn, lambda node: any(node is t.node for t in variables), cuts=True)
    token = set_mode(get_mode().with_grad(True))
    try:
        with watch:
            return run_apart(fn, args, kwargs, writes, given)
    finally:
        reset_mode(token)


def run_apart(
    fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], writes: Writes, given: Any
) -> Any:
    """Return `fn()`; the tensors in the pytree `given` stay as they are, whatever it writes to them."""
    result = _UNSET
    try:
        with writes:
            result = fn(*args, **kwargs)
    finally:
        if writes.found:
            own = {id(t) for t in tree.leaves(given, has_state) if isinstance(t, Tensor)} & writes.found.keys()
            if own and result is not _UNSET:
                result = tree.map(lambda x: same_value(x) if id(x) in own and isinstance(x, Tensor) else x, result)
            for i in own:
                t = writes.found[i].tensor()
                if t is not None:
                    _restore(writes.found.pop(i), t)
    return result


_UNSET: Any = object()


def has_state(x: Any) -> bool:
    """Return whether an object is one that functions read and write (a module, an optimiser), not a pytree."""
    return hasattr(type(x), "named_parameters") or hasattr(type(x), "__jit_cells__")


def run_once(
    fn: Callable[..., Any],
    args: Any,
    kwargs: Any,
    inputs: Container[Node | None],
    is_inside: Callable[[Node], bool],
    fills: bool = False,
) -> Any:
    """Return `fn()` in a trace in which it runs once, whatever its graph is then used for.

    `inputs` are the trace's, `is_inside` says of a node whether it belongs to the trace. Raises GraphError where `fn`
    writes to a tensor from outside, or (unless it `fills` them) to its `.grad`; these stay as they were: how often the
    write is meant to happen, and when, the graph would not say. A refusal that `fn` takes is raised again.
    """
    writes = Writes(is_trace=True)
    own = lambda node: node in inputs or (not node.inputs and node.op.kind != "leaf" and is_inside(node))
    try:
        with writes, Watch(fn, own):
            result = fn(*args, **kwargs)
    except BaseException:
        for written, t in _outside(writes, is_inside):
            _restore(written, t)
        for filled, t in _filled(writes, is_inside):
            t._grad = filled.before
        raise
    if writes.found:
        # That a tensor is returned does not tell whose it is: what still lives without the result is from outside.
        result = tree.map(lambda leaf: own_object(leaf) if id(leaf) in writes.found else leaf, result)
    if _outside(writes, is_inside) or _filled(writes, is_inside):
        gc.collect()  # what only a cycle keeps alive is gone
    found, gradients = _outside(writes, is_inside), _filled(writes, is_inside)
    for written, t in found:
        _restore(written, t)
    for filled, t in gradients:
        t._grad = filled.before
    name = getattr(fn, "__name__", type(fn).__name__)
    for filled, t in gradients if not fills else ():
        fail(
            GraphError,
            f"{name} fills the .grad of a tensor from outside, {t.spec}, while it is traced",
            "It is traced once, however often it runs. Take the gradients as values: wg.grad, "
            "autograd.grad(loss, [w]), or backward(inputs=[x]) where only those of x are meant.",
            filled.where,
        )
    for written, t in found:
        fail(
            GraphError,
            f"{name} writes to a tensor from outside, {t.spec}, while it is traced",
            "It is traced once, however often it runs. Return the new value: in a loop as part of the state that is "
            "carried, in vmap and wg.graph as a result, and assign it outside.",
            written.where,
        )
    return result


def _filled(writes: Writes, is_inside: Callable[[Node], bool]) -> list[tuple[Filled, Tensor]]:
    """Return the leaves from outside that have an abstract gradient now."""
    found = []
    for filled in writes.gradients.values():
        t = filled.tensor()
        if t is None or (filled.node is not None and is_inside(filled.node)):
            continue
        now = getattr(t, "_grad", None)
        if now is not filled.before and isinstance(now, Tensor) and now.is_abstract:
            found.append((filled, t))
    return found


def _outside(writes: Writes, is_inside: Callable[[Node], bool]) -> list[tuple[Written, Tensor]]:
    """Return the written tensors that outlive the function and were there before it."""
    found = []
    for written in writes.found.values():
        t = written.tensor()
        if t is None or (t._array is written.data and t.node is written.node):
            continue
        if written.data is None and is_inside(written.node):  # type: ignore[arg-type]
            continue
        found.append((written, t))
    return found


def _restore(written: Written, t: Tensor) -> None:
    data = written.data
    is_member = storage_of(t) is not None and t._share is written.base
    if is_member and type(data) is np.ndarray and window_of(t) is not None:
        alone(t)[...] = data
    else:
        t._data, t._share = data, written.base
        if written.window is not None:
            t._window = written.window
            del_data(t)
        elif storage_of(t) is not None:
            t._window = None
    t.node = written.node
    if written.data is not None:
        t._spec = spec_of(written.data.shape, written.data.dtype)


def split_aux(result: Any, has_aux: bool, name: str) -> tuple[Any, Any]:
    """Return a result as (value, aux). Raises GradientError where `has_aux` asks for a pair and there is none."""
    if not has_aux:
        refuse_none(result, name)
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        fail(GradientError, f"{name} must return (value, aux) with has_aux=True, not {type(result).__name__}")
    refuse_none(result[0], name)
    return result


def refuse_none(result: Any, name: str) -> None:
    """Raise DTypeError for a function without a result: most often its `return` was forgotten."""
    if result is None:
        fail(DTypeError, f"{name} returned None, not a value", "A function that is transformed ends in a `return`.")


def reaches_others(root: Node, inputs: Sequence[Tensor], known: Reachable | None = None) -> bool:
    """Return whether the result depends on a tracked leaf that is not one of the fresh variables."""
    pending, ends = known if known is not None else reach([root])
    own = {t.node for t in inputs}
    return not ends <= own and any(_is_variable(node) and node not in own for node in pending)


def is_live(root: Node, dead: set[Node]) -> bool:
    """Return whether the result depends on a value that gradients are still asked for.

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
    """Return whether gradients end here: in a leaf that lives, or in a variable of another transform at work."""
    if node.op is LEAF:
        return node.variable is not None or type(node.saved) is Hooked
    return node.op.kind == "leaf" or (node.op is ALIAS and node in _open)


def close(inputs: Sequence[Tensor], writes: Writes) -> None:
    """End the life of a transform's variables: values that depend on nothing else are plain outside.

    So are tensors outside that the function wrote to.
    """
    for t in inputs:
        if t.node is not None:
            _open.pop(t.node, None)
    dead: set[Node] = set()
    for written in writes.found.values():
        x = written.tensor()
        if x is not None and x.requires_grad and not x.is_abstract and not is_live(x.node, dead):
            x.node = None


def plain(x: Any) -> Any:
    """Return a result without history; an abstract one keeps its own, unless nothing is recorded for gradients."""
    if not isinstance(x, Tensor):
        return x
    if x.is_abstract:
        return x if get_mode().grad or not x.spec.inexact else stopped(x)
    return x.detach() if x.requires_grad else x
