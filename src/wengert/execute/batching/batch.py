"""Batches: deferred calls, and their run in groups.

Every value in a batch has a number: the results of calls, and the arrays from outside that are inputs.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np

from ...core.errors import GraphError, WengertError, fail
from ...core.graph.evaluate import run as evaluate
from ...core.mode import get_mode, reset_mode, set_mode
from ...core.node import Node, make_node
from ...core.ops.record import OUTPUT
from ...core.source import resolve
from ...core.state import locks
from ...core.state.blocks import reset_block, set_block
from .arena import Array, Group, Outside, Place, Use, groups_of
from .backward import BATCH, Record
from .handles import become
from .kernels import Kernels
from .report import Ran
from .schedule import Bucket, arranged
from .template import Kind, Template


class Batch:
    """Deferred calls, until they run; then their results. `owner` is the block, which is told of the run."""

    def __init__(self, owner: Any) -> None:
        self.owner = owner
        self.lock = locks.lock()
        # By the number of a value: its kind, its depth and its bucket, which is None from outside.
        self.values: list[tuple[Kind, int, Bucket | None]] = []
        self.kinds: list[Kind] = []  # the kinds alone, once it runs
        # By where a call stands, the place that calls of the present example have: one object for all.
        self.places: dict[Any, Place] = {}
        self.outside: dict[int, Outside] = {}
        self.uses: dict[Template, list[Use]] = {}
        # Uses by the signatures of calls, as far as nothing has changed since they were found.
        self.signatures: dict[Any, Use] = {}
        # The templates that were right when a module changed, and were not used since.
        self.sealed: set[Template] = set()
        self.known: dict[tuple[int, int], int] = {}
        self.record: Record | None = None
        self.node: Node | None = None
        self.error: BaseException | None = None

    # -- what is deferred

    def defer(self, use: Use, args: tuple[int, ...], place: Place) -> int:
        """Add a call, and return the number of its first result."""
        values = self.values
        depth = 1 + max([values[a][1] for a in args], default=0)
        bucket = use.buckets.get(depth)
        if bucket is None:
            bucket = use.buckets[depth] = Bucket(use, depth, use.template.kinds)
        base = len(values)
        bucket.args.append(args)
        bucket.bases.append(base)
        bucket.places.append(place)
        values += bucket.entries
        return base

    def from_outside(self, kind: Kind, array: Array, node: Node | None = None) -> int:
        """Return the number of a value from outside."""
        key = id(array), id(node)
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = len(self.values)
            self.values.append((kind, 0, None))
            self.outside[found] = Outside(array, node)
        return found

    def use_of(self, template: Template, kernels: Kernels) -> Use:
        """Return a template with the present values of what it shares."""
        uses = self.uses.setdefault(template, [])
        self.sealed.discard(template)
        if not uses or not uses[-1].holds():
            uses.append(Use(template, kernels))
        return uses[-1]

    def seal(self) -> None:
        """Hold what is deferred to what the cells are now: they may be others afterwards. Raises GraphError."""
        for template in self.uses:
            if template not in self.sealed and not template.is_still_right():
                fail(
                    GraphError,
                    f"{template.name} has changed since calls of it were deferred: it reads something else now",
                    "Run what is deferred before you change it: with wg.batching() as block: ... block.flush().",
                )
            self.sealed.add(template)
        self.signatures.clear()

    @property
    def has_calls(self) -> bool:
        """True if something is deferred."""
        return bool(self.uses)

    # -- the protocol of handles

    def is_tracked(self, number: int) -> bool:
        """Return whether gradients flow from a value."""
        return (self.values[number][0] if self.values else self.kinds[number]).tracked

    def fill(self, handle: Any, number: int) -> None:
        """Run what is deferred, and give a handle its value."""
        record = self.record or self.run()
        kind = record.kinds[number]
        node = None
        if kind.tracked and self.node is not None:
            record.given.append(number)
            code, offset, _, scope = record.place(number)
            node = make_node(OUTPUT, (self.node,), {"index": number}, (), kind.spec, code, offset, scope)
        become(handle, record.value(number), kind.spec, node)

    # -- running

    def run(self) -> Record:
        """Run all deferred calls, unless they have run; return what a backward pass needs."""
        with self.lock:
            if self.record is not None:
                return self.record
            if self.error is not None:
                raise self.error
            self.kinds = [kind for kind, _, _ in self.values]
            token = set_block(None)
            inner = set_mode(get_mode().as_recorded(False))
            try:
                self.owner.ends(self)
                record = self._run()
                if self.owner.check:
                    record.check_values()
                self.record = record
            except AttributeError as e:  # which who reads a slot would take for an empty one
                self.error = GraphError(f"a batch failed: {e}")
                raise self.error from e
            except BaseException as e:
                self.error = e
                raise
            finally:
                reset_mode(inner)
                reset_block(token)
                # What only deferred calls need refers to each other.
                for use in (u for uses in self.uses.values() for u in uses):
                    use.buckets.clear()
                self.values = []
                self.signatures.clear()
                self.places.clear()
        return record

    def _run(self) -> Record:
        uses = [use for uses in self.uses.values() for use in uses]
        self.seal()
        buckets = [b for use in uses for b in use.buckets.values()]
        kinds = self.kinds
        owners = [bucket for _, _, bucket in self.values]
        for bucket in buckets:
            bucket.needs = {*map(owners.__getitem__, chain.from_iterable(bucket.args))} - {None}
        way, found = arranged(buckets)
        record = Record(kinds, self.outside, uses, self.owner.check)
        arrays: dict[int, list[Array]] = {}
        for number, (array, _) in self.outside.items():
            spec = kinds[number].spec
            together = arrays.get(id(spec))
            if together is None:
                together = arrays[id(spec)] = []
                record.arena(spec)
            record.rows[number] = len(together)
            together.append(array)
        for key, together in arrays.items():
            record.arenas[key].reserve(len(together))
        for group in groups_of(found):
            _place(record, group)
        most = max(group.rows for group in record.groups)
        for arena in record.arenas.values():
            arena.make(most)
        for key, together in arrays.items():
            data = record.arenas[key].data
            for i, array in enumerate(together):
                data[i] = array
        with np.errstate(all="ignore"):
            for group in record.groups:
                _forward(record, group)
        nodes = record.find_inputs()
        if nodes:
            code, offset, _, scope = record.groups[0].places[0]
            specs = tuple([k.spec for k in kinds])
            attrs = {"record": record}
            self.node = make_node(BATCH, tuple(nodes), attrs, (record,), specs, code, offset, scope)
        self.owner.ran(Ran.of(record.groups, way))
        return record


def _place(record: Record, group: Group) -> None:
    """Give the results of a group their rows."""
    rows = record.rows
    for k, spec in enumerate(group.use.template.specs):
        arena = record.arena(spec)
        start = arena.reserve(group.rows)
        group.arenas.append(arena)
        group.starts.append(start)
        for i, base in enumerate(group.bases, start):
            rows[base + k] = i
    record.groups.append(group)


def _gather(record: Record, group: Group) -> None:
    """Gather the inputs of a group's calls."""
    rows, count, n = record.rows, group.count, group.rows
    for j, spec in enumerate(group.use.kernels.row_specs):
        arena = record.arena(spec)
        found = [rows[args[j]] for args in group.args]
        first = found[0]
        if spec.inexact and found[-1] - first == count - 1 and found == list(range(first, first + count)):
            group.indices.append(slice(first, first + count))
            group.inputs.append(arena.data[first : first + n])
            continue
        # Rows that nobody asked for repeat the first one: what fits there fits again.
        index = np.array(found + [first] * (n - count), np.intp)
        group.indices.append(index[:count])
        group.inputs.append(arena.data.take(index, axis=0, mode="clip"))


