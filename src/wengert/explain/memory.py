"""Memory over the forward and the backward pass: who holds which buffers, as NumPy has them.

A view and what it is a view of are one buffer, and so is a value that several nodes keep. What an operation
needs for itself while it runs (the columns of a convolution, a local derivative) is measured by running it
once more; what is too small to tell from Python's own objects counts as nothing.
"""

from __future__ import annotations

import tracemalloc
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, overload

import numpy as np

from ..core.dims import has_dims
from ..core.errors import DTypeError, GradientError, GraphError, fail
from ..core.graph.graph import Graph
from ..core.node import Freed, Hooked, Node, Recomputed
from ..core.ops.op import LEAF, Partial
from ..core.ops.record import OUTPUT, kept_values
from ..core.source import Source
from ..core.tensor import Tensor, wrap
from ..execute.jit.compiled import Inspected
from ..transforms.derivatives.custom_op import CustomOp
from ..transforms.derivatives.reverse import freed_error, reachable
from .gradients.edges import Puller, Visit, backward_walk, expression, run_recorded
from .observing.events import Step
from .observing.replayed import replay
from .pictures.timeline import timeline
from .program_memory import ProgramMemory, program_memory
from .report import columns, html_table, place, size

Phase = Literal["forward", "backward"]
Role = Literal["value", "saved", "gradient"]
_WHAT = "the memory"
_SHOWN = 10
# Scratch below this many bytes cannot be told from what Python itself allocates.
_NOISE = 8192


@dataclass(frozen=True)
class Buffer:
    """One NumPy buffer beside inputs and parameters.

    `role` says why it lives: it is a "value" still to be used, "saved" for the backward pass, or a
    "gradient". `op`, `text`, `source` and `path`
    are those of the node that made it, `savers` the ops that keep it. It lives from moment `first` to `last`.
    """

    bytes: int
    role: Role
    op: str
    spec: str
    text: str
    source: Source | None
    path: str
    savers: tuple[str, ...]
    first: int
    last: int


@dataclass(frozen=True)
class Moment:
    """One node's step. `during` is the most that is held in it, `after` what stays; `saved` for backward."""

    phase: Phase
    op: str
    source: Source | None
    path: str
    during: int
    after: int
    saved: int


@dataclass(frozen=True)
class Saved:
    """The memory that one node keeps for the backward pass: all of it, and the part that no node before it keeps."""

    op: str
    text: str
    source: Source | None
    path: str
    bytes: int
    own: int


