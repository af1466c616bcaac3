"""Prices of financial contracts, as differentiable functions of their parameters."""

from __future__ import annotations

from typing import Any

import numpy as np

from .cases import case


def normal_cdf(xp: Any, x: Any) -> Any:
    return xp.erfc(-x / np.sqrt(2.0)) / 2


def black_scholes_call(xp: Any, spot: Any, strike: Any, volatility: Any, rate: Any, years: Any) -> Any:
    deviation = volatility * xp.sqrt(years)
    d1 = (xp.log(spot / strike) + (rate + volatility**2 / 2) * years) / deviation
    return spot * normal_cdf(xp, d1) - strike * xp.exp(-rate * years) * normal_cdf(xp, d1 - deviation)


MARKET = np.array([100.0, 100.0, 0.2, 0.03, 1.0])


@case("Black and Scholes (1973), The pricing of options", lambda d: MARKET * d.uniform(0.8, 1.2, 5))
def black_scholes(xp: Any, x: Any) -> Any:
    return black_scholes_call(xp, *(x[i] for i in range(5)))


@case(
    "Heston (1993), A closed-form solution for options with stochastic volatility; Lewis (2000)",
    lambda d: np.array([100.0, 0.04, 1.5, 0.05, 0.4, -0.6]) * d.uniform(0.9, 1.1, 6),
)
def heston(xp: Any, x: Any) -> Any:
    """Lewis's single integral, by the trapezoidal rule."""
    spot, v0, kappa, theta, sigma, rho = (x[i] for i in range(6))
    strike, years, rate = 95.0, 1.0, 0.02
    u = xp.asarray(np.linspace(0.0, 40.0, 257)) - 0.5j
    beta = kappa - rho * sigma * 1j * u
    d = xp.sqrt(beta**2 + sigma**2 * (1j * u + u**2))
    g = (beta - d) / (beta + d)
    decay = xp.exp(-d * years)
    c = kappa * theta / sigma**2 * ((beta - d) * years - 2 * xp.log((1 - g * decay) / (1 - g)))
    big_d = (beta - d) / sigma**2 * (1 - decay) / (1 - g * decay)
    phi = xp.exp(c + big_d * v0 + 1j * u * (xp.log(spot / strike) + rate * years))
    weights = xp.asarray(np.r_[0.5, np.ones(255), 0.5] * 40 / 256)
    real = xp.real(u)
    integral = xp.sum(weights * xp.real(phi) / (real**2 + 0.25))
    return spot - strike * np.exp(-rate * years) / np.pi * integral


@case(
    "Longstaff and Schwartz (2001), Valuing American options by simulation; fixed draws, European average",
    lambda d: np.array([100.0, 0.25, 0.03]) * d.uniform(0.9, 1.1, 3),
    lambda d: {"draws": d.normal(40, 6)},
)
def monte_carlo_asian(xp: Any, x: Any, draws: Any) -> Any:
    spot, volatility, rate = x[0], x[1], x[2]
    step = 1 / 6
    logs = xp.cumsum((rate - volatility**2 / 2) * step + volatility * step**0.5 * draws, axis=1)
    average = xp.mean(spot * xp.exp(logs), axis=1)
    return xp.mean(xp.exp(-rate) * xp.maximum(average - 100.0, 0.0))


@case(
    "Longstaff and Schwartz (2001), continuation value by least squares on fixed draws",
    lambda d: np.array([1.0, 0.3]) * d.uniform(0.95, 1.05, 2),
    lambda d: {"draws": d.normal(30, 2)},
)
def longstaff_schwartz(xp: Any, x: Any, draws: Any) -> Any:
    discount = float(np.exp(-0.06))
    first = x[0] * xp.exp(0.06 - x[1] ** 2 / 2 + x[1] * draws[:, 0])
    second = first * xp.exp(0.06 - x[1] ** 2 / 2 + x[1] * draws[:, 1])
    later = discount * xp.maximum(1.1 - second, 0.0)
    basis = xp.stack([xp.ones(30), first], axis=1)
    gram, moment = basis.T @ basis, basis.T @ later
    determinant = gram[0, 0] * gram[1, 1] - gram[0, 1] * gram[1, 0]
    slope = (gram[0, 0] * moment[1] - gram[1, 0] * moment[0]) / determinant
    offset = (moment[0] - gram[0, 1] * slope) / gram[0, 0]
    exercise = xp.maximum(1.1 - first, 0.0)
    held = offset + slope * first
    return discount * xp.mean(xp.where(exercise > held, exercise, later))


@case("Vasicek (1977), An equilibrium characterization of the term structure", lambda d: d.uniform(0.02, 0.5, 4))
def vasicek_bond(xp: Any, x: Any) -> Any:
    rate, speed, level, sigma = (x[i] for i in range(4))
    years = xp.arange(5) + 1
    b = -xp.expm1(-speed * years) / speed
    a = (level - sigma**2 / (2 * speed**2)) * (b - years) - sigma**2 * b**2 / (4 * speed)
    return xp.sum(xp.exp(a - b * rate))


