"""The reference describes every public name, and what it refers to is there."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import api_reference
import pytest

import wengert as wg

PAGES = sorted(api_reference.PAGES.glob("*.md"), key=lambda p: p.name)


def expanded(page: Path) -> str:
    return api_reference.DIRECTIVE.sub(lambda m: api_reference.reference(m[1]), page.read_text(encoding="utf-8"))


def public() -> set[str]:
    """Every public name by its dotted path, in `wengert` and the public modules in it."""
    found = set()
    modules = [("wengert", wg)]
    while modules:
        path, module = modules.pop()
        for name in module.__all__:
            value = getattr(module, name)
            if isinstance(value, ModuleType):
                # Of PyTorch's namespaces the page of PyTorch's names tells, of NumPy's the page of its programs.
                if not path.startswith("wengert.torch") and name != "numpy":
                    modules.append((f"{path}.{name}", value))
            elif not name.startswith("_"):
                found.add(f"{path}.{name}")
    return found


def test_every_public_name_is_described() -> None:
    torch = {f"wengert.torch.{name}" for name in wg.__all__}  # described where `wengert` has them
    assert public() - set(api_reference.described()) - torch == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_links_lead_to_descriptions(page: Path) -> None:
    text = expanded(page)
    anchors = re.findall(r"\{ #(\S+) \}", text)
    assert len(anchors) == len(set(anchors))
    wrong = [t for t in re.findall(r"\]\(\w+\.md#([^)]+)\)", text) if t not in api_reference.described()]
    assert wrong == []
    mine = {name for name, where in api_reference.described().items() if where == page.name}
    assert mine <= set(anchors)


def test_a_docstring_as_markdown() -> None:
    text = """The sum of *xs* and x_1; see :func:`wengert.grad` and :func:`nothing`.

Parameters
----------
xs: numbers, `x * y` too,
    several.
axis, dim: which.

>>> 1 + 1
2

After it."""
    assert api_reference.markdown(text, "wengert").split("\n") == [
        r"The sum of \*xs\* and x\_1; see [`grad`](wengert.md#wengert.grad) and `nothing`.",
        "",
        "**Parameters**",
        "",
        "- `xs`: numbers, `x * y` too,",
        "    several.",
        "- `axis`, `dim`: which.",
        "",
        "",
        "```pycon",
        ">>> 1 + 1",
        "2",
        "```",
        "",
        "",
        "After it.",
    ]
