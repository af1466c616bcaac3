"""`wengert export MODEL --to FOLDER`: a model as a program without Python."""

from __future__ import annotations

import argparse
import inspect
from pathlib import Path
from typing import Any

import wengert as wg

from ..core.errors import GraphError, fail
from ..core.graph.graph import Graph
from ..deploy.naming import identifier
from ..interop import onnx
from ..interop.onnx.inputs import Wanted, make


def add_options(p: argparse.ArgumentParser) -> None:
    """Add the options of programs to those of `wengert export`."""
    p.add_argument("--to", metavar="FOLDER", help="write a program without Python to this folder, new or empty")
    p.add_argument("--target", default="host", help='the program\'s target (default "host"): see the documentation')
    p.add_argument("--name", help="what the program's functions and files are called (default: the file's name)")
    p.add_argument(
        "--size",
        action="append",
        default=[],
        metavar="NAME=N",
        help="a size that the model leaves open; first axes have 1 where nothing is said",
    )


def export(args: argparse.Namespace, graph: Graph | None) -> int:
    """Write a model, or the graph that was read, as a program whose weights are constants."""
    name = args.name or identifier(Path(args.file).stem)
    fn, specs = _of_graph(graph) if graph is not None else _of_model(args.file, _sizes(args.size))
    with wg.no_grad():
        print(wg.export(fn, specs, args.to, target=args.target, name=name, freeze=True))
    return 0


def _sizes(given: list[str]) -> dict[str, int]:
    found = {}
    for text in given:
        name, _, number = text.partition("=")
        if not name or not number.isdecimal():
            fail(GraphError, f"--size {text} is no size", "Write the name of an open size and a number: batch=8.")
        found[name] = int(number)
    return found


def _of_graph(graph: Graph) -> tuple[Any, tuple[Any, ...]]:
    names = [graph.names[n] for n in graph.inputs]
    return _called(lambda *arrays: graph(*arrays), names), tuple(n.spec for n in graph.inputs)


def _of_model(file: str, sizes: dict[str, int]) -> tuple[Any, tuple[Any, ...]]:
    model = onnx.load(file)
    if model.static_inputs:
        fail(
            GraphError,
            f"{file} as a program: its input {model.static_inputs[0]} decides shapes or what is done",
            "Export a function that calls the model with that value: wg.export(lambda x: model(x, 3), spec, folder).",
        )
    made = make(model.inputs, {}, Wanted(sizes=sizes))
    guessed = sorted(made.guessed)
    if guessed:
        fail(
            GraphError,
            f"{file} as a program: the size {guessed[0]} is open",
            " ".join(["Say what it is:", *(f"--size {name}=N" for name in guessed)]),
        )
    given = [v for v in model.inputs if v.name in made.values]
    other = next((v for v in given if not hasattr(made.values[v.name], "dtype")), None)
    if other is not None:
        fail(GraphError, f"{file} as a program: its input {other.name} is a {other.kind}", "Programs take arrays.")
    outputs = [identifier(v.name) for v in model.outputs]

    def run(*arrays: Any) -> dict[str, Any]:
        found = model.named(**{v.name: array for v, array in zip(given, arrays)})
        return dict(zip(outputs, found.values()))

    arrays = [made.values[v.name] for v in given]
    return _called(run, [v.name for v in given]), tuple(wg.spec(a.shape, a.dtype) for a in arrays)


def _called(fn: Any, names: list[str]) -> Any:
    """Return a function whose parameters have names, made ones of C where they are none of Python's."""
    parameters: list[str] = []
    for name in names:
        parameters.append(identifier(name, parameters))
    kind = inspect.Parameter.POSITIONAL_ONLY
    fn.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in parameters])
    return fn
