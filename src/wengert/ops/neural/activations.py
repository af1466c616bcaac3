"""Activation functions: composites of elementwise ops, the common ones with fused forwards."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any, Unpack

import numpy as np

from ...core.errors import DTypeError, RangeError, ShapeError, fail
from ...core.ops.autocast import computed_in
from ...core.ops.declare import composite, public
from ...core.ops.facets import Facets
from ...core.ops.formula import Formula
from ...core.ops.op import Algebra, Fact, Missing, Op, Partial, Route, Samples
from ...core.ops.sampling import unary
from ...core.spec import category, float32, float64, normalize_axis
from ...core.tensor import Tensor
from ..aliases import dim_alias
from ..blocks import blockwise
from ..index.inplace import update
from ..pointwise.arithmetic import exp, multiply, sigmoid
from ..pointwise.selection import abs, clip, maximum, minimum, where, where_op
from ..pointwise.trigonometry import tanh
from ..reduce.common import running_dtype
from ..special.gamma import erfc
from ..structure.assemble import chunk
from ..structure.shapes import as_operand, cast, casted

_ROOT_HALF = math.sqrt(0.5)
_GAUSS = 1 / math.sqrt(2 * math.pi)
_TANH_SCALE = math.sqrt(2 / math.pi)
_TANH_CUBE = 0.044715
# erfc(z) exp(z*z) / t to 7e-8, in t = 1 / (1 + 0.4 z).
_NORMAL_TAIL = (
    0.2256404383, 0.226333495, 0.202695968, 0.1901376681, 0.08760437888, 0.07633666888, 0.09435904495,
    -0.14542714, 0.0423195463,
)  # fmt: skip
_SILU = "x * sigmoid(x)"
_SOFTPLUS = "(log1p(exp(-abs(x * beta))) + maximum(x * beta, 0.0)) / beta"
_SELU_ALPHA = 1.6732632423543772
_SELU_SCALE = 1.0507009873554805


def operand(x: Any, name: str) -> Tensor:
    """Return a real floating tensor; integers become the default float. Raises DTypeError."""
    t = as_operand(x)
    kind = category(t.spec.dtype)
    if kind == 3:
        fail(DTypeError, f"{name} of complex numbers, {t.spec}", "Take wg.real(x) or wg.abs(x) first.")
    return t if kind == 2 else casted(t, float32)


def inexact_operand(x: Any, name: str) -> Tensor:
    """Return a floating or complex tensor; integers become the default float."""
    t = as_operand(x)
    return t if category(t.spec.dtype) >= 2 else casted(t, float32)


def in_single(body: Callable[..., Any]) -> Callable[..., Any]:
    """Return an elementwise body that computes half precision in float32, its numbers too, and rounds once."""

    @wraps(body)
    def run(x: Any, **attrs: Any) -> Any:
        wide = running_dtype(x.dtype)
        return body(x, **attrs) if wide == x.dtype else casted(body(casted(x, wide), **attrs), x.dtype)

    return run


def _of(formula: str, signature: str) -> Callable[..., Any]:
    """Return the body of an elementwise composite of x."""
    attrs = [a.strip() for a in signature.partition(";")[2].rstrip(")").split(",") if a.strip()]
    return in_single(Formula(formula, ("x",), attrs))


# -- the exact and the tanh form of GELU


def _normal_tail(x: Any) -> tuple[Any, Any]:
    """Return the probability that a normal variable is above |x|, and exp(-x*x / 2)."""
    size, bell = np.abs(x), np.exp(-0.5 * x * x)
    if x.dtype == float64:
        # 1 - erf would lose all digits far out.
        return 0.5 * erfc.forward(size * _ROOT_HALF), bell
    t = 1.0 / (1.0 + (0.4 * _ROOT_HALF) * size)
    tail = t * _NORMAL_TAIL[-1]
    for c in _NORMAL_TAIL[-2::-1]:
        tail += c
        tail *= t
    tail *= bell
    tail *= 0.5
    return tail, bell


@blockwise
def _gelu_numpy(x: Any, approximate: str) -> Any:
    if approximate == "none":
        # x (1 - tail) on the right and x tail on the left; beyond 40 the tail is 0 in every dtype.
        below = (x > 0).astype(x.dtype)
        below -= _normal_tail(x)[0]
        np.abs(below, out=below)
        below *= np.maximum(x, -40)
        return below
    # (1 + tanh(u)) / 2 is the sigmoid of 2 u, which keeps its digits on the left.
    inner = x * x
    inner *= x * (-2 * _TANH_SCALE * _TANH_CUBE)
    inner -= x * (2 * _TANH_SCALE)
    np.exp(inner, out=inner)
    inner += 1
    return np.divide(np.maximum(x, -40), inner, out=inner)


@blockwise
def _gelu_slope_numpy(x: Any, approximate: str) -> Any:
    if approximate == "none":
        tail, bell = _normal_tail(x)
        right = (x > 0).astype(x.dtype)
        return right + (1 - 2 * right) * tail + np.maximum(np.minimum(x, 40), -40) * (_GAUSS * bell)
    x = np.minimum(np.maximum(x, -40), 40)
    square = x * x
    s = 1 / (1 + np.exp((-2 * _TANH_SCALE) * x * (1 + _TANH_CUBE * square)))
    return s * (1 + x * (1 - s) * (2 * _TANH_SCALE * (1 + 3 * _TANH_CUBE * square)))


def _gelu_slope(x: Any, approximate: str) -> Any:
    slope = _gelu_slope_recorded if isinstance(x, Tensor) else _gelu_slope_numpy
    return slope(x, approximate=approximate)


@in_single
def _gelu_slope_recorded(x: Tensor, approximate: str) -> Any:
    if approximate == "tanh":
        x = maximum(minimum(x, 40.0), -40.0)
        s = sigmoid((2 * _TANH_SCALE) * (x + _TANH_CUBE * x * x * x))
        return s * (1 + x * (1 - s) * (2 * _TANH_SCALE * (1 + 3 * _TANH_CUBE * x * x)))
    # Beyond 40 the bell is 0 in every dtype; an infinity times it would be NaN.
    return 0.5 * erfc(x * -_ROOT_HALF) + maximum(minimum(x, 40.0), -40.0) * (_GAUSS * exp(-0.5 * x * x))


def _attrs_for(samples: Samples, *choices: dict[str, Any]) -> Samples:
    """Return the samples once with each choice of attributes."""

    def drawn(rng: Any) -> Any:
        return [type(c)(c.args, attrs, c.order) for attrs in choices for c in samples(rng)]

    return drawn


def _gelu_reference(x: Any, approximate: str) -> Any:
    if approximate == "tanh":
        return np.vectorize(lambda v: 0.5 * v * (1 + math.tanh(_TANH_SCALE * (v + _TANH_CUBE * v**3))))(x)
    return np.vectorize(lambda v: v * 0.5 * (1 + math.erf(v / math.sqrt(2))))(x)


@composite(
    'gelu(x; approximate: "none"|"tanh")',
    accepts="real_inexact",
    forward=_gelu_numpy,
    facts={"x": Partial(_gelu_slope)},
    doc="x times the normal distribution function at x, exact or by tanh.",
    source="Hendrycks and Gimpel 2016, arXiv:1606.08415",
    samples=_attrs_for(unary((-3, 3)), {"approximate": "none"}, {"approximate": "tanh"}),
    reference=_gelu_reference,
    onnx="Gelu",
    activation="dead",
    zero_gradient="saturated",
)
@in_single
def gelu_op(x: Any, *, approximate: str) -> Any:
    """Return the Gaussian error linear unit, exact or by its tanh approximation."""
    if approximate == "tanh":
        # (1 + tanh(u)) / 2 is the sigmoid of 2 u, which keeps its digits on the left.
        return maximum.front(x, -40.0) * sigmoid.front((2 * _TANH_SCALE) * (x + _TANH_CUBE * x * x * x))
    # Beyond 40 erfc is 0 in every dtype; an infinity times it would be NaN.
    return 0.5 * maximum.front(x, -40.0) * erfc.front(x * -_ROOT_HALF)


@public(method=True, home="nn.functional")
def gelu(input: Any, approximate: str = "none") -> Tensor:
    """Return the Gaussian error linear unit: x times the normal distribution function at x.

    Parameters
    ----------
    input: any shape, real.
    approximate: "none" for the exact form, "tanh" for the cheaper one.

    Source: Hendrycks and Gimpel 2016, arXiv:1606.08415.

    Raises RangeError for another `approximate` than "none" and "tanh".

    >>> import wengert as wg
    >>> wg.nn.functional.gelu(wg.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.1587,  0.    ,  0.8413])
    """
    if approximate not in ("none", "tanh"):
        fail(RangeError, f"gelu: approximate={approximate!r}", 'It is "none" or "tanh".')
    out: Tensor = gelu_op.front(operand(input, "gelu"), approximate=approximate)
    return out


# -- SiLU, softplus and the logarithm of the sigmoid


@blockwise
def _silu_numpy(x: Any) -> Any:
    return x / (1.0 + np.exp(-x))


@blockwise
def _silu_slope_numpy(x: Any) -> Any:
    s = 1.0 / (1.0 + np.exp(-x))
    return s * (1 + x * (1 - s))


def _silu_slope(x: Any) -> Any:
    if not isinstance(x, Tensor):
        return _silu_slope_numpy(x)
    s = sigmoid(x)
    return s * (1 + x * (1 - s))


silu_op = composite(
    "silu(x)",
    formulas=(_SILU,),
    accepts="floating",
    forward=_silu_numpy,
    facts={"x": Partial(_silu_slope)},
    doc="x times its sigmoid.",
    source="Elfwing et al. 2017, arXiv:1702.03118; Ramachandran et al. 2017, arXiv:1710.05941",
    samples=unary((-3, 3)),
    reference=np.vectorize(lambda v: v / (1 + math.exp(-v))),
    onnx=Missing("ONNX writes it as Mul and Sigmoid"),
    activation="dead",
    zero_gradient="saturated",
)(_of(_SILU, "silu(x)"))


@public(method=True, home="nn.functional")
def silu(input: Any, inplace: bool = False) -> Tensor:
    """Return the sigmoid linear unit, x times its sigmoid; `swish` is its other name.

    Source: Ramachandran et al. 2017, arXiv:1710.05941.

    >>> import wengert as wg
    >>> wg.nn.functional.silu(wg.tensor([0.0, 2.0]))
    tensor([0.    , 1.7616])
    """
    if inplace:
        return update(input, "silu_", lambda x: silu(x))
    t = inexact_operand(input, "silu")
    out: Tensor = t * sigmoid.front(t) if category(t.dtype) == 3 else silu_op.front(t)
    return out


@blockwise
def _softplus_numpy(x: Any, beta: float) -> Any:
    z = x * beta
    return (np.log1p(np.exp(-np.abs(z))) + np.maximum(z, 0)) / beta


softplus_op = composite(
    "softplus(x; beta)",
    formulas=(_SOFTPLUS,),
    accepts="real_inexact",
    forward=_softplus_numpy,
    facts={"x": Partial(lambda x, beta: sigmoid(x * beta))},
    doc="log(1 + exp(beta x)) / beta, a smooth ramp.",
    source="Dugas et al. 2001, NIPS 13",
    samples=_attrs_for(unary((-3, 3), (30, 40)), {"beta": 1.0}, {"beta": 2.0}, {"beta": -0.5}),
    reference=lambda x, beta: np.vectorize(lambda v: math.log1p(math.exp(v * beta)) / beta)(x),
    algebra=Algebra(monotone=1, range="(0, inf)"),
    onnx="Softplus",
    sympy=lambda sp, x, beta: sp.log(1 + sp.exp(sp.nsimplify(beta, rational=True) * x)) / sp.nsimplify(beta),
    activation="dead",
    zero_gradient="saturated",
    autocast="float32",
)(_of(_SOFTPLUS, "softplus(x; beta)"))


@public(method=True, home="nn.functional")
def softplus(x: Any, beta: float = 1.0) -> Tensor:
    """Return log(1 + exp(beta x)) / beta: a smooth ramp, right for every size of x.

    Source: Dugas et al. 2001, NIPS 13.

    >>> import wengert as wg
    >>> wg.nn.functional.softplus(wg.tensor([0.0, 100.0]))
    tensor([  0.6931, 100.    ])
    """
    out: Tensor = softplus_op.front(operand(x, "softplus"), beta=float(beta))
    return out


@public(home="nn.functional")
def logsigmoid(input: Any) -> Tensor:
    """Return the logarithm of the sigmoid, without overflow: -softplus(-x).

    >>> import wengert as wg
    >>> wg.nn.functional.logsigmoid(wg.tensor([0.0, -1000.0]))
    tensor([-6.9315e-01, -1.0000e+03])
    """
    out: Tensor = logsigmoid_op.front(operand(input, "logsigmoid"))
    return out


def _elementwise(
    signature: str,
    formula: str,
    doc: str,
    source: str,
    reference: Callable[..., float],
    samples: Samples,
    onnx: Any = None,
    forward: Callable[..., Any] | None = None,
    slope: Callable[..., Any] | Fact | None = None,
    algebra: Algebra | None = None,
    **facets: Unpack[Facets],
) -> Op:
    """Return an elementwise composite by its formula; without a slope of its own it has its body's."""

    def apply(x: Any, **attrs: Any) -> Any:
        return np.vectorize(lambda v: reference(v, **attrs))(x)

    fact = slope if isinstance(slope, Fact) or slope is None else Partial(slope)
    declared = composite(
        signature,
        accepts="real_inexact",
        forward=forward,
        facts=None if fact is None else {"x": fact},
        formulas=(formula,),
        doc=doc,
        source=source,
        reference=apply,
        samples=samples,
        onnx=onnx,
        algebra=algebra,
        **facets,
    )
    return declared(_of(formula, signature))


