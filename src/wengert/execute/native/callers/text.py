"""The text of functions around plans: values, blocks, copies of arrays."""

from __future__ import annotations

from collections.abc import Sequence

from ..plan.plan import View, dense


class Text:
    """A writer of functions of LLVM's, line by line; `pointer` is the bytes of an address."""

    def __init__(self, pointer: int = 8) -> None:
        self.pointer_bytes = pointer
        self.lines: list[str] = []
        self.count = 0
        # The block that is being written.
        self.last = ""

    def value(self, text: str) -> str:
        """Add an instruction, and return the name of its result."""
        self.count += 1
        self.lines.append(f"  %v{self.count} = {text}")
        return f"%v{self.count}"

    def do(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")
        self.last = name

    def at(self, base: str, nbytes: int | str) -> str:
        """Return the pointer so many bytes after another one."""
        return base if nbytes == 0 else self.value(f"getelementptr i8, ptr {base}, i64 {nbytes}")

    def copy(self, source: str, view: View, to: str) -> None:
        """Copy an array, as it lies, to contiguous memory."""
        item = view.dtype.itemsize
        if view.size == 0:
            return
        if view.is_contiguous:
            self.copy_bytes(source, to, view.size * item)
            return
        self.copy_axes(source, to, view.shape, view.strides, item)

    def copy_bytes(self, source: str, to: str, nbytes: int) -> None:
        """Copy memory to other memory."""
        self.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {source}, i64 {nbytes}, i1 false)")

    def copy_axes(self, source: str, to: str, shape: Sequence[int], strides: Sequence[int], item: int) -> None:
        if not shape:
            kind, align = f"i{8 * item}", min(item, 8)
            element = self.value(f"load {kind}, ptr {source}, align {align}")
            self.do(f"store {kind} {element}, ptr {to}, align {align}")
            return
        self.count += 1
        n = self.count
        self.do(f"br label %before{n}")
        self.label(f"before{n}")
        self.do(f"br label %loop{n}")
        self.label(f"loop{n}")
        i = self.value(f"phi i64 [ 0, %before{n} ], [ %next{n}, %latch{n} ]")
        here = self.value(f"mul i64 {i}, {strides[0] * item}")
        there = self.value(f"mul i64 {i}, {dense(shape)[0] * item}")
        self.copy_axes(self.at(source, here), self.at(to, there), shape[1:], strides[1:], item)
        self.do(f"br label %latch{n}")
        self.label(f"latch{n}")
        self.do(f"%next{n} = add i64 {i}, 1")
        self.do(f"%more{n} = icmp slt i64 %next{n}, {shape[0]}")
        self.do(f"br i1 %more{n}, label %loop{n}, label %after{n}")
        self.label(f"after{n}")
