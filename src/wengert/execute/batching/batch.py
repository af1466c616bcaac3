"""Batches: deferred calls, and their run in groups.

Every value in a batch has a number: the results of calls, and the arrays from outside that are inputs. The values of
one shape and dtype lie in one *arena*, a row each, and the results of a group lie side by side. So a group's inputs are
gathered by one `take`, or are a slice if they lie in order, and the group's results need no copy.

The whole run is one node of the graph. Its backward pass goes through the groups in reverse.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from operator import is_
from typing import Any, NamedTuple

import numpy as np

from ...core.errors import GradientError, GraphError, WengertError, fail
from ...core.graph.evaluate import run as evaluate
from ...core.mode import get_mode, reset_mode, set_mode
from ...core.node import Node, make_node
from ...core.ops.op import Joint, Op
from ...core.ops.record import OUTPUT
from ...core.source import resolve
from ...core.spec import Spec
from ...core.state.blocks import reset_block, set_block
from ...core.storage import storage_of
from ...core.tensor import Tensor, wrap
from ...transforms.derivatives.functional import vjp
from ...transforms.tracing.replay import replay
from .handles import become
from .kernels import MOST, Kernels, padded, rounded
from .report import Ran
from .schedule import Bucket, arranged
from .template import Kind, Template

Array = np.ndarray[Any, Any]
_data_of = Tensor.__dict__["_data"].__get__


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
            return all(map(is_, map(_data_of, shared), self.arrays))
        except AttributeError:  # memory that is written in place
            return all(
                t._array is a if v is None else _version(t) == v
                for t, a, v in zip(shared, self.arrays, self.versions, strict=True)
            )


def _version(t: Tensor) -> int | None:
    storage = storage_of(t)
    return None if storage is None else storage.version


# A deferred call: the use, the numbers of its inputs and of its first result, and the place of the call (its code and
# offset, the number of the example, the scope).
Call = tuple[Use, tuple[int, ...], int, tuple[Any, int, "int | None", Any]]


class Outside(NamedTuple):
    """An input from outside: its array, and the node that gradients flow to."""

    array: Array
    node: Node | None


class Arena:
    """The values of one shape and dtype, a row each; `owners` has the number of the group that made each row, or -1."""

    __slots__ = ("count", "data", "owners", "spec", "start", "starts")

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.count = 0
        self.starts: list[int] = []
        self.data: Any = None
        self.owners: Any = None

    def reserve(self, rows: int) -> int:
        """Reserve rows side by side, and return the first."""
        start = self.count
        self.count += rows
        return start

    def zeros(self) -> Array:
        """Return zeros in the arena's shape."""
        return np.zeros((self.count + 2 * MOST, *self.spec.shape), self.spec.dtype)


class Group:
    """Calls that run together: `count` of them in a kernel for `rows`.

    `indices` has the rows of each input in its arena, or a slice; `inputs` the gathered arrays.
    """

    __slots__ = ("arenas", "calls", "count", "indices", "inputs", "kept", "number", "rows", "starts", "stored", "use")

    def __init__(self, number: int, use: Use, calls: list[Call]) -> None:
        self.number = number
        self.use = use
        self.calls = calls
        self.count = len(calls)
        self.rows = padded(self.count)
        self.starts: list[int] = []
        self.arenas: list[Arena] = []
        self.indices: list[Any] = []
        self.inputs: list[Array] = []
        self.stored: list[Array] = []
        self.kept: list[Array] = []


