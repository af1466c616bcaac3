"""The derivatives and batching of control flow: loops and branches of derivatives are loops and branches.

The rules are written with the public functions, so the derivative of a scan is a scan, and has
derivatives in turn (Griewank and Walther, Evaluating Derivatives, 2008, chapter 12 on reversal).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.errors import GradientError, fail
from ...core.graph.graph import Graph
from ...core.node import Node
from ...core.ops.op import TABLE
from ...core.ops.record import abstract_input, bind, filled
from ...core.spec import bool_, int64, spec_of
from ...core.tensor import Tensor
from ..batch import rules as batch_rules
from ..batch.rules import Batched
from ..batch.vmap import CONTROL, run_batched
from ..derivatives.functional import vjp
from ..derivatives.tangents import jvp
from ..tracing.replay import replay
from .functions import partial_scan, scan, switch, while_loop, while_rows
from .ops import DERIVATIVES, SCAN, WHILE


def _inexact(t: Any) -> bool:
    return bool(t.spec.inexact)


def _pull_graph(graph: Graph, args: Sequence[Tensor], cts: Sequence[Any]) -> list[Any]:
    """Return the cotangents of a graph's inputs (None where they have none) for those of its results."""
    live = [i for i, n in enumerate(graph.outputs) if n.spec.inexact]
    if not any(map(_inexact, args)):
        return [None] * len(args)

    def floating(values: list[Tensor]) -> list[Tensor]:
        found = replay(graph, values)
        return [found[i] for i in live]

    _, pull = vjp(floating, list(args))
    return list(pull([cts[i] for i in live])[0])


def _push_graph(graph: Graph, args: Sequence[Tensor], ts: Sequence[Any]) -> tuple[list[Tensor], list[Any]]:
    """Return a graph's results and their tangents, for tangents of its inputs (None for none)."""
    if all(t is None for t in ts):
        found = replay(graph, args)
        return found, [filled(0, o.spec) if _inexact(o) else None for o in found]
    out, tangents = jvp(lambda values: replay(graph, values), (list(args),), (list(ts),))
    return out, tangents


def _present(ts: Sequence[Any]) -> list[int]:
    return [i for i, t in enumerate(ts) if t is not None]


def _spaced(values: Sequence[Any], places: Sequence[int], count: int) -> list[Any]:
    out: list[Any] = [None] * count
    for i, v in zip(places, values, strict=True):
        out[i] = v
    return out


# -- switch


def _switch_pull(ct: Any, node: Any, out: Any, args: Any) -> tuple[Any, ...]:
    index, *operands = args
    wanted = [i for i, a in enumerate(operands) if _inexact(a)]
    cts = list(ct)
    live = [i for i, c in enumerate(cts) if c is not None]

    def pulling(graph: Graph) -> Any:
        def branch(operands: list[Tensor], given: list[Tensor]) -> list[Tensor]:
            found = _pull_graph(graph, operands, _spaced(given, live, len(cts)))
            return [found[i] for i in wanted]

        return branch

    found = switch(index, [pulling(g) for g in node.attrs["branches"]], list(operands), [cts[i] for i in live])
    return (None, *_spaced(found, wanted, len(operands)))


def _switch_push(ts: Any, node: Any, args: Any) -> tuple[Any, ...]:
    index, *operands = args
    given = ts[1:]
    places = _present(given)
    live = [i for i, s in enumerate(node.spec) if s.inexact]

    def pushing(graph: Graph) -> Any:
        def branch(operands: list[Tensor], tangents: list[Tensor]) -> list[Tensor]:
            _, found = _push_graph(graph, operands, _spaced(tangents, places, len(operands)))
            return [found[i] for i in live]

        return branch

    found = switch(index, [pushing(g) for g in node.attrs["branches"]], list(operands), [given[i] for i in places])
    return tuple(_spaced(found, live, len(node.spec)))


def _switch_batch(node: Node, args: list[Batched], size: int, randomness: str) -> tuple[Batched, ...]:
    index, *operands = args
    branches: tuple[Graph, ...] = node.attrs["branches"]
    flags = [o.mapped for o in operands]
    values = [o.value for o in operands]

    def run_branch(graph: Graph, values: Sequence[Tensor]) -> list[Tensor]:
        found = run_batched(graph, list(zip(values, flags, strict=True)), size, randomness)
        return [batch_rules.spread(f, size) for f in found]

    if not index.mapped:
        outs = switch(index.value, [lambda *v, g=g: run_branch(g, v) for g in branches], *values)
        return tuple(Batched(o, True) for o in outs)
    rows = [run_branch(g, values) for g in branches]
    outs = list(rows[0])
    for k, row in enumerate(rows[1:], 1):
        chosen = index.value >= k
        outs = [_where(chosen, new, old) for new, old in zip(row, outs, strict=True)]
    return tuple(Batched(o, True) for o in outs)


