"""`wengert.torch.special`, against values recorded from PyTorch 2.13 and those of SciPy."""

import numpy as np
import pytest
import scipy.special

import wengert as wg
import wengert.torch as torch
from torch_calls import recorded
from torch_comparing import check

_OF_ONE = (
    "digamma psi entr erf erfc erfcx exp2 expit expm1 gammaln i0 i0e i1 i1e log1p log_ndtr ndtr sinc "
    "modified_bessel_i0 modified_bessel_i1 modified_bessel_k0 scaled_modified_bessel_k1 spherical_bessel_j0"
)
_POLYNOMIALS = (
    "chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w hermite_polynomial_h "
    "hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p shifted_chebyshev_polynomial_t "
    "shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w"
)
_NOT_DIFFERENTIABLE = ("bessel", *_POLYNOMIALS.split())
CALLS = [
    *(f"torch.special.{name}({'p.detach()' if 'bessel' in name else 'p'})" for name in _OF_ONE.split()),
    *(f"torch.special.{name}(u)" for name in ("ndtri", "erfinv", "logit")),
    *(f"torch.special.{name}(u.detach(), {n})" for name in _POLYNOMIALS.split() for n in (0, 1, 4)),
    "torch.special.hermite_polynomial_h(u.detach(), j)",
    "torch.special.gammainc(p.detach(), q)",
    "torch.special.gammaincc(p.detach(), q)",
    "torch.special.xlog1py(p, q)",
    "torch.special.xlogy(p, q)",
    "torch.special.zeta(p.detach() + 1, q.detach())",
    "torch.special.polygamma(2, p)",
    "torch.special.multigammaln(p + 2, 2)",
    "torch.special.logsumexp(x, 1)",
    "torch.special.softmax(x, 1)",
    "torch.special.log_softmax(x, 0)",
    "torch.special.round(x, decimals=1)",
]
RECORDED = recorded("special")


@pytest.mark.parametrize("text", CALLS)
def test_numbers_and_derivatives_are_pytorchs(text):
    check(text, RECORDED[text])


@pytest.mark.parametrize(
    ("name", "reference"),
    [
        ("bessel_j0", scipy.special.j0),
        ("bessel_j1", scipy.special.j1),
        ("bessel_y0", scipy.special.y0),
        ("bessel_y1", scipy.special.y1),
        ("airy_ai", lambda x: scipy.special.airy(x)[0]),
        ("erfcx", scipy.special.erfcx),
        ("scaled_modified_bessel_k0", scipy.special.k0e),
        ("scaled_modified_bessel_k1", scipy.special.k1e),
    ],
)
def test_functions_agree_with_scipys(name, reference):
    """PyTorch's own Bessel functions are right to six digits only."""
    x = np.concatenate([np.linspace(0.01, 60.0, 300), [1e-8, 300.0, 1e4]])
    if name in ("airy_ai", "bessel_j0", "bessel_j1"):
        x = np.concatenate([x[:300], -x[:300]])
    found = getattr(torch.special, name)(torch.tensor(x)).numpy()
    np.testing.assert_allclose(found, reference(x), rtol=1e-11, atol=1e-12)


def test_bessel_functions_have_derivatives():
    x = torch.tensor([0.5, 3.0, 40.0], dtype=torch.float64, requires_grad=True)
    (slope,) = wg.autograd.grad(torch.special.bessel_j0(x).sum(), [x])
    np.testing.assert_allclose(slope.numpy(), -scipy.special.j1(x.detach().numpy()), rtol=1e-11)
    (slope,) = wg.autograd.grad(torch.special.modified_bessel_k0(x).sum(), [x])
    np.testing.assert_allclose(slope.numpy(), -scipy.special.k1(x.detach().numpy()), rtol=1e-11)


def test_edges():
    x = torch.tensor([0.0, -1.0, float("nan")])
    assert [str(v) for v in torch.special.bessel_y0(x).tolist()] == ["-inf", "nan", "nan"]
    assert [str(v) for v in torch.special.modified_bessel_k1(x).tolist()] == ["inf", "nan", "nan"]
    assert torch.special.erfcx(torch.tensor(float("inf"))).item() == 0.0
    assert torch.special.hermite_polynomial_h(torch.tensor([0.5]), -1).item() == 0.0
    with pytest.raises(AttributeError):
        _ = torch.special.nothing
