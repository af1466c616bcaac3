"""Functions of Python numbers are numbers; the default dtype; pytrees of tensors; values that leave a derivative."""

from __future__ import annotations

import copy
import math
import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg

X = np.array([0.3, 1.7, 2.9])


def x64() -> wg.Tensor:
    return wg.asarray(X)


def x32() -> wg.Tensor:
    return wg.asarray(X.astype(np.float32))


# Programs on float64 data with Python numbers, and what they are by Python's arithmetic.
PROGRAMS: dict[str, tuple[Callable[[Any], Any], Callable[[np.ndarray], Any]]] = {
    "discount": (lambda x: x * wg.exp(-0.05 * 0.7), lambda x: x * math.exp(-0.05 * 0.7)),
    "square root": (lambda x: wg.sqrt(2.0) * x, lambda x: math.sqrt(2.0) * x),
    "of an int": (lambda x: wg.sqrt(2) * x, lambda x: math.sqrt(2.0) * x),
    "log of pi": (lambda x: 0.5 * wg.log(2 * math.pi) + x, lambda x: 0.5 * math.log(2 * math.pi) + x),
    "choice": (lambda x: wg.where(x > 1, 0.1, 0.2) * x, lambda x: np.where(x > 1, 0.1, 0.2) * x),
    "choice, reshaped": (
        lambda x: (wg.where(x > 1, 0.1, 0.2).reshape(3, 1)[:, 0].flip()) @ x,
        lambda x: np.where(x > 1, 0.1, 0.2)[::-1] @ x,
    ),
    "choice, summed": (lambda x: wg.where(x > 1, 0.1, 0.2).sum() * x, lambda x: np.where(x > 1, 0.1, 0.2).sum() * x),
    "composite": (lambda x: wg.sigmoid(0.3) + wg.nn.functional.softplus(0.1) * x, None),
    "several": (lambda x: wg.maximum(wg.sin(0.1), wg.cos(1.5) * 2) - x, None),
    "clipped": (lambda x: wg.clip(0.1, 0.2, 0.3) * x, lambda x: 0.2 * x),
    "stacked": (lambda x: wg.stack([wg.sqrt(2.0), wg.sqrt(3.0), wg.exp(0.1)]) * x, None),
    "power": (lambda x: wg.pow(0.1, 0.3) * x, lambda x: 0.1**0.3 * x),
    "chosen among tensors": (lambda x: wg.where(x > 1, x, 0.1), lambda x: np.where(x > 1, x, 0.1)),
    "pytree": (lambda x: wg.asarray([x[0], 0.1, wg.sqrt(2.0)]), lambda x: np.array([x[0], 0.1, math.sqrt(2.0)])),
    "distribution": (lambda x: wg.distributions.Normal(0.1, 0.3).log_prob(x), None),
    "lerp and friends": (lambda x: x.clone().lerp_(0.3, 0.1) + wg.special.xlogy(x, 0.1), None),
}
REFERENCES: dict[str, Callable[[np.ndarray], Any]] = {
    "composite": lambda x: 1 / (1 + math.exp(-0.3)) + math.log1p(math.exp(0.1)) * x,
    "several": lambda x: max(math.sin(0.1), math.cos(1.5) * 2) - x,
    "stacked": lambda x: np.array([math.sqrt(2.0), math.sqrt(3.0), math.exp(0.1)]) * x,
    "distribution": lambda x: -0.5 * ((x - 0.1) / 0.3) ** 2 - math.log(0.3) - 0.5 * math.log(2 * math.pi),
    "lerp and friends": lambda x: x + 0.1 * (0.3 - x) + x * math.log(0.1),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_python_numbers_stay_exact_beside_float64(name: str) -> None:
    f, reference = PROGRAMS[name]
    expected = (reference or REFERENCES[name])(X)
    runs: list[Callable[[], Any]] = [
        lambda: f(x64()),
        lambda: wg.graph(f)(x64())(x64()),
        lambda: wg.vmap(f)(x64()[None])[0],
        lambda: wg.vjp(f, x64())[0],
        lambda: wg.jvp(f, (x64(),), (wg.ones_like(x64()),))[0],
        lambda: wg.scan(lambda c, r: (c, f(r)), (), x64()[None])[1][0],
    ]
    compiled = wg.jit(f)
    runs += [lambda: compiled(x64())] * 6
    for run in runs:
        found = run()
        assert found.dtype == wg.float64
        assert type(found) is wg.Tensor
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-14)
    single = f(x32())
    assert single.dtype == wg.float32
    np.testing.assert_allclose(single.numpy(), expected, rtol=1e-5)
    assert compiled(x32()).dtype == wg.float32


