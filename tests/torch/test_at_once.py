"""Writes in place and views that are done at once give what NumPy and the general path give."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import wengert as wg
import wengert.torch as torch

# Each as a write to `x` with an operand `y`, and NumPy's value of it.
WRITES: dict[str, tuple[Any, Any]] = {
    "add_": (lambda x, y: x.add_(y), lambda x, y: x + y),
    "add_ of a number": (lambda x, y: x.add_(1.5), lambda x, y: x + 1.5),
    "add_ alpha": (lambda x, y: x.add_(y, alpha=-0.5), lambda x, y: x + y * -0.5),
    "sub_": (lambda x, y: x.sub_(y), lambda x, y: x - y),
    "mul_": (lambda x, y: x.mul_(y), lambda x, y: x * y),
    "div_": (lambda x, y: x.div_(y), lambda x, y: x / y),
    "remainder_": (lambda x, y: x.remainder_(y), lambda x, y: np.remainder(x, y)),
    "neg_": (lambda x, y: x.neg_(), lambda x, y: -x),
    "tanh_": (lambda x, y: x.tanh_(), lambda x, y: np.tanh(x)),
    "sigmoid_": (lambda x, y: x.sigmoid_(), lambda x, y: 1 / (1 + np.exp(-x))),
    "clamp_": (lambda x, y: x.clamp_(-0.5, 0.5), lambda x, y: np.clip(x, -0.5, 0.5)),
    "clamp_min_": (lambda x, y: x.clamp_min_(0.25), lambda x, y: np.maximum(x, 0.25)),
    "clamp_max_": (lambda x, y: x.clamp_max_(0.25), lambda x, y: np.minimum(x, 0.25)),
    "lerp_": (lambda x, y: x.lerp_(y, 0.25), lambda x, y: x + 0.25 * (y - x)),
    "addcmul_": (lambda x, y: x.addcmul_(y, y, value=0.5), lambda x, y: x + 0.5 * y * y),
    "addcdiv_": (lambda x, y: x.addcdiv_(y, y), lambda x, y: x + y / y),
    "copy_": (lambda x, y: x.copy_(y), lambda x, y: y + 0 * x),
    "+=": (lambda x, y: x.__iadd__(y), lambda x, y: x + y),
    "/= of a number": (lambda x, y: x.__itruediv__(3), lambda x, y: x / 3),
}
# How a tensor that is written to lies in memory, and who shares it: each from an array, with what has to follow.
LAYOUTS: dict[str, Any] = {
    "alone": lambda t: (t, t),
    "with a view": lambda t: (t, t[1:]),
    "a view": lambda t: (t[2:5], t),
    "transposed": lambda t: (t.t(), t),
    "every other": lambda t: (t[:, ::2], t),
    "detached": lambda t: (t.detach(), t),
    "data": lambda t: (t.data, t),
}


@pytest.mark.parametrize("size", [6, 120])  # the larger one is computed in its memory
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", WRITES)
def test_a_write_reaches_all_that_shares_memory(name: str, layout: str, size: int) -> None:
    write, expected = WRITES[name]
    rng = np.random.default_rng(0)
    start = rng.normal(size=(size, size)).astype(np.float32)
    mine, theirs = torch.tensor(start), start.copy()
    x, other = LAYOUTS[layout](mine)
    lies = {"data": lambda a: (a, a), "detached": lambda a: (a, a), "transposed": lambda a: (a.T, a)}
    part, whole = lies.get(layout, LAYOUTS[layout])(theirs)
    held = wg.tensor(start) * 1.0  # what was computed from it before
    before = x * 1.0
    for _ in range(3):
        y = (rng.normal(size=part.shape) + 3).astype(np.float32)
        part[...] = expected(part, y)
        assert write(x, torch.tensor(y)) is x
        assert x.dtype == torch.float32
        assert x.stride() == tuple(s // 4 for s in part.strides)
        np.testing.assert_allclose(x.numpy(), part, rtol=2e-6, atol=1e-6)
        np.testing.assert_allclose(other.numpy(), whole, rtol=2e-6, atol=1e-6)
    np.testing.assert_array_equal(held.numpy(), start)
    np.testing.assert_array_equal(before.numpy(), (part * 0 + before.numpy()))


@pytest.mark.parametrize("size", [8, 20_000])
def test_operands_that_overlap_are_read_before_the_write(size: int) -> None:
    x, a = torch.arange(float(size)), np.arange(size, dtype=np.float32)
    for _ in range(3):
        x[1:].add_(x[:-1])
        a[1:] += a[:-1].copy()
        x.mul_(0.5)
        a *= np.float32(0.5)
        np.testing.assert_array_equal(x.numpy(), a)


@pytest.mark.parametrize("size", [4, 20_000])
def test_a_refused_write_leaves_the_value(size: int) -> None:
    x = torch.ones(size)
    x[0] = 2.0
    with pytest.raises(wg.ShapeError, match=r"add_: a result of shape \(2, \d+\) for a tensor of"):
        x.add_(torch.ones(2, size))
    n = torch.ones(size, dtype=torch.int64)
    n[0] = 2
    for refused in (lambda: n.add_(0.5), lambda: n.add_(2**70), lambda: n.reciprocal_(), lambda: n.div_(2)):
        with pytest.raises(wg.DTypeError):
            refused()
    assert x[:3].tolist() == [2.0, 1.0, 1.0]
    assert n[:3].tolist() == [2, 1, 1]


@pytest.mark.parametrize("size", [4, 20_000])
def test_warnings_that_are_errors_change_no_number(size: int) -> None:
    x = torch.full((size,), 2.0)
    view = x[1:]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x.div_(torch.zeros(size))
        view.sub_(view)
    assert x[0].item() == np.inf
    assert np.isnan(view.numpy()).all()


def test_writes_of_numbers_and_of_zero_axes() -> None:
    n = torch.tensor(3)
    assert n.add_(1) is n
    assert n.item() == 4
    assert n.dtype == torch.int64
    x = torch.tensor(1.0)
    x.add_(2.0).mul_(torch.tensor(3.0))
    assert x.item() == 9.0
    assert x.shape == ()
    empty = torch.zeros(0, 3)
    assert empty.add_(1.0).shape == (0, 3)
    half = torch.ones(3, dtype=torch.float16)
    assert half.mul_(1e5).dtype == torch.float16


@pytest.mark.parametrize("namespace", [wg, torch])
def test_what_is_recorded_or_watched_takes_the_general_path(namespace: Any) -> None:
    w = namespace.ones(3, requires_grad=True)
    x = namespace.zeros(3)
    x.add_(w)
    x.mul_(2.0)
    assert x.requires_grad
    x.sum().backward()
    assert w.grad.tolist() == [2.0] * 3
    with namespace.no_grad():
        w.sub_(w.grad, alpha=0.5)
    assert w.tolist() == [0.0] * 3
    assert w.requires_grad
    assert w.is_leaf

    def step(x: Any) -> Any:
        y = x.clone()
        y.add_(1.0)
        y[1:].mul_(3.0)
        return y

    if namespace is torch:
        graph = wg.graph(step)(torch.zeros(3))
        assert graph.run(np.ones(3, np.float32)).tolist() == [2.0, 6.0, 6.0]


VIEWS: dict[str, tuple[Any, Any]] = {
    "t": (lambda t: t.t(), lambda a: a.T),
    "T": (lambda t: t.T, lambda a: a.T),
    "mT": (lambda t: t.mT, lambda a: a.T),
    "transpose": (lambda t: t.transpose(-1, 0), lambda a: a.T),
    "permute": (lambda t: t.permute(1, 0), lambda a: a.T),
    "permute of a tuple": (lambda t: t.permute((1, 0)), lambda a: a.T),
    "unsqueeze": (lambda t: t.unsqueeze(-1), lambda a: a.reshape(3, 4, 1)),
    "squeeze": (lambda t: t.unsqueeze(0).squeeze(), lambda a: a),
    "view": (lambda t: t.view(-1), lambda a: a.reshape(-1)),
    "view of sizes": (lambda t: t.view(2, -1, 2), lambda a: a.reshape(2, 3, 2)),
    "view of a size": (lambda t: t.view(torch.Size([4, 3])), lambda a: a.reshape(4, 3)),
    "reshape": (lambda t: t.reshape(2, 6), lambda a: a.reshape(2, 6)),
    "flatten": (lambda t: t.flatten(), lambda a: a.reshape(-1)),
    "unbind": (lambda t: t.unbind(1)[2], lambda a: a[:, 2]),
    "split": (lambda t: t.split(2, 1)[1], lambda a: a[:, 2:]),
    "chunk": (lambda t: t.chunk(2)[1], lambda a: a[2:]),
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("state", ["fresh", "written", "read again", "of a view"])
def test_a_view_is_one(name: str, state: str) -> None:
    take, of_array = VIEWS[name]
    x, a = torch.arange(12.0).reshape(3, 4), np.arange(12, dtype=np.float32).reshape(3, 4)
    if state == "of a view":
        x, a = torch.arange(24.0).reshape(6, 4)[3:], np.arange(24, dtype=np.float32).reshape(6, 4)[3:]
    elif state != "fresh":
        x[0, 0] = a[0, 0] = 5.0
    kept = x + 0.0 if state == "read again" else None
    view, part = take(x), of_array(a)
    assert type(view) is torch.Tensor
    assert (view.shape, view.stride()) == (part.shape, tuple(s // 4 for s in part.strides))
    np.testing.assert_array_equal(view.numpy(), part)
    view.mul_(-2.0)
    part *= -2
    x[1:].add_(1.0)
    a[1:] += 1
    np.testing.assert_array_equal(x.numpy(), a)
    np.testing.assert_array_equal(view.numpy(), part)
    assert kept is None or kept.tolist() == [[5.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0], [8.0, 9.0, 10.0, 11.0]]


def test_expanded_views_are_read_only_where_elements_share_memory() -> None:
    x = torch.arange(3.0).reshape(1, 3)
    view = x.expand(2, 2, -1)
    assert view.stride() == (0, 0, 1)
    assert x.expand((4, 3)).stride() == (0, 1)
    x[0, 1] = 9.0
    assert view.tolist() == [[[0.0, 9.0, 2.0]] * 2] * 2
    with pytest.raises(wg.WriteError, match="elements share memory"):
        view.add_(1.0)
    with pytest.raises(wg.ShapeError):
        x.expand(2, 4)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: x.view(5),
        lambda x: x.view(-2, 3),
        lambda x: x.transpose(0, 2),
        lambda x: x.permute(0, 0),
        lambda x: x.unsqueeze(4),
        lambda x: x.unbind(2),
        lambda x: x.split(0),
        lambda x: x.reshape(-1, -1),
        lambda x: torch.ones(2, 2, 2).t(),
    ],
)
def test_views_that_cannot_be_are_refused_in_the_librarys_words(wrong: Any) -> None:
    with pytest.raises(wg.WengertError, match=r"test_at_once\.py:\d+"):
        wrong(torch.ones(2, 3))
