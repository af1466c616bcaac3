"""The page of PyTorch's names: which work under `wengert.torch`, which differ, which are refused and why.

PyTorch's names are recorded in `pytorch_names.json`; what becomes of each is asked of the library itself.
"""

from __future__ import annotations

import functools
import importlib
import json
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import wengert as wg
from wengert.torch.absent import Absent
from wengert.torch.coverage import DIFFERS, reason
from wengert.torch.dtypes import NamedDType

RECORDED = json.loads((Path(__file__).parent / "pytorch_names.json").read_text(encoding="utf-8"))

HEAD = f"""# PyTorch's names

<!-- Written by scripts/pytorch_page.py: do not edit. -->

Every public name of PyTorch {RECORDED["version"]} in the namespaces below, and what it is under
`import wengert.torch as torch`: it works, it differs (and how), or it is refused (and why). A refused type can be
named, be a base of a class and be asked for by `isinstance`, and raises an error when it is used. Asking for a refused
function raises an AttributeError. The guide to moving programs is [PyTorch's programs](pytorch.md).
"""


class Answer(NamedTuple):
    """What becomes of a name: `there` or not, and what is to be said of it."""

    name: str
    there: bool
    note: str


def space_of(path: str) -> Any:
    """The namespace of ours at PyTorch's path; None where there is none."""
    parts = path.split(".")[1:]
    try:
        return functools.reduce(getattr, parts, wg.torch)
    except AttributeError:
        try:
            return importlib.import_module(f"wengert.{path}")
        except ImportError:
            return None


def is_refused(value: Any) -> bool:
    """Whether a value stands for a name that only can be named."""
    return type(value) is Absent or isinstance(value, NamedDType)


def answers(path: str) -> list[Answer]:
    """What becomes of the names of a namespace."""
    space, below = space_of(path), path.removeprefix("torch").removeprefix(".")
    found = []
    for name in RECORDED["names"][path]:
        dotted = f"{below}.{name}" if below else name
        there = space is not None and hasattr(space, name) and not is_refused(getattr(space, name))
        note = DIFFERS.get(dotted, "") if there else reason(dotted)
        found.append(Answer(name, there, note or ""))
    return found


def page() -> str:
    """The whole page, as Markdown."""
    out = [HEAD]
    total = there = 0
    for path in RECORDED["names"]:
        found = answers(path)
        works = [a for a in found if a.there and not a.note]
        total, there = total + len(found), there + sum(a.there for a in found)
        out.append(f"## {path}\n")
        out.append(f"{sum(a.there for a in found)} of {len(found)} names.\n")
        if works:
            out.append("Works: " + ", ".join(f"`{a.name}`" for a in works) + ".\n")
        differs = [a for a in found if a.there and a.note]
        if differs:
            out.append("| differs | how |\n| --- | --- |")
            out += [f"| `{a.name}` | {a.note} |" for a in differs]
            out.append("")
        refused = sorted((a for a in found if not a.there), key=lambda a: (a.note, a.name))
        if refused:
            out.append("| refused | why |\n| --- | --- |")
            for note, group in groupby(refused, key=lambda a: a.note):
                out.append(f"| {', '.join(f'`{a.name}`' for a in group)} | {note} |")
            out.append("")
    out.insert(1, f"Of {total} names {there} are there.\n")
    return "\n".join(out)
