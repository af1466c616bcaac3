"""The batching rules of ops.

The examples stand along a new leading axis of the arguments that are mapped. A rule takes the node of
the graph for one example and its arguments, and gives the result with the examples leading.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.graph.graph import Graph
from ...core.graph.inside import inside
from ...core.graph.snapshot import input_node, located
from ...core.node import Node
from ...core.ops.op import TABLE
from ...core.ops.operands import run_elementwise
from ...core.ops.record import bind
from ...core.spec import Shape, Spec, spec_of
from ...core.tensor import Tensor, wrap
from ...ops.random.draws import derived_key, draw_of, draw_with, takes_position
from ...ops.random.generator import Examples

Rule = Callable[[Node, "list[Batched]", int], Any]


class Batched:
    """A value (a tensor, a literal, or a tuple of tensors) and whether it has the examples along its first axis."""

    __slots__ = ("value", "mapped")

    def __init__(self, value: Any, mapped: bool) -> None:
        self.value = value
        self.mapped = mapped


RULES: dict[str, Rule] = {}


def rule_for(node: Node, args: Sequence[Batched]) -> Rule | None:
    """Return the rule that applies to these arguments; None where a composite is opened, or there is none."""
    op = node.op
    found = RULES.get(op.name)
    if found is not None:
        return found
    if TABLE.get(op.name) is not op or "batching" in op.facets or takes_position(op):
        return None
    if op.kind == "elementwise":
        return _elementwise
    others = [a.mapped for a in args[1:]]
    if op.kind == "composite":
        # A formula that does not read the first argument has the same result in every example.
        by_first = all(op.params[0] in f.arguments() for f in op.formulas)
        return _as_it_is if by_first and not any(others) else None
    return _as_it_is if len(args) == 1 else _all_mapped


# -- what most ops do


def _values(args: Sequence[Batched]) -> list[Any]:
    return [a.value for a in args]


def _as_it_is(node: Node, args: list[Batched], size: int) -> Any:
    return node.op.front(*_values(args), **node.attrs)


def _elementwise(node: Node, args: list[Batched], size: int) -> Any:
    out = run_elementwise(node.op, _values(args), node.attrs)
    # An op may pass one argument on and only look at another one: then that one's examples do not show.
    rank = max(len(one_example(a).shape) for a in args if isinstance(a.value, Tensor))
    return spread(Batched(out, out.ndim > rank), size)


def _all_mapped(node: Node, args: list[Batched], size: int) -> Any:
    return bind(node.op, [_spread_value(a, size) for a in args], node.attrs)


def _spread_value(a: Batched, size: int) -> Any:
    return spread(a, size) if isinstance(a.value, Tensor) else a.value


def spread(a: Batched, size: int) -> Tensor:
    """Return a value for every example, also where all share one."""
    value: Tensor = a.value
    if a.mapped:
        return value
    return TABLE["broadcast"].front(value, shape=(size, *value.shape))  # type: ignore[no-any-return]


def move(x: Tensor, source: int, target: int) -> Tensor:
    """Return `x` with one axis in another place (both counted from the left)."""
    order = [i for i in range(x.ndim) if i != source]
    order.insert(target, source)
    return bind(TABLE["permute"], (x,), {"axes": tuple(i - x.ndim for i in order)})  # type: ignore[no-any-return]


def reshape(x: Tensor, shape: Shape) -> Tensor:
    """Return `x` in another shape, recorded; `x` itself where it has that already."""
    return x if x.shape == shape else bind(TABLE["reshape"], (x,), {"shape": shape})


def _with_rank(a: Batched, rank: int) -> Tensor:
    """Return the value with axes of size 1 between the examples' axis and its own, up to a rank for one example."""
    value: Tensor = a.value
    if not a.mapped or value.ndim == rank + 1:
        return value
    own = value.shape[1:]
    return reshape(value, (value.shape[0], *(1,) * (rank - len(own)), *own))


def inner_graph(node: Node, args: Sequence[Batched]) -> Graph:
    """Return the graph inside a composite node for one example; its inputs are the tensors among the arguments."""
    inputs = tuple(input_node(one_example(a)) if isinstance(a.value, Tensor) else a.value for a in args)
    body = inside(located(node.op, inputs, node.attrs, node.spec))
    return Graph(body.outputs, body.inputs, node.op.name, bound=body.bound)


