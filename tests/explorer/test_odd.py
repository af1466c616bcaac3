"""Odd values, graphs, programs and circumstances: what the explorer makes of them."""

from __future__ import annotations

import gc
import io
import json
import os
import sys
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.cli import main
from wengert.core.errors import GraphError
from wengert.core.node import Node
from wengert.core.ops.op import TABLE
from wengert.core.state.observer import aside
from wengert.execute.jit.jit import Jit
from wengert.explorer import Exploration
from wengert.explorer.document import stats
from wengert.explorer.playground.script import ScriptFault, script_run
from wengert.explorer.recording.script import record_script
from wengert.optim.optimizer import Optimizer
from wengert.transforms.derivatives import reverse


def plain(found: Exploration) -> dict[str, Any]:
    """The document as a reader gets it: JSON, in which there are no infinities."""
    read: dict[str, Any] = json.loads(json.dumps(found.document, allow_nan=False))
    return read


# -- values


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("least", [5e-324, 1e-310, 1e-300, 1.0, 1e300])
def test_statistics_of_numbers_at_the_ends_of_the_range(least: float) -> None:
    x = least * np.arange(8.0)
    told = stats.details(x)
    assert told is not None
    assert told["hist"] == [1, 0, 1, 0, 1, 0, 1, 0, 0, 1, 0, 1, 0, 1, 0, 1]
    assert told["mean"] == pytest.approx(least * 3.5, rel=1e-5, abs=5e-324)
    assert told["std"] == pytest.approx(least * float(np.std(np.arange(8.0))), rel=1e-5, abs=5e-324)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_largest_numbers_stay_numbers(sign: float) -> None:
    most = np.finfo(np.float64).max
    x = np.full((20, 30), most)
    x[::2] *= sign
    found = plain(wg.explore(lambda x: (x * 1.0)[0, 0], x))
    told = next(d for d in found["stats"]["value"]["details"].values() if d["size"] == 600)
    assert told["max"] == most
    assert told["cells"]["values"] == [most] * (16 * 30)
    assert told["mean"] == pytest.approx(0 if sign < 0 else most, rel=1e-5, abs=1e-10 * most)
    assert sum(told["hist"]) == 600


@pytest.mark.parametrize(("number", "dtype"), [(1e-30, np.float32), (1e-200, np.float64), (5e-324, np.float64)])
def test_small_is_not_zero(number: float, dtype: type) -> None:
    assert stats.code(np.full(3, number, dtype)) > stats.ZERO
    assert stats.code(np.zeros(3, dtype)) == stats.ZERO


# -- graphs


def test_a_tensor_whose_leaves_are_gone() -> None:
    def made() -> wg.Tensor:
        x = wg.tensor(2.0, requires_grad=True)
        return (x + 1.5) + 1.0

    found = wg.explore(made())
    assert plain(found)["stats"]["value"]["scalar"][-1] == 4.5
    assert "the tensors that they were computed from are gone" in str(found)


def test_numbers_are_given_to_a_graph_as_it_takes_them() -> None:
    graph = wg.graph(lambda x: wg.sin(x) * x)(wg.tensor(2.0))
    found = wg.explore(graph, 3.0)
    assert "error" not in found.document["meta"]
    assert found.document["strings"][found.document["nodes"]["dtype"][0]] == "float32"


# -- names


def test_bytes_that_are_no_characters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / os.fsdecode(b"\xff.py")
    try:
        script.write_text(SQUARE)
    except OSError:
        pytest.skip("file names are characters here")
    assert main(["explore", "--save", str(tmp_path / "page.html"), str(script)]) == 0
    assert "3 nodes" in capsys.readouterr().out
    assert "<title>?.py · ? · wengert</title>" in (tmp_path / "page.html").read_text()


def test_names_are_text_and_nothing_else() -> None:
    text = "</script><script>alert(1)</script><!--"
    found = wg.explore(lambda given: given[text] * 2.0, {text: 3.0})
    found.document["meta"]["script"] = text
    assert text not in found.to_html()
    assert text not in found._repr_html_()


