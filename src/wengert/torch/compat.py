"""The names around tensors: dtypes and layouts, modes, random state, printing, threads, and what programs ask first.

What has no counterpart here (deterministic algorithms, matrix products of less precision) is taken where leaving it
out changes no number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

import wengert as wg

from ..core.arrays import PRINTING
from ..core.errors import DTypeError, fail
from ..core.mode import get_mode
from ..core.spec import default_float
from ..core.tensor import Tensor as Plain
from . import dtypes
from .amp import GradScaler, autocast
from .amp.autocast_mode import NAMES as _AUTOCAST
from .autograd import enable_grad, inference_mode, no_grad, set_grad_enabled
from .autograd.grad_mode import is_inference_mode_enabled
from .compiler import compile
from .dtypes import dtype
from .func import vmap
from .random import (
    Generator,
    default_generator,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)
from .storage import TypedStorage, UntypedStorage, is_storage
from .tensor import (
    CPU,
    Tensor,
    channels_last,
    channels_last_3d,
    contiguous_format,
    device,
    dtype_of,
    jagged,
    layout,
    memory_format,
    on_cpu,
    preserve_format,
    sparse_bsc,
    sparse_bsr,
    sparse_csc,
    sparse_csr,
    strided,
)
from .version import __version__

# -- dtypes and layouts

# PyTorch's names beside those that every dtype has.
DTYPES: dict[str, Any] = {
    **dtypes.NAMED,
    **{d.name: d for d in dtypes.DTYPES.values()},
    "float": dtypes.by_name("float32"),
    "double": dtypes.by_name("float64"),
    "half": dtypes.by_name("float16"),
    "short": dtypes.by_name("int16"),
    "int": dtypes.by_name("int32"),
    "long": dtypes.by_name("int64"),
    "cfloat": dtypes.by_name("complex64"),
    "cdouble": dtypes.by_name("complex128"),
}


class finfo:
    """The limits of a floating dtype, the default one where none is given.

    `bits`, `eps`, `max`, `min`, `tiny` (or `smallest_normal`), `resolution`, and the dtype's name. Of a complex dtype
    they are those of its parts. Raises TypeError for other dtypes.

    >>> import wengert.torch as torch
    >>> torch.finfo(torch.float32).eps
    1.1920928955078125e-07
    """

    def __init__(self, type: Any = None) -> None:
        found = wg.finfo(default_float() if type is None else dtype_of(type))
        self.bits, self.eps, self.max, self.min = found.bits, found.eps, found.max, found.min
        self.tiny = self.smallest_normal = found.smallest_normal
        self.dtype = np.dtype(found.dtype).name
        # What decimal digits are good for: ten to the power of how many there are for certain.
        self.resolution = 10.0 ** -int(-np.log10(found.eps))

    def __repr__(self) -> str:
        shown = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")
        return f"finfo({', '.join(f'{n}={getattr(self, n):g}' for n in shown)}, dtype={self.dtype})"


class iinfo:
    """The limits of an integer dtype: `bits`, `max`, `min`, and the dtype's name. Raises TypeError for other dtypes.

    >>> import wengert.torch as torch
    >>> torch.iinfo(torch.int8).max
    127
    """

    def __init__(self, type: Any) -> None:
        found = wg.iinfo(dtype_of(type))
        self.bits, self.max, self.min, self.dtype = found.bits, found.max, found.min, np.dtype(found.dtype).name

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"


_KINDS = {"b": 0, "u": 1, "i": 1, "f": 2, "V": 2, "c": 3}


def can_cast(from_: Any, to: Any) -> bool:
    """Return whether a result of one dtype may be written to another: never to a lesser kind of number.

    Kinds are booleans, integers, floating and complex numbers; among dtypes of one kind any may be written.
    """
    first, second = dtype_of(from_), dtype_of(to)
    return _KINDS[first.kind] <= _KINDS[second.kind]


def typename(obj: Any) -> str:
    """Return the name of an object's type, with its module; of a tensor such as "torch.FloatTensor"."""
    if isinstance(obj, Plain):
        return str(obj.type()) if isinstance(obj, Tensor) else "wengert.Tensor"
    named = obj if hasattr(obj, "__qualname__") else type(obj)
    module = getattr(named, "__module__", None)
    return named.__qualname__ if module in (None, "builtins") else f"{module}.{named.__qualname__}"


def _assert(condition: Any, message: str) -> None:
    """Raise AssertionError with a message unless the condition holds; a name that traced programs call."""
    if not condition:
        raise AssertionError(message)


def _check(cond: Any, message: Callable[[], str] | None = None) -> None:
    """Raise RuntimeError with a message, that a function gives, unless a number or flag is true."""
    _checked(RuntimeError, cond, message)


