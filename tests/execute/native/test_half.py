"""Half precision in compiled programs: all of it native, sums kept in float32, each result rounded once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import wengert as wg
from processors import HALF_TARGETS, on_processors
from stepping import target_of
from wengert.execute.native.compile import Compiled, compile_graph
from wengert.execute.native.plan.plan import HostCall, View

F = wg.nn.functional
DTYPES = {"float16": (np.float16, 2.0**-10), "bfloat16": (ml_dtypes.bfloat16, 2.0**-7)}


def rand(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).normal(size=shape)


def step(w: Any, g: Any) -> Any:
    optimizer_state = g * 0.1
    return w - 0.1 * optimizer_state / (wg.sqrt(optimizer_state * optimizer_state) + 1e-3)


IMAGES, KERNELS, HEADS = rand(2, 3, 9, 8), rand(4, 3, 3, 3, seed=1), rand(2, 2, 20, 8)
ROWS, WEIGHTS = rand(33, 40), rand(40, 20, seed=1)
CLASSES = np.arange(33) % 40

CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "gemm": (lambda x, w: x @ w, (ROWS, WEIGHTS)),
    "gemm transposed": (lambda x, w: w.T @ x.T, (ROWS, WEIGHTS)),
    "affine with an epilogue": (lambda x, w, b: wg.tanh(F.linear(x, w.T, b)), (ROWS, WEIGHTS, rand(20, seed=2))),
    "batched": (lambda x: x @ x.mT, (HEADS,)),
    "einsum": (lambda x, w: wg.einsum("ij,jk->ki", x, w), (ROWS, WEIGHTS)),
    "convolution": (lambda x, w: F.conv2d(x, w, stride=2, padding=1), (IMAGES, KERNELS)),
    "transposed convolution": (lambda x, w: F.conv_transpose2d(x, w.swapaxes(0, 1)), (IMAGES, KERNELS)),
    "attention": (lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True), (HEADS,)),
    "layer norm": (lambda x: F.layer_norm(x, (40,)), (ROWS,)),
    "rms norm": (lambda x: F.rms_norm(x, (40,)), (ROWS,)),
    "batch norm": (lambda x: F.batch_norm(x, None, None, training=True), (IMAGES,)),
    "group norm": (lambda x: F.group_norm(x, 3), (IMAGES,)),
    "softmax": (lambda x: x.softmax(-1), (ROWS,)),
    "log softmax": (lambda x: wg.log_softmax(x, -1), (ROWS,)),
    "cross entropy": (lambda x: F.cross_entropy(x, wg.tensor(CLASSES)), (ROWS,)),
    "squares": (lambda x, y: F.mse_loss(x, y), (ROWS, rand(33, 40, seed=2))),
    "huber": (lambda x, y: F.huber_loss(x, y), (ROWS, rand(33, 40, seed=2))),
    "reductions": (lambda x: (x.sum(0), x.mean(1), x.var(0), x.max(1), wg.logsumexp(x, -1)), (ROWS,)),
    "running sums": (lambda x: x.cumsum(-1), (ROWS,)),
    "pools": (lambda x: (F.max_pool2d(x, 2), F.avg_pool2d(x, 2)), (IMAGES,)),
    "gathers": (lambda x: (x[wg.tensor([3, 1, 3])], wg.take_along_axis(x, wg.tensor(CLASSES[:, None]), 1)), (ROWS,)),
    "an update": (step, (ROWS, rand(33, 40, seed=2))),
    "a scan": (lambda x: wg.scan(lambda c, r: (c + r.mean(), c * r[:1]), wg.zeros(1, dtype=x.dtype), x)[1], (ROWS,)),
}  # fmt: skip


def total(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The sum of a function's results, each weighted by its place."""

    def run(*args: Any) -> Any:
        outs = wg.tree.leaves(fn(*args))
        return sum(
            (o.astype("float32") * wg.cos(wg.arange(o.size).reshape(o.shape).astype("float32"))).sum() for o in outs
        )

    return run


def in_python(made: Compiled) -> set[str]:
    return {s.kernel.name for s in made.plan.steps if isinstance(s.kernel, HostCall) and s.kernel.when is None}


def check(fn: Callable[..., Any], args: tuple[Any, ...], dtype: str, slack: float) -> None:
    half, rounding = DTYPES[dtype]
    given = [a.astype(half) for a in args]
    made = compile_graph(wg.graph(fn)(*given))
    assert in_python(made) == set()
    exact = wg.tree.leaves(wg.graph(fn)(*(g.astype(np.float64) for g in given))(*(g.astype(np.float64) for g in given)))
    for found, expected in zip(made.run(given), exact, strict=True):
        want = expected.numpy()
        scale = max(1.0, float(np.abs(want).max()))
        np.testing.assert_allclose(found.astype(np.float64), want, rtol=slack * rounding, atol=slack * rounding * scale)


@pytest.mark.parametrize("name", CASES)
def test_forward(name: str) -> None:
    fn, args = CASES[name]
    check(fn, args, list(DTYPES)[list(CASES).index(name) % 2 - 1], 4.0)


@pytest.mark.parametrize("name", [n for n in CASES if n != "running sums"])
def test_backward(name: str) -> None:
    fn, args = CASES[name]
    dtype = list(DTYPES)[list(CASES).index(name) % 2]
    check(wg.grad(total(fn), argnums=tuple(range(len(args)))), args, dtype, 16.0)


