"""What native code is handed: arrays of the exact type and layout that it reads, or nothing.

The programs run in a process of their own, so that one that crashes is a failed test and not the end of the run.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import wengert as wg
from wengert.core.ops.op import TABLE
from wengert.core.tensor import Tensor
from wengert.execute.native.compile import compile_graph

PROGRAMS = {
    "computed 0-d argument": """
        f = wg.jit(lambda x: x * 1.0)
        x = wg.tensor(4.687e-310, dtype=wg.float64)
        for _ in range(8):
            assert float(f(x * 1.0).item()) == 4.687e-310
    """,
    "exponential of a computed scalar": """
        f = wg.jit(lambda x: wg.exp(x))
        x = wg.tensor(0.5)
        for _ in range(8):
            assert abs(float(f(x * 2.0)) - np.e) < 1e-6
    """,
    "an element, a reduction, a computed index": """
        f = wg.jit(lambda x, i: x * 2 + i)
        v = wg.tensor([1.0, 5.0, 3.0])
        for _ in range(8):
            assert float(f(v[1], wg.argmax(v))) == 11.0
            assert float(f(v.max(), wg.argmax(v) + 0)) == 11.0
    """,
    "scalars in a dict": """
        f = wg.jit(lambda p: p["a"] * p["b"])
        a = wg.tensor(3.0)
        for k in range(8):
            assert float(f({"a": a + k, "b": a * 1})) == (3.0 + k) * 3.0
    """,
    "jit of grad": """
        f = wg.jit(wg.grad(lambda x: x ** 3))
        x = wg.tensor(1.0)
        for k in range(8):
            assert float(f(x + k)) == 3 * (1.0 + k) ** 2
    """,
    "Newton's method": """
        f = wg.jit(lambda x: x * x - 2)
        df = wg.jit(wg.grad(lambda x: x * x - 2))
        x = wg.tensor(1.0, dtype=wg.float64)
        for _ in range(12):
            x = x - f(x) / df(x)
        assert abs(float(x) - 2 ** 0.5) < 1e-15
    """,
    "loss scale": """
        w = wg.tensor([1.0, 2.0], requires_grad=True)
        @wg.jit
        def step(x, scale):
            w.grad = None
            ((w * x).sum() * scale).backward()
            return w.grad / scale
        scale = wg.tensor(1024.0)
        for _ in range(12):
            g = step(wg.tensor([3.0, 4.0]), scale)
            assert g.tolist() == [3.0, 4.0], g
            scale = scale * 0.5
    """,
    "state that becomes a scalar": """
        s = wg.tensor(0.0)
        f = wg.jit(lambda x: s + x)
        for k in range(8):
            s.copy_(wg.tensor(1.0) * k)
            assert float(f(wg.tensor(2.0))) == k + 2.0
            s.assign_(s * 2)
            assert float(f(wg.tensor(2.0))) == 2 * k + 2.0
    """,
    "a parameter that an optimiser makes": """
        w = wg.nn.Parameter(wg.tensor(1.0))
        opt = wg.optim.SGD([w], lr=0.1)
        f = wg.jit(lambda x: w * x)
        for _ in range(8):
            opt.zero_grad()
            (w * 2.0).backward()
            opt.step()
            assert abs(float(f(wg.tensor(1.0)).detach()) - float(w.detach())) < 1e-7
    """,
    "the array of a dead result": """
        f = wg.jit(lambda x: x + 1)
        kept = [f(wg.tensor(float(k))) for k in range(8)]
        assert [float(k) for k in kept] == [k + 1.0 for k in range(8)]
    """,
}


RUN_ALL = """
import sys, traceback
import numpy as np
import wengert as wg
programs = eval(sys.stdin.read())
for name, source in programs.items():
    print("begins", name, flush=True)
    try:
        exec(source, {"np": np, "wg": wg})
    except BaseException:
        print(traceback.format_exc(), flush=True)
    else:
        print("is done", name, flush=True)
