"""Guarded memory: programs compute the same in it, and what reaches out of its buffers is caught."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

import wengert as wg
from programs import F, given, lowering, plus_one, with_host_call
from wengert.execute.native.codegen.builder import Builder
from wengert.execute.native.codegen.types import F64
from wengert.execute.native.compile import compile_graph
from wengert.execute.native.plan.plan import Buffer, View, dense
from wengert.execute.native.run.runtime import Program

posix = pytest.mark.skipif(os.name != "posix", reason="pages are protected by POSIX's mprotect")
pytestmark = posix


@pytest.fixture(autouse=True)
def guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WENGERT_GUARD", "1")


def apart(code: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Code in a process of its own, after the names that programs are made by hand with."""
    start = """
        from programs import *
        from wengert.execute.native.codegen.types import *

        def copied(reads, writes, count, at=0):
            def build(b):
                x, y = b.buffer(0), b.buffer(2)
                with b.loop(0, count) as loop:
                    b.store(b.load(F64, b.offset(x, b.add(loop.index, b.index(at)), F64)), b.offset(y, loop.index, F64))
            low = lowering()
            x = given(low, (reads,))
            y = low.temp((writes,), F)
            low.step(low.kernel(f"test copied {count} {at}", build), (x, y), reads=[x], writes=[y])
            low.plan.outputs.append(plus_one(low, y))
            return low

        """
    text = textwrap.dedent(start) + textwrap.dedent(code)
    paths = os.pathsep.join(sys.path)
    settings = {**os.environ, "WENGERT_GUARD": "1", "PYTHONPATH": paths, **env}
    return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, env=settings, timeout=120)


FAULTS = {
    "a temporary that is one element short is written to": "copied(8, 7, 8)",
    "an argument that is one element short is read": "copied(7, 8, 8)",
    "a read beyond the end of an argument that fills its page": "copied(4096 // 8, 4096 // 8, 4096 // 8, at=1)",
}


@pytest.mark.parametrize("name", FAULTS)
def test_one_element_too_far_is_a_fault(name: str) -> None:
    code = f"""
        low = {FAULTS[name]}
        n = low.plan.inputs[0].size
        Program(low.plan).run([np.arange(float(n))])
    """
    out = apart(code, WENGERT_GUARD="steps")
    assert out.returncode == -signal.SIGSEGV, (out.returncode, out.stderr)
    assert out.stderr.splitlines()[-1].startswith("step 0: test copied"), out.stderr
    assert apart(code, WENGERT_GUARD="0").returncode == 0


def test_a_result_one_element_short_is_a_fault() -> None:
    code = """
        low = lowering()
        x = given(low, (8,))
        y = low.temp((7,), F)
        low.step(low.kernel("test add one", add_one), (x, y), reads=[x], writes=[y], units=8)
        low.plan.outputs.append(y)
        Program(low.plan).run([np.arange(8.0)])
    """
    assert apart(code).returncode == -signal.SIGSEGV


@pytest.mark.parametrize("kind", ["argument", "constant"])
def test_writing_to_what_is_only_read_is_a_fault(kind: str) -> None:
    code = f"""
        low = lowering()
        x = given(low, (8,))
        into = x if {kind!r} == "argument" else low.constant(np.zeros(8))
        plus_one(low, x, into)
        low.plan.outputs.append(plus_one(low, x))
        Program(low.plan).run([np.arange(8.0)])
    """
    assert apart(code).returncode == -signal.SIGSEGV
    assert apart(code, WENGERT_GUARD="0").returncode == 0


def reaching_back(b: Builder) -> None:
    y = b.buffer(0)
    b.store(b.const(F64, 1.0), b.offset(y, -1, F64))
    with b.loop(0, 4) as at:
        b.store(b.const(F64, 2.0), b.offset(y, at.index, F64))


def test_an_element_too_far_to_the_front_is_an_error_that_names_the_step_and_the_buffer() -> None:
    low = lowering()
    y = low.temp((4,), F)
    low.step(low.kernel("test reaching back", reaching_back), (y,), reads=[], writes=[y])
    low.plan.outputs.append(plus_one(low, y))
    with pytest.raises(RuntimeError, match=r"test reaching back has written before <temp .* of 32 bytes>"):
        Program(low.plan).run([])


