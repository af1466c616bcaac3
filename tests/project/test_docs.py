"""The documentation is true: its examples run, its commands are the tested ones, its generated parts are current."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import importlib.util
import io
import linecache
import os
import pkgutil
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import wengert as wg
from wengert.cli import parser
from wengert.core.ops.declare import METHODS, PUBLIC
from wengert.core.ops.op import TABLE

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
CHECKER = doctest.OutputChecker()


# -- the package's own examples


# What examples need that the tests do not: without it they are skipped.
NEEDS = {
    "wengert.interop.einops": "einops",
    "wengert.interop.jax": "jax",
    "wengert.interop.nutpie": "nutpie",
    "wengert.interop.onnx": "onnx",
    "wengert.interop.pymc": "pymc",
    "wengert.interop.pytensor": "pytensor",
    "wengert.interop.sklearn": "sklearn",
    "accelerators.md": "jax",
    "c-callers.md": "scipy",
    "deployer.md": "onnx",
    "onnx.md": "onnx",
    "scientist.md": "scipy",
    "scikit-learn.md": "sklearn",
    "scipy.md": "scipy",
}


# Programs that pages run.
TOOLS = {"deploy.md": "cc"}


def needed(name: str) -> str:
    """The package that a page, a module or the package around it needs; "" for none."""
    return next((extra for of, extra in NEEDS.items() if name == of or name.startswith(f"{of}.")), "")


def lacks(name: str) -> bool:
    """Whether a module needs what is not installed."""
    return bool(needed(name)) and importlib.util.find_spec(needed(name)) is None


def modules() -> list[str]:
    found = pkgutil.walk_packages(wg.__path__, "wengert.")
    return ["wengert", *(m.name for m in found if not m.name.endswith("__main__"))]


def has_examples(name: str) -> bool:
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    return ">>>" in Path(spec.origin).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [name for name in modules() if has_examples(name)])
def test_docstrings(name: str) -> None:
    if needed(name):
        pytest.importorskip(needed(name))
    module = importlib.import_module(name)
    wg.manual_seed(0)
    result = doctest.testmod(module, optionflags=FLAGS, exclude_empty=True)
    assert result.attempted > 0
    assert result.failed == 0


def test_no_examples_are_left_out() -> None:
    """Modules whose text shows none have none: also not in docstrings that were put together when they were loaded."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    others = [name for name in modules() if not lacks(name) and not has_examples(name)]
    assert others
    missed = [test.name for name in others for test in finder.find(importlib.import_module(name)) if test.examples]
    assert missed == []


def test_public_functions_have_examples_or_summaries() -> None:
    bare = [
        name for name in wg.__all__ if callable(getattr(wg, name)) and not (getattr(wg, name).__doc__ or "").strip()
    ]
    assert bare == []


# -- the pages' examples


@dataclass
class Block:
    """A fenced code block: its language, title and options, text, and line in the page."""

    language: str
    options: str
    line: int
    lines: list[str] = field(default_factory=list)
    follows: Block | None = None

    @property
    def text(self) -> str:
        return "".join(self.lines)

    @property
    def title(self) -> str:
        found = re.search(r'title="([^"]+)"', self.options)
        return found[1] if found else ""


def blocks(page: Path) -> Iterator[Block]:
    """The page's fenced blocks; `follows` is the block before, where only blank lines lie between."""
    open_block: Block | None = None
    last: Block | None = None
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(keepends=True), 1):
        fence = re.match(r"```+\s*(\w*)(.*)", line)
        if open_block is not None:
            if fence:
                yield open_block
                last, open_block = open_block, None
            else:
                open_block.lines.append(line)
        elif fence:
            open_block, last = Block(fence[1], fence[2], number, follows=last), None
        elif line.strip():
            last = None
    assert open_block is None, f"{page.name}: the block at line {open_block and open_block.line} is not closed"


