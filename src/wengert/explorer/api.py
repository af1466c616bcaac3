"""The front door `wg.explore`: a computation recorded, forward and backward, and the uses of the recording."""

from __future__ import annotations

import copy
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..core import tree
from ..core.errors import DTypeError, GraphError, fail, user_frame
from ..core.graph.graph import Graph
from ..core.node import Node
from ..core.spec import Spec, category
from ..core.state.observer import aside, is_observed
from ..core.tensor import Tensor, asarray, wrap
from ..execute.interpreter import feed
from ..explain.observing.arguments import parameter_names, tensors_of
from ..transforms.derivatives import reverse
from . import notebook, questions
from .debugger import Debugger
from .document.compare import compared
from .document.document import Document, described
from .document.tensor_paths import tensor_paths
from .findings import Finding
from .page import page
from .recording import reached
from .recording.gathered import from_graph, from_tensor, graph_title
from .recording.kernels import compile_run, kernels, native
from .recording.names import name_leaves
from .recording.parallel import parallel
from .recording.recorder import Recorder
from .recording.recording import Recording, recorded
from .recording.rerun import of_recording

# Up to so many rows a recorded run is compiled without being asked to.
COMPILED = 1000


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
        """Add what other ways to run it tell: the compiler's plan and its run, the scheduler's lives."""
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
        computed = sum(op >= 0 for op in nodes["op"])
        parts = [f"{len(nodes['op']):,} nodes, {computed:,} operations"]
        phases = self.document["events"]["phase"]
        if any(p == 1 for p in phases):
            parts.append(f"{sum(p == 1 for p in phases):,} steps back")
        name = " · ".join(filter(None, (meta["script"], meta["title"])))
        found = [f"{f.severity}: {f.title}, {f.where}" for f in self.findings]
        if "error" in meta:
            found.insert(0, f"stopped by {meta['error']['type']}: {meta['error']['text'].partition(chr(10))[0]}")
        return "\n".join([f"{name}: {', '.join(parts)}", *found, *meta.get("notes", [])])

    def __repr__(self) -> str:
        return f"<Exploration of {self}>"


