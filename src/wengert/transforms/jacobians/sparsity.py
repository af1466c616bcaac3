"""The sparsity of a Jacobian or a Hessian, from the graph alone.

Every element of every node carries the set of input elements that it depends on, as the rows of a
sparse boolean matrix; an op's pattern (:mod:`.dependence`) times its arguments' rows gives its
result's. What is computed from constants alone is computed, so that a mask, a matrix of constants or
a constant index array is known with its zeros.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...core import tree
from ...core.errors import DTypeError, fail
from ...core.graph.evaluate import compute
from ...core.graph.graph import Graph
from ...core.graph.snapshot import CONSTANT
from ...core.node import Node
from ...core.ops.op import TABLE
from ...core.ops.record import OUTPUT
from ...core.spec import Spec, spec_of
from ...core.state.refusals import refuse
from ...core.tensor import Tensor, asarray
from ..derivatives.custom_op import CustomOp
from ..derivatives.functional import Argnums, argument_numbers, grad, vjp
from ..derivatives.variables import describe_leaf, differentiable
from ..tracing.trace import trace
from .dependence import apply, patterns, sparse

Rows = Any  # a sparse boolean matrix with a row for every element, or None where nothing depends


def jacobian_sparsity(fn: Callable[..., Any], *args: Any, argnums: Argnums = 0) -> Any:
    """Return the pattern of elements of `fn(*args)` that can depend on elements of an argument, for any values.

    Parameters
    ----------
    fn: a function of pytrees of floating tensors that returns a pytree of them. It is traced: a Python
        `if` on a tensor's value is an error.
    args: its arguments; floating tensors may be specs (`wg.spec`). Integer and boolean arguments count
        as constants (index arrays decide what depends on what), other floating ones as unknown.
    argnums: the positional arguments to ask about.

    Returns a boolean SciPy sparse array in CSC form. Its rows are the elements of the result, its
    columns those of the arguments, each flattened in order (leaf after leaf in a pytree). The pattern
    holds every nonzero of the Jacobian at any point; what multiplies a constant zero does not
    appear. Needs SciPy.

    Raises GraphError, DTypeError. Source: Walther 2008, "Computing sparse Hessians with automatic
    differentiation", section 2 (index domains).

    >>> import wengert as wg
    >>> wg.sparse.jacobian_sparsity(lambda x: x[1:] * x[:-1], wg.spec((4,))).toarray().astype(int)
    array([[1, 1, 0, 0],
           [0, 1, 1, 0],
           [0, 0, 1, 1]])
    """
    return Structure(fn, argnums, args).pattern


def hessian_sparsity(fn: Callable[..., Any], *args: Any, argnums: Argnums = 0) -> Any:
    """Return the pattern of second derivatives of a scalar function that can differ from zero, for any values.

    Parameters are those of :func:`jacobian_sparsity`. It is the sparsity of the traced gradient: what is
    linear in an argument leaves nothing there, a product leaves its cross terms. A symmetric boolean
    SciPy sparse array in CSC form over the elements of the arguments.

    >>> import wengert as wg
    >>> wg.sparse.hessian_sparsity(lambda x: x[0] * x[1] + x[2] ** 2 + x[3], wg.spec((4,))).toarray().astype(int)
    array([[0, 1, 0, 0],
           [1, 0, 0, 0],
           [0, 0, 1, 0],
           [0, 0, 0, 0]])
    """
    return symmetric(Structure(grad(fn, argnums), argnums, args).pattern)


def symmetric(pattern: Any) -> Any:
    """Return the common part of a symmetric matrix's pattern and its transpose: both hold every nonzero."""
    return pattern.multiply(pattern.T).astype(bool).tocsc()


