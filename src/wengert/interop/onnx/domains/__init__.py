"""Operators of other domains: learned models of tables (ai.onnx.ml) and training."""

from . import ml, training, trees  # noqa: F401
