"""`Module` with PyTorch's methods, and the layers of `wengert.nn` as such modules.

A module of this namespace takes what is assigned to it into it: parameters and buffers get PyTorch's methods, layers of
`wengert.nn` become those of `wengert.torch.nn`, with all that is inside them. They stay the objects that they were.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from ... import nn as plain
from ...core.tensor import Tensor as PlainTensor
from ...execute.jit import jit
from ...nn.module import HookHandle, Incompatible
from ...nn.parameter import Parameter as PlainParameter
from ...nn.parameter import recast_
from ..tensor import Tensor, device, dtype_of, on_cpu
from .parameter import Parameter

M = TypeVar("M", bound="Module")

# The module of this namespace for each class of `wengert.nn`.
COUNTERPARTS: dict[type, type] = {}


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
    tensor([6.], grad_fn=multiply)
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, (PlainTensor, plain.Module)):
            value = adopted(value)
        super().__setattr__(name, value)

    def _register(self, registry: str, name: str, value: Any) -> None:
        super()._register(registry, name, adopted(value))

    def _get_name(self) -> str:
        return type(self).__name__

    # -- where it is, and in which dtype

    def to(self: M, *args: Any, **kwargs: Any) -> M:
        """Convert floating parameters and buffers to a dtype, given as such, by a tensor, or after a device.

        Returns the module. Raises DTypeError for a device that is not the processor, for other than floating dtypes.
        """
        dtype = kwargs.get("dtype")
        on_cpu(kwargs.get("device"))
        for a in args:
            if isinstance(a, PlainTensor):
                dtype = a.dtype
            elif isinstance(a, (device, int)) and not isinstance(a, bool):
                on_cpu(device(a))
            elif isinstance(a, str) and not a.startswith(("float", "bfloat", "complex", "torch.")):
                on_cpu(a)
            elif a is not None and not isinstance(a, bool):
                dtype = a
        return self if dtype is None else super().to(dtype_of(dtype))

    def cpu(self: M) -> M:
        """Return the module: it is on the processor."""
        return self

    def cuda(self: M, device: Any = None) -> M:
        """Raise DTypeError: modules live on the processor."""
        on_cpu("cuda")
        return self

    def type(self: M, dst_type: Any) -> M:
        """Convert floating parameters and buffers to a dtype. Returns the module."""
        return super().to(dtype_of(dst_type))

    def bfloat16(self: M) -> M:
        """Convert floating parameters and buffers to bfloat16. Returns the module."""
        return super().to("bfloat16")

    def share_memory(self: M) -> M:
        """Return the module. A process forked later has its values as they are then."""
        return self

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile `forward` when the module is next called; arguments of PyTorch's compilers are taken."""
        object.__setattr__(self, "forward", jit(self.forward))

    # -- hooks

    def register_forward_hook(self, hook: Any, *, prepend: bool = False, with_kwargs: bool = False, **_: Any) -> Any:
        """Call `hook(module, args, output)` after `forward`; what it returns, unless None, replaces the output."""
        return super().register_forward_hook(hook)

    def register_forward_pre_hook(self, hook: Any, *, prepend: bool = False, with_kwargs: bool = False) -> HookHandle:
        """Call `hook(module, args)` before `forward`; what it returns, unless None, replaces `args`."""
        return super().register_forward_pre_hook(hook)

    def register_full_backward_hook(self, hook: Any, prepend: bool = False) -> HookHandle:
        """Call `hook(module, grad_input, grad_output)` when gradients of the output and of tensor arguments are there.

        What it returns, unless None, takes the place of `grad_input`.
        """
        return super().register_forward_hook(functools.partial(_watch_backward, hook))

    register_backward_hook = register_full_backward_hook

    # -- state

    def state_dict(  # type: ignore[override]
        self, destination: Any = None, prefix: str = "", keep_vars: bool = False, **_: Any
    ) -> dict[str, Tensor]:
        """Return parameters and persistent buffers by path; see :meth:`wengert.nn.Module.state_dict`."""
        if isinstance(destination, str):
            destination, prefix = None, destination
        found = {name: value if keep_vars else value.data for name, value in self._state(prefix)}
        if destination is None:
            return found  # type: ignore[return-value]
        destination.update(found)
        return destination  # type: ignore[no-any-return]

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Incompatible:
        """Take parameters and buffers from a mapping; see :meth:`wengert.nn.Module.load_state_dict`.

        With `assign` they take the mapping's dtypes too.
        """
        if assign:
            for name, target in self._state():
                value = state_dict.get(name)
                if value is not None and getattr(value, "dtype", target.dtype) != target.dtype:
                    recast_(target, value.dtype)
        return super().load_state_dict(state_dict, strict)

    def get_buffer(self, target: str) -> Tensor:
        """Return the buffer at a path such as `norm.running_mean`. Raises AttributeError where there is none."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if name not in module._buffers:
            raise AttributeError(f"{type(module).__name__} has no buffer {name!r} (of the path {target!r})")
        return getattr(module, name)  # type: ignore[no-any-return]

    def get_extra_state(self) -> Any:
        """Raise NotImplementedError: subclasses with state that is no tensor define it."""
        raise NotImplementedError("get_extra_state() is for subclasses to define")

    def _apply(self: M, fn: Callable[[Any], Any]) -> M:
        """Give all parameters and buffers the value that `fn` makes of them. Returns the module."""
        for held in (*self.parameters(), *self.buffers()):
            held.data = fn(held.data)
        return self

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """Return the buffers with their paths; a shared one once, unless `remove_duplicate=False`."""
        return super().named_buffers(prefix, recurse, remove_duplicate)


def _watch_backward(hook: Any, module: Module, args: tuple[Any, ...], output: Any) -> None:
    outs = [o for o in (output if isinstance(output, tuple) else (output,)) if isinstance(o, PlainTensor)]
    ins = [a for a in args if isinstance(a, PlainTensor) and a.requires_grad]
    seen: dict[int, Any] = {}
    if not ins:
        for i, o in enumerate(outs):
            if o.requires_grad:
                o.register_hook(functools.partial(_only_output, hook, module, seen, i, len(outs)))
        return
    for i, o in enumerate(outs):
        if o.requires_grad:
            o.register_hook(functools.partial(_keep, seen, i))
    arrived: dict[int, Any] = {}
    for i, a in enumerate(ins):
        if not a.is_leaf:
            a.register_hook(functools.partial(_call, hook, module, seen, arrived, i, len(ins), len(outs)))


def _keep(seen: dict[int, Any], i: int, gradient: Any) -> None:
    seen[i] = gradient


def _only_output(hook: Any, module: Module, seen: dict[int, Any], i: int, count: int, gradient: Any) -> None:
    seen[i] = gradient
    hook(module, (None,), tuple(seen.get(k) for k in range(count)))


def _call(
    hook: Any,
    module: Module,
    seen: dict[int, Any],
    arrived: dict[int, Any],
    i: int,
    count: int,
    outs: int,
    gradient: Any,
) -> Any:
    arrived[i] = gradient
    if len(arrived) < count:
        return None
    replaced = hook(module, tuple(arrived.get(k) for k in range(count)), tuple(seen.get(k) for k in range(outs)))
    if replaced is None:
        return None
    return replaced[i] if isinstance(replaced, tuple) else replaced


def layer(cls: type, **renamed: str) -> Any:
    """Return a layer of `wengert.nn` as one of this namespace, whose constructor takes `device` and `dtype`.

    `renamed` gives PyTorch's names of parameters that are called otherwise.
    """
    takes_dtype = "dtype" in inspect.signature(cls).parameters

    def __init__(self: Any, *args: Any, device: Any = None, dtype: Any = None, **kwargs: Any) -> None:
        on_cpu(device)
        kwargs.pop("inplace", None)
        kwargs = {renamed.get(k, k): v for k, v in kwargs.items()}
        if dtype is not None and takes_dtype:
            kwargs["dtype"] = dtype_of(dtype)
        cls.__init__(self, *args, **kwargs)  # type: ignore[misc]
        if dtype is not None and not takes_dtype:
            self.to(dtype_of(dtype))

    made = type(
        cls.__name__,
        (Module, cls),
        {"__init__": __init__, "__doc__": cls.__doc__, "__module__": "wengert.torch.nn", "__qualname__": cls.__name__},
    )
    COUNTERPARTS[cls] = made
    return made
