"""Graphs as SVG pictures: `graph.to_svg()`, and what notebooks show."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ...core.errors import GraphError, fail
from ...core.graph.graph import Graph
from .layout import Arrow, Point, place
from .scene import MAX_NODES, Box, Direction, Link, Scene, count_by_kind, scene_of
from .style import DARK, LIGHT, Ink, text_width

TITLE_SIZE, NOTE_SIZE, HINT_SIZE = 13.0, 10.5, 11.0
# Of the light scheme: the ground, arrows, hints, modules.
PAPER, LINE, MUTED, SHADE = "#faf9f6", "#8b8f98", "#676c78", "#f1efe9"
_HEIGHT = 42.0
_PADDING = 14.0
_LEAST_WIDTH = 56.0
MARGIN = 24.0
_STACK, _RING = 4.0, 4.0
_HEAD = 6.5  # an arrowhead's length
_SLANT = 11.0  # of a parameter's hexagon


def to_svg(
    graph: Graph, *, direction: Direction = "TB", max_nodes: int | None = MAX_NODES, legend: bool = False
) -> str:
    """Return the graph as an SVG document that needs nothing else; it follows the reader's light or dark scheme.

    Parameters
    ----------
    direction: "TB", from top to bottom, or "LR", from left to right.
    max_nodes: with more nodes than this, modules are folded to one box each, and where that is not
        enough, what is neither near the inputs nor near the outputs. None draws every node.
    legend: whether to say below what the shapes mean.

    Inputs are round, parameters six-sided, constants grey, operations of a backward pass violet,
    outputs dark; a composite looks like a stack. Arrows reach an operation in the order of its
    operands. Pointing at a box tells its line of `graph.text()`, its module and the user's file name and
    line.

    Raises GraphError for another direction or `max_nodes`.

    >>> import wengert as wg
    >>> g = wg.graph(lambda x, y: wg.sin(x) * y)(wg.spec(()), wg.spec(()))
    >>> g.to_svg().startswith("<svg")
    True
    """
    if direction not in ("TB", "LR"):
        fail(GraphError, f"direction={direction!r} of a picture", 'Give "TB" (top to bottom) or "LR" (left to right).')
    return draw(scene_of(graph, max_nodes), direction, legend)


def repr_svg(graph: Graph) -> str:
    """Return what a notebook shows."""
    return to_svg(graph)


def draw(scene: Scene, direction: Direction, legend: bool) -> str:
    """Return a scene as an SVG document."""
    picture = arranged(scene, direction)
    width, height = max(picture.width, _LEAST_WIDTH) + 2 * MARGIN, picture.height + 2 * MARGIN
    key = _legend(scene, height - MARGIN / 2) if legend else None
    if key is not None:
        width, height = max(width, key.width), height + key.height
    name = escape(f"Graph {scene.name}".rstrip() + f": {scene.shown}")
    hulls = hulls_of(scene, picture)
    body = "".join(
        [
            *_group("hulls", [_hull(h) for h in hulls]),
            *_group("edges", [_edge(scene, k, r, direction) for k, r in zip(scene.links, picture.routes)]),
            *_group("heads", [f'<path d="{head(r[-1], direction)}"/>' for r in picture.routes]),
            *_group("modules", [_hull_name(h) for h in hulls]),
            *_group("nodes", [_node(b, c, s) for b, c, s in zip(scene.boxes, picture.centres, picture.sizes)]),
        ]
    )
    empty = "" if scene.boxes else f'<text class="hint" x="{_n(MARGIN)}" y="{_n(MARGIN + 4)}">empty graph</text>'
    box = f'viewBox="0 0 {_n(width)} {_n(height)}" width="{_n(width)}" height="{_n(height)}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="wengert-graph" role="img" {box} '
        'style="max-width:100%;height:auto">\n'
        f"<title>{name}</title>\n<style>{_STYLE}</style>\n"
        f'<rect class="paper" width="{_n(width)}" height="{_n(height)}" rx="10"/>\n'
        f'<g transform="translate({_n((width - picture.width) / 2)} {_n(MARGIN)})">\n{body}</g>\n'
        f"{key.text if key else ''}{empty}</svg>\n"
    )


def _group(name: str, parts: Sequence[str]) -> list[str]:
    return [f'<g class="{name}">\n', *(f"{p}\n" for p in parts), "</g>\n"] if parts else []


# -- arranging


class Picture(NamedTuple):
    """A scene in the plane: centres and sizes of boxes, points of arrows."""

    centres: list[Point]
    sizes: list[Point]
    routes: list[list[Point]]
    width: float
    height: float


def arranged(scene: Scene, direction: Direction) -> Picture:
    """Return the scene's boxes and arrows in the plane."""
    sizes = [box_size(b) for b in scene.boxes]
    turned: Callable[[Point], Point] = (lambda p: p) if direction == "TB" else (lambda p: (p[1], p[0]))
    outer = [turned(_outer(b, s)) for b, s in zip(scene.boxes, sizes)]
    found = place(outer, [Arrow(k.source, k.target) for k in scene.links])
    width, height = turned((found.across, found.along))
    return Picture(
        [turned(c) for c in found.centres], sizes, [[turned(p) for p in r] for r in found.routes], width, height
    )


