"""Taylor mode against analytic derivatives and nested forward mode."""

from __future__ import annotations

from collections.abc import Callable
from math import factorial
from typing import Any

import numpy as np
import pytest
from mpmath import mp

import wengert as wg
from forwardchecks import directions, function, moving
from opchecks import OPS, calls
from wengert import Tensor
from wengert.core.ops.op import TABLE

F64 = wg.float64


def f64(values: Any) -> Tensor:
    return wg.tensor(values, dtype=F64)


def derivatives(fn: Callable[[Any], Any], x: Any, direction: Any, order: int) -> list[Any]:
    """By nested forward mode: twice the work for each order."""
    fns = [fn]
    for _ in range(order):
        fns.append(lambda z, f=fns[-1]: wg.jvp(f, (z,), (direction,))[1])
    return [f(x) for f in fns]


ANALYTIC: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], float]] = {
    "exp": (wg.exp, mp.exp, 0.3),
    "sin": (wg.sin, mp.sin, 0.7),
    "tanh": (wg.tanh, mp.tanh, 0.4),
    "log": (wg.log, mp.log, 1.7),
    "log1p": (wg.log1p, lambda x: mp.log(1 + x), 0.6),
    "sqrt": (wg.sqrt, mp.sqrt, 1.3),
    "reciprocal": (lambda x: 1.0 / x, lambda x: 1 / x, 1.4),
    "power": (lambda x: x**2.5, lambda x: x ** mp.mpf("2.5"), 1.2),
    "negative power": (lambda x: x**-2, lambda x: x**-2, 1.2),
    "whole power": (lambda x: x**7, lambda x: x**7, 1.2),
    "power of x": (lambda x: x**x, lambda x: x**x, 1.2),
    "base 2": (lambda x: 2.0**x, lambda x: 2**x, 1.2),
    "lgamma": (wg.special.lgamma, mp.loggamma, 2.3),
    "erf": (wg.special.erf, mp.erf, 0.5),
    "atan": (wg.atan, mp.atan, 0.5),
    "composition": (lambda x: wg.exp(wg.sin(x * x) / (1.0 + x)), lambda x: mp.exp(mp.sin(x * x) / (1 + x)), 0.5),
}


@pytest.mark.parametrize("name", ANALYTIC)
def test_ten_orders_of_known_functions(name: str) -> None:
    fn, reference, at = ANALYTIC[name]
    with mp.workdps(60):
        expected = [float(c) for c in mp.taylor(reference, mp.mpf(at), 10)]
    found = wg.taylor(fn, f64(at), 10, scaled=True)
    np.testing.assert_allclose([c.item() for c in found], expected, rtol=1e-11, atol=1e-13)
    slow = wg.taylor(fn, f64(at), 10)
    np.testing.assert_allclose(
        [c.item() for c in slow], [e * factorial(k) for k, e in enumerate(expected)], rtol=1e-11, atol=1e-13
    )


RNG = np.random.default_rng(0)
A, V = f64(RNG.normal(size=(3, 3))), f64(RNG.normal(size=(3, 3)))
PROGRAMS: dict[str, Callable[[Tensor], Any]] = {
    "softmax": lambda x: wg.softmax(x, axis=-1),
    "logsumexp": lambda x: wg.logsumexp(x, axis=-1),
    "products": lambda x: x @ wg.tanh(x @ x) @ A,
    "quotient": lambda x: x / (2.0 + wg.cos(x)),
    "norm": lambda x: wg.sqrt((x * x).sum()),
    "reductions": lambda x: (x.mean(axis=0, keepdims=True) * x).sum() + wg.prod(x, axis=-1).sum(),
    "relu": lambda x: wg.relu(x) ** 3 + wg.abs(x) + wg.maximum(x, 0.1) * x,
    "where": lambda x: wg.where(x > 0.0, wg.exp(x), wg.sin(x)),
    "structure": lambda x: wg.concat([x[::-1], x.mT.reshape(3, 3) * x], axis=0)[1:4] ** 2,
    "layer norm": lambda x: wg.nn.functional.layer_norm(x, (3,)),
    "gelu": wg.nn.functional.gelu,
    "sorted": lambda x: wg.sort(x, axis=-1) * wg.max(x),
    "several": lambda x: {"a": wg.exp(x), "b": [x.sum(), wg.argmax(x)]},
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_against_nested_forward_mode(name: str) -> None:
    fn = PROGRAMS[name]
    found = wg.taylor(fn, A, 4, V)
    for k, (d, e) in enumerate(zip(found, derivatives(fn, A, V, 4), strict=True)):
        left, right = wg.tree.flatten(d), wg.tree.flatten(e)
        assert left[1] == right[1], k
        for x, y in zip(left[0], right[0], strict=True):
            np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=1e-9, atol=1e-9, err_msg=f"{name} order {k}")


def is_complex(call: Any) -> bool:
    return any(isinstance(a, np.ndarray) and a.dtype.kind == "c" for a in call.args)


def smooth_calls(op: Any) -> list[Any]:
    return [c for c in calls(op) if c.order >= 2 and moving(op, c) and not is_complex(c)]


