"""The support matrix: every op of the table against every kind of derivative.

A cell is what the declarations say, and each mark has a generated test behind it (named in the page);
`tests/ops/test_op_table.py` fails where a cell has neither a mark nor a reason.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests" / "helpers")]

import complexchecks  # noqa: E402
import wengert.transforms.control  # noqa: E402, F401 (declares the ops of control flow)
from opchecks import calls, checked_ops  # noqa: E402
from wengert.core.ops.facets import Role  # noqa: E402
from wengert.core.ops.op import NOT_DIFFERENTIABLE, Linear, NoDerivative, Op  # noqa: E402
from wengert.execute.xla import lower as _lower  # noqa: E402, F401 (declares the rules)
from wengert.execute.xla.rules import RULES  # noqa: E402
from wengert.symbolic.bridge import sympy_of  # noqa: E402
from wengert.transforms.batch import rules as batch_rules  # noqa: E402
from wengert.transforms.batch import vmap as batch  # noqa: E402

YES = "yes"
# Its results are piecewise constant, or no numbers: explained above the table.
CONSTANT = "none"
# Why no number of the forward function can be compared with their derivative: it is another one, on purpose.
NOT_OF_THE_VALUE = "yes, by its own tests: the derivative is not that of the value"
FIRST_ONLY = {
    "scale_gradient": NOT_OF_THE_VALUE,
    "clip_gradient": NOT_OF_THE_VALUE,
    "clip_gradient_norm": NOT_OF_THE_VALUE,
    "straight_through": NOT_OF_THE_VALUE,
    "i1e_ratio": "yes, by the tests of special points: its second argument follows from the first",
    "attention_gradients": "yes, by the tests of attention's second derivatives",
    **dict.fromkeys(
        ("random_loggamma", "random_loggamma_at"),
        "yes, by its own tests: differences need more digits than draws have",
    ),
}


def first_order(op: Op) -> str:
    if op.differentiable:
        return YES
    if op.body is not None:
        return "by its parts"
    if op.kind == "source":
        return "no arguments"
    reasons = {f.why for f in op.facts if isinstance(f, NoDerivative) and f.why != NOT_DIFFERENTIABLE}
    return f"none: {'; '.join(sorted(reasons))}" if reasons else CONSTANT


def second_order(op: Op) -> str:
    if not op.differentiable:
        return first_order(op)
    return YES if max(c.order for c in calls(op)) >= 2 else FIRST_ONLY.get(op.name, "")


def batching(op: Op) -> str:
    if op.kind == "source":
        return "by `randomness=`"
    if op.name in batch_rules.RULES or op.name in batch.CONTROL:
        return "own rule"
    if "batching" in op.facets:
        return {"body": "by its parts", "alone": "example by example"}[op.facets["batching"]]
    return "aligned, else by its parts" if op.kind == "composite" and len(op.params) > 1 else "aligned"


def symbolic(op: Op) -> str:
    if op.kind == "elementwise":
        make = sympy_of(op)
        return make if isinstance(make, str) and op.body is None else YES
    return "by its parts" if op.body is not None else "of arrays: no scalar expression"


def sparsity(op: Op) -> str:
    if not op.differentiable:
        return first_order(op)
    if "dependence" in op.facets or op.kind == "control":
        return "own rule"
    if op.kind == "elementwise" or op.role in (Role.PASS, Role.BY_ELEMENT):
        return "diagonal"
    if op.body is not None:
        return "by its parts"
    if op.kind == "linear" and len(op.params) > 1 and "->" in op.layout:
        return "by its labels"
    if (
        op.joint is None
        and all(f.selects for f in op.facts if isinstance(f, Linear))
        and isinstance(op.fact(0), Linear)
    ):
        return "probed"
    return "blocks along its axes" if "->" in op.layout or "axis" in op.attr_names else "all on all"


def complex_numbers(op: Op) -> str:
    if not op.differentiable:
        return first_order(op)
    if op.name in complexchecks.UP_TO_PHASES:
        return "yes, up to phases"
    if any(complexchecks.takes_complex(op, call) for call in calls(op)):
        return YES
    return "real numbers only"


def on_xla(op: Op) -> str:
    if "collective" in op.facets:
        return "on a mesh: its ranks are devices"
    return YES if op.name in RULES else "by its parts"


COLUMNS: Mapping[str, Callable[[Op], str]] = {
    "jvp, vjp": first_order,
    "jvp of vjp, vjp of vjp": second_order,
    "vmap, vmap of vjp": batching,
    "symbolic": symbolic,
    "sparsity": sparsity,
    "complex": complex_numbers,
    "XLA": on_xla,
}


def matrix() -> dict[str, dict[str, str]]:
    """Cells by op and column."""
    ops = sorted(checked_ops(), key=lambda op: op.name)
    return {op.name: {title: cell(op) for title, cell in COLUMNS.items()} for op in ops}


def support_page() -> str:
    found = matrix()
    out = [
        "# Support\n",
        "<!-- Written by scripts/generate.py from the op table: do not edit. -->\n",
        "After this page you know whether an operation can be differentiated, batched, compiled by XLA or written as a "
        "formula.\n",
        "Each cell follows from the op's declaration, and tests run it: first and second order in "
        "`tests/ops/test_op_table.py` and `tests/transforms/test_forward.py` (against differences, forward against "
        "reverse, recorded and traced), batching in `tests/transforms/test_batch.py` (against a Python loop), "
        "expressions in `tests/symbolic/test_symbolic.py`, patterns in `tests/transforms/test_sparsity.py` (against "
        "Jacobians), complex numbers in `tests/transforms/test_complex.py`, XLA in "
        "`tests/execute/xla/test_op_table.py` (every sample in every dtype, against the interpreter).\n",
        "*None*: results are piecewise constant, or not numbers, and nothing flows. *By its parts*: the operation is a "
        "composite, and the transform applies to what is inside. *Aligned*: it counts axes from the right and takes "
        "the examples as one more leading axis. *Probed*: the pattern is found by running the operation on numbered "
        "elements. *On the host*: the compiled program calls Python back for it.\n",
        f"| op | {' | '.join(COLUMNS)} |",
        "| --- |" + " --- |" * len(COLUMNS),
    ]
    out += [f"| `{name}` | {' | '.join(cells.values())} |" for name, cells in found.items()]
    return "\n".join(out) + "\n"
