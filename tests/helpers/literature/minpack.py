"""Problems of MINPACK-2 and of the literature on automatic differentiation."""

from __future__ import annotations

from typing import Any

import numpy as np

from .cases import case

MINPACK2 = "Averick, Carter, More and Xue (1992), The MINPACK-2 test problem collection"
GRIEWANK = "Griewank (1989), On automatic differentiation"


@case(
    f"Helmholtz energy of a mixed fluid; {GRIEWANK}",
    lambda d: d.uniform(0.1, 1, 8) / 8,
    lambda d: {"b": d.uniform(0.5, 1.5, 8), "a": d.uniform(0.1, 1, 8, 8)},
)
def helmholtz_energy(xp: Any, x: Any, b: Any, a: Any) -> Any:
    gas, temperature = 0.082, 3.0
    bx = xp.sum(b * x)
    root2 = np.sqrt(2.0)
    entropy = xp.sum(x * xp.log(x / (1 - bx)))
    attraction = x @ ((a + a.T) / 2) @ x / (np.sqrt(8.0) * bx)
    return gas * temperature * entropy - attraction * xp.log((1 + (1 + root2) * bx) / (1 + (1 - root2) * bx))


@case(f"Speelpenning (1980), Compiling fast partial derivatives; {GRIEWANK}", lambda d: d.uniform(-2, 2, 12))
def speelpenning(xp: Any, x: Any) -> Any:
    total = x[0]
    for i in range(1, 12):
        total = total * x[i]
    return total


@case(
    f"Speelpenning's product, one of the factors zero; {GRIEWANK}", lambda d: d.uniform(-2, 2, 7) * (np.arange(7) != 3)
)
def product_with_zero(xp: Any, x: Any) -> Any:
    return xp.prod(x) + xp.sum(xp.cumprod(x, axis=0))


@case("Griewank and Walther (2008), Evaluating Derivatives, 2.3: determinant by minors", lambda d: d.normal(4, 4))
def determinant_by_minors(xp: Any, x: Any) -> Any:
    def minor(rows: list[int], columns: list[int]) -> Any:
        if len(rows) == 1:
            return x[rows[0], columns[0]]
        total = 0.0
        for i, column in enumerate(columns):
            rest = columns[:i] + columns[i + 1 :]
            total = total + (-1.0) ** i * x[rows[0], column] * minor(rows[1:], rest)
        return total

    return minor(list(range(4)), list(range(4)))


@case("Griewank and Walther (2008), Evaluating Derivatives, table 1.1", lambda d: d.uniform(0.5, 2, 2))
def griewank_walther_example(xp: Any, x: Any) -> Any:
    return (xp.sin(x[0] / x[1]) + x[0] / x[1] - xp.exp(x[1])) * (x[0] / x[1] - xp.exp(x[1]))


@case("Wengert (1964), A simple automatic derivative evaluation program", lambda d: d.uniform(0.5, 2, 5))
def wengert_example(xp: Any, x: Any) -> Any:
    total = x[0]
    for i in range(1, 5):
        total = xp.log(x[i] * total**2 + xp.exp(xp.sin(x[i - 1] * total)))
    return total


def _squares(residuals: list[Any]) -> Any:
    total = 0.0
    for r in residuals:
        total = total + r**2
    return total


@case(f"Human heart dipole; {MINPACK2}", lambda d: d.uniform(-1.5, 1.5, 8))
def human_heart_dipole(xp: Any, x: Any) -> Any:
    a, b, c, d, t, u, v, w = (x[i] for i in range(8))
    sums = [0.485, -0.0019, -0.0581, 0.015, 0.105, 0.0406, 0.167, -0.399]
    left = [
        a + b,
        c + d,
        t * a + u * b - v * c - w * d,
        v * a + w * b + t * c + u * d,
        a * (t**2 - v**2) - 2 * c * t * v + b * (u**2 - w**2) - 2 * d * u * w,
        c * (t**2 - v**2) + 2 * a * t * v + d * (u**2 - w**2) + 2 * b * u * w,
        a * t * (t**2 - 3 * v**2) + c * v * (v**2 - 3 * t**2) + b * u * (u**2 - 3 * w**2) + d * w * (w**2 - 3 * u**2),
        c * t * (t**2 - 3 * v**2) - a * v * (v**2 - 3 * t**2) + d * u * (u**2 - 3 * w**2) - b * w * (w**2 - 3 * u**2),
    ]
    return _squares([f - s for f, s in zip(left, sums, strict=True)])


