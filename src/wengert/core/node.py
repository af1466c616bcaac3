"""A node of the graph: one operation that ran, eagerly with values or abstractly without."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from types import CodeType
from typing import TYPE_CHECKING, Any

from .errors import GradientError, fail, is_internal
from .mode import RULE
from .source import Source, resolve
from .state.observer import blame_observer, observer, observers

if TYPE_CHECKING:
    from .mode import Scope
    from .ops.op import Op
    from .spec import Spec

EMPTY_ATTRS: dict[str, Any] = {}
_hook_keys = itertools.count()


class Freed:
    """The marker in a node's `saved` once a backward pass has used and freed its values."""

    __slots__ = ("where",)

    def __init__(self, where: str) -> None:
        self.where = where


class Recomputed:
    """The stand-in for a node's `saved` where its values are computed again on demand."""

    __slots__ = ()

    def take(self, node: Node) -> tuple[Any, ...]:
        """Return the node's saved values; they are handed over, not kept here."""
        raise NotImplementedError

    def kept(self) -> tuple[Any, ...]:
        """Return the values that are kept, from which the others are computed."""
        raise NotImplementedError

    def close(self) -> None:
        """End the pass that took values: forget those that nobody took."""
        raise NotImplementedError


class Mixed(tuple[Any, ...]):
    """The arguments of an abstract node of which some have values: those values are not lost.

    A derivative that is linear in what is abstract is then computed, not only recorded.
    """

    __slots__ = ()


class Hooked:
    """A node's saved values together with the hooks that are called with its gradient.

    `hooks` maps a handle's key to a function of the gradient: a leaf's own dict, whichever nodes it has in its life.
    `retain` is a weak reference to the tensor whose `.grad` is to be filled, or None.
    """

    __slots__ = ("saved", "hooks", "retain")

    def __init__(self, saved: Any, hooks: dict[int, Any] | None = None) -> None:
        self.saved = saved
        self.hooks: dict[int, Any] = {} if hooks is None else hooks
        self.retain: Any = None


class AfterAccumulation(partial[Any]):
    """A hook among a leaf's that is called with the leaf once its `.grad` is there."""

    __slots__ = ()


class BeforeStep(partial[Any]):
    """A hook that is called with the gradients of a node's results before its backward step, and may replace them."""

    __slots__ = ()


class AfterStep(partial[Any]):
    """A hook that is called with the gradients of a node's inputs and results after its backward step.

    It may replace those of the inputs.
    """

    __slots__ = ()


# The hooks that are not called with a tensor's gradient alone.
AROUND_STEPS = frozenset({AfterAccumulation, BeforeStep, AfterStep})

# At "leaves" a new object whenever a leaf gains or loses a hook: a compiled program has the hooks of its day.
hooks_changed: dict[str, object] = {"leaves": object()}


class RemovableHandle:
    """A handle that ends a hook: `handle.remove()`."""

    __slots__ = ("_hooks", "_of_leaf", "key")

    def __init__(self, hooks: dict[int, Any], hook: Any, of_leaf: bool) -> None:
        self._hooks, self._of_leaf = hooks, of_leaf
        self.key = next(_hook_keys)
        hooks[self.key] = hook
        self._note()

    def remove(self) -> None:
        """End the hook. A second call does nothing."""
        self._hooks.pop(self.key, None)
        self._note()

    def _note(self) -> None:
        if self._of_leaf:
            hooks_changed["leaves"] = object()


class Unread:
    """A placeholder for a gradient from before a trace, until something reads it."""

    __slots__ = ("read",)

    def __init__(self, read: Callable[[], Any]) -> None:
        self.read = read


def _place(code: Any, offset: int, scope: Scope | None) -> Source | None:
    """Return the user's place: that of a code, or of the innermost scope that has one."""
    while True:
        if isinstance(code, Source):
            return code
        if code is not None and not is_internal(code.co_filename):
            return resolve(code, offset)
        if scope is None:
            return None
        code, offset, scope = scope.code, scope.offset, scope.parent


def hooked(node: Node) -> Hooked:
    """Return a node's hooks. Raises GradientError for a node whose saved values a backward pass has freed."""
    if isinstance(node.saved, Freed):
        fail(GradientError, f"this tensor's graph was freed by backward() at {node.saved.where}")
    if not isinstance(node.saved, Hooked):
        refuse_inside(node)
        node.saved = Hooked(node.saved)
    return node.saved


