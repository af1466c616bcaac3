"""SciPy's array API functions on tensors, against the same on NumPy arrays: run with SCIPY_ARRAY_API=1."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.cluster.vq as vq
import scipy.differentiate as differentiate
import scipy.fft as fft
import scipy.integrate as integrate
import scipy.optimize.elementwise as elementwise
import scipy.signal as signal
import scipy.special as special
import scipy.stats as stats
from scipy.spatial.transform import Rotation

import wengert as wg
import wengert.numpy as wnp


def scalar(xp: Any, value: float) -> Any:
    return xp.asarray(value, dtype=xp.float64)


CASES: dict[str, Callable[[Any, Any], Any]] = {
    "stats.zscore": lambda xp, x: stats.zscore(x),
    "stats.skew": lambda xp, x: stats.skew(x, axis=1),
    "stats.ttest_ind": lambda xp, x: stats.ttest_ind(x, x + 1, axis=1).pvalue,
    "stats.pearsonr": lambda xp, x: stats.pearsonr(x[0], x[1]).statistic,
    "stats.entropy": lambda xp, x: stats.entropy(x),
    "stats.rankdata": lambda xp, x: stats.rankdata(x),
    "stats.quantile": lambda xp, x: stats.quantile(x, 0.5, axis=1),
    "stats.mannwhitneyu": lambda xp, x: stats.mannwhitneyu(x[0], x[1]).pvalue,
    "special.logsumexp": lambda xp, x: special.logsumexp(x, axis=1),
    "special.softmax": lambda xp, x: special.softmax(x, axis=1),
    "special.gammaln": lambda xp, x: special.gammaln(x),
    "special.xlogy": lambda xp, x: special.xlogy(x, x),
    "fft.rfftn": lambda xp, x: fft.rfftn(x),
    "fft.ifft": lambda xp, x: fft.ifft(fft.fft(x)),
    "fft.hfft": lambda xp, x: fft.hfft(x),
    "signal.fftconvolve": lambda xp, x: signal.fftconvolve(x[0], x[1]),
    "signal.detrend": lambda xp, x: signal.detrend(x),
    "signal.hilbert": lambda xp, x: signal.hilbert(x),
    "cluster.vq.whiten": lambda xp, x: vq.whiten(x),
    "spatial.Rotation": lambda xp, x: Rotation.from_quat(
        xp.asarray([0.0, 0.0, 1.0, 1.0], dtype=xp.float64)
    ).as_matrix(),
    "integrate.cumulative_trapezoid": lambda xp, x: integrate.cumulative_trapezoid(x),
    "integrate.trapezoid": lambda xp, x: integrate.trapezoid(x),
    "optimize.find_root": lambda xp, x: (
        elementwise.find_root(lambda t: t * t - 2.0, (scalar(xp, 0.0), scalar(xp, 2.0))).x
    ),
    "differentiate.derivative": lambda xp, x: differentiate.derivative(xp.sin, scalar(xp, 1.0)).df,
    "differentiate.jacobian": lambda xp, x: (
        differentiate.jacobian(lambda t: t * t, xp.asarray([1.0, 2.0], dtype=xp.float64)).df
    ),
}
# These write to slices and transposes of their own arrays, which a namespace with views lets them.
ON_VIEWS: dict[str, Callable[[Any, Any], Any]] = {
    "signal.oaconvolve": lambda xp, x: signal.oaconvolve(xp.tile(x[0], 20), x[1], axes=0),
    "integrate.tanhsinh": lambda xp, x: integrate.tanhsinh(lambda t: xp.exp(-t * t), x[0] - 1.0, x[0]).integral,
}


def main() -> None:
    values = np.asarray([[1.0, 2.0, 5.0], [3.0, 4.0, 1.0]])
    warnings.simplefilter("ignore")
    for namespace, cases in ((wg, CASES), (wnp, CASES | ON_VIEWS)):
        for name, case in cases.items():
            expected, found = case(np, values), case(namespace, namespace.asarray(values))
            assert isinstance(found, wg.Tensor), f"{name} gave {type(found)}"
            np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6, atol=1e-7, err_msg=name)
    print(f"{len(CASES)} functions agree")


if __name__ == "__main__":
    main()
