"""Ops outside the table, whose derivative a user wrote: the common part of the ways of writing one.

Such an op is a composite: a traced graph holds one node for a call, what it computes is the graph
inside, and where the graph is called or differentiated the user's rule is used again.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...core import tree
from ...core.errors import GradientError, GraphError, fail
from ...core.graph.snapshot import Given, close
from ...core.mode import get_mode, reset_mode, set_mode
from ...core.node import Node, make_node
from ...core.ops.op import Joint, Op
from ...core.ops.record import abstract_input, caller, filled, graph_input, mixed, pick
from ...core.spec import Spec, category
from ...core.standins import WeakTensor, weak
from ...core.tensor import Tensor, abstract, asarray, like, wrap
from ...ops.random.generator import default_generator

Flat = Callable[..., Any]  # from tensors to a tensor, or a tuple of them
# From the values of a node's inputs and what stands in for what it saved to the results' values and that.
Remake = Callable[[Sequence[Any], Any], tuple[Any, Any]]


class CustomOp(Op):
    """An op whose derivative a user wrote; its inputs are the tensors among a call's arguments.

    `remake` computes what a node saves again (None where that follows from its rule's parameters);
    `batched(mapped)` gives the function for many examples at once, which stand along a leading axis
    of the mapped inputs and of every result.
    """

    __slots__ = ("remake", "batched")

    remake: Remake | None
    batched: Callable[[tuple[bool, ...]], Flat] | None

    def __init__(self, name: str, results: int, body: Flat, joint: Joint, front: Flat) -> None:
        super().__init__(
            f"{name if name.isidentifier() else 'custom'}(*xs)",
            "composite",
            on_arrays(body),
            facts=joint,
            results=results,
            body=body,
            infer=lambda *specs: specs_for(body, specs),
            front=front,
            listed=False,
        )
        self.remake = None
        self.batched = None


@dataclass(slots=True)
class Residuals:
    """The values that a node keeps between a user's forward and backward rule.

    `places` says of every leaf whether it is an argument or a result, which one, or of the rule's own
    making; `values` are those of the arguments that are needed again; `redone` says that own values
    depend on the arguments, so that a recorded pass computes them anew, from random numbers drawn
    at the generator's `state`. `alone` says that the tensors made of it need be part of no graph.
    """

    leaves: list[Any]
    structure: Any
    places: list[tuple[str, int]]
    values: list[Any]
    redone: bool
    state: Tensor
    alone: bool = False

    def off_graph(self) -> Residuals:
        return replace(self, alone=True)

    def emptied(self) -> Residuals:
        """Return the residuals without values: the part that `remake` needs."""
        return replace(self, leaves=[], values=[])


class Static:
    """A value that stands in a pytree as one leaf."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def drawn_again(fn: Callable[..., Any], args: Sequence[Any], state: Tensor) -> Any:
    """Call `fn` with the default generator where it was, which then stays where it is."""
    now = default_generator.get_state()
    default_generator.set_state(state)
    try:
        return fn(*args)
    finally:
        default_generator.set_state(now)


def no_draws(fn: Callable[..., Any], args: Sequence[Any], name: str) -> Any:
    """Call `fn` in a trace, and refuse random numbers of its own, which would be others each time that it runs."""
    before = default_generator.mark()
    out = fn(*args)
    if default_generator.mark() != before:
        fail(
            GraphError,
            f"{name} draws random numbers in a traced graph",
            "Its forward and its backward pass would not draw the same ones. Draw them outside, "
            "and pass them as an argument.",
        )
    return out


def on_arrays(body: Flat) -> Flat:
    """Return a function of tensors as one of arrays, nothing recorded."""

    def forward(*values: Any) -> Any:
        token = set_mode(get_mode().with_grad(False))
        try:
            out = body(*map(as_tensor, values))
        finally:
            reset_mode(token)
        return tuple(o._array for o in out) if isinstance(out, tuple) else out._array

    return forward


def as_tensor(value: Any) -> Tensor:
    """Return an array, or a tensor, as a tensor."""
    return value if isinstance(value, Tensor) else wrap(np.asarray(value))


def specs_for(body: Flat, specs: Sequence[Spec]) -> Any:
    """Return the specs of a function's results for inputs of these specs."""
    out = body(*map(abstract_input, specs))
    return tuple(o.spec for o in out) if isinstance(out, tuple) else out.spec


def value_of(x: Tensor) -> Tensor:
    """Return an argument as a plain value, or as an abstract input of its own: its uses are not recorded."""
    out = like(x, abstract_input(x.spec) if x._array is None else wrap(x._array, x.spec))
    return weak(out) if type(x) is WeakTensor else out


def is_tracked(x: Any) -> bool:
    """Return whether a value is a tensor that gradients flow to."""
    return isinstance(x, Tensor) and x.requires_grad


def tensors_of(result: Any, name: str) -> tuple[list[Tensor], Any]:
    """Return the tensors of a result's pytree, and its structure."""
    leaves, structure = tree.flatten(result)
    for leaf in leaves:
        if not isinstance(leaf, (Tensor, np.ndarray, np.generic, bool, int, float, complex)):
            fail(GradientError, f"{name} returned a {type(leaf).__name__}, which is not a pytree of tensors")
    return [leaf if isinstance(leaf, Tensor) else asarray(leaf) for leaf in leaves], structure


def run_watched(fn: Callable[..., Any], inner: Sequence[Tensor]) -> tuple[Any, dict[int, Tensor]]:
    """Return a function's result for new tensors, and the old states of those that it wrote to, by position."""
    before = [(t._array, t.node) for t in inner]
    out = fn(*inner)
    written = {}
    for i, (t, (data, node)) in enumerate(zip(inner, before, strict=True)):
        if t._array is not data or t.node is not node:
            written[i] = _as_it_was(t, data, node)
    return out, written


def _as_it_was(t: Tensor, data: Any, node: Any) -> Tensor:
    made = abstract(node) if data is None else wrap(data, t.spec)
    made.node = node
    return like(t, made)


def renamed(t: Tensor) -> Tensor:
    """Return another tensor of the same value and history: what is written to it does not reach `t`."""
    return _as_it_was(t, t._array, t.node)


def run_unwritten(fn: Callable[..., Any], inner: Sequence[Tensor], name: str) -> Any:
    """Call a function with a rule of the user's on tensors made for it. Raises GradientError where it writes to one.

    The rule speaks of the arguments as they were; what stands in them afterwards would be taken for that.
    """
    out, written = run_watched(fn, inner)
    refuse_writes(fn, name, written)
    return out


def refuse_writes(fn: Callable[..., Any], name: str, written: Mapping[int, Tensor]) -> None:
    """Raise GradientError where a function wrote to an argument."""
    for i, t in written.items():
        fail(
            GradientError,
            f"{name} writes to its argument {i}, {t.spec}",
            "A function with a derivative of its own leaves its arguments as they are: write y = x.clone() first, "
            "and return y.",
            definition(fn),
        )


def nothing_from_outside(outs: Sequence[Tensor], inner: Sequence[Tensor], name: str) -> None:
    """Raise for tensors that a function reaches without arguments: its own rule says nothing about them."""
    for o in outs:
        if o.requires_grad:
            made = o.node.source  # type: ignore[union-attr]
            fail(
                GradientError,
                f"{name} uses a tensor that requires gradients and is not one of its arguments",
                (f"It is used at {made}. " if made is not None else "")
                + "Its custom derivative would lose that gradient. Pass the tensor as an argument, or detach it.",
            )
    if any(o.is_abstract for o in outs):
        given = [Given(t, "", False) for t in inner if t.is_abstract]
        closed = close([o for o in outs if o.is_abstract], given, {})
        for node in closed.inputs[len(given) :]:
            fail(
                GradientError,
                f"{name} uses a traced tensor that is not one of its arguments, {node.spec}",
                "Pass the tensor as an argument.",
            )


def attached(value: Any, entry: Any) -> Tensor:
    """Return a saved value as a tensor attached to the graph at the node `entry`."""
    if value is None:
        return abstract(entry)
    out = wrap(value)
    if isinstance(entry, Node) and entry.requires_grad:
        out.node = entry
    return out


def attached_result(value: Any, node: Node, index: int) -> Tensor:
    """Return a saved result of a node as a tensor attached there."""
    return attached(value, node) if node.op.results == 1 else pick(node, index, value)


def record(op: Op, args: Sequence[Tensor], outs: Sequence[Tensor], saved: Any, fixed: Sequence[bool] = ()) -> list[Any]:
    """Return the results as those of one new node. `fixed` marks results that carry no gradient.

    `saved` is None where the node is to save what abstract nodes save.
    """
    specs: Any = tuple(o.spec for o in outs)
    code, offset = caller()
    mode = get_mode()
    inputs = tuple(map(graph_input, args))
    tracked = mode.grad and any(a.requires_grad for a in args)
    kept = mixed(args, inputs) if saved is None else saved
    single = op.results == 1
    node = make_node(op, inputs, {}, kept, specs[0] if single else specs, code, offset, mode.scope, tracked)
    found = []
    for i, o in enumerate(outs):
        if fixed and fixed[i]:
            found.append(o.detach())
        elif o._array is not None and (not o.spec.inexact or not tracked):
            found.append(o)
        else:
            made = like(o, _of_node(node, o) if single else pick(node, i, o._array))
            found.append(weak(made) if type(o) is WeakTensor else made)
    return found


def _of_node(node: Node, out: Tensor) -> Tensor:
    if out._array is None:
        return abstract(node)
    made = wrap(out._array, out.spec)
    made.node = node
    return made


def definition(fn: Any) -> str | None:
    """Return the `file:line` where a user's rule is written, for errors about its results."""
    code = getattr(inspect.unwrap(fn), "__code__", None) if callable(fn) else None
    return None if code is None else f"{code.co_filename}:{code.co_firstlineno}"


def zero_tangent(x: Any) -> Any:
    """Return the tangent of a value that none arrives at: zeros, and None for one that is not floating."""
    if isinstance(x, Tensor):
        return filled(0, x.spec) if category(x.dtype) >= 2 else None
    return 0.0 if isinstance(x, (float, complex)) else None