class Node:
    """A recorded operation: the op, its inputs, and the user's line.

    `op` is the op table's entry; `inputs`, in order, holds a Node where a gradient can flow, a
    NumPy array for a constant and a Python scalar for a literal; `attrs` the op's static attributes;
    `spec` the result's shape and dtype (a tuple of specs for an op with several results, which
    `output` nodes pick from). `saved` holds what the derivative needs, aligned with the inputs,
    the result last; a leaf holds a weak reference to its tensor there, an abstract node nothing, or
    its arguments where some have values (`Mixed`). `code` is already resolved in
    a graph that was read from a document.

    >>> import wengert as wg
    >>> x = wg.tensor(2.0, requires_grad=True)
    >>> node = wg.sin(x).node
    >>> node.op.name, node.name()
    ('sin', 'SinBackward')
    """

    __slots__ = ("op", "inputs", "attrs", "saved", "spec", "code", "offset", "scope", "__weakref__")

    op: Op
    inputs: tuple[Any, ...]
    attrs: dict[str, Any]
    saved: Any
    spec: Spec
    code: CodeType | Source | None
    offset: int
    scope: Scope | None

    # Whether gradients flow through here; nodes of untracked values are of the subclass below,
    # so that `type(n) is Node` is the whole test in the backward pass.
    requires_grad = True

    @property
    def source(self) -> Source | None:
        """The user's file, line and sub-expression, or None where no Python code made the node."""
        return _place(self.code, self.offset, self.scope)

    @property
    def differentiated(self) -> tuple[str, Source | None] | None:
        """The name and the place of the operation whose derivative the node is a part of, of whatever order."""
        found, scope = None, self.scope
        while scope is not None:
            if scope.kind == "gradient" and scope.name != RULE:
                found = scope
            scope = scope.parent
        return None if found is None else (found.name, _place(found.code, found.offset, found.parent))

    @property
    def path(self) -> str:
        """The module path inside which the operation ran, such as `encoder.layers.0`."""
        return self.scope.path if self.scope is not None else ""

    # The interface of PyTorch's `grad_fn`.

    def name(self) -> str:
        """Return the name of the backward step, such as `MulBackward`."""
        if self.op.kind == "leaf":
            return "AccumulateGrad"
        return "".join(part.capitalize() for part in self.op.name.split("_")) + "Backward"

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """The nodes that the gradient goes to next, None for inputs that need no gradient."""
        return tuple((n, 0) if isinstance(n, Node) and n.requires_grad else (None, 0) for n in self.inputs)

    @property
    def variable(self) -> Any:
        """The leaf tensor whose `.grad` this node fills; None once that tensor is gone."""
        if self.op.kind != "leaf":
            raise AttributeError(f"{self.name()} has no variable: it is not a leaf")
        saved = self.saved.saved if isinstance(self.saved, Hooked) else self.saved
        return saved() if saved is not None else None

    def __repr__(self) -> str:
        return f"<{self.name()}>"


class UntrackedNode(Node):
    """A node that no gradient flows through: recorded while tracing, or for a graph's sake."""

    __slots__ = ()
    requires_grad = False


class StoppedNode(UntrackedNode):
    """A node that was traced under `no_grad`: no gradient flows through it, whatever the trace is run on later."""

    __slots__ = ()


def is_stopped(node: Node | None) -> bool:
    """Return whether a value was traced under `no_grad`."""
    if type(node) is UntrackedNode and node.op.name == "output":
        node = node.inputs[0]
    return type(node) is StoppedNode


def refuse_inside(node: Node) -> None:
    """Raise GradientError if a node is a result of a batch that the batch itself uses.

    Its gradient is known inside the batch alone. (An operation with results keeps what ran as its attribute `record`.)
    """
    record = node.inputs[0].attrs.get("record") if node.op.name == "output" else None
    if record is not None:
        record.refuse_inside(node)


def make_node(
    op: Op,
    inputs: tuple[Any, ...],
    attrs: dict[str, Any],
    saved: Any,
    spec: Any,
    code: CodeType | Source | None,
    offset: int,
    scope: Scope | None,
    tracked: bool = True,
    stopped: bool = False,
) -> Node:
    """Return a node with all its fields; a `stopped` one was traced under `no_grad`."""
    node = Node() if tracked else StoppedNode() if stopped else UntrackedNode()
    node.op = op
    node.inputs = inputs
    node.attrs = attrs
    node.saved = saved
    node.spec = spec
    node.code = code
    node.offset = offset
    node.scope = scope
    if observers:
        note_node(node)
    return node


def note_node(node: Node) -> None:
    """Tell whoever observes this thread that a node was recorded."""
    seen = observer()
    if seen is not None:
        try:
            seen.made(node)
        except BaseException as e:
            blame_observer(e)
            raise
