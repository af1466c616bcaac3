"""Calls of modules while a model runs: their places, and marks in the scopes of their operations.

A scope knows a module by its attribute's name, which others have too. While a model is watched, a module's scope is
called by a mark, a name that says which place it is: the nodes of the graph lead to it.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..core import tree
from ..core.graph.graph import Graph, is_parameter
from ..core.graph.snapshot import Given
from ..core.mode import Scope, get_mode, reset_mode, set_mode
from ..core.node import Node
from ..core.ops.record import abstract_input, resumed
from ..core.spec import Spec, as_dtype, spec_of
from ..core.storage import leave
from ..core.tensor import Tensor, wrap
from ..ops.random.generator import Generator, default_generator
from ..transforms.tracing.trace import as_result, free_variables, leaf_names
from .module import Module

_REGISTRIES = ("_parameters", "_buffers", "_modules")


@dataclass(eq=False)
class Place:
    """A module at the place that it is called from, while it runs."""

    path: str
    name: str
    module: Module | None
    calls: int = 0
    outputs: list[Any] = field(default_factory=list)
    children: dict[Any, Place] = field(default_factory=dict)


class Mark(str):
    """A name of a module's scope that says which place it is."""

    __slots__ = ("place",)
    place: Place


class Watch:
    """A record of the calls of modules in one thread."""

    def __init__(self, model: Any, modules: Mapping[int, Module], paths: Mapping[int, str]) -> None:
        self.paths = paths
        # A copy with other leaves in the parameters' places, as transforms make them, has its original's hooks.
        self.originals = {id(m._pre_hooks): m for m in modules.values()}
        self.thread = threading.get_ident()
        module = model if isinstance(model, Module) else None
        name = getattr(model, "__name__", type(model).__name__)
        self.root = Place("", name, module, calls=module is None)

    def enter(self, module: Module, args: Any) -> None:
        """Put a marked scope inside the module's own, before its `forward`."""
        if threading.get_ident() != self.thread:
            return
        module = self.originals.get(id(module._pre_hooks), module)
        mode = get_mode()
        scope = mode.scope
        assert scope is not None
        parent = self.place_of(scope.parent)
        outermost = parent is self.root and not self.root.calls
        place = self.root if outermost and module is self.root.module else self._child(parent, module)
        place.calls += 1
        mark = Mark(place.name)
        mark.place = place
        set_mode(mode.within(Scope("module", mark, scope.parent, scope.code, scope.offset)))

    def leave(self, module: Module, args: Any, out: Any) -> None:
        """Note the result of a module's `forward`."""
        if threading.get_ident() == self.thread:
            self.note(self.place_of(get_mode().scope), out)

    def note(self, place: Place, out: Any) -> None:
        """Note a result of a place."""
        leaves, structure = tree.flatten(out, is_leaf=lambda x: isinstance(x, Module))
        found = tree.unflatten(structure, [_shown(leaf) for leaf in leaves])
        if repr(found) not in map(repr, place.outputs):
            place.outputs.append(found)

    def place_of(self, scope: Scope | None) -> Place:
        """Return the place where an operation ran; an unknown module goes by the names of its scopes."""
        names: list[str] = []
        while scope is not None:
            if isinstance(scope.name, Mark):
                break
            if scope.kind == "module" and scope.name:
                names.append(scope.name)
            scope = scope.parent
        place = scope.name.place if scope is not None and isinstance(scope.name, Mark) else self.root
        for name in reversed(names):
            if name not in place.children:
                place.children[name] = Place(f"{place.path}.{name}".lstrip("."), name, None, calls=1)
            place = place.children[name]
        return place

    def _child(self, parent: Place, module: Module) -> Place:
        place = parent.children.get(id(module))
        if place is None:
            path = self.paths.get(id(module), module._path) or type(module).__name__
            name = path.removeprefix(f"{parent.path}.") if parent.path else path
            place = parent.children[id(module)] = Place(path, name, module)
        return place

    def add_uncalled(self, modules: Mapping[int, Module]) -> None:
        """Give modules that hold parameters and were not called a place in the module that they are in."""
        places = {id(p.module): p for p in reversed([p for p, _ in walk(self.root)]) if p.module is not None}
        by_path = {self.paths[i]: place for i, place in places.items() if i in self.paths}
        for i, module in modules.items():
            if i in places or next(module.named_parameters(recurse=False), None) is None:
                continue
            above = self.paths[i]
            while above not in by_path:
                above = above.rpartition(".")[0]
            by_path[self.paths[i]] = self._child(by_path[above], module)


def walk(root: Place) -> Iterator[tuple[Place, int]]:
    """Yield places and their depths, each before those inside it."""
    pending = [(root, 0)]
    while pending:
        place, depth = pending.pop()
        yield place, depth
        pending += [(child, depth + 1) for child in reversed(place.children.values())]


@dataclass(frozen=True)
class Run:
    """A finished run: its graph, the watch that saw it, and the inputs of the graph that gradients are for."""

    graph: Graph
    watch: Watch
    tracked: list[Node]
    parameters: list[Tensor]