def explore(
    target: Any, *args: Any, step: int | None = None, compiled: bool | None = None, **kwargs: Any
) -> Exploration:
    """Record a computation, forward and backward, to be looked at: `wg.explore(f, x).save("page.html")`.

    Parameters
    ----------
    target: a function, a module, a tensor with a graph, or a `wg.Graph`.
    args, kwargs: a function's arguments. Floating tensors, arrays and numbers among them are inputs, whose
        gradients are shown; parameters of modules keep being parameters. A graph's inputs; without any only its
        structure is shown.
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
    with aside():
        if isinstance(target, Tensor):
            return Exploration(from_tensor(target, names), compiled)
        if isinstance(target, Graph) and not args and not kwargs:
            return Exploration(from_graph(target), compiled)
        if isinstance(target, Graph):
            feed(target, args, kwargs)  # inputs that do not fit are the caller's error, not the run's
        if not callable(target):
            mend = "Give a function and its arguments, a tensor, a graph."
            fail(DTypeError, f"explore: a {type(target).__name__}", mend)
        return Exploration(record_call(target, args, kwargs, step), compiled)


def record_call(
    target: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], step: int | None = None
) -> Recording:
    """Run a function under the recorder."""
    inputs = _Inputs(target, args, kwargs)
    recorder = Recorder(step)
    error: BaseException | None = None
    notes: list[str] = []
    results: list[Tensor] = []
    with recorder.recording():
        try:
            results = tensors_of(target(*inputs.args, **inputs.kwargs))
            if not recorder.has_passed:
                _differentiate(results, notes)
        except Exception as e:
            error = e
    recorder.settle(error is not None)
    recording = recorded(recorder, inputs.nodes, results)
    inside = reached.tensors(recorder.variables.items())
    outside = reached.arrays([("", target), *recorder.variables.items()])
    name_leaves(recording.rows, reached.leaf_names(inside) | inputs.names, outside)
    recording.title, recording.script = inputs.title, inputs.script
    recording.error, recording.notes = error, [*notes, *recorder.notes()]
    recording.parameters = reached.parameters([*inputs.used, *inside])
    return recording


def _differentiate(results: Sequence[Tensor], notes: list[str]) -> None:
    """Run a backward pass from what a function returned: its first scalar, else the sum of everything."""
    tracked = [t for t in results if t.node is not None and t.requires_grad and category(t.dtype) >= 2]
    scalars = [t for t in tracked if t.size == 1 and category(t.dtype) == 2]
    if not tracked:
        return
    chosen = scalars[:1] or tracked
    if not scalars:
        notes.append("The result is no single number: shown are the gradients of the sum of its elements.")
    pairs = [(t.node, np.ones(t.shape, t.dtype)) for t in chosen if t.node is not None]
    reverse.backward_pass(pairs, None, create_graph=False, retain_graph=True)


class _Inputs:
    """A function's arguments as inputs with gradients, and the names of things."""

    def __init__(self, target: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self.names: dict[int, str] = {}
        self.nodes: list[Node] = []
        self._alive: list[Any] = []
        names = _names(target, len(args))
        self.used = reached.tensors([("", target), *((n, a) for n, a in zip(names, args) if callable(a))])
        for name, tensor in self.used:
            self._call(tensor, name)
        taken = [n.spec for n in target.inputs] if isinstance(target, Graph) else [t for _, t in self.used]
        self._number = _float_dtype(taken, (args, kwargs))
        self.args = [self._argument(name, value) for name, value in zip(names, args, strict=True)]
        self.kwargs = {name: self._argument(name, value) for name, value in kwargs.items()}
        called = getattr(target, "__name__", type(target).__name__)
        self.title = "lambda" if called == "<lambda>" else f"{called}({', '.join([*names, *kwargs])})"
        if isinstance(target, Graph):
            self.title = graph_title(target)
        code = getattr(inspect.unwrap(target), "__code__", None)
        file = code.co_filename if code is not None else ""
        self.script = _script(file)

    def _argument(self, name: str, value: Any) -> Any:
        if callable(value):
            return value
        leaves, structure = tree.flatten(value)
        if len(leaves) == 1 and leaves[0] is value:
            return self._leaf(name, value)
        return tree.unflatten(structure, [self._leaf(f"{name}.{i}", leaf) for i, leaf in enumerate(leaves)])

    def _leaf(self, name: str, value: Any) -> Any:
        if not isinstance(value, (Tensor, np.ndarray, np.generic)) and type(value) not in (float, complex):
            return value
        made = asarray(value, dtype=self._number if type(value) is float else None)
        if made._data is None:
            fail(GraphError, f"explore: the argument {name} is abstract", "Give a tensor with a value.")
        if category(made.dtype) >= 2 and made.node is None:
            made = wrap(made._data, made.spec).requires_grad_()
        if made.node is not None:
            self.nodes.append(made.node)
        self._call(made, name)
        return made

    def _call(self, tensor: Tensor, name: str) -> None:
        self.names.setdefault(reached.key(tensor), name)
        self._alive.append((tensor, tensor.node, tensor._data))


def _script(file: str) -> str:
    """Return the name of a file of code; a prompt and a notebook cell (`/tmp/ipykernel_7/42.py`) have none."""
    folder, name = os.path.split(file)
    return "" if file.startswith("<") or os.path.basename(folder).startswith("ipykernel_") else name


def _names_around() -> dict[int, str]:
    """Return the names of the caller's variables, and of what they lead to."""
    frame = user_frame(2)
    if frame is None:
        return {}
    variables = {**frame.f_globals, **frame.f_locals}
    return reached.leaf_names(reached.tensors([(n, v) for n, v in variables.items() if not n.startswith("_")]))


def _names(target: Any, count: int) -> list[str]:
    """Return a function's names for its arguments."""
    if isinstance(target, Graph):
        free = [target.names[n] for n in target.inputs if n not in target.bound]
        if len(free) == count:
            return free
    return parameter_names(getattr(target, "forward", target), count)


def _float_dtype(used: Sequence[Tensor | Spec], arguments: Any) -> Any:
    """Return the dtype for Python numbers: that of all floating tensors which the function uses, else float64."""
    given = [leaf for leaf in tree.leaves(arguments) if isinstance(leaf, (Tensor, np.ndarray, np.generic))]
    found = {x.dtype for x in [*used, *given] if np.dtype(x.dtype).kind == "f"}
    return found.pop() if len(found) == 1 else np.dtype(np.float64)
