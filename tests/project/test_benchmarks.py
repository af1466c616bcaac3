"""The benchmark's problems: references whose derivatives agree with differences, contenders that agree with them."""

from __future__ import annotations

import importlib
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wengert as wg

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks" / "native"


@pytest.fixture(scope="module")
def suite() -> Any:
    """The suite's list of contenders and problems; its modules are scripts beside each other."""
    sys.path.insert(0, str(FOLDER))
    try:
        yield importlib.import_module("contenders")
    finally:
        sys.path.remove(str(FOLDER))


def names(differentiable: bool = False) -> list[str]:
    """Of all problems, or of those with a scalar whose gradient is taken."""
    sys.path.insert(0, str(FOLDER))
    try:
        problems = importlib.import_module("contenders").PROBLEMS
    finally:
        sys.path.remove(str(FOLDER))
    return [n for n, p in problems.items() if not differentiable or p.loss is not None or p.gradients]


def small(suite: Any, name: str) -> tuple[Any, Any, Any]:
    problem = suite.PROBLEMS[name]
    sizes = problem.scaled(small=True)
    return problem, sizes, problem.make(sizes)


def slope(fn: Any, at: list[Any], toward: dict[int, Any], eps: float = 1e-6) -> float:
    """The central difference of a function of arrays, some of which move."""
    ahead, behind = (
        float(fn(*(a + side * eps * toward[i] if i in toward else a for i, a in enumerate(at)))) for side in (1, -1)
    )
    return (ahead - behind) / (2 * eps)


@pytest.mark.parametrize("name", names(differentiable=True))
def test_derivatives_of_references_are_those_of_differences(suite: Any, name: str) -> None:
    problem, sizes, data = small(suite, name)
    data = importlib.import_module("problem").as_double(data)
    lib = suite.library("interpreter", "float64")
    rng = np.random.default_rng(0)
    if problem.loss is not None:
        loss, batch = problem.loss(lib, sizes), [wg.tensor(a) for a in data["batches"][0]]
        stats = {k: wg.tensor(v) for k, v in data["stats"].items()}
        keys = list(data["params"])
        at = [data["params"][k] for k in keys]

        def fn(*arrays: Any) -> Any:
            return loss({k: wg.asarray(a) for k, a in zip(keys, arrays, strict=True)}, stats, *batch)[0]

        which = tuple(range(len(at)))
    else:
        order = list(data["arguments"])
        at = list(data["arguments"].values())
        fn = problem.call(lib, sizes)
        which = tuple(order.index(g) for g in problem.gradients)
    toward = {i: rng.standard_normal(np.shape(at[i])) for i in which}
    grads = wg.grad(fn, argnums=which)(*(wg.tensor(a) for a in at))
    found = sum(float((g * toward[i]).sum()) for g, i in zip(grads, which, strict=True))

    def value(*arrays: Any) -> Any:
        return fn(*(wg.tensor(a) for a in arrays))

    assert found == pytest.approx(slope(value, at, toward), rel=1e-5, abs=1e-8)


@pytest.mark.parametrize("name", names())
@pytest.mark.filterwarnings("ignore:wg.jit runs through the interpreter")
def test_contenders_agree_with_the_reference(suite: Any, name: str) -> None:
    problem, sizes, data = small(suite, name)
    reference = suite.reference(problem, data, sizes)
    for contender in ("wengert", "numpy"):
        if suite.left_out(contender, problem) is None:
            suite.check(problem, suite.prepare(contender, problem, data, sizes), reference, data)


