"""What a function can reach without its arguments: tensors, other cells, and the values that steer it.

The search starts at the function: its closure, its defaults, what it is bound to, and the globals
that its code names, on through functions, containers, modules and other objects. An attribute of an
ordinary object counts only where some reachable code has a name like its own, so that a counter that
the function never mentions is none of its business.
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from operator import setitem
from typing import Any, NamedTuple

import numpy as np

from ...core.at_once import Call
from ...core.cells import Cell, TensorCell
from ...core.errors import PACKAGE_DIR
from ...core.node import Hooked, hooks_changed
from ...core.tensor import LEAF, DataView, Tensor, hangs_on_open

# A list of more plain values than this is data, not a list of options: its length is looked at only.
_LONG = 1000
_SCALARS = (bool, int, float, complex, str, bytes, type(None), np.generic, np.dtype)
_FUNCTIONS = (types.FunctionType, types.MethodType, types.BuiltinFunctionType, functools.partial)


class Place(NamedTuple):
    """Where a value was found: an item of a dict, list or closure cell; `holder` None: nowhere that can change."""

    holder: Any
    name: Any
    path: str

    def read(self) -> Any:
        """What stands there now; `MISSING` where nothing does."""
        holder = self.holder
        if type(holder) is types.CellType:
            try:
                return holder.cell_contents
            except ValueError:
                return MISSING
        if isinstance(holder, dict):
            return holder.get(self.name, MISSING)
        if isinstance(holder, list):
            return holder[self.name] if self.name < len(holder) else MISSING
        return getattr(holder, self.name, MISSING)

    def write(self, value: Any) -> Call:
        """The call that puts a value there; `MISSING` takes away what is there."""
        holder = self.holder
        if type(holder) is types.CellType:
            return setattr, holder, "cell_contents", value
        if isinstance(holder, dict) and value is MISSING:
            return holder.pop, self.name, None
        if isinstance(holder, (dict, list)):
            return setitem, holder, self.name, value
        return setattr, holder, self.name, value


class Check(NamedTuple):
    """One thing to look at before every run: what stands at `name` of `holder` has to be `value`.

    kinds: "cell", "item", "entry", "attribute": the contents of a closure's cell, an item of a dict, an
    entry of a list, an attribute; "length": of a container; "tensor": `value` its spec and node; "value": of a
    tensor, its array;
    "static": what an object's `__jit_static__` gives, by equality.
    """

    kind: str
    holder: Any
    name: Any
    value: Any

    def text(self, name: Callable[[Any], str]) -> str:
        """The check in Python; `name` gives the names of values."""
        h, v = name(self.holder), name(self.value)
        if self.kind == "cell":
            return f"{h}.cell_contents is {v}"
        if self.kind == "item":
            return f"{h}.get({name(self.name)}) is {v}"
        if self.kind == "entry":
            return f"{h}[{self.name}] is {v}"
        if self.kind == "attribute":
            return f"getattr({h}, {name(self.name)}, None) is {v}"
        if self.kind == "length":
            return f"len({h}) == {self.value}"
        if self.kind == "value":
            return f"{h}._data is {v}"
        if self.kind == "tensor":
            spec, node = self.value
            same = f"{h}._spec is {name(spec)} and " if spec is not None else ""
            return f"{same}{h}.node is {name(node)}"
        return f"{h}.__jit_static__() == {v}"


def checker(checks: Sequence[Check]) -> Callable[[], bool]:
    """A function that makes the checks."""
    values: dict[str, Any] = {}

    def name(value: Any) -> str:
        values[f"v{len(values)}"] = value
        return f"v{len(values) - 1}"

    source = "def holds():\n    return " + " and ".join([f"({c.text(name)})" for c in checks] or ["True"])
    exec(compile(source, "<wengert guards>", "exec"), values)
    found: Callable[[], bool] = values["holds"]
    return found


class _Missing:
    def __repr__(self) -> str:
        return "nothing"


MISSING: Any = _Missing()


class Surroundings:
    """What was found, in an order that depends on the program alone.

    `key` is hashable: for two surroundings of one key the same program is right, cell for cell.
    `holds()` says, in well under a microsecond for most functions, whether everything is still where
    it was found. `places` are where tensors stand and might be replaced, `containers` what might gain
    something.
    """

    def __init__(self) -> None:
        self.cells: list[Cell] = []
        self.places: list[tuple[Place, Any]] = []
        self.containers: list[tuple[Any, Any, str]] = []
        self.names: dict[tuple[Any, ...], str] = {}
        self.numbers: dict[tuple[Any, ...], int] = {}
        self.key: tuple[Any, ...] = ()
        self.facts: list[tuple[str, Any]] = []
        self.checks: list[Check] = []
        self.alive: list[Any] = []  # identities in the key stay taken

    @cached_property
    def holds(self) -> Callable[[], bool]:
        """Made when it is first asked for: a function that is called once needs none."""
        return checker(self.checks)


def explore(roots: Iterable[tuple[str, Any]], always: Iterable[Any] = (), fixed: Iterable[Tensor] = ()) -> Surroundings:
    """What `roots` (each with a name) lead to, and the objects in `always`, which every function may use.

    The `fixed` tensors are constants of the program, by their values.
    """
    roots, always = list(roots), list(always)
    constants = {id(t) for t in fixed}
    names: set[str] = set()
    while True:
        walk = _Walk(names, constants)
        for path, root in roots:
            walk.visit(root, Place(None, None, path))
        for root in always:
            walk.visit(root, Place(None, None, type(root).__name__))
        if walk.names == names:
            return walk.finish()
        names = walk.names


class _Walk:
    """One walk, by the attribute names that the code found so far mentions."""

    def __init__(self, names: set[str], constants: set[int]) -> None:
        self.known = names
        self.constants = constants
        self.names = set(names)
        self.found = Surroundings()
        self.seen: dict[int, int] = {}
        self.alive: list[Any] = []  # what was seen stays alive, so that no other object takes its id
        self.key: list[Any] = []
        self.checks: list[Check] = []
        self.watches_hooks = False

    def finish(self) -> Surroundings:
        found = self.found
        found.key = tuple(self.key)
        found.alive = self.alive
        found.checks = self.checks
        return found

    def note(self, place: Place, kind: str, value: Any) -> None:
        """Something that the program depends on."""
        self.key.append((place.path, kind, value))
        self.found.facts.append((f"{place.path}: {kind}", value))

    def check(self, kind: str, holder: Any, name: Any, value: Any) -> None:
        self.checks.append(Check(kind, holder, name, value))

    def watch(self, place: Place, value: Any) -> None:
        """Check before every run that `value` is still in its place."""
        holder = place.holder
        if holder is None:
            return
        if type(holder) is types.CellType:
            kind = "cell"
        elif isinstance(holder, dict):
            kind = "item"
        else:
            kind = "entry" if isinstance(holder, list) else "attribute"
        self.check(kind, holder, place.name, value)

    # -- what there is

    def visit(self, value: Any, place: Place) -> None:
        if place.holder is not None:
            self.found.places.append((place, value))
        if isinstance(value, _SCALARS):
            if isinstance(value, (np.generic, float)) and value != value:
                self.note(place, "nan", type(value))
            else:
                self.note(place, type(value).__name__, value)
            self.watch(place, value)
            return
        number = self.seen.get(id(value))
        if number is not None:
            self.note(place, "the same as", number)
            self.watch(place, value)
            return
        self.seen[id(value)] = len(self.alive)
        self.alive.append(value)
        if isinstance(value, Tensor):
            self.tensor(value, place)
        elif isinstance(value, (dict, list, tuple, set, frozenset)):
            self.watch(place, value)
            self.container(value, place)
        elif isinstance(value, _FUNCTIONS):
            self.watch(place, value)
            self.function(value, place)
        elif isinstance(value, types.ModuleType):
            self.module(value, place)
        elif isinstance(value, type):
            self.note(place, "class", id(value))
            self.watch(place, value)
            self.methods(value, place)
        elif isinstance(value, types.CodeType):
            self.code(value)
        else:
            self.watch(place, value)
            self.thing(value, place)

    def tensor(self, t: Tensor, place: Place) -> None:
        self.watch(place, t)
        if isinstance(t, DataView):
            self.note(place, "another name", None)
            self.visit(t.owner, Place(None, None, place.path))
        elif id(t) in self.constants and t._data is not None and not t.requires_grad:
            self.note(place, "constant", (t.spec, t._data.tobytes()))
            self.check("value", t, None, t._data)
            self.check("tensor", t, None, (None, t.node))
        else:
            self.cell(TensorCell(t), place)

    def cell(self, cell: Cell, place: Place) -> None:
        found = self.found
        if cell.key in found.names:
            return
        found.names[cell.key] = place.path
        found.numbers[cell.key] = len(found.cells)
        found.cells.append(cell)
        if not isinstance(cell, TensorCell):
            self.note(place, "cell", (type(cell), cell.spec))
            return
        t = cell.tensor
        self.seen.setdefault(id(t), len(self.alive))
        self.alive.append(t)
        collects = t.node is not None and t.node.op is LEAF
        self.note(place, type(t).__name__, (t.spec, collects, t.requires_grad, hangs_on_open(t)))
        if collects:
            self.hooks(t, place)
        if t._data is not None:
            self.check("tensor", t, None, (None if t.is_weak else t._spec, t.node))

    def hooks(self, leaf: Tensor, place: Place) -> None:
        """The hooks of a leaf run where the program takes its gradient: they are part of it, with what they reach."""
        if not self.watches_hooks:
            self.watches_hooks = True
            self.check("item", hooks_changed, "leaves", hooks_changed["leaves"])
        saved = leaf.node.saved  # type: ignore[union-attr]
        hooks = tuple(saved.hooks.values()) if type(saved) is Hooked else ()
        if hooks:
            self.note(place, "hooks", len(hooks))
        for i, hook in enumerate(hooks):
            self.visit(hook, Place(None, None, f"{place.path}.hooks[{i}]"))

    def container(self, value: Any, place: Place) -> None:
        self.note(place, type(value).__name__, len(value))
        if isinstance(value, (dict, list, set)):
            self.check("length", value, None, len(value))
        if isinstance(value, dict):
            self.found.containers.append((value, dict(value), place.path))
            for key, item in list(value.items()):
                self.visit(item, Place(value, key, f"{place.path}[{key!r}]"))
        elif len(value) <= _LONG or not all(isinstance(v, _SCALARS) for v in value):
            if isinstance(value, list):
                self.found.containers.append((value, list(value), place.path))
            holder = value if isinstance(value, list) else None
            items = value if isinstance(value, (list, tuple)) else sorted(value, key=repr)
            for i, item in enumerate(items):
                self.visit(item, Place(holder, i, f"{place.path}[{i}]"))

    def function(self, fn: Any, place: Place) -> None:
        if isinstance(fn, functools.partial):
            for part in ("func", "args", "keywords"):
                self.visit(getattr(fn, part), Place(None, None, f"{place.path}.{part}"))
            return
        if isinstance(fn, types.MethodType):
            self.visit(fn.__self__, Place(None, None, "self"))
            self.visit(fn.__func__, Place(None, None, place.path))
            return
        if isinstance(fn, types.BuiltinFunctionType):
            return
        code = fn.__code__
        self.note(place, "function", id(code))
        for item in (*(fn.__defaults__ or ()), *(fn.__kwdefaults__ or {}).values(), *fn.__dict__.values()):
            self.visit(item, Place(None, None, f"{place.path}.<default>"))
        for name, cell in zip(code.co_freevars, fn.__closure__ or ()):
            held = Place(cell, name, name)
            value = held.read()
            if value is not MISSING:
                self.visit(value, held)
        if _is_library(code.co_filename):
            return
        for name in self.code(code):
            if name in fn.__globals__ and not name.startswith("__"):
                self.visit(fn.__globals__[name], Place(fn.__globals__, name, name))

    def code(self, code: types.CodeType) -> list[str]:
        """The names in a code object and in those inside it."""
        names = list(code.co_names)
        for const in code.co_consts:
            if isinstance(const, types.CodeType):
                names += self.code(const)
        self.names.update(names)
        return names

    def module(self, module: types.ModuleType, place: Place) -> None:
        file = getattr(module, "__file__", None)
        if file is None or _is_library(file) or module.__name__.partition(".")[0] in sys.stdlib_module_names:
            return
        for name in sorted(self.known & module.__dict__.keys()):
            self.visit(module.__dict__[name], Place(module.__dict__, name, f"{module.__name__}.{name}"))

    def methods(self, cls: type, place: Place) -> None:
        """The functions of a user's class, and the values that stand in it."""
        for base in reversed(cls.__mro__):
            if _is_library(getattr(sys.modules.get(base.__module__), "__file__", None) or "") or base is object:
                continue
            for name, value in list(base.__dict__.items()):
                inner = getattr(value, "__func__", None) or getattr(value, "fget", None) or value
                if isinstance(inner, types.FunctionType):
                    self.visit(inner, Place(None, None, f"{base.__name__}.{name}"))
                elif name in self.known and isinstance(value, (*_SCALARS, Tensor)):
                    self.visit(value, Place(None, None, f"{base.__name__}.{name}"))

    def thing(self, value: Any, place: Place) -> None:
        """Any other object: by its own cells where it has them, else by its attributes."""
        kind = type(value)
        if hasattr(kind, "__jit_cells__"):
            for cell in value.__jit_cells__():
                self.cell(cell, place)
            if kind.__jit_static__ is None:
                self.note(place, kind.__name__, None)
                return
            static = value.__jit_static__()
            self.note(place, kind.__name__, static)
            self.check("static", value, None, static)
            return
        wrapped = getattr(value, "__wrapped__", None)
        if wrapped is not None:
            self.visit(wrapped, Place(None, None, place.path))
            return
        own = getattr(value, "__dict__", None)
        self.note(place, "object", kind if own is not None else id(value))
        if own is None or isinstance(own, types.MappingProxyType):
            slots = [s for c in kind.__mro__ for s in getattr(c, "__slots__", ()) if s in self.known]
            for name in slots:
                if hasattr(value, name):
                    self.visit(getattr(value, name), Place(value, name, f"{place.path}.{name}"))
            return
        is_module = hasattr(kind, "named_parameters")
        if not _is_library(getattr(sys.modules.get(kind.__module__), "__file__", None) or ""):
            self.visit(kind, Place(None, None, kind.__name__))
        elif not (is_module or kind.__module__.startswith("wengert.")):
            return
        self.found.containers.append((own, dict(own), place.path))
        if is_module:  # a new part would change what runs
            self.check("length", own, None, len(own))
        for name, item in list(own.items()):
            # Everything in a module steers it, whoever wrote its code; its caches are its own business.
            if name in self.known or (is_module and (not name.startswith("_") or name in _REGISTRIES)):
                self.visit(item, Place(own, name, f"{place.path}.{name}" if place.path else name))


_REGISTRIES = ("_pre_hooks", "_hooks")


@functools.cache
def _is_library(file: str) -> bool:
    """Whether code is Wengert's, Python's or an installed package's: it has no state of the user's in its globals."""
    return file.startswith((PACKAGE_DIR, "<frozen", sys.base_prefix + "/lib/python")) or (
        "site-packages" in file or "dist-packages" in file
    )
