"""PyMC's models compiled by Wengert beside numba: gradients, compile times, times of a log density with gradient.

python benchmarks/pymc_models.py                 # a Markdown table; needs pymc, nutpie, numba and cc; takes minutes
python benchmarks/pymc_models.py radon gp        # some of the models
python benchmarks/pymc_models.py --means         # posterior means of nutpie on our code and on numba's; takes minutes
python benchmarks/pymc_models.py --smoke         # gradients beside PyTensor's own, without numba; times nothing

Both sides are what nutpie calls: a C function of a vector, its log density and gradient, here called by a loop in C.
The data are made from fixed seeds. Compile times are of a first model in a fresh process, from the model to the
function, with empty caches of Wengert's and numba's; `--worker` is such a process. Times are the process's own
(`process_time`): what else the machine does counts little.

Means are of `pymc.sample(nuts_sampler="nutpie")` with the backends "wengert" and "numba": the means of each number that
a draw has differ by so many of their standard errors (Monte Carlo's, of both). Of n numbers that agree the largest is
below the bound, the normal distribution's quantile for one in 100 n, in 99 of 100 runs.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

LOOP = r"""
#include <stdint.h>
double loop(int64_t (*f)(uint64_t, const double *, double *, double *, void *), uint64_t n, const double *x, double *g,
            void *user, int times) {
    double value = 0, sum = 0;
    for (int i = 0; i < times; i++) { f(n, x, g, &value, user); sum += value; }
    return sum;
}
"""


def eight_schools(pm: Any, rng: np.random.Generator) -> None:
    """Rubin (1981), not centred."""
    y, sigma = np.array([28.0, 8, -3, 7, -1, 1, 18, 12]), np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
    mu, tau, z = pm.Normal("mu", 0, 5), pm.HalfCauchy("tau", 5), pm.Normal("z", 0, 1, shape=8)
    pm.Normal("y", pm.Deterministic("theta", mu + tau * z), sigma, observed=y)


def radon(pm: Any, rng: np.random.Generator) -> None:
    """Varying intercepts and slopes of 85 counties, 919 houses (Gelman & Hill 2007), of data made up."""
    county, floor = rng.integers(0, 85, 919), rng.integers(0, 2, 919).astype(float)
    y = 1.3 + 0.4 * rng.normal(size=85)[county] - (0.6 + 0.3 * rng.normal(size=85)[county]) * floor
    mu_a, sigma_a = pm.Normal("mu_a", 0, 10), pm.HalfNormal("sigma_a", 5)
    mu_b, sigma_b = pm.Normal("mu_b", 0, 10), pm.HalfNormal("sigma_b", 5)
    a, zb = pm.Normal("a", mu_a, sigma_a, shape=85), pm.Normal("zb", 0, 1, shape=85)
    b = pm.Deterministic("b", mu_b + sigma_b * zb)
    pm.Normal("y", a[county] + b[county] * floor, pm.HalfCauchy("eps", 5), observed=y + 0.7 * rng.normal(size=919))


def logistic(pm: Any, rng: np.random.Generator) -> None:
    """Logistic regression: 500 cases, 10 variables."""
    x = rng.normal(size=(500, 10))
    y = (rng.random(500) < 1 / (1 + np.exp(-x @ rng.normal(size=10)))).astype(int)
    pm.Bernoulli("y", logit_p=pm.Normal("a", 0, 5) + x @ pm.Normal("b", 0, 2.5, shape=10), observed=y)


def gaussian_process(pm: Any, rng: np.random.Generator) -> None:
    """A Gaussian process of 50 points, its marginal likelihood."""
    x = np.linspace(0, 5, 50)[:, None]
    length, eta, sigma = pm.InverseGamma("l", 5, 5), pm.HalfNormal("eta", 2), pm.HalfNormal("s", 1)
    process = pm.gp.Marginal(cov_func=eta**2 * pm.gp.cov.ExpQuad(1, ls=length))
    process.marginal_likelihood("y", X=x, y=np.sin(x[:, 0]) + 0.1 * rng.normal(size=50), sigma=sigma)


def mixture(pm: Any, rng: np.random.Generator) -> None:
    """A mixture of three normal distributions, 500 points."""
    y = np.concatenate([rng.normal(-2, 0.5, 200), rng.normal(1, 1, 300)])
    ordered = pm.distributions.transforms.ordered
    weights, start = pm.Dirichlet("w", np.ones(3)), [-2.0, 0.0, 2.0]
    mu = pm.Normal("mu", start, 3, shape=3, transform=ordered, initval=start)
    pm.NormalMixture("y", weights, mu, pm.HalfNormal("s", 2, shape=3), observed=y)


def ar2(pm: Any, rng: np.random.Generator) -> None:
    """An autoregression of order 2, 300 points."""
    y = np.zeros(300)
    for t in range(2, 300):
        y[t] = 0.5 * y[t - 1] - 0.3 * y[t - 2] + rng.normal()
    rho, sigma = pm.Normal("rho", 0, 0.5, shape=3), pm.HalfNormal("s", 1)
    pm.AR("y", rho=rho, sigma=sigma, constant=True, init_dist=pm.Normal.dist(0, 10), observed=y)


def poisson(pm: Any, rng: np.random.Generator) -> None:
    """A Poisson regression: 300 counts, 4 variables."""
    x = rng.normal(size=(300, 4))
    y = rng.poisson(np.exp(x @ np.array([0.3, -0.2, 0.1, 0]) + 0.5))
    a, b = pm.Normal("a", 0, 1), pm.Normal("b", 0, 1, shape=4)
    pm.Poisson("y", pm.math.exp(a + pm.math.dot(x, b)), observed=y)


def lkj(pm: Any, rng: np.random.Generator) -> None:
    """A normal distribution of unknown covariance in three dimensions, LKJ's prior, 100 points."""
    y = rng.multivariate_normal(np.zeros(3), [[1, 0.5, 0.2], [0.5, 1, 0.3], [0.2, 0.3, 1]], size=100)
    chol, _, _ = pm.LKJCholeskyCov("chol", n=3, eta=2, sd_dist=pm.Exponential.dist(1.0))
    pm.MvNormal("y", pm.Normal("mu", 0, 2, shape=3), chol=chol, observed=y)


