"""The one module that imports JAX: what it says where there is none, and that it is the only one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import wengert as wg
from wengert.execute.xla import api


def test_the_error_without_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr(api, "import_module", absent)
    api._imported.cache_clear()
    with pytest.raises(wg.GraphError, match=r'engine="xla" needs jax .* No module named') as caught:
        api._Module("jax").jit
    assert "pip install 'wengert[xla]'" in str(caught.value)
    api._imported.cache_clear()


def test_one_module_imports_jax() -> None:
    package = Path(wg.__file__).parent
    found = [
        str(p.relative_to(package))
        for p in package.rglob("*.py")
        if re.search(r"^\s*(import|from) jax\b|_Module\(\"jax", p.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert found == [str(Path("execute/xla/api.py"))]