def test_a_function_of_numbers_alone_is_a_number() -> None:
    for found, expected in (
        (wg.exp(0.1), math.exp(0.1)),
        (wg.sigmoid(0.1), 1 / (1 + math.exp(-0.1))),
        (wg.abs(-3), 3),
        (wg.pow(2, 10), 1024),
        (wg.where(True, 0.1, 0.2), 0.1),
        (wg.sqrt(-1 + 0j), 1j),
    ):
        assert found.item() == pytest.approx(expected, rel=1e-15)
        assert found.is_weak
        assert (found * wg.ones(1, dtype=wg.float16)).dtype in (wg.float16, wg.complex64)
    assert (wg.abs(-3) * wg.tensor([1], dtype=wg.int8)).dtype == wg.int8
    assert repr(wg.exp(0.0)) == "tensor(1.)"
    assert (wg.sqrt(2.0) < 1.5).dtype == wg.bool
    assert not wg.argmax(wg.where(wg.tensor([True, False]), 0.1, 0.2)).is_weak
    assert wg.isnan(0.1).dtype == wg.bool


def test_a_number_becomes_a_tensor_of_the_default_dtype_where_one_is_asked_for() -> None:
    number = wg.sqrt(2.0)
    for made in (wg.tensor(number), wg.asarray(number), wg.tensor([number, 1.0]), wg.nn.Parameter(number)):
        assert made.dtype == wg.float32
        assert not made.is_weak
    assert number.astype(wg.float64).dtype == wg.float64
    assert not number.astype(wg.float64).is_weak
    assert number.numpy().dtype == np.float64
    for again in (copy.deepcopy(number), pickle.loads(pickle.dumps(number)), copy.copy(number), number.detach()):
        assert again.is_weak
        assert again.item() == math.sqrt(2.0)
    w = wg.where(wg.tensor([True, False]), 0.1, 0.2)
    w[0] = 0.7
    w += 1.0
    assert w.is_weak
    assert w.tolist() == [1.7, 1.2]
    assert (wg.zeros(2).copy_(w)).dtype == wg.float32


def test_gradients_in_numbers_have_the_dtype_of_the_value() -> None:
    def f(a: Any, x: Any) -> Any:
        return wg.exp(a * x).sum()

    expected = (X * np.exp(0.1 * X)).sum()
    for transform in (
        lambda g: g,
        wg.jit,
    ):
        wide = transform(wg.grad(f))
        for _ in range(6):
            g = wide(0.1, x64())
            assert g.dtype == wg.float64
            assert g.item() == pytest.approx(expected, rel=1e-14)
            assert transform(wg.grad(f))(0.1, x32()).dtype == wg.float32
    assert wg.grad(lambda a: a**3)(2.0).is_weak
    assert wg.grad(wg.grad(lambda a: a**3))(2.0).item() == 12.0
    out, pull = wg.vjp(f, 0.1, x64())
    assert pull(wg.ones_like(out))[0].dtype == wg.float64
    assert wg.jvp(f, (0.1, x64()), (1.0, None))[1].item() == pytest.approx(expected, rel=1e-14)
    assert wg.vmap(wg.grad(f), in_axes=(None, 0))(0.1, x64()[None])[0].item() == pytest.approx(expected, rel=1e-14)
    jacobian = wg.jacobian(lambda a: a * a * x64())(0.1)
    np.testing.assert_allclose(jacobian.numpy(), 0.2 * X, rtol=1e-14)
    assert wg.hessian(lambda a: (a**3 * x64()).sum())(0.1).dtype == wg.float64
    assert wg.grad(lambda a: (a * x32()).sum())(2.0).dtype == wg.float32


def test_descent_on_a_number_leaves_single_precision_single() -> None:
    x, w = x32(), 2.0
    for _ in range(3):
        w = w - 0.1 * wg.grad(lambda w: ((w * x - 1) ** 2).mean())(w)
    assert w.dtype == wg.float32


