"""The search for captured state: tensors, other cells and plain values that a function reaches without arguments.

It starts at the function: its closure, its defaults, what it is bound to, and the globals that its code names, on
through functions, containers, modules and other objects. An attribute counts only where code that may run has a
name like its own: a counter that the function never mentions is none of its business. Which code may run is known
where a trace was watched (`reading.Reads`); before that all counts that the function's code, and code that
it names, could call.
"""

from __future__ import annotations

import array
import collections
import contextvars
import functools
import inspect
import itertools
import operator
import types
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from ....core.elsewhere import here, place_of
from ....core.errors import GENERATED, warn
from ....core.node import Hooked, hooks_changed
from ....core.ops.op import LEAF
from ....core.standins import DataView
from ....core.state.cells import Cell, TensorCell
from ....core.storage import pin, strides_of
from ....core.tensor import Tensor, depends_on_open
from .captured import (
    FUNCTIONS,
    MISSING,
    SCALARS,
    Captures,
    Check,
    Container,
    Identity,
    Place,
    contents,
    digest,
    exact,
    kept,
)
from .drawn import GENERATORS
from .reading import (
    HEAP_TYPE,
    Mentioned,
    Reads,
    is_library_class,
    is_library_code,
    is_library_module,
    names_of,
    resolve,
)

# A container of more plain values than this is data: it is compared as a whole.
_LONG = 1000
_CONTAINERS = (dict, list, tuple, set, frozenset, collections.deque, bytearray, array.array, types.MappingProxyType)
# Bytes of a NumPy array of which it is told that every call compares them.
_LARGE_ARRAY = 1 << 20
# Python's own containers and records that are made of attributes: these are read by their methods.
_RECORDS: dict[type, tuple[str, ...]] = {
    collections.UserDict: ("data",),
    collections.UserList: ("data",),
    collections.ChainMap: ("maps",),
    weakref.WeakValueDictionary: ("data",),
    weakref.WeakKeyDictionary: ("data",),
    weakref.WeakSet: ("data",),
}
_NAMESPACES = ("types.SimpleNamespace", "argparse.Namespace")
# Functions that read attributes by names which code does not show.
_GETTERS = (operator.attrgetter, operator.methodcaller)
# The attributes of a module that every call of it reads.
_REGISTRIES = ("_parameters", "_buffers", "_modules")
_MODULE_PARTS = ("_pre_hooks", "_hooks", "_gradient_hooks", "training")
# Packages of Wengert's own whose objects are what their attributes are.
_WITH_STATE = tuple(
    f"wengert.{name}"
    for name in ("nn", "optim", "distributions", "torch.distributions", "torch.nn", "train", "data", "solve", "interop")
)
# Methods that run without being named where an object is made, and those that no compiled function runs by itself.
_MAKERS = {"__init__", "__new__", "__post_init__", "__init_subclass__", "__set_name__"}
_ELSEWHERE = {"__del__", "__dir__", "__sizeof__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__"}

Visit = tuple[Any, Place]


def explore(
    roots: Iterable[tuple[str, Any]],
    always: Iterable[Any] = (),
    reads: Reads | None = None,
    guess: Mentioned | None = None,
    fixed: Iterable[Tensor] = (),
    copies: bool = False,
) -> Captures:
    """Return what `roots` (each with a name) lead to, and the objects in `always`, which every function may use.

    Given what traces have read, only that counts. `guess` is what code was found to mention in another search. The
    `fixed` tensors are constants of the program, by their values. Where `copies` of modules are results, all attributes
    of modules count, and of objects which they are.
    """
    constants = {id(t) for t in fixed}
    start = [(root, Place(None, None, path)) for path, root in roots]
    start += [(root, Place(None, None, type(root).__name__)) for root in always]
    mentioned = (guess or Mentioned()) if reads is None else reads.mentioned
    while True:
        walk = _Walk(mentioned, reads, constants, copies)
        walk.run(start)
        if reads is not None:
            walk.run(walk.read(reads.places.values()))
        if reads is None:
            is_done = walk.now == mentioned or not walk.asks
        else:
            is_done = mentioned.reflects or not walk.now.reflects
        if is_done:
            return walk.finish()
        mentioned = walk.now if reads is None else walk.everything()


