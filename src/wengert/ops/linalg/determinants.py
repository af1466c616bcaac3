"""Determinants, their logarithms, and the cofactors of which their derivatives are made.

A determinant is a polynomial, so it has derivatives of every order at every matrix, singular ones too. The first is
the matrix of cofactors; those after it are one op, :data:`cofactors_along`, whose own derivatives are that op again.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...core.errors import ShapeError, fail
from ...core.ops.costs import cube
from ...core.ops.declare import op
from ...core.ops.facets import Cause, Count, Nonfinite
from ...core.ops.nonfinite import SINGULAR, always
from ...core.ops.op import Call, Joint, Linear, Op, Vjp
from ...core.ops.record import bind
from ...core.spec import Spec, show
from ...core.tensor import Tensor
from ..pointwise.arithmetic import imag, log
from ..pointwise.selection import where_op
from ..structure.assemble import concat_op
from .base import (
    NO_ONNX,
    NO_SVD,
    adjoint,
    conjugate,
    infer_numbers,
    infer_same,
    lapack,
    matrices,
    matrix_scaled,
    normal,
    real_spec,
    square_spec,
    well_conditioned,
)
from .solve import inv_op

# -- cofactors


def _others(s: Any) -> Any:
    """Return, for each element of a vector, the product of the others; exponents apart, so that none underflows."""
    zero = s == 0.0
    mantissa, exponent = np.frexp(np.where(zero, 1.0, s).astype(np.float64))
    product, power = mantissa.prod(-1, keepdims=True), exponent.sum(-1, keepdims=True)
    found = np.ldexp(product / mantissa, power - exponent)
    return np.where(zero.sum(-1, keepdims=True) - zero == 0, found, 0.0).astype(s.dtype)


@lapack("adjugate", *NO_SVD)
def _adjugate(x: Any) -> Any:
    u, s, vh = np.linalg.svd(x, full_matrices=False)
    phase = np.linalg.det(np.matmul(u, vh))
    out = np.matmul(adjoint(vh) * _others(s)[..., None, :], adjoint(u))
    return phase[..., None, None] * out


def _minors(x: Any) -> Any:
    out = np.empty_like(x)
    n = x.shape[-1]
    for i in range(n):
        for j in range(n):
            minor = np.delete(np.delete(x, j, -2), i, -1)
            out[..., i, j] = (-1) ** (i + j) * _expanded(minor)
    return out


def _expanded(x: Any) -> Any:
    """Return the determinant, expanded along the first row."""
    n = x.shape[-1]
    if n == 0:
        return np.ones(x.shape[:-2], x.dtype)
    total: Any = 0.0
    for j in range(n):
        total = total + (-1) ** j * x[..., 0, j] * _expanded(np.delete(x[..., 1:, :], j, -1))
    return np.asarray(total)


def _determinants(rng: Any) -> list[Call]:
    return [
        Call((normal(rng, 3, 3),)),
        Call((normal(rng, 2, 2, 2),)),
        Call((np.diag([1.0, 2.0, 0.0]),)),
        Call((np.zeros((3, 3)),)),
        Call((np.eye(3),)),
        Call((np.outer([1.0, 2.0, -1.0], [0.5, 1.0, 3.0]),)),
        Call((normal(rng, 2, 2, complex=True),)),
        Call((np.zeros((0, 0)),)),
    ]


# -- cofactors of polynomials
#
# Polynomials in t1 to tk, in which no power of any of them is higher than the first: a list of their 2^k coefficients,
# matrices or numbers, the bits of whose positions say which are factors. None stands for 0.

Polynomial = list[Any]
Product = Callable[[Any, Any], Any]


def _times(a: Polynomial, b: Polynomial, product: Product) -> Polynomial:
    out: Polynomial = [None] * len(a)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            if x is not None and y is not None and not i & j:
                term = product(x, y)
                out[i | j] = term if out[i | j] is None else out[i | j] + term
    return out


def _plus(a: Polynomial, b: Polynomial) -> Polynomial:
    return [y if x is None else x if y is None else x + y for x, y in zip(a, b, strict=True)]


def _each(fn: Callable[[Any], Any], a: Polynomial) -> Polynomial:
    return [None if x is None else fn(x) for x in a]


def _divided(a: Polynomial, by: int) -> Polynomial:
    return [None if x is None else x / by for x in a]


def _constant(value: Any, like: Polynomial) -> Polynomial:
    return [value, *[None] * (len(like) - 1)]


def _trace(a: Polynomial) -> Polynomial:
    def one(x: Any) -> Any:
        return (x * np.eye(x.shape[-1], dtype=x.dtype)).sum((-2, -1), keepdims=True)

    return _each(one, a)


def _determinant_and_adjugate(a: Polynomial, product: Product) -> tuple[Polynomial, Polynomial]:
    """Return both by Faddeev's and LeVerrier's polynomials, without a division by what may be 0."""
    n, dtype = a[0].shape[-1], a[0].dtype
    one = np.eye(n, dtype=dtype)
    power: Polynomial = _constant(one, a)
    for j in range(1, n + 1):
        moved = _times(a, power, product)
        coefficient = _divided(_trace(moved), -j)
        if j < n:
            power = _plus(moved, _each(lambda c: c * one, coefficient))
    sign = (-1) ** n
    return _each(lambda c: c * sign, coefficient), _each(lambda x: x * -sign, power)


def _determinant_and_inverse(a: Polynomial, order: int, product: Product) -> tuple[Polynomial, Polynomial]:
    """Return both for the identity plus a polynomial without a constant, by the series that end with t1 ... tk."""
    one = np.eye(a[1].shape[-1], dtype=a[1].dtype)
    inverse, power = _constant(one, a), _constant(one, a)
    logarithm: Polynomial = [None] * len(a)
    for j in range(1, order + 1):
        power = _each(operator.neg, _times(power, a, product))
        inverse = _plus(inverse, power)
        logarithm = _plus(logarithm, _divided(_trace(power), -j))
    number = np.ones((1, 1), a[1].dtype)
    determinant, term = _constant(number, a), _constant(number, a)
    for j in range(1, order + 1):
        term = _divided(_times(term, logarithm, operator.mul), j)
        determinant = _plus(determinant, term)
    return determinant, inverse


def cofactors_of_diagonal(s: Any, directions: Sequence[Any], product: Product, concat: Any) -> Any:
    """Return the coefficient of t1 ... tk in the cofactors of diag(values) + t1 directions[0] + ..., over a factor.

    The factor is the product of all values but the k + 1 smallest. `s` (..., n) is what :func:`taken_out` makes of the
    values: none is larger than 1, so that no term is larger than the result can be. The rows of the smallest values are
    reduced without a division, since they may be 0.
    """
    k, n = len(directions), s.shape[-1]
    top = n - 1 - k
    width = 1 << k
    whole: Polynomial = [None] * width
    for i, g in enumerate(directions):
        whole[1 << i] = g
    rest = _each(lambda g: g[..., top:, top:], whole)
    rest[0] = s[..., top:, None] * np.eye(k + 1, dtype=directions[0].dtype)
    if not top:
        return _determinant_and_adjugate(rest, product)[1][-1].mT
    over = s[..., :top]
    scaled = _each(lambda g: over[..., :, None] * g[..., :top, :], whole)
    determinant, inverse = _determinant_and_inverse(_each(lambda g: g[..., :top], scaled), k, product)
    right = _times(inverse, _each(lambda g: g[..., top:], scaled), product)
    left = _times(_each(lambda g: g[..., top:, :top], whole), inverse, product)
    left = _each(lambda x: x * over[..., None, :], left)
    below = _each(lambda g: g[..., top:, :top], whole)
    rest = _plus(rest, _each(operator.neg, _times(below, right, product)))
    number, adjugate = _determinant_and_adjugate(rest, product)
    corner = _times(number, _each(lambda x: x * over[..., None, :], inverse), operator.mul)
    beside = _each(operator.neg, _times(right, adjugate, product))
    corner = _plus(corner, _each(operator.neg, _times(beside, left, product)))
    under = _each(operator.neg, _times(adjugate, left, product))
    rows = []
    for a, b in ((corner, beside), (under, adjugate)):
        x, y = (_times(determinant, block, operator.mul)[-1] for block in (a, b))
        rows.append(concat([x, y], -1))
    return concat(rows, -2).mT


def taken_out(s: Any, order: int, arrays: Any = np) -> tuple[Any, Any]:
    """Return singular values, descending, as :func:`cofactors_of_diagonal` takes them, and those in its factor.

    With c the smallest in the factor, they are c / s for those in it and s / c for the others. `arrays` is the
    module of their arrays: NumPy, or one with the same functions.
    """
    top = s.shape[-1] - 1 - order
    if top <= 0:
        # There is one term alone: none of the values is in it.
        return s * 0, s[..., :0]
    factors, least = s[..., :top], s[..., top - 1 : top]
    positive = arrays.where(least > 0, least, 1)
    over = arrays.where(least > 0, least, 0) / arrays.where(factors > 0, factors, 1)
    return arrays.concatenate([over, s[..., top:] / positive], -1), factors


@lapack("cofactors_along", *NO_SVD)
def _cofactors_along(x: Any, h: Any, e: Any) -> Any:
    h = np.concatenate([h, e[..., None, :, :]], -3)
    order, n = h.shape[-3], x.shape[-1]
    if order >= n:
        return np.zeros(x.shape, x.dtype)  # the determinant has the degree n
    u, s, vh = np.linalg.svd(x, full_matrices=False)
    size = np.abs(h).max((-2, -1), initial=0.0)
    inner = np.matmul(np.matmul(adjoint(u)[..., None, :, :], h), adjoint(vh)[..., None, :, :])
    inner = inner / np.where(size > 0, size, 1)[..., None, None]
    relative, factors = taken_out(s, order)
    directions = [inner[..., i, :, :] for i in range(order)]
    found = cofactors_of_diagonal(relative, directions, np.matmul, np.concatenate)
    found = np.matmul(np.conj(u), np.matmul(found, np.conj(vh)))
    phase = np.linalg.det(np.matmul(u, vh))[..., None, None]
    mantissa, exponent = np.frexp(np.concatenate([factors, size], -1).astype(np.float64))
    scale, power = mantissa.prod(-1)[..., None, None], exponent.sum(-1)[..., None, None]
    # In two steps, of which neither leaves the range if the product does not.
    out = found * phase * scale * np.exp2(power // 2) * np.exp2(power - power // 2)
    return out.astype(x.dtype)


def _as_direction(x: Any) -> Any:
    return x.reshape((*x.shape[:-2], 1, *x.shape[-2:]))


def _in_direction(ct: Any, x: Any, h: Any, e: Any) -> Any:
    """Return the cotangent of h: the form is symmetric, so each direction's is the form with ct in its place."""
    end, out = _as_direction(e), None
    for i in range(h.shape[-3]):
        others = concat_op(concat_op(h[..., :i, :, :], h[..., i + 1 :, :, :], axis=-3), end, axis=-3)
        part = _as_direction(conjugate(cofactors_along_op(x, others, conjugate(ct))))
        out = part if out is None else concat_op(out, part, axis=-3)
    return np.zeros(h.shape, h.dtype) if out is None else out


