"""Butcher tableaux of the Runge-Kutta methods of `odeint`, with error estimates and interpolants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce

import numpy as np

Row = tuple[float, ...]
Numbers = Sequence[float | Fraction]


@dataclass(frozen=True)
class Tableau:
    """A Runge-Kutta method: stages k_i = f(t + c_i h, y + h sum_j a_ij k_j), result y + h sum_i b_i k_i.

    `order` is that of the result. `error` has the weights of the difference to an embedded method of
    one order less, None for a method without. `interpolant[i]` has the coefficients of theta, theta^2,
    ... of stage i in y(t + theta h); None stands for the cubic Hermite polynomial through both ends.
    `fsal` says that the last stage is the derivative at the result, hence the next step's first.
    `gamma` is the diagonal of an implicit method (0: explicit), `predictor[i]` has the weights of the
    stages before stage i in the first guess of k_i.
    """

    name: str
    order: int
    a: tuple[Row, ...]
    b: Row
    c: Row
    error: Row | None = None
    interpolant: tuple[Row, ...] | None = None
    fsal: bool = False
    gamma: float = 0.0
    predictor: tuple[Row, ...] = ()
    source: str = ""

    @property
    def adaptive(self) -> bool:
        """True where the method estimates its error."""
        return self.error is not None

    @property
    def implicit(self) -> bool:
        """True where stages are solved for."""
        return self.gamma != 0.0

    @property
    def stops_at_outputs(self) -> bool:
        """True where steps end at the times asked for, because the interpolant is less accurate than the steps.

        The stages of an implicit method on a stiff equation are less accurate than its states.
        """
        return self.implicit or (self.interpolant is None and self.order > 3)


def _row(numbers: Numbers) -> Row:
    return tuple(float(x) for x in numbers)


def _explicit(
    name: str,
    order: int,
    a: Sequence[Numbers],
    b: Numbers,
    embedded: Numbers | None = None,
    interpolant: Sequence[Numbers] | None = None,
    source: str = "",
) -> Tableau:
    """Return an explicit method; with `embedded` weights it has a last stage at the result (first same as last)."""
    rows = [(), *(_row(r) for r in a)]
    weights = _row(b)
    if embedded is not None:
        rows.append(weights)
        weights = (*weights, 0.0)
    return Tableau(
        name,
        order,
        tuple(rows),
        weights,
        tuple(sum(row) for row in rows),
        tuple(x - float(y) for x, y in zip(weights, embedded, strict=True)) if embedded is not None else None,
        tuple(_row(r) for r in interpolant) if interpolant is not None else None,
        fsal=embedded is not None,
        source=source,
    )


def _esdirk(
    name: str,
    order: int,
    gamma: float,
    below: Sequence[Sequence[float]],
    predictor: Sequence[Sequence[float]],
    source: str,
) -> Tableau:
    """Return a stiffly accurate ESDIRK pair: the last stage is the result, the one before it the embedded result."""
    rows = ((), *(tuple(row) for row in below))
    b = (*rows[-1], gamma)
    embedded = (*rows[-2], gamma, 0.0)
    return Tableau(
        name,
        order,
        rows,
        b,
        (0.0, *(sum(row) + gamma for row in rows[1:])),
        tuple(x - y for x, y in zip(b, embedded, strict=True)) if len(rows) > 2 else None,
        fsal=True,
        gamma=gamma,
        predictor=((), *(tuple(row) for row in predictor)),
        source=source,
    )


F = Fraction

EULER = _explicit("euler", 1, [], [1])
MIDPOINT = _explicit("midpoint", 2, [[F(1, 2)]], [0, 1])
HEUN = _explicit("heun", 2, [[1]], [F(1, 2), F(1, 2)])
RALSTON = _explicit("ralston", 2, [[F(2, 3)]], [F(1, 4), F(3, 4)], source="Ralston 1962")
RK4 = _explicit(
    "rk4", 4, [[F(1, 2)], [0, F(1, 2)], [0, 0, 1]], [F(1, 6), F(1, 3), F(1, 3), F(1, 6)], source="Kutta 1901"
)

BOSH3 = _explicit(
    "bosh3",
    3,
    [[F(1, 2)], [0, F(3, 4)]],
    [F(2, 9), F(1, 3), F(4, 9)],
    [F(7, 24), F(1, 4), F(1, 3), F(1, 8)],
    source="Bogacki & Shampine 1989, A 3(2) pair of Runge-Kutta formulas",
)

DOPRI5 = _explicit(
    "dopri5",
    5,
    [
        [F(1, 5)],
        [F(3, 40), F(9, 40)],
        [F(44, 45), F(-56, 15), F(32, 9)],
        [F(19372, 6561), F(-25360, 2187), F(64448, 6561), F(-212, 729)],
        [F(9017, 3168), F(-355, 33), F(46732, 5247), F(49, 176), F(-5103, 18656)],
    ],
    [F(35, 384), 0, F(500, 1113), F(125, 192), F(-2187, 6784), F(11, 84)],
    [F(5179, 57600), 0, F(7571, 16695), F(393, 640), F(-92097, 339200), F(187, 2100), F(1, 40)],
    [
        [1, F(-8048581381, 2820520608), F(8663915743, 2820520608), F(-12715105075, 11282082432)],
        [0, 0, 0, 0],
        [0, F(131558114200, 32700410799), F(-68118460800, 10900136933), F(87487479700, 32700410799)],
        [0, F(-1754552775, 470086768), F(14199869525, 1410260304), F(-10690763975, 1880347072)],
        [0, F(127303824393, 49829197408), F(-318862633887, 49829197408), F(701980252875, 199316789632)],
        [0, F(-282668133, 205662961), F(2019193451, 616988883), F(-1453857185, 822651844)],
        [0, F(40617522, 29380423), F(-110615467, 29380423), F(69997945, 29380423)],
    ],
    source="Dormand & Prince 1980; Shampine 1986, Some practical Runge-Kutta formulas",
)


def _product(scale: float, *factors: Sequence[float]) -> Row:
    """Return theta, theta^2, ... coefficients of a product of polynomials, each with its highest power first."""
    coefficients = scale * reduce(np.convolve, [np.asarray(f, dtype=np.float64) for f in factors])
    return tuple(float(x) for x in coefficients[::-1][1:])


_B5 = (
    0.09646076681806523,
    0.01,
    0.4798896504144996,
    1.379008574103742,
    -3.290069515436081,
    2.324710524099774,
)
_SQUARE = (1.0, 0.0, 0.0)

TSIT5 = _explicit(
    "tsit5",
    5,
    [
        [0.161],
        [-0.008480655492356989, 0.335480655492357],
        [2.8971530571054935, -6.359448489975075, 4.3622954328695815],
        [5.325864828439257, -11.748883564062828, 7.4955393428898365, -0.09249506636175525],
        [5.86145544294642, -12.92096931784711, 8.159367898576159, -0.071584973281401, -0.028269050394068383],
    ],
    _B5,
    [
        0.09468075576583945,
        0.009183565540343254,
        0.4877705284247616,
        1.234297566930479,
        -2.7077123499835256,
        1.866628418170587,
        1 / 66,
    ],
    [
        _product(
            -1.0530884977290216, (1.0, 0.0), (1.0, -1.3299890189751412), (1.0, -1.4364028541716351, 0.7139816917074209)
        ),
        _product(0.1017, _SQUARE, (1.0, -2.1966568338249754, 1.2949852507374631)),
        _product(2.490627285651252793, _SQUARE, (1.0, -2.38535645472061657, 1.57803468208092486)),
        _product(-16.54810288924490272, _SQUARE, (1.0, -1.21712927295533244), (1.0, -0.61620406037800089)),
        _product(47.37952196281928122, _SQUARE, (1.0, -1.203071208372362603), (1.0, -0.658047292653547382)),
        _product(-34.87065786149660974, _SQUARE, (1.0, -1.2), (1.0, -2 / 3)),
        _product(2.5, _SQUARE, (1.0, -1.0), (1.0, -0.6)),
    ],
    source="Tsitouras 2011, Runge-Kutta pairs of order 5(4) satisfying only the first column simplifying assumption",
)

_KVAERNO = "Kvaerno 2004, Singly diagonally implicit Runge-Kutta methods with an explicit first stage"
_G3 = 0.4358665215084590  # the root of 6 g^3 - 18 g^2 + 9 g - 1 that makes the method L-stable

KVAERNO3 = _esdirk(
    "kvaerno3",
    3,
    _G3,
    [
        [_G3],
        [(-4 * _G3**2 + 6 * _G3 - 1) / (4 * _G3), (1 - 2 * _G3) / (4 * _G3)],
        [(6 * _G3 - 1) / (12 * _G3), -1 / ((24 * _G3 - 12) * _G3), (-6 * _G3**2 + 6 * _G3 - 1) / (6 * _G3 - 3)],
    ],
    # In the end, the embedded result's derivative.
    [[1.0], [1 - 1 / (2 * _G3), 1 / (2 * _G3)], [0.0, 0.0, 1.0]],
    _KVAERNO,
)

KVAERNO5 = _esdirk(
    "kvaerno5",
    5,
    0.26,
    [
        [0.26],
        [0.13, 0.84033320996790809],
        [0.22371961478320505, 0.47675532319799699, -0.06470895363112615],
        [0.16648564323248321, 0.10450018841591720, 0.03631482272098715, -0.13090704451073998],
        [0.13855640231268224, 0.0, -0.04245337201752043, 0.02446657898003141, 0.61943039072480676],
        [
            0.13659751177640291,
            0.0,
            -0.05496908796538376,
            -0.04118626728321046,
            0.62993304899016403,
            0.06962479448202728,
        ],
    ],
    # Stages by extrapolation of those before: linear in c, as far as they reach.
    [
        [1.0],
        [-1.366025403784441, 2.3660254037844357],
        [-0.19650552613122207, 0.8113579546496623, 0.38514757148155954],
        [0.10375304369958693, 0.937994698066431, -0.04174774176601781, 0.0],
        [-0.17281112873898072, 0.6235784481025847, 0.5492326806363959, 0.0, 0.0],
        [0.0, 0.0, 0.0, 0.0, 0.0, 1.0],
    ],
    _KVAERNO,
)

IMPLICIT_EULER = Tableau(
    "implicit_euler", 1, ((), (0.0,)), (0.0, 1.0), (0.0, 1.0), fsal=True, gamma=1.0, predictor=((), (1.0,))
)
TRAPEZOID = Tableau("trapezoid", 2, ((), (0.5,)), (0.5, 0.5), (0.0, 1.0), fsal=True, gamma=0.5, predictor=((), (1.0,)))

TABLEAUX = {
    t.name: t
    for t in (
        EULER,
        MIDPOINT,
        HEUN,
        RALSTON,
        RK4,
        BOSH3,
        DOPRI5,
        TSIT5,
        IMPLICIT_EULER,
        TRAPEZOID,
        KVAERNO3,
        KVAERNO5,
    )
}
