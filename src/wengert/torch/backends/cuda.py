"""Settings of computations on GPUs, taken and not used: `torch.backends.cuda`."""

from __future__ import annotations

from ..absent import names_of
from .flags import NOT_THERE, answer, flags_of, settings

matmul = settings(
    allow_tf32=False,
    allow_fp16_reduced_precision_reduction=True,
    allow_bf16_reduced_precision_reduction=True,
    fp32_precision="none",
)
is_built = answer(False, NOT_THERE)
enable_flash_sdp = enable_mem_efficient_sdp = enable_math_sdp = enable_cudnn_sdp = answer(
    None, "Do nothing: attention is computed in one way."
)
flash_sdp_enabled = mem_efficient_sdp_enabled = cudnn_sdp_enabled = answer(False, NOT_THERE)
math_sdp_enabled = answer(True, "Return True: attention is computed by its formula.")
preferred_linalg_library = answer("default", 'Return "default".')
preferred_blas_library = answer("default", 'Return "default".')
sdp_kernel = flags_of({})

__all__ = [
    "cudnn_sdp_enabled",
    "enable_cudnn_sdp",
    "enable_flash_sdp",
    "enable_math_sdp",
    "enable_mem_efficient_sdp",
    "flash_sdp_enabled",
    "is_built",
    "math_sdp_enabled",
    "matmul",
    "mem_efficient_sdp_enabled",
    "preferred_blas_library",
    "preferred_linalg_library",
    "sdp_kernel",
]


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
