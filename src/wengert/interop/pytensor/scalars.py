"""Rules for PyTensor's scalar ops, applied element by element, and for what broadcasts and reduces them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce, singledispatch
from typing import Any

import numpy as np
import pytensor.scalar.basic as ps
import pytensor.scalar.math as pm
from pytensor.scalar.loop import ScalarLoop
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.math import Argmax, MulWithoutZeros
from pytensor.tensor.special import LogSoftmax, Softmax, SoftmaxGrad

import wengert as wg

from ...ops.special.gamma import ERFCX
from .convert import NoRuleError, Walk, dtype_of, funcify, known, tensor, value_of


@singledispatch
def scalar_function(op: Any, node: Any) -> Callable[..., Any]:
    """Return the function of tensors that a scalar op is, element by element. Raises NoRuleError."""
    raise NoRuleError(f"no rule for PyTensor's scalar op {op}")


def has_scalar_rule(op: Any) -> bool:
    """Return whether there is a rule for a scalar op, and for all in it."""
    if isinstance(op, (ps.Composite, ScalarLoop)):
        return all(has_scalar_rule(node.op) for node in op.fgraph.apply_nodes)
    return scalar_function.dispatch(type(op)) is not scalar_function.dispatch(object)


def _in(dtype: Any, fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of operands that are first cast to the result's dtype."""
    return lambda *xs: fn(*(tensor(x, dtype) for x in xs))


def _declare(kinds: dict[type, Callable[..., Any]], wrap: Callable[[Any, Callable[..., Any]], Any]) -> None:
    for kind, fn in kinds.items():
        scalar_function.register(kind, lambda op, node, fn=fn: wrap(node, fn))


def _log1mexp(x: Any) -> Any:
    return wg.where(x > -math.log(2.0), wg.log(-wg.expm1(x)), wg.log1p(-wg.exp(x)))


def _half_away(x: Any) -> Any:
    whole = wg.trunc(x)
    return whole + wg.where(wg.abs(x - whole) >= 0.5, wg.sign(x), wg.zeros_like(x))


def _erfcx(x: Any) -> Any:
    """Return exp(x * x) erfc(x): for x >= 0 Shepherd's and Laframboise's polynomial, else twice the bell less that."""
    size = wg.abs(x)
    t = wg.where(wg.isinf(size), 1.0, (size - 3.75) / (size + 3.75))
    right = reduce(lambda value, c: value * t + c, reversed(ERFCX), wg.zeros_like(t)) / (1.0 + 2.0 * size)
    return wg.where(x < 0, 2.0 * wg.exp(x * x) - right, right)


def _gamma(x: Any) -> Any:
    """Return the gamma function: its logarithm is that of its size, and it changes its sign at every pole."""
    below = wg.floor(x)
    is_odd = wg.remainder(below, wg.full_like(x, 2.0)) == 1.0
    sign = wg.where(x < 0, wg.where(is_odd, -1.0, 1.0), wg.copysign(wg.ones_like(x), x))
    is_pole = (x < 0) & (x == below)
    return wg.where(is_pole, math.nan, sign * wg.exp(wg.special.gammaln(x)))


# In the dtype of the result.
_declare(
    {
        ps.Add: lambda *xs: reduce(wg.add, xs),
        ps.Mul: lambda *xs: reduce(wg.multiply, xs),
        ps.Sub: wg.subtract,
        ps.TrueDiv: wg.divide,
        ps.IntDiv: wg.floor_divide,
        ps.Mod: wg.remainder,
        ps.Maximum: wg.maximum,
        ps.Minimum: wg.minimum,
        ps.Second: lambda x, y: wg.broadcast_to(y, np.broadcast_shapes(x.shape, y.shape)),
        ps.Identity: lambda x: x,
        ps.Clip: lambda x, low, high: wg.where(x < low, low, wg.where(x > high, high, x)),
        ps.Cast: lambda x: x,
        ps.Abs: wg.abs,
        ps.Sign: wg.sign,
        ps.Ceil: wg.ceil,
        ps.Floor: wg.floor,
        ps.Trunc: wg.trunc,
        ps.RoundHalfToEven: wg.round,
        ps.RoundHalfAwayFromZero: _half_away,
        ps.Neg: wg.negative,
        ps.Reciprocal: wg.reciprocal,
        ps.Log: wg.log,
        ps.Log2: wg.log2,
        ps.Log10: wg.log10,
        ps.Log1p: wg.log1p,
        ps.Exp: wg.exp,
        ps.Exp2: lambda x: wg.exp(x * math.log(2.0)),
        ps.Expm1: wg.expm1,
        ps.Sqr: wg.square,
        ps.Sqrt: wg.sqrt,
        ps.Deg2Rad: lambda x: x * (math.pi / 180.0),
        ps.Rad2Deg: lambda x: x * (180.0 / math.pi),
        ps.Cos: wg.cos,
        ps.Sin: wg.sin,
        ps.Tan: wg.tan,
        ps.ArcCos: wg.acos,
        ps.ArcSin: wg.asin,
        ps.ArcTan: wg.atan,
        ps.ArcTan2: wg.atan2,
        ps.Cosh: wg.cosh,
        ps.Sinh: wg.sinh,
        ps.Tanh: wg.tanh,
        ps.ArcCosh: wg.acosh,
        ps.ArcSinh: wg.asinh,
        ps.ArcTanh: wg.atanh,
        ps.AND: wg.bitwise_and,
        ps.OR: wg.bitwise_or,
        ps.XOR: wg.bitwise_xor,
        ps.Invert: wg.bitwise_invert,
        pm.Erf: wg.special.erf,
        pm.Erfc: wg.special.erfc,
        pm.Erfinv: wg.special.erfinv,
        pm.Erfcinv: wg.special.erfcinv,
        pm.Erfcx: _erfcx,
        pm.Gamma: _gamma,
        pm.GammaU: lambda k, x: wg.special.gammaincc(k, x) * _gamma(k),
        pm.GammaL: lambda k, x: wg.special.gammainc(k, x) * _gamma(k),
        # At -inf C's function is inf, and SciPy's -inf.
        pm.GammaLn: lambda x: wg.where(x == -math.inf, -math.inf, wg.special.gammaln(x)),
        pm.Psi: wg.special.digamma,
        pm.TriGamma: lambda x: wg.special.polygamma(1, x),
        pm.GammaInc: wg.special.gammainc,
        pm.GammaIncC: wg.special.gammaincc,
        pm.BetaInc: wg.special.betainc,
        pm.I0: wg.special.i0,
        pm.I1: wg.special.i1,
        pm.Sigmoid: wg.sigmoid,
        pm.Softplus: lambda x: wg.logaddexp(x, wg.zeros_like(x)),
        pm.Log1mexp: _log1mexp,
    },
    lambda node, fn: _in(dtype_of(node), fn),
)