@dataclass(frozen=True)
class Memory:
    """The memory over a forward and a backward pass, in bytes.

    `resident` is what lives anyway: inputs, parameters, constants. Everything else counts beside it:
    `peak` is the most at one time, at `moments[peak_at]`, `saved` what is kept for the backward pass when
    it starts. `buffers` are all buffers with their lives, `nodes` what each node saves.

    >>> import wengert as wg
    >>> x = wg.tensor([1.0] * 1000, requires_grad=True)
    >>> found = wg.explain.memory(wg.exp(x).sum())
    >>> found.peak, found.peak_at, [b.role for b in found.holders]
    (8008, 3, ['saved', 'gradient', 'value', 'gradient'])
    """

    resident: int
    saved: int
    peak: int
    peak_at: int
    moments: tuple[Moment, ...]
    buffers: tuple[Buffer, ...]
    nodes: tuple[Saved, ...]

    @property
    def holders(self) -> tuple[Buffer, ...]:
        """The buffers that live at the peak, largest first."""
        found = [b for b in self.buffers if b.first <= self.peak_at <= b.last]
        return tuple(sorted(found, key=lambda b: -b.bytes))

    @property
    def scratch(self) -> int:
        """The bytes of the peak that the operation itself needs while it runs."""
        return max(0, self.peak - sum(b.bytes for b in self.holders))

    def _rows(self, buffers: Sequence[Buffer]) -> list[list[str]]:
        return [
            [size(b.bytes), f"{b.bytes / self.peak:.1%}" if self.peak else "", b.role, f"{b.op} {b.spec}", b.text,
             b.path, place(b.source), ", ".join(dict.fromkeys(b.savers))]
            for b in buffers
        ]  # fmt: skip

    @property
    def _title(self) -> str:
        if not self.moments:
            return "nothing runs and nothing is saved: it is a leaf"
        moment = self.moments[self.peak_at]
        where = f" at {place(moment.source)}" if moment.source is not None else ""
        inside = f", in {moment.path}" if moment.path else ""
        return (
            f"peak {size(self.peak)} beside {size(self.resident)} of inputs and parameters, in the {moment.phase} "
            f"pass of {moment.op}{where}{inside}; {size(self.saved)} saved for backward"
        )

    def __str__(self) -> str:
        shown = self.holders[:_SHOWN]
        parts = [self._title]
        if shown:
            parts.append(columns(self._rows(shown), _HEADINGS, (0, 1)))
        if len(shown) < len(self.holders):
            rest = sum(b.bytes for b in self.holders[_SHOWN:])
            parts.append(f"... and {len(self.holders) - len(shown):,} more with {size(rest)}")
        if self.scratch:
            parts.append(f"and {size(self.scratch)} for {self.moments[self.peak_at].op} while it runs")
        return "\n".join(parts)

    def _repr_html_(self) -> str:
        return self.to_svg() + html_table(self._title, self._rows(self.holders), _HEADINGS, (0, 1))

    def to_svg(self) -> str:
        """Return the timeline as an SVG picture: everything held, and below it what is saved; the peak is marked.

        >>> import wengert as wg
        >>> x = wg.tensor([1.0] * 1000, requires_grad=True)
        >>> wg.explain.memory(wg.exp(x).sum()).to_svg().startswith("<svg")
        True
        """
        held = [m.during for m in self.moments]
        saved = [m.saved for m in self.moments]
        turn = sum(m.phase == "forward" for m in self.moments)
        names = [f"{m.phase}: {m.op} {place(m.source)} holds {size(m.during)}" for m in self.moments]
        if not self.moments:
            return timeline(held, saved, turn, 0, names, self._title)
        peak = self.moments[self.peak_at]
        title = f"peak {size(self.peak)}, {peak.phase} pass of {peak.op} {place(peak.source)}".rstrip()
        return timeline(held, saved, turn, self.peak_at, names, f"{title}; {size(self.saved)} saved for backward")


_HEADINGS = ("bytes", "of peak", "role", "made by", "expression", "module", "line", "saved by")


@overload
def memory(loss: Inspected) -> ProgramMemory: ...
@overload
def memory(loss: Tensor | Graph, *, inputs: Sequence[Any] | None = None) -> Memory: ...
def memory(loss: Tensor | Graph | Inspected, *, inputs: Sequence[Any] | None = None) -> Memory | ProgramMemory:
    """Return the bytes held over the forward and backward pass, the peak, and who holds it.

    Of a compiled function it is a :class:`ProgramMemory`: that of the program that ran last, what `memory=` of `wg.jit`
    made of it, and what is computed again.

    Parameters
    ----------
    loss: a tensor whose saved values are still there (before `backward()`, or after
        `backward(retain_graph=True)`), a graph, or a compiled function. A graph is run, forward and backward, in its
        parameters if it has any, else in every floating input.
    inputs: values for a graph's inputs; zeros by default (parameters that the graph knows keep theirs).

    `role` "gradient" names the node whose gradient it is. Single numbers, which NumPy keeps outside of arrays,
    count nothing, and scratch counts nothing while `tracemalloc` is already tracing. On the models of its
    tests the peak is within 10 % of the one that `tracemalloc` measures, what is saved within 1 %.

    The program is taken to hold a value until its last use, as a function's does that rebinds its names,
    and to free saved values in the backward pass, whose gradients stay.

    Raises GradientError where no gradient flows or values were freed, GraphError for sizes that are not
    known, FeedError for inputs, DTypeError for anything else.

    >>> import wengert as wg
    >>> x = wg.tensor([1.0] * 1000, requires_grad=True)
    >>> found = wg.explain.memory(wg.exp(x).sum())
    >>> found.resident, found.saved
    (4000, 4000)
    """
    if isinstance(loss, Inspected):
        return program_memory(loss)
    values: dict[Node, Any] = {}  # a graph's leaves live as long as their tensors
    if isinstance(loss, Graph):
        values = _of_graph(loss, inputs)
        roots = [values[n] for n in loss.outputs]
    elif isinstance(loss, Tensor):
        if loss._array is None:
            fail(GraphError, f"{_WHAT} of an abstract tensor, {loss.spec}", "Ask about the graph.")
        roots = [loss]
    else:
        fail(DTypeError, f"{_WHAT} of a {type(loss).__name__}", "Give a tensor, a graph, or a compiled function.")
    live = [t for t in roots if t.node is not None and t.requires_grad]
    if not live:
        fail(
            GradientError,
            f"{_WHAT} of a result that does not require gradients, {roots[0].spec}",
            "Nothing is kept for a backward pass.",
        )
    return _Simulation([t.node for t in live if t.node is not None]).run()


