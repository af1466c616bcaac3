"""The layers under the path that programs sometimes import them from; see :mod:`wengert.torch.nn`."""

from .. import *
from .. import __all__
