"""Curves of numbers over epochs, as SVG: what a notebook shows of a training run, without another library."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

from symjax_nnvm.drawing.text_width import FAMILY, text_width

_COLOURS = ("#2f88c8", "#f07400", "#2ca02c", "#e04344")
_GREY = "#777"
"""Of all else: as far from white as from black, as the curves are."""

_WIDTH, _HEIGHT, _LEFT, _EDGE, _FONT = 340, 200, 62, 26, 11.0


def curves_svg(title: str, curves: Mapping[str, Sequence[float]]) -> str:
    """Draw curves by name, element i at epoch i, with the names below. Numbers that are not finite are gaps."""
    finite = [value for values in curves.values() for value in values if math.isfinite(value)]
    low, high = (min(finite), max(finite)) if finite else (0.0, 1.0)
    last = max(max((len(values) for values in curves.values()), default=1) - 1, 1)
    across, down = _WIDTH - _LEFT - _EDGE, _HEIGHT - 2 * _EDGE

    def point(epoch: int, value: float) -> tuple[float, float]:
        share = (value - low) / (high - low) if high > low else 0.5
        return round(_LEFT + across * epoch / last, 1), round(_EDGE + down * (1 - share), 1)

    parts = [
        f'<rect x="{_LEFT}" y="{_EDGE}" width="{across}" height="{down}" fill="none" stroke="{_GREY}"/>',
        _text(_WIDTH / 2, 16, title, "middle"),
        *(_text(_LEFT - 5, point(0, value)[1] + 4, f"{value:.4g}", "end") for value in dict.fromkeys((low, high))),
        _text(_LEFT, _HEIGHT - 10, "0", "middle"),
        _text(_WIDTH - _EDGE, _HEIGHT - 10, f"epoch {last}", "end"),
    ]
    beside = _LEFT + 20.0
    for i, (name, values) in enumerate(curves.items()):
        colour = _COLOURS[i % len(_COLOURS)]
        points = [point(epoch, value) if math.isfinite(value) else None for epoch, value in enumerate(values)]
        line = "".join(
            f"{'M' if not epoch or points[epoch - 1] is None else 'L'}{point[0]} {point[1]}"
            for epoch, point in enumerate(points)
            if point is not None
        )
        parts.append(f'<path d="{line}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        parts += [f'<circle cx="{p[0]}" cy="{p[1]}" r="2" fill="{colour}"/>' for p in points if p is not None]
        parts.append(_text(beside, _HEIGHT - 10, name, "start", colour))
        beside += text_width(name, _FONT) + 12
    size = f'width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}"'
    font = f'font-family="{FAMILY}" font-size="{_FONT:g}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font}>{"".join(parts)}</svg>'


def _text(x: float, y: float, text: str, anchor: str, colour: str = _GREY) -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'
