"""Docstrings are sentences: they say what a thing is or does, and every public name has one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "wengert"

# A clause without a subject ("Whether the op draws") is no sentence.
HEADLESS = re.compile(r"(What|Whether|How|Which|Where|Why|That|Those|Who|When)\b")

# What a function returns is a clause too ("The nodes of a graph"): a function's docstring begins with a verb.
NOMINAL = re.compile(r"(The|An?|One|Two|All|Every|Each|This|It)\b|[^A-Z]")

Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef

MODULES = sorted(PACKAGE.rglob("*.py"))


def definitions(tree: ast.Module) -> Iterator[tuple[str, Documented, bool]]:
    """Yield every module, class and function with its dotted name; the flag is True where users can reach it."""
    yield "module", tree, True
    pending: list[tuple[str, ast.AST, bool]] = [("", tree, True)]
    while pending:
        prefix, parent, reachable = pending.pop()
        for child in statements(parent):
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                public = reachable and not child.name.startswith("_")
                yield prefix + child.name, child, public
                # What a function defines inside is its own affair.
                pending.append((f"{prefix}{child.name}.", child, public and isinstance(child, ast.ClassDef)))
            else:
                pending.append((prefix, child, reachable))


def statements(parent: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements in one: expressions, which most of a tree consists of, define nothing."""
    for part in ("body", "handlers", "cases", "orelse", "finalbody"):
        yield from getattr(parent, part, ())


def is_overload(node: ast.FunctionDef) -> bool:
    return any(isinstance(found, ast.Name) and found.id == "overload" for found in node.decorator_list)


def is_property(node: ast.FunctionDef) -> bool:
    return any("property" in ast.unparse(found) for found in node.decorator_list)


def broken_rules(name: str, node: Documented, public: bool) -> Iterator[str]:
    """Yield the rules that a docstring breaks."""
    text = ast.get_docstring(node)
    if text is not None and (not text.strip() or HEADLESS.match(text)):
        yield "is empty or a headless clause"
    if not isinstance(node, ast.FunctionDef):
        return
    # In the imperative, as PEP 257 has it.
    if NOMINAL.match(text or "Nothing") and not is_property(node):
        yield "does not begin with a verb"
    if text is None and public and "." not in name and not is_overload(node):
        yield "is missing"


# One test asks all files: one for each file costs more than the asking.
def test_docstrings() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{getattr(node, 'lineno', 1)}: {name}: its docstring {rule}"
        for path in MODULES
        for name, node, public in definitions(ast.parse(path.read_text(encoding="utf-8")))
        for rule in broken_rules(name, node, public)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("def f():\n    'Return it.'", []),
        ("def f():\n    'Whether it is so.'", ["f: is empty or a headless clause"]),
        ("class A:\n    ' '", ["A: is empty or a headless clause"]),
        ("if x:\n    def f():\n        'The nodes of a graph.'", ["f: does not begin with a verb"]),
        ("try:\n    x\nexcept E:\n    def f(): pass", ["f: is missing"]),
        ("def _f():\n    def g(): pass", []),
        ("class A:\n    @property\n    def f(self):\n        'The nodes of a graph.'\n    def g(self): pass", []),
    ],
)
def test_broken_rules_are_found(text: str, found: list[str]) -> None:
    every = [
        f"{n}: {rule}" for n, node, public in definitions(ast.parse(text)) for rule in broken_rules(n, node, public)
    ]
    assert every == found
