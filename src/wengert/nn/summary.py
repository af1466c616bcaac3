"""A model as a table: layers, shapes, parameters, operations and bytes, nested by module.

The model runs on abstract tensors, as for :func:`wengert.graph`. While it does, every module notes in the scope that
its operations carry where it was called from; the nodes of the graph then say to which row they belong.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..core import tree
from ..core.errors import DTypeError, GraphError, StateError, fail
from ..core.graph import Graph, is_parameter
from ..core.graph_numbers import saved_values
from ..core.mode import Mode, Scope, get_mode, reset_mode, set_mode
from ..core.node import Node
from ..core.record import OUTPUT, abstract_input, resumed
from ..core.snapshot import Given, specs_of
from ..core.spec import Spec, as_dtype, spec_of
from ..core.tensor import Tensor, wrap
from ..explain.cost import cost
from ..explain.report import columns, html_table, number, size
from ..ops.generator import Generator, default_generator
from ..transforms.trace import as_result, free_variables, leaf_names
from .module import Module

_INDENT = "  "


@dataclass(frozen=True)
class Figures:
    """What a module holds and takes.

    `parameters` and `trainable` count numbers, `parameter_bytes` the bytes of all of them. `operations` are those of
    :func:`wengert.explain.cost`; `uncounted` is the number of nodes for which it has no count. `saved` are the bytes
    kept for the backward pass. Of sizes that are not known, counts are formulas.
    """

    parameters: int = 0
    trainable: int = 0
    parameter_bytes: int = 0
    operations: Any = 0
    uncounted: int = 0
    saved: Any = 0

    def __add__(self, other: Figures) -> Figures:
        return Figures(
            self.parameters + other.parameters,
            self.trainable + other.trainable,
            self.parameter_bytes + other.parameter_bytes,
            self.operations + other.operations,
            self.uncounted + other.uncounted,
            self.saved + other.saved,
        )


@dataclass(frozen=True)
class Row:
    """A module where it is called from; the first row is the model or function itself.

    `own` has the figures of the module without its submodules, `total` with them. A parameter counts in the first row
    that has it: `shared` are the numbers of this module's own that an earlier row counts. `outputs` are the nests of
    specs that the calls returned, each different one once. A module that holds parameters and was not called has
    `calls` 0; one that cannot be called, such as a ParameterList, `is_container`.
    """

    path: str
    name: str
    layer: str
    depth: int
    calls: int
    outputs: tuple[Any, ...]
    own: Figures
    total: Figures
    shared: int
    is_container: bool


@dataclass(frozen=True)
class Summary:
    """A model's table: what :func:`wengert.summary` returns. Iterates over `rows`, each before those inside it.

    `depth` is how deep the printed table goes; `rows` has all. `input_bytes` is the size of the inputs. `computed` says
    that values were needed and the model was run on them.
    """

    rows: tuple[Row, ...]
    input_bytes: Any
    depth: int | None = None
    computed: bool = False

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, path: str) -> Row:
        """The first row with this path. Raises StateError."""
        for row in self.rows:
            if row.path == path:
                return row
        fail(StateError, f"no row of the summary has the path {path!r}", "print(summary) shows the paths.")

    @property
    def total(self) -> Figures:
        """The figures of everything."""
        return self.rows[0].total

    def _lines(self) -> list[tuple[Row, str, int]]:
        """Rows to show, with their names; runs of equal modules are one, with how many."""
        return _folded(self.rows, self.depth)

    def _table(self, indent: str) -> tuple[list[str], list[list[str]], tuple[int, ...]]:
        headings = ["module", "layer", "output", "parameters", "operations", "saved"]
        lines = self._lines()
        cells = [
            [indent * row.depth + name + (f"  x {count}" if count > 1 else ""), _layer(row), _outputs(row), _held(row),
             _operations(row.total), size(row.total.saved) if row.calls else ""]
            for row, name, count in lines
        ]  # fmt: skip
        if self.total.trainable != self.total.parameters:
            headings.insert(4, "trainable")
            for line, (row, _, _) in zip(cells, lines, strict=True):
                line.insert(4, number(row.total.trainable) if row.total.parameters else "")
        return headings, cells, tuple(range(3, len(headings)))

    @property
    def _totals(self) -> list[str]:
        total = self.total
        frozen = total.parameters - total.trainable
        trained = f"{number(frozen)} frozen" if frozen else "all trainable"
        lines = [
            f"{number(total.parameters)} parameters, {size(total.parameter_bytes)}, {trained}",
            f"{number(total.operations)} operations"
            + (f", and {total.uncounted} that cannot be counted" if total.uncounted else ""),
            f"{size(self.input_bytes)} of inputs, {size(total.saved)} saved for backward",
        ]
        if self.computed:
            lines.append("run on the values of the inputs, which it decides by")
        if any(count > 1 for _, _, count in self._lines()):
            lines.append("x n: n equal modules, with the figures of one")
        return lines

    def __str__(self) -> str:
        headings, cells, right = self._table(_INDENT)
        return "\n".join([columns(cells, headings, right), "", *self._totals])

    def _repr_html_(self) -> str:
        headings, cells, right = self._table("\N{NO-BREAK SPACE}" * 4)
        return html_table("; ".join(self._totals), cells, headings, right)


def summary(model: Callable[..., Any], *inputs: Any, depth: int | None = None, **keywords: Any) -> Summary:
    """A table of a model's layers: output shapes, parameters, operations, and bytes kept for the backward pass.

    Parameters
    ----------
    model: a module, or a function.
    inputs: what to call it with, and by keyword: tensors, arrays or specs (:func:`wengert.spec`), in any nest; other
        objects are passed on. A size may be None: `wg.spec((None, 784))`.
    depth: how many levels of modules to print; None for all.

    Nothing is computed, only traced. A forward pass that decides by values (`if x.sum() > 0`) needs them:
    where every input is a tensor or an array, it is run instead, and what depends on neither a floating input nor a
    trained parameter is not counted. Either way modules, running statistics and random number generators are as they
    were afterwards.

    Rows are modules in the order of their calls; figures include submodules. Operations are counted as
    :func:`wengert.explain.cost` does, those of several calls together. A saved value counts where it is first kept.

    Raises what the model raises; GraphError where it needs values that are not given, DTypeError for a
    `model` that cannot be called and for shapes in place of specs.

    >>> import wengert as wg
    >>> model = wg.nn.Sequential(wg.nn.Linear(784, 64), wg.nn.ReLU(), wg.nn.Linear(64, 10))
    >>> print(wg.summary(model, wg.spec((32, 784))))
    module      layer       output       parameters  operations    saved
    Sequential  Sequential  f32[32,10]       50,890   3,256,640  8.19 kB
      0         Linear      f32[32,64]       50,240   3,213,312  0 bytes
      1         ReLU        f32[32,64]            0       2,048  8.19 kB
      2         Linear      f32[32,10]          650      41,280  0 bytes
    <BLANKLINE>
    50,890 parameters, 204 kB, all trainable
    3,256,640 operations
    100 kB of inputs, 8.19 kB saved for backward
    """
    if not callable(model):
        fail(DTypeError, f"the summary of a {type(model).__name__}", "Give a module or a function, and its inputs.")
    if depth is not None and (isinstance(depth, bool) or not isinstance(depth, int) or depth < 0):
        fail(DTypeError, f"depth={depth!r} of a summary", "Give a number of levels, or None for all.")
    for value in inputs:
        if isinstance(value, (tuple, list)) and value and all(n is None or type(n) is int for n in value):
            fail(DTypeError, f"the shape {value} as an input of a summary", f"Write wg.spec({tuple(value)}).")
    call = _Call(model, inputs, keywords)
    with _as_it_was(list(call.modules.values())):
        try:
            run = call.trace()
            computed = False
        except GraphError as e:
            if not call.has_values:
                e.add_note("wg.summary runs a model that needs values where every input is a tensor or an array.")
                raise
            run = call.compute()
            computed = True
        rows = _rows(run)
    return Summary(rows, sum(s.nbytes for s in call.specs if s is not None), depth, computed)


# -- running the model


@dataclass(eq=False)
class _Place:
    """A module where it is called from, while it runs."""

    path: str
    name: str
    module: Module | None
    calls: int = 0
    outputs: list[Any] = field(default_factory=list)
    children: dict[Any, _Place] = field(default_factory=dict)


class _Mark(str):
    """The name of a module's scope that says which place it is."""

    __slots__ = ("place",)
    place: _Place


