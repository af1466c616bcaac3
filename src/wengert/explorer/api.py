"""The front door `wg.explore`: a computation recorded, forward and backward, and the uses of the recording."""

from __future__ import annotations

import copy
import os
from collections import Counter
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from ..core.errors import DTypeError, fail, user_frame
from ..core.graph.graph import Graph
from ..core.node import Node
from ..core.state.observer import aside, is_observed
from ..core.tensor import Tensor
from ..execute.interpreter import feed
from ..explain.batching import Batching
from . import notebook, questions
from .debugger import Debugger
from .document.batched import batched
from .document.compare import compared
from .document.document import Document, described, stopped_by
from .document.tensor_paths import tensor_paths
from .findings import Finding
from .page import page
from .recording import reached
from .recording.call import record_call
from .recording.gathered import from_graph, from_tensor
from .recording.kernels import compile_run, kernels, native
from .recording.parallel import parallel
from .recording.recording import Recording
from .recording.rerun import of_recording

# Up to so many rows a recorded run is compiled without being asked to.
COMPILED = 1000


# How a line of a comparison begins.
_EDITS = {"added": "+", "removed": "-", "changed": "~"}


class Exploration:
    """A recorded computation. `document` is the data that every view shows, `findings` what was noticed in it.

    >>> import wengert as wg
    >>> found = wg.explore(lambda x: x * x, 3.0)
    >>> "nodes" in found.document, found.findings
    (True, [])
    """

    def __init__(self, recording: Recording, compiled: bool | None = None, debugger: Debugger | None = None) -> None:
        self.recording = recording
        self.debugger = debugger
        self.document: Document
        self.findings: list[Finding]
        self.document, self.findings = described(recording)
        if (paths := tensor_paths(recording, self.document["nodes"]["flops"])) is not None:
            self.document["paths"] = paths
        # While operations are watched, those of a program around this one, they are not what is to be compiled.
        if compiled or (compiled is None and len(recording.rows) <= COMPILED and not is_observed()):
            self.run_again()

    def run_again(self) -> None:
        """Add what other ways to run it tell: float64, the compiler's plan and its run, the scheduler's lives."""
        if replays := questions.carried(self):
            self.document["replays"] = replays
        run = of_recording(self.recording)
        if run is None:
            return
        tables = {"parallel": parallel(run)}
        if (made := compile_run(run)) is not None:
            tables["kernels"] = table = kernels(made[0])
            tables["native"] = native(made[1], table["plan"]["kernel"])
        self.document |= {name: table for name, table in tables.items() if table is not None}

    def diff(self, after: Exploration) -> Exploration:
        """Return this run beside another one, with the edits between them: before and after a change, two checkpoints,
        a graph and its form after a pass.

        Gives an exploration whose page has a tab for it; `document["diff"]["edits"]` lists the edits, `["pairs"]` the
        nodes that stand for each other, with how far their values and gradients are apart (as parts of their size).
        A parameter that has another name in the second run is recognised by its place.
        """
        made = copy.copy(self)
        changes = compared(self.recording.rows, after.recording.rows)
        made.document = {**self.document, "diff": {"other": after.document, **changes}}
        return made

    def to_html(self) -> str:
        """Return the page that shows it, in one text: it needs no network."""
        return page(self.document)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file, which opens in any browser without a network."""
        Path(path).write_text(self.to_html(), encoding="utf-8")

    def show(self, live: bool = False, height: int = notebook.HEIGHT) -> Any:
        """Return what a notebook cell shows, so many pixels high: a frame with the page inside, or a live widget.

        A notebook shows the frame by itself where an exploration is a cell's last expression, also when it was saved
        or turned into HTML. The widget (`live=True`) needs the kernel, which answers for whole tensors.

        Raises StateError for `live=True` without anywidget (`pip install 'wengert[notebook]'`).
        """
        if live:
            return notebook.widget(self.document, lambda message: questions.answer(message, self), height)
        return notebook.Frame(self.document, height)

    def _repr_html_(self) -> str:
        return notebook.frame(self.document)

    def __str__(self) -> str:
        nodes, meta = self.document["nodes"], self.document["meta"]
        if (ran := self.document.get("batching")) is not None:
            return f"{meta['title']}: {sum(ran['calls']):,} calls in {len(ran['calls']):,} kernels"
        computed = sum(op >= 0 for op in nodes["op"])
        parts = [f"{len(nodes['op']):,} nodes, {computed:,} operations"]
        phases = self.document["events"]["phase"]
        if any(p == 1 for p in phases):
            parts.append(f"{sum(p == 1 for p in phases):,} steps back")
        name = " · ".join(filter(None, (meta["script"], meta["title"])))
        found = [f"{f.severity}: {f.title}, {f.where}" for f in self.findings]
        if "error" in meta:
            found.insert(0, stopped_by(meta["error"]).partition("\n")[0])
        changes = self._told_edits() if "diff" in self.document else []
        return "\n".join([f"{name}: {', '.join(parts)}", *found, *meta.get("notes", []), *changes])

    def _told_edits(self) -> list[str]:
        """Return the edits of a comparison, one a line, and how many values and gradients differ, the first by name."""
        found = self.document["diff"]
        edits, pairs = found["edits"], found["pairs"]
        counts = Counter(edit["kind"] for edit in edits)
        title = ", ".join(f"{n} {kind}" for kind, n in counts.items()) or "no edits"
        lines = [f"{title}:" if edits else title]
        lines += [f"  {_EDITS[edit['kind']]} {edit['text']}" for edit in edits]
        for what in ("value", "gradient"):
            apart = [(i, off) for i, off in zip(pairs["a"], pairs[what]) if off]
            if apart:
                first, off = apart[0]
                row = self.recording.rows[first]
                called = row.name or (row.op.name if row.op is not None else row.kind)
                told = f"{len(apart):,} {what}s differ, first" if len(apart) > 1 else f"1 {what} differs,"
                lines.append(f"{told} that of {called}, by {float(off):.2g} of its size")
        return lines

    def __repr__(self) -> str:
        return f"<Exploration of {self}>"


class Timeline(Protocol):
    """A prediction, or a measurement, of a graph that is run by many: of a step on a cluster, say."""

    @property
    def graph(self) -> Graph:
        """The graph that each of them runs."""
        ...

    def __timeline__(self, row_of: Mapping[Node, int]) -> dict[str, Any]:
        """Return the `ranks` table of a document (see the schema); `row_of` has the rows of the graph's nodes."""
        ...


