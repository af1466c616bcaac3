"""Writes of transformed functions to their arguments: in PyTorch they reach the tensors of the caller.

A transform gives a function tensor objects of its own. What they hold at the end is a result, which is written to the
caller's tensors.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ...core import tree
from ...core.errors import WriteError, fail
from ...core.spec import show
from ...core.storage import window_of
from ...core.tensor import Tensor as Plain

# By the number of a leaf of the arguments: its new value.
Written = Mapping[str, Any]


def telling(func: Callable[..., Any]) -> Callable[..., tuple[Any, Written]]:
    """Return the function that gives the result of `func`, and the new values of the arguments that it writes to."""

    @functools.wraps(func, updated=())
    def run(*args: Any, **kwargs: Any) -> tuple[Any, Written]:
        leaves = [x for x in tree.flatten((args, kwargs))[0] if isinstance(x, Plain)]
        before = [(x.node, window_of(x), _version(x)) for x in leaves]
        out = func(*args, **kwargs)
        changed = {
            str(i): x
            for i, (x, (node, value, version)) in enumerate(zip(leaves, before, strict=True))
            if x.node is not node or window_of(x) is not value or _version(x) != version
        }
        return out, changed

    return run


def _version(x: Plain) -> int:
    base = x._base
    return 0 if base is None or type(base) is tuple else base.storage.version


def tell(written: Written, arguments: Any, axes: Iterable[int | None] | None = None) -> None:
    """Write new values to the caller's arguments, a pytree; those of `vmap` have the mapped axis first.

    Raises WriteError for an argument that all examples of `vmap` share, of which there is then no one new value.
    """
    if not written:
        return
    leaves = tree.flatten(arguments)[0]
    mapped = list(axes) if axes is not None else None
    tensors = [(x, None if mapped is None else mapped[i]) for i, x in enumerate(leaves) if isinstance(x, Plain)]
    for number, value in written.items():
        x, axis = tensors[int(number)]
        if mapped is not None and axis is None:
            fail(
                WriteError,
                f"vmap: a write to an argument that all examples share, {show(x.shape, x.dtype)}",
                "Each example would write another value. Give it an axis, in_dims, or return the new value.",
            )
        x.copy_(value if axis is None else value.movedim(0, axis))
