"""What the course's pages have besides text: live explorers, exercises, formulas, and pieces of example files.

A hook of MkDocs; `tests/project/test_course.py` reads pages with it.

A `python` block with `explore="HEIGHT"` among its options is run when the site is built. What its last expression
gives, an exploration, stands below it as a page of its own, in a frame so many pixels high. Names that earlier blocks
of the page made are there, and the files of `examples/` can be imported. `at="tab=tape&t=3"` says where the explorer
opens: the part of its address behind `#`.

An `exercise` block is a question in Markdown, then lines of the form `key: value`:

* `answer`: a number, or the right one of the `choices` (separated by `|`);
* `check`: an expression that gives the answer, which the tests evaluate in the page's names;
* `because`: why.

`$x_1^2$` is a small formula, in text and in exercises.

An `include` block with `file="PATH"` among its options names definitions of that file, one to a line; what stands below
it is their code. A file is cut where definitions begin, so that its pieces are the whole file.
"""

from __future__ import annotations

import ast
import contextlib
import html
import io
import linecache
import posixpath
import re
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^```(?P<info>python[^\n]*|include[^\n]*|exercise)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
OPTION = re.compile(r'\s*(\w+)="([^"]*)"')
CODE = re.compile(r"^```.*?^```$|`[^`\n]+`|\$(?P<formula>[^$\n]+)\$", re.MULTILINE | re.DOTALL)
KEYS = ("answer", "check", "because", "choices")
# Where the explorers' pages lie in the site.
LIVE = "course/live"
# Where the playground without Python lies.
PLAYGROUND = "playground/live.html"


# -- exercises


@dataclass(frozen=True)
class Exercise:
    """A question with an answer that can be checked."""

    question: str
    answer: str
    check: str
    because: str
    choices: tuple[str, ...]

    @property
    def number(self) -> float | None:
        """The answer as a number; None where it is one of the choices."""
        return None if self.choices else float(self.answer)


def exercise(body: str) -> Exercise:
    """The exercise that a block describes."""
    given: dict[str, str] = {}
    question = []
    for line in body.splitlines():
        key, _, value = line.partition(": ")
        if key in KEYS:
            given[key] = value.strip()
        else:
            question.append(line)
    text = "\n".join(question).strip()
    lacking = [key for key in ("answer", "check") if not given.get(key)]
    if lacking or not text:
        raise ValueError(f"an exercise without {lacking[0] if lacking else 'a question'}: {body!r}")
    choices = tuple(c.strip() for c in given["choices"].split("|")) if "choices" in given else ()
    made = Exercise(text, given["answer"], given["check"], given.get("because", ""), choices)
    if choices and made.answer not in choices:
        raise ValueError(f"{made.answer!r} is not among the choices of {text!r}")
    if not choices:
        float(made.answer)
    return made


def form(asked: Exercise) -> str:
    """An exercise as HTML around Markdown; without scripts its answer can still be opened."""
    shown = html.escape(asked.answer)
    why = with_formulas(asked.because)
    if asked.choices:
        labels = "".join(
            f'<label><input type="radio" name="answer" value="{html.escape(c)}"> {html.escape(c)}</label>'
            for c in asked.choices
        )
        field = f'<span class="wg-choices" role="radiogroup" aria-label="Answer">{labels}</span>'
    else:
        field = '<label>Answer <input type="text" inputmode="decimal" name="answer" autocomplete="off"></label>'
        why += f"\n\nIn Python: `{asked.check}`"
    return "\n".join(
        (
            '<div class="wg-exercise" markdown>',
            f'<p class="wg-exercise-title">Exercise</p>\n\n{with_formulas(asked.question)}\n',
            f'<form data-answer="{shown}">{field} <button type="submit">Check</button> <output></output></form>\n',
            f"<details markdown><summary>Answer</summary>\n\n**{asked.answer}.** {why}\n\n</details>",
            "</div>\n",
        )
    )


# -- formulas


# Fonts for formulas draw a root sign that waits for its bar; one for text does without.
UPRIGHT = {"<": "&lt;", ">": "&gt;", "&": "&amp;", "√": '<span class="wg-root">√</span>'}


def formula(written: str) -> str:
    """A formula as HTML: `x_1` and `x^2` set lower and higher, single letters slanted, names of functions upright."""
    plain = written.replace("-", "−").replace("*", "·")
    text = re.sub(
        r"[a-z]{3,}|[^\W\d_]|[<>&√]",
        lambda m: f"<i>{m[0]}</i>" if len(m[0]) == 1 and m[0].isalpha() else UPRIGHT.get(m[0], m[0]),
        plain,
    )
    for sign, tag in (("_", "sub"), ("^", "sup")):
        text = re.sub(rf"\{sign}(?:\{{([^}}]*)\}}|(<i>.</i>|.))", lambda m, t=tag: f"<{t}>{m[1] or m[2]}</{t}>", text)
    return f'<span class="wg-math">{text}</span>'


def with_formulas(markdown: str) -> str:
    """Markdown whose `$...$` are formulas; what is code stays."""
    return CODE.sub(lambda m: m[0] if m["formula"] is None else formula(m["formula"]), markdown)


# -- pieces of files


def pieces(text: str) -> dict[str, str]:
    """A Python file cut where its functions, classes and methods begin: name to code, in order, the head being ''."""
    lines = text.splitlines(keepends=True)
    starts = [("", 1), *_definitions(ast.parse(text).body, "")]
    ends = [start for _, start in starts[1:]] + [len(lines) + 1]
    return {name: "".join(lines[start - 1 : end - 1]) for (name, start), end in zip(starts, ends, strict=True)}


def _definitions(body: list[ast.stmt], within: str) -> Iterator[tuple[str, int]]:
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield within + node.name, min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if isinstance(node, ast.ClassDef):
                yield from _definitions(node.body, f"{node.name}.")


def included(file: str, body: str) -> str:
    """The code of the named pieces, as a block; methods without the head of their class stand at the margin."""
    known = pieces((ROOT / file).read_text(encoding="utf-8"))
    names = body.split()
    code = ""
    for name in names:
        piece = known["" if name == "head" else name]
        outer = name.rpartition(".")[0]
        code += piece if outer in names else textwrap.dedent(piece)
    return f'```python title="{posixpath.basename(file)}"\n{code.strip()}\n```'


# -- programs


@dataclass(frozen=True)
class Block:
    """A fenced block of a page: its language, options and text."""

    language: str
    options: dict[str, str]
    body: str

    @classmethod
    def of(cls, match: re.Match[str]) -> Block:
        """The block that was found."""
        return cls(match["info"].split()[0], dict(OPTION.findall(match["info"])), match["body"])


def blocks(text: str) -> list[Block]:
    """The blocks of a page that this module knows."""
    return [Block.of(match) for match in FENCE.finditer(text)]


def exercises(text: str) -> list[Exercise]:
    """All exercises of a page."""
    return [exercise(block.body) for block in blocks(text) if block.language == "exercise"]


class Program:
    """The `python` blocks of a page, run one after the other with names in common."""

    def __init__(self, stem: str) -> None:
        self.stem = stem
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.count = 0

    def run(self, block: Block) -> Any:
        """Run a block as a file of its own; the value of its last line, where that is an expression."""
        self.count += 1
        file = block.options.get("title", f"{self.stem}.py" if self.count == 1 else f"{self.stem}-{self.count}.py")
        linecache.cache[file] = (len(block.body), None, block.body.splitlines(keepends=True), file)
        tree = ast.parse(block.body, file)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        with contextlib.redirect_stdout(io.StringIO()), _examples_importable():
            exec(compile(tree, file, "exec"), self.names)
            if isinstance(last, ast.Expr):
                return eval(compile(ast.Expression(last.value), file, "eval"), self.names)
        return None


@contextlib.contextmanager
def _examples_importable() -> Iterator[None]:
    folder = str(ROOT / "examples")
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


def rendered(markdown: str, url: str, stem: str) -> tuple[str, dict[str, str]]:
    """A page with its blocks replaced, and the explorers' pages by their place in the site."""
    program = Program(stem)
    made: dict[str, str] = {}

    def replaced(match: re.Match[str]) -> str:
        block = Block.of(match)
        if block.language == "exercise":
            return form(exercise(block.body))
        if block.language == "include":
            return included(block.options["file"], block.body)
        value = program.run(block)
        if "explore" not in block.options:
            return match[0]
        place = f"{LIVE}/{stem}-{len(made) + 1}.html"
        made[place] = value.to_html()
        title = f' title="{block.options["title"]}"' if "title" in block.options else ""
        return f"```python{title}\n{block.body}```\n\n{_frame(posixpath.relpath(place, url), block)}"

    return FENCE.sub(replaced, with_formulas(markdown)), made


def _frame(address: str, block: Block) -> str:
    at = html.escape(f"#{block.options['at']}") if "at" in block.options else ""
    return (
        f'<div class="wg-live">\n<iframe src="{address}{at}" height="{block.options["explore"]}" loading="lazy" '
        'title="The explorer, showing this program"></iframe>\n'
        f'<p><a href="{address}{at}" target="_blank" rel="noopener">Open it in a window of its own</a></p>\n</div>\n'
    )


def on_post_build(config: Any) -> None:
    """Called by MkDocs at the end: the playground that runs without Python is a page of its own."""
    target = Path(config["site_dir"], PLAYGROUND)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(import_module("wengert.explorer.page").playground_page(), encoding="utf-8")


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Called by MkDocs for every page."""
    source = page.file.src_uri
    if not (source.startswith("course/") or (source.startswith("tutorials/") and 'explore="' in markdown)):
        return markdown
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):  # programs may write files
        text, made = rendered(markdown, page.url, Path(source).stem)
    for place, content in made.items():
        target = Path(config["site_dir"], place)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content, encoding="utf-8")
    return text
