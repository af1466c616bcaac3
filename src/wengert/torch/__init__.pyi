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

from . import autograd as autograd
from . import nn as nn
from . import optim as optim
from .. import DTypeError as DTypeError
from .. import DataError as DataError
from .. import FeedError as FeedError
from .. import GradientError as GradientError
from .. import Graph as Graph
from .. import GraphError as GraphError
from .. import Node as Node
from .. import Op as Op
from .. import Placeholder as Placeholder
from .. import RangeError as RangeError
from .. import ShapeError as ShapeError
from .. import Spec as Spec
from .. import StateError as StateError
from .. import Tensor as Tensor
from .. import WengertError as WengertError
from .. import WriteError as WriteError
from .. import abs as abs
from .. import acos as acos
from .. import acosh as acosh
from .. import add as add
from .. import all as all
from .. import allclose as allclose
from .. import any as any
from .. import arange as arange
from .. import argmax as argmax
from .. import argmin as argmin
from .. import argsort as argsort
from .. import array_split as array_split
from .. import asarray as asarray
from .. import asin as asin
from .. import asinh as asinh
from .. import astype as astype
from .. import atan as atan
from .. import atan2 as atan2
from .. import atanh as atanh
from .. import atleast_1d as atleast_1d
from .. import atleast_2d as atleast_2d
from .. import bfloat16 as bfloat16
from .. import bitwise_and as bitwise_and
from .. import bitwise_invert as bitwise_invert
from .. import bitwise_left_shift as bitwise_left_shift
from .. import bitwise_or as bitwise_or
from .. import bitwise_right_shift as bitwise_right_shift
from .. import bitwise_xor as bitwise_xor
from .. import bool as bool
from .. import broadcast_arrays as broadcast_arrays
from .. import broadcast_shapes as broadcast_shapes
from .. import broadcast_to as broadcast_to
from .. import callback as callback
from .. import can_cast as can_cast
from .. import ceil as ceil
from .. import check_grads as check_grads
from .. import checkpoint as checkpoint
from .. import checkpoint_name as checkpoint_name
from .. import checkpoint_policies as checkpoint_policies
from .. import checkpoint_sequential as checkpoint_sequential
from .. import clip as clip
from .. import clip_gradient as clip_gradient
from .. import complex128 as complex128
from .. import complex64 as complex64
from .. import concat as concat
from .. import cond as cond
from .. import conj as conj
from .. import copysign as copysign
from .. import cos as cos
from .. import cosh as cosh
from .. import count_nonzero as count_nonzero
from .. import cumulative_prod as cumulative_prod
from .. import cumulative_sum as cumulative_sum
from .. import custom_jvp as custom_jvp
from .. import custom_vjp as custom_vjp
from .. import data as data
from .. import debug as debug
from .. import diag as diag
from .. import diagonal as diagonal
from .. import diff as diff
from .. import distributions as distributions
from .. import divide as divide
from .. import dot as dot
from .. import e as e
from .. import einsum as einsum
from .. import elimination_cost as elimination_cost
from .. import empty as empty
from .. import empty_like as empty_like
from .. import enable_grad as enable_grad
from .. import equal as equal
from .. import exp as exp
from .. import expand_dims as expand_dims
from .. import explain as explain
from .. import explore as explore
from .. import expm1 as expm1
from .. import eye as eye
from .. import fft as fft
from .. import finfo as finfo
from .. import flatten as flatten
from .. import flip as flip
from .. import float16 as float16
from .. import float32 as float32
from .. import float64 as float64
from .. import floor as floor
from .. import floor_divide as floor_divide
from .. import fori_loop as fori_loop
from .. import from_dlpack as from_dlpack
from .. import full as full
from .. import full_like as full_like
from .. import function as function
from .. import gather as gather
from .. import gauss_newton_product as gauss_newton_product
from .. import get_default_dtype as get_default_dtype
from .. import get_num_threads as get_num_threads
from .. import grad as grad
from .. import graph as graph
from .. import greater as greater
from .. import greater_equal as greater_equal
from .. import hessian as hessian
from .. import hvp as hvp
from .. import hypot as hypot
from .. import iinfo as iinfo
from .. import imag as imag
from .. import index_add as index_add
from .. import inf as inf
from .. import int16 as int16
from .. import int32 as int32
from .. import int64 as int64
from .. import int8 as int8
from .. import interop as interop
from .. import is_grad_enabled as is_grad_enabled
from .. import isclose as isclose
from .. import isdtype as isdtype
from .. import isfinite as isfinite
from .. import isinf as isinf
from .. import isnan as isnan
from .. import jacobian as jacobian
from .. import jit as jit
from .. import jvp as jvp
from .. import kron as kron
from .. import laplacian as laplacian
from .. import less as less
from .. import less_equal as less_equal
from .. import linalg as linalg
from .. import linear_transpose as linear_transpose
from .. import linearize as linearize
from .. import linspace as linspace
from .. import log as log
from .. import log10 as log10
from .. import log1p as log1p
from .. import log2 as log2
from .. import log_softmax as log_softmax
from .. import logaddexp as logaddexp
from .. import logical_and as logical_and
from .. import logical_not as logical_not
from .. import logical_or as logical_or
from .. import logical_xor as logical_xor
from .. import logspace as logspace
from .. import logsumexp as logsumexp
from .. import manual_seed as manual_seed
from .. import map as map
from .. import matmul as matmul
from .. import matrix_transpose as matrix_transpose
from .. import max as max
from .. import maximum as maximum
from .. import mean as mean
from .. import median as median
from .. import meshgrid as meshgrid
from .. import min as min
from .. import minimum as minimum
from .. import moveaxis as moveaxis
from .. import multiply as multiply
from .. import nan as nan
from .. import negative as negative
from .. import newaxis as newaxis
from .. import nextafter as nextafter
from .. import no_grad as no_grad
from .. import nonzero as nonzero
from .. import not_equal as not_equal
from .. import ones as ones
from .. import ones_like as ones_like
from .. import ops as ops
from .. import outer as outer
from .. import pad as pad
from .. import passes as passes
from .. import permute_dims as permute_dims
from .. import pi as pi
from .. import placeholder as placeholder
from .. import positive as positive
from .. import pow as pow
from .. import prod as prod
from .. import promote_types as promote_types
from .. import rand as rand
from .. import randint as randint
from .. import randn as randn
from .. import random as random
from .. import ravel as ravel
from .. import real as real
from .. import reciprocal as reciprocal
from .. import relu as relu
from .. import remainder as remainder
from .. import repeat as repeat
from .. import reshape as reshape
from .. import result_type as result_type
from .. import reverse_gradient as reverse_gradient
from .. import roll as roll
from .. import round as round
from .. import rsqrt as rsqrt
from .. import scale_gradient as scale_gradient
from .. import scan as scan
from .. import scatter as scatter
from .. import scatter_add as scatter_add
from .. import searchsorted as searchsorted
from .. import set_default_dtype as set_default_dtype
from .. import set_eager_kernels as set_eager_kernels
from .. import set_grad_enabled as set_grad_enabled
from .. import set_num_threads as set_num_threads
from .. import sigmoid as sigmoid
from .. import sign as sign
from .. import signbit as signbit
from .. import sin as sin
from .. import sinh as sinh
from .. import softmax as softmax
from .. import solve as solve
from .. import sort as sort
from .. import sparse as sparse
from .. import spec as spec
from .. import special as special
from .. import split as split
from .. import sqrt as sqrt
from .. import square as square
from .. import squeeze as squeeze
from .. import stack as stack
from .. import std as std
from .. import stop_gradient as stop_gradient
from .. import straight_through as straight_through
from .. import subtract as subtract
from .. import sum as sum
from .. import summary as summary
from .. import swapaxes as swapaxes
from .. import switch as switch
from .. import symbolic as symbolic
from .. import take as take
from .. import take_along_axis as take_along_axis
from .. import tan as tan
from .. import tanh as tanh
from .. import taylor as taylor
from .. import tensor as tensor
from .. import tensordot as tensordot
from .. import tile as tile
from .. import top_k as top_k
from .. import torch as torch
from .. import trace as trace
from .. import train as train
from .. import tree as tree
from .. import tril as tril
from .. import triu as triu
from .. import trunc as trunc
from .. import typing as typing
from .. import uint16 as uint16
from .. import uint32 as uint32
from .. import uint64 as uint64
from .. import uint8 as uint8
from .. import unflatten as unflatten
from .. import unique_all as unique_all
from .. import unique_counts as unique_counts
from .. import unique_inverse as unique_inverse
from .. import unique_values as unique_values
from .. import unstack as unstack
from .. import value_and_grad as value_and_grad
from .. import var as var
from .. import vecdot as vecdot
from .. import view_as_complex as view_as_complex
from .. import view_as_real as view_as_real
from .. import vjp as vjp
from .. import vmap as vmap
from .. import where as where
from .. import while_loop as while_loop
from .. import zeros as zeros
from .. import zeros_like as zeros_like

