"""Rules for what PyTensor does with whole arrays: ranges, choices, searches, places, convolutions, transforms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from pytensor.tensor.basic import ARange, Choose, Eye, PermuteRowElements
from pytensor.tensor.extra_ops import (
    Bartlett,
    CpuContiguous,
    FillDiagonalOffset,
    RavelMultiIndex,
    SearchsortedOp,
    UnravelIndex,
)
from pytensor.tensor.fft import IRFFTOp, RFFTOp
from pytensor.tensor.reshape import JoinDims, SplitDims
from pytensor.tensor.signal.conv import Convolve1d, Convolve2d

import wengert as wg

from .convert import Check, NoRuleError, Walk, dtype_of, funcify, known, tensor

Run = Callable[..., Any]


class _Refusal(NamedTuple):
    """The error that a run raises where a condition does not hold: its class and its text."""

    exc_type: type[Exception]
    msg: str


# -- shapes


@funcify.register(ARange)
@funcify.register(Eye)
@funcify.register(Bartlett)
def _of_known_size(op: Any, node: Any, walk: Walk) -> Run:
    """Return the refusal of values that are not known: of those that are, the op's own Python code is run."""

    def run(*given: Any) -> Any:
        raise NoRuleError(f"{op}: its size depends on values, and is not known before a run")

    return run


@funcify.register(CpuContiguous)
def _same(op: Any, node: Any, walk: Walk) -> Run:
    return lambda x: tensor(x)


@funcify.register(JoinDims)
def _joined(op: Any, node: Any, walk: Walk) -> Run:
    end = op.start_axis + op.n_axes

    def run(x: Any) -> Any:
        x = tensor(x)
        size = int(np.prod(x.shape[op.start_axis : end], dtype=int))
        return wg.reshape(x, (*x.shape[: op.start_axis], size, *x.shape[end:]))

    return run


@funcify.register(SplitDims)
def _split(op: Any, node: Any, walk: Walk) -> Run:
    def run(x: Any, shape: Any) -> Any:
        x = tensor(x)
        sizes = tuple(int(n) for n in known(shape, "a shape"))
        return wg.reshape(x, (*x.shape[: op.axis], *sizes, *x.shape[op.axis + 1 :]))

    return run


@funcify.register(FillDiagonalOffset)
def _diagonal_filled(op: Any, node: Any, walk: Walk) -> Run:
    def run(x: Any, value: Any, offset: Any) -> Any:
        x = tensor(x)
        at = wg.eye(*x.shape, k=int(known(offset, "a diagonal's offset")), dtype=np.bool_)
        return wg.where(at, tensor(value, x.dtype), x)

    return run


# -- places


def _bounded(index: Any, size: int, mode: str, walk: Walk, message: str) -> Any:
    """Return indices that lie within a size, as NumPy's mode has it."""
    index = tensor(index, np.int64)
    if mode == "wrap":
        return wg.remainder(index, size)
    if mode == "raise":
        walk.checks.append(Check(_Refusal(ValueError, message), [wg.all((index >= 0) & (index < size))]))
    return wg.clip(index, 0, size - 1)


@funcify.register(Choose)
def _chosen(op: Any, node: Any, walk: Walk) -> Run:
    def run(which: Any, choices: Any) -> Any:
        choices = tensor(choices)
        shape = np.broadcast_shapes(tuple(which.shape), tuple(choices.shape[1:]))
        lead = wg.reshape(choices, (choices.shape[0], *[1] * (len(shape) + 1 - choices.ndim), *choices.shape[1:]))
        index = _bounded(which, choices.shape[0], op.mode, walk, "invalid entry in choice array")
        index = wg.expand_dims(wg.broadcast_to(index, shape), axis=0)
        return wg.take_along_axis(wg.broadcast_to(lead, (choices.shape[0], *shape)), index, axis=0)[0]

    return run


@funcify.register(PermuteRowElements)
def _permuted(op: Any, node: Any, walk: Walk) -> Run:
    def run(x: Any, order: Any) -> Any:
        x, order = tensor(x), tensor(order, np.int64)
        shape = np.broadcast_shapes(tuple(x.shape), tuple(order.shape))
        order = wg.argsort(order, axis=-1) if op.inverse else order
        return wg.take_along_axis(wg.broadcast_to(x, shape), wg.broadcast_to(order, shape), axis=-1)

    return run


