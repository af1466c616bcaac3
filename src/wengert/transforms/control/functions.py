"""Structured control flow: `cond`, `switch`, `while_loop`, `scan`, `map`, `fori_loop`.

On values they run as the Python that they look like, and record what ran. On abstract tensors (while
a function is traced) each is one node with the graphs of its functions inside, so a trace neither
unrolls a loop nor chooses a branch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from ...core import tree
from ...core.dtypes import DType
from ...core.errors import DTypeError, GraphError, ShapeError, fail
from ...core.graph.graph import Graph
from ...core.mode import get_mode
from ...core.node import Node
from ...core.ops.op import TABLE
from ...core.ops.record import bind, filled, same_value
from ...core.spec import Spec, bool_, category, int64, spec_of
from ...core.standins import PYTHON_DTYPES, WeakTensor, weak
from ...core.state.capture import Writes
from ...core.state.refusals import refuse
from ...core.tensor import Tensor, asarray
from ...core.tree import Structure
from ...ops.random.draws import takes_position
from ...ops.structure.dtypes import result_type
from ...ops.structure.shapes import as_operand, casted
from ..derivatives.variables import own_copies, run_apart
from ..tracing.open_trace import OpenTrace, open_trace
from .ops import PARTIAL_SCAN, SCAN, SWITCH, WHILE, siblings, stack_tensors

# -- choices


def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], *operands: Any) -> Any:
    """Return `true_fn(*operands)` where `pred` is true, else `false_fn(*operands)`; only one of them runs.

    Parameters
    ----------
    pred: a scalar: a boolean, or a number that is true unless 0.
    true_fn, false_fn: functions of pytrees that return pytrees of one structure, with one shape each;
        where their dtypes differ while tracing, both are promoted.
    operands: their arguments; tensors that they use from outside need not be among them.

    With a value at hand it is a Python `if`. While tracing it is one node with both branches inside.
    Under `vmap` with a condition of each example's own, both branches run and `where` selects.
    Differentiable in every mode.

    Raises ShapeError for a `pred` that is not a scalar, GraphError for branches that do not agree.

    >>> import wengert as wg
    >>> wg.cond(wg.tensor(True), wg.sin, wg.cos, wg.tensor(0.0))
    tensor(0.)
    """
    known = _known_scalar(pred, "cond", "pred")
    if known is not None:
        return run_apart(true_fn if known else false_fn, operands, {}, Writes(is_trace=False), operands)
    number = pred if pred.dtype == bool_ else pred != 0
    index = bind(TABLE["cast"], [_scalar(number)], {"dtype": int64})
    return _choose("cond", index, (false_fn, true_fn), operands)


def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """Return `branches[index](*operands)`; an index outside goes to the nearest branch.

    Parameters are those of :func:`cond`, with an integer scalar and any number of branches.

    Raises ShapeError, DTypeError, GraphError.

    >>> import wengert as wg
    >>> wg.switch(wg.tensor(2), [wg.sin, wg.cos, wg.exp], wg.tensor(0.0))
    tensor(1.)
    """
    if not branches:
        fail(GraphError, "switch without branches")
    if isinstance(index, Tensor) and category(index.dtype) > 1:
        fail(DTypeError, f"switch on an index of {index.spec}", "The index is an integer: i.astype(wg.int64).")
    known = _known_scalar(index, "switch", "index")
    if known is not None:
        chosen = branches[min(max(int(known), 0), len(branches) - 1)]
        return run_apart(chosen, operands, {}, Writes(is_trace=False), operands)
    cast = index if index.dtype == int64 else bind(TABLE["cast"], [index], {"dtype": int64})
    return _choose("switch", _scalar(cast), branches, operands)


def _known_scalar(value: Any, what: str, name: str) -> Any:
    """Return the value of a scalar; None where it is abstract."""
    if isinstance(value, (bool, int, np.generic)):
        return value
    t = value if isinstance(value, Tensor) else asarray(value)
    if t.size != 1:
        fail(
            ShapeError,
            f"{what}: {name} is {t.spec}, not a scalar",
            "One choice is made for the whole call. wg.where chooses element by element, wg.vmap per example.",
        )
    return None if t.is_abstract else t._array.item()


def _scalar(t: Tensor) -> Tensor:
    return t if t.shape == () else t.reshape(())


def _choose(what: str, index: Tensor, branches: Sequence[Callable[..., Any]], operands: tuple[Any, ...]) -> Any:
    inputs, opened = _alike(what, *_traced(branches, operands, whole=True))
    structure = opened[0].structure
    graphs, captured = siblings(opened, len(inputs))
    common = [_common(what, i, outs) for i, outs in enumerate(zip(*(o.outs for o in opened), strict=True))]
    if any([n.spec for n in g.outputs] != common for g in graphs):
        cast_to = [_casting(fn, common) for fn in branches]
        inputs, opened = _alike(what, *_traced(cast_to, operands, whole=True))
        graphs, captured = siblings(opened, len(inputs))
    outs = SWITCH.front(index, *[_wide(t) for t in (*inputs, *captured)], branches=tuple(graphs))
    numbers = [all(type(t) is WeakTensor for t in outs) for outs in zip(*(o.outs for o in opened), strict=True)]
    return tree.unflatten(structure, [weak(o) if n else o for o, n in zip(outs, numbers, strict=True)])


def _alike(what: str, inputs: list[Tensor], opened: list[OpenTrace]) -> tuple[list[Tensor], list[OpenTrace]]:
    """Return traced branches with their results in one order."""
    alike = [opened[0]]
    for k, other in enumerate(opened[1:], 1):
        ordered = other.in_order(opened[0].structure)
        if ordered is None:
            refuse(
                f"{what}: branch 0 returns {opened[0].structure}, branch {k} returns {other.structure}",
                "The branches must return the same pytree.",
                kind=GraphError,
            )
        alike.append(ordered)
    return inputs, alike


def _common(what: str, i: int, outs: Sequence[Tensor]) -> Spec:
    for k, other in enumerate(outs[1:], 1):
        if other.shape != outs[0].shape:
            refuse(
                f"{what}: result {i} of branch 0 is {outs[0].spec}, of branch {k} {other.spec}",
                "The branches must return the same shapes.",
                kind=GraphError,
            )
    return spec_of(outs[0].shape, result_type(*outs) if any(type(t) is not WeakTensor for t in outs) else _widest(outs))


def _widest(numbers: Sequence[Tensor]) -> DType:
    return PYTHON_DTYPES[max(category(t.dtype) for t in numbers)]


def _casting(fn: Callable[..., Any], specs: Sequence[Spec]) -> Callable[..., Any]:
    def cast(*args: Any) -> Any:
        leaves, structure = tree.flatten(fn(*args))
        return tree.unflatten(structure, [asarray(x, dtype=s.dtype) for x, s in zip(leaves, specs, strict=True)])

    cast.__name__ = getattr(fn, "__name__", "branch")
    return cast


def _traced(
    fns: Sequence[Callable[..., Any]], args: tuple[Any, ...], whole: bool = False
) -> tuple[list[Tensor], list[OpenTrace]]:
    """Return the tensors among the arguments, and the functions traced on them (see :func:`open_trace`)."""
    leaves, structure = tree.flatten(tuple(args))
    tensors = [_operand(leaf) for leaf in leaves]
    inputs = [t for t in tensors if t is not None]

    def arguments(found: Sequence[Tensor]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        rest = iter(found)
        given = [leaf if t is None else next(rest) for leaf, t in zip(leaves, tensors, strict=True)]
        return tree.unflatten(structure, given), {}

    specs, tracked = [t.spec for t in inputs], [t.requires_grad for t in inputs]
    numbers = [type(t) is WeakTensor for t in inputs]
    return inputs, [open_trace(fn, specs, arguments, tracked, numbers, whole) for fn in fns]


def _operand(leaf: Any) -> Tensor | None:
    if isinstance(leaf, Tensor):
        return leaf
    return asarray(leaf) if isinstance(leaf, (np.ndarray, np.generic)) else None


# -- loops


def while_loop(
    cond_fn: Callable[[Any], Any], body_fn: Callable[[Any], Any], init: Any, max_steps: int | None = None
) -> Any:
    """Return a state to which `body_fn` was applied again and again while `cond_fn` of it holds.

    Parameters
    ----------
    cond_fn: from the state to a scalar boolean.
    body_fn: from the state to the next one, of the same structure, shapes and dtypes.
    init: the first state, any pytree.
    max_steps: stop after that many steps also where the condition still holds.

    With values at hand it is a Python `while`. While tracing it is one node. Forward mode goes
    through it; so does reverse mode over values. A traced one has a reverse mode only with
    `max_steps`: that many states have room then, and what is computed are the steps that the loop took.
    Under `vmap` it runs until every example is done, and those that are done stay as they are.

    Raises GraphError for a state that changes its structure, GradientError for a traced reverse pass
    without `max_steps`.

    >>> import wengert as wg
    >>> wg.while_loop(lambda x: x < 100.0, lambda x: x * x, wg.tensor(3.0))
    tensor(6561.)
    """
    carry = _as_state(init)
    leaves, _structure = tree.flatten(carry)
    if not (get_mode().tracing or any(t.is_abstract for t in leaves)):
        return _native_while(cond_fn, body_fn, carry, max_steps)
    return _traced_while(cond_fn, body_fn, carry, max_steps)


def _traced_while(cond_fn: Any, body_fn: Any, carry: Any, max_steps: int | None) -> Any:
    carry, opened = _settled(lambda c: body_fn(c), carry, (), 1)
    leaves, structure = tree.flatten(carry)
    test, body, captured = _while_graphs(cond_fn, opened, carry)
    if not any(t.is_abstract for t in (*leaves, *captured)):
        return _native_while(cond_fn, body_fn, carry, max_steps)
    given = [_wide(t) for t in (*leaves, *captured)]
    outs = WHILE.front(*given, cond=test, body=body, carries=len(leaves), max_steps=max_steps)
    return tree.unflatten(structure, _as_in(opened, outs))


def _wide(t: Tensor) -> Tensor:
    """Return a tensor as an argument of a loop's node."""
    return t.wide() if type(t) is WeakTensor else t


