"""Log-likelihoods of statistical models."""

from __future__ import annotations

from typing import Any

import numpy as np

from .cases import case, unpack


def cholesky(xp: Any, a: Any) -> Any:
    """The lower factor, row by row (Cholesky-Banachiewicz), from scalars."""
    n = a.shape[0]
    rows: list[list[Any]] = []
    for i in range(n):
        row: list[Any] = []
        for j in range(i + 1):
            s = a[i, j]
            for k in range(j):
                s = s - row[k] * (row[k] if i == j else rows[j][k])
            row.append(xp.sqrt(s) if i == j else s / rows[j][j])
        rows.append(row)
    return rows


def forward_substitution(rows: Any, b: Any) -> list[Any]:
    out: list[Any] = []
    for i, row in enumerate(rows):
        s = b[i]
        for k in range(i):
            s = s - row[k] * out[k]
        out.append(s / row[i])
    return out


def gaussian(rows: Any, b: Any, xp: Any) -> Any:
    """Minus twice the log density of b under the factored covariance, less the constant."""
    total = 0.0
    for row, z in zip(rows, forward_substitution(rows, b), strict=True):
        total = total + z**2 + 2 * xp.log(row[-1])
    return total


def _design(n: int, p: int, **responses: Any) -> Any:
    return lambda d: {"design": d.normal(n, p), **{k: make(d) for k, make in responses.items()}}


@case(
    "Cox (1972), Regression models and life tables; partial likelihood, Breslow's ties",
    lambda d: d.normal(4) * 0.5,
    lambda d: {"covariates": d.normal(15, 4), "event": (d.uniform(0, 1, 15) < 0.7).astype(np.float64)},
)
def cox_partial_likelihood(xp: Any, x: Any, covariates: Any, event: Any) -> Any:
    """The subjects are in order of their times."""
    risk = covariates @ x
    at_risk = xp.flip(xp.cumsum(xp.flip(xp.exp(risk), axis=0), axis=0), axis=0)
    return xp.sum(event * (risk - xp.log(at_risk)))


@case(
    "Rasmussen and Williams (2006), Gaussian Processes for Machine Learning, algorithm 2.1",
    lambda d: d.normal(3) * 0.3,
    lambda d: {"times": np.sort(d.uniform(0, 4, 7)), "y": d.normal(7)},
)
def gaussian_process(xp: Any, x: Any, times: Any, y: Any) -> Any:
    length, height, noise = xp.exp(x[0]), xp.exp(x[1]), xp.exp(x[2])
    kernel = height**2 * xp.exp(-((times[:, None] - times[None, :]) ** 2) / (2 * length**2)) + noise**2 * xp.eye(7)
    return -gaussian(cholesky(xp, kernel), y, xp) / 2 - 3.5 * np.log(2 * np.pi)


@case(
    "Berkson (1944), Application of the logistic function to bio-assay",
    lambda d: d.normal(5),
    _design(20, 5, y=lambda d: (d.uniform(0, 1, 20) < 0.5).astype(np.float64)),
)
def logistic_regression(xp: Any, x: Any, design: Any, y: Any) -> Any:
    eta = design @ x
    return xp.sum(xp.softplus(eta) - y * eta) + 0.1 * xp.sum(x**2)


@case(
    "Bliss (1934), The method of probits",
    lambda d: d.normal(4) * 0.5,
    _design(20, 4, y=lambda d: (d.uniform(0, 1, 20) < 0.5).astype(np.float64)),
)
def probit_regression(xp: Any, x: Any, design: Any, y: Any) -> Any:
    sign = 2 * y - 1
    return -xp.sum(xp.log(xp.erfc(-sign * (design @ x) / np.sqrt(2.0)) / 2))


@case(
    "Nelder and Wedderburn (1972), Generalized linear models; Poisson",
    lambda d: d.normal(4) * 0.5,
    _design(20, 4, y=lambda d: d.integers(6, 20).astype(np.float64)),
)
def poisson_regression(xp: Any, x: Any, design: Any, y: Any) -> Any:
    eta = design @ x
    return xp.sum(xp.exp(eta) - y * eta + xp.lgamma(y + 1))


@case(
    "Hilbe (2011), Negative Binomial Regression",
    lambda d: d.normal(5) * 0.4,
    _design(20, 4, y=lambda d: d.integers(9, 20).astype(np.float64)),
)
def negative_binomial_regression(xp: Any, x: Any, design: Any, y: Any) -> Any:
    size, mean = xp.exp(x[4]), xp.exp(design @ x[:4])
    combinations = xp.lgamma(y + size) - xp.lgamma(size) - xp.lgamma(y + 1)
    return -xp.sum(combinations + size * xp.log(size / (size + mean)) + y * xp.log(mean / (size + mean)))


