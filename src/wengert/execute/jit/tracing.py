"""One trace of a function for compilation: its graph, what it writes, and the decisions it took."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from threading import get_ident
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ...core import tree
from ...core.errors import GradientError, GraphError, WriteError, error, fail, user_location
from ...core.graph.graph import Graph
from ...core.graph.snapshot import Given
from ...core.mode import get_mode, reset_mode, set_mode
from ...core.node import Hooked, Node, Unread
from ...core.ops.op import LEAF, TABLE
from ...core.ops.record import abstract_input
from ...core.spec import Spec, bool_, spec_of
from ...core.standins import DataView, WeakTensor, present, weak
from ...core.state import locks
from ...core.state.at_once import Call, StoredWhereAlive, at_once, for_all, undoing
from ...core.state.capture import (
    Capture,
    fresh_leaves,
    get_capture,
    get_writes,
    open_variables,
    reset_capture,
    reset_fresh_leaves,
    reset_writes,
    set_capture,
    set_fresh_leaves,
    set_writes,
)
from ...core.state.cells import (
    Cell,
    TensorCell,
    del_data,
    set_data,
    set_grad,
    set_node,
    set_share,
    set_spec,
    set_window,
)
from ...core.state.refusals import Watch, note_refusal, refuse
from ...core.storage import join, lent_window, strides_of
from ...core.tensor import Tensor, abstract, depends_on_open, leaf_node, like, new
from ...ops.index.views import FromOwner
from ...transforms.derivatives.reverse import reachable, refuse_hooks
from .capture.captured import Captures
from .capture.outside import Outside, PlaceWrite
from .capture.results import NewLeaf, Results, Source
from .capture.ties import Place, Tie, ways_of
from .signature import Fix, Raised, as_array
from .values import Unknown, Values

# Tracing puts abstract tensors into objects that every thread can see.
TRACING = locks.lock()
# The number of times that it put abstract values in and took them out again: odd while they are there.
epoch = [0]
# Of the traces in progress: their threads, what puts everything back, and what stood outside before.
_open: list[tuple[int, Callable[[], object], Outside]] = []


class Argument(NamedTuple):
    """A leaf of the arguments that becomes an input: its value, and its role in the program.

    `value` is an array, or None where only the spec is known. `owner` is the tensor itself.
    """

    leaf: int
    name: str
    value: Any
    spec: Spec
    kind: type[Any]
    collects: bool = False
    tracked: bool = False
    weakly: bool = False
    grad: Any = None
    owner: Any = None


def argument_of(index: int, name: str, leaf: Any) -> Argument:
    """Return a leaf of the arguments as an input."""
    if isinstance(leaf, Spec):
        return Argument(index, name, None, leaf, Tensor)
    if isinstance(leaf, Tensor):
        collects = leaf.node is not None and leaf.node.op is LEAF
        tracked = leaf.requires_grad and not collects
        value = leaf._array
        return Argument(index, name, value, leaf.spec, type(leaf), collects, tracked, False, leaf.grad, leaf)
    value = as_array(leaf)
    weakly = not isinstance(leaf, (np.ndarray, np.generic))
    return Argument(index, name, value, spec_of(value.shape, value.dtype), Tensor, weakly=weakly)


class Decision(NamedTuple):
    """A decision by a value: the graph's output that has it, the value and its bytes, where it was taken."""

    output: int
    value: bytes
    answer: Any
    what: str
    where: str


class Write(NamedTuple):
    """A cell or an argument, by its number, that a run gives another value: the graph's output that has it.

    Where it `has_past`, in the old value or in the new one, or another shape, its tensor's history is another
    afterwards too. Where it `parts`, what shared memory with the tensor keeps its value.
    """

    number: int
    output: int
    has_past: bool = False
    parts: bool = False


