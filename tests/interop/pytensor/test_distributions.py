"""Densities and gradients of PyMC's distributions as nutpie gets them, beside PyTensor's own code."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native code needs llvmlite")
pytest.importorskip("nutpie", reason="nutpie is an extra")
pm: Any = pytest.importorskip("pymc", reason="pymc is an extra")

import pytensor
import pytensor.tensor as pt
from pymc.blocking import DictToArrayBijection, RaveledVars
from pytensor.compile.mode import Mode

from wengert.core.errors import DTypeError, GraphError
from wengert.interop import pymc as ours


def positive(name: str, shape: Any = ()) -> Any:
    return pm.HalfNormal(name, 1.0, shape=shape)


MODELS: dict[str, Callable[[], Any]] = {
    "normal": lambda: pm.Normal("x", pm.Normal("m"), positive("s"), shape=3),
    "beta": lambda: pm.Beta("x", positive("a"), positive("b"), shape=3),
    "beta_by_mean": lambda: pm.Beta("x", mu=pm.Beta("m", 2, 2), sigma=0.1),
    "kumaraswamy": lambda: pm.Kumaraswamy("x", positive("a"), positive("b"), shape=2),
    "exponential": lambda: pm.Exponential("x", positive("a"), shape=2),
    "laplace": lambda: pm.Laplace("x", pm.Normal("m"), positive("b"), shape=2),
    "asymmetric_laplace": lambda: pm.AsymmetricLaplace(
        "x", kappa=positive("k"), mu=pm.Normal("m"), b=positive("b"), shape=2
    ),
    "student_t": lambda: pm.StudentT("x", nu=positive("nu"), mu=pm.Normal("m"), sigma=positive("s"), shape=2),
    "skew_student_t": lambda: pm.SkewStudentT(
        "x", a=positive("a"), b=positive("b"), mu=pm.Normal("m"), sigma=positive("s"), shape=2
    ),
    "cauchy": lambda: pm.Cauchy("x", pm.Normal("m"), positive("b"), shape=2),
    "half_cauchy": lambda: pm.HalfCauchy("x", positive("b"), shape=2),
    "gamma": lambda: pm.Gamma("x", positive("a"), positive("b"), shape=2),
    "inverse_gamma": lambda: pm.InverseGamma("x", positive("a"), positive("b"), shape=2),
    "weibull": lambda: pm.Weibull("x", positive("a"), positive("b"), shape=2),
    "half_student_t": lambda: pm.HalfStudentT("x", nu=positive("a"), sigma=positive("b"), shape=2),
    "log_normal": lambda: pm.LogNormal("x", pm.Normal("m"), positive("b"), shape=2),
    "chi_squared": lambda: pm.ChiSquared("x", positive("a"), shape=2),
    "wald": lambda: pm.Wald("x", mu=positive("a"), lam=positive("b"), shape=2),
    "pareto": lambda: pm.Pareto("x", alpha=positive("a"), m=1.5, shape=2),
    "von_mises": lambda: pm.VonMises("x", pm.Normal("m"), positive("k"), shape=2),
    "triangular": lambda: pm.Triangular("x", 0, 2, 0.7, shape=2),
    "gumbel": lambda: pm.Gumbel("x", pm.Normal("m"), positive("b"), shape=2),
    "rice": lambda: pm.Rice("x", nu=positive("nu"), sigma=positive("s"), shape=2),
    "logistic": lambda: pm.Logistic("x", pm.Normal("m"), positive("s"), shape=2),
    "logit_normal": lambda: pm.LogitNormal("x", pm.Normal("m"), positive("s"), shape=2),
    "moyal": lambda: pm.Moyal("x", pm.Normal("m"), positive("s"), shape=2),
    "uniform": lambda: pm.Uniform("x", pm.Uniform("l", 0, 1), 3, shape=2),
    "truncated_normal": lambda: pm.TruncatedNormal("x", pm.Normal("m"), positive("s"), lower=-1, upper=2, shape=2),
    "truncated": lambda: pm.Truncated("x", pm.Logistic.dist(pm.Normal("m"), 1.0), lower=-1, upper=2, shape=2),
    "dirichlet": lambda: pm.Dirichlet("x", positive("a", 3)),
    "multivariate_normal": lambda: pm.MvNormal(
        "x", np.zeros(3), chol=pm.LKJCholeskyCov("c", n=3, eta=2, sd_dist=pm.Exponential.dist(1.0))[0]
    ),
    "multivariate_student_t": lambda: pm.MvStudentT(
        "x", nu=positive("nu"), mu=pm.Normal("m", shape=2), Sigma=np.array([[1, 0.3], [0.3, 2.0]])
    ),
    "stick_breaking_weights": lambda: pm.StickBreakingWeights("x", alpha=positive("a"), K=3),
    "zero_sum_normal": lambda: pm.ZeroSumNormal("x", sigma=positive("s"), shape=4),
    "random_walk": lambda: pm.GaussianRandomWalk(
        "x", mu=pm.Normal("m"), sigma=positive("s"), init_dist=pm.Normal.dist(0, 1), steps=4
    ),
    "multivariate_random_walk": lambda: pm.MvGaussianRandomWalk(
        "x", mu=np.zeros(2), chol=np.eye(2), init_dist=pm.MvNormal.dist(np.zeros(2), np.eye(2)), steps=3
    ),
    "autoregression": lambda: pm.AR(
        "x", rho=pm.Normal("r", shape=2), sigma=positive("s"), init_dist=pm.Normal.dist(0, 1), steps=4
    ),
    "garch": lambda: pm.GARCH11(
        "x", omega=positive("o"), alpha_1=pm.Beta("a1", 2, 5), beta_1=pm.Beta("b1", 2, 5), initial_vol=1.0, steps=4
    ),
    "euler_maruyama": lambda: pm.EulerMaruyama(
        "x",
        dt=0.1,
        sde_fn=lambda x, l: (l * x, 0.5),
        sde_pars=(pm.Normal("l"),),
        init_dist=pm.Normal.dist(0, 1),
        steps=4,
    ),
    "mixture": lambda: pm.NormalMixture(
        "x", pm.Dirichlet("w", np.ones(3)), pm.Normal("mu", shape=3), positive("s", 3), shape=4
    ),
    "mixture_of_betas": lambda: pm.Mixture(
        "x", pm.Dirichlet("w", np.ones(2)), [pm.Beta.dist(2.0, 3.0), pm.Beta.dist(positive("a"), 1.0)], shape=3
    ),
    "car": lambda: pm.CAR(
        "x", mu=np.zeros(3), W=np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]), alpha=0.5, tau=positive("t")
    ),
    "icar": lambda: pm.ICAR("x", W=np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])),
    "matrix_normal": lambda: pm.MatrixNormal(
        "x", mu=np.zeros((2, 2)), rowcov=np.eye(2), colcov=np.array([[1, 0.2], [0.2, 1.0]])
    ),
    "kronecker_normal": lambda: pm.KroneckerNormal(
        "x", mu=np.zeros(4), covs=[np.eye(2), np.array([[1, 0.2], [0.2, 1.0]])], sigma=0.1, shape=4
    ),
    "hilbert_space_process": lambda: pm.gp.HSGP(
        m=[4], c=1.5, cov_func=positive("eta") ** 2 * pm.gp.cov.Matern52(1, ls=pm.InverseGamma("ls", 5, 5))
    ).prior("x", X=np.linspace(0, 1, 8)[:, None]),
    "latent_process": lambda: pm.gp.Latent(
        cov_func=positive("eta") ** 2 * pm.gp.cov.Matern32(1, ls=pm.InverseGamma("ls", 5, 5))
    ).prior("x", X=np.linspace(0, 1, 6)[:, None]),
    "periodic_process": lambda: pm.gp.Latent(
        cov_func=positive("eta") ** 2 * pm.gp.cov.Periodic(1, period=1.3, ls=pm.InverseGamma("ls", 5, 5))
    ).prior("x", X=np.linspace(0, 1, 6)[:, None]),
    "rational_quadratic_process": lambda: pm.gp.Latent(
        cov_func=pm.gp.cov.RatQuad(1, alpha=positive("al"), ls=pm.InverseGamma("ls", 5, 5))
    ).prior("x", X=np.linspace(0, 1, 5)[:, None]),
    "poisson": lambda: pm.Poisson("y", positive("m"), observed=[1, 0, 3]),
    "negative_binomial": lambda: pm.NegativeBinomial("y", mu=positive("m"), alpha=positive("a"), observed=[1, 0, 3]),
    "binomial": lambda: pm.Binomial("y", n=5, p=pm.Beta("p", 2, 2), observed=[1, 0, 3]),
    "beta_binomial": lambda: pm.BetaBinomial("y", n=5, alpha=positive("a"), beta=positive("b"), observed=[1, 0, 3]),
    "zero_inflated_poisson": lambda: pm.ZeroInflatedPoisson(
        "y", psi=pm.Beta("p", 2, 2), mu=positive("m"), observed=[1, 0, 3]
    ),
    "zero_inflated_negative_binomial": lambda: pm.ZeroInflatedNegativeBinomial(
        "y", psi=pm.Beta("p", 2, 2), mu=positive("m"), alpha=positive("a"), observed=[1, 0, 3]
    ),
    "hurdle_gamma": lambda: pm.HurdleGamma(
        "y", psi=pm.Beta("p", 2, 2), alpha=positive("a"), beta=positive("b"), observed=[1.0, 0.0, 3.0]
    ),
    "geometric": lambda: pm.Geometric("y", p=pm.Beta("p", 2, 2), observed=[1, 2, 3]),
    "ordered_logistic": lambda: pm.OrderedLogistic(
        "y",
        eta=pm.Normal("e", shape=4),
        cutpoints=pm.Normal(
            "c", mu=[-1, 1], sigma=1, shape=2, transform=pm.distributions.transforms.ordered, initval=[-1, 1]
        ),
        observed=[0, 1, 2, 1],
    ),
    "ordered_probit": lambda: pm.OrderedProbit(
        "y",
        eta=pm.Normal("e", shape=4),
        cutpoints=pm.Normal(
            "c", mu=[-1, 1], sigma=1, shape=2, transform=pm.distributions.transforms.ordered, initval=[-1, 1]
        ),
        observed=[0, 1, 2, 1],
    ),
    "categorical": lambda: pm.Categorical("y", logit_p=pm.Normal("l", shape=(4, 3)), observed=[0, 1, 2, 1]),
    "multinomial": lambda: pm.Multinomial("y", n=6, p=pm.Dirichlet("p", np.ones(3)), observed=[1, 2, 3]),
    "dirichlet_multinomial": lambda: pm.DirichletMultinomial("y", n=6, a=positive("a", 3), observed=[1, 2, 3]),
    "bernoulli_probit": lambda: pm.Bernoulli("y", p=pm.math.invprobit(pm.Normal("e", shape=3)), observed=[0, 1, 1]),
    "discrete_weibull": lambda: pm.DiscreteWeibull("y", q=pm.Beta("q", 2, 2), beta=positive("b"), observed=[0, 1, 3]),
    "censored_normal": lambda: pm.Censored(
        "y", pm.Normal.dist(pm.Normal("m"), positive("s")), lower=-1, upper=1, observed=[-1, 0.3, 1]
    ),
    "censored_log_normal": lambda: pm.Censored(
        "y", pm.LogNormal.dist(pm.Normal("m"), positive("s")), lower=None, upper=2, observed=[0.3, 2]
    ),
    "potential": lambda: pm.Potential(
        "p", -pt.sum(pt.abs(pm.Normal("x", shape=3)) ** 1.5) + pt.logsumexp(pm.Flat("z", shape=3))
    ),
    "softmax": lambda: pm.Potential("p", pt.log(pt.special.softmax(pm.Normal("x", shape=3)))[0]),
}
# One of each kind runs always, all of them with the slow tests.
FEW = ("skew_student_t", "logit_normal", "truncated", "dirichlet", "multivariate_normal", "garch", "mixture_of_betas")
FEW = (*FEW, "matrix_normal", "hilbert_space_process", "zero_inflated_poisson", "ordered_logistic", "censored_normal")


def compared(model: Any, spread: tuple[float, ...] = (0.0, 0.1, 0.4, 0.8, 1.5)) -> int:
    """Compare log density and gradient at some points, and return at how many of them both were finite."""
    made = ours.compile(model)
    theirs = model.logp_dlogp_function(ravel_inputs=True, mode=Mode("py", "fast_compile"))
    theirs.set_extra_values({})
    start, rng, count = DictToArrayBijection.map(model.initial_point()), np.random.default_rng(0), 0
    number = ctypes.POINTER(ctypes.c_double)
    for far in spread:
        x = np.ascontiguousarray(start.data + far * rng.normal(size=start.data.shape))
        with np.errstate(all="ignore"):
            value, gradient = theirs(RaveledVars(x, start.point_map_info))
        slope, found = np.empty_like(x), np.empty(())
        status = made.compiled_logp_func.ctypes()(x.size, *(a.ctypes.data_as(number) for a in (x, slope, found)), None)
        finite = np.isfinite(value) and np.isfinite(gradient).all()
        assert (status == 0) == finite
        if finite:
            np.testing.assert_allclose(found, value, rtol=1e-11, atol=1e-11)
            np.testing.assert_allclose(slope, gradient, rtol=1e-10, atol=1e-10)
            count += 1
    return count


@pytest.mark.filterwarnings("ignore")  # those of PyMC and PyTensor
@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in FEW else pytest.mark.slow) for n in MODELS])
def test_gradients_of_distributions(name: str) -> None:
    with pm.Model() as model:
        MODELS[name]()
    assert compared(model) >= 1


def _own_grad(x: Any) -> Any:
    from pytensor.graph.basic import Apply
    from pytensor.graph.op import Op

    from wengert.interop.pytensor import funcify

    class Own(Op):  # type: ignore[misc]
        """The identity, with a gradient that is its author's."""

        __props__ = ()

        def make_node(self, x: Any) -> Any:
            return Apply(self, [x], [x.type()])

        def perform(self, node: Any, inputs: Any, outputs: Any) -> None:
            outputs[0][0] = inputs[0]

        def grad(self, inputs: Any, gradients: Any) -> Any:
            return [3.0 * gradients[0]]

    funcify.register(Own)(lambda op, node, walk: lambda x: x)
    return Own()(x)


