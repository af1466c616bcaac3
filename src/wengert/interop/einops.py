"""einops on tensors: a backend of its functions, and its layers as modules of `wengert.nn`.

Importing this module (or naming `wengert.interop.einops`) makes `einops.rearrange`, `reduce`, `repeat`, `einsum`,
`pack` and `unpack` take tensors of `wengert` and of `wengert.torch`; what they give is of the same class, and
derivatives, `vmap` and `wg.jit` know nothing but the operations that they are made of. The layers `Rearrange`, `Reduce`
and `EinMix` have the parameters of einops'. Under `python -m wengert.torch` programs that import `einops` and
`einops.layers.torch` run as they are. The package einops (0.7 or later) is an extra: `pip install 'wengert[einops]'`.

>>> import wengert as wg
>>> import wengert.interop.einops
>>> from einops import rearrange, reduce
>>> rearrange(wg.arange(6), "(h w) -> w h", h=2).tolist()
[[0, 3], [1, 4], [2, 5]]
>>> reduce(wg.arange(6.0), "(h w) -> h", "mean", h=2)
tensor([1., 4.])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import wengert as wg

from ..core.errors import DataError, fail
from ..core.spec import category
from ..core.tensor import Tensor
from ..nn.module import Module

try:
    import einops._backends
    import einops.layers
    import einops.layers._einmix
except ImportError:
    EINOPS: Any = None
else:
    EINOPS = einops

__all__ = ["EinMix", "Rearrange", "Reduce", "WengertBackend"]


class _Missing:
    """A stand-in for the layers' parts, with which they can be read about, and not made."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        fail(DataError, f"{cls.__name__} needs the package einops, 0.7 or later", "pip install 'wengert[einops]'")


RearrangeMixin: Any = EINOPS.layers.RearrangeMixin if EINOPS else _Missing
ReduceMixin: Any = EINOPS.layers.ReduceMixin if EINOPS else _Missing
EinMixMixin: Any = EINOPS.layers._einmix._EinmixMixin if EINOPS else _Missing
AbstractBackend: Any = EINOPS._backends.AbstractBackend if EINOPS else _Missing