def test_models_that_only_a_function_knows_have_names() -> None:
    def train() -> None:
        model = wg.nn.Linear(3, 1)
        optimizer = wg.optim.SGD(model.parameters(), lr=0.1)
        model(wg.ones((4, 3))).square().mean().backward()
        optimizer.step()

    found = wg.explore(train)
    names = {found.document["strings"][name] for name in found.document["nodes"]["name"]}
    assert {"model.weight", "model.bias"} <= names


# -- programs

SQUARE = """
import wengert as wg
x = wg.tensor(2.0, requires_grad=True)
(x * x).backward()
"""


def check(path: Path, text: str, *more: str) -> int:
    path.write_text(text)
    return main(["explore", "--check", *more, str(path)])


def test_a_script_that_goes_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "away").mkdir()
    Path("script.py").write_text(f"import os\nos.chdir('away')\n{SQUARE}")
    assert main(["explore", "--save", "page.html", "script.py"]) == 0
    assert (tmp_path / "page.html").exists()
    assert Path.cwd() == tmp_path
    files = Exploration(record_script("script.py")).document["files"]
    assert [file["path"] for file in files] == ["script.py"]
    assert "(x * x).backward()" in files[0]["pieces"][0]["text"]


def test_a_script_that_removes_the_folder_it_is_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    removed = f"import os\nos.chdir('..')\nos.rmdir('gone')\n{SQUARE}"
    assert check(tmp_path / "script.py", removed) == 0


def test_a_stream_that_lacks_characters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    text = "import wengert as wg\nx = wg.tensor(0.0, requires_grad=True)\n(wg.sqrt(x * x) * 0.0).backward()\n"
    assert check(tmp_path / "script.py", text) == 1
    sys.stdout.flush()
    assert b"NaN born going back" in written.getvalue()


def test_an_exception_that_cannot_say_what_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mute = "class Mute(Exception):\n    def __str__(self):\n        raise RuntimeError\nraise Mute\n"
    assert check(tmp_path / "script.py", SQUARE + mute) == 2
    assert "stopped by Mute" in capsys.readouterr().err


def test_a_step_that_there_is_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "script.py"
    script.write_text(SQUARE)
    assert main(["explore", "--save", str(tmp_path / "page.html"), "--step", "9", str(script)]) == 0
    assert "There is no step 9: shown is the last one, step 0." in capsys.readouterr().out
    assert main(["explore", "--check", "--step", "-1", str(script)]) == 2
    assert "Steps are counted from 0." in capsys.readouterr().err


# -- circumstances

EXPLORES = """
import wengert as wg
w = wg.tensor(2.0, requires_grad=True)
loss = (w * 3.0 - 1.0) ** 2
inner = wg.explore(lambda x: x * w, 3.0)
again = wg.explore(loss)
loss.backward()
"""


