"""`Module`: parameters, buffers and submodules under the names of attributes, and a `forward`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from reprlib import recursive_repr
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ..core import tree
from ..core.elsewhere import check_move, device_name, move_, names_device
from ..core.errors import DTypeError, GraphError, RangeError, ShapeError, StateError, WengertError, fail
from ..core.mode import Mode, Scope, get_mode, reset_mode, set_mode
from ..core.spec import as_dtype, category, float16, float32, float64
from ..core.state.blocks import LEFT, blocks, current_block, note_change
from ..core.tensor import Tensor, asarray, like, wrap
from ..ops.index.inplace import recast_, set_gradient
from .parameter import Parameter

M = TypeVar("M", bound="Module")
Hook = Callable[..., Any]

_REGISTRIES = ("_parameters", "_buffers", "_modules")
# What users of other libraries look for in a module, and what does it here.
_ELSEWHERE = {
    "fit": "Train it with wg.train.fit(model, optimizer, loss, data).",
    "evaluate": "Write wg.train.evaluate(model, loss, data).",
    "predict": "Call it: model(x), after model.eval() and under wg.no_grad() if it has been trained.",
    "compile": "Write wg.jit(model).",
    "summary": "Write wg.summary(model, x).",
    "save": "Write wg.storage.save(path, model.state_dict()).",
    "load": "Write model.load_state_dict(wg.storage.load(path)).",
    "cuda": 'Write model.to("cuda"). It needs JAX; without it models run compiled on the processor.',
    "cpu": 'Write model.to("cpu").',
}


class Incompatible(NamedTuple):
    """The keys that a load with `strict=False` left out."""

    missing_keys: list[str]
    unexpected_keys: list[str]


class NoForwardError(GraphError, NotImplementedError):
    """An error for a call of a module that defines no `forward`; as in PyTorch it is a NotImplementedError too."""


class HookHandle:
    """A handle that ends a module's hook: `handle.remove()`."""

    __slots__ = ("_hooks", "_number")

    def __init__(self, hooks: dict[int, Hook]) -> None:
        self._hooks = hooks
        self._number = next(reversed(hooks), -1) + 1

    def remove(self) -> None:
        """End the hook. A second call does nothing."""
        self._hooks.pop(self._number, None)
        self._hooks = {}  # another hook may come to have the number


