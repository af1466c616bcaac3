"""The declarations that op modules write, and the front doors that are made from them.

The front door of an elementwise op is a generated function whose fast path handles tensors of one
interned spec with a handful of bytecodes; anything else (Python scalars, NumPy arrays, other dtypes,
broadcasting, abstract tensors) falls through to the general path.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any, TypeVar, Unpack, overload

import numpy as np

from ..arrays import ARRAY_ALWAYS, refuse_subclass
from ..elsewhere import as_data
from ..errors import DTypeError, ShapeError, WengertError, fail
from ..mode import Mode, Scope, get_mode, reset_mode, set_mode
from ..node import EMPTY_ATTRS, Node, note_node
from ..spec import Shape, Spec, broadcast_shapes, default_int, show, spec_of
from ..standins import WeakTensor
from ..state.blocks import LEFT, blocks, take_op
from ..state.observer import detours, observers, raise_of_observer
from ..storage import viewed
from ..tensor import Tensor, asarray, blanks, ndarray, new, of_class, result_class, take, wrap
from . import kernels
from .attributes import without_kinds
from .autocast import in_its_precision, without_autocast
from .facets import Facets
from .formula import Formula
from .op import Accepts, Algebra, Call, Fact, Joint, Kind, Linear, Missing, Op, Partial, Result, Rule, Samples, compiled
from .operands import (
    WANTED,
    binary_general,
    check_dtypes,
    check_operands,
    elementwise_general,
    result_dtype,
)
from .record import SCALARS, abstract_input, bind, caller, describe, graph_input, record, resumed, run_weak

# The loop holds the fast path: whatever is not for it leaves by `break`. While somebody observes, or an autocast may be
# on, it is not entered. The observed variant is made of the same text, and is always entered.
_FAST = """
def front({params}, /):
    try:
        while {enters}:
            spec = {x}._spec
            if {plain} and {same}:
                out = next(blanks)
            elif {number}:
                break
            elif {same}:
                out = new({of})
            else:
                break
            {compute}
            out._spec = {result}
            {base}
            {record}
            out.node = None
            return out
    except (AttributeError, RuntimeWarning):
        {failed}
    except WengertError as e:
        if not e.is_elsewhere:
            raise
    return {slow}(op, ({params},))
