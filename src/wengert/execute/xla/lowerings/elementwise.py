"""Elementwise ops in XLA: most are the function of their name in `jax.lax` or `jax.numpy`, the Array API's names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....core.arrays import integer_bounds
from ....core.dtypes import record_of
from ....core.node import Node
from ..api import jnp, jsp, lax
from ..rules import RULES, Trace, dtype_of, lowers, narrow, together, wide


def _by_function(find: Callable[[], Any], *names: str) -> None:
    """Declare ops that are a function of their operands and nothing else."""

    def rule(t: Trace, node: Node, *args: Any) -> Any:
        return narrow(getattr(find(), node.op.name)(*together(node, args)), dtype_of(node))

    RULES.update(dict.fromkeys(names, rule))


def _in_single(find: Callable[[], Any], *names: str) -> None:
    """Declare functions that have no half precision of their own: they are computed in float32 and rounded once."""

    def rule(t: Trace, node: Node, *args: Any) -> Any:
        operands = [wide(a) for a in together(node, args)]
        return narrow(getattr(find(), node.op.name)(*operands), dtype_of(node))

    RULES.update(dict.fromkeys(names, rule))


def _as(name: str, find: Callable[[], Any]) -> None:
    """Declare an op that is a function with another name."""

    def rule(t: Trace, node: Node, *args: Any) -> Any:
        return narrow(find()(*together(node, args)), dtype_of(node))

    RULES[name] = rule


_by_function(
    lambda: lax, "sqrt", "rsqrt", "exp", "expm1", "log", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "atan2",
    "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "nextafter",
)  # fmt: skip
_by_function(
    lambda: jnp, "copysign", "hypot", "log2", "log10", "logaddexp", "logical_and", "logical_or", "logical_xor",
    "logical_not", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_invert", "isnan", "isinf", "isfinite",
    "signbit", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "trunc", "sign", "square",
)  # fmt: skip
_in_single(lambda: lax, "erf", "erfc", "lgamma", "digamma")
_in_single(lambda: jsp, "gammainc", "gammaincc", "betainc", "i0e", "i1e", "ndtri", "ndtr", "log_ndtr")
_as("add", lambda: lax.add)
_as("subtract", lambda: lax.sub)
_as("negative", lambda: lax.neg)
_as("maximum", lambda: jnp.maximum)
_as("minimum", lambda: jnp.minimum)
_as("sigmoid", lambda: lax.logistic)


@lowers("abs")
def _abs(t: Trace, node: Node, x: Any) -> Any:
    return x if x.dtype.kind in "ub" else lax.abs(x)


@lowers("multiply")
def _multiply(t: Trace, node: Node, *args: Any) -> Any:
    x, y = together(node, args)
    return lax.bitwise_and(x, y) if x.dtype == bool else lax.mul(x, y)


@lowers("copy", "positive", "stop_gradient", "checkpoint_name", "clip_gradient", "clip_gradient_norm", "alias")
def _itself(t: Trace, node: Node, x: Any, *rest: Any) -> Any:
    return x


@lowers("scale_gradient", "straight_through")
def _first(t: Trace, node: Node, *args: Any) -> Any:
    return together(node, args)[0]


@lowers("output")
def _output(t: Trace, node: Node, xs: Any) -> Any:
    return xs[node.attrs["index"]]


@lowers("where")
def _where(t: Trace, node: Node, condition: Any, *args: Any) -> Any:
    condition, x, y = together(node, (condition, *args))
    return lax.select(condition, x, y)


@lowers("relu")
def _relu(t: Trace, node: Node, x: Any) -> Any:
    return jnp.maximum(x, np.zeros((), dtype_of(node)))


@lowers("clip")
def _clip(t: Trace, node: Node, *args: Any) -> Any:
    x, low, high = together(node, args)
    return jnp.minimum(jnp.maximum(x, low), high)


@lowers("floor", "ceil", "round")
def _rounded(t: Trace, node: Node, x: Any) -> Any:
    if x.dtype.kind in "iub":
        return x
    if node.op.name == "round":
        return jnp.round(x)
    return lax.floor(x) if node.op.name == "floor" else lax.ceil(x)


@lowers("divide")
def _divide(t: Trace, node: Node, *args: Any) -> Any:
    dtype = dtype_of(node)
    return lax.div(*(narrow(a, dtype) for a in together(node, args)))


@lowers("reciprocal")
def _reciprocal(t: Trace, node: Node, x: Any) -> Any:
    return lax.div(jnp.ones_like(x), x)


@lowers("floor_divide", "remainder")
def _divided(t: Trace, node: Node, *args: Any) -> Any:
    x, y = together(node, args)
    fn = jnp.floor_divide if node.op.name == "floor_divide" else jnp.remainder
    if x.dtype.kind not in "iu":
        return _floor_divided(x, y) if node.op.name == "floor_divide" else fn(x, y)
    zero = y == 0  # NumPy's integers divided by 0 are 0
    return lax.select(zero, jnp.zeros_like(x), fn(x, lax.select(zero, jnp.ones_like(y), y)))


def _floor_divided(x: Any, y: Any) -> Any:
    """Return NumPy's floor division of floating numbers: by 0 it is the quotient, an infinity or NaN."""
    rest = lax.rem(x, y)
    quotient = (x - rest) / y
    quotient = lax.select((rest != 0) & ((y < 0) != (rest < 0)), quotient - 1, quotient)
    whole = lax.floor(quotient)
    whole = lax.select(quotient - whole > 0.5, whole + 1, whole)
    exact = x / y
    whole = lax.select(quotient != 0, whole, jnp.copysign(jnp.zeros_like(whole), exact))
    return lax.select(y == 0, exact, whole)