"""


@pytest.fixture(scope="module")
def ends() -> dict[str, str]:
    """How each program ended: one process runs them in turn, and another one those that come after a crash."""
    found: dict[str, str] = {}
    while rest := {name: textwrap.dedent(text) for name, text in PROGRAMS.items() if name not in found}:
        done = subprocess.run(
            [sys.executable, "-c", RUN_ALL], input=repr(rest), capture_output=True, text=True, timeout=120
        )
        told = done.stdout.split("begins ")[1:]
        assert told, done.stderr
        found |= {name: text for name, _, text in (part.partition("\n") for part in told)}
        if done.returncode:
            found[told[-1].partition("\n")[0]] = f"exit {done.returncode}\n{told[-1]}\n{done.stderr[-2000:]}"
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_scalars_reach_native_code_as_arrays(name: str, ends: dict[str, str]) -> None:
    assert ends[name] == f"is done {name}\n", ends[name]


def _samples() -> list[tuple[str, object, dict[str, object]]]:
    found = []
    for op in TABLE.values():
        if op.samples is None:
            continue
        for i, call in enumerate(op.samples(np.random.default_rng(0))):
            found.append((f"{op.name}-{i}", op, call))
    return found


def _leaves(result: object) -> list[Tensor]:
    return [t for t in (result if isinstance(result, (tuple, list)) else (result,)) if isinstance(t, Tensor)]


@pytest.mark.parametrize(("name", "op", "call"), _samples(), ids=lambda v: v if isinstance(v, str) else "")
def test_a_tensors_data_is_an_array(name: str, op: object, call: object) -> None:
    args = [wg.asarray(a) if isinstance(a, (np.ndarray, np.generic)) else a for a in call.args]
    for tracked in (False, True):
        given = [
            wg.tensor(a, requires_grad=True) if tracked and isinstance(a, Tensor) and a.dtype.kind in "fc" else a
            for a in args
        ]
        for t in _leaves(op.front(*given, **call.attrs)):
            assert type(t._array) is np.ndarray
            assert t._array.shape == t.shape
            assert t._array.dtype is t.dtype
            if t.requires_grad and t.shape == ():
                t.backward(wg.ones_like(t), retain_graph=True)
                for x in given:
                    if isinstance(x, Tensor) and x.grad is not None:
                        assert type(x.grad._array) is np.ndarray


def test_no_subclass_of_an_array_becomes_data() -> None:
    class Mine(np.ndarray):
        pass

    for copy in (None, False):
        t = wg.asarray(np.arange(3.0).view(Mine), copy=copy)
        assert type(t._array) is np.ndarray
    with pytest.raises(wg.DTypeError, match=r"a masked array \(2,\) of which some elements are masked"):
        wg.tensor(np.ma.masked_array([1.0, 2.0], mask=[True, False]))
    assert wg.tensor(np.ma.masked_array([1.0, 2.0])).tolist() == [1.0, 2.0]


def test_an_equal_dtype_becomes_the_one_that_native_code_compares_with() -> None:
    a = pickle.loads(pickle.dumps(np.arange(3, dtype=np.float32)))
    f = wg.jit(lambda x, y: x * y + 1)
    for x in (a, a.astype(np.dtype("f4", metadata={"unit": "m"})), a.astype(">f4")):
        t = wg.asarray(x)
        assert t._array.dtype is np.dtype(np.float32)
        for _ in range(8):
            assert f(t, x).tolist() == [1.0, 2.0, 5.0]


def test_memory_that_others_can_write_to_is_copied() -> None:
    a = np.zeros(3)
    view = a.view()
    view.flags.writeable = False
    t = wg.asarray(view)
    a[0] = 5.0
    assert t.tolist() == [0.0, 0.0, 0.0]
    a.flags.writeable = False
    assert wg.asarray(a)._array is a


def test_programs_refuse_arrays_of_another_kind() -> None:
    program = compile_graph(wg.graph(lambda x: x + 1)(wg.spec((3,))))
    assert program.run([np.ones(3, np.float32)])[0].tolist() == [2.0, 2.0, 2.0]
    # Equal dtypes, and elements that lie otherwise, are made what they have to be.
    odd = np.ones(6, np.dtype("f4", metadata={"unit": "m"}))[::2]
    assert program.run([odd])[0].tolist() == [2.0, 2.0, 2.0]
    for wrong in (np.ones(4, np.float32), np.ones(3), np.float32(1.0), np.ones((3, 1), np.float32)):
        with pytest.raises(wg.GraphError, match=r"input 0 of a program is .*, not \(3,\) float32"):
            program.run([wrong])
