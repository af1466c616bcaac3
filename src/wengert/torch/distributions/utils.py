"""Helpers of those who write distributions, under PyTorch's path."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import wengert as wg

from ...core.spec import default_float
from ...core.tensor import Tensor as Plain
from ...distributions.bijections import matrix_of_tril, tril_of_matrix
from ...distributions.distribution import off_ends
from ..absent import names_of
from ..namespace import FUNCTIONS, as_torch, tensor_of

euler_constant = 0.57721566490153286060


def _standard_normal(shape: Any, dtype: Any, device: Any) -> Any:
    """Return draws of the standard normal distribution."""
    return FUNCTIONS["randn"](tuple(shape), dtype=dtype, device=device)


def _sum_rightmost(value: Any, dim: int) -> Any:
    """Return the sums over the last `dim` axes; for 0 the value itself."""
    return value if dim == 0 else value.reshape(*value.shape[:-dim], -1).sum(-1)


def broadcast_all(*values: Any) -> tuple[Any, ...]:
    """Return tensors and numbers as tensors of one shape; numbers have the dtype of the first tensor.

    Raises ValueError for anything else.
    """
    if not all(isinstance(v, (Plain, int, float)) for v in values):
        raise ValueError("Input arguments must all be instances of Number, torch.Tensor")
    dtype = next((v.dtype for v in values if isinstance(v, Plain)), default_float())
    return tuple(
        as_torch(x)
        for x in wg.broadcast_arrays(*(v if isinstance(v, Plain) else wg.asarray(v, dtype=dtype) for v in values))
    )


def logits_to_probs(logits: Any, is_binary: bool = False) -> Any:
    """Return the probabilities of logits, of classes along the last axis or of single events."""
    return as_torch(wg.sigmoid(logits) if is_binary else wg.softmax(logits, axis=-1))


def clamp_probs(probs: Any) -> Any:
    """Return probabilities kept off 0 and 1 by the dtype's precision."""
    return as_torch(off_ends(probs))


def probs_to_logits(probs: Any, is_binary: bool = False) -> Any:
    """Return the logits of probabilities, of classes along the last axis or of single events."""
    kept = clamp_probs(probs)
    return as_torch(wg.log(kept) - wg.log1p(-kept) if is_binary else wg.log(kept))


def vec_to_tril_matrix(vec: Any, diag: int = 0) -> Any:
    """Return lower triangular matrices whose elements up to a diagonal are, row by row, those of vectors."""
    if diag == -1:
        return as_torch(matrix_of_tril(tensor_of(vec)))
    count = vec.shape[-1]
    n = round((-1 - 2 * diag + math.sqrt((1 + 2 * diag) ** 2 + 8 * count + 4 * abs(diag) * (diag + 1))) / 2)
    flat = wg.reshape(wg.eye(n * n, dtype=vec.dtype), (n * n, n, n))
    return as_torch(wg.einsum("...k,kij->...ij", vec, wg.asarray(flat)[_places(n, diag)]))


def _places(n: int, diag: int) -> Any:
    return wg.asarray([i * n + j for i in range(n) for j in range(n) if j <= i + diag])


def tril_matrix_to_vec(mat: Any, diag: int = 0) -> Any:
    """Return the elements of matrices up to a diagonal, row by row, as vectors. Raises ValueError."""
    n = mat.shape[-1]
    if diag < -n or diag >= n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    return as_torch(tril_of_matrix(mat, diag))


class lazy_property:
    """A property that is computed once, when it is first asked for."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        functools.update_wrapper(self, wrapped)  # type: ignore[arg-type]

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        with wg.enable_grad():
            value = self.wrapped(instance)
        vars(instance)[self.wrapped.__name__] = value
        return value


__all__ = [
    "broadcast_all",
    "clamp_probs",
    "euler_constant",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
