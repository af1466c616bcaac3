"""Places in the program: exact sub-expressions, and the program's names for its values.

A code object and an instruction's offset give line and column (PEP 657). The syntax tree of the same file tells
what is made of an expression: in `h = w * x + b` the sum is called h, and the product's operands w and x.
"""

from __future__ import annotations

import ast
import dis
import linecache
import os
from functools import lru_cache
from itertools import islice
from types import CodeType
from typing import NamedTuple

from ...core.ops.facets import Role
from ...core.ops.op import Op
from ...core.source import Source
from ...core.state import locks

_CONTEXT = 2  # lines shown around a span
_LONGEST_NAME = 24


@lru_cache(maxsize=256)
def lines(file: str) -> tuple[str, ...]:
    """Return the lines of a file; none where it cannot be read. (`linecache` would look for it again and again.)"""
    return tuple(linecache.getlines(file))


def line_of(file: str, number: int) -> str:
    """Return a line of a file, from 1; "" where there is none."""
    found = lines(file)
    return found[number - 1] if 1 <= number <= len(found) else ""


def read_again() -> None:
    """Forget what files say: they may have changed."""
    linecache.checkcache()
    for cached in (lines, span, named):
        cached.cache_clear()


class Span(NamedTuple):
    """An expression in a file: lines from 1, columns from 0, in characters; the end is behind it."""

    file: str
    line0: int
    col0: int
    line1: int
    col1: int


