"""`torch.utils.cpp_extension`: there for programs that mention it. Nothing is built from C++ or CUDA."""

from __future__ import annotations

from ..absent import names_of
from ..refusing import refused

_NOTHING_BUILT = (
    "extensions in C++ and CUDA are not built",
    "Write the function with tensors' operations, and compile it with torch.compile(f).",
)
CUDA_HOME = None
load, load_inline, CppExtension, CUDAExtension, BuildExtension = (
    refused(f"torch.utils.cpp_extension.{name}", *_NOTHING_BUILT)
    for name in ("load", "load_inline", "CppExtension", "CUDAExtension", "BuildExtension")
)

__all__ = ["CUDA_HOME", "BuildExtension", "CUDAExtension", "CppExtension", "load", "load_inline"]


__getattr__ = names_of(__name__)
