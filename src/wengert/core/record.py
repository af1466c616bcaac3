"""How an operation runs: the front door of each op, compiled from its declaration, and `bind` behind it.

The front door of an elementwise op is a generated function whose fast path handles tensors of one
interned spec with a handful of bytecodes; anything else (Python scalars, NumPy arrays, other dtypes,
broadcasting, abstract tensors) falls through to the general path, which makes casts and broadcasts
explicit nodes and then does the same.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from types import CodeType, FrameType
from typing import Any, TypeVar, overload

import numpy as np

from .dims import Dim, has_dims
from .errors import (
    GENERATED,
    DTypeError,
    GraphError,
    RangeError,
    ShapeError,
    WengertError,
    fail,
    is_internal,
    user_frame,
)
from .mode import Scope, get_mode, reset_mode, set_mode
from .node import EMPTY_ATTRS, Node, make_node
from .op import TABLE, Accepts, Algebra, Call, Fact, Joint, Kind, Linear, Missing, Op, Partial, Result, Rule, Samples
from .spec import (
    DType,
    Spec,
    broadcast_shapes,
    category,
    default_float,
    default_int,
    is_bfloat16,
    promote,
    promote_scalar,
    real_dtype,
    show,
    spec_of,
)
from .tensor import Tensor, abstract, asarray, new, wrap

SCALARS = frozenset({bool, int, float, complex})


def caller() -> tuple[CodeType | None, int]:
    """Code object and offset of the innermost frame outside Wengert."""
    frame = user_frame(2)
    return (None, 0) if frame is None else (frame.f_code, frame.f_lasti)


# -- the general path


def bind(op: Op, args: Sequence[Any], attrs: Mapping[str, Any] = EMPTY_ATTRS) -> Any:
    """Run `op` on tensors and weak scalars that are already promoted and normalised; record it.

    Returns a tensor, or a tuple of them for an op with several results.
    """
    if len(args) == 1 and op.results == 1 and isinstance(args[0], Tensor) and args[0]._data is not None:
        return _bind_one(op, args[0], attrs)
    if op.kind == "source" and get_mode().tracing:
        return _bind_abstract(op, args, attrs)
    values = []
    tracked = False
    for a in args:
        if isinstance(a, Tensor):
            value, node = a._data, a.node
            if value is None:
                return _bind_abstract(op, args, attrs)
            if node is not None and node.requires_grad:
                tracked = True
            values.append(value)
        else:
            values.append(a)
    try:
        data = _forward(op, args, values, attrs)
    except GraphError:
        if has_dims(tuple(attrs.values())):  # values are there, but a size that an attribute names is not
            return _bind_abstract(op, args, attrs)
        raise
    tracked = tracked and op.differentiable and get_mode().grad
    if op.results != 1:
        specs = tuple(spec_of(d.shape, d.dtype) for d in data)
        if not tracked:
            return tuple(wrap(d, s) for d, s in zip(data, specs, strict=True))
        node = _record(op, args, attrs, values, data, specs)
        return tuple(pick(node, i, d) for i, d in enumerate(data))
    spec = spec_of(data.shape, data.dtype)
    out = wrap(data, spec)
    if tracked and spec.inexact:
        out.node = _record(op, args, attrs, values, data, spec)
    return out


_ONE_TRACKED = (True,)


def _bind_one(op: Op, x: Tensor, attrs: Mapping[str, Any]) -> Any:
    """`bind` for one tensor with a value and one result (a reduction, a reshape): the same, sooner done."""
    try:
        data = op.forward(x._data, **attrs)
    except WengertError:
        if has_dims(tuple(attrs.values())):
            return _bind_abstract(op, (x,), attrs)
        raise
    except Exception:
        data = _forward(op, (x,), [x._data], attrs)  # fails again, in the library's words
    return record_one(op, x, data, dict(attrs) if attrs else EMPTY_ATTRS)


def record_one(op: Op, x: Tensor, data: Any, attrs: dict[str, Any]) -> Tensor:
    """The result `data`, already computed, of an op on one tensor; recorded where `x` is tracked."""
    out = new(Tensor)
    out._data = data
    out._spec = spec = spec_of(data.shape, data.dtype)
    out.node = None
    node = x.node
    if node is None or not (node.requires_grad and spec.inexact and op.differentiable and (mode := get_mode()).grad):
        return out
    needs, needs_out = op.save_plan(_ONE_TRACKED)
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_internal(frame.f_code.co_filename):
        frame = frame.f_back
    out.node = made = new(Node)
    made.op = op
    made.inputs = (node,)
    made.attrs = attrs if attrs else EMPTY_ATTRS
    made.saved = (x._data if needs else None, data if needs_out else None) if needs or needs_out else ()
    made.spec = spec
    made.code, made.offset = (None, 0) if frame is None else (frame.f_code, frame.f_lasti)
    made.scope = mode.scope
    return out


def _forward(op: Op, args: Sequence[Any], values: list[Any], attrs: Mapping[str, Any]) -> Any:
    try:
        return op.forward(*values, **attrs)
    except WengertError:
        raise
    except RuntimeWarning:
        # Division by zero is a value: where warnings are made errors, NumPy is asked again, quietly.
        with np.errstate(all="ignore"):
            return op.forward(*values, **attrs)
    except MemoryError:
        fail(ShapeError, f"{op.name}: not enough memory for the result of {describe(args)}")
    except (ValueError, TypeError, IndexError, OverflowError, ZeroDivisionError) as e:
        # The shape rule words the error where it can; NumPy's own words are the fallback.
        if hasattr(op, "infer"):
            op.infer(*(_spec_of_arg(a) for a in args), **attrs)
        kind = DTypeError if isinstance(e, (TypeError, OverflowError)) else ShapeError
        fail(RangeError if isinstance(e, IndexError) else kind, f"{op.name} of {describe(args)}: {e}")


def _bind_abstract(op: Op, args: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    specs = op.infer(*(_spec_of_arg(a) for a in args), **attrs)
    mode = get_mode()
    tracked = mode.grad and op.differentiable and any(isinstance(a, Tensor) and a.requires_grad for a in args)
    code, offset = caller()
    inputs = tuple(graph_input(a) for a in args)
    if op.results != 1:
        node = make_node(op, inputs, dict(attrs), (), specs, code, offset, mode.scope, tracked)
        return tuple(pick(node, i, None) for i in range(len(specs)))
    tracked = tracked and specs.inexact
    node = make_node(op, inputs, dict(attrs), (), specs, code, offset, mode.scope, tracked)
    return abstract(node)


def filled(number: Any, spec: Spec) -> Tensor:
    """A tensor of one number; a broadcast of it where a size is not known."""
    if has_dims(spec.shape):
        return TABLE["broadcast"].front(wrap(np.asarray(number, spec.dtype)), shape=spec.shape)  # type: ignore[no-any-return]
    return wrap(np.full(spec.shape, number, spec.dtype))


def graph_input(arg: Any) -> Any:
    """What stands in `Node.inputs` for an argument: its node, a constant's array, or a literal.

    An array, not its tensor: the tensor may be given another value later, its array never changes.
    """
    if isinstance(arg, Tensor):
        return arg.node if arg.node is not None else arg._data
    return arg


def _spec_of_arg(arg: Any) -> Any:
    return arg.spec if isinstance(arg, Tensor) else arg


def _record(op: Op, args: Sequence[Any], attrs: Mapping[str, Any], values: list[Any], data: Any, spec: Any) -> Node:
    code, offset = caller()
    inputs = tuple([graph_input(a) for a in args])
    return make_node(
        op, inputs, dict(attrs) if attrs else EMPTY_ATTRS, _saved(op, args, values, data), spec, code, offset, get_mode().scope
    )


def _saved(op: Op, args: Sequence[Any], values: list[Any], data: Any) -> tuple[Any, ...]:
    """The values that the derivative needs, aligned with the inputs, the result last."""
    return _kept(op, tuple([isinstance(a, Tensor) and a.requires_grad for a in args]), values, data)


def _kept(op: Op, tracked: tuple[bool, ...], values: list[Any], data: Any) -> tuple[Any, ...]:
    needs, needs_out = op.save_plan(tracked)
    if not needs and not needs_out:
        return ()
    kept = [v if i in needs or type(v) in SCALARS else None for i, v in enumerate(values)]
    kept.append(data if needs_out else None)
    return tuple(kept)


OUTPUT = Op(
    "output(x; index)",
    "linear",
    forward=lambda x, index: x[index],
    infer=lambda x, index: x[index],
    doc="One result of an op with several.",
)


def pick(node: Node, index: int, data: Any) -> Tensor:
    """Result `index` of a node with several; `data` is its value, None while tracing."""
    spec: Spec = node.spec[index]  # type: ignore[index]
    if not node.requires_grad or not spec.inexact:
        if data is not None:
            return wrap(data, spec)
        return abstract(make_node(OUTPUT, (node,), {"index": index}, (), spec, node.code, node.offset, node.scope, False))
    out = new(Tensor)
    out._data = data
    if data is not None:
        out._spec = spec
    out.node = make_node(OUTPUT, (node,), {"index": index}, (), spec, node.code, node.offset, node.scope)
    return out


def describe(args: Sequence[Any]) -> str:
    """Arguments as errors show them: `(3, 4) float32 and (5,) float32`."""
    parts = [show(a.shape, a.dtype) if isinstance(a, Tensor) else repr(a) for a in args]
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 2 else parts)


# -- elementwise: promotion and broadcasting as explicit nodes


def to_operand(value: Any, op: str) -> Any:
    """A tensor, or a weak Python scalar as it is."""
    if isinstance(value, Tensor) or type(value) in SCALARS:
        return value
    if isinstance(value, Dim):
        node = make_node(SIZE, (), {"dim": value}, (), spec_of((), default_int), *caller(), get_mode().scope, False)
        return abstract(node)
    if isinstance(value, (np.ndarray, np.generic, list, tuple)) or hasattr(value, "__array__"):
        return asarray(value)
    fail(
        DTypeError,
        f"{op}: an operand of type {type(value).__name__} is not a tensor, a NumPy array or a number",
        "Convert it with wg.asarray(...) first.",
    )


_WANTED = {
    "numeric": "numbers",
    "inexact": "numbers",
    "real": "real numbers",
    "real_inexact": "real numbers",
    "bitwise": "integers or booleans",
    "logical": "booleans",
}


def common_dtype(op: Op, args: Sequence[Any]) -> DType:
    """The dtype that an elementwise op computes in. Raises DTypeError where it does not take the operands."""
    dtype: DType | None = None
    for a in args:
        if isinstance(a, Tensor):
            dtype = a.dtype if dtype is None else promote(dtype, a.dtype)
    for a in args:
        if not isinstance(a, Tensor):
            if dtype is None:
                dtype = asarray(a).dtype
            else:
                dtype = promote_scalar(dtype, a)
    assert dtype is not None
    kind, accepts = category(dtype), op.accepts
    if accepts == "anything":
        return dtype
    if (
        (kind == 3 and accepts in ("real", "real_inexact"))
        or (kind >= 2 and accepts == "bitwise")
        or (kind >= 1 and accepts == "logical")
    ):
        fail(
            DTypeError,
            f"{op.name} takes {_WANTED[accepts]}, not {describe(args)}",
            "Use wg.abs, wg.real or wg.imag for a real number from a complex one."
            if kind == 3
            else "Cast first: x.astype(wg.int64), or compare (x != 0) for a boolean.",
        )
    if kind == 0 and accepts in ("numeric", "real"):
        return default_int
    if kind < 2 and accepts in ("inexact", "real_inexact"):
        return default_float
    return dtype


_AS_KIND: tuple[Callable[[Any], Any], ...] = (bool, int, float, complex)


def literal(value: Any, dtype: DType) -> Any:
    """A weak scalar in the category of the dtype that it meets, so that `x * 2` and `x * 2.0` are one graph."""
    out = _AS_KIND[category(dtype)](value)
    if type(out) is int and dtype.kind in "iu":
        info = np.iinfo(dtype)
        if not info.min <= out <= info.max:
            fail(DTypeError, f"the number {out} does not fit {dtype}", "Cast the tensor to a wider dtype first.")
    return out


def elementwise_general(op: Op, args: Sequence[Any]) -> Tensor:
    """The general path of every elementwise front door."""
    dtype: DType | None = None
    for a in args:
        if not isinstance(a, Tensor) or (dtype is not None and a.dtype is not dtype):
            break
        dtype = a.dtype
    else:
        if getattr(args[0].spec, op.accepts):
            return run_elementwise(op, args)
    return run_elementwise(op, promote_operands(op, args))


def promote_operands(op: Op, args: Sequence[Any]) -> list[Any]:
    """The operands as tensors of the op's common dtype (by `cast` nodes) and literals of its category."""
    operands = [to_operand(a, op.name) for a in args]
    dtype = common_dtype(op, operands)
    if not any(isinstance(a, Tensor) for a in operands):
        operands[0] = asarray(operands[0], dtype=dtype)
    for i, a in enumerate(operands):
        if isinstance(a, Tensor):
            if a.dtype != dtype:
                operands[i] = TABLE["cast"].front(a, dtype=dtype)
        else:
            operands[i] = _weak(op, a, dtype)
    return operands


