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

from ..core.errors import GradientError, fail
from ..core.mode import get_mode
from ..core.ops.declare import METHODS
from ..core.ops.op import TABLE
from ..core.state.refusals import refuse
from ..core.tensor import Tensor
from .numpy_functions.register import OWN, UFUNCS, Unlike, in_numpys_dtype, xp
from .structure.shapes import as_operand

# NumPy functions by their names there, each with Wengert's where that has another. They mean the same; arguments are
# given by the names that Wengert has for them (see `_NAMES`), and what it does not have must be left at its default.
_SAME = """
all allclose any argmax argmin argsort array_split astype broadcast_arrays
broadcast_to clip concat concatenate:concat count_nonzero
cumulative_prod cumulative_sum diag diagonal dot einsum expand_dims flip imag isclose kron matrix_transpose
median meshgrid moveaxis nonzero outer real repeat roll searchsorted sort
squeeze stack std swapaxes take take_along_axis tensordot tile trace tril triu unique_all unique_counts
unique_inverse unique_values unstack var zeros_like ones_like empty_like full_like
linalg.cholesky linalg.cond linalg.cross linalg.det linalg.diagonal linalg.eig linalg.eigh linalg.eigvals
linalg.eigvalsh linalg.inv linalg.lstsq linalg.matmul linalg.matrix_norm linalg.matrix_power linalg.matrix_rank
linalg.matrix_transpose linalg.multi_dot linalg.norm linalg.outer linalg.pinv linalg.slogdet linalg.solve
linalg.svdvals linalg.tensordot linalg.trace linalg.vecdot linalg.vector_norm
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
}
_REDUCTIONS = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min"} | {
    "logical_and": "all",
    "logical_or": "any",
}
_SUMS = {"add": "cumulative_sum", "multiply": "cumulative_prod"}


# -- dispatch


def find(path: str) -> Any:
    """Return a public function of Wengert's by its dotted name; None where there is none."""
    found = xp
    for name in path.split("."):
        found = getattr(found, name, None)
    return found


