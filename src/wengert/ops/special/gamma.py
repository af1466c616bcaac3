"""Special functions: the error function and the gamma function's logarithm and its derivatives.

Everything is computed in float64, in blocks that stay in the cache, and rounded to the argument's
dtype. Smooth factors are polynomials: Chebyshev expansions computed with 60 digits, truncated below
1e-18 and written in powers of the variable mapped to [-1, 1].
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.arrays import in_order_of
from ...core.errors import DTypeError, GraphError, fail
from ...core.ops.costs import TRANSCENDENTAL
from ...core.ops.declare import elementwise, op, public
from ...core.ops.facets import Cause, Form, Latex, Nonfinite
from ...core.ops.nonfinite import always
from ...core.ops.op import Algebra, Call, Missing, Op, Partial
from ...core.ops.record import bind
from ...core.ops.sampling import unary
from ...core.spec import Spec, category, inexact_dtype
from ...core.tensor import Tensor
from ..pointwise.arithmetic import exp
from ..structure.shapes import as_operand, cast

Array = np.ndarray[Any, Any]

_BLOCK = 2048
_SQRT_PI = math.sqrt(math.pi)

# B_2k for k = 1 .. 10.
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330)


def _in_float64(fn: Callable[[Array], Array], narrow: Callable[[Array], Array] | None = None) -> Callable[[Any], Any]:
    """Return `fn` of float64 blocks as a forward: any shape, any floating dtype (`narrow` for those below float64)."""
    in_full = fn

    def forward(x: Any) -> Any:
        x = np.asarray(x)
        fn = in_full if narrow is None or x.dtype == np.float64 else narrow
        flat = x.reshape(-1)
        out = np.empty(flat.shape, x.dtype)
        with np.errstate(all="ignore"):
            for start in range(0, flat.size, _BLOCK):
                out[start : start + _BLOCK] = fn(flat[start : start + _BLOCK].astype(np.float64))
        return in_order_of(out.reshape(x.shape), (x,))

    return forward


def _choose(x: Array, *pieces: tuple[Any, Callable[[Array], Array]]) -> Array:
    """Return each piece's function where its mask is the first to hold, NaN where none does (a NaN argument)."""
    out = np.full_like(x, np.nan)
    left = np.ones(x.shape, np.bool_)
    for mask, fn in pieces:
        here = left & mask
        if here.all():
            return fn(x)
        if here.any():
            out[here] = fn(x[here])
            left &= ~here
    return out


def _polynomial(t: Array, coefficients: tuple[float, ...]) -> Array:
    """Return a polynomial's value by Horner's rule, the constant coefficient first."""
    out = np.full_like(t, coefficients[-1])
    for c in coefficients[-2::-1]:
        out *= t
        out += c
    return out


# -- error function

# erf(x) / x on [0, 1], in 2 x*x - 1.
_ERF = (
    0.9654687386698673, -0.1405360890227171, 0.019852496688983708, -0.0022854855611441132, 0.00021751715604160108,
    -1.7537169441124826e-05, 1.223382738352401e-06, -7.51156928660089e-08, 4.11580059766496e-09,
    -2.035228404899467e-10, 9.167606746069445e-12, -3.8078827395263415e-13, 1.454817075960679e-14,
)  # fmt: skip
# erf(x) / x on [0, 4] to 1e-10, in x*x / 8 - 1: enough where the result is float32 or narrower.
_ERF_NARROW = (
    0.353530995644115, -0.17657623321207172, 0.13167511672365362, -0.10771044904000053, 0.09020900091646347,
    -0.07472772607116117, 0.059886799544183154, -0.04576648194937769, 0.0330614691469806, -0.02246618342540271,
    0.01434573702566114, -0.0086300377496573, 0.0048646275161597545, -0.002530356530716061, 0.0012723241962619173,
    -0.0006730865484744391, 0.00029918099813068245, -7.231684146846917e-05, 3.107438403556471e-05,
    -3.671410208775849e-05, 1.3255524208235963e-05,
)  # fmt: skip
# (1 + 2x) exp(x*x) erfc(x) on [0, inf], in (x - 3.75) / (x + 3.75).
ERFCX = (
    1.2375126308378275, -0.14024059858554702, 0.00358541548546369, 0.08227673849015102, -0.10880393014170746,
    0.09230432116019834, -0.05869339859054762, 0.0283622774215156, -0.009746579547619623, 0.0017556258324217529,
    0.00029371359480570737, -0.00029015397928986765, 5.164940777546399e-05, 2.2383912036550678e-05,
    -1.1445049125831309e-05, -9.72849582211122e-07, 1.7534434251106334e-06, -5.826281078800777e-08,
    -2.6114702359900956e-07, 2.4289762925488707e-08, 4.0971223152703005e-08, -4.389284159986328e-09,
    -6.545560212480267e-09, 5.457157304704688e-10, 9.02214970034059e-10, -3.75315827795962e-11, -7.33950500852954e-11,
)  # fmt: skip


