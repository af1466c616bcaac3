"""Reverse mode as its users meet it: `backward`, `autograd.grad`, modes, hooks, custom functions, memory."""

from __future__ import annotations

import copy
import gc
import itertools
import pickle
import threading
import tracemalloc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.core.tensor import Tensor

F64 = wg.float64


def leaf(value: Any, dtype: Any = F64) -> Tensor:
    return wg.tensor(value, dtype=dtype, requires_grad=True)


# -- accumulating, keeping, choosing


def test_gradients_add_up_over_passes_and_roots() -> None:
    x = leaf([1.0, 2.0])
    (x * x).sum().backward()
    first = x.grad
    (x * 3.0).sum().backward()
    assert x.grad.tolist() == [5.0, 7.0]
    assert first.tolist() == [2.0, 4.0]  # a tensor is a value: what was read before is not changed
    x.grad = None
    wg.autograd.backward([(x * x).sum(), x.sum()])
    assert x.grad.tolist() == [3.0, 5.0]


def test_one_root_given_twice_counts_twice() -> None:
    x = leaf(3.0)
    y = x * x
    wg.autograd.backward([y, y])
    assert x.grad.item() == 12.0


def test_a_root_below_another_root() -> None:
    x = leaf(2.0)
    y = x * x
    z = y * y
    wg.autograd.backward([z, y])
    assert x.grad.item() == 4 * 8.0 + 4.0


def test_a_leaf_is_its_own_gradient() -> None:
    x = leaf(2.0)
    x.backward()
    x.backward()
    assert x.grad.item() == 2.0
    assert wg.autograd.grad(x, x)[0].item() == 1.0


def test_retain_graph() -> None:
    x = leaf([1.0, 2.0])
    y = (x**3).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [6.0, 24.0]
    with pytest.raises(wg.GradientError, match="a second time"):
        y.backward()
    assert x.grad.tolist() == [6.0, 24.0]


def test_a_freed_part_fails_only_where_it_is_needed() -> None:
    x, w = leaf(2.0), leaf(3.0)
    shared = wg.exp(x)
    (shared * w).backward()
    other = shared + w  # needs nothing saved itself, but exp's saved value is gone
    with pytest.raises(wg.GradientError, match=r"exp .*a second time"):
        other.backward()
    assert wg.autograd.grad(shared + w, w)[0].item() == 1.0  # the freed part is not on the way


def test_linear_graphs_can_be_run_again() -> None:
    x = leaf([1.0, 2.0])
    y = (x + 1.0).sum()
    y.backward()
    y.backward()
    assert x.grad.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("ct", [np.array([1.0, 10.0]), wg.tensor([1.0, 10.0], dtype=F64)])
def test_gradient_argument(ct: Any) -> None:
    x = leaf([2.0, 3.0])
    (x * x).backward(ct)
    assert x.grad.tolist() == [4.0, 60.0]
    assert x.grad.dtype == F64


def test_gradient_argument_errors() -> None:
    x = leaf([2.0, 3.0])
    with pytest.raises(wg.GradientError, match=r"not a scalar"):
        (x * x).backward()
    with pytest.raises(wg.ShapeError, match=r"gradient of shape \(\)"):
        (x * x).backward(1.0)
    with pytest.raises(wg.ShapeError, match=r"\(3,\) for a result of shape \(2,\)"):
        (x * x).backward(wg.ones(3))
    with pytest.raises(wg.DTypeError, match="complex"):
        (x * x).backward(wg.asarray([1j, 1j]))
    assert x.grad is None


def test_one_element_is_a_scalar() -> None:
    x = leaf([[3.0]])
    (x * x).backward()
    assert x.grad.tolist() == [[6.0]]


def test_inputs_argument_fills_only_those() -> None:
    x, w = leaf(2.0), leaf(5.0)
    h = x * x
    (h * w).backward(inputs=[x])
    assert x.grad.item() == 20.0
    assert w.grad is None
    (x * x * w).backward(inputs=w)
    assert x.grad.item() == 20.0
    assert w.grad.item() == 4.0


def test_inputs_argument_takes_intermediate_values() -> None:
    x = leaf(2.0)
    h = x * x
    (h * h).backward(inputs=[h])
    assert h.grad.item() == 8.0
    assert x.grad is None


def test_allow_unused() -> None:
    x, y = leaf(1.0), leaf(2.0)
    with pytest.raises(wg.GradientError, match="do not depend on input 1"):
        wg.autograd.grad(x * x, [x, y])
    gx, gy = wg.autograd.grad(x * x, [x, y], allow_unused=True)
    assert gx.item() == 2.0
    assert gy is None
    assert x.grad is None


def test_grad_of_several_outputs_is_the_weighted_sum() -> None:
    x = leaf([1.0, 2.0])
    (g,) = wg.autograd.grad([x.sum(), x * x], x, [wg.tensor(3.0), wg.tensor([1.0, 10.0])])
    assert g.tolist() == [5.0, 43.0]
    with pytest.raises(wg.GradientError, match="1 gradients for 2 results"):
        wg.autograd.grad([x.sum(), x.sum()], x, [wg.tensor(1.0)])


