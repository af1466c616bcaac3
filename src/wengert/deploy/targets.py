"""Targets: processors and systems that programs are exported for, each with its levels."""

from __future__ import annotations

import platform
import sys
from collections.abc import Sequence
from typing import NamedTuple

from ..core.errors import GraphError, fail
from ..execute.native.codegen.machine import target_for
from ..execute.native.codegen.types import Target


class Level(NamedTuple):
    """A level of a processor: its name, and LLVM's names for the processor and its features.

    `tests` are what the processor has to say for itself (see `module`): (leaf of cpuid, register, mask), all bits set.
    `saved` are the bits of registers that the system has to save.
    """

    name: str
    cpu: str
    features: str
    tests: tuple[tuple[int, str, int], ...] = ()
    saved: int = 0


class Platform(NamedTuple):
    """A target: its name, LLVM's triple, its levels (the best first), and what its objects are.

    `format` is "elf", "coff", "macho" or "wasm", `pointer` the bytes of an address; `libraries` are what a compiler is
    told to link, for instructions that the processor lacks.
    """

    name: str
    triple: str
    levels: tuple[Level, ...]
    format: str
    pointer: int = 8
    libraries: str = ""

    def target(self, level: Level) -> Target:
        """Return a level as generators of code see it."""
        found = target_for(self.triple, level.cpu, level.features)
        if self.triple.startswith(("aarch64", "arm64", "x86_64")):
            return found
        # 32 registers of 16 bytes, but for wasm, whose engines have those of the processor, and ARMv7.
        return Target(self.triple, level.cpu, level.features, 16, 32 if "riscv" in self.triple else 16, False)


def _bits(*numbers: int) -> int:
    return sum(1 << n for n in numbers)


_AVX2_TESTS = (
    # FMA, MOVBE, POPCNT, OSXSAVE, AVX, F16C
    (1, "c", _bits(12, 22, 23, 27, 28, 29)),
    # BMI1, AVX2, BMI2
    (7, "b", _bits(3, 5, 8)),
    # LZCNT
    (0x80000001, "c", _bits(5)),
)
_X86 = (
    Level(
        "avx512",
        "x86-64-v4",
        "+avx2,+fma,+f16c,+avx512f,+avx512vl,+avx512bw,+avx512dq,+avx512cd",
        # AVX512F, DQ, CD, BW, VL
        (*_AVX2_TESTS, (7, "b", _bits(16, 17, 28, 30, 31))),
        0xE6,
    ),
    Level("avx2", "x86-64-v3", "+avx2,+fma,+bmi,+bmi2,+f16c,+lzcnt,+popcnt,-avx512f", _AVX2_TESTS, 0x6),
    Level("baseline", "x86-64", ""),
)
PLATFORMS = {
    p.name: p
    for p in (
        Platform("x86_64-linux", "x86_64-unknown-linux-gnu", _X86, "elf"),
        Platform("x86_64-windows", "x86_64-pc-windows-gnu", _X86, "coff"),
        Platform("x86_64-macos", "x86_64-apple-macosx11.0.0", _X86, "macho"),
        Platform("aarch64-linux", "aarch64-unknown-linux-gnu", (Level("neon", "generic", "+neon"),), "elf"),
        Platform("aarch64-macos", "arm64-apple-macosx11.0.0", (Level("neon", "apple-m1", "+neon"),), "macho"),
        Platform(
            "riscv64-linux", "riscv64-unknown-linux-gnu", (Level("rv64gc", "generic-rv64", "+m,+a,+f,+d,+c"),), "elf"
        ),
        Platform(
            "armv7-linux",
            "armv7-unknown-linux-gnueabihf",
            (Level("neon", "cortex-a9", "+neon,+vfp3,+armv7-a"),),
            "elf",
            4,
            " -lm",
        ),
        Platform("wasm32", "wasm32-unknown-unknown", (Level("simd128", "generic", "+simd128"),), "wasm", 4),
    )
}


def host() -> Platform:
    """Return the target of this machine. Raises GraphError where there is none."""
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine().lower(), platform.machine().lower())
    system = {"linux": "linux", "darwin": "macos", "win32": "windows"}.get(sys.platform, sys.platform)
    return named(f"{machine}-{system}")


def named(name: object, others: Sequence[str] = ()) -> Platform:
    """Return a target by its name. Raises GraphError for a name that is none; `others` are names taken beside these."""
    if isinstance(name, str) and name in PLATFORMS:
        return PLATFORMS[name]
    known = ", ".join(map(repr, ("host", *PLATFORMS, *others)))
    fail(GraphError, f"wg.export for the target {name!r}, which there is none of", f"The targets are {known}.")
