"""Pictures of graphs: `to_svg`, `to_dot`, and the layout behind them."""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
from random_graphs import random_graph
from wengert.explain.pictures import draw, layout, scene, style

SVG = "{http://www.w3.org/2000/svg}"
S = wg.spec


def mlp_gradient() -> wg.Graph:
    def loss(p: Any, x: Any, y: Any) -> Any:
        h = wg.relu(x @ p["w1"] + p["b1"])
        return ((h @ p["w2"] + p["b2"] - y) ** 2).mean()

    p = {"w1": S((4, 8)), "b1": S((8,)), "w2": S((8, 3)), "b2": S((3,))}
    return wg.graph(wg.value_and_grad(loss))(p, S((16, 4)), S((16, 3)))


def chain(length: int) -> wg.Graph:
    def f(x: Any) -> Any:
        for _ in range(length):
            x = wg.sin(x)
        return x

    return wg.graph(f)(S((3,)))


class Block(wg.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = wg.nn.Linear(8, 16)
        self.down = wg.nn.Linear(16, 8)

    def forward(self, x: wg.Tensor) -> wg.Tensor:
        return x + self.down(wg.tanh(self.up(x)))


def blocks(count: int) -> wg.Graph:
    model = wg.nn.Sequential(*(Block() for _ in range(count)))
    x = wg.zeros((2, 8))
    return wg.Graph.of(model(x), inputs=[x, *model.parameters()], names=dict(model.named_parameters())).expand()


GRAPHS: dict[str, Callable[[], wg.Graph]] = {
    "formula": lambda: wg.graph(lambda x1, x2: (x1 + x2) * wg.sin(x1))(S(()), S(())),
    "gradient": mlp_gradient,
    "chain": lambda: chain(100),
    "fan-out": lambda: wg.graph(lambda x: [wg.exp(x * float(i)) for i in range(70)])(S((3,))),
    "fan-in": lambda: wg.graph(lambda *x: wg.stack(x))(*[S((3,))] * 70),
    "square": lambda: wg.graph(lambda x: x * x)(S(())),
    "unused inputs": lambda: wg.graph(lambda *x: wg.exp(x[0]))(*[S(())] * 30),
    "an input returned": lambda: wg.graph(lambda x, y: (x, y, x))(S(()), S(())),
    "nothing": lambda: wg.graph(lambda: ())(),
    "a constant": lambda: wg.graph(lambda: wg.asarray([1.0, 2.0]))(),
    "several results": lambda: wg.graph(lambda x: wg.sort(x) + wg.top_k(x, 3)[0].sum())(S((5,))),
    "blocks": lambda: blocks(3),
    "folded": lambda: blocks(60),
    "long": lambda: chain(3000),
} | {f"random {i}": (lambda i=i: random_graph(i)) for i in range(12)}


@pytest.fixture(params=GRAPHS)
def graph(request: pytest.FixtureRequest) -> wg.Graph:
    return GRAPHS[request.param]()


def parsed(svg: str) -> ET.Element:
    return ET.fromstring(svg)


def drawn_boxes(svg: str) -> list[ET.Element]:
    return [e for e in parsed(svg).iter(f"{SVG}g") if "data-node" in e.attrib]


def edge_count(svg: str) -> int:
    groups = [g for g in parsed(svg).iter(f"{SVG}g") if g.get("class") == "edges"]
    return sum(len(g) for g in groups)


def operands(graph: wg.Graph) -> int:
    return sum(isinstance(e, wg.Node) for n in graph.nodes for e in n.inputs)


@pytest.mark.parametrize("direction", ["TB", "LR"])
def test_every_node_once_and_every_operand(graph: wg.Graph, direction: Any) -> None:
    svg = graph.to_svg(direction=direction, max_nodes=None, legend=True)
    names = [e.get("data-node") for e in drawn_boxes(svg)]
    assert sorted(map(str, names)) == sorted(graph.names.values())
    assert edge_count(svg) == operands(graph)


@pytest.mark.parametrize("direction", ["TB", "LR"])
def test_boxes_do_not_overlap(graph: wg.Graph, direction: Any) -> None:
    shown = scene.scene_of(graph)
    picture = draw.arranged(shown, direction)
    boxes = sorted(
        (x - w / 2, x + w / 2, y - h / 2, y + h / 2) for (x, y), (w, h) in zip(picture.centres, picture.sizes)
    )
    for i, (left, right, top, bottom) in enumerate(boxes):
        assert left >= -1e-6
        assert top >= -1e-6
        assert right <= picture.width + 1e-6
        assert bottom <= picture.height + 1e-6
        for other in boxes[i + 1 :]:
            if other[0] >= right - 1e-6:
                break
            assert other[2] >= bottom - 1e-6 or other[3] <= top + 1e-6


def test_arrows_lead_forward_and_end_at_their_boxes(graph: wg.Graph) -> None:
    shown = scene.scene_of(graph)
    picture = draw.arranged(shown, "TB")
    for link, route in zip(shown.links, picture.routes):
        (x, y), (w, h) = picture.centres[link.target], picture.sizes[link.target]
        assert all(a[1] <= b[1] + 1e-6 for a, b in itertools.pairwise(route))
        assert x - w / 2 - 5 <= route[-1][0] <= x + w / 2 + 5
        assert y - h / 2 - 10 <= route[-1][1] <= y - h / 2 + 1e-6


def test_no_line_runs_through_a_box(graph: wg.Graph) -> None:
    shown = scene.scene_of(graph)
    picture = draw.arranged(shown, "TB")
    for link, route in zip(shown.links, picture.routes):
        # The upright parts; curves stay between the rows.
        for (x0, y0), (x1, y1) in itertools.pairwise(route):
            if x0 != x1:
                continue
            for i, ((x, y), (w, h)) in enumerate(zip(picture.centres, picture.sizes)):
                inside = abs(x0 - x) < w / 2 and y0 < y + h / 2 - 1e-6 and y1 > y - h / 2 + 1e-6
                assert not inside or i in link[:2]


def test_words_fit_their_boxes(graph: wg.Graph) -> None:
    for box in scene.scene_of(graph).boxes:
        width, _ = draw.box_size(box)
        assert style.text_width(box.heading, 13.0) <= width - 20
        assert style.text_width(box.note, 10.5, mono=True) <= width - 20


def test_operands_arrive_in_order(graph: wg.Graph) -> None:
    shown = scene.scene_of(graph)
    picture = draw.arranged(shown, "TB")
    ends: dict[int, list[float]] = {}
    for link, route in zip(shown.links, picture.routes):
        ends.setdefault(link.target, []).append(route[-1][0])
    for places in ends.values():
        assert all(a < b for a, b in itertools.pairwise(places))


def test_a_chain_is_straight() -> None:
    picture = draw.arranged(scene.scene_of(chain(100)), "TB")
    assert len({round(x, 6) for x, _ in picture.centres}) == 1
    assert all(len({round(x, 6) for x, _ in route}) == 1 for route in picture.routes)


def test_the_way_through_layers_is_straight() -> None:
    graph = blocks(3)
    shown = scene.scene_of(graph)
    picture = draw.arranged(shown, "TB")
    spine = {box.name: x for box, (x, _) in zip(shown.boxes, picture.centres)}
    ops = {graph.names[n]: n.op.name for n in graph.nodes}
    assert len({round(x, 6) for name, x in spine.items() if ops[name] in ("matmul", "tanh")}) == 1


def test_the_picture_is_a_function_of_the_graph(graph: wg.Graph) -> None:
    assert graph.to_svg() == graph.to_svg()
    assert graph.to_dot() == graph.to_dot()


def test_the_picture_is_the_same_in_another_process() -> None:
    code = (
        "import wengert as wg; print(wg.graph(lambda x, y: wg.exp(x) * y - x)(wg.spec((2,)), wg.spec((2,))).to_svg())"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(runs) == 1


# -- kinds, words, tooltips


def boxes_of(graph: wg.Graph) -> dict[str, scene.Box]:
    return {b.name: b for b in scene.scene_of(graph).boxes}


def test_kinds() -> None:
    w = wg.nn.Parameter([1.0, 2.0])
    x = wg.tensor([3.0, 4.0])
    g = wg.Graph.of(wg.softmax(w * x, axis=-1) * wg.asarray([5.0, 6.0]), inputs=[x, w], names={"w": w})
    kinds = [(b.kind, b.stacked, b.ring) for b in scene.scene_of(g).boxes]
    assert kinds == [
        ("input", False, False),
        ("parameter", False, False),
        ("computation", False, False),
        ("computation", True, False),
        ("constant", False, False),
        ("root", False, True),
    ]
    svg = g.to_svg()
    assert {str(e.get("class")).split()[1] for e in drawn_boxes(svg)} == {k for k, _, _ in kinds}


def test_operations_of_a_backward_pass_are_marked() -> None:
    boxes = scene.scene_of(mlp_gradient()).boxes
    assert {b.kind for b in boxes} == {"input", "constant", "computation", "gradient", "root"}


@pytest.mark.parametrize(
    ("f", "heading"),
    [
        (lambda x: x * 2.0, "\N{MULTIPLICATION SIGN} 2.0"),
        (lambda x: 1.0 - x, "1.0 \N{MINUS SIGN}"),
        (lambda x: x + x, "+"),
        (lambda x: wg.where(x > 0.0, x, 0.0), "where \N{MIDDLE DOT} \N{MIDDLE DOT} 0.0"),
        (lambda x: x**3.0, "pow 3.0"),
        (lambda x: x.sum(axis=1), "sum axis=-1"),
        (lambda x: wg.permute_dims(x, (1, 0)), "permute axes=(-1,-2)"),
        (lambda x: x[0], "slice [0]"),
        (lambda x: x[:, ::-1], "slice [...,1::-1]"),
        (lambda x: x.reshape(-1), "reshape"),
        (lambda x: wg.matmul(x, x.mT), "matmul"),
    ],
)
def test_headings(f: Any, heading: str) -> None:
    boxes = scene.scene_of(wg.graph(f)(S((2, 2)))).boxes
    assert boxes[-1].heading == heading


def test_tooltips_tell_line_and_source() -> None:
    g = wg.graph(lambda x, y: wg.exp(x) * y)(S((2,)), S((2,)))
    first, root = boxes_of(g)["a"].tip.splitlines(), boxes_of(g)["b"].tip.splitlines()
    assert first[0] == "a: f32[2] = exp x"
    assert re.fullmatch(r"test_draw\.py:\d+  wg\.exp\(x\)", first[-1])
    assert root[:2] == ["b: f32[2] = multiply a y", "the output of the graph"]
    assert re.fullmatch(r"test_draw\.py:\d+  wg\.exp\(x\) \* y", root[-1])


def test_tooltips_tell_the_module() -> None:
    assert any("in 1.up" in b.tip for b in scene.scene_of(blocks(2)).boxes)


def test_names_are_escaped_and_shortened() -> None:
    x = wg.tensor([1.0], requires_grad=True)
    long = "layer." * 40 + 'we<i>"gh&t\x00'
    g = wg.Graph.of(wg.exp(x), name='f<"&>', names={long: x})
    svg = g.to_svg()
    (box, _) = drawn_boxes(svg)
    title = box.find(f"{SVG}text[@class='title']")
    assert title is not None
    assert str(title.text).startswith("\N{HORIZONTAL ELLIPSIS}")
    assert len(str(title.text)) <= 30
    assert 'Graph f<"&>: 2 nodes' in svg.replace("&lt;", "<").replace("&quot;", '"').replace("&gt;", ">").replace(
        "&amp;", "&"
    )


def test_source_text_with_control_characters_is_still_xml() -> None:
    assert draw.escape('a\x00<b>&"\x1f\ud800\n') == "a\ufffd&lt;b&gt;&amp;&quot;\ufffd\ufffd\n"


def test_modules_stand_on_a_ground_of_their_own() -> None:
    class Wave(wg.nn.Module):
        def forward(self, x: wg.Tensor) -> wg.Tensor:
            return x + wg.sin(wg.exp(x))

    x = wg.tensor([1.0], requires_grad=True)
    g = wg.Graph.of(wg.nn.Sequential(Wave(), Wave())(x), inputs=[x])
    (names,) = [e for e in parsed(g.to_svg()).iter(f"{SVG}g") if e.get("class") == "modules"]
    assert sorted(str(e.text) for e in names) == ["0", "1"]


def test_both_colour_schemes_and_no_reference_outside() -> None:
    svg = mlp_gradient().to_svg()
    assert "prefers-color-scheme:dark" in svg
    assert "href" not in svg
    assert set(re.findall(r"https?://[^\"]+", svg)) == {"http://www.w3.org/2000/svg"}


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return float(np.dot([0.2126, 0.7152, 0.0722], linear))


def contrast(a: str, b: str) -> float:
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("inks", [style.LIGHT, style.DARK])
def test_words_have_contrast(inks: dict[str, style.Ink]) -> None:
    for ink in inks.values():
        assert contrast(ink.fill, ink.text) >= 7
        if ink is not inks["root"]:
            assert contrast(ink.fill, ink.line) >= 3


# -- folding


def test_large_graphs_are_folded_by_module() -> None:
    g = blocks(60)
    assert len(g.nodes) > 400
    shown = scene.scene_of(g)
    assert len(shown.boxes) <= 400
    assert sum(b.nodes for b in shown.boxes) == len(g.nodes)
    assert any(b.kind == "module" and b.title for b in shown.boxes)
    assert all(k.source < k.target for k in shown.links)


def test_without_modules_the_middle_is_left_out() -> None:
    shown = scene.scene_of(chain(5000))
    (more,) = [b for b in shown.boxes if b.kind == "more"]
    assert more.title == f"\N{HORIZONTAL ELLIPSIS} {more.nodes:,} more nodes"
    assert len(shown.boxes) - 1 + more.nodes == 5001
    assert len(shown.boxes) < 100
    assert shown.shown == f"5,001 nodes, {len(shown.boxes)} boxes shown"


def test_very_many_inputs_are_folded() -> None:
    shown = scene.scene_of(wg.graph(lambda *x: wg.stack(x))(*[S(())] * 2000))
    assert len(shown.boxes) <= 400
    assert sum(b.nodes for b in shown.boxes) == 2001


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("limit", [1, 2, 5])
def test_folded_random_graphs(seed: int, limit: int) -> None:
    g = random_graph(seed)
    shown = scene.scene_of(g, limit)
    assert sum(b.nodes for b in shown.boxes) == len(g.nodes)
    assert all(k.source < k.target for k in shown.links)
    parsed(g.to_svg(max_nodes=limit))


@pytest.mark.parametrize(("make", "seconds"), [(lambda: chain(5000), 1.0), (lambda: blocks(400), 2.0)])
def test_drawing_large_graphs_is_quick(make: Any, seconds: float) -> None:
    g = make()
    started = time.process_time()
    svg = g.to_svg()
    assert time.process_time() - started < seconds
    assert len(svg) < 500_000


def test_drawing_five_thousand_nodes_in_full() -> None:
    g = chain(5000)
    started = time.process_time()
    svg = g.to_svg(max_nodes=None)
    assert time.process_time() - started < 10.0
    assert len(drawn_boxes(svg)) == 5001


# -- asking wrongly


def test_wrong_arguments() -> None:
    g = chain(2)
    with pytest.raises(wg.GraphError, match="direction='up' of a picture"):
        g.to_svg(direction="up")  # type: ignore[arg-type]
    with pytest.raises(wg.GraphError, match="direction='up' of a picture"):
        g.to_dot(direction="up")  # type: ignore[arg-type]
    for bad in (0, -3, True, 2.5):
        with pytest.raises(wg.GraphError, match="max_nodes="):
            g.to_svg(max_nodes=bad)  # type: ignore[arg-type]


def test_notebooks_show_the_picture() -> None:
    g = chain(2)
    assert g._repr_svg_() == g.to_svg()


def test_an_empty_graph_says_so() -> None:
    assert "empty graph" in GRAPHS["nothing"]().to_svg(legend=True)


# -- DOT

STRING = r'"(?:[^"\\]|\\.)*"'
ATTRIBUTES = rf"\[(?:\w+=(?:{STRING}|[\w.]+)(?:, )?)+\]"
LINE = re.compile(rf"  (?:(?:graph|node|edge) {ATTRIBUTES}|n\d+ {ATTRIBUTES}|n\d+ -> n\d+(?: {ATTRIBUTES})?);")


def test_dot_is_well_formed(graph: wg.Graph) -> None:
    dot = graph.to_dot()
    first, *lines, last = dot.splitlines()
    assert re.fullmatch(rf"digraph (?:graph_|{STRING}) {{", first)
    assert last == "}"
    assert [line for line in lines if not LINE.fullmatch(line)] == []
    assert sum(" -> " in line.split("[")[0] for line in lines) == operands(graph)
    assert sum(bool(re.match(r"  n\d+ \[", line)) for line in lines) == len(graph.nodes)


def test_dot_escapes() -> None:
    x = wg.tensor([1.0], requires_grad=True)
    dot = wg.Graph.of(wg.exp(x), name='a"b\\').to_dot()
    assert dot.startswith('digraph "a\\"b\\\\" {')


@pytest.mark.skipif(shutil.which("dot") is None, reason="needs Graphviz")
def test_graphviz_reads_it() -> None:
    for make in (mlp_gradient, lambda: blocks(2)):
        run = subprocess.run(["dot", "-Tplain"], input=make().to_dot(), capture_output=True, text=True, check=True)
        assert run.stderr == ""
        assert run.stdout.count("\nnode ") == len(make().nodes)


# -- the layout alone


@pytest.mark.parametrize("seed", range(25))
def test_layout_of_random_graphs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 60))
    sizes = [(float(w), float(h)) for w, h in rng.uniform(10, 150, (count, 2))]
    arrows = [
        layout.Arrow(int(source), target)
        for target in range(1, count)
        for source in rng.integers(0, target, int(rng.integers(0, 4)))
    ]
    found = layout.place(sizes, arrows)
    assert len(found.routes) == len(arrows)
    for (a, (w, h)), (b, (u, v)) in itertools.combinations(zip(found.centres, sizes), 2):
        assert abs(a[0] - b[0]) >= (w + u) / 2 - 1e-6 or abs(a[1] - b[1]) >= (h + v) / 2 - 1e-6
    for arrow in arrows:
        assert found.centres[arrow.source][1] < found.centres[arrow.target][1]


def test_layout_unties_what_can_be_untied() -> None:
    # A ladder given in the wrong order: no crossing is needed.
    arrows = [layout.Arrow(a, b) for a, b in ((0, 7), (1, 6), (2, 5), (3, 4))]
    found = layout.place([(40.0, 20.0)] * 8, arrows)
    order = sorted(range(4), key=lambda v: found.centres[v][0])
    assert sorted(range(4, 8), key=lambda v: found.centres[v][0]) == [7 - v for v in order]
