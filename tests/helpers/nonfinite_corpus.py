"""A corpus of programs that make a NaN or an infinity, each with what is to be found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import wengert as wg


class Program(NamedTuple):
    """A function and its arguments; the line that is to be found carries the comment `# here`."""

    name: str
    fn: Callable[..., Any]
    args: tuple[Any, ...]
    op: str
    phase: str
    order: int = 0
    cause: str = ""


class Corpus(list[Program]):
    """Programs, which `program` adds as a decorator."""

    def program(
        self, *args: Any, op: str, phase: str = "forward", order: int | None = None, cause: str = ""
    ) -> Callable[..., Any]:
        def register(fn: Callable[..., Any]) -> Callable[..., Any]:
            depth = order if order is not None else int(phase == "backward")
            self.append(Program(fn.__name__, fn, args, op, phase, depth, cause))
            return fn

        return register


def f32(*values: float) -> Any:
    return wg.tensor(list(values))