def _at_matrix(ct: Any, x: Any, h: Any, e: Any) -> Any:
    return conjugate(cofactors_along_op(x, concat_op(h, _as_direction(e), axis=-3), conjugate(ct)))


def _adjugate_pull(ct: Any, x: Any) -> Any:
    none = np.zeros((*x.shape[:-2], 0, *x.shape[-2:]), x.dtype)
    return conjugate(cofactors_along_op(x, none, adjoint(ct)))


def _infer_along(x: Spec, h: Spec, e: Spec) -> Spec:
    if len(h.shape) != len(square_spec(x).shape) + 1 or (*h.shape[:-3], *h.shape[-2:]) != x.shape or e.shape != x.shape:
        shapes = ", ".join(show(s.shape, s.dtype) for s in (x, h, e))
        fail(ShapeError, f"cofactors_along of {shapes}", "They are (..., n, n), (..., k, n, n) and (..., n, n).")
    return x


def _along_by_rows(x: Any, h: Any, e: Any) -> Any:
    """Return the sum over all ways to put a row of each direction in the place of one of x's."""
    h = np.concatenate([h, e[..., None, :, :]], -3)
    out = np.zeros_like(x)
    for chosen in itertools.permutations(range(x.shape[-1]), h.shape[-3]):
        moved = x.copy()
        for i, r in enumerate(chosen):
            moved[..., r, :] = h[..., i, r, :]
        cofactors = np.swapaxes(_minors(moved), -1, -2)
        for r in chosen:
            cofactors[..., r, :] = 0  # these rows are no longer those of x
        out += cofactors
    return out