class Batch:
    """Deferred calls, until they run; then their results."""

    def __init__(self, owner: Any) -> None:
        self.owner = owner
        self.lock = threading.RLock()
        self.kinds: list[Kind] = []
        # By the number of a value: its bucket and its call, None from outside.
        self.buckets: list[Bucket | None] = []
        self.makers: list[Call | None] = []
        self.calls: list[Call] = []
        # Uses by the signatures of calls, as far as nothing has changed since they were found.
        self.signatures: dict[Any, Use] = {}
        self.outside: dict[int, Outside] = {}
        self.uses: dict[int, list[Use]] = {}
        self.known: dict[tuple[int, int], int] = {}
        self.rows: list[int] = []
        self.arenas: dict[Spec, Arena] = {}
        self.groups: list[Group] = []
        self.node: Node | None = None
        self.done = False
        self.error: BaseException | None = None

    # -- what is deferred

    def defer(self, use: Use, args: tuple[int, ...], place: tuple[Any, int, int | None, Any]) -> int:
        """Add a call, and return the number of its first result."""
        depth = 0
        buckets = self.buckets
        needed = [b for a in args if (b := buckets[a]) is not None]
        for b in needed:
            if b.depth > depth:
                depth = b.depth
        bucket = use.buckets.get(depth + 1)
        if bucket is None:
            bucket = use.buckets[depth + 1] = Bucket(use, depth + 1)
        bucket.needs.update(needed)
        base = len(buckets)
        call = use, args, base, place
        bucket.calls.append(call)
        self.calls.append(call)
        kinds = use.template.kinds
        self.kinds += kinds
        count = len(kinds)
        buckets += (bucket,) * count
        self.makers += (call,) * count
        return base

    def from_outside(self, kind: Kind, array: Array, node: Node | None = None) -> int:
        """Return the number of a value from outside."""
        key = id(array), id(node)
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = len(self.kinds)
            self.kinds.append(kind)
            self.buckets.append(None)
            self.makers.append(None)
            self.outside[found] = Outside(array, node)
        return found

    def use_of(self, template: Template, kernels: Kernels) -> Use:
        """Return a template with the present values of what it shares."""
        uses = self.uses.get(id(template))
        if uses is None:
            uses = self.uses[id(template)] = []
        elif uses[-1].holds():
            return uses[-1]
        uses.append(Use(template, kernels))
        return uses[-1]

    # -- the protocol of handles

    def is_tracked(self, number: int) -> bool:
        """Return whether gradients flow from a value."""
        return self.kinds[number].tracked

    def fill(self, handle: Any, number: int) -> None:
        """Run what is deferred, and give a handle its value."""
        self.run()
        kind = self.kinds[number]
        row = self.rows[number]
        array = np.array(self.arenas[kind.spec].data[row])
        become(handle, array, self._node_of(number) if kind.tracked else None)

    def _node_of(self, number: int) -> Node:
        call = self.makers[number]
        assert self.node is not None
        assert call is not None
        code, offset, _, scope = call[3]
        return make_node(OUTPUT, (self.node,), {"index": number}, (), self.kinds[number].spec, code, offset, scope)

    # -- running

    def run(self) -> None:
        """Run all deferred calls; once they have run, nothing."""
        if self.done:
            return
        with self.lock:
            if self.done:
                return
            if self.error is not None:
                raise self.error
            token = set_block(None)
            mode = get_mode()
            inner = set_mode(mode.as_recorded(False))
            try:
                self.owner.ends(self)
                way = self._arrange()
                with np.errstate(all="ignore"):
                    for group in self.groups:
                        self._forward(group)
                self._make_node()
                self.done = True
                self.owner.ran(Ran.of(self, way))
            except AttributeError as e:  # which who reads a slot would take for an empty one
                self.error = GraphError(f"a batch failed: {e}")
                raise self.error from e
            except BaseException as e:
                self.error = e
                raise
            finally:
                reset_mode(inner)
                reset_block(token)
        if self.owner.check:
            self._check_values()

    def _arrange(self) -> str:
        buckets = [b for uses in self.uses.values() for use in uses for b in use.buckets.values()]
        way, found = arranged(buckets)
        self.rows = [-1] * len(self.kinds)
        for number in self.outside:
            self.rows[number] = self._arena(self.kinds[number].spec).reserve(1)
        for together in found:
            calls = together[0].calls if len(together) == 1 else [c for b in together for c in b.calls]
            for first in range(0, len(calls), MOST):
                self._place(Group(len(self.groups), together[0].use, calls[first : first + MOST]))
        for arena in self.arenas.values():
            arena.data = arena.zeros()
            arena.owners = np.full(arena.count + 2 * MOST, -1, np.int32)
        for number, found_outside in self.outside.items():
            self.arenas[self.kinds[number].spec].data[self.rows[number]] = found_outside.array
        for group in self.groups:
            for arena, start in zip(group.arenas, group.starts, strict=True):
                arena.owners[start : start + group.count] = group.number
        return way

    def _arena(self, spec: Spec) -> Arena:
        found = self.arenas.get(spec)
        if found is None:
            found = self.arenas[spec] = Arena(spec)
        return found

    def _place(self, group: Group) -> None:
        rows = self.rows
        for k, spec in enumerate(group.use.template.specs):
            arena = self._arena(spec)
            start = arena.reserve(group.rows)
            group.arenas.append(arena)
            group.starts.append(start)
            for i, call in enumerate(group.calls, start):
                rows[call[2] + k] = i
        self.groups.append(group)

    def _gather(self, group: Group) -> None:
        """Gather the inputs of a group's calls."""
        rows, count, n = self.rows, group.count, group.rows
        for j in range(len(group.use.template.rows)):
            spec = group.use.kernels.row_specs[j]
            arena = self.arenas[spec]
            found = [rows[c[1][j]] for c in group.calls]
            first = found[0]
            if spec.inexact and found[-1] - first == count - 1 and found == list(range(first, first + count)):
                group.indices.append(slice(first, first + count))
                group.inputs.append(arena.data[first : first + n])
                continue
            # Rows that nobody asked for repeat the first one: what fits there fits again.
            index = np.array(found + [first] * (n - count), np.intp)
            group.indices.append(index[:count])
            group.inputs.append(arena.data.take(index, axis=0, mode="clip"))

    def _forward(self, group: Group) -> None:
        use, n = group.use, group.rows
        self._gather(group)
        kernels = use.kernels
        count = len(use.template.specs)
        places: list[Array | None] = [a.data[s : s + n] for a, s in zip(group.arenas, group.starts, strict=True)]
        try:
            if use.template.is_tracked:
                part = kernels.forward(n)
                places += [None] * len(kernels.split.stored)
            else:
                part = kernels.plain(n)
            outs = part([*group.inputs, *use.arrays], places)
            group.stored = outs[count:]
        except Exception as e:
            self._one_by_one(group, e)

    def _one_by_one(self, group: Group, error: Exception) -> None:
        """Run a group's calls one by one to find the one that fails, and raise its error with the example's number."""
        use = group.use
        for i, call in enumerate(group.calls):
            inputs = [x[i] for x in group.inputs]
            try:
                evaluate(use.template.graph, [np.asarray(x) for x in (*inputs, *use.arrays)])
            except Exception as e:
                raise self._told(call, e) from None
        raise error

    def _told(self, call: Call, error: Exception) -> Exception:
        """Return an error with the place of the call that it is of, and the number of the example."""
        use, _, _, (code, offset, example, _) = call
        where = "" if code is None else str(resolve(code, offset))
        of = "" if example is None else f" of example {example}"
        text = f"{use.template.name}{of}: {_plain(error)}"
        if isinstance(error, WengertError):
            made: Exception = type(error)(f"{text} ({where})" if where else text)
            made.place = where  # type: ignore[attr-defined]
            return made
        error.add_note(f"in {use.template.name}{of}, deferred at {where}")
        return error

    def _make_node(self) -> None:
        uses = [u for many in self.uses.values() for u in many if u.template.is_tracked]
        nodes: dict[Node, None] = {}
        for use in uses:
            for i in use.kernels.wanted_shared:
                if (node := use.nodes[i]) is not None:
                    nodes[node] = None
        for number, found in self.outside.items():
            if self.kinds[number].tracked and found.node is not None:
                nodes[found.node] = None
        if nodes:
            code, offset, _, scope = self.calls[0][3]
            specs = tuple(k.spec for k in self.kinds)
            attrs = {"batch": self}
            self.node = make_node(BATCH, tuple(nodes), attrs, (self,), specs, code, offset, scope)

    # -- the backward pass

    def pull(self, cts: Sequence[Any]) -> list[Any]:
        """Return the gradients of the node's inputs for those of the values."""
        assert self.node is not None
        if any(isinstance(c, Tensor) for c in cts):
            return self._replayed(cts)
        found = _Backward(self, cts).grads
        if self.owner.check:
            self._check_gradients(cts, found)
        return [found.get(node) for node in self.node.inputs]

    def _inputs(self) -> dict[Node, Array]:
        assert self.node is not None
        found: dict[Node, Array] = {}
        for use in (u for many in self.uses.values() for u in many):
            found.update((n, a) for n, a in zip(use.nodes, use.arrays, strict=True) if n is not None)
        found.update((o.node, o.array) for o in self.outside.values() if o.node is not None)
        return {n: found[n] for n in self.node.inputs}

    def _replayed(self, cts: Sequence[Any]) -> list[Any]:
        """Return the gradients as tensors that can be differentiated: the calls run again, one by one."""
        present = [i for i, c in enumerate(cts) if c is not None]
        given = self._inputs()

        def forward(*variables: Tensor) -> tuple[Tensor, ...]:
            by_node = dict(zip(given, variables, strict=True))
            values = self._values(by_node)
            return tuple(values[i] for i in present)

        variables = []
        for node, array in given.items():
            x = wrap(array)
            x.node = node
            variables.append(x)
        _, pull = vjp(forward, *variables)
        wanted = [c if isinstance(c, Tensor) else wrap(np.asarray(c)) for c in (cts[i] for i in present)]
        return list(pull(tuple(wanted)))

    def _values(self, by_node: dict[Node, Tensor]) -> list[Any]:
        """Return all values by running the calls one by one on tensors."""
        values: list[Any] = [None] * len(self.kinds)
        for number, found in self.outside.items():
            values[number] = by_node.get(found.node) if found.node in by_node else wrap(found.array)  # type: ignore[arg-type]
        for use, args, base, _ in self.calls:
            shared = [by_node.get(n) if n in by_node else wrap(a) for n, a in zip(use.nodes, use.arrays, strict=True)]
            outs = replay(use.template.graph, [*(values[v] for v in args), *shared])
            values[base : base + len(outs)] = outs
        return values

    # -- checks

    def _check_values(self) -> None:
        token = set_mode(get_mode().as_recorded(False))
        try:
            values = self._values({})
        finally:
            reset_mode(token)
        for call in self.calls:
            for k, spec in enumerate(call[0].template.specs):
                number = call[2] + k
                found = self.arenas[spec].data[self.rows[number]]
                _compare(found, values[number]._array, f"result {k} of {_called(call)}")

    def _check_gradients(self, cts: Sequence[Any], found: dict[Node, Array]) -> None:
        token = set_mode(get_mode().as_recorded(True))
        try:
            expected = self._replayed(cts)
        finally:
            reset_mode(token)
        assert self.node is not None
        for i, (node, g) in enumerate(zip(self.node.inputs, expected, strict=True)):
            own = found.get(node)
            _compare(np.zeros(g.shape, g.dtype) if own is None else own, g._array, f"the gradient of input {i}")


