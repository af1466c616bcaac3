# Written by scripts/generate.py from the op table: do not edit.
from builtins import bool as _Bool, complex as _Complex, float as _Float, int as _Int, str as _Str
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from ..core.tensor import Tensor as Plain
from ..ops.random.keys import RandomKey
from ..torch.sparse import SparseTensor
from ..torch.tensor import device
from ..typing import Axes
from ..typing import DTypeLike
from ..typing import Size as _Size
from ..typing import TensorLike

from . import accelerator as accelerator
from . import amp as amp
from . import autograd as autograd
from . import backends as backends
from . import compiler as compiler
from . import cpu as cpu
from . import cuda as cuda
from . import distributed as distributed
from . import distributions as distributions
from . import fft as fft
from . import func as func
from . import functional as functional
from . import fx as fx
from . import hub as hub
from . import jit as jit
from . import library as library
from . import linalg as linalg
from . import multiprocessing as multiprocessing
from . import nested as nested
from . import nn as nn
from . import onnx as onnx
from . import optim as optim
from . import profiler as profiler
from . import random as random
from . import serialization as serialization
from . import signal as signal
from . import sparse as sparse
from . import special as special
from . import storage as storage
from . import testing as testing
from . import types as types
from . import utils as utils
from . import version as version
from .. import Graph as Graph
from .. import Node as Node
from .. import e as e
from .. import export as export
from .. import inf as inf
from .. import is_grad_enabled as is_grad_enabled
from .. import nan as nan
from .. import pi as pi
from .. import solve as solve
from .. import torch as torch
from .. import while_loop as while_loop
from ..torch.amp.autocast_mode import autocast as autocast
from ..torch.amp.grad_scaler import GradScaler as GradScaler
from ..torch.autograd.grad_mode import enable_grad as enable_grad
from ..torch.autograd.grad_mode import inference_mode as inference_mode
from ..torch.autograd.grad_mode import no_grad as no_grad
from ..torch.autograd.grad_mode import set_grad_enabled as set_grad_enabled
from ..torch.compat import finfo as finfo
from ..torch.compat import iinfo as iinfo
from ..torch.dtypes import dtype as dtype
from ..torch.random import Generator as Generator
from ..torch.storage import TypedStorage as TypedStorage
from ..torch.storage import UntypedStorage as UntypedStorage
from ..torch.tensor import Size as Size
from ..torch.tensor import Tensor as Tensor
from ..torch.tensor import device as device
from ..torch.tensor import layout as layout
from ..torch.tensor import memory_format as memory_format

BFloat16Tensor: Any
BoolTensor: Any
ByteTensor: Any
CharTensor: Any
DoubleTensor: Any
FloatTensor: Any
HalfTensor: Any
IntTensor: Any
LongTensor: Any
ShortTensor: Any
def abs(input: TensorLike, *, out: Any = None) -> Any:
    """Return `abs` of each element. Parameters are `input` and `out`."""
def absolute(input: TensorLike, *, out: Any = None) -> Any:
    """Return `absolute` of each element. Parameters are `input` and `out`."""
def acos(input: TensorLike, *, out: Any = None) -> Any:
    """Return `acos` of each element. Parameters are `input` and `out`."""
def acosh(input: TensorLike, *, out: Any = None) -> Any:
    """Return `acosh` of each element. Parameters are `input` and `out`."""
def adaptive_avg_pool1d(input: TensorLike, output_size: Any) -> Any:
    """Return means of as many windows over the last dimension as make a result of `output_size`."""
def adaptive_max_pool1d(input: TensorLike, output_size: Any, return_indices: _Bool = False) -> Any:
    """Return maxima of as many windows over the last dimension as make a result of `output_size`."""
def add(input: TensorLike, other: TensorLike, *, alpha: TensorLike = 1, out: Any = None) -> Tensor:
    """Return `input + alpha * other`."""
def addbmm(input: TensorLike, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: TensorLike = 1, out: Any = None) -> Tensor:
    """Return `beta * input + alpha * (batch1 @ batch2).sum(0)`, of stacks of matrices; see :func:`addmm`."""
def addcdiv(input: TensorLike, tensor1: Any, tensor2: Any, *, value: TensorLike = 1, out: Any = None) -> Tensor:
    """Return `input + value * tensor1 / tensor2`."""
def addcmul(input: TensorLike, tensor1: Any, tensor2: Any, *, value: TensorLike = 1, out: Any = None) -> Tensor:
    """Return `input + value * tensor1 * tensor2`. For integers the value is one, cut towards 0."""
def addmm(input: TensorLike, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: TensorLike = 1, out: Any = None) -> Tensor:
    """Return `beta * input + alpha * (mat1 @ mat2)`, of matrices."""
def addmv(input: TensorLike, mat: Any, vec: Any, *, beta: Any = 1, alpha: TensorLike = 1, out: Any = None) -> Tensor:
    """Return `beta * input + alpha * (mat @ vec)`, of a matrix and a vector; see :func:`addmm`."""
def addr(input: TensorLike, vec1: Any, vec2: Any, *, beta: Any = 1, alpha: TensorLike = 1, out: Any = None) -> Tensor:
    """Return `beta * input + alpha * outer(vec1, vec2)`, of vectors; see :func:`addmm`."""
def adjoint(input: TensorLike) -> Any:
    """Return the last two axes exchanged, and complex numbers conjugated. Raises ShapeError for fewer than two."""
def alias_copy(input: TensorLike, *args: Axes, out: Any = None, **kwargs: Any) -> Any:
    """Return a copy of what `alias` gives."""
def all(input: TensorLike, dim: Any = None, keepdim: _Bool = False, *, out: Any = None) -> Any:
    """Return whether no element is 0, of all or along an axis or several."""
def allclose(input: TensorLike, other: TensorLike, rtol: _Float = 1e-05, atol: _Float = 1e-08, equal_nan: _Bool = False) -> _Bool:
    """Return whether all elements are close (`isclose`), as a Python bool."""
def alpha_dropout(input: TensorLike, p: _Float, train: _Bool) -> Tensor:
    """Return elements set with probability `p` to what selu tends to below 0, where `train`."""
def amax(input: TensorLike, dim: Any = ..., keepdim: _Bool = False, *, out: Any = None) -> Any:
    """Return the largest elements along axes, or of all. The gradient is shared among equals."""
def amin(input: TensorLike, dim: Any = ..., keepdim: _Bool = False, *, out: Any = None) -> Any:
    """Return the smallest elements along axes, or of all. The gradient is shared among equals."""
def aminmax(input: TensorLike, *, dim: _Int | None = None, keepdim: _Bool = False, out: Any = None) -> Any:
    """Return the smallest and the largest elements, of all or along an axis."""
def angle(input: TensorLike, *, out: Any = None) -> Any:
    """Return `angle` of each element. Parameters are `input` and `out`."""
def any(input: TensorLike, dim: Any = None, keepdim: _Bool = False, *, out: Any = None) -> Any:
    """Return whether some element is not 0, of all or along an axis or several."""
def arange(start: TensorLike, end: TensorLike | None = None, step: TensorLike = 1, *, out: Any = None, dtype: DTypeLike | None = None, layout: Any = None, device: _Str | None = None, requires_grad: _Bool = False, pin_memory: _Bool = False) -> Tensor:
    """Return the numbers from `start` (0 where only an end is given) up to `end`, which is left out, in steps."""
def arccos(input: TensorLike, *, out: Any = None) -> Any:
    """Return `arccos` of each element. Parameters are `input` and `out`."""
def arccosh(input: TensorLike, *, out: Any = None) -> Any:
    """Return `arccosh` of each element. Parameters are `input` and `out`."""
def arcsin(input: TensorLike, *, out: Any = None) -> Any:
    """Return `arcsin` of each element. Parameters are `input` and `out`."""
def arcsinh(input: TensorLike, *, out: Any = None) -> Any:
    """Return `arcsinh` of each element. Parameters are `input` and `out`."""
def arctan(input: TensorLike, *, out: Any = None) -> Any:
    """Return `arctan` of each element. Parameters are `input` and `out`."""
def arctan2(input: TensorLike, other: TensorLike, *, out: Any = None) -> Any:
    """Return `arctan2` of each element. Parameters are `input, other` and `out`."""
def arctanh(input: TensorLike, *, out: Any = None) -> Any:
    """Return `arctanh` of each element. Parameters are `input` and `out`."""
def are_deterministic_algorithms_enabled() -> _Bool:
    """Return what :func:`use_deterministic_algorithms` was given last."""
def argmax(input: TensorLike, dim: _Int | None = None, keepdim: _Bool = False, *, out: Any = None) -> Any:
    """Return the index of the largest element along an axis; without one it counts through all elements."""
def argmin(input: TensorLike, dim: _Int | None = None, keepdim: _Bool = False, *, out: Any = None) -> Any:
    """Return the index of the smallest element along an axis; without one it counts through all elements."""
def argsort(input: TensorLike, dim: _Int = -1, descending: _Bool = False, *, stable: _Bool = False) -> Tensor:
    """Return the indices that put the elements in order along an axis."""
def argwhere(input: TensorLike) -> Any:
    """Return the places of the elements that are not 0, a row each. Raises TraceError for an abstract tensor."""
def as_strided(input: TensorLike, size: Any, stride: Any, storage_offset: _Int | None = None) -> Any:
    """Return the elements at steps in the memory that the tensor lies in."""
def as_strided_copy(input: TensorLike, *args: Axes, out: Any = None, **kwargs: Any) -> Any:
    """Return a copy of what `as_strided` gives."""
def as_strided_scatter(input: TensorLike, src: TensorLike, *args: Axes, **kwargs: Any) -> Any:
    """Return the tensor with the elements at steps in memory replaced by `src`. Raises ShapeError."""
def as_tensor(data: TensorLike, dtype: DTypeLike | None = None, device: _Str | None = None, copy: _Bool | None = None) -> Tensor:
    """Return `data` as a tensor: one of this namespace as it is, where nothing has to change; a storage as bytes."""
def asarray(data: TensorLike, dtype: DTypeLike | None = None, device: _Str | None = None, copy: _Bool | None = None) -> Tensor:
    """Return `data` as a tensor: one of this namespace as it is, where nothing has to change; a storage as bytes."""
def asin(input: TensorLike, *, out: Any = None) -> Any:
    """Return `asin` of each element. Parameters are `input` and `out`."""
def asinh(input: TensorLike, *, out: Any = None) -> Any:
    """Return `asinh` of each element. Parameters are `input` and `out`."""
def atan(input: TensorLike, *, out: Any = None) -> Any:
    """Return `atan` of each element. Parameters are `input` and `out`."""
def atan2(input: TensorLike, other: TensorLike, *, out: Any = None) -> Any:
    """Return `atan2` of each element. Parameters are `input, other` and `out`."""
def atanh(input: TensorLike, *, out: Any = None) -> Any:
    """Return `atanh` of each element. Parameters are `input` and `out`."""
def atleast_1d(*tensors: Any) -> Any:
    """Return the tensor with at least 1 axes; several, or a sequence of them, give a tuple."""
def atleast_2d(*tensors: Any) -> Any:
    """Return the tensor with at least 2 axes; several, or a sequence of them, give a tuple."""
def atleast_3d(*tensors: Any) -> Any:
    """Return the tensor with at least 3 axes; several, or a sequence of them, give a tuple."""
def avg_pool1d(input: TensorLike, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: _Bool = False, count_include_pad: _Bool = True) -> Any:
    """Return the mean of each window over the last dimension of (N, C, L) or (C, L)."""
def baddbmm(input: TensorLike, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: TensorLike = 1, out: Any = None) -> Tensor:
    """Return `beta * input + alpha * (batch1 @ batch2)`, of stacks of matrices; see :func:`addmm`."""
def bartlett_window(window_length: _Int, periodic: _Bool = True, *, dtype: DTypeLike | None = None, layout: Any = None, device: _Str | None = None, pin_memory: _Bool = False, requires_grad: _Bool = False) -> Tensor:
    """Return a triangle, 0 at both ends."""
