"""Rules about depth: values and gradients that shrink or grow by orders of magnitude from layer to layer."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from ..recording.recording import Row
from .cuts import listed
from .facts import Facts, origin, rms
from .finding import Finding

# A weight's gradient that is this much smaller (larger) than that of the weight nearest to the loss.
VANISHING, EXPLODING = 1e-5, 1e4
# ... and at least this many times as large as the weight itself.
TOO_STEEP = 100.0
# Fewer weights than this are not deep.
DEEP = 3
# Values that are this many times as large as those of the first layer; without the largest of the steps there, too.
GROWN, GROWN_STEADILY = 1e4, 1e2
# A chain of single numbers is long where gradients shrink at so many of its operations, to less than half each time,
CHAIN = 8
# not by two of them alone, and for the activations in it where so many of these are.
SATURATING = 3


def depth(facts: Facts) -> Iterator[Finding]:
    """Find gradients of weights that shrink, or grow, by orders of magnitude from the loss to the input."""
    weights = [row for row in facts.parameters if row.spec is not None and len(row.spec.shape) >= 2 and row.name]
    sized = [(row, size) for row in weights if (size := rms(row.gradient)) is not None and np.isfinite(size)]
    sized.sort(key=lambda pair: min((facts.order[user] for user, _ in facts.consumers.get(pair[0], ())), default=0))
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


def exploding(facts: Facts) -> Iterator[Finding]:
    """Find values that grow by orders of magnitude from one layer to the next."""
    layers = [row for row in facts.rows if _is_layer(facts, row)]
    sized = [(row, size) for row in layers if (size := rms(row.value)) and np.isfinite(size)]
    if len(sized) <= DEEP:
        return
    largest = max(range(len(sized)), key=lambda i: sized[i][1])
    sizes = [size for _, size in sized[: largest + 1]]
    steps = [after / before for before, after in zip(sizes, sizes[1:])]
    grown = sizes[-1] / sizes[0]
    if len(steps) < DEEP or grown < GROWN or grown / max(steps) < GROWN_STEADILY:
        return
    small, (last, large) = sizes[0], sized[largest]
    yield Finding(
        "exploding-activation", "warning", f"values explode up to {facts.name(last)}", facts.where(last), last,
        "forward", facts.source(last),
        f"Over {largest + 1} layers the values grow from {small:.2g} to {large:.2g} (root mean square).",
        "smaller weights at the start (wg.nn.init.kaiming_normal_ has their size right), or a normalisation",
        {"ratio": grown, "first": small, "last": large, "layers": largest + 1},
    )  # fmt: skip


def _is_layer(facts: Facts, row: Row) -> bool:
    """Return whether an operation combines a value with a matrix of weights."""
    if row.op is None or row.op.kind == "elementwise" or not row.tracked or row not in facts.behind_roots:
        return False
    return any(len(w.spec.shape) >= 2 for o in facts.operands(row) if (w := origin(o)).kind == "param")


def vanishing_chain(facts: Facts) -> Iterator[Finding]:
    """Find gradients that shrink to nothing over a long chain of operations: of single numbers, or of tensors."""
    found = [*_single_chain(facts)] or ([] if any(depth(facts)) else [*_tensor_chain(facts)])
    yield from found


def _single_chain(facts: Facts) -> Iterator[Finding]:
    ends = [row for row in facts.recording.roots if _single(row)]
    base = max((size for row in ends if (size := rms(row.gradient)) is not None and np.isfinite(size)), default=0.0)
    leaves = [row for row in facts.rows if row.op is None and row.kind in ("param", "input") and _single(row)]
    sized = [(row, size) for row in leaves if (size := rms(row.gradient)) is not None and size < VANISHING * base]
    if not sized:
        return
    small = min(size for _, size in sized)
    steps = _largest_way(facts, next(row for row, size in sized if size == small))
    shrinking = _shrinking(steps)
    if shrinking:
        first, names = sized[0][0], listed(facts, [row for row, _ in sized])
        yield _vanished(facts, first, names, len(sized) > 1, shrinking, (base, small))


def _tensor_chain(facts: Facts) -> Iterator[Finding]:
    """Look at where chains of tensors begin: what an operation that takes leaves alone hands on, an initial state.

    Sizes of gradients of different tensors do not compare, as a mean over many makes each of them small: what counts is
    by how much each operation on the way scales what arrives. Those with smaller results, as means, are left out.
    """
    begun = [row for row in facts.rows if row.gradient is not None and not _single(row) and _begins(facts, row)]
    sized = [(row, size) for row in begun if (size := rms(row.gradient)) and np.isfinite(size)]
    if not sized:
        return
    first, small = min(sized, key=lambda pair: pair[1])
    way = _largest_way(facts, first)
    before = [first, *(row for _, row in way)]
    steps = [step for step, row in zip(way, before) if _elements(step[1]) >= _elements(row)]
    shrinking = _shrinking(steps)
    ratio = math.prod(step[0] for step in steps)
    if shrinking and ratio < VANISHING:
        name = facts.name(first) if first.op is None else f"the first {facts.name(first)} of a long chain"
        yield _vanished(facts, first, name, False, shrinking, (small / ratio if ratio else small, small))


def _elements(row: Row) -> int:
    return int(np.size(row.gradient)) if row.gradient is not None else 0


def _begins(facts: Facts, row: Row) -> bool:
    if row.op is None:
        return row.kind in ("param", "input") and (row.kind == "input" or len(row.spec.shape) < 2)
    return row.tracked and all(o.op is None or not o.tracked for o in facts.operands(row))


def _shrinking(steps: Sequence[tuple[float, Row]]) -> list[tuple[float, Row]]:
    """Return the operations that shrink a gradient to less than half; none where few do, or two do most of it."""
    found = sorted((step for step in steps if step[0] < 0.5), key=lambda step: step[0])
    steady = math.prod(ratio for ratio, _ in found[2:]) <= 1 / GROWN_STEADILY
    return found if len(found) >= CHAIN and steady else []


def _vanished(
    facts: Facts, first: Row, names: str, many: bool, shrinking: list[tuple[float, Row]], sizes: tuple[float, float]
) -> Finding:
    saturating = sum(row.op is not None and "activation" in row.op.facets for _, row in shrinking)
    base, small = sizes
    # What a program differentiates by is what it wants to move; the start of a chain may be meant to be forgotten.
    is_warning = saturating >= SATURATING and first.op is None
    return Finding(
        "vanishing-gradient", "warning" if is_warning else "note", f"gradients vanish before {names}",
        facts.where(first), first, "backward", facts.source(first),
        f"On the way back the gradient shrinks at {len(shrinking)} operations, from {base:.2g} to {small:.2g}: "
        f"{names if first.op is None else 'what it is made of'} hardly {'learn' if many else 'learns'}.",
        "ReLU or GELU for sigmoid or tanh, fewer steps, or residual connections: h = h + f(h)",
        {"ratio": small / base if base else 0.0, "steps": len(shrinking)},
    )  # fmt: skip


def _single(row: Row) -> bool:
    return row.spec is not None and not isinstance(row.spec, tuple) and row.spec.size == 1


def _largest_way(facts: Facts, leaf: Row) -> Sequence[tuple[float, Row]]:
    """Follow the largest gradients from a leaf to a result; return the factor of each operation on the way."""
    steps: list[tuple[float, Row]] = []
    row = leaf
    while users := [(user, slot) for user, slot in facts.consumers.get(row, ()) if slot in user.left]:
        user, slot = max(users, key=lambda pair: rms(pair[0].left[pair[1]]) or 0.0)
        arrived, left = rms(user.gradient), rms(user.left[slot])
        if arrived and left is not None:
            steps.append((left / arrived, user))
        row = user
    return steps
