"""Adam whose averages are kept in 8 bits.

Blocks of 256 elements have their largest magnitude as a float32, and each element is the nearest of 256 numbers
between -1 and 1 times that: dense around 0, where most are, over seven decades (Dettmers et al., "8-bit optimizers via
block-wise quantization", ICLR 2022, arXiv:2110.02861). So one outlier costs its own block precision, and no other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import numpy as np

from ..core.dtypes import DType
from ..core.errors import DTypeError, fail
from ..core.mode import no_grad
from ..core.spec import category, float32, uint8
from ..core.state.cells import ArrayCell, Cell
from ..core.tensor import Tensor, asarray, wrap
from ..ops.index.gather import take
from ..ops.index.sort import searchsorted
from ..ops.pointwise.selection import where
from ..ops.reduce.extremes import max
from ..ops.structure.extend import pad
from .adam import Adam, AdamW
from .optimizer import Group, Params, State, working_dtype

# The elements that share a scale; parameters with fewer elements than this are kept in full.
BLOCK, LEAST = 256, 4096
_AVERAGES = ("exp_avg", "exp_avg_sq")
_SCALE = "_scale"


@cache
def levels(signed: bool) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return the 256 numbers, ascending: dynamic tree quantisation (Dettmers 2016, arXiv:1511.04561).

    A number's leading zeros are its decimal exponent, and the bits that are left a fraction of the decade.
    """
    found = [0.0, 1.0]
    for exponent in range(7):
        edges = np.linspace(0.1, 1.0, 2 ** (exponent + (not signed)) + 1)
        decade = (edges[:-1] + edges[1:]) / 2 * 10.0 ** (exponent - 6)
        found += [*decade, *(-decade if signed else ())]
    return np.sort(np.asarray(found, np.float32))


@cache
def _borders(signed: bool) -> np.ndarray[Any, np.dtype[np.float32]]:
    table = levels(signed)
    return (table[1:] + table[:-1]) / np.float32(2)


def quantized(x: Tensor, signed: bool) -> tuple[Tensor, Tensor]:
    """Return codes of the shape of `x`, uint8, and the scales of its blocks, float32."""
    flat = x.astype(float32).reshape(-1)
    blocks = pad(flat, ((0, -flat.shape[0] % BLOCK),)).reshape(-1, BLOCK)
    scale = max(abs(blocks), axis=1)
    parts = blocks / where(scale == 0, 1.0, scale).reshape(-1, 1)
    codes = searchsorted(wrap(_borders(signed)), parts).astype(uint8)
    return codes.reshape(-1)[: flat.shape[0]].reshape(x.shape), scale


def dequantized(codes: Tensor, scale: Tensor, signed: bool) -> Tensor:
    """Return the numbers, float32, that codes and scales stand for."""
    flat = take(wrap(levels(signed)), codes.reshape(-1), axis=0)
    blocks = pad(flat, ((0, -flat.shape[0] % BLOCK),)).reshape(-1, BLOCK) * scale.reshape(-1, 1)
    return blocks.reshape(-1)[: flat.shape[0]].reshape(codes.shape)