@blockwise
def _exponential_slope_numpy(x: Any, above: float, below: float, width: float) -> Any:
    slope = np.minimum(x, 0)
    if width != 1:
        slope /= width
    np.exp(slope, out=slope)
    if below != 1:
        slope *= below
    np.copyto(slope, above, where=x > 0)
    return slope


def _exponential_slope(x: Any, above: float, below: float, width: float = 1.0) -> Any:
    """Return the slope of an elu: `above` where x is positive, else below exp(x / width).

    What the result plus alpha leaves of it far below 0 would be rounding.
    """
    if not isinstance(x, Tensor):
        return _exponential_slope_numpy(x, above=above, below=below, width=width)
    is_above = x > 0
    negative_part = where_op(is_above, 0.0, x)
    return where_op(is_above, above, below * exp(negative_part if width == 1 else negative_part / width))


# The 0 stands first below: of two zeros NumPy takes the second, and x keeps its sign.


@blockwise
def _elu_numpy(x: Any, alpha: float) -> Any:
    low = alpha * np.expm1(np.minimum(0, x))
    return np.maximum(0, x) + low if alpha >= 0 else np.where(x > 0, x, low)  # whose zero is negative


@blockwise
def _celu_numpy(x: Any, alpha: float) -> Any:
    return np.maximum(0, x) + alpha * np.expm1(np.minimum(0, x) / alpha)


