"""Tensors joined into one and taken apart, which programs import from PyTorch's inner path `torch._utils`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import wengert as wg

from ..absent import names_of
from ..namespace import as_torch


def _flatten_dense_tensors(tensors: Sequence[Any]) -> Any:
    """Return the elements of several tensors of one dtype, one after the other."""
    return as_torch(wg.concat([t.reshape(-1) for t in tensors]))


def _unflatten_dense_tensors(flat: Any, tensors: Sequence[Any]) -> tuple[Any, ...]:
    """Return the tensors of which `_flatten_dense_tensors` of tensors of these shapes gives `flat`."""
    out, start = [], 0
    for t in tensors:
        out.append(flat[start : start + t.numel()].reshape(t.shape))
        start += t.numel()
    return tuple(out)


__all__ = ["_flatten_dense_tensors", "_unflatten_dense_tensors"]


__getattr__ = names_of(__name__)
