"""Ranks of a job as they meet: each tells what it is about to do, and hears whether others do something else."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from ...core.errors import GraphError, error, fail
from ...core.ops.op import Op
from ...core.spec import show

TEXT = 600
DIGEST = 16
# What a rank says that is about to run a program begins with this.
PROGRAM = "the program "

# From an array of bytes to those of all ranks that meet, stacked.
Gather = Callable[[Any], Any]


def refuse_left(rank: int) -> NoReturn:
    """Raise GraphError: a rank that has left a step in its middle is to meet others, which are still in it."""
    fail(
        GraphError,
        f"rank {rank} has left a step that other ranks are still in",
        "What it was sent, and what it sends, is lost: start the job again, from its last checkpoint.",
    )


def differ(gather: Gather, members: Sequence[int], digest: bytes, what: Callable[[], str]) -> bool:
    """Return whether ranks bring other digests. Raises GraphError unless all are to run programs."""
    everybody = gather(np.frombuffer(digest, np.uint8))
    if everybody.tobytes() == digest * len(members):
        return False
    differ = [i for i, row in enumerate(everybody) if (row != everybody[0]).any()]
    rows = gather(np.frombuffer(what().encode()[:TEXT].ljust(TEXT), np.uint8))
    texts = [bytes(row).decode(errors="replace").rstrip() for row in rows]
    if all(t.startswith(PROGRAM) for t in texts):
        return True
    a, b = members[0], members[differ[0]]
    raise error(
        GraphError,
        f"ranks {a} and {b} differ: rank {a} calls {texts[0]}, rank {b} calls {texts[differ[0]]}",
        "All ranks along an axis call the same collectives in the same order, of one shape and dtype.",
    )


def shake_hands(gather: Gather, members: Sequence[int], what: str, text: str) -> None:
    """Raise GraphError unless all ranks call the same collective; `text` also says where this one does."""
    differ(gather, members, hashlib.blake2b(what.encode(), digest_size=DIGEST).digest(), lambda: text)


def called(op: Op, x: Any, attrs: Mapping[str, Any]) -> str:
    """Return a collective as errors show it."""
    given = ", ".join(f"{k}={v!r}" for k, v in attrs.items() if k != "ranks")
    return f"{op.name}({show(x.shape, x.dtype)}, {given})"
