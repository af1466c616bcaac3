"""The backward pass of a batch: the whole run is one node of the graph.

It goes through the groups in reverse. The gradients of values lie in arenas as the values do. Those of shared tensors
are summed at the end, over the rows of all groups of a cell at once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from ...core.errors import GradientError, GraphError, fail
from ...core.mode import get_mode, reset_mode, set_mode
from ...core.node import Node
from ...core.ops.op import Joint, Op
from ...core.spec import Spec
from ...core.tensor import Tensor, wrap
from ...transforms.derivatives.functional import vjp
from ...transforms.tracing.replay import replay
from .arena import Arena, Array, Group, Outside, Place, Use
from .kernels import rounded
from .template import Kind

# Rows that one sum runs over at most, but for a single group of more.
_SUMMED = 8192


class Record:
    """A batch that ran: all that a backward pass needs. `rows` has the row of each value in its arena."""

    def __init__(
        self, kinds: Sequence[Kind], outside: Mapping[int, Outside], uses: Sequence[Use], checks: bool
    ) -> None:
        self.kinds = kinds
        self.outside = outside
        self.uses = uses
        self.checks = checks
        self.rows = [-1] * len(kinds)
        self.arenas: dict[int, Arena] = {}  # by the identities of their specs, which are the one of each kind
        self.groups: list[Group] = []
        # The numbers of the values that somebody has.
        self.given: list[int] = []
        # The nodes that gradients flow to, with their values.
        self.inputs: dict[Node, Array] = {}
        self.tracked: list[tuple[int, Node]] = []

    def arena(self, spec: Spec) -> Arena:
        """Return the arena of values of a spec."""
        found = self.arenas.get(id(spec))
        if found is None:
            found = self.arenas[id(spec)] = Arena(spec)
        return found

    def value(self, number: int) -> Array:
        """Return a copy of a value."""
        return np.array(self.arena(self.kinds[number].spec).data[self.rows[number]])

    def place(self, number: int) -> Place:
        """Return the place of the call that gave a value."""
        spec = self.kinds[number].spec
        group = self.groups[self.arena(spec).owners[self.rows[number]]]
        place: Place = group.places[bisect_right(group.bases, number) - 1]
        return place

    def refuse_inside(self, node: Node) -> None:
        """Raise GradientError if calls of the batch take a value, whose gradient somebody wants."""
        number = node.attrs["index"]
        if any(number in args for group in self.groups for args in group.args):
            name = self.groups[self.arena(node.spec).owners[self.rows[number]]].use.template.name
            fail(
                GradientError,
                f"the gradient of a result of {name}, {node.spec}, inside of a batch that goes on with it",
                "Run what is deferred first, so that later calls take the value from outside: "
                "with wg.batching() as block: h = cell(x); block.flush(); y = cell(h).",
            )

    def find_inputs(self) -> list[Node]:
        """Return the nodes that gradients flow to."""
        for use in self.uses:
            if use.template.is_tracked:
                for i in use.kernels.wanted_shared:
                    if (node := use.nodes[i]) is not None:
                        self.inputs[node] = use.arrays[i]
        if any(use.template.is_tracked for use in self.uses):
            for number, (array, node) in self.outside.items():
                if node is not None:
                    self.inputs[node] = array
                    self.tracked.append((number, node))
        return list(self.inputs)

    def pull(self, cts: Sequence[Any]) -> list[Any]:
        """Return the gradients of the inputs for those of the values; None if there is none."""
        if any(isinstance(cts[i], Tensor) for i in self.given):
            return self._replayed(cts)
        found = Pass(self, cts).grads
        if self.checks:
            self._check_gradients(cts, found)
        return [found.get(node) for node in self.inputs]

    # -- one by one

    def _calls(self) -> Iterator[tuple[Use, tuple[int, ...], int, Place]]:
        for group in self.groups:
            for args, base, place in zip(group.args, group.bases, group.places, strict=True):
                yield group.use, args, base, place

    def _values(self, given: Mapping[Node, Tensor]) -> list[Any]:
        """Return all values by running the calls one by one on tensors; `given` are those of inputs."""
        values: list[Any] = [None] * len(self.kinds)

        def tensor(array: Array, node: Node | None) -> Tensor:
            found = None if node is None else given.get(node)
            return wrap(array) if found is None else found

        for number, found in self.outside.items():
            values[number] = tensor(*found)
        for use, args, base, _ in self._calls():
            shared = [tensor(a, n) for a, n in zip(use.arrays, use.nodes, strict=True)]
            outs = replay(use.template.graph, [*(values[v] for v in args), *shared])
            values[base : base + len(outs)] = outs
        return values

    def _replayed(self, cts: Sequence[Any]) -> list[Any]:
        """Return the gradients as tensors that can be differentiated again."""
        present = [i for i in dict.fromkeys(self.given) if cts[i] is not None]

        def forward(*variables: Tensor) -> tuple[Tensor, ...]:
            values = self._values(dict(zip(self.inputs, variables, strict=True)))
            return tuple(values[i] for i in present)

        variables = []
        for node, array in self.inputs.items():
            x = wrap(array)
            x.node = node
            variables.append(x)
        _, pull = vjp(forward, *variables)
        return list(
            pull(tuple(c if isinstance(c, Tensor) else wrap(np.asarray(c)) for c in map(cts.__getitem__, present)))
        )

    # -- checks

    def check_values(self) -> None:
        """Raise GraphError where a value differs from that of one-by-one execution."""
        values = self._values({})
        for use, _, base, place in self._calls():
            for k in range(len(use.template.specs)):
                _compare(self.value(base + k), values[base + k]._array, f"result {k} of {_called(use, place)}")

    def _check_gradients(self, cts: Sequence[Any], found: Mapping[Node, Array]) -> None:
        token = set_mode(get_mode().as_recorded(True))
        try:
            expected = self._replayed(cts)
        finally:
            reset_mode(token)
        # Large terms may cancel in one of them: it is as good as the largest of all.
        scale = max((_largest(g._array) for g in expected), default=0.0)
        for (node, array), g in zip(self.inputs.items(), expected, strict=True):
            own = found.get(node)
            what = f"the gradient of {node.spec}"
            _compare(np.zeros_like(array) if own is None else own, g._array, what, scale)


def _called(use: Use, place: Place) -> str:
    return use.template.name if place[2] is None else f"{use.template.name} of example {place[2]}"


def _largest(array: Any) -> float:
    return float(np.max(np.abs(array), initial=0.0, where=np.isfinite(array)))


def _compare(found: Any, expected: Any, what: str, scale: float = 0.0) -> None:
    found, expected = np.asarray(found), np.asarray(expected)
    if found.dtype.kind not in "fc":
        is_same = np.array_equal(found, expected)
    else:
        error = 4096 * float(np.finfo(found.dtype).eps)
        scale = max(scale, _largest(expected))
        is_same = np.allclose(found, expected, rtol=error, atol=error * scale, equal_nan=True)
    if not is_same:
        by = "" if found.dtype.kind == "b" else f" by {_largest(np.subtract(found, expected)):.3g}"
        fail(GraphError, f"batching(check=True): {what} differs{by} from that of one-by-one execution")


class Pass:
    """One backward pass through a batch; `grads` are the gradients of its inputs by their nodes."""

    def __init__(self, record: Record, cts: Sequence[Any]) -> None:
        self.record = record
        self.grads: dict[Node, Array] = {}
        self.cts = {key: a.zeros() for key, a in record.arenas.items() if a.spec.inexact}
        # The rows that a gradient has come to: to others nothing flows, which is less than a gradient of 0.
        self.has = {key: np.zeros(len(rows), bool) for key, rows in self.cts.items()}
        # The groups that a gradient reaches; the last entry is for rows from outside.
        self.reached = np.zeros(len(record.groups) + 1, bool)
        for number in dict.fromkeys(record.given):
            if (ct := cts[number]) is not None:
                spec, row = record.kinds[number].spec, record.rows[number]
                self.cts[id(spec)][row] += ct
                self.has[id(spec)][row] = True
                self.reached[record.arena(spec).owners[row]] = True
        together: dict[Use, list[Group]] = {}
        for group in reversed(record.groups):
            if group.use.template.is_tracked and self.reached[group.number] and self._pull(group):
                together.setdefault(group.use, []).append(group)
        for use, groups in together.items():
            for part in _parts(groups) if use.kernels.wanted_shared else ():
                self._sum(use, part)
        for group in record.groups:
            group.kept = []
        for number, node in record.tracked:
            self._add(node, self.cts[id(record.kinds[number].spec)][record.rows[number]])

    def _add(self, node: Node, g: Array) -> None:
        old = self.grads.get(node)
        self.grads[node] = np.array(g) if old is None else old + g

    def _fed(self, group: Group, position: int) -> Array:
        """Return the value of a node of the joint graph, by its position, in a group."""
        kind, i = group.use.kernels.places[position]
        if kind == "row":
            return group.inputs[i]
        if kind == "ct":
            start = group.starts[i]
            found: Array = self.cts[id(group.arenas[i].spec)][start : start + group.rows]
            return found
        return group.stored[i] if kind == "stored" else group.kept[i] if kind == "kept" else group.use.arrays[i]

    def _lacks(self, group: Group) -> bool:
        """Return whether no gradient comes to some results of a group's calls."""
        return not all(
            self.has[id(group.arenas[k].spec)][group.starts[k] : group.starts[k] + group.count].all()
            for k in group.use.kernels.tracked
        )

    def _pull(self, group: Group) -> bool:
        """Take the gradients of a group's results to its inputs. Return whether those of shared tensors are missing."""
        kernels, count = group.use.kernels, group.count
        split = kernels.split
        if not (kernels.wanted_rows or split.kept):
            return True
        outs = kernels.backward(group.rows)([self._fed(group, p) for p in split.back_inputs], None)
        width = len(kernels.wanted_rows)
        if self._lacks(group) and not all(np.isfinite(g[:count]).all() for g in outs):
            self._pull_exactly(group, True)
            return False
        group.kept = outs[width:]
        for j, g in zip(kernels.wanted_rows, outs[:width], strict=True):
            spec, index = kernels.row_specs[j], group.indices[j]
            cts = self.cts[id(spec)]
            if isinstance(index, slice) or len(set(index.tolist())) == count:
                cts[index] += g[:count]
            else:
                np.add.at(cts, index, g[:count])
            self.has[id(spec)][index] = True
            self.reached[self.record.arena(spec).owners[index]] = True
        return True

    def _pull_exactly(self, group: Group, rows: bool) -> None:
        """Take gradients back one by one: to shared tensors, and to the `rows`.

        The kernel has 0 where no gradient comes to a result. If the derivative there is infinite, that gives NaN.
        """
        use, kernels = group.use, group.use.kernels
        count = len(group.inputs)
        wanted = [*(kernels.wanted_rows if rows else ()), *(count + i for i in kernels.wanted_shared)]
        for i in range(group.count):
            places = {k: group.starts[k] + i for k in kernels.tracked}
            present = [k for k, row in places.items() if self.has[id(group.arenas[k].spec)][row]]
            if not present:
                continue
            given = [*(wrap(np.array(x[i])) for x in group.inputs), *map(wrap, use.arrays)]

            def forward(
                *variables: Tensor, given: list[Tensor] = given, present: list[int] = present
            ) -> tuple[Tensor, ...]:
                by_place = dict(zip(wanted, variables, strict=True))
                outs = replay(use.template.graph, [by_place.get(j, t) for j, t in enumerate(given)])
                return tuple(outs[k] for k in present)

            _, pull = vjp(forward, *(given[j] for j in wanted))
            found = pull(tuple(wrap(np.array(self.cts[id(group.arenas[k].spec)][places[k]])) for k in present))
            for j, g in zip(wanted, found, strict=True):
                if j >= count:
                    node = use.nodes[j - count]
                    if node is not None:
                        self._add(node, g._array)
                    continue
                spec, index = kernels.row_specs[j], group.indices[j]
                row = index.start + i if isinstance(index, slice) else index[i]
                self.cts[id(spec)][row] += g._array
                self.has[id(spec)][row] = True
                self.reached[self.record.arena(spec).owners[row]] = True

    def _sum(self, use: Use, groups: list[Group]) -> None:
        """Sum the gradients of the shared tensors over the rows of some groups."""
        kernels = use.kernels
        total = sum(g.count for g in groups)
        n = rounded(total)
        inputs = []
        for p in kernels.split.sum_inputs:
            if kernels.places[p][0] == "shared":
                inputs.append(self._fed(groups[0], p))
                continue
            spec = kernels.spec_at(p, n)
            whole = np.empty(spec.shape, spec.dtype)
            whole[total:] = 0
            np.concatenate([self._fed(g, p)[: g.count] for g in groups], out=whole[:total])
            inputs.append(whole)
        found = kernels.sums(n)(inputs, None)
        if not all(np.isfinite(g).all() for g in found) and any(map(self._lacks, groups)):
            for group in groups:
                self._pull_exactly(group, False)
            return
        for i, g in zip(kernels.wanted_shared, found, strict=True):
            node = use.nodes[i]
            if node is not None:
                self._add(node, g)


def _parts(groups: list[Group]) -> Iterator[list[Group]]:
    """Yield groups in parts of a number of rows."""
    part: list[Group] = []
    count = 0
    for group in groups:
        if part and count + group.count > _SUMMED:
            yield part
            part, count = [], 0
        part.append(group)
        count += group.count
    yield part


def _unrun(*xs: Any, record: Any = None) -> NoReturn:
    fail(
        GraphError,
        "a batch has no graph of its own",
        "Take the graph, or the answer, of the function without the block of batching.",
    )


def _pull(ct: Any, saved: Any) -> list[Any]:
    record: Record = saved[0]
    return record.pull(ct)


# The operation of a batch's node. It saves the record alone.
BATCH = Op(
    "batch(*xs; record)",
    "general",
    _unrun,
    infer=_unrun,
    facts=Joint(_pull, absent=True),
    results=2,
    doc="Calls of cells that ran together.",
    listed=False,
)
