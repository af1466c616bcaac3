"""Simplification: the rules, and the passes one after another."""

from __future__ import annotations

from collections import Counter

from ..core.graph.graph import Graph
from .cse import cse
from .fold import fold
from .rewrite import rewrite
from .rules import FINITE, VALUE_SAFE

# Each round shrinks the graph or leaves it; a few suffice for what one rule opens to another.
_ROUNDS = 8


def simplify(graph: Graph, *, exact: bool = True, counts: Counter[str] | None = None) -> Graph:
    """Return the graph with simplification rules applied.

    Parameters
    ----------
    exact: keep every value in every bit, NaN, infinities and the sign of zeros included. False adds
        the rules of :data:`wengert.passes.FINITE`, which are right while numbers are finite and
        functions are in their domain: x * 0 is 0, x - x is 0, x / x is 1, x + 0.0 is x,
        log(exp(x)) is x.
    counts: is told how often each rule fired.

    >>> import wengert as wg
    >>> g = wg.graph(lambda x: (x - x) * 2.0 + x / 1.0)(wg.spec(()))
    >>> print(wg.passes.simplify(g))
    graph(x: f32[]) -> f32[]
      a: f32[] = subtract x x
      b: f32[] = multiply a 2.0
      c: f32[] = add b x
      return c
    >>> print(wg.passes.simplify(g, exact=False))
    graph(x: f32[]) -> f32[]
      return x
    """
    return rewrite(graph, VALUE_SAFE if exact else VALUE_SAFE + FINITE, counts)


def optimize(graph: Graph, *, exact: bool = True) -> Graph:
    """Return the graph after constant folding, simplification and common subexpressions, until nothing changes.

    `exact` as in :func:`simplify`.

    >>> import wengert as wg
    >>> g = wg.graph(lambda x: wg.sin(x) * wg.sin(x) - wg.sin(x * 1.0))(wg.spec(()))
    >>> print(wg.passes.optimize(g))
    graph(x: f32[]) -> f32[]
      a: f32[] = sin x
      b: f32[] = multiply a a
      c: f32[] = subtract b a
      return c
    """
    for _ in range(_ROUNDS):
        before = graph
        graph = cse(simplify(fold(graph), exact=exact))
        if graph == before:
            return graph
    return graph