@cache
def known(function: Any) -> Callable[[Sequence[Any], Mapping[str, Any]], Any] | None:
    """Return a runner of a NumPy function by Wengert's; None where there is none. The runner raises `Unlike`."""
    own = OWN.get(function)
    target = own if own is not None else _same().get(function)
    if target is None:
        return None
    signature = inspect.signature(own if own is not None else function)
    takes = inspect.signature(target).parameters

    def run(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        given, named = _arguments(function, signature, in_numpys_dtype(tuple(args)), kwargs)
        found = {}
        for name, value in named.items():
            known = name if name in takes else _NAMES.get(name, "")
            if known not in takes:
                raise Unlike(f"{name}=")
            found[known] = in_numpys_dtype(value)
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
        unknown = [f"{name}=" for name in rest if name not in signature.parameters]
        raise Unlike(", ".join(unknown) or f"these arguments ({e})") from None
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
        ours = find(other or name)
        if theirs is not None and ours is not None:
            found[theirs] = ours
    return found


def array_function(self: Tensor, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """Run NumPy's function on tensors by Wengert's of the same meaning (NEP 18)."""
    if not all(issubclass(t, (Tensor, np.ndarray)) for t in types):
        return NotImplemented
    out = kwargs.get("out")
    if isinstance(out, Tensor):
        return _written(out, func(*args, **{k: v for k, v in kwargs.items() if k != "out"}))
    module = {"numpy.linalg": "np.linalg.", "numpy.fft": "np.fft."}.get(func.__module__, "np.")
    call = module + func.__name__
    run = known(func)
    why = "Wengert has no such function"
    if run is not None:
        try:
            return run(args, kwargs)
        except Unlike as e:
            why = f"Wengert's function does not take {e}"
    return func(*_as_arrays(args, call, why), **_as_arrays(kwargs, call, why))


@cache
def known_ufunc(ufunc: Any) -> Callable[..., Any] | None:
    """Return Wengert's function for NumPy's elementwise one; None where there is none."""
    op = next((op for op in TABLE.values() if op.forward is ufunc), None)
    if op is not None:
        return op.front
    found: Callable[..., Any] | None = UFUNCS.get(ufunc) or find(_UFUNCS.get(ufunc.__name__, ufunc.__name__))
    return found


def array_ufunc(self: Tensor, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """Run NumPy's elementwise function on tensors by Wengert's (NEP 13): `np.sin(t)` is `wg.sin(t)`."""
    out = kwargs.pop("out", None)
    if out is not None:
        return _into(out, ufunc, method, inputs, kwargs)
    call = f"np.{ufunc.__name__}" if method == "__call__" else f"np.{ufunc.__name__}.{method}"
    if method == "at" and isinstance(inputs[0], Tensor):
        return _at(call, getattr(ufunc, method), *inputs)
    function = _by_method(ufunc, method)
    if function is not None and kwargs.keys() <= _TAKEN.get(method, frozenset()):
        return function(*in_numpys_dtype(inputs), **kwargs)
    why = f"Wengert's function does not take {', '.join(f'{k}=' for k in kwargs)}" if function is not None else ""
    why = why or "Wengert has no such function"
    arrays = _as_arrays(inputs, call, why)
    return getattr(ufunc, method)(*arrays, **_as_arrays(kwargs, call, why))


def _into(out: Any, ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Compute a ufunc's values and write them to `out`: a tensor, or an array of NumPy's."""
    (target,) = out if isinstance(out, tuple) and len(out) == 1 else (None,)
    if not isinstance(target, Tensor):
        call = f"np.{ufunc.__name__}"
        arrays = _as_arrays(inputs, call, "`out` is an array of NumPy's")
        return getattr(ufunc, method)(*arrays, out=out, **_as_arrays(kwargs, call, "`out` is an array of NumPy's"))
    where = kwargs.pop("where", True)
    if where is True:
        return _written(target, getattr(ufunc, method)(*inputs, **kwargs))
    if method != "__call__" or kwargs:
        fail(
            GradientError,
            f"np.{ufunc.__name__} with where=, out= and {', '.join(kwargs) or method}, {target.spec}",
            "Compute first, then write what is wanted: out[mask] = values[mask].",
        )
    # Where nothing is to be computed the operands are ones: their slopes could be infinite, and 0 times that is NaN.
    given = [xp.where(where, x, 1) for x in inputs]
    return _written(target, xp.where(where, ufunc(*given), target))


def _written(out: Tensor, found: Any) -> Any:
    """Write what a function of NumPy's gives to the tensor `out`, and return that. Raises what NumPy raises."""
    if out.shape != found.shape or not np.can_cast(found.dtype, out.dtype, "same_kind"):
        raise TypeError(f"a result of {found.spec} cannot be written to out= of {out.spec}")
    out[...] = found
    return out


def _at(call: str, function: Any, target: Tensor, *rest: Any) -> None:
    """Change a tensor at some places by a ufunc's method `at`."""
    if (run := known(function)) is not None:
        run((target, *rest), {})
        return
    changed, *others = _as_arrays((target, *rest), call, "Wengert has no such function")
    changed = changed.copy()
    function(changed, *others)
    target[...] = changed


# The arguments by name that Wengert's functions take in the place of a ufunc's methods.
_TAKEN = {"reduce": frozenset({"axis", "keepdims"}), "accumulate": frozenset({"axis"})}


def _by_method(ufunc: Any, method: str) -> Callable[..., Any] | None:
    """Return the function that does the same as a ufunc's method; None if there is none."""
    if method == "reduce" and ufunc.__name__ in _REDUCTIONS:
        reduce = find(_REDUCTIONS[ufunc.__name__])
        return lambda x, axis=0, keepdims=False: reduce(x, axis=axis, keepdims=keepdims)
    if method == "accumulate" and ufunc.__name__ in _SUMS:
        accumulate = find(_SUMS[ufunc.__name__])
        return lambda x, axis=0: accumulate(x, axis=axis)
    function = known_ufunc(ufunc)
    if function is None or method == "__call__":
        return function
    if method == "outer" and ufunc.nin == 2:
        return lambda x, y: _outer(function, as_operand(x), as_operand(y))
    return None


def _outer(function: Callable[..., Any], x: Tensor, y: Tensor) -> Any:
    return function(x.reshape((*x.shape, *(1,) * y.ndim)), y)


def _as_arrays(pytree: Any, call: str, why: str) -> Any:
    """Return the tensors in the arguments of a NumPy function as arrays, where nothing is lost by it."""
    if isinstance(pytree, Tensor):
        if pytree.is_abstract:
            refuse(
                f"{call} of a tensor without a value, {pytree.spec}",
                f"{why}, and while a function is traced its tensors have no values. Use Wengert's functions, "
                "or wg.callback(fn, spec, x) to run NumPy when the program runs.",
                pytree,
            )
        if pytree.requires_grad and get_mode().grad:
            refuse(
                f"{call} of a tensor that requires gradients, {pytree.spec}",
                f"{why}, and NumPy's would lose them. Use other functions, or convert first where only the values are "
                "meant: np.asarray(x.detach()).",
                pytree,
                GradientError,
            )
        return np.asarray(pytree)
    if isinstance(pytree, (list, tuple)):
        return type(pytree)([_as_arrays(x, call, why) for x in pytree])
    if isinstance(pytree, dict):
        return {k: _as_arrays(v, call, why) for k, v in pytree.items()}
    return pytree


METHODS["__array_ufunc__"] = array_ufunc
METHODS["__array_function__"] = array_function
