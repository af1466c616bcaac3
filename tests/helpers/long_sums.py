"""Sums of so many numbers that one which runs through them loses digits: calls of ops, and programs.

What is wanted of each is the same in float64. The numbers are 0.1, 0.2 and 0.3, of which a sum that runs through them
loses digits soon, and half precision stops growing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

import wengert as wg
import wengert.torch as torch
from opchecks import OPS, calls
from wengert.core.errors import WengertError
from wengert.core.ops.costs import cost_of
from wengert.core.ops.op import Call, Op

F = wg.nn.functional
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
# How many numbers: half precision saturates soon, and overflows.
COUNT = {np.dtype("f4"): 1 << 18, np.dtype("f2"): 1 << 13, BFLOAT16: 1 << 13}
# What an error may be of the largest result: about a hundred roundings of float32, or a rounding of half precision.
ALLOWED = {np.dtype("f4"): 1.2e-5, np.dtype("f2"): 2e-3, BFLOAT16: 1e-2}


def arrays(results: Any) -> list[np.ndarray]:
    found = results if isinstance(results, (tuple, list)) else [results]
    return [np.asarray(r.numpy() if isinstance(r, wg.Tensor) else r).astype(np.float64) for r in found]


def narrow(values: list[np.ndarray], dtype: np.dtype) -> list[np.ndarray]:
    return [v.astype(dtype) if v.dtype.kind == "f" else v for v in values]


def wide(values: list[np.ndarray]) -> list[Any]:
    return [wg.asarray(v.astype(np.float64) if v.dtype.kind in "fV" else v) for v in values]


def agree(found: Any, wanted: Any, dtype: np.dtype) -> None:
    for f, w in zip(arrays(found), arrays(wanted), strict=True):
        assert np.max(np.abs(f - w)) <= ALLOWED[dtype] * np.max(np.abs(w)), np.max(np.abs(f - w)) / np.max(np.abs(w))


def tenths(rng: Any, shape: Any) -> Any:
    """Return 0.1, 0.2 and 0.3: sums that run through them lose digits soon, and all the same way."""
    return rng.integers(1, 4, shape) * 0.1


def near_one(rng: Any, shape: Any) -> Any:
    """Return numbers of which products of very many are neither huge nor tiny."""
    return 1.0 + rng.integers(-3, 4, shape) * 2.0**-17


def long_call(op: Op, n: int) -> Call | None:
    """Return a call of an op along an axis of `n` elements, made of its samples; None if it has none of floats."""
    rng = np.random.default_rng(n)
    for call in calls(op):
        axis = call.attrs.get("axis")
        axes = axis if isinstance(axis, tuple) else (axis,)
        floats = all(isinstance(a, np.ndarray) and a.dtype.kind == "f" for a in call.args)
        if not floats or None in axes or not axes or min(a.ndim for a in call.args) < 2:
            continue
        # All axes have two elements but the first that is summed over, along which memory is not in order.
        draw = near_one if "prod" in op.name else tenths
        shapes = [[n if d - a.ndim == min(axes) else 2 for d in range(a.ndim)] for a in call.args]
        front = (np.ascontiguousarray(np.moveaxis(draw(rng, s), min(axes), 0)) for s in shapes)
        made = [np.moveaxis(a, 0, min(axes)) for a in front]
        try:
            out = op.infer(*(wg.asarray(a).spec for a in made), **call.attrs)
        except WengertError:
            continue
        if {s.dtype.kind for s in (out if isinstance(out, tuple) else (out,))} == {"f"}:
            return Call(tuple(made), call.attrs)
    return None


# What only moves elements costs nothing.
LONG = {name: op for name, op in OPS.items() if cost_of(op) != 0 and long_call(op, 64) is not None}


class LongProgram(NamedTuple):
    """A program, the shapes of its arguments for `n` numbers, and how many integers below what come after them."""

    run: Callable[..., Any]
    shapes: Callable[[int], list[tuple[int, ...]]]
    below: int = 0
    draw: Callable[..., Any] = tenths

    def arguments(self, n: int) -> list[Any]:
        """Return the arguments, in float64."""
        rng = np.random.default_rng(n)
        made = [self.draw(rng, s) for s in self.shapes(n)]
        if self.below:
            # Half of all are the same.
            index = rng.integers(0, self.below, n)
            made.append(np.where(rng.random(n) < 0.5, self.below // 2, index))
        return made


def _gradient(fn: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: wg.grad(lambda x: fn(x, *args[1:]).sum())(args[0])


def _pulled(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return the vector-Jacobian product in the first argument, of the second."""

    def run(x: Any, ct: Any, *rest: Any) -> Any:
        (found,) = wg.vjp(lambda x: (fn(x, *rest),), x)[1]((ct,))
        return found

    return run


