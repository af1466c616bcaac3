"""PyTorch's autocast on the processor: which functions compute in bfloat16 or float16, which in float32."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from ...core import tree
from ...core.dtypes import DType, made
from ...core.errors import GradientError, fail
from ...core.mode import Mode, ModeBlock, get_mode, set_mode
from ...core.ops.autocast import Detour, is_half, lower_precision
from ...core.spec import as_dtype, category, float16
from ...core.tensor import Tensor
from ..absent import names_of
from ..dtypes import dtype_named

# What `set_autocast_dtype` has set for the processor, in this thread.
_cpu_dtype: ContextVar[DType | None] = ContextVar("wengert_torch_autocast_dtype", default=None)


def _is_cpu(device_type: str) -> bool:
    return device_type.partition(":")[0] == "cpu"


def _inside(outer: Mode, dtype: DType | None) -> Mode:
    if dtype is None:
        return outer.with_autocast(None)
    return outer.with_autocast(lower_precision(dtype, "torch"), Detour())


class autocast(ModeBlock):
    """A context, or a decorator, in which functions compute in less precision where that is enough.

    Parameters
    ----------
    device_type: "cpu". For "cuda" it warns and has no effect, as PyTorch's without a GPU.
    dtype: torch.bfloat16 (on "cpu" the default) or torch.float16.
    enabled: False computes everything inside in the precision of its operands, also in the midst of an autocast.
    cache_enabled: accepted; no casts are kept, so none goes stale.

    Functions and result dtypes are those of PyTorch's list for CPUs: products, convolutions, attention and `linear` in
    the lower one; losses, `prod`, quantiles, Fourier transforms, factorisations in float32; all others in that of their
    operands. See :class:`wengert.autocast` for one that has more in float32.

    >>> import wengert.torch as torch
    >>> layer = torch.nn.Linear(3, 2)
    >>> with torch.autocast("cpu", dtype=torch.bfloat16):
    ...     out = layer(torch.ones(1, 3))
    ...     loss = torch.nn.functional.mse_loss(out, torch.ones(1, 2))
    >>> out.dtype, loss.dtype
    (torch.bfloat16, torch.float32)
    """

    __slots__ = ("_enabled", "device", "fast_dtype")

    def __init__(
        self, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        super().__init__()
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        kind = device_type.partition(":")[0]
        self.device = kind
        plain = _default(kind) if dtype is None else as_dtype(dtype)
        self.fast_dtype = dtype_named(plain)
        if enabled and kind != "cpu":
            text = f"User provided device_type of {kind!r}, but it is not available. Disabling"
            warnings.warn(text, UserWarning, stacklevel=2)
            enabled = False
        if enabled and not is_half(plain):
            text = (
                "In CPU autocast, but the target dtype is not supported. Disabling autocast.\n"
                "CPU Autocast only supports dtypes of torch.bfloat16, torch.float16 currently."
            )
            warnings.warn(text, UserWarning, stacklevel=2)
            enabled = False
        self._enabled = bool(enabled)

    @property
    def dtype_name(self) -> str | None:
        """The name of the lower precision; None where the block is not enabled."""
        return self.fast_dtype.name if self._enabled else None

    def mode(self, outer: Mode) -> Mode:
        """Return the mode inside the block."""
        return outer if self.device != "cpu" else _inside(outer, self.fast_dtype.dtype if self._enabled else None)

    def __enter__(self) -> autocast:
        super().__enter__()
        return self


# -- asked and set by name


def is_autocast_available(device_type: str) -> bool:
    """Return whether there is an autocast for a device: for the processor."""
    return _is_cpu(str(device_type))


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Return whether an autocast is on in this thread; for other devices than "cpu", and for none, False."""
    return device_type is not None and _is_cpu(str(device_type)) and get_mode().autocast is not None


def is_autocast_cpu_enabled() -> bool:
    """Return whether an autocast is on in this thread."""
    return is_autocast_enabled("cpu")