def test_a_leapfrog_step_leads_back(suite: Any) -> None:
    """The integrator is reversible: so the gradient in the first state, made by hand, is the function's."""
    problem, sizes, data = small(suite, "hmc_leapfrog")
    state = {k: wg.tensor(v.astype(np.float64)) for k, v in data["state"].items()}
    given = {k: wg.tensor(v) for k, v in importlib.import_module("problem").as_double(data["given"]).items()}
    step = problem.step(suite.library("interpreter", "float64"), sizes)
    there = step(state, given)
    back = step({**there, "p": -there["p"]}, given)
    np.testing.assert_allclose(back["q"].numpy(), state["q"].numpy(), atol=1e-12)
    np.testing.assert_allclose(-back["p"].numpy(), state["p"].numpy(), atol=1e-6)
    np.testing.assert_allclose(back["gradient"].numpy(), state["gradient"].numpy(), atol=1e-5)


def test_quasi_newton_steps_reach_the_minimum(suite: Any) -> None:
    problem, sizes, data = small(suite, "lbfgs")
    state = {k: wg.tensor(v) for k, v in data["state"].items()}
    given = {k: wg.tensor(v) for k, v in data["given"].items()}
    step = problem.step(suite.library("interpreter", "float64"), sizes)
    for _ in range(60):
        state = step(state, given)
    assert float(abs(state["gradient"]).max()) < 1e-8


def test_what_is_wrong_is_found(suite: Any) -> None:
    problem, sizes, data = small(suite, "linreg")
    reference = suite.reference(problem, data, sizes)
    program = suite.prepare("numpy", problem, data, sizes)
    reference["w"] = reference["w"] + 0.1
    with pytest.raises(AssertionError, match="off by"):
        suite.check(problem, program, reference, data)


AT_SIZE = FOLDER.parent / "at_size"


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(p.stem for p in AT_SIZE.glob("*.py") if p.stem != "common"))
def test_programs_at_size_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER.parents[1] / "tests" / "torch"))
    monkeypatch.syspath_prepend(str(AT_SIZE))
    monkeypatch.delitem(sys.modules, "common", raising=False)
    source = importlib.import_module("running").edited((AT_SIZE / f"{name}.py").read_text(encoding="utf-8"))
    module: Any = types.ModuleType(name)
    monkeypatch.setitem(sys.modules, name, module)
    exec(compile(source, name, "exec"), vars(module))
    losses = module.main(False, 5)  # the first of its four batches again
    assert losses[4] < losses[0]
    sys.modules.pop("common", None)


def test_a_budget_is_kept_and_changes_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("llvmlite", reason="a budget needs native code")
    monkeypatch.syspath_prepend(str(FOLDER.parent))
    monkeypatch.delitem(sys.modules, "memory", raising=False)
    module = importlib.import_module("memory")
    module.smoke()
    with pytest.raises(AssertionError, match="a loss of"):
        module.check(lambda: 1.0, lambda: 1.1, "another")
    sys.modules.pop("memory", None)


def test_callers_agree(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("llvmlite", reason="C functions are native code")
    monkeypatch.syspath_prepend(str(FOLDER.parent))
    monkeypatch.delitem(sys.modules, "callers", raising=False)
    module = importlib.import_module("callers")
    module.main(["--smoke"])
    assert "kinds of caller agree" in capsys.readouterr().out
    with pytest.raises(AssertionError, match="Python: "):
        module.check({"C": lambda times: 1.0, "Python": lambda times: 1.1})
    sys.modules.pop("callers", None)


@pytest.mark.slow
def test_runtimes_agree_on_exported_networks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("llvmlite", reason="a frozen model is native code")
    for package in ("torch", "onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(package, reason="PyTorch exports the networks, onnxruntime races")
    monkeypatch.syspath_prepend(str(FOLDER.parent))
    module = importlib.import_module("inference")
    (path,) = module.documents(tmp_path, "MLP", [2], True)
    case = module.case(path, 1)
    case.check()
    case.measure(2, 0.0)
    assert module.row(case).startswith("| MLP | 2 small |")
    case.results["wengert"] = lambda: [np.zeros((2, 10))]
    with pytest.raises(AssertionError, match="wengert is off"):
        case.check()
    for name in ("inference", "networks", "harness"):
        sys.modules.pop(name, None)
