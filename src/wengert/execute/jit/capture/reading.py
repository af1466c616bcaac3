"""Analysis of code: the names that it can read, and the code that ran while a function was traced.

A compiled function depends on what its Python code read while it was traced. Python does not tell who reads
what, but all that code reads of an object, a module or its globals it reads by a name that stands in it; what it
reads by a name that is computed (`getattr(x, name)`, `vars(x)`) may be anything, and code that does so says so.
"""

from __future__ import annotations

import dis
import importlib.util
import os
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from ....core.errors import is_internal

# Among a class's flags: whether it was made by Python code, or could have been.
HEAP_TYPE = 1 << 9
_STDLIB = os.path.dirname(os.__file__) + os.sep
_GLOBALS = {"LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL", "LOAD_NAME", "STORE_NAME", "LOAD_FROM_DICT_OR_GLOBALS"}
_ATTRIBUTES = {"LOAD_ATTR", "STORE_ATTR", "DELETE_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "IMPORT_FROM"}
# By how many bits the number of a name is shifted in an instruction's argument: flags are below it.
_SHIFTS = {"LOAD_GLOBAL": 1, "LOAD_SUPER_ATTR": 2} | ({"LOAD_ATTR": 1} if sys.version_info >= (3, 12) else {})
_OTHERS = {"LOAD_CONST", "LOAD_SMALL_INT", "LOAD_DEREF", "PRECALL", "CALL", "IMPORT_NAME", "MATCH_CLASS"}
_OTHERS |= {"PUSH_EXC_INFO", "WITH_EXCEPT_START", "CHECK_EXC_MATCH"}
_OTHERS |= {name for name in dis.opmap if name.startswith("LOAD_FAST")}
_OPS = {i: name for name, i in dis.opmap.items() if name in _GLOBALS | _ATTRIBUTES | _OTHERS}
_EXTENDED, _CACHE = dis.opmap["EXTENDED_ARG"], dis.opmap["CACHE"]
# Builtins that take an attribute's name, that read names unknown, and modules whose functions do.
_BY_NAME = {"getattr", "hasattr", "setattr", "delattr"}
_ANY = {"vars", "dir", "eval", "exec"}
_ANY_GLOBALS = {"globals", "eval", "exec"}
_EVERY_ERROR = {"AttributeError", "Exception", "BaseException"}
_ANY_ATTRIBUTES = {"__dict__", "__getattribute__", "__getstate__", "__reduce_ex__"}
_REFLECTING_BUILTINS = (getattr, hasattr, setattr, delattr, vars, dir, eval, exec)
_REFLECTING = {"copy", "dataclasses", "inspect", "operator", "pickle", "pprint"}
# Modules of Python's that look through objects, but only through their own.
_HARMLESS = {"abc", "contextlib", "enum", "functools", "logging", "random", "re", "threading", "types", "typing"}
_HARMLESS_FUNCTIONS = {"is_dataclass", "fields"}
_HARMLESS |= {"warnings", "weakref", "linecache", "traceback", "tokenize", "collections", "_collections_abc", "os"}


class Chain(NamedTuple):
    """A global name, the attributes that are read from it one after the other, and whether the last is called."""

    root: str
    attributes: tuple[str, ...]
    is_called: bool


class Names(NamedTuple):
    """The names that one code object mentions, without those inside it (`inner`).

    `read` are attributes, `called` those that are only called there (as in `x.sum()`), `asked` those that may not be
    there; `imported` modules, by name and level. `reflects`: it may read any attribute. `tries`: it may go on where
    any is missing.
    """

    chains: tuple[Chain, ...]
    read: frozenset[str]
    called: frozenset[str]
    asked: frozenset[str]
    imported: tuple[tuple[str, int], ...]
    reflects: bool
    tries: bool
    inner: tuple[types.CodeType, ...]


_names: WeakKeyDictionary[types.CodeType, Names] = WeakKeyDictionary()


def names_of(code: types.CodeType) -> Names:
    """Return the names in a code object."""
    found = _names.get(code)
    if found is None:
        found = _names[code] = _Scan(code).names()
    return found


class _Instruction(NamedTuple):
    op: str
    arg: int


def _instructions(code: types.CodeType) -> Iterator[_Instruction]:
    """Return the instructions; those that are of no interest here have no name."""
    extended = 0
    raw = code.co_code
    for i in range(0, len(raw), 2):
        op = raw[i]
        if op == _CACHE:
            continue
        arg = raw[i + 1] | extended
        if op == _EXTENDED:
            extended = arg << 8
            continue
        extended = 0
        yield _Instruction(_OPS.get(op, ""), arg)


class _Scan:
    """A walk along one code object's instructions."""

    def __init__(self, code: types.CodeType) -> None:
        self.code = code
        self.ops = list(_instructions(code))
        self.chains: list[Chain] = []
        self.read: set[str] = set()
        self.called: set[str] = set()
        self.asked: set[str] = set()
        self.imported: list[tuple[str, int]] = []
        self.reflects = False

    def names(self) -> Names:
        i = 0
        while i < len(self.ops):
            i = self.step(i)
        kinds = [op for op, _ in self.ops]
        tries = kinds.count("PUSH_EXC_INFO") > kinds.count("WITH_EXCEPT_START") and "CHECK_EXC_MATCH" not in kinds
        consts = self.code.co_consts
        return Names(
            tuple(dict.fromkeys(self.chains)),
            frozenset(self.read),
            frozenset(self.called - self.read),
            frozenset(self.asked),
            tuple(self.imported),
            self.reflects,
            tries or not _EVERY_ERROR.isdisjoint(self.code.co_names),
            tuple(c for c in consts if isinstance(c, types.CodeType)),
        )

    def step(self, i: int) -> int:
        """Look at instruction i, and return the number of the next to look at."""
        op, arg = self.ops[i]
        if op in _GLOBALS:
            return self.chain(i)
        if op in _ATTRIBUTES:
            name = self.name(i)
            (self.called if self.is_call(i) else self.read).add(name)
            self.reflects |= name in _ANY_ATTRIBUTES
        elif op == "IMPORT_NAME":
            level = self.constant(i - 2)
            self.imported.append((self.code.co_names[arg], level if isinstance(level, int) else 0))
        elif op == "MATCH_CLASS":
            keywords = self.constant(i - 1)
            self.read.update(keywords if isinstance(keywords, tuple) else ())
            self.reflects |= arg > 0  # positions stand for attributes that the class names
        return i + 1

    def chain(self, i: int) -> int:
        """Record a global name, and what is read from it; return the number of the next instruction."""
        root, k = self.name(i), i + 1
        if root in _BY_NAME:
            name = self.attribute_of_call(k)
            if name is None:
                self.reflects = True
            else:
                self.read.add(name)
                self.asked.add(name)
        self.reflects |= root in _ANY
        attributes: list[str] = []
        called = False
        while not called and k < len(self.ops) and self.ops[k].op in ("LOAD_ATTR", "LOAD_METHOD"):
            attributes.append(self.name(k))
            called = self.is_call(k)
            k += 1
        if k < len(self.ops) and not called and self.ops[k].op in ("STORE_ATTR", "DELETE_ATTR"):
            attributes.append(self.name(k))
            k += 1
        self.reflects |= not _ANY_ATTRIBUTES.isdisjoint(attributes)
        self.chains.append(Chain(root, tuple(attributes), called))
        return k

    def attribute_of_call(self, i: int) -> str | None:
        """Return the name that a call of `getattr` or the like is given as a literal, if no call comes before."""
        given: list[Any] = []
        while i < len(self.ops):
            op, arg = self.ops[i]
            if op == "CALL":
                name = given[1 - arg] if len(given) >= arg >= 2 else None
                return name if isinstance(name, str) else None
            if op in ("LOAD_CONST", "LOAD_SMALL_INT"):
                given.append(self.constant(i))
            elif op.startswith(("LOAD_FAST", "LOAD_DEREF")) or (op == "LOAD_GLOBAL" and not arg & 1):
                given += [None] * op.count("LOAD_")
            elif op not in ("LOAD_ATTR", "PRECALL") or self.is_call(i):
                return None
            i += 1
        return None

    def constant(self, i: int) -> Any:
        op, arg = self.ops[i] if i >= 0 else ("", 0)
        return self.code.co_consts[arg] if op == "LOAD_CONST" else arg if op == "LOAD_SMALL_INT" else None

    def name(self, i: int) -> str:
        op, arg = self.ops[i]
        return self.code.co_names[arg >> _SHIFTS.get(op, 0)]

    def is_call(self, i: int) -> bool:
        """Return whether an attribute is read to be called at once."""
        op, arg = self.ops[i]
        if op == "LOAD_ATTR":
            return sys.version_info >= (3, 12) and bool(arg & 1)
        return op == "LOAD_METHOD" or (op == "LOAD_SUPER_ATTR" and bool(arg & 1))


# -- whose code it is


@cache
def is_library(file: str) -> bool:
    """Return whether code in a file is Wengert's, Python's or of an installed package that does not build on Wengert.

    Such code has no state of the user's in its globals and its classes, and is not searched.
    """
    if is_internal(file) or file.startswith("<frozen"):
        return True
    parts = file.replace(os.sep, "/").split("/")
    for folder in ("site-packages", "dist-packages"):
        if folder in parts:
            package = parts[parts.index(folder) + 1].partition(".")[0]
            return not _builds_on_wengert(package)
    return file.startswith(_STDLIB)


def _builds_on_wengert(package: str) -> bool:
    """Return whether a loaded module of an installed package has something of Wengert's among its names."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == package and isinstance(module, types.ModuleType):
            for value in list(module.__dict__.values()):
                if isinstance(value, types.ModuleType):
                    origin = value.__name__
                elif isinstance(value, (type, types.FunctionType)):
                    origin = value.__module__ or ""
                else:
                    continue
                if origin.partition(".")[0] == "wengert":
                    return True
    return False


@cache
def is_library_module(name: str) -> bool:
    """Return whether a module is a library's, by its name; see `is_library`."""
    if (
        name == "__main__"
    ):  # what is called so belongs to the user, whatever runs it (a notebook's kernel, a test runner)
        return False
    if name.partition(".")[0] in sys.stdlib_module_names:
        return True
    return is_library(getattr(sys.modules.get(name), "__file__", None) or "")


def is_library_class(cls: type) -> bool:
    """Return whether a class is a library's; see `is_library`."""
    module = cls.__module__
    if module == "builtins":  # so are classes called that code without a module makes
        return not cls.__flags__ & HEAP_TYPE
    return not isinstance(module, str) or is_library_module(module)


def is_library_code(code: types.CodeType, globals: Mapping[str, Any]) -> bool:
    """Return whether code is a library's; named tuples, dataclasses and the like have code without a file."""
    if code.co_filename == "<string>":
        name = str(globals.get("__name__", ""))
        return name.startswith("namedtuple_") or is_library_module(name)
    return is_library(code.co_filename)


# -- what names lead to


class Resolved(NamedTuple):
    """The reach of code with given globals: `places`, items of dicts with their paths, and names of attributes.

    A place may have nothing in it now.
    """

    places: tuple[tuple[dict[str, Any], str, str], ...]
    reflects: bool
    read: frozenset[str]
    called: frozenset[str]


def resolve(names: Names, globals: dict[str, Any]) -> Resolved:
    """Follow the global names of a code object as far as they lead through modules."""
    places: dict[tuple[int, str], tuple[dict[str, Any], str, str]] = {}
    read, called, reflects = set(names.read), set(names.called), names.reflects
    chains: Sequence[Chain] = names.chains
    if any(chain.root in _ANY_GLOBALS for chain in chains):
        values = {n: v for n, v in globals.items() if n[:1] != "_" and not isinstance(v, types.ModuleType)}
        chains = (*chains, *(Chain(name, (), False) for name in sorted(values)))
    for root, attributes, is_called in chains:
        is_own = root.startswith("__") and root.endswith("__")
        if not is_own:
            places.setdefault((id(globals), root), (globals, root, root))
        if root not in globals or is_own:
            read.update(attributes[:-1])
            if attributes:
                (called if is_called else read).add(attributes[-1])
            continue
        value, path, k = globals[root], root, 0
        while k < len(attributes) and isinstance(value, types.ModuleType):
            inside = value.__dict__
            reflects |= value.__name__ in _REFLECTING
            path = f"{value.__name__}.{attributes[k]}"
            if not is_library_module(value.__name__):
                places.setdefault((id(inside), attributes[k]), (inside, attributes[k], path))
            value = inside.get(attributes[k])
            k += 1
        reflects |= isinstance(value, types.FunctionType) and value.__module__ in _REFLECTING
        reflects |= isinstance(value, types.BuiltinFunctionType) and value in _REFLECTING_BUILTINS  # by another name
        if k < len(attributes):
            read.update(attributes[k:-1])
            (called if is_called else read).add(attributes[-1])
    for name, level in names.imported:
        module = sys.modules.get(_absolute(name, level, globals))
        if isinstance(module, types.ModuleType) and not is_library_module(module.__name__):
            for item in sorted(names.read & module.__dict__.keys()):
                places.setdefault((id(module.__dict__), item), (module.__dict__, item, f"{module.__name__}.{item}"))
    return Resolved(tuple(places.values()), reflects, frozenset(read), frozenset(called - read))


def _absolute(name: str, level: int, globals: Mapping[str, Any]) -> str:
    if not level:
        return name
    try:
        return importlib.util.resolve_name("." * level + name, globals.get("__package__") or "")
    except ImportError:
        return name


# -- what ran

# Code objects with the globals that they ran with, by their identity.
Ran = dict[int, tuple[types.CodeType, dict[str, Any]]]


@contextmanager
def recording() -> Iterator[Ran | None]:
    """Record the code that runs meanwhile in this thread; None where a profiler takes the place for that."""
    if sys.getprofile() is not None:
        yield None
        return
    ran: Ran = {}

    def look(frame: types.FrameType, event: str, _: Any) -> None:
        if event == "call":
            code = frame.f_code
            if id(code) not in ran:
                ran[id(code)] = code, frame.f_globals

    sys.setprofile(look)
    try:
        yield ran
    finally:
        sys.setprofile(None)


class Mentioned:
    """The attributes that code mentions: `read`, only `called`, `asked` for although they may be missing.

    `reflects`: any may be read. `tries`: any may be missing.
    """

    def __init__(self) -> None:
        self.read: set[str] = set()
        self.called: set[str] = set()
        self.asked: set[str] = set()
        self.reflects = self.tries = False

    def add(self, names: Names, found: Resolved) -> None:
        """Add what a code object mentions."""
        self.read |= found.read
        self.called |= found.called
        self.called -= self.read
        self.asked |= names.asked
        self.reflects |= found.reflects
        self.tries |= names.tries

    def has(self, name: str) -> bool:
        return name in self.read or name in self.called

    def names(self, name: str, value: Any) -> bool:
        """Return whether an attribute of this name and value is read; what is only called must be callable."""
        return name in self.read or (name in self.called and callable(value))

    def wants(self, name: str, value: Any) -> bool:
        """Return whether an attribute of this name and value may be read."""
        return self.reflects or self.names(name, value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mentioned) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]


