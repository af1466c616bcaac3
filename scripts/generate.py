"""Write what is derived: type stubs, the pages of operations and support, of the op table; the page of crossings.

python scripts/generate.py            # write
python scripts/generate.py --check    # exit 1 if a file is out of date
"""

from __future__ import annotations

import argparse
import ast
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from support import support_page  # noqa: E402
from tests.crossings.refusals import page as crossings_page  # noqa: E402

import wengert as wg  # noqa: E402
from wengert.core.ops.declare import METHODS, PUBLIC  # noqa: E402
from wengert.core.ops.op import NOT_DIFFERENTIABLE, TABLE, Linear, Missing, NoDerivative, Op, Partial, Route, Vjp  # noqa: E402

BARE = {"leaf", "input", "alias", "output", "constant", "parameter"}


# -- stubs


def signature(name: str, fn: Callable[..., Any], method: bool) -> str:
    """One stub line; annotations that a stub cannot see become Any."""
    target = inspect.unwrap(fn)
    try:
        parameters = list(inspect.signature(fn).parameters.values())
        returns = inspect.signature(fn).return_annotation
    except (TypeError, ValueError):
        return f"def {name}(*args: Any, **kwargs: Any) -> Any: ..."
    generated = getattr(target, "__module__", "") == "wengert"
    parts: list[str] = []
    seen_slash = seen_star = False
    for i, p in enumerate(parameters):
        if p.kind is p.KEYWORD_ONLY and not seen_star:
            if not any(q.kind is q.VAR_POSITIONAL for q in parameters):
                parts.append("*")
            seen_star = True
        prefix = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        if p.kind is p.VAR_POSITIONAL:
            seen_star = True
        if method and i == 0:
            parts.append("self")
        else:
            default = "" if p.default is p.empty else " = ..."
            parts.append(f"{prefix}{p.name}: {annotation(p.annotation)}{default}")
        positional_next = i + 1 < len(parameters) and parameters[i + 1].kind is p.POSITIONAL_ONLY
        if p.kind is p.POSITIONAL_ONLY and not positional_next and not seen_slash and not (method and i == 0):
            parts.append("/")
            seen_slash = True
    result = "Tensor" if generated else annotation(returns)
    return f"def {name}({', '.join(parts)}) -> {result}: ..."


_KNOWN = {"Tensor", "Any", "int", "float", "bool", "str", "complex", "None", "tuple", "list", "Sequence", "Generator"}


def annotation(value: Any) -> str:
    """An annotation's text where all its names are known in the stub, else Any."""
    if value is inspect.Parameter.empty:
        return "Any"
    text = value if isinstance(value, str) else getattr(value, "__name__", "Any")
    try:
        names = {n.id for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Name)}
    except SyntaxError:
        return "Any"
    return text.replace("bool", "_Bool").replace("int", "_Int").replace("float", "_Float") if names <= _KNOWN else "Any"


HEADER = "# Written by scripts/generate.py from the op table: do not edit.\n"
PRELUDE = """from collections.abc import Sequence
from typing import Any

"""
# A tensor has methods called `int`, `float` and `bool`, and the module dtypes.
BUILTINS = "from builtins import bool as _Bool, float as _Float, int as _Int\n"


def method_stubs() -> str:
    lines = [HEADER, BUILTINS, PRELUDE]
    lines.append("from .tensor import Tensor\n\nclass Methods:\n")
    for name, fn in sorted(METHODS.items()):
        if isinstance(fn, property):
            lines.append(f"    @property\n    def {name}(self) -> Tensor: ...\n")
            continue
        lines.append(f"    {signature(name, fn, method=True)}\n")
    return "".join(lines).replace("Generator", "Any")


def module_stubs() -> str:
    source = (ROOT / "src/wengert/__init__.py").read_text()
    lines = [HEADER, BUILTINS, PRELUDE, "import numpy as np\n\nfrom .ops.random.generator import Generator\n"]
    for node in ast.parse(source).body:
        if isinstance(node, ast.ImportFrom) and node.level:
            for alias in node.names:
                shown = alias.asname or alias.name
                if not shown.startswith("_"):
                    module = "." * node.level + (node.module or "")
                    lines.append(f"from {module} import {alias.name} as {shown}\n")
    for module in sorted(wg._LAZY_MODULES):
        lines.append(f"from . import {module} as {module}\n")
    for name, module in sorted(wg._LAZY_NAMES.items()):
        lines.append(f"from {module} import {name} as {name}\n")
    lines.append("\nbfloat16: np.dtype[Any]\nbool: np.dtype[Any]\n")
    for name, value in sorted(vars(wg).items()):
        if isinstance(value, np_dtype()) and name not in ("bool", "bfloat16") and f" as {name}\n" not in "".join(lines):
            lines.append(f"{name}: np.dtype[Any]\n")
        elif type(value) is float:
            lines.append(f"{name}: _Float\n")
    lines.append("newaxis: None\n\n" if hasattr(wg, "newaxis") else "\n")
    for name, fn in sorted(PUBLIC.items()):
        lines.append(signature(name, fn, method=False) + "\n")
    return "".join(lines)