def _weak(op: Op, number: Any, dtype: DType) -> Any:
    if is_bfloat16(dtype):  # NumPy's own weak promotion does not know it
        return asarray(number, dtype=dtype)
    if op.result == "boolean" and type(number) is int and dtype.kind in "iu":
        return number  # every integer compares with every other, also one that does not fit
    return literal(number, dtype)


def run_elementwise(op: Op, operands: Sequence[Any], attrs: Mapping[str, Any] = EMPTY_ATTRS) -> Tensor:
    """Run an elementwise op on operands of one dtype, recording its broadcasts as nodes."""
    values = []
    flags = []
    concrete = True
    for a in operands:
        if isinstance(a, Tensor):
            value, node = a._data, a.node
            if value is None:
                concrete = False
            values.append(value)
            flags.append(node is not None and node.requires_grad)
        else:
            values.append(a)
            flags.append(False)
    mode = get_mode()
    tracked = mode.grad and True in flags and op.differentiable
    saved: tuple[Any, ...] = ()
    if concrete:
        try:
            data = op.forward(*values, **attrs) if attrs else op.forward(*values)
        except (ValueError, TypeError, OverflowError, RuntimeWarning):
            data = _forward(op, operands, values, attrs)  # fails again, in the library's words
        spec = spec_of(data.shape, data.dtype)
        out = wrap(data, spec)
        if not (tracked and spec.inexact):
            return out
        saved = _kept(op, tuple(flags), values, data)
    else:
        spec = op.infer(*(_spec_of_arg(a) for a in operands), **attrs)
        tracked = tracked and spec.inexact
    code, offset = caller()
    shape, scope = spec.shape, mode.scope
    inputs = tuple(
        [
            a
            if not isinstance(a, Tensor)
            else (a.node if a.node is not None else a._data)
            if a.shape == shape
            else _broadcast_input(a, shape, code, offset, scope)
            for a in operands
        ]
    )
    node = make_node(op, inputs, attrs and dict(attrs), saved, spec, code, offset, scope, tracked)
    if not concrete:
        return abstract(node)
    out.node = node
    return out


