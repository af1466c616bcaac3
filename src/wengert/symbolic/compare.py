"""The comparison of two graphs as functions, at random points."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..core.arrays import Array
from ..core.errors import GraphError, fail
from ..core.graph.evaluate import compute, run
from ..core.graph.graph import Graph
from ..core.node import Node
from ..core.ops.op import Op
from ..core.spec import Spec
from .derivatives import Function, as_graph

_NEEDED = 4
_JITTERED_RUNS = 4
_FARTHEST = 1e6
_SCALES = (0.3, 1.0, 3.0, 10.0)


@dataclass(frozen=True)
class Verdict:
    """The result of :func:`equal`; true where the graphs were equal at every point.

    `points` were compared; at `undefined` ones at least one graph was not finite. `counterexample`
    holds the inputs, by name, of the first point where they differ, and `values` the two results.

    >>> import wengert as wg
    >>> bool(wg.symbolic.equal(lambda x: x * x, lambda x: x**2))
    True
    """

    equal: bool
    points: int
    undefined: int
    counterexample: Mapping[str, Any] | None = None
    values: tuple[Any, Any] | None = field(default=None)

    def __bool__(self) -> bool:
        return self.equal


def equal(a: Function, b: Function, *, points: int = 100, seed: int = 0) -> Verdict:
    """Compare two graphs at random points.

    Parameters
    ----------
    a, b: graphs, or functions (traced on float64 scalars), of the same inputs and outputs. Inputs of the
        same names go together in whatever order they stand, others by position.
    points: how many points to try. Half of them are drawn at several scales, half where the ops
        that read an input have their samples, so that log is asked about positive numbers and acos
        about those in (-1, 1).
    seed: of the points.

    Two results agree when they differ by no more than rounding explains: by some digits of the
    dtype, and by how far results move when every operation rounds otherwise. Points at which one graph is
    not finite say nothing, as simplification may extend a domain.

    Raises GraphError for graphs of other inputs or outputs, or when too few points have finite values.

    >>> import wengert as wg
    >>> bool(wg.symbolic.equal(lambda x: wg.sin(2 * x), lambda x: 2 * wg.sin(x) * wg.cos(x)))
    True
    >>> verdict = wg.symbolic.equal(lambda x: wg.sqrt(x * x), lambda x: x)
    >>> verdict.equal, verdict.counterexample["x"] < 0
    (False, True)
    """
    first, second = as_graph(a), as_graph(b)
    second = _ordered_as(first, second)
    _comparable(first, second)
    rng = np.random.default_rng(seed)
    (shaken,) = rng.spawn(1)
    compared = undefined = 0
    for i in range(points):
        feeds = [_value(rng, n, (first, second), i) for n in first.inputs]
        left, right = run(first, feeds), run(second, feeds)
        if not all(np.all(np.isfinite(v)) for v in (*left, *right)):
            undefined += 1
            continue
        compared += 1
        if all(map(_agree, left, right)):
            continue
        # The effect of rounding takes many runs to find out: only where it matters.
        noise = [_noise(g, feeds, v, shaken) for g, v in ((first, left), (second, right))]
        for k, (u, v) in enumerate(zip(left, right)):
            if not _agree(u, v, noise[0][k] + noise[1][k]):
                names = [first.names[n] for n in first.inputs]
                at = {name: f.item() if f.ndim == 0 else f for name, f in zip(names, feeds)}
                return Verdict(False, compared, undefined, at, (_plain(u), _plain(v)))
    if compared < min(_NEEDED, points):
        fail(
            GraphError,
            f"only {compared} of {points} points gave finite values of both graphs: no verdict",
            "Ask for more points, or compare the graphs on inputs of your own.",
        )
    return Verdict(True, compared, undefined)


def _ordered_as(first: Graph, second: Graph) -> Graph:
    """Return the second graph with its inputs in the first one's order, where they have the same names."""
    names = [first.names[n] for n in first.inputs]
    known = {second.names[n]: n for n in second.inputs}
    if names == list(known) or set(names) != set(known):
        return second
    return Graph(second.outputs, [known[name] for name in names], second.name)


def _plain(value: Array) -> Any:
    return value.item() if value.ndim == 0 else value


