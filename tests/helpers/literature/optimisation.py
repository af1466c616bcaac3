"""Test problems of unconstrained optimisation."""

from __future__ import annotations

from typing import Any

import numpy as np

from .cases import case

JAMIL = "Jamil and Yang (2013), A literature survey of benchmark functions"
MORE = "More, Garbow and Hillstrom (1981), Testing unconstrained optimization software"
TOINT = "Toint (1978), Some numerical results using a sparse matrix updating formula"


@case("Rosenbrock (1960), An automatic method for finding the greatest or least value", lambda d: d.uniform(-2, 2, 6))
def rosenbrock(xp: Any, x: Any) -> Any:
    return xp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


@case(TOINT, lambda d: d.uniform(-2, 2, 10))
def chained_rosenbrock(xp: Any, x: Any) -> Any:
    total = 1.0
    for i in range(1, 10):
        alpha = 1.0 + 0.1 * i
        total = total + 4 * alpha * (x[i - 1] - x[i] ** 2) ** 2 + (1 - x[i]) ** 2
    return total


@case(f"Beale (1958); {MORE}", lambda d: d.uniform(-2, 3, 2))
def beale(xp: Any, x: Any) -> Any:
    a, b = x[0], x[1]
    return (1.5 - a + a * b) ** 2 + (2.25 - a + a * b**2) ** 2 + (2.625 - a + a * b**3) ** 2


@case(JAMIL, lambda d: d.uniform(-10, 10, 2))
def booth(xp: Any, x: Any) -> Any:
    return (x[0] + 2 * x[1] - 7) ** 2 + (2 * x[0] + x[1] - 5) ** 2


@case("Himmelblau (1972), Applied Nonlinear Programming", lambda d: d.uniform(-5, 5, 2))
def himmelblau(xp: Any, x: Any) -> Any:
    return (x[0] ** 2 + x[1] - 11) ** 2 + (x[0] + x[1] ** 2 - 7) ** 2


@case(f"Powell (1962); {MORE}", lambda d: d.uniform(-3, 3, 8))
def powell_singular(xp: Any, x: Any) -> Any:
    a, b, c, d = x[0::4], x[1::4], x[2::4], x[3::4]
    return xp.sum((a + 10 * b) ** 2 + 5 * (c - d) ** 2 + (b - 2 * c) ** 4 + 10 * (a - d) ** 4)


@case(f"Wood; {MORE}", lambda d: d.uniform(-3, 3, 4))
def wood(xp: Any, x: Any) -> Any:
    return (
        100 * (x[1] - x[0] ** 2) ** 2
        + (1 - x[0]) ** 2
        + 90 * (x[3] - x[2] ** 2) ** 2
        + (1 - x[2]) ** 2
        + 10 * (x[1] + x[3] - 2) ** 2
        + 0.1 * (x[1] - x[3]) ** 2
    )


@case(f"Colville (1968); {JAMIL}", lambda d: d.uniform(-10, 10, 4))
def colville(xp: Any, x: Any) -> Any:
    a, b, c, d = (x[i] for i in range(4))
    return (
        100 * (b - a**2) ** 2
        + (1 - a) ** 2
        + 90 * (d - c**2) ** 2
        + (1 - c) ** 2
        + 10.1 * ((b - 1) ** 2 + (d - 1) ** 2)
        + 19.8 * (b - 1) * (d - 1)
    )


@case("Styblinski and Tang (1990), Neural Networks 3", lambda d: d.uniform(-5, 5, 7))
def styblinski_tang(xp: Any, x: Any) -> Any:
    return xp.sum(x**4 - 16 * x**2 + 5 * x) / 2


@case("Ackley (1987), A Connectionist Machine for Genetic Hillclimbing", lambda d: d.uniform(-5, 5, 5))
def ackley(xp: Any, x: Any) -> Any:
    radius = xp.sqrt(xp.mean(x**2))
    return -20 * xp.exp(-0.2 * radius) - xp.exp(xp.mean(xp.cos(2 * xp.pi * x))) + 20 + np.e


@case("Griewank (1981), Generalized descent for global optimization", lambda d: d.uniform(-60, 60, 6))
def griewank(xp: Any, x: Any) -> Any:
    return xp.sum(x**2) / 4000 - xp.prod(xp.cos(x / xp.sqrt(xp.arange(6) + 1))) + 1


