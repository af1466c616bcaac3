"""Distributions against SciPy; draws by moments and Kolmogorov-Smirnov; pathwise gradients against quantiles."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from scipy import stats

import wengert as wg

d = wg.distributions
KEY = wg.random.key(11)


def f64(*x):
    return wg.tensor(np.asarray(x, float))


# name: (Wengert's, SciPy's, parameters as a list, values inside and outside the support)
REAL = [-3.0, -0.5, 0.0, 0.2, 1.0, 2.5, 7.0]
UNIT = [-0.1, 0.0, 0.05, 0.5, 0.9, 1.0, 1.2]
COUNTS = [-1.0, 0.0, 1.0, 2.0, 3.5, 4.0, 12.0, 40.0]
CONTINUOUS = {
    "Normal": (d.Normal, lambda a, b: stats.norm(a, b), [(0.3, 1.2), (-2.0, 0.1)], REAL),
    "LogNormal": (d.LogNormal, lambda a, b: stats.lognorm(b, scale=np.exp(a)), [(0.3, 0.7), (-1.0, 0.2)], REAL),
    "HalfNormal": (d.HalfNormal, lambda b: stats.halfnorm(scale=b), [(1.2,), (0.3,)], REAL),
    "Uniform": (
        d.Uniform,
        lambda a, b: stats.uniform(a, b - a),
        [(-0.5, 2.0), (0.0, 0.3)],
        [-3.0, -0.2, 0.1, 0.2, 7.0],
    ),
    "Exponential": (d.Exponential, lambda r: stats.expon(scale=1 / r), [(0.4,), (3.0,)], REAL),
    "Laplace": (d.Laplace, stats.laplace, [(0.3, 1.2), (-2.0, 0.1)], REAL),
    "Cauchy": (d.Cauchy, stats.cauchy, [(0.3, 1.2), (-2.0, 0.1)], [*REAL, -1e9]),
    "StudentT": (d.StudentT, stats.t, [(0.7, 0.0, 1.0), (2.5, 0.3, 2.0), (30.0, -1.0, 0.5)], [*REAL, -1e5]),
    "Logistic": (d.Logistic, stats.logistic, [(0.3, 1.2), (-2.0, 0.1)], REAL),
    "Gumbel": (d.Gumbel, stats.gumbel_r, [(0.3, 1.2), (-2.0, 0.5)], REAL),
    "Weibull": (d.Weibull, lambda s, k: stats.weibull_min(k, scale=s), [(1.5, 0.7), (0.5, 3.0)], [-1.0, 0.2, 1.0, 2.5]),
    "Gamma": (
        d.Gamma,
        lambda a, r: stats.gamma(a, scale=1 / r),
        [(0.3, 2.0), (1.0, 1.0), (7.5, 3.0)],
        [-1.0, 0.1, 1.0, 4.0],
    ),
    "Chi2": (d.Chi2, stats.chi2, [(0.5,), (4.0,)], [-1.0, 0.1, 1.0, 4.0]),
    "Beta": (d.Beta, stats.beta, [(0.5, 0.7), (2.0, 5.0), (30.0, 40.0)], [-0.1, 0.05, 0.5, 0.9, 1.2]),
}
DISCRETE = {
    "Bernoulli": (d.Bernoulli, stats.bernoulli, [(0.3,), (0.9,), (0.0,), (1.0,)], [-1.0, 0.0, 0.5, 1.0, 2.0]),
    "Binomial": (d.Binomial, stats.binom, [(5, 0.3), (100, 0.8), (3, 0.0), (3, 1.0)], COUNTS),
    "Geometric": (d.Geometric, lambda p: stats.geom(p, -1), [(0.3,), (0.9,)], COUNTS),
    "Poisson": (d.Poisson, stats.poisson, [(0.4,), (3.0,), (25.0,)], COUNTS),
}
ALL = {**CONTINUOUS, **DISCRETE}
CASES = [(n, p) for n, (_, _, parameters, _) in ALL.items() for p in parameters]


def made(name: str, parameters):
    ours, theirs, _, values = ALL[name]
    return ours(*(wg.tensor(float(p), dtype=wg.float64) for p in parameters)), theirs(*parameters), values


@pytest.mark.parametrize(("name", "parameters"), CASES)
def test_against_scipy(name: str, parameters) -> None:
    ours, theirs, values = made(name, parameters)
    x = f64(*values)
    log_density = theirs.logpdf if name in CONTINUOUS else theirs.logpmf
    np.testing.assert_allclose(ours.log_prob(x).numpy(), log_density(values), rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(ours.cdf(x).numpy(), theirs.cdf(values), rtol=1e-11, atol=1e-15)
    assert np.isnan(ours.log_prob(float("nan")).numpy())
    if name == "Cauchy" or (name == "StudentT" and parameters[0] <= 1):
        assert np.isnan(ours.mean.numpy())
        assert np.isnan(ours.variance.numpy())
    else:
        np.testing.assert_allclose(ours.variance.numpy(), theirs.var(), rtol=1e-12)
        np.testing.assert_allclose(ours.mean.numpy(), theirs.mean(), rtol=1e-12)
    if name != "Poisson":
        np.testing.assert_allclose(ours.entropy().numpy(), theirs.entropy(), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize(("name", "parameters"), [c for c in CASES if c[0] in CONTINUOUS])
def test_quantiles(name: str, parameters) -> None:
    ours, theirs, _ = made(name, parameters)
    if type(ours).icdf is d.Distribution.icdf:
        with pytest.raises(wg.GraphError, match="closed form"):
            ours.icdf(0.5)
        return
    p = [0.001, 0.2, 0.5, 0.77, 0.9999]
    np.testing.assert_allclose(ours.icdf(f64(*p)).numpy(), theirs.ppf(p), rtol=1e-11, atol=1e-13)
    assert np.isnan(ours.icdf(f64(-0.1, 1.1)).numpy()).all()


@pytest.mark.parametrize(("name", "parameters"), CASES)
def test_draws_follow_the_distribution(name: str, parameters) -> None:
    ours, theirs, _ = made(name, parameters)
    x = ours.sample((20_000,), key=KEY).numpy()
    assert np.isfinite(x).all()
    # With a fixed key these cannot fail by chance; a wrong distribution has a p-value of nearly 0.
    if name in CONTINUOUS:
        assert stats.kstest(x, theirs.cdf).pvalue > 1e-3
        return
    edges = np.unique(theirs.ppf([0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98]))
    expected = np.diff(np.concatenate([[0.0], theirs.cdf(edges), [1.0]])) * x.size
    counts = np.histogram(x, [-np.inf, *(edges + 0.5), np.inf])[0]
    assert counts[expected == 0].sum() == 0
    kept = expected > 1e-9
    if kept.sum() > 1:
        assert stats.chisquare(counts[kept], expected[kept] * counts.sum() / expected[kept].sum()).pvalue > 1e-3


PATHWISE = {
    "Gamma": [(0.05, 1.5), (0.8, 2.0), (3.0, 0.5), (60.0, 1.0), (5e3, 1.0)],
    "Normal": [(0.3, 1.2)],
    "LogNormal": [(0.3, 0.7)],
    "HalfNormal": [(1.2,)],
    "Uniform": [(-0.5, 2.0)],
    "Exponential": [(0.4,)],
    "Laplace": [(0.3, 1.2)],
    "Cauchy": [(0.3, 1.2)],
    "Logistic": [(0.3, 1.2)],
    "Gumbel": [(0.3, 1.2)],
    "Weibull": [(1.5, 0.7)],
    "Chi2": [(3.0,)],
}


@pytest.mark.parametrize(("name", "parameters"), [(n, p) for n, ps in PATHWISE.items() for p in ps])
def test_pathwise_gradients_are_those_of_the_quantile_function(name: str, parameters) -> None:
    """At a fixed level u = F(x), dx/dtheta by differences of SciPy's quantile function."""
    theirs = ALL[name][1]
    leaves = [wg.full((40,), float(p), dtype=wg.float64).requires_grad_() for p in parameters]
    x = ALL[name][0](*leaves).rsample(key=KEY)
    grads = wg.autograd.grad(x.sum(), leaves)
    at = x.detach().numpy()
    upper = theirs(*parameters).cdf(at) > 0.5
    for i, g in enumerate(grads):
        step = 1e-4 * abs(parameters[i])

        def quantile(shift, i=i):
            moved = list(parameters)
            moved[i] += shift
            frozen = theirs(*moved)
            here = theirs(*parameters)
            return np.where(upper, frozen.isf(here.sf(at)), frozen.ppf(here.cdf(at)))

        slope = (8 * (quantile(step) - quantile(-step)) - (quantile(2 * step) - quantile(-2 * step))) / (12 * step)
        kept = at > 1e-290 if name in ("Gamma", "Chi2") else np.ones(40, bool)
        np.testing.assert_allclose(g.numpy()[kept], slope[kept], rtol=2e-6, atol=1e-9)


