"""No kernel flushes denormal numbers: what it is given and what it gives may be any of them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

import wengert as wg
from fuzzing import TARGETS
from programs import all_shared
from wengert.core.graph.evaluate import run
from wengert.execute.native.codegen import machine
from wengert.execute.native.compile import Compiled, compile_graph
from wengert.execute.native.run.runtime import Program

F = wg.nn.functional
bfloat16 = ml_dtypes.bfloat16


def tiny(*shape: int, size: float = 1e-40) -> Any:
    """Numbers of a size, of both signs, none of them 0."""
    spread = np.random.default_rng(sum(shape)).uniform(0.5, 2, shape) * size
    spread.flat[::3] *= -1
    return spread.astype("f4")


def ones(*shape: int) -> Any:
    return np.ones(shape, "f4")


ROOT = 1e-20
# A function, and what it is given: its result is denormal, but where that would be no question.
KINDS: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "product": (lambda x, y: x * y, [tiny(40, size=ROOT), tiny(40, size=ROOT)]),
    "quotient": (lambda x: x / 1e20, [tiny(40, size=ROOT)]),
    "difference": (lambda x, y: x - y, [tiny(40), tiny(40, size=3e-40)]),
    "reciprocal of a large number": (lambda x: 1 / x, [ones(17) * np.float32(3e38)]),
    "reciprocal of a denormal number": (lambda x: 1 / x * 1e-30, [tiny(40, size=9e-39)]),
    "exp": (wg.exp, [np.linspace(-103, -88, 40, dtype="f4")]),
    "sigmoid": (wg.sigmoid, [np.linspace(-103, -88, 40, dtype="f4")]),
    "softmax": (lambda x: F.softmax(x, -1)[..., 1:], [np.linspace(-103, -88, 40, dtype="f4") * (np.arange(40) > 0)]),
    "log": (lambda x: wg.log(wg.abs(x)), [tiny(40)]),
    "sqrt": (lambda x: wg.sqrt(wg.abs(x)), [tiny(40)]),
    "what are almost lines at 0": (
        lambda x: wg.sin(x) + wg.tanh(x) + wg.expm1(x) + wg.log1p(x) + wg.asinh(x) + wg.special.erf(x),
        [tiny(40)],
    ),
    "comparison": (lambda x: wg.where(x != 0, x, 1.0) + wg.maximum(x, 0), [tiny(40)]),
    "sum": (lambda x: wg.sum(x, axis=1), [tiny(9, 40)]),
    "sum down columns": (lambda x: wg.sum(x, axis=0), [tiny(40, 9)]),
    "cumulative sum": (lambda x: wg.cumulative_sum(x, axis=0), [tiny(40)]),
    "matrix product": (lambda x, y: x @ y, [tiny(33, 48, size=ROOT), tiny(48, 40, size=ROOT)]),
    "matrix product of denormal numbers": (lambda x, y: x @ y, [tiny(33, 48), ones(48, 40)]),
    "matrix times vector": (lambda x, y: x @ y, [tiny(33, 48, size=ROOT), tiny(48, size=ROOT)]),
    "convolution": (lambda x, y: F.conv2d(x, y), [tiny(2, 8, 9, 9, size=ROOT), tiny(16, 8, 3, 3, size=ROOT)]),
    "attention": (F.scaled_dot_product_attention, [ones(2, 17, 8), ones(2, 17, 8), tiny(2, 17, 8)]),
    "pooling": (lambda x: F.avg_pool2d(x, 2), [tiny(2, 3, 8, 8)]),
    "scatter": (lambda x, y: wg.index_add(x, 0, np.arange(12) % 5, y), [tiny(5, 3), tiny(12, 3)]),
    "scan": (lambda x: wg.scan(lambda c, r: (c * 0.5, c + r), x[0], x)[1], [tiny(12, 7)]),
    "float16 and back": (lambda x: x.astype(wg.float16).astype(wg.float32), [tiny(40, size=1e-6)]),
    "bfloat16 and back": (lambda x: x.astype(wg.bfloat16).astype(wg.float32) * 1.0, [tiny(40)]),
}


def graph_of(name: str, dtype: Any) -> tuple[wg.Graph, list[Any]]:
    function, arrays = KINDS[name]
    arrays = [a.astype(dtype) for a in arrays]
    return wg.graph(function)(*map(wg.asarray, arrays)), arrays


def results(compiled: Compiled, arrays: list[Any]) -> Any:
    (out,) = compiled.run([a.copy() for a in arrays])
    return out


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", KINDS)
def test_nothing_is_flushed(name: str, target: str) -> None:
    graph, arrays = graph_of(name, "f4")
    # In float64 all these are normal numbers.
    want = run(*graph_of(name, "f8"))[0]
    got = results(compile_graph(graph, target=TARGETS[target]()), arrays)
    assert want.all()
    info = np.finfo("f4")
    grain = 2.0**-24 if "float16" in name and "b" not in name else float(info.smallest_subnormal)
    np.testing.assert_allclose(got.astype("f8"), want, rtol=1e-5, atol=16 * grain)
    assert np.count_nonzero(got) > 0.9 * got.size


@contextmanager
def flushing() -> Iterator[None]:
    """This thread flushes denormal numbers, as some libraries set it for theirs."""
    ir = """
    declare void @llvm.x86.sse.stmxcsr(ptr)
    declare void @llvm.x86.sse.ldmxcsr(ptr)
    define void @exchange(ptr %old, ptr %new) {
      call void @llvm.x86.sse.stmxcsr(ptr %old)
      call void @llvm.x86.sse.ldmxcsr(ptr %new)
      ret void
    }
    """
    address = machine.load(machine.compile_ir(ir, machine.host()), "exchange")
    exchange = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(address)
    before, unused, flushes = ctypes.c_uint32(), ctypes.c_uint32(), ctypes.c_uint32(0x9FC0)
    exchange(ctypes.byref(before), ctypes.byref(flushes))
    try:
        yield
    finally:
        exchange(ctypes.byref(unused), ctypes.byref(before))


@pytest.mark.skipif(not machine.host().triple.startswith("x86_64"), reason="the register is x86's")
@pytest.mark.parametrize("name", ["product", "exp", "sum", "matrix product", "convolution", "attention"])
def test_nothing_is_flushed_in_a_thread_that_does(name: str) -> None:
    graph, arrays = graph_of(name, "f4")
    compiled = compile_graph(graph)
    want = results(compiled, arrays)
    with flushing():
        assert np.float32(1e-20) * np.float32(1e-20) == 0
        alone = results(compiled, arrays)
        with all_shared(64):
            (shared,) = Program(compiled.plan).run([a.copy() for a in arrays])
    assert want.tobytes() == alone.tobytes() == shared.tobytes()
    assert np.float32(1e-20) * np.float32(1e-20) != 0
