"""Distributions of `wengert.torch`, against values recorded from PyTorch 2.13 in float64."""

from __future__ import annotations

import gzip
import json
import math
import pickle
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy import stats

import wengert as wg
import wengert.torch as torch
from torch_distributions import CONSTRAINTS, EXPRESSIONS, MADE, PAIRS, QUESTIONS, ROUGH, TRANSFORMS, evaluated

d = torch.distributions
RECORDED = json.loads(gzip.decompress((Path(__file__).parent / "data" / "distributions.json.gz").read_bytes()))
ALL = {**MADE, **ROUGH}


def made(name: str) -> tuple[Any, Any]:
    text, values = ALL[name]
    return evaluated(torch, text), evaluated(torch, values)


def same(found: Any, want: Any, what: str, rtol: float = 1e-10) -> None:
    assert type(found) is torch.Tensor, what
    assert list(found.shape) == list(np.shape(want)), what
    np.testing.assert_allclose(np.asarray(found.detach(), float), want, rtol=rtol, atol=1e-12, err_msg=what)


# Where PyTorch's numbers are rough, or wrong: its mode of Kumaraswamy's distribution is NaN, that of 1/2 random.
TOLERANCES = {"VonMises": 2e-5, "GeneralizedPareto": 2e-6, "Multinomial.entropy()": 1e-7, "Kumaraswamy.mode": None}


@pytest.mark.parametrize("name", ALL)
def test_questions(name: str) -> None:
    p, x = made(name)
    want = RECORDED["distributions"][name]
    for question in QUESTIONS:
        rtol = TOLERANCES.get(f"{name}.{question}", TOLERANCES.get(name, 1e-10))
        if want[question] is not None and rtol is not None:
            same(evaluated(torch, f"p.{question}", p=p, x=x), want[question], f"{name}.{question}", rtol)
    assert [list(p.batch_shape), list(p.event_shape), list(p.sample((3,)).shape)] == want["shapes"]
    assert type(p.batch_shape) is type(p.event_shape) is torch.Size
    np.testing.assert_array_equal(np.asarray(p.support.check(x)), np.asarray(want["support"], bool))
    # PyTorch's logits of concrete draws have rsample, and say that they have not.
    assert p.has_rsample == (want["has_rsample"] or name == "Concrete logits")
    if "enumerated" in want:
        same(p.enumerate_support(), want["enumerated"], name)


@pytest.mark.parametrize(("text", "want"), list(zip(EXPRESSIONS, RECORDED["expressions"], strict=True)))
def test_expressions(text: str, want: Any) -> None:
    same(evaluated(torch, text), want, text)


@pytest.mark.parametrize("name", ALL)
def test_compiled_and_in_batches(name: str) -> None:
    text, _ = ALL[name]
    _, x = made(name)
    want = RECORDED["distributions"][name]["log_prob(x)"]
    rtol = TOLERANCES.get(name, 1e-10)
    run = torch.compile(lambda x: evaluated(torch, text).log_prob(x))
    same([run(x) for _ in range(6)][-1], want, name, rtol)
    many = torch.vmap(lambda x: evaluated(torch, text).log_prob(x))(torch.stack([x, x]))
    same(many[1], want, name, rtol)


@pytest.mark.parametrize("name", ALL)
def test_expanded(name: str) -> None:
    p, x = made(name)
    wide = p.expand((4, *p.batch_shape))
    assert type(wide) is type(p)
    assert wide.batch_shape == (4, *p.batch_shape)
    assert wide.event_shape == p.event_shape
    assert wide.sample((2,)).shape == (2, *wide.batch_shape, *wide.event_shape)
    y = wide.sample()
    np.testing.assert_allclose(wide.log_prob(y)[1], p.log_prob(y[1]), rtol=1e-12)
    assert pickle.loads(pickle.dumps(p)).log_prob(x).tolist() == p.log_prob(x).tolist()


