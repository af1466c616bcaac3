"""Matrix products of every rank."""

from __future__ import annotations

import math
import sys
from typing import Any, NoReturn

import numpy as np

from ...core.arrays import ARRAY_ALWAYS
from ...core.errors import ShapeError, fail, is_internal, user_frame
from ...core.mode import get_mode
from ...core.node import EMPTY_ATTRS, make_node
from ...core.ops.costs import MATRIX_PRODUCT
from ...core.ops.declare import METHODS, op, public
from ...core.ops.facets import Form, Role
from ...core.ops.nonfinite import OVERFLOW
from ...core.ops.op import Call, Linear, Op
from ...core.ops.operands import elementwise_general, of_their_own
from ...core.ops.record import bind
from ...core.spec import Shape, Spec, broadcast_shapes, normalize_axis, show, spec_of
from ...core.state.observer import detours
from ...core.tensor import Tensor, ndarray, new, result_class
from ..long_sums import LONGEST_PRODUCT, product
from ..pointwise.arithmetic import conj, multiply
from ..structure.axes import permute_op
from .einsum import operands_of, tensordot

# -- the products as ops: leading axes broadcast, and each is linear in both arguments


def _conj(x: Any) -> Any:
    return conj(x) if x.dtype.kind == "c" else x


def _adjoint(x: Any) -> Any:
    return _conj(x).mT


def _unbroadcast(ct: Any, shape: Shape) -> Any:
    """Return `ct` summed over the leading axes that were broadcast from `shape`."""
    if ct.shape == shape:
        return ct
    extra = len(ct.shape) - len(shape)
    ones = (i + extra for i, n in enumerate(shape) if n == 1 and ct.shape[i + extra] != 1)
    return ct.sum(axis=(*range(extra), *ones)).reshape(shape)


def _column(x: Any) -> Any:
    return x.reshape((*x.shape, 1))


def _row(x: Any) -> Any:
    return x.reshape((*x.shape[:-1], 1, x.shape[-1]))


def _matmul(x: Any, y: Any) -> Any:
    if y.ndim == 2 and x.ndim > 2 and x.flags.c_contiguous:
        # One large product instead of one for each leading index.
        out = product(x.reshape(math.prod(x.shape[:-1]), x.shape[-1]), y).reshape((*x.shape[:-1], y.shape[1]))
    else:
        out = product(x, y)
    return out if out.dtype == x.dtype else out.astype(x.dtype)  # bfloat16 gives float32


def _matvec(x: Any, y: Any) -> Any:
    if y.ndim == 1 and len(y) <= LONGEST_PRODUCT:
        out = np.matmul(x, y)
    else:
        out = product(x, y[..., None])[..., 0]
    return out if out.dtype == x.dtype else out.astype(x.dtype)


def _vecmat(x: Any, y: Any) -> Any:
    if x.ndim == 1 and len(x) <= LONGEST_PRODUCT:
        out = np.matmul(x, y)
    else:
        out = product(x[..., None, :], y)[..., 0, :]
    return out if out.dtype == x.dtype else out.astype(x.dtype)


def _dot(x: Any, y: Any) -> Any:
    if x.ndim == y.ndim == 1 and len(x) <= LONGEST_PRODUCT:
        out = np.dot(x, y)
    else:
        out = product(x[..., None, :], y[..., None])[..., 0, 0]
    return out if out.dtype == x.dtype else out.astype(x.dtype)


def _matmul_in_y(ct: Any, x: Any, y_shape: Shape) -> Any:
    if len(y_shape) == 2 and len(x.shape) > 2:
        # The sum over the leading axes is part of one product.
        rows = math.prod(x.shape[:-1])
        return matmul_op(_adjoint(x.reshape((rows, x.shape[-1]))), ct.reshape((rows, ct.shape[-1])))
    return _unbroadcast(matmul_op(_adjoint(x), ct), y_shape)


def _inner_sizes_differ(x: Spec, y: Spec) -> NoReturn:
    a, b = x.shape, y.shape
    if len(b) > 1 and a[-1] == b[-1]:
        mend = "Transpose the second: x @ y.mT."
    elif len(a) > 1 and len(b) > 1 and a[-2] == b[-2]:
        mend = "Transpose the first: x.mT @ y."
    elif len(a) > 1 and len(b) > 1 and a[-2] == b[-1]:
        mend = "Swap them: y @ x."
    else:
        which = "last axis but one" if len(b) > 1 else "axis"
        mend = f"The last axis of the first ({a[-1]}) must have the size of the second's {which} ({b[-2:][0]})."
    fail(ShapeError, f"matmul: inner sizes differ: {show(a, x.dtype)} and {show(b, y.dtype)}", mend)


