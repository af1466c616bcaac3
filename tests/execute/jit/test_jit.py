"""`wg.jit`: what it computes is what the function computes, called in any way, inside anything."""

from __future__ import annotations

import importlib
import itertools
import platform
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import wengert as wg
from wengert import nn
from wengert.execute.native.codegen import machine


class Pair(NamedTuple):
    a: Any
    b: Any


def close(a: Any, b: Any) -> None:
    np.testing.assert_allclose(np.asarray(wg.asarray(a).detach()), np.asarray(wg.asarray(b).detach()), rtol=1e-5)


# What counts how often Python code runs must not be state that a compiled function would depend on.
def ran(count: Any) -> int:
    return next(count)


def test_nests_of_tensors_arrays_and_numbers() -> None:
    def fn(p: Any, q: Any, *rest: Any, scale: Any = 1.0, **more: Any) -> Any:
        return {"sum": p["w"] + p["b"], "pair": Pair(q[0] * scale, [r * 2 for r in rest]), "none": None, **more}

    args = ({"w": wg.ones(3), "b": np.arange(3.0)}, (np.float32(2), wg.ones(2)), wg.ones(1), np.arange(2))
    kwargs = {"scale": 3.0, "name": "x", "extra": wg.zeros(2)}
    want, got = fn(*args, **kwargs), wg.jit(fn)(*args, **kwargs)
    assert got["name"] == "x"
    assert got["none"] is None
    assert type(got["pair"]) is Pair
    assert wg.tree.structure(want) == wg.tree.structure(got)
    for a, b in zip(wg.tree.leaves(want), wg.tree.leaves(got), strict=True):
        if isinstance(a, wg.Tensor):
            assert a.dtype == b.dtype
            close(a, b)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).astype(">f8"),
        np.arange(12.0)[::2],
        np.arange(6.0)[::-1],
        np.arange(12.0).reshape(3, 4).T,
        np.frombuffer(b"\0" + np.arange(3.0).tobytes(), np.float64, 3, 1),
        np.zeros((0, 3)),
        np.float64(2.0),
        np.broadcast_to(np.float32(3), (2, 3)),
    ],
    ids=["big-endian", "strided", "negative", "transposed", "misaligned", "empty", "scalar", "broadcast"],
)
def test_arrays_of_any_layout(array: Any) -> None:
    want = wg.asarray(array) * 2
    got = wg.jit(lambda x: x * 2)(array)
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    close(got, want)


def test_results_share_nothing_with_the_callers_arrays() -> None:
    x = np.arange(4.0)
    same, view = wg.jit(lambda x: (x, x.reshape(2, 2)))(x)
    x[:] = -1
    assert same.tolist() == [0, 1, 2, 3]
    assert view.tolist() == [[0, 1], [2, 3]]


def test_python_numbers_are_weak_and_their_values_no_reason_to_trace_again() -> None:
    count = itertools.count()

    @wg.jit
    def fn(x: Any, lr: Any) -> Any:
        next(count)
        return x * lr, x - lr * 2 / (1 + lr), lr * lr, x**lr, wg.where(x > lr, lr, x)

    for dtype in (wg.float32, wg.float64, wg.float16, wg.int32):
        x = wg.arange(1, 4, dtype=dtype)
        for lr in (0.1, 2.5, 7.0):
            want = (
                x * lr,
                x - lr * 2 / (1 + lr),
                wg.asarray(lr * lr, dtype=wg.float64),
                x**lr,
                wg.where(x > lr, lr, x),
            )
            for a, b in zip(fn(x, lr), want, strict=True):
                assert a.dtype == b.dtype
                close(a, b)
    assert ran(count) == 4


def test_ints_and_bools_may_decide_shapes() -> None:
    @wg.jit
    def fn(x: Any, n: int, flip: bool) -> Any:
        y = x[:n].reshape(n, -1).sum(axis=n - n)
        return -y if flip else y

    for n in (1, 2, 3, 2):
        close(fn(wg.arange(5.0), n, n == 2), wg.arange(5.0)[:n].sum() * (-1 if n == 2 else 1))


def test_an_int_that_changes_becomes_an_input() -> None:
    count = itertools.count()

    @wg.jit
    def fn(x: Any, t: int) -> Any:
        next(count)
        return x / t

    for t in range(1, 10):
        close(fn(wg.ones(2), t), wg.ones(2) / t)
    assert ran(count) == 2