def _of_graph(graph: Graph, inputs: Sequence[Any] | None) -> dict[Node, Any]:
    unknown = [graph.names[n] for n in graph.inputs if has_dims(n.spec.shape)]
    if unknown:
        fail(GraphError, f"{_WHAT} of a graph whose input {unknown[0]} has a size that is not known", "Bind it first.")
    if inputs is None:
        inputs = [np.zeros(n.spec.shape, n.spec.dtype) for n in graph.inputs if n not in graph.bound]
    with np.errstate(all="ignore"):
        return run_recorded(graph, inputs, _WHAT, graph.parameters or None)


# -- buffers


@dataclass(slots=True, eq=False)
class _Life:
    """A buffer while the simulation runs; `owners` counts why it lives, `keeping` those for the backward pass."""

    key: int | None
    bytes: int
    node: Node
    role: Role
    first: int
    savers: list[str]
    last: int = -1
    owners: int = 0
    keeping: int = 0


class _Ledger:
    """A ledger of living buffers, by the arrays' own memory. An owner is a word and a node."""

    def __init__(self) -> None:
        self.moment = 0
        self.bytes = self.saved = self.resident = 0
        self.lives: list[_Life] = []
        self.held: dict[Any, list[_Life]] = {}
        self._live: dict[int, _Life] = {}
        self._resident: set[int] = set()
        self._same: dict[int, Any] = {}
        self._alive: list[Any] = []  # so that no address is used again

    def base(self, array: Any) -> Any:
        """Return the array that owns the memory."""
        base = _base(array)
        return self._same.get(id(base), base)

    def same(self, computed_again: Any, kept: Any) -> None:
        """Take an array that was computed again for the one that the program has."""
        self._same[id(_base(computed_again))] = _base(kept)
        self._alive.append(computed_again)

    def give(self, array: Any, count: int) -> None:
        """Add an array that lives anyway."""
        base = self.base(array)
        if id(base) not in self._resident:
            self._resident.add(id(base))
            self._alive.append(base)
            self.resident += count

    def hold(self, owner: Any, array: Any, role: Role, node: Node) -> None:
        """Let `owner` hold an array; a resident one costs nothing."""
        base = self.base(array)
        if id(base) in self._resident:
            return
        life = self._live.get(id(base))
        if life is None:
            self._alive.append(base)
            life = self._live[id(base)] = self._born(id(base), base.nbytes, role, node)
        self._own(owner, life, node)

    def hold_bytes(self, owner: Any, count: int, node: Node) -> None:
        """Let `owner` hold a gradient that is not at hand yet."""
        self._own(owner, self._born(None, count, "gradient", node), node)

    def _born(self, key: int | None, count: int, role: Role, node: Node) -> _Life:
        life = _Life(key, count, node, role, self.moment, [])
        self.lives.append(life)
        self.bytes += count
        return life

    def _own(self, owner: Any, life: _Life, node: Node) -> None:
        life.owners += 1
        if owner[0] == "saved":
            life.savers.append(node.op.name)
            life.role = "saved"
            self.saved += life.bytes if life.keeping == 0 else 0
            life.keeping += 1
        self.held.setdefault(owner, []).append(life)

    def drop(self, owner: Any) -> None:
        """Let `owner` hold nothing any more."""
        for life in self.held.pop(owner, ()):
            life.owners -= 1
            if owner[0] == "saved":
                life.keeping -= 1
                self.saved -= life.bytes if life.keeping == 0 else 0
            if life.owners == 0:
                life.last = self.moment
                self.bytes -= life.bytes
                if life.key is not None:
                    del self._live[life.key]

    def lives_already(self, array: Any) -> bool:
        key = id(self.base(array))
        return key in self._live or key in self._resident