def test_grad_with_respect_to_an_intermediate_value() -> None:
    x = leaf(2.0)
    h = x * x
    out = h * h * x
    gh, gx = wg.autograd.grad(out, [h, x])
    assert (gh.item(), gx.item()) == (2 * 4 * 2.0, 5 * 16.0)


def test_the_same_input_twice() -> None:
    x = leaf(2.0)
    a, b = wg.autograd.grad(x**3, [x, x])
    assert a.item() == b.item() == 12.0


# -- higher orders


def test_create_graph_to_the_fourth_order() -> None:
    x = leaf(0.7)
    out = wg.sin(x) * x**3
    value = out
    expected = [
        lambda t: np.cos(t) * t**3 + 3 * t**2 * np.sin(t),
        lambda t: -np.sin(t) * t**3 + 6 * t**2 * np.cos(t) + 6 * t * np.sin(t),
        lambda t: -np.cos(t) * t**3 - 9 * t**2 * np.sin(t) + 18 * t * np.cos(t) + 6 * np.sin(t),
        lambda t: np.sin(t) * t**3 - 12 * t**2 * np.cos(t) - 36 * t * np.sin(t) + 24 * np.cos(t),
    ]
    for exact in expected:
        (value,) = wg.autograd.grad(value, x, create_graph=True)
        assert value.item() == pytest.approx(exact(0.7), rel=1e-12)


def test_backward_with_create_graph_fills_a_differentiable_grad() -> None:
    x = leaf([1.0, 2.0])
    (x**3).sum().backward(create_graph=True)
    g = x.grad
    assert g.requires_grad
    assert g.tolist() == [3.0, 12.0]
    x.grad = None
    (g * g).sum().backward()
    assert x.grad.tolist() == [2 * 3 * 6.0, 2 * 12 * 12.0]


def test_gradient_penalty() -> None:
    rng = np.random.default_rng(0)
    w = leaf(rng.normal(size=(3, 2)))
    x = leaf(rng.normal(size=(4, 3)))

    def penalty(w: Tensor, x: Tensor) -> Tensor:
        (g,) = wg.autograd.grad(wg.tanh(x @ w).sum(), x, create_graph=True)
        return ((wg.sqrt((g * g).sum(axis=1)) - 1.0) ** 2).mean()

    penalty(w, x).backward()
    for i, j in itertools.product(range(3), range(2)):
        step = np.zeros((3, 2))
        step[i, j] = 1e-5
        above, below = (penalty(leaf(w.detach().numpy() + s), leaf(x.detach().numpy())).item() for s in (step, -step))
        assert w.grad[i, j].item() == pytest.approx((above - below) / 2e-5, rel=1e-6, abs=1e-9)


def test_mixed_second_derivatives_commute() -> None:
    x, y = leaf(1.3), leaf(0.4)
    out = wg.exp(x * y) * wg.sin(y)
    gx, gy = wg.autograd.grad(out, [x, y], create_graph=True)
    (gxy,) = wg.autograd.grad(gx, y, retain_graph=True)
    (gyx,) = wg.autograd.grad(gy, x)
    assert gxy.item() == pytest.approx(gyx.item(), rel=1e-13)


def test_a_recorded_gradient_of_a_linear_function_is_a_constant() -> None:
    x = leaf(2.0)
    (g,) = wg.autograd.grad(3.0 * x, x, create_graph=True)
    assert g.item() == 3.0
    with pytest.raises(wg.GradientError):
        wg.autograd.grad(g, x)


# -- modes


def test_no_grad_and_its_opposite() -> None:
    x = leaf(2.0)
    with wg.no_grad():
        assert not (x * x).requires_grad
        assert not wg.is_grad_enabled()
        with wg.enable_grad():
            assert (x * x).requires_grad
            with wg.set_grad_enabled(False):
                assert not (x * x).requires_grad
            assert wg.is_grad_enabled()
        assert not wg.is_grad_enabled()
    assert wg.is_grad_enabled()


@pytest.mark.parametrize("decorator", [wg.no_grad, wg.no_grad()])
def test_no_grad_as_a_decorator(decorator: Any) -> None:
    @decorator
    def f(x: Tensor) -> Tensor:
        """Doc."""
        return x * x

    x = leaf(2.0)
    assert not f(x).requires_grad
    assert f.__name__ == "f"
    assert f.__doc__ == "Doc."
    assert wg.is_grad_enabled()


def test_no_grad_decorates_recursive_functions() -> None:
    @wg.no_grad()
    def f(x: Tensor, depth: int) -> Tensor:
        assert not wg.is_grad_enabled()
        return f(x * x, depth - 1) if depth else x

    f(leaf(1.0), 5)
    assert wg.is_grad_enabled()


def test_no_grad_decorates_generators() -> None:
    @wg.no_grad()
    def numbers(x: Tensor) -> Iterator[Tensor]:
        for i in range(3):
            yield x * float(i)

    x = leaf(2.0)
    for y in numbers(x):
        assert not y.requires_grad
        assert (x * x).requires_grad  # the caller's own mode between two steps


