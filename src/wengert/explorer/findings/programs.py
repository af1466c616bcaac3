"""Rules about how a program is written: units that never fire, losses of the wrong numbers, wasted work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...core.ops.facets import Role
from ...explain.dead_units import activation_slope
from ...explain.report import size
from ..recording.recording import Row
from .facts import Facts, floating, shows_elements
from .finding import Finding

# Units are looked at over at least so many samples; a slope below the threshold counts as none.
SAMPLES, THRESHOLD = 32, 1e-3
# The part of a layer's units that may be dead without anybody being told.
DEAD = 0.25
# Of fewer units than these a quarter is dead by chance; then it takes more.
NARROW, DEAD_OF_FEW = 16, 0.75
# Saved values that nothing reads are worth a warning from here (bytes).
WASTE = 1_000_000


def dead_units(facts: Facts) -> Iterator[Finding]:
    """Find layers of which many units have no slope for any sample; those at one line, as in a loop, together."""
    lines: dict[Any, list[tuple[float, int, int, int, Row]]] = {}
    for row in facts.rows:
        if row.op is not None and "activation" in row.op.facets and (found := _dead(row)) is not None:
            lines.setdefault((row.op.name, facts.source(row)), []).append((*found, row))
    for (name, source), layers in lines.items():
        share, dead, units, samples, row = max(layers, key=lambda layer: layer[0])
        dies = row.op is not None and row.op.facets.get("activation") == "dead"
        verb = "never fire" if dies else "are saturated"
        many = f"{len(layers)} × {name}: up to " if len(layers) > 1 else ""
        which = f"In the worst of these {len(layers)} layers {dead:,}" if len(layers) > 1 else f"{dead:,}"
        yield Finding(
            "dead-units", "warning", f"{many}{share:.0%} of units {verb}", facts.where(row), row, "forward", source,
            f"{which} of {units:,} units of this {name} have no slope for any of {samples:,} samples: no gradient "
            "passes them, and what feeds them does not learn.",
            "a smaller learning rate, another start (wg.nn.init.kaiming_normal_), a leaky ReLU or GELU, "
            "or a normalisation before it",
            {"share": share, "units": units, "dead": dead, "layers": len(layers)},
        )  # fmt: skip


def _dead(row: Row) -> tuple[float, int, int, int] | None:
    """Return the share of a layer's units that are dead, how many, of how many, over how many samples; None for few."""
    first = row.operands[0] if row.tracked and row.operands else None
    x = floating(first.value) if first is not None else None
    if first is None or x is None or row.op is None or x.ndim < 2 or not np.isfinite(x).all():
        return None
    axis = 1 if x.ndim >= 4 else x.ndim - 1
    units = x.shape[axis]
    if x.size // max(units, 1) < SAMPLES:
        return None
    bounds = [o.value if o is not None else row.literals.get(i) for i, o in enumerate(row.operands)][1:]
    slope = np.abs(activation_slope(row.op, [first.value, *bounds], row.attrs))
    dead = ~(slope > THRESHOLD).any(axis=tuple(i for i in range(x.ndim) if i != axis))
    share = float(dead.mean())
    few = DEAD if units >= NARROW else DEAD_OF_FEW
    return (share, int(dead.sum()), units, x.size // units) if share >= few else None


# The losses that take logits, by the functions that make probabilities.
_TWICE = {
    "softmax": {"cross_entropy", "log_softmax", "softmax"},
    "log_softmax": {"softmax"},
    "sigmoid": {"binary_cross_entropy_logits", "sigmoid"},
}
# The functions by which the logarithm of a squashed value, or of its elements, is better taken.
_FROM_LOGITS = "or wg.nn.functional.binary_cross_entropy_with_logits, which wants x"
_LOGARITHMS = {
    "softmax": "wg.log_softmax(x){chosen}, or wg.nn.functional.cross_entropy, which wants x",
    "sigmoid": f"wg.nn.functional.logsigmoid(x){{chosen}}, {_FROM_LOGITS}",
    "1 - sigmoid": f"wg.nn.functional.logsigmoid(-x){{chosen}}, {_FROM_LOGITS}",
}


def squashed_twice(facts: Facts) -> Iterator[Finding]:
    """Find probabilities where logits are wanted: softmax before cross_entropy, sigmoid before its loss."""
    for row in facts.rows:
        inner = row.operands[0] if row.op is not None and row.operands else None
        if inner is None or inner.op is None or row.op is None:
            continue
        if row.op.name in _TWICE.get(inner.op.name, ()):
            yield Finding(
                "squashed-twice", "warning", f"{inner.op.name} before {row.op.name}", facts.where(row), row, "forward",
                facts.source(row),
                f"{row.op.name} wants logits and gets the probabilities of {inner.op.name} at {facts.source(inner)}: "
                "it squashes them a second time, and gradients are small.",
                f"give {row.op.name} what {inner.op.name} is given",
            )  # fmt: skip


def unstable(facts: Facts) -> Iterator[Finding]:
    """Find the logarithm of a softmax or a sigmoid, or of elements of one: `log(softmax(x)[i])`."""
    for row in facts.rows:
        if row.op is None or row.op.name != "log" or not row.operands or not row.tracked:
            continue  # (a constant's logarithm is seen where it is infinite)
        inner, chosen = row.operands[0], ""
        while inner is not None and inner.op is not None and (shows_elements(inner.op) or inner.op.role is Role.PICK):
            chosen = "[i]" if inner.op.role is Role.PICK or inner.op.name == "slice" else chosen
            inner = inner.operands[0]
        if inner is None or inner.op is None:
            continue
        what, squashed = inner.op.name, inner
        if what == "subtract" and inner.literals == {0: 1.0} and (one := inner.operands[1]) is not None:
            what, squashed = f"1 - {one.op.name if one.op is not None else ''}", one
        if what in _LOGARITHMS:
            yield Finding(
                "unstable-form", "note", f"log of {what}", facts.where(row), row, "forward", facts.source(row),
                f"The {what} at {facts.source(squashed)} can round to 0, whose logarithm is −∞.",
                _LOGARITHMS[what].format(chosen=chosen),
            )  # fmt: skip


def spread_difference(facts: Facts) -> Iterator[Finding]:
    """Find `(n, 1) - (n,)`: every prediction against every target, where each was meant to meet its own."""
    for row in facts.rows:
        if row.op is None or row.op.name not in ("subtract", "equal") or row not in facts.behind_roots:
            continue
        shapes = [_own_shape(o) for o in row.operands]
        if len(shapes) != 2 or None in shapes:
            continue
        for a, b in (shapes, shapes[::-1]):
            if a is not None and b is not None and len(a) == len(b) + 1 and len(b) >= 1 and a[-1] == 1 and a[:-1] == b:
                n = b[-1]
                if n > 1:
                    yield Finding(
                        "spread-difference", "warning", f"{n} × {n} differences of {n} numbers", facts.where(row), row,
                        "forward", facts.source(row),
                        f"Shapes {_shown(a)} and {_shown(b)} meet: each of {n} values is compared with all {n} of the "
                        "others, not with its own.",
                        "give both one shape: pred.squeeze(-1) - target, or pred - target[:, None]",
                    )  # fmt: skip
                break


def _own_shape(row: Row | None) -> tuple[Any, ...] | None:
    """Return the shape before it was broadcast."""
    while row is not None and row.op is not None and row.op.name == "broadcast" and row.operands[0] is not None:
        row = row.operands[0]
    return tuple(row.spec.shape) if row is not None and hasattr(row.spec, "shape") else None


def _shown(shape: tuple[Any, ...]) -> str:
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


def unread(facts: Facts) -> Iterator[Finding]:
    """Find values kept for a backward pass that never came."""
    if not facts.backward:
        return
    seen = {e.row for e in facts.backward}
    read = {id(v) for row in seen for v in row.saved if isinstance(v, np.ndarray)}
    waste: dict[int, tuple[int, Row]] = {}
    for row in facts.rows:
        if row.op is None or row in seen or not row.tracked:
            continue
        for value in row.saved:
            if isinstance(value, np.ndarray) and value.base is None and id(value) not in read:
                waste.setdefault(id(value), (value.nbytes, row))
    leaves = {id(row.value) for row in facts.rows if row.op is None}
    kept = [pair for key, pair in waste.items() if key not in leaves]
    total = sum(nbytes for nbytes, _ in kept)
    if not kept:
        return
    row = max(kept, key=lambda pair: pair[0])[1]
    count = len(kept)
    # Where a program detaches what it has computed it says that gradients end there.
    meant = facts.detached.issuperset(row for _, row in kept)
    yield Finding(
        "unread-saved", "warning" if total >= WASTE and not meant else "note",
        f"{count} saved {'tensor is' if count == 1 else 'tensors are'} never read", facts.where(row), row, "backward",
        facts.source(row),
        f"{size(total)} are kept for a backward pass that does not come by: the loss does not depend on them.",
        "compute what needs no gradient under wg.no_grad()", {"bytes": total, "count": count},
    )  # fmt: skip
