# Written by scripts/generate.py from the op table: do not edit.
from builtins import bool as _Bool, complex as _Complex, float as _Float, int as _Int, str as _Str
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from .ops.index.sort import TopK
from .ops.index.sort import UniqueAll
from .ops.index.sort import UniqueCounts
from .ops.index.sort import UniqueInverse
from .ops.random.generator import Generator
from .ops.random.keys import RandomKey
from .ops.structure.dtypes import FloatInfo
from .ops.structure.dtypes import IntInfo
from .ops.structure.dtypes import NamespaceInfo
from .typing import Axes
from .typing import DTypeLike
from .typing import Size
from .typing import TensorLike

from . import ops as ops
from .core import tree as tree
from .core.errors import DataError as DataError
from .core.errors import DTypeError as DTypeError
from .core.errors import FeedError as FeedError
from .core.errors import GradientError as GradientError
from .core.errors import GraphError as GraphError
from .core.errors import RangeError as RangeError
from .core.errors import ShapeError as ShapeError
from .core.errors import StateError as StateError
from .core.errors import TraceError as TraceError
from .core.errors import WengertError as WengertError
from .core.errors import WriteError as WriteError
from .core.graph.graph import Graph as Graph
from .core.mode import enable_grad as enable_grad
from .core.mode import is_grad_enabled as is_grad_enabled
from .core.mode import no_grad as no_grad
from .core.mode import set_grad_enabled as set_grad_enabled
from .core.node import Node as Node
from .core.ops.autocast import autocast as autocast
from .core.ops.op import Op as Op
from .core.spec import Spec as Spec
from .core.spec import complex64 as complex64
from .core.spec import complex128 as complex128
from .core.spec import float16 as float16
from .core.spec import float32 as float32
from .core.spec import float64 as float64
from .core.spec import get_default_dtype as get_default_dtype
from .core.spec import int8 as int8
from .core.spec import int16 as int16
from .core.spec import int32 as int32
from .core.spec import int64 as int64
from .core.spec import set_default_dtype as set_default_dtype
from .core.spec import uint8 as uint8
from .core.spec import uint16 as uint16
from .core.spec import uint32 as uint32
from .core.spec import uint64 as uint64
from .core.tensor import Tensor as Tensor
from .core.tensor import asarray as asarray
from .core.tensor import tensor as tensor
from .transforms.derivatives.functional import grad as grad
from .transforms.derivatives.functional import value_and_grad as value_and_grad
from .transforms.derivatives.functional import vjp as vjp
from .transforms.tracing.trace import graph as graph
from .transforms.tracing.trace import spec as spec
from . import autograd as autograd
from . import data as data
from . import debug as debug
from . import deploy as deploy
from . import distribute as distribute
from . import distributions as distributions
from . import explain as explain
from . import fft as fft
from . import interop as interop
from . import linalg as linalg
from . import nn as nn
from . import numpy as numpy
from . import optim as optim
from . import passes as passes
from . import random as random
from . import solve as solve
from . import sparse as sparse
from . import special as special
from . import storage as storage
from . import symbolic as symbolic
from . import torch as torch
from . import train as train
from . import typing as typing
from .execute.static import Placeholder as Placeholder
from .execute.batching.block import autobatch as autobatch
from .execute.batching.block import batching as batching
from .transforms.tracing.host import callback as callback
from .execute.batching.cells import cell as cell
from .explain.gradients.gradcheck import check_grads as check_grads
from .transforms.checkpoint.checkpoint import checkpoint as checkpoint
from .transforms.checkpoint.checkpoint import checkpoint_policies as checkpoint_policies
from .transforms.checkpoint.checkpoint import checkpoint_sequential as checkpoint_sequential
from .transforms.control import cond as cond
from .transforms.custom.rules import custom_jvp as custom_jvp
from .transforms.custom.rules import custom_vjp as custom_vjp
from .transforms.jacobians.elimination import elimination_cost as elimination_cost
from .execute.engines import engine as engine
from .explorer import explore as explore
from .deploy import export as export
from .transforms.control import fori_loop as fori_loop
from .execute.static import function as function
from .transforms.jacobians.jacobian import gauss_newton_product as gauss_newton_product
from .execute.native.run.threads import get_num_threads as get_num_threads
from .transforms.jacobians.jacobian import hessian as hessian
from .transforms.jacobians.jacobian import hvp as hvp
from .transforms.jacobians.jacobian import jacobian as jacobian
from .execute.jit import jit as jit
from .transforms.derivatives.tangents import jvp as jvp
from .transforms.jacobians.jacobian import laplacian as laplacian
from .transforms.derivatives.tangents import linear_transpose as linear_transpose
from .transforms.derivatives.tangents import linearize as linearize
from .transforms.control import map as map
from .execute.static import placeholder as placeholder
from .transforms.control import scan as scan
from .core.ops.kernels import set_eager_kernels as set_eager_kernels
from .execute.native.run.threads import set_num_threads as set_num_threads
from .nn.summary import summary as summary
from .transforms.control import switch as switch
from .transforms.taylor import taylor as taylor
from .transforms.batch.vmap import vmap as vmap
from .transforms.control import while_loop as while_loop

