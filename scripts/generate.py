"""Write what is derived: of the op table type stubs, the pages of operations and support; pages that tests are made of.

python scripts/generate.py            # write
python scripts/generate.py --check    # exit 1 if a file is out of date
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from libraries_page import page as libraries_page  # noqa: E402
from onnx_column import onnx_cell  # noqa: E402
from playbook import playbook  # noqa: E402
from pytorch_page import page as pytorch_page  # noqa: E402
from stubs import method_stubs, module_stubs, special_stubs, torch_stubs  # noqa: E402
from support import support_page  # noqa: E402
from tests.crossings.refusals import page as crossings_page  # noqa: E402
from tests.special_points.page import page as special_points_page  # noqa: E402

from wengert.core.ops.autocast import wanted_precision  # noqa: E402
from wengert.core.ops.declare import HOMES, PUBLIC  # noqa: E402
from wengert.core.ops.facets import Role  # noqa: E402
from wengert.core.ops.op import NOT_DIFFERENTIABLE, TABLE, Linear, Missing, NoDerivative, Op, Partial, Route, Vjp  # noqa: E402
from wengert.numpy.creation import MADE  # noqa: E402
from wengert.ops.numpy_protocol import known, known_ufunc  # noqa: E402

BARE = {"leaf", "input", "alias", "output", "constant", "parameter"}


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
        "After this page you know what each operation computes, how it is differentiated, against what it is tested, "
        "and what it becomes in ONNX.\n",
        "Every operation is declared once, and this page is written from the declarations. For each "
        "argument the table says how its derivative is known: an elementwise *partial*; *linear*, with "
        "its transpose; a *route*, which passes gradient where a mask holds; a *vjp*; a *joint rule* for all "
        "arguments; or *none*, if the result does not depend on the argument differentiably. All "
        "derivatives can be differentiated again. *fused* composites run as one node with a derivative of their "
        "own; the others run as their parts and are one node in graphs. The last column is what the exporter to "
        "[ONNX](onnx.md) writes: operators in their order, *by its parts* where a composite is opened first, or why it "
        "is not written.\n",
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
    public = sorted(f"{HOMES[n]}.{n}" if n in HOMES else n for n in PUBLIC)
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
    if getattr(op.reference, "__module__", "") == "wengert.ops.formulas":
        oracle = "its formula"
    signature_text = op.signature.replace("|", "\\|")
    return f"| `{signature_text}` | {doc} | {arguments} | {dtypes} | {oracle} | {onnx_cell(op)} |"


# -- the lists of the page on precision


def precision_page() -> str:
    """The page as it stands, with the lists of ops written anew."""
    text = (ROOT / "docs/precision.md").read_text()
    start, end = (text.index(f"<!-- {mark}: ops -->") for mark in ("begin", "end"))
    ops = [op for op in TABLE.values() if op.name not in BARE and op.kind != "control"]

    def listed(belongs: Callable[[Op], bool]) -> str:
        return ", ".join(f"`{op.name}`" for op in sorted(ops, key=lambda op: op.name) if belongs(op))

    def promotes(op: Op) -> bool:
        several = op.role is Role.JOIN or (op.kind == "elementwise" and list(op.roles.values()).count("same") > 1)
        return several and wanted_precision(op) is None and op.accepts not in ("bitwise", "logical")

    parts = (
        ("In the lower precision", listed(lambda op: wanted_precision(op) == "lower")),
        ("In float32", listed(lambda op: wanted_precision(op) == "float32")),
        ("In the widest precision of their operands, as always", listed(promotes)),
    )
    written = "\n\n".join(f"**{title}**: {names}." for title, names in parts)
    rest = "All others compute in the precision of their operand."
    return f"{text[:start]}<!-- begin: ops -->\n\n{written}\n\n{rest}\n\n{text[end:]}"


# -- the names of the page on NumPy


def numpy_page() -> str:
    """The page as it stands, with the lists of functions written anew."""
    text = (ROOT / "docs/numpy.md").read_text()
    start, end = (text.index(f"<!-- {mark}: names -->") for mark in ("begin", "end"))
    written = []
    for title, module in (("numpy", np), ("numpy.linalg", np.linalg), ("numpy.fft", np.fft)):
        names = [name for name in sorted(module.__all__) if _is_wengerts(getattr(module, name))]
        written.append(f"**{title}** ({len(names)}): {', '.join(f'`{name}`' for name in names)}.")
    return f"{text[:start]}<!-- begin: names -->\n\n" + "\n\n".join(written) + f"\n\n{text[end:]}"


def _is_wengerts(found: Any) -> bool:
    if isinstance(found, np.ufunc):
        return known_ufunc(found) is not None
    return callable(found) and not isinstance(found, type) and (found in _MADE or known(found) is not None)


# What has no tensor among its arguments to ask is made of what it is given.
_MADE = {getattr(np, name) for name in MADE}


FILES: dict[str, Callable[[], str]] = {
    "src/wengert/core/_methods.pyi": method_stubs,
    "src/wengert/__init__.pyi": module_stubs,
    "src/wengert/special.pyi": special_stubs,
    "src/wengert/torch/__init__.pyi": torch_stubs,
    "docs/operations.md": operations_page,
    "docs/support.md": support_page,
    "docs/crossings.md": crossings_page,
    "docs/special-points.md": special_points_page,
    "docs/pytorch-names.md": pytorch_page,
    "docs/your-libraries.md": libraries_page,
    "docs/precision.md": precision_page,
    "docs/numpy.md": numpy_page,
    "explorer/src/engine/play.json": playbook,
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