def test_an_option_that_must_be_a_number_stays_one() -> None:
    fn = wg.jit(lambda x, p, axis: wg.sum(wg.nn.functional.leaky_relu(x, p), axis=axis))
    x = wg.tensor([[-1.0, 2.0]])
    for p in (0.1, 0.2):
        for axis in (0, 1, 0):
            close(fn(x, p, axis), wg.sum(wg.nn.functional.leaky_relu(x, p), axis=axis))


def test_static_arguments() -> None:
    fn = wg.jit(lambda x, shape, how="sum": getattr(x.reshape(shape), how)(), static_argnums=1, static_argnames="how")
    close(fn(wg.arange(6.0), (2, 3)), 15.0)
    close(fn(wg.arange(6.0), (3, 2), how="mean"), 2.5)
    close(fn(wg.arange(6.0), shape=(3, 2), how="max"), 5.0)
    with pytest.raises(wg.DTypeError, match="not hashable"):
        fn(wg.arange(6.0), [2, 3])
    with pytest.raises(wg.GraphError, match="static_argnames"):
        wg.jit(lambda x: x, static_argnames="y")


def test_what_is_no_value_names_static_argnums() -> None:
    class Odd:
        __hash__ = None  # type: ignore[assignment]

    with pytest.raises(wg.DTypeError, match=r"(?s)Odd.*static_arg"):
        wg.jit(lambda x, o: x)(wg.ones(1), Odd())


def test_methods_and_decorated_with_options() -> None:
    class Model:
        def __init__(self, k: float) -> None:
            self.w = wg.full((2,), k)

        @wg.jit
        def f(self, x: Any) -> Any:
            return self.w * x

        @wg.jit(name="named")
        def g(self, x: Any) -> Any:
            return self.w + x

    a, b = Model(2.0), Model(3.0)
    for _ in range(2):
        close(a.f(wg.ones(2)), [2, 2])
        close(b.f(wg.ones(2)), [3, 3])
        close(b.g(wg.ones(2)), [4, 4])


def test_results_carry_gradients_on() -> None:
    w = wg.tensor([1.0, 2.0], requires_grad=True)
    x = wg.tensor([3.0, 4.0], requires_grad=True)
    fn = wg.jit(lambda x: ((w * x).sum(), x.detach() * 2, x > 0))
    loss, detached, mask = fn(x)
    assert loss.requires_grad
    assert not detached.requires_grad
    assert not mask.requires_grad
    (loss * 2).backward()
    close(w.grad, [6, 8])
    close(x.grad, [2, 4])
    with wg.no_grad():
        assert not fn(x)[0].requires_grad
    y = x * 3
    (g,) = wg.autograd.grad(fn(y)[0], x, create_graph=True)
    close(g, [3, 6])


def f_cubic(x: Any) -> Any:
    return (x**3 * wg.sin(x)).sum()


@pytest.mark.parametrize("order", ["inside", "outside", "both"])
@pytest.mark.parametrize(
    "transform",
    [
        wg.grad,
        wg.value_and_grad,
        wg.jacobian,
        wg.hessian,
        lambda f: wg.grad(lambda x: wg.grad(f)(x).sum()),
        lambda f: lambda x: wg.jvp(f, (x,), (wg.ones_like(x),)),
        lambda f: lambda x: wg.vmap(f)(wg.stack([x, 2 * x])),
        lambda f: lambda x: wg.vmap(wg.grad(f))(wg.stack([x, 2 * x])),
        lambda f: lambda x: wg.scan(lambda c, r: (c + f(r * x), c), wg.tensor(0.0), wg.stack([x, x])),
        lambda f: lambda x: wg.vjp(f, x)[0],
        lambda f: wg.grad(wg.checkpoint(f)),
    ],
)
def test_inside_and_outside_of_transforms(transform: Any, order: str) -> None:
    x = wg.tensor([0.5, 1.5, 2.0])
    want = transform(f_cubic)(x)
    if order == "inside":
        got = transform(wg.jit(f_cubic))(x)
    elif order == "outside":
        got = wg.jit(transform(f_cubic))(x)
    else:
        got = wg.jit(transform(wg.jit(f_cubic)))(x)
    for a, b in zip(wg.tree.leaves(want), wg.tree.leaves(got), strict=True):
        close(a, b)


