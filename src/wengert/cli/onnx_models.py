"""`wengert export`, and what `wengert inspect` says of an ONNX model."""

from __future__ import annotations

import argparse
import math
import os
from collections import Counter
from typing import Any

from ..core.errors import DataError, GraphError, fail
from ..core.graph.graph import Graph
from ..interop import onnx
from ..interop.onnx.export.save import DEFAULT_OPSET
from ..storage.files import Reading
from . import programs
from .listing import plain, shape_text, table


def add_parser(commands: Any) -> None:
    """Add the command to the command line."""
    p = commands.add_parser(
        "export",
        help="write a model as a program without Python, or a saved graph as an ONNX model",
        description="With --to, write an ONNX model or a saved graph as a program without Python: objects, a C header, "
        "weights. With OUT, write a saved graph (JSON or text) as an ONNX model, with its parameters where it holds "
        "them. Functions and modules are written by wg.export and wg.interop.onnx.save.",
    )
    p.add_argument("file", metavar="FILE", help="an ONNX model, or a graph: what graph.to_json() or str(graph) gave")
    p.add_argument("out", metavar="OUT", nargs="?", help="the ONNX model to write, such as model.onnx")
    p.add_argument("--opset", type=int, default=DEFAULT_OPSET, help=f"the version of the operators ({DEFAULT_OPSET})")
    programs.add_options(p)
    p.set_defaults(run=export)


def export(args: argparse.Namespace) -> int:
    """Write a model as a program, or a saved graph as an ONNX model."""
    if (args.out is None) == (args.to is None):
        fail(GraphError, "wengert export without OUT and --to, or with both", "Give one of them.")
    if args.to is not None and is_model(args.file):
        return programs.export(args, None)
    with Reading(args.file), open(args.file, encoding="utf-8") as opened:
        text = opened.read()
    if not text.strip():
        fail(DataError, f"{args.file} is empty", "Give a file with a graph: graph.to_json().", "FILE")
    graph = Graph.from_json(text) if text.lstrip().startswith("{") else Graph.parse(text)
    if args.to is not None:
        return programs.export(args, graph)
    proto = onnx.save(graph, (), args.out, opset=args.opset)
    size = os.path.getsize(args.out)
    print(f"wrote {args.out}: {len(proto.graph.node):,} nodes, opset {args.opset}, {size:,} bytes")
    return 0


def is_model(file: str) -> bool:
    """Return whether a file's ending says that it is an ONNX model."""
    return file.lower().endswith(".onnx") and os.path.isfile(file)


def inspect(file: str) -> int:
    """Print what an ONNX model takes, gives, holds and computes."""
    model = onnx.load(file)
    print(f"{file}: ONNX, {os.path.getsize(file):,} bytes")
    for key, value in model.metadata.items():
        print(f"  {plain(str(key), 60)} = {plain(str(value), 60)}")
    versions = ", ".join(f"{plain(d or 'ai.onnx', 40)} {v}" for d, v in model.opsets.items())
    print(f"  operators = {versions}")
    rows = []
    for kind, values in (("input", model.inputs), ("output", model.outputs)):
        for v in values:
            size = "any" if v.shape is None else shape_text(["?" if n is None else n for n in v.shape])
            rows.append((plain(v.name, 100), kind, size, v.kind if v.dtype is None else v.dtype.name, ""))
    total = 0
    for kind, found in (("parameter", model.named_parameters()), ("buffer", model.named_buffers())):
        for name, tensor in found:
            nbytes = math.prod(tensor.shape) * tensor.dtype.itemsize
            total += nbytes
            rows.append((plain(name, 100), kind, shape_text(tensor.shape), tensor.dtype.name, f"{nbytes:,}"))
    table(("name", "kind", "shape", "dtype", "bytes"), rows)
    counts = Counter(model.operators())
    print(", ".join(f"{n:,} {op}" for op, n in counts.most_common(12)) + (", ..." if len(counts) > 12 else ""))
    print(f"{sum(counts.values()):,} nodes, {total:,} bytes of weights")
    return 0