bfloat16: np.dtype[Any]
bool: np.dtype[Any]
__array_api_version__: _Str
e: _Float
inf: _Float
nan: _Float
newaxis: None
pi: _Float
def __array_namespace_info__() -> NamespaceInfo:
    """Return devices, dtypes and capabilities, as the Array API has them."""
def abs(x: TensorLike, /) -> Tensor:
    """The absolute value, a real number; its gradient at 0 is 0."""
def acos(x: TensorLike, /) -> Tensor:
    """The angle in [0, pi] whose cosine is x."""
def acosh(x: TensorLike, /) -> Tensor:
    """The number at least 0 whose hyperbolic cosine is x; NaN below 1."""
def add(x: TensorLike, y: TensorLike, /) -> Tensor:
    """x + y."""
def all(x: TensorLike, axis: Axes | None = None, keepdims: _Bool = False, *, dim: Axes | None = ..., keepdim: _Bool = ...) -> Tensor:
    """Return whether all elements along axes are true, or not 0 (Array API). True for none."""
def allclose(x: TensorLike, y: TensorLike, rtol: _Float = 1e-05, atol: _Float = 1e-08, equal_nan: _Bool = False) -> _Bool:
    """Return whether all elements are close (:func:`isclose`), as a Python bool."""
def any(x: TensorLike, axis: Axes | None = None, keepdims: _Bool = False, *, dim: Axes | None = ..., keepdim: _Bool = ...) -> Tensor:
    """Return whether any element along axes is true, or not 0 (Array API). False for none."""
def arange(start: TensorLike, stop: TensorLike | None = None, step: TensorLike = 1, *, dtype: DTypeLike | None = None, device: _Str | None = None, requires_grad: _Bool = False, end: Any = ...) -> Tensor:
    """Return evenly spaced numbers: `arange(stop)` or `arange(start, stop, step)`, without `stop`."""
def argmax(x: TensorLike, axis: _Int | None = None, keepdims: _Bool = False, *, dim: Axes | None = ..., keepdim: _Bool = ...) -> Tensor:
    """Return the index of the largest element along an axis (Array API)."""
def argmin(x: TensorLike, axis: _Int | None = None, keepdims: _Bool = False, *, dim: Axes | None = ..., keepdim: _Bool = ...) -> Tensor:
    """Return the index of the smallest element along an axis (Array API); see :func:`argmax`."""
def argsort(x: TensorLike, axis: _Int = -1, descending: _Bool = False, stable: _Bool = True, *, dim: Axes | None = ...) -> Tensor:
    """Return the indices that put the elements in order along an axis, as int64 (Array API)."""
def array_split(x: TensorLike, indices_or_sections: _Int | Sequence[_Int], axis: _Int = 0, *, dim: Axes | None = ...) -> tuple[Tensor, ...]:
    """Return `x` cut along an axis as NumPy's `array_split` does."""
def asin(x: TensorLike, /) -> Tensor:
    """The angle in [-pi/2, pi/2] whose sine is x."""
def asinh(x: TensorLike, /) -> Tensor:
    """The number whose hyperbolic sine is x."""
def astype(x: TensorLike, dtype: DTypeLike, *, copy: _Bool = True, device: _Str | None = None) -> Tensor:
    """Return `x` in another dtype."""
def atan(x: TensorLike, /) -> Tensor:
    """The angle in [-pi/2, pi/2] whose tangent is x."""
def atan2(y: TensorLike, x: TensorLike, /) -> Tensor:
    """The angle in [-pi, pi] of the point (x, y); the sign of zeros tells sides apart."""
def atanh(x: TensorLike, /) -> Tensor:
    """The number whose hyperbolic tangent is x."""
def atleast_1d(*xs: TensorLike) -> Any:
    """Return a 0-d tensor as one of shape (1,), any other as it is; several give a list."""
def atleast_2d(*xs: TensorLike) -> Any:
    """Return tensors with axes of size 1 added at the left up to two dimensions; several give a list."""