def test_shapes_and_dtypes_are_told_apart() -> None:
    fn = wg.jit(lambda x: x.sum(axis=0))
    for shape in ((3,), (2, 3), (0, 2), (1,)):
        for dtype in (wg.float32, wg.float64, wg.int64, wg.bool):
            x = wg.ones(shape, dtype=dtype)
            got = fn(x)
            assert got.dtype == x.sum(axis=0).dtype
            close(got, x.sum(axis=0))


def test_modules_as_arguments() -> None:
    fn = wg.jit(lambda m, x: m(x))
    for seed in (0, 1):
        wg.manual_seed(seed)
        model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
        close(fn(model, wg.ones(2, 3)), model(wg.ones(2, 3)))


def test_an_exception_of_the_functions_own_does_what_stands_before_it() -> None:
    w = wg.tensor([1.0, 2.0], requires_grad=True)
    box = {"h": wg.ones(2)}

    @wg.jit
    def fn(x: Any) -> Any:
        box["h"] = box["h"] + x
        box["new"] = x
        (w * x).sum().backward()
        with wg.no_grad():
            w.sub_(x)
        raise KeyError("mine")

    for k in range(1, 3):
        with pytest.raises(KeyError, match="mine"):
            fn(wg.ones(2))
        assert w.tolist() == [1 - k, 2 - k]
        assert w.grad.tolist() == [k, k]
        assert w.is_leaf
        assert w.requires_grad
        assert list(box) == ["h", "new"]
        assert box["h"].tolist() == [1 + k, 1 + k]
    w.grad = None
    (w * w).sum().backward()
    close(w.grad, [-2, 0])


def test_why_it_was_traced_again() -> None:
    state = {"k": 2.0}

    @wg.jit
    def fn(x: Any, how: str = "sum") -> Any:
        if x[0] > 0:
            return getattr(x * state["k"], how)()
        return x

    assert "not been traced" in fn.why_recompiled()
    fn(wg.ones(2))
    fn(wg.ones(3))
    fn(wg.ones(3), how="mean")
    state["k"] = 3.0
    fn(wg.ones(3))
    fn(-wg.ones(3))
    text = fn.why_recompiled()
    for part in (
        "5 times",
        "x: (3,) float32 where it was (2,) float32",
        "'mean'",
        "3.0 where it was 2.0",
        "another path",
    ):
        assert part in text, text
    assert text.count(__file__) >= 5
    assert fn.cache_info() == (4, 5, 5)
    fn.clear_cache()
    assert fn.cache_info()[:2] == (0, 0)
    close(fn(wg.ones(3)), 9.0)


def test_a_trace_that_was_only_shown_is_told_of_the_call_after_it() -> None:
    fn = wg.jit(lambda x: x * 2, name="double")
    fn(wg.ones(2))
    fn.lower(wg.spec((3,)))
    fn(wg.ones(3))
    assert fn.why_recompiled().splitlines()[-1].strip() == "for what trace 2 was for, whose program is gone"


def test_ahead_of_time() -> None:
    count = itertools.count()

    @wg.jit
    def fn(p: Any, x: Any) -> Any:
        next(count)
        return p["w"] * x

    lowered = fn.lower({"w": wg.spec(())}, x=wg.spec((3,)))
    assert [lowered.graph.names[n] for n in lowered.graph.inputs] == ["p.w", "x"]
    compiled = lowered.compile()
    close(compiled({"w": wg.tensor(2.0)}, x=np.ones(3, np.float32)), [2, 2, 2])
    assert ran(count) == 1
    assert compiled.graph is lowered.graph
    with pytest.raises(wg.TraceError, match="needs the value"):
        wg.jit(lambda x: x if x > 0 else -x).lower(wg.spec(()))