def _as_in(opened: OpenTrace, outs: Sequence[Tensor]) -> list[Tensor]:
    """Return results of a node, as Python numbers where the traced body gave such."""
    return [weak(o) if type(t) is WeakTensor else o for o, t in zip(outs, opened.outs, strict=True)]


def _while_graphs(cond_fn: Any, opened: OpenTrace, carry: Any) -> tuple[Graph, Graph, list[Tensor]]:
    """Return the graphs of a loop's condition and of its body, and what both take from outside."""
    _, (condition,) = _traced([cond_fn], (carry,))
    for t in condition.outs:
        if t.spec.size != 1:
            fail(ShapeError, f"while_loop: the condition is {t.spec}, not a scalar")
    own = len(tree.leaves(carry))
    (test, body), captured = siblings([condition, opened], own)
    _no_draws(body, own)
    return test, body, captured


def while_rows(cond_fn: Any, body_fn: Any, init: Any, max_steps: int) -> tuple[Any, Any, Tensor]:
    """Return a `while_loop` whose body returns a pair, like a step of a `scan`: last state, rows, iterations.

    There are `max_steps` rows, zeros after those of the iterations.
    """
    carry, opened = _settled(body_fn, _as_state(init), (), 2)
    leaves = tree.leaves(carry)
    test, body, captured = _while_graphs(cond_fn, opened, carry)
    given = [_wide(t) for t in (*leaves, *captured)]
    *outs, iterations = WHILE.front(*given, cond=test, body=body, carries=len(leaves), max_steps=max_steps)
    carry, ys = tree.unflatten(opened.structure, _as_in(opened, outs))
    return carry, ys, iterations


