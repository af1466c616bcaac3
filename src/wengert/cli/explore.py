"""`wengert explore`: a script's computation, recorded and shown, or checked for faults."""

from __future__ import annotations

import argparse
import runpy
import sys
import tempfile
import webbrowser
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from ..core.errors import GraphError, WengertError, fail

if TYPE_CHECKING:
    from ..explorer import Exploration

# What is shown where no script is named: a parameter, a product, a sum, a square, and their gradients.
LESSON = """import wengert as wg

w = wg.tensor(2.0, requires_grad=True)
b = wg.tensor(1.0, requires_grad=True)


def loss(x, t):
    L = (w * x + b - t) ** 2
    return L


if __name__ == "__main__":
    wg.explore(loss, 3.0, 5.0).save("lesson.html")
"""
# Exit statuses of --check.
CLEAN, FOUND, BROKEN = 0, 1, 2


def add_parser(commands: Any) -> None:
    """Add the command to the command line."""
    p = commands.add_parser(
        "explore",
        help="record a script's computation and look at it",
        description="Run a script, record one step of what it computes (forward, backward, optimiser), and open the "
        "recording in a browser. The page is one file that needs no network. Without a script a first lesson is shown.",
    )
    p.add_argument(
        "script",
        metavar="SCRIPT[:FUNCTION]",
        nargs="?",
        help="a Python file, or one of its functions to call, or a folder with runs that were watched or written for "
        "TensorBoard (default: a lesson of nine nodes)",
    )
    p.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the script")
    p.add_argument(
        "--check",
        action="store_true",
        help="open nothing: print what was found; the exit status is 1 where that is an error or a warning, "
        "2 where the script fails",
    )
    p.add_argument(
        "--step", type=int, metavar="N", help="show step N of a training run, from 0 (default: the last whole one)"
    )
    p.add_argument("--save", type=Path, metavar="PAGE", help="write the page to this file and open nothing")
    p.add_argument(
        "--live",
        action="store_true",
        help="serve the page until Ctrl-C: whole tensors, float64, paths, the compiler's plan when asked for, and the "
        "debugger at a line, in this terminal",
    )
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Record the script; show, save or check it."""
    try:
        return _run(args)
    except WengertError as e:
        if not args.check:
            raise
        # A script that is not there is no finding.
        print(f"wengert: {e}", file=sys.stderr)
        return BROKEN


def _run(args: argparse.Namespace) -> int:
    if args.script is not None and Path(args.script).is_dir():
        return _runs(Path(args.script))
    if args.script is None and args.check:
        fail(GraphError, "there is no script to check", "Name it: wengert explore --check script.py", "--check")
    folder = Path(tempfile.mkdtemp(prefix="wengert-"))
    if args.step is not None and args.step < 0:
        fail(GraphError, f"no step {args.step}", "Steps are counted from 0.", "--step")
    # Loaded here, so that other commands start without it.
    explorer = import_module("wengert.explorer")
    if args.script is None:
        script = folder / "lesson.py"
        found = _lesson(script)
    else:
        script, function = _parts(args.script)
        recording = explorer.record_script(script, function, args.arguments, step=args.step)
        debugger = import_module("wengert.explorer.debugger").Debugger(script, function, args.arguments)
        found = explorer.Exploration(recording, debugger=debugger)
    if args.check:
        return check(found)
    if args.save is not None:
        found.save(args.save)
        _say(f"{found}\nwrote {args.save}")
        return CLEAN
    if args.live:
        _say(str(found))
        import_module("wengert.explorer.server").serve(found)
        return CLEAN
    page = folder / f"{script.stem}.html"
    found.save(page)
    _say(f"{found}\nwrote {page}")
    webbrowser.open(page.as_uri())
    return CLEAN


def _runs(folder: Path) -> int:
    """Show the trainings that a folder holds, until Ctrl-C."""
    watch, server = (import_module(f"wengert.explorer.{name}") for name in ("watch", "server"))
    recorded = watch.Recorded(folder)
    server.serve(recorded)
    return CLEAN


def _lesson(script: Path) -> Exploration:
    """Write the lesson's script, which can be changed and run, and record what it shows."""
    script.write_text(LESSON, encoding="utf-8")
    names = runpy.run_path(str(script))
    found: Exploration = import_module("wengert.explorer").explore(names["loss"], 3.0, 5.0)
    return found


def check(found: Exploration) -> int:
    """Print the findings as compilers print errors, and return the exit status."""
    for finding in found.findings:
        _say(str(finding))
    grave = sum(finding.severity != "note" for finding in found.findings)
    error = found.recording.error
    if error is not None:
        told = found.document["meta"]["error"]
        _say(f"{found.recording.script}: stopped by {told['type']}: {told['text']}", sys.stderr)
        return BROKEN
    if not found.recording.events:
        _say(f"{found.recording.script}: nothing was computed with wengert", sys.stderr)
        return BROKEN
    notes = len(found.findings) - grave
    print(_count(grave, "finding") + (f" and {_count(notes, 'note')}" if notes else ""))
    return FOUND if grave else CLEAN


def _say(text: str, stream: TextIO | None = None) -> None:
    """Print text whose characters the stream may lack."""
    to = stream or sys.stdout
    encoding = to.encoding or "utf-8"
    print(text.encode(encoding, "replace").decode(encoding), file=to)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _parts(given: str) -> tuple[Path, str | None]:
    """Return the parts of `script.py:function`; the colon of a drive letter does not count."""
    path, colon, function = given.rpartition(":")
    if colon and function.isidentifier() and path.endswith(".py"):
        return Path(path), function
    return Path(given), None