class _Walk:
    """A walk through captured state, by the attribute names that are known."""

    def __init__(self, known: Mentioned, reads: Reads | None, constants: set[int], copies: bool) -> None:
        self._known = known
        self.constants = constants
        self.copies = copies
        self.asks = False  # whether anything depended on what is known
        self.reads = reads
        self.now = Mentioned()
        self.found = Captures()
        self.seen: dict[int, int] = {}
        self.been: set[tuple[int, Any]] = set()
        self.alive: list[Any] = []  # what was seen stays alive, so that no other object takes its id
        self.key: list[Any] = []
        self.checks: list[Check] = []
        self.classes: dict[type, dict[str, Any]] = {}
        self.searched: set[tuple[type, bool]] = set()
        self.watches_hooks = False
        self.held: dict[int, set[str]] = {}  # the items of dicts, by their ids, that are cells'

    @property
    def known(self) -> Mentioned:
        self.asks = True
        return self._known

    def run(self, start: Iterable[Visit]) -> None:
        """Visit all that there is, depth first."""
        stack = [iter(start)]
        while stack:
            for value, place in stack[-1]:
                inside = self.visit(value, place)
                if inside is not None:
                    stack.append(iter(inside))
                    break
            else:
                stack.pop()

    def everything(self) -> Mentioned:
        """Return the known mentions, extended so that any attribute may be read."""
        made = Mentioned()
        made.__dict__.update(self.known.__dict__, reflects=True)
        return made

    def finish(self) -> Captures:
        found = self.found
        for cls, attributes in self.classes.items():
            self.checks.append(Check("class", cls, tuple(attributes), tuple(attributes.values())))
        found.key = tuple(self.key)
        found.mentioned = self.now
        found.checks = self.checks
        return found

    def note(self, place: Place, kind: str, value: Any) -> None:
        """Record something that the program depends on."""
        self.key.append((place.path, kind, value))
        self.found.facts.append((f"{place.path}: {kind}", value))

    def check(self, kind: str, holder: Any, name: Any, value: Any) -> None:
        self.checks.append(Check(kind, holder, name, value))

    def watch(self, place: Place, value: Any) -> None:
        """Check before every run that `value` is still in its place."""
        holder = place.holder
        if holder is None:
            return
        if isinstance(holder, type):
            self.classes.setdefault(holder, {})[place.name] = value
        elif type(holder) is types.CellType:
            self.check("cell", holder, place.name, value)
        elif isinstance(holder, dict):
            self.check("item", holder, place.name, value)
        elif isinstance(holder, (list, collections.deque)):
            self.check("entry", holder, place.name, value)
        else:
            self.check("attribute", holder, place.name, value)

    # -- what there is

    def visit(self, value: Any, place: Place) -> Iterator[Visit] | None:
        """Look at a value, and return an iterator over what is in it, which comes next."""
        if place.holder is not None:
            at = id(place.holder), place.name
            if at in self.been:
                return None
            self.been.add(at)
            self.found.places.append(place)
        if isinstance(value, SCALARS):
            self.note(place, type(value).__name__, exact(value))
            self.watch(place, value)
            return None
        number = self.seen.get(id(value))
        if number is not None:
            self.note(place, "the same as", number)
            self.watch(place, value)
            return None
        self.seen[id(value)] = len(self.alive)
        self.alive.append(value)
        if isinstance(value, types.ModuleType):
            return self.module(value, place)
        self.watch(place, value)
        if isinstance(value, Tensor):
            return self.tensor(value, place)
        if isinstance(value, _CONTAINERS):
            return self.container(value, place)
        if isinstance(value, np.ndarray):
            return self.array(value, place)
        if isinstance(value, FUNCTIONS):
            return self.function(value, place)
        if isinstance(value, types.CodeType):
            self.note(place, "code", Identity(value))
            return None
        if isinstance(value, type):
            self.note(place, "class", Identity(value))
            return self.members(value, True)
        return self.thing(value, place)

    def tensor(self, t: Tensor, place: Place) -> Iterator[Visit] | None:
        if isinstance(t, DataView):
            self.note(place, "another name", None)
            return iter([(t.owner, Place(None, None, place.path))])
        if id(t) in self.constants and t._array is not None and not t.requires_grad:
            self.note(place, "constant", (t.spec, here(t._array, "a constant").tobytes()))
            pin(t)  # a write gives it another array
            self.check("value", t, None, t._array)
            self.check("tensor", t, None, (None, t.node))
            return None
        return self.cell(TensorCell(t), place)

    def cell(self, cell: Cell, place: Place) -> Iterator[Visit] | None:
        """Take in a cell; the hooks of a leaf come next, with what they reach: they run where its gradient is taken."""
        found = self.found
        if cell.key in found.names:
            return None
        found.names[cell.key] = place.path
        found.numbers[cell.key] = len(found.cells)
        found.cells.append(cell)
        if not isinstance(cell, TensorCell):
            self.note(place, "cell", (type(cell), cell.spec))
            return None
        t = cell.tensor
        self.seen.setdefault(id(t), len(self.alive))
        self.alive.append(t)
        collects = t.node is not None and t.node.op is LEAF
        lies = strides_of(t)
        self.note(place, type(t).__name__, (t.spec, place_of(t), collects, t.requires_grad, depends_on_open(t), lies))
        if t._array is not None:
            self.check("tensor", t, None, (None if t.is_weak else t._spec, t.node))
        inside = self.hooks(t, place) if collects else iter(())
        return itertools.chain(inside, self.put_on(t, place)) if hasattr(t, "__dict__") else inside

    def put_on(self, t: Tensor, place: Place) -> Iterator[Visit]:
        """Yield the attributes that a program has put on a tensor whose class has room for them."""
        kind, own = type(t), t.__dict__
        self.found.containers.append(Container(own, place.path, self.known.wants))
        asked = self.known.asked | (self.known.read if self.known.tries else set())
        for name in sorted(n for n in asked - own.keys() if not hasattr(kind, n)):
            self.check("absent", own, name, None)
        if self.known.reflects:
            self.check("keys", own, None, frozenset(own))
        for name, item in list(own.items()):
            if self.known.wants(name, item):
                yield item, Place(own, name, f"{place.path}.{name}")

    def hooks(self, leaf: Tensor, place: Place) -> Iterator[Visit]:
        if not self.watches_hooks:
            self.watches_hooks = True
            self.check("item", hooks_changed, "leaves", hooks_changed["leaves"])
        saved = leaf.node.saved  # type: ignore[union-attr]
        hooks = tuple(saved.hooks.values()) if type(saved) is Hooked else ()
        if hooks:
            self.note(place, "hooks", len(hooks))
        for i, hook in enumerate(hooks):
            yield hook, Place(None, None, f"{place.path}.hooks[{i}]")

    # -- containers

    def container(self, value: Any, place: Place) -> Iterator[Visit]:
        self.note(place, type(value).__name__, len(value))
        changes = not isinstance(value, (tuple, frozenset))
        if isinstance(value, (bytearray, array.array)):
            self.note(place, "contents", contents(value))
            self.check("contents", value, None, contents(value))
            return
        is_dict = isinstance(value, (dict, types.MappingProxyType))
        entries: list[tuple[Any, Any]] = list(value.items()) if is_dict else list(enumerate(_in_order(value)))
        held = self.held.get(id(value), set())
        if held:
            self.note(place, "items", tuple(value))
            entries = [(name, item) for name, item in entries if not (type(name) is str and name in held)]
        whole = isinstance(value, (set, types.MappingProxyType)) or (
            len(value) > _LONG and all(isinstance(v, SCALARS) for _, v in entries)
        )
        if changes:
            self.check("length", value, None, len(value))
            if not isinstance(value, types.MappingProxyType):
                self.found.containers.append(Container(value, place.path, held=held))
        holder = value if changes and not whole else None
        if whole and changes:
            self.check("contents", value, None, contents(value))
        if whole and len(value) > _LONG:
            self.note(place, "contents", tuple(entries))
        else:
            for i, (name, item) in enumerate(entries):
                shown = f"parameter {i}" if isinstance(name, Tensor) else repr(name)
                yield item, Place(holder, name, f"{place.path}[{shown}]")
        if not is_library_class(type(value)):  # a container of a class of the user's
            yield from self.attributes(value, place)

    def array(self, value: Any, place: Place) -> Iterator[Visit] | None:
        """Take in a NumPy array as data: its elements are constants of the program."""
        self.note(place, "array", (value.shape, value.dtype))
        self.found.containers.append(Container(value, place.path))
        if not value.dtype.hasobject:
            if value.nbytes > _LARGE_ARRAY:
                warn(
                    f"{place.path} is a NumPy array of {value.nbytes / 1e6:,.1f} MB outside of a compiled function, "
                    "which compares its elements in every call. Pass it as an argument, or make it a tensor: "
                    "wg.tensor(...)."
                )
            self.note(place, "contents", digest(value.tobytes()))
            self.check("array", value, None, (value.shape, value.dtype, *kept(value)))
            return None
        elements = contents(value)
        # Check the objects themselves: their addresses alone may be those of others later.
        self.check("contents", value, None, elements)
        return iter([(item, Place(None, None, f"{place.path}[{i}]")) for i, item in enumerate(value.flat)])

    # -- functions

    def function(self, fn: Any, place: Place) -> Iterator[Visit]:
        if isinstance(fn, functools.partial):
            for part in ("func", "args", "keywords"):
                yield getattr(fn, part), Place(None, None, f"{place.path}.{part}")
        elif isinstance(fn, types.MethodType):
            if self.may_run(fn.__func__):
                yield fn.__self__, Place(None, None, "self")
            yield fn.__func__, Place(None, None, place.path)
        elif isinstance(fn, types.BuiltinFunctionType):
            if fn.__self__ is None or isinstance(fn.__self__, types.ModuleType):
                self.note(place, "function", Identity(fn))
            else:
                self.note(place, "method", fn.__name__)
                yield fn.__self__, Place(None, None, place.path)
        else:
            yield from self.python_function(fn, place)

    def python_function(self, fn: types.FunctionType, place: Place) -> Iterator[Visit]:
        code = fn.__code__
        # Functions that are made of declarations share their code.
        self.note(place, "function", Identity(fn if code.co_filename.startswith(GENERATED) else code))
        own = not is_library_code(code, fn.__globals__)
        if own:
            self.check("function", fn, None, (code, fn.__defaults__))
        if not self.may_run(fn):
            return
        for item in (*(fn.__defaults__ or ()), fn.__kwdefaults__):
            yield item, Place(None, None, f"{place.path}.<default>")
        if own:
            self.found.containers.append(Container(fn.__dict__, place.path, _of_function(self.known)))
            if self.may_miss():
                self.check("length", fn.__dict__, None, len(fn.__dict__))
        for name, item in list(fn.__dict__.items()):
            if name == "__wrapped__" or (name != "_compiled" and self.known.wants(name, item)):
                yield item, Place(fn.__dict__, name, f"{place.path}.{name}")
        for name, cell in zip(code.co_freevars, fn.__closure__ or ()):
            held = Place(cell, name, name)
            value = held.read()
            if value is not MISSING:
                yield value, held
        if own and self.reads is None:
            yield from self.globals_of(code, fn.__globals__)

    def may_run(self, fn: Any) -> bool:
        """Return whether a function is one of those that ran, where that is known."""
        if self.reads is None or not isinstance(fn, types.FunctionType):
            return True
        return fn.__code__ in self.reads.codes or is_library_code(fn.__code__, fn.__globals__)

    def globals_of(self, code: types.CodeType, globals: dict[str, Any]) -> Iterator[Visit]:
        """Yield the globals that code and what is inside it name, and record the attributes that they name."""
        pending = [code]
        while pending:
            names = names_of(pending.pop(0))
            pending += names.inner
            found = resolve(names, globals)
            self.now.add(names, found)
            yield from self.read(found.places)

    def read(self, places: Iterable[tuple[dict[str, Any], str, str]]) -> Iterator[Visit]:
        """Yield what is in places, and record those that are empty."""
        for items, name, path in places:
            if name in items:
                yield items[name], Place(items, name, path)
            elif (id(items), name) not in self.been:
                self.been.add((id(items), name))
                self.found.places.append(Place(items, name, path))
                self.check("absent", items, name, None)

    # -- modules and classes

    def module(self, module: types.ModuleType, place: Place) -> Iterator[Visit] | None:
        if is_library_module(module.__name__):
            return None
        self.watch(place, module)
        self.note(place, "module", Identity(module))
        items = module.__dict__
        if self.may_miss():
            self.check("length", items, None, len(items))
        # By their module's name they are places of their own already (`resolve`): there are other ways to it.
        found = sorted(n for n, item in items.items() if n[:2] != "__" and self.known.wants(n, item))
        return iter([(items[name], Place(items, name, f"{module.__name__}.{name}")) for name in found])

    def may_miss(self) -> bool:
        """Return whether code asks for attributes that may not be there."""
        return bool(self.known.asked) or self.known.tries or self.known.reflects

    def members(self, cls: type, is_made: bool = False) -> Iterator[Visit]:
        """Yield the functions of a user's class that may run, and the values in it that they may read."""
        if (cls, is_made) in self.searched or is_library_class(cls):
            return
        self.searched.add((cls, is_made))
        for name in sorted(self.known.asked if not self.known.tries else self.known.asked | self.known.read):
            if name.isidentifier() and not hasattr(cls, name):
                self.classes.setdefault(cls, {})[name] = MISSING
        taken: set[str] = set()
        for base in cls.__mro__:
            if is_library_class(base):
                taken.update(base.__dict__)
                continue
            for name, value in list(base.__dict__.items()):
                is_first = name not in taken
                taken.add(name)
                functions = _functions_in(value)
                if any(self.runs(f, name, cls, is_made) for f in functions):
                    # An overridden method may be called by the one that overrides it.
                    if name.isidentifier():
                        self.classes.setdefault(cls if is_first else base, {})[name] = value
                    for f in functions:
                        yield f, Place(None, None, f"{base.__name__}.{name}")
                    continue
                is_data = name[:2] != "__" and not functions and not inspect.isdatadescriptor(value)
                if is_first and is_data and name.isidentifier() and self.known.wants(name, value):
                    yield value, Place(cls, name, f"{base.__name__}.{name}")

    def runs(self, fn: Any, name: str, cls: type, is_made: bool) -> bool:
        """Return whether a function in a class may run: it ran, something names it, or an operator calls it."""
        if self.reads is not None:
            return isinstance(fn, types.FunctionType) and fn.__code__ in self.reads.codes
        if name.startswith("__") and name.endswith("__"):
            return self.known.has(name) or (name not in _ELSEWHERE and (is_made or name not in _MAKERS))
        return self.known.reflects or self.known.has(name) or name in _library_members(cls)

    # -- objects

    def thing(self, value: Any, place: Place) -> Iterator[Visit]:
        """Yield the contents of any other object: its own cells where it has them, else its attributes."""
        kind = type(value)
        if hasattr(kind, "__jit_cells__"):
            yield from self.stateful(value, place)
        elif isinstance(value, weakref.ref):
            self.note(place, "a weak reference", None)
            self.check("gives", value, None, value())
            yield value(), Place(None, None, place.path)
        elif isinstance(value, contextvars.ContextVar):
            self.note(place, "a context variable", Identity(value))
            self.check("context", value, None, value.get(None))
            yield value.get(None), Place(None, None, place.path)
        elif isinstance(value, GENERATORS):
            self.note(place, "object", Identity(value))
            self.found.generators.append((place.path, value))
        elif isinstance(value, _GETTERS):
            self.note(place, "object", Identity(value))
            self.now.reflects = True
        else:
            yield from self.object(value, place)

    def stateful(self, value: Any, place: Place) -> Iterator[Visit]:
        kind = type(value)
        for cell in value.__jit_cells__():
            for items, name in cell.items_held:
                self.held.setdefault(id(items), set()).add(name)
            yield from self.cell(cell, place) or ()
        if kind.__jit_static__ is None:
            self.note(place, kind.__name__, None)
        else:
            static = value.__jit_static__()
            self.note(place, kind.__name__, static)
            self.check("static", value, None, static)
        if not is_library_class(kind):  # rules of the user's own, with attributes of their own
            yield from self.members(kind)
            own, known = value.__dict__, _library_members(kind)
            self.found.containers.append(Container(own, place.path, self.known.wants, known))
            self.absences(value, own)
            for name, item in list(own.items()):
                if name not in known and self.known.wants(name, item):
                    yield item, Place(own, name, f"{place.path}.{name}")
        for name in getattr(kind, "__jit_open__", ()):
            item = value.__dict__.get(name)
            if item is not None and (not is_library_class(kind) or self.known.wants(name, item)):
                yield item, Place(value.__dict__, name, f"{place.path}.{name}")

    def object(self, value: Any, place: Place) -> Iterator[Visit]:
        kind = type(value)
        own = getattr(value, "__dict__", None)
        users = not is_library_class(kind)
        # An object with hidden state is known by its identity, any other by its class.
        self.note(place, "object", Identity(kind if _is_looked_into(kind) else value))
        if isinstance(own, dict) and "__wrapped__" in own:
            yield own["__wrapped__"], Place(own, "__wrapped__", place.path)
            if not users:
                return
        yield from self.attributes(value, place)

    def attributes(self, value: Any, place: Place) -> Iterator[Visit]:
        kind = type(value)
        users = not is_library_class(kind)
        if users:
            yield from self.members(kind)
        found = getattr(value, "__dict__", None)
        own: dict[str, Any] = found if isinstance(found, dict) else {}
        wanted = self.wanted(kind, users, own)
        for name in _slots(kind):
            item = getattr(value, name, MISSING)
            if item is not MISSING and wanted(name, item):
                yield item, Place(value, name, f"{place.path}.{name}")
        if own is found:
            self.found.containers.append(Container(own, place.path, wanted))
            if users or _is_module(kind) or f"{kind.__module__}.{kind.__name__}" in _NAMESPACES:
                self.absences(value, own)
        is_copied = self.copies and _is_module(kind)
        for name, item in list(own.items()):
            if wanted(name, item):
                at = Place(own, name, f"{place.path}.{name}" if place.path else name)
                if is_copied and not isinstance(item, (*SCALARS, *_CONTAINERS, Tensor)) and not _is_module(type(item)):
                    self.note(at, "the object", Identity(item))
                yield item, at
        if not users and hasattr(kind, "__getattr__") and not kind.__module__.startswith("wengert."):
            yield from self.computed(value, own, place)

    def wanted(self, kind: type, users: bool, own: dict[str, Any]) -> Callable[[str, Any], bool]:
        """Return the predicate of the attributes of an object that count, by name and value."""
        names: set[str] = set()
        left_out = {"_compiled", "_cells"}
        if _is_module(kind):
            if not users:
                # Everything in a module of the library steers it; its caches are its own business. What is registered
                # is no cache, whatever its name.
                return lambda name, item: _public(name, item) or any(name in own.get(part, ()) for part in _REGISTRIES)
            names.update(_MODULE_PARTS, *(own.get(part, ()) for part in _REGISTRIES))
            names.update(name for name in _library_members(kind) if not name.startswith("_"))
            left_out |= {"_mode", "_path"}
            if self.copies:
                return lambda name, value: name not in left_out
        elif users:
            names.update(_library_members(kind))
        elif kind.__module__.startswith(_WITH_STATE):
            return _any
        for record, parts in _RECORDS.items():
            if issubclass(kind, record):
                names.update(parts)
        # Code that reflects looks through its own objects, and through records.
        wants = self.known.wants if users or f"{kind.__module__}.{kind.__name__}" in _NAMESPACES else self.known.names
        return lambda name, value: name not in left_out and (name in names or wants(name, value))

    def absences(self, value: Any, own: dict[str, Any]) -> None:
        """Record the attributes that an object lacks: one that comes later may hide one of its class's."""
        kind = type(value)
        self.check("length", own, None, len(own))
        for name in sorted(n for n in self.known.read - own.keys() if n[:2] != "__"):
            found = getattr(kind, name, MISSING)
            if name in self.known.asked or not (found is MISSING or callable(found) or _is_slot(found)):
                self.check("absent", own, name, None)
        if self.known.tries or self.known.reflects or hasattr(kind, "__getattr__"):
            self.check("keys", own, None, frozenset(own))

    def computed(self, value: Any, own: dict[str, Any], place: Place) -> Iterator[Visit]:
        """Yield the plain values of attributes that an object of a library computes."""
        for name in sorted(self.known.read - own.keys()):
            if hasattr(type(value), name):
                continue
            try:
                found = getattr(value, name)
            except Exception:
                continue
            if isinstance(found, SCALARS):
                self.check("equal", value, name, found)
                yield found, Place(None, None, f"{place.path}.{name}")


