"""WebAssembly without a linker: one object of LLVM's becomes a module that an engine runs.

An object takes its memory and the pointer to its stack from elsewhere; a module has them itself. Functions keep their
numbers, for an object of ours calls no others. Data moves behind the stack, so what the object's relocations say are
addresses grows by the stack's size. The format: https://webassembly.github.io/spec/core/binary, and the conventions of
objects: https://github.com/WebAssembly/tool-conventions/blob/main/Linking.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..core.errors import GraphError, fail
from ..execute.native.plan.plan import ALIGN

# The bytes of the stack. It stands first in memory: below it there is nothing, where an overflow would go unseen.
STACK = 1 << 18
PAGE = 1 << 16
_MAGIC = b"\0asm\1\0\0\0"
_CUSTOM, _IMPORT, _MEMORY, _GLOBAL, _EXPORT, _CODE, _DATA = 0, 2, 5, 6, 7, 10, 11
_FUNCTION_SYMBOL, _DATA_SYMBOL, _SECTION_SYMBOL = 0, 1, 3
_UNDEFINED, _EXPLICIT_NAME = 0x10, 0x40
# Relocations that say addresses: as a LEB of five bytes, unsigned or signed, and as four bytes.
_ADDRESS_LEB, _ADDRESS_SLEB, _ADDRESS_I32 = 3, 4, 5
_WITH_ADDEND = {3, 4, 5, 8, 9, 11, 14, 15, 16, 17, 21, 22, 23, 25}


class _Bytes:
    """A reader of bytes, from a place on."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data, self.at = data, at

    @property
    def is_over(self) -> bool:
        return self.at >= len(self.data)

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def leb(self) -> int:
        """Read a number, of any size, without a sign."""
        found = shift = 0
        while True:
            byte = self.byte()
            found |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return found

    def take(self, count: int) -> bytes:
        self.at += count
        return self.data[self.at - count : self.at]

    def name(self) -> str:
        return self.take(self.leb()).decode()


class _Symbols(NamedTuple):
    """The symbols of an object: functions by name with their numbers, data by name with its segment and offset."""

    functions: dict[str, int]
    data: dict[str, tuple[int, int]]


def leb(number: int) -> bytes:
    """Return a number as a LEB without a sign."""
    found = bytearray()
    while True:
        number, low = number >> 7, number & 127
        found.append(low | (128 if number else 0))
        if not number:
            return bytes(found)


def _sleb(number: int) -> bytes:
    """Return a number, not below 0, as a LEB with a sign."""
    found = bytearray()
    while number > 63:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def _wide(number: int) -> bytes:
    """Return a number as a LEB of five bytes, as relocations have room for; below 2^31 a sign changes nothing."""
    return bytes((number >> shift & 127) | (128 if shift < 28 else 0) for shift in range(0, 35, 7))


def _section(kind: int, content: bytes) -> bytes:
    return bytes([kind]) + leb(len(content)) + content


def _named(name: str) -> bytes:
    return leb(len(name.encode())) + name.encode()


