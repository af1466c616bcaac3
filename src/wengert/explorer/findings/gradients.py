"""Rules about gradients: missing, vanishing, exploding, left over; parameters that nothing uses or moves."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from ...core.arrays import Array
from ...core.node import Node
from ..recording import Row
from .facts import Facts, floating, rms
from .finding import Finding

# A weight's gradient that is this much smaller (larger) than that of the weight nearest to the loss.
VANISHING, EXPLODING = 1e-5, 1e4
# ... and at least this many times as large as the weight itself.
TOO_STEEP = 100.0
# Fewer weights than this are not deep.
DEEP = 3
# A step that changes a weight by more than this part of its size.
GREAT_STEP = 1.0


def missing(facts: Facts) -> Iterator[Finding]:
    """A parameter that the program uses and no gradient reaches; those that are cut off at one place together."""
    if not facts.backward:
        return
    cut_off: dict[tuple[Row, Row] | None, list[Row]] = {}
    idle: list[Row] = []
    for row in facts.parameters:
        if row.gradient is not None or not facts.consumers.get(row) or _is_anothers(facts, row):
            continue
        if row in facts.behind_roots:
            cut_off.setdefault(_cut(facts, row), []).append(row)
        else:
            idle.append(row)
    for cut, rows in cut_off.items():
        names = _listed(facts, rows)
        before, at = cut if cut is not None else (rows[0], rows[0])
        leak = facts.leak(before.value)
        how = f"{leak.what}() at {facts.place(leak)} cuts the way" if leak is not None else "the way is cut"
        if cut is not None:
            how += f" before {facts.name(at)} at {facts.source(at)}"
        yield Finding(
            "missing-gradient", "error", f"no gradient reaches {names}", facts.where(at), at, "backward",
            (facts.place(leak) if leak is not None else None) or facts.source(at),
            f"The loss is computed from {names}, but {how}: what it takes there does not carry gradients.",
            "leave out detach(), item(), numpy() and no_grad() on that way; wg.explain.missing(w, f) tells more",
            {"count": len(rows)},
        )  # fmt: skip
    if idle and facts.recording.roots:
        names = _listed(facts, idle)
        yield Finding(
            "missing-gradient", "warning", f"no gradient for {names}", facts.where(idle[0]), idle[0], "backward",
            facts.source(idle[0]),
            f"The program computes with {names}, but the loss does not depend on what comes out.",
            "leave the computation out, or let the loss depend on it", {"count": len(idle)},
        )  # fmt: skip


def _is_anothers(facts: Facts, row: Row) -> bool:
    """Whether optimisers took steps, but none of a parameter: it belongs to another part of the training, or is fixed.

    A discriminator's step takes what the generator made, and a student's what the teacher said, without gradients.
    """
    stepped = facts.recording.stepped
    return bool(stepped) and row.node not in stepped


def _listed(facts: Facts, rows: list[Row]) -> str:
    names = [facts.name(row) for row in rows]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _cut(facts: Facts, row: Row) -> tuple[Row, Row] | None:
    """On the way to a result, the last row with gradients and the operation that takes its value without them."""
    seen = {row}
    queue = [row]
    for here in queue:
        for user, slot in facts.consumers.get(here, ()):
            if user not in facts.behind_roots:
                continue
            entry = user.node.inputs[slot] if user.node is not None and slot < len(user.node.inputs) else None
            if user.op is not None and not (isinstance(entry, Node) and entry.requires_grad):
                return here, user
            if user not in seen:
                seen.add(user)
                queue.append(user)
    return None


def unused(facts: Facts) -> Iterator[Finding]:
    """Parameters that no operation uses, of a model of which others are used.

    A model or a tensor that takes no part at all may be there for something else.
    """
    if not facts.backward or not facts.recording.roots:
        return
    nodes = {row.node for row in facts.rows if row.node is not None}
    used = {_owner(name) for name, tensor in facts.recording.parameters if tensor.node in nodes}
    names = [n for n, t in facts.recording.parameters if t.node not in nodes and _owner(n) in used and _owner(n) != n]
    if names:
        shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
        title = f"{names[0]} is never used" if len(names) == 1 else f"{len(names)} parameters are never used"
        root = facts.recording.roots[0]
        yield Finding(
            "unused-parameter", "warning", title, shown, root, "forward", None,
            f"No operation takes {shown}: it costs memory, and training leaves it as it is.",
            "use it in forward(), or leave the layer out of the model", {"names": shown, "count": len(names)},
        )  # fmt: skip


def _owner(name: str) -> str:
    """What a path begins with: `model` of `model.layers[0].weight`."""
    return re.split(r"[.\[]", name, maxsplit=1)[0]


def still(facts: Facts) -> Iterator[Finding]:
    """Parameters with gradients that no optimiser has, while it moves others.

    What another optimiser of the program has is moved in its turn; a leaf that was made when the optimisers were there
    already, as an input whose gradient is asked for, is none of their parameters.
    """
    if not facts.updated:
        return
    known = facts.updated | facts.recording.passing
    rows = [row for row in facts.parameters if row not in known and row.node not in facts.recording.optimized]
    rows = [row for row in rows if rms(row.gradient)]
    if rows:
        names = _listed(facts, rows)
        verb, has = ("is", "has a gradient") if len(rows) == 1 else ("are", "have gradients")
        yield Finding(
            "not-updated", "warning", f"{names} {verb} never updated", facts.where(rows[0]), rows[0], "optimizer",
            facts.source(rows[0]), f"{names} {has}, but no optimiser knows of {'it' if len(rows) == 1 else 'them'}.",
            "give the optimiser all parameters: opt = wg.optim.Adam(model.parameters())", {"count": len(rows)},
        )  # fmt: skip


def left_over(facts: Facts) -> Iterator[Finding]:
    """An update by more than this step's gradient: those of earlier steps were still there."""
    if facts.recording.passes != 1:
        return  # several passes in one step are meant to add up
    for event in facts.recording.events:
        updated, row = event.updated, event.row
        if updated is None or row.gradient is None or updated.gradient is None:
            continue
        used, own = floating(updated.gradient), floating(row.gradient)
        if used is None or own is None or used.shape != own.shape or not np.isfinite(own).all():
            continue
        size = float(np.abs(own).max())
        # Clipping scales, weight decay adds a multiple of the parameter: neither is what is meant here.
        if _is_scaled(used, own) or float(np.abs(used - own).max()) <= 1e-3 * size:
            continue
        name = facts.name(row)
        yield Finding(
            "left-over-gradient", "error", "gradients of earlier steps are added", facts.where(row), row, "optimizer",
            facts.source(row),
            f"The optimiser moved {name} by a gradient that is not this step's: it was not set to zero before.",
            "call opt.zero_grad() before loss.backward()",
            {"used": rms(used) or 0.0, "own": rms(own) or 0.0},
        )  # fmt: skip
        return