def test_a_mode_object_can_be_entered_again() -> None:
    off = wg.no_grad()
    with off, off:
        assert not wg.is_grad_enabled()
    assert wg.is_grad_enabled()
    with pytest.raises(ZeroDivisionError), off:
        raise ZeroDivisionError
    assert wg.is_grad_enabled()


def test_set_grad_enabled_as_a_statement() -> None:
    # PyTorch's other use of it: a call that takes effect at once.
    try:
        wg.set_grad_enabled(False)
        assert not wg.is_grad_enabled()
    finally:
        wg.set_grad_enabled(True)
    assert wg.is_grad_enabled()


def test_modes_are_per_thread() -> None:
    seen: dict[str, bool] = {}
    inside, checked = threading.Event(), threading.Event()

    def other() -> None:
        inside.wait(5)
        seen["other"] = (leaf(1.0) * 2.0).requires_grad
        checked.set()

    thread = threading.Thread(target=other)
    thread.start()
    with wg.no_grad():
        inside.set()
        checked.wait(5)
        seen["own"] = (leaf(1.0) * 2.0).requires_grad
    thread.join()
    assert seen == {"other": True, "own": False}


def test_backward_works_under_no_grad() -> None:
    x = leaf(3.0)
    y = x * x
    with wg.no_grad():
        y.backward()
        assert not x.grad.requires_grad
    assert x.grad.item() == 6.0


# -- detaching, switching


def test_detach_cuts() -> None:
    x = leaf(3.0)
    y = x * x
    (y.detach() * x).backward()
    assert x.grad.item() == 9.0
    assert y.detach().is_leaf
    assert not y.detach().requires_grad
    assert y.requires_grad


def test_stop_gradient_equals_detach() -> None:
    x = leaf(3.0)
    (wg.stop_gradient(x * x) * x).backward()
    assert x.grad.item() == 9.0
    assert wg.grad(lambda t: t * wg.stop_gradient(t))(3.0).item() == 3.0
    traced = wg.graph(wg.grad(lambda t: t * t.detach()))(wg.spec((), F64))
    assert traced(3.0).item() == 3.0


def test_straight_through_estimator() -> None:
    x = leaf([0.2, 0.7, 1.4])
    out = x + (wg.round(x) - x).detach()
    assert np.allclose(out.detach().numpy(), [0.0, 1.0, 1.0], atol=1e-15)
    out.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0, 1.0]


def test_requires_grad_can_be_switched() -> None:
    x = wg.tensor([1.0, 2.0])
    before = x * 2.0
    x.requires_grad = True
    after = x * 2.0
    assert not before.requires_grad
    assert after.requires_grad
    x.requires_grad_(False)
    assert not (x * 2.0).requires_grad
    after.sum().backward()  # recorded while it was on
    with pytest.raises(wg.GradientError, match="Only leaves"):
        after.requires_grad_(False)
    assert after.requires_grad_() is after


def test_results_of_integers_and_comparisons_carry_no_gradient() -> None:
    x = leaf([1.0, 2.0])
    for made in (x > 1.0, x.astype(wg.int32), wg.argmax(x), wg.isnan(x), wg.count_nonzero(x)):
        assert not made.requires_grad


# -- hooks


def test_hooks_see_and_replace() -> None:
    x = leaf([1.0, 2.0])
    seen: list[Any] = []
    x.register_hook(lambda g: seen.append(g.tolist()))
    handle = x.register_hook(lambda g: g * 2.0)
    x.register_hook(lambda g: seen.append(g.tolist()))
    (x * x).sum().backward()
    assert seen == [[2.0, 4.0], [4.0, 8.0]]  # in the order of registration
    assert x.grad.tolist() == [4.0, 8.0]
    handle.remove()
    handle.remove()
    x.grad = None
    (x * x).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_a_hook_on_a_value_in_between_changes_what_flows_on() -> None:
    x = leaf(3.0)
    h = x * x
    h.register_hook(lambda g: g * 10.0)
    h.retain_grad()
    (h * 2.0).backward()
    assert h.grad.item() == 20.0
    assert x.grad.item() == 120.0


def test_hooks_see_the_whole_gradient_once() -> None:
    x = leaf(3.0)
    h = x * x
    seen: list[float] = []
    h.register_hook(lambda g: seen.append(g.item()))
    (h * 2.0 + h * 5.0).backward()
    assert seen == [7.0]


@pytest.mark.parametrize("returned", [wg.ones(3), 1.0, np.ones(2)])
def test_a_hook_that_returns_something_else(returned: Any) -> None:
    x = leaf([1.0, 2.0])
    x.register_hook(lambda g: returned)
    with pytest.raises(wg.WengertError, match="hook returned"):
        (x * x).sum().backward()


def test_a_hook_keeps_the_gradients_dtype() -> None:
    x = leaf([1.0, 2.0], wg.float32)
    h = x * x
    h.register_hook(lambda g: g.astype(wg.float64))
    h.sum().backward()
    assert x.grad.dtype == wg.float32


