"""Rules about numbers that are not finite: the first birth of one, and how far it went."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...core.ops.op import Partial
from ...explain.causes import INPUT, diagnose
from ...explain.finite import aligned, finite, first_bad
from ..document.forms import shown
from ..recording.recording import Event, Row
from .facts import Facts, summary
from .finding import Finding, Spread


def born_forward(facts: Facts) -> Iterator[Finding]:
    """Find a NaN or an infinity in a result: the operation that made the first one that leads there.

    What is computed and then not chosen (`where(x > 0, log(x), 0)`) does no harm and is not looked for.
    """
    for root in facts.recording.roots:
        if not facts.is_finite(root.value):
            yield _forward(facts, _birth(facts, root))
            return


def _has_nan(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return any(map(_has_nan, value))
    if value is None or np.asarray(value).dtype.kind not in "fcV":
        return False
    return bool((value != value).any())


def _birth(facts: Facts, root: Row) -> Row:
    """Go up from a result, along operands that are as bad as it is, to where there are none."""
    bad = _has_nan if _has_nan(root.value) else (lambda value: not facts.is_finite(value))
    row, seen = root, {root}
    while True:
        worse = [o for o in facts.operands(row) if o not in seen and o.value is not None and bad(o.value)]
        if not worse:
            return row
        row = min(worse, key=lambda o: o.index if o.index >= 0 else facts.rows.index(o))
        seen.add(row)


def _forward(facts: Facts, row: Row) -> Finding:
    what = "NaN" if _has_nan(row.value) else "infinity"
    spread = _spread(facts)
    if row.op is None:
        name = facts.name(row)
        return Finding(
            "nonfinite-input", "error", f"{what} came with {name}", facts.where(row), row, "forward",
            facts.source(row), f"It was there before anything ran: {_share(row.value)} of {name} are not finite.",
            INPUT.rewrite, spread=spread,
        )  # fmt: skip
    at = first_bad(row.value)
    operands = [_operand(row, i, at) for i in range(len(row.operands))]
    number = _element(row.value, at)
    infinite = any(not facts.is_finite(o.value) for o in facts.operands(row))
    cause = diagnose(row.op, operands, number, False, infinite)
    labels = list(row.op.params) if not row.op.variadic else [f"operand {i}" for i in range(len(operands))]
    values = [o.value if o is not None else row.literals.get(i) for i, o in enumerate(row.operands)]
    rows = [[label, *summary(value)] for label, value in zip(labels, values) if value is not None]
    rule = "nan-forward" if what == "NaN" else "infinity-forward"
    numbers = ", ".join(f"{label} = {_short(n)}" for label, n in zip(labels, operands) if n is not None)
    return Finding(
        rule, "error", f"{what} born going forward" if what == "NaN" else "infinity born going forward",
        facts.where(row), row, "forward", facts.source(row), f"{cause.text[:1].upper()}{cause.text[1:]}.",
        cause.rewrite, {"index": list(at or ())},
        (["", "min", "max", "bad"], [*rows, ["result", *summary(row.value)]]),
        (f"{row.op.name}({', '.join(labels)})", f"{numbers} gives {_short(number)}") if numbers else None, spread,
    )  # fmt: skip


def born_backward(facts: Facts) -> Iterator[Finding]:
    """Find a NaN or an infinity in a gradient, where the results are finite: the step that made the first one."""
    if any(not facts.is_finite(root.value) for root in facts.recording.roots):
        return
    if all(facts.is_finite(row.gradient) for row in facts.rows if row.op is None):
        return
    for event in facts.backward:
        if facts.is_finite(_arrived(event)):
            wrong = [i for i, g in event.row.left.items() if not facts.is_finite(g)]
            if wrong:
                yield _backward(facts, event, wrong[0])
                return


def _arrived(event: Event) -> Any:
    return event.row.gradient


def _backward(facts: Facts, event: Event, slot: int) -> Finding:
    row = event.row
    assert row.op is not None
    left = row.left[slot]
    at = first_bad(left)
    number = _element(left, at)
    what = "NaN" if _has_nan(left) else "infinity"
    slope = _slope(event, slot)
    cause = diagnose(row.op, [], number, True)
    table = [["arriving", *summary(_arrived(event))]]
    if slope is not None:
        table.append(["local slope", *summary(slope)])
    table.append(["leaving", *summary(left)])
    evidence: dict[str, Any] = {"index": list(at or ()), "slot": slot}
    text = f"{cause.text[:1].upper()}{cause.text[1:]}."
    formula = None
    if slope is not None and at is not None:
        arriving, steep = _element(_arrived(event), at), _element(slope, at)
        if arriving == 0:
            text += " Where nothing arrives the product 0 × ∞ is not 0 but NaN."
        formula = (_slope_formula(row, slot), f"{_short(arriving)} × {_short(steep)} = {_short(number)}")
    return Finding(
        "nan-backward" if what == "NaN" else "infinity-backward", "error", f"{what} born going back",
        facts.where(row), row, "backward", facts.source(row), text, cause.rewrite, evidence,
        (["", "min", "max", "bad"], table), formula, _spread(facts),
    )  # fmt: skip


def _slope(event: Event, slot: int) -> Any:
    """Return the local derivative at every element, by the op's own rule; None where it has none of that kind."""
    row, pulled = event.row, event.pulled
    if row.op is None or pulled is None or row.op.joint is not None or row.op.kind != "elementwise":
        return None
    fact = row.op.fact(slot)
    if not isinstance(fact, Partial) or not isinstance(pulled.saved, tuple):
        return None
    with np.errstate(all="ignore"):
        slope = fact.pull(_arrived(event), pulled.saved, pulled.node, slot)
    shape = np.shape(_arrived(event))
    return np.broadcast_to(slope, shape) if np.ndim(slope) <= len(shape) else None