def bitwise_and(x: TensorLike, y: TensorLike, /) -> Tensor:
    """The bits set in both x and y."""
def bitwise_invert(x: TensorLike, /) -> Tensor:
    """Every bit of x flipped; of a boolean, its negation."""
def bitwise_left_shift(x: TensorLike, y: TensorLike, /) -> Tensor:
    """The bits of x moved left by y >= 0 places, zeros moving in."""
def bitwise_or(x: TensorLike, y: TensorLike, /) -> Tensor:
    """The bits set in x or y."""
def bitwise_right_shift(x: TensorLike, y: TensorLike, /) -> Tensor:
    """The bits of x moved right by y >= 0 places, the sign moving in."""
def bitwise_xor(x: TensorLike, y: TensorLike, /) -> Tensor:
    """The bits set in exactly one of x and y."""
def broadcast_arrays(*xs: TensorLike) -> list[Tensor]:
    """Return tensors, each with its own dtype, broadcast against each other. Raises ShapeError."""
def broadcast_shapes(*shapes: _Int | Sequence[_Int]) -> tuple[_Int, ...]:
    """Return the shape that tensors of these shapes broadcast to. Raises ShapeError if there is none."""
def broadcast_to(x: TensorLike, shape: _Int | Sequence[_Int]) -> Tensor:
    """Return `x` repeated to a shape that it broadcasts to. Raises ShapeError if it does not."""
def can_cast(from_: Any, to: Any) -> _Bool:
    """Return whether promotion takes `from_` (a tensor or a dtype) to the dtype `to`."""
def ceil(x: TensorLike, /) -> Tensor:
    """The smallest whole number that is at least x."""
def checkpoint_name(x: TensorLike, name: _Str) -> Tensor:
    """Return `x`, under a name by which a policy of :func:`wengert.checkpoint` can keep it."""
def clip(x: TensorLike, min: TensorLike | None = None, max: TensorLike | None = None) -> Tensor:
    """Return `x`, but at least `min` and at most `max` (`max` wins where they cross)."""
def clip_gradient(x: TensorLike, low: _Float | None = None, high: _Float | None = None, *, norm: _Float | None = None) -> Tensor:
    """Return `x`, with the cotangents that come back to it clipped."""
def concat(xs: Sequence[TensorLike], axis: _Int | None = 0, *, dim: Axes | None = ...) -> Tensor:
    """Return tensors joined along an axis that they have; `cat` and `concatenate` are the same."""
def conj(x: TensorLike, /) -> Tensor:
    """The complex conjugate; a real number itself."""
def copysign(x: TensorLike, y: TensorLike, /) -> Tensor:
    """The magnitude of x with the sign of y."""
def cos(x: TensorLike, /) -> Tensor:
    """The cosine of an angle in radians."""
def cosh(x: TensorLike, /) -> Tensor:
    """The hyperbolic cosine."""
def count_nonzero(x: TensorLike, axis: Axes | None = None, keepdims: _Bool = False, *, dim: Axes | None = ..., keepdim: _Bool = ...) -> Tensor:
    """Return the number of elements along axes that are not 0, as int64 (Array API)."""
def cumulative_prod(x: TensorLike, axis: _Int | None = None, *, dtype: DTypeLike | None = None, include_initial: _Bool = False, dim: Axes | None = ...) -> Tensor:
    """Return running products along an axis (Array API); `cumprod` is the same function."""
def cumulative_sum(x: TensorLike, axis: _Int | None = None, *, dtype: DTypeLike | None = None, include_initial: _Bool = False, dim: Axes | None = ...) -> Tensor:
    """Return running sums along an axis (Array API); `cumsum` is the same function."""
def diag(x: TensorLike, k: _Int = 0, *, diagonal: _Int | None = None) -> Tensor:
    """Return the k-th diagonal of a matrix; for a vector the square matrix that has it there."""
def diagonal(x: TensorLike, offset: _Int = 0, dim1: _Int = 0, dim2: _Int = 1) -> Tensor:
    """Return a diagonal of the matrices in two axes, as the last axis of the result."""
def diff(x: TensorLike, n: _Int = 1, axis: _Int = -1, *, prepend: TensorLike | None = None, append: TensorLike | None = None, dim: Axes | None = ...) -> Tensor:
    """Return differences of neighbours along an axis, taken `n` times (Array API)."""
def divide(x: TensorLike, y: TensorLike, /) -> Tensor:
    """x over y, a floating number also for integers. Over 0 it is an infinity or NaN."""
def dot(x: TensorLike, y: TensorLike) -> Tensor:
    """Return the sum over the last axis of `x` and the last but one of `y` (NumPy)."""