class Structure:
    """The pattern of a function's Jacobian in some arguments, and the values that it depends on.

    `key` says for which other arguments it is the same: shapes and dtypes of the floating ones, and the
    values of the others.
    """

    def __init__(self, fn: Callable[..., Any], argnums: Argnums, args: Sequence[Any]) -> None:
        matrices = sparse()
        name = getattr(fn, "__name__", type(fn).__name__)
        numbers = argument_numbers(argnums, len(args), name)
        leaves, structure = tree.flatten(tuple(args))
        owners = [i for i, a in enumerate(args) for _ in tree.leaves(a)]
        for leaf, owner in zip(leaves, owners, strict=True):
            if owner in numbers and not _floating(leaf):
                fail(
                    DTypeError,
                    f"the sparsity of {name} in a {describe_leaf(leaf)}",
                    "Only floating values have derivatives: choose other arguments with argnums=.",
                )
        places = [i for i, leaf in enumerate(leaves) if _floating(leaf)]
        specs = [_spec(leaves[i]) for i in places]

        @functools.wraps(fn, updated=())
        def inner(*values: Tensor) -> Any:
            filled = list(leaves)
            for i, v in zip(places, values, strict=True):
                filled[i] = v
            return fn(*tree.unflatten(structure, filled))

        graph = opened(trace(inner, tuple(specs), {}))
        count = {n: sum(specs[k].size for k, i in enumerate(places) if owners[i] == n) for n in numbers}
        starts = dict(zip(numbers, np.cumsum([0, *count.values()]).tolist(), strict=False))
        total = sum(count.values())
        rows: list[Rows] = []
        for i, s in zip(places, specs, strict=True):
            if owners[i] not in starts:
                rows.append(None)
                continue
            rows.append(_unit(s.size, starts[owners[i]], total))
            starts[owners[i]] += s.size
        rows += [None] * (len(graph.inputs) - len(rows))
        found, _ = propagate(graph, rows, [None] * len(rows))
        blocks = [
            _nothing(node.spec.size, total) if f is None else f for node, f in zip(graph.outputs, found, strict=True)
        ]
        stacked = matrices.vstack(blocks, format="csc") if blocks else _nothing(0, total).tocsc()
        stacked.sort_indices()
        self.pattern = stacked.astype(bool)


def _floating(leaf: Any) -> bool:
    return leaf.inexact if isinstance(leaf, Spec) else differentiable(leaf)


def _spec(leaf: Any) -> Spec:
    return leaf if isinstance(leaf, Spec) else asarray(leaf).spec


def structure_key(args: Sequence[Any]) -> Any:
    """Return the key of arguments for which the pattern of a function is the same."""
    leaves, structure = tree.flatten(tuple(args))
    return str(structure), tuple(_leaf_key(leaf) for leaf in leaves)


def _leaf_key(leaf: Any) -> Any:
    if _floating(leaf):
        return _spec(leaf)
    if isinstance(leaf, (Tensor, np.ndarray, np.generic)):
        value = leaf.numpy() if isinstance(leaf, Tensor) else np.asarray(leaf)
        return value.shape, str(value.dtype), value.tobytes()
    return leaf


def _unit(count: int, start: int, total: int) -> Rows:
    columns = np.arange(start, start + count)
    return sparse().csr_array((np.ones(count, bool), columns, np.arange(count + 1)), shape=(count, total))


def _nothing(count: int, total: int) -> Rows:
    return sparse().csr_array((count, total), dtype=bool)


def opened(graph: Graph) -> Graph:
    """Return the graph with composites replaced by their contents; users' own rules stay."""
    before = None
    while graph is not before:
        before, graph = graph, graph.expand_where(lambda n: not isinstance(n.op, CustomOp))
    return graph


# -- along a graph


def propagate(graph: Graph, rows: Sequence[Rows], values: Sequence[Any]) -> tuple[list[Rows], list[Any]]:
    """Return the outputs' rows, and their values where they are known, from those of the inputs.

    The graph has no composites but users' own.
    """
    state: dict[Node, Any] = dict(zip(graph.inputs, rows, strict=True))
    known: dict[Node, Any] = {n: v for n, v in zip(graph.inputs, values, strict=True) if v is not None}
    last_uses = graph.last_uses
    for node in graph.nodes:
        if node not in state:
            _visit(node, state, known)
        for done in last_uses.get(node, ()):
            state.pop(done, None)
            known.pop(done, None)
    return [state[n] for n in graph.outputs], [known.get(n) for n in graph.outputs]


def _visit(node: Node, state: dict[Node, Any], known: dict[Node, Any]) -> None:
    if node.op is CONSTANT:
        state[node], known[node] = None, np.asarray(node.attrs["value"])
        return
    if node.op is OUTPUT:
        at = node.attrs["index"]
        source = state[node.inputs[0]]
        state[node] = None if source is None or not node.spec.inexact else source[at]
        value = known.get(node.inputs[0])
        if value is not None and value[at] is not None:
            known[node] = value[at]
        return
    values = [known.get(e) if isinstance(e, Node) else e for e in node.inputs]
    if node.op.kind == "control":
        state[node], known[node] = _CONTROL[node.op.name](node, [_rows_of(state, e) for e in node.inputs], values)
        return
    if _computable(node, values):
        with np.errstate(all="ignore"):
            known[node] = compute(node, values)
        state[node] = None
        return
    state[node] = _derived(node, state, values)