def _leading(x: Spec, y: Spec, keep_x: int, keep_y: int) -> Shape:
    a, b = x.shape[: len(x.shape) - keep_x], y.shape[: len(y.shape) - keep_y]
    out = broadcast_shapes(a, b)
    if out is None:
        fail(
            ShapeError,
            f"matmul: leading axes {a} and {b} do not broadcast: {show(x.shape, x.dtype)} and {show(y.shape, y.dtype)}",
            "All axes but the matrices' own must be equal or 1.",
        )
    return out


def _infer_matmul(x: Spec, y: Spec) -> Spec:
    if x.shape[-1] != y.shape[-2]:
        _inner_sizes_differ(x, y)
    return spec_of((*_leading(x, y, 2, 2), x.shape[-2], y.shape[-1]), x.dtype)


def _infer_matvec(x: Spec, y: Spec) -> Spec:
    if x.shape[-1] != y.shape[-1]:
        _inner_sizes_differ(x, y)
    return spec_of((*_leading(x, y, 2, 1), x.shape[-2]), x.dtype)


def _infer_vecmat(x: Spec, y: Spec) -> Spec:
    if x.shape[-1] != y.shape[-2]:
        _inner_sizes_differ(x, y)
    return spec_of((*_leading(x, y, 1, 2), y.shape[-1]), x.dtype)


def _infer_dot(x: Spec, y: Spec) -> Spec:
    if x.shape[-1] != y.shape[-1]:
        _inner_sizes_differ(x, y)
    return spec_of(_leading(x, y, 1, 1), x.dtype)


def _pairs(*shapes: tuple[Shape, Shape]) -> Any:
    return lambda rng: [Call((rng.normal(size=a), rng.normal(size=b))) for a, b in shapes]


matmul_op: Op = op(
    "matmul(x, y)",
    _matmul,
    infer=_infer_matmul,
    facts={
        "x": Linear(lambda ct, y, x_shape: _unbroadcast(matmul_op(ct, _adjoint(y)), x_shape)),
        "y": Linear(_matmul_in_y),
    },
    kind="linear",
    doc="The matrix product over the last two axes; leading axes broadcast.",
    layout="(m,n),(n,p)->(m,p)",
    samples=_pairs(
        ((2, 3), (3, 2)),
        ((2, 2, 3), (2, 3, 1)),
        ((2, 2, 3), (3, 2)),
        ((2, 1, 1, 2), (3, 2, 2)),
        ((2, 3), (2, 3, 2)),
        ((2, 0), (0, 3)),
    ),
    reference=lambda x, y: (x[..., :, :, None] * y[..., None, :, :]).sum(-2),
    onnx="MatMul",
    role=Role.PRODUCT,
    cost=MATRIX_PRODUCT,
    form=Form(
        "@",
        "{0} {1}",
        binds="product",
        local="{1}ᵀ|{0}ᵀ",
        say="A product of matrices hands each the gradient times the *other*, transposed.",
    ),
    nonfinite=OVERFLOW,
    zero_gradient="factor",
)

matvec_op: Op = op(
    "matvec(x, y)",
    _matvec,
    infer=_infer_matvec,
    facts={
        "x": Linear(lambda ct, y, x_shape: _unbroadcast(_column(ct) * _row(_conj(y)), x_shape)),
        "y": Linear(lambda ct, x, y_shape: _unbroadcast(matvec_op(_adjoint(x), ct), y_shape)),
    },
    kind="linear",
    doc="Matrices times vectors; leading axes broadcast.",
    layout="(m,n),(n)->(m)",
    samples=_pairs(((2, 3), (3,)), ((2, 2, 3), (2, 3)), ((2, 2, 3), (3,)), ((2, 3), (2, 3))),
    reference=lambda x, y: (x * y[..., None, :]).sum(-1),
    onnx="MatMul",
    role=Role.PRODUCT,
    cost=MATRIX_PRODUCT,
    form=Form(
        "@",
        "{0} {1}",
        binds="product",
        local="{1}|{0}ᵀ",
        say="Matrix and vector each get the gradient times the *other* one's values.",
    ),
    nonfinite=OVERFLOW,
    zero_gradient="factor",
)

