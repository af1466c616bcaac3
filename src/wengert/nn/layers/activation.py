"""Nonlinearities as modules; with `inplace` they write their result to their input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import full, relu, sigmoid, tanh
from ...core.errors import RangeError, ShapeError, fail
from ...core.tensor import Tensor, asarray
from .. import functional as F
from .. import init as initial
from ..checks import size
from ..functions import activations
from ..module import Module
from ..parameter import Parameter


class _Simple(Module):
    """A nonlinearity without options."""

    _compute: Callable[..., Any]

    def forward(self, input: Any) -> Tensor:
        """Return the function of `input`, elementwise."""
        out: Tensor = type(self)._compute(input)
        return out


class _InPlace(Module):
    """A nonlinearity that writes its result to its input where `inplace` asks."""

    _compute: Callable[..., Any]
    _shows_inplace = True

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Any) -> Tensor:
        """Return the function of `input`, elementwise."""
        out: Tensor = type(self)._compute(input, inplace=True) if self.inplace else type(self)._compute(input)
        return out

    def extra_repr(self) -> str:
        """Return the options for `repr`."""
        return "inplace=True" if self.inplace and self._shows_inplace else ""

    def _after(self, options: str) -> str:
        return f"{options}, inplace=True" if self.inplace else options


class ReLU(_InPlace):
    """The rectified linear unit, max(x, 0).

    >>> import wengert as wg
    >>> wg.nn.ReLU()(wg.tensor([-1.0, 0.0, 2.0]))
    tensor([0., 0., 2.])
    """

    def forward(self, input: Any) -> Tensor:
        """Return max(x, 0), elementwise."""
        return F.relu(input, True) if self.inplace else relu(input)


class ReLU6(_InPlace):
    """The rectified linear unit bounded at 6, min(max(x, 0), 6).

    >>> import wengert as wg
    >>> wg.nn.ReLU6()(wg.tensor([-1.0, 2.0, 8.0]))
    tensor([0., 2., 6.])
    """

    _compute = staticmethod(F.relu6)


class SELU(_InPlace):
    """The self-normalising exponential unit. Source: Klambauer et al., arXiv:1706.02515.

    >>> import wengert as wg
    >>> wg.nn.SELU()(wg.tensor([-1.0, 0.0, 2.0]))
    tensor([-1.1113,  0.    ,  2.1014])
    """

    _compute = staticmethod(F.selu)


class SiLU(_InPlace):
    """The sigmoid linear unit, x sigmoid(x). Source: Elfwing et al., arXiv:1702.03118.

    >>> import wengert as wg
    >>> wg.nn.SiLU()(wg.tensor([-1.0, 0.0, 2.0]))
    tensor([-0.2689,  0.    ,  1.7616])
    """

    _compute = staticmethod(F.silu)


class Mish(_InPlace):
    """The mish unit, x tanh(softplus(x)). Source: Misra, arXiv:1908.08681.

    >>> import wengert as wg
    >>> wg.nn.Mish()(wg.tensor([-1.0, 0.0, 2.0]))
    tensor([-0.3034,  0.    ,  1.944 ])
    """

    _compute = staticmethod(F.mish)


class Hardswish(_InPlace):
    """The hard swish unit, x relu6(x + 3) / 6. Source: Howard et al., arXiv:1905.02244.

    >>> import wengert as wg
    >>> wg.nn.Hardswish()(wg.tensor([-4.0, 0.0, 3.0]))
    tensor([-0.,  0.,  3.])
    """

    _compute = staticmethod(F.hardswish)
    _shows_inplace = False


class Hardsigmoid(_InPlace):
    """The hard sigmoid, clip(x / 6 + 1/2, 0, 1). Source: Courbariaux et al., arXiv:1511.00363.

    >>> import wengert as wg
    >>> wg.nn.Hardsigmoid()(wg.tensor([-4.0, 0.0, 4.0]))
    tensor([0. , 0.5, 1. ])
    """

    _compute = staticmethod(F.hardsigmoid)
    _shows_inplace = False


class Tanh(_Simple):
    """The hyperbolic tangent, tanh(x).

    >>> import wengert as wg
    >>> wg.nn.Tanh()(wg.tensor([-1.0, 0.0, 2.0]))
    tensor([-0.7616,  0.    ,  0.964 ])
    """

    _compute = staticmethod(tanh)


class Sigmoid(_Simple):
    """The logistic sigmoid, 1 / (1 + exp(-x)).

    >>> import wengert as wg
    >>> wg.nn.Sigmoid()(wg.tensor([-1.0, 0.0, 2.0]))
    tensor([0.2689, 0.5   , 0.8808])
    """

    _compute = staticmethod(sigmoid)


class LogSigmoid(_Simple):
    """The logarithm of the sigmoid, log(sigmoid(x)).

    >>> import wengert as wg
    >>> wg.nn.LogSigmoid()(wg.tensor([-100.0, 0.0]))
    tensor([-100.    ,   -0.6931])
    """

    _compute = staticmethod(F.logsigmoid)


class Softsign(_Simple):
    """The softsign unit, x / (1 + |x|).

    >>> import wengert as wg
    >>> wg.nn.Softsign()(wg.tensor([-1.0, 0.0, 3.0]))
    tensor([-0.5 ,  0.  ,  0.75])
    """

    _compute = staticmethod(F.softsign)


class Tanhshrink(_Simple):
    """The difference of x and its hyperbolic tangent, x - tanh(x).

    >>> import wengert as wg
    >>> wg.nn.Tanhshrink()(wg.tensor([0.0, 1.0]))
    tensor([0.    , 0.2384])
    """

    _compute = staticmethod(F.tanhshrink)


class LeakyReLU(_InPlace):
    """The leaky rectified linear unit: x where positive, `negative_slope` times x elsewhere.

    >>> import wengert as wg
    >>> wg.nn.LeakyReLU(0.1)(wg.tensor([-1.0, 0.0, 2.0]))
    tensor([-0.1,  0. ,  2. ])
    """

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.negative_slope = negative_slope

    def forward(self, input: Any) -> Tensor:
        """Return leaky_relu(x), elementwise."""
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        """Return the options for `repr`."""
        return self._after(f"negative_slope={self.negative_slope}")


class ELU(_InPlace):
    """The exponential linear unit: x where positive, alpha (exp(x) - 1) elsewhere.

    Source: Clevert et al., arXiv:1511.07289.

    >>> import wengert as wg
    >>> wg.nn.ELU()(wg.tensor([-1.0, 0.0, 2.0]))
    tensor([-0.6321,  0.    ,  2.    ])
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.alpha = alpha

    def forward(self, input: Any) -> Tensor:
        """Return elu(x), elementwise."""
        return F.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        """Return the options for `repr`."""
        return self._after(f"alpha={self.alpha}")