def test_hooks_run_for_every_way_of_asking() -> None:
    x = leaf(3.0)
    calls: list[float] = []
    x.register_hook(lambda g: calls.append(g.item()))
    wg.autograd.grad(x * x, x)
    wg.autograd.grad(x * x, x, create_graph=True)
    assert calls == [6.0, 6.0]


def test_hooks_in_a_recorded_pass_are_differentiable() -> None:
    x = leaf(2.0)
    h = x * x
    handle = h.register_hook(lambda g: g * x)
    (g,) = wg.autograd.grad(h * h, x, create_graph=True)
    # 2 h x * 2 x = 4 x^4
    assert g.item() == 64.0
    handle.remove()  # it would be called again in the second pass, as PyTorch's is
    assert wg.autograd.grad(g, x)[0].item() == 16 * 8.0


def test_hooks_need_a_gradient() -> None:
    with pytest.raises(wg.GradientError, match="register_hook"):
        wg.ones(2).register_hook(lambda g: g)
    with pytest.raises(wg.GradientError, match="retain_grad"):
        wg.ones(2).retain_grad()


def test_retained_gradients_add_up() -> None:
    x = leaf(3.0)
    h = x * x
    h.retain_grad()
    h.retain_grad()
    y = h * 2.0
    y.backward(retain_graph=True)
    y.backward()
    assert h.grad.item() == 4.0
    x.retain_grad()  # nothing to do on a leaf
    assert h.is_leaf is False


def test_a_hook_of_one_result_of_several() -> None:
    x = leaf([1.0, 2.0, 3.0, 4.0])
    a, b = wg.split(x, 2)
    a.register_hook(lambda g: g * 100.0)
    b.retain_grad()
    (a * 2.0 + b * 3.0).sum().backward()
    assert x.grad.tolist() == [200.0, 200.0, 3.0, 3.0]
    assert b.grad.tolist() == [3.0, 3.0]


# -- what the graph shows


def test_walking_next_functions() -> None:
    x, w = leaf(2.0), leaf(3.0)
    out = wg.sin(x * w) + 1.0
    assert out.grad_fn.name() == "AddBackward"
    assert x.grad_fn is None
    leaves = []
    stack = [out.grad_fn]
    while stack:
        node = stack.pop()
        if node.name() == "AccumulateGrad":
            leaves.append(node.variable)
        stack += [n for n, _ in node.next_functions if n is not None]
    assert {id(t) for t in leaves} == {id(x), id(w)}
    assert (x * 2.0).grad_fn.next_functions[1] == (None, 0)
    with pytest.raises(AttributeError):
        _ = out.grad_fn.variable


# -- writing into tensors


def test_writing_after_use_keeps_what_was_computed() -> None:
    x = leaf([1.0, 2.0, 3.0])
    h = x * x
    y = h * h
    h[1] = 100.0
    z = h.sum()
    (y.sum() + z).backward()
    # y is of the old h: 4 x^3; z of the new one: 2 x, and nothing at 1
    assert x.grad.tolist() == [4 + 2, 32 + 0, 108 + 6]


def test_writing_a_tracked_value() -> None:
    x, v = leaf([1.0, 2.0, 3.0]), leaf(5.0)
    h = x * 2.0
    h[0] = v * v
    h[1:] = h[1:] * v
    h.sum().backward()
    assert x.grad.tolist() == [0.0, 10.0, 10.0]
    assert v.grad.item() == 10.0 + (4.0 + 6.0)


def test_augmented_assignment_writes() -> None:
    x = leaf([1.0, 2.0])
    h = x * x
    same, old = h, h.clone()
    h += x
    h *= 3.0
    assert same is h
    assert old.tolist() == [1.0, 4.0]
    h.sum().backward()
    assert x.grad.tolist() == [9.0, 15.0]


def test_augmented_assignment_of_an_element() -> None:
    x = leaf([1.0, 2.0])
    h = x * x
    h[0] += x[1]
    h[1] *= 2.0
    assert h.tolist() == [3.0, 8.0]
    h.sum().backward()
    assert x.grad.tolist() == [2.0, 9.0]


def test_writing_into_an_untracked_buffer_in_a_loop() -> None:
    x = leaf([1.0, 2.0, 3.0])
    out = wg.zeros(3, dtype=F64)
    for i in range(3):
        out[i] = x[i] ** (i + 1)
    out.sum().backward()
    assert x.grad.tolist() == [1.0, 4.0, 27.0]


# -- shapes and dtypes of gradients


SHAPES = [(), (1,), (3,), (2, 3), (2, 1), (1, 3), (1, 1), (4, 2, 3), (4, 1, 1), (0, 3), (1, 0, 1)]


def broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return all(n == m or 1 in (n, m) for n, m in zip(a[::-1], b[::-1]))


@pytest.mark.parametrize(("a", "b"), [p for p in itertools.combinations_with_replacement(SHAPES, 2) if broadcasts(*p)])
def test_gradients_of_broadcasts_have_the_operands_shapes(a: Any, b: Any) -> None:
    shape = np.broadcast_shapes(a, b)
    x, y = leaf(np.full(a, 2.0)), leaf(np.full(b, 3.0))
    (x * y).sum().backward()
    count = int(np.prod(shape))
    for t, other in ((x, 3.0), (y, 2.0)):
        share = count / t.size if t.size else 0.0
        assert t.grad.shape == t.shape
        np.testing.assert_array_equal(t.grad.numpy(), np.full(t.shape, share * other))