def _broadcast_input(x: Tensor, shape: tuple[int, ...], code: CodeType | None, offset: int, scope: Scope | None) -> Node:
    spec = spec_of(shape, x.dtype)
    return make_node(TABLE["broadcast"], (graph_input(x),), {"shape": shape}, (), spec, code, offset, scope, x.requires_grad)


def binary_general(op: Op, args: tuple[Any, Any]) -> Tensor:
    """The general path of a binary front door: a tensor with a Python number first, it is so common."""
    x, y = args
    if type(y) is float or type(y) is int:
        found = _with_number(op, x, y, False)
    elif type(x) is float or type(x) is int:
        found = _with_number(op, y, x, True)
    else:
        found = None
    return found if found is not None else elementwise_general(op, args)


def _with_number(op: Op, x: Any, number: Any, reflected: bool) -> Tensor | None:
    """`x op number` where the number changes neither dtype nor shape; None where it might."""
    if not isinstance(x, Tensor) or x._data is None:
        return None
    spec = x._spec
    if spec.real_inexact:
        if spec.dtype.kind == "V":  # bfloat16 promotes with tensors only
            return None
        number = float(number)
    elif type(number) is float or spec.dtype is not default_int:
        return None
    if not getattr(spec, op.accepts):
        return None
    try:
        data = op.forward(number, x._data) if reflected else op.forward(x._data, number)
    except (OverflowError, RuntimeWarning):
        return None
    out = wrap(data, spec if op.result == "same" else None)
    node = x.node
    if node is None or not op.differentiable:
        return out
    mode = get_mode()
    if mode.grad:
        code, offset = caller()
        # Which of the two the derivative needs is the same question for every number.
        needs, needs_out = op.save_plan((False, True) if reflected else (True, False))
        saved: tuple[Any, ...] = ()
        if needs or needs_out:
            position = 1 if reflected else 0
            kept: list[Any] = [number, number, data if needs_out else None]
            kept[position] = x._data if position in needs else None
            saved = tuple(kept)
        inputs = (number, node) if reflected else (node, number)
        out.node = make_node(op, inputs, EMPTY_ATTRS, saved, spec, code, offset, mode.scope)
    return out


