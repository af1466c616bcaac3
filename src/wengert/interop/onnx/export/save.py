"""`save`: a function's graph, or a graph, as an ONNX file."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any, NoReturn

import wengert as wg

from ....core.dims import Dim
from ....core.graph.graph import Graph
from ....core.node import Node
from ....core.spec import Spec
from ....nn.module import Module
from ....transforms.tracing.trace import leaf_names, leaf_paths
from ....version import __version__
from ..errors import refuse, shown
from ..values import package
from .writer import Writer, called, value_info

DEFAULT_OPSET = 20
OLDEST_OPSET = 13

# The version of the format that brought each version of the operators, so that older runtimes read what they can.
_IR = ((13, 7), (15, 8), (19, 9), (21, 10), (23, 11), (25, 12), (27, 13))


def graph_of(f: Any, specs: Any) -> Graph:
    """Return the graph to export: `f` itself, or its trace on the specs."""
    if isinstance(f, Graph):
        return f
    if not callable(f):
        refuse(f"a {type(f).__name__} is no function, module or graph")
    given = specs if isinstance(specs, (tuple, list)) else (specs,)
    if any(not isinstance(s, (Spec, wg.Tensor)) for s in given):
        refuse("the specs are one wg.spec(shape, dtype), or a tensor, for each argument")
    with wg.no_grad():
        traced: Graph = wg.graph(f)(*given)
    return traced


def model_proto(
    f: Any,
    specs: Any = (),
    *,
    opset: int = DEFAULT_OPSET,
    names: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
) -> tuple[Any, Writer, Graph]:
    """Return the ModelProto, the writer that made it, and the graph. See :func:`save`."""
    onnx = package()
    newest = onnx.defs.onnx_opset_version()
    if not isinstance(opset, int) or not OLDEST_OPSET <= opset <= newest:
        refuse(f"opset is {opset!r}", f"It is a version of ONNX's operators from {OLDEST_OPSET} to {newest}.")
    graph = graph_of(f, specs)
    w = Writer(opset)
    inputs, given = [], []
    plain = [n for n in graph.inputs if n not in graph.bound]
    _check_names(names, len(plain), "inputs")
    _check_names(outputs, len(graph.outputs), "outputs")
    if not graph.outputs:
        refuse("the function returns no tensor, and an ONNX model has an output", "Return what it computes.")
    wanted = dict(zip(plain, names)) if names is not None else _argument_names(f, graph, plain)
    for node in graph.inputs:
        if node in graph.bound:
            value = graph.bound[node].detach().numpy()
            if value.dtype.kind == "c":
                refuse(f"parameter {graph.names[node]!r} is of {value.dtype.name}, and ONNX takes no complex numbers")
            given.append(w.parameter(value, node.attrs.get("name") or graph.names[node]))
            continue
        name = w.name(wanted.get(node, graph.names[node]))
        given.append(name)
        inputs.append(value_info(onnx, name, node.spec))
        for axis, size in enumerate(node.spec.shape):
            if isinstance(size, Dim) and len(size.terms) == 1:
                w.dimensions.setdefault(repr(size), (name, axis))
    bound = {node.attrs.get("name") or graph.names[node] for node in graph.bound}
    _check_taken([n for n in names or () if n in bound], "inputs", "a parameter")
    _check_taken([n for n in outputs or () if n in w.names], "outputs", "an input or a parameter")
    ends = [w.name(n) for n in outputs or _result_names(graph)]
    found = w.write(graph, given)
    for source, end in zip(found, ends):
        w("Identity", source)
        w.nodes[-1].output[0] = end
    made = onnx.helper.make_graph(
        _needed(w.nodes, ends),
        graph.name or "graph",
        inputs,
        [value_info(onnx, e, n.spec) for e, n in zip(ends, graph.outputs)],
    )
    read = _read_names(made)
    made.initializer.extend(t for t in w.initializers if t.name in read)
    proto = onnx.helper.make_model(
        made,
        opset_imports=[onnx.helper.make_opsetid("", opset)],
        ir_version=max(ir for since, ir in _IR if since <= opset),
        producer_name="wengert",
        producer_version=__version__,
    )
    return proto, w, graph


def save(
    f: Any,
    specs: Any,
    path: Any,
    *,
    opset: int = DEFAULT_OPSET,
    names: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
) -> Any:
    """Write a function, a module or a graph as an ONNX model, and return the `onnx.ModelProto`.

    Parameters
    ----------
    f: a function of tensors, a module (in the mode in which it is: `model.eval()` first), or a graph.
    specs: what it is traced on: a `wg.spec(shape, dtype)`, or a tensor, for each argument. A size given as None or a
        name is left open, such as a batch's. Sizes of one name are equal, and those of None are called by their axes,
        `axis0`: name them where two arguments' sizes differ. Not read for a graph.
    path: where to write, or None to write nothing. Parameters go into the file; more than 2 GiB do not fit.
    opset: the version of ONNX's operators, from 13 on.
    names, outputs: the names of inputs and outputs, by order. Inputs are called like the arguments else, and outputs
        like the keys of the dict that the function returns, or `output`.

    Composites that ONNX has no operator for are written as what they are made of, and derivatives as the operations
    that compute them. Raises OnnxError, which names the op and its line, for what ONNX cannot say: complex numbers,
    draws of random numbers, decompositions of matrices. The document is checked by `onnx.checker`.

    >>> import wengert as wg
    >>> f = lambda x, w: wg.sum(wg.tanh(x @ w), -1)
    >>> model = wg.interop.onnx.save(f, (wg.spec((None, 3)), wg.spec((3, 4))), None)
    >>> [n.op_type for n in model.graph.node]
    ['MatMul', 'Tanh', 'Constant', 'ReduceSum', 'Identity']
    >>> wg.interop.onnx.load(model)(wg.zeros((2, 3)), wg.ones((3, 4))).tolist()
    [0.0, 0.0]
    """
    proto, writer, _ = model_proto(f, specs, opset=opset, names=names, outputs=outputs)
    onnx = package()
    size = proto.ByteSize()
    if size >= 1 << 31:
        refuse(f"the model has {size:,} bytes, and a document holds less than 2 GiB")
    try:
        onnx.checker.check_model(proto, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as e:
        _no_valid(str(e).strip(), writer)
    if path is not None:
        data = proto.SerializeToString()
        with open(os.fspath(path), "wb") as out:
            out.write(data)
    return proto


# How the checker names a node: by its operator and name in brackets, or on lines of their own. One that is refused for
# what is in a graph inside comes first.
_CHECKED = re.compile(
    r"\(op_type:[^,)]*, node name: ([^)]*)\): (?!\[\w+\] (?:Inference error|\(op_type:))|\bName: (\S+)"
)


def _no_valid(text: str, writer: Writer) -> NoReturn:
    """Refuse a graph with what the checker says of a node: the operator does not take such operands in the version."""
    found = _CHECKED.search(text)
    node = writer.origin.get(found[1] or found[2]) if found else None
    if node is None:
        refuse(f"the graph is no valid model in version {writer.opset}: {shown(text, 400)}")
    refuse(
        f"{called(node)} cannot be said in ONNX: in version {writer.opset}, {shown(text, 400)}",
        "Convert its operands to another dtype before, or choose another version: opset=.",
    )


def _argument_names(f: Any, graph: Graph, inputs: Sequence[Node]) -> dict[Node, str]:
    """Return the names that a module's `forward` has for its arguments; those of a function a graph has already."""
    if not isinstance(f, Module) or graph.in_structure is None:
        return {}
    return dict(zip(inputs, leaf_names(f.forward, graph.in_structure)))


