"""The mode that operations run in: whether they record for gradients, and inside which scope.

A mode is an immutable value in a context variable: per thread, per asyncio task, and one cheap
read for an operation.
"""

from __future__ import annotations

import functools
import inspect
from contextvars import ContextVar, Token
from types import CodeType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from .source import Source

F = TypeVar("F", bound="Callable[..., Any]")
_FLOAT32 = np.dtype(np.float32)
# The name of the scope, of kind "gradient", in which a derivative rule of a user's own runs.
RULE = ""
ScopeKind = Literal["module", "composite", "output", "gradient", "checkpoint", "trace", "node"]


class Scope:
    """A context that operations ran inside of: a module, composite, checkpoint, derivative of a node, a trace, or a
    node of a document.

    Scopes form a chain through `parent`. `name` is a module's attribute name, a composite's op
    name, a checkpointed function's name or the differentiated op's name. `code` and `offset` are
    the user's place at entry: an operation that library code calls is shown there. A composite
    keeps its `op`, `inputs` and `attrs`, from which its node is made when a graph is closed; the
    scope of kind "output" below it marks the nodes that are its results. A trace is one in the midst
    of a computation, of a function that a transform or a loop runs. A node is one of a document that a program runs,
    such as an ONNX model; its `attrs` have it under "node".
    """

    __slots__ = ("kind", "name", "parent", "code", "offset", "op", "inputs", "attrs")

    def __init__(
        self,
        kind: ScopeKind,
        name: str,
        parent: Scope | None,
        code: CodeType | Source | None = None,
        offset: int = 0,
        op: Any = None,
        inputs: tuple[Any, ...] = (),
        attrs: dict[str, Any] | None = None,
    ) -> None:
        self.kind = kind
        self.name = name
        self.parent = parent
        self.code = code
        self.offset = offset
        self.op = op
        self.inputs = inputs
        self.attrs = attrs if attrs is not None else {}

    def within(self, kind: ScopeKind) -> bool:
        """Return whether the scope is of this kind, or inside one that is."""
        scope: Scope | None = self
        while scope is not None and scope.kind != kind:
            scope = scope.parent
        return scope is not None

    @property
    def path(self) -> str:
        """The module path: the names of the enclosing modules, joined by dots."""
        names = []
        scope: Scope | None = self
        while scope is not None:
            if scope.kind == "module" and scope.name:
                names.append(scope.name)
            scope = scope.parent
        return ".".join(reversed(names))


class Mode:
    """The recording flag, the innermost scope, the tracing flag, the default dtype, autocast and engine of a thread.

    While tracing, ops without inputs (random numbers) are recorded instead of run. `floats` is the dtype of
    floating numbers that bring none of their own. `autocast` says in which precision ops compute, None for that of
    their operands (see :mod:`wengert.core.ops.autocast`), or is anything else with a method `operands(op, args)` by
    which operands are to go; `detour` keeps the front doors asking for it. `engine` is
    what runs compiled functions that name none.
    """

    __slots__ = ("grad", "scope", "tracing", "floats", "autocast", "detour", "engine")

    def __init__(
        self,
        grad: bool,
        scope: Scope | None,
        tracing: bool = False,
        floats: np.dtype[Any] = _FLOAT32,
        autocast: Any = None,
        detour: Any = None,
        engine: str = "native",
    ) -> None:
        self.grad = grad
        self.scope = scope
        self.tracing = tracing
        self.floats = floats
        self.autocast = autocast
        self.detour = detour
        self.engine = engine

    def with_grad(self, grad: bool) -> Mode:
        """Return this mode with recording on or off."""
        return Mode(grad, self.scope, self.tracing, self.floats, self.autocast, self.detour, self.engine)

    def within(self, scope: Scope | None) -> Mode:
        """Return this mode inside another scope."""
        return Mode(self.grad, scope, self.tracing, self.floats, self.autocast, self.detour, self.engine)

    def recording(self, scope: Scope | None) -> Mode:
        """Return this mode with recording on, inside another scope."""
        return Mode(True, scope, self.tracing, self.floats, self.autocast, self.detour, self.engine)

    def traced(self, scope: Scope | None, grad: bool = True, tracing: bool = True) -> Mode:
        """Return the mode of a trace that begins in this one, inside a scope of its own."""
        return Mode(grad, scope, tracing, self.floats, self.autocast, self.detour, self.engine)

    def with_floats(self, floats: np.dtype[Any]) -> Mode:
        """Return this mode with another default dtype."""
        return Mode(self.grad, self.scope, self.tracing, floats, self.autocast, self.detour, self.engine)

    def with_autocast(self, autocast: Any, detour: Any = None) -> Mode:
        """Return this mode with ops that compute in other precisions than their operands', or in theirs (None)."""
        return Mode(self.grad, self.scope, self.tracing, self.floats, autocast, detour, self.engine)

    def with_engine(self, engine: str) -> Mode:
        """Return this mode with another engine for compiled functions."""
        return Mode(self.grad, self.scope, self.tracing, self.floats, self.autocast, self.detour, engine)

    def as_recorded(self, grad: bool) -> Mode:
        """Return the mode in which recorded nodes run again, or their derivatives: casts are nodes among them."""
        return Mode(grad, self.scope, self.tracing, self.floats, engine=self.engine)