def result_dtype(op: Op, dtype: DType) -> DType:
    if op.result == "boolean":
        return np.dtype(np.bool_)
    return real_dtype(dtype) if op.result == "magnitude" else dtype


def promote_tensors(op: str, *args: Any) -> list[Tensor]:
    """Operands as tensors of their common dtype (for concat, where, matmul, ...)."""
    operands = [to_operand(a, op) for a in args]
    dtype: DType | None = None
    for a in operands:
        if isinstance(a, Tensor):
            dtype = a.dtype if dtype is None else promote(dtype, a.dtype)
    for a in operands:
        if not isinstance(a, Tensor):
            dtype = asarray(a).dtype if dtype is None else promote_scalar(dtype, a)
    assert dtype is not None
    cast = TABLE["cast"].front
    return [
        (a if a.dtype == dtype else cast(a, dtype=dtype)) if isinstance(a, Tensor) else asarray(a, dtype=dtype)
        for a in operands
    ]


# -- elementwise front doors


_FAST = '''
def {name}({params}, /):
    try:
        spec = {x}._spec
        if {same}spec.{accepts}:
            {load}
            out = new(Tensor)
            out._data = data = forward({values})
            out._spec = result = spec{result}
            {nodes}
            if {untracked} or not (mode := get_mode()).grad:
                out.node = None
                return out
            {record}
            return out
    except (AttributeError, RuntimeWarning):
        pass
    return general(op, ({params},))
'''