def one_example(a: Batched) -> Spec:
    """Return the spec of a value in one example."""
    spec: Spec = a.value.spec
    return spec_of(spec.shape[1:], spec.dtype) if a.mapped else spec


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Return a decorator that declares the batching rule of the ops of these names."""

    def register(fn: Rule) -> Rule:
        for name in names:
            RULES[name] = fn
        return fn

    return register


# -- attributes that name a shape


@rule("reshape")
def _reshape(node: Node, args: list[Batched], size: int) -> Any:
    return bind(node.op, [args[0].value], {"shape": (size, *node.attrs["shape"])})


@rule("broadcast")
def _broadcast(node: Node, args: list[Batched], size: int) -> Any:
    shape = node.attrs["shape"]
    return bind(node.op, [_with_rank(args[0], len(shape))], {"shape": (size, *shape)})


@rule("pad")
def _pad(node: Node, args: list[Batched], size: int) -> Any:
    return bind(node.op, [args[0].value], {"widths": ((0, 0), *node.attrs["widths"])})


@rule("tile")
def _tile(node: Node, args: list[Batched], size: int) -> Any:
    x: Tensor = args[0].value
    repetitions = node.attrs["repetitions"]
    missing = x.ndim - 1 - len(repetitions)
    if missing < 0:  # tiling adds axes to each example
        x = _with_rank(args[0], len(repetitions))
    return bind(node.op, [x], {"repetitions": (1,) * (max(missing, 0) + 1) + tuple(repetitions)})


# -- products

# Their leading axes are equal, not broadcast.
RULES["attention"] = RULES["attention_gradients"] = _all_mapped


def _aligned(*cores: int) -> Rule:
    """Return values with leading axes broadcast: the examples' axis stands before the longest row of them."""

    def aligned(node: Node, args: list[Batched], size: int) -> Any:
        own = [len(a.value.shape) - a.mapped for a in args]
        lead = max(rank - core for rank, core in zip(own, cores, strict=True))
        values = [_with_rank(a, lead + core) for a, core in zip(args, cores, strict=True)]
        return bind(node.op, values, node.attrs)

    return aligned


RULES["matmul"] = _aligned(2, 2)
RULES["dot"] = _aligned(1, 1)


@rule("matvec")
def _matvec(node: Node, args: list[Batched], size: int) -> Any:
    x, y = args
    if x.mapped or y.value.ndim > 2:
        return _aligned(2, 1)(node, args, size)
    # One matrix for all examples: their vectors are the rows of one product.
    return (
        bind(TABLE["matmul"], [y.value, _transposed(x.value)], {})
        if x.value.ndim == 2
        else _aligned(2, 1)(node, args, size)
    )


@rule("vecmat")
def _vecmat(node: Node, args: list[Batched], size: int) -> Any:
    x, y = args
    if not y.mapped and y.value.ndim == 2 and x.value.ndim == 2:
        return bind(TABLE["matmul"], [x.value, y.value], {})
    return _aligned(1, 2)(node, args, size)


def _transposed(x: Tensor) -> Tensor:
    return bind(TABLE["permute"], (x,), {"axes": (-1, -2)})  # type: ignore[no-any-return]


@rule("einsum")
def _einsum(node: Node, args: list[Batched], size: int) -> Any:
    terms, out = node.attrs["subscripts"].split("->")
    free = next(c for c in "zyxwvutsrqponmlkjihgfedcbaZYXWVUTSRQPONMLKJIHGFEDCBA" if c not in terms)
    named = ",".join(free + t if a.mapped else t for t, a in zip(terms.split(","), args, strict=True))
    return node.op.front(*_values(args), subscripts=f"{named}->{free}{out}")


