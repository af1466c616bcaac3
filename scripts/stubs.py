"""Type stubs of what is made while the package is imported: `wengert`, its tensors' methods, and `wengert.torch`.

The functions come from the op table and from decorated definitions, which type checkers cannot follow. Each stub is
its signature, with what a parameter's name says where the definition leaves it open (`x` is a tensor or what can
become one), its defaults and the first paragraph of its documentation.
"""

from __future__ import annotations

import ast
import inspect
import re
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import wengert as wg
from wengert.core.ops.declare import METHODS

SOURCE = Path(wg.__file__).parent
HEADER = "# Written by scripts/generate.py from the op table: do not edit.\n"
# A tensor has methods called `int`, `float` and `bool`, the module has a dtype of that name.
BUILTINS = "from builtins import bool as _Bool, complex as _Complex, float as _Float, int as _Int, str as _Str\n"
RENAMED = {"bool": "_Bool", "complex": "_Complex", "float": "_Float", "int": "_Int", "str": "_Str"}

# What parameters are whose definitions say Any, by their names: those that all functions use in one sense.
BY_NAME = {
    "TensorLike": "x y x1 x2 input target weight bias value src source query mask attn_mask condition probs "
    "pos_weight indices prepend append fill_value start stop step end hard soft p xs arrays operands other alpha "
    "a b data index min max scale",
    "DTypeLike | None": "dtype",
    "_Str | None": "device",
    "RandomKey | None": "key",
    "Axes": "axes shape dims sizes args",
}
KINDS = {name: kind for kind, names in BY_NAME.items() for name in names.split()}
# Those that mean something else in some functions.
EXCEPTIONS = {
    ("scaled_dot_product_attention", "key"): "TensorLike",
    ("__getitem__", "index"): "Any",
    ("__setitem__", "index"): "Any",
    ("randint", "args"): "_Int | Axes",
    ("to", "args"): "Any",
    ("astype", "dtype"): "DTypeLike",
    ("checkpoint_name", "name"): "_Str",
}
# PyTorch's keywords beside a function's own (see `ops/aliases.py`).
ALIASES = {"dim": "Axes | None", "keepdim": "_Bool", "dims": "Axes | None"}
# How annotations of the sources are written here.
SPELLED = {"Axis": "Axes", "Axes": "Axes", "Size": "Size", "Shape": "tuple[int, ...]", "DType": "np.dtype[Any]"}
PLAIN = {*RENAMED, "Any", "None", "Literal", "Sequence", "Callable", "Tensor", "tuple", "list"}


class Stub:
    """One stub file in the making: its lines, and the imports that its annotations need."""

    def __init__(self, package: str) -> None:
        self.package = package
        self.imports: set[str] = set()
        self.lines: list[str] = []

    def text(self) -> str:
        known = "from collections.abc import Callable, Sequence\nfrom typing import Any, Literal\n\n"
        known += "import numpy as np\n\n"
        return HEADER + BUILTINS + known + "".join(sorted(self.imports)) + "\n" + "".join(self.lines)

    def use(self, name: str, module: str) -> None:
        """Import a name for annotations alone, which is no name of the module."""
        self.imports.add(f"from {self.relative(module)} import {name}\n")

    def relative(self, module: str) -> str:
        """A module of the package as seen from this stub."""
        inside = module.removeprefix("wengert").removeprefix(".")
        depth = self.package.count(".") + 1
        return "." * depth + inside

    def function(self, name: str, fn: Callable[..., Any], indent: str = "", method: bool = False) -> None:
        shown = signature(self, name, fn, method)
        doc = summary(fn, indent + "    ")
        self.lines.append(f"{indent}def {name}{shown}:{doc} ...\n" if not doc else f"{indent}def {name}{shown}:\n{doc}")


def summary(fn: Callable[..., Any], indent: str) -> str:
    """The first paragraph of a function's documentation, as a stub's docstring."""
    doc = inspect.getdoc(fn)
    if not doc:
        return ""
    lines = doc.split("\n\n")[0].split("\n")
    text = "\n".join([lines[0], *(indent + line if line else "" for line in lines[1:])])
    quote = 'r"""' if "\\" in text else '"""'
    return f'{indent}{quote}{text}"""\n'