_RECORD = '''frame = getframe(1)
            out.node = node = new(Node)
            node.op = op
            node.inputs = {inputs}
            node.attrs = EMPTY_ATTRS
            node.saved = {saved}
            node.spec = result
            node.code = frame.f_code
            node.offset = frame.f_lasti
            node.scope = mode.scope'''


def _fast_front(op: Op) -> Callable[..., Tensor]:
    """The generated front door of an elementwise op with one, two or three arguments."""
    params = op.params
    nodes = [f"n_{p}" for p in params]
    values = [f"v_{p}" for p in params]
    saved_parts = []
    for i, v in enumerate(values):
        # Argument i is kept when another argument (or itself) whose partial names it is tracked.
        users = [nodes[j] for j, fact in enumerate(op.facts) if i in fact.needs]
        saved_parts.append("None" if not users else _when(v, users, nodes))
    users = [nodes[j] for j, fact in enumerate(op.facts) if fact.needs_out]
    saved_parts.append("None" if not users else _when("data", users, nodes))
    nothing = all(p == "None" for p in saved_parts)
    if op.differentiable and op.result != "boolean":
        record = _RECORD.format(
            inputs=", ".join(_entry(n, v) for n, v in zip(nodes, values, strict=True)) + ",",
            saved="()" if nothing else f"({', '.join(saved_parts)})",
        )
    else:
        record = "out.node = None"
    source = _FAST.format(
        name=op.name,
        params=", ".join(params),
        x=params[0],
        same="".join(f"{p}._spec is spec and " for p in params[1:]),
        accepts=op.accepts,
        load="; ".join(f"{v} = {p}._data" for v, p in zip(values, params, strict=True)),
        values=", ".join(values),
        result="" if op.result == "same" else f".{op.result}",
        nodes="; ".join(f"{n} = {p}.node" for n, p in zip(nodes, params, strict=True)),
        untracked=" is ".join([*nodes, "None"]) if len(nodes) < 3 else " and ".join(f"{n} is None" for n in nodes),
        record=record,
    )
    namespace: dict[str, Any] = {
        "op": op,
        "forward": op.forward,
        "general": (binary_general if len(params) == 2 else elementwise_general)
        if op.result == "same"
        else _with_result_spec,
        "new": new,
        "Tensor": Tensor,
        "Node": Node,
        "EMPTY_ATTRS": EMPTY_ATTRS,
        "get_mode": get_mode,
        "getframe": sys._getframe,
        "__name__": __name__,
    }
    exec(compile(source, f"{GENERATED}{op.name}>", "exec"), namespace)
    front: Callable[..., Tensor] = namespace[op.name]
    return front


