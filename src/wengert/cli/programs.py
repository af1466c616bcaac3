"""`wengert export MODEL --to FOLDER`: a model as a program without Python."""

from __future__ import annotations

import argparse
import inspect
from pathlib import Path
from typing import Any

import numpy as np

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
        "--value",
        action="append",
        default=[],
        metavar="NAME=N",
        help="a number that is always given to an input, which the program then has not",
    )
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
    sizes, values = _numbers(args.size, "size", "batch=8"), _numbers(args.value, "value", "sr=16000")
    fn, specs = _of_graph(graph) if graph is not None else _of_model(args.file, sizes, values)
    with wg.no_grad():
        print(wg.export(fn, specs, args.to, target=args.target, name=name, freeze=True))
    return 0


def _numbers(given: list[str], what: str, example: str) -> dict[str, int]:
    """Return the numbers of an option, by the names before their equals signs."""
    found = {}
    for text in given:
        name, _, number = text.rpartition("=")
        if not name or not number.isdecimal():
            fail(GraphError, f"--{what} {text} is no {what}", f"Write a name and a whole number: {example}.")
        found[name] = int(number)
    return found


def _of_graph(graph: Graph) -> tuple[Any, tuple[Any, ...]]:
    names = [graph.names[n] for n in graph.inputs]
    return _called(lambda *arrays: graph(*arrays), names), tuple(n.spec for n in graph.inputs)


def _of_model(file: str, sizes: dict[str, int], values: dict[str, int]) -> tuple[Any, tuple[Any, ...]]:
    model = onnx.load(file)
    deciding = next((name for name in model.static_inputs if name not in values), None)
    if deciding is not None:
        fail(
            GraphError,
            f"{file} as a program: its input {deciding} decides shapes or what is done",
            f"Say what it is: --value {deciding}=N, or export a function that calls the model with it by wg.export.",
        )
    dtypes = {v.name: v.dtype for v in model.inputs}
    constants = {name: np.array(n, dtypes.get(name)) for name, n in values.items()}
    made = make(model.inputs, {}, Wanted(kwargs=constants, sizes=sizes))
    guessed = sorted(made.guessed)
    if guessed:
        fail(
            GraphError,
            f"{file} as a program: the size {guessed[0]} is open",
            " ".join(["Say what it is:", *(f"--size {name}=N" for name in guessed)]),
        )
    given = [v for v in model.inputs if v.name in made.values and v.name not in values]
    other = next((v for v in given if not hasattr(made.values[v.name], "dtype")), None)
    if other is not None:
        fail(GraphError, f"{file} as a program: its input {other.name} is a {other.kind}", "Programs take arrays.")
    outputs = [identifier(v.name) for v in model.outputs]

    def run(*arrays: Any) -> dict[str, Any]:
        found = model.named(**constants, **{v.name: array for v, array in zip(given, arrays)})
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