@pytest.mark.parametrize("a", [0.3, 2.0, 40.0])
def test_second_derivatives_of_gamma_draws(a: float) -> None:
    """d2x/da2 at a fixed level, by differences of first derivatives along the quantile curve."""
    leaf = wg.full((20,), a, dtype=wg.float64).requires_grad_()
    x = d.Gamma(leaf, 1.0).rsample(key=KEY)
    (first,) = wg.autograd.grad(x.sum(), [leaf], create_graph=True)
    (second,) = wg.autograd.grad(first.sum(), [leaf])
    at, step = x.detach().numpy(), 1e-3 * a

    def quantile(shift):
        here, moved = stats.gamma(a), stats.gamma(a + shift)
        return np.where(here.cdf(at) > 0.5, moved.isf(here.sf(at)), moved.ppf(here.cdf(at)))

    slope = (quantile(step) - 2 * at + quantile(-step)) / step**2
    np.testing.assert_allclose(second.numpy(), slope, rtol=1e-3, atol=1e-5)


def test_expectations_have_the_closed_form_gradients() -> None:
    n = 40_000
    a, b = f64(1.3).requires_grad_(), f64(2.7).requires_grad_()
    x = d.Beta(a, b).rsample((n,), key=KEY)
    da, db = wg.autograd.grad(x.mean(), [a, b])
    np.testing.assert_allclose([float(da), float(db)], [2.7 / 4.0**2, -1.3 / 4.0**2], atol=0.006)
    c = f64(0.4, 1.5, 3.0).requires_grad_()
    w = d.Dirichlet(c).rsample((n,), key=KEY)
    (dc,) = wg.autograd.grad(w[:, 0].mean(), [c])
    np.testing.assert_allclose(dc.numpy(), [4.5 / 4.9**2, -0.4 / 4.9**2, -0.4 / 4.9**2], atol=0.006)
    df = f64(6.0).requires_grad_()
    t = d.StudentT(df).rsample((n,), key=KEY)
    (ddf,) = wg.autograd.grad((t * t).mean(), [df])  # df / (df - 2)
    np.testing.assert_allclose(float(ddf), -2 / 16, atol=0.04)