def batch_norm(input: TensorLike, weight: TensorLike, bias: TensorLike, running_mean: Any, running_var: Any, training: _Bool, momentum: _Float, eps: _Float, cudnn_enabled: _Bool = False) -> Tensor:
    """Return :func:`wengert.torch.nn.functional.batch_norm`, with its arguments in another order."""
def bernoulli(input: TensorLike, p: TensorLike | None = None, *, generator: Any = None, out: Any = None) -> Tensor:
    """Return 0 or 1 for each element, the 1 with the probability that it, or `p`, is."""
bfloat16: Any
def bilinear(input1: Any, input2: Any, weight: TensorLike, bias: TensorLike | None = None) -> Tensor:
    """Return x1 A x2 + b with one matrix A for every output. Raises ShapeError."""
def bincount(input: TensorLike, weights: Any = None, minlength: _Int = 0) -> Tensor:
    """Return how often each integer from 0 to the largest element occurs, or the sum of its `weights`."""
def binomial(count: Any, prob: Any, generator: Any = None, *, out: Any = None) -> Tensor:
    """Return counts of successes in so many trials of these probabilities, both tensors of one floating dtype."""
bits16: Any
bits1x8: Any
bits2x4: Any
bits4x2: Any
bits8: Any
def bitwise_and(input: TensorLike, other: TensorLike, *, out: Any = None) -> Any:
    """Return `bitwise_and` of each element. Parameters are `input, other` and `out`."""
def bitwise_left_shift(input: TensorLike, other: TensorLike, *, out: Any = None) -> Any:
    """Return `bitwise_left_shift` of each element. Parameters are `input, other` and `out`."""
def bitwise_not(input: TensorLike, *, out: Any = None) -> Any:
    """Return `bitwise_not` of each element. Parameters are `input` and `out`."""
def bitwise_or(input: TensorLike, other: TensorLike, *, out: Any = None) -> Any:
    """Return `bitwise_or` of each element. Parameters are `input, other` and `out`."""
def bitwise_right_shift(input: TensorLike, other: TensorLike, *, out: Any = None) -> Any:
    """Return `bitwise_right_shift` of each element. Parameters are `input, other` and `out`."""
def bitwise_xor(input: TensorLike, other: TensorLike, *, out: Any = None) -> Any:
    """Return `bitwise_xor` of each element. Parameters are `input, other` and `out`."""
def blackman_window(window_length: _Int, periodic: _Bool = True, *, dtype: DTypeLike | None = None, layout: Any = None, device: _Str | None = None, pin_memory: _Bool = False, requires_grad: _Bool = False) -> Tensor:
    """Return Blackman's window of three cosines."""
def block_diag(*tensors: Any) -> Any:
    """Return a matrix with matrices, vectors and numbers along its diagonal, and zeros elsewhere. Raises ShapeError."""
def bmm(input: TensorLike, mat2: Any, *, out: Any = None) -> Tensor:
    """Return the products of two stacks of matrices, (b, n, m) and (b, m, p). Raises ShapeError for other ranks."""
bool: Any
def broadcast_shapes(*shapes: Any) -> Size:
    """Return the shape that tensors of these shapes broadcast to. Raises ShapeError."""
def broadcast_tensors(*tensors: Any) -> Any:
    """Return tensors repeated to the shape that they have in common. Raises ShapeError."""
def broadcast_to(input: TensorLike, size: Any, *, shape: Any = ...) -> Any:
    """Return the tensor repeated to a shape that it broadcasts to. Raises ShapeError."""
def bucketize(input: TensorLike, boundaries: Any, *, out_int32: _Bool = False, right: _Bool = False, out: Any = None) -> Any:
    """Return the number of the bucket between sorted boundaries that each element falls into. Raises ShapeError."""
def can_cast(from_: Any, to: Any) -> _Bool:
    """Return whether a result of one dtype may be written to another: never to a lesser kind of number."""
def cartesian_prod(*tensors: Any) -> Any:
    """Return the rows that one element of each vector makes, in order; of one vector itself. Raises ShapeError."""
def cat(tensors: Any, dim: _Int = 0, *, out: Any = None) -> Any:
    """Return tensors joined along an axis that they have; ones of shape (0,) are left out. Raises ShapeError."""
def cdist(x1: TensorLike, x2: TensorLike, p: _Float = 2.0, compute_mode: Any = None) -> Tensor:
    """Return the distances of all pairs of a row of `x1` (..., n, d) and one of `x2` (..., m, d)."""
cdouble: Any
def ceil(input: TensorLike, *, out: Any = None) -> Any:
    """Return `ceil` of each element. Parameters are `input` and `out`."""
def celu(input: TensorLike, alpha: _Float = 1.0, inplace: _Bool = False) -> Tensor:
    """Return x where it is positive, else alpha (exp(x / alpha) - 1). Source: Barron 2017, arXiv:1704.07483."""
def celu_(input: TensorLike, alpha: _Float = 1.0, inplace: _Bool = False) -> Tensor:
    """Give the tensor the value of :func:`celu` of it, and return it. Raises GradientError."""
cfloat: Any
def chain_matmul(*matrices: Any, out: Any = None) -> Tensor:
    """Return the product of several matrices, multiplied in the order that costs least."""
chalf: Any
def channel_shuffle(input: TensorLike, groups: _Int) -> Tensor:
    """Return (N, C, ...) with its channels, which fall into groups, taken in turn from each. Raises ShapeError."""
channels_last: Any
channels_last_3d: Any
def cholesky(input: TensorLike, upper: _Bool = False, *, out: Any = None) -> Tensor:
    """Return the triangular factors of positive definite matrices. Raises LinAlgError where one is not."""
def cholesky_inverse(input: TensorLike, upper: _Bool = False, *, out: Any = None) -> Tensor:
    """Return the inverse of a matrix from its Cholesky factor."""
def cholesky_solve(input: TensorLike, L: Any, upper: _Bool = False, *, out: Any = None) -> Tensor:
    """Return the solution x of a x = input from the Cholesky factor of a."""
def chunk(input: TensorLike, chunks: _Int, dim: _Int = 0) -> Any:
    """Return at most `chunks` parts of one size along an axis, the last perhaps smaller. Raises ShapeError."""
def clamp(input: TensorLike, min: TensorLike | None = None, max: TensorLike | None = None, *, out: Any = None) -> Tensor:
    """Return `input`, but at least `min` and at most `max`: numbers, tensors, or None for no bound."""
def clamp_max(input: TensorLike, max: TensorLike, *, out: Any = None) -> Tensor:
    """Return `input`, but at most `max`."""
def clamp_min(input: TensorLike, min: TensorLike, *, out: Any = None) -> Tensor:
    """Return `input`, but at least `min`."""
def clear_autocast_cache() -> None:
    """Do nothing: no casts are kept."""
def clip(input: TensorLike, min: TensorLike | None = None, max: TensorLike | None = None, *, out: Any = None) -> Tensor:
    """Return `input`, but at least `min` and at most `max`: numbers, tensors, or None for no bound."""
def clone(input: TensorLike, *, memory_format: Any = None) -> Any:
    """Return a copy, to which gradients flow through. It lies in memory as the tensor does, unless a format is given."""
def column_stack(tensors: Any, *, out: Any = None) -> Any:
    """Return tensors joined along axis 1, vectors and numbers as columns. Raises ShapeError."""
def combinations(input: TensorLike, r: _Int = 2, with_replacement: _Bool = False) -> Any:
    """Return the rows of `r` elements of a vector, each in the vector's order. Raises ShapeError for other shapes."""
def compile(model: Any = None, *, fullgraph: _Bool = False, dynamic: _Bool | None = None, backend: Any = 'inductor', mode: _Str | None = None, options: Any = None, name: _Str | None = None, disable: _Bool = False, memory: _Int | _Str | None = None, spill: Any = False, **_: Any) -> Any:
    """Return a function or a module compiled by :func:`wengert.jit`; without one, a decorator."""
def complex(real: Any, imag: Any, *, out: Any = None) -> Tensor:
    """Return the complex numbers of real and imaginary parts of one dtype. Raises DTypeError for other than real."""
complex128: Any
complex32: Any
complex64: Any
def concat(tensors: Any, dim: _Int = 0, *, out: Any = None) -> Any:
    """Return tensors joined along an axis that they have; ones of shape (0,) are left out. Raises ShapeError."""
def concatenate(tensors: Any, dim: _Int = 0, *, out: Any = None) -> Any:
    """Return tensors joined along an axis that they have; ones of shape (0,) are left out. Raises ShapeError."""
def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: TensorLike = ...) -> Any:
    """Return `true_fn` or `false_fn` of the operands, by a truth that may be a tensor; see :func:`wengert.cond`."""
def conj(input: TensorLike, *, out: Any = None) -> Any:
    """Return `conj` of each element. Parameters are `input` and `out`."""
def conj_physical(input: TensorLike, *, out: Any = None) -> Any:
    """Return `conj_physical` of each element. Parameters are `input` and `out`."""
def constant_pad_nd(input: TensorLike, pad: Any, value: TensorLike = 0, *, out: Any = None) -> Tensor:
    """Return a tensor with one number around it; see :func:`wengert.torch.nn.functional.pad`."""
contiguous_format: Any
def conv1d(input: TensorLike, weight: TensorLike, bias: TensorLike | None = None, stride: _Size = 1, padding: _Size | _Str = 0, dilation: _Size = 1, groups: _Int = 1) -> Tensor:
    """Return the convolution (cross-correlation) over one dimension: :func:`conv2d` for signals."""
def conv2d(input: TensorLike, weight: TensorLike, bias: TensorLike | None = None, stride: _Size = 1, padding: _Size | _Str = 0, dilation: _Size = 1, groups: _Int = 1) -> Tensor:
    """Return the convolution (cross-correlation) over two dimensions."""
def conv3d(input: TensorLike, weight: TensorLike, bias: TensorLike | None = None, stride: _Size = 1, padding: _Size | _Str = 0, dilation: _Size = 1, groups: _Int = 1) -> Tensor:
    """Return the convolution (cross-correlation) over three dimensions: :func:`conv2d` for volumes."""
def conv_tbc(input: TensorLike, weight: TensorLike, bias: TensorLike, pad: _Int = 0) -> Tensor:
    """Return the convolution of (T, N, C) with kernels (K, C, O) over time, with `pad` zeros at both ends."""
def conv_transpose1d(input: TensorLike, weight: TensorLike, bias: TensorLike | None = None, stride: _Size = 1, padding: _Size = 0, output_padding: _Size = 0, groups: _Int = 1, dilation: _Size = 1) -> Tensor:
    """Return the transposed convolution over one dimension: :func:`conv_transpose2d` for signals."""
def conv_transpose2d(input: TensorLike, weight: TensorLike, bias: TensorLike | None = None, stride: _Size = 1, padding: _Size = 0, output_padding: _Size = 0, groups: _Int = 1, dilation: _Size = 1) -> Tensor:
    """Return the transposed convolution over two dimensions: the gradient of :func:`conv2d` in its input."""
def conv_transpose3d(input: TensorLike, weight: TensorLike, bias: TensorLike | None = None, stride: _Size = 1, padding: _Size = 0, output_padding: _Size = 0, groups: _Int = 1, dilation: _Size = 1) -> Tensor:
    """Return the transposed convolution over three dimensions: :func:`conv_transpose2d` for volumes."""
def copysign(input: TensorLike, other: TensorLike, *, out: Any = None) -> Any:
    """Return `copysign` of each element. Parameters are `input, other` and `out`."""
def corrcoef(input: TensorLike) -> Tensor:
    """Return the coefficients of correlation of variables, the rows of a matrix. Raises ShapeError."""
def cos(input: TensorLike, *, out: Any = None) -> Any:
    """Return `cos` of each element. Parameters are `input` and `out`."""
def cosh(input: TensorLike, *, out: Any = None) -> Any:
    """Return `cosh` of each element. Parameters are `input` and `out`."""
