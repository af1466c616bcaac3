"""Rules about training: gradients left over, parameters that nothing uses or moves, steps that are too large."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import CodeType

import numpy as np

from ...core.source import Source, resolve
from ...explain.report import size as shown_size
from .cuts import listed
from .facts import Facts, floating, rms
from .finding import Finding

# A step that changes a weight by more than this part of its size.
GREAT_STEP = 1.0
# ... or by more than this, over the root of its inputs' number: a tenth of what weights usually begin with.
SMALL_START = 0.1


def unused(facts: Facts) -> Iterator[Finding]:
    """Find parameters that no operation uses, of a model of which others are used.

    A model or a tensor that takes no part at all may be there for something else, and what had a gradient in another
    step of the program has its turn then. Of a list of like parts some may be chosen by the data, as experts are.
    """
    recording = facts.recording
    if not facts.backward or not recording.roots:
        return
    touched, learned = recording.touched, recording.learned
    used = [n for n, t in recording.parameters if t.node in touched or id(t._array) in touched]
    owners = {_owner(name) for name in used}
    known = set(used) | {n for n, t in recording.parameters if t.node in learned}
    names = [n for n, _ in recording.parameters if n not in known and _owner(n) in owners and _owner(n) != n]
    chosen = {_LISTED.sub("#", name) for name in used}
    for idle in (False, True):
        found = [name for name in names if (_LISTED.sub("#", name) in chosen) == idle]
        if not found:
            continue
        shown = ", ".join(found[:5]) + (", ..." if len(found) > 5 else "")
        title = f"{found[0]} is never used" if len(found) == 1 else f"{len(found)} parameters are never used"
        like = " Others of its list are: perhaps these are not chosen in this step." if idle else ""
        yield Finding(
            "unused-parameter", "note" if idle else "warning", title, shown, recording.roots[0], "forward", None,
            f"No operation takes {shown}: it costs memory, and training leaves it as it is.{like}",
            "use it in forward(), or leave the layer out of the model", {"names": shown, "count": len(found)},
        )  # fmt: skip


# The number of a part of a list, as in `experts.3.weight` and `layers[3].weight`.
_LISTED = re.compile(r"(?<=[.\[])\d+(?=[.\]])")


def _owner(name: str) -> str:
    """Return the beginning of a path: `model` of `model.layers[0].weight`."""
    return re.split(r"[.\[]", name, maxsplit=1)[0]


def still(facts: Facts) -> Iterator[Finding]:
    """Find parameters with gradients that no optimiser has, while it moves others.

    What another optimiser of the program has is moved in its turn; a leaf that was made when the optimisers were there
    already, as an input whose gradient is asked for, is none of their parameters.
    """
    if not facts.updated:
        return
    known = facts.updated | facts.recording.passing
    rows = [row for row in facts.parameters if row not in known and row.node not in facts.recording.optimized]
    rows = [row for row in rows if rms(row.gradient)]
    if rows:
        names = listed(facts, rows)
        verb, has = ("is", "has a gradient") if len(rows) == 1 else ("are", "have gradients")
        yield Finding(
            "not-updated", "warning", f"{names} {verb} never updated", facts.where(rows[0]), rows[0], "optimizer",
            _place(facts.recording.optimizer_at) or facts.source(rows[0]),
            f"{names} {has}, but no optimiser knows of {'it' if len(rows) == 1 else 'them'}.",
            "give the optimiser all parameters: opt = wg.optim.Adam(model.parameters())", {"count": len(rows)},
        )  # fmt: skip


def _place(called: tuple[CodeType, int] | None) -> Source | None:
    """Return the user's line of a call."""
    return None if called is None else resolve(*called)


def left_over(facts: Facts) -> Iterator[Finding]:
    """Find updates by more than this step's gradient: an earlier one still stood there at the step's first pass.

    What is done to gradients between a pass and the update (clipping, noise, hooks) is nobody's fault.
    """
    for event in facts.recording.events:
        updated, row = event.updated, event.row
        if updated is None or row.node not in facts.recording.standing:
            continue
        name = facts.name(row)
        yield Finding(
            "left-over-gradient", "error", "gradients of earlier steps are added", facts.where(row), row, "optimizer",
            _place(facts.recording.standing_at) or facts.source(row),
            f"When the backward pass came to {name}, it had the gradient of an earlier step, and the optimiser moved "
            "it by the sum of both.",
            "call opt.zero_grad() before loss.backward()",
            {"used": rms(updated.gradient) or 0.0, "own": rms(row.gradient) or 0.0},
        )  # fmt: skip
        return


def great_steps(facts: Facts) -> Iterator[Finding]:
    """Find steps of the optimiser that change a weight by more than its own size."""
    for event in facts.recording.events:
        updated = event.updated
        if updated is None or event.row.spec is None or len(event.row.spec.shape) < 2:
            continue
        before, after = floating(updated.before), floating(updated.after)
        if before is None or after is None or not (own := rms(before)):
            continue
        # A parameter that started at zero, or near it, is to grow.
        size = max(own, SMALL_START / float(before.shape[-1]) ** 0.5)
        moved = rms(after.astype(np.float64) - before)
        if moved is not None and moved > GREAT_STEP * size:
            name = facts.name(event.row)
            yield Finding(
                "great-step", "warning", f"one step moves {name} by {moved / own:.3g} times its size",
                facts.where(event.row), event.row, "optimizer", _place(updated.called) or facts.source(event.row),
                f"{name} has the root mean square {own:.2g}, and this step changes it by {moved:.2g}.",
                "a smaller learning rate, or wg.nn.utils.clip_grad_norm_ before opt.step()", {"ratio": moved / own},
            )  # fmt: skip
            return


# The optimiser's state is worth a note from so many bytes on, where it is larger than the parameters by this factor.
STATE, STATE_RATIO = 1_000_000, 1.5


def great_state(facts: Facts) -> Iterator[Finding]:
    """Find optimisers whose state takes more memory than the parameters that they move."""
    state = facts.recording.state_bytes
    moved = {row for row in facts.updated if row.spec is not None}
    own = sum(row.spec.size * np.dtype(row.spec.dtype).itemsize for row in moved)
    if not moved or state < STATE or state < STATE_RATIO * own:
        return
    row = max(moved, key=lambda row: row.spec.size)
    yield Finding(
        "optimizer-state", "note", f"the optimiser keeps {shown_size(state)}", facts.where(row), row, "optimizer",
        facts.source(row),
        f"Its state takes {state / own:.3g} times the memory of the parameters that it moves ({shown_size(own)}).",
        "wg.optim.Adafactor or wg.optim.AdamW8bit, or SGD with momentum, which keeps one number for each",
        {"bytes": state, "parameters": own},
    )  # fmt: skip