@case(
    "Lange, Little and Taylor (1989), Robust statistical modeling using the t distribution",
    lambda d: d.normal(6) * 0.5,
    _design(18, 4, y=lambda d: d.normal(18) * 2),
)
def student_t_regression(xp: Any, x: Any, design: Any, y: Any) -> Any:
    scale, freedom = xp.exp(x[4]), xp.exp(x[5]) + 1
    z = (y - design @ x[:4]) / scale
    constant = xp.lgamma((freedom + 1) / 2) - xp.lgamma(freedom / 2) - xp.log(freedom * xp.pi) / 2 - xp.log(scale)
    return xp.sum(constant - (freedom + 1) / 2 * xp.log1p(z**2 / freedom))


@case(
    "Minka (2000), Estimating a Dirichlet distribution; Dirichlet-multinomial (Polya)",
    lambda d: d.normal(4) * 0.6,
    lambda d: {"counts": d.integers(7, 8, 4).astype(np.float64)},
)
def dirichlet_multinomial(xp: Any, x: Any, counts: Any) -> Any:
    alpha = xp.exp(x)
    total, size = xp.sum(alpha), xp.sum(counts, axis=1)
    rows = xp.sum(xp.lgamma(counts + alpha) - xp.lgamma(alpha), axis=1)
    return xp.sum(xp.lgamma(total) - xp.lgamma(size + total) + rows)


@case(
    "Minka (2000), Estimating a Dirichlet distribution; the fixed-point residual",
    lambda d: d.uniform(0.3, 3, 4),
    lambda d: {"logs": -d.uniform(0.2, 3, 4)},
)
def dirichlet_stationarity(xp: Any, x: Any, logs: Any) -> Any:
    return xp.sum((xp.digamma(x) - xp.digamma(xp.sum(x)) - logs) ** 2)


@case(
    "McCullagh (1980), Regression models for ordinal data",
    lambda d: d.normal(6) * 0.5,
    lambda d: {"design": d.normal(15, 3), "y": d.integers(4, 15)},
)
def ordinal_regression(xp: Any, x: Any, design: Any, y: Any) -> Any:
    cuts = xp.cumsum(xp.concat([x[3:4], xp.exp(x[4:])]), axis=0)
    below = xp.sigmoid(cuts[None, :] - (design @ x[:3])[:, None])
    edge = xp.zeros(15, 1)
    cumulative = xp.concat([edge, below, edge + 1], axis=1)
    mass = cumulative[:, 1:] - cumulative[:, :-1]
    return xp.sum(xp.log(mass[np.arange(15), y]))


@case(
    "Plackett (1975), The analysis of permutations; Luce (1959)",
    lambda d: d.normal(6),
    lambda d: {"rankings": np.stack([np.argsort(d.uniform(0, 1, 6)) for _ in range(7)])},
)
def plackett_luce(xp: Any, x: Any, rankings: Any) -> Any:
    ordered = x[rankings]
    total = 0.0
    for k in range(5):
        total = total + xp.sum(ordered[:, k] - xp.logsumexp(ordered[:, k:], axis=1))
    return total


@case(
    "Bradley and Terry (1952), Rank analysis of incomplete block designs",
    lambda d: d.normal(5),
    lambda d: {"winner": d.integers(5, 14), "loser": d.integers(5, 14)},
)
def bradley_terry(xp: Any, x: Any, winner: Any, loser: Any) -> Any:
    return -xp.sum(xp.softplus(xp.take(x, loser, axis=0) - xp.take(x, winner, axis=0))) - xp.sum(x**2) / 8


@case(
    "Laird and Ware (1982), Random-effects models for longitudinal data",
    lambda d: d.normal(4) * 0.5,
    lambda d: {"design": d.normal(4, 5, 2), "y": d.normal(4, 5)},
)
def mixed_effects(xp: Any, x: Any, design: Any, y: Any) -> Any:
    """Random intercepts: the covariance of a group is s I + t 11', inverted in closed form."""
    noise, group = xp.exp(x[2]), xp.exp(x[3])
    residual = y - design @ x[:2]
    total = xp.sum(residual, axis=1)
    quadratic = xp.sum(residual**2, axis=1) / noise - group * total**2 / (noise * (noise + 5 * group))
    return -xp.sum(quadratic + 4 * xp.log(noise) + xp.log(noise + 5 * group)) / 2


