"""The structure of loop kernels: loop nests, their instructions, and the passes along a row.

See :mod:`wengert.execute.native.fuse.loops` for the words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from ....core.graph.snapshot import specs_of
from ....core.node import Node
from ....core.ops.costs import cost_of
from ....core.ops.facets import Count
from ..codegen.types import text_of
from ..scalar import emitters

UNIFORM, ROW, INNER = 0, 1, 2

# The cost, in simple operations, from which a value is kept for later passes rather than made again.
KEPT = 5
# The cost of a look at both bounds of a window.
_WINDOW = 3
# The cost of rounding to half precision.
_ROUNDING = 4


def cost(node: Node) -> int:
    """Return what a node in a loop costs for an element, in additions, about; at least 1."""
    declared = cost_of(node.op)
    if isinstance(declared, Count) and node.op.kind == "elementwise":
        out = specs_of(node)[0]
        return max(1, int(declared.operations(node, (), out)) // max(1, out.size))
    # A node in a loop that is not elementwise compares or converts, as in making a place of an index.
    own = max(1, declared) if isinstance(declared, int) else 1
    return own + _ROUNDING if emitters.rounds(node) and emitters.supported(node) else own


class Array(NamedTuple):
    """An array's layout along the dimensions: its element type, and the rows and inner dimensions it varies along.

    `unit` says that along the vector's dimension its elements lie side by side. `windows` are the dimensions
    (rows first) of which it has only a part: what is loaded elsewhere is zero.
    """

    dtype: Any
    rows: tuple[bool, ...]
    inner: tuple[bool, ...]
    unit: bool
    windows: tuple[int, ...] = ()


class Instr(NamedTuple):
    """An instruction: a load, a literal, an operation, an index along a dimension, or a reduction.

    `kind` is "load" (args: the array's number), "literal" (the number itself), "op" (a node, on
    earlier values), "index" (which dimension: rows first), "spread" (an earlier value, at a higher
    level) or "reduce" (an earlier value; `how` it is combined, and over what).
    """

    kind: Literal["load", "literal", "op", "index", "spread", "reduce"]
    args: tuple[Any, ...]
    dtype: Any
    level: int
    node: Node | None = None
    how: str = ""
    over: Literal["row", "columns", "all", ""] = ""

    @property
    def values(self) -> tuple[int, ...]:
        """The numbers of the earlier values that it takes."""
        return self.args if self.kind in ("op", "spread", "reduce") else ()


class LoopNest(NamedTuple):
    """A loop kernel's structure, sizes left out.

    `stores` pairs values with arrays. `partials` are the reductions over the rows, in order.
    `split` says that rows are cut in pieces, which needs that no reduction is over a row. `together` rows are computed
    at once: where a row is short, one waits for its reductions while another is computed. `blocked` are the inner
    dimensions along which sums are made of blocks, each begun anew, and `anew` says that a row's part of a sum over
    everything is: a sum that runs on for long loses digits.
    """

    vector: Literal["inner", "rows"]
    rows: int
    inner: int
    arrays: tuple[Array, ...]
    instrs: tuple[Instr, ...]
    stores: tuple[tuple[int, int], ...]
    partials: tuple[int, ...]
    split: bool
    together: int = 1
    blocked: tuple[int, ...] = ()
    anew: bool = False

    @property
    def key(self) -> str:
        """The key that names all that the code depends on."""
        parts = [f"loop {self.vector} {self.rows} {self.inner} {self.split:d} {self.together}"]
        for a in self.arrays:
            parts.append(f"{text_of(a.dtype)} {_bits(a.rows)} {_bits(a.inner)} {a.unit:d} {a.windows or ''}")
        for i in self.instrs:
            what = i.how
            if i.node is not None:
                taken = [text_of(e.spec.dtype) if isinstance(e, Node) else "#" for e in i.node.inputs]
                what = f"{i.node.op.name} {emitters.code_attrs(i.node) or ''} {taken}"
            parts.append(f"{i.kind} {what} {i.args} {text_of(i.dtype)} {i.level} {i.over}")
        parts.append(f"{self.stores} {self.partials}")
        if self.blocked or self.anew:
            parts.append(f"blocks {self.blocked} {self.anew:d}")
        return "; ".join(parts)


def _bits(flags: Sequence[bool]) -> str:
    return "".join("01"[f] for f in flags)


def varying(nest: LoopNest) -> list[bool]:
    """Return for every value whether it differs from row to row."""
    found: list[bool] = []
    for i in nest.instrs:
        if i.kind == "load":
            array = nest.arrays[i.args[0]]
            found.append(any(array.rows) or any(d < nest.rows for d in array.windows))
        elif i.kind == "index":
            found.append(i.args[0] < nest.rows)
        else:
            found.append(i.level == ROW or any(found[a] for a in i.values))
    return found


class Passes:
    """The order of a loop nest's values: when each is computed, and which are kept for later passes.

    `when` is the pass of an INNER value, and the pass before which a ROW value is known.
    """

    def __init__(self, nest: LoopNest) -> None:
        self.nest = nest
        self.when: list[int] = []
        costs: list[int] = []
        for i in nest.instrs:
            known = max((self.when[a] for a in i.values), default=0)
            self.when.append(known + (i.kind == "reduce" and i.over == "row"))
            own = cost(i.node) if i.kind == "op" and i.node is not None else 0
            # What is the same all along the row is never computed again.
            costs.append(own + sum(costs[a] for a in i.values) if i.level == INNER and i.kind != "reduce" else 0)
        self._costs = costs
        self.stored = dict(nest.stores)
        self.saved: list[int] = []
        last: dict[int, int] = {}
        self.count = 1
        for p in reversed(range(max(self.when, default=0) + 1)):
            roots = self.roots(p)
            if roots:
                self.count = max(self.count, p + 1)
            seen: set[int] = set()
            # Later passes come first: what they read back is made in this one, of what is kept from earlier ones.
            stack = [*roots, *(v for v in self.saved if self.when[v] == p)]
            while stack:
                v = stack.pop()
                i = nest.instrs[v]
                if v in seen or i.level != INNER:
                    continue
                seen.add(v)
                if self.is_kept(v, p):
                    if v not in self.stored and v not in self.saved:
                        self.saved.append(v)
                        last[v] = p
                    continue
                stack.extend(i.values)
        # The slots of kept values. After a value's last reading another may take its slot: fewer rows are in the cache.
        self.slots: dict[int, int] = {}
        taken: list[tuple[int, int]] = []  # until which pass, and the size of the elements: places must agree
        for v in sorted(self.saved, key=lambda v: self.when[v]):
            size = emitters.compute_type(nest.instrs[v].dtype).size
            fitting = (n for n, (until, other) in enumerate(taken) if until <= self.when[v] and other == size)
            slot = next(fitting, len(taken))
            taken[slot : slot + 1] = [(last[v], size)]
            self.slots[v] = slot
        self.rows_kept = len(taken)
        # The pass during which memory has the most time; none where a row is passed over once.
        self.heaviest = max(range(self.count), key=self.work) if self.count > 1 else -1

    def roots(self, p: int) -> list[int]:
        """Return the INNER values that pass `p` is for: what it stores, and what it reduces."""
        instrs = self.nest.instrs
        found = [v for v, _ in self.nest.stores if instrs[v].level == INNER and self.when[v] == p]
        found += [i.args[0] for i in instrs if i.kind == "reduce" and self.when[i.args[0]] == p]
        return found

    def is_kept(self, v: int, p: int) -> bool:
        """Return whether pass `p` reads the value back instead of computing it."""
        i = self.nest.instrs[v]
        return i.kind == "op" and self.when[v] < p and self._costs[v] >= KEPT

    def work(self, p: int) -> int:
        """Return what an element costs in a pass."""
        total = 0
        seen: set[int] = set()
        stack = self.roots(p)
        while stack:
            v = stack.pop()
            i = self.nest.instrs[v]
            if v in seen or i.level != INNER or self.is_kept(v, p):
                continue
            seen.add(v)
            total += cost(i.node) if i.node is not None else 1
            if i.kind == "load":
                total += _WINDOW * len(self.nest.arrays[i.args[0]].windows)
            stack.extend(i.values)
        return total