def test_small_concentrations_stay_finite() -> None:
    a = wg.full((5000,), 0.002, requires_grad=True)
    w = d.Dirichlet(wg.stack([a, a, a], axis=-1)).rsample(key=KEY)
    assert bool(wg.isfinite(w).all())
    np.testing.assert_allclose(w.sum(-1).detach().numpy(), 1, rtol=1e-5)
    (g,) = wg.autograd.grad((w[:, 0] ** 2).sum(), [a])
    assert bool(wg.isfinite(g).all())


def test_dirichlet_against_scipy() -> None:
    a = np.array([0.5, 2.0, 3.5])
    p, q = d.Dirichlet(f64(*a)), stats.dirichlet(a)
    x = q.rvs(5, random_state=0)
    np.testing.assert_allclose(p.log_prob(wg.tensor(x)).numpy(), [q.logpdf(v) for v in x], rtol=1e-11)
    np.testing.assert_allclose(p.entropy().numpy(), q.entropy(), rtol=1e-12)
    np.testing.assert_allclose(p.mean.numpy(), q.mean(), rtol=1e-13)
    np.testing.assert_allclose(p.variance.numpy(), q.var(), rtol=1e-13)
    assert p.log_prob(f64(0.5, 0.4, 0.3)).item() == p.log_prob(f64(1.2, -0.1, -0.1)).item() == -math.inf
    draws = p.sample((20_000,), key=KEY).numpy()
    for i in range(3):
        assert stats.kstest(draws[:, i], stats.beta(a[i], a.sum() - a[i]).cdf).pvalue > 1e-3


def test_multivariate_normal_against_scipy() -> None:
    rng = np.random.default_rng(0)
    root = rng.normal(size=(3, 3))
    cov, loc = root @ root.T + np.eye(3), rng.normal(size=3)
    p, q = d.MultivariateNormal(wg.tensor(loc), wg.tensor(cov)), stats.multivariate_normal(loc, cov)
    x = rng.normal(size=(4, 3))
    np.testing.assert_allclose(p.log_prob(wg.tensor(x)).numpy(), q.logpdf(x), rtol=1e-12)
    np.testing.assert_allclose(p.entropy().numpy(), q.entropy(), rtol=1e-13)
    np.testing.assert_allclose(p.covariance_matrix.numpy(), cov, rtol=1e-13)
    np.testing.assert_allclose(p.variance.numpy(), np.diag(cov), rtol=1e-13)
    draws = p.sample((50_000,), key=KEY).numpy()
    np.testing.assert_allclose(np.cov(draws.T), cov, atol=0.1)
    np.testing.assert_allclose(draws.mean(0), loc, atol=0.05)
    tril = wg.tensor(np.linalg.cholesky(cov))
    wg.check_grads(
        lambda m, s, v: d.MultivariateNormal(m, scale_tril=wg.tril(s)).log_prob(v),
        (wg.tensor(loc), tril, wg.tensor(x)),
        order=1,
    )


