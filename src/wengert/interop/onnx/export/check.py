"""`check`: does another runtime compute the same?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import wengert as wg

from ....core.graph.snapshot import specs_of
from ..errors import refuse, shown
from ..values import package
from .save import DEFAULT_OPSET, model_proto


class Difference(NamedTuple):
    """The first value that differs: the ONNX node, the op and the user's line, and by how much."""

    node: str
    op: str
    source: str
    largest: float

    def __str__(self) -> str:
        return f"{self.node} ({self.op}, {self.source or 'no source'}) differs by {self.largest:.3g}"


def check(
    f: Any,
    args: Sequence[Any],
    *,
    opset: int = DEFAULT_OPSET,
    rtol: float = 1e-4,
    atol: float = 1e-5,
    runtime: str = "onnxruntime",
) -> Difference | None:
    """Export a function and return the first value that another runtime computes differently; None where all agree.

    Parameters
    ----------
    f: a function, a module or a graph, as for :func:`save`.
    args: its arguments.
    opset: the version of ONNX's operators.
    rtol, atol: how far a value may be off: `atol + rtol * abs(value)`.
    runtime: "onnxruntime", or "reference" for the evaluator of the package onnx.

    Every value that a node of the graph has is compared, in order, with the graph run by Wengert; the first that
    differs is named with the user's line. Raises OnnxError where the graph has no form in ONNX, or the runtime refuses
    it.

    >>> import wengert as wg
    >>> wg.interop.onnx.check(lambda x: wg.exp(x) + 1, [wg.ones((2,))], runtime="reference") is None
    True
    """
    tensors = [wg.asarray(a) for a in args]
    proto, writer, graph = model_proto(f, [t.spec for t in tensors], opset=opset)
    onnx = package()
    inner = {o for node in proto.graph.node for o in node.output}
    # The nodes of the graph, by the last of the ONNX values that stand for each.
    named: dict[str, Any] = {}
    for node, names in writer.of.items():
        for i, name in enumerate(names):
            if name in inner and name not in named:
                named[name] = (node, i)
    whole = onnx.ModelProto()
    whole.CopyFrom(proto)
    ends = [o.name for o in proto.graph.output]
    extra = [n for n in named if n not in ends]
    whole.graph.output.extend(onnx.ValueInfoProto(name=n) for n in extra)
    plain = [i.name for i in proto.graph.input]
    feeds = {n: np.asarray(t.detach().numpy()) for n, t in zip(plain, tensors)}
    theirs = _run(whole, feeds, [*extra, *ends], runtime)
    ours = _ours(graph, writer, tensors)
    order = {node: i for i, node in enumerate(ours)}
    for name in sorted(extra, key=lambda n: order.get(named[n][0], 0)):
        node, i = named[name]
        if node not in ours:
            continue
        off = _differs(np.asarray(ours[node][i]), theirs[name], rtol, atol)
        if off is not None:
            return Difference(shown(name), node.op.name, str(node.source or ""), off)
    return None


def _ours(graph: Any, writer: Any, tensors: Sequence[Any]) -> dict[Any, tuple[Any, ...]]:
    """Return the value of every node, as the interpreter computes it, composites opened as they were written."""
    values: dict[Any, tuple[Any, ...]] = {}
    given = iter(tensors)
    for node in writer.of:
        if node in graph.bound:
            values[node] = (np.asarray(graph.bound[node].detach().numpy()),)
        elif node in graph.inputs:
            values[node] = (np.asarray(next(given).detach().numpy()),)
        elif node.op.name == "constant":
            values[node] = (np.asarray(node.attrs["value"]),)
        elif node.op.name == "output":
            values[node] = (values[node.inputs[0]][node.attrs["index"]],)
        elif all(not hasattr(e, "op") or e in values for e in node.inputs):
            operands = [values[e][0] if hasattr(e, "op") else e for e in node.inputs]
            specs = specs_of(node)
            made = node.op.forward(*operands, **node.attrs)
            values[node] = tuple(made) if isinstance(node.spec, tuple) else (made,)
            values[node] = tuple(np.asarray(v, dtype=s.dtype) for v, s in zip(values[node], specs))
    return values


def _run(proto: Any, feeds: Mapping[str, Any], names: Sequence[str], runtime: str) -> dict[str, Any]:
    onnx = package()
    if runtime == "reference":
        import onnx.reference

        found = onnx.reference.ReferenceEvaluator(proto).run(list(names), dict(feeds))
        return dict(zip(names, found))
    if runtime != "onnxruntime":
        refuse(f"runtime is {runtime!r}, and neither 'onnxruntime' nor 'reference'")
    try:
        import onnxruntime
    except ImportError:
        refuse("the comparison needs the package onnxruntime", "Install it with: pip install onnxruntime")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
        found = session.run(list(names), dict(feeds))
    except Exception as e:
        refuse(f"onnxruntime refuses the model: {shown(str(e), 400)}")
    return dict(zip(names, found))


def _differs(ours: Any, theirs: Any, rtol: float, atol: float) -> float | None:
    """Return by how much two arrays differ at most, where that is more than allowed; else None."""
    theirs = np.asarray(theirs)
    if ours.shape != theirs.shape:
        return float("inf")
    if ours.dtype.kind not in "fc":
        return None if (ours == theirs).all() else float(np.abs(ours.astype(float) - theirs.astype(float)).max())
    same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
    with np.errstate(all="ignore"):
        off = np.where(same, 0, np.abs(ours.astype(np.float64) - theirs.astype(np.float64)))
        bad = ~same & ~(off <= atol + rtol * np.abs(theirs))
    return float(np.nanmax(np.where(bad, off, 0))) if bad.any() else None
