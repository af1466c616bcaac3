"""The table of a model: layers, shapes, parameters, operations and bytes, nested by module.

The model runs on abstract tensors, as for :func:`wengert.graph`; the nodes of its graph lead to the modules that they
ran in (`calls`), and those are the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.errors import DTypeError, StateError, TraceError, fail
from ..core.graph.numbers import saved_values
from ..core.graph.snapshot import specs_of
from ..core.ops.record import OUTPUT
from ..core.tensor import Tensor
from ..explain.cost import cost
from ..explain.report import columns, html_table, number, size
from .calls import Call, Place, Run, as_it_was, walk
from .module import Module

_INDENT = "  "


@dataclass(frozen=True)
class Figures:
    """The numbers of a module: its parameters, operations and bytes.

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
    """A module at the place that it is called from; the first row is the model or function itself.

    `own` has the figures of the module without its submodules, `total` with them. A parameter counts in the first row
    that has it: `shared` are the numbers of this module's own that an earlier row counts. `outputs` are the pytrees of
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
    """A model's table, the result of :func:`wengert.summary`. Iterates over `rows`, each before those inside it.

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
        """Return the first row with this path. Raises StateError."""
        for row in self.rows:
            if row.path == path:
                return row
        fail(StateError, f"no row of the summary has the path {path!r}", "print(summary) shows the paths.")

    @property
    def total(self) -> Figures:
        """The figures of the whole model."""
        return self.rows[0].total

    def _lines(self) -> list[tuple[Row, str, int]]:
        """Return rows to show, with their names; runs of equal modules are one, with their number."""
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
        trained = f", {number(frozen)} frozen" if frozen else ", all trainable" if total.parameters else ""
        lines = [
            f"{number(total.parameters)} parameters, {size(total.parameter_bytes)}{trained}",
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
    """Return a table of a model's layers: output shapes, parameters, operations, and bytes kept for the backward pass.

    Parameters
    ----------
    model: a module, or a function.
    inputs: what to call it with, and by keyword: tensors, arrays or specs (:func:`wengert.spec`), in any pytree; other
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
    call = Call(model, inputs, keywords)
    with as_it_was(list(call.modules.values())):
        try:
            run = call.trace()
            computed = False
        except TraceError as e:
            if not call.has_values:
                e.add_note("wg.summary runs a model that needs values where every input is a tensor or an array.")
                raise
            run = call.compute()
            computed = True
        rows = _rows(run)
    return Summary(rows, sum(s.nbytes for s in call.specs if s is not None), depth, computed)


# -- figures


def _rows(run: Run) -> tuple[Row, ...]:
    root = run.watch.root
    places = list(walk(root))
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
    places = list(walk(root))  # with those that only nodes' scopes named
    totals: dict[Place, Figures] = {}
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


def _layer_name(place: Place, root: Place) -> str:
    if place.module is not None:
        return type(place.module).__name__
    return "function" if place is root else "module"


def _parameter_figures(places: Sequence[Place], others: Sequence[Tensor]) -> dict[Place, tuple[Figures, int]]:
    """Return every place's own parameters, each at the first place that has it, and those counted elsewhere.

    What no module holds belongs to the whole.
    """
    counted: set[int] = set()
    out: dict[Place, tuple[Figures, int]] = {}
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
    """Return the rows down to a depth, with names, where runs of equal siblings are one row, and their number."""
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
    """Return whether two names are alike but for a number that goes on: `blocks.3` and `blocks.4`."""
    (prefix, _, n), (same, _, m) = name.rpartition("."), other.rpartition(".")
    return prefix == same and n.isdecimal() and m.isdecimal() and int(m) == int(n) + 1


def _ends(rows: Sequence[Row]) -> list[int]:
    """Return, for every row, the position after all that is inside it."""
    ends = [len(rows)] * len(rows)
    open_rows: list[int] = []
    for i, row in enumerate(rows):
        while open_rows and rows[open_rows[-1]].depth >= row.depth:
            ends[open_rows.pop()] = i
        open_rows.append(i)
    return ends


def _shapes(rows: Sequence[Row], ends: Sequence[int]) -> list[int]:
    """Return a number for every row, the same for rows that show the same inside and out, but for their own name."""
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