def test_states_of_loops_that_begin_as_numbers() -> None:
    def last(c: Any, xs: Any) -> Any:
        return wg.scan(lambda c, x: (c * x + 0.1, c), c, xs)[0]

    expected = 0.1
    for x in X:
        expected = expected * x + 0.1
    for run in (last, wg.jit(last), wg.jit(lambda c, xs: last(0.1, xs))):
        for _ in range(6):
            found = run(0.1, x64())
            assert found.dtype == wg.float64
            assert found.item() == pytest.approx(expected, rel=1e-14)
    count = wg.jit(lambda x: wg.while_loop(lambda s: s[1] < 3, lambda s: (s[0] * x, s[1] + 1), (0.1, 0))[0])
    assert count(x64()[1]).item() == pytest.approx(0.1 * 1.7**3, rel=1e-14)


def test_weak_tensors_as_arguments_and_captured_values_of_compiled_functions() -> None:
    number, rows = wg.exp(0.1), wg.where(wg.tensor([True, False, True]), 0.1, 0.2)

    @wg.jit
    def f(a: Any, w: Any, x: Any) -> Any:
        return a * x + w * number, a * 2, w + number

    for _ in range(7):
        for x, dtype in ((x64(), wg.float64), (x32(), wg.float32)):
            first, second, third = f(number, rows, x)
            assert first.dtype == dtype
            assert second.is_weak
            assert third.is_weak
            assert second.item() == 2 * math.exp(0.1)
            if dtype == wg.float64:
                expected = math.exp(0.1) * X + np.array([0.1, 0.2, 0.1]) * math.exp(0.1)
                np.testing.assert_allclose(first.numpy(), expected, rtol=1e-14)
            number_again, _, _ = f(second, third, x)
            assert number_again.dtype == dtype


# -- the default dtype


def test_the_default_dtype() -> None:
    def dtypes() -> set[str]:
        made = (
            wg.tensor([1.5]),
            wg.tensor(0.5),
            wg.zeros(2),
            wg.ones(2),
            wg.empty(2),
            wg.eye(2),
            wg.full((2,), 0.1),
            wg.linspace(0, 1, 3),
            wg.logspace(0, 1, 3),
            wg.arange(0.0, 1.0, 0.5),
            wg.randn(2),
            wg.rand(2),
            wg.tensor([1, 2]) / 2,
            wg.sqrt(wg.tensor([1, 2])),
            wg.tensor([1, 2]).mean(),
            wg.nn.Linear(2, 2).weight,
            wg.nn.Linear(2, 2)(wg.ones(2)),
            wg.tensor([1]).astype(float),
            wg.fft.fftfreq(4),
        )
        return {str(t.dtype) for t in made}

    assert dtypes() == {"float32"}
    with wg.set_default_dtype(wg.float64):
        assert dtypes() == {"float64"}
        assert wg.tensor([1j]).dtype == wg.complex128
        assert wg.get_default_dtype() == wg.float64
        assert repr(wg.zeros(1)) == "tensor([0.])"
        seen: list[Any] = []
        thread = threading.Thread(target=lambda: seen.append(wg.get_default_dtype()))
        thread.start()
        thread.join()
        assert seen == [wg.float32]
        with wg.set_default_dtype("float32"):
            assert wg.zeros(1).dtype == wg.float32
        assert wg.zeros(1).dtype == wg.float64
    assert dtypes() == {"float32"}
    for wrong in (wg.int64, wg.complex64, "nothing"):
        with pytest.raises(wg.DTypeError):
            wg.set_default_dtype(wrong)
    wg.set_default_dtype(wg.float64)
    try:
        assert wg.zeros(1).dtype == wg.float64
    finally:
        wg.set_default_dtype(wg.float32)


def test_compiled_functions_see_the_default_dtype() -> None:
    f = wg.jit(lambda n: n / 3 + wg.full((), 0.1))
    n = wg.tensor([1, 2])
    for _ in range(6):
        assert f(n).dtype == wg.float32
        with wg.set_default_dtype(wg.float64):
            found = f(n)
            assert found.dtype == wg.float64
            np.testing.assert_allclose(found.numpy(), np.array([1, 2]) / 3 + 0.1, rtol=1e-15)
    assert "the default dtype: dtype('float64') where it was dtype('float32')" in f.why_recompiled()
    assert f.cache_info().traces == 2