class GradientWrite(NamedTuple):
    """A cell or an argument whose gradient a run writes: the output that has it, or None for no gradient.

    Where it `stays`, the tensor that was the gradient before is the gradient still, and is written to.
    """

    number: int
    output: int | None
    stays: bool = False


class FlagWrite(NamedTuple):
    """A cell's or an argument's tensor that collects gradients from this run on, or no longer."""

    source: Source
    collects: bool


class Traced(NamedTuple):
    """A trace: the graph from `sources` to results, writes and guards.

    A result is the number of an output, in an `OfClass` where it is no plain tensor, a `NewLeaf`, a `Constant`,
    `Itself`, or `Taken`.
    `tracked` has the outputs that gradients flow back from. `grads_read` are the gradients that the
    program looked at on entry, by what they belong to, with whether there was one. `is_repeatable`: all that the
    function's Python code did outside can be done again without it.
    """

    graph: Graph
    sources: tuple[Source, ...]
    results: tuple[Any, ...]
    structure: Any
    tracked: frozenset[int]
    has_effects: bool
    guards: tuple[Decision, ...]
    cell_writes: tuple[Write, ...]
    argument_writes: tuple[Write, ...]
    cell_grads: tuple[GradientWrite, ...]
    argument_grads: tuple[GradientWrite, ...]
    place_writes: tuple[PlaceWrite, ...]
    flag_writes: tuple[FlagWrite, ...]
    grads_read: tuple[tuple[Source, bool], ...]
    is_repeatable: bool
    is_tied: bool

    @property
    def copies(self) -> bool:
        """True where results, or what is put outside, are modules: with attributes as the trace found them."""
        waiting = [self.structure, *(write.structure for write in self.place_writes)]
        for structure in waiting:
            waiting += structure.children
        return any(hasattr(structure.kind, "named_parameters") for structure in waiting)

    @property
    def is_plain(self) -> bool:
        """True where a run only reads its arguments, and writes at most the values and gradients of cells."""
        writes = self.argument_writes or self.argument_grads or self.place_writes or self.flag_writes
        pasts = any(w.has_past for w in self.cell_writes)
        return not (writes or pasts or self.is_tied or any(type(r) is NewLeaf for r in self.results))