@blockwise
def _selu_numpy(x: Any) -> Any:
    return _SELU_SCALE * (np.maximum(0, x) + _SELU_ALPHA * np.expm1(np.minimum(0, x)))


@blockwise
def _leaky_relu_numpy(x: Any, slope: float) -> Any:
    # The larger of the two is the right one between 0 and 1, and much the faster to pick.
    return np.maximum(x, x * slope) if 0 < slope <= 1 else np.where(x > 0, x, x * slope)


@blockwise
def _leaky_relu_slope_numpy(x: Any, slope: float) -> Any:
    above = (x > 0).astype(x.dtype)
    return np.maximum(above, slope) if 0 <= slope <= 1 else above + (1 - above) * slope


def _leaky_relu_slope(x: Any, slope: float) -> Any:
    if not isinstance(x, Tensor):
        return _leaky_relu_slope_numpy(x, slope=slope)
    return where_op(x > 0, 1.0, x.dtype.type(slope))


_AROUND_ZERO = unary((0.2, 3), (-3, -0.2))


@blockwise
def _logsigmoid_numpy(x: Any) -> Any:
    return np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x)))


logsigmoid_op = _elementwise(
    "logsigmoid(x)",
    "minimum(x, 0.0) - log1p(exp(-abs(x)))",
    "log of the sigmoid.",
    "",
    lambda v: -math.log1p(math.exp(-v)),
    unary((-3, 3)),
    Missing("ONNX writes it as Neg and Softplus"),
    forward=_logsigmoid_numpy,
    slope=lambda x: sigmoid(-x),
    sympy=lambda sp, x: -sp.log(1 + sp.exp(-x)),
    autocast="float32",
)


