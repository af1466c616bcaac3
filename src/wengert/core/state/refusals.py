"""Refusals inside of functions that are traced or differentiated, which no code may swallow.

A function that is traced has no values, and one that is differentiated must not lose derivatives: there some
expressions are refused that run in an ordinary call. Code that takes such an error (`except`, `finally` with a
`return`, a library's handler) goes on with something else than the call would compute. So every such function runs
under a `Watch`. A refusal that was raised inside of it and did not leave it is raised again at its end.
"""

from __future__ import annotations

import ast
import linecache
import sys
import threading
import traceback
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

from ..errors import GradientError, GraphError, TraceError, WengertError, WriteError, error, is_internal, is_own
from ..node import Node
from .capture import open_variables

# Errors that say what a trace cannot do.
OF_TRACES = (GraphError, GradientError, TraceError, WriteError)


class Watch:
    """A block that runs a function, and at whose end a refusal is raised again that did not leave the function.

    `fn` is the function, or what errors call it. `own` says of a node whether it is an input of the trace or, with
    `cuts`, a variable of a derivative. A tensor that depends on such a node is refused because of this trace: an
    ordinary call of the code around it raises as well, and may take the error. An `outermost` trace has only ordinary
    calls and derivatives around it. All threads see the tensors of `shared` inputs.
    """

    __slots__ = ("fn", "own", "cuts", "outermost", "shared", "refused", "outer", "_threads")

    def __init__(
        self,
        fn: Any,
        own: Callable[[Node], bool],
        cuts: bool = False,
        outermost: bool = False,
        shared: Container[Node | None] = (),
    ) -> None:
        self.fn = fn
        self.own = own
        self.cuts = cuts
        self.outermost = outermost
        self.shared = shared
        self.refused: list[BaseException] | None = None

    def __enter__(self) -> None:
        self.outer, _here.watch = _here.watch, self
        if not self.cuts:
            self._threads = list(sys._current_frames())
            _traces.append(self)

    def __exit__(self, kind: Any, raised: BaseException | None, tb: Any) -> None:
        _here.watch = self.outer
        if not self.cuts:
            _traces.remove(self)
        refused, self.refused = self.refused, None
        if refused is None or (raised is not None and _says(raised, refused)):
            return
        again = _again(refused[0], self.fn)
        watch = self.outer
        while watch is not None:
            if any(e is refused[0] for e in watch.refused or ()):
                watch.note(again)
            watch = watch.outer
        raise again from None

    def note(self, refused: BaseException) -> None:
        """Note an error that must leave the function."""
        self.refused = [*(self.refused or ()), refused]

    def is_at_work_here(self, seen: Iterable[Node]) -> bool:
        """Return whether the function has given work on these nodes to the running thread, another one than its own.

        A thread that was there before may have found what all threads see.
        """
        is_new = threading.get_ident() not in self._threads
        return any(self.own(node) and (is_new or node not in self.shared) for node in seen)


def _says(raised: BaseException, refused: list[BaseException]) -> bool:
    """Return whether an error that leaves a function is one of those, in the library's words, or an interruption."""
    if not isinstance(raised, Exception):
        return True
    cause: BaseException | None = raised
    while isinstance(cause, WengertError):
        if any(cause is e for e in refused):
            return True
        cause = cause.__context__
    return False


class _Here(threading.local):
    """The functions at work in a thread, no context variable: those slow down every array that NumPy makes."""

    watch: Watch | None = None


_here = _Here()
# The traces at work in all threads.
_traces: list[Watch] = []
_NOBODY = Watch(None, lambda node: False)


def refuse(
    what: str, mend: str = "", x: Any = None, kind: type[WengertError] = TraceError, where: str | None = None
) -> NoReturn:
    """Raise an error for a use of `x` that an ordinary call has a value for.

    Of kind GradientError it is for a value that would leave a computation which a transform differentiates.
    """
    refused = error(kind, what, mend, where)
    note_refusal(refused, x)
    raise refused from None


def note_refusal(refused: BaseException, x: Any = None) -> None:
    """Tell the functions at work that an error is about to be raised which must leave them."""
    watch = _here.watch
    if watch is _NOBODY or (watch is None and not _traces):
        return
    seen = [] if x is None or x.node is None else _reached(x.node)
    is_cut = isinstance(refused, GradientError)
    if is_cut and x is not None and not any(node in open_variables for node in seen):
        return  # the tensor requires gradients in an ordinary call as well
    told: list[Watch] = []
    if watch is None and not is_cut:
        told = [w for w in _traces if w.is_at_work_here(seen)]
    while watch is not None and watch is not _NOBODY:
        told.append(watch)
        if watch.cuts is is_cut and (watch.outermost or any(map(watch.own, seen))):
            break
        watch = watch.outer
    for watch in told:
        watch.note(refused)


