"""Sphinx's settings; `docs/tools/build_site.py` gives it the pages, of which it makes a copy first."""

import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

import symjax_nnvm

project = "symjax-nnvm"
version = release = symjax_nnvm.__version__
author = copyright = "the symjax-nnvm developers"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
myst_heading_anchors = 4
nitpicky = True
nitpick_ignore_regex = [("py:.*", ".*")]  # types of other projects in signatures, whose pages would need a network
highlight_language = "none"
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
napoleon_numpy_docstring = False
napoleon_use_ivar = True
autodoc_default_options = {"members": True}
maximum_signature_line_length = 90

html_theme = "furo"
html_title = project
html_copy_source = html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_search_scorer = str(Path(__file__).with_name("search_scores.js"))


def _as_rst(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Docstrings are plain text with `code` in it: signs that mean something to reStructuredText lose their meaning."""
    spans = re.split(r"(`+[^`]+`+)", "\n".join(lines))
    spans[::2] = (re.sub(r"[*|\\]|(?<=\w)_(?!\w)", r"\\\g<0>", text) for text in spans[::2])
    spans[1::2] = (f"\\ `{span}`\\ " for span in spans[1::2])  # the escaped spaces vanish: a letter may follow
    lines[:] = "".join(spans).split("\n")


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", _as_rst, priority=400)  # before Napoleon writes its own signs