@contextmanager
def _revived(roots: Sequence[Node]) -> Iterator[list[Any]]:
    """Give leaves whose tensors are gone zeros for a while: only the sizes of what is made of them matter.

    Yields the zeros that stand in.
    """
    tensors: list[Tensor] = []
    before: list[tuple[Node, Any]] = []
    for node in reachable(roots):
        if node.op is LEAF and node.variable is None:
            tensors.append(wrap(np.zeros(node.spec.shape, node.spec.dtype)))
            before.append((node, node.saved))
            node.saved = weakref.ref(tensors[-1])
    try:
        yield [t._array for t in tensors]
    finally:
        for node, saved in before:
            node.saved = saved


def _base(array: Any) -> Any:
    """Return the array that owns the memory of a view."""
    array = array if isinstance(array, np.ndarray) else np.asarray(array)
    owner = array
    base = array.base
    while base is not None:
        if isinstance(base, np.ndarray):
            owner = base
        base = getattr(base, "base", None)
    return owner


def _arrays(value: Any) -> Iterator[np.ndarray[Any, Any]]:
    """Yield the arrays in what a node saves, or gives."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, (tuple, list)):
            stack.extend(reversed(item))
        elif isinstance(item, np.ndarray):
            yield item


# -- the two passes


class _Simulation:
    def __init__(self, roots: Sequence[Node]) -> None:
        self.roots = roots
        with _revived(roots) as gone:
            self.steps = [s for s in replay(roots) if s.node is not None]
        self.saved: dict[Node, Any] = {}
        self.regions: dict[Recomputed, list[Node]] = {}  # the nodes of checkpoints, in order
        for node in self._nodes():
            saved = self._saved_of(node)
            if isinstance(saved, Recomputed):
                self.regions.setdefault(saved, []).append(node)
            self.saved[node] = () if isinstance(saved, Recomputed) else saved
        self.region_of = {node: region for region, nodes in self.regions.items() for node in nodes}
        self.moments: list[Moment] = []
        self.ledger = _Ledger()
        for step in self.steps:
            kept = self.saved[step.node][-1:] if step.node is not None else ()
            if isinstance(step.out, (tuple, list)) and kept and isinstance(kept[0], (tuple, list)):
                for again, part in zip(step.out, kept[0], strict=True):
                    self.ledger.same(again, part)
        for array in gone:
            self.ledger.give(array, 0)
        for array in self._given():
            self.ledger.give(array, _base(array).nbytes)
        self._reached: set[Node] = set()
        self._puller = Puller(_WHAT)

    def _nodes(self) -> list[Node]:
        return [s.node for s in self.steps if s.node is not None]

    @staticmethod
    def _saved_of(node: Node) -> Any:
        saved = node.saved.saved if type(node.saved) is Hooked else node.saved
        if type(saved) is Freed:
            freed_error("the memory of", node, saved)
        return saved

    def _given(self) -> Iterator[Any]:
        """Yield what lives anyway: the leaves' values and what nodes have as constants."""
        made = {id(_base(a)) for s in self.steps for a in _arrays(s.out) if not _is_view(a, s.inputs)}
        for step in self.steps:
            assert step.node is not None
            for entry, array in zip(step.node.inputs, step.inputs, strict=True):
                outside = not isinstance(entry, Node) or entry.op.kind == "leaf"
                if outside and isinstance(array, np.ndarray) and id(_base(array)) not in made:
                    yield array

    def run(self) -> Memory:
        self._forward()
        saved = self.ledger.saved
        nodes = tuple(self._savings())
        self._backward()
        ledger = self.ledger
        end = len(self.moments) - 1
        peak = max((m.during for m in self.moments), default=0)
        at = next((i for i, m in enumerate(self.moments) if m.during == peak), 0)
        buffers = tuple(_buffer(life, end) for life in ledger.lives)
        return Memory(ledger.resident, saved, peak, at, tuple(self.moments), buffers, nodes)

    def _forward(self) -> None:
        last: dict[Node, Node] = {}
        for node in self._nodes():
            last[node] = node
            last.update({e: node for e in node.inputs if isinstance(e, Node)})
        done: dict[Node, list[Node]] = {}
        for finished, user in last.items():
            if finished not in self.roots:
                done.setdefault(user, []).append(finished)
        for step, node in zip(self.steps, self._nodes(), strict=True):
            during = self.ledger.bytes
            if node.op.kind in ("composite", "general"):
                during += _measured(lambda s=step: s.run(*s.inputs))  # type: ignore[misc]
            self._step(step, node)
            during = max(during, self.ledger.bytes)
            for entry in done.get(node, ()):
                self.ledger.drop(("value", entry))
            self._note("forward", node, during)

    def _step(self, step: Step, node: Node) -> None:
        for array in _arrays(step.out):
            self.ledger.hold(("value", node), array, "value", node)
        for array in _arrays(self.saved[node]):
            self.ledger.hold(("saved", node), array, "saved", node)
        if node in self.region_of:
            self._checkpointed(step, node)

    def _checkpointed(self, step: Step, node: Node) -> None:
        """Drop what a checkpoint's nodes save when its function is done; what it starts from stays."""
        nodes = self.regions[self.region_of[node]]
        if not isinstance(node.op, CustomOp):
            tracked = tuple(isinstance(e, Node) and e.requires_grad for e in node.inputs)
            for array in _arrays(kept_values(node.op, tracked, list(step.inputs), step.out)):
                self.ledger.hold(("inside", node), array, "saved", node)
        if node is nodes[-1]:
            for inner in nodes:
                self.ledger.drop(("inside", inner))
            for array in _arrays(self.region_of[node].kept()):
                self.ledger.hold(("saved", nodes[0]), array, "saved", nodes[0])

    def _recompute(self, node: Node) -> int:
        """Compute all of a checkpoint's nodes again, when a backward pass comes to the first of them.

        Returns the most bytes meanwhile.
        """
        nodes = self.regions.pop(self.region_of[node], ())
        if not nodes:
            return 0
        with Puller(_WHAT) as again:
            during = self.ledger.bytes + _measured(lambda: again.saved(node))
        for inner in nodes:
            for array in _arrays(self._puller.saved(inner)):
                self.ledger.hold(("again", inner), array, "saved", inner)
        return during

    def _note(self, phase: Phase, node: Node, during: int) -> None:
        ledger = self.ledger
        self.moments.append(Moment(phase, node.op.name, node.source, node.path, during, ledger.bytes, ledger.saved))
        ledger.moment += 1

    def _savings(self) -> Iterator[Saved]:
        seen: set[int] = set()
        for node in self._nodes():
            lives = {id(life): life for life in self.ledger.held.get(("saved", node), ())}
            if lives:
                total = sum(life.bytes for life in lives.values())
                own = sum(life.bytes for key, life in lives.items() if key not in seen)
                yield Saved(node.op.name, expression(node), node.source, node.path, total, own)
                seen |= lives.keys()

    def _backward(self) -> None:
        for root in self.roots:
            seed = np.ones(root.spec.shape, root.spec.dtype)
            self.ledger.hold(("gradient", root), seed, "gradient", root)
            for visit in backward_walk(root, seed, self._puller):
                self._visit(visit)

    def _visit(self, visit: Visit) -> None:
        node, ledger = visit.node, self.ledger
        if node.op.kind == "leaf" or visit.ct is None:
            return
        recomputed = self._recompute(node) if node in self.region_of else 0
        if len(visit.arrived) > 1:
            # The sum of what arrived, which was counted by its size so far.
            for array in _arrays(visit.ct.value):
                ledger.hold(("sum", node), array, "gradient", node)
            ledger.drop(("gradient", node))
        during = ledger.bytes
        if node.op.kind != "elementwise":
            during += _measured(lambda: self._puller.pull(node, visit.ct))  # type: ignore[arg-type]
        during = max(during, recomputed)
        for index, share in visit.left.items():
            entry = node.inputs[index]
            for array in _arrays(share.value):
                ledger.hold(("share", node), array, "gradient", entry)
            during = max(
                during, ledger.bytes + self._scratch(node, index, visit), self._arrive(node, entry, share.value)
            )
            ledger.drop(("share", node))
        for owner in ("gradient", "sum", "saved", "again"):
            ledger.drop((owner, node))
        self._reached.discard(node)
        self._note("backward", node, during)

    def _arrive(self, node: Node, entry: Node, value: Any) -> int:
        """Give `entry` a gradient, and return the most bytes meanwhile. A second one makes a third array, their sum."""
        ledger, owner = self.ledger, ("gradient", entry)
        if entry not in self._reached or node.op is OUTPUT:
            self._reached.add(entry)
            for array in _arrays(value):
                ledger.hold(owner, array, "gradient", entry)
            return ledger.bytes
        ledger.hold_bytes(("total", entry), entry.spec.nbytes, entry)
        most = ledger.bytes
        ledger.drop(owner)
        ledger.held[owner] = ledger.held.pop(("total", entry))
        return most

    def _scratch(self, node: Node, index: int, visit: Visit) -> int:
        """Return the bytes of an elementwise op's local derivative, which lives while it is multiplied."""
        fact = node.op.fact(index)
        if not isinstance(fact, Partial) or node.op.joint is not None or visit.ct is None:
            return 0
        with np.errstate(all="ignore"):
            slope = fact.pull(visit.ct.value, visit.saved, node, index)
        if not isinstance(slope, np.ndarray) or self.ledger.lives_already(slope):
            return 0
        return int(_base(slope).nbytes)


def _measured(run: Callable[[], Any]) -> int:
    """Return the most bytes that `run` has at one time, its result among them; 0 where a trace is active already."""
    if tracemalloc.is_tracing():
        return 0
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        with np.errstate(all="ignore"):
            kept = run()
        most = tracemalloc.get_traced_memory()[1] - before
        del kept
    finally:
        tracemalloc.stop()
    return most if most > _NOISE else 0


def _is_view(array: Any, inputs: Sequence[Any]) -> bool:
    base = _base(array)
    return any(isinstance(x, np.ndarray) and _base(x) is base for x in inputs)


def _buffer(life: _Life, end: int) -> Buffer:
    node = life.node
    spec = ", ".join(map(repr, node.spec)) if isinstance(node.spec, tuple) else repr(node.spec)
    return Buffer(
        life.bytes, life.role, node.op.name, spec, expression(node), node.source, node.path, tuple(life.savers),
        life.first, end if life.last < 0 else life.last,
    )  # fmt: skip
