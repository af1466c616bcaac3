"""The fast path through a call: one generated function that checks a call, feeds a program and builds the results.

Taking arguments apart in general costs several microseconds. For the calls that programs are made
for, again and again with arguments of one kind, a function is generated that knows where every leaf
stands: it compares types, interned specs and shapes, and gives up (`MISS`) on anything else, for which
the general way is there. It leaves out whatever is rare: keywords, arguments that are written to.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import numpy as np

from ....core.mode import get_mode
from ....core.node import Hooked
from ....core.spec import Spec
from ....core.standins import WeakTensor, weak
from ....core.state.capture import open_variables
from ....core.state.cells import TensorCell
from ....core.state.turns import holding
from ....core.tensor import LEAF, DataView, Tensor, new, wrap
from ....core.tree import Structure, unflatten
from .. import donation
from ..capture.captured import Captures
from ..program import Path
from ..signature import PLAIN, Call, Static, as_array
from ..tracing import Constant, Number, epoch

MISS: Any = object()


class _Rare(Exception):
    """Something that the fast path does not know."""


def shortcut(call: Call, captures: Captures, path: Path) -> Callable[..., Any] | None:
    """The function from a call's positional arguments to its result, or MISS; None where there is no fast path."""
    try:
        return _Writer(call, captures, path).compile()
    except _Rare:
        return None


def _made(data: Any, spec: Spec) -> Tensor:
    out: Tensor = new(Tensor)
    out._data = data
    out._spec = spec
    out.node = out._base = None
    return out


