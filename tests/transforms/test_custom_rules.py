"""Functions with a derivative of the user's own: custom_jvp, custom_vjp, autograd.Function."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert import Tensor

F64 = wg.float64


def f64(values: Any) -> Tensor:
    return wg.tensor(values, dtype=F64)


def close(a: Any, b: Any, tol: float = 1e-12) -> None:
    left, right = wg.tree.flatten(a), wg.tree.flatten(b)
    assert left[1] == right[1]
    for x, y in zip(left[0], right[0], strict=True):
        np.testing.assert_allclose(np.asarray(x.detach()), np.asarray(y.detach()), rtol=tol, atol=tol)


# Three ways of writing one function, sin(x) * y and x, with a rule that is traceable: every derivative
# has a factor 1, so the plain function is the reference; `seen` shows that the rule was used.

seen: list[str] = []


def plain(x: Tensor, y: Tensor) -> dict[str, Tensor]:
    return {"a": wg.sin(x) * y, "b": x * 1.0}


@wg.custom_jvp
def by_jvp(x: Tensor, y: Tensor) -> dict[str, Tensor]:
    return plain(x, y)


@by_jvp.defjvp
def _(primals: Any, tangents: Any) -> Any:
    seen.append("jvp")
    (x, y), (t, s) = primals, tangents
    return by_jvp(x, y), {"a": t * wg.cos(x) * y + wg.sin(x) * s, "b": t}


@wg.custom_vjp
def by_vjp(x: Tensor, y: Tensor) -> dict[str, Tensor]:
    return plain(x, y)


def _fwd(x: Tensor, y: Tensor) -> Any:
    # An own value, an argument, a result, no tensor, nothing.
    out = plain(x, y)
    return out, [wg.cos(x), y, out["a"], "text", None]


def _bwd(residuals: Any, ct: Any) -> Any:
    seen.append("vjp")
    c, y, a, text, nothing = residuals
    assert text == "text"
    assert nothing is None
    return ct["a"] * c * y + ct["b"], ct["a"] * a / y


by_vjp.defvjp(_fwd, _bwd)


class SineOf(wg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Any:
        ctx.save_for_backward(x, wg.cos(x), y)
        return wg.sin(x) * y, x * 1.0

    @staticmethod
    def backward(ctx: Any, g: Tensor, h: Tensor) -> Any:
        seen.append("function")
        x, c, y = ctx.saved_tensors
        return g * c * y + h, g * wg.sin(x)


class SineBoth(SineOf):
    @staticmethod
    def jvp(ctx: Any, t: Tensor, s: Tensor) -> Any:
        seen.append("function jvp")
        x, c, y = ctx.saved_tensors
        return t * c * y + wg.sin(x) * s, t


def by_class(x: Tensor, y: Tensor) -> dict[str, Tensor]:
    a, b = SineOf.apply(x, y)
    return {"a": a, "b": b}


def by_class_with_jvp(x: Tensor, y: Tensor) -> dict[str, Tensor]:
    a, b = SineBoth.apply(x, y)
    return {"a": a, "b": b}


WAYS = [by_jvp, by_vjp, by_class, by_class_with_jvp]
X, Y = f64([0.3, 0.5, -1.2]), f64([1.3, 2.5, 0.7])
ROWS = f64([[0.3, 0.5, -1.2], [1.0, 0.1, 0.2]])


def loss(f: Any) -> Callable[[Tensor, Tensor], Tensor]:
    def total(x: Tensor, y: Tensor) -> Tensor:
        o = f(x, y)
        return (o["a"] * o["b"] * o["a"]).sum()

    return total


def hessian_vector(f: Any) -> Any:
    return lambda x, y: wg.jvp(wg.grad(f, argnums=(0, 1)), (x, y), (y, x))[1]


MODES: dict[str, Callable[[Any], Any]] = {
    "value": lambda f: f(X, Y),
    "grad": lambda f: wg.grad(f, argnums=(0, 1))(X, Y),
    "jvp": lambda f: wg.jvp(f, (X, Y), (Y, X)),
    "jvp in one": lambda f: wg.jvp(f, (X, Y), (Y, None)),
    "linearize": lambda f: wg.linearize(f, X, Y)[1](Y, X),
    "forward over reverse": lambda f: hessian_vector(f)(X, Y),
    "reverse over forward": lambda f: wg.grad(lambda x, y: wg.jvp(f, (x, y), (y, x))[1])(X, Y),
    "forward over forward": lambda f: wg.jvp(lambda x: wg.jvp(f, (x, Y), (Y, x))[1], (X,), (Y,)),
    "third": lambda f: wg.grad(lambda x: wg.grad(lambda z: wg.grad(f)(z, Y).sum())(x).sum())(X),
    "traced": lambda f: wg.graph(f)(X, Y)(X, Y),
    "traced gradient": lambda f: wg.graph(wg.grad(f, argnums=(0, 1)))(X, Y)(X, Y),
    "traced jvp": lambda f: wg.graph(lambda x, y: wg.jvp(f, (x, y), (y, x)))(X, Y)(X, Y),
    "traced second": lambda f: wg.graph(hessian_vector(f))(X, Y)(X, Y),
    "gradient of a graph": lambda f: wg.grad(wg.graph(f)(X, Y), argnums=(0, 1))(X, Y),
    "jvp of a graph": lambda f: wg.jvp(wg.graph(f)(X, Y), (X, Y), (Y, X)),
    "vmap": lambda f: wg.vmap(f, in_axes=(0, None))(ROWS, Y),
    "vmap of gradient": lambda f: wg.vmap(wg.grad(f, argnums=(0, 1)), in_axes=(0, None))(ROWS, Y),
    "gradient of vmap": lambda f: wg.grad(lambda x, y: wg.vmap(f, in_axes=(0, None))(x, y).sum(), argnums=(0, 1))(
        ROWS, Y
    ),
    "jvp of vmap": lambda f: wg.jvp(lambda x: wg.vmap(f, in_axes=(0, None))(x, Y), (ROWS,), (ROWS * 0.5,)),
    "vmap of jvp": lambda f: wg.vmap(lambda x: wg.jvp(f, (x, Y), (Y, x))[1])(ROWS),
    "second of vmap": lambda f: wg.grad(
        lambda r: wg.grad(lambda x: wg.vmap(f, in_axes=(0, None))(x, Y).sum())(r).sum()
    )(ROWS),
    "vmap of vmap": lambda f: wg.grad(
        lambda r: wg.vmap(wg.vmap(lambda x, y: f(x, y)), in_axes=(0, None))(r, wg.stack([Y, X])).sum()
    )(wg.stack([ROWS, ROWS * 2.0])),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("way", WAYS, ids=lambda f: getattr(f, "__name__", repr(f)))
def test_every_mode_agrees_with_the_plain_function(way: Any, mode: str) -> None:
    run = MODES[mode]
    seen.clear()
    found = run(loss(way))
    if mode not in ("value", "traced", "vmap"):
        assert seen, "the rule was not used"
    close(found, run(loss(plain)))


def test_check_grads_of_all_ways() -> None:
    for way in WAYS:
        wg.check_grads(way, (X, Y), order=2)


def test_forward_mode_takes_the_class_own_jvp() -> None:
    seen.clear()
    wg.jvp(by_class_with_jvp, (X, Y), (Y, X))
    assert set(seen) == {"function jvp"}
    seen.clear()
    wg.jvp(by_class, (X, Y), (Y, X))
    assert set(seen) == {"function"}


# -- rules that differ from the derivative: used everywhere


@wg.custom_jvp
def tripled(x: Tensor) -> Tensor:
    return x * 1.0


tripled.defjvps(lambda t, out, x: 3.0 * t)


@wg.custom_vjp
def tripled_back(x: Tensor) -> Tensor:
    return x * 1.0


tripled_back.defvjp(lambda x: (tripled_back(x), ()), lambda res, ct: (3.0 * ct,))


class Tripled(wg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 1.0

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return 3.0 * g


@pytest.mark.parametrize("f", [tripled, tripled_back, Tripled.apply], ids=["jvp", "vjp", "class"])
def test_the_rule_is_used_and_not_the_derivative(f: Any) -> None:
    def total(x: Tensor) -> Tensor:
        return (f(x) * f(x)).sum()

    expected = X * 6.0
    close(wg.grad(total)(X), expected)
    close(wg.jvp(f, (X,), (Y,))[1], Y * 3.0)
    close(wg.graph(wg.grad(total))(X)(X), expected)
    close(wg.grad(wg.graph(total)(X))(X), expected)
    close(wg.vmap(wg.grad(total))(ROWS), ROWS * 6.0)
    close(wg.grad(lambda r: wg.vmap(total)(r).sum())(ROWS), ROWS * 6.0)
    close(wg.grad(lambda x: wg.grad(total)(x).sum())(X), X * 0.0 + 18.0)


def test_a_traced_graph_has_one_node_for_a_call() -> None:
    g = wg.graph(lambda x: tripled(x) * 2.0)(X)
    assert [n.op.name for n in g.computations] == ["tripled", "multiply"]
    assert [n.op.name for n in g.expand().computations] == ["multiply", "multiply"]
    assert wg.graph(lambda x: tripled(x) * 2.0)(X) == g


def test_defjvps_skips_arguments_without_a_rule() -> None:
    @wg.custom_jvp
    def f(x: Tensor, y: Tensor) -> Tensor:
        return x * y

    f.defjvps(None, lambda t, out, x, y: t * out)
    assert wg.jvp(f, (2.0, 3.0), (1.0, 1.0))[1].item() == 6.0
    gx, gy = wg.grad(f, argnums=(0, 1))(2.0, 3.0)
    assert (gx.item(), gy.item()) == (0.0, 6.0)
    f.defjvps(None, None)
    assert wg.jvp(f, (2.0, 3.0), (1.0, 1.0))[1].item() == 0.0


def test_nests_keywords_and_defaults() -> None:
    @wg.custom_jvp
    def affine(p: dict[str, Tensor], x: Any, scale: float = 2.0) -> tuple[Tensor, list[Tensor]]:
        return p["w"] * x * scale, [p["b"] + x]

    @affine.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        (p, x, scale), (tp, tx, ts) = primals, tangents
        assert ts == 0.0
        return affine(p, x, scale), ((tp["w"] * x + p["w"] * tx) * scale, [tp["b"] + tx])

    p = {"w": f64(3.0), "b": f64(1.0)}

    def total(p: Any, x: Any) -> Tensor:
        a, (b,) = affine(p, x=x, scale=0.5)
        return a * b

    def reference(p: Any, x: Any) -> Tensor:
        return (p["w"] * x * 0.5) * (p["b"] + x)

    close(wg.grad(total, argnums=(0, 1))(p, f64(2.0)), wg.grad(reference, argnums=(0, 1))(p, f64(2.0)))
    assert affine(p, f64(2.0))[0].item() == 12.0
    with pytest.raises(TypeError, match="missing"):
        affine(p)


def test_arguments_that_are_not_differentiated_in() -> None:
    calls: list[Any] = []

    def power(f: Any, x: Tensor, n: int) -> Tensor:
        return f(x) ** n

    by_tangent = wg.custom_jvp(power, nondiff_argnums=(0, 2))

    @by_tangent.defjvp
    def _(f: Any, n: int, primals: Any, tangents: Any) -> Any:
        calls.append(n)
        out, t = wg.jvp(f, primals, tangents)
        return out**n, n * out ** (n - 1) * t

    by_cotangent = wg.custom_vjp(power, nondiff_argnums=(0, -1))
    by_cotangent.defvjp(
        lambda f, x, n: (power(f, x, n), x),
        lambda f, n, x, ct: (wg.grad(lambda z: (f(z) ** n * ct).sum())(x),),
    )
    for f in (by_tangent, by_cotangent):
        close(wg.grad(lambda x, f=f: f(wg.sin, x, 3))(f64(0.4)), wg.grad(lambda x: wg.sin(x) ** 3)(f64(0.4)))
        close(
            wg.jvp(lambda x, f=f: f(wg.sin, x, 2), (f64(0.4),), (f64(1.0),)),
            wg.jvp(lambda x: wg.sin(x) ** 2, (f64(0.4),), (f64(1.0),)),
        )
    assert set(calls) == {2, 3}


def test_a_tensor_that_is_not_differentiated_in_carries_no_gradient() -> None:
    f = wg.custom_vjp(lambda scale, x: scale * x, nondiff_argnums=0)
    f.defvjp(lambda scale, x: (scale * x, None), lambda scale, res, ct: (scale * ct,))
    scale, x = f64([2.0, 3.0]).requires_grad_(), f64([1.0, 1.0]).requires_grad_()
    f(scale, x).sum().backward()
    assert scale.grad is None
    assert x.grad.tolist() == [2.0, 3.0]
    close(wg.graph(wg.grad(lambda x: f(scale.detach(), x).sum()))(X[:2])(X[:2]), scale.detach())


def test_cotangents_that_are_none() -> None:
    f = wg.custom_vjp(lambda p, y, n: {"out": p["a"] * y, "count": wg.argmax(y)})
    f.defvjp(
        lambda p, y, n: (f(p, y, n), (p, y)),
        lambda res, ct: ({"a": ct["out"] * res[1], "b": None}, None, None) if ct["count"] is None else 1 / 0,
    )
    p = {"a": f64([1.0, 2.0]), "b": f64(1.0)}
    gp, gy = wg.grad(lambda p, y: f(p, y, 3)["out"].sum(), argnums=(0, 1))(p, f64([3.0, 4.0]))
    assert gp["a"].tolist() == [3.0, 4.0]
    assert gp["b"].item() == 0.0
    assert gy.tolist() == [0.0, 0.0]


def test_integer_results_and_arguments() -> None:
    @wg.custom_jvp
    def top(x: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return x * k, wg.argmax(x)

    @top.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        (x, k), (t, nothing) = primals, tangents
        assert nothing is None
        value, index = top(x, k)
        return (value, index), (t * k, None)

    k = wg.tensor([2, 3, 4])
    value, index = top(X.detach().requires_grad_(), k)
    assert value.requires_grad
    assert not index.requires_grad
    assert index.item() == 1
    close(wg.grad(lambda x: top(x, k)[0].sum())(X), f64([2.0, 3.0, 4.0]))
    close(wg.graph(wg.grad(lambda x: top(x, k)[0].sum()))(X)(X), f64([2.0, 3.0, 4.0]))
    (_, i), (t, ti) = wg.jvp(lambda x: top(x, k), (X,), (Y,))
    assert ti is None
    assert i.item() == 1
    close(t, Y * f64([2.0, 3.0, 4.0]))


def test_untracked_arguments_and_no_grad_record_nothing() -> None:
    for f in (tripled, tripled_back):
        assert not f(X).requires_grad
        x = X.detach().requires_grad_()
        assert f(x).grad_fn.op.name == f.__name__
        with wg.no_grad():
            assert not f(x).requires_grad


def test_methods_can_have_rules() -> None:
    class Layer:
        factor = 2.0

        @wg.custom_jvp
        def call(self, x: Tensor) -> Tensor:
            return x * self.factor

    Layer.call.defjvp(lambda p, t: (Layer.call(*p), t[1] * 10.0))  # type: ignore[attr-defined]
    assert wg.grad(Layer().call)(3.0).item() == 10.0


def test_one_result_unused() -> None:
    for way in WAYS:
        close(wg.grad(lambda x, way=way: way(x, Y)["b"].sum())(X), X * 0.0 + 1.0)


def test_complex_arguments() -> None:
    @wg.custom_jvp
    def square(z: Tensor) -> Tensor:
        return z * z

    square.defjvps(lambda t, out, z: 2.0 * z * t)
    z = wg.tensor([1.0 + 2.0j, 0.5 - 1.0j], dtype=wg.complex128)
    wg.check_grads(square, z, order=2)


def test_narrow_dtypes_keep_theirs() -> None:
    for dtype in (wg.float32, wg.float16, wg.bfloat16):
        x = wg.tensor([1.0, 2.0], dtype=dtype)
        for f in (tripled, tripled_back, Tripled.apply):
            assert wg.grad(lambda x, f=f: f(x).sum())(x).dtype == dtype
            assert wg.jvp(f, (x,), (x,))[1].dtype == dtype


def test_empty_and_0d_tensors() -> None:
    for f in (tripled, tripled_back, Tripled.apply):
        assert wg.grad(lambda x, f=f: f(x).sum())(wg.zeros(0, 3)).shape == (0, 3)
        assert wg.grad(f)(1.0).item() == 3.0


# -- random numbers inside


class Masked(wg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        mask = wg.rand(*x.shape, dtype=F64)
        ctx.save_for_backward(mask, x)
        return x * x * mask

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        mask, x = ctx.saved_tensors
        return g * 2.0 * x * mask


def test_own_random_numbers_are_the_same_in_a_recorded_pass() -> None:
    x = X.detach().requires_grad_()
    out = Masked.apply(x)
    mask = (out / (x * x)).detach()
    state = wg.random.get_rng_state()
    (g,) = wg.autograd.grad(out.sum(), x, create_graph=True)
    assert wg.random.get_rng_state().tolist() == state.tolist()
    close(g, 2.0 * x * mask)
    (h,) = wg.autograd.grad(g.sum(), x)
    close(h, 2.0 * mask)


def test_random_numbers_in_a_traced_custom_function_are_refused() -> None:
    with pytest.raises(wg.GraphError, match="draws random numbers"):
        wg.graph(Masked.apply)(X)


# -- errors


def line_of(fn: Any) -> str:
    return f"{__file__}:{fn.__code__.co_firstlineno}"


def run_jvp(rule: Any) -> None:
    f = wg.custom_jvp(lambda x: {"out": x * 2.0})
    f.defjvp(rule)
    wg.grad(lambda x: f(x)["out"].sum())(X)


@pytest.mark.parametrize(
    ("rule", "kind", "text"),
    [
        (lambda p, t: t[0], wg.GradientError, "returned a Tensor, not (out, tangent)"),
        (lambda p, t: (p[0], t[0]), wg.GradientError, "returned a value * where the function returns {'out': *}"),
        (lambda p, t: ({"out": p[0]}, t[0]), wg.GradientError, "returned a tangent *"),
        (
            lambda p, t: ({"out": p[0]}, {"out": t[0].sum()}),
            wg.ShapeError,
            "a tangent of shape () for a value of shape (3,)",
        ),
        (lambda p, t: ({"out": p[0]}, {"out": wg.zeros(3, dtype=wg.int64)}), wg.DTypeError, "of dtype int64"),
        (lambda p, t: ({"out": p[0]}, {"out": "t"}), wg.GradientError, "returned a str as tangent"),
        (lambda p, t: ({"out": p[0]}, {"out": t[0] * t[0]}), wg.GradientError, "not linear in the tangents"),
    ],
)
def test_jvp_rules_that_return_what_does_not_fit(rule: Any, kind: Any, text: str) -> None:
    with pytest.raises(kind, match=re.escape(text)) as caught:
        run_jvp(rule)
    assert line_of(rule) in str(caught.value).splitlines()[0]


def run_vjp(bwd: Any) -> None:
    f = wg.custom_vjp(lambda x, p: x * p["w"])
    f.defvjp(lambda x, p: (x * p["w"], None), bwd)
    wg.grad(lambda x: f(x, {"w": f64(2.0)}).sum())(X)


@pytest.mark.parametrize(
    ("bwd", "kind", "text"),
    [
        (lambda res, ct: ct, wg.GradientError, "returned a Tensor, not a tuple of 2"),
        (lambda res, ct: (ct,), wg.GradientError, "returned 1 cotangents, not a tuple of 2"),
        (lambda res, ct: (ct, ct), wg.GradientError, "a cotangent * for argument 1, a {'w': *}"),
        (lambda res, ct: (ct.sum(), None), wg.ShapeError, "a cotangent of shape () for a value of shape (3,)"),
        (lambda res, ct: ("ct", None), wg.GradientError, "returned a str as cotangent"),
    ],
)
def test_bwd_rules_that_return_what_does_not_fit(bwd: Any, kind: Any, text: str) -> None:
    with pytest.raises(kind, match=re.escape(text)) as caught:
        run_vjp(bwd)
    assert line_of(bwd) in str(caught.value).splitlines()[0]


def test_fwd_rules_that_return_what_does_not_fit() -> None:
    def fwd(x: Tensor) -> Any:
        return x * 2.0

    f = wg.custom_vjp(lambda x: x * 2.0)
    f.defvjp(fwd, lambda res, ct: (ct,))
    with pytest.raises(wg.GradientError, match=re.escape("returned a Tensor, not (out, residuals)")) as caught:
        wg.grad(lambda x: f(x).sum())(X)
    assert line_of(fwd) in str(caught.value)


def test_the_class_errors_name_their_line() -> None:
    class Bad(Tripled):
        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Any:
            return g.sum()

    with pytest.raises(wg.ShapeError) as caught:
        wg.grad(lambda x: Bad.apply(x).sum())(X)
    assert f":{inspect.getsourcelines(Bad.backward)[1]}" in str(caught.value).splitlines()[0]


def test_functions_without_rules() -> None:
    with pytest.raises(wg.GradientError, match="has no rule"):
        wg.custom_jvp(lambda x: x)(X)
    with pytest.raises(wg.GradientError, match="has no rules"):
        wg.custom_vjp(lambda x: x)(X)
    with pytest.raises(wg.GradientError, match="keyword-only"):
        wg.custom_vjp(lambda *, x: x)(x=X)
    with pytest.raises(wg.GradientError, match="nondiff_argnums 3"):
        wg.custom_jvp(lambda x: x, nondiff_argnums=3)(X)
    f = wg.custom_jvp(lambda x, n: x, nondiff_argnums=1)
    with pytest.raises(wg.GradientError, match="defjvps"):
        f.defjvps(None)
    g = wg.custom_jvp(lambda x: "text")
    g.defjvps(None)
    with pytest.raises(wg.GradientError, match="returned a str"):
        g(X)


def test_a_rule_that_is_not_linear_has_no_forward_mode() -> None:
    f = wg.custom_vjp(lambda x: x * 1.0)
    f.defvjp(lambda x: (f(x), None), lambda res, ct: (wg.clip(ct, -1.0, 1.0) + 1.0,))
    assert wg.grad(lambda x: (f(x) * 5.0).sum())(X).tolist() == [2.0, 2.0, 2.0]
    with pytest.raises(wg.GradientError, match="not linear in the cotangent"):
        wg.jvp(f, (X,), (Y,))


@pytest.mark.parametrize("make", [wg.custom_jvp, wg.custom_vjp])
def test_tensors_from_outside_that_require_gradients_are_refused(make: Any) -> None:
    w = f64([2.0, 2.0, 2.0]).requires_grad_()
    f = make(lambda x: x * w)
    if make is wg.custom_jvp:
        f.defjvps(lambda t, out, x: t * w)
    else:
        f.defvjp(lambda x: (x * w, None), lambda res, ct: (ct * w,))
    for call in (lambda: f(X), lambda: wg.grad(lambda x: f(x).sum())(X), lambda: wg.graph(f)(X)):
        with pytest.raises(wg.GradientError, match="requires gradients and is not one of its arguments"):
            call()
    with wg.no_grad():
        assert f(X).tolist() == (X * 2.0).tolist()
    constant = make(lambda x: x * w.detach())
    if make is wg.custom_jvp:
        constant.defjvps(lambda t, out, x: t * w.detach())
    else:
        constant.defvjp(lambda x: (x * w.detach(), None), lambda res, ct: (ct * w.detach(),))
    close(wg.grad(lambda x: constant(x).sum())(X), w)
    close(wg.grad(wg.graph(lambda x: constant(x).sum())(X))(X), w)


def test_traced_tensors_from_outside_are_refused() -> None:
    def program(x: Tensor, y: Tensor) -> Tensor:
        f = wg.custom_jvp(lambda z: z * y)
        f.defjvps(lambda t, out, z: t * y)
        return f(x)

    with pytest.raises(wg.GradientError, match="traced tensor that is not one of its"):
        wg.graph(program)(X, Y)


def test_saved_values_are_freed() -> None:
    x = X.detach().requires_grad_()
    out = by_vjp(x, Y)["a"].sum()
    out.backward()
    with pytest.raises(wg.GradientError, match="second time"):
        out.backward()
