"""NumPy's functions on tensors: `np.sin(t)` and `np.sum(t, axis=0)` are Wengert's, and gradients flow.

NumPy asks its arguments before it computes (NEP 13 for ufuncs, NEP 18 for functions). Where Wengert has the
function with that meaning, it runs and gives tensors. Where it has not, NumPy computes on the values and gives
arrays, if nothing is lost by it: with a tensor that gradients flow to, or one without a value, it is an error.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from ..core.errors import GradientError, GraphError, fail
from ..core.mode import get_mode
from ..core.ops.declare import METHODS
from ..core.ops.op import TABLE
from ..core.tensor import Tensor
from .structure.shapes import as_operand

# NumPy functions by their names there, each with Wengert's where that has another. They mean the same; arguments are
# given by the names that Wengert has for them (see `_NAMES`), and what it does not have must be left at its default.
_SAME = """
all allclose amax:max amin:min any argmax argmin argsort around:round array_split broadcast_arrays
broadcast_to clip concat concatenate:concat count_nonzero cumprod:cumulative_prod cumsum:cumulative_sum
cumulative_prod cumulative_sum diag diagonal diff dot einsum expand_dims flip imag isclose kron matrix_transpose max
mean median meshgrid min moveaxis nonzero outer permute_dims prod ravel real repeat roll round searchsorted sort
squeeze stack std sum swapaxes take take_along_axis tensordot tile trace tril triu unique_all unique_counts
unique_inverse unique_values unstack var zeros_like ones_like empty_like full_like
linalg.cholesky linalg.cond linalg.cross linalg.det linalg.diagonal linalg.eig linalg.eigh linalg.eigvals
linalg.eigvalsh linalg.inv linalg.lstsq linalg.matmul linalg.matrix_norm linalg.matrix_power linalg.matrix_rank
linalg.matrix_transpose linalg.multi_dot linalg.norm linalg.outer linalg.pinv linalg.qr linalg.slogdet linalg.solve
linalg.svd linalg.svdvals linalg.tensordot linalg.trace linalg.vecdot linalg.vector_norm
fft.fft fft.fft2 fft.fftn fft.fftshift fft.hfft fft.ifft fft.ifft2 fft.ifftn fft.ifftshift fft.ihfft fft.irfft
fft.irfft2 fft.irfftn fft.rfft fft.rfft2 fft.rfftn
"""
# NumPy's names of keyword arguments, with Wengert's.
_NAMES = {"ddof": "correction", "axis1": "dim1", "axis2": "dim2", "a_min": "min", "a_max": "max", "rcond": "rtol"}
# Wengert's names for ufuncs that are no op's forward.
_UFUNCS = {
    "power": "pow",
    "absolute": "abs",
    "conjugate": "conj",
    "invert": "bitwise_invert",
    "left_shift": "bitwise_left_shift",
    "right_shift": "bitwise_right_shift",
    "rint": "round",
    "radians": "deg2rad",
    "degrees": "rad2deg",
}
_REDUCTIONS = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min"} | {
    "logical_and": "all",
    "logical_or": "any",
}


def _namespace() -> Any:
    return as_operand(0.0).__array_namespace__()


def _find(path: str) -> Any:
    """Return a public function of Wengert's by its dotted name; None where there is none."""
    found = _namespace()
    for name in path.split("."):
        found = getattr(found, name, None)
    return found


# -- functions written anew, by NumPy's arguments

_Adapter = Callable[..., Any]
_OWN: dict[Any, _Adapter] = {}


def _own(*functions: Any) -> Callable[[_Adapter], _Adapter]:
    def register(f: _Adapter) -> _Adapter:
        for function in functions:
            _OWN[function] = f
        return f

    return register


@_own(np.reshape)
def _reshape(a: Any, shape: Any) -> Any:
    return as_operand(a).reshape(shape)


@_own(np.transpose)
def _transpose(a: Any, axes: Any = None) -> Any:
    x = as_operand(a)
    return _find("permute_dims")(x, tuple(reversed(range(x.ndim))) if axes is None else tuple(axes))


@_own(np.vstack)
def _vstack(tup: Sequence[Any]) -> Any:
    return _find("concat")([_find("atleast_2d")(x) for x in tup], axis=0)


@_own(np.hstack)
def _hstack(tup: Sequence[Any]) -> Any:
    parts = [_find("atleast_1d")(x) for x in tup]
    return _find("concat")(parts, axis=0 if parts[0].ndim == 1 else 1)


