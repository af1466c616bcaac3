"""Tensors of a namespace with methods of its own: what operations on them give is of it too, wherever they run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
from opchecks import OPS, calls
from wengert.core.standins import DataView
from wengert.core.tensor import Tensor, wrap


class Own(Tensor):
    """A tensor of a namespace."""

    __slots__ = ()


class OwnView(DataView, Own):
    """What `.data` of such a tensor is."""

    __slots__ = ()


Own.result_class = Own
Own.data_class = OwnView


def own(value: Any) -> Any:
    x = wg.tensor(value) if not isinstance(value, np.ndarray) else wrap(value)
    x.__class__ = Own
    return x


def of(out: Any) -> list[type]:
    return [type(leaf) for leaf in wg.tree.leaves(out) if isinstance(leaf, Tensor)]


@pytest.mark.parametrize("tracked", [False, True])
@pytest.mark.parametrize("name", [n for n, op in OPS.items() if op.kind not in ("source", "control")])
def test_every_op(name: str, tracked: bool) -> None:
    op = OPS[name]
    call = calls(op)[-1]
    args = [own(a.copy()) if isinstance(a, np.ndarray) else a for a in call.args]
    if tracked:
        for a in args:
            if isinstance(a, Tensor) and a.spec.inexact:
                a.requires_grad_()
    assert set(of(op.front(*args, **call.attrs))) == {Own}
    traced = []

    def program(*inner: Any) -> Any:
        given = iter(inner)
        out = op.front(*[next(given) if isinstance(a, Tensor) else a for a in args], **call.attrs)
        traced.append(of(out))
        return 0

    wg.graph(program)(*[a.detach() for a in args if isinstance(a, Tensor)])
    assert {kind for kinds in traced for kind in kinds} == {Own}


X = [[1.0, 4.0], [3.0, 2.0]]
MODEL = wg.nn.Sequential(wg.nn.Linear(2, 3), wg.nn.LayerNorm(3), wg.nn.GELU())
PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "with numbers": lambda x: (x + 1, 2.0 * x, x**2, 1 / x, -x, x // 2, 2**x, x % 2, x > 1, x == x),
    "with plain tensors": lambda x: (x + wg.ones(2), wg.ones(2) + x, wg.maximum(wg.ones(2), x), wg.ones(2) @ x),
    "with arrays": lambda x: (x * np.ones(2, np.float32), np.ones(2, np.float32) * x),
    "of other dtypes": lambda x: (x.astype(wg.float64) * wg.ones(2), x * wg.arange(2)),
    "indexing": lambda x: (x[0], x[0, 1], x[:, 1:], x[None], x[..., 0], x[[1, 0]], x[wg.tensor([1])]),
    "masks": lambda x: (x[np.array([True, False])], wg.where(x > 1, x, 0.0)),
    "shapes": lambda x: (x.reshape(4), x.T, x.flatten(), wg.permute_dims(x, (1, 0)), wg.broadcast_to(x, (3, 2, 2))),
    "several results": lambda x: (*wg.unstack(x), *wg.split(x, 2), *wg.linalg.eigh(x + x.T), *wg.top_k(x, 1)),
    "joining": lambda x: (wg.stack([wg.ones(2), x[0]]), wg.concat([wg.ones(2), x[0]]), wg.asarray([x[0, 0], 1.0])),
    "values": lambda x: (x.detach(), x.data, x.clone(), x.astype(wg.float64), wg.stop_gradient(x)),
    "writes": lambda x: (_written(x.clone()),),
    "layers": lambda x: MODEL(x),
    "reductions": lambda x: (x.sum(), x.mean(axis=0), x.max(axis=1), wg.logsumexp(x), wg.softmax(x, axis=1)),
    "control": lambda x: (
        wg.cond(x.sum() > 0, lambda v: v * 2, lambda v: v, x),
        wg.fori_loop(0, 3, lambda i, v: v * 1.5, x),
        wg.scan(lambda c, r: (c + r, c * r), x[0], x),
        wg.while_loop(lambda v: v.sum() < 100.0, lambda v: v * 2, x),
    ),
    "checkpoint": lambda x: wg.checkpoint(lambda v: wg.sin(v) * v)(x),
}


def _written(x: Any) -> Any:
    x[0] = 2.0
    x += 1
    x.mul_(2.0)
    return x


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    f = PROGRAMS[name]
    kinds = {Own, OwnView} if name == "values" else {Own}
    assert set(of(f(own(X)))) <= kinds
    assert set(of(f(own(X).requires_grad_()))) <= kinds
    compiled = wg.jit(f)
    for _ in range(6):
        assert set(of(compiled(own(X)))) == {Own}
    plain = wg.tensor(X)
    assert Own not in set(of(compiled(plain)))
    assert Own not in set(of(f(plain)))
    assert set(of(compiled(own(X)))) == {Own}


def loss(x: Any) -> Any:
    assert type(x) is Own
    return (wg.sin(x) * x).sum()


TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "grad": lambda x: wg.grad(loss)(x),
    "value_and_grad": lambda x: wg.value_and_grad(loss)(x),
    "grad of grad": lambda x: wg.grad(lambda y: wg.grad(loss)(y).sum())(x),
    "jvp": lambda x: wg.jvp(loss, (x,), (x,)),
    "vjp": lambda x: (lambda out, pull: (out, pull(wg.ones(()))))(*wg.vjp(loss, x)),
    "linearize": lambda x: (lambda out, push: (out, push(x)))(*wg.linearize(loss, x)),
    "hvp": lambda x: wg.hvp(loss, (x,), (x,)),
    "hessian": lambda x: wg.hessian(loss)(x),
    "jacobian": lambda x: (wg.jacobian(wg.sin)(x), wg.jacobian(wg.sin, mode="forward")(x)),
    "vmap": lambda x: (wg.vmap(loss)(x), wg.vmap(wg.grad(loss))(x)),
    "jit of grad": lambda x: wg.jit(wg.grad(loss))(x),
    "grad of jit": lambda x: wg.grad(wg.jit(loss))(x),
    "vmap of jit": lambda x: wg.vmap(wg.jit(loss))(x),
    "autograd.grad": lambda x: wg.autograd.grad(loss(y := x.clone().requires_grad_()), y),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(name: str) -> None:
    for _ in range(3):
        assert set(of(TRANSFORMS[name](own(X)))) == {Own}


def test_gradients() -> None:
    x = own(X).requires_grad_()
    for _ in range(2):  # a new gradient, and one that is added
        loss(x).backward()
        assert type(x.grad) is Own

    @wg.jit
    def step(v: Any) -> Any:
        w.grad = None
        out = (v * w).sum()
        out.backward()
        return out

    w = own([1.0, 2.0]).requires_grad_()
    for _ in range(6):
        assert type(step(own(X))) is Own
        assert type(w.grad) is Own
        np.testing.assert_array_equal(w.grad.numpy(), [4.0, 6.0])


def test_what_a_compiled_function_makes_a_leaf() -> None:
    f = wg.jit(lambda x: x.detach().clone().requires_grad_())
    for _ in range(4):
        made = f(own(X))
        assert type(made) is Own
        assert made.is_leaf
        assert made.requires_grad


def test_data_is_another_name() -> None:
    x = own(X).requires_grad_()
    assert type(x.data) is OwnView
    assert isinstance(x.data, Own)
    with wg.no_grad():
        x.data.mul_(2.0)
    assert type(x) is Own
    np.testing.assert_array_equal(x.detach().numpy(), 2 * np.array(X, np.float32))


def test_copies() -> None:
    import copy
    import pickle

    x = own(X)
    assert type(copy.copy(x)) is type(copy.deepcopy(x)) is type(pickle.loads(pickle.dumps(x))) is Own


def _hooked(w: Any) -> None:
    y = own(X).requires_grad_() * 2
    y.retain_grad()
    y.register_hook(lambda g: w)
    y.sum().backward()
    assert type(y.grad) is Own


GIVEN: dict[str, Callable[[Any], Any]] = {
    "backward": lambda w: own(X).requires_grad_().clone().backward(w, create_graph=True),
    "autograd.grad": lambda w: wg.autograd.grad((x := own(X).requires_grad_()).clone(), x, w, create_graph=True),
    "vjp": lambda w: wg.vjp(lambda x: x, own(X))[1](w),
    "vjp inside grad": lambda w: wg.grad(lambda z: wg.vjp(lambda x: x, own(X))[1](w * z)[0].sum())(1.0),
    "jvp": lambda w: wg.jvp(lambda x: x, (own(X),), (w,)),
    "a hook": _hooked,
    "an operand": lambda w: (own(X) + w, wg.where(w > 0, w, own(X)), own(X) @ w),
}


@pytest.mark.parametrize("name", GIVEN)
def test_tensors_that_are_given_keep_their_class(name: str) -> None:
    w = wg.tensor(X)
    GIVEN[name](w)
    assert type(w) is wg.Tensor


@pytest.mark.filterwarnings("error")
def test_data_among_the_arguments_of_compiled_functions() -> None:
    x = own(X).requires_grad_()
    f = wg.jit(lambda d: d * 2)
    for _ in range(6):
        assert type(f(x.data)) is Own

    @wg.jit
    def write(d: Any) -> Any:
        d.mul_(2.0)
        return d.sum()

    with wg.no_grad():
        assert [write(x.data).item() for _ in range(6)] == [20.0 * 2**k for k in range(6)]
    np.testing.assert_array_equal(x.detach().numpy(), 64 * np.array(X, np.float32))
