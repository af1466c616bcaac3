"""Operators of imported documents beside the package's own evaluator, where its suite of tests has no case."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")

from onnx import parser  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

import wengert as wg  # noqa: E402
from wengert.interop.onnx import load  # noqa: E402


def written(text: str, opset: int = 20) -> Any:
    return parser.parse_model(f'<ir_version: 9, opset_import: ["" : {opset}]>\n{text}')


def both(document: Any, *args: Any) -> list[list[Any]]:
    """What the document gives, eager and compiled."""
    model = load(document)
    out = []
    for f in (model, wg.jit(lambda *xs: model(*xs))):
        found = f(*map(wg.tensor, args))
        out.append([v.detach().numpy() for v in (found if isinstance(found, tuple) else (found,))])
    return out


@pytest.mark.parametrize(("mode", "ndim"), [("cubic", 2), ("linear", 2), ("nearest", 2), ("linear", 3), ("nearest", 3)])
def test_images_sampled_outside_of_themselves(mode: str, ndim: int) -> None:
    """A sample of an image's surroundings is one of a larger image, which NumPy pads."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, 2, 5, 6, 4)[: ndim + 2])
    grid = rng.standard_normal((1, *(3,) * ndim, ndim)) * 1.5

    def document(x: Any, padding: str, align: int) -> Any:
        inputs = f"double[{','.join(map(str, x.shape))}] x, double[{','.join(map(str, grid.shape))}] q"
        return written(
            f"g ({inputs}) => (double[{','.join('abcde'[: ndim + 2])}] y) "
            f'{{ y = GridSample<mode="{mode}", padding_mode="{padding}", align_corners={align}>(x, q) }}'
        )

    n = np.array(x.shape[:1:-1])
    for padding, align in itertools.product(("zeros", "border", "reflection"), (0, 1)):
        fill = {"zeros": "constant", "border": "edge", "reflection": "reflect" if align else "symmetric"}[padding]
        wide = np.pad(x, [(0, 0), (0, 0), *[(20, 20)] * ndim], mode=fill)
        places = (grid + 1) / 2 * (n - 1) if align else ((grid + 1) * n - 1) / 2
        moved = (places + 20) / (n + 39) * 2 - 1 if align else (2 * (places + 20) + 1) / (n + 40) - 1
        want = ReferenceEvaluator(document(wide, "zeros", align)).run(None, {"x": wide, "q": moved})[0]
        for (found,) in both(document(x, padding, align), x, grid):
            np.testing.assert_allclose(found, want, rtol=0, atol=2e-5, err_msg=f"{padding} {align}")