def _erf_near_zero(x: Array) -> Array:
    return x * _polynomial(2.0 * x * x - 1.0, _ERF)


def _erfc_positive(x: Array) -> Array:
    """Return erfc of x >= 0; the product is exp(-x*x) times a factor that varies slowly."""
    x = np.minimum(x, 30.0)  # erfc(27) is 0 in float64 already
    factor = _polynomial((x - 3.75) / (x + 3.75), ERFCX) / (1.0 + 2.0 * x)
    # x*x is rounded by up to half a unit in its last place, which exp would turn into a relative
    # error of x*x units: a high part with 26 bits has an exact square.
    high = (x * 134217729.0) - (x * 134217729.0 - x)
    return np.exp(-high * high) * np.exp((high - x) * (high + x)) * factor


def _erf(x: Array) -> Array:
    size = np.abs(x)
    return _choose(
        x,
        (size < 1.0, _erf_near_zero),
        (size >= 1.0, lambda x: np.copysign(1.0 - _erfc_positive(np.abs(x)), x)),
    )


def _erf_narrow(x: Array) -> Array:
    # erf(4) rounds to 1 in float32.
    x = np.minimum(np.maximum(x, -4.0), 4.0)
    return x * _polynomial(0.125 * x * x - 1.0, _ERF_NARROW)


def _erfc(x: Array) -> Array:
    return _choose(
        x,
        (np.abs(x) < 0.5, lambda x: 1.0 - _erf_near_zero(x)),
        (x > 0.0, _erfc_positive),
        (x < 0.0, lambda x: 2.0 - _erfc_positive(-x)),
    )


_ERF_SOURCE = "M. M. Shepherd and J. G. Laframboise, Math. Comp. 36 (1981): the mapping; coefficients computed anew."

erf = elementwise(
    "erf(x)",
    _in_float64(_erf, _erf_narrow),
    partials={"x": lambda x: (2.0 / _SQRT_PI) * exp(-x * x)},
    accepts="real_inexact",
    home="special",
    doc="The error function, 2/sqrt(pi) times the integral of exp(-t*t) from 0 to x.",
    algebra=Algebra(monotone=1, range="[-1, 1]", odd=True),
    samples=unary((-3.0, 3.0), (3.0, 7.0)),
    reference="scipy.special.erf",
    onnx="Erf",
    source=_ERF_SOURCE,
    cost=TRANSCENDENTAL,
    form=Form("erf", "erf({0})", local="2 / √π · e^(−{0}²)"),
    sympy=lambda sp, x: sp.erf(x),
    zero_gradient="saturated",
)
erfc = elementwise(
    "erfc(x)",
    _in_float64(_erfc),
    partials={"x": lambda x: (-2.0 / _SQRT_PI) * exp(-x * x)},
    accepts="real_inexact",
    home="special",
    doc="1 - erf(x), accurate where erf(x) is near 1.",
    algebra=Algebra(monotone=-1, range="[0, 2]"),
    samples=unary((-3.0, 3.0), (3.0, 7.0)),
    reference="scipy.special.erfc",
    onnx=Missing("ONNX writes it as Sub(1, Erf(x)), which loses its accuracy"),
    source=_ERF_SOURCE,
    cost=TRANSCENDENTAL,
    form=Form("erfc", "erfc({0})", local="−2 / √π · e^(−{0}²)"),
    sympy=lambda sp, x: sp.erfc(x),
    autocast="float32",
)

# -- logarithm of the gamma function

