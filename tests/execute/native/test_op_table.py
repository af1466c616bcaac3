"""Every op of the table as native code: the interpreter's values on the op's own samples, in every dtype that it takes.

What has no kernel runs as a host call, in Python: `HOST` lists those ops.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from optable import OPS, calls, in_dtype, same, traced
from wengert.core.graph.evaluate import run
from wengert.core.ops.op import TABLE, Call, Op

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

from wengert.execute.native.compile import Compiled, compile_graph
from wengert.execute.native.plan.plan import HostCall

# The ops by which ranks meet, in Python.
RANKS = frozenset(name for name, op in TABLE.items() if "collective" in op.facets)
# The ops without kernels of their own: LAPACK's, NumPy's FFT, the zeta function, rejection sampling.
HOST = frozenset(
    {
        "adjugate",
        "cofactors_along",
        "eig",
        "eigh",
        "eigvalsh",
        "expm",
        "expm_frechet",
        "fft",
        "geqrf",
        "hurwitz_zeta",
        "ifft",
        "irfft",
        "lstsq",
        "lu",
        "pinv",
        "pivoted_rows",
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
MORE = [np.float16, ml_dtypes.bfloat16, np.complex64, np.complex128, np.int32, np.int8, np.uint8, np.int64, np.bool_]
# Which of equal elements are picked is not said.
TIES = {"arg_top_k", "top_k"}


def check(op: Op, call: Call) -> Compiled:
    graph, arrays = traced(op, call)
    made = compile_graph(graph)
    for got, want in zip(made.run(arrays), run(graph, [a.copy() for a in arrays]), strict=True):
        same(got, want, op.name)
    return made


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
            if np.dtype(dtype).itemsize == 2 and name not in HOST | RANKS and is_common(made):
                assert not in_python(made), name


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1, 1), (37,)])
def test_elementwise_ops_in_every_shape(shape: tuple[int, ...]) -> None:
    for name in OPS:
        op = TABLE[name]
        call = calls(op)[0]
        if op.kind == "elementwise" and all(isinstance(a, np.ndarray) for a in call.args):
            check(op, Call(tuple(np.resize(a, shape) for a in call.args), call.attrs))