@pytest.mark.parametrize("name", [n for n in ALL if n not in ("Uniform",)])
def test_log_prob_differentiates(name: str) -> None:
    ours, _, parameters, values = ALL[name]
    inner = [v for v in values if math.isfinite(made(name, parameters[0])[0].log_prob(v).item()) and v != 0]
    x = f64(*inner)
    free = [wg.tensor(float(p), dtype=wg.float64) for p in parameters[0]]
    if name == "Binomial":
        wg.check_grads(lambda p: d.Binomial(5.0, p).log_prob(x), (free[1],), order=2)
    else:
        wg.check_grads(lambda *p: ours(*p).log_prob(x), tuple(free), order=2)
    # Outside the support nothing flows, and nothing is NaN.
    leaves = [p.requires_grad_() for p in free]
    for g in wg.autograd.grad(ours(*leaves).log_prob(f64(*values)).sum(), leaves, allow_unused=True):
        assert g is None or bool(wg.isfinite(g).all())


# -- discrete


def test_categorical() -> None:
    probs = np.array([[0.1, 0.2, 0.7, 0.0], [0.25, 0.25, 0.25, 0.25]])
    for p in (d.Categorical(probs=wg.tensor(3 * probs)), d.Categorical(logits=wg.tensor(np.log(probs + 1e-300)) + 5.0)):
        np.testing.assert_allclose(p.log_prob(wg.tensor([2, 0])).numpy(), np.log([0.7, 0.25]), rtol=1e-13)
        np.testing.assert_allclose(p.entropy().numpy(), [stats.entropy(v) for v in probs], rtol=1e-12)
        assert p.log_prob(wg.tensor([[0, 1], [2, 2], [1, 0]])).shape == (3, 2)
        draws = p.sample((20_000,), key=KEY).numpy()
        assert draws.shape == (20_000, 2)
        assert stats.chisquare(np.bincount(draws[:, 0])[:3], 20_000 * probs[0, :3]).pvalue > 1e-3
    total = wg.exp(p.log_prob(p.enumerate_support())).sum(0)
    np.testing.assert_allclose(total.numpy(), 1, rtol=1e-13)
    with pytest.raises(wg.DTypeError, match="integers"):
        p.log_prob(0.5)


def test_one_hot_categorical() -> None:
    probs = f64(0.2, 0.3, 0.5)
    p = d.OneHotCategorical(probs=probs)
    x = p.sample((7, 2), key=KEY)
    assert x.shape == (7, 2, 3)
    assert (x.sum(-1) == 1.0).all()
    np.testing.assert_allclose(p.log_prob(x).numpy(), np.log(probs.numpy())[x.numpy().argmax(-1)], rtol=1e-14)
    assert p.log_prob(f64(0.5, 0.5, 0.0)).item() == -math.inf
    logits = f64(0.1, 0.2, 0.3).requires_grad_()
    q = d.OneHotCategoricalStraightThrough(logits=logits)
    y = q.rsample(key=KEY)
    assert set(y.tolist()) <= {0.0, 1.0}
    weights = f64(1.0, 2.0, 4.0)
    (g,) = wg.autograd.grad((y * weights).sum(), [logits])
    np.testing.assert_allclose(g.numpy(), wg.grad(lambda z: (wg.softmax(z) * weights).sum())(logits.detach()).numpy())


def test_logits_and_probs_agree_and_extremes_are_finite() -> None:
    x = f64(0.0, 1.0)
    np.testing.assert_allclose(
        d.Bernoulli(logits=f64(2.0)).log_prob(x).numpy(),
        d.Bernoulli(1 / (1 + np.exp(-2.0))).log_prob(x).numpy(),
        rtol=1e-6,
    )
    np.testing.assert_allclose(d.Bernoulli(logits=f64(800.0)).log_prob(x).numpy(), [-800.0, 0.0])
    np.testing.assert_allclose(d.Binomial(3, logits=f64(-800.0)).log_prob(3.0).numpy(), [-2400.0])


def test_relaxed_distributions() -> None:
    # At a low temperature draws sit at the corners, with the probabilities of the discrete distribution.
    probs = f64(0.2, 0.3, 0.5)
    soft = d.RelaxedOneHotCategorical(0.02, probs=probs).rsample((20_000,), key=KEY).numpy()
    assert stats.chisquare(np.bincount(soft.argmax(-1)), 20_000 * probs.numpy()).pvalue > 1e-3
    assert np.median(soft.max(-1)) > 0.999
    for temperature in (0.4, 1.5):
        q = d.RelaxedBernoulli(f64(temperature), probs=0.3)
        grid = np.linspace(0, 1, 200_001)[1:-1]
        assert abs(np.exp(q.log_prob(wg.tensor(grid)).numpy()).mean() - 1) < 5e-3 or temperature < 1
        draws = q.sample((20_000,), key=KEY).numpy().ravel()
        # sigmoid((logit + logistic) / t) <= x where logistic <= t logit(x) - logit
        cdf = lambda x, t=temperature: stats.logistic.cdf(t * np.log(x / (1 - x)) - np.log(0.3 / 0.7))
        assert stats.kstest(draws, cdf).pvalue > 1e-3
        x, h = 0.37, 1e-5
        slope = (cdf(x + h) - cdf(x - h)) / (2 * h)
        np.testing.assert_allclose(np.exp(q.log_prob(x).numpy()), slope, rtol=1e-6)
    # The density over two classes is the binary one.
    two = d.RelaxedOneHotCategorical(f64(0.7).reshape(()), probs=f64(0.3, 0.7))
    one = d.RelaxedBernoulli(f64(0.7).reshape(()), probs=0.3)
    np.testing.assert_allclose(two.log_prob(f64(0.4, 0.6)).item(), one.log_prob(0.4).item(), rtol=1e-6)