@pytest.mark.parametrize(("pair", "want"), list(zip(PAIRS, RECORDED["divergences"], strict=True)), ids=str)
def test_divergences(pair: tuple[str, str], want: Any) -> None:
    p, q = (evaluated(torch, text) for text in pair)
    if want is None:
        if ("Cauchy" in pair[0]) == ("Cauchy" in pair[1]) and "Geometric" not in pair[0] + pair[1]:
            return  # Wengert may know more
        with pytest.raises(NotImplementedError):
            d.kl_divergence(p, q)
        return
    same(d.kl_divergence(p, q), want, str(pair))


@pytest.mark.parametrize("text", TRANSFORMS)
def test_transforms(text: str) -> None:
    f, x = evaluated(torch, text), evaluated(torch, TRANSFORMS[text])
    want = RECORDED["transforms"][text]
    y = f(x)
    same(y, want["y"], text)
    if want["x"] is not None:
        same(f.inv(y), want["x"], text)
    if want["slope"] is not None:
        same(f.log_abs_det_jacobian(x, y), want["slope"], text)
        same(f.inv.log_abs_det_jacobian(y, x), (-np.asarray(want["slope"])).tolist(), text)
    assert [list(f.forward_shape(x.shape)), list(f.inverse_shape(y.shape))] == want["shapes"]
    assert [f.domain.event_dim, f.codomain.event_dim] == want["axes"]
    assert f.inv.inv is f or f.inv.inv == f
    run = wg.jit(lambda x: f(x))
    same([run(x) for _ in range(6)][-1], want["y"], text)
    if f.codomain.event_dim == f.domain.event_dim == 0:
        wg.check_grads(lambda x: f(x), x.abs() + 0.1, order=2)


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_constraints(name: str) -> None:
    want = RECORDED["constraints"][name]
    found = evaluated(torch, f"d.constraints.{name}.check(x)", x=evaluated(torch, CONSTRAINTS[name]))
    np.testing.assert_array_equal(np.asarray(found), np.asarray(want, bool))


