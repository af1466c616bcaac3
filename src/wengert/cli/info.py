"""`wengert info`: versions, processor, threads, compiled calls, cache."""

from __future__ import annotations

import argparse
import json
import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from ..execute.native.dispatch import entry
from ..execute.native.run import threads
from ..version import __version__
from . import cache

_OPTIONAL = ("llvmlite", "ml_dtypes", "rich", "scipy")
_THREAD_VARIABLES = ("WENGERT_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def add_parser(commands: Any) -> None:
    """Add the command to the command line."""
    p = commands.add_parser(
        "info",
        help="show versions, processor, threads and cache",
        description="Show what Wengert runs on: versions, processor, threads and the cache folder.",
    )
    p.add_argument("--json", action="store_true", help="print JSON")
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the facts."""
    facts = collect()
    if args.json:
        print(json.dumps(facts, indent=2))
        return 0
    for section, values in facts.items():
        print(section)
        for name, value in values.items():
            print(f"  {name:<14} {value}")
    return 0


def collect() -> dict[str, dict[str, Any]]:
    """Return the facts, by section."""
    return {
        "versions": {
            "wengert": __version__,
            "python": f"{platform.python_implementation()} {platform.python_version()}",
            "numpy": np.__version__,
            **{name: _version(name) for name in _OPTIONAL},
        },
        "processor": {
            "platform": f"{platform.system()} {platform.machine()}",
            "model": _cpu_model(),
            "vector units": ", ".join(_vector_units()) or "none known",
        },
        "threads": {
            "used": threads.get_num_threads(),
            "usable": threads.usable_cores(),
            "machine": os.cpu_count(),
            "cpu limit": f"{quota:.2g}" if (quota := threads.cpu_quota()) is not None else "none",
            **{v: os.environ[v] for v in _THREAD_VARIABLES if v in os.environ},
        },
        "compiled calls": {"dispatched by": _dispatch()},
        "cache": cache.collect(),
    }


def _dispatch() -> str:
    """Return which interpreter follows the dispatch programs of compiled calls, and why."""
    if entry.entry() is not None:
        return "native code"
    return f"Python: {entry.lack() or 'objects are not laid out as native code takes them to be'}"


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"


def _vector_units() -> list[str]:
    try:
        flags = set(Path("/proc/cpuinfo").read_text().split())
    except OSError:
        return []
    return [name for name in ("avx512f", "avx2", "fma", "avx", "sse4_2", "asimd", "sve") if name in flags]
