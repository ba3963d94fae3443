"""What is generated from the registry, the layers, the stages and the docstrings is current."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

_spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
assert _spec is not None
assert _spec.loader is not None
generate = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(generate)


@pytest.mark.parametrize("path", generate.TARGETS)
def test_generated_files_are_current(path: str):
    text = getattr(generate, generate.TARGETS[path])()
    assert (ROOT / path).read_text(encoding="utf-8") == text, f"{path} is old: run python docs/generate.py"


def test_pages_count_the_operators_that_mxnet_has():
    """What MXNet lacks is counted apart: nobody but our gradient rules writes it, and its name says so."""
    own = [op.name for op in generate.public_operators() if not generate.of_mxnet(op)]
    assert [name for name in own if not name.startswith("_")] == []
    assert generate.classic_count() in generate.operators_page()
    assert f" and {len(own)} more that gradient rules are written with" in generate.operators_page()