@pytest.mark.parametrize(
    ("a", "b", "out"),
    [
        (wg.float32, wg.float64, wg.float64),
        (wg.float16, wg.float32, wg.float32),
        (wg.bfloat16, wg.float32, wg.float32),
        (wg.float16, wg.bfloat16, wg.float32),
        (wg.float32, wg.complex64, wg.complex64),
        (wg.float64, wg.complex64, wg.complex128),
        (wg.complex64, wg.complex128, wg.complex128),
    ],
)
def test_gradients_have_the_operands_dtypes(a: Any, b: Any, out: Any) -> None:
    x, y = leaf([1.0, 2.0], a), leaf([3.0, 4.0], b)
    z = x * y
    assert z.dtype == out
    wg.real(z).sum().backward()
    assert (x.grad.dtype, y.grad.dtype) == (a, b)
    assert np.asarray(x.grad.numpy()).astype(complex).tolist() == [3.0, 4.0]
    (gx,) = wg.autograd.grad(wg.real(x * y).sum(), x, create_graph=True)
    assert gx.dtype == a


@pytest.mark.parametrize("dtype", [wg.float16, wg.bfloat16, wg.float32, wg.complex64])
@pytest.mark.parametrize("scalar", [2, 2.5, np.float64(2.5), True])
def test_scalars_leave_gradients_narrow(dtype: Any, scalar: Any) -> None:
    x = leaf([1.0, 2.0], dtype)
    wg.real(scalar * x / 2.0 - x**2).sum().backward()
    assert x.grad.dtype == dtype


def test_a_numpy_scalar_promotes_like_an_array() -> None:
    x = leaf([1.0], wg.float32)
    out = x * np.float64(2.0)
    assert out.dtype == (wg.asarray(np.float32([1.0])) * wg.asarray(np.float64(2.0))).dtype


def test_integers_times_floats() -> None:
    n, x = wg.tensor([2, 3]), leaf([1.0, 2.0], wg.float32)
    (n * x).sum().backward()
    assert x.grad.dtype == wg.float32
    assert x.grad.tolist() == [2.0, 3.0]


def test_complex_gradients_follow_the_convention() -> None:
    # The gradient of a real loss is dL/da + i dL/db (PyTorch's): a descent step is z - lr * grad.
    z = leaf([1.0 + 2.0j, -0.5j], wg.complex128)
    (wg.abs(z) ** 2).sum().backward()
    np.testing.assert_allclose(z.grad.numpy(), 2 * z.detach().numpy())
    z.grad = None
    wg.real(z * z).sum().backward()
    np.testing.assert_allclose(z.grad.numpy(), 2 * np.conj(z.detach().numpy()))


def test_big_endian_leaves() -> None:
    x = wg.tensor(np.array([1.0, 2.0], ">f8"), requires_grad=True)
    (x * x).sum().backward()
    assert x.grad.dtype == F64
    assert x.grad.tolist() == [2.0, 4.0]
    (x * x).backward(np.array([1.0, 1.0], ">f4"))
    assert x.grad.tolist() == [4.0, 8.0]


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0)])
def test_empty_tensors(shape: Any) -> None:
    x = leaf(np.zeros(shape))
    y = wg.exp(x) * x
    y.sum().backward()
    assert x.grad.shape == shape
    (g,) = wg.autograd.grad((x * x * x).sum(), x, create_graph=True)
    assert wg.autograd.grad(g.sum(), x)[0].shape == shape


# -- aliasing


def test_gradients_of_two_leaves_are_apart() -> None:
    a, b = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    (a + b).sum().backward()
    a.grad.zero_()
    assert b.grad.tolist() == [1.0, 1.0]
    a.grad[0] = 7.0
    assert b.grad.tolist() == [1.0, 1.0]


def test_the_gradient_given_is_not_changed_through_grad() -> None:
    ct = np.ones(2)
    x = leaf([1.0, 2.0])
    (x + 0.0).backward(ct)
    x.grad.mul_(5.0)
    ct[0] = 9.0
    assert x.grad.tolist() == [5.0, 5.0]
    seed = wg.ones(2, dtype=F64)
    x.grad = None
    (x + 0.0).backward(seed)
    x.grad.mul_(5.0)
    assert seed.tolist() == [1.0, 1.0]


def test_accumulating_leaves_the_gradient_that_was_read() -> None:
    a, b = leaf([1.0]), leaf([1.0])
    (a + b).sum().backward()
    kept = b.grad
    (a * 2.0 + b * 2.0).sum().backward()
    assert kept.tolist() == [1.0]
    assert b.grad.tolist() == [3.0]
    assert a.grad.tolist() == [3.0]


def test_an_array_changed_later_does_not_change_the_gradient() -> None:
    array = np.array([1.0, 2.0])
    x = wg.tensor(array, requires_grad=True)
    w = wg.asarray(array)
    y = (x * w).sum()
    array[:] = 100.0
    y.backward()
    assert x.grad.tolist() == [1.0, 2.0]