# -- pytrees of tensors

NESTS: dict[str, Callable[[Any], Any]] = {
    "asarray": lambda v: wg.asarray([v[0] ** 2, v[0] * v[1]]),
    "tensor": lambda v: wg.tensor([v[0] ** 2, v[0] * v[1]]),
    "tensor of a tensor": lambda v: wg.tensor(v) * v,
    "as_tensor": lambda v: wg.torch.as_tensor((v[0], 3.0)),
    "rows": lambda v: wg.asarray([[v[0], 1.0], [2, v[1]]]) @ v,
    "rows and tensors": lambda v: wg.asarray([v, [v[1], 0.5]]),
    "full": lambda v: wg.full((2, 2), v[0]),
    "full_like": lambda v: wg.full_like(v, v[1]),
    "new_full": lambda v: v.new_full((3,), v[1] * v[0]),
    "linspace": lambda v: wg.linspace(v[0], v[1], 4) ** 2,
    "linspace to a number": lambda v: wg.linspace(v[0], 7.0, 3, endpoint=False) ** 2,
    "logspace": lambda v: wg.logspace(v[0], v[1], 3, base=1.5),
    "stack of lists": lambda v: wg.stack([[v[0], v[1]], [v[1], 1.0]]) ** 2,
    "concat of lists": lambda v: wg.concat([[v[0]], [v[1], 2.0]]) ** 2,
    "written list": lambda v: _written(v),
    "where of lists": lambda v: wg.where([True, False], [v[0], v[1]], [v[1], 1.0]),
    "sum of a list": lambda v: wg.sum([v[0], v[1] * 2]),
    "right-hand side": lambda v: wg.solve.odeint(
        lambda t, y: wg.asarray([y[1], -v[0] * y[0]]), wg.tensor([1.0, 0.0], dtype=wg.float64), wg.linspace(0, 1, 3)
    )[-1],
}


def _written(v: Any) -> Any:
    z = wg.zeros(2, dtype=v.dtype)
    z[:] = [v[0] * v[1], 2.0]
    return z


@pytest.mark.parametrize("name", NESTS)
def test_gradients_flow_through_nests(name: str) -> None:
    def f(v: Any) -> Any:
        found = NESTS[name](v)
        return (found * (1.0 + wg.arange(found.size).reshape(found.shape))).sum()

    v = wg.tensor([1.3, 0.8], dtype=wg.float64)
    h = 1e-6
    plain = [float(f(v + h * e)) - float(f(v - h * e)) for e in (wg.tensor([1.0, 0.0]), wg.tensor([0.0, 1.0]))]
    expected = np.array(plain) / (2 * h)
    assert np.abs(expected).max() > 0.1
    leaf = v.clone().requires_grad_()
    f(leaf).backward()
    slopes = {
        "grad": wg.grad(f)(v),
        "backward": leaf.grad,
        "jvp": wg.stack([wg.jvp(f, (v,), (e,))[1] for e in (wg.tensor([1.0, 0.0]), wg.tensor([0.0, 1.0]))]),
        "jit": wg.jit(wg.grad(f))(v),
        "graph": wg.grad(wg.graph(f)(v))(v) if name != "right-hand side" else wg.grad(f)(v),
        "vmap": wg.vmap(wg.grad(f))(v[None])[0],
    }
    for found in slopes.values():
        assert found is not None
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-7)