def _native_while(cond_fn: Any, body_fn: Any, carry: Any, max_steps: int | None) -> Any:
    step = 0
    while max_steps is None or step < max_steps:
        test = cond_fn(own_copies(carry))
        if isinstance(test, Tensor) and test.is_abstract:  # by a tensor from outside, or one that the body takes
            return _traced_while(cond_fn, body_fn, carry, None if max_steps is None else max_steps - step)
        if not test:
            break
        carry = _same_state(carry, body_fn(own_copies(carry)), "while_loop")
        step += 1
    return carry


def fori_loop(lower: Any, upper: Any, body_fn: Callable[[Any, Any], Any], init: Any) -> Any:
    """Run `state = body_fn(i, state)` for i from `lower` up to, and not including, `upper`; return the state.

    With ints for bounds a traced loop is a `scan`, differentiable in every mode; with tensors it is a
    `while_loop`.

    >>> import wengert as wg
    >>> wg.fori_loop(0, 4, lambda i, x: x + i, wg.tensor(0))
    tensor(6)
    """
    low, high = (_known_scalar(b, "fori_loop", name) for b, name in ((lower, "lower"), (upper, "upper")))
    if low is not None and high is not None:
        counts = asarray(np.arange(int(low), max(int(low), int(high)), dtype=np.int64), copy=False)
        out, _ = scan(lambda carry, i: (body_fn(i, carry), None), init, counts)
        return out
    state = (asarray(lower), init)
    _, out = while_loop(lambda s: s[0] < upper, lambda s: (s[0] + 1, body_fn(*s)), state)
    return out


