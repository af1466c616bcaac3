"""Timelines of memory as SVG pictures that need nothing else and follow the reader's light or dark scheme."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from ..report import size

_WIDTH, _HEIGHT = 720.0, 260.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 70.0, 16.0, 34.0, 30.0
_TICKS = 4
# More moments than this are drawn as the largest of each bundle.
_COLUMNS = 600
_STYLE = (
    ".wengert-memory{font:11px system-ui,sans-serif}.wengert-memory .paper{fill:#fff}"
    ".wengert-memory text{fill:#3c4048}.wengert-memory .held{fill:#2f7fd1;fill-opacity:.35}"
    ".wengert-memory .saved{fill:#c96a12;fill-opacity:.75}.wengert-memory .grid{stroke:#85888f;stroke-opacity:.3}"
    ".wengert-memory .peak{stroke:#b3261e;stroke-width:1.5}"
    "@media (prefers-color-scheme:dark){.wengert-memory .paper{fill:#0f1117}.wengert-memory text{fill:#d5d8df}}"
)


def timeline(held: Sequence[int], saved: Sequence[int], turn: int, peak: int, names: Sequence[str], title: str) -> str:
    """Draw two areas over the moments: all that is held, and of it what is saved for the backward pass.

    `turn` is where the backward pass starts, `peak` the moment to mark; `names` are shown when pointed at.
    """
    count = max(len(held), 1)
    top = max(held, default=0) or 1
    across, up = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def x(i: float) -> float:
        return _LEFT + across * i / count

    def y(amount: float) -> float:
        return _TOP + up * (1 - amount / top)

    bundle = -(-count // _COLUMNS)
    starts = range(0, len(held), bundle)

    def area(values: Sequence[int], name: str) -> str:
        points = [f"M{x(0):.1f} {y(0):.1f}"]
        for i in starts:
            level = y(max(values[i : i + bundle]))
            points.append(f"L{x(i):.1f} {level:.1f}L{x(min(i + bundle, count)):.1f} {level:.1f}")
        return f'<path class="{name}" d="{"".join(points)}L{x(count):.1f} {y(0):.1f}z"/>'

    grid = "".join(
        f'<path class="grid" d="M{_LEFT} {y(top * t / _TICKS):.1f}h{across}"/>'
        f'<text x="{_LEFT - 6}" y="{y(top * t / _TICKS) + 4:.1f}" text-anchor="end">{size(top * t // _TICKS)}</text>'
        for t in range(_TICKS + 1)
    )
    tips = "".join(
        f'<rect x="{x(i):.1f}" y="{_TOP}" width="{max(across * bundle / count, 0.5):.1f}" height="{up}" '
        f'fill="transparent"><title>{escape(names[max(range(i, min(i + bundle, len(held))), key=held.__getitem__)])}'
        "</title></rect>"
        for i in starts
    )
    marks = (
        f'<path class="grid" d="M{x(turn):.1f} {_TOP}v{up}"/>'
        f'<text x="{x(turn / 2):.1f}" y="{_HEIGHT - 10}" text-anchor="middle">forward</text>'
        f'<text x="{x((turn + count) / 2):.1f}" y="{_HEIGHT - 10}" text-anchor="middle">backward</text>'
        f'<path class="peak" d="M{x(peak + 0.5):.1f} {_TOP - 5}v{up + 5}"/>'
        f'<text x="{_LEFT}" y="16">{escape(title)}</text>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="wengert-memory" role="img" viewBox="0 0 {_WIDTH:.0f} '
        f'{_HEIGHT:.0f}" width="{_WIDTH:.0f}" height="{_HEIGHT:.0f}" style="max-width:100%;height:auto">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style>"
        f'<rect class="paper" width="{_WIDTH:.0f}" height="{_HEIGHT:.0f}" rx="8"/>'
        f"{grid}{area(held, 'held')}{area(saved, 'saved')}{marks}{tips}</svg>\n"
    )