@lru_cache(maxsize=65536)
def span(code: CodeType | Source, offset: int) -> Span | None:
    """Return the expression that the instruction at byte `offset` was compiled from."""
    if isinstance(code, Source):
        return _of_source(code)
    if offset < 0:
        return None
    line0, line1, left, right = next(islice(code.co_positions(), offset // 2, None), (None,) * 4)
    if line0 is None:
        return None
    if line1 is None or left is None or right is None:
        return _whole_line(code.co_filename, line0)
    file = code.co_filename
    return Span(file, line0, _characters(file, line0, left), line1, _characters(file, line1, right))


def _of_source(source: Source) -> Span:
    """Return the span of a place that is known by its text only: where that stands in the line."""
    text = line_of(source.file, source.line)
    at = text.find(source.text) if source.text else -1
    if at < 0:
        return _whole_line(source.file, source.line)
    return Span(source.file, source.line, at, source.line, at + len(source.text))


def _whole_line(file: str, line: int) -> Span:
    text = line_of(file, line).rstrip()
    return Span(file, line, len(text) - len(text.lstrip()), line, len(text))


def _characters(file: str, line: int, column: int) -> int:
    """Return a column in characters from one in bytes of UTF-8."""
    text = line_of(file, line)
    return column if text.isascii() else len(text.encode()[:column].decode(errors="replace"))


def pieces(file: str, shown: set[int]) -> list[tuple[int, list[str]]]:
    """Return the parts of a file that show these lines, each with its first line's number."""
    total = len(lines(file))
    wanted = sorted({n for line in shown for n in range(line - _CONTEXT, line + _CONTEXT + 1) if 1 <= n <= total})
    found: list[tuple[int, list[str]]] = []
    for n in wanted:
        if not found or found[-1][0] + len(found[-1][1]) != n:
            found.append((n, []))
        found[-1][1].append(line_of(file, n).rstrip("\n"))
    return found


def short_path(file: str) -> str:
    """Return a file's path as pages show it: from the working directory where it is below."""
    shown = os.path.relpath(file) if os.path.isabs(file) else file
    return os.path.basename(file) if shown.startswith("..") else shown


# -- names


class Use(NamedTuple):
    """The operands of an expression: their names, "" for what is no variable; of a call what is called, else ""."""

    called: str
    names: tuple[str, ...]
    alone: str = ""  # the only argument of a call


class Named(NamedTuple):
    """The program's names of expressions in a file, by their spans without the file.

    `targets` has the variable that a whole right side is assigned to, "" where it is what a function
    returns; `operands` what an operator, a call or an index takes.
    """

    targets: dict[tuple[int, int, int, int], str]
    operands: dict[tuple[int, int, int, int], Use]


# CPython 3.11 counts how deep it is in a tree for all threads together: two that parse at once confuse it.
_PARSING = locks.lock()


@lru_cache(maxsize=256)
def named(file: str) -> Named:
    """Return the names in a file's syntax tree; nothing where it cannot be read."""
    out = Named({}, {})
    try:
        with _PARSING:
            tree = ast.parse("".join(lines(file)))
    except (SyntaxError, ValueError, RecursionError):
        return out
    modules = _imported(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            _assigned(out, file, node.targets[0], node.value)
        elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
            _assigned(out, file, node.target, node.value)
        elif isinstance(node, ast.AugAssign):
            name = _name(node.target)
            if name:
                out.targets[_at(file, node)] = name
            out.operands[_at(file, node)] = Use("", (name, _name(node.value)))
        elif isinstance(node, ast.Return) and node.value is not None:
            out.targets[_at(file, node.value)] = ""
        elif isinstance(node, ast.Lambda):
            out.targets[_at(file, node.body)] = ""
        if isinstance(node, ast.BinOp):
            out.operands[_at(file, node)] = Use("", (_name(node.left), _name(node.right)))
        elif isinstance(node, ast.UnaryOp):
            out.operands[_at(file, node)] = Use("", (_name(node.operand),))
        elif isinstance(node, ast.Compare):
            out.operands[_at(file, node)] = Use("", (_name(node.left), *map(_name, node.comparators)))
        elif isinstance(node, ast.Call):
            out.operands[_at(file, node)] = _use(node, modules)
        elif isinstance(node, ast.Subscript):
            out.operands[_at(file, node)] = Use("", (_name(node.value),))
    return out


def _assigned(out: Named, file: str, target: ast.expr, value: ast.expr) -> None:
    name = _name(target)
    if name:
        out.targets[_at(file, value)] = name


def _imported(tree: ast.Module) -> frozenset[str]:
    """Return what a file's import statements bring in: modules, and what is no value of the program either."""
    imports = (node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom)))
    return frozenset(alias.asname or alias.name.partition(".")[0] for node in imports for alias in node.names)


def _use(node: ast.Call, modules: frozenset[str]) -> Use:
    """Return what a call takes: a method's object, then the arguments; of `einsum("ij,j", a, b)` a and b."""
    owner = node.func.value if isinstance(node.func, ast.Attribute) else None
    root = owner
    while isinstance(root, ast.Attribute):
        root = root.value
    is_module = isinstance(root, ast.Name) and root.id in modules
    arguments = [a for a in node.args if not (isinstance(a, ast.Constant) and isinstance(a.value, str))]
    names = tuple(map(_name, arguments))
    alone = names[0] if len(arguments) == len(node.args) == 1 and not node.keywords else ""
    return Use(_called(node), names if owner is None or is_module else (_name(owner), *names), alone)


def _called(node: ast.Call) -> str:
    """Return the last part of what is called: `relu` of `nn.functional.relu(x)`."""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


# Calls that give a value of their argument: what they are given is what it is called.
_SAME = frozenset(
    {"asarray", "tensor", "array", "Tensor", "astype", "detach", "requires_grad_", "float", "copy", "clone"}
)


def _name(node: ast.expr) -> str:
    """Return a variable's or an attribute's name, `self` left out; "" for any other expression."""
    while isinstance(node, ast.Call):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        method = isinstance(node.func, ast.Attribute) and called in (
            "astype",
            "detach",
            "requires_grad_",
            "copy",
            "clone",
        )
        if called not in _SAME or not (method or node.args):
            return ""
        node = node.func.value if method and isinstance(node.func, ast.Attribute) else node.args[0]
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    if node.id != "self" or not parts:
        parts.append(node.id)
    name = ".".join(reversed(parts))
    return name if len(name) <= _LONGEST_NAME else ""


def _at(file: str, node: ast.AST) -> tuple[int, int, int, int]:
    line0, line1 = node.lineno, node.end_lineno or node.lineno  # type: ignore[attr-defined]
    left, right = node.col_offset, node.end_col_offset or 0  # type: ignore[attr-defined]
    return line0, _characters(file, line0, left), line1, _characters(file, line1, right)


def target(where: Span) -> str | None:
    """Return the variable that an expression is assigned to; "" where it is returned, None for neither."""
    return named(where.file).targets.get(where[1:])


def operand(where: Span, index: int, op: Op) -> str:
    """Return the program's name for an operand of an operation's expression; "" where it is no variable.

    An operator or an index is one operation, and a call of a function of its name; what else is called takes its
    arguments where it likes.
    """
    use = named(where.file).operands.get(where[1:])
    if use is None or index >= len(use.names) or not _is_call_of(use.called, op):
        return ""
    return use.names[index]


def _is_call_of(called: str, op: Op) -> bool:
    plain = called.replace("_with_", "_").removesuffix("_loss")
    return called == "" or plain == op.name or (called == "matmul" and op.role is Role.PRODUCT)


def argument(where: Span) -> str:
    """Return the only argument of a call, where that is a variable; else ""."""
    use = named(where.file).operands.get(where[1:])
    return use.alone if use is not None else ""


def called(code: CodeType | Source, offset: int) -> str:
    """Return what an instruction calls, by its last name: `net` of `self.net(x)`; "" for anything else."""
    where = span(code, offset)
    use = named(where.file).operands.get(where[1:]) if where is not None else None
    return use.called if use is not None else ""


# -- loops


@lru_cache(maxsize=4096)
def loops(code: CodeType) -> tuple[tuple[int, int], ...]:
    """Return the loops of a piece of code, as ranges of instruction offsets, outer ones first."""
    found: dict[int, int] = {}
    for instruction in dis.get_instructions(code):
        if "JUMP_BACKWARD" in instruction.opname and isinstance(instruction.argval, int):
            found[instruction.argval] = max(instruction.offset, found.get(instruction.argval, 0))
    return tuple(sorted(found.items(), key=lambda r: (r[0], -r[1])))


@lru_cache(maxsize=65536)
def loops_around(code: CodeType, offset: int) -> tuple[tuple[int, int], ...]:
    """Return the loops that an instruction is in, outer ones first."""
    return tuple(r for r in loops(code) if r[0] <= offset <= r[1])
