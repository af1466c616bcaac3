"""Transforms in one another: the cases that go wrong where a library is not careful."""

from __future__ import annotations

import gc
import threading
import tracemalloc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.core.mode import get_mode
from wengert.core.ops.record import abstract_input

f64 = wg.float64


def t(x: Any) -> wg.Tensor:
    return wg.tensor(x, dtype=f64)


def same(found: Any, wanted: Any, tolerance: float = 1e-9) -> None:
    np.testing.assert_allclose(found.detach().numpy(), np.asarray(wanted), rtol=tolerance, atol=tolerance)


# The derivative of a scalar function, by each mode. All take and give scalar functions.
MODES: dict[str, Callable[[Any], Any]] = {
    "grad": wg.grad,
    "value_and_grad": lambda f: lambda x: wg.value_and_grad(f)(x)[1],
    "vjp": lambda f: lambda x: wg.vjp(f, x)[1](wg.ones((), dtype=x.dtype))[0],
    "jvp": lambda f: lambda x: wg.jvp(f, (x,), (wg.ones_like(x),))[1],
    "linearize": lambda f: lambda x: wg.linearize(f, x)[1](wg.ones_like(x)),
    "forward": lambda f: wg.jacobian(f, mode="forward"),
    "reverse": lambda f: wg.jacobian(f, mode="reverse"),
    "batched": lambda f: lambda x: wg.vmap(wg.grad(f))(x.reshape(1))[0],
    "batched forward": lambda f: lambda x: wg.vmap(lambda s: wg.jvp(f, (x,), (s,))[1])(wg.ones(1, dtype=x.dtype))[0],
    "traced": lambda f: lambda x: wg.graph(wg.grad(f))(x)(x) if not x.is_abstract else wg.grad(f)(x),
    "looped": lambda f: lambda x: wg.scan(lambda c, _: (wg.grad(f)(c), None), x, length=1)[0],
    "chosen": lambda f: lambda x: wg.cond(x < 100, wg.grad(f), lambda v: v, x),
    "checkpointed": lambda f: wg.checkpoint(wg.grad(wg.checkpoint(f))),
}


# A graph takes abstract tensors from around it only as arguments.
PAIRS = [(o, i) for o in MODES for i in MODES if (o, i) not in (("traced", "traced"), ("batched", "traced"))]


@pytest.mark.parametrize(("outer", "inner"), PAIRS)
def test_perturbations_are_not_confused(outer: str, inner: str) -> None:
    d, e = MODES[outer], MODES[inner]
    same(d(lambda x: x * e(lambda y: x * y * y)(t(2.0)))(t(3.0)), 2 * 3 * 2 * 2)
    same(d(lambda x: e(lambda y: x * wg.sin(x * y))(x))(t(0.5)), 2 * 0.5 * np.cos(0.25) - 2 * 0.5**3 * np.sin(0.25))
    same(e(lambda x: d(lambda y: wg.exp(x * y))(x * x))(t(0.7)), np.exp(0.343) * (1 + 3 * 0.343))


@pytest.mark.parametrize("mode", MODES)
def test_what_is_independent_is_zero(mode: str) -> None:
    d, x = MODES[mode], t(3.0)
    same(d(lambda v: t(2.0) + 0 * v.detach())(x), 0.0)
    same(d(lambda v: v)(x), 1.0)
    same(d(d(lambda v: v))(x), 0.0)
    same(d(lambda v: d(lambda u: v)(v) + v)(x), 1.0)
    same(d(lambda v: wg.stop_gradient(wg.sin(v)) * v)(x), np.sin(3.0))


def quiet(fn: Callable[..., Any]) -> Callable[..., Any]:
    def inner(*args: Any) -> Any:
        with wg.no_grad():
            return fn(*args)

    return inner