from ..ops.random.generator import Generator as Generator
def absolute(x: TensorLike, /) -> Tensor:
    """The absolute value, a real number; its gradient at 0 is 0."""
def amax(x: TensorLike, axis: Axes | None = None, keepdims: _Bool = False, *, dim: Axes | None = ..., keepdim: _Bool = ...) -> Tensor:
    """Return the largest elements along axes (Array API)."""
def amin(x: TensorLike, axis: Axes | None = None, keepdims: _Bool = False, *, dim: Axes | None = ..., keepdim: _Bool = ...) -> Tensor:
    """Return the smallest elements along axes (Array API)."""
def as_tensor(data: TensorLike, dtype: DTypeLike | None = None, device: _Str | None = None) -> Tensor:
    """Return :func:`wengert.asarray` of `data`, under PyTorch's name."""
def batch_norm(x: TensorLike, running_mean: Tensor | None, running_var: Tensor | None, weight: TensorLike | None = None, bias: TensorLike | None = None, training: _Bool = False, momentum: _Float = 0.1, eps: _Float = 1e-05) -> Tensor:
    """Return x with every channel less its mean, divided by its deviation, times a weight, plus a bias."""
def bernoulli(p: TensorLike, generator: Generator | None = None, *, key: RandomKey | None = None) -> Tensor:
    """Return 0 and 1, in the dtype and shape of the probabilities `p`, 1 with that probability."""
