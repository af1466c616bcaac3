"""The polynomials of the native functions: writes `execute/native/scalar/math/coefficients.py`, or prints those named.

    python scripts/minimax.py [name ...]

Each polynomial is a minimax approximation in its own weight (Remez's exchange in 50 digits), its
coefficients rounded to the type one after the other from the constant on, with the rest fitted
again after each: the rounding of the early ones, which matters most, is made up for by the later.
"""

from __future__ import annotations

import struct
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath as mp

mp.mp.dps = 50
Function = Callable[[Any], Any]


def remez(target: Function, weight: Function, low: Any, high: Any, powers: list[int]) -> list[Any]:
    """Coefficients of `powers` that minimise the largest weight(x) |target(x) - p(x)|."""
    count = len(powers)
    middle, half = (low + high) / 2, (high - low) / 2
    grid = [middle - half * mp.cos(mp.pi * (i + mp.mpf(1) / 2) / 600) for i in range(600)]
    values = [(x, target(x), weight(x)) for x in grid]
    points = [min(599, round(599 * i / count)) for i in range(count + 1)]
    solution: Any = None
    for _ in range(30):
        matrix = mp.matrix(count + 1, count + 1)
        right = mp.matrix(count + 1, 1)
        for row, at in enumerate(points):
            x, y, w = values[at]
            for column, power in enumerate(powers):
                matrix[row, column] = w * x**power
            matrix[row, count] = (-1) ** row
            right[row] = w * y
        solution = mp.lu_solve(matrix, right)
        errors = [w * (sum(solution[k] * x**p for k, p in enumerate(powers)) - y) for x, y, w in values]
        points, before = _alternation(errors, count + 1), points
        if points == before:
            break
    return [solution[k] for k in range(count)]


def _alternation(errors: list[Any], wanted: int) -> list[int]:
    """Where the error is extreme between its changes of sign; the `wanted` neighbours that matter most."""
    found: list[int] = []
    for i, e in enumerate(errors):
        if not e:
            continue
        if found and (e > 0) == (errors[found[-1]] > 0):
            if abs(e) > abs(errors[found[-1]]):
                found[-1] = i
        else:
            found.append(i)
    while len(found) > wanted:
        found.pop(0 if abs(errors[found[0]]) < abs(errors[found[-1]]) else -1)
    if len(found) < wanted:
        raise ValueError("the error does not alternate: the weight or the degree is not fit for the function")
    return found


def rounded(number: Any, bits: int) -> Any:
    return mp.mpf(struct.unpack("<f", struct.pack("<f", number))[0] if bits == 32 else float(number))


def fit(target: Function, weight: Function, low: Any, high: Any, count: int, bits: int) -> tuple[list[Any], Any]:
    """`count` coefficients, each a number of `bits` bits, the constant first; and the largest weighted error."""
    low, high = mp.mpf(low), mp.mpf(high)
    points = [low + (high - low) * i / 500 for i in range(501)]
    values = [(x, target(x), weight(x)) for x in points]
    done: list[Any] = []
    found: list[tuple[Any, list[Any]]] = []
    # In float64 the rounding of coefficients is below that of the arithmetic. In float32 the last few have too
    # little freedom to make up for others, so the best of all stages is taken.
    for _ in range(count if bits == 32 else 1):
        fixed = list(done)
        rest = remez(
            lambda x, fixed=fixed: target(x) - sum(c * x**k for k, c in enumerate(fixed)),  # type: ignore[misc]
            weight,
            low,
            high,
            list(range(len(done), count)),
        )
        whole = done + [rounded(c, bits) for c in rest]
        found.append((max(abs(w * (mp.polyval(whole[::-1], x) - y)) for x, y, w in values), whole))
        done.append(whole[len(done)])
    error, best = min(found)
    return best, error


def _series(function: Function, terms: int) -> list[Any]:
    with mp.workdps(120):
        return list(mp.taylor(function, 0, terms))


def _smooth(direct: Function, coefficients: list[Any], radius: float) -> Function:
    """A function that is written as a quotient with a removable singularity at 0: its series near there."""

    def value(x: Any) -> Any:
        if abs(x) < radius:
            return mp.polyval(coefficients[::-1], x)
        with mp.workdps(80):
            return direct(x)

    return value


def _odd(function: Function, derivative: Any, radius: float) -> Function:
    """(f(s) / s - derivative) / s**2 as a function of z = s**2."""

    def direct(z: Any) -> Any:
        s = mp.sqrt(z)
        return (function(s) / s - derivative) / z

    series = _series(function, 44)[3::2]
    return _smooth(direct, series, radius)


