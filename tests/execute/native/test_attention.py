"""Attention's kernels against its definition, in float64 and element by element."""

from __future__ import annotations

import itertools
import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

from processors import HALF_TARGETS, on_processors
from stepping import RULES, TARGETS, Bench, lowered, node_of, strided
from wengert.execute.native.codegen import machine
from wengert.execute.native.codegen.kernel import Kernel
from wengert.execute.native.kernels.attention import lowerings as attention
from wengert.execute.native.plan.plan import View
from wengert.ops.neural.attention import _attention_reference, _gradients_reference

assert RULES["attention"] is attention.attention

Arrays = list[np.ndarray]


def operands(lead: Any, m: int, n: int, d: int, e: int, dtype: Any) -> tuple[Arrays, np.ndarray]:
    """Queries, keys and values; and a cotangent of the result."""
    rng = np.random.default_rng(m * 7 + n)
    q, k, v, dy = (rng.normal(size=(*lead, *s)).astype(dtype) for s in ((m, d), (n, d), (n, e), (m, e)))
    return [q, k, v], dy


def expected(args: Arrays, dy: np.ndarray, attrs: dict[str, Any]) -> tuple[Arrays, Arrays]:
    """The results and the gradients, computed in float64."""
    q, k, v, *mask = (a.astype(np.float64) for a in args)
    y, lse = _attention_reference(q, k, v, *mask, **attrs)
    return [y, lse], list(_gradients_reference(q, k, v, y, lse, dy.astype(np.float64), *mask, **attrs))


def check(args: Arrays, dy: np.ndarray, target: str = "host", seed: int = 0, **attrs: Any) -> None:
    """Forward and backward on one target, with units in random pieces."""
    forward, gradients = expected(args, dy, attrs)
    tolerance = 3e-5 if args[0].dtype == np.float32 else 1e-12
    found = lowered(node_of("attention", args, attrs), args, target, seed)
    assert found is not None
    y, lse = (a.astype(args[0].dtype) for a in forward)
    q, k, v, *mask = args
    given = [q, k, v, y, lse, dy, *mask]
    found_gradients = lowered(node_of("attention_gradients", given, attrs), given, target, seed)
    assert found_gradients is not None
    for a, e in zip((*found, *found_gradients), (*forward, *gradients), strict=True):
        assert a.dtype == args[0].dtype
        np.testing.assert_allclose(a, e, rtol=tolerance, atol=tolerance * max(1.0, float(np.abs(e).max(initial=0))))


# One kernel serves them all: the leading axes join to one.
SHAPES = [
    ((2,), 5, 7, 4, 3),
    ((2,), 1, 1, 1, 1),
    ((1, 2), 64, 64, 32, 32),
    ((2, 1, 2), 33, 31, 16, 17),
    ((3,), 100, 133, 17, 33),
    ((2,), 131, 129, 64, 64),
    ((2,), 390, 270, 6, 5),
    ((2,), 15, 200, 8, 1),
    ((2,), 200, 15, 1, 8),
    ((2,), 1, 9, 1, 130),
]


@pytest.mark.parametrize(("dtype", "target"), on_processors(["f4", "f8"]))
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_against_the_definition(shape: Any, dtype: str, target: str) -> None:
    args, dy = operands(*shape, dtype)
    for causal in (False, True):
        check(args, dy, target, causal=causal, scale=0.4)


@pytest.mark.parametrize("size", [*range(1, 20), *range(28, 37), 47, 48, 49, 63, 64, 65, 80, 96, 127, 128, 130])
def test_every_number_of_features(size: int) -> None:
    for d, e in ((size, 5), (5, size)):
        args, dy = operands((2,), 9, 11, d, e, "f4")
        check(args, dy, causal=True, scale=1 / math.sqrt(d))


MASKS = ["full", "shared by queries", "shared by heads", "one key left", "rows of -inf"]