QUIET = {
    "op": wg.sin,
    "composite": lambda v: wg.softmax(v, axis=-1),
    "vmap": wg.vmap(wg.sin),
    "grad": wg.grad(lambda v: (v**3).sum()),
    "vjp": lambda v: wg.vjp(wg.sin, v)[1](v)[0],
    "jvp": lambda v: wg.jvp(wg.sin, (v,), (v,))[1],
    "linearize": lambda v: wg.linearize(wg.sin, v)[1](v),
    "jacobian": lambda v: wg.jacobian(wg.sin)(v).sum(axis=0),
    "hvp": lambda v: wg.hvp(lambda u: (u**3).sum(), (v,), (v,)),
    "scan": lambda v: wg.scan(lambda c, x: (c * x, c), t(1.0), v)[1],
    "several": lambda v: wg.linalg.slogdet(wg.eye(2, dtype=f64) + v * v[:, None])[1] * wg.ones(2, dtype=f64),
}
AROUND: dict[str, Callable[[Any, Any], Any]] = {
    "grad": lambda f, x: wg.grad(f)(x),
    "traced grad": lambda f, x: wg.graph(wg.grad(f))(x)(x),
    "grad of a graph": lambda f, x: wg.grad(wg.graph(f)(x))(x),
    "vmap of grad": lambda f, x: wg.vmap(wg.grad(f))(wg.stack([x]))[0],
    "grad of vmap": lambda f, x: wg.grad(lambda u: wg.vmap(f)(wg.stack([u])).sum())(x),
    "grad of a traced scan": lambda f, x: wg.graph(
        wg.grad(lambda u: wg.scan(lambda c, _: (c + f(u), None), t(0.0), length=1)[0])
    )(x)(x),
    "jvp": lambda f, x: wg.stack([wg.jvp(f, (x,), (t(e),))[1] for e in ([1.0, 0.0], [0.0, 1.0])]),
}


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("name", QUIET)
def test_what_runs_under_no_grad_is_a_constant(name: str, around: str) -> None:
    x = t([0.3, 0.4])
    held = quiet(QUIET[name])
    same(AROUND[around](lambda v: (held(v) * v).sum(), x), held(x).numpy())
    same(AROUND[around](lambda v: held(v).sum(), x), [0.0, 0.0])
    same(AROUND[around](lambda v: wg.grad(lambda u: (u**3).sum())(held(v)).sum(), x), [0.0, 0.0])


def test_a_broadcast_operand_of_a_trace_in_a_trace() -> None:
    w, x = t([[0.1, 0.2, 0.3], [0.5, 0.7, 1.1]]).requires_grad_(), t([[0.3, 0.4], [0.1, -0.2]])

    def f(a):
        return wg.tanh(wg.grad(lambda v: wg.tanh(wg.mean(t([[0.5] * 3] * 2) + a.mean() + v.mean())))(w).mean())

    (wanted,) = wg.autograd.grad(2 * (f(x[0]) + f(x[1])), w)
    (found,) = wg.autograd.grad(wg.vmap(lambda a, b: wg.vmap(f)(a).sum(), in_axes=(None, 0))(x, x).sum(), w)
    same(found, wanted.numpy())


def test_a_tracked_result_that_only_depends_on_a_variable_that_is_done() -> None:
    w, x = t([[0.1, 0.2], [0.3, 0.4]]).requires_grad_(), t([[0.5, 0.2], [0.3, -0.4]])
    y = wg.grad(lambda v: wg.tanh(v).sum() + w.sum())(x)
    assert y.requires_grad
    inner = lambda a: wg.tanh(wg.grad(lambda b: wg.tanh(wg.mean(wg.tanh(b))))(a))
    still = y.detach()
    wanted = wg.jvp(inner, (still,), (still,))[1].numpy()
    assert abs(wanted).max() > 1e-3
    same(wg.jvp(inner, (y,), (y,))[1], wanted)
    same(wg.linearize(inner, y)[1](y), wanted)


