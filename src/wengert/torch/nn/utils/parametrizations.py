"""Parametrizations that programs use: orthogonal matrices, weights by length and direction, a bound on the norm."""

from __future__ import annotations

from typing import Any

import numpy as np

import wengert as wg

from ....core.errors import GraphError, ShapeError, fail
from ....core.tensor import asarray
from ....nn.layers.conv import TransposedConv
from ....ops.neural.normalization import normalize
from ... import linalg
from ...namespace import tensor_of
from ..module import Module
from .parametrize import register_parametrization

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


# -- weights by length and direction


def lengths(v: Any, dim: int) -> Any:
    """Return the norms of a weight's slices along an axis, beside it; with -1 that of the whole."""
    if dim == -1:
        return wg.sqrt((v * v).sum())
    axes = tuple(i for i in range(v.ndim) if i != dim % v.ndim)
    return wg.sqrt((v * v).sum(axis=axes, keepdims=True))


class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Any, weight_v: Any) -> Any:
        """Return the weight of these lengths and directions."""
        return weight_v * (weight_g / lengths(weight_v, self.dim))

    def right_inverse(self, weight: Any) -> Any:
        """Return the lengths and the directions of a weight."""
        return lengths(weight, self.dim), weight


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """Let a weight be the product of its lengths along an axis and its directions; return the module.

    The two are `module.parametrizations.weight.original0` and `original1`. With `dim=None` there is one length.
    Source: Salimans, Kingma, arXiv:1602.07868.

    >>> import wengert.torch as torch
    >>> layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(2, 3))
    >>> layer.parametrizations.weight.original0.shape
    torch.Size([3, 1])
    """
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def renamed(state: Any, prefix: str, *_: Any) -> None:
        """Take what `torch.nn.utils.weight_norm` has saved."""
        for i, part in enumerate("gv"):
            if f"{prefix}{name}_{part}" in state:
                state[f"{prefix}parametrizations.{name}.original{i}"] = state.pop(f"{prefix}{name}_{part}")

    module._register_load_state_dict_pre_hook(renamed)
    return module


# -- a bound on the greatest singular value


