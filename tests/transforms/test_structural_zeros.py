"""Where no gradient flows there is none: not 0 times infinity. A NaN that does flow stays."""

from __future__ import annotations

import numpy as np
import pytest

import wengert as wg


def derivatives(f, x: float, orders: int) -> list[float]:
    """f, f', f'', ... at x by nested reverse mode."""
    out = []
    for _ in range(orders + 1):
        out.append(f(wg.tensor(x, dtype=wg.float64)).item())
        f = wg.grad(f)
    return out


def test_masked_logarithm() -> None:
    def f(x):
        return wg.where(x > 0, wg.log(wg.where(x > 0, x, x)), 0.0)

    assert derivatives(f, 0.0, 3) == [0.0] * 4
    assert derivatives(f, 2.0, 3) == pytest.approx([np.log(2), 0.5, -0.25, 0.25])


def test_masked_square_root() -> None:
    def f(x):
        return wg.where(x > 0, wg.sqrt(x), 0.0)

    assert derivatives(f, 0.0, 3) == [0.0] * 4
    assert derivatives(f, 4.0, 3) == pytest.approx([2.0, 0.25, -1 / 32, 3 / 256])


def test_masked_square_root_in_a_plain_backward() -> None:
    x = wg.tensor([0.0, 4.0, -1.0], requires_grad=True)
    wg.where(x > 0, wg.sqrt(x), 0.0).sum().backward()
    assert x.grad.tolist() == [0.0, 0.25, 0.0]


@pytest.mark.parametrize("order", [1, 2, 3])
def test_norm_at_zero(order: int) -> None:
    f = wg.linalg.vector_norm
    for _ in range(order - 1):
        inner = f
        f = lambda x, g=inner: wg.grad(g)(x).sum()
    gradient = wg.grad(f)(wg.zeros(3, dtype=wg.float64))
    assert gradient.tolist() == [0.0] * 3


def test_norm_elsewhere() -> None:
    x = wg.tensor([3.0, 4.0], dtype=wg.float64)
    assert wg.grad(wg.linalg.vector_norm)(x).tolist() == pytest.approx([0.6, 0.8])
    wg.check_grads(wg.linalg.vector_norm, x, order=2)


def test_what_a_slice_leaves_out() -> None:
    x = wg.tensor([0.0, 1.0, 2.0], requires_grad=True)
    wg.log(x)[1:].sum().backward()
    assert x.grad.tolist() == [0.0, 1.0, 0.5]


def test_what_an_index_leaves_out() -> None:
    x = wg.tensor([0.0, 1.0, 2.0], requires_grad=True)
    wg.log(x)[wg.tensor([2, 2, 1])].sum().backward()
    assert x.grad.tolist() == [0.0, 1.0, 1.0]


def test_what_a_maximum_leaves_out() -> None:
    x = wg.tensor([0.0, 4.0], requires_grad=True)
    wg.sqrt(x).max().backward()
    assert x.grad.tolist() == [0.0, 0.25]
    y = wg.tensor([0.0, 4.0], requires_grad=True)
    wg.maximum(wg.sqrt(y), 1.0).sum().backward()
    assert y.grad.tolist() == [0.0, 0.25]


def test_what_a_relu_leaves_out() -> None:
    x = wg.tensor([0.0, 4.0], requires_grad=True)
    wg.relu(wg.log(x)).sum().backward()
    assert x.grad.tolist() == [0.0, 0.25]


def test_absence_goes_through_structure() -> None:
    x = wg.tensor([[0.0, 1.0], [4.0, 0.0]], requires_grad=True)
    y = wg.sqrt(x).reshape(4).flip(0)[wg.tensor([1, 2])]
    y.sum().backward()
    assert x.grad.tolist() == [[0.0, 0.5], [0.25, 0.0]]


@pytest.mark.parametrize("reduce", [wg.prod, wg.logsumexp, wg.var, wg.linalg.vector_norm], ids=lambda f: f.__name__)
def test_absence_of_a_whole_result(reduce) -> None:
    def f(x):
        return wg.where(x.sum() > 100, reduce(wg.sqrt(x)), 0.0)

    x = wg.tensor([0.0, 4.0], dtype=wg.float64)
    assert wg.grad(f)(x).tolist() == [0.0, 0.0]
    if reduce is not wg.prod:  # whose derivative is made of running products, which mix elements
        assert wg.grad(lambda v: wg.grad(f)(v).sum())(x).tolist() == [0.0, 0.0]


def test_absence_on_one_path_only() -> None:
    # The square root is reached unmasked on the other path: its infinity flows there.
    x = wg.tensor(0.0, requires_grad=True)
    r = wg.sqrt(x)
    (wg.where(x > 0, r, 0.0) + r).backward()
    assert x.grad.item() == np.inf


def test_a_zero_that_flows_is_not_absent() -> None:
    x = wg.tensor(0.0, requires_grad=True)
    (wg.sqrt(x) ** 2).backward()
    assert np.isnan(x.grad.item())
    y = wg.tensor(0.0, requires_grad=True)
    (wg.sqrt(y) * 0.0).backward()
    assert np.isnan(y.grad.item())


def test_a_nan_that_flows_stays() -> None:
    x = wg.tensor([float("nan"), 1.0], requires_grad=True)
    wg.where(wg.tensor([True, False]), x * x, 0.0).sum().backward()
    assert np.isnan(x.grad.tolist()[0])
    assert x.grad.tolist()[1] == 0.0


def test_recorded_passes_agree() -> None:
    x = wg.tensor([0.0, 4.0, -1.0], requires_grad=True)
    y = wg.where(x > 0, wg.sqrt(x), 0.0).sum()
    (g,) = wg.autograd.grad(y, x, create_graph=True)
    assert g.tolist() == [0.0, 0.25, 0.0]
    (h,) = wg.autograd.grad(g.sum(), x)
    assert h.tolist() == [0.0, -1 / 32, 0.0]


def test_traced_gradients_agree() -> None:
    f = lambda x: wg.where(x > 0, wg.sqrt(x), 0.0).sum()
    graph = wg.graph(wg.grad(f))(wg.spec((3,)))
    assert graph(wg.tensor([0.0, 4.0, -1.0])).tolist() == [0.0, 0.25, 0.0]
