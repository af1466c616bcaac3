"""Autocast: operations in the precision that suits each, whatever their operands have.

An op's declaration says by its facet `autocast` in which precision it is best computed. Inside a block of
:class:`autocast` the front doors convert its operands before anything else happens, so that a cast is an ordinary node:
graphs, derivatives, batches and compiled programs see no autocast, they see casts. What runs recorded nodes again
(`Mode.as_recorded`) converts nothing, and nor does the inside of a composite: that is one op.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Literal, TypeVar

from .. import tree
from ..dtypes import DType, record_of
from ..errors import DTypeError, fail
from ..mode import Mode, ModeBlock, get_mode, reset_mode, set_mode
from ..spec import as_dtype, category, float16, float32, promote
from ..standins import WeakTensor
from ..state.observer import CASTING, detours
from ..tensor import Tensor
from .facets import Autocast, Role
from .op import TABLE, Op

F = TypeVar("F", bound=Callable[..., Any])
Rules = Literal["wengert", "torch"]


class Detour:
    """The reason for front doors to go by their general paths, as long as a mode that casts may be some thread's.

    Contexts are copied (by asyncio, by threads that are given one) and outlive the block that made them: not the block
    but the last mode of it says when nothing is cast any more.
    """

    __slots__ = ()

    def __init__(self) -> None:
        detours.append(CASTING)

    def __del__(self) -> None:
        detours.remove(CASTING)


class Precisions:
    """The precision of each op under an autocast: `dtype` is the lower one; one object for all blocks that are alike.

    By the `rules` of "wengert" the facets say all; by those of "torch" they say which ops take the lower precision,
    and its functions say by :func:`computed_in` what else PyTorch does.
    """

    __slots__ = ("dtype", "rules")

    def __init__(self, dtype: DType, rules: Rules) -> None:
        self.dtype = dtype
        self.rules = rules

    def operands(self, op: Op, args: Sequence[Any]) -> Sequence[Any]:
        """Return an op's operands in the precision in which it is to be computed; the same ones where they are."""
        dtype = self.precision_of(
            op, [a.spec.dtype for a in args if isinstance(a, Tensor) and type(a) is not WeakTensor]
        )
        return args if dtype is None else self.converted(args, dtype)

    def precision_of(self, op: Op, dtypes: Sequence[DType]) -> DType | None:
        """Return the dtype that an op's floating operands of these dtypes are converted to, None where they stay."""
        wanted = wanted_precision(op)
        if wanted is None or (wanted == "float32" and self.rules == "torch"):
            return None
        floats = [d for d in dtypes if category(d) >= 2]
        if wanted == "float32":
            return float32 if any(map(is_half, floats)) else None
        if any(d is not self.dtype for d in floats) and all(map(is_castable, floats)):
            return self.dtype
        return None

    @staticmethod
    def converted(args: Sequence[Any], dtype: DType) -> list[Any]:
        """Return operands with those that are float32 or of half the precision in another of these dtypes."""
        return [_in(a, dtype) if isinstance(a, Tensor) and type(a) is not WeakTensor else a for a in args]

    def __repr__(self) -> str:
        return f"autocast to {self.dtype.name}" + ("" if self.rules == "wengert" else ", as PyTorch does on CPUs")


def is_half(dtype: DType) -> bool:
    """Return whether a dtype is float16 or bfloat16."""
    return dtype is float16 or record_of(dtype).name == "bfloat16"


def is_castable(dtype: DType) -> bool:
    """Return whether an autocast converts numbers of a dtype: float64 and complex ones are there for their digits."""
    return dtype is float32 or is_half(dtype)


def _in(x: Tensor, dtype: DType) -> Tensor:
    if x.spec.dtype is dtype or not is_castable(x.spec.dtype):
        return x
    return TABLE["cast"].front(x, dtype=dtype)  # type: ignore[no-any-return]


@cache
def precisions(dtype: DType, rules: Rules) -> Precisions:
    """Return the one `Precisions` of these."""
    return Precisions(dtype, rules)


def lower_precision(dtype: Any, rules: Rules = "wengert") -> Precisions:
    """Return the `Precisions` of an autocast to a dtype as a user names it. Raises DTypeError."""
    found = as_dtype(dtype)
    if not is_half(found):
        fail(DTypeError, f"autocast to {found}", 'Its lower precision is "bfloat16" or "float16".')
    return precisions(found, rules)


def in_its_precision(op: Op, args: Sequence[Any]) -> Sequence[Any]:
    """Return an op's operands as this thread's autocast has them; the same ones where there is none."""
    found = get_mode().autocast
    return args if found is None else found.operands(op, args)


