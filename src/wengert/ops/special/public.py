"""The public functions of `wengert.special` beside the ops themselves, and their compositions."""

from __future__ import annotations

import math
from typing import Any

from ...core.ops.operands import promote_tensors
from ...core.tensor import Tensor
from ..pointwise.arithmetic import exp, log, log1p, negative
from ..pointwise.selection import abs as absolute
from ..pointwise.selection import where
from ..pointwise.trigonometry import atanh
from ..pointwise.xlogy import xlog1py as xlog1py_op
from ..pointwise.xlogy import xlogx
from ..pointwise.xlogy import xlogy as xlogy_op
from ..reduce.common import inexact
from ..structure.shapes import as_operand
from .bessel import bessel_i1_op, bessel_ratio_op, i0e_op, i1e_op
from .incomplete_beta import betainc_op, betaln_op
from .incomplete_gamma import gammainc_op, gammaincc_op
from .normal import log_ndtr_op, ndtr_op, ndtri_op


def gammainc(a: Any, x: Any) -> Tensor:
    """Return the regularised lower incomplete gamma function P(a, x), to about 1e-13 relative, differentiable in both.

    Parameters
    ----------
    a: shape, positive; 0 gives the limit 1.
    x: not negative.

    Operands broadcast; NaN outside the domain. Raises ShapeError, DTypeError. Source: DLMF 8.5.1, 8.6.3,
    8.6.5; derivatives in `a` as Figurnov, Mohamed & Mnih 2018 need them.

    >>> import wengert as wg
    >>> wg.special.gammainc(1.0, wg.tensor([0.0, 1.0]))  # 1 - exp(-x)
    tensor([0.    , 0.6321])
    """
    out: Tensor = gammainc_op.front(*promote_tensors("gammainc", a, x))
    return out


def gammaincc(a: Any, x: Any) -> Tensor:
    """Return the regularised upper incomplete gamma function Q(a, x), accurate also where P(a, x) rounds to 1.

    >>> import wengert as wg
    >>> wg.special.gammaincc(1.0, wg.tensor(50.0))
    tensor(1.9287e-22)
    """
    out: Tensor = gammaincc_op.front(*promote_tensors("gammaincc", a, x))
    return out


def betainc(a: Any, b: Any, x: Any) -> Tensor:
    """Return the regularised incomplete beta function I_x(a, b), differentiable in all three arguments.

    Parameters
    ----------
    a, b: positive.
    x: in 0 .. 1.

    Operands broadcast; NaN outside the domain. Raises ShapeError, DTypeError. Source: DLMF 8.17.1 by
    Takahasi & Mori 1974.

    >>> import wengert as wg
    >>> wg.special.betainc(1.0, 2.0, wg.tensor(0.5))
    tensor(0.75)
    """
    out: Tensor = betainc_op.front(*promote_tensors("betainc", a, b, x))
    return out


def betaln(a: Any, b: Any) -> Tensor:
    """Return the logarithm of the beta function of positive arguments, without lgamma's cancellation at large ones.

    >>> import wengert as wg
    >>> wg.special.betaln(2.0, wg.tensor(3.0))
    tensor(-2.4849)
    """
    out: Tensor = betaln_op.front(*promote_tensors("betaln", a, b))
    return out


def beta(a: Any, b: Any) -> Tensor:
    """Return the beta function of positive arguments: exp(betaln(a, b)).

    >>> import wengert as wg
    >>> wg.special.beta(wg.tensor(2.0), wg.tensor(3.0))
    tensor(0.0833)
    """
    out: Tensor = exp.front(betaln(a, b))
    return out


def ndtr(x: Any) -> Tensor:
    """Return the standard normal distribution's cumulative function, accurate in its lower tail.

    >>> import wengert as wg
    >>> wg.special.ndtr(wg.tensor([-30.0, 0.0], dtype=wg.float64))
    tensor([4.9067e-198, 5.0000e-001], dtype=float64)
    """
    out: Tensor = ndtr_op.front(x)
    return out


def ndtri(p: Any) -> Tensor:
    """Return the standard normal distribution's quantile function: the inverse of :func:`ndtr`.

    >>> import wengert as wg
    >>> wg.special.ndtri(wg.tensor([0.5, 0.975]))
    tensor([0.  , 1.96])
    """
    out: Tensor = ndtri_op.front(p)
    return out