class Recorder(Capture):
    """An observer of a trace: it takes decisions by value and records tensors from outside."""

    __slots__ = (
        "name", "captures", "values", "decisions", "asked", "met", "written", "parted", "given", "consumed", "outer",
        "effects", "undo", "stores", "strides",
    )  # fmt: skip

    def __init__(self, name: str, captures: Captures) -> None:
        self.name = name
        self.captures = captures
        self.values = Values()
        self.decisions: list[tuple[Tensor, Any, str, str]] = []
        self.asked: dict[tuple[Node, bool], Any] = {}
        self.met: dict[int, weakref.ref[Tensor]] = {}
        self.written: dict[int, weakref.ref[Tensor]] = {}
        self.parted: set[int] = set()
        # The tensors that stand for those outside, by identity; and how those lie that do not lie in C order.
        self.given: set[int] = set()
        # By the identity of a tensor, and by the node of what the program is given.
        self.strides: dict[Any, tuple[int, ...]] = {}
        # The calls that put back what stands in places that all threads see, the last one first; and what tensors held
        # that the search had not found, and that the program writes to: data, node, spec.
        self.undo: list[Call] = []
        self.stores = tuple(map(StoredWhereAlive, (set_data, set_node, set_share, set_spec)))
        self.consumed: dict[Node, str] = {}
        # The inputs that stand for tensors with a graph outside.
        self.outer: dict[Node, Tensor] = {}
        self.effects: list[Tensor] = []

    def hold(self, input: Tensor, owner: Tensor | None, value: Any) -> None:
        """Record an input that stands for a value, known or not; of a transform's variable it is one too."""
        assert input.node is not None
        if value is not None:
            self.values.known[input.node] = value
        if owner is not None and depends_on_open(owner):
            self.undo.append((open_variables.data.pop, weakref.ref(input.node), None))  # type: ignore[attr-defined]
            open_variables[input.node] = None
        elif owner is not None and input.requires_grad:
            self.outer[input.node] = owner

    def decide(self, x: Tensor, what: str) -> Any:
        truth = what == "a branch on its truth"
        node = x.node
        assert node is not None
        known = self.asked.get((node, truth))
        if known is not None:
            return known
        try:
            value = np.asarray(self.values.of(node))
        except Unknown:
            refuse(
                f"{what} needs the value of an abstract tensor {x.spec}",
                "It depends on the argument of an inner transform (vmap, scan, ...), which has no value while it is "
                "traced. Write wg.where for a choice between values, wg.cond for one between computations, "
                "wg.while_loop for a loop that ends on a value.",
                x,
            )
        answer = value.astype(bool) if truth else value
        watched = abstract(node)
        if truth and x.dtype != bool_:
            watched = TABLE["cast"].front(watched, dtype=bool_)
        self.decisions.append((watched, answer, what, user_location()))
        self.asked[node, truth] = answer
        return answer

    def fix(self, x: Tensor, what: str) -> None:
        assert x.node is not None
        ends = self.values.ends(x.node)
        cells = {held.node: cell for cell in self.captures.cells if (held := cell.held())._array is None}
        found = [cells.get(node) for node in ends]
        tensors = [cell.tensor for cell in found if isinstance(cell, TensorCell)]
        if len(tensors) == len(found):
            again = Fix(tensors)
            note_refusal(again)
            raise again

    def refuse(self, x: Tensor, what: str) -> NoReturn:
        refuse(
            f"{what} needs the value of {x.spec} while {self.name} is compiled",
            "A compiled function has values only when it runs. To see one, write wg.debug.print('{}', x); to use it "
            "in Python code, wg.callback(fn, spec, x), or return it and use it outside.",
            x,
        )

    def meet(self, operands: Sequence[Any]) -> None:
        for a in operands:
            if isinstance(a, Tensor) and a._array is not None and id(a) not in self.met:
                self.met[id(a)] = weakref.ref(a)

    def effect(self, x: Tensor) -> None:
        if x.node is not None:
            self.effects.append(x)

    def consume(self, roots: Sequence[Node]) -> None:
        self.consumed |= dict.fromkeys(reachable(roots), user_location())

    def arrive(self, node: Node) -> None:
        owner = self.outer.get(node)
        if owner is None:
            return
        name = node.attrs.get("name") or "a tensor"
        what = f"a gradient inside {self.name} flows on to what {name}, {node.spec}, was computed from outside of it"
        mend = "Give it x.detach() where the gradient is to end there. Else compute that inside too, or differentiate "
        again = Raised(error(GradientError, what, f"{mend}outside."))
        note_refusal(again)
        raise again

    def write(self, x: Tensor) -> None:
        if id(x) in self.written:
            return
        spec = () if x.is_weak else (spec_of(x._array.shape, x._array.dtype),)
        data, *others = self.stores
        window = lent_window(x)
        if window is None:
            data.add(x, x._array)
        else:
            self.undo += [(set_window, x, window), (del_data, x), (set_data, x, None)]
        for store, value in zip(others, (x.node, x._share, *spec)):
            store.add(x, value)
        self.written[id(x)] = weakref.ref(x)

    def reshape(self, x: Tensor, what: str) -> None:
        if id(x) in self.given:
            refuse(
                f"{what} of a tensor that {self.name} is given or finds, {x.spec}",
                "What shares memory with it outside would not know. Write y = x.reshape(...), or do it outside.",
                kind=WriteError,
            )

    def part(self, x: Tensor) -> None:
        self.parted.add(id(x))
        self.undo.append((set_share, x, x._share))

    def lies(self, x: Tensor | Node) -> tuple[int, ...] | None:
        return self.strides.get(x if isinstance(x, Node) else id(x))

    def stored(self) -> list[Call]:
        """Return the calls that give such tensors their values again, those too that are written to later."""
        return [call for store in self.stores for call in store.calls]

    def untracked(self, captures: Captures) -> list[Tensor]:
        """Return untracked captures: tensors that the program met, that outlive it, and that the search had not found.

        What the trace itself made and kept does not outlive it: the record lets go of it first, then the garbage
        collector does, which nothing waits for where no such tensor is left.
        """
        for found in (
            self.values.known,
            self.decisions,
            self.asked,
            self.consumed,
            self.outer,
            self.effects,
            self.undo,
        ):
            found.clear()
        refs = {**self.met, **self.written}
        # What stands for an argument has a value after a write such as zero_().
        unknown = [ref for i, ref in refs.items() if (i,) not in captures.numbers and i not in self.given]
        if any(ref() is not None for ref in unknown):
            gc.collect()
        return [t for ref in unknown if (t := ref()) is not None]