def einsum(subscripts: _Str, *operands: TensorLike) -> Tensor:
    """Return a sum of products over index letters, by Einstein's convention (NumPy)."""
def empty(shape: Axes = ..., *sizes: Axes, dtype: DTypeLike | None = None, device: _Str | None = None, requires_grad: _Bool = False) -> Tensor:
    """Return an uninitialised tensor; parameters as in :func:`wengert.zeros`."""
def empty_like(x: TensorLike, *, dtype: DTypeLike | None = None, device: _Str | None = None, requires_grad: _Bool = False) -> Tensor:
    """Return an uninitialised tensor in the shape and, unless `dtype` is given, the dtype of `x`."""
def equal(x: TensorLike, y: TensorLike, /) -> Tensor:
    """Whether x == y, element by element."""
def exp(x: TensorLike, /) -> Tensor:
    """e to the power x."""
def expand_dims(x: TensorLike, axis: _Int = 0, *, dim: Axes | None = ...) -> Tensor:
    """Return `x` with a new axis of size 1, which becomes axis `axis` of the result. Raises ShapeError."""
def expm1(x: TensorLike, /) -> Tensor:
    """exp(x) - 1, accurate near 0."""
def eye(n_rows: _Int, n_cols: _Int | None = None, *, k: _Int = 0, dtype: DTypeLike | None = None, device: _Str | None = None, requires_grad: _Bool = False) -> Tensor:
    """Return a matrix with ones on its k-th diagonal and zeros elsewhere."""
def finfo(dtype: DTypeLike) -> FloatInfo:
    """Return the limits of a floating dtype, or of a complex dtype's parts, or of a tensor's dtype."""
def flatten(x: TensorLike, start_dim: _Int = 0, end_dim: _Int = -1) -> Tensor:
    """Return `x` with the axes from `start_dim` to `end_dim`, inclusive, merged into one."""
def flip(x: TensorLike, axis: Axes | None = None, *, dim: Axes | None = ..., dims: Axes | None = ...) -> Tensor:
    """Return `x` in reverse order along one axis, several, or all (None). Raises ShapeError."""
def floor(x: TensorLike, /) -> Tensor:
    """The largest whole number that is at most x."""
def floor_divide(x: TensorLike, y: TensorLike, /) -> Tensor:
    """The floor of x / y, as Python's //."""
def from_dlpack(x: TensorLike, *, device: _Str | None = None, copy: _Bool | None = None) -> Tensor:
    """Return a tensor of any array on the CPU that speaks DLPack (NumPy, PyTorch, JAX, ...)."""
def full(shape: Axes, fill_value: TensorLike, *, dtype: DTypeLike | None = None, device: _Str | None = None, requires_grad: _Bool = False) -> Tensor:
    """Return a tensor filled with one number."""
def full_like(x: TensorLike, fill_value: TensorLike, *, dtype: DTypeLike | None = None, device: _Str | None = None, requires_grad: _Bool = False) -> Tensor:
    """Return one number in the shape and, unless `dtype` is given, the dtype of `x`. Raises DTypeError."""
def gather(x: TensorLike, axis: _Int, index: TensorLike, *, dim: Axes | None = ...) -> Tensor:
    """Return `out[i][j] = x[index[i][j]][j]` along axis 0, and so on for other axes (PyTorch)."""
def greater(x: TensorLike, y: TensorLike, /) -> Tensor:
    """Whether x > y, element by element."""
def greater_equal(x: TensorLike, y: TensorLike, /) -> Tensor:
    """Whether x >= y, element by element."""
def hypot(x: TensorLike, y: TensorLike, /) -> Tensor:
    """sqrt(x*x + y*y) without overflow on the way; its gradient at (0, 0) is 0."""
def iinfo(dtype: DTypeLike) -> IntInfo:
    """Return the limits of an integer dtype, or of a tensor's. Raises DTypeError for other dtypes."""
def imag(x: TensorLike, /) -> Tensor:
    """The imaginary part; of a real number 0."""
def index_add(x: TensorLike, axis: _Int, index: TensorLike, source: TensorLike, *, dim: Axes | None = ...) -> Tensor:
    """Return `x` with the slices of `source` added at a vector of integers along `axis` (PyTorch)."""
def isclose(x: TensorLike, y: TensorLike, rtol: _Float = 1e-05, atol: _Float = 1e-08, equal_nan: _Bool = False) -> Tensor:
    """Return whether |x - y| <= atol + rtol |y|, element by element; equal infinities are close."""
def isdtype(dtype: DTypeLike, kind: Any) -> _Bool:
    """Return whether a dtype is of a kind."""