def _check_index(cond: Any, message: Callable[[], str] | None = None) -> None:
    """Raise IndexError with a message, that a function gives, unless a number or flag is true."""
    _checked(IndexError, cond, message)


def _check_value(cond: Any, message: Callable[[], str] | None = None) -> None:
    """Raise ValueError with a message, that a function gives, unless a number or flag is true."""
    _checked(ValueError, cond, message)


def _check_type(cond: Any, message: Callable[[], str] | None = None) -> None:
    """Raise TypeError with a message, that a function gives, unless a number or flag is true."""
    _checked(TypeError, cond, message)


def _check_is_size(i: Any, message: Callable[[], str] | None = None, *, max: Any = None) -> None:
    """Raise RuntimeError unless a number may be a size."""
    _checked(RuntimeError, i >= 0 and (max is None or i <= max), message)


def _checked(kind: type[Exception], cond: Any, message: Callable[[], str] | None) -> None:
    if not cond:
        raise kind("Expected cond to be True, but got False" if message is None else message())


def _assert_async(condition: Any, message: str = "") -> None:
    """Raise RuntimeError unless a tensor's only element is not 0; in a traced function the value is not looked at."""
    if not get_mode().tracing and not condition:
        raise RuntimeError(message or "Expected Tensor with single nonzero value, but got zero")


# -- numbers that may be sizes: what stands for one that is not known computes as a number does


def sym_int(a: Any) -> Any:
    """Return a number without its fraction, as `int` does."""
    return int(a)


def sym_float(a: Any) -> Any:
    """Return a number as a floating one."""
    return float(a)


def sym_not(a: Any) -> Any:
    """Return whether something is false."""
    return not a


def sym_max(a: Any, b: Any) -> Any:
    """Return the greater of two numbers."""
    return max(a, b)


def sym_min(a: Any, b: Any) -> Any:
    """Return the lesser of two numbers."""
    return min(a, b)


def sym_ite(b: Any, t: Any, f: Any) -> Any:
    """Return one of two numbers, by a flag."""
    return t if b else f


def sym_sum(args: Any) -> Any:
    """Return the sum of numbers."""
    return sum(args)


# -- defaults


def get_default_dtype() -> Any:
    """Return the dtype of floating numbers that bring none of their own."""
    return dtypes.dtype_named(default_float())


def promote_types(type1: Any, type2: Any) -> Any:
    """Return the dtype that an operation on tensors of two dtypes computes in."""
    return dtypes.dtype_named(wg.promote_types(dtype_of(type1), dtype_of(type2)))


def set_default_dtype(d: Any) -> Any:
    """Set the dtype of floating numbers that bring none of their own; see :func:`wengert.set_default_dtype`."""
    return wg.set_default_dtype(dtype_of(d))


def set_default_tensor_type(t: Any) -> None:
    """Set the default dtype by the name of a type: "torch.DoubleTensor", `torch.DoubleTensor`."""
    wg.set_default_dtype(dtype_of(t))


def set_default_device(device: Any) -> None:
    """Take the processor as the default device. Raises DTypeError for another."""
    on_cpu(device)


def get_default_device() -> device:
    """Return the processor."""
    return CPU


# -- printing