def cosine_similarity(x1: TensorLike, x2: TensorLike, axis: _Int = 1, eps: _Float = 1e-08, *, dim: Axes | None = ...) -> Tensor:
    """Return the cosine of the angle between vectors along an axis; both broadcast."""
def count_nonzero(input: TensorLike, dim: Any = None) -> Tensor:
    """Return how many elements are not 0, of all or along an axis or several."""
def cov(input: TensorLike, *, correction: _Int = 1, fweights: Any = None, aweights: Any = None) -> Tensor:
    """Return the covariances of variables, the rows of a matrix; of a vector, its variance."""
def cross(input: TensorLike, other: TensorLike, dim: _Int | None = None, *, out: Any = None) -> Tensor:
    """Return the cross products of vectors of three along an axis: `dim`, else the first of that size."""
def ctc_loss(log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: _Int = 0, reduction: _Str = 'mean', zero_infinity: _Bool = False) -> Tensor:
    """Return minus the log-probability of label sequences, over all their alignments with longer sequences."""
def cummax(input: TensorLike, dim: _Int, *, out: Any = None) -> Any:
    """Return the largest element so far along an axis, and its index: the last of equals."""
def cummin(input: TensorLike, dim: _Int, *, out: Any = None) -> Any:
    """Return the smallest element so far along an axis, and its index: the last of equals."""
def cumprod(input: TensorLike, dim: _Int, *, dtype: DTypeLike | None = None, out: Any = None) -> Any:
    """Return the running products along an axis."""
def cumsum(input: TensorLike, dim: _Int, *, dtype: DTypeLike | None = None, out: Any = None) -> Any:
    """Return the running sums along an axis."""
def cumulative_trapezoid(y: TensorLike, x: TensorLike | None = None, *, dx: Any = None, dim: _Int = -1) -> Tensor:
    """Return the running integral along an axis by the trapezoidal rule; see `trapezoid`."""
default_generator: Any
def deg2rad(input: TensorLike, *, out: Any = None) -> Any:
    """Return `deg2rad` of each element. Parameters are `input` and `out`."""
def det(input: TensorLike) -> Tensor:
    """Return the determinants of square matrices."""
def detach(input: TensorLike) -> Tensor:
    """Return the tensor without what it was computed from: no gradient flows through it; see `Tensor.detach`."""
def detach_copy(input: TensorLike, *args: Axes, out: Any = None, **kwargs: Any) -> Any:
    """Return a copy of what `detach` gives."""
def diag(input: TensorLike, diagonal: _Int = 0, *, out: Any = None) -> Any:
    """Return the diagonal of a matrix, or the square matrix with a vector on it. Raises ShapeError."""
def diag_embed(input: TensorLike, offset: _Int = 0, dim1: _Int = -2, dim2: _Int = -1) -> Any:
    """Return square matrices in two new axes with the last axis on a diagonal, zeros elsewhere. Raises ShapeError."""
def diagflat(input: TensorLike, offset: _Int = 0) -> Any:
    """Return the square matrix that has the elements on a diagonal."""
def diagonal(input: TensorLike, offset: _Int = 0, dim1: _Int = 0, dim2: _Int = 1) -> Any:
    """Return a diagonal of the matrices in two axes, as the last axis of the result. Raises ShapeError."""
def diagonal_copy(input: TensorLike, *args: Axes, out: Any = None, **kwargs: Any) -> Any:
    """Return a copy of what `diagonal` gives."""
def diagonal_scatter(input: TensorLike, src: TensorLike, *args: Axes, **kwargs: Any) -> Any:
    """Return the tensor with a diagonal replaced by `src`. Raises ShapeError."""
def diff(input: TensorLike, n: _Int = 1, dim: _Int = -1, prepend: TensorLike | None = None, append: TensorLike | None = None, *, out: Any = None) -> Tensor:
    """Return the differences of neighbours along an axis, taken `n` times."""
def digamma(input: TensorLike, *, out: Any = None) -> Any:
    """Return `digamma` of each element. Parameters are `input` and `out`."""
def dist(input: TensorLike, other: TensorLike, p: _Float = 2) -> Tensor:
    """Return the norm of order `p` of the difference of two tensors."""
def div(input: TensorLike, other: TensorLike, *, rounding_mode: _Str | None = None, out: Any = None) -> Tensor:
    """Return `input / other`, as it is or rounded by `rounding_mode`: "trunc" (toward 0) or "floor"."""
def divide(input: TensorLike, other: TensorLike, *, rounding_mode: _Str | None = None, out: Any = None) -> Tensor:
    """Return `input / other`, as it is or rounded by `rounding_mode`: "trunc" (toward 0) or "floor"."""
def dot(input: TensorLike, tensor: Any, *, out: Any = None) -> Tensor:
    """Return the sum of products of two vectors' elements, without conjugation. Raises ShapeError for other ranks."""
double: Any
def dropout(input: TensorLike, p: _Float, train: _Bool) -> Tensor:
    """Return elements set to 0 with probability `p`, the others divided by 1 - p, where `train`."""
def dsplit(input: TensorLike, indices_or_sections: Any, *, indices: Any = ..., sections: Any = ...) -> Any:
    """Return equal parts, or those between indices, along axis 2. Raises ShapeError."""
def dstack(tensors: Any, *, out: Any = None) -> Any:
    """Return tensors of at least 3 axes joined along axis 2. Raises ShapeError."""
def einsum(*args: Axes) -> Tensor:
    """Return a sum of products over index letters: `einsum("ij,jk->ik", a, b)`."""
def embedding(weight: TensorLike, indices: TensorLike) -> Tensor:
    """Return the rows of a table that ids name: `weight[indices]`."""
def empty(*size: Any, out: Any = None, dtype: DTypeLike | None = None, layout: Any = None, device: _Str | None = None, requires_grad: _Bool = False, pin_memory: _Bool = False, generator: Any = None, **more: Any) -> Tensor:
    """Return an uninitialised tensor; parameters as in :func:`wengert."""
def empty_like(input: TensorLike, *, dtype: DTypeLike | None = None, layout: Any = None, device: _Str | None = None, requires_grad: _Bool = False, memory_format: Any = None, generator: Any = None) -> Tensor:
    """Return `empty` in the shape and, unless `dtype` is given, the dtype of `input`."""
def empty_strided(size: Any, stride: Any, *, dtype: DTypeLike | None = None, layout: Any = None, device: _Str | None = None, requires_grad: _Bool = False, pin_memory: _Bool = False) -> Tensor:
    """Return a tensor of zeros that lies in memory at strides, given in elements. Raises ShapeError for negative ones."""
def eq(input: TensorLike, other: TensorLike, *, out: Any = None) -> Any:
    """Return `eq` of each element. Parameters are `input, other` and `out`."""
def equal(input: TensorLike, other: TensorLike) -> _Bool:
    """Return whether two tensors have one shape and equal elements, as a Python bool."""
def erf(input: TensorLike, *, out: Any = None) -> Any:
    """Return `erf` of each element. Parameters are `input` and `out`."""
def erfc(input: TensorLike, *, out: Any = None) -> Any:
    """Return `erfc` of each element. Parameters are `input` and `out`."""
def erfinv(input: TensorLike, *, out: Any = None) -> Any:
    """Return `erfinv` of each element. Parameters are `input` and `out`."""
def exp(input: TensorLike, *, out: Any = None) -> Any:
    """Return `exp` of each element. Parameters are `input` and `out`."""
def exp2(input: TensorLike, *, out: Any = None) -> Any:
    """Return `exp2` of each element. Parameters are `input` and `out`."""
def expand_copy(input: TensorLike, *args: Axes, out: Any = None, **kwargs: Any) -> Any:
    """Return a copy of what `expand` gives."""
def expm1(input: TensorLike, *, out: Any = None) -> Any:
    """Return `expm1` of each element. Parameters are `input` and `out`."""
def eye(n: _Int, m: _Int | None = None, *, out: Any = None, dtype: DTypeLike | None = None, layout: Any = None, device: _Str | None = None, requires_grad: _Bool = False) -> Tensor:
    """Return a matrix with ones on its diagonal and zeros elsewhere."""
def feature_alpha_dropout(input: TensorLike, p: _Float, train: _Bool) -> Tensor:
    """Return :func:`alpha_dropout` of whole channels of (N, C, ...), where `train`."""
def feature_dropout(input: TensorLike, p: _Float, train: _Bool) -> Tensor:
    """Return whole channels of (N, C, ...) set to 0 with probability `p`, the others divided by 1 - p."""
def fill(input: TensorLike, value: TensorLike) -> Any:
    """Return a tensor of the same shape and dtype with one number, through which gradients flow. Raises ShapeError."""
def fix(input: TensorLike, *, out: Any = None) -> Any:
    """Return `fix` of each element. Parameters are `input` and `out`."""
def flatten(input: TensorLike, start_dim: _Int = 0, end_dim: _Int = -1) -> Any:
    """Return the axes from `start_dim` to `end_dim`, inclusive, merged into one. Raises ShapeError."""
def flip(input: TensorLike, *dims: Axes, **named: Any) -> Any:
    """Return the elements in reverse order along axes, given one by one or as a sequence. Raises ShapeError."""
def fliplr(input: TensorLike) -> Any:
    """Return the elements in reverse order along axis 1. Raises ShapeError where there is none."""
def flipud(input: TensorLike) -> Any:
    """Return the elements in reverse order along axis 0. Raises ShapeError where there is none."""
float: Any
float16: Any
float32: Any
float4_e2m1fn_x2: Any
float64: Any
float8_e4m3fn: Any
float8_e4m3fnuz: Any
float8_e5m2: Any
float8_e5m2fnuz: Any
float8_e8m0fnu: Any
def float_power(input: TensorLike, exponent: Any, *, out: Any = None) -> Tensor:
    """Return `input ** exponent`, computed in float64 or complex128."""
def floor(input: TensorLike, *, out: Any = None) -> Any:
    """Return `floor` of each element. Parameters are `input` and `out`."""
def floor_divide(input: TensorLike, other: TensorLike, *, out: Any = None) -> Any:
    """Return `floor_divide` of each element. Parameters are `input, other` and `out`."""
def fmax(input: TensorLike, other: TensorLike, *, out: Any = None) -> Any:
    """Return `fmax` of each element. Parameters are `input, other` and `out`."""
def fmin(input: TensorLike, other: TensorLike, *, out: Any = None) -> Any:
    """Return `fmin` of each element. Parameters are `input, other` and `out`."""
def fmod(input: TensorLike, other: TensorLike, *, out: Any = None) -> Any:
    """Return `fmod` of each element. Parameters are `input, other` and `out`."""
def frac(input: TensorLike, *, out: Any = None) -> Any:
    """Return `frac` of each element. Parameters are `input` and `out`."""
def frexp(input: TensorLike, *, out: Any = None) -> Any:
    """Return `(mantissa, exponent)` with `mantissa * 2 ** exponent` the input, and the mantissa in [0.5, 1)."""
def from_dlpack(ext_tensor: Any) -> Tensor:
    """Return a tensor of any array on the processor that speaks DLPack, in its memory: writes to either reach both."""
def from_numpy(ndarray: Any) -> Tensor:
    """Return a tensor that shares the memory of a NumPy array: a write to either is seen by both."""
def frombuffer(buffer: Any, *, dtype: DTypeLike, count: _Int = -1, offset: _Int = 0, requires_grad: _Bool = False) -> Tensor:
    """Return a tensor of one axis in the memory of an object with Python's buffer protocol (bytes, an array)."""
def full(size: Any, fill_value: TensorLike, *, out: Any = None, dtype: DTypeLike | None = None, layout: Any = None, device: _Str | None = None, requires_grad: _Bool = False) -> Tensor:
    """Return a tensor filled with one number, whose kind decides the dtype where none is given."""
def full_like(input: TensorLike, fill_value: TensorLike, *, dtype: DTypeLike | None = None, layout: Any = None, device: _Str | None = None, requires_grad: _Bool = False, memory_format: Any = None) -> Tensor:
    """Return one number in the shape and, unless `dtype` is given, the dtype of `input`."""