class _Watch:
    """Follows the calls of modules in one thread."""

    def __init__(self, model: Any, paths: Mapping[int, str]) -> None:
        self.paths = paths
        self.thread = threading.get_ident()
        module = model if isinstance(model, Module) else None
        name = getattr(model, "__name__", type(model).__name__)
        self.root = _Place("", name, module, calls=module is None)

    def enter(self, module: Module, args: Any) -> None:
        """Before a module's `forward`, inside its scope: put one there that is marked."""
        if threading.get_ident() != self.thread:
            return
        mode = get_mode()
        scope = mode.scope
        assert scope is not None
        parent = self.place_of(scope.parent)
        outermost = parent is self.root and not self.root.calls
        place = self.root if outermost and module is self.root.module else self._child(parent, module)
        place.calls += 1
        mark = _Mark(scope.name)
        mark.place = place
        set_mode(mode.within(Scope("module", mark, scope.parent, scope.code, scope.offset)))

    def leave(self, module: Module, args: Any, out: Any) -> None:
        """After a module's `forward`: note what it returned."""
        if threading.get_ident() == self.thread:
            self.note(self.place_of(get_mode().scope), out)

    def note(self, place: _Place, out: Any) -> None:
        """Note a result of a place."""
        found = tree.map(lambda leaf: spec if (spec := _spec_of(leaf)) is not None else leaf, out)
        if repr(found) not in map(repr, place.outputs):
            place.outputs.append(found)

    def place_of(self, scope: Scope | None) -> _Place:
        """Where an operation ran; a module that is not known is called by the names of scopes."""
        names: list[str] = []
        while scope is not None:
            if scope.kind == "module":
                if isinstance(scope.name, _Mark):
                    break
                names.append(scope.name)
            scope = scope.parent
        place = scope.name.place if scope is not None and isinstance(scope.name, _Mark) else self.root
        for name in reversed(names):
            if name not in place.children:
                place.children[name] = _Place(f"{place.path}.{name}".lstrip("."), name, None, calls=1)
            place = place.children[name]
        return place

    def _child(self, parent: _Place, module: Module) -> _Place:
        place = parent.children.get(id(module))
        if place is None:
            path = self.paths.get(id(module), module._path)
            name = path.removeprefix(f"{parent.path}.") if parent.path else path
            place = parent.children[id(module)] = _Place(path, name, module)
        return place

    def add_uncalled(self, modules: Mapping[int, Module]) -> None:
        """Give modules that hold parameters and were not called a place in the module that they are in."""
        places = {id(p.module): p for p in reversed([p for p, _ in _walk(self.root)]) if p.module is not None}
        by_path = {self.paths[i]: place for i, place in places.items() if i in self.paths}
        for i, module in modules.items():
            if i in places or next(module.named_parameters(recurse=False), None) is None:
                continue
            above = self.paths[i]
            while above not in by_path:
                above = above.rpartition(".")[0]
            by_path[self.paths[i]] = self._child(by_path[above], module)


