"""Products, distances, statistics and differences of `wengert.torch`, against values recorded from PyTorch 2.13."""

import numpy as np
import pytest

import wengert as wg
import wengert.torch as torch
from torch_calls import inputs, recorded
from torch_comparing import check, compiled

CALLS = [
    "torch.mm(p, q.mT), p.mm(q.mT), torch.mm(input=i, mat2=j.mT)",
    "torch.mm(p.detach(), q.detach().mT, out=torch.empty(3, 3, dtype=torch.float64))",
    "torch.bmm(x, y.mT)",
    "torch.mv(p, row), p.mv(vec=row)",
    "torch.dot(row, row * 2), torch.dot(i[0], j[0])",
    "torch.vdot(z, z * 1j), torch.dot(z, z)",
    "torch.inner(x, p), torch.inner(row, row), torch.inner(s, x), row.inner(other=row)",
    "torch.outer(row, p[0]), torch.ger(row, row), row.outer(vec2=row)",
    "torch.matmul(x, row), torch.matmul(input=x, other=y.mT), row @ row, p @ x.mT, c @ z",
    "torch.addmm(u[:, :3], p, q.mT, beta=0.5, alpha=2.0)",
    "torch.addmm(row[:3], p, q.mT)",
    "torch.addmm(holes[0, :, :3].detach(), p, q.mT, beta=0)",
    "torch.addmm(i[:, :3], i, j.mT, beta=2, alpha=3)",
    "torch.addmv(s, p, row, beta=2.5), u[:, 0].addmv(p, row, alpha=0.5)",
    "torch.addbmm(u[:, :3], x, y.mT, beta=0.25, alpha=2)",
    "torch.baddbmm(s, x, y.mT, beta=0.25, alpha=2), torch.baddbmm(u[:, :3], x, y.mT, beta=0)",
    "torch.addr(u, row[:3], p[0], beta=2, alpha=0.5), torch.addr(b, b[:, 0], b[0])",
    "u[:, :3].clone().addmm_(p, q.mT, alpha=2), u.clone().addr_(row[:3], row, beta=0.5)",
    "torch.chain_matmul(p, q.mT, u), torch.linalg.multi_dot([p, q.mT, u, row])",
    "torch.einsum('ij,kj->ik', p, q), torch.einsum('ij,kj', [p, q]), torch.einsum('...i,i', x, row)",
    "torch.einsum('bij, bkj -> bik', x, y), torch.einsum('ii->i', p[:, :3]), torch.einsum('ij->', p)",
    "torch.einsum(p, [0, 1], q, [2, 1], [0, 2]), torch.einsum(x, [Ellipsis, 3], row, [3], [Ellipsis])",
    "torch.einsum(p, [7, 1], q, [2, 1])",
    "torch.tensordot(x, y, dims=([0, 2], [0, 2])), torch.tensordot(p, q.mT, 1), torch.tensordot(row, row, dims=1)",
    "torch.kron(p, q[:2, :2]), torch.kron(row, i), row.kron(other=row)",
    "torch.cross(x[:, :, :3], y[:, :, 1:], dim=2), torch.cross(x, y), torch.linalg.cross(p.mT, row[None, :3])",
    "torch.cdist(x, y), torch.cdist(p, q, p=1.0), torch.cdist(p, q, p=3), torch.cdist(p, q, inf), torch.cdist(i * 1.0, j * 1.0, p=0)",  # noqa: E501
    "torch.cdist(x.reshape(1, 24), x.reshape(1, 24)), torch.cdist(x.reshape(-1, 1), y.reshape(-1, 1)[:30])",
    "torch.cdist(p, q, compute_mode='use_mm_for_euclid_dist'), torch.cdist(p, q, 2.0, 'donot_use_mm_for_euclid_dist')",
    "torch.cov(p), torch.cov(row), p.cov(correction=0), torch.cov(c)",
    "torch.cov(p, fweights=j[0], aweights=u[0]), torch.cov(p, aweights=u[0], correction=0), torch.cov(i)",
    "torch.corrcoef(p), p[0].corrcoef(), torch.corrcoef(c)",
    "torch.vander(row), torch.vander(row, N=3, increasing=True), torch.vander(i[0]), torch.linalg.vander(p, N=3)",
    "torch.gradient(p), torch.gradient(x, spacing=2.0, dim=(1, 2)), torch.gradient(p, dim=1, edge_order=2)",
    "torch.gradient(p, spacing=(p[:, 0].detach().cumsum(0), torch.tensor([0., 1, 3, 4])), edge_order=2)",
    "torch.gradient(row, spacing=[0.5]), torch.gradient(i * 1.0, spacing=(2, 3))",
    "torch.trace(p), torch.trace(i), torch.trace(w), i.trace()",
]
RECORDED = recorded("products")