class Module:
    """The base of every layer and model: subclass it, assign parts in `__init__`, write `forward`.

    Attributes that are a :class:`Parameter` or a module are registered under their names, and so are
    buffers given to :meth:`register_buffer`: they appear in `parameters()`, `state_dict()` and the
    rest. Operations inside `forward` carry the module's path (`node.path`, such as
    `encoder.layers.0`).

    A module is also a pytree whose leaves are its trainable parameters: `wg.grad(loss)(model)` gives a
    module of gradients, and `wg.tree.map` works over both. Buffers and frozen parameters are shared
    by such copies, not differentiated.

    >>> import wengert as wg
    >>> class Line(wg.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.w = wg.nn.Parameter([2.0])
    ...     def forward(self, x):
    ...         return x * self.w
    >>> Line()(wg.tensor([3.0])).tolist()
    [6.0]
    """

    # What makes a tensor a parameter of this namespace.
    _parameter_class: Any = Parameter
    # Names that older state dicts may be without.
    _may_lack: frozenset[str] = frozenset()
    training: bool
    # Names in order of registration; the values are ordinary attributes, so reading them is fast.
    _parameters: dict[str, None]
    _buffers: dict[str, None]
    _modules: dict[str, None]
    _transient: set[str]
    _path: str
    _mode: Mode | None
    _compiled: Any
    _cells: Any
    _pre_hooks: dict[int, Hook]
    _hooks: dict[int, Hook]

    # Made here rather than in __init__, so that a subclass that forgets super().__init__() works.
    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        self = super().__new__(cls)
        self.__dict__.update(
            training=True,
            _parameters={},
            _buffers={},
            _modules={},
            _transient=set(),
            _path="",
            _mode=None,
            _compiled=None,
            _cells=None,
            _pre_hooks={},
            _hooks={},
        )
        return self

    def __init__(self) -> None:
        pass

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return the result of calling the module. Subclasses define it. Raises GraphError where they do not."""
        fail(
            NoForwardError,
            f"{type(self).__name__} has no forward()",
            "Define forward(self, ...) in the class; containers such as ModuleList are not called.",
        )

    # -- calling

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the hooks and `forward` inside this module's scope."""
        frame = sys._getframe(1)
        outer = get_mode()
        if blocks and (block := current_block()) is not None and not outer.tracing:
            out = block.take_module(self, args, kwargs, frame.f_code, frame.f_lasti)
            if out is not LEFT:
                return out
        mode = self._mode
        # A training loop enters from the same place again and again: one scope serves them all.
        if (
            mode is None
            or (scope := mode.scope) is None
            or scope.parent is not outer.scope
            or scope.offset != frame.f_lasti
            or scope.code is not frame.f_code
            or mode.grad is not outer.grad
            or mode.tracing is not outer.tracing
            or mode.floats is not outer.floats
            or mode.autocast is not outer.autocast
        ):
            mode = self._enter(outer, frame.f_code, frame.f_lasti)
        token = set_mode(mode)
        try:
            if self._pre_hooks or self._hooks:
                return self._call_with_hooks(args, kwargs)
            return self.forward(*args, **kwargs)
        except (ShapeError, DTypeError, RangeError) as e:
            if e.module is None:
                _name_module(e, self, args)
            raise
        finally:
            reset_mode(token)

    def _enter(self, outer: Mode, code: Any, offset: int) -> Mode:
        parent = outer.scope
        mode = outer.within(Scope("module", self._path, parent, code, offset))
        # Scopes of composites and derivatives hold nodes, which must not outlive their graph.
        while parent is not None and parent.kind == "module":
            parent = parent.parent
        # One that casts is not kept: it would keep all front doors from their fast paths.
        self.__dict__["_mode"] = mode if parent is None and mode.autocast is None else None
        return mode

    def _call_with_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        for hook in tuple(self._pre_hooks.values()):
            replaced = hook(self, args)
            if replaced is not None:
                args = replaced if isinstance(replaced, tuple) else (replaced,)
        out = self.forward(*args, **kwargs)
        for hook in tuple(self._hooks.values()):
            replaced = hook(self, args, out)
            if replaced is not None:
                out = replaced
        return out

    def register_forward_pre_hook(self, hook: Hook) -> HookHandle:
        """Call `hook(module, args)` before `forward`; what it returns, unless None, replaces `args`."""
        return _add_hook(self._pre_hooks, hook)

    def register_forward_hook(self, hook: Hook) -> HookHandle:
        """Call `hook(module, args, output)` after `forward`; what it returns, unless None, replaces the output."""
        return _add_hook(self._hooks, hook)

    # -- registration

    def __setattr__(self, name: str, value: Any) -> None:
        state = self.__dict__
        if blocks:
            note_change()
        if isinstance(value, Parameter):
            self._register("_parameters", name, value)
        elif isinstance(value, Module):
            self._register("_modules", name, value)
        elif name in state["_parameters"] and value is not None:
            fail(
                DTypeError,
                f"{type(self).__name__}.{name} is a parameter: {type(value).__name__} cannot take its place",
                f"Assign a Parameter: wg.nn.Parameter(...), or a new value: module.{name}.assign_(...).",
            )
        elif name in state["_modules"] and value is not None:
            fail(
                DTypeError,
                f"{type(self).__name__}.{name} is a module: {type(value).__name__} cannot take its place",
                f"Assign a module or None, or remove it first: del module.{name}.",
            )
        elif name in state["_buffers"] and value is not None and not isinstance(value, Tensor):
            fail(
                DTypeError,
                f"{type(self).__name__}.{name} is a buffer: {type(value).__name__} cannot take its place",
                "Assign a tensor or None.",
            )
        else:
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        """Raise AttributeError, with what does what other libraries call so."""
        missing = f"{type(self).__name__!r} object has no attribute {name!r}"
        raise AttributeError(f"{missing}. {_ELSEWHERE[name]}" if name in _ELSEWHERE else missing, name=name, obj=self)

    def __delattr__(self, name: str) -> None:
        object.__delattr__(self, name)
        for registry in _REGISTRIES:
            self.__dict__[registry].pop(name, None)
        self._transient.discard(name)

    def _register(self, registry: str, name: str, value: Any) -> None:
        for other in _REGISTRIES:
            if other != registry:
                self.__dict__[other].pop(name, None)
        self.__dict__[registry][name] = None
        self.__dict__[name] = value
        if isinstance(value, Module):
            value._set_path(self._child_path(name))

    def _check_name(self, name: str, registry: str) -> None:
        if not isinstance(name, str) or not name or "." in name:
            fail(GraphError, f"{name!r} is no name for an attribute", "Use a string that is not empty and has no dot.")
        if hasattr(self, name) and name not in self.__dict__[registry]:
            fail(GraphError, f"{type(self).__name__} already has an attribute {name!r}", "Choose another name.")

    def register_parameter(self, name: str, parameter: Parameter | None) -> None:
        """Add a parameter under a name; None keeps the name for one that is left out.

        Raises GraphError for a name that is taken or not an attribute name, DTypeError for another type.
        """
        self._check_name(name, "_parameters")
        if parameter is not None and not isinstance(parameter, Parameter):
            fail(DTypeError, f"parameter {name!r} is a {type(parameter).__name__}", "Wrap it: wg.nn.Parameter(data).")
        self._register("_parameters", name, parameter)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is part of the state but is not trained, such as a running mean.

        `persistent=False` leaves it out of `state_dict()`. Raises GraphError for a name that is taken,
        DTypeError for what is not a tensor.
        """
        self._check_name(name, "_buffers")
        if tensor is not None and not isinstance(tensor, Tensor):
            fail(DTypeError, f"buffer {name!r} is a {type(tensor).__name__}", "Make it a tensor: wg.tensor(data).")
        self._register("_buffers", name, tensor)
        (self._transient.discard if persistent else self._transient.add)(name)

    def register_module(self, name: str, module: Module | None) -> None:
        """Add a submodule under a name. Raises GraphError, DTypeError like :meth:`register_parameter`."""
        self._check_name(name, "_modules")
        if module is not None and not isinstance(module, Module):
            fail(DTypeError, f"submodule {name!r} is a {type(module).__name__}, not a Module")
        self._register("_modules", name, module)

    add_module = register_module

    def _child_path(self, name: str) -> str:
        # A container without a forward is never entered: its name goes before its children's.
        if type(self).forward is Module.forward and self._path:
            return f"{self._path}.{name}"
        return name

    def _set_path(self, path: str) -> None:
        pending = [(self, path)]
        seen: set[int] = set()
        while pending:
            module, path = pending.pop()
            if module._path == path or id(module) in seen:
                continue
            seen.add(id(module))
            module.__dict__.update(_path=path, _mode=None)
            if type(module).forward is Module.forward:
                pending += [(child, module._child_path(name)) for name, child in module.named_children()]

    # -- what it holds

    def _own(self, registry: str) -> Iterator[tuple[str, Any]]:
        state = self.__dict__
        for name in tuple(state[registry]):
            value = state[name]
            if value is not None:
                yield name, value

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yield the direct submodules with their names, each once."""
        seen: set[int] = set()
        for name, child in self._own("_modules"):
            if id(child) not in seen:
                seen.add(id(child))
                yield name, child

    def children(self) -> Iterator[Module]:
        """Return the direct submodules, each once."""
        return (child for _, child in self.named_children())

    def named_modules(self, prefix: str = "", remove_duplicate: bool = True) -> Iterator[tuple[str, Module]]:
        """Yield this module and all below it with their paths; a shared one once, unless `remove_duplicate=False`."""
        seen: set[int] = set()
        pending: list[tuple[str, Module, tuple[int, ...]]] = [(prefix, self, ())]
        while pending:
            path, module, above = pending.pop()
            # A module inside itself ends the walk either way.
            if id(module) in (seen if remove_duplicate else above):
                continue
            seen.add(id(module))
            yield path, module
            below = [
                (f"{path}.{name}" if path else name, child, (*above, id(module)))
                for name, child in module._own("_modules")
            ]
            pending += reversed(below)

    def modules(self) -> Iterator[Module]:
        """Return an iterator over this module and all below it, each once."""
        return (module for _, module in self.named_modules())

    def _named(self, registry: str, prefix: str, recurse: bool, unique: bool) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        modules = self.named_modules(prefix, unique) if recurse else iter([(prefix, self)])
        for path, module in modules:
            for name, value in module._own(registry):
                if id(value) in seen:
                    continue
                if unique:
                    seen.add(id(value))
                yield (f"{path}.{name}" if path else name), value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Return the parameters with their paths; a shared one once, unless `remove_duplicate=False`."""
        return self._named("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Return an iterator over the parameters, each once, as an optimiser takes them."""
        return (p for _, p in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Return the buffers with their paths; a shared one once, unless `remove_duplicate=False`."""
        return self._named("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Return the buffers, each once."""
        return (b for _, b in self.named_buffers(recurse=recurse))

    def get_submodule(self, target: str) -> Module:
        """Return the submodule at a path such as `encoder.layers.0`. Raises StateError where there is none."""
        module: Any = self
        for name in target.split(".") if target else ():
            if name not in module._modules or getattr(module, name) is None:
                fail(StateError, f"{type(module).__name__} has no submodule {name!r} (of the path {target!r})")
            module = getattr(module, name)
        found: Module = module
        return found

    def get_parameter(self, target: str) -> Parameter:
        """Return the parameter at a path such as `encoder.layers.0.weight`. Raises StateError where there is none."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if name not in module._parameters or getattr(module, name) is None:
            fail(StateError, f"{type(module).__name__} has no parameter {name!r} (of the path {target!r})")
        found: Parameter = getattr(module, name)
        return found

    # -- state

    def state_dict(self, prefix: str = "") -> dict[str, Tensor]:
        """Return parameters and persistent buffers by path.

        As in PyTorch the entries are the module's own values under another name, detached: what is written to one of
        them the module has, and they have what later training makes of it. To keep values as they are now, take
        copies: `{k: v.clone() for k, v in module.state_dict().items()}`, or `copy.deepcopy(module.state_dict())`.
        """
        return {name: value.data for name, value in self._state(prefix)}

    def _state(self, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
        for path, module in self.named_modules(remove_duplicate=False):
            start = prefix + (f"{path}." if path else "")
            for name, value in module._own("_parameters"):
                yield start + name, value
            for name, value in module._own("_buffers"):
                if name not in module._transient:
                    yield start + name, value

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> Incompatible:
        """Take parameters and buffers from a mapping of tensors or arrays; dtypes stay the module's.

        All of it is checked first: when anything is wrong nothing is loaded. With `strict=False`
        missing and unexpected keys are returned instead of raised.

        Raises StateError listing missing keys, unexpected keys and shapes that differ, DTypeError for no mapping.
        """
        if not isinstance(state_dict, Mapping):
            fail(DTypeError, f"a state dict is a mapping of names to tensors, not {type(state_dict).__name__}")
        own = dict(self._state())
        missing = [k for k in own if k not in state_dict]
        if missing:
            paths = ((f"{path}." if path else "", m) for path, m in self.named_modules(remove_duplicate=False))
            may_lack = {start + name for start, m in paths for name in m._may_lack}
            missing = [k for k in missing if k not in may_lack]
        unexpected = [k for k in state_dict if k not in own]
        wrong = []
        loaded: list[tuple[Tensor, Tensor]] = []
        for key, target in own.items():
            if key in state_dict:
                value = asarray(state_dict[key]).detach()
                if value.shape != target.shape:
                    wrong.append(f"{key}: {value.shape} in the state dict, {target.shape} in the module")
                elif category(value.dtype) > max(category(target.dtype), 2):
                    wrong.append(f"{key}: {value.dtype} in the state dict, {target.dtype} in the module")
                else:
                    loaded.append((target, value))
        if wrong or (strict and (missing or unexpected)):
            fail(StateError, f"state dict does not fit {type(self).__name__}", _misfit(missing, unexpected, wrong))
        for target, value in loaded:
            target.assign_(value)
        return Incompatible(missing, unexpected)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_mode": None, "_compiled": None, "_cells": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    # -- changing all of it

    def train(self: M, mode: bool = True) -> M:
        """Set this module and all below it to training (dropout drops, batch norm updates). Returns it."""
        for module in self.modules():
            module.training = bool(mode)
        return self

    def eval(self: M) -> M:
        """Set this module and all below it to evaluation. Returns it."""
        return self.train(False)

    def apply(self: M, fn: Callable[[Module], Any]) -> M:
        """Call `fn` on every module below and then on this one. Returns it.

        >>> import wengert as wg
        >>> def zero(m):
        ...     if isinstance(m, wg.nn.Linear):
        ...         wg.nn.init.zeros_(m.weight)
        >>> model = wg.nn.Sequential(wg.nn.Linear(2, 3), wg.nn.ReLU()).apply(zero)
        """
        # Children before parents: the reverse of a walk that meets parents first, last child first.
        order: dict[int, Module] = {}
        pending: list[tuple[Module, bool]] = [(self, False)]
        entered: set[int] = set()
        while pending:
            module, done = pending.pop()
            if done:
                order[id(module)] = module
            elif id(module) not in entered:
                entered.add(id(module))
                pending.append((module, True))
                pending += [(child, False) for child in reversed(list(module.children()))]
        for module in order.values():
            fn(module)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters (or set those there are to 0)."""
        for p in self.parameters():
            if set_to_none:
                # Without a look at it: what a compiled step does not read may be there or not.
                p.grad = None
            elif p.grad is not None:
                set_gradient(p, like(p, wrap(np.zeros(p.shape, p.grad.dtype))))

    def requires_grad_(self: M, requires_grad: bool = True) -> M:
        """Make all parameters collect gradients, or freeze them. Returns the module."""
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def to(self: M, target: Any) -> M:
        """Convert floating (or complex) parameters and buffers to a dtype, or move all to a device. Returns the module.

        Parameters stay the same objects, with their gradients; an optimiser's state follows when it is next used. See
        :meth:`Tensor.to` for devices. Raises DTypeError for other than floating dtypes, GraphError for a device that
        there is not.
        """
        if names_device(target):
            place = device_name(target)
            for x in (*self.parameters(), *self.buffers()):
                check_move(x, place)
            for x in (*self.parameters(), *self.buffers()):
                move_(x, place)
            return self
        dtype = as_dtype(target)
        if category(dtype) < 2:
            fail(DTypeError, f"a module's parameters cannot be of dtype {dtype}", "Choose a floating or complex dtype.")
        held: list[Tensor] = [*self.parameters(), *self.buffers()]
        for x in held:
            if category(x.dtype) == category(dtype):
                recast_(x, dtype)
        return self

    def half(self: M) -> M:
        """Convert floating parameters and buffers to float16. Returns the module."""
        return self.to(float16)

    def float(self: M) -> M:
        """Convert floating parameters and buffers to float32. Returns the module."""
        return self.to(float32)

    def double(self: M) -> M:
        """Convert floating parameters and buffers to float64. Returns the module."""
        return self.to(float64)

    # -- showing

    def extra_repr(self) -> str:
        """Return the text between the parentheses of `repr`, such as `in_features=3`."""
        return ""

    @recursive_repr("...")
    def __repr__(self) -> str:
        return _render(self, [(name, repr(child)) for name, child in self._own("_modules")])


def _add_hook(hooks: dict[int, Hook], hook: Hook) -> HookHandle:
    handle = HookHandle(hooks)
    hooks[handle._number] = hook
    return handle


def _name_module(e: WengertError, module: Module, args: tuple[Any, ...]) -> None:
    """Say in which module of a model an error was raised, and what that was given."""
    scope = get_mode().scope
    e.module = "" if scope is None else scope.path
    if e.module:
        kind = type(module).__name__ if module._modules else repr(module)
        given = ", ".join(str(x.spec) for x in tree.leaves(args) if isinstance(x, Tensor)) or "no tensors"
        e.args = (f"{e.args[0]}\nRaised in module {e.module!r}, {kind}, which was given {given}.",)


def _misfit(missing: Sequence[str], unexpected: Sequence[str], wrong: Sequence[str]) -> str:
    lines = []
    if missing:
        lines.append("missing keys: " + ", ".join(missing))
    if unexpected:
        lines.append("unexpected keys: " + ", ".join(unexpected))
    if wrong:
        lines.append("misfits: " + "; ".join(wrong))
    return "\n".join([*lines, "Nothing was loaded."])


def _render(module: Module, children: Sequence[tuple[str, str]]) -> str:
    """Return a module as PyTorch prints it: one line, or an indented block where it has submodules."""
    title, extra = type(module).__name__, module.extra_repr()
    if not children:
        return f"{title}({extra})"
    lines = [f"({name}): {text}".replace("\n", "\n  ") for name, text in children]
    return "\n  ".join([f"{title}(", *([extra] if extra else []), *lines]) + "\n)"


# -- modules as pytrees


class _Layout:
    """A module without its trainable parameters' values, as the pytree structure's comparable part."""

    __slots__ = ("module", "names")

    def __init__(self, module: Module, names: tuple[str, ...]) -> None:
        self.module = module
        self.names = names

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Layout) and self.names == other.names and type(self.module) is type(other.module)

    __hash__ = None  # type: ignore[assignment]


