"""The layer rules of docs/architecture.md: who may import whom."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "wengert"
FILES = sorted(PACKAGE.rglob("*.py"))
LAYERS = {
    "core": 0,
    "ops": 1,
    "transforms": 2,
    "passes": 2,
    "execute": 3,
    "explain": 3,
    "interop": 3,
    "symbolic": 3,
    "nn": 4,
    "optim": 4,
    "data": 4,
    "train": 4,
    "distributions": 4,
    "explorer": 4,
    "solve": 4,
    "cli": 5,
}
# The package's face: it may name anything, and whoever is above the layers may use it.
FACE = {"__init__", "__main__", "autograd", "random", "version", "linalg", "fft", "special", "debug"}


def part(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


MODULES = {
    ".".join(p.relative_to(PACKAGE).with_suffix("").parts).removesuffix("__init__").rstrip("."): p for p in FILES
}


@cache
def imports(path: Path, typing: bool = False) -> list[tuple[str, int, bool]]:
    """(dotted module inside the package, line, inside a function) of every internal import.

    With `typing` also of those that only a type checker follows.
    """
    tree = ast.parse(path.read_text())
    inside: set[ast.AST] = set()
    typing_only: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            inside.update(ast.walk(node))
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            typing_only.update(ast.walk(node))
    out = []
    here = path.relative_to(PACKAGE).with_suffix("").parts
    for node in ast.walk(tree):
        if node in typing_only and not typing:
            continue
        if isinstance(node, ast.ImportFrom) and node.level:
            base = ".".join([*here[: len(here) - node.level], *([node.module] if node.module else [])])
            # A name is a module of its own, or something in the one that it is imported from.
            names = [f"{base}.{a.name}".lstrip(".") for a in node.names]
            out += [(n if n in MODULES else base, node.lineno, node in inside) for n in dict.fromkeys(names)]
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
            out += [
                (m.removeprefix("wengert").removeprefix("."), node.lineno, node in inside)
                for m in modules
                if m == "wengert" or m.startswith("wengert.")
            ]
    return out


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_go_down(path: Path) -> None:
    own = part(path)
    if own in FACE:
        return
    wrong = []
    for module, line, _ in imports(path):
        target = module.split(".")[0] or "__init__"
        if target in FACE:
            if LAYERS[own] < 4 and target != "version":
                wrong.append(f"{line}: {module or 'wengert'}")
        elif LAYERS[target] > LAYERS[own]:
            wrong.append(f"{line}: {module}")
    assert wrong == []


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_internal_import_inside_a_function(path: Path) -> None:
    assert [f"{line}: {m}" for m, line, inside in imports(path) if inside] == []


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_files_stay_small(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 900


def test_folders_stay_small() -> None:
    counts = Counter(path.parent for path in FILES)
    assert {str(folder.relative_to(PACKAGE)): n for folder, n in counts.items() if n > 15} == {}


def test_no_import_cycle() -> None:
    """Not even one that only a type checker would go round."""
    edges = {n: {m for m, _, _ in imports(p, typing=True) if m not in ("", n)} for n, p in MODULES.items() if n}
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as e:
        pytest.fail("import cycle: " + " <- ".join(e.args[1]))


def test_importing_loads_numpy_and_nothing_heavy() -> None:
    code = (
        "import sys, numpy; before = set(sys.modules); import wengert;"
        "print(*sorted({m.split('.')[0] for m in set(sys.modules) - before}))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(out.stdout.split())
    allowed = {m for m in loaded if m in sys.stdlib_module_names or m.startswith("_")} | {"wengert", "numpy"}
    assert loaded <= allowed, loaded - allowed
    assert not loaded & {"asyncio", "http", "xml", "multiprocessing", "unittest", "concurrent", "email"}