SMOOTH = [name for name, op in OPS.items() if op.differentiable and smooth_calls(op)]


@pytest.mark.parametrize("name", SMOOTH)
def test_the_table_against_nested_forward_mode(name: str) -> None:
    op = OPS[name]
    for call in smooth_calls(op):
        positions = moving(op, call)
        fn = function(op, call, positions)
        primals = [wg.asarray(call.args[i]) for i in positions]
        ts = directions(3, primals)
        order = 4 if call.order > 2 else 2
        found = wg.taylor(lambda p, fn=fn: fn(*p), primals, order, ts)
        expected = derivatives(lambda p, fn=fn: fn(*p), primals, ts, order)
        for k, (d, e) in enumerate(zip(found, expected, strict=True)):
            for x, y in zip(d, e, strict=True):
                scale = max(1.0, float(np.max(np.abs(y.numpy()), initial=0.0)))
                np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=1e-7, atol=1e-8 * scale, err_msg=f"order {k}")


def applications(run: Callable[[], Any]) -> int:
    """How many times an op's forward runs."""
    count = 0
    forwards = {}

    def counting(forward: Any) -> Any:
        def wrapped(*args: Any, **attrs: Any) -> Any:
            nonlocal count
            count += 1
            return forward(*args, **attrs)

        return wrapped

    fast = TABLE["multiply"].front.__globals__
    for op in TABLE.values():
        forwards[op] = op.forward
        op.forward = counting(op.forward)
        namespace = getattr(getattr(op, "front", None), "__globals__", {})
        if namespace.get("op") is op and "forward" in namespace:
            namespace["forward"] = op.forward
    assert fast["op"] is TABLE["multiply"]
    try:
        run()
    finally:
        for op, forward in forwards.items():
            op.forward = forward
            namespace = getattr(getattr(op, "front", None), "__globals__", {})
            if namespace.get("op") is op and "forward" in namespace:
                namespace["forward"] = forward
    return count


def test_the_cost_is_polynomial() -> None:
    def fn(x: Tensor) -> Tensor:
        for _ in range(3):
            x = wg.sin(wg.tanh(x) * wg.exp(x))
        return x

    counts = [applications(lambda n=n: wg.taylor(fn, f64(0.3), n)) for n in (4, 8, 16)]
    assert counts[0] > 100
    assert counts[1] < 4.5 * counts[0]
    assert counts[2] < 4.5 * counts[1]
    nested = [applications(lambda n=n: derivatives(fn, f64(0.3), f64(1.0), n)) for n in (3, 4)]
    assert nested[1] > 2 * nested[0]


def test_a_long_chain() -> None:
    def fn(x: Tensor) -> Tensor:
        for _ in range(5_000):
            x = x * 0.999 + 0.0001 * x * x
        return x

    assert len(wg.taylor(fn, f64(0.3), 2)) == 3


# -- paths


def test_series_of_higher_order() -> None:
    def path(t: Tensor) -> Tensor:
        return f64([0.5, 0.7]) + t * f64([1.0, 2.0]) + t**2 * f64([0.3, -1.0]) + t**3 * f64([2.0, 0.1])

    fn = lambda x: wg.exp(x).sum() * wg.sin(x).prod()
    expected = [d.item() for d in wg.taylor(lambda t: fn(path(t)), f64(0.0), 5)]
    x = f64([0.5, 0.7])
    scaled = [f64([1.0, 2.0]), f64([0.3, -1.0]), f64([2.0, 0.1])]
    plain = [c * float(factorial(k)) for k, c in enumerate(scaled, 1)]
    np.testing.assert_allclose([d.item() for d in wg.taylor(fn, x, 5, series=plain)], expected, rtol=1e-12)
    found = wg.taylor(fn, x, 5, series=scaled, scaled=True)
    np.testing.assert_allclose([d.item() * factorial(k) for k, d in enumerate(found)], expected, rtol=1e-12)
    np.testing.assert_allclose([d.item() for d in wg.taylor(fn, x, 2, series=plain)], expected[:3], rtol=1e-12)


def test_directions_of_nests() -> None:
    fn = lambda p: {"y": (p["a"] * p["b"] ** 2).sum(), "n": wg.argmax(p["a"]), "c": 1.5}
    p = {"a": f64([1.0, 2.0]), "b": f64(3.0), "k": 7}
    found = wg.taylor(fn, p, 3, {"a": None, "b": f64(1.0), "k": None})
    assert [d["y"].item() for d in found] == [27.0, 18.0, 6.0, 0.0]
    assert found[0]["n"].item() == 1
    assert found[1]["n"] is None
    assert [d["c"].item() for d in found] == [1.5, 0.0, 0.0, 0.0]


def test_whole_powers_at_zero() -> None:
    for n in (0, 1, 2, 3, 5):
        found = wg.taylor(lambda x, n=n: x**n, f64(0.0), 6, scaled=True)
        assert [c.item() for c in found] == [1.0 if k == n else 0.0 for k in range(7)]