# lgamma(x) / (x - 2) on [1.5, 2.5], in 2 (x - 2).
_LGAMMA = (
    0.42278433509846713, 0.1612335167120566, -0.016838075263299536, 0.0025726010534730787, -0.000461596939291756,
    9.032844783544811e-05, -1.8636779875052926e-05, 3.981793164267811e-06, -8.716982449081134e-07,
    1.942529426790968e-07, -4.387339030049162e-08, 1.001332635032469e-08, -2.3043102744274226e-09,
    5.339625498454325e-10, -1.2481294697143873e-10, 2.924893264533834e-11, -6.566215046625873e-12,
    1.5405403077263189e-12, -5.117684453811745e-13, 1.2348124407415191e-13,
)  # fmt: skip
STIRLING = tuple(b / (2 * k * (2 * k - 1)) for k, b in enumerate(BERNOULLI[:8], 1))


def _lgamma_2_plus(s: Array) -> Array:
    """Return lgamma(2 + s) for |s| <= 1/2, accurate relative to its zero at s = 0."""
    return s * _polynomial(2.0 * s, _LGAMMA)


def _lgamma_near_1(x: Array) -> Array:
    s = x - 1.0
    return _lgamma_2_plus(s) - np.log1p(s)


def _lgamma_below_8(x: Array) -> Array:
    """Return lgamma, reduced to [1.5, 2.5) by Gamma(x + 1) = x Gamma(x)."""
    steps = np.floor(x - 1.5)
    product = np.ones_like(x)
    for k in range(1, int(steps.max()) + 1):
        product *= np.where(k <= steps, x - k, 1.0)
    return np.log(product) + _lgamma_2_plus(x - steps - 2.0)


def _lgamma_large(x: Array) -> Array:
    """Return lgamma by Stirling's series."""
    inverse = 1.0 / x
    series = inverse * _polynomial(inverse * inverse, STIRLING)
    return (x - 0.5) * (np.log(x) - 1.0) + (0.5 * math.log(2.0 * math.pi) - 0.5) + series


def _sin_pi(x: Array) -> Array:
    """Return |sin(pi x)|, exact about where it vanishes."""
    out: Array = np.sin(math.pi * np.abs(x - np.rint(x)))
    return out


def _lgamma(x: Array) -> Array:
    return _choose(
        x,
        (np.abs(x) < 0.5, lambda x: _lgamma_2_plus(x) - np.log(np.abs(x) * (1.0 + x))),
        (np.isinf(x), np.abs),
        ((x < 0.0) & (x == np.rint(x)), lambda x: np.full_like(x, np.inf)),
        (x < 0.0, lambda x: -np.log(-x * _sin_pi(x) / math.pi) - _lgamma(-x)),
        (x < 1.5, _lgamma_near_1),
        (x < 8.0, _lgamma_below_8),
        (x >= 8.0, _lgamma_large),
    )


lgamma = elementwise(
    "lgamma(x)",
    _in_float64(_lgamma),
    partials={"x": lambda x: digamma(x)},
    accepts="real_inexact",
    home="special",
    doc="The logarithm of |Gamma(x)|; inf at 0, -1, -2, ... Near its zeros at negative numbers as accurate as numbers "
    "about 1 are.",
    samples=unary((0.2, 5.0), (5.0, 20.0), (-1.8, -1.2)),
    reference="scipy.special.gammaln",
    onnx=Missing("ONNX has no such operator"),
    source="DLMF 5.11.1 (Stirling's series), 5.5.1 (recurrence), 5.5.3 (reflection)",
    form=Form("ln Γ", "ln Γ({0})", local="ψ({0})"),
    latex=Latex(r"\log\Gamma"),
    sympy=lambda sp, x: sp.loggamma(x),
    nonfinite=Nonfinite(
        ((always, Cause("a pole of the gamma function", "keep the argument away from 0, -1, -2, ...")),)
    ),
    autocast="float32",
)

# -- derivatives of it

# The positive zero of digamma, in two parts.
_ROOT, _ROOT_LOW = 1.4616321449683622, 9.549995429965697e-17
# digamma(x) / (x - root) on [1, 2.5], in (x - 1.75) / 0.75.
_DIGAMMA = (
    0.8581832171262995, -0.24469097090107927, 0.08838006376052412, -0.03471423174384445, 0.014174890666686625,
    -0.005906525178504809, 0.002489169465276425, -0.001055920119056149, 0.00044968855783508055,
    -0.00019196799119296738, 8.206994306963427e-05, -3.511849484270319e-05, 1.5035887495398485e-05,
    -6.4399192049972514e-06, 2.759661179188668e-06, -1.1825758337576936e-06, 5.048424270742268e-07,
    -2.160487716680486e-07, 9.585815914468884e-08, -4.145431011871312e-08, 1.380517464800082e-08,
    -5.588819531087905e-09, 5.687036453977521e-09, -2.6237321953380285e-09, -6.646004953212231e-10,
    3.469759814563021e-10, 4.2379335360964846e-10, -1.908325511670712e-10,
)  # fmt: skip
_DIGAMMA_SERIES = tuple(b / (2 * k) for k, b in enumerate(BERNOULLI[:8], 1))


