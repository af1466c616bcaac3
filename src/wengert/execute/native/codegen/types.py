"""The types of generated code, and the properties of processors that the generators depend on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from ....core.dtypes import record_of
from ....core.state.cached import cached_property


class Type(NamedTuple):
    """A type of LLVM IR.

    `kind` is "f" (IEEE float), "b" (bfloat), "i" (integer) or "p" (pointer); `lanes` 0 is a scalar.
    """

    kind: str
    bits: int
    lanes: int = 0

    def vector(self, lanes: int) -> Type:
        """Return the same element in `lanes` lanes; 0 and 1 give the scalar."""
        return Type(self.kind, self.bits, lanes if lanes > 1 else 0)

    @property
    def scalar(self) -> Type:
        return Type(self.kind, self.bits) if self.lanes else self

    @property
    def size(self) -> int:
        """The bytes of one element in memory."""
        return max(1, self.bits // 8)

    @property
    def is_float(self) -> bool:
        return self.kind in "fb"

    @property
    def text(self) -> str:
        return _text(self)

    @property
    def mangled(self) -> str:
        """The type's name inside an intrinsic's name, such as `v16f32`."""
        element = "p0" if self.kind == "p" else "bf16" if self.kind == "b" else f"{self.kind}{self.bits}"
        return f"v{self.lanes}{element}" if self.lanes else element


@cache
def _text(type: Type) -> str:
    element = _NAMES.get((type.kind, type.bits)) or f"i{type.bits}"
    return f"<{type.lanes} x {element}>" if type.lanes else element


_NAMES = {("f", 16): "half", ("b", 16): "bfloat", ("f", 32): "float", ("f", 64): "double", ("p", 64): "ptr"}

F16, BF16, F32, F64 = Type("f", 16), Type("b", 16), Type("f", 32), Type("f", 64)
I1, I8, I16, I32, I64 = Type("i", 1), Type("i", 8), Type("i", 16), Type("i", 32), Type("i", 64)
PTR = Type("p", 64)


@cache
def text_of(dtype: np.dtype) -> str:
    """Return a dtype's text, which NumPy makes anew whenever it is asked."""
    return str(dtype)


@cache
def storage_type(dtype: np.dtype) -> Type | None:
    """Return the type of an array's elements in memory; None for what kernels do not hold (complex numbers, float8)."""
    record = record_of(dtype)
    if record.name == "bfloat16":
        return BF16
    if record.category == 0:
        return I8
    if record.category == 3 or record.stored:
        return None
    return Type("f" if record.category == 2 else "i", dtype.itemsize * 8)


@dataclass(frozen=True)
class Target:
    """A processor as the generators see it.

    `width` is the bytes of a vector register, `registers` their number, `fma` whether a fused
    multiply-add is one instruction. `triple`, `cpu` and `features` are LLVM's names.
    """

    triple: str
    cpu: str
    features: str
    width: int
    registers: int
    fma: bool

    @cached_property
    def identity(self) -> str:
        """The text of all properties that decide what code is made."""
        return f"{self.triple} {self.cpu} {self.features} {self.width} {self.registers} {self.fma}"

    def lanes(self, type: Type) -> int:
        """Return the number of elements of a type that fill a register."""
        return max(1, self.width // type.size)