def test_a_loop_over_values_that_ends_on_an_abstract_one() -> None:
    def f(x, n):
        return (
            wg.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] * 2.0), (wg.tensor(0), t(1.0)), max_steps=5)[1]
            * x
        )

    same(wg.vmap(f)(t([1.0, 2.0]), wg.tensor([1, 3])), [2, 16])
    x, limit = abstract_input(wg.spec((), f64)), abstract_input(wg.spec((), wg.int64))  # no trace is open
    assert f(x, limit).is_abstract


# -- closures


AT_WORK = {
    "scan": lambda v, c: wg.vmap(lambda a: wg.scan(lambda s, _: (s * v * c, None), a, length=1)[0]),
    "cond": lambda v, c: wg.vmap(lambda a: wg.cond(a > 0, lambda s: s * v * c, lambda s: s, a)),
    "graph": lambda v, c: lambda a: wg.graph(lambda s: s * v * c)(a)(a),
    "vmap": lambda v, c: wg.vmap(lambda a: a * v * c),
}


@pytest.mark.parametrize("name", AT_WORK)
def test_a_variable_and_a_constant_of_the_same_array(name: str) -> None:
    x, ones = t(2.0), t([1.0, 1.0])
    for constant in (lambda v: x, lambda v: v.detach()):
        f = lambda v, c=constant: AT_WORK[name](v, c(v))(ones).sum()
        same(wg.grad(f)(x), 4.0)
        same(wg.jvp(f, (x,), (t(1.0),))[1], 4.0)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_closures_over_variables_of_every_level(depth: int) -> None:
    w = t(0.7).requires_grad_()

    def level(k: int, seen: list[Any]) -> Any:
        if k == depth:
            total = w
            for v in seen:
                total = total * v
            return wg.sin(total)
        return wg.vmap(lambda x: wg.grad(lambda y: level(k + 1, [*seen, x, y]))(x * w))(t([0.5, 1.5])).sum()

    def looped(k: int, seen: list[Any], w: Any) -> Any:
        if k == depth:
            total = w
            for v in seen:
                total = total * v
            return wg.sin(total)
        return sum((wg.grad(lambda y, x=x: looped(k + 1, [*seen, x, y], w))(x * w) for x in t([0.5, 1.5])), t(0.0))

    level(0, []).backward()
    same(w.grad, wg.grad(lambda v: looped(0, [], v))(t(0.7)).numpy())


def test_the_same_tensor_twice() -> None:
    x = t([1.0, 2.0])
    for g in (
        wg.grad(lambda a, b: (a * b**2).sum(), argnums=(0, 1))(x, x),
        wg.vjp(lambda a, b: a * b**2, x, x)[1](wg.ones(2, dtype=f64)),
    ):
        assert g[0].shape == (2,) or g.shape == (2,)
    a, b = wg.grad(lambda a, b: (a * b**2).sum(), argnums=(0, 1))(x, x)
    same(a, [1, 4])
    same(b, [2, 8])
    out = wg.vmap(lambda p, q: p - 2 * q)(x, x)
    same(out, [-1, -2])
    _, tangent = wg.jvp(lambda p: p["a"] * p["b"], ({"a": x, "b": x},), ({"a": x, "b": None},))
    same(tangent, [1, 4])
    assert wg.jvp(lambda v: (v, v), (x,), (x,))[1][1].tolist() == [1, 2]


def test_nests_with_none_and_nothing() -> None:
    x = t(2.0)
    assert wg.grad(lambda p: p["x"] ** 2)({"x": x, "none": None, "n": 3, "empty": ()})["none"] is None
    assert wg.vmap(lambda v: {"a": v, "b": None, "c": ()})(wg.ones(2))["b"] is None
    assert wg.jvp(lambda v: {"a": v, "b": None}, (x,), (x,))[1]["b"] is None
    assert wg.jvp(lambda v: (), (x,), (x,)) == ((), ())
    assert wg.vmap(lambda v: ())(wg.ones(2)) == ()