def gather(input: TensorLike, dim: _Int, index: TensorLike, *, sparse_grad: _Bool = False, out: Any = None) -> Any:
    """Return `out[i][j] = input[index[i][j]][j]` along axis 0, and so on for other axes."""
def gcd(input: TensorLike, other: TensorLike, *, out: Any = None) -> Any:
    """Return `gcd` of each element. Parameters are `input, other` and `out`."""
def ge(input: TensorLike, other: TensorLike, *, out: Any = None) -> Any:
    """Return `ge` of each element. Parameters are `input, other` and `out`."""
def geqrf(input: TensorLike, *, out: Any = None) -> Any:
    """Return the upper factor of Q R with the vectors of reflections below it, and their scales."""
def ger(input: TensorLike, vec2: Any, *, out: Any = None) -> Tensor:
    """Return all products of an element of one vector and one of the other. Raises ShapeError for other ranks."""
def get_autocast_cpu_dtype() -> Any:
    """Return the dtype that an autocast has on the processor where none is named."""
def get_autocast_dtype(device_type: _Str) -> Any:
    """Return the dtype that an autocast has where none is named: on "cpu" bfloat16, unless another was set."""
def get_autocast_gpu_dtype() -> Any:
    """Return the dtype that PyTorch's autocast has by default on a GPU."""
def get_default_device() -> device:
    """Return the processor."""
def get_default_dtype() -> Any:
    """Return the dtype of floating numbers that bring none of their own."""
def get_deterministic_debug_mode() -> _Int:
    """Return the number of the mode that was set last."""
def get_float32_matmul_precision() -> _Str:
    """Return the precision that was set last."""
def get_num_interop_threads() -> _Int:
    """Return the number that was set last, 1 in the beginning."""
def get_num_threads() -> _Int:
    """Return how many threads compiled functions and large operations use."""
def get_rng_state() -> Tensor:
    """Return the state of the default generator: bytes in a tensor."""
def gradient(input: TensorLike, *, spacing: Any = None, dim: Any = None, edge_order: _Int = 1) -> tuple[Tensor, ...]:
    """Return the estimates of derivatives along axes by differences: central ones inside, one-sided at the edges."""
def greater(input: TensorLike, other: TensorLike, *, out: Any = None) -> Any:
    """Return `greater` of each element. Parameters are `input, other` and `out`."""
def greater_equal(input: TensorLike, other: TensorLike, *, out: Any = None) -> Any:
    """Return `greater_equal` of each element. Parameters are `input, other` and `out`."""
def group_norm(input: TensorLike, num_groups: _Int, weight: TensorLike | None = None, bias: TensorLike | None = None, eps: _Float = 1e-05, cudnn_enabled: _Bool = True) -> Tensor:
    """Return :func:`wengert.torch.nn.functional.group_norm`."""
def gt(input: TensorLike, other: TensorLike, *, out: Any = None) -> Any:
    """Return `gt` of each element. Parameters are `input, other` and `out`."""
half: Any
def hamming_window(window_length: _Int, periodic: _Bool = True, alpha: _Float = 0.54, beta: _Float = 0.46, *, dtype: DTypeLike | None = None, layout: Any = None, device: _Str | None = None, pin_memory: _Bool = False, requires_grad: _Bool = False) -> Tensor:
    """Return Hamming's window, `alpha` less `beta` times a cosine."""
def hann_window(window_length: _Int, periodic: _Bool = True, *, dtype: DTypeLike | None = None, layout: Any = None, device: _Str | None = None, pin_memory: _Bool = False, requires_grad: _Bool = False) -> Tensor:
    """Return Hann's window, half of 1 plus a cosine."""
def hardshrink(input: TensorLike, lambd: _Float = 0.5) -> Tensor:
    """Return x, and 0 where it lies within `lambd` of 0."""
def heaviside(input: TensorLike, values: Any, *, out: Any = None) -> Tensor:
    """Return 0 below 0, 1 above it."""
def histc(input: TensorLike, bins: _Int = 100, min: _Float = 0, max: _Float = 0, *, out: Any = None) -> Tensor:
    """Return how many elements fall into each of `bins` equal parts of min .. max, or of what the elements span."""
def histogram(input: TensorLike, bins: Any, *, range: Any = None, weight: TensorLike | None = None, density: _Bool = False, out: Any = None) -> Any:
    """Return how many elements fall between neighbouring edges, and the edges."""
def histogramdd(input: TensorLike, bins: Any, *, range: Any = None, weight: TensorLike | None = None, density: _Bool = False) -> Any:
    """Return how many points, the rows of the last axis, fall into each cell of a grid, and the edges of each axis."""
def hsplit(input: TensorLike, indices_or_sections: Any, *, indices: Any = ..., sections: Any = ...) -> Any:
    """Return equal parts, or those between indices, along axis 1. Raises ShapeError."""
def hstack(tensors: Any, *, out: Any = None) -> Any:
    """Return tensors of at least 1 axes joined along axis 1. Raises ShapeError."""
def hypot(input: TensorLike, other: TensorLike, *, out: Any = None) -> Any:
    """Return `hypot` of each element. Parameters are `input, other` and `out`."""
def i0(input: TensorLike, *, out: Any = None) -> Any:
    """Return `i0` of each element. Parameters are `input` and `out`."""
def igamma(input: TensorLike, other: TensorLike, *, out: Any = None) -> Any:
    """Return `igamma` of each element. Parameters are `input, other` and `out`."""
def igammac(input: TensorLike, other: TensorLike, *, out: Any = None) -> Any:
    """Return `igammac` of each element. Parameters are `input, other` and `out`."""
def imag(input: TensorLike, *, out: Any = None) -> Any:
    """Return `imag` of each element. Parameters are `input` and `out`."""
def index_add(input: TensorLike, dim: _Int, index: TensorLike, source: TensorLike, *, alpha: TensorLike = 1, out: Any = None) -> Any:
    """Return the tensor with `alpha` times the slices of `source` added at a vector of integers along an axis."""
def index_copy(input: TensorLike, dim: _Int, index: TensorLike, source: TensorLike, *, out: Any = None) -> Any:
    """Return the tensor with the slices at a vector of integers along an axis replaced. Raises ShapeError."""
def index_fill(input: TensorLike, dim: _Int, index: TensorLike, value: TensorLike) -> Any:
    """Return the tensor with one number in its slices at a vector of integers along an axis. Raises RangeError."""
def index_put(input: TensorLike, indices: TensorLike, values: Any, accumulate: _Bool = False) -> Any:
    """Return the tensor with the elements at `input[indices]` replaced or, with `accumulate`, increased."""
def index_reduce(input: TensorLike, dim: _Int, index: TensorLike, source: TensorLike, reduce: _Str, *, include_self: _Bool = True, out: Any = None) -> Any:
    """Return the tensor with what `source` brings to slices reduced: "prod", "mean", "amax" or "amin"."""
def index_select(input: TensorLike, dim: _Int, index: TensorLike, *, out: Any = None) -> Any:
    """Return the slices at a vector of integers along an axis. Raises ShapeError, RangeError."""
def initial_seed() -> _Int:
    """Return the last seed that the default generator was given."""
def inner(input: TensorLike, other: TensorLike, *, out: Any = None) -> Tensor:
    """Return the sums of products along the last axis of both; with a 0-d tensor, the product."""
def instance_norm(input: TensorLike, weight: TensorLike, bias: TensorLike, running_mean: Any, running_var: Any, use_input_stats: _Bool, momentum: _Float, eps: _Float, cudnn_enabled: _Bool = False) -> Tensor:
    """Return :func:`wengert.torch.nn.functional.instance_norm`, with its arguments in another order."""
int: Any
int1: Any
int16: Any
int2: Any
int3: Any
int32: Any
int4: Any
int5: Any
int6: Any
int64: Any
int7: Any
int8: Any
def inverse(input: TensorLike, *, out: Any = None) -> Tensor:
    """Return the inverses of square matrices. Raises LinAlgError for a singular one."""
def is_autocast_cache_enabled() -> _Bool:
    """Return False: no casts are kept."""
def is_autocast_cpu_enabled() -> _Bool:
    """Return whether an autocast is on in this thread."""
def is_autocast_enabled(device_type: _Str | None = None) -> _Bool:
    """Return whether an autocast is on in this thread; for other devices than "cpu", and for none, False."""
def is_complex(input: TensorLike) -> _Bool:
    """Return whether the tensor's dtype is complex."""
def is_conj(input: TensorLike) -> Tensor:
    """Return False: conjugates are computed, not marked."""
def is_deterministic_algorithms_warn_only_enabled() -> _Bool:
    """Return the `warn_only` that :func:`use_deterministic_algorithms` was given last."""
def is_floating_point(input: TensorLike) -> _Bool:
    """Return whether the tensor's dtype is real floating."""
def is_inference(input: TensorLike) -> _Bool:
    """Return False: tensors made under `inference_mode` are ordinary ones."""
def is_inference_mode_enabled() -> _Bool:
    """Return whether the innermost :class:`inference_mode` block is on."""
def is_neg(input: TensorLike) -> Tensor:
    """Return False: negatives are computed, not marked."""
def is_nonzero(input: TensorLike) -> _Bool:
    """Return whether the one element of a tensor is not 0. Raises ShapeError where there is not one."""
def is_same_size(self: Any, other: Plain) -> _Bool:
    """Return whether both have one shape."""
def is_signed(self: Any) -> _Bool:
    """Return whether the dtype has negative numbers."""
def is_storage(obj: Any) -> _Bool:
    """Return whether an object is the storage of a tensor."""
def is_tensor(obj: Any) -> _Bool:
    """Return whether `obj` is a tensor."""
def is_warn_always_enabled() -> _Bool:
    """Return what :func:`set_warn_always` was given last."""
def isclose(input: TensorLike, other: TensorLike, rtol: _Float = 1e-05, atol: _Float = 1e-08, equal_nan: _Bool = False) -> Tensor:
    """Return whether |input - other| <= atol + rtol |other|, element by element."""
def isfinite(input: TensorLike, *, out: Any = None) -> Any:
    """Return `isfinite` of each element. Parameters are `input` and `out`."""
def isin(elements: Any, test_elements: Any, *, assume_unique: _Bool = False, invert: _Bool = False, out: Any = None) -> Any:
    """Return for each element whether it is among the others, or with `invert` whether it is not."""
def isinf(input: TensorLike, *, out: Any = None) -> Any:
    """Return `isinf` of each element. Parameters are `input` and `out`."""
def isnan(input: TensorLike, *, out: Any = None) -> Any:
    """Return `isnan` of each element. Parameters are `input` and `out`."""
def isneginf(input: TensorLike, *, out: Any = None) -> Any:
    """Return `isneginf` of each element. Parameters are `input` and `out`."""
def isposinf(input: TensorLike, *, out: Any = None) -> Any:
    """Return `isposinf` of each element. Parameters are `input` and `out`."""
def isreal(input: TensorLike, *, out: Any = None) -> Any:
    """Return `isreal` of each element. Parameters are `input` and `out`."""
def istft(input: TensorLike, n_fft: _Int, hop_length: _Int | None = None, win_length: _Int | None = None, window: Any = None, center: _Bool = True, normalized: _Bool = False, onesided: _Bool | None = None, length: _Int | None = None, return_complex: _Bool = False) -> Tensor:
    """Return the signal whose frames' transforms come nearest to `input`, the inverse of :func:`stft`."""
jagged: Any
def kaiser_window(window_length: _Int, periodic: _Bool = True, beta: _Float = 12.0, *, dtype: DTypeLike | None = None, layout: Any = None, device: _Str | None = None, pin_memory: _Bool = False, requires_grad: _Bool = False) -> Tensor:
    """Return Kaiser's window, of Bessel functions."""
def kron(input: TensorLike, other: TensorLike, *, out: Any = None) -> Tensor:
    """Return the Kronecker product: every element of `input` times all of `other`."""