@rule("convolve", "convolve_transpose", "convolve_kernel")
def _convolve(node: Node, args: list[Batched], size: int) -> Any:
    """Return the convolution with a kernel for each example: one convolution in `size` times the groups."""
    name = node.op.name
    if name != "convolve_kernel" and not args[1].mapped:
        return bind(node.op, _values(args), node.attrs)
    dims = len(node.attrs["stride"])
    first = _channels_merged(spread(args[0], size), dims)
    attrs = {**node.attrs, "groups": size * node.attrs["groups"]}
    if name == "convolve_kernel":
        out = bind(node.op, [first, _channels_merged(spread(args[1], size), dims)], attrs)
        return reshape(out, (size, out.shape[0] // (size or 1), *out.shape[1:]))
    w = spread(args[1], size)
    out = bind(node.op, [first, reshape(w, (size * w.shape[1], *w.shape[2:]))], attrs)
    channel = out.ndim - dims - 1
    split = (*out.shape[:channel], size, out.shape[channel] // (size or 1), *out.shape[channel + 1 :])
    return move(reshape(out, split), channel, 0)


def _channels_merged(x: Tensor, dims: int) -> Tensor:
    """Return (B, *batch, C, *S) as (*batch, B * C, *S)."""
    channel = x.ndim - dims - 1
    x = move(x, 0, channel - 1)
    shape = x.shape
    return reshape(x, (*shape[: channel - 1], shape[channel - 1] * shape[channel], *shape[channel + 1 :]))


# -- indexing


def _numbered(indices: Sequence[Batched], size: int) -> list[Tensor]:
    """Return index arrays with one for the examples' axis in front: each example is picked from its own."""
    rank = max(i.value.ndim - i.mapped for i in indices)
    own = wrap(np.arange(size).reshape((size,) + (1,) * rank))
    return [own, *(_with_rank(i, rank) for i in indices)]


@rule("index")
def _index(node: Node, args: list[Batched], size: int) -> Any:
    x, *indices = args
    axis = node.attrs["axis"]
    if not any(i.mapped for i in indices):
        return bind(node.op, _values(args), node.attrs)
    lead = len(one_example(x).shape) + axis
    if not x.mapped:
        found = bind(node.op, [x.value, *_numbered(indices, size)[1:]], node.attrs)
        return move(found, lead, 0)
    placed = move(x.value, 0, lead)
    return move(bind(node.op, [placed, *_numbered(indices, size)], {"axis": axis - 1}), lead, 0)


@rule("index_transpose")
def _index_transpose(node: Node, args: list[Batched], size: int) -> Any:
    ct, *indices = args
    if not any(i.mapped for i in indices):
        return bind(node.op, _values(args), node.attrs)
    axis, sizes = node.attrs["axis"], node.attrs["sizes"]
    lead = len(node.spec.shape) + axis
    placed = move(spread(ct, size), 0, lead)
    attrs = {"axis": axis - 1, "sizes": (size, *sizes)}
    return move(bind(node.op, [placed, *_numbered(indices, size)], attrs), lead, 0)


@rule("index_update")
def _index_update(node: Node, args: list[Batched], size: int) -> Any:
    x, v, *indices = args
    x_value, v_value = spread(x, size), _spread_value(v, size)
    if not any(i.mapped for i in indices):
        return bind(node.op, [x_value, v_value, *_values(indices)], node.attrs)
    axis = node.attrs["axis"]
    lead = len(node.spec.shape) + axis
    if isinstance(v_value, Tensor):
        v_value = move(v_value, 0, lead)
    placed = [move(x_value, 0, lead), v_value, *_numbered(indices, size)]
    return move(bind(node.op, placed, {"axis": axis - 1}), lead, 0)


@rule("index_is_last")
def _index_is_last(node: Node, args: list[Batched], size: int) -> Any:
    return bind(node.op, _numbered(args, size), {"sizes": (size, *node.attrs["sizes"])})


@rule("slice_update")
def _slice_update(node: Node, args: list[Batched], size: int) -> Any:
    return bind(node.op, [_spread_value(a, size) for a in args], node.attrs)


@rule("searchsorted")
def _searchsorted(node: Node, args: list[Batched], size: int) -> Any:
    row, values = args
    if not row.mapped and row.value.ndim == 1:
        return bind(node.op, [row.value, values.value], node.attrs)
    rows, wanted = spread(row, size), spread(values, size)
    if rows.ndim == 2:
        # An example searches one row for values of any shape: several rows, each for values in a line.
        line = bind(node.op, [rows, reshape(wanted, (size, math.prod(wanted.shape[1:])))], node.attrs)
        return reshape(line, wanted.shape)
    return bind(node.op, [rows, wanted], node.attrs)


# -- random numbers


def _logits_of_draws(logits: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return examples' logits for draws of a shape, which may have more axes than they have, behind the examples'."""
    size, *rest, classes = logits.shape
    ones = (1,) * (len(shape) - 1 - len(rest))
    return TABLE["broadcast"].front(reshape(logits, (size, *ones, *rest, classes)), shape=(*shape, classes))  # type: ignore[no-any-return]


def draw(node: Node, args: list[Batched], size: int) -> Any:
    """Return numbers of its own for every example.

    Where the draw has reserved a part of the stream for all of them they are those of one draw for the whole batch
    (of an op without such a form, of as many draws). Else they come from a key made of the draw's key and position.
    """
    drawing, given, (key, counter), attrs = draw_of(node.op, args, node.attrs)
    if isinstance(key, Batched):
        key, counter = key.value, counter.value
    examples = Examples.here()
    blocks = None if examples is None else examples.blocks_of((key, counter))
    own = (key, counter) if blocks is not None else (derived_key(key, counter, _EXAMPLES), 0)
    if "shape" in attrs:
        attrs["shape"] = (size, *attrs["shape"])
        if drawing.name == "random_categorical":
            given = [_logits_of_draws(spread(given[0], size), attrs["shape"])]
            return draw_with(drawing, given, own, attrs)
        return draw_with(drawing, [_spread_value(a, size) for a in given], own, attrs)
    if drawing.name in ("dropout", "random_multinomial"):
        return draw_with(drawing, [spread(given[0], size)], own, attrs)
    runs = []
    for i in range(size):
        picked = [a.value[i] if a.mapped else a.value for a in given]
        at = (derived_key(own[0], i, _EXAMPLES), 0) if blocks is None else (key, _further(counter, i * blocks))
        runs.append(draw_with(drawing, picked, at, attrs))
    if not runs:
        return wrap(np.zeros((0, *node.spec.shape), node.spec.dtype))
    return TABLE["stack"].front(*runs, axis=-1 - runs[0].ndim)


def _further(counter: Any, blocks: int) -> Any:
    if not isinstance(counter, Tensor):
        return counter + blocks
    return TABLE["add"].front(counter, wrap(np.array(blocks, np.uint64)))


# The counter of the cipher that makes keys of examples; `Generator.split` uses 1.
_EXAMPLES = 2