def _along_samples(rng: Any) -> list[Call]:
    def call(x: Any, count: int, complex: bool = False) -> Call:
        *lead, n, _ = x.shape
        return Call((x, normal(rng, *lead, count, n, n, complex=complex), normal(rng, *x.shape, complex=complex)))

    return [
        call(normal(rng, 3, 3), 0),
        call(normal(rng, 4, 4), 1),
        call(normal(rng, 2, 3, 3), 0),
        call(np.diag([1.0, 2.0, 0.0, 0.0]), 1),
        call(np.zeros((4, 4)), 1),
        call(normal(rng, 3, 3, complex=True), 1, complex=True),
        call(np.zeros((0, 0)), 1),
    ]


adjugate_op: Op = op(
    "adjugate(x)",
    _adjugate,
    accepts="floating",
    infer=infer_same,
    facts={"x": Vjp(_adjugate_pull)},
    doc="The adjugate, det(x) times the inverse, also of singular matrices: the transposed cofactors.",
    layout="(n,n)->(n,n)",
    samples=_determinants,
    reference=_minors,
    onnx=NO_ONNX,
    source="Stewart 1998, Linear Algebra and its Applications 283",
    cost=cube("21 n^3, by singular values", 21),
    autocast="float32",
)

cofactors_along_op: Op = op(
    "cofactors_along(x, h, e)",
    _cofactors_along,
    accepts="floating",
    infer=_infer_along,
    facts={
        "x": Vjp(_at_matrix),
        "h": Vjp(_in_direction),
        "e": Linear(lambda ct, x, h: conjugate(cofactors_along_op(x, h, conjugate(ct)))),
    },
    doc="The derivative of the cofactors of matrices x in k directions h and the direction e, once in each.",
    layout="(n,n),(k,n,n),(n,n)->(n,n)",
    samples=_along_samples,
    reference=_along_by_rows,
    onnx=NO_ONNX,
    source="Stewart 1998, Linear Algebra and its Applications 283; the rest by Faddeev and LeVerrier",
    cost=Count(
        "21 n^3, by singular values, and 36 3^k n^3 for the terms",
        lambda node, specs, out: out.size * out.shape[-1] * (21 + 36 * 3 ** specs[1].shape[-3]),
    ),
    autocast="float32",
)

