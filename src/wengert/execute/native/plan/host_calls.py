"""Steps that run in Python, described so that a plan on disk can hold them and another process can make them.

A plan on disk holds no code, only the name of a maker here and plain values to call it with; what is
to be run is looked up in the op table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....core.graph.evaluate import apply
from ....core.node import Node
from ....core.ops.op import Op, find_op
from ....ops.index.indices import check_range
from .plan import HostCall, View

Run = Callable[..., None]


def forward_call(node: Node, when: View | None = None) -> HostCall:
    """Return the call of an op's own forward: reads the arrays of the inputs that are nodes, writes the results."""
    entries = tuple(None if isinstance(e, Node) else e for e in node.inputs)
    name = node.op.name
    origin = ("forward", name, entries, dict(node.attrs)) if find_op(name) is node.op else None
    return HostCall(name, _forward(node.op, entries, node.attrs), when, origin)


def range_call(name: str, sizes: tuple[int, ...], axis: int, when: View | None = None) -> HostCall:
    """Return the call that raises the error of an index out of range, on behalf of the function `name`."""
    return HostCall(f"range of {name}", _range(name, sizes, axis), when, ("range", name, sizes, axis))


def check_call(node: Node, when: View | None = None) -> HostCall:
    """Return the call that lets the op's own forward raise its error for its first argument, which it reads."""
    name = node.op.name
    return HostCall(f"check of {name}", _check(name, node.attrs), when, ("check", name, dict(node.attrs)))


def made(origin: tuple[Any, ...]) -> Run:
    """Return the function that a step of this origin runs. Raises KeyError, TypeError or ValueError without one."""
    kind, *rest = origin
    return _MAKERS[kind](*rest)


def _forward(op: Op, entries: tuple[Any, ...], attrs: dict[str, Any]) -> Run:
    count = sum(e is None for e in entries)

    def run(*arrays: Any) -> None:
        given = iter(arrays[:count])
        with np.errstate(all="ignore"):  # infinities and NaNs are values, as in the kernels beside it
            results = apply(op, [next(given) if e is None else e for e in entries], attrs)
            for out, value in zip(arrays[count:], results if isinstance(results, tuple) else (results,), strict=True):
                out[...] = value

    return run


def _forward_of(name: str, entries: tuple[Any, ...], attrs: dict[str, Any]) -> Run:
    op = find_op(name)
    if op is None:
        raise KeyError(name)
    return _forward(op, entries, attrs)


def _range(name: str, sizes: tuple[int, ...], axis: int) -> Run:
    def run(*arrays: Any) -> None:
        check_range(name, arrays, sizes, axis)

    return run


def _check(name: str, attrs: dict[str, Any]) -> Run:
    op = find_op(name)
    if op is None:
        raise KeyError(name)

    def run(x: Any, *_: Any) -> None:
        apply(op, [x], attrs)

    return run


_MAKERS: dict[str, Callable[..., Run]] = {"forward": _forward_of, "range": _range, "check": _check}
