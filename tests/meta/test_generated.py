"""What is generated from the registry, the layers, the stages and the docstrings is current."""

import pytest

from docs.tools import generate
from tests.support.pages import text_of


@pytest.mark.parametrize("path", generate.TARGETS)
def test_generated_files_are_current(path: str):
    text = getattr(generate, generate.TARGETS[path])()
    assert text_of(path) == text, f"{path} is old: run python docs/tools/generate.py"


def test_pages_count_the_operators_that_mxnet_has():
    """What MXNet lacks is counted apart: its card says so, or our gradient rules alone write it, and its name begins
    with an underscore."""
    own = [op for op in generate.public_operators() if generate.is_own(op)]
    rest = [op for op in generate.public_operators() if not generate.of_mxnet(op) and op not in own]
    unsaid = [op.name for op in rest if not op.name.startswith("_")]
    assert unsaid == [], f"MXNet 1.9.1 has no {unsaid}: say own=True on the card, in register_op (CONTRIBUTING.md)"
    wrong = [op.name for op in own if generate.of_mxnet(op)]
    assert wrong == [], f"MXNet 1.9.1 has {wrong}: leave own=True out"
    assert generate.mxnet_count() in generate.operators_page()
    assert f" and {len(rest)} more that gradient rules are written with" in generate.operators_page()
