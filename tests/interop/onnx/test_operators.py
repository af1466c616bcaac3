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


SUMS = """g (float[3] x, int64 n) => (float[3] y, float[k, 3] ys, int64[k] places) {
  t = Constant <value = bool {1}> ()
  y, ys, places = Loop <body = b (int64 i, bool c, float[3] s) => (bool co, float[3] so, float[3] z, int64 at) {
    co = Identity (c) so = Add (s, x) z = Mul (so, s) at = Identity (i)
  }> (n, t, x)
}"""

HALVES = """g (float[3] x) => (float[3] y, float[k, 3] ys) {
  n = Constant <value = int64 {COUNT}> ()
  t = Constant <value = bool {1}> ()
  y, ys = Loop <body = b (int64 i, bool c, float[3] s) => (bool co, float[3] so, float[3] row) {
    half = Constant <value = float {0.5}> () least = Constant <value = float {0.7}> ()
    so = Mul (s, half) row = Add (so, s) m = ReduceSum <keepdims = 0> (so) co = Greater (m, least)
  }> (n, t, x)
}"""


@pytest.mark.parametrize("turns", [0, 2])
def test_rows_of_a_loop_are_what_its_body_gives(turns: int) -> None:
    """Also of a loop without a turn, whose rows nothing gives."""
    args = np.ones(3, np.float32), np.array(turns)
    for found in both(written(SUMS), *args):
        assert [(v.shape, v.dtype.name) for v in found[1:]] == [((turns, 3), "float32"), ((turns,), "int64")]
        np.testing.assert_array_equal(found[0], [1 + turns] * 3)
        np.testing.assert_array_equal(found[1], np.array([[2.0] * 3, [6.0] * 3])[:turns])
        np.testing.assert_array_equal(found[2], np.arange(turns))


@pytest.mark.parametrize("count", [2, 9, 50, 2**63 - 1])
def test_loops_that_end_by_a_value(count: int) -> None:
    """Eager, compiled and differentiated: with rows a compiled function decides how many, a graph alone does not."""
    model = load(written(HALVES.replace("COUNT", str(count))))
    for x in (np.array([1, 2, 0.5], np.float32), np.array([9, 2, 0.5], np.float32)):
        state, rows, most = x, [], count
        while most:
            rows.append(state * 1.5)
            state, most = state / 2, most - 1
            if state.sum() <= 0.7:
                break
        for found in both(written(HALVES.replace("COUNT", str(count))), x):
            np.testing.assert_array_equal(found[0], state)
            np.testing.assert_array_equal(found[1], np.stack(rows))
        for gradient in (wg.grad(lambda x: wg.sum(model(x)[0])), wg.jit(wg.grad(lambda x: wg.sum(model(x)[1])))):
            slope = gradient(wg.tensor(x)).numpy()
            assert slope.tolist() in ([0.5 ** len(rows)] * 3, [sum(1.5 * 0.5**i for i in range(len(rows)))] * 3)
    with pytest.raises(wg.WengertError, match="gives a row for each turn"):
        wg.graph(lambda x: model(x))(wg.spec((3,)))


@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize("size", [(1, 2, 4, 5), (2, 1, 3, 4), (1, 2, 3, 4, 5)])
def test_affine_grids(size: tuple[int, ...], align: int) -> None:
    """Also of a batch of one, whose axis ONNX's own definition loses."""
    ndim = len(size) - 2
    theta = np.random.default_rng(0).standard_normal((size[0], ndim, ndim + 1)).astype(np.float32)
    document = written(
        f"g (float[{','.join(map(str, theta.shape))}] t) => (float[{','.join('abcde'[: len(size)])}] y) {{ "
        f"s = Constant <value = int64[{len(size)}] {{{','.join(map(str, size))}}}> () "
        f"y = AffineGrid <align_corners = {align}> (t, s) }}"
    )
    want = np.empty((size[0], *size[2:], ndim))
    for at in np.ndindex(*size[2:]):
        ends = [2 * i / (n - 1) - 1 if align else (2 * i + 1) / n - 1 for i, n in zip(at, size[2:])]
        want[(slice(None), *at)] = theta @ [*ends[::-1], 1.0]
    for (found,) in both(document, theta):
        np.testing.assert_allclose(found, want, rtol=0, atol=2e-6)


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("transform", ["half_pixel", "output_half_pixel"])
def test_regions_are_values(mode: str, transform: str) -> None:
    """A compiled function takes boxes that it does not know: shapes do not depend on them."""
    rng = np.random.default_rng(0)
    x, batches = rng.standard_normal((2, 3, 7, 8)).astype(np.float32), np.array([1, 0, 1, 0])
    boxes = np.array([[0, 0, 5, 6], [2.5, 1, 3, 1.5], [-3, -2, 11, 9], [20, 20, 30, 30]], np.float32)
    document = written(
        "g (float[2,3,7,8] x, float[k,4] boxes, int64[k] of) => (float[k,3,2,3] y) { y = RoiAlign <output_height = 2, "
        f'output_width = 3, sampling_ratio = 2, spatial_scale = 0.8, mode = "{mode}", '
        f'coordinate_transformation_mode = "{transform}"> (x, boxes, of) }}'
    )
    (eager,), (compiled,) = both(document, x, boxes, batches)
    np.testing.assert_allclose(compiled, eager, rtol=0, atol=1e-6)
    model = load(document)
    other = wg.jit(lambda *xs: model(*xs))
    for shift in (0, 1):  # the same program for other boxes
        args = [wg.tensor(v) for v in (x, boxes + np.float32(shift), batches)]
        np.testing.assert_allclose(other(*args).numpy(), model(*args).numpy(), rtol=0, atol=1e-6)