def isfinite(x: TensorLike, /) -> Tensor:
    """Whether x is neither NaN nor an infinity."""
def isinf(x: TensorLike, /) -> Tensor:
    """Whether x is an infinity of either sign."""
def isnan(x: TensorLike, /) -> Tensor:
    """Whether x is NaN."""
def kron(x: TensorLike, y: TensorLike) -> Tensor:
    """Return the Kronecker product: every element of `x` times all of `y` (NumPy)."""
def less(x: TensorLike, y: TensorLike, /) -> Tensor:
    """Whether x < y, element by element."""
def less_equal(x: TensorLike, y: TensorLike, /) -> Tensor:
    """Whether x <= y, element by element."""
def linspace(start: TensorLike, stop: TensorLike, num: _Int, *, dtype: DTypeLike | None = None, device: _Str | None = None, endpoint: _Bool = True, requires_grad: _Bool = False, steps: Any = ..., end: Any = ...) -> Tensor:
    """Return `num` evenly spaced numbers from `start` to `stop`."""
def log(x: TensorLike, /) -> Tensor:
    """The natural logarithm: -inf of 0, NaN of a negative real number."""
def log10(x: TensorLike, /) -> Tensor:
    """The logarithm to the base 10."""
def log1p(x: TensorLike, /) -> Tensor:
    """log(1 + x), accurate near 0."""
def log2(x: TensorLike, /) -> Tensor:
    """The logarithm to the base 2."""
def log_softmax(x: TensorLike, axis: _Int = -1, *, dim: Axes | None = ...) -> Tensor:
    """Return the logarithm of :func:`softmax`, right also where that is too small for its dtype."""
def logaddexp(x: TensorLike, y: TensorLike, /) -> Tensor:
    """log(exp(x) + exp(y)) without overflow on the way."""
def logical_and(x: TensorLike, y: TensorLike, /) -> Tensor:
    """Whether both are true (nonzero)."""
def logical_not(x: TensorLike, /) -> Tensor:
    """Whether x is false (zero)."""
def logical_or(x: TensorLike, y: TensorLike, /) -> Tensor:
    """Whether at least one is true (nonzero)."""
def logical_xor(x: TensorLike, y: TensorLike, /) -> Tensor:
    """Whether exactly one is true (nonzero)."""
def logspace(start: TensorLike, stop: TensorLike, num: _Int, base: _Float = 10.0, *, dtype: DTypeLike | None = None, device: _Str | None = None, requires_grad: _Bool = False, steps: Any = ..., end: Any = ...) -> Tensor:
    """Return `num` numbers from `base ** start` to `base ** stop`, evenly spaced on a logarithmic scale."""
def logsumexp(x: TensorLike, axis: Axes | None = None, keepdims: _Bool = False, *, dim: Axes | None = ..., keepdim: _Bool = ...) -> Tensor:
    """Return log(sum(exp(x))) along axes, without overflow or underflow."""
def manual_seed(seed: _Int) -> Generator:
    """Seed the default generator. Returns it."""
def matmul(x: TensorLike, y: TensorLike, /) -> Tensor:
    """Return the matrix product, `x @ y` (Array API, NumPy)."""
def matrix_transpose(x: TensorLike) -> Tensor:
    """Return `x` with its last two axes exchanged; `x.mT` is the same."""
def max(x: TensorLike, axis: Axes | None = None, keepdims: _Bool = False, *, dim: Axes | None = ..., keepdim: _Bool = ...) -> Tensor:
    """Return the largest elements along axes (Array API)."""
def maximum(x: TensorLike, y: TensorLike, /) -> Tensor:
    """The larger of x and y; NaN if either is. Equal arguments share the gradient."""
def mean(x: TensorLike, axis: Axes | None = None, keepdims: _Bool = False, *, dtype: DTypeLike | None = None, dim: Axes | None = ..., keepdim: _Bool = ...) -> Tensor:
    """Return the arithmetic mean of the elements along axes (Array API)."""
def median(x: TensorLike, axis: _Int | None = None, keepdims: _Bool = False, *, dim: Axes | None = ..., keepdim: _Bool = ...) -> Tensor:
    """Return the middle element along an axis; the mean of the middle two where their number is even."""
def meshgrid(*arrays: TensorLike, indexing: Literal['xy', 'ij'] = 'xy') -> list[Tensor]:
    """Return coordinate tensors of the grid that vectors span."""
def min(x: TensorLike, axis: Axes | None = None, keepdims: _Bool = False, *, dim: Axes | None = ..., keepdim: _Bool = ...) -> Tensor:
    """Return the smallest elements along axes (Array API)."""