@pytest.mark.parametrize(
    "make",
    [
        lambda: d.Normal(0.0, -1.0),
        lambda: d.Normal(torch.tensor(math.nan), 1.0),
        lambda: d.Categorical(logits=torch.tensor([math.nan, 1.0])),
        lambda: d.Categorical(probs=torch.tensor([-1.0, 2.0])),
        lambda: d.Bernoulli(1.5),
        lambda: d.Dirichlet(torch.tensor([0.0, 1.0])),
        lambda: d.MultivariateNormal(torch.zeros(2), torch.tensor([[1.0, 2.0], [2.0, 1.0]])),
        lambda: d.LKJCholesky(1),
        lambda: d.Wishart(0.5, torch.eye(2)),
        lambda: d.Exponential(1.0).log_prob(torch.tensor(-1.0)),
        lambda: d.Uniform(0.0, 1.0).log_prob(torch.tensor(2.0)),
        lambda: d.Normal(0.0, 1.0).log_prob(1.0),
        lambda: d.Normal(torch.zeros(3), 1.0).log_prob(torch.zeros(2)),
        lambda: d.Categorical(torch.ones(3)).log_prob(torch.tensor(3)),
        lambda: d.Dirichlet(torch.ones(3)).log_prob(torch.ones(3)),
        lambda: d.TransformedDistribution(d.Normal(0.0, 1.0), [3]),
        lambda: d.MixtureSameFamily(d.Normal(0.0, 1.0), d.Normal(torch.zeros(2), 1.0)),
        lambda: d.Distribution.set_default_validate_args(3),
        lambda: d.Normal(torch.zeros(2), -1.0),
        lambda: d.Normal(0.0, 1.0).log_prob(torch.tensor(math.nan)),
        lambda: d.Binomial(1.5, torch.tensor(0.5)),
        lambda: d.Geometric(torch.tensor(0.0)),
        lambda: d.Uniform(1.0, 1.0),
        lambda: d.RelaxedBernoulli(torch.tensor(0.0), 0.5),
        lambda: d.Categorical(),
        lambda: d.Bernoulli(0.5, 0.5),
        lambda: d.Categorical(torch.zeros(2)),
        lambda: d.MultivariateNormal(torch.zeros(2)),
        lambda: d.MultivariateNormal(torch.zeros(2), torch.ones(2)),
        lambda: d.Wishart(3.0, torch.ones(2)),
        lambda: d.Wishart(1.0, torch.eye(2)),
        lambda: d.Dirichlet(torch.ones(3)).log_prob(torch.tensor(1.0)),
        lambda: d.GeneralizedPareto(0.0, 1.0, -1.0).log_survival_function(torch.tensor(2.0)),
        lambda: d.LogNormal(0.0, 1.0).cdf(torch.tensor(-1.0)),
        lambda: d.CatTransform([d.ExpTransform()])(torch.zeros(2)),
    ],
)
def test_what_is_refused(make: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        make()


def test_without_checks() -> None:
    p = d.Exponential(1.0, validate_args=False)
    assert p.log_prob(torch.tensor(-1.0)).item() == -math.inf
    d.Normal(0.0, -1.0, validate_args=False)
    assert d.Categorical(torch.ones(3)).log_prob(torch.tensor(2.0)).item() == pytest.approx(-math.log(3))
    assert d.Uniform(0.0, 1.0).log_prob(torch.tensor(1.0)).item() == -math.inf
    with pytest.raises(NotImplementedError):
        d.Categorical(torch.ones(3)).rsample()
    with pytest.raises(NotImplementedError):
        d.Poisson(1.0).entropy()
    with pytest.raises(IndexError):
        d.Categorical(torch.ones(3), validate_args=False).log_prob(torch.tensor(math.nan))
    # The parts of an event are checked by those who draw them.
    parts = d.Normal(torch.zeros(2), 1.0, validate_args=False)
    assert math.isnan(d.Independent(parts, 1).log_prob(torch.tensor([math.nan, 1.0])).item())
    counts = d.Binomial(torch.tensor([3.0, 5.0]), torch.tensor(0.5))
    for i, n in enumerate((3.0, 5.0)):
        assert counts.entropy()[i].item() == pytest.approx(d.Binomial(n, torch.tensor(0.5)).entropy().item(), rel=1e-6)


def test_compiled_functions_check_as_eager_ones_do() -> None:
    run = torch.compile(lambda scale, x: d.Normal(0.0, scale).log_prob(x))
    one = torch.ones(2)
    for _ in range(6):
        run(one, one)
    for arguments in ((-one, one), (one, one * math.nan)):
        with pytest.raises(ValueError, match=r"to satisfy the constraint|within the support"):
            run(*arguments)
    assert run(one, one).tolist() == d.Normal(0.0, one).log_prob(one).tolist()
    # Where there are no values to decide by, nothing is checked.
    each = torch.compile(lambda scale, x: torch.vmap(lambda s, y: d.Normal(0.0, s).log_prob(y))(scale, x))
    for _ in range(6):
        assert each(one, one).tolist() == run(one, one).tolist()


def test_compiled_functions_see_what_a_distribution_has_become() -> None:
    p, x = d.Normal(torch.zeros(2), 1.0), torch.zeros(2)
    run = torch.compile(lambda: p.log_prob(x))
    for _ in range(6):
        run()
    p.loc = torch.ones(2)
    assert run().tolist() == p.log_prob(x).tolist()
    given = torch.compile(lambda q: q.log_prob(x))
    for i in range(8):
        q = d.Normal(torch.full((2,), float(i)), 1.0)
        assert given(q).tolist() == q.log_prob(x).tolist()
    # What the inverse of tanh has lost is in its cache, wherever the draw goes.
    p = d.TransformedDistribution(d.Normal(torch.tensor(20.0), 0.1), d.TanhTransform(cache_size=1))
    y = p.rsample()
    assert torch.compile(lambda p, y: p.log_prob(y))(p, y).item() == p.log_prob(y).item()


@pytest.mark.parametrize("name", MADE)
def test_distributions_are_pytrees(name: str) -> None:
    text, _ = ALL[name]
    p, x = made(name)
    make = torch.compile(lambda one: evaluated(torch, text, one))
    q = [make(torch.ones((), dtype=torch.float64)) for _ in range(6)][-1]
    assert type(q) is type(p)
    assert (q.batch_shape, q.event_shape, repr(q)) == (p.batch_shape, p.event_shape, repr(p))
    np.testing.assert_allclose(q.log_prob(x), p.log_prob(x), rtol=1e-12)
    if name == "TransformedDistribution":  # whose transform has one number for all
        return
    wide = p.expand((5, *p.batch_shape))

    def asked(p: Any) -> Any:
        assert p.batch_shape == q.batch_shape
        return p.log_prob(x), p.sample((2,))

    log_prob, drawn = torch.vmap(asked, randomness="different")(wide)
    np.testing.assert_allclose(log_prob[3], p.log_prob(x), rtol=1e-12)
    assert drawn.shape == (5, 2, *p.batch_shape, *p.event_shape)


@pytest.mark.parametrize(
    "name",
    [
        *("Gumbel", "HalfCauchy", "HalfNormal", "InverseGamma", "Kumaraswamy", "LogNormal", "LogisticNormal", "Pareto"),
        *("RelaxedBernoulli", "RelaxedOneHotCategorical", "TransformedDistribution", "Weibull"),
    ],
)
def test_transformed_families_are_made_of_parts(name: str) -> None:
    p, x = made(name)
    assert isinstance(p, d.TransformedDistribution)
    q = d.TransformedDistribution(p.base_dist, p.transforms)
    assert q.event_shape == p.event_shape
    if name.startswith("Half"):  # the absolute value has two inverses, of one density
        np.testing.assert_allclose(p.base_dist.log_prob(x) + math.log(2.0), p.log_prob(x), rtol=1e-10)
    else:
        np.testing.assert_allclose(q.log_prob(x), p.log_prob(x), rtol=1e-10)
    assert not isinstance(d.Normal(0.0, 1.0), d.TransformedDistribution)


def test_tensors_of_transforms_and_constraints() -> None:
    x = torch.zeros(2, 3)
    for f in (d.AffineTransform(1.0, 2.0), d.ComposeTransform([]), d.StickBreakingTransform()):
        assert type(f.log_abs_det_jacobian(x, f(x))) is torch.Tensor
    for name in ("square", "symmetric", "positive_definite"):
        assert type(getattr(d.constraints, name).check(x)) is torch.Tensor


def test_numbers_and_names() -> None:
    from wengert.torch.distributions.normal import Normal

    assert Normal is d.Normal
    p = d.Normal(0, 1)
    assert repr(p) == "Normal(loc: 0.0, scale: 1.0)"
    assert type(p.loc) is torch.Tensor
    assert p.loc.dtype is torch.float32
    assert repr(d.Normal(torch.zeros(2, 3), 1.0)) == "Normal(loc: torch.Size([2, 3]), scale: torch.Size([2, 3]))"
    assert repr(d.Categorical(torch.ones(2))) == "Categorical(probs: torch.Size([2]))"
    assert repr(d.Bernoulli(logits=torch.zeros(()))) == "Bernoulli(logits: 0.0)"
    assert repr(d.Chi2(3.0)) == "Chi2(df: 3.0)"
    assert repr(d.Independent(p, 0)) == "Independent(Normal(loc: 0.0, scale: 1.0), 0)"
    assert isinstance(p, d.ExponentialFamily)
    assert isinstance(p, wg.distributions.Normal)
    assert p.sample(sample_shape=torch.Size([2])).shape == (2,)
    assert d.constraints.is_dependent(d.Uniform.support)
    assert d.Gamma(1.0, 1.0).log_prob(1.0).item() == -1.0
    assert not hasattr(d, "LogitRelaxedBernoulli")


def test_distributions_of_ones_own() -> None:
    class Half(d.Distribution):
        arg_constraints: ClassVar[Any] = {"scale": d.constraints.positive}
        support = d.constraints.positive
        has_rsample = True

        def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
            self.scale = scale
            super().__init__(scale.shape, validate_args=validate_args)

        def rsample(self, sample_shape: Any = ()) -> Any:
            return self.scale * torch.rand(self._extended_shape(sample_shape))

        def log_prob(self, value: Any) -> Any:
            if self._validate_args:
                self._validate_sample(value)
            return -torch.log(self.scale).expand(value.shape)

    p = Half(torch.ones(2))
    assert p.sample((3,)).shape == (3, 2)
    assert p.log_prob(torch.ones(2)).tolist() == [0.0, 0.0]
    for make in (lambda: Half(-torch.ones(2)), lambda: p.log_prob(-torch.ones(2))):
        with pytest.raises(ValueError, match=r"to satisfy the constraint|within the support"):
            make()

    @d.register_kl(Half, Half)
    def _divergence(p: Any, q: Any) -> Any:
        return q.scale - p.scale

    assert d.kl_divergence(p, Half(torch.full((2,), 3.0))).tolist() == [2.0, 2.0]

    class Family(d.ExponentialFamily):
        arg_constraints: ClassVar[Any] = {}

        def __init__(self, loc: Any, scale: Any) -> None:
            self.loc, self.scale = loc, scale
            super().__init__(loc.shape)

        @property
        def _natural_params(self) -> Any:
            return self.loc / self.scale**2, -0.5 / self.scale**2

        def _log_normalizer(self, x: Any, y: Any) -> Any:
            return -0.25 * x**2 / y + 0.5 * torch.log(-math.pi / y)

        @property
        def _mean_carrier_measure(self) -> Any:
            return 0.0

    p, q = Family(torch.zeros(2), torch.tensor([1.0, 2.0])), Family(torch.ones(2), torch.ones(2))
    normal = d.Normal(p.loc, p.scale)
    np.testing.assert_allclose(p.entropy().detach(), normal.entropy(), rtol=1e-6)
    want = d.kl_divergence(normal, d.Normal(q.loc, q.scale))
    np.testing.assert_allclose(d.kl_divergence(p, q).detach(), want, rtol=1e-5)
    with pytest.raises(NotImplementedError):
        d.kl_divergence(p, normal)
    scale = torch.tensor([1.0, 2.0], requires_grad=True)
    Family(torch.zeros(2), scale).entropy().sum().backward()
    np.testing.assert_allclose(scale.grad, [1.0, 0.5], rtol=1e-5)

    class Squashed(d.TransformedDistribution):
        def __init__(self, loc: Any, scale: Any) -> None:
            self.base_dist = d.Normal(loc, scale)
            super().__init__(self.base_dist, [d.TanhTransform(cache_size=1)], validate_args=False)

        @property
        def mean(self) -> Any:
            return torch.tanh(self.base_dist.mean)

    p = Squashed(torch.ones(2), 1.0)
    assert p.mean.tolist() == torch.tanh(torch.ones(2)).tolist()
    assert p.rsample((3,)).shape == (3, 2)


def test_the_cache_of_a_transform() -> None:
    """What tanh has rounded to 1 keeps its origin, as policies of bounded actions need."""
    p = d.TransformedDistribution(d.Normal(torch.tensor(20.0), 0.1), d.TanhTransform(cache_size=1))
    y = p.rsample()
    assert y.item() == 1.0
    assert math.isfinite(p.log_prob(y).item())
    other = d.TransformedDistribution(d.Normal(torch.tensor(20.0), 0.1), d.TanhTransform())
    assert other.log_prob(y).item() == -math.inf


# Draws by rejection, and so by gamma variates, jump where another proposal is taken.
SMOOTH = [
    name
    for name in MADE
    if RECORDED["distributions"][name]["has_rsample"]
    and not name.startswith(("Beta", "Chi2", "Dirichlet", "Fisher", "Gamma", "InverseGamma", "StudentT", "Wishart"))
]


@pytest.mark.parametrize("name", SMOOTH)
def test_draws_carry_gradients(name: str) -> None:
    """At the same noise, along a common factor of all parameters, by differences."""
    text, _ = ALL[name]

    def drawn(factor: Any) -> Any:
        wg.manual_seed(3)
        return (evaluated(torch, text, factor).rsample((2,)) ** 2).sum()

    one = torch.ones((), dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(drawn(one), one)
    step = 1e-5
    with torch.no_grad():
        want = (drawn(one.detach() + step) - drawn(one.detach() - step)) / (2 * step)
    np.testing.assert_allclose(slope.item(), want.item(), rtol=1e-6, atol=1e-7)


MOMENTS = [n for n in ALL if RECORDED["distributions"][n]["variance"] is not None and n != "VonMises"]


@pytest.mark.parametrize("name", MOMENTS)
def test_draws_have_the_mean_and_the_variance(name: str) -> None:
    """With a fixed seed these cannot fail by chance; six standard errors."""
    wg.manual_seed(1)
    p, _ = made(name)
    n = 20_000
    x = np.asarray(p.sample((n,)), float)
    mean, variance = np.asarray(p.mean.detach(), float), np.asarray(p.variance.detach(), float)
    known = np.isfinite(mean) & np.isfinite(variance)
    bound = 6 * np.sqrt(np.where(known, variance, 1.0) / n) + 1e-9
    assert (np.abs(x.mean(0) - mean) < bound)[known].all()
    kurtosis = ((x - x.mean(0)) ** 4).mean(0)
    assert (np.abs(x.var(0) - variance) < 8 * np.sqrt(kurtosis / n) + 1e-9)[known].all()


def test_draws_follow_scipys_distributions() -> None:
    wg.manual_seed(2)
    for p, cdf in (
        (d.VonMises(0.3, 1.7), stats.vonmises(1.7, 0.3).cdf),
        (d.VonMises(-1.0, 1e-4), stats.uniform(-math.pi, 2 * math.pi).cdf),
        (d.VonMises(0.0, 300.0), stats.vonmises(300.0).cdf),
        (d.InverseGamma(2.5, 1.2), stats.invgamma(2.5, scale=1.2).cdf),
        (d.FisherSnedecor(3.0, 5.0), stats.f(3.0, 5.0).cdf),
        (d.GeneralizedPareto(0.5, 1.2, -0.3), stats.genpareto(-0.3, 0.5, 1.2).cdf),
        (d.Pareto(1.2, 2.5), stats.pareto(2.5, scale=1.2).cdf),
        (d.HalfCauchy(1.2), stats.halfcauchy(scale=1.2).cdf),
    ):
        assert stats.kstest(np.asarray(p.sample((5000,)), float).ravel(), cdf).pvalue > 1e-3, p
    # Off the diagonal a correlation of 3 variables is Beta distributed over -1 .. 1.
    factors = np.asarray(d.LKJCholesky(3, 1.5).sample((5000,)), float)
    correlation = np.einsum("nij,nkj->nik", factors, factors)[:, 2, 1]
    assert stats.kstest(0.5 * (correlation + 1), stats.beta(2.0, 2.0).cdf).pvalue > 1e-3
    # The first element of a Wishart matrix of the identity is chi-square.
    first = np.asarray(d.Wishart(4.0, torch.eye(2)).sample((5000,)), float)[:, 0, 0]
    assert stats.kstest(first, stats.chi2(4.0).cdf).pvalue > 1e-3