MODELS: dict[str, Callable[[Any, np.random.Generator], None]] = {
    f.__name__: f for f in (eight_schools, radon, logistic, gaussian_process, mixture, ar2, poisson, lkj)
}


def model_of(name: str) -> Any:
    """The PyMC model of a name."""
    import pymc

    with pymc.Model() as model:
        MODELS[name](pymc, np.random.default_rng(0))
    return model


def error_of(name: str) -> float:
    """The largest relative error of log density and gradient against PyTensor's own code.

    Of what nutpie calls, and of PyMC's own function in the mode WENGERT.
    """
    import pytensor
    from pymc.blocking import DictToArrayBijection, RaveledVars

    import wengert.interop.pymc
    import wengert.interop.pytensor

    model = model_of(name)
    density = wengert.interop.pymc.compile(model).compiled_logp_func.ctypes()
    number = ctypes.POINTER(ctypes.c_double)

    def called(at: Any) -> tuple[Any, Any]:
        slope, value = np.empty_like(at.data), np.empty(())
        status = density(at.data.size, *(a.ctypes.data_as(number) for a in (at.data, slope, value)), None)
        if status:
            raise AssertionError(f"{name} gives no number")
        return value, slope

    ours = model.logp_dlogp_function(ravel_inputs=True, mode="WENGERT")
    theirs = model.logp_dlogp_function(ravel_inputs=True, mode=pytensor.compile.mode.Mode("py", "fast_compile"))
    for function in (ours, theirs):
        function.set_extra_values({})
    if not isinstance(ours._pytensor_function.vm.jit_fn, wengert.interop.pytensor.Converted):
        raise AssertionError(f"{name} is not compiled")
    start, rng, worst = DictToArrayBijection.map(model.initial_point()), np.random.default_rng(1), 0.0
    for shift in (0.0, 0.1, 0.3, 0.5):
        at = RaveledVars(start.data + shift * rng.normal(size=start.data.shape), start.point_map_info)
        for found, wanted in zip((*ours(at), *called(at)), theirs(at) * 2, strict=True):
            worst = max(worst, float(np.max(np.abs(found - wanted) / np.maximum(1.0, np.abs(wanted)))))
    return worst


def worker(name: str, side: str, rounds: int) -> dict[str, float]:
    """Seconds to compile a model on one side, and microseconds of an evaluation."""
    import nutpie

    import wengert.interop.pymc

    code = _loop()
    model = model_of(name)
    begin = process_time()
    if side == "wengert":
        made = wengert.interop.pymc.compile(model)
    else:
        made = nutpie.compile_pymc_model(model, backend="numba")
    seconds = process_time() - begin
    x = np.asarray(made.initial_point_func(0), np.float64)
    gradient = np.empty_like(x)
    user = ctypes.c_void_p(made.user_data.ctypes.data)
    arrays = [a.ctypes.data_as(ctypes.c_void_p) for a in (x, gradient)]

    def run(times: int) -> float:
        begin = process_time()
        address = ctypes.c_void_p(made.compiled_logp_func.address)
        code.loop(address, ctypes.c_uint64(x.size), *arrays, user, times)
        return (process_time() - begin) / times * 1e6

    times = max(10, int(2e4 / max(run(20), run(20))))
    return {"compile": seconds, "each": statistics.median(run(times) for _ in range(rounds))}


SAMPLING: dict[str, Any] = {"draws": 1000, "tune": 1000, "chains": 4, "target_accept": 0.9, "progressbar": False}


