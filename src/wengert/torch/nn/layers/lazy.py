"""Layers that learn the size of their input from the first one they see.

Until then their parameters have no shape. The first call gives them one, and the layer becomes the plain layer of its
kind: `LazyLinear` a `Linear`.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from ....core.errors import GraphError, ShapeError, fail
from ....core.tensor import wrap
from ....nn.layers import conv as plain_conv
from ....nn.layers import linear as plain_linear
from ....nn.layers import norm as plain_norm
from ...namespace import tensor_of
from ...tensor import Size, Tensor, dtype_of, on_cpu
from ..module import Module, counterpart
from ..parameter import UninitializedBuffer, UninitializedParameter, is_lazy

__all__ = [
    "LazyBatchNorm1d",
    "LazyBatchNorm2d",
    "LazyBatchNorm3d",
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
    "LazyLinear",
    "LazyModuleMixin",
    "UninitializedBuffer",
    "UninitializedParameter",
]


Linear: Any = counterpart(plain_linear.Linear)
ConvBase: Any = counterpart(plain_conv.ConvBase)
NormBase: Any = counterpart(plain_norm.NormBase)


class LazyModuleMixin(Module):
    """A base that a layer has before its own class to learn sizes from its first input.

    Subclasses define `initialize_parameters(*args)`, which is given that input and gives parameters their shapes, and
    `cls_to_become`: what the layer is afterwards.
    """

    cls_to_become: Any = None

    def has_uninitialized_params(self) -> bool:
        """Return whether a parameter or buffer has no shape yet."""
        return any(is_lazy(p) for p in (*self.parameters(recurse=False), *self.buffers(recurse=False)))

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Raise NotImplementedError: subclasses give their parameters shapes here."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Give parameters their shapes, and run the layer."""
        self.initialize_parameters(*args, **kwargs)
        if self.has_uninitialized_params():
            fail(GraphError, f"{type(self).__name__} has parameters without a shape after initialize_parameters")
        if self.cls_to_become is None:
            return super().__call__(*args, **kwargs)
        object.__setattr__(self, "__class__", self.cls_to_become)
        return self(*args, **kwargs)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for name, value in (*self._own("_parameters"), *self._own("_buffers")):
            if is_lazy(value) and prefix + name in destination:
                destination[prefix + name] = value

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        left = []
        for name, held in (*self._own("_parameters"), *self._own("_buffers")):
            value = state_dict.get(prefix + name)
            if is_lazy(value) and is_lazy(held):
                left.append(prefix + name)
            elif is_lazy(held) and value is not None:
                held.materialize(value.shape)
        if not left:
            super()._load_from_state_dict(state_dict, prefix, *rest)


def _uninitialized(layer: Any, names: tuple[str, ...], parameters: bool, dtype: Any) -> None:
    """Give a layer parameters or buffers without a shape."""
    for name in names:
        if parameters:
            setattr(layer, name, UninitializedParameter(dtype=dtype))
        else:
            layer.register_buffer(name, UninitializedBuffer(dtype=dtype))


class LazyLinear(LazyModuleMixin, Linear):  # type: ignore[misc]
    """A :class:`Linear` whose `in_features` is the size of its first input's last axis.

    >>> import wengert.torch as torch
    >>> layer = torch.nn.LazyLinear(5)
    >>> layer(torch.zeros(2, 3)).shape, layer
    (torch.Size([2, 5]), Linear(in_features=3, out_features=5, bias=True))
    """

    cls_to_become = Linear

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        on_cpu(device)  # until there is a shape, nothing is placed
        Linear.__init__(self, 0, 0, False, device, dtype)
        self.out_features = out_features
        _uninitialized(self, ("weight", "bias") if bias else ("weight",), True, dtype)

    def reset_parameters(self) -> None:
        """Draw new initial values, once there are shapes."""
        if not self.has_uninitialized_params() and self.in_features:
            super().reset_parameters()

    def initialize_parameters(self, input: Any) -> None:
        """Give the weight and the bias their shapes by an input."""
        self.in_features = input.shape[-1]
        if self.has_uninitialized_params():
            self.weight.materialize((self.out_features, self.in_features))
            if self.bias is not None:
                self.bias.materialize((self.out_features,))
            self.reset_parameters()


