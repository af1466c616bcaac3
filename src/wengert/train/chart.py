"""Line charts as SVG, for training curves: a picture without a plotting library."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

# Colours that stay apart for colour-blind readers (Okabe and Ito 2008).
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
_WIDTH, _HEIGHT = 640, 360
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 20, 44, 48


def line_chart(
    series: Mapping[str, Sequence[float] | Sequence[tuple[float, float]]],
    *,
    title: str = "",
    x_label: str = "step",
    y_label: str = "",
    log_y: bool = False,
) -> str:
    """Return an SVG picture of named series.

    Parameters
    ----------
    series: for every name the values (over 0, 1, 2, ...) or (x, y) pairs; points that are not
        finite, or not positive on a logarithmic axis, leave a gap.
    log_y: a logarithmic vertical axis.

    >>> import wengert as wg
    >>> wg.train.line_chart({"loss": [1.0, 0.5, 0.25]}, title="training")[:4]
    '<svg'
    """
    curves = {name: _points(values, log_y) for name, values in series.items()}
    finite = [p for points in curves.values() for p in points if p is not None]
    x_low, x_high = _range([x for x, _ in finite])
    y_low, y_high = _range([y for _, y in finite])
    x_ticks, y_ticks = _ticks(x_low, x_high), _ticks(y_low, y_high)
    y_low, y_high = min(y_low, y_ticks[0]), max(y_high, y_ticks[-1])

    def px(x: float) -> float:
        return _LEFT + (x - x_low) / (x_high - x_low) * (_WIDTH - _LEFT - _RIGHT)

    def py(y: float) -> float:
        return _HEIGHT - _BOTTOM - (y - y_low) / (y_high - y_low) * (_HEIGHT - _TOP - _BOTTOM)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" '
        f'height="{_HEIGHT}" font-family="system-ui, sans-serif" font-size="12" role="img">',
        f"<title>{escape(title or ', '.join(series))}</title>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>',
        f'<text x="{_LEFT}" y="20" font-size="15" font-weight="600" fill="#222">{escape(title)}</text>',
    ]
    for y in y_ticks:
        label = _number(10**y if log_y else y)
        out.append(f'<path d="M{_LEFT} {py(y):.1f}H{_WIDTH - _RIGHT}" stroke="#e4e4e4"/>')
        out.append(f'<text x="{_LEFT - 8}" y="{py(y) + 4:.1f}" text-anchor="end" fill="#555">{label}</text>')
    for x in x_ticks:
        if x_low <= x <= x_high:
            base = _HEIGHT - _BOTTOM
            out.append(f'<path d="M{px(x):.1f} {base}v5" stroke="#888"/>')
            out.append(f'<text x="{px(x):.1f}" y="{base + 19}" text-anchor="middle" fill="#555">{_number(x)}</text>')
    out.append(f'<path d="M{_LEFT} {_HEIGHT - _BOTTOM}H{_WIDTH - _RIGHT}" stroke="#888"/>')
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    out.append(f'<text x="{middle}" y="{_HEIGHT - 10}" text-anchor="middle" fill="#555">{escape(x_label)}</text>')
    if y_label:
        out.append(
            f'<text transform="translate(16 {(_TOP + _HEIGHT - _BOTTOM) / 2}) rotate(-90)" '
            f'text-anchor="middle" fill="#555">{escape(y_label)}</text>'
        )
    for i, (name, points) in enumerate(curves.items()):
        colour = _COLOURS[i % len(_COLOURS)]
        path, pen = [], "M"
        for point in points:
            if point is None:
                pen = "M"
            else:
                path.append(f"{pen}{px(point[0]):.1f} {py(point[1]):.1f}")
                pen = "L"
        out.append(
            f'<path d="{"".join(path)}" fill="none" stroke="{colour}" stroke-width="2" stroke-linejoin="round"/>'
        )
        x = _WIDTH - _RIGHT - 130 * (len(curves) - i)
        out.append(f'<path d="M{x} 30h18" stroke="{colour}" stroke-width="3"/>')
        out.append(f'<text x="{x + 24}" y="34" fill="#222">{escape(name)}</text>')
    out.append("</svg>")
    return "\n".join(out)


def _points(values: Sequence[float] | Sequence[tuple[float, float]], log_y: bool) -> list[tuple[float, float] | None]:
    out: list[tuple[float, float] | None] = []
    for i, value in enumerate(values):
        x, y = value if isinstance(value, tuple) else (float(i), value)
        usable = math.isfinite(x) and math.isfinite(y) and (y > 0 or not log_y)
        out.append((float(x), math.log10(y) if log_y else float(y)) if usable else None)
    return out


def _range(values: list[float]) -> tuple[float, float]:
    if not values:
        return 0.0, 1.0
    low, high = min(values), max(values)
    if low == high:
        pad = abs(low) / 2 or 0.5
        return low - pad, high + pad
    return low, high


def _ticks(low: float, high: float) -> list[float]:
    """Return about five round numbers that cover the range."""
    raw = (high - low) / 5
    unit = 10 ** math.floor(math.log10(raw))
    step = next(unit * m for m in (1, 2, 2.5, 5, 10) if unit * m >= raw * 0.999)
    first = math.floor(low / step + 1e-9)
    last = math.ceil(high / step - 1e-9)
    return [i * step for i in range(first, last + 1)]


def _number(value: float) -> str:
    return f"{value:.4g}"