def minimum(x: TensorLike, y: TensorLike, /) -> Tensor:
    """The smaller of x and y; NaN if either is. Equal arguments share the gradient."""
def moveaxis(x: TensorLike, source: Axes, destination: Axes) -> Tensor:
    """Return `x` with the `source` axes moved to the `destination` places, the others in their order."""
def multiply(x: TensorLike, y: TensorLike, /) -> Tensor:
    """x times y."""
def negative(x: TensorLike, /) -> Tensor:
    """-x."""
def nextafter(x: TensorLike, y: TensorLike, /) -> Tensor:
    """The next representable number after x toward y."""
def nonzero(x: TensorLike) -> tuple[Tensor, ...]:
    """Return the indices of the elements that are not 0, an int64 tensor for each axis (Array API, NumPy)."""
def not_equal(x: TensorLike, y: TensorLike, /) -> Tensor:
    """Whether x != y, element by element."""
def ones(shape: Axes = ..., *sizes: Axes, dtype: DTypeLike | None = None, device: _Str | None = None, requires_grad: _Bool = False) -> Tensor:
    """Return a tensor of ones; parameters as in :func:`wengert.zeros`."""
def ones_like(x: TensorLike, *, dtype: DTypeLike | None = None, device: _Str | None = None, requires_grad: _Bool = False) -> Tensor:
    """Return ones in the shape and, unless `dtype` is given, the dtype of `x`."""
def outer(x: TensorLike, y: TensorLike) -> Tensor:
    """Return all products of an element of `x` and one of `y`, which are flattened (NumPy)."""
def pad(x: TensorLike, pad_width: Any, mode: Literal['constant', 'reflect', 'edge', 'wrap'] = 'constant', value: _Float = 0) -> Tensor:
    """Return `x` with elements put around it, as NumPy's `pad` does."""
def permute_dims(x: TensorLike, axes: Sequence[_Int], *, dims: Axes | None = ...) -> Tensor:
    """Return `x` with its axes in another order: axis i of the result is axis `axes[i]` of `x`."""
def positive(x: TensorLike, /) -> Tensor:
    """+x, which is x."""
def pow(x: TensorLike, y: TensorLike, /) -> Tensor:
    """x to the power y. Integers stay integers, so their exponents must not be negative."""
def prod(x: TensorLike, axis: Axes | None = None, keepdims: _Bool = False, *, dtype: DTypeLike | None = None, dim: Axes | None = ..., keepdim: _Bool = ...) -> Tensor:
    """Return the product of the elements along axes (Array API)."""
def promote_types(type1: Any, type2: Any) -> np.dtype[Any]:
    """Return the dtype of an operation on two dtypes. Raises DTypeError where none holds both."""
def rand(*shape: Axes, dtype: DTypeLike | None = None, requires_grad: _Bool = False, generator: Generator | None = None, device: _Str | None = None, key: RandomKey | None = None) -> Tensor:
    """Return uniform random numbers in [0, 1)."""
def randint(*args: _Int | Axes, dtype: DTypeLike | None = None, generator: Generator | None = None, key: RandomKey | None = None, **named: Any) -> Tensor:
    """Return random integers: `randint(high, shape)` from 0, `randint(low, high, shape)` from `low`; below `high`."""
def randn(*shape: Axes, dtype: DTypeLike | None = None, requires_grad: _Bool = False, generator: Generator | None = None, device: _Str | None = None, key: RandomKey | None = None) -> Tensor:
    """Return standard normal random numbers; parameters as in :func:`rand`."""
def ravel(x: TensorLike) -> Tensor:
    """Return `x` as one axis, in row-major order."""
def real(x: TensorLike, /) -> Tensor:
    """The real part."""
def reciprocal(x: TensorLike, /) -> Tensor:
    """1 / x."""
def relu(x: TensorLike, /) -> Tensor:
    """x where it is positive, else 0; the gradient at 0 is 0."""
def remainder(x: TensorLike, y: TensorLike, /) -> Tensor:
    """x - y * floor(x / y), as Python's %: it has the sign of y."""
def repeat(x: TensorLike, repeats: _Int | Sequence[_Int], axis: _Int | None = None, *, dim: Axes | None = ...) -> Tensor:
    """Return each element of `x` several times in a row; `repeat_interleave` is the same."""
def reshape(x: TensorLike, shape: _Int | Sequence[_Int], *, copy: _Bool | None = None) -> Tensor:
    """Return the elements of `x`, in row-major order, in another shape."""