class CELU(_InPlace):
    """The continuous exponential linear unit: x where positive, alpha (exp(x / alpha) - 1) elsewhere.

    >>> import wengert as wg
    >>> wg.nn.CELU()(wg.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.    ])
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.alpha = alpha

    def forward(self, input: Any) -> Tensor:
        """Return celu(x), elementwise."""
        return F.celu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        """Return the options for `repr`."""
        return self._after(f"alpha={self.alpha}")


class RReLU(_InPlace):
    """The randomised leaky rectified linear unit: slopes below 0 are drawn in training, and their mean otherwise.

    >>> import wengert as wg
    >>> wg.nn.RReLU().eval()(wg.tensor([-48.0, 2.0]))
    tensor([-11.,   2.])
    """

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.lower = lower
        self.upper = upper

    def forward(self, input: Any) -> Tensor:
        """Return rrelu(x), elementwise."""
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        """Return the options for `repr`."""
        return self._after(f"lower={self.lower}, upper={self.upper}")


class Hardtanh(_InPlace):
    """x bounded to `min_val`..`max_val`. Raises RangeError unless the first is below the second.

    >>> import wengert as wg
    >>> wg.nn.Hardtanh()(wg.tensor([-3.0, 0.5]))
    tensor([-1. ,  0.5])
    """

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__(inplace)
        self.min_val = min_val if min_value is None else min_value
        self.max_val = max_val if max_value is None else max_value
        if not self.max_val > self.min_val:
            fail(RangeError, f"Hardtanh: min_val {self.min_val} is not below max_val {self.max_val}")

    def forward(self, input: Any) -> Tensor:
        """Return hardtanh(x), elementwise."""
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        """Return the options for `repr`."""
        return self._after(f"min_val={self.min_val}, max_val={self.max_val}")


class Threshold(_InPlace):
    """x where it is above `threshold`, else `value`.

    >>> import wengert as wg
    >>> wg.nn.Threshold(0.5, 9.0)(wg.tensor([-1.0, 2.0]))
    tensor([9., 2.])
    """

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.threshold = threshold
        self.value = value

    def forward(self, input: Any) -> Tensor:
        """Return threshold(x), elementwise."""
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        """Return the options for `repr`."""
        return self._after(f"threshold={self.threshold}, value={self.value}")


class GELU(Module):
    """The Gaussian error linear unit: x times the normal distribution function of x, or its tanh approximation.

    Source: Hendrycks, Gimpel, arXiv:1606.08415.

    >>> import wengert as wg
    >>> wg.nn.GELU()(wg.tensor([-1.0, 0.0, 2.0]))
    tensor([-0.1587,  0.    ,  1.9545])
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Any) -> Tensor:
        """Return gelu(x), elementwise."""
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        """Return the kind for `repr`."""
        return f"approximate={self.approximate!r}"


