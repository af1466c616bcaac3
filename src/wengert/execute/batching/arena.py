"""Arenas: the values of a batch in rows, and the groups of calls that make them.

The values of one shape and dtype lie in one arena, a row each, and the results of a group lie side by side. So a group's
inputs are gathered by one `take`, or are a slice if they lie in order, and the group's results need no copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import is_
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

    __slots__ = ("arrays", "buckets", "kernels", "nodes", "template", "versions")

    def __init__(self, template: Template, kernels: Kernels) -> None:
        self.template = template
        self.kernels = kernels
        self.buckets: dict[int, Bucket] = {}
        self.arrays: list[Array] = [t._array for t in template.shared]
        self.nodes = [t.node for t in template.shared]
        self.versions = [_version(t) for t in template.shared]

    def holds(self) -> bool:
        """Return whether the shared tensors have these values still."""
        shared = self.template.shared
        try:
            return all(map(is_, map(data_of, shared), self.arrays))
        except AttributeError:  # memory that is written in place
            return all(
                t._array is a if v is None else _version(t) == v
                for t, a, v in zip(shared, self.arrays, self.versions, strict=True)
            )


def _version(t: Tensor) -> int | None:
    storage = storage_of(t)
    return None if storage is None else storage.version


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
        """Return zeros in the arena's shape: a kernel may read some rows past the end."""
        return np.zeros((self.count + MOST, *self.spec.shape), self.spec.dtype)

    def make(self) -> None:
        """Make the memory for the rows that were reserved."""
        self.data = self.zeros()
        self.owners = np.full(self.count + MOST, -1, np.int32)


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