def _digamma_middle(x: Array) -> Array:
    return ((x - _ROOT) - _ROOT_LOW) * _polynomial((x - 1.75) / 0.75, _DIGAMMA)


def _digamma_below_10(x: Array) -> Array:
    """Return digamma, reduced to [1.5, 2.5), where it is positive: no cancellation."""
    steps = np.floor(x - 1.5)
    total = _digamma_middle(x - steps)
    for k in range(1, int(steps.max()) + 1):
        total += np.where(k <= steps, 1.0 / (x - k), 0.0)
    return total


def _digamma_large(x: Array) -> Array:
    inverse = 1.0 / x
    square = inverse * inverse
    return np.log(x) - 0.5 * inverse - square * _polynomial(square, _DIGAMMA_SERIES)


def _cot_pi(x: Array) -> Array:
    """Return cot(pi x), exact about its zeros; NaN at the whole numbers, where its two sides disagree."""
    fraction = x - np.rint(x)
    size = np.abs(fraction)
    slope = np.tan(math.pi * np.minimum(size, 0.5 - size))
    found = np.copysign(np.where(size > 0.25, slope, 1.0 / slope), fraction)
    return np.where(size == 0.0, np.nan, found)


def _digamma(x: Array) -> Array:
    return _choose(
        x,
        (x == 0.0, lambda x: -np.copysign(np.inf, x)),
        (x < 0.0, lambda x: _digamma(1.0 - x) - math.pi * _cot_pi(x)),
        (x < 1.0, lambda x: _digamma_middle(x + 1.0) - 1.0 / x),
        (x < 2.5, _digamma_middle),
        (x < 10.0, _digamma_below_10),
        (x >= 10.0, _digamma_large),
    )


digamma: Op = elementwise(
    "digamma(x)",
    _in_float64(_digamma),
    partials={"x": lambda x: polygamma_op(x, n=1)},
    accepts="real_inexact",
    home="special",
    doc="The derivative of lgamma; NaN at -1, -2, ..., an infinity of the opposite sign at 0.0 and -0.0. Near its "
    "zeros at negative numbers, between whole ones, as accurate as numbers about 1 are.",
    samples=unary((0.2, 5.0), (5.0, 20.0), (-1.8, -1.2)),
    reference="scipy.special.digamma",
    onnx=Missing("ONNX has no such operator"),
    source="DLMF 5.11.2 (asymptotic series), 5.5.2 (recurrence), 5.5.4 (reflection)",
    form=Form("ψ", "ψ({0})", local="ψ_1({0})"),
    latex=Latex(r"\psi"),
    sympy=lambda sp, x: sp.digamma(x),
    nonfinite=Nonfinite(
        ((always, Cause("a pole of the gamma function", "keep the argument away from 0, -1, -2, ...")),)
    ),
    autocast="float32",
)

# 171! overflows float64.
_MAX_ORDER = 170


def _polygamma_positive(x: Array, n: int) -> Array:
    """Return (-1)**(n+1) n! times the sum of (x + k)**-(n+1) over k = 0, 1, ..., by the Euler-Maclaurin formula."""
    steps = np.maximum(np.ceil(n + 12.0 - x), 0.0)
    total = np.zeros_like(x)
    for k in range(int(steps.max(initial=0.0))):
        total += np.where(k < steps, (x + k) ** -(n + 1.0), 0.0)
    a = x + steps
    tail = a ** -float(n)
    square = 1.0 / (a * a)
    coefficients = [1.0 / n]
    ratio = 1.0 / n  # (n + 2k - 1)! / (n! (2k)!)
    for k in range(1, len(BERNOULLI) + 1):
        ratio *= (n + 2 * k - 2) * (n + 2 * k - 1) / ((2 * k - 1) * (2 * k))
        coefficients.append(BERNOULLI[k - 1] * ratio)
    total += tail * (_polynomial(square, tuple(coefficients)) + 0.5 / a)
    return (-1.0) ** (n + 1) * math.factorial(n) * total