"""

# NumPy gives scalars where there are no axes. Its ufuncs can be told not to (`ARRAY_ALWAYS`).
_COMPUTE = """if not spec.{accepts}:
                break
            data = {forward}
            out._data = data if type(data) is ndarray else asarray(data)"""
_COMPUTE_UFUNC = """if spec.{accepts} is True:
                out._data = {forward}
            elif spec.{accepts}:
                out._data = {forward_of_scalars}
            else:
                break"""
_RECORD = """if ({tracked}) and (mode := get_mode()).grad:
                {nodes}
                frame = getframe({depth})
                out.node = node = Node()
                node.op = op
                node.inputs = {inputs}
                node.attrs = EMPTY_ATTRS
                node.saved = {saved}
                node.spec = {result}
                node.code = frame.f_code
                node.offset = frame.f_lasti
                node.scope = mode.scope{note}
                return out"""


def _fast_front(op: Op, observed: bool = False) -> Callable[..., Tensor]:
    """Return the generated front door of an elementwise op with one, two or three arguments.

    The `observed` one tells whoever observes the thread of what it computes and records.
    """
    params = op.params
    depth = 3 if observed else 1  # of the caller's frame: the observed one is called by the other, through a function
    nodes = [f"n_{p}" for p in params]
    values = [f"viewed({p})" if op.view else f"{p}._data" for p in params]
    arrays = ", ".join(values)
    result = "spec" if op.result == "same" else f"spec.{op.result}"
    is_ufunc = isinstance(op.forward, np.ufunc) and ARRAY_ALWAYS is not None
    forward = f"told(({arrays},))" if observed else f"forward({arrays})"
    source = _FAST.format(
        params=", ".join(params),
        x=params[0],
        enters="True" if observed else "not detours",
        plain=" and ".join(f"type({p}) is Tensor" for p in params),
        same=" and ".join(f"{p}._spec is spec" for p in params[1:]) or "True",
        # A number has no spec: to know it by its type takes less time than to catch the error.
        number="type({0}) is float or type({0}) is int".format(params[1]) if len(params) == 2 else "False",
        of=f"{params[0]}.result_class" if len(params) == 1 else f"result_class(({', '.join(params)}))",
        compute=(_COMPUTE_UFUNC if is_ufunc else _COMPUTE).format(
            accepts=op.accepts,
            forward=forward,
            forward_of_scalars=forward if observed else f"forward({arrays}, out=...)",
        ),
        result=result,
        base=f"take(out, {params[0]}, (f := getframe({depth})).f_code, f.f_lasti)" if op.view else "out._share = None",
        record=_RECORD.format(
            tracked=" or ".join(f"{p}.node is not None" for p in params),
            nodes="; ".join(f"{n} = {p}.node" for n, p in zip(nodes, params, strict=True)),
            depth=depth,
            inputs=", ".join(_entries(nodes, values)) + ",",
            saved=_saved(op, nodes, values),
            result=result,
            note="\n                note_node(node)" if observed else "",
        )
        if op.differentiable and op.result != "boolean"
        else "",
        failed="raise_of_observer(exception())" if observed else "pass",
        slow="general" if observed else "(general if not detours else detoured_front)",
    )
    namespace: dict[str, Any] = {
        "op": op,
        "forward": op.forward,
        "general": (binary_general if len(params) == 2 else elementwise_general)
        if op.result == "same"
        else _with_result_spec,
        "blanks": blanks,
        "new": new,
        "next": next,
        "type": type,
        "ndarray": ndarray,
        "asarray": as_data,  # a copy of what is on a device is there
        "Tensor": Tensor,
        "result_class": result_class,
        "Node": Node,
        "EMPTY_ATTRS": EMPTY_ATTRS,
        "get_mode": get_mode,
        "getframe": sys._getframe,
        "take": take,
        "viewed": viewed,
        "detours": detours,
        "detoured_front": _detoured_front,
        "told": op.told,
        "note_node": note_node,
        "raise_of_observer": raise_of_observer,
        "exception": sys.exception,
        "WengertError": WengertError,
        "__name__": __name__,
    }
    if observed:
        exec(compiled(source), namespace)
        made: Callable[..., Tensor] = namespace["front"]
        made.__name__ = op.name
        return made
    # Most programs use few ops: the text is compiled in the first call, which goes by the general path.
    code = compiled(_FIRST.format(params=", ".join(params))).co_consts[0]

    def compile_front() -> None:
        own = dict(namespace)
        exec(compiled(source), own)
        front.__code__ = own["front"].__code__

    namespace["compile_front"] = compile_front
    front = FunctionType(code, namespace, op.name)
    return front


_FIRST = """
def front({params}, /):
    compile_front()
    return (general if not detours else detoured_front)(op, ({params},))
"""


def _entries(nodes: list[str], values: list[str]) -> list[str]:
    """Return the expressions of a node's inputs; of several arguments any may be a constant."""
    if len(nodes) == 1:
        return nodes
    return [f"{n} if {n} is not None else {v}" for n, v in zip(nodes, values, strict=True)]


def _saved(op: Op, nodes: list[str], values: list[str]) -> str:
    """Return the expression of the values that a node saves."""
    # Argument i is kept when another argument (or itself) whose partial names it is tracked.
    parts = [
        _when(v, [n for n, fact in zip(nodes, op.facts, strict=True) if i in fact.needs], nodes)
        for i, v in enumerate(values)
    ]
    parts.append(_when("out._data", [n for n, fact in zip(nodes, op.facts, strict=True) if fact.needs_out], nodes))
    return "()" if all(p == "None" for p in parts) else f"({', '.join(parts)})"


def _when(value: str, users: list[str], nodes: list[str]) -> str:
    if not users:
        return "None"
    if len(users) == len(nodes):
        return value  # the fast path records only when some argument is tracked
    return f"{value} if {' or '.join(f'{u} is not None' for u in users)} else None"


# The front doors that report, made where they are first gone through.
_observed_fronts: dict[Op, Callable[..., Tensor]] = {}


def _detoured_front(op: Op, args: tuple[Any, ...]) -> Tensor:
    args = tuple(in_its_precision(op, args))
    front = _observed_fronts.get(op)
    if front is None:
        front = _observed_fronts[op] = _fast_front(op, observed=True)
    return front(*args)


