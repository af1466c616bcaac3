"""Derivatives as readable graphs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from ..core.errors import GradientError, GraphError, fail
from ..core.graph.graph import Graph
from ..core.spec import Spec, category, float64, spec_of
from ..core.tensor import Tensor
from ..transforms.derivatives.functional import grad
from ..transforms.tracing.replay import replay
from ..transforms.tracing.trace import trace
from .read import read
from .tidy import tidy
from .write import write

Function = Graph | Callable[..., Any]
Variable = int | str


def as_graph(f: Function, dtype: Any = float64) -> Graph:
    """Return a graph as it is; a function traced on one scalar of the dtype for each of its parameters."""
    if isinstance(f, Graph):
        return f
    if not callable(f):
        fail(GraphError, f"{type(f).__name__} is neither a graph nor a function")
    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        fail(GraphError, f"the parameters of {f!r} are not known", "Trace it first: wg.graph(f)(wg.spec(()), ...).")
    plain = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty]
    return trace(f, tuple(spec_of((), dtype) for _ in plain), {})


def simplify(f: Function) -> Graph:
    """Return the graph simplified as a person would, by the algebra of real functions.

    Like terms and equal bases are collected, inverses cancel, common factors and denominators are
    taken out where that is shorter. Values may differ by rounding, and where the graph is not
    defined: x / x becomes 1. :func:`wengert.passes.simplify` keeps every value.

    Raises GraphError for complex numbers.

    >>> import wengert as wg
    >>> g = wg.symbolic.simplify(lambda x: wg.exp(wg.log(x) * 2) / x + x - wg.sin(x) ** 2 - wg.cos(x) ** 2)
    >>> wg.symbolic.text(g)
    '2*x - 1'
    """
    graph = as_graph(f)
    return _written(graph, read(graph), [n.spec for n in graph.outputs])


def _written(graph: Graph, exprs: Sequence[Any], specs: Sequence[Any]) -> Graph:
    return write(tidy(exprs), graph, specs, graph.name)


def derivative(f: Function, x: Variable | Sequence[Variable] = 0, order: int = 1) -> Graph:
    """Return the derivative as a simplified graph with the same inputs.

    Parameters
    ----------
    f: a graph with one real scalar output, or a function, which is traced on float64 scalars.
    x: the input to differentiate in, by position or name; several of them for a mixed partial
        derivative, in that order.
    order: how often to differentiate; 0 only simplifies.

    The derivative is taken by reverse mode on the graph itself, then simplified as
    :func:`simplify` does. At single points where a function has a kink, or where its derivative is
    defined by a limit, the result is one side's derivative, or may be undefined.

    Raises GraphError for an input that there is not, GradientError for an output that is not a real
    floating scalar or an input that is not floating.

    >>> import wengert as wg
    >>> wg.symbolic.text(wg.symbolic.derivative(lambda x: x ** x))
    'x**x*(log(x) + 1)'
    >>> d = wg.symbolic.derivative(lambda x, y: wg.sin(x * y), ("x", "y"))
    >>> wg.symbolic.text(d)
    'cos(x*y) - x*y*sin(x*y)'
    """
    graph = as_graph(f)
    variables = [x] * order if isinstance(x, (int, str)) else [v for v in x for _ in range(order)]
    if not isinstance(order, int) or isinstance(order, bool) or order < 0:
        fail(GraphError, f"a derivative of order {order!r}", "The order is an int from 0.")
    positions = [_position(graph, v) for v in variables]
    if not positions:
        return simplify(graph)
    _one_scalar(graph)
    for p in positions:
        (graph,) = _gradients(graph, 0, [p])
    return graph


def gradient(f: Function) -> list[Graph]:
    """Return the derivatives of a scalar in each of its inputs, each a simplified graph.

    Raises as :func:`derivative` does.

    >>> import wengert as wg
    >>> [wg.symbolic.text(g) for g in wg.symbolic.gradient(lambda x, y: x ** 2 * y + y)]
    ['2*x*y', 'x**2 + 1']
    """
    graph = as_graph(f)
    _one_scalar(graph)
    return _gradients(graph, 0, range(len(graph.inputs)))


def jacobian(f: Function) -> list[list[Graph]]:
    """Return, for every scalar output (rows), its derivative in every input (columns).

    Raises as :func:`derivative` does.

    >>> import wengert as wg
    >>> polar = lambda r, t: (r * wg.cos(t), r * wg.sin(t))
    >>> for row in wg.symbolic.jacobian(polar):
    ...     print([wg.symbolic.text(g) for g in row])
    ['cos(t)', '-r*sin(t)']
    ['sin(t)', 'r*cos(t)']
    """
    graph = as_graph(f)
    for i in range(len(graph.outputs)):
        _scalar(graph, i)
    return [_gradients(graph, i, range(len(graph.inputs))) for i in range(len(graph.outputs))]


def hessian(f: Function) -> list[list[Graph]]:
    """Return the second derivatives of a scalar in every pair of its inputs.

    Raises as :func:`derivative` does.

    >>> import wengert as wg
    >>> for row in wg.symbolic.hessian(lambda x, y: x ** 3 * y):
    ...     print([wg.symbolic.text(g) for g in row])
    ['6*x*y', '3*x**2']
    ['3*x**2', '0']
    """
    return [gradient(g) for g in gradient(f)]


def _gradients(graph: Graph, output: int, positions: Sequence[int]) -> list[Graph]:
    """Return the derivatives of one output in some inputs."""
    names = [graph.names[n] for n in graph.inputs]
    for p in positions:
        spec = graph.inputs[p].spec
        if not isinstance(spec, Spec) or category(spec.dtype) != 2:
            fail(GradientError, f"a symbolic derivative in {names[p]}, which is {spec}", "Inputs must be real floats.")

    def scalar(*feeds: Tensor) -> Tensor:
        return replay(graph, feeds)[output]

    taken = grad(scalar, tuple(positions))
    traced = trace(taken, tuple(n.spec for n in graph.inputs), {})
    exprs = tidy(read(traced, names))
    return [write([e], graph, [graph.inputs[p].spec], graph.name) for e, p in zip(exprs, positions, strict=True)]


def _position(graph: Graph, x: Variable) -> int:
    names = [graph.names[n] for n in graph.inputs]
    if isinstance(x, str) and x in names:
        return names.index(x)
    if isinstance(x, int) and -len(names) <= x < len(names):
        return x % len(names)
    return fail(GraphError, f"no input {x!r} in {graph!r}", f"Its inputs are {', '.join(names) or 'none'}.")


def _one_scalar(graph: Graph) -> None:
    if len(graph.outputs) != 1:
        fail(
            GradientError,
            f"the derivative of {graph!r}, which has {len(graph.outputs)} outputs",
            "wg.symbolic.jacobian takes several.",
        )
    _scalar(graph, 0)


def _scalar(graph: Graph, i: int) -> None:
    spec = graph.outputs[i].spec
    if not isinstance(spec, Spec) or spec.shape != () or category(spec.dtype) != 2:
        fail(
            GradientError,
            f"a symbolic derivative of {graph.names[graph.outputs[i]]}, which is {spec}",
            "It must be a real floating scalar.",
        )