class Call:
    """A model with its inputs."""

    def __init__(self, model: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        self.model = model
        pytree = (args, dict(sorted(keywords.items())))
        self.leaves, self.structure = tree.flatten(pytree, is_leaf=lambda x: isinstance(x, Module))
        self.specs = [spec_of_leaf(leaf) for leaf in self.leaves]
        self.names = list(leaf_names(model, self.structure))
        self.modules: dict[int, Module] = {}
        self.paths: dict[int, str] = {}
        for prefix, module in self._found_modules():
            for path, inner in module.named_modules(prefix):
                self.modules.setdefault(id(inner), inner)
                self.paths.setdefault(id(inner), path)

    def _found_modules(self) -> Iterator[tuple[str, Module]]:
        """Yield the modules at hand: the model, those among the arguments, and those that a function captures."""
        if isinstance(self.model, Module):
            yield "", self.model
        given = zip(self.names, self.leaves, strict=True)
        inner = inspect.unwrap(self.model)
        captured = [("", inner), ("", getattr(inner, "__self__", None)), *free_variables(inner)]
        for name, value in (*given, *captured):
            if isinstance(value, Module):
                yield name, value
            elif isinstance(value, (list, tuple, dict)):
                items = value.items() if isinstance(value, dict) else enumerate(value)
                yield from ((f"{name}.{key}", m) for key, m in items if isinstance(m, Module))

    @property
    def has_values(self) -> bool:
        """True where every input has a value."""
        return not any(isinstance(x, Spec) or (isinstance(x, Tensor) and x.is_abstract) for x in self.leaves)

    def trace(self) -> Run:
        """Run the model on abstract tensors."""
        stand_ins = [
            leaf if spec is None else abstract_input(spec, name)
            for leaf, spec, name in zip(self.leaves, self.specs, self.names, strict=True)
        ]
        return self._run(stand_ins, tracing=True)

    def compute(self) -> Run:
        """Run the model on values. Gradients are recorded in every floating input: only then are all operations."""
        stand_ins = []
        for leaf, spec in zip(self.leaves, self.specs, strict=True):
            if spec is not None:
                leaf = wrap(np.asarray(leaf.detach() if isinstance(leaf, Tensor) else leaf, spec.dtype))
                leaf = leaf.requires_grad_() if spec.inexact else leaf
            stand_ins.append(leaf)
        return self._run(stand_ins, tracing=False)

    def _run(self, stand_ins: list[Any], tracing: bool) -> Run:
        watch = Watch(self.model, self.modules, self.paths)
        args, keywords = tree.unflatten(self.structure, stand_ins)
        token = set_mode(get_mode().traced(None, tracing=tracing))
        try:
            with _watched(self.modules.values(), watch):
                result = self.model(*args, **keywords)
        finally:
            reset_mode(token)
        if not isinstance(self.model, Module):
            watch.note(watch.root, result)
        name = watch.root.name
        outputs = [resumed(as_result(name, leaf)) for leaf in tree.leaves(result)]
        given = [
            Given(x, path, is_parameter(leaf))
            for x, path, leaf, spec in zip(stand_ins, self.names, self.leaves, self.specs, strict=True)
            if spec is not None
        ]
        graph = Graph.closed(outputs, given)
        if isinstance(self.model, Module):
            watch.add_uncalled(self.modules)
        own = [leaf for leaf, spec in zip(self.leaves, self.specs, strict=True) if spec is not None]
        parameters = [x for x in own if is_parameter(x)] + [graph.bound[n] for n in graph.inputs if n in graph.bound]
        trained = [n for n, x in zip(graph.inputs, own) if isinstance(x, Tensor) and x.requires_grad]
        return Run(graph, watch, [*trained, *(n for n in graph.inputs if n in graph.bound)], parameters)


@contextmanager
def _watched(modules: Iterable[Module], watch: Watch) -> Iterator[None]:
    """Hook modules within the block, before their own hooks, so that those run in the marked scope."""
    held = [(m._pre_hooks, m._hooks) for m in modules]
    key = id(watch)
    for before, after in held:
        own = dict(before)
        before.clear()
        before.update({key: watch.enter, **own})
        after[key] = watch.leave
    try:
        yield
    finally:
        for before, after in held:
            del before[key], after[key]


@contextmanager
def as_it_was(modules: Sequence[Module]) -> Iterator[None]:
    """Leave modules' attributes, their tensors' values and the generators' places as they were."""
    attributes = [dict(m.__dict__) for m in modules]
    registries = [[dict(m.__dict__[kind]) for kind in _REGISTRIES] for m in modules]
    tensors = {id(t): t for a in attributes for t in a.values() if isinstance(t, Tensor)}
    values = [(t, t._array, t.spec, t.node) for t in tensors.values()]
    found = [g for a in attributes for g in a.values() if isinstance(g, Generator)]
    generators = [(g, g.get_state()) for g in {id(g): g for g in (default_generator, *found)}.values()]
    try:
        yield
    finally:
        for module, before, held in zip(modules, attributes, registries, strict=True):
            for registry, names in zip((module.__dict__[kind] for kind in _REGISTRIES), held, strict=True):
                registry.clear()
                registry.update(names)
            module.__dict__.clear()
            module.__dict__.update(before)
        for t, data, spec, node in values:
            leave(t)
            t._data, t.node = data, node
            if data is not None:
                t._spec = spec
        for generator, state in generators:
            generator.set_state(state)


def _shown(leaf: Any) -> Any:
    """Return a leaf of a result as it is shown: a tensor's spec, a module's name, any other value itself."""
    if isinstance(leaf, Module):
        return type(leaf).__name__
    spec = spec_of_leaf(leaf)
    return leaf if spec is None else spec


def spec_of_leaf(leaf: Any) -> Spec | None:
    """Return the spec of a tensor, array or spec; None of any other value."""
    if isinstance(leaf, Spec):
        return leaf
    if isinstance(leaf, Tensor):
        return leaf.spec
    return spec_of(leaf.shape, as_dtype(leaf.dtype)) if isinstance(leaf, (np.ndarray, np.generic)) else None