def _entry(node: str, value: str) -> str:
    return f"{node} if {node} is not None else {value}"


def _when(value: str, users: list[str], nodes: list[str]) -> str:
    if set(users) == set(nodes):
        return value  # the fast path records only when some argument is tracked
    return f"{value} if {' or '.join(f'{u} is not None' for u in users)} else None"


def _with_result_spec(op: Op, args: Sequence[Any]) -> Tensor:
    """The general path of ops whose result has another dtype: also equips the spec for the fast path."""
    for a in args:
        if isinstance(a, Tensor):
            spec = a.spec
            setattr(spec, op.result, spec_of(spec.shape, result_dtype(op, spec.dtype)))
    return binary_general(op, args) if len(args) == 2 else elementwise_general(op, args)  # type: ignore[arg-type]


def _document(op: Op, front: Callable[..., Any]) -> None:
    lines = [op.doc]
    if op.source:
        lines += ["", f"Source: {op.source}"]
    lines += ["", f"Elementwise over {_WANTED.get(op.accepts, 'any dtype')}; operands broadcast and promote."]
    front.__doc__ = "\n".join(lines)
    front.__module__ = "wengert"
    front.__qualname__ = op.name


# -- declarations

METHODS: dict[str, Callable[..., Any]] = {}
PUBLIC: dict[str, Callable[..., Any]] = {}


def elementwise(
    signature: str,
    forward: Callable[..., Any],
    *,
    partials: Mapping[str, Rule | Fact] | None = None,
    accepts: Accepts = "inexact",
    result: Result = "same",
    doc: str,
    operator: str = "",
    method: bool = True,
    public: str | None = None,
    algebra: Algebra | None = None,
    samples: Samples | None = None,
    reference: Callable[..., Any] | str | None = None,
    native: str | Missing | None = None,
    onnx: str | Missing | None = None,
    source: str = "",
) -> Op:
    """Declare an elementwise op.

    `partials` maps an argument to its partial derivative (a function by parameter names, see
    :mod:`wengert.core.op`) or to a Fact. `operator` is the Python operator's dunder without
    underscores ("add"); its reflected form follows. `accepts` says which dtypes run as they are
    (integers become the default float for "inexact"), `result` the result's dtype. `public` is
    the exported name where it differs from the op's, "" to export nothing.
    """
    facts = {k: f if isinstance(f, Fact) else Partial(f) for k, f in (partials or {}).items()}
    made = Op(
        signature,
        "elementwise",
        forward,
        facts=facts,
        accepts=accepts,
        result=result,
        doc=doc,
        algebra=algebra,
        samples=samples,
        reference=reference,
        native=native,
        onnx=onnx,
        source=source,
        layout=",".join("()" for _ in _params(signature)) + "->()",
    )
    made.infer = lambda *specs: _infer_elementwise(made, specs)
    front = _fast_front(made)
    _document(made, front)
    made.front = front
    name = made.name if public is None else public
    if name:
        front.__name__ = name
        PUBLIC[name] = front
        if method:
            METHODS.setdefault(name, front)
    if operator:
        METHODS[f"__{operator}__"] = front
        if len(made.params) == 2:
            METHODS[f"__r{operator}__"] = _reflected(made)
    return made


