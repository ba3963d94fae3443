"""Charts of figures that pages tell, as SVG: drawn from the page's own table, so that both say the same."""

from __future__ import annotations

import re
from math import log2

from tests.support.import_graph import ROOT

_ROW = re.compile(r"^([\w.]+-b\d+(?:-train)?) +([\d,.]+) +([\d,.]+|-) +([\d,.]+) ", re.MULTILINE)
_FASTER, _SLOWER = "#66a61e", "#e6853c"
_BAR, _ROW_HEIGHT, _WIDTH = 14, 20, 360
_CENTRE = 195
"""Where a bar begins, of a time equal to the peer's."""
_OCTAVE = 90
"""The length of a bar for twice or half of the peer's time."""


def zoo_ratios() -> dict[str, float]:
    """Network → our time over that of the faster of MXNet and onnxruntime, the least first, by the table "Whole
    networks" of `docs/reference/benchmarks.md`. Raises ValueError where the page has no such table."""
    text = (ROOT / "docs" / "reference" / "benchmarks.md").read_text(encoding="utf-8")
    ratios: dict[str, float] = {}
    for name, *cells in _ROW.findall(text[text.index("## Whole networks") :]):
        *peers, ours = (float("inf" if cell == "-" else cell.replace(",", "")) for cell in cells)
        ratios.setdefault(name, ours / min(peers))
    if len(ratios) < 5:
        raise ValueError("docs/reference/benchmarks.md has no table of whole networks")
    return dict(sorted(ratios.items(), key=lambda row: row[1]))


def zoo_chart() -> str:
    """A bar for each network from the faster peer's time, to the left where ours is shorter. Narrow enough for a
    telephone; the scale is logarithmic, so that half and twice the time are bars of one length."""
    ratios = zoo_ratios()
    height = 40 + _ROW_HEIGHT * len(ratios)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        'font-family="Helvetica, Arial, sans-serif" font-size="12">',
        "<title>Our time over that of the faster of MXNet 1.9.1 and onnxruntime</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{_CENTRE - 8}" y="16" text-anchor="end">← faster</text>',
        f'<text x="{_CENTRE + 8}" y="16">slower than the peer →</text>',
    ]
    for number, (name, ratio) in enumerate(ratios.items()):
        top, length = 30 + _ROW_HEIGHT * number, round(_OCTAVE * log2(ratio))
        left, colour = _CENTRE + min(length, 0), _SLOWER if ratio > 1 else _FASTER
        parts.append(f'<text x="4" y="{top + 11}">{name}</text>')
        parts.append(f'<rect x="{left}" y="{top}" width="{abs(length)}" height="{_BAR}" fill="{colour}"/>')
        parts.append(f'<text x="{_CENTRE + max(length, 0) + 4}" y="{top + 11}">{ratio:.2f}</text>')
    parts.append(f'<line x1="{_CENTRE}" y1="24" x2="{_CENTRE}" y2="{height - 8}" stroke="black"/>')
    return "\n".join([*parts, "</svg>", ""])