def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """Return the dtype of an operation on these tensors, dtypes and Python numbers."""
def reverse_gradient(x: TensorLike, scale: _Float = 1.0) -> Tensor:
    """Return `x`, with its derivative multiplied by `-scale`: gradient reversal."""
def roll(x: TensorLike, shift: Axes, axis: Axes | None = None, *, shifts: Any = ..., dims: Axes | None = ..., dim: Axes | None = ...) -> Tensor:
    """Return `x` shifted along axes; what leaves at one end comes in at the other."""
def round(x: TensorLike, /) -> Tensor:
    """The nearest whole number, halves to even."""
def rsqrt(x: TensorLike, /) -> Tensor:
    """1 / sqrt(x)."""
def scale_gradient(x: TensorLike, scale: TensorLike) -> Tensor:
    """Return `x`, with its derivative multiplied by `scale` in every mode."""
def scatter(x: TensorLike, axis: _Int, index: TensorLike, src: TensorLike, *, dim: Axes | None = ...) -> Tensor:
    """Return `x` with `src[i][j]` put at `[index[i][j]][j]` along axis 0, and so on for other axes (PyTorch)."""
def scatter_add(x: TensorLike, axis: _Int, index: TensorLike, src: TensorLike, *, dim: Axes | None = ...) -> Tensor:
    """Return `x` with `src[i][j]` added at `[index[i][j]][j]` along axis 0, and so on for other axes (PyTorch)."""
def searchsorted(x1: TensorLike, x2: TensorLike, *, side: Literal['left', 'right'] = 'left', sorter: Any = None, right: _Bool = False) -> Tensor:
    """Return the indices at which `x2` would have to be inserted into `x1` to keep it sorted (Array API)."""
def sigmoid(x: TensorLike, /) -> Tensor:
    """The logistic function 1 / (1 + exp(-x))."""
def sign(x: TensorLike, /) -> Tensor:
    """-1, 0 or 1; of a complex number x / |x|, and 0 of 0."""
def signbit(x: TensorLike, /) -> Tensor:
    """Whether the sign bit of x is set: x is negative, -0.0 or a NaN with that sign."""
def sin(x: TensorLike, /) -> Tensor:
    """The sine of an angle in radians."""
def sinh(x: TensorLike, /) -> Tensor:
    """The hyperbolic sine."""
def softmax(x: TensorLike, axis: _Int = -1, *, dim: Axes | None = ...) -> Tensor:
    """Return exp(x) over its sum along an axis: positive weights that sum to 1."""
def sort(x: TensorLike, axis: _Int = -1, descending: _Bool = False, stable: _Bool = True, *, dim: Axes | None = ...) -> Tensor:
    """Return the elements in order along an axis (Array API); parameters are those of :func:`argsort`."""
def split(x: TensorLike, split_size: _Int | Sequence[_Int], axis: _Int = 0, *, dim: Axes | None = ...) -> tuple[Tensor, ...]:
    """Return `x` cut along an axis into parts of a size, as PyTorch has it."""
def sqrt(x: TensorLike, /) -> Tensor:
    """The square root; NaN of a negative real number."""
def square(x: TensorLike, /) -> Tensor:
    """x times x."""
def squeeze(x: TensorLike, axis: Axes | None = None, *, dim: Axes | None = ...) -> Tensor:
    """Return `x` without the given axes, all of size 1; without any axis of size 1 when `axis` is None."""
def stack(xs: Sequence[TensorLike], axis: _Int = 0, *, dim: Axes | None = ...) -> Tensor:
    """Return tensors of one shape joined along a new axis. Their dtypes promote."""
def std(x: TensorLike, axis: Axes | None = None, correction: _Float = 0, keepdims: _Bool = False, *, unbiased: _Bool | None = None, dim: Axes | None = ..., keepdim: _Bool = ...) -> Tensor:
    """Return the standard deviation along axes: the square root of :func:`var` (Array API)."""
def stop_gradient(x: TensorLike, /) -> Tensor:
    """x as a constant: gradients do not flow through it."""
def straight_through(hard: TensorLike, soft: TensorLike | None = None) -> Any:
    """Return the value of `hard` with the derivative of `soft`: the straight-through estimator."""
def subtract(x: TensorLike, y: TensorLike, /) -> Tensor:
    """x - y."""
def sum(x: TensorLike, axis: Axes | None = None, keepdims: _Bool = False, *, dtype: DTypeLike | None = None, dim: Axes | None = ..., keepdim: _Bool = ...) -> Tensor:
    """Return the sum of the elements along axes (Array API)."""
def swapaxes(x: TensorLike, axis1: _Int, axis2: _Int) -> Tensor:
    """Return `x` with two axes exchanged."""