def log_ndtr(x: Any) -> Tensor:
    """Return log(ndtr(x)), right where ndtr(x) itself would be 0.

    >>> import wengert as wg
    >>> wg.special.log_ndtr(wg.tensor(-100.0))
    tensor(-5005.5244)
    """
    out: Tensor = log_ndtr_op.front(x)
    return out


def erfcinv(x: Any) -> Tensor:
    """Return the inverse of erfc on [0, 2], accurate near 0.

    >>> import wengert as wg
    >>> wg.special.erfcinv(wg.tensor(1e-30))
    tensor(8.1486)
    """
    out: Tensor = ndtri_op.front(as_operand(x) * 0.5) * (-1.0 / math.sqrt(2.0))
    return out


def i0e(x: Any) -> Tensor:
    """Return exp(-|x|) times the modified Bessel function of the first kind of order 0.

    >>> import wengert as wg
    >>> wg.special.i0e(wg.tensor([0.0, 1.0]))
    tensor([1.    , 0.4658])
    """
    out: Tensor = i0e_op.front(x)
    return out


def i1e(x: Any) -> Tensor:
    """Return exp(-|x|) times the modified Bessel function of the first kind of order 1.

    >>> import wengert as wg
    >>> wg.special.i1e(wg.tensor([0.0, 1.0]))
    tensor([0.    , 0.2079])
    """
    out: Tensor = i1e_op.front(x)
    return out


def i0(x: Any) -> Tensor:
    """Return the modified Bessel function of the first kind of order 0.

    >>> import wengert as wg
    >>> wg.special.i0(wg.tensor([0.0, 1.0]))
    tensor([1.    , 1.2661])
    """
    out: Tensor = bessel_ratio_op.front(inexact(as_operand(x)), n=0)
    return out


def i1(x: Any) -> Tensor:
    """Return the modified Bessel function of the first kind of order 1: the derivative of :func:`i0`.

    >>> import wengert as wg
    >>> wg.special.i1(wg.tensor([0.0, 1.0]))
    tensor([0.    , 0.5652])
    """
    out: Tensor = bessel_i1_op.front(inexact(as_operand(x)))
    return out


def xlogy(x: Any, y: Any) -> Tensor:
    """Return x log(y), and 0 where x is 0 (unless y is NaN).

    >>> import wengert as wg
    >>> wg.special.xlogy(wg.tensor([0.0, 2.0]), wg.tensor([0.0, 1.0]))
    tensor([0., 0.])
    """
    if x is y:
        # One function of one number, whose slope has no quotient of small numbers.
        return xlogx.front(*promote_tensors("xlogy", x))  # type: ignore[no-any-return]
    out: Tensor = xlogy_op.front(*promote_tensors("xlogy", x, y))
    return out


def xlog1py(x: Any, y: Any) -> Tensor:
    """Return x log(1 + y), and 0 where x is 0 (unless y is NaN).

    >>> import wengert as wg
    >>> wg.special.xlog1py(wg.tensor([0.0, 2.0]), wg.tensor([-1.0, 1.0]))
    tensor([0.    , 1.3863])
    """
    out: Tensor = xlog1py_op.front(*promote_tensors("xlog1py", x, y))
    return out


def entr(x: Any) -> Tensor:
    """Return the elementwise entropy -x log(x), 0 at 0 and -inf below.

    >>> import wengert as wg
    >>> wg.special.entr(wg.tensor([0.0, 1.0, -1.0]))
    tensor([ -0.,  -0., -inf])
    """
    (t,) = promote_tensors("entr", x)
    out: Tensor = where(t < 0.0, -math.inf, negative.front(xlogx.front(where(t < 0.0, 1.0, t))))
    return out


def logit(p: Any) -> Tensor:
    """Return log(p / (1 - p)), accurate about 1/2 too; infinite at 0 and 1, NaN outside.

    >>> import wengert as wg
    >>> wg.special.logit(wg.tensor([0.0, 0.5]))
    tensor([-inf,   0.])
    """
    (t,) = promote_tensors("logit", p)
    middle = absolute.front(t - 0.5) < 0.25
    near = 2.0 * atanh.front(2.0 * where(middle, t, 0.5) - 1.0)
    out: Tensor = where(middle, near, log.front(t) - log1p.front(-t))
    return out