def np_dtype() -> type:
    return type(wg.float32)


# -- the operations page


def derivative(op: Op, index: int) -> str:
    """What the table says about one argument, as the page's matrix shows it."""
    if op.joint is not None:
        return "joint rule"
    fact = op.fact(index)
    words = {Partial: "partial", Route: "route", Linear: "linear", Vjp: "vjp"}
    if type(fact) in words:
        return words[type(fact)]
    if isinstance(fact, Missing):
        return f"**missing**: {fact.why}"
    assert isinstance(fact, NoDerivative)
    if op.kind == "composite" and not op.differentiable:
        return "by its parts"
    return "none" if fact.why == NOT_DIFFERENTIABLE else f"none: {fact.why}"


def operations_page() -> str:
    out = [
        "# Operations\n",
        "<!-- Written by scripts/generate.py from the op table: do not edit. -->\n",
        "Every operation is declared once, and this page is written from the declarations. For each "
        "argument the matrix says what is known of its derivative: an elementwise *partial*; *linear*, with "
        "its transpose; a *route*, which passes gradient where a mask holds; a *vjp*; a *joint rule* for all "
        "arguments; or *none*, where the result does not depend on the argument differentiably. All "
        "derivatives can be differentiated again. *fused* composites run as one node with a derivative of their "
        "own; the others run as their parts and are one node in graphs.\n",
    ]
    families = {
        "Elementwise": lambda op: op.kind == "elementwise",
        "Structure, reduction, indexing, contraction": lambda op: op.kind in ("linear", "general"),
        "Sources": lambda op: op.kind == "source",
        "Composites": lambda op: op.kind == "composite",
        "Control flow": lambda op: op.kind == "control",
    }
    for title, belongs in families.items():
        ops = sorted((op for op in TABLE.values() if belongs(op) and op.name not in BARE), key=lambda op: op.name)
        out.append(f"## {title} ({len(ops)})\n")
        out.append("| op | what it computes | derivative by argument | dtypes | checked against | ONNX |")
        out.append("| --- | --- | --- | --- | --- | --- |")
        for op in ops:
            out.append(row(op))
        out.append("")
    public = sorted(n for n in PUBLIC)
    out.append(f"## Public functions ({len(public)})\n")
    out.append("Everything that `wg.` offers on tensors; many are methods as well.\n")
    out.append(", ".join(f"`{n}`" for n in public) + "\n")
    return "\n".join(out)


def row(op: Op) -> str:
    arguments = "; ".join(f"{p}: {derivative(op, i)}" for i, p in enumerate(op.params)) or "none"
    doc = op.doc.split("\n")[0].replace("|", "\\|")
    if op.source:
        doc += f" ({op.source.replace('|', ' ')})"
    dtypes = op.accepts if op.kind == "elementwise" else ""
    if op.kind == "composite":
        dtypes = "fused" if op.differentiable else "by parts"
    oracle = op.reference if isinstance(op.reference, str) else "own oracle" if op.reference else "moments"
    onnx = op.onnx.why if isinstance(op.onnx, Missing) else op.onnx or ""
    signature_text = op.signature.replace("|", "\\|")
    return f"| `{signature_text}` | {doc} | {arguments} | {dtypes} | {oracle} | {onnx} |"


FILES: dict[str, Callable[[], str]] = {
    "src/wengert/core/_methods.pyi": method_stubs,
    "src/wengert/__init__.pyi": module_stubs,
    "docs/operations.md": operations_page,
    "docs/support.md": support_page,
    "docs/crossings.md": crossings_page,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="only say whether the files are up to date")
    args = parser.parse_args()
    stale = []
    for path, make in FILES.items():
        text = make()
        file = ROOT / path
        if not file.exists() or file.read_text() != text:
            stale.append(path)
            if not args.check:
                file.write_text(text)
    if args.check and stale:
        print("out of date:", ", ".join(stale), "\nrun: python scripts/generate.py")
        return 1
    if stale:
        print("wrote", ", ".join(stale))
    return 0


if __name__ == "__main__":
    sys.exit(main())