def _rows_of(state: Mapping[Node, Any], entry: Any) -> Rows:
    return state[entry] if isinstance(entry, Node) else None


def _computable(node: Node, values: Sequence[Any]) -> bool:
    op = node.op
    if op.kind in ("source", "leaf") or op.draws:
        return False
    return all(v is not None for v in values) and TABLE.get(op.name) is op


def _derived(node: Node, state: Mapping[Node, Any], values: Sequence[Any]) -> Any:
    specs: Any = node.spec if isinstance(node.spec, tuple) else (node.spec,)
    found: list[Rows] = [None] * len(specs)
    for i, entry in enumerate(node.inputs):
        rows = _rows_of(state, entry)
        if rows is None:
            continue
        local = _own_rule(node, i) if isinstance(node.op, CustomOp) else patterns(node, i, values)
        for k, (pattern, s) in enumerate(zip(local, specs, strict=True)):
            if pattern is not None and s.inexact:
                found[k] = united(found[k], apply(pattern, rows))
    if not isinstance(node.spec, tuple):
        return found[0]
    return found if any(f is not None for f in found) else None


def united(a: Rows, b: Rows) -> Rows:
    """Return the union of two patterns' rows; None is the empty one."""
    if a is None or a is b:
        return b
    return a if b is None else a + b


def _own_rule(node: Node, index: int) -> tuple[Any, ...]:
    """Return the pattern of a user's own derivative: that of its vector-Jacobian product in the cotangent."""
    specs: Any = node.spec if isinstance(node.spec, tuple) else (node.spec,)
    live = [k for k, s in enumerate(specs) if s.inexact]
    inputs = [e.spec if isinstance(e, Node) else spec_of(e.shape, e.dtype) for e in node.inputs]

    def back(cts: list[Tensor], *args: Tensor) -> Any:
        def moved(x: Tensor) -> list[Tensor]:
            given = list(args)
            given[index] = x
            out = node.op.front(*given)
            several = out if isinstance(out, tuple) else (out,)
            return [several[k] for k in live]

        return vjp(moved, args[index])[1](cts)[0]

    transposed = Structure(back, 0, ([specs[k] for k in live], *inputs)).pattern.T.tocsr()
    found: list[Any] = [None] * len(specs)
    start = 0
    for k in live:
        found[k] = (transposed[start : start + specs[k].size],)
        start += specs[k].size
    return tuple(found)


# -- control flow


def _switch(node: Node, rows: list[Rows], values: list[Any]) -> tuple[Any, Any]:
    """Return the pattern of the branch that is taken where that is known; else of any branch."""
    branches: Sequence[Graph] = node.attrs["branches"]
    if values[0] is not None:
        branches = [branches[min(max(int(values[0]), 0), len(branches) - 1)]]
    total: list[Rows] = [None] * len(node.spec)  # type: ignore[arg-type]
    for branch in branches:
        found, value = propagate(opened(branch), rows[1:], values[1:])
        total = [united(a, b) for a, b in zip(total, found, strict=True)]
    return total, value if len(branches) == 1 else None


def _while(node: Node, rows: list[Rows], values: list[Any]) -> tuple[Any, Any]:
    """Return the patterns of a loop: iteration by iteration while the condition is known, then until nothing is new."""
    attrs = node.attrs
    cond, body, carries = opened(attrs["cond"]), opened(attrs["body"]), attrs["carries"]
    carry, state = rows[:carries], values[:carries]
    limit, step = attrs["max_steps"], 0
    ys: list[list[Rows]] = [[] for _ in body.outputs[carries:]]
    iterations: Any = None
    while True:
        if limit is not None and step >= limit:
            iterations = np.asarray(step)
            break
        _, (goes_on,) = propagate(cond, [*carry, *rows[carries:]], [*state, *values[carries:]])
        if goes_on is None:
            carry, later = _until_stable(body, carry, rows[carries:], values[carries:])
            state = [None] * carries
            for column, y in zip(ys, later, strict=True):
                column += [y] * (limit - step)
            break
        if not bool(goes_on):
            iterations = np.asarray(step)
            break
        found, value = propagate(body, [*carry, *rows[carries:]], [*state, *values[carries:]])
        carry, state = found[:carries], value[:carries]
        for column, y in zip(ys, found[carries:], strict=True):
            column.append(y)
        step += 1
    if not ys:
        return carry, state
    stacked = [_stacked(c, n.spec.size, limit) for c, n in zip(ys, body.outputs[carries:], strict=True)]
    return [*carry, *stacked, None], [*state, *[None] * len(ys), iterations]


