"""What is generated from the registry is current."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

_spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
assert _spec is not None
assert _spec.loader is not None
generate = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(generate)


@pytest.mark.parametrize("path", generate.TARGETS)
def test_generated_files_are_current(path: str):
    text = getattr(generate, generate.TARGETS[path])()
    assert (ROOT / path).read_text(encoding="utf-8") == text, f"{path} is old: run python docs/generate.py"
