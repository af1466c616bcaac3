"""The reference of public modules, written from their documentation while the site is built.

A hook of MkDocs. A line `::: wengert.nn` of a page in `docs/reference` becomes everything that the module's `__all__`
names: signatures with the types of the stubs, documentation, examples, methods. References in documentation
(:func:`wengert.grad`) become links. `tests/project/test_reference.py` holds that no public name is left out.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
import types
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [p for p in (str(ROOT / "src"), str(ROOT / "scripts")) if p not in sys.path]

import numpy as np  # noqa: E402
from stubs import Stub, signature  # noqa: E402

import wengert as wg  # noqa: E402
from wengert.core.ops.op import TABLE, Op  # noqa: E402

PAGES = ROOT / "docs" / "reference"
DIRECTIVE = re.compile(r"^::: (wengert[\w.]*)$", re.MULTILINE)
ROLE = re.compile(r":\w+:`~?([^`]+)`")
SPECIAL = re.compile(r"([\\*_<\[\]|#])")
# The length from which on a signature has a line for each parameter.
WIDE = 88


# -- where names are described


@functools.cache
def described() -> dict[str, str]:
    """Every public name with a description, by its dotted path, and the page that has it."""
    found: dict[str, str] = {}
    for page in sorted(PAGES.glob("*.md")):
        for module in DIRECTIVE.findall(page.read_text(encoding="utf-8")):
            found[module] = page.name
            for name, value in members(module).items():
                found[f"{module}.{name}"] = page.name
                if inspect.isclass(value) and module != "wengert.torch":
                    found |= {f"{module}.{name}.{method}": page.name for method in methods(value)}
    return found


def resolved(module: str) -> Any:
    """A public module by the path that users write."""
    return functools.reduce(getattr, module.split(".")[1:], wg)


def members(module: str) -> dict[str, Any]:
    """What a module's `__all__` names, but for submodules and names with underscores."""
    loaded = resolved(module)
    values = {name: getattr(loaded, name) for name in sorted(loaded.__all__, key=str.lower) if not name.startswith("_")}
    if module == "wengert.torch":
        values = {name: value for name, value in values.items() if name not in wg.__all__}
    return {name: value for name, value in values.items() if not isinstance(value, types.ModuleType)}


def methods(cls: type) -> dict[str, Any]:
    """A class's own public methods and properties that are documented."""
    own = {**vars(cls)}
    found = {}
    for name, value in sorted(own.items()):
        target = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        if not name.startswith("_") and inspect.isroutine(target) and inspect.getdoc(target):
            found[name] = value
    return found


# -- documentation as Markdown


def plain(text: str) -> str:
    """A line of text in which only what stands in backticks is markup."""
    parts = re.split(r"(`[^`]*`|\[`[^`]*`\]\([^)]*\))", text)
    return "".join(part if i % 2 else SPECIAL.sub(r"\\\1", part) for i, part in enumerate(parts))


def linked(text: str, module: str) -> str:
    """Text with its references as links to where the name is described."""

    def link(match: re.Match[str]) -> str:
        target = match[1]
        for path in (target, f"{module}.{target}", f"wengert.{target}"):
            if path in described():
                return f"[`{target.removeprefix('wengert.')}`]({described()[path]}#{path})"
        return f"`{target.rpartition('.')[2]}`"

    return ROLE.sub(link, text)


def markdown(doc: str, module: str) -> str:
    """A docstring as Markdown: its paragraphs, parameters as a list, examples as sessions."""
    out: list[str] = []
    lines = doc.splitlines()
    listing = False
    i = 0
    while i < len(lines):
        line = lines[i]
        if i + 1 < len(lines) and line and re.fullmatch(r"-{3,}", lines[i + 1]):
            out += [f"**{line}**", ""]
            listing = True
            i += 2
            continue
        if line.lstrip().startswith(">>>"):
            block = []
            while i < len(lines) and lines[i].strip():
                block.append(lines[i])
                i += 1
            out += ["", "```pycon", *inspect.cleandoc("\n".join(block)).splitlines(), "```", ""]
            listing = False
            continue
        if listing and line.strip():
            item = re.match(r"([*\w, ]+): (.*)", line)
            body = plain(linked(line.strip() if item is None else item[2], module))
            names = "" if item is None else ", ".join(f"`{n.strip()}`" for n in item[1].split(","))
            out.append(f"- {names}: {body}" if item else f"    {body}")
        elif line.startswith("    "):
            block = []
            while i < len(lines) and (lines[i].startswith("    ") or not lines[i].strip()):
                block.append(lines[i])
                i += 1
            out += ["", "```text", *inspect.cleandoc("\n".join(block)).splitlines(), "```", ""]
            continue
        else:
            listing = listing and not line.strip() and i + 1 < len(lines) and bool(re.match(r"\w+: ", lines[i + 1]))
            out.append(plain(linked(line, module)))
        i += 1
    return "\n".join(out)


