"""`wengert explore`: a script's computation, a model or a file of weights, shown or checked for faults."""

from __future__ import annotations

import argparse
import os
import runpy
import sys
import tempfile
import webbrowser
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from ..core.errors import GraphError, WengertError, fail

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..explorer import Exploration

# What is shown where no script is named: operations one after the other, and some that can run side by side.
LESSON = """import wengert as wg

w = wg.tensor(2.0, requires_grad=True)
b = wg.tensor(1.0, requires_grad=True)


def loss(x, t):
    L = (w * x + b - t) ** 2
    return L


w1, w2, w3 = (wg.tensor(v, requires_grad=True) for v in (0.5, -1.0, 1.5))
u1, u2, u3 = (wg.tensor(v, requires_grad=True) for v in (1.0, 2.0, -1.0))


def neurons(x, t):
    h1 = wg.tanh(w1 * x)
    h2 = wg.tanh(w2 * x)
    h3 = wg.tanh(w3 * x)
    y = u1 * h1 + u2 * h2 + u3 * h3
    L = (y - t) ** 2
    return L


if __name__ == "__main__":
    wg.explore(loss, 3.0, 5.0).save("lesson.html")
"""
# Its functions, with arguments and what the page calls them.
LESSONS = {"loss": ((3.0, 5.0), "One loss, step by step"), "neurons": ((0.8, 0.5), "Three neurons, side by side")}
# Exit statuses of --check.
CLEAN, FOUND, BROKEN = 0, 1, 2


def add_parser(commands: Any) -> None:
    """Add the command to the command line."""
    p = commands.add_parser(
        "explore",
        help="look at a script's computation, a model or a file of weights",
        description="Run a script, record one step of what it computes (forward, backward, optimiser), and open the "
        "recording in a browser. An ONNX model is run on inputs that are made; a file of weights is shown by the tree "
        "of its names. The page is one file that needs no network. Without a script a first lesson is shown.",
    )
    p.add_argument(
        "script",
        metavar="SCRIPT[:FUNCTION]|FILE",
        nargs="?",
        help="a Python file, or one of its functions to call; an ONNX model; a file of weights (.safetensors, .pt, "
        ".npz, .gguf, ...); or a folder with runs that were watched or written for TensorBoard (default: a lesson of "
        "nine nodes)",
    )
    p.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the script; options may follow a file")
    _add_options(p)
    p.set_defaults(run=run)


def _add_options(p: argparse.ArgumentParser) -> None:
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
        help="serve the page until Ctrl-C: whole tensors, float64, paths, the compiler's plan when asked for; the "
        "debugger at a line of a script, in this terminal; a model's inputs and sizes can be changed",
    )
    model = p.add_argument_group("of an ONNX model")
    model.add_argument(
        "--size",
        action="append",
        type=_size,
        metavar="NAME=N",
        help="the size of an axis that the model leaves open (default: asked for at a terminal, else 1 for the first "
        "axis of an input and 8 for others)",
    )
    model.add_argument(
        "--input",
        action="append",
        type=_input,
        metavar="NAME=VALUE",
        help="an input: a .npy file, JSON such as [[1, 2]], or how it is made: normal, uniform, zeros, ones, range",
    )
    model.add_argument("--seed", type=int, metavar="N", help="of the numbers that inputs are made of (default: 0)")
    model.add_argument(
        "--structure", action="store_true", help="draw the document's nodes as they stand, and run nothing"
    )


def _size(text: str) -> tuple[str, int]:
    name, equals, number = text.rpartition("=")
    if not equals or not number.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is no size: batch=4 is one")
    return name, int(number)


