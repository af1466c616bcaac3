"""Densities and PyMC's models as nutpie's, whose sampler calls C functions."""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native code needs llvmlite")
nutpie = pytest.importorskip("nutpie", reason="nutpie is an extra")

import wengert as wg
from wengert.core.errors import DTypeError, GraphError
from wengert.interop import nutpie as ours

COVARIANCE = np.array([[1.0, 0.5], [0.5, 2.0]])
SETTINGS: dict[str, Any] = {"draws": 300, "tune": 300, "chains": 2, "cores": 1, "progress_bar": False, "seed": 1}


def gaussian(x: Any) -> Any:
    return -0.5 * (x @ (wg.asarray(np.linalg.inv(COVARIANCE)) @ x))


def called(model: Any, x: np.ndarray) -> tuple[int, float, np.ndarray]:
    """Return what the C function of a log density gives: its status, value and gradient."""
    gradient, value = np.empty_like(x), np.empty(())
    pointers = [a.ctypes.data_as(ctypes.POINTER(ctypes.c_double)) for a in (x, gradient, value)]
    status = model.compiled_logp_func.ctypes()(len(x), *pointers, None)
    return status, float(value), gradient


def test_a_function_of_a_vector() -> None:
    model = ours.compile(gaussian, 2)
    status, value, gradient = called(model, np.array([1.0, 2.0]))
    t = wg.tensor([1.0, 2.0], dtype=wg.float64)
    assert status == 0
    assert value == pytest.approx(float(gaussian(t)), rel=1e-13)
    np.testing.assert_allclose(gradient, wg.grad(gaussian)(t).numpy(), rtol=1e-12)
    trace = nutpie.sample(model, **SETTINGS)
    assert trace.posterior["x"].shape == (2, 300, 2)
    found = np.cov(trace.posterior["x"].values.reshape(-1, 2).T)
    np.testing.assert_allclose(found, COVARIANCE, atol=0.5)


def test_positions_that_are_pytrees_and_what_is_kept() -> None:
    start = {"a": wg.zeros((), dtype=wg.float64), "b": wg.zeros(3, dtype=wg.float64)}
    model = ours.compile(
        lambda p: -0.5 * p["a"] ** 2 - 0.5 * (p["b"] ** 2).sum(),
        start,
        expand=lambda p: {"scale": wg.exp(p["a"]), "b": p["b"]},
        dims={"b": ["place"]},
        coords={"place": ["u", "v", "w"]},
    )
    assert (model.n_dim, model.shapes) == (4, {"scale": (), "b": (3,)})
    trace = nutpie.sample(model, **SETTINGS)
    assert (trace.posterior["scale"] > 0).all()
    assert trace.posterior["b"].dims == ("chain", "draw", "place")
    assert trace.posterior["place"].values.tolist() == ["u", "v", "w"]


def test_what_is_trained_outside_is_taken_as_it_is() -> None:
    w = wg.tensor([2.0, 3.0], dtype=wg.float64, requires_grad=True)
    layer = wg.nn.Linear(2, 1).to(wg.float64)

    def density(x: Any) -> Any:
        return -((w * x) ** 2).sum() - layer(x)[0] ** 2

    at = np.array([0.5, -1.0])
    model = ours.compile(density, 2, expand=lambda x: {"product": w * x})
    want = float(density(wg.tensor(at)).detach())
    status, value, gradient = called(model, at)
    assert status == 0
    assert value == pytest.approx(want, rel=1e-13)
    np.testing.assert_allclose(gradient, wg.grad(density)(wg.tensor(at)).detach().numpy(), rtol=1e-12)
    assert nutpie.sample(model, **SETTINGS).posterior["product"].shape == (2, 300, 2)
    with wg.no_grad():
        w.mul_(2.0)
    assert called(model, at)[1] == value


def test_points_without_a_density() -> None:
    model = ours.compile(lambda x: wg.log(x).sum(), 2)
    assert called(model, np.array([1.0, 2.0]))[0] == 0
    assert called(model, np.array([1.0, -2.0]))[0] in (3, 4)
    assert called(model, np.array([1.0, 0.0]))[0] in (3, 4)
    assert called(model, np.array([1.0]))[0] == -2


