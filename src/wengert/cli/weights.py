"""`wengert inspect` and `wengert convert`: what is in a file of weights, and the same in another format."""

from __future__ import annotations

import argparse
import math
import os
from collections import Counter
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np

from ..core.dtypes import is_inexact
from ..core.errors import DataError, fail
from ..core.graph.graph import Graph
from ..core.spec import as_dtype, category
from ..core.tensor import asarray
from ..storage import numpy_files, safetensors_files
from ..storage.files import Array, Reading, Stored
from ..storage.weights import open_weights, part_of
from ..train.checkpoints import survey
from . import onnx_models
from .listing import plain, shape_text, table

_WRITTEN = (".safetensors", ".npz", ".pt", ".pth")
# What a saved graph begins with, as JSON and as text.
_GRAPHS = (b'{"format": "wengert graph"', b"{\n", b"graph ", b"graph(", b'op "')
_LARGEST_GRAPH = 1 << 28


def add_parser(commands: Any) -> None:
    """Add the commands to the command line."""
    p = commands.add_parser(
        "inspect",
        help="show what is in a file of weights, a saved graph, an ONNX model or a folder of checkpoints",
        description="Show the names, shapes, dtypes and bytes of what is in a file: safetensors, PyTorch, NumPy, GGUF, "
        "a saved graph (JSON or text), an ONNX model, or a folder of checkpoints. Nothing in the file is run.",
    )
    p.add_argument("file", metavar="FILE", help="the file, or the folder")
    p.add_argument("--part", default="", metavar="NAME", help='a part of it, such as "state_dict"')
    p.set_defaults(run=inspect)
    p = commands.add_parser(
        "convert",
        help="write the weights in a file in another format",
        description="Read a file of weights in any format that `wengert inspect` shows, and write it as safetensors, "
        "NumPy's .npz or PyTorch's .pt: the ending of OUT says which.",
    )
    p.add_argument("file", metavar="IN", help="the file to read")
    p.add_argument("out", metavar="OUT", help=f"the file to write: {', '.join(_WRITTEN)}")
    p.add_argument("--part", default="", metavar="NAME", help='only this part of it, such as "state_dict"')
    p.add_argument("--dtype", default="", metavar="DTYPE", help="convert floating tensors, such as to float16")
    p.set_defaults(run=convert)


def inspect(args: argparse.Namespace) -> int:
    """Print what is in a file."""
    if os.path.isdir(args.file):
        return _checkpoints(args.file)
    if onnx_models.is_model(args.file):
        return onnx_models.inspect(args.file)
    graph = _graph(args.file)
    if graph is not None:
        return _print_graph(graph)
    found = open_weights(args.file)
    arrays = part_of(found.arrays, args.part, args.file)
    print(f"{args.file}: {found.format}, {os.path.getsize(args.file):,} bytes")
    for key, value in found.metadata.items():
        text = value if isinstance(value, str) else str(value)
        print(f"  {plain(key, 60)} = {plain(text, 60)}")
    rows = [(plain(n, 100), shape_text(s.shape), s.dtype, f"{s.nbytes:,}") for n, s in arrays.items()]
    table(("name", "shape", "dtype", "bytes"), rows)
    _totals(arrays)
    return 0


def _totals(arrays: Mapping[str, Stored]) -> None:
    elements = sum(math.prod(s.shape) for s in arrays.values())
    dtypes = Counter(s.dtype for s in arrays.values())
    told = ", ".join(f"{n:,} {dtype}" for dtype, n in dtypes.most_common())
    nbytes = sum(s.nbytes for s in arrays.values())
    print(f"{len(arrays):,} tensors, {elements:,} elements, {nbytes:,} bytes" + (f" ({told})" if told else ""))


def _graph(file: str) -> Graph | None:
    with Reading(file), open(file, "rb") as opened:
        start = opened.read(4096)
        if not start.lstrip().startswith(_GRAPHS) or os.path.getsize(file) > _LARGEST_GRAPH:
            return None
        if start.lstrip().startswith(b"{") and b'"wengert graph"' not in start:
            return None
        text = (start + opened.read()).decode("utf-8")
        return Graph.from_json(text) if text.lstrip().startswith("{") else Graph.parse(text)


def _print_graph(graph: Graph) -> int:
    print(f"a graph{f' {graph.name!r}' if graph.name else ''} of {len(graph.nodes):,} nodes")
    rows = []
    for kind, nodes in (("input", graph.inputs), ("parameter", graph.parameters), ("constant", graph.constants)):
        for node in nodes:
            spec: Any = node.spec
            nbytes = math.prod(n for n in spec.shape if isinstance(n, int)) * spec.dtype.itemsize
            rows.append((graph.names[node], kind, shape_text(spec.shape), spec.dtype.name, f"{nbytes:,}"))
    table(("name", "kind", "shape", "dtype", "bytes"), rows)
    ops = Counter(n.op.name for n in graph.nodes if graph.kind(n) in ("computation", "root"))
    print(", ".join(f"{n:,} {op}" for op, n in ops.most_common(12)) + (", ..." if len(ops) > 12 else ""))
    print(f"inputs: {len(graph.inputs):,}, outputs: {len(graph.outputs):,}, operations: {sum(ops.values()):,}")
    return 0


def _checkpoints(folder: str) -> int:
    found = survey(folder)
    if not found:
        fail(DataError, f"{folder} has no checkpoints", "Give a file, or a folder of wg.train.save_checkpoint.")
    rows = []
    for one in found:
        step = "" if one.step is None else str(one.step)
        rows.append((one.name, step, ", ".join(one.parts), one.problem or "good", f"{one.nbytes:,}"))
    table(("checkpoint", "step", "parts", "state", "bytes"), rows)
    return 0 if any(one.problem is None for one in found) else 1


def convert(args: argparse.Namespace) -> int:
    """Write the weights in a file in another format."""
    ending = os.path.splitext(args.out)[1].lower()
    if ending not in _WRITTEN:
        fail(
            DataError,
            f"OUT ends with {ending or 'nothing'!r}",
            f"It ends with one of: {', '.join(_WRITTEN)}.",
            args.out,
        )
    dtype = as_dtype(args.dtype) if args.dtype else None
    if dtype is not None and category(dtype) != 2:
        fail(
            DataError, f"{args.dtype} is no floating dtype", "Name one: float16, bfloat16, float32, float64.", "--dtype"
        )
    found = open_weights(args.file)
    arrays: dict[str, Array] = {}
    for name, stored in part_of(found.arrays, args.part, args.file).items():
        array = stored.read()
        if dtype is not None and is_inexact(array.dtype) and array.dtype.kind != "c":
            array = array.astype(dtype)
        arrays[name] = array
    if not arrays:
        fail(DataError, f"{args.file} has no tensors")
    if ending == ".safetensors":
        safetensors_files.write(args.out, arrays, {k: v for k, v in found.metadata.items() if isinstance(v, str)})
    elif ending == ".npz":
        numpy_files.write_npz(args.out, arrays)
    else:
        # Loaded where it is needed: other commands start without it.
        torch = import_module("wengert.torch")
        torch.save({name: asarray(np.asarray(a), copy=False) for name, a in arrays.items()}, args.out)
    nbytes = sum(a.nbytes for a in arrays.values())
    print(f"wrote {args.out}: {len(arrays):,} tensors, {nbytes:,} bytes, from {found.format}")
    return 0
