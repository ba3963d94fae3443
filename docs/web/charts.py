"""Charts of figures that pages tell, as SVG: drawn from the page's own table, so that both say the same."""

from __future__ import annotations

import re

from tests.support.import_graph import ROOT

_ROW = re.compile(r"^([\w.]+-b\d+(?:-train)?) +([\d,.]+) +([\d,.]+|-) +([\d,.]+) ", re.MULTILINE)
_COLOURS = {"MXNet 1.9.1": "#bbbbbb", "onnxruntime": "#80b1d3", "ours": "#fb8072"}
_BAR, _ROW_HEIGHT, _LEFT, _LONGEST, _WIDTH = 9, 36, 150, 510, 700


def zoo_times() -> dict[str, list[float | None]]:
    """Network → times of MXNet, onnxruntime and ours as parts of MXNet's, by the table "Whole networks" of
    `docs/reference/benchmarks.md`; None where there is none. Raises ValueError where the page has no such table."""
    text = (ROOT / "docs" / "reference" / "benchmarks.md").read_text(encoding="utf-8")
    found: dict[str, list[float | None]] = {}
    for name, *cells in _ROW.findall(text[text.index("## Whole networks") :]):
        times = [None if cell == "-" else float(cell.replace(",", "")) for cell in cells]
        found.setdefault(name, [time and time / float(cells[0].replace(",", "")) for time in times])
    if len(found) < 5:
        raise ValueError("docs/reference/benchmarks.md has no table of whole networks")
    return found


def zoo_chart() -> str:
    """Bars: the times of whole networks, MXNet's as 1."""
    rows = zoo_times()
    unit = _LONGEST / max(time for times in rows.values() for time in times if time is not None)
    height = 40 + _ROW_HEIGHT * len(rows)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        'font-family="Helvetica, Arial, sans-serif" font-size="12">',
        "<title>Time of whole networks as a part of MXNet's: shorter is faster</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
    ]
    for place, (label, colour) in enumerate(_COLOURS.items()):
        x = _LEFT + 130 * place
        parts.append(f'<rect x="{x}" y="10" width="12" height="12" fill="{colour}"/>')
        parts.append(f'<text x="{x + 18}" y="20">{label}</text>')
    for number, (name, times) in enumerate(rows.items()):
        top = 36 + _ROW_HEIGHT * number
        parts.append(f'<text x="{_LEFT - 8}" y="{top + 18}" text-anchor="end">{name}</text>')
        for place, (time, colour) in enumerate(zip(times, _COLOURS.values(), strict=True)):
            if time is not None:
                y, width = top + (_BAR + 1) * place, round(unit * time)
                parts.append(f'<rect x="{_LEFT}" y="{y}" width="{width}" height="{_BAR}" fill="{colour}"/>')
                parts.append(f'<text x="{_LEFT + width + 4}" y="{y + 8}" font-size="9">{time:.2f}</text>')
    return "\n".join([*parts, "</svg>", ""])