def box_size(box: Box) -> Point:
    """Return the width and height that the box's words need."""
    text = max(text_width(box.heading, TITLE_SIZE), text_width(box.note, NOTE_SIZE, mono=True))
    slant = {"parameter": _SLANT, "input": 5.0}.get(box.kind, 0.0)
    return max(_LEAST_WIDTH, text + 2 * (_PADDING + slant)), _HEIGHT


def _outer(box: Box, size: Point) -> Point:
    """Return the size with what is drawn around a box."""
    extra = _STACK * box.stacked + 2 * _RING * box.ring
    return size[0] + extra, size[1] + extra


# -- arrows


def _edge(scene: Scene, link: Link, route: Sequence[Point], direction: Direction) -> str:
    source, target = scene.boxes[link.source], scene.boxes[link.target]
    count = f" ({link.operands} operands)" if link.operands > 1 else ""
    return (
        f'<path d="{curve(route, direction)}"><title>{escape(f"{source.name} to {target.name}{count}")}</title></path>'
    )


def curve(route: Sequence[Point], direction: Direction) -> str:
    """Return a smooth line along the flow: straight through rows, curved between them, up to the arrowhead."""
    down = direction == "TB"
    x, y = route[-1]
    points = [*route[:-1], (x, y - _HEAD + 1) if down else (x - _HEAD + 1, y)]
    out = [f"M{_p(points[0])}"]
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        if abs(x0 - x1) < 0.05 or abs(y0 - y1) < 0.05:
            out.append(f"L{_p((x1, y1))}")
        elif down:
            out.append(f"C{_p((x0, (y0 + y1) / 2))} {_p((x1, (y0 + y1) / 2))} {_p((x1, y1))}")
        else:
            out.append(f"C{_p(((x0 + x1) / 2, y0))} {_p(((x0 + x1) / 2, y1))} {_p((x1, y1))}")
    return "".join(out)


def head(end: Point, direction: Direction) -> str:
    """Return the path of an arrow's head."""
    half, back = _HEAD * 0.46, -_HEAD
    if direction == "TB":
        return f"M{_p(end)}l{_n(-half)} {_n(back)}h{_n(2 * half)}z"
    return f"M{_p(end)}l{_n(back)} {_n(-half)}v{_n(2 * half)}z"


# -- boxes


def _node(box: Box, centre: Point, size: Point) -> str:
    x, y = (c - _STACK / 2 * box.stacked for c in centre)
    kind = f"{box.kind} ring" if box.ring else box.kind
    rest = f'<tspan class="rest"> {escape(box.rest)}</tspan>' if box.rest else ""
    return (
        f'<g class="node {kind}" data-node="{escape(box.name)}"><title>{escape(box.tip)}</title>'
        f"{shape(box.kind, box.stacked, box.ring, (x, y), size)}"
        f'<text class="title" x="{_n(x)}" y="{_n(y - 2.5)}">{escape(box.title)}{rest}</text>'
        f'<text class="note" x="{_n(x)}" y="{_n(y + 13)}">{escape(box.note)}</text></g>'
    )