def _relative_to(function: Function) -> Function:
    """The weight of an error of p(z) in x + x z p(z), relative to the function, and not quite 0 at 0."""

    def weight(z: Any) -> Any:
        s = mp.sqrt(z)
        return (s**3 / function(s) if z > 0 else mp.mpf(0)) + mp.mpf(1) / 100

    return weight


def _tables() -> dict[str, tuple[Function, Function, Any, Any, int, int]]:
    """Name to (function, weight, low, high, number of coefficients, bits)."""
    ln2 = mp.log(2)
    out: dict[str, tuple[Function, Function, Any, Any, int, int]] = {}

    # exp(r) = 1 + r + r**2 p(r), accurate relative to exp(r) - 1 too.
    expm1 = _smooth(lambda r: (mp.expm1(r) - r) / r**2, _series(lambda r: mp.exp(r), 40)[2:], 0.01)
    edge = ln2 / 2 * mp.mpf("1.0001")
    out["EXP_32"] = (expm1, lambda r: abs(r) + mp.mpf(1) / 100, -edge, edge, 5, 32)
    out["EXP_64"] = (expm1, lambda r: abs(r) + mp.mpf(1) / 100, -edge, edge, 10, 64)

    # log(1 + f) = f - f**2 / 2 + f**3 p(f) for a mantissa in [3/4, 3/2].
    log_rest = _smooth(
        lambda f: (mp.log1p(f) - f + f**2 / 2) / f**3, [(-1) ** k / mp.mpf(k + 3) for k in range(40)], 0.01
    )
    out["LOG_32"] = (log_rest, lambda f: f**2 + mp.mpf(1) / 1000, -0.25, 0.5, 8, 32)
    # log(1 + f) = 2 s + s z p(z) with s = f / (2 + f), z = s**2.
    out["LOG_64"] = (_odd(lambda s: 2 * mp.atanh(s), 2, 1e-3), lambda z: z / 2 + mp.mpf(1) / 1000, 0, 0.0401, 7, 64)

    # For float32 powers, which are computed in float64.
    out["EXP_POW"] = (expm1, lambda r: r**2 + mp.mpf(1) / 1000, -edge, edge, 6, 64)
    out["LOG_POW"] = (_odd(lambda s: 2 * mp.atanh(s), 2, 1e-3), lambda z: z / 2 + mp.mpf(1) / 1000, 0, 0.0401, 4, 64)
    # log(1 + f) = 2 s + s z (2/3 + z p(z)), for float64 powers.
    beyond = _smooth(
        lambda z: ((2 * mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 2) / z - mp.mpf(2) / 3) / z,
        [mp.mpf(2) / (2 * k + 5) for k in range(30)],
        1e-3,
    )
    out["LOG_POW_WIDE"] = (beyond, lambda z: z**2 / 2 + mp.mpf(1) / 10000, 0, 0.0401, 9, 64)

    # Odd functions: f(x) = c x + x z p(z), z = x**2, c the derivative at 0.
    # A float32 multiple of pi is found with an error of 1/500 of it where the argument is large.
    quarter, half = (mp.pi / 4 * mp.mpf("1.004")) ** 2, (mp.pi / 2 * mp.mpf("1.004")) ** 2
    near_sinh = mp.mpf("1.0001")
    root = mp.sqrt(2) - 1
    for name, function, high, narrow, wide in (
        ("SIN", mp.sin, half, 5, 8),
        ("TAN", mp.tan, quarter, 7, 14),
        ("ASIN", mp.asin, mp.mpf("0.2501"), 5, 12),
        ("ATAN", mp.atan, (root * mp.mpf("1.0001")) ** 2, 5, 11),
        ("SINH", mp.sinh, near_sinh, 4, 7),
    ):
        for bits, count in ((32, narrow), (64, wide)):
            shape = _odd(function, 1, 1e-3)
            out[f"{name}_{bits}"] = (shape, _relative_to(function), 0, high, count, bits)

    # erf(x) = x + x p(x * x).
    erf = _series(lambda x: mp.erf(x), 44)[1::2]
    erf[0] -= 1
    near_erf = _smooth(lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1, erf, 1e-3)
    out["ERF_32"] = (near_erf, lambda z: mp.mpf(1), 0, 1, 7, 32)
    out["ERF_64"] = (near_erf, lambda z: mp.mpf(1), 0, 1, 13, 64)
    # erf(x) = 1 - exp(p(x)) further out, until it is 1.
    out["LOG_ERFC_32"] = (lambda x: mp.log(mp.erfc(x)), mp.erfc, 1, 4, 7, 32)
    out["LOG_ERFC_64"] = (lambda x: mp.log(mp.erfc(x)), mp.erfc, 1, 6, 18, 64)
    # erfc(x) = exp(-x * x) p(t) / (1 + 2 x) with t = (x - 3.75) / (x + 3.75).
    slow = lambda t: _scaled_erfc(mp.mpf("3.75") * (1 + t) / (1 - t))
    out["ERFC_32"] = (slow, lambda t: 1 / slow(t), mp.mpf("-0.77"), mp.mpf("0.48"), 13, 32)
    out["ERFC_64"] = (slow, lambda t: 1 / slow(t), mp.mpf("-0.77"), mp.mpf("0.9999"), 24, 64)

    # lgamma(2 + s) = s p(s), and digamma(x) = (x - root) p(x - 7/4); float32 is computed in float64.
    zetas = [1 - mp.euler] + [(-1) ** k * (mp.zeta(k) - 1) / k for k in range(2, 40)]
    near_two = _smooth(lambda s: mp.loggamma(2 + s) / s, zetas, 1e-3)
    out["LGAMMA_64"] = (near_two, lambda s: 1 / near_two(s), -0.5, 0.5, 18, 64)
    root = mp.findroot(mp.digamma, 1.4616)
    middle = mp.mpf("1.75")
    slope = [mp.diff(mp.digamma, root, k + 1) / mp.factorial(k + 1) for k in range(8)]
    about_root = _smooth(lambda d: mp.digamma(root + d) / d, slope, 1e-4)
    psi = lambda u: about_root(u + middle - root)
    out["DIGAMMA_64"] = (psi, lambda u: 1 / psi(u), -0.75, 0.75, 28, 64)

    # erfinv(y) = y p(y * y) near 0; further out erfcinv(exp(-t * t)) = t p(v), v = (t - 3) / (t + 3), to be refined.
    inverse = _smooth(lambda z: mp.erfinv(mp.sqrt(z)) / mp.sqrt(z), _inverse_erf_series(), 1e-3)
    quantile = lambda v: _erfcinv_of_exp(3 * (1 + v) / (1 - v))
    out["ERFINV_64"] = (inverse, lambda z: 1 / inverse(z), 0, mp.mpf("0.2501"), 15, 64)
    out["ERFCINV_64"] = (quantile, lambda v: 1 / quantile(v), mp.mpf("-0.57"), mp.mpf("0.803"), 16, 64)
    return out