@case(
    f"Coating thickness standardization; {MINPACK2}",
    lambda d: np.concatenate([d.uniform(-2, 2, 8), d.uniform(-0.1, 0.1, 12)]),
    lambda d: {"xi": d.uniform(0, 2, 6, 2), "y": d.uniform(0, 5, 6, 2)},
)
def coating_thickness(xp: Any, x: Any, xi: Any, y: Any) -> Any:
    shift = x[8:].reshape(2, 6).T
    z = xi + shift
    rows = [
        x[4 * k] + x[4 * k + 1] * z[:, 0] + x[4 * k + 2] * z[:, 1] + x[4 * k + 3] * z[:, 0] * z[:, 1] for k in (0, 1)
    ]
    weights = 1 + xp.arange(6) / 6
    return xp.sum((xp.stack(rows, axis=1) - y) ** 2) + xp.sum((weights[:, None] * shift) ** 2)


@case(f"Combustion of propane, reduced; {MINPACK2}", lambda d: d.uniform(0.05, 2, 5))
def combustion_of_propane(xp: Any, x: Any) -> Any:
    r5, r6, r7, r8, r9, r10 = 0.193, 4.1062e-4, 5.4518e-4, 4.4975e-7, 3.4074e-5, 9.615e-7
    a, b, c, d, e = (x[i] for i in range(5))
    return _squares(
        [
            a * b + a - 3 * e,
            2 * a * b + a + 2 * r10 * b**2 + b * c**2 + r7 * b * c + r9 * b * d + r8 * b - 10 * e,
            2 * b * c**2 + r7 * b * c + 2 * r5 * c**2 + r6 * c - 8 * e,
            r9 * b * d + 2 * d**2 - 40 * e,
            a * b + a + r10 * b**2 + b * c**2 + r7 * b * c + r9 * b * d + r8 * b + r5 * c**2 + r6 * c + d**2 - 1,
        ]
    )


@case(f"Kowalik and Osborne (1968), enzyme reaction; {MINPACK2}", lambda d: d.uniform(0.1, 0.5, 4))
def enzyme_reaction(xp: Any, x: Any) -> Any:
    u = np.array([4.0, 2.0, 1.0, 0.5, 0.25, 0.167, 0.125, 0.1, 0.0833, 0.0714, 0.0625])
    y = np.array([0.1957, 0.1947, 0.1735, 0.16, 0.0844, 0.0627, 0.0456, 0.0342, 0.0323, 0.0235, 0.0246])
    u, y = xp.asarray(u), xp.asarray(y)
    return xp.sum((y - x[0] * (u**2 + u * x[1]) / (u**2 + u * x[2] + x[3])) ** 2)


@case(
    "Fletcher (1965), Function minimization without evaluating derivatives: Chebyquad",
    lambda d: d.uniform(0.1, 0.9, 8),
)
def chebyshev_quadrature(xp: Any, x: Any) -> Any:
    before, now = xp.ones(8), 2 * x - 1
    total = 0.0
    for i in range(1, 9):
        integral = 0.0 if i % 2 else -1.0 / (i**2 - 1)
        total = total + (xp.mean(now) - integral) ** 2
        before, now = now, 2 * (2 * x - 1) * now - before
    return total


@case(f"Flow in a channel, collocation of u'''' = R (u' u'' - u u'''); {MINPACK2}", lambda d: d.uniform(-0.5, 0.5, 16))
def flow_in_a_channel(xp: Any, x: Any) -> Any:
    n, reynolds = 4, 10.0
    h = 1.0 / n
    c = x.reshape(n, 4)

    def at(k: int, t: float) -> list[Any]:
        # u and its first three derivatives on interval k: a cubic with the fourth from the equation.
        powers = [[1.0, t, t**2 / 2, t**3 / 6], [0.0, 1.0, t, t**2 / 2], [0.0, 0.0, 1.0, t], [0.0, 0.0, 0.0, 1.0]]
        return [sum(p * c[k, j] for j, p in enumerate(row)) for row in powers]

    residuals = []
    for k in range(n):
        for s in (0.2113248654051871, 0.7886751345948129):
            u, u1, u2, u3 = at(k, s * h)
            residuals.append(reynolds * (u1 * u2 - u * u3))
        if k + 1 < n:
            residuals += [left - right for left, right in zip(at(k, h), at(k + 1, 0.0), strict=True)]
    first, last = at(0, 0.0), at(n - 1, h)
    return _squares([*residuals, first[0], first[1], last[0] - 1, last[1]])


def _framed(xp: Any, inner: Any, top: Any, left: Any) -> Any:
    """A grid with given values on its border."""
    n = inner.shape[0] + 2
    rows = xp.concat([left[:, None], inner, left[:, None] / 2], axis=1)
    out = xp.concat([top[None], rows, 2 * top[None]], axis=0)
    assert out.shape == (n, n)
    return out


@case(
    f"Minimal surface area; {MINPACK2}",
    lambda d: d.uniform(-1, 1, 5, 5),
    lambda d: {"top": d.uniform(-1, 1, 7), "left": d.uniform(-1, 1, 5)},
)
def minimal_surface(xp: Any, x: Any, top: Any, left: Any) -> Any:
    v, h = _framed(xp, x, top, left), 1 / 6
    dx, dy = (v[1:] - v[:-1]) / h, (v[:, 1:] - v[:, :-1]) / h
    lower = xp.sqrt(1 + dx[:, :-1] ** 2 + dy[:-1] ** 2)
    upper = xp.sqrt(1 + dx[:, 1:] ** 2 + dy[1:] ** 2)
    return h**2 / 2 * xp.sum(lower + upper)