@case(
    "Birnbaum (1968), item response theory; three parameters, Lord (1980)",
    lambda d: d.normal(6 + 3 * 4) * 0.7,
    lambda d: {"answers": (d.uniform(0, 1, 6, 4) < 0.6).astype(np.float64)},
)
def item_response(xp: Any, x: Any, answers: Any) -> Any:
    ability, log_slope, difficulty, guess = unpack(x, (6,), (4,), (4,), (4,))
    floor = xp.sigmoid(guess)
    p = floor + (1 - floor) * xp.sigmoid(xp.exp(log_slope) * (ability[:, None] - difficulty))
    return xp.sum(answers * xp.log(p) + (1 - answers) * xp.log1p(-p)) - xp.sum(ability**2) / 2


@case(
    "Neal (2003), Slice sampling: the funnel",
    lambda d: d.normal(6),
)
def neal_funnel(xp: Any, x: Any) -> Any:
    return -(x[0] ** 2) / 18 - xp.sum(x[1:] ** 2) * xp.exp(-x[0]) / 2 - 5 * x[0] / 2


@case(
    "Rubin (1981), Estimation in parallel randomized experiments: eight schools",
    lambda d: d.normal(10),
)
def eight_schools(xp: Any, x: Any) -> Any:
    y = xp.asarray(np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0]))
    sigma = xp.asarray(np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0]))
    mu, tau = 5 * x[0], 5 * xp.exp(x[1])
    theta = mu + tau * x[2:]
    half_cauchy = -xp.log1p((tau / 5) ** 2) + x[1]
    return -xp.sum(((y - theta) / sigma) ** 2) / 2 - xp.sum(x[2:] ** 2) / 2 - x[0] ** 2 / 2 + half_cauchy


@case(
    "Koenker and Bassett (1978), Regression quantiles; Huber (1964), Robust estimation of a location parameter",
    lambda d: d.normal(3),
    _design(16, 3, y=lambda d: d.normal(16)),
)
def robust_regression(xp: Any, x: Any, design: Any, y: Any) -> Any:
    r = y - design @ x
    huber = xp.where(xp.abs(r) <= 1.345, r**2 / 2, 1.345 * (xp.abs(r) - 0.6725))
    pinball = xp.maximum(0.8 * r, -0.2 * r)
    return xp.sum(huber) + xp.sum(pinball)


@case(
    "Lambert (1992), Zero-inflated Poisson regression",
    lambda d: d.normal(6) * 0.5,
    _design(18, 3, y=lambda d: (d.integers(5, 18) * (d.uniform(0, 1, 18) < 0.6)).astype(np.float64)),
)
def zero_inflated_poisson(xp: Any, x: Any, design: Any, y: Any) -> Any:
    rate, logit = design @ x[:3], design @ x[3:]
    zero = xp.logaddexp(logit, -xp.exp(rate))
    other = y * rate - xp.exp(rate) - xp.lgamma(y + 1)
    return xp.sum(xp.where(y == 0, zero, other) - xp.softplus(logit))


@case(
    "Ferrari and Cribari-Neto (2004), Beta regression for modelling rates and proportions",
    lambda d: d.normal(4) * 0.5,
    _design(14, 3, y=lambda d: d.uniform(0.1, 0.9, 14)),
)
def beta_regression(xp: Any, x: Any, design: Any, y: Any) -> Any:
    mean, precision = xp.sigmoid(design @ x[:3]), xp.exp(x[3]) * 3
    a, b = mean * precision, (1 - mean) * precision
    return xp.sum(xp.lgamma(precision) - xp.lgamma(a) - xp.lgamma(b) + (a - 1) * xp.log(y) + (b - 1) * xp.log1p(-y))


@case(
    "Weibull (1951); censored regression with an extreme-value error, Kalbfleisch and Prentice (1980)",
    lambda d: d.normal(4) * 0.4,
    _design(14, 3, y=lambda d: d.uniform(0.2, 4, 14), event=lambda d: (d.uniform(0, 1, 14) < 0.6).astype(np.float64)),
)
def weibull_survival(xp: Any, x: Any, design: Any, y: Any, event: Any) -> Any:
    scale = xp.exp(x[3])
    z = (xp.log(y) - design @ x[:3]) / scale
    return xp.sum(event * (z - xp.log(scale)) - xp.exp(z))


@case(
    "Pinheiro and Bates (1996), Unconstrained parametrizations for variance-covariance matrices",
    lambda d: d.normal(3 + 6) * 0.5,
    lambda d: {"y": d.normal(9, 3)},
)
def multivariate_normal(xp: Any, x: Any, y: Any) -> Any:
    mean, diagonal, lower = unpack(x, (3,), (3,), (3,))
    factor = [
        [xp.exp(diagonal[0])],
        [lower[0], xp.exp(diagonal[1])],
        [lower[1], lower[2], xp.exp(diagonal[2])],
    ]
    residual = (y - mean).T
    return -sum(xp.sum(z**2) for z in forward_substitution(factor, residual)) / 2 - 9 * xp.sum(diagonal)