def called(name: str, value: Any, method: bool = False) -> str:
    """A signature as a block of code, the types as the stubs have them."""
    try:
        shown = signature(Stub("wengert"), name, value, method)
    except (TypeError, ValueError, SyntaxError):
        return ""
    shown = re.sub(r"\b_(Bool|Complex|Float|Int|Str)\b", lambda m: m[1].lower(), shown)
    if method:
        shown = re.sub(r"^\(self(?:, )?", "(", shown)
    text = f"{name}{shown}".removesuffix(" -> None") if name[0].isupper() else f"{name}{shown}"
    if len(text) > WIDE:
        inside, result = re.fullmatch(r"\((.*)\)(.*?)", text[len(name) :], re.DOTALL).groups()  # type: ignore[union-attr]
        text = f"{name}(\n" + "".join(f"    {part},\n" for part in split(inside)) + f"){result}"
    return f"```python\n{text}\n```\n"


def split(parameters: str) -> list[str]:
    """Parameters one by one: at commas that stand in no brackets."""
    parts, depth = [""], 0
    for c in parameters:
        depth += (c in "[({") - (c in "])}")
        if c == "," and not depth:
            parts.append("")
        else:
            parts[-1] += c
    return [part.strip() for part in parts]


# -- pages


def entry(module: str, name: str, value: Any) -> str:
    """The description of one public name."""
    path = f"{module}.{name}"
    head = f"### {plain(name)} {{ #{path} }}\n\n"
    if inspect.isclass(value):
        described_class = head + (called(name, value.__init__, True) if "__init__" in vars(value) else "")
        body = markdown(inspect.getdoc(value) or "", module)
        return described_class + body + "\n\n" + "".join(method(path, module, n, m) for n, m in methods(value).items())
    if callable(value) and inspect.getdoc(value) and not isinstance(value, types.GenericAlias):
        doc = markdown(inspect.getdoc(value) or "", module)
        return head + called(name, value) + "\n" + doc + (example(path, value) if ">>>" not in doc else "") + "\n\n"
    return head + f"`{value!r}`\n\n"


@functools.cache
def _ops() -> dict[int, Op]:
    return {id(op.front): op for op in TABLE.values() if op.kind == "elementwise" and op.samples is not None}


def example(path: str, value: Any) -> str:
    """A call of an elementwise function with two numbers of its op's samples, and what it gives; "" of any other."""
    op = _ops().get(id(value))
    if op is None:
        return ""
    call = next(c for c in op.samples(np.random.default_rng(1)) if all(np.size(a) >= 2 for a in c.args))  # type: ignore[misc]
    few = [np.ravel(a)[:2] for a in call.args]
    few = [a.round(2) if a.dtype.kind in "fc" else a for a in few]
    shown = ", ".join(f"wg.tensor({a.tolist()})" for a in few)
    result = repr(value(*(wg.tensor(a.tolist()) for a in few)))
    name = path.removeprefix("wengert.")
    return f"\n\n```pycon\n>>> import wengert as wg\n>>> wg.{name}({shown})\n{result}\n```\n"


def method(path: str, module: str, name: str, value: Any) -> str:
    """The description of a method or property."""
    head = f"#### {plain(path.rpartition('.')[2])}.{plain(name)} {{ #{path}.{name} }}\n\n"
    if isinstance(value, property):
        return head + markdown(inspect.getdoc(value) or "", module) + "\n\n"
    target = getattr(value, "__func__", value)
    return (
        head
        + called(name, target, not isinstance(value, staticmethod))
        + markdown(inspect.getdoc(target) or "", module)
        + "\n\n"
    )


def reference(module: str) -> str:
    """Everything public in a module, as Markdown."""
    loaded = resolved(module)
    out = [f"## {module} {{ #{module} }}\n\n", markdown(inspect.getdoc(loaded) or "", module), "\n\n"]
    found = members(module)
    if module == "wengert.torch":
        spellings = {name: same for name, value in found.items() if (same := elsewhere(value))}
        out.append("| here | is |\n| --- | --- |\n")
        out += [
            f"| `{name}`{{ #{module}.{name} }} | [`{path.removeprefix('wengert.')}`]({described()[path]}#{path}) |\n"
            for name, path in spellings.items()
        ]
        out.append("\n")
        found = {name: value for name, value in found.items() if name not in spellings}
    return "".join([*out, *(entry(module, name, value) for name, value in found.items())])


@functools.cache
def _places() -> dict[int, str]:
    places: dict[int, str] = {}
    for path in described():
        module, _, name = path.rpartition(".")
        if module in described() and module != "wengert.torch" and not path.startswith("wengert.torch"):
            found = members(module).get(name) if module in _modules() else None
            if found is not None:
                places.setdefault(id(found), path)
    return places


def _modules() -> set[str]:
    return {m for page in PAGES.glob("*.md") for m in DIRECTIVE.findall(page.read_text(encoding="utf-8"))}


def elsewhere(value: Any) -> str:
    """The dotted path under which something that `wengert.torch` has is described; "" where only there."""
    return _places().get(id(value), "")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """MkDocs: put the descriptions where the page asks for them."""
    if not page.file.src_uri.startswith("reference/"):
        return markdown
    return DIRECTIVE.sub(lambda m: reference(m[1]), markdown)
