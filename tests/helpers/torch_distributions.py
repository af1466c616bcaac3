"""Distributions and values of theirs, as expressions that PyTorch and `wengert.torch` both evaluate."""

from __future__ import annotations

from typing import Any

# By name: how it is made, and values in its support. `t` makes a float64 tensor.
MADE: dict[str, tuple[str, str]] = {
    "Bernoulli": ("d.Bernoulli(t([0.3, 0.9]))", "t([1.0, 0.0])"),
    "Bernoulli logits": ("d.Bernoulli(logits=t([0.3, -2.0]))", "t([1.0, 0.0])"),
    "Beta": ("d.Beta(t([0.5, 3.0]), t([0.7, 2.0]))", "t([0.2, 0.6])"),
    "Binomial": ("d.Binomial(t(5.0), t([0.3, 0.8]))", "t([2.0, 5.0])"),
    "Categorical": ("d.Categorical(t([[0.2, 0.5, 0.3], [1.0, 1.0, 2.0]]))", "t([2, 0])"),
    "Categorical logits": ("d.Categorical(logits=t([0.2, -0.5, 0.3]))", "t([[2], [0]])"),
    "Cauchy": ("d.Cauchy(t([0.3, -1.0]), t([1.2, 0.5]))", "t([1.0, -4.0])"),
    "Chi2": ("d.Chi2(t([0.7, 4.0]))", "t([1.0, 3.5])"),
    "Concrete logits": (
        "d.relaxed_bernoulli.LogitRelaxedBernoulli(t(0.7), t([0.3, 0.8]))",
        "t([0.2, -0.6])",
    ),
    "Concrete logarithms": (
        "d.relaxed_categorical.ExpRelaxedCategorical(t(0.7), t([0.2, 0.5, 0.3]))",
        "t([[0.2, 0.3, 0.5]]).log()",
    ),
    "ContinuousBernoulli": ("d.ContinuousBernoulli(t([0.3, 0.4999, 0.9]))", "t([0.2, 0.5, 0.7])"),
    "Dirichlet": ("d.Dirichlet(t([[0.5, 2.0, 3.5], [2.0, 2.0, 2.0]]))", "t([0.2, 0.3, 0.5])"),
    "Exponential": ("d.Exponential(t([0.4, 3.0]))", "t([1.0, 0.2])"),
    "FisherSnedecor": ("d.FisherSnedecor(t([3.0, 5.0]), t([4.5, 7.0]))", "t([0.7, 2.0])"),
    "Gamma": ("d.Gamma(t([0.5, 3.0]), t([2.0, 0.7]))", "t([0.7, 2.0])"),
    "Geometric": ("d.Geometric(t([0.3, 0.9]))", "t([3.0, 0.0])"),
    "Gumbel": ("d.Gumbel(t([0.3, -1.0]), t([1.2, 0.5]))", "t([1.0, -1.4])"),
    "HalfCauchy": ("d.HalfCauchy(t([0.3, 1.5]))", "t([1.0, 0.4])"),
    "HalfNormal": ("d.HalfNormal(t([0.3, 1.5]))", "t([1.0, 0.4])"),
    "Independent": ("d.Independent(d.Normal(t([[0.3, -1.0]]), t([1.2, 0.5])), 1)", "t([[1.0, -1.4]])"),
    "InverseGamma": ("d.InverseGamma(t([2.5, 3.0]), t([2.0, 0.7]))", "t([0.7, 2.0])"),
    "Kumaraswamy": ("d.Kumaraswamy(t([1.5, 3.0]), t([1.7, 2.0]))", "t([0.2, 0.6])"),
    "LKJCholesky": (
        "d.LKJCholesky(3, t([0.7, 2.0]))",
        "t([[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.0, 0.6, 0.8]])",
    ),
    "Laplace": ("d.Laplace(t([0.3, -1.0]), t([1.2, 0.5]))", "t([1.0, -1.4])"),
    "LogNormal": ("d.LogNormal(t([0.3, -1.0]), t([1.2, 0.5]))", "t([1.0, 0.4])"),
    "LogisticNormal": ("d.LogisticNormal(t([0.3, -1.0]), t([1.2, 0.5]))", "t([0.2, 0.3, 0.5])"),
    "LowRankMultivariateNormal": (
        "d.LowRankMultivariateNormal(t([0.3, -1.0, 0.2]), t([[0.5], [1.0], [-0.2]]), t([0.5, 1.0, 2.0]))",
        "t([[1.0, 0.5, -0.4], [0.0, 0.0, 1.0]])",
    ),
    "MixtureSameFamily": (
        "d.MixtureSameFamily(d.Categorical(t([[0.3, 0.7]])), d.Normal(t([[0.3, -1.0]]), t([1.2, 0.5])))",
        "t([0.4])",
    ),
    "MixtureSameFamily of vectors": (
        "d.MixtureSameFamily(d.Categorical(t([0.3, 0.7])),"
        " d.Independent(d.Normal(t([[0.3, -1.0], [1.0, 2.0]]), t([1.2, 0.5])), 1))",
        "t([[0.4, 1.0], [0.0, 0.5]])",
    ),
    "Multinomial": ("d.Multinomial(4, t([0.2, 0.5, 0.3]))", "t([[1.0, 3.0, 0.0], [0.0, 2.0, 2.0]])"),
    "MultivariateNormal": (
        "d.MultivariateNormal(t([0.3, -1.0]), t([[2.0, 0.3], [0.3, 1.0]]))",
        "t([[1.0, 0.5], [0.0, 0.0]])",
    ),
    "MultivariateNormal precision": (
        "d.MultivariateNormal(t([0.3, -1.0]), precision_matrix=t([[2.0, 0.3], [0.3, 1.0]]))",
        "t([1.0, 0.5])",
    ),
    "NegativeBinomial": ("d.NegativeBinomial(t([2.0, 4.5]), t([0.3, 0.8]))", "t([1.0, 7.0])"),
    "NegativeBinomial logits": ("d.NegativeBinomial(t(2.0), logits=t([0.3, -0.8]))", "t([1.0, 7.0])"),
    "Normal": ("d.Normal(t([0.3, -1.0]), t([1.2, 0.5]))", "t([[1.0, -1.4], [0.0, 5.0]])"),
    "OneHotCategorical": ("d.OneHotCategorical(t([0.2, 0.5, 0.3]))", "t([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])"),
    "Pareto": ("d.Pareto(t([0.5, 1.0]), t([2.5, 3.0]))", "t([0.7, 2.0])"),
    "Poisson": ("d.Poisson(t([0.4, 3.0]))", "t([0.0, 4.0])"),
    "RelaxedBernoulli": ("d.RelaxedBernoulli(t(0.7), t([0.3, 0.8]))", "t([0.2, 0.6])"),
    "RelaxedOneHotCategorical": ("d.RelaxedOneHotCategorical(t(0.7), t([0.2, 0.5, 0.3]))", "t([0.2, 0.3, 0.5])"),
    "StudentT": ("d.StudentT(t([2.5, 30.0]), t(0.3), t(1.2))", "t([1.0, -1.4])"),
    "TransformedDistribution": (
        "d.TransformedDistribution(d.Normal(t([0.3, -1.0]), t(0.5)),"
        " [d.AffineTransform(1.0, t(2.0)), d.TanhTransform()])",
        "t([0.4, -0.3])",
    ),
    "TransformedDistribution of vectors": (
        "d.TransformedDistribution(d.Normal(t([0.3, -1.0]), t(0.5)), [d.StickBreakingTransform()])",
        "t([[0.2, 0.3, 0.5]])",
    ),
    "Uniform": ("d.Uniform(t([-0.5, 0.0]), t([2.0, 0.3]))", "t([1.0, 0.2])"),
    "Weibull": ("d.Weibull(t([1.5, 0.5]), t([1.7, 3.0]))", "t([0.7, 0.4])"),
    "Wishart": (
        "d.Wishart(t([4.5, 5.0]), t([[2.0, 0.3], [0.3, 1.0]]))",
        "t([[3.0, 0.5], [0.5, 4.0]])",
    ),
}
# What PyTorch approximates (modified Bessel functions), or has in float32 alone.
ROUGH = {
    "VonMises": ("d.VonMises(t([0.3, -1.0]), t([1.2, 20.0]))", "t([1.0, -1.4])"),
    "GeneralizedPareto": ("d.GeneralizedPareto(s(0.5), s(1.5), s([0.2, -0.3]))", "s([0.7, 2.0])"),
}
QUESTIONS = ("mean", "variance", "stddev", "mode", "entropy()", "log_prob(x)", "cdf(x)", "icdf(t(0.3))")

