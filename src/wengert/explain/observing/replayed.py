"""Replay of a graph that was recorded without being observed: its steps with their values, and what it had saved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.errors import GradientError, fail
from ...core.mode import get_mode, reset_mode, set_mode
from ...core.node import Freed, Hooked, Node
from ...core.ops.op import as_kept
from ...core.ops.record import OUTPUT, kept_values
from ...core.tensor import Tensor, wrap
from ...transforms.derivatives.custom_op import CustomOp
from ...transforms.derivatives.reverse import reachable
from ...transforms.derivatives.whole import ProgramOp
from ...transforms.tracing import replay as again
from .events import Step, observed


def replay(roots: Sequence[Node]) -> list[Step]:
    """Return steps for every tracked node that the roots were computed by, with values.

    A value that a node saved is taken as it is; any other is computed again from the inputs, leaves
    having the value that they have now.
    """
    order = _topological(roots)
    values = _saved_values(order)
    steps: list[Step] = []
    with np.errstate(all="ignore"):
        for node in order:
            if node.op.kind == "leaf":
                owner = node.variable if node.op.name == "leaf" else None
                if node not in values:
                    values[node] = None if owner is None else owner._array
                continue
            inputs = tuple(_input_value(e, values) for e in node.inputs)
            run = _runner(node)
            if node not in values:
                values[node] = None if any(v is None for v in inputs) else as_kept(run(*inputs))
            if values[node] is not None:
                step = Step(node.op, inputs, values[node], run, node.code, node.offset, node.scope, True, len(steps))
                step.node = node
                steps.append(step)
    return steps


def opened(target: Tensor, what: str) -> Tensor:
    """Return the tensor recorded anew, with the operations of compiled programs where each was one node.

    Itself where no compiled program had a part in it. What was computed before the first one stays as it is, the leaves
    among it; what comes after is computed again. Raises GradientError where values for that are gone.
    """
    assert target.node is not None
    order = _topological([target.node])
    if not any(isinstance(node.op, ProgramOp) for node in order):
        return target
    values = {step.node: step.out for step in replay([target.node])}
    made: dict[Node, Any] = {}

    def argument(entry: Any) -> Any:
        if not isinstance(entry, Node):
            return wrap(entry) if isinstance(entry, (np.ndarray, np.generic)) else entry
        if entry in made:
            return made[entry]
        owner = entry.variable if entry.op.name == "leaf" else None
        if owner is not None:
            return owner
        if values.get(entry) is None:
            fail(
                GradientError,
                f"{what} of a result of compiled code whose inputs are gone, {target.spec}",
                f"Keep them in variables, or give the function: wg.explain.{what}(f, *args).",
            )
        return _as_recorded(entry, values[entry])

    mode = get_mode().as_recorded(True)
    token = set_mode(mode)
    try:
        with observed(), np.errstate(all="ignore"):  # what is observed knows the lines of the graph's nodes
            for node in order:
                compiled = isinstance(node.op, ProgramOp)
                if compiled or any(isinstance(e, Node) and e in made for e in node.inputs):
                    set_mode(mode.within(node.scope))
                    given = [argument(e) for e in node.inputs]
                    outs = again.replay(node.op.graph, given) if isinstance(node.op, ProgramOp) else ()
                    one = outs[0] if len(outs) == 1 else outs
                    made[node] = one if compiled else again.record_again(node, given)
    finally:
        reset_mode(token)
    found: Tensor = made[target.node]
    return found


def _as_recorded(node: Node, value: Any) -> Tensor:
    """Return a tensor of a value that is the result of a node."""
    tensor = wrap(value, node.spec)
    tensor.node = node
    return tensor


def _runner(node: Node) -> Callable[..., Any]:
    forward, attrs = node.op.forward, node.attrs
    if node.op is OUTPUT:
        return lambda x: x[attrs["index"]]
    return (lambda *v: forward(*v, **attrs)) if attrs else forward


def _input_value(entry: Any, values: dict[Node, Any]) -> Any:
    if isinstance(entry, Node):
        return values.get(entry)
    return entry._array if isinstance(entry, Tensor) else entry


def _saved_values(order: Sequence[Node]) -> dict[Node, Any]:
    values: dict[Node, Any] = {}
    for node in order:
        saved = node.saved.saved if hasattr(node.saved, "hooks") else node.saved
        if type(saved) is not tuple or len(saved) != len(node.inputs) + 1 or isinstance(node.spec, tuple):
            continue
        if _fits(saved[-1], node):
            values[node] = saved[-1]
        pairs = zip(node.inputs, saved, strict=False)
        values |= {entry: value for entry, value in pairs if isinstance(entry, Node) and _fits(value, entry)}
    return values


def _fits(value: Any, node: Node) -> bool:
    return isinstance(value, (np.ndarray, np.generic)) and value.shape == node.spec.shape


def _topological(roots: Sequence[Node]) -> list[Node]:
    done: dict[Node, None] = {}
    for root in roots:
        stack = [root]
        while stack:
            node = stack[-1]
            waiting = [e for e in node.inputs if isinstance(e, Node) and e not in done]
            if node in done or not waiting:
                done.setdefault(node)
                stack.pop()
            else:
                stack.extend(waiting)
    return list(done)


def is_freed(root: Node) -> bool:
    """Return whether a backward pass has freed something that another one from here needs."""
    saved = (n.saved.saved if type(n.saved) is Hooked else n.saved for n in reachable([root]))
    return any(type(s) is Freed for s in saved)


class restored:
    """A context in which nodes whose saved values were freed have new ones, from their replayed values."""

    def __init__(self, steps: Sequence[Step], loss: Tensor, what: str) -> None:
        self.steps, self.loss, self.what = steps, loss, what
        self.freed: list[tuple[Node, Any]] = []

    def __enter__(self) -> None:
        for step in self.steps:
            node = step.node
            if node is not None and type(node.saved) is Freed and node.op.name in _table_names(node):
                tracked = tuple(isinstance(e, Node) and e.requires_grad for e in node.inputs)
                self.freed.append((node, node.saved))
                node.saved = kept_values(node.op, tracked, list(step.inputs), step.out)
        assert self.loss.node is not None
        if is_freed(self.loss.node):
            self.__exit__()
            fail(
                GradientError,
                f"{self.what} of a result whose saved values were freed, {self.loss.spec}",
                "They cannot be computed again: a leaf that they were computed from is gone, or a rule of your own "
                f"keeps values. Ask before backward(), or give the function: wg.explain.{self.what}(...).",
            )

    def __exit__(self, *exc: object) -> None:
        for node, saved in self.freed:
            node.saved = saved


def _table_names(node: Node) -> tuple[str, ...]:
    # A user's own rule keeps values, which its arguments alone do not give back.
    return (node.op.name,) if node.op.params and not isinstance(node.op, CustomOp) else ()
