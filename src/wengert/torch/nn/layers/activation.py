"""Nonlinearities as modules with PyTorch's constructors and looks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....core.errors import ShapeError, fail
from ....core.tensor import Tensor
from ....nn.layers import activation as plain
from ...tensor import dtype_of, where
from .. import functional as F
from .. import init
from ..module import Module

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "PReLU",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SELU",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
]


class _InPlace(Module):
    """A nonlinearity that writes its result to its input where `inplace` asks."""

    inplace: bool = False
    _shows_inplace = True

    def __init__(self, inplace: bool = False) -> None:
        Module.__init__(self)
        self.inplace = inplace

    def extra_repr(self) -> str:
        """Return the options for `repr`."""
        return "inplace=True" if self.inplace and self._shows_inplace else ""

    def _after(self, options: str) -> str:
        return f"{options}, inplace=True" if self.inplace else options


def _family(name: str, compute: Callable[..., Any], doc: str, inplace: bool = True, shown: bool = True) -> Any:
    """Return the class of a nonlinearity without options, or with `inplace` alone."""

    def forward(self: Any, input: Any) -> Any:
        return compute(input, True) if inplace and self.inplace else compute(input)

    def bare(self: Any) -> None:
        Module.__init__(self)

    forward.__doc__ = f"Return {doc}, elementwise."
    own = getattr(plain, name, None)
    members: dict[str, Any] = {
        "__doc__": f"The nonlinearity {doc}; see :func:`wengert.torch.nn.functional.{name.lower()}`.",
        "__module__": __name__,
        "_shows_inplace": shown,
        "forward": forward,
        **({} if inplace else {"__init__": bare}),
    }
    base = _InPlace if inplace else Module
    return type(name, (base,) if own is None else (base, own), members)


ReLU = _family("ReLU", F.relu, "max(x, 0)")
ReLU6 = _family("ReLU6", F.relu6, "min(max(x, 0), 6)")
SELU = _family("SELU", F.selu, "the self-normalising elu of x")
SiLU = _family("SiLU", F.silu, "x sigmoid(x)")
Mish = _family("Mish", F.mish, "x tanh(softplus(x))")
Hardswish = _family("Hardswish", F.hardswish, "x relu6(x + 3) / 6", shown=False)
Hardsigmoid = _family("Hardsigmoid", F.hardsigmoid, "clip(x / 6 + 1/2, 0, 1)", shown=False)
Tanh = _family("Tanh", F.tanh, "tanh(x)", inplace=False)
Sigmoid = _family("Sigmoid", F.sigmoid, "1 / (1 + exp(-x))", inplace=False)
LogSigmoid = _family("LogSigmoid", F.logsigmoid, "log(sigmoid(x))", inplace=False)
Softsign = _family("Softsign", F.softsign, "x / (1 + |x|)", inplace=False)
Tanhshrink = _family("Tanhshrink", F.tanhshrink, "x - tanh(x)", inplace=False)


class LeakyReLU(_InPlace, plain.LeakyReLU):
    """The leaky rectified linear unit: x where positive, `negative_slope` times x elsewhere."""

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.negative_slope = negative_slope

    def forward(self, input: Any) -> Any:
        """Return leaky_relu(x), elementwise."""
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        """Return the options for `repr`."""
        return self._after(f"negative_slope={self.negative_slope}")


class ELU(_InPlace, plain.ELU):
    """The exponential linear unit: x where positive, alpha (exp(x) - 1) elsewhere."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.alpha = alpha

    def forward(self, input: Any) -> Any:
        """Return elu(x), elementwise."""
        return F.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        """Return the options for `repr`."""
        return self._after(f"alpha={self.alpha}")


