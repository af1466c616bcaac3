"""Parts that come again and again are found, whatever stands between them."""

from __future__ import annotations

import pytest

import wengert as wg
from wengert.explorer import explore
from wengert.explorer.recording.repeats import Repeat, repeats


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("xabcabcabcy", [Repeat(1, 3, 3)]),
        ("abcabcab", [Repeat(0, 3, 2)]),
        ("abcabcXdefgdefg", [Repeat(0, 3, 2), Repeat(7, 4, 2)]),
        ("aaaaaaaa", []),
        ("abcdefgh", []),
        ("ababababab", [Repeat(0, 4, 2)]),
        ("", []),
        ("ab", []),
    ],
)
def test_repeats(text: str, found: list[Repeat]) -> None:
    assert repeats(text) == found


def test_a_graph_without_lines_folds_by_its_repeats() -> None:
    def chain(x: object) -> object:
        for _ in range(30):
            x = wg.tanh(wg.exp(wg.sin(x)) * 0.5)
        return wg.sum(x)

    text = str(wg.graph(chain)(wg.spec((2, 3))))
    document = explore(wg.Graph.parse(text)).document
    strings, scopes = document["strings"], document["scopes"]
    blocks = [h for n, h in zip(scopes["name"], scopes["hash"]) if strings[n].startswith("block ")]
    assert len(blocks) == 30
    assert len(set(blocks)) == 1
