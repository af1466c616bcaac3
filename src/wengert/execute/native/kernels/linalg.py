"""Small dense systems in native code: Cholesky, LU with partial pivoting, and the ops made of them.

LAPACK's calls do the same arithmetic (Golub and Van Loan, Matrix Computations, 2013, sections 3.4 and
4.2), but for matrices of a few rows most of their time goes into getting there. Here a thread copies a
matrix into its scratch memory, rows padded to whole vectors, and works on whole rows. The matrices of
a stack are shared out among threads.

What is singular, not positive definite, not finite or out of range is left alone: the kernel says so
in a word for each matrix, and the op's own forward then does all of the step, with its own errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from ....core.node import Node
from ..codegen.builder import Builder, Value
from ..codegen.types import I1, I64, Type
from ..plan.lowering import Lowering, lowers
from ..plan.plan import View, dense
from ..scalar.math import library as mathlib

# Above so many rows, or with more right-hand sides, LAPACK is the faster one.
SMALL, COLUMNS = 64, 256
# The least work of a unit, in floating-point operations.
_UNIT_FLOPS = 20_000


class _Matrix:
    """A matrix of `n` rows and columns in scratch memory, and `more` columns beside it from column `right` on.

    Both parts are padded to whole vectors.
    """

    def __init__(self, b: Builder, type: Type, n: Value, more: Value) -> None:
        self.b, self.type, self.base, self.n = b, type, b.scratch(), n
        self.lanes = b.target.lanes(type)
        self.align = self.lanes * type.size
        self.right = self._padded(n)
        self.stride = b.add(self.right, self._padded(more))

    def _padded(self, columns: Value) -> Value:
        b, lanes = self.b, self.b.index(self.lanes)
        return b.mul(b.udiv(b.add(columns, b.index(self.lanes - 1)), lanes), lanes)

    def pointer(self, i: Value, j: Value) -> Value:
        return self.b.offset(self.base, self.b.add(self.b.mul(i, self.stride), j), self.type)

    def load(self, i: Value, j: Value) -> Value:
        return self.b.load(self.type, self.pointer(i, j))

    def store(self, x: Value, i: Value, j: Value) -> None:
        self.b.store(x, self.pointer(i, j))

    def clear(self) -> None:
        """Store zeros everywhere: the padding of rows takes part in the arithmetic."""
        b, vector = self.b, self.type.vector(self.lanes)
        with b.loop(0, b.mul(self.n, self.stride), self.lanes) as loop:
            b.store(b.const(vector, 0.0), b.offset(self.base, loop.index, self.type), self.align)

    def each(self, first: Value, i: Value, do: Callable[[Value, Value], None]) -> None:
        """Write `do(pointer, at)` for the vectors of row `i` from the one on that holds column `first`."""
        b, lanes = self.b, self.b.index(self.lanes)
        with b.loop(b.mul(b.udiv(first, lanes), lanes), self.stride, self.lanes) as loop:
            do(self.pointer(i, loop.index), loop.index)

    def swap(self, i: Value, j: Value) -> None:
        b, vector = self.b, self.type.vector(self.lanes)

        def one(pointer: Value, at: Value) -> None:
            other = self.pointer(j, at)
            x, y = b.load(vector, pointer, self.align), b.load(vector, other, self.align)
            b.store(y, pointer, self.align)
            b.store(x, other, self.align)

        self.each(b.index(0), i, one)

    def scale(self, i: Value, factor: Value, first: Value) -> None:
        b, vector = self.b, self.type.vector(self.lanes)
        factors = b.splat(factor, self.lanes)
        self.each(first, i, lambda p, at: b.store(b.fmul(b.load(vector, p, self.align), factors), p, self.align))

    def subtract(self, i: Value, k: Value, factor: Value, first: Value) -> None:
        """Subtract `factor` times row `k` from row `i`, from column `first` on (and what shares its vector)."""
        b, vector = self.b, self.type.vector(self.lanes)
        factors = b.splat(b.fneg(factor), self.lanes)

        def one(pointer: Value, at: Value) -> None:
            row = b.load(vector, self.pointer(k, at), self.align)
            b.store(b.fma(factors, row, b.load(vector, pointer, self.align)), pointer, self.align)

        self.each(first, i, one)


class _Operand:
    """An array of matrices that the record describes: buffer, and strides of stack, rows and columns."""

    words = 5

    def __init__(self, b: Builder, type: Type, at: int, which: Value) -> None:
        self.b, self.type = b, type
        self.strides = b.words(at + 3, 2)
        self.base = b.offset(b.buffer(at), b.mul(which, b.word(at + 2)), type)

    def pointer(self, i: Value, j: Value) -> Value:
        b = self.b
        at = b.add(b.mul(i, self.strides[0]), b.mul(j, self.strides[1]))
        return b.offset(self.base, at, self.type)

    def load(self, i: Value, j: Value) -> Value:
        return self.b.load(self.type, self.pointer(i, j))

    @staticmethod
    def described(x: View) -> list[int | View]:
        return [x, *x.strides]


def _usable(b: Builder, pivot: Value) -> Value:
    """Return whether a number can be divided by: neither 0 nor infinite nor NaN."""
    size = b.intrinsic("fabs", pivot)
    infinity = b.const(pivot.type, math.inf)
    return b.and_(b.fcmp("ogt", size, b.const(pivot.type, 0.0)), b.fcmp("olt", size, infinity))


def _eliminate(b: Builder, m: _Matrix, n: Value) -> tuple[Value, Value]:
    """Make the matrix upper triangular, by rows; return whether all pivots are usable, and whether the sign flips.

    The factors are not kept: what they are for stands in the columns beside it.
    """
    false, true = b.const(I1, False), b.const(I1, True)
    with b.loop(0, n, carried=[true, false]) as step:
        k = step.index
        with b.loop(k, n, carried=[k, b.const(m.type, -1.0)]) as search:
            size = b.intrinsic("fabs", m.load(search.index, k))
            larger = b.fcmp("ogt", size, search.values[1])
            search.carry(b.select(larger, search.index, search.values[0]), b.select(larger, size, search.values[1]))
        at = search.results[0]
        moved = b.icmp("ne", at, k)
        with b.when(moved):
            m.swap(at, k)
        pivot = m.load(k, k)
        with b.loop(b.add(k, b.index(1)), n) as below:
            m.subtract(below.index, k, b.fdiv(m.load(below.index, k), pivot), k)
        step.carry(b.and_(step.values[0], _usable(b, pivot)), b.xor(step.values[1], moved))
    return step.results[0], step.results[1]


def _back_substitute(b: Builder, m: _Matrix, n: Value, unit: bool) -> None:
    """Solve the upper triangular system for the columns beside it."""
    last = b.sub(n, b.index(1))
    with b.loop(0, n) as step:
        k = b.sub(last, step.index)
        if not unit:
            m.scale(k, b.fdiv(b.const(m.type, 1.0), m.load(k, k)), m.right)
        with b.loop(0, k) as above:
            m.subtract(above.index, k, m.load(above.index, k), m.right)


def _store_all(b: Builder, out: _Operand, rows: Value, columns: Value, get: Callable[[Value, Value], Value]) -> Value:
    """Write a result, and return whether all of it is finite."""
    zero = b.const(out.type, 0.0)
    with b.loop(0, rows, carried=[zero]) as row:
        with b.loop(0, columns, carried=row.values) as column:
            x = get(row.index, column.index)
            b.store(x, out.pointer(row.index, column.index))
            column.carry(b.fadd(column.values[0], b.fsub(x, x)))
        row.carry(*column.results)
    return b.fcmp("oeq", row.results[0], zero)


def _load_all(b: Builder, m: _Matrix, x: _Operand, rows: Value, columns: Value, first: Value) -> None:
    with b.loop(0, rows) as row, b.loop(0, columns) as column:
        m.store(x.load(row.index, column.index), row.index, b.add(first, column.index))


# -- kernels: the record is flags, n, k, then the operands


def _say(b: Builder, which: Value, fine: Value) -> None:
    left = b.select(fine, b.index(0), b.index(1))
    b.store(left, b.offset(b.buffer(0), which, I64))


def _solve(b: Builder, type: Type, inverse: bool) -> None:
    n, k = b.words(2, 2)
    m = _Matrix(b, type, n, k)
    with b.loop(b.lo, b.hi) as unit:
        a = _Operand(b, type, 4, unit.index)
        m.clear()
        _load_all(b, m, a, n, n, b.index(0))
        if inverse:
            with b.loop(0, n) as row:
                m.store(b.const(type, 1.0), row.index, b.add(m.right, row.index))
        else:
            _load_all(b, m, _Operand(b, type, 4 + _Operand.words, unit.index), n, k, m.right)
        fine, _ = _eliminate(b, m, n)
        _back_substitute(b, m, n, False)
        out = _Operand(b, type, 4 + _Operand.words * (1 if inverse else 2), unit.index)
        finite = _store_all(b, out, n, k, lambda i, j: m.load(i, b.add(m.right, j)))
        _say(b, unit.index, b.and_(fine, finite))


def _solve_triangular(b: Builder, type: Type, upper: bool, unit_diagonal: bool) -> None:
    """Solve a triangular system; of a lower triangle rows and columns are taken from the end, as an upper one."""
    n, k = b.words(2, 2)
    m = _Matrix(b, type, n, k)
    last = b.sub(n, b.index(1))

    def place(i: Value) -> Value:
        return i if upper else b.sub(last, i)

    with b.loop(b.lo, b.hi) as unit:
        a, right, out = (_Operand(b, type, 4 + _Operand.words * i, unit.index) for i in range(3))
        m.clear()
        with b.loop(0, n, carried=[b.const(I1, True)]) as row:
            i = row.index
            with b.loop(i, n) as column:
                m.store(a.load(place(i), place(column.index)), i, column.index)
            with b.loop(0, k) as column:
                m.store(right.load(place(i), column.index), i, b.add(m.right, column.index))
            row.carry(row.values[0] if unit_diagonal else b.and_(row.values[0], _usable(b, m.load(i, i))))
        _back_substitute(b, m, n, unit_diagonal)
        finite = _store_all(b, out, n, k, lambda i, j: m.load(place(i), b.add(m.right, j)))
        _say(b, unit.index, b.and_(row.results[0], finite))


def _determinant(b: Builder, type: Type, logarithm: bool) -> None:
    n = b.word(2)
    m = _Matrix(b, type, n, b.index(0))
    limits = np.finfo(np.float32 if type.bits == 32 else np.float64)
    smallest, largest = (b.const(type, float(x)) for x in (limits.tiny, limits.max))
    one = b.const(type, 1.0)
    with b.loop(b.lo, b.hi) as unit:
        a = _Operand(b, type, 4, unit.index)
        m.clear()
        _load_all(b, m, a, n, n, b.index(0))
        fine, odd = _eliminate(b, m, n)
        sign = b.select(odd, b.const(type, -1.0), one)
        start = b.const(type, 0.0) if logarithm else sign
        with b.loop(0, n, carried=[start, sign, fine]) as row:
            total, turned, good = row.values
            pivot = m.load(row.index, row.index)
            if logarithm:
                total = b.fadd(total, mathlib.log(b, b.intrinsic("fabs", pivot)))
            else:
                # A product that over- or underflows may come back into range: such products are left to NumPy.
                total = b.fmul(total, pivot)
                size = b.intrinsic("fabs", total)
                good = b.and_(good, b.and_(b.fcmp("oge", size, smallest), b.fcmp("ole", size, largest)))
            row.carry(total, b.intrinsic("copysign", one, b.fmul(turned, pivot)), good)
        found, signed, good = row.results
        if logarithm:
            b.store(signed, _Operand(b, type, 4 + _Operand.words, unit.index).base)
            b.store(found, _Operand(b, type, 4 + 2 * _Operand.words, unit.index).base)
        else:
            b.store(found, _Operand(b, type, 4 + _Operand.words, unit.index).base)
        _say(b, unit.index, good)


def _cholesky(b: Builder, type: Type) -> None:
    """Compute the rows of the transposed factor, one after the other, of the mean of the matrix and its transpose."""
    n = b.word(2)
    m = _Matrix(b, type, n, b.index(0))
    half, zero = b.const(type, 0.5), b.const(type, 0.0)
    with b.loop(b.lo, b.hi) as unit:
        a, out = (_Operand(b, type, 4 + _Operand.words * i, unit.index) for i in range(2))
        m.clear()
        with b.loop(0, n) as row, b.loop(row.index, n) as column:
            i, j = row.index, column.index
            m.store(b.fmul(b.fadd(a.load(i, j), a.load(j, i)), half), i, j)
        with b.loop(0, n, carried=[b.const(I1, True)]) as step:
            k = step.index
            pivot = m.load(k, k)
            positive = b.and_(_usable(b, pivot), b.fcmp("ogt", pivot, zero))
            root = b.intrinsic("sqrt", pivot)
            m.scale(k, b.fdiv(b.const(type, 1.0), root), k)
            m.store(root, k, k)
            with b.loop(b.add(k, b.index(1)), n) as below:
                m.subtract(below.index, k, m.load(k, below.index), below.index)
            step.carry(b.and_(step.values[0], positive))

        def factor(i: Value, j: Value) -> Value:
            return b.select(b.icmp("sge", i, j), m.load(j, i), zero)

        finite = _store_all(b, out, n, n, factor)
        _say(b, unit.index, b.and_(step.results[0], finite))


# -- the lowerings


def _stack(low: Lowering, x: View) -> View:
    """Return the matrices along one leading axis."""
    shape = (math.prod(x.shape[:-2]), *x.shape[-2:])
    found = x.reshape(shape)
    if found is None:
        found = low.copy(x).reshape(shape)
    assert found is not None
    return found


def _add(
    low: Lowering,
    node: Node,
    key: str,
    build: Callable[[Builder], None],
    reads: Sequence[View],
    writes: Sequence[View],
    results: Sequence[View],
    columns: int,
    work: float,
) -> None:
    """Add the step for a stack of matrices, and the forward where a kernel left one alone."""
    count, n = reads[0].shape[:2]
    dtype = reads[0].dtype
    lanes = low.target.lanes(reads[0].type)
    flags = low.temp((count,), np.int64)
    words: list[int | View] = [flags, n, columns]
    for x in (*reads, *writes):
        words += _Operand.described(x)
    low.step(
        low.kernel(f"{key} {dtype.name}", build),
        words,
        reads=reads,
        writes=[*writes, flags],
        units=count,
        grain=max(1, int(_UNIT_FLOPS / max(1.0, work))),
        scratch=n * (-(-n // lanes) - (-columns // lanes)) * lanes * dtype.itemsize,
        flops=count * work,
        nodes=[node],
        label=key,
    )
    low.forward(node, results, flags)


def _takes(*operands: object) -> bool:
    """Return whether the matrices are of a dtype and a size for these kernels."""
    views = [x for x in operands if isinstance(x, Node)]
    if len(views) < len(operands):
        return False
    return all(
        x.spec.dtype.kind == "f"
        and x.spec.dtype.itemsize >= 4
        and x.spec.size > 0
        and x.spec.shape[-2] <= SMALL
        and x.spec.shape[-1] <= COLUMNS
        for x in views
    )


def _square(low: Lowering, node: Node, key: str, build: Callable[[Builder, Type], None], columns: int) -> View | None:
    """Lower an op of one square matrix, whose result is another."""
    (x,) = node.inputs
    if not _takes(x):
        return None
    a = _stack(low, low.view(x))
    n, type = a.shape[-1], a.type
    out = low.temp(node.spec.shape, node.spec.dtype)
    work = (2.0 if columns else 1 / 3) * n**3 + 4.0 * n * n
    _add(low, node, key, lambda b: build(b, type), [a], [_stack(low, out)], [out], columns, work)
    return out


@lowers("cholesky", raises=True)
def _lower_cholesky(low: Lowering, node: Node) -> View | None:
    return _square(low, node, "cholesky", _cholesky, 0)


@lowers("inv", raises=True)
def _lower_inv(low: Lowering, node: Node) -> View | None:
    n = node.spec.shape[-1]
    return _square(low, node, "inv", lambda b, type: _solve(b, type, True), n)


@lowers("solve", raises=True)
def _lower_solve(low: Lowering, node: Node) -> View | None:
    return _system(low, node, "solve", lambda b, type: _solve(b, type, False), 2 / 3)


@lowers("solve_triangular", raises=True)
def _lower_solve_triangular(low: Lowering, node: Node) -> View | None:
    upper, unit = node.attrs["upper"], node.attrs["unit"]
    key = f"solve_triangular {'upper' if upper else 'lower'}{' unit' if unit else ''}"
    return _system(low, node, key, lambda b, type: _solve_triangular(b, type, upper, unit), 0.0)


def _system(low: Lowering, node: Node, key: str, build: Callable[[Builder, Type], None], factor: float) -> View | None:
    if not _takes(*node.inputs):
        return None
    a, right = (_stack(low, low.view(e)) for e in node.inputs)
    n, k, type = right.shape[-2], right.shape[-1], a.type
    out = low.temp(node.spec.shape, node.spec.dtype)
    work = factor * n**3 + 2.0 * n * n * k + 4.0 * n * n
    _add(low, node, key, lambda b: build(b, type), [a, right], [_stack(low, out)], [out], k, work)
    return out


@lowers("det", "slogdet", raises=True)
def _lower_determinant(low: Lowering, node: Node) -> View | tuple[View, ...] | None:
    (x,) = node.inputs
    if not _takes(x):
        return None
    a = _stack(low, low.view(x))
    n, type = a.shape[-1], a.type
    logarithm = node.op.name == "slogdet"
    outs = [low.temp(a.shape[:1], a.dtype) for _ in range(1 + logarithm)]
    stacked = [v._replace(shape=(*v.shape, 1, 1), strides=(1, 0, 0)) for v in outs]
    work = 2 / 3 * n**3 + 4.0 * n * n
    results = [v._replace(shape=x.spec.shape[:-2], strides=dense(x.spec.shape[:-2])) for v in outs]
    _add(low, node, node.op.name, lambda b: _determinant(b, type, logarithm), [a], stacked, results, 0, work)
    return tuple(results) if logarithm else results[0]