def annotation(stub: Stub, value: Any, fn: Callable[..., Any]) -> str:
    """An annotation's text, its names imported into the stub; Any where it has none."""
    if value is inspect.Parameter.empty:
        return "Any"
    text = value if isinstance(value, str) else getattr(value, "__name__", "Any")
    names = {n.id for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Name)}
    target = inspect.unwrap(fn)
    for name in sorted(names - PLAIN):
        found = getattr(target, "__globals__", {}).get(name)
        if name in SPELLED:
            text = rename(text, {name: SPELLED[name]})
        elif isinstance(found, type) and found.__module__.startswith("wengert"):
            stub.use(name if found.__name__ == name else f"{found.__name__} as {name}", found.__module__)
        else:
            return "Any"
    return rename(text, RENAMED)


def rename(text: str, names: dict[str, str]) -> str:
    """An annotation with names replaced, strings inside left as they are."""
    tree = ast.parse(text, mode="eval")

    class Replace(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            new = names.get(node.id)
            return node if new is None else ast.parse(new, mode="eval").body

    return ast.unparse(Replace().visit(tree))


def parameter(stub: Stub, name: str, p: inspect.Parameter, fn: Callable[..., Any]) -> str:
    """One parameter's annotation and default."""
    kind = annotation(stub, p.annotation, fn)
    if kind == "Any":
        kind = EXCEPTIONS.get((name, p.name)) or KINDS.get(p.name, "Any")
    elif kind == "Sequence[Any]":
        kind = "Sequence[TensorLike]"
    if p.default is p.empty:
        return f"{p.name}: {kind.removesuffix(' | None') if p.annotation == 'Any' else kind}"
    if p.default is None and "None" not in kind and kind != "Any":
        kind += " | None"
    default = repr(p.default) if is_literal(p.default) else "..."
    return f"{p.name}: {kind} = {default}"


def is_literal(value: Any) -> bool:
    """Whether a default can be written as it is: an infinity or NaN cannot."""
    if isinstance(value, float):
        return value - value == 0.0
    return value is None or type(value) in (bool, int, str)


def signature(stub: Stub, name: str, fn: Callable[..., Any], method: bool) -> str:
    """A function's parameters and result as a stub writes them."""
    found = inspect.signature(fn)
    parameters = list(found.parameters.values())
    parts: list[str] = []
    starred = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    for i, p in enumerate(parameters):
        if method and i == 0:
            parts.append("self")
            continue
        if p.kind is p.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        prefix = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        parts.append(prefix + parameter(stub, name, p, fn))
        last_positional = i + 1 == len(parameters) or parameters[i + 1].kind is not p.POSITIONAL_ONLY
        if p.kind is p.POSITIONAL_ONLY and last_positional:
            parts.append("/")
    own = inspect.signature(fn, follow_wrapped=False).parameters
    for alias in (n for n, p in own.items() if p.kind is p.KEYWORD_ONLY and n not in found.parameters):
        if not starred:
            parts.append("*")
            starred = True
        parts.append(f"{alias}: {ALIASES.get(alias, 'Any')} = ...")
    returns = found.return_annotation
    # Reflected and in-place operators are written to give any result of their op.
    operator = method and (name in COMPARISONS or re.match(r"__[ir](?!ter__|nvert__|ndex__|nt__|epr__)", name))
    if operator or returns is inspect.Signature.empty:
        result = "Tensor"
    else:
        result = annotation(stub, returns, fn)
    return f"({', '.join(parts)}) -> {result}"


COMPARISONS = {"__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"}


def method_stubs() -> str:
    """`core/_methods.pyi`: the methods that op modules give to tensors."""
    stub = Stub("wengert.core")
    stub.use("Tensor", "wengert.core.tensor")
    for kind in ("Axes", "DTypeLike", "Size", "TensorLike"):
        stub.use(kind, "wengert.typing")
    stub.use("RandomKey", "wengert.ops.random.keys")
    stub.lines.append("class Methods:\n")
    for name, fn in sorted({**METHODS, "backward": wg.Tensor.backward, "explore": wg.Tensor.explore}.items()):
        if name == "shape":
            continue  # the class has it
        if isinstance(fn, property):
            stub.lines.append(f"    @property\n    def {name}(self) -> Tensor: ...\n")
            continue
        before = len(stub.lines)
        stub.function(name, fn, "    ", method=True)
        if name in ("__eq__", "__ne__"):
            stub.lines[before] = stub.lines[before].replace("-> Tensor:", "-> Tensor:  # type: ignore[override]", 1)
    return stub.text()


def module_stubs() -> str:
    """`wengert/__init__.pyi`: what its file imports, what it loads lazily, and the functions of the op table."""
    stub = Stub("wengert")
    for kind in ("Axes", "DTypeLike", "Size", "TensorLike"):
        stub.use(kind, "wengert.typing")
    stub.use("RandomKey", "wengert.ops.random.keys")
    shown = []
    for node in ast.parse((SOURCE / "__init__.py").read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.level:
            module = "." * node.level + (node.module or "")
            names = [a.asname or a.name for a in node.names]
            shown += [f"from {module} import {n} as {n}\n" for n in names if not n.startswith("_")]
    shown += [f"from . import {module} as {module}\n" for module in sorted(wg._LAZY_MODULES)]
    shown += [f"from {module} import {name} as {name}\n" for name, module in sorted(wg._LAZY_NAMES.items())]
    stub.lines += shown
    stub.lines.append("\nbfloat16: np.dtype[Any]\nbool: np.dtype[Any]\n")
    for name in sorted(wg._CONSTANTS):
        kind = {float: "_Float", str: "_Str", type(None): "None"}[type(wg._CONSTANTS[name])]
        stub.lines.append(f"{name}: {kind}\n")
    for name in sorted(wg._FUNCTIONS):
        stub.function(name, wg._FUNCTIONS[name])
    return stub.text()


def torch_stubs() -> str:
    """`wengert/torch/__init__.pyi`: PyTorch's names, and those of `wengert` that it has as they are."""
    torch = wg.torch
    stub = Stub("wengert.torch")
    for kind in ("Axes", "DTypeLike", "Size as _Size", "TensorLike"):
        stub.use(kind, "wengert.typing")
    stub.use("RandomKey", "wengert.ops.random.keys")
    lines = []
    for name in torch.__all__:
        value = getattr(torch, name)
        if isinstance(value, types.ModuleType):
            own = value.__name__ == f"wengert.torch.{name}"
            lines.append(f"from {'.' if own else '..'} import {name} as {name}\n")
        elif getattr(wg, name, None) is value and name in wg.__all__:
            lines.append(f"from .. import {name} as {name}\n")
        elif isinstance(value, np.dtype):
            lines.append(f"{name}: np.dtype[Any]\n")
        elif isinstance(value, type) and value.__module__.startswith("wengert"):
            lines.append(f"from {stub.relative(value.__module__)} import {value.__name__} as {name}\n")
        elif isinstance(value, (types.FunctionType, types.BuiltinFunctionType)):
            before = len(stub.lines)
            stub.function(name, value)
            # Here `Size` is PyTorch's class.
            lines += [re.sub(r": Size\b", ": _Size", line) for line in stub.lines[before:]]
            del stub.lines[before:]
        elif value is None or type(value) in (bool, int, float, str):
            lines.append(f"{name}: {RENAMED.get(type(value).__name__, 'None')}\n")
        else:
            lines.append(f"{name}: Any\n")
    # Imports first, as linters want them.
    stub.lines += sorted(line for line in lines if line.startswith("from "))
    stub.lines += ["\n", *(line for line in lines if not line.startswith("from "))]
    return stub.text()


def special_stubs() -> str:
    """`wengert/special.pyi`: front doors of ops, and functions of their own."""
    stub = Stub("wengert")
    stub.use("Tensor", "wengert.core.tensor")
    for kind in ("Axes", "DTypeLike", "Size", "TensorLike"):
        stub.use(kind, "wengert.typing")
    for name in wg.special.__all__:
        stub.function(name, getattr(wg.special, name))
    return stub.text()