@lowers("pow")
def _pow(t: Trace, node: Node, *args: Any) -> Any:
    x, y = together(node, args)
    if y.dtype.kind in "iu":
        if y.dtype.kind == "i":
            t.check(jnp.asarray(y < 0))
        return _whole_power(x, args[1], y)
    if isinstance(args[1], (int, float)) and not isinstance(args[1], bool) and x.dtype.kind == "f":
        if args[1] == 0.5:
            return lax.select(x == -np.inf, jnp.full_like(x, np.inf), lax.sqrt(x + np.zeros((), x.dtype)))
        if args[1] in range(65):  # of a negative power the product may vanish where the result does not
            return lax.integer_pow(x, int(args[1]))
        if args[1] == -1:
            return lax.div(jnp.ones_like(x), x)
    return jnp.power(x, y)


def _whole_power(x: Any, given: Any, y: Any) -> Any:
    """Return NumPy's power of integers, which wraps: jnp.power takes only six bits of an exponent."""
    if type(given) is int and given >= 0:
        return lax.integer_pow(x, given)

    def squared(state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        out, base, left = state
        return lax.select(left & 1 == 1, out * base, out), base * base, left >> 1

    start = (jnp.ones_like(x), jnp.asarray(x), jnp.maximum(y, 0))
    return lax.while_loop(lambda state: jnp.any(state[2] > 0), squared, start)[0]


@lowers("conj")
def _conj(t: Trace, node: Node, x: Any) -> Any:
    return lax.conj(x) if x.dtype.kind == "c" else x


@lowers("real", "imag")
def _part(t: Trace, node: Node, x: Any) -> Any:
    if x.dtype.kind == "c":
        return lax.real(x) if node.op.name == "real" else lax.imag(x)
    return x if node.op.name == "real" else jnp.zeros_like(x)


@lowers("view_as_real")
def _view_as_real(t: Trace, node: Node, x: Any) -> Any:
    return jnp.stack([lax.real(x), lax.imag(x)], -1)


@lowers("view_as_complex")
def _view_as_complex(t: Trace, node: Node, x: Any) -> Any:
    x = wide(x)
    return lax.complex(x[..., 0], x[..., 1])


@lowers("bitwise_left_shift", "bitwise_right_shift")
def _shifted(t: Trace, node: Node, *args: Any) -> Any:
    x, y = together(node, args)
    if node.op.name == "bitwise_left_shift":
        return lax.shift_left(x, y)
    return (lax.shift_right_arithmetic if x.dtype.kind == "i" else lax.shift_right_logical)(x, y)


@lowers("cast")
def _cast(t: Trace, node: Node, x: Any) -> Any:
    dtype = dtype_of(node)
    if dtype.kind == "b":
        return x if x.dtype == dtype else lax.ne(x, np.zeros((), x.dtype))
    if dtype.kind not in "iu" or x.dtype.kind in "biu":
        largest = record_of(dtype).largest
        return narrow(x if largest is None else jnp.clip(wide(x), -largest, largest), dtype)
    # Truncated toward 0; out of range is the nearest bound, NaN is 0.
    x = wide(x)
    low, high = integer_bounds(dtype)
    inside = (x >= np.asarray(low, x.dtype)) & (x < np.asarray(high, x.dtype))
    whole = narrow(lax.select(inside, x, jnp.zeros_like(x)), dtype)
    bounds = np.iinfo(dtype)
    whole = lax.select(x >= np.asarray(high, x.dtype), jnp.full_like(whole, bounds.max), whole)
    return lax.select(x < np.asarray(low, x.dtype), jnp.full_like(whole, bounds.min), whole)


@lowers("xlogy", "xlog1py")
def _xlogy(t: Trace, node: Node, *args: Any) -> Any:
    x, y = together(node, args)
    product = x * (lax.log(y) if node.op.name == "xlogy" else lax.log1p(y))
    return lax.select((x == 0) & (y == y), jnp.zeros_like(product), product)


@lowers("erfinv")
def _erfinv(t: Trace, node: Node, x: Any) -> Any:
    return narrow(lax.erf_inv(wide(x)), dtype_of(node))


@lowers("probability")
def _probability(t: Trace, node: Node, x: Any) -> Any:
    t.check((x < 0) | (x > 1))
    return x


@lowers("class_index")
def _class_index(t: Trace, node: Node, target: Any) -> Any:
    classes, ignored = node.attrs["classes"], node.attrs["ignore_index"]
    t.check_integers(node.inputs[0], target, 0, classes, ignored)
    bounds = np.iinfo(target.dtype)
    if not bounds.min <= ignored <= bounds.max:
        return target
    return lax.select(target == np.asarray(ignored, target.dtype), jnp.zeros_like(target), target)
