"""`Module` with PyTorch's methods, and the layers of `wengert.nn` as such modules.

A module of this namespace takes what is assigned to it into it: parameters and buffers get PyTorch's methods, layers of
`wengert.nn` become those of `wengert.torch.nn`, with all that is inside them. They stay the objects that they were.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import wengert as wg

from ... import nn as plain
from ...core.errors import StateError, WriteError, fail
from ...core.mode import get_mode, reset_mode, set_mode
from ...core.tensor import Tensor as PlainTensor
from ...nn.module import Incompatible
from ...nn.parameter import Parameter as PlainParameter
from ...ops.index.inplace import recast_
from ..namespace import tensor_of
from ..tensor import NOT_SHARED, Tensor, device, dtype_of, lay, memory_format, on_cpu, where
from . import hooks
from .parameter import Buffer, Parameter
from .registry import view

M = TypeVar("M", bound="Module")

# The module of this namespace for each class of `wengert.nn`.
COUNTERPARTS: dict[type, type] = {}


class LoadError(StateError, RuntimeError):
    """An error for a state dict that does not fit a module, as PyTorch raises it."""

    def __str__(self) -> str:
        return str(self.args[0])


class IncompatibleKeys(Incompatible):
    """The keys that a load left out."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"

    __str__ = __repr__


def adopted(value: Any) -> Any:
    """Return a tensor, parameter or module as one of this namespace: the same object, with PyTorch's methods."""
    if isinstance(value, PlainTensor):
        if type(value) is PlainTensor:
            value.__class__ = Tensor
        elif type(value) is PlainParameter:
            value.__class__ = Parameter
    elif isinstance(value, plain.Module):
        for module in value.modules():
            counterpart = COUNTERPARTS.get(type(module))
            if counterpart is not None:
                object.__setattr__(module, "__class__", counterpart)
            for registry in ("_parameters", "_buffers"):
                for name in module.__dict__[registry]:
                    adopted(module.__dict__[name])
    return value