def _is_module(kind: type) -> bool:
    return hasattr(kind, "named_parameters")


def _of_function(known: Mentioned) -> Callable[[str, Any], bool]:
    return lambda name, value: name != "_compiled" and known.wants(name, value)


def _any(name: str, value: Any) -> bool:
    return True


def _public(name: str, value: Any) -> bool:
    return not name.startswith("_") or name in _MODULE_PARTS


def _slots(kind: type) -> list[str]:
    """Return the slots of an object, by the names under which they are found."""
    classes = [c for c in kind.__mro__ if "__slots__" in c.__dict__]
    return list(dict.fromkeys(n for c in classes for n, member in c.__dict__.items() if _is_slot(member)))


def _is_slot(value: Any) -> bool:
    return isinstance(value, types.MemberDescriptorType)


def _is_looked_into(kind: type) -> bool:
    """Return whether an object of this class consists of its attributes, with no state that Python does not see."""
    users = not is_library_class(kind)
    if not (users or _is_module(kind) or kind.__module__.startswith(_WITH_STATE)):
        return False
    return all(c.__flags__ & HEAP_TYPE or c.__basicsize__ == object.__basicsize__ for c in kind.__mro__)


def _in_order(values: Any) -> Any:
    return sorted(values, key=repr) if isinstance(values, (set, frozenset)) else values


def _functions_in(value: Any) -> list[Any]:
    """Return the functions that an attribute of a class runs, if it is a method or computed."""
    if isinstance(value, property):
        found = [value.fget, value.fset, value.fdel]
    elif isinstance(value, (staticmethod, classmethod)):
        found = [value.__func__]
    elif isinstance(value, (functools.cached_property, functools.partialmethod)):
        found = [value.func]
    elif isinstance(value, functools.singledispatchmethod):
        found = [value.func, *value.dispatcher.registry.values()]
    else:
        found = [value]
    return [f for f in found if isinstance(f, types.FunctionType)]


@functools.cache
def _members_of_bases(bases: tuple[type, ...]) -> frozenset[str]:
    names: set[str] = set()
    for base in bases:
        names.update(base.__dict__)
        for value in base.__dict__.values():
            for fn in _functions_in(value):
                found = names_of(fn.__code__)
                names |= found.read | found.called
    return frozenset(names)


def _library_members(cls: type) -> frozenset[str]:
    """Return the names that a user's class may read through classes of the library."""
    bases = tuple(b for b in cls.__mro__ if b is not object and is_library_class(b))
    return _members_of_bases(bases) if bases else frozenset()
