"""Operators of other domains: learned models of tables (ai.onnx.ml), training, onnxruntime's (com.microsoft)."""

from . import microsoft, ml, training, trees  # noqa: F401