# What is rounded correctly, so that the same numbers give the same bits wherever they are computed.
OPS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / (abs(y) + 0.5),
    "scale": lambda x, y: x * 1.1,
    "sqrt": lambda x, y: wg.sqrt(abs(x)),
    "select": lambda x, y: wg.where(x * 3.3 > y, x, y),
    "largest": lambda x, y: wg.maximum(x, y * 0.7),
    "row": lambda x, y: x - wg.max(y, -1, keepdims=True),
    "column": lambda x, y: x * y[0],
    "there and back": lambda x, y: (x.astype("float32") * 1.7).astype(x.dtype) - y,
    # Sums of whole numbers are the same in every order.
    "sum of a row": lambda x, y: wg.sum(wg.round(x * y), -1, keepdims=True) * y,
    "mean of a column": lambda x, y: wg.mean(wg.round(x), 0) + y,
    "product": lambda x, y: (wg.round(x) @ wg.round(y).T)[:, :1] * 0.01 + y,
    "whole": lambda x, y: wg.floor(x * 1.3) + y,
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("seed", range(6))
def test_a_compiled_chain_has_the_bits_of_the_operations_one_by_one(dtype: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    names = rng.choice(sorted(OPS), 12)
    x, y = (wg.tensor(rng.normal(size=(9, 21)).astype(DTYPES[dtype][0])) for _ in range(2))

    def chain(x: Any, y: Any) -> Any:
        results = []
        for name in names:
            x, y = wg.clip(OPS[name](x, y), -4.0, 4.0), x
            results.append(x.astype("float32") * 0.3)
        return results, x, y, wg.isfinite(x * 2e4), (x > y * 1.1).astype("int32")

    compiled = wg.jit(chain)
    for _ in range(6):
        found = compiled(x, y)
    for one, other in zip(wg.tree.leaves(found), wg.tree.leaves(chain(x, y)), strict=True):
        np.testing.assert_array_equal(one.numpy().astype(np.float64), other.numpy().astype(np.float64))


@pytest.mark.filterwarnings("ignore:overflow")
def test_what_overflows_does_so_in_a_loop_as_well() -> None:
    """A number beyond float16 is infinite though the loop that made it would keep it in a register of float32."""
    x = wg.tensor(np.float16([1000.0, 1.0, 60000.0]))
    w = wg.tensor(np.float16([[300.0, 0.0, 0.0]]))
    for fn, expected in (
        (lambda x: wg.isfinite(x * 300), [False, True, False]),
        (lambda x: (x * 300).astype("float32"), [np.inf, 300.0, np.inf]),
        (lambda x: x * 300 / 300, [np.inf, 1.0, np.inf]),
        (lambda x: wg.isinf(wg.sum(x * 2)), True),
        (lambda x: (w @ x[:, None]).astype("float32"), [[np.inf]]),
        (lambda x: wg.minimum(F.linear(x, w), 7.0) * 2, [14.0]),
        (lambda x: wg.sum(x, keepdims=True) - wg.sum(x, keepdims=True) + x, [1000.0, 1.0, 60000.0]),
    ):
        compiled = wg.jit(fn)
        for _ in range(6):
            found = compiled(x)
        np.testing.assert_array_equal(found.numpy(), expected)
        np.testing.assert_array_equal(fn(x).numpy(), expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_are_kept_in_float32(dtype: str) -> None:
    """In half precision the sum of so many ones would stand still: at 2048 in float16, at 256 in bfloat16."""
    half, _ = DTYPES[dtype]
    ones = np.ones((2, 4096), half)
    kernel = np.ones((1, 64, 8, 8), half)
    for fn, args in (
        (lambda x: x @ x.T, (ones,)),
        (lambda x: x.sum(-1), (ones,)),
        (lambda x: x.mean(-1) * 4096.0, (ones,)),
        (lambda x: F.conv2d(x, x), (kernel,)),
        (lambda x: wg.einsum("ij,kj->ik", x, x), (ones,)),
    ):
        made = compile_graph(wg.graph(fn)(*args))
        (found,) = made.run(list(args))
        np.testing.assert_array_equal(found.astype(np.float32), 4096.0)


def _both(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function's result, and the gradients of all its operands."""

    def run(*args: Any) -> Any:
        out, pull = wg.vjp(fn, *args)
        return out, pull(out)

    return run


LARGE: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "product": (lambda x, w: x @ w, (rand(300, 200), rand(200, 250))),
    "product of transposes": (lambda x, w: w.T @ x.T, (rand(300, 200), rand(200, 250))),
    "stack": (lambda x, w: x @ w, (rand(40, 20, 30), rand(40, 30, 50))),
    "convolution": (lambda x, w: F.conv2d(x, w, padding=1), (rand(8, 16, 30, 30), rand(16, 16, 3, 3))),
    "depthwise": (lambda x, w: F.conv2d(x, w, padding=1, groups=32), (rand(8, 32, 30, 30), rand(32, 1, 3, 3))),
    "attention": (lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True), (rand(40, 64, 32),)),
}


@pytest.mark.parametrize(("name", "target"), on_processors(LARGE, str, HALF_TARGETS))
def test_nothing_is_widened_as_a_whole(name: str, target: str) -> None:
    """Memory holds operands and results in half precision: float32 is for what is summed, and in registers."""
    fn, args = LARGE[name]
    arenas = {}
    for dtype in (np.float32, *(half for half, _ in DTYPES.values())):
        given = [a.astype(dtype) for a in args]
        made = compile_graph(wg.graph(_both(fn))(*given), target=target_of(target))
        arenas[dtype] = sum({b: b.nbytes for s in made.plan.steps for b in s.writes}.values())
        if dtype is not np.float32:
            wide = [v for s in made.plan.steps for v in s.words if isinstance(v, View) and v.buffer in s.writes]
            sizes = [v.size for v in wide if v.dtype == np.float32]
            # Sums of weight gradients, and a number for each query.
            assert max(sizes, default=0) < max(a.size for a in args) / 4, (name, made.plan)
            assert arenas[dtype] < arenas[np.float32], (name, arenas)