def of_timeline(target: Timeline) -> Exploration:
    """Return the structure of a graph, with the timelines of those that run it."""
    made = Exploration(from_graph(target.graph), compiled=False)
    rows = made.recording.rows
    made.document["ranks"] = target.__timeline__({row.node: row.index for row in rows if row.node is not None})
    return made


def of_batching(answer: Batching) -> Exploration:
    """Return what ran in blocks of batching, without a graph."""
    made = Exploration(Recording([], [], [], title="batching", values=False), compiled=False)
    made.document |= batched(answer)
    return made


def explore(
    target: Any, *args: Any, step: int | None = None, compiled: bool | None = None, **kwargs: Any
) -> Exploration:
    """Record a computation, forward and backward, to be looked at: `wg.explore(f, x).save("page.html")`.

    Parameters
    ----------
    target: a function, a module, a tensor with a graph, a `wg.Graph`, what :func:`wengert.distribute.predict` or
        :func:`wengert.explain.batching` gave, or the path of an ONNX model or a file of weights (see
        :func:`wengert.explorer.open_file`).
    args, kwargs: a function's arguments. Floating tensors, arrays and numbers among them are inputs, whose
        gradients are shown; parameters of modules keep being parameters. A graph's inputs; without any only its
        structure is shown. A model's inputs, of which those that are not given are made.
    step: of a function that trains, the step to show, from 0; the last whole one where it is not given.
    compiled: whether to run what was recorded again, compiled and on threads, for the views of kernels and of
        parallel execution; by default up to 1,000 nodes.

    A function is run once. Where it runs no backward pass of its own, the gradients of its result are computed: of
    the first scalar, or of the sum of what it returns. Nothing is changed: no `.grad` is filled that the function
    does not fill. If it raises, what happened until then is shown with the error.

    Raises DTypeError for anything else, FeedError for a graph's inputs.

    >>> import wengert as wg
    >>> print(wg.explore(lambda x: x * x, 3.0))
    lambda: 3 nodes, 1 operations, 1 steps back
    """
    names = _names_around() if isinstance(target, Tensor) else {}
    if isinstance(target, (str, os.PathLike)):
        return open_file(target, *args, compiled=compiled, **kwargs)
    with aside():
        if isinstance(target, Tensor):
            return Exploration(from_tensor(target, names), compiled)
        if isinstance(target, Graph) and not args and not kwargs:
            return Exploration(from_graph(target), compiled)
        if hasattr(type(target), "__timeline__") and not args and not kwargs:
            return of_timeline(target)
        if isinstance(target, Batching) and not args and not kwargs:
            return of_batching(target)
        if isinstance(target, Graph):
            feed(target, args, kwargs)  # inputs that do not fit are the caller's error, not the run's
        if not callable(target):
            mend = "Give a function and its arguments, a tensor, a graph, a file."
            fail(DTypeError, f"explore: a {type(target).__name__}", mend)
        return Exploration(record_call(target, args, kwargs, step), compiled)


