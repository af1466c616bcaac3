"""Forms of control flow: conditions, loops and scans, with graphs inside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....core.graph.graph import Graph
from ....core.spec import spec_of
from .writer import Call, Writer, form


def _branch(g: Writer, graph: Graph, given: Sequence[str], name: str) -> Any:
    """Return a branch, which reads what it is given from the graph around it."""
    inner = Writer(g.opset, g)
    outputs = inner.write(graph, given)
    return g.finished(inner, name, (), (), outputs, [n.spec for n in graph.outputs])


@form("switch")
def _switch(g: Writer, n: Call, index: str, *operands: str) -> Any:
    branches = n["branches"]
    count = len(n.specs)

    def chosen(w: Writer, first: int) -> Any:
        """Return an If between a branch and those after it."""
        # An index outside goes to the nearest branch.
        here = w("LessOrEqual", index, w.const(first, n.operand(0).dtype))
        yes = _branch(w, branches[first], operands, f"branch_{first}")
        if first == len(branches) - 2:
            no = _branch(w, branches[-1], operands, f"branch_{first + 1}")
        else:
            inner = Writer(w.opset, w)
            ends = chosen(inner, first + 1)
            no = w.finished(inner, f"branches_{first + 1}", (), (), ends if count > 1 else (ends,), n.specs)
        return w("If", here, results=count, then_branch=yes, else_branch=no)

    if len(branches) == 1:
        return tuple(g.write(branches[0], operands))
    return chosen(g, 0)


@form("scan")
def _scan(g: Writer, n: Call, *operands: str) -> Any:
    carries, sequences = n["carries"], n["sequences"]
    body: Graph = n["body"]
    states = operands[:carries]
    rows = operands[carries : carries + sequences]
    around = operands[carries + sequences :]
    inner = Writer(g.opset, g)
    names = [inner.name(f"state_{i}") for i in range(carries)] + [inner.name(f"row_{i}") for i in range(sequences)]
    outputs = inner.write(body, [*names, *around])
    specs = [node.spec for node in body.inputs[: carries + sequences]]
    outs = len(body.outputs) - carries
    if not sequences:
        # A loop without rows: ONNX's Scan needs one, so a count is scanned.
        names.append(inner.name("count"))
        specs.append(spec_of((), np.dtype(np.int64)))
        rows = (g.const(np.arange(n["length"])),)
    graph = g.finished(inner, "body", names, specs, outputs, [node.spec for node in body.outputs])
    back = [1] * len(rows) if n["reverse"] else None
    return g(
        "Scan", *states, *rows, results=carries + outs, num_scan_inputs=len(rows), body=graph,
        scan_input_directions=back, scan_output_directions=[1] * outs if n["reverse"] and outs else None,
    )  # fmt: skip


@form("while_loop")
def _while_loop(g: Writer, n: Call, *operands: str) -> Any:
    carries = n["carries"]
    states, around = operands[:carries], operands[carries:]
    condition: Graph = n["cond"]
    body: Graph = n["body"]
    (going,) = g.write(condition, [*states, *around])
    inner = Writer(g.opset, g)
    names = [inner.name("turn"), inner.name("cond"), *(inner.name(f"state_{i}") for i in range(carries))]
    outputs = inner.write(body, [*names[2:], *around])
    again = inner.write(condition, [*outputs[:carries], *around])
    limit = "" if n["max_steps"] is None else g.const(n["max_steps"], np.int64)
    results = _loop(g, inner, names, limit, going, states, again[0], outputs, body)
    ends, kept = results[:carries], results[carries:]
    if not kept:
        return ends
    # The turns that ran are as many as ONNX's loop kept.
    iterations = g("Gather", g("Shape", kept[0]), g.const(0, np.int64), axis=0)
    specs = [node.spec for node in body.outputs[carries:]]
    return (*ends, *_padded(g, kept, specs, iterations, n["max_steps"]), iterations)


@form("partial_scan")
def _partial_scan(g: Writer, n: Call, iterations: str, *operands: str) -> Any:
    carries, sequences = n["carries"], n["sequences"]
    body: Graph = n["body"]
    states = operands[:carries]
    sequence_names = operands[carries : carries + sequences]
    around = operands[carries + sequences :]
    count = g("Min", g("Max", iterations, g.const(0, np.int64)), g.const(n["length"], np.int64))
    last = g("Sub", count, g.const(1, np.int64))
    inner = Writer(g.opset, g)
    names = [inner.name("turn"), inner.name("cond"), *(inner.name(f"state_{i}") for i in range(carries))]
    at = inner("Sub", last, names[0]) if n["reverse"] else names[0]
    rows = [inner("Gather", x, at, axis=0) for x in sequence_names]
    outputs = inner.write(body, [*names[2:], *rows, *around])
    results = _loop(g, inner, names, count, "", states, names[1], outputs, body)
    ends, kept = results[:carries], results[carries:]
    if n["reverse"] and kept:
        # A Range down to -1 would say it at once, but onnxruntime 1.32 makes a Slice of that, for which -1 is the end.
        backwards = g("Sub", last, g("Range", g.const(0, np.int64), count, g.const(1, np.int64)))
        kept = tuple(g("Gather", row, backwards, axis=0) for row in kept)
    return (*ends, *_padded(g, kept, [node.spec for node in body.outputs[carries:]], count, n["length"]))


def _loop(
    g: Writer, inner: Writer, names: list[str], limit: str, going: str, states: Sequence[str], again: str,
    outputs: Sequence[str], body: Graph,
) -> tuple[str, ...]:  # fmt: skip
    """Return a Loop's results: the last states, then what the turns that ran gave besides, stacked."""
    truth = spec_of((), np.dtype(np.bool_))
    specs = [spec_of((), np.dtype(np.int64)), truth, *(node.spec for node in body.inputs[: len(states)])]
    results = [truth, *(node.spec for node in body.outputs)]
    graph = g.finished(inner, "body", names, specs, [again, *outputs], results)
    found = g("Loop", limit, going, *states, results=len(outputs), body=graph)
    return found if isinstance(found, tuple) else (found,)


def _padded(g: Writer, kept: Sequence[str], specs: Sequence[Any], count: str, length: Any) -> list[str]:
    """Return rows with zeros after them, up to a length."""
    missing = g("Sub", g.size(length), g.reshape(count, (1,)))
    zero = g.onnx.numpy_helper.from_array
    return [
        g(
            "Concat", row, g(
                "ConstantOfShape", g("Concat", missing, g.shape(s.shape), axis=0), value=zero(np.zeros(1, s.dtype)),
            ), axis=0,
        )
        for row, s in zip(kept, specs, strict=True)
    ]  # fmt: skip