@pytest.mark.parametrize(
    ("kind", "target"), [*on_processors(MASKS[:2]), *(pytest.param(k, "host", id=f"{k}-host") for k in MASKS[2:])]
)
def test_masks(kind: str, target: str) -> None:
    rng = np.random.default_rng(0)
    lead, m, n = (2, 3), 37, 70
    args, dy = operands(lead, m, n, 8, 8, "f4")
    shape = {"shared by queries": (2, 1, 1, n), "shared by heads": (2, 1, m, n), "one key left": (1, n)}
    mask = rng.normal(size=shape.get(kind, (*lead, m, n))).astype("f4")
    mask[rng.random(mask.shape) < 0.3] = -math.inf
    if kind == "one key left":
        mask[:, 1:] = -math.inf
        mask[:, 0] = 0.0
    if kind == "rows of -inf":
        mask[:, :, 5:9] = -math.inf
        mask[1, 2] = -math.inf
    given = np.broadcast_to(mask, (*lead, m, n))
    for causal in (False, True) if target == "host" else (True,):
        check([*args, given], dy, target, causal=causal, scale=0.5)


def test_strides_are_read_where_they_are() -> None:
    rng = np.random.default_rng(1)
    for lead, seed in itertools.product([(2, 3), ()], range(4)):
        args, dy = operands(lead, 21, 35, 6, 10, "f4")
        check([strided(a, rng) for a in args], strided(dy, rng), seed=seed, causal=bool(seed % 2), scale=0.5)


def test_heads_side_by_side_are_read_and_written_so() -> None:
    rng = np.random.default_rng(2)
    packed = rng.normal(size=(2, 9, 3, 4, 6)).astype("f4")  # batch, position, q k v, head, feature
    args = [packed[:, :, i].transpose(0, 2, 1, 3) for i in range(3)]
    bench = Bench()
    node = node_of("attention", args, {"causal": True, "scale": 1.0})
    for entry, value in zip(node.inputs, args, strict=True):
        bench.views[entry] = bench.given(value)
    y, _ = RULES["attention"](bench, node)  # type: ignore[misc]
    assert isinstance(y, View)
    assert len(bench.plan.steps) == 1, "nothing is copied"
    assert y.permute((0, 2, 1, 3)).is_contiguous
    dy = rng.normal(size=(2, 4, 9, 6)).astype("f4")
    check(args, dy, causal=True, scale=1.0)


EMPTY = [
    ((2,), 0, 3, 2, 2),
    ((2,), 3, 0, 2, 2),
    ((0,), 3, 3, 2, 2),
    ((2,), 3, 4, 0, 2),
    ((2,), 3, 4, 2, 0),
]


@pytest.mark.parametrize(("lead", "m", "n", "d", "e"), EMPTY)
def test_empty(lead: Any, m: int, n: int, d: int, e: int) -> None:
    args, dy = operands(lead, m, n, d, e, "f4")
    for causal in (False, True):
        check(args, dy, causal=causal, scale=0.5)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", ["q", "k", "v", "dy"])
def test_what_is_not_finite_reaches_what_it_reaches_in_the_interpreter(name: str, bad: float, target: str) -> None:
    attrs = {"causal": True, "scale": 0.5}
    args, dy = operands((2,), 90, 97, 5, 6, "f4")
    (args["qkv".index(name)] if name != "dy" else dy)[1, 41, 3] = bad
    with np.errstate(all="ignore"):
        node = node_of("attention", args, attrs)
        y, lse = node.op.forward(*args, **attrs)
        given = [*args, y, lse, dy]
        back = node_of("attention_gradients", given, attrs)
        gradients = back.op.forward(*given, **attrs)
    found = (*lowered(node, args, target), *lowered(back, given, target))
    for a, e in zip(found, (y, lse, *gradients), strict=True):
        np.testing.assert_array_equal(np.isfinite(a), np.isfinite(e))
        np.testing.assert_array_equal(a[np.isinf(e)], e[np.isinf(e)])
        np.testing.assert_allclose(a[np.isfinite(e)], e[np.isfinite(e)], rtol=1e-4, atol=1e-4)


def test_large_scores_do_not_overflow_and_small_ones_do_not_vanish() -> None:
    args, dy = operands((2,), 40, 300, 4, 4, "f4")
    for scale in (50.0, 1e-3, -3.0):
        check(args, dy, causal=False, scale=scale)


