"""Complex numbers as pairs: what is computed of them becomes arithmetic on their real and imaginary parts.

Kernels hold no complex numbers. A complex value that ops compute of others is here two real nodes, and is joined to
complex numbers in memory only where something else takes it: a result of the program, a transform, a factorisation.
What such ops give is taken apart by views. The formulas are those of NumPy's loops, infinities and signed zeros
included; products of matrices leave out the part of an operand that is a real array.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ....core.graph.graph import Graph
from ....core.graph.snapshot import CONSTANT, constant_node, located
from ....core.node import Node
from ....core.ops.facets import Role
from ....core.ops.op import TABLE
from ....core.ops.record import OUTPUT
from ....core.spec import real_dtype
from ....passes.origins import note
from ....passes.rewrite import build, moved_onto, with_outputs

# A real number of every element: a node, or a Python number.
Part = Any
Pair = tuple[Part, Part]

_WHY = "complex numbers as pairs"


def paired(graph: Graph) -> Graph:
    """Return the graph with complex arithmetic as real arithmetic on pairs; itself where there is none."""
    concerned = (n for n in graph.nodes if n.op.name in _RULES)
    if any(_is_complex(n) or any(map(_is_complex, n.inputs)) for n in concerned):
        return _Pairing(graph).graph()
    return graph


def _is_complex(entry: Any) -> bool:
    if not isinstance(entry, Node):
        return isinstance(entry, complex)
    return not isinstance(entry.spec, tuple) and entry.spec.dtype.kind == "c"


class _Pairing:
    """One walk over a graph: complex values as pairs of real nodes."""

    def __init__(self, old: Graph) -> None:
        self.old = old
        self.pairs: dict[Node, Pair] = {}
        self.replace: dict[Node, Node] = {}
        self.like: Node = old.nodes[0]

    def graph(self) -> Graph:
        """Return the new graph."""
        for node in self.old.nodes:
            self.like = node
            if _is_complex(node) or any(map(_is_complex, node.inputs)):
                self.take(node)
            else:
                self.put(node, moved_onto(node, self.replace))
        return with_outputs(self.old, [self.whole(n) for n in self.old.outputs])

    def take(self, node: Node) -> None:
        """Rewrite a node with complex operands or a complex result, if there is a rule for it."""
        rule = None if node.op is OUTPUT or isinstance(node.spec, tuple) else _RULES.get(node.op.name)
        found = rule(self, node) if rule is not None else None
        if found is None:
            for e in node.inputs:
                if isinstance(e, Node):
                    self.whole(e)
            self.put(node, moved_onto(node, self.replace))
        elif type(found) is tuple:
            self.pairs[node] = found
        else:
            self.put(node, found)

    def put(self, node: Node, made: Node) -> None:
        if made is not node:
            self.replace[node] = made
            note(made, _WHY, node)

    def whole(self, node: Node) -> Node:
        """Return the node of a value as complex numbers in memory."""
        if node not in self.pairs or node in self.replace:
            return self.replace.get(node, node)
        parts = tuple([self.full(p, node) for p in self.pairs[node]])
        joined = build("stack", parts, node, axis=-1)
        self.put(node, build("view_as_complex", (joined,), node))
        return self.replace[node]

    def full(self, part: Part, node: Node) -> Node:
        """Return a part as an array."""
        if isinstance(part, Node) and part.spec.shape == node.spec.shape:
            return part
        dtype = real_dtype(node.spec.dtype)
        made = part if isinstance(part, Node) else constant_node(np.asarray(part, dtype))
        return build("broadcast", (made,), node, shape=node.spec.shape)

    def parts(self, entry: Any) -> Pair:
        """Return an operand's real and imaginary part."""
        if not isinstance(entry, Node):
            return (entry.real, entry.imag) if isinstance(entry, complex) else (entry, 0.0)
        found = self.pairs.get(entry)
        if found is not None:
            return found
        if not _is_complex(entry):
            return self.replace.get(entry, entry), 0.0
        if entry.op is CONSTANT:
            value = entry.attrs["value"]
            found = constant_node(value.real.copy()), constant_node(value.imag.copy())
        else:
            now = self.replace.get(entry, entry)
            found = build("real", (now,), entry), build("imag", (now,), entry)
        self.pairs[entry] = found
        return found

    # -- real arithmetic

    def __call__(self, name: str, *operands: Part, **attrs: Any) -> Part:
        """Return what a real op gives: a node; a Python number where all operands are."""
        if not any(isinstance(x, Node) for x in operands):
            operands = (constant_node(np.asarray(operands[0], self.dtype())), *operands[1:])
        if name == "where" and not any(isinstance(x, Node) for x in operands[1:]):
            operands = (operands[0], constant_node(np.asarray(operands[1], self.dtype())), operands[2])
        shapes = {x.spec.shape for x in operands if isinstance(x, Node)}
        if len(shapes) > 1 and TABLE[name].kind == "elementwise":
            shape = self.like.spec.shape
            operands = tuple([x if not isinstance(x, Node) or x.spec.shape == shape
                              else build("broadcast", (x,), self.like, shape=shape) for x in operands])  # fmt: skip
        return build(name, tuple(operands), self.like, **attrs)

    def dtype(self) -> Any:
        """Return the dtype of the parts of the node at hand."""
        dtype: Any = next(
            e.spec.dtype for e in (self.like, *self.like.inputs) if isinstance(e, Node) and _is_complex(e)
        )
        return real_dtype(dtype)

    def product(self, a: Pair, b: Pair) -> Pair:
        """Return the product of complex numbers."""
        (ar, ai), (br, bi) = a, b
        real = self("subtract", self("multiply", ar, br), self("multiply", ai, bi))
        return real, self("add", self("multiply", ar, bi), self("multiply", ai, br))

    def modulus(self, a: Pair) -> Part:
        return self("hypot", *a)