def _is_trainable(leaf: Any) -> bool:
    # In a module of gradients or of other mapped values every leaf takes the parameter's place.
    return not isinstance(leaf, Parameter) or leaf.requires_grad


def _flatten(module: Module) -> tuple[list[Any], _Layout]:
    named = [(name, p) for name, p in module.named_parameters() if _is_trainable(p)]
    return [p for _, p in named], _Layout(module, tuple(name for name, _ in named))


def _unflatten(layout: _Layout, leaves: Sequence[Any]) -> Module:
    """Return a copy of the modules with other leaves; buffers and all other attributes are shared."""
    trainable = [p for p in layout.module.parameters() if _is_trainable(p)]
    return _with(layout.module, dict(zip(map(id, trainable), leaves, strict=True)))


class _Place:
    """The place of a tensor in a module without it; what is to come there where a parameter was is made one."""

    __slots__ = ("parameter", "trains")

    def __init__(self, tensor: Tensor) -> None:
        self.parameter = type(tensor) if isinstance(tensor, Parameter) else None
        self.trains = tensor.requires_grad

    def filled(self, value: Any) -> Any:
        """Return what comes here for a value."""
        if self.parameter is None or isinstance(value, Parameter) or not isinstance(value, Tensor):
            return value
        made = self.parameter(value.detach(), self.trains)
        made.grad = value.grad
        return made


