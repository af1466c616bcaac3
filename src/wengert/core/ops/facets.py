"""Facets: the knowledge that single concerns of the library have of an op, given beside its declaration.

`Op.facets` holds what a declaration says by keyword. Most ops say nothing about most concerns: the module that reads a
facet has one accessor with the default for each kind of op, so that what is not said is known all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Literal, NamedTuple, TypedDict


class Role(Enum):
    """The use that an op makes of its operands' elements, for whoever treats all ops of a role alike.

    `PASS`: its value is its first operand's; it is there for derivatives, for names, or to pick one of several results.
    `RESHAPE`: the first operand's elements in the same order, in another shape.
    `STRIDE`: some of the first operand's elements in other places, where strides lead to them.
    `REINTERPRET`: the first operand's bytes as numbers of another dtype.
    `PICK`: those of the first operand's elements that indices name.
    `JOIN`: the operands side by side.
    `PRODUCT`: sums of products of the elements of two operands.
    `BY_ELEMENT`: every element of the result is computed of the operands' elements in its place.
    `OTHER`: anything else.

    What an op does not say follows from its kind: elementwise ops are `BY_ELEMENT`, others `OTHER`.
    """

    PASS = "pass"
    RESHAPE = "reshape"
    STRIDE = "stride"
    REINTERPRET = "reinterpret"
    PICK = "pick"
    JOIN = "join"
    PRODUCT = "product"
    BY_ELEMENT = "by element"
    OTHER = "other"


# What NumPy gives a view for, wherever the elements lie as they must.
VIEWS = frozenset({Role.PASS, Role.RESHAPE, Role.STRIDE, Role.REINTERPRET})

Dependence = Literal[
    "broadcast", "axes", "rows", "running", "windows", "convolution", "subscripts", "indices", "columns",
    "substitution", "imaginary",
]  # fmt: skip


class Reduction(NamedTuple):
    """A reduction: the op that combines two elements, and the result for none (None: an error)."""

    combine: str
    empty: float | None


# How tightly what is written binds its operands, loosest first.
Binds = Literal["compared", "or", "xor", "and", "shifted", "sum", "product", "sign", "power", "atom"]


class Count(NamedTuple):
    """A rule that counts an op's operations: what it says in words, and `operations(node, specs, out)` of a node.

    `specs` are those of the operands, `out` that of the first result; the count may be a polynomial in unknown sizes.
    """

    words: str
    operations: Callable[[Any, Sequence[Any], Any], Any]


class Form(NamedTuple):
    """The way a learner reads an op: its sign in a node, its formula, its derivative in each operand, and a sentence.

    Formulas are templates: {0} is the first operand, {out} the result; `^` raises and `_` lowers what follows. `binds`
    is how tightly the formula binds. A `|` in `local` separates the operands. `say` tells what the op does to the
    gradient that arrives. Derivatives are textbook ones (Abramowitz and Stegun, chapters 3, 4, 6, 7).
    """

    symbol: str
    form: str = ""
    binds: Binds = "atom"
    local: str = ""
    say: str = ""


class Infix(NamedTuple):
    """Python's operator between two operands, with the spaces around it, and how tightly it binds."""

    text: str
    binds: Binds


class Latex(NamedTuple):
    """The way an op is written in LaTeX: as a function's name, between or before its operands, or as a form of its own.

    A form has holes, {0} for the first operand, and brings its own brackets.
    """

    text: str
    how: Literal["function", "infix", "prefix", "form"] = "function"
    binds: Binds = "product"


class Cause(NamedTuple):
    """The reason why a number is not finite, in words, and what to write instead."""

    text: str
    rewrite: str


class Nonfinite(NamedTuple):
    """The reasons why an op gives NaN or infinity: of finite numbers, in its derivative, of infinities that it takes.

    Each `forward` cause stands behind a rule, which sees the numbers that met (None where there is no single one) and
    the result; the first that holds is the cause.
    """

    forward: tuple[tuple[Callable[[Sequence[Any], Any], bool], Cause], ...] = ()
    backward: Cause | None = None
    infinite: Cause | None = None


class Ring(NamedTuple):
    """The way an op is computed by ranks that each have a part of its operands along an axis, in their order.

    `run(*operands, over=..., ranks=..., **attrs)` is a rank's program: what the operands `moved` have goes round.
    `operands` and `results` say which axis is in parts, from the right.
    """

    run: Callable[..., Any]
    operands: tuple[int, ...]
    results: tuple[int, ...]
    moved: tuple[int, ...]


class Square(NamedTuple):
    """The square of an op's result, which is smooth where the op itself has a kink.

    It is the sum of `product(x, x, **attrs)` over the arguments, linear in each of its own two; `pull(ct, x, **attrs)`
    is the transpose in the second. Both are of ops and operators, as facts are.
    """

    product: Callable[..., Any]
    pull: Callable[..., Any]


