# Written by scripts/generate.py from the op table: do not edit.
from builtins import bool as _Bool, complex as _Complex, float as _Float, int as _Int, str as _Str
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from ..core.tensor import Tensor
from ..ops.index.sort import TopK
from ..ops.random.generator import Generator
from ..ops.random.keys import RandomKey
from ..typing import Axes
from ..typing import DTypeLike
from ..typing import Size
from ..typing import TensorLike

class Methods:
    @property
    def T(self) -> Tensor: ...
    def __abs__(self) -> Tensor:
        """The absolute value, a real number; its gradient at 0 is 0."""
    def __add__(self, y: TensorLike, /) -> Tensor:
        """x + y."""
    def __and__(self, y: TensorLike, /) -> Tensor:
        """The bits set in both x and y."""
    def __array_function__(self, func: Any, types: Any, args: Axes, kwargs: Any) -> Any:
        """Run NumPy's function on tensors by Wengert's of the same meaning (NEP 18)."""
    def __array_ufunc__(self, ufunc: Any, method: _Str, *inputs: Any, **kwargs: Any) -> Any:
        """Run NumPy's elementwise function on tensors by Wengert's (NEP 13): `np.sin(t)` is `wg.sin(t)`."""
    def __eq__(self, other: TensorLike) -> Tensor:  # type: ignore[override]
        """Whether x == y, element by element."""
    def __floordiv__(self, y: TensorLike, /) -> Tensor:
        """The floor of x / y, as Python's //."""
    def __ge__(self, other: TensorLike) -> Tensor:
        """Whether x >= y, element by element."""
    def __getitem__(self, index: Any) -> Tensor:
        """Return `x[index]` with NumPy's rules. The result is a value: it never aliases `x`."""
    def __gt__(self, other: TensorLike) -> Tensor:
        """Whether x > y, element by element."""
    def __iadd__(self, other: TensorLike) -> Tensor:
        """`x += y`: gives `x` a new version, whoever holds it."""
    def __iand__(self, other: TensorLike) -> Tensor:
        """`x &= y`: gives `x` a new version, whoever holds it."""
    def __ifloordiv__(self, other: TensorLike) -> Tensor:
        """`x //= y`: gives `x` a new version, whoever holds it."""
    def __ilshift__(self, other: TensorLike) -> Tensor:
        """`x <<= y`: gives `x` a new version, whoever holds it."""
    def __imatmul__(self, other: TensorLike) -> Tensor:
        """`x @= y`: gives `x` a new version, whoever holds it."""
    def __imod__(self, other: TensorLike) -> Tensor:
        """`x %= y`: gives `x` a new version, whoever holds it."""
    def __imul__(self, other: TensorLike) -> Tensor:
        """`x *= y`: gives `x` a new version, whoever holds it."""
    def __invert__(self) -> Tensor:
        """Every bit of x flipped; of a boolean, its negation."""
    def __ior__(self, other: TensorLike) -> Tensor:
        """`x |= y`: gives `x` a new version, whoever holds it."""
    def __ipow__(self, other: TensorLike) -> Tensor:
        """`x **= y`: gives `x` a new version, whoever holds it."""
    def __irshift__(self, other: TensorLike) -> Tensor:
        """`x >>= y`: gives `x` a new version, whoever holds it."""
    def __isub__(self, other: TensorLike) -> Tensor:
        """`x -= y`: gives `x` a new version, whoever holds it."""
    def __itruediv__(self, other: TensorLike) -> Tensor:
        """`x /= y`: gives `x` a new version, whoever holds it."""
    def __ixor__(self, other: TensorLike) -> Tensor:
        """`x ^= y`: gives `x` a new version, whoever holds it."""
    def __le__(self, other: TensorLike) -> Tensor:
        """Whether x <= y, element by element."""
    def __lshift__(self, y: TensorLike, /) -> Tensor:
        """The bits of x moved left by y >= 0 places, zeros moving in."""
    def __lt__(self, other: TensorLike) -> Tensor:
        """Whether x < y, element by element."""
    def __matmul__(self, y: TensorLike, /) -> Tensor:
        """Return the matrix product, `x @ y` (Array API, NumPy)."""
    def __mod__(self, y: TensorLike, /) -> Tensor:
        """x - y * floor(x / y), as Python's %: it has the sign of y."""
    def __mul__(self, y: TensorLike, /) -> Tensor:
        """x times y."""
    def __ne__(self, other: TensorLike) -> Tensor:  # type: ignore[override]
        """Whether x != y, element by element."""
    def __neg__(self) -> Tensor:
        """-x."""
    def __or__(self, y: TensorLike, /) -> Tensor:
        """The bits set in x or y."""
    def __pos__(self) -> Tensor:
        """+x, which is x."""
    def __pow__(self, y: TensorLike, /) -> Tensor:
        """x to the power y. Integers stay integers, so their exponents must not be negative."""
    def __radd__(self, other: TensorLike) -> Tensor: ...
    def __rand__(self, other: TensorLike) -> Tensor: ...
    def __rfloordiv__(self, other: TensorLike) -> Tensor: ...
    def __rlshift__(self, other: TensorLike) -> Tensor: ...
    def __rmatmul__(self, other: TensorLike) -> Tensor: ...
    def __rmod__(self, other: TensorLike) -> Tensor: ...
    def __rmul__(self, other: TensorLike) -> Tensor: ...
    def __ror__(self, other: TensorLike) -> Tensor: ...
    def __rpow__(self, other: TensorLike) -> Tensor: ...
    def __rrshift__(self, other: TensorLike) -> Tensor: ...
    def __rshift__(self, y: TensorLike, /) -> Tensor:
        """The bits of x moved right by y >= 0 places, the sign moving in."""
    def __rsub__(self, other: TensorLike) -> Tensor: ...
    def __rtruediv__(self, other: TensorLike) -> Tensor: ...
    def __rxor__(self, other: TensorLike) -> Tensor: ...
    def __setitem__(self, index: Any, value: TensorLike) -> None:
        """Give `x` a new version by `x[index] = value`, in which the elements at `index` are `value`'s."""
    def __sub__(self, y: TensorLike, /) -> Tensor:
        """x - y."""
    def __truediv__(self, y: TensorLike, /) -> Tensor:
        """x over y, a floating number also for integers. Over 0 it is an infinity or NaN."""
    def __xor__(self, y: TensorLike, /) -> Tensor:
        """The bits set in exactly one of x and y."""
    def abs(self) -> Tensor:
        """The absolute value, a real number; its gradient at 0 is 0."""
    def abs_(self) -> Tensor:
        """Give `x` the new version `wg.abs(x)`; see `add_`. Returns `x`."""
    def absolute(self) -> Tensor:
        """The absolute value, a real number; its gradient at 0 is 0."""
    def acos(self) -> Tensor:
        """The angle in [0, pi] whose cosine is x."""
    def acosh(self) -> Tensor:
        """The number at least 0 whose hyperbolic cosine is x; NaN below 1."""
    def add(self, y: TensorLike, /) -> Tensor:
        """x + y."""
    def add_(self, other: TensorLike, *, alpha: TensorLike = 1) -> Tensor:
        """Give `x` the new version `x + alpha * other`, and return it."""
    def addcdiv_(self, a: TensorLike, b: TensorLike, *, value: TensorLike = 1) -> Tensor:
        """Give `x` the new version `x + value * a / b`; see `add_`. Returns `x`."""
    def addcmul_(self, a: TensorLike, b: TensorLike, *, value: TensorLike = 1) -> Tensor:
        """Give `x` the new version `x + value * a * b`; see `add_`. Returns `x`."""
    def all(self, axis: Axes | None = None, keepdims: _Bool = False, *, dim: Axes | None = ..., keepdim: _Bool = ...) -> Tensor:
        """Return whether all elements along axes are true, or not 0 (Array API). True for none."""
    def allclose(self, y: TensorLike, rtol: _Float = 1e-05, atol: _Float = 1e-08, equal_nan: _Bool = False) -> _Bool:
        """Return whether all elements are close (:func:`isclose`), as a Python bool."""
    def amax(self, axis: Axes | None = None, keepdims: _Bool = False, *, dim: Axes | None = ..., keepdim: _Bool = ...) -> Tensor:
        """Return the largest elements along axes (Array API)."""
    def amin(self, axis: Axes | None = None, keepdims: _Bool = False, *, dim: Axes | None = ..., keepdim: _Bool = ...) -> Tensor:
        """Return the smallest elements along axes (Array API)."""
    def any(self, axis: Axes | None = None, keepdims: _Bool = False, *, dim: Axes | None = ..., keepdim: _Bool = ...) -> Tensor:
        """Return whether any element along axes is true, or not 0 (Array API). False for none."""
    def argmax(self, axis: _Int | None = None, keepdims: _Bool = False, *, dim: Axes | None = ..., keepdim: _Bool = ...) -> Tensor:
        """Return the index of the largest element along an axis (Array API)."""
    def argmin(self, axis: _Int | None = None, keepdims: _Bool = False, *, dim: Axes | None = ..., keepdim: _Bool = ...) -> Tensor:
        """Return the index of the smallest element along an axis (Array API); see :func:`argmax`."""
    def argsort(self, axis: _Int = -1, descending: _Bool = False, stable: _Bool = True, *, dim: Axes | None = ...) -> Tensor:
        """Return the indices that put the elements in order along an axis, as int64 (Array API)."""
    def asin(self) -> Tensor:
        """The angle in [-pi/2, pi/2] whose sine is x."""
    def asinh(self) -> Tensor:
        """The number whose hyperbolic sine is x."""
    def assign_(self, value: TensorLike) -> Tensor:
        """Give `x` another value of its own shape, outside any graph. Returns `x`."""
    def astype(self, dtype: DTypeLike, *, copy: _Bool = True, device: _Str | None = None) -> Tensor:
        """Return `x` in another dtype."""
    def atan(self) -> Tensor:
        """The angle in [-pi/2, pi/2] whose tangent is x."""
    def atan2(self, x: TensorLike, /) -> Tensor:
        """The angle in [-pi, pi] of the point (x, y); the sign of zeros tells sides apart."""
    def atanh(self) -> Tensor:
        """The number whose hyperbolic tangent is x."""
    def backward(self, gradient: Any = None, retain_graph: _Bool | None = None, create_graph: _Bool = False, inputs: Any = None) -> None:
        """Add the gradients of `tensors` to the `.grad` of the leaves they were computed from."""
    def bernoulli_(self, p: TensorLike = 0.5, *, generator: Generator | None = None) -> Tensor:
        """Give the tensor 0 and 1, the 1 with probability `p`, outside any graph, and return it. Raises ShapeError."""
    def bfloat16(self) -> Tensor:
        """The tensor in the dtype that PyTorch calls `bfloat16`; see :func:`wengert.astype`."""
    def bitwise_and(self, y: TensorLike, /) -> Tensor:
        """The bits set in both x and y."""
    def bitwise_invert(self) -> Tensor:
        """Every bit of x flipped; of a boolean, its negation."""
    def bitwise_left_shift(self, y: TensorLike, /) -> Tensor:
        """The bits of x moved left by y >= 0 places, zeros moving in."""
    def bitwise_not(self) -> Tensor:
        """Every bit of x flipped; of a boolean, its negation."""
    def bitwise_or(self, y: TensorLike, /) -> Tensor:
        """The bits set in x or y."""
    def bitwise_right_shift(self, y: TensorLike, /) -> Tensor:
        """The bits of x moved right by y >= 0 places, the sign moving in."""
    def bitwise_xor(self, y: TensorLike, /) -> Tensor:
        """The bits set in exactly one of x and y."""
    def bmm(self, y: TensorLike) -> Tensor:
        """Return the products of two stacks of matrices, (b, m, n) and (b, n, p) (PyTorch)."""
    def bool(self) -> Tensor:
        """The tensor in the dtype that PyTorch calls `bool`; see :func:`wengert.astype`."""
    def ceil(self) -> Tensor:
        """The smallest whole number that is at least x."""
    def ceil_(self) -> Tensor:
        """Give `x` the new version `wg.ceil(x)`; see `add_`. Returns `x`."""
    def chunk(self, chunks: _Int, axis: _Int = 0, *, dim: Axes | None = ...) -> tuple[Tensor, ...]:
        """Return `x` cut along an axis into at most `chunks` parts of one size, the last perhaps smaller."""
    def clamp(self, min: TensorLike | None = None, max: TensorLike | None = None) -> Tensor:
        """Return `x`, but at least `min` and at most `max` (`max` wins where they cross)."""
    def clamp_(self, min: TensorLike | None = None, max: TensorLike | None = None) -> Tensor:
        """Give `x` the new version `wg.clip(x, min, max)`; see `add_`. Returns `x`."""
    def clamp_max_(self, max: TensorLike) -> Tensor:
        """Give `x` the new version `wg.clip(x, max=max)`; see `add_`. Returns `x`."""
    def clamp_min_(self, min: TensorLike) -> Tensor:
        """Give `x` the new version `wg.clip(x, min=min)`; see `add_`. Returns `x`."""
    def clip(self, min: TensorLike | None = None, max: TensorLike | None = None) -> Tensor:
        """Return `x`, but at least `min` and at most `max` (`max` wins where they cross)."""
    def clone(self) -> Tensor:
        """A copy of x through which gradients flow."""
    def conj(self) -> Tensor:
        """The complex conjugate; a real number itself."""
    def contiguous(self) -> Tensor:
        """Return the value of `x`. A tensor's layout in memory cannot be seen, so nothing is copied."""
    def copy_(self, source: TensorLike) -> Tensor:
        """Give `x` the values of `source`, which broadcasts to it and is cast to its dtype. Returns `x`."""
    def copysign(self, y: TensorLike, /) -> Tensor:
        """The magnitude of x with the sign of y."""
    def cos(self) -> Tensor:
        """The cosine of an angle in radians."""
    def cosh(self) -> Tensor:
        """The hyperbolic cosine."""
    def count_nonzero(self, axis: Axes | None = None, keepdims: _Bool = False, *, dim: Axes | None = ..., keepdim: _Bool = ...) -> Tensor:
        """Return the number of elements along axes that are not 0, as int64 (Array API)."""
    def cpu(self) -> Tensor:
        """Return `x` on the processor, itself where it is there; see `to`."""
    def cumprod(self, axis: _Int | None = None, *, dtype: DTypeLike | None = None, include_initial: _Bool = False, dim: Axes | None = ...) -> Tensor:
        """Return running products along an axis (Array API); `cumprod` is the same function."""
    def cumsum(self, axis: _Int | None = None, *, dtype: DTypeLike | None = None, include_initial: _Bool = False, dim: Axes | None = ...) -> Tensor:
        """Return running sums along an axis (Array API); `cumsum` is the same function."""
    def cumulative_prod(self, axis: _Int | None = None, *, dtype: DTypeLike | None = None, include_initial: _Bool = False, dim: Axes | None = ...) -> Tensor:
        """Return running products along an axis (Array API); `cumprod` is the same function."""
    def cumulative_sum(self, axis: _Int | None = None, *, dtype: DTypeLike | None = None, include_initial: _Bool = False, dim: Axes | None = ...) -> Tensor:
        """Return running sums along an axis (Array API); `cumsum` is the same function."""
    def diag(self, k: _Int = 0, *, diagonal: _Int | None = None) -> Tensor:
        """Return the k-th diagonal of a matrix; for a vector the square matrix that has it there."""
    def diagonal(self, offset: _Int = 0, dim1: _Int = 0, dim2: _Int = 1) -> Tensor:
        """Return a diagonal of the matrices in two axes, as the last axis of the result."""
    def diff(self, n: _Int = 1, axis: _Int = -1, *, prepend: TensorLike | None = None, append: TensorLike | None = None, dim: Axes | None = ...) -> Tensor:
        """Return differences of neighbours along an axis, taken `n` times (Array API)."""
    def digamma(self) -> Tensor:
        """The derivative of lgamma; NaN at -1, -2, ..., an infinity of the opposite sign at 0.0 and -0.0. Near its zeros at negative numbers, between whole ones, as accurate as numbers about 1 are."""
    def div(self, y: TensorLike, /) -> Tensor:
        """x over y, a floating number also for integers. Over 0 it is an infinity or NaN."""
    def div_(self, other: TensorLike) -> Tensor:
        """Give `x` the new version `x / other`; see `add_`. Returns `x`."""
    def divide(self, y: TensorLike, /) -> Tensor:
        """x over y, a floating number also for integers. Over 0 it is an infinity or NaN."""
    def dot(self, y: TensorLike) -> Tensor:
        """Return the sum over the last axis of `x` and the last but one of `y` (NumPy)."""
    def double(self) -> Tensor:
        """The tensor in the dtype that PyTorch calls `double`; see :func:`wengert.astype`."""
    def eq(self, y: TensorLike, /) -> Tensor:
        """Whether x == y, element by element."""
    def erf(self) -> Tensor:
        """The error function, 2/sqrt(pi) times the integral of exp(-t*t) from 0 to x."""
    def erfc(self) -> Tensor:
        """1 - erf(x), accurate where erf(x) is near 1."""
    def erfinv(self) -> Tensor:
        """The inverse of the error function on [-1, 1]; NaN outside."""
    def exp(self) -> Tensor:
        """e to the power x."""
    def exp_(self) -> Tensor:
        """Give `x` the new version `wg.exp(x)`; see `add_`. Returns `x`."""
    def expand(self, *sizes: Axes) -> Tensor:
        """Return :func:`wengert.broadcast_to` with the sizes one by one; -1 keeps the size of an axis."""
    def expand_as(self, other: TensorLike) -> Tensor:
        """Return `x` broadcast to the shape of `other`."""
    def explore(self, compiled: Any = None) -> Any:
        """Return the recording of what computed this tensor, and of its backward pass: see :func:`wengert.explore`."""
    def expm1(self) -> Tensor:
        """exp(x) - 1, accurate near 0."""
    def fill_(self, value: TensorLike) -> Tensor:
        """Give every element of `x` the one `value`, a number or a 0-d tensor. Returns `x`."""
    def flatten(self, start_dim: _Int = 0, end_dim: _Int = -1) -> Tensor:
        """Return `x` with the axes from `start_dim` to `end_dim`, inclusive, merged into one."""
    def flip(self, axis: Axes | None = None, *, dim: Axes | None = ..., dims: Axes | None = ...) -> Tensor:
        """Return `x` in reverse order along one axis, several, or all (None). Raises ShapeError."""
    def float(self) -> Tensor:
        """The tensor in the dtype that PyTorch calls `float`; see :func:`wengert.astype`."""
    def floor(self) -> Tensor:
        """The largest whole number that is at most x."""
    def floor_(self) -> Tensor:
        """Give `x` the new version `wg.floor(x)`; see `add_`. Returns `x`."""
    def floor_divide(self, y: TensorLike, /) -> Tensor:
        """The floor of x / y, as Python's //."""
    def gather(self, axis: _Int, index: TensorLike, *, dim: Axes | None = ...) -> Tensor:
        """Return `out[i][j] = x[index[i][j]][j]` along axis 0, and so on for other axes (PyTorch)."""
    def ge(self, y: TensorLike, /) -> Tensor:
        """Whether x >= y, element by element."""
    def gelu(self, approximate: _Str = 'none') -> Tensor:
        """Return the Gaussian error linear unit: x times the normal distribution function at x."""
    def greater(self, y: TensorLike, /) -> Tensor:
        """Whether x > y, element by element."""
    def greater_equal(self, y: TensorLike, /) -> Tensor:
        """Whether x >= y, element by element."""
    def gt(self, y: TensorLike, /) -> Tensor:
        """Whether x > y, element by element."""
    def half(self) -> Tensor:
        """The tensor in the dtype that PyTorch calls `half`; see :func:`wengert.astype`."""
    def hypot(self, y: TensorLike, /) -> Tensor:
        """sqrt(x*x + y*y) without overflow on the way; its gradient at (0, 0) is 0."""
    @property
    def imag(self) -> Tensor: ...
    def index_add(self, axis: _Int, index: TensorLike, source: TensorLike, *, dim: Axes | None = ...) -> Tensor:
        """Return `x` with the slices of `source` added at a vector of integers along `axis` (PyTorch)."""
    def index_add_(self, axis: _Int, index: TensorLike, source: TensorLike, *, dim: Axes | None = ...) -> Tensor:
        """Give `x` the new version `wg.index_add(x, axis, index, source)`. Returns `x`."""
    def index_select(self, axis: _Int, indices: TensorLike, *, dim: Axes | None = ...) -> Tensor:
        """Return the slices of `x` at a vector of integers along `axis` (PyTorch)."""
    def int(self) -> Tensor:
        """The tensor in the dtype that PyTorch calls `int`; see :func:`wengert.astype`."""
    def isclose(self, y: TensorLike, rtol: _Float = 1e-05, atol: _Float = 1e-08, equal_nan: _Bool = False) -> Tensor:
        """Return whether |x - y| <= atol + rtol |y|, element by element; equal infinities are close."""
    def isfinite(self) -> Tensor:
        """Whether x is neither NaN nor an infinity."""
    def isinf(self) -> Tensor:
        """Whether x is an infinity of either sign."""
    def isnan(self) -> Tensor:
        """Whether x is NaN."""
    def le(self, y: TensorLike, /) -> Tensor:
        """Whether x <= y, element by element."""
    def lerp_(self, end: TensorLike, weight: TensorLike) -> Tensor:
        """Give `x` the new version `x + weight * (end - x)`; see `add_`. Returns `x`."""
    def less(self, y: TensorLike, /) -> Tensor:
        """Whether x < y, element by element."""
    def less_equal(self, y: TensorLike, /) -> Tensor:
        """Whether x <= y, element by element."""
    def lgamma(self) -> Tensor:
        """The logarithm of |Gamma(x)|; inf at 0, -1, -2, ... Near its zeros at negative numbers as accurate as numbers about 1 are."""
    def log(self) -> Tensor:
        """The natural logarithm: -inf of 0, NaN of a negative real number."""
    def log10(self) -> Tensor:
        """The logarithm to the base 10."""
    def log1p(self) -> Tensor:
        """log(1 + x), accurate near 0."""
    def log2(self) -> Tensor:
        """The logarithm to the base 2."""
    def log_(self) -> Tensor:
        """Give `x` the new version `wg.log(x)`; see `add_`. Returns `x`."""
    def log_softmax(self, axis: _Int = -1, *, dim: Axes | None = ...) -> Tensor:
        """Return the logarithm of :func:`softmax`, right also where that is too small for its dtype."""
    def logaddexp(self, y: TensorLike, /) -> Tensor:
        """log(exp(x) + exp(y)) without overflow on the way."""
    def logical_and(self, y: TensorLike, /) -> Tensor:
        """Whether both are true (nonzero)."""
    def logical_not(self) -> Tensor:
        """Whether x is false (zero)."""
    def logical_or(self, y: TensorLike, /) -> Tensor:
        """Whether at least one is true (nonzero)."""
    def logical_xor(self, y: TensorLike, /) -> Tensor:
        """Whether exactly one is true (nonzero)."""
    def logsumexp(self, axis: Axes | None = None, keepdims: _Bool = False, *, dim: Axes | None = ..., keepdim: _Bool = ...) -> Tensor:
        """Return log(sum(exp(x))) along axes, without overflow or underflow."""
    def long(self) -> Tensor:
        """The tensor in the dtype that PyTorch calls `long`; see :func:`wengert.astype`."""
    def lt(self, y: TensorLike, /) -> Tensor:
        """Whether x < y, element by element."""
    @property
    def mT(self) -> Tensor: ...
    def masked_fill(self, mask: TensorLike, value: TensorLike) -> Tensor:
        """Return `x` with `value` where the boolean `mask`, which broadcasts to it, holds."""
    def masked_fill_(self, mask: TensorLike, value: TensorLike) -> Tensor:
        """Give `x` the new version `wg.torch.masked_fill(x, mask, value)`. Returns `x`."""
    def matmul(self, y: TensorLike, /) -> Tensor:
        """Return the matrix product, `x @ y` (Array API, NumPy)."""
    def max(self, axis: Axes | None = None, keepdims: _Bool = False, *, dim: Axes | None = ..., keepdim: _Bool = ...) -> Tensor:
        """Return the largest elements along axes (Array API)."""
    def maximum(self, y: TensorLike, /) -> Tensor:
        """The larger of x and y; NaN if either is. Equal arguments share the gradient."""
    def mean(self, axis: Axes | None = None, keepdims: _Bool = False, *, dtype: DTypeLike | None = None, dim: Axes | None = ..., keepdim: _Bool = ...) -> Tensor:
        """Return the arithmetic mean of the elements along axes (Array API)."""
    def median(self, axis: _Int | None = None, keepdims: _Bool = False, *, dim: Axes | None = ..., keepdim: _Bool = ...) -> Tensor:
        """Return the middle element along an axis; the mean of the middle two where their number is even."""
    def min(self, axis: Axes | None = None, keepdims: _Bool = False, *, dim: Axes | None = ..., keepdim: _Bool = ...) -> Tensor:
        """Return the smallest elements along axes (Array API)."""
    def minimum(self, y: TensorLike, /) -> Tensor:
        """The smaller of x and y; NaN if either is. Equal arguments share the gradient."""
    def mm(self, y: TensorLike) -> Tensor:
        """Return the product of two matrices, (m, n) and (n, p) (PyTorch). Raises ShapeError for other ranks."""
    def moveaxis(self, source: Axes, destination: Axes) -> Tensor:
        """Return `x` with the `source` axes moved to the `destination` places, the others in their order."""
    def mul(self, y: TensorLike, /) -> Tensor:
        """x times y."""
    def mul_(self, other: TensorLike) -> Tensor:
        """Give `x` the new version `x * other`; see `add_`. Returns `x`."""
    def multiply(self, y: TensorLike, /) -> Tensor:
        """x times y."""
    def mv(self, y: TensorLike) -> Tensor:
        """Return the product of a matrix (m, n) and a vector (n,) (PyTorch). Raises ShapeError for other ranks."""
    def ne(self, y: TensorLike, /) -> Tensor:
        """Whether x != y, element by element."""
    def neg(self) -> Tensor:
        """-x."""
    def neg_(self) -> Tensor:
        """Give `x` the new version `wg.negative(x)`; see `add_`. Returns `x`."""
    def negative(self) -> Tensor:
        """-x."""
    def new_empty(self, *shape: Axes, dtype: DTypeLike | None = None, device: _Str | None = None, requires_grad: _Bool = False) -> Tensor:
        """Return an uninitialised tensor of the given shape in the dtype of `x`."""
    def new_full(self, shape: Axes, fill_value: TensorLike, *, dtype: DTypeLike | None = None, device: _Str | None = None, requires_grad: _Bool = False) -> Tensor:
        """Return a tensor of the given shape filled with one number, in the dtype of `x`."""
    def new_ones(self, *shape: Axes, dtype: DTypeLike | None = None, device: _Str | None = None, requires_grad: _Bool = False) -> Tensor:
        """Return ones of the given shape in the dtype of `x`."""
    def new_zeros(self, *shape: Axes, dtype: DTypeLike | None = None, device: _Str | None = None, requires_grad: _Bool = False) -> Tensor:
        """Return zeros of the given shape in the dtype of `x`."""
    def nextafter(self, y: TensorLike, /) -> Tensor:
        """The next representable number after x toward y."""
    def nonzero(self) -> tuple[Tensor, ...]:
        """Return the indices of the elements that are not 0, an int64 tensor for each axis (Array API, NumPy)."""
    def norm(self, p: _Float | _Str = 2, axis: Axes | None = None, keepdims: _Bool = False, *, dim: Axes | None = ..., keepdim: _Bool = ...) -> Tensor:
        """Return :func:`vector_norm` by PyTorch's name and parameters; `p="fro"` is 2."""
    def normal_(self, mean: _Float = 0.0, std: _Float = 1.0, *, generator: Generator | None = None) -> Tensor:
        """Give the tensor normal random numbers, outside any graph, and return it. Raises ShapeError, DTypeError."""
    def not_equal(self, y: TensorLike, /) -> Tensor:
        """Whether x != y, element by element."""
    def outer(self, y: TensorLike) -> Tensor:
        """Return all products of an element of `x` and one of `y`, which are flattened (NumPy)."""
    def permute(self, *dims: Axes) -> Tensor:
        """Return :func:`wengert.permute_dims` with the axes one by one or as a tuple."""
    def polygamma(self, n: _Int) -> Tensor:
        """Return `wg.special.polygamma(n, self)`."""
    def positive(self) -> Tensor:
        """+x, which is x."""
    def pow(self, y: TensorLike, /) -> Tensor:
        """x to the power y. Integers stay integers, so their exponents must not be negative."""
    def pow_(self, exponent: Any) -> Tensor:
        """Give `x` the new version `x ** exponent`; see `add_`. Returns `x`."""
    def prod(self, axis: Axes | None = None, keepdims: _Bool = False, *, dtype: DTypeLike | None = None, dim: Axes | None = ..., keepdim: _Bool = ...) -> Tensor:
        """Return the product of the elements along axes (Array API)."""
    def ravel(self) -> Tensor:
        """Return `x` as one axis, in row-major order."""
    @property
    def real(self) -> Tensor: ...
    def reciprocal(self) -> Tensor:
        """1 / x."""
    def reciprocal_(self) -> Tensor:
        """Give `x` the new version `wg.reciprocal(x)`; see `add_`. Returns `x`."""
    def relu(self) -> Tensor:
        """x where it is positive, else 0; the gradient at 0 is 0."""
    def relu_(self) -> Tensor:
        """Give `x` the new version `wg.relu(x)`; see `add_`. Returns `x`."""
    def remainder(self, y: TensorLike, /) -> Tensor:
        """x - y * floor(x / y), as Python's %: it has the sign of y."""
    def remainder_(self, other: TensorLike) -> Tensor:
        """Give `x` the new version `x % other`; see `add_`. Returns `x`."""
    def repeat(self, *sizes: Axes) -> Tensor:
        """Return the tensor laid out several times, as PyTorch's `Tensor.repeat`: :func:`wengert.tile`."""
    def repeat_interleave(self, repeats: _Int | Sequence[_Int], axis: _Int | None = None, *, dim: Axes | None = ...) -> Tensor:
        """Return each element of `x` several times in a row; `repeat_interleave` is the same."""
    def reshape(self, *shape: Axes) -> Tensor:
        """Return :func:`wengert.reshape` to sizes given one by one or as a tuple."""
    def reshape_as(self, other: TensorLike) -> Tensor:
        """Return `x` in the shape of `other`."""
    def roll(self, shift: Axes, axis: Axes | None = None, *, shifts: Any = ..., dims: Axes | None = ..., dim: Axes | None = ...) -> Tensor:
        """Return `x` shifted along axes; what leaves at one end comes in at the other."""
    def round(self) -> Tensor:
        """The nearest whole number, halves to even."""
    def round_(self) -> Tensor:
        """Give `x` the new version `wg.round(x)`; see `add_`. Returns `x`."""
    def rsqrt(self) -> Tensor:
        """1 / sqrt(x)."""
    def rsqrt_(self) -> Tensor:
        """Give `x` the new version `wg.rsqrt(x)`; see `add_`. Returns `x`."""
    def scatter(self, axis: _Int, index: TensorLike, src: TensorLike, *, dim: Axes | None = ...) -> Tensor:
        """Return `x` with `src[i][j]` put at `[index[i][j]][j]` along axis 0, and so on for other axes (PyTorch)."""
    def scatter_(self, axis: _Int, index: TensorLike, src: TensorLike, *, dim: Axes | None = ...) -> Tensor:
        """Give `x` the new version `wg.scatter(x, axis, index, src)`. Returns `x`."""
    def scatter_add(self, axis: _Int, index: TensorLike, src: TensorLike, *, dim: Axes | None = ...) -> Tensor:
        """Return `x` with `src[i][j]` added at `[index[i][j]][j]` along axis 0, and so on for other axes (PyTorch)."""
    def scatter_add_(self, axis: _Int, index: TensorLike, src: TensorLike, *, dim: Axes | None = ...) -> Tensor:
        """Give `x` the new version `wg.scatter_add(x, axis, index, src)`. Returns `x`."""
    def short(self) -> Tensor:
        """The tensor in the dtype that PyTorch calls `short`; see :func:`wengert.astype`."""
    def sigmoid(self) -> Tensor:
        """The logistic function 1 / (1 + exp(-x))."""
    def sigmoid_(self) -> Tensor:
        """Give `x` the new version `wg.sigmoid(x)`; see `add_`. Returns `x`."""
    def sign(self) -> Tensor:
        """-1, 0 or 1; of a complex number x / |x|, and 0 of 0."""
    def signbit(self) -> Tensor:
        """Whether the sign bit of x is set: x is negative, -0.0 or a NaN with that sign."""
    def silu(self, inplace: _Bool = False) -> Tensor:
        """Return the sigmoid linear unit, x times its sigmoid; `swish` is its other name."""
    def sin(self) -> Tensor:
        """The sine of an angle in radians."""
    def sinh(self) -> Tensor:
        """The hyperbolic sine."""
    def softmax(self, axis: _Int = -1, *, dim: Axes | None = ...) -> Tensor:
        """Return exp(x) over its sum along an axis: positive weights that sum to 1."""
    def softplus(self, beta: _Float = 1.0) -> Tensor:
        """Return log(1 + exp(beta x)) / beta: a smooth ramp, right for every size of x."""
    def sort(self, axis: _Int = -1, descending: _Bool = False, stable: _Bool = True, *, dim: Axes | None = ...) -> Tensor:
        """Return the elements in order along an axis (Array API); parameters are those of :func:`argsort`."""
    def split(self, split_size: _Int | Sequence[_Int], axis: _Int = 0, *, dim: Axes | None = ...) -> tuple[Tensor, ...]:
        """Return `x` cut along an axis into parts of a size, as PyTorch has it."""
    def sqrt(self) -> Tensor:
        """The square root; NaN of a negative real number."""
    def sqrt_(self) -> Tensor:
        """Give `x` the new version `wg.sqrt(x)`; see `add_`. Returns `x`."""
    def square(self) -> Tensor:
        """x times x."""
    def square_(self) -> Tensor:
        """Give `x` the new version `wg.square(x)`; see `add_`. Returns `x`."""
    def squeeze(self, axis: Axes | None = None, *, dim: Axes | None = ...) -> Tensor:
        """Return `x` without the given axes, all of size 1; without any axis of size 1 when `axis` is None."""
    def std(self, axis: Axes | None = None, correction: _Float = 0, keepdims: _Bool = False, *, unbiased: _Bool | None = None, dim: Axes | None = ..., keepdim: _Bool = ...) -> Tensor:
        """Return the standard deviation along axes: the square root of :func:`var` (Array API)."""
    def sub(self, y: TensorLike, /) -> Tensor:
        """x - y."""
    def sub_(self, other: TensorLike, *, alpha: TensorLike = 1) -> Tensor:
        """Give `x` the new version `x - alpha * other`; see `add_`. Returns `x`."""
    def subtract(self, y: TensorLike, /) -> Tensor:
        """x - y."""
    def sum(self, axis: Axes | None = None, keepdims: _Bool = False, *, dtype: DTypeLike | None = None, dim: Axes | None = ..., keepdim: _Bool = ...) -> Tensor:
        """Return the sum of the elements along axes (Array API)."""
    def swapaxes(self, axis1: _Int, axis2: _Int) -> Tensor:
        """Return `x` with two axes exchanged."""
    def t(self) -> Tensor:
        """Return the transpose of a matrix; a vector or a scalar as it is. `x.T` is the same."""
    def take(self, indices: TensorLike, axis: _Int | None = None, *, dim: Axes | None = ...) -> Tensor:
        """Return the elements of `x` at integer `indices` along `axis` (Array API, NumPy)."""
    def take_along_axis(self, indices: TensorLike, axis: _Int = -1, *, dim: Axes | None = ...) -> Tensor:
        """Return the elements that `indices` picks along `axis`, aligned with the other axes (Array API, NumPy)."""
    def tan(self) -> Tensor:
        """The tangent of an angle in radians."""
    def tanh(self) -> Tensor:
        """The hyperbolic tangent."""
    def tanh_(self) -> Tensor:
        """Give `x` the new version `wg.tanh(x)`; see `add_`. Returns `x`."""
    def tensor_split(self, indices_or_sections: _Int | Sequence[_Int], axis: _Int = 0, *, dim: Axes | None = ...) -> tuple[Tensor, ...]:
        """Return `x` cut along an axis as NumPy's `array_split` does."""
    def to(self, *args: Any, dtype: DTypeLike | None = None, device: _Str | None = None, copy: _Bool = False) -> Tensor:
        """Return `x` in another dtype, on another device, or both; `x` itself where nothing has to change."""
    def to_device(self, device: _Str, /, *, stream: Any = None) -> Tensor:
        """Return `x` on a device, itself where it is there (Array API); see `to`."""
    def top_k(self, k: _Int, axis: _Int = -1, largest: _Bool = True, sorted: _Bool = True, *, dim: Axes | None = ...) -> TopK:
        """Return the k largest elements along an axis, largest first, and their indices."""
    def topk(self, k: _Int, axis: _Int = -1, largest: _Bool = True, sorted: _Bool = True, *, dim: Axes | None = ...) -> TopK:
        """Return the k largest elements along an axis, largest first, and their indices."""
    def trace(self, offset: _Int = 0, axis1: _Int = 0, axis2: _Int = 1, *, dtype: DTypeLike | None = None) -> Tensor:
        """Return the sum of a diagonal of the matrices in two axes (NumPy, PyTorch)."""
    def transpose(self, dim0: _Int, dim1: _Int) -> Tensor:
        """Return `x` with two axes exchanged, as in PyTorch; for NumPy's, use :func:`wengert.permute_dims`."""
    def tril(self, k: _Int = 0, *, diagonal: _Int | None = None) -> Tensor:
        """Return the lower triangle of a matrix, or of each matrix in the last two axes; zeros above it."""
    def triu(self, k: _Int = 0, *, diagonal: _Int | None = None) -> Tensor:
        """Return the upper triangle of a matrix, or of each matrix in the last two axes; zeros below it."""
    def true_divide(self, y: TensorLike, /) -> Tensor:
        """x over y, a floating number also for integers. Over 0 it is an infinity or NaN."""
    def trunc(self) -> Tensor:
        """The whole part of x, rounded toward 0."""
    def type_as(self, other: TensorLike) -> Tensor:
        """Return `x` in the dtype of `other`."""
    def unbind(self, axis: _Int = 0, *, dim: Axes | None = ...) -> tuple[Tensor, ...]:
        """Return the slices of `x` along an axis, without it. Raises ShapeError."""
    def unflatten(self, axis: _Int, sizes: Sequence[_Int], *, dim: Axes | None = ...) -> Tensor:
        """Return `x` with one axis split into several of the given sizes, one of which may be -1."""
    def uniform_(self, a: _Float = 0.0, b: _Float = 1.0, *, generator: Generator | None = None) -> Tensor:
        """Give the tensor uniform random numbers from `a` to `b`, outside any graph, and return it. Raises DTypeError."""
    def unsqueeze(self, axis: _Int, *, dim: Axes | None = ...) -> Tensor:
        """Return :func:`wengert.expand_dims`, under PyTorch's name."""
    def var(self, axis: Axes | None = None, correction: _Float = 0, keepdims: _Bool = False, *, unbiased: _Bool | None = None, dim: Axes | None = ..., keepdim: _Bool = ...) -> Tensor:
        """Return the variance along axes: the mean squared distance from the mean (Array API)."""
    def vecdot(self, y: TensorLike, /, *, axis: _Int = -1) -> Tensor:
        """Return the inner product along an axis, conjugating `x`; the other axes broadcast (Array API)."""
    def view(self, *shape: Axes) -> Tensor:
        """Return :func:`wengert.reshape` to sizes given one by one or as a tuple."""
    def view_as(self, other: TensorLike) -> Tensor:
        """Return `x` in the shape of `other`."""
    def where(self, condition: TensorLike, y: TensorLike) -> Tensor:
        """Return `wg.where(condition, self, y)`."""
    def zero_(self) -> Tensor:
        """Give every element of `x` the value 0, as `w.grad.zero_()` does between steps. Returns `x`."""
