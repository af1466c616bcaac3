"""What an observer is told, and what it keeps of it: steps, pulls, values that left the graph.

Who calls these is :mod:`wengert.explain.observing.observe`; what is made of them are the answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, ClassVar, Protocol

from ...core.errors import user_frame
from ...core.mode import Scope, get_mode
from ...core.node import Node
from ...core.ops.op import Op
from ...core.ops.record import OUTPUT
from ...core.source import Source
from ...core.tensor import Tensor
from .origins import RULE, gradient_depth, origin, place


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
        """Whether it is part of an op's derivative; what a user wrote in a derivative rule of his own is not."""
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
        """0 in the forward pass, 1 in a recorded backward pass, 2 in its backward pass, ..."""
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


OVER = 1 << 30  # a pause that does not end


def user_place() -> tuple[CodeType | Source | None, int]:
    """Return the code object and the instruction offset of the user's frame."""
    frame = user_frame(2)
    return (None, 0) if frame is None else (frame.f_code, frame.f_lasti)


class Watcher(Protocol):
    """Who is told what a thread does. `quiet` above 0 is a pause: nothing is told.

    `places` says whether nodes are to know the user's line also where Wengert's own functions make them.
    """

    quiet: int
    places: bool
    node: Node | None  # of a graph that is being run: it knows the user's line

    def step(
        self, op: Op, inputs: Sequence[Any], out: Any, run: Callable[..., Any], attrs: Mapping[str, Any],
        start: float, node: Node | None = None,
    ) -> None:  # fmt: skip
        """An operation ran: `run(*inputs)` gave `out`. `start` is when, by the clock; `node` what it has recorded."""

    def made(self, node: Node) -> None:
        """A node came to be; it has no fields yet."""

    def pulled(self, node: Node, ct: Any, saved: Any, own: dict[Node, Any], recording: bool, start: float) -> None:
        """A step of a backward pass: the cotangent of a node became those of its inputs, `own`."""

    def leak(self, what: str, value: Any, node: Node | None) -> None:
        """A value left the graph, that of a node; or the tensor that has it is given another one."""


@dataclass(eq=False)
class Observer:
    """What was seen, in the order of time."""

    places: ClassVar[bool] = True

    steps: list[Step] = field(default_factory=list)
    pulls: list[Pull] = field(default_factory=list)
    leaks: list[Leak] = field(default_factory=list)
    gradients: list[tuple[Node, Any, int]] = field(default_factory=list)  # what reached leaves, and when
    nodes: dict[int, list[Node]] = field(default_factory=dict)  # what was recorded after each step, by its order
    quiet: int = 0
    count: int = 0
    node: Node | None = None  # of a graph that is being run: it knows the user's line

    def tick(self) -> int:
        self.count += 1
        return self.count

    def step(
        self, op: Op, inputs: Sequence[Any], out: Any, run: Callable[..., Any], attrs: Mapping[str, Any],
        start: float, node: Node | None = None,
    ) -> None:  # fmt: skip
        mode = get_mode()
        code, offset = user_place()
        scope = mode.scope
        if self.node is not None:
            if self.node.source is not None:
                code, offset = self.node.source, 0
            if gradient_depth(self.node.scope):
                scope = self.node.scope
        made = Step(op, tuple(inputs), out, run, code, offset, scope, mode.grad, self.tick(), attrs=attrs)
        self.steps.append(made)

    def made(self, node: Node) -> None:
        self.nodes.setdefault(self.count, []).append(node)

    def is_tracked(self, step: Step, index: int) -> bool:
        """Whether a step took an input as something that gradients flow to."""
        recorded = next((node for node in self.nodes.get(step.order, ()) if node.op is step.op), None)
        return recorded is not None and isinstance(recorded.inputs[index], Node)

    def pulled(self, node: Node, ct: Any, saved: Any, own: dict[Node, Any], recording: bool, start: float) -> None:
        grads = {entry: _raw(g) for entry, g in own.items()}
        if not recording:
            self.pulls.append(Pull(node, _raw(ct), saved, grads, self.tick()))
        if node.op is not OUTPUT:
            self.gradients += [(e, g, self.tick()) for e, g in grads.items() if e.op.kind == "leaf"]

    def leak(self, what: str, value: Any, node: Node | None) -> None:
        self.leaks.append(Leak(what, value, place(*user_place()), self.tick()))


def _raw(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple(_raw(v) for v in value)
    return value._data if isinstance(value, Tensor) else value