class _Writer:
    """The text of one function."""

    def __init__(self, call: Call, captures: Captures, path: Path) -> None:
        self.call, self.captures, self.path = call, captures, path
        self.names: dict[str, Any] = {
            "MISS": MISS,
            "mode": get_mode,
            "grad": get_mode().grad,
            "floats": get_mode().floats,
            "epoch": epoch,
            "holds": captures.holds,
            "run": path.executor.run,
            "copy": np.array,
            "of_tensor": donation.of_tensor,
            "of_gradient": donation.of_gradient,
            "of_cell": donation.of_cell,
            "run_at_once": path.executor.run_at_once,
            "commit": path.commit,
            "holding": holding,
            "made": _made,
            "weak": weak,
            "as_array": as_array,
            "wrap": wrap,
            "LEAF": LEAF,
            "Hooked": Hooked,
            "variables": open_variables,
            "unflatten": unflatten,
        }
        self.checks: list[str] = []
        self.moves: list[str] = []
        self.leaf_names: list[str] = []

    def value(self, value: Any) -> str:
        """A name for a value."""
        name = f"k{len(self.names)}"
        self.names[name] = value
        return name

    def compile(self) -> Callable[..., Any]:
        traced, call = self.path.traced, self.call
        positional, keywords = call.structure.children
        rare = not traced.is_plain or self.path.first
        if keywords.children or rare or (self.path.carries and traced.has_effects):
            raise _Rare
        self.checks.append(f"len(args) == {len(positional.children)}")
        for i, child in enumerate(positional.children):
            self.take(child, f"args[{i}]")
        tensors = {id(x): name for x, name in zip(call.leaves, self.leaf_names) if isinstance(x, Tensor)}
        if self.path.given and len(tensors) > 1:  # no two may be one
            self.checks.append(f"len({{{', '.join(f'id({name})' for name in tensors.values())}}}) == {len(tensors)}")
        sources = zip(traced.sources, self.path.donated, strict=True)
        feeds = ", ".join(self.feed(kind, i, donated) for (kind, i), donated in sources)
        for (kind, i), there in traced.grads_read:
            if kind != "cell gradient":
                raise _Rare
            owner = self.value(self.captures.cells[i].tensor)  # type: ignore[attr-defined]
            self.moves.append(f"if ({owner}.grad is not None) is not {there}: return MISS")
        lines = [
            "def call(*args):",
            "    m = mode()",
            "    if m.tracing or m.grad is not grad or m.floats is not floats: return MISS",
            *(
                ["    old = []", "    return holding(turns, lambda: taken(args, old))", "def taken(args, old):"]
                if self.path.writes
                else []
            ),
            "    e = epoch[0]",
            "    try:",
            *(f"        {line}" for line in self.moves_and_checks()),
            f"        feeds = [{feeds}]",
            "    except (AttributeError, KeyError):",  # an abstract tensor, another dict
            "        return MISS",
            "    if e & 1 or epoch[0] != e: return MISS",
            *(f"    {line}" for line in self.running()),
            *(f"    {line}" for line in self.ending()),
        ]
        exec(compile("\n".join(lines), "<wengert call>", "exec"), self.names)
        made: Callable[..., Any] = self.names["call"]
        return made

    # -- arguments

    def moves_and_checks(self) -> list[str]:
        return [
            *(f"if not ({c}): return MISS" if not c.startswith("=") else c[1:] for c in self.checks),
            *self.moves,
            "if not holds(): return MISS",
        ]

    def take(self, structure: Structure, place: str) -> None:
        """Check one argument, and name its leaves."""
        if structure.kind is None:
            self.leaf(place)
            return
        name = f"n{len(self.checks)}"
        self.checks.append(f"={name} = {place}")
        if structure.kind is type(None):
            self.checks.append(f"{name} is None")
            return
        if structure.kind not in (dict, list, tuple):
            raise _Rare
        self.checks.append(f"type({name}) is {structure.kind.__name__} and len({name}) == {len(structure.children)}")
        keys = structure.aux if structure.kind is dict else range(len(structure.children))
        for key, child in zip(keys, structure.children, strict=True):
            self.take(child, f"{name}[{self.value(key)}]")

    def leaf(self, place: str) -> None:
        index = len(self.leaf_names)
        leaf, name = self.call.leaves[index], f"a{index}"
        self.leaf_names.append(name)
        self.checks.append(f"={name} = {place}")
        kind = type(leaf)
        if isinstance(leaf, Tensor):
            if leaf._data is None or (id(leaf),) in self.captures.numbers or isinstance(leaf, DataView):
                raise _Rare
            if leaf.requires_grad and not self.path.carries:
                raise _Rare
            first = next(i for i, other in enumerate(self.call.leaves) if other is leaf)
            if first < index:  # one input for both
                self.checks.append(f"{name} is {self.leaf_names[first]}")
                return
            found = f"type({name}) is {self.value(kind)}"
            if kind is WeakTensor:
                dtype = self.value(leaf.dtype)
                found += f" and {name}._data.shape == {leaf.shape!r} and {name}._data.dtype is {dtype}"
            else:
                found += f" and {name}._spec is {self.value(leaf._spec)}"
            if leaf.node is not None and leaf.requires_grad:
                collects = leaf.node.op is LEAF
                if type(leaf.node.saved) is Hooked or (not collects and open_variables):
                    raise _Rare
                if not collects:
                    self.checks.append("not variables")
                found += f" and (n := {name}.node) is not None and n.requires_grad and (n.op is LEAF) is {collects}"
                found += " and type(n.saved) is not Hooked"
            else:
                found += f" and {name}.node is None"
            written = frozenset(
                id(c.tensor)
                for i, *_ in self.path.traced.cell_writes
                if isinstance(c := self.captures.cells[i], TensorCell)
            )
            self.checks.append(f"{found} and id({name}) not in {self.value(written)}" if written else found)
        elif kind is np.ndarray:
            self.checks.append(
                f"type({name}) is {self.value(kind)} and {name}.dtype is {self.value(leaf.dtype)} "
                f"and {name}.shape == {leaf.shape!r} and {name}.flags.num & {PLAIN} == {PLAIN}"
            )
            if not leaf.dtype.isnative:
                raise _Rare
        elif index in self.call.positions:
            if kind not in (int, float, complex):
                raise _Rare
            self.checks.append(f"type({name}) is {kind.__name__}")
        elif kind is types.MethodType:  # made anew whenever it is asked for
            parts = f"id({name}.__self__) == {id(leaf.__self__)} and id({name}.__func__) == {id(leaf.__func__)}"
            self.checks.append(f"type({name}) is {self.value(kind)} and {parts}")
        elif any(i == index for i, _ in self.call.owners):
            self.checks.append(f"id({name}) == {id(leaf)}")  # the way is dropped before it is gone (`guests`)
        elif isinstance(leaf, Static):
            raise _Rare
        else:
            self.checks.append(f"type({name}) is {self.value(kind)} and {name} == {self.value(leaf)}")

    def feed(self, kind: str, i: int, donated: bool) -> str:
        """The expression of an input's value: an array; a tensor where gradients are to come back."""
        owner = self.owner(kind, i)
        if self.path.carries and isinstance(owner, Tensor) and owner.requires_grad:
            return self.value(owner) if kind == "cell" else self.leaf_names[self.call.positions[i]]
        if self.path.carries:
            # The record keeps values, which a caller's array might not stay.
            value = self.array(kind, i, donated)
            return f"wrap(copy({value}))" if isinstance(owner, np.ndarray) else f"wrap(as_array({value}))"
        return self.array(kind, i, donated)

    def owner(self, kind: str, i: int) -> Any:
        """What an input's value is of: a leaf of the arguments, a cell's tensor."""
        if kind == "argument":
            return self.call.leaves[self.call.positions[i]]
        return getattr(self.captures.cells[i], "tensor", None) if kind == "cell" else None

    def array(self, kind: str, i: int, donated: bool) -> str:
        """The expression of an input's array."""
        if kind == "argument":
            index = self.call.positions[i]
            leaf, name = self.call.leaves[index], self.leaf_names[index]
            if donated:
                return f"of_tensor({name})" if isinstance(leaf, Tensor) else f"copy(as_array({name}))"
            if isinstance(leaf, Tensor):
                return self.plain(f"{name}._data")
            return name if isinstance(leaf, np.ndarray) else f"as_array({name})"
        cell = self.captures.cells[i]
        if donated:
            if kind == "cell":
                return f"of_cell({self.value(cell)})"
            return f"of_gradient({self.value(cell.tensor)})"  # type: ignore[attr-defined]
        if not isinstance(cell, TensorCell):
            return self.plain(f"{self.value(cell.get)}()")
        return self.plain(f"{self.value(cell.tensor)}.{'_data' if kind == 'cell' else '_grad._data'}")

    @staticmethod
    def plain(array: str) -> str:
        """The expression of an array, made contiguous where it is not."""
        return f"(d if (d := {array}).flags.num & {PLAIN} == {PLAIN} else as_array(d))"

    # -- results

    def running(self) -> list[str]:
        if self.path.carries:
            owners = [self.owner(*source) for source in self.path.traced.sources]
            self.names["record"] = self.path.records[
                tuple(i for i, x in enumerate(owners) if isinstance(x, Tensor) and x.requires_grad)
            ]
        if self.path.writes:
            self.names["turns"] = self.path.turns(self.call.leaves, self.call.positions, self.captures)
        if self.path.carries:
            run = ["c = record(feeds)", "o = [t._data for t in c]"]
        elif self.path.writes and not self.path.decisions:
            run = [f"o = run_at_once(feeds, lambda o, calls: {self.commit('None', 'calls')})"]
        else:
            run = ["o = run(feeds)"]
        if not self.path.decisions:
            return run
        # What fails may be on a path that this call does not take: the general way finds out.
        return ["try:", *(f"    {line}" for line in run), "except Exception:", "    return MISS"]

    def ending(self) -> list[str]:
        """Looking at decisions, writing state, building the result."""
        traced = self.path.traced
        specs = [n.spec for n in traced.graph.outputs]
        lines = [
            f"if o[{g.output}].tobytes() != {self.value(g.value)}: return MISS"  # nothing was written yet
            for g in traced.guards
        ]
        if self.path.writes and (self.path.carries or self.path.decisions):
            lines.append(self.commit("c" if self.path.carries else "None", "()"))
        leaves = []
        for r in traced.results:
            if type(r) is Constant:
                if isinstance(r.value, np.ndarray):
                    raise _Rare
                leaves.append(self.value(r.value))
            else:
                out = r.output if type(r) is Number else r
                carried = self.path.carries and out in traced.tracked
                made = f"c[{out}]" if carried else f"made(o[{out}], {self.value(specs[out])})"
                leaves.append(f"weak({made})" if type(r) is Number else made)
        lines.append(f"return {self.build(traced.structure, iter(leaves))}")
        return lines

    def commit(self, carried: str, calls: str) -> str:
        """The expression that gives what the program writes to its new values."""
        self.names["captures"] = self.captures
        leaves = f"({''.join(f'{name}, ' for name in self.leaf_names)})"
        return f"commit(o, {carried}, {leaves}, {self.call.positions!r}, captures, old, {calls})"

    def build(self, structure: Structure, leaves: Any) -> str:
        if structure.kind is None:
            found: str = next(leaves)
            return found
        if structure.kind is type(None):
            return "None"
        parts = [self.build(c, leaves) for c in structure.children] if structure.kind in (tuple, list, dict) else []
        if structure.kind is tuple:
            return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
        if structure.kind is list:
            return f"[{', '.join(parts)}]"
        if structure.kind is dict:
            return "{" + ", ".join(f"{self.value(k)}: {p}" for k, p in zip(structure.aux, parts, strict=True)) + "}"
        return f"unflatten({self.value(structure)}, [{', '.join(next(leaves) for _ in range(structure.count))}])"
