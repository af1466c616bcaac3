"""Models from and to ONNX: `load` gives a module, `save` writes a graph, `check` compares with onnxruntime."""

from . import domains, operators  # noqa: F401  they declare the rules
from .errors import OnnxError
from .export import check, save
from .model import Model, Value, load

__all__ = ["Model", "OnnxError", "Value", "check", "load", "save"]
