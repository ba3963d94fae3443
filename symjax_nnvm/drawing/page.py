"""A picture in a notebook: SVG where the page may hold it, else an image of it."""

from __future__ import annotations

import re
from base64 import b64encode

_TRUSTED = (
    "<style>.symjax-svg{display:inline-block!important}.symjax-svg svg{max-width:none!important}"
    ".symjax-svg+img{display:none!important}</style>"
)
"""The styles that a notebook's front end drops from output that it does not trust."""


def in_page(svg: str) -> str:
    """Return HTML of an SVG document, at its own size.

    A front end shows the outputs of a notebook that another user has run without styles, and of an SVG its texts
    alone, one after another. So the SVG, which has each node's facts under the pointer, waits hidden until a style
    shows it in place of the image, which is the same without facts.
    """
    image = b64encode(re.sub("<title>[^<]*</title>", "", svg).encode()).decode()
    return (
        f'{_TRUSTED}<div class="symjax-svg" style="display:none">{svg}</div>'
        f'<img alt="" style="max-width:none" src="data:image/svg+xml;base64,{image}"/>'
    )


def scrolling(html: str) -> str:
    """Return HTML that is looked at through a window where it is higher or wider than a screen."""
    return f'<div style="overflow:auto;max-height:60em">{html}</div>'