class CELU(_InPlace):
    """The continuous exponential linear unit: x where positive, alpha (exp(x / alpha) - 1) elsewhere."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.alpha = alpha

    def forward(self, input: Any) -> Any:
        """Return celu(x), elementwise."""
        return F.celu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        """Return the options for `repr`."""
        return self._after(f"alpha={self.alpha}")


class RReLU(_InPlace):
    """The randomised leaky rectified linear unit: slopes below 0 are drawn in training, and their mean otherwise."""

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.lower = lower
        self.upper = upper

    def forward(self, input: Any) -> Any:
        """Return rrelu(x), elementwise."""
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        """Return the options for `repr`."""
        return self._after(f"lower={self.lower}, upper={self.upper}")


class Hardtanh(_InPlace):
    """x bounded to `min_val`..`max_val`. Raises ShapeError unless the first is below the second."""

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
            fail(ShapeError, f"Hardtanh: min_val {self.min_val} is not below max_val {self.max_val}")

    def forward(self, input: Any) -> Any:
        """Return hardtanh(x), elementwise."""
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        """Return the options for `repr`."""
        return self._after(f"min_val={self.min_val}, max_val={self.max_val}")


class Threshold(_InPlace):
    """x where it is above `threshold`, else `value`."""

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.threshold = threshold
        self.value = value

    def forward(self, input: Any) -> Any:
        """Return threshold(x), elementwise."""
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        """Return the options for `repr`."""
        return self._after(f"threshold={self.threshold}, value={self.value}")


class GELU(Module, plain.GELU):
    """The Gaussian error linear unit, exact or ("tanh") approximate."""

    def __init__(self, approximate: str = "none") -> None:
        Module.__init__(self)
        self.approximate = approximate

    def forward(self, input: Any) -> Any:
        """Return gelu(x), elementwise."""
        return F.gelu(input, approximate=self.approximate)


class GLU(Module):
    """The gated linear unit: one half along an axis times the sigmoid of the other."""

    def __init__(self, dim: int = -1) -> None:
        Module.__init__(self)
        self.dim = dim

    def forward(self, input: Any) -> Any:
        """Return glu(x) along the axis."""
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        """Return the axis for `repr`."""
        return f"dim={self.dim}"


class Softplus(Module, plain.Softplus):
    """The softplus unit, log(1 + exp(beta x)) / beta, and x itself where beta x exceeds the threshold."""

    def forward(self, input: Any) -> Any:
        """Return softplus(x), elementwise."""
        return F.softplus(input, self.beta, self.threshold)


class _Shrink(Module):
    """A nonlinearity that takes what lies within `lambd` of 0 to 0."""

    def __init__(self, lambd: float = 0.5) -> None:
        Module.__init__(self)
        self.lambd = lambd

    def extra_repr(self) -> str:
        """Return the bound for `repr`."""
        return str(self.lambd)


class Hardshrink(_Shrink):
    """x, and 0 within `lambd` of 0."""

    def forward(self, input: Any) -> Any:
        """Return hardshrink(x), elementwise."""
        return F.hardshrink(input, self.lambd)


class Softshrink(_Shrink):
    """x moved towards 0 by `lambd`, and 0 within it."""

    def forward(self, input: Any) -> Any:
        """Return softshrink(x), elementwise."""
        return F.softshrink(input, self.lambd)


class PReLU(Module, plain.PReLU):
    """The parametric rectified linear unit: a trained slope below 0, one for all or one for each channel (axis 1)."""

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        device = where(device)
        plain.PReLU.__init__(self, num_parameters, init, None if dtype is None else dtype_of(dtype), device)
        self.init = init

    def reset_parameters(self) -> None:
        """Set the slopes to their first value."""
        init.constant_(self.weight, self.init)


class _OfAxis(Module):
    """A function of rows along an axis."""

    _compute: Callable[..., Any]

    def __init__(self, dim: int | None = None) -> None:
        Module.__init__(self)
        self.dim: Any = dim

    def forward(self, input: Any) -> Any:
        """Return the function of `input` along the axis."""
        return type(self)._compute(input, self.dim)

    def extra_repr(self) -> str:
        """Return the axis for `repr`."""
        return f"dim={self.dim}"


class Softmax(_OfAxis, plain.Softmax):
    """The softmax exp(x) / sum(exp(x)) along `dim`."""

    _compute = staticmethod(F.softmax)


class LogSoftmax(_OfAxis, plain.LogSoftmax):
    """The logarithm of softmax along `dim`."""

    _compute = staticmethod(F.log_softmax)


class Softmin(_OfAxis):
    """The softmax of -x along `dim`."""

    _compute = staticmethod(F.softmin)


class Softmax2d(Module):
    """The softmax over channels at every place of (N, C, H, W) or (C, H, W)."""

    def forward(self, input: Any) -> Any:
        """Return softmax over the channels. Raises ShapeError for other numbers of dimensions."""
        if input.ndim not in (3, 4):
            fail(ShapeError, f"Softmax2d of a tensor of {input.ndim} dimensions", "It takes (N, C, H, W) or (C, H, W).")
        return F.softmax(input, -3)