@blockwise
def _logistic_density_numpy(x: Any) -> Any:
    size = np.abs(x)
    return -(size + 2 * np.log1p(np.exp(-size)))


logistic_density_op = _elementwise(
    "logistic_density(x)",
    "-(abs(x) + 2.0 * log1p(exp(-abs(x))))",
    "log of the sigmoid's slope: the logarithm of the standard logistic density.",
    "",
    lambda v: -v - 2 * math.log1p(math.exp(-v)),
    unary((-3, 3)),
    Missing("ONNX writes it with Abs and Softplus"),
    forward=_logistic_density_numpy,
    slope=lambda x: -tanh(0.5 * x),
    algebra=Algebra(even=True, range="(-inf, 0)"),
    sympy=lambda sp, x: -x - 2 * sp.log(1 + sp.exp(-x)),
    autocast="float32",
)


elu_op = _elementwise(
    "elu(x; alpha)",
    "where(x > 0, x, alpha * expm1(x))",
    "x, and alpha (exp(x) - 1) below 0.",
    "Clevert et al. 2015, arXiv:1511.07289",
    lambda v, alpha: v if v > 0 else alpha * math.expm1(v),
    _attrs_for(_AROUND_ZERO, {"alpha": 1.0}, {"alpha": 0.7}, {"alpha": -0.5}),
    "Elu",
    forward=_elu_numpy,
    slope=lambda x, alpha: _exponential_slope(x, 1.0, alpha),
    activation="saturated",
    zero_gradient="saturated",
)


