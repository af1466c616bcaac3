"""A function as a program that can leave Python: one graph, and what its inputs and outputs are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core import tree
from ..core.dims import Dim
from ..core.errors import DTypeError, GraphError, fail
from ..core.graph.graph import Graph
from ..core.node import Node
from ..core.spec import Spec, spec_of
from ..core.tensor import Tensor, wrap
from ..execute.jit.capture.captured import Captures
from ..execute.jit.capture.results import output_of
from ..execute.jit.compiled import Lowered
from ..execute.jit.jit import Jit, jit
from ..execute.jit.signature import as_array
from ..execute.jit.tracing import Traced
from ..transforms.tracing.replay import replay
from ..transforms.tracing.trace import leaf_names, leaf_paths, trace
from .naming import names_of

Array = np.ndarray[Any, np.dtype[Any]]


class Value(NamedTuple):
    """An array that a program takes, gives or keeps: its name and its spec."""

    name: str
    spec: Spec


class Kept(NamedTuple):
    """An array that comes with a program: its name, its value, and the graph's input and output that have it.

    A weight has no output: no run changes it.
    """

    name: str
    value: Array
    input: int
    output: int | None = None


class Captured(NamedTuple):
    """A function as a program.

    `inputs` are what callers give, each with the graph's input that has it (None: the program does not read it), and
    `outputs` what they are given, each with the graph's output. `named` are the arrays outside by name, for constants
    that have their values.
    """

    name: str
    graph: Graph
    inputs: tuple[tuple[Value, int | None], ...]
    outputs: tuple[tuple[Value, int], ...]
    weights: tuple[Kept, ...]
    state: tuple[Kept, ...]
    named: dict[str, Array]
    examples: dict[str, Array]


def captured(fn: Callable[..., Any], specs: Any, freeze: bool) -> Captured:
    """Trace a function for arguments of these specs.

    With `freeze` what it finds outside and does not write to becomes constants. Raises GraphError for what cannot
    leave Python, with the user's line where there is one.
    """
    if not callable(fn):
        fail(DTypeError, f"wg.export of {fn!r}, which is no function", "It takes a function of tensors, or a module.")
    if isinstance(fn, Jit) and type(fn) is not Jit:
        fail(GraphError, "wg.export of a function of many ranks", "Export the function of one process.")
    compiled = fn if isinstance(fn, Jit) else jit(fn)
    given = tuple(specs) if isinstance(specs, (tuple, list)) and not hasattr(specs, "_fields") else (specs,)
    lowered = compiled.lower(*(tree.map(_as_spec, a) if not _is_owner(a) else a for a in given))
    inner = compiled._fn
    found: Captured = lowered.look(lambda: _captured(lowered, inner, freeze))
    leaves = tree.leaves((given, {}))
    names = _argument_names(lowered, inner)
    examples = {n: _example(leaf) for n, leaf in zip(names, leaves) if isinstance(leaf, _VALUES)}
    return found._replace(examples=examples)


def _argument_names(lowered: Lowered, fn: Callable[..., Any]) -> list[str]:
    """Return the names of the arguments' leaves: of a module as its `forward` has them."""
    forward = getattr(fn, "forward", None) if hasattr(type(fn), "named_parameters") else None
    return list(leaf_names(forward or fn, lowered.call.structure))


# What is an argument by example.
_VALUES = (Tensor, np.ndarray, np.generic)


def _example(leaf: Any) -> Array:
    return np.array(as_array(leaf.detach() if isinstance(leaf, Tensor) else leaf), order="C")


def _is_owner(x: Any) -> bool:
    return hasattr(type(x), "named_parameters") or hasattr(type(x), "__jit_cells__")


def _as_spec(leaf: Any) -> Any:
    """Return a tensor or an array, which is an example, as a spec; anything else as it is."""
    if isinstance(leaf, Tensor):
        return leaf.spec
    return spec_of(leaf.shape, leaf.dtype) if isinstance(leaf, (np.ndarray, np.generic)) else leaf


def _captured(lowered: Lowered, fn: Callable[..., Any], freeze: bool) -> Captured:
    traced, captures, call = lowered.traced, lowered.captures, lowered.call
    name = traced.graph.name or getattr(fn, "__name__", "") or type(fn).__name__
    for node in traced.graph.inputs:
        unknown = next((d for d in node.spec.shape if isinstance(d, Dim)), None)
        if unknown is not None:
            fail(
                GraphError,
                f"wg.export of {name} for an open size, {unknown}",
                "Memory is laid out before it runs: give specs with sizes, wg.spec((8, 784)).",
            )
    _refuse(name, traced, captures)
    results = _results(name, traced)
    arguments = _argument_names(lowered, fn)
    state_outputs = {("cell", w.number): w.output for w in traced.cell_writes}
    state_outputs |= {("cell gradient", w.number): w.output for w in traced.cell_grads if w.output is not None}
    names = names_of(captures.cells, captures, fn)
    kept: list[Kept] = []
    outputs: list[int] = [k for _, k in results]
    number_of: dict[int, int] = {}
    for k, (kind, i) in enumerate(traced.sources):
        if kind == "argument":
            number_of[i] = k
            continue
        output = state_outputs.get((kind, i))
        if kind == "cell gradient":
            value, called = captures.cells[i].tensor.grad._array, f"{names[i]}.grad"  # type: ignore[attr-defined]
        else:
            value, called = captures.cells[i].get(), names[i]
        kept.append(Kept(called, np.array(as_array(value), order="C"), k, output))
        if output is not None:
            _check_kept(name, called, traced.graph.inputs[k].spec, traced.graph.outputs[output])
    read = {(kind, i) for kind, i in traced.sources}
    for w in traced.cell_writes:
        if ("cell", w.number) not in read:
            # It is overwritten and never read: it is state all the same, for whoever saves it.
            cell = captures.cells[w.number]
            _check_kept(name, names[w.number], cell.spec, traced.graph.outputs[w.output])
            kept.append(Kept(names[w.number], np.array(as_array(cell.get()), order="C"), -1, w.output))
    state = [x for x in kept if x.output is not None]
    weights = [x for x in kept if x.output is None]
    outputs += [x.output for x in state if x.output is not None]
    inputs = [
        (Value(arguments[leaf], _spec_at(call.leaves[leaf])), number_of.get(i)) for i, leaf in enumerate(call.positions)
    ]
    graph = Graph([traced.graph.outputs[k] for k in outputs], traced.graph.inputs, traced.graph.name)
    named = {x.name: x.value for x in kept}
    made = Captured(
        name,
        graph,
        tuple(inputs),
        tuple((v, i) for i, (v, _) in enumerate(results)),
        tuple(weights),
        tuple(x._replace(output=len(results) + i) for i, x in enumerate(state)),
        named,
        {},
    )
    return frozen(made) if freeze else made