class Reads:
    """The attributes that some traces of a function read, by the code that ran in them."""

    def __init__(self, ran: Ran) -> None:
        self.codes: set[types.CodeType] = set()
        self._known: dict[tuple[types.CodeType, int], dict[str, Any]] = {}
        self.mentioned = Mentioned()
        self.places: dict[tuple[int, str], tuple[dict[str, Any], str, str]] = {}
        for code, globals in ran.values():
            self._add(code, globals)

    def _add(self, code: types.CodeType, globals: dict[str, Any]) -> None:
        if is_library_code(code, globals):
            self.mentioned.reflects |= _looks_through_objects(code)
            return
        self.codes.add(code)
        self._known[code, id(globals)] = globals
        names = names_of(code)
        found = resolve(names, globals)
        self.mentioned.add(names, found)
        for place in found.places:
            self.places.setdefault((id(place[0]), place[1]), place)

    def cover(self, ran: Ran) -> bool:
        """Return whether all code that ran is known to these."""
        for code, globals in ran.values():
            if is_library_code(code, globals):
                if not self.mentioned.reflects and _looks_through_objects(code):
                    return False
            elif (code, id(globals)) not in self._known:
                return False
        return True

    def joined(self, ran: Ran) -> Reads:
        """Return the union of these with what another trace ran."""
        made = Reads(ran)
        made.mentioned.reflects |= self.mentioned.reflects
        for (code, _), globals in self._known.items():
            made._add(code, globals)
        return made


@cache
def _is_harmless(file: str) -> bool:
    """Return whether a library's code looks through no objects but its own (Wengert's: in ways that are known)."""
    if is_internal(file) or file.startswith("<"):
        return True
    if file.startswith(_STDLIB) and "-packages" not in file:
        return file[len(_STDLIB) :].replace(os.sep, "/").partition("/")[0].removesuffix(".py") in _HARMLESS
    return "/numpy/" in file.replace(os.sep, "/")


def _looks_through_objects(code: types.CodeType) -> bool:
    if _is_harmless(code.co_filename) or code.co_name in _HARMLESS_FUNCTIONS:
        return False
    return names_of(code).reflects