celu_op = _elementwise(
    "celu(x; alpha)",
    "where(x > 0, x, alpha * expm1(x / alpha))",
    "x, and alpha (exp(x / alpha) - 1) below 0.",
    "Barron 2017, arXiv:1704.07483",
    lambda v, alpha: v if v > 0 else alpha * math.expm1(v / alpha),
    _attrs_for(_AROUND_ZERO, {"alpha": 1.0}, {"alpha": 0.7}, {"alpha": -0.5}),
    "Celu",
    forward=_celu_numpy,
    slope=lambda x, alpha: _exponential_slope(x, 1.0, 1.0, alpha),
    activation="saturated",
)


selu_op = _elementwise(
    "selu(x)",
    f"{_SELU_SCALE} * where(x > 0, x, {_SELU_ALPHA} * expm1(x))",
    "A scaled elu that keeps activations normalised.",
    "Klambauer et al. 2017, arXiv:1706.02515",
    lambda v: _SELU_SCALE * (v if v > 0 else _SELU_ALPHA * math.expm1(v)),
    _AROUND_ZERO,
    "Selu",
    forward=_selu_numpy,
    slope=lambda x: _exponential_slope(x, _SELU_SCALE, _SELU_SCALE * _SELU_ALPHA),
    activation="saturated",
)


