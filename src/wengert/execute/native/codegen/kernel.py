"""Kernels: generated functions, identified by what they compute, compiled once and kept.

A kernel is `void kernel(ptr ptrs, ptr rec, i64 lo, i64 hi, i64 thread)`.

- `ptrs` is the running program's table of addresses: entry 0 the arena, entry 1 the scratch memory,
  entry 2 (a number) the bytes of it for each thread, then what the program takes and gives.
- `rec` is the step's own record of 64-bit words, whose meaning the kernel decides. A buffer is two
  words, an entry of `ptrs` and bytes from there (`Builder.buffer`); sizes and strides, in elements,
  are words too. Sizes never stand in the code, so that one kernel serves every shape of its structure.
- `[lo, hi)` is a range of the step's units, independent pieces of work which threads share out.
  Results must not depend on how the units are split into ranges.
- `thread` numbers the threads from 0; scratch memory is each thread's own (`Builder.scratch`).

`key` names all that the code depends on: operations, dtypes, ranks, classes of strides, never sizes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Protocol

from ....core.state import locks
from ....core.state.cached import cached_property
from . import machine
from .builder import Builder
from .types import Target

Build = Callable[[Builder], None]

# The store of compiled code between processes, once one is set up: a
# function of (name, target) to object code or None, and one to be told what was compiled.
_load_kept: Callable[[str, Target], bytes | None] = lambda name, target: None
_keep: Callable[[str, Target, bytes], None] = lambda name, target, code: None


def keep_in(load: Callable[[str, Target], bytes | None], keep: Callable[[str, Target, bytes], None]) -> None:
    """Set the store of compiled code: `load` looks code up, `keep` is given what was compiled."""
    global _load_kept, _keep
    _load_kept, _keep = load, keep


class Source(Protocol):
    """The source of compiled code: a module's text, and the name that stands for it, target included."""

    @property
    def name(self) -> str: ...
    @property
    def target(self) -> Target: ...
    @property
    def ir(self) -> str: ...
    @property
    def effort(self) -> int: ...


def code(source: Source) -> tuple[bytes, bool]:
    """Return the object code, from the store or compiled now, and whether it was compiled."""
    kept = _load_kept(source.name, source.target)
    if kept is not None:
        return kept, False
    made = machine.compile_ir(source.ir, source.target, source.effort)
    _keep(source.name, source.target, made)
    return made, True


class Kernel:
    """A generated function; its code is made when its address is first asked for.

    One that was found by its key alone (`kept_kernels`) has code, but no text until whoever makes the text comes by.
    """

    effort = 2

    def __init__(self, key: str, build: Build | None, target: Target) -> None:
        self.key = key
        self.target = target
        self.name = "k" + hashlib.sha256(f"{key}\n{target.identity}".encode()).hexdigest()[:24]
        self.build = build
        self._address = 0
        self.was_compiled = False

    @cached_property
    def ir(self) -> str:
        """The LLVM IR."""
        assert self.build is not None
        builder = Builder(self.name, self.target)
        self.build(builder)
        return builder.ir()

    @property
    def asm(self) -> str:
        """The assembly of the target."""
        return machine.assembly(self.ir, self.target)

    @property
    def address(self) -> int:
        """The address of the code, which is compiled or taken from the cache when first asked for."""
        if not self._address:
            prepare([self])
        return self._address

    def __repr__(self) -> str:
        return f"<kernel {self.key}>"


# Two threads do not make the same kernel; a signal's handler may run a program of its own.
_making = locks.lock(awaited=True)


def prepare(kernels: Iterable[Kernel]) -> None:
    """Prepare the code of kernels: compile what has no code yet, and load all of it in one go."""
    with _making:
        missing = [k for k in dict.fromkeys(kernels) if not k._address]
        if not missing:
            return
        codes = []
        for k in missing:
            made, k.was_compiled = code(k)
            codes.append(made)
        for k, address in zip(missing, machine.load_all(codes, [k.name for k in missing])):
            k._address = address


_kernels: dict[tuple[str, Target], Kernel] = {}


def kernel(key: str, build: Build, target: Target | None = None) -> Kernel:
    """Return the kernel of this key; `build` writes its body where there is none yet."""
    where = target if target is not None else machine.host()
    found = _kernels.get((key, where))
    if found is None:
        found = _kernels.setdefault((key, where), Kernel(key, build, where))
    if found.build is None:
        found.build = build
    return found


def kept_kernels(keys: Iterable[str], target: Target) -> list[Kernel] | None:
    """Return the kernels of these keys, ready to be called; None where there is no code for one of them."""
    with _making:
        found = [_kernels.get((key, target)) or Kernel(key, None, target) for key in keys]
        missing = [k for k in dict.fromkeys(found) if not k._address]
        codes = []
        for k in missing:
            kept = _load_kept(k.name, target)
            if kept is None:
                return None
            codes.append(kept)
        if missing:
            for k, address in zip(missing, machine.load_all(codes, [k.name for k in missing])):
                k._address = address
                _kernels.setdefault((k.key, target), k)
    return found