def _with_result_spec(op: Op, args: Sequence[Any]) -> Tensor:
    """Run the general path of an op whose result has another dtype, and equip the spec for the fast path."""
    for a in args:
        if isinstance(a, Tensor):
            spec = a.spec
            if not hasattr(spec, op.result):
                setattr(spec, op.result, spec_of(spec.shape, result_dtype(op, spec.dtype)))
    return binary_general(op, args) if len(args) == 2 else elementwise_general(op, args)  # type: ignore[arg-type]


def _document(op: Op, front: Callable[..., Any], home: str) -> None:
    lines = [op.doc]
    if op.source:
        lines += ["", f"Source: {op.source}"]
    lines += ["", f"Elementwise over {WANTED.get(op.accepts, 'any dtype')}; operands broadcast and promote."]
    front.__doc__ = "\n".join(lines)
    front.__module__ = f"wengert.{home}".rstrip(".")
    front.__qualname__ = op.name


# -- declarations

METHODS: dict[str, Callable[..., Any]] = {}
PUBLIC: dict[str, Callable[..., Any]] = {}
# The submodules that offer the public functions which `wengert` itself does not.
HOMES: dict[str, str] = {}


def elementwise(
    signature: str,
    forward: Callable[..., Any],
    *,
    partials: Mapping[str, Rule | Fact] | None = None,
    accepts: Accepts = "floating",
    view: bool = False,
    result: Result = "same",
    doc: str,
    operator: str = "",
    method: bool = True,
    public: str | None = None,
    home: str = "",
    algebra: Algebra | None = None,
    samples: Samples | None = None,
    reference: Callable[..., Any] | str | None = None,
    onnx: str | Missing | None = None,
    source: str = "",
    formulas: tuple[Formula | str, ...] = (),
    **facets: Unpack[Facets],
) -> Op:
    """Declare an elementwise op.

    `partials` maps an argument to its partial derivative (a function by parameter names, see
    :mod:`wengert.core.ops.op`) or to a Fact. `operator` is the Python operator's dunder without
    underscores ("add"); its reflected form follows. `accepts` says which dtypes run as they are
    (integers become the default float for "floating"), `result` the result's dtype. `public` is
    the exported name where it differs from the op's, "" to export nothing; `home` the submodule that
    offers it ("special"), where that is not `wengert` itself. `formulas` says what the op is of
    others: see :mod:`wengert.core.ops.formula`.
    """
    facts = {k: f if isinstance(f, Fact) else Partial(f) for k, f in (partials or {}).items()}
    made = Op(
        signature,
        "elementwise",
        forward,
        facts=facts,
        accepts=accepts,
        view=view,
        result=result,
        doc=doc,
        algebra=algebra,
        samples=samples,
        reference=reference,
        onnx=onnx,
        source=source,
        formulas=formulas,
        layout=",".join("()" for _ in _params(signature)) + "->()",
        **facets,
    )
    made.infer = lambda *specs: _infer_elementwise(made, specs)
    front = _fast_front(made)
    _document(made, front, home)
    made.front = front
    _read_formulas(made)
    if formulas:
        (made.body,) = made.formulas
    name = made.name if public is None else public
    if name:
        front.__name__ = name
        PUBLIC[name] = front
        if home:
            HOMES[name] = home
        if method:
            METHODS.setdefault(name, front)
    if operator:
        METHODS[f"__{operator}__"] = front
        if len(made.params) == 2:
            made.reflected = f"__r{operator}__"
            METHODS[made.reflected] = _reflected(made)
    return made


def _read_formulas(op: Op) -> None:
    """Replace the texts among an op's formulas by what they say of its arguments and attributes."""
    op.formulas = tuple(f if isinstance(f, Formula) else Formula(f, op.params, op.attr_names) for f in op.formulas)


def _params(signature: str) -> list[str]:
    plain = without_kinds(signature)
    return plain[plain.index("(") + 1 : plain.index(")")].split(",")


def _reflected(op: Op) -> Callable[..., Any]:
    # Python comes here only when the left operand is not a tensor: never the fast path.
    def reflected(self: Tensor, other: Any) -> Any:
        return binary_general(op, (other, self))

    return reflected


