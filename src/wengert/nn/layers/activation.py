"""Nonlinearities as modules. `inplace` is accepted as in PyTorch; tensors are values, nothing is written in place."""

from __future__ import annotations

from typing import Any

from ... import full
from ...core.tensor import Tensor
from .. import functional as F
from ..checks import size
from ..module import Module
from ..parameter import Parameter


class _Plain(Module):
    """A nonlinearity without options."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()


class ReLU(_Plain):
    """The rectified linear unit, max(x, 0).

    >>> import wengert as wg
    >>> wg.nn.ReLU()(wg.tensor([-1.0, 0.0, 2.0]))
    tensor([0., 0., 2.])
    """

    def forward(self, x: Any) -> Tensor:
        """Return max(x, 0), elementwise."""
        return F.relu(x)


class ReLU6(_Plain):
    """The rectified linear unit bounded at 6, min(max(x, 0), 6).

    >>> import wengert as wg
    >>> wg.nn.ReLU6()(wg.tensor([-1.0, 2.0, 8.0]))
    tensor([0., 2., 6.])
    """

    def forward(self, x: Any) -> Tensor:
        """Return min(max(x, 0), 6), elementwise."""
        return F.relu6(x)


class SELU(_Plain):
    """The self-normalising exponential unit. Source: Klambauer et al., arXiv:1706.02515.

    >>> import wengert as wg
    >>> wg.nn.SELU()(wg.tensor([-1.0, 0.0, 2.0]))
    tensor([-1.1113,  0.    ,  2.1014])
    """

    def forward(self, x: Any) -> Tensor:
        """Return selu(x), elementwise."""
        return F.selu(x)


class SiLU(_Plain):
    """The sigmoid linear unit, x sigmoid(x). Source: Elfwing et al., arXiv:1702.03118.

    >>> import wengert as wg
    >>> wg.nn.SiLU()(wg.tensor([-1.0, 0.0, 2.0]))
    tensor([-0.2689,  0.    ,  1.7616])
    """

    def forward(self, x: Any) -> Tensor:
        """Return x sigmoid(x), elementwise."""
        return F.silu(x)


class Mish(_Plain):
    """The mish unit, x tanh(softplus(x)). Source: Misra, arXiv:1908.08681.

    >>> import wengert as wg
    >>> wg.nn.Mish()(wg.tensor([-1.0, 0.0, 2.0]))
    tensor([-0.3034,  0.    ,  1.944 ])
    """

    def forward(self, x: Any) -> Tensor:
        """Return x tanh(softplus(x)), elementwise."""
        return F.mish(x)


class Hardswish(_Plain):
    """The hard swish unit, x relu6(x + 3) / 6. Source: Howard et al., arXiv:1905.02244.

    >>> import wengert as wg
    >>> wg.nn.Hardswish()(wg.tensor([-4.0, 0.0, 3.0]))
    tensor([-0.,  0.,  3.])
    """

    def forward(self, x: Any) -> Tensor:
        """Return x relu6(x + 3) / 6, elementwise."""
        return F.hardswish(x)


class Tanh(Module):
    """The hyperbolic tangent, tanh(x).

    >>> import wengert as wg
    >>> wg.nn.Tanh()(wg.tensor([-1.0, 0.0, 2.0]))
    tensor([-0.7616,  0.    ,  0.964 ])
    """

    def forward(self, x: Any) -> Tensor:
        """Return tanh(x), elementwise."""
        return F.tanh(x)


class Sigmoid(Module):
    """The logistic sigmoid, 1 / (1 + exp(-x)).

    >>> import wengert as wg
    >>> wg.nn.Sigmoid()(wg.tensor([-1.0, 0.0, 2.0]))
    tensor([0.2689, 0.5   , 0.8808])
    """

    def forward(self, x: Any) -> Tensor:
        """Return 1 / (1 + exp(-x)), elementwise."""
        return F.sigmoid(x)


class LogSigmoid(Module):
    """The logarithm of the sigmoid, log(sigmoid(x)).

    >>> import wengert as wg
    >>> wg.nn.LogSigmoid()(wg.tensor([-100.0, 0.0]))
    tensor([-100.    ,   -0.6931])
    """

    def forward(self, x: Any) -> Tensor:
        """Return log(sigmoid(x)), elementwise."""
        return F.logsigmoid(x)


class Softsign(Module):
    """The softsign unit, x / (1 + |x|).

    >>> import wengert as wg
    >>> wg.nn.Softsign()(wg.tensor([-1.0, 0.0, 3.0]))
    tensor([-0.5 ,  0.  ,  0.75])
    """

    def forward(self, x: Any) -> Tensor:
        """Return x / (1 + |x|), elementwise."""
        return F.softsign(x)


class LeakyReLU(Module):
    """The leaky rectified linear unit: x where positive, `negative_slope` times x elsewhere.

    >>> import wengert as wg
    >>> wg.nn.LeakyReLU(0.1)(wg.tensor([-1.0, 0.0, 2.0]))
    tensor([-0.1,  0. ,  2. ])
    """

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope

    def forward(self, x: Any) -> Tensor:
        """Return leaky_relu(x), elementwise."""
        return F.leaky_relu(x, self.negative_slope)

    def extra_repr(self) -> str:
        """Return the slope for `repr`."""
        return f"negative_slope={self.negative_slope}"


class ELU(Module):
    """The exponential linear unit: x where positive, alpha (exp(x) - 1) elsewhere.

    Source: Clevert et al., arXiv:1511.07289.

    >>> import wengert as wg
    >>> wg.nn.ELU()(wg.tensor([-1.0, 0.0, 2.0]))
    tensor([-0.6321,  0.    ,  2.    ])
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha

    def forward(self, x: Any) -> Tensor:
        """Return elu(x), elementwise."""
        return F.elu(x, self.alpha)

    def extra_repr(self) -> str:
        """Return alpha for `repr`."""
        return f"alpha={self.alpha}"


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

    def forward(self, x: Any) -> Tensor:
        """Return gelu(x), elementwise."""
        return F.gelu(x, approximate=self.approximate)

    def extra_repr(self) -> str:
        """Return the kind for `repr`."""
        return f"approximate={self.approximate!r}"


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

    def forward(self, x: Any) -> Tensor:
        """Return softplus(x), elementwise."""
        return F.softplus(x, self.beta, self.threshold)

    def extra_repr(self) -> str:
        """Return the options for `repr`."""
        return f"beta={self.beta}, threshold={self.threshold}"


