"""In-place operations as new versions: what they change, what they leave alone, what they refuse."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import wengert as wg


def leaf(*values: float) -> wg.Tensor:
    return wg.tensor(list(values), requires_grad=True)


# -- augmented assignment


@pytest.mark.parametrize("symbol", ["+=", "-=", "*=", "/=", "**=", "//=", "%="])
def test_augmented_assignment_gives_the_same_tensor_a_new_value(symbol: str) -> None:
    x = wg.tensor([4.0, 9.0])
    names = {"x": x, "y": wg.tensor([2.0, 2.0])}
    exec(f"x {symbol} y", names)
    expected: dict[str, Any] = {"x": np.array([4.0, 9.0], np.float32)}
    exec(f"x {symbol} 2.0", expected)
    np.testing.assert_allclose(names["x"].numpy(), expected["x"])
    assert names["x"] is x


@pytest.mark.parametrize("symbol", ["&=", "|=", "^=", "<<=", ">>="])
def test_augmented_assignment_of_integers(symbol: str) -> None:
    names = {"x": wg.tensor([6, 5])}
    expected = {"x": np.array([6, 5])}
    for n in (names, expected):
        exec(f"x {symbol} 1", n)
    np.testing.assert_array_equal(np.asarray(names["x"]), expected["x"])


def test_augmented_matmul() -> None:
    x = wg.tensor([[1.0, 2.0], [3.0, 4.0]])
    x @= x
    assert x.tolist() == [[7.0, 10.0], [15.0, 22.0]]


def test_augmented_assignment_keeps_shape_and_dtype() -> None:
    x = wg.tensor([1, 2])
    with pytest.raises(wg.DTypeError, match=r"\+=: a result of dtype float32 does not fit a tensor of \(2,\) int64"):
        x += wg.ones(2)
    with pytest.raises(wg.ShapeError, match=r"\+=: a result of shape \(2, 2\) for a tensor of \(2,\) int64"):
        x += wg.ones((2, 1), dtype=wg.int64)
    assert x.tolist() == [1, 2]
    y = wg.ones(2)
    y += wg.ones(2, dtype=wg.float64)
    assert y.dtype == wg.float32


def test_a_loss_is_accumulated() -> None:
    w = leaf(2.0)
    loss = wg.tensor(0.0)
    for _ in range(3):
        loss += (w * w).sum()
    loss.backward()
    assert w.grad is not None
    assert w.grad.tolist() == [12.0]


def test_augmented_assignment_names_the_users_line() -> None:
    x = leaf(1.0) * 2.0
    x *= x
    assert x.source is not None
    assert x.source.file.endswith("test_inplace.py")
    y = x.add_(x)
    assert y.source is not None
    assert y.source.file.endswith("test_inplace.py")


# -- leaves


WRITES = {
    "x += 1": lambda x: x.__iadd__(1.0),
    "x @= x": lambda x: x.__imatmul__(x),
    "add_": lambda x: x.add_(1.0),
    "zero_": lambda x: x.zero_(),
    "fill_": lambda x: x.fill_(1.0),
    "copy_": lambda x: x.copy_(wg.zeros(2)),
    "clamp_": lambda x: x.clamp_(min=0.0),
    "x[0] = 1": lambda x: x.__setitem__(0, 1.0),
    "masked_fill_": lambda x: x.masked_fill_(x > 0, 0.0),
    "scatter_": lambda x: x.scatter_(0, wg.tensor([0]), 1.0),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_leaf_that_requires_gradients_refuses(name: str) -> None:
    w = leaf(1.0, 2.0)
    with pytest.raises(
        wg.GradientError, match=r"on a leaf that requires gradients, \(2,\) float32 \(.*test_inplace.py:"
    ) as e:
        WRITES[name](w)
    assert "wg.no_grad()" in str(e.value)
    assert w.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("name", [n for n in WRITES if n != "x @= x"])
def test_a_leaf_under_no_grad_stays_the_same_leaf(name: str) -> None:
    w = leaf(1.0, 2.0)
    node = w.node
    with wg.no_grad():
        WRITES[name](w)
    assert w.node is node
    assert w.is_leaf
    assert w.requires_grad
    (w * w).sum().backward()
    assert w.grad is not None
    np.testing.assert_allclose(w.grad.numpy(), 2 * w.detach().numpy())


def test_textbook_update() -> None:
    w, b = leaf(0.0), leaf(0.0)
    x = wg.tensor([1.0, 2.0, 3.0])
    for _ in range(500):
        loss = ((w * x + b - (3.0 * x + 7.0)) ** 2).mean()
        loss.backward()
        with wg.no_grad():
            for p in (w, b):
                p -= 0.1 * p.grad
            w.grad.zero_()
            b.grad.zero_()
    assert w.item() == pytest.approx(3.0, abs=1e-2)
    assert b.item() == pytest.approx(7.0, abs=2e-2)


def test_update_of_a_leaf_must_fit() -> None:
    w = leaf(1.0, 2.0)
    with wg.no_grad():
        with pytest.raises(wg.ShapeError, match=r"\+=: a result of shape \(2, 2\) for a tensor of \(2,\) float32"):
            w += wg.ones((2, 1))
        with pytest.raises(wg.DTypeError, match=r"complex64 does not fit"):
            w *= wg.tensor(1j)
        w += wg.tensor([1.0, 1.0], dtype=wg.float64)
    assert w.dtype == wg.float32


# -- data


def test_writing_through_data() -> None:
    w = leaf(1.0, 2.0)
    y = w * w
    w.data.sub_(1.0)
    assert w.tolist() == [0.0, 1.0]
    w.data[0] = 5.0
    w.data *= 2.0
    assert w.tolist() == [10.0, 2.0]
    w.data = wg.tensor([3.0, 4.0])
    w.data.zero_().add_(1.0)
    assert w.tolist() == [1.0, 1.0]
    assert w.is_leaf
    assert w.requires_grad
    y.sum().backward()
    assert w.grad is not None
    assert w.grad.tolist() == [2.0, 4.0]
    w.grad.data.zero_()
    assert w.grad.tolist() == [0.0, 0.0]


def test_data_is_a_plain_value_otherwise() -> None:
    w = leaf(1.0, 2.0)
    d = w.data
    assert not d.requires_grad
    for other in (copy.deepcopy(d), pickle.loads(pickle.dumps(d)), d.clone(), d.detach().clone()):
        other.zero_()
    assert w.tolist() == [1.0, 2.0]


# -- methods


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        (lambda x, y: x.add_(y), lambda x, y: x + y),
        (lambda x, y: x.add_(y, alpha=3.0), lambda x, y: x + 3.0 * y),
        (lambda x, y: x.sub_(y, alpha=2), lambda x, y: x - 2 * y),
        (lambda x, y: x.mul_(y), lambda x, y: x * y),
        (lambda x, y: x.div_(y), lambda x, y: x / y),
        (lambda x, y: x.pow_(2), lambda x, y: x**2),
        (lambda x, y: x.neg_(), lambda x, y: -x),
        (lambda x, y: x.abs_(), lambda x, y: wg.abs(x)),
        (lambda x, y: x.exp_(), lambda x, y: wg.exp(x)),
        (lambda x, y: x.log_(), lambda x, y: wg.log(x)),
        (lambda x, y: x.sqrt_(), lambda x, y: wg.sqrt(x)),
        (lambda x, y: x.square_(), lambda x, y: x * x),
        (lambda x, y: x.reciprocal_(), lambda x, y: 1 / x),
        (lambda x, y: x.sigmoid_(), lambda x, y: wg.sigmoid(x)),
        (lambda x, y: x.tanh_(), lambda x, y: wg.tanh(x)),
        (lambda x, y: x.relu_(), lambda x, y: wg.relu(x)),
        (lambda x, y: x.floor_(), lambda x, y: wg.floor(x)),
        (lambda x, y: x.ceil_(), lambda x, y: wg.ceil(x)),
        (lambda x, y: x.round_(), lambda x, y: wg.round(x)),
        (lambda x, y: x.remainder_(1.5), lambda x, y: wg.remainder(x, 1.5)),
        (lambda x, y: x.clamp_min_(1.5), lambda x, y: wg.clip(x, 1.5, None)),
        (lambda x, y: x.clamp_max_(1.5), lambda x, y: wg.clip(x, None, 1.5)),
        (lambda x, y: x.clamp_(min=1.5), lambda x, y: wg.clip(x, 1.5, None)),
        (lambda x, y: x.lerp_(y, 0.25), lambda x, y: x + 0.25 * (y - x)),
        (lambda x, y: x.addcmul_(y, y, value=0.5), lambda x, y: x + 0.5 * y * y),
        (lambda x, y: x.addcdiv_(y, x, value=2.0), lambda x, y: x + 2.0 * y / x),
        (lambda x, y: x.masked_fill_(wg.tensor([True, False]), 9.0), lambda x, y: wg.where([True, False], 9.0, x)),
        (lambda x, y: x.mul_(x), lambda x, y: x * x),
        (lambda x, y: x.copy_(y), lambda x, y: y * 1.0),
        (lambda x, y: x.index_add_(0, [1, 1], y), lambda x, y: x + wg.tensor([0.0, 1.0]) * y.sum()),
    ],
)
def test_methods_act_on_the_object_and_record(write: Any, expected: Any) -> None:
    grads = []
    for in_place in (True, False):
        w, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
        x = w * 1.0
        if in_place:
            before = x.detach()
            same = write(x, y)
            assert same is x
            assert before.tolist() == [1.0, 2.0]
            out = x
        else:
            out = expected(x, y)
        (out * out).sum().backward()
        grads.append((out.tolist(), *(t.grad.tolist() if t.grad is not None else [0.0, 0.0] for t in (w, y))))
    np.testing.assert_allclose(grads[0], grads[1], rtol=1e-6)


def test_fill_and_zero_cut_the_history() -> None:
    w = leaf(1.0, 2.0)
    for x in ((w * 1.0).zero_(), (w * 1.0).fill_(7)):
        assert not x.requires_grad
    v = wg.tensor(3.0, requires_grad=True)
    (w * 1.0).fill_(v).sum().backward()
    assert v.grad is not None
    assert v.grad.item() == 2.0
    assert w.grad is None


def test_untracked_tensors() -> None:
    x = wg.tensor([1, 2, 3])
    y = x
    x.add_(1).mul_(2)
    assert y.tolist() == [4, 6, 8]
    with pytest.raises(wg.DTypeError, match="a result of dtype float32 does not fit a tensor of \\(3,\\) int64"):
        x.add_(0.5)
    with pytest.raises(wg.ShapeError, match="add_: a result of shape"):
        x.add_(wg.ones((3, 1), dtype=wg.int64))
    with pytest.raises(wg.ShapeError, match="copy_: a value of shape"):
        x.copy_(wg.ones(2))
    with pytest.raises(wg.ShapeError, match="fill_: a value of shape"):
        x.fill_(wg.ones(3))


def test_a_constant_keeps_its_value_for_second_derivatives() -> None:
    w, c = leaf(1.0, 2.0), wg.tensor([2.0, 3.0])
    y = (w * c * w).sum()
    c.zero_()
    (g,) = wg.autograd.grad(y, w, create_graph=True)
    assert g.tolist() == [4.0, 12.0]
    (h,) = wg.autograd.grad(g.sum(), w)
    assert h.tolist() == [4.0, 6.0]


def test_numpy_views_of_the_old_version_stay() -> None:
    x = wg.zeros(3)
    seen = x.numpy()
    x[0] = 1.0
    x.add_(1.0)
    assert seen.tolist() == [0.0, 0.0, 0.0]


# -- while tracing and under transforms


def test_traced_functions_may_write() -> None:
    def f(x: wg.Tensor) -> wg.Tensor:
        x += 1.0
        x.mul_(2.0)
        x[0] = x[1]
        return x

    x = wg.tensor([1.0, 2.0])
    g = wg.graph(f)(x)
    assert x.tolist() == [1.0, 2.0]
    assert g(x).tolist() == [6.0, 6.0]


def test_gradients_of_functions_that_write_to_their_argument() -> None:
    def f(x: wg.Tensor) -> wg.Tensor:
        y = x * 1.0
        y[0] = y[1] * 2.0
        y *= y
        return y.sum()

    x = wg.tensor([1.0, 3.0])
    assert wg.grad(f)(x).tolist() == [0.0, 30.0]
    assert x.tolist() == [1.0, 3.0]


def test_a_leaf_takes_no_abstract_value() -> None:
    w = leaf(1.0)

    def f(x: wg.Tensor) -> wg.Tensor:
        with wg.no_grad():
            w.copy_(x)
        return x

    with pytest.raises(wg.GraphError, match=r"f writes to a tensor from outside, f32\[1\], while it is traced"):
        wg.graph(f)(wg.ones(1))
    assert w.tolist() == [1.0]