# The precision in which an op is best computed: that of the autocast, or float32.
Autocast = Literal["lower", "float32"]
ZeroGradient = Literal[
    "step_function",
    "dead_relu",
    "clipped",
    "saturated",
    "overwritten",
    "not_selected",
    "not_extreme",
    "masked",
    "factor",
]


class Facets(TypedDict, total=False):
    """The statements about an op that its declaration may make beside its facts.

    Parameters
    ----------
    cost: operations for each element of an elementwise op's result, each number drawn, or each element of the first
        operand; 0 where elements are moved only; or a rule (:mod:`wengert.core.ops.costs`).
    complex_cost: the same of complex numbers, where it is not 4 times as many.
    form: how a learner reads the op.
    pattern: what happens to a gradient where facts do not tell: elements that were merged get copies of it
        ("distribute"), those that were copied get a sum ("accumulate"), those that were picked get all ("route").
    infix, prefix: Python's operator between operands, or before one.
    latex: how it is written in LaTeX.
    sympy: the SymPy expression, of the module `sympy`, operands and attributes; or why there is none.
    on_truth: the op of booleans that an op on bits is.
    nonfinite: why there is NaN or infinity.
    activation: an activation function, and whether a unit of it that has no slope gives nothing ("dead") or is
        "saturated".
    zero_gradient: why a gradient of 0 comes out where one went in; "factor" says that another operand may be 0.
    role: see :class:`Role`; read as `Op.role`.
    inserted: whether it comes into graphs by itself, between an operand and the op that takes it.
    reduction: of a reduction along `axis` that loops compute element by element, how it combines them.
    bound: of an op that takes an index first, the attribute or argument that says how many places there are.
    dependence: which elements of the result depend on which of an argument, where this follows from no fact:
        "broadcast", on the one that is broadcast there; "axes", on all along them, kept or not; "rows", on all along
        them, kept; "running", on those before; "windows" of a pool; "convolution"; "subscripts" of a sum of products;
        "indices" over neighbouring axes; "columns" of a system; "substitution", row after row; "imaginary", on the
        same place of complex numbers (see :mod:`wengert.transforms.jacobians.dependence`).
    declaration: how a user declared it, name, arguments and formula: documents say so too, lest it be read as another
        function of that name (see :mod:`wengert.core.graph.declared`).
    autocast: in which precision it computes under `wg.autocast`: in the "lower" one, where few digits of its operands
        suffice and sums are kept in more (products); in "float32", where digits are lost or numbers leave the range of
        half precision (exponentials, powers, sums over many elements). What is not said follows the operands.
    kernels: whether compiled code stands in for its forward and its derivative outside `wg.jit`, as for composites:
        where NumPy needs copies of its operands, or several passes over them (see :mod:`wengert.core.ops.kernels`).
    multiplications: of a composite of matrix products, how many its derivative in one argument takes, by the shapes of
        its arguments: many are NumPy's, whose BLAS is the best kernel.
    batching: how `vmap` runs it where the rule for its kind would not do: "body", through the graph inside, where a
        leading axis changes what the composite is; "alone", for one example after the other, which bring keys of their
        own or get the same random numbers.
    over_parts: what comes of the op where each rank of a mesh has a part of its operand along a reduced axis: the
        "sum", "mean", "max" or "min" of the ranks' results is the whole's. "linear" says of an elementwise op that
        partial sums of all operands give partial sums.
    ring: of an op on sequences, how ranks compute it that each have a part of them (see :class:`Ring`).
    unview: of an op whose result is a view of its operand, the operand with other elements where the view is,
        `unview(operand, elements, **attrs)`. Where an op does not say it, the elements are written by their places.
    moves: whether each element of the result is one of an operand, or a constant. Views are known to.
    square: what its square is, where it has a kink itself (see :class:`Square`).
    calls_user: whether its forward is a user's function: it is called once, and what it raises is told as it is.
    composed: the same results by other ops, `composed(*operands, **attrs)`, for whoever cannot run it whole.
    collective: of an op whose result depends on other ranks of a mesh, what every rank along the axis gets for what
        every rank brings, `collective(values, **attrs)`, both in the order of the ranks. Nobody may compute it of this
        rank's operand alone, nor leave it out on one rank only.
    """

    cost: int | Count
    complex_cost: int
    form: Form
    pattern: Literal["distribute", "accumulate", "route"]
    infix: Infix
    prefix: str
    latex: Latex
    sympy: Callable[..., Any] | str
    on_truth: str
    nonfinite: Nonfinite
    activation: Literal["dead", "saturated"]
    zero_gradient: ZeroGradient
    role: Role
    inserted: bool
    reduction: Reduction
    bound: str
    dependence: Dependence
    declaration: str
    autocast: Autocast
    kernels: bool
    multiplications: Callable[[Sequence[tuple[int, ...]]], int]
    batching: Literal["body", "alone"]
    over_parts: Literal["linear", "sum", "mean", "max", "min"]
    ring: Ring
    unview: Callable[..., Any]
    moves: bool
    square: Square
    calls_user: bool
    composed: Callable[..., Any]
    collective: Callable[..., list[Any]]