def _infer_elementwise(op: Op, specs: Sequence[Any]) -> Spec:
    real = [s for s in specs if isinstance(s, Spec)]
    shape = common_shape(op.name, real)
    check_dtypes(op, specs)
    check_operands(op, specs)
    return spec_of(shape, result_dtype(op, real[0].dtype))


def common_shape(name: str, specs: Sequence[Spec]) -> Shape:
    """Return the shape that operands broadcast to. Raises ShapeError in the name of the op."""
    shape = broadcast_shapes(*(s.shape for s in specs))
    if shape is None:
        fail(
            ShapeError,
            f"{name}: shapes {' and '.join(show(s.shape, s.dtype) for s in specs)} do not broadcast",
            "Aligned from the right, each pair of sizes must be equal or contain a 1. "
            "Reshape one of them, for instance x[:, None] or x.reshape(...).",
        )
    return shape


def broadcasting(*specs: Any, **attrs: Any) -> Spec:
    """Return the shape rule of an elementwise op with attributes, whose operands have one dtype, the result's."""
    real = [s for s in specs if isinstance(s, Spec)]
    return spec_of(common_shape("the operands", real), real[0].dtype)


def _taking(op: Op, infer: Rule) -> Rule:
    """Return a shape rule that also checks which dtypes the op takes."""

    def checked(*args: Any, **attrs: Any) -> Any:
        check_dtypes(op, args)
        return infer(*args, **attrs)

    return infer if op.accepts == "anything" else checked


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
    made = Op(signature, kind, forward, facts=facts, **declared)
    made.infer = _taking(made, infer)
    real = made.accepts in _REAL

    def front(*args: Any, **attrs: Any) -> Any:
        operands = [a if isinstance(a, Tensor) or type(a) in SCALARS else _operand(made, a) for a in args]
        if real:
            _refuse_complex(made, operands)
        return bind(made, operands, attrs)

    front.__name__ = front.__qualname__ = made.name
    made.front = front
    return made


_REAL = frozenset({"real", "real_inexact"})


def _operand(op: Op, a: Any) -> Tensor:
    refuse_subclass(a, op.name)
    return asarray(a, copy=False)


def _refuse_complex(op: Op, operands: Sequence[Any]) -> None:
    for a in operands:
        if isinstance(a, Tensor) and a.spec.dtype.kind == "c":
            fail(
                DTypeError,
                f"{op.name} takes real numbers, not {describe(operands)}",
                "Use wg.abs, wg.real or wg.imag for a real number from a complex one.",
            )


def linear(
    signature: str,
    forward: Callable[..., Any],
    *,
    infer: Callable[..., Any],
    transpose: Rule,
    selects: bool = False,
    covers: bool = False,
    fills: bool = False,
    **declared: Any,
) -> Op:
    """Declare an op that is linear in its first argument; `transpose(ct, ...)` is the adjoint."""
    name = _params(signature)[0].split(";")[0].strip().lstrip("*")
    facts = {name: Linear(transpose, selects, covers, fills)}
    return op(signature, forward, infer=infer, facts=facts, kind="linear", **declared)


F = TypeVar("F", bound=Callable[..., Any])