class PReLU(Module):
    """The parametric rectified linear unit: a trained slope below 0, one for all or one per channel (axis 1).

    Source: He et al., arXiv:1502.01852.

    >>> import wengert as wg
    >>> wg.nn.PReLU()(wg.tensor([-1.0, 0.0, 2.0]))
    tensor([-0.25,  0.  ,  2.  ], grad_fn=<WhereBackward>)
    """

    weight: Parameter

    def __init__(self, num_parameters: int = 1, init: float = 0.25, dtype: Any = None, device: Any = None) -> None:
        super().__init__()
        self.num_parameters = size("num_parameters", num_parameters)
        self.weight = Parameter(full((self.num_parameters,), float(init), dtype=dtype, device=device))

    def forward(self, x: Tensor) -> Tensor:
        """Return prelu(x), elementwise."""
        return F.prelu(x, self.weight)

    def extra_repr(self) -> str:
        """Return the number of slopes for `repr`."""
        return f"num_parameters={self.num_parameters}"


class Softmax(Module):
    """The softmax exp(x) / sum(exp(x)) along `dim`.

    >>> import wengert as wg
    >>> wg.nn.Softmax(-1)(wg.tensor([1.0, 1.0]))
    tensor([0.5, 0.5])
    """

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: Any) -> Tensor:
        """Return softmax(x) along the axis."""
        return F.softmax(x, self.dim)

    def extra_repr(self) -> str:
        """Return the axis for `repr`."""
        return f"dim={self.dim}"


class LogSoftmax(Module):
    """The logarithm of softmax, log(softmax(x)), along `dim`.

    >>> import wengert as wg
    >>> wg.nn.LogSoftmax(-1)(wg.tensor([1.0, 1.0]))
    tensor([-0.6931, -0.6931])
    """

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: Any) -> Tensor:
        """Return log_softmax(x) along the axis."""
        return F.log_softmax(x, self.dim)

    def extra_repr(self) -> str:
        """Return the axis for `repr`."""
        return f"dim={self.dim}"