def test_largest_elements_of_regions_are_values() -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 7, 8)).astype(np.float32)
    boxes = np.array([[1, 0, 0, 5, 6], [0, 2, 1, 2, 1], [1, -3, -2, 11, 9], [0, 20, 20, 30, 30]], np.float32)
    document = written(
        "g (float[2,3,7,8] x, float[k,5] boxes) => (float[k,3,2,3] y) "
        "{ y = MaxRoiPool <pooled_shape = [2, 3], spatial_scale = 0.8> (x, boxes) }"
    )
    (eager,), (compiled,) = both(document, x, boxes)
    np.testing.assert_array_equal(compiled, eager)


@pytest.mark.parametrize("coordinates", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize(
    ("size", "cells", "scale"), [((7, 9), (2, 3), 1.0), ((11, 3), (4, 2), 0.25), ((1, 6), (3, 3), 1.0)]
)
def test_regions_of_as_many_samples_as_fit(coordinates: str, size: Any, cells: Any, scale: float) -> None:
    """Regions that are computed, small and large, within the image and beyond it, with gradients."""
    node = onnx.helper.make_node(
        "RoiAlign",
        ["x", "boxes", "of"],
        ["y"],
        output_height=cells[0],
        output_width=cells[1],
        sampling_ratio=0,
        spatial_scale=scale,
        coordinate_transformation_mode=coordinates,
    )
    info, kinds = onnx.helper.make_tensor_value_info, onnx.TensorProto
    ends = [info("x", kinds.FLOAT, [2, 3, *size]), info("boxes", kinds.FLOAT, [30, 4]), info("of", kinds.INT64, [30])]
    graph = onnx.helper.make_graph([node], "g", ends, [info("y", kinds.FLOAT, None)])
    m = load(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 16)], ir_version=8))
    rng = np.random.default_rng(0)
    x, of = rng.standard_normal((2, 3, *size)).astype(np.float32), rng.integers(0, 2, 30)
    boxes = rng.uniform(-6, 30, (30, 4)).astype(np.float32)
    boxes[:15, 2:] = np.maximum(boxes[:15, 2:], boxes[:15, :2] + 0.3)
    boxes[:5] = np.round(boxes[:5])
    compiled = wg.jit(lambda *args: m(*args))
    given = [wg.asarray(a) for a in (x, boxes, of)]
    np.testing.assert_allclose(compiled(*given), m(x, boxes, of), rtol=1e-5, atol=1e-6)
    far = x.copy()
    far[:, :, -1, -1] = np.inf
    near = np.repeat(np.array([[0.2, 0.3, 1.4, 1.2]], np.float32) / np.float32(scale), 30, 0)
    one = [wg.asarray(v) for v in (far, near, of)]
    if size[0] > 3 and size[1] > 3:
        np.testing.assert_allclose(compiled(*one), m(far, near, of), rtol=1e-5, atol=1e-6)
    slopes = [wg.grad(lambda x, f=f: wg.sum(f(x, given[1], given[2]) ** 2))(given[0]) for f in (compiled, m)]
    np.testing.assert_allclose(slopes[0], slopes[1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max"])
def test_places_outside_of_an_axis_are_refused(reduction: str) -> None:
    """Flat, a place outside of its row would be one inside of another."""
    kind = "" if reduction == "none" else f'reduction="{reduction}"'
    shapes = {"ScatterElements": "1, 1", "ScatterND": "1, 2"}
    for op, attributes in (("ScatterElements", f"axis=1, {kind}".rstrip(", ")), ("ScatterND", kind)):
        updates = "1, 1" if op == "ScatterElements" else "1"
        document = written(
            f"g (float[2, 3] x, int64[{shapes[op]}] i, float[{updates}] u) => (float[2, 3] y) "
            f"{{ y = {op}{f'<{attributes}>' if attributes else ''}(x, i, u) }}",
            18,
        )
        x, u = np.ones((2, 3), np.float32), np.full((1, 1) if op == "ScatterElements" else (1,), 7, np.float32)
        for place in (-5, -4, -3, -1, 2, 3, 4, 9):
            i = np.array([[place]] if op == "ScatterElements" else [[0, place]])
            if -3 <= place < 3:
                want = ReferenceEvaluator(document).run(None, {"x": x, "i": i, "u": u})[0]
                for (found,) in both(document, x, i, u):
                    np.testing.assert_array_equal(found, want)
                continue
            model = load(document)
            for f in (model, wg.jit(lambda *xs, model=model: model(*xs))):
                with pytest.raises(wg.WengertError, match=r"outside|out of range"):
                    f(*map(wg.tensor, (x, i, u)))


@pytest.mark.parametrize("op", ["Gather", "GatherElements", "GatherND"])
def test_elements_outside_of_an_axis_are_refused(op: str) -> None:
    document = written(f"g (float[3] x, int64[1{', 1' * (op == 'GatherND')}] i) => (float[1] y) {{ y = {op}(x, i) }}")
    model = load(document)
    x = wg.tensor([1.0, 2.0, 3.0])
    for place in (-5, -4, 3, 5):
        i = wg.full((1, 1) if op == "GatherND" else (1,), place, dtype=wg.int64)
        for f in (model, wg.jit(lambda *xs: model(*xs))):
            with pytest.raises(wg.WengertError, match=r"outside|out of range"):
                f(x, i)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_powers_of_integers_are_exact(dtype: str) -> None:
    document = written(f"g ({dtype}[n] x, {dtype}[n] k) => ({dtype}[n] y) {{ y = Pow(x, k) }}")
    x = np.array([3, 7, 2**31 - 1, -3, 2, 1, -1, -1, 5, 0, 2, -3], dtype)
    k = np.array([39, 22, 2, 3, 0, -2, -2, -3, -1, 0, 70, 41], dtype)
    want = []
    for a, b in zip(x.tolist(), k.tolist()):
        bits = np.dtype(dtype).itemsize * 8
        value = a**b if b >= 0 else int(a**b)
        want.append((value + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1))
    for (found,) in both(document, x, k):
        assert found.tolist() == want


@pytest.mark.parametrize("scale", [1.7, 2.0, 0.6, 0.3, 3.3])
def test_aligned_corners_by_scales_that_give_no_whole_size(scale: float) -> None:
    """The corners of the result are those of the operand; the evaluator divides by 5.8 for 6 elements."""
    x = np.array([[[0.0, 2, 3, 7]]], np.float32)
    size = int(4 * scale)
    document = written(
        f"g (float[1, 1, 4] x) => (float[1, 1, n] y) {{ s = Constant <value = float[3] {{1.0, 1.0, {scale}}}> () "
        'y = Resize <mode = "linear", coordinate_transformation_mode = "align_corners"> (x, , s) }'
    )
    want = np.interp(np.linspace(0, 3, size), np.arange(4), x[0, 0])
    for (found,) in both(document, x):
        np.testing.assert_allclose(found[0, 0], want, rtol=1e-6)


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("coordinates", ["half_pixel", "output_half_pixel"])
def test_empty_regions_are_zeros(mode: str, coordinates: str) -> None:
    """Padded boxes have no samples: no height, no width, neither, or less than none."""
    x = np.random.default_rng(0).standard_normal((2, 3, 6, 7)).astype(np.float32) + 5
    boxes = np.array([[0, 0, 0, 0], [2, 1, 2, 4], [1, 3, 4, 3], [4, 4, 1, 2], [0, 0, 3, 3]], np.float32)
    of = np.array([0, 1, 0, 1, 1])
    document = written(
        "g (float[2,3,6,7] x, float[k,4] boxes, int64[k] of) => (float[k,3,2,3] y) { y = RoiAlign <output_height = 2, "
        f'output_width = 3, sampling_ratio = 0, mode = "{mode}", coordinate_transformation_mode = "{coordinates}"> '
        "(x, boxes, of) }"
    )
    model = load(document)
    found = model(*map(wg.tensor, (x, boxes, of))).numpy()
    is_empty = (boxes[:, 2:] <= boxes[:, :2]).any(1) & (coordinates == "half_pixel")
    assert not found[is_empty].any()
    assert found[~is_empty].all()
    want = ReferenceEvaluator(document).run(None, {"x": x, "boxes": boxes, "of": of})[0]
    np.testing.assert_allclose(found, want, rtol=0, atol=1e-5)
    if mode == "avg":  # how many samples a maximum is of is no value
        (compiled,) = both(document, x, boxes, of)[1]
        np.testing.assert_allclose(compiled, found, rtol=0, atol=1e-5)