def scan(
    fn: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """Carry a state over the rows of sequences: `carry, y = fn(carry, x)` for each row x of `xs`.

    Parameters
    ----------
    fn: from the state and one row to the next state (of the same structure, shapes and dtypes) and
        anything to be stacked.
    init: the first state, any pytree; Python numbers take the dtype that the loop gives them.
    xs: a pytree of tensors whose first axes have one length; None with `length` for no input.
    length: the number of steps; needed only without `xs`.
    reverse: from the last row to the first; the ys stand in the order of the xs all the same.

    Returns `(carry, ys)` with the ys stacked along a new first axis. With values at hand it is a
    Python `for`; while tracing it is one node, whatever its length. Reverse mode keeps the state of
    every step and computes the rest of a step again.

    Raises ShapeError, GraphError for a state that changes its structure.

    >>> import wengert as wg
    >>> wg.scan(lambda c, x: (c + x, c * x), wg.tensor(0.0), wg.tensor([1.0, 2.0, 3.0]))
    (tensor(6.), tensor([0., 2., 9.]))
    """
    rows = tree.map(lambda x: x if isinstance(x, Tensor) else asarray(x), xs)
    count = _length(tree.leaves(rows), length)
    carry = _as_state(init)
    leaves = tree.leaves((carry, rows))
    if count and not (get_mode().tracing or any(t.is_abstract for t in leaves)):
        return _native_scan(fn, carry, rows, count, reverse)
    return _traced_scan(fn, carry, rows, count, reverse, None)


def partial_scan(
    fn: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any, iterations: Any, length: int, reverse: bool = False
) -> tuple[Any, Any]:
    """Run a `scan` over the first `iterations` of `length` rows (with `reverse` from the last of them): always a node.

    The ys have `length` rows too, zeros after the first ones.
    """
    return _traced_scan(fn, _as_state(init), xs, length, reverse, iterations)


def _traced_scan(fn: Any, carry: Any, rows: Any, count: int, reverse: bool, iterations: Any) -> tuple[Any, Any]:
    first = tree.map(lambda x: filled(0, spec_of(x.shape[1:], x.dtype)), rows)
    carry, opened = _settled(fn, carry, (first,), 2, whole=not count)
    states = tree.leaves(carry)
    graph, captured = opened.close()
    sequences = tree.leaves(rows)
    tensors = [*states, *sequences, *captured]
    if iterations is None and count and not any(t.is_abstract for t in tensors):
        return _native_scan(fn, carry, rows, count, reverse)
    _no_draws(graph, len(states) + len(sequences))
    carries = len(states)
    keeps = get_mode().grad and any(t.requires_grad for t in tensors)
    if keeps:
        graph = type(graph)([*graph.outputs, *graph.inputs[:carries]], graph.inputs, graph.name)
    op, first_args = (SCAN, []) if iterations is None else (PARTIAL_SCAN, [iterations])
    outs = op.front(
        *first_args,
        *[_wide(t) for t in tensors],
        body=graph,
        carries=carries,
        sequences=len(sequences),
        length=count,
        reverse=reverse,
        keeps=keeps,
    )
    shown = outs[: len(outs) - carries] if keeps else outs
    return tree.unflatten(opened.structure, _as_in(opened, shown))  # type: ignore[no-any-return]


def map(fn: Callable[[Any], Any], xs: Any) -> Any:
    """Return `fn` of every row of `xs` (a pytree), in order, the results stacked along a new first axis.

    Like :func:`wengert.vmap`, but only one row's intermediate values live at a time.

    >>> import wengert as wg
    >>> wg.map(lambda x: x.sum(), wg.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([3., 7.])
    """
    return scan(lambda carry, x: (carry, fn(x)), (), xs)[1]


def _native_scan(fn: Any, carry: Any, rows: Any, count: int, reverse: bool) -> tuple[Any, Any]:
    found: list[list[Tensor]] = []
    shape: Structure | None = None
    for i in reversed(range(count)) if reverse else range(count):
        state, y = _pair(fn(own_copies(carry), own_copies(tree.map(lambda x, i=i: x[i], rows))))
        carry = _same_state(carry, state, "scan")
        ys, structure = tree.flatten(y)
        if shape is not None and structure != shape:
            fail(GraphError, f"scan: a step gives {structure} where the one before gave {shape}")
        shape = structure
        found.append([same_value(t) if isinstance(t, Tensor) else asarray(t) for t in ys])
    if reverse:
        found.reverse()
    assert shape is not None
    stacked = [_stacked(column, count) for column in zip(*found, strict=True)]
    return carry, tree.unflatten(shape, stacked)


def _stacked(column: Sequence[Tensor], count: int) -> Tensor:
    """Return the steps' results along a new axis; numbers of the first ones take the dtype of the later ones."""
    dtypes = [t.dtype for t in column if type(t) is not WeakTensor]
    if len(dtypes) == len(column) or not dtypes:
        out: Tensor = stack_tensors([_wide(t) for t in column], column[0].spec, count)
        return out if dtypes else weak(out)
    rows = [casted(t, dtypes[-1]) if type(t) is WeakTensor else t for t in column]
    stacked: Tensor = stack_tensors(rows, rows[0].spec, count)
    return stacked


def _pair(found: Any) -> tuple[Any, Any]:
    if not isinstance(found, tuple) or len(found) != 2:
        fail(GraphError, f"scan: a step returned a {type(found).__name__}", "It must return a pair (carry, y).")
    return found


def _length(rows: Sequence[Tensor], given: int | None) -> int:
    counts = {x.shape[0] if x.ndim else None for x in rows}
    if None in counts:
        fail(ShapeError, "scan: a 0-d tensor among xs", "Every tensor of xs has the steps along its first axis.")
    if given is not None:
        counts.add(int(given))
    if not counts:
        fail(ShapeError, "scan without xs needs length=")
    if len(counts) > 1:
        fail(ShapeError, f"scan: sequences of different lengths {sorted(c for c in counts if c is not None)}")
    (count,) = counts
    assert count is not None
    return count


def _as_state(init: Any) -> Any:
    return tree.map(_state_leaf, init)


def _state_leaf(leaf: Any) -> Tensor:
    # The dtype of a Python number is what the loop makes of it.
    return leaf if isinstance(leaf, Tensor) else as_operand(leaf)


def _same_state(before: Any, after: Any, what: str) -> Any:
    """Return the new state, where it has the structure, shapes and dtypes of the old one."""
    old, structure = tree.flatten(before)
    leaves, found = tree.flatten(after)
    new = tree.arranged(leaves, found, structure)
    if new is None:
        fail(GraphError, f"{what}: the state {structure} became {found}", "A step must return a state like its own.")
    leaves = [_next_leaf(o, n) for o, n in zip(old, new, strict=True)]
    for o, n in zip(old, leaves, strict=True):
        if n.shape != o.shape or (n.dtype != o.dtype and type(o) is not WeakTensor):
            _refuse_state(what, o.spec, n.spec)
    return tree.unflatten(structure, leaves)


def _next_leaf(old: Tensor, new: Any) -> Tensor:
    """Return a part of the new state; a number where the old one has a dtype takes that."""
    leaf = as_operand(new)
    if type(leaf) is WeakTensor and type(old) is not WeakTensor and category(leaf.dtype) <= category(old.dtype):
        return casted(leaf, old.dtype)
    return leaf


def _refuse_state(what: str, old: Any, new: Any) -> NoReturn:
    """Raise for a step that gave a state of another shape or dtype than it got."""
    keeps = f"Every step keeps the {'dtype' if old.shape == new.shape else 'shape'} of its state"
    if old.shape == new.shape:
        mend = f"{keeps}. Give the first state that of the others: x.astype(wg.{new.dtype})."
    elif not old.shape:
        mend = f"{keeps}. Give the first state that of the others: wg.full({_tuple_of(new)}, x)."
    elif what == "scan":
        mend = f"{keeps}: return one of shape {_tuple_of(old)}. What grows is the second result, y: scan stacks them."
    else:
        mend = f"{keeps}: return one of shape {_tuple_of(old)}. What grows is written to a buffer in it: x[i] = v."
    fail(GraphError, f"{what}: a state of {old} became {new}", mend)


def _tuple_of(spec: Any) -> str:
    return f"({', '.join(str(n) for n in spec.shape)}{',' if len(spec.shape) == 1 else ''})"


def _settled(
    fn: Callable[..., Any], carry: Any, args: tuple[Any, ...], parts: int, whole: bool = False
) -> tuple[Any, OpenTrace]:
    """Return a loop's body traced, with the numbers of the first state in the dtypes that it gives them."""
    for _ in range(2):
        _, (opened,) = _traced([fn], (carry, *args), whole)
        structure = opened.structure
        if parts == 2 and (structure.kind is not tuple or len(structure.children) != 2):
            fail(GraphError, f"scan: a step returned {structure}", "It must return a pair (carry, y).")
        state = structure.children[0] if parts == 2 else structure
        old, expected = tree.flatten(carry)
        what = "scan" if parts == 2 else "while_loop"
        ordered = opened.in_order(tree.pair(expected, structure.children[1]) if parts == 2 else expected)
        if ordered is not None:
            opened = ordered
        else:
            fail(GraphError, f"{what}: the state {expected} became {state}", "A step must return a state like its own.")
        found = [o.spec for o in opened.outs][: len(old)]
        # A number stays one where a step makes a number of it; else it takes the dtype that the step gives it.
        still = [(type(f) is WeakTensor) == (type(o) is WeakTensor) for f, o in zip(opened.outs, old)]
        if all(f == o.spec and s for f, o, s in zip(found, old, still, strict=True)):
            return carry, opened
        new = []
        for o, f, s in zip(old, found, still, strict=True):
            if type(o) is WeakTensor and f.shape == o.shape:
                wide = casted(o, f.dtype)
                new.append(weak(wide) if s else wide)
            elif f == o.spec:
                new.append(o)
            else:
                _refuse_state(what, o.spec, f)
        carry = tree.unflatten(expected, new)
    fail(GraphError, "the dtype of the state never settles", "Give the first state as tensors of one dtype.")


def _no_draws(graph: Any, own: int) -> None:
    """Refuse random numbers drawn in a traced body: one graph for all steps would draw the same in each.

    Not where the key or the position is made of the first `own` inputs, which every step brings.
    """
    changing = set(graph.inputs[:own])
    for node in graph.nodes:
        if any(isinstance(e, Node) and e in changing for e in node.inputs):
            changing.add(node)
        if not node.op.draws:
            continue
        if not takes_position(node.op) or not any(e in changing for e in node.inputs[-2:]):
            refuse(
                f"{node.op.name} draws random numbers in a traced loop, the same in every step",
                "Draw them for all steps before the loop and pass them as xs.",
            )