@scalar_function.register(ps.Pow)
def _power(op: Any, node: Any) -> Callable[..., Any]:
    """Return powers: a known exponent is a number, which has code of its own."""
    dtype = dtype_of(node)

    def run(x: Any, y: Any) -> Any:
        is_number = not isinstance(y, wg.Tensor) and np.size(y) == 1 and np.ndim(y) == 0
        return wg.pow(tensor(x, dtype), np.asarray(y, dtype).item() if is_number else tensor(y, dtype))

    return run


def _compared(node: Any, fn: Callable[..., Any]) -> Callable[..., Any]:
    return _in(np.result_type(*(v.type.dtype for v in node.inputs)), fn)


# In the dtype that the operands have together.
_declare(
    {
        ps.LT: wg.less,
        ps.GT: wg.greater,
        ps.LE: wg.less_equal,
        ps.GE: wg.greater_equal,
        ps.EQ: wg.equal,
        ps.NEQ: wg.not_equal,
        ps.IsNan: wg.isnan,
        ps.IsInf: wg.isinf,
        ps.Real: wg.real,
        ps.Imag: wg.imag,
        ps.Conj: wg.conj,
        ps.Angle: lambda x: wg.atan2(wg.imag(x), wg.real(x)),
    },
    _compared,
)


@scalar_function.register(ps.Switch)
def _switch(op: Any, node: Any) -> Callable[..., Any]:
    dtype = dtype_of(node)
    return lambda c, a, b: wg.where(tensor(c, np.bool_), tensor(a, dtype), tensor(b, dtype))


def _within(fgraph: Any, xs: Sequence[Any]) -> list[Any]:
    """Return the outputs of a graph of scalar ops, element by element."""
    values = dict(zip(fgraph.inputs, xs, strict=True))
    for inner in fgraph.toposort():
        given = [value_of(values, v) for v in inner.inputs]
        found = scalar_function(inner.op, inner)(*given)
        values.update(zip(inner.outputs, found if isinstance(found, list) else [found], strict=True))
    return [value_of(values, v) for v in fgraph.outputs]


@scalar_function.register(ps.Composite)
def _composite(op: Any, node: Any) -> Callable[..., Any]:
    return lambda *xs: _within(op.fgraph, xs)


@scalar_function.register(ScalarLoop)
def _loop(op: Any, node: Any) -> Callable[..., Any]:
    """Return a loop that all elements go through together: those that are done stay as they are."""
    count = len(op.outputs) - op.is_while

    def run(steps: Any, *given: Any) -> Any:
        shape = np.broadcast_shapes(*(np.shape(x) for x in (steps, *given)))
        kinds = [v.type.dtype for v in op.fgraph.inputs]
        full = [wg.broadcast_to(tensor(x, kind), shape) for x, kind in zip(given, kinds, strict=True)]
        constants, limit = full[count:], wg.broadcast_to(tensor(steps, np.int64), shape)

        def step(state: Any) -> Any:
            at, has_ended, last = state
            found = _within(op.fgraph, [*last, *constants])
            kept = [wg.where(runs(at, has_ended), new, old) for old, new in zip(last, found[:count], strict=True)]
            return at + 1, has_ended | (runs(at, has_ended) & found[-1]) if op.is_while else has_ended, kept

        def runs(at: Any, has_ended: Any) -> Any:
            return (at < limit) & ~has_ended

        begin = (wg.zeros((), dtype=np.int64), wg.zeros(shape, dtype=np.bool_), full[:count])
        _, has_ended, last = wg.while_loop(lambda state: wg.any(runs(*state[:2])), step, begin)
        return [*last, has_ended] if op.is_while else last

    return run