# -- rules: what is made of a node, a pair for a complex result, a node for a real one; None for what stays

Rule = Callable[[_Pairing, Node], Any]
_RULES: dict[str, Rule] = {}


def _rule(*names: str) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        _RULES.update(dict.fromkeys(names, rule))
        return rule

    return register


@_rule("add", "subtract")
def _by_part(p: _Pairing, node: Node) -> Pair:
    (ar, ai), (br, bi) = map(p.parts, node.inputs)
    return p(node.op.name, ar, br), p(node.op.name, ai, bi)


@_rule("negative")
def _negative(p: _Pairing, node: Node) -> Pair:
    re, im = p.parts(node.inputs[0])
    return p("negative", re), p("negative", im)


@_rule("conj")
def _conj(p: _Pairing, node: Node) -> Pair:
    re, im = p.parts(node.inputs[0])
    return re, p("negative", im)


@_rule("real")
def _real(p: _Pairing, node: Node) -> Node:
    return p.full(p.parts(node.inputs[0])[0], node)


@_rule("imag")
def _imag(p: _Pairing, node: Node) -> Node:
    return p.full(p.parts(node.inputs[0])[1], node)


@_rule("multiply")
def _multiply(p: _Pairing, node: Node) -> Pair:
    a, b = map(p.parts, node.inputs)
    return p.product(a, b)


@_rule("square")
def _square(p: _Pairing, node: Node) -> Pair:
    """Return the square as NumPy has it: the product with itself."""
    a = p.parts(node.inputs[0])
    return p.product(a, a)