@overload
def public(fn: F, *, name: str | None = None, method: bool = False, function: bool = True, home: str = "") -> F: ...
@overload
def public(
    *, name: str | None = None, method: bool = False, function: bool = True, home: str = ""
) -> Callable[[F], F]: ...
def public(
    fn: Any = None, *, name: str | None = None, method: bool = False, function: bool = True, home: str = ""
) -> Any:
    """Export a function as `wengert.<name>` or `wengert.<home>.<name>`, and with `method` as a Tensor method too."""

    def register(f: Callable[..., Any]) -> Callable[..., Any]:
        key = name or f.__name__
        if function:
            PUBLIC[key] = f
            if home:
                HOMES[key] = home
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
    check: Callable[..., None] | None = None,
    fits: Callable[..., None] | None = None,
    **declared: Any,
) -> Callable[[Callable[..., Any]], Op]:
    """Declare a composite: a plain function of ops that stays one node in graphs.

    The decorated body takes the tensors in order (None for an absent optional one) and the
    attributes by name. With `forward` (NumPy; the body's formula where it is left out) or `facts` eager
    execution runs those, fused; without both it runs the body, and its nodes are folded into one when a
    graph is closed. Where there are kernels (see :mod:`wengert.core.ops.kernels`) they stand in for
    `forward`; `check` raises for the values, given as to `forward`, that it refuses; `fits` for the specs
    that `forward` and kernels are not written for, though the body would broadcast them.
    """

    def register(body: Callable[..., Any]) -> Op:
        specs: dict[Any, Any] = {}

        def infer(*args: Any, **attrs: Any) -> Any:
            key = (args, tuple(sorted(attrs.items())))
            if key not in specs:
                if fits is not None:
                    fits(*args, **attrs)
                if len(specs) >= 4096:
                    specs.clear()
                specs[key] = _infer_body(body, args, attrs)
            return specs[key]

        made = Op(
            signature,
            "composite",
            forward if forward is not None else _raw_body(body),
            facts=facts,
            body=body,
            **declared,
        )
        _read_formulas(made)
        made.infer = _taking(made, infer)
        made.front = _composite_front(made, forward is not None or facts is not None, check)
        return made

    return register


def _infer_body(body: Callable[..., Any], args: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    # Sources are not to draw their numbers for it.
    token = set_mode(Mode(True, None, tracing=True))
    try:
        out = body(*(abstract_input(a) if isinstance(a, Spec) else a for a in args), **attrs)
    finally:
        reset_mode(token)
    return tuple(o.spec for o in out) if isinstance(out, tuple) else out.spec


def _raw_body(body: Callable[..., Any]) -> Callable[..., Any]:
    """Return the body on NumPy values, which the interpreter and the derivative rules call."""

    def forward(*values: Any, **attrs: Any) -> Any:
        token = set_mode(get_mode().as_recorded(False))
        try:
            out = body(
                *(wrap(np.asarray(v)) if isinstance(v, (np.ndarray, np.generic)) else v for v in values), **attrs
            )
        finally:
            reset_mode(token)
        return tuple(o._array for o in out) if isinstance(out, tuple) else out._array

    return forward


def _composite_front(op: Op, fused: bool, check: Callable[..., None] | None) -> Callable[..., Any]:
    body = op.body
    assert body is not None
    real = op.accepts in _REAL
    fit = kernels.is_fit(op)

    def front(*args: Any, **attrs: Any) -> Any:
        if detours and (found := get_mode().autocast) is not None:
            # Once and for all: whether its body runs, or a kernel of its own, it computes in one precision.
            return without_autocast(front, found.operands(op, args), attrs)
        if real:
            _refuse_complex(op, args)
        mode = get_mode()
        tensors = [a for a in args if isinstance(a, Tensor)]
        if WeakTensor in map(type, tensors):
            return run_weak(op, args, attrs, lambda _, plain, attrs: front(*plain, **attrs))
        if blocks and (taken := take_op(op, args, attrs)) is not LEFT:
            return taken
        values, is_abstract, is_tracked = [], False, False
        for a in tensors:
            values.append(value := a._array)
            node = a.node
            is_abstract = is_abstract or value is None
            is_tracked = is_tracked or (node is not None and node.requires_grad)
        if is_abstract:
            if op.joint is not None or not is_tracked or any(f.differentiable for f in op.facts):
                return bind(op, args, attrs)
        elif (plain := not (mode.grad and is_tracked)) or fused:
            # An observer is to see what is computed by NumPy, as it is in a replay.
            by_kernel = fit and len(values) == len(args) and not observers
            found = kernels.kernels.forward(op, values, attrs) if by_kernel else None
            if found is not None:
                if check is not None:
                    check(*values, **attrs)
                return of_class(
                    result_class(args), record(op, args, values, found, attrs, not plain and op.differentiable)
                )
            return bind(op, args, attrs) if fused else body(*args, **attrs)
        if mode.grad:
            args = tuple(map(resumed, args))
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
    onnx="Size",
    doc="A size, or a formula of sizes, as a number: of axes whose sizes are known only when the graph is fed.",
    samples=lambda rng: [Call((), {"dim": 3}), Call((), {"dim": -2})],
    reference=lambda dim: np.full((), dim),
    cost=0,
)
