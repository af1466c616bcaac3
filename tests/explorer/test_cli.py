"""`wengert explore`: pages and exit statuses."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from wengert.cli import main

SCRIPTS = Path(__file__).parent / "scripts"


def test_check_prints_findings_as_compilers_do(capsys: pytest.CaptureFixture[str]) -> None:
    script = SCRIPTS / "faulty" / "nan_backward.py"
    assert main(["explore", "--check", str(script)]) == 1
    out = capsys.readouterr().out
    assert f"{script}:10: error: NaN born going back (nan-backward)" in out
    assert "0 × ∞ = NaN" in out
    assert "instead: wg.sqrt(x + eps)" in out
    assert out.endswith("1 finding\n")


def test_check_is_content_with_a_healthy_script(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", "--check", str(SCRIPTS / "healthy" / "masked_log.py")]) == 0
    assert capsys.readouterr().out == "0 findings\n"


def test_what_cut_the_gradient_is_named_with_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", "--check", str(SCRIPTS / "faulty" / "detached.py")]) == 1
    out = capsys.readouterr().out
    assert "detached.py:14: error: no gradient reaches model.encoder.weight, model.encoder.bias" in out
    assert "detach() at" in out


def test_a_script_that_fails_is_neither_clean_nor_faulty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "broken.py"
    script.write_text("import wengert as wg\nx = wg.ones(3)\ny = x + wg.ones(4)\n")
    assert main(["explore", "--check", str(script)]) == 2
    assert "broken.py: stopped by ShapeError" in capsys.readouterr().err


def test_an_error_of_the_scripts_own_has_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "raises.py"
    script.write_text(
        "import json\nimport wengert as wg\nx = wg.ones(3) * 2\ndef f():\n    json.loads('{')\ntry:\n    f()\n"
        "except ValueError as e:\n    {}['hm']\n"
    )
    assert main(["explore", "--check", str(script)]) == 2
    assert capsys.readouterr().err == f"raises.py: stopped by KeyError: 'hm' ({script}:9)\n"
    # The user's line, where a library raised it.
    script.write_text("import json\nimport wengert as wg\nx = wg.ones(3) * 2\njson.loads('{')\n")
    assert main(["explore", "--check", str(script)]) == 2
    assert capsys.readouterr().err.endswith(f" ({script}:4)\n")
    # Said once where the text says it.
    script.write_text("import wengert as wg\nwg.ones(3) + wg.ones(4)\n")
    assert main(["explore", "--check", str(script)]) == 2
    assert capsys.readouterr().err.count(f"{script}:2") == 1


def test_a_script_without_computations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "nothing.py"
    script.write_text("print('hello')\n")
    assert main(["explore", "--check", str(script)]) == 2
    assert "nothing was computed" in capsys.readouterr().err


def test_a_file_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", "--check", "no/such/file.py"]) == 2
    assert "no/such/file.py" in capsys.readouterr().err


def test_a_function_of_a_script_with_arguments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "lesson.py"
    script.write_text(
        "import sys\nimport wengert as wg\n\n\ndef loss():\n"
        "    w = wg.tensor(float(sys.argv[1]), requires_grad=True)\n    return (w * 3.0 - 4.0) ** 2\n"
    )
    page = tmp_path / "page.html"
    assert main(["explore", "--save", str(page), f"{script}:loss", "2"]) == 0
    assert page.read_text().startswith("<!doctype html>")
    assert "wrote" in capsys.readouterr().out


@pytest.mark.parametrize("number", [0, 2])
def test_a_step_can_be_chosen(tmp_path: Path, number: int, capsys: pytest.CaptureFixture[str]) -> None:
    script = SCRIPTS / "healthy" / "classifier.py"
    assert main(["explore", "--check", "--step", str(number), str(script)]) == 0
    capsys.readouterr()


def test_other_commands_start_without_the_explorer() -> None:
    code = "import sys, wengert.cli; print(any(m.startswith('wengert.explorer') for m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_alone_it_opens_a_lesson(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert main(["explore"]) == 0
    out = capsys.readouterr().out
    assert "lesson.py · loss(x, t): 9 nodes, 4 operations, 4 steps back" in out
    page = Path(out.split("wrote ")[1].strip())
    assert opened == [page.as_uri()]
    # Several lessons, by name, of one script.
    text = page.read_text(encoding="utf-8")
    assert re.findall(r'data-name="([^"]+)"', text.partition("application/wengert-part")[0]) == [
        "One loss, step by step",
        "Three neurons, side by side",
    ]
    # The script beside it is the reader's to change.
    ran = subprocess.run([sys.executable, "lesson.py"], cwd=page.parent, check=True, capture_output=True)
    assert (ran.stdout, ran.stderr) == (b"", b"")


def test_alone_there_is_nothing_to_check(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", "--check"]) == 2
    assert "there is no script to check" in capsys.readouterr().err


@pytest.mark.parametrize("option", [["--check"], ["--save", "page.html"], ["--step", "0"], ["--seed", "0"]])
@pytest.mark.parametrize("behind", [False, True])
def test_a_folder_of_runs_is_only_shown(
    option: list[str],
    behind: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("wengert.explorer.server.serve", lambda _: pytest.fail("it was served"))
    with pytest.raises(SystemExit) as e:
        main(["explore", str(tmp_path), *option] if behind else ["explore", *option, str(tmp_path)])
    assert e.value.code == 2
    assert f"{option[0]} is of a script or a file, and {tmp_path} is a folder" in capsys.readouterr().err


def test_the_demo_names_its_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    assert main(["demo", "--epochs", "1", "--channels", "2", "--out", str(tmp_path), "--open"]) == 0
    page = tmp_path / "step.html"
    assert f"wrote {page}" in capsys.readouterr().out.splitlines()[-1]
    assert "<!doctype html>" in page.read_text(encoding="utf-8")
    assert opened == [page.as_uri()]