def test_bits_do_not_depend_on_how_units_are_shared_out() -> None:
    args, dy = operands((3, 2), 70, 81, 9, 12, "f4")
    attrs = {"causal": True, "scale": 0.3}
    y, lse = lowered(node_of("attention", args, attrs), args)
    given = [*args, y, lse, dy]
    wanted = lowered(node_of("attention_gradients", given, attrs), given)
    for seed in range(1, 5):
        again = lowered(node_of("attention", args, attrs), args, seed=seed)
        gradients = lowered(node_of("attention_gradients", given, attrs), given, seed=seed)
        for a, e in zip((*again, *gradients), (y, lse, *wanted), strict=True):
            np.testing.assert_array_equal(a, e)


def test_sizes_are_not_in_the_code() -> None:
    kernels = set()
    for m, n, d, e in ((3, 4, 5, 6), (50, 60, 70, 80)):
        args, _ = operands((2, 2), m, n, d, e, "f4")
        bench = Bench()
        node = node_of("attention", args, {"causal": False, "scale": 1 / d})
        for entry, value in zip(node.inputs, args, strict=True):
            bench.views[entry] = bench.given(value)
        RULES["attention"](bench, node)
        kernels.add(bench.plan.steps[-1].kernel)
    assert len(kernels) == 1


HALVES = [ml_dtypes.bfloat16, np.float16]


def check_half(args: Arrays, dy: np.ndarray, target: str, **attrs: Any) -> None:
    """Numbers of half precision are widened where they are read: nothing is rounded but what is stored."""
    dtype = args[0].dtype
    q, k, v, *mask = args
    node = node_of("attention", args, attrs)
    y, lse = lowered(node, args, target)
    forward = _attention_reference(*(a.astype(np.float64) for a in args), **attrs)
    # In the backward pass y and lse are what they were rounded to.
    given = [q, k, v, y, lse, dy, *mask]
    gradients = lowered(node_of("attention_gradients", given, attrs), given, target)
    wanted = _gradients_reference(*(a.astype(np.float64) for a in given), **attrs)
    half = float(ml_dtypes.finfo(dtype).eps) / 2
    assert [a.dtype for a in (y, lse, *gradients)] == [dtype, np.float32, dtype, dtype, dtype]
    for a, e in zip((y, lse, *gradients), (*forward, *wanted), strict=True):
        rounding = half if a.dtype == dtype else 0.0
        scale = max(1.0, float(np.abs(e).max(initial=0)))
        assert (np.abs(a.astype(np.float64) - e) <= 1.01 * rounding * np.abs(e) + 3e-5 * scale).all()


@pytest.mark.parametrize(("shape", "target"), on_processors(SHAPES, str, HALF_TARGETS))
def test_half_precision(shape: Any, target: str) -> None:
    dtype = HALVES[SHAPES.index(shape) % 2]
    args, dy = operands(*shape, dtype)
    for causal in (False, True):
        check_half(args, dy, target, causal=causal, scale=0.4)


@pytest.mark.parametrize("dtype", HALVES)
def test_half_precision_of_other_strides_and_masks(dtype: Any) -> None:
    rng = np.random.default_rng(5)
    args, dy = operands((2, 3), 21, 135, 6, 10, dtype)
    mask = rng.normal(size=(2, 3, 21, 135)).astype(dtype)
    mask[rng.random(mask.shape) < 0.3] = -math.inf
    mask[1, 1, 5] = -math.inf
    for given in ([], [mask], [np.broadcast_to(mask[:, :, :1], mask.shape)]):
        check_half([strided(a, rng) for a in args] + given, strided(dy, rng), "host", causal=True, scale=0.5)


def test_arm() -> None:
    for name in ("attention", "attention_gradients"):
        args, dy = operands((2,), 3, 4, 5, 6, "f4")
        given = args if name == "attention" else [*args, dy, dy[..., 0], dy]
        bench = Bench()
        bench.target = machine.level("aarch64")
        node = node_of(name, given, {"causal": True, "scale": 1.0})
        for entry, value in zip(node.inputs, given, strict=True):
            bench.views[entry] = bench.given(value)
        RULES[name](bench, node)
        kernel = bench.plan.steps[-1].kernel
        assert isinstance(kernel, Kernel)
        assert "fmla" in kernel.asm