def test_integer_and_boolean_results() -> None:
    x = t([1.0, -2.0])
    out, tangent = wg.jvp(lambda v: (v > 0, v.argmax(), v), (x,), (x,))
    assert tangent[:2] == (None, None)
    assert out[0].tolist() == [True, False]
    assert wg.vmap(lambda v: (v > 0, v.argmax()))(wg.stack([x, -x]))[1].tolist() == [0, 1]
    same(wg.vmap(wg.grad(lambda v: v[v.argmax()] ** 2))(wg.stack([x, -x])), [[2, 0], [0, 4]])


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0)])
def test_arrays_of_no_elements(shape: tuple[int, ...]) -> None:
    x = wg.zeros(shape, dtype=f64)
    f = lambda v: (wg.sin(v) * v).sum()
    assert wg.grad(f)(x).shape == shape
    assert wg.hessian(f)(x).shape == shape * 2
    assert wg.vmap(wg.grad(f))(x).shape == shape
    assert wg.vmap(wg.hessian(f))(wg.zeros((0, 2), dtype=f64)).shape == (0, 2, 2)
    assert wg.jacobian(wg.sin, mode="forward")(x).shape == shape * 2
    same(wg.jvp(f, (x,), (x,))[1], 0.0)


@pytest.mark.parametrize("dtype", [wg.float16, wg.bfloat16, wg.float32, f64, wg.complex64])
def test_dtypes_are_kept(dtype: Any) -> None:
    x = wg.tensor([0.5, 1.0]).astype(dtype)
    f = lambda v: wg.real(v * v * 3.0).sum()
    for found in (
        wg.grad(f)(x),
        wg.vmap(wg.grad(f))(wg.stack([x, x]))[0],
        wg.graph(wg.grad(f))(x)(x),
        wg.grad(lambda v: wg.jvp(f, (v,), (wg.ones_like(x),))[1])(x) * 0.5,
    ):
        assert found.dtype == dtype
    out, tangent = wg.jvp(lambda v: v * v.astype(f64) if dtype != wg.complex64 else v * v, (x,), (x,))
    assert tangent.dtype == out.dtype


# -- writing, modules, hooks


def test_writing_inside() -> None:
    def f(x):
        y = x * 1.0
        y[0] = x[1] * y[1]
        y += x
        y[1:] *= 2.0
        return (y**2).sum()

    x = t([0.5, -1.5, 2.0])
    pure = lambda v: (v[1] * v[1] + v[0]) ** 2 + 16 * v[1] ** 2 + 16 * v[2] ** 2
    for d in (wg.grad, wg.hessian, lambda g: wg.vmap(wg.grad(g)), lambda g: wg.vmap(wg.hessian(g))):
        point = x if d in (wg.grad, wg.hessian) else wg.stack([x, -x])
        same(d(f)(point), d(pure)(point).numpy())
    same(wg.graph(wg.grad(f))(x)(x), wg.grad(pure)(x).numpy())
    same(wg.jvp(wg.grad(f), (x,), (x,))[1], wg.jvp(wg.grad(pure), (x,), (x,))[1].numpy())
    assert x.tolist() == [0.5, -1.5, 2.0]


def test_running_statistics_and_dropout_inside() -> None:
    model = wg.nn.Sequential(wg.nn.Linear(3, 4), wg.nn.BatchNorm1d(4), wg.nn.Dropout(0.5), wg.nn.Linear(4, 1))
    x = wg.randn(6, 3)
    loss = lambda m: (m(x) ** 2).mean()
    before = model[1].running_mean.numpy().copy()
    grads = wg.grad(loss)(model)
    assert all(wg.isfinite(g).all() for g in wg.tree.leaves(grads) if g is not None)
    assert not np.array_equal(model[1].running_mean.numpy(), before)
    assert not model[1].running_mean.requires_grad
    model.eval()
    xs = wg.randn(2, 6, 3)
    per = wg.vmap(wg.grad(lambda m, v: (m(v) ** 2).mean()), in_axes=(None, 0))(model, xs)
    for i in range(2):
        one = wg.grad(lambda m, i=i: (m(xs[i]) ** 2).mean())(model)
        for a, b in zip(wg.tree.leaves(per), wg.tree.leaves(one), strict=True):
            if b is not None:
                np.testing.assert_allclose(a[i].detach().numpy(), b.detach().numpy(), rtol=1e-3, atol=1e-5)


