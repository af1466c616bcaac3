"""Small dense vector functions of the literature on Jacobians, with a point for each."""

from __future__ import annotations

from typing import Any

import numpy as np

import wengert as wg


def heart_dipole(x: Any) -> Any:
    """Nelson and Hodgkin 1981; Averick, Carter, More and Xue 1992, MINPACK-2."""
    a, b, c, d, t, u, v, w = x
    tv, uw = t**2 - v**2, u**2 - w**2
    return wg.stack(
        [
            a + b + 0.816,
            c + d + 0.017,
            a * t + b * u - c * v - d * w + 1.826,
            a * v + b * w + c * t + d * u + 0.754,
            a * tv - 2 * c * t * v + b * uw - 2 * d * u * w + 4.839,
            c * tv + 2 * a * t * v + d * uw + 2 * b * u * w + 3.259,
            a * t * (t**2 - 3 * v**2)
            + c * v * (v**2 - 3 * t**2)
            + b * u * (u**2 - 3 * w**2)
            + d * w * (w**2 - 3 * u**2)
            + 14.023,
            c * t * (t**2 - 3 * v**2)
            - a * v * (v**2 - 3 * t**2)
            + d * u * (u**2 - 3 * w**2)
            - b * w * (w**2 - 3 * u**2)
            - 15.467,
        ]
    )


def propane(x: Any) -> Any:
    """Combustion of propane in air, full formulation (Meintjes and Morgan 1990; MINPACK-2)."""
    x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11 = x
    p, r = 40.0, 10.0
    k5, k6, k7, k8, k9, k10 = 1.930e-1, 2.597e-3, 3.448e-3, 1.799e-5, 2.155e-4, 3.846e-5
    ratio = p / x11
    root = wg.sqrt(ratio)
    return wg.stack(
        [
            x1 + x4 - 3.0,
            2 * x1 + x2 + x4 + x7 + x8 + x9 + 2 * x10 - r,
            2 * x2 + 2 * x5 + x6 + x7 - 8.0,
            2 * x3 + x9 - 4 * r,
            k5 * x2 * x4 - x1 * x5,
            k6 * wg.sqrt(x2 * x4) - wg.sqrt(x1) * x6 * root,
            k7 * wg.sqrt(x1 * x2) - wg.sqrt(x4) * x7 * root,
            k8 * x1 - x4 * x8 * ratio,
            k9 * x1 * wg.sqrt(x3) - x4 * x9 * root,
            k10 * x1**2 - x4**2 * x10 * ratio,
            x11 - x[:10].sum(),
        ]
    )


def kowalik_osborne(x: Any) -> Any:
    """Analysis of an enzyme reaction (Kowalik and Osborne 1968; MINPACK-2)."""
    v = np.array([4.0, 2.0, 1.0, 0.5, 0.25, 0.167, 0.125, 0.1, 0.0833, 0.0714, 0.0625])
    y = np.array([0.1957, 0.1947, 0.1735, 0.16, 0.0844, 0.0627, 0.0456, 0.0342, 0.0323, 0.0235, 0.0246])
    return y - x[0] * (v**2 + v * x[1]) / (v**2 + v * x[2] + x[3])


def helmholtz(x: Any) -> Any:
    """The energy of a mixed gas (Griewank 1989, "On automatic differentiation")."""
    n = x.shape[0]
    b = np.linspace(0.02, 0.06, n)
    a = 1.0 / (1.0 + np.arange(n)[:, None] + np.arange(n))
    bx = (b * x).sum()
    xax = (x * (a @ x)).sum()
    mixed = (x * wg.log(x / (1.0 - bx))).sum()
    r = 2.0**0.5
    return mixed - xax / (8.0**0.5 * bx) * wg.log((1 + (1 + r) * bx) / (1 + (1 - r) * bx))


def helmholtz_gradient(x: Any) -> Any:
    return wg.grad(helmholtz)(x)


