"""`wg.jit`: decisions on values, and uses of a value that no compiled function has."""

from __future__ import annotations

import itertools
import math
import warnings
from typing import Any

import numpy as np
import pytest

import wengert as wg


def close(a: Any, b: Any, rtol: float = 1e-5) -> None:
    np.testing.assert_allclose(np.asarray(a.detach()), b.detach() if isinstance(b, wg.Tensor) else b, rtol=rtol)


def test_every_branch_is_taken_by_the_value_of_the_call() -> None:
    count = itertools.count()

    @wg.jit
    def fn(x: Any) -> Any:
        next(count)
        if x.sum() > 0:
            return wg.sin(x) if x[0] > 1 else wg.cos(x)
        if not x[0]:
            return x - 1
        return -x

    def plain(x: Any) -> Any:
        s, first = np.asarray(x).sum(), float(x[0])
        if s > 0:
            return wg.sin(x) if first > 1 else wg.cos(x)
        return x - 1 if not first else -x

    points = [[2.0, 1.0], [0.5, 1.0], [0.0, -1.0], [-1.0, 0.0], [math.nan, 1.0], [math.inf, 1.0]]
    for _ in range(3):
        for p in points:
            close(fn(wg.tensor(p)), plain(wg.tensor(p)))
    assert next(count) == 4


def test_state_is_written_only_by_the_branch_that_is_taken() -> None:
    total, calls = wg.zeros(()), wg.zeros(())

    @wg.jit
    def fn(x: Any) -> None:
        calls.add_(1.0)
        if x > 0:
            total.add_(x)
        elif x < -10:
            total.sub_(100.0)

    want = 0.0
    for x in (1.0, -1.0, 2.0, -20.0, 3.0, -1.0):
        fn(wg.tensor(x))
        want += x if x > 0 else -100.0 if x < -10 else 0.0
    assert float(total) == want
    assert float(calls) == 6


def newton(a: Any) -> Any:
    x = a
    while abs(x * x - a) > 1e-10 * a:
        x = 0.5 * (x + a / x)
    return x


def bisect(f: Any, low: Any, high: Any) -> Any:
    for _ in range(60):
        middle = 0.5 * (low + high)
        if f(middle) == 0 or high - low < 1e-9:
            break
        if (f(middle) > 0) == (f(high) > 0):
            high = middle
        else:
            low = middle
    return 0.5 * (low + high)


def integrate(y: Any, t: Any, end: Any, tol: float) -> Any:
    """Heun's method with Euler's as the estimate of the error, steps halved and doubled."""
    h = (end - t) / 4
    steps = 0
    while t < end:
        h = wg.minimum(h, end - t)
        a = -y * y
        b = -((y + h * a) ** 2)
        if (abs(b - a) * h / 2).max() > tol:
            h = h / 2
            continue
        y, t = y + h * (a + b) / 2, t + h
        h = 2 * h
        steps += 1
    return y, wg.tensor(steps)


def test_newton_until_converged() -> None:
    fn = wg.jit(newton)
    for a in (2.0, 100.0, 3.0, 1e6, 2.0, 1.0):
        close(fn(wg.tensor(a, dtype=wg.float64)), math.sqrt(a), 1e-9)


def test_gradients_through_a_loop_that_ends_on_a_value() -> None:
    for a in (2.0, 50.0, 2.0):
        x = wg.tensor(a, dtype=wg.float64)
        close(wg.jit(wg.grad(newton))(x), 0.5 / math.sqrt(a), 1e-8)
        close(wg.grad(wg.jit(newton))(x), 0.5 / math.sqrt(a), 1e-8)


def test_bisection() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        fn = wg.jit(lambda c, low, high: bisect(lambda x: x**3 - c, low, high))
        for c in (2.0, 5.0, 2.0):
            low, high = wg.tensor(0.0, dtype=wg.float64), wg.tensor(3.0, dtype=wg.float64)
            close(fn(wg.tensor(c, dtype=wg.float64), low, high), c ** (1 / 3), 1e-8)


def test_an_adaptive_integrator() -> None:
    fn = wg.jit(integrate, static_argnames="tol")
    for y0 in (1.0, 3.0, 0.1, 1.0):
        args = (wg.tensor(y0, dtype=wg.float64), wg.tensor(0.0, dtype=wg.float64), wg.tensor(1.0, dtype=wg.float64))
        want, steps = integrate(*args, tol=1e-3)
        got, taken = fn(*args, tol=1e-3)
        close(got, want, 1e-12)
        assert int(steps) == int(taken)


def test_ints_and_floats_of_tensors() -> None:
    @wg.jit
    def fn(x: Any, n: Any) -> Any:
        for _ in range(int(n)):
            x = x * 2
        return x[: int(n)] * float(x[0]) if int(n) else x

    for n in (0, 1, 3, 1, 0):
        x = wg.tensor([1.0, 2.0, 3.0, 4.0])
        y = x * 2**n
        close(fn(x, wg.tensor(n)), y[:n] * y[0] if n else y)


def test_many_paths_warn_once_and_stay_bounded() -> None:
    @wg.jit
    def fn(n: Any) -> Any:
        return wg.ones(()) * int(n)

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for n in range(300):
            assert int(fn(wg.tensor(n))) == n
    found = [w for w in seen if "while_loop" in str(w.message)]
    assert len(found) == 1
    assert __file__ in str(found[0].message).splitlines()[0]