class _In8Bits(Adam):
    """A base of the variants of Adam that keep their averages in 8 bits."""

    def _check(self, group: Group) -> None:
        super()._check(group)
        for p in group["params"]:
            if isinstance(p, Tensor) and category(p.dtype) == 3:
                fail(DTypeError, f"{type(self).__name__} takes no complex parameters, {p.spec}", "Use wg.optim.Adam.")

    def _names_of(self, p: Tensor, group: Group) -> tuple[str, ...]:
        return (*_AVERAGES, *(name + _SCALE for name in _AVERAGES)) if _is_large(p) else _AVERAGES

    def _shape(self, name: str, p: Tensor) -> tuple[int, ...]:
        return (-(-p.size // BLOCK),) if name.endswith(_SCALE) else p.shape

    def _dtype(self, name: str, p: Tensor) -> DType:
        if name.endswith(_SCALE):
            return float32
        return uint8 if _is_large(p) else working_dtype(p.dtype)

    def _initial(self, name: str, group: Group) -> float:
        return 0.0

    def _new_buffer(self, name: str, p: Tensor, group: Group) -> Any:
        made = super()._new_buffer(name, p, group)
        if made.dtype == uint8:
            made[...] = np.searchsorted(_borders(_is_signed(name)), np.float32(0))
        return made

    # -- numbers for a step, and back

    def _opened(self, state: State, names: tuple[str, ...]) -> State:
        with no_grad():
            return {
                name: np.array(dequantized(wrap(state[name]), wrap(state[name + _SCALE]), _is_signed(name))._array)
                if name + _SCALE in names
                else state[name]
                for name in _AVERAGES
            }

    def _closed(self, state: State, buffers: State) -> None:
        plain = {name: b for name, b in buffers.items() if name + _SCALE not in state}
        super()._closed(state, plain)
        with no_grad():
            for name in (n for n in buffers if n not in plain):
                codes, scale = quantized(wrap(np.asarray(buffers[name])), _is_signed(name))
                state[name], state[name + _SCALE] = np.array(codes._array), np.array(scale._array)

    def _opened_in_trace(self, state: State, names: tuple[str, ...], dtype: DType) -> State:
        if not any(name.endswith(_SCALE) for name in names):
            return super()._opened_in_trace(state, names, dtype)
        return {
            name: dequantized(asarray(state[name]), asarray(state[name + _SCALE]), _is_signed(name)).astype(dtype)
            for name in _AVERAGES
        }

    def _closed_in_trace(self, state: State, buffers: State, dtype: DType) -> dict[str, Tensor]:
        plain = {name: b for name, b in buffers.items() if name + _SCALE not in state}
        kept = super()._closed_in_trace(state, plain, dtype)
        for name in (n for n in buffers if n not in plain):
            kept[name], kept[name + _SCALE] = quantized(buffers[name], _is_signed(name))
        return kept

    def _buffer_cells(self, state: State, names: tuple[str, ...]) -> Iterable[Cell]:
        return [ArrayCell(state, name) for name in names]

    # -- state dicts

    def _loaded(self, entries: Mapping[str, Any], p: Tensor, what: str, wrong: list[str]) -> State:
        """Take codes and scales, or the averages of an Adam in full, which are quantised."""
        given = dict(entries)
        if given.pop("max_exp_avg_sq", None) is not None:
            wrong.append(f"{what}: max_exp_avg_sq, which {type(self).__name__} does not keep")
        for name in _AVERAGES if _is_large(p) else ():
            found = given.get(name)
            if found is not None and name + _SCALE not in given and np.shape(found) == tuple(p.shape):
                full = np.asarray(found.detach().numpy() if isinstance(found, Tensor) else found)
                with no_grad():
                    given[name], given[name + _SCALE] = quantized(wrap(full), _is_signed(name))
        return super()._loaded(given, p, what, wrong)


class Adam8bit(_In8Bits):
    """The Adam optimiser with averages of 8 bits: 2 bytes for each element of a parameter in the place of 8.

    Parameters
    ----------
    params: leaf tensors, or dicts of them with their own options; no complex ones.
    lr: the step size.
    betas: the decay rates of the two averages, in [0, 1).
    eps: added to the root of the second average.
    weight_decay: an L2 penalty's factor, added to the gradient (see :class:`AdamW8bit` for the other kind).
    maximize: climb instead of descend.

    Blocks of 256 elements share a scale. Parameters of fewer than 4096 elements (biases, norms) have averages in full,
    and make Adam's very steps. `state` holds codes, uint8, and scales, float32, under `exp_avg`, `exp_avg_scale` and so
    on. A state dict of :class:`Adam` can be loaded: it is quantised.

    Raises DTypeError for complex parameters, and what :class:`Optimizer` raises.

    Source: Dettmers, Lewis, Shleifer, Zettlemoyer, arXiv:2110.02861.

    >>> import wengert as wg
    >>> w = wg.ones((64, 64), requires_grad=True)
    >>> opt = wg.optim.Adam8bit([w], lr=0.25)
    >>> (w * w).sum().backward()
    >>> opt.step()
    >>> w[0, 0].item(), opt.state[w]["exp_avg"].dtype
    (0.75, dtype('uint8'))
    """

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, maximize=maximize)


class AdamW8bit(_In8Bits, AdamW):
    """The Adam optimiser with decoupled weight decay, and averages of 8 bits.

    Parameters are those of :class:`Adam8bit`; `weight_decay` is 0.01 by default.

    Source: Loshchilov, Hutter, arXiv:1711.05101; Dettmers et al., arXiv:2110.02861.

    >>> import wengert as wg
    >>> w = wg.ones((64, 64), requires_grad=True)
    >>> opt = wg.optim.AdamW8bit([w], lr=0.25, weight_decay=0.5)
    >>> (w * w).sum().backward()
    >>> opt.step()
    >>> w[0, 0].item()
    0.625
    """

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, maximize=maximize)


def _is_large(p: Tensor) -> bool:
    return p.size >= LEAST


def _is_signed(name: str) -> bool:
    return name == "exp_avg"
