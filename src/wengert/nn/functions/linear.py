"""Bilinear maps."""

from __future__ import annotations

from typing import Any

import wengert as wg

from ...core.errors import ShapeError, fail
from ...core.ops.autocast import computed_in
from ...core.tensor import Tensor, asarray


@computed_in("operands", "torch")
def bilinear(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Tensor:
    """Return x1 A x2 + b with one matrix A for every output. Raises ShapeError.

    Parameters
    ----------
    input1, input2: (..., n1) and (..., n2), all other axes of one size.
    weight: (m, n1, n2).
    bias: (m,).

    >>> import wengert as wg
    >>> wg.nn.functional.bilinear(wg.tensor([1.0, 2.0]), wg.tensor([3.0]), wg.ones((1, 2, 1)))
    tensor([9.])
    """
    input1, input2, weight = asarray(input1), asarray(input2), asarray(weight)
    if input1.shape[:-1] != input2.shape[:-1] or weight.ndim != 3:
        shapes = ", ".join(str(tuple(t.shape)) for t in (input1, input2, weight))
        fail(ShapeError, f"bilinear of {shapes}", "The inputs agree in all axes but the last; the weight has three.")
    out: Any = wg.einsum("...i,oij,...j->...o", input1, weight, input2)
    return out if bias is None else out + bias  # type: ignore[no-any-return]
