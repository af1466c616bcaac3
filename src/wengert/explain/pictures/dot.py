"""Graphs in the DOT language of Graphviz: `graph.to_dot()`."""

from __future__ import annotations

from collections.abc import Mapping

from ...core.errors import GraphError, fail
from ...core.graph.graph import Graph
from .scene import Box, Direction, Link, scene_of
from .style import LIGHT

_SHAPES = {"input": "ellipse", "parameter": "hexagon", "constant": "note", "module": "box3d"}


def to_dot(graph: Graph, *, direction: Direction = "TB", max_nodes: int | None = None) -> str:
    """Return the graph in the DOT language, for Graphviz and programs that read its files.

    Parameters
    ----------
    direction: "TB", from top to bottom, or "LR", from left to right.
    max_nodes: fold larger graphs as `to_svg` does; None writes every node.

    Shapes, colours, words and tooltips are those of :meth:`Graph.to_svg`; composites are drawn in
    three dimensions and outputs with a double line. Edges stand in the order of the operands.

    Raises GraphError for another direction or `max_nodes`.

    >>> import wengert as wg
    >>> g = wg.graph(lambda x: wg.exp(x) * 2.0)(wg.spec(()))
    >>> print(g.to_dot().splitlines()[0])
    digraph graph_ {
    """
    if direction not in ("TB", "LR"):
        fail(GraphError, f"direction={direction!r} of a picture", 'Give "TB" (top to bottom) or "LR" (left to right).')
    scene = scene_of(graph, max_nodes)
    lines = [
        f"digraph {_quoted(scene.name) if scene.name else 'graph_'} {{",
        f'  graph [rankdir={direction}, ordering=in, bgcolor="transparent", nodesep=0.3, ranksep=0.45];',
        '  node [fontname="Helvetica,Arial,sans-serif", fontsize=11, style="filled,rounded", shape=box, penwidth=1.3];',
        '  edge [color="#8b8f98", arrowsize=0.6];',
    ]
    lines += [f"  n{i} {_attributes(_box(b))};" for i, b in enumerate(scene.boxes)]
    lines += [f"  n{k.source} -> n{k.target}{_link(k)};" for k in scene.links]
    return "\n".join([*lines, "}", ""])


def _box(box: Box) -> dict[str, str]:
    ink = LIGHT[box.kind]
    out = {
        "label": f"{box.heading}\n{box.note}",
        "tooltip": box.tip,
        "shape": "box3d" if box.stacked else _SHAPES.get(box.kind, "box"),
        "fillcolor": ink.fill,
        "color": ink.line,
        "fontcolor": ink.text,
    }
    if out["shape"] != "box":
        out["style"] = "filled,dashed" if box.kind == "more" else "filled"
    if box.ring:
        out["peripheries"] = "2"
    return out


def _link(link: Link) -> str:
    return f" {_attributes({'tooltip': f'{link.operands} operands', 'penwidth': '2'})}" if link.operands > 1 else ""


def _attributes(values: Mapping[str, str]) -> str:
    return "[" + ", ".join(f"{k}={_quoted(v)}" for k, v in values.items()) + "]"


def _quoted(text: str) -> str:
    """Return a quoted string; in it a backslash begins an escape, so that it is written twice."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


Graph.to_dot = to_dot  # type: ignore[method-assign, assignment]
