"""The conversion to SymPy and back."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cache, reduce
from typing import Any

from ..core.errors import GraphError, fail
from ..core.graph.graph import Graph
from ..core.graph.snapshot import CONSTANT, input_node
from ..core.node import Node
from ..core.ops.op import TABLE, Op
from ..core.spec import Spec, as_dtype, float64, spec_of
from .expr import FALSE, MINUS_ONE, PI, TRUE, ZERO, E, Expr, Opaque, add, call, constant, mul, number, power, symbol
from .functions import ARITHMETIC
from .numbers import from_value
from .tidy import postorder
from .write import write


def _sympy() -> Any:
    try:
        return importlib.import_module("sympy")
    except ImportError:
        fail(GraphError, "SymPy is not installed", "Install it: pip install 'wengert[symbolic]', or pip install sympy.")


# -- to SymPy


def to_sympy(graph: Graph, symbols: Mapping[str, Any] | None = None) -> Any:
    """Return the graph as a SymPy expression (a tuple of them for several outputs).

    Parameters
    ----------
    graph: of elementwise ops; composites of such are opened. Arrays are read element by element.
    symbols: SymPy expressions for inputs, by name; others become `Symbol(name)`.

    Floats that stand for a fraction or a well-known constant become exact: 0.5 is 1/2.

    Raises GraphError for ops that SymPy has no counterpart of, and where SymPy is not installed.

    >>> import wengert as wg
    >>> wg.symbolic.to_sympy(wg.graph(lambda x: wg.square(x) / 2 + wg.exp(-x))(wg.spec(())))
    x**2/2 + exp(-x)
    """
    sp = _sympy()
    opened = graph.expand_where(lambda n: not callable(sympy_of(n.op)))
    while opened is not graph:
        graph, opened = opened, opened.expand_where(lambda n: not callable(sympy_of(n.op)))
    given = symbols or {}
    done: dict[Node, Any] = {}
    for node in graph.inputs:
        name = graph.names[node]
        done[node] = given[name] if name in given else sp.Symbol(name)
    for node in graph.nodes:
        if node not in done:
            args = [done[e] if isinstance(e, Node) else _number_to_sympy(sp, e) for e in node.inputs]
            done[node] = _node_to_sympy(sp, node, args)
    found = tuple(done[n] for n in graph.outputs)
    return found[0] if len(found) == 1 else found


def _node_to_sympy(sp: Any, node: Node, args: list[Any]) -> Any:
    name = node.op.name
    if node.op is CONSTANT and node.attrs["value"].ndim == 0:
        return _number_to_sympy(sp, node.attrs["value"][()])
    if name == "broadcast" or name == "cast":
        entry = node.inputs[0]
        assert isinstance(entry, Node)
        source, target = entry.spec, node.spec
        assert isinstance(source, Spec)
        assert isinstance(target, Spec)
        if source.dtype.kind == "b" and target.dtype.kind != "b":
            return sp.Piecewise((1, args[0]), (0, True))
        if target.dtype.kind == source.dtype.kind or target.dtype.kind in "fV":
            return args[0]
    make = sympy_of(node.op)
    if isinstance(make, str):
        fail(GraphError, f"{name} has no counterpart in SymPy: {make}", "graph.text() shows any graph.")
    return make(sp, *args, **node.attrs)


def sympy_of(op: Op) -> Callable[..., Any] | str:
    """Return the maker of an op's SymPy expression, from SymPy, operands and attributes; else why there is none."""
    return op.facets.get("sympy", f"it is no function of single numbers ({op.kind})")


def _number_to_sympy(sp: Any, value: Any) -> Any:
    if isinstance(value, complex):
        return sp.Float(value.real) + sp.I * sp.Float(value.imag)
    done: dict[Expr, Any] = {}
    whole = from_value(value)
    for e in postorder([whole]):
        args = [done[a] for a in e.args]
        if e.kind == "number":
            done[e] = sp.Rational(e.data.numerator, e.data.denominator)
        elif e.kind == "constant":
            named = {"pi": sp.pi, "e": sp.E, "True": sp.true, "False": sp.false, "inf": sp.oo, "-inf": -sp.oo}
            done[e] = named.get(e.name, sp.nan)
        elif e.kind == "power":
            done[e] = args[0] ** args[1]
        elif e.kind == "product":
            done[e] = sp.Mul(sp.Rational(e.data.numerator, e.data.denominator), *args)
        else:
            make = sympy_of(TABLE[e.name])
            assert callable(make)
            done[e] = make(sp, *args)
    return done[whole]


# -- from SymPy

