"""Functions that write to their arguments, to their own tensors and to others', inside every transform."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg

X = (1.0, 2.0, 3.0)


def element(x: wg.Tensor) -> wg.Tensor:
    x[0] = x[0] * 5
    return (x**2).sum()


def method(x: wg.Tensor) -> wg.Tensor:
    x.mul_(wg.tensor([5.0, 1.0, 1.0], dtype=wg.float64))
    return (x**2).sum()


def mask(x: wg.Tensor) -> wg.Tensor:
    x[wg.tensor([True, False, False])] = x[0] * 5
    return (x**2).sum()


def several(x: wg.Tensor) -> wg.Tensor:
    x[0] = x[0] * 2.5
    y = x
    y[0] = y[0] * 2
    x.add_(0.0)
    return (x**2).sum()


def through_a_copy(x: wg.Tensor) -> wg.Tensor:
    y = x.clone()
    y[0] = x[0] * 5
    return (y**2).sum()


def own_buffer(x: wg.Tensor) -> wg.Tensor:
    buffer = wg.zeros(3, dtype=wg.float64)
    buffer[0] = x[0] * 5
    buffer[1:] = x[1:]
    return (buffer**2).sum()


WRITERS = (element, method, mask, several, through_a_copy, own_buffer)


def at() -> wg.Tensor:
    return wg.tensor(X, dtype=wg.float64)


def along() -> wg.Tensor:
    return wg.tensor([1.0, 0.5, -1.0], dtype=wg.float64)


# All writers compute 25 x0^2 + x1^2 + x2^2.
SLOPE = np.array([50.0, 4.0, 6.0])
CURVE = np.diag([50.0, 2.0, 2.0])
ALONG = np.array([1.0, 0.5, -1.0])
VALUE = 38.0

Transform = Callable[[Callable[[wg.Tensor], wg.Tensor], wg.Tensor], Any]

TRANSFORMS: dict[str, tuple[Transform, Any]] = {
    "grad": (lambda f, x: wg.grad(f)(x), SLOPE),
    "value_and_grad": (lambda f, x: wg.value_and_grad(f)(x)[0], VALUE),
    "vjp": (lambda f, x: wg.vjp(f, x)[1](wg.tensor(1.0, dtype=wg.float64))[0], SLOPE),
    "jvp": (lambda f, x: wg.jvp(f, (x,), (along(),))[1], SLOPE @ ALONG),
    "linearize": (lambda f, x: wg.linearize(f, x)[1](along()), SLOPE @ ALONG),
    "jacobian": (lambda f, x: wg.jacobian(f)(x), SLOPE),
    "jacobian, forward": (lambda f, x: wg.jacobian(f, mode="forward")(x), SLOPE),
    "hessian": (lambda f, x: wg.hessian(f)(x), CURVE),
    "hvp": (lambda f, x: wg.hvp(f, (x,), (along(),)), CURVE @ ALONG),
    "laplacian": (lambda f, x: wg.laplacian(f)(x), 54.0),
    "taylor": (lambda f, x: wg.taylor(f, x, 2, direction=along())[2], ALONG @ CURVE @ ALONG),
    "sparse_jacobian": (lambda f, x: wg.sparse.jacobian(lambda y: f(y).reshape(1))(x).toarray()[0], SLOPE),
    "sparse_hessian": (lambda f, x: wg.sparse.hessian(f)(x).toarray(), CURVE),
    "gauss_newton_product": (
        lambda f, x: wg.gauss_newton_product(f, lambda y: y * y, (x,), (along(),)),
        2 * SLOPE * (SLOPE @ ALONG),
    ),
    "checkpoint": (lambda f, x: wg.grad(wg.checkpoint(f))(x), SLOPE),
    "vmap": (lambda f, x: wg.vmap(f)(wg.stack([x, x])), [VALUE, VALUE]),
    "vmap of grad": (lambda f, x: wg.vmap(wg.grad(f))(wg.stack([x, x])), [SLOPE, SLOPE]),
    "grad of vmap": (lambda f, x: wg.grad(lambda xs: wg.vmap(f)(xs).sum())(wg.stack([x, x])), [SLOPE, SLOPE]),
    "graph": (lambda f, x: wg.graph(f)(x)(x), VALUE),
    "grad of a graph": (lambda f, x: wg.grad(wg.graph(f)(x))(x), SLOPE),
    "jit of grad": (lambda f, x: wg.jit(wg.grad(f))(x), SLOPE),
    "grad of jit": (lambda f, x: wg.grad(wg.jit(f))(x), SLOPE),
    "jit of jvp": (lambda f, x: wg.jit(lambda y: wg.jvp(f, (y,), (along(),))[1])(x), SLOPE @ ALONG),
    "grad of grad": (lambda f, x: wg.grad(lambda y: (wg.grad(f)(y) * along()).sum())(x), CURVE @ ALONG),
    "cond": (lambda f, x: wg.grad(lambda y: wg.cond(True, f, lambda z: z.sum(), y))(x), SLOPE),
    "jit of cond": (
        lambda f, x: wg.jit(wg.grad(lambda y: wg.cond(y.sum() > 0, f, lambda z: z.sum(), y)))(x),
        SLOPE,
    ),
    "while_loop": (
        lambda f, x: wg.while_loop(lambda s: s[1] < 1, lambda s: (s[0], f(s[0])), (x, wg.zeros(()).double()))[1],
        VALUE,
    ),
    "scan": (lambda f, x: wg.scan(lambda c, row: (c, f(row)), (), wg.stack([x, x]))[1], [VALUE, VALUE]),
    "jit of scan": (
        lambda f, x: wg.jit(lambda xs: wg.scan(lambda c, row: (c, f(row)), (), xs)[1])(wg.stack([x, x])),
        [VALUE, VALUE],
    ),
}


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("f", WRITERS, ids=lambda f: f.__name__)
def test_a_write_counts_inside_and_does_not_show_outside(f: Callable[[wg.Tensor], wg.Tensor], name: str) -> None:
    transform, expected = TRANSFORMS[name]
    for _ in range(2):
        x = at()
        found = transform(f, x)
        assert not found.requires_grad if isinstance(found, wg.Tensor) else True
        np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-12)
        assert x.tolist() == list(X)
        assert not x.requires_grad


def test_jit_writes_its_arguments_as_eager_does() -> None:
    compiled = wg.jit(element)
    for _ in range(6):
        x = at()
        assert float(compiled(x)) == VALUE
        assert x.tolist() == [5.0, 2.0, 3.0]


def test_entries_of_a_dict() -> None:
    def f(p: dict[str, Any]) -> wg.Tensor:
        p["a"] = p["a"] * 2
        p["b"].add_(1.0)
        return p["a"] * p["b"]

    given = {"a": wg.tensor(2.0), "b": wg.tensor(3.0)}
    found = wg.grad(f)(given)
    assert (float(found["a"]), float(found["b"])) == (8.0, 4.0)
    assert (float(given["a"]), float(given["b"])) == (2.0, 3.0)


def test_arguments_that_are_not_differentiated_in_stay() -> None:
    def f(x: wg.Tensor, y: wg.Tensor, *, k: wg.Tensor, n: wg.Tensor) -> tuple[wg.Tensor, Any]:
        y[0] = x.sum() * 2
        k.mul_(3.0)
        n[0] = 7
        return (y * k).sum(), (y, n)

    x, y, k, n = wg.ones(2), wg.ones(2), wg.tensor(1.0), wg.tensor([1, 2])
    g, (seen, counts) = wg.grad(f, has_aux=True)(x, y, k=k, n=n)
    assert g.tolist() == [6.0, 6.0]
    assert seen.tolist() == [4.0, 1.0]
    assert counts.tolist() == [7, 2]
    assert (y.tolist(), k.tolist(), n.tolist()) == ([1.0, 1.0], 1.0, [1, 2])


def test_a_failing_function_leaves_its_arguments_too() -> None:
    def f(x: wg.Tensor, y: wg.Tensor) -> wg.Tensor:
        y[0] = x[0]
        raise KeyError("mine")

    y = wg.ones(2)
    for transform in (wg.grad(f), wg.checkpoint(f), lambda a, b: wg.cond(True, f, f, a, b)):
        with pytest.raises(KeyError, match="mine"):
            transform(wg.ones(2), y)
        assert y.tolist() == [1.0, 1.0]


def test_a_tensor_from_outside_keeps_what_it_was_given_as_a_plain_value() -> None:
    buffer = wg.zeros(2)

    def f(x: wg.Tensor) -> wg.Tensor:
        buffer[0] = x * 3
        return (buffer * buffer).sum()

    assert float(wg.grad(f)(2.0)) == 36.0
    assert buffer.tolist() == [6.0, 0.0]
    assert not buffer.requires_grad
    assert wg.jvp(f, (2.0,), (1.0,))[1].item() == 36.0
    assert not buffer.requires_grad
    # Where an outer transform is at work, it goes on carrying its gradient.
    second = wg.grad(lambda x: wg.grad(f)(x) + buffer[0])(2.0)
    assert float(second) == 18.0 + 3.0


@pytest.mark.parametrize("kind", ["vmap", "graph", "scan", "while", "cond", "linear_transpose"])
def test_a_trace_refuses_writes_to_tensors_from_outside(kind: str) -> None:
    buffer = wg.zeros(3)

    def f(x: wg.Tensor) -> wg.Tensor:
        buffer[0] = x.sum()
        return x * 2

    run: dict[str, Callable[[], Any]] = {
        "vmap": lambda: wg.vmap(f)(wg.ones(2, 3)),
        "graph": lambda: wg.graph(f)(wg.ones(3)),
        "scan": lambda: wg.jit(lambda x: wg.scan(lambda c, r: (f(c), r), x, wg.ones(2)))(wg.ones(3)),
        "while": lambda: wg.jit(lambda x: wg.while_loop(lambda c: c.sum() < 9, f, x))(wg.ones(3)),
        "cond": lambda: wg.jit(lambda x: wg.cond(x.sum() > 0, f, lambda y: y, x))(wg.ones(3)),
        "linear_transpose": lambda: wg.linear_transpose(f, wg.ones(3)),
    }
    with pytest.raises(wg.GraphError, match=r" writes to a tensor from outside, f32\[3\], while it is traced") as e:
        run[kind]()
    assert "test_mutation.py" in str(e.value).splitlines()[0]
    assert buffer.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    "kind", ["vmap", "graph", "scan", "fori", "while", "cond", "argument", "setitem", "linear_transpose"]
)
def test_a_trace_refuses_to_return_tensors_from_outside_that_it_wrote_to(kind: str) -> None:
    buffer = wg.zeros(())

    def assigned(x: wg.Tensor) -> wg.Tensor:
        buffer[()] = x
        return buffer

    run: dict[str, Callable[[], Any]] = {
        "vmap": lambda: wg.vmap(lambda v: buffer.add_(v))(wg.ones(3)),
        "graph": lambda: wg.graph(lambda x: buffer.add_(x))(wg.ones(())),
        "scan": lambda: wg.jit(lambda x: wg.scan(lambda c, v: (c, buffer.add_(v)), x[0], x))(wg.ones(3)),
        "fori": lambda: wg.jit(lambda x: wg.fori_loop(0, 3, lambda i, c: buffer.add_(1.0), x))(wg.ones(())),
        "while": lambda: wg.jit(lambda x: wg.while_loop(lambda c: c < 3, lambda c: buffer.add_(1.0), x))(wg.ones(())),
        "cond": lambda: wg.jit(lambda x: wg.cond(x > 0, lambda: buffer.add_(1.0), lambda: buffer.add_(10.0)))(
            wg.ones(())
        ),
        "argument": lambda: wg.jit(lambda x: wg.cond(x > 0, lambda: x.mul_(2.0), lambda: x * 1.0))(buffer),
        "setitem": lambda: wg.vmap(assigned)(wg.ones(3)),
        "linear_transpose": lambda: wg.linear_transpose(assigned, wg.ones(())),
    }
    with pytest.raises(wg.GraphError, match=r" writes to a tensor from outside, f32\[\], while it is traced") as e:
        run[kind]()
    assert "test_mutation.py" in str(e.value).splitlines()[0]
    assert buffer.tolist() == 0.0
    assert (buffer + 1.0).tolist() == 1.0


def test_a_trace_may_write_to_what_it_made_and_return_it() -> None:
    def made(x: wg.Tensor) -> list[wg.Tensor]:
        own = wg.zeros(2)
        own[1] = x
        whole = wg.zeros(2)
        whole.add_(1.0)
        return [own, whole, own]

    expected = [[0.0, 3.0], [1.0, 1.0], [0.0, 3.0]]
    x = wg.tensor(3.0)
    assert [t.tolist() for t in wg.graph(made)(x)(x)] == expected
    assert [t[0].tolist() for t in wg.vmap(made)(x[None])] == expected
    branches = wg.jit(lambda x: wg.cond(x > 0, made, lambda x: [wg.zeros(2)] * 3, x))
    for _ in range(3):
        assert [t.tolist() for t in branches(x)] == expected


def test_traced_bodies_may_write_to_what_they_carry_and_to_their_own() -> None:
    def body(c: wg.Tensor, r: wg.Tensor) -> tuple[wg.Tensor, wg.Tensor]:
        c[0] = c[0] + r
        own = wg.zeros(2)
        own[1] = c[0] * r
        return c, own

    rows = wg.tensor([1.0, 2.0, 3.0])
    start = wg.zeros(2)
    eager = wg.scan(body, start, rows)
    assert start.tolist() == [0.0, 0.0]
    compiled = wg.jit(lambda s: wg.scan(body, s, rows))
    for _ in range(6):
        for a, b in zip(wg.tree.leaves(eager), wg.tree.leaves(compiled(start)), strict=True):
            assert a.tolist() == b.tolist()
    many = wg.vmap(lambda s: wg.scan(body, s, rows)[0])(wg.stack([start, start + 1]))
    assert many.tolist() == [[6.0, 0.0], [7.0, 1.0]]


def test_rows_that_a_scan_has_given_are_not_changed_by_later_steps() -> None:
    def body(c: wg.Tensor, r: wg.Tensor) -> tuple[wg.Tensor, wg.Tensor]:
        c[0] = c[0] + r
        return c, c

    _, ys = wg.scan(body, wg.zeros(1), wg.tensor([1.0, 2.0, 3.0]))
    assert ys.tolist() == [[1.0], [3.0], [6.0]]


def test_results_may_be_written_to_before_they_are_pulled_back_or_pushed() -> None:
    x = wg.tensor([1.0, 2.0], requires_grad=True)
    out, pull = wg.vjp(lambda y: y * y, x * 1.0)
    out[0] = 100.0
    assert pull(wg.ones(2))[0].tolist() == [2.0, 4.0]
    out, push = wg.linearize(lambda y: y * y, x * 1.0)
    out.mul_(0.0)
    assert push(wg.ones(2)).tolist() == [2.0, 4.0]
    with wg.autograd.dual_level():
        d = wg.autograd.make_dual(wg.tensor([1.0, 2.0]), wg.tensor([1.0, 0.0]))
        e = d * d
        d[0] = 50.0
        assert wg.autograd.unpack_dual(e).tangent.tolist() == [2.0, 0.0]


def test_a_checkpoint_computes_with_the_values_of_the_first_time() -> None:
    w = wg.tensor([2.0], requires_grad=True)

    def f(x: wg.Tensor) -> wg.Tensor:
        y = wg.sin(w * x) * x
        with wg.no_grad():
            w.mul_(10.0)
        return y

    x = wg.tensor([0.5], requires_grad=True)
    wg.checkpoint(f)(x).sum().backward()
    assert w.tolist() == [20.0]
    np.testing.assert_allclose(w.grad.numpy(), [np.cos(1.0) * 0.25], rtol=1e-6)


def test_functions_with_rules_of_their_own_leave_their_arguments() -> None:
    class Doubled(wg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: wg.Tensor) -> wg.Tensor:
            x.mul_(2.0)
            return x

        @staticmethod
        def backward(ctx: Any, g: wg.Tensor) -> wg.Tensor:
            return g * 2.0

    @wg.custom_jvp
    def tripled(x: wg.Tensor) -> wg.Tensor:
        x[0] = 3.0
        return x * 1.0

    tripled.defjvp(lambda primals, tangents: (tripled(*primals), tangents[0] * 3.0))
    x = wg.ones(2).requires_grad_()
    with pytest.raises(wg.GradientError, match=r"Doubled.forward writes to its argument 0, f32\[2\]"):
        Doubled.apply(x)
    with pytest.raises(wg.GradientError, match=r"tripled writes to its argument 0, f32\[2\]"):
        tripled(x)
    assert x.tolist() == [1.0, 1.0]


def test_dicts_with_their_keys_in_another_order_are_the_same_nest() -> None:
    def f(d: dict[str, Any]) -> wg.Tensor:
        return d["a"] * d["a"] * d["b"]

    assert wg.jvp(f, ({"a": 2.0, "b": 3.0},), ({"b": 1.0, "a": 0.0},))[1].item() == 4.0
    _, pull = wg.vjp(lambda x: {"p": x, "q": x * 10}, wg.tensor(1.0))
    assert pull({"q": wg.tensor(1.0), "p": wg.tensor(0.0)})[0].item() == 10.0
    total = wg.tree.map(lambda a, b: a - b, {"a": 5, "b": 1}, {"b": 10, "a": 2})
    assert total == {"a": 3, "b": -9}
    start = {"u": wg.ones(()), "v": wg.zeros(())}
    carry, _ = wg.scan(lambda c, r: ({"v": c["v"] + r, "u": c["u"]}, r), start, wg.ones(3))
    assert (carry["u"].item(), carry["v"].item()) == (1.0, 3.0)
    step = wg.jit(lambda c: wg.scan(lambda c, r: ({"v": c["v"] + r, "u": c["u"]}, r), c, wg.ones(3))[0])
    found = step(start)
    assert (found["u"].item(), found["v"].item()) == (1.0, 3.0)
    branch = wg.jit(lambda x: wg.cond(x > 0, lambda y: {"a": y, "b": y * 2}, lambda y: {"b": y * 3, "a": y * 4}, x))
    assert branch(wg.tensor(-1.0))["b"].item() == -3.0
    with pytest.raises(wg.GradientError, match="tangents"):
        wg.jvp(f, ({"a": 2.0, "b": 3.0},), ({"c": 1.0, "a": 0.0},))


def test_compiled_functions_write_to_numpy_arrays_as_they_do_to_tensors() -> None:
    def fn(x: Any) -> Any:
        x[0] = x[0] * 5
        x *= 2
        return x.sum()

    compiled = wg.jit(fn)
    for k in range(4):
        x = np.array([1.0, 2.0]) + k
        want = x.copy()
        total = fn(want)
        assert float(compiled(x)) == total
        np.testing.assert_array_equal(x, want)
        # Elements anywhere in memory, and of another byte order.
        wide = np.zeros((2, 3), ">f8")
        wide[:, 1] = np.array([1.0, 2.0]) + k
        compiled(wide[:, 1])
        np.testing.assert_array_equal(wide[:, 1], want)
    frozen = np.ones(2)
    frozen.flags.writeable = False
    with pytest.raises(wg.WriteError, match="that is read-only"):
        compiled(frozen)
    both = np.ones(4)
    for other in (both, both[1:]):
        with pytest.raises(wg.WriteError, match="shares memory with another one"):
            wg.jit(lambda x, y: (fn(x), y.sum()))(both, other)
    assert float(compiled(np.ones(2))) == 12.0
    assert float(wg.jit(lambda x: x.mul_(2.0))(np.float64(3.0))) == 6.0
