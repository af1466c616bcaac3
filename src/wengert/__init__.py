from .ops import elementwise, structure
from .core.record import attach_methods, PUBLIC
from .core.tensor import tensor
from .transforms.reverse import backward, gradients
from .core.tensor import Tensor
attach_methods()
Tensor.backward = backward
globals().update(PUBLIC)
