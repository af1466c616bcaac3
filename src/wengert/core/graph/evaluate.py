"""Running a graph on arrays, node by node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import WengertError
from ..node import Node
from ..ops.op import Op
from ..ops.record import OUTPUT, bind
from ..state.observer import Observer, observer, observers, raise_of_observer
from ..tensor import wrap
from .graph import Graph


def run(graph: Graph, feeds: Sequence[Any]) -> list[Any]:
    """Return the values of the outputs for arrays of the inputs' specs; each is freed after its last use."""
    values: dict[Node, Any] = dict(zip(graph.inputs, feeds, strict=True))
    last_uses = graph.last_uses
    with np.errstate(all="ignore"):  # infinities and NaNs are values
        for node in graph.nodes:
            if node not in values:
                values[node] = compute(node, [values[e] if isinstance(e, Node) else e for e in node.inputs])
            for done in last_uses.get(node, ()):
                del values[done]
    return [values[n] for n in graph.outputs]


def compute(node: Node, args: Sequence[Any]) -> Any:
    """Return the value of one node for the values of its inputs. Raises what the op raises, in its words."""
    if observers and (seen := observer()) is not None:
        return _observed(seen, node, args)
    return apply(node.op, args, node.attrs)


def _observed(seen: Observer, node: Node, args: Sequence[Any]) -> Any:
    """Return the value of one node, whose op is shown at the line that the graph was made from."""
    outer = seen.enter(node)
    try:
        return apply(node.op, args, node.attrs)
    finally:
        seen.leave(outer)


def apply(op: Op, args: Sequence[Any], attrs: dict[str, Any]) -> Any:
    """Return the value of an op for arrays. Raises what it raises, in its words."""
    # An op that picks one of several results computes nothing to observe.
    told = bool(observers) and op is not OUTPUT
    try:
        return op.told(args, attrs) if told else op.forward(*args, **attrs)
    except WengertError:
        raise
    except RuntimeWarning as e:
        raise_of_observer(e)
        # Division by zero is a value: where warnings are made errors, NumPy is asked again, quietly.
        with np.errstate(all="ignore"):
            return op.told(args, attrs) if told else op.forward(*args, **attrs)
    except (ValueError, TypeError, IndexError, OverflowError, ZeroDivisionError, MemoryError) as e:
        raise_of_observer(e)
        # The general path fails again, with the shapes, dtypes and names of the op.
        bind(op, [wrap(a) if isinstance(a, (np.ndarray, np.generic)) else a for a in args], attrs)
        raise
