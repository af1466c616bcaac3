"""Settings of PyTorch's backends, taken where they change no number: `torch.backends`."""

from __future__ import annotations

from ..absent import names_of
from . import cpu, cuda, cudnn, mkl, mkldnn, mps, nnpack, openmp, opt_einsum
from .flags import settings

quantized = settings(engine="none", supported_engines=["none"])
fp32_precision = "none"

__all__ = [
    "cpu",
    "cuda",
    "cudnn",
    "fp32_precision",
    "mkl",
    "mkldnn",
    "mps",
    "nnpack",
    "openmp",
    "opt_einsum",
    "quantized",
]


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
