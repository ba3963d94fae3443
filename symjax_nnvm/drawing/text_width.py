"""The width of a text, estimated from its letters: enough to size a box without asking a font."""

from __future__ import annotations

from math import fsum
from unicodedata import combining, east_asian_width

FAMILY = "Helvetica,Arial,'Liberation Sans',sans-serif"
"""Fonts of these widths, or a little narrower."""

_WIDTHS = {
    **dict.fromkeys("ijl'|", 0.25),
    **dict.fromkeys('ftI!,.:;/\\ []()r-`"', 0.32),
    **dict.fromkeys("ckJsvxyz*^{}", 0.5),
    **dict.fromkeys("CDGHNOQRUw&", 0.73),
    **dict.fromkeys("ABEKPSVXY", 0.67),
    **dict.fromkeys("mMW…", 0.9),
    **dict.fromkeys("%@—", 1.02),
}
"""Character → its width, 1 the size of the font; others of ASCII are as wide as a digit."""


def text_width(text: str, size: float) -> float:
    """Return the width of a line of text in a font of that size."""
    return size * fsum(_WIDTHS.get(letter) or _width(letter) for letter in text)


def _width(letter: str) -> float:
    if letter.isascii():
        return 0.56
    if combining(letter):
        return 0.0
    return 1.0 if east_asian_width(letter) in ("W", "F") else 0.65


def shortened(text: str, most: int) -> str:
    """Return the text, its middle left out where it is longer than `most` characters: names differ at their ends."""
    if len(text) <= most:
        return text
    end = most // 2
    return f"{text[: most - end - 1]}…{text[-end:]}"