# What goes on beyond outcomes, what is finite at the ends, and other questions.
EXPRESSIONS = (
    "d.Bernoulli(t([0.0, 1.0, 0.3])).log_prob(t([1.0, 0.0, 1.0]))",
    "d.Bernoulli(t([0.0, 1.0])).logits",
    "d.Bernoulli(logits=t([0.3, -2.0]), validate_args=False).log_prob(t([[0.3, 1.2], [0.5, -0.1]]))",
    "d.Binomial(5, t([0.0, 1.0, 0.3])).log_prob(t([1.0, 2.0, 3.0]))",
    "d.Binomial(5, t([0.2, 0.3]), validate_args=False).log_prob(t([1.5, 2.25]))",
    "d.Categorical(t([0.0, 1.0, 1.0])).log_prob(t([0, 1]))",
    "d.Categorical(t([0.2, 0.8]), validate_args=False).log_prob(t([0.0, 1.5]))",
    "d.ContinuousBernoulli(t([0.3, 0.8]), validate_args=False).log_prob(t([1.5, -0.25]))",
    "d.Dirichlet(t([0.5, 2.0]), validate_args=False).log_prob(t([0.5, 0.7]))",
    "d.Geometric(t([0.3, 1.0]), validate_args=False).log_prob(t([1.5, 0.0]))",
    "d.Multinomial(4, t([0.2, 0.5, 0.3])).log_prob(t([[1.0, 1.0, 0.0], [1.5, 1.0, 0.5]]))",
    "d.NegativeBinomial(t(2.5), logits=t([0.3, -0.8]), validate_args=False).log_prob(t([1.5, 0.25]))",
    "d.OneHotCategorical(t([0.2, 0.5, 0.3]), validate_args=False).log_prob(t([0.1, 0.7, 0.2]))",
    "d.Poisson(t([0.4, 3.0]), validate_args=False).log_prob(t([1.5, 0.25]))",
    "d.RelaxedBernoulli(t(0.7), t([0.3, 0.8])).log_prob(t([0.0, 1.0]))",
    "d.Uniform(t(0.0), t(1.0), validate_args=False).log_prob(t([-0.5, 0.0, 1.0, 1.5]))",
    "d.HalfNormal(t(1.0), validate_args=False).log_prob(t([-0.5, 0.5]))",
    "d.LogNormal(t(0.3), t(1.2)).cdf(t([0.0, 1.0]))",
    "d.SigmoidTransform().inv(t([0.0, 0.5, 1.0]))",
    "d.SigmoidTransform()(t([-800.0, 0.5, 800.0]))",
    "d.MultivariateNormal(t([[0.3, -1.0], [0.0, 0.0]]), scale_tril=t([[2.0, 0.0], [0.3, 1.0]])).scale_tril",
    "d.Binomial(3, t(0.5)).enumerate_support()",
    "d.kl_divergence(d.HalfCauchy(t(2.5)), d.HalfCauchy(t(1.5)))",
    "d.kl_divergence(d.InverseGamma(t(2.5), t(1.7)), d.InverseGamma(t(1.5), t(0.7)))",
    "d.kl_divergence(d.Binomial(5, t(0.3)), d.Binomial(4, t(0.6)))",
    "d.kl_divergence(d.Bernoulli(t([0.0, 1.0, 0.5, 0.5])), d.Bernoulli(t([1.0, 0.0, 0.0, 0.3])))",
    "d.kl_divergence(d.Categorical(t([0.0, 0.5, 0.5])), d.Categorical(t([0.5, 0.0, 0.5])))",
    "d.utils.probs_to_logits(t([0.0, 0.5, 1.0]), is_binary=True)",
    "d.utils.logits_to_probs(t([1.0, 2.0]))",
    "d.utils.vec_to_tril_matrix(t([1.0, 2.0, 3.0]))",
    "d.utils.vec_to_tril_matrix(t([1.0, 2.0, 3.0]), -1)",
    "d.utils.tril_matrix_to_vec(t([[1.0, 2.0], [3.0, 4.0]]))",
)