_FUNCTIONS: Mapping[str, Callable[..., Expr]] = {
    "Add": add,
    "Mul": mul,
    "Pow": power,
    "exp": ARITHMETIC["exp"],
    "sec": lambda x: power(call("cos", x), MINUS_ONE),
    "csc": lambda x: power(call("sin", x), MINUS_ONE),
    "cot": lambda x: power(call("tan", x), MINUS_ONE),
    "ExprCondPair": lambda x, c: Expr("call", "pair", (x, c)),
}
_PARTS_OF_REAL: Mapping[str, Callable[[Expr], Expr]] = {
    "re": lambda x: x,
    "conjugate": lambda x: x,
    "im": lambda x: ZERO,
}
_ATOMS: Mapping[str, Expr] = {
    "Pi": PI,
    "Exp1": E,
    "Infinity": constant("inf", float("inf")),
    "NegativeInfinity": constant("-inf", float("-inf")),
    "NaN": constant("nan", float("nan")),
    "BooleanTrue": TRUE,
    "BooleanFalse": FALSE,
}


def from_sympy(expr: Any, symbols: Sequence[Any] | None = None, *, dtype: Any = float64) -> Graph:
    """Return the graph of a SymPy expression, or of a sequence of them.

    Parameters
    ----------
    expr: a SymPy expression of real symbols, or a sequence of them for several outputs.
    symbols: the inputs, in order, as Symbols or names; None takes the free symbols by name.
    dtype: of the inputs and outputs.

    Raises GraphError for functions that no op computes and symbols that are not among the inputs.

    >>> import wengert as wg, sympy
    >>> x, y = sympy.symbols("x y")
    >>> g = wg.symbolic.from_sympy(sympy.sin(x) / (1 + y ** 2))
    >>> wg.symbolic.text(g), g(0.0, 1.0)
    ('sin(x)/(y**2 + 1)', tensor(0., dtype=float64))
    """
    sp = _sympy()
    roots = [sp.sympify(e) for e in (expr if isinstance(expr, (list, tuple)) else [expr])]
    free = sorted({str(s) for r in roots for s in r.free_symbols})
    names = free if symbols is None else [str(s) for s in symbols]
    unknown = sorted(set(free) - set(names))
    if unknown:
        fail(GraphError, f"the symbols {', '.join(unknown)} are not among the inputs {', '.join(names)}")
    spec = spec_of((), as_dtype(dtype))
    like = Graph([], [input_node(spec, name) for name in names])
    done: dict[Any, Expr] = {}
    for node in _operands_first(roots):
        done[node] = _from_node(node, [done[a] for a in node.args], spec)
    specs = [spec.with_dtype(as_dtype("bool")) if r.is_Boolean else spec for r in roots]
    return write([done[r] for r in roots], like, specs)


def _operands_first(roots: Sequence[Any]) -> list[Any]:
    out: list[Any] = []
    seen: set[Any] = set()
    stack = [(r, False) for r in roots[::-1]]
    while stack:
        node, ready = stack.pop()
        if ready:
            out.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack.extend((a, False) for a in node.args[::-1] if a not in seen)
    return out


def _from_node(node: Any, args: list[Expr], spec: Spec) -> Expr:
    kind = type(node).__name__
    if node.is_Symbol:
        return symbol(str(node))
    if node.is_Rational:
        return number(Fraction(int(node.p), int(node.q)))
    if node.is_Float:
        return from_value(float(node))
    if kind in _ATOMS:
        return _ATOMS[kind]
    if kind in _FUNCTIONS:
        return _FUNCTIONS[kind](*args)
    if kind in _PARTS_OF_REAL:
        return _PARTS_OF_REAL[kind](args[0])
    op = _counterparts().get(kind)
    if op is not None and len(args) == len(op.params):
        return call(op.name, *args)
    if op is not None and op.algebra.associates:
        return reduce(lambda x, y: call(op.name, x, y), args)
    if kind == "Piecewise":
        return _piecewise(args)
    if kind == "polygamma" and node.args[0].is_Integer:
        return _polygamma(int(node.args[0]), args[1], spec)
    if node.is_number:
        return from_value(float(node))
    return fail(
        GraphError,
        f"no op computes SymPy's {kind}, in {node}",
        "Evaluate or rewrite it in SymPy first: expr.doit(), expr.rewrite(...).",
    )


@cache
def _counterparts() -> Mapping[str, Op]:
    """Return SymPy's functions, by name, that are one op each: its declaration makes them of its bare operands."""
    sp = _sympy()
    found: dict[str, Op] = {}
    for op in TABLE.values():
        make = sympy_of(op)
        # On bits it is what an op of booleans is.
        if callable(make) and op.kind == "elementwise" and not op.attr_names and "on_truth" not in op.facets:
            operands = sp.symbols(f"x:{len(op.params)}")
            made = make(sp, *operands)
            if made.args == operands:
                found.setdefault(type(made).__name__, op)
    return found


def _piecewise(pairs: list[Expr]) -> Expr:
    """Return choices from the last to the first; NaN where no condition holds."""
    value = _ATOMS["NaN"]
    for pair in pairs[::-1]:
        value = call("where", pair.args[1], pair.args[0], value)
    return value


def _polygamma(n: int, x: Expr, spec: Spec) -> Expr:
    if n == 0:
        return call("digamma", x)
    return Expr("call", "polygamma", (x,), Opaque(TABLE["polygamma"], (("n", n),), (spec,), spec))