def kthvalue(input: TensorLike, k: _Int, dim: _Int = -1, keepdim: _Bool = False, *, out: Any = None) -> Any:
    """Return the `k`-th smallest elements along an axis, counted from 1, and their indices. Raises RangeError."""
def layer_norm(input: TensorLike, normalized_shape: Any, weight: TensorLike | None = None, bias: TensorLike | None = None, eps: _Float = 1e-05, cudnn_enable: _Bool = True) -> Tensor:
    """Return :func:`wengert.torch.nn.functional.layer_norm`."""
def lcm(input: TensorLike, other: TensorLike, *, out: Any = None) -> Any:
    """Return `lcm` of each element. Parameters are `input, other` and `out`."""
def ldexp(input: TensorLike, other: TensorLike, *, out: Any = None) -> Any:
    """Return `ldexp` of each element. Parameters are `input, other` and `out`."""
def le(input: TensorLike, other: TensorLike, *, out: Any = None) -> Any:
    """Return `le` of each element. Parameters are `input, other` and `out`."""
def lerp(input: TensorLike, end: TensorLike, weight: TensorLike, *, out: Any = None) -> Tensor:
    """Return `input + weight * (end - input)`, which is exactly `end` where the weight is 1."""
def less(input: TensorLike, other: TensorLike, *, out: Any = None) -> Any:
    """Return `less` of each element. Parameters are `input, other` and `out`."""
def less_equal(input: TensorLike, other: TensorLike, *, out: Any = None) -> Any:
    """Return `less_equal` of each element. Parameters are `input, other` and `out`."""
def lgamma(input: TensorLike, *, out: Any = None) -> Any:
    """Return `lgamma` of each element. Parameters are `input` and `out`."""
def linspace(start: TensorLike, end: TensorLike, steps: _Int, *, out: Any = None, dtype: DTypeLike | None = None, layout: Any = None, device: _Str | None = None, requires_grad: _Bool = False) -> Tensor:
    """Return `steps` numbers evenly from `start` to `end`, which both belong to them; complex where one of them is."""
def load(f: Any, map_location: Any = None, pickle_module: Any = None, *, weights_only: _Bool | None = None, mmap: _Bool | None = None, **pickle_load_args: Any) -> Any:
    """Return what :func:`save`, or PyTorch's, wrote to a file, in either of PyTorch's formats."""
def log(input: TensorLike, *, out: Any = None) -> Any:
    """Return `log` of each element. Parameters are `input` and `out`."""
def log10(input: TensorLike, *, out: Any = None) -> Any:
    """Return `log10` of each element. Parameters are `input` and `out`."""
def log1p(input: TensorLike, *, out: Any = None) -> Any:
    """Return `log1p` of each element. Parameters are `input` and `out`."""
def log2(input: TensorLike, *, out: Any = None) -> Any:
    """Return `log2` of each element. Parameters are `input` and `out`."""
def log_softmax(input: TensorLike, dim: _Int, dtype: DTypeLike | None = None) -> Any:
    """Return the logarithms of `softmax`, without overflow."""
def logaddexp(input: TensorLike, other: TensorLike, *, out: Any = None) -> Any:
    """Return `logaddexp` of each element. Parameters are `input, other` and `out`."""
def logaddexp2(input: TensorLike, other: TensorLike, *, out: Any = None) -> Any:
    """Return `logaddexp2` of each element. Parameters are `input, other` and `out`."""
def logcumsumexp(input: TensorLike, dim: _Int, *, out: Any = None) -> Tensor:
    """Return the logarithms of the running sums of exp along an axis, without overflow."""
def logdet(input: TensorLike) -> Tensor:
    """Return the logarithms of determinants: NaN of negative ones, -inf of 0."""
def logical_and(input: TensorLike, other: TensorLike, *, out: Any = None) -> Any:
    """Return `logical_and` of each element. Parameters are `input, other` and `out`."""
def logical_not(input: TensorLike, *, out: Any = None) -> Any:
    """Return `logical_not` of each element. Parameters are `input` and `out`."""
def logical_or(input: TensorLike, other: TensorLike, *, out: Any = None) -> Any:
    """Return `logical_or` of each element. Parameters are `input, other` and `out`."""
def logical_xor(input: TensorLike, other: TensorLike, *, out: Any = None) -> Any:
    """Return `logical_xor` of each element. Parameters are `input, other` and `out`."""
def logit(input: TensorLike, eps: _Float | None = None, *, out: Any = None) -> Tensor:
    """Return log(x / (1 - x)); with `eps` of the elements clamped between it and 1 - eps."""
def logspace(start: TensorLike, end: TensorLike, steps: _Int, base: _Float = 10.0, *, out: Any = None, dtype: DTypeLike | None = None, layout: Any = None, device: _Str | None = None, requires_grad: _Bool = False) -> Tensor:
    """Return `base` to the powers that `linspace` gives."""
def logsumexp(input: TensorLike, dim: Any, keepdim: _Bool = False, *, out: Any = None) -> Tensor:
    """Return log(sum(exp(x))) along an axis or several, without overflow."""
long: Any
def lt(input: TensorLike, other: TensorLike, *, out: Any = None) -> Any:
    """Return `lt` of each element. Parameters are `input, other` and `out`."""
def lu(A: Any, pivot: _Bool = True, get_infos: _Bool = False, *, out: Any = None) -> Any:
    """Return both triangular factors in one and the exchanges of rows; with `get_infos` where a pivot is 0."""
def lu_solve(input: TensorLike, LU_data: Any, LU_pivots: Any, *, out: Any = None) -> Tensor:
    """Return the solution x of a x = input from the LU factors of a."""
def lu_unpack(LU_data: Any, LU_pivots: Any, unpack_data: _Bool = True, unpack_pivots: _Bool = True, *, out: Any = None) -> Any:
    """Return the permutation and both triangular factors from what :func:`lu` gave; those not asked for are empty."""
def manual_seed(seed: Any) -> Any:
    """Seed the default generator, and return it."""
def masked_fill(input: TensorLike, mask: TensorLike, value: TensorLike) -> Any:
    """Return the tensor with one number where the mask, which broadcasts with it, holds. Raises DTypeError."""
def masked_scatter(input: TensorLike, mask: TensorLike, source: TensorLike) -> Any:
    """Return the tensor with the elements of `source`, in order, where the mask holds. Raises ShapeError."""
def masked_select(input: TensorLike, mask: TensorLike, *, out: Any = None) -> Any:
    """Return the elements where the mask holds, which broadcasts with the tensor, as a vector."""
def matmul(input: TensorLike, other: TensorLike, *, out: Any = None) -> Tensor:
    """Return the product of matrices, of vectors, or of stacks of matrices; see :func:`wengert.matmul`."""
def matrix_exp(input: TensorLike) -> Tensor:
    """Return the exponentials of square matrices."""
def matrix_power(input: TensorLike, n: _Int, *, out: Any = None) -> Tensor:
    """Return square matrices to an integer power; a negative one is of the inverse."""
def max(input: TensorLike, dim: Any = None, keepdim: _Bool = False, *, other: TensorLike | None = None, out: Any = None) -> Any:
    """Return the largest element; along `dim` such elements and their indices; the larger of two tensors."""
def max_pool1d(input: TensorLike, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: _Bool = False, return_indices: _Bool = False) -> Any:
    """Return the maximum of each window over the last dimension of (N, C, L) or (C, L)."""
def max_pool2d(input: TensorLike, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: _Bool = False, return_indices: _Bool = False) -> Any:
    """Return the maximum of each window over the last two dimensions of (N, C, H, W) or (C, H, W)."""
def max_pool3d(input: TensorLike, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: _Bool = False, return_indices: _Bool = False) -> Any:
    """Return the maximum of each window over the last three dimensions of (N, C, D, H, W) or (C, D, H, W)."""
def maximum(input: TensorLike, other: TensorLike, *, out: Any = None) -> Any:
    """Return `maximum` of each element. Parameters are `input, other` and `out`."""
def mean(input: TensorLike, dim: Any = None, keepdim: _Bool = False, *, dtype: DTypeLike | None = None, out: Any = None) -> Tensor:
    """Return the mean of all elements, or along an axis or several. `dtype` is converted to first."""
def median(input: TensorLike, dim: _Int | None = None, keepdim: _Bool = False, *, out: Any = None) -> Any:
    """Return the middle element, the lower of two; along `dim` such elements and their indices. NaN where there is one."""
def meshgrid(*tensors: Any, indexing: Any = 'ij') -> Any:
    """Return coordinate tensors of the grid that vectors span: "ij" has the first vector along the first axis."""
def min(input: TensorLike, dim: Any = None, keepdim: _Bool = False, *, other: TensorLike | None = None, out: Any = None) -> Any:
    """Return the smallest element; along `dim` such elements and their indices; the smaller of two tensors."""
def minimum(input: TensorLike, other: TensorLike, *, out: Any = None) -> Any:
    """Return `minimum` of each element. Parameters are `input, other` and `out`."""
def mm(input: TensorLike, mat2: Any, *, out: Any = None) -> Tensor:
    """Return the product of two matrices, (n, m) and (m, p). Raises ShapeError for other ranks."""
def mode(input: TensorLike, dim: _Int = -1, keepdim: _Bool = False, *, out: Any = None) -> Any:
    """Return the commonest elements along an axis, the smallest of several, and the index of their last occurrence."""
def moveaxis(input: TensorLike, source: TensorLike, destination: Any) -> Any:
    """Return the tensor with axes moved to other places, the rest in their order. Raises ShapeError."""
def movedim(input: TensorLike, source: TensorLike, destination: Any) -> Any:
    """Return the tensor with axes moved to other places, the rest in their order. Raises ShapeError."""
def msort(input: TensorLike, *, out: Any = None) -> Tensor:
    """Return the elements in order along the first axis."""
def mul(input: TensorLike, other: TensorLike, *, out: Any = None) -> Any:
    """Return `mul` of each element. Parameters are `input, other` and `out`."""
def multinomial(input: TensorLike, num_samples: _Int, replacement: _Bool = False, *, generator: Any = None, out: Any = None) -> Tensor:
    """Return indices drawn from rows of weights; see :func:`wengert.random.multinomial`."""
def multiply(input: TensorLike, other: TensorLike, *, out: Any = None) -> Any:
    """Return `multiply` of each element. Parameters are `input, other` and `out`."""
def mv(input: TensorLike, vec: Any, *, out: Any = None) -> Tensor:
    """Return the product of a matrix (n, m) and a vector (m,). Raises ShapeError for other ranks."""
def mvlgamma(input: TensorLike, p: _Int, *, out: Any = None) -> Tensor:
    """Return the logarithm of the multivariate gamma function of dimension `p`."""
def nan_to_num(input: TensorLike, nan: _Float = 0.0, posinf: _Float | None = None, neginf: _Float | None = None, *, out: Any = None) -> Tensor:
    """Return the elements, with numbers for NaN and the infinities: by default 0 and the largest of the dtype."""
def nanmean(input: TensorLike, dim: Any = None, keepdim: _Bool = False, *, dtype: DTypeLike | None = None, out: Any = None) -> Tensor:
    """Return the mean of the elements that are not NaN; NaN where there are none."""
def nanmedian(input: TensorLike, dim: _Int | None = None, keepdim: _Bool = False, *, out: Any = None) -> Any:
    """Return the middle of the elements that are not NaN; along `dim` such elements and their indices."""
def nanquantile(input: TensorLike, q: Any, dim: _Int | None = None, keepdim: _Bool = False, *, interpolation: _Str = 'linear', out: Any = None) -> Any:
    """Return the quantiles `q` of the elements that are not NaN; see `quantile`."""
def nansum(input: TensorLike, dim: Any = None, keepdim: _Bool = False, *, dtype: DTypeLike | None = None, out: Any = None) -> Tensor:
    """Return the sum with NaN as 0."""
