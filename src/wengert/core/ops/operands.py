"""Elementwise operands: promotion and broadcasting made explicit as nodes, and the run on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import CodeType
from typing import Any

import numpy as np

from ..arrays import refuse_subclass
from ..dims import Dim
from ..dtypes import STORED, DType, is_foreign, refuse_stored
from ..errors import DTypeError, WengertError, fail
from ..mode import Scope, get_mode
from ..node import EMPTY_ATTRS, Node, make_node, note_node
from ..spec import (
    Spec,
    category,
    complex_dtype,
    default_int,
    float16,
    float32,
    float64,
    real_dtype,
    scalar_category,
    show,
    spec_of,
)
from ..standins import PYTHON_DTYPES, WeakTensor, weak
from ..state.blocks import LEFT, blocks, take_op
from ..state.capture import get_capture
from ..state.observer import detours, observers, raise_of_observer
from ..storage import viewed, window_of
from ..tensor import Tensor, abstract, asarray, like, ndarray, new, of_class, result_class, take, wrap
from .autocast import casts, in_its_precision
from .op import TABLE, Op
from .record import (
    EXAMPLES,
    SCALARS,
    apart,
    argument_spec,
    caller,
    describe,
    graph_input,
    instead,
    kept_values,
    mixed,
    resumed,
)


def to_operand(value: Any, op: str) -> Any:
    """Return a tensor, or a weak Python scalar as it is. A size that is not known is one too, as a weak tensor."""
    if isinstance(value, Tensor):
        if type(value) is WeakTensor and value.node is None and value._array.shape == ():
            return value._array.item()  # the Python number itself: a literal of the graph
        return value
    if type(value) in SCALARS:
        return value
    if isinstance(value, int):  # of a class of its own, such as an IntEnum
        return int(value)
    if isinstance(value, Dim):
        return weak(asarray(value))
    if isinstance(value, (np.ndarray, np.generic, list, tuple)) or hasattr(value, "__array__"):
        refuse_subclass(value, op)
        return asarray(value)
    fail(
        DTypeError,
        f"{op}: an operand of type {type(value).__name__} is not a tensor, a NumPy array or a number",
        "Convert it with wg.asarray(...) first.",
    )


def to_operands(args: Sequence[Any], op: str) -> list[Any]:
    """Return tensors, and weak Python scalars as they are; NumPy's scalars are such where the namespace has it so."""
    if result_class(args).scalars_promote:
        return [to_operand(a, op) for a in args]
    return [to_operand(a.item() if isinstance(a, np.generic) else a, op) for a in args]


WANTED = {
    "numeric": "numbers",
    "floating": "numbers",
    "real": "real numbers",
    "real_inexact": "real numbers",
    "bitwise": "integers or booleans",
    "logical": "booleans",
}


# The dtypes that ops take as they are: their front doors convert others to them.
_TAKEN = {
    "numeric": "numbers, not booleans",
    "floating": "floating or complex numbers",
    "real": "integers or floating numbers",
    "real_inexact": "floating numbers",
    "bitwise": "integers or booleans",
    "logical": "booleans",
}


def check_dtypes(op: Op, args: Sequence[Any]) -> None:
    """Raise DTypeError for specs of dtypes that an op does not compute in: its forward would give another.

    Meant are the first argument and all that it has derivatives in; others are indices, keys, masks.
    """
    for i, a in enumerate(args):
        if isinstance(a, Spec) and not getattr(a, op.accepts) and (i == 0 or op.fact(i).differentiable):
            fail(
                DTypeError,
                f"{op.name} takes {_TAKEN[op.accepts]}, not {show(a.shape, a.dtype)}",
                "Cast first, for instance x.astype(wg.float32).",
            )


def check_operands(op: Op, args: Sequence[Any]) -> None:
    """Raise DTypeError for operands of several dtypes, or numbers that would change theirs: ops compute in one."""
    specs = [a for a in args if isinstance(a, Spec)]
    dtype = specs[0].dtype
    if any(s.dtype != dtype for s in specs):
        shown = " and ".join(show(s.shape, s.dtype) for s in specs)
        fail(DTypeError, f"{op.name} of {shown}, which are not of one dtype", "Cast one of them: x.astype(y.dtype).")
    for a in args:
        if type(a) in SCALARS and scalar_category(a) > category(dtype):
            fail(
                DTypeError,
                f"{op.name} of {show(specs[0].shape, dtype)} and the number {a!r}, which is not {dtype}",
                "Cast the tensor first, for instance x.astype(wg.float32).",
            )