@_own(np.column_stack)
def _column_stack(tup: Sequence[Any]) -> Any:
    parts = [as_operand(x) for x in tup]
    return _find("concat")([x if x.ndim > 1 else x.reshape(-1, 1) for x in parts], axis=1)


@_own(np.append)
def _append(arr: Any, values: Any, axis: Any = None) -> Any:
    return _find("concat")([as_operand(arr), as_operand(values)], axis=axis)


@_own(np.inner)
def _inner(a: Any, b: Any) -> Any:
    x, y = as_operand(a), as_operand(b)
    return x * y if not x.ndim or not y.ndim else _find("tensordot")(x, y, axes=((-1,), (-1,)))


@_own(np.vdot)
def _vdot(a: Any, b: Any) -> Any:
    return (as_operand(a).conj().reshape(-1) * as_operand(b).reshape(-1)).sum()


@_own(np.average)
def _average(a: Any, axis: Any = None, weights: Any = None) -> Any:
    x = as_operand(a)
    if weights is None:
        return x.mean(axis=axis)
    w = as_operand(weights)
    if w.shape != x.shape and isinstance(axis, int):
        w = w.reshape([-1 if i == axis % x.ndim else 1 for i in range(x.ndim)])
    return (x * w).sum(axis=axis) / (w + x * 0).sum(axis=axis)


@_own(np.ptp)
def _ptp(a: Any, axis: Any = None, keepdims: Any = False) -> Any:
    x = as_operand(a)
    return x.amax(axis=axis, keepdims=keepdims) - x.amin(axis=axis, keepdims=keepdims)


@_own(np.fliplr)
def _fliplr(m: Any) -> Any:
    return _find("flip")(m, axis=1)


@_own(np.flipud)
def _flipud(m: Any) -> Any:
    return _find("flip")(m, axis=0)


@_own(np.copy)
def _copy(a: Any) -> Any:
    return as_operand(a).clone()


@_own(np.array_equal)
def _array_equal(a1: Any, a2: Any) -> Any:
    x, y = as_operand(a1), as_operand(a2)
    return x.shape == y.shape and bool((x == y).all())


@_own(np.shape)
def _shape(a: Any) -> Any:
    return as_operand(a).shape


@_own(np.ndim)
def _ndim(a: Any) -> Any:
    return as_operand(a).ndim


@_own(np.size)
def _size(a: Any, axis: Any = None) -> Any:
    x = as_operand(a)
    return x.size if axis is None else x.shape[axis]


@_own(np.iscomplexobj)
def _iscomplexobj(x: Any) -> Any:
    return as_operand(x).is_complex()


@_own(np.isrealobj)
def _isrealobj(x: Any) -> Any:
    return not as_operand(x).is_complex()


@_own(np.trapezoid)
def _trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    values = _find("moveaxis")(as_operand(y), axis, -1)
    steps = dx if x is None else _find("diff")(as_operand(x))
    return ((values[..., 1:] + values[..., :-1]) * 0.5 * steps).sum(axis=-1)


@_own(np.where)
def _where(condition: Any, x: Any = None, y: Any = None) -> Any:
    return _find("nonzero")(condition) if x is None and y is None else _find("where")(condition, x, y)