@pytest.mark.parametrize("straight_through", [False, True])
def test_relaxed_draws_carry_gradients(straight_through: bool) -> None:
    logits = f64(0.1, 0.2, 0.3).requires_grad_()
    y = d.RelaxedOneHotCategorical(0.7, logits=logits, straight_through=straight_through).rsample(key=KEY)
    assert (set(y.tolist()) <= {0.0, 1.0}) is straight_through
    (g,) = wg.autograd.grad((y * f64(1.0, 2.0, 4.0)).sum(), [logits])
    soft = d.RelaxedOneHotCategorical(0.7, logits=logits).rsample(key=KEY)
    (expected,) = wg.autograd.grad((soft * f64(1.0, 2.0, 4.0)).sum(), [logits])
    np.testing.assert_allclose(g.numpy(), expected.numpy(), rtol=1e-14)
    z = d.RelaxedBernoulli(0.5, logits=logits, straight_through=straight_through).rsample((2,), key=KEY)
    assert (set(z.detach().numpy().ravel()) <= {0.0, 1.0}) is straight_through
    assert wg.autograd.grad(z.sum(), [logits])[0].abs().min() > 0


# -- compositions


def test_independent() -> None:
    base = d.Normal(wg.zeros((4, 3), dtype=wg.float64), f64(1.0, 2.0, 3.0))
    p = d.Independent(base, 1)
    assert (p.batch_shape, p.event_shape) == ((4,), (3,))
    x = p.rsample((5,), key=KEY)
    assert x.shape == (5, 4, 3)
    np.testing.assert_allclose(p.log_prob(x).numpy(), base.log_prob(x).numpy().sum(-1))
    np.testing.assert_allclose(p.entropy().numpy(), base.entropy().numpy().sum(-1))
    with pytest.raises(wg.ShapeError, match="Independent"):
        d.Independent(base, 3)


@pytest.mark.parametrize(
    ("transforms", "theirs"),
    [
        ([d.ExpTransform()], stats.lognorm(0.7, scale=np.exp(0.3))),
        ([d.AffineTransform(1.0, -2.0)], stats.norm(0.4, 1.4)),
        ([d.AffineTransform(0.5, -1.0), d.ExpTransform()], stats.lognorm(0.7, scale=np.exp(0.2))),
        ([d.ExpTransform(), d.PowerTransform(-2.0)], stats.lognorm(1.4, scale=np.exp(-0.6))),
    ],
)
def test_transformed(transforms, theirs) -> None:
    p = d.TransformedDistribution(d.Normal(f64(0.3), f64(0.7)), transforms)
    x = [-1.0, 0.1, 0.9, 3.0]
    np.testing.assert_allclose(p.log_prob(f64(*x)).numpy(), theirs.logpdf(x), rtol=1e-12)
    np.testing.assert_allclose(p.cdf(f64(*x)).numpy(), theirs.cdf(x), rtol=1e-12)
    assert stats.kstest(p.sample((20_000,), key=KEY).numpy().ravel(), theirs.cdf).pvalue > 1e-3


def test_a_falling_transform_of_a_bounded_one() -> None:
    p = d.TransformedDistribution(d.Normal(f64(0.3), f64(0.7)), [d.ExpTransform(), d.AffineTransform(0.0, -1.0)])
    theirs = stats.lognorm(0.7, scale=np.exp(0.3))
    x = np.array([-2.0, -0.5, 1.0])
    np.testing.assert_allclose(p.cdf(wg.tensor(x)).numpy(), theirs.sf(-x), rtol=1e-12)
    np.testing.assert_allclose(p.log_prob(wg.tensor(x)).numpy(), theirs.logpdf(-x), rtol=1e-12)


@pytest.mark.parametrize("transform", [d.SigmoidTransform(), d.TanhTransform(), d.SoftplusTransform()])
def test_bounded_transforms_integrate_to_one(transform) -> None:
    p = d.TransformedDistribution(d.Normal(f64(0.2), f64(0.6)), transform)
    grid = np.linspace(-1, 6, 400_001)
    density = np.exp(p.log_prob(wg.tensor(grid)).numpy())
    np.testing.assert_allclose(density.sum() * (grid[1] - grid[0]), 1, rtol=1e-4)
    x = p.sample((5,), key=KEY)
    np.testing.assert_allclose(transform(transform.inv(x)).numpy(), x.numpy(), rtol=1e-12)
    np.testing.assert_allclose(p.cdf(wg.tensor([-2.0, 7.0])).numpy(), [0, 1])


