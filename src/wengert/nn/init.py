"""Initial values for parameters. Every function fills a tensor outside any graph and returns it.

Random numbers come from the default generator (`wg.manual_seed`) or from the one given.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.errors import RangeError, ShapeError, fail
from ..core.spec import real_dtype
from ..core.tensor import Tensor, wrap
from ..ops.random import functions as random
from ..ops.random.generator import Generator

__all__ = [
    "calculate_gain",
    "constant_",
    "eye_",
    "fans",
    "kaiming_normal_",
    "kaiming_uniform_",
    "normal_",
    "ones_",
    "orthogonal_",
    "trunc_normal_",
    "uniform_",
    "xavier_normal_",
    "xavier_uniform_",
    "zeros_",
]

_GAINS = {
    "linear": 1.0,
    "identity": 1.0,
    "conv1d": 1.0,
    "conv2d": 1.0,
    "conv3d": 1.0,
    "conv_transpose1d": 1.0,
    "conv_transpose2d": 1.0,
    "conv_transpose3d": 1.0,
    "sigmoid": 1.0,
    "tanh": 5.0 / 3,
    "relu": math.sqrt(2.0),
    "selu": 0.75,
}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Return the gain that keeps the variance through a nonlinearity; `param` is `leaky_relu`'s slope (default 0.01).

    Raises RangeError for a name that is not known.

    >>> import wengert as wg
    >>> round(wg.nn.init.calculate_gain("relu"), 4)
    1.4142
    """
    if nonlinearity == "leaky_relu":
        if isinstance(param, bool) or not isinstance(param, (int, float, type(None))):
            raise ValueError(f"negative_slope {param!r} not a valid number")
        slope = 0.01 if param is None else float(param)
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity not in _GAINS:
        fail(RangeError, f"no gain is known for {nonlinearity!r}", f"Known are: leaky_relu, {', '.join(_GAINS)}.")
    return _GAINS[nonlinearity]


def _fill(tensor: Tensor, values: Any) -> Tensor:
    filled: Tensor = tensor.assign_(wrap(np.asarray(values).astype(tensor.dtype)))
    return filled


def _uniform(tensor: Tensor, low: float, high: float, generator: Generator | None) -> Tensor:
    u = _drawn(random.uniform, tensor, generator)
    # Both parts of a complex number lie between the bounds.
    return _fill(tensor, u * (high - low) + (low + 1j * low if tensor.dtype.kind == "c" else low))


def _drawn(draw: Any, tensor: Tensor, generator: Generator | None) -> Any:
    """Return numbers of a tensor's shape and dtype; the parts of complex ones are drawn by themselves."""
    if tensor.dtype.kind != "c":
        return draw(tensor.shape, dtype=tensor.dtype, generator=generator).numpy()
    dtype = real_dtype(tensor.spec.dtype)
    real, imag = (draw(tensor.shape, dtype=dtype, generator=generator).numpy() for _ in range(2))
    return real + 1j * imag


def _normal(tensor: Tensor, mean: float, std: float, generator: Generator | None) -> Tensor:
    z = _drawn(random.normal, tensor, generator)
    # The variance of a complex number is that of both its parts.
    return _fill(tensor, z * (std * math.sqrt(0.5) if tensor.dtype.kind == "c" else std) + mean)


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill a tensor with uniform numbers from `a` up to `b`.

    >>> import wengert as wg
    >>> wg.nn.init.uniform_(wg.empty((100, 100)), 2.0, 3.0).min().item() >= 2.0
    True
    """
    return _uniform(tensor, a, b, generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill a tensor with normal numbers.

    >>> import wengert as wg
    >>> wg.nn.init.normal_(wg.empty((100, 100)), std=0.1).std().item() < 0.2
    True
    """
    return _normal(tensor, mean, std, generator)


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """Fill a tensor with normal numbers, those outside [a, b] drawn again.

    Raises RangeError where the interval holds next to none.

    >>> import wengert as wg
    >>> wg.nn.init.trunc_normal_(wg.empty((100, 100)), a=-1.0, b=1.0).max().item() <= 1.0
    True
    """
    low, high = (_normal_cdf((edge - mean) / std) for edge in (a, b))
    if not high - low > 1e-6:
        fail(RangeError, f"[{a}, {b}] holds next to nothing of a normal distribution with mean {mean}, std {std}")
    out = np.empty(0)
    while out.size < tensor.size:
        count = int((tensor.size - out.size) / (high - low) * 1.1) + 8
        z = random.normal((count,), dtype=np.float64, generator=generator).numpy() * std + mean
        out = np.concatenate([out, z[(z >= a) & (z <= b)]])
    return _fill(tensor, out[: tensor.size].reshape(tensor.shape))