def test_writing_to_a_constant_after_use() -> None:
    c = wg.tensor([1.0, 2.0], dtype=F64)
    x = leaf([1.0, 1.0])
    y = (x * x * c).sum()
    c[0] = 50.0
    (g,) = wg.autograd.grad(y, x, create_graph=True)
    assert g.tolist() == [2.0, 4.0]
    assert wg.autograd.grad(g.sum(), x)[0].tolist() == [2.0, 4.0]


def test_assigning_to_a_leaf_between_forward_and_backward() -> None:
    x = leaf([1.0, 2.0])
    y = (x * x).sum()
    x.data = wg.tensor([10.0, 20.0], dtype=F64)
    y.backward()
    assert x.grad.tolist() == [2.0, 4.0]  # of the value that was used


# -- copies


def test_deepcopy_and_pickle_of_leaves() -> None:
    x = leaf([1.0, 2.0])
    (x * x).sum().backward()
    for made in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert made.requires_grad
        assert made.is_leaf
        assert made.tolist() == [1.0, 2.0]
        assert made.dtype == F64
        assert made.grad.tolist() == [2.0, 4.0]
        (made * 3.0).sum().backward()
        assert made.grad.tolist() == [5.0, 7.0]
        assert x.grad.tolist() == [2.0, 4.0]
    pair = copy.deepcopy([x, x])
    assert pair[0] is pair[1]
    with pytest.raises(wg.GradientError, match="detach"):
        copy.deepcopy(x * 2.0)
    with pytest.raises(wg.GradientError, match="detach"):
        pickle.dumps(x * 2.0)


def test_clone_carries_gradients() -> None:
    x = leaf([1.0, 2.0])
    y = x.clone()
    y[0] = 9.0
    assert x.tolist() == [1.0, 2.0]
    (y * x).sum().backward()
    assert x.grad.tolist() == [9.0, 4.0]


# -- custom functions