class _LazyConv(LazyModuleMixin, ConvBase):  # type: ignore[misc]
    """The base of convolutions that learn how many channels they take."""

    def _make_parameters(self, bias: bool, dtype: Any, device: Any) -> None:
        on_cpu(device)
        self.register_parameter("weight", None)
        self.register_parameter("bias", None)
        _uninitialized(self, ("weight", "bias") if bias else ("weight",), True, dtype)

    def reset_parameters(self) -> None:
        """Draw new initial values, once there are shapes."""
        if not self.has_uninitialized_params() and self.in_channels:
            super().reset_parameters()

    def initialize_parameters(self, input: Any, *args: Any, **kwargs: Any) -> None:
        """Give the kernels their shape by an input, (N, C, *sizes) or (C, *sizes)."""
        n = self._ndim
        if input.ndim not in (n + 1, n + 2):
            fail(ShapeError, f"{type(self).__name__} of shape {tuple(input.shape)}", f"It has {n + 1} or {n + 2} axes.")
        self.in_channels = input.shape[-n - 1]
        if self.in_channels % self.groups:
            fail(ShapeError, f"{type(self).__name__}: {self.in_channels} channels in {self.groups} groups")
        if self.has_uninitialized_params():
            self.weight.materialize(self._weight_shape())
            if self.bias is not None:
                self.bias.materialize((self.out_channels,))
            self.reset_parameters()


class _LazyNorm(LazyModuleMixin, NormBase):  # type: ignore[misc]
    """The base of norms that learn how many channels there are."""

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        on_cpu(device)
        NormBase.__init__(self, 0, eps, momentum, False, False, device, dtype)
        self.affine = affine
        self.track_running_stats = track_running_stats
        if affine:
            _uninitialized(self, ("weight", "bias") if bias else ("weight",), True, dtype)
        if track_running_stats:
            _uninitialized(self, ("running_mean", "running_var"), False, dtype)
            self.num_batches_tracked = tensor_of(np.array(0))

    def reset_parameters(self) -> None:
        """Set statistics, weight and bias to their first values, once there are shapes."""
        if not self.has_uninitialized_params() and self.num_features:
            super().reset_parameters()

    def initialize_parameters(self, input: Any) -> None:
        """Give parameters and statistics their shape by an input, (N, C, ...)."""
        self.num_features = input.shape[1]
        if self.has_uninitialized_params():
            for held in (self.weight, self.bias, self.running_mean, self.running_var):
                if held is not None:
                    held.materialize((self.num_features,))
            self.reset_parameters()


def _lazy(base: type, cls: Any, doc: str) -> Any:
    """Return the lazy layer that becomes that of a class of `wengert.nn`."""
    plain = counterpart(cls)
    options = list(inspect.signature(plain).parameters.values())

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        plain.__init__(self, 0, *args, **kwargs)

    members: dict[str, Any] = {"cls_to_become": plain, "__doc__": doc, "__module__": __name__}
    if base is _LazyConv:
        members["__init__"] = __init__
        __init__.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD), *options[1:]]
        )
    name = f"Lazy{plain.__name__}"
    return type(name, (base, plain), {**members, "__qualname__": name})


def _family(base: type, plains: tuple[Any, ...], what: str) -> list[Any]:
    return [_lazy(base, p, f"A :class:`{p.__name__}` whose `{what}` is that of its first input.") for p in plains]


LazyConv1d, LazyConv2d, LazyConv3d = _family(
    _LazyConv, (plain_conv.Conv1d, plain_conv.Conv2d, plain_conv.Conv3d), "in_channels"
)
LazyConvTranspose1d, LazyConvTranspose2d, LazyConvTranspose3d = _family(
    _LazyConv, (plain_conv.ConvTranspose1d, plain_conv.ConvTranspose2d, plain_conv.ConvTranspose3d), "in_channels"
)
LazyBatchNorm1d, LazyBatchNorm2d, LazyBatchNorm3d = _family(
    _LazyNorm, (plain_norm.BatchNorm1d, plain_norm.BatchNorm2d, plain_norm.BatchNorm3d), "num_features"
)
LazyInstanceNorm1d, LazyInstanceNorm2d, LazyInstanceNorm3d = _family(
    _LazyNorm, (plain_norm.InstanceNorm1d, plain_norm.InstanceNorm2d, plain_norm.InstanceNorm3d), "num_features"
)