def casts(op: Op) -> bool:
    """Return whether this thread's autocast may convert an op's operands."""
    return isinstance(get_mode().autocast, Precisions) and wanted_precision(op) is not None


def wanted_precision(op: Op) -> Autocast | None:
    """Return in which precision an op is best computed, None where it follows its operands: products in a lower one."""
    return op.facets.get("autocast", "lower" if op.role is Role.PRODUCT else None)


def without_autocast(run: Callable[..., Any], args: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """Return `run(*args, **attrs)`, in which each op computes in its operands' precision."""
    token = set_mode(get_mode().with_autocast(None))
    try:
        return run(*args, **attrs)
    finally:
        reset_mode(token)


def computed_in(precision: Autocast | Literal["operands", "widest"], rules: Rules | None = None) -> Callable[[F], F]:
    """Return a decorator for a function of several ops: under an autocast (by these rules) it has one precision.

    Its floating tensors, also in lists, are converted (to the "widest" of theirs; of "operands" they stay as they are),
    and nothing inside is. With `out`, whose dtype says what is wanted, they stay too.
    """

    def declare(fn: F) -> F:
        @functools.wraps(fn)
        def run(*args: Any, **kwargs: Any) -> Any:
            found = get_mode().autocast if detours else None
            if not isinstance(found, Precisions) or (rules or found.rules) != found.rules:
                return fn(*args, **kwargs)
            if precision == "operands" or kwargs.get("out") is not None:
                return without_autocast(fn, args, kwargs)
            leaves, structure = tree.flatten((args, kwargs))
            tensors = [x for x in leaves if isinstance(x, Tensor) and is_castable(x.spec.dtype)]
            dtype = found.dtype if precision == "lower" else float32
            if precision == "widest":
                dtype = functools.reduce(promote, (x.spec.dtype for x in tensors)) if tensors else dtype
            if not all(is_castable(x.spec.dtype) for x in leaves if isinstance(x, Tensor) and x.spec.inexact):
                return without_autocast(fn, args, kwargs)
            if any(x.spec.dtype is not dtype for x in tensors):
                args, kwargs = tree.unflatten(structure, found.converted(leaves, dtype))
            return without_autocast(fn, args, kwargs)

        return run  # type: ignore[return-value]

    return declare


class autocast(ModeBlock):
    """A context manager and decorator under which each operation computes in the precision that suits it.

    Products (matrices, convolutions, attention, `linear`, `einsum`) convert their floating operands to `dtype`;
    exponentials, logarithms, powers, softmax, norms, sums and losses convert theirs to float32; other operations follow
    their operands, of which those of several dtypes promote, as always. float64, complex and integer operands stay as
    they are. Which operation does what stands in the guide, `docs/precision.md`, and in an op's facet `autocast`.

    Parameters
    ----------
    dtype: the lower precision, "bfloat16" or "float16".
    enabled: False computes everything inside in its operands' precision, also in the midst of an autocast.

    Parameters stay float32 and get float32 gradients: the conversion is a node, whose derivative converts back.
    Derivatives run in the precision of the operations that they belong to, wherever the backward pass stands. Each
    thread has its own autocast; programs of `wg.jit` are made for that of their call, and the block may also stand
    inside a compiled function. With float16, whose smallest number is 6e-8, scale the loss
    (:class:`wengert.train.GradScaler`).

    Raises DTypeError for another dtype, and for bfloat16 without the package ml_dtypes.

    >>> import wengert as wg
    >>> w = wg.ones(3, 2, requires_grad=True)
    >>> with wg.autocast("float16"):
    ...     h = wg.ones(4, 3) @ w
    ...     loss = h.softmax(-1).sum()
    >>> h.dtype, loss.dtype
    (dtype('float16'), dtype('float32'))
    >>> loss.backward()
    >>> w.grad.dtype
    dtype('float32')
    """

    __slots__ = ("_precisions",)

    def __init__(self, dtype: Any = "bfloat16", enabled: bool = True) -> None:
        super().__init__()
        found = lower_precision(dtype)
        self._precisions = found if enabled else None

    @property
    def dtype_name(self) -> str | None:
        """The name of the lower precision; None where the block is not enabled."""
        return None if self._precisions is None else self._precisions.dtype.name

    def mode(self, outer: Mode) -> Mode:
        """Return the mode inside the block."""
        return outer.with_autocast(self._precisions, None if self._precisions is None else Detour())