def test_verify_names_the_operation_that_differs(monkeypatch: Any) -> None:
    pytest.importorskip("llvmlite")
    fn = wg.jit(lambda x: (wg.exp(x) * 2).sum(), verify=True)
    x = wg.linspace(-1.0, 1.0, 37)
    close(fn(x), (wg.exp(x) * 2).sum())
    verify = importlib.import_module("wengert.execute.jit.verify")
    real = verify.executor

    class Wrong:
        def __init__(self, graph: Any, donated: Any = None, limit: Any = None) -> None:
            self.graph, self.native = graph, real(graph)

        def run(self, arrays: Any) -> Any:
            outs = self.native.run(arrays)
            return [
                o * 1.01
                if any(n.op.name == "exp" for n in (node, *node.inputs) if isinstance(n, wg.Node)) or o.ndim == 0
                else o
                for o, node in zip(outs, self.graph.outputs)
            ]

    monkeypatch.setattr(verify, "executor", Wrong)
    with pytest.raises(wg.GraphError) as caught:
        wg.jit(lambda x: (wg.exp(x) * 2).sum(), verify=True)(x)
    first, rest = str(caught.value).split("\n")
    assert "exp" in first
    assert "ulp" in first
    assert __file__ in first
    assert f"{__file__}:" in rest
    assert "wg.exp(x)" in rest


def test_nothing_flows_where_no_gradient_comes_from() -> None:
    x = wg.tensor([0.0, 1.0], requires_grad=True)
    fn = wg.jit(lambda x: (wg.log(x).sum(), (2 * x).sum()))
    fn(x)[1].backward()
    close(x.grad, [2, 2])


def test_repeated_calls_take_the_short_way_and_are_still_looked_at() -> None:
    w = wg.ones(2)
    fn = wg.jit(lambda p, x, k: {"y": p["a"] * x * k + w, "n": None, "s": (x, "text")})
    p = {"a": wg.full((2,), 3.0)}
    for _ in range(3):
        close(fn(p, np.ones(2, np.float32), 2.0)["y"], [7, 7])
    assert len(fn._short) == 1
    close(fn({"a": wg.ones(2)}, np.ones(2, np.float32), 2.0)["y"], [3, 3])
    close(fn({"b": 1, "a": wg.ones(2)}, np.ones(2, np.float32), 2.0)["y"], [3, 3])
    close(fn(p, np.ones(4, np.float32)[::2], 2.0)["y"], [7, 7])
    close(fn(p, np.ones((3, 2), np.float32), 2.0)["y"], np.full((3, 2), 7))
    assert fn(p, np.ones(2), 2.0)["y"].dtype == wg.float64
    close(wg.vmap(lambda x: fn(p, x, 2.0)["y"])(wg.ones(3, 2)), np.full((3, 2), 7))
    q = {"a": wg.full((2,), 3.0, dtype=wg.float32).requires_grad_()}
    assert fn(q, np.ones(2, np.float32), 2.0)["y"].requires_grad
    w.add_(1.0)
    close(fn(p, np.ones(2, np.float32), 2.0)["y"], [8, 8])
    with wg.no_grad():
        close(fn(p, np.ones(2, np.float32), 3.0)["y"], [11, 11])


def test_the_oldest_llvmlite_is_said_in_one_way() -> None:
    text = (Path(__file__).parents[3] / "pyproject.toml").read_text()
    assert f'"llvmlite>={machine.OLDEST_LLVMLITE}"' in text
    assert f"The oldest version is {machine.OLDEST_LLVMLITE} " in (
        Path(__file__).parents[3] / "docs" / "compilation.md"
    ).read_text().replace("\n", " ")


@pytest.mark.parametrize("kind", ["absent", "old", "processor"])
def test_without_a_code_generator_the_interpreter_runs_and_says_so_once(monkeypatch: Any, kind: str) -> None:
    binding = pytest.importorskip("llvmlite.binding")
    executor = importlib.import_module("wengert.execute.jit.executor")
    if kind == "absent":
        monkeypatch.setitem(sys.modules, "llvmlite", None)
    elif kind == "old":
        monkeypatch.setattr(binding, "llvm_version_info", (15, 0, 7))
    else:
        monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    for cached in (machine.llvm, executor.has_native):
        cached.cache_clear()
    fn = wg.jit(lambda x: x * 2)
    said = {"absent": "llvmlite is not installed", "old": "is older than 0.45", "processor": "riscv64"}[kind]
    with pytest.warns(RuntimeWarning, match=said) as seen:
        found = [fn(wg.ones(2)), fn(wg.ones(3))]
    for cached in (machine.llvm, executor.has_native):
        cached.cache_clear()
    close(found[0], [2, 2])
    close(found[1], [2, 2, 2])
    assert len(seen) == 1
    with pytest.raises(wg.GraphError, match="interpreter"):
        _ = fn.plan
