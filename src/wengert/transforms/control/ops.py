"""The ops of control flow: nodes with graphs inside, which run them on arrays.

Their derivatives and their batching are written with the public functions of :mod:`.control`, which
registers them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from ...core.errors import GraphError, fail
from ...core.graph.evaluate import run
from ...core.graph.graph import Graph
from ...core.graph.snapshot import input_node
from ...core.mode import get_mode
from ...core.node import EMPTY_ATTRS, Node
from ...core.ops.op import TABLE, Call, Joint, Op
from ...core.ops.record import bind
from ...core.spec import Spec, int64, spec_of
from ...core.state.observer import observer, observers
from ...core.tensor import Tensor, wrap
from ..tracing.open_trace import OpenTrace
from ..tracing.replay import replay

# -- graphs that share their inputs


def siblings(opened: Sequence[OpenTrace], own: int) -> tuple[list[Graph], list[Tensor]]:
    """Return the graphs of several functions of the same arguments, with the same inputs, and what they capture.

    The first `own` inputs are the arguments. What several of them capture is one input.
    """
    parts = [o.close() for o in opened]
    shared: dict[Any, Tensor] = {}
    found: list[dict[Any, Node]] = []
    for graph, captured in parts:
        places = {(id(t) if t.node is None else t.node, type(t), t.spec): t for t in captured}
        found.append(dict(zip(places, graph.inputs[own:], strict=True)))
        shared.update(places)
    graphs = []
    for (graph, _), inputs in zip(parts, found, strict=True):
        others = [inputs[k] if k in inputs else input_node(t.spec) for k, t in shared.items()]
        graphs.append(Graph(graph.outputs, [*graph.inputs[:own], *others], graph.name))
    return graphs, list(shared.values())


# -- the ops


def _op(
    signature: str, forward: Callable[..., Any], infer: Callable[..., Any], recorded: Any, doc: str, **declared: Any
) -> Op:
    """Declare an op of control flow.

    `recorded(tensors, **attrs)` runs it on tensors with values, so that it is recorded.
    """
    name = signature.split("(")[0]

    def pull(ct: Any, node: Any, out: Any, args: Any) -> Any:
        return DERIVATIVES[name][0](ct, node, out, args)

    def push(ts: Any, node: Any, args: Any) -> Any:
        return DERIVATIVES[name][1](ts, node, args)

    made = Op(signature, "control", forward, facts=Joint(pull, push), infer=infer, results=-1, doc=doc, **declared)

    def front(*args: Any, **attrs: Any) -> Any:
        tensors = [a if isinstance(a, Tensor) else wrap(np.asarray(a)) for a in args]
        if any(t.is_abstract for t in tensors) or not (get_mode().grad and any(t.requires_grad for t in tensors)):
            return bind(made, tensors, attrs)
        return recorded(tensors, **attrs)

    front.__name__ = front.__qualname__ = name
    made.front = front
    return made


# By op: (pull(ct, node, out, args), push(ts, node, args)).
DERIVATIVES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {}


def _specs(graph: Graph) -> tuple[Spec, ...]:
    return tuple(n.spec for n in graph.outputs)


# -- shape rules
#
# A graph inside takes the inputs of its node, and its results go to the node or to its own next iteration:
# compiled code reads and writes memory by these sizes.


def _check_inputs(what: str, graph: Graph, given: Sequence[Any]) -> None:
    """Raise GraphError unless a graph inside takes values of these specs."""
    _check_same(f"{what} takes", [n.spec for n in graph.inputs], "is given", given)


def _check_same(what: str, found: Sequence[Any], verb: str, wanted: Sequence[Any]) -> None:
    if len(found) != len(wanted):
        fail(GraphError, f"{what} {len(found)} values and {verb} {len(wanted)}")
    for i, (a, b) in enumerate(zip(found, wanted)):
        if a != b:
            fail(GraphError, f"{what} {a} as number {i} and {verb} {b}")


def _check_count(op: str, count: int, args: Sequence[Any], what: str) -> None:
    if not 0 <= count <= len(args):
        fail(GraphError, f"{op} with {count} {what} and {len(args)} inputs")


def _infer_switch(*args: Any, branches: Sequence[Graph]) -> tuple[Spec, ...]:
    if args[0] != spec_of((), int64):
        fail(GraphError, f"switch on {args[0]}, not on an i64[]")
    specs = _specs(branches[0])
    for i, branch in enumerate(branches):
        _check_inputs(f"switch: branch {i}", branch, args[1:])
        _check_same(f"switch: branch {i} gives", _specs(branch), "branch 0 gives", specs)
    return specs


def _branch(index: Any, branches: Sequence[Graph]) -> Graph:
    """Return the branch of an index; one outside goes to the nearest."""
    return branches[min(max(int(index), 0), len(branches) - 1)]


# Small graphs for the generated checks, and what they compute.


def _branches() -> tuple[Graph, Graph]:
    return (
        Graph.parse("""graph(x: f64[2], w: f64[2]) -> f64[2]
            a: f64[2] = sin x
            b: f64[2] = multiply a w
            return b"""),
        Graph.parse("""graph(x: f64[2], w: f64[2]) -> f64[2]
            a: f64[2] = multiply x x
            b: f64[2] = multiply a x
            return b"""),
    )


def _while_sample(limit: int, keeps: bool) -> dict[str, Any]:
    outputs = "(f64[2], i64[], f64[2])" if keeps else "(f64[2], i64[])"
    test = Graph.parse("""graph(x: f64[2], n: i64[], w: f64[2]) -> bool[]
        a: bool[] = less n 4
        return a""")
    body = Graph.parse(f"""graph(x: f64[2], n: i64[], w: f64[2]) -> {outputs}
        a: f64[2] = multiply x w
        b: f64[2] = sin a
        c: i64[] = add n 1
        return b, c{", x" if keeps else ""}""")
    return {"cond": test, "body": body, "carries": 2, "max_steps": limit}


def _while_by_hand(x: Any, n: Any, w: Any, cond: Any, body: Any, carries: int, max_steps: int) -> Any:
    rows = np.zeros((max_steps, 2))
    iterations = min(max(4 - int(n), 0), max_steps)
    for i in range(iterations):
        rows[i] = x
        x, n = np.sin(x * w), n + 1
    return (x, n) if len(body.outputs) == 2 else (x, n, rows, np.asarray(iterations))


def _scan_sample(reverse: bool, keeps: bool) -> dict[str, Any]:
    outputs = "(f64[2], f64[], f64[2])" if keeps else "(f64[2], f64[])"
    body = Graph.parse(f"""graph(c: f64[2], x: f64[2], w: f64[2]) -> {outputs}
        a: f64[2] = multiply c w
        b: f64[2] = add a x
        d: f64[2] = tanh b
        e: f64[2] = multiply d c
        f: f64[] = sum[axis=(-1,), keepdims=False] e
        return d, f{", c" if keeps else ""}""")
    return {"body": body, "carries": 1, "sequences": 1, "length": 3, "reverse": reverse, "keeps": keeps}


def _scan_by_hand(
    c: Any,
    xs: Any,
    w: Any,
    body: Any,
    carries: int,
    sequences: int,
    length: int,
    reverse: bool,
    keeps: bool,
    *,
    iterations: int | None = None,
) -> Any:
    ys, states = np.zeros(length), np.zeros((length, 2))
    for i in range(length)[:iterations][:: -1 if reverse else 1]:
        states[i] = c
        new = np.tanh(c * w + xs[i])
        ys[i], c = new @ c, new
    return (c, ys, states) if keeps else (c, ys)


SWITCH = _op(
    "switch(*args: any; branches)",
    lambda *args, branches: tuple(run(_branch(args[0], branches), args[1:])),
    infer=_infer_switch,
    recorded=lambda args, branches: tuple(replay(_branch(args[0]._array, branches), args[1:])),
    doc="The branch, of several graphs of the same arguments, that the first argument says.",
    samples=lambda rng: [
        Call((np.array(i), rng.normal(size=2), rng.normal(size=2)), {"branches": _branches()}) for i in (0, 1, 7)
    ],
    reference=lambda i, x, w, branches: (np.sin(x) * w,) if i == 0 else (x * x * x,),
    onnx="If",
)


# -- loops

# A function that makes the rows of a loop's iterations into one array, with zeros where there was no iteration.
Stack = Callable[[list[Any], Spec, int], Any]


def _stack_arrays(rows: list[Any], spec: Spec, length: int) -> Any:
    # Pages of zeros that nothing is written to take no memory.
    out = np.zeros((length, *spec.shape), np.asarray(rows[0]).dtype if rows else spec.dtype)
    for i, row in enumerate(rows):
        out[i] = row
    if observers and rows and (seen := observer()) is not None:
        again = lambda *values: _stack_arrays(list(values), spec, length)
        seen.step(TABLE["stack"], rows, out, again, EMPTY_ATTRS, perf_counter())
    return out


def stack_tensors(rows: list[Any], spec: Spec, length: int) -> Any:
    """Return `_stack_arrays` of tensors, recorded."""
    if not rows:
        return wrap(np.zeros((length, *spec.shape), spec.dtype))
    stacked = bind(TABLE["stack"], rows, {"axis": -1 - len(spec.shape)})
    if len(rows) == length:
        return stacked
    entries = ((0, len(rows), None), *((None, None, None),) * len(spec.shape))
    return bind(TABLE["slice_transpose"], [stacked], {"entries": entries, "sizes": (length, *spec.shape)})


def _while(
    args: Sequence[Any], cond: Any, body: Any, stack: Stack, specs: Sequence[Spec], carries: int, max_steps: int | None
) -> tuple[Any, ...]:
    carry, shared = list(args[:carries]), args[carries:]
    rows: list[list[Any]] = [[] for _ in specs[carries:]]
    iterations = 0
    while (max_steps is None or iterations < max_steps) and cond([*carry, *shared]):
        found = body([*carry, *shared])
        carry = found[:carries]
        for row, y in zip(rows, found[carries:], strict=True):
            row.append(y)
        iterations += 1
    if not rows:
        return tuple(carry)
    assert max_steps is not None
    stacked = [stack(row, s, max_steps) for row, s in zip(rows, specs[carries:], strict=True)]
    return (*carry, *stacked, np.asarray(iterations, np.int64))


def _infer_while(*args: Any, cond: Graph, body: Graph, carries: int, max_steps: int | None) -> Any:
    _check_count("while_loop", carries, args, "carries")
    _check_inputs("while_loop: the condition", cond, args)
    _check_inputs("while_loop: the body", body, args)
    if len(cond.outputs) != 1 or cond.outputs[0].spec.size != 1:
        fail(GraphError, f"while_loop: the condition gives {_specs(cond)}, not a scalar")
    specs = _specs(body)
    _check_same("while_loop: the body gives", specs[:carries], "takes", args[:carries])
    if len(specs) == carries:
        return specs
    if max_steps is None:
        fail(GraphError, "a while_loop that gives rows without max_steps")
    return (*specs[:carries], *_rows(specs[carries:], max_steps), spec_of((), int64))


def _rows(specs: Sequence[Spec], length: int) -> tuple[Spec, ...]:
    return tuple(spec_of((length, *s.shape), s.dtype) for s in specs)


WHILE = _op(
    "while_loop(*args: any; cond, body, carries, max_steps)",
    lambda *args, cond, body, **attrs: _while(
        args, lambda a: bool(run(cond, a)[0]), lambda a: run(body, a), _stack_arrays, _specs(body), **attrs
    ),
    infer=_infer_while,
    recorded=lambda args, cond, body, **attrs: _recorded_while(args, cond, body, **attrs),
    doc="The body again and again while the condition holds. What it gives besides the state are rows, of which there "
    "are `max_steps`, zeros where there was no iteration; the number of iterations comes last then.",
    samples=lambda rng: [
        Call((rng.normal(size=2), np.array(n), rng.normal(size=2)), _while_sample(limit, keeps))
        for n, limit in ((0, 6), (2, 6), (5, 6), (0, 2))
        for keeps in (False, True)
    ],
    reference=_while_by_hand,
    onnx="Loop",
)


def _recorded_while(args: Sequence[Tensor], cond: Graph, body: Graph, **attrs: Any) -> tuple[Tensor, ...]:
    found = _while(
        args,
        lambda a: bool(replay(cond, a)[0]._array),
        lambda a: replay(body, a),
        stack_tensors,
        _specs(body),
        **attrs,
    )
    return tuple(wrap(x) if isinstance(x, np.ndarray) else x for x in found)


def _scan(
    args: Sequence[Any],
    body: Any,
    stack: Stack,
    specs: Sequence[Spec],
    carries: int,
    sequences: int,
    length: int,
    reverse: bool,
    iterations: int | None = None,
) -> tuple[Any, ...]:
    """Run the first `iterations` steps, those of the first rows; None: all."""
    carry = list(args[:carries])
    xs, shared = args[carries : carries + sequences], args[carries + sequences :]
    rows: list[list[Any]] = [[] for _ in specs]
    steps = range(length) if iterations is None else range(min(max(iterations, 0), length))
    for i in reversed(steps) if reverse else steps:
        found = body([*carry, *(x[i] for x in xs), *shared])
        carry = found[:carries]
        for row, y in zip(rows, found[carries:], strict=True):
            row.append(y)
    return (*carry, *(stack(row[::-1] if reverse else row, s, length) for row, s in zip(rows, specs, strict=True)))


def _infer_scan(*args: Any, body: Graph, carries: int, sequences: int, length: int, reverse: bool, keeps: bool) -> Any:
    _check_count("scan", carries, args, "carries")
    _check_count("scan", sequences, args[carries:], "sequences")
    for x in args[carries : carries + sequences]:
        if x.shape[:1] != (length,):
            fail(GraphError, f"scan over {length} rows of {x}")
    rows = [x.with_shape(x.shape[1:]) for x in args[carries : carries + sequences]]
    _check_inputs("scan: the body", body, [*args[:carries], *rows, *args[carries + sequences :]])
    specs = _specs(body)
    _check_same("scan: the body gives", specs[:carries], "takes", args[:carries])
    if keeps and body.outputs[len(specs) - carries :] != body.inputs[:carries]:
        fail(GraphError, "scan: the body does not give the state that each step begins with last")
    return (*specs[:carries], *_rows(specs[carries:], length))


def _infer_partial(iterations: Any, *args: Any, **attrs: Any) -> Any:
    if iterations != spec_of((), int64):
        fail(GraphError, f"partial_scan over {iterations} rows, not over an i64[]")
    return _infer_scan(*args, **attrs)


def _run_scan(args: Sequence[Any], iterations: Any, body: Graph, keeps: bool, carries: int, **attrs: Any) -> Any:
    count = None if iterations is None else int(iterations)
    specs = _specs(body)[carries:]
    return _scan(args, lambda a: run(body, a), _stack_arrays, specs, carries, iterations=count, **attrs)


def _recorded_scan(
    args: Sequence[Tensor], iterations: Any, body: Graph, keeps: bool, carries: int, **attrs: Any
) -> Any:
    count = None if iterations is None else int(iterations._array)
    specs = _specs(body)[carries:]
    return _scan(args, lambda a: replay(body, a), stack_tensors, specs, carries, iterations=count, **attrs)


SCAN = _op(
    "scan(*args: any; body, carries, sequences, length, reverse, keeps)",
    lambda *args, **attrs: _run_scan(args, None, **attrs),
    infer=_infer_scan,
    recorded=lambda args, **attrs: _recorded_scan(args, None, **attrs),
    doc="A state carried through the body over the rows of sequences, and the rows that it gives.",
    samples=lambda rng: [
        Call((rng.normal(size=2), rng.normal(size=(3, 2)), rng.normal(size=2)), _scan_sample(reverse, keeps))
        for reverse in (False, True)
        for keeps in (False, True)
    ],
    reference=_scan_by_hand,
    onnx="Scan",
)

PARTIAL_SCAN = _op(
    "partial_scan(*args: any; body, carries, sequences, length, reverse, keeps)",
    lambda iterations, *args, **attrs: _run_scan(args, iterations, **attrs),
    infer=_infer_partial,
    recorded=lambda args, **attrs: _recorded_scan(args[1:], args[0], **attrs),
    doc="A scan over as many of the first rows as the first argument says; the other rows that it gives are zeros.",
    samples=lambda rng: [
        Call(
            (np.array(iterations), rng.normal(size=2), rng.normal(size=(3, 2)), rng.normal(size=2)),
            _scan_sample(reverse, iterations == 2),
        )
        for reverse in (False, True)
        for iterations in (0, 2, 3, 9)
    ],
    reference=lambda iterations, *args, **attrs: _scan_by_hand(*args, **attrs, iterations=int(iterations)),
    onnx="Loop",
)
