"""The linker: PyTensor's functions as programs of Wengert's, compiled for the shapes that they are called with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply, Constant
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.db import RewriteDatabaseQuery
from pytensor.link.basic import JITLinker
from pytensor.link.vm import VMLinker
from pytensor.scalar.basic import ScalarType
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import CAReduce, Elemwise
from pytensor.tensor.shape import Shape, Shape_i
from pytensor.tensor.type import TensorType

import wengert as wg

from ...core.errors import warn
from ...core.graph.graph import Graph
from ...core.spec import spec_of
from ...execute.jit.executor import Executor, executor
from . import arrays as _arrays  # noqa: F401 (rules are registered by loading them)
from . import bessel, indexing, linalg, loops, shapes  # noqa: F401
from .convert import Check, NoRuleError, Walk, funcify, has_rule
from .scalars import has_scalar_rule
from .slopes import TAG

Array = np.ndarray[Any, np.dtype[Any]]


class Traced:
    """A function for inputs of certain shapes: its graph, and the checks whose conditions follow the outputs in it."""

    def __init__(self, graph: Graph, checks: Sequence[Check]) -> None:
        self.graph = graph
        self.checks = [(check.op, len(check.conditions)) for check in checks]


class Converted:
    """A PyTensor function's graph, compiled by Wengert; called with arrays, it returns those of the outputs.

    There is a program for each combination of the inputs' shapes, and of the values of small integer inputs where
    shapes depend on them. What PyTensor's Python code runs instead are functions whose shapes depend on other values
    and, in single calls, matrices that have no factors, of which it gives NaN.
    """

    def __init__(self, fgraph: FunctionGraph) -> None:
        self.fgraph = fgraph
        self._dtypes = [np.dtype(v.type.dtype) for v in fgraph.inputs]
        self._programs: dict[tuple[Any, ...], tuple[Executor, list[tuple[Any, int]]]] = {}
        # The inputs, by number, whose values are a part of programs.
        self._fixed: tuple[int, ...] = ()
        self._count = len(fgraph.outputs)
        # A function of PyTensor's, and the cells of its inputs and outputs.
        self._python: tuple[Any, Any, Any] | None = None
        self._is_dynamic = False

    def traced(self, given: Sequence[Any]) -> Traced:
        """Return the function's graph for inputs of the shapes of these: specs, or arrays that become constants of it.

        Raises NoRuleError where its shapes depend on values.
        """
        walk = Walk()
        tensors = [g for g in given if not isinstance(g, np.ndarray)]

        def fn(*xs: Any) -> list[Any]:
            left = iter(xs)
            full = [g if isinstance(g, np.ndarray) else next(left) for g in given]
            found = walk.run(self.fgraph, full)
            conditions = [c for check in walk.checks for c in check.conditions]
            return [*map(wg.asarray, found), *conditions]

        graph = wg.graph(fn)(*tensors)
        return Traced(graph, walk.checks)

    def __call__(self, *inputs: Any) -> Sequence[Any]:
        """Return the outputs for these inputs."""
        if self._is_dynamic:
            return self.by_python(inputs)
        arrays = [x if type(x) is np.ndarray else np.asarray(x, d) for x, d in zip(inputs, self._dtypes)]
        key = tuple([a.shape for a in arrays])
        if self._fixed:
            key = (*key, *(arrays[i].tobytes() for i in self._fixed))
        found = self._programs.get(key)
        if found is None:
            try:
                given = (a if i in self._fixed else spec_of(a.shape, a.dtype) for i, a in enumerate(arrays))
                made = self.traced(list(given))
            except (NoRuleError, wg.GraphError, wg.TraceError) as error:  # a shape depends on a mask, say
                return self._without_program(error, inputs)
            found = self._programs[key] = executor(made.graph), made.checks
        program, checks = found
        if self._fixed:
            arrays = [a for i, a in enumerate(arrays) if i not in self._fixed]
        try:
            outputs = program.run(arrays)
        except wg.linalg.LinAlgError:
            return self.by_python(inputs)
        if checks:
            at = self._count
            for op, count in checks:
                if not all(outputs[at : at + count]):
                    raise op.exc_type(op.msg)
                at += count
        return outputs[: self._count]

    def _without_program(self, error: Exception, inputs: Sequence[Any]) -> Sequence[Any]:
        """Return the outputs where tracing failed: with integers as parts of the program, or by Python."""
        small = [i for i, v in enumerate(self.fgraph.inputs) if self._dtypes[i].kind in "iu" and v.type.ndim <= 1]
        if small and not self._fixed:
            self._fixed = tuple(small)
            return self(*inputs)
        self._is_dynamic = True
        warn(f"a PyTensor function runs by Python: {error}\nOther modes of PyTensor's compile it.")
        return self.by_python(inputs)

    def by_python(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """Return the outputs, computed by the ops' own Python code."""
        if self._python is None:
            linker = VMLinker(use_cloop=False, c_thunks=False).accept(self.fgraph.clone(), no_recycling=[])
            self._python = linker.make_thunk()
        run, given, made = self._python
        for container, value in zip(given, inputs, strict=True):
            container.storage[0] = value
        run()
        return [container.storage[0] for container in made]