def tensors_dtype(operands: Sequence[Any]) -> DType | None:
    """Return the dtype that the tensors among operands promote to; None where all are numbers or weak."""
    tensors = [a for a in operands if isinstance(a, Tensor) and type(a) is not WeakTensor]
    if not tensors:
        return None
    if not result_class(tensors).scalars_promote:
        with_axes = [a for a in tensors if a.shape]
        if 0 < len(with_axes) < len(tensors):
            dtype = promoted(with_axes)
            lesser = promoted([a for a in tensors if not a.shape])
            if category(lesser) <= category(dtype):
                return dtype
            return complex_dtype(dtype) if category(dtype) == 2 else lesser
    return promoted(tensors)


def promoted(tensors: Sequence[Tensor]) -> DType:
    """Return the dtype that tensors promote to, whatever their shapes."""
    dtype, promote = tensors[0].dtype, result_class(tensors).promote
    for a in tensors[1:]:
        dtype = promote(dtype, a.dtype)
    return dtype


def common_dtype(op: Op, args: Sequence[Any]) -> DType:
    """Return the dtype that an elementwise op computes in. Raises DTypeError where it does not take the operands."""
    cls, dtype = result_class(args), tensors_dtype(args)
    for a in args:
        if isinstance(a, Tensor):
            if type(a) is WeakTensor:
                dtype = cls.promote_scalar(dtype or PYTHON_DTYPES[0], EXAMPLES[category(a.dtype)])
        else:
            dtype = cls.promote_scalar(dtype or PYTHON_DTYPES[0], a)
    assert dtype is not None
    return accepted_dtype(op, dtype, args, cls.floats(op, dtype))


def accepted_dtype(op: Op, dtype: DType, args: Sequence[Any], floats: DType) -> DType:
    """Return the dtype in which an elementwise op takes `dtype`; integers become `floats` where it takes no others."""
    kind, accepts = category(dtype), op.accepts
    if accepts == "anything":
        return dtype
    if dtype in STORED:
        refuse_stored(op.name, dtype, describe(args))
    if (
        (kind == 3 and accepts in ("real", "real_inexact"))
        or (kind >= 2 and accepts == "bitwise")
        or (kind >= 1 and accepts == "logical")
    ):
        fail(
            DTypeError,
            f"{op.name} takes {WANTED[accepts]}, not {describe(args)}",
            "Use wg.abs, wg.real or wg.imag for a real number from a complex one."
            if kind == 3
            else "Cast first: x.astype(wg.int64), or compare (x != 0) for a boolean.",
        )
    if kind == 0 and accepts in ("numeric", "real"):
        return default_int
    if kind < 2 and accepts in ("floating", "real_inexact"):
        return floats
    return dtype


_AS_KIND: tuple[Callable[[Any], Any], ...] = (bool, int, float, complex)


def literal(value: Any, dtype: DType) -> Any:
    """Return a weak scalar in the category of the dtype that it meets: `x * 2` and `x * 2.0` are one graph."""
    out = _AS_KIND[category(dtype)](value)
    if type(out) is int and dtype.kind in "iu":
        info = np.iinfo(dtype)
        if not info.min <= out <= info.max:
            fail(DTypeError, f"the number {out} does not fit {dtype}", "Cast the tensor to a wider dtype first.")
    return out


def wrapped(number: int, dtype: DType) -> int:
    """Return an integer modulo the size of an integer dtype; what 64 bits do not hold, and other numbers, as it is."""
    if type(number) is not int or 0 <= number < 128 or dtype.kind not in "iu" or not -(2**63) <= number < 2**64:
        return number
    low = int(np.iinfo(dtype).min)
    return (number - low) % (1 << 8 * dtype.itemsize) + low


_OPERANDS = (Tensor, np.ndarray, np.generic, int, float, complex, list, tuple, Dim)


def of_their_own(reflected: str, x: Any, y: Any) -> Any:
    """Return `x + y` as the right operand's class computes it, if that class is an array type that defines it.

    NotImplemented for operands that Wengert takes, and where the class has no such method, as Python's operators do.
    """
    theirs = None if isinstance(y, _OPERANDS) or hasattr(y, "__array__") else getattr(type(y), reflected, None)
    return NotImplemented if theirs is None else theirs(y, x)


