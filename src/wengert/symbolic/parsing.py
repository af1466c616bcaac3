"""The reader of expressions: text as `text` prints it, and as people write it."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NoReturn

import numpy as np

from ..core.errors import GraphError, WengertError, fail, first_line
from ..core.graph.checked import check_attributes
from ..core.graph.graph import Graph
from ..core.graph.snapshot import Given
from ..core.mode import get_mode, reset_mode, set_mode
from ..core.ops.declare import PUBLIC
from ..core.ops.op import TABLE
from ..core.ops.record import abstract_input, bind
from ..core.spec import Spec, as_dtype, float64, spec_of
from ..core.tensor import Tensor, asarray

_CONSTANTS = {"pi": math.pi, "e": math.e, "inf": math.inf, "nan": math.nan, "True": True, "False": False}
_DTYPES = {
    short: name
    for width in ("16", "32", "64")
    for short, name in ((f"f{width}", f"float{width}"), (f"i{width}", f"int{width}"), (f"u{width}", f"uint{width}"))
} | {"i8": "int8", "u8": "uint8", "bf16": "bfloat16", "bool": "bool"}
_NAMES = {"ln": "log", "min": "minimum", "max": "maximum", "Abs": "abs", "ceiling": "ceil", "loggamma": "lgamma"}
_LITERALS = (ast.Constant, ast.Tuple, ast.List, ast.UnaryOp, ast.USub, ast.Load)


def parse(text: str, inputs: Sequence[str] | Mapping[str, Spec] | None = None, *, dtype: Any = float64) -> Graph:
    """Return the graph of an expression.

    Parameters
    ----------
    text: an expression with Python's operators and the names of ops, or several for several
        outputs, separated by commas; before it lines `name = expression`. `pi`, `e`, `inf` and
        `nan` are numbers unless they are inputs.
    inputs: names, which are then scalars, or names with their specs; None takes the names that the
        text uses and does not define, in order.
    dtype: of scalar inputs.

    Nothing but the op table can be reached from the text. Raises GraphError, with line and column,
    for what is not such an expression.

    >>> import wengert as wg
    >>> g = wg.symbolic.parse("x*sin(x)")
    >>> g(2.0)
    tensor(1.8186, dtype=float64)
    >>> wg.symbolic.text(wg.symbolic.derivative(g))
    'x*cos(x) + sin(x)'
    """
    try:
        body = ast.parse(text.strip()).body
    except (SyntaxError, ValueError) as e:
        line = getattr(e, "lineno", None)
        place = f" at line {line}, column {e.offset}" if isinstance(e, SyntaxError) and line else ""
        fail(GraphError, f"{e.args[0]}{place} in {text!r}")
    except (RecursionError, MemoryError):
        fail(GraphError, "the expression is nested too deeply", "Give its parts names, one line for each.")
    if not body or not isinstance(body[-1], ast.Expr):
        fail(GraphError, f"no expression in {text!r}", "The last line is the result.")
    specs = _specs(body, inputs, as_dtype(dtype))
    given = [Given(abstract_input(s, name), name, False) for name, s in specs.items()]
    token = set_mode(get_mode().with_autocast(None).traced(None))
    try:
        results = _Reader({g.name: g.tensor for g in given}, as_dtype(dtype)).run(body)
        outputs = [r if isinstance(r, Tensor) else asarray(r, dtype=as_dtype(dtype)) for r in results]
    finally:
        reset_mode(token)
    return Graph.closed(outputs, given)


def _specs(body: list[ast.stmt], inputs: Any, dtype: Any) -> dict[str, Spec]:
    if isinstance(inputs, Mapping):
        return dict(inputs)
    if inputs is not None:
        return {name: spec_of((), dtype) for name in inputs}
    called = {id(n.func) for s in body for n in ast.walk(s) if isinstance(n, ast.Call)}
    defined: set[str] = set()
    found: list[str] = []
    for statement in body:
        value = getattr(statement, "value", statement)
        names = [_dotted(n) for n in _in_order(value) if id(n) not in called]
        found += [n for n in names if n and n not in defined and n not in _CONSTANTS]
        if isinstance(statement, ast.Assign):
            defined |= {t.id for t in statement.targets if isinstance(t, ast.Name)}
    keywords = {id(k.value) for s in body for n in ast.walk(s) if isinstance(n, ast.Call) for k in n.keywords}
    dtypes = {n.id for s in body for n in ast.walk(s) if isinstance(n, ast.Name) and id(n) in keywords}
    return {name: spec_of((), dtype) for name in dict.fromkeys(found) if name not in dtypes}


def _in_order(root: ast.AST) -> list[ast.AST]:
    """Return the nodes of a syntax tree from left to right."""
    out = []
    stack = [root]
    while stack:
        node = stack.pop()
        out.append(node)
        if not _dotted(node):
            stack.extend(list(ast.iter_child_nodes(node))[::-1])
    return out


def _dotted(node: ast.AST) -> str:
    """Return the dotted name of `layers[0].weight`, `layers.0.weight`; "" for an expression that is no name."""
    tail = ""
    while True:
        if isinstance(node, ast.Name):
            return node.id + tail
        if isinstance(node, ast.Attribute):
            tail = f".{node.attr}{tail}"
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and type(node.slice.value) is int:
            tail = f".{node.slice.value!s}{tail}"
        else:
            return ""
        node = node.value


class _Reader:
    """A reader of statements on abstract tensors, by an explicit stack."""

    def __init__(self, names: dict[str, Any], dtype: Any) -> None:
        self.names: dict[str, Any] = {**_CONSTANTS, **names}
        self.dtype = dtype

    def run(self, body: list[ast.stmt]) -> list[Any]:
        for statement in body[:-1]:
            if not (
                isinstance(statement, ast.Assign)
                and len(statement.targets) == 1
                and isinstance(statement.targets[0], ast.Name)
            ):
                _refuse(statement, "only `name = expression` may stand before the result")
            self.names[statement.targets[0].id] = self.value(statement.value)
        last = body[-1]
        assert isinstance(last, ast.Expr)
        if isinstance(last.value, ast.Tuple):
            return [self.value(e) for e in last.value.elts]
        return [self.value(last.value)]

    def value(self, root: ast.expr) -> Any:
        """Return the value of an expression; operands are evaluated before what needs them."""
        done: dict[int, Any] = {}
        stack: list[tuple[ast.expr, bool]] = [(root, False)]
        while stack:
            node, ready = stack.pop()
            if ready:
                done[id(node)] = self.apply(node, done)
                continue
            stack.append((node, True))
            stack.extend((child, False) for child in _operands(node)[::-1])
        return done[id(root)]

    def apply(self, node: ast.expr, done: dict[int, Any]) -> Any:
        args = [done[id(c)] for c in _operands(node)]
        try:
            if isinstance(node, ast.BinOp):
                return self.op(_operator(node, node.op), args)
            if isinstance(node, ast.Compare):
                if len(node.ops) != 1:
                    _refuse(node, "comparisons are of two", "Write (a < b) & (b < c).")
                return self.op(_operator(node, node.ops[0]), args)
            if isinstance(node, ast.UnaryOp):
                return self.op(_operator(node, node.op), args)
            if isinstance(node, ast.Call):
                return self.call(node, args)
            if isinstance(node, ast.Subscript) and args:
                return args[0][_literal(node.slice)]
        except (WengertError, TypeError, ValueError, ArithmeticError) as e:
            if isinstance(e, GraphError) and "line" in str(e):
                raise
            _refuse(node, first_line(e) if isinstance(e, WengertError) else str(e))
        name = _dotted(node)
        if name:
            if name not in self.names:
                _refuse(node, f"{ast.unparse(node)!r} is neither an input nor defined")
            return self.names[name]
        if isinstance(node, ast.List):
            return asarray(np.array(_literal(node), dtype=self.dtype))
        if isinstance(node, ast.Constant) and type(node.value) in (bool, int, float):
            return node.value
        return _refuse(node, f"{ast.unparse(node)!r} is not an expression over the op table")

    def op(self, name: str, args: list[Any]) -> Any:
        if any(isinstance(a, Tensor) for a in args):
            return TABLE[name].front(*args)
        with np.errstate(all="ignore"):
            value = TABLE[name].forward(*map(np.asarray, map(_wide, args)))
        return value.item()

    def call(self, node: ast.Call, args: list[Any]) -> Any:
        name = ast.unparse(node.func)
        name = _NAMES.get(name, name)
        attrs = {str(k.arg): self.attribute(k.value) for k in node.keywords}
        op = TABLE.get(name)
        if op is not None and op.kind != "leaf" and set(attrs) == set(op.attr_names):
            if op.kind == "elementwise" and not attrs:
                return self.op(name, args)
            check_attributes(op, attrs, next((a.spec for a in args if isinstance(a, Tensor)), None))
            front: Callable[..., Any] = op.front
            if op.kind in ("elementwise", "composite"):
                return front(*args, **attrs)
            return bind(op, [a if isinstance(a, Tensor) else asarray(a) for a in args], attrs)
        if name in PUBLIC and (op is not None or attrs == {}) and name in TABLE:
            return PUBLIC[name](*args, **attrs)
        if name in _DTYPES.values() and len(args) == 1:
            return TABLE["cast"].front(asarray(args[0]), dtype=as_dtype(name))
        return _refuse(node.func, f"{name!r} is not an op of the table")

    def attribute(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Name) and node.id in _DTYPES:
            return as_dtype(_DTYPES[node.id])
        return _literal(node)


def _wide(value: Any) -> Any:
    return float(value) if type(value) is int else value


def _operands(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    if isinstance(node, ast.UnaryOp):
        return [node.operand]
    if isinstance(node, ast.Compare):
        return [node.left, *node.comparators]
    if isinstance(node, ast.Call):
        return list(node.args)
    return [node.value] if isinstance(node, ast.Subscript) and not _dotted(node) else []


def _operator(node: ast.expr, operator: Any) -> str:
    found = _operators().get(type(operator))
    return found if found is not None else _refuse(node, f"the operator of {ast.unparse(node)!r} is not one of an op")


@cache
def _operators() -> dict[type, str]:
    """Return the ops by Python's operators, which are those that their declarations say they are written with."""
    found: dict[type, str] = {ast.UAdd: "positive"}
    for name, op in TABLE.items():
        written = "x" + op.facets["infix"].text + "x" if "infix" in op.facets else op.facets.get("prefix", "") + "x"
        parsed = ast.parse(written, mode="eval").body
        if isinstance(parsed, ast.Compare):
            found[type(parsed.ops[0])] = name
        elif isinstance(parsed, (ast.BinOp, ast.UnaryOp)):
            found[type(parsed.op)] = name
    return found


def _literal(node: ast.expr) -> Any:
    if not all(isinstance(n, _LITERALS) or type(n) is ast.Name for n in ast.walk(node)):
        _refuse(node, f"{ast.unparse(node)!r} is not a number or a tuple of numbers")
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError):
        return _refuse(node, f"{ast.unparse(node)!r} is not a number or a tuple of numbers")


def _refuse(node: ast.AST, why: str, how: str = "") -> NoReturn:
    place = f"line {getattr(node, 'lineno', 1)}, column {getattr(node, 'col_offset', 0) + 1}"
    fail(GraphError, f"{place}: {why}", how)