class WengertLinker(JITLinker):  # type: ignore[misc]
    """The linker of the mode "WENGERT".

    A function in which there is an op without a rule (random variables, sparse matrices, scans) is run by PyTensor's
    own virtual machine, as a whole.
    """

    required_rewrites = ("minimum_compile",)
    incompatible_rewrites = (
        "cxx_only",
        "BlasOpt",
        "fusion",
        "inplace",
        "local_careduce_fusion",
        # It looks for sparse matrices below every difference, and first for a BLAS to link to: a quarter of all time.
        "local_usmm",
        # What it makes of a slice of a slice is a view either way, and takes it long.
        "local_subtensor_merge",
        "scan_save_mem_prealloc",
        # A determinant beside several solves would be made of their factors, without the sign of the pivots.
        "reuse_decomposition_multiple_solves",
    )

    updated_vars: Mapping[Any, Any] = {}

    def accept_var_updates(self, updated_vars: Mapping[Any, Any]) -> None:
        """Record what becomes of the function's inputs; PyTensor calls this before it makes the function."""
        self.updated_vars = updated_vars

    def fgraph_convert(self, fgraph: FunctionGraph, **_: Any) -> Converted:
        """Return the graph as a function of arrays."""
        return Converted(fgraph)

    def jit_compile(self, fn: Converted) -> Converted:
        """Return the function, which compiles itself for the shapes that it meets."""
        return fn

    def create_thunk_inputs(self, storage_map: dict[Any, list[Any]]) -> list[Any]:
        """Return the cells of the function's inputs."""
        return [storage_map[v] for v in self.fgraph.inputs]

    def make_all(self, input_storage: Any = None, output_storage: Any = None, storage_map: Any = None) -> Any:
        """Return the thunk of the whole function, and the containers of its inputs and outputs."""
        if why_not(self.fgraph):
            vm = VMLinker(use_cloop=False, c_thunks=False, allow_gc=self.allow_gc)
            vm = vm.accept(self.fgraph, no_recycling=self.no_recycling)
            # The machine writes updates itself: the function leaves them to it.
            vm.accept_var_updates(self.updated_vars)
            return vm.make_all(input_storage=input_storage, output_storage=output_storage, storage_map=storage_map)
        return super().make_all(input_storage, output_storage, storage_map)


def why_not(fgraph: FunctionGraph) -> str:
    """Return the part of a graph that has no rule; "" if the graph compiles."""
    for variable in (*fgraph.inputs, *fgraph.outputs):
        if not isinstance(variable.type, (TensorType, ScalarType)):
            return f"a {variable.type}"
    waiting = [fgraph]
    while waiting:
        graph = waiting.pop()
        known: set[Any] = set()
        for node in graph.toposort():
            if isinstance(node.op, (Shape, Shape_i)) or all(v in known or isinstance(v, Constant) for v in node.inputs):
                known.update(node.outputs)
            elif not _is_convertible(node):
                return str(node.op)
            elif isinstance(inner := getattr(node.op, "fgraph", None), FunctionGraph):
                waiting.append(inner)
    return ""


_NOTHING = FunctionGraph([], [])


def _is_convertible(node: Apply) -> bool:
    """Return whether there is a rule for a node, whose inputs depend on the function's."""
    op = node.op
    if isinstance(op, Elemwise):
        return has_scalar_rule(op.scalar_op)
    if isinstance(op, Blockwise):
        return has_rule(op.core_op) and not why_not(getattr(op.core_op, "fgraph", _NOTHING))
    return _reduces(op, node) if isinstance(op, CAReduce) else has_rule(op)


def _reduces(op: Any, node: Any) -> bool:
    try:
        funcify(op, node, Walk())
    except NoRuleError:
        return False
    return True


QUERY = RewriteDatabaseQuery(include=["fast_run", TAG])
