"""What the course's pages have besides text: live explorers, and exercises. A hook of MkDocs; the tests read pages with it.

A `python` block with `explore="HEIGHT"` among its options is run when the site is built. What its last expression
gives, an exploration, stands below it as a page of its own, in a frame so many pixels high. Names that earlier blocks of
the page made are there.

An `exercise` block is a question in Markdown, then lines of the form `key: value`:

* `answer`: a number, or the right one of the `choices` (separated by `|`);
* `check`: an expression that gives the answer, which the tests evaluate in the page's names;
* `because`: why.
"""

from __future__ import annotations

import ast
import html
import linecache
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FENCE = re.compile(r"^```(?P<info>python[^\n]*|exercise)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
EXPLORE = re.compile(r'\s*explore="(\d+)"')
KEYS = ("answer", "check", "because", "choices")


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
    choices = tuple(c.strip() for c in given["choices"].split("|")) if "choices" in given else ()
    made = Exercise("\n".join(question).strip(), given["answer"], given["check"], given.get("because", ""), choices)
    if choices and made.answer not in choices:
        raise ValueError(f"{made.answer!r} is not among the choices of {made.question!r}")
    return made


def exercises(text: str) -> list[Exercise]:
    """All exercises of a page."""
    return [exercise(m["body"]) for m in FENCE.finditer(text) if m["info"] == "exercise"]


def run(body: str, file: str, names: dict[str, Any]) -> Any:
    """Run a block as a file of its own; the value of its last line, where that is an expression."""
    linecache.cache[file] = (len(body), None, body.splitlines(keepends=True), file)
    tree = ast.parse(body, file)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, file, "exec"), names)
    return eval(compile(ast.Expression(last.value), file, "eval"), names) if isinstance(last, ast.Expr) else None


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Called by MkDocs for every page."""
    if not page.file.src_uri.startswith("course/"):
        return markdown
    names: dict[str, Any] = {"__name__": "__main__"}
    count = 0
    folder = Path(config["site_dir"]) / "course" / "live"
    stem = Path(page.file.src_uri).stem

    def replaced(match: re.Match[str]) -> str:
        nonlocal count
        info, body = match["info"], match["body"]
        if info == "exercise":
            return form(exercise(body))
        wanted = EXPLORE.search(info)
        titled = re.search(r'title="([^"]+)"', info)
        value = run(body, titled[1] if titled else f"{stem}.py", names)
        if wanted is None:
            return match[0]
        count += 1
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{stem}-{count}.html"
        (folder / name).write_text(value.to_html(), encoding="utf-8")
        shown = f"```{EXPLORE.sub('', info)}\n{body}```"
        # Pages are folders of the site: what lies in course/live is one up.
        frame = (
            f'<iframe class="wg-live" src="../live/{name}" height="{wanted[1]}" loading="lazy" '
            f'title="The explorer, showing this program"></iframe>\n'
            f'<p class="wg-live-link"><a href="../live/{name}">Open it in a window of its own</a></p>'
        )
        return f"{shown}\n\n{frame}\n"

    return FENCE.sub(replaced, markdown)


def form(asked: Exercise) -> str:
    """An exercise as HTML around Markdown; without scripts its answer can still be opened."""
    shown = html.escape(asked.answer)
    if asked.choices:
        field = "".join(
            f'<label><input type="radio" name="answer" value="{html.escape(c)}"> {html.escape(c)}</label> '
            for c in asked.choices
        )
    else:
        field = '<label>Answer <input type="text" inputmode="decimal" name="answer" autocomplete="off"></label> '
    why = f" {asked.because}" if asked.because else ""
    return "\n".join(
        (
            '<div class="wg-exercise" markdown>',
            f'<p class="wg-exercise-title">Exercise</p>\n\n{asked.question}\n',
            f'<form data-answer="{shown}">{field}<button type="submit">Check</button> <output></output></form>\n',
            f'<details markdown><summary>Answer</summary>\n\n{asked.answer}.{why}\n\n</details>',
            "</div>\n",
        )
    )