def _normal_cdf(x: float) -> float:
    return (1.0 + math.erf(x / math.sqrt(2.0))) / 2.0


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill a tensor with one number.

    >>> import wengert as wg
    >>> wg.nn.init.constant_(wg.empty((2,)), 3.0)
    tensor([3., 3.])
    """
    return _fill(tensor, np.full(tensor.shape, val))


def zeros_(tensor: Tensor) -> Tensor:
    """Fill a tensor with 0.

    >>> import wengert as wg
    >>> wg.nn.init.zeros_(wg.empty((2,)))
    tensor([0., 0.])
    """
    return constant_(tensor, 0.0)


def ones_(tensor: Tensor) -> Tensor:
    """Fill a tensor with 1.

    >>> import wengert as wg
    >>> wg.nn.init.ones_(wg.empty((2,)))
    tensor([1., 1.])
    """
    return constant_(tensor, 1.0)


def eye_(tensor: Tensor) -> Tensor:
    """Fill a tensor with the identity matrix. Raises ShapeError unless it has two dimensions.

    >>> import wengert as wg
    >>> wg.nn.init.eye_(wg.empty((2, 2)))
    tensor([[1., 0.],
            [0., 1.]])
    """
    if tensor.ndim != 2:
        fail(ShapeError, f"eye_ of a tensor of shape {tensor.shape}: an identity matrix has two dimensions")
    return _fill(tensor, np.eye(tensor.shape[0], tensor.shape[1]))


def fans(tensor: Tensor) -> tuple[int, int]:
    """Return the numbers of inputs and outputs of one unit of a weight laid out (out, in, *kernel).

    Raises ShapeError for fewer than two dimensions.

    >>> import wengert as wg
    >>> wg.nn.init.fans(wg.empty((8, 3, 5, 5)))
    (75, 200)
    """
    if tensor.ndim < 2:
        fail(
            ShapeError,
            f"a weight of shape {tensor.shape} has no fan-in and fan-out",
            "It needs two dimensions or more, (out, in, ...). Use normal_ or uniform_ for a vector.",
        )
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def _fan(tensor: Tensor, mode: str) -> int:
    if mode not in ("fan_in", "fan_out"):
        fail(RangeError, f"mode must be 'fan_in' or 'fan_out', not {mode!r}")
    return fans(tensor)[mode == "fan_out"]


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill a tensor with uniform numbers of variance `gain**2 * 2 / (fan_in + fan_out)`.

    Source: Glorot, Bengio, "Understanding the difficulty of training deep feedforward neural networks", 2010.

    >>> import wengert as wg
    >>> w = wg.nn.init.xavier_uniform_(wg.nn.Parameter(wg.zeros((2, 4))))
    >>> bool((wg.abs(w) <= 1.0).all())
    True
    """
    bound = gain * math.sqrt(6.0 / max(sum(fans(tensor)), 1))
    return _uniform(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill a tensor with normal numbers of variance `gain**2 * 2 / (fan_in + fan_out)`.

    Source: see :func:`xavier_uniform_`.

    >>> import wengert as wg
    >>> abs(wg.nn.init.xavier_normal_(wg.empty((100, 300))).std().item() - 0.0707) < 0.01
    True
    """
    return _normal(tensor, 0.0, gain * math.sqrt(2.0 / max(sum(fans(tensor)), 1)), generator)


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0.0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Fill a tensor with uniform numbers of variance `gain**2 / fan`.

    Parameters
    ----------
    tensor: a weight laid out (out, in, *kernel).
    a: the slope of the `leaky_relu` that follows (0 for `relu`).
    mode: "fan_in" keeps the variance forward, "fan_out" backward.
    nonlinearity: a name that :func:`calculate_gain` knows.
    generator: where the random numbers come from.

    Source: He, Zhang, Ren, Sun, arXiv:1502.01852.

    >>> import wengert as wg
    >>> abs(wg.nn.init.kaiming_uniform_(wg.empty((200, 200)), nonlinearity="relu").std().item() - 0.1) < 0.01
    True
    """
    bound = calculate_gain(nonlinearity, a) * math.sqrt(3.0 / max(_fan(tensor, mode), 1))
    return _uniform(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0.0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Fill a tensor with normal numbers of variance `gain**2 / fan`.

    Parameters and source: see :func:`kaiming_uniform_`.

    >>> import wengert as wg
    >>> abs(wg.nn.init.kaiming_normal_(wg.empty((200, 200))).std().item() - 0.1) < 0.01
    True
    """
    std = calculate_gain(nonlinearity, a) / math.sqrt(max(_fan(tensor, mode), 1))
    return _normal(tensor, 0.0, std, generator)


def orthogonal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill a tensor with `gain` times a random matrix of orthonormal rows or columns, trailing axes taken as one.

    Raises ShapeError for fewer than two dimensions.

    Source: Saxe, McClelland, Ganguli, arXiv:1312.6120.

    >>> import wengert as wg
    >>> w = wg.nn.init.orthogonal_(wg.empty((3, 3)))
    >>> wg.allclose(w @ w.T, wg.eye(3), atol=1e-5)
    True
    """
    fans(tensor)
    rows, columns = tensor.shape[0], math.prod(tensor.shape[1:])
    shape = (max(rows, columns), min(rows, columns))
    q, r = np.linalg.qr(random.normal(shape, dtype=np.float64, generator=generator).numpy())
    # With the signs of R's diagonal the distribution is uniform over such matrices.
    q = q * np.sign(np.diagonal(r))
    return _fill(tensor, gain * (q if rows >= columns else q.T).reshape(tensor.shape))


def __dir__() -> list[str]:
    return sorted(__all__)
