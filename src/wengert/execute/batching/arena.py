"""Arenas: the values of a batch in rows, and the groups of calls that make them.

The values of one shape and dtype lie in one arena, a row each, and the results of a group lie side by side. So a
group's inputs are gathered by one `take`, or are a slice if they lie in order, and the group's results need no copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ...core.node import Node
from ...core.spec import Spec
from ...core.storage import storage_of
from ...core.tensor import Tensor
from .kernels import MOST, Kernels, padded
from .schedule import Bucket
from .template import Template

Array = np.ndarray[Any, Any]
# The place of a call: its code and offset, the number of the example, the scope.
Place = tuple[Any, int, "int | None", Any]

data_of = Tensor.__dict__["_data"].__get__


class Use:
    """A template in a batch, with the values of the shared tensors that its calls see; `buckets` has these by depth."""

    __slots__ = ("arrays", "buckets", "holds", "kernels", "nodes", "template")

    def __init__(self, template: Template, kernels: Kernels) -> None:
        self.template = template
        self.kernels = kernels
        self.buckets: dict[int, Bucket] = {}
        self.arrays: list[Array] = [t._array for t in template.shared]
        self.nodes = [t.node for t in template.shared]
        # Whether the shared tensors have these values still.
        self.holds = _comparison(template.shared, self.arrays)


def _comparison(tensors: Sequence[Tensor], arrays: Sequence[Array]) -> Callable[[], bool]:
    """Return the function that says whether tensors have these values still."""
    versions = [None if (s := storage_of(t)) is None else s.version for t in tensors]
    if any(v is not None for v in versions):  # memory that is written in place
        before = list(zip(tensors, arrays, versions, strict=True))
        return lambda: all(
            t._array is a if v is None else (s := storage_of(t)) is not None and s.version == v for t, a, v in before
        )
    return _compiled(len(arrays))(data_of, *tensors, *arrays)  # type: ignore[no-any-return]


@cache
def _compiled(count: int) -> Any:
    """Return what makes the comparison of so many tensors: every call of a cell makes it."""
    names = [f"{kind}{i}" for kind in "ta" for i in range(count)]
    tests = " and ".join(f"of(t{i}) is a{i}" for i in range(count)) or "True"
    source = f"def make(of, {', '.join(names)}):\n    def holds():\n        try:\n            return {tests}\n"
    source += "        except AttributeError:\n            return False\n    return holds"
    made: dict[str, Any] = {}
    exec(compile(source, "<wengert batching>", "exec"), made)
    return made["make"]


class Outside(NamedTuple):
    """An input from outside: its array, and the node that gradients flow to."""

    array: Array
    node: Node | None


class Arena:
    """The values of one shape and dtype, a row each; `owners` has the number of the group that made each row, or -1."""

    __slots__ = ("count", "data", "owners", "spec")

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.count = 0
        self.data: Any = None
        self.owners: Any = None

    def reserve(self, rows: int) -> int:
        """Reserve rows side by side, and return the first."""
        start = self.count
        self.count += rows
        return start

    def zeros(self) -> Array:
        """Return zeros in the arena's shape."""
        return np.zeros((self.count, *self.spec.shape), self.spec.dtype)

    def make(self, more: int) -> None:
        """Make the memory for the rows that were reserved, and for more: kernels read some rows past their inputs."""
        self.count += more
        self.data = self.zeros()
        self.owners = np.full(self.count, -1, np.int32)


class Group:
    """Calls that run together: `count` of them, in a kernel for `rows`.

    `args`, `bases` and `places` have for each call the numbers of its inputs and of its first result, and its place.
    `indices` has the rows of each input in its arena, or a slice; `inputs` the gathered arrays; `stored` and `kept`
    what parts of the kernel compute for others.
    """

    __slots__ = (
        "arenas", "args", "bases", "count", "indices", "inputs", "kept", "number", "places", "rows", "starts",
        "stored", "use",
    )  # fmt: skip

    def __init__(
        self, number: int, use: Use, args: list[tuple[int, ...]], bases: list[int], places: list[Place]
    ) -> None:
        self.number = number
        self.use = use
        self.args = args
        self.bases = bases
        self.places = places
        self.count = len(args)
        self.rows = padded(self.count)
        self.starts: list[int] = []
        self.arenas: list[Arena] = []
        self.indices: list[Any] = []
        self.inputs: list[Array] = []
        self.stored: list[Array] = []
        self.kept: list[Array] = []


def groups_of(found: list[list[Bucket]]) -> Iterator[Group]:
    """Yield the groups of buckets that run together; large ones in parts."""
    number = 0
    for together in found:
        first = together[0]
        args, bases, places = first.args, first.bases, first.places
        if len(together) > 1:
            args, bases, places = ([x for b in together for x in getattr(b, n)] for n in ("args", "bases", "places"))
        for i in range(0, len(args), MOST):
            part = slice(i, i + MOST)
            yield Group(number, first.use, args[part], bases[part], places[part])
            number += 1