def bitwise_not(x: TensorLike, /) -> Tensor:
    """Every bit of x flipped; of a boolean, its negation."""
def bmm(x: TensorLike, y: TensorLike) -> Tensor:
    """Return the products of two stacks of matrices, (b, m, n) and (b, n, p) (PyTorch)."""
def broadcast_tensors(*xs: TensorLike) -> list[Tensor]:
    """Return tensors, each with its own dtype, broadcast against each other. Raises ShapeError."""
def cat(xs: Sequence[TensorLike], axis: _Int | None = 0, *, dim: Axes | None = ...) -> Tensor:
    """Return tensors joined along an axis that they have; `cat` and `concatenate` are the same."""
def celu(x: TensorLike, alpha: _Float = 1.0) -> Tensor:
    """Return x where it is positive, else alpha (exp(x / alpha) - 1). Source: Barron 2017, arXiv:1704.07483."""
def chunk(x: TensorLike, chunks: _Int, axis: _Int = 0, *, dim: Axes | None = ...) -> tuple[Tensor, ...]:
    """Return `x` cut along an axis into at most `chunks` parts of one size, the last perhaps smaller."""
def clamp(x: TensorLike, min: TensorLike | None = None, max: TensorLike | None = None) -> Tensor:
    """Return `x`, but at least `min` and at most `max` (`max` wins where they cross)."""
def clone(x: TensorLike, /) -> Tensor:
    """A copy of x through which gradients flow."""
def concatenate(xs: Sequence[TensorLike], axis: _Int | None = 0, *, dim: Axes | None = ...) -> Tensor:
    """Return tensors joined along an axis that they have; `cat` and `concatenate` are the same."""
def conv1d(x: TensorLike, weight: TensorLike, bias: TensorLike | None = None, stride: Size = 1, padding: Size | _Str = 0, dilation: Size = 1, groups: _Int = 1) -> Tensor:
    """Return the convolution (cross-correlation) over one dimension: :func:`conv2d` for signals."""
def conv2d(x: TensorLike, weight: TensorLike, bias: TensorLike | None = None, stride: Size = 1, padding: Size | _Str = 0, dilation: Size = 1, groups: _Int = 1) -> Tensor:
    """Return the convolution (cross-correlation) over two dimensions."""
def conv3d(x: TensorLike, weight: TensorLike, bias: TensorLike | None = None, stride: Size = 1, padding: Size | _Str = 0, dilation: Size = 1, groups: _Int = 1) -> Tensor:
    """Return the convolution (cross-correlation) over three dimensions: :func:`conv2d` for volumes."""
def conv_transpose1d(x: TensorLike, weight: TensorLike, bias: TensorLike | None = None, stride: Size = 1, padding: Size = 0, output_padding: Size = 0, groups: _Int = 1, dilation: Size = 1) -> Tensor:
    """Return the transposed convolution over one dimension: :func:`conv_transpose2d` for signals."""
def conv_transpose2d(x: TensorLike, weight: TensorLike, bias: TensorLike | None = None, stride: Size = 1, padding: Size = 0, output_padding: Size = 0, groups: _Int = 1, dilation: Size = 1) -> Tensor:
    """Return the transposed convolution over two dimensions: the gradient of :func:`conv2d` in its input."""
def cosine_similarity(x: TensorLike, y: TensorLike, axis: _Int = 1, eps: _Float = 1e-08, *, dim: Axes | None = ...) -> Tensor:
    """Return the cosine of the angle between x and y along an axis."""
