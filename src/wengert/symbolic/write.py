"""The conversion of expressions to a graph, in the forms that people write: x**2, 1/x, a - b, x/2."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from ..core.graph.graph import Graph
from ..core.graph.snapshot import CONSTANT, PARAMETER, Given
from ..core.mode import get_mode, reset_mode, set_mode
from ..core.ops.op import TABLE
from ..core.ops.record import OUTPUT, abstract_input, bind
from ..core.spec import Spec
from ..core.tensor import Tensor, asarray, wrap
from .expr import E, Expr, is_divisor, terms_of
from .numbers import decimal, snapped, to_float
from .tidy import postorder

_HALF = Fraction(1, 2)
# As Python's operators write them.
_ON_TRUTH = {op.facets["on_truth"]: name for name, op in TABLE.items() if "on_truth" in op.facets}


def write(exprs: Sequence[Expr], like: Graph, specs: Sequence[Spec], name: str = "") -> Graph:
    """Return the graph of expressions in the inputs of `like`, with outputs of these specs."""
    given = [Given(abstract_input(n.spec, like.names[n]), like.names[n], n.op is PARAMETER) for n in like.inputs]
    symbols = {g.name: g.tensor for g in given}
    token = set_mode(get_mode().with_autocast(None).traced(None))
    try:
        values = _Writer(symbols, specs[0].dtype if specs else None).run(exprs)
        outputs = [_fitted(v, s) for v, s in zip(values, specs, strict=True)]
    finally:
        reset_mode(token)
    return Graph.closed(outputs, given, name=name, in_structure=like.in_structure, static=like.static)


def _fitted(value: Any, spec: Spec) -> Tensor:
    """Return a value in the shape and dtype that it must have."""
    if not isinstance(value, Tensor):
        value = wrap(np.asarray(value, spec.dtype))
    if value.dtype != spec.dtype:
        value = TABLE["cast"].front(value, dtype=spec.dtype)
    if value.shape != spec.shape:
        value = TABLE["broadcast"].front(value, shape=spec.shape)
    return value  # type: ignore[no-any-return]


def _op(name: str, *args: Any) -> Any:
    """Return an op on tensors and Python numbers; on numbers alone a number."""
    if any(isinstance(a, Tensor) for a in args):
        return TABLE[name].front(*args)
    with np.errstate(all="ignore"):
        return TABLE[name].forward(*map(np.float64, args)).item()


class _Writer:
    """A table of expressions' values (tensors, or Python numbers), each computed once."""

    def __init__(self, symbols: dict[str, Tensor], dtype: Any) -> None:
        self.values: dict[Expr, Any] = {}
        self.symbols = symbols
        self.dtype = dtype
        self.made: dict[Any, Any] = {}

    def run(self, exprs: Sequence[Expr]) -> list[Any]:
        for e in postorder(exprs):
            self.values[e] = getattr(self, f"_{e.kind}")(e)
        return [self.values[e] for e in exprs]

    def op(self, name: str, *args: Any) -> Any:
        """Return `_op` of the arguments, computed once for the same ones."""
        key = (name, *(id(a) if isinstance(a, Tensor) else ("number", a) for a in args))
        if key not in self.made:
            self.made[key] = (_op(name, *args), args)  # the arguments are kept, so that ids stay theirs
        return self.made[key][0]

    # -- one method for each kind of expression

    def _number(self, e: Expr) -> float:
        return to_float(e.data)

    def _constant(self, e: Expr) -> Any:
        return bool(e.data) if e.name in ("True", "False") else e.data

    def _symbol(self, e: Expr) -> Tensor:
        return self.symbols[e.name]

    def _power(self, e: Expr) -> Any:
        base, exponent = e.args
        if is_divisor(e):
            return self.op("divide", 1.0, self.inverse(e))
        return self.raised(base, exponent)

    def raised(self, base: Expr, exponent: Expr) -> Any:
        if base is E or base == E:
            return self.op("exp", self.values[exponent])
        if exponent.kind == "number" and exponent.data == _HALF:
            return self.op("sqrt", self.values[base])
        return self.op("pow", self.values[base], self.values[exponent])

    def inverse(self, f: Expr) -> Any:
        """Return one over a factor that stands below the line."""
        base, exponent = f.args
        n = -exponent.data
        if n == 1:
            return self.values[base]
        return self.op("sqrt", self.values[base]) if n == _HALF else self.op("pow", self.values[base], float(n))

    def _product(self, e: Expr) -> Any:
        """Return (number * factors) / (number * factors)."""
        top, bottom = to_float(e.data), 1.0
        if not decimal(e.data):
            top, bottom = to_float(Fraction(e.data.numerator)), float(e.data.denominator)
        above = [self.values[f] for f in e.args if not is_divisor(f)]
        below = [self.inverse(f) for f in e.args if is_divisor(f)]
        negative = top == -1.0 and any(isinstance(v, Tensor) for v in above)
        value = self.times(1.0 if negative else top, above)
        if negative:
            value = self.op("negative", value)
        if below or bottom != 1.0:
            value = self.op("divide", value, self.times(bottom, below))
        return value

    def times(self, number: float, factors: list[Any]) -> Any:
        value: Any = None if number == 1.0 and factors else number
        for f in factors:
            value = f if value is None else self.op("multiply", value, f)
            value = value if isinstance(value, Tensor) else snapped(value)
        return value

    def _sum(self, e: Expr) -> Any:
        """Return terms in order, from the first positive one on; negative ones are subtracted."""
        pairs = terms_of(e)
        first = next((i for i, (c, _) in enumerate(pairs) if c > 0), 0)
        pairs = [pairs[first], *pairs[:first], *pairs[first + 1 :]]
        value: Any = None
        for c, t in pairs:
            subtracts = value is not None and c < 0
            term = self._term(abs(c) if subtracts else c, t)
            value = term if value is None else self.op("subtract" if subtracts else "add", value, term)
        return value

    def _term(self, c: Fraction, t: Expr) -> Any:
        if t.kind == "number":
            return to_float(c)
        if t.kind == "sum":
            return self.op("multiply", to_float(c), self.values[t]) if c != 1 else self.values[t]
        return (
            self._product(Expr("product", args=t.args if t.kind == "product" else (t,), data=c))
            if c != 1
            else self.values[t]
        )

    def _call(self, e: Expr) -> Any:
        args = [self.values[a] for a in e.args]
        if e.data is not None:
            return self._opaque(e, args)
        if e.name == "where" and not any(isinstance(a, Tensor) for a in args[1:]):
            args[1] = asarray(args[1], dtype=self.dtype)
        # Of numbers, which are true where they are not 0, the operators are those on bits.
        of_truth = all(not isinstance(a, Tensor) or a.dtype.kind == "b" for a in args)
        return self.op(_ON_TRUTH.get(e.name, e.name) if of_truth else e.name, *args)

    def _opaque(self, e: Expr, args: list[Any]) -> Any:
        op, attrs, slots, _ = e.data
        if op is CONSTANT:
            return wrap(attrs[0][1].value)
        if op is OUTPUT:
            return args[0][dict(attrs)["index"]]
        given = [_fitted(a, s) if isinstance(s, Spec) else s for a, s in zip(args, slots, strict=True)]
        call = op.front if op.kind == "composite" else None
        return call(*given, **dict(attrs)) if call is not None else bind(op, given, dict(attrs))
