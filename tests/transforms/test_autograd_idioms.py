"""Autograd's idioms mean in compiled code, in vmap, in graphs and in loops what they mean in plain eager programs."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg

POINT = [1.0, 2.0]
OTHER = [3.0, 1.0]


@pytest.fixture
def w() -> wg.Tensor:
    return wg.tensor([3.0, 4.0], requires_grad=True)


# -- leaves that are made inside

Idiom = Callable[[wg.Tensor, wg.Tensor], wg.Tensor]


def detached_leaf(x: wg.Tensor, w: wg.Tensor) -> wg.Tensor:
    y = x.detach().requires_grad_(True)
    (y**2).sum().backward()
    return y.grad


def flag_on_a_copy(x: wg.Tensor, w: wg.Tensor) -> wg.Tensor:
    y = x.clone()
    y.requires_grad = True
    (y**2).sum().backward()
    return y.grad


def created_leaf(x: wg.Tensor, w: wg.Tensor) -> wg.Tensor:
    z = wg.zeros(2, requires_grad=True)
    (g,) = wg.autograd.grad(((x + z) ** 2).sum(), z)
    return g


def tensor_leaf(x: wg.Tensor, w: wg.Tensor) -> wg.Tensor:
    e = wg.tensor([1.0, 1.0], requires_grad=True)
    ((x * e) ** 2).sum().backward()
    return e.grad


def leaf_that_is_stepped(x: wg.Tensor, w: wg.Tensor) -> wg.Tensor:
    z = wg.ones(2, requires_grad=True)
    for _ in range(3):
        z.grad = None
        ((z * x - 3.0) ** 2).sum().backward()
        with wg.no_grad():
            z -= 0.1 * z.grad
    return z.detach()


def leaf_that_is_filled(x: wg.Tensor, w: wg.Tensor) -> wg.Tensor:
    z = wg.ones(2, requires_grad=True)
    first = x * z
    with wg.no_grad():
        z.fill_(5.0)
    (first * (x * z)).sum().backward()
    return z.grad


def penalty(x: wg.Tensor, w: wg.Tensor) -> wg.Tensor:
    y = x.detach()
    y.requires_grad_()
    (g,) = wg.autograd.grad(((y * w) ** 2).sum(), y, create_graph=True)
    (found,) = wg.autograd.grad((g.norm() - 1) ** 2, w)
    return found


def adversarial(x: wg.Tensor, w: wg.Tensor) -> wg.Tensor:
    adv = x.detach().requires_grad_()
    (((adv * w) ** 2).sum()).backward(inputs=[adv])
    return x + 0.1 * adv.grad.sign()


def pinn(x: wg.Tensor, w: wg.Tensor) -> wg.Tensor:
    t = x.detach().requires_grad_(True)
    u = wg.sin(t * w)
    (du,) = wg.autograd.grad(u.sum(), t, create_graph=True)
    (ddu,) = wg.autograd.grad(du.sum(), t, create_graph=True)
    return ddu + u


def under_enable_grad(x: wg.Tensor, w: wg.Tensor) -> wg.Tensor:
    with wg.no_grad():
        frozen = x * 2
        with wg.enable_grad():
            y = frozen.detach().requires_grad_()
            (y**3).sum().backward()
    return y.grad


def constant_gradient(x: wg.Tensor, w: wg.Tensor) -> wg.Tensor:
    """Without create_graph a gradient is a constant: the second derivative leaves it out."""
    (g,) = wg.autograd.grad((w**3 * x).sum(), w)
    assert not g.requires_grad
    (h,) = wg.autograd.grad((w * g).sum(), w)
    return h


def frozen_for_a_while(x: wg.Tensor, w: wg.Tensor) -> wg.Tensor:
    w.requires_grad = False
    quiet = (w * x).sum()
    assert not quiet.requires_grad
    w.requires_grad = True
    (g,) = wg.autograd.grad((w * x).sum() * quiet, w)
    return g


IDIOMS: list[Idiom] = [
    detached_leaf,
    flag_on_a_copy,
    created_leaf,
    tensor_leaf,
    leaf_that_is_stepped,
    leaf_that_is_filled,
    penalty,
    adversarial,
    pinn,
    under_enable_grad,
    constant_gradient,
    frozen_for_a_while,
]


def _numbers(x: Any) -> np.ndarray:
    return np.asarray(x.detach())


@pytest.mark.parametrize("idiom", IDIOMS, ids=lambda f: f.__name__)
def test_idioms_mean_the_same_wherever_they_run(idiom: Idiom, w: wg.Tensor) -> None:
    def fn(x: wg.Tensor) -> wg.Tensor:
        return idiom(x, w)

    points = [POINT, OTHER, [0.5, -1.5]]
    want = [_numbers(fn(wg.tensor(p))) for p in points]
    compiled = wg.jit(fn)
    for _ in range(3):
        for p, expected in zip(points, want, strict=True):
            np.testing.assert_allclose(_numbers(compiled(wg.tensor(p))), expected, rtol=1e-6)
    rows = wg.tensor(points)
    np.testing.assert_allclose(_numbers(wg.vmap(fn)(rows)), want, rtol=1e-6)
    np.testing.assert_allclose(_numbers(wg.jit(wg.vmap(fn))(rows)), want, rtol=1e-6)
    made = wg.graph(fn)(wg.tensor(POINT))
    assert made.inputs[0].spec.shape == (2,)
    np.testing.assert_allclose(_numbers(made(wg.tensor(OTHER))), want[1], rtol=1e-6)

    def loop(xs: wg.Tensor) -> wg.Tensor:
        return wg.scan(lambda c, row: (c, fn(row)), (), xs)[1]

    np.testing.assert_allclose(_numbers(loop(rows)), want, rtol=1e-6)
    np.testing.assert_allclose(_numbers(wg.jit(loop)(rows)), want, rtol=1e-6)
    assert w.grad is None


def test_random_leaves_are_drawn_in_every_call() -> None:
    def fn(x: wg.Tensor) -> tuple[wg.Tensor, wg.Tensor]:
        z = wg.randn(2).requires_grad_()
        ((x * z) ** 2).sum().backward()
        return z.detach(), z.grad

    compiled = wg.jit(fn)
    for run in (fn, compiled):
        wg.manual_seed(3)
        found = [tuple(map(_numbers, run(wg.tensor(POINT)))) for _ in range(3)]
        for z, g in found:
            np.testing.assert_allclose(g, 2 * np.array(POINT) ** 2 * z, rtol=1e-6)
        assert not np.array_equal(found[0][0], found[1][0])


def test_an_argument_becomes_a_leaf() -> None:
    def fn(x: wg.Tensor) -> wg.Tensor:
        x.requires_grad_(True)
        (x**2).sum().backward()
        return x.grad * 1.0

    compiled = wg.jit(fn)
    for k in range(4):
        x = wg.tensor([1.0 + k, 2.0])
        np.testing.assert_allclose(_numbers(compiled(x)), [2 + 2 * k, 4])
        assert x.requires_grad
        assert x.is_leaf
        np.testing.assert_allclose(_numbers(x.grad), [2 + 2 * k, 4])
    # Again with the same tensor: it is a leaf before, and its gradient adds up, as in the eager program.
    np.testing.assert_allclose(_numbers(compiled(x)), [16, 8])
    np.testing.assert_allclose(_numbers(x.grad), [16, 8])


def test_a_leaf_comes_out_as_a_leaf_with_its_gradient() -> None:
    def fn(x: wg.Tensor) -> wg.Tensor:
        adv = x.detach().requires_grad_()
        (adv**2).sum().backward()
        return adv

    compiled = wg.jit(fn)
    for _ in range(4):
        out = compiled(wg.tensor(POINT))
        assert out.is_leaf
        assert out.requires_grad
        np.testing.assert_allclose(_numbers(out.grad), [2, 4])
    assert wg.jit(lambda: wg.zeros(2, requires_grad=True))().requires_grad


def test_a_value_and_the_new_leaf_that_it_depends_on_are_refused() -> None:
    def fn(x: wg.Tensor) -> tuple[wg.Tensor, wg.Tensor]:
        leaf = x.detach().requires_grad_()
        return leaf, (leaf**2).sum()

    with pytest.raises(wg.GraphError, match="returns a value and the leaf that it was computed from"):
        wg.jit(fn)(wg.tensor(POINT))


# -- frozen parameters


def test_freezing_in_a_compiled_step_lasts_as_in_an_eager_one() -> None:
    class Pair(wg.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.g = wg.nn.Linear(2, 2)
            self.d = wg.nn.Linear(2, 1)

    def run(compile: bool) -> list[np.ndarray]:
        wg.manual_seed(0)
        net = Pair()
        opt = wg.optim.Adam(net.parameters(), lr=0.1)

        def generator_step(x: wg.Tensor) -> wg.Tensor:
            for p in net.d.parameters():
                p.requires_grad = False
            opt.zero_grad()
            loss = net.d(net.g(x)).mean()
            loss.backward()
            opt.step()
            return loss

        def critic_step(x: wg.Tensor) -> wg.Tensor:
            net.d.requires_grad_(True)
            opt.zero_grad()
            loss = (net.d(net.g(x).detach()) ** 2).mean()
            loss.backward()
            opt.step()
            return loss

        steps = [wg.jit(s) if compile else s for s in (generator_step, critic_step)]
        found = []
        for k in range(6):
            x = wg.tensor([[1.0, 2.0], [0.5, -1.0]]) * (k + 1.0)
            found.append(_numbers(steps[0](x)))
            assert [p.requires_grad for p in net.parameters()] == [True, True, False, False]
            found.append(_numbers(steps[1](x)))
            assert all(p.requires_grad for p in net.parameters())
        return [*found, *(_numbers(p) for p in net.parameters())]

    for a, b in zip(run(False), run(True), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6)


def test_freezing_a_compiled_argument() -> None:
    def fn(p: wg.Tensor, x: wg.Tensor) -> wg.Tensor:
        p.requires_grad = False
        return (p * x).sum()

    compiled = wg.jit(fn)
    for _ in range(3):
        p = wg.tensor(POINT, requires_grad=True)
        assert not compiled(p, wg.ones(2)).requires_grad
        assert not p.requires_grad


# -- hooks


def test_hooks_of_parameters_run_where_compiled_code_takes_gradients(w: wg.Tensor) -> None:
    scale = wg.tensor(0.5)

    def step(x: wg.Tensor) -> wg.Tensor:
        w.grad = None
        (w * x).sum().backward()
        return w.grad

    compiled = wg.jit(step)

    def check(factor: float) -> None:
        for k in range(4):
            x = wg.tensor(POINT) * (k + 1.0)
            np.testing.assert_allclose(_numbers(compiled(x)), _numbers(x) * factor, rtol=1e-6)
            np.testing.assert_allclose(_numbers(w.grad), _numbers(x) * factor, rtol=1e-6)

    check(1.0)
    handle = w.register_hook(lambda g: g * scale)
    check(0.5)
    scale.fill_(0.25)  # what a hook reaches is state like any other
    check(0.25)
    second = w.register_hook(lambda g: g + g)
    check(0.5)
    handle.remove()
    check(2.0)
    second.remove()
    check(1.0)


def test_hooks_of_arguments_run_too() -> None:
    def step(p: wg.Tensor, x: wg.Tensor) -> wg.Tensor:
        p.grad = None
        (p * x).sum().backward()
        return p.grad

    compiled = wg.jit(step)
    x = wg.tensor(POINT)
    plain, hooked = wg.ones(2, requires_grad=True), wg.ones(2, requires_grad=True)
    hooked.register_hook(lambda g: g * 10)
    for _ in range(4):
        np.testing.assert_allclose(_numbers(compiled(plain, x)), POINT)
        np.testing.assert_allclose(_numbers(compiled(hooked, x)), [10, 20])
    outside = wg.jit(lambda p, x: (p * x).sum())
    for _ in range(4):
        for p, factor in ((plain, 1), (hooked, 10)):
            p.grad = None
            outside(p, x).backward()
            np.testing.assert_allclose(_numbers(p.grad), np.array(POINT) * factor)


def test_a_hook_for_the_time_of_a_step(w: wg.Tensor) -> None:
    def step(x: wg.Tensor) -> wg.Tensor:
        handle = w.register_hook(lambda g: g * 3)
        w.grad = None
        (w * x).sum().backward()
        handle.remove()
        return w.grad

    compiled = wg.jit(step)
    for _ in range(4):
        np.testing.assert_allclose(_numbers(compiled(wg.tensor(POINT))), [3, 6])
    w.grad = None
    (w * 1.0).sum().backward()
    np.testing.assert_allclose(_numbers(w.grad), [1, 1])


def test_hooks_stay_when_a_leaf_is_frozen_copied_or_written(w: wg.Tensor) -> None:
    w.register_hook(lambda g: g * 10)

    def gradient() -> list[float]:
        w.grad = None
        (w * 1.0).sum().backward()
        return _numbers(w.grad).tolist()

    w.requires_grad = False
    w.requires_grad = True
    assert gradient() == [10, 10]
    with wg.no_grad():
        w.sub_(0.1)
    assert gradient() == [10, 10]
    wg.optim.SGD([w], lr=0.1).step()
    assert gradient() == [10, 10]
    copied = copy.deepcopy(w)
    (copied * 1.0).sum().backward()
    np.testing.assert_allclose(_numbers(copied.grad - w.grad), [1, 1])


def test_hooks_on_values_inside(w: wg.Tensor) -> None:
    def inside(x: wg.Tensor) -> wg.Tensor:
        y = w * x
        y.register_hook(lambda g: g * 7)
        w.grad = None
        y.sum().backward()
        return w.grad

    compiled = wg.jit(inside)
    for _ in range(4):
        np.testing.assert_allclose(_numbers(compiled(wg.tensor(POINT))), [7, 14])

    def outside(x: wg.Tensor) -> wg.Tensor:
        y = w * x
        y.register_hook(lambda g: g * 7)
        return y.sum()

    with pytest.raises(wg.GraphError, match="gradient hook on a value inside outside"):
        wg.jit(outside)(wg.tensor(POINT))
    with pytest.raises(wg.GraphError, match="gradient hook on a value inside outside"):
        wg.vmap(outside)(wg.ones(3, 2))
    with pytest.raises(wg.GraphError, match="gradient hook on a value inside outside"):
        wg.graph(outside)(wg.ones(2))


# -- gradients that a trace would lose


def test_a_trace_does_not_fill_the_gradients_of_others(w: wg.Tensor) -> None:
    def fn(x: wg.Tensor) -> wg.Tensor:
        (w * x).sum().backward()
        return x

    for run in (
        lambda: wg.vmap(fn)(wg.ones(3, 2)),
        lambda: wg.jit(lambda xs: wg.scan(lambda c, x: (c, fn(x)), (), xs)[1])(wg.ones(3, 2)),
        lambda: wg.jit(lambda x: wg.cond(x.sum() > 0, fn, lambda x: x, x))(wg.ones(2)),
    ):
        with pytest.raises(wg.GraphError, match=r"fills the \.grad of a tensor from outside.*test_autograd"):
            run()
        assert w.grad is None
    made = wg.graph(fn)(wg.ones(2))
    assert w.grad is None
    np.testing.assert_allclose(_numbers(made(wg.tensor(POINT))), POINT)


def test_gradients_that_a_transform_would_take_for_constants_are_refused(w: wg.Tensor) -> None:
    def fn(x: wg.Tensor) -> wg.Tensor:
        (g,) = wg.autograd.grad((w**2 * x).sum(), w)
        return (g**2).sum()

    def kept(x: wg.Tensor) -> wg.Tensor:
        (g,) = wg.autograd.grad((w**2 * x).sum(), w, create_graph=True)
        return (g**2).sum()

    x = wg.tensor(POINT)
    want = 8 * np.array([3.0, 4.0]) ** 2 * np.array(POINT)
    for transform in (wg.grad, wg.jacobian, lambda f: lambda x: wg.jvp(f, (x,), (wg.ones(2),))[1]):
        for run in (transform(fn), wg.jit(transform(fn)), transform(wg.jit(fn)), transform(wg.checkpoint(fn))):
            with pytest.raises(wg.GradientError, match=r"gradients without create_graph=True.*being different"):
                run(x)
    for run in (wg.grad(kept), wg.jit(wg.grad(kept)), wg.grad(wg.jit(kept))):
        for _ in range(3):
            np.testing.assert_allclose(_numbers(run(x)), want, rtol=1e-5)
    # Outside of transforms it is what it was: a constant.
    assert not wg.jit(fn)(x).requires_grad


def test_a_cut_in_a_compiled_function_is_seen_by_the_transform_around() -> None:
    f = wg.jit(lambda v: v * float(v))
    x = wg.tensor(2.0)
    for _ in range(3):
        assert float(f(x)) == 4.0
        assert float(f(wg.tensor(2.0, requires_grad=True)).detach()) == 4.0
        with pytest.raises(wg.GradientError, match=r"float\(\) of a value that is being differentiated.*py:\d+"):
            wg.grad(f)(x)


def test_variables_collect_gradients_where_they_are_asked_to() -> None:
    def fn(x: wg.Tensor) -> wg.Tensor:
        x.requires_grad_(True)
        (x**3).sum().backward(create_graph=True)
        return x.grad.sum()

    x = wg.tensor(POINT)
    for run in (wg.grad(fn), wg.jit(wg.grad(fn)), wg.grad(wg.jit(fn))):
        for _ in range(3):
            np.testing.assert_allclose(_numbers(run(x)), [6, 12], rtol=1e-6)


def test_what_is_written_outside_keeps_its_history(w: wg.Tensor) -> None:
    buffer = wg.zeros(2)

    def into_argument(x: wg.Tensor) -> wg.Tensor:
        x[0] = w[0] * 2
        return x.sum()

    def into_closure(x: wg.Tensor) -> wg.Tensor:
        buffer[0] = w[0] * 2
        return x

    def cleared(x: wg.Tensor) -> wg.Tensor:
        with wg.no_grad():
            buffer.fill_(1.0)
        return x

    compiled = wg.jit(into_argument)
    for _ in range(4):
        x = wg.zeros(2)
        compiled(x)
        w.grad = None
        (x * 5).sum().backward()
        np.testing.assert_allclose(_numbers(w.grad), [10, 0])
    fill, clear = wg.jit(into_closure), wg.jit(cleared)
    for _ in range(4):
        fill(wg.zeros(1))
        w.grad = None
        (buffer * 5).sum().backward()
        np.testing.assert_allclose(_numbers(w.grad), [10, 0])
        clear(wg.zeros(1))
        assert not buffer.requires_grad


# -- values by which shapes go


def test_masks_and_counts_from_outside(w: wg.Tensor) -> None:
    mask, counts, lengths = wg.tensor([True, False, True]), wg.tensor([1, 2, 0]), wg.tensor([1, 2, 3])

    def write(x: wg.Tensor) -> wg.Tensor:
        r = wg.zeros(2, 3)
        r[:, mask] = x
        return r

    def read(x: wg.Tensor) -> wg.Tensor:
        return x[:, mask] * w

    def repeated(x: wg.Tensor) -> wg.Tensor:
        return wg.repeat(x, counts)

    def computed(x: wg.Tensor) -> wg.Tensor:
        return x[lengths > 1]

    wide, row, square = wg.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), wg.tensor([1.0, 2.0, 3.0]), wg.ones(2, 2)
    cases = [(write, square), (read, wide), (repeated, row), (computed, row)]
    compiled = [wg.jit(f) for f, _ in cases]
    for changed in (False, True):
        if changed:
            mask[0], mask[1] = False, True
            counts[0] = 4
            lengths[0] = 5
        for (f, x), g in zip(cases, compiled, strict=True):
            for k in range(4):
                np.testing.assert_allclose(_numbers(g(x * k)), _numbers(f(x * k)), rtol=1e-6)


def test_masks_from_arguments_are_refused_and_so_are_those_that_are_written() -> None:
    mask = wg.tensor([True, False, True])
    with pytest.raises(wg.TraceError, match="an abstract mask"):
        wg.jit(lambda x, m: x[m])(wg.arange(3.0), mask)

    def fn(x: wg.Tensor) -> wg.Tensor:
        y = x[mask]
        mask[0] = False
        return y

    with pytest.raises(wg.GraphError, match="writes to a tensor from outside by whose value its shapes go"):
        wg.jit(fn)(wg.arange(3.0))
    assert _numbers(mask).tolist() == [True, False, True]


def test_a_buffer_of_a_module_as_a_mask() -> None:
    class Picks(wg.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("keep", wg.tensor([True, False, True]))
            self.scale = wg.nn.Parameter(wg.ones(2))

        def forward(self, x: wg.Tensor) -> wg.Tensor:
            return (x[self.keep] * self.scale).sum()

    net = Picks()

    @wg.jit
    def step(x: wg.Tensor) -> wg.Tensor:
        net.scale.grad = None
        net(x).backward()
        return net.scale.grad

    for k in range(4):
        np.testing.assert_allclose(_numbers(step(wg.arange(3.0) * k)), [0, 2 * k])


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_over_an_empty_axis_is_empty_when_traced_too(name: str) -> None:
    def fn(x: wg.Tensor) -> wg.Tensor:
        return getattr(wg, name)(x, -1)

    x = wg.zeros(2, 0)
    runs = (fn, wg.jit(fn), wg.graph(fn)(x), wg.grad(lambda x: fn(x).sum()), wg.jit(wg.grad(lambda x: fn(x).sum())))
    for run in runs:
        assert run(x).shape == (2, 0)
    assert wg.vmap(fn)(wg.zeros(3, 2, 0)).shape == (3, 2, 0)


def test_a_matrix_to_the_power_of_0_has_a_gradient_of_0() -> None:
    x = wg.tensor([[1.0, float("inf")], [2.0, 3.0]], requires_grad=True)
    out = wg.linalg.matrix_power(x, 0)
    np.testing.assert_array_equal(_numbers(out), np.eye(2))
    out.sum().backward()
    np.testing.assert_array_equal(_numbers(x.grad), np.zeros((2, 2)))


# -- other names of a tensor


def test_data_and_state_dicts_in_compiled_functions(w: wg.Tensor) -> None:
    view = w.data
    read = wg.jit(lambda x: x * view)
    add = wg.jit(lambda v, x: v.add_(x))
    entries = {"w": w.data}

    @wg.jit
    def average(entries: dict[str, wg.Tensor], x: wg.Tensor) -> wg.Tensor:
        for v in entries.values():
            v.mul_(0.5).add_(x)
        return x

    want = np.array([3.0, 4.0])
    for _ in range(4):
        np.testing.assert_allclose(_numbers(read(wg.ones(2))), want)
        add(w.data, wg.ones(2))
        want = want + 1
        np.testing.assert_allclose(_numbers(w), want)
        average(entries, wg.ones(2))
        want = want * 0.5 + 1
        np.testing.assert_allclose(_numbers(w), want)
        assert w.requires_grad
        assert w.is_leaf

    @wg.jit
    def both(v: wg.Tensor, u: wg.Tensor) -> wg.Tensor:
        v.mul_(2.0)
        return (u * 1.0).sum()

    for _ in range(3):
        want = want * 2
        np.testing.assert_allclose(_numbers(both(w.data, w)), want.sum(), rtol=1e-6)
