"""What looks on while a function is traced for compilation.

Tracing a function for its graph refuses whatever needs a value. A compiler that has the arguments of
a call at hand can do better: a decision of the program (`if x > 0`) is taken by the value that it has
now and noted, and tensors from outside that the program meets or writes to are noted as its state.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .node import Node
    from .tensor import Tensor


class Capture:
    """One trace of a compiler, told of what the graph alone would not show."""

    __slots__ = ()

    def decide(self, x: Tensor, what: str) -> Any:
        """The value of an abstract tensor with one element, on which the program's course depends from here."""
        raise NotImplementedError

    def refuse(self, x: Tensor, what: str) -> None:
        """Raise for a use of an abstract tensor's value outside the graph."""
        raise NotImplementedError

    def meet(self, operands: Sequence[Any]) -> None:
        """Tensors with values among operands, which become constants of the graph."""
        raise NotImplementedError

    def effect(self, x: Tensor) -> None:
        """A result that is to be computed at every run, whether anything uses it or not."""
        raise NotImplementedError

    def consume(self, roots: Sequence[Node]) -> None:
        """Results that a backward pass started from, and whose graph it would have freed."""
        raise NotImplementedError

    def write(self, x: Tensor) -> None:
        """A tensor that is about to be given an abstract value."""
        raise NotImplementedError


_capture: ContextVar[Capture | None] = ContextVar("wengert_capture", default=None)
get_capture = _capture.get
set_capture = _capture.set
reset_capture = _capture.reset