@funcify.register(SearchsortedOp)
def _searched(op: Any, node: Any, walk: Walk) -> Run:
    def run(x: Any, values: Any, sorter: Any = None) -> Any:
        x = tensor(x) if sorter is None else wg.take(tensor(x), tensor(sorter), axis=0)
        dtype = np.result_type(x.dtype, values.dtype)
        return tensor(wg.searchsorted(tensor(x, dtype), tensor(values, dtype), side=op.side), dtype_of(node))

    return run


def _strides(sizes: Sequence[int], order: str) -> list[int]:
    """Return how far in a row of all places lies the next along each axis."""
    before = [1, *np.cumprod(sizes[::-1] if order == "C" else sizes).tolist()][: len(sizes)]
    return before[::-1] if order == "C" else before


@funcify.register(UnravelIndex)
def _places(op: Any, node: Any, walk: Walk) -> Run:
    def run(number: Any, shape: Any) -> list[Any]:
        sizes = [int(n) for n in known(shape, "a shape")]
        count = int(np.prod(sizes, dtype=int))
        message = f"an index is out of bounds for array with size {count}"
        number = _bounded(number, count, "raise", walk, message)
        return [(number // s) % n for n, s in zip(sizes, _strides(sizes, op.order), strict=True)]

    return run


@funcify.register(RavelMultiIndex)
def _numbers(op: Any, node: Any, walk: Walk) -> Run:
    def run(*given: Any) -> Any:
        *places, shape = given
        sizes = [int(n) for n in known(shape, "a shape")]
        message = "invalid entry in coordinates array"
        within = [_bounded(p, n, op.mode, walk, message) for p, n in zip(places, sizes, strict=True)]
        return sum(p * s for p, s in zip(within, _strides(sizes, op.order), strict=True))

    return run


# -- convolutions and transforms


@funcify.register(Convolve1d)
@funcify.register(Convolve2d)
def _convolved(op: Any, node: Any, walk: Walk) -> Run:
    convolve = wg.nn.functional.conv1d if op.ndim == 1 else wg.nn.functional.conv2d

    def run(x: Any, kernel: Any, full: Any) -> Any:
        x, kernel = tensor(x, dtype_of(node)), tensor(kernel, dtype_of(node))
        is_full = bool(known(full, "the mode of a convolution"))
        fits = [n >= k for n, k in zip(x.shape, kernel.shape, strict=True)]
        if not is_full and not all(fits):
            # As NumPy has it, the smaller one is moved over the larger.
            if any(n > k for n, k in zip(x.shape, kernel.shape, strict=True)):
                raise ValueError(
                    f"one of {tuple(x.shape)} and {tuple(kernel.shape)} has to be the larger on every axis"
                )
            x, kernel = kernel, x
        padding = tuple(k - 1 if is_full else 0 for k in kernel.shape)
        turned = wg.flip(kernel, axis=tuple(range(op.ndim)))
        return convolve(x[None, None], turned[None, None], padding=padding)[0, 0]

    return run


@funcify.register(RFFTOp)
def _transformed(op: Any, node: Any, walk: Walk) -> Run:
    def run(x: Any, sizes: Any) -> Any:
        lengths = [int(n) for n in known(sizes, "the lengths of a transform")]
        found = wg.fft.rfftn(tensor(x), s=lengths, axes=tuple(range(1, x.ndim)))
        return tensor(wg.stack([wg.real(found), wg.imag(found)], axis=-1), dtype_of(node))

    return run


@funcify.register(IRFFTOp)
def _transformed_back(op: Any, node: Any, walk: Walk) -> Run:
    def run(x: Any, sizes: Any) -> Any:
        x, lengths = tensor(x), [int(n) for n in known(sizes, "the lengths of a transform")]
        found = wg.fft.irfftn(x[..., 0] + 1j * x[..., 1], s=lengths, axes=tuple(range(1, x.ndim - 1)))
        return tensor(found * float(np.prod(lengths)), dtype_of(node))

    return run