def _spec_at(leaf: Any) -> Spec:
    if isinstance(leaf, Spec):
        return leaf
    value = as_array(leaf)
    return spec_of(value.shape, value.dtype)


def _check_kept(name: str, called: str, before: Spec, after: Node) -> None:
    if before != after.spec:
        fail(
            GraphError,
            f"wg.export of {name}, which gives {called} another shape or dtype: {before} becomes {after.spec}",
            "State has one shape and one dtype. Keep it in that, or return the new value.",
            _where(after),
        )


def _results(name: str, traced: Traced) -> list[tuple[Value, int]]:
    """Return the results that are tensors, by name, with the graph's output of each."""
    structure = traced.structure
    top = "" if structure.kind is dict or hasattr(structure.kind, "_fields") else "result"
    found: list[tuple[Value, int]] = []
    paths = leaf_paths(structure, top) if structure.kind is not None else iter(["result"])
    for path, result in zip(paths, traced.results):
        k = output_of(result)
        if k is None:
            fail(
                GraphError,
                f"wg.export of {name}, which returns what is no tensor: {path} = {getattr(result, 'value', result)!r}",
                "A program without Python gives arrays. Return tensors alone.",
            )
        found.append((Value(path, traced.graph.outputs[k].spec), k))
    return found


def _refuse(name: str, traced: Traced, captures: Captures) -> None:
    """Refuse what only Python can do."""
    for is_so, what, where, mend in _refusals(traced, captures):
        if is_so:
            fail(GraphError, f"wg.export of {name}, which {what}", mend, where)


def _refusals(traced: Traced, captures: Captures) -> Iterator[tuple[bool, str, str | None, str]]:
    guard = traced.guards[0] if traced.guards else None
    yield (
        guard is not None,
        f"decides by a tensor's value ({guard.what})" if guard is not None else "",
        guard.where if guard is not None else None,
        "Write wg.where for a choice between values, wg.cond for one between computations.",
    )
    yield traced.has_effects, "prints or calls back", None, "Leave wg.debug.print and wg.callback out."
    written = [*traced.argument_writes, *traced.argument_grads]
    yield bool(written), "writes to its arguments", None, "Return the new values, or keep them outside as state."
    place = next((w.place(captures).path for w in traced.place_writes), "")
    yield bool(place), f"puts objects into places of Python's ({place})", None, "Return them, or keep tensors outside."
    flags = bool(traced.flag_writes)
    yield flags, "lets a tensor begin or cease to collect gradients", None, "Do that outside of the function."
    yield (
        not traced.is_repeatable,
        "draws numbers or changes objects in Python code",
        None,
        "Draw by wg.random, keep what changes in tensors, or pass it as an argument.",
    )
    left = {w.number: w.output is not None for w in traced.cell_grads}
    for (kind, i), there in traced.grads_read:
        if kind == "cell gradient" and left.get(i, there) is not there:
            path = captures.names[captures.cells[i].key]
            yield (
                True,
                f"does another thing the second time: the gradient of {path} is {'gone' if there else 'there'} then",
                None,
                "Call optimizer.zero_grad() before loss.backward().",
            )


def _where(node: Node) -> str | None:
    return None if node.source is None else f"{node.source.file}:{node.source.line}"


def frozen(program: Captured) -> Captured:
    """Return a program whose weights are constants of the graph."""
    weights = {x.input: x.value for x in program.weights}
    left = [k for k in range(len(program.graph.inputs)) if k not in weights]
    number = {k: i for i, k in enumerate(left)}
    graph = program.graph

    def fn(*xs: Any) -> list[Any]:
        feeds = [wrap(weights[k]) if k in weights else xs[number[k]] for k in range(len(graph.inputs))]
        return list(replay(graph, feeds))

    made = trace(fn, tuple(graph.inputs[k].spec for k in left), {})
    moved: Sequence[int | None] = [number.get(k) for k in range(len(graph.inputs))]
    return program._replace(
        graph=Graph(made.outputs, made.inputs, graph.name),
        inputs=tuple((v, None if k is None else moved[k]) for v, k in program.inputs),
        weights=(),
        state=tuple(x._replace(input=-1 if x.input < 0 else number[x.input]) for x in program.state),
    )
