"""The context report as a picture: SVG, written by hand, no plotting library.

Owns: the bar chart. Never imports anything but the report.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from xml.sax.saxutils import escape

from armory.evaluation.context import ContextReport

_WIDTH, _LEFT, _RIGHT, _BAR, _GAP, _TOP = 760, 230, 150, 26, 14, 64
_FULL, _LESS, _TOON = "#8a8f98", "#2b6cb0", "#2f855a"


def svg(report: ContextReport, title: str = "Tokens of tool definitions in the prompt") -> str:
    """Mean tokens a prompt for every way of listing, as one SVG document."""
    bars: list[tuple[str, float, str]] = [
        ("every tool, JSON", report.full, _FULL),
        ("every tool, TOON", report.full_toon, _FULL),
    ]
    for way, label, colour in (
        ("filtered", "filtered list", _LESS),
        ("filtered_toon", "filtered list, TOON", _TOON),
        ("searched", "search_tools, one round trip", _LESS),
        ("searched_toon", "the same, answer as TOON", _TOON),
    ):
        values = report.values(way)
        if values is None:
            continue
        bars.append((label, fmean(values) if values else 0.0, colour))
    return _draw(title, f"{report.tools} tools, mean of {len(report.queries)} queries", bars)


def _draw(title: str, subtitle: str, bars: Sequence[tuple[str, float, str]]) -> str:
    top = max((value for _, value, _ in bars), default=0.0) or 1.0
    height = _TOP + len(bars) * (_BAR + _GAP) + 10
    room = _WIDTH - _LEFT - _RIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        f'width="{_WIDTH}" height="{height}" font-family="sans-serif" font-size="14">',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        f'<text x="16" y="26" font-size="17" font-weight="bold">{escape(title)}</text>',
        f'<text x="16" y="46" fill="#555">{escape(subtitle)}</text>',
    ]
    first = bars[0][1] if bars else 0.0
    for number, (label, value, colour) in enumerate(bars):
        y = _TOP + number * (_BAR + _GAP)
        width = max(1.0, room * value / top)
        share = f" ({value / first - 1:+.1%})" if first and number else ""
        parts.append(
            f'<text x="{_LEFT - 10}" y="{y + 18}" text-anchor="end">{escape(label)}</text>'
            f'<rect x="{_LEFT}" y="{y}" width="{width:.1f}" height="{_BAR}" fill="{colour}"/>'
            f'<text x="{_LEFT + width + 8:.1f}" y="{y + 18}">{value:,.0f}{share}</text>'
        )
    return "\n".join([*parts, "</svg>", ""])