def _slope_formula(row: Row, slot: int) -> str:
    """Return the slope as it is written, times g: what arrives."""
    assert row.op is not None
    words = shown(row.op, len(row.operands), row.literals)
    local = words.local[slot] if slot < len(words.local) else ""
    if not local:
        return f"g · ∂{row.op.name}"
    names = "xyzuvw"
    out = words.form or row.op.name
    for i in range(len(row.operands)):
        out = out.replace(f"{{{i}}}", names[i % 6])
        local = local.replace(f"{{{i}}}", names[i % 6])
    return f"g · {local.replace('{out}', out)}"


def _spread(facts: Facts) -> Spread:
    values = [row for row in facts.rows if row.op is not None and row.value is not None]
    gradients = [row for row in facts.parameters if row.gradient is not None]
    return Spread(
        sum(not facts.is_finite(row.value) for row in values), len(values),
        sum(not facts.is_finite(row.gradient) for row in gradients), len(gradients),
    )  # fmt: skip


def _operand(row: Row, i: int, at: tuple[int, ...] | None) -> Any:
    """Return the number of operand i that met at an element of the result; None where no single one did."""
    operand = row.operands[i]
    value = operand.value if operand is not None else row.literals.get(i)
    if value is None or isinstance(value, (tuple, list)) or at is None:
        return None
    array = np.asarray(value)
    if array.size == 1:
        return array.reshape(()).item()
    elementwise = row.op is not None and row.op.kind == "elementwise"
    return array[aligned(array.shape, at)].item() if elementwise and array.ndim <= len(at) else None


def _element(value: Any, at: tuple[int, ...] | None) -> Any:
    if isinstance(value, (tuple, list)):
        value = next((v for v in value if first_bad(v) is not None), value[0])
    array = np.asarray(value)
    return array[at].item() if at is not None and len(at) == array.ndim else None


def _share(value: Any) -> str:
    wrong = int((~finite(value)).sum())
    return f"{wrong:,} of {np.size(value):,} elements"


def _short(number: Any) -> str:
    if isinstance(number, float):
        if number != number:
            return "NaN"
        if number in (np.inf, -np.inf):
            return "∞" if number > 0 else "−∞"
        return f"{number:.4g}".replace("-", "−")
    return str(number)