_FAMILIES = {
    "Beta": "d.Beta(t(2.5), t(1.7))",
    "CB": "d.ContinuousBernoulli(t(0.3))",
    "Exponential": "d.Exponential(t(1.7))",
    "Gamma": "d.Gamma(t(2.5), t(1.7))",
    "Gumbel": "d.Gumbel(t(0.3), t(1.2))",
    "Laplace": "d.Laplace(t(0.3), t(1.2))",
    "Normal": "d.Normal(t(0.3), t(1.2))",
    "Pareto": "d.Pareto(t(0.5), t(3.2))",
    "Uniform": "d.Uniform(t(0.6), t(0.9))",
    "Wide": "d.Uniform(t(-0.5), t(1.9))",
    "Bernoulli": "d.Bernoulli(t(0.3))",
    "Binomial": "d.Binomial(t(4.0), t(0.6))",
    "Poisson": "d.Poisson(t(1.7))",
    "HalfNormal": "d.HalfNormal(t(1.7))",
    "Cauchy": "d.Cauchy(t(0.2), t(1.7))",
    "Geometric": "d.Geometric(t(0.7))",
}
_OTHERS = [
    ("d.Beta(t(2.5), t(1.7))", "d.Beta(t(0.5), t(2.7))"),
    ("d.ContinuousBernoulli(t(0.3))", "d.ContinuousBernoulli(t(0.8))"),
    ("d.Pareto(t(0.5), t(3.2))", "d.Pareto(t(0.3), t(1.2))"),
    ("d.Pareto(t(0.5), t(1.5))", "d.Normal(t(0.3), t(1.2))"),
    ("d.Pareto(t(0.5), t(0.5))", "d.Exponential(t(1.2))"),
    ("d.Normal(t(0.3), t(1.2))", "d.Normal(t([0.0, 1.0]), t(0.7))"),
    ("d.Dirichlet(t([0.5, 2.0]))", "d.Dirichlet(t([1.5, 1.0]))"),
    ("d.Categorical(t([0.5, 0.5]))", "d.Categorical(t([0.3, 0.7]))"),
    ("d.OneHotCategorical(t([0.5, 0.5]))", "d.OneHotCategorical(t([0.3, 0.7]))"),
    ("d.LogNormal(t(0.3), t(1.2))", "d.LogNormal(t(0.0), t(0.7))"),
    ("d.Independent(d.Normal(t([0.3, 1.0]), t(1.2)), 1)", "d.Independent(d.Normal(t([0.0, 1.0]), t(0.7)), 1)"),
    (
        "d.MultivariateNormal(t([0.3, -1.0]), t([[2.0, 0.3], [0.3, 1.0]]))",
        "d.LowRankMultivariateNormal(t([0.1, 0.0]), t([[0.5], [1.0]]), t([0.5, 1.0]))",
    ),
    (
        "d.LowRankMultivariateNormal(t([0.1, 0.0]), t([[0.5], [1.0]]), t([0.5, 1.0]))",
        "d.MultivariateNormal(t([0.3, -1.0]), t([[2.0, 0.3], [0.3, 1.0]]))",
    ),
    (
        "d.LowRankMultivariateNormal(t([0.1, 0.0]), t([[0.5], [1.0]]), t([0.5, 1.0]))",
        "d.LowRankMultivariateNormal(t([0.2, 0.0]), t([[0.1], [1.0]]), t([0.5, 0.4]))",
    ),
]
PAIRS = [(p, q) for p in _FAMILIES.values() for q in _FAMILIES.values()] + _OTHERS

