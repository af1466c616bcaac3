"""The self-contained page: the explorer's script and style, and a document, in a single HTML file.

It opens from a disk with the network off: everything is inside, and its content policy lets nothing in or out.
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


def packed(document: Mapping[str, Any]) -> str:
    """Return a document as a page carries it: JSON, gzipped (the same bytes every time), in base64."""
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return base64.b64encode(gzip.compress(_encodable(text).encode(), 9, mtime=0)).decode("ascii")


def _encodable(text: str) -> str:
    """Return a text with signs for what UTF-8 cannot say: bytes of a file's name that are no characters."""
    return text.encode("utf-8", "replace").decode("utf-8")


def page(document: Mapping[str, Any]) -> str:
    """Return the HTML page that shows a document by itself, from a file, without a network."""
    title = " · ".join(part for part in (document["meta"]["script"], document["meta"]["title"], "wengert") if part)
    carried = f'<script type="application/wengert-trace">{packed(document)}</script>\n'
    return _whole(_encodable(title), "explorer", carried)


def playground_page() -> str:
    """Return the playground as an HTML page by itself, in which the same experiments run without Python."""
    return _whole("playground · wengert", "play")


def _whole(title: str, bundle: str, carried: str = "") -> str:
    # Inside a script element nothing may look like its end.
    script = asset(f"{bundle}.js").replace("</script", "<\\/script")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "img-src data: blob:; worker-src blob:; base-uri 'none'; form-action 'none'"
    )
    return "".join(
        (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
            f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">\n',
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
            f"<title>{escape(title)}</title>\n",
            f"<style>{_WHOLE}\n{asset(f'{bundle}.css')}</style>\n</head>\n<body>\n",
            '<div id="wengert"><noscript>This page draws a computational graph with JavaScript.</noscript></div>\n',
            carried,
            f'<script type="module">{script}</script>\n</body>\n</html>\n',
        )
    )