def shape(kind: str, stacked: bool, ring: bool, centre: Point, size: Point) -> str:
    """Return the SVG elements of a node's outline."""
    (x, y), (w, h) = centre, size
    left, top = x - w / 2, y - h / 2
    behind = f'<path d="{rounded(left + _STACK, top + _STACK, w, h, 8)}"/>' if stacked else ""
    if kind == "parameter":
        body = f"M{_p((left, y))}l{_n(_SLANT)} {_n(-h / 2)}h{_n(w - 2 * _SLANT)}l{_n(_SLANT)} {_n(h / 2)}"
        outline = f"{body}l{_n(-_SLANT)} {_n(h / 2)}h{_n(2 * _SLANT - w)}z"
    else:
        outline = rounded(left, top, w, h, {"input": h / 2, "constant": 2.0}.get(kind, 8.0))
    extra = 2 * _RING + _STACK * stacked
    halo = rounded(left - _RING, top - _RING, w + extra, h + extra, 12)
    ringed = f'<path class="halo" d="{halo}"/>' if ring else ""
    return f'{ringed}{behind}<path d="{outline}"/>'


def rounded(x: float, y: float, w: float, h: float, r: float) -> str:
    """Return the path of a rectangle with round corners."""
    a = f"a{_n(r)} {_n(r)} 0 0 1"
    return (
        f"M{_p((x + r, y))}h{_n(w - 2 * r)}{a} {_n(r)} {_n(r)}v{_n(h - 2 * r)}{a} {_n(-r)} {_n(r)}"
        f"h{_n(2 * r - w)}{a} {_n(-r)} {_n(-r)}v{_n(2 * r - h)}{a} {_n(r)} {_n(-r)}z"
    )


# -- modules behind their boxes


_LEAF_KINDS = ("input", "parameter", "constant")


class _Hull(NamedTuple):
    path: str
    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: _Hull) -> bool:
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )


def hulls_of(scene: Scene, picture: Picture) -> list[_Hull]:
    """Return the modules that stand together, with nothing else between: the outer ones first.

    A module's parameters may stand beside or above it; those that would be cut are taken in.
    """
    extents = [
        _Hull(b.path, x - w / 2, y - h / 2, x + w / 2, y + h / 2)
        for b, (x, y), (w, h) in zip(scene.boxes, picture.centres, picture.sizes)
    ]
    computed = [b.kind not in _LEAF_KINDS for b in scene.boxes]
    kept: list[_Hull] = []
    for path in sorted(_modules(scene.boxes), key=lambda p: (-p.count("."), p)):
        own = [i for i, e in enumerate(extents) if _within(e.path, path)]
        outside = [e for e in extents if not _within(e.path, path)]
        core = [i for i in own if computed[i]]
        if len(core) < 2 or not outside:
            continue
        parts = [extents[i] for i in core] + [h for h in kept if _within(h.path, path)]
        parts += _lines_between(set(core), scene, picture)
        hull = _taking_in(path, parts, [extents[i] for i in own if not computed[i]])
        others = [*outside, *(h for h in kept if not _within(h.path, path))]
        if not any(hull.meets(o) for o in others):
            kept.append(hull)
    return kept[::-1]


def _taking_in(path: str, parts: Sequence[_Hull], leaves: Sequence[_Hull]) -> _Hull:
    """Return the hull around `parts` and around every leaf that it would cut."""
    hull = _around(path, parts)
    while True:
        cut = [e for e in leaves if hull.meets(e)]
        larger = _around(path, [*parts, *cut])
        if larger == hull:
            return hull
        hull = larger


def _lines_between(boxes: set[int], scene: Scene, picture: Picture) -> list[_Hull]:
    """Return the extents of the arrows between the given boxes."""
    routes = [r for k, r in zip(scene.links, picture.routes) if k.source in boxes and k.target in boxes]
    return [
        _Hull("", min(x for x, _ in r), min(y for _, y in r), max(x for x, _ in r), max(y for _, y in r))
        for r in routes
    ]


def _modules(boxes: Sequence[Box]) -> set[str]:
    """Return every module path, and those around it, that some computation of the scene ran in."""
    paths = {b.path for b in boxes if b.path and b.kind not in (*_LEAF_KINDS, "module")}
    return {".".join(parts[: i + 1]) for parts in (p.split(".") for p in paths) for i in range(len(parts))}


def _within(path: str, module: str) -> bool:
    return path == module or path.startswith(module + ".")


def _around(path: str, parts: Sequence[_Hull]) -> _Hull:
    left, right = min(p.left for p in parts) - 9, max(p.right for p in parts) + 9
    width = text_width(path, HINT_SIZE) + 18
    return _Hull(path, left, min(p.top for p in parts) - 20, max(right, left + width), max(p.bottom for p in parts) + 9)


def _hull(hull: _Hull) -> str:
    return f'<path d="{rounded(hull.left, hull.top, hull.right - hull.left, hull.bottom - hull.top, 10)}"/>'