def _forward(record: Record, group: Group) -> None:
    """Run a group."""
    use, n = group.use, group.rows
    kernels = use.kernels
    _gather(record, group)
    places: list[Array | None] = []
    for arena, start in zip(group.arenas, group.starts, strict=True):
        arena.owners[start : start + group.count] = group.number
        places.append(arena.data[start : start + n])
    is_tracked = use.template.is_tracked
    part = kernels.forward(n) if is_tracked else kernels.plain(n)
    if is_tracked:
        places += [None] * len(kernels.split.stored)
    try:
        outs = part([*group.inputs, *use.arrays], places)
    except Exception as e:
        _find_failure(group, e)
    group.stored = outs[len(use.template.specs) :]


def _find_failure(group: Group, error: Exception) -> None:
    """Run a group's calls one by one to find the one that fails; raise its error with the number of the example."""
    use = group.use
    for i, place in enumerate(group.places):
        inputs = [np.asarray(x[i]) for x in group.inputs]
        try:
            evaluate(use.template.graph, [*inputs, *use.arrays])
        except Exception as e:
            raise _told(use.template.name, place, e) from None
    raise error


def _told(name: str, place: Place, error: Exception) -> Exception:
    """Return an error with the place of the call that it is of, and the number of the example."""
    code, offset, example, _ = place
    where = "" if code is None else str(resolve(code, offset))
    of = name if example is None else f"{name} of example {example}"
    if not isinstance(error, WengertError):
        error.add_note(f"in {of}, called at {where}")
        return error
    text = str(error)
    if error.place:
        text = text.replace(f" ({error.place})", "", 1)
    first, _, mend = text.partition("\n")
    made = type(error)(f"{of}: {first}" + (f" ({where})" if where else "") + (f"\n{mend}" if mend else ""))
    made.place = where
    return made