def _called(call: Call) -> str:
    example = call[3][2]
    return call[0].template.name + ("" if example is None else f" of example {example}")


def _plain(error: Exception) -> str:
    text = str(error)
    place = getattr(error, "place", None)
    return text.replace(f" ({place})", "", 1) if place else text


def _compare(found: Any, expected: Any, what: str) -> None:
    found, expected = np.asarray(found), np.asarray(expected)
    if found.dtype.kind not in "fc":
        is_same = np.array_equal(found, expected)
    else:
        eps = float(np.finfo(found.dtype).eps)
        scale = float(np.max(np.abs(expected), initial=0.0, where=np.isfinite(expected)))
        is_same = np.allclose(found, expected, rtol=2048 * eps, atol=2048 * eps * scale, equal_nan=True)
    if not is_same:
        fail(GraphError, f"batching(check=True): {what} differs from that of one-by-one execution")


class _Backward:
    """One backward pass through a batch; `grads` are the gradients of the batch's inputs by their nodes."""

    def __init__(self, batch: Batch, cts: Sequence[Any]) -> None:
        self.batch = batch
        self.grads: dict[Node, Array] = {}
        self.cts = {spec: a.zeros() for spec, a in batch.arenas.items() if spec.inexact}
        self.reached = np.zeros(len(batch.groups) + 1, bool)  # the last one is for rows from outside
        for number, ct in enumerate(cts):
            if ct is not None:
                spec, row = batch.kinds[number].spec, batch.rows[number]
                self.cts[spec][row] += ct
                self.reached[batch.arenas[spec].owners[row]] = True
        parts: dict[int, list[Group]] = {}
        for group in reversed(batch.groups):
            if group.use.template.is_tracked and self.reached[group.number]:
                self._pull(group)
                parts.setdefault(id(group.use), []).append(group)
        for many in parts.values():
            if many[0].use.kernels.wanted_shared:
                for part in _chunks(many):
                    self._sum(part)
        for group in batch.groups:
            group.kept = []
        for number, found in batch.outside.items():
            if found.node is not None and batch.kinds[number].tracked:
                self._add(found.node, self.cts[batch.kinds[number].spec][batch.rows[number]].copy())

    def _add(self, node: Node, g: Array) -> None:
        old = self.grads.get(node)
        self.grads[node] = np.asarray(g) if old is None else old + g

    def _ct(self, group: Group, i: int) -> Array:
        start = group.starts[i]
        found: Array = self.cts[group.use.template.specs[i]][start : start + group.rows]
        return found

    def _fed(self, group: Group, position: int) -> Array:
        """Return the value of a node of the joint graph, by its position, in a group."""
        kind, i = group.use.kernels.places[position]
        if kind == "row":
            return group.inputs[i]
        if kind == "shared":
            return group.use.arrays[i]
        if kind == "ct":
            return self._ct(group, i)
        return group.stored[i] if kind == "stored" else group.kept[i]

    def _pull(self, group: Group) -> None:
        kernels, count = group.use.kernels, group.count
        split = kernels.split
        if not (kernels.wanted_rows or split.kept):
            return
        outs = kernels.backward(group.rows)([self._fed(group, p) for p in split.back_inputs], None)
        width = len(kernels.wanted_rows)
        group.kept = outs[width:]
        for j, g in zip(kernels.wanted_rows, outs[:width], strict=True):
            spec = kernels.row_specs[j]
            cts, index = self.cts[spec], group.indices[j]
            if isinstance(index, slice) or len(set(index.tolist())) == count:
                cts[index] += g[:count]
            else:
                np.add.at(cts, index, g[:count])
            self.reached[self.batch.arenas[spec].owners[index]] = True

    def _sum(self, many: list[Group]) -> None:
        """Sum the gradients of the shared tensors over the rows of some groups."""
        use = many[0].use
        kernels, split = use.kernels, use.kernels.split
        total = sum(g.count for g in many)
        n = rounded(total)
        inputs = []
        for p in split.sum_inputs:
            if kernels.places[p][0] == "shared":
                inputs.append(self._fed(many[0], p))
                continue
            spec = kernels.spec_at(p, n)
            whole = np.zeros(spec.shape, spec.dtype)
            np.concatenate([self._fed(g, p)[: g.count] for g in many], out=whole[:total])
            inputs.append(whole)
        outs = kernels.sums(n)(inputs, None)
        for i, g in zip(kernels.wanted_shared, outs, strict=True):
            node = use.nodes[i]
            if node is not None:
                self._add(node, g)


# Rows that one sum runs over.
_SUMMED = 8192


def _chunks(many: list[Group]) -> Iterator[list[Group]]:
    part: list[Group] = []
    count = 0
    for group in many:
        if part and count + group.count > _SUMMED:
            yield part
            part, count = [], 0
        part.append(group)
        count += group.count
    yield part


def _unrun(*xs: Any) -> Any:
    fail(
        GraphError,
        "a batch has no graph of its own",
        "Take the graph, or the answer, of the function without the block of batching.",
    )


def _pull(ct: Any, saved: Any, node: Node) -> list[Any]:
    if type(saved) is not tuple:
        fail(GradientError, "backward through a batch whose values were freed")
    batch: Batch = saved[0]
    return batch.pull(ct if isinstance(ct, tuple) else (ct,))


# The operation of a batch's node.
BATCH = Op(
    "batch(*xs; batch)",
    "general",
    _unrun,
    infer=_unrun,
    facts=Joint(_pull, absent=True),
    results=2,
    doc="Calls of cells that ran together.",
    listed=False,
)