class PowerMethod:
    """The greatest singular value of a weight, taken as a matrix with rows along `dim`, by the power method."""

    def __init__(self, dim: int, eps: float) -> None:
        self.dim, self.eps = dim, eps

    def matrix(self, weight: Any) -> Any:
        """Return the weight as a matrix."""
        moved = wg.moveaxis(weight, self.dim, 0) if self.dim % weight.ndim else weight
        return moved.reshape((moved.shape[0], moved.size // max(moved.shape[0], 1)))

    def iterated(self, matrix: Any, u: Any, v: Any, times: int) -> tuple[Any, Any]:
        """Return the singular vectors after so many more steps, without history."""
        matrix = matrix.detach()
        for _ in range(times):
            u = normalize(matrix @ v, dim=0, eps=self.eps)
            v = normalize(matrix.mT.conj() @ u if matrix.dtype.kind == "c" else matrix.mT @ u, dim=0, eps=self.eps)
        return u, v

    def begun(self, size: int, dtype: Any) -> Any:
        """Return a random vector of length 1."""
        return normalize(tensor_of(wg.randn((size,), dtype=dtype)), dim=0, eps=self.eps)


def rows_axis(module: Any, dim: int | None) -> int:
    """Return the axis of a weight along which a module's outputs lie."""
    if dim is not None:
        return dim
    return 1 if isinstance(module, TransposedConv) else 0


class _SpectralNorm(Module):
    _u: Any
    _v: Any

    def __init__(self, weight: Any, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        if n_power_iterations < 1:
            fail(GraphError, f"spectral_norm: n_power_iterations={n_power_iterations}", "It is at least 1.")
        self.dim = dim if dim >= 0 else dim + weight.ndim
        self.eps = eps
        if weight.ndim > 1:
            self.n_power_iterations = n_power_iterations
            with wg.no_grad():
                method = PowerMethod(self.dim, eps)
                matrix = method.matrix(weight.detach())
                u, v = (method.begun(n, weight.dtype) for n in matrix.shape)
                u, v = method.iterated(matrix, u, v, 15)
            self.register_buffer("_u", u)
            self.register_buffer("_v", v)

    def forward(self, weight: Any) -> Any:
        """Return the weight divided by its greatest singular value; in training the vectors go on a step."""
        if weight.ndim == 1:
            return normalize(weight, dim=0, eps=self.eps)
        method = PowerMethod(self.dim, self.eps)
        matrix = method.matrix(weight)
        if self.training:
            u, v = method.iterated(matrix, self._u, self._v, self.n_power_iterations)
            self._u.assign_(u)
            self._v.assign_(v)
        else:
            u, v = self._u, self._v
        return weight / (u.detach() * (matrix @ v.detach())).sum()

    def right_inverse(self, value: Any) -> Any:
        """Return the value: one within the bound stays as it is."""
        return value


def spectral_norm(
    module: Any, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Any:
    """Let a weight be divided by its greatest singular value; return the module.

    Parameters
    ----------
    module, name: the module and its weight.
    n_power_iterations: steps of the power method each time the weight is read in training.
    eps: added to norms.
    dim: the axis of the rows; None for that of the module's outputs.

    Source: Miyato et al., arXiv:1802.05957. Raises GraphError.
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, wg.Tensor):
        fail(GraphError, f"{type(module).__name__} has no parameter or buffer {name!r}")
    made = _SpectralNorm(weight, n_power_iterations, rows_axis(module, dim), eps)
    return register_parametrization(module, name, made)


# -- orthogonal matrices


def _orthogonalized(a: Any) -> Any:
    """Return the orthogonal factor of a matrix whose other factor has positive numbers on its diagonal."""
    q, r = np.linalg.qr(a.detach().numpy())
    diagonal = np.diagonal(r, axis1=-2, axis2=-1)
    return tensor_of(asarray(q * np.sign(diagonal)[..., None, :]))


def _is_orthogonal(q: Any) -> bool:
    values = q.detach().numpy()
    n, k = values.shape[-2:]
    product = np.conj(np.swapaxes(values, -2, -1)) @ values
    return bool(np.allclose(product, np.eye(k), atol=10.0 * n * np.finfo(values.dtype).eps))


class _Orthogonal(Module):
    base: Any

    def __init__(self, weight: Any, orthogonal_map: str, use_trivialization: bool) -> None:
        super().__init__()
        self.orthogonal_map = orthogonal_map
        self.size = tuple(weight.shape[-2:])
        self.register_buffer("base", None)
        if use_trivialization:
            self.base = tensor_of(wg.zeros_like(weight.detach()))

    def forward(self, weight: Any) -> Any:
        """Return the orthogonal matrix that belongs to any matrix."""
        n, k = weight.shape[-2:]
        wide = n < k
        if wide:
            weight, n, k = weight.mT, k, n
        if self.orthogonal_map == "householder":
            below = wg.tril(weight, -1)
            tau = 2.0 / (1.0 + (wg.abs(below) ** 2).sum(axis=-2))
            q = linalg.householder_product(below, tau.astype(weight.dtype))
            signs = wg.trunc(wg.real(wg.diagonal(weight, 0, -2, -1))).detach()
            q = q * wg.expand_dims(signs, -2).astype(weight.dtype)
        else:
            low = wg.tril(weight)
            if n != k:
                low = wg.concat([low, wg.zeros((*low.shape[:-1], n - k), dtype=low.dtype)], -1)
            skew = low - (wg.conj(low.mT) if low.dtype.kind == "c" else low.mT)
            if self.orthogonal_map == "matrix_exp":
                q = wg.linalg.matrix_exp(skew)
            else:
                unit = wg.eye(n, dtype=low.dtype)
                q = wg.linalg.solve(unit - skew * 0.5, unit + skew * 0.5)
            q = q[..., :k]
        if self.base is not None:
            q = self.base @ q
        return q.mT if wide else q

    def right_inverse(self, value: Any) -> Any:
        """Return a matrix that gives this orthogonal one, or the one nearest to any other."""
        given = value.detach()
        if self.base is not None and tuple(given.shape[-2:]) not in (self.size, self.size[::-1]):
            fail(ShapeError, f"an orthogonal matrix {given.spec} among matrices of shape {self.size}")
        n, k = given.shape[-2:]
        wide = n < k
        q = given.mT if wide else given
        n, k = max(n, k), min(n, k)
        if self.base is None:
            if self.orthogonal_map != "householder":
                raise NotImplementedError("assigning an orthogonal matrix without use_trivialization=True")
            packed = np.linalg.qr(q.numpy(), mode="raw")[0] if q.ndim == 2 else None
            if packed is None:
                fail(ShapeError, f"an orthogonal matrix of shape {tuple(given.shape)} without a trivialization")
            a = packed.T.copy()
            i = np.arange(k)
            a[i, i] = np.where(a[i, i] < 0, -1.0, 1.0)
            if n == k:  # of a square matrix the last reflection turns one number alone
                a[-1, -1] *= -1.0
            found = tensor_of(asarray(a))
            return found.mT if wide else found
        if n == k:
            q = q if _is_orthogonal(q) else _orthogonalized(q)
        else:
            q = q if _is_orthogonal(q) else _orthogonalized(q)
            further = wg.randn((*q.shape[:-2], n, n - k), dtype=q.dtype)
            q = _orthogonalized(wg.concat([q, further], -1))
        self.base = tensor_of(q).clone()  # the weight itself is written to
        # With -1 on its diagonal every map gives the identity.
        return tensor_of(wg.broadcast_to(-wg.eye(*given.shape[-2:], dtype=given.dtype), tuple(given.shape)))


def orthogonal(
    module: Any, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Any:
    """Let a weight be an orthogonal matrix, or one of orthonormal rows or columns; return the module.

    Parameters
    ----------
    module, name: the module and its weight, of two dimensions or more.
    orthogonal_map: "matrix_exp" or "cayley" of a skew matrix, or "householder" reflections; None for the first of
        square and complex matrices, the last of others.
    use_trivialization: whether to go on from the present matrix. Source: Lezcano-Casado, arXiv:1909.09501.

    Raises GraphError, ShapeError.
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, wg.Tensor):
        fail(GraphError, f"{type(module).__name__} has no parameter or buffer {name!r}")
    if weight.ndim < 2:
        fail(ShapeError, f"orthogonal: a tensor of shape {tuple(weight.shape)}", "It has two dimensions or more.")
    if orthogonal_map is None:
        square = weight.shape[-2] == weight.shape[-1]
        orthogonal_map = "matrix_exp" if square or weight.dtype.kind == "c" else "householder"
    if orthogonal_map not in ("matrix_exp", "cayley", "householder"):
        fail(GraphError, f"orthogonal_map={orthogonal_map!r}", 'It is "matrix_exp", "cayley" or "householder".')
    made = _Orthogonal(weight, orthogonal_map, use_trivialization)
    return register_parametrization(module, name, made, unsafe=True)


def __dir__() -> list[str]:
    return sorted(__all__)