def take(x: TensorLike, indices: TensorLike, axis: _Int | None = None, *, dim: Axes | None = ...) -> Tensor:
    """Return the elements of `x` at integer `indices` along `axis` (Array API, NumPy)."""
def take_along_axis(x: TensorLike, indices: TensorLike, axis: _Int = -1, *, dim: Axes | None = ...) -> Tensor:
    """Return the elements that `indices` picks along `axis`, aligned with the other axes (Array API, NumPy)."""
def tan(x: TensorLike, /) -> Tensor:
    """The tangent of an angle in radians."""
def tanh(x: TensorLike, /) -> Tensor:
    """The hyperbolic tangent."""
def tensordot(x: TensorLike, y: TensorLike, /, *, axes: Axes = 2) -> Tensor:
    """Return the sum of products over several axes of each (Array API, NumPy)."""
def tile(x: TensorLike, repetitions: _Int | Sequence[_Int], *, dims: Axes | None = ..., reps: Any = ...) -> Tensor:
    """Return `x` laid out several times along each axis, the last axis last."""
def top_k(x: TensorLike, k: _Int, axis: _Int = -1, largest: _Bool = True, sorted: _Bool = True, *, dim: Axes | None = ...) -> TopK:
    """Return the k largest elements along an axis, largest first, and their indices."""
def trace(x: TensorLike, offset: _Int = 0, axis1: _Int = 0, axis2: _Int = 1, *, dtype: DTypeLike | None = None) -> Tensor:
    """Return the sum of a diagonal of the matrices in two axes (NumPy, PyTorch)."""
def tril(x: TensorLike, k: _Int = 0, *, diagonal: _Int | None = None) -> Tensor:
    """Return the lower triangle of a matrix, or of each matrix in the last two axes; zeros above it."""
def triu(x: TensorLike, k: _Int = 0, *, diagonal: _Int | None = None) -> Tensor:
    """Return the upper triangle of a matrix, or of each matrix in the last two axes; zeros below it."""
def trunc(x: TensorLike, /) -> Tensor:
    """The whole part of x, rounded toward 0."""
def unflatten(x: TensorLike, axis: _Int, sizes: Sequence[_Int], *, dim: Axes | None = ...) -> Tensor:
    """Return `x` with one axis split into several of the given sizes, one of which may be -1."""
def unique_all(x: TensorLike) -> UniqueAll:
    """Return the distinct elements in ascending order, their first places and how often each occurs (Array API)."""
def unique_counts(x: TensorLike) -> UniqueCounts:
    """Return the distinct elements in ascending order and how often each occurs; see :func:`unique_all`."""
def unique_inverse(x: TensorLike) -> UniqueInverse:
    """Return the distinct elements in ascending order and, for each element of `x`, its place among them."""
def unique_values(x: TensorLike) -> Tensor:
    """Return the distinct elements in ascending order; see :func:`unique_all`."""
def unstack(x: TensorLike, axis: _Int = 0, *, dim: Axes | None = ...) -> tuple[Tensor, ...]:
    """Return the slices of `x` along an axis, without it. Raises ShapeError."""
def var(x: TensorLike, axis: Axes | None = None, correction: _Float = 0, keepdims: _Bool = False, *, unbiased: _Bool | None = None, dim: Axes | None = ..., keepdim: _Bool = ...) -> Tensor:
    """Return the variance along axes: the mean squared distance from the mean (Array API)."""
def vecdot(x: TensorLike, y: TensorLike, /, *, axis: _Int = -1) -> Tensor:
    """Return the inner product along an axis, conjugating `x`; the other axes broadcast (Array API)."""
def view_as_complex(x: TensorLike) -> Tensor:
    """Return pairs of real numbers along the last axis as complex ones. Raises DTypeError, ShapeError."""
def view_as_real(x: TensorLike) -> Tensor:
    """Return complex numbers as pairs of real ones, real and imaginary part along a new last axis. Raises DTypeError."""
def where(condition: TensorLike, x: TensorLike, y: TensorLike) -> Tensor:
    """Return the elements of `x` where `condition` holds and of `y` elsewhere."""
def zeros(shape: Axes = ..., *sizes: Axes, dtype: DTypeLike | None = None, device: _Str | None = None, requires_grad: _Bool = False) -> Tensor:
    """Return a tensor of zeros."""
def zeros_like(x: TensorLike, *, dtype: DTypeLike | None = None, device: _Str | None = None, requires_grad: _Bool = False) -> Tensor:
    """Return zeros in the shape and, unless `dtype` is given, the dtype of `x`."""
