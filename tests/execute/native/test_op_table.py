"""Every op of the table as native code: the interpreter's values on the op's own samples, in every dtype that it takes.

What has no kernel runs as a host call, in Python: `HOST` lists those ops.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import wengert as wg
from wengert.core.errors import WengertError
from wengert.core.graph.evaluate import run
from wengert.core.graph.graph import Graph
from wengert.core.ops.op import TABLE, Call, Op

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

from wengert.execute.native.compile import Compiled, compile_graph
from wengert.execute.native.plan.plan import HostCall

_ = wg.scan  # control flow is declared where it is first asked for

OPS = [name for name, op in TABLE.items() if op.samples is not None]
# The ops by which ranks meet, in Python.
RANKS = frozenset(name for name, op in TABLE.items() if "collective" in op.facets)
# The ops without kernels of their own: LAPACK's, NumPy's FFT, special functions of double sums, rejection sampling.
HOST = frozenset(
    {
        "adjugate",
        "betainc",
        "betainc_slope",
        "betaln",
        "eig",
        "eigh",
        "eigvalsh",
        "expm",
        "expm_frechet",
        "fft",
        "gamma_ratio",
        "gammainc",
        "gammaincc",
        "geqrf",
        "hurwitz_zeta",
        "i0e",
        "i1e",
        "ifft",
        "irfft",
        "lstsq",
        "lu",
        "pinv",
        "pivoted_rows",
        "polygamma",
        "qr",
        "random_binomial",
        "random_binomial_at",
        "random_categorical",
        "random_categorical_at",
        "random_loggamma",
        "random_loggamma_at",
        "random_multinomial",
        "random_multinomial_at",
        "random_poisson",
        "random_poisson_at",
        "rfft",
        "svd",
        "svdvals",
    }
)
# Relative to the larger of 1 and the value.
TOLERANCE = {
    "float64": 1e-11,
    "complex128": 1e-10,
    "float32": 2e-5,
    "complex64": 2e-5,
    "float16": 4e-3,
    "bfloat16": 2e-2,
}
MORE = [np.float16, ml_dtypes.bfloat16, np.complex64, np.complex128, np.int32, np.int8, np.uint8, np.int64, np.bool_]
# Which of equal elements are picked is not said.
TIES = {"arg_top_k", "top_k"}


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


def check(op: Op, call: Call) -> Compiled:
    graph, arrays = traced(op, call)
    made = compile_graph(graph)
    for got, want in zip(made.run(arrays), run(graph, [a.copy() for a in arrays]), strict=True):
        same(got, want, op.name)
    return made


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


def is_common(made: Compiled) -> bool:
    """Whether its arrays are real and have elements."""
    return all(n.spec.dtype.kind != "c" and n.spec.size for n in (*made.graph.inputs, *made.graph.outputs))


def in_python(made: Compiled) -> set[str]:
    """The ops that the program computes in Python, checks of indices left out."""
    return {s.kernel.name for s in made.plan.steps if isinstance(s.kernel, HostCall) and s.kernel.when is None}


@pytest.mark.parametrize("name", OPS)
def test_the_samples_of_every_op(name: str) -> None:
    op = TABLE[name]
    made = [check(op, call) for call in (*calls(op), *in_dtype(op, np.float32))]
    # Complex numbers and arrays of nothing are Python's: what also takes others is judged by those.
    judged = [m for m in made if is_common(m)] or made
    assert any(name in in_python(m) for m in judged) == (name in HOST | RANKS)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", MORE, ids=lambda d: np.dtype(d).name)
def test_the_samples_of_every_op_in_every_other_dtype(dtype: Any) -> None:
    for name in OPS:
        if name in TIES and np.dtype(dtype).kind == "b":
            continue
        for call in islice(in_dtype(TABLE[name], dtype), 2):
            made = check(TABLE[name], call)
            if np.dtype(dtype).itemsize == 2 and name not in HOST and is_common(made):
                assert not in_python(made), name


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1, 1), (37,)])
def test_elementwise_ops_in_every_shape(shape: tuple[int, ...]) -> None:
    for name in OPS:
        op = TABLE[name]
        call = calls(op)[0]
        if op.kind == "elementwise" and all(isinstance(a, np.ndarray) for a in call.args):
            check(op, Call(tuple(np.resize(a, shape) for a in call.args), call.attrs))
