"""Layers that multiply by a matrix or look up its rows, and layers that only reshape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ... import zeros
from ...core.errors import DTypeError, fail
from ...core.tensor import Tensor, asarray
from .. import functional as F
from .. import init
from ..checks import size
from ..module import Module
from ..parameter import Parameter


class Identity(Module):
    """The identity. Arguments of the constructor are ignored, so that it can stand in for any layer.

    >>> import wengert as wg
    >>> wg.nn.Identity(64)(wg.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        """Return `input`."""
        return input


class Linear(Module):
    """An affine map `x @ weight.T + bias` over the last axis.

    Parameters
    ----------
    in_features: the size of the last axis.
    out_features: the size that takes its place.
    bias: whether to add one.
    device: where the parameters are, as in :func:`wengert.zeros`.
    dtype: of the parameters; the default float where left out.

    `weight` is (out_features, in_features); it and the bias start uniform within 1/sqrt(in_features).

    >>> import wengert as wg
    >>> wg.nn.Linear(3, 5)(wg.zeros((2, 4, 3))).shape
    (2, 4, 5)
    """

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features = size("in_features", in_features, 0)
        self.out_features = size("out_features", out_features, 0)
        self.weight = Parameter(zeros((self.out_features, self.in_features), dtype=dtype, device=device))
        self.register_parameter(
            "bias", Parameter(zeros(self.out_features, dtype=dtype, device=device)) if bias else None
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        uniform_by_fan_(self.weight, self.bias, self.in_features)

    def forward(self, input: Any) -> Tensor:
        """Map (..., in_features) to (..., out_features)."""
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Return the sizes for `repr`."""
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


def uniform_by_fan_(weight: Tensor, bias: Tensor | None, fan_in: int) -> None:
    """Fill a tensor by PyTorch's default for linear and convolution layers: uniform within 1/sqrt(fan_in)."""
    bound = 1.0 / math.sqrt(fan_in) if fan_in else 0.0
    init.uniform_(weight, -bound, bound)
    if bias is not None:
        init.uniform_(bias, -bound, bound)


class Bilinear(Module):
    """A bilinear map `x1 A x2 + bias` with one matrix A for every output feature.

    `weight` is (out_features, in1_features, in2_features).

    >>> import wengert as wg
    >>> wg.nn.Bilinear(2, 3, 4)(wg.ones((5, 2)), wg.ones((5, 3))).shape
    (5, 4)
    """

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.in1_features = size("in1_features", in1_features)
        self.in2_features = size("in2_features", in2_features)
        self.out_features = size("out_features", out_features)
        self.weight = Parameter(zeros((out_features, in1_features, in2_features), dtype=dtype, device=device))
        self.register_parameter("bias", Parameter(zeros(out_features, dtype=dtype, device=device)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        uniform_by_fan_(self.weight, self.bias, self.in1_features)

    def forward(self, input1: Any, input2: Any) -> Tensor:
        """Map (..., in1_features) and (..., in2_features) to (..., out_features)."""
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Return the sizes for `repr`."""
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )


class Flatten(Module):
    """A layer that merges the axes from `start_dim` to `end_dim` into one.

    >>> import wengert as wg
    >>> wg.nn.Flatten()(wg.zeros((2, 3, 4))).shape
    (2, 12)
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Any) -> Tensor:
        """Return `input` with fewer axes."""
        out: Tensor = asarray(input).flatten(self.start_dim, self.end_dim)
        return out

    def extra_repr(self) -> str:
        """Return the axes for `repr`."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """A layer that splits one axis into several, one of which may be -1.

    >>> import wengert as wg
    >>> wg.nn.Unflatten(1, (2, 3))(wg.ones((4, 6))).shape
    (4, 2, 3)
    """

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        for i, n in enumerate(unflattened_size):
            if isinstance(n, bool) or not hasattr(n, "__index__"):
                fail(DTypeError, f"unflattened_size must be ints, but found element of type {type(n).__name__} at {i}")
        self.dim = dim
        self.unflattened_size = tuple(unflattened_size)

    def forward(self, input: Any) -> Tensor:
        """Return `input` with more axes."""
        x = asarray(input)
        at = self.dim % x.ndim
        out: Tensor = x.reshape((*x.shape[:at], *self.unflattened_size, *x.shape[at + 1 :]))
        return out

    def extra_repr(self) -> str:
        """Return the axis and its sizes for `repr`."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