@_rule("divide")
def _divide(p: _Pairing, node: Node) -> Pair:
    """Return the quotient by Smith's method (1962, Communications of the ACM 5): the larger part divides the other."""
    (ar, ai), (br, bi) = map(p.parts, node.inputs)
    by_real = p("greater_equal", p("abs", br), p("abs", bi))
    small, large = p("where", by_real, bi, br), p("where", by_real, br, bi)
    ratio = p("divide", small, large)
    scale = p("divide", 1.0, p("add", large, p("multiply", small, ratio)))
    times_r, times_i = p("multiply", ar, ratio), p("multiply", ai, ratio)
    re = p("where", by_real, p("add", ar, times_i), p("add", times_r, ai))
    im = p("where", by_real, p("subtract", ai, times_r), p("subtract", times_i, ar))
    nothing = p("equal", large, 0.0)  # then both parts are
    over_r, over_i = p("divide", ar, p("abs", br)), p("divide", ai, p("abs", br))
    return p("where", nothing, over_r, p("multiply", re, scale)), p("where", nothing, over_i, p("multiply", im, scale))


@_rule("reciprocal")
def _reciprocal(p: _Pairing, node: Node) -> Pair:
    re, im = p.parts(node.inputs[0])
    by_real = p("greater_equal", p("abs", re), p("abs", im))
    small, large = p("where", by_real, im, re), p("where", by_real, re, im)
    ratio = p("divide", small, large)
    scale = p("add", large, p("multiply", small, ratio))
    one = p("divide", 1.0, scale)
    other = p("divide", ratio, scale)
    return p("where", by_real, one, other), p("negative", p("where", by_real, other, one))


@_rule("exp")
def _exp(p: _Pairing, node: Node) -> Pair:
    re, im = p.parts(node.inputs[0])
    # exp(a) may be too large where the product with a cosine is not.
    limit = 80.0 if p.dtype().itemsize == 4 else 700.0
    is_large = p("greater", re, limit)
    size = p("exp", p("where", is_large, p("subtract", re, limit), re))
    rest = p("where", is_large, math.exp(limit), 1.0)
    # On the real axis nothing is multiplied, for an infinity times 0 would be NaN; nor is it where there is no angle.
    flat, known, gone = p("equal", im, 0.0), p("isfinite", im), p("equal", re, -math.inf)
    real = p("multiply", p("multiply", size, p("cos", im)), rest)
    real = p("where", known, real, p("where", gone, 0.0, p("where", p("equal", re, math.inf), re, math.nan)))
    imag = p("multiply", p("multiply", size, p("sin", im)), rest)
    imag = p("where", known, imag, p("where", gone, 0.0, math.nan))
    return p("where", flat, p("multiply", size, rest), real), p("where", flat, im, imag)


@_rule("abs")
def _abs(p: _Pairing, node: Node) -> Part:
    return p.modulus(p.parts(node.inputs[0]))


@_rule("sign")
def _sign(p: _Pairing, node: Node) -> Pair:
    a = p.parts(node.inputs[0])
    size = p.modulus(a)
    endless, unknown = p("isinf", size), p("logical_or", *[p("isnan", x) for x in a])
    one = p("where", p("equal", size, 0.0), 1.0, size)

    def part(x: Part, other: Part) -> Part:
        # Of an infinity in one part alone the sign; two of them have no direction.
        at_infinity = p("where", p("isinf", x), p("where", p("isinf", other), math.nan, p("sign", x)), 0.0)
        return p("where", unknown, math.nan, p("where", endless, at_infinity, p("divide", x, one)))

    return part(*a), part(*reversed(a))


@_rule("where")
def _where(p: _Pairing, node: Node) -> Pair:
    condition = node.inputs[0]
    if not isinstance(condition, Node) or _is_complex(condition):
        return None  # type: ignore[return-value]
    condition = p.replace.get(condition, condition)
    (ar, ai), (br, bi) = map(p.parts, node.inputs[1:])
    return p("where", condition, ar, br), p("where", condition, ai, bi)