def elementwise_general(op: Op, args: Sequence[Any]) -> Tensor:
    """Run the general path of every elementwise front door."""
    if detours:  # before numbers take the dtype of the tensors
        args = in_its_precision(op, args)
    dtype: DType | None = None
    for a in args:
        if not isinstance(a, Tensor) or type(a) is WeakTensor or (dtype is not None and a.dtype is not dtype):
            break
        dtype = a.dtype
    else:
        if getattr(args[0].spec, op.accepts):
            return run_elementwise(op, args)
    if op.reflected and (found := of_their_own(op.reflected, *args)) is not NotImplemented:
        return found  # type: ignore[no-any-return]
    operands = to_operands(args, op.name)
    if are_numbers(operands):
        return of_numbers(op, operands)
    meaning = result_class(operands).meaning
    instead = meaning.on_booleans.get(op.name)
    if instead is not None and all(_is_truth(a) for a in operands):
        op = TABLE[instead]
    refuses = meaning.no_booleans.get(op.name)
    if refuses is not None and refuses(_is_truth(a) for a in operands):
        fail(
            DTypeError,
            f"{op.name} of booleans: {describe(operands)}",
            "Write ~x or x ^ y for a boolean, or x.long() for a number.",
        )
    if op.name in meaning.wide and any(_is_half(a) for a in operands) and _beside_wide(op, operands):
        dtype = common_dtype(op, operands)
        wide = [a.wide() if type(a) is WeakTensor else a for a in operands]
        given = [_in_dtype(a, float32) if isinstance(a, Tensor) else float(a) for a in wide]
        return _in_dtype(run_elementwise(op, given), dtype)
    return run_elementwise(op, promote_operands(op, operands))


def _is_half(a: Any) -> bool:
    return isinstance(a, Tensor) and a.spec.dtype.itemsize == 2


def _beside_wide(op: Op, operands: Sequence[Any]) -> bool:
    """Return whether 16-bit floating numbers meet a real number that their dtype does not hold.

    That is a Python number, one that is not known yet, or a second operand without axes.
    """
    dtype = common_dtype(op, operands)
    if dtype.itemsize != 2 or category(dtype) != 2:
        return False
    for i, a in enumerate(operands):
        if type(a) is WeakTensor or (isinstance(a, Tensor) and i == 1 and not a.shape and a.dtype != dtype):
            return True
        if not isinstance(a, Tensor) and not _is_held(a, dtype):
            return True
    return False


def _is_held(number: Any, dtype: DType) -> bool:
    """Return whether a 16-bit floating dtype holds a real number exactly."""
    if not -65504 <= number <= 65504 and dtype == float16:
        return bool(abs(number) == math.inf)
    return bool(float(dtype.type(number)) == number)


def _is_truth(a: Any) -> bool:
    return a.dtype.kind == "b" if isinstance(a, Tensor) else type(a) is bool


def are_numbers(operands: Sequence[Any]) -> bool:
    """Return whether all operands are Python numbers, or weak tensors of such."""
    return not any(isinstance(a, Tensor) and type(a) is not WeakTensor for a in operands)


def max_category(operands: Sequence[Any]) -> int:
    """Return the highest category among Python numbers and weak tensors."""
    return max(category(a.dtype) if isinstance(a, Tensor) else scalar_category(a) for a in operands)


def of_numbers(op: Op, operands: Sequence[Any], before: Sequence[Tensor] = ()) -> Tensor:
    """Run an elementwise op on Python numbers: the result is a number too, except of comparisons and the like.

    `before` are operands of a dtype of their own that stand before them.
    """
    kind = max_category(operands)
    dtype = accepted_dtype(op, PYTHON_DTYPES[kind], operands, float64)
    plain = [_in_dtype(a.wide(), dtype) if isinstance(a, WeakTensor) else _literal(op, a, dtype) for a in operands]
    if not any(isinstance(a, Tensor) for a in plain):
        plain[0] = wrap(np.asarray(plain[0], dtype))
    out = run_elementwise(op, [*before, *plain])
    return out if category(out.dtype) == 0 else weak(out)


def _in_dtype(x: Tensor, dtype: DType) -> Tensor:
    return x if x.dtype == dtype else TABLE["cast"].front(x, dtype=dtype)


def promote_operands(op: Op, args: Sequence[Any]) -> list[Any]:
    """Return the operands as tensors of the op's common dtype (by `cast` nodes) and literals of its category."""
    operands = to_operands(args, op.name)
    dtype = common_dtype(op, operands)
    if not any(isinstance(a, Tensor) for a in operands):
        operands[0] = asarray(operands[0], dtype=dtype)
    wraps = op.name in result_class(operands).meaning.wrapping
    for i, a in enumerate(operands):
        if isinstance(a, Tensor):
            operands[i] = _in_dtype(a.wide() if type(a) is WeakTensor else a, dtype)
        else:
            operands[i] = _literal(op, wrapped(a, dtype) if wraps else a, dtype)
    return operands