def test_a_path_that_fails_does_so_only_where_it_is_taken() -> None:
    @wg.jit
    def fn(a: Any) -> Any:
        if wg.linalg.det(a) == 0:
            return wg.zeros(2)
        return wg.linalg.solve(a, wg.ones(2))

    for _ in range(2):
        close(fn(wg.eye(2)), [1, 1])
        close(fn(wg.zeros(2, 2)), [0, 0])


@pytest.mark.parametrize(
    "use",
    [
        lambda x: x.item(),
        lambda x: x.numpy(),
        lambda x: x.tolist(),
        lambda x: np.asarray(x),
        lambda x: print(x),
        lambda x: f"{x:.3f}",
        lambda x: f"{x}",
        lambda x: np.array([1.0]) @ np.asarray(x),
    ],
    ids=["item", "numpy", "tolist", "asarray", "print", "format", "f-string", "product"],
)
def test_escapes_name_the_line_and_the_way_out(use: Any) -> None:
    with pytest.raises(wg.TraceError) as caught:
        wg.jit(lambda x: use((x * 2).sum()))(wg.ones(2))
    first, rest = str(caught.value).split("\n", 1)
    assert f"{__file__}:" in first
    assert "wg.debug.print" in rest
    assert "wg.callback" in rest


def test_a_decision_inside_vmap_is_refused_as_ever() -> None:
    with pytest.raises(wg.TraceError, match=r"wg\.where"):
        wg.jit(lambda x: wg.vmap(lambda r: r if r > 0 else -r)(x))(wg.ones(3))


def test_printing_happens_at_every_run_on_the_path_that_is_taken(capsys: Any) -> None:
    @wg.jit
    def fn(x: Any) -> Any:
        wg.debug.print("in {}", x)
        if x > 0:
            wg.debug.print("positive {:.1f}", x * 2)
        else:
            wg.debug.print("negative {:.1f}", x * 2)
        return x + 1

    for x in (1.0, -1.0, 1.0, -3.0):
        close(fn(wg.tensor(x)), x + 1)
    said = [f"in tensor({x})\n{'positive' if x > 0 else 'negative'} {2 * x:.1f}\n" for x in (1.0, -1.0, 1.0, -3.0)]
    assert capsys.readouterr().out == "".join(said).replace(".0)", ".)")


def test_printing_under_transforms(capsys: Any) -> None:
    def fn(x: Any) -> Any:
        return wg.debug.print("{:.0f}", x) ** 2

    for make in (lambda f: f, wg.jit):
        close(make(wg.grad(fn))(wg.tensor(3.0)), 6)
        close(make(wg.vmap(fn))(wg.tensor([1.0, 2.0])), [1, 4])
        assert sorted(capsys.readouterr().out.split()) == ["1", "2", "3"]


def test_callbacks_anywhere() -> None:
    def sort(x: Any, n: Any) -> Any:
        assert not x.flags.writeable
        return {"sorted": np.sort(x), "count": int(n) + 1}

    spec = {"sorted": wg.spec((3,)), "count": wg.spec((), wg.int64)}

    def fn(x: Any) -> Any:
        return wg.callback(sort, spec, x * 2, 4)

    x = wg.tensor([3.0, 1.0, 2.0])
    for f in (fn, wg.jit(fn)):
        for _ in range(2):
            found = f(x)
            close(found["sorted"], [2, 4, 6])
            assert int(found["count"]) == 5
    both = wg.jit(wg.vmap(fn))(wg.stack([x, x + 1]))
    close(both["sorted"], [[2, 4, 6], [4, 6, 8]])


def test_callbacks_have_no_derivative_and_say_so() -> None:
    def fn(x: Any) -> Any:
        return wg.callback(np.cos, wg.spec((3,)), x).sum()

    for f in (wg.grad(fn), wg.jit(wg.grad(fn)), wg.grad(wg.jit(fn))):
        with pytest.raises(wg.GradientError, match=r"(?s)callback has no derivative.*custom_vjp"):
            f(wg.ones(3))
    with pytest.raises(wg.ShapeError, match="returned shape"):
        wg.callback(lambda x: x[:2], wg.spec((3,)), wg.ones(3))


def test_signs_of_zeros_in_complex_numbers_count() -> None:
    at = [complex(-1.0, 0.0)]
    fn = wg.jit(lambda x: wg.sqrt(wg.asarray(at[0])) * x)
    for number in (complex(-1.0, 0.0), complex(-1.0, -0.0), complex(-1.0, 0.0)):
        at[0] = number
        for _ in range(4):
            assert complex(fn(wg.tensor(1.0))) == complex(np.sqrt(number))  # on either side of the branch cut


def test_a_decision_on_what_was_dropped_at_random() -> None:
    def fn(x: Any) -> Any:
        y = wg.nn.functional.dropout(x, 0.5).mT @ x
        return y if y.sum() > 1e9 else -y

    x = wg.ones((3, 2))
    wg.manual_seed(1)
    expected = [fn(x).numpy() for _ in range(6)]
    wg.manual_seed(1)
    compiled = wg.jit(fn)
    for y in expected:
        close(compiled(x), y)


@pytest.mark.parametrize("arguments", [1, 2])
@pytest.mark.parametrize("raises", [ValueError, KeyError])
def test_what_a_callback_raises_is_told_and_it_is_called_once(arguments: int, raises: type[Exception]) -> None:
    calls = []

    def first_fails(*xs: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise raises("no data yet")
        return xs[0]

    with pytest.raises(raises, match="no data yet"):
        wg.callback(first_fails, wg.spec((3,)), *[wg.ones(3)] * arguments)
    assert len(calls) == 1
    assert wg.callback(first_fails, wg.spec((3,)), *[wg.ones(3)] * arguments).tolist() == [1.0] * 3