@case("Rastrigin (1974), Systems of Extremal Control", lambda d: d.uniform(-5, 5, 6))
def rastrigin(xp: Any, x: Any) -> Any:
    return 10 * x.shape[0] + xp.sum(x**2 - 10 * xp.cos(2 * xp.pi * x))


@case(f"Levy and Montalvo (1985); {JAMIL}", lambda d: d.uniform(-10, 10, 5))
def levy(xp: Any, x: Any) -> Any:
    w = 1 + (x - 1) / 4
    inner = (w[:-1] - 1) ** 2 * (1 + 10 * xp.sin(xp.pi * w[:-1] + 1) ** 2)
    last = (w[-1] - 1) ** 2 * (1 + xp.sin(2 * xp.pi * w[-1]) ** 2)
    return xp.sin(xp.pi * w[0]) ** 2 + xp.sum(inner) + last


@case("Branin (1972), IBM J. Res. Dev. 16", lambda d: d.uniform(-5, 10, 2))
def branin(xp: Any, x: Any) -> Any:
    bend = x[1] - 5.1 / (4 * xp.pi**2) * x[0] ** 2 + 5 / xp.pi * x[0] - 6
    return bend**2 + 10 * (1 - 1 / (8 * xp.pi)) * xp.cos(x[0]) + 10


@case("Goldstein and Price (1971), On descent from local minima", lambda d: d.uniform(-2, 2, 2))
def goldstein_price(xp: Any, x: Any) -> Any:
    a, b = x[0], x[1]
    left = 1 + (a + b + 1) ** 2 * (19 - 14 * a + 3 * a**2 - 14 * b + 6 * a * b + 3 * b**2)
    right = 30 + (2 * a - 3 * b) ** 2 * (18 - 32 * a + 12 * a**2 + 48 * b - 36 * a * b + 27 * b**2)
    return left * right


@case(f"Dixon and Szego (1978); {JAMIL}", lambda d: d.uniform(-2, 2, 2))
def six_hump_camel(xp: Any, x: Any) -> Any:
    a, b = x[0], x[1]
    return (4 - 2.1 * a**2 + a**4 / 3) * a**2 + a * b + (-4 + 4 * b**2) * b**2


@case("McCormick (1976), Math. Programming 10", lambda d: d.uniform(-1.5, 4, 2))
def mccormick(xp: Any, x: Any) -> Any:
    return xp.sin(x[0] + x[1]) + (x[0] - x[1]) ** 2 - 1.5 * x[0] + 2.5 * x[1] + 1


@case(f"Dixon and Price (1989); {JAMIL}", lambda d: d.uniform(-3, 3, 6))
def dixon_price(xp: Any, x: Any) -> Any:
    weights = xp.arange(6)[1:] + 1
    return (x[0] - 1) ** 2 + xp.sum(weights * (2 * x[1:] ** 2 - x[:-1]) ** 2)


@case(JAMIL, lambda d: d.uniform(-2, 2, 5))
def zakharov(xp: Any, x: Any) -> Any:
    slope = xp.sum(0.5 * (xp.arange(5) + 1) * x)
    return xp.sum(x**2) + slope**2 + slope**4


@case(f"Spedicato (1975); {MORE}", lambda d: d.uniform(-1, 1, 6))
def trigonometric(xp: Any, x: Any) -> Any:
    residual = 6 - xp.sum(xp.cos(x)) + (xp.arange(6) + 1) * (1 - xp.cos(x)) - xp.sin(x)
    return xp.sum(residual**2)


@case(f"Broyden (1965); {MORE}", lambda d: d.uniform(-1, 1, 9))
def broyden_tridiagonal(xp: Any, x: Any) -> Any:
    edge = xp.zeros(1)
    padded = xp.concat([edge, x, edge])
    return xp.sum(((3 - 2 * x) * x - padded[:-2] - 2 * padded[2:] + 1) ** 2)


@case(f"Broyden (1971); {MORE}", lambda d: d.uniform(-1, 1, 8))
def broyden_banded(xp: Any, x: Any) -> Any:
    total = 0.0
    for i in range(8):
        near = [j for j in range(max(0, i - 5), min(8, i + 2)) if j != i]
        total = total + (x[i] * (2 + 5 * x[i] ** 2) + 1 - sum(x[j] * (1 + x[j]) for j in near)) ** 2
    return total