class _Held(NamedTuple):
    """A cell or an argument during a trace: the input in its place, its tensor, and that tensor's gradient, if any.

    `collects` says whether the tensor collected gradients on entry.
    """

    input: Tensor
    tensor: Tensor | None
    grad: _Gradient | None
    collects: bool = False


class _Gradient:
    """The gradient of a leaf on entry: an input if there is one, and whether the program looked."""

    __slots__ = ("before", "input", "shown", "was_read")

    def __init__(self, owner: Tensor, before: Tensor | None, name: str, values: Values) -> None:
        self.before = before
        self.input: Tensor | None = None
        if before is not None:
            self.input = abstract_input(before.spec, f"{name}.grad" if name else "")
            values.known[self.input.node] = before._array  # type: ignore[index]
        self.was_read = False
        # Refers to what the program sees of it, but does not keep that: a trace keeps no tensors.
        self.shown: weakref.ref[Tensor] | None = None
        owner._grad = Unread(self.read)

    def read(self) -> Tensor | None:
        self.was_read = True
        if self.before is None or self.input is None or self.input.node is None:
            return None
        found = like(self.before, abstract(self.input.node))
        self.shown = weakref.ref(found)
        return found


def run_trace(
    fn: Callable[..., Any],
    name: str,
    arrange: Callable[[dict[int, Any]], tuple[tuple[Any, ...], dict[str, Any]]],
    arguments: Sequence[Argument],
    outside: Outside,
    ties: Sequence[Tie],
) -> tuple[Traced, list[Tensor]]:
    """Run `fn` on abstract tensors, with abstract tensors in all captured cells; those are put back after.

    `outside` is what stood around it before, `ties` what shares memory. `arrange` gives the call's arguments, with
    those of some positions replaced. Returns the trace, and tensors with values that turned up in it although nothing
    leads to them from the function: those are to be among the cells too.
    """
    captures = outside.captures
    recorder = Recorder(name, captures)
    mode = get_mode()
    ways = ways_of(ties, _tensors(arguments, captures))
    # What puts everything back is known before anything changes, and is done at once. Others' threads see these:
    fresh: list[Node] = []
    recorder.undo = [(epoch.__setitem__, 0, epoch[0] + 2), *recorder.stored(), *for_all(fresh, setattr, "inputs", ())]
    put_back = undoing(recorder.undo)
    # By tokens: a variable that was not there before is gone again. NumPy looks up variables of its own for every
    # array that it makes, which takes longer in a context with others in it.
    reset = [
        (reset_fresh_leaves, set_fresh_leaves(fresh_leaves())),
        (reset_writes, set_writes(get_writes())),
        (reset_capture, set_capture(get_capture())),
        (reset_mode, set_mode(mode)),
    ]
    begin = [
        (set_mode, mode.traced(None, mode.grad)),
        (set_capture, recorder),
        (set_writes, None),
        (set_fresh_leaves, fresh),
        (epoch.__setitem__, 0, epoch[0] + 1),
        (_open.append, (get_ident(), put_back, outside)),
    ]
    end = [
        (_open.__delitem__, slice(len(_open), None)),
        (put_back,),
        *reset,
    ]
    begin_all, end_all = at_once(begin), at_once(end)
    try:
        try:
            begin_all()
            held_cells = [_hold_cell(c, captures, recorder) for c in captures.cells]
            held_arguments = _hold_arguments(arguments, captures, held_cells, recorder)
            held = {("cell", i): h for i, h in enumerate(held_cells)}
            held |= {("argument", i): h for i, h in enumerate(held_arguments)}
            _tie(ways, held, recorder)
            recorder.given = {id(h.tensor) for h in held.values()}
            given = {a.leaf: _given(a, h) for a, h in zip(arguments, held_arguments, strict=True)}
            args, kwargs = arrange(given)
            before = tree.flatten((args, kwargs)), tree.flatten((args, kwargs))[0]
            inputs, cells = ({h.input.node for h in some} for some in (held.values(), held_cells))
            with Watch(name, inputs.__contains__, outermost=True, shared=cells):
                results = [fn(*args, **kwargs)]
            _refuse_changed(name, before, (args, kwargs))
            del before  # what is kept alive here would be taken for state of the function's
            own = {id(h.tensor): Source("cell", i) for i, h in enumerate(held_cells) if h.tensor is not None}
            for i, a in enumerate(arguments):
                own.setdefault(id(given[a.leaf]), Source("argument", i))
            traced = _finish(recorder, results.pop(), outside, arguments, held_cells, held_arguments, own, ties)
        finally:
            end_all()
    finally:
        _put_back(outside)
    return traced, recorder.untracked(captures)