PAIRS = [
    (d.Normal(f64(0.3), 1.2), d.Normal(f64(-1.0), 0.8)),
    (d.LogNormal(f64(0.3), 1.2), d.LogNormal(f64(-1.0), 0.8)),
    (d.HalfNormal(f64(1.2)), d.HalfNormal(f64(0.7))),
    (d.Uniform(f64(0.1), 0.7), d.Uniform(f64(0.0), 1.5)),
    (d.Exponential(f64(0.4)), d.Exponential(f64(2.0))),
    (d.Laplace(f64(0.3), 1.2), d.Laplace(f64(-1.0), 0.8)),
    (d.Cauchy(f64(0.3), 1.2), d.Cauchy(f64(-1.0), 0.8)),
    (d.Gumbel(f64(0.3), 1.2), d.Gumbel(f64(-1.0), 1.8)),
    (d.Weibull(f64(1.5), 1.7), d.Weibull(f64(0.9), 1.3)),
    (d.Gamma(f64(2.3), 1.2), d.Gamma(f64(1.1), 0.5)),
    (d.Exponential(f64(1.3)), d.Gamma(f64(1.1), 0.5)),
    (d.Gamma(f64(2.3), 1.2), d.Exponential(f64(0.5))),
    (d.Beta(f64(2.3), 1.2), d.Beta(f64(1.1), 1.5)),
    (d.Dirichlet(f64(2.3, 1.2, 3.0)), d.Dirichlet(f64(1.1, 1.5, 1.0))),
    (d.Bernoulli(f64(0.3)), d.Bernoulli(logits=f64(1.0))),
    (d.Binomial(6.0, f64(0.3)), d.Binomial(6.0, f64(0.6))),
    (d.Geometric(f64(0.3)), d.Geometric(f64(0.6))),
    (d.Poisson(f64(3.0)), d.Poisson(f64(1.0))),
    (d.Categorical(f64(0.3, 0.7)), d.Categorical(f64(0.6, 0.4))),
    (d.OneHotCategorical(f64(0.3, 0.7)), d.OneHotCategorical(f64(0.6, 0.4))),
    (
        d.MultivariateNormal(f64(0.3, 0.1), wg.tensor([[2.0, 0.3], [0.3, 1.0]])),
        d.MultivariateNormal(f64(0.0, 0.0), scale_tril=wg.tensor([[1.0, 0.0], [0.5, 2.0]])),
    ),
    (d.Independent(d.Normal(f64(0.3, 0.1), 1.0), 1), d.Independent(d.Normal(f64(0.0, 0.0), 2.0), 1)),
]


@pytest.mark.parametrize(("p", "q"), PAIRS, ids=lambda p: type(p).__name__)
def test_divergences_are_expectations(p, q) -> None:
    """Against the mean of log p - log q over draws, within six of its standard errors."""
    x = p.sample((40_000,), key=KEY)
    gap = (p.log_prob(x) - q.log_prob(x)).numpy().reshape(40_000, -1)[:, 0]
    found = d.kl_divergence(p, q).numpy().ravel()[0]
    assert abs(found - gap.mean()) < 6 * gap.std() / 200 + 1e-12
    assert found > 0
    np.testing.assert_allclose(d.kl_divergence(p, p).numpy(), 0, atol=1e-13)


def test_divergences_at_the_edges() -> None:
    assert d.kl_divergence(d.Uniform(0.0, 2.0), d.Uniform(0.0, 1.0)).item() == math.inf
    assert d.kl_divergence(d.Categorical(f64(0.5, 0.5)), d.Categorical(f64(1.0, 0.0))).item() == math.inf
    assert d.kl_divergence(d.Categorical(f64(1.0, 0.0)), d.Categorical(f64(0.5, 0.5))).item() == pytest.approx(
        math.log(2)
    )
    assert d.kl_divergence(d.Bernoulli(1.0), d.Bernoulli(0.5)).item() == pytest.approx(math.log(2))
    with pytest.raises(wg.GraphError, match="closed form"):
        d.kl_divergence(d.Normal(0.0, 1.0), d.Cauchy(0.0, 1.0))


# -- the score function