def _hull_name(hull: _Hull) -> str:
    return f'<text class="hint" x="{_n(hull.left + 9)}" y="{_n(hull.top + 13)}">{escape(hull.path)}</text>'


# -- the legend

_MEANING = {
    "input": "input",
    "parameter": "parameter",
    "constant": "constant",
    "computation": "computation",
    "gradient": "backward",
    "root": "output",
    "module": "module",
    "more": "left out",
}


class _Legend(NamedTuple):
    text: str
    width: float
    height: float


def _legend(scene: Scene, y: float) -> _Legend | None:
    kinds = list(count_by_kind(scene))
    if not kinds:
        return None
    samples = [(kind, _MEANING[kind], False) for kind in kinds]
    if any(b.stacked and b.nodes == 1 for b in scene.boxes):
        samples.append(("computation", "composite", True))
    parts, x = [], MARGIN
    for kind, word, stacked in samples:
        sample = shape(kind, stacked, False, (x + 14, y + 14), (28 if kind != "parameter" else 32, 16))
        parts.append(
            f'<g class="node {kind}">{sample}</g><text class="hint" x="{_n(x + 36)}" y="{_n(y + 18)}">{word}</text>'
        )
        x += 36 + text_width(word, HINT_SIZE) + 18
    return _Legend(f'<g class="legend">{"".join(parts)}</g>\n', x - 18 + MARGIN, 30.0)


# -- text, numbers and colours

# Code points that XML has no characters for become a replacement character.
_ESCAPES = dict.fromkeys(
    [*range(9), 11, 12, *range(14, 32), *range(0xD800, 0xE000), 0xFFFE, 0xFFFF], "\N{REPLACEMENT CHARACTER}"
)
_ESCAPES |= {ord(c): text for c, text in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"))}


def escape(text: str) -> str:
    """Return text as XML, in an element or an attribute."""
    return text.translate(_ESCAPES)


def _n(value: float) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".") if value else "0"


def _p(point: Point) -> str:
    return f"{_n(point[0])} {_n(point[1])}"


def _rules(inks: Mapping[str, Ink], paper: str, line: str, muted: str, hull: str) -> str:
    """Return the colours of one scheme as CSS, all below the picture's class: a page may hold many."""
    here = ".wengert-graph"
    rules = [
        f"{here} .paper{{fill:{paper}}}",
        f"{here} .edges path{{stroke:{line}}}{here} .heads path{{fill:{line}}}",
        f"{here} .hint{{fill:{muted}}}{here} .hulls path{{fill:{hull};stroke:{muted};stroke-opacity:.3}}",
        f"{here} .modules text{{stroke:{hull};stroke-width:4px;paint-order:stroke}}",
    ]
    for kind, ink in inks.items():
        rules.append(f"{here} .{kind} path{{fill:{ink.fill};stroke:{ink.line}}}{here} .{kind} text{{fill:{ink.text}}}")
    rules.append(f"{here} .node .halo{{fill:none;stroke:{inks['root'].fill}}}")
    return "".join(rules)


_STYLE = (
    ".wengert-graph text{text-anchor:middle}"
    '.wengert-graph .title{font:600 13px Inter,"Segoe UI",system-ui,"Helvetica Neue",Arial,sans-serif}'
    ".wengert-graph .rest{font-weight:400}"
    '.wengert-graph .note{font:10.5px ui-monospace,"SF Mono",Menlo,Consolas,"DejaVu Sans Mono",monospace;opacity:.72}'
    '.wengert-graph .hint{font:11px Inter,"Segoe UI",system-ui,"Helvetica Neue",Arial,sans-serif;text-anchor:start}'
    ".wengert-graph .node path{stroke-width:1.5;stroke-linejoin:round}"
    ".wengert-graph .more path{stroke-dasharray:5 4}"
    ".wengert-graph .node:hover path{stroke-width:2.4}"
    ".wengert-graph .edges path{fill:none;stroke-width:1.4}"
    + _rules(LIGHT, PAPER, LINE, MUTED, SHADE)
    + "@media(prefers-color-scheme:dark){"
    + _rules(DARK, "#0f1117", "#747b8a", "#8f96a5", "#171a22")
    + "}"
)

Graph.to_svg = to_svg  # type: ignore[method-assign, assignment]
Graph._repr_svg_ = repr_svg  # type: ignore[method-assign, assignment]
