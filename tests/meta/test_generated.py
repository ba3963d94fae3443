"""What is generated from the registry, the layers, the stages and the docstrings is current."""

from __future__ import annotations

import pytest

from docs.tools import generate
from tests.support.pages import text_of


@pytest.mark.parametrize("path", generate.TARGETS)
def test_generated_files_are_current(path: str):
    text = getattr(generate, generate.TARGETS[path])()
    assert text_of(path) == text, f"{path} is old: run python docs/tools/generate.py"


def test_pages_count_the_operators_that_mxnet_has():
    """What MXNet lacks is counted apart: only our gradient rules write it, and its name says so."""
    own = [op.name for op in generate.public_operators() if not generate.of_mxnet(op)]
    assert [name for name in own if not name.startswith("_")] == []
    assert generate.classic_count() in generate.operators_page()
    assert f" and {len(own)} more that gradient rules are written with" in generate.operators_page()