@case(f"Brown (1968), almost linear; {MORE}", lambda d: d.uniform(0.3, 1.5, 6))
def brown_almost_linear(xp: Any, x: Any) -> Any:
    linear = x[:-1] + xp.sum(x) - 7
    return xp.sum(linear**2) + (xp.prod(x) - 1) ** 2


@case(f"Fletcher and Powell (1963), helical valley; {MORE}", lambda d: d.uniform(0.2, 2, 3))
def helical_valley(xp: Any, x: Any) -> Any:
    angle = xp.atan2(x[1], x[0]) / (2 * xp.pi)
    return 100 * (x[2] - 10 * angle) ** 2 + 100 * (xp.sqrt(x[0] ** 2 + x[1] ** 2) - 1) ** 2 + x[2] ** 2


@case(f"Biggs (1971), EXP6; {MORE}", lambda d: d.uniform(0.5, 3, 6))
def biggs_exp6(xp: Any, x: Any) -> Any:
    t = 0.1 * (xp.arange(13) + 1)
    y = xp.exp(-t) - 5 * xp.exp(-10 * t) + 3 * xp.exp(-4 * t)
    model = x[2] * xp.exp(-t * x[0]) - x[3] * xp.exp(-t * x[1]) + x[5] * xp.exp(-t * x[4])
    return xp.sum((model - y) ** 2)


@case(f"Watson; {MORE}", lambda d: d.uniform(-1, 1, 6))
def watson(xp: Any, x: Any) -> Any:
    t = (xp.arange(29) + 1)[:, None] / 29
    powers = t ** xp.arange(6)
    slopes = (xp.arange(6)[1:] * t ** xp.arange(5)) @ x[1:]
    residual = slopes - (powers @ x) ** 2 - 1
    return xp.sum(residual**2) + x[0] ** 2 + (x[1] - x[0] ** 2 - 1) ** 2


@case(f"Gulf research; {MORE}", lambda d: d.uniform(0.5, 1, 3) * np.array([50.0, 25.0, 1.5]))
def gulf_research(xp: Any, x: Any) -> Any:
    t = (xp.arange(20) + 1) / 100
    y = 25 + (-50 * xp.log(t)) ** (2 / 3)
    return xp.sum((xp.exp(-(xp.abs(y - x[1]) ** x[2]) / x[0]) - t) ** 2)


@case("Michalewicz (1992), Genetic Algorithms + Data Structures", lambda d: d.uniform(0.2, 3, 5))
def michalewicz(xp: Any, x: Any) -> Any:
    return -xp.sum(xp.sin(x) * xp.sin((xp.arange(5) + 1) * x**2 / xp.pi) ** 20)


@case(f"Schwefel (1981); {JAMIL}", lambda d: d.uniform(-400, 400, 5))
def schwefel(xp: Any, x: Any) -> Any:
    return 418.9829 * 5 - xp.sum(x * xp.sin(xp.sqrt(xp.abs(x))))


@case(
    "Hartmann (1973); Dixon and Szego (1978); with drawn weights and centres",
    lambda d: d.uniform(0, 1, 6),
    lambda d: {"weight": d.uniform(0.1, 8, 4, 6), "centre": d.uniform(0, 1, 4, 6)},
)
def hartmann(xp: Any, x: Any, weight: Any, centre: Any) -> Any:
    alpha = xp.asarray(np.array([1.0, 1.2, 3.0, 3.2]))
    return -xp.sum(alpha * xp.exp(-xp.sum(weight * (x - centre) ** 2, axis=1)))


@case(JAMIL, lambda d: d.uniform(-5, 5, 2))
def easom_and_eggholder(xp: Any, x: Any) -> Any:
    easom = -xp.cos(x[0]) * xp.cos(x[1]) * xp.exp(-((x[0] - xp.pi) ** 2) - (x[1] - xp.pi) ** 2)
    a = x[1] + 47
    return easom - a * xp.sin(xp.sqrt(xp.abs(a + x[0] / 2))) - x[0] * xp.sin(xp.sqrt(xp.abs(x[0] - a)))
