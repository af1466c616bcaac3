"""The library among processes, threads, signals and pipes; the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wengert as wg

posix = pytest.mark.skipif(os.name != "posix", reason="fork and signals are POSIX")


def train(seed: int, steps: int = 40) -> list[float]:
    """The losses of a small regression, the same for the same seed."""
    rng = np.random.default_rng(seed)
    x = wg.asarray(rng.normal(size=(16, 3)))
    y = wg.asarray(rng.normal(size=(16, 1)))
    params = [wg.tensor(rng.normal(size=s) * 0.5, requires_grad=True) for s in ((3, 8), (8,), (8, 1))]
    optimizer = wg.optim.Adam(params, lr=0.05)
    losses = []
    for _ in range(steps):
        loss = ((wg.tanh(x @ params[0] + params[1]) @ params[2] - y) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def python(code: str, *options: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *options, "-c", code], capture_output=True, text=True, env={**os.environ, **env}, timeout=60
    )


def wengert(*args: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "wengert", *args], capture_output=True, text=True, timeout=120, **options
    )


# -- processes and threads


@posix
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_computes_and_trains() -> None:
    graph = wg.graph(lambda x: wg.exp(x) @ x)(wg.spec((4, 4), wg.float64))
    value = np.random.default_rng(0).normal(size=(4, 4))
    expected, losses = graph.run([value], workers=2).numpy(), train(1)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            same = np.array_equal(graph.run([value], workers=2).numpy(), expected) and train(1) == losses
            os.write(write, b"same" if same else b"different")
            status = 0
        finally:
            os._exit(status)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        answer = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    assert answer == b"same"


@posix
def test_a_fork_from_inside_no_grad_keeps_its_mode() -> None:
    code = """
import os
import wengert as wg
with wg.no_grad():
    child = os.fork()
    assert not wg.is_grad_enabled()
    if child == 0:
        os._exit(0)
