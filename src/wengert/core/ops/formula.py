"""Formulas: an elementwise function written with other ops, `logaddexp(x, -x) - log(2)`.

What an op's formula says need not be said again anywhere else. Evaluated on tensors it is the graph inside the op, from
which come derivatives, native code, cost, sparsity and the symbolic form; on the parts' oracles it is the op's oracle.
As data it goes into documents, where the explorer's page evaluates it.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ..errors import GraphError, fail
from .op import TABLE, Op, find_op

# Operators that no op is printed with. Of the others the ops themselves say which are theirs.
_UNPRINTED: Mapping[type[ast.AST], str] = {
    ast.And: "logical_and",
    ast.Or: "logical_or",
    ast.Not: "logical_not",
    ast.UAdd: "positive",
}
_CONSTANTS: Mapping[str, float] = {"pi": math.pi, "e": math.e, "inf": math.inf, "nan": math.nan}


# The origin of an operand: the number of an earlier part, an argument's name, or (in a tuple) a Python number.
Operand = int | str | tuple[float]


class Part(NamedTuple):
    """A step of a formula: an op and the origins of its operands."""

    op: Op
    operands: tuple[Operand, ...]


# The computation of a part, from its op and operands.
Compute = Callable[[Op, Sequence[Any]], Any]


class Formula:
    """A function of named arguments and attributes, as a list of parts, each after its operands.

    `read()` gives the parts; it raises GraphError for text that is no formula of these arguments.
    """

    __slots__ = ("attrs", "names", "read", "text")

    read: Callable[[], _Reader]

    def __init__(self, text: str, names: Sequence[str], attrs: Sequence[str] = ()) -> None:
        self.text, self.names, self.attrs = text.strip(), tuple(names), tuple(attrs)
        # Read when first asked for: the library's own formulas name ops of modules that are imported after theirs.
        self.read = cache(partial(_Reader, self.text, (*self.names, *self.attrs)))

    def evaluate(self, values: Mapping[str, Any], compute: Compute) -> Any:
        """Return the formula's value at these arguments."""
        found: list[Any] = []
        reader = self.read()
        for op, operands in reader.parts:
            found.append(compute(op, [_operand(o, found, values) for o in operands]))
        return _operand(reader.result, found, values)

    def __call__(self, *args: Any, **attrs: Any) -> Any:
        """Return the formula of tensors: the body of a composite."""
        values = dict(zip(self.names, args, strict=True))
        return self.evaluate(values | attrs, lambda op, operands: op.front(*operands))

    def after(self, inner: Formula) -> Formula:
        """Return this formula, of one argument, composed with another: of that one's result."""
        whole = ast.parse(self.text, mode="eval")
        text = ast.unparse(_Substituted(self.names[0], ast.parse(inner.text, mode="eval").body).visit(whole))
        return Formula(text, inner.names)

    def arguments(self) -> frozenset[str]:
        """Return the names of the arguments that the formula reads."""
        reader = self.read()
        return frozenset(o for part in reader.parts for o in part.operands if type(o) is str) & {*self.names}

    def normalized(self) -> str:
        """Return the text as Python writes such an expression."""
        return ast.unparse(ast.parse(self.text, mode="eval"))

    def described(self) -> dict[str, Any]:
        """Return the formula as data, of ops that have no formula themselves.

        `parts` lists name and operands of each step, `result` is an operand: a step's number, -1 - i for argument i,
        an attribute's name, or a list of one number.
        """
        parts: list[list[Any]] = []

        def compute(op: Op, operands: Sequence[Any]) -> Any:
            if op.formulas:
                inner: Formula = op.formulas[0]
                return inner.evaluate(dict(zip(op.params, operands, strict=True)), compute)
            step = [op.name, *map(_told, operands)]
            if step not in parts:
                parts.append(step)
            return _Reference(parts.index(step))

        values: dict[str, Any] = {name: _Reference(-1 - i) for i, name in enumerate(self.names)}
        result = self.evaluate(values | {name: name for name in self.attrs}, compute)
        return {"parts": parts, "result": _told(result)}

    def __repr__(self) -> str:
        return f"<formula {self.text}>"


