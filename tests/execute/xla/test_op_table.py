"""Every op of the table on XLA: the interpreter's values on the op's own samples, in every dtype that it takes.

Compiling takes long: calls go into programs by the dozen.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from optable import OPS, calls, in_dtype, same, traced
from wengert.core.graph.evaluate import run
from wengert.core.ops.op import TABLE, Call

pytest.importorskip("jax", reason="the engine needs jax")

from wengert.execute.xla.api import jax
from wengert.execute.xla.lower import lower
from wengert.execute.xla.rules import RULES, Trace

# So many calls in a program, which is compiled as quickly as possible.
GROUP = 12
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
# Which of equal elements are picked is not said.
TIES = {"arg_top_k", "top_k"}
MORE = [
    np.float32, np.float16, ml_dtypes.bfloat16, np.complex64, np.complex128, np.int32, np.int8, np.uint8, np.int64,
    np.bool_,
]  # fmt: skip


def check(named: Sequence[tuple[str, Call]]) -> set[str]:
    """Compare calls with the interpreter's, a group at a time; return the ops that Python was called for."""
    on_host: set[str] = set()
    for start in range(0, len(named), GROUP):
        part = named[start : start + GROUP]
        made = [traced(TABLE[name], call) for name, call in part]
        graphs = [graph.expand() for graph, _ in made]
        traces = [Trace(lower) for _ in part]

        def program(
            inputs: Sequence[Sequence[Any]], graphs: Any = graphs, traces: Any = traces
        ) -> list[tuple[list[Any], Any]]:
            for graph, trace in zip(graphs, traces, strict=True):
                trace.begin(graph.inputs)
            return [
                (lower(graph, given, trace), trace.is_wrong())
                for graph, given, trace in zip(graphs, inputs, traces, strict=True)
            ]

        with jax.enable_x64(True):
            found = jax.jit(program, compiler_options=QUICK)([arrays for _, arrays in made])
        for (name, _), (graph, arrays), (outputs, wrong), trace in zip(part, made, found, traces, strict=True):
            for got, want in zip(outputs, run(graph, [a.copy() for a in arrays]), strict=True):
                same(np.asarray(got), want, name)
            assert not np.asarray(wrong), f"{name}: a check finds fault with its samples"
            assert all(k.holds(arrays[k.number]) for k in trace.known), name
            on_host |= trace.on_host.keys()
    return on_host


def test_a_sample_of_every_op() -> None:
    assert not check([(name, calls(TABLE[name])[0]) for name in OPS])


def test_all_ops_have_rules() -> None:
    assert {name for name in OPS if TABLE[name].body is None and name not in RULES} == set()
    assert all(name in TABLE for name in RULES)


@pytest.mark.slow
def test_all_samples_of_every_op() -> None:
    assert not check([(name, call) for name in OPS for call in calls(TABLE[name])])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", MORE, ids=lambda d: np.dtype(d).name)
def test_the_samples_of_every_op_in_every_other_dtype(dtype: Any) -> None:
    boolean = np.dtype(dtype).kind == "b"
    named = [
        (name, call)
        for name in OPS
        if not (boolean and name in TIES)
        for call in islice(in_dtype(TABLE[name], dtype), 2)
    ]
    assert not check(named)