def _literal(op: Op, number: Any, dtype: DType) -> Any:
    if is_foreign(dtype):  # NumPy's own weak promotion does not know it
        return asarray(number, dtype=dtype)
    if op.result == "boolean" and type(number) is int and dtype.kind in "iu":
        return number  # every integer compares with every other, also one that does not fit
    return literal(number, dtype)


def run_elementwise(op: Op, operands: Sequence[Any], attrs: Mapping[str, Any] = EMPTY_ATTRS) -> Tensor:
    """Run an elementwise op on operands of one dtype, recording its broadcasts as nodes."""
    if detours:
        operands = in_its_precision(op, operands)
    cls = result_class(operands)
    out = _run_elementwise(op, operands, attrs)
    return out if cls is Tensor else of_class(cls, out)


def _run_elementwise(op: Op, operands: Sequence[Any], attrs: Mapping[str, Any]) -> Tensor:
    values = []
    flags = []
    concrete, lent = True, False
    for a in operands:
        if isinstance(a, Tensor):
            try:
                value = a._data
            except AttributeError:
                if (found := take_op(op, operands, attrs)) is not LEFT:
                    return found  # type: ignore[no-any-return]
                value, lent = viewed(a) if op.view else window_of(a), not op.view
            node = a.node
            if value is None:
                concrete = False
            values.append(value)
            flags.append(node is not None and node.requires_grad)
        else:
            values.append(a)
            flags.append(False)
    mode = get_mode()
    given = operands[0]
    tracked = mode.grad and True in flags and op.differentiable
    saved: tuple[Any, ...] = ()
    if lent and (tracked or observers):  # what is recorded keeps values
        values, lent = [a._array if isinstance(a, Tensor) else a for a in operands], False
    if concrete:
        try:
            if observers:
                data = op.told(values, attrs)
            else:
                data = op.forward(*values, **attrs) if attrs else op.forward(*values)
        except (ValueError, TypeError, OverflowError, RuntimeWarning) as e:
            raise_of_observer(e)
            data = instead(op, operands, values, attrs, e)
        if lent:
            data = apart(data, values)
        spec = spec_of(data.shape, data.dtype)
        out = wrap(data, spec)
        if op.view:
            take(out, operands[0], *caller())
        if not (tracked and spec.inexact):
            return out
        saved = kept_values(op, tuple(flags), values, data)
    else:
        capture = get_capture()
        if capture is not None:
            capture.meet(operands)
        spec = _abstract_result(op, [argument_spec(a) for a in operands], attrs)
        tracked = tracked and spec.inexact
        if mode.grad and op.differentiable:
            operands = [resumed(a) for a in operands]
    code, offset = caller()
    shape, scope = spec.shape, mode.scope
    inputs = tuple(
        [
            a
            if not isinstance(a, Tensor)
            else (a.node if a.node is not None else a._array)
            if a.shape == shape
            else _broadcast_input(a, shape, code, offset, scope)
            for a in operands
        ]
    )
    if not concrete:
        saved = mixed(operands, inputs)
    stopped = not (concrete or mode.grad)
    kept = dict(attrs) if attrs else EMPTY_ATTRS
    node = make_node(op, inputs, kept, saved, spec, code, offset, scope, tracked, stopped)
    if not concrete:
        out = abstract(node)
        if op.view:
            take(out, given, code, offset)
        return out
    out.node = node
    return out


def _abstract_result(op: Op, specs: Sequence[Any], attrs: Mapping[str, Any]) -> Spec:
    """Return the result's spec; at once where all operands have the one that it has too."""
    first = next(s for s in specs if isinstance(s, Spec))
    if op.result == "same" and all(s is first or not isinstance(s, Spec) for s in specs):
        return first
    found: Spec = op.infer(*specs, **attrs)
    return found


def _broadcast_input(
    x: Tensor, shape: tuple[int, ...], code: CodeType | None, offset: int, scope: Scope | None
) -> Node:
    spec = spec_of(shape, x.dtype)
    return make_node(
        TABLE["broadcast"], (graph_input(x),), {"shape": shape}, (), spec, code, offset, scope, x.requires_grad
    )