def _where(chosen: Tensor, new: Tensor, old: Tensor) -> Tensor:
    """Return a choice by example: `chosen` has one boolean for each."""
    if new.ndim > 1:
        chosen = batch_rules.reshape(chosen, (*chosen.shape, *(1,) * (new.ndim - 1)))
    return TABLE["where"].front(chosen, new, old)  # type: ignore[no-any-return]


# -- while_loop


def _while_parts(node: Any, args: Sequence[Any]) -> tuple[list[Any], list[Any], Graph, Graph, int | None]:
    n = node.attrs["carries"]
    return list(args[:n]), list(args[n:]), node.attrs["cond"], node.attrs["body"], node.attrs["max_steps"]


def _while_pull(ct: Any, node: Any, out: Any, args: Any) -> tuple[Any, ...]:
    """Return the cotangents by the iterations that were taken, in reverse, each from the state that it began with."""
    carry, shared, _, body, limit = _while_parts(node, args)
    if limit is None:
        fail(
            GradientError,
            "reverse mode through a traced while_loop whose number of steps is not bounded",
            "Say at most how many steps it takes: wg.while_loop(..., max_steps=n); or use wg.scan, or forward mode.",
            None if node.source is None else str(node.source),
        )
    n = len(carry)
    given = [i for i in range(n, len(body.outputs)) if body.outputs[i] in body.inputs[:n]]
    states = {body.outputs[i]: out[i] for i in given}
    if len(states) == n:
        iterations = out[-1]
    else:
        # The same loop once more, with the states as rows.
        keeping = Graph([*body.outputs[:n], *body.inputs[:n]], body.inputs, body.name)
        *found, iterations = WHILE.front(*args, **{**node.attrs, "body": keeping})
        states = dict(zip(body.inputs, found[n:]))
    cts = [c if n.spec.inexact else None for c, n in zip(ct, body.outputs)]
    return _pulled(body, cts, [states[i] for i in body.inputs[:n]], [], shared, iterations, limit, False)


def _while_push(ts: Any, node: Any, args: Any) -> tuple[Any, ...]:
    carry, shared, test, body, limit = _while_parts(node, args)
    n = len(carry)
    live = [i for i, c in enumerate(carry) if _inexact(c)]
    ys = [i for i in range(n, len(body.outputs)) if body.outputs[i].spec.inexact]
    tangents = [ts[i] if ts[i] is not None else filled(0, carry[i].spec) for i in live]

    def going(state: tuple[list[Tensor], list[Tensor]]) -> Tensor:
        return replay(test, [*state[0], *shared])[0]

    def step(state: tuple[list[Tensor], list[Tensor]]) -> Any:
        values, along = state
        found, pushed = _push_graph(body, [*values, *shared], [*_spaced(along, live, n), *ts[n:]])
        return (found[:n], [pushed[i] for i in live]), [pushed[i] for i in ys]

    if not ys:
        _, last = while_loop(going, lambda s: step(s)[0], (carry, tangents), limit)
        return tuple(_spaced(last, live, len(node.spec)))
    assert limit is not None
    (_, last), rows, _ = while_rows(going, step, (carry, tangents), limit)
    return tuple(_spaced([*last, *rows], [*live, *ys], len(node.spec)))


def _while_batch(node: Node, args: list[Batched], size: int, randomness: str) -> tuple[Batched, ...]:
    n, test, body, limit = (node.attrs[k] for k in ("carries", "cond", "body", "max_steps"))
    carry, shared = args[:n], [(a.value, a.mapped) for a in args[n:]]
    others = [f for _, f in shared]

    def fed(values: Sequence[Tensor], flags: Sequence[bool]) -> list[tuple[Any, bool]]:
        return [*zip(values, flags, strict=True), *shared]

    flags = _settled_flags(body, [c.mapped for c in carry], others, size, randomness, n)
    (asked,) = _mapped_results(test, [*flags, *others], size, randomness)
    if asked:
        flags = [True] * n
    start = [batch_rules.spread(c, size) if f else c.value for c, f in zip(carry, flags, strict=True)]

    # Every example's iterations are counted also where nothing asks for them: a loop that runs for its last
    # state and one that runs for its rows are the same then, and what is compiled is one.
    counts = [filled(0, spec_of((size,), int64))] if asked and limit is not None else []

    def going(values: list[Tensor]) -> Tensor:
        return run_batched(test, fed(values, flags), size, randomness)[0].value  # type: ignore[no-any-return]

    def goes_on(state: tuple[list[Tensor], list[Tensor]]) -> Tensor:
        found = going(state[0])
        return bind(TABLE["any"], [_booleans(found)], {"axis": (-1,), "keepdims": False}) if asked else found

    def step(state: tuple[list[Tensor], list[Tensor]]) -> Any:
        values, iterations = state
        found = run_batched(body, fed(values, flags), size, randomness)
        new = [batch_rules.spread(r, size) if f else r.value for r, f in zip(found, flags)]
        if asked:
            still = _booleans(going(values))
            new = [_where(still, a, b) for a, b in zip(new, values, strict=True)]
            iterations = [c + still.astype(int64) for c in iterations]
        return (new, iterations), [r.value for r in found[n:]]

    if len(body.outputs) == n:
        out, _ = while_loop(goes_on, lambda state: step(state)[0], (start, counts), limit)
        return tuple(Batched(o, f) for o, f in zip(out, flags, strict=True))
    (out, own), rows, together = while_rows(goes_on, step, (start, counts), limit)
    mapped = _mapped_results(body, [*flags, *others], size, randomness)[n:]
    outs = [batch_rules.move(y, 1, 0) if f else y for y, f in zip(rows, mapped, strict=True)]
    return (*map(Batched, out, flags), *map(Batched, outs, mapped), Batched(own[0] if asked else together, asked))


