"""Writes of transformed functions to their arguments: in PyTorch they reach the tensors of the caller.

A transform gives a function tensor objects of its own. What they hold at the end is a result, which is written to the
caller's tensors.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ...core import tree
from ...core.errors import WriteError, fail
from ...core.spec import show
from ...core.storage import window_of
from ...core.tensor import Tensor as Plain
from ...ops.index.views import Step, done, way
from ...transforms.batch.vmap import vmap

# By the number of a leaf of the arguments: its new value.
Written = Mapping[str, Any]
# By the number of a leaf of the result: the number of the argument that it is taken from, and by which ops.
Same = dict[int, tuple[int, list[Step]]]


def telling(func: Callable[..., Any], same: Same | None = None) -> Callable[..., tuple[Any, Written]]:
    """Return the function that gives the result of `func`, and the new values of the arguments that it writes to.

    In `same` it leaves what of the result is an argument, or a view of one that was written to.
    """

    @functools.wraps(func, updated=())
    def run(*args: Any, **kwargs: Any) -> tuple[Any, Written]:
        given = tree.flatten((args, kwargs))[0]
        leaves = [x for x in given if isinstance(x, Plain)]
        before = [(x.node, window_of(x), _version(x)) for x in leaves]
        out = func(*args, **kwargs)
        changed = {
            str(i): x
            for i, (x, (node, value, version)) in enumerate(zip(leaves, before, strict=True))
            if x.node is not node or window_of(x) is not value or _version(x) != version
        }
        if same is not None:
            number = {id(x): i for i, x in enumerate(given) if isinstance(x, Plain)}
            for i, x in enumerate(tree.flatten(out)[0]):
                root, steps = (x, []) if id(x) in number or not changed else way(x)
                if steps is not None and id(root) in number:
                    same[i] = number[id(root)], steps
        return out, changed

    return run


def returned(out: Any, places: Sequence[int | None], same: Same, arguments: Any, axes: Sequence[int | None]) -> Any:
    """Return the result of `vmap`, in which what `same` tells of is the caller's tensor, or a view of it.

    `places` are the mapped axes of the results, `axes` those of the arguments.
    """
    leaves, structure = tree.flatten(out)
    given = tree.flatten(arguments)[0]
    for i, (j, steps) in same.items():
        x, axis, place = given[j], axes[j], places[i]
        if axis is None or place is None:
            continue
        if steps:
            leaves[i] = vmap(functools.partial(done, steps), axis, place)(x)
        else:
            axis, place = axis % x.ndim, place % x.ndim
            leaves[i] = x if axis == place else x.movedim(axis, place)
    return tree.unflatten(structure, leaves)


def _version(x: Plain) -> int:
    base = x._share
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
