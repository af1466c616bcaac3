"""Source places of nodes: kept as code object and offset, resolved when asked."""

from __future__ import annotations

import linecache
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from opcode import opmap, opname
from types import CodeType


@dataclass(frozen=True, slots=True)
class Source:
    """A place in the user's program.

    `file` and `line` (from 1), the name of the enclosing `function`, and `text`, the exact
    sub-expression that ran (empty where the source is not at hand).
    """

    file: str
    line: int
    function: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


_CACHE, _STORES = opmap["CACHE"], frozenset(opmap[n] for n in ("STORE_SUBSCR", "STORE_SLICE") if n in opmap)
_BETWEEN = frozenset({_CACHE, opmap["SWAP"], opmap["EXTENDED_ARG"]})
_LOADS = frozenset(i for i, name in enumerate(opname) if name.startswith(("LOAD_", "BUILD_"))) | _BETWEEN
# Python 3.11 calls what is written in C at the first of two instructions, or at the second.
_CALL, _PRECALL = opmap["CALL"], opmap.get("PRECALL", -1)


def _past(text: bytes, offset: int, skipped: frozenset[int]) -> int:
    """Return the offset of the first instruction, from `offset` on, that is not one of the `skipped`."""
    while offset < len(text) and text[offset] in skipped:
        offset += 2
    return offset


@lru_cache(maxsize=4096)
def is_stored_back(code: CodeType, taken: int, offset: int) -> bool:
    """Return whether the instruction at `offset` is the one of `x[i] += v` that took `x[i]` at `taken`.

    Python takes the element, has it add the other operand, and stores what it gives in `x[i]`. So does
    `x[i] = operator.iadd(x[i], v)`.
    """
    text = code.co_code
    after = _past(text, offset + 2, _BETWEEN) if text[offset] == _PRECALL else offset
    is_call = text[after] == _CALL
    if not is_call and text[after] != opmap["BINARY_OP"]:
        return False
    after = _past(text, after + 2, _LOADS if is_call else _BETWEEN)
    if after >= len(text) or text[after] not in _STORES:
        return False
    if is_call:
        target = resolve(code, after).text
        return bool(target) and target == resolve(code, taken).text
    places = list(code.co_positions())
    (line, _, column, _), (taken_line, _, taken_column, _) = places[offset // 2], places[taken // 2]
    return (line, column) == (taken_line, taken_column)


@lru_cache(maxsize=4096)
def resolve(code: CodeType, offset: int) -> Source:
    """Return the place that the instruction at byte `offset` of `code` was compiled from (PEP 657)."""
    start, end, left, right = next(islice(code.co_positions(), offset // 2, None), (None,) * 4)
    line = start if start is not None else code.co_firstlineno
    text = ""
    if start is not None and end is not None and left is not None and right is not None:
        lines = [linecache.getline(code.co_filename, n) for n in range(start, end + 1)]
        if all(lines):
            # Columns are offsets into the UTF-8 text.
            raw = [piece.encode() for piece in lines]
            raw[-1] = raw[-1][:right]
            raw[0] = raw[0][left:]
            text = " ".join(piece.decode(errors="replace").strip() for piece in raw)
    return Source(code.co_filename, line, code.co_name, text)