def open_file(
    path: str | os.PathLike[str],
    *args: Any,
    sizes: Mapping[str, int] | None = None,
    seed: int = 0,
    structure: bool = False,
    compiled: bool | None = None,
    **kwargs: Any,
) -> Exploration:
    """Open a file to be looked at: an ONNX model, which is run, or weights, by the tree of their names.

    Parameters
    ----------
    path: an ONNX model (`.onnx`), or a file that :func:`wengert.storage.load_weights` reads.
    args, kwargs: inputs of the model, by position or name. Those that are not given are made from what the document
        says of them: floating numbers are normal, indices in the range of what they pick from, masks 1. A text says
        how: "normal", "uniform", "zeros", "ones", "range", or JSON.
    sizes: of axes that the document names (`{"batch": 4}`) or leaves open (`{"x_0": 4}`); by default 1 for the first
        axis of an input, 8 for others, or what else the model runs with.
    seed: of the numbers that are made.
    structure: whether to draw the document's nodes as they stand, without running them. So is drawn, with the reason
        among its notes, what cannot be run.
    compiled: as of :func:`wengert.explore`.

    A run that fails is shown as far as it went. Nothing in a file is executed but the operators of a model, under the
    limits of :func:`wengert.interop.onnx.load`. Raises OnnxError and DataError for what is no such file.

    >>> import wengert as wg
    >>> from wengert.explorer import open_file
    >>> model = wg.interop.onnx.save(lambda x: wg.tanh(x) * 2, wg.spec((None, 3)), "model.onnx")  # doctest: +SKIP
    >>> print(open_file("model.onnx", sizes={"batch": 4}))  # doctest: +SKIP
    """
    with aside():
        # Loaded where a file is opened: nothing else needs readers of models and weights.
        files = import_module("wengert.explorer.opened.files")
        wanted = files.Wanted(args, kwargs, sizes or {}, seed)
        return Exploration(files.recording_of(path, wanted, structure), compiled)


def _names_around() -> dict[int, str]:
    """Return the names of the caller's variables, and of what they lead to."""
    frame = user_frame(2)
    if frame is None:
        return {}
    variables = {**frame.f_globals, **frame.f_locals}
    return reached.leaf_names(reached.tensors([(n, v) for n, v in variables.items() if not n.startswith("_")]))
