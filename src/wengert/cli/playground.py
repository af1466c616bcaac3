"""`wengert playground`: live training in the browser."""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path
from typing import Any

from .. import set_eager_kernels


def add_parser(commands: Any) -> None:
    """Add the command to the command line."""
    p = commands.add_parser(
        "playground",
        help="train small models live, and look inside",
        description="Train small models live in the browser, with the real engine: pause, step, change the step size, "
        "go back in time and on from there. Nothing leaves this machine.",
    )
    p.add_argument(
        "script", nargs="?", type=Path, help="a Python file with step() or run(), to be trained step by step"
    )
    p.add_argument("--port", type=int, default=0, help="of 127.0.0.1 (default: one that is free)")
    p.add_argument("--no-browser", action="store_true", help="print the address, and open nothing")
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Serve the playground until Ctrl-C."""
    # Kernels that come in mid-course change last bits; compiled from the start, a script that is run again gives the
    # same numbers.
    set_eager_kernels(True)
    # Loaded here, so that other commands start without them.
    playground, server = (import_module(f"wengert.explorer.{name}") for name in ("playground", "server"))
    server.serve(playground.Playground(args.script), port=args.port, browser=not args.no_browser)
    return 0
