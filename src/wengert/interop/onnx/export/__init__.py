"""Graphs as ONNX documents: `save`, and `check`, which compares them with another runtime."""

from . import composites, flow, moves, pointwise, sums  # noqa: F401  they declare the forms
from .check import check
from .save import model_proto, save

__all__ = ["check", "model_proto", "save"]