@_rule("cast")
def _cast(p: _Pairing, node: Node) -> Any:
    (x,) = node.inputs
    dtype = real_dtype(node.spec.dtype) if _is_complex(node) else node.spec.dtype
    if dtype.kind != "f" or (not _is_complex(x) and x.spec.dtype.kind not in "fiub"):
        return None
    re, im = p.parts(x)

    def cast(part: Part) -> Part:
        return build("cast", (part,), node, dtype=dtype) if isinstance(part, Node) else part

    return (cast(re), cast(im)) if _is_complex(node) else p.full(cast(re), node)


@_rule("view_as_real")
def _as_real(p: _Pairing, node: Node) -> Node | None:
    (x,) = node.inputs
    if x not in p.pairs or x in p.replace:
        return None
    return build("stack", tuple([p.full(part, x) for part in p.pairs[x]]), node, axis=-1)


@_rule("view_as_complex")
def _as_complex(p: _Pairing, node: Node) -> Pair | None:
    (x,) = node.inputs
    x = p.replace.get(x, x)
    if x.spec.dtype != real_dtype(node.spec.dtype):
        return None
    return build("slice", (x,), node, entries=(0,)), build("slice", (x,), node, entries=(1,))


@_rule("equal", "not_equal")
def _equal(p: _Pairing, node: Node) -> Part:
    (ar, ai), (br, bi) = map(p.parts, node.inputs)
    both = "logical_and" if node.op.name == "equal" else "logical_or"
    return p(both, p(node.op.name, ar, br), p(node.op.name, ai, bi))


@_rule("isfinite", "isnan", "isinf")
def _kind(p: _Pairing, node: Node) -> Part:
    re, im = p.parts(node.inputs[0])
    both = "logical_and" if node.op.name == "isfinite" else "logical_or"
    return p(both, p(node.op.name, re), p(node.op.name, im))


def _structural(p: _Pairing, node: Node) -> Pair:
    """Return what an op gives that moves elements, or adds them up: of each part the same."""
    values = [(e, *p.parts(e)) if _is_complex(e) else (e, e, e) for e in node.inputs]
    made = []
    for k in (1, 2):
        inputs = []
        for entry, *_ in values:
            part = entry
            if _is_complex(entry):
                part = p.parts(entry)[k - 1]
                part = p.full(part, entry) if isinstance(entry, Node) else part
            elif isinstance(entry, Node):
                part = p.replace.get(entry, entry)
            inputs.append(part)
        made.append(build(node.op.name, tuple(inputs), node, **node.attrs))
    return made[0], made[1]


# Ops that treat both parts alike: those whose role says that they move elements, and these.
_ALIKE = {"sum", "mean", "slice_transpose", "slice_update", "gather", "gather_transpose", "pad", "roll", "copy"}
for _op in tuple(TABLE.values()):
    moves = _op.role in (Role.PASS, Role.RESHAPE, Role.STRIDE, Role.JOIN) and _op.results == 1
    if (moves or _op.name in _ALIKE) and _op.name not in _RULES and _op.kind in ("linear", "elementwise"):
        _RULES[_op.name] = _structural


@_rule("matmul")
def _matmul(p: _Pairing, node: Node) -> Pair:
    """Return the product of matrices, of four real ones; of fewer, where an operand is a real array."""
    (ar, ai), (br, bi) = map(p.parts, node.inputs)

    def times(x: Part, y: Part) -> Part:
        if not isinstance(x, Node) or not isinstance(y, Node):
            return None
        return located(node.op, (x, y), node.attrs, node.spec.with_dtype(real_dtype(node.spec.dtype)), node.code,
                       node.offset, node.scope)  # fmt: skip

    def sum_of(name: str, x: Part, y: Part) -> Part:
        if x is None or y is None:
            other = y if name == "add" or y is None else build("negative", (y,), node)
            return other if x is None else x
        return build(name, (x, y), node)

    re = sum_of("subtract", times(ar, br), times(ai, bi))
    im = sum_of("add", times(ar, bi), times(ai, br))
    return (re, 0.0 if im is None else im) if re is not None else None  # type: ignore[return-value]
