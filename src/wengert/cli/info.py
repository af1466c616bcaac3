"""`wengert info`: versions, processor, threads, cache."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from ..version import __version__

_OPTIONAL = ("llvmlite", "ml_dtypes", "rich", "scipy")
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


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
    """The facts, by section."""
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
            "usable": usable_cpus(),
            "machine": os.cpu_count(),
            "cpu limit": _cgroup_limit() or "none",
            **{v: os.environ[v] for v in _THREAD_VARIABLES if v in os.environ},
        },
        "cache": _cache(),
    }


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


def usable_cpus() -> int:
    """The processors that this process may run on."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _cgroup_limit() -> str:
    """The container's CPU quota in processors, or nothing."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
    except (OSError, ValueError):
        return ""
    return "" if quota == "max" else f"{int(quota) / int(period):.2g}"


def cache_folder() -> Path:
    """Where compiled code is cached: `WENGERT_CACHE_DIR`, else the platform's cache folder."""
    if "WENGERT_CACHE_DIR" in os.environ:
        return Path(os.environ["WENGERT_CACHE_DIR"])
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "wengert"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home())) / "wengert"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wengert"


def _cache() -> dict[str, Any]:
    folder = cache_folder()
    try:
        files = [f for f in folder.rglob("*") if f.is_file()]
        size = sum(f.stat().st_size for f in files)
    except OSError as e:
        return {"folder": str(folder), "state": f"cannot be read: {e.strerror}"}
    return {"folder": str(folder), "entries": len(files), "bytes": size}
