"""`wg.jit`: functions, gradients and whole training steps as compiled programs."""

from .jit import Jit, jit

__all__ = ["Jit", "jit"]
