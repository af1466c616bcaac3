"""The interface to LLVM: the processor, from IR text to object code, from object code to addresses."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from ....core.state import locks
from .types import Target

# The oldest LLVM that kernels are made with, and the llvmlite that has it; the form of masked memory accesses that they
# are written in is read by newer ones too.
OLDEST = (20, 0, 0)
OLDEST_LLVMLITE = "0.45"
_PROCESSORS = ("x86_64", "amd64", "aarch64", "arm64")

# LLVM is not shared between threads here. A signal's handler may come back to it, so the lock lets it. A child
# process finds no compilation half done by a thread that it does not have.
_lock = locks.lock(awaited=True)


@cache
def llvm() -> Any:
    """Return llvmlite's binding, with the host's code generator ready; None where llvmlite is missing, or too old."""
    try:
        with locks.importing():
            from llvmlite import binding
    except ImportError:
        return None
    if binding.llvm_version_info < OLDEST:
        return None
    with _lock:
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
    return binding


@cache
def host() -> Target:
    """Return the processor of this machine."""
    binding = llvm()
    features = binding.get_host_cpu_features()
    return target_for(binding.get_process_triple(), binding.get_host_cpu_name(), features.flatten())


def target_for(triple: str, cpu: str, features: str) -> Target:
    """Return the target of LLVM's names; its registers follow from the features."""
    on = {f[1:] for f in features.split(",") if f.startswith("+")}
    if triple.startswith(("aarch64", "arm64")):
        return Target(triple, cpu, features, 16, 32, True)
    if "avx512f" in on and "avx512vl" in on and "avx512bw" in on and "avx512dq" in on:
        return Target(triple, cpu, features, 64, 32, True)
    if "avx2" in on:
        return Target(triple, cpu, features, 32, 16, "fma" in on)
    return Target(triple, cpu, features, 16, 16, False)


# x86-64 in levels, to make and test code for lesser processors on a better one.
LEVELS = {
    "avx2": ("haswell", "+avx2,+fma,+bmi,+bmi2,+f16c,+lzcnt,+popcnt,-avx512f"),
    "sse2": ("x86-64", ""),
}


def level(name: str) -> Target:
    """Return a lesser x86-64 by name (see LEVELS), or "aarch64"."""
    if name == "aarch64":
        return target_for("aarch64-unknown-linux-gnu", "generic", "+neon")
    cpu, features = LEVELS[name]
    return target_for(host().triple, cpu, features)


def without(feature: str) -> Target:
    """Return this machine's processor as if it lacked a feature, by LLVM's name of it."""
    target = host()
    return target_for(target.triple, target.cpu, target.features.replace(f"+{feature}", f"-{feature}"))


def is_supported() -> bool:
    """Return whether native code can be made and run here."""
    return not lack()


def lack() -> str:
    """Return why native code cannot be made here, with the remedy on a second line; empty where it can."""
    if platform.machine().lower() not in _PROCESSORS:
        return f"there is no native code for this processor ({platform.machine()})\nIt is made for x86-64 and AArch64."
    if llvm() is not None:
        return ""
    install = f"Install it for native code: pip install 'llvmlite>={OLDEST_LLVMLITE}'"
    try:
        import llvmlite
    except ImportError:
        return f"llvmlite is not installed\n{install}"
    return f"llvmlite {llvmlite.__version__} is older than {OLDEST_LLVMLITE}\n{install}"


@cache
def _machine(target: Target, effort: int = 2) -> Any:
    binding = llvm()
    if target.triple != host().triple:
        binding.initialize_all_targets()
        binding.initialize_all_asmprinters()
    made = binding.Target.from_triple(target.triple)
    # Code, constants and the functions of libraries may lie anywhere, so addresses are absolute, in
    # full: the loader (RuntimeDyld) gives every object a table of addresses of its own, but has all
    # objects after the first look for it where the first one's is.
    return made.create_target_machine(
        cpu=target.cpu, features=target.features, opt=effort, reloc="static", codemodel="jitdefault", jit=True
    )


def _module(ir: str, target: Target, effort: int = 2) -> tuple[Any, Any]:
    machine = _machine(target, effort)
    module = llvm().parse_assembly(ir)
    module.data_layout = str(machine.target_data)
    return machine, module


@contextmanager
def _sinking() -> Iterator[None]:
    """Let LLVM move constants back into a loop where it has not registers enough for them and the loop's own values.

    Otherwise the constants of a product's epilogue stay in registers through the loop over the inner axis, whose sums
    then lie on the stack: with 16 registers that takes twice the time. It is an option of the whole process, and others
    in it may make code too.
    """
    llvm().set_option("", "-sink-insts-to-avoid-spills=true")
    try:
        yield
    finally:
        llvm().set_option("", "-sink-insts-to-avoid-spills=false")


def compile_ir(ir: str, target: Target, effort: int = 2) -> bytes:
    """Compile a module's text to object code; `effort` 0 takes a sixth of the time where little depends on the code."""
    with _lock:
        machine, module = _module(ir, target, effort)
        module.verify()
        with _sinking():
            code: bytes = machine.emit_object(module)
    return code


def assembly(ir: str, target: Target) -> str:
    """Return the assembly of a module's text."""
    with _lock:
        machine, module = _module(ir, target)
        with _sinking():
            text: str = machine.emit_assembly(module)
    return text


@cache
def _engine() -> Any:
    binding = llvm()
    empty = binding.parse_assembly(f'target triple = "{host().triple}"')
    return binding.create_mcjit_compiler(empty, binding.Target.from_triple(host().triple).create_target_machine())


def load(code: bytes, name: str) -> int:
    """Load object code for good, and return the address of a function in it."""
    return load_all([code], [name])[0]


def load_all(codes: Sequence[bytes], names: Sequence[str]) -> list[int]:
    """Load pieces of object code together, for good, and return the addresses of functions in them."""
    binding = llvm()
    with _lock:
        engine = _engine()
        for code in codes:
            engine.add_object_file(binding.ObjectFileRef.from_data(code))
        engine.finalize_object()
        return [engine.get_function_address(name) for name in names]