@pytest.mark.parametrize("text", CALLS)
def test_numbers_and_derivatives_are_pytorchs(text):
    check(text, RECORDED[text])


@pytest.mark.parametrize("text", [t for t in CALLS[::5] if "out=" not in t])
def test_compiled_calls_give_the_same(text):
    compiled(text, RECORDED[text])


def test_products_are_mapped_over_examples():
    given = inputs(torch, grad=False)
    x, p, row = given["x"], given["p"], given["row"]
    for fn in (
        lambda v: torch.cdist(v, p),
        lambda v: torch.addmv(p[:, 0], v, row),
        lambda v: torch.cov(v),
        lambda v: torch.einsum(v, [0, 1], row, [1]),
    ):
        mapped = wg.vmap(fn)(x)
        assert type(mapped) is torch.Tensor
        np.testing.assert_allclose(mapped.numpy(), np.stack([fn(v).numpy() for v in x]), rtol=1e-12)


def test_the_gradient_of_a_distance_of_zero_is_zero():
    x = torch.tensor([[1.0, 2.0], [1.0, 2.0]], requires_grad=True)
    for p in (0.5, 1.0, 2.0, 3.0, float("inf")):
        (g,) = torch.autograd.grad(torch.cdist(x, x.detach(), p=p).sum(), x)
        assert g.tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_empty_products():
    assert torch.mm(torch.zeros(0, 3), torch.zeros(3, 2)).shape == (0, 2)
    assert torch.mm(torch.zeros(2, 0), torch.zeros(0, 3)).tolist() == [[0.0] * 3] * 2
    assert torch.cdist(torch.zeros(2, 0), torch.zeros(3, 0)).tolist() == [[0.0] * 3] * 2
    assert torch.einsum("ij,jk", torch.zeros(2, 0), torch.zeros(0, 2)).tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_what_does_not_fit_is_refused():
    a = torch.ones(2, 3)
    for wrong in (
        lambda: torch.mm(a, torch.ones(3)),
        lambda: torch.bmm(torch.ones(2, 2, 3), torch.ones(1, 3, 2)),
        lambda: torch.dot(a, a),
        lambda: torch.outer(a, a),
        lambda: torch.addmm(torch.ones(3, 3), a, torch.ones(3, 2)),
        lambda: torch.cdist(a, torch.ones(2, 4)),
        lambda: torch.cross(torch.ones(2), torch.ones(2)),
        lambda: torch.gradient(torch.ones(1)),
    ):
        with pytest.raises(wg.ShapeError):
            wrong()
    with pytest.raises(TypeError):
        torch.addmm(torch.ones(2, 2, dtype=torch.int64), a.long(), a.long().T, alpha=0.5)


def test_products_are_of_the_users_line():
    a = torch.ones(2, 2, requires_grad=True)
    for made in (torch.mm(a, a), torch.matmul(a, a), a.mv(a[0]), torch.dot(a[0], a[1]), a.mm(a)):
        assert "test_products.py" in str(made.node.source)