def set_printoptions(
    precision: int | None = None,
    threshold: int | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Say how tensors are shown.

    Parameters
    ----------
    precision: digits after the point. threshold: how many elements are shown in full. edgeitems: how many at each end
        of an axis of more. linewidth: characters in a line.
    profile: "default", "short" or "full" settings, before the others.
    sci_mode: False never shows powers of ten, True always; left out, as the numbers are, whatever was said before.
    """
    profiles = {
        "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "max_line_width": 80},
        "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "max_line_width": 80},
        "full": {"precision": 4, "threshold": np.iinfo(np.int64).max, "edgeitems": 3, "max_line_width": 80},
    }
    if profile is not None:
        PRINTING.update(profiles[profile])
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "max_line_width": linewidth}
    PRINTING.update({k: min(v, np.iinfo(np.int64).max) for k, v in given.items() if v is not None})
    digits = PRINTING["precision"]
    PRINTING["suppress_small"] = sci_mode is False
    PRINTING["formatter"] = {"float_kind": lambda x: f"{x:.{digits}e}"} if sci_mode else None


# -- threads, and settings that change no number


def get_num_threads() -> int:
    """Return how many threads compiled functions and large operations use."""
    return wg.get_num_threads()


def set_num_threads(num: int) -> None:
    """Set how many threads compiled functions and large operations use."""
    wg.set_num_threads(int(num))


class _Settings:
    """Settings, to be asked for again."""

    def __init__(self) -> None:
        self.interop, self.deterministic, self.warn_only, self.always = 1, False, False, False
        self.matmul = "highest"


_settings = _Settings()


def get_num_interop_threads() -> int:
    """Return the number that was set last, 1 in the beginning."""
    return _settings.interop


def set_num_interop_threads(num: int) -> None:
    """Take a number of threads that run operations side by side: there is one pool, of `set_num_threads`."""
    _settings.interop = int(num)


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Take a wish for the same bits in every run: it is always so."""
    _settings.deterministic, _settings.warn_only = bool(mode), bool(warn_only)


def are_deterministic_algorithms_enabled() -> bool:
    """Return what :func:`use_deterministic_algorithms` was given last."""
    return _settings.deterministic


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Return the `warn_only` that :func:`use_deterministic_algorithms` was given last."""
    return _settings.warn_only


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Take "default", "warn" or "error", or their numbers 0 to 2."""
    number = {"default": 0, "warn": 1, "error": 2}.get(debug_mode, debug_mode)  # type: ignore[arg-type]
    use_deterministic_algorithms(number != 0, warn_only=number == 1)


def get_deterministic_debug_mode() -> int:
    """Return the number of the mode that was set last."""
    return 0 if not _settings.deterministic else 1 if _settings.warn_only else 2


def set_float32_matmul_precision(precision: str) -> None:
    """Take "highest", "high" or "medium": products are computed in the dtype of their operands."""
    if precision not in ("highest", "high", "medium"):
        fail(DTypeError, f"set_float32_matmul_precision({precision!r})", 'It is "highest", "high" or "medium".')
    _settings.matmul = precision


def get_float32_matmul_precision() -> str:
    """Return the precision that was set last."""
    return _settings.matmul


def set_flush_denormal(mode: bool) -> bool:
    """Return False: numbers next to 0 are not flushed to it."""
    return False


def set_warn_always(b: bool) -> None:
    """Take a wish for warnings in every call: which are shown is for Python's `warnings` to say."""
    _settings.always = bool(b)


def is_warn_always_enabled() -> bool:
    """Return what :func:`set_warn_always` was given last."""
    return _settings.always


# -- modes


def is_inference(input: Any) -> bool:
    """Return False: tensors made under `inference_mode` are ordinary ones."""
    return False


# -- control flow


def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Iterable[Any] = ()) -> Any:
    """Return `true_fn` or `false_fn` of the operands, by a truth that may be a tensor; see :func:`wengert.cond`."""
    return wg.cond(pred, true_fn, false_fn, *operands)


__all__ = [
    "Generator",
    "GradScaler",
    "__version__",
    "are_deterministic_algorithms_enabled",
    "autocast",
    "can_cast",
    "channels_last",
    "channels_last_3d",
    "compile",
    "cond",
    "contiguous_format",
    "default_generator",
    "dtype",
    "enable_grad",
    "finfo",
    "get_default_dtype",
    "promote_types",
    "get_default_device",
    "get_deterministic_debug_mode",
    "get_float32_matmul_precision",
    "get_num_interop_threads",
    "get_num_threads",
    "get_rng_state",
    "iinfo",
    "inference_mode",
    "initial_seed",
    "is_deterministic_algorithms_warn_only_enabled",
    "is_inference",
    "is_inference_mode_enabled",
    "TypedStorage",
    "UntypedStorage",
    "is_storage",
    "is_warn_always_enabled",
    "jagged",
    "layout",
    "manual_seed",
    "memory_format",
    "no_grad",
    "preserve_format",
    "seed",
    "set_default_device",
    "set_default_dtype",
    "set_default_tensor_type",
    "set_deterministic_debug_mode",
    "set_float32_matmul_precision",
    "set_flush_denormal",
    "set_grad_enabled",
    "set_num_interop_threads",
    "set_num_threads",
    "set_printoptions",
    "sym_float",
    "sym_int",
    "sym_ite",
    "sym_max",
    "sym_min",
    "sym_not",
    "sym_sum",
    "set_rng_state",
    "set_warn_always",
    "sparse_bsc",
    "sparse_bsr",
    "sparse_csc",
    "sparse_csr",
    "strided",
    "typename",
    "use_deterministic_algorithms",
    "vmap",
]

# All that the top level has of this module; `torch.float` and the like would hide Python's own names here.
_INNER = (_assert, _assert_async, _check, _check_index, _check_is_size, _check_type, _check_value)
NAMES: dict[str, Any] = {**{fn.__name__: fn for fn in _INNER}, **DTYPES, **{name: globals()[name] for name in __all__}}
NAMES.update({fn.__name__: fn for fn in _AUTOCAST})


def __dir__() -> list[str]:
    return sorted(__all__)