leaky_relu_op = _elementwise(
    "leaky_relu(x; slope)",
    "where(x > 0, x, x * slope)",
    "x, and slope x below 0.",
    "Maas et al. 2013, ICML workshop",
    lambda v, slope: v if v > 0 else slope * v,
    _attrs_for(_AROUND_ZERO, {"slope": 0.01}, {"slope": 0.3}, {"slope": -0.5}, {"slope": 2.0}),
    "LeakyRelu",
    forward=_leaky_relu_numpy,
    slope=_leaky_relu_slope,
    activation="saturated",
)


hardtanh_op = _elementwise(
    "hardtanh(x; low, high)",
    "where(x <= low, low, where(x >= high, high, x))",
    "x, bounded.",
    "Collobert 2004",
    lambda v, low, high: min(max(v, low), high),
    _attrs_for(unary((-0.9, 0.9), (1.2, 3)), {"low": -1.0, "high": 1.0}),
    "Clip",
    forward=blockwise(lambda x, low, high: np.minimum(np.maximum(x, low), high)),
    slope=Route(lambda x, low, high: ~((x <= low) | (x >= high))),
    activation="saturated",
    zero_gradient="clipped",
)


# Not x times the bounded sum over 6: that product may leave the range.
hardswish_op = _elementwise(
    "hardswish(x)",
    "x * (minimum(maximum(x + 3.0, 0.0), 6.0) / 6.0)",
    "x clip(x + 3, 0, 6) / 6.",
    "Howard et al. 2019, arXiv:1905.02244",
    lambda v: v * min(max(v + 3, 0), 6) / 6,
    unary((-2.5, 2.5), (3.2, 5)),
    "HardSwish",
    # At the kinks the derivatives outside: a product rule would take half a sum of both sides.
    slope=lambda x: where_op(x <= -3.0, 0.0, where_op(x >= 3.0, 1.0, x / 3.0 + 0.5)),
    zero_gradient="clipped",
)


@blockwise
def _mish_numpy(x: Any) -> Any:
    return x * np.tanh(_softplus_numpy(x, beta=1.0))


def _mish_slope(x: Any) -> Any:
    wide = running_dtype(x.dtype)
    if wide != x.dtype:
        return cast(_mish_slope(cast(x, dtype=wide)), dtype=x.dtype)
    share = tanh(softplus_op(x, beta=1.0))
    return share + x * sigmoid(x) * (1.0 - share * share)


mish_op = _elementwise(
    "mish(x)",
    "x * tanh(log1p(exp(-abs(x))) + maximum(x, 0.0))",
    "x tanh(softplus(x)).",
    "Misra 2019, arXiv:1908.08681",
    lambda v: v * math.tanh(math.log1p(math.exp(v))),
    unary((-3, 3)),
    "Mish",
    forward=_mish_numpy,
    slope=_mish_slope,
)


softsign_op = _elementwise(
    "softsign(x)",
    "x / (1.0 + abs(x))",
    "x / (1 + |x|).",
    "Bergstra et al. 2009",
    lambda v: v / (1 + abs(v)),
    _AROUND_ZERO,
    "Softsign",
)