def _is_scaled(a: Array, b: Array) -> bool:
    """Whether one is a multiple of the other, to rounding."""
    x, y = a.astype(np.float64).reshape(-1), b.astype(np.float64).reshape(-1)
    norm = float(y @ y)
    if norm == 0:
        return not x.any()
    return float(np.abs(x - (x @ y) / norm * y).max()) <= 1e-3 * float(np.abs(x).max())


def depth(facts: Facts) -> Iterator[Finding]:
    """Gradients of weights that shrink, or grow, by orders of magnitude from the loss to the input."""
    weights = [row for row in facts.parameters if row.spec is not None and len(row.spec.shape) >= 2 and row.name]
    sized = [(row, size) for row in weights if (size := rms(row.gradient)) is not None and np.isfinite(size)]
    order = {row: i for i, row in enumerate(facts.rows)}
    sized.sort(key=lambda pair: min((order[user] for user, _ in facts.consumers.get(pair[0], ())), default=0))
    if len(sized) < DEEP or sized[-1][1] == 0:
        return
    (first, small), (last, large) = sized[0], sized[-1]
    if small == 0 and any(not rms(row.value) for row, _ in sized):
        return  # behind weights that start at zero, as a last layer or an adapter may; a step later it gets through
    evidence = {"ratio": small / large, "first": small, "last": large}
    if small < VANISHING * large:
        yield Finding(
            "vanishing-gradient", "warning", f"gradients vanish before {facts.name(first)}", facts.where(first), first,
            "backward", facts.source(first),
            f"From {facts.name(last)} to {facts.name(first)} the gradient shrinks from {large:.2g} to {small:.2g} "
            f"(root mean square): the first layers hardly learn.",
            "ReLU or GELU for sigmoid or tanh, a normalisation, residual connections, or a start with larger weights",
            evidence,
        )  # fmt: skip
    elif small > EXPLODING * large and small > TOO_STEEP * (rms(first.value) or 1.0):
        yield Finding(
            "exploding-gradient", "warning", f"gradients explode towards {facts.name(first)}", facts.where(first),
            first, "backward", facts.source(first),
            f"From {facts.name(last)} to {facts.name(first)} the gradient grows from {large:.2g} to {small:.2g} "
            f"(root mean square).",
            "wg.nn.utils.clip_grad_norm_ before opt.step(), smaller weights at the start, or a normalisation",
            evidence,
        )  # fmt: skip


def great_steps(facts: Facts) -> Iterator[Finding]:
    """A step of the optimiser that changes a weight by more than its own size."""
    for event in facts.recording.events:
        updated = event.updated
        if updated is None or event.row.spec is None or len(event.row.spec.shape) < 2:
            continue
        before, after = floating(updated.before), floating(updated.after)
        if before is None or after is None or not (size := rms(before)):
            continue
        moved = rms(after.astype(np.float64) - before)
        if moved is not None and moved > GREAT_STEP * size:
            name = facts.name(event.row)
            yield Finding(
                "great-step", "warning", f"one step moves {name} by {moved / size:.3g} times its size",
                facts.where(event.row), event.row, "optimizer", facts.source(event.row),
                f"{name} has the root mean square {size:.2g}, and this step changes it by {moved:.2g}.",
                "a smaller learning rate, or wg.nn.utils.clip_grad_norm_ before opt.step()", {"ratio": moved / size},
            )  # fmt: skip
            return
