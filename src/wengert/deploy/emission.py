"""Objects from modules, by a process of its own: an LLVM error may end the process that it meets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from ..core.errors import GraphError, fail
from ..execute.native.codegen import machine

_SCRIPT = Path(__file__).with_name("emitter.py")


class Job(NamedTuple):
    """An object to be made: LLVM's names for the processor, the kind of addresses, the modules, the names to keep."""

    triple: str
    cpu: str
    features: str
    reloc: str
    modules: tuple[str, ...]
    keep: tuple[str, ...]


def check_llvm() -> None:
    """Raise GraphError where there is no LLVM."""
    if machine.llvm() is None:
        lack, _, mend = machine.lack().partition("\n")
        fail(GraphError, f"wg.export makes native code: {lack}", mend)


def objects(jobs: Sequence[Job]) -> list[bytes]:
    """Return the objects, by a process for each processor. Raises GraphError where LLVM refuses one."""
    with ThreadPoolExecutor(max(1, min(len(jobs), os.cpu_count() or 1))) as threads:
        return list(threads.map(_object, jobs))


def _object(job: Job) -> bytes:
    # What this process finds, the other one finds, too.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run(
        [sys.executable, "-P", str(_SCRIPT)],
        input=json.dumps(job._asdict()).encode(),
        capture_output=True,
        env=environment,
        check=False,
    )
    if done.returncode or not done.stdout:
        told = done.stderr.decode(errors="replace").strip().splitlines()
        fail(
            GraphError,
            f"wg.export for {job.triple}: LLVM ended with status {done.returncode}: {' '.join(told[-3:])[-300:]}",
            "Nothing was written. Another target may work.",
        )
    return done.stdout
