"""Derivatives as functions of functions: `grad`, `value_and_grad`, `vjp`, `check_grads`."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import wengert as wg
from wengert.core.tensor import Tensor

F64 = wg.float64


def f64(value: Any) -> Tensor:
    return wg.tensor(value, dtype=F64)


# -- pytrees


class Point(NamedTuple):
    x: Any
    y: Any


@dataclass
class Line:
    slope: Any
    start: Any
    name: str = "line"


@dataclass(frozen=True)
class Frozen:
    w: Any


def test_nests_of_every_kind() -> None:
    def f(p: Any) -> Any:
        return p["a"] ** 2 + p["b"][0] * p["b"][1] + p["c"].x * 3.0 + p["d"].slope * p["d"].start + p["e"].w

    pytree = {
        "a": f64(2.0),
        "b": [3.0, np.float64(4.0)],
        "c": Point(1.0, 5.0),
        "d": Line(f64(6.0), 7.0),
        "e": Frozen(1.0),
    }
    value, grads = wg.value_and_grad(f)(pytree)
    assert value.item() == 4 + 12 + 3 + 42 + 1
    assert grads["a"].item() == 4.0
    assert type(grads["b"]) is list
    assert [g.item() for g in grads["b"]] == [4.0, 3.0]
    assert type(grads["c"]) is Point
    assert grads["c"].x.item() == 3.0
    assert grads["c"].y.item() == 0.0
    assert type(grads["d"]) is Line
    assert (grads["d"].slope.item(), grads["d"].start.item()) == (7.0, 6.0)
    assert grads["d"].name is None  # nothing to differentiate in
    assert type(grads["e"]) is Frozen
    assert grads["e"].w.item() == 1.0
    assert pytree["a"].requires_grad is False
    assert pytree["a"].grad is None


def test_empty_nests_none_and_ordered_dicts() -> None:
    pytree: Any = OrderedDict(b=f64(2.0), a=(None, [], {}, f64(3.0)))
    grads = wg.grad(lambda p: p["b"] * p["a"][3])(pytree)
    assert type(grads) is OrderedDict
    assert list(grads) == ["b", "a"]
    assert grads["a"][:3] == (None, [], {})
    assert (grads["b"].item(), grads["a"][3].item()) == (3.0, 2.0)


def test_the_dtypes_of_gradients_are_the_arguments() -> None:
    pytree = {"f32": wg.ones(2), "f64": np.ones(2), "f16": wg.ones(2, dtype=wg.float16), "int": np.arange(2), "py": 1.0}
    grads = wg.grad(lambda p: sum((v * 2.0).sum() for v in p.values()))(pytree)
    # In a Python number it has the dtype of the function's value.
    assert [None if g is None else g.dtype for g in grads.values()] == [wg.float32, F64, wg.float16, None, F64]
    narrow = {"f32": wg.ones(2), "py": 1.0}
    assert wg.grad(lambda p: (p["f32"] * p["py"]).sum())(narrow)["py"].dtype == wg.float32


def test_modules_are_nests() -> None:
    wg.manual_seed(0)
    model = wg.nn.Sequential(wg.nn.Linear(3, 4), wg.nn.Tanh(), wg.nn.Linear(4, 1))
    x = wg.asarray(np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32))

    def loss(m: Any, x: Any) -> Any:
        return (m(x) ** 2).mean()

    grads = wg.grad(loss)(model, x)
    loss(model, x).backward()
    found = dict(grads.named_parameters())
    assert list(found) == [name for name, _ in model.named_parameters()]
    for name, p in model.named_parameters():
        np.testing.assert_allclose(np.asarray(found[name].detach()), p.grad.numpy(), rtol=1e-6)


def test_argnums() -> None:
    def f(x: Any, y: Any, z: Any) -> Any:
        return x * y**2 * z**3

    assert wg.grad(f)(2.0, 3.0, 1.0).item() == 9.0
    assert wg.grad(f, argnums=1)(2.0, 3.0, 1.0).item() == 12.0
    assert wg.grad(f, argnums=-1)(2.0, 3.0, 1.0).item() == 54.0
    both = wg.grad(f, argnums=(2, 0))(2.0, 3.0, 1.0)
    assert isinstance(both, tuple)
    assert [g.item() for g in both] == [54.0, 9.0]
    (only,) = wg.grad(f, argnums=[0])(2.0, 3.0, 1.0)
    assert only.item() == 9.0
    with pytest.raises(wg.ShapeError, match="argnums 3 for f called with 3"):
        wg.grad(f, argnums=3)(2.0, 3.0, 1.0)


def test_keyword_arguments_are_passed_on() -> None:
    def f(x: Any, *, power: int = 1, scale: Any = None) -> Any:
        return scale * x**power

    assert wg.grad(f)(2.0, power=3, scale=np.float64(10.0)).item() == 120.0


def test_aux() -> None:
    def f(x: Any) -> Any:
        h = x * 2.0
        return h.sum(), {"h": h, "text": "kept", "n": 3}

    grads, aux = wg.grad(f, has_aux=True)(f64([1.0, 2.0]))
    assert grads.tolist() == [2.0, 2.0]
    assert aux["h"].tolist() == [2.0, 4.0]
    assert not aux["h"].requires_grad
    assert aux["text"] == "kept"
    assert aux["n"] == 3
    (value, aux), grads = wg.value_and_grad(f, has_aux=True)(f64([1.0, 2.0]))
    assert value.item() == 6.0
    assert not value.requires_grad
    with pytest.raises(wg.GradientError, match=r"must return \(value, aux\)"):
        wg.grad(lambda x: x, has_aux=True)(1.0)


def test_names_are_kept() -> None:
    def loss(x: Any) -> Any:
        """The loss."""
        return x

    assert wg.grad(loss).__name__ == "loss"
    assert wg.value_and_grad(loss).__doc__ == "The loss."


# -- nesting


def test_many_orders() -> None:
    f: Callable[..., Any] = wg.sin
    for exact in (math.cos, lambda t: -math.sin(t), lambda t: -math.cos(t), math.sin, math.cos):
        f = wg.grad(f)
        assert f(np.float64(0.4)).item() == pytest.approx(exact(0.4), rel=1e-12)


@pytest.mark.parametrize(
    ("outer", "expected"),
    [
        # Siskind and Pearlmutter 2005: d/dx (x * d/dy (x + y)) at x = 1, y = 1 is 1, not 2.
        (lambda x: x * wg.grad(lambda y: x + y)(1.0), 1.0),
        # d/dx (x * d/dy (x * y) at y = 2) = d/dx x^2
        (lambda x: x * wg.grad(lambda y: x * y)(2.0), 2.0),
        # The inner variable fed with the outer one: d/dx (x * (d/dy x y at y = x)) = d/dx x^2
        (lambda x: x * wg.grad(lambda y: x * y)(x), 2.0),
        # Manzyuk et al. 2019: the inner derivative is a function used outside.
        (lambda x: wg.grad(lambda y: wg.grad(lambda z: x * y * z)(y))(x), 1.0),
        (lambda x: wg.grad(lambda y: y * wg.grad(lambda z: z * z * y)(y))(x), 12.0),
        # An inner function that does not use its variable.
        (lambda x: wg.grad(lambda y: x * x)(3.0) + x, 1.0),
        # The inner gradient detached.
        (lambda x: x * wg.grad(lambda y: x * y * y)(3.0).detach(), 6.0),
    ],
)
def test_perturbations_are_not_confused(outer: Callable[[Any], Any], expected: float) -> None:
    found = wg.grad(outer)(np.float64(1.0))
    assert found.item() == pytest.approx(expected)
    assert not found.requires_grad  # nothing outside is tracked
    assert wg.graph(wg.grad(outer))(wg.spec((), F64))(1.0).item() == pytest.approx(expected)
    x = wg.tensor(1.0, dtype=F64, requires_grad=True)
    outer(x).backward()
    assert x.grad.item() == pytest.approx(expected)


def test_a_function_that_leaks_its_variable() -> None:
    # The curried derivative of the literature: an inner derivative whose function escapes.
    def shifted(u: Any) -> Callable[..., Any]:
        return lambda f: lambda x: f(x + u)

    hat = wg.vjp(lambda u: shifted(u)(lambda v: v**3)(2.0), np.float64(0.0))
    (g,) = hat[1](f64(1.0))
    assert g.item() == 12.0


def test_mixed_orders_in_several_arguments() -> None:
    def f(x: Any, y: Any) -> Any:
        return wg.exp(x * y)

    mixed = wg.grad(wg.grad(f, argnums=0), argnums=1)
    other = wg.grad(wg.grad(f, argnums=1), argnums=0)
    x, y = np.float64(0.3), np.float64(0.7)
    assert mixed(x, y).item() == pytest.approx((1 + x * y) * math.exp(x * y))
    assert other(x, y).item() == pytest.approx(mixed(x, y).item())


def test_an_inner_minimisation_is_differentiated_through() -> None:
    def solution(a: Any) -> Any:
        w = wg.asarray(np.float64(0.0))
        for _ in range(60):
            w = w - 0.3 * wg.grad(lambda w: (w - a) ** 2)(w)
        return w

    assert wg.grad(lambda a: solution(a) ** 2)(np.float64(3.0)).item() == pytest.approx(6.0)


# -- together with tensors that are tracked


def test_closures_stay_connected() -> None:
    w = wg.tensor(3.0, dtype=F64, requires_grad=True)
    g = wg.grad(lambda x: w * x * x)(2.0)
    assert g.item() == 12.0
    assert g.requires_grad
    g.backward()
    assert w.grad.item() == 4.0


def test_the_value_stays_connected_too() -> None:
    w = wg.tensor(3.0, dtype=F64, requires_grad=True)
    value, g = wg.value_and_grad(lambda x: w * x * x)(np.float64(2.0))
    (value + g).backward()
    assert w.grad.item() == 4.0 + 4.0


def test_arguments_that_are_tracked_stay_connected() -> None:
    x = wg.tensor([1.0, 2.0], dtype=F64, requires_grad=True)
    g = wg.grad(lambda t: (t**3).sum())(x)
    assert x.grad is None
    (g * g).sum().backward()
    assert x.grad.tolist() == [36.0, 288.0]


def test_nothing_is_connected_under_no_grad() -> None:
    w = wg.tensor(3.0, dtype=F64, requires_grad=True)
    with wg.no_grad():
        g = wg.grad(lambda x: w * x * x)(2.0)
    assert g.item() == 12.0
    assert not g.requires_grad


def test_no_grad_inside_the_function_holds() -> None:
    def f(x: Any) -> Any:
        with wg.no_grad():
            scale = x * 10.0
        return scale * x

    assert wg.grad(f)(2.0).item() == 20.0


def test_grad_leaves_the_leaves_alone() -> None:
    w = wg.tensor(3.0, requires_grad=True)
    wg.grad(lambda x: x * w)(2.0)
    assert w.grad is None


def test_backward_inside_a_differentiated_function() -> None:
    w = wg.tensor(3.0, dtype=F64, requires_grad=True)

    def f(x: Any) -> Any:
        (w * w).backward()
        return x * 2.0

    assert wg.grad(f)(1.0).item() == 2.0
    assert w.grad.item() == 6.0


def test_inside_a_trace() -> None:
    def step(params: Any, x: Any) -> Any:
        value, grads = wg.value_and_grad(lambda p: ((x @ p["w"] + p["b"]) ** 2).mean())(params)
        return value, wg.tree.map(lambda p, g: p - 0.1 * g, params, grads)

    rng = np.random.default_rng(0)
    params = {"w": rng.normal(size=(3, 2)), "b": np.zeros(2)}
    x = rng.normal(size=(4, 3))
    graph = wg.graph(step)(params, x)
    for found, eager in zip(wg.tree.leaves(graph(params, x)), wg.tree.leaves(step(params, x)), strict=True):
        np.testing.assert_allclose(found.numpy(), eager.numpy(), rtol=1e-12)


def test_a_graph_is_differentiated_like_a_function() -> None:
    graph = wg.graph(lambda x, y: wg.sin(x) * y)(wg.spec((), F64), wg.spec((), F64))
    gx, gy = wg.grad(graph, argnums=(0, 1))(f64(0.5), f64(2.0))
    assert (gx.item(), gy.item()) == (pytest.approx(2 * math.cos(0.5)), pytest.approx(math.sin(0.5)))
    assert wg.grad(wg.grad(graph))(f64(0.5), f64(2.0)).item() == pytest.approx(-2 * math.sin(0.5))


# -- vjp


def test_vjp_over_nests() -> None:
    def f(p: Any, x: Any) -> Any:
        return {"y": p["w"] * x, "z": (x.sum(), p["w"])}

    out, pull = wg.vjp(f, {"w": f64([2.0, 3.0])}, f64([5.0, 7.0]))
    assert out["y"].tolist() == [10.0, 21.0]
    assert not out["y"].requires_grad
    ct = {"y": f64([1.0, 1.0]), "z": (f64(10.0), f64([0.0, 100.0]))}
    for _ in range(2):
        gp, gx = pull(ct)
        assert gp["w"].tolist() == [5.0, 107.0]
        assert gx.tolist() == [12.0, 13.0]
    with pytest.raises(wg.GradientError, match="one structure"):
        pull([f64([1.0, 1.0])])
    with pytest.raises(wg.ShapeError, match="pullback"):
        pull({"y": f64(1.0), "z": (f64(10.0), f64([0.0, 100.0]))})


def test_vjp_with_aux_and_a_jacobian_from_it() -> None:
    out, pull, aux = wg.vjp(lambda x: (x**2, "aux"), f64([1.0, 2.0, 3.0]), has_aux=True)
    assert aux == "aux"
    rows = [pull(row)[0].tolist() for row in wg.eye(3, dtype=F64)]
    assert np.array_equal(rows, np.diag([2.0, 4.0, 6.0]))
    assert out.tolist() == [1.0, 4.0, 9.0]


def test_a_pullback_is_differentiable_in_its_cotangent_and_its_point() -> None:
    def jvp(f: Callable[..., Any], x: Any, t: Any) -> Any:
        # Forward mode from two reverse passes (Townsend 2017): the pullback is linear in ct.
        out, pull = wg.vjp(f, x)
        return wg.vjp(lambda ct: pull(ct)[0], wg.zeros_like(out))[1](t)[0]

    x, t = f64([0.3, 0.9]), f64([1.0, -2.0])
    np.testing.assert_allclose(jvp(wg.sin, x, t).numpy(), np.cos(x.numpy()) * t.numpy())

    def hessian_vector(x: Any) -> Any:
        _, pull = wg.vjp(lambda u: wg.sin(u) * u, x)
        return (pull(f64([1.0, 1.0]))[0] ** 2).sum()

    wg.check_grads(hessian_vector, f64([0.3, 0.9]))


def test_vjp_of_parts_that_do_not_depend() -> None:
    _out, pull = wg.vjp(lambda x: (f64([1.0]), x * 2.0, 7.0), f64(3.0))
    (g,) = pull((f64([5.0]), f64(1.0), 0.0))
    assert g.item() == 2.0


# -- errors


@pytest.mark.parametrize(
    ("fn", "args", "kind", "text"),
    [
        (lambda x: x, (3,), wg.DTypeError, "argument 0 of <lambda> cannot be differentiated in: it holds int"),
        (lambda x: x, ("a",), wg.DTypeError, "it holds str"),
        (lambda x: x, ([],), wg.DTypeError, "it holds nothing"),
        (lambda x: x * 2, (wg.ones(3),), wg.GradientError, r"not a scalar, f32\[3\]"),
        (lambda x: (x, x), (1.0,), wg.WengertError, "."),
        (lambda x: None, (1.0,), wg.WengertError, "."),
        (lambda x: x > 0, (1.0,), wg.WengertError, "."),
        (lambda x: x * 1j, (1.0,), wg.GradientError, "complex scalar"),
        (lambda x: x, (), wg.ShapeError, "argnums 0 for <lambda> called with 0"),
    ],
)
def test_errors(fn: Callable[..., Any], args: Any, kind: Any, text: str) -> None:
    with pytest.raises(kind, match=text) as caught:
        wg.grad(fn)(*args)
    assert __file__ in str(caught.value).partition("\n")[0]


def test_gradients_where_nothing_flows_are_zero() -> None:
    assert wg.grad(lambda x: 5.0)(2.0).item() == 0.0
    assert wg.grad(lambda x: x.detach() * 2.0)(2.0).item() == 0.0
    assert wg.grad(lambda x: wg.round(x))(2.3).item() == 0.0
    assert wg.grad(lambda x, y: y, argnums=(0, 1))(2.0, 3.0)[0].item() == 0.0


# -- check_grads


class Cube(wg.autograd.Function):
    factor = 3.0

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return g * 3.0 * x * x


class WrongAtOne(Cube):
    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        slope = 3.0 * x * x
        return g * wg.where(wg.asarray([[False, False], [True, False]]), slope * 1.001, slope)


def test_check_grads_passes_what_is_right() -> None:
    rng = np.random.default_rng(0)
    wg.check_grads(Cube.apply, f64([0.5, -2.0]), order=3)
    wg.check_grads(lambda a, b: wg.sin(a) @ b, (f64(rng.normal(size=(2, 3))), f64(rng.normal(size=(3, 2)))))
    wg.check_grads(lambda p: {"y": p["x"] ** 2, "n": wg.argmax(p["x"])}, ({"x": f64([1.0, 2.0])},))
    wg.check_grads(lambda z: wg.abs(z) ** 2, wg.tensor([1.0 + 2.0j], dtype=wg.complex128))
    wg.check_grads(lambda x, n: x * n, (f64([1.0, 2.0]), wg.asarray([3, 4])))


def test_check_grads_of_a_complex_number() -> None:
    wg.check_grads(lambda z: abs(z) ** 2 + wg.real(wg.exp(z)), 1 + 2j)
    with pytest.raises(wg.GradientError, match=r"args\[0\]"):
        wg.check_grads(lambda z: abs(z) * wg.stop_gradient(abs(z)), 1 + 2j)


def test_check_grads_names_the_element() -> None:
    with pytest.raises(wg.GradientError) as caught:
        wg.check_grads(WrongAtOne.apply, f64([[0.5, 0.6], [0.7, 0.8]]))
    assert "[1, 0]" in str(caught.value)
    assert "order 1" in str(caught.value)
    with pytest.raises(wg.GradientError, match=r"\['w'\]\[1, 0\]"):
        wg.check_grads(lambda p: WrongAtOne.apply(p["w"]), ({"w": f64([[0.5, 0.6], [0.7, 0.8]])},))


def test_check_grads_finds_a_wrong_second_order() -> None:
    class Second(Cube):
        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            (x,) = ctx.saved_tensors
            return g * 3.0 * x * x.detach()  # right in value, wrong in its derivative

    wg.check_grads(Second.apply, f64([0.5]), order=1)
    with pytest.raises(wg.GradientError, match="order 2"):
        wg.check_grads(Second.apply, f64([0.5]), order=2)


def test_check_grads_finds_a_missing_part() -> None:
    with pytest.raises(wg.GradientError, match="off by"):
        wg.check_grads(lambda x: x.detach() * x, f64([2.0]), order=1)


NOTHING: Any = lambda *args: None


@pytest.mark.parametrize(
    "run",
    [
        lambda x: wg.grad(NOTHING)(x),
        lambda x: wg.value_and_grad(NOTHING)(x),
        lambda x: wg.grad(lambda x: (None, x), has_aux=True)(x),
        lambda x: wg.jit(wg.grad(NOTHING))(x),
        lambda x: wg.vjp(NOTHING, x),
        lambda x: wg.jvp(NOTHING, (x,), (x,)),
        lambda x: wg.linearize(NOTHING, x),
        lambda x: wg.jacobian(NOTHING)(x),
        lambda x: wg.hessian(NOTHING)(x),
        lambda x: wg.hvp(NOTHING, (x,), (x,)),
        lambda x: wg.check_grads(NOTHING, (x,)),
        lambda x: wg.vmap(NOTHING)(x),
        lambda x: wg.vmap(wg.vmap(NOTHING))(wg.stack([x, x])),
    ],
)
def test_a_function_that_returns_none(run: Any) -> None:
    with pytest.raises(wg.DTypeError, match="<lambda> returned None") as caught:
        run(f64([1.0, 2.0]))
    assert "test_functional.py" in str(caught.value).splitlines()[0]
    assert "return" in str(caught.value).splitlines()[1]


def test_none_beside_other_results_stays_none() -> None:
    x = f64([1.0, 2.0])
    assert wg.vmap(lambda a: (a, None))(x)[1] is None
    assert wg.vjp(lambda a: (a, None), x)[0][1] is None


# -- derivatives in tensors that collect gradients outside

CUBE: Callable[[Any], Any] = lambda w: (w**3).sum()
ONES = [1.0, 1.0]
# A number made of derivatives in w, and its own gradient, for f = sum of w**3: [6 w**2 ...] and so on.
OUTER: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "grad": (lambda w: (wg.grad(CUBE)(w) ** 2).sum(), lambda w: 36 * w**3),
    "value_and_grad": (lambda w: (wg.value_and_grad(CUBE)(w)[1] ** 2).sum(), lambda w: 36 * w**3),
    "a step": (lambda w: CUBE(w - 0.1 * wg.grad(CUBE)(w)), lambda w: 3 * (w - 0.3 * w**2) ** 2 * (1 - 0.6 * w)),
    "vjp": (lambda w: (wg.vjp(CUBE, w)[1](wg.ones((), dtype=F64))[0] ** 2).sum(), lambda w: 36 * w**3),
    "jvp": (lambda w: wg.jvp(CUBE, (w,), (f64(ONES),))[1], lambda w: 6 * w),
    "linearize": (lambda w: wg.linearize(CUBE, w)[1](f64(ONES)), lambda w: 6 * w),
    "jacobian": (lambda w: (wg.jacobian(lambda w: w**3)(w) ** 2).sum(), lambda w: 36 * w**3),
    "jacobian, forward": (lambda w: (wg.jacobian(lambda w: w**3, mode="forward")(w) ** 2).sum(), lambda w: 36 * w**3),
    "hessian": (lambda w: (wg.hessian(CUBE)(w) ** 2).sum(), lambda w: 72 * w),
    "hvp": (lambda w: (wg.hvp(CUBE, (w,), (f64(ONES),)) ** 2).sum(), lambda w: 72 * w),
    "grad of grad": (lambda w: (wg.grad(lambda v: (wg.grad(CUBE)(v) ** 2).sum())(w) ** 2).sum(), lambda w: 7776 * w**5),
    "taylor": (lambda w: wg.taylor(CUBE, w, order=2, direction=f64(ONES))[2], lambda w: 6.0 + 0 * w),
}


class Holder(wg.nn.Module):
    def __init__(self, w: Any) -> None:
        super().__init__()
        self.w = w

    def forward(self) -> Any:
        return CUBE(self.w)


@pytest.mark.parametrize(
    "make", [lambda v: wg.tensor(v, dtype=F64, requires_grad=True), lambda v: wg.nn.Parameter(f64(v))]
)
@pytest.mark.parametrize("name", OUTER)
def test_derivatives_in_a_leaf_carry_gradients_to_it(name: str, make: Callable[[Any], Any]) -> None:
    loss, slope = OUTER[name]
    for run in (loss, wg.jit(loss)):
        w = make([1.0, 2.0])
        run(w).backward()
        np.testing.assert_allclose(w.grad.numpy(), slope(np.array([1.0, 2.0])), rtol=1e-9)


def test_derivatives_in_a_module_carry_gradients_to_its_parameters() -> None:
    model = Holder(wg.nn.Parameter(f64([1.0, 2.0])))
    inner = wg.grad(lambda m: m())(model)
    assert inner.w.requires_grad
    stepped = wg.tree.map(lambda p, g: p - 0.1 * g, model, inner)
    stepped().backward()
    np.testing.assert_allclose(model.w.grad.numpy(), OUTER["a step"][1](np.array([1.0, 2.0])), rtol=1e-9)
    with wg.no_grad():
        plain = wg.grad(lambda m: m())(model)
    assert plain.w.grad_fn is None
    np.testing.assert_allclose(plain.w.detach().numpy(), [3.0, 12.0])