@public(home="nn.functional")
def elu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Return x where it is positive, else alpha (exp(x) - 1). Source: Clevert et al. 2015, arXiv:1511.07289.

    >>> import wengert as wg
    >>> wg.nn.functional.elu(wg.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.    ])
    """
    if inplace:
        return update(input, "elu_", lambda x: elu(x, alpha))
    out: Tensor = elu_op.front(operand(input, "elu"), alpha=float(alpha))
    return out


@public(home="nn.functional")
def celu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Return x where it is positive, else alpha (exp(x / alpha) - 1). Source: Barron 2017, arXiv:1704.07483.

    >>> import wengert as wg
    >>> wg.nn.functional.celu(wg.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.    ])
    """
    if inplace:
        return update(input, "celu_", lambda x: celu(x, alpha))
    out: Tensor = celu_op.front(operand(input, "celu"), alpha=float(alpha))
    return out


@public(home="nn.functional")
def selu(input: Any, inplace: bool = False) -> Tensor:
    """Return the self-normalising elu. Source: Klambauer et al. 2017, arXiv:1706.02515.

    >>> import wengert as wg
    >>> wg.nn.functional.selu(wg.tensor([-1.0, 2.0]))
    tensor([-1.1113,  2.1014])
    """
    if inplace:
        return update(input, "selu_", lambda x: selu(x))
    out: Tensor = selu_op.front(operand(input, "selu"))
    return out