def _booleans(t: Tensor) -> Tensor:
    """Return one boolean per example, of a condition that may have axes of size 1."""
    t = batch_rules.reshape(t, (t.shape[0],))
    return t if t.dtype == bool_ else t != 0


def _mapped_results(graph: Graph, flags: Sequence[bool], size: int, randomness: str) -> list[bool]:
    """Return which results differ between examples when these inputs do."""
    feeds = []
    for n, mapped in zip(graph.inputs, flags, strict=True):
        shape = (size, *n.spec.shape) if mapped else n.spec.shape
        feeds.append((abstract_input(spec_of(shape, n.spec.dtype)), mapped))
    return [f.mapped for f in run_batched(graph, feeds, size, randomness)]


def _settled_flags(
    body: Graph, flags: list[bool], others: Sequence[bool], size: int, randomness: str, carries: int
) -> list[bool]:
    """Return which parts of a loop's state differ between examples: once they do, they do from then on."""
    while True:
        found = _mapped_results(body, [*flags, *others], size, randomness)[:carries]
        merged = [a or b for a, b in zip(flags, found, strict=True)]
        if merged == flags:
            return flags
        flags = merged


# -- scan


def _scan_parts(node: Any, args: Sequence[Any]) -> tuple[Any, list[Any], list[Any], list[Any]]:
    """Return the number of iterations (None: one for every row), the state, the rows and the shared values."""
    n, m = node.attrs["carries"], node.attrs["sequences"]
    iterations, args = (None, args) if node.op is SCAN else (args[0], args[1:])
    return iterations, list(args[:n]), list(args[n : n + m]), list(args[n + m :])


def _scanned(step: Any, init: Any, xs: Any, iterations: Any, length: int, reverse: bool) -> tuple[Any, Any]:
    """Run a scan over all rows, or over the first ones."""
    if iterations is None:
        return scan(step, init, xs, length, reverse)
    return partial_scan(step, init, xs, iterations, length, reverse)


def _scan_pull(ct: Any, node: Any, out: Any, args: Any) -> tuple[Any, ...]:
    iterations, carry, xs, shared = _scan_parts(node, args)
    body: Graph = node.attrs["body"]
    n, length, reverse = len(carry), node.attrs["length"], node.attrs["reverse"]
    if node.attrs["keeps"]:
        states = list(out[len(out) - n :])
    else:
        # Every step's state, by the loop run once more.
        _, states = _scanned(
            lambda c, x: (replay(body, [*c, *x, *shared])[:n], c), carry, xs, iterations, length, reverse
        )
    cts = [c if s.inexact else None for c, s in zip(ct, node.spec, strict=True)]
    found = _pulled(body, cts, states, xs, shared, iterations, length, reverse)
    return found if iterations is None else (None, *found)


