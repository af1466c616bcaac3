"""Copies of values to a file that is mapped to memory, and back."""

from __future__ import annotations

import numpy as np

from ..codegen.builder import Builder
from ..codegen.kernel import kernel
from ..codegen.types import I32, I64, PTR, Target
from ..plan.plan import Buffer, Step, View

# Every value stands at the beginning of a page of the file.
PAGE = 4096
# The advice by which Linux drops pages of a shared mapping from memory: what they hold is in the file.
_DONTNEED = 4
_BYTE = np.dtype(np.uint8)


def pages(nbytes: int) -> int:
    """Return the bytes of the pages that so many bytes take."""
    return -(-nbytes // PAGE) * PAGE


def out_step(value: Buffer, part: Buffer, target: Target, label: str) -> Step:
    """Return the step that copies a value to its part of the file."""
    return _step("spill out", part, value, part, target, label)


def in_step(part: Buffer, value: Buffer, target: Target, label: str) -> Step:
    """Return the step that copies a value back."""
    return _step("spill in", value, part, part, target, label)


def _step(key: str, to: Buffer, source: Buffer, part: Buffer, target: Target, label: str) -> Step:
    nbytes = to.nbytes
    views = [View(b, _BYTE, (nbytes,), (1,)) for b in (to, source, part)]
    made = kernel(key, _build, target)
    return Step(made, [*views, nbytes, pages(nbytes)], reads=[views[1]], writes=[views[0]], label=label)


def _build(b: Builder) -> None:
    """Write the kernel. Record: where to, where from, the part of the file, its bytes, and those of its pages."""
    to, source, part = b.buffer(0), b.buffer(2), b.buffer(4)
    b.declare("llvm.memcpy.p0.p0.i64", None, [PTR, PTR, I64, "i1 immarg"])
    b.emit(f"call void @llvm.memcpy.p0.p0.i64(ptr {to.text}, ptr {source.text}, i64 {b.word(6).text}, i1 false)")
    # An error of this call leaves the pages in memory, which is slower and not wrong.
    b.declare("madvise", I32, [PTR, I64, I32])
    b.value(I32, f"call i32 @madvise(ptr {part.text}, i64 {b.word(7).text}, i32 {_DONTNEED})")