class _Outline:
    """A module with one of `places` for each of its tensors, as the comparable part of a structure that is kept."""

    __slots__ = ("module", "places")

    def __init__(self, module: Module, places: tuple[_Place, ...]) -> None:
        self.module = module
        self.places = places

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Outline) or len(self.places) != len(other.places):
            return False
        parts, others = dict(self.module.named_modules()), dict(other.module.named_modules())
        return parts.keys() == others.keys() and all(
            type(part) is type(others[path]) and all(part.__dict__[r] == others[path].__dict__[r] for r in _REGISTRIES)
            for path, part in parts.items()
        )

    __hash__ = None  # type: ignore[assignment]


def _flatten_whole(module: Module) -> tuple[list[Any], _Outline]:
    tensors = _all_tensors(module)
    places = tuple(map(_Place, tensors))
    return tensors, _Outline(_with(module, dict(zip(map(id, tensors), places)), anew=True), places)


def _unflatten_whole(outline: _Outline, leaves: Sequence[Any]) -> Module:
    """Return a new module with these tensors, and plain containers of its own."""
    filled = {id(place): place.filled(leaf) for place, leaf in zip(outline.places, leaves, strict=True)}
    return _with(outline.module, filled, anew=True)


def with_tensors(module: Module, replace: Callable[[Tensor], Tensor]) -> Module:
    """Return a copy of the modules with another tensor for each that they have, also inside plain containers.

    Parameters, frozen ones too, buffers and other tensors are given to `replace`, each once.
    """
    return _with(module, {id(tensor): replace(tensor) for tensor in _all_tensors(module)})