PROGRAMS: dict[str, LongProgram] = {
    "sum over leading rows": LongProgram(lambda x: x.sum(axis=0), lambda n: [(n, 2)]),
    "sum over wide rows": LongProgram(lambda x: x.sum(axis=0), lambda n: [(n // 4, 70)]),
    "sum of a transposed matrix": LongProgram(lambda x: x.T.sum(axis=1), lambda n: [(n, 3)]),
    "sum over two axes around": LongProgram(lambda x: x.sum(axis=(0, 2)), lambda n: [(n, 3, 2)]),
    "sum of a slice": LongProgram(lambda x: x[::2, 1:].sum(), lambda n: [(n, 3)]),
    "mean": LongProgram(lambda x: x.mean(axis=0), lambda n: [(n, 2)]),
    "variance": LongProgram(lambda x: x.var(axis=0), lambda n: [(n, 2)]),
    "norm": LongProgram(lambda x: wg.linalg.vector_norm(x, axis=0), lambda n: [(n, 2)]),
    "product": LongProgram(lambda x: x.prod(axis=0), lambda n: [(n, 2)], draw=near_one),
    "running sum": LongProgram(lambda x: wg.cumulative_sum(x, axis=0), lambda n: [(n, 2)]),
    "running sum of a vector": LongProgram(wg.cumulative_sum, lambda n: [(n + 3,)]),
    "running product": LongProgram(wg.cumulative_prod, lambda n: [(n,)], draw=near_one),
    "running logsumexp": LongProgram(lambda x: torch.logcumsumexp(x, 0), lambda n: [(n,)]),
    "gradient of a running product": LongProgram(_gradient(wg.cumulative_prod), lambda n: [(n,)], draw=near_one),
    "einsum over a leading axis": LongProgram(lambda x: wg.einsum("ij->j", x), lambda n: [(n, 2)]),
    "einsum of two": LongProgram(lambda x, y: wg.einsum("ij,ij->j", x, y), lambda n: [(n, 2)] * 2),
    "einsum with a vector": LongProgram(lambda x, y: wg.einsum("i,ij->j", x, y), lambda n: [(n,), (n, 2)]),
    "tensordot": LongProgram(lambda x, y: wg.tensordot(x, y, axes=((0,), (0,))), lambda n: [(n, 2)] * 2),
    "dot": LongProgram(lambda x, y: x @ y, lambda n: [(n,)] * 2),
    "vecdot": LongProgram(lambda x, y: wg.vecdot(x, y, axis=0), lambda n: [(n, 2)] * 2),
    "vector times matrix": LongProgram(lambda x, y: x @ y, lambda n: [(n,), (n, 3)]),
    "matrix times vector": LongProgram(lambda x, y: x @ y, lambda n: [(3, n), (n,)]),
    "product of long matrices": LongProgram(lambda x, y: x.T @ y, lambda n: [(n, 20)] * 2),
    "gradient of a bias": LongProgram(_gradient(lambda b, x: (x + b) * x), lambda n: [(2,), (n, 2)]),
    "gradient of a bias of channels": LongProgram(
        _gradient(lambda b, x: (x + b) * x), lambda n: [(3, 1, 1), (n // 4, 3, 2, 2)]
    ),
    "gradient of a linear layer's bias": LongProgram(
        _gradient(lambda b, x, w: F.linear(x, w, b) * x[:, :3]), lambda n: [(3,), (n, 4), (3, 4)]
    ),
    "gradient of a linear layer's weight": LongProgram(
        _gradient(lambda w, x: F.linear(x, w) * x[:, :3]), lambda n: [(3, 4), (n, 4)]
    ),
    "gradient of a layer norm's weight": LongProgram(
        _gradient(lambda w, x, b: F.layer_norm(x, (8,), w, b) * x), lambda n: [(8,), (n, 8), (8,)]
    ),
    "gradient of a convolution's weight": LongProgram(
        _gradient(lambda w, x: F.conv2d(x, w)), lambda n: [(3, 2, 1, 1), (8, 2, n // 256, 32)]
    ),
    "gradient of few rows": LongProgram(_pulled(lambda w, i: w[i]), lambda n: [(5, 3), (n, 3)], below=5),
    "gradient of a row of many": LongProgram(_pulled(lambda w, i: w[i]), lambda n: [(n, 3), (n, 3)], below=1 << 12),
    "gradient of an embedding": LongProgram(
        _pulled(lambda w, i: F.embedding(i, w)), lambda n: [(n, 2), (n, 2)], below=9
    ),
    "gradient of elements picked": LongProgram(
        _pulled(lambda w, i: wg.take_along_axis(w, i, axis=0)), lambda n: [(7,), (n,)], below=7
    ),
    "index_add": LongProgram(lambda z, x, i: torch.asarray(z).index_add(0, i, x), lambda n: [(5, 2), (n, 2)], below=5),
    "mean squared error": LongProgram(F.mse_loss, lambda n: [(n, 2)] * 2),
    "mean absolute error": LongProgram(F.l1_loss, lambda n: [(n, 2)] * 2),
    "cross entropy": LongProgram(F.cross_entropy, lambda n: [(n, 3)], below=3),
    "gradient of repeated elements": LongProgram(
        _gradient(lambda x, y: wg.repeat(x, len(y) // 2) * y), lambda n: [(2,), (n,)]
    ),
    "mean of a large window": LongProgram(lambda x: F.avg_pool1d(x, x.shape[-1]), lambda n: [(1, 2, n // 32)]),
}