det_op: Op = op(
    "det(x)",
    lapack("det", "has no determinant", "")(lambda x: np.asarray(np.linalg.det(x))),
    accepts="floating",
    infer=infer_numbers,
    facts={"x": Vjp(lambda ct, x: matrix_scaled(ct, adjoint(adjugate_op(x))))},
    doc="The determinant of square matrices.",
    layout="(n,n)->()",
    samples=_determinants,
    reference=_expanded,
    onnx="Det",
    source="Giles 2008, Collected matrix derivative results; the adjugate: Stewart 1998",
    cost=cube("2/3 n^3", 2, 3),
    nonfinite=Nonfinite(
        ((always, Cause("overflow of a product", "wg.linalg.slogdet, which gives the logarithm of a determinant")),)
    ),
    autocast="float32",
)


@lapack("slogdet", "has no determinant", "")
def _slogdet(x: Any) -> tuple[Any, Any]:
    found = np.linalg.slogdet(x)
    return np.asarray(found.sign), np.asarray(found.logabsdet)


def _slogdet_pull(ct: Any, x: Any, out: Any) -> tuple[Any]:
    (ct_sign, ct_log), (sign, _) = ct, out
    scale = ct_log
    if ct_sign is not None and x.dtype.kind == "c":
        turn = imag(conjugate(sign) * ct_sign) * 1j
        scale = turn if scale is None else scale + turn
    if scale is None:  # the sign of a real determinant is constant where it has a derivative
        return (None,)
    return (matrix_scaled(scale, adjoint(inv_op(x))),)