def test_hooks_and_kept_gradients_inside() -> None:
    seen = []

    def f(x):
        y = x * x
        y.retain_grad()
        y.register_hook(lambda g: seen.append(g.shape))
        return (y * 3.0).sum()

    x = t([1.0, 2.0])
    same(wg.grad(f)(x), [6, 12])
    same(wg.jvp(f, (x,), (x,))[1], 30)
    same(wg.hessian(f)(x), [[6, 0], [0, 6]])
    assert seen[0] == (2,)


def test_a_graph_in_every_transform() -> None:
    x = t([0.5, 1.5])
    g = wg.graph(lambda v: (wg.sin(v) * v).sum())(x)
    f = lambda v: (wg.sin(v) * v).sum()
    same(wg.jvp(g, (x,), (x,))[1], wg.jvp(f, (x,), (x,))[1].numpy())
    same(wg.hessian(g)(x), wg.hessian(f)(x).numpy())
    same(wg.vmap(wg.hessian(g))(wg.stack([x]))[0], wg.hessian(f)(x).numpy())
    same(wg.grad(lambda v: wg.vmap(g)(wg.stack([v, v])).sum())(x), 2 * wg.grad(f)(x).numpy())
    same(wg.scan(lambda c, _: (wg.grad(g)(c), None), x, length=1)[0], wg.grad(f)(x).numpy())


# -- what is masked out


@pytest.mark.parametrize("bad", ["log", "sqrt", "reciprocal"])
def test_a_masked_branch_gives_no_nan(bad: str) -> None:
    h = {"log": wg.log, "sqrt": wg.sqrt, "reciprocal": lambda v: 1 / v}[bad]
    x, direction = t([0.0, 4.0, 0.0]), t([1.0, 1.0, 0.0])
    for f in (
        lambda v: wg.where(v > 0, h(v), 0.0).sum(),
        lambda v: h(v)[1:2].sum(),
        lambda v: h(v)[wg.tensor([1, 1])].sum(),
        lambda v: wg.take(h(v), wg.tensor([1])).sum(),
    ):
        first = wg.grad(f)(x)
        assert first[0].item() == 0.0
        same(wg.jvp(f, (x,), (direction,))[1], (first * direction).sum().numpy())
        same(wg.vmap(wg.grad(f))(wg.stack([x, x]))[1], first.numpy())
        same(wg.graph(wg.grad(f))(x)(x), first.numpy())
        second = wg.hessian(f)(x)
        assert np.isfinite(second.numpy()).all()
        same(wg.jvp(wg.grad(f), (x,), (direction,))[1], second.numpy() @ direction.numpy())
        same(wg.vmap(wg.hessian(f))(wg.stack([x, x]))[0], second.numpy())


def test_a_real_nan_survives() -> None:
    x = t([float("nan"), 1.0])
    f = lambda v: wg.where(v == v, v, wg.sqrt(v)).sum()
    assert np.isnan(wg.grad(f)(x)[0].item())
    assert np.isnan(wg.jvp(f, (x,), (t([1.0, 0.0]),))[1].item())
    assert np.isnan(wg.vmap(wg.grad(f))(wg.stack([x]))[0, 0].item())
    zero = t(0.0)
    for d in MODES.values():
        assert np.isnan(d(lambda v: wg.sqrt(v) * wg.sqrt(v) * 0.0)(zero).item())


# -- errors, threads, sizes, memory


