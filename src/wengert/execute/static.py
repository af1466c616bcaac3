"""The explicit static style: placeholders, expressions on them, and functions compiled from those."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..core import tree
from ..core.dims import Dim, bind_dims, has_dims
from ..core.dtypes import DType
from ..core.errors import DTypeError, FeedError, GraphError, fail
from ..core.graph.checked import inferred
from ..core.graph.evaluate import run
from ..core.graph.graph import Graph
from ..core.graph.snapshot import located
from ..core.mode import get_mode
from ..core.node import Node, make_node
from ..core.ops.op import INPUT
from ..core.ops.record import caller
from ..core.spec import Spec, as_dtype, category, spec_of
from ..core.tensor import Tensor, asarray, wrap
from ..transforms.tracing.trace import unknown_sizes

Size = int | str | None

_BOUND_GRAPHS = 64  # graphs with their sizes filled in that a function keeps


class Placeholder(Tensor):
    """A tensor without a value, to be fed, as :func:`placeholder` returns it.

    >>> import wengert as wg
    >>> x = wg.placeholder((None, 3), name="x")
    >>> x.name, x.ndim
    ('x', 2)
    """

    __slots__ = ("value",)

    # What an update left, or what the function was last fed where it updates this placeholder.
    value: Tensor | None

    @property
    def name(self) -> str:
        """The name that errors and keyword feeds use."""
        assert self.node is not None
        name: str = self.node.attrs["name"]
        return name


def placeholder(shape: Sequence[Size] | int, dtype: Any = float, name: str = "", value: Any = None) -> Placeholder:
    """Return a tensor without a value, on which expressions are built before anything is computed.

    Parameters
    ----------
    shape: sizes; None for one that is known only when fed. An unknown size is the same one in
        every placeholder that has None at that axis; a string names it instead.
    dtype: the dtype, float32 by default.
    name: for errors and for feeding by keyword.
    value: a value to start from, for one that a function updates.

    Gradients can be taken in any floating placeholder.

    Raises DTypeError, ShapeError.

    >>> import wengert as wg
    >>> x = wg.placeholder((None, 3), wg.float32, name="x")
    >>> f = wg.function([x], (x * x).sum())
    >>> f(wg.ones((2, 3)))
    tensor(6.)
    """
    sizes = (shape,) if isinstance(shape, (int, str)) or shape is None else tuple(shape)
    spec = spec_of(tuple(_size(n) for n in unknown_sizes(sizes)), as_dtype(dtype))
    code, offset = caller()
    tracked = category(spec.dtype) >= 2
    node = make_node(INPUT, (), {"name": name}, (), spec, code, offset, get_mode().scope, tracked)
    out = Placeholder.__new__(Placeholder)
    out._data = out._share = None
    out.node = node
    out.value = None if value is None else _feed(out, value, {}, name or "the placeholder")
    return out


def _size(n: Any) -> Any:
    if isinstance(n, Dim):
        return n
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 0:
        fail(DTypeError, f"a placeholder's size is an int, a name or None, not {n!r}")
    return int(n)


def function(
    inputs: Sequence[Tensor], outputs: Any, updates: Sequence[tuple[Tensor, Any]] = (), name: str = ""
) -> Function:
    """Return a callable that computes `outputs` from values fed for `inputs`.

    Parameters
    ----------
    inputs: placeholders, and tensors whose value may be replaced in a call.
    outputs: an expression, or a pytree of them; the call returns tensors in the same pytree.
    updates: pairs of a tensor (or placeholder) and an expression of its shape: after the outputs are
        computed it takes the expression's value, all of them at once.

    A call takes the inputs in order or by name. An input that holds a value (a tensor, a placeholder
    made with `value=`, or one that was updated) may be left out. Leaves that the expressions use
    and that are not inputs are read anew in every call.

    Raises GraphError here; FeedError in a call with inputs missing, surplus, or of the wrong shape
    or dtype.

    >>> import wengert as wg
    >>> w = wg.placeholder((), name="w", value=5.0)
    >>> loss = (w - 3.0) ** 2
    >>> (g,) = wg.autograd.grad(loss, [w])
    >>> step = wg.function([w], loss, updates=[(w, w - 0.25 * g)])
    >>> [step().item() for _ in range(3)]
    [4.0, 1.0, 0.25]
    """
    return Function(inputs, outputs, updates, name)


class Function:
    """A graph with feeds and updates, as :func:`function` returns it.

    `graph` is what a call runs: the outputs, then the updates' new values.
    """

    __slots__ = ("graph", "inputs", "_structure", "_count", "_targets", "_name", "_labels", "_open", "_bound")

    def __init__(
        self, inputs: Sequence[Tensor], outputs: Any, updates: Sequence[tuple[Tensor, Any]], name: str
    ) -> None:
        self._name = name or "the function"
        self.inputs = tuple(inputs)
        for i, x in enumerate(self.inputs):
            if not isinstance(x, Tensor):
                fail(GraphError, f"input {i} of {self._name} is a {type(x).__name__}, not a placeholder or tensor")
            if x.is_abstract and not isinstance(x, Placeholder):
                fail(GraphError, f"input {i} of {self._name} is an expression, not a placeholder", "Feed its inputs.")
        self._labels = tuple(_label(x, i) for i, x in enumerate(self.inputs))
        leaves, self._structure = tree.flatten(outputs)
        results = [leaf if isinstance(leaf, Tensor) else asarray(leaf) for leaf in leaves]
        self._count = len(results)
        self._targets = []
        for target, value in updates:
            new = value if isinstance(value, Tensor) else asarray(value)
            _check_update(target, new)
            self._targets.append(target)
            results.append(new)
        self.graph = Graph.of(results, list(self.inputs), name=name)
        self._open = any(has_dims(_shapes(n)) for n in self.graph.nodes)
        self._bound: dict[tuple[tuple[str, int], ...], Graph] = {}
        unfed = [n for n in self.graph.inputs[len(self.inputs) :] if n not in self.graph.bound]
        if unfed:
            names = ", ".join(n.attrs["name"] or str(n.spec) for n in unfed)
            fail(GraphError, f"{self._name} depends on {names}, which is not among its inputs", "Add it to the inputs.")

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Feed the inputs, compute the outputs, carry the updates out."""
        sizes: dict[str, int] = {}
        feeds = [
            _feed(x, given, sizes, label)
            for x, given, label in zip(self.inputs, self._given(args, named), self._labels, strict=True)
        ]
        values = [f._array for f in feeds]
        values += [self.graph.bound[n]._array for n in self.graph.inputs[len(self.inputs) :]]
        found = [wrap(np.asarray(v)) for v in run(self.graph_for(sizes), values)]
        for x, fed in zip(self.inputs, feeds, strict=True):
            if isinstance(x, Placeholder) and any(t is x for t in self._targets):
                x.value = fed
        for target, value in zip(self._targets, found[self._count :], strict=True):
            if isinstance(target, Placeholder):
                target.value = value
            else:
                target.assign_(value)
        return tree.unflatten(self._structure, found[: self._count])

    def graph_for(self, sizes: Mapping[str, int]) -> Graph:
        """Return the graph with the unknown sizes replaced by numbers: the graph that a call with such feeds runs."""
        if not self._open:
            return self.graph
        key = tuple(sorted(sizes.items()))
        found = self._bound.get(key)
        if found is None:
            if len(self._bound) >= _BOUND_GRAPHS:
                self._bound.clear()
            found = self._bound[key] = _with_sizes(self.graph, sizes)
        return found

    def _given(self, args: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        """Return the values that the call feeds for each input, in order."""
        if len(args) > len(self.inputs):
            fail(FeedError, f"{self._name} takes {len(self.inputs)} inputs ({self._signature()}), not {len(args)}")
        given: list[Any] = [*args, *([None] * (len(self.inputs) - len(args)))]
        for key, value in named.items():
            if key not in self._labels:
                fail(FeedError, f"{self._name} has no input {key!r}", f"Its inputs: {self._signature()}.")
            i = self._labels.index(key)
            if i < len(args):
                fail(FeedError, f"{self._name}: input {key!r} is fed twice")
            given[i] = value
        missing = []
        for i, x in enumerate(self.inputs):
            if given[i] is None:
                given[i] = x.value if isinstance(x, Placeholder) else x
            if given[i] is None:
                missing.append(f"{self._labels[i]} {x.spec}")
        if missing:
            fail(
                FeedError,
                f"{self._name}: no value for {', '.join(missing)}",
                f"Feed it in the call, in order or by name: {self._signature()}.",
            )
        return given

    def _signature(self) -> str:
        return ", ".join(f"{label}: {x.spec}" for label, x in zip(self._labels, self.inputs, strict=True))

    def __repr__(self) -> str:
        return f"<wengert function ({self._signature()}), {len(self.graph)} nodes>"


def _shapes(node: Node) -> Any:
    specs = node.spec if isinstance(node.spec, tuple) else (node.spec,)
    return (*(s.shape for s in specs), *node.attrs.values())


def _with_sizes(graph: Graph, sizes: Mapping[str, int]) -> Graph:
    """Return the same graph for one choice of the unknown sizes."""
    replace: dict[Node, Node] = {}
    for node in graph.nodes:
        inputs = tuple(replace[e] if isinstance(e, Node) else e for e in node.inputs)
        attrs = {k: _bound(v, sizes) for k, v in node.attrs.items()}
        spec: Any = node.spec
        if isinstance(spec, tuple):
            spec = tuple(s.with_shape(bind_dims(s.shape, sizes)) for s in spec)
        else:
            spec = spec.with_shape(bind_dims(spec.shape, sizes))
        _check_sizes(node, inputs, attrs, spec, sizes)
        replace[node] = located(node.op, inputs, attrs, spec, node.code, node.offset, node.scope)
    return Graph([replace[n] for n in graph.outputs], [replace[n] for n in graph.inputs], graph.name)


def _bound(value: Any, sizes: Mapping[str, int]) -> Any:
    """Return an attribute, a graph among them, with its unknown sizes replaced by numbers."""
    if isinstance(value, Graph):
        return _with_sizes(value, sizes)
    return tuple(_bound(v, sizes) for v in value) if isinstance(value, tuple) else bind_dims(value, sizes)


def _check_sizes(
    node: Node, inputs: Sequence[Any], attrs: Mapping[str, Any], spec: Any, sizes: Mapping[str, int]
) -> None:
    """Raise FeedError where the shape inferred without the sizes is not the one with them."""
    if not hasattr(node.op, "infer"):
        return
    found = inferred(node.op, [e.spec if isinstance(e, Node) else e for e in inputs], attrs)
    if found != spec:
        made = node.source
        fail(
            FeedError,
            f"the sizes {', '.join(f'{k} = {n}' for k, n in sizes.items())} do not suit {node.op.name}: "
            f"its result is {found}, not {spec}",
            "A slice of an axis of unknown size is taken to lie inside the axis"
            + (f"; this one is at {made}." if made is not None else "."),
        )


def _label(x: Tensor, index: int) -> str:
    return (x.name if isinstance(x, Placeholder) else "") or f"input{index}"


def _check_update(target: Any, new: Tensor) -> None:
    if not isinstance(target, Tensor) or (target.is_abstract and not isinstance(target, Placeholder)):
        fail(GraphError, "an update's target must be a placeholder or a tensor that holds a value")
    if not isinstance(target, Placeholder) and not target.is_leaf:
        fail(GraphError, f"an update of a tensor computed by {target.node}, {target.spec}", "Update a leaf.")
    if target.spec != new.spec:
        fail(
            GraphError,
            f"an update of {target.spec} with a value of {new.spec}",
            "Shape and dtype must stay: reduce, reshape or cast the expression.",
        )


def _feed(x: Tensor, value: Any, sizes: dict[str, int], label: str) -> Tensor:
    """Return `value` as a tensor that fits the placeholder; sizes that were unknown are recorded in `sizes`."""
    given = value if isinstance(value, Tensor) else asarray(value)
    if given.is_abstract:
        fail(FeedError, f"{label} is fed an abstract tensor, {given.spec}", "Feed a tensor or array with a value.")
    want: Spec = x.spec
    if given.dtype != want.dtype:
        if not _widens(given.dtype, want.dtype, isinstance(value, Tensor)):
            fail(FeedError, f"{label} is {want}, fed {given.spec}", f"Cast it: x.astype(wg.{want.dtype}).")
        given = asarray(given, dtype=want.dtype)
    fits = len(want.shape) == given.ndim
    for axis, (n, size) in enumerate(zip(want.shape, given.shape, strict=False)):
        if isinstance(n, Dim):
            known = sizes.setdefault(str(n), size)
            if known != size:
                fail(
                    FeedError,
                    f"{label}: axis {axis} has size {size} where {n} is already {known}, fed {given.spec} for {want}",
                    "An unknown size is one number in a call; name sizes apart with strings: ('rows', 3).",
                )
        else:
            fits = fits and n == size
    if not fits:
        fail(FeedError, f"{label} is {want}, fed shape {given.shape}", f"Feed an array of shape {want.shape}.")
    return given


def _widens(have: DType, want: DType, is_tensor: bool) -> bool:
    """Return whether a feed may be cast silently: NumPy and Python data within a category or up from a lower one."""
    return category(have) < category(want) or (category(have) == category(want) and not is_tensor)
