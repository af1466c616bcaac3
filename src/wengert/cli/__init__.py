"""Commands: `wengert demo`, `info`, `cache`, `explore`, `playground`, `docs`, `inspect`, `convert` and others."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from ..core.errors import WengertError
from ..version import __version__
from . import cache, demo, docs, explore, info, launch, onnx_models, playground, weights


def parser() -> argparse.ArgumentParser:
    """Return the command line's grammar."""
    top = argparse.ArgumentParser(
        prog="wengert",
        description="Computational graphs for NumPy-like Python: see them, differentiate them, run them.",
        epilog="`wengert COMMAND --help` says more about a command.",
    )
    top.add_argument("--version", action="version", version=f"wengert {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    demo.add_parser(commands)
    info.add_parser(commands)
    cache.add_parser(commands)
    explore.add_parser(commands)
    playground.add_parser(commands)
    docs.add_parser(commands)
    weights.add_parser(commands)
    onnx_models.add_parser(commands)
    launch.add_parser(commands)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line, and return the exit status."""
    args = parser().parse_args(argv)
    try:
        status: int = args.run(args)
        sys.stdout.flush()
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader has gone (`wengert info | head -1`): say nothing, and keep the interpreter from
        # complaining when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except WengertError as e:
        print(f"wengert: {e}", file=sys.stderr)
        return 1
    except OSError as e:
        print(f"wengert: {e.strerror or e}: {e.filename or ''}".rstrip(": "), file=sys.stderr)
        return 1
    return status
