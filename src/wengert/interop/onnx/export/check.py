"""`check`: does another runtime compute the same?"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import wengert as wg

from ....core.graph.snapshot import specs_of
from ....core.ops.op import INPUT
from ....nn.module import Module
from ..compare import Difference, as_a_whole, compare_model, differs, run_by
from ..errors import refuse, shown
from ..inputs import Wanted
from ..values import package
from .save import DEFAULT_OPSET, model_proto
from .writer import place_of


def check(
    f: Any,
    args: Sequence[Any] | Mapping[str, Any] | None = None,
    *,
    opset: int = DEFAULT_OPSET,
    rtol: float = 1e-4,
    atol: float = 1e-5,
    runtime: str = "onnxruntime",
    sizes: Mapping[str, int] | None = None,
    seed: int = 0,
) -> Difference | None:
    """Return the first value of an ONNX model that another runtime computes differently; None where all agree.

    Parameters
    ----------
    f: a function, a module or a graph, which is exported as :func:`save` does; or a model: a path, the file's bytes,
        an `onnx.ModelProto`.
    args: the arguments; of a model also a mapping by the inputs' names. Those of a model that are not given are made,
        as :func:`wengert.explorer.open_file` makes them.
    opset: the version of ONNX's operators for a function; a model says its own.
    rtol, atol: how far a value may be off: `atol + rtol * abs(value)`.
    runtime: "onnxruntime", or "reference" for the evaluator of the package onnx.
    sizes, seed: of the inputs of a model that are made.

    Every value that a node has is compared, in order, with what Wengert computes; the first that differs is named with
    the user's line, where the document says it: files that Wengert and PyTorch wrote do. A node of a model differs
    where it does so on equal operands. At last the model runs as users run it, when the runtime may rewrite it: a
    difference that is `whole` shows only there. Raises OnnxError where the graph has no form in ONNX, or the runtime
    refuses it.

    >>> import wengert as wg
    >>> wg.interop.onnx.check(lambda x: wg.exp(x) + 1, [wg.ones((2,))], runtime="reference") is None
    True
    """
    onnx = package()
    if isinstance(f, (str, os.PathLike, bytes, bytearray, memoryview, onnx.ModelProto)):
        if args is not None and not isinstance(args, (Mapping, Sequence)):
            refuse(f"the arguments are a {type(args).__name__}", "They are a list, or a dict by the inputs' names.")
        given = args if isinstance(args, Mapping) else {}
        wanted = Wanted(() if isinstance(args, Mapping) else args or (), given, sizes or {}, seed)
        return compare_model(f, wanted, rtol, atol, runtime)
    if not isinstance(args, Sequence) or sizes:
        refuse("the arguments of a function are given by position", "check(f, [x, y])")
    for i, a in enumerate(args):
        if isinstance(a, Module):
            refuse(
                f"argument {i} is a {type(a).__name__}, and an ONNX model takes tensors",
                "Read the module inside: check(lambda x: module(x), [x]).",
            )
    tensors = [wg.asarray(a) for a in args]
    proto, writer, graph = model_proto(f, [t.spec for t in tensors], opset=opset)
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
    theirs = run_by(whole, feeds, [*extra, *ends], runtime)
    ours = _ours(graph, writer, tensors)
    order = {node: i for i, node in enumerate(ours)}
    for name in sorted(extra, key=lambda n: order.get(named[n][0], 0)):
        node, i = named[name]
        if node not in ours:
            continue
        off = differs(np.asarray(ours[node][i]), theirs[name], rtol, atol)
        if off is not None:
            return Difference(shown(name), node.op.name, place_of(node), off)
    found = as_a_whole(proto, feeds, {n: theirs[n] for n in ends}, rtol, atol, runtime)
    if found is None:
        return None
    name, off = found
    last = graph.outputs[ends.index(name)]
    return Difference(shown(name), last.op.name, place_of(last), off, True)


def _ours(graph: Any, writer: Any, tensors: Sequence[Any]) -> dict[Any, tuple[Any, ...]]:
    """Return the value of every node, as the interpreter computes it, composites opened as they were written."""
    values: dict[Any, tuple[Any, ...]] = {}
    given = iter(tensors)
    for node in writer.of:
        if node in graph.bound:
            values[node] = (np.asarray(graph.bound[node].detach().numpy()),)
        elif node in graph.inputs:
            values[node] = (np.asarray(next(given).detach().numpy()),)
        elif node.op is INPUT:
            continue  # of a graph inside, which is not computed by itself
        elif node.op.name == "constant":
            values[node] = (np.asarray(node.attrs["value"]),)
        elif node.op.name == "output":
            values[node] = (values[node.inputs[0]][node.attrs["index"]],)
        elif all(not hasattr(e, "op") or e in values for e in node.inputs):
            operands = [values[e][0] if hasattr(e, "op") else e for e in node.inputs]
            specs = specs_of(node)
            with np.errstate(all="ignore"):
                made = node.op.forward(*operands, **node.attrs)
            values[node] = tuple(made) if isinstance(node.spec, tuple) else (made,)
            values[node] = tuple(np.asarray(v, dtype=s.dtype) for v, s in zip(values[node], specs))
    return values