def cot_derivative(n: int) -> tuple[float, ...]:
    """Return the n-th derivative of cot as a polynomial in cot, from cot' = -(1 + cot**2)."""
    coefficients = [0, 1]
    for _ in range(n):
        slope = [k * c for k, c in enumerate(coefficients)][1:]
        coefficients = [-a - b for a, b in zip([*slope, 0, 0], [0, 0, *slope], strict=True)]
    return tuple(map(float, coefficients))


def _polygamma_negative(x: Array, n: int) -> Array:
    """Return polygamma by reflection; at the poles +inf for odd n, NaN for even n, whose two sides disagree."""
    sine_pole = x == np.rint(x)
    reflected = math.pi ** (n + 1) * _polynomial(_cot_pi(x), cot_derivative(n))
    value = (-1.0) ** n * _polygamma_positive(1.0 - x, n) - reflected
    return np.where(sine_pole, np.inf if n % 2 else np.nan, value)


def _polygamma(x: Any, n: int) -> Any:
    return _in_float64(
        lambda x: _choose(
            x,
            (x >= 0.0, lambda x: _polygamma_positive(x, n)),
            (x < 0.0, lambda x: _polygamma_negative(x, n)),
        )
    )(x)


def _infer_polygamma(x: Spec, n: int) -> Spec:
    return x


def _polygamma_reference(x: Any, n: int) -> Any:
    from scipy.special import polygamma

    return polygamma(n, x)


polygamma_op: Op = op(
    "polygamma(x; n: order)",
    _polygamma,
    infer=_infer_polygamma,
    facts={"x": Partial(lambda x, n: polygamma_op(x, n=n + 1))},
    kind="elementwise",
    accepts="real_inexact",
    layout="()->()",
    doc="The n-th derivative of digamma, n >= 1.",
    samples=lambda rng: [
        Call((np.asarray(rng.uniform(low, high, shape)),), {"n": n}, order=3)
        for n, low, high, shape in (
            (1, 0.2, 5.0, (2, 3)),
            (2, 5.0, 30.0, (3,)),
            (3, 0.5, 2.0, ()),
            (1, -1.8, -1.2, (3,)),
            (2, -1.8, -1.2, (3,)),
        )
    ],
    reference=_polygamma_reference,
    onnx=Missing("ONNX has no such operator"),
    source="DLMF 25.11.5 (Hurwitz zeta by Euler-Maclaurin), 5.15.6 (reflection)",
    sympy=lambda sp, x, n: sp.polygamma(n, x),
    autocast="float32",
)


@public(home="special")
def polygamma(n: int, x: Any) -> Tensor:
    """Return the `n`-th derivative of digamma at each element of `x`.

    Parameters
    ----------
    n: an int from 0 (digamma itself) to 170.
    x: a real tensor; integers become the default float.

    Raises DTypeError for a complex tensor or an `n` that is not an int, GraphError for one out of range.

    >>> import wengert as wg
    >>> wg.special.polygamma(1, wg.tensor(1.0))  # pi**2 / 6
    tensor(1.6449)
    """
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)):
        fail(
            DTypeError, f"polygamma: the order is a {type(n).__name__}, not an int", "Write wg.special.polygamma(1, x)."
        )
    if not 0 <= n <= _MAX_ORDER:
        fail(
            GraphError,
            f"polygamma: the order {n} does not lie between 0 and {_MAX_ORDER}",
            "Beyond, n! overflows float64.",
        )
    if n == 0:
        return digamma.front(x)  # type: ignore[no-any-return]
    x = as_operand(x)
    if category(x.dtype) == 3:
        fail(DTypeError, f"polygamma takes real numbers, not {x.shape} {x.dtype}")
    dtype = inexact_dtype(x.dtype)
    return bind(polygamma_op, (x if x.dtype == dtype else cast.front(x, dtype=dtype),), {"n": int(n)})  # type: ignore[no-any-return]


def _polygamma_front(x: Any, *, n: int) -> Tensor:
    return polygamma(n, x)


polygamma_op.front = _polygamma_front


@public(name="polygamma", method=True, function=False)
def _polygamma_method(self: Tensor, n: int) -> Tensor:
    """Return `wg.special.polygamma(n, self)`."""
    return polygamma(n, self)
