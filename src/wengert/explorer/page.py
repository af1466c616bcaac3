"""The self-contained page: the explorer's script and style, and a document, in a single HTML file.

It opens from a disk with the network off: everything is inside, and its content policy lets nothing in or out. The
script that begins is what a small graph needs. The parts of the page that are asked for later are carried compressed,
as text, and become scripts when they are; the policy names each by its hash.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Mapping
from functools import cache
from html import escape
from importlib import resources
from typing import Any

# The explorer fills the window.
_WHOLE = "html, body, #wengert { height: 100%; margin: 0; }"


@cache
def asset(name: str) -> str:
    """Return a file of the built page, such as `explorer.js`."""
    return resources.files(__package__).joinpath("static", name).read_text(encoding="utf-8")


# The parts that pages by themselves can ask for, of a recording and of the playground; and pages that a kernel answers.
EXPLORING = ("about.js", "help.js", "later.js")
ANSWERED = (*EXPLORING, "server.js")
PLAYING = ("alone.js", "help.js", "playground.js")


@cache
def parts(*asked: str) -> tuple[str, ...]:
    """Return the files of parts, with those that they need; all there are for none."""
    needs: dict[str, list[str]] = json.loads(asset("parts.json"))
    found: list[str] = []
    waiting = list(asked or needs)
    while waiting:
        name = waiting.pop(0)
        if name not in found:
            found.append(name)
            waiting += needs[name]
    return tuple(sorted(found))


@cache
def _carried(name: str) -> str:
    """Return a part as a page carries it."""
    text = base64.b64encode(gzip.compress(asset(name).encode(), 9, mtime=0)).decode("ascii")
    return f'<script type="application/wengert-part" data-name="{name}">{text}</script>\n'


def packed(document: Mapping[str, Any]) -> str:
    """Return a document as a page carries it: JSON, gzipped (the same bytes every time), in base64."""
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return base64.b64encode(gzip.compress(_encodable(text).encode(), 9, mtime=0)).decode("ascii")


def _encodable(text: str) -> str:
    """Return a text with signs for what UTF-8 cannot say: bytes of a file's name that are no characters."""
    return text.encode("utf-8", "replace").decode("utf-8")


def page(document: Mapping[str, Any]) -> str:
    """Return the HTML page that shows a document by itself, from a file, without a network."""
    return shelf({"": document})


def shelf(documents: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the HTML page that shows several documents, the first at first, the others by their names."""
    meta = next(iter(documents.values()))["meta"]
    title = " · ".join(part for part in (meta["script"], meta["title"], "wengert") if part)
    carried = [_trace(name, made) for name, made in documents.items()]
    return _whole(_encodable(title), EXPLORING, "".join(carried))


def _trace(name: str, document: Mapping[str, Any]) -> str:
    """Return a document as an element of a page, with its name where it has one."""
    called = f' data-name="{escape(name)}"' if name else ""
    return f'<script type="application/wengert-trace"{called}>{packed(document)}</script>\n'


def playground_page() -> str:
    """Return the playground as an HTML page by itself, in which the same experiments run without Python."""
    return _whole("playground · wengert", PLAYING, '<meta name="wengert-page" content="playground">\n')


def _whole(title: str, asked: tuple[str, ...], carried: str) -> str:
    # Inside a script element nothing may look like its end.
    script = asset("explorer.js").replace("</script", "<\\/script")
    names = parts(*asked)
    hashes = " ".join(f"'sha256-{_digest(text)}'" for text in (script, *map(asset, names)))
    policy = (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; "
        "img-src data: blob:; worker-src blob:; base-uri 'none'; form-action 'none'"
    )
    return "".join(
        (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
            f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">\n',
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
            f"<title>{escape(title)}</title>\n",
            f"<style>{_WHOLE}\n{asset('explorer.css')}</style>\n</head>\n<body>\n",
            '<div id="wengert"><noscript>This page draws a computational graph with JavaScript.</noscript></div>\n',
            carried,
            *map(_carried, names),
            f'<script type="module">{script}</script>\n</body>\n</html>\n',
        )
    )


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