def test_absent_is_not_zero() -> None:
    fn = lambda x: wg.where(x > 0.0, wg.log(x), x * x)
    assert [d.item() for d in wg.taylor(fn, f64(0.0), 3)] == [0.0, 0.0, 2.0, 0.0]
    assert [d.item() for d in wg.taylor(wg.stop_gradient, f64(2.0), 2)] == [2.0, 0.0, 0.0]
    assert [d.item() for d in wg.taylor(lambda x: 3.0, f64(2.0), 1)] == [3.0, 0.0]
    assert [d.item() for d in wg.taylor(lambda x: x, f64(2.0), 0)] == [2.0]


def test_dtypes_and_shapes() -> None:
    for dtype in (wg.float32, wg.float16, wg.bfloat16, wg.complex64, wg.complex128):
        x = wg.tensor([0.5, 0.25]).astype(dtype)
        found = wg.taylor(lambda x: wg.exp(x) / (1.0 + x), x, 3)
        assert [d.dtype for d in found] == [dtype] * 4
        expected = wg.taylor(lambda x: wg.exp(x) / (1.0 + x), f64([0.5, 0.25]), 3)
        for d, e in zip(found, expected, strict=True):
            np.testing.assert_allclose(np.asarray(d.astype(wg.complex128)), np.asarray(e), rtol=0.1, atol=0.02)
    assert [d.shape for d in wg.taylor(wg.sin, wg.zeros(0, 2), 2)] == [(0, 2)] * 3


# -- nested in other transforms


def cube(x: Tensor) -> Tensor:
    return wg.sin(x) * x**2


def test_taylor_inside_other_transforms() -> None:
    fourth = derivatives(cube, f64(0.7), f64(1.0), 4)[4]
    for found in (
        wg.grad(lambda x: wg.taylor(cube, x, 3)[3])(f64(0.7)),
        wg.jvp(lambda x: wg.taylor(cube, x, 3)[3], (f64(0.7),), (f64(1.0),))[1],
        wg.taylor(lambda x: wg.taylor(cube, x, 2)[2], f64(0.7), 2)[2],
        wg.taylor(wg.grad(cube), f64(0.7), 3)[3],
        wg.graph(lambda x: wg.taylor(cube, x, 4)[4])(f64(0.7))(f64(0.7)),
        wg.vmap(lambda x: wg.taylor(cube, x, 4)[4])(f64([0.7, 0.1]))[0],
        wg.grad(wg.graph(lambda x: wg.taylor(cube, x, 3)[3])(f64(0.7)))(f64(0.7)),
    ):
        np.testing.assert_allclose(found.item(), fourth.item(), rtol=1e-12)


def test_gradients_in_what_the_function_closes_over() -> None:
    w = f64(1.3).requires_grad_()
    wg.taylor(lambda x: wg.sin(w * x), f64(0.5), 2)[2].backward()
    fn = lambda w: -(w**2) * wg.sin(w * 0.5)
    np.testing.assert_allclose(w.grad.item(), wg.grad(fn)(f64(1.3)).item(), rtol=1e-12)
    inner = wg.grad(lambda w: wg.taylor(lambda x: wg.sin(w * x), f64(0.5), 2)[2])(f64(1.3))
    np.testing.assert_allclose(inner.item(), w.grad.item(), rtol=1e-12)
    direction = wg.grad(lambda d: wg.taylor(wg.sin, f64(0.5), 2, d)[2])(f64(1.3))
    np.testing.assert_allclose(direction.item(), -2.0 * 1.3 * np.sin(0.5), rtol=1e-12)


@wg.custom_jvp
def odd(x: Tensor) -> Tensor:
    return wg.sin(x)


odd.defjvps(lambda t, out, x: 2.0 * t * wg.cos(x))


def test_custom_rules() -> None:
    found = [d.item() for d in wg.taylor(odd, f64(0.3), 3)]
    s, c = np.sin(0.3), np.cos(0.3)
    np.testing.assert_allclose(found, [s, 2.0 * c, -2.0 * s, -2.0 * c], rtol=1e-12)
    w = f64(2.0)
    np.testing.assert_allclose(
        [d.item() for d in wg.taylor(wg.checkpoint(lambda x: wg.exp(w * x)), f64(0.0), 3)], [1.0, 2.0, 4.0, 8.0]
    )


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: wg.taylor(wg.sin, 0.5, -1), wg.GradientError, "order -1"),
        (lambda: wg.taylor(wg.sin, 0.5, 1.0), wg.GradientError, "order 1.0"),
        (lambda: wg.taylor(wg.sin, 3, 1), wg.DTypeError, "int"),
        (lambda: wg.taylor(wg.sin, f64([1.0]), 1, f64([1.0, 2.0])), wg.ShapeError, r"\(2,\)"),
        (lambda: wg.taylor(wg.sin, 0.5, 1, {"a": 1.0}), wg.GradientError, "structure"),
        (lambda: wg.taylor(wg.sin, 0.5, 1, 1.0, series=[1.0]), wg.GradientError, "one of them"),
        (lambda: wg.taylor(wg.sin, 0.5, 1, 1j), wg.DTypeError, "complex"),
    ],
)
def test_errors(call: Any, kind: Any, text: str) -> None:
    with pytest.raises(kind, match=text):
        call()