def cumprod(x: TensorLike, axis: _Int | None = None, *, dtype: DTypeLike | None = None, include_initial: _Bool = False, dim: Axes | None = ...) -> Tensor:
    """Return running products along an axis (Array API); `cumprod` is the same function."""
def cumsum(x: TensorLike, axis: _Int | None = None, *, dtype: DTypeLike | None = None, include_initial: _Bool = False, dim: Axes | None = ...) -> Tensor:
    """Return running sums along an axis (Array API); `cumsum` is the same function."""
def diag_embed(x: TensorLike, offset: _Int = 0) -> Tensor:
    """Return square matrices with the last axis of `x` on a diagonal and zeros elsewhere."""
def digamma(x: TensorLike, /) -> Tensor:
    """The derivative of lgamma; NaN at -1, -2, ..., an infinity of the opposite sign at 0.0 and -0.0. Near its zeros at negative numbers, between whole ones, as accurate as numbers about 1 are."""
def div(x: TensorLike, y: TensorLike, /) -> Tensor:
    """x over y, a floating number also for integers. Over 0 it is an infinity or NaN."""
double: np.dtype[Any]
def dropout(x: TensorLike, p: _Float = 0.5, training: _Bool = True, *, generator: Generator | None = None) -> Tensor:
    """Return elements set to 0 with probability `p`, the others divided by 1 - p."""
def embedding(weight: TensorLike, indices: TensorLike) -> Tensor:
    """Return the rows of a table that ids name: `weight[indices]`."""
def eq(x: TensorLike, y: TensorLike, /) -> Tensor:
    """Whether x == y, element by element."""
def erf(x: TensorLike, /) -> Tensor:
    """The error function, 2/sqrt(pi) times the integral of exp(-t*t) from 0 to x."""
def erfc(x: TensorLike, /) -> Tensor:
    """1 - erf(x), accurate where erf(x) is near 1."""
def erfinv(x: TensorLike, /) -> Tensor:
    """The inverse of the error function on [-1, 1]; NaN outside."""
float: np.dtype[Any]
def from_numpy(array: Any) -> Tensor:
    """Return a tensor of a NumPy array, in its dtype."""
def ge(x: TensorLike, y: TensorLike, /) -> Tensor:
    """Whether x >= y, element by element."""
def get_rng_state() -> Tensor:
    """Return the default generator's state, for :func:`set_rng_state`."""
def group_norm(x: TensorLike, num_groups: _Int, weight: TensorLike | None = None, bias: TensorLike | None = None, eps: _Float = 1e-05) -> Tensor:
    """Return x with groups of channels less their mean, over their deviation, times a weight, plus a bias."""
def gt(x: TensorLike, y: TensorLike, /) -> Tensor:
    """Whether x > y, element by element."""
half: np.dtype[Any]
def index_select(x: TensorLike, axis: _Int, indices: TensorLike, *, dim: Axes | None = ...) -> Tensor:
    """Return the slices of `x` at a vector of integers along `axis` (PyTorch)."""
def initial_seed() -> _Int:
    """Return the default generator's seed."""
int: np.dtype[Any]
def kl_div(input: TensorLike, target: TensorLike, reduction: _Str = 'mean', log_target: _Bool = False) -> Tensor:
    """Return the Kullback-Leibler divergence of `target` from exp(input), term by term."""
def layer_norm(x: TensorLike, normalized_shape: _Int | Sequence[_Int], weight: TensorLike | None = None, bias: TensorLike | None = None, eps: _Float = 1e-05) -> Tensor:
    """Return x less its mean over the last axes, divided by its deviation, times a weight, plus a bias."""
def le(x: TensorLike, y: TensorLike, /) -> Tensor:
    """Whether x <= y, element by element."""
def lgamma(x: TensorLike, /) -> Tensor:
    """The logarithm of |Gamma(x)|; inf at 0, -1, -2, ... Near its zeros at negative numbers as accurate as numbers about 1 are."""
long: np.dtype[Any]
def lt(x: TensorLike, y: TensorLike, /) -> Tensor:
    """Whether x < y, element by element."""
def masked_fill(x: TensorLike, mask: TensorLike, value: TensorLike) -> Tensor:
    """Return `x` with `value` where the boolean `mask`, which broadcasts to it, holds."""
def mm(x: TensorLike, y: TensorLike) -> Tensor:
    """Return the product of two matrices, (m, n) and (n, p) (PyTorch). Raises ShapeError for other ranks."""
def mul(x: TensorLike, y: TensorLike, /) -> Tensor:
    """x times y."""