@funcify.register(Elemwise)
def _elemwise(op: Any, node: Any, walk: Walk) -> Callable[..., Any]:
    fn = scalar_function(op.scalar_op, node)

    def run(*xs: Any) -> Any:
        Elemwise._check_runtime_broadcast(node, tuple(map(tensor, xs)))
        found = fn(*xs)
        results = found if isinstance(found, list) else [found]
        shape = np.broadcast_shapes(*(np.shape(x) if not isinstance(x, wg.Tensor) else x.shape for x in xs))
        return [wg.broadcast_to(tensor(x, v.type.dtype), shape) for x, v in zip(results, node.outputs, strict=True)]

    return run


def _product_of_others(x: Any, axis: tuple[int, ...]) -> Any:
    """Return the product of what is not 0; of nothing else than zeros it is 0."""
    is_zero = x == 0
    return wg.where(wg.all(is_zero, axis=axis), 0, wg.prod(wg.where(is_zero, 1, x), axis=axis))


_REDUCTIONS: dict[type, Callable[..., Any]] = {
    ps.Add: wg.sum,
    ps.Mul: wg.prod,
    MulWithoutZeros: _product_of_others,
    ps.Maximum: wg.max,
    ps.Minimum: wg.min,
    ps.AND: wg.all,
    ps.OR: wg.any,
}


@funcify.register(CAReduce)
def _reduction(op: Any, node: Any, walk: Walk) -> Callable[..., Any]:
    fn, dtype = _REDUCTIONS.get(type(op.scalar_op)), dtype_of(node)
    if fn is None or (fn in (wg.all, wg.any) and node.inputs[0].type.dtype != "bool"):
        raise NoRuleError(f"no rule for PyTensor's reduction {op} of {node.inputs[0].type.dtype}")

    def run(x: Any) -> Any:
        x = tensor(x)
        axes = tuple(range(x.ndim)) if op.axis is None else tuple(op.axis)
        if not axes:
            return tensor(x, dtype)
        if fn in (wg.sum, wg.prod, _product_of_others):
            x = tensor(x, getattr(op, "acc_dtype", None) or dtype)
        return tensor(fn(x, axis=axes), dtype)

    return run


@funcify.register(Argmax)
def _argmax(op: Any, node: Any, walk: Walk) -> Callable[..., Any]:
    def run(x: Any) -> Any:
        x = tensor(x)
        axes = tuple(range(x.ndim)) if op.axis is None else tuple(op.axis)
        kept = tuple(a for a in range(x.ndim) if a not in axes)
        rows = wg.permute_dims(x, kept + axes).reshape((*(x.shape[a] for a in kept), -1))
        return tensor(wg.argmax(rows, axis=-1), dtype_of(node))

    return run


@funcify.register(DimShuffle)
def _shuffled(op: Any, node: Any, walk: Walk) -> Callable[..., Any]:
    def run(x: Any) -> Any:
        dropped = [x.shape[a] for a in op.drop]
        if any(n != 1 for n in dropped):
            raise ValueError(f"{op}: an axis of size {dropped} is no axis of size 1 that could be dropped")
        moved = wg.permute_dims(x, tuple(op.transposition))
        shape = list(moved.shape[: len(op.shuffle)])
        for at in op.augment:
            shape.insert(at, 1)
        return wg.reshape(moved, tuple(shape))

    return run


@funcify.register(Softmax)
def _softmax(op: Any, node: Any, walk: Walk) -> Callable[..., Any]:
    return lambda x: _along(wg.softmax, x, op.axis)


@funcify.register(LogSoftmax)
def _log_softmax(op: Any, node: Any, walk: Walk) -> Callable[..., Any]:
    return lambda x: _along(wg.log_softmax, x, op.axis)


@funcify.register(SoftmaxGrad)
def _softmax_gradient(op: Any, node: Any, walk: Walk) -> Callable[..., Any]:
    def run(dy: Any, found: Any) -> Any:
        weighted = tensor(dy) * tensor(found)
        axes = tuple(range(weighted.ndim)) if op.axis is None else op.axis
        return weighted - wg.sum(weighted, axis=axes, keepdims=True) * tensor(found)

    return run


def _along(fn: Callable[..., Any], x: Any, axis: Any) -> Any:
    return fn(x, axis=axis) if axis is not None else fn(wg.reshape(x, (-1,)), axis=0).reshape(x.shape)


@scalar_function.register(pm.PolyGamma)
def _polygamma(op: Any, node: Any) -> Callable[..., Any]:
    def run(n: Any, x: Any) -> Any:
        order = known(n, "the order of a polygamma function")
        if order.size != 1:
            raise NoRuleError("no rule for polygamma functions of several orders")
        return wg.special.polygamma(int(order.reshape(())), tensor(x, dtype_of(node)))

    return run
