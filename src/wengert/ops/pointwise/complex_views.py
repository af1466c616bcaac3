"""Complex numbers as pairs of real ones, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.dtypes import DType
from ...core.errors import DTypeError, ShapeError, fail
from ...core.ops.declare import linear, public
from ...core.ops.facets import Role
from ...core.ops.op import TABLE, Call, Missing
from ...core.spec import Spec, category, complex64, complex128, float32, float64, real_dtype, show, spec_of
from ...core.tensor import Tensor, asarray

_NO_COMPLEX = Missing("ONNX operators take no complex numbers")
_VIEW = Missing("the same memory by another name")


def _pairs(x: Any) -> Any:
    return np.asarray(x)[..., None].view(real_dtype(x.dtype))


def _infer_pairs(x: Spec) -> Spec:
    if category(x.dtype) != 3:
        fail(DTypeError, f"view_as_real of {show(x.shape, x.dtype)}", "It takes complex numbers.")
    return spec_of((*x.shape, 2), real_dtype(x.dtype))


def _complex(x: Any) -> Any:
    wide = np.asarray(x, float32) if x.dtype.itemsize == 2 else x
    pairs = wide if wide.strides[-1] == wide.itemsize else np.ascontiguousarray(wide)
    return pairs.view(complex128 if wide.dtype == float64 else complex64)[..., 0]


def _infer_complex(x: Spec) -> Spec:
    if category(x.dtype) != 2:
        fail(DTypeError, f"view_as_complex of {show(x.shape, x.dtype)}", "It takes real floating numbers.")
    if not x.shape or x.shape[-1] != 2:
        fail(ShapeError, f"view_as_complex of {show(x.shape, x.dtype)}", "The last axis holds real and imaginary part.")
    return spec_of(x.shape[:-1], complex128 if x.dtype == float64 else complex64)


view_as_real_op = linear(
    "view_as_real(x)",
    _pairs,
    view=True,
    infer=_infer_pairs,
    transpose=lambda ct: TABLE["view_as_complex"](ct),
    layout="()->(p)",
    doc="Complex numbers as pairs of real ones, along a new last axis.",
    samples=lambda rng: [
        Call((rng.normal(size=shape) + 1j * rng.normal(size=shape),)) for shape in ((3,), (), (2, 0), (2, 3))
    ],
    reference=lambda x: np.stack([x.real, x.imag], -1),
    onnx=_NO_COMPLEX,
    cost=0,
    role=Role.REINTERPRET,
    unview=lambda x, part: _as_dtype(TABLE["view_as_complex"](part), x.dtype),
)


def _as_dtype(ct: Any, dtype: DType) -> Any:
    return ct if ct.dtype == dtype else TABLE["cast"](ct, dtype=dtype)


view_as_complex_op = linear(
    "view_as_complex(x)",
    _complex,
    accepts="real_inexact",
    view=True,
    infer=_infer_complex,
    transpose=lambda ct, x_dtype: _as_dtype(TABLE["view_as_real"](ct), x_dtype),
    layout="(p)->()",
    doc="Pairs of real numbers along the last axis as complex ones, complex128 of float64, else complex64.",
    samples=lambda rng: [Call((rng.normal(size=(*shape, 2)),)) for shape in ((3,), (), (2, 0), (2, 3))],
    reference=lambda x: x[..., 0] + 1j * x[..., 1],
    onnx=_NO_COMPLEX,
    cost=0,
    role=Role.REINTERPRET,
    unview=lambda x, part: _as_dtype(TABLE["view_as_real"](part), x.dtype),
)


@public
def view_as_real(x: Any) -> Tensor:
    """Return complex numbers as pairs of real ones, real and imaginary part along a new last axis. Raises DTypeError.

    >>> import wengert as wg
    >>> wg.view_as_real(wg.tensor([1.0 + 2.0j]))
    tensor([[1., 2.]])
    """
    t = asarray(x)
    _infer_pairs(t.spec)
    out: Tensor = view_as_real_op.front(t)
    return out


@public
def view_as_complex(x: Any) -> Tensor:
    """Return pairs of real numbers along the last axis as complex ones. Raises DTypeError, ShapeError.

    >>> import wengert as wg
    >>> wg.view_as_complex(wg.tensor([1.0, 2.0]))
    tensor(1.+2.j)
    """
    t = asarray(x)
    _infer_complex(t.spec)
    out: Tensor = view_as_complex_op.front(t)
    return out