def _result_names(graph: Graph) -> list[str]:
    """Return the outputs' names: the keys of a dict, the fields of what has some, else their numbers."""
    found, count = graph.out_structure, len(graph.outputs)
    if found is not None and found.kind not in (None, tuple, list):
        return list(leaf_paths(found, ""))
    return [f"output_{i}" for i in range(count)] if count > 1 else ["output"]


def _check_names(names: Sequence[str] | None, count: int, what: str) -> None:
    if names is None:
        return
    if isinstance(names, str) or len(names) != count:
        given = f"the name {names!r} is" if isinstance(names, str) else f"{len(names)} names are"
        refuse(f"{given} given for {count} {what}", "They are a list, with a name for each.")
    for i, name in enumerate(names):
        if not isinstance(name, str) or not name:
            refuse(f"the name of {what[:-1]} {i} is {name!r}", "It is a text, and not empty.")
        if name in names[:i]:
            refuse(f"the name {shown(name)!r} is given to two {what}", "Each has a name of its own.")


def _check_taken(taken: Sequence[str], what: str, by: str) -> None:
    if taken:
        refuse(
            f"the name {shown(taken[0])!r}, given to one of the {what}, is that of {by}", "Each has a name of its own."
        )


def _read_names(graph: Any) -> set[str]:
    """Return all names that a graph's nodes read, those of graphs inside too."""
    found: set[str] = set()
    pending = [graph]
    while pending:
        one = pending.pop()
        found.update(o.name for o in one.output)
        for node in one.node:
            found.update(node.input)
            pending += [a.g for a in node.attribute if a.HasField("g")]
    return found


def _needed(nodes: Sequence[Any], ends: Sequence[str]) -> list[Any]:
    """Return the nodes that the outputs need: what a form left unused goes."""
    wanted, kept = set(ends), []
    for node in reversed(nodes):
        if wanted.isdisjoint(node.output):
            continue
        kept.append(node)
        wanted.update(node.input)
        for a in node.attribute:
            if a.HasField("g"):
                wanted |= _read_names(a.g)
    return kept[::-1]