def _slogdet_reference(x: Any) -> tuple[Any, Any]:
    found = _expanded(x)
    size = np.abs(found)
    with np.errstate(all="ignore"):
        return np.where(size == 0, 0.0, found / np.where(size == 0, 1.0, size)), np.log(size)


slogdet_op: Op = op(
    "slogdet(x)",
    _slogdet,
    accepts="floating",
    infer=lambda x: (infer_numbers(x), real_spec(x, x.shape[:-2])),
    results=2,
    facts=Joint(_slogdet_pull, absent=True),
    doc="The sign of the determinant of square matrices, and the logarithm of its absolute value.",
    layout="(n,n)->(),()",
    samples=lambda rng: [
        Call((well_conditioned(rng, 3, 3),)),
        Call((-well_conditioned(rng, 2, 3, 3),)),
        Call((normal(rng, 2, 2, complex=True),)),
        Call((np.zeros((0, 0)),)),
    ],
    reference=_slogdet_reference,
    onnx=NO_ONNX,
    source="Giles 2008, Collected matrix derivative results; complex: Boeddeker et al. 2017, arXiv:1701.00392",
    cost=cube("2/3 n^3", 2, 3),
    nonfinite=Nonfinite(((always, Cause("the logarithm of a determinant that is 0", SINGULAR)),)),
    autocast="float32",
)


def det(x: Any, /) -> Tensor:
    """Return the determinant of square matrices (Array API, NumPy).

    Parameters
    ----------
    x: (..., n, n), real or complex; integers become float32.

    Returns (...). Its derivatives of every order are right at singular matrices too, where they are those
    of the polynomial that the determinant is. Raises ShapeError.
    Source of the derivative: Giles 2008; the adjugate by singular values: Stewart 1998.

    >>> import wengert as wg
    >>> wg.linalg.det(wg.tensor([[2.0, 0.0], [0.0, 3.0]]))
    tensor(6.)
    """
    out: Tensor = bind(det_op, (matrices(x, "det", True),))
    return out


class SlogdetResult(NamedTuple):
    """The result of :func:`slogdet`.

    >>> import wengert as wg
    >>> found = wg.linalg.slogdet(wg.tensor([[0.0, 1.0], [1.0, 0.0]]))
    >>> found.sign, found.logabsdet
    (tensor(-1.), tensor(0.))
    """

    sign: Tensor
    logabsdet: Tensor


def slogdet(x: Any, /) -> SlogdetResult:
    """Return the sign of the determinant and the logarithm of its absolute value (Array API, NumPy).

    Parameters
    ----------
    x: (..., n, n), real or complex; integers become float32.

    Returns `sign` (...), a number of absolute value 1 (0 for a singular matrix), and `logabsdet` (...),
    real (-inf for a singular matrix). The derivative raises LinAlgError at a singular matrix, where
    there is none. Raises ShapeError.
    Source of the derivative: Giles 2008; complex: Boeddeker et al. 2017.

    >>> import wengert as wg
    >>> wg.linalg.slogdet(wg.tensor([[0.0, 1.0], [1.0, 0.0]]))
    SlogdetResult(sign=tensor(-1.), logabsdet=tensor(0.))
    """
    return SlogdetResult(*bind(slogdet_op, (matrices(x, "slogdet", True),)))


def logdet(x: Any, /) -> Tensor:
    """Return the logarithm of the determinant of square matrices (PyTorch).

    Parameters
    ----------
    x: (..., n, n), real or complex; integers become float32.

    -inf for a singular matrix; NaN for a negative determinant, the principal logarithm of a complex
    one. The derivative is that of :func:`slogdet`. Raises ShapeError.

    >>> import wengert as wg
    >>> wg.linalg.logdet(wg.tensor([[1.0, 0.0], [0.0, 1.0]]))
    tensor(0.)
    """
    sign, size = slogdet(x)
    if sign.dtype.kind == "c":
        return size + log(sign)  # type: ignore[no-any-return]
    return size + where_op(sign >= 0.0, 0.0, math.nan)  # type: ignore[no-any-return]
