"""Draw the graph that the README shows: `python scripts/readme_picture.py`."""

from __future__ import annotations

from pathlib import Path

import wengert as wg

PICTURE = Path(__file__).parent.parent / "docs" / "img" / "graph.svg"


def classifier() -> wg.Graph:
    """The loss of a two-layer network on a batch of 32 images, with its weights as parameters."""
    x, y = wg.zeros((32, 64)), wg.zeros((32,), dtype=wg.int64)
    shapes = {"w1": (64, 96), "b1": (96,), "w2": (96, 10), "b2": (10,)}
    p = {name: wg.nn.Parameter(wg.zeros(shape)) for name, shape in shapes.items()}
    loss = wg.nn.functional.cross_entropy(wg.relu(x @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"], y)
    named = {"x": x, "y": y, **p}
    return wg.Graph.of(loss, inputs=list(named.values()), names=named, name="loss")


if __name__ == "__main__":
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    PICTURE.write_text(classifier().to_svg(legend=True), encoding="utf-8")
    print(f"wrote {PICTURE}")