def test_densities_are_floating() -> None:
    with pytest.raises(DTypeError, match=r"(?s)the log density <lambda> returned bool\[\].*test_nutpie.py"):
        ours.compile(lambda x: x.sum() > 0, 2)


def test_refusals() -> None:
    with pytest.raises(DTypeError, match="at a position of float32") as caught:
        ours.compile(lambda x: x.sum(), wg.zeros(2))
    assert os.path.basename(__file__) in str(caught.value)
    with pytest.raises(GraphError, match="is computed by Python"):
        ours.compile(lambda x: wg.linalg.eigvalsh(wg.outer(x, x)).sum(), 3)


@pytest.fixture(scope="module")
def eight_schools() -> Any:
    pymc = pytest.importorskip("pymc", reason="pymc is an extra")
    y, sigma = np.array([28.0, 8, -3, 7, -1, 1, 18, 12]), np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
    with pymc.Model(coords={"school": list("abcdefgh")}) as model:
        mu, tau, z = pymc.Normal("mu", 0, 5), pymc.HalfCauchy("tau", 5), pymc.Normal("z", 0, 1, dims="school")
        theta = pymc.Deterministic("theta", mu + tau * z, dims="school")
        pymc.Normal("y", theta, sigma, observed=y)
    return model


def test_a_pymc_model(eight_schools: Any) -> None:
    from wengert.interop import pymc as ours

    model = ours.compile(eight_schools)
    reference = eight_schools.compile_logp()
    at = {"mu": np.array(1.0), "tau_log__": np.array(0.5), "z": np.linspace(-1, 1, 8)}
    status, value, _ = called(model, np.concatenate([np.ravel(v) for v in at.values()]))
    assert status == 0
    assert value == pytest.approx(float(reference(at)), rel=1e-12)
    trace = nutpie.sample(model, **SETTINGS)
    assert trace.posterior["theta"].dims == ("chain", "draw", "school")
    assert abs(float(trace.posterior["mu"].mean()) - 4.4) < 1.5
    np.testing.assert_allclose(trace.posterior["tau"], np.exp(trace.posterior["tau_log__"]))
    kept = ours.compile(eight_schools, var_names=["tau"])
    assert set(kept.shapes) == {"mu", "tau_log__", "z", "tau"}


def test_first_points_of_a_pymc_model(eight_schools: Any) -> None:
    from wengert.interop import pymc as ours

    begin = ours.compile(eight_schools).initial_point_func
    np.testing.assert_array_equal(begin(3), begin(3))
    points = np.array([begin(seed) for seed in range(20)])
    assert len(np.unique(points)) == points.size
    still = ours.compile(eight_schools, jitter=False).initial_point_func
    np.testing.assert_array_equal(still(0), still(1))
    assert np.all(np.abs(points - still(0)) <= 1)
    reference = eight_schools.initial_point()
    np.testing.assert_allclose(still(0), np.concatenate([np.ravel(v) for v in reference.values()]))


def test_variables_that_the_density_does_not_depend_on() -> None:
    pymc = pytest.importorskip("pymc", reason="pymc is an extra")
    from wengert.interop import pymc as ours

    with pymc.Model() as model:
        x = pymc.Normal("x", shape=(2, 3))
        pymc.Flat("free")
        pymc.Deterministic("double", 2 * x)
    made = ours.compile(model)
    at = np.linspace(-1, 1, 7)
    status, value, gradient = called(made, at)
    assert status == 0
    assert value == pytest.approx(-0.5 * (at[:6] ** 2).sum() - 3 * np.log(2 * np.pi))
    np.testing.assert_allclose(gradient, [*-at[:6], 0.0], atol=1e-15)
    assert made.shapes == {"x": (2, 3), "free": (), "double": (2, 3)}