def linked(code: bytes, functions: Sequence[str], constants: Sequence[str]) -> bytes:
    """Return an object as a module that exports its memory, functions, and the addresses of constants.

    Beside these it exports `__heap_base`, from where on memory is the caller's. Raises GraphError for an object that
    calls what is not in it.
    """
    sections: list[tuple[int, bytes]] = []
    relocations: dict[int, bytes] = {}
    symbols = _Symbols({}, {})
    reader = _Bytes(code, len(_MAGIC))
    while not reader.is_over:
        kind = reader.byte()
        content = reader.take(reader.leb())
        if kind == _CUSTOM:
            custom = _Bytes(content)
            name = custom.name()
            if name == "linking":
                symbols = _symbols(custom)
            elif name.startswith("reloc."):
                number = custom.leb()
                relocations[number] = content[custom.at :]
        if kind == _IMPORT:
            _check_imports(content)
        sections.append((kind, content))
    moved = [
        (kind, _relocated(content, relocations[i]) if i in relocations and kind in (_CODE, _DATA) else content)
        for i, (kind, content) in enumerate(sections)
    ]
    data = next((content for kind, content in moved if kind == _DATA), b"\0")
    placed, starts, end = _placed(data)
    base = -(-end // ALIGN) * ALIGN
    addresses = {name: starts[symbols.data[name][0]] + symbols.data[name][1] for name in constants}
    numbers = [STACK, base, *addresses.values()]
    values = leb(len(numbers))
    for i, number in enumerate(numbers):  # i32, which only the stack's pointer changes
        values += bytes([0x7F, i == 0, 0x41]) + _sleb(number) + b"\x0b"
    exports = [("memory", 2, 0), *((name, 0, symbols.functions[name]) for name in functions), ("__heap_base", 3, 1)]
    exports += [(name, 3, 2 + i) for i, name in enumerate(addresses)]
    told = leb(len(exports)) + b"".join(_named(name) + bytes([what]) + leb(i) for name, what, i in exports)
    made = {
        _MEMORY: _section(_MEMORY, b"\1\0" + leb(-(-base // PAGE))),
        _GLOBAL: _section(_GLOBAL, values),
        _EXPORT: _section(_EXPORT, told),
    }
    before = b"".join(_section(kind, content) for kind, content in moved if 0 < kind < _MEMORY and kind != _IMPORT)
    # Between exports and code comes the number of pieces of data, which has a later number.
    after = b"".join(_section(kind, placed if kind == _DATA else content) for kind, content in moved if kind > _EXPORT)
    return _MAGIC + before + b"".join(made.values()) + after


def _check_imports(content: bytes) -> None:
    reader = _Bytes(content)
    for _ in range(reader.leb()):
        reader.name()
        name = reader.name()
        kind = reader.byte()
        if kind == 0:
            fail(
                GraphError, f"a program for WebAssembly calls {name}, which there is none of", "Another target has it."
            )
        if kind == 2:
            flags = reader.byte()
            reader.leb()
            if flags & 1:
                reader.leb()
        elif kind == 1:
            reader.byte()
            flags = reader.byte()
            reader.leb()
            if flags & 1:
                reader.leb()
        else:
            reader.take(2)


def _symbols(reader: _Bytes) -> _Symbols:
    """Return the symbols of a section on linking."""
    found = _Symbols({}, {})
    reader.leb()  # the version
    while not reader.is_over:
        kind = reader.byte()
        size = reader.leb()
        end = reader.at + size
        if kind == 8:
            for _ in range(reader.leb()):
                _symbol(reader, found)
        reader.at = end
    return found


def _symbol(reader: _Bytes, found: _Symbols) -> None:
    kind, flags = reader.byte(), reader.leb()
    if kind == _DATA_SYMBOL:
        name = reader.name()
        if not flags & _UNDEFINED:
            segment, offset, _ = reader.leb(), reader.leb(), reader.leb()
            found.data[name] = segment, offset
    elif kind == _SECTION_SYMBOL:
        reader.leb()
    else:
        number = reader.leb()
        if not flags & _UNDEFINED or flags & _EXPLICIT_NAME:
            name = reader.name()
            if kind == _FUNCTION_SYMBOL:
                found.functions[name] = number


def _relocated(content: bytes, relocations: bytes) -> bytes:
    """Return a section whose addresses are moved behind the stack."""
    made, reader = bytearray(content), _Bytes(relocations)
    for _ in range(reader.leb()):
        kind, offset, _ = reader.byte(), reader.leb(), reader.leb()
        if kind in _WITH_ADDEND:
            reader.leb()
        if kind in (_ADDRESS_LEB, _ADDRESS_SLEB):
            made[offset : offset + 5] = _wide(_Bytes(content, offset).leb() + STACK)
        elif kind == _ADDRESS_I32:
            number = int.from_bytes(content[offset : offset + 4], "little") + STACK
            made[offset : offset + 4] = number.to_bytes(4, "little")
    return bytes(made)


def _placed(content: bytes) -> tuple[bytes, list[int], int]:
    """Return the section of data behind the stack, where each piece of it begins, and where the last one ends."""
    reader = _Bytes(content)
    count = reader.leb()
    made, starts, end = leb(count), [], STACK
    for _ in range(count):
        reader.leb()  # active, in the one memory
        reader.byte()  # i32.const
        start = STACK + reader.leb()
        reader.byte()  # end
        piece = reader.take(reader.leb())
        made += b"\0\x41" + _sleb(start) + b"\x0b" + leb(len(piece)) + piece
        starts.append(start)
        end = max(end, start + len(piece))
    return made, starts, end