@case(
    "Cox, Ingersoll and Ross (1985), A theory of the term structure of interest rates",
    lambda d: d.uniform(0.05, 0.4, 4),
)
def cox_ingersoll_ross(xp: Any, x: Any) -> Any:
    rate, speed, level, sigma = (x[i] for i in range(4))
    years = xp.arange(5) + 1
    h = xp.sqrt(speed**2 + 2 * sigma**2)
    growth = xp.expm1(h * years)
    below = 2 * h + (speed + h) * growth
    log_a = 2 * speed * level / sigma**2 * xp.log(2 * h * xp.exp((speed + h) * years / 2) / below)
    return xp.sum(xp.exp(log_a - 2 * growth / below * rate))


@case(
    "Hagan et al. (2002), Managing smile risk", lambda d: np.array([0.3, 0.6, -0.3, 0.5, 1.0]) * d.uniform(0.8, 1.1, 5)
)
def sabr(xp: Any, x: Any) -> Any:
    alpha, beta, rho, nu, forward = (x[i] for i in range(5))
    strike = xp.asarray(np.array([0.6, 0.7, 1.25, 1.4]))
    years = 2.0
    log_moneyness = xp.log(forward / strike)
    mid = (forward * strike) ** ((1 - beta) / 2)
    z = nu / alpha * mid * log_moneyness
    chi = xp.log((xp.sqrt(1 - 2 * rho * z + z**2) + z - rho) / (1 - rho))
    below = mid * (1 + (1 - beta) ** 2 / 24 * log_moneyness**2 + (1 - beta) ** 4 / 1920 * log_moneyness**4)
    time = (
        (1 - beta) ** 2 / 24 * alpha**2 / mid**2 + rho * beta * nu * alpha / (4 * mid) + (2 - 3 * rho**2) / 24 * nu**2
    )
    return xp.sum(alpha / below * z / chi * (1 + time * years))


@case(
    "Cox, Ross and Rubinstein (1979), Option pricing: a simplified approach; American put",
    lambda d: np.array([100.0, 0.3, 0.05]) * d.uniform(0.9, 1.1, 3),
)
def american_put_tree(xp: Any, x: Any) -> Any:
    steps, strike, years = 12, 103.0, 1.0
    spot, volatility, rate = x[0], x[1], x[2]
    dt = years / steps
    up = xp.exp(volatility * dt**0.5)
    probability = (xp.exp(rate * dt) - 1 / up) / (up - 1 / up)
    discount = xp.exp(-rate * dt)
    values = xp.maximum(strike - spot * up ** (2 * xp.arange(steps + 1) - steps), 0.0)
    for n in range(steps - 1, -1, -1):
        held = discount * (probability * values[1:] + (1 - probability) * values[:-1])
        values = xp.maximum(strike - spot * up ** (2 * xp.arange(n + 1) - n), held)
    return values[0]


@case(
    "Merton (1976), Option pricing when underlying stock returns are discontinuous",
    lambda d: np.array([100.0, 0.2, 0.5, -0.1, 0.15]) * d.uniform(0.9, 1.1, 5),
)
def merton_jumps(xp: Any, x: Any) -> Any:
    spot, volatility, intensity, jump, spread = (x[i] for i in range(5))
    years, rate, strike = 1.0, 0.03, 105.0
    mean = xp.exp(jump + spread**2 / 2) - 1
    total = 0.0
    for n in range(8):
        sigma = xp.sqrt(volatility**2 + n * spread**2 / years)
        drift = rate - intensity * mean + n * (jump + spread**2 / 2) / years
        log_weight = (
            -intensity * (1 + mean) * years
            + n * xp.log(intensity * (1 + mean) * years)
            - xp.lgamma(xp.ones(1)[0] * (n + 1))
        )
        total = total + xp.exp(log_weight) * black_scholes_call(xp, spot, strike, sigma, drift, xp.ones(1)[0] * years)
    return total


@case(
    "Markowitz (1952), Portfolio selection; softmax weights, mean-variance utility and entropy",
    lambda d: d.normal(6),
    lambda d: {"returns": d.normal(25, 6) * 0.1},
)
def portfolio(xp: Any, x: Any, returns: Any) -> Any:
    weights = xp.softmax(x, axis=0)
    centred = returns - xp.mean(returns, axis=0)
    covariance = centred.T @ centred / 24
    growth = xp.mean(returns, axis=0) @ weights
    return growth - 5 * weights @ covariance @ weights - 0.01 * xp.sum(weights * xp.log(weights))


@case(
    "Nelson and Siegel (1987), Parsimonious modeling of yield curves",
    lambda d: d.uniform(0.5, 2, 4),
    lambda d: {"years": d.uniform(0.5, 20, 9), "yields": d.uniform(0, 3, 9)},
)
def nelson_siegel(xp: Any, x: Any, years: Any, yields: Any) -> Any:
    scaled = years / x[3]
    loading = -xp.expm1(-scaled) / scaled
    return xp.sum((x[0] + x[1] * loading + x[2] * (loading - xp.exp(-scaled)) - yields) ** 2)