assert wg.is_grad_enabled() and os.waitpid(child, 0)[1] == 0
"""
    assert python(code).returncode == 0


def test_two_threads_train_two_models() -> None:
    expected = {seed: train(seed) for seed in range(4)}
    found: dict[int, list[float]] = {}
    threads = [threading.Thread(target=lambda s=seed: found.update({s: train(s)})) for seed in expected]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == expected
    assert expected[0][-1] < expected[0][0]


def test_threads_differentiate_one_shared_graph() -> None:
    x = wg.tensor(np.linspace(0, 1, 50), requires_grad=True)
    y = (wg.sin(x) * x).sum()
    expected = (np.cos(x.detach().numpy()) * x.detach().numpy() + np.sin(x.detach().numpy())).tolist()
    wrong: list[Any] = []

    def work() -> None:
        for _ in range(50):
            (g,) = wg.autograd.grad(y, x, retain_graph=True)
            if not np.allclose(g.numpy(), expected):
                wrong.append(g)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


# -- interruptions


@pytest.mark.parametrize("create_graph", [False, True])
def test_an_interruption_in_the_middle_of_backward(create_graph: bool) -> None:
    x = wg.tensor([1.0, 2.0], requires_grad=True)
    h = x * x

    def interrupt(g: Any) -> None:
        raise KeyboardInterrupt

    handle = h.register_hook(interrupt)
    with wg.no_grad(), pytest.raises(KeyboardInterrupt):
        h.backward(wg.ones(2), create_graph=create_graph)
    assert wg.is_grad_enabled()
    assert x.grad is None
    assert (x * 2.0).requires_grad
    handle.remove()
    h.sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        np.divide(1.0, np.zeros(2))  # NumPy's own settings are what they were


def test_an_interruption_inside_a_transform_or_a_trace() -> None:
    def interrupted(x: Any) -> Any:
        raise KeyboardInterrupt

    for run in (lambda: wg.grad(interrupted)(1.0), lambda: wg.graph(interrupted)(wg.spec(()))):
        with wg.no_grad(), pytest.raises(KeyboardInterrupt):
            run()
        assert wg.is_grad_enabled()
        x = wg.tensor(2.0, requires_grad=True)
        assert wg.autograd.grad(x * x, x)[0].item() == 4.0
        assert not wg.randn(2).is_abstract


def test_a_mode_is_restored_when_a_custom_function_fails() -> None:
    class Failing(wg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Failing.apply(wg.tensor(1.0, requires_grad=True))
    assert wg.is_grad_enabled()


# -- the command line


def test_help_and_version() -> None:
    assert wengert("--version").stdout.strip() == f"wengert {wg.__version__}"
    top = wengert("--help")
    assert top.returncode == 0
    for command in ("demo", "info", "cache"):
        assert command in top.stdout
        assert wengert(command, "--help").returncode == 0
    nothing = wengert()
    assert nothing.returncode == 2
    assert "usage" in nothing.stderr
    assert wengert("no-such-command").returncode == 2


def test_info() -> None:
    out = wengert("info")
    assert out.returncode == 0
    assert np.__version__ in out.stdout
    facts = json.loads(wengert("info", "--json").stdout)
    assert facts["versions"]["wengert"] == wg.__version__
    assert facts["threads"]["usable"] >= 1


@pytest.mark.parametrize("option", ["--epochs=0", "--batch=-3", "--hidden=many"])
def test_demo_refuses_wrong_numbers(option: str, tmp_path: Path) -> None:
    out = wengert("demo", option, f"--out={tmp_path}")
    assert out.returncode == 2
    assert "Traceback" not in out.stderr


def test_demo_draws(tmp_path: Path) -> None:
    out = wengert("demo", "--epochs=2", f"--out={tmp_path / 'a' / 'b'}")
    assert out.returncode == 0, out.stderr
    assert "held-out images right" in out.stdout
    for name in ("curve.svg", "graph.svg"):
        assert (tmp_path / "a" / "b" / name).read_text().lstrip().startswith("<")


def test_demo_into_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    out = wengert("demo", "--epochs=1", f"--out={tmp_path / 'file' / 'folder'}")
    assert out.returncode == 1
    assert "Traceback" not in out.stderr
    assert "file" in out.stderr
    assert len(out.stderr.strip().splitlines()) == 1


@posix
def test_control_c_ends_the_demo(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "wengert", "demo", "--epochs=100000", f"--out={tmp_path}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        assert "images to train on" in process.stdout.readline()
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
    finally:
        process.kill()  # where a signal is ignored it would train on beside the other tests
    assert process.returncode == 130
    assert "Traceback" not in err
    assert "interrupted" in err


@posix
def test_a_reader_that_has_gone() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "wengert", "info"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=20) in (0, 141)
    assert err == ""


# -- warnings and tracebacks


QUIET = """
import warnings
import numpy as np
import wengert as wg
x = wg.tensor([0.0, -1.0, 1e30], requires_grad=True)
y = wg.log(x) + 1.0 / x + wg.sqrt(x) + wg.exp(x) + x / 0.0 + wg.exp(x * x) + (x * 1e30) ** 3
y.sum().backward()
(g,) = wg.autograd.grad(wg.log(x).sum(), x, create_graph=True)
wg.grad(lambda t: wg.log(t).sum())(np.zeros(3))
graph = wg.graph(lambda t: wg.log(t) / t)(wg.spec((3,)))
graph(wg.zeros(3)); graph.run([wg.zeros(3)], workers=2)
wg.mean(wg.zeros((0,))); wg.var(wg.zeros((0,))); wg.std(wg.ones(1), correction=1)
wg.zeros(3) / 0; wg.asarray(1) / 0; wg.asarray([1, 2]) // 0; wg.asarray([1, 2]) % 0
wg.asarray([float("nan"), 1e30]).astype(wg.int32)
wg.asarray([1e30]).astype(wg.float16)
wg.linalg.vector_norm(wg.zeros(3)); wg.logsumexp(wg.full((3,), -float("inf")))
wg.max(wg.asarray([float("nan"), 1.0])); wg.sum(wg.asarray([1e38, 1e38, 1e38]))
wg.asarray([100, 100], dtype=wg.int8) * 2
print("quiet")
"""


@pytest.mark.parametrize("options", [("-W", "error"), ("-X", "dev")])
def test_infinities_and_nans_are_values(options: tuple[str, str]) -> None:
    out = python(QUIET, *options)
    assert out.stdout == "quiet\n", out.stderr
    assert out.stderr == ""


def test_numpys_own_warnings_stay() -> None:
    out = python("import warnings, numpy as np, wengert as wg; np.log(np.zeros(2))")
    assert "divide by zero" in out.stderr


FAILING = "import wengert as wg\nwg.ones(2) + wg.ones(3)"
SHORT = "import wengert as wg\nwg.debug.short_tracebacks()\n"


def test_importing_leaves_the_hook_for_exceptions_alone() -> None:
    out = python("import sys; before = sys.excepthook; import wengert; assert sys.excepthook is before")
    assert out.returncode == 0, out.stderr
    out = python(FAILING)
    assert out.returncode == 1
    assert "record.py" in out.stderr
    assert "<string>:2" in out.stderr


def test_short_tracebacks_on_request() -> None:
    out = python(SHORT + "wg.debug.short_tracebacks()\nwg.ones(2) + wg.ones(3)")
    assert out.returncode == 1
    assert ".py" not in out.stderr
    assert "ShapeError" in out.stderr
    assert "<string>:4" in out.stderr
    others = python(SHORT + "import json; json.loads('no')")
    assert "decoder.py" in others.stderr
    in_thread = python(SHORT + "import threading; threading.Thread(target=lambda: wg.ones(2) + wg.ones(3)).start()")
    assert "ShapeError" in in_thread.stderr
    assert "record.py" not in in_thread.stderr


def test_a_trimmed_error_prints_without_own_frames() -> None:
    out = python("""
