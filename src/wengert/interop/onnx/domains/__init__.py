"""Operators of other domains: learned models of tables (ai.onnx.ml), training, onnxruntime's (com.microsoft)."""

from . import microsoft, ml, support_vectors, training, trees  # noqa: F401
