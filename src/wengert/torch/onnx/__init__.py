"""`torch.onnx`: there for programs that mention it. `wg.interop.onnx` writes files of ONNX."""

from __future__ import annotations

from ..absent import names_of
from ..refusing import refused

_NO_FILES = (
    "models are not written as ONNX by PyTorch's functions",
    "Write it with wg.interop.onnx.save(model, specs, path), or save its state with torch.save.",
)
export = refused("torch.onnx.export", *_NO_FILES)


def is_in_onnx_export() -> bool:
    """Return False: nothing is being exported."""
    return False


__all__ = ["export", "is_in_onnx_export"]


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