def test_a_script_that_explores(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(EXPLORES)
    recording = record_script(script)
    assert recording.error is None
    assert [row.op.name for row in recording.rows if row.op is not None] == ["multiply", "subtract", "pow"]
    assert recording.passes == 1


def test_explored_inside_of_what_is_explored() -> None:
    inside: list[Exploration] = []

    def f(x: wg.Tensor) -> wg.Tensor:
        y = x * x
        inside.append(wg.explore(lambda z: wg.sin(z) * y, 2.0))
        tripled: wg.Tensor = wg.jit(lambda z: z * 3.0)(y)
        return tripled

    found = wg.explore(f, 2.0)
    assert "2 operations" in str(found)
    assert "2 operations" in str(inside[0])


def table() -> list[Any]:
    """All that recording stands in for."""
    made = [
        (op.forward, getattr(getattr(op, "front", None), "__globals__", {}).get("forward")) for op in TABLE.values()
    ]
    return [*made, {**vars(Optimizer)}, {**vars(wg.Tensor)}, vars(Jit)["__call__"], reverse._walk, Node.__init__]


def test_everything_is_put_back() -> None:
    before = table()

    def fails(x: wg.Tensor) -> wg.Tensor:
        raise ValueError(x * x)

    def leaves(x: wg.Tensor) -> wg.Tensor:
        raise KeyboardInterrupt

    wg.explore(fails, 2.0)
    with pytest.raises(KeyboardInterrupt):
        wg.explore(leaves, 2.0)
    wg.explore(lambda x: wg.explore(fails, x) and x * x, 2.0)
    assert table() == before


def test_two_threads_at_once() -> None:
    """One records, the other is told so; neither leaves anything behind."""
    before = table()
    meet = threading.Barrier(2)

    def explored(number: int) -> str:
        def f(x: wg.Tensor) -> wg.Tensor:
            time.sleep(0.002)
            return x * float(number)

        meet.wait()
        try:
            return str(wg.explore(f, 2.0))
        except GraphError as e:
            return str(e)

    with ThreadPoolExecutor(2) as pool:
        for _ in range(20):
            said = list(pool.map(explored, range(2)))
            assert all("1 operations" in text or "One program is recorded at a time" in text for text in said)
            assert table() == before


def test_what_another_thread_explores_is_not_recorded() -> None:
    """One thread has recorded and asks for more of what it saw; another begins to record meanwhile."""
    began, done = threading.Event(), threading.Event()

    def looks() -> None:
        with aside():
            began.wait(10)
            wg.exp(wg.tensor(1.0, requires_grad=True)).backward()
            done.set()

    def f(x: wg.Tensor) -> wg.Tensor:
        began.set()
        done.wait(10)
        return x * 2.0

    with ThreadPoolExecutor(1) as pool:
        looking = pool.submit(looks)
        assert " 1 operations" in str(wg.explore(f, 2.0))
        looking.result()


def test_exploring_again_and_again_holds_nothing() -> None:
    alive: list[weakref.ref[Any]] = []

    def f(x: wg.Tensor) -> wg.Tensor:
        y = wg.exp(x) * x
        alive.append(weakref.ref(y))
        return wg.sum(y)

    for _ in range(20):
        wg.explore(f, np.ones(1000), compiled=False)
    gc.collect()
    assert not any(ref() is not None for ref in alive)


# -- the playground

FAULTS = {
    "its text cannot be shown": "class Mute(Exception):\n    def __str__(self):\n        raise RuntimeError\n\n"
    "def step():\n    raise Mute\n",
    "KeyboardInterrupt": "def step():\n    raise KeyboardInterrupt\n",
    "Own: of mine": "class Own(BaseException):\n    pass\n\ndef step():\n    raise Own('of mine')\n",
    "and not int": "def step():\n    return 10**400\n",
}


@pytest.mark.parametrize("said", FAULTS)
def test_whatever_a_script_raises_ends_its_step_and_no_more(tmp_path: Path, said: str) -> None:
    file = tmp_path / "own.py"
    file.write_text(FAULTS[said])
    run = script_run(file)({"seed": 0})
    with pytest.raises(ScriptFault) as fault:
        run.step()
    assert said in fault.value.told["text"]


def test_a_model_that_cannot_list_its_parameters(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text(
        "import wengert as wg\n\nclass Model(wg.nn.Module):\n    def named_parameters(self):\n"
        "        raise ValueError('none to list')\n\nmodel = Model()\n\ndef step():\n    return 1.0\n"
    )
    shown = script_run(file)({"seed": 0}).shown().values
    assert (shown["parameters"], shown["fault"]["line"]) == ([], 5)


def test_the_step_that_breaks_a_parameter_is_shown() -> None:
    path = Path(__file__).parent / "scripts" / "faulty" / "nan_of_an_early_step.py"
    broken = record_script(str(path))
    assert broken.notes == ["Shown is step 1: it leaves parameters that are not finite, and later ones carry them on."]
    assert record_script(str(path), step=3).notes == []