class Stop(BaseException):
    pass


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt, Stop])
def test_an_exception_leaves_nothing_behind(kind: Any) -> None:
    def raising(*args):
        raise kind

    x, before = t([1.0, 2.0]), get_mode()
    calls = [
        lambda f: wg.grad(f)(x),
        lambda f: wg.vmap(f)(x),
        lambda f: wg.vmap(wg.grad(f))(x),
        lambda f: wg.jvp(f, (x,), (x,)),
        lambda f: wg.linearize(f, x),
        lambda f: wg.vjp(f, x),
        lambda f: wg.hessian(f)(x),
        lambda f: wg.graph(f)(x),
        lambda f: wg.graph(lambda v: wg.scan(lambda c, r: (f(c), None), v[0], v))(x),
        lambda f: wg.graph(lambda v: wg.cond(v[0] > 0, f, f, v))(x),
        lambda f: wg.checkpoint(f)(x),
        lambda f: quiet(f)(x),
    ]
    for call in calls:
        with pytest.raises(kind):
            call(raising)
        assert get_mode() is before
        same(wg.grad(lambda v: (v * v).sum())(x), [2, 4])


def test_errors_name_the_users_line() -> None:
    def f(x):
        return x @ wg.ones(5)  # the line at fault

    x = wg.ones(3)
    for call in (
        lambda: wg.grad(f)(x),
        lambda: wg.vmap(f)(wg.ones(2, 3)),
        lambda: wg.jvp(f, (x,), (x,)),
        lambda: wg.vmap(wg.hessian(f))(wg.ones(2, 3)),
        lambda: wg.graph(wg.grad(f))(x),
    ):
        with pytest.raises(wg.ShapeError) as caught:
            call()
        assert f"test_nesting.py:{f.__code__.co_firstlineno + 1}" in str(caught.value).splitlines()[0]


def test_threads_do_not_disturb_each_other() -> None:
    found: dict[int, Any] = {}

    def work(k: int) -> None:
        out = 0.0
        for _ in range(20):
            xs = t([0.1 * k, 0.2 * k])
            with wg.no_grad():
                wg.sin(xs)
            out = wg.vmap(wg.hessian(lambda v: wg.sin(v * k) * v))(xs).numpy()
        found[k] = out

    threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k in range(1, 5):
        x = np.array([0.1 * k, 0.2 * k])
        np.testing.assert_allclose(found[k], 2 * k * np.cos(k * x) - k * k * x * np.sin(k * x), rtol=1e-9)


def test_long_chains() -> None:
    def chain(x):
        for _ in range(20_000):
            x = x * 1.00001
        return x

    slope = 1.00001**20_000
    same(wg.jvp(chain, (t(1.0),), (t(1.0),))[1], slope)
    same(wg.vmap(chain)(t([1.0, 2.0])), [slope, 2 * slope])
    same(wg.graph(wg.grad(chain))(t(1.0))(t(1.0)), slope)


def test_calls_leave_no_memory_behind() -> None:
    xs = wg.randn(8, 4)
    f = wg.vmap(wg.grad(lambda v: (wg.tanh(v) * v).sum()))
    push = lambda: wg.jvp(wg.grad(lambda v: (wg.tanh(v) ** 3).sum()), (xs,), (xs,))
    for _ in range(3):
        f(xs), push()
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.take_snapshot()
    for _ in range(100):
        f(xs), push()
    gc.collect()
    grown = sum(s.size_diff for s in tracemalloc.take_snapshot().compare_to(before, "filename"))
    tracemalloc.stop()
    assert grown < 100_000


@pytest.mark.parametrize(
    "call",
    [
        lambda f, x: wg.grad(f)(x),
        lambda f, x: wg.vmap(wg.grad(f))(wg.stack([x, x])),
        lambda f, x: wg.jvp(wg.grad(f), (x,), (x,)),
        lambda f, x: wg.hessian(f)(x),
        lambda f, x: wg.graph(wg.grad(f))(x),
    ],
)
def test_what_was_recorded_is_freed_at_once(call: Any) -> None:
    nodes: list[Any] = []

    def f(x):
        y = wg.tanh(x) * x
        nodes.append(weakref.ref(y.node))
        return y.sum()

    gc.collect()
    gc.disable()
    try:
        call(f, t([0.5, 1.5]))
        assert nodes[0]() is None
    finally:
        gc.enable()