class Module(plain.Module):
    """The base of every layer and model: subclass it, assign parts in `__init__`, write `forward`.

    See :class:`wengert.nn.Module`; here are PyTorch's further methods.

    >>> import wengert.torch as torch
    >>> class Line(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.w = torch.nn.Parameter(torch.tensor([2.0]))
    ...     def forward(self, x):
    ...         return x * self.w
    >>> Line()(torch.tensor([3.0]))
    tensor([6.], grad_fn=<MultiplyBackward>)
    """

    # What state dicts say of each module; those that were saved before a version may lack what it has.
    _version = 1
    _parameter_class = Parameter
    _modules = view("_modules")
    _parameters = view("_parameters")
    _buffers = view("_buffers")
    _forward_hooks = property(lambda self: self._hooks)
    _forward_pre_hooks = property(lambda self: self._pre_hooks)
    _forward_hooks_with_kwargs = property(lambda self: hooks.keyed(self._hooks, "with_kwargs"))
    _forward_pre_hooks_with_kwargs = property(lambda self: hooks.keyed(self._pre_hooks, "with_kwargs"))
    _forward_hooks_always_called = property(lambda self: hooks.keyed(self._hooks, "always"))
    _non_persistent_buffers_set = property(lambda self: self._transient)

    def __setattr__(self, name: str, value: Any) -> None:
        if "_parameters" not in self.__dict__:  # in the `__new__` of a class above this one
            object.__setattr__(self, name, value)
            return
        if isinstance(value, (PlainTensor, plain.Module)):
            if isinstance(value, Buffer) and name not in self.__dict__["_buffers"]:
                self.register_buffer(name, value, value.persistent)
                return
            value = adopted(value)
        super().__setattr__(name, value)

    def _register(self, registry: str, name: str, value: Any) -> None:
        if hooks.everywhere.registration[registry]:
            value = hooks.everywhere.registered(self, registry, name, value)
        super()._register(registry, name, adopted(value))

    def __getattr__(self, name: str) -> Any:
        # Python comes here for what there is not; libraries call it with the names of parameters and modules too.
        if name in self.__dict__:
            return self.__dict__[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _get_name(self) -> str:
        return type(self).__name__

    def __dir__(self) -> list[str]:
        return sorted(name for name in object.__dir__(self) if name.isidentifier())

    def _call_with_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return hooks.call(self, args, kwargs)

    # -- what it holds

    def named_modules(  # type: ignore[override]
        self, memo: Any = None, prefix: Any = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, plain.Module]]:
        """Yield this module and all below it with their paths; a shared one once, unless `remove_duplicate=False`.

        Those in the set `memo` are left out, and it is given the others.
        """
        if isinstance(memo, str):  # the arguments of wengert.nn.Module.named_modules
            memo, prefix, remove_duplicate = None, memo, prefix if isinstance(prefix, bool) else remove_duplicate
        for path, module in super().named_modules(prefix, remove_duplicate):
            if memo is not None:
                if module in memo:
                    continue
                memo.add(module)
            yield path, module

    def get_submodule(self, target: str) -> Any:
        """Return the submodule at a path such as `encoder.layers.0`. Raises AttributeError where there is none."""
        try:
            return super().get_submodule(target)
        except StateError as e:
            raise AttributeError(f"{type(self).__name__} has no submodule at the path {target!r}") from e

    def get_parameter(self, target: str) -> Any:
        """Return the parameter at a path such as `encoder.weight`. Raises AttributeError where there is none."""
        try:
            return super().get_parameter(target)
        except StateError as e:
            raise AttributeError(f"{type(self).__name__} has no parameter at the path {target!r}") from e

    def get_buffer(self, target: str) -> Any:
        """Return the buffer at a path such as `norm.running_mean`. Raises AttributeError where there is none."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if name not in module.__dict__["_buffers"]:
            raise AttributeError(f"{type(module).__name__} has no buffer {name!r} (of the path {target!r})")
        return getattr(module, name)

    def set_submodule(self, target: str, module: plain.Module, strict: bool = False) -> None:
        """Put a module at a path such as `encoder.layers.0`; with `strict` only where there is one.

        Raises AttributeError for a path that leads nowhere, ValueError for an empty one.
        """
        if not target:
            raise ValueError("Cannot set the submodule without a target name!")
        if strict:
            self.get_submodule(target)
        path, _, name = target.rpartition(".")
        self.get_submodule(path)._register("_modules", name, module)

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """Return the buffers with their paths; a shared one once, unless `remove_duplicate=False`."""
        return super().named_buffers(prefix, recurse, remove_duplicate)

    # -- changing all of it

    def train(self: M, mode: bool = True) -> M:
        """Set this module to training, and all below it by their own `train`. Returns it.

        Raises ValueError for what is no bool.
        """
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for child in self.children():
            child.train(mode)
        return self

    def apply(self: M, fn: Callable[[Any], Any]) -> M:
        """Call `fn` on every module below, by their own `apply`, and then on this one. Returns it."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def _apply(self: M, fn: Callable[[Any], Any], recurse: bool = True) -> M:
        """Give all parameters and buffers the value that `fn` makes of them. Returns the module."""
        for held in (*self.parameters(recurse), *self.buffers(recurse)):
            held.data = fn(held.data)
        return self

    def to_empty(self: M, *, device: Any, recurse: bool = True) -> M:
        """Return the module: it is on the processor. Raises DTypeError for another device."""
        on_cpu(device)
        return self

    # -- where it is, and in which dtype

    def to(self: M, *args: Any, **kwargs: Any) -> M:
        """Convert floating parameters and buffers to a dtype, given as such or by a tensor, or move all to a device.

        `memory_format` is that of parameters and buffers with four axes, or five for `channels_last_3d`. Returns the
        module. Raises DTypeError for a device that there is not, for other than floating dtypes; TypeError for
        arguments in another order than (device, dtype, non_blocking), (dtype, non_blocking), (tensor, non_blocking).
        """
        _check_order(args)
        dtype, to, format = kwargs.get("dtype"), kwargs.get("device"), kwargs.get("memory_format")
        if surplus := kwargs.keys() - {"dtype", "device", "memory_format", "non_blocking", "tensor"}:
            raise TypeError(f"to() has no parameter {', '.join(sorted(surplus))}")
        for a in args:
            if isinstance(a, PlainTensor):
                dtype, to = a.dtype, a.device
            elif isinstance(a, memory_format):
                format = a
            elif isinstance(a, (device, int)) and not isinstance(a, bool):
                to = device(a)
            elif isinstance(a, str) and not a.startswith(("float", "bfloat", "complex", "torch.")):
                to = a
            elif a is not None and not isinstance(a, bool):
                dtype = a
        place = None if to is None else where(to)
        if dtype is not None:
            kind = dtype_of(dtype)
            if kind.kind in "biu":
                raise TypeError(f"nn.Module.to only accepts floating point or complex dtypes, but got {kind}")
            if kind.kind == "c":  # real parameters become complex, too
                for t in (*self.parameters(), *self.buffers()):
                    if t.is_floating_point():
                        recast_(t, kind)
            super().to(kind)
        if format is not None:
            for t in (*self.parameters(), *self.buffers()):
                lay(t, format)  # type: ignore[arg-type]
        return self if place is None else super().to(place)

    def cpu(self: M) -> M:
        """Move all parameters and buffers to the processor. Returns the module."""
        return self.to("cpu")

    def cuda(self: M, device: Any = None) -> M:
        """Move all parameters and buffers to a GPU. Returns the module. Raises DTypeError where JAX has none."""
        return self.to("cuda" if device is None else device if isinstance(device, str) else f"cuda:{device}")

    def type(self: M, dst_type: Any) -> M:
        """Convert floating parameters and buffers to a dtype. Returns the module."""
        return super().to(dtype_of(dst_type))

    def bfloat16(self: M) -> M:
        """Convert floating parameters and buffers to bfloat16. Returns the module."""
        return super().to("bfloat16")

    def share_memory(self: M) -> M:
        """Raise WriteError: several processes cannot write to the same parameters."""
        fail(WriteError, "share_memory() of a module", NOT_SHARED)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile `forward` when the module is next called; arguments of PyTorch's compilers are taken."""
        object.__setattr__(self, "forward", wg.jit(self.forward))

    # -- hooks

    def _gradient(self) -> hooks.GradientHooks:
        """Return the hooks that see gradients. A forward hook that does nothing has them looked for."""
        found = self.__dict__.get("_gradient_hooks")
        if found is None:
            found = self.__dict__["_gradient_hooks"] = hooks.GradientHooks()
            hooks.add(self._hooks, _nothing)
        return found

    _backward_hooks = property(lambda self: self._gradient().after)
    _backward_pre_hooks = property(lambda self: self._gradient().before)

    def register_forward_hook(
        self, hook: Any, *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> hooks.RemovableHandle:
        """Call `hook(module, args, output)` after `forward`; what it returns, unless None, replaces the output.

        Parameters
        ----------
        prepend: whether it is called before those that there are.
        with_kwargs: whether it is called with the keyword arguments too, `hook(module, args, kwargs, output)`.
        always_call: whether it is called although `forward` fails.
        """
        made = hooks.Keyed(hook, with_kwargs, always_call) if with_kwargs or always_call else hook
        return hooks.add(self._hooks, made, prepend)

    def register_forward_pre_hook(
        self, hook: Any, *, prepend: bool = False, with_kwargs: bool = False
    ) -> hooks.RemovableHandle:
        """Call `hook(module, args)` before `forward`; what it returns, unless None, replaces `args`.

        With `with_kwargs` it is `hook(module, args, kwargs)`, and returns both or None.
        """
        return hooks.add(self._pre_hooks, hooks.Keyed(hook, True, False) if with_kwargs else hook, prepend)

    def register_full_backward_hook(self, hook: Any, prepend: bool = False) -> hooks.RemovableHandle:
        """Call `hook(module, grad_input, grad_output)` when gradients of the output and of tensor arguments are there.

        What it returns, unless None, takes the place of `grad_input`.
        """
        return hooks.add(self._gradient().after, hook, prepend)

    register_backward_hook = register_full_backward_hook

    def register_full_backward_pre_hook(self, hook: Any, prepend: bool = False) -> hooks.RemovableHandle:
        """Call `hook(module, grad_output)` with the gradients of the output; what it returns replaces them."""
        return hooks.add(self._gradient().before, hook, prepend)

    def _state_hooks(self, when: str) -> dict[int, Any]:
        """Return the hooks around a kind of dealing with state."""
        return self.__dict__.setdefault("_around_state", {}).setdefault(when, {})  # type: ignore[no-any-return]

    def register_state_dict_pre_hook(self, hook: Any) -> hooks.RemovableHandle:
        """Call `hook(module, prefix, keep_vars)` before `state_dict` reads the module."""
        return hooks.add(self._state_hooks("before_save"), hook)

    def register_state_dict_post_hook(self, hook: Any) -> hooks.RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata)` when `state_dict` has read the module."""
        return hooks.add(self._state_hooks("after_save"), hook)

    _register_state_dict_hook = register_state_dict_post_hook

    def register_load_state_dict_pre_hook(self, hook: Any) -> hooks.RemovableHandle:
        """Call `hook(module, state_dict, prefix, metadata, strict, missing, unexpected, errors)` before loading."""
        return hooks.add(self._state_hooks("before_load"), (hook, True))

    def _register_load_state_dict_pre_hook(self, hook: Any, with_module: bool = False) -> hooks.RemovableHandle:
        return hooks.add(self._state_hooks("before_load"), (hook, with_module))

    def register_load_state_dict_post_hook(self, hook: Any) -> hooks.RemovableHandle:
        """Call `hook(module, incompatible_keys)` when the module has been loaded."""
        return hooks.add(self._state_hooks("after_load"), hook)

    # -- state

    def state_dict(self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> Any:
        """Return parameters and persistent buffers by path; see :meth:`wengert.nn.Module.state_dict`.

        Parameters
        ----------
        destination: a mapping that is given them, and returned.
        prefix: what all paths begin with.
        keep_vars: whether the entries are the parameters themselves.
        """
        destination, prefix, keep_vars = (*args, *[destination, prefix, keep_vars][len(args) :])
        found: Any = OrderedDict() if destination is None else destination
        if destination is None:
            found._metadata = OrderedDict()
        if hasattr(found, "_metadata"):
            found._metadata[prefix[:-1]] = {"version": self._version}
        for hook in self._state_hooks("before_save").values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(found, prefix, keep_vars)
        for name, child in self._own("_modules"):
            if isinstance(child, Module):
                child.state_dict(destination=found, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
            else:
                found.update(child.state_dict(f"{prefix}{name}."))
        for hook in self._state_hooks("after_save").values():
            replaced = hook(self, found, prefix, {"version": self._version})
            found = found if replaced is None else replaced
        return found

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Give a mapping this module's own parameters, persistent buffers and extra state."""
        for registry in ("_parameters", "_buffers"):
            for name, value in self._own(registry):
                if registry == "_parameters" or name not in self._transient:
                    destination[prefix + name] = value if keep_vars else value.data
        if type(self).get_extra_state is not Module.get_extra_state:
            destination[f"{prefix}_extra_state"] = self.get_extra_state()

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Incompatible:
        """Take parameters and buffers from a mapping of tensors; dtypes stay the module's.

        Parameters
        ----------
        strict: whether missing and unexpected keys are an error; otherwise they are returned.
        assign: whether the module takes the mapping's tensors as they are, their dtypes too.

        Raises LoadError, a RuntimeError, for keys and shapes that do not fit and for what is no tensor; TypeError for
        no mapping.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        given: Any = OrderedDict(state_dict)
        given._metadata = getattr(state_dict, "_metadata", {})
        missing: list[str] = []
        unexpected: list[str] = []
        errors: list[str] = []
        self._load(given, "", assign, missing, unexpected, errors)
        if strict:
            for kind, keys in (("Unexpected", unexpected), ("Missing", missing)):
                if keys:
                    listed = ", ".join(f'"{k}"' for k in keys)
                    errors.insert(0, f"{kind} key(s) in state_dict: {listed}. ")
        if errors:
            raise LoadError("\n\t".join([f"Error(s) in loading state_dict for {type(self).__name__}:", *errors]))
        return IncompatibleKeys(missing, unexpected)

    def _load(
        self, given: Any, prefix: str, assign: bool, missing: list[str], unexpected: list[str], errors: list[str]
    ) -> None:
        metadata = dict(given._metadata.get(prefix[:-1], {}), **({"assign_to_params_buffers": True} if assign else {}))
        self._load_from_state_dict(given, prefix, metadata, True, missing, unexpected, errors)
        for name, child in self._own("_modules"):
            path = f"{prefix}{name}."
            if isinstance(child, Module):
                below: Any = OrderedDict((k, v) for k, v in given.items() if k.startswith(path))
                below._metadata = given._metadata
                child._load(below, path, assign, missing, unexpected, errors)
            else:
                below = {k.removeprefix(path): v for k, v in given.items() if k.startswith(path)}
                found = child.load_state_dict(below, strict=False)
                missing += [path + k for k in found.missing_keys]
                unexpected += [path + k for k in found.unexpected_keys]
        keys = IncompatibleKeys(missing, unexpected)
        for hook in self._state_hooks("after_load").values():
            hook(self, keys)

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Take this module's own parameters, buffers and extra state from a mapping; note what does not fit."""
        for hook, with_module in self._state_hooks("before_load").values():
            around = (state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
            hook(*((self, *around) if with_module else around))
        held = [*self._own("_parameters"), *((n, b) for n, b in self._own("_buffers") if n not in self._transient)]
        for name, target in held:
            key = prefix + name
            if key not in state_dict:
                if strict and name not in self._may_lack:
                    missing_keys.append(key)
                continue
            value: Any = state_dict[key]
            if not isinstance(value, PlainTensor):
                error_msgs.append(
                    f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object from '
                    f"checkpoint but received {type(value)}"
                )
                continue
            value = tensor_of(value)
            if not target.shape and tuple(value.shape) == (1,):  # as very old files have it
                value = value[0]
            if tuple(value.shape) != tuple(target.shape):
                error_msgs.append(
                    f"size mismatch for {key}: copying a param with shape {value.shape} from checkpoint, "
                    f"the shape in current model is {target.shape}."
                )
            elif (local_metadata or {}).get("assign_to_params_buffers"):
                is_parameter = isinstance(target, Parameter) and not isinstance(value, Parameter)
                setattr(self, name, Parameter(value, target.requires_grad) if is_parameter else value)
            else:
                target.assign_(value.detach())
        self._load_extra_state(state_dict, f"{prefix}_extra_state", strict, missing_keys)
        if strict:
            names = {name for name, _ in held} | {name for name, _ in self._own("_modules")}
            if type(self).set_extra_state is not Module.set_extra_state:
                names.add("_extra_state")
            unexpected_keys += [
                key
                for key in state_dict
                if key.startswith(prefix) and key.removeprefix(prefix).partition(".")[0] not in names
            ]
            # A path that goes on where there is a tensor.
            unexpected_keys += [key for name, _ in held for key in state_dict if key.startswith(f"{prefix}{name}.")]

    def _load_extra_state(self, state_dict: Any, key: str, strict: bool, missing_keys: list[str]) -> None:
        if type(self).set_extra_state is Module.set_extra_state:
            return
        if key in state_dict:
            self.set_extra_state(state_dict[key])
        elif strict:
            missing_keys.append(key)

    def get_extra_state(self) -> Any:
        """Raise NotImplementedError: subclasses with state that is no tensor define it."""
        raise NotImplementedError("get_extra_state() is for subclasses to define")

    def set_extra_state(self, state: Any) -> None:
        """Raise NotImplementedError: subclasses with state that is no tensor define it."""
        raise NotImplementedError("set_extra_state() is for subclasses to define")


def _check_order(args: tuple[Any, ...]) -> None:
    """Raise TypeError for positional arguments of `to` that are none of PyTorch's, or in another order."""
    first, *rest = args or (None,)
    is_device = first is None or (isinstance(first, (device, int, str)) and not isinstance(first, bool))
    if isinstance(first, (bool, list, dict)):
        raise TypeError(f"to() of a {type(first).__name__}: a device, a dtype or a tensor comes first")
    if is_device and rest and isinstance(rest[0], (bool, PlainTensor)):
        raise TypeError(f"to(): a dtype comes after the device, not a {type(rest[0]).__name__}")


def _nothing(module: Module, args: tuple[Any, ...], output: Any) -> None:
    """Do nothing: a module with a hook is one whose hooks are looked at."""


def counterpart(cls: Any) -> Any:
    """Return the class of this namespace for a layer of `wengert.nn`, or for a base of layers: it is a `Module` too.

    Its constructor takes PyTorch's dtypes and devices.
    """
    if cls is plain.Module:
        return Module
    made = COUNTERPARTS.get(cls)
    if made is None:
        bases = [counterpart(base) for base in cls.__bases__ if issubclass(base, plain.Module)]
        # Examples stand with the class that it is made of, and are run there.
        text = re.split(r"\n\s*>{3} ", cls.__doc__ or "")[0].rstrip()
        doc = f"{text}\n\n    An example: :class:`wengert.nn.{cls.__name__}`.\n    "
        # Its methods come before those of PyTorch's Module, as they would if it had been written with that as its base.
        own = {name: value for name, value in vars(cls).items() if name not in ("__dict__", "__weakref__")}
        own |= {"__init__": _reading(cls.__init__), "__doc__": doc, "__module__": "wengert.torch.nn"}
        made = COUNTERPARTS[cls] = type(cls.__name__, (*bases, cls), own)
    return made


def _reading(construct: Callable[..., None]) -> Callable[..., None]:
    """Return a constructor that takes PyTorch's dtypes and devices, where it takes any."""
    code = construct.__code__
    if "device" not in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
        return construct
    signature = inspect.signature(construct)

    @functools.wraps(construct)
    def __init__(*args: Any, **kwargs: Any) -> None:
        given = signature.bind(*args, **kwargs)
        options = given.arguments
        options["device"] = where(options.get("device"))
        if options.get("dtype") is not None:
            options["dtype"] = dtype_of(options["dtype"])
        construct(*given.args, **given.kwargs)

    return __init__


def _call_among_all(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Run `forward` among the hooks of all modules inside this module's scope."""
    frame, outer = sys._getframe(1), get_mode()
    token = set_mode(self._enter(outer, frame.f_code, frame.f_lasti))
    try:
        return hooks.call(self, args, kwargs)
    finally:
        reset_mode(token)


def follow_everywhere() -> None:
    """Have calls of modules look for hooks of all modules if there are such."""
    if hooks.everywhere:
        Module.__call__ = _call_among_all  # type: ignore[method-assign]
    elif "__call__" in Module.__dict__:
        del Module.__call__


class _EverywhereHandle(hooks.RemovableHandle):
    """A handle of a hook of all modules: without any, their calls look for none."""

    __slots__ = ()

    def remove(self) -> None:
        """End the hook. A second call does nothing."""
        super().remove()
        follow_everywhere()


def hook_everywhere(found: dict[int, Any], hook: Any) -> hooks.RemovableHandle:
    """Add a hook of all modules that is called around `forward`, and return its handle."""
    handle = _EverywhereHandle(found)
    found[handle.id] = hook
    follow_everywhere()
    return handle