class _Reference(int):
    """A step or an argument in a formula as data, where a plain integer is a number of the formula."""


def _told(operand: Any) -> Any:
    """Return an operand as data: numbers in a list, so that they are not taken for steps."""
    return int(operand) if type(operand) is _Reference else operand if type(operand) is str else [operand]


def _operand(operand: Operand, found: Sequence[Any], values: Mapping[str, Any]) -> Any:
    if type(operand) is tuple:
        return operand[0]
    return found[operand] if type(operand) is int else values[operand]  # type: ignore[index]


class _Substituted(ast.NodeTransformer):
    """A formula with an expression in the place of an argument."""

    def __init__(self, name: str, by: ast.expr) -> None:
        self.name, self.by = name, by

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.by if node.id == self.name else node


@cache
def _operators() -> Mapping[type[ast.AST], str]:
    """Return the ops of Python's operators: those whose facets name a sign, and the unprinted."""
    found = dict(_UNPRINTED)
    for op in TABLE.values():
        if "infix" in op.facets:
            tree: Any = ast.parse(f"a{op.facets['infix'].text}b", mode="eval").body
            found[type(tree.ops[0] if isinstance(tree, ast.Compare) else tree.op)] = op.name
        elif "prefix" in op.facets:
            tree = ast.parse(f"{op.facets['prefix']}a", mode="eval").body
            found[type(tree.op)] = op.name
    return found


class _Reader:
    """A reader of a formula's text."""

    def __init__(self, text: str, names: tuple[str, ...]) -> None:
        self.text, self.names = text, names
        self.parts: list[Part] = []
        self._numbers: dict[Part, int] = {}
        try:
            tree = ast.parse(self.text, mode="eval")
        except SyntaxError as e:
            self._refuse(f"{e.msg}, at character {e.offset or 1}")
        self.result = self._of(tree.body)

    def _of(self, node: ast.expr) -> Operand:
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            return (node.value,)
        if isinstance(node, ast.Name):
            if node.id in self.names:
                return node.id
            if node.id in _CONSTANTS:
                return (_CONSTANTS[node.id],)
            self._refuse(
                f"{node.id} is neither an argument ({', '.join(self.names)}) nor one of {', '.join(_CONSTANTS)}"
            )
        operators = _operators()
        if isinstance(node, ast.BinOp) and type(node.op) in operators:
            return self._part(operators[type(node.op)], [node.left, node.right])
        if isinstance(node, ast.UnaryOp) and type(node.op) in operators:
            return self._part(operators[type(node.op)], [node.operand])
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in operators:
            return self._part(operators[type(node.ops[0])], [node.left, node.comparators[0]])
        if isinstance(node, ast.BoolOp) and len(node.values) == 2:
            return self._part(operators[type(node.op)], node.values)
        if isinstance(node, ast.IfExp):
            return self._part("where", [node.test, node.body, node.orelse])
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
            return self._part(node.func.id, node.args)
        known = "numbers, arguments, arithmetic, comparisons, `a if c else b` and calls"
        self._refuse(f"{ast.unparse(node)} is none of {known}")

    def _part(self, name: str, operands: Sequence[ast.expr]) -> Operand:
        op = find_op(name)
        if op is None:
            self._refuse(f"there is no op {name}")
        is_one = op.kind == "elementwise" or (op.formulas and not op.combine and op.results == 1)
        if not is_one or op.attr_names:
            self._refuse(f"{op.signature} is not elementwise, or has attributes")
        if len(operands) != len(op.params):
            self._refuse(f"{op.signature} takes {len(op.params)} operands, not {len(operands)}")
        part = Part(op, tuple(map(self._of, operands)))
        if all(type(o) is tuple for o in part.operands):
            # Python's own number, which takes on the dtype of what it meets.
            return (float(op(*(np.asarray(o[0], np.float64) for o in part.operands if type(o) is tuple))),)
        if part not in self._numbers:
            self._numbers[part] = len(self.parts)
            self.parts.append(part)
        return self._numbers[part]

    def _refuse(self, why: str) -> NoReturn:
        fail(GraphError, f"{self.text!r} is no formula: {why}", "An example: logaddexp(x, -x) - log(2)")