def set_autocast_enabled(device_type: Any, enabled: bool | None = None) -> None:
    """Set whether an autocast is on, for "cpu" in this thread; one flag alone is about GPUs, of which there are none.

    Raises GradientError for the autocast of another device.
    """
    kind, on = ("cuda", device_type) if enabled is None else (str(device_type), enabled)
    if _is_cpu(kind):
        set_mode(_inside(get_mode(), _default("cpu") if on else None))
    elif on:
        fail(GradientError, f"set_autocast_enabled({kind!r}, True)", 'There is an autocast for "cpu".')


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """Set whether an autocast is on in this thread."""
    set_autocast_enabled("cpu", enabled)


def get_autocast_dtype(device_type: str) -> Any:
    """Return the dtype that an autocast has where none is named: on "cpu" bfloat16, unless another was set."""
    return dtype_named(_default(device_type))


def _default(device_type: str) -> DType:
    if not _is_cpu(str(device_type)):
        return float16
    current = get_mode().autocast
    return current.dtype if current is not None else _cpu_dtype.get() or made("bfloat16")


def get_autocast_gpu_dtype() -> Any:
    """Return the dtype that PyTorch's autocast has by default on a GPU."""
    return get_autocast_dtype("cuda")


def get_autocast_cpu_dtype() -> Any:
    """Return the dtype that an autocast has on the processor where none is named."""
    return get_autocast_dtype("cpu")


def set_autocast_dtype(device_type: str, dtype: Any) -> None:
    """Set the dtype that an autocast on "cpu" has where none is named, in this thread. Others are of no effect."""
    if _is_cpu(str(device_type)):
        found = as_dtype(dtype)
        _cpu_dtype.set(found)
        if is_autocast_enabled("cpu") and is_half(found):
            set_mode(_inside(get_mode(), found))


def set_autocast_cpu_dtype(dtype: Any) -> None:
    """Set the dtype that an autocast has where none is named, in this thread."""
    set_autocast_dtype("cpu", dtype)


def is_autocast_cache_enabled() -> bool:
    """Return False: no casts are kept."""
    return False


def clear_autocast_cache() -> None:
    """Do nothing: no casts are kept."""


# -- functions with derivatives of their own


def custom_fwd(fwd: Callable[..., Any] | None = None, *, device_type: str = "cuda", cast_inputs: Any = None) -> Any:
    """Return the `forward` of a custom function for autocasts; also as a decorator with options.

    For other devices than "cpu" it stays as it is. With `cast_inputs` it takes its floating tensors in that dtype and
    computes in that of its operands, where an autocast is on; without, it runs under the autocast as it stands.
    """
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)
    if not _is_cpu(device_type):
        return fwd

    @functools.wraps(fwd)
    def forward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        on = is_autocast_enabled(device_type)
        ctx._dtype = get_autocast_dtype(device_type)
        ctx._fwd_used_autocast = on and cast_inputs is None
        if not on or cast_inputs is None:
            return fwd(ctx, *args, **kwargs)
        with autocast(device_type, enabled=False):
            args, kwargs = tree.map(lambda x: _cast(x, as_dtype(cast_inputs)), (args, kwargs))
            return fwd(ctx, *args, **kwargs)

    return forward


def _cast(x: Any, dtype: DType) -> Any:
    is_castable = isinstance(x, Tensor) and category(x.dtype) == 2 and x.dtype != "float64"
    return x.astype(dtype) if is_castable else x


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str = "cuda") -> Any:
    """Return the `backward` of a custom function, which runs under the autocast that its `forward` ran under.

    For other devices than "cpu" it stays as it is.
    """
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)
    if not _is_cpu(device_type):
        return bwd

    @functools.wraps(bwd)
    def backward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        with autocast(device_type, dtype=ctx._dtype, enabled=ctx._fwd_used_autocast):
            return bwd(ctx, *args, **kwargs)

    return backward


NAMES = (
    is_autocast_enabled, is_autocast_cpu_enabled, set_autocast_enabled, set_autocast_cpu_enabled, get_autocast_dtype,
    get_autocast_gpu_dtype, get_autocast_cpu_dtype, set_autocast_dtype, set_autocast_cpu_dtype,
    is_autocast_cache_enabled, clear_autocast_cache,
)  # fmt: skip


__getattr__ = names_of(__name__)