def _refuse_changed(name: str, before: tuple[tuple[list[Any], tree.Structure], list[Any]], arguments: Any) -> None:
    """Refuse a function that puts something else into a container among its arguments: the caller's are other ones.

    `before` has the arguments taken apart twice: leaves that are made anew each time say nothing.
    """
    (first, was), second = before
    leaves, structure = tree.flatten(arguments)
    if structure == was and all(a is b or b is not c for a, b, c in zip(leaves, first, second, strict=True)):
        return
    fail(
        WriteError,
        f"{name} changes what is in a dict, list or dataclass among its arguments",
        "A compiled function is given containers of its own, and the caller's would stay as they are. Return the new "
        "container, write to the tensors in it (x.copy_(y), x += y), or let the function find it outside.",
    )


def _hold_cell(cell: Cell, captures: Captures, recorder: Recorder) -> _Held:
    name = captures.names[cell.key]
    tensor = cell.tensor if isinstance(cell, TensorCell) else None
    tracked = tensor is not None and tensor.requires_grad and not tensor.is_leaf
    input = abstract_input(cell.spec, name, tracked)
    recorder.hold(input, tensor, cell.get())
    collects = tensor is not None and tensor.node is not None and tensor.node.op is LEAF
    if tensor is not None and (lies := strides_of(tensor)) is not None:
        recorder.strides[id(tensor)] = recorder.strides[input.node] = lies
    recorder.undo += cell.undo()
    cell.hold(input)
    if tensor is None or not tensor.spec.inexact:
        return _Held(input, tensor, None)
    before = tensor.grad
    recorder.undo.append((set_grad, tensor, before))
    return _Held(input, tensor, _Gradient(tensor, before, name, recorder.values), collects)


