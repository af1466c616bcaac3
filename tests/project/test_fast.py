"""The fast subset touches every module: `pytest -m fast` calls a function of each."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "wengert"
# What only reads a user's configuration of the process, or runs as another process alone.
ELSEWHERE = {
    "__main__.py": "is run by `python -m wengert`, in another process",
    "deploy/emitter.py": "makes an object, in another process",
    "deploy/templates/load.py": "is copied to where it runs",
    "distribute/__main__.py": "is one rank of a job, in another process",
    "distribute/engines/mpi.py": "is one rank of a job, in another process",
    "explain/transfers.py": "needs jax, which is no part of the tests' environment",
    "torch/distributions/__init__.py": "runs its function when it is imported, before any test",
    "torch/__main__.py": "is run by `python -m wengert.torch`, in another process",
    "torch/renaming.py": "is run by `python -m wengert.torch`, in another process",
}


# What needs packages that are no part of the tests' environment: jax, nutpie, PyMC, PyTensor.
EXTRAS = ("execute/xla/", "interop/jax.py", "interop/nutpie.py", "interop/pymc.py", "interop/pytensor/")


def is_only_declared(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether a function has no body: it is a protocol's, an overload, or a package's list of names."""
    last = function.body[-1]
    is_empty = isinstance(last, ast.Expr) and isinstance(last.value, ast.Constant)
    return is_empty or function.name in ("__dir__", "__getattr__")


def modules_with_functions() -> set[str]:
    found = set()
    for path in PACKAGE.rglob("*.py"):
        defined = [
            n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
        if not all(map(is_only_declared, defined)):
            found.add(path.relative_to(PACKAGE).as_posix())
    return found


def test_fast_tests_exist() -> None:
    """A renamed file or test would leave the subset without a word."""
    text = (ROOT / "tests" / "conftest.py").read_text()
    (declared,) = (
        node.value
        for node in ast.parse(text).body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == "FAST"
    )
    assert declared is not None
    for name, tests in ast.literal_eval(declared).items():
        file = (ROOT / "tests" / f"{name}.py").read_text()
        missing = [t for t in tests if not re.search(rf"^def {re.escape(t.partition('[')[0])}\(", file, re.MULTILINE)]
        assert missing == [], name


def test_tests_asked_seldom_exist() -> None:
    """A renamed test would ask all its cases every time, without a word."""
    text = (ROOT / "tests" / "conftest.py").read_text()
    (declared,) = (
        node.value
        for node in ast.parse(text).body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == "SELDOM"
    )
    assert declared is not None
    for test in ast.literal_eval(declared):
        name, _, function = test.partition("::")
        assert f"\ndef {function}(" in (ROOT / "tests" / f"{name}.py").read_text(), test


@pytest.mark.slow
def test_fast_tests_call_every_module(tmp_path: Path) -> None:
    called = tmp_path / "called"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", "fast", "-p", "no:cacheprovider", "-p", "called"],
        cwd=ROOT,
        env={**os.environ, "CALLED_MODULES": str(called), "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests/helpers'}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    missed = modules_with_functions() - set(called.read_text().splitlines()) - set(ELSEWHERE)
    assert sorted(name for name in missed if not name.startswith(EXTRAS)) == []