def test_score_function_estimates_gradients_and_hessians() -> None:
    theta = f64(0.3).requires_grad_()

    def surrogate(n: int, baseline):
        p = d.Bernoulli(logits=theta)
        x = p.sample((n,), key=KEY)
        return d.score_function(p.log_prob(x), 3.0 * x + 2.0, baseline).mean()

    s = 1 / (1 + math.exp(-0.3))
    exact, exact2 = 3 * s * (1 - s), 3 * s * (1 - s) * (1 - 2 * s)
    for baseline in (None, 3.5, "leave_one_out"):
        value = surrogate(400_000, baseline)
        (g,) = wg.autograd.grad(value, [theta], create_graph=True)
        (h,) = wg.autograd.grad(g, [theta])
        np.testing.assert_allclose(float(value), 3 * s + 2, atol=0.02)
        np.testing.assert_allclose(float(g), exact, atol=0.02)
        np.testing.assert_allclose(float(h), exact2, atol=0.03)


def test_baselines_lower_the_variance_and_are_unbiased() -> None:
    theta = f64(0.3).requires_grad_()
    p = d.Bernoulli(logits=theta)
    x = p.sample((2000, 4), key=KEY).reshape((2000, 4))

    def estimates(baseline):
        surrogate = d.score_function(p.log_prob(x), 3.0 * x + 20.0, baseline, axis=1).mean(1)
        return np.array([wg.autograd.grad(surrogate[i], [theta], retain_graph=True)[0].item() for i in range(400)])

    plain, better = estimates(None), estimates("leave_one_out")
    assert better.std() < 0.2 * plain.std()
    s = 1 / (1 + math.exp(-0.3))
    assert abs(better.mean() - 3 * s * (1 - s)) < 6 * better.std() / 20


def test_score_function_keeps_the_gradient_through_the_reward() -> None:
    a = f64(2.0).requires_grad_()
    p = d.Bernoulli(probs=f64(0.5))
    x = p.sample((4,), key=KEY)
    (g,) = wg.autograd.grad(d.score_function(p.log_prob(x), a * x).sum(), [a])
    assert g.item() == x.sum().item()


# -- keys, graphs, dtypes, errors


def test_keys() -> None:
    key = wg.random.key(5)
    assert wg.rand(3, key=key).tolist() == wg.rand(3, key=key).tolist()
    assert wg.rand(3, key=key).tolist() == wg.rand(3, generator=wg.random.Generator(5)).tolist()
    children = [*wg.random.split(key, 3), *(wg.random.fold_in(key, i) for i in range(3)), key]
    assert len({wg.rand(2, key=k).numpy().tobytes() for k in children}) == len(set(children)) == 7
    assert wg.random.split(key, 3)[:2] == wg.random.split(key)
    x = np.stack([wg.randn(20_000, key=k).numpy() for k in children])
    assert np.abs(np.corrcoef(x)[np.triu_indices(7, 1)]).max() < 4.5 / np.sqrt(20_000)
    assert pickle.loads(pickle.dumps(key)) == key
    with pytest.raises(wg.DTypeError, match="both"):
        wg.rand(2, key=key, generator=wg.random.Generator(0))
    with pytest.raises(wg.DTypeError, match="Make a key"):
        wg.rand(2, key=3)
    with pytest.raises(wg.DTypeError, match="cannot be changed"):
        key.words = (1, 2)


SAMPLERS = [
    lambda key: wg.random.gamma(f64(0.4, 3.0), (5, 2), key=key),
    lambda key: wg.random.poisson(f64(0.4, 30.0), (5, 2), key=key),
    lambda key: wg.random.binomial(50.0, f64(0.1, 0.6), (5, 2), key=key),
    lambda key: wg.random.normal((5, 2), key=key),
    lambda key: wg.random.permutation(10, key=key),
    lambda key: d.StudentT(f64(3.0, 4.0)).sample((5,), key=key),
    lambda key: d.Beta(f64(3.0, 4.0), 1.0).sample((5,), key=key),
]


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_key_gives_the_same_numbers_and_a_graph_replays_them(sampler) -> None:
    first = sampler(KEY).numpy()
    np.testing.assert_array_equal(sampler(KEY).numpy(), first)
    assert (sampler(wg.random.fold_in(KEY, 1)).numpy() != first).any()
    graph = wg.graph(lambda: sampler(KEY))()
    np.testing.assert_array_equal(graph().numpy(), first)
    np.testing.assert_array_equal(graph().numpy(), first)
    np.testing.assert_array_equal(wg.Graph.parse(str(graph))().numpy(), first)


def test_a_longer_draw_begins_with_a_shorter_one() -> None:
    for draw in (wg.random.gamma, wg.random.poisson):
        long = draw(f64(2.5), (70_001,), key=KEY).numpy()  # several chunks
        np.testing.assert_array_equal(draw(f64(2.5), (40_000,), key=KEY).numpy().ravel(), long.ravel()[:40_000])


def test_consecutive_gamma_draws_do_not_share_bits() -> None:
    g = wg.random.Generator(0)
    x = np.concatenate([wg.random.gamma(f64(1.0), (n,), generator=g).numpy() for n in (1, 2, 3, 50)])
    assert len(set(x.tolist())) == x.size