@contextmanager
def probing() -> Iterator[None]:
    """Return a block in which the library tries what may be refused, and takes the error itself."""
    outer, _here.watch = _here.watch, _NOBODY
    try:
        yield
    finally:
        _here.watch = outer


# Who shows tensors to people, not to programs.
_DEBUGGERS = frozenset({"IPython", "_pydevd_bundle", "_pytest", "bdb", "debugpy", "ipdb", "pdb", "pydevd"})


def is_for_looking(depth: int) -> bool:
    """Return whether the library itself, for a text of its own, or a debugger asks for a text: the frame so far up."""
    frame = sys._getframe(depth)
    module = str(frame.f_globals.get("__name__"))
    return is_internal(frame.f_code.co_filename) or module.partition(".")[0] in _DEBUGGERS


def _reached(root: Node) -> set[Node]:
    """Return the nodes that one depends on, with itself."""
    seen, stack = {root}, [root]
    while stack:
        for entry in stack.pop().inputs:
            node = entry if isinstance(entry, Node) else getattr(entry, "node", None)
            if isinstance(node, Node) and node not in seen:
                seen.add(node)
                stack.append(node)
    return seen


# -- who took it


def _again(refused: BaseException, fn: Any) -> BaseException:
    """Return a swallowed refusal to be raised again, which says who took it; a signal as it is."""
    if not isinstance(refused, WengertError):
        return refused
    text, taker, name = str(refused), _taker(refused), _name(fn)
    if taker:
        text += (
            f"\n{taker} took this error inside {name}. A call with values does not raise it, so what {name} gives "
            "after it would be something else. Let the error pass, or change the line that raised it."
        )
    again = type(refused)(text)
    again.__dict__.update(refused.__dict__)
    return again


def _name(fn: Any) -> str:
    return fn if isinstance(fn, str) else str(getattr(fn, "__name__", type(fn).__name__))


def _taker(refused: BaseException) -> str:
    """Return the clause that took an error, and its place; "" where no line of Python's did."""
    entries = list(traceback.walk_tb(refused.__traceback__))
    if not entries or is_own(entries[0][0]):
        return ""
    frame, line = entries[0]
    what, line = _clause(frame, line, refused)
    return f"The {what} at {frame.f_code.co_filename}:{line}"


_BLOCKS = (ast.Try, ast.TryStar, ast.With, ast.AsyncWith)
_LEAVES = (ast.Return, ast.Break, ast.Continue)


def _clause(frame: FrameType, line: int, refused: BaseException) -> tuple[str, int]:
    """Return the statement (`except`, `finally` or `with`) of a frame that caught an error of a line, and its line."""
    code = frame.f_code
    try:
        whole = ast.parse("".join(linecache.getlines(code.co_filename, frame.f_globals)))
    except SyntaxError:
        return "code", line
    around = [
        n
        for n in ast.walk(whole)
        if isinstance(n, _BLOCKS) and code.co_firstlineno <= n.lineno and n.lineno <= line <= _end(n.body)
    ]
    around.sort(key=lambda n: -n.lineno)
    for block in around:
        if isinstance(block, (ast.With, ast.AsyncWith)):
            if any("suppress" in ast.unparse(item) for item in block.items):
                return "`with`", block.lineno
            continue
        for handler in block.handlers:
            if _takes(handler.type, frame, refused):
                return "`except`", handler.lineno
        if any(isinstance(n, _LEAVES) for statement in block.finalbody for n in ast.walk(statement)):
            return "`finally`", block.finalbody[0].lineno
    withs = [block.lineno for block in around if isinstance(block, (ast.With, ast.AsyncWith))]
    return ("`with`", withs[0]) if withs else ("code", line)


def _end(body: list[ast.stmt]) -> int:
    return body[-1].end_lineno or body[-1].lineno


def _takes(wanted: ast.expr | None, frame: FrameType, refused: BaseException) -> bool:
    """Return whether an `except` clause of a frame takes an error; True if only running its code would tell."""
    names = (ast.Name, ast.Attribute, ast.Tuple, ast.Load)
    if wanted is None or not all(isinstance(n, names) for n in ast.walk(wanted)):
        return True
    try:
        return isinstance(refused, eval(ast.unparse(wanted), frame.f_globals, frame.f_locals))
    except Exception:
        return True