def _params(signature: str) -> list[str]:
    return signature[signature.index("(") + 1 : signature.index(")")].split(",")


def _reflected(op: Op) -> Callable[..., Any]:
    # Python comes here only when the left operand is not a tensor: never the fast path.
    def reflected(self: Tensor, other: Any) -> Any:
        return binary_general(op, (other, self))

    return reflected


def _infer_elementwise(op: Op, specs: Sequence[Any]) -> Spec:
    real = [s for s in specs if isinstance(s, Spec)]
    shape = broadcast_shapes(*(s.shape for s in real))
    if shape is None:
        fail(
            ShapeError,
            f"{op.name}: shapes {' and '.join(show(s.shape, s.dtype) for s in real)} do not broadcast",
            "Aligned from the right, each pair of sizes must be equal or contain a 1. "
            "Reshape one of them, for instance x[:, None] or x.reshape(...).",
        )
    return spec_of(shape, result_dtype(op, real[0].dtype))


def op(
    signature: str,
    forward: Callable[..., Any],
    *,
    infer: Callable[..., Any],
    facts: Mapping[str, Fact] | Joint | None = None,
    kind: Kind = "general",
    **declared: Any,
) -> Op:
    """Declare an op that is not elementwise.

    `forward(*arrays, **attrs)` computes it with NumPy; `infer(*specs, **attrs)` gives the result's
    Spec and words the shape errors. Its front door takes tensors that a public function (written
    beside the declaration) has already promoted and checked.
    """
    made = Op(signature, kind, forward, facts=facts, infer=infer, **declared)

    def front(*args: Any, **attrs: Any) -> Any:
        return bind(made, [a if isinstance(a, Tensor) or type(a) in SCALARS else asarray(a, copy=False) for a in args], attrs)

    front.__name__ = front.__qualname__ = made.name
    made.front = front
    return made


def linear(
    signature: str,
    forward: Callable[..., Any],
    *,
    infer: Callable[..., Any],
    transpose: Rule,
    selects: bool = False,
    covers: bool = False,
    **declared: Any,
) -> Op:
    """Declare an op that is linear in its first argument; `transpose(ct, ...)` is the adjoint."""
    name = _params(signature)[0].split(";")[0].strip().lstrip("*")
    facts = {name: Linear(transpose, selects, covers)}
    return op(signature, forward, infer=infer, facts=facts, kind="linear", **declared)


F = TypeVar("F", bound=Callable[..., Any])


@overload
def public(fn: F, *, name: str | None = None, method: bool = False, function: bool = True) -> F: ...
@overload
def public(*, name: str | None = None, method: bool = False, function: bool = True) -> Callable[[F], F]: ...
def public(fn: Any = None, *, name: str | None = None, method: bool = False, function: bool = True) -> Any:
    """Export a function as `wengert.<name>`, and with `method` as a Tensor method too."""

    def register(f: Callable[..., Any]) -> Callable[..., Any]:
        key = name or f.__name__
        if function:
            PUBLIC[key] = f
        if method:
            METHODS[key] = f
        return f

    return register if fn is None else register(fn)


# -- composites


