"""Linear algebra of `wengert.torch`, against values recorded from PyTorch 2.13.

Vectors of an eigenvalue or singular value have a sign by chance: of them only what does not depend on it is compared.
"""

import numpy as np
import pytest

import wengert as wg
import wengert.torch as torch
from torch_calls import inputs, recorded
from torch_comparing import check, compiled

_A = "(p @ p.mT + torch.eye(3, dtype=torch.float64))"
_B = "(x @ y.mT + 3 * torch.eye(3, dtype=torch.float64))"
_C = "(c @ c.mH + torch.eye(3, dtype=torch.float64))"
CALLS = [
    f"torch.det({_B}), torch.linalg.det({_A}), torch.logdet({_A}), {_A}.det(), torch.logdet(-{_A})",
    f"torch.slogdet({_B}), torch.linalg.slogdet({_C}).logabsdet, {_A}.slogdet()",
    f"torch.inverse({_B}), torch.linalg.inv({_A}), {_A}.inverse()",
    f"torch.linalg.inv_ex({_B}), torch.linalg.solve_ex({_A}, p)",
    "torch.pinverse(p), torch.linalg.pinv(x, rtol=1e-3), torch.linalg.pinv(p, atol=1e-3, rtol=1e-9), p.pinverse(1e-3)",
    f"torch.linalg.pinv({_A}, hermitian=True)",
    f"torch.matrix_power({_A}, 3), torch.linalg.matrix_power({_B}, -2), {_A}.matrix_power(0)",
    f"torch.matrix_exp({_A} * 0.1), torch.linalg.matrix_exp({_B} * 0.1)",
    f"torch.cholesky({_A}), torch.linalg.cholesky({_A}, upper=True), torch.linalg.cholesky({_C})",
    f"torch.linalg.cholesky_ex({_A}), torch.cholesky_inverse(torch.cholesky({_A}))",
    f"torch.cholesky_solve(q, torch.linalg.cholesky({_A})), q.cholesky_solve({_A}.cholesky(upper=True), upper=True)",
    "torch.linalg.cholesky(torch.tensor([[4., 9.], [2., 2.]])), torch.linalg.eigvalsh(torch.tensor([[4., 9.], [2., 2.]]))",  # noqa: E501
    "torch.linalg.eigvalsh(torch.tensor([[4., 9.], [2., 2.]]), UPLO='U')",
    f"torch.linalg.eigvalsh({_A}), torch.linalg.eigh({_A}).eigenvectors.abs(), torch.linalg.eigh({_C}, UPLO='U')[0]",
    f"torch.linalg.eigvals({_A}).abs().sum(), (torch.linalg.eig({_A}).eigenvalues ** 2).sum().real",
    "torch.svd(p)[1], torch.svd(p, compute_uv=False).V, torch.linalg.svdvals(x), torch.linalg.svd(p, False).S",
    "torch.svd(p).U @ torch.diag(torch.svd(p).S) @ torch.svd(p).V.mT, torch.svd(p).U.abs()",
    "torch.linalg.svd(p, full_matrices=False).Vh.abs(), torch.linalg.svd(p.detach()).Vh.shape[0]",
    "torch.qr(x), torch.linalg.qr(p), torch.linalg.qr(x.mT.detach(), 'complete').Q.shape[-1], torch.linalg.qr(p, 'r')",
    "torch.qr(p.mT.detach(), some=False)[1], p.qr()",
    f"torch.linalg.lu({_B}), torch.linalg.lu_factor({_B}), torch.linalg.lu_factor_ex(x)[0]",
    f"torch.lu({_B}), torch.lu_unpack(*torch.lu(x)), torch.lu({_A}, get_infos=True)[2]",
    f"torch.lu_solve(p, *torch.lu({_A})), torch.linalg.lu_solve(*torch.linalg.lu_factor({_A}), p.mT, left=False)",
    f"torch.linalg.lu_solve(*torch.linalg.lu_factor({_A}), p, adjoint=True)",
    "torch.triangular_solve(q, p[:, :3], upper=True), torch.triangular_solve(q, p[:, :3], False, True)[0]",
    "torch.linalg.solve_triangular(p[:, :3], q, upper=False, unitriangular=True)",
    "torch.linalg.solve_triangular(p[:, :3], q.mT, upper=True, left=False)",
    f"torch.linalg.solve({_B}, p), torch.linalg.solve({_A}, row[:3]), torch.linalg.solve({_A}, p.mT, left=False)",
    f"torch.linalg.solve({_B}, x[:, :, 0])",
    "torch.linalg.lstsq(p.mT, row[:, None], driver='gelsd'), torch.linalg.lstsq(x.mT, y.mT), torch.linalg.lstsq(p, q)[0]",  # noqa: E501
    "torch.linalg.householder_product(*torch.geqrf(x.mT.detach())), torch.orgqr(u.mT / 3, row[:3] / 4)",
    "torch.geqrf(x.detach()), torch.ormqr(u.mT / 3, row[:3] / 4, p.mT), torch.ormqr(u.mT / 3, row[:3] / 4, p, False, True)",  # noqa: E501
    "torch.linalg.norm(p), torch.linalg.norm(row, 3), torch.linalg.norm(x, 'fro', dim=(0, 2)), torch.linalg.norm(p, 1)",
    "torch.linalg.norm(p, 'nuc'), torch.linalg.norm(p, 2), torch.linalg.norm(p, -inf, keepdim=True), torch.linalg.norm(x)",  # noqa: E501
    "torch.linalg.norm(f, dtype=torch.float64), torch.linalg.vector_norm(c), torch.linalg.vector_norm(i * 1.0, 0, dim=1)",  # noqa: E501
    "torch.linalg.vector_norm(x, inf, dim=(0, 1)), torch.linalg.vector_norm(x, 0.5), torch.linalg.vector_norm(s, 2, dim=0)",  # noqa: E501
    "torch.linalg.matrix_norm(x), torch.linalg.matrix_norm(x, -2), torch.linalg.matrix_norm(x, 1, dim=(0, 1), keepdim=True)",  # noqa: E501
    f"torch.linalg.cond({_A}), torch.linalg.cond({_A}, 1), torch.linalg.cond(x, -2), torch.linalg.cond({_A}, 'fro')",
    "torch.linalg.matrix_rank(torch.ones(3, 3)), torch.linalg.matrix_rank(x.detach(), atol=3.0, rtol=0.1)",
    f"torch.linalg.matrix_rank({_A}, hermitian=True), torch.linalg.matrix_rank(x.detach(), tol=2.5)",
    "torch.linalg.vecdot(x, y), torch.linalg.vecdot(z, z * 1j), torch.linalg.vecdot(x, y, dim=1)",
    "torch.linalg.diagonal(x), torch.linalg.diagonal(x, offset=1, dim1=0, dim2=1), torch.linalg.matmul(x, row)",
    "torch.linalg.tensorinv((x @ y.mT)[0].reshape(3, 3, 1), ind=1), torch.linalg.tensorsolve(p[:, :3], row[:3])",
    "torch.linalg.vander(row), torch.linalg.cross(x[..., :3], y[..., :3])",
    "torch.linalg.inv(torch.eye(2), out=torch.empty(2, 2)), torch.linalg.inv(torch.zeros(0, 0))",
]
RECORDED = recorded("linalg")