def binary_general(op: Op, args: tuple[Any, Any]) -> Tensor:
    """Run the general path of a binary front door; a tensor with a Python number is tried first, as the commonest."""
    x, y = args
    if type(y) is float or type(y) is int:
        found, given = _with_number(op, x, y, False), x
    elif type(x) is float or type(x) is int:
        found, given = _with_number(op, y, x, True), y
    else:
        found = given = None
    if found is None:
        return elementwise_general(op, args)
    return found if type(given) is Tensor else like(given, found)


_LEFT, _RIGHT = (True, False), (False, True)


def _with_number(op: Op, x: Any, number: Any, reflected: bool) -> Tensor | None:
    """Return `x op number` where the number changes neither dtype nor shape; None where it might."""
    if not isinstance(x, Tensor) or type(x) is WeakTensor or (detours and casts(op)):
        return None
    lent = False
    try:
        value = x._data
    except AttributeError:
        if blocks:  # perhaps a value to come
            return None
        lent = x.node is None and not observers
        value = window_of(x) if lent else x._array
    if value is None:
        return None
    spec = x._spec
    if spec.real_inexact:
        dtype = spec.dtype
        if (
            dtype is not float32
            and dtype is not float64
            and (is_foreign(dtype) or (op.name in x.meaning.wide and not _is_held(number, dtype)))
        ):
            return None  # NumPy's own promotion does not know it
        number = float(number)
    elif type(number) is float or spec.dtype is not default_int:
        return None
    if not getattr(spec, op.accepts):
        return None
    try:
        if observers:
            data = op.told((number, value) if reflected else (value, number))
        else:
            data = op.forward(number, value) if reflected else op.forward(value, number)
            data = apart(data, (value,)) if lent else data
    except (OverflowError, RuntimeWarning) as e:
        raise_of_observer(e)
        return None
    except WengertError as e:
        if e.is_elsewhere:
            return None
        raise
    if op.result != "same":
        out = wrap(data, getattr(spec, op.result, None))
    else:
        out = new(Tensor)
        out._data = data if type(data) is ndarray else np.asarray(data)
        out._spec = spec
        out.node = out._share = None
    node = x.node
    if node is None or not (node.requires_grad and op.differentiable):
        return out
    mode = get_mode()
    if mode.grad:
        # The operands that the derivative needs do not depend on the number.
        needs, needs_out = op.save_plan(_RIGHT if reflected else _LEFT)
        saved: tuple[Any, ...] = ()
        if needs or needs_out:
            kept = data if needs_out else None
            if reflected:
                saved = (number, value if 1 in needs else None, kept)
            else:
                saved = (value if 0 in needs else None, number, kept)
        out.node = made = Node()
        made.op = op
        made.inputs = (number, node) if reflected else (node, number)
        made.attrs = EMPTY_ATTRS
        made.saved = saved
        made.spec = spec
        made.code, made.offset = caller()
        made.scope = mode.scope
        if observers:
            note_node(made)
    return out


def result_dtype(op: Op, dtype: DType) -> DType:
    """Return the dtype of an elementwise op's result for operands of this dtype."""
    if op.result == "boolean":
        return np.dtype(np.bool_)
    return real_dtype(dtype) if op.result == "magnitude" else dtype


def promote_tensors(op: str, *args: Any) -> list[Tensor]:
    """Return operands as tensors of their common dtype (for concat, where, matmul, ...)."""
    wanted: DType | None = None
    for a in args:
        if not isinstance(a, Tensor) or type(a) is WeakTensor:
            break
        held = a.spec.dtype
        if wanted is not None and held is not wanted:
            break
        wanted = held
    else:
        return list(args)
    operands = to_operands(args, op)
    dtype, promote_scalar = tensors_dtype(operands), result_class(operands).promote_scalar
    if dtype is None:
        return _promote_numbers(operands)
    for a in operands:
        if type(a) is WeakTensor:
            dtype = promote_scalar(dtype, EXAMPLES[category(a.dtype)])
        elif not isinstance(a, Tensor):
            dtype = promote_scalar(dtype, a)
    return [
        _in_dtype(a.wide() if type(a) is WeakTensor else a, dtype) if isinstance(a, Tensor) else asarray(a, dtype=dtype)
        for a in operands
    ]


def _promote_numbers(operands: Sequence[Any]) -> list[Tensor]:
    """Return Python numbers and weak tensors as tensors of their common dtype."""
    kind = max_category(operands)
    dtype = PYTHON_DTYPES[kind]
    wide = [_in_dtype(a.wide(), dtype) if isinstance(a, WeakTensor) else wrap(np.asarray(a, dtype)) for a in operands]
    return [weak(x) for x in wide] if kind else wide