def test_nests_have_the_dtype_of_their_tensors() -> None:
    v = x64()
    assert wg.asarray([v[0], 0.1]).dtype == wg.float64
    assert wg.asarray([v[0], 0.1])[1].item() == 0.1
    assert wg.asarray([wg.tensor(1), 2]).dtype == wg.int64
    assert wg.asarray([wg.tensor(1), 2.5]).dtype == wg.float32
    assert wg.asarray([x32()[0], np.float64(1.0)]).dtype == wg.float64
    assert wg.asarray([wg.tensor(1, dtype=wg.int8), True]).dtype == wg.int8
    assert wg.asarray([v[0], 1j]).dtype == wg.complex128
    assert wg.asarray([[v[0]], [v[1]]], dtype=wg.float32).dtype == wg.float32
    assert wg.asarray([]).shape == (0,)
    assert wg.asarray([v, v]).shape == (2, 3)
    for ragged in ([v[0], v], [[v[0]], [v[0], v[1]]], [v[:2], [1.0, 2.0, 3.0]]):
        with pytest.raises(wg.ShapeError, match="a ragged nested list: element 0 has shape"):
            wg.asarray(ragged)
    with pytest.raises(wg.DTypeError, match="a str among tensors"):
        wg.asarray([v[0], "a"])
    with pytest.raises(ValueError, match="a copy is needed"):
        wg.asarray([v[0], v[1]], copy=False)


# -- values that leave a derivative

CUTS: dict[str, Callable[[Any], Any]] = {
    "math.sin": lambda v: v * math.sin(v[0]),
    "math.floor": lambda v: v * math.floor(v[0]),
    "float()": lambda v: v * float(v[0]),
    "complex()": lambda v: v * complex(v[0]).real,
    "item()": lambda v: v * v[0].item(),
    "tolist()": lambda v: v * v.tolist()[0],
    "Parameter": lambda v: wg.nn.Parameter(v) * 2,
    "leaf": lambda v: wg.tensor(v, requires_grad=True) * 2,
    "arange": lambda v: wg.arange(v[0]) * v[0],
}


@pytest.mark.parametrize("name", CUTS)
def test_a_value_may_not_leave_a_derivative(name: str) -> None:
    def f(v: Any) -> Any:
        return CUTS[name](v).sum()

    v = wg.tensor([1.3, 0.8], dtype=wg.float64)
    for run in (
        lambda: wg.grad(f)(v),
        lambda: wg.value_and_grad(f)(v),
        lambda: wg.jvp(f, (v,), (v,)),
        lambda: wg.linearize(f, v),
        lambda: wg.jacobian(f)(v),
        lambda: wg.hessian(f)(v),
        lambda: wg.jit(wg.grad(f))(v),
        lambda: wg.grad(wg.checkpoint(f))(v),
        lambda: wg.grad(lambda v: f(v * 2.0 + 1.0))(v),
    ):
        with pytest.raises(wg.GradientError, match="of a value that is being differentiated, f64") as e:
            run()
        assert "test_numbers.py" in str(e.value).splitlines()[0]


def test_numpy_arrays_take_no_values_out_of_a_derivative() -> None:
    def f(v: Any) -> Any:
        a = np.zeros(2)
        a[0] = v[0]
        return (v * wg.asarray(a)).sum()

    with pytest.raises((wg.GradientError, ValueError)) as e:
        wg.grad(f)(wg.ones(2))
    chain = e.value
    while not isinstance(chain, wg.GradientError):
        assert chain is not None
        chain = chain.__cause__  # NumPy says what it could not do, and why
    assert "of a value that is being differentiated" in str(chain)


def test_what_only_looks_is_free() -> None:
    seen = []

    def f(v: Any) -> Any:
        seen.append((f"{v[0]:.2f}", str(v), repr(v), int(v[0]), bool(v[0] > 0), v[0].detach().item(), v.shape))
        k = wg.tensor(3.0)
        return (v * k.item() * int(v[0])).sum()

    assert wg.grad(f)(wg.tensor([1.5, 2.0])).tolist() == [3.0, 3.0]
    assert seen[0][0] == "1.50"
    assert seen[0][5] == 1.5


def test_plain_eager_logging_stays() -> None:
    w = wg.tensor([1.0, 2.0], requires_grad=True)
    loss = (w * w).sum()
    assert (loss.item(), float(loss), loss.tolist(), math.sqrt(loss)) == (5.0, 5.0, 5.0, math.sqrt(5.0))
    loss.backward()
    with wg.autograd.dual_level():
        d = wg.autograd.make_dual(wg.tensor(2.0), wg.tensor(1.0))
        with pytest.raises(wg.GradientError, match="being differentiated"):
            float(d * d)
        assert wg.autograd.unpack_dual(d * d).tangent.item() == 4.0
    assert float(d * d) == 4.0