def _walk(root: _Place) -> Iterator[tuple[_Place, int]]:
    """Places and their depths, each before those inside it."""
    pending = [(root, 0)]
    while pending:
        place, depth = pending.pop()
        yield place, depth
        pending += [(child, depth + 1) for child in reversed(place.children.values())]


@dataclass(frozen=True)
class _Run:
    """A run that is over: its graph, the watch that saw it, and which inputs of the graph gradients are for."""

    graph: Graph
    watch: _Watch
    tracked: list[Node]
    parameters: list[Tensor]


class _Call:
    """A model with its inputs."""

    def __init__(self, model: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        self.model = model
        nest = (args, dict(sorted(keywords.items())))
        self.leaves, self.structure = tree.flatten(nest, is_leaf=lambda x: isinstance(x, Module))
        self.specs = [_spec_of(leaf) for leaf in self.leaves]
        self.names = list(leaf_names(model, self.structure))
        self.modules: dict[int, Module] = {}
        self.paths: dict[int, str] = {}
        for prefix, module in self._found_modules():
            for path, inner in module.named_modules(prefix):
                self.modules.setdefault(id(inner), inner)
                self.paths.setdefault(id(inner), path)

    def _found_modules(self) -> Iterator[tuple[str, Module]]:
        """The modules at hand: the model, those among the arguments, and those that a function finds around it."""
        if isinstance(self.model, Module):
            yield "", self.model
        given = zip(self.names, self.leaves, strict=True)
        around = [("", getattr(self.model, "__self__", None)), *free_variables(self.model)]
        for name, value in (*given, *around):
            if isinstance(value, Module):
                yield name, value
            elif isinstance(value, (list, tuple, dict)):
                items = value.items() if isinstance(value, dict) else enumerate(value)
                yield from ((f"{name}.{key}", m) for key, m in items if isinstance(m, Module))

    @property
    def has_values(self) -> bool:
        """Whether every input has one."""
        return not any(isinstance(x, Spec) or (isinstance(x, Tensor) and x.is_abstract) for x in self.leaves)

    def trace(self) -> _Run:
        """Run on abstract tensors."""
        stand_ins = [
            leaf if spec is None else abstract_input(spec, name)
            for leaf, spec, name in zip(self.leaves, self.specs, self.names, strict=True)
        ]
        return self._run(stand_ins, tracing=True)

    def compute(self) -> _Run:
        """Run on values. Gradients are recorded in every floating input: only then are all operations."""
        stand_ins = []
        for leaf, spec in zip(self.leaves, self.specs, strict=True):
            if spec is not None:
                leaf = wrap(np.asarray(leaf.detach() if isinstance(leaf, Tensor) else leaf, spec.dtype))
                leaf = leaf.requires_grad_() if spec.inexact else leaf
            stand_ins.append(leaf)
        return self._run(stand_ins, tracing=False)

    def _run(self, stand_ins: list[Any], tracing: bool) -> _Run:
        watch = _Watch(self.model, self.paths)
        args, keywords = tree.unflatten(self.structure, stand_ins)
        token = set_mode(Mode(True, None, tracing=tracing))
        try:
            with _watched(self.modules.values(), watch):
                result = self.model(*args, **keywords)
        finally:
            reset_mode(token)
        if not isinstance(self.model, Module):
            watch.note(watch.root, result)
        name = watch.root.name
        outputs = [resumed(as_result(name, leaf)) for leaf in tree.leaves(result)]
        given = [
            Given(x, path, is_parameter(leaf))
            for x, path, leaf, spec in zip(stand_ins, self.names, self.leaves, self.specs, strict=True)
            if spec is not None
        ]
        graph = Graph.closed(outputs, given)
        if isinstance(self.model, Module):
            watch.add_uncalled(self.modules)
        own = [leaf for leaf, spec in zip(self.leaves, self.specs, strict=True) if spec is not None]
        parameters = [x for x in own if is_parameter(x)] + [graph.bound[n] for n in graph.inputs if n in graph.bound]
        trained = [n for n, x in zip(graph.inputs, own) if isinstance(x, Tensor) and x.requires_grad]
        return _Run(graph, watch, [*trained, *(n for n in graph.inputs if n in graph.bound)], parameters)


@contextmanager
def _watched(modules: Any, watch: _Watch) -> Iterator[None]:
    """Hooks on modules; before a module's own, so that those run in the marked scope."""
    hooks = [m._pre_hooks for m in modules], [m._hooks for m in modules]
    key = id(watch)
    for before in hooks[0]:
        own = dict(before)
        before.clear()
        before.update({key: watch.enter, **own})
    for after in hooks[1]:
        after[key] = watch.leave
    try:
        yield
    finally:
        for held in (*hooks[0], *hooks[1]):
            held.pop(key, None)


@contextmanager
def _as_it_was(modules: Sequence[Module]) -> Iterator[None]:
    """Leave modules' attributes, their tensors' values and the generators' places as they were."""
    attributes = [dict(m.__dict__) for m in modules]
    registries = [[dict(held) for held in (m._parameters, m._buffers, m._modules)] for m in modules]
    tensors = {id(t): t for a in attributes for t in a.values() if isinstance(t, Tensor)}
    values = [(t, t._data, t.spec, t.node) for t in tensors.values()]
    found = [g for a in attributes for g in a.values() if isinstance(g, Generator)]
    generators = [(g, g.get_state()) for g in {id(g): g for g in (default_generator, *found)}.values()]
    try:
        yield
    finally:
        for module, before, held in zip(modules, attributes, registries, strict=True):
            for registry, names in zip((module._parameters, module._buffers, module._modules), held, strict=True):
                registry.clear()
                registry.update(names)
            module.__dict__.clear()
            module.__dict__.update(before)
        for t, data, spec, node in values:
            t._data, t.node = data, node
            if data is not None:
                t._spec = spec
        for generator, state in generators:
            generator.set_state(state)


def _spec_of(leaf: Any) -> Spec | None:
    """The spec of a tensor, array or spec; None of anything else."""
    if isinstance(leaf, Spec):
        return leaf
    if isinstance(leaf, Tensor):
        return leaf.spec
    return spec_of(leaf.shape, as_dtype(leaf.dtype)) if isinstance(leaf, (np.ndarray, np.generic)) else None


# -- figures


def _rows(run: _Run) -> tuple[Row, ...]:
    root = run.watch.root
    places = list(_walk(root))
    own = _parameter_figures([p for p, _ in places], run.parameters)
    shared = {place: count for place, (_, count) in own.items()}
    figures = {place: found for place, (found, _) in own.items()}
    computed = [n for n in run.graph.computations if n.op is not OUTPUT]
    for node, found in zip(computed, cost(run.graph), strict=True):
        place = run.watch.place_of(node.scope)
        count = Figures(uncounted=1) if found.flops is None else Figures(operations=found.flops)
        figures[place] = figures.get(place, Figures()) + count
    for buffer, saver in saved_values(run.graph, run.tracked).items():
        place = run.watch.place_of(saver.scope)
        figures[place] = figures.get(place, Figures()) + Figures(saved=sum(s.nbytes for s in specs_of(buffer)))
    places = list(_walk(root))  # with those that only nodes' scopes named
    totals: dict[_Place, Figures] = {}
    for place, _ in reversed(places):
        totals[place] = sum((totals[c] for c in place.children.values()), figures.get(place, Figures()))
    return tuple(
        Row(
            place.path,
            place.name,
            _layer_name(place, root),
            depth,
            place.calls,
            tuple(place.outputs),
            figures.get(place, Figures()),
            totals[place],
            shared.get(place, 0),
            place.module is not None and type(place.module).forward is Module.forward,
        )
        for place, depth in places
    )


def _layer_name(place: _Place, root: _Place) -> str:
    if place.module is not None:
        return type(place.module).__name__
    return "function" if place is root else "module"


def _parameter_figures(places: Sequence[_Place], others: Sequence[Tensor]) -> dict[_Place, tuple[Figures, int]]:
    """Every place's own parameters, each in the first place that has it, and the numbers that others had before.

    What no module holds belongs to the whole.
    """
    counted: set[int] = set()
    out: dict[_Place, tuple[Figures, int]] = {}
    for place in places:
        figures, shared = Figures(), 0
        held: list[Tensor] = [] if place.module is None else [*place.module.parameters(recurse=False)]
        for p in held:
            if id(p) in counted:
                shared += p.size
            else:
                counted.add(id(p))
                figures += _figures_of(p)
        out[place] = figures, shared
    for p in others:
        if id(p) not in counted:
            counted.add(id(p))
            figures, shared = out[places[0]]
            out[places[0]] = figures + _figures_of(p), shared
    return out


def _figures_of(p: Tensor) -> Figures:
    return Figures(p.size, p.size if p.requires_grad else 0, p.nbytes)


# -- showing


def _folded(rows: Sequence[Row], depth: int | None) -> list[tuple[Row, str, int]]:
    """The rows down to a depth, with names, where runs of equal siblings are one row, and how many they are."""
    ends = _ends(rows)
    shapes = _shapes(rows, ends)
    out: list[tuple[Row, str, int]] = []
    pending = [(0, 1)] if rows else []  # the next row among siblings, and where they end
    while pending:
        at, end = pending.pop()
        if at >= end or (depth is not None and rows[at].depth > depth):
            continue
        last, after, count = at, ends[at], 1
        while after < end and shapes[after] == shapes[at] and _follows(rows[last].name, rows[after].name):
            last, after, count = after, ends[after], count + 1
        name = rows[at].name
        out.append((rows[at], f"{name}-{rows[last].name.rpartition('.')[2]}" if count > 1 else name, count))
        pending += [(after, end), (at + 1, ends[at])]
    return out


def _follows(name: str, other: str) -> bool:
    """Whether two names are alike but for a number that goes on: `blocks.3` and `blocks.4`."""
    (prefix, _, n), (same, _, m) = name.rpartition("."), other.rpartition(".")
    return prefix == same and n.isdecimal() and m.isdecimal() and int(m) == int(n) + 1


def _ends(rows: Sequence[Row]) -> list[int]:
    """For every row the position after all that is inside it."""
    ends = [len(rows)] * len(rows)
    open_rows: list[int] = []
    for i, row in enumerate(rows):
        while open_rows and rows[open_rows[-1]].depth >= row.depth:
            ends[open_rows.pop()] = i
        open_rows.append(i)
    return ends


def _shapes(rows: Sequence[Row], ends: Sequence[int]) -> list[int]:
    """A number for every row, the same for rows that show the same inside and out, but for their own name."""
    numbers: dict[Any, int] = {}
    out = [0] * len(rows)
    for i in reversed(range(len(rows))):
        row = rows[i]
        inside = []
        at = i + 1
        while at < ends[i]:
            inside.append((rows[at].name, out[at]))
            at = ends[at]
        key = (row.layer, row.calls, repr(row.outputs), repr(row.own), row.shared, tuple(inside))
        out[i] = numbers.setdefault(key, len(numbers))
    return out


def _layer(row: Row) -> str:
    return f"{row.layer}, {row.calls} calls" if row.calls > 1 else row.layer


def _outputs(row: Row) -> str:
    if not row.calls:
        return "" if row.is_container else "not called"
    first = repr(row.outputs[0]) if row.outputs else ""
    return f"{first} and {len(row.outputs) - 1} more" if len(row.outputs) > 1 else first


def _held(row: Row) -> str:
    count = number(row.total.parameters)
    return f"{count} (+ {number(row.shared)} shared)" if row.shared else count


def _operations(figures: Figures) -> str:
    return number(figures.operations) + (" + ?" if figures.uncounted else "")