def _comparable(a: Graph, b: Graph) -> None:
    for what, one, other in (("inputs", a.inputs, b.inputs), ("outputs", a.outputs, b.outputs)):
        if [n.spec for n in one] != [n.spec for n in other]:
            fail(
                GraphError,
                f"graphs of {what} ({', '.join(str(n.spec) for n in one)}) and "
                f"({', '.join(str(n.spec) for n in other)}) are not compared",
            )


def _value(rng: np.random.Generator, node: Node, graphs: tuple[Graph, Graph], i: int) -> Array:
    """Return a value for an input: from a normal distribution, or where the ops that read it are sampled."""
    spec = node.spec
    assert isinstance(spec, Spec)
    if spec.dtype.kind == "b":
        return np.asarray(rng.random(spec.shape) < 0.5)
    position = graphs[0].inputs.index(node)
    places = [p for g in graphs for p in _domains(g, g.inputs[position], rng)] if i % 2 else []
    if places:
        low, high = places[rng.integers(len(places))]
        values = rng.uniform(low, high, spec.shape)
    else:
        values = rng.normal(0.0, _SCALES[rng.integers(len(_SCALES))], spec.shape)
    return np.asarray(values).astype(spec.dtype)


def _domains(graph: Graph, node: Node, rng: np.random.Generator) -> list[tuple[float, float]]:
    """Return the intervals that the ops which read a node are sampled in."""
    found = []
    for user in graph.consumers(node):
        for k, entry in enumerate(user.inputs):
            if entry is node and user.op.kind == "elementwise" and user.op.samples is not None:
                found += _intervals(user.op, k, rng)
    return found


def _intervals(op: Op, position: int, rng: np.random.Generator) -> list[tuple[float, float]]:
    assert op.samples is not None
    out = []
    for sample in op.samples(rng):
        if position < len(sample.args):
            values = np.atleast_1d(np.asarray(sample.args[position]))
            values = values[np.isfinite(values)] if values.dtype.kind in "iuf" else values[:0]
            if values.size:
                values = np.clip(values, -_FARTHEST, _FARTHEST)
                out.append((float(values.min()), float(values.max())))
    return out


def _noise(graph: Graph, feeds: list[Array], values: list[Array], rng: np.random.Generator) -> list[Array]:
    """Return the change of the results when every operation rounds otherwise: the spread of a few runs."""
    spread = [np.zeros(np.shape(v)) for v in values]
    for _ in range(_JITTERED_RUNS):
        again = _jittered(graph, feeds, rng)
        for k, (v, w) in enumerate(zip(values, again)):
            with np.errstate(all="ignore"):
                moved = np.abs(np.asarray(v, np.float64) - np.asarray(w, np.float64))
            spread[k] = np.maximum(spread[k], np.nan_to_num(moved, nan=0.0, posinf=0.0))
    return spread


def _jittered(graph: Graph, feeds: list[Array], rng: np.random.Generator) -> list[Array]:
    """Return a run in which every result is off by an ulp or two (Vignes 1993, stochastic arithmetic)."""
    found: dict[Node, Any] = dict(zip(graph.inputs, feeds))
    with np.errstate(all="ignore"):
        for node in graph.nodes:
            if node in found:
                continue
            value = compute(node, [found[e] if isinstance(e, Node) else e for e in node.inputs])
            if isinstance(node.spec, Spec) and node.spec.dtype.kind == "f":
                off = 1 + rng.choice((-2, 2), node.spec.shape) * np.finfo(node.spec.dtype).eps
                value = np.asarray(value * off).astype(node.spec.dtype)
            found[node] = value
    return [found[n] for n in graph.outputs]


def _agree(a: Array, b: Array, noise: Array | float = 0.0) -> bool:
    if a.dtype.kind != "f":
        return bool(np.array_equal(a, b))
    tolerance = float(np.finfo(a.dtype).eps) ** 0.58
    wide = np.asarray(a, np.float64), np.asarray(b, np.float64)
    scale = np.maximum(np.abs(wide[0]), np.abs(wide[1]))
    allowed = tolerance * scale + 64 * noise + float(np.finfo(a.dtype).tiny)
    return bool(np.all(np.abs(wide[0] - wide[1]) <= allowed))