class WengertBackend(AbstractBackend):  # type: ignore[misc]
    """The operations that einops is made of, on tensors; einops finds it among the subclasses of its own base."""

    framework_name = "wengert"

    def is_appropriate_type(self, tensor: Any) -> bool:
        """Return whether it is a tensor of `wengert`, or of `wengert.torch`."""
        return isinstance(tensor, Tensor)

    def from_numpy(self, x: Any) -> Tensor:
        """Return an array as a tensor."""
        return wg.tensor(x)

    def to_numpy(self, x: Tensor) -> Any:
        """Return the values as an array."""
        return x.detach().numpy()

    def arange(self, start: int, stop: int) -> Tensor:
        """Return the integers from `start` to `stop`."""
        return wg.arange(start, stop)

    def shape(self, x: Tensor) -> Any:
        """Return the sizes."""
        return x.shape

    def reshape(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        """Return the elements in another shape."""
        return wg.reshape(x, tuple(shape))

    def transpose(self, x: Tensor, axes: Sequence[int]) -> Tensor:
        """Return the axes in another order."""
        return wg.permute_dims(x, tuple(axes))

    def reduce(self, x: Tensor, operation: str, axes: Sequence[int]) -> Tensor:
        """Return the sum, mean, max, min, prod, any or all over axes."""
        found: Tensor = getattr(wg, operation)(x, axis=tuple(axes))
        return found

    def stack_on_zeroth_dimension(self, tensors: list[Tensor]) -> Tensor:
        """Return tensors along a new first axis."""
        return wg.stack(tensors)

    def add_axis(self, x: Tensor, new_position: int) -> Tensor:
        """Return the tensor with an axis of size 1 more."""
        return wg.expand_dims(x, axis=new_position)

    def add_axes(self, x: Tensor, n_axes: int, pos2len: dict[int, int]) -> Tensor:
        """Return the tensor repeated along new axes of the given sizes, without a copy of its elements."""
        for position in sorted(pos2len):
            x = wg.expand_dims(x, axis=position)
        return wg.broadcast_to(x, tuple(pos2len.get(at, x.shape[at]) for at in range(n_axes)))

    def tile(self, x: Tensor, repeats: Sequence[int]) -> Tensor:
        """Return the tensor repeated along each axis."""
        return wg.tile(x, tuple(repeats))

    def concat(self, tensors: list[Tensor], axis: int) -> Tensor:
        """Return tensors joined along an axis."""
        return wg.concat(tensors, axis=axis)

    def is_float_type(self, x: Tensor) -> bool:
        """Return whether means can be taken."""
        return category(x.dtype) >= 2

    def einsum(self, pattern: str, *x: Tensor) -> Tensor:
        """Return the sum of products that a pattern of letters says."""
        return wg.einsum(pattern, *x)

    def layers(self) -> Any:
        """Return the module of the layers."""
        return wg.interop.einops


class Rearrange(RearrangeMixin, Module):  # type: ignore[misc]
    """A layer that reorders, joins and splits axes by a pattern, as `einops.rearrange`.

    `Rearrange(pattern, **sizes)`: the sizes are those of axes that the input does not tell.

    >>> import wengert as wg
    >>> from wengert.interop.einops import Rearrange
    >>> flatten = Rearrange("b c h w -> b (c h w)")
    >>> flatten(wg.ones((2, 1, 3, 3))).shape
    (2, 9)
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the tensor with its axes rearranged. Raises einops' EinopsError where it does not fit."""
        found: Tensor = self._apply_recipe(input)
        return found


class Reduce(ReduceMixin, Module):  # type: ignore[misc]
    """A layer that reduces axes by a pattern, as `einops.reduce`.

    `Reduce(pattern, reduction, **sizes)` with a reduction of "min", "max", "sum", "mean", "prod", "any", "all", or a
    function of (tensor, axes).

    >>> import wengert as wg
    >>> from wengert.interop.einops import Reduce
    >>> Reduce("b c (h 2) (w 2) -> b c h w", "max")(wg.ones((1, 1, 4, 4))).shape
    (1, 1, 2, 2)
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the reduced tensor. Raises einops' EinopsError where it does not fit."""
        found: Tensor = self._apply_recipe(input)
        return found


class EinMix(EinMixMixin, Module):  # type: ignore[misc]
    """A layer that multiplies with weights of its own along the axes that a pattern names, and adds a bias.

    `EinMix(pattern, weight_shape, bias_shape=None, **sizes)`: every axis of the weight and the bias has a size.

    >>> import wengert as wg
    >>> from wengert.interop.einops import EinMix
    >>> heads = EinMix("b c -> b h d", weight_shape="c h d", bias_shape="h d", c=8, h=2, d=4)
    >>> heads(wg.ones((3, 8))).shape, heads.weight.shape
    ((3, 2, 4), (8, 2, 4))
    """

    def _create_parameters(self, weight_shape: Any, weight_bound: float, bias_shape: Any, bias_bound: float) -> None:
        self.weight = _uniform(weight_shape, weight_bound)
        self.bias = None if bias_shape is None else _uniform(bias_shape, bias_bound)

    def _create_rearrange_layers(
        self, pre_reshape_pattern: Any, pre_reshape_lengths: Any, post_reshape_pattern: Any, post_reshape_lengths: Any
    ) -> None:
        self.pre_rearrange = self.post_rearrange = None
        layer: Any = Rearrange
        if pre_reshape_pattern is not None:
            self.pre_rearrange = layer(pre_reshape_pattern, **pre_reshape_lengths)
        if post_reshape_pattern is not None:
            self.post_rearrange = layer(post_reshape_pattern, **post_reshape_lengths)

    def forward(self, input: Tensor) -> Tensor:
        """Return the weighted sums. Raises einops' EinopsError where the input does not fit."""
        if self.pre_rearrange is not None:
            input = self.pre_rearrange(input)
        found: Tensor = wg.einsum(self.einsum_pattern, input, self.weight)
        if self.bias is not None:
            found = found + self.bias
        return found if self.post_rearrange is None else self.post_rearrange(found)


def _uniform(shape: Sequence[int], bound: float) -> Any:
    return wg.nn.Parameter(wg.random.uniform(tuple(shape), -bound, bound))


def __dir__() -> list[str]:
    return sorted(__all__)
