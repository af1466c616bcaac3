"""Special functions: `wg.special`, differentiable, under the names of `scipy.special`.

>>> import wengert as wg
>>> x = wg.tensor(2.0, requires_grad=True)
>>> wg.special.gammainc(x, 1.5).backward()  # a derivative in the shape parameter
>>> x.grad
tensor(-0.3135)
"""

from __future__ import annotations

from .ops.neural.composites import log_softmax, softmax
from .ops.pointwise.arithmetic import sigmoid as _sigmoid
from .ops.reduce.norms import logsumexp
from .ops.special.gamma import digamma as _digamma
from .ops.special.gamma import erf as _erf
from .ops.special.gamma import erfc as _erfc
from .ops.special.gamma import lgamma as _lgamma
from .ops.special.gamma import polygamma
from .ops.special.normal import erfinv_op as _erfinv
from .ops.special.public import (
    beta,
    betainc,
    betaln,
    entr,
    erfcinv,
    gammainc,
    gammaincc,
    i0,
    i0e,
    i1,
    i1e,
    log_ndtr,
    logit,
    ndtr,
    ndtri,
    xlog1py,
    xlogy,
)
from .ops.special.zeta import zeta

digamma = psi = _digamma.front
erf = _erf.front
erfc = _erfc.front
erfinv = _erfinv.front
expit = _sigmoid.front
gammaln = lgamma = _lgamma.front

__all__ = [
    "beta",
    "betainc",
    "betaln",
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfcinv",
    "erfinv",
    "expit",
    "gammainc",
    "gammaincc",
    "gammaln",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "lgamma",
    "log_ndtr",
    "log_softmax",
    "logit",
    "logsumexp",
    "ndtr",
    "ndtri",
    "polygamma",
    "psi",
    "softmax",
    "xlog1py",
    "xlogy",
    "zeta",
]


def __dir__() -> list[str]:
    return sorted(__all__)