@pytest.mark.parametrize("text", CALLS)
def test_numbers_and_derivatives_are_pytorchs(text):
    check(text, RECORDED[text])


@pytest.mark.parametrize("text", [t for t in CALLS[::4] if "out=" not in t])
def test_compiled_calls_give_the_same(text):
    compiled(text, RECORDED[text])


def test_results_have_pytorchs_names():
    a = torch.eye(2)
    assert "torch.return_types.linalg_eigh(" in repr(torch.linalg.eigh(a))
    assert torch.linalg.svd(a)._fields == ("U", "S", "Vh")
    assert torch.svd(a)._fields == ("U", "S", "V")
    for found in (torch.linalg.eigh(a), torch.linalg.lu(a), torch.linalg.lstsq(a, a), torch.geqrf(a)):
        assert {type(part) for part in found} == {torch.Tensor}


def test_a_matrix_without_a_factor_is_said_where_asked_and_else_raised():
    good, bad = [[4.0, 0.0], [0.0, 1.0]], [[1.0, 2.0], [2.0, 1.0]]
    a = torch.tensor([good, bad])
    with pytest.raises(RuntimeError):
        torch.linalg.cholesky(a)
    with pytest.raises(torch.linalg.LinAlgError):
        torch.linalg.cholesky_ex(a, check_errors=True)
    found = torch.linalg.cholesky_ex(a)
    assert found.info.tolist() == [0, 2]
    assert found.L[0].tolist() == [[2.0, 0.0], [0.0, 1.0]]
    assert bool(found.L[1].isnan().all())
    singular = torch.tensor([[1.0, 2.0], [2.0, 4.0]])
    assert torch.linalg.inv_ex(singular).info.item() == 2
    assert torch.linalg.lu_factor_ex(singular).info.item() == 2
    for fails in (torch.linalg.inv, torch.linalg.lu_factor, lambda m: torch.linalg.solve(m, m)):
        with pytest.raises(RuntimeError):
            fails(singular)


def test_low_rank_factors_of_a_matrix_of_low_rank_are_exact():
    given = inputs(torch, grad=False)
    a = given["p"][:, :2] @ given["q"][:2]
    u, s, v = torch.svd_lowrank(a, q=2)
    np.testing.assert_allclose((u @ torch.diag(s) @ v.mT).numpy(), a.numpy(), atol=1e-12)
    u, s, v = torch.pca_lowrank(a.mT, q=2)
    np.testing.assert_allclose((u @ torch.diag(s) @ v.mT).numpy(), (a.mT - a.mT.mean(0)).numpy(), atol=1e-12)


def test_factorizations_are_mapped_over_examples():
    x = inputs(torch, grad=False)["x"]
    square = x @ x.mT + torch.eye(3, dtype=torch.float64)
    for fn in (
        torch.linalg.cholesky,
        torch.linalg.inv,
        torch.linalg.eigvalsh,
        lambda m: torch.linalg.lu(m).L,
        lambda m: torch.linalg.lu_factor(m).LU,
        lambda m: torch.linalg.pinv(m, rtol=1e-9),
    ):
        mapped = wg.vmap(fn)(square)
        np.testing.assert_allclose(mapped.numpy(), np.stack([fn(m).numpy() for m in square]), rtol=1e-10, atol=1e-12)


def test_what_is_not_there_is_refused():
    a = torch.eye(2)
    for refused in (
        lambda: torch.linalg.ldl_factor(a),
        lambda: torch.linalg.lu_factor(a, pivot=False),
        lambda: torch.linalg.lstsq(a, a, driver="best"),
        lambda: torch.linalg.norm(torch.ones(2, 2, 2), 2),
        lambda: torch.geqrf(a.requires_grad_()),
        lambda: torch.linalg.tensorsolve(a, torch.ones(3)),
    ):
        with pytest.raises((RuntimeError, ValueError)):
            refused()