def multinomial(probs: TensorLike, num_samples: _Int, replacement: _Bool = False, *, generator: Generator | None = None, key: RandomKey | None = None) -> Tensor:
    """Return class numbers drawn by weight, as in PyTorch."""
def mv(x: TensorLike, y: TensorLike) -> Tensor:
    """Return the product of a matrix (m, n) and a vector (n,) (PyTorch). Raises ShapeError for other ranks."""
def ne(x: TensorLike, y: TensorLike, /) -> Tensor:
    """Whether x != y, element by element."""
def neg(x: TensorLike, /) -> Tensor:
    """-x."""
def norm(x: TensorLike, p: _Float | _Str = 2, axis: Axes | None = None, keepdims: _Bool = False, *, dim: Axes | None = ..., keepdim: _Bool = ...) -> Tensor:
    """Return :func:`vector_norm` by PyTorch's name and parameters; `p="fro"` is 2."""
def permute(x: TensorLike, *dims: Axes) -> Tensor:
    """Return :func:`wengert.permute_dims` with the axes one by one or as a tuple."""
def polygamma(n: _Int, x: TensorLike) -> Tensor:
    """Return the `n`-th derivative of digamma at each element of `x`."""
def prelu(x: TensorLike, weight: TensorLike) -> Tensor:
    """Return x where it is positive, else `weight` x, the weight learnt. Source: He et al. 2015, arXiv:1502.01852."""
def rand_like(x: TensorLike, dtype: DTypeLike | None = None, requires_grad: _Bool = False, generator: Generator | None = None, *, key: RandomKey | None = None) -> Tensor:
    """Return uniform random numbers in [0, 1), of the shape and (unless given) the dtype of `x`."""
def randn_like(x: TensorLike, dtype: DTypeLike | None = None, requires_grad: _Bool = False, generator: Generator | None = None, *, key: RandomKey | None = None) -> Tensor:
    """Return standard normal random numbers, of the shape and (unless given) the dtype of `x`."""
def randperm(n: _Int, dtype: DTypeLike | None = None, generator: Generator | None = None, *, key: RandomKey | None = None) -> Tensor:
    """Return the integers from 0 to n - 1 in random order, int64 or the dtype given."""
def repeat_interleave(x: TensorLike, repeats: _Int | Sequence[_Int], axis: _Int | None = None, *, dim: Axes | None = ...) -> Tensor:
    """Return each element of `x` several times in a row; `repeat_interleave` is the same."""
def rms_norm(x: TensorLike, normalized_shape: _Int | Sequence[_Int], weight: TensorLike | None = None, eps: _Float | None = None) -> Tensor:
    """Return x over its root mean square along the last axes, times a weight."""
def seed() -> _Int:
    """Seed the default generator from the operating system. Returns the seed."""
def selu(x: TensorLike) -> Tensor:
    """Return the self-normalising elu. Source: Klambauer et al. 2017, arXiv:1706.02515."""
def set_rng_state(state: Any) -> None:
    """Set the default generator to the state that :func:`get_rng_state` gave."""
short: np.dtype[Any]
def sub(x: TensorLike, y: TensorLike, /) -> Tensor:
    """x - y."""
def t(x: TensorLike) -> Tensor:
    """Return the transpose of a matrix; a vector or a scalar as it is. `x.T` is the same."""
def tensor_split(x: TensorLike, indices_or_sections: _Int | Sequence[_Int], axis: _Int = 0, *, dim: Axes | None = ...) -> tuple[Tensor, ...]:
    """Return `x` cut along an axis as NumPy's `array_split` does."""
def topk(x: TensorLike, k: _Int, axis: _Int = -1, largest: _Bool = True, sorted: _Bool = True, *, dim: Axes | None = ...) -> TopK:
    """Return the k largest elements along an axis, largest first, and their indices."""
def transpose(x: TensorLike, dim0: _Int, dim1: _Int) -> Tensor:
    """Return `x` with two axes exchanged, as in PyTorch; for NumPy's, use :func:`wengert.permute_dims`."""
def true_divide(x: TensorLike, y: TensorLike, /) -> Tensor:
    """x over y, a floating number also for integers. Over 0 it is an infinity or NaN."""
def unbind(x: TensorLike, axis: _Int = 0, *, dim: Axes | None = ...) -> tuple[Tensor, ...]:
    """Return the slices of `x` along an axis, without it. Raises ShapeError."""
def unsqueeze(x: TensorLike, axis: _Int, *, dim: Axes | None = ...) -> Tensor:
    """Return :func:`wengert.expand_dims`, under PyTorch's name."""
