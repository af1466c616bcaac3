"""`wengert launch`: run a script on several ranks."""

from __future__ import annotations

import argparse
from typing import Any

from .. import distribute
from .arguments import existing_file, positive


def add_parser(commands: Any) -> None:
    """Add the command to the command line."""
    p = commands.add_parser(
        "launch",
        help="run a script on several ranks",
        description="Run a Python script on each rank of a job: with mpiexec, or as processes of JAX's, whose devices "
        "are the ranks. An exception on one rank ends all.",
    )
    p.add_argument("-n", "--ranks", type=positive, default=2, help="the number of ranks (default %(default)s)")
    p.add_argument("--engine", choices=("mpi", "xla"), default="mpi", help="what moves values (default %(default)s)")
    p.add_argument("script", type=existing_file, help="a Python script")
    p.add_argument("arguments", nargs=argparse.REMAINDER, help="the script's own arguments")
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the script, and return its exit status."""
    return distribute.launch(args.ranks, args.script, args.arguments, args.engine)