TRANSFORMS = {
    "d.AbsTransform()": "t([0.3, -1.0])",
    "d.AffineTransform(t(1.0), t([-2.0, 3.0]))": "t([0.3, -1.0])",
    "d.AffineTransform(t(1.0), t([-2.0, 3.0]), event_dim=1)": "t([0.3, -1.0])",
    "d.CatTransform([d.ExpTransform(), d.TanhTransform()], dim=0, lengths=[1, 2])": "t([0.3, -1.0, 2.0])",
    "d.ComposeTransform([d.ExpTransform(), d.AffineTransform(t(1.0), t(2.0)), d.TanhTransform()])": "t([0.3, -1.0])",
    "d.CorrCholeskyTransform()": "t([0.3, -1.0, 0.4, 0.1, 0.2, -0.7])",
    "d.CumulativeDistributionTransform(d.Normal(t(0.3), t(1.2)))": "t([0.3, -1.0])",
    "d.ExpTransform()": "t([0.3, -1.0])",
    "d.IndependentTransform(d.ExpTransform(), 1)": "t([[0.3, -1.0], [0.2, 0.4]])",
    "d.LowerCholeskyTransform()": "t([[0.3, -1.0], [0.2, 0.4]])",
    "d.PositiveDefiniteTransform()": "t([[0.3, -1.0], [0.2, 0.4]])",
    "d.PowerTransform(t(1.7))": "t([0.3, 1.0])",
    "d.ReshapeTransform((4,), (2, 2))": "t([[0.3, -1.0, 0.2, 0.4]])",
    "d.SigmoidTransform()": "t([0.3, -1.0])",
    "d.SoftmaxTransform()": "t([0.3, -1.0])",
    "d.SoftplusTransform()": "t([0.3, -1.0])",
    "d.StackTransform([d.ExpTransform(), d.TanhTransform()], dim=1)": "t([[0.3, -1.0], [0.2, 0.4]])",
    "d.StickBreakingTransform()": "t([0.3, -1.0, 0.4])",
    "d.TanhTransform()": "t([0.3, -1.0])",
    "d.biject_to(d.constraints.interval(-1.0, 2.0))": "t([0.3, -1.0])",
    "d.biject_to(d.constraints.simplex)": "t([0.3, -1.0])",
    "d.biject_to(d.constraints.less_than(2.0))": "t([0.3, -1.0])",
    "d.transform_to(d.constraints.greater_than(2.0))": "t([0.3, -1.0])",
    "d.transform_to(d.constraints.simplex)": "t([0.3, -1.0])",
    "d.transform_to(d.constraints.lower_cholesky)": "t([[0.3, -1.0], [0.2, 0.4]])",
    "d.transform_to(d.constraints.corr_cholesky)": "t([0.3, -1.0, 0.4])",
}
_NUMBERS = "t([-1.0, 0.0, 0.5, 1.0, 2.0])"
_VECTORS = "t([[0.0, 1.0], [1.0, 1.0], [0.5, 0.5]])"
_MATRICES = (
    "t([[[1.0, 0.0], [0.6, 0.8]], [[1.0, 0.5], [0.5, 1.0]], [[1.0, 2.0], [2.0, 1.0]], [[1.0, 0.0], [0.6, -0.8]]])"
)
CONSTRAINTS = {
    **dict.fromkeys(
        ("boolean", "positive_integer", "nonnegative_integer", "positive", "nonnegative", "real"), _NUMBERS
    ),
    **dict.fromkeys(("unit_interval", "greater_than(0.5)", "less_than(0.5)", "greater_than_eq(0.5)"), _NUMBERS),
    **dict.fromkeys(("interval(0.0, 1.0)", "half_open_interval(0.0, 1.0)", "integer_interval(0, 2)"), _NUMBERS),
    **dict.fromkeys(("one_hot", "simplex", "independent(d.constraints.positive, 1)"), _VECTORS),
    **dict.fromkeys(("lower_triangular", "lower_cholesky", "corr_cholesky", "square", "symmetric"), _MATRICES),
    # Of matrices among which some are not symmetric PyTorch asks no more.
    **dict.fromkeys(
        ("positive_semidefinite", "positive_definite"), "t([[[1.0, 0.5], [0.5, 1.0]], [[1.0, 2.0], [2.0, 1.0]]])"
    ),
    "multinomial(2)": "t([[0.0, 1.0], [2.0, 1.0], [-1.0, 0.5]])",
    "real_vector": "t([[0.0, 1.0], [float('nan'), 1.0]])",
    "cat([d.constraints.positive, d.constraints.real], 0, [1, 2])": "t([-1.0, -2.0, 3.0])",
    "stack([d.constraints.positive, d.constraints.real], 1)": "t([[-1.0, -2.0], [1.0, 2.0]])",
}


def evaluated(torch: Any, text: str, factor: Any = 1.0, **names: Any) -> Any:
    """Return an expression's value: `d` are the distributions, `t` makes a float64 tensor, of integers one of those.

    The tensors are multiplied by a factor.
    """

    def t(values: Any) -> Any:
        whole = isinstance(values, list) and "." not in str(values)
        return torch.tensor(values) if whole else torch.tensor(values, dtype=torch.float64) * factor

    space = {"d": torch.distributions, "t": t, "s": torch.tensor, "torch": torch}
    return eval(text, {**space, **names})