def _inverse_erf_series() -> list[Any]:
    """Of erfinv(sqrt(z)) / sqrt(z), by inverting erf's series."""
    c = [mp.mpf(1)]
    for k in range(1, 30):
        c.append(sum(c[m] * c[k - 1 - m] / ((m + 1) * (2 * m + 1)) for m in range(k)))
    return [c[k] / (2 * k + 1) * (mp.sqrt(mp.pi) / 2) ** (2 * k + 1) for k in range(30)]


def _erfcinv_of_exp(t: Any) -> Any:
    """erfcinv(exp(-t * t)) / t, by Newton's method on log erfc, which is nearly a parabola."""
    with mp.workdps(60):
        x = t / 2
        for _ in range(100):
            step = (mp.log(mp.erfc(x)) + t * t) * mp.erfc(x) * mp.exp(x * x) * mp.sqrt(mp.pi) / 2
            x += step
            if abs(step) < mp.mpf(10) ** -50:
                break
        return x / t


def _scaled_erfc(x: Any) -> Any:
    with mp.workdps(60):
        return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)


HEADER = '''"""Coefficients of the native functions, the constant first, as `scripts/minimax.py` writes them."""

from __future__ import annotations
'''
FILE = Path(__file__).parent.parent / "src" / "wengert" / "execute" / "native" / "scalar" / "math" / "coefficients.py"


def table(name: str) -> str:
    """The source of one table."""
    function, weight, low, high, count, bits = _tables()[name]
    coefficients, error = fit(function, weight, low, high, count, bits)
    rows = textwrap.wrap(", ".join(repr(float(c)) for c in coefficients) + ",", 114)
    return "\n".join(
        [f"# within 2**{float(mp.log(error, 2)):.1f}", f"{name} = (", *(f"    {r}" for r in rows), ")  # fmt: skip"]
    )


def main(names: list[str]) -> None:
    if names:
        print("\n".join(table(name) for name in names))
    else:
        FILE.write_text("\n".join([HEADER, *(table(name) for name in _tables()), ""]))


if __name__ == "__main__":
    main(sys.argv[1:])