import traceback
import wengert as wg
def inner(x):
    return x + wg.ones(3)
try:
    wg.grad(lambda x: inner(x).sum())(wg.ones(2))
except wg.ShapeError as e:
    wg.debug.trimmed(e)
    traceback.print_exc()
""")
    assert out.returncode == 0, out.stderr
    assert ".py" not in out.stderr
    assert [line.split()[-1] for line in out.stderr.splitlines() if line.startswith("  File")] == [
        "<module>",
        "<lambda>",
        "inner",
    ]


def test_ipython_and_pytest_leave_own_frames_out(tmp_path: Path) -> None:
    file = tmp_path / "test_failing.py"
    file.write_text("import wengert as wg\n\ndef test_it():\n    wg.ones(2) + wg.ones(3)\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(file)]
    environment = {k: v for k, v in os.environ.items() if k != "WENGERT_TRACEBACK"}
    for full in (False, True):
        told = {**environment, **({"WENGERT_TRACEBACK": "full"} if full else {})}
        out = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=told)
        assert "ShapeError" in out.stdout
        assert ("record.py" in out.stdout) == full
    pytest.importorskip("IPython")
    out = python("""
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell()
shell.run_line_magic("colors", "NoColor")
shell.run_cell("import wengert as wg\\nwg.ones(2) + wg.ones(3)")
""")
    assert "ShapeError" in out.stdout
    assert "record.py" not in out.stdout


def test_importing_changes_nothing_and_is_light() -> None:
    code = """
import sys
import wengert
heavy = {"scipy", "torch", "jax", "ml_dtypes", "rich", "llvmlite", "mpmath", "matplotlib", "onnx"} & set(sys.modules)
assert not heavy, heavy
import numpy as np
assert np.geterr()["divide"] == "warn"
"""
    out = python(code)
    assert out.returncode == 0, out.stderr
