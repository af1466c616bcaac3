"""Samples of the op table as graphs, in other dtypes, and their comparison with the interpreter's values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import wengert as wg
from wengert.core.errors import WengertError
from wengert.core.graph.evaluate import run
from wengert.core.graph.graph import Graph
from wengert.core.ops.op import TABLE, Call, Op

_ = wg.scan, wg.distribute.pcast  # control flow and collectives are declared where they are first asked for

OPS = [name for name, op in TABLE.items() if op.samples is not None]
# Relative to the larger of 1 and the value.
TOLERANCE = {
    "float64": 1e-11,
    "complex128": 1e-10,
    "float32": 2e-5,
    "complex64": 2e-5,
    "float16": 4e-3,
    "bfloat16": 2e-2,
}


def calls(op: Op) -> list[Call]:
    assert op.samples is not None
    return list(op.samples(np.random.default_rng(5)))


def as_dtype(x: Any, dtype: Any) -> Any:
    """A sample's argument in another dtype: what is not a floating-point array (an index, say) is left as it is."""
    dtype = np.dtype(dtype)
    if not isinstance(x, (np.ndarray, np.generic)) or x.dtype.kind not in ("fc" if dtype.kind == "c" else "f"):
        return x
    x = np.asarray(x)
    if dtype.kind == "b":
        return x > 0
    with np.errstate(all="ignore"):
        # Small numbers, so that they are more than zeros as integers.
        return np.abs(x * 3).astype(dtype) if dtype.kind == "u" else (x * 3 if dtype.kind == "i" else x).astype(dtype)


def traced(op: Op, call: Call) -> tuple[Graph, list[Any]]:
    """The call as a graph of its arrays, and the arrays."""
    at = [i for i, a in enumerate(call.args) if isinstance(a, (np.ndarray, np.generic))]
    arrays = [np.asarray(call.args[i], order="C") for i in at]

    def f(*given: Any) -> Any:
        args = list(call.args)
        for i, t in zip(at, given, strict=True):
            args[i] = t
        return op.front(*args, **call.attrs)

    return wg.graph(f)(*arrays), arrays


def same(got: Any, want: Any, name: str) -> None:
    want = np.asarray(want)
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    if want.dtype.name in TOLERANCE:
        wide = np.complex128 if want.dtype.kind == "c" else np.float64
        tolerance = TOLERANCE[want.dtype.name]
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(got.astype(wide), want.astype(wide), tolerance, tolerance, err_msg=name)
    else:
        np.testing.assert_array_equal(got, want, err_msg=name)


def in_dtype(op: Op, dtype: Any) -> Iterator[Call]:
    """The sample calls in another dtype, where the op takes it and the interpreter knows what it gives."""
    for call in calls(op):
        args = tuple(as_dtype(a, dtype) for a in call.args)
        if op.kind == "control" or not any(a is not b for a, b in zip(args, call.args)):
            return  # graphs inside are of their own dtypes
        try:
            graph, arrays = traced(op, Call(args, call.attrs))
            found = run(graph, arrays)
            # Composites whose definition and whose forward disagree about integers are no reference.
            opened = run(graph.expand(), arrays) if np.dtype(dtype).kind in "iub" else found
        except (WengertError, ValueError, TypeError, np.exceptions.ComplexWarning):
            continue
        if all(
            (np.shape(x), np.asarray(x).dtype) == (n.spec.shape, n.spec.dtype)
            and np.array_equal(x, y, equal_nan=np.asarray(x).dtype.kind == "f")
            for x, y, n in zip(found, opened, graph.outputs, strict=True)
        ):
            yield Call(args, call.attrs)
