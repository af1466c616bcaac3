"""Files of weights: safetensors written and read, and readers for what other programs write.

Nothing here runs what a file holds: a file that asks for more than tensors and containers is refused.
"""

from .safetensors_files import load, save
from .weights import load_weights

__all__ = ["load", "load_weights", "save"]


def __dir__() -> list[str]:
    return sorted(__all__)