def test_an_element_does_not_depend_on_the_others() -> None:
    a = np.array([0.3, 1.0, 5.0, 200.0])
    together = wg.random.gamma(wg.tensor(a), key=KEY).numpy()
    other = wg.random.gamma(wg.tensor(np.where(np.arange(4) == 2, a, 0.7)), key=KEY).numpy()
    assert together[2] == other[2]


def test_gradients_of_a_traced_draw() -> None:
    a = f64(0.5, 4.0)
    f = lambda a: (d.Gamma(a, 2.0).rsample((3,), key=KEY) ** 2).sum()
    graph = wg.graph(wg.grad(f))(a)
    np.testing.assert_allclose(graph(a).numpy(), wg.grad(f)(a).numpy(), rtol=1e-14)
    tangent = wg.jvp(f, (a,), (wg.ones_like(a),))[1]
    np.testing.assert_allclose(tangent.item(), wg.grad(f)(a).sum().item(), rtol=1e-13)


def test_vmap_of_draws() -> None:
    a = f64(0.5, 4.0, 9.0)
    different = wg.vmap(lambda a: wg.random.gamma(a, (1000,), key=KEY), randomness="different")(a).numpy()
    np.testing.assert_allclose(different.mean(1), a.numpy(), rtol=0.2)
    assert np.abs(np.corrcoef(different)[np.triu_indices(3, 1)]).max() < 0.2
    same = wg.vmap(lambda a: wg.random.gamma(a, (4,), key=KEY), randomness="same")(a).numpy()
    for row, value in zip(same, a.numpy(), strict=True):
        np.testing.assert_array_equal(row, wg.random.gamma(wg.tensor(value), (4,), key=KEY).numpy())


@pytest.mark.parametrize("dtype", [wg.float32, wg.float16])
def test_dtypes(dtype) -> None:
    for name, (ours, _, parameters, _) in ALL.items():
        p = ours(*(wg.tensor(v, dtype=dtype) for v in parameters[0]))
        x = p.sample((3,), key=KEY)
        assert x.dtype == dtype, name
        assert p.log_prob(x).dtype == dtype, name
        assert p.cdf(x).dtype == dtype, name
        if name != "Poisson":
            assert p.entropy().dtype == dtype, name


def test_shapes() -> None:
    p = d.Normal(wg.zeros((2, 1)), wg.ones(3))
    assert (p.batch_shape, p.event_shape, p.sample((4, 5), key=KEY).shape) == ((2, 3), (), (4, 5, 2, 3))
    assert p.log_prob(0.0).shape == (2, 3)
    assert d.Gamma(wg.ones(0), 1.0).sample((2,), key=KEY).shape == (2, 0)
    assert d.Normal(0, 1).sample(key=KEY).dtype == wg.float32
    assert not d.Normal(wg.tensor(0.0, requires_grad=True), 1.0).sample(key=KEY).requires_grad


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: d.Normal(0.0, -1.0), wg.ShapeError, "scale must be positive"),
        (lambda: d.Normal(0.0, float("nan")), wg.ShapeError, "scale must be positive"),
        (lambda: d.Normal(wg.zeros(2), wg.ones(3)), wg.ShapeError, "broadcast"),
        (lambda: d.Bernoulli(1.5), wg.ShapeError, "between 0 and 1"),
        (lambda: d.Bernoulli(), wg.DTypeError, "probs or logits"),
        (lambda: d.Binomial(2.5, 0.5), wg.ShapeError, "whole number"),
        (lambda: d.Categorical(wg.zeros(3)), wg.ShapeError, "all 0"),
        (lambda: d.Dirichlet(1.0), wg.ShapeError, "last axis"),
        (lambda: d.Bernoulli(0.5).rsample(), wg.GradientError, "score_function"),
        (lambda: d.Normal(0.0, 1.0).sample(key=1), wg.DTypeError, "random.key"),
        (lambda: d.Normal(wg.tensor(1j), 1.0), wg.DTypeError, "real"),
        (lambda: d.Poisson(1.0).entropy(), wg.GraphError, "closed form"),
        (lambda: d.score_function(wg.zeros(1), wg.zeros(1), "leave_one_out"), wg.ShapeError, "two draws"),
        (lambda: wg.random.gamma(wg.ones(3), (2,)), wg.ShapeError, "broadcast"),
        (lambda: wg.random.poisson(wg.tensor(1j)), wg.DTypeError, "real"),
        (lambda: d.MultivariateNormal(wg.zeros(2), wg.eye(3)), wg.ShapeError, "matrix"),
    ],
)
def test_errors(call, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text) as caught:
        call()
    assert "test_distributions.py" in str(caught.value).splitlines()[0]