@public(home="nn.functional")
def leaky_relu(input: Any, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """Return x where it is positive, else `negative_slope` x. Source: Maas et al. 2013.

    >>> import wengert as wg
    >>> wg.nn.functional.leaky_relu(wg.tensor([-1.0, 2.0]), 0.1)
    tensor([-0.1,  2. ])
    """
    if inplace:
        return update(input, "leaky_relu_", lambda x: leaky_relu(x, negative_slope))
    out: Tensor = leaky_relu_op.front(operand(input, "leaky_relu"), slope=float(negative_slope))
    return out


@public(home="nn.functional")
@computed_in("lower", "torch")
def prelu(input: Any, weight: Any) -> Tensor:
    """Return x where it is positive, else `weight` x, the weight learnt. Source: He et al. 2015, arXiv:1502.01852.

    Parameters
    ----------
    input: (n, channels, ...).
    weight: one number, or (channels,).

    Raises ShapeError for other weights than one, or one for every channel.

    >>> import wengert as wg
    >>> wg.nn.functional.prelu(wg.tensor([[-1.0, 2.0]]), wg.tensor(0.25))
    tensor([[-0.25,  2.  ]])
    """
    t, w = operand(input, "prelu"), operand(weight, "prelu")
    if w.size > 1 and (t.ndim < 2 or w.shape != (t.shape[1],)):
        fail(
            ShapeError,
            f"prelu: weights {w.spec} for input {t.spec}",
            "Give one weight, or one for every channel of axis 1.",
        )
    shaped = w.reshape((-1,) + (1,) * (t.ndim - 2)) if w.size > 1 else w.reshape(())
    return where(t > 0, t, multiply.front(t, shaped))


@public(home="nn.functional")
def relu6(input: Any, inplace: bool = False) -> Tensor:
    """Return x, bounded to 0..6. Source: Krizhevsky 2010.

    >>> import wengert as wg
    >>> wg.nn.functional.relu6(wg.tensor([-1.0, 3.0, 9.0]))
    tensor([0., 3., 6.])
    """
    if inplace:
        return update(input, "relu6_", lambda x: relu6(x))
    return hardtanh(input, 0.0, 6.0)


@public(home="nn.functional")
def hardtanh(input: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """Return x, bounded to `min_val`..`max_val`.

    Raises RangeError for a `min_val` above `max_val`.

    >>> import wengert as wg
    >>> wg.nn.functional.hardtanh(wg.tensor([-3.0, 0.5]))
    tensor([-1. ,  0.5])
    """
    if inplace:
        return update(input, "hardtanh_", lambda x: hardtanh(x, min_val, max_val))
    if min_val > max_val:
        fail(RangeError, f"hardtanh: min_val {min_val} is above max_val {max_val}")
    t = as_operand(input)
    if t.dtype.kind in "iu":  # integers stay integers
        return clip(t, int(min_val), int(max_val))
    out: Tensor = hardtanh_op.front(operand(t, "hardtanh"), low=float(min_val), high=float(max_val))
    return out


@public(home="nn.functional")
def hardswish(input: Any, inplace: bool = False) -> Tensor:
    """Return x clip(x + 3, 0, 6) / 6. Source: Howard et al. 2019, arXiv:1905.02244.

    >>> import wengert as wg
    >>> wg.nn.functional.hardswish(wg.tensor([-4.0, 0.0, 4.0]))
    tensor([-0.,  0.,  4.])
    """
    if inplace:
        return update(input, "hardswish_", lambda x: hardswish(x))
    out: Tensor = hardswish_op.front(operand(input, "hardswish"))
    return out


@public(home="nn.functional")
def hardsigmoid(input: Any, inplace: bool = False) -> Tensor:
    """Return clip(x / 6 + 1/2, 0, 1): a sigmoid of straight lines. Source: Courbariaux et al. 2015, arXiv:1511.00363.

    >>> import wengert as wg
    >>> wg.nn.functional.hardsigmoid(wg.tensor([-4.0, 0.0, 4.0]))
    tensor([0. , 0.5, 1. ])
    """
    if inplace:
        return update(input, "hardsigmoid_", lambda x: hardsigmoid(x))
    return hardtanh(operand(input, "hardsigmoid") / 6.0 + 0.5, 0.0, 1.0)


@public(home="nn.functional")
def tanhshrink(input: Any) -> Tensor:
    """Return x - tanh(x).

    >>> import wengert as wg
    >>> wg.nn.functional.tanhshrink(wg.tensor([0.0, 1.0]))
    tensor([0.    , 0.2384])
    """
    t = inexact_operand(input, "tanhshrink")
    out: Tensor = t - tanh.front(t)
    return out


@public(home="nn.functional")
def mish(input: Any, inplace: bool = False) -> Tensor:
    """Return x tanh(softplus(x)). Source: Misra 2019, arXiv:1908.08681.

    >>> import wengert as wg
    >>> wg.nn.functional.mish(wg.tensor([0.0, 1.0]))
    tensor([0.    , 0.8651])
    """
    if inplace:
        return update(input, "mish_", lambda x: mish(x))
    out: Tensor = mish_op.front(operand(input, "mish"))
    return out


@public(home="nn.functional")
def softsign(input: Any) -> Tensor:
    """Return x / (1 + |x|).

    >>> import wengert as wg
    >>> wg.nn.functional.softsign(wg.tensor([-1.0, 3.0]))
    tensor([-0.5 ,  0.75])
    """
    t = inexact_operand(input, "softsign")
    out: Tensor = t / (1 + abs.front(t)) if category(t.dtype) == 3 else softsign_op.front(t)
    return out


@public(home="nn.functional")
@dim_alias
def glu(input: Any, axis: int = -1) -> Tensor:
    """Return the gated linear unit: one half along an axis times the sigmoid of the other.

    Raises ShapeError where the axis has an odd size. Source: Dauphin et al. 2016, arXiv:1612.08083.

    >>> import wengert as wg
    >>> wg.nn.functional.glu(wg.tensor([2.0, 0.0]))
    tensor([1.])
    """
    t = operand(input, "glu")
    size = t.shape[normalize_axis(axis, t.ndim)]
    if size % 2:
        fail(ShapeError, f"glu: axis {axis} of {t.spec} has the odd size {size}")
    value, gate = chunk(t, 2, axis)
    out: Tensor = value * sigmoid.front(gate)
    return out