@_own(np.split)
def _split(ary: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    x = as_operand(ary)
    if isinstance(indices_or_sections, int) and x.shape[axis] % indices_or_sections:
        raise ValueError("array split does not result in an equal division")
    return list(_find("array_split")(x, indices_or_sections, axis=axis))


@_own(np.pad)
def _pad(array: Any, pad_width: Any, mode: str = "constant", constant_values: Any = 0) -> Any:
    values = set(np.ravel(constant_values).tolist())
    if len(values) != 1:
        raise _Unlike("constant_values that differ")
    return _find("pad")(array, pad_width, mode=mode, value=values.pop())


# -- dispatch


class _Unlike(Exception):
    """An error for a call that Wengert's function does not take."""


@cache
def _known(function: Any) -> Callable[[Sequence[Any], Mapping[str, Any]], Any] | None:
    """Return a runner of a NumPy function by Wengert's; None where there is none. The runner raises `_Unlike`."""
    own = _OWN.get(function)
    signature = inspect.signature(own if own is not None else function)
    target = own if own is not None else _same().get(function)
    if target is None:
        return None
    takes = inspect.signature(target).parameters

    def run(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        given, named = _arguments(function, signature, args, kwargs)
        found = {}
        for name, value in named.items():
            known = name if name in takes else _NAMES.get(name, "")
            if known not in takes:
                raise _Unlike(f"{name}=")
            found[known] = value
        return target(*given, **found)

    return run


def _arguments(
    function: Any, signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Return a call's arguments by position (those without defaults) and by name (those that differ from them)."""
    # NumPy's own signature says what is at its default, also where the function that runs has fewer parameters.
    defaults = inspect.signature(function).parameters
    rest = {
        name: value
        for name, value in kwargs.items()
        if name in signature.parameters or name not in defaults or value is not defaults[name].default
    }
    try:
        bound = signature.bind(*args, **rest)
    except TypeError as e:
        raise _Unlike(str(e)) from None
    given: list[Any] = []
    named: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        p = signature.parameters[name]
        if p.kind is p.VAR_POSITIONAL:
            given += value
        elif p.kind is p.VAR_KEYWORD:
            named.update(value)
        elif p.default is p.empty:
            given.append(value)
        elif value is not p.default:
            named[name] = value
    return given, named


@cache
def _same() -> dict[Any, Any]:
    """Return NumPy's functions with Wengert's of the same meaning."""
    found = {}
    for entry in _SAME.split():
        name, _, other = entry.partition(":")
        theirs: Any = np
        for part in name.split("."):
            theirs = getattr(theirs, part, None)
        ours = _find(other or name)
        if theirs is not None and ours is not None:
            found[theirs] = ours
    return found


def array_function(self: Tensor, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """Run NumPy's function on tensors by Wengert's of the same meaning (NEP 18)."""
    if not all(issubclass(t, (Tensor, np.ndarray)) for t in types):
        return NotImplemented
    module = {"numpy.linalg": "np.linalg.", "numpy.fft": "np.fft."}.get(func.__module__, "np.")
    call = module + func.__name__
    run = _known(func)
    why = "Wengert has no such function"
    if run is not None:
        try:
            return run(args, kwargs)
        except _Unlike as e:
            why = f"Wengert's function does not take {e}"
    return func(*_as_arrays(args, call, why), **_as_arrays(kwargs, call, why))


def array_ufunc(self: Tensor, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """Run NumPy's elementwise function on tensors by Wengert's (NEP 13): `np.sin(t)` is `wg.sin(t)`."""
    call = f"np.{ufunc.__name__}" if method == "__call__" else f"np.{ufunc.__name__}.{method}"
    function = None
    if method == "__call__":
        op = next((op for op in TABLE.values() if op.forward is ufunc), None)
        function = op.front if op is not None else _find(_UFUNCS.get(ufunc.__name__, ufunc.__name__))
        if not kwargs and function is not None:
            return function(*inputs)
    elif method == "reduce" and ufunc.__name__ in _REDUCTIONS and kwargs.keys() <= {"axis", "keepdims"}:
        return _find(_REDUCTIONS[ufunc.__name__])(*inputs, **{"axis": 0, **kwargs})
    why = f"Wengert's function does not take {', '.join(f'{k}=' for k in kwargs)}" if function is not None else ""
    why = why or "Wengert has no such function"
    arrays = _as_arrays(inputs, call, why)
    return getattr(ufunc, method)(*arrays, **_as_arrays(kwargs, call, why))


def _as_arrays(pytree: Any, call: str, why: str) -> Any:
    """Return the tensors in the arguments of a NumPy function as arrays, where nothing is lost by it."""
    if isinstance(pytree, Tensor):
        if pytree.is_abstract:
            fail(
                GraphError,
                f"{call} of a tensor without a value, {pytree.spec}",
                f"{why}, and while a function is traced its tensors have no values. Use Wengert's functions, "
                "or wg.callback(fn, spec, x) to run NumPy when the program runs.",
            )
        if pytree.requires_grad and get_mode().grad:
            fail(
                GradientError,
                f"{call} of a tensor that requires gradients, {pytree.spec}",
                f"{why}, and NumPy's would lose them. Use other functions, or convert first where only the values are "
                "meant: np.asarray(x.detach()).",
            )
        return np.asarray(pytree)
    if isinstance(pytree, (list, tuple)):
        return type(pytree)([_as_arrays(x, call, why) for x in pytree])
    if isinstance(pytree, dict):
        return {k: _as_arrays(v, call, why) for k, v in pytree.items()}
    return pytree


METHODS["__array_ufunc__"] = array_ufunc
METHODS["__array_function__"] = array_function