vecmat_op: Op = op(
    "vecmat(x, y)",
    _vecmat,
    infer=_infer_vecmat,
    facts={
        "x": Linear(lambda ct, y, x_shape: _unbroadcast(matvec_op(_conj(y), ct), x_shape)),
        "y": Linear(lambda ct, x, y_shape: _unbroadcast(_column(_conj(x)) * _row(ct), y_shape)),
    },
    kind="linear",
    doc="Vectors times matrices; leading axes broadcast.",
    layout="(m),(m,n)->(n)",
    samples=_pairs(((2,), (2, 3)), ((2, 3), (2, 3, 2)), ((3,), (2, 3, 2)), ((2, 3), (3, 2))),
    reference=lambda x, y: (x[..., :, None] * y).sum(-2),
    onnx="MatMul",
    role=Role.PRODUCT,
    cost=MATRIX_PRODUCT,
    form=Form(
        "@",
        "{0} {1}",
        binds="product",
        local="{1}ᵀ|{0}",
        say="Vector and matrix each get the gradient times the *other* one's values.",
    ),
    nonfinite=OVERFLOW,
    zero_gradient="factor",
)

dot_op: Op = op(
    "dot(x, y)",
    _dot,
    infer=_infer_dot,
    facts={
        "x": Linear(lambda ct, y, x_shape: _unbroadcast(_column(ct) * _conj(y), x_shape)),
        "y": Linear(lambda ct, x, y_shape: _unbroadcast(_column(ct) * _conj(x), y_shape)),
    },
    kind="linear",
    doc="The sum of products along the last axis, without conjugation; leading axes broadcast.",
    layout="(n),(n)->()",
    samples=_pairs(((3,), (3,)), ((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 1, 3), (2, 3))),
    reference=lambda x, y: (x * y).sum(-1),
    onnx="MatMul",
    role=Role.PRODUCT,
    cost=MATRIX_PRODUCT,
    form=Form(
        "·",
        "{0} · {1}",
        binds="product",
        local="{1}|{0}",
        say="A dot product hands each vector the *other* one, scaled.",
    ),
    nonfinite=OVERFLOW,
    zero_gradient="factor",
)


# -- x @ y


@public(method=True)
def matmul(x: Any, y: Any, /) -> Tensor:
    """Return the matrix product, `x @ y` (Array API, NumPy).

    Parameters
    ----------
    x, y: (..., m, n) and (..., n, p) give (..., m, p), with leading axes broadcast; a vector (n,)
        stands for one row on the left and one column on the right, and that axis is dropped. Of float8 the product is
        computed in float32, and is float32.

    Raises ShapeError where the inner sizes or the leading axes do not fit, DTypeError.

    >>> import wengert as wg
    >>> wg.matmul(wg.tensor([[1.0, 2.0], [3.0, 4.0]]), wg.tensor([1.0, 1.0]))
    tensor([3., 7.])
    """
    try:
        spec, other = x._spec, y._spec
        m, n = len(spec.shape), len(other.shape)
        right = y._data
        is_plain = (
            spec.dtype is other.dtype
            and spec.numeric
            and spec.dtype.kind != "V"
            and (n < 2 or m <= n == 2)
            and not detours
        )
        if is_plain and len(right) <= LONGEST_PRODUCT:
            out = new(Tensor if type(x) is Tensor and type(y) is Tensor else result_class((x, y)))
            data = np.matmul(x._data, right, out=ARRAY_ALWAYS)
            if type(data) is not ndarray:  # of two vectors
                data = np.asarray(data)
            out._data = data
            shape = data.shape
            out._spec = made = spec.family.get(shape) or spec_of(shape, spec.dtype)
            n_x, n_y = x.node, y.node
            out._share = None
            if (n_x is None and n_y is None) or not (mode := get_mode()).grad:
                out.node = None
                return out
            frame = sys._getframe(1)
            if is_internal(frame.f_code.co_filename):  # the same under another namespace's name
                frame = user_frame(1) or frame
            op = (matmul_op if m > 1 else vecmat_op) if n > 1 else matvec_op if m > 1 else dot_op
            saved = (x._data if n_y is not None else None, right if n_x is not None else None, None)
            code, offset, scope = frame.f_code, frame.f_lasti, mode.scope
            out.node = make_node(op, (n_x or x._data, n_y or right), EMPTY_ATTRS, saved, made, code, offset, scope)
            return out
    except (AttributeError, TypeError, ValueError):
        pass  # not tensors, abstract, or of shapes that do not fit
    if (found := of_their_own("__rmatmul__", x, y)) is not NotImplemented:
        return found  # type: ignore[no-any-return]
    return _matmul_general(*operands_of("matmul", x, y))