def narrow(input: TensorLike, dim: _Int, start: TensorLike, length: _Int) -> Any:
    """Return `length` slices from `start` on along an axis. Raises RangeError where the axis ends before."""
def narrow_copy(input: TensorLike, *args: Axes, out: Any = None, **kwargs: Any) -> Any:
    """Return a copy of what `narrow` gives."""
def ne(input: TensorLike, other: TensorLike, *, out: Any = None) -> Any:
    """Return `ne` of each element. Parameters are `input, other` and `out`."""
def neg(input: TensorLike, *, out: Any = None) -> Any:
    """Return `neg` of each element. Parameters are `input` and `out`."""
def negative(input: TensorLike, *, out: Any = None) -> Any:
    """Return `negative` of each element. Parameters are `input` and `out`."""
def nextafter(input: TensorLike, other: TensorLike, *, out: Any = None) -> Any:
    """Return `nextafter` of each element. Parameters are `input, other` and `out`."""
def nonzero(input: TensorLike, *, as_tuple: _Bool = False, out: Any = None) -> Any:
    """Return the places of the elements that are not 0: a row each, or with `as_tuple` a vector for each axis."""
def nonzero_static(input: TensorLike, *, size: _Int, fill_value: _Int = -1, out: Any = None) -> Any:
    """Return `size` rows of places of elements that are not 0, with `fill_value` where there are fewer."""
def norm(input: TensorLike, p: TensorLike = 'fro', dim: Any = None, keepdim: _Bool = False, dtype: DTypeLike | None = None, *, out: Any = None) -> Tensor:
    """Return the norm of order `p` of the elements, of all or along axes; "fro" is 2, "nuc" the sum of singular values."""
def normal(mean: Any, std: Any = 1.0, size: Any = None, *, generator: Any = None, out: Any = None, dtype: DTypeLike | None = None, layout: Any = None, device: _Str | None = None, requires_grad: _Bool = False, pin_memory: _Bool = False) -> Tensor:
    """Return normal numbers of these means and standard deviations: tensors, or numbers and a `size`."""
def not_equal(input: TensorLike, other: TensorLike, *, out: Any = None) -> Any:
    """Return `not_equal` of each element. Parameters are `input, other` and `out`."""
def numel(input: TensorLike) -> _Int:
    """Return the number of elements."""
def ones(*size: Any, out: Any = None, dtype: DTypeLike | None = None, layout: Any = None, device: _Str | None = None, requires_grad: _Bool = False, pin_memory: _Bool = False, generator: Any = None, **more: Any) -> Tensor:
    """Return a tensor of ones; parameters as in :func:`wengert."""
def ones_like(input: TensorLike, *, dtype: DTypeLike | None = None, layout: Any = None, device: _Str | None = None, requires_grad: _Bool = False, memory_format: Any = None, generator: Any = None) -> Tensor:
    """Return `ones` in the shape and, unless `dtype` is given, the dtype of `input`."""
ops: Any
def orgqr(input: TensorLike, tau: Any, *, out: Any = None) -> Tensor:
    """Return the columns of Q from what :func:`geqrf` gave."""
def ormqr(input: TensorLike, tau: Any, other: TensorLike, left: _Bool = True, transpose: _Bool = False, *, out: Any = None) -> Tensor:
    """Return Q other, or other Q, for all of the square Q of what :func:`geqrf` gave; or for its adjoint."""
def outer(input: TensorLike, vec2: Any, *, out: Any = None) -> Tensor:
    """Return all products of an element of one vector and one of the other. Raises ShapeError for other ranks."""
def pairwise_distance(x1: TensorLike, x2: TensorLike, p: _Float = 2.0, eps: _Float = 1e-06, keepdim: _Bool = False) -> Tensor:
    """Return the p-norm of x1 - x2 + eps along the last axis; both broadcast. Raises ShapeError."""