def test_little_is_collected_while_a_model_is_compiled(eight_schools: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from wengert.interop import pymc as ours

    given, before, seen = ours._graphs, gc.get_threshold(), []

    def graphs(*args: Any) -> Any:
        seen.append(gc.get_threshold()[0])
        return given(*args)

    monkeypatch.setattr(ours, "_graphs", graphs)
    ours.compile(eight_schools)
    assert gc.get_threshold() == before
    with pytest.raises(TypeError):
        ours.compile(None)
    assert gc.get_threshold() == before
    assert seen[0] > 10 * before[0]


def test_first_points_take_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a model's random variables nor the graphs that some of them are become C for a draw of each chain."""
    pymc = pytest.importorskip("pymc", reason="pymc is an extra")
    from pytensor.link.c.basic import CLinker

    from wengert.interop import pymc as ours

    with pymc.Model() as model:
        pymc.LKJCholeskyCov("chol", n=3, eta=2, sd_dist=pymc.Exponential.dist(1.0))

    def refused(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("C is compiled")

    monkeypatch.setattr(CLinker, "make_thunk", refused)
    with model:
        (point,) = ours._initial_point(model, jitter=True)(0)
    assert np.isfinite(point).all()
    assert point.shape == (6,)


def test_pymc_samples_with_the_backend(eight_schools: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import pymc

    from wengert.interop import pymc as ours

    monkeypatch.setattr(nutpie, "compile_pymc_model", nutpie.compile_pymc_model)  # put back after the test
    ours.register()
    registered = nutpie.compile_pymc_model
    ours.register()
    assert nutpie.compile_pymc_model is registered
    settings = {"draws": 300, "tune": 300, "chains": 2, "progressbar": False, "random_seed": 1}
    with eight_schools:
        trace = pymc.sample(
            nuts_sampler="nutpie", var_names=["mu"], nuts_sampler_kwargs={"backend": "wengert", "cores": 1}, **settings
        )
    assert abs(float(trace.posterior["mu"].mean()) - 4.4) < 1.5
    assert trace.observed_data["y"].shape == (8,)
    assert type(registered(eight_schools, backend="wengert").logp_func).__module__.startswith("wengert")
    with pytest.raises(ValueError, match="numba and jax"):
        registered(eight_schools, backend="none")
    with pytest.raises(TypeError, match="freeze_model"):
        registered(eight_schools, backend="wengert", freeze_model=True)


def test_gradients_in_the_mode(eight_schools: Any) -> None:
    import pytensor
    from pymc.blocking import DictToArrayBijection

    from wengert.interop.pytensor import Converted

    found = eight_schools.logp_dlogp_function(ravel_inputs=True, mode="WENGERT")
    wanted = eight_schools.logp_dlogp_function(ravel_inputs=True, mode=pytensor.compile.mode.Mode("py", "fast_compile"))
    at = DictToArrayBijection.map(eight_schools.initial_point())
    for function in (found, wanted):
        function.set_extra_values({})
    for a, b in zip(found(at), wanted(at), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
    assert isinstance(found._pytensor_function.vm.jit_fn, Converted)


def _censored(pymc: Any, y: np.ndarray) -> None:
    dist = pymc.Normal.dist(pymc.Normal("m"), pymc.HalfNormal("s"))
    pymc.Censored("y", dist, lower=-1, upper=1, observed=np.clip(y, -1, 1))


def _scanned(pymc: Any, y: np.ndarray) -> None:
    weights = {"alpha_1": pymc.Beta("a", 2, 5), "beta_1": pymc.Beta("b", 2, 5), "initial_vol": pymc.HalfNormal("v", 1)}
    pymc.GARCH11("y", omega=pymc.HalfNormal("o", 1), **weights, observed=y, shape=len(y))


def _censored_gamma(pymc: Any, y: np.ndarray) -> None:
    dist = pymc.Gamma.dist(pymc.HalfNormal("a", 2), pymc.HalfNormal("b", 2))
    pymc.Censored("y", dist, lower=0.5, upper=1.5, observed=np.clip(np.abs(y), 0.5, 1.5))


def _truncated_beta(pymc: Any, y: np.ndarray) -> None:
    dist = pymc.Beta.dist(1 + pymc.HalfNormal("a", 2), 1 + pymc.HalfNormal("b", 2))
    pymc.Truncated("y", dist, lower=0.1, upper=0.9, observed=0.5 + 0.3 * np.tanh(y))


def _censored_student(pymc: Any, y: np.ndarray) -> None:
    dist = pymc.StudentT.dist(nu=pymc.Gamma("nu", 2, 0.5), mu=pymc.Normal("m"), sigma=1)
    pymc.Censored("y", dist, lower=-1, upper=1, observed=np.clip(y, -1, 1))


def _censored_counts(pymc: Any, y: np.ndarray) -> None:
    dist = pymc.NegativeBinomial.dist(mu=pymc.HalfNormal("m", 5) + 0.1, alpha=pymc.HalfNormal("a", 5) + 0.1)
    pymc.Censored("y", dist, lower=0, upper=2, observed=np.floor(np.abs(2 * y)).clip(0, 2).astype(int))


MODELS: dict[str, Callable[[Any, np.ndarray], Any]] = {
    "censored": _censored,
    "tails": lambda pymc, y: pymc.ExGaussian(
        "y", mu=pymc.Normal("m"), sigma=pymc.HalfNormal("s"), nu=pymc.HalfNormal("n"), observed=y
    ),
    "truncated": lambda pymc, y: pymc.TruncatedNormal(
        "y", mu=pymc.Normal("m"), sigma=pymc.HalfNormal("s"), lower=-9, upper=9, observed=y
    ),
    "logits": lambda pymc, y: pymc.Bernoulli("y", logit_p=pymc.Normal("m") * y, observed=(y > 0).astype(int)),
    "mixture": lambda pymc, y: pymc.NormalMixture(
        "y", pymc.Dirichlet("w", np.ones(2)), pymc.Normal("m", shape=2), pymc.HalfNormal("s", shape=2), observed=y
    ),
    "angles": lambda pymc, y: pymc.VonMises(
        "y", mu=pymc.VonMises("m", 0, 1), kappa=pymc.HalfNormal("k", 3), observed=np.arctan2(np.sin(y), np.cos(y))
    ),
    "scan": _scanned,
    "censored_gamma": _censored_gamma,
    "truncated_beta": _truncated_beta,
    "censored_student": _censored_student,
    "censored_counts": _censored_counts,
}


@pytest.mark.parametrize("name", MODELS)
def test_densities_are_pymcs_far_out_too(name: str) -> None:
    """Where PyMC's own code finds numbers, ours finds the same: rewrites before gradients leave no NaN behind."""
    pymc = pytest.importorskip("pymc", reason="pymc is an extra")
    from pymc.blocking import DictToArrayBijection, RaveledVars
    from pytensor.compile.mode import Mode

    from wengert.interop import pymc as ours

    rng = np.random.default_rng(0)
    with pymc.Model() as model:
        MODELS[name](pymc, rng.normal(size=20))
    made = ours.compile(model)
    # Without C: PyTensor's own rewrites, and its ops' Python code.
    theirs = model.logp_dlogp_function(ravel_inputs=True, mode=Mode("py", "fast_run").excluding("fusion"))
    theirs.set_extra_values({})
    start = DictToArrayBijection.map(model.initial_point())
    compared = 0
    for far in (0.0, 0.5, 2.0, 5.0, 30.0):
        x = start.data + far * rng.normal(size=start.data.shape)
        with np.errstate(all="ignore"):
            value, gradient = theirs(RaveledVars(x, start.point_map_info))
        if np.isfinite(value) and np.isfinite(gradient).all():
            status, found, slope = called(made, x)
            assert status == 0
            np.testing.assert_allclose(found, value, rtol=1e-10)
            # Of a normal distribution's tail PyTensor's rewrites keep seven digits themselves, of a gamma one's four.
            digits = 1e-4 if name == "censored_gamma" else 1e-6
            np.testing.assert_allclose(slope, gradient, rtol=digits, atol=1e-10)
            compared += 1
    assert compared >= 3
