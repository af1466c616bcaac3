"""Events that answers keep of what they observe: steps, pulls, values that left the graph.

The engines report them, through :mod:`wengert.core.state.observer`; the answers are made of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from ...core.errors import is_internal
from ...core.mode import RULE, Scope, get_mode
from ...core.node import Node
from ...core.ops.op import Op
from ...core.ops.record import OUTPUT, caller
from ...core.source import Source
from ...core.state.observer import Observer, observing
from ...core.tensor import Tensor
from .origins import gradient_depth, origin, place


@dataclass(slots=True, eq=False)
class Step:
    """One operation that ran: `run(*inputs)` gave `out` (a tuple for several results)."""

    op: Op
    inputs: tuple[Any, ...]
    out: Any
    run: Callable[..., Any]
    code: CodeType | Source | None
    offset: int
    scope: Scope | None
    recording: bool
    order: int
    node: Node | None = None
    attrs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def source(self) -> Source | None:
        """The user's line; of an operation in a recorded backward pass, that of what is differentiated."""
        return origin(self.op, self.code, self.offset, self.scope)[1]

    @property
    def name(self) -> str:
        """The op's name; of an operation in a recorded backward pass, that of the op it differentiates."""
        return origin(self.op, self.code, self.offset, self.scope)[0]

    @property
    def derived(self) -> bool:
        """True where it is part of an op's derivative; what a user wrote in a derivative rule of his own is not."""
        scope = self.scope
        while scope is not None:
            if scope.kind == "gradient" and scope.name != RULE:
                return True
            scope = scope.parent
        return False

    @property
    def path(self) -> str:
        return self.scope.path if self.scope is not None else ""

    @property
    def depth(self) -> int:
        """The order of the derivative: 0 in the forward pass, 1 in a recorded backward pass, 2 in its backward pass."""
        return gradient_depth(self.scope)


@dataclass(slots=True, eq=False)
class Pull:
    """One step of a backward pass on arrays: the cotangent of a node became those of its inputs."""

    node: Node
    ct: Any
    saved: Any
    grads: dict[Node, Any]
    order: int

    @property
    def depth(self) -> int:
        return 1 + gradient_depth(self.node.scope)

    @property
    def source(self) -> Source | None:
        return origin(self.node.op, self.node.code, self.node.offset, self.node.scope)[1]

    @property
    def name(self) -> str:
        return origin(self.node.op, self.node.code, self.node.offset, self.node.scope)[0]


@dataclass(slots=True, eq=False)
class Leak:
    """A value that left the graph, or took another's place: `detach()`, `item()`, `numpy()`, ..."""

    what: str
    value: Any
    source: Source | None
    order: int


@dataclass(eq=False)
class Events(Observer):
    """The events of one thread, in the order of time."""

    steps: list[Step] = field(default_factory=list)
    pulls: list[Pull] = field(default_factory=list)
    leaks: list[Leak] = field(default_factory=list)
    gradients: list[tuple[Node, Any, int]] = field(default_factory=list)  # what reached leaves, and when
    nodes: dict[int, list[Node]] = field(default_factory=dict)  # what was recorded after each step, by its order
    quiet: int = 0
    count: int = 0
    node: Node | None = None

    def tick(self) -> int:
        self.count += 1
        return self.count

    def step(
        self, op: Op, inputs: Sequence[Any], out: Any, run: Callable[..., Any], attrs: Mapping[str, Any],
        start: float, node: Node | None = None,
    ) -> None:  # fmt: skip
        mode = get_mode()
        code: CodeType | Source | None
        code, offset = caller()
        scope = mode.scope
        if self.node is not None:
            if self.node.source is not None:
                code, offset = self.node.source, 0
            if gradient_depth(self.node.scope):
                scope = self.node.scope
        made = Step(op, tuple(inputs), out, run, code, offset, scope, mode.grad, self.tick(), attrs=attrs)
        self.steps.append(made)

    def made(self, node: Node) -> None:
        code, scope = node.code, node.scope
        # Where one of Wengert's own functions made it, the user's line is that which called the function.
        is_inside = isinstance(code, CodeType) and is_internal(code.co_filename)
        if is_inside and (scope is None or scope.kind in ("module", "trace", "node")):
            node.code, node.offset = caller()
        self.nodes.setdefault(self.count, []).append(node)

    def is_tracked(self, step: Step, index: int) -> bool:
        """Return whether a step took an input as something that gradients flow to."""
        recorded = next((node for node in self.nodes.get(step.order, ()) if node.op is step.op), None)
        return recorded is not None and isinstance(recorded.inputs[index], Node)

    def pulled(self, node: Node, ct: Any, saved: Any, own: dict[Node, Any], recording: bool, start: float) -> None:
        grads = {entry: _raw(g) for entry, g in own.items()}
        if not recording:
            self.pulls.append(Pull(node, _raw(ct), saved, grads, self.tick()))
        if node.op is not OUTPUT:
            self.gradients += [(e, g, self.tick()) for e, g in grads.items() if e.op.kind == "leaf"]

    def leak(self, what: str, value: Any, node: Node | None) -> None:
        self.leaks.append(Leak(what, value, place(*caller()), self.tick()))


@contextmanager
def observed() -> Iterator[Events]:
    """Write down what this thread runs inside the block.

    Who observes the thread outside of it does not see that: a question about a program is no part of the program.
    """
    seen = Events()
    with observing(seen, alone=True):
        yield seen


def _raw(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple(_raw(v) for v in value)
    return value._array if isinstance(value, Tensor) else value