def pca_lowrank(A: Any, q: _Int | None = None, center: _Bool = True, niter: _Int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """Return the principal components of a matrix' rows, less their mean where `center`; see :func:`svd_lowrank`."""
def pdist(input: TensorLike, p: _Float = 2.0) -> Tensor:
    """Return the p-norm distances of all pairs of rows, pair by pair. Raises ShapeError, RangeError."""
def permute(input: TensorLike, *dims: Axes, **named: Any) -> Any:
    """Return the tensor with its axes in another order, given one by one or as a sequence. Raises ShapeError."""
def permute_copy(input: TensorLike, *args: Axes, out: Any = None, **kwargs: Any) -> Any:
    """Return a copy of what `permute` gives."""
def pinverse(input: TensorLike, rcond: Any = 1e-15) -> Tensor:
    """Return the Moore-Penrose inverses; singular values up to `rcond` times the largest count as 0."""
def pixel_shuffle(input: TensorLike, upscale_factor: _Int) -> Tensor:
    """Return (..., C r r, H, W) as (..., C, H r, W r): channels become pixels. Source: Shi et al., arXiv:1609.05158."""
def pixel_unshuffle(input: TensorLike, downscale_factor: _Int) -> Tensor:
    """Return (..., C, H r, W r) as (..., C r r, H, W): the reverse of :func:`pixel_shuffle`. Raises ShapeError."""
def poisson(input: TensorLike, generator: Any = None, *, out: Any = None) -> Tensor:
    """Return counts drawn from Poisson distributions of these rates."""
def polar(abs: Any, angle: Any, *, out: Any = None) -> Tensor:
    """Return the complex numbers of these magnitudes and angles."""
def polygamma(n: _Int, input: TensorLike, *, out: Any = None) -> Tensor:
    """Return the derivative of order `n` of the digamma function."""
def positive(input: TensorLike) -> Tensor:
    """Return the tensor itself. Raises DTypeError for booleans, as `+x` does."""
def pow(input: TensorLike, exponent: Any, *, out: Any = None) -> Tensor:
    """Return `input ** exponent`; one of them may be a number."""
def prelu(input: TensorLike, weight: TensorLike) -> Tensor:
    """Return x where it is positive, else `weight` x, the weight learnt. Source: He et al. 2015, arXiv:1502.01852."""
preserve_format: Any
def prod(input: TensorLike, dim: _Int | None = None, keepdim: _Bool = False, *, dtype: DTypeLike | None = None, out: Any = None) -> Tensor:
    """Return the product of all elements, or along an axis."""
def promote_types(type1: Any, type2: Any) -> Any:
    """Return the dtype that an operation on tensors of two dtypes computes in."""
def put(input: TensorLike, index: TensorLike, source: TensorLike, accumulate: _Bool = False) -> Any:
    """Return the tensor with the elements at positions in its flattened form replaced or increased by `source`'s."""
qint32: Any
qint8: Any
def qr(input: TensorLike, some: _Bool = True, *, out: Any = None) -> Any:
    """Return matrices as Q R; with `some=False` Q is square."""
def quantile(input: TensorLike, q: Any, dim: _Int | None = None, keepdim: _Bool = False, *, interpolation: _Str = 'linear', out: Any = None) -> Any:
    """Return the quantiles `q`, of all elements or along an axis, with an axis for those of `q` in front."""
quint2x4: Any
quint4x2: Any
quint8: Any
def rad2deg(input: TensorLike, *, out: Any = None) -> Any:
    """Return `rad2deg` of each element. Parameters are `input` and `out`."""
def rand(*size: Any, out: Any = None, dtype: DTypeLike | None = None, layout: Any = None, device: _Str | None = None, requires_grad: _Bool = False, pin_memory: _Bool = False, generator: Any = None, **more: Any) -> Tensor:
    """Return uniform random numbers in [0, 1)."""
def rand_like(input: TensorLike, *, dtype: DTypeLike | None = None, layout: Any = None, device: _Str | None = None, requires_grad: _Bool = False, memory_format: Any = None, generator: Any = None) -> Tensor:
    """Return `rand` in the shape and, unless `dtype` is given, the dtype of `input`."""
def randint(low: Any, high: Any = None, size: Any = None, *, generator: Any = None, out: Any = None, dtype: DTypeLike | None = None, layout: Any = None, device: _Str | None = None, requires_grad: _Bool = False) -> Tensor:
    """Return integers drawn evenly from `low` (0 where only `high` is given) to `high`, which is left out."""
def randint_like(input: TensorLike, low: Any, high: Any = None, *, dtype: DTypeLike | None = None, **more: Any) -> Tensor:
    """Return `randint` in the shape and, unless `dtype` is given, the dtype of `input`."""
def randn(*size: Any, out: Any = None, dtype: DTypeLike | None = None, layout: Any = None, device: _Str | None = None, requires_grad: _Bool = False, pin_memory: _Bool = False, generator: Any = None, **more: Any) -> Tensor:
    """Return standard normal random numbers; parameters as in :func:`rand`."""
def randn_like(input: TensorLike, *, dtype: DTypeLike | None = None, layout: Any = None, device: _Str | None = None, requires_grad: _Bool = False, memory_format: Any = None, generator: Any = None) -> Tensor:
    """Return `randn` in the shape and, unless `dtype` is given, the dtype of `input`."""
def randperm(n: _Int, *, generator: Any = None, out: Any = None, dtype: DTypeLike | None = None, layout: Any = None, device: _Str | None = None, requires_grad: _Bool = False, pin_memory: _Bool = False) -> Tensor:
    """Return the integers below `n` in an order by chance."""
def range(start: TensorLike = 0, end: TensorLike = 0, step: TensorLike = 1, *, out: Any = None, dtype: DTypeLike | None = None, layout: Any = None, device: _Str | None = None, requires_grad: _Bool = False) -> Tensor:
    """Return the numbers from `start` up to `end`, which belongs to them, in steps of `step`."""
def ravel(input: TensorLike) -> Any:
    """Return the elements as one axis without gaps."""
def real(input: TensorLike, *, out: Any = None) -> Any:
    """Return `real` of each element. Parameters are `input` and `out`."""
def reciprocal(input: TensorLike, *, out: Any = None) -> Any:
    """Return `reciprocal` of each element. Parameters are `input` and `out`."""
def relu(input: TensorLike, *, out: Any = None) -> Any:
    """Return `relu` of each element. Parameters are `input` and `out`."""
def remainder(input: TensorLike, other: TensorLike, *, out: Any = None) -> Any:
    """Return `remainder` of each element. Parameters are `input, other` and `out`."""
def renorm(input: TensorLike, p: _Float, dim: _Int, maxnorm: _Float, *, out: Any = None) -> Tensor:
    """Return the tensor with its slices along `dim` scaled down to the norm `maxnorm` where theirs is larger."""
def repeat_interleave(input: TensorLike, repeats: Any = None, dim: _Int | None = None, *, output_size: _Int | None = None) -> Any:
    """Return each element several times in a row: `repeats` times, or as often as each of its numbers says."""
def reshape(input: TensorLike, shape: Axes) -> Any:
    """Return the elements in another shape, one size of which may be -1. Raises ShapeError."""
def resolve_conj(input: TensorLike) -> Tensor:
    """Return the tensor itself: conjugates are computed, not marked."""
def resolve_neg(input: TensorLike) -> Tensor:
    """Return the tensor itself: negatives are computed."""
def result_type(tensor1: Any, tensor2: Any) -> Any:
    """Return the dtype that an operation on two tensors, or a tensor and a number, computes in."""
def rms_norm(input: TensorLike, normalized_shape: _Int | Sequence[_Int], weight: TensorLike | None = None, eps: _Float | None = None) -> Tensor:
    """Return x over its root mean square along the last axes, times a weight."""
def roll(input: TensorLike, shifts: Any, dims: Axes | None = None, *, axis: Any = ..., dim: Axes | None = ...) -> Any:
    """Return the elements shifted along axes, or flattened where none is given. Raises ShapeError."""
def rot90(input: TensorLike, k: _Int = 1, dims: Axes = ...) -> Any:
    """Return the plane of two axes turned by 90 degrees `k` times, from the first axis towards the second."""
def round(input: TensorLike, *, decimals: _Int = 0, out: Any = None) -> Tensor:
    """Return the nearest whole numbers, halves to even, or the nearest with so many decimals."""
def row_stack(tensors: Any, *, out: Any = None) -> Any:
    """Return tensors of at least 2 axes joined along axis 0. Raises ShapeError."""
def rrelu(input: TensorLike, lower: _Float = 0.125, upper: _Float = 0.3333333333333333, training: _Bool = False, inplace: _Bool = False) -> Tensor:
    """Return x where it is positive, else x times a slope: in training one between the bounds, drawn for each element."""
def rrelu_(input: TensorLike, lower: _Float = 0.125, upper: _Float = 0.3333333333333333, training: _Bool = False, inplace: _Bool = False) -> Tensor:
    """Give the tensor the value of :func:`rrelu` of it, and return it. Raises GradientError."""
def rsqrt(input: TensorLike, *, out: Any = None) -> Any:
    """Return `rsqrt` of each element. Parameters are `input` and `out`."""
def rsub(input: TensorLike, other: TensorLike, *, alpha: TensorLike = 1) -> Tensor:
    """Return `other - alpha * input`."""
def save(obj: Any, f: Any, pickle_module: Any = ..., pickle_protocol: _Int = 2, _use_new_zipfile_serialization: _Bool = True, _disable_byteorder_record: _Bool = False) -> None:
    """Write an object to a file that PyTorch reads too: tensors, state dicts, containers of them, whole modules."""
def scalar_tensor(s: Any, *, dtype: DTypeLike | None = None, device: _Str | None = None, requires_grad: _Bool = False) -> Tensor:
    """Return a number as a 0-d tensor of the default dtype."""
def scatter(input: TensorLike, dim: _Int, index: TensorLike, src: TensorLike | None = None, *, value: TensorLike | None = None, reduce: Any = None, out: Any = None) -> Any:
    """Return the tensor with `src[i][j]` put at `[index[i][j]][j]` along axis 0, and so on for other axes."""
def scatter_add(input: TensorLike, dim: _Int, index: TensorLike, src: TensorLike, *, out: Any = None) -> Any:
    """Return the tensor with `src[i][j]` added at `[index[i][j]][j]` along axis 0, and so on for other axes."""
def scatter_reduce(input: TensorLike, dim: _Int, index: TensorLike, src: TensorLike, reduce: _Str, *, include_self: _Bool = True, out: Any = None) -> Any:
    """Return the tensor with what `src` brings to each place reduced: "sum", "prod", "mean", "amax" or "amin"."""
def searchsorted(sorted_sequence: Any, input: TensorLike, *, out_int32: _Bool = False, right: _Bool = False, side: _Str | None = None, sorter: Any = None, out: Any = None) -> Any:
    """Return where elements would be inserted into a sorted tensor to keep it sorted along its last axis."""
def seed() -> _Int:
    """Seed the default generator by the operating system's entropy. Returns the seed."""
def select(input: TensorLike, dim: _Int, index: TensorLike) -> Any:
    """Return one slice along an axis, without that axis. Raises RangeError."""
def select_copy(input: TensorLike, *args: Axes, out: Any = None, **kwargs: Any) -> Any:
    """Return a copy of what `select` gives."""
def select_scatter(input: TensorLike, src: TensorLike, *args: Axes, **kwargs: Any) -> Any:
    """Return the tensor with one slice along an axis replaced by `src`. Raises ShapeError."""
def selu(input: TensorLike, inplace: _Bool = False) -> Tensor:
    """Return the self-normalising elu. Source: Klambauer et al. 2017, arXiv:1706.02515."""
def selu_(input: TensorLike, inplace: _Bool = False) -> Tensor:
    """Give the tensor the value of :func:`selu` of it, and return it. Raises GradientError."""
def set_autocast_cpu_dtype(dtype: DTypeLike) -> None:
    """Set the dtype that an autocast has where none is named, in this thread."""
def set_autocast_cpu_enabled(enabled: _Bool) -> None:
    """Set whether an autocast is on in this thread."""
def set_autocast_dtype(device_type: _Str, dtype: DTypeLike) -> None:
    """Set the dtype that an autocast on "cpu" has where none is named, in this thread. Others are of no effect."""
def set_autocast_enabled(device_type: Any, enabled: _Bool | None = None) -> None:
    """Set whether an autocast is on, for "cpu" in this thread; one flag alone is about GPUs, of which there are none."""
def set_default_device(device: _Str) -> None:
    """Take the processor as the default device. Raises DTypeError for another."""
def set_default_dtype(d: Any) -> Any:
    """Set the dtype of floating numbers that bring none of their own; see :func:`wengert.set_default_dtype`."""
def set_default_tensor_type(t: Any) -> None:
    """Set the default dtype by the name of a type: "torch.DoubleTensor", `torch.DoubleTensor`."""
def set_deterministic_debug_mode(debug_mode: _Int | _Str) -> None:
    """Take "default", "warn" or "error", or their numbers 0 to 2."""
def set_float32_matmul_precision(precision: _Str) -> None:
    """Take "highest", "high" or "medium": products are computed in the dtype of their operands."""
def set_flush_denormal(mode: _Bool) -> _Bool:
    """Return False: numbers next to 0 are not flushed to it."""
def set_num_interop_threads(num: _Int) -> None:
    """Take a number of threads that run operations side by side: there is one pool, of `set_num_threads`."""
def set_num_threads(num: _Int) -> None:
    """Set how many threads compiled functions and large operations use."""
def set_printoptions(precision: _Int | None = None, threshold: _Int | None = None, edgeitems: _Int | None = None, linewidth: _Int | None = None, profile: _Str | None = None, sci_mode: _Bool | None = None) -> None:
    """Say how tensors are shown."""
def set_rng_state(new_state: Any) -> None:
    """Set the state of the default generator to what :func:`get_rng_state` returned."""
def set_warn_always(b: _Bool) -> None:
    """Take a wish for warnings in every call: which are shown is for Python's `warnings` to say."""
def sgn(input: TensorLike, *, out: Any = None) -> Any:
    """Return `sgn` of each element. Parameters are `input` and `out`."""
short: Any
def sigmoid(input: TensorLike, *, out: Any = None) -> Any:
    """Return `sigmoid` of each element. Parameters are `input` and `out`."""
def sign(input: TensorLike, *, out: Any = None) -> Any:
    """Return `sign` of each element. Parameters are `input` and `out`."""
def signbit(input: TensorLike, *, out: Any = None) -> Any:
    """Return `signbit` of each element. Parameters are `input` and `out`."""
def sin(input: TensorLike, *, out: Any = None) -> Any:
    """Return `sin` of each element. Parameters are `input` and `out`."""
def sinc(input: TensorLike, *, out: Any = None) -> Any:
    """Return `sinc` of each element. Parameters are `input` and `out`."""
def sinh(input: TensorLike, *, out: Any = None) -> Any:
    """Return `sinh` of each element. Parameters are `input` and `out`."""
def slice_copy(input: TensorLike, *args: Axes, out: Any = None, **kwargs: Any) -> Any:
    """Return a copy of what `slice` gives."""
def slice_scatter(input: TensorLike, src: TensorLike, *args: Axes, **kwargs: Any) -> Any:
    """Return the tensor with the slices from `start` to `end` along an axis replaced by `src`. Raises ShapeError."""
def slogdet(input: TensorLike, *, out: Any = None) -> Any:
    """Return the signs of determinants and the logarithms of their magnitudes."""
def smm(mat1: Any, mat2: Any, reduce: Any = None) -> Any:
    """Return the product of a sparse matrix and a matrix or a vector, or of a matrix and a sparse matrix: dense."""
def softmax(input: TensorLike, dim: _Int, dtype: DTypeLike | None = None) -> Any:
    """Return exp of the elements over their sum along an axis."""
def sort(input: TensorLike, dim: _Int = -1, descending: _Bool = False, stable: _Bool | None = False, *, out: Any = None) -> Any:
    """Return the elements in order along an axis, and their indices. NaN counts as largest."""
sparse_bsc: Any
sparse_bsr: Any
sparse_coo: Any
def sparse_coo_tensor(indices: TensorLike, values: Any, size: Sequence[_Int] | None = None, *, dtype: DTypeLike | None = None, device: _Str | None = None, pin_memory: _Bool = False, requires_grad: _Bool = False, check_invariants: _Bool | None = None, is_coalesced: _Bool | None = None) -> SparseTensor:
    """Return a sparse tensor with `values` at `indices`."""
sparse_csc: Any
sparse_csr: Any
def split(input: TensorLike, split_size_or_sections: Any = None, dim: _Int = 0, *, split_size: Any = None) -> Any:
    """Return the parts of a tensor along an axis: of one size, the last perhaps smaller, or of a size each."""
def split_copy(input: TensorLike, *args: Axes, out: Any = None, **kwargs: Any) -> Any:
    """Return a copy of what `split` gives."""
def split_with_sizes(input: TensorLike, split_sizes: Any, dim: _Int = 0) -> Any:
    """Return the parts of a tensor along an axis, of a size each. Raises ShapeError."""
def split_with_sizes_copy(input: TensorLike, *args: Axes, out: Any = None, **kwargs: Any) -> Any:
    """Return a copy of what `split_with_sizes` gives."""
def spmm(mat1: Any, mat2: Any, reduce: Any = None) -> Any:
    """Return the product of a sparse matrix and a matrix or a vector, or of a matrix and a sparse matrix: dense."""
def sqrt(input: TensorLike, *, out: Any = None) -> Any:
    """Return `sqrt` of each element. Parameters are `input` and `out`."""
def square(input: TensorLike, *, out: Any = None) -> Any:
    """Return `square` of each element. Parameters are `input` and `out`."""
def squeeze(input: TensorLike, dim: Any = None) -> Any:
    """Return the tensor without those axes, or the given ones among them, that have size 1. Others stay."""
def squeeze_copy(input: TensorLike, *args: Axes, out: Any = None, **kwargs: Any) -> Any:
    """Return a copy of what `squeeze` gives."""
def stack(tensors: Any, dim: _Int = 0, *, out: Any = None) -> Any:
    """Return tensors of one shape joined along a new axis. Raises ShapeError."""
def std(input: TensorLike, dim: Any = None, *given: Any, unbiased: Any = None, correction: Any = ..., keepdim: _Bool = False, out: Any = None) -> Any:
    """Return the standard deviation along an axis or several, or of all elements, over n - `correction`."""
def std_mean(input: TensorLike, dim: Any = None, *given: Any, unbiased: Any = None, correction: Any = ..., keepdim: _Bool = False, out: Any = None) -> Any:
    """Return the standard deviation and the mean along an axis or several, or of all elements, over n - `correction`."""
def stft(input: TensorLike, n_fft: _Int, hop_length: _Int | None = None, win_length: _Int | None = None, window: Any = None, center: _Bool = True, pad_mode: _Str = 'reflect', normalized: _Bool = False, onesided: _Bool | None = None, return_complex: _Bool | None = None, align_to_window: _Bool | None = None) -> Tensor:
    """Return the Fourier transforms of overlapping frames of a signal, (..., frequencies, frames)."""
strided: Any
def sub(input: TensorLike, other: TensorLike, *, alpha: TensorLike = 1, out: Any = None) -> Tensor:
    """Return `input - alpha * other`."""
def subtract(input: TensorLike, other: TensorLike, *, alpha: TensorLike = 1, out: Any = None) -> Tensor:
    """Return `input - alpha * other`."""
def sum(input: TensorLike, dim: Any = None, keepdim: _Bool = False, *, dtype: DTypeLike | None = None, out: Any = None) -> Tensor:
    """Return the sum of all elements, or along an axis or several. Integers and booleans add up to int64."""
def svd(input: TensorLike, some: _Bool = True, compute_uv: _Bool = True, *, out: Any = None) -> Any:
    """Return matrices as U diag(S) V^H: V itself, not its adjoint."""
def svd_lowrank(A: Any, q: _Int | None = 6, niter: _Int | None = 2, M: Any = None) -> tuple[Tensor, Tensor, Tensor]:
    """Return the `q` largest singular values of a matrix with their vectors, by products with random vectors."""
def swapaxes(input: TensorLike, dim0: _Int, dim1: _Int, *, axis0: Any = ..., axis1: Any = ...) -> Any:
    """Return the tensor with two axes exchanged. Raises ShapeError for one that does not exist."""
def swapdims(input: TensorLike, dim0: _Int, dim1: _Int) -> Any:
    """Return the tensor with two axes exchanged. Raises ShapeError for one that does not exist."""
def sym_float(a: TensorLike) -> Any:
    """Return a number as a floating one."""
def sym_int(a: TensorLike) -> Any:
    """Return a number without its fraction, as `int` does."""
def sym_ite(b: TensorLike, t: Any, f: Any) -> Any:
    """Return one of two numbers, by a flag."""
def sym_max(a: TensorLike, b: TensorLike) -> Any:
    """Return the greater of two numbers."""
def sym_min(a: TensorLike, b: TensorLike) -> Any:
    """Return the lesser of two numbers."""
def sym_not(a: TensorLike) -> Any:
    """Return whether something is false."""
def sym_sum(args: Axes) -> Any:
    """Return the sum of numbers."""
def t(input: TensorLike) -> Any:
    """Return a matrix transposed; fewer axes stay as they are. Raises ShapeError for more than two."""
def t_copy(input: TensorLike, *args: Axes, out: Any = None, **kwargs: Any) -> Any:
    """Return a copy of what `t` gives."""
def take(input: TensorLike, index: TensorLike, *, out: Any = None) -> Any:
    """Return the elements at positions in the flattened tensor, in the shape of the index. Raises RangeError."""
def take_along_dim(input: TensorLike, indices: TensorLike, dim: _Int | None = None, *, out: Any = None) -> Any:
    """Return the elements that indices pick along an axis, aligned with the others; flattened without one."""
def tan(input: TensorLike, *, out: Any = None) -> Any:
    """Return `tan` of each element. Parameters are `input` and `out`."""
def tanh(input: TensorLike, *, out: Any = None) -> Any:
    """Return `tanh` of each element. Parameters are `input` and `out`."""
def tensor(data: TensorLike, *, dtype: DTypeLike | None = None, device: _Str | None = None, requires_grad: _Bool = False, pin_memory: _Bool = False) -> Tensor:
    """Return a tensor with a copy of `data`: a number, nested sequences, an array, a tensor."""
def tensor_split(input: TensorLike, indices_or_sections: Any, dim: _Int = 0) -> Any:
    """Return so many parts along an axis, of sizes that differ by at most 1, or those between indices."""
def tensordot(a: TensorLike, b: TensorLike, dims: Axes = 2, *, out: Any = None) -> Tensor:
    """Return the sum of products over several axes of each."""
def threshold(input: TensorLike, threshold: _Float, value: _Float, inplace: _Bool = False) -> Tensor:
    """Return x where it is above a threshold (or NaN), else `value`."""
def threshold_(input: TensorLike, threshold: _Float, value: _Float, inplace: _Bool = False) -> Tensor:
    """Give the tensor the value of :func:`threshold` of it, and return it. Raises GradientError."""
def tile(input: TensorLike, *dims: Axes, reps: Any = ...) -> Any:
    """Return the tensor laid out several times along each axis, the last axis last. Raises ShapeError."""
def topk(input: TensorLike, k: _Int, dim: _Int = -1, largest: _Bool = True, sorted: _Bool = True, *, out: Any = None) -> Any:
    """Return the `k` largest (or smallest) elements along an axis, in order, and their indices."""
def trace(input: TensorLike, *, out: Any = None) -> Tensor:
    """Return the sum of a matrix' diagonal. Raises ShapeError for other than two dimensions."""
def transpose(input: TensorLike, dim0: _Int, dim1: _Int) -> Any:
    """Return the tensor with two axes exchanged. Raises ShapeError for one that does not exist."""
def transpose_copy(input: TensorLike, *args: Axes, out: Any = None, **kwargs: Any) -> Any:
    """Return a copy of what `transpose` gives."""
def trapezoid(y: TensorLike, x: TensorLike | None = None, *, dx: Any = None, dim: _Int = -1) -> Tensor:
    """Return the integral along an axis by the trapezoidal rule, over the points `x` or steps of `dx` (1)."""
def trapz(y: TensorLike, x: TensorLike | None = None, *, dx: Any = None, dim: _Int = -1) -> Tensor:
    """Return the integral along an axis by the trapezoidal rule, over the points `x` or steps of `dx` (1)."""
def triangular_solve(input: TensorLike, A: Any, upper: _Bool = True, transpose: _Bool = False, unitriangular: _Bool = False, *, out: Any = None) -> Any:
    """Return the solution x of a x = input for a triangular a, or of its transpose; and a."""
def tril(input: TensorLike, diagonal: _Int = 0, *, out: Any = None) -> Any:
    """Return the lower triangles of matrices up to a diagonal, zeros elsewhere. Raises ShapeError."""
def tril_indices(row: _Int, col: _Int, offset: _Int = 0, *, dtype: DTypeLike | None = ..., device: _Str | None = None, layout: Any = None) -> Any:
    """Return the row and column numbers of the elements that `tril` keeps, one column for each."""
def triu(input: TensorLike, diagonal: _Int = 0, *, out: Any = None) -> Any:
    """Return the upper triangles of matrices up to a diagonal, zeros elsewhere. Raises ShapeError."""
def triu_indices(row: _Int, col: _Int, offset: _Int = 0, *, dtype: DTypeLike | None = ..., device: _Str | None = None, layout: Any = None) -> Any:
    """Return the row and column numbers of the elements that `triu` keeps, one column for each."""
def true_divide(input: TensorLike, other: TensorLike, *, rounding_mode: _Str | None = None, out: Any = None) -> Tensor:
    """Return `input / other`, as it is or rounded by `rounding_mode`: "trunc" (toward 0) or "floor"."""
def trunc(input: TensorLike, *, out: Any = None) -> Any:
    """Return `trunc` of each element. Parameters are `input` and `out`."""
def typename(obj: Any) -> _Str:
    """Return the name of an object's type, with its module; of a tensor such as "torch.FloatTensor"."""
uint1: Any
uint16: Any
uint2: Any
uint3: Any
uint32: Any
uint4: Any
uint5: Any
uint6: Any
uint64: Any
uint7: Any
uint8: Any
def unbind(input: TensorLike, dim: _Int = 0) -> Any:
    """Return the slices along an axis, without that axis. Raises ShapeError."""
def unbind_copy(input: TensorLike, *args: Axes, out: Any = None, **kwargs: Any) -> Any:
    """Return a copy of what `unbind` gives."""
def unflatten(input: TensorLike, dim: _Int, sizes: Axes) -> Any:
    """Return one axis split into several of the given sizes, one of which may be -1. Raises ShapeError."""
def unfold_copy(input: TensorLike, *args: Axes, out: Any = None, **kwargs: Any) -> Any:
    """Return a copy of what `unfold` gives."""
def unique(input: TensorLike, sorted: _Bool = True, return_inverse: _Bool = False, return_counts: _Bool = False, dim: _Int | None = None) -> Any:
    """Return the distinct elements, or slices along `dim`, in ascending order; and where asked each element's place
    among them, and how often each occurs."""
def unique_consecutive(input: TensorLike, return_inverse: _Bool = False, return_counts: _Bool = False, dim: _Int | None = None) -> Any:
    """Return the first of each run of equal elements, or of equal slices along `dim`; see `unique`."""
def unravel_index(indices: TensorLike, shape: Axes) -> Any:
    """Return the places along each axis of a shape that positions in the flattened tensor mean. Raises RangeError."""
def unsafe_chunk(input: TensorLike, chunks: _Int, dim: _Int = 0) -> Any:
    """Return at most `chunks` parts of one size along an axis, the last perhaps smaller. Raises ShapeError."""
def unsafe_split(input: TensorLike, split_size_or_sections: Any = None, dim: _Int = 0, *, split_size: Any = None) -> Any:
    """Return the parts of a tensor along an axis: of one size, the last perhaps smaller, or of a size each."""
def unsafe_split_with_sizes(input: TensorLike, split_sizes: Any, dim: _Int = 0) -> Any:
    """Return the parts of a tensor along an axis, of a size each. Raises ShapeError."""
def unsqueeze(input: TensorLike, dim: _Int) -> Any:
    """Return the tensor with a new axis of size 1 at `dim`. Raises ShapeError."""
def unsqueeze_copy(input: TensorLike, *args: Axes, out: Any = None, **kwargs: Any) -> Any:
    """Return a copy of what `unsqueeze` gives."""
def use_deterministic_algorithms(mode: _Bool, *, warn_only: _Bool = False) -> None:
    """Take a wish for the same bits in every run: it is always so."""
def vander(x: TensorLike, N: _Int | None = None, increasing: _Bool = False) -> Tensor:
    """Return the matrix of powers of a vector's elements: N of them (as many as there are elements), falling."""
def var(input: TensorLike, dim: Any = None, *given: Any, unbiased: Any = None, correction: Any = ..., keepdim: _Bool = False, out: Any = None) -> Any:
    """Return the variance along an axis or several, or of all elements, over n - `correction`."""
def var_mean(input: TensorLike, dim: Any = None, *given: Any, unbiased: Any = None, correction: Any = ..., keepdim: _Bool = False, out: Any = None) -> Any:
    """Return the variance and the mean along an axis or several, or of all elements, over n - `correction`."""
def vdot(input: TensorLike, other: TensorLike, *, out: Any = None) -> Tensor:
    """Return the sum of products of two vectors' elements, the first conjugated. Raises ShapeError for other ranks."""
def view_as_complex(input: TensorLike) -> Any:
    """Return pairs of real numbers along the last axis as complex ones. Raises DTypeError, ShapeError."""
def view_as_complex_copy(input: TensorLike, *args: Axes, out: Any = None, **kwargs: Any) -> Any:
    """Return a copy of what `view_as_complex` gives."""
def view_as_real(input: TensorLike) -> Any:
    """Return complex numbers as pairs of real ones along a new last axis. Raises DTypeError."""
def view_as_real_copy(input: TensorLike, *args: Axes, out: Any = None, **kwargs: Any) -> Any:
    """Return a copy of what `view_as_real` gives."""
def view_copy(input: TensorLike, *args: Axes, out: Any = None, **kwargs: Any) -> Any:
    """Return a copy of what `view` gives."""
def vmap(func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, randomness: _Str = 'error', *, chunk_size: _Int | None = None) -> Callable[..., Any]:
    """Return the function that maps `func` over an axis of its arguments; see :func:`wengert.vmap`."""
def vsplit(input: TensorLike, indices_or_sections: Any, *, indices: Any = ..., sections: Any = ...) -> Any:
    """Return equal parts, or those between indices, along axis 0. Raises ShapeError."""
def vstack(tensors: Any, *, out: Any = None) -> Any:
    """Return tensors of at least 2 axes joined along axis 0. Raises ShapeError."""
def where(condition: TensorLike, input: TensorLike | None = None, other: TensorLike | None = None, *, out: Any = None) -> Any:
    """Return the elements of `input` where `condition` holds and of `other` elsewhere."""
def xlogy(input: TensorLike, other: TensorLike, *, out: Any = None) -> Any:
    """Return `xlogy` of each element. Parameters are `input, other` and `out`."""
def zeros(*size: Any, out: Any = None, dtype: DTypeLike | None = None, layout: Any = None, device: _Str | None = None, requires_grad: _Bool = False, pin_memory: _Bool = False, generator: Any = None, **more: Any) -> Tensor:
    """Return a tensor of zeros."""
def zeros_like(input: TensorLike, *, dtype: DTypeLike | None = None, layout: Any = None, device: _Str | None = None, requires_grad: _Bool = False, memory_format: Any = None, generator: Any = None) -> Tensor:
    """Return `zeros` in the shape and, unless `dtype` is given, the dtype of `input`."""