def roe_flux(x: Any) -> Any:
    """Numerical flux of the one-dimensional Euler equations (Roe 1981)."""
    gamma = 1.4

    def state(q: Any) -> Any:
        rho, mom, energy = q
        u = mom / rho
        p = (gamma - 1) * (energy - 0.5 * mom * u)
        h = (energy + p) / rho
        return rho, u, h, wg.stack([mom, mom * u + p, (energy + p) * u])

    (rl, ul, hl, fl), (rr, ur, hr, fr) = state(x[:3]), state(x[3:])
    sl, sr = wg.sqrt(rl), wg.sqrt(rr)
    u = (sl * ul + sr * ur) / (sl + sr)
    h = (sl * hl + sr * hr) / (sl + sr)
    c = wg.sqrt((gamma - 1) * (h - 0.5 * u * u))
    d0, d1, d2 = x[3:] - x[:3]
    a2 = (gamma - 1) / c**2 * ((h - u * u) * d0 + u * d1 - d2)
    a1 = ((u + c) * d0 - d1 - c * a2) / (2 * c)
    a3 = d0 - a1 - a2
    s1, s2, s3 = wg.abs(u - c) * a1, wg.abs(u) * a2, wg.abs(u + c) * a3
    jump = wg.stack(
        [
            s1 + s2 + s3,
            s1 * (u - c) + s2 * u + s3 * (u + c),
            s1 * (h - u * c) + s2 * (0.5 * u * u) + s3 * (h + u * c),
        ]
    )
    return 0.5 * (fl + fr) - 0.5 * jump


def speelpenning(x: Any) -> Any:
    """Running products and their sum (Speelpenning 1980, one factor at a time)."""
    y, out = x[0], []
    for i in range(1, x.shape[0]):
        y = y * x[i]
        out.append(y)
    return wg.stack([y, sum(out)])


def chebyquad(x: Any) -> Any:
    """Fletcher 1965: mean values of shifted Chebyshev polynomials by their recurrence."""
    n = x.shape[0]
    before, now = 1.0, 2 * x - 1
    out = []
    for i in range(1, n + 1):
        out.append(now.mean() - (0.0 if i % 2 else -1.0 / (i * i - 1)))
        before, now = now, 2 * (2 * x - 1) * now - before
    return wg.stack(out)


def robot_arm(x: Any) -> Any:
    """Position and direction of a planar arm with four joints."""
    angle, px, py = 0.0, 0.0, 0.0
    for i in range(4):
        angle = angle + x[i]
        px, py = px + x[4 + i] * wg.cos(angle), py + x[4 + i] * wg.sin(angle)
    return wg.stack([px, py, angle, px * py])


def hourglass(x: Any) -> Any:
    """Many inputs through two scalars to many results: neither side is the cheap one."""
    a, b = wg.exp(x.sum()), wg.sin(wg.prod(x))
    c = a * b
    d = wg.tanh(c) + c
    return wg.stack([wg.sin(d * (i + 1)) for i in range(x.shape[0])])


CASES = {
    heart_dipole: np.array([-0.3, -0.39, 0.3, -0.344, -1.2, 2.69, 1.59, -1.5]),
    propane: np.array([3.0, 2.5, 18.0, 0.4, 0.05, 0.2, 0.01, 0.02, 4.0, 0.3, 29.0]),
    kowalik_osborne: np.array([0.25, 0.39, 0.415, 0.39]),
    helmholtz_gradient: np.array([0.3, 0.5, 0.2, 0.7]),
    roe_flux: np.array([1.0, 0.3, 2.5, 0.125, 0.1, 0.25]),
    speelpenning: np.array([1.1, -0.7, 0.4, 2.0, 0.9]),
    chebyquad: np.array([0.2, 0.35, 0.7, 0.85]),
    robot_arm: np.array([0.3, -0.5, 1.1, 0.2, 1.0, 0.8, 0.6, 0.4]),
    hourglass: np.array([0.4, 0.9, -0.6, 1.3]),
}