def run_program(block: Block, page: Path, names: dict[str, Any]) -> str:
    """Run a block as a file of its own, so that places in the output are lines of the block."""
    file = block.title or f"{page.name}:{block.line}"
    linecache.cache[file] = (len(block.text), None, block.lines, file)
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out):
            exec(compile(block.text, file, "exec"), names)
    finally:
        linecache.cache.pop(file, None)
    return out.getvalue()


def run_session(block: Block, page: Path, names: dict[str, Any]) -> str:
    """Run a session (`>>>`); returns what differs, as text."""
    report = io.StringIO()
    # A name for each block: doctest looks lines up by it, also those of nodes that an earlier block made.
    name = f"{page.name}:{block.line}"
    test = doctest.DocTestParser().get_doctest(block.text, names, name, str(page), block.line)
    doctest.DocTestRunner(optionflags=FLAGS).run(test, out=report.write, clear_globs=False)
    names.update(test.globs)
    return report.getvalue()


@pytest.fixture
def op_table() -> Iterator[None]:
    """Ops that a page declares leave with it."""
    before = [(table, dict(table)) for table in (TABLE, PUBLIC, METHODS)]
    yield
    for table, entries in before:
        table.clear()
        table.update(entries)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
@pytest.mark.usefixtures("op_table")
def test_examples(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`pycon` blocks are sessions; `python` blocks are programs, and a `text` block right after one is its output."""
    if needed(page.name):
        pytest.importorskip(needed(page.name))
    if page.name in TOOLS and shutil.which(TOOLS[page.name]) is None:
        pytest.skip(f"{TOOLS[page.name]} is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(ROOT / "examples")
    wg.manual_seed(0)
    names: dict[str, Any] = {"__name__": "__main__"}
    printed: dict[int, str] = {}
    for block in blocks(page):
        if block.language == "pycon":
            assert run_session(block, page, names) == ""
        elif block.language == "python":
            printed[block.line] = run_program(block, page, names)
        elif block.language == "text":
            assert block.follows is not None, f"{page.name}:{block.line}: output of no program"
            got = printed[block.follows.line]
            assert CHECKER.check_output(block.text, got, FLAGS), (
                f"{page.name}:{block.line} says\n{block.text}\nnot\n{got}"
            )


def test_the_extractor_catches_a_wrong_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {
        "session": "```pycon\n>>> 1 + 1\n3\n```\n",
        "output": "```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n",
    }
    for name, text in wrong.items():
        page = tmp_path / f"{name}.md"
        page.write_text(text)
        with pytest.raises(AssertionError):
            test_examples(page, tmp_path, monkeypatch)


# -- the README's commands


def between(marker: str) -> list[str]:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.findall(rf"<!-- {marker} -->\n(.*?)<!-- /{marker} -->", text, re.DOTALL)
    assert len(found) == 1, f"README.md needs one {marker} block"
    return [line for line in found[0].splitlines() if line.strip() and not line.startswith("```")]


def commands(line: str) -> list[list[str]]:
    """The words of each command of a shell line joined by &&."""
    return [shlex.split(part) for part in line.split("&&")]


def test_main_job_is_one_line_that_installs_and_runs_it() -> None:
    (line,) = between("demo")
    make, install, run = commands(line)
    assert make[1:3] == ["-m", "venv"]
    folder = Path(make[3])
    assert Path(install[0]) == folder / "bin/pip"
    assert install[1:] == ["install", "."]
    assert Path(run[0]) == folder / "bin/wengert"
    assert run[1:] == ["demo"]


def test_test_command_is_one_line_that_installs_and_tests() -> None:
    (line,) = between("tests")
    *_, install, run = commands(line)
    assert install[-3:] == ["install", "-e", ".[test]"]
    assert Path(run[0]).name == "pytest"


def test_continuous_integration_runs_the_readmes_test_command() -> None:
    """The very lines of `.ci/run` that read the README give the README's command."""
    script = (ROOT / ".ci" / "run").read_text()
    reading = re.search(r"^readme_tests=.*$", script, re.MULTILINE)
    assert reading is not None
    assert '"$python" -c "$begin" "$venv/copy" "$readme_tests"' in script
    shell = subprocess.run(
        ["bash", "-euc", f'{reading[0]}\nprintf %s "$readme_tests"'],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert shell.stdout.strip() == "\n".join(between("tests"))


# -- the site


def navigation() -> list[str]:
    return re.findall(r"^\s*- (?:.+: )?(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)


def test_navigation_and_pages_agree() -> None:
    pages = (ROOT / "docs").rglob("*.md")
    assert sorted(navigation()) == sorted(p.relative_to(ROOT / "docs").as_posix() for p in pages)


def test_index_links_every_page() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    assert [page for page in navigation() if page != "index.md" and f"({page})" not in index] == []


def test_the_dependencies_that_pages_name_are_the_packages() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        names = [re.split(r"[<>=~!\[ ]", entry)[0] for entry in tomllib.load(file)["project"]["dependencies"]]
    told = {
        "README.md": r"It needs (.+?), and no C\s+compiler",
        "docs/quickstart.md": r"The dependencies are (.+?), which",
    }
    for page, pattern in told.items():
        found = re.search(pattern, (ROOT / page).read_text(encoding="utf-8"))
        assert found is not None, page
        assert sorted(re.split(r", | and ", found[1].lower())) == sorted(names)
    row = re.search(r"^\| Needs \| (.+?) \|", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert row is not None
    assert sorted(row[1].lower().split(", ")) == sorted(names)


def test_links_between_files_exist() -> None:
    broken = []
    for page in [*PAGES, ROOT / "CHANGELOG.md"]:
        text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
            if "://" not in target and not (page.parent / target).exists():
                broken.append(f"{page.name}: {target}")
    assert broken == []


def test_generated_files_are_up_to_date() -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "scripts/generate.py", "--check"],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def documented_options(command: str) -> dict[str, str]:
    """Return the options in a command's section of the command-line page, with their defaults."""
    text = (ROOT / "docs" / "command-line.md").read_text()
    section = text.partition(f"\n## wengert {command}\n")[2].partition("\n## ")[0]
    return dict(re.findall(r"^\| `(--\w+)(?: [\w=]+)?` \| ?`?([^`|]*?)`? ?\|", section, re.MULTILINE))


def test_the_options_of_export_are_the_parsers() -> None:
    given = vars(parser().parse_args(["export", "model.onnx", "--to", "model"]))
    documented = documented_options("export")
    assert {name.removeprefix("--") for name in documented} <= {*given}
    assert {*given} - {"command", "run", "file", "out", "to", "opset"} == {n.removeprefix("--") for n in documented}
    assert documented["--target"] == given["target"]


def test_the_demos_options_are_the_parsers() -> None:
    """The table of options on the command-line page, against the command line's own grammar."""
    documented = documented_options("demo")
    demo = parser().parse_args(["demo"])
    given = {k: v for k, v in vars(demo).items() if k not in ("command", "run")}
    actual = {f"--{k}": "off" if v is False else str(v) for k, v in given.items()}
    assert documented == actual


# -- the changelog


def test_fragments_of_the_changelog_are_of_a_kind_that_it_has() -> None:
    """A file of `changelog.d` is called NAME.KIND.md and holds text: towncrier takes no notice of any other."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        kinds = [kind["directory"] for kind in tomllib.load(file)["tool"]["towncrier"]["type"]]
    fragments = [p for p in (ROOT / "changelog.d").iterdir() if p.name != ".gitignore"]
    assert [p.name for p in fragments if not re.fullmatch(rf"[\w-]+\.({'|'.join(kinds)})\.md", p.name)] == []
    assert [p.name for p in fragments if not p.read_text(encoding="utf-8").strip()] == []


def test_the_versions_that_files_name_are_the_packages() -> None:
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (.+)$", text, re.MULTILINE)[1] == wg.__version__  # type: ignore[index]
    assert f"\n## {wg.__version__} (" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