class Exp(wg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        out = wg.exp(x)
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (out,) = ctx.saved_tensors
        return g * out


class Scaled(wg.autograd.Function):
    """Several arguments, one of them no tensor, and several results."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float, y: Tensor) -> tuple[Tensor, Tensor]:
        ctx.factor = factor
        ctx.save_for_backward(x, y)
        return x * y * factor, x + y

    @staticmethod
    def backward(ctx: Any, g: Tensor, h: Tensor) -> tuple[Tensor, None, Tensor]:
        x, y = ctx.saved_tensors
        return g * y * ctx.factor + h, None, g * x * ctx.factor + h


class Own(wg.autograd.Function):
    """Saves a value that is neither argument nor result."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(wg.cos(x), None)
        return wg.sin(x)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        c, nothing = ctx.saved_tensors
        assert nothing is None
        return g * c


def test_a_custom_function_to_the_third_order() -> None:
    x = leaf(0.5)
    value: Any = Exp.apply(x * 2.0)
    for factor in (2.0, 4.0, 8.0):
        (value,) = wg.autograd.grad(value, x, create_graph=True)
        assert value.item() == pytest.approx(factor * np.e)


def test_a_custom_function_of_several_arguments_and_results() -> None:
    x, y = leaf(2.0), leaf(3.0)
    a, b = Scaled.apply(x, 10.0, y)
    assert (a.item(), b.item()) == (60.0, 5.0)
    (a + 7.0 * b).backward()
    assert (x.grad.item(), y.grad.item()) == (37.0, 27.0)
    x.grad = None
    Scaled.apply(x, 10.0, y)[1].backward()  # the other result unused
    assert x.grad.item() == 1.0


def test_second_order_of_several_results() -> None:
    def f(x: Tensor, y: Tensor) -> Tensor:
        a, b = Scaled.apply(x, 0.5, y)
        return a * b * a

    wg.check_grads(f, (wg.tensor([0.7, 1.1], dtype=F64), wg.tensor([1.3, 0.2], dtype=F64)), order=3)


def test_only_one_argument_is_tracked() -> None:
    x, y = leaf(2.0), wg.tensor(3.0, dtype=F64)
    a, b = Scaled.apply(x, 10.0, y)
    (a * b).backward()
    assert x.grad.item() == 30.0 * 5.0 + 60.0


def test_saving_own_values_differentiates_once() -> None:
    x = leaf(0.3)
    Own.apply(x).backward()
    assert x.grad.item() == pytest.approx(np.cos(0.3))


def test_custom_functions_are_not_recorded_under_no_grad() -> None:
    x = leaf(0.3)
    with wg.no_grad():
        assert not Exp.apply(x).requires_grad
    assert not Exp.apply(wg.tensor(1.0)).requires_grad
    assert Exp.apply(x).grad_fn.name() == "ExpBackward"


def test_a_custom_function_in_a_traced_graph() -> None:
    def loss(x: Tensor) -> Tensor:
        return (Exp.apply(x) * x).sum()

    value = np.array([0.1, 0.7])
    graph = wg.graph(loss)(wg.spec((2,), F64))
    np.testing.assert_allclose(graph(value).item(), np.sum(np.exp(value) * value))
    gradient = wg.graph(wg.grad(loss))(wg.spec((2,), F64))
    np.testing.assert_allclose(gradient(value).numpy(), np.exp(value) * (1 + value))


def test_a_custom_function_of_other_arguments_in_a_traced_graph() -> None:
    def loss(x: Tensor, y: Tensor) -> Tensor:
        a, b = Scaled.apply(x, 10.0, y)
        c, _ = Scaled.apply(x, 0.5, y)
        return a * b + c

    graph = wg.graph(loss)(wg.spec((), F64), wg.spec((), F64))
    assert graph(2.0, 3.0).item() == 60.0 * 5.0 + 3.0
    gradient = wg.graph(wg.grad(loss, argnums=(0, 1)))(wg.spec((), F64), wg.spec((), F64))
    assert [g.item() for g in gradient(2.0, 3.0)] == [30.0 * 5 + 60.0 + 1.5, 20.0 * 5 + 60.0 + 1.0]


class Wrong(wg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, answer: Any) -> Tensor:
        ctx.answer = answer
        return x * 2.0

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        return ctx.answer(g)


@pytest.mark.parametrize(
    ("answer", "kind", "text"),
    [
        (lambda g: g, wg.GradientError, "1 gradients for 2 arguments"),
        (lambda g: (g, None, None), wg.GradientError, "3 gradients for 2 arguments"),
        (lambda g: (g.sum(), None), wg.ShapeError, r"shape \(\) for argument 0 of shape \(2,\)"),
        (lambda g: (5.0, None), wg.WengertError, "Wrong.backward"),
    ],
)
def test_custom_backwards_that_return_something_else(answer: Callable[[Any], Any], kind: Any, text: str) -> None:
    x = leaf([1.0, 2.0])
    with pytest.raises(kind, match=text):
        Wrong.apply(x, answer).sum().backward()


def test_a_custom_backward_may_return_none() -> None:
    x = leaf([1.0, 2.0])
    (Wrong.apply(x, lambda g: (None, None)).sum() + (3.0 * x).sum()).backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_a_custom_backward_of_another_dtype() -> None:
    x = leaf([1.0, 2.0], wg.float32)
    Wrong.apply(x, lambda g: (g.astype(wg.float64), None)).sum().backward()
    assert x.grad.dtype == wg.float32


def test_a_forward_that_returns_no_tensor() -> None:
    class Bad(wg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Any:
            return 3.0

    with pytest.raises(wg.GradientError, match=r"Bad.forward returned a float"):
        Bad.apply(leaf(1.0))
    with pytest.raises(wg.GradientError, match=r"without forward"):
        wg.autograd.Function.apply(leaf(1.0))


def test_results_marked_as_not_differentiable() -> None:
    class Ranked(wg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            order, noise = wg.argsort(x), wg.round(x)
            ctx.mark_non_differentiable(noise)
            return x * 2.0, order, noise

        @staticmethod
        def backward(ctx: Any, g: Any, *rest: Any) -> Any:
            return g * 2.0

    x = leaf([3.0, 1.0, 2.0])
    doubled, order, noise = Ranked.apply(x)
    assert doubled.requires_grad
    assert not order.requires_grad
    assert not noise.requires_grad
    assert order.tolist() == [1, 2, 0]
    doubled.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0]


def test_a_custom_function_that_returns_its_argument() -> None:
    class Reversed(wg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            return -g

    x = leaf(3.0)
    (Reversed.apply(x) * x).backward()
    assert x.grad.item() == 0.0
    assert x.is_leaf


def test_needs_input_grad() -> None:
    seen: list[tuple[bool, ...]] = []

    class Seen(wg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, y: Tensor, n: int) -> Tensor:
            seen.append(ctx.needs_input_grad)
            return x + y

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Any:
            return g, None, None

    Seen.apply(leaf(1.0), wg.tensor(1.0, dtype=F64), 3)
    assert seen == [(True, False, False)]


# -- memory


def live_after(make: Callable[[], Any]) -> int:
    """The bytes that stay allocated by what `make` returns, without the cycle collector's help."""
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        kept = make()
        held = tracemalloc.get_traced_memory()[0]
        del kept
    finally:
        tracemalloc.stop()
        gc.enable()
    return held


SIZE = 1_000_000  # bytes of one array below
MEGABYTE = np.zeros(SIZE // 8)


def test_saved_values_are_freed_by_backward() -> None:
    x = leaf(MEGABYTE)

    def run(retain: bool) -> Tensor:
        h = x
        for _ in range(8):
            h = wg.exp(h * 0.5)
        out = h.sum()
        del h
        out.backward(retain_graph=retain)
        x.grad = None
        return out

    assert live_after(lambda: run(True)) > 7 * SIZE
    assert live_after(lambda: run(False)) < SIZE / 10


def test_saved_values_are_freed_on_the_way() -> None:
    x = leaf(MEGABYTE)
    h = x
    for _ in range(20):
        h = wg.sin(h)
    out = h.sum()
    del h
    gc.collect()
    tracemalloc.start()
    out.backward()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6 * SIZE


def test_an_abandoned_graph_is_freed_at_once() -> None:
    x = leaf(MEGABYTE)
    chunk = wg.torch.chunk  # loads what is not to be counted

    def run() -> None:
        a, b = chunk(wg.exp(x), 2)
        h = wg.where(a > 0.5, a * b, wg.tanh(a))
        h.retain_grad()
        h.register_hook(lambda g: None)
        h[0] = 3.0
        wg.matmul(h[None, :1000], h[:1000, None]).sum()

    assert live_after(run) < SIZE / 10


@pytest.mark.parametrize("create_graph", [False, True])
def test_no_cycle_keeps_a_backward_pass_alive(create_graph: bool) -> None:
    x = leaf(MEGABYTE)

    def run() -> None:
        y = (wg.exp(x) * wg.maximum(x, 0.0)).sum()
        (g,) = wg.autograd.grad(y, x, create_graph=create_graph)
        if create_graph:
            (g * g).sum().backward()
            x.grad = None

    assert live_after(run) < SIZE / 10


def test_no_cycle_keeps_functional_gradients_or_graphs_alive() -> None:
    def f(t: Tensor) -> Tensor:
        return (wg.exp(t) * t).sum()

    def run() -> None:
        wg.grad(f)(MEGABYTE)
        wg.grad(lambda t: (wg.grad(f)(t) ** 2).sum())(MEGABYTE)
        wg.vjp(f, MEGABYTE)[1](wg.tensor(1.0))

    assert live_after(run) < SIZE / 10


def test_no_cycle_keeps_a_custom_function_alive() -> None:
    x = leaf(MEGABYTE)

    def run() -> None:
        y = Exp.apply(Own.apply(x)).sum()
        y.backward()
        x.grad = None
        Exp.apply(x).sum()

    assert live_after(run) < SIZE / 10


def test_a_tensor_dies_with_its_last_reference() -> None:
    gc.disable()
    try:
        x = leaf([1.0, 2.0])
        y = wg.exp(x)
        node = weakref.ref(y.grad_fn)
        tensor = weakref.ref(y)
        out = (y * 2.0).sum()
        del y
        assert tensor() is None
        assert node() is not None
        out.backward()
        del out
        assert node() is None
        gone = weakref.ref(x)
        del x
        assert gone() is None
    finally:
        gc.enable()


def test_a_leaf_that_is_gone_is_skipped() -> None:
    x = leaf(2.0)
    y = leaf(3.0)
    out = x * y
    del x
    out.backward()
    assert y.grad.item() == 2.0


@pytest.mark.parametrize(
    ("count", "step"),
    [(100_000, lambda h: h + h), (300_000, lambda h: h + 1e-9), (100_000, lambda h: wg.sin(h) * h)],
)
def test_very_long_graphs_are_collected_without_recursion(count: int, step: Callable[[Tensor], Tensor]) -> None:
    h = leaf(1.0)
    for _ in range(count):
        h = step(h)
    last = weakref.ref(h.grad_fn)
    del h
    assert last() is None


@pytest.mark.slow
def test_a_graph_of_300_000_nodes_differentiates() -> None:
    h = x = leaf(1.0)
    for _ in range(100_000):
        h = h * 0.5 + h * 0.5
    h.backward()
    assert x.grad.item() == 1.0


def test_adding_a_value_to_itself_many_times() -> None:
    x = leaf(1.0)
    h = x
    for _ in range(1000):
        h = (h + h) * 0.5
    h.backward()
    assert x.grad.item() == 1.0


def test_sums_of_cotangents_are_nobody_elses() -> None:
    """More is added in place to what a pass has summed: no gradient, hook or operand may see that."""
    w, x = wg.tensor(np.full(300, 2.0), requires_grad=True), wg.tensor(np.full(300, 3.0), requires_grad=True)
    y = w * 1.0
    seen: list[wg.Tensor] = []
    y.register_hook(lambda g: seen.append(g))
    given = wg.tensor(np.ones(300))
    out = y * x + y + y * 2.0 + (y + x)
    wg.autograd.backward([out, y], [given, given], retain_graph=True)
    assert w.grad is not None
    assert x.grad is not None
    assert (np.asarray(given) == 1.0).all()
    assert [np.unique(np.asarray(t)).tolist() for t in (w.grad, x.grad, seen[0])] == [[8.0], [3.0], [8.0]]
    before = np.array(seen[0])
    out.backward(given)
    assert (np.asarray(seen[0]) == before).all()
    assert np.unique(np.asarray(w.grad)).tolist() == [15.0]


def test_sums_of_broadcast_and_narrow_cotangents() -> None:
    for dtype in (np.float16, np.float32, wg.bfloat16):
        w = wg.ones((4, 3), dtype=dtype, requires_grad=True)
        y = w * 1
        (y.sum() + y.sum(0).sum() + (y * y).sum() + y.mean()).backward()
        assert w.grad is not None
        assert w.grad.dtype == w.dtype
        np.testing.assert_allclose(np.asarray(w.grad.astype(np.float64)), 4 + 1 / 12, rtol=1e-2)