def _hold_arguments(
    arguments: Sequence[Argument], captures: Captures, held_cells: Sequence[_Held], recorder: Recorder
) -> list[_Held]:
    """Return the stand-in for each argument: one for a tensor that is given twice, or also found outside."""
    same = {id(h.tensor): h for h in held_cells if h.tensor is not None}
    # Other names of tensors come last: the tensor itself is what collects gradients, if it is there.
    order = sorted(range(len(arguments)), key=lambda i: isinstance(arguments[i].owner, DataView))
    found: dict[int, _Held] = {}
    for i in order:
        a = arguments[i]
        owner = a.owner.owner if isinstance(a.owner, DataView) else a.owner
        held = same.get(id(owner)) if owner is not None else None
        if held is None:
            held = _hold_argument(a, recorder)
            if owner is not None:
                same[id(owner)] = held
        found[i] = held
    return [found[i] for i in range(len(arguments))]


def _given(a: Argument, held: _Held) -> Tensor | None:
    """Return what the function is given for an argument."""
    if held.tensor is None or not isinstance(a.owner, DataView):
        return held.tensor
    return held.tensor.data_class.of(held.tensor)  # type: ignore[no-any-return]


def _hold_argument(a: Argument, recorder: Recorder) -> _Held:
    input = abstract_input(a.spec, a.name, a.tracked)
    recorder.hold(input, a.owner, a.value)
    if a.weakly:
        return _Held(input, weak(input), None)
    shown: Tensor = new(a.kind.result_class if issubclass(a.kind, DataView) else a.kind)
    shown._data, shown.node = None, input.node
    owner = a.owner.owner if isinstance(a.owner, DataView) else a.owner
    if owner is not None and (lies := strides_of(owner)) is not None:
        recorder.strides[id(shown)] = recorder.strides[input.node] = lies
    # What shares memory with it outside follows when the program has run.
    shown._share = owner._share if owner is not None and type(owner._share) is tuple else None
    if a.collects:
        shown.node = leaf_node(shown, input.node)
        before = owner.node if owner is not None else None
        if before is not None and type(before.saved) is Hooked:
            shown.node.saved = Hooked(shown.node.saved, before.saved.hooks)
    if not a.spec.inexact:
        return _Held(input, shown, None)
    return _Held(input, shown, _Gradient(shown, a.grad, a.name, recorder.values), a.collects)


def _put_back(outside: Outside) -> None:
    try:
        outside.put_back()
    except BaseException:  # an interruption: what there is to be done is found anew
        outside.put_back()
        raise


def _end_others() -> None:
    """End, in a child process, the traces of the threads that it does not have."""
    while _open and _open[-1][0] != get_ident():
        _, put_back, outside = _open.pop()
        put_back()
        outside.undo()


locks.in_child(_end_others)


