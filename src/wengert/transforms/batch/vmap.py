"""The transform `vmap`: a function of one example becomes a function of many, by a transformation of its graph.

The function is traced for one example; each op then runs once for all of them. Ops count their axes
from the right and accept leading axes, so most need nothing but aligned ranks; the others have a
rule in :mod:`.batch_rules`.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Literal, get_args

import numpy as np

from ...core import tree
from ...core.arrays import refuse_subclass
from ...core.errors import GraphError, ShapeError, fail
from ...core.graph.graph import Graph
from ...core.graph.snapshot import CONSTANT
from ...core.mode import get_mode, reset_mode, set_mode
from ...core.node import Node
from ...core.ops.op import ALIAS, LEAF, TABLE
from ...core.ops.record import OUTPUT, bind
from ...core.spec import spec_of
from ...core.standins import WeakTensor
from ...core.state.observer import observer, observers
from ...core.tensor import Tensor, as_like, asarray, like, wrap
from ...ops.random.draws import takes_position
from ...ops.random.generator import Examples
from ...ops.random.keys import is_key
from ..derivatives.custom_op import CustomOp
from ..derivatives.variables import refuse_none
from ..tracing.open_trace import OpenTrace, open_trace
from ..tracing.replay import at_its_line, plain_value, record_again
from . import rules as batch_rules
from .rules import Batched

Axes = Any  # an int, None, or a pytree of them that is a prefix of the arguments' pytree
Randomness = Literal["error", "same", "different"]
_UNSAID: Any = object()
_NOTHING = tree.structure(None)


def vmap(
    fn: Callable[..., Any],
    in_axes: Axes = 0,
    out_axes: Axes = 0,
    axis_size: int | None = None,
    randomness: Randomness = "error",
    *,
    in_dims: Axes = _UNSAID,
    out_dims: Axes = _UNSAID,
) -> Callable[..., Any]:
    """Return the function that maps `fn` over an axis of its arguments, all examples at once.

    Parameters
    ----------
    fn: a function of pytrees of tensors that returns a pytree of tensors, written for one example.
    in_axes: the axis to map over for each positional argument: an int, None for an argument that
        every example shares, or a tuple with an entry for each argument, which may be a pytree that
        begins like the argument's (a dict of axes for a dict of tensors). Keyword arguments are
        mapped over axis 0.
    out_axes: where the axis goes in the results: an int, or a pytree that begins like the result's.
        None asks for a result that is the same for every example, without the axis.
    axis_size: the number of examples, needed only where no argument is mapped.
    randomness: what random numbers drawn inside do: "error", "same" for every example, or
        "different" for each. Of a generator, different ones are those that one draw for the whole batch gives.
    in_dims, out_dims: PyTorch's names of `in_axes` and `out_axes`.

    `fn` is traced (see :func:`wengert.graph`): inside, a tensor has the shape of one example and no
    value, so a Python `if` on it is an error; use `wg.where` or `wg.cond`. Tensors used from outside
    are shared by all examples, and gradients flow to them. Python numbers, booleans and strings are
    passed on as they are. It nests with itself and every other transform: per-example gradients
    are `wg.vmap(wg.grad(loss), in_axes=(None, 0, 0))`.

    Raises ShapeError for axes that do not exist or sizes that differ, TraceError where `fn` needs a value, GraphError.

    >>> import wengert as wg
    >>> wg.vmap(lambda a, b: a @ b)(wg.ones(3, 2), wg.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
    tensor([ 3.,  7., 11.])
    >>> wg.vmap(wg.grad(lambda w, x: (w * x) ** 2), in_axes=(None, 0))(2.0, wg.tensor([1.0, 3.0]))
    tensor([ 4., 36.])
    """
    in_axes = in_axes if in_dims is _UNSAID else in_dims
    out_axes = out_axes if out_dims is _UNSAID else out_dims
    if randomness not in get_args(Randomness):
        fail(GraphError, f"vmap: randomness {randomness!r}", f"It is one of {', '.join(get_args(Randomness))}.")
    name = getattr(fn, "__name__", type(fn).__name__)

    @functools.wraps(fn, updated=())
    def mapped(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = tree.flatten((args, dict(sorted(kwargs.items()))), is_key)
        axes = _input_axes(in_axes, args, kwargs, name)
        tensors = [_tensor(leaf, axis, name) for leaf, axis in zip(leaves, axes, strict=True)]
        size = _axis_size(tensors, axes, axis_size, name)
        feeds = [
            (t if axis is None else _to_front(t, axis), axis is not None)
            for t, axis in zip(tensors, axes, strict=True)
            if t is not None
        ]
        specs = [spec_of(t.shape[1:], t.dtype) if b else t.spec for t, b in feeds]

        examples = None if randomness == "error" else Examples(size, randomness == "same")

        def arguments(inputs: Sequence[Tensor]) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
            if examples is not None:
                examples.mapped.update(t.node for t, (_, b) in zip(inputs, feeds, strict=True) if b and t.node)
            rest = iter(inputs)
            filled = [leaf if t is None else like(t, next(rest)) for leaf, t in zip(leaves, tensors, strict=True)]
            inner: tuple[tuple[Any, ...], Mapping[str, Any]] = tree.unflatten(structure, filled)
            return inner

        numbers = [type(t) is WeakTensor for t, _ in feeds]
        with nullcontext() if examples is None else examples:
            opened = open_trace(fn, specs, arguments, [t.requires_grad for t, _ in feeds], numbers)
            if opened.structure == _NOTHING:
                refuse_none(None, name)
            found = _run_trace(opened, feeds, size, randomness)
        # Of the class that the function gives: what is drawn inside is made of no argument that would have it.
        outs = list(map(as_like, opened.outs, _place(found, out_axes, opened, size, name)))
        return tree.unflatten(opened.structure, outs)

    made: BatchedForm | None = getattr(fn, FORM, None)
    return mapped if made is None else _compiled(mapped, made, (in_axes, out_axes, axis_size, randomness))


# What a compiled function has under this name: a function that runs a transform of it as a program, given a key for the
# program, the transform, and its arguments.
FORM = "_form"
BatchedForm = Callable[[Any, Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]


def _compiled(mapped: Callable[..., Any], made: BatchedForm, asked: tuple[Any, ...]) -> Callable[..., Any]:
    """Return the batched form of a compiled function, compiled too: its Python code runs once for each kind of call."""
    try:
        hash(asked)
    except TypeError:
        return mapped  # axes in lists and dicts

    @functools.wraps(mapped, updated=())
    def run(*args: Any, **kwargs: Any) -> Any:
        return made(asked, mapped, args, kwargs)

    found: Any = run
    found._form = lambda key, *call: made((asked, key), *call)  # it may be mapped again
    return run


def _run_trace(trace: OpenTrace, feeds: Sequence[tuple[Tensor, bool]], size: int, randomness: str) -> list[Batched]:
    """Return the results of a traced function for mapped and shared arguments, from its recorded nodes."""
    values: dict[Any, Batched] = {t.node: Batched(*fed) for t, fed in zip(trace.inputs, feeds, strict=True)}
    results = trace.results
    operands = {node: trace.operands(node) for node in trace.inside if node not in values}
    left = Counter(e for found in (*operands.values(), results) for e in found if isinstance(e, Node))
    mode = get_mode()
    token = set_mode(mode.as_recorded(mode.grad))
    try:
        for node, found in operands.items():
            args = [values[e] if isinstance(e, Node) else Batched(e, False) for e in found]
            values[node] = args[0] if node.op is ALIAS or node.op is LEAF else _run_node(node, args, size, randomness)
            for e in found:
                if isinstance(e, Node):
                    left[e] -= 1
                    if not left[e]:
                        values.pop(e, None)
    finally:
        reset_mode(token)
    return [values[r] if isinstance(r, Node) else Batched(r, False) for r in results]


def run_batched(graph: Graph, feeds: Sequence[tuple[Tensor, bool]], size: int, randomness: str) -> list[Batched]:
    """Run a graph for one example on inputs of which some have the examples along a leading axis."""
    values: dict[Node, Any] = {node: Batched(*fed) for node, fed in zip(graph.inputs, feeds, strict=True)}
    last_uses = graph.last_uses
    for node in graph.nodes:
        if node not in values:
            args = [values[e] if isinstance(e, Node) else Batched(e, False) for e in node.inputs]
            values[node] = _run_node(node, args, size, randomness)
        for done in last_uses.get(node, ()):
            del values[done]
    return [Batched(plain_value(v.value), v.mapped) for v in (values[n] for n in graph.outputs)]


def _run_node(node: Node, args: list[Batched], size: int, randomness: str) -> Batched:
    if observers and (seen := observer()) is not None:
        return at_its_line(seen, node, lambda: _run_batched_node(node, args, size, randomness))
    return _run_batched_node(node, args, size, randomness)


def _run_batched_node(node: Node, args: list[Batched], size: int, randomness: str) -> Batched:
    op = node.op
    if op is CONSTANT:
        return Batched(wrap(node.attrs["value"]), False)
    # Examples that bring keys of their own draw with them, whatever the others do.
    draws = op.draws and not (takes_position(op) and any(a.mapped for a in args[-2:]))
    if draws and randomness == "error":
        fail(
            GraphError,
            f"vmap: {op.name} draws random numbers",
            'Say whether every example gets the same or its own: vmap(f, randomness="different").',
        )
    if draws and randomness == "different":
        return Batched(batch_rules.draw(node, args, size), True)
    if op is OUTPUT:
        found = args[0].value[node.attrs["index"]]
        return found if isinstance(found, Batched) else Batched(found, args[0].mapped)
    if not any(a.mapped for a in args) and op.kind != "control":
        return Batched(record_again(node, [a.value for a in args]), False)
    if op.kind == "control":
        return Batched(CONTROL[op.name](node, args, size, randomness), True)
    if isinstance(op, CustomOp) and op.batched is not None:
        return Batched(op.batched(tuple(a.mapped for a in args))(*(a.value for a in args)), True)
    rule = batch_rules.rule_for(node, args)
    if rule is not None:
        return Batched(rule(node, args, size), True)
    if op.body is not None:
        return _inside(node, args, size, randomness)
    return Batched(_one_by_one(node, args, size), True)


# By op: rules that run graphs inside, and so need to know what random numbers do. They give a tuple of Batched.
CONTROL: dict[str, Callable[[Node, list[Batched], int, str], tuple[Batched, ...]]] = {}


def _inside(node: Node, args: list[Batched], size: int, randomness: str) -> Batched:
    """Run a composite by the graph inside it."""
    inner = batch_rules.inner_graph(node, args)
    feeds = [(a.value, a.mapped) for a in args if isinstance(a.value, Tensor)]
    found = run_batched(inner, feeds, size, randomness)
    full = [batch_rules.spread(f, size) for f in found]
    return Batched(full[0] if node.op.results == 1 else tuple(full), True)


def _one_by_one(node: Node, args: list[Batched], size: int) -> Any:
    """Run an op that has no rule, example after example."""
    runs = []
    for i in range(size):
        picked = [a.value[i] if a.mapped else a.value for a in args]
        runs.append(bind(node.op, picked, node.attrs))
    if not runs:
        specs: Any = node.spec if isinstance(node.spec, tuple) else (node.spec,)
        empty = tuple(wrap(np.zeros((0, *s.shape), s.dtype)) for s in specs)
        return empty if isinstance(node.spec, tuple) else empty[0]
    stack = TABLE["stack"].front
    if isinstance(runs[0], tuple):
        return tuple(stack(*parts, axis=-1 - parts[0].ndim) for parts in zip(*runs, strict=True))
    return stack(*runs, axis=-1 - runs[0].ndim)


# -- axes


def _input_axes(in_axes: Axes, args: tuple[Any, ...], kwargs: Mapping[str, Any], name: str) -> list[int | None]:
    if isinstance(in_axes, (tuple, list)):
        if len(in_axes) != len(args):
            fail(
                ShapeError,
                f"vmap of {name}: in_axes has {len(in_axes)} entries for {len(args)} positional arguments",
                "Give one axis (or None) for each, or one int for all.",
            )
        entries = list(in_axes)
    else:
        entries = [in_axes] * len(args)
    axes = [
        a for entry, arg in zip(entries, args, strict=True) for a in _prefix(entry, arg, f"vmap of {name}: in_axes")
    ]
    return axes + [0 for value in dict(sorted(kwargs.items())).values() for _ in tree.flatten(value, is_key)[0]]


def _prefix(entry: Axes, pytree: Any, what: str) -> list[int | None]:
    """Return one axis for every leaf of a pytree, from a pytree of axes that begins like it."""
    if entry is None or isinstance(entry, (int, np.integer)):
        return [None if entry is None else int(entry)] * len(tree.flatten(pytree, is_key)[0])
    if isinstance(entry, dict) and isinstance(pytree, dict):
        if set(entry) != set(pytree):
            fail(ShapeError, f"{what} names {sorted(entry)} where the argument has {sorted(pytree)}")
        return [a for key in pytree for a in _prefix(entry[key], pytree[key], what)]
    if isinstance(entry, (tuple, list)) and isinstance(pytree, (tuple, list)) and len(entry) == len(pytree):
        return [a for e, n in zip(entry, pytree, strict=True) for a in _prefix(e, n, what)]
    structure = tree.structure(pytree)
    found, given = tree.flatten(entry)
    if given == structure:
        return [None if a is None else int(a) for a in found]
    fail(
        ShapeError,
        f"{what} {given} does not begin like the pytree {structure}",
        "Use an int, None, or a matching pytree.",
    )


def _tensor(leaf: Any, axis: int | None, name: str) -> Tensor | None:
    """Return a leaf as a tensor; None for a leaf that is passed on as it is."""
    if isinstance(leaf, Tensor):
        return leaf
    if isinstance(leaf, (np.ndarray, np.generic)):
        refuse_subclass(leaf, f"vmap of {name}")
        return asarray(leaf)
    if type(leaf) in (int, float, complex) and axis is not None:
        fail(
            ShapeError,
            f"vmap of {name}: the number {leaf!r} has no axis {axis}",
            "Give in_axes=None for an argument that every example shares.",
        )
    return None


def _axis_size(tensors: Sequence[Tensor | None], axes: Sequence[int | None], given: int | None, name: str) -> int:
    sizes: dict[int, Tensor] = {} if given is None else {given: wrap(np.zeros(given))}
    for t, axis in zip(tensors, axes, strict=True):
        if t is None or axis is None:
            continue
        if not -t.ndim <= axis < t.ndim:
            fail(
                ShapeError,
                f"vmap of {name}: axis {axis} of a tensor {t.spec} with {t.ndim} dimensions",
                "Choose another axis with in_axes=, or None for an argument that every example shares.",
            )
        sizes.setdefault(t.shape[axis], t)
    if not sizes:
        fail(ShapeError, f"vmap of {name}: no argument is mapped", "Map one with in_axes=, or say axis_size=.")
    if len(sizes) > 1:
        found = " and ".join(f"{n} ({t.spec})" for n, t in sizes.items())
        fail(ShapeError, f"vmap of {name}: the mapped axes have different sizes: {found}")
    return next(iter(sizes))


def _to_front(t: Tensor, axis: int) -> Tensor:
    return t if axis % t.ndim == 0 else batch_rules.move(t, axis % t.ndim, 0)


def _place(found: Sequence[Batched], out_axes: Axes, opened: OpenTrace, size: int, name: str) -> list[Tensor]:
    pytree = tree.unflatten(opened.structure, range(len(found)))
    outs = []
    for result, axis in zip(found, _prefix(out_axes, pytree, f"vmap of {name}: out_axes"), strict=True):
        if axis is None:
            if result.mapped:
                fail(
                    ShapeError,
                    f"vmap of {name}: out_axes is None for a result that differs between examples",
                    "Give the axis that the examples are to have in it.",
                )
            outs.append(result.value)
            continue
        full = batch_rules.spread(result, size)
        if not -full.ndim <= axis < full.ndim:
            fail(ShapeError, f"vmap of {name}: out_axes {axis} for a result {full.spec}")
        outs.append(full if axis % full.ndim == 0 else batch_rules.move(full, 0, axis % full.ndim))
    return outs