def means_of(name: str) -> dict[str, float]:
    """How far the posterior means on our code and on numba's are apart, and how well both sides have sampled."""
    import arviz
    import pymc
    from scipy.stats import norm

    import wengert.interop.pymc

    wengert.interop.pymc.register()
    sides = []
    for backend, seed in (("wengert", 1), ("numba", 2)):
        with model_of(name):
            trace = pymc.sample(
                nuts_sampler="nutpie", nuts_sampler_kwargs={"backend": backend}, random_seed=seed, **SAMPLING
            )
        kept = trace.posterior
        numbers = {"mean": _flat(kept.mean(("chain", "draw")), kept), "error": _flat(arviz.mcse(kept), kept)}
        numbers["ess"], numbers["rhat"] = _flat(arviz.ess(kept), kept), _flat(arviz.rhat(kept), kept)
        numbers["divergences"] = np.array([float(trace.sample_stats["diverging"].sum())])
        sides.append(numbers)
    a, b = sides
    moves = (a["error"] > 0) & (b["error"] > 0)  # a correlation's diagonal does not
    apart = np.abs(a["mean"] - b["mean"])[moves] / np.hypot(a["error"], b["error"])[moves]
    return {
        "numbers": int(moves.sum()),
        "apart": float(apart.max()),
        "bound": float(norm.isf(0.01 / (2 * moves.sum()))),
        "ess": min(float(side["ess"][moves].min()) for side in sides),
        "rhat": max(float(side["rhat"][moves].max()) for side in sides),
        "divergences": int(max(side["divergences"][0] for side in sides)),
    }


def _flat(values: Any, like: Any) -> np.ndarray:
    """The numbers of a data set's variables, in the order of another's."""
    return np.concatenate([np.ravel(values[v].values) for v in like.data_vars])


def print_means(names: list[str]) -> None:
    """Print the table of means; raise AssertionError where one is out of bounds."""
    print("| model | numbers | farthest means, standard errors | bound | smallest ESS | largest R-hat | divergences |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    wrong = []
    for name in names:
        found = means_of(name)
        cells = (f"{found[what]:.{digits}f}" for what, digits in _COLUMNS)
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
        if not found["apart"] < found["bound"]:
            wrong.append(name)
    if wrong:
        raise AssertionError(f"means differ: {', '.join(wrong)}")


_COLUMNS = (("numbers", 0), ("apart", 2), ("bound", 2), ("ess", 0), ("rhat", 3), ("divergences", 0))


def _loop() -> ctypes.CDLL:
    folder = Path(tempfile.mkdtemp())
    (folder / "loop.c").write_text(LOOP)
    cc = shutil.which("cc")
    if cc is None:
        raise SystemExit("The race needs a C compiler, cc.")
    subprocess.run([cc, "-O2", "-shared", "-fPIC", "-o", folder / "loop.so", folder / "loop.c"], check=True)
    code = ctypes.CDLL(str(folder / "loop.so"))
    code.loop.restype = ctypes.c_double
    return code


def measured(name: str, side: str, rounds: int) -> dict[str, float]:
    """What a worker of its own finds, with empty caches."""
    caches = tempfile.mkdtemp()
    places = {"WENGERT_CACHE_DIR": caches, "NUMBA_CACHE_DIR": f"{caches}/numba"}
    command = [sys.executable, __file__, name, "--worker", side, "--rounds", str(rounds)]
    out = subprocess.run(command, env={**os.environ, **places}, check=True, capture_output=True, text=True).stdout
    shutil.rmtree(caches, ignore_errors=True)
    found: dict[str, float] = json.loads(out.splitlines()[-1])
    return found


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", choices=[*MODELS, []], help="all where none is named")
    parser.add_argument("--smoke", action="store_true", help="compare gradients, time nothing")
    parser.add_argument("--means", action="store_true", help="compare posterior means, time nothing")
    parser.add_argument("--worker", choices=["wengert", "numba"], help="one side of one model")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args(arguments)
    names = options.models or list(MODELS)
    if options.worker:
        warnings.simplefilter("ignore")
        print(json.dumps(worker(names[0], options.worker, options.rounds)))
        return
    if options.means:
        warnings.simplefilter("ignore")
        print_means(names)
        return
    if options.smoke:
        for name in names:
            found = error_of(name)
            if found > 1e-10:
                raise AssertionError(f"{name}: off by {found}")
        print(f"{len(names)} models agree with PyTensor.")
        return
    print("| model | error | compile, s | numba's | share | logp and gradient, µs | numba's | share |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name in names:
        ours, theirs = (measured(name, side, options.rounds) for side in ("wengert", "numba"))
        cells = [f"{error_of(name):.0e}"]
        for what in ("compile", "each"):
            cells += [f"{ours[what]:.2f}", f"{theirs[what]:.2f}", f"{ours[what] / theirs[what]:.2f}"]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