def test_functions_with_rules_of_ones_own_give_numbers_for_numbers() -> None:
    class Cube(wg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return 3 * x * x * g

    @wg.custom_vjp
    def sine(x: Any) -> Any:
        return wg.sin(x)

    sine.defvjp(lambda x: (sine(x), x), lambda x, ct: (ct * wg.cos(x),))
    exact = np.array([0.1])
    assert (sine(0.1) * wg.tensor(exact)).numpy()[0] == math.sin(0.1) * 0.1
    for fn, want in ((Cube.apply, 3 * 0.1**2), (sine, math.cos(0.1))):
        slope = wg.grad(fn)(0.1)
        assert abs(float(slope) - want) < 1e-16
        assert slope.is_weak
        assert (slope * wg.tensor(exact)).dtype == wg.float64
        assert wg.grad(lambda x, fn=fn: (fn(x) * wg.ones(1)).sum())(0.1).dtype == wg.float32
    assert all(c.is_weak for c in wg.taylor(wg.exp, 0.1, 3))
    assert wg.taylor(lambda x: x * wg.ones(2), 0.1, 1)[1].dtype == wg.float32


def test_what_is_like_a_number_is_a_number() -> None:
    number = wg.exp(0.1)
    for made in (wg.ones_like(number), wg.zeros_like(number), wg.full_like(number, 0.3), wg.ones_like(2.0)):
        assert made.is_weak
        assert (made + wg.ones(2)).dtype == wg.float32
    assert (wg.full_like(number, 0.3) + wg.zeros(1, dtype=wg.float64)).numpy()[0] == 0.3
    assert wg.ones_like(number, requires_grad=True).dtype == wg.float32
    assert wg.ones_like(number, dtype=wg.float16).dtype == wg.float16
    assert wg.random.rand_like(number).dtype == wg.random.randn_like(number).dtype == wg.float32


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("Normal", (0, 3)),
        ("Normal", (0.1, 0.3)),
        ("Gamma", (2.1, 3.3)),
        ("Beta", (2, 0.7)),
        ("StudentT", (3.3,)),
        ("Geometric", (0.3,)),
        ("Poisson", (3.1,)),
        ("Laplace", (0.1, 0.7)),
    ],
)
def test_distributions_of_numbers_take_the_precision_of_their_values(name: str, parameters: tuple[float, ...]) -> None:
    make = getattr(wg.distributions, name)
    found, exact = make(*parameters), make(*(wg.tensor(np.float64(p)) for p in parameters))
    value = np.array([0.0, 1.0, 3.0]) if name in ("Geometric", "Poisson") else np.array([0.2, 0.4, 0.9])
    assert found.sample((3,)).dtype == wg.float32
    assert found.log_prob(wg.tensor(value)).dtype == wg.float64
    np.testing.assert_allclose(found.log_prob(wg.tensor(value)), exact.log_prob(wg.tensor(value)), rtol=1e-14)
    assert found.log_prob(wg.tensor(value).astype(wg.float32)).dtype == wg.float32
    number = found.log_prob(float(value[1]))
    assert number.is_weak
    assert abs(number.item() - exact.log_prob(wg.tensor(value)).numpy()[1]) < 1e-13


def test_states_that_are_functions_of_numbers_take_the_dtype_of_the_equation() -> None:
    from wengert.solve import Event, odeint

    start, rate = wg.exp(0.0), wg.tensor(1.0, dtype=wg.float64)
    assert odeint(lambda t, y: -y, start, [0.0, 1.0]).dtype == wg.float32
    found = odeint(lambda t, y: -rate * y, start, [0.0, 1.0])
    assert found.dtype == wg.float64
    assert abs(found[-1].item() - math.exp(-1)) < 1e-6

    def landing(height: Any) -> Any:
        ground = Event(lambda t, s: s[0], direction=-1)
        return odeint(
            lambda t, s: wg.stack([s[1], -9.81 + 0 * s[1]]), wg.stack([height, 0.0 * height]), [0.0, 10.0], event=ground
        ).event_t[0]

    want = 0.5 * math.sqrt(2 / 9.81 / 10.0)
    for height in (10.0, wg.tensor(10.0), np.float64(10.0)):
        assert abs(float(wg.grad(landing)(height)) - want) < 1e-4