@pytest.mark.parametrize(
    ("through", "slope"),
    [
        pytest.param(pytensor.gradient.zero_grad, 0.0, id="zero_grad"),
        pytest.param(pytensor.gradient.disconnected_grad, 0.0, id="disconnected_grad"),
        pytest.param(lambda x: pytensor.gradient.grad_clip(x, -0.5, 0.5), 0.5, id="grad_clip"),
        pytest.param(lambda x: pytensor.gradient.grad_scale(x, -2.0), -2.0, id="grad_scale"),
        pytest.param(_own_grad, 3.0, id="an op's own"),
    ],
)
@pytest.mark.parametrize("is_inside", [False, True], ids=["outside", "inside"])
def test_gradients_that_are_not_the_derivative(through: Any, slope: float, is_inside: bool) -> None:
    """What a user says of gradients holds, in a graph that is an op as well."""
    if is_inside:
        from pytensor.compile.builders import OpFromGraph

        inner = pt.dscalar("inner")
        op = OpFromGraph([inner], [through(inner) * 1.0])
    with pm.Model() as model:
        x = pm.Flat("x")
        pm.Potential("p", (op if is_inside else through)(x))
    made = ours.compile(model)
    at, gradient, value = np.array([1.5]), np.empty(1), np.empty(())
    number = ctypes.POINTER(ctypes.c_double)
    pointers = (a.ctypes.data_as(number) for a in (at, gradient, value))
    assert made.compiled_logp_func.ctypes()(1, *pointers, None) == 0
    assert (float(value), float(gradient[0])) == (1.5, slope)


def test_what_is_no_model() -> None:
    with pm.Model() as model:
        pm.Poisson("y", 2.0, observed=[1, 2])
    with pm.Model() as discrete:
        pm.Poisson("k", pm.HalfNormal("rate"))
    with pytest.raises(GraphError, match=r"(?s)a PyMC model with the variable k of int64.*test_distributions.py"):
        ours.compile(discrete)
    with pytest.raises(DTypeError, match=r"(?s)compile of a str, which is no PyMC model.*test_distributions.py"):
        ours.compile("model")
    with pytest.raises(GraphError, match=r"(?s)a PyMC model without free variables.*test_distributions.py"):
        ours.compile(model)