def _matmul_general(x: Tensor, y: Tensor) -> Tensor:
    m, n = x.ndim, y.ndim
    out: Tensor
    if m > 1 and n > 1:
        out = bind(matmul_op, (x, y))
    elif m == 0 or n == 0:
        fail(
            ShapeError,
            f"matmul of a 0-d tensor: {show(x.shape, x.dtype)} and {show(y.shape, y.dtype)}",
            "A number scales: write x * y.",
        )
    elif m == n:
        out = bind(dot_op, (x, y))
    elif n == 1:
        out = bind(matvec_op, (x, y))
    else:
        out = bind(vecmat_op, (x, y))
    return out


def _reflected(self: Tensor, other: Any) -> Tensor:
    return matmul(other, self)


METHODS["__matmul__"] = matmul
METHODS["__rmatmul__"] = _reflected


def _exact_ranks(name: str, x: Any, y: Any, ranks: tuple[int, int]) -> Tensor:
    x, y = operands_of(name, x, y)
    if (x.ndim, y.ndim) != ranks:
        fail(
            ShapeError,
            f"{name}: {show(x.shape, x.dtype)} and {show(y.shape, y.dtype)}",
            f"It takes tensors with {ranks[0]} and {ranks[1]} dimensions; x @ y takes any.",
        )
    return matmul(x, y)


@public(method=True, home="torch")
def mm(x: Any, y: Any) -> Tensor:
    """Return the product of two matrices, (m, n) and (n, p) (PyTorch). Raises ShapeError for other ranks."""
    return _exact_ranks("mm", x, y, (2, 2))


@public(method=True, home="torch")
def bmm(x: Any, y: Any) -> Tensor:
    """Return the products of two stacks of matrices, (b, m, n) and (b, n, p) (PyTorch).

    Raises ShapeError for other ranks.
    """
    return _exact_ranks("bmm", x, y, (3, 3))


@public(method=True, home="torch")
def mv(x: Any, y: Any) -> Tensor:
    """Return the product of a matrix (m, n) and a vector (n,) (PyTorch). Raises ShapeError for other ranks."""
    return _exact_ranks("mv", x, y, (2, 1))


@public(method=True)
def dot(x: Any, y: Any) -> Tensor:
    """Return the sum over the last axis of `x` and the last but one of `y` (NumPy).

    For vectors and matrices it is `x @ y`, with a 0-d operand `x * y`, without conjugation.

    Raises ShapeError, DTypeError.

    >>> import wengert as wg
    >>> wg.dot(wg.tensor([1.0, 2.0]), wg.tensor([3.0, 4.0]))
    tensor(11.)
    """
    x, y = operands_of("dot", x, y)
    if x.ndim == 0 or y.ndim == 0:
        return elementwise_general(multiply, (x, y))
    if y.ndim == 1 or (x.ndim <= 2 and y.ndim == 2):
        return matmul(x, y)
    return tensordot(x, y, axes=([-1], [-2]))


@public(method=True)
def vecdot(x: Any, y: Any, /, *, axis: int = -1) -> Tensor:
    """Return the inner product along an axis, conjugating `x`; the other axes broadcast (Array API).

    Raises ShapeError where the axis has two sizes, DTypeError.

    >>> import wengert as wg
    >>> wg.vecdot(wg.tensor([[1.0, 2.0], [3.0, 4.0]]), wg.tensor([1.0, 1.0]))
    tensor([3., 7.])
    """
    x, y = operands_of("vecdot", x, y)
    a, b = normalize_axis(axis, x.ndim), normalize_axis(axis, y.ndim)
    if x.shape[a] != y.shape[b]:
        fail(
            ShapeError,
            f"vecdot: sizes differ along axis {axis}: {show(x.shape, x.dtype)} and {show(y.shape, y.dtype)}",
            "Both vectors have one length.",
        )
    if x.dtype.kind == "c":
        x = elementwise_general(conj, (x,))
    out: Tensor = bind(dot_op, (_moved_last(x, a), _moved_last(y, b)))
    return out


def _moved_last(x: Tensor, axis: int) -> Tensor:
    if axis == -1:
        return x
    out: Tensor = bind(permute_op, (x,), {"axes": (*(i for i in range(-x.ndim, 0) if i != axis), axis)})
    return out