@case(f"Elastic-plastic torsion; {MINPACK2}", lambda d: d.uniform(0, 0.1, 5, 5))
def elastic_plastic_torsion(xp: Any, x: Any) -> Any:
    h = 1 / 6
    v = _framed(xp, x, xp.zeros(7), xp.zeros(5))
    dx, dy = (v[1:] - v[:-1]) / h, (v[:, 1:] - v[:, :-1]) / h
    return h**2 * ((xp.sum(dx**2) + xp.sum(dy**2)) / 2 - 5 * xp.sum(x))


@case(f"Pressure in a journal bearing; {MINPACK2}", lambda d: d.uniform(0, 0.5, 5, 5))
def journal_bearing(xp: Any, x: Any) -> Any:
    eccentricity, hx, hy = 0.1, 2 * np.pi / 6, 20 / 6
    angle = xp.arange(7) * hx
    thickness = (1 + eccentricity * xp.cos(angle)) ** 3
    v = _framed(xp, x, xp.zeros(7), xp.zeros(5))
    wq = (thickness[1:] + thickness[:-1])[:, None] / 2
    stiff = xp.sum(wq * ((v[1:] - v[:-1]) / hx) ** 2) + xp.sum(thickness[:, None] * ((v[:, 1:] - v[:, :-1]) / hy) ** 2)
    return hx * hy * (stiff / 2 - xp.sum(eccentricity * xp.sin(angle[1:-1])[:, None] * x))


@case(f"Optimal design with composite materials; {MINPACK2}", lambda d: d.uniform(-0.03, 0.03, 5, 5))
def optimal_design(xp: Any, x: Any) -> Any:
    mu1, mu2, weight, h = 1.0, 2.0, 0.008, 1 / 6
    t1 = float(np.sqrt(2 * weight * mu1 / mu2))
    t2 = float(np.sqrt(2 * weight * mu2 / mu1))
    v = _framed(xp, x, xp.zeros(7), xp.zeros(5))
    dx, dy = (v[1:] - v[:-1])[:, :-1] / h, (v[:, 1:] - v[:, :-1])[:-1] / h
    # The squared slope vanishes in a corner: the branch that is not taken has an infinite slope there.
    t = xp.sqrt(dx**2 + dy**2 + 1e-6)
    low = mu2 * t**2 / 2
    middle = mu2 * t1 * (t - t1 / 2)
    high = mu1 * (t**2 - t2**2) / 2 + mu2 * t1 * (t2 - t1 / 2)
    return h**2 * xp.sum(xp.where(t <= t1, low, xp.where(t <= t2, middle, high)) + 0.1 * v[:-1, :-1])


@case(f"Ginzburg-Landau superconductivity in two dimensions; {MINPACK2}", lambda d: d.uniform(-1, 1, 4, 4, 4))
def ginzburg_landau(xp: Any, x: Any) -> Any:
    n, kappa, vortices = 4, 5.0, 2
    hx, hy = float(np.sqrt(vortices / 2)) * 3 / n, float(np.sqrt(vortices / 2)) * 3 * np.sqrt(3.0) / n
    psi = x[0] + 1j * x[1]
    ax, ay = x[2], x[3]
    field = 2 * np.pi * vortices / (n * n * hx * hy)
    # Quasi-periodic in x, periodic in y; the vector potential gains the total flux over a period.
    phase = xp.exp(1j * (field * n * hx * hy) * xp.arange(n))
    right = xp.concat([psi[1:], (psi[:1] * phase)], axis=0)
    above = xp.roll(psi, -1, 1)
    ay_right = xp.concat([ay[1:], ay[:1] + field * n * hx], axis=0)
    ax_above = xp.roll(ax, -1, 1)
    density = xp.abs(psi) ** 2
    condensation = xp.sum(-density + density**2 / 2)
    jx = right - psi * xp.exp(1j * ax * hx)
    jy = above - psi * xp.exp(1j * ay * hy)
    kinetic = xp.sum(xp.real(jx) ** 2 + xp.imag(jx) ** 2) / hx**2 + xp.sum(xp.abs(jy) ** 2) / hy**2
    magnetic = xp.sum(((ay_right - ay) / hx - (ax_above - ax) / hy) ** 2)
    return (condensation + kinetic + kappa**2 * magnetic) / n**2


@case("Hilbert (1894), Ein Beitrag zur Theorie des Legendre'schen Polynoms: the Hilbert matrix", lambda d: d.normal(8))
def hilbert_quadratic(xp: Any, x: Any) -> Any:
    i = xp.arange(8)
    return x @ (1 / (i[:, None] + i[None, :] + 1)) @ x + xp.sum(xp.square(x - 1))
