"""The layer rules of docs/architecture.md: who may import whom."""

from __future__ import annotations

import ast
import re
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
    "symbolic": 3,
    "nn": 4,
    "optim": 4,
    "data": 4,
    "train": 4,
    "storage": 4,
    "deploy": 4,
    "interop": 4,
    "distribute": 4,
    "distributions": 4,
    "explorer": 4,
    "solve": 4,
    "torch": 4,
    "numpy": 4,
    "cli": 5,
}
# The package's face: it may name anything, and whoever is above the layers may use it.
FACE = {
    "__init__",
    "__main__",
    "autograd",
    "random",
    "version",
    "linalg",
    "fft",
    "special",
    "sparse",
    "typing",
    "debug",
}


def part(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


MODULES = {
    ".".join(p.relative_to(PACKAGE).with_suffix("").parts).removesuffix("__init__").rstrip("."): p for p in FILES
}


Found = tuple[str, int, bool, bool]


@cache
def found_imports(path: Path) -> list[Found]:
    """(dotted module inside the package, line, inside a function, for a type checker only) of every internal import."""
    out: list[Found] = []
    here = path.relative_to(PACKAGE).with_suffix("").parts
    todo: list[tuple[ast.AST, bool, bool]] = [(ast.parse(path.read_text()), False, False)]
    while todo:
        node, inside, typing = todo.pop()
        inside = inside or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        typing = typing or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test))
        todo += [(child, inside, typing) for child in ast.iter_child_nodes(node)]
        if isinstance(node, ast.ImportFrom) and node.level:
            base = ".".join([*here[: len(here) - node.level], *([node.module] if node.module else [])])
            # A name is a module of its own, or something in the one that it is imported from.
            names = [f"{base}.{a.name}".lstrip(".") for a in node.names]
            modules = list(dict.fromkeys(n if n in MODULES else base for n in dict.fromkeys(names)))
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            named = [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
            modules = [
                m.removeprefix("wengert").removeprefix(".") for m in named if m == "wengert" or m.startswith("wengert.")
            ]
        else:
            continue
        out += [(module, node.lineno, inside, typing) for module in modules]
    return out


def imports(path: Path, typing: bool = False) -> list[tuple[str, int, bool]]:
    """(dotted module inside the package, line, inside a function) of every internal import.

    With `typing` also of those that only a type checker follows.
    """
    return [(module, line, inside) for module, line, inside, only in found_imports(path) if typing or not only]


def relative(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


# One test asks all files: one for each file costs more than the asking.
def test_imports_go_down() -> None:
    wrong = []
    for path in FILES:
        own = part(path)
        if own in FACE:
            continue
        for module, line, _ in imports(path):
            target = module.split(".")[0] or "__init__"
            if target in FACE:
                if LAYERS[own] < 4 and target != "version":
                    wrong.append(f"{relative(path)}:{line}: {module or 'wengert'}")
            elif LAYERS[target] > LAYERS[own]:
                wrong.append(f"{relative(path)}:{line}: {module}")
    assert wrong == []


def test_no_internal_import_inside_a_function() -> None:
    wrong = [f"{relative(path)}:{line}: {m}" for path in FILES for m, line, inside in imports(path) if inside]
    assert wrong == []


def test_files_stay_small() -> None:
    lines = {relative(path): len(path.read_text().splitlines()) for path in FILES}
    assert {path: n for path, n in lines.items() if n > 900} == {}


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


def test_importing_pytorchs_api_leaves_the_compiler_for_who_compiles() -> None:
    code = (
        "import sys, wengert.torch; print(*(m for m in sys.modules if m.startswith(('wengert.execute', 'llvmlite'))))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(out.stdout.split()) <= {
        "wengert.execute",
        "wengert.execute.composites",
        "wengert.execute.placement",
        "wengert.execute.interpreter",
    }


# The hot paths of operations, which go on by `_array` where the slot is empty.
READS_SLOT = {
    "core/ops/declare.py",
    "core/ops/operands.py",
    "core/ops/record.py",
    "core/standins.py",
    "core/storage.py",
    "core/tensor.py",
    "execute/jit/recorded.py",
    "ops/contract/products.py",
    "ops/index/indexing.py",
    "ops/reduce/common.py",
    "ops/structure/shapes.py",
    "transforms/derivatives/backward.py",
    "train/callbacks/showing.py",  # an attribute of its own
}


def test_values_are_kept_by_one_accessor() -> None:
    """What reads a tensor's value may keep it, and asks for `_array`; the slot `_data` may be empty."""
    read = re.compile(r"[\w\])}]\._data\b(?!(\s*,\s*[\w.]+)*\s*=[^=])")
    found = {relative(path) for path in FILES if read.search(path.read_text())}
    assert found <= READS_SLOT
