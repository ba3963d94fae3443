"""Every example runs and does what it says, on fewer steps than it takes by default."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch):
    """Import an example as its command does: with its own folder on the path."""
    monkeypatch.syspath_prepend(str(EXAMPLES))

    def load(name: str) -> ModuleType:
        return importlib.import_module(name)

    return load


def test_digits(example, capsys):
    assert example("digits").main(epochs=4) > 0.93
    printed = capsys.readouterr().out
    assert "verdict" in printed
    assert "equal bit for bit" in printed


def test_optax_loop(example, capsys):
    assert example("optax_loop").main(steps=60) > 0.9
    assert "test accuracy" in capsys.readouterr().out
