"""Exported programs, run: built by the C compiler of their target, emulated where that is needed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wengert as wg

WINE = "/usr/lib/wine/wine64"
# The compiler of each target, and what runs its programs here.
TOOLS: dict[str, tuple[list[str], list[str]]] = {
    "host": (["cc"], []),
    "aarch64-linux": (["aarch64-linux-gnu-gcc", "-static"], ["qemu-aarch64"]),
    "riscv64-linux": (["riscv64-linux-gnu-gcc", "-static"], ["qemu-riscv64"]),
    "armv7-linux": (["arm-linux-gnueabihf-gcc", "-static"], ["qemu-arm"]),
    "x86_64-windows": (["x86_64-w64-mingw32-gcc"], [WINE]),
}


def needs(target: str) -> None:
    """Skip the test where the target's compiler, or what runs its programs, is not installed."""
    compiler, runner = TOOLS[target]
    for tool in (compiler[0], *runner):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")


def build(made: wg.deploy.Exported, *more: str) -> Path:
    """Build `main.c` as it is, strictly; return the program."""
    folder = Path(made.folder)
    target = "host" if (folder / f"lib{made.name}.so").exists() else made.target
    compiler, _ = TOOLS[target]
    program = folder / f"{made.name}.exe"
    strict = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-O0"]
    objects = sorted(p.name for p in folder.glob(f"{made.name}*.o"))
    command = [*compiler, *strict, *more, "-o", program.name, "main.c", *objects, "-lm"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=120)
    return program


def run(
    made: wg.deploy.Exported, inputs: Sequence[Any], outputs: Sequence[Any], runs: int = 1, *more: str
) -> list[Any]:
    """Return the outputs of a program that was built, in arrays like `outputs`, after so many runs."""
    folder = Path(made.folder)
    program = folder / f"{made.name}.exe"
    if more or not program.exists():
        build(made, *more)
    (folder / "in.bin").write_bytes(b"".join(np.ascontiguousarray(x).tobytes() for x in inputs))
    runner = TOOLS[made.target][1] if made.target in TOOLS else []
    command = [*runner, str(program), "in.bin", "out.bin", str(runs)]
    prefix = os.path.join(tempfile.gettempdir(), "wengert-tests-wine")  # made by the first run, in seconds
    environment = {**os.environ, "WINEDEBUG": "-all", "WINEPREFIX": prefix}
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=120, env=environment, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    data, at, found = (folder / "out.bin").read_bytes(), 0, []
    for like in outputs:
        like = np.asarray(like)
        found.append(np.frombuffer(data[at : at + like.nbytes], like.dtype).reshape(like.shape))
        at += like.nbytes
    assert at == len(data)
    return found