@pytest.mark.parametrize(("at", "is_outside"), [(-8, True), (0, False), (16, False), (24, True)])
def test_scratch_memory_ends_where_the_step_said(at: int, is_outside: bool) -> None:
    def storing(at: int) -> Any:
        def build(b: Builder) -> None:
            b.store(b.const(F64, 1.0), b.offset(b.scratch(), at // 8, F64))
            b.store(b.const(F64, 1.0), b.buffer(0))

        return low.kernel(f"test scratch {at}", build)

    low = lowering()
    y, z = low.temp((1,), F), low.temp((1,), F)
    low.step(storing(at), (y,), reads=[], writes=[y], scratch=24)
    low.step(storing(4992), (z,), reads=[], writes=[z], scratch=5000)
    low.plan.outputs += [y, z]
    program = Program(low.plan)
    if is_outside:
        with pytest.raises(RuntimeError, match="around its 24 bytes of scratch memory"):
            program.run([])
    else:
        program.run([])


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "c16", "i1", "u2", "i4", "i8", "?"])
def test_memory_that_was_not_written_to_is_full_of_what_shows(dtype: str) -> None:
    low = lowering()
    y = View(Buffer("temp", 7 * np.dtype(dtype).itemsize), np.dtype(dtype), (7,), dense((7,)))
    low.plan.outputs += [y, plus_one(low, low.temp((1,), F))]
    out, _ = Program(low.plan).run([])
    if out.dtype.kind in "fc":
        assert np.isnan(out.real).all()
        assert np.isnan(out.imag).all() or out.dtype.kind == "f"
    else:
        assert (out.view(f"u{out.dtype.itemsize}").view("u1") == 0xA5).all()


def test_each_call_begins_with_memory_that_was_not_written_to() -> None:
    def once(b: Builder) -> None:
        """Writes only where the argument is 1."""
        one = b.fcmp("oeq", b.load(F64, b.buffer(0)), b.const(F64, 1.0))
        with b.when(one):
            b.store(b.const(F64, 1.0), b.buffer(2))

    low = lowering()
    x, y = given(low, (1,)), low.temp((1,), F)
    low.step(low.kernel("test once", once), (x, y), reads=[x], writes=[y])
    low.plan.outputs.append(plus_one(low, y))
    program = Program(low.plan)
    assert program.run([np.ones(1)])[0][0] == 2.0
    assert np.isnan(program.run([np.zeros(1)])[0][0])


# -- what is right computes the same


def test_arguments_that_lie_otherwise_and_donated_ones() -> None:
    graph = wg.graph(lambda x, y: (x @ y, wg.sin(x).sum()))(wg.spec((5, 3)), wg.spec((3, 4)))
    x, y = np.random.default_rng(0).standard_normal((2, 5, 4)).astype("f4")
    given = [x[::-1, :3].copy(), y[:3]]
    expected = [np.asarray(v) for v in graph(*given)]
    for donated in (None, (True, True)):
        program = compile_graph(graph, donated).program
        for _ in range(3):
            for out, want in zip(program.run([a.copy() for a in given]), expected, strict=True):
                np.testing.assert_allclose(out, want, rtol=1e-6)


def test_steps_of_pythons_loops_and_branches() -> None:
    seen: list[Any] = []

    def doubled(y: Any, z: Any) -> None:
        seen.append(y.copy())
        z[...] = 2 * y

    (out,) = with_host_call(doubled).run([np.arange(4.0)])
    assert out.tolist() == [3, 5, 7, 9]
    assert seen[0].tolist() == [1, 2, 3, 4]

    def loop(x: Any) -> Any:
        rows = wg.scan(lambda c, r: (wg.tanh(c + r), c * r), x[0], x)[1]
        turns = wg.while_loop(lambda c: c.sum() < 100, lambda c: c * 2, wg.abs(x[0]) + 1)
        return wg.cond(rows.sum() > 0, lambda a: a + turns, lambda a: a - turns, rows)

    x = wg.asarray(np.random.default_rng(1).standard_normal((6, 4)))
    compiled = wg.jit(loop)
    for _ in range(3):
        np.testing.assert_allclose(compiled(x).numpy(), loop(x).numpy())


def test_a_training_step_changes_its_state_as_elsewhere() -> None:
    def trained(compile: Any) -> list[Any]:
        rng = np.random.default_rng(0)
        w = [wg.tensor(rng.standard_normal(s).astype("f4"), requires_grad=True) for s in ((5, 3), (3,))]
        optimizer = wg.optim.Adam(w, lr=0.1)
        generator = wg.random.Generator(3)

        @compile
        def step(x: Any) -> Any:
            optimizer.zero_grad()
            noise = wg.randn(7, 3, generator=generator)
            loss = ((wg.tanh(x @ w[0] + w[1]) + 0.1 * noise) ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss

        x = wg.asarray(rng.standard_normal((7, 5)).astype("f4"))
        return [*(step(x).item() for _ in range(9)), *(p.detach().numpy() for p in w), w[0].grad.numpy()]

    for got, want in zip(trained(wg.jit), trained(lambda f: f), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)


def test_many_threads_share_steps_out() -> None:
    code = """
        import wengert as wg
        from wengert.execute.native.compile import compile_graph
        graph = wg.graph(lambda x: wg.softmax(x @ x, -1).sum(0))(wg.spec((200, 200)))
        x = np.random.default_rng(0).standard_normal((200, 200)).astype("f4")
        want = np.asarray(graph(x))
        with all_shared(64):
            program = compile_graph(graph).program
            for _ in range(9):
                np.testing.assert_allclose(program.run([x])[0], want, rtol=1e-4)
    """
    out = apart(code, WENGERT_NUM_THREADS="3")
    assert out.returncode == 0, out.stderr
