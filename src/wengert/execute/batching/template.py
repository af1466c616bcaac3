"""Templates: a cell traced for one example, with what it finds outside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ...core import tree
from ...core.errors import GraphError, WengertError, fail
from ...core.graph.evaluate import run
from ...core.graph.graph import Graph
from ...core.graph.snapshot import CONSTANT, input_node, rebuild, with_inputs
from ...core.mode import get_mode
from ...core.node import Node
from ...core.spec import Spec
from ...core.state.blocks import reset_block, set_block
from ...core.state.cells import TensorCell
from ...core.tensor import Tensor
from ...ops.random.generator import default_generator
from ..jit.capture.captured import Captures
from ..jit.capture.outside import Outside
from ..jit.capture.results import Constant, Itself, OfClass, Taken, class_of, output_of
from ..jit.capture.search import explore
from ..jit.signature import CallAgain
from ..jit.tracing import TRACING, Argument, Traced, run_trace
from .handles import handle_class

# How often a trace may meet tensors that the search had not found.
_MEETINGS = 3


class Kind:
    """A kind of input of a cell: its spec, whether gradients flow to it, the class of its tensor.

    There is one object for each combination, so that keys are made of them in little time.
    """

    __slots__ = ("cls", "spec", "tracked")

    def __init__(self, spec: Spec, tracked: bool, cls: type[Tensor]) -> None:
        self.spec = spec
        self.tracked = tracked
        self.cls = cls


# The kinds, and again by the identities of the specs that they keep alive.
_kinds: dict[tuple[Spec, bool, type[Tensor]], Kind] = {}
_by_identity: dict[tuple[int, bool, type[Tensor]], Kind] = {}


def kind_of(spec: Spec, tracked: bool, cls: type[Tensor]) -> Kind:
    """Return the one Kind of these. Its spec is the same object in all that differ in the rest alone."""
    key = id(spec), tracked, cls
    found = _by_identity.get(key)
    if found is None:
        plain = _kinds.setdefault((spec, False, Tensor), Kind(spec, False, Tensor))
        found = _kinds.setdefault((spec, tracked, cls), Kind(plain.spec, tracked, cls))
        if found.spec is spec:
            _by_identity[key] = found
    return found


class Unfit(Exception):
    """The reason why a call is not deferred."""


class Refused(Exception):
    """The reason why a call in a block is an error."""


class Result(NamedTuple):
    """One result of a cell: an output of the graph by its number, or None and an input by its number, or a constant."""

    output: int | None
    argument: int | None = None
    constant: Any = None


class Template:
    """A cell for inputs of given kinds.

    `graph` computes one example: its inputs are `rows` of the arguments (by their numbers), then the tensors `shared`
    by all examples. If the cell draws random numbers, the last of the rows are these numbers: `draws` gives them for a
    place of the default generator, and a call moves it on by `blocks`. `tracked` says of each output whether gradients
    flow from it.
    """

    def __init__(
        self, name: str, traced: Traced, captures: Captures, kinds: Sequence[Kind], views: bool = False
    ) -> None:
        self.name = name
        self.captures = captures
        # Makes the template again.
        self.again: Callable[[], Template] | None = None
        self.holds = captures.holds
        self.blocks = _blocks(name, traced, captures)
        numbers = [output_of(r) for r in traced.results if type(r) is not Constant and type(r) is not Itself]
        outputs = list(dict.fromkeys(n for n in numbers if n is not None))
        self.results = [_result(r, outputs, views) for r in traced.results]
        self.structure = traced.structure
        pairs = list(zip(traced.sources, traced.graph.inputs, strict=True))
        rows = [(s.number, n) for s, n in pairs if s.kind == "argument"]
        cells = [(captures.cells[s.number], n) for s, n in pairs if s.kind == "cell"]
        shared = [(c.tensor, n) for c, n in cells if isinstance(c, TensorCell)]
        rows += [(-1, n) for c, n in cells if not isinstance(c, TensorCell)]
        needed = [traced.graph.outputs[k] for k in outputs]
        if not needed:
            raise Unfit("it computes nothing of its arguments")
        graph = Graph(needed, [n for _, n in (*rows, *shared)], name if name.isidentifier() else "")
        # What gives the random numbers of a call for a place of the generator.
        self.draws: Graph | None = None
        if any(i < 0 for i, _ in rows):
            graph, self.draws, drawn = _drawn_outside(graph, len(rows) - 1)
            rows = [*rows[:-1], *((-1 - k, n) for k, n in enumerate(drawn))]
            needed = list(graph.outputs)
        self.graph = graph
        # The arguments that rows are of, by their numbers; -1, -2, ... are random numbers.
        self.rows = [i for i, _ in rows]
        self.shared: list[Tensor] = [t for t, _ in shared]
        if any(type(t._array) is not np.ndarray for t in self.shared):
            raise Unfit("what it reads is on a device, or in parts")
        self.specs: list[Spec] = [kind_of(n.spec, False, Tensor).spec for n in needed]
        self.tracked = [k in traced.tracked and n.spec.inexact for k, n in zip(outputs, needed, strict=True)]
        own = {k: _class(r) for r in traced.results if (k := _own(r)) is not None}
        classes = [own.get(k, Tensor) for k in outputs]
        self.kinds = [kind_of(s, t, c) for s, t, c in zip(self.specs, self.tracked, classes, strict=True)]
        self.handles = [handle_class(c) for c in classes]
        # The container of the results (None: one tensor) if they are the outputs in their order, else dict.
        plain = [r.output for r in self.results] == list(range(len(needed)))
        is_flat = self.structure.kind in (tuple, list) and all(c.kind is None for c in self.structure.children)
        self.container = self.structure.kind if plain and (is_flat or self.structure.kind is None) else dict
        self.wanted_rows = [i >= 0 and kinds[i].tracked and n.spec.inexact for i, n in rows]
        self.wanted_shared = [t.requires_grad and t.spec.inexact and get_mode().grad for t in self.shared]
        self.takes_all = self.rows == list(range(len(kinds)))

    def build(self, handles: Sequence[Any], tensors: Sequence[Any]) -> Any:
        """Return what the cell returns, of handles of its outputs and of the tensors among its arguments."""
        leaves = []
        for r in self.results:
            of_argument = r.constant if r.argument is None else tensors[r.argument]
            leaves.append(of_argument if r.output is None else handles[r.output])
        return tree.unflatten(self.structure, leaves)

    def is_same(self, other: Template) -> bool:
        """Return whether another template of the same kinds of inputs computes the same, of the same tensors."""
        return (
            len(self.shared) == len(other.shared)
            and all(a is b for a, b in zip(self.shared, other.shared, strict=True))
            and self.graph == other.graph
            and self.results == other.results
            and self.structure == other.structure
            and (self.rows, self.kinds, self.blocks) == (other.rows, other.kinds, other.blocks)
            and self.wanted_shared == other.wanted_shared
        )

    def is_still_right(self) -> bool:
        """Return whether the cell still computes the same: what was found outside of it may have changed."""
        if self.holds():
            return True
        with TRACING:  # perhaps only because another thread traces
            if self.holds():
                return True
        try:
            now = self.again() if self.again is not None else None
        except (Unfit, Refused):
            return False
        if now is None or not self.is_same(now):
            return False
        self.renew(now)
        return True

    def renew(self, other: Template) -> None:
        """Take the captured state of the same template, found later."""
        self.captures, self.holds = other.captures, other.holds

    @property
    def is_tracked(self) -> bool:
        """True if gradients flow from an output."""
        return any(self.tracked)


def _drawn_outside(graph: Graph, position: int) -> tuple[Graph, Graph, list[Node]]:
    """Return a graph with its random numbers as inputs, the graph that draws them, and these inputs.

    The input at `position` is the place of the generator. What is drawn may depend on nothing else.
    """
    while any(n.op.draws and n.op.body is not None for n in graph.nodes):
        graph = graph.expand_where(lambda n: n.op.draws)
    place = graph.inputs[position]
    free: set[Node] = {n for n in graph.nodes if n.op is CONSTANT} | {place}
    drawn = []
    for node in graph.nodes:
        if node.inputs and all(e in free for e in node.inputs if isinstance(e, Node)):
            free.add(node)
            if node.op.draws and isinstance(node.spec, Spec):
                drawn.append(node)
        elif node.op.draws:
            raise Unfit("what it draws depends on its inputs")
    inner = Graph(drawn, [place])
    made = dict(zip(drawn, (input_node(n.spec) for n in drawn), strict=True))
    replace: dict[Node, Node] = dict(made)
    rebuild(graph.nodes, replace, with_inputs)
    inputs = [*graph.inputs[:position], *made.values(), *graph.inputs[position + 1 :]]
    try:
        return Graph([replace[n] for n in graph.outputs], inputs, graph.name), inner, list(made.values())
    except GraphError:
        raise Unfit("it uses the place of the generator itself") from None


def _own(r: Any) -> int | None:
    return None if type(r) is Constant else output_of(r)


def _class(r: Any) -> type[Tensor]:
    return class_of(r.value if type(r) is Taken else r)


def _result(r: Any, outputs: Sequence[int], views: bool) -> Result:
    if type(r) is Constant:
        if isinstance(r.value, (Tensor, np.ndarray)):
            raise Unfit("it returns an array that is no tensor")
        return Result(None, None, r.value)
    if type(r) is Itself:
        if r.source.kind == "argument":
            return Result(None, r.source.number)
        raise Unfit("it returns a tensor from outside")
    if type(r) is int or (type(r) is OfClass and r.node is None) or (type(r) is Taken and views):
        k = output_of(r)
        assert k is not None
        return Result(outputs.index(k))
    raise Unfit("it returns a view of a tensor that it is given, or a leaf of its own")


def _blocks(name: str, traced: Traced, captures: Captures) -> int:
    """Return by how many blocks a call moves the default generator on; raise for other writes."""
    blocks = 0
    for write in traced.cell_writes:
        cell = captures.cells[write.number]
        if isinstance(cell, TensorCell):
            raise Refused(
                f"{name} writes to {captures.names[cell.key] or 'a tensor'}, {cell.spec}, in every call (as batch "
                "normalisation does in training)"
            )
        if cell.key != next(iter(default_generator.__jit_cells__())).key:
            raise Unfit(f"it changes {captures.names[cell.key]}")
        node = traced.graph.outputs[write.output]
        state = [n for s, n in zip(traced.sources, traced.graph.inputs, strict=True) if s == ("cell", write.number)]
        moved = run(Graph([node], state), [np.zeros(3, np.uint64)])[0]
        blocks = int(np.asarray(moved)[2])
    return blocks


def _check(traced: Traced) -> None:
    """Raise Unfit for a trace that is more than a graph."""
    for guard in traced.guards:
        raise Unfit(f"its path depends on a value: {guard.what} at {guard.where}")
    if traced.argument_writes or traced.flag_writes or traced.cell_grads or traced.argument_grads:
        raise Unfit("it writes to its arguments, or to gradients")
    if traced.place_writes or not traced.is_repeatable:
        raise Unfit("its Python code changes something outside")
    if traced.has_effects:
        raise Unfit("it prints, or calls Python back")
    if any("gradient" in s.kind for s in traced.sources):
        raise Unfit("it reads gradients")
    for node in traced.graph.nodes:
        if node.op.draws and "counter" in node.op.attr_names:
            raise Unfit("it draws random numbers from a generator of its own")


def make(
    name: str,
    fn: Callable[..., Any],
    arrange: Callable[[dict[int, Any]], tuple[tuple[Any, ...], dict[str, Any]]],
    kinds: Sequence[Kind],
    views: bool,
) -> Template:
    """Trace a cell. Raises Unfit if its calls cannot be deferred, Refused if they are an error.

    `views` says that results which are views of the arguments are taken for values.
    """
    met: list[Tensor] = []
    arguments = [Argument(i, f"x{i}", None, k.spec, k.cls, tracked=k.tracked) for i, k in enumerate(kinds)]
    for _ in range(_MEETINGS):
        captures = explore([(name, fn), *((f"met {i}", t) for i, t in enumerate(met))], [default_generator])
        with TRACING:
            outside = Outside(captures)
            token = set_block(None)
            try:
                traced, unknown = run_trace(fn, name, arrange, arguments, outside, ())
                _check(traced)
                found = None if unknown else Template(name, traced, captures, kinds, views)
            except (Unfit, Refused):
                raise
            except CallAgain as again:
                raise Unfit(_reason(getattr(again, "error", again))) from None
            except Exception as error:
                raise Unfit(_reason(error)) from None
            finally:
                reset_block(token)
                outside.undo()
        if found is not None:
            return found
        met += unknown
    raise Unfit("it makes tensors that nothing leads to")


def _reason(error: BaseException) -> str:
    text = str(error).partition("\n")[0]
    return text if isinstance(error, WengertError) else f"{type(error).__name__}: {text}"


def refuse(name: str, why: Refused, where: str) -> NoReturn:
    """Raise the error of a call that a block refuses."""
    fail(
        GraphError,
        f"{name} in a block of batching: {why}",
        "The examples of a batch would share one write. Call it outside of the block, or switch it to evaluation: "
        "module.eval().",
        where,
    )
