"""`Parameter`: a tensor that a module trains."""

from __future__ import annotations

from typing import Any

from ..core.tensor import Tensor, refuse_cut


class Parameter(Tensor):
    """A leaf tensor that becomes one of a module's parameters when assigned to an attribute.

    Parameters
    ----------
    data: anything :func:`wengert.tensor` takes; it is copied.
    requires_grad: whether gradients are collected; False freezes the parameter.
    dtype: the dtype, where it is to differ from the data's.

    Raises DTypeError for data that is not floating or complex unless `requires_grad=False`.

    >>> import wengert as wg
    >>> wg.nn.Parameter([1.0, 2.0])
    Parameter containing:
    tensor([1., 2.], requires_grad=True)

    It takes attributes of one's own, such as what an optimiser's groups are made by (`p.no_weight_decay = True`); a
    copy is without them, and other tensors have no room for any.
    """

    # The unused slot makes this the class after which CPython lays out `wengert.torch.nn.Parameter` too, whose first
    # base is another: so that a parameter can become one of that namespace.
    __slots__ = ("__dict__", "_layout")
    is_parameter = True

    def __init__(self, data: Any, requires_grad: bool = True, dtype: Any = None) -> None:
        source = data
        if isinstance(data, Tensor):
            refuse_cut(data, "a parameter, nn.Parameter(x),")
            source = data.detach()
        super().__init__(source, dtype=dtype, requires_grad=requires_grad)