def _all_tensors(module: Module) -> list[Tensor]:
    """Return the tensors that modules have, also inside plain containers, each once."""
    found = (t for owner in module.modules() for t in _tensors_in(list(owner.__dict__.values())))
    return list({id(t): t for t in found}.values())


def _tensors_in(value: Any, inside: tuple[int, ...] = ()) -> Iterator[Tensor]:
    """Give the tensors that a value is, or has inside plain containers."""
    if isinstance(value, Tensor):
        yield value
    elif type(value) in (list, tuple, dict) and id(value) not in inside:
        for item in value.values() if type(value) is dict else value:
            yield from _tensors_in(item, (*inside, id(value)))


def _with(root: Module, replaced: dict[int, Any], anew: bool = False) -> Module:
    """Return a copy of the modules with other objects for some of theirs, by identity.

    Plain containers without such an object, hooks among them, are the same ones, or, where they are to be made `anew`,
    copies.
    """
    originals = list(root.modules())
    replaced |= {id(m): type(m).__new__(type(m)) for m in originals}
    for module in originals:
        copy: Module = replaced[id(module)]
        for name, value in module.__dict__.items():
            if name in _REGISTRIES:
                copy.__dict__[name] = dict(value)
            elif name not in ("_mode", "_compiled", "_cells"):
                copy.__dict__[name] = _substitute(value, replaced, anew)
    result: Module = replaced[id(root)]
    return result


def _substitute(value: Any, replaced: Mapping[int, Any], anew: bool, inside: tuple[int, ...] = ()) -> Any:
    """Return an attribute's value with modules and parameters replaced, also inside plain containers."""
    if id(value) in replaced:
        return replaced[id(value)]
    kind = type(value)
    if kind is set and anew:
        return value.copy()
    if kind not in (list, tuple, dict) or id(value) in inside:  # a container inside itself stays
        return value
    inside = (*inside, id(value))
    if kind is dict:
        mapped = {k: _substitute(v, replaced, anew, inside) for k, v in value.items()}
        return value if not anew and all(mapped[k] is v for k, v in value.items()) else mapped
    items = [_substitute(v, replaced, anew, inside) for v in value]
    return value if not anew and all(a is b for a, b in zip(items, value)) else kind(items)


tree.register(Module, _flatten, _unflatten, whole=(_flatten_whole, _unflatten_whole))
