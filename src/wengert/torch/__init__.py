"""PyTorch's spellings: `import wengert.torch as torch` lets a program in PyTorch's names run on Wengert.

Here are all names of `wengert`, and beside them those that PyTorch has for the same functions (`cat`, `clamp`, `mul`,
`float`, `long`) or keeps at its top level (`erf`, `randperm`, `conv2d`). Functions of both libraries that share a name
mean what they mean in `wengert`: `max(x, dim)` gives values alone, and `var` divides by n. The page on differences
lists every such case.

>>> import wengert.torch as torch
>>> x = torch.cat([torch.zeros(2), torch.ones(1)]).clamp(max=0.5)
>>> torch.mul(x, 2)
tensor([0., 0., 1.])
"""

from typing import Any as _Any

import wengert as _wengert

from .. import (
    abs,
    array_split,
    bitwise_invert,
    broadcast_arrays,
    clip,
    concat,
    cumulative_prod,
    cumulative_sum,
    divide,
    equal,
    float16,
    float32,
    float64,
    greater,
    greater_equal,
    int16,
    int32,
    int64,
    less,
    less_equal,
    max,
    min,
    multiply,
    negative,
    not_equal,
    repeat,
    subtract,
    top_k,
    unstack,
)
from ..core.ops.declare import HOMES as _HOMES
from ..core.ops.declare import PUBLIC as _PUBLIC
from ..nn.functional import (
    batch_norm,
    celu,
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    cosine_similarity,
    dropout,
    group_norm,
    kl_div,
    layer_norm,
    prelu,
    rms_norm,
    selu,
)
from ..random import (
    Generator,
    get_rng_state,
    initial_seed,
    multinomial,
    rand_like,
    randn_like,
    randperm,
    seed,
    set_rng_state,
)
from ..special import digamma, erf, erfc, erfinv, lgamma, polygamma
from . import autograd, nn, optim

# What is declared as PyTorch's alone: `permute`, `clone`, `index_select` and the like.
globals().update({name: _PUBLIC[name] for name, home in _HOMES.items() if home == "torch"})

absolute = abs
amax = max
amin = min
bitwise_not = bitwise_invert
broadcast_tensors = broadcast_arrays
cat = concatenate = concat
clamp = clip
cumprod = cumulative_prod
cumsum = cumulative_sum
div = true_divide = divide
eq = equal
ge = greater_equal
gt = greater
le = less_equal
lt = less
mul = multiply
ne = not_equal
neg = negative
repeat_interleave = repeat
sub = subtract
tensor_split = array_split
topk = top_k
unbind = unstack

half = float16
float = float32
double = float64
short = int16
int = int32
long = int64


def __getattr__(name: str) -> _Any:
    """Return a name that `wengert` has and this module does not define."""
    if name not in _wengert.__all__:
        raise AttributeError(f"module 'wengert.torch' has no attribute {name!r}; nor has 'wengert', whose names it has")
    return getattr(_wengert, name)


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = sorted({name for name in globals() if not name.startswith("_")} | set(_wengert.__all__))