def composite(
    signature: str,
    *,
    forward: Callable[..., Any] | None = None,
    facts: Mapping[str, Fact] | Joint | None = None,
    **declared: Any,
) -> Callable[[Callable[..., Any]], Op]:
    """Declare a composite: a plain function of ops that stays one node in graphs.

    The decorated body takes the tensors in order (None for an absent optional one) and the
    attributes by name. With `forward` (NumPy) and `facts` eager execution runs those, fused; without
    them it runs the body, and its nodes are folded into one when a graph is closed.
    """

    def register(body: Callable[..., Any]) -> Op:
        specs: dict[Any, Any] = {}

        def infer(*args: Any, **attrs: Any) -> Any:
            key = (args, tuple(sorted(attrs.items())))
            if key not in specs:
                if len(specs) >= 4096:
                    specs.clear()
                specs[key] = _infer_body(body, args, attrs)
            return specs[key]

        made = Op(
            signature,
            "composite",
            forward if forward is not None else _raw_body(body),
            facts=facts,
            infer=infer,
            body=body,
            **declared,
        )
        made.front = _composite_front(made, fused=forward is not None)
        return made

    return register


def abstract_input(spec: Spec, name: str = "", requires_grad: bool = False) -> Tensor:
    """An abstract tensor that stands for a graph's input."""
    node = make_node(
        TABLE["input"], (), {"name": name} if name else EMPTY_ATTRS, None, spec, None, 0, None, requires_grad
    )
    return abstract(node)


def _infer_body(body: Callable[..., Any], args: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    out = body(*(abstract_input(a) if isinstance(a, Spec) else a for a in args), **attrs)
    return tuple(o.spec for o in out) if isinstance(out, tuple) else out.spec


def _raw_body(body: Callable[..., Any]) -> Callable[..., Any]:
    """The body on NumPy values: what the interpreter and the derivative rules call."""

    def forward(*values: Any, **attrs: Any) -> Any:
        token = set_mode(get_mode().with_grad(False))
        try:
            out = body(*(wrap(np.asarray(v)) if isinstance(v, (np.ndarray, np.generic)) else v for v in values), **attrs)
        finally:
            reset_mode(token)
        return tuple(o._data for o in out) if isinstance(out, tuple) else out._data

    return forward


def _composite_front(op: Op, fused: bool) -> Callable[..., Any]:
    body = op.body
    assert body is not None

    def front(*args: Any, **attrs: Any) -> Any:
        mode = get_mode()
        tensors = [a for a in args if isinstance(a, Tensor)]
        if any(a._data is None for a in tensors):
            if op.joint is not None or any(f.differentiable for f in op.facts) or not any(a.requires_grad for a in tensors):
                return bind(op, args, attrs)
        elif fused:
            return bind(op, args, attrs)
        elif not mode.grad or not any(a.requires_grad for a in tensors):
            return body(*args, **attrs)
        code, offset = caller()
        scope = Scope("composite", op.name, mode.scope, code, offset, op, tuple(map(graph_input, args)), attrs)
        token = set_mode(mode.within(scope))
        try:
            out = body(*args, **attrs)
        finally:
            reset_mode(token)
        several = isinstance(out, tuple)
        for i, o in enumerate(out if several else (out,)):
            if o.node is not None and _made_inside(o.node.scope, scope):
                marks = {**attrs, "index": i} if several else attrs
                o.node.scope = Scope("output", op.name, o.node.scope, code, offset, op, scope.inputs, marks)
        return out

    front.__name__ = front.__qualname__ = op.name
    return front


def _made_inside(inner: Scope | None, scope: Scope) -> bool:
    while inner is not None and inner is not scope:
        inner = inner.parent
    return inner is scope


SIZE = op(
    "size(;dim)",
    lambda dim: np.asarray(dim, default_int),
    infer=lambda dim: spec_of((), default_int),
    kind="source",
    doc="A size as a number: of an axis whose size is known only when the graph is fed.",
    samples=lambda rng: [Call((), {"dim": 3})],
    reference=lambda dim: np.full((), dim),
)
