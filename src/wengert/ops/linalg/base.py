"""The common parts of linear-algebra ops: operands, shape rules, LAPACK's errors, and adjoints."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from ...core.errors import GradientError, ShapeError, WengertError, fail
from ...core.ops.op import Missing
from ...core.spec import Shape, Spec, category, float32, real_dtype, show
from ...core.tensor import Tensor
from ..pointwise.arithmetic import conj
from ..reduce.common import inexact

NO_ONNX = Missing("ONNX has no such operator")
NO_SVD = ("has no singular value decomposition: it did not converge", "Scale the matrix, or compute in float64.")


class LinAlgError(WengertError, np.linalg.LinAlgError, RuntimeError):
    """An error for a matrix without the result asked for: singular, not positive definite, not finite.

    It is NumPy's, which is a ValueError, and a RuntimeError, as which programs written for PyTorch catch theirs.
    """

    __module__ = "wengert.linalg"


def lapack(
    name: str, why: str, mend: str, narrow: bool = True, finite: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator for a NumPy forward that calls LAPACK: its failure in the library's words.

    16-bit numbers are computed in float32; with `narrow` the results are rounded back. `why` says of
    the matrices what is wrong with them, `mend` what helps. `finite` asks for finite matrices: of others
    some LAPACKs make finite numbers that mean nothing.
    """

    def register(fn: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(fn)
        def forward(*arrays: Any, **attrs: Any) -> Any:
            x = arrays[0]
            if finite and not _is_finite(x):
                _failed(name, x, why, mend)
            try:
                with np.errstate(all="ignore"):
                    out = fn(*(a.astype(float32) if a.dtype.itemsize == 2 else a for a in arrays), **attrs)
            except np.linalg.LinAlgError as e:
                if isinstance(e, WengertError):
                    raise
                _failed(name, x, why, mend)
            if x.dtype.itemsize != 2 or not narrow:
                return out

            def rounded(o: Any) -> Any:
                return o if o.dtype.kind in "iu" else o.astype(x.dtype)

            return tuple(map(rounded, out)) if isinstance(out, tuple) else rounded(out)

        return forward

    return register


def _is_finite(x: Any) -> bool:
    return category(x.dtype) < 2 or bool(np.isfinite(x.astype(float32) if x.dtype.kind == "V" else x).all())


def _failed(name: str, x: Any, why: str, mend: str) -> NoReturn:
    which = "a matrix of the stack" if x.ndim > 2 else "the matrix"
    if not _is_finite(x):
        why, mend = "contains NaN or infinity", "wg.explain.nonfinite says where the first of them was born."
    fail(LinAlgError, f"{name} of {show(x.shape, x.dtype)}: {which} {why}", mend)


# -- operands


def matrices(x: Any, name: str, square: bool = False) -> Tensor:
    """Return an operand as floating or complex matrices in its last two axes. Raises ShapeError."""
    t = inexact(x)
    if t.ndim < 2 or (square and t.shape[-1] != t.shape[-2]):
        fail(
            ShapeError,
            f"{name} of {show(t.shape, t.dtype)}",
            f"It takes {'square matrices (..., n, n)' if square else 'matrices (..., m, n)'} in the last two axes.",
        )
    return t


def infer_same(x: Spec) -> Spec:
    """Return the spec of square matrices as the result's."""
    return square_spec(x)


def infer_numbers(x: Spec) -> Spec:
    """Return the spec of one number for each square matrix."""
    return square_spec(x).with_shape(x.shape[:-2])


def square_spec(x: Spec) -> Spec:
    """Return the spec of square matrices. Raises ShapeError for another."""
    if len(x.shape) < 2 or x.shape[-1] != x.shape[-2]:
        fail(ShapeError, f"{show(x.shape, x.dtype)} where square matrices (..., n, n) are needed")
    return x


def matrix_spec(x: Spec) -> Spec:
    """Return the spec of matrices. Raises ShapeError for another."""
    if len(x.shape) < 2:
        fail(ShapeError, f"{show(x.shape, x.dtype)} where matrices (..., m, n) are needed")
    return x


def real_spec(x: Spec, shape: Shape) -> Spec:
    """Return the spec of a shape in the real dtype of `x`'s numbers."""
    return x.with_shape(shape).with_dtype(real_dtype(x.dtype))


# -- for rules, which run on arrays and on tensors


def conjugate(x: Any) -> Any:
    """Return the complex conjugate; real numbers as they are."""
    return conj(x) if x.dtype.kind == "c" else x


def adjoint(x: Any) -> Any:
    """Return the conjugate transpose of matrices."""
    return conjugate(x).mT


def hermitian(x: Any) -> Any:
    """Return the Hermitian part of matrices."""
    return (x + adjoint(x)) * 0.5


def column(x: Any) -> Any:
    """Return vectors as matrices of one column."""
    return x.reshape((*x.shape, 1))


def row(x: Any) -> Any:
    """Return vectors as matrices of one row."""
    return x.reshape((*x.shape[:-1], 1, x.shape[-1]))


def matrix_scaled(number: Any, x: Any) -> Any:
    """Return matrices, each times its number."""
    return number.reshape((*number.shape, 1, 1)) * x


def identity_like(x: Any) -> Any:
    """Return the identity matrix, real, with as many rows as `x` has columns."""
    return np.eye(x.shape[-1], dtype=real_dtype(x.dtype))


def differences(values: Any) -> Any:
    """Return values[j] - values[i] in row i and column j; 1 on the diagonal, since it divides."""
    return row(values) - column(values) + identity_like(values)


def undetermined(name: str, what: str, factor: str, instead: str) -> NoReturn:
    """Raise GradientError for a gradient in vectors that are not determined."""
    fail(
        GradientError,
        f"{name} with {what}: a gradient reaches {factor}, whose further columns are any that complete a basis",
        f"They have no derivative. Use {instead}.",
    )


# -- samples


def normal(rng: Any, *shape: int, complex: bool = False) -> Any:
    """Return normal samples, with `complex` for both parts."""
    x = rng.normal(size=shape)
    return x + 1j * rng.normal(size=shape) if complex else x


def well_conditioned(rng: Any, *shape: int, complex: bool = False) -> Any:
    """Return square matrices far from singular ones."""
    n = shape[-1]
    return normal(rng, *shape, complex=complex) * 0.3 + np.diag(1.5 + 0.8 * np.arange(n))


def positive_definite(rng: Any, *shape: int, complex: bool = False) -> Any:
    """Return Hermitian positive definite samples."""
    x = normal(rng, *shape, complex=complex)
    return x @ np.conj(np.swapaxes(x, -1, -2)) * 0.3 + np.eye(shape[-1])
