"""From PyTensor's graphs to Wengert's: the walk over nodes, and what rules for single ops are given.

A value is either known, an array that every run would compute alike (constants, and what follows from them and from
shapes), or a tensor. A node with known inputs alone is computed by its own `perform`; for all others there is a rule,
registered with :func:`funcify` for the op's class.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import singledispatch
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply, Constant
from pytensor.graph.fg import FunctionGraph
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.subtensor import Subtensor, get_constant_idx

import wengert as wg

from ...core.errors import error, first_line, is_library, is_passed


class NoRuleError(NotImplementedError):
    """An error: there is no rule for an op, or not for what it is given."""


class Check:
    """A condition that a run computes, and the op that raises where it does not hold."""

    def __init__(self, op: Any, conditions: Sequence[wg.Tensor]) -> None:
        self.op = op
        self.conditions = list(conditions)


class Walk:
    """One conversion, for inputs of known shapes: it collects the checks that runs have to make."""

    def __init__(self) -> None:
        self.checks: list[Check] = []
        self._graph: FunctionGraph | None = None

    def run(self, fgraph: FunctionGraph, inputs: Sequence[Any]) -> list[Any]:
        """Return the values of a graph's outputs for those of its inputs."""
        before, self._graph = self._graph, fgraph
        try:
            return self._run(fgraph, inputs)
        finally:
            self._graph = before

    def takes_last(self, variable: Any) -> bool:
        """Return whether all that the graph takes of a variable is its last row."""
        clients = self._graph.clients[variable] if self._graph is not None else [(None, 0)]
        return all(_takes_last(getattr(node, "op", None), node) for node, _ in clients)

    def _run(self, fgraph: FunctionGraph, inputs: Sequence[Any]) -> list[Any]:
        values: dict[Any, Any] = dict(zip(fgraph.inputs, inputs, strict=True))
        for node in fgraph.toposort():
            given = [value_of(values, v) for v in node.inputs]
            values |= dict(zip(node.outputs, self.node(node, given), strict=True))
        return [value_of(values, v) for v in fgraph.outputs]

    def node(self, node: Apply, given: Sequence[Any]) -> Sequence[Any]:
        """Return the values of a node's outputs."""
        if not any(isinstance(v, wg.Tensor) for v in given):
            storage: list[list[Any]] = [[None] for _ in node.outputs]
            # An op that chooses lazily has none, and takes known values by its rule.
            with suppress(NotImplementedError):
                node.op.perform(node, list(given), storage)
                return [cell[0] for cell in storage]
        try:
            found = funcify(node.op, node, self)(*given)
        except wg.WengertError as problem:
            if isinstance(problem.__cause__, _OfNode):  # from a graph within this node
                raise
            raise _of_node(problem, node) from _OfNode()
        return found if isinstance(found, (list, tuple)) else [found]


class _OfNode(Exception):
    """The cause of an error that names a node."""


def _of_node(problem: wg.WengertError, node: Apply) -> wg.WengertError:
    """Return an error that names PyTensor's node, and the line where the user made it if that is kept."""
    lines = [line for trace in getattr(node.outputs[0].tag, "trace", []) for line in trace]
    own = [line for line in lines if not is_passed(line[0]) and not is_library(line[0])]
    where = "{}:{}".format(*own[-1][:2]) if own else None
    op = node.op.core_op if isinstance(node.op, Blockwise) else node.op
    mend = str(problem).partition("\n")[2]
    return error(type(problem), f"{first_line(problem)}, in PyTensor's {op}", mend, where)


def _takes_last(op: Any, node: Any) -> bool:
    if not isinstance(op, Subtensor):
        return False
    index = get_constant_idx(op.idx_list, node.inputs, allow_partial=True)
    return isinstance(index[0], (int, np.integer)) and int(index[0]) == -1


def value_of(values: dict[Any, Any], variable: Any) -> Any:
    """Return a variable's value; what was not computed is a constant."""
    return values[variable] if variable in values else variable.data  # noqa: SIM401 (only a constant has data)


@singledispatch
def funcify(op: Any, node: Apply, walk: Walk) -> Callable[..., Any]:
    """Return the function on tensors that an op is: PyTensor's public way to teach a backend an op is to register here.

    The function is given the values of the node's inputs, arrays where they are known, and returns that of its output,
    or a list where it has several. A rule of one's own is registered by class:

        @wengert.interop.pytensor.funcify.register(MyOp)
        def my_op(op, node, walk):
            return lambda x: wg.exp(x)

    Raises NoRuleError where no rule is registered.
    """
    raise NoRuleError(f"no rule for PyTensor's {op}")


def has_rule(op: Any) -> bool:
    """Return whether a rule is registered for an op."""
    return funcify.dispatch(type(op)) is not funcify.dispatch(object)


def tensor(value: Any, dtype: Any = None) -> wg.Tensor:
    """Return a value as a tensor, of a dtype where one is given."""
    found: wg.Tensor = wg.asarray(value)
    return found if dtype is None or found.dtype == np.dtype(dtype) else found.astype(dtype)


def known(value: Any, what: str) -> Any:
    """Return a value that has to be known, and NumPy's array of it. Raises NoRuleError where it is a tensor."""
    if isinstance(value, wg.Tensor):
        raise NoRuleError(f"{what} depends on values, and is not known before a run")
    return np.asarray(value)


def sizes(values: Sequence[Any], what: str) -> tuple[int, ...]:
    """Return sizes that have to be known."""
    return tuple(int(known(v, what)) for v in values)


def dtype_of(node: Apply, index: int = 0) -> np.dtype[Any]:
    """Return the dtype of a node's output."""
    found: np.dtype[Any] = np.dtype(node.outputs[index].type.dtype)
    return found


__all__ = [
    "Check",
    "Constant",
    "NoRuleError",
    "Walk",
    "dtype_of",
    "funcify",
    "has_rule",
    "known",
    "sizes",
    "tensor",
    "value_of",
]