def _finish(
    recorder: Recorder,
    result: Any,
    outside: Outside,
    arguments: Sequence[Argument],
    held_cells: Sequence[_Held],
    held_arguments: Sequence[_Held],
    own: Mapping[int, Source],
    ties: Sequence[Tie],
) -> Traced:
    """Return the trace; `own` says of what a cell or an argument gave the function where it is from, by identity."""
    captures = outside.captures
    leaves, structure = tree.flatten_whole(result)  # which is kept, and the values of the trace are not
    outs = Results(recorder.consumed, own, [a.weakly for a in arguments])

    views = {tie.part for tie in ties if tie.window is not None}

    def written(kind: str, number: int, held: _Held, now: Tensor) -> Write | None:
        if now._array is None and now.node is held.input.node:
            return None
        parts = held.tensor is not None and id(held.tensor) in recorder.parted
        if (kind, number) in views and not parts:  # which follows its owner
            if now.spec != held.input.spec or (now.requires_grad and not _collects(held.tensor)):
                fail(
                    WriteError,
                    f"{recorder.name} gives another shape or history to a view that it is given or finds, {now.spec}",
                    "Pass the tensor that it was taken from, and take the view inside.",
                )
            return None
        k = outs.add(now)
        flows = not _collects(held.tensor) and outs.track(k, now.node)
        return Write(number, k, flows or held.input.requires_grad or now.spec != held.input.spec, parts)

    recorder.meet(leaves)
    results = outs.of(leaves)
    cell_writes, argument_writes = [], []
    for i, (cell, held) in enumerate(zip(captures.cells, held_cells, strict=True)):
        now = cell.held()
        if not isinstance(cell, TensorCell) and (now._array is not None or now.node is not held.input.node):
            if now.requires_grad:
                fail(
                    GraphError,
                    f"{recorder.name} puts {now.spec}, which carries gradients, in the place of a number: "
                    f"{captures.names[cell.key]}",
                    "Put its value there: x.detach().",
                )
            now = _cast(now, held.input.dtype)
        if (found := written("cell", i, held, now)) is not None:
            cell_writes.append(found)
    for i, held in enumerate(held_arguments):
        if held.tensor is None or (type(held.tensor) is WeakTensor and arguments[i].weakly):
            continue
        if (found := written("argument", i, held, present(held.tensor))) is not None:
            argument_writes.append(found)
    _refuse_shared(recorder.name, ties, cell_writes, argument_writes, held_cells, held_arguments)
    cell_grads, argument_grads = _gradients(held_cells, outs), _gradients(held_arguments, outs)
    place_writes, is_repeatable = outside.writes(recorder.name, outs.kept)
    flag_writes = tuple(
        FlagWrite(Source(kind, i), not held.collects)
        for kind, all_held in (("cell", held_cells), ("argument", held_arguments))
        for i, held in enumerate(all_held)
        if held.grad is not None and _collects(held.tensor) is not held.collects
    )
    # What begins to collect gradients is a leaf only when the run is over.
    late = {id(h.tensor) for h in (*held_cells, *held_arguments) if _collects(h.tensor) and not h.collects}
    _check_tracked(recorder.name, outs.tracked.values(), own.keys() - late)
    for t in recorder.effects:
        if t.node is not None and recorder.values.can_be_known(
            t.node
        ):  # else it is of an inner trace, whose transform runs it
            outs.add(t)
    first_guard = len(outs.tensors)
    outputs = [*outs.tensors, *(t for t, *_ in recorder.decisions)]
    guards = tuple(
        Decision(first_guard + k, answer.tobytes(), answer.item(), what, where)
        for k, (_, answer, what, where) in enumerate(recorder.decisions)
    )
    given: list[Given] = []
    sources: list[Source] = []
    seen: set[int] = set()
    for kind, held_all in (("cell", held_cells), ("argument", held_arguments)):
        for i, held in enumerate(held_all):
            if id(held.input) in seen:
                continue
            seen.add(id(held.input))
            assert held.input.node is not None
            parameter = kind == "cell" and held.collects
            name = held.input.node.attrs.get("name", "")
            given.append(Given(held.input, name, parameter))
            sources.append(Source(kind, i))
            if held.grad is not None and held.grad.input is not None:
                given.append(Given(held.grad.input, f"{name}.grad" if name else "", False))
                sources.append(Source(f"{kind} gradient", i))
    name = recorder.name
    whole = Graph.closed(outputs, given, name=name if name.isidentifier() else "")
    _refuse_untracked(whole, len(given), name)
    graph = whole.without_unused_inputs()
    source_of = dict(zip(whole.inputs, sources))
    reads = [
        (Source(f"{kind} gradient", i), held.grad.input is not None)
        for kind, held_all in (("argument", held_arguments), ("cell", held_cells))
        for i, held in enumerate(held_all)
        if held.grad is not None and held.grad.was_read
    ]
    return Traced(
        graph,
        tuple(source_of[n] for n in graph.inputs),
        tuple(results),
        structure,
        frozenset(outs.tracked),
        bool(recorder.effects),
        guards,
        tuple(cell_writes),
        tuple(argument_writes),
        cell_grads,
        argument_grads,
        place_writes,
        flag_writes,
        tuple(reads),
        is_repeatable,
        bool(ties),
    )


