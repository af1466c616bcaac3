"""Structure."""
import numpy as np
from ..core.record import linear
from ..core.spec import spec_of

def _unbroadcast(ct, x_shape):
    extra = len(ct.shape) - len(x_shape)
    axes = tuple(range(extra)) + tuple(i + extra for i, n in enumerate(x_shape) if n == 1 and ct.shape[i + extra] != 1)
    return ct.sum(axis=axes).reshape(x_shape)

broadcast = linear("broadcast(x; shape)", lambda x, shape: np.broadcast_to(x, shape),
    infer=lambda x, shape: spec_of(shape, x.dtype), transpose=_unbroadcast, selects=True, covers=True, doc="b")
cast = linear("cast(x; dtype)", lambda x, dtype: np.asarray(x).astype(dtype), infer=lambda x, dtype: spec_of(x.shape, dtype), transpose=lambda ct, x_dtype: cast(ct, dtype=x_dtype), selects=True, covers=True, doc='c')