def _input(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name or not value:
        raise argparse.ArgumentTypeError(f"{text!r} is no input: x=ones is one")
    return name, value


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
        return _runs(args)
    if args.script is None and args.check:
        fail(GraphError, "there is no script to check", "Name it: wengert explore --check script.py", "--check")
    if args.script is not None and _is_opened(args.script):
        return _opened(args)
    for option in ("size", "input", "seed", "structure"):
        if getattr(args, option):
            fail(GraphError, f"--{option} is for a model", "Name one: wengert explore model.onnx.", f"--{option}")
    folder = Path(tempfile.mkdtemp(prefix="wengert-"))
    if args.step is not None and args.step < 0:
        fail(GraphError, f"no step {args.step}", "Steps are counted from 0.", "--step")
    # Loaded here, so that other commands start without it.
    explorer = import_module("wengert.explorer")
    if args.script is None:
        lessons = _lessons(folder / "lesson.py")
        return _shown(next(iter(lessons.values())), args, folder / "lesson.html", lessons)
    script, function = _parts(args.script)
    recording = explorer.record_script(script, function, args.arguments, step=args.step)
    debugger = import_module("wengert.explorer.debugger").Debugger(script, function, args.arguments)
    return _shown(explorer.Exploration(recording, debugger=debugger), args, folder / f"{script.stem}.html")


def _shown(
    found: Exploration, args: argparse.Namespace, page: Path, lessons: Mapping[str, Exploration] | None = None
) -> int:
    """Check what was recorded, serve it, or write its page, and open that where no other was asked for.

    The page of lessons has them all.
    """
    if args.check:
        return check(found)
    if args.live and args.save is None:
        _say(str(found))
        import_module("wengert.explorer.server").serve(found)
        return CLEAN
    page = page if args.save is None else args.save
    if lessons is None:
        found.save(page)
    else:
        text = import_module("wengert.explorer.page").shelf({name: e.document for name, e in lessons.items()})
        page.write_text(text, encoding="utf-8")
    _say(f"{found}\nwrote {page}")
    if args.save is None:
        webbrowser.open(page.as_uri())
    return CLEAN


# -- models and weights

# Beginnings of binary files that need not have a zero byte: gzip, PDF.
_BINARY = (b"\x1f\x8b", b"%PDF")
# Endings of files that are opened, not run as scripts.
_OPENED = (".onnx", ".safetensors", ".pt", ".pth", ".bin", ".ckpt", ".npz", ".npy", ".gguf")


def _is_opened(path: str) -> bool:
    """Return whether a path is a file that is opened and not run as a script: by what is in it, else by its name."""
    if path.lower().endswith(_OPENED):
        return True
    if path.lower().endswith(".py") or not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        start = file.read(4096)
    # No program in Python has such bytes.
    return b"\0" in start or start.startswith(_BINARY)


def _take_options(args: argparse.Namespace) -> argparse.ArgumentParser:
    """Add the options that stand behind a file or folder to the others, and return the parser that read them."""
    rest = argparse.ArgumentParser(prog=f"wengert explore {args.script}")
    _add_options(rest)
    rest.parse_args(args.arguments, args)
    return rest


def _opened(args: argparse.Namespace) -> int:
    """Show a model or a file of weights."""
    _take_options(args)
    live = import_module("wengert.explorer.opened.live")
    sizes = dict(args.size or ())
    if _is_terminal() and not (args.structure or args.check or args.save):
        models = import_module("wengert.explorer.opened.models")
        open_sizes = models.open_sizes(args.script) if args.script.lower().endswith(".onnx") else {}
        sizes |= {name: _asked(name, usual) for name, usual in open_sizes.items() if name not in sizes}
    inputs = {name: _array(value) for name, value in args.input or ()}
    opened = live.Opened(args.script, live.Wanted((), inputs, sizes, args.seed or 0), args.structure)
    if args.live:
        import_module("wengert.explorer.server").serve(opened)
        return CLEAN
    folder = Path(tempfile.mkdtemp(prefix="wengert-"))
    return _shown(opened.exploration, args, folder / f"{Path(args.script).stem}.html")


def _array(value: str) -> Any:
    """Return an input that a file holds; a text that says how it is made as it is."""
    if not value.endswith(".npy"):
        return value
    (array,) = import_module("wengert.storage.numpy_files").open_npy(value, False).values()
    return array.read()


def _is_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()


def _asked(name: str, usual: int) -> int:
    """Ask for a size; nothing, or no number, is the usual one."""
    text = input(f"size of {name} [{usual}]: ").strip()
    return int(text) if text.isdigit() else usual


# What a folder of runs has no answer to: they are served, and nothing is run.
_NOT_OF_RUNS = ("check", "step", "save", "size", "input", "seed", "structure")


def _runs(args: argparse.Namespace) -> int:
    """Show the trainings that a folder holds, until Ctrl-C."""
    parser = _take_options(args)
    for option in _NOT_OF_RUNS:
        given = getattr(args, option)
        if given is not None and given is not False:
            parser.error(f"--{option} is of a script or a file, and {args.script} is a folder: name what is in it")
    watch, server = (import_module(f"wengert.explorer.{name}") for name in ("watch", "server"))
    server.serve(watch.Recorded(Path(args.script)))
    return CLEAN


def _lessons(script: Path) -> dict[str, Exploration]:
    """Write the lessons' script, which can be changed and run, and record what its functions do."""
    script.write_text(LESSON, encoding="utf-8")
    names, explore = runpy.run_path(str(script)), import_module("wengert.explorer").explore
    return {title: explore(names[name], *args) for name, (args, title) in LESSONS.items()}


def check(found: Exploration) -> int:
    """Print the findings as compilers print errors, and return the exit status."""
    for finding in found.findings:
        _say(str(finding))
    grave = sum(finding.severity != "note" for finding in found.findings)
    error = found.recording.error
    if error is not None:
        stopped_by = import_module("wengert.explorer.document.document").stopped_by
        _say(f"{found.recording.script}: {stopped_by(found.document['meta']['error'])}", sys.stderr)
        return BROKEN
    if not found.recording.events and not found.recording.stored:
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
