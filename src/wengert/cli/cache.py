"""`wengert cache`: the compiled code and the plans that are kept on disk."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from ..execute.native.codegen import object_cache


def add_parser(commands: Any) -> None:
    """Add the command to the command line."""
    p = commands.add_parser(
        "cache",
        help="show or clear the cache of compiled code",
        description="Show or clear the compiled code that is kept on disk. WENGERT_CACHE_DIR says where "
        "it is kept, WENGERT_CACHE_SIZE how much of it in megabytes; WENGERT_CACHE=0 turns it off.",
    )
    actions = p.add_subparsers(dest="action", metavar="ACTION", required=True)
    info = actions.add_parser("info", help="show where it is and what is in it")
    info.set_defaults(run=show)
    clear = actions.add_parser("clear", help="delete what is in it")
    clear.set_defaults(run=delete)


def show(args: argparse.Namespace) -> int:
    """Print the facts."""
    for name, value in collect().items():
        print(f"{name:<10} {value}")
    return 0


def delete(args: argparse.Namespace) -> int:
    """Clear the cache."""
    folder, why_not = object_cache.place()
    if why_not:
        print(f"nothing was deleted from {folder}: {why_not}")
        return 1
    gone = object_cache.clear()
    print(f"deleted {_counted(gone)}, {sum(entry.nbytes for entry in gone):,} bytes, from {folder}")
    left = object_cache.entries()
    if left:
        print(f"{_counted(left)} could not be deleted")
    return 1 if left else 0


def _counted(entries: Sequence[object_cache.Entry]) -> str:
    plans = sum(entry.is_plan for entry in entries)
    return f"{_count(len(entries) - plans, 'kernel')} and {_count(plans, 'plan')}"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def collect() -> dict[str, Any]:
    """Return the facts."""
    (folder, why_not), entries = object_cache.place(), object_cache.entries()
    if not object_cache.is_on():
        state = "off: WENGERT_CACHE is 0"
    else:
        state = f"on, but not used: {why_not}" if why_not else "on"
    return {
        "state": state,
        "folder": folder,
        "kernels": sum(not entry.is_plan for entry in entries),
        "plans": sum(entry.is_plan for entry in entries),
        "bytes": sum(entry.nbytes for entry in entries),
        "limit": object_cache.size_limit(),
    }
