# Written by scripts/generate.py from the op table: do not edit.
from builtins import bool as _Bool, complex as _Complex, float as _Float, int as _Int, str as _Str
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from .core.tensor import Tensor
from .typing import Axes
from .typing import DTypeLike
from .typing import Size
from .typing import TensorLike

def beta(a: TensorLike, b: TensorLike) -> Tensor:
    """Return the beta function of positive arguments: exp(betaln(a, b))."""
def betainc(a: TensorLike, b: TensorLike, x: TensorLike) -> Tensor:
    """Return the regularised incomplete beta function I_x(a, b), differentiable in all three arguments."""
def betaln(a: TensorLike, b: TensorLike) -> Tensor:
    """Return the logarithm of the beta function of positive arguments, without lgamma's cancellation at large ones."""
def digamma(x: TensorLike, /) -> Tensor:
    """The derivative of lgamma; NaN at -1, -2, ..., an infinity of the opposite sign at 0.0 and -0.0. Near its zeros at negative numbers, between whole ones, as accurate as numbers about 1 are."""
def entr(x: TensorLike) -> Tensor:
    """Return the elementwise entropy -x log(x), 0 at 0 and -inf below."""
def erf(x: TensorLike, /) -> Tensor:
    """The error function, 2/sqrt(pi) times the integral of exp(-t*t) from 0 to x."""
def erfc(x: TensorLike, /) -> Tensor:
    """1 - erf(x), accurate where erf(x) is near 1."""
def erfcinv(x: TensorLike) -> Tensor:
    """Return the inverse of erfc on [0, 2], accurate near 0."""
def erfinv(x: TensorLike, /) -> Tensor:
    """The inverse of the error function on [-1, 1]; NaN outside."""
def expit(x: TensorLike, /) -> Tensor:
    """The logistic function 1 / (1 + exp(-x))."""
def gammainc(a: TensorLike, x: TensorLike) -> Tensor:
    """Return the regularised lower incomplete gamma function P(a, x), to about 1e-13 relative, differentiable in both."""
def gammaincc(a: TensorLike, x: TensorLike) -> Tensor:
    """Return the regularised upper incomplete gamma function Q(a, x), accurate also where P(a, x) rounds to 1."""
def gammaln(x: TensorLike, /) -> Tensor:
    """The logarithm of |Gamma(x)|; inf at 0, -1, -2, ... Near its zeros at negative numbers as accurate as numbers about 1 are."""
def i0(x: TensorLike) -> Tensor:
    """Return the modified Bessel function of the first kind of order 0."""
def i0e(x: TensorLike) -> Tensor:
    """Return exp(-|x|) times the modified Bessel function of the first kind of order 0."""
def i1(x: TensorLike) -> Tensor:
    """Return the modified Bessel function of the first kind of order 1: the derivative of :func:`i0`."""
def i1e(x: TensorLike) -> Tensor:
    """Return exp(-|x|) times the modified Bessel function of the first kind of order 1."""
def lgamma(x: TensorLike, /) -> Tensor:
    """The logarithm of |Gamma(x)|; inf at 0, -1, -2, ... Near its zeros at negative numbers as accurate as numbers about 1 are."""
def log_ndtr(x: TensorLike) -> Tensor:
    """Return log(ndtr(x)), right where ndtr(x) itself would be 0."""
def log_softmax(x: TensorLike, axis: _Int = -1, *, dim: Axes | None = ...) -> Tensor:
    """Return the logarithm of :func:`softmax`, right also where that is too small for its dtype."""
def logit(p: TensorLike) -> Tensor:
    """Return log(p / (1 - p)), accurate about 1/2 too; infinite at 0 and 1, NaN outside."""
def logsumexp(x: TensorLike, axis: Axes | None = None, keepdims: _Bool = False, *, dim: Axes | None = ..., keepdim: _Bool = ...) -> Tensor:
    """Return log(sum(exp(x))) along axes, without overflow or underflow."""
def ndtr(x: TensorLike) -> Tensor:
    """Return the standard normal distribution's cumulative function, accurate in its lower tail."""
def ndtri(p: TensorLike) -> Tensor:
    """Return the standard normal distribution's quantile function: the inverse of :func:`ndtr`."""
def polygamma(n: _Int, x: TensorLike) -> Tensor:
    """Return the `n`-th derivative of digamma at each element of `x`."""
def psi(x: TensorLike, /) -> Tensor:
    """The derivative of lgamma; NaN at -1, -2, ..., an infinity of the opposite sign at 0.0 and -0.0. Near its zeros at negative numbers, between whole ones, as accurate as numbers about 1 are."""
def softmax(x: TensorLike, axis: _Int = -1, *, dim: Axes | None = ...) -> Tensor:
    """Return exp(x) over its sum along an axis: positive weights that sum to 1."""
def xlog1py(x: TensorLike, y: TensorLike) -> Tensor:
    """Return x log(1 + y), and 0 where x is 0 (unless y is NaN)."""
def xlogy(x: TensorLike, y: TensorLike) -> Tensor:
    """Return x log(y), and 0 where x is 0 (unless y is NaN)."""
def zeta(s: Any, q: Any = 1.0) -> Tensor:
    """Return the Hurwitz zeta function, the sum of (q + k)**-s over k = 0, 1, ...; Riemann's where q is 1."""