class GLU(Module):
    """The gated linear unit: one half along an axis times the sigmoid of the other.

    >>> import wengert as wg
    >>> wg.nn.GLU()(wg.tensor([2.0, 0.0]))
    tensor([1.])
    """

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Any) -> Tensor:
        """Return glu(x) along the axis."""
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        """Return the axis for `repr`."""
        return f"dim={self.dim}"


class Softplus(Module):
    """The softplus unit, log(1 + exp(beta x)) / beta, and x itself where beta x exceeds the threshold.

    >>> import wengert as wg
    >>> wg.nn.Softplus()(wg.tensor([-1.0, 0.0, 100.0]))
    tensor([  0.3133,   0.6931, 100.    ])
    """

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Any) -> Tensor:
        """Return softplus(x), elementwise."""
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        """Return the options for `repr`."""
        return f"beta={self.beta}, threshold={self.threshold}"


class _Shrink(Module):
    """A nonlinearity that takes what lies within `lambd` of 0 to 0."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def extra_repr(self) -> str:
        """Return the bound for `repr`."""
        return str(self.lambd)


class Hardshrink(_Shrink):
    """x, and 0 within `lambd` of 0.

    >>> import wengert as wg
    >>> wg.nn.Hardshrink()(wg.tensor([-1.0, 0.2, 2.0]))
    tensor([-1.,  0.,  2.])
    """

    def forward(self, input: Any) -> Tensor:
        """Return hardshrink(x), elementwise."""
        return F.hardshrink(input, self.lambd)


class Softshrink(_Shrink):
    """x moved towards 0 by `lambd`, and 0 within it.

    >>> import wengert as wg
    >>> wg.nn.Softshrink()(wg.tensor([-1.0, 0.2, 2.0]))
    tensor([-0.5,  0. ,  1.5])
    """

    def forward(self, input: Any) -> Tensor:
        """Return softshrink(x), elementwise."""
        return F.softshrink(input, self.lambd)


class PReLU(Module):
    """The parametric rectified linear unit: a trained slope below 0, one for all or one per channel (axis 1).

    Source: He et al., arXiv:1502.01852.

    >>> import wengert as wg
    >>> wg.nn.PReLU()(wg.tensor([-1.0, 0.0, 2.0]))
    tensor([-0.25,  0.  ,  2.  ], grad_fn=<WhereBackward>)
    """

    weight: Parameter

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.num_parameters = size("num_parameters", num_parameters)
        self.init = init
        self.weight = Parameter(full((self.num_parameters,), float(init), dtype=dtype, device=device))

    def reset_parameters(self) -> None:
        """Set the slopes to their first value."""
        initial.constant_(self.weight, self.init)

    def forward(self, input: Any) -> Tensor:
        """Return prelu(x), elementwise."""
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        """Return the number of slopes for `repr`."""
        return f"num_parameters={self.num_parameters}"


class _OfAxis(Module):
    """A function of rows along an axis."""

    _compute: Callable[..., Any]

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim: Any = dim

    def forward(self, input: Any) -> Tensor:
        """Return the function of `input` along the axis."""
        out: Tensor = type(self)._compute(input, self.dim)
        return out

    def extra_repr(self) -> str:
        """Return the axis for `repr`."""
        return f"dim={self.dim}"


class Softmax(_OfAxis):
    """The softmax exp(x) / sum(exp(x)) along `dim`.

    >>> import wengert as wg
    >>> wg.nn.Softmax(-1)(wg.tensor([1.0, 1.0]))
    tensor([0.5, 0.5])
    """

    _compute = staticmethod(activations.softmax)


class LogSoftmax(_OfAxis):
    """The logarithm of softmax, log(softmax(x)), along `dim`.

    >>> import wengert as wg
    >>> wg.nn.LogSoftmax(-1)(wg.tensor([1.0, 1.0]))
    tensor([-0.6931, -0.6931])
    """

    _compute = staticmethod(activations.log_softmax)


class Softmin(_OfAxis):
    """The softmax of -x along `dim`.

    >>> import wengert as wg
    >>> wg.nn.Softmin(-1)(wg.tensor([3.0, 3.0]))
    tensor([0.5, 0.5])
    """

    _compute = staticmethod(activations.softmin)


class Softmax2d(Module):
    """The softmax over channels at every place of (N, C, H, W) or (C, H, W).

    >>> import wengert as wg
    >>> wg.nn.Softmax2d()(wg.ones((2, 1, 1)))
    tensor([[[0.5]],
    <BLANKLINE>
            [[0.5]]])
    """

    def forward(self, input: Any) -> Tensor:
        """Return softmax over the channels. Raises ShapeError for other numbers of dimensions."""
        ndim = asarray(input).ndim
        if ndim not in (3, 4):
            fail(ShapeError, f"Softmax2d of a tensor of {ndim} dimensions", "It takes (N, C, H, W) or (C, H, W).")
        return F.softmax(input, -3)
