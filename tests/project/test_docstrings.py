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
        for child in ast.iter_child_nodes(parent):
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                public = reachable and not child.name.startswith("_")
                yield prefix + child.name, child, public
                # What a function defines inside is its own affair.
                pending.append((f"{prefix}{child.name}.", child, public and isinstance(child, ast.ClassDef)))
            else:
                pending.append((prefix, child, reachable))


def is_overload(node: ast.FunctionDef) -> bool:
    return any(isinstance(found, ast.Name) and found.id == "overload" for found in node.decorator_list)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_docstrings_are_sentences(path: Path) -> None:
    """No docstring is empty or a headless clause."""
    found = [
        f"{name} (line {getattr(node, 'lineno', 1)}): {text[:60]!r}"
        for name, node, _ in definitions(ast.parse(path.read_text(encoding="utf-8")))
        if (text := ast.get_docstring(node)) is not None and (not text.strip() or HEADLESS.match(text))
    ]
    assert found == []


def is_property(node: ast.FunctionDef) -> bool:
    return any("property" in ast.unparse(found) for found in node.decorator_list)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_functions_are_described_by_verbs(path: Path) -> None:
    """The docstring of a function that is no property is in the imperative, as PEP 257 has it."""
    found = [
        f"{name} (line {node.lineno}): {text[:60]!r}"
        for name, node, _ in definitions(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and not is_property(node)
        if NOMINAL.match(text := ast.get_docstring(node) or "Nothing")
    ]
    assert found == []


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_public_functions_have_docstrings(path: Path) -> None:
    """Every public function of a module has a docstring."""
    bare = [
        f"{name} (line {node.lineno})"
        for name, node, public in definitions(ast.parse(path.read_text(encoding="utf-8")))
        if public and "." not in name and isinstance(node, ast.FunctionDef)
        if ast.get_docstring(node) is None and not is_overload(node)
    ]
    assert bare == []