def _until_stable(
    body: Graph, carry: list[Rows], others: list[Rows], values: list[Any]
) -> tuple[list[Rows], list[Rows]]:
    """Return the state's rows after any number of iterations, and those of the other results in any of them."""
    unknown: list[Any] = [None] * len(carry)
    while True:
        found, _ = propagate(body, [*carry, *others], [*unknown, *values])
        wider = [united(a, b) for a, b in zip(carry, found)]
        if [_count(r) for r in wider] == [_count(r) for r in carry]:
            return carry, found[len(carry) :]
        carry = wider


def _count(rows: Rows) -> int:
    return 0 if rows is None else int(rows.nnz)


def _scan(node: Node, rows: list[Rows], values: list[Any]) -> tuple[Any, Any]:
    """Return the patterns of every iteration on its own, with the rows that it reads."""
    attrs = node.attrs
    body, carries, sequences, length = opened(attrs["body"]), attrs["carries"], attrs["sequences"], attrs["length"]
    after = carries + sequences
    carry, state = rows[:carries], values[:carries]
    steps = range(length)
    if node.op.name == "partial_scan":
        (iterations, *values), (_, *rows) = values, rows
        carry, state = rows[:carries], values[:carries]
        if iterations is None:
            return _some_iterations(body, rows, values, carries, sequences, length)
        steps = range(min(max(int(iterations), 0), length))
    ys: list[list[Rows]] = [[None] * length for _ in body.outputs[carries:]]
    for i in reversed(steps) if attrs["reverse"] else steps:
        read = [None if r is None else _part(r, i, length) for r in rows[carries:after]]
        seen = [None if v is None else np.asarray(v)[i] for v in values[carries:after]]
        found, value = propagate(body, [*carry, *read, *rows[after:]], [*state, *seen, *values[after:]])
        carry, state = found[:carries], value[:carries]
        for column, y in zip(ys, found[carries:], strict=True):
            column[i] = y
    stacked = [_stacked(c, n.spec.size, length) for c, n in zip(ys, body.outputs[carries:], strict=True)]
    return [*carry, *stacked], [*state, *[None] * len(ys)]


def _some_iterations(
    body: Graph, rows: list[Rows], values: list[Any], carries: int, sequences: int, length: int
) -> tuple[Any, Any]:
    """Return the patterns of an unknown number of iterations: each may read any of the rows."""
    after = carries + sequences
    read: list[Rows] = [None] * sequences
    for i in range(length):
        read = [a if r is None else united(a, _part(r, i, length)) for a, r in zip(read, rows[carries:after])]
    unknown: list[Any] = [None] * sequences
    carry, ys = _until_stable(body, rows[:carries], [*read, *rows[after:]], [*unknown, *values[after:]])
    found = [_stacked([y] * length, n.spec.size, length) for y, n in zip(ys, body.outputs[carries:], strict=True)]
    return [*carry, *found], [None] * len(body.outputs)


def _part(rows: Rows, i: int, length: int) -> Rows:
    size = rows.shape[0] // length
    return rows[i * size : (i + 1) * size]


def _stacked(column: Sequence[Rows], size: int, length: int) -> Rows:
    """Return the patterns of rows in order; where there are fewer than `length`, the rest are empty."""
    there = [r for r in column if r is not None]
    if not there:
        return None
    total = there[0].shape[1]
    found = [_nothing(size, total) if r is None else r for r in column]
    return sparse().vstack([*found, _nothing(size * (length - len(column)), total)], format="csr")


_CONTROL: dict[str, Callable[[Node, list[Rows], list[Any]], tuple[Any, Any]]] = {
    "switch": _switch,
    "while_loop": _while,
    "scan": _scan,
    "partial_scan": _scan,
}


def traced_anywhere(args: Sequence[Any]) -> None:
    """Refuse patterns inside a trace: they are made of the values of index arrays."""
    for leaf in tree.leaves(tuple(args)):
        if isinstance(leaf, Tensor) and leaf.is_abstract:
            refuse(f"a sparse derivative of an abstract tensor {leaf.spec}", "Call it outside wg.graph.", leaf)