_mode: ContextVar[Mode] = ContextVar("wengert_mode", default=Mode(True, None))  # noqa: B039
get_mode = _mode.get
set_mode = _mode.set
reset_mode = _mode.reset


class ModeBlock:
    """A context manager and decorator that sets the mode: a subclass says which, from the one outside."""

    __slots__ = ("_tokens",)

    def __init__(self) -> None:
        self._tokens: list[Token[Mode]] = []

    def mode(self, outer: Mode) -> Mode:
        """Return the mode inside the block."""
        raise NotImplementedError

    def __enter__(self) -> Any:
        self._tokens.append(set_mode(self.mode(get_mode())))

    def __exit__(self, *exc: object) -> None:
        reset_mode(self._tokens.pop())

    def __call__(self, fn: F) -> F:
        if inspect.isgeneratorfunction(fn):
            return _in_mode(fn, self.mode)  # type: ignore[return-value]

        @functools.wraps(fn)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            # Not by `with self`, whose tokens the threads that call the function would mix up.
            token = set_mode(self.mode(get_mode()))
            try:
                return fn(*args, **kwargs)
            finally:
                reset_mode(token)

        return wrapper  # type: ignore[return-value]


class GradMode(ModeBlock):
    """A context manager and decorator that sets whether operations record for gradients."""

    __slots__ = ("_enabled",)

    def __init__(self, enabled: bool) -> None:
        super().__init__()
        self._enabled = enabled

    def mode(self, outer: Mode) -> Mode:
        """Return the mode inside the block."""
        return outer.with_grad(self._enabled)


def _in_mode(
    fn: Callable[..., Generator[Any, Any, Any]], mode: Callable[[Mode], Mode]
) -> Callable[..., Generator[Any, Any, Any]]:
    """Return a generator function whose steps run in a mode; the caller's code between them runs in the caller's."""

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        steps = fn(*args, **kwargs)
        advance: Callable[[], Any] = functools.partial(next, steps)
        while True:
            token = set_mode(mode(get_mode()))
            try:
                value = advance()
            except StopIteration as end:
                return end.value
            finally:
                reset_mode(token)
            try:
                sent = yield value
            except GeneratorExit:
                token = set_mode(mode(get_mode()))
                try:
                    steps.close()
                finally:
                    reset_mode(token)
                raise
            except BaseException as e:
                advance = functools.partial(steps.throw, e)
            else:
                advance = functools.partial(steps.send, sent)

    return wrapper


class SetGradEnabled(GradMode):
    """A switch of recording that takes effect when made; as a block, it restores the mode at the end."""

    __slots__ = ("_before",)

    def __init__(self, enabled: bool) -> None:
        super().__init__(enabled)
        mode = get_mode()
        self._before = mode.grad
        set_mode(mode.with_grad(enabled))

    def __enter__(self) -> None:
        set_mode(get_mode().with_grad(self._enabled))

    def __exit__(self, *exc: object) -> None:
        set_mode(get_mode().with_grad(self._before))

    def __call__(self, fn: F) -> F:
        self.__exit__()  # as a decorator it is about the function only
        return super().__call__(fn)


def no_grad(fn: F | None = None) -> Any:
    """Return a context manager and decorator under which operations do not record for gradients.

    >>> import wengert as wg
    >>> w = wg.tensor([1.0], requires_grad=True)
    >>> with wg.no_grad():
    ...     (w * 2).requires_grad
    False
    """
    return GradMode(False) if fn is None else GradMode(False)(fn)


def enable_grad(fn: F | None = None) -> Any:
    """Return a context manager and decorator that records operations again inside a `no_grad` block.

    >>> import wengert as wg
    >>> x = wg.tensor(2.0, requires_grad=True)
    >>> with wg.no_grad():
    ...     a = x * 2
    ...     with wg.enable_grad():
    ...         b = x * 2
    >>> a.requires_grad, b.requires_grad
    (False, True)
    """
    return GradMode(True) if fn is None else GradMode(True)(fn)


def set_grad_enabled(enabled: bool) -> GradMode:
    """Return `no_grad` or `enable_grad` by a flag: `with wg.set_grad_enabled(training):`, or as a statement.

    >>> import wengert as wg
    >>> with wg.set_grad_enabled(False):
    ...     wg.is_grad_enabled()
    False
    """
    return SetGradEnabled(bool(enabled))


def is_grad_enabled() -> bool:
    """Return whether operations in this thread record for gradients now.

    >>> import wengert as wg
    >>> wg.is_grad_enabled()
    True
    >>> with wg.no_grad():
    ...     wg.is_grad_enabled()
    False
    """
    return get_mode().grad