def _pulled(
    body: Graph,
    cts: Sequence[Any],
    states: Sequence[Any],
    xs: Sequence[Any],
    shared: Sequence[Any],
    iterations: Any,
    length: int,
    reverse: bool,
) -> tuple[Any, ...]:
    """Return the cotangents of a loop's state, rows and shared values, by the iterations in reverse.

    `states` has as rows what every iteration began with; `cts` are of the body's results, of all its rows if any.
    """
    n, m = len(states), len(xs)
    live = [i for i, c in enumerate(states) if _inexact(c)]
    rows = [i for i, x in enumerate(xs) if _inexact(x)]
    weights = [i for i, s in enumerate(shared) if _inexact(s)]
    ys = [i for i in range(n, len(cts)) if cts[i] is not None]

    def step(state: Any, elements: Any) -> Any:
        arriving, sums = state
        c, x, ct_y = elements
        given = _spaced([*arriving, *ct_y], [*live, *ys], len(cts))
        found = _pull_graph(body, [*c, *x, *shared], given)
        sums = [s + found[n + m + i] for s, i in zip(sums, weights, strict=True)]
        return ([found[i] for i in live], sums), [found[n + i] for i in rows]

    start = ([cts[i] for i in live], [filled(0, shared[i].spec) for i in weights])
    given = (list(states), list(xs), [cts[i] for i in ys])
    (first, sums), ct_xs = _scanned(step, start, given, iterations, length, not reverse)
    return (*_spaced(first, live, n), *_spaced(ct_xs, rows, m), *_spaced(sums, weights, len(shared)))


def _scan_push(ts: Any, node: Any, args: Any) -> tuple[Any, ...]:
    iterations, carry, xs, shared = _scan_parts(node, args)
    ts = ts if iterations is None else ts[1:]
    body: Graph = node.attrs["body"]
    n, m = len(carry), len(xs)
    live = [i for i, c in enumerate(carry) if _inexact(c)]
    rows = _present(ts[n : n + m])
    ys = [i for i in range(n, len(node.spec)) if node.spec[i].inexact]
    tangents = [ts[i] if ts[i] is not None else filled(0, carry[i].spec) for i in live]

    def step(state: Any, elements: Any) -> Any:
        values, along = state
        x, tx = elements
        given = [*_spaced(along, live, n), *_spaced(tx, rows, m), *ts[n + m :]]
        found, pushed = _push_graph(body, [*values, *x, *shared], given)
        return (found[:n], [pushed[i] for i in live]), [pushed[i] for i in ys]

    read = (xs, [ts[n + i] for i in rows])
    (_, last), ty = _scanned(step, (carry, tangents), read, iterations, node.attrs["length"], node.attrs["reverse"])
    return tuple(_spaced([*last, *ty], [*live, *ys], len(node.spec)))


def _scan_batch(node: Node, args: list[Batched], size: int, randomness: str) -> tuple[Batched, ...]:
    iterations, carry, xs, shared = _scan_parts(node, args)
    body: Graph = node.attrs["body"]
    length, reverse = node.attrs["length"], node.attrs["reverse"]
    n = len(carry)
    own = iterations is not None and iterations.mapped  # every example has iterations of its own
    rows = [x.mapped for x in xs]
    others = [*rows, *(s.mapped for s in shared)]
    flags = _settled_flags(body, [c.mapped or own for c in carry], others, size, randomness, n)
    start = [batch_rules.spread(c, size) if f else c.value for c, f in zip(carry, flags, strict=True)]
    # The steps come first, then the examples.
    elements = [batch_rules.move(x.value, 0, 1) if x.mapped else x.value for x in xs]
    fixed = [(s.value, s.mapped) for s in shared]
    mapped = _mapped_results(body, [*flags, *others], size, randomness)[n:]

    def step(state: list[Tensor], x: list[Tensor]) -> Any:
        feeds = [*zip(state, flags, strict=True), *zip(x, rows, strict=True), *fixed]
        found = run_batched(body, feeds, size, randomness)
        new = [batch_rules.spread(r, size) if f else r.value for r, f in zip(found[:n], flags, strict=True)]
        return new, [r.value for r in found[n:]]

    def own_iterations(state: Any, x: list[Tensor]) -> Any:
        """Run a step for those examples that have this iteration."""
        i, values = state
        new, ys = step(values, x)
        new = [_where(iterations.value > i, a, b) for a, b in zip(new, values, strict=True)]
        return (i - 1 if reverse else i + 1, new), ys

    if own:
        zero = filled(0, spec_of((), int64))
        most = TABLE["concat"].front(zero.reshape((1,)), iterations.value, axis=-1).max()
        first = most - 1 if reverse else zero
        (_, last), ys = partial_scan(own_iterations, (first, start), elements, most, length, reverse)
    else:
        last, ys = _scanned(step, start, elements, None if iterations is None else iterations.value, length, reverse)
    outs = [batch_rules.move(y, 1, 0) if f else y for y, f in zip(ys, mapped, strict=True)]
    return (*map(Batched, last, flags), *map(Batched, outs, mapped))


DERIVATIVES.update(
    {
        "switch": (_switch_pull, _switch_push),
        "while_loop": (_while_pull, _while_push),
        "scan": (_scan_pull, _scan_push),
        "partial_scan": (_scan_pull, _scan_push),
    }
)
CONTROL.update({"switch": _switch_batch, "while_loop": _while_batch, "scan": _scan_batch, "partial_scan": _scan_batch})
