"""Sparse matrices of `wengert.torch`: products, gradients, coordinates, and what is refused."""

import pytest

import wengert.torch as torch
from wengert.core.errors import DTypeError, RangeError, ShapeError

EDGES = [[0, 1, 1, 0], [1, 0, 2, 1]]
WHOLE = [[0.0, 5.0, 0.0], [2.0, 0.0, 3.0]]


def matrix(**options):
    return torch.sparse_coo_tensor(EDGES, [1.0, 2.0, 3.0, 4.0], (2, 3), dtype=torch.float64, **options)


@pytest.mark.parametrize("product", [torch.sparse.mm, torch.spmm, torch.mm, torch.matmul, lambda a, x: a @ x])
def test_a_product_is_that_of_the_whole(product):
    x = torch.arange(12.0, dtype=torch.float64).reshape(3, 4)
    out = product(matrix(), x)
    assert type(out) is torch.Tensor
    assert torch.equal(out, torch.tensor(WHOLE, dtype=torch.float64) @ x)


def test_a_product_with_a_vector_and_from_the_left():
    a, whole = matrix(), torch.tensor(WHOLE, dtype=torch.float64)
    x, y = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64), torch.ones(5, 2, dtype=torch.float64)
    assert torch.equal(a @ x, whole @ x)
    assert torch.equal(a.mv(x), whole @ x)
    assert torch.equal(y @ a, y @ whole)
    assert torch.equal(torch.sparse.addmm(torch.ones(2, 1), a, x.reshape(3, 1), beta=2), 2 + whole @ x.reshape(3, 1))


def test_gradients_flow_to_values_and_to_the_dense_factor():
    values = torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    x = torch.ones(3, 2, requires_grad=True)
    (torch.sparse_coo_tensor(EDGES, values, (2, 3)) @ x).pow(2).sum().backward()
    assert values.grad.tolist() == [20.0, 20.0, 20.0, 20.0]
    assert x.grad.tolist() == [[20.0, 20.0], [50.0, 50.0], [30.0, 30.0]]
    a = torch.sparse_coo_tensor(EDGES, [1.0, 2.0, 3.0, 4.0], (2, 3), requires_grad=True)
    (a @ x).sum().backward()
    assert a.requires_grad
    assert a.grad.to_dense().tolist() == [[0.0, 4.0, 0.0], [2.0, 0.0, 2.0]]


def test_a_compiled_function_takes_one():
    step = torch.compile(lambda a, x: (a @ x).sum(), fullgraph=True)
    x = torch.arange(3.0, dtype=torch.float64).reshape(3, 1)
    for k in range(6):
        assert step(matrix() * (k + 1), x + k).item() == (k + 1) * (torch.tensor(WHOLE).double() @ (x + k)).sum().item()


def test_coordinates_once_in_order():
    a = matrix()
    assert not a.is_coalesced()
    assert a._nnz() == 4
    b = a.coalesce()
    assert b.indices().tolist() == [[0, 1, 1], [1, 0, 2]]
    assert b.values().tolist() == [5.0, 2.0, 3.0]
    assert a.to_dense().tolist() == b.to_dense().tolist() == WHOLE
    assert a.t().coalesce().indices().tolist() == [[0, 1, 2], [1, 0, 1]]
    with pytest.raises(ShapeError, match="not coalesced"):
        a.values()


def test_there_and_back():
    whole = torch.tensor(WHOLE)
    a = whole.to_sparse()
    assert a.is_sparse
    assert a.is_coalesced()
    assert a.layout == torch.sparse_coo
    assert not whole.is_sparse
    assert torch.equal(a.to_dense(), whole)
    assert whole.to_dense() is whole
    assert (a.shape, a.size(1), a.dim(), a.numel()) == (torch.Size([2, 3]), 3, 2, 6)
    assert torch.sparse.FloatTensor(a.indices(), a.values(), torch.Size([2, 3])).dtype == torch.float32
    rows = torch.tensor([[0.0, 0.0], [1.0, 2.0]]).to_sparse(1)
    assert rows.values().tolist() == [[1.0, 2.0]]
    assert rows.dense_dim() == 1


def test_sums_and_scales():
    a = matrix()
    assert (2 * a + a / 2).to_dense().tolist() == [[0.0, 12.5, 0.0], [5.0, 0.0, 7.5]]
    assert (a - a).to_dense().abs().sum().item() == 0.0
    assert torch.sparse.sum(a).item() == 10.0
    assert torch.sparse.sum(a, 1).to_dense().tolist() == [5.0, 5.0]
    assert torch.sparse.sum(a, [0, 1]).item() == 10.0
    assert "nnz=4" in repr(a)


def test_what_does_not_fit_is_refused():
    with pytest.raises(RangeError, match="outside"):
        torch.sparse_coo_tensor([[0, 2], [0, 0]], [1.0, 1.0], (2, 2))
    with pytest.raises(ShapeError, match=r"\(2, 3\)"):
        torch.sparse.mm(matrix(), torch.ones(2, 2))
    with pytest.raises(ShapeError, match="two sparse"):
        matrix() @ matrix().t()
    with pytest.raises(DTypeError, match="integers"):
        torch.sparse_coo_tensor([[0.5], [0.0]], [1.0], (2, 2))
    with pytest.raises(ShapeError, match="values"):
        torch.sparse_coo_tensor([[0, 1], [0, 0]], [1.0, 1.0, 2.0], (2, 2))
