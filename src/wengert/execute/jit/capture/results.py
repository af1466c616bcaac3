"""The results of a trace: which outputs of its graph they are, and what they are to the caller beside their values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ....core.node import Node
from ....core.ops.op import LEAF
from ....core.ops.record import resumed
from ....core.standins import DataView, WeakTensor, present
from ....core.storage import Storage, join, living, root_of, storage_of
from ....core.tensor import Tensor, abstract, of_class
from ....ops.index.views import FromOwner
from ....transforms.derivatives.variables import is_live
from ..recorded import ended, freed_at


class Source(NamedTuple):
    """A source of an input of the graph: `kind` "argument", "cell", "argument gradient" or "cell gradient".

    That of a view may be a "result", too.
    """

    kind: str
    number: int


class Constant(NamedTuple):
    """A result that is not a tensor."""

    value: Any


class OfClass(NamedTuple):
    """A result with more to it than its value: the graph's output that has it, its class, and where its graph was freed
    its node.
    """

    output: int
    cls: type[Tensor]
    node: Node | None


class NewLeaf(NamedTuple):
    """A result that the function made a leaf: the output that has it, the one with its gradient, the class."""

    output: int
    grad: int | None
    cls: type[Tensor]


class Itself(NamedTuple):
    """A result that is the very tensor of an argument, a cell or an earlier result; `value` is what has its value.

    That one is returned where a call has no such tensor: where it was donated, or the argument is an array or a number.
    """

    source: Source
    value: Any

    @property
    def output(self) -> int:
        """The number of the output that has the value."""
        found = output_of(self.value)
        assert found is not None
        return found


class Taken(NamedTuple):
    """A result that is a view of a cell's tensor, of an argument or of another result: what its value is, and the way.

    The source's kind may be "result". Where the way is not known, the view has a value of its own, to which no write
    is allowed.
    """

    source: Source
    taken: FromOwner
    value: Any

    @property
    def output(self) -> int:
        """The number of the output that has the value."""
        found = output_of(self.value)
        assert found is not None
        return found


def is_of_argument(result: Any) -> bool:
    """Return whether a result is an argument, or a view of one."""
    return type(result) in (Itself, Taken) and result.source.kind == "argument"


def output_of(result: Any) -> int | None:
    """Return the number of the output that a result is, None for a constant."""
    return None if type(result) is Constant else result if type(result) is int else result.output


def node_of(result: Any) -> Node | None:
    """Return the node that a result has in every call."""
    return result.node if type(result) is OfClass else None


def class_of(result: Any) -> type[Tensor]:
    """Return the class of a result that is a tensor."""
    return Tensor if type(result) is int else result.cls


class Results:
    """The outputs of the graph to be, each tensor once, and what results are of them.

    `own` says of what a cell or an argument gave the function where it is from, by identity; `weakly` of the arguments
    which are numbers. `tracked` has the outputs that gradients flow back from.
    """

    def __init__(self, consumed: Mapping[Node, str], own: Mapping[int, Source], weakly: Sequence[bool]) -> None:
        self.tensors: list[Tensor] = []
        self.tracked: dict[int, Node] = {}
        self._index: dict[Any, int] = {}
        self._dead: set[Node] = set()
        self._consumed, self._own, self._weakly = consumed, own, weakly
        # By the identity of a tensor among the results: the first of them that it is.
        self._beside: dict[int, Source] = {}

    def add(self, t: Tensor) -> int:
        """Return the number of the output that a tensor is."""
        if isinstance(t, DataView) and t.node is not None:  # which has a new node whenever it is asked
            t = abstract(t.node)
        key = t.node if t._array is None else id(t)
        found = self._index.get(key)
        if found is None:
            found = self._index[key] = len(self.tensors)
            self.tensors.append(t)
        return found

    def track(self, number: int, node: Node | None) -> bool:
        """Note whether gradients flow back from an output, and return it."""
        if node is None or not node.requires_grad or not is_live(node, self._dead) or freed_at(node, self._consumed):
            return False
        self.tracked[number] = node
        return True

    def of(self, leaves: Sequence[Any]) -> list[Any]:
        """Return what the leaves of a result are.

        Results that share the memory of none of them are views of one more, which has it whole and comes last.
        """
        tensors = [x for x in leaves if isinstance(x, Tensor) and id(x) not in self._own]
        shared: dict[int, tuple[Storage, list[Tensor]]] = {}
        for x in {id(x): x for x in tensors}.values():
            if (s := storage_of(x)) is not None and s.whole is None and x.writes_through is not None:
                shared.setdefault(id(s), (s, []))[1].append(x)
        known = self._own.keys() | {id(x) for x in tensors}
        whole = [_whole(s, x[0]) for s, x in shared.values() if len(x) > 1 and id(root_of(s)) not in known]
        for i, x in enumerate([*leaves, *whole]):
            if isinstance(x, Tensor) and id(x) not in self._own:
                self._beside.setdefault(id(x), Source("result", i))
        found = [self._result(x, i) for i, x in enumerate([*leaves, *whole])]
        self._beside.clear()  # what is kept outside is no view of what is returned
        return found

    def kept(self, leaf: Any) -> Any:
        """Return what a leaf is of what the function keeps outside."""
        return self._result(leaf, -1)

    def _result(self, leaf: Any, i: int) -> Any:
        if not isinstance(leaf, Tensor):
            return Constant(leaf)
        node = leaf.node
        if node is not None and node.op is LEAF and id(leaf) not in self._own:
            grad = leaf.grad
            kept = None if grad is None else self.add(resumed(grad))
            return NewLeaf(self.add(present(leaf)), kept, leaf.result_class)
        source = self._own.get(id(leaf))
        number = self.add(resumed(leaf))
        cls = WeakTensor if type(leaf) is WeakTensor else leaf.result_class
        if source is not None and (source.kind == "cell" or not self._weakly[source.number]):
            return Itself(source, number if cls is Tensor else OfClass(number, cls, None))
        found = self._valued(number, cls, node)
        first = self._beside.get(id(leaf))
        if first is not None and first.number < i:
            return Itself(first, found)
        ways = list(self._ways(leaf))
        best = next((way for way in ways if way[1].steps is not None), ways[0] if ways else None)
        return found if best is None else Taken(*best, found)

    def _ways(self, leaf: Tensor) -> Iterator[tuple[Source, FromOwner]]:
        """Yield the tensors that a leaf shares memory with, and the ways in which it is taken from them."""
        s = storage_of(leaf)
        for owner in () if s is None or leaf.writes_through is None else living(s):
            source = self._own.get(id(owner)) or self._beside.get(id(owner))
            if source is not None and owner is not leaf:
                yield source, leaf.writes_through.taken(leaf, owner)

    def _valued(self, number: int, cls: type[Tensor], node: Node | None) -> Any:
        end = None
        if not self.track(number, node) and node is not None and node.requires_grad and is_live(node, self._dead):
            end = ended(node, freed_at(node, self._consumed) or "")
        return number if cls is Tensor and end is None else OfClass(number, cls, end)


def _whole(s: Storage, x: Tensor) -> Tensor:
    """Return the whole that the members of a storage without values are taken from, as a member."""
    made: Tensor = of_class(x.result_class, abstract(s.node))
    join(made, x)
    return made