def _tensors(arguments: Sequence[Argument], captures: Captures) -> dict[Place, Tensor]:
    found = {("cell", i): c.tensor for i, c in enumerate(captures.cells) if isinstance(c, TensorCell)}
    for i, a in enumerate(arguments):
        if a.owner is not None:
            found["argument", i] = a.owner.owner if isinstance(a.owner, DataView) else a.owner
    return found


def _tie(ways: Mapping[Place, tuple[Place, FromOwner]], held: Mapping[Place, _Held], recorder: Recorder) -> None:
    """Let what stands for a view be taken from what stands for its owner."""
    for place, (owner, taken) in ways.items():
        part, whole = held[place].tensor, held[owner].tensor
        assert part is not None
        assert whole is not None
        recorder.undo.append((set_share, part, part._share))
        part.node = taken.trace(whole, part.requires_grad).node
        part._share = None
        join(part, whole)


def _refuse_shared(
    name: str,
    ties: Sequence[Tie],
    cell_writes: Sequence[Write],
    argument_writes: Sequence[Write],
    held_cells: Sequence[_Held],
    held_arguments: Sequence[_Held],
) -> None:
    """Refuse writes to tensors that share memory with others of the call in a way that the trace does not know."""
    written = {*(("cell", w.number) for w in cell_writes), *(("argument", w.number) for w in argument_writes)}
    whole_of = {tie.part: tie.whole for tie in ties}
    for tie in ties:
        owners = [tie.part]
        while owners[-1] in whole_of:
            owners.append(whole_of[owners[-1]])
        if tie.window is None and not written.isdisjoint(owners):
            kind, i = tie.part
            spec = (held_cells if kind == "cell" else held_arguments)[i].input.spec
            fail(
                WriteError,
                f"{name} writes to a tensor that shares memory with another one that it is given or finds, {spec}",
                "Both are views of one that it does not know. Pass that one, and take the views inside.",
            )


def _collects(t: Tensor | None) -> bool:
    return t is not None and t.node is not None and t.node.op is LEAF


def _check_tracked(name: str, tracked: Iterable[Node], own: Container[int]) -> None:
    """Refuse results whose gradients would flow through nodes that the compiled gradient does not know."""
    nodes = list(tracked)
    refuse_hooks(nodes, name)
    for node in reachable(nodes):
        if node.op is LEAF and (leaf := node.variable) is not None and id(leaf) not in own and node.inputs:
            fail(
                GraphError,
                f"{name} returns a value and the leaf that it was computed from, {leaf.spec}",
                "Gradients do not flow from outside to a leaf that is made inside a compiled function: take them "
                "inside, backward() or autograd.grad, or return what x.detach() gives of one of the two.",
            )


def _cast(t: Tensor, dtype: Any) -> Tensor:
    if t.dtype == dtype:
        return t.wide() if type(t) is WeakTensor else t
    out: Tensor = TABLE["cast"].front(t, dtype=dtype)
    return out


def _gradients(held_all: Sequence[_Held], outs: Results) -> tuple[GradientWrite, ...]:
    """Return what backward passes left in the `.grad` of leaves."""
    found = []
    for i, held in enumerate(held_all):
        gradient = held.grad
        if gradient is None or held.tensor is None:
            continue
        now = held.tensor._grad
        if type(now) is Unread:
            continue
        if now is None:
            found.append(GradientWrite(i, None))
        elif now._array is not None or gradient.input is None or now.node is not gradient.input.node:
            stays = gradient.shown is not None and gradient.shown() is now
            found.append(GradientWrite(i, outs.add(now), stays))
    return tuple(found)


def _refuse_untracked(made: Graph, count: int, name: str) -> None:
    for node in made.inputs[count:]:
        fail(
            GraphError,
            f"{name} uses a tensor that is neither an argument nor anything it can reach, {node.spec}",
            "Pass it as an argument.",
        )
